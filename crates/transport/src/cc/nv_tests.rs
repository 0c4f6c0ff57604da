//! Tests of TCP-NV.

use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
use super::*;

/// One in congestion avoidance with so many segments.
fn avoiding(params: &NvParams, segments: u64) -> Nv {
    Nv::new(params, &CcConfig { initial_ssthresh: segments * MSS, ..config(segments) })
}

/// One of 100 segments with so many RTTs since its last decision, over three rounds, whose rate and smallest RTT need `needed` segments.
fn measured(needed: u64, calls: u32) -> Nv {
    let mut nv = avoiding(&NvParams::default(), 100);
    (nv.max_rate, nv.min_rtt) = ((needed * MSS) as f64 * 10.0, 0.1);
    (nv.calls, nv.rounds) = (calls, 3);
    nv
}

/// An acknowledgement of one segment out of a window of `segments`.
fn ack(segments: u64, rtt: u64) -> AckSample {
    let delivered = 1000 * MSS;
    AckSample {
        rtt: Some(TimeDelta::from_millis(rtt)),
        delivered,
        prior_delivered: delivered - segments * MSS,
        ..sample(1, MSS)
    }
}

#[test]
fn the_rate_is_what_was_in_flight_over_the_smoothed_rtt() {
    let mut nv = avoiding(&NvParams::default(), 100);
    nv.measure(&ack(50, 100), TimeDelta::from_millis(100));
    assert_eq!((nv.rtt, nv.min_rtt), (Some(0.1), 0.1));
    assert!((nv.max_rate - 500.0 * MSS as f64).abs() < 1e-6);
    nv.measure(&ack(90, 200), TimeDelta::from_millis(200));
    // 150 ms; 90 segments in that are 600 a second.
    assert!((nv.rtt.unwrap() - 0.15).abs() < 1e-12 && nv.min_rtt == 0.1);
    assert!((nv.max_rate - 600.0 * MSS as f64).abs() < 1e-6);
    assert_eq!(nv.calls, 2);
}

#[test]
fn a_known_rtt_bounds_the_smallest() {
    for (rtt, counts) in [(200, 0.1), (90, 0.09), (50, 0.08)] {
        let params = NvParams { base_rtt: TimeDelta::from_millis(100), ..NvParams::default() };
        let mut nv = avoiding(&params, 100);
        nv.measure(&ack(50, rtt), TimeDelta::from_millis(rtt));
        assert!((nv.min_rtt - counts).abs() < 1e-12, "{rtt} ms: {}", nv.min_rtt);
    }
}

#[test]
fn the_smallest_rtt_is_forgotten_after_a_random_while() {
    let mut periods = Vec::new();
    for seed in 0..200 {
        let config = CcConfig { seed, initial_ssthresh: 100 * MSS, ..config(100) };
        let mut nv = Nv::new(&NvParams::default(), &config);
        nv.measure(&ack(50, 100), TimeDelta::from_millis(100));
        assert_eq!(nv.reset_at, Timestamp::from_millis(2001));
        (nv.min_rtt, nv.next_min_rtt) = (0.05, 0.09);
        let now = Timestamp::from_millis(2001);
        nv.measure(&AckSample { now, ..ack(50, 100) }, TimeDelta::from_millis(100));
        assert_eq!((nv.min_rtt, nv.next_min_rtt), (0.09, f64::INFINITY));
        periods.push(nv.reset_at.saturating_since(now).as_secs_f64());
    }
    let (least, most) = periods.iter().fold((9.0f64, 0.0f64), |(low, high), p| (low.min(*p), high.max(*p)));
    assert!((3.75..3.85).contains(&least) && (6.15..6.25).contains(&most), "{least} to {most}");
}

#[test]
fn a_window_of_more_than_ten_segments_too_much_falls_by_three_tenths_of_that() {
    // What the rate needs and ten: the most that 100 segments may be.
    for (needed, window, threshold) in [(40, 85, 50), (85, 98, 95), (88, 98, 98), (89, 99, 99)] {
        let mut nv = measured(needed, 60);
        nv.judge(&ack(100, 100), MSS);
        assert_eq!((nv.cwnd(), nv.ssthresh()), (window * MSS, threshold * MSS), "{needed}");
        assert_eq!((nv.may_grow, nv.calls, nv.rounds), (false, 0, 0));
    }
    // Enough for it is to stay, or to grow.
    for (needed, decided) in [(91, false), (92, true)] {
        let mut nv = measured(needed, 60);
        nv.may_grow = false;
        nv.judge(&ack(100, 100), MSS);
        assert_eq!((nv.cwnd(), nv.may_grow, nv.calls == 0), (100 * MSS, decided, decided), "{needed}");
    }
}

#[test]
fn a_decision_needs_many_rtts() {
    let decides = |mut nv: Nv| {
        nv.judge(&ack(100, 100), MSS);
        nv.calls == 0
    };
    assert!(decides(measured(40, 60)) && !decides(measured(40, 59)));
    assert!(decides(measured(200, 20)) && !decides(measured(200, 19)));
    let first = |calls| {
        let mut nv = measured(40, calls);
        nv.window.ssthresh = u64::MAX;
        nv
    };
    assert!(decides(first(30)) && !decides(first(29)));
    let after = |rounds| {
        let mut nv = measured(40, 60);
        nv.rounds = rounds;
        nv
    };
    assert!(decides(after(1)) && !decides(after(0)), "the round that ends counts");
    // With too few RTTs growth at least stops, after ten rounds.
    for (rounds, grows) in [(9, true), (10, false)] {
        let mut nv = measured(40, 59);
        nv.rounds = rounds;
        nv.judge(&ack(100, 100), MSS);
        assert_eq!((nv.may_grow, nv.cwnd()), (grows, 100 * MSS));
    }
}

#[test]
fn rounds_of_one_acknowledgement_make_it_wait_for_larger_ones() {
    let mut nv = measured(200, 1);
    nv.may_grow = false;
    nv.judge(&ack(4, 100), 3 * MSS);
    assert_eq!((nv.min_round, nv.calls, nv.may_grow), (6, 0, true));
    assert_eq!(nv.round_end, 1006 * MSS);
    let mut nv = measured(200, 1);
    nv.judge(&ack(4, 100), 2 * MSS);
    assert_eq!(nv.min_round, 4);
}

#[test]
fn growth_is_renos_times_a_power_of_two() {
    for (growth, rounds, grown) in [(0, 1, 1), (1, 1, 2), (-1, 2, 1), (-3, 8, 1), (6, 1, 25)] {
        let mut nv = avoiding(&NvParams::default(), 100);
        nv.growth = growth;
        let mut feeder = Feeder::default();
        // 100 acknowledgements each.
        for _ in 0..rounds {
            feeder.mixed_round(&mut nv, &[(100, 100)]);
        }
        assert!((nv.cwnd() / MSS - 100).abs_diff(grown) <= 1, "{growth}: {}", nv.cwnd());
    }
    let mut nv = avoiding(&NvParams::default(), 100);
    nv.may_grow = false;
    Feeder::default().round(&mut nv, 100);
    assert_eq!(nv.cwnd(), 100 * MSS);
}

#[test]
fn a_loss_leaves_four_fifths_and_a_time_out_halves_growth() {
    let mut nv = avoiding(&NvParams::default(), 100);
    nv.on_congestion_event(&event(1, 0));
    assert_eq!((nv.cwnd(), nv.ssthresh(), nv.growth), (80 * MSS, 80 * MSS, 0));
    nv.undo(Timestamp::from_millis(2));
    assert_eq!(nv.cwnd(), 100 * MSS);
    for growth in (-8..=-1).rev().chain([-8]) {
        nv.window.cwnd = 100 * MSS;
        nv.on_rto(&event(3, 0));
        assert_eq!((nv.cwnd(), nv.ssthresh(), nv.growth), (MSS, 80 * MSS, growth));
    }
    nv.growth = 3;
    nv.on_rto(&event(3, 0));
    assert_eq!(nv.growth, -1);
    // Nine decisions to grow later growth is twice as much; that is not raised above Reno's.
    nv.growth = -1;
    for decision in 1..30 {
        nv.calls = 20;
        nv.allow_growth();
        assert_eq!(nv.growth, if decision < 9 { -1 } else { 0 }, "{decision}");
    }
    let mut raising = avoiding(&NvParams { raise_growth: 2, ..NvParams::default() }, 100);
    for _ in 0..6 {
        raising.calls = 20;
        raising.allow_growth();
    }
    assert_eq!(raising.growth, 2);
}

#[test]
fn after_a_loss_growth_waits_for_a_decision_and_measuring_begins_anew() {
    let mut nv = avoiding(&NvParams::default(), 100);
    let mut feeder = Feeder::default();
    feeder.mixed_round(&mut nv, &[(10, 50)]);
    nv.on_congestion_event(&event(1, 0));
    nv.on_ack(&AckSample { phase: Phase::Recovery, ..ack(80, 100) });
    assert!(nv.reduced);
    feeder.mixed_round(&mut nv, &[(15, 100)]);
    assert!(!nv.reduced && !nv.may_grow && nv.min_rtt == 0.1, "{nv:?}");
    assert_eq!(nv.cwnd(), 80 * MSS);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn it_keeps_a_queue_of_about_ten_segments_each_where_it_knows_the_path() {
    let run = |name: &str, count: usize| {
        let flow = || name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
        let outcome = Bottleneck::new((0..count).map(|_| flow()).collect(), 4000, 50, 400).measure(20, 60);
        (outcome.shares.iter().sum::<f64>(), outcome.queue)
    };
    let (reno, blind) = (run("reno", 1), run("nv", 1));
    for (known, most) in [
        (run("nv:base_rtt=51ms", 1), 16.0),
        (run("nv:reset_period=1h", 1), 25.0),
        (run("nv:base_rtt=51ms", 2), 32.0),
    ] {
        assert!(known.0 > 0.97 && known.1 < most, "{known:?}");
        // What it keeps in the queue becomes part of the smallest RTT after a while.
        assert!(known.1 < blind.1 && 2.0 * blind.1 < reno.1, "{known:?}, {blind:?}, {reno:?}");
    }
}

#[test]
fn it_measures_from_the_acknowledgement_after_a_recovery_on() {
    let mut nv = measured(100, 50);
    nv.on_congestion_event(&event(1, 0));
    nv.on_ack(&sample(2, MSS));
    assert_eq!((nv.rtt, nv.calls, nv.reduced), (None, 0, false));
    nv.on_ack(&sample(3, MSS));
    assert_eq!((nv.rtt, nv.calls), (Some(0.1), 1));
}
