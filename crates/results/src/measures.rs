//! A summary as a flat list of measures: what comparisons and replications work on.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rows::FlowRow;
use crate::summary::{GroupSummary, PROGRAM, Summary};
use crate::units::Unit;

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

/// A metric's name as in summary.json, its unit, and its value where it has one.
pub type Figure = (&'static str, Unit, Option<f64>);

/// The measures of a summary: the total, groups, flows, links, each in the summary's order.
pub fn measures(summary: &Summary) -> Vec<Measure> {
    let mut all = Vec::new();
    for (subject, figures) in subjects(summary, true) {
        all.extend(figures.into_iter().map(|(metric, unit, value)| Measure {
            subject: subject.clone(),
            metric,
            unit,
            value,
        }));
    }
    all
}

/// A socket's name without the port if that is one of those that the kernel gives out (Linux: `net.ipv4.ip_local_port_range` begins at
/// 32768): the same program has another in each run.
fn without_ephemeral_port(socket: &str) -> &str {
    match socket.rsplit_once(':') {
        // An IPv6 address has a port only after brackets.
        Some((address, _)) if address.contains(':') && !address.ends_with(']') => socket,
        Some((address, port)) if port.parse::<u16>().is_ok_and(|port| port >= 32_768) => address,
        _ => socket,
    }
}

/// What a flow between programs is called in every run: "tcp 10.0.0.1>10.0.0.2:80".
fn lasting_name(name: &str) -> String {
    match name.split_once('>') {
        Some((from, to)) => format!("{}>{}", without_ephemeral_port(from), without_ephemeral_port(to)),
        None => name.to_owned(),
    }
}

/// Flows between programs, in groups by what they are called in every run.
fn program_groups(summary: &Summary) -> Vec<GroupSummary> {
    let measured_s = summary.info.simulated_s - summary.info.warmup_s;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut members: Vec<(String, Vec<&FlowRow>)> = Vec::new();
    for flow in summary.flows.iter().filter(|flow| flow.app == PROGRAM) {
        let name = lasting_name(&flow.name);
        let place = *places.entry(name.clone()).or_insert_with(|| {
            members.push((name, Vec::new()));
            members.len() - 1
        });
        members[place].1.push(flow);
    }
    let group = |(name, flows): (String, Vec<&FlowRow>)| GroupSummary {
        group: name,
        ..GroupSummary::new(&flows, measured_s)
    };
    members.into_iter().map(group).collect()
}

/// What has measures, each with its figures: the total, groups, flows where `flows` asks for them, links, each in the summary's order.
///
/// Nothing is there twice: the only flow of a group is its group, with the figures of both. Flows between programs have ports that the
/// kernel chose; they are groups by what is the same in every run.
pub fn subjects(summary: &Summary, flows: bool) -> Vec<(Subject, Vec<Figure>)> {
    use Unit::{BitPerSecond, Count, Index, Millisecond, Second, Share};
    let mut all: Vec<(Subject, Vec<Figure>)> = Vec::new();
    let mut add = |subject: Subject, list: &[Figure]| all.push((subject, list.to_vec()));
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
    let members = members(summary);
    let only = |group: &GroupSummary| members.get(group.group.as_str()).copied().flatten();
    let own = summary.groups.iter().filter(|group| group.app != PROGRAM).map(|group| (group, only(group)));
    let between_programs = program_groups(summary);
    for (group, only) in own.chain(between_programs.iter().map(|group| (group, None))) {
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
                // What only flows have, where this is one.
                ("ce_marks", Count, only.map(|flow| flow.ce_marks as f64)),
            ],
        );
    }
    let alone = |flow: &FlowRow| members.get(flow.group.as_str()).is_some_and(Option::is_some);
    for flow in summary.flows.iter().filter(|flow| flows && flow.app != PROGRAM && !alone(flow)) {
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

/// The groups, each with its only flow; none where it has several.
fn members(summary: &Summary) -> BTreeMap<&str, Option<&FlowRow>> {
    let mut members: BTreeMap<&str, Option<&FlowRow>> = BTreeMap::new();
    for flow in &summary.flows {
        members.entry(&flow.group).and_modify(|only| *only = None).or_insert(Some(flow));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn names(summary: &Summary) -> Vec<String> {
        subjects(summary, true).iter().map(|(subject, _)| subject.to_string()).collect()
    }

    #[test]
    fn the_only_flow_of_a_group_is_there_once_with_the_figures_of_both() {
        let one = example::summary(1, 1);
        let group = &one.flows[0].group;
        assert!(names(&one).contains(&format!("Group {group}")));
        assert!(!names(&one).iter().any(|name| name.starts_with("Flow ")), "{:?}", names(&one));
        let figures = measures(&one);
        let marks = figures.iter().find(|measure| measure.metric == "ce_marks").map(|measure| measure.value);
        assert_eq!(marks, Some(Some(one.flows[0].ce_marks as f64)));
        let several = example::summary(3, 1);
        assert_eq!(names(&several).iter().filter(|name| name.starts_with("Flow ")).count(), 3);
        assert!(!subjects(&several, false).iter().any(|(subject, _)| matches!(subject, Subject::Flow(_))));
    }

    #[test]
    fn flows_between_programs_have_the_same_names_in_every_run() {
        let run = |port: u16| {
            let mut summary = example::summary(2, 1);
            for (index, flow) in summary.flows.iter_mut().enumerate() {
                flow.app = PROGRAM.to_owned();
                flow.group = "(programs)".to_owned();
                flow.name = format!("tcp 10.0.0.1:{}>[fd00::2]:{}", port + index as u16, 8080);
            }
            Summary::new(summary.info, summary.flows, summary.links)
        };
        assert_eq!(names(&run(40_000)), names(&run(50_123)));
        assert!(names(&run(40_000)).contains(&"Group tcp 10.0.0.1>[fd00::2]:8080".to_owned()));
        assert!(!names(&run(40_000)).iter().any(|name| name.starts_with("Flow ")));
        assert!(!names(&run(40_000)).contains(&"Group (programs)".to_owned()), "the same flows again");
        assert_eq!(lasting_name("icmp6 fd00::1>fd00::50000"), "icmp6 fd00::1>fd00::50000");
        assert_eq!(lasting_name("icmp 10.0.0.1>10.0.0.2"), "icmp 10.0.0.1>10.0.0.2");
        assert_eq!(lasting_name("others"), "others");
    }
}
