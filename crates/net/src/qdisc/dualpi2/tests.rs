//! What the two queues do: by explicit numbers, and under senders that answer to it.

use super::*;
use crate::qdisc::tests::packet;
use warpline_core::Streams;

fn dualpi2(params: DualPi2Params) -> DualPi2 {
    DualPi2::new(&params, &Sizing::default(), Streams::new(1).stream("dualpi2"))
}

fn put(queue: &mut DualPi2, now: Timestamp, slot: u32, ecn: Ecn) -> Verdict {
    let arriving = Queued { ecn, arrived: now, flow: slot, ..packet(slot, 1500) };
    queue.enqueue(now, arriving, &mut Dropped::default())
}

#[test]
fn the_base_probability_moves_by_distance_and_change() {
    let mut queue = dualpi2(DualPi2Params::default());
    put(&mut queue, Timestamp::ZERO, 0, Ecn::NotEct);
    // The head is 16 ms old, then 32: alpha (16 - 15) + beta 16, then alpha (32 - 15) + beta 16.
    queue.catch_up(Timestamp::from_millis(16));
    assert!((queue.probability - (0.16 * 0.001 + 3.2 * 0.016)).abs() < 1e-12, "{}", queue.probability);
    queue.catch_up(Timestamp::from_millis(47));
    queue.catch_up(Timestamp::from_millis(32));
    assert!((queue.probability - (0.16 * 0.018 + 3.2 * 0.032)).abs() < 1e-12, "{}", queue.probability);
    // The queue is empty: beta takes back what it gave, and the rest decays.
    queue.dequeue(Timestamp::from_millis(33), &mut Dropped::default());
    queue.catch_up(Timestamp::from_millis(48));
    assert!((queue.probability - 0.16 * 0.003).abs() < 1e-12, "{}", queue.probability);
    queue.catch_up(Timestamp::from_secs(100_000));
    assert_eq!((queue.probability, queue.next_update.as_millis()), (0.0, 100_000_016));
}

/// How often L4S and classic packets are marked and dropped at a base probability: (L4S marks, drops, classic marks, drops).
fn shares(params: DualPi2Params, base: f64, classic: Ecn) -> [f64; 4] {
    let (mut queue, mut counts) = (dualpi2(params), [0.0; 4]);
    for slot in 0..4 {
        queue.classic.push(packet(slot, 1500));
    }
    queue.probability = base;
    for (ecn, first) in [(Ecn::Ect1, 0), (classic, 2)] {
        for _ in 0..40_000 {
            let mut packet = Queued { ecn, ..packet(9, 1500) };
            let fate = queue.decide(first == 0);
            let stays = DualPi2::applied(fate, &mut packet);
            counts[first] += f64::from(u8::from(stays && packet.ecn == Ecn::Ce)) / 40_000.0;
            counts[first + 1] += f64::from(u8::from(!stays)) / 40_000.0;
        }
    }
    counts
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn l4s_is_marked_with_k_p_and_classic_with_its_square() {
    let near = |given: [f64; 4], expected: [f64; 4]| {
        let close = given.iter().zip(expected).all(|(given, expected)| (given - expected).abs() < 0.01);
        assert!(close, "{given:?}, not {expected:?}");
    };
    let params = DualPi2Params::default();
    near(shares(params, 0.3, Ecn::NotEct), [0.6, 0.0, 0.0, 0.09]);
    near(shares(params, 0.3, Ecn::Ect0), [0.6, 0.0, 0.09, 0.0]);
    near(shares(DualPi2Params { coupling: 1.0, ..params }, 0.3, Ecn::Ect0), [0.3, 0.0, 0.09, 0.0]);
    // Overload: above 25 % of drops nothing is spared by ECN.
    near(shares(params, 0.5, Ecn::Ect0), [1.0, 0.0, 0.25, 0.0]);
    near(shares(params, 0.6, Ecn::Ect0), [0.64, 0.36, 0.0, 0.36]);
    let [marks, drops, ..] = shares(DualPi2Params { drop_overload: false, ..params }, 0.6, Ecn::Ect0);
    assert!((marks - 1.0).abs() < 1e-9 && drops == 0.0, "{marks} {drops}");
}

#[test]
fn without_drops_on_overload_the_base_stays_at_one_over_k() {
    let probability = |drop_overload: bool| {
        let mut queue = dualpi2(DualPi2Params { drop_overload, ..DualPi2Params::default() });
        put(&mut queue, Timestamp::ZERO, 0, Ecn::Ect1);
        queue.catch_up(Timestamp::from_secs(60));
        queue.probability
    };
    assert_eq!((probability(true), probability(false)), (1.0, 0.5));
}

#[test]
fn the_native_marks_are_a_step_or_a_ramp() {
    let after = |params: DualPi2Params, micros: u64, others: u32| {
        let mut queue = dualpi2(params);
        for slot in 0..=others {
            put(&mut queue, Timestamp::ZERO, slot, Ecn::Ect1);
        }
        queue.dequeue(Timestamp::from_nanos(micros * 1000), &mut Dropped::default()).map(|p| p.ecn)
    };
    let params = DualPi2Params::default();
    assert_eq!((after(params, 1000, 0), after(params, 1001, 0)), (Some(Ecn::Ect1), Some(Ecn::Ce)));
    let longer = DualPi2Params { step_packets: 2, ..params };
    assert_eq!((after(longer, 5000, 1), after(longer, 5000, 2)), (Some(Ecn::Ect1), Some(Ecn::Ce)));
    let ramp =
        DualPi2Params { step: TimeDelta::from_micros(800), ramp: TimeDelta::from_micros(400), ..params };
    let native = |micros| dualpi2(ramp).native(TimeDelta::from_micros(micros));
    assert_eq!([800, 900, 1000, 1200, 3000].map(native), [0.0, 0.25, 0.5, 1.0, 1.0]);
    // A classic packet is never marked by a delay alone.
    let mut queue = dualpi2(params);
    put(&mut queue, Timestamp::ZERO, 0, Ecn::Ect0);
    let left = queue.dequeue(Timestamp::from_millis(10), &mut Dropped::default());
    assert_eq!(left.map(|packet| packet.ecn), Some(Ecn::Ect0));
}

#[test]
fn classic_has_its_share_and_l4s_goes_first() {
    let (mut queue, now) = (dualpi2(DualPi2Params::default()), Timestamp::ZERO);
    for slot in 0..400 {
        put(&mut queue, now, slot, if slot < 200 { Ecn::NotEct } else { Ecn::Ect1 });
    }
    let order: Vec<bool> = std::iter::from_fn(|| queue.dequeue(now, &mut Dropped::default()))
        .map(|packet| packet.ecn == Ecn::NotEct)
        .collect();
    // Eight full packets of credit at the start, then one classic packet in ten.
    assert_eq!(order.iter().position(|classic| *classic), Some(9));
    assert_eq!(order[9..209].iter().filter(|classic| **classic).count(), 20);
    assert_eq!(order.len(), 400);
    assert_eq!(queue.credit, 1500 * (1000 - 9000));
}

#[test]
fn one_limit_counts_both_queues() {
    let limit = QueueLimit::Packets(3);
    let mut queue = dualpi2(DualPi2Params { limit, ..DualPi2Params::default() });
    let full = Verdict::Dropped(DropReason::Overflow);
    let verdicts = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct];
    let verdicts = verdicts.map(|ecn| put(&mut queue, Timestamp::ZERO, 0, ecn));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Queued, full, full]);
    assert_eq!((queue.l4s.backlog().0, queue.backlog()), (1, (3, 4500)));
}

#[test]
fn early_drops_and_marks_are_told_on_arrival() {
    let verdict = |ecn: Ecn| {
        let mut queue = dualpi2(DualPi2Params { drop_early: true, ..DualPi2Params::default() });
        (0..2).for_each(|slot| queue.classic.push(packet(slot, 1500)));
        queue.probability = 0.5;
        (0..200).map(|_| put(&mut queue, Timestamp::ZERO, 3, ecn)).collect::<Vec<_>>()
    };
    assert!(verdict(Ecn::Ect1).iter().all(|verdict| *verdict == Verdict::Marked));
    let classic = verdict(Ecn::NotEct);
    assert!(classic.contains(&Verdict::Queued) && classic.contains(&Verdict::Dropped(DropReason::Aqm)));
}

#[test]
fn a_flow_that_builds_a_queue_is_moved_to_the_classic_one() {
    let protection = ProtectionParams { protect: true, ..ProtectionParams::default() };
    let mut queue = dualpi2(DualPi2Params { protection, ..DualPi2Params::default() });
    queue.set_rate(Rate::from_bps(12_000_000));
    let mut away = |flow: u32| {
        let arriving = Queued { flow, ecn: Ecn::Ect1, ..packet(0, 1500) };
        let before = queue.classic.backlog().0;
        queue.enqueue(Timestamp::ZERO, arriving, &mut Dropped::default());
        queue.classic.backlog().0 - before
    };
    // A packet takes 1 ms: the third one is the first to find more than that, and counts 2.86 ms.
    assert_eq!([1, 1, 1, 1].map(&mut away), [0, 0, 1, 1]);
    assert_eq!(away(2), 1);
}

/// A sender with a window, and what is on the way back to it: when each answer comes, and whether it tells of congestion.
struct Sender {
    ecn: Ecn,
    window: f64,
    out: f64,
    answers: std::collections::VecDeque<(Timestamp, bool)>,
    spared_until: Timestamp,
    /// Answers since the last round trip began, those of congestion, and the average share of these.
    answers_seen: f64,
    marks_seen: f64,
    share: f64,
    sent: u32,
    /// Sum of the delays in ms.
    delay: f64,
}

impl Sender {
    fn new(ecn: Ecn) -> Self {
        let answers = std::collections::VecDeque::new();
        let spared_until = Timestamp::ZERO;
        Sender {
            ecn,
            window: 10.0,
            out: 0.0,
            answers,
            spared_until,
            answers_seen: 0.0,
            marks_seen: 0.0,
            share: 0.0,
            sent: 0,
            delay: 0.0,
        }
    }
    fn answered(&mut self, now: Timestamp) {
        while let Some((_, congested)) = self.answers.pop_front_if(|(at, _)| *at <= now) {
            self.out -= 1.0;
            self.answers_seen += 1.0;
            self.marks_seen += f64::from(u8::from(congested));
            if self.answers_seen >= self.window {
                self.share += (self.marks_seen / self.answers_seen - self.share) / 16.0;
                if self.ecn == Ecn::Ect1 && self.marks_seen > 0.0 {
                    self.window = (self.window * (1.0 - self.share / 2.0)).max(2.0);
                }
                (self.answers_seen, self.marks_seen) = (0.0, 0.0);
            }
            match (congested, self.ecn) {
                (false, _) => self.window += 1.0 / self.window,
                // A scalable sender has answered as DCTCP does, by the share of marks; Reno halves once per round trip.
                (true, Ecn::Ect1) => {}
                (true, _) if now >= self.spared_until => {
                    self.window = (self.window / 2.0).max(2.0);
                    self.spared_until = now + TimeDelta::from_millis(25);
                }
                _ => {}
            }
        }
    }
}

/// Full packets leave every 100 us for 20 s, with 10 ms of round trip beside the queue; the second half counts.
fn loop_closed(senders: &mut [Sender]) {
    let mut queue = dualpi2(DualPi2Params::default());
    let mut lost = Dropped::default();
    for step in 0..200_000u64 {
        let now = Timestamp::from_nanos(step * 100_000);
        let back = now + TimeDelta::from_millis(10);
        for (flow, sender) in senders.iter_mut().enumerate() {
            sender.answered(now);
            while sender.out < sender.window {
                let flow = flow as u32;
                let arriving = Queued { ecn: sender.ecn, arrived: now, flow, ..packet(0, 1500) };
                if queue.enqueue(now, arriving, &mut lost) == Verdict::Queued {
                    sender.out += 1.0;
                }
            }
        }
        let left = queue.dequeue(now, &mut lost);
        for (packet, _) in lost.0.drain(..) {
            senders[packet.flow as usize].answers.push_back((back, true));
        }
        if let Some(packet) = left {
            let sender = &mut senders[packet.flow as usize];
            sender.answers.push_back((back, packet.ecn == Ecn::Ce));
            if step >= 100_000 {
                sender.sent += 1;
                sender.delay += now.saturating_since(packet.arrived).as_secs_f64() * 1e3;
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_scalable_and_a_classic_flow_share_and_only_one_waits() {
    let mut senders = [Sender::new(Ecn::Ect1), Sender::new(Ecn::NotEct)];
    loop_closed(&mut senders);
    let [l4s, classic] = senders.map(|sender| (sender.sent, sender.delay / f64::from(sender.sent)));
    assert!(l4s.0 + classic.0 > 98_000, "{l4s:?} {classic:?}");
    // Equal windows: the round trips are some 11 and 25 ms.
    let ratio = f64::from(l4s.0) / f64::from(classic.0);
    assert!((1.2..3.0).contains(&ratio), "{ratio}");
    assert!(l4s.1 < 1.0 && (10.0..20.0).contains(&classic.1), "{l4s:?} {classic:?}");
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_scalable_flow_by_itself_uses_the_link_with_a_queue_about_the_step() {
    let mut senders = [Sender::new(Ecn::Ect1)];
    loop_closed(&mut senders);
    let [(sent, delay)] = senders.map(|sender| (sender.sent, sender.delay / f64::from(sender.sent)));
    assert!(sent > 99_000 && (0.2..1.5).contains(&delay), "{sent} {delay}");
}
