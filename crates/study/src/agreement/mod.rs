//! Agreement with Linux: the TCP model against Linux kernels in guests, over a grid of paths.
//!
//! Each [`Cell`] is a path: a rate, a round-trip time, a loss rate, and a queue. On it every congestion control of Linux 6.1 ([`ALGORITHMS`]) is run
//! twice with the same losses: once with a guest's kernel at both ends, once with the model. Goodput, queueing delay and retransmissions are
//! held side by side, each difference with a [`Verdict`]. Runs are kept in a directory, so that a study that was stopped goes on where it was,
//! and a change of the model costs the model's runs only.

mod algorithms;
mod cell;
mod judge;
mod kept;
mod report;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use warpline_lab::run::{Broken, RunError, RunOptions, run};
use warpline_net::Control;
use warpline_results::ResultError;
use warpline_scenario::{Diagnostics, Scenario};

pub use algorithms::{ALGORITHMS, Algorithm};
pub use cell::{Cell, cells, words};
pub use judge::{Compared, Row, Verdict};
pub use report::Agreement;

use cell::Stack;
use kept::{Kept, Store};

/// What is compared, and where results are kept.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The congestion controls.
    pub algorithms: Vec<Algorithm>,
    /// The paths.
    pub cells: Vec<Cell>,
    /// Whether runs are a quarter as long.
    pub quick: bool,
    /// How many paths of a kind are run where anything is random.
    pub seeds: u32,
    /// Version of the guests' kernel, such as "6.1.176".
    pub kernel: String,
    /// What tells this program from every other version and build of it. Runs of the model are kept by it.
    pub program: String,
    /// The directory with the results that are kept.
    pub kept: PathBuf,
    /// Runs at a time; 0 for one per core.
    pub jobs: usize,
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
    jobs(plan)
        .map(|job| {
            let text = job.cell.scenario(job.algorithm, job.stack, plan.seeds, plan.quick);
            (job.cell.file_name(job.algorithm, job.stack), text)
        })
        .collect()
}

/// A run: of a congestion control on a path by a stack.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    algorithm: &'a Algorithm,
    cell: &'a Cell,
    stack: Stack,
}

/// All runs: for each congestion control and each cell, both stacks.
fn jobs(plan: &Plan) -> impl Iterator<Item = Job<'_>> {
    plan.algorithms.iter().flat_map(|algorithm| {
        plan.cells.iter().flat_map(move |cell| Stack::BOTH.map(move |stack| Job { algorithm, cell, stack }))
    })
}

impl Job<'_> {
    /// What runs it, with its version: the name of the directory in which results are kept.
    fn ran_by(&self, plan: &Plan) -> String {
        match self.stack {
            Stack::Linux => format!("linux-{}", plan.kernel),
            Stack::Model => format!("warpline-{}", plan.program),
        }
    }

    /// What it costs, in packets of the model: one takes a guest some twenty times as long, and a boot as long as twenty thousand.
    fn work(&self, plan: &Plan) -> f64 {
        let packets = self.cell.work(self.algorithm, plan.quick, plan.seeds);
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

/// Compares the model with Linux, on all cores.
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
    let mut results: Vec<Option<Kept>> = Vec::with_capacity(all.len());
    let mut missing: Vec<(usize, Scenario)> = Vec::new();
    let mut done = Done::default();
    for (index, job) in all.iter().enumerate() {
        let name = job.cell.file_name(job.algorithm, job.stack);
        let text = job.cell.scenario(job.algorithm, job.stack, plan.seeds, plan.quick);
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
    let one = |(index, scenario): &(usize, Scenario)| -> Result<(usize, Kept), AgreementError> {
        let job = &all[*index];
        let name = job.cell.file_name(job.algorithm, job.stack);
        let kept = make(job, plan, scenario, &name, &|| tell("", 0.0))?;
        store.keep(&job.ran_by(plan), &name, &kept)?;
        tell(&name, job.work(plan));
        Ok((*index, kept))
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(plan.jobs)
        .build()
        .map_err(|error| AgreementError::Threads(error.to_string()))?;
    let made: Vec<(usize, Kept)> =
        pool.install(|| missing.par_iter().with_max_len(1).map(one).collect::<Result<_, _>>())?;
    for (index, kept) in made {
        results[index] = Some(kept);
    }
    let rows = all.chunks(Stack::BOTH.len()).zip(results.chunks(Stack::BOTH.len()));
    let rows = rows.filter_map(|(jobs, kept)| match (jobs, kept) {
        ([job, _], [Some(linux), Some(model)]) => {
            Some(Row::new(job.algorithm, job.cell, &linux.paths, &model.paths))
        }
        _ => None,
    });
    Ok(Agreement { kernel: plan.kernel.clone(), quick: plan.quick, seeds: plan.seeds, rows: rows.collect() })
}

/// How often a run is begun on a machine that is too busy for it.
const TRIES: u32 = 5;

/// Makes a run. On a busy machine a guest may have to be pushed on, and then the run cannot be repeated: it is begun again.
fn make(
    job: &Job<'_>,
    plan: &Plan,
    scenario: &Scenario,
    name: &str,
    observe: &dyn Fn() -> Control,
) -> Result<Kept, AgreementError> {
    let wrong = |why: &str| AgreementError::Wrong { name: name.to_owned(), why: why.to_owned() };
    for _ in 0..TRIES {
        let outcome = run(scenario, &RunOptions::default(), &mut |_| observe())
            .map_err(|source| AgreementError::Run { name: name.to_owned(), source })?;
        if let Some(why) = outcome.failures.first() {
            return Err(wrong(why));
        }
        if !outcome.complete {
            return Err(match outcome.broken {
                Some(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why)) => wrong(&why),
                None => AgreementError::Stopped,
            });
        }
        match &outcome.summary.guests {
            Some(guests) if guests.kernel != plan.kernel => {
                let own = &guests.kernel;
                return Err(wrong(&format!(
                    "the guests have kernel {own}, not {}; start again",
                    plan.kernel
                )));
            }
            Some(guests) if !guests.reproducible => {}
            _ => {
                let paths = job.cell.paths(job.algorithm, plan.seeds);
                return Kept::of(&outcome.summary, paths)
                    .ok_or_else(|| wrong("a path has no flow or no link"));
            }
        }
    }
    Err(wrong("the machine is too busy for a run that can be repeated; start again when it is less so"))
}
