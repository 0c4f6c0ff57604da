//! The evaluation of a congestion control that RFC 9743 (Specifying New Congestion Control Algorithms) asks for.
//!
//! Each question is a [`Criterion`], a file in `criteria`. It has trials: a scenario with the algorithm, if need be the same with a standard
//! algorithm in its place, and figures of them with stated bounds. Every trial is run with several seeds; a figure that is above its bound with
//! some seeds and below with others stays open if the 95 % confidence interval of its mean holds the bound.
//!
//! The bounds are ours, as the RFC states none. Where the standard algorithms do badly themselves, the bound is what they do; `hidden_congestion` says
//! why it is not so there.

mod algorithm;
mod criteria;
mod guests;
mod page;
mod plots;
mod report;
mod trial;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use warpline_lab::run::{Broken, RunError, RunOptions, run};
use warpline_net::Control;
use warpline_results::{Estimate, Summary};
use warpline_scenario::{Diagnostics, Scenario};

pub use criteria::{BY_NAME, CRITERIA};
pub use report::{Answer, Evaluation, Judged, Shown, Verdict};
pub use trial::{Bound, Compared, ScenarioFile, Trial};

use plots::Course;
use trial::{Figure, STANDARD};

/// What stands for the section of a question that RFC 9743 does not ask.
const BEYOND: &str = "beyond";

/// A question of RFC 9743, or one of our own.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    /// Its name on command lines and in files: "full-use".
    pub name: &'static str,
    /// The RFC's section; "beyond" for a question of our own.
    pub section: &'static str,
    /// The question in one sentence.
    pub question: &'static str,
    /// The trials that answer it for an algorithm, given as scenarios write it.
    trials: fn(&str) -> Vec<Trial>,
}

impl Criterion {
    /// The trials that answer it for `cc`, an algorithm as scenarios write it in short; only those that differ most if `quick`.
    pub fn trials(&self, cc: &str, quick: bool) -> Vec<Trial> {
        (self.trials)(cc).into_iter().filter(|trial| trial.quick || !quick).collect()
    }
}

/// What is evaluated, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The algorithm, as scenarios write it in short: "bbr", "nice:threshold=0.1".
    pub cc: String,
    /// The questions.
    pub criteria: Vec<Criterion>,
    /// Whether only those trials are run that differ most.
    pub quick: bool,
    /// Each trial is run with the seeds from 1 to this.
    pub seeds: u32,
    /// Whether the flows that are compared, and their receivers, are Linux kernels: the algorithm is then the kernel's of this name. A trial
    /// that guests cannot run is left out, and the evaluation says why.
    pub guests: bool,
    /// Own congestion controls and the like.
    pub options: RunOptions,
}

impl Plan {
    /// The trials of a question.
    ///
    /// # Errors
    /// If there is no such algorithm, or a trial's scenario is not valid even with the standard one.
    pub fn trials(&self, criterion: &Criterion) -> Result<Vec<Trial>, Diagnostics> {
        let trials = criterion.trials(&self.cc, self.quick);
        if !self.guests {
            return algorithm::check(&self.cc).map(|()| trials);
        }
        if let Some((kind, _)) = self.cc.split_once(':') {
            let message = format!("`{}` has parameters, which Linux's own algorithms do not take", self.cc);
            return Err(Diagnostics::single(message, format!("for guests, name it alone: `{kind}`")));
        }
        // Their hosts are found with the standard algorithm: scenarios of models may not know the one under test.
        let standard = criterion.trials(STANDARD, self.quick);
        trials
            .into_iter()
            .zip(&standard)
            .map(|(trial, standard)| Ok(trial.with_hosts(&guests::hosts(standard)?)))
            .collect()
    }
}

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The scenario of a trial is not valid, most likely as the algorithm is not. The trial's name stands for the file.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// A run failed.
    #[error("{trial}: {source}")]
    Run {
        /// Name of the trial.
        trial: String,
        /// Why.
        source: RunError,
    },
    /// It was stopped.
    #[error("stopped before all trials were run")]
    Stopped,
}

/// The progress of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance<'a> {
    /// The trial whose run has just ended; empty before the first.
    pub trial: &'a str,
    /// Runs that have ended.
    pub done: usize,
    /// All runs.
    pub of: usize,
}

/// A scenario of a trial, by name: "coexistence, reno, 1 BDP".
struct Prepared {
    shown: Shown,
    tested: Scenario,
    baseline: Option<Scenario>,
    compared: Compared,
    figures: Vec<Figure>,
}

/// One run to make: the number of its trial, its seed, and whether it is the baseline's.
type Job = (usize, u64, bool);

/// What is kept of a run.
struct Made {
    summary: Summary,
    course: Course,
}

/// Evaluates an algorithm, on all cores.
///
/// `observe` is called from several threads, before the first run, during and after each; it can stop the evaluation.
///
/// # Errors
/// The first failure of any run, or [`Stopped`](EvaluateError::Stopped).
pub fn evaluate(
    plan: &Plan,
    observe: &(dyn Fn(Advance<'_>) -> Control + Sync),
) -> Result<Evaluation, EvaluateError> {
    let mut prepared = Vec::new();
    let mut sizes = Vec::new();
    let mut left_out = Vec::new();
    let mut wrong = None;
    for criterion in &plan.criteria {
        let before = prepared.len();
        for trial in plan.trials(criterion)? {
            match prepare(criterion, trial) {
                Ok(trial) => prepared.push(trial),
                Err((name, diagnostics)) if plan.guests => {
                    let why = diagnostics.errors.first().map_or("", |error| &error.message);
                    left_out.push(format!("{name}: {why}"));
                    wrong.get_or_insert(diagnostics);
                }
                Err((_, diagnostics)) => return Err(algorithm::of_algorithm(diagnostics).into()),
            }
        }
        sizes.push(prepared.len() - before);
    }
    if let (Some(wrong), true) = (wrong, prepared.is_empty()) {
        return Err(wrong.into());
    }
    let seeds = 1..=u64::from(plan.seeds.max(1));
    let jobs: Vec<Job> = (0..prepared.len())
        .flat_map(|trial| seeds.clone().map(move |seed| (trial, seed)))
        .flat_map(|(trial, seed)| [(trial, seed, false), (trial, seed, true)])
        .filter(|&(trial, _, baseline)| !baseline || prepared[trial].baseline.is_some())
        .collect();
    let runs = run_all(&jobs, &prepared, plan, observe)?;
    let mut answered = prepared.into_iter().enumerate().map(|(number, mut trial)| {
        let of = |baseline| {
            jobs.iter()
                .zip(&runs)
                .filter(move |((trial, _, is_baseline), _)| *trial == number && *is_baseline == baseline)
                .map(|(_, made)| made)
                .collect::<Vec<_>>()
        };
        let (tested, baseline) = (of(false), of(true));
        trial.shown.plots = plots::figures(&plan.cc, &tested, (&baseline, trial.compared));
        (judge(&trial, &tested, &baseline), trial.shown)
    });
    let criteria =
        plan.criteria.iter().zip(sizes).filter(|(_, trials)| *trials > 0).map(|(criterion, trials)| {
            let (figures, trials): (Vec<_>, Vec<_>) = answered.by_ref().take(trials).unzip();
            Answer {
                name: criterion.name,
                section: criterion.section,
                question: criterion.question,
                figures: figures.into_iter().flatten().collect(),
                trials,
            }
        });
    Ok(Evaluation {
        cc: plan.cc.clone(),
        quick: plan.quick,
        seeds: plan.seeds.max(1),
        guests: plan.guests,
        criteria: criteria.collect(),
        left_out,
    })
}

/// Reads the scenarios of a trial; the error has the trial's name.
fn prepare(criterion: &Criterion, trial: Trial) -> Result<Prepared, (String, Diagnostics)> {
    let name = trial.name(criterion);
    let read = |text: &str| Scenario::from_toml(&name, text, &[]);
    let both =
        read(&trial.tested).and_then(|tested| Ok((tested, trial.baseline.as_deref().map(read).transpose()?)));
    match both {
        Ok((tested, baseline)) => {
            let shown = Shown { scenarios: trial.scenarios(criterion), trial: name, plots: Vec::new() };
            Ok(Prepared { shown, tested, baseline, compared: trial.compared, figures: trial.figures })
        }
        Err(wrong) => Err((name, wrong)),
    }
}

fn run_all(
    jobs: &[Job],
    prepared: &[Prepared],
    plan: &Plan,
    observe: &(dyn Fn(Advance<'_>) -> Control + Sync),
) -> Result<Vec<Made>, EvaluateError> {
    let of = jobs.len();
    if observe(Advance { trial: "", done: 0, of }) == Control::Stop {
        return Err(EvaluateError::Stopped);
    }
    let done = AtomicUsize::new(0);
    let one = |&(trial, seed, baseline): &Job| -> Result<Made, EvaluateError> {
        let Prepared { shown: Shown { trial: name, .. }, tested, baseline: standard, .. } = &prepared[trial];
        let scenario = if baseline { standard.as_ref().unwrap_or(tested) } else { tested };
        let scenario = Scenario { seed, ..scenario.clone() };
        let options = RunOptions { out: None, tables: true, ..plan.options.clone() };
        let stop = || observe(Advance { trial: "", done: done.load(Ordering::Relaxed), of });
        let outcome = run(&scenario, &options, &mut |_| stop())
            .map_err(|source| EvaluateError::Run { trial: name.clone(), source })?;
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = observe(Advance { trial: name, done: count, of });
        if let Some(Broken::Guest(why) | Broken::Lag(why) | Broken::Port(why)) = outcome.broken {
            return Err(EvaluateError::Run { trial: name.clone(), source: RunError::Live(why) });
        }
        if let Some(why) = outcome.failures.into_iter().next() {
            return Err(EvaluateError::Run { trial: name.clone(), source: RunError::Live(why) });
        }
        if !outcome.complete || answer == Control::Stop && count < of {
            return Err(EvaluateError::Stopped);
        }
        let course =
            outcome.tables.map_or_else(Course::default, |tables| Course::of(&outcome.summary, &tables));
        Ok(Made { summary: outcome.summary, course })
    };
    jobs.par_iter().with_max_len(1).map(one).collect()
}

/// The mean of values that were all measured.
fn measured(values: &[f64]) -> Option<Estimate> {
    Estimate::of(values).filter(|estimate| estimate.mean.is_finite())
}

/// Holds the figures of a trial against their bounds. The summaries are in the order of the seeds.
fn judge(trial: &Prepared, tested: &[&Made], baseline: &[&Made]) -> Vec<Judged> {
    let judge = |figure: &Figure| {
        let value = |made: &&Made| (figure.value)(&made.summary).unwrap_or(f64::NAN);
        let values: Vec<f64> = tested.iter().map(value).collect();
        let standard: Vec<f64> = baseline.iter().map(value).collect();
        let margins: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(seed, value)| figure.bound.margin(*value, standard.get(seed).copied()))
            .collect();
        let mean = measured(&values);
        Judged {
            trial: trial.shown.trial.clone(),
            figure: figure.what,
            unit: figure.unit.word(),
            mean: mean.as_ref().map(|mean| mean.mean),
            ci95: mean.and_then(|mean| mean.ci95),
            baseline: measured(&standard).map(|standard| standard.mean),
            compared: trial.compared,
            bound: figure.bound,
            verdict: Verdict::of(&margins),
        }
    };
    trial.figures.iter().map(judge).collect()
}

#[cfg(test)]
mod tests;
