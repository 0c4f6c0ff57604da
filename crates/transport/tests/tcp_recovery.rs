//! Loss recovery, mechanism by mechanism: what is sent again, when, and what congestion control is told.

mod common;

use common::*;
use warpline_core::record::{LossTrigger, TcpEvent};
use warpline_core::{Rate, TimeDelta, Timestamp};
use warpline_transport::cc::Phase;
use warpline_transport::tcp::{Connection, Recovery, TcpConfig, Window};

const MSS: u64 = 1448;
const RECOVERIES: [Recovery; 4] = [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack];

/// A stack of the given kind of recovery without newer additions.
fn classic(recovery: Recovery) -> TcpConfig {
    TcpConfig {
        recovery,
        sack: recovery == Recovery::Sack,
        rack: false,
        tlp: false,
        prr: false,
        undo: false,
        dsack: false,
        delayed_ack: TimeDelta::ZERO,
        initial_window: Window::Segments(20.0),
        ..TcpConfig::default()
    }
}

/// A wire of 40 ms RTT on which the given segments of a transfer of `segments` are lost; run for ten seconds.
fn transfer(config: &TcpConfig, segments: u64, lost: &[u64]) -> Wire {
    let mut wire = Wire::plain(config, 20);
    wire.client.set_recording(true);
    wire.channels[0].drop_data = lost.to_vec();
    wire.client.write(segments * MSS);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(10));
    assert_eq!(wire.server.bytes_delivered(), segments * MSS);
    wire
}

/// When segment `n` was sent, counted from the first data segment, in milliseconds.
fn times(wire: &Wire, n: u64) -> Vec<u64> {
    let sent = wire.data_sent();
    let start = sent[0].0;
    sent.iter().filter(|s| (s.1 - 1) / MSS == n).map(|s| s.0.saturating_since(start).as_millis()).collect()
}

#[test]
fn every_kind_repairs_one_loss_by_fast_retransmit_after_one_round_trip() {
    for recovery in RECOVERIES {
        let wire = transfer(&classic(recovery), 100, &[5]);
        // Sent at 0, shown by duplicate acknowledgements at 40 ms.
        assert_eq!(times(&wire, 5), [0, 40], "{recovery:?}");
        let stats = wire.client.stats();
        assert_eq!((stats.rtos, stats.recoveries), (0, 1), "{recovery:?}");
        let cc = wire.client.congestion_control();
        let told = if recovery == Recovery::Tahoe { (0, 1) } else { (1, 0) };
        assert_eq!((cc.events, cc.rtos), told, "{recovery:?}");
        if recovery != Recovery::Tahoe {
            assert_eq!(stats.retransmitted_segments, 1, "{recovery:?}");
        }
    }
}

#[test]
fn tahoe_goes_back_to_the_loss_and_slow_starts() {
    let wire = transfer(&classic(Recovery::Tahoe), 100, &[5]);
    let order = wire.order(MSS);
    // Segment 5 again, alone; then, as nothing is known of what followed, the rest again from 6 where it was not covered.
    let again = order.iter().rposition(|&n| n == 5).unwrap();
    assert!(again >= 20);
    let sent = wire.data_sent();
    let in_that_round = sent[again..].iter().filter(|s| s.0 == sent[again].0).count();
    assert_eq!(in_that_round, 1);
}

#[test]
fn new_reno_repairs_one_loss_per_round_trip() {
    // RFC 6582: each partial acknowledgement retransmits the next hole.
    let wire = transfer(&classic(Recovery::NewReno), 100, &[2, 5, 8]);
    assert_eq!(times(&wire, 2), [0, 40]);
    assert_eq!(times(&wire, 5), [0, 80]);
    assert_eq!(times(&wire, 8), [0, 120]);
    let stats = wire.client.stats();
    assert_eq!((stats.rtos, stats.recoveries, stats.retransmitted_segments), (0, 1, 3));
}

#[test]
fn rfc_6582_only_the_first_partial_acknowledgement_restarts_the_timer() {
    // Twelve holes of one window would take twelve round trips of 40 ms; the time-out of 240 ms or so, counted from the first
    // partial acknowledgement, comes before that and fills the rest in slow start.
    let lost: Vec<u64> = (40..64).step_by(2).collect();
    let wire = transfer(&classic(Recovery::NewReno), 200, &lost);
    let stats = wire.client.stats();
    assert_eq!((stats.rtos, stats.recoveries), (1, 1), "{stats:?}");
    let repaired: Vec<u64> = lost.iter().map(|&n| times(&wire, n)[1]).collect();
    let alone = repaired.windows(2).take_while(|pair| pair[1] - pair[0] == 40).count();
    assert!((5..=8).contains(&alone), "one hole per round trip until the time-out: {repaired:?}");
    assert!(repaired[11] - repaired[0] < 440, "eleven round trips: {repaired:?}");
    // Where each partial acknowledgement restarts it, as in Linux, there is no time-out.
    let patient = TcpConfig { impatient: false, ..classic(Recovery::NewReno) };
    let wire = transfer(&patient, 200, &lost);
    let stats = wire.client.stats();
    assert_eq!((stats.rtos, stats.recoveries), (0, 1), "{stats:?}");
    assert_eq!(times(&wire, lost[11])[1] - times(&wire, lost[0])[1], 440);
    // With SACK all is filled within the time-out.
    let wire = transfer(&classic(Recovery::Sack), 200, &lost);
    assert_eq!(wire.client.stats().rtos, 0);
}

#[test]
fn reno_leaves_recovery_on_the_first_new_acknowledgement() {
    // RFC 5681: the second loss needs a second fast retransmit or a time-out.
    let wire = transfer(&classic(Recovery::Reno), 100, &[2, 5, 8]);
    let stats = wire.client.stats();
    assert!(stats.recoveries + stats.rtos > 1, "{stats:?}");
}

#[test]
fn sack_repairs_many_losses_in_one_round_trip() {
    for rack in [false, true] {
        let config = TcpConfig { rack, ..classic(Recovery::Sack) };
        let lost: Vec<u64> = vec![2, 5, 8, 9, 10, 12];
        let wire = transfer(&config, 100, &lost);
        for n in lost {
            let t = times(&wire, n);
            assert_eq!(t.len(), 2, "segment {n} with rack {rack}: {t:?}");
            assert!(t[1] <= 80, "segment {n} with rack {rack}: {t:?}");
        }
        let stats = wire.client.stats();
        assert_eq!((stats.rtos, stats.recoveries, stats.retransmitted_segments), (0, 1, 6));
        assert_eq!(wire.server.stats().duplicate_bytes, 0);
    }
}

#[test]
fn rfc_6675_next_seg_fills_and_rescues_when_there_is_no_new_data() {
    // Nothing is sacked above segment 19, but the window has room: it is sent again (rule 4), without a time-out.
    let wire = transfer(&classic(Recovery::Sack), 20, &[4, 19]);
    assert_eq!(wire.client.stats().rtos, 0);
    assert_eq!(times(&wire, 19), [0, 40]);
    // Two segments are sacked above segment 17: too few to call it lost, but it is sent again (rule 3).
    let wire = transfer(&classic(Recovery::Sack), 20, &[4, 17]);
    assert_eq!(wire.client.stats().rtos, 0);
    assert_eq!(times(&wire, 17), [0, 40]);
}

#[test]
fn two_duplicate_acknowledgements_are_no_loss() {
    for recovery in RECOVERIES {
        let config = TcpConfig { initial_window: Window::Segments(3.0), ..classic(recovery) };
        let mut wire = Wire::plain(&config, 20);
        wire.channels[0].delay_data = vec![(0, TimeDelta::from_millis(5))];
        wire.client.write(3 * MSS);
        wire.establish();
        wire.run_for(TimeDelta::from_secs(5));
        assert_eq!(wire.client.stats().retransmitted_segments, 0, "{recovery:?}");
        assert_eq!(wire.client.congestion_control().events, 0, "{recovery:?}");
    }
}

#[test]
fn rfc_3042_limited_transmit_sends_new_segments_on_the_first_two_duplicates() {
    for (limited_transmit, expected) in [(true, 2), (false, 0)] {
        let config = TcpConfig {
            limited_transmit,
            initial_window: Window::Segments(5.0),
            ..classic(Recovery::NewReno)
        };
        let mut wire = Wire::plain(&config, 20);
        wire.channels[0].drop_data = vec![0];
        wire.client.write(50 * MSS);
        wire.establish();
        assert!(wire.run_until(Timestamp::from_secs(5), |w| w.client.stats().retransmitted_segments > 0));
        let order = wire.order(MSS);
        let first_again = order.iter().skip(1).position(|&n| n == 0).unwrap() + 1;
        assert_eq!(first_again - 5, expected, "limited transmit {limited_transmit}: {order:?}");
    }
}

#[test]
fn rfc_6582_duplicates_after_a_time_out_start_no_recovery() {
    // Everything of the first window but the last few is lost: a time-out goes back to the first, and the duplicates that
    // its retransmissions cause must not be taken for new losses.
    let mut config = classic(Recovery::NewReno);
    config.limited_transmit = false;
    let wire = transfer(&config, 60, &(0..18).collect::<Vec<_>>());
    assert_eq!(wire.client.stats().recoveries, 0);
    assert!(wire.client.stats().rtos >= 1);
    assert_eq!(wire.client.congestion_control().events, 0);
}

#[test]
fn a_lost_retransmission_costs_a_time_out_unless_rack_finds_it() {
    // Segment 5 is lost, and so is its retransmission.
    for (rack, rtos) in [(false, 1), (true, 0)] {
        let config = TcpConfig { rack, ..classic(Recovery::Sack) };
        // A first run shows which transmission the second of segment 5 is.
        let order = transfer(&config, 200, &[5]).order(MSS);
        let again = order.iter().rposition(|&n| n == 5).unwrap() as u64;
        let wire = transfer(&config, 200, &[5, again]);
        assert_eq!(times(&wire, 5).len(), 3, "rack {rack}");
        assert_eq!(wire.client.stats().rtos, rtos, "rack {rack}");
    }
}

#[test]
fn rack_learns_that_the_path_reorders() {
    // Every tenth segment comes 8 ms late, behind eight or more others.
    let run = |rack: bool| {
        let config = TcpConfig { rack, undo: false, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 20);
        wire.channels[0].rate = Some(warpline_core::Rate::from_bps(20_000_000));
        wire.channels[0].delay_data = (0..300).map(|i| (10 * i + 30, TimeDelta::from_millis(8))).collect();
        wire.client.write(3000 * MSS);
        wire.establish();
        wire.run_for(TimeDelta::from_secs(100));
        assert_eq!(wire.server.bytes_delivered(), 3000 * MSS);
        wire.client.stats().retransmitted_segments
    };
    let (by_count, by_time) = (run(false), run(true));
    assert!(by_time <= 15, "{by_time} spurious retransmissions");
    assert!(by_count > 50, "{by_count} spurious retransmissions by counting duplicates");
}

#[test]
fn rfc_8985_a_tail_loss_is_probed_before_the_time_out() {
    for (tlp, expected) in [(true, 80), (false, 40 + 200)] {
        let config = TcpConfig { tlp, delayed_ack: TimeDelta::ZERO, ..TcpConfig::default() };
        let wire = transfer(&config, 10, &[9]);
        let t = times(&wire, 9);
        // The first nine are acknowledged at 40 ms; one segment is out: 2 * srtt + 200 ms, but not later than the RTO.
        let since_ack = t[1] - 40;
        if tlp {
            assert_eq!(wire.client.stats().rtos, 0);
            assert_eq!(wire.client.stats().tail_probes, 1);
        } else {
            assert_eq!(since_ack, expected);
            assert_eq!(wire.client.stats().rtos, 1);
        }
    }
    // With two outstanding the probe comes after two round trips and 2 ms.
    let config = TcpConfig { delayed_ack: TimeDelta::ZERO, ..TcpConfig::default() };
    let wire = transfer(&config, 10, &[8, 9]);
    assert_eq!(times(&wire, 9)[1], 40 + 80 + 2);
    assert_eq!(wire.client.stats().rtos, 0, "the probe's SACK shows the loss of the one before");
}

#[test]
fn a_needless_probe_reduces_nothing() {
    // The acknowledgements come late, once: the probe is answered with a D-SACK, or with a duplicate acknowledgement while nothing is in flight.
    for dsack in [true, false] {
        needless_probe(&TcpConfig { dsack, ..TcpConfig::default() });
    }
}

fn needless_probe(config: &TcpConfig) {
    let mut wire = Wire::plain(config, 20);
    wire.client.write(10 * MSS);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(1));
    wire.channels[1].delay = TimeDelta::from_millis(150);
    wire.client.write(5 * MSS);
    wire.run_for(TimeDelta::from_secs(1));
    wire.client.write(5 * MSS);
    wire.run_for(TimeDelta::from_secs(1));
    assert_eq!(wire.client.stats().tail_probes, 1);
    assert_eq!(wire.client.stats().dsacks_received, u64::from(config.dsack));
    assert_eq!(wire.client.congestion_control().events, 0);
    assert_eq!((wire.client.stats().rtos, wire.client.stats().recoveries), (0, 0));
}

#[test]
fn rfc_3522_a_spurious_time_out_is_undone_by_timestamps() {
    for (undo, undos) in [(true, 1), (false, 0)] {
        let config = TcpConfig { undo, tlp: false, dsack: false, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 20);
        wire.client.set_recording(true);
        wire.client.set_unlimited(true);
        wire.establish();
        wire.run_for(TimeDelta::from_millis(100));
        let cwnd = wire.client.cwnd();
        // The path stalls for 400 ms: everything comes, but late.
        wire.channels[0].delay = TimeDelta::from_millis(420);
        wire.run_for(TimeDelta::from_millis(70));
        wire.channels[0].delay = TimeDelta::from_millis(420);
        wire.run_for(TimeDelta::from_millis(900));
        assert!(wire.client.stats().rtos >= 1);
        assert_eq!(wire.client.congestion_control().undos, undos, "undo {undo}");
        let events: Vec<_> = wire.client.drain_records().collect();
        assert_eq!(has_event(&events, |e| matches!(e, TcpEvent::Undo)), undo);
        if undo {
            assert!(wire.client.cwnd() >= cwnd);
            assert!(wire.client.stats().retransmitted_segments <= 2, "{:?}", wire.client.stats());
        }
    }
}

#[test]
fn rfc_3708_a_spurious_fast_retransmit_is_undone_by_d_sack() {
    let config = TcpConfig { timestamps: false, rack: false, tlp: false, ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 20);
    wire.channels[0].delay_data = vec![(4, TimeDelta::from_millis(50))];
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_millis(300));
    assert_eq!(wire.client.stats().retransmitted_segments, 1);
    assert_eq!(wire.client.stats().dsacks_received, 1);
    assert_eq!(wire.client.congestion_control().undos, 1);
    assert_eq!(wire.client.phase(), Phase::Open);
}

#[test]
fn what_the_network_doubles_undoes_nothing() {
    let mut wire = Wire::plain(&TcpConfig::default(), 20);
    (wire.channels[0].loss, wire.channels[0].duplicate) = (0.01, 0.1);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(60));
    let (stats, undos) = (wire.client.stats(), wire.client.congestion_control().undos);
    assert!(stats.recoveries > 50 && stats.dsacks_received > 2 * stats.retransmitted_segments, "{stats:?}");
    assert!(u64::from(undos) * 10 < stats.recoveries, "{undos} of {}", stats.recoveries);
}

#[test]
fn a_real_loss_is_not_undone() {
    for recovery in RECOVERIES {
        let config = TcpConfig { recovery, ..TcpConfig::default() };
        let wire = transfer(&config, 300, &[20, 60, 61, 62]);
        assert_eq!(wire.client.stats().undos, 0, "{recovery:?}");
    }
}

/// Segments that are sent in a recovery and lost, too, may be sent again in it, and arrive after the next one has begun: that they answer
/// nothing that the next one sent does not prove it spurious.
#[test]
fn retransmissions_of_an_earlier_recovery_prove_nothing_about_the_next() {
    let config = TcpConfig::default();
    let there = Channel { rate: Some(Rate::from_bps(10_000_000)), loss: 0.05, ..Channel::clean(50) };
    let client = Connection::client(config.clone(), TestReno::fixed(150 * MSS));
    let mut wire = Wire::new(client, server(&config), there, Channel::clean(50), 1);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(20));
    let stats = wire.client.stats();
    assert!(stats.recoveries > 20 && stats.dsacks_received == 0, "{stats:?}");
    assert_eq!(wire.client.congestion_control().undos, 0, "nothing was reordered");
}

#[test]
fn prr_halves_by_sending_every_other_acknowledgement_without_a_burst() {
    let config = TcpConfig {
        initial_window: Window::Segments(40.0),
        delayed_ack: TimeDelta::ZERO,
        ..TcpConfig::default()
    };
    let mut wire = Wire::plain(&config, 20);
    // 1 ms between segments, so that acknowledgements come one by one.
    wire.channels[0].rate = Some(warpline_core::Rate::from_bps(12_000_000));
    wire.channels[0].drop_data = vec![10];
    wire.client.set_unlimited(true);
    wire.establish();
    assert!(wire.run_until(Timestamp::from_secs(5), |w| w.client.phase() == Phase::Recovery));
    let begin = wire.now;
    let sent = wire.data_sent().len();
    assert!(wire.run_until(Timestamp::from_secs(5), |w| w.client.phase() == Phase::Open));
    let rounds: Vec<_> = wire.data_sent()[sent..].to_vec();
    let mut largest_burst = 0;
    for s in &rounds {
        largest_burst = largest_burst.max(rounds.iter().filter(|r| r.0 == s.0).count());
    }
    assert!(largest_burst <= 2, "{largest_burst} segments at once");
    assert!(wire.now > begin);
    let expected = wire.client.ssthresh();
    assert!(
        wire.client.in_flight() <= expected && wire.client.in_flight() + 3 * MSS >= expected,
        "{} in flight, target {expected}",
        wire.client.in_flight()
    );
}

#[test]
fn the_oldest_sample_of_a_late_cumulative_acknowledgement_is_no_rtt() {
    // Without timestamps: segments that waited behind a loss give no sample (Karn).
    let config = TcpConfig { timestamps: false, ..classic(Recovery::NewReno) };
    let wire = transfer(&config, 100, &[2, 5, 8]);
    assert_eq!(wire.client.stats().rtt_max_ns, 40_000_000);
}

#[test]
fn records_tell_the_story_in_order() {
    let mut wire = transfer(&TcpConfig::default(), 100, &[5]);
    let events: Vec<_> = wire.client.drain_records().collect();
    assert!(events.windows(2).all(|w| w[0].0 <= w[1].0));
    let lost = TcpEvent::Lost { seq: 1 + 5 * MSS, len: MSS as u32, trigger: LossTrigger::Rack };
    assert!(has_event(&events, |e| *e == lost));
    assert!(has_event(&events, |e| *e == TcpEvent::State { state: Phase::Recovery }));
    assert!(has_event(&events, |e| *e == TcpEvent::Established));
    assert!(has_event(
        &events,
        |e| matches!(e, TcpEvent::Sent { retransmit: true, seq, .. } if *seq == 1 + 5 * MSS)
    ));
    assert!(has_event(&events, |e| matches!(e, TcpEvent::Sacked { .. })));
    assert!(wire.client.drain_records().next().is_none());
}
