//! The summary of a run (`summary.json`): what ran, and its metrics in total, per group, per flow and per link.
//!
//! Nothing in that of a simulated run depends on wall-clock time: the same scenario and seed give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::column::{Row, table};
use crate::declaration::{Column, Fold, Scalar};
use crate::fast_forward::{AuditedMeasure, FastForwardSummary, Stretch};
use crate::guests::GuestSummary;
use crate::live::{DilationStep, LiveSummary};
use crate::metrics::{jain, mean, weighted_mean};
use crate::rows::{FlowRow, LinkRow};
use crate::sizes::SizeSummary;

/// Version of the run directory's format. A reader refuses a newer one.
pub const FORMAT: u64 = 1;
/// The word for the application of what programs send each other.
pub const PROGRAM: &str = "program";
/// Name of the summary's file in a run directory.
pub const SUMMARY_FILE: &str = "summary.json";

table! {
    /// What ran, without its results.
    pub struct RunInfo: "run" {
        /// Name of the scenario.
        scenario: String [""],
        /// Hash of the scenario's canonical text: "sha256:" and 64 hexadecimal digits.
        scenario_hash: String [""],
        /// Seed of the random streams.
        seed: u64 ["" key],
        /// Clock: virtual, real or dilated.
        clock: String [""],
        /// Duration that the scenario asked for, in seconds.
        duration_s: f64 ["s"],
        /// Warm-up that is cut off, in seconds.
        warmup_s: f64 ["s"],
        /// Duration that was in fact run, in seconds.
        simulated_s: f64 ["s" called("Simulated time")],
        /// Whether the run came to its end.
        complete: bool [""],
        /// Why it did not: "interrupted" and so on.
        stopped: Option<String> [""],
        /// Packets handed on by links.
        packet_hops: u64 ["packets"],
        /// Events handled.
        events: u64 [""],
    }
}

table! {
    /// A file that the scenario reads, a trace or a log.
    pub struct InputFile: "inputs" {
        /// Its copy in the run directory.
        file: String [""],
        /// Its size in bytes.
        bytes: u64 ["B"],
        /// Hash of what it holds: "sha256:" and 64 hexadecimal digits.
        hash: String [""],
    }
}

table! {
    /// Metrics of the whole run.
    pub struct Totals: "totals" from (flows: &[FlowRow], links: &[LinkRow], measured_s: f64) {
        /// Unique application bits delivered per second of the measured part of the run. A flow's own goodput is over its own
        /// lifetime, so that those of flows that come and go add up to more.
        goodput_bps: f64 ["bit/s" compared] =
            rate(flows.iter().map(|flow| flow.delivered_bytes).sum(), measured_s),
        /// Wire bits sent per second of the measured part of the run.
        throughput_bps: f64 ["bit/s" compared] =
            rate(flows.iter().map(|flow| flow.sent_bytes).sum(), measured_s),
        /// Packets lost on all links.
        drops: u64 ["packets" compared] = links.iter().map(LinkRow::drops).sum(),
        /// Packets marked congestion-experienced on all links.
        marks: u64 ["packets" compared] = links.iter().map(|link| link.marks).sum(),
        /// Jain's fairness index of the goodput of the scenario's flows, without what programs send each other; absent of fewer than two flows, or without goodput.
        jain: Option<f64> ["index" compared called("Jain’s index")] =
            jain(goodputs(flows.iter().filter(|flow| flow.app != PROGRAM))),
    }
}

table! {
    /// Metrics of the flows of one scenario entry.
    pub struct GroupSummary: "groups" #[serde(default)] from (flows: &[&FlowRow], measured_s: f64) {
        /// Name of the group.
        group: String ["" terminal(1, "group")] = flows.first().map(|flow| flow.group.clone()).unwrap_or_default(),
        /// Application.
        app: String ["" called("Application")] = words(flows, |flow| &flow.app),
        /// Congestion control, or the transport where there is none.
        cc: String ["" terminal(6, "control") called("Congestion control")] =
            words(flows, |flow| flow.cc.as_deref().unwrap_or(&flow.transport)),
        /// Number of flows; the subflows of a multipath connection are one.
        flows: u64 ["" terminal(2, "flows")] = goodputs(flows.iter().copied()).count() as u64,
        /// Unique application bits delivered per second of the measured part of the run.
        goodput_bps: f64 ["bit/s" compared terminal(3, "goodput")] = rate(sum(flows, |flow| flow.delivered_bytes), measured_s),
        /// Mean of the flows' own goodput, in bit/s.
        goodput_mean_bps: f64 ["bit/s" compared terminal(4, "per flow")] =
            mean(goodputs(flows.iter().copied())).unwrap_or(0.0),
        /// Wire bits sent per second of the measured part of the run.
        throughput_bps: f64 ["bit/s" compared] = rate(sum(flows, |flow| flow.sent_bytes), measured_s),
        /// Jain's fairness index of the flows' goodput; absent of fewer than two flows, or without goodput.
        jain: Option<f64> ["index" compared terminal(5, "Jain") if_any called("Jain’s index")] = jain(goodputs(flows.iter().copied())),
        /// Packets sent.
        sent_packets: u64 ["packets" called("Packets sent")] = sum(flows, |flow| flow.sent_packets),
        /// Packets retransmitted.
        retransmitted_packets: u64 ["packets" called("Retransmitted")] = sum(flows, |flow| flow.retransmitted_packets),
        /// Retransmitted share of the packets sent, 0 to 1.
        retransmit_ratio: f64 ["1" compared terminal(7, "retransmitted") called("Retransmitted share")] =
            sum(flows, |flow| flow.retransmitted_packets) as f64 / sum(flows, |flow| flow.sent_packets).max(1) as f64,
        /// Packets lost.
        lost_packets: u64 ["packets" compared called("Lost")] = sum(flows, |flow| flow.lost_packets),
        /// Retransmission time-outs.
        rtos: u64 ["" compared terminal(11, "time-outs") if_any called("Time-outs")] = sum(flows, |flow| flow.rtos),
        /// Mean round-trip time in milliseconds: the flows' means, weighted by packets sent.
        rtt_mean_ms: Option<f64> ["ms" compared terminal(8, "RTT")] =
            weighted(flows, |flow| flow.rtt_mean_ms, |flow| flow.sent_packets),
        /// Mean per-packet latency in milliseconds: the flows' means, weighted by packets sent for the first time.
        latency_mean_ms: Option<f64> ["ms" compared terminal(9, "latency")] =
            weighted(flows, |flow| flow.latency_mean_ms, first_sent),
        /// Largest of the flows' 95th percentiles of the latency, in milliseconds.
        latency_p95_max_ms: Option<f64> ["ms" compared] = largest(flows, |flow| flow.latency_p95_ms),
        /// Largest latency, in milliseconds.
        latency_max_ms: Option<f64> ["ms" compared] = largest(flows, |flow| flow.latency_max_ms),
        /// Mean of the flows' mean message latencies, in milliseconds.
        message_latency_mean_ms: Option<f64> ["ms" compared] = mean(flows.iter().filter_map(|flow| flow.message_latency_mean_ms)),
        /// Transfers begun.
        transfers: u64 [""] = sum(flows, |flow| flow.transfers),
        /// Transfers completed.
        transfers_completed: u64 ["" compared called("Transfers done")] = sum(flows, |flow| flow.transfers_completed),
        /// Mean completion time in seconds, over all completed transfers.
        completion_mean_s: Option<f64> ["s" compared terminal(10, "completion")] =
            weighted(flows, |flow| flow.completion_mean_s, |flow| flow.transfers_completed),
    }
    rest {
        /// What else the flows' columns fold into: those that say how ([`folded_columns`]).
        #[serde(flatten)]
        more: Map<String, Value> = fold(flows)
    }
}

/// The summary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of Warpline that wrote it.
    pub warpline: String,
    /// Version of the run directory's format.
    pub format: u64,
    /// What ran.
    #[serde(flatten)]
    pub info: RunInfo,
    /// The whole run.
    pub totals: Totals,
    /// Per group of flows, in the order of their first flow.
    pub groups: Vec<GroupSummary>,
    /// Per group and range of sizes of its transfers, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeSummary>,
    /// Per flow.
    pub flows: Vec<FlowRow>,
    /// Per link direction.
    pub links: Vec<LinkRow>,
    /// The files that the scenario reads, as the run directory holds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
    /// What a run with `fast_forward` skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_forward: Option<FastForwardSummary>,
    /// The stretches that it skipped or could have skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<Stretch>,
    /// What those of them say that were run after all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audits: Vec<AuditedMeasure>,
    /// What only a live run has: its audit, its hosts and programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveSummary>,
    /// What only a run with guests has: their machines, hosts and programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<GuestSummary>,
}

impl Summary {
    /// The factors of a dilated run, from the first on; none where time was not dilated.
    pub fn dilation_steps(&self) -> &[DilationStep] {
        let dilation = self.live.as_ref().and_then(|live| live.dilation.as_ref());
        dilation.map_or(&[], |dilation| &dilation.steps)
    }

    /// Computes totals and groups from the rows. Floats that are not finite are replaced: zero, or absent where allowed.
    pub fn new(mut info: RunInfo, mut flows: Vec<FlowRow>, mut links: Vec<LinkRow>) -> Summary {
        flows.iter_mut().for_each(Row::make_finite);
        links.iter_mut().for_each(Row::make_finite);
        info.make_finite();
        let measured_s = info.simulated_s - info.warmup_s;
        let totals = Totals::new(&flows, &links, measured_s);
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut members: Vec<Vec<&FlowRow>> = Vec::new();
        for flow in &flows {
            let place = *places.entry(&flow.group).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[place].push(flow);
        }
        let groups = members.iter().map(|flows| GroupSummary::new(flows, measured_s)).collect();
        Summary {
            warpline: env!("CARGO_PKG_VERSION").to_owned(),
            format: FORMAT,
            info,
            totals,
            groups,
            sizes: Vec::new(),
            flows,
            links,
            inputs: Vec::new(),
            fast_forward: None,
            stretches: Vec::new(),
            audits: Vec::new(),
            live: None,
            guests: None,
        }
    }

    /// The text of `summary.json`: indented, floats in their shortest form that reads back as the same number.
    pub fn to_json(&self) -> String {
        let mut text = Vec::new();
        // Strings, numbers and sequences only: there is nothing that could fail to be written.
        let _ = self.write_json(&mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// Writes this text.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, mut out: impl io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        out.write_all(b"\n")
    }
}

/// Bits per second of `bytes` in `seconds`; zero in no time.
fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// The goodput of each flow; the subflows of a multipath connection, which follow each other, are one.
fn goodputs<'a>(flows: impl Iterator<Item = &'a FlowRow>) -> impl Iterator<Item = f64> {
    let mut last: Option<&str> = None;
    flows.filter_map(move |flow| {
        let connection = flow.connection.as_deref();
        let counted = connection.is_some() && std::mem::replace(&mut last, connection) == connection;
        (!counted).then(|| flow.connection_goodput_bps.unwrap_or(flow.goodput_bps))
    })
}

/// The sum of a column.
fn sum(flows: &[&FlowRow], of: fn(&FlowRow) -> u64) -> u64 {
    flows.iter().map(|flow| of(flow)).sum()
}

/// The largest value of a column.
fn largest(flows: &[&FlowRow], of: fn(&FlowRow) -> Option<f64>) -> Option<f64> {
    flows.iter().filter_map(|flow| of(flow)).reduce(f64::max)
}

/// The mean of a column, of those flows that have a value, by their weights.
fn weighted(flows: &[&FlowRow], of: fn(&FlowRow) -> Option<f64>, weight: fn(&FlowRow) -> u64) -> Option<f64> {
    weighted_mean(flows.iter().filter_map(|flow| of(flow).map(|value| (value, weight(flow) as f64))))
}

/// Packets that a flow sent for the first time.
fn first_sent(flow: &FlowRow) -> u64 {
    flow.sent_packets.saturating_sub(flow.retransmitted_packets)
}

/// The words that a column has, each once.
fn words(flows: &[&FlowRow], of: fn(&FlowRow) -> &str) -> String {
    let words: BTreeSet<&str> = flows.iter().map(|flow| of(flow)).collect();
    words.into_iter().collect::<Vec<_>>().join("+")
}

/// The columns of flows that groups have, too, without a declaration of their own: they say what becomes of several rows.
pub fn folded_columns() -> impl Iterator<Item = (&'static Column<FlowRow>, Fold)> {
    let own = |name: &str| GroupSummary::COLUMNS.iter().any(|column| column.info.name == name);
    FlowRow::COLUMNS
        .iter()
        .filter_map(move |column| Some((column, column.info.fold.filter(|_| !own(column.info.name))?)))
}

/// The values of these columns.
fn fold(flows: &[&FlowRow]) -> Map<String, Value> {
    let one = |(column, fold): (&Column<FlowRow>, Fold)| {
        let value = match fold.of(flows.iter().map(|flow| (column.value)(flow))) {
            Scalar::Whole(number) => Value::from(number),
            Scalar::Float(number) => Value::from(number),
            Scalar::Truth(truth) => Value::from(truth),
            Scalar::Text(_) | Scalar::Absent => Value::Null,
        };
        (column.info.name.to_owned(), value)
    };
    folded_columns().map(one).collect()
}
