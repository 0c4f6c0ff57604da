//! How the algorithms behave on a small bottleneck: that they converge, share, yield, and move as recorded.

use std::fmt::Write as _;

use warpline_core::Timestamp;

use super::testbed::{Bottleneck, MSS, config};
use super::*;

fn named(name: &str) -> Controller {
    Algorithm::of_kind(name).unwrap().build(&config(10))
}

fn run(
    names: &[&str],
    packets_per_sec: u64,
    rtt_ms: u64,
    limit: u64,
    from: u64,
    to: u64,
) -> testbed::Outcome {
    let flows = names.iter().map(|name| named(name)).collect();
    Bottleneck::new(flows, packets_per_sec, rtt_ms, limit).measure(from, to)
}

/// What is said of one algorithm, where it differs from `otherwise`.
fn said_of<T: Copy>(name: &str, exceptions: &[(&str, T)], otherwise: T) -> T {
    let names = Algorithm::KINDS;
    assert!(exceptions.iter().all(|(other, _)| names.contains(other)), "an exception has no algorithm");
    exceptions.iter().find(|(other, _)| *other == name).map_or(otherwise, |(_, said)| *said)
}

#[test]
fn alone_on_a_link_each_uses_it() {
    // 1000 packets/s and 50 ms: a pipe of 50 packets, and a queue as long. Those that keep the queue short, or yield, leave some of it.
    let exceptions = [
        ("bbr3", 0.95),
        ("cdg", 0.8),
        ("ledbat", 0.95),
        ("ledbat++", 0.75),
        ("nice", 0.85),
        ("lp", 0.4),
        ("fixed", 0.19),
    ];
    let shares = Algorithm::KINDS.iter().map(|&name| (name, run(&[name], 1000, 50, 50, 10, 60).shares[0]));
    let wrong: Vec<_> =
        shares.filter(|&(name, share)| share <= said_of(name, &exceptions, 0.97) || share > 1.001).collect();
    assert_eq!(wrong, []);
}

#[test]
fn two_of_a_kind_share() {
    // At least so much together, and so much of the larger share for the smaller. Vegas and Nice are content anywhere between alpha and
    // beta, and the later of two takes the other's queue for path; to a TCP-LP the other is congestion.
    let exceptions = [
        ("vegas", (0.8, 0.3)),
        ("bic", (0.8, 0.35)),
        ("nice", (0.8, 0.3)),
        ("lp", (0.4, 0.3)),
        ("fixed", (0.2, 0.5)),
    ];
    let shares =
        Algorithm::KINDS.iter().map(|&name| (name, run(&[name, name], 2000, 40, 80, 20, 120).shares));
    let wrong: Vec<_> = shares
        .filter(|(name, shares)| {
            let (together, least) = said_of(name, &exceptions, (0.8, 0.5));
            let (less, more) = (shares[0].min(shares[1]), shares[0].max(shares[1]));
            less + more <= together || less <= least * more
        })
        .collect();
    assert_eq!(wrong, []);
}

#[test]
fn vegas_keeps_a_short_queue_and_reno_fills_it() {
    let vegas = run(&["vegas"], 1000, 50, 100, 10, 60);
    assert!((1.0..6.0).contains(&vegas.queue), "{}", vegas.queue);
    let reno = run(&["reno"], 1000, 50, 100, 10, 60);
    assert!(reno.queue > 25.0, "{}", reno.queue);
    assert!(reno.losses[0] > vegas.losses[0]);
}

#[test]
fn ledbat_keeps_its_target() {
    // 100 ms at 1000 packets/s are 100 packets; the queue has room for 300.
    let outcome = run(&["ledbat"], 1000, 50, 300, 20, 80);
    assert!((85.0..110.0).contains(&outcome.queue), "{}", outcome.queue);
    assert_eq!(outcome.losses[0], 0);
}

#[test]
fn hystart_loses_less_in_the_first_slow_start() {
    // The queue is four and a half pipes long; plain slow start doubles past it.
    let losses = |hystart| {
        let params = CubicParams {
            slow_start: SlowStartParams { hystart, ..SlowStartParams::default() },
            ..CubicParams::default()
        };
        let flow = Algorithm::Cubic(params).build(&config(10));
        Bottleneck::new(vec![flow], 2000, 100, 900).measure(1, 4).losses[0]
    };
    let plain = losses(Hystart::No);
    for hystart in [Hystart::Linux, Hystart::Rfc9406, Hystart::Search] {
        assert!(losses(hystart) < plain / 2, "{hystart:?}: {} against {plain}", losses(hystart));
    }
}

#[test]
fn background_flows_yield_to_reno() {
    // LEDBAT++ needs a queue that can hold more than its target of 60 ms.
    for (name, limit) in [("nice", 50), ("ledbat++", 200)] {
        let alone = run(&["reno"], 1000, 50, limit, 20, 120).shares[0];
        let outcome = run(&["reno", name, name, name, name], 1000, 50, limit, 20, 120);
        assert!(outcome.shares[0] > 0.85 * alone, "{name}: reno has {} of {alone}", outcome.shares[0]);
    }
    // What four Renos would have taken.
    let crowd = run(&["reno"; 5], 1000, 50, 50, 20, 120);
    assert!(crowd.shares[0] < 0.4);
}

#[test]
fn many_nice_flows_go_below_one_segment() {
    // 40 flows on a pipe of ten packets, starting one after the other: a segment each would be a standing queue.
    let run = |params: NiceParams| {
        let flows = (0..40).map(|_| Algorithm::Nice(params).build(&config(2))).collect();
        let mut link = Bottleneck::new(flows, 200, 50, 50);
        link.stagger(TimeDelta::from_secs(1));
        let outcome = link.measure(60, 120);
        let below = (0..40).filter(|&flow| link.cwnd(flow) < MSS).count();
        (outcome.queue, outcome.shares.iter().sum::<f64>(), below)
    };
    let (queue, used, below) = run(NiceParams::default());
    let (held_queue, ..) = run(NiceParams { floor: 1.0, ..NiceParams::default() });
    assert!(below >= 5, "{below} flows below one segment");
    assert!(used > 0.5, "{used}");
    assert!(queue < 0.6 * held_queue, "{queue} against {held_queue}");
}

#[test]
fn westwood_and_bbr_shrug_off_losses_that_are_not_congestion() {
    // One packet in 200 is lost at random on a pipe of 50: Reno's window averages 17 segments.
    let share = |name: &str| {
        let mut link = Bottleneck::new(vec![named(name)], 1000, 50, 30);
        link.lose_every = 200;
        link.measure(10, 60).shares[0]
    };
    assert!(share("reno") < 0.45, "{}", share("reno"));
    assert!(share("westwood") > 1.4 * share("reno"), "{} against {}", share("westwood"), share("reno"));
    assert!(share("bbr") > 0.95 && share("bbr3") > 0.8, "{} and {}", share("bbr"), share("bbr3"));
}

/// Windows of one flow on a link of 500 packets/s, 60 ms and a queue of 30, twice a second.
#[test]
fn windows_over_time() {
    let mut table = String::from("   s");
    let names = Algorithm::KINDS;
    for name in names {
        let _ = write!(table, "{name:>18}");
    }
    let mut links: Vec<Bottleneck> =
        names.iter().map(|name| Bottleneck::new(vec![named(name)], 500, 60, 30)).collect();
    for half in 1..=40u64 {
        let _ = write!(table, "\n{:4.1}", half as f64 / 2.0);
        for link in &mut links {
            link.run_to(Timestamp::from_millis(500 * half));
            let threshold = match link.ssthresh(0) {
                u64::MAX => "-".to_owned(),
                bytes => bytes.to_string(),
            };
            let _ = write!(table, "{:>10}/{threshold:>7}", link.cwnd(0));
        }
    }
    insta::assert_snapshot!(table);
}
