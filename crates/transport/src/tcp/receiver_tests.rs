//! The receiver by hand: what it reports, acknowledges, offers and forgets.

use warpline_core::Bytes;

use super::super::reassembly::MAX_RANGES;
use super::*;

fn receiver() -> Receiver {
    let mut r =
        Receiver::new(&TcpConfig { receive_buffer: Bytes(100_000), quick_acks: 0, ..TcpConfig::default() });
    r.set_scale(1);
    r.nxt = 1;
    r.acknowledge(false);
    r
}
fn ahead(r: &Receiver) -> &Ahead {
    r.ahead.as_ref().unwrap()
}
const NOW: Timestamp = Timestamp::from_secs(1);

#[test]
fn rfc_2018_section_4_case_2_reports_the_newest_block_first() {
    let mut r = receiver();
    for start in [1001u64, 3001, 5001] {
        r.on_data(NOW, start, start + 500, false);
    }
    let blocks: Vec<_> = r.sack_blocks(3).iter(r.nxt).collect();
    assert_eq!(blocks, [(5001, 5501), (3001, 3501), (1001, 1501)]);
    r.on_data(NOW, 3501, 4001, false);
    let blocks: Vec<_> = r.sack_blocks(3).iter(r.nxt).collect();
    assert_eq!(blocks, [(3001, 4001), (5001, 5501), (1001, 1501)]);
    r.on_data(NOW, 1, 1001, false);
    assert_eq!(r.nxt, 1501);
    let blocks: Vec<_> = r.sack_blocks(3).iter(r.nxt).collect();
    assert_eq!(blocks, [(3001, 4001), (5001, 5501)]);
}

/// Every second byte, from `first` on.
fn holes(r: &mut Receiver, first: u64, count: u64) {
    for start in (0..count).map(|n| first + 2 * n) {
        r.on_data(NOW, start, start + 1, false);
    }
}

#[test]
fn out_of_order_ranges_are_bounded_and_the_furthest_go_first() {
    let most = MAX_RANGES as u64;
    let mut r = receiver();
    holes(&mut r, 20_001, 20_000);
    assert_eq!(ahead(&r).ranges().len(), MAX_RANGES);
    assert_eq!(
        ahead(&r).ranges().last(),
        Some(&(20_001 + 2 * most - 2, 20_001 + 2 * most - 1)),
        "the lowest are kept"
    );
    // One closer than all others is worth more than the furthest eighth.
    r.on_data(NOW, 1001, 1101, false);
    assert_eq!(ahead(&r).ranges().len(), MAX_RANGES - MAX_RANGES / 8 + 1);
    assert_eq!(ahead(&r).ranges()[0], (1001, 1101));
    for (start, end) in r.sack_blocks(4).iter(r.nxt) {
        assert!(ahead(&r).ranges().contains(&(start, end)), "{start}..{end} was forgotten and is reported");
    }
    // What was forgotten is taken when it comes again.
    r.on_data(NOW, 1, 60_001, false);
    assert_eq!((r.nxt, ahead(&r).ranges().len(), ahead(&r).recent().len()), (60_001, 0, 0));
}

#[test]
fn a_range_between_the_kept_ones_takes_the_place_of_those_behind_it() {
    let mut r = receiver();
    holes(&mut r, 1001, MAX_RANGES as u64 - 1);
    r.on_data(NOW, 90_001, 90_002, false);
    r.on_data(NOW, 80_001, 80_002, false);
    assert_eq!(ahead(&r).ranges().len(), MAX_RANGES);
    assert_eq!(ahead(&r).ranges().last(), Some(&(80_001, 80_002)));
    assert_eq!(r.sack_blocks(1).iter(r.nxt).next(), Some((80_001, 80_002)));
}

#[test]
fn rfc_2883_duplicates_below_and_above() {
    let mut r = receiver();
    r.on_data(NOW, 1, 1001, false);
    assert_eq!(r.on_data(NOW, 501, 1001, false).duplicate, 500);
    assert_eq!(r.sack_blocks(3).iter(r.nxt).collect::<Vec<_>>(), [(501, 1001)]);
    assert!(!r.has_sack(), "reported once");
    r.on_data(NOW, 2001, 3001, false);
    r.on_data(NOW, 4001, 5001, false);
    assert_eq!(r.on_data(NOW, 2001, 2501, false).duplicate, 500);
    assert_eq!(r.sack_blocks(3).iter(r.nxt).collect::<Vec<_>>(), [(2001, 2501), (2001, 3001), (4001, 5001)]);
}

#[test]
fn every_second_full_segment_is_acknowledged_and_the_first_after_the_delay() {
    let mut r = receiver();
    r.on_in_order(NOW, 1000);
    assert!(!r.ack_now);
    assert_eq!(r.delayed_until, NOW + TimeDelta::from_millis(40));
    r.on_in_order(NOW, 1000);
    assert!(r.ack_now);
    r.acknowledge(false);
    assert!(!r.delayed_until.is_set());
}

#[test]
fn the_window_never_shrinks_and_opens_in_steps() {
    let mut r = receiver();
    r.set_auto_read(false);
    let mut edge = r.edge;
    for _ in 0..110 {
        let (start, end) = (r.nxt, (r.nxt + 1000).min(r.edge + 1000));
        r.on_data(NOW, start, end, false);
        r.acknowledge(false);
        assert!(r.edge >= edge && r.edge - r.nxt <= 100_000);
        edge = r.edge;
    }
    assert_eq!(r.acknowledge(false), 0);
    assert_eq!(r.take(10), 10);
    assert!(!r.ack_now, "ten bytes are a silly window");
    r.take(50_000);
    assert!(r.ack_now);
    assert!(r.acknowledge(false) >= 50_000);
}

#[test]
fn a_window_that_opens_waits_for_data_in_order_where_there_is_no_sack() {
    for sack in [false, true] {
        let mut r = Receiver::new(&TcpConfig {
            receive_buffer: Bytes(1_000_000),
            receive_ssthresh: Some(Bytes(50_000)),
            ..TcpConfig::default()
        });
        r.set_scale(1);
        (r.nxt, r.sack) = (1, sack);
        let first = r.acknowledge(false);
        r.on_data(NOW, 1001, 2001, false);
        r.on_data(NOW, 2001, 3001, false);
        // Another window, and it is no duplicate acknowledgement (RFC 5681 section 2).
        assert_eq!(r.acknowledge(false) > first, sack);
        r.on_data(NOW, 1, 1001, false);
        assert!(r.right_edge() > u64::from(first) + 3001, "data in order opens it");
    }
}

#[test]
fn a_fin_fits_behind_a_closed_window() {
    let mut r = receiver();
    r.set_auto_read(false);
    r.on_data(NOW, 1, 100_001, false);
    assert_eq!(r.acknowledge(false), 0);
    r.on_data(NOW, 100_001, 100_002, true);
    assert!(r.fin_received());
    assert_eq!(r.acknowledge(false), 0);
    assert_eq!(r.take(u64::MAX), 100_000);
}

#[test]
fn a_fin_is_taken_after_all_before_it() {
    let mut r = receiver();
    r.on_data(NOW, 1001, 2002, true);
    assert!(!r.fin_received());
    r.on_data(NOW, 1, 1001, false);
    assert!(r.fin_received());
    assert_eq!(r.delivered(), 2000);
}

#[test]
fn forged_fins_neither_end_a_stream_nor_move_its_end() {
    let mut r = receiver();
    r.on_data(NOW, 1, 1001, false);
    // Within what has been received; ahead of all; and between, where payload is to come.
    r.on_data(NOW, 400, 502, true);
    assert_eq!((r.fin_received(), r.delivered()), (false, 1000));
    r.on_data(NOW, 5001, 5002, true);
    r.on_data(NOW, 1501, 1502, true);
    r.on_data(NOW, 1001, 2001, false);
    assert_eq!((r.fin_received(), r.delivered(), r.nxt()), (false, 2000, 2001));
    // The real one, and what lies after it.
    r.on_data(NOW, 3002, 4001, false);
    r.on_data(NOW, 2001, 3002, true);
    assert_eq!((r.fin_received(), r.delivered(), r.nxt()), (true, 3000, 3002));
    assert!(!r.is_simple(3002, 3102) && ahead(&r).ranges().is_empty() && ahead(&r).recent().is_empty());
    for (start, end, fin) in [(3002, 3102, false), (3002, 3003, true), (2001, 2502, true), (5001, 5003, true)]
    {
        r.on_data(NOW, start, end, fin);
        assert_eq!((r.fin_received(), r.delivered(), r.nxt()), (true, 3000, 3002), "{start}..{end}");
        assert!(r.is_ack_due());
        r.acknowledge(false);
    }
}
