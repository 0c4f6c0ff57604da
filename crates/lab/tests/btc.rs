//! Measuring tools as applications of scenarios: cap gets the rate of a bulk flow, and its report is written.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use warpline_lab::btc::{CapReport, TrenoReport};
use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_scenario::Scenario;

fn simulate(app: &str, directory: &Path) -> RunOutcome {
    simulate_with(app, "{ kind = \"every\", n = 2000 }", directory)
}

fn simulate_with(app: &str, loss: &str, directory: &Path) -> RunOutcome {
    let text = format!(
        r#"
name = "capacity"
duration = "20s"
[[link]]
between = ["a", "b"]
rate = "10Mbit/s"
delay = "20ms"
queue = {{ kind = "droptail", limit = "60p" }}
loss = {loss}
[[flow]]
name = "one"
from = "a"
to = "b"
{app}
"#
    );
    let file = directory.join("scenario.toml");
    std::fs::write(&file, text).unwrap();
    let scenario = Scenario::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { out: Some(directory.join("out")), force: true, ..RunOptions::default() };
    run(&scenario, &options, &mut |_| Control::Continue).unwrap()
}

fn report(outcome: &RunOutcome) -> String {
    std::fs::read_to_string(outcome.directory.as_ref().unwrap().join("btc-one.0.json")).unwrap()
}

#[test]
fn cap_gets_the_rate_of_a_bulk_flow() {
    let directory = tempfile::tempdir().unwrap();
    for cc in ["reno", "cubic"] {
        let goodput = |app: &str| {
            let outcome = simulate(&format!("app = \"{app}\"\ncc = \"{cc}\""), directory.path());
            (outcome.summary.flows[0].goodput_bps, outcome)
        };
        let (bulk, _) = goodput("bulk");
        let (cap, outcome) = goodput("cap");
        assert!((cap / bulk - 1.0).abs() < 0.03, "{cc}: cap {cap}, bulk {bulk}");
        let report: CapReport = serde_json::from_str(&report(&outcome)).unwrap();
        let btc = report.bulk_transfer_capacity_bps.unwrap();
        assert!((btc / cap - 1.0).abs() < 0.02, "{cc}: {btc} reported, {cap} delivered");
        assert_eq!(report.flow_based_path_properties.one_way_delay_min_ms.map(f64::round), Some(21.0));
        let receiver = report.receiver.unwrap();
        assert!(receiver.missing > 0 && receiver.copies == 0, "{receiver:?}");
        // The same seed gives the same bytes.
        let again = simulate(&format!("app = \"cap\"\ncc = \"{cc}\""), directory.path());
        assert_eq!(self::report(&again), serde_json::to_string_pretty(&report).unwrap());
    }
}

#[test]
fn treno_measures_with_echoes() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = simulate("app = \"treno\"\nstop = \"15s\"", directory.path());
    let report: TrenoReport = serde_json::from_str(&report(&outcome)).unwrap();
    let bps = report.throughput_bps.unwrap();
    assert!((5e6..9.74e6).contains(&bps), "{report:?}");
    assert_eq!(report.elapsed_time_s, 15.0);
    assert_eq!(outcome.summary.flows[0].delivered_bytes * 8, report.data_sent_bits);
}

#[test]
fn parameters_and_options_reach_the_tools() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = simulate("app = \"cap\"\ncc = { kind = \"cubic\", beta = 0.5 }", directory.path());
    let report: CapReport = serde_json::from_str(&report(&outcome)).unwrap();
    assert_eq!(report.congestion_control, "cubic:beta=0.5");
    assert!(report.statements.congestion_avoidance.contains("beta=0.5"), "{report:?}");
    let outcome = simulate("app = \"treno\"\ntcp = { delayed_ack = \"40ms\" }", directory.path());
    let report: TrenoReport = serde_json::from_str(&self::report(&outcome)).unwrap();
    let (_, stated) = report.statements.iter().find(|(name, _)| name == "delayed acknowledgements").unwrap();
    assert!(stated.contains("pairs") && stated.contains("40 ms"), "{stated}");
}

#[test]
fn every_option_of_the_emulated_tcp_can_be_set_in_a_scenario_and_is_stated() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = simulate(
        r#"app = "cap"
cc = "reno"
[flow.tcp]
recovery = "newreno"
sack = false
rack = false
tlp = false
mss = "1000B"
receive_buffer = "100KB"
timestamps = false
initial_rto = "3s"
min_rto = "1s"
max_rto = "64s"
tick = "500ms"
heartbeat = true
delayed_ack = "200ms"
initial_window = "2p""#,
        directory.path(),
    );
    let report: CapReport = serde_json::from_str(&report(&outcome)).unwrap();
    let stated = &report.statements;
    for (statement, word) in [
        (&stated.congestion_avoidance, "cwnd grows by one segment"),
        (&stated.loss_recovery, "NewReno"),
        (&stated.segment_size, "1000 bytes of data in packets of 1040 bytes"),
        (&stated.headers, "40 bytes of IP and TCP headers are"),
        (&stated.retransmission_timeout, "at least 1 s, and at most 64 s; 3 s before the first sample"),
        (
            &stated.retransmission_timeout,
            "whole ticks of 500 ms: one of n ticks ends with the n-th beat of a heartbeat",
        ),
        (&stated.acknowledgements, "or after 200 ms"),
        (&stated.advertised_window, "100000 bytes"),
    ] {
        assert!(statement.contains(word), "{word}: {statement}");
    }
    assert!(report.bulk_transfer_capacity_bps.unwrap() > 1e6);
}

#[test]
fn a_heartbeat_moves_time_outs_of_cap_and_of_bulk_flows() {
    let directory = tempfile::tempdir().unwrap();
    let loss = "{ kind = \"bernoulli\", probability = 0.2 }";
    for app in ["cap", "bulk"] {
        // The times and amounts delivered; the same packets are lost, whenever they are sent.
        let delivered = |tcp: &str| {
            let flow = format!(
                "app = \"{app}\"\ncc = \"reno\"\ntcp = {{ min_rto = \"1s\", tick = \"500ms\"{tcp} }}"
            );
            let outcome = simulate_with(&flow, loss, directory.path());
            assert!(outcome.summary.flows[0].rtos > 2, "{app}: {:?}", outcome.summary.flows[0]);
            std::fs::read(outcome.directory.unwrap().join("series_flows.parquet")).unwrap()
        };
        let modern = delivered("");
        assert!(delivered(", heartbeat = false") == modern, "{app}");
        let beating = delivered(", heartbeat = true");
        // Whole ticks from a beat of random phase, not from when the timer was set.
        assert!(beating != modern, "{app}");
        assert!(delivered(", heartbeat = true") == beating, "{app}: the same seed, the same phase");
    }
}

#[test]
fn options_that_do_not_go_together_are_errors() {
    let refused = |app: &str| {
        let text = format!(
            "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n{app}"
        );
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("scenario.toml");
        std::fs::write(&file, text).unwrap();
        Scenario::load(&file, &[]).unwrap_err().to_string()
    };
    assert!(refused("app = \"cap\"\ntransport = \"udp\"").contains("cannot run over UDP"));
    assert!(refused("app = \"treno\"\ntransport = \"tcp\"").contains("cannot run over TCP"));
    assert!(refused("app = \"treno\"\ncc = \"reno\"").contains("`cc` is for TCP"));
    let no_tick = refused("app = \"cap\"\ntcp = { heartbeat = true }");
    assert!(no_tick.contains("`heartbeat`") && no_tick.contains("500ms"), "{no_tick}");
    let useless = refused("app = \"treno\"\ntcp = { pacing = true }");
    assert!(useless.contains("no use for `tcp.pacing`") && useless.contains("delayed_ack"), "{useless}");
}
