//! The library's congestion controls over QUIC behave as they do over its TCP.

use std::time::Duration;

use warpline_core::parameter::Choice;
use warpline_transport::cc::{Algorithm, FixedParams, NiceParams};

use super::path::Path;

const RATE: f64 = 10e6;

fn named(name: &str) -> Algorithm {
    Algorithm::of_kind(name).unwrap()
}

/// 10 Mbit/s, a round trip of 40 ms, a queue of one bandwidth-delay product.
fn path() -> Path {
    Path::new(RATE, Duration::from_millis(20), 50_000)
}

/// Throughput of a flow's receiver over the next `seconds`, in bit/s.
fn goodput(path: &mut Path, flow: usize, seconds: u64) -> f64 {
    let before = path.flows[flow].received;
    path.run(Duration::from_secs(seconds));
    (path.flows[flow].received - before) as f64 * 8.0 / seconds as f64
}

#[test]
fn every_algorithm_recovers_from_losses() {
    for name in Algorithm::KINDS {
        let mut path = path();
        path.lose_every = 200;
        let flow = path.add(named(name));
        let got = goodput(&mut path, flow, 20);
        assert!(got > 0.05 * RATE, "{name}: {got}");
        assert_eq!(path.view(flow).algorithm, *name);
    }
}

#[test]
fn nice_alone_fills_the_link_and_leaves_the_queue_empty() {
    let mut path = path();
    let flow = path.add(named("nice"));
    path.run(Duration::from_secs(10));
    path.queueing = (0.0, 0);
    let got = goodput(&mut path, flow, 20);
    let queueing = path.queueing.0 / path.queueing.1 as f64;
    assert!(got > 0.85 * RATE, "{got}");
    // Vegas aims at one to three datagrams in the queue, of 1 ms each; Reno's mean queueing delay would be 15 ms or more.
    assert!(queueing < 0.008, "{queueing}");
}

#[test]
fn nice_alone_on_a_slow_link_does_not_yield_to_itself() {
    // A packet takes 24 ms at 500 kbit/s and 6 ms at 2 Mbit/s, so two of them wait longer than the delay that is late on other links.
    for rate in [5e5, 2e6] {
        let mut path = Path::new(rate, Duration::from_millis(20), 50_000);
        let flow = path.add(named("nice"));
        path.run(Duration::from_secs(20));
        let got = goodput(&mut path, flow, 60);
        assert!(got > 0.85 * rate, "{got} of {rate}");
    }
}

#[test]
fn nice_yields_to_a_flow_with_which_reno_would_share() {
    let share = |name: &str| {
        let mut path = path();
        let foreground = path.add(named("reno"));
        let background = path.add(named(name));
        path.run(Duration::from_secs(20));
        let before = path.flows[background].received;
        let foreground = goodput(&mut path, foreground, 60);
        (foreground / RATE, (path.flows[background].received - before) as f64 * 8.0 / 60.0 / RATE)
    };
    let (reno, other) = share("reno");
    assert!(other > 0.25 && reno < 0.7, "two Renos share: {reno} {other}");
    let (reno, nice) = share("nice");
    assert!(reno > 0.85, "Reno beside Nice: {reno}");
    assert!(nice < 0.12, "Nice beside Reno: {nice}");
}

#[test]
fn under_constant_load_the_window_falls_to_a_48th_and_recovers() {
    let mut path = path();
    let flow = path.add(named("nice"));
    path.run(Duration::from_secs(10));
    // The queue stays full: there is no bandwidth to get, and the RTT is at its maximum.
    path.disturb(45_000, Duration::from_secs(400));
    path.run(Duration::from_secs(100));
    let began = path.seconds();
    let sent_before = path.flows[flow].departures.len();
    path.run(Duration::from_secs(300));
    let smallest = path.flows[flow].windows.iter().map(|&(_, window)| window).fold(f64::INFINITY, f64::min);
    assert!(smallest < 1.0 / 40.0, "smallest window {smallest}");
    let sent = path.flows[flow].departures.len() - sent_before;
    // With an RTT of 80 ms, one datagram per RTT would be 3750, and quinn's own minimum of two would be 7500.
    assert!((40..800).contains(&sent), "{sent} datagrams in 300 s");
    let pairs =
        path.flows[flow].departures.windows(2).filter(|two| two[0] >= began && two[1] == two[0]).count();
    assert!(pairs * 3 > sent, "{pairs} pairs in {sent} datagrams");
    // The cross traffic has ended, so the flow uses the link again.
    path.run(Duration::from_secs(30));
    let got = goodput(&mut path, flow, 20);
    assert!(got > 0.8 * RATE, "{got}");
}

#[test]
fn a_window_of_a_48th_stops_waiting_when_the_queue_is_empty() {
    let mut path = path();
    let flow = path.add(named("nice"));
    path.run(Duration::from_secs(10));
    path.disturb(45_000, Duration::from_secs(200));
    path.run(Duration::from_secs(201));
    let (free, window) = (path.seconds(), path.view(flow).cwnd as f64 / path.view(flow).mtu as f64);
    assert!(window < 1.0 / 40.0, "{window}");
    path.run(Duration::from_secs(60));
    // The first pair that finds the queue empty comes up to 96 RTTs (of 76 ms) late. The next packets do not wait.
    let mut after = path.flows[flow].departures.iter().copied().filter(|&at| at > free);
    let first = after.next().unwrap();
    let next = after.find(|&at| at > first).unwrap();
    assert!(first < free + 9.0, "{first} after {free}");
    assert!(next - first < 0.3, "{} s between the first bursts", next - first);
}

#[test]
fn a_window_below_one_datagram_is_paced_at_window_over_rtt() {
    // No congestion and a constant window: the amount sent depends on the RTT alone. quinn itself would never send with such windows.
    for segments in [1.0 / 48.0, 1.0 / 16.0, 0.25, 0.5] {
        let mut path = path();
        let flow = path.add(Algorithm::Fixed(FixedParams { segments }));
        path.run(Duration::from_secs(5));
        let before = path.flows[flow].departures.len();
        path.run(Duration::from_secs(2000));
        let srtt = path.view(flow).srtt.as_secs_f64();
        let per_rtt = (path.flows[flow].departures.len() - before) as f64 / (2000.0 / srtt);
        let share = per_rtt / segments;
        assert!((0.95..1.05).contains(&share), "window {segments}: {per_rtt} datagrams per RTT");
    }
}

#[test]
fn the_floor_is_a_parameter() {
    let mut path = path();
    let flow = path.add(Algorithm::Nice(NiceParams { floor: 1.0, ..NiceParams::default() }));
    path.run(Duration::from_secs(10));
    path.disturb(45_000, Duration::from_secs(100));
    path.run(Duration::from_secs(100));
    let smallest = path.flows[flow].windows.iter().map(|&(_, window)| window).fold(f64::INFINITY, f64::min);
    assert!((0.99..1.5).contains(&smallest), "{smallest}");
}
