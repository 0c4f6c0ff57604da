//! What is measured in a run, subject by subject: what comparisons and replications work on. Which columns these are, their declarations say
//! (`compared`).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::column::{Row, columns};
use crate::declaration::ColumnInfo;
use crate::rows::FlowRow;
use crate::summary::{GroupSummary, PROGRAM, Summary, folded_columns};

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

/// A quantity of a subject: the column that it is, and its value where it has one.
pub type Figure = (&'static ColumnInfo, Option<f64>);

/// The columns of a table that are compared, with their values in a row.
fn figures<R: Row>(row: &R) -> Vec<Figure> {
    columns::<R>()
        .filter(|column| column.info.compared)
        .map(|column| (&column.info, (column.value)(row).number()))
        .collect()
}

/// The same of a group, with what its flows' columns fold into.
fn group_figures(group: &GroupSummary) -> Vec<Figure> {
    let mut all = figures(group);
    all.extend(folded_columns().filter(|(column, _)| column.info.compared).map(|(column, _)| {
        (&column.info, group.more.get(column.info.name).and_then(serde_json::Value::as_f64))
    }));
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

/// What is measured, each with its figures: the total, groups, flows where `flows` asks for them, links, each in the summary's order.
///
/// Nothing is there twice: the only flow of a group is its group. Flows between programs have ports that the kernel chose; they are groups
/// by what is the same in every run.
pub fn subjects(summary: &Summary, flows: bool) -> Vec<(Subject, Vec<Figure>)> {
    let mut all = vec![(Subject::Total, figures(&summary.totals))];
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for flow in &summary.flows {
        *sizes.entry(&flow.group).or_default() += 1;
    }
    let between_programs = program_groups(summary);
    let groups = summary.groups.iter().filter(|group| group.app != PROGRAM).chain(&between_programs);
    all.extend(groups.map(|group| (Subject::Group(group.group.clone()), group_figures(group))));
    let alone = |flow: &FlowRow| sizes.get(flow.group.as_str()) == Some(&1);
    let flows = summary.flows.iter().filter(|flow| flows && flow.app != PROGRAM && !alone(flow));
    all.extend(flows.map(|flow| (Subject::Flow(flow.name.clone()), figures(flow))));
    all.extend(summary.links.iter().map(|link| (Subject::Link(link.name.clone()), figures(link))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn names(summary: &Summary) -> Vec<String> {
        subjects(summary, true).iter().map(|(subject, _)| subject.to_string()).collect()
    }

    #[test]
    fn the_only_flow_of_a_group_is_there_once() {
        let one = example::summary(1, 1);
        let group = &one.flows[0].group;
        assert!(names(&one).contains(&format!("Group {group}")));
        assert!(!names(&one).iter().any(|name| name.starts_with("Flow ")), "{:?}", names(&one));
        let marks = |summary: &Summary, subject: &str| {
            let all = subjects(summary, true);
            let (_, figures) = all.into_iter().find(|(name, _)| name.to_string() == subject).unwrap();
            figures.into_iter().find(|(column, _)| column.name == "ce_marks").unwrap().1
        };
        assert_eq!(marks(&one, &format!("Group {group}")), Some(one.flows[0].ce_marks as f64));
        let several = example::summary(3, 1);
        let sum: u64 =
            several.flows.iter().filter(|flow| flow.group == *group).map(|flow| flow.ce_marks).sum();
        assert_eq!(
            marks(&several, &format!("Group {group}")),
            Some(sum as f64),
            "columns that say how are folded"
        );
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
