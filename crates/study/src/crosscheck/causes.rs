//! What a difference between two ways comes from: found by evidence, which the explanation states.
//!
//! The causes are asked in the order of [`DETECTORS`]: what is wrong with a run first (its path, a processor that was short, packets that were late),
//! then what is left when both runs were right: another kernel, or the model. A further cause is one function and a line in that list.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use warpline_results::live::AuditSummary;
use warpline_results::{GuestCpu, Unit};

use super::base::LinkFact;
use super::judge::Verdict;
use super::load::Load;

/// What a difference comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The path is not that of the scenario: another delay or another rate.
    Path,
    /// The processors of the machine were short: of other work beside the run, or of the run itself.
    Cpu,
    /// The clock: packets left late, or were lost outside of the network.
    Clock,
    /// The kernel's version.
    Kernel,
    /// The model.
    Model,
}

impl Cause {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Path => "the path",
            Cause::Cpu => "the CPU",
            Cause::Clock => "the clock",
            Cause::Kernel => "the kernel's version",
            Cause::Model => "the model",
        }
    }
}

/// Why two ways differ.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// What it comes from.
    pub cause: Cause,
    /// What shows that, a sentence each.
    pub evidence: Vec<String>,
    /// Experiments that say more: the same two ways with something changed in both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub experiments: Vec<Experiment>,
}

impl Explanation {
    pub(super) fn new(cause: Cause, evidence: Vec<String>) -> Explanation {
        Explanation { cause, evidence, experiments: Vec::new() }
    }

    /// What the experiments found: the first after which the ways agree.
    pub fn narrowed(&self) -> Option<&Experiment> {
        self.experiments.iter().find(|experiment| experiment.verdict == Verdict::Agrees)
    }
}

/// Two ways again, with something changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Experiment {
    /// What was changed, as words: "with Reno for every flow".
    pub what: String,
    /// The worst verdict then on the measures that differed before.
    pub verdict: Verdict,
    /// The largest difference then, of the measures that differed before, in percent.
    pub worst_percent: f64,
    /// What the difference comes from, if they agree: "the congestion control".
    pub from: String,
}

/// What is known of the runs of a way.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    /// Name of the way.
    pub(super) way: String,
    /// Changes of the scenario in this way only, as `--set` takes them.
    pub(super) changes: Vec<String>,
    /// Whether its time is the simulation's.
    pub(super) is_virtual: bool,
    /// Whether a second run with the same seed was the same; none if there was none.
    pub(super) repeats: Option<bool>,
    /// The kernels whose TCP carries the flows, in the order of their versions, those of guests with digits of their files' hash; none if only models do.
    pub(super) kernels: Vec<String>,
    /// The links whose delay or rate is not the scenario's: the name, the link there, and the scenario's.
    pub(super) links: Vec<(String, LinkFact, LinkFact)>,
    /// The shortest round trip that was measured in each group of flows, in milliseconds.
    pub(super) round_trips: BTreeMap<String, f64>,
    /// The worst audit of its runs, if its time follows the machine's.
    pub(super) audit: Option<AuditSummary>,
    /// The run during which the machine was busiest.
    pub(super) load: Option<Load>,
    /// The machine of guests that was held back most by the limit of its share of a core; none if no machine has a limit.
    pub(super) held_back: Option<GuestCpu>,
}

/// What two ways have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Common {
    /// The shortest round trip of each group of flows that the scenario's links allow, in milliseconds.
    pub(super) round_trips: BTreeMap<String, f64>,
    /// Twice the longest delay of a link, in milliseconds.
    pub(super) longest_link_ms: f64,
    /// The bound of their differences, in percent.
    pub(super) bound_percent: f64,
}

impl Common {
    /// The shortest round trip of all; without flows, that of the longest link alone.
    pub(super) fn shortest_ms(&self) -> f64 {
        self.round_trips.values().copied().reduce(f64::min).unwrap_or(self.longest_link_ms)
    }
}

/// Finds a cause in the evidence on a way and on the one that it is compared with.
type Detector = fn(&Evidence, &Evidence, &Common) -> Option<Explanation>;

/// All causes.
const DETECTORS: &[Detector] = &[path, cpu, clock, kernel, model];

/// What a difference between two ways comes from; none if no evidence says.
pub(super) fn explain(own: &Evidence, reference: &Evidence, common: &Common) -> Option<Explanation> {
    DETECTORS.iter().find_map(|detector| detector(own, reference, common))
}

/// A link that is not the scenario's, and what the flows measured of it; or a round trip that is shorter than the scenario's links allow.
fn path(own: &Evidence, reference: &Evidence, common: &Common) -> Option<Explanation> {
    let mut declared = Vec::new();
    for side in [own, reference] {
        for (name, there, given) in &side.links {
            if there.delay_s != given.delay_s {
                let (there, given) = (there.delay_s * 1e3, given.delay_s * 1e3);
                declared.push(format!(
                    "in {} the link {name} has a delay of {there:.3} ms, and the scenario says {given:.3} ms",
                    side.way
                ));
            }
            if let (Some(there), Some(given)) = (there.rate_bps, given.rate_bps)
                && there != given
            {
                let (there, given) = (Unit::BitPerSecond.show(there), Unit::BitPerSecond.show(given));
                declared.push(format!(
                    "in {} the link {name} has {there}, and the scenario says {given}",
                    side.way
                ));
            }
        }
    }
    let mut measured = Vec::new();
    let mut too_short = false;
    for (group, &least) in &common.round_trips {
        let (Some(&ours), Some(&theirs)) = (own.round_trips.get(group), reference.round_trips.get(group))
        else {
            continue;
        };
        // Too long proves nothing by itself: the queue may never have been empty. Too short proves it, except on the machine's clock, where a
        // kernel that waits for a processor reads its own clock late.
        let short = |side: &Evidence, rtt: f64| side.is_virtual && rtt < least - ROUNDING_MS;
        let is_short = short(own, ours) || short(reference, theirs);
        too_short |= is_short;
        if is_short || (ours - theirs).abs() > least * common.bound_percent / 100.0 {
            measured.push(format!(
                "the shortest round trip of `{group}` was {ours:.2} ms in {} and {theirs:.2} ms in {}; the scenario's links take {least:.2} ms",
                own.way, reference.way
            ));
        }
    }
    let found = !declared.is_empty() || too_short;
    found.then(|| Explanation::new(Cause::Path, [declared, measured].concat()))
}

/// What clocks and rounding may take from a round trip.
const ROUNDING_MS: f64 = 0.5;

/// A machine that was short of processors while it ruled the time of a run.
fn cpu(own: &Evidence, reference: &Evidence, common: &Common) -> Option<Explanation> {
    /// Cores of others that count.
    const OTHERS: f64 = 0.25;
    let paced = [own, reference].into_iter().filter(|side| !side.is_virtual);
    let mut evidence = Vec::new();
    for side in paced {
        let Some(load) = side.load else { continue };
        let name = &side.way;
        let waited = load.waited.map_or_else(String::new, |share| {
            format!("; tasks waited for a processor for {:.0} % of the time", 100.0 * share)
        });
        if let Some(cpu) = side.held_back.as_ref().filter(|cpu| cpu.was_short()) {
            evidence.push(format!(
                "in {name} a machine of guests may take {} of a core (`cpu_share`), and was held back in {:.0} % of the periods",
                cpu.share,
                100.0 * cpu.throttled
            ));
        } else if load.is_short() && load.others() >= OTHERS {
            evidence.push(format!(
                "during a run of {name} other work took {:.2} of the machine's {} cores, and the run {:.2}{waited}",
                load.others(),
                load.cores,
                load.own
            ));
        } else if load.is_short() {
            evidence.push(format!(
                "a run of {name} took {:.2} of the machine's {} cores{waited}",
                load.own, load.cores
            ));
        } else {
            continue;
        }
        evidence.extend(lateness(side, common));
    }
    (!evidence.is_empty()).then_some(Explanation::new(Cause::Cpu, evidence))
}

/// Packets that were late, or lost outside of the network, although the processors were not short.
fn clock(own: &Evidence, reference: &Evidence, common: &Common) -> Option<Explanation> {
    let evidence: Vec<String> =
        [own, reference].into_iter().filter_map(|side| lateness(side, common)).collect();
    (!evidence.is_empty()).then_some(Explanation::new(Cause::Clock, evidence))
}

/// How late a way's packets were, if that can make a difference: the emulator did not keep pace, or one packet in a hundred is late by more than
/// the bound allows of the shortest round trip.
fn lateness(side: &Evidence, common: &Common) -> Option<String> {
    let audit = side.audit.as_ref()?;
    let late = &audit.lateness;
    let allowed_us = common.shortest_ms() * 1e3 * common.bound_percent / 100.0;
    if audit.kept_pace() && late.p99_us <= allowed_us {
        return None;
    }
    Some(format!(
        "in {} {} of {} packets left more than {:.0} µs late (99th percentile {:.0} µs, largest {:.0} µs), and {} were lost outside of the network",
        side.way,
        late.late_packets,
        late.packets,
        late.threshold_us,
        late.p99_us,
        late.max_us,
        audit.lost_outside
    ))
}

/// Whether nothing disturbed the runs of a way.
fn is_clean(side: &Evidence) -> bool {
    if side.is_virtual { side.repeats != Some(false) } else { side.audit.is_some() }
}

/// Two kernels, in runs that nothing disturbed.
fn kernel(own: &Evidence, reference: &Evidence, _: &Common) -> Option<Explanation> {
    let differ = !own.kernels.is_empty() && !reference.kernels.is_empty() && own.kernels != reference.kernels;
    if !differ || !is_clean(own) || !is_clean(reference) {
        return None;
    }
    let versions = |side: &Evidence| side.kernels.join(", ");
    let mut evidence = vec![format!(
        "{} has Linux {}, and {} has {}",
        own.way,
        versions(own),
        reference.way,
        versions(reference)
    )];
    evidence.extend([own, reference].into_iter().filter_map(changed));
    evidence.extend([own, reference].into_iter().filter_map(undisturbed));
    Some(Explanation::new(Cause::Kernel, evidence))
}

/// The model on one side and Linux on the other, in runs that nothing disturbed.
fn model(own: &Evidence, reference: &Evidence, _: &Common) -> Option<Explanation> {
    let (model, linux) = match (own.kernels.is_empty(), reference.kernels.is_empty()) {
        (true, false) => (own, reference),
        (false, true) => (reference, own),
        _ => return None,
    };
    if !is_clean(model) || !is_clean(linux) {
        return None;
    }
    // A change of one way may be one of queues or losses, of which nothing is compared here.
    let links = match model.changes.is_empty() && linux.changes.is_empty() {
        true => "the links are the same",
        false => "the links have the same delays and rates",
    };
    let mut evidence =
        vec![format!("{links}, and {} has the model where {} has Linux", model.way, linux.way)];
    evidence.extend([model, linux].into_iter().filter_map(changed));
    evidence.extend([model, linux].into_iter().filter_map(undisturbed));
    Some(Explanation::new(Cause::Model, evidence))
}

/// Says what was changed in one of the two ways only.
fn changed(side: &Evidence) -> Option<String> {
    (!side.changes.is_empty())
        .then(|| format!("{} was run with changes of its own: {}", side.way, side.changes.join(", ")))
}

/// Says that nothing disturbed the runs of a way.
fn undisturbed(side: &Evidence) -> Option<String> {
    match (side.is_virtual, side.repeats, &side.audit) {
        (true, Some(true), _) => Some(format!(
            "{} repeats: a second run with the same seed was the same to the last digit",
            side.way
        )),
        (false, _, Some(audit)) => Some(format!(
            "{} kept pace: 99 % of its packets were less than {:.0} µs late, and none was lost outside of the network",
            side.way, audit.lateness.p99_us
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use warpline_results::live::LatenessSummary;

    use super::*;

    fn common() -> Common {
        let round_trips = BTreeMap::from([("bulk".to_owned(), 50.0)]);
        Common { round_trips, longest_link_ms: 60.0, bound_percent: 5.0 }
    }

    fn side(way: &str, kernels: &[&str], rtt: f64) -> Evidence {
        Evidence {
            way: way.to_owned(),
            is_virtual: true,
            repeats: Some(true),
            kernels: kernels.iter().map(|version| (*version).to_owned()).collect(),
            round_trips: BTreeMap::from([("bulk".to_owned(), rtt)]),
            ..Evidence::default()
        }
    }

    /// A way on the machine's clock, whose packets are late by so much in 99 % of the cases.
    fn paced(p99_us: f64, others: f64) -> Evidence {
        let lateness =
            LatenessSummary { packets: 1000, p99_us, threshold_us: 200.0, ..LatenessSummary::default() };
        let load = Load { cores: 2.0, busy: 0.5 + others, own: 0.5, waited: Some(others / 2.0) };
        Evidence {
            is_virtual: false,
            repeats: None,
            audit: Some(AuditSummary { lateness, ..AuditSummary::default() }),
            load: Some(load),
            ..side("real", &["6.1"], 51.0)
        }
    }

    fn cause(own: &Evidence, reference: &Evidence) -> Option<Cause> {
        explain(own, reference, &common()).map(|explanation| explanation.cause)
    }

    #[test]
    fn the_model_is_the_cause_if_nothing_else_differs() {
        let (model, linux) = (side("model", &[], 51.0), side("linux", &["6.1"], 51.2));
        assert_eq!(cause(&model, &linux), Some(Cause::Model));
        // Not if Linux's run cannot be repeated, nor between two models.
        assert_eq!(cause(&model, &Evidence { repeats: Some(false), ..linux.clone() }), None);
        assert_eq!(cause(&model, &model), None);
        assert_eq!(cause(&linux, &linux), None);
    }

    #[test]
    fn the_evidence_names_what_was_changed_in_one_way_only() {
        let (model, linux) = (side("model", &[], 51.0), side("linux", &["6.1"], 51.2));
        let lossy = |side: Evidence| Evidence { changes: vec!["link.0.loss=1%".to_owned()], ..side };
        let told = |own: &Evidence| explain(own, &linux, &common()).unwrap().evidence.join("; ");
        let plain = told(&model);
        assert!(plain.contains("the links are the same") && !plain.contains("changes"), "{plain}");
        let planted = told(&lossy(model));
        assert!(planted.contains("model was run with changes of its own: link.0.loss=1%"), "{planted}");
        assert!(!planted.contains("the links are the same"), "{planted}");
        let newer = told(&lossy(side("linux@6.12", &["6.12"], 51.0)));
        assert!(newer.contains("linux@6.12 was run with changes of its own: link.0.loss=1%"), "{newer}");
    }

    #[test]
    fn another_kernel_is_the_cause_in_clean_runs_only() {
        let (old, new) = (side("linux", &["6.1"], 51.0), side("linux@6.12", &["6.12"], 51.0));
        assert_eq!(cause(&new, &old), Some(Cause::Kernel));
        let live = Evidence { kernels: vec!["6.18".to_owned()], ..paced(80.0, 0.0) };
        assert_eq!(cause(&live, &old), Some(Cause::Kernel));
        let late = Evidence { kernels: vec!["6.18".to_owned()], ..paced(9000.0, 0.0) };
        assert_eq!(cause(&late, &old), Some(Cause::Clock));
    }

    #[test]
    fn a_busy_machine_is_the_cause_before_lateness_which_it_makes() {
        let linux = side("linux", &["6.1"], 51.0);
        assert_eq!(cause(&paced(9000.0, 1.5), &linux), Some(Cause::Cpu));
        assert_eq!(cause(&paced(9000.0, 0.0), &linux), Some(Cause::Clock));
        assert_eq!(cause(&paced(80.0, 0.0), &linux), None);
        let busy = explain(&paced(9000.0, 1.5), &linux, &common()).unwrap();
        assert!(busy.evidence[0].contains("other work took 1.50 of the machine's 2 cores"), "{busy:?}");
        assert!(busy.evidence[1].contains("99th percentile 9000"), "{busy:?}");
        // What a busy machine does to a run in lock-step does not show in its results.
        let load = paced(0.0, 1.5).load;
        assert_eq!(cause(&side("model", &[], 51.0), &Evidence { load, ..linux.clone() }), Some(Cause::Model));
    }

    #[test]
    fn a_limit_is_the_cause_if_it_held_guests_back() {
        let linux = side("linux", &["6.1"], 51.0);
        // The run took half a core, most of it for the emulator.
        let limited = |throttled| {
            let cpu = GuestCpu { share: 0.25, throttled, ..GuestCpu::default() };
            Evidence { held_back: Some(cpu), ..paced(80.0, 0.0) }
        };
        let found = explain(&limited(0.62), &linux, &common()).unwrap();
        assert_eq!(found.cause, Cause::Cpu);
        assert!(found.evidence[0].contains("may take 0.25 of a core"), "{found:?}");
        assert!(found.evidence[0].contains("held back in 62 % of the periods"), "{found:?}");
        assert_eq!(cause(&limited(0.02), &linux), None);
        let model = side("model", &[], 51.0);
        assert_eq!(cause(&model, &limited(0.02)), Some(Cause::Model));
    }

    #[test]
    fn without_flows_packets_are_late_beside_the_longest_link() {
        let programs = Common { round_trips: BTreeMap::new(), ..common() };
        assert_eq!((common().shortest_ms(), programs.shortest_ms()), (50.0, 60.0));
        // 5 % of 60 ms.
        assert!(lateness(&paced(2900.0, 0.0), &programs).is_none());
        assert!(lateness(&paced(3100.0, 0.0), &programs).is_some());
    }

    #[test]
    fn packets_lost_outside_of_the_network_are_the_clock_s() {
        let mut real = paced(80.0, 0.0);
        if let Some(audit) = &mut real.audit {
            audit.lost_outside = 3;
        }
        assert_eq!(cause(&real, &side("linux", &["6.1"], 51.0)), Some(Cause::Clock));
    }

    #[test]
    fn a_wrong_delay_is_the_path_s_and_a_standing_queue_is_not() {
        let linux = side("linux", &["6.1"], 51.0);
        let fact = |delay_s| LinkFact { delay_s, rate_bps: Some(2e7) };
        let wrong = Evidence {
            links: vec![("r1>r2".to_owned(), fact(0.033), fact(0.023))],
            ..side("model", &[], 71.0)
        };
        let found = explain(&wrong, &linux, &common()).unwrap();
        assert_eq!(found.cause, Cause::Path);
        assert!(
            found.evidence[0].contains("33.000 ms") && found.evidence[1].contains("71.00 ms in model"),
            "{found:?}"
        );
        // A path that no link admits: its RTT shows it if it is too short. If it is too long, a queue may never have been empty.
        assert_eq!(cause(&side("model", &[], 40.0), &linux), Some(Cause::Path));
        assert_eq!(cause(&side("model", &[], 71.0), &linux), Some(Cause::Model));
        // On a busy machine a guest's clock is read late.
        let hasty =
            Evidence { round_trips: BTreeMap::from([("bulk".to_owned(), 40.0)]), ..paced(9000.0, 1.5) };
        assert_eq!(cause(&hasty, &linux), Some(Cause::Cpu));
        let slow = Evidence {
            links: vec![("r1>r2".to_owned(), LinkFact { rate_bps: Some(1e7), ..fact(0.02) }, fact(0.02))],
            ..linux.clone()
        };
        assert_eq!(cause(&side("model", &[], 51.0), &slow), Some(Cause::Path));
    }
}
