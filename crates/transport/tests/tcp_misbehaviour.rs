//! Receivers that break the rules (Savage et al., CCR 1999; RFC 3168 section 20): what they send, and what a sender that counts bytes makes of it.

mod common;

use common::*;
use warpline_core::{Rate, Segment, TimeDelta, Timestamp};
use warpline_transport::tcp::{EcnFeedback, Misbehaviour, TcpConfig};

const MSS: u64 = 1448;

/// The end that receives, on a path without limits of 20 ms one way.
fn wire(how: Misbehaviour, config: &TcpConfig) -> Wire {
    let receiver = TcpConfig { misbehaviour: how, ..config.clone() };
    Wire::new(client(config), server(&receiver), Channel::clean(20), Channel::clean(20), 1)
}

/// The acknowledgements of the receiver after the handshake.
fn acks(wire: &Wire) -> Vec<Segment> {
    wire.seen.iter().filter(|seen| !seen.from_client).skip(1).map(|seen| seen.segment).collect()
}

/// Sends so much, and closes.
fn transfer(wire: &mut Wire, bytes: u64) {
    wire.open();
    assert_eq!(wire.client.write(bytes), bytes);
    wire.client.close();
    wire.server.close();
    let whole = |w: &Wire| w.client.is_closed() && w.server.peer_closed();
    assert!(wire.run_until(Timestamp::from_secs(60), whole), "{:?} {:?}", wire.client, wire.server);
}

#[test]
fn ack_division_acknowledges_each_segment_in_eight_pieces() {
    let mut wire = wire(Misbehaviour::AckDivision, &TcpConfig::default());
    wire.establish();
    assert_eq!(wire.client.write(2 * MSS + 3), 2 * MSS + 3);
    wire.run_for(TimeDelta::from_millis(100));
    let positions: Vec<u64> = acks(&wire).iter().map(|ack| ack.ack - 1).collect();
    let mut expected: Vec<u64> = (1..=16).map(|n| n * MSS / 8).collect();
    // Three bytes make three pieces.
    expected.extend((1..=3).map(|n| 2 * MSS + n));
    assert_eq!(positions, expected);
    assert_eq!(wire.server.bytes_delivered(), 2 * MSS + 3);
}

#[test]
fn duplicate_acks_follow_every_acknowledgement() {
    let mut wire = wire(Misbehaviour::DuplicateAcks, &TcpConfig::default());
    wire.establish();
    assert_eq!(wire.client.write(2 * MSS), 2 * MSS);
    wire.run_for(TimeDelta::from_millis(100));
    let positions: Vec<u64> = acks(&wire).iter().map(|ack| ack.ack - 1).collect();
    assert_eq!(positions, [[MSS; 9], [2 * MSS; 9]].concat());
}

#[test]
fn a_sender_that_counts_bytes_opens_its_window_no_faster() {
    let window = |how| {
        let config = TcpConfig { delayed_ack: TimeDelta::ZERO, ..TcpConfig::default() };
        let mut wire = wire(how, &config);
        wire.client.set_unlimited(true);
        wire.open();
        // The handshake and five round trips.
        wire.run(Timestamp::from_millis(270));
        (wire.client.cwnd(), wire.client.stats().retransmitted_segments)
    };
    let honest = window(Misbehaviour::None);
    assert_eq!(honest, (10 * 32 * MSS, 0), "it doubles");
    // RFC 5681 section 3.1, and RFC 3042 section 2 with SACK.
    assert_eq!(window(Misbehaviour::AckDivision), honest);
    assert_eq!(window(Misbehaviour::DuplicateAcks), honest);
    // What is on its way counts, too.
    let optimistic = window(Misbehaviour::OptimisticAcks);
    assert!(optimistic.0 > honest.0 + honest.0 / 10, "{optimistic:?}");
}

#[test]
fn hidden_marks_reach_no_sender_and_are_counted_where_they_arrive() {
    for feedback in [EcnFeedback::Rfc3168, EcnFeedback::Dctcp, EcnFeedback::Accecn] {
        let run = |how| {
            let config = TcpConfig { ecn: true, ecn_feedback: feedback, ..TcpConfig::default() };
            let mut wire = wire(how, &config);
            let rate = Some(Rate::from_bps(10_000_000));
            wire.channels[0] = Channel { rate, limit: 200, mark_above: Some(20), ..Channel::clean(20) };
            wire.client.set_unlimited(true);
            wire.open();
            wire.run(Timestamp::from_secs(3));
            let marks = wire.server.stats().ce_marks;
            assert!(marks > 10, "{feedback:?} {how:?}: {marks}");
            wire.client.stats().ecn_reductions
        };
        assert!(run(Misbehaviour::None) > 0, "{feedback:?}");
        assert_eq!(run(Misbehaviour::HiddenMarks), 0, "{feedback:?}");
    }
}

#[test]
fn optimistic_acks_hide_losses_and_the_length_of_the_path() {
    let run = |how, loss| {
        let mut wire = wire(how, &TcpConfig::default());
        wire.channels[0] =
            Channel { loss, rate: Some(Rate::from_bps(10_000_000)), limit: 200, ..Channel::clean(20) };
        wire.client.set_unlimited(true);
        wire.open();
        wire.run(Timestamp::from_secs(5));
        wire
    };
    let honest = run(Misbehaviour::None, 0.05);
    assert!(honest.client.stats().lost_segments > 10 && honest.server.stats().missing_bytes == 0);
    assert!(honest.client.min_rtt() >= TimeDelta::from_millis(40));
    let wire = run(Misbehaviour::OptimisticAcks, 0.05);
    let (sent, received) = (wire.client.stats(), wire.server.stats());
    assert_eq!((sent.lost_segments, sent.rtos), (0, 0));
    assert!(wire.client.min_rtt() < TimeDelta::from_millis(40), "{:?}", wire.client.min_rtt());
    // What arrived in order, and the holes in it: all that was sent, less what is on its way.
    let missing = received.missing_bytes as f64 / wire.server.bytes_delivered() as f64;
    assert!(missing > 0.04, "{missing}");
    assert!(wire.client.bytes_acked() > 2 * honest.client.bytes_acked());
}

#[test]
fn connections_end_whatever_the_receiver_does() {
    for how in [
        Misbehaviour::None,
        Misbehaviour::AckDivision,
        Misbehaviour::DuplicateAcks,
        Misbehaviour::OptimisticAcks,
        Misbehaviour::HiddenMarks,
    ] {
        for sack in [true, false] {
            let mut wire = wire(how, &TcpConfig { sack, ..TcpConfig::default() });
            // Also where it claims more than has been sent: at the end of the data.
            transfer(&mut wire, 3_000_000);
            assert_eq!(wire.server.bytes_delivered(), 3_000_000, "{how:?}");
            assert_eq!(
                (wire.server.stats().missing_bytes, wire.client.bytes_acked()),
                (0, 3_000_000),
                "{how:?}"
            );
        }
    }
}
