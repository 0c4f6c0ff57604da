//! Properties over random hostile networks and random options: what can finish does, every byte arrives once, timers and
//! windows keep their bounds.

mod common;

use common::*;
use proptest::prelude::*;
use warpline_core::{Bytes, Rate, TimeDelta, Timestamp};
use warpline_transport::tcp::{Connection, Misbehaviour, Outcome, Recovery, RtoVariance, TcpConfig, Window};

fn recovery() -> impl Strategy<Value = Recovery> {
    prop_oneof![
        Just(Recovery::Tahoe),
        Just(Recovery::Reno),
        Just(Recovery::NewReno),
        Just(Recovery::Sack),
        Just(Recovery::Sack),
        Just(Recovery::Sack),
    ]
}

prop_compose! {
    fn config()(
        recovery in recovery(),
        bits in any::<u32>(),
        mss in prop_oneof![Just(1460u64), Just(536), Just(100), Just(9000)],
        initial in 1u32..20,
        buffer in prop_oneof![Just(32u64 << 20), 3_000u64..100_000],
        delayed_segments in 1u32..4,
        burst in 1u32..3,
        clamp in prop_oneof![Just(None), Just(None), (500u64..50_000).prop_map(Some)],
        rate in prop_oneof![Just(None), Just(None), (1_000_000u64..50_000_000).prop_map(Some)],
    ) -> TcpConfig {
        let bit = |n: u32| bits >> n & 1 == 1;
        TcpConfig {
            mss: Bytes(mss),
            initial_window: Window::Segments(f64::from(initial)),
            recovery,
            sack: bit(0) || bit(1),
            dsack: bit(2),
            timestamps: bit(3),
            window_scaling: bit(4),
            ecn: bit(5),
            rack: bit(6),
            tlp: bit(7),
            prr: bit(8),
            limited_transmit: bit(9),
            impatient: !bit(19),
            max_reordering: [0, 5, 300, 300][(bits >> 23 & 3) as usize],
            receive_ssthresh: bit(25).then_some(Bytes(5_000)),
            receive_autotuning: bit(25) && bit(26),
            undo: bit(10),
            nagle: bit(11),
            pacing: bit(12) && bit(13),
            delayed_ack: TimeDelta::from_millis(if bit(14) { 40 } else { 0 }),
            delayed_ack_segments: delayed_segments,
            quick_acks: u32::from(bit(15)) * 16,
            cwnd_validation: bit(16),
            idle_restart: bit(17),
            rto_variance: if bit(18) { RtoVariance::Linux } else { RtoVariance::Rfc6298 },
            misbehaviour: match bits >> 20 & 7 {
                0 => Misbehaviour::AckDivision,
                1 => Misbehaviour::DuplicateAcks,
                2 => Misbehaviour::HiddenMarks,
                _ => Misbehaviour::None,
            },
            small_window_burst: burst,
            receive_buffer: Bytes(buffer),
            max_window: clamp.map(Window::Bytes),
            max_rate: rate.map(Rate::from_bps),
            syn_retries: 30,
            data_retries: 60,
            max_rto: TimeDelta::from_secs(4),
            // Long enough for the last acknowledgement to get through somehow.
            time_wait: TimeDelta::from_secs(240),
            fin_timeout: TimeDelta::from_secs(1_000),
            ..TcpConfig::default()
        }
    }
}

prop_compose! {
    fn channel()(
        delay in 0u64..80,
        jitter in prop_oneof![Just(0u64), 0u64..30_000],
        loss in prop_oneof![Just(0.0), 0.0..0.25],
        duplicate in prop_oneof![Just(0.0), 0.0..0.2],
        rate in prop_oneof![Just(None), (300_000u64..100_000_000).prop_map(Some)],
        limit in 2usize..60,
        mark in prop_oneof![Just(None), (0usize..10).prop_map(Some)],
    ) -> Channel {
        Channel {
            jitter: TimeDelta::from_micros(jitter),
            loss,
            duplicate,
            rate: rate.map(Rate::from_bps),
            limit,
            mark_above: mark,
            ..Channel::clean(delay)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_can_finish_does_and_every_byte_arrives_once(
        there in channel(),
        back in channel(),
        left in config(),
        right in config(),
        up in 0u64..200_000,
        down in prop_oneof![Just(0u64), 0u64..60_000],
        // With a byte at every event, and an event every few seconds as the window is closed, 200 kB would take longer than is waited.
        chunk in prop_oneof![Just(None), (100u64..20_000).prop_map(Some)],
        fixed in prop_oneof![Just(None), Just(None), (50u64..4_000).prop_map(Some)],
        seed in any::<u64>(),
    ) {
        left.validate().unwrap();
        // Also windows that stay below one segment, as Nice's may.
        let opener = match fixed {
            Some(cwnd) => Connection::client(left.clone(), TestReno::fixed(cwnd)),
            None => client(&left),
        };
        let mut wire = Wire::new(opener, server(&right), there, back, seed);
        wire.keep_sightings = false;
        wire.client.set_recording(true);
        wire.client.set_latency_log(true);
        // The server's application takes everything at once, or so much at every event.
        wire.server.set_auto_read(chunk.is_none());
        let mut read = 0;
        wire.open();
        prop_assert_eq!(wire.client.write(up), up);
        prop_assert_eq!(wire.server.write(down), down);
        wire.client.close();
        wire.server.close();
        let (mut delivered_up, mut delivered_down) = (0, 0);
        let mut steps = 0u64;
        let ended = wire.run_until_mut(Timestamp::from_secs(100_000), |w| {
            steps += 1;
            if let Some(chunk) = chunk {
                read += w.server.read(chunk);
            }
            for conn in [&w.client, &w.server] {
                assert!(conn.in_flight() <= 1 << 30, "in flight went below zero");
            }
            assert!(w.server.bytes_delivered() >= delivered_up && w.server.bytes_delivered() <= up);
            assert!(w.client.bytes_delivered() >= delivered_down && w.client.bytes_delivered() <= down);
            delivered_up = w.server.bytes_delivered();
            delivered_down = w.client.bytes_delivered();
            assert!(w.client.bytes_acked() <= delivered_up && w.server.bytes_acked() <= delivered_down);
            assert!(steps < 3_000_000, "no end: {:?} {:?}", w.client, w.server);
            w.client.is_closed() && w.server.is_closed()
        });
        prop_assert!(ended, "not closed: {:?} {:?}", wire.client, wire.server);
        prop_assert_eq!((delivered_up, delivered_down), (up, down), "{:?} {:?}", wire.client, wire.server);
        prop_assert_eq!(wire.client.bytes_acked(), up);
        prop_assert_eq!(wire.server.bytes_acked(), down);
        prop_assert_eq!(wire.client.outcome(), Some(Outcome::Complete));
        prop_assert_eq!(wire.server.outcome(), Some(Outcome::Complete));
        if chunk.is_some() {
            prop_assert_eq!(read + wire.server.readable(), up);
        }
        let stats = *wire.client.stats();
        let counted = wire.client.drain_latencies().count() as u64;
        prop_assert!(counted >= stats.latency_count.saturating_sub(1));
        // A segment that is acknowledged in pieces may be sent again in pieces.
        let whole = right.misbehaviour != Misbehaviour::AckDivision;
        prop_assert!(!whole || stats.latency_count <= stats.data_segments_sent + 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_bulk_source_never_stands_still(
        there in channel(),
        back in channel(),
        left in config(),
        right in config(),
        seed in any::<u64>(),
    ) {
        let mut wire = Wire::new(client(&left), server(&right), there, back, seed);
        wire.keep_sightings = false;
        wire.client.set_unlimited(true);
        wire.open();
        // Losses may be many and windows small, but within any of these spans a time-out or probe gets through.
        let mut before = 0;
        for _ in 0..3 {
            let mut steps = 0;
            wire.run_until(wire.now + TimeDelta::from_secs(400), |w| {
                steps += 1;
                let progress = w.server.bytes_delivered() - before;
                progress > 100_000 || steps > 500_000 || (steps > 20_000 && progress > 0)
            });
            prop_assert!(wire.server.bytes_delivered() > before, "{:?} {:?}", wire.client, wire.server);
            before = wire.server.bytes_delivered();
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes(there in channel(), left in config(), seed in any::<u64>()) {
        let run = || {
            let mut wire = Wire::new(client(&left), server(&left), there.clone(), Channel::clean(7), seed);
            wire.open();
            wire.client.write(30_000);
            wire.client.close();
            wire.server.close();
            wire.run(Timestamp::from_secs(30));
            format!("{:?} {:?}", wire.seen, wire.client.stats())
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn a_receiver_that_forgets_ranges_gets_every_byte_all_the_same() {
    // Half of forty thousand small segments are lost and all come out of order: more ranges than a receiver keeps.
    let config = TcpConfig { mss: Bytes(100), receive_buffer: Bytes(16 << 20), ..TcpConfig::default() };
    let sender = Connection::client(config.clone(), TestReno::fixed(4 << 20));
    let there = Channel { jitter: TimeDelta::from_millis(40), loss: 0.5, ..Channel::clean(20) };
    let mut wire = Wire::new(sender, server(&config), there, Channel::clean(20), 1);
    wire.keep_sightings = false;
    let bytes = 40_000 * 88;
    wire.open();
    assert_eq!(wire.client.write(bytes), bytes);
    wire.client.close();
    wire.server.close();
    let ended =
        wire.run_until(Timestamp::from_secs(100_000), |w| w.client.is_closed() && w.server.is_closed());
    assert!(ended, "{:?}", wire.client.stats());
    assert_eq!((wire.server.bytes_delivered(), wire.client.bytes_acked()), (bytes, bytes));
    assert_eq!(wire.client.outcome(), Some(Outcome::Complete));
}
