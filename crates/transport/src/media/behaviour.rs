//! What the congestion controls for media do over a bottleneck.

use warpline_core::{Rate, TimeDelta};

use super::testbed::{Bed, Path};
use super::*;

fn named(text: &str) -> Algorithm {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A stream whose rate the path limits, not the encoder.
fn wide() -> MediaParams {
    MediaParams { max_bitrate: Rate::from_bps(10_000_000), ..MediaParams::default() }
}

const ALL: [&str; 3] = ["gcc", "scream", "scream:ecn=l4s"];

/// A path that marks packets of L4S that have to wait for longer than 5 ms.
fn path(rates: &[(u64, u64)]) -> Path {
    Path { rates: rates.to_vec(), mark_after: TimeDelta::from_millis(5), ..Path::default() }
}

#[test]
fn a_stream_alone_fills_the_path_and_keeps_the_delay_low() {
    // GCC grows by 8 % a second: from 300 kbit/s to 2 Mbit/s in 25 s. Bursts of frames leave some of the path unused where queues are short.
    for (name, from, kbps, delay) in
        [("gcc", 40, 1600.0, 130.0), ("scream", 10, 1600.0, 130.0), ("scream:ecn=l4s", 10, 1300.0, 90.0)]
    {
        let outcome = Bed::new(path(&[(0, 2000)]), &wide(), &[named(name)]).measure(from, from + 30)[0];
        assert!(outcome.kbps > kbps && outcome.delay < delay, "{name}: {outcome:?}");
        assert!(outcome.delay_p95 < delay + 60.0, "{name}: {outcome:?}");
        assert_eq!((outcome.watched.freezes, outcome.watched.lost), (0, 0), "{name}");
    }
}

#[test]
fn when_a_path_becomes_slower_there_is_a_freeze_and_then_a_low_delay_again() {
    for name in ALL {
        let mut bed = Bed::new(path(&[(0, 5000), (90, 1000)]), &wide(), &[named(name)]);
        let before = bed.measure(80, 90)[0];
        let change = bed.measure(90, 95)[0];
        let after = bed.measure(100, 120)[0];
        assert!(before.kbps > 3000.0 && before.watched.freezes == 0, "{name}: {before:?}");
        let frozen = change.watched.frozen.as_secs_f64();
        assert!(change.watched.freezes >= 1 && (0.2..4.0).contains(&frozen), "{name}: {change:?}");
        assert!(after.kbps > 600.0 && after.delay < 150.0 && after.watched.freezes == 0, "{name}: {after:?}");
    }
}

#[test]
fn packets_sent_again_repair_frames_and_a_playout_delay_hides_the_wait() {
    let lossy = || Path { lose_each: 83, ..path(&[(0, 2000)]) };
    let measure = |params| Bed::new(lossy(), &params, &[named("gcc")]).measure(30, 90)[0];
    let plain = measure(wide());
    let without = measure(MediaParams { retransmit: false, ..wide() });
    let delayed = measure(MediaParams { playout_delay: TimeDelta::from_millis(350), ..wide() });
    assert!(plain.again > 0 && without.again == 0);
    assert!(plain.watched.lost * 4 < without.watched.lost, "{plain:?} {without:?}");
    assert!(delayed.watched.freezes * 4 < plain.watched.freezes, "{plain:?} {delayed:?}");
    assert!(delayed.delay >= 350.0);
}

#[test]
fn after_an_outage_a_key_frame_comes_before_packets_that_nobody_needs_any_more() {
    for name in ["gcc", "scream"] {
        let frozen = |retransmit| {
            let mut bed = Bed::new(
                Path { out: Some((10, 12)), ..path(&[(0, 10_000)]) },
                &MediaParams { start_bitrate: Rate::from_bps(4_000_000), retransmit, ..wide() },
                &[named(name)],
            );
            bed.measure(9, 20)[0].watched.frozen.as_secs_f64()
        };
        let (with, without) = (frozen(true), frozen(false));
        assert!((2.0..3.0).contains(&without) && with < without + 0.5, "{name}: {with} s, {without} s");
    }
}

#[test]
fn streams_of_one_kind_share_a_path() {
    for name in ALL {
        let outcomes = Bed::new(path(&[(0, 3000)]), &wide(), &[named(name), named(name)]).measure(60, 120);
        let ratio = outcomes[0].kbps / outcomes[1].kbps;
        // RFC 8868 asks for a ratio between a third and three.
        assert!((0.33..3.0).contains(&ratio), "{name}: {outcomes:?}");
        assert!(outcomes[0].kbps + outcomes[1].kbps > 2000.0, "{name}: {outcomes:?}");
    }
}

/// RFC 8867 section 5.1: one stream of at most 1.5 Mbit/s over 1, 2.5, 0.6 and 1 Mbit/s.
#[test]
fn one_stream_follows_a_varying_capacity() {
    for name in ALL {
        let steps = [(0, 1000), (40, 2500), (60, 600), (80, 1000)];
        let mut bed = Bed::new(path(&steps), &MediaParams::default(), &[named(name)]);
        for (from, capacity) in [(30, 1000.0), (50, 1500.0), (70, 600.0), (90, 1000.0)] {
            let outcome = bed.measure(from, from + 10)[0];
            assert!(outcome.kbps > 0.6 * capacity && outcome.delay < 220.0, "{name} at {from}: {outcome:?}");
            assert_eq!(outcome.watched.freezes, 0, "{name} at {from}");
        }
    }
}

/// RFC 8867 section 5.2: two streams over 4, 2, 3.5, 1 and 2 Mbit/s.
#[test]
fn two_streams_follow_a_varying_capacity() {
    for name in ALL {
        let steps = [(0, 4000), (25, 2000), (50, 3500), (75, 1000), (100, 2000)];
        let mut bed = Bed::new(path(&steps), &MediaParams::default(), &[named(name), named(name)]);
        for (from, capacity) in [(15, 3000.0), (40, 2000.0), (65, 3000.0), (90, 1000.0), (115, 2000.0)] {
            let outcomes = bed.measure(from, from + 10);
            let kbps: f64 = outcomes.iter().map(|outcome| outcome.kbps).sum();
            assert!(kbps > 0.6 * capacity, "{name} at {from}: {outcomes:?}");
            assert!(outcomes.iter().all(|outcome| outcome.delay < 220.0), "{name} at {from}: {outcomes:?}");
        }
    }
}
