//! Exports of real runs for other programs.

use std::path::Path;

use warpline_lab::run::RunOptions;
use warpline_net::Control;
use warpline_results::export::Format;
use warpline_results::{Export, FlowRow, RunSet, Table, TableKind};
use warpline_scenario::Scenario;
use warpline_study::replicate::replicate;

fn set(parent: &Path) -> RunSet {
    let text = r#"
        duration = "1s"
        sample_interval = "500ms"
        link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms" }]
        flow = [{ name = "bulk", from = "a", to = "b", count = 2 }]
    "#;
    let scenario = Scenario::from_toml("s", text, &[]).unwrap();
    let out = parent.join("set");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    replicate(&scenario, &[3, 1], 2, &options, &|_, _| Control::Continue).unwrap();
    RunSet::open(&out).unwrap()
}

fn text(set: &RunSet, table: &str, long: bool, format: Format) -> String {
    let table = TableKind::named(table).unwrap();
    let mut out = Vec::new();
    Export { set, table, long, format }.write(&mut out, Path::new("out")).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn wide_tables_have_columns_for_seed_and_name() {
    let parent = tempfile::tempdir().unwrap();
    let set = set(parent.path());
    let csv = text(&set, "series_flows", false, Format::Csv);
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().starts_with("seed,time_s,flow,name,goodput_bps,"), "{csv}");
    let first = lines.next().unwrap();
    assert!(first.starts_with("1,0.5,0,bulk.0,"), "{first}");
    assert_eq!((csv.lines().count(), csv.lines().filter(|line| line.starts_with("3,")).count()), (9, 4));
    let json: serde_json::Value = serde_json::from_str(&text(&set, "links", false, Format::Json)).unwrap();
    assert_eq!((&json[0]["seed"], &json[0]["name"], &json[3]["seed"]), (&1.into(), &"a>b".into(), &3.into()));
    let flows: serde_json::Value = serde_json::from_str(&text(&set, "flows", false, Format::Json)).unwrap();
    assert!(flows[0].as_object().unwrap().contains_key("outcome") && flows[0]["outcome"].is_null());
    // A single run has no seed column.
    let one = RunSet::open(set.runs()[0].path()).unwrap();
    assert!(text(&one, "flows", false, Format::Csv).starts_with("flow,name,group,"));
    // Nothing was recorded: only the header.
    assert_eq!(text(&one, "packets", false, Format::Csv).lines().count(), 1);
    assert_eq!(text(&one, "packets", false, Format::Json), "[]\n");
}

#[test]
fn long_tables_have_a_row_for_each_value() {
    let parent = tempfile::tempdir().unwrap();
    let set = set(parent.path());
    let wide: serde_json::Value =
        serde_json::from_str(&text(&set, "series_links", false, Format::Json)).unwrap();
    let long: serde_json::Value =
        serde_json::from_str(&text(&set, "series_links", true, Format::Json)).unwrap();
    let rows = long.as_array().unwrap();
    assert!(rows.iter().all(|row| {
        row.as_object()
            .unwrap()
            .keys()
            .eq(["seed", "time_s", "link", "name", "metric", "unit", "value"].iter())
    }));
    let metrics = wide[0].as_object().unwrap().len() - 4;
    assert_eq!(rows.len(), wide.as_array().unwrap().len() * metrics);
    let found = rows.iter().find(|row| {
        row["metric"] == "throughput_bps" && row["time_s"] == 1.0 && row["seed"] == 3 && row["link"] == 0
    });
    let expected = wide
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["time_s"] == 1.0 && row["seed"] == 3 && row["link"] == 0);
    assert_eq!(found.unwrap()["value"], expected.unwrap()["throughput_bps"]);
    assert_eq!(found.unwrap()["unit"], "bit/s");
}

#[test]
fn exported_parquet_is_read_back_and_files_are_complete_and_readable() {
    let parent = tempfile::tempdir().unwrap();
    let set = set(parent.path());
    let file = parent.path().join("flows.parquet");
    let table = TableKind::all().swap_remove(0);
    Export { set: &set, table: table.clone(), long: false, format: Format::Parquet }
        .write_file(&file)
        .unwrap();
    let back = Table::read(&file).unwrap();
    assert_eq!((back.num_rows(), back.schema.field(0).name().as_str()), (4, "seed"));
    let rows = back.rows::<FlowRow>().unwrap();
    assert_eq!(rows[0], set.runs()[0].summary().flows[0]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    }
    let nowhere = parent.path().join("no/such/place.csv");
    let export = Export { set: &set, table, long: true, format: Format::Csv };
    assert!(export.write_file(&nowhere).unwrap_err().to_string().contains("place.csv"));
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 2, "no other file is left");
}

#[test]
fn line_protocol_has_tags_fields_and_time() {
    let parent = tempfile::tempdir().unwrap();
    let set = set(parent.path());
    let lines = text(&set, "series_flows", false, Format::Influx);
    let first = lines.lines().next().unwrap();
    assert!(first.starts_with("series_flows,seed=1,flow=0,name=bulk.0 goodput_bps="), "{first}");
    assert!(first.ends_with(" 500000000") && first.contains(",retransmits=0i"), "{first}");
    // Rows without a time get the run's end.
    assert!(text(&set, "links", false, Format::Influx).lines().all(|line| line.ends_with(" 1000000000")));
}
