//! The runs: each way with each seed, from what was kept or made anew. Simulations run on all cores at the same time, and runs on the machine's
//! clock one by one, as they need it for themselves.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use warpline_lab::run::{Progress, RunOptions};
use warpline_net::Control;
use warpline_results::Summary;
use warpline_scenario::{Clock, ClockMode, Scenario, Tdf};

use super::load::{Load, Reading};
use super::measures::{Measured, Smoothed, failed_flow, measured, smoothed, with_groups};
use super::ways::Made;
use super::{CrosscheckError, Plan};
use crate::kept::{Kept, Store};
use crate::names::file_name;
use crate::whole::{Fault, repeatable_run};

/// A run to make.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The way's name, and what tells experiments from each other.
    pub(super) label: String,
    /// What runs it, with its version: the directory in which its results are kept.
    pub(super) ran_by: String,
    /// The scenario.
    pub(super) made: Made,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ran {
    /// Its results, with the flows of programs in the groups for which they stand.
    pub(super) summary: Summary,
    /// The smoothed round-trip times of its groups of flows.
    pub(super) smoothed: Smoothed,
    /// How busy the machine was, if the run's time followed the machine's.
    pub(super) load: Option<Load>,
}

/// A run that was made, or why it failed.
pub(super) type Outcome = Result<Ran, String>;

/// What makes the runs.
pub(super) struct Bench<'a> {
    plan: &'a Plan,
    store: Store,
    observe: &'a (dyn Fn(f64, &str) -> Control + Sync),
    /// The work that is done, and all of it, in seconds.
    work: Mutex<(f64, f64)>,
}

/// About how long a run takes, in seconds.
fn seconds(scenario: &Scenario) -> f64 {
    let duration = scenario.duration.0.as_secs_f64();
    duration
        * match scenario.clock {
            Clock { mode: ClockMode::Virtual, .. } => 0.1,
            Clock { tdf: Some(Tdf::Factor(factor)), .. } => factor,
            _ => 1.0,
        }
}

impl<'a> Bench<'a> {
    pub(super) fn new(plan: &'a Plan, observe: &'a (dyn Fn(f64, &str) -> Control + Sync)) -> Bench<'a> {
        Bench { plan, store: Store(plan.kept.clone()), observe, work: Mutex::default() }
    }

    /// Makes all of these runs.
    ///
    /// # Errors
    /// If it is stopped, or results cannot be kept. What has run is kept.
    pub(super) fn run(&self, jobs: &[Job]) -> Result<Vec<Outcome>, CrosscheckError> {
        self.with_work(|work| work.1 += jobs.iter().map(|job| seconds(&job.made.scenario)).sum::<f64>());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.plan.jobs)
            .build()
            .map_err(|error| CrosscheckError::Threads(error.to_string()))?;
        let is_free = |job: &Job| job.made.scenario.clock.mode == ClockMode::Virtual;
        let mut outcomes: Vec<Option<Outcome>> = pool.install(|| {
            jobs.par_iter()
                .with_max_len(1)
                .map(|job| is_free(job).then(|| self.one(job)).transpose())
                .collect::<Result<_, _>>()
        })?;
        for (job, outcome) in jobs.iter().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none()) {
            *outcome = Some(self.one(job)?);
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    fn with_work<T>(&self, act: impl FnOnce(&mut (f64, f64)) -> T) -> T {
        act(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells how far it is, `more` being what has been done of the run at hand.
    fn tell(&self, more: f64, label: &str) -> Control {
        let share = self.with_work(|(done, all)| (*done + more) / all.max(1e-9));
        (self.observe)(share.min(1.0), label)
    }

    /// Makes a run, unless it is kept.
    fn one(&self, job: &Job) -> Result<Outcome, CrosscheckError> {
        let scenario = &job.made.scenario;
        let name = file_name(&format!("{} {} seed {}", scenario.name, job.label, scenario.seed));
        if self.tell(0.0, &job.label) == Control::Stop {
            return Err(CrosscheckError::Stopped);
        }
        let kept = self.store.find::<Ran>(&job.ran_by, &name, scenario);
        let outcome = match kept {
            Some(kept) => Ok(kept),
            None => match self.make(job) {
                Ok(ran) => {
                    let kept = Kept { scenario_hash: scenario.scenario_hash(), results: ran };
                    self.store.keep(&job.ran_by, &name, &kept)?;
                    Ok(kept.results)
                }
                Err(Fault::Stopped) => return Err(CrosscheckError::Stopped),
                Err(fault) => Err(format!("seed {}: {fault}", scenario.seed)),
            },
        };
        self.with_work(|work| work.0 += seconds(scenario));
        Ok(outcome)
    }

    fn make(&self, job: &Job) -> Result<Ran, Fault> {
        let Made { scenario, ports, .. } = &job.made;
        let mut observe = |progress: &Progress| {
            let share = progress.simulated.as_secs_f64() / progress.duration.as_secs_f64().max(1e-9);
            self.tell(share.min(1.0) * seconds(scenario), &job.label)
        };
        let before = Reading::now().filter(|_| scenario.clock.mode != ClockMode::Virtual);
        let outcome =
            repeatable_run(scenario, &RunOptions { tables: true, ..RunOptions::default() }, &mut observe)?;
        let load = before.and_then(|before| before.until(&Reading::now()?));
        // The run does not judge the programs that stand for flows, because they may end in any way when it ends.
        if let Some(why) =
            outcome.failures.into_iter().next().or_else(|| failed_flow(&outcome.summary, ports))
        {
            return Err(Fault::Wrong(why));
        }
        let smoothed =
            outcome.tables.map_or_else(Smoothed::new, |tables| smoothed(&outcome.summary, &tables));
        Ok(Ran { summary: with_groups(outcome.summary, ports), smoothed, load })
    }
}

impl Ran {
    /// Everything that was measured in it.
    pub(super) fn measured(&self) -> Measured {
        measured(&self.summary, &self.smoothed)
    }
}
