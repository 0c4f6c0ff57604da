//! Both ends together: all data arrives once and in order, whatever the paths do.

use proptest::prelude::*;
use warpline_core::TimeDelta;
use warpline_core::parameter::Words as _;

use super::*;

fn path(room: u64, millis: u64) -> Path {
    Path { open: true, room, segment: 1000, srtt: TimeDelta::from_millis(millis) }
}

/// The subflows of the pieces that leave, one after the other, with room for so many segments on each.
fn order(sender: &mut Sender, rooms: &[u64]) -> Vec<usize> {
    let mut paths: Vec<Path> = rooms.iter().zip(1..).map(|(&room, n)| path(room * 1000, 100 / n)).collect();
    std::iter::from_fn(|| {
        let (subflow, piece) = sender.poll_piece(&paths)?;
        paths[subflow].room -= piece.len;
        Some(subflow)
    })
    .collect()
}

#[test]
fn schedulers_choose_as_they_are_named() {
    let sender = |scheduler| {
        let mut sender = Sender::new(scheduler, 3, 1 << 20);
        sender.write(5000);
        sender
    };
    // The third has the shortest round trip.
    assert_eq!(order(&mut sender(Scheduler::MinRtt), &[9, 1, 2]), [2, 2, 1, 0, 0]);
    assert_eq!(order(&mut sender(Scheduler::RoundRobin), &[9, 1, 2]), [0, 1, 2, 0, 2]);
    assert_eq!(order(&mut sender(Scheduler::Redundant), &[2, 0, 9]), [0, 2, 0, 2, 2, 2, 2]);
}

#[test]
fn the_receive_window_is_that_of_the_connection() {
    let mut sender = Sender::new(Scheduler::RoundRobin, 2, 2500);
    sender.set_unlimited();
    // Two segments, and no small one behind them.
    assert_eq!(order(&mut sender, &[9, 9]), [0, 1]);
    sender.on_acked(1, 1000, 0);
    assert_eq!(order(&mut sender, &[9, 9]), []);
    sender.on_acked(0, 1000, 2000);
    assert_eq!(order(&mut sender, &[9, 9]), [0, 1]);
    sender.end_here();
    assert_eq!(sender.end(), Some(4000));
    sender.on_acked(0, 2000, 4000);
    assert!(sender.is_done());
}

#[test]
fn what_a_lost_path_holds_goes_over_another_once() {
    let mut sender = Sender::new(Scheduler::MinRtt, 2, 1 << 20);
    sender.write(3000);
    assert_eq!(order(&mut sender, &[1, 2]), [1, 1, 0]);
    sender.on_acked(1, 1000, 1000);
    sender.give_up(1);
    sender.give_up(1);
    // Not on the same, though that has room.
    assert_eq!(order(&mut sender, &[0, 9]), []);
    let (subflow, piece) = sender.poll_piece(&[path(9000, 100), path(9000, 10)]).unwrap();
    assert_eq!((subflow, piece), (0, Piece { data: 1000, stream: 1000, len: 1000 }));
    assert_eq!(order(&mut sender, &[9, 9]), []);
    // That one arrives: what its path had is no longer of interest.
    sender.on_acked(0, 2000, 3000);
    sender.give_up(0);
    assert!(sender.is_done() && order(&mut sender, &[9, 9]).is_empty());
}

#[test]
fn intervals_are_between_losses_that_something_was_acknowledged_between() {
    let mut intervals = LossIntervals::default();
    intervals.update(5000, 0);
    assert_eq!(intervals.larger(), 5000);
    intervals.update(5000, 1);
    intervals.update(5000, 2);
    intervals.update(7000, 2);
    assert_eq!(intervals.larger(), 5000);
    intervals.update(7000, 3);
    assert_eq!(intervals.larger(), 2000);
    intervals.update(10_000, 3);
    assert_eq!(intervals.larger(), 3000);
}

/// What happens next on a path.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many bytes that were written to it arrive.
    Arrive(u64),
    /// Its acknowledgements arrive.
    Acknowledge,
    TimeOut,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let what = prop_oneof![
        6 => (1u64..3000).prop_map(Step::Arrive),
        3 => Just(Step::Acknowledge),
        1 => Just(Step::TimeOut),
    ];
    (0usize..3, what)
}

proptest! {
    #[test]
    fn all_data_arrives_once_and_in_order(
        steps in prop::collection::vec(step(), 0..300),
        scheduler in prop::sample::select(Scheduler::ALL),
        window in 300u64..20_000,
        bytes in 0u64..60_000,
    ) {
        let (mut sender, mut receiver) = (Sender::new(scheduler, 3, window), Receiver::new(3));
        sender.write(bytes);
        // Of each subflow: bytes written to it, arrived, acknowledged, and what its acknowledgements say of the data.
        let mut streams = [[0u64; 4]; 3];
        // What each byte of each stream stands for.
        let mut content: [Vec<u64>; 3] = Default::default();
        let mut sent = 0;
        let drain = (0..400).flat_map(|_| (0..3).flat_map(|at| [(at, Step::Arrive(9000)), (at, Step::Acknowledge)]));
        for (at, step) in steps.into_iter().chain(drain) {
            let paths = streams.map(|[written, _, acked, _]| path(4000u64.saturating_sub(written - acked), 10));
            if let Some((subflow, piece)) = sender.poll_piece(&paths) {
                prop_assert_eq!(piece.stream, streams[subflow][0]);
                prop_assert!(piece.len > 0 && piece.data + piece.len <= bytes.min(receiver.delivered() + window));
                content[subflow].extend(piece.data..piece.data + piece.len);
                streams[subflow][0] += piece.len;
                receiver.expect(subflow, piece);
                sent += piece.len;
            }
            let [written, arrived, acked, known] = &mut streams[at];
            match step {
                Step::Arrive(some) => {
                    *arrived = written.min(&mut (*arrived + some)).to_owned();
                    let before = receiver.delivered();
                    receiver.on_delivered(at, *arrived);
                    // What is delivered is what has arrived without a gap.
                    let mut here = vec![false; bytes as usize + 1];
                    for (content, [_, arrived, ..]) in content.iter().zip(&streams) {
                        content[..*arrived as usize].iter().for_each(|&byte| here[byte as usize] = true);
                    }
                    let whole = here.iter().position(|here| !here).unwrap_or(0) as u64;
                    prop_assert_eq!(receiver.delivered(), whole);
                    prop_assert!(whole >= before);
                    streams[at][3] = whole;
                }
                Step::Acknowledge => {
                    *acked = *arrived;
                    sender.on_acked(at, *acked, *known);
                }
                Step::TimeOut => sender.give_up(at),
            }
            let shares: u64 = (0..3).map(|at| receiver.share_of(at)).sum();
            prop_assert_eq!(shares, receiver.delivered());
        }
        prop_assert_eq!(receiver.delivered(), bytes);
        prop_assert!(sender.is_done() && sent >= bytes);
    }
}
