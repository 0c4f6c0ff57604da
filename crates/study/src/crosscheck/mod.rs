//! One scenario in every way that its hosts allow, and whether they agree.
//!
//! The ways are in `ways`: the model, Linux kernels in lock-step, in dilated and in real time, and live hosts. Each is run with several seeds, and
//! compared measure by measure with another (`judge`). What differs is explained by evidence (`causes`), and by experiments
//! (`narrow`). The outcome is a [`Certificate`].

mod base;
mod bench;
mod causes;
mod certificate;
mod judge;
mod load;
mod measures;
mod narrow;
mod page;
mod ways;

use std::collections::BTreeMap;
use std::path::PathBuf;

use warpline_lab::run::builds::{builds, kernels};
use warpline_net::Control;
use warpline_results::ResultError;
use warpline_scenario::{ClockMode, Diagnostics, Scenario, Source};

pub use causes::{Cause, Experiment, Explanation};
pub use certificate::{Certificate, Outcome, Pair, RunFacts, WayFacts, schema};
pub use judge::{Compared, Value, Verdict};
pub use load::Load;

use base::Base;
use bench::{Bench, Job, Ran};
use causes::{Common, Evidence, explain};
use judge::compare;
use measures::round_trips;
use ways::{Made, Setting, Unmade, WAYS, Way, make};

/// A kernel for guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linux {
    /// Its name in scenarios; none for the one that guests have by themselves.
    pub name: Option<String>,
    /// Its version.
    pub version: String,
    /// Its congestion controls.
    pub controls: Vec<String>,
}

/// The machine and the program that make the runs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// This program's file.
    pub program: PathBuf,
    /// What tells this program from every other version and build of it.
    pub build: String,
    /// Version of the machine's kernel.
    pub kernel: String,
    /// Its processor, for people.
    pub processor: String,
    /// How many cores it has.
    pub cores: usize,
    /// The kernel that guests have by themselves, or why there are no guests here.
    pub guests: Result<Linux, String>,
    /// The congestion controls of the machine's kernel, or why there are no live hosts here.
    pub live: Result<Vec<String>, String>,
}

impl Machine {
    /// Why there are no guests here.
    fn no_linux(&self) -> String {
        self.guests.as_ref().err().cloned().unwrap_or_default()
    }
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario.
    pub source: Source,
    /// Changes to it, as `warpline run --set` takes them.
    pub sets: Vec<String>,
    /// The ways, by name; all if none.
    pub ways: Vec<String>,
    /// Further kernels, each of which is a way in lock-step.
    pub kernels: Vec<Linux>,
    /// Changes in one way only: the way's name and the change.
    pub sets_in: Vec<(String, String)>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The time dilation factor of the dilated way.
    pub tdf: f64,
    /// The bound of differences where only the clock differs, in percent.
    pub clock_percent: f64,
    /// The bound of other differences, in percent.
    pub model_percent: f64,
    /// Whether experiments are made to narrow down what differs.
    pub narrow: bool,
    /// Simulations at a time; 0 for one per core.
    pub jobs: usize,
    /// The directory with the results that are kept.
    pub kept: PathBuf,
    /// The date of the certificate.
    pub date: String,
    /// The machine.
    pub machine: Machine,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CrosscheckError {
    /// The scenario or a change to it is not valid.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// What was asked for does not fit.
    #[error("{0}")]
    Plan(String),
    /// Results could not be kept.
    #[error(transparent)]
    Results(#[from] ResultError),
    /// The threads could not be started.
    #[error("cannot start the threads for the runs: {0}")]
    Threads(String),
    /// It was stopped. What has run is kept.
    #[error("stopped before all runs were made")]
    Stopped,
}

/// The names of all ways.
pub fn way_names() -> impl Iterator<Item = &'static str> {
    WAYS.iter().map(|way| way.name())
}

/// A way, with a kernel if it is another one than guests have by themselves.
#[derive(Clone, Copy, Debug)]
struct Choice<'a> {
    way: &'static dyn Way,
    kernel: Option<&'a Linux>,
}

impl Choice<'_> {
    /// Its name: "linux", "linux@6.12".
    fn label(&self) -> String {
        match self.kernel.and_then(|kernel| kernel.name.as_deref()) {
            Some(kernel) => format!("{}@{kernel}", self.way.name()),
            None => self.way.name().to_owned(),
        }
    }
}

/// The ways that were asked for.
///
/// # Errors
/// If one of those with changes is not among them, or none of them takes the further kernels.
fn choices(plan: &Plan) -> Result<Vec<Choice<'_>>, CrosscheckError> {
    let wanted =
        |way: &&&'static dyn Way| plan.ways.is_empty() || plan.ways.iter().any(|name| name == way.name());
    let mut all = Vec::new();
    for &way in WAYS.iter().filter(wanted) {
        all.push(Choice { way, kernel: None });
        if way.takes_kernels() {
            all.extend(plan.kernels.iter().map(|kernel| Choice { way, kernel: Some(kernel) }));
        }
    }
    if let Some(kernel) = plan.kernels.first()
        && !all.iter().any(|choice| choice.way.takes_kernels())
    {
        let takers: Vec<&str> = WAYS.iter().filter(|way| way.takes_kernels()).map(|way| way.name()).collect();
        return Err(CrosscheckError::Plan(format!(
            "none of these ways takes the kernel `{}`: add `{}` to them",
            kernel.name.as_deref().unwrap_or(&kernel.version),
            takers.join("` or `")
        )));
    }
    let labels: Vec<String> = all.iter().map(Choice::label).collect();
    match plan.sets_in.iter().find(|(way, _)| !labels.contains(way)) {
        Some((way, _)) => {
            Err(CrosscheckError::Plan(format!("there is no way `{way}` here; ways: {}", labels.join(", "))))
        }
        None => Ok(all),
    }
}

/// Keys that no change can have here, each with what decides it.
const DECIDED: [(&str, &str); 3] = [
    ("seed", "all ways run with the seeds of `--seeds`"),
    ("replications", "all ways run with the seeds of `--seeds`"),
    ("clock", "each way has its own clock"),
];

/// Refuses changes of what is decided otherwise, which would have no effect, or give all seeds of a way the same run.
fn refuse_decided(plan: &Plan) -> Result<(), CrosscheckError> {
    for set in plan.sets.iter().chain(plan.sets_in.iter().map(|(_, set)| set)) {
        let key = set.split(['=', '.']).next().unwrap_or_default().trim();
        if let Some((_, why)) = DECIDED.iter().find(|(decided, _)| *decided == key) {
            return Err(CrosscheckError::Plan(format!("`{set}` cannot be set here: {why}")));
        }
    }
    Ok(())
}

/// The changes that were asked for in a way.
fn own_sets(plan: &Plan, label: &str) -> Vec<String> {
    plan.sets_in.iter().filter(|(way, _)| way == label).map(|(_, set)| set.clone()).collect()
}

/// What makes the runs of a scenario in a way, as the name of the directory in which their results are kept: the way, the kernels of guests and the
/// stacks in shared objects, the machine's kernel if time is not the simulation's, and this program.
///
/// # Errors
/// Which kernel or stack is not there.
fn ran_by(machine: &Machine, label: &str, scenario: &Scenario) -> Result<String, String> {
    // A kernel may be a file.
    let mut parts = vec![label.replace('/', "_")];
    parts.extend(builds(scenario).map_err(|error| error.to_string())?);
    if scenario.clock.mode != ClockMode::Virtual {
        parts.push(machine.kernel.clone());
    }
    parts.push(machine.build.clone());
    Ok(parts.join("-"))
}

/// What makes the runs of a way, and how.
struct Workshop<'a> {
    plan: &'a Plan,
    base: Base,
    bench: Bench<'a>,
}

/// A way whose runs were made.
struct Done<'a> {
    choice: Choice<'a>,
    /// The scenario of the first seed.
    made: Made,
    runs: Vec<Ran>,
    evidence: Evidence,
}

impl<'a> Workshop<'a> {
    /// The runs of a way with these changes in it, to be made with all seeds. `note` tells experiments from each other.
    fn jobs(&self, choice: Choice<'_>, note: &str, sets: &[String], tdf: f64) -> Result<Vec<Job>, Unmade> {
        let guests = self.plan.machine.guests.as_ref().ok();
        let linux = choice.kernel.or(guests);
        let label = choice.label();
        let one = |&seed: &u64| make(choice.way, &self.base, &self.setting(linux, seed, tdf), sets);
        let all = self.plan.seeds.iter().map(one).collect::<Result<Vec<Made>, Unmade>>()?;
        // The seed changes no host.
        let Some(first) = all.first() else { return Ok(Vec::new()) };
        let ran_by = ran_by(&self.plan.machine, &label, &first.scenario).map_err(Unmade::NotPossible)?;
        let job = |made| Job { label: format!("{label}{note}"), ran_by: ran_by.clone(), made };
        Ok(all.into_iter().map(job).collect())
    }

    fn setting<'s>(&'s self, linux: Option<&'s Linux>, seed: u64, tdf: f64) -> Setting<'s> {
        Setting { machine: &self.plan.machine, linux, tdf, seed }
    }

    /// What is known of the runs of a way. `again` is a second run with the first seed.
    fn evidence(&self, choice: Choice<'_>, made: &Made, runs: &[Ran], again: Option<&Ran>) -> Evidence {
        let given = self.base.links();
        let mut links = Vec::new();
        let mut least: BTreeMap<String, f64> = BTreeMap::new();
        for (number, ran) in runs.iter().enumerate() {
            for (group, rtt) in round_trips(&ran.summary) {
                least.entry(group).and_modify(|known| *known = known.min(rtt)).or_insert(rtt);
            }
            for link in ran.summary.links.iter().filter(|_| number == 0) {
                let there = base::LinkFact { delay_s: link.delay_s, rate_bps: link.rate_bps };
                let differs = |given: &&base::LinkFact| {
                    there.delay_s != given.delay_s
                        || given.rate_bps.is_some_and(|rate| Some(rate) != there.rate_bps)
                };
                links.extend(
                    given.get(&link.name).filter(differs).map(|given| (link.name.clone(), there, *given)),
                );
            }
        }
        let audits = runs.iter().filter_map(|ran| ran.summary.live.as_ref()).map(|live| live.audit.clone());
        // First by what the causes are judged by: one run that did not keep pace, or was short of processors, is enough.
        let worse = |audit: &warpline_results::live::AuditSummary| {
            (!audit.kept_pace(), audit.lost_outside, audit.lateness.p99_us)
        };
        let busier = |load: &Load| (load.is_short(), load.others() + load.waited.unwrap_or(0.0));
        let scenario = &made.scenario;
        let mut kernels = match runs.first().and_then(|ran| ran.summary.guests.as_ref()) {
            // By builds, as a patched kernel often has the version of the other one. If its file is gone since the run, the version has to do.
            Some(guests) => kernels(scenario).map_or_else(
                |_| guests.kernel.split(", ").map(str::to_owned).collect(),
                |builds| {
                    builds
                        .iter()
                        .map(|build| build.strip_prefix("linux-").unwrap_or(build).to_owned())
                        .collect()
                },
            ),
            None => Vec::new(),
        };
        kernels.extend(scenario.needs_namespaces().then(|| self.plan.machine.kernel.clone()));
        kernels.sort();
        kernels.dedup();
        Evidence {
            way: choice.label(),
            changes: own_sets(self.plan, &choice.label()),
            is_virtual: scenario.clock.mode == ClockMode::Virtual,
            repeats: again.zip(runs.first()).map(|(again, first)| again.summary == first.summary),
            kernels,
            links,
            round_trips: least,
            audit: audits.reduce(|a, b| if worse(&b) > worse(&a) { b } else { a }),
            load: runs
                .iter()
                .filter_map(|ran| ran.load)
                .reduce(|a, b| if busier(&b) > busier(&a) { b } else { a }),
            held_back: runs
                .iter()
                .flat_map(|ran| &ran.summary.guests)
                .flat_map(|guests| &guests.machines)
                .filter_map(|machine| machine.cpu.as_ref())
                .reduce(|a, b| if b.throttled > a.throttled { b } else { a })
                .cloned(),
        }
    }

    /// The bound of the differences between two ways, in percent: where both have the same kernels, only the clock differs.
    fn bound(&self, own: &Evidence, reference: &Evidence) -> f64 {
        let only_the_clock = !own.kernels.is_empty() && own.kernels == reference.kernels;
        if only_the_clock { self.plan.clock_percent } else { self.plan.model_percent }
    }

    fn common(&self, bound_percent: f64) -> Common {
        Common {
            round_trips: self.base.round_trips(),
            longest_link_ms: self.base.longest_link_ms(),
            bound_percent,
        }
    }

    /// Compares a way with another.
    fn pair(&self, own: &Done<'a>, reference: &Done<'a>) -> Result<Pair, CrosscheckError> {
        let bound_percent = self.bound(&own.evidence, &reference.evidence);
        let common = self.common(bound_percent);
        let all = |done: &Done<'_>| done.runs.iter().map(|ran| ran.measured()).collect::<Vec<_>>();
        let compared = compare(&all(own), &all(reference), bound_percent, common.shortest_ms());
        let mut pair = Pair {
            way: own.evidence.way.clone(),
            reference: reference.evidence.way.clone(),
            bound_percent,
            compared,
            explanation: None,
        };
        if pair.differs() {
            pair.explanation = explain(&own.evidence, &reference.evidence, &common);
            if self.plan.narrow {
                narrow::narrow(self, own, reference, &mut pair)?;
            }
        }
        Ok(pair)
    }
}

/// Runs a scenario in every way that its hosts allow, and compares them.
///
/// `observe` is called from several threads with the share of the work that is done and the name of what runs; it can stop the runs.
///
/// # Errors
/// If the scenario or the plan is wrong, fewer than two ways are possible, results cannot be kept, or it is stopped. What has run is kept.
pub fn crosscheck(
    plan: &Plan,
    observe: &(dyn Fn(f64, &str) -> Control + Sync),
) -> Result<Certificate, CrosscheckError> {
    let base = Base::new(&plan.source, &plan.sets)?;
    let choices = choices(plan)?;
    refuse_decided(plan)?;
    if let [only] = &choices[..] {
        return Err(CrosscheckError::Plan(format!(
            "there is nothing to compare: `--ways` names one way, `{}`; name two",
            only.label()
        )));
    }
    let workshop = Workshop { plan, base, bench: Bench::new(plan, observe) };
    let mut facts: Vec<WayFacts> = Vec::new();
    let mut possible: Vec<(usize, Choice<'_>, Vec<Job>)> = Vec::new();
    for choice in choices {
        let label = choice.label();
        let mut way = WayFacts::new(&label, choice.way.what(), own_sets(plan, &label));
        match workshop.jobs(choice, "", &way.changes, plan.tdf) {
            Ok(jobs) => possible.push((facts.len(), choice, jobs)),
            Err(Unmade::NotPossible(why)) => way.not_possible = Some(why),
            Err(Unmade::Wrong(wrong)) => return Err(wrong.into()),
        }
        facts.push(way);
    }
    if possible.len() < 2 {
        let why: Vec<String> = facts
            .iter()
            .filter_map(|way| Some(format!("\n  {}: {}", way.name, way.not_possible.as_ref()?)))
            .collect();
        let possible = possible.first().map_or("none".to_owned(), |(_, choice, _)| choice.label());
        return Err(CrosscheckError::Plan(format!(
            "there is nothing to compare: of the ways, only this one is possible: {possible}. Not possible:{}",
            why.concat()
        )));
    }
    // The first seed again, to see whether a simulation repeats.
    let again = |jobs: &[Job]| {
        let first = jobs.first().filter(|job| job.made.scenario.clock.mode == ClockMode::Virtual);
        first.map(|job| Job { label: format!("{} again", job.label), ..job.clone() })
    };
    let all: Vec<Job> =
        possible.iter().flat_map(|(_, _, jobs)| jobs.iter().cloned().chain(again(jobs))).collect();
    let mut outcomes = workshop.bench.run(&all)?.into_iter();
    let mut done: Vec<Done<'_>> = Vec::new();
    for (number, choice, jobs) in possible {
        let runs: Vec<Result<Ran, String>> = outcomes.by_ref().take(jobs.len()).collect();
        let again = again(&jobs).and_then(|_| outcomes.next()).transpose();
        let Some(Job { made, .. }) = jobs.into_iter().next() else { continue };
        let way = &mut facts[number];
        match runs.into_iter().collect::<Result<Vec<Ran>, String>>().and_then(|runs| Ok((runs, again?))) {
            Ok((runs, again)) => {
                let evidence = workshop.evidence(choice, &made, &runs, again.as_ref());
                way.fill(&made, &runs, &evidence);
                done.push(Done { choice, made, runs, evidence });
            }
            Err(why) => {
                way.fill(&made, &[], &Evidence::default());
                way.failed = Some(why);
            }
        }
    }
    let mut pairs = Vec::new();
    for own in &done {
        let is_plain =
            |other: &&Done<'_>| other.choice.kernel.is_none() && other.evidence.way != own.evidence.way;
        let mut references = own.choice.way.references().iter();
        let reference = references
            .find_map(|name| done.iter().filter(is_plain).find(|other| other.choice.way.name() == *name));
        if let Some(reference) = reference {
            pairs.push(workshop.pair(own, reference)?);
        }
    }
    Ok(Certificate::new(plan, &workshop.base, facts, pairs))
}

#[cfg(test)]
mod tests;
