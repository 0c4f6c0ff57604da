//! What a measure is at points of a search: their runs, on all cores, each point only once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use warpline_lab::run::{RunError, RunOptions, run};
use warpline_net::Control;
use warpline_results::{NamedMeasure, Summary};
use warpline_scenario::search::{Point, SearchFile};
use warpline_scenario::{ClockMode, Scenario};

use super::journal::{Journal, Known, Row};
use super::makers::Makers;
use super::{Advance, Phase, SearchError};

/// Runs points and remembers what came of them.
pub(super) struct Evaluator<'a> {
    search: &'a SearchFile,
    pub(super) measure: NamedMeasure,
    options: &'a RunOptions,
    pool: rayon::ThreadPool,
    observe: &'a (dyn Fn(Advance) -> Control + Sync),
    journal: Journal,
    makers: Makers<'a>,
    /// Of an earlier search that this one goes on with.
    earlier: Known,
    known: Known,
    pub(super) phase: Phase,
    /// The best value so far.
    pub(super) best: Option<f64>,
}

/// One run to make: the number of its point, its seed, and whether it is that of `against`.
type Job = (usize, u64, bool);

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        search: &'a SearchFile,
        measure: NamedMeasure,
        options: &'a RunOptions,
        jobs: usize,
        (journal, makers, earlier): (Journal, Makers<'a>, Known),
        observe: &'a (dyn Fn(Advance) -> Control + Sync),
    ) -> Result<Evaluator<'a>, SearchError> {
        // Live runs need the machine for themselves.
        let live = search.scenario.clock.mode != ClockMode::Virtual;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(if live { 1 } else { jobs }).build();
        let pool = pool.map_err(|error| {
            SearchError::Run(RunError::Build(format!("no threads for the search: {error}")))
        })?;
        let (known, phase, best) = (Known::new(), Phase::Base, None);
        Ok(Evaluator {
            search,
            measure,
            options,
            pool,
            observe,
            journal,
            makers,
            earlier,
            known,
            phase,
            best,
        })
    }

    /// What is searched.
    pub(super) fn search(&self) -> &'a SearchFile {
        self.search
    }

    /// How runs are made.
    pub(super) fn options(&self) -> &'a RunOptions {
        self.options
    }

    /// How many points are known.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    fn seeds(&self) -> Vec<u64> {
        let first = self.search.scenario.seed;
        (0..u64::from(self.search.seeds)).map(|n| first.wrapping_add(n)).collect()
    }

    /// The values of the points, in their order.
    ///
    /// # Errors
    /// If it was stopped, a run failed for another reason than its scenario, or the record cannot be written. The points that were run wholly until then
    /// are recorded.
    pub(super) fn values(&mut self, points: &[Point]) -> Result<Vec<Option<f64>>, SearchError> {
        let keys: Vec<_> = points.iter().map(|point| self.search.values(point)).collect();
        let mut new: Vec<usize> = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            if !self.known.contains_key(key) && new.iter().all(|&other| keys[other] != *key) {
                new.push(place);
            }
        }
        let mut builds: BTreeMap<usize, Option<String>> = BTreeMap::new();
        if self.journal.is_kept() {
            // Before the runs: what is replaced while they go on has not made them.
            builds.extend(new.iter().map(|&place| (place, self.makers.at(&keys[place]))));
        }
        let (old, to_run): (Vec<usize>, Vec<usize>) =
            new.iter().partition(|&&place| self.earlier.contains_key(&keys[place]));
        let found = self.run_all(&to_run.iter().map(|&place| &points[place]).collect::<Vec<_>>());
        let (values, error) = match found {
            Ok(values) => (values, None),
            Err((values, error)) => (values, Some(error)),
        };
        let mut outcomes: Vec<(usize, Option<f64>)> =
            old.into_iter().map(|place| (place, self.earlier[&keys[place]])).collect();
        outcomes.extend(to_run.iter().zip(values).filter_map(|(&place, value)| Some((place, value?))));
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        for (place, value) in outcomes {
            let builds = builds.remove(&place).flatten();
            let row = Row { values: keys[place].clone(), value, builds };
            self.journal.add(self.phase.word(), &row)?;
            self.known.insert(row.values, value);
        }
        // While an earlier search is gone through again, its record stays as it is.
        if !to_run.is_empty() {
            self.journal.write()?;
        }
        match error {
            Some(error) => Err(error),
            None => Ok(self.known(points)),
        }
    }

    /// What is known of points, in their order; none of one that was not run, or has no value.
    pub(super) fn known(&self, points: &[Point]) -> Vec<Option<f64>> {
        let one = |point: &Point| self.known.get(&self.search.values(point)).copied().flatten();
        points.iter().map(one).collect()
    }

    /// The value of each point that was run wholly. An error comes with those that were until then.
    #[expect(clippy::type_complexity, reason = "a point may be without a run, or its runs without a value")]
    fn run_all(
        &self,
        points: &[&Point],
    ) -> Result<Vec<Option<Option<f64>>>, (Vec<Option<Option<f64>>>, SearchError)> {
        let seeds = self.seeds();
        let sides: &[bool] = if self.search.against.is_empty() { &[false] } else { &[false, true] };
        let jobs: Vec<Job> = (0..points.len())
            .flat_map(|point| seeds.iter().map(move |&seed| (point, seed)))
            .flat_map(|(point, seed)| sides.iter().map(move |&against| (point, seed, against)))
            .collect();
        let done = AtomicUsize::new(0);
        let per_point = seeds.len() * sides.len();
        let one = |&(point, seed, against): &Job| {
            let tell = || self.tell(done.load(Ordering::Relaxed) / per_point);
            let value = self.one(points[point], seed, against, &tell);
            done.fetch_add(1, Ordering::Relaxed);
            value
        };
        let results: Vec<Result<Option<f64>, SearchError>> =
            self.pool.install(|| jobs.par_iter().with_max_len(1).map(one).collect());
        let mut error = None;
        let values = results.chunks(per_point).map(|runs| -> Option<Option<f64>> {
            let runs: Option<Vec<Option<f64>>> = runs.iter().map(|run| run.as_ref().ok().copied()).collect();
            let runs: Option<Vec<f64>> = runs?.into_iter().collect();
            Some(runs.and_then(|runs| mean_ratio(&runs, sides.len())))
        });
        let values: Vec<_> = values.collect();
        for result in results {
            if let Err(wrong) = result
                // Why it failed says more than that the others were stopped.
                && (error.is_none() || matches!(error, Some(SearchError::Stopped)))
            {
                error = Some(wrong);
            }
        }
        match error {
            Some(error) => Err((values, error)),
            None => Ok(values),
        }
    }

    /// Says how far the search is, with so many points of the present step.
    pub(super) fn tell(&self, done: usize) -> Control {
        let count = self.known.len() + done;
        (self.observe)(Advance { phase: self.phase, count, best: self.best })
    }

    /// The measure in one run; none if it has none.
    fn one(
        &self,
        point: &Point,
        seed: u64,
        against: bool,
        tell: &dyn Fn() -> Control,
    ) -> Result<Option<f64>, SearchError> {
        if tell() == Control::Stop {
            return Err(SearchError::Stopped);
        }
        // What ranges cannot say, as of outages that overlap: such a point is no counterexample.
        let Ok(scenario) = self.search.at(point, against) else { return Ok(None) };
        let Some(summary) = self.summary(scenario, seed, tell)? else { return Ok(None) };
        match self.measure.value(&summary) {
            Ok(value) => Ok(value),
            Err(wrong) if self.phase == Phase::Base => {
                Err(SearchError::Scenario(self.search.wrong_measure(&wrong.message, &wrong.help)))
            }
            Err(_) => Ok(None),
        }
    }

    /// The summary of a run; none if the scenario cannot be built, or its programs failed.
    fn summary(
        &self,
        scenario: Scenario,
        seed: u64,
        tell: &dyn Fn() -> Control,
    ) -> Result<Option<Summary>, SearchError> {
        // What the scenario expects of its results is not checked here.
        let scenario = Scenario { seed, replications: None, expect: Vec::new(), ..scenario };
        // Stalls are measured from the samples of tables.
        let options = RunOptions { out: None, tables: true, ..self.options.clone() };
        match run(&scenario, &options, &mut |_| tell()) {
            Ok(outcome) if !outcome.complete && outcome.broken.is_none() && outcome.failures.is_empty() => {
                Err(SearchError::Stopped)
            }
            Ok(outcome) => {
                let fine = outcome.complete && outcome.failures.is_empty();
                Ok(Some(outcome.summary).filter(|_| fine))
            }
            Err(RunError::Build(why)) if self.phase == Phase::Base => {
                Err(SearchError::Run(RunError::Build(why)))
            }
            Err(RunError::Build(_)) => Ok(None),
            Err(error) => Err(SearchError::Run(error)),
        }
    }

    /// The measure itself at a point, with each seed.
    ///
    /// # Errors
    /// As [`values`](Self::values).
    pub(super) fn by_seed(&self, point: &Point, against: bool) -> Result<Vec<f64>, SearchError> {
        let one = |seed: u64| self.one(point, seed, against, &|| self.tell(0));
        let values: Result<Vec<Option<f64>>, SearchError> =
            self.pool.install(|| self.seeds().into_par_iter().map(one).collect());
        Ok(values?.into_iter().flatten().collect())
    }
}

/// The mean of the measure over runs, or of what it is in the first of two divided by what it is in the second.
fn mean_ratio(runs: &[f64], sides: usize) -> Option<f64> {
    let one = |pair: &[f64]| match pair {
        [value, against] => value / against,
        _ => pair.iter().sum(),
    };
    let values = runs.chunks(sides).map(one);
    let mean = values.sum::<f64>() / (runs.len() / sides) as f64;
    Some(mean).filter(|mean| mean.is_finite())
}
