//! The summary of a run (`summary.json`): what ran, and its metrics in total, per group, per flow and per link.
//!
//! Nothing in that of a simulated run depends on wall-clock time: the same scenario and seed give the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::column::Row;
use crate::guests::GuestSummary;
use crate::live::{DilationStep, LiveSummary};
use crate::metrics::{jain, mean, weighted_mean};
use crate::rows::{FlowRow, LinkRow};

/// Version of the run directory's format. A reader refuses a newer one.
pub const FORMAT: u64 = 1;
/// The word for the application of what programs send each other.
pub const PROGRAM: &str = "program";
/// Name of the summary's file in a run directory.
pub const SUMMARY_FILE: &str = "summary.json";

/// What ran, without its results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the scenario.
    pub scenario: String,
    /// Hash of the scenario's canonical text: "sha256:" and 64 hexadecimal digits.
    pub scenario_hash: String,
    /// Seed of the random streams.
    pub seed: u64,
    /// Clock: virtual, real or dilated.
    pub clock: String,
    /// Duration that the scenario asked for, in seconds.
    pub duration_s: f64,
    /// Warm-up that is cut off, in seconds.
    pub warmup_s: f64,
    /// Duration that was in fact run, in seconds.
    pub simulated_s: f64,
    /// Whether the run came to its end.
    pub complete: bool,
    /// Why it did not: "interrupted" and so on.
    pub stopped: Option<String>,
    /// Packets handed on by links.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
}

/// A file that the scenario reads, a trace or a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its copy in the run directory.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Hash of what it holds: "sha256:" and 64 hexadecimal digits.
    pub hash: String,
}

/// Metrics of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Unique application bits delivered per second of the measured part of the run. A flow's own goodput is over its own
    /// lifetime, so that those of flows that come and go add up to more.
    pub goodput_bps: f64,
    /// Wire bits sent per second of the measured part of the run.
    pub throughput_bps: f64,
    /// Packets lost on all links.
    pub drops: u64,
    /// Packets marked congestion-experienced on all links.
    pub marks: u64,
    /// Jain's fairness index of the goodput of the scenario's flows, without what programs send each other; absent without flows or goodput.
    pub jain: Option<f64>,
}

/// Metrics of the flows of one scenario entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSummary {
    /// Name of the group.
    pub group: String,
    /// Application.
    pub app: String,
    /// Congestion control, or the transport where there is none.
    pub cc: String,
    /// Number of flows.
    pub flows: u64,
    /// Unique application bits delivered per second of the measured part of the run.
    pub goodput_bps: f64,
    /// Mean of the flows' own goodput, in bit/s.
    pub goodput_mean_bps: f64,
    /// Wire bits sent per second of the measured part of the run.
    pub throughput_bps: f64,
    /// Jain's fairness index of the flows' goodput.
    pub jain: Option<f64>,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets retransmitted.
    pub retransmitted_packets: u64,
    /// Retransmitted share of the packets sent, 0 to 1.
    pub retransmit_ratio: f64,
    /// Packets lost.
    pub lost_packets: u64,
    /// Retransmission time-outs.
    pub rtos: u64,
    /// Mean round-trip time in milliseconds: the flows' means, weighted by packets sent.
    pub rtt_mean_ms: Option<f64>,
    /// Mean per-packet latency in milliseconds: the flows' means, weighted by packets sent for the first time.
    pub latency_mean_ms: Option<f64>,
    /// Largest of the flows' 95th percentiles of the latency, in milliseconds.
    pub latency_p95_max_ms: Option<f64>,
    /// Largest latency, in milliseconds.
    pub latency_max_ms: Option<f64>,
    /// Mean of the flows' mean message latencies, in milliseconds.
    pub message_latency_mean_ms: Option<f64>,
    /// Transfers begun.
    pub transfers: u64,
    /// Transfers completed.
    pub transfers_completed: u64,
    /// Mean completion time in seconds, over all completed transfers.
    pub completion_mean_s: Option<f64>,
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
    /// Per flow.
    pub flows: Vec<FlowRow>,
    /// Per link direction.
    pub links: Vec<LinkRow>,
    /// The files that the scenario reads, as the run directory holds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
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
        for value in [&mut info.duration_s, &mut info.warmup_s, &mut info.simulated_s] {
            *value = if value.is_finite() { *value } else { 0.0 };
        }
        let measured_s = info.simulated_s - info.warmup_s;
        let totals = Totals {
            goodput_bps: rate(flows.iter().map(|flow| flow.delivered_bytes).sum(), measured_s),
            throughput_bps: rate(flows.iter().map(|flow| flow.sent_bytes).sum(), measured_s),
            drops: links.iter().map(LinkRow::drops).sum(),
            marks: links.iter().map(|link| link.marks).sum(),
            jain: jain(flows.iter().filter(|flow| flow.app != PROGRAM).map(|flow| flow.goodput_bps)),
        };
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
            flows,
            links,
            inputs: Vec::new(),
            live: None,
            guests: None,
        }
    }

    /// The text of `summary.json`: indented, floats in their shortest form that reads back as the same number.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: there is nothing that could fail to be written.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Bits per second of `bytes` in `seconds`; zero in no time.
fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

impl GroupSummary {
    /// Aggregates the flows of one group over the `measured_s` seconds that were measured.
    pub fn new(flows: &[&FlowRow], measured_s: f64) -> GroupSummary {
        let sum = |field: fn(&FlowRow) -> u64| flows.iter().map(|flow| field(flow)).sum::<u64>();
        let max =
            |field: fn(&FlowRow) -> Option<f64>| flows.iter().filter_map(|flow| field(flow)).reduce(f64::max);
        let first_sent = |flow: &FlowRow| flow.sent_packets.saturating_sub(flow.retransmitted_packets) as f64;
        let (sent_packets, retransmitted_packets) =
            (sum(|f| f.sent_packets), sum(|f| f.retransmitted_packets));
        let one_of = |field: fn(&FlowRow) -> &str| {
            let mut words: Vec<&str> = flows.iter().map(|flow| field(flow)).collect();
            words.sort_unstable();
            words.dedup();
            words.join("+")
        };
        GroupSummary {
            group: flows.first().map(|flow| flow.group.clone()).unwrap_or_default(),
            app: one_of(|f| &f.app),
            cc: one_of(|f| f.cc.as_deref().unwrap_or(&f.transport)),
            flows: flows.len() as u64,
            goodput_bps: rate(sum(|f| f.delivered_bytes), measured_s),
            goodput_mean_bps: mean(flows.iter().map(|flow| flow.goodput_bps)).unwrap_or(0.0),
            throughput_bps: rate(sum(|f| f.sent_bytes), measured_s),
            jain: jain(flows.iter().map(|flow| flow.goodput_bps)),
            sent_packets,
            retransmitted_packets,
            retransmit_ratio: retransmitted_packets as f64 / sent_packets.max(1) as f64,
            lost_packets: sum(|f| f.lost_packets),
            rtos: sum(|f| f.rtos),
            rtt_mean_ms: weighted_mean(
                flows.iter().filter_map(|flow| flow.rtt_mean_ms.map(|rtt| (rtt, flow.sent_packets as f64))),
            ),
            latency_mean_ms: weighted_mean(
                flows
                    .iter()
                    .filter_map(|flow| flow.latency_mean_ms.map(|latency| (latency, first_sent(flow)))),
            ),
            latency_p95_max_ms: max(|f| f.latency_p95_ms),
            latency_max_ms: max(|f| f.latency_max_ms),
            message_latency_mean_ms: mean(flows.iter().filter_map(|flow| flow.message_latency_mean_ms)),
            transfers: sum(|f| f.transfers),
            transfers_completed: sum(|f| f.transfers_completed),
            completion_mean_s: weighted_mean(flows.iter().filter_map(|flow| {
                flow.completion_mean_s.map(|completion| (completion, flow.transfers_completed as f64))
            })),
        }
    }
}
