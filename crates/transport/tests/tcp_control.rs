//! What shapes sending besides loss: ECN, pacing, windows below one segment, clamps, idleness, and what congestion control
//! is told.

mod common;

use common::*;
use warpline_core::{Ecn, Flags, Rate, TimeDelta, Timestamp};
use warpline_transport::cc::{CcConfig, Phase};
use warpline_transport::tcp::{Connection, TcpConfig, Window};

const MSS: u64 = 1448;

#[test]
fn rfc_3168_one_reduction_per_window_and_an_echo_until_cwr() {
    let config = TcpConfig { ecn: true, ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 20);
    wire.channels[0].rate = Some(Rate::from_bps(20_000_000));
    wire.channels[0].mark_above = Some(20);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(10));
    let stats = wire.client.stats();
    assert_eq!((stats.retransmitted_segments, stats.rtos), (0, 0), "ECN instead of loss");
    assert!(stats.ecn_reductions > 3);
    assert_eq!(u64::from(wire.client.congestion_control().events), stats.ecn_reductions);
    assert!(wire.server.stats().ce_marks > stats.ecn_reductions, "several marks, one reduction");
    let cwr =
        wire.seen.iter().filter(|s| s.segment.flags.contains(Flags::CWR) && s.segment.len > 0).count() as u64;
    assert!(cwr.abs_diff(stats.ecn_reductions) <= 1, "{cwr} CWR for {} reductions", stats.ecn_reductions);
    for s in &wire.seen {
        let data = s.segment.len > 0;
        assert_eq!(s.ecn, if data { Ecn::Ect0 } else { Ecn::NotEct }, "only data is ECN-capable");
    }
    // At least a round trip lies between two reductions: CWR flags are 40 ms apart or more.
    let at: Vec<_> =
        wire.seen.iter().filter(|s| s.segment.flags.contains(Flags::CWR) && s.segment.len > 0).collect();
    for pair in at.windows(2) {
        assert!(pair[1].at.saturating_since(pair[0].at) >= TimeDelta::from_millis(40));
    }
}

#[test]
fn ecn_needs_both_sides() {
    let with = TcpConfig { ecn: true, ..TcpConfig::default() };
    let without = TcpConfig::default();
    for (left, right) in [(&with, &without), (&without, &with)] {
        let mut wire = Wire::new(client(left), server(right), Channel::clean(10), Channel::clean(10), 1);
        wire.establish();
        wire.client.write(10_000);
        wire.run_for(TimeDelta::from_secs(1));
        assert!(wire.seen.iter().all(|s| s.ecn == Ecn::NotEct));
    }
}

#[test]
fn pacing_spreads_a_window_over_the_round_trip() {
    let config = TcpConfig {
        pacing: true,
        initial_ssthresh: Some(Window::Bytes(10_000)),
        initial_window: Window::Segments(20.0),
        ..TcpConfig::default()
    };
    let mut wire = Wire::plain(&config, 50);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(1));
    let sent = wire.data_sent();
    // 1.2 * 20 segments per 100 ms: 4.17 ms apart.
    let gap = sent[1].0.saturating_since(sent[0].0);
    assert!((4_100..4_250).contains(&gap.as_micros()), "{gap}");
    assert!(sent.windows(2).all(|w| w[1].0 > w[0].0), "never two at once");
}

#[test]
fn a_rate_limit_holds_on_the_wire() {
    let config = TcpConfig { max_rate: Some(Rate::from_bps(1_200_000)), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 10);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(20));
    // 100 packets of 1500 bytes a second.
    let sent = wire.data_sent().len();
    assert!((1_990..=2_002).contains(&sent), "{sent}");
    // Two packets are in flight. RFC 7661: a window that is not used does not grow, or a loss would change nothing.
    assert!(wire.client.cwnd() <= 20 * MSS, "{}", wire.client.cwnd());
}

#[test]
fn a_window_clamp_holds() {
    let config = TcpConfig { max_window: Some(Window::Bytes(4 * MSS)), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 50);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(10));
    let sent = wire.data_sent().len();
    assert!((380..=404).contains(&sent), "{sent} segments in 100 round trips of four");
}

#[test]
fn behind_a_clamp_the_window_does_not_grow_so_that_a_loss_is_answered() {
    let config = TcpConfig { max_window: Some(Window::Bytes(16 * MSS)), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 50);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(10));
    assert!(wire.client.cwnd() <= 18 * MSS, "{}", wire.client.cwnd() / MSS);
}

#[test]
fn delivery_rates_are_sampled_on_the_longest_paths() {
    let mut wire = Wire::plain(&TcpConfig::default(), 5_000);
    wire.channels[0].rate = Some(Rate::from_bps(1_000_000));
    wire.client.set_unlimited(true);
    wire.open();
    wire.run(Timestamp::from_secs(200));
    let last = wire.client.congestion_control().last.expect("acknowledgements came");
    let rate = last.delivery_rate.expect("a sample").as_bps();
    // Of a segment of 1500 bytes, 1448 are data.
    assert!((900_000..1_000_000).contains(&rate), "{rate}");
}

#[test]
fn the_window_after_a_syn_that_went_out_again_is_one_segment_unless_it_was_only_late() {
    let first_flight = |one_way: u64, lost: &[u64], timestamps: bool| {
        let mut wire = Wire::plain(&TcpConfig { timestamps, ..TcpConfig::default() }, one_way);
        wire.channels[0].drop_any = lost.to_vec();
        wire.client.set_unlimited(true);
        wire.open();
        wire.run(Timestamp::from_secs(30));
        let sent = wire.data_sent();
        sent.iter().filter(|one| one.0 == sent[0].0).count()
    };
    assert_eq!(first_flight(50, &[], true), 10);
    assert_eq!(first_flight(50, &[0], true), 1);
    // The time-out is a second, and the answer takes longer.
    assert_eq!(first_flight(700, &[], true), 10);
    assert_eq!(first_flight(700, &[], false), 1, "without timestamps it is not known which SYN was answered");
}

#[test]
fn nice_s_pairs_below_one_segment() {
    // The window is a sixteenth of a segment: a pair every 32 round trips; or single segments every 16.
    // The options ask for them, or the algorithm does.
    for (burst, options, algorithm) in [(2usize, 2u32, 1u32), (1, 1, 1), (2, 1, 2)] {
        let config = TcpConfig {
            small_window_burst: options,
            initial_window: Window::Bytes(1),
            tlp: false,
            ..TcpConfig::default()
        };
        let cc = TestReno { burst: algorithm, ..TestReno::fixed(MSS.div_ceil(16)) };
        let mut wire = Wire::new(
            Connection::client(config.clone(), cc),
            server(&config),
            Channel::clean(50),
            Channel::clean(50),
            1,
        );
        wire.client.set_unlimited(true);
        wire.establish();
        wire.run_for(TimeDelta::from_secs(40));
        let sent = wire.data_sent();
        let groups: Vec<_> = sent.chunks(burst).collect();
        assert!(groups.len() >= 10);
        for group in &groups {
            assert_eq!(group[0].0, group[group.len() - 1].0, "sent together");
        }
        for pair in groups.windows(2) {
            let gap = pair[1][0].0.saturating_since(pair[0][0].0).as_secs_f64();
            let (low, high) = if burst == 2 { (3.0, 3.4) } else { (1.5, 2.4) };
            assert!(gap >= low && gap <= high, "burst {burst}: {gap}");
        }
    }
}

#[test]
fn congestion_control_hears_of_idleness() {
    for (idle_restart, idles) in [(true, 1), (false, 0)] {
        let config = TcpConfig { idle_restart, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 20);
        wire.establish();
        wire.client.write(10 * MSS);
        wire.run_for(TimeDelta::from_secs(5));
        wire.client.write(10 * MSS);
        wire.run_for(TimeDelta::from_secs(1));
        assert_eq!(wire.client.congestion_control().idles, idles);
    }
}

#[test]
fn the_window_does_not_grow_while_the_application_limits() {
    for (cwnd_validation, grows) in [(true, false), (false, true)] {
        let config = TcpConfig { cwnd_validation, idle_restart: false, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 20);
        wire.establish();
        let before = wire.client.cwnd();
        for _ in 0..50 {
            wire.client.write(2 * MSS);
            wire.run_for(TimeDelta::from_millis(100));
        }
        assert_eq!(wire.client.cwnd() > before, grows, "validation {cwnd_validation}");
    }
}

#[test]
fn samples_are_true() {
    let config = TcpConfig { max_window: Some(Window::Bytes(100 * MSS)), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 20);
    wire.channels[0].rate = Some(Rate::from_bps(12_000_000));
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(5));
    let sample = wire.client.congestion_control().last.unwrap();
    // 1000 packets a second, 1448 bytes of payload each.
    let rate = sample.delivery_rate.unwrap().as_bps();
    assert!((11_400_000..=11_700_000).contains(&rate), "{rate}");
    // The last two segments of a window of 100 waited for the others: about 100 ms.
    let rtt = sample.rtt.unwrap().as_millis();
    assert!((95..=105).contains(&rtt), "{rtt}");
    let one_way = sample.one_way_delay.unwrap().as_millis();
    assert!((70..=90).contains(&one_way), "{one_way}");
    assert_eq!(sample.min_rtt.as_millis(), 40);
    assert_eq!(sample.phase, Phase::Open);
    assert_eq!(sample.mss, MSS);
    assert_eq!(sample.delivered, wire.client.bytes_acked());
    assert_eq!(sample.prior_in_flight, 100 * MSS);
    assert_eq!(sample.in_flight, 98 * MSS);
    assert!(sample.delivered - sample.prior_delivered >= 98 * MSS);
    assert_eq!(wire.client.congestion_control().acked, wire.client.bytes_acked());
}

#[test]
fn a_selective_acknowledgement_shows_the_delay_of_what_it_reports() {
    // A packet takes a millisecond, and 20 in flight leave the link idle half of the time: no queue.
    let mut wire = wire_of(&TcpConfig::default(), TestReno::fixed(20 * MSS));
    wire.channels[0].rate = Some(Rate::from_bps(12_000_000));
    wire.channels[0].drop_data = vec![200];
    wire.client.set_unlimited(true);
    wire.establish();
    let mut delays = Vec::new();
    let end = wire.now + TimeDelta::from_secs(1);
    wire.run_until(end, |wire| {
        if let Some(sample) = wire.client.congestion_control().last
            && sample.phase == Phase::Recovery
        {
            delays.push(sample.one_way_delay.expect("there are timestamps").as_millis());
        }
        false
    });
    assert!(delays.len() > 5, "{delays:?}");
    // All of them echo what was sent before the loss, up to a round trip earlier.
    assert!(delays.iter().all(|delay| (20..=30).contains(delay)), "{delays:?}");
}

/// A client with this control, 20 ms from its server.
fn wire_of(config: &TcpConfig, cc: TestReno) -> Wire {
    let client = Connection::client(config.clone(), cc);
    Wire::new(client, server(config), Channel::clean(20), Channel::clean(20), 1)
}

#[test]
fn congestion_control_hears_of_the_handshake_and_of_every_start() {
    let mut wire = Wire::plain(&TcpConfig::default(), 20);
    wire.establish();
    assert_eq!(wire.client.congestion_control().established, Some(TimeDelta::from_millis(40)));
    for _ in 0..3 {
        wire.client.write(10 * MSS);
        wire.run_for(TimeDelta::from_secs(1));
    }
    assert_eq!(wire.client.congestion_control().restarts, [3, 0]);
    // All is lost, and the time-out finds nothing in flight: the application had data.
    let mut wire = Wire::plain(&TcpConfig { tlp: false, ..TcpConfig::default() }, 20);
    wire.client.set_unlimited(true);
    wire.channels[0].drop_data = (0..10).collect();
    wire.establish();
    wire.run_for(TimeDelta::from_secs(3));
    let [paused, other] = wire.client.congestion_control().restarts;
    assert!(paused == 0 && other > 1, "{paused} and {other}");
}

#[test]
fn samples_of_a_time_in_which_too_little_was_sent_are_marked() {
    let last = |wire: &Wire| wire.client.congestion_control().last.unwrap();
    let mut wire = Wire::plain(&TcpConfig::default(), 20);
    wire.channels[0].rate = Some(Rate::from_bps(12_000_000));
    wire.establish();
    // The next ten segments are written when the first have left: the application is what limits.
    for _ in 0..5 {
        wire.client.write(8 * MSS);
        wire.run_for(TimeDelta::from_millis(25));
    }
    assert!(last(&wire).app_limited && last(&wire).delivery_rate.is_some());
    wire.client.set_unlimited(true);
    wire.run_for(TimeDelta::from_millis(45));
    assert!(last(&wire).app_limited, "what was sent before is still being acknowledged");
    wire.run_for(TimeDelta::from_secs(1));
    assert!(!last(&wire).app_limited);
    let sent_at = last(&wire).sent_at;
    assert!(wire.data_sent().iter().any(|&(at, ..)| at == sent_at));
    // So are those of an algorithm that holds back; and none of an application that always has data.
    for holds in [false, true] {
        let mut wire = wire_of(&TcpConfig::default(), TestReno { holds, ..TestReno::fixed(20 * MSS) });
        wire.client.set_unlimited(true);
        wire.establish();
        wire.run_for(TimeDelta::from_secs(1));
        assert_eq!(last(&wire).app_limited, holds);
    }
}

#[test]
fn data_that_waits_is_no_limit_of_the_application() {
    for (segments, limited) in [(100, false), (1, true)] {
        let mut wire = wire_of(&TcpConfig::default(), TestReno::fixed(4 * MSS));
        wire.client.write(6 * MSS);
        wire.establish();
        for _ in 0..10 {
            wire.client.write(segments * MSS);
            wire.run_for(TimeDelta::from_millis(50));
        }
        assert_eq!(wire.client.congestion_control().last.unwrap().app_limited, limited);
    }
}

#[test]
fn an_algorithm_may_govern_recovery_and_hears_of_every_loss() {
    for governs in [false, true] {
        let mut wire = wire_of(&TcpConfig::default(), TestReno { governs, ..TestReno::fixed(50 * MSS) });
        wire.client.set_unlimited(true);
        wire.channels[0].drop_data = vec![100, 102, 104];
        wire.establish();
        let until = wire.now + TimeDelta::from_secs(1);
        assert!(wire.run_until(until, |wire| wire.client.phase() == Phase::Recovery));
        assert_eq!(wire.client.window() == 50 * MSS, governs, "{} in recovery", wire.client.window());
        wire.run_for(TimeDelta::from_secs(1));
        assert_eq!(wire.client.congestion_control().lost, 3 * MSS);
        assert_eq!(wire.client.stats().lost_segments, 3);
    }
}

#[test]
fn a_rate_counts_payload_or_what_is_on_the_wire() {
    let rate = Some(Rate::from_bps(1_200_000));
    for (payload, expected) in [(false, 12_000_000 / (8 * 1500)), (true, 12_000_000 / (8 * MSS))] {
        let cc = TestReno { rate, payload, ..TestReno::fixed(50 * MSS) };
        let mut wire = wire_of(&TcpConfig::default(), cc);
        wire.client.set_unlimited(true);
        wire.establish();
        wire.run_for(TimeDelta::from_secs(10));
        let sent = wire.data_sent();
        assert!((sent.len() as u64).abs_diff(expected) <= 5, "{} for {expected}", sent.len());
        assert!(sent.windows(2).all(|two| two[0].0 < two[1].0), "paced from the first segment on");
    }
}

#[test]
fn a_bulk_transfer_fills_a_bottleneck_whatever_the_recovery() {
    use warpline_transport::tcp::Recovery::{NewReno, Reno, Sack, Tahoe};
    for (recovery, least) in [(Tahoe, 0.75), (Reno, 0.75), (NewReno, 0.9), (Sack, 0.95)] {
        let config = TcpConfig { recovery, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 20);
        wire.keep_sightings = false;
        wire.channels[0].rate = Some(Rate::from_bps(10_000_000));
        wire.channels[0].limit = 40;
        wire.client.set_unlimited(true);
        wire.establish();
        wire.run_for(TimeDelta::from_secs(60));
        let share = wire.server.bytes_delivered() as f64 * 8.0 * (1500.0 / 1448.0) / 60.0 / 10e6;
        assert!(share > least && share <= 1.0, "{recovery:?}: {share}");
        assert_eq!(wire.client.stats().undos, 0, "{recovery:?}");
        if recovery == Sack {
            assert_eq!(wire.client.stats().rtos, 0);
            assert_eq!(wire.server.stats().duplicate_bytes, 0);
        }
    }
}

#[test]
fn latency_counts_from_the_first_transmission() {
    let mut wire = Wire::plain(&TcpConfig::default(), 20);
    wire.client.set_latency_log(true);
    wire.channels[0].drop_data = vec![3];
    wire.client.write(100 * MSS);
    wire.establish();
    wire.run_for(TimeDelta::from_secs(2));
    let latencies: Vec<_> = wire.client.drain_latencies().collect();
    let stats = wire.client.stats();
    assert_eq!(latencies.len() as u64, stats.latency_count);
    assert_eq!(latencies.len(), 100);
    let sum: u64 = latencies.iter().map(|l| l.as_nanos()).sum();
    assert_eq!(sum, stats.latency_sum_ns);
    assert_eq!(stats.latency_max_ns, 80_000_000, "lost once: two round trips");
}

#[test]
fn an_early_time_out_call_does_nothing() {
    let mut wire = Wire::plain(&TcpConfig::default(), 20);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run_for(TimeDelta::from_millis(10));
    let (before, due) = (format!("{:?}", wire.client), wire.client.poll_timeout());
    for nanos in 0..100 {
        wire.client.handle_timeout(wire.now + TimeDelta::from_nanos(nanos));
        assert!(wire.client.poll_transmit(wire.now).is_none());
    }
    assert_eq!(wire.client.poll_timeout(), due);
    assert_eq!(format!("{:?}", wire.client), before);
}

#[test]
fn a_connection_is_small() {
    let size = size_of::<Connection<TestReno>>() + size_of::<TcpConfig>();
    assert!(size <= 2_000, "{size} bytes with the largest test control");
    let _ = CcConfig { mss: 1, initial_window: 1, initial_ssthresh: 1, seed: 0, saved: None };
    let _ = Timestamp::ZERO;
}
