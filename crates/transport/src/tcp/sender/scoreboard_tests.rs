//! The scoreboard against a naive model, and its pieces by hand.

use proptest::prelude::*;
use warpline_core::Timestamp;

use super::super::rate::SendState;
use super::*;

const MSS: u64 = 1000;

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    for i in 0..segments {
        let at = Timestamp::from_millis(i);
        board.push(Sent {
            seq: 1 + i * MSS,
            len: MSS as u32,
            sent_at: at,
            first_sent_at: at,
            ..Sent::default()
        });
    }
    board
}

/// The counts, taken the slow way.
fn recount(board: &Scoreboard) -> (u64, u64, u64, u32) {
    let sum = |mask: u8| board.iter().filter(|s| s.flags & mask != 0).map(|s| u64::from(s.len)).sum::<u64>();
    let waiting =
        board.iter().filter(|s| s.flags & (Sent::SACKED | Sent::LOST | Sent::RETRANS) == Sent::LOST).count();
    (sum(Sent::SACKED), sum(Sent::LOST), sum(Sent::RETRANS), waiting as u32)
}

fn lost_by_sack(board: &mut Scoreboard) -> Vec<u64> {
    let mut lost = Vec::new();
    board.mark_by_sack(3, MSS, |sent| lost.push((sent.seq - 1) / MSS));
    lost
}

#[test]
fn an_acknowledgement_that_was_overtaken_leaves_what_is_known() {
    let mut b = board(10);
    let mut news = 0;
    for end in [5, 3, 6] {
        b.sack([(1 + MSS, 1 + end * MSS)].into_iter(), |_| news += 1);
        assert_eq!(b.known_blocks[0], (1 + MSS, 1 + end.max(5) * MSS));
    }
    assert_eq!(news, 5);
}

#[test]
fn a_block_that_is_named_again_is_not_walked_in_full() {
    let mut b = board(10);
    let sack = |b: &mut Scoreboard, start: u64, end: u64| {
        let mut news = Vec::new();
        b.sack([(1 + start * MSS, 1 + end * MSS)].into_iter(), |sent| news.push((sent.seq - 1) / MSS));
        news
    };
    for end in 3..8 {
        assert_eq!(sack(&mut b, 2, end), [end - 1]);
    }
    // The last acknowledgement does not have it any more.
    assert_eq!(sack(&mut b, 8, 9), [8]);
    assert!(sack(&mut b, 2, 7).is_empty());
    assert_eq!(b.at(2).unwrap().sacked_behind, 4);
    assert!(sack(&mut b, 8, 9).is_empty());
    assert_eq!(sack(&mut b, 2, 10), [7, 9]);
    assert_eq!(b.at(2).unwrap().sacked_behind, 7);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_run_may_be_longer_than_one_segment_can_say() {
    let most = u64::from(u16::MAX);
    let mut b = board(most + 10);
    for _ in 0..2 {
        b.sack([(1 + MSS, 1 + (most + 10) * MSS)].into_iter(), |_| ());
        b.known_blocks = [(0, 0); 4];
        let said = [1, most + 2].map(|position| b.at(position).unwrap().sacked_behind);
        assert_eq!((said, u64::from(b.sacked_segments)), ([u16::MAX, 7], most + 9));
    }
}

#[test]
fn what_comes_after_reneging_is_marked_where_it_is() {
    let mut b = board(12);
    let block = |start: u64, end: u64| [(1 + start * MSS, 1 + end * MSS)].into_iter();
    b.sack(block(1, 10), |_| ());
    b.clear_sacked();
    b.sack(block(2, 3), |_| ());
    let mut news = Vec::new();
    b.sack(block(10, 11), |sent| news.push((sent.seq - 1) / MSS));
    assert_eq!(news, [10]);
}

#[test]
fn the_segments_with_bytes_of_a_range_are_found_wherever_it_begins() {
    let mut b = board(5);
    b.pop(1 + MSS);
    let numbers = |start: u64, end: u64| b.between(start, end).map(|sent| sent.seq / MSS).collect::<Vec<_>>();
    let seq = |segment: u64| 1 + segment * MSS;
    assert_eq!(numbers(seq(1), seq(3)), [1, 2]);
    assert_eq!(numbers(seq(2) - 1, seq(2) + 1), [1, 2]);
    assert_eq!(numbers(seq(2), seq(2) + 1), [2]);
    assert_eq!(numbers(0, seq(9)), [1, 2, 3, 4]);
    assert_eq!((numbers(0, seq(1)), numbers(seq(5), seq(6))), (vec![], vec![]));
}

#[test]
fn rfc_6675_is_lost_needs_three_segments_or_three_runs_above() {
    let mut b = board(10);
    b.sack([(1 + MSS, 1 + 3 * MSS)].into_iter(), |_| ());
    assert!(lost_by_sack(&mut b).is_empty(), "two segments are not more than (3 - 1) * SMSS");
    b.sack([(1 + MSS, 1 + 4 * MSS)].into_iter(), |_| ());
    assert_eq!(lost_by_sack(&mut b), [0]);
    let mut b = board(10);
    for i in [1, 3, 5] {
        b.sack([(1 + i * MSS, 1 + (i + 1) * MSS)].into_iter(), |_| ());
    }
    assert_eq!(lost_by_sack(&mut b), [0], "only the first has three above it");
    b.sack([(1 + 7 * MSS, 1 + 8 * MSS)].into_iter(), |_| ());
    assert_eq!(lost_by_sack(&mut b), [2]);
}

#[test]
fn a_lost_retransmission_is_found_by_time_and_sent_again() {
    let mut b = board(4);
    let mut rack = Rack::new();
    let ms = Timestamp::from_millis;
    b.sack([(1 + MSS, 1 + 2 * MSS)].into_iter(), |_| ());
    let sent = *b.at(1).unwrap();
    rack.advance(ms(51), &sent);
    let mut lost = 0;
    assert_eq!(b.mark_by_time(&rack, ms(51), |_| lost += 1), None);
    assert_eq!((lost, b.next_waiting()), (1, Some(0)));
    b.retransmit(0, ms(51), SendState::default(), true);
    assert_eq!(b.next_waiting(), None);
    assert_eq!(b.in_flight(4 * MSS), 3 * MSS);
    // A segment sent after the retransmission is delivered.
    b.push(Sent { seq: 1 + 4 * MSS, len: 1000, sent_at: ms(60), ..Sent::default() });
    b.sack([(1 + 4 * MSS, 1 + 5 * MSS)].into_iter(), |_| ());
    let sent = *b.at(4).unwrap();
    rack.advance(ms(110), &sent);
    b.mark_by_time(&rack, ms(110), |_| lost += 1);
    assert_eq!(lost, 4, "segments 2 and 3, and the retransmission of 0");
    assert_eq!(b.next_waiting(), Some(0));
}

#[test]
fn a_segment_acknowledged_in_part_shrinks() {
    let mut b = board(2);
    b.mark_first_lost();
    assert_eq!(b.trim(1 + 400), 400);
    assert_eq!((b.front().unwrap().seq, b.front().unwrap().len, b.lost), (401, 600, 600));
}

proptest! {
    #[test]
    fn counts_always_match_the_marks(ops in prop::collection::vec((0u8..8, 0u64..40, 1u64..6), 1..80)) {
        let mut b = board(10);
        let mut next = 10u64;
        let mut una = 1u64;
        let mut rack = Rack::new();
        for (time, (op, at, n)) in ops.into_iter().enumerate() {
            let now = Timestamp::from_millis(100 + time as u64);
            match op {
                0 | 1 => for _ in 0..n {
                    b.push(Sent { seq: 1 + next * MSS, len: MSS as u32, sent_at: now, ..Sent::default() });
                    next += 1;
                },
                2 => {
                    una = una.max((1 + at * MSS).min(1 + next * MSS));
                    while b.pop(una).is_some() {}
                }
                3 => {
                    let (start, end) = (1 + at * MSS, 1 + (at + n) * MSS);
                    if start > una && end <= 1 + next * MSS {
                        let mut newest = None;
                        b.sack([(start, end)].into_iter(), |sent| newest = Some(*sent));
                        if let Some(sent) = newest {
                            rack.advance(now, &sent);
                        }
                    }
                }
                4 => b.mark_by_sack(3, MSS, |_| ()),
                5 => { b.mark_by_time(&rack, now, |_| ()); }
                6 => if let Some(p) = b.next_waiting() { b.retransmit(p, now, SendState::default(), true); },
                _ => match n {
                    1 => b.mark_all_lost(|_| ()),
                    2 => b.clear_lost(),
                    3 => b.clear_sacked(),
                    _ => { b.mark_first_lost(); }
                },
            }
            let (sacked, lost, retrans, waiting) = recount(&b);
            prop_assert_eq!((b.sacked, b.lost, b.retrans, b.lost_waiting), (sacked, lost, retrans, waiting));
            // Whatever waits is found, wherever the cursor is.
            let first = b.iter().position(|s| s.flags & (Sent::SACKED | Sent::LOST | Sent::RETRANS) == Sent::LOST);
            prop_assert_eq!(b.next_waiting().map(|p| p - b.segments.first()), first.map(|i| i as u64));
            prop_assert!(b.in_flight(b.len() * MSS) <= 2 * b.len() * MSS);
        }
    }
}

proptest! {
    /// Against a list that says of each segment whether it is sacked. A block may end within a segment, which is then not sacked.
    #[test]
    fn what_blocks_cover_is_sacked_and_nothing_else(
        ops in prop::collection::vec((0u8..12, prop::collection::vec((0u64..40, 1u64..20, 0u64..2), 1..5)), 1..60),
    ) {
        let mut b = board(40);
        let (mut sacked, mut una) = ([false; 40], 0u64);
        for (op, blocks) in ops {
            match op {
                0 => {
                    una = una.max(blocks[0].0 / 4);
                    while b.pop(1 + una * MSS).is_some() {}
                }
                1 => {
                    b.clear_sacked();
                    sacked = [false; 40];
                }
                _ => {
                    let within = |(start, len, less): (u64, u64, u64)| (start.max(una), (start + len).min(40), less);
                    let blocks = blocks.into_iter().map(within).filter(|(start, end, _)| start < end);
                    let blocks: Vec<_> = blocks.collect();
                    let in_bytes = blocks.iter().map(|&(start, end, less)| (1 + start * MSS, 1 + end * MSS - less));
                    let (mut news, mut expected) = (Vec::new(), Vec::new());
                    b.sack(in_bytes, |sent| news.push((sent.seq - 1) / MSS));
                    for &(start, end, less) in &blocks {
                        let fresh = (start..end - less).filter(|&n| !std::mem::replace(&mut sacked[n as usize], true));
                        expected.extend(fresh);
                    }
                    prop_assert_eq!(news, expected);
                }
            }
            let marks = b.iter().map(|sent| sent.flags & Sent::SACKED != 0);
            prop_assert!(marks.eq(sacked[una as usize..].iter().copied()));
        }
    }
}

#[test]
fn segments_are_cut_and_the_counts_still_hold() {
    let mut b = board(6);
    b.sack([(1 + 2 * MSS, 1 + 3 * MSS)].into_iter(), |_| ());
    b.mark_first_lost();
    b.retransmit(0, Timestamp::from_millis(9), SendState::default(), true);
    b.push(Sent { seq: 1 + 6 * MSS, len: 101, flags: Sent::FIN, ..Sent::default() });
    assert!(!b.split(1000));
    assert!(b.split(400));
    assert_eq!((b.sacked, b.lost, b.retrans, b.lost_waiting), recount(&b));
    // Five of three pieces, the sacked one, and the last, which is small.
    assert_eq!((b.len(), b.lost, b.retrans), (17, 5 * MSS, 0));
    let mut next = 1;
    for sent in b.iter() {
        assert_eq!(sent.seq, next);
        next = sent.end();
    }
    assert!(b.split(99));
    let last = b.iter().last().copied().unwrap();
    assert_eq!((last.payload(), last.len, last.flags & Sent::FIN), (1, 2, Sent::FIN));
    assert_eq!((b.sacked, b.lost, b.retrans, b.lost_waiting), recount(&b));
}
