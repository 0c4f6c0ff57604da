//! Measuring tools as applications of scenarios: what cap gets is what a bulk flow gets, and its report is written.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use warpline_lab::btc::{CapReport, TrenoReport};
use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_lab::scenario::Scenario;
use warpline_net::Control;

fn simulate(app: &str, directory: &Path) -> RunOutcome {
    let text = format!(
        r#"
name = "capacity"
duration = "20s"
[[link]]
between = ["a", "b"]
rate = "10Mbit/s"
delay = "20ms"
queue = {{ kind = "droptail", limit = "60p" }}
loss = {{ kind = "every", n = 2000 }}
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
fn cap_gets_what_a_bulk_flow_gets() {
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
        assert!((btc / cap - 1.0).abs() < 0.02, "{cc}: {btc} told, {cap} delivered");
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
    assert!(stated.contains("pairs") && stated.contains("40ms"), "{stated}");
}

#[test]
fn what_does_not_go_together_is_refused() {
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
    let useless = refused("app = \"treno\"\ntcp = { pacing = true }");
    assert!(useless.contains("no use for `tcp.pacing`") && useless.contains("delayed_ack"), "{useless}");
}
