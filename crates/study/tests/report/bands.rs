//! Bands of quantities over time, across the seeds of real runs.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array};
use warpline_lab::btc::capacity;
use warpline_lab::run::RunOptions;
use warpline_net::Control;
use warpline_report::{Band, Columns, Quantity, ReportData, band, busiest_link};
use warpline_results::{
    Estimate, FlowRow, FlowSample, LiveSummary, RunInfo, RunSet, Summary, seed_directory,
};
use warpline_scenario::Scenario;
use warpline_study::replicate::replicate;

use super::synthetic;

fn quantity(word: &str) -> Quantity {
    Quantity::named(word).unwrap()
}

#[test]
fn a_band_is_the_mean_over_the_seeds_with_its_interval() {
    let text = r#"
        duration = "2s"
        sample_interval = "500ms"
        link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms", loss = { kind = "bernoulli", probability = 0.02 } }]
        flow = [{ name = "bulk", from = "a", to = "b", count = 2 }, { name = "one", from = "a", to = "b" }]
    "#;
    let scenario = Scenario::from_toml("s", text, &[]).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("set");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    replicate(&scenario, &[1, 2, 3], 2, &options, &|_, _| Control::Continue).unwrap();
    let set = RunSet::open(&out).unwrap();
    let all = band(&set, quantity("goodput"), None).unwrap();
    assert_eq!(all.time_s, [0.5, 1.0, 1.5, 2.0]);
    let samples: Vec<f64> = set
        .runs()
        .iter()
        .map(|run| {
            let rows = run.rows::<FlowSample>().unwrap();
            rows.iter().filter(|row| row.time_s == 1.0).map(|row| row.goodput_bps).sum()
        })
        .collect();
    let estimate = Estimate::of(&samples).unwrap();
    assert!((all.mean[1] - estimate.mean).abs() < 1e-6 * estimate.mean);
    assert!((all.high[1] - all.mean[1] - estimate.ci95.unwrap()).abs() < 1e-6 * estimate.mean);
    let parts = [Some("bulk"), Some("one")].map(|of| band(&set, quantity("goodput"), of).unwrap().mean[1]);
    assert!((parts[0] + parts[1] - all.mean[1]).abs() < 1e-6 * estimate.mean, "groups add up");
    let both = ["bulk.0", "bulk.1"].map(|of| band(&set, quantity("cwnd"), Some(of)).unwrap().mean[1]);
    let mean = band(&set, quantity("cwnd"), Some("bulk")).unwrap().mean[1];
    assert!((both[0] + both[1] - 2.0 * mean).abs() < 1e-6 * mean, "windows have a mean");
    assert_eq!(busiest_link(&set).as_deref(), Some("a>b"));
    assert_eq!(band(&set, quantity("queue"), Some("a>b")).unwrap().time_s.len(), 4);
    assert_eq!(band(&set, quantity("goodput"), Some("none")).unwrap(), Band::default());
    // A page reads all of them together.
    let page = ReportData::read(&[&out], capacity).unwrap();
    let shown = &page.sets[0].bands;
    for (word, of) in [("goodput", ""), ("cwnd", "bulk"), ("rtt", "one"), ("queue", "a>b")] {
        let is_there = shown.iter().any(|band| (band.quantity.name(), band.of.as_str()) == (word, of));
        assert!(is_there, "{word} {of}");
    }
    for together in shown {
        let of = Some(together.of.as_str()).filter(|of| !of.is_empty());
        let alone = band(&set, together.quantity, of).unwrap();
        assert_eq!(together.mean.values, alone.mean, "{} {of:?}", together.quantity.name());
    }
    let one = RunSet::open(&out.join("seed-2")).unwrap();
    assert!(band(&one, quantity("rtt"), None).unwrap().low.iter().all(|low| low.is_nan()));
}

#[test]
fn latency_over_time_is_that_of_the_packets_sent_then() {
    // 1000 bytes take 4 ms of transmission and 10 ms of propagation, and no packet waits.
    let text = r#"
        duration = "2s"
        sample_interval = "500ms"
        link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms" }]
        flow = [{ name = "call", from = "a", to = "b", app = "cbr", rate = "200kbit/s", packet_size = "1000B" }]
    "#;
    let scenario = Scenario::from_toml("s", text, &[]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let options = RunOptions { out: Some(out.path().join("run")), ..RunOptions::default() };
    warpline_lab::run::run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    let set = RunSet::open(&out.path().join("run")).unwrap();
    let latency = band(&set, quantity("latency"), Some("call")).unwrap();
    assert_eq!(latency.time_s.len(), 4);
    assert!(latency.mean.iter().all(|mean| (13.9..14.5).contains(mean)), "{:?}", latency.mean);
}

/// A live run that was sampled at 1, 2 and 3 s, and whose only flow, that of a program, carried 6 Mbit/s at these times.
fn write_live(directory: &Path, seed: u64, active: &[f64]) {
    std::fs::create_dir_all(directory).unwrap();
    let info = RunInfo { seed, complete: true, simulated_s: 3.0, ..RunInfo::default() };
    let flow = FlowRow { name: "web".to_owned(), group: "web".to_owned(), ..FlowRow::default() };
    let summary =
        Summary { live: Some(LiveSummary::default()), ..Summary::new(info, vec![flow], Vec::new()) };
    std::fs::write(directory.join("summary.json"), summary.to_json()).unwrap();
    let numbers = |values: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
    let zeros = |rows: usize| -> ArrayRef { Arc::new(UInt32Array::from(vec![0; rows])) };
    let rates = vec![6e6; active.len()];
    let flows = vec![
        ("time_s", numbers(active)),
        ("flow", zeros(active.len())),
        ("goodput_bps", numbers(&rates)),
        ("srtt_ms", numbers(&rates)),
    ];
    synthetic::write(directory, "series_flows", &[flows]);
    let links = vec![("time_s", numbers(&[1.0, 2.0, 3.0])), ("link", zeros(3))];
    synthetic::write(directory, "series_links", &[links]);
}

#[test]
fn programs_that_are_idle_count_as_zero_in_a_sum_and_not_in_a_mean() {
    let parent = tempfile::tempdir().unwrap();
    write_live(&seed_directory(parent.path(), 1), 1, &[1.0, 2.0, 3.0]);
    write_live(&seed_directory(parent.path(), 2), 2, &[1.0, 3.0]);
    let set = RunSet::open(parent.path()).unwrap();
    let goodput = band(&set, quantity("goodput"), Some("web")).unwrap();
    assert_eq!((goodput.time_s, goodput.mean), (vec![1.0, 2.0, 3.0], vec![6e6, 3e6, 6e6]));
    assert_eq!(band(&set, quantity("rtt"), None).unwrap().mean, [6e6; 3]);
    assert_eq!(band(&set, quantity("goodput"), Some("none")).unwrap(), Band::default());
}

#[test]
fn a_page_knows_when_all_programs_were_idle() {
    let parent = tempfile::tempdir().unwrap();
    write_live(parent.path(), 1, &[1.0, 3.0]);
    let data = ReportData::read(&[parent.path()], capacity).unwrap();
    let flows = data.runs[0].flows.as_ref().unwrap();
    let seconds: Vec<f64> = flows.time.values.iter().map(|nanos| nanos / 1e9).collect();
    let goodput = |columns: &Columns| {
        let (_, column) = columns.iter().find(|(name, _)| *name == "goodput_bps").unwrap();
        column.values.clone()
    };
    assert_eq!((seconds, goodput(&flows.total.values)), (vec![1.0, 2.0, 3.0], vec![6e6, 0.0, 6e6]));
    // The line of the flow itself has a gap.
    assert!(goodput(&flows.members[0].curves.values)[1].is_nan());
}
