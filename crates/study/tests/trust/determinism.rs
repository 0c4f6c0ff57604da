//! The same scenario and seed give the same bytes, in one process or two. Observation changes nothing. Random numbers
//! depend only on the part that draws them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use warpline_core::TimeDelta;
use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::{FlowRow, LinkRow};
use warpline_scenario::{ClockMode, Scenario};
use warpline_study::replicate::replicate;

use crate::support::{Rows, parse, root, simulate};

/// The examples that are simulations, since a live run is different every time. Those with guests, which not every machine can run,
/// are in `guests.rs`.
fn examples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join("scenarios")).unwrap();
    let mut files: Vec<PathBuf> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter(|path| {
            let scenario = Scenario::load(path, &[]).unwrap();
            scenario.clock.mode == ClockMode::Virtual && scenario.guests().next().is_none()
        })
        .collect();
    files.sort();
    assert!(files.len() >= 7);
    files
}

/// An example, shortened if it is long.
fn load(path: &Path, seed: u64) -> Scenario {
    let long = Scenario::load(path, &[]).unwrap();
    let late = long.flow.iter().any(|flow| flow.start.latest.as_secs_f64() > 4.0);
    let duration = if late { "12s" } else { "4s" };
    let shorter = ["warmup=1s".to_owned(), format!("duration={duration}")];
    let is_long = long.duration.0 > TimeDelta::from_secs(4);
    let sets: Vec<String> = shorter.into_iter().filter(|_| is_long).chain([format!("seed={seed}")]).collect();
    Scenario::load(path, &sets).unwrap_or_else(|errors| panic!("{errors}"))
}

fn write(scenario: &Scenario, out: &Path) -> RunOutcome {
    let options = RunOptions { out: Some(out.to_owned()), report: true, ..RunOptions::default() };
    run(scenario, &options, &mut |_| Control::Continue).unwrap()
}

/// Every file of a run directory.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let mut all: BTreeMap<String, Vec<u8>> =
        files.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect();
    for folder in folders {
        let own = self::files(&folder).into_iter();
        all.extend(own.map(|(file, bytes)| (format!("{}/{file}", name(&folder)), bytes)));
    }
    all
}

#[track_caller]
pub(crate) fn assert_same(one: &Path, two: &Path) {
    let (one, two) = (files(one), files(two));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    for (name, bytes) in &one {
        // Not assert_eq, which would print megabytes.
        assert!(*bytes == two[name], "{name} differs");
    }
    for name in ["summary.json", "flows.parquet", "series_flows.parquet", "report.html", "scenario.toml"] {
        assert!(one.contains_key(name), "{name} is missing");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_does_not() {
    for path in examples() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        let scenario = load(&path, 7);
        let first = write(&scenario, &one);
        write(&scenario, &two);
        assert_same(&one, &two);
        assert!(first.summary.totals.goodput_bps > 0.0, "{}", path.display());
        let other = run(&load(&path, 8), &RunOptions::default(), &mut |_| Control::Continue).unwrap();
        // These draw no random numbers, fast-forward.toml in so short a time.
        let random = !["old-tcp.toml", "rrul.toml", "fast-forward.toml", "careful-resume.toml"]
            .iter()
            .any(|name| path.ends_with(name));
        assert_eq!(rows(&first).0 != rows(&other).0, random, "{}", path.display());
    }
}

/// Set for the child process of the test below: the directory for its runs.
const CHILD: &str = "WARPLINE_TRUST_CHILD";

#[test]
fn two_processes_give_the_same_bytes() {
    let write_all = |out: &Path| {
        for path in examples() {
            write(&load(&path, 3), &out.join(path.file_stem().unwrap()));
        }
    };
    if let Some(out) = std::env::var_os(CHILD) {
        return write_all(Path::new(&out));
    }
    let directory = tempfile::tempdir().unwrap();
    let (own, childs) = (directory.path().join("own"), directory.path().join("child"));
    write_all(&own);
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "determinism::two_processes_give_the_same_bytes"])
        .env(CHILD, &childs)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    for path in examples() {
        let name = path.file_stem().unwrap();
        assert_same(&own.join(name), &childs.join(name));
    }
}

/// A scenario with a bit of everything; the caller says what is recorded.
fn mixture(link_record: &str, flow_record: &str, interval: &str) -> Scenario {
    parse(&format!(
        r#"
        duration = "6s"
        warmup = "1s"
        seed = 11
        sample_interval = "{interval}"
        [topology]
        kind = "dumbbell"
        rtt = "30ms"
        bottleneck = {{ rate = "10Mbit/s", queue = {{ kind = "droptail", limit = "1BDP" }}, record = [{link_record}] }}
        [[link]]
        between = ["x", "y"]
        rate = "3Mbit/s"
        delay = "5ms"
        loss = {{ kind = "bernoulli", probability = 0.01 }}
        jitter = {{ kind = "exponential", mean = "1ms", reorder = true }}
        record = [{link_record}]
        [[flow]]
        name = "bulk"
        from = "left"
        to = "right"
        count = 2
        start = "0s..500ms"
        record = [{flow_record}]
        [[flow]]
        name = "web"
        app = "web"
        from = "left"
        to = "right"
        record = [{flow_record}]
        [[flow]]
        name = "messages"
        app = "poisson"
        from = "x"
        to = "y"
        message_rate = 30
        record = [{flow_record}]
        [[flow]]
        name = "lossy"
        from = "x"
        to = "y"
        cc = "nice"
        record = [{flow_record}]
        [[flow]]
        name = "call"
        app = "onoff"
        from = "x"
        to = "y"
        rate = "200kbit/s"
        "#
    ))
}

/// Rows without the columns that need `record = ["latency"]`.
fn rows(outcome: &RunOutcome) -> (Vec<FlowRow>, Vec<LinkRow>, u64) {
    let mut flows = outcome.summary.flows.clone();
    for flow in &mut flows {
        (flow.latency_p50_ms, flow.latency_p95_ms, flow.latency_p99_ms) = (None, None, None);
        // It comes of the samples.
        flow.stalled_max_s = None;
    }
    (flows, outcome.summary.links.clone(), outcome.packet_hops)
}

#[test]
fn observation_changes_nothing() {
    let bare = run(&mixture("", "", "100ms"), &RunOptions::default(), &mut |_| Control::Continue).unwrap();
    let expected = rows(&bare);
    assert!(bare.summary.flows.iter().all(|flow| flow.delivered_bytes > 0));
    let links = [r#""packets""#, r#""pcap""#, r#""queue""#, r#""packets", "pcap", "queue""#];
    let flows = [r#""tcp""#, r#""qlog""#, r#""latency""#, r#""tcp", "qlog", "latency""#];
    let intervals = ["100ms", "7ms", "1s", "10s"];
    for ((link, flow), interval) in links.into_iter().zip(flows).zip(intervals) {
        let directory = tempfile::tempdir().unwrap();
        for out in [None, Some(directory.path().join("run"))] {
            let options = RunOptions { tables: true, report: out.is_some(), out, ..RunOptions::default() };
            let outcome = run(&mixture(link, flow, interval), &options, &mut |_| Control::Continue).unwrap();
            let found = rows(&outcome);
            for (one, other) in found.0.iter().zip(&expected.0) {
                assert_eq!(one, other, "{link} {flow} {interval} {:?}", options.out);
            }
            for (one, other) in found.1.iter().zip(&expected.1) {
                assert_eq!(one, other, "{link} {flow} {interval} {:?}", options.out);
            }
            assert!(found == expected, "{link} {flow} {interval} {:?}", options.out);
        }
    }
    let many = replicate(&mixture("", "", "100ms"), &[10, 11, 12], 2, &RunOptions::default(), &|_, _| {
        Control::Continue
    });
    let many = many.unwrap();
    assert!(rows(&many.runs[1]) == expected);
    assert!(rows(&many.runs[0]) != expected);
}

#[test]
fn another_flow_does_not_change_the_random_numbers_of_the_others() {
    let text = |more: &str| {
        format!(
            r#"
            duration = "20s"
            link = [
                {{ between = ["a", "b"], rate = "8Mbit/s", delay = "10ms", loss = {{ kind = "bernoulli", probability = 0.02 }} }},
                {{ between = ["c", "d"], rate = "8Mbit/s", delay = "10ms" }},
            ]
            {more}
            [[flow]]
            name = "bulk"
            from = "a"
            to = "b"
            count = 3
            start = "0s..5s"
            [[flow]]
            name = "poisson"
            app = "poisson"
            from = "a"
            to = "b"
            message_rate = 20
            "#
        )
    };
    let alone = simulate(&text(""));
    let beside = simulate(&text(
        r#"
        [[flow]]
        name = "more"
        app = "web"
        from = "c"
        to = "d"
        count = 2
        start = "0s..3s"
        "#,
    ));
    // A new flow elsewhere in the network changes nothing for the others, although their indices change.
    for flow in &alone.summary.flows {
        let other = beside.flow(&flow.name);
        assert_eq!(*flow, FlowRow { flow: flow.flow, ..other.clone() });
        assert_ne!(flow.flow, other.flow);
    }
    let starts: Vec<f64> = alone.summary.flows.iter().map(|flow| flow.start_s).collect();
    assert!(
        starts[0] != starts[1]
            && starts[1] != starts[2]
            && starts[..3].iter().all(|s| (0.0..5.0).contains(s))
    );
}

#[test]
fn a_small_run_gives_exactly_these_figures() {
    // In whole numbers, so that any difference between profiles, processors or versions is visible.
    let outcome = run(&mixture("", "", "100ms"), &RunOptions::default(), &mut |_| Control::Continue).unwrap();
    let mut text = format!("{} packet hops, {} events\n", outcome.packet_hops, outcome.events);
    for f in &outcome.summary.flows {
        text += &format!(
            "{}: start {:.0} ns, sent {} ({} B), again {}, lost {}, delivered {} B, rtos {}, recoveries {}, transfers {}/{}\n",
            f.name,
            f.start_s * 1e9,
            f.sent_packets,
            f.sent_bytes,
            f.retransmitted_packets,
            f.lost_packets,
            f.delivered_bytes,
            f.rtos,
            f.recoveries,
            f.transfers_completed,
            f.transfers
        );
    }
    for l in &outcome.summary.links {
        text += &format!(
            "{}: offered {}, sent {} ({} B), dropped {}+{}, longest wait {:.0} ns\n",
            l.name,
            l.arrivals,
            l.sent_packets,
            l.sent_bytes,
            l.drops_overflow,
            l.drops_loss,
            l.queue_delay_max_ms * 1e6
        );
    }
    insta::assert_snapshot!("golden", text);
}
