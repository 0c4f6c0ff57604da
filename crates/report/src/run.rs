//! One run directory as report data: summary, tables, series, and the notes on what is missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use warpline_results::{AuditedMeasure, FastForwardSummary, Row, Stretch, Summary};

use super::ReportError;
use super::data::{Distribution, Note, NoteLevel, RunData, Table};
use super::gather::{self, Gathered};
use super::names::distinct_names;
use super::series::Candidates;
use super::tables::{self, rows_to_table};
use super::{links, series, tcp};

/// Numbers per kind of plot on one page; runs share it.
const BUDGET: usize = 200_000;
/// The newest format of run directories that is read here.
const FORMAT: u64 = 1;
/// Rows that a table may have on the page; runs share them.
const MAX_ROWS: usize = 10_000;

/// What a page shows of a capacity test: [`ReadCapacity`] makes it of the test's own report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityTest {
    /// Why its result is not to be trusted.
    pub reasons: Vec<String>,
    /// What it found, line by line: heading, name and value.
    pub lines: Vec<[String; 3]>,
}

/// Reads the text of a capacity test's report (`btc.json`); none where it is no such report.
pub type ReadCapacity = fn(&str) -> Option<CapacityTest>;

/// Reads the run in `dir` for a page that shows `runs` runs.
pub(super) fn read(dir: &Path, runs: usize, read_capacity: ReadCapacity) -> Result<RunData, ReportError> {
    let mut run = RunData::default();
    let mut summary = read_summary(dir)?;
    if summary.is_none() && !["flows", "links"].iter().any(|t| dir.join(format!("{t}.parquet")).is_file()) {
        return Err(ReportError::NotARun { path: dir.to_owned() });
    }
    if summary.is_none() {
        run.warn("summary.json is missing: the scenario, its seed and the totals are not known.");
    }
    let object = summary.get_or_insert_default();
    completeness(object, &mut run);
    live(object, &mut run);
    guests(object, &mut run);
    fast_forward(object, &mut run);
    capacity(dir, &mut run, read_capacity);

    let warmup_s = warmup(object);
    let max_rows = (MAX_ROWS / runs.max(1)).max(500);
    let mut gathered = Gathered::new(warmup_s);
    for (id, missing) in [
        ("flows", "flows.parquet is missing"),
        ("links", "links.parquet is missing"),
        ("transfers", ""),
        ("groups", ""),
        ("sizes", ""),
    ] {
        let listed = object.remove(id).and_then(|rows| rows_to_table(id, &rows));
        match gathered.read(dir, id, listed, max_rows)? {
            Some(table) => run.tables.push(table),
            None if missing.is_empty() => {}
            None => run.warn(&format!("{missing}: its table and plots are left out.")),
        }
    }
    run.summary = std::mem::take(object);
    if length(&run.summary).is_none() {
        run.summary.insert("simulated_s".to_owned(), last_time(dir)?.into());
    }
    if run.summary.get("format").and_then(Value::as_u64).is_some_and(|format| format > FORMAT) {
        run.warn(
            "This run was written by a newer Warpline: parts that this version does not know are left out.",
        );
    }

    let budget = (BUDGET / runs.max(1)).max(2000);
    let span = length(&run.summary).unwrap_or(0.0);
    let Gathered { folds, flows, links, completion_s, .. } = gathered;
    run.folds = folds.values();
    read_series(dir, budget, (flows.candidates, links.candidates), &mut run)?;
    let flow_name = |id: u32| flows.names.get(&id).cloned().unwrap_or_else(|| format!("flow {id}"));
    let link_name = |id: u32| links.names.get(&id).cloned().unwrap_or_else(|| format!("link {id}"));

    let mut thinned = false;
    let mut rtts = Vec::new();
    if let Some(traces) = tcp::read(dir, flow_name, span, warmup_s, budget)? {
        thinned |= traces.thinned;
        run.tcp = traces.traces;
        rtts = traces.rtts;
        if traces.omitted > 0 {
            let shown = run.tcp.len();
            run.info(&format!(
                "{} TCP endpoints were recorded; the {shown} that sent most have time-sequence graphs. All are in tcp.parquet.",
                traces.omitted + shown
            ));
        }
    }
    let mut delays = Vec::new();
    if let Some(recorded) = links::read(dir, link_name, span, warmup_s, budget)? {
        thinned |= recorded.thinned;
        run.link_events = recorded.links;
        delays = recorded.delays;
    }
    if thinned {
        run.info(
            "Recorded events are thinned for this page: lines keep the smallest and largest value of every time bin, \
             neighbouring segments are joined. No loss or retransmission is left out. The Parquet tables hold every event.",
        );
    }
    // What a capacity test records as links are its own sends and receptions: nothing queues there.
    let delays = if dir.join(TEST).is_file() { Vec::new() } else { delays };
    distributions(lines(completion_s), rtts, delays, &mut run);
    shorten(&mut run, max_rows);
    Ok(run)
}

/// Names the runs so that they can be told apart.
pub(super) fn label(runs: &mut [RunData], dirs: &[&Path]) {
    let text = |run: &RunData, key: &str| match run.summary.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    for run in runs.iter_mut() {
        let (scenario, seed) = (text(run, "scenario"), text(run, "seed"));
        run.label = match (scenario.is_empty(), seed.is_empty()) {
            (true, _) => "run".to_owned(),
            (false, true) => scenario,
            (false, false) => format!("{scenario}, seed {seed}"),
        };
    }
    let labels: Vec<String> = runs.iter().map(|run| run.label.clone()).collect();
    for (run, name) in runs.iter_mut().zip(distinct_names(dirs)) {
        if labels.iter().filter(|label| **label == run.label).count() > 1 {
            run.label = format!("{} ({name})", run.label);
        }
    }
}

impl RunData {
    fn warn(&mut self, text: &str) {
        self.notes.push(Note { level: NoteLevel::Warning, text: text.to_owned() });
    }

    fn info(&mut self, text: &str) {
        self.notes.push(Note { level: NoteLevel::Info, text: text.to_owned() });
    }
}

fn read_summary(dir: &Path) -> Result<Option<Map<String, Value>>, ReportError> {
    let path = dir.join("summary.json");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReportError::Read { path, source }),
    };
    let file = BufReader::with_capacity(1 << 16, file);
    let mut deserializer = serde_json::Deserializer::from_reader(file);
    let read = deserializer.deserialize_any(WithoutTables(dir));
    read.and_then(|object| deserializer.end().map(|()| Some(object))).map_err(|error| {
        match error.io_error_kind() {
            Some(kind) => ReportError::Read { path, source: kind.into() },
            None => ReportError::Malformed { path, reason: error.to_string() },
        }
    })
}

/// Reads a summary without the rows that its directory has as tables, too: there may be very many.
struct WithoutTables<'a>(&'a Path);

impl<'de> Visitor<'de> for WithoutTables<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.0.join(format!("{key}.parquet")).is_file() {
                map.next_value::<IgnoredAny>()?;
            } else {
                object.insert(key, map.next_value()?);
            }
        }
        Ok(object)
    }
}

/// Seconds that the run lasted, as its summary has it.
fn length(summary: &Map<String, Value>) -> Option<f64> {
    let number = |key: &str| summary.get(key).and_then(Value::as_f64);
    number("simulated_s").or_else(|| number("duration_s"))
}

/// When the last sample or event of a run was, in seconds: what is known of its length where no summary says it.
fn last_time(dir: &Path) -> Result<f64, ReportError> {
    let mut last = 0.0_f64;
    for (table, column, per_second) in [
        ("series_flows", "time_s", 1.0),
        ("series_links", "time_s", 1.0),
        ("packets", "time_ns", 1e9),
        ("tcp", "time_ns", 1e9),
    ] {
        tables::scan(dir, table, &[column], |batch| {
            // `max` passes over what is not a number.
            last = batch.numbers(column).into_iter().fold(last, |last, time| last.max(time / per_second));
        })?;
    }
    Ok(last)
}

/// Seconds that the figures leave out.
fn warmup(summary: &Map<String, Value>) -> f64 {
    summary.get("warmup_s").and_then(Value::as_f64).unwrap_or(0.0)
}

/// Says so when the run was cut short.
fn completeness(summary: &Map<String, Value>, run: &mut RunData) {
    if summary.get("complete") != Some(&Value::Bool(false)) {
        return;
    }
    let seconds = |key: &str| summary.get(key).and_then(Value::as_f64);
    let why = summary.get("stopped").and_then(Value::as_str).unwrap_or("stopped early");
    let far = match (seconds("simulated_s"), seconds("duration_s")) {
        (Some(done), Some(planned)) => format!(" after {done:.3} of {planned} s"),
        _ => String::new(),
    };
    run.warn(&format!(
        "This run is not complete: {why}{far}. Everything below covers only the part that ran."
    ));
}

/// What only a live run has: whether it kept pace, which comes first, and its hosts and programs as tables. The audit stays in the
/// summary, from where the head of the page shows it.
fn live(summary: &mut Map<String, Value>, run: &mut RunData) {
    let Some(Value::Object(live)) = summary.get_mut("live") else { return };
    if live.get("kept_pace") == Some(&Value::Bool(false)) {
        let number = |pointer: &str| {
            live.get("audit").and_then(|audit| audit.pointer(pointer)).cloned().unwrap_or_default()
        };
        run.warn(&format!(
            "The emulator did not keep pace: {} of {} live packets left late, {} were lost outside the emulated network. What live \
             packets saw is not what the scenario says.",
            number("/lateness/late_packets"),
            number("/lateness/packets"),
            number("/lost_outside")
        ));
    }
    if let Some(Value::Object(dilation)) = live.get_mut("dilation") {
        let number = |key: &str| dilation.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        run.info(&format!(
            "Two clocks: {:.3} s as the hosts perceive them took {:.3} s of the machine's time, a mean time dilation factor of {:.3}. \
             All times and rates on this page are the hosts'.",
            number("perceived_s"),
            number("wall_s"),
            number("tdf_mean")
        ));
        run.tables.extend(dilation.remove("steps").and_then(|rows| rows_to_table("dilation", &rows)));
    }
    programs(live, run);
}

/// What only a run that skips time has: how much it skipped, and how far off its results are for that.
fn fast_forward(summary: &mut Map<String, Value>, run: &mut RunData) {
    let Some(part) = summary.remove(FastForwardSummary::TABLE) else { return };
    match serde_json::from_value::<FastForwardSummary>(part) {
        Ok(part) => {
            let audits = summary.get(AuditedMeasure::TABLE).cloned().unwrap_or_default();
            let read = Summary {
                fast_forward: Some(part),
                audits: serde_json::from_value(audits).unwrap_or_default(),
                ..Summary::default()
            };
            run.info(&read.skipping().join(" "));
        }
        Err(error) => run.warn(&format!("What this run skipped cannot be read: {error}.")),
    }
    let stretches = summary.get(Stretch::TABLE).cloned().unwrap_or_default();
    let stretches: Vec<Stretch> = serde_json::from_value(stretches).unwrap_or_default();
    run.skipped = Stretch::skipped(&stretches);
    for id in [Stretch::TABLE, AuditedMeasure::TABLE] {
        run.tables.extend(summary.remove(id).and_then(|rows| rows_to_table(id, &rows)));
    }
}

/// What only a run with guests has: whether it can be repeated, and its machines, hosts and programs as tables.
fn guests(summary: &mut Map<String, Value>, run: &mut RunData) {
    let Some(Value::Object(guests)) = summary.get_mut("guests") else { return };
    if guests.get("pushes").and_then(Value::as_u64).is_some_and(|pushes| pushes > 0) {
        run.warn("Programs on guests computed for so long that the machine's clock pushed them on: this run cannot be repeated exactly.");
    }
    run.tables.extend(guests.remove("machines").and_then(|rows| rows_to_table("machines", &rows)));
    programs(guests, run);
}

/// Hosts and programs as tables, with a warning about those that failed.
fn programs(part: &mut Map<String, Value>, run: &mut RunData) {
    let failed = part.get("programs").and_then(Value::as_array).map_or(0, |programs| {
        programs.iter().filter(|program| program.get("ok") == Some(&Value::Bool(false))).count()
    });
    if failed > 0 {
        run.warn(&format!("{failed} of the programs did not end as expected; see their table."));
    }
    for id in ["programs", "hosts"] {
        run.tables.extend(part.remove(id).and_then(|rows| rows_to_table(id, &rows)));
    }
}

/// The report of a run that is a capacity test.
const TEST: &str = "btc.json";

/// The reports of capacity tests, where the run is one (`btc.json`) or has some as flows (`btc-FLOW.json`): line by line, as a table.
fn capacity(dir: &Path, run: &mut RunData, read_capacity: ReadCapacity) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name == TEST || (name.starts_with("btc-") && name.ends_with(".json")))
        .collect();
    names.sort();
    let columns: &[&str] = match names.iter().all(|name| name == TEST) {
        true => &["section", "name", "value"],
        false => &["flow", "section", "name", "value"],
    };
    let mut cells: Vec<Vec<Value>> = vec![Vec::new(); columns.len()];
    for name in &names {
        let read = std::fs::read_to_string(dir.join(name)).ok().and_then(|text| read_capacity(&text));
        let Some(test) = read else {
            run.warn(&format!("{name} cannot be read: the report of the capacity test is left out."));
            continue;
        };
        let flow = name.strip_prefix("btc-").and_then(|name| name.strip_suffix(".json"));
        let of = flow.map_or_else(String::new, |flow| format!("{flow}: "));
        for reason in &test.reasons {
            run.warn(&format!("{of}The capacity is not to be trusted: {reason}."));
        }
        for [section, heading, value] in &test.lines {
            for (column, cells) in columns.iter().zip(&mut cells) {
                cells.push(match *column {
                    "flow" => flow.unwrap_or_default().into(),
                    "section" => section.as_str().into(),
                    "name" => heading.as_str().into(),
                    _ => value.as_str().into(),
                });
            }
        }
    }
    let total_rows = cells[0].len();
    if total_rows > 0 {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        run.tables.push(Table { id: "capacity".to_owned(), columns, cells, total_rows });
    }
}

fn read_series(
    dir: &Path,
    budget: usize,
    (flows, links): (Candidates, Candidates),
    run: &mut RunData,
) -> Result<(), ReportError> {
    let has_programs =
        ["live", "guests"].iter().any(|part| run.summary.get(*part).is_some_and(Value::is_object));
    let flows = series::flows(dir, flows, 2 * budget, has_programs)?;
    let links = series::links(dir, links, 2 * budget)?;
    let mut thinned = false;
    match flows {
        Some(flows) => {
            thinned |= flows.thinned;
            if flows.omitted > 0 {
                run.info(&format!(
                    "The {} flows that delivered most are drawn one by one; the other {} as one line. All are in the table and in series_flows.parquet.",
                    flows.series.members.len(),
                    flows.omitted
                ));
            }
            run.flows = Some(flows.series);
        }
        None => run.warn(
            "No samples of the flows (series_flows.parquet): throughput and window over time are left out.",
        ),
    }
    match links {
        Some(links) => {
            thinned |= links.thinned;
            if links.omitted > 0 {
                run.info(&format!(
                    "The {} links that carried most are drawn; {} others are in the table and in series_links.parquet.",
                    links.series.members.len(),
                    links.omitted
                ));
            }
            run.links = Some(links.series);
        }
        // A capacity test sees its end of the path, not the links on the way.
        None if dir.join(TEST).is_file() => {}
        None => run.warn(
            "No samples of the links (series_links.parquet): queues and utilisation over time are left out.",
        ),
    }
    if thinned {
        run.info(
            "Sampled series are thinned for this page: lines are the means of time bins, the shade around them reaches from the smallest to the largest sample. \
             The Parquet tables hold every sample.",
        );
    }
    Ok(())
}

/// A line of a distribution: name, samples, columns.
type Line = (String, usize, super::Columns);

/// What the run has after the warm-up: completion times of transfers by group, RTT samples, queueing delay.
fn distributions(completion: Vec<Line>, rtts: Vec<Line>, delays: Vec<Line>, run: &mut RunData) {
    let all = [
        ("Completion time of transfers", "s", completion),
        ("Round-trip time of recorded flows", "ms", rtts),
        ("Queueing delay of recorded links", "ms", delays),
    ];
    run.distributions = all
        .into_iter()
        .filter(|(_, _, lines)| !lines.is_empty())
        .map(|(title, unit, lines)| Distribution { title: title.to_owned(), unit: unit.to_owned(), lines })
        .collect();
}

fn lines(samples: BTreeMap<String, Vec<f64>>) -> Vec<Line> {
    samples
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| (name, values.len(), links::distribution(values)))
        .collect()
}

/// Leaves rows out of long tables, and says so of all that lack some.
fn shorten(run: &mut RunData, max_rows: usize) {
    let mut notes = Vec::new();
    for table in &mut run.tables {
        gather::shorten(table, max_rows);
        if (1..table.total_rows).contains(&table.rows()) {
            let (_, what) = gather::importance(&table.id);
            notes.push(format!(
                "The table of {} holds {max_rows} of {} rows, {what}; {}.parquet holds all.",
                table.id, table.total_rows, table.id
            ));
        }
    }
    notes.iter().for_each(|note| run.info(note));
}
