//! A summary as a flat list of measures: what comparisons and replications work on.

use serde::Serialize;

use crate::results::summary::Summary;
use crate::results::units::Unit;

/// What a measure is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "lowercase")]
pub enum Subject {
    /// The whole run.
    Total,
    /// A group of flows.
    Group(String),
    /// A flow.
    Flow(String),
    /// A link direction.
    Link(String),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Total => f.write_str("Total"),
            Subject::Group(name) => write!(f, "Group {name}"),
            Subject::Flow(name) => write!(f, "Flow {name}"),
            Subject::Link(name) => write!(f, "Link {name}"),
        }
    }
}

/// One metric of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// What it is about.
    pub subject: Subject,
    /// The metric's name, as in summary.json.
    pub metric: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its value; none where there is none.
    pub value: Option<f64>,
}

/// The measures of a summary: the total, groups, flows, links, each in the summary's order.
pub fn measures(summary: &Summary) -> Vec<Measure> {
    use Unit::{BitPerSecond, Count, Index, Millisecond, Second, Share};
    let mut all = Vec::new();
    let mut add = |subject: Subject, list: &[(&'static str, Unit, Option<f64>)]| {
        all.extend(list.iter().map(|&(metric, unit, value)| Measure {
            subject: subject.clone(),
            metric,
            unit,
            value,
        }));
    };
    let totals = &summary.totals;
    add(
        Subject::Total,
        &[
            ("goodput_bps", BitPerSecond, Some(totals.goodput_bps)),
            ("throughput_bps", BitPerSecond, Some(totals.throughput_bps)),
            ("jain", Index, totals.jain),
            ("drops", Count, Some(totals.drops as f64)),
            ("marks", Count, Some(totals.marks as f64)),
        ],
    );
    for group in &summary.groups {
        add(
            Subject::Group(group.group.clone()),
            &[
                ("goodput_bps", BitPerSecond, Some(group.goodput_bps)),
                ("goodput_mean_bps", BitPerSecond, Some(group.goodput_mean_bps)),
                ("throughput_bps", BitPerSecond, Some(group.throughput_bps)),
                ("jain", Index, group.jain),
                ("retransmit_ratio", Share, Some(group.retransmit_ratio)),
                ("lost_packets", Count, Some(group.lost_packets as f64)),
                ("rtos", Count, Some(group.rtos as f64)),
                ("rtt_mean_ms", Millisecond, group.rtt_mean_ms),
                ("latency_mean_ms", Millisecond, group.latency_mean_ms),
                ("latency_p95_max_ms", Millisecond, group.latency_p95_max_ms),
                ("latency_max_ms", Millisecond, group.latency_max_ms),
                ("message_latency_mean_ms", Millisecond, group.message_latency_mean_ms),
                ("transfers_completed", Count, Some(group.transfers_completed as f64)),
                ("completion_mean_s", Second, group.completion_mean_s),
            ],
        );
    }
    for flow in &summary.flows {
        add(
            Subject::Flow(flow.name.clone()),
            &[
                ("goodput_bps", BitPerSecond, Some(flow.goodput_bps)),
                ("throughput_bps", BitPerSecond, Some(flow.throughput_bps)),
                ("retransmitted_packets", Count, Some(flow.retransmitted_packets as f64)),
                ("lost_packets", Count, Some(flow.lost_packets as f64)),
                ("rtos", Count, Some(flow.rtos as f64)),
                ("ce_marks", Count, Some(flow.ce_marks as f64)),
                ("rtt_mean_ms", Millisecond, flow.rtt_mean_ms),
                ("latency_mean_ms", Millisecond, flow.latency_mean_ms),
                ("latency_p95_ms", Millisecond, flow.latency_p95_ms),
                ("message_latency_mean_ms", Millisecond, flow.message_latency_mean_ms),
                ("completion_mean_s", Second, flow.completion_mean_s),
            ],
        );
    }
    for link in &summary.links {
        add(
            Subject::Link(link.name.clone()),
            &[
                ("throughput_bps", BitPerSecond, Some(link.throughput_bps)),
                ("utilisation", Share, link.utilisation),
                ("drops", Count, Some(link.drops() as f64)),
                ("marks", Count, Some(link.marks as f64)),
                ("queue_delay_mean_ms", Millisecond, Some(link.queue_delay_mean_ms)),
                ("queue_delay_max_ms", Millisecond, Some(link.queue_delay_max_ms)),
            ],
        );
    }
    all
}
