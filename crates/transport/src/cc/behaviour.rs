//! How the algorithms behave on a small bottleneck: that they converge, share, yield, and move as recorded.

use std::fmt::Write as _;

use warpline_core::Timestamp;

use super::testbed::{Bottleneck, MSS, config};
use super::*;

fn named(name: &str) -> Controller {
    Algorithm::from_name(name).unwrap().build(&config(10))
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

#[test]
fn alone_on_a_link_each_uses_it() {
    // 1000 packets/s and 50 ms: a pipe of 50 packets, and a queue as long.
    for (name, least) in [
        ("reno", 0.97),
        ("cubic", 0.97),
        ("vegas", 0.97),
        ("bic", 0.97),
        ("westwood", 0.97),
        ("ledbat", 0.95),
        ("ledbat++", 0.75),
        ("nice", 0.85),
    ] {
        let outcome = run(&[name], 1000, 50, 50, 10, 60);
        assert!(outcome.shares[0] > least && outcome.shares[0] <= 1.001, "{name}: {}", outcome.shares[0]);
    }
}

#[test]
fn two_of_a_kind_share() {
    for name in ["reno", "cubic", "vegas", "bic", "westwood", "nice"] {
        let outcome = run(&[name, name], 2000, 40, 80, 20, 120);
        let (a, b) = (outcome.shares[0], outcome.shares[1]);
        assert!(a + b > 0.8, "{name}: {a} and {b}");
        assert!(a.min(b) / a.max(b) > 0.5, "{name}: {a} and {b}");
    }
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
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    let losses = |hystart| {
        let params = CubicParams {
            slow_start: SlowStartParams { hystart, ..SlowStartParams::default() },
            ..CubicParams::default()
        };
        let flow = Algorithm::Cubic(params).build(&config(10));
        Bottleneck::new(vec![flow], 2000, 100, 200).measure(1, 3).losses[0]
    };
    assert_eq!(losses(true), 0);
    assert!(losses(false) > 50, "{}", losses(false));
}

#[test]
fn background_flows_yield_to_reno() {
    let alone = run(&["reno"], 1000, 50, 50, 20, 120).shares[0];
    for name in ["nice", "ledbat++"] {
        let outcome = run(&["reno", name, name, name, name], 1000, 50, 50, 20, 120);
        assert!(outcome.shares[0] > 0.85 * alone, "{name}: reno has {} of {alone}", outcome.shares[0]);
    }
    // What four Renos would have taken.
    let crowd = run(&["reno"; 5], 1000, 50, 50, 20, 120);
    assert!(crowd.shares[0] < 0.4);
}

#[test]
fn many_nice_flows_go_below_one_segment() {
    // 40 flows on a pipe of ten packets: a segment each would be a standing queue.
    let flows = (0..40).map(|_| named("nice")).collect();
    let mut link = Bottleneck::new(flows, 200, 50, 50);
    let nice = link.measure(60, 120);
    let below = (0..40).filter(|&flow| link.cwnd(flow) < MSS).count();
    assert!(below > 10, "{below} flows below one segment");
    let held = Algorithm::Nice(NiceParams { floor: 1.0, ..NiceParams::default() });
    let flows = (0..40).map(|_| held.build(&config(10))).collect();
    let held = Bottleneck::new(flows, 200, 50, 50).measure(60, 120);
    assert!(nice.queue < 0.75 * held.queue, "{} against {}", nice.queue, held.queue);
}

#[test]
fn westwood_survives_a_loss_that_is_not_congestion() {
    // One loss in an otherwise empty queue: Reno halves below the pipe, Westwood returns to it.
    let after = |name: &str| {
        let mut link = Bottleneck::new(vec![named(name)], 1000, 50, 30);
        link.run_to(Timestamp::from_secs(20));
        let mut cc = named(name);
        let mut feeder = testbed::Feeder::default();
        for _ in 0..20 {
            feeder.round(&mut cc, 60);
            if cc.cwnd() > 60_000 {
                break;
            }
        }
        let before = cc.cwnd();
        cc.on_congestion_event(&testbed::event(5000, before));
        cc.cwnd() as f64 / before as f64
    };
    assert!(after("reno") < 0.51);
    assert!(after("westwood") > 0.6, "{}", after("westwood"));
}

/// Windows of one flow on a link of 500 packets/s, 60 ms and a queue of 30, twice a second.
#[test]
fn windows_over_time() {
    let mut table = String::from("   s");
    let names = Algorithm::names();
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
