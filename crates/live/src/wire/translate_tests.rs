//! Tests of the numbers of a connection, and of refused segments.

use proptest::prelude::*;
use warpline_core::{AccEcn, Flags, SackBlocks, Segment, SynOptions, Timestamp};

use super::*;

const ISN: u32 = u32::MAX - 1000;
const PEER_ISN: u32 = u32::MAX - 5;
const CLOCK: u32 = 0x8000_0000;
const NOW: Timestamp = Timestamp::from_secs(10);
/// The peer's clock at `NOW`.
const PEER_CLOCK: u32 = u32::MAX - 3;

fn flags(all: &[Flags]) -> Flags {
    all.iter().fold(Flags::default(), |all, flag| all.with(*flag))
}

/// The server's side of a handshake: our windows are scaled by 3, the peer's by 7.
fn opened() -> Translator {
    let mut translator = Translator::new(80, 4000, false, ISN, CLOCK);
    let syn = WireSegment {
        source_port: 4000,
        destination_port: 80,
        seq: PEER_ISN,
        flags: Flags::SYN,
        window: 60_000,
        mss: Some(1400),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((PEER_CLOCK, 77)),
        ..WireSegment::default()
    };
    let Incoming::Deliver(segment) = translator.incoming(NOW, &syn, 0) else { panic!() };
    let value = 10_000 + CLOCK_LEAD;
    let expected = Segment {
        window: 60_000,
        flags: Flags::SYN,
        timestamps: Some((value, 0)),
        syn: SynOptions { mss: 1400, window_scale: Some(7), sack_permitted: true },
        ..Segment::default()
    };
    assert_eq!(segment, expected);
    let answer = translator.outgoing(&Segment {
        ack: 1,
        window: 65_535,
        flags: flags(&[Flags::SYN, Flags::ACK]),
        timestamps: Some((10_000, value)),
        syn: SynOptions { mss: 1460, window_scale: Some(3), sack_permitted: true },
        ..Segment::default()
    });
    assert_eq!((answer.seq, answer.ack, answer.window), (ISN, PEER_ISN + 1, 65_535));
    assert_eq!((answer.source_port, answer.destination_port), (80, 4000));
    assert_eq!(answer.timestamps, Some((CLOCK + 10_000, PEER_CLOCK)));
    assert!(matches!(translator.incoming(NOW, &plain(1, 1), 0), Incoming::Deliver(_)));
    translator
}

/// A segment from the peer's position `seq`, which acknowledges ours.
fn plain(seq: u64, ack: u64) -> WireSegment {
    WireSegment {
        source_port: 4000,
        destination_port: 80,
        seq: PEER_ISN.wrapping_add(seq as u32),
        ack: ISN.wrapping_add(ack as u32),
        flags: Flags::ACK,
        window: 500,
        timestamps: Some((PEER_CLOCK, CLOCK + 10_000)),
        ..WireSegment::default()
    }
}

/// We have sent `sent` and acknowledged `acked`, offering `window`.
fn advance(translator: &mut Translator, sent: u64, acked: u64, window: u32) {
    translator.outgoing(&Segment {
        seq: sent,
        ack: acked,
        window,
        flags: Flags::ACK,
        timestamps: Some((10_000, 0)),
        ..Segment::default()
    });
}

#[test]
fn a_handshake_settles_the_numbers() {
    let mut translator = opened();
    // Data that wraps, answered by a window of 500 << 7.
    let wire = translator.outgoing(&Segment {
        seq: 900,
        len: 200,
        ack: 10,
        window: 80_000,
        flags: Flags::ACK,
        timestamps: Some((10_005, 10_000 + CLOCK_LEAD + 1)),
        ..Segment::default()
    });
    assert_eq!((wire.seq, wire.ack, wire.window), (ISN + 900, 4, 10_000));
    assert_eq!(wire.timestamps, Some((CLOCK + 10_005, PEER_CLOCK + 1)));
    let Incoming::Deliver(segment) = translator.incoming(NOW, &plain(10, 1100), 30) else { panic!() };
    assert_eq!((segment.seq, segment.len, segment.ack, segment.window), (10, 30, 1100, 64_000));
    assert_eq!(segment.timestamps, Some((10_000 + CLOCK_LEAD, 10_000)));
}

#[test]
fn a_window_is_scaled_only_if_both_offer() {
    let mut translator = Translator::new(80, 4000, false, ISN, 0);
    let syn = WireSegment { seq: 5, flags: Flags::SYN, window: 9000, ..WireSegment::default() };
    let Incoming::Deliver(segment) = translator.incoming(NOW, &syn, 100) else { panic!() };
    // No MSS: that of RFC 9293. No data from a SYN.
    assert_eq!((segment.syn.mss, segment.len), (536, 0));
    let answer =
        Segment { ack: 1, window: 65_535, flags: flags(&[Flags::SYN, Flags::ACK]), ..Segment::default() };
    translator.outgoing(&answer);
    let wire = translator.outgoing(&Segment {
        seq: 1,
        ack: 1,
        window: 60_000,
        flags: Flags::ACK,
        ..Segment::default()
    });
    assert_eq!(wire.window, 60_000);
    let ack =
        WireSegment { seq: 6, ack: ISN + 1, flags: Flags::ACK, window: 700, timestamps: Some((1, 2)), ..syn };
    let Incoming::Deliver(segment) = translator.incoming(NOW, &ack, 0) else { panic!() };
    assert_eq!((segment.window, segment.timestamps), (700, None));
}

#[test]
fn the_other_side_may_answer_or_open_too() {
    let open = || {
        let mut translator = Translator::new(80, 4000, true, ISN, 0);
        let syn = SynOptions { mss: 1440, window_scale: Some(20), sack_permitted: true };
        translator.outgoing(&Segment { flags: Flags::SYN, window: 65_535, syn, ..Segment::default() });
        translator
    };
    let syn =
        WireSegment { seq: PEER_ISN, flags: Flags::SYN, window_scale: Some(200), ..WireSegment::default() };
    // Simultaneous open.
    let Incoming::Deliver(segment) = open().incoming(NOW, &syn, 0) else { panic!() };
    assert_eq!((segment.flags, segment.syn.mss, segment.syn.window_scale), (Flags::SYN, 1220, Some(14)));
    // The answer; one to something else; correct and wrong resets; a stray.
    let answer = WireSegment { ack: ISN + 1, flags: flags(&[Flags::SYN, Flags::ACK]), ..syn };
    let Incoming::Deliver(segment) = open().incoming(NOW, &answer, 0) else { panic!() };
    assert_eq!((segment.seq, segment.ack), (0, 1));
    let wrong = WireSegment { ack: ISN + 2, ..answer };
    let Incoming::Reset(reset) = open().incoming(NOW, &wrong, 0) else { panic!() };
    assert_eq!((reset.seq, reset.flags), (ISN + 2, Flags::RST));
    let refused = WireSegment { flags: flags(&[Flags::RST, Flags::ACK]), ..answer };
    let Incoming::Deliver(segment) = open().incoming(NOW, &refused, 0) else { panic!() };
    assert_eq!((segment.ack, segment.flags), (1, refused.flags));
    let blind = WireSegment { ack: ISN + 2, ..refused };
    assert_eq!(open().incoming(NOW, &blind, 0), Incoming::Drop(Refusal::Acknowledgement));
    let bare = WireSegment { flags: Flags::RST, ..refused };
    assert_eq!(open().incoming(NOW, &bare, 0), Incoming::Drop(Refusal::Unsynchronised));
    let stray = WireSegment { flags: Flags::ACK, ..answer };
    assert_eq!(open().incoming(NOW, &stray, 0), Incoming::Drop(Refusal::Unsynchronised));
}

#[test]
fn what_no_honest_peer_sends_is_kept_out() {
    let mut translator = opened();
    advance(&mut translator, 100_000, 50_000, 80_000);
    let later = |n: u64| NOW + TimeDelta::from_secs(n);
    let mut at = 0;
    let mut refusal = |wire: &WireSegment, len| {
        at += 1;
        match translator.incoming(later(at), wire, len) {
            Incoming::Drop(refusal) => Some((refusal, false)),
            Incoming::Acknowledge(refusal) => Some((refusal, true)),
            Incoming::Deliver(_) => None,
            Incoming::Reset(_) => panic!(),
        }
    };
    let with = |wire: WireSegment, flags| WireSegment { flags, ..wire };
    // In the window, at its edge, a keep-alive, a duplicate.
    for (seq, len) in [(50_000, 10), (130_000, 0), (130_000, 1), (49_999, 0), (49_999, 1), (40_000, 1000)] {
        assert_eq!(refusal(&plain(seq, 100_000), len), None, "{seq}");
    }
    // Beyond it, and long before it.
    assert_eq!(refusal(&plain(130_001, 100_000), 10), Some((Refusal::OutsideWindow, true)));
    assert_eq!(refusal(&plain(50_000 + (1 << 31), 100_000), 10), Some((Refusal::OutsideWindow, true)));
    // Acknowledges data that was not sent.
    assert_eq!(refusal(&plain(50_000, 100_001), 0), Some((Refusal::Acknowledgement, true)));
    assert_eq!(refusal(&with(plain(50_000, 1), Flags::PSH), 5), Some((Refusal::Acknowledgement, false)));
    // RFC 5961: a blind SYN, blind resets.
    assert_eq!(refusal(&with(plain(60_000, 0), Flags::SYN), 0), Some((Refusal::Syn, true)));
    assert_eq!(refusal(&with(plain(49_999, 0), Flags::RST), 0), Some((Refusal::OutsideWindow, false)));
    assert_eq!(refusal(&with(plain(130_001, 0), Flags::RST), 0), Some((Refusal::OutsideWindow, false)));
    assert_eq!(refusal(&with(plain(50_000, 0), Flags::RST), 0), None);
    // Challenges are rate-limited.
    let blind = with(plain(60_000, 0), Flags::SYN);
    assert!(matches!(translator.incoming(later(50), &blind, 0), Incoming::Acknowledge(_)));
    assert!(matches!(translator.incoming(later(50), &blind, 0), Incoming::Drop(_)));
    let challenge = translator.acknowledgement(later(50));
    assert_eq!((challenge.seq, challenge.ack), (ISN.wrapping_add(100_000), PEER_ISN.wrapping_add(50_000)));
    assert_eq!((challenge.window, challenge.flags), (10_000, Flags::ACK));
}

#[test]
fn acknowledgements_may_be_old_but_not_too_old() {
    let mut translator = opened();
    advance(&mut translator, 1_000_000, 1, 80_000);
    assert!(matches!(translator.incoming(NOW, &plain(1, 1_000_000), 0), Incoming::Deliver(_)));
    assert!(matches!(translator.incoming(NOW, &plain(1, 1_000_000 - 65_535), 0), Incoming::Deliver(_)));
    let refused = translator.incoming(NOW, &plain(1, 1_000_000 - 65_536), 0);
    assert_eq!(refused, Incoming::Acknowledge(Refusal::Acknowledgement));
}

#[test]
fn old_timestamps_are_refused_as_paws_says() {
    let mut translator = opened();
    let at = |value: u32, seq| WireSegment { timestamps: Some((value, CLOCK)), ..plain(seq, 1) };
    // Across the wrap of the peer's clock.
    assert!(matches!(translator.incoming(NOW, &at(100, 1), 10), Incoming::Deliver(_)));
    let fin = WireSegment { flags: Flags::FIN.with(Flags::ACK), ..at(90, 1) };
    assert_eq!(translator.incoming(NOW, &fin, 0), Incoming::Acknowledge(Refusal::Timestamp));
    assert!(
        matches!(translator.incoming(NOW, &at(90, 1), 10), Incoming::Deliver(_)),
        "the connection refuses it"
    );
    assert_eq!(translator.incoming(NOW, &at(90, 1), 0), Incoming::Drop(Refusal::Timestamp));
    assert!(matches!(translator.incoming(NOW, &at(99, 1), 10), Incoming::Deliver(_)));
    // Out of order: does not become the reference.
    assert!(matches!(translator.incoming(NOW, &at(500, 2000), 10), Incoming::Deliver(_)));
    assert!(matches!(translator.incoming(NOW, &at(100, 1), 10), Incoming::Deliver(_)));
    // A reset needs none, and a clock may have wrapped after 24 days.
    let reset = WireSegment { flags: Flags::RST, ..at(0, 1) };
    assert!(matches!(translator.clone().incoming(NOW, &reset, 0), Incoming::Deliver(_)));
    let late = NOW + TimeDelta::from_secs(25 * 24 * 3600);
    assert!(matches!(translator.incoming(late, &at(90, 1), 10), Incoming::Deliver(_)));
}

#[test]
fn time_wait_gives_way_to_what_is_newer() {
    let mut translator = opened();
    advance(&mut translator, 10, 5000, 80_000);
    let syn = |seq: u64, value: u32| WireSegment { timestamps: Some((value, 0)), ..plain(seq, 0) };
    assert!(translator.is_succeeded_by(&syn(5001, PEER_CLOCK)));
    assert!(translator.is_succeeded_by(&syn(0, PEER_CLOCK.wrapping_add(9))));
    assert!(!translator.is_succeeded_by(&syn(5000, PEER_CLOCK)));
}

#[test]
fn impossible_blocks_are_left_out() {
    let mut translator = opened();
    advance(&mut translator, 10_000, 1, 80_000);
    let mut wire = plain(1, 4000);
    let number = |position: u64| ISN.wrapping_add(position as u32);
    wire.sack.push(number(1000), number(2000)); // D-SACK
    wire.sack.push(number(9000), number(10_001)); // not sent
    wire.sack.push(number(6000), number(6000)); // nothing
    wire.sack.push(number(5000), number(10_000));
    let Incoming::Deliver(segment) = translator.incoming(NOW, &wire, 0) else { panic!() };
    assert_eq!(segment.sack.iter(4000).collect::<Vec<_>>(), [(1000, 2000), (5000, 10_000)]);
}

#[test]
fn resets_for_no_connection_are_those_of_the_rfc() {
    let wire = WireSegment { flags: flags(&[Flags::SYN, Flags::FIN]), seq: 7, ack: 9, ..plain(0, 0) };
    let reset = reset_with_ack(&wire, 5);
    assert_eq!((reset.seq, reset.flags), (0, flags(&[Flags::RST, Flags::ACK])));
    assert_eq!((reset.ack, reset.source_port, reset.destination_port), (wire.seq.wrapping_add(7), 80, 4000));
    let wire = WireSegment { flags: Flags::ACK, ack: 9, ..wire };
    assert_eq!((reset_with_ack(&wire, 5).seq, reset_with_ack(&wire, 5).flags), (9, Flags::RST));
}

proptest! {
    /// Two translators that face each other return what they were given, wherever the numbers begin and however far the stream is.
    #[test]
    fn segments_survive_the_round_trip(
        isns: (u32, u32), clocks: (u32, u32), far in 1u64..1 << 40, steps in prop::collection::vec((0u32..1400, 0u32..1 << 20), 1..20),
        fin: bool,
    ) {
        let mut left = Translator::new(1, 2, false, isns.0, clocks.0);
        let mut right = Translator::new(2, 1, false, isns.1, clocks.1);
        let syn = SynOptions { mss: 1460, window_scale: Some(4), sack_permitted: true };
        let open = Segment { flags: Flags::SYN, window: 65_535, syn, timestamps: Some((10_000, 0)), ..Segment::default() };
        let wire = left.outgoing(&open);
        prop_assert!(matches!(right.incoming(NOW, &wire, 0), Incoming::Deliver(_)));
        let wire = right.outgoing(&Segment { ack: 1, flags: flags(&[Flags::SYN, Flags::ACK]), ..open });
        prop_assert!(matches!(left.incoming(NOW, &wire, 0), Incoming::Deliver(_)));
        // As if this much had been sent and acknowledged.
        let (mut position, acked) = (far, 1);
        (left.next_out, left.una) = (far, far);
        (right.next_in, right.edge_in, right.una) = (far, far + (1 << 20), 1);
        for (len, window) in steps {
            let mut segment = Segment {
                seq: position,
                ack: acked,
                len,
                window: window & !15,
                flags: if fin { flags(&[Flags::ACK, Flags::FIN]) } else { Flags::ACK },
                timestamps: Some((10_000, 10_000)),
                ..Segment::default()
            };
            let wire = left.outgoing(&segment);
            let Incoming::Deliver(got) = right.incoming(NOW, &wire, len as usize) else { panic!("{segment:?}") };
            prop_assert_eq!((got.seq, got.ack, got.len, got.window, got.flags), (segment.seq, segment.ack, len, segment.window, segment.flags));
            position += u64::from(len) + u64::from(fin);
            segment = Segment { seq: acked, ack: position - u64::from(len), window: 1 << 20, flags: Flags::ACK, len: 0, ..segment };
            let mut sack = SackBlocks::NONE;
            sack.push(segment.ack, position - u64::from(len.min(10)), position);
            segment.sack = if len > 0 { sack } else { SackBlocks::NONE };
            assert!(segment.set_accecn(&AccEcn::new([len, 7, 1], false, 2)));
            let wire = right.outgoing(&segment);
            let Incoming::Deliver(got) = left.incoming(NOW, &wire, 0) else { panic!("{segment:?}") };
            prop_assert_eq!((got.ack, got.sack), (segment.ack, segment.sack));
        }
    }
}
