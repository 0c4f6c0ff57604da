//! What a report shows, as plain values: no files, no page.

use serde_json::{Map, Value};
use warpline_results::Replicated;

use super::column::Column;
use super::quantity::Quantity;

/// Everything one report page shows.
#[derive(Clone, Debug, Default)]
pub struct ReportData {
    /// The runs, in the order given; the first is the one others are compared with.
    pub runs: Vec<RunData>,
    /// The directories named, where one of them holds several seeds: what is known across the runs of each. Empty for single runs.
    pub sets: Vec<SetData>,
}

/// What is known across the runs of several seeds.
#[derive(Clone, Debug, Default)]
pub struct SetData {
    /// What tells it from the other sets of the page.
    pub label: String,
    /// The seeds of its complete runs, as people list them.
    pub seeds: String,
    /// How many they are. Runs that are not complete do not count.
    pub count: usize,
    /// The seeds of runs that are left out, because they are not complete; empty where all are.
    pub incomplete: String,
    /// Its measures, each with mean and interval.
    pub measures: Vec<Replicated>,
    /// Quantities over time.
    pub bands: Vec<BandData>,
}

/// A quantity over time with the interval of its mean.
#[derive(Clone, Debug)]
pub struct BandData {
    /// Which quantity.
    pub quantity: Quantity,
    /// Whose: a group or a link; empty for all flows.
    pub of: String,
    /// Sample times, seconds.
    pub time: Column,
    /// Mean over the seeds.
    pub mean: Column,
    /// Lower end of the 95 % interval; as the mean where there is none.
    pub low: Column,
    /// Upper end.
    pub high: Column,
    /// The stretches of time that all seeds skipped, as [`RunData::skipped`].
    pub skipped: Vec<[f64; 2]>,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct RunData {
    /// What tells it from the other runs of the page: scenario, seed, or the directory's name where those are the same.
    pub label: String,
    /// `summary.json` without its tables (`flows`, `links`, `groups`, `sizes`). Empty when the file is missing.
    pub summary: Map<String, Value>,
    /// What the reader should know before believing the plots: interrupted, missing, thinned.
    pub notes: Vec<Note>,
    /// The tables, in the order in which they are shown.
    pub tables: Vec<Table>,
    /// What all rows of its tables make as one value, column by column, in the order of the page; none where no row has a value.
    pub folds: Vec<Option<f64>>,
    /// The stretches of time that the run skipped, in order: start and end, in seconds. Of these there are no samples.
    pub skipped: Vec<[f64; 2]>,
    /// Sampled series per flow.
    pub flows: Option<FlowSeries>,
    /// Sampled series per link.
    pub links: Option<LinkSeries>,
    /// Recorded links, event by event.
    pub link_events: Vec<LinkEvents>,
    /// Recorded TCP endpoints, event by event.
    pub tcp: Vec<TcpTrace>,
    /// Distributions.
    pub distributions: Vec<Distribution>,
    /// Shares over something that is not time.
    pub shares: Vec<Shares>,
}

/// How much a note matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteLevel {
    /// The run or its data is not what was asked for.
    Warning,
    /// How the page shows the data.
    Info,
}

/// One sentence for the reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// How much it matters.
    pub level: NoteLevel,
    /// The sentence.
    pub text: String,
}

/// A table with typed cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Which table: "flows", "links", "transfers", "groups", "sizes".
    pub id: String,
    /// The columns' names as in the Parquet files: their endings (`_bps`, `_ms`, `_bytes`, `_s`) tell the unit.
    pub columns: Vec<String>,
    /// Cells by column.
    pub cells: Vec<Vec<Value>>,
    /// Rows in the run, where the page holds fewer.
    pub total_rows: usize,
}

impl Table {
    /// Rows held here.
    pub fn rows(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// The cells of the column called `name`.
    pub fn column(&self, name: &str) -> Option<&[Value]> {
        self.columns.iter().position(|c| c == name).map(|i| self.cells[i].as_slice())
    }
}

/// Parallel columns, by name.
pub type Columns = Vec<(&'static str, Column)>;

/// Columns on the time grid of a sampled series.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// The samples, named as in the tables; where the series is thinned, the means of its time bins.
    pub values: Columns,
    /// Where thinned: the smallest sample of each bin, under the same names.
    pub low: Columns,
    /// Where thinned: the largest sample of each bin.
    pub high: Columns,
}

/// Sampled series of the flows on one time grid.
#[derive(Clone, Debug, Default)]
pub struct FlowSeries {
    /// Sample times, seconds.
    pub time: Column,
    /// The largest flows (by bytes delivered, then by number).
    pub members: Vec<Member>,
    /// Sum over all flows: `goodput_bps`, `throughput_bps`.
    pub total: Curves,
    /// Sum over the flows that are not among `members`, and how many they are.
    pub others: Option<(usize, Curves)>,
}

/// Sampled series of the links on one time grid.
#[derive(Clone, Debug, Default)]
pub struct LinkSeries {
    /// Sample times, seconds.
    pub time: Column,
    /// The links with most traffic.
    pub members: Vec<Member>,
}

/// One flow or link of a sampled series.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Its number in the tables.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// A link's rate in bit/s, where it has one.
    pub rate_bps: Option<f64>,
    /// Its samples; blank columns are left out.
    pub curves: Curves,
    /// What happened seldom, with times of its own: `time` (seconds) and `count`.
    pub events: Vec<(&'static str, Columns)>,
}

/// A recorded link.
#[derive(Clone, Debug, Default)]
pub struct LinkEvents {
    /// Its number.
    pub link: u32,
    /// Its name.
    pub name: String,
    /// Backlog after every event: `time` (seconds), `packets`, `bytes`.
    pub backlog: Columns,
    /// Queueing delay of each packet as it leaves: `time`, `delay` (milliseconds).
    pub delay: Columns,
    /// Ticks by name ("mark", "drop: overflow"): `time`, and `count` where ticks were merged.
    pub ticks: Vec<(String, Columns)>,
}

/// A recorded TCP endpoint. Positions are stream bytes, times seconds, durations milliseconds.
#[derive(Clone, Debug, Default)]
pub struct TcpTrace {
    /// The flow.
    pub flow: u32,
    /// 0 for the opener, 1 for the other end.
    pub side: u8,
    /// What the picker calls it.
    pub name: String,
    /// Marks by kind: `sent`, `retransmit`, `probe`, `lost`, `sacked`, `dsack`; each has `start` (time of the first
    /// segment), `span` (time from it to the last), `seq`, `len` and `count`.
    pub marks: Vec<(&'static str, Columns)>,
    /// Cumulative ACK and window edge: `time`, `ack`, `window_end`.
    pub acks: Columns,
    /// Whether ACKs were left out: the line then joins those that are left instead of stepping from one to the next.
    pub acks_thinned: bool,
    /// RTT samples: `time`, `rtt`.
    pub rtt: Columns,
    /// State: `time`, `cwnd`, `ssthresh`, `in_flight`, `srtt`, `min_rtt`, `rto`.
    pub metrics: Columns,
    /// Changes of the congestion state: (seconds, state).
    pub states: Vec<(f64, String)>,
    /// Times at which a reduction was undone.
    pub undos: Vec<f64>,
}

/// Lines of one cumulative distribution plot.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Heading.
    pub title: String,
    /// "s" or "ms".
    pub unit: String,
    /// Name, number of samples, and `value` and `fraction` columns, per line.
    pub lines: Vec<(String, usize, Columns)>,
}

/// Lines of a plot of shares, in percent, over something that is counted.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Heading.
    pub title: String,
    /// What the plot shows, in a sentence.
    pub about: String,
    /// Name, and `count` and `percent` columns, per line.
    pub lines: Vec<(String, Columns)>,
}
