//! Agreement with Linux: the model against Linux kernels in guests, over a grid of paths.
//!
//! Each [`Case`] is a congestion control or a queue on a path. It is run twice, with everything random alike: once with Linux's, in guests, and
//! once with the model's. Goodput, queueing delay and retransmissions are held side by side, each difference with a [`Verdict`]. Runs are kept in a
//! directory, so that a study that was stopped goes on where it was, and a change of the model costs the model's runs only.
//!
//! A further kind of case is one file with an implementation of [`Case`], and a line in [`cases`].

mod case;
mod judge;
mod path;
mod queue;
mod report;
mod transport;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use warpline_lab::run::{RunError, RunOptions};
use warpline_net::Control;
use warpline_results::{ResultError, Summary};
use warpline_scenario::{Diagnostics, Scenario};

pub use case::{Case, Figure, Measured, Size, Stack};
pub use judge::{Compared, Row, Verdict};
pub use report::Agreement;

use crate::kept::{Kept, Store};
use crate::linux::ALGORITHMS;
use crate::whole::{Fault, repeatable_run};

/// What is compared, and where results are kept.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The congestion controls and queues on their paths.
    pub cases: Vec<Arc<dyn Case>>,
    /// How long runs are, and of how many seeds.
    pub size: Size,
    /// Version of the guests' kernel, such as "6.1.176".
    pub kernel: String,
    /// The name of that build of the kernel, as in [`builds`](warpline_lab::run::builds). The results of its runs are kept under this name.
    pub kernel_build: String,
    /// What tells this program from every other version and build of it. Runs of the model are kept by it.
    pub program: String,
    /// The directory with the results that are kept.
    pub kept: PathBuf,
    /// Runs at a time; 0 for one per core.
    pub jobs: usize,
}

/// All there is to compare: each congestion control and each queue on all its paths.
pub fn cases() -> Vec<Arc<dyn Case>> {
    [transport::cases(), queue::cases()].concat()
}

/// The names of the congestion controls and queues.
pub fn subjects() -> impl Iterator<Item = &'static str> {
    ALGORITHMS.iter().map(|algorithm| algorithm.name).chain(queue::names())
}

/// The properties that a path may have, by kind: rates, round-trip times, loss rates, and the queues with which congestion controls run.
fn properties() -> [Vec<&'static str>; 4] {
    [
        path::RATES.iter().map(|rate| rate.1).collect(),
        path::RTTS.iter().map(|rtt| rtt.1).collect(),
        transport::LOSSES.iter().map(|loss| loss.1).collect(),
        transport::QUEUES.iter().map(|queue| queue.1).collect(),
    ]
}

/// Every property that a path may have.
pub fn words() -> Vec<&'static str> {
    properties().concat()
}

/// Whether a path is among those that these words choose: of each kind of properties of which one is named, it has one that is named.
pub fn is_chosen(case: &dyn Case, words: &[String]) -> bool {
    let own = case.properties();
    properties().iter().all(|kind| {
        let mut named = words.iter().filter(|word| kind.contains(&word.as_str())).peekable();
        named.peek().is_none() || named.any(|word| own.contains(&word.as_str()))
    })
}

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
pub enum AgreementError {
    /// The scenario of a run is not valid. The run's name stands for the file.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// A run failed.
    #[error("{name}: {source}")]
    Run {
        /// Name of the run.
        name: String,
        /// Why.
        source: RunError,
    },
    /// A run came to its end, but its results are not those of its scenario.
    #[error("{name}: {why}")]
    Wrong {
        /// Name of the run.
        name: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Results could not be kept.
    #[error(transparent)]
    Results(#[from] ResultError),
    /// The threads could not be started.
    #[error("cannot start the threads for the runs: {0}")]
    Threads(String),
    /// It was stopped. What has run is kept.
    #[error("stopped before all cells were run")]
    Stopped,
}

/// The progress of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advance<'a> {
    /// The run that has just ended; empty before the first.
    pub name: &'a str,
    /// The part of the work that is done, 0 to 1.
    pub share: f64,
    /// Runs whose results are there, kept ones included.
    pub done: usize,
    /// All runs.
    pub of: usize,
}

/// The scenarios behind the figures: names of files, without endings, and texts.
pub fn scenarios(plan: &Plan) -> Vec<(String, String)> {
    jobs(plan).map(|job| (job.name(), job.case.scenario(job.stack, plan.size))).collect()
}

/// A run: of a case by a stack.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    case: &'a dyn Case,
    stack: Stack,
}

/// All runs: for each case, both stacks.
fn jobs(plan: &Plan) -> impl Iterator<Item = Job<'_>> {
    plan.cases.iter().flat_map(|case| Stack::BOTH.map(|stack| Job { case: case.as_ref(), stack }))
}

impl Job<'_> {
    fn name(&self) -> String {
        self.case.file_name(self.stack)
    }

    /// What runs it, with its version: the name of the directory in which results are kept.
    fn ran_by(&self, plan: &Plan) -> String {
        let program = format!("warpline-{}", plan.program);
        match self.stack {
            Stack::Linux if self.case.has_traffic_of_models() => format!("{}-{program}", plan.kernel_build),
            Stack::Linux => plan.kernel_build.clone(),
            Stack::Model => program,
        }
    }

    /// What it costs, in packets of the model: one takes a guest some twenty times as long, and a boot as long as twenty thousand.
    fn work(&self, plan: &Plan) -> f64 {
        let packets = self.case.packets(plan.size);
        match self.stack {
            Stack::Linux => 20.0 * (packets + 20_000.0),
            Stack::Model => packets,
        }
    }
}

/// Counts what is done.
#[derive(Debug, Default)]
struct Done {
    work: f64,
    runs: usize,
}

/// Compares the model with Linux, on all cores unless the plan says otherwise.
///
/// `observe` is called from several threads, before the first run, during and after each; it can stop the comparison.
///
/// # Errors
/// The first failure of any run, or [`Stopped`](AgreementError::Stopped). What has run until then is kept.
pub fn agree(
    plan: &Plan,
    observe: &(dyn Fn(Advance<'_>) -> Control + Sync),
) -> Result<Agreement, AgreementError> {
    let all: Vec<Job<'_>> = jobs(plan).collect();
    let work: f64 = all.iter().map(|job| job.work(plan)).sum();
    let store = Store(plan.kept.clone());
    let mut results: Vec<Option<Paths>> = Vec::with_capacity(all.len());
    let mut missing: Vec<(usize, Scenario)> = Vec::new();
    let mut done = Done::default();
    for (index, job) in all.iter().enumerate() {
        let (name, text) = (job.name(), job.case.scenario(job.stack, plan.size));
        let scenario = Scenario::from_toml(&name, &text, &[])?;
        let kept = store.find(&job.ran_by(plan), &name, &scenario);
        match &kept {
            Some(_) => {
                done.work += job.work(plan);
                done.runs += 1;
            }
            None => missing.push((index, scenario)),
        }
        results.push(kept);
    }
    // The longest runs first, so that none is left alone at the end.
    missing.sort_by(|(a, _), (b, _)| all[*b].work(plan).total_cmp(&all[*a].work(plan)));
    let done = Mutex::new(done);
    let tell = |name: &str, ended: f64| {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        if ended > 0.0 {
            done.work += ended;
            done.runs += 1;
        }
        observe(Advance { name, share: done.work / work.max(1.0), done: done.runs, of: all.len() })
    };
    if tell("", 0.0) == Control::Stop {
        return Err(AgreementError::Stopped);
    }
    let one = |(index, scenario): &(usize, Scenario)| -> Result<(usize, Paths), AgreementError> {
        let job = &all[*index];
        let name = job.name();
        let results = make(job, plan, scenario, &name, &|| tell("", 0.0))?;
        let kept = Kept { scenario_hash: scenario.scenario_hash(), results };
        store.keep(&job.ran_by(plan), &name, &kept)?;
        tell(&name, job.work(plan));
        Ok((*index, kept.results))
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(plan.jobs)
        .build()
        .map_err(|error| AgreementError::Threads(error.to_string()))?;
    let made: Vec<(usize, Paths)> =
        pool.install(|| missing.par_iter().with_max_len(1).map(one).collect::<Result<_, _>>())?;
    for (index, kept) in made {
        results[index] = Some(kept);
    }
    let rows = all.chunks(Stack::BOTH.len()).zip(results.chunks(Stack::BOTH.len()));
    let rows = rows.filter_map(|(jobs, kept)| match (jobs, kept) {
        ([job, _], [Some(linux), Some(model)]) => Some(Row::new(job.case, &linux.paths, &model.paths)),
        _ => None,
    });
    let Size { quick, seeds } = plan.size;
    Ok(Agreement { kernel: plan.kernel.clone(), quick, seeds, rows: rows.collect() })
}

/// What is kept of a run: the figures of its paths, in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Paths {
    paths: Vec<Measured>,
}

impl Paths {
    /// Takes the figures of each path out of a run's summary; none if a path has none.
    fn of(summary: &Summary, case: &dyn Case, stack: Stack, size: Size) -> Option<Paths> {
        let measured = |path: u32| case.measure(summary, stack, path);
        (1..=case.paths(size)).map(measured).collect::<Option<Vec<_>>>().map(|paths| Paths { paths })
    }
}

/// Makes a run.
fn make(
    job: &Job<'_>,
    plan: &Plan,
    scenario: &Scenario,
    name: &str,
    observe: &dyn Fn() -> Control,
) -> Result<Paths, AgreementError> {
    let wrong = |why: &str| AgreementError::Wrong { name: name.to_owned(), why: why.to_owned() };
    let ran = repeatable_run(scenario, &RunOptions::default(), &mut |_| observe());
    let outcome = ran.map_err(|fault| match fault {
        Fault::Run(source) => AgreementError::Run { name: name.to_owned(), source },
        Fault::Wrong(why) => wrong(&why),
        Fault::Stopped => AgreementError::Stopped,
    })?;
    if let Some(why) = outcome.failures.first() {
        return Err(wrong(why));
    }
    if let Some(guests) = outcome.summary.guests.as_ref().filter(|guests| guests.kernel != plan.kernel) {
        let own = &guests.kernel;
        return Err(wrong(&format!("the guests have kernel {own}, not {}; start again", plan.kernel)));
    }
    Paths::of(&outcome.summary, job.case, job.stack, plan.size)
        .ok_or_else(|| wrong("a path has no flow or no link"))
}
