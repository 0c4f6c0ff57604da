//! Reports of synthetic runs: their contents, and how they work in headless Chromium.

// Helpers of a test may panic and print, like tests.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bands;
mod export;
mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use synthetic::Spec;
use warpline_lab::btc::capacity;
use warpline_lab::report::write_report;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_report::{NoteLevel, ReportData, ReportError, render};
use warpline_scenario::Scenario;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";

fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn short(seed: u64) -> Spec {
    Spec { seed, duration_s: 12.0, transfers: 30, ..Spec::default() }
}

fn warnings(data: &ReportData) -> Vec<String> {
    data.runs
        .iter()
        .flat_map(|run| &run.notes)
        .filter(|note| note.level == NoteLevel::Warning)
        .map(|note| note.text.clone())
        .collect()
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let dir = directory("deterministic");
    synthetic::run(&dir.join("a"), &short(1));
    synthetic::run(&dir.join("elsewhere/a"), &short(1));
    let (one, two) = (dir.join("one.html"), dir.join("two.html"));
    write_report(&[&dir.join("a")], &one).unwrap();
    write_report(&[&dir.join("elsewhere/a")], &two).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    write_report(&[&dir.join("a")], &one).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    // No other files are left beside the reports.
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 4);
}

#[test]
fn all_of_a_run_is_read() {
    let dir = directory("whole");
    synthetic::run(&dir, &short(3));
    let data = ReportData::read(&[&dir], capacity).unwrap();
    let run = &data.runs[0];
    assert_eq!(warnings(&data), Vec::<String>::new());
    assert_eq!(run.label, "two-flows, seed 3");
    assert_eq!(
        run.tables.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(),
        ["flows", "links", "transfers", "groups"]
    );
    assert_eq!(run.flows.as_ref().unwrap().members.len(), 2);
    assert_eq!(run.links.as_ref().unwrap().members.len(), 3);
    assert_eq!(run.flows.as_ref().unwrap().time.values.len(), 120);
    assert_eq!(run.link_events[0].name, "r1>r2");
    let kinds: Vec<&str> = run.tcp[0].marks.iter().map(|(kind, _)| *kind).collect();
    assert!(["sent", "retransmit", "lost", "sacked"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert_eq!(
        run.distributions.iter().map(|d| d.title.as_str()).collect::<Vec<_>>(),
        [
            "Completion time of transfers",
            "Round-trip time of recorded flows",
            "Queueing delay of recorded links"
        ]
    );
}

/// Writes runs of these seeds into a directory, as `--seeds` does.
fn set(dir: &Path, seeds: std::ops::RangeInclusive<u64>, flows: u32) {
    let text = format!(
        "duration = \"12s\"\nsample_interval = \"100ms\"\n[topology]\nkind = \"dumbbell\"\nrtt = \"20ms\"\n\
         bottleneck = {{ rate = \"4Mbit/s\", loss = {{ kind = \"bernoulli\", probability = 0.01 }} }}\n\
         [[flow]]\nfrom = \"left\"\nto = \"right\"\ncount = {flows}\n"
    );
    for seed in seeds {
        let sets = [format!("seed={seed}")];
        let scenario = Scenario::from_toml("set", &text, &sets).unwrap_or_else(|errors| panic!("{errors}"));
        let options = RunOptions { out: Some(dir.join(format!("seed-{seed}"))), ..RunOptions::default() };
        run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    }
}

#[test]
fn sets_of_seeds_have_means_and_bands() {
    let dir = directory("sets");
    set(&dir.join("one"), 1..=4, 2);
    set(&dir.join("other"), 1..=3, 3);
    let data = ReportData::read(&[&dir.join("one"), &dir.join("other")], capacity).unwrap();
    assert_eq!(data.runs.len(), 7);
    let labels: Vec<_> =
        data.sets.iter().map(|set| (set.label.as_str(), set.seeds.as_str(), set.count)).collect();
    assert_eq!(labels, [("one", "1 to 4", 4), ("other", "1 to 3", 3)]);
    let goodput = &data.sets[0].measures[0];
    assert_eq!((goodput.column.name, goodput.estimate.n), ("goodput_bps", 4));
    let band = data.sets[0]
        .bands
        .iter()
        .find(|band| band.quantity.name() == "goodput" && band.of.is_empty())
        .unwrap();
    assert_eq!(band.time.values.len(), 120);
    let ends = band.low.values.iter().zip(&band.mean.values).zip(&band.high.values);
    assert!(ends.clone().all(|((low, mean), high)| low <= mean && mean <= high));
    assert!(ends.clone().filter(|((low, _), high)| low < high).count() > 100);
    assert!(data.sets[0].bands.iter().any(|band| band.quantity.name() == "delay" && band.of == "r1>r2"));
    // The same runs given one by one are not a set: they are compared with the first.
    let runs = [dir.join("one/seed-1"), dir.join("one/seed-2")];
    assert!(ReportData::read(&[&runs[0], &runs[1]], capacity).unwrap().sets.is_empty());
}

/// Changes the summary of a run in its directory.
fn change_summary(dir: &Path, change: impl FnOnce(&mut Value)) {
    let path = dir.join("summary.json");
    let mut summary = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut summary);
    std::fs::write(path, summary.to_string()).unwrap();
}

#[test]
fn distributions_leave_the_warm_up_out() {
    let dir = directory("warmup");
    synthetic::run(&dir, &short(3));
    let samples = |warmup_s: f64| -> Vec<usize> {
        change_summary(&dir, |summary| summary["warmup_s"] = json!(warmup_s));
        let data = ReportData::read(&[&dir], capacity).unwrap();
        let drawn = data.runs[0].distributions.iter();
        drawn.map(|one| one.lines.iter().map(|&(_, samples, _)| samples).sum()).collect()
    };
    let (all, measured) = (samples(0.0), samples(6.0));
    assert_eq!((all.len(), measured.len()), (3, 3));
    assert!(
        measured.iter().zip(&all).all(|(measured, all)| (1..*all).contains(measured)),
        "{measured:?} of {all:?}"
    );
}

#[test]
fn seeds_that_are_incomplete_are_left_out_and_named() {
    let dir = directory("incomplete");
    set(&dir.join("one"), 1..=4, 2);
    change_summary(&dir.join("one/seed-3"), |summary| summary["complete"] = json!(false));
    let data = ReportData::read(&[&dir.join("one")], capacity).unwrap();
    let set = &data.sets[0];
    assert_eq!((set.seeds.as_str(), set.count, set.incomplete.as_str()), ("1, 2, 4", 3, "3"));
    assert_eq!(set.measures[0].estimate.n, 3);
    let page = render(&data);
    assert!(page.contains("<title>set, 3 seeds") && page.contains(r#""incomplete":"3""#));
}

#[test]
fn key_figures_are_of_all_rows_even_where_a_table_is_shortened() {
    let dir = directory("folds");
    let (one, other) = (dir.join("one"), dir.join("other"));
    for (run, seed) in [(&one, 1), (&other, 2)] {
        synthetic::run(run, &Spec { transfers: 20_000, recorded: false, ..short(seed) });
    }
    let alone = ReportData::read(&[&one], capacity).unwrap();
    let both = ReportData::read(&[&one, &other], capacity).unwrap();
    let transfers =
        |data: &ReportData| data.runs[0].tables.iter().find(|table| table.id == "transfers").unwrap().rows();
    assert_eq!((transfers(&alone), transfers(&both)), (10_000, 5000));
    let note = "The table of transfers holds 10000 of 20000 rows, the slowest; transfers.parquet holds all.";
    assert!(alone.runs[0].notes.iter().any(|own| own.text == note), "{:?}", alone.runs[0].notes);
    assert!(alone.runs[0].folds.iter().flatten().count() > 5);
    assert_eq!(alone.runs[0].folds, both.runs[0].folds);
}

#[test]
fn a_report_says_what_was_skipped() {
    let dir = directory("skipped");
    synthetic::run(&dir, &short(1));
    change_summary(&dir, |summary| {
        summary["fast_forward"] = json!({ "exact_s": 71.3, "skipped_s": 528.7, "skipped": 9, "audited": 1,
            "goodput_within": 0.0041, "flow_goodput_within_max": 0.0312 });
        summary["audits"] =
            json!([{ "measure": "goodput", "error": 0.001, "low": -0.002, "high": 0.004, "worst": 0.001 }]);
    });
    let data = ReportData::read(&[&dir], capacity).unwrap();
    let said = "Fast-forward: 71.3 s run exactly, 528.7 s skipped in 9 stretches. Goodput within 0.41 % of an exact run, that of each \
                flow within 3.12 %. Checked by running 1 stretch: goodput off by 0.10 % (-0.20 % to 0.40 %).";
    let notes = &data.runs[0].notes;
    assert!(notes.iter().any(|note| note.text == said), "{notes:?}");
    assert!(data.runs[0].tables.iter().any(|table| table.id == "audits"));
    change_summary(&dir, |summary| summary["fast_forward"] = json!("much"));
    let text = warnings(&ReportData::read(&[&dir], capacity).unwrap()).join("\n");
    assert!(text.contains("What this run skipped cannot be read"), "{text}");
}

#[test]
fn bands_have_gaps_where_all_seeds_skipped_time() {
    let dir = directory("skipped-bands");
    set(&dir.join("one"), 1..=2, 2);
    for (seed, spans) in [(1, [[3.0, 5.0], [8.0, 10.0]]), (2, [[4.0, 6.0], [9.0, 9.5]])] {
        let rows = spans.map(|[from, until]| json!({ "from_s": from, "until_s": until, "audited": false }));
        change_summary(&dir.join(format!("one/seed-{seed}")), |summary| summary["stretches"] = json!(rows));
    }
    let data = ReportData::read(&[&dir.join("one")], capacity).unwrap();
    let bands = &data.sets[0].bands;
    assert!(!bands.is_empty());
    for band in bands {
        assert_eq!(band.skipped, [[4.0, 5.0], [9.0, 9.5]], "{}", band.quantity.name());
    }
    assert!(render(&data).contains("\"skipped\":[[4.0,5.0],[9.0,9.5]]"));
}

#[test]
fn a_report_knows_when_time_was_skipped() {
    let dir = directory("stretches");
    synthetic::run(&dir, &Spec { skipped: vec![(3.0, 5.0), (8.0, 10.0)], recorded: false, ..short(1) });
    let data = ReportData::read(&[&dir], capacity).unwrap();
    assert_eq!(data.runs[0].skipped, [[3.0, 5.0], [8.0, 10.0]]);
    assert!(render(&data).contains("\"skipped\":[[3.0,5.0],[8.0,10.0]]"));
}

#[test]
fn a_dilated_run_has_a_table_of_its_factors() {
    let dir = directory("dilated");
    synthetic::run(&dir, &Spec { dilation: vec![(0.0, 1.0), (0.75, 2.0), (1.5, 4.0)], ..short(3) });
    let data = ReportData::read(&[&dir], capacity).unwrap();
    let table = data.runs[0].tables.iter().find(|table| table.id == "dilation").unwrap();
    let column = |name: &str| -> Vec<f64> {
        table.column(name).unwrap().iter().map(|cell| cell.as_f64().unwrap()).collect()
    };
    assert_eq!((column("time_s"), column("tdf")), (vec![0.0, 0.75, 1.5], vec![1.0, 2.0, 4.0]));
    assert!(data.runs[0].notes.iter().any(|note| note.text.contains("mean time dilation factor of 3.000")));
}

#[test]
fn missing_parts_are_reported() {
    let dir = directory("missing");
    synthetic::run(&dir, &Spec { stopped_at: Some(7.5), ..short(1) });
    for table in ["series_links", "links", "transfers", "tcp"] {
        std::fs::remove_file(dir.join(format!("{table}.parquet"))).unwrap();
    }
    let data = ReportData::read(&[&dir], capacity).unwrap();
    let text = warnings(&data).join("\n");
    assert!(text.contains("not complete: interrupted after 7.500 of 12 s"), "{text}");
    assert!(text.contains("links.parquet is missing") && text.contains("series_links.parquet"), "{text}");
    assert!(data.runs[0].tcp.is_empty() && data.runs[0].links.is_none());

    std::fs::write(dir.join("summary.json"), r#"{ "warpline": "9.0.0", "format": 99 }"#).unwrap();
    assert!(warnings(&ReportData::read(&[&dir], capacity).unwrap()).join("\n").contains("newer Warpline"));

    std::fs::remove_file(dir.join("summary.json")).unwrap();
    let data = ReportData::read(&[&dir], capacity).unwrap();
    assert!(warnings(&data).join("\n").contains("summary.json is missing"));
    // The plots span what there is, all the same.
    let span = data.runs[0].summary["simulated_s"].as_f64().unwrap();
    assert!((7.3..7.7).contains(&span), "{span}");
}

#[test]
fn a_directory_that_is_not_a_run_is_an_error() {
    let dir = directory("refused");
    let out = dir.join("report.html");
    assert!(matches!(write_report(&[], &out), Err(ReportError::NoRuns)));
    assert!(matches!(write_report(&[&dir], &out), Err(ReportError::NotARun { .. })));
    std::fs::write(dir.join("summary.json"), "{").unwrap();
    assert!(matches!(write_report(&[&dir], &out), Err(ReportError::Malformed { .. })));
    std::fs::write(dir.join("summary.json"), "{}").unwrap();
    std::fs::write(dir.join("flows.parquet"), "not Parquet").unwrap();
    let error = write_report(&[&dir], &out).unwrap_err().to_string();
    assert!(error.contains("flows.parquet is damaged"), "{error}");
    assert!(!out.exists());
}

#[test]
fn the_report_of_an_hour_is_small_and_keeps_all_losses() {
    let dir = directory("hour");
    synthetic::run(
        &dir,
        &Spec {
            scenario: "an hour at 10 Mbit/s".to_owned(),
            flows: 4,
            duration_s: 3600.0,
            interval_s: 0.05,
            transfers: 30_000,
            ..Spec::default()
        },
    );
    let data = ReportData::read(&[&dir], capacity).unwrap();
    let marks = |kind: &str| {
        let (_, columns) = data.runs[0].tcp[0].marks.iter().find(|(k, _)| *k == kind).unwrap();
        let count = &columns.iter().find(|(name, _)| *name == "count").unwrap().1.values;
        (count.len(), count.iter().sum::<f64>())
    };
    let (retransmitted, all) = marks("retransmit");
    assert_eq!(retransmitted as f64, all, "each retransmission has its mark");
    assert_eq!(marks("lost").1, all);
    assert!(marks("sent").1 > 500_000.0 && marks("sent").0 < 150_000, "{:?}", marks("sent"));
    assert!(data.runs[0].notes.iter().any(|note| note.text.contains("thinned")));
    let page = render(&data);
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    std::fs::write(dir.join("report.html"), page).unwrap();
    browse(&[dir.join("report.html")]);
}

#[test]
fn reports_work_in_a_browser() {
    let dir = directory("browser");
    let page = |name: &str, specs: &[Spec]| {
        let runs: Vec<PathBuf> = (0..specs.len()).map(|i| dir.join(format!("{name}-{i}"))).collect();
        runs.iter().zip(specs).for_each(|(run, spec)| synthetic::run(run, spec));
        let out = dir.join(format!("{name}.html"));
        write_report(&runs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &out).unwrap();
        out
    };
    let spec = Spec::default;
    let single = page("single", &[spec()]);
    let hostile = page("hostile", &[Spec { scenario: HOSTILE.to_owned(), ..short(1) }]);
    let many =
        page("many", &[Spec { flows: 90, recorded: false, scenario: "ninety flows".to_owned(), ..short(2) }]);
    let cut =
        page("interrupted", &[Spec { stopped_at: Some(8.0), recorded: false, transfers: 0, ..short(2) }]);
    let several =
        page("several", &[spec(), Spec { seed: 2, ..spec() }, Spec { seed: 3, flows: 4, ..spec() }]);
    let dilated = page("dilated", &[Spec { dilation: vec![(0.0, 1.0), (2.0, 2.0), (3.5, 4.0)], ..short(1) }]);
    set(&dir.join("one"), 1..=4, 2);
    set(&dir.join("other"), 1..=3, 3);
    change_summary(&dir.join("one/seed-4"), |summary| summary["complete"] = json!(false));
    let skipping =
        page("skipping", &[Spec { skipped: vec![(3.0, 5.0), (8.0, 10.0)], recorded: false, ..short(1) }]);
    let sets = dir.join("sets.html");
    write_report(&[&dir.join("one"), &dir.join("other")], &sets).unwrap();
    browse(&[single, hostile, many, cut, several, dilated, skipping, sets, traced(&dir)]);
}

/// The page of a link that is much faster at first than later, from its trace.
fn traced(dir: &Path) -> PathBuf {
    let opportunities: String = (1..=4000)
        .map(|ms| format!("{ms}\n").repeat(if ms <= 1000 { 3 } else { usize::from(ms % 10 == 0) }))
        .collect();
    std::fs::write(dir.join("falls.trace"), opportunities).unwrap();
    let text = "duration = \"4s\"\nlink = [{ between = [\"a\", \"b\"], trace = \"falls.trace\", delay = \"5ms\", \
                reverse = { rate = \"50Mbit/s\" } }]\nflow = [{ from = \"a\", to = \"b\" }]\n";
    std::fs::write(dir.join("traced.toml"), text).unwrap();
    let scenario = Scenario::load(&dir.join("traced.toml"), &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let options = RunOptions { out: Some(dir.join("traced")), report: true, ..RunOptions::default() };
    run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    dir.join("traced/report.html")
}

/// Exit code of `report_browser.py` if there is no browser.
const NO_BROWSER: i32 = 77;

/// Opens pages in headless Chromium with `tests/report_browser.py`; skips if there is no Chromium.
fn browse(pages: &[PathBuf]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report_browser.py");
    let run = Command::new("python3").arg(script).args(pages).output();
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            return warpline_skip::skip("program", format!("python3 cannot be started ({error})"));
        }
    };
    if output.status.code() == Some(NO_BROWSER) {
        return warpline_skip::skip("program", String::from_utf8_lossy(&output.stdout).trim());
    }
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
