//! Tests of the whole run directory: what is written is read back, twice the same, and never by halves.

use std::fs;
use std::path::Path;

use warpline_core::packet::{EndpointId, FlowId, LinkId};
use warpline_core::record::{Phase, TcpEvent, TcpRecord};
use warpline_core::time::Timestamp;

use crate::example;
use crate::live::{DilationSummary, LiveSummary};
use crate::pcapng::CaptureOptions;
use crate::qlog::QlogWriter;
use crate::{
    Comparison, DilationStep, FlowRow, FlowSample, LinkRow, LinkSample, MemoryRecorder, PacketRow, Recorder,
    ResultError, Row, Run, RunSet, RunWriter, Summary, Table, Tables, TcpRow, TransferRow,
};

fn fill(recorder: &mut dyn Recorder) {
    recorder.flow_samples(&example::flow_samples()).unwrap();
    recorder.link_samples(&example::link_samples()).unwrap();
    recorder.link_records(&example::link_records()).unwrap();
    recorder.tcp_records(&example::tcp_records()).unwrap();
}

fn writer(out: &Path, force: bool) -> RunWriter {
    let mut writer = RunWriter::create(out, force, example::book()).unwrap();
    writer.record_packets(LinkId(0));
    writer.record_tcp(FlowId(0));
    writer.record_capture(LinkId(0), "r1>r2", CaptureOptions::default()).unwrap();
    writer.record_qlog(FlowId(0), "bulk.0").unwrap();
    fill(&mut writer);
    writer
}

/// Names in a directory, hidden ones too.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The summary of a run whose time was dilated, at first by one and then by two.
fn dilated_summary(flows: u32) -> Summary {
    let steps = [(0.0, 0.0, 1.0), (0.5, 0.5, 2.0)];
    let steps = steps.map(|(time_s, wall_s, tdf)| DilationStep { time_s, wall_s, tdf }).into();
    let dilation = DilationSummary { auto: true, steps, ..DilationSummary::default() };
    let mut summary = example::summary(flows, 1);
    summary.live = Some(LiveSummary { dilation: Some(dilation), ..LiveSummary::default() });
    summary
}

#[test]
fn a_dilated_run_has_a_table_of_its_factors_and_others_have_not() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("dilated");
    let summary = dilated_summary(2);
    let steps = summary.dilation_steps().to_vec();
    assert_eq!(steps.len(), 2);
    writer(&out, false).finish(&summary, &[]).unwrap();
    let run = Run::open(&out).unwrap();
    assert_eq!(run.rows::<DilationStep>().unwrap(), steps);
    assert_eq!(Tables::read(&run).unwrap().dilation.rows::<DilationStep>().unwrap(), steps);
    let tables = MemoryRecorder::new(example::book()).finish(&summary, &[]).unwrap();
    assert_eq!(tables.dilation.rows::<DilationStep>().unwrap(), steps);

    let plain = scratch.path().join("plain");
    writer(&plain, false).finish(&example::summary(2, 1), &[]).unwrap();
    assert!(!plain.join("dilation.parquet").exists());
    assert_eq!(Run::open(&plain).unwrap().rows::<DilationStep>().unwrap(), []);
}

#[test]
fn a_run_is_read_back_as_it_was_written() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("deeper/first");
    let summary = example::summary(2, 1);
    assert_eq!(writer(&out, false).finish(&summary, &example::transfers()).unwrap(), out);
    assert_eq!(
        names(&out),
        [
            "bulk.0.server.sqlog",
            "bulk.0.sqlog",
            "flows.parquet",
            "links.parquet",
            "packets.parquet",
            "r1-r2.pcapng",
            "series_flows.parquet",
            "series_links.parquet",
            "summary.json",
            "tcp.parquet",
            "transfers.parquet",
        ]
    );
    assert_eq!(names(out.parent().unwrap()), ["first"]);

    let run = Run::open(&out).unwrap();
    assert_eq!(run.summary(), &summary);
    assert_eq!(run.rows::<FlowRow>().unwrap(), summary.flows);
    assert_eq!(run.rows::<LinkRow>().unwrap(), summary.links);
    assert_eq!(run.rows::<TransferRow>().unwrap(), example::transfers());
    assert_eq!(run.rows::<FlowSample>().unwrap(), example::flow_samples());
    assert_eq!(run.rows::<LinkSample>().unwrap(), example::link_samples());
    let book = example::book();
    let tcp: Vec<_> = example::tcp_records().iter().map(|record| TcpRow::new(record, &book)).collect();
    assert_eq!(run.rows::<TcpRow>().unwrap(), tcp);
    let forward = example::link_records().into_iter().filter(|record| record.link == LinkId(0));
    let packets: Vec<_> = forward.map(|record| PacketRow::from(&record)).collect();
    assert_eq!(run.rows::<PacketRow>().unwrap(), packets);
    assert_eq!(run.recordings().unwrap().len(), 3);
}

#[test]
fn memory_holds_what_files_hold() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let summary = dilated_summary(3);
    writer(&out, false).finish(&summary, &example::transfers()).unwrap();
    let mut memory = MemoryRecorder::new(example::book());
    memory.record_packets(LinkId(0));
    memory.record_tcp(FlowId(0));
    fill(&mut memory);
    let memory = memory.finish(&summary, &example::transfers()).unwrap();
    let files = Tables::read(&Run::open(&out).unwrap()).unwrap();
    for ((name, memory), (_, file)) in memory.iter().zip(files.iter()) {
        assert_eq!(memory.schema, file.schema, "{name}");
        assert_eq!(memory.batches, file.batches, "{name}");
        assert!(memory.num_rows() > 0, "{name}");
    }
}

#[test]
fn columns_carry_their_documentation_into_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    let table = Table::read(&out.join("flows.parquet")).unwrap();
    let field = table.schema.field_with_name("goodput_bps").unwrap();
    assert_eq!(field.metadata().get("unit").map(String::as_str), Some("bit/s"));
    let description = field.metadata().get("description").map(String::as_str);
    assert_eq!(description, Some("Unique application data delivered per second after warm-up."));
}

#[test]
fn long_tables_are_cut_into_row_groups() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let mut writer = RunWriter::create(&out, false, example::book()).unwrap();
    let sample = |i| LinkSample { time_s: f64::from(i), ..LinkSample::default() };
    let samples: Vec<_> = (0..150_000).map(sample).collect();
    for chunk in samples.chunks(999) {
        writer.link_samples(chunk).unwrap();
    }
    writer.finish(&example::summary(1, 1), &[]).unwrap();
    let run = Run::open(&out).unwrap();
    let table = run.table::<LinkSample>().unwrap();
    assert_eq!(
        table.batches.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(),
        [65_536, 65_536, 18_928]
    );
    assert_eq!(run.rows::<LinkSample>().unwrap(), samples);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let outs = ["a", "b"].map(|name| scratch.path().join(name));
    for out in &outs {
        writer(out, false).finish(&example::summary(2, 1), &example::transfers()).unwrap();
    }
    for name in names(&outs[0]) {
        let [a, b] = outs.each_ref().map(|out| fs::read(out.join(&name)).unwrap());
        assert!(a == b, "{name} differs");
    }
}

#[test]
fn what_is_dropped_half_way_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let half = writer(&out, false);
    assert_eq!(names(scratch.path()).len(), 2, "the partial directory and its lock");
    assert!(!out.exists());
    drop(half);
    assert!(names(scratch.path()).is_empty());
    let sealed = writer(&out, false).seal(&example::summary(1, 1), &[]).unwrap();
    assert!(Run::open(sealed.path()).is_ok() && !out.exists());
    drop(sealed);
    assert!(names(scratch.path()).is_empty());
}

#[test]
fn what_killed_runs_left_is_cleared_away() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    // Killed while it wrote, and between its lock and its directory; a stranger's files that look alike stay.
    for name in [".run.partial-999999", ".run.partial-999998"] {
        fs::create_dir(scratch.path().join(name)).unwrap();
    }
    for name in [".run.partial-999999.lock", ".run.partial-999997.lock"] {
        fs::write(scratch.path().join(name), "").unwrap();
    }
    fs::write(scratch.path().join(".run.partial-999999/flows.parquet"), "half").unwrap();
    for name in [".run.partial-x", ".other.partial-1"] {
        fs::create_dir(scratch.path().join(name)).unwrap();
    }
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    assert_eq!(names(scratch.path()), [".other.partial-1", ".run.partial-x", "run"]);
}

#[test]
fn a_run_killed_half_way_leaves_nothing_behind_the_next() {
    const OUT: &str = "WARPLINE_TEST_KILLED_RUN";
    if let Some(out) = std::env::var_os(OUT) {
        let _half = writer(Path::new(&out), false);
        std::process::abort();
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let this = "tests::a_run_killed_half_way_leaves_nothing_behind_the_next";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this])
        .env(OUT, &out)
        .output()
        .unwrap();
    assert!(!child.status.success());
    assert!(!out.exists());
    assert_eq!(names(scratch.path()).len(), 2, "killed in the middle: {child:?}");
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    assert_eq!(names(scratch.path()), ["run"]);
}

#[test]
fn a_run_moved_aside_by_a_killed_one_comes_back() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    writer(&out, false).finish(&example::summary(1, 7), &[]).unwrap();
    fs::rename(&out, scratch.path().join(".run.replaced-999999")).unwrap();
    let error = RunWriter::create(&out, false, example::book()).unwrap_err();
    assert!(matches!(error, ResultError::Exists(_)), "{error}");
    assert_eq!(Run::open(&out).unwrap().summary().info.seed, 7);
}

#[test]
fn a_run_moved_aside_stays_while_only_an_empty_directory_is_in_its_place() {
    let scratch = tempfile::tempdir().unwrap();
    let (out, aside) = (scratch.path().join("run"), scratch.path().join(".run.replaced-999999"));
    writer(&out, false).finish(&example::summary(1, 7), &[]).unwrap();
    fs::rename(&out, &aside).unwrap();
    fs::create_dir(&out).unwrap();
    // The next one fails, too.
    drop(writer(&out, false));
    assert_eq!(Run::open(&aside).unwrap().summary().info.seed, 7);
    writer(&out, false).finish(&example::summary(1, 8), &[]).unwrap();
    writer(&out, true).finish(&example::summary(1, 9), &[]).unwrap();
    assert_eq!(names(scratch.path()), ["run"]);
}

#[test]
fn what_is_left_of_a_run_whose_removal_was_killed_is_cleared_away() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let left = scratch.path().join(".run.replaced-999999");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("tcp.parquet"), "large").unwrap();
    // Nothing has taken its place: it stays until something has.
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    assert_eq!(names(scratch.path()), [".run.replaced-999999", "run"]);
    writer(&out, true).finish(&example::summary(1, 2), &[]).unwrap();
    assert_eq!(names(scratch.path()), ["run"]);
}

#[test]
fn two_runs_do_not_share_a_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let first = writer(&out, false);
    let error = RunWriter::create(&out, false, example::book()).unwrap_err();
    assert!(matches!(error, ResultError::Busy(_)), "{error}");
    first.finish(&example::summary(1, 1), &[]).unwrap();
    assert_eq!(names(scratch.path()), ["run"]);
}

#[test]
fn an_earlier_run_is_replaced_only_by_force() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    fs::create_dir(&out).unwrap(); // Empty: nothing is lost.
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    let error = RunWriter::create(&out, false, example::book()).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    let second = writer(&out, true);
    assert_eq!(Run::open(&out).unwrap().summary().info.seed, 1, "the earlier run stays until the end");
    second.finish(&example::summary(1, 2), &[]).unwrap();
    assert_eq!(Run::open(&out).unwrap().summary().info.seed, 2);
    assert_eq!(names(scratch.path()), ["run"]);
}

#[test]
fn what_is_not_a_run_is_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("thesis");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("chapter1.tex"), "Introduction").unwrap();
    fs::write(out.join("summary.json"), "{}").unwrap();
    let error = RunWriter::create(&out, true, example::book()).unwrap_err();
    assert!(matches!(error, ResultError::Occupied(_)), "{error}");
    let error = RunWriter::create(&out.join("chapter1.tex"), true, example::book()).unwrap_err();
    assert!(matches!(error, ResultError::Occupied(_)), "{error}");
    // It appears while the run is under way.
    let late = scratch.path().join("late");
    let run = writer(&late, true);
    fs::create_dir(&late).unwrap();
    fs::write(late.join("file"), "").unwrap();
    let error = run.finish(&example::summary(1, 1), &[]).unwrap_err();
    assert!(matches!(error, ResultError::Occupied(_)), "{error}");
    assert_eq!(names(scratch.path()), ["late", "thesis"]);
    let error = RunWriter::create(Path::new("/"), false, example::book()).unwrap_err();
    assert!(matches!(error, ResultError::NoName(_)), "{error}");
}

#[test]
fn one_run_does_not_replace_those_of_several_seeds() {
    let scratch = tempfile::tempdir().unwrap();
    let set = scratch.path().join("set");
    writer(&crate::seed_directory(&set, 2), false).finish(&example::summary(1, 2), &[]).unwrap();
    for force in [false, true] {
        let error = RunWriter::create(&set, force, example::book()).unwrap_err();
        assert!(matches!(error, ResultError::HoldsSet(_)), "{error}");
        assert!(
            error.to_string().contains("several seeds") && error.to_string().contains("--seeds"),
            "{error}"
        );
    }
    assert_eq!(names(&set), ["seed-2"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_advice() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    let out = scratch.path().join("file/run");
    let error = RunWriter::create(&out, false, example::book()).unwrap_err().to_string();
    assert!(error.contains("cannot create") && error.contains("name another directory"), "{error}");
}

#[test]
fn two_links_do_not_share_a_capture() {
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(&scratch.path().join("run"), false, example::book()).unwrap();
    writer.record_capture(LinkId(0), "a-b>c", CaptureOptions::default()).unwrap();
    let error = writer.record_capture(LinkId(1), "a>b-c", CaptureOptions::default()).unwrap_err();
    assert!(matches!(error, ResultError::SameName { .. }), "{error}");
    assert!(writer.add_file("flows.parquet", b"").is_err());
    assert!(writer.add_file("scenario.toml", b"").is_ok());
}

#[test]
fn what_is_not_a_run_cannot_be_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    let open = || Run::open(&out).unwrap_err().to_string();
    assert!(open().contains("does not exist"));
    fs::create_dir(&out).unwrap();
    assert!(open().contains("no summary.json"));
    fs::write(out.join("summary.json"), "{}").unwrap();
    assert!(open().contains("not written by Warpline"));
    fs::write(out.join("summary.json"), r#"{"warpline": "9.1.0", "format": 9}"#).unwrap();
    assert!(open().contains("format 9, written by Warpline 9.1.0; this version reads up to format 1"));
    fs::write(out.join("summary.json"), r#"{"warpline": "0.1.0", "format": 1}"#).unwrap();
    assert!(open().contains("cannot be read: missing field"));
    fs::remove_dir_all(&out).unwrap();
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    fs::write(out.join("tcp.parquet"), "PAR1").unwrap();
    let error = Run::open(&out).unwrap().rows::<TcpRow>().unwrap_err();
    assert!(matches!(error, ResultError::Damaged { .. }), "{error}");
}

#[test]
fn a_table_of_another_kind_is_refused_by_its_column() {
    let batch = LinkSample::batch(&example::link_samples()).unwrap();
    let error = FlowSample::read(&batch).unwrap_err();
    assert!(error.contains("no column `flow`"), "{error}");
}

#[test]
fn no_float_that_json_cannot_say_reaches_a_result() {
    let mut summary = example::summary(1, 1);
    summary.flows[0].goodput_bps = f64::NAN;
    summary.flows[0].rtt_mean_ms = Some(f64::INFINITY);
    summary.links[0].utilisation = Some(f64::NAN);
    let summary = crate::Summary::new(summary.info, summary.flows, summary.links);
    assert_eq!((summary.flows[0].goodput_bps, summary.flows[0].rtt_mean_ms), (0.0, None));
    assert_eq!(summary.links[0].utilisation, None);
    let back: crate::Summary = serde_json::from_str(&summary.to_json()).unwrap();
    assert_eq!(back, summary);
}

#[test]
fn the_summary_is_as_documented() {
    let mut summary = example::summary(1, 1);
    summary.warpline = "VERSION".to_owned();
    insta::assert_snapshot!(summary.to_json());
}

#[test]
fn qlog_is_a_file_for_each_end() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    writer(&out, false).finish(&example::summary(1, 1), &[]).unwrap();
    let text = fs::read_to_string(out.join("bulk.0.sqlog")).unwrap();
    let records = text.split('\u{1e}').skip(1);
    let records: Vec<serde_json::Value> =
        records.map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap()).collect();
    assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
    let times: Vec<f64> = records[1..].iter().map(|record| record["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted());
    assert_eq!(times[1], 10.000001);
    let server = fs::read_to_string(out.join("bulk.0.server.sqlog")).unwrap();
    assert_eq!(server.matches('\u{1e}').count(), 2);
}

#[test]
fn qlog_shows_marks_and_the_reduction_that_they_bring() {
    let of = |event: TcpEvent| {
        let mut writer = QlogWriter::new(Vec::new(), FlowId(0), "bulk", 0).unwrap();
        let (time, flow, endpoint) = (Timestamp::ZERO, FlowId(0), EndpointId(0));
        writer.record(&TcpRecord { time, flow, endpoint, event }).unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap();
        let data = text
            .rsplit('\u{1e}')
            .next()
            .map(|record| serde_json::from_str::<serde_json::Value>(record).unwrap());
        data.unwrap()["data"].clone()
    };
    assert_eq!(of(TcpEvent::State { state: Phase::Cwr })["trigger"], "ECN");
    assert!(of(TcpEvent::State { state: Phase::Recovery })["trigger"].is_null());
    let acked = |ce| {
        of(TcpEvent::Acked { ack: 9, window_end: 20, newly_acked: 8, ce, rtt: None })["tcp"]["ce"].clone()
    };
    assert_eq!((acked(5).as_u64(), acked(0).is_null()), (Some(5), true));
}

#[test]
fn two_directories_are_compared() {
    let scratch = tempfile::tempdir().unwrap();
    let outs = ["a", "b"].map(|name| scratch.path().join(name));
    for (seed, out) in (1..).zip(&outs) {
        writer(out, false).finish(&example::summary(1, seed), &[]).unwrap();
    }
    let [a, b] = [&outs[0], &outs[1]].map(|out| RunSet::open(out).unwrap());
    let comparison = Comparison::of_sets(&a, &b, true, |_, _| None);
    assert_eq!(comparison.notes[0], "the seeds differ: 1 and 2");
    assert_eq!(comparison.changes[0].difference, Some(1e4));
    let unknown = "what was changed in the scenario is not known";
    assert_eq!(comparison.notes.last().unwrap(), &format!("scenario.toml is missing: {unknown}"));
    for out in &outs {
        fs::write(out.join(crate::set::SCENARIO_FILE), "seed =").unwrap();
    }
    let damaged = Comparison::of_sets(&a, &b, true, |_, _| None);
    assert_eq!(damaged.notes.last().unwrap(), &format!("scenario.toml is damaged: {unknown}"));
    let error = RunSet::open(&scratch.path().join("c")).unwrap_err();
    assert!(matches!(error, ResultError::NotARun { .. }), "{error}");
}
