//! What is compared: quantities of groups of flows, of links and of programs, out of a run's summary.

use std::collections::BTreeMap;

use warpline_report::{Band, Quantity as Drawn, Samples};
use warpline_results::metrics::mean;
use warpline_results::summary::PROGRAM;
use warpline_results::{GroupSummary, LinkRow, ProgramRow, Summary, Tables, Unit};
use warpline_scenario::Expect;

use crate::scale::{LEAST_QUEUE, LEAST_RETRANSMITTED};

/// A quantity, by its name and unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
}

impl Quantity {
    /// The least that differences are measured by, where the shortest round trip takes so many milliseconds; zero if there is no least value.
    pub(super) fn floor(self, rtt_ms: f64) -> f64 {
        match self.name {
            QUEUE_DELAY => LEAST_QUEUE * rtt_ms,
            RETRANSMITTED => LEAST_RETRANSMITTED,
            _ => 0.0,
        }
    }
}

const RETRANSMITTED: &str = "retransmitted";
const QUEUE_DELAY: &str = "queue delay";

/// Quantities of a group of flows.
type OfGroup = (Quantity, fn(&GroupSummary) -> Option<f64>);
/// Quantities of a direction of a link.
type OfLink = (Quantity, fn(&LinkRow) -> Option<f64>);

const fn quantity(name: &'static str, unit: Unit) -> Quantity {
    Quantity { name, unit }
}

const OF_GROUPS: &[OfGroup] = &[
    (quantity("goodput", Unit::BitPerSecond), |group| Some(group.goodput_bps)),
    (quantity("95th percentile of the latency", Unit::Millisecond), |group| group.latency_p95_max_ms),
    (quantity(RETRANSMITTED, Unit::Share), |group| {
        (group.sent_packets > 0).then_some(group.retransmit_ratio)
    }),
    (quantity("completion", Unit::Second), |group| group.completion_mean_s),
];

const UTILISATION: Quantity = quantity("utilisation", Unit::Share);

const OF_LINKS: &[OfLink] = &[
    (UTILISATION, |link| link.utilisation),
    (quantity(QUEUE_DELAY, Unit::Millisecond), |link| Some(link.queue_delay_mean_ms)),
];

const ENDED: Quantity = quantity("ended", Unit::Second);

/// A link of which less is used says little: acknowledgements, or nothing.
const LEAST_USED: f64 = 0.1;
/// What the names of subjects that are links begin with.
const LINK: &str = "link ";

/// The smoothed round-trip time of each group of flows, averaged over the time after the warm-up, in milliseconds. The kernel's samples in the
/// tables are taken at fixed times; so are the model's, whose mean in the summary counts each acknowledgement and says more of full queues.
pub(super) type Smoothed = BTreeMap<String, f64>;

const RTT: Quantity = quantity("RTT", Unit::Millisecond);

/// These round-trip times.
pub(super) fn smoothed(summary: &Summary, tables: &Tables) -> Smoothed {
    let Some(srtt) = Drawn::named("rtt") else { return Smoothed::new() };
    let one = |group: &GroupSummary| {
        let band = Band::of([Samples::of(summary, tables, srtt, Some(&group.group))]);
        let after = band.time_s.iter().zip(&band.mean).filter(|(time, _)| **time > summary.info.warmup_s);
        Some((group.group.clone(), mean(after.map(|(_, rtt)| *rtt))?))
    };
    summary.groups.iter().filter(|group| group.app != PROGRAM).filter_map(one).collect()
}

/// What was measured: the subject's name ("flow bulk"), the quantity, and its value.
pub(super) type Measured = Vec<(String, Quantity, f64)>;

/// Everything that is measured in a run.
pub(super) fn measured(summary: &Summary, smoothed: &Smoothed) -> Measured {
    let mut all = Measured::new();
    for group in summary.groups.iter().filter(|group| group.app != PROGRAM) {
        let subject = format!("flow {}", group.group);
        all.extend(OF_GROUPS.iter().filter_map(|(of, value)| Some((subject.clone(), *of, value(group)?))));
        all.extend(smoothed.get(&group.group).map(|rtt| (subject.clone(), RTT, *rtt)));
    }
    for link in &summary.links {
        let subject = format!("{LINK}{}", link.name);
        all.extend(OF_LINKS.iter().filter_map(|(of, value)| Some((subject.clone(), *of, value(link)?))));
    }
    let finite = programs(summary).filter(|program| program.expected != Expect::RUNNING);
    all.extend(finite.filter_map(|program| {
        Some((format!("program {}.{}", program.host, program.name), ENDED, program.end_s?))
    }));
    all
}

/// Whether a subject is a link that says little, because these runs hardly use it on average, or because it has no rate to be used.
pub(super) fn is_idle(subject: &str, runs: &[Measured]) -> bool {
    let own = runs.iter().flatten().filter(|(of, what, _)| of == subject && *what == UTILISATION);
    subject.starts_with(LINK) && mean(own.map(|own| own.2)).is_none_or(|used| used < LEAST_USED)
}

/// All programs of a run.
pub(super) fn programs(summary: &Summary) -> impl Iterator<Item = &ProgramRow> {
    let guests = summary.guests.iter().flat_map(|guests| &guests.programs);
    guests.chain(summary.live.iter().flat_map(|live| &live.programs))
}

/// A summary in which the flows of programs that stand for flows of the scenario have their names: those that go to one of these ports. The
/// programs themselves are left out.
pub(super) fn with_groups(summary: Summary, ports: &BTreeMap<u16, String>) -> Summary {
    if ports.is_empty() {
        return summary;
    }
    let Summary { info, mut flows, links, live, guests, .. } = summary;
    for flow in flows.iter_mut().filter(|flow| flow.app == PROGRAM) {
        let port = flow.name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if let Some(group) = port.and_then(|port| ports.get(&port)) {
            (flow.group, flow.app) = (group.clone(), "bulk".to_owned());
        }
    }
    let mut summary = Summary::new(info, flows, links);
    (summary.live, summary.guests) = (live, guests);
    if let Some(live) = &mut summary.live {
        live.programs.retain(|program| !stands(program, ports));
    }
    summary
}

/// Whether a program stands for a flow that goes to one of these ports.
fn stands(program: &ProgramRow, ports: &BTreeMap<u16, String>) -> bool {
    ports.keys().any(|port| {
        program.command.ends_with(&format!("tcp-sink {port}"))
            || program.command.contains(&format!(":{port} "))
    })
}

/// The first of the programs that stand for flows which failed before the run ended, and how.
pub(super) fn failed_flow(summary: &Summary, ports: &BTreeMap<u16, String>) -> Option<String> {
    let live = summary.live.as_ref()?;
    let early = |program: &&ProgramRow| program.end_s.is_some_and(|end| end < summary.info.simulated_s);
    let mut failed = live.programs.iter().filter(early).filter(|program| program.code != Some(0));
    let program = failed.find(|program| stands(program, ports))?;
    Some(format!(
        "{}: the program that stands for a flow failed: {} ({})",
        program.host, program.command, program.outcome
    ))
}

/// The shortest round trip of each group, in milliseconds.
pub(super) fn round_trips(summary: &Summary) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for flow in &summary.flows {
        let Some(rtt) = flow.rtt_min_ms.filter(|rtt| *rtt > 0.0) else { continue };
        all.entry(flow.group.clone()).and_modify(|least| *least = least.min(rtt)).or_insert(rtt);
    }
    all
}

#[cfg(test)]
mod tests {
    use warpline_results::{FlowRow, LiveSummary};

    use super::*;

    fn flow(name: &str, app: &str, delivered: u64) -> FlowRow {
        let group = if app == PROGRAM { "(programs)" } else { "bulk" };
        FlowRow {
            name: name.to_owned(),
            group: group.to_owned(),
            app: app.to_owned(),
            delivered_bytes: delivered,
            goodput_bps: delivered as f64,
            sent_packets: 100,
            ..FlowRow::default()
        }
    }

    #[test]
    fn programs_that_stand_for_flows_are_in_their_group() {
        let mut summary = Summary::default();
        summary.info.simulated_s = 8.0;
        let flows = vec![
            flow("tcp 10.0.0.1:40000>10.0.0.2:5001", PROGRAM, 1000),
            flow("tcp 10.0.0.3:40000>10.0.0.4:5002", PROGRAM, 3000),
            flow("tcp 10.0.0.2:5001>10.0.0.1:40000", PROGRAM, 9),
        ];
        let summary = Summary::new(summary.info, flows, Vec::new());
        let ports = BTreeMap::from([(5001, "bulk".to_owned()), (5002, "bulk".to_owned())]);
        let all = measured(&with_groups(summary.clone(), &ports), &Smoothed::new());
        assert_eq!(all[0], ("flow bulk".to_owned(), OF_GROUPS[0].0, 4000.0));
        assert!(all.iter().all(|(subject, ..)| subject == "flow bulk"), "{all:?}");
        assert_eq!(measured(&summary, &Smoothed::new()), []);
    }

    #[test]
    fn a_program_that_cannot_stand_for_its_flow_is_found() {
        let failed = |command: &str, end_s, code| {
            let program = ProgramRow {
                host: "a".to_owned(),
                command: command.to_owned(),
                end_s,
                code,
                outcome: "exit code 1".to_owned(),
                ..ProgramRow::default()
            };
            let live = LiveSummary { programs: vec![program], ..LiveSummary::default() };
            let mut summary = Summary { live: Some(live), ..Summary::default() };
            summary.info.simulated_s = 8.0;
            failed_flow(&summary, &BTreeMap::from([(5001, "bulk".to_owned())]))
        };
        let source = "warpline load tcp {b}:5001 8 0 cubic";
        assert_eq!(
            failed(source, Some(1.5), Some(1)).unwrap(),
            "a: the program that stands for a flow failed: warpline load tcp {b}:5001 8 0 cubic (exit code 1)"
        );
        // By a signal.
        assert!(failed("warpline load tcp-sink 5001", Some(1.5), None).is_some());
        assert_eq!(failed(source, Some(7.9), Some(0)), None);
        assert_eq!(failed(source, Some(8.0), Some(1)), None, "when all were stopped");
        assert_eq!(failed(source, None, None), None, "it is still running");
        assert_eq!(failed("curl http://{b}:5002/ ", Some(1.5), Some(1)), None, "the scenario's own");
    }

    #[test]
    fn links_are_idle_by_their_mean_over_the_runs() {
        let run = |forward: f64, back: f64| {
            let link = |name: &str, utilisation| LinkRow {
                name: name.to_owned(),
                utilisation,
                ..LinkRow::default()
            };
            let links = vec![link("a>b", Some(forward)), link("b>a", Some(back)), link("b>c", None)];
            measured(&Summary { links, ..Summary::default() }, &Smoothed::new())
        };
        // All are measured; those without a rate have no utilisation.
        let subjects: Vec<String> = run(0.97, 0.03).into_iter().map(|(subject, ..)| subject).collect();
        assert_eq!(subjects, ["link a>b", "link a>b", "link b>a", "link b>a", "link b>c"]);
        let runs = [run(0.15, 0.03), run(0.06, 0.03)];
        let idle = ["link a>b", "link b>a", "link b>c", "flow bulk"].map(|subject| is_idle(subject, &runs));
        assert_eq!(idle, [false, true, true, false]);
    }
}
