//! Tests of CDG.

use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
use super::*;

/// One in congestion avoidance with so many segments.
fn avoiding(params: &CdgParams, segments: u64) -> Cdg {
    Cdg::new(params, &CcConfig { initial_ssthresh: segments * MSS, ..config(segments) })
}

/// Rounds at these RTTs in milliseconds, five acknowledgements each, from a window of 100 segments each time; each round is judged by the first
/// acknowledgement of the next.
fn rounds(cdg: &mut Cdg, feeder: &mut Feeder, rtts: &[u64]) {
    for &rtt in rtts {
        cdg.window.cwnd = 100 * MSS;
        feeder.mixed_round(cdg, &[(5, rtt)]);
    }
}

const NANOS: f64 = 1e6;

#[test]
fn the_gradient_is_the_mean_change_of_the_rtt_per_round() {
    // A scale of a second: it hardly ever backs off.
    let params = CdgParams { scale: TimeDelta::from_secs(1_000_000), ..CdgParams::default() };
    let mut cdg = avoiding(&params, 100);
    let mut feeder = Feeder::default();
    // Ten rises by 4 ms, of which the last eight count.
    rounds(&mut cdg, &mut feeder, &[100, 104, 108, 112, 116, 120, 124, 128, 132, 136, 140]);
    assert_eq!(cdg.gradients.mean(), 4.0 * NANOS);
    // Eight rounds later these are forgotten.
    rounds(&mut cdg, &mut feeder, &[140; 10]);
    assert_eq!(cdg.gradients.mean(), 0.0);
    rounds(&mut cdg, &mut feeder, &[132, 132]);
    assert_eq!(cdg.gradients.mean(), -NANOS);
}

#[test]
fn the_largest_rtt_speaks_where_the_smallest_falls() {
    let mut gradients = Gradients::new(4);
    gradients.add(Pair { min: 8, max: 2 });
    assert_eq!(gradients.mean(), 8.0);
    gradients.add(Pair { min: -8, max: 3 });
    assert_eq!(gradients.mean(), 0.0);
    gradients.add(Pair { min: -1, max: 4 });
    assert_eq!(gradients.mean(), 3.0);
    gradients.clear();
    assert_eq!(gradients.mean(), 0.0);
}

#[test]
fn it_backs_off_with_the_probability_of_the_gradient() {
    // A rise of 3 ms a round, once: 1 - 1/e. Each connection draws by its own seed.
    for (rise, least, most) in [(0, 0, 0), (1, 243, 323), (3, 590, 675), (30, 1000, 1000)] {
        let count = (0..1000)
            .filter(|&seed| {
                let config = CcConfig { seed, initial_ssthresh: 100 * MSS, ..config(100) };
                let mut cdg = Cdg::new(&CdgParams::default(), &config);
                let rtt = 100_000_000;
                cdg.former_rtt = Some(Pair { min: rtt, max: rtt });
                cdg.rtt = Some(Pair { min: rtt + rise * 1_000_000, max: rtt + rise * 1_000_000 });
                cdg.judge(&sample(1, MSS))
            })
            .count();
        assert!((least..=most).contains(&count), "{rise} ms: {count} of 1000");
    }
}

#[test]
fn after_a_backoff_it_rests_for_a_round_trip() {
    let mut cdg = avoiding(&CdgParams::default(), 100);
    let mut feeder = Feeder::default();
    cdg.shadow = 60 * MSS;
    cdg.back_off();
    assert_eq!((cdg.cwnd(), cdg.ssthresh(), cdg.shadow), (100 * MSS, 70 * MSS, 100 * MSS));
    let begin = feeder.mark();
    cdg.round = Round::default();
    cdg.round.restart(&AckSample { delivered: 70 * MSS, ..sample(1, MSS) });
    feeder.mixed_round_since(&mut cdg, &[(70, 100)], begin);
    // 0.293 segments less with each.
    assert_eq!(cdg.cwnd(), 79_490);
    // A loss of what was in flight then does not reduce it again.
    let mut lost = cdg.clone();
    lost.on_congestion_event(&event(1, 0));
    assert_eq!(lost.cwnd(), 70 * MSS);
    feeder.mixed_round(&mut cdg, &[(71, 100)]);
    assert_eq!((cdg.cwnd(), cdg.backing_off), (71 * MSS, false));
    // What was done without a loss is not undone.
    cdg.undo(Timestamp::from_millis(1));
    assert_eq!(cdg.cwnd(), 71 * MSS);
}

#[test]
fn backoffs_without_effect_end() {
    let params = CdgParams { scale: TimeDelta::from_nanos(1), ..CdgParams::default() };
    let judge = |cdg: &mut Cdg, from: i64, to: i64| {
        cdg.former_rtt = Some(Pair { min: from, max: from });
        cdg.rtt = Some(Pair { min: to, max: to });
        cdg.judge(&sample(1, MSS))
    };
    let mut cdg = avoiding(&params, 100);
    let backoffs: Vec<bool> = (0..7).map(|_| judge(&mut cdg, 100_000_000, 101_000_000)).collect();
    assert_eq!(backoffs, [true, true, true, true, true, false, false]);
    // A sum that falls by 32 microseconds or more says that they had an effect.
    assert!(!judge(&mut cdg, 110_000_000, 100_000_000));
    assert!(judge(&mut cdg, 100_000_000, 120_000_000));
    let mut background = avoiding(&CdgParams { ineffectual: 0, ..params }, 100);
    assert!((0..20).all(|_| judge(&mut background, 100_000_000, 101_000_000)));
}

#[test]
fn a_loss_leaves_half_of_the_shadow_window() {
    for (shadow, with, remain) in
        [(100, true, 50), (140, true, 70), (300, true, 100), (140, false, 50), (0, true, 50)]
    {
        let mut cdg = avoiding(&CdgParams { shadow: with, ..CdgParams::default() }, 100);
        cdg.shadow = shadow * MSS;
        cdg.on_congestion_event(&event(1, 0));
        assert_eq!((cdg.cwnd(), cdg.ssthresh()), (remain * MSS, remain * MSS), "{shadow}");
        cdg.undo(Timestamp::from_millis(2));
        assert_eq!(cdg.cwnd(), 100 * MSS);
    }
    let mut cdg = avoiding(&CdgParams::default(), 100);
    cdg.on_rto(&event(1, 0));
    assert_eq!((cdg.cwnd(), cdg.ssthresh()), (MSS, 50 * MSS));
    // It grows with the window, and is no more than it while the application is the limit.
    let mut cdg = avoiding(&CdgParams::default(), 10);
    Feeder::default().mixed_round(&mut cdg, &[(10, 100)]);
    assert_eq!((cdg.cwnd(), cdg.shadow), (11 * MSS, 11 * MSS));
    cdg.shadow = 40 * MSS;
    cdg.on_ack(&AckSample { cwnd_limited: false, ..sample(1, MSS) });
    assert_eq!(cdg.shadow, 11 * MSS);
}

#[test]
fn a_loss_is_tolerated_unless_the_queue_is_full() {
    let params =
        CdgParams { loss_tolerance: true, scale: TimeDelta::from_secs(1_000_000), ..CdgParams::default() };
    // Changes of the smallest and the largest RTT in microseconds.
    for (min, max, queue, remain) in [
        (500, 500, Queue::NotFull, 100),
        (0, -500, Queue::NotFull, 100),
        (500, 0, Queue::Full, 50),
        (0, 0, Queue::Unknown, 50),
        (20, 20, Queue::Unknown, 50),
    ] {
        let mut cdg = avoiding(&params, 100);
        cdg.former_rtt = Some(Pair { min: 100_000_000, max: 200_000_000 });
        cdg.rtt = Some(Pair { min: 100_000_000 + 1000 * min, max: 200_000_000 + 1000 * max });
        cdg.judge(&sample(1, MSS));
        assert_eq!(cdg.queue, queue, "{min} and {max}");
        cdg.on_congestion_event(&event(1, 0));
        assert_eq!(cdg.cwnd(), remain * MSS, "{min} and {max}");
        cdg.on_recovery_exit(Timestamp::from_millis(2));
        assert_eq!(cdg.queue, Queue::Unknown);
    }
}

#[test]
fn a_delayed_acknowledgement_only_lowers_the_smallest_rtt() {
    let mut cdg = avoiding(&CdgParams::default(), 100);
    let mut take = |acked, rtt| {
        cdg.take_sample(&AckSample { rtt: Some(TimeDelta::from_nanos(rtt)), ..sample(1, acked * MSS) });
        cdg.rtt.map(|pair| (pair.min, pair.max))
    };
    assert_eq!(take(2, 100), Some((100, 100)));
    assert_eq!(take(1, 140), Some((100, 100)), "delayed");
    assert_eq!(take(1, 140), Some((100, 140)), "one of two segments allows for one delayed");
    take(2, 100);
    assert_eq!(take(1, 90), Some((90, 140)));
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn alone_it_keeps_the_queue_shorter_than_reno() {
    let queue = |name: &str| {
        let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
        let outcome = Bottleneck::new(vec![flow], 1000, 50, 100).measure(10, 60);
        (outcome.shares[0], outcome.queue)
    };
    let (cdg, reno) = (queue("cdg"), queue("reno"));
    assert!(cdg.0 > 0.8 && cdg.1 < 0.6 * reno.1, "{cdg:?} against {reno:?}");
}
