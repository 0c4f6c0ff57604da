//! A run that is stopped keeps what it measured; one that fails says why and leaves nothing behind.

use std::path::Path;

use warpline_core::TimeDelta;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_results::{FlowRow, FlowSample, Run};
use warpline_scenario::Scenario;
use warpline_study::replicate::replicate;

use crate::support::parse;

const LONG: &str = r#"
    duration = "60s"
    link = [{ between = ["a", "b"], rate = "100Mbit/s", delay = "10ms", record = ["pcap"] }]
    flow = [{ from = "a", to = "b", max_window = "50p", record = ["tcp", "qlog"] }]
"#;

#[test]
fn a_stopped_run_keeps_its_results_and_is_marked_incomplete() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let options = RunOptions { out: Some(out.clone()), report: true, tables: true, ..RunOptions::default() };
    let mut seen = Vec::new();
    let outcome = run(&parse(LONG), &options, &mut |progress| {
        seen.push(*progress);
        if progress.simulated > TimeDelta::from_secs(5) { Control::Stop } else { Control::Continue }
    })
    .unwrap();
    assert!(!outcome.complete);
    assert!(
        seen.windows(2)
            .all(|pair| pair[0].simulated <= pair[1].simulated && pair[0].events <= pair[1].events)
    );
    assert!(seen.iter().all(|progress| progress.duration == TimeDelta::from_secs(60)));
    let run = Run::open(&out).unwrap();
    let info = &run.summary().info;
    assert_eq!((info.complete, info.stopped.as_deref()), (false, Some("interrupted")));
    assert!((5.0..10.0).contains(&info.simulated_s), "{}", info.simulated_s);
    assert_eq!(info.duration_s, 60.0);
    let flow = &run.rows::<FlowRow>().unwrap()[0];
    // 50 segments in a little over 20 ms, until it was stopped.
    let expected = 50.0 * 1448.0 * 8.0 / 0.0202;
    assert!((flow.goodput_bps / expected - 1.0).abs() < 0.03, "{}", flow.goodput_bps);
    let samples = run.rows::<FlowSample>().unwrap();
    let last = samples.last().unwrap().time_s;
    assert!((info.simulated_s - 0.101..=info.simulated_s).contains(&last), "{last}");
    assert_eq!(samples.len(), (last * 10.0).round() as usize);
    for name in [
        "report.html",
        "a-b.pcapng",
        "tcp.parquet",
        "links.parquet",
        "transfers.parquet",
        "series_links.parquet",
    ] {
        let size = std::fs::metadata(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")).len();
        assert!(size > 0, "{name}");
    }
    assert_eq!(entries(directory.path()), ["run"]);
}

fn entries(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// The error of this scenario with these files. Nothing may be left behind, neither of one run nor of replications.
fn failure(scenario: &str, files: &[(&str, &[u8])]) -> String {
    let source = tempfile::tempdir().unwrap();
    // The file is valid when the scenario is loaded and invalid when it is run; otherwise loading would fail.
    let right = |name: &str| match name.contains("log") {
        true => "1000.500 500 client TCP_MISS/200 5000 GET http://a/\n",
        false => "5\n",
    };
    for (name, _) in files {
        std::fs::write(source.path().join(name), right(name)).unwrap();
    }
    let file = source.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    let scenario = Scenario::load(&file, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    for (name, contents) in files {
        std::fs::write(source.path().join(name), contents).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let options =
        RunOptions { out: Some(directory.path().join("run")), report: true, ..RunOptions::default() };
    let message = run(&scenario, &options, &mut |_| Control::Continue).unwrap_err().to_string();
    assert_eq!(entries(directory.path()), Vec::<String>::new());
    let again = replicate(&scenario, &[1, 2], 1, &options, &|_, _| Control::Continue).unwrap_err();
    assert_eq!(again.to_string(), message);
    assert!(!message.contains(&source.path().display().to_string()), "{message}");
    message
}

#[test]
fn a_failed_build_gives_its_reason_and_leaves_nothing_behind() {
    let trace = r#"
        duration = "10s"
        link = [{ between = ["a", "b"], trace = "air.down", reverse = { rate = "1Mbit/s" } }]
        flow = [{ from = "a", to = "b" }]
    "#;
    let log = r#"
        duration = "10s"
        link = [{ between = ["a", "b"], rate = "1Mbit/s" }]
        flow = [{ name = "surfing", app = "web", from = "a", to = "b", web = { access_log = "access.log" } }]
    "#;
    let custom = r#"
        duration = "10s"
        link = [{ between = ["a", "b"], rate = "1Mbit/s" }]
        flow = [{ from = "a", to = "b", cc = { kind = "custom", name = "mine" } }]
    "#;
    let messages = [
        failure(trace, &[("air.down", b"1\n2\nthree\n")]),
        failure(trace, &[("air.down", b"")]),
        failure(trace, &[("air.down", b"5\n3\n")]),
        failure(
            log,
            &[("access.log", b"100.5 400 c TCP_MISS/200 5000 GET u\n101.0 many c TCP_HIT/200 700 GET u\n")],
        ),
        failure(log, &[("access.log", b"\xff\xfe\n")]),
        failure(custom, &[]),
    ];
    insta::assert_snapshot!("build_errors", messages.join("\n"));
}

#[test]
fn an_output_directory_with_other_files_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("mine");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("thesis.tex"), "years of work").unwrap();
    let scenario = parse(
        "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\nflow = [{ from = \"a\", to = \"b\" }]",
    );
    for force in [false, true] {
        let options = RunOptions { out: Some(out.clone()), force, ..RunOptions::default() };
        let error = run(&scenario, &options, &mut |_| Control::Continue).unwrap_err().to_string();
        assert!(error.contains("mine"), "{error}");
        assert_eq!(entries(&out), ["thesis.tex"]);
    }
    let own = RunOptions { out: Some(directory.path().join("run")), ..RunOptions::default() };
    run(&scenario, &own, &mut |_| Control::Continue).unwrap();
    assert!(run(&scenario, &own, &mut |_| Control::Continue).is_err());
    run(&scenario, &RunOptions { force: true, ..own }, &mut |_| Control::Continue).unwrap();
}
