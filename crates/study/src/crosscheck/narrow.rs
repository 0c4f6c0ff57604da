//! Experiments that narrow down what two ways differ in: both again, with something changed in both. If they then agree, it comes from what was
//! changed.
//!
//! A further experiment is a function and a line in [`EXPERIMENTS`].

use serde_json::Value;
use warpline_scenario::{Scenario, Transport};

use super::bench::Job;
use super::causes::{Cause, Experiment, Explanation};
use super::certificate::Pair;
use super::judge::{Verdict, compare};
use super::measures::Measured;
use super::ways::WAYS;
use super::{Choice, CrosscheckError, Done, Workshop, own_sets};

/// What is changed in an experiment.
struct Change {
    /// In words: "with Reno for every flow".
    what: String,
    /// What it then comes from: "the congestion control".
    from: String,
    /// The changes in both ways, after those that the ways have.
    both: Vec<String>,
    /// A way, and a change of it that is left out there.
    without: Option<(String, String)>,
}

impl Change {
    /// The changes of a way in this experiment, from those that it has by itself.
    fn in_way(&self, way: &str, own: Vec<String>) -> Vec<String> {
        let stays = |set: &String| {
            self.without.as_ref().is_none_or(|(changed, without)| changed != way || without != set)
        };
        own.into_iter().filter(stays).chain(self.both.iter().cloned()).collect()
    }
}

/// Finds what can be changed in a scenario.
type Finder = fn(&Workshop<'_>, &Done<'_>, &Done<'_>) -> Vec<Change>;

/// The experiments, where the model differs from Linux.
const EXPERIMENTS: &[Finder] = &[own_changes, congestion_control, queues, losses];

/// The experiments, where two kernels differ.
const OF_KERNELS: &[Finder] = &[own_changes];

/// How many times slower time passes, to see what the machine's speed does; and the largest number of seeds for that, as it takes long.
const SLOWER: f64 = 2.0;
const SEEDS: usize = 2;

/// Makes the experiments that may say more about a pair that differs.
pub(super) fn narrow(
    workshop: &Workshop<'_>,
    own: &Done<'_>,
    reference: &Done<'_>,
    pair: &mut Pair,
) -> Result<(), CrosscheckError> {
    match &mut pair.explanation {
        Some(explanation) => {
            let finders: &[Finder] = match explanation.cause {
                Cause::Model => EXPERIMENTS,
                Cause::Kernel => OF_KERNELS,
                Cause::Path | Cause::Cpu | Cause::Clock => &[],
            };
            let found: Vec<Change> = finders.iter().flat_map(|find| find(workshop, own, reference)).collect();
            let mut experiments = Vec::new();
            for (number, change) in found.into_iter().enumerate() {
                let sides = [own, reference].map(|side| {
                    let way = &side.evidence.way;
                    let sets = change.in_way(way, own_sets(workshop.plan, way));
                    workshop.jobs(
                        side.choice,
                        &format!(" experiment {}", number + 1),
                        &sets,
                        workshop.plan.tdf,
                    )
                });
                // What does not go with the scenario says nothing.
                let [Ok(ours), Ok(theirs)] = sides else { continue };
                let Some((verdict, worst_percent)) =
                    again(workshop, pair_of(&pair.compared), pair.bound_percent, ours, theirs)?
                else {
                    continue;
                };
                let Change { what, from, .. } = change;
                experiments.push(Experiment { what, verdict, worst_percent, from });
            }
            explanation.experiments = experiments;
        }
        None if own.evidence.is_virtual != reference.evidence.is_virtual => {
            pair.explanation = slower(workshop, own, reference, pair)?;
        }
        _ => {}
    }
    Ok(())
}

/// The measures that differ: subject and quantity.
type Wanted = Vec<(String, &'static str)>;

fn pair_of(compared: &[super::Compared]) -> Wanted {
    let differ = compared.iter().filter(|compared| compared.verdict == Verdict::Differs);
    differ.map(|compared| (compared.subject.clone(), compared.quantity)).collect()
}

/// Makes the runs of both ways. Returns the worst verdict now on what differed, and the largest difference of it; none if a run failed or not all of it
/// was measured.
fn again(
    workshop: &Workshop<'_>,
    wanted: Wanted,
    bound_percent: f64,
    ours: Vec<Job>,
    theirs: Vec<Job>,
) -> Result<Option<(Verdict, f64)>, CrosscheckError> {
    let count = ours.len();
    let jobs: Vec<Job> = ours.into_iter().chain(theirs).collect();
    let outcomes = workshop.bench.run(&jobs)?;
    let Ok(all) = outcomes
        .into_iter()
        .map(|outcome| outcome.map(|ran| ran.measured()))
        .collect::<Result<Vec<Measured>, _>>()
    else {
        return Ok(None);
    };
    let (ours, theirs) = all.split_at(count);
    let rtt = workshop.common(bound_percent).shortest_ms();
    Ok(worst_of(&compare(ours, theirs, bound_percent, rtt), &wanted))
}

/// The worst verdict on the measures that are wanted, and the largest difference of them in percent. None if one is missing: what is no longer measured
/// is not known to agree.
fn worst_of(compared: &[super::Compared], wanted: &[(String, &'static str)]) -> Option<(Verdict, f64)> {
    let is_wanted = |compared: &&super::Compared| {
        wanted
            .iter()
            .any(|(subject, quantity)| *subject == compared.subject && *quantity == compared.quantity)
    };
    let found: Vec<&super::Compared> = compared.iter().filter(is_wanted).collect();
    if found.len() < wanted.len() {
        return None;
    }
    let worst = found.iter().map(|compared| compared.difference_percent.abs()).fold(0.0, f64::max);
    found.iter().map(|compared| compared.verdict).max().map(|verdict| (verdict, worst))
}

/// Each change that was asked for in one of the two ways, left out.
fn own_changes(workshop: &Workshop<'_>, own: &Done<'_>, reference: &Done<'_>) -> Vec<Change> {
    let of = |side: &Done<'_>| {
        let way = side.evidence.way.clone();
        own_sets(workshop.plan, &way).into_iter().map(move |set| Change {
            what: format!("without the change `{set}` of {way}"),
            from: format!("the change `{set}` of {way}"),
            both: Vec::new(),
            without: Some((way.clone(), set)),
        })
    };
    of(own).chain(of(reference)).collect()
}

/// Reno for the flows that Linux carries: as simple as it can be.
fn congestion_control(workshop: &Workshop<'_>, own: &Done<'_>, reference: &Done<'_>) -> Vec<Change> {
    const PLAIN: &str = "reno";
    let linux = if own.evidence.kernels.is_empty() { reference } else { own };
    let Scenario { flow, .. } = &linux.made.scenario;
    // Programs have taken the place of flows: they have no such key, and the others have other numbers.
    if flow.len() != workshop.base.scenario.flow.len() {
        return Vec::new();
    }
    let carried = flow.iter().enumerate().filter(|(entry, flow)| {
        let is_model = |node: &str| linux.made.scenario.traffic(node) == warpline_scenario::Traffic::Model;
        let mut own = workshop.base.expanded.flows.iter().filter(|flow| flow.entry == *entry);
        flow.transport() == Transport::Tcp
            && own.all(|flow| !is_model(&workshop.base.expanded.nodes[flow.from]))
    });
    let both: Vec<String> = carried.map(|(entry, _)| format!("flow.{entry}.cc={PLAIN}")).collect();
    let all_plain = |side: &Done<'_>| {
        let cc = |flow: &warpline_scenario::Flow| flow.cc.clone().unwrap_or_default();
        side.made.scenario.flow.iter().all(|flow| cc(flow).name() == PLAIN)
    };
    if both.is_empty() || (all_plain(own) && all_plain(reference)) {
        return Vec::new();
    }
    vec![Change {
        what: "with Reno for the flows that Linux carries".to_owned(),
        from: "the congestion control".to_owned(),
        both,
        without: None,
    }]
}

/// Drop-tail queues of one bandwidth-delay product.
fn queues(workshop: &Workshop<'_>, _: &Done<'_>, _: &Done<'_>) -> Vec<Change> {
    const PLAIN: &str = "{ kind = \"droptail\", limit = \"1BDP\" }";
    let both: Vec<String> =
        keys(&workshop.base.scenario, "queue", "droptail").map(|key| format!("{key}={PLAIN}")).collect();
    change(both, "with drop-tail queues of one bandwidth-delay product", "the queue")
}

/// No random losses and no jitter.
fn losses(workshop: &Workshop<'_>, _: &Done<'_>, _: &Done<'_>) -> Vec<Change> {
    const PLAIN: &str = "none";
    let both = ["loss", "jitter"].into_iter().flat_map(|name| keys(&workshop.base.scenario, name, PLAIN));
    let both: Vec<String> = both.map(|key| format!("{key}={PLAIN:?}")).collect();
    change(both, "without losses and jitter of links", "losses and jitter: what the sender does about them")
}

fn change(both: Vec<String>, what: &str, from: &str) -> Vec<Change> {
    let one = Change { what: what.to_owned(), from: from.to_owned(), both, without: None };
    if one.both.is_empty() { Vec::new() } else { vec![one] }
}

/// The paths of all keys of links with this name whose kind is not `plain`, as `--set` takes them.
fn keys(scenario: &Scenario, name: &str, plain: &str) -> impl Iterator<Item = String> {
    fn walk(value: &Value, path: &str, name: &str, plain: &str, found: &mut Vec<String>) {
        let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
        match value {
            Value::Object(table) => {
                for (key, value) in table {
                    let kind = value.get("kind").unwrap_or(value).as_str();
                    if key != name {
                        walk(value, &below(key), name, plain, found);
                    } else if kind.is_some_and(|kind| kind != plain) {
                        found.push(below(key));
                    }
                }
            }
            Value::Array(entries) => {
                for (number, entry) in entries.iter().enumerate() {
                    walk(entry, &below(&number.to_string()), name, plain, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    let all = serde_json::to_value(scenario).unwrap_or_default();
    for root in ["topology", "link"] {
        walk(&all[root], root, name, plain, &mut found);
    }
    found.into_iter()
}

/// The guests again in slower time: what then goes away comes from the machine's speed.
fn slower(
    workshop: &Workshop<'_>,
    own: &Done<'_>,
    reference: &Done<'_>,
    pair: &Pair,
) -> Result<Option<Explanation>, CrosscheckError> {
    let (paced, simulated) = if own.evidence.is_virtual { (reference, own) } else { (own, reference) };
    let dilated = WAYS.iter().find(|way| way.name() == "dilated");
    let (Some(&way), true) = (dilated, paced.choice.way.has_guests()) else { return Ok(None) };
    let tdf = SLOWER * workshop.plan.tdf;
    let dilated = Choice { way, kernel: None };
    let sets = own_sets(workshop.plan, &paced.evidence.way);
    let ours = workshop.jobs(dilated, " slower", &sets, tdf);
    let theirs = workshop.jobs(simulated.choice, "", &own_sets(workshop.plan, &simulated.evidence.way), tdf);
    let (Ok(mut ours), Ok(theirs)) = (ours, theirs) else { return Ok(None) };
    ours.truncate(SEEDS);
    let wanted = pair_of(&pair.compared);
    let of_wanted = pair.compared.iter().filter(|compared| compared.verdict == Verdict::Differs);
    let before = of_wanted.map(|compared| compared.difference_percent.abs()).fold(0.0, f64::max);
    let Some((verdict, worst_percent)) = again(workshop, wanted, pair.bound_percent, ours, theirs)? else {
        return Ok(None);
    };
    let what = format!("with time {tdf} times slower than the machine's");
    // Not by the verdict alone: with fewer seeds, much is within chance.
    let shrinks = verdict == Verdict::Agrees || worst_percent < before / 2.0;
    Ok(shrinks.then(|| Explanation {
        experiments: vec![Experiment { what, verdict, worst_percent, from: "the machine's speed".to_owned() }],
        ..Explanation::new(
            Cause::Clock,
            vec![format!(
                "the largest difference of {} was {before:.1} %, and is {worst_percent:.1} % in slower time: in lock-step a kernel's own work takes \
                 no time, and on the machine's clock it does",
                paced.evidence.way
            )],
        )
    }))
}

#[cfg(test)]
mod tests {
    use warpline_net::Control;
    use warpline_results::Unit;

    use super::super::bench::Bench;
    use super::super::causes::{Evidence, explain};
    use super::super::tests::{TWO, base, made, plan};
    use super::super::{Compared, Plan, Value};
    use super::*;

    /// Half of the goodput that there is in the other way.
    fn half(subject: &str) -> Compared {
        let value = |mean| Value { mean, ci95: None, n: 1 };
        Compared {
            subject: subject.to_owned(),
            quantity: "goodput",
            unit: Unit::BitPerSecond,
            value: value(1e6),
            reference: value(2e6),
            difference_percent: -50.0,
            ci95_percent: None,
            verdict: Verdict::Differs,
        }
    }

    #[test]
    fn what_is_no_longer_measured_is_not_known_to_agree() {
        let wanted = pair_of(&[half("flow a"), half("flow b")]);
        let agrees =
            |subject: &str| Compared { verdict: Verdict::Agrees, difference_percent: 1.0, ..half(subject) };
        let both = [agrees("flow a"), agrees("flow b"), half("flow c")];
        assert_eq!(worst_of(&both, &wanted), Some((Verdict::Agrees, 1.0)));
        assert_eq!(worst_of(&both[..1], &wanted), None);
    }

    #[test]
    fn a_change_is_left_out_of_the_way_that_it_is_named_with() {
        let change = Change {
            what: String::new(),
            from: String::new(),
            both: vec!["flow.0.cc=reno".to_owned()],
            without: Some(("model".to_owned(), "seed=2".to_owned())),
        };
        let own = || vec!["seed=2".to_owned(), "duration=3s".to_owned()];
        assert_eq!(change.in_way("model", own()), ["duration=3s", "flow.0.cc=reno"]);
        assert_eq!(change.in_way("linux", own()), ["seed=2", "duration=3s", "flow.0.cc=reno"]);
    }

    /// The model stands for both kernels, so that none is booted.
    #[test]
    fn a_change_of_one_way_is_found_where_two_kernels_differ() {
        let desk = tempfile::tempdir().unwrap();
        let planted = "flow.bulk.cc=reno".to_owned();
        let plan = Plan {
            sets_in: vec![("linux@new".to_owned(), planted.clone())],
            kept: desk.path().to_owned(),
            ..plan()
        };
        let observe = |_: f64, _: &str| Control::Continue;
        let workshop = Workshop { plan: &plan, base: base(TWO, &[]), bench: Bench::new(&plan, &observe) };
        let way = *WAYS.iter().find(|way| way.name() == "model").unwrap();
        let done = |name: &str, kernel: &str, changes: &[String]| Done {
            choice: Choice { way, kernel: None },
            made: made("model", &workshop.base, &[]).unwrap(),
            runs: Vec::new(),
            evidence: Evidence {
                way: name.to_owned(),
                changes: changes.to_vec(),
                is_virtual: true,
                repeats: Some(true),
                kernels: vec![kernel.to_owned()],
                ..Evidence::default()
            },
        };
        let (own, reference) = (done("linux@new", "6.12", &[planted]), done("linux", "6.1", &[]));
        let mut pair = Pair {
            way: "linux@new".to_owned(),
            reference: "linux".to_owned(),
            bound_percent: 5.0,
            compared: vec![half("flow bulk")],
            explanation: explain(&own.evidence, &reference.evidence, &workshop.common(5.0)),
        };
        narrow(&workshop, &own, &reference, &mut pair).unwrap();
        let explanation = pair.explanation.unwrap();
        assert_eq!(explanation.cause, Cause::Kernel);
        let from = explanation.narrowed().map(|experiment| experiment.from.as_str());
        assert_eq!(from, Some("the change `flow.bulk.cc=reno` of linux@new"));
    }

    #[test]
    fn flows_get_reno_by_their_numbers_and_programs_do_not() {
        let (plan, base) = (plan(), base(TWO, &[]));
        let observe = |_: f64, _: &str| Control::Continue;
        let workshop = Workshop { plan: &plan, base, bench: Bench::new(&plan, &observe) };
        let done = |name: &str, kernels: &[&str]| {
            let way = *WAYS.iter().find(|way| way.name() == name).unwrap();
            let kernels = kernels.iter().map(|version| (*version).to_owned()).collect();
            Done {
                choice: Choice { way, kernel: None },
                made: made(name, &workshop.base, &[]).unwrap(),
                runs: Vec::new(),
                evidence: Evidence { kernels, ..Evidence::default() },
            }
        };
        let changes = |linux: &Done<'_>| -> Vec<String> {
            let found = congestion_control(&workshop, &done("model", &[]), linux);
            found.into_iter().flat_map(|change| change.both).collect()
        };
        assert_eq!(changes(&done("linux", &["6.1.1"])), ["flow.0.cc=reno"]);
        // There, the first flow is that of Nice, which stays a model.
        let live = done("live", &["6.18.1"]);
        assert_eq!(live.made.scenario.flow.len(), 1);
        assert_eq!(changes(&live), [""; 0]);
    }

    #[test]
    fn queues_and_losses_are_found_wherever_links_are_described() {
        let text = r#"
            duration = "1s"
            topology = { kind = "dumbbell", rtt = "20ms", bottleneck = { rate = "1Mbit/s", queue = "codel" } }
            link = [
              { between = ["left.0", "x"], rate = "1Mbit/s", queue = "20p", loss = "1%", reverse = { loss = "none", queue = "red" } },
              { between = ["x", "y"], rate = "1Mbit/s", jitter = { kind = "uniform", max = "1ms" } },
            ]
            flow = [{ from = "left", to = "right" }]
        "#;
        let scenario = Scenario::from_toml("x", text, &[]).unwrap_or_else(|wrong| panic!("{wrong}"));
        let found = |name, plain| keys(&scenario, name, plain).collect::<Vec<String>>();
        assert_eq!(found("queue", "droptail"), ["topology.bottleneck.queue", "link.0.reverse.queue"]);
        assert_eq!(found("loss", "none"), ["link.0.loss"]);
        assert_eq!(found("jitter", "none"), ["link.1.jitter"]);
        let sets: Vec<String> = found("loss", "none").iter().map(|key| format!("{key}=\"none\"")).collect();
        assert!(super::super::base::changed(&scenario, &sets).is_ok());
    }
}
