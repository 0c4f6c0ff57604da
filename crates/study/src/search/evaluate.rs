//! What a measure is at points of a search: their runs, on all cores, each point only once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use warpline_lab::run::{RunError, RunOptions, run};
use warpline_net::Control;
use warpline_results::{NamedMeasure, Summary};
use warpline_scenario::search::{Point, SearchFile};
use warpline_scenario::{ClockMode, Scenario};

use super::journal::{Journal, Row, Values};
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
    /// Of an earlier search that this one goes on with: the rows of its record that were not used yet, in their order.
    earlier: VecDeque<Row>,
    /// What was measured at points; none where there was nothing to measure, or the scenario cannot be run.
    known: BTreeMap<Values, Option<f64>>,
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
        (journal, makers, earlier): (Journal, Makers<'a>, Vec<Row>),
        observe: &'a (dyn Fn(Advance) -> Control + Sync),
    ) -> Result<Evaluator<'a>, SearchError> {
        // Live runs need the machine for themselves.
        let live = search.scenario.clock.mode != ClockMode::Virtual;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(if live { 1 } else { jobs }).build();
        let pool = pool.map_err(|error| {
            SearchError::Run(RunError::Build(format!("no threads for the search: {error}")))
        })?;
        let (earlier, known, phase, best) = (VecDeque::from(earlier), BTreeMap::new(), Phase::Base, None);
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

    /// Writes the record, of which the rows were kept back, and from now on after each step.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin_record(&mut self) -> Result<(), SearchError> {
        self.journal.hold(false);
        Ok(self.journal.write(&self.earlier)?)
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
    /// are recorded. Also if a point that is to be run needs a kernel or a stack that made rows of the record and cannot be read now. Then none of the
    /// points is run.
    pub(super) fn values(&mut self, points: &[Point]) -> Result<Vec<Option<f64>>, SearchError> {
        let keys: Vec<_> = points.iter().map(|point| self.search.values(point)).collect();
        let mut new: Vec<usize> = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            if !self.known.contains_key(key) && new.iter().all(|&other| keys[other] != *key) {
                new.push(place);
            }
        }
        let phase = self.phase.word().to_owned();
        let mut rows: Vec<(usize, Row)> = Vec::new();
        let mut to_run: Vec<usize> = Vec::new();
        for place in new {
            let found = self.earlier.iter().position(|row| row.values == keys[place]);
            match found.and_then(|found| self.earlier.remove(found)) {
                // What made these runs then stays with them, whatever is there now.
                Some(row) => rows.push((place, Row { phase: phase.clone(), ..row })),
                None => to_run.push(place),
            }
        }
        let mut builds: Vec<Option<String>> = vec![None; to_run.len()];
        if let (Some(record), false) = (self.journal.path(), to_run.is_empty()) {
            // Read before the runs, since what is replaced during them has not made them; and read again, since what was replaced before them does.
            self.makers.forget();
            for (builds, &place) in builds.iter_mut().zip(&to_run) {
                // The rows that were taken from the earlier record above are in its file still.
                self.makers.refuse_lost(&keys[place], record)?;
                *builds = self.makers.at(&keys[place]).names();
            }
        }
        let found = self.run_all(&to_run.iter().map(|&place| &points[place]).collect::<Vec<_>>());
        let (values, error) = match found {
            Ok(values) => (values, None),
            Err((values, error)) => (values, Some(error)),
        };
        rows.extend(to_run.iter().zip(builds).zip(values).filter_map(|((&place, builds), value)| {
            let (phase, values) = (phase.clone(), keys[place].clone());
            Some((place, Row { phase, values, value: value?, builds }))
        }));
        rows.sort_unstable_by_key(|(place, _)| *place);
        for (_, row) in rows {
            self.journal.add(&row)?;
            self.known.insert(row.values, row.value);
        }
        // While an earlier search is gone through again, its record stays as it is.
        if !to_run.is_empty() {
            self.journal.write(&self.earlier)?;
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

    /// How many points have no value, and why the first of them is no scenario, if that is the reason.
    pub(super) fn without_value(&self) -> Option<(usize, Option<String>)> {
        let mut without = self.known.iter().filter(|(_, value)| value.is_none()).map(|(values, _)| values);
        let count = without.clone().count();
        let wrong = |values| self.search.with(values, false).err()?.errors.into_iter().next();
        without.next().map(|first| (count, wrong(first).map(|error| error.message)))
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
                Err(SearchError::Scenario(self.search.wrong_measure(&wrong.message, wrong.help)))
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
    pub(super) fn by_seed(&mut self, point: &Point, against: bool) -> Result<Vec<f64>, SearchError> {
        // Of a search that is stopped the point is kept without these runs, so it needs nothing for them.
        if self.tell(0) == Control::Stop {
            return Err(SearchError::Stopped);
        }
        if let Some(record) = self.journal.path() {
            self.makers.forget();
            self.makers.refuse_lost(&self.search.values(point), record)?;
        }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{journal, over_two_hosts};
    use super::*;

    fn go_on(_: Advance) -> Control {
        Control::Continue
    }

    /// A search over seeds, with these other keys of the scenario.
    fn over_seeds(directory: &Path, base: &str) -> SearchFile {
        over_two_hosts(directory, base, "vary = { seed = { from = 1, to = 1000 } }\n")
    }

    /// Looks for the worst point of `file`, with a record in a directory; `makers` and the rows are those of an earlier one.
    fn evaluator<'a>(
        file: &'a SearchFile,
        options: &'a RunOptions,
        directory: &Path,
        (makers, earlier): (Makers<'a>, Vec<Row>),
    ) -> Evaluator<'a> {
        let measure = NamedMeasure::parse(&file.measure).unwrap();
        let record = (Journal::new(Some(directory), file.keys()).unwrap(), makers, earlier);
        let mut evaluator = Evaluator::new(file, measure, options, 1, record, &go_on).unwrap();
        evaluator.phase = Phase::Search;
        evaluator
    }

    #[test]
    fn what_is_not_used_yet_of_an_earlier_record_stays_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let (file, options) = (over_seeds(directory.path(), ""), RunOptions::default());
        let point = |share: f64| file.draw(&[share]);
        let row = |share: f64| Row {
            phase: "search".to_owned(),
            values: file.values(&point(share)),
            value: Some(share),
            builds: Some(String::new()),
        };
        let earlier = (Makers::new(&file), vec![row(0.1), row(0.3), row(0.5)]);
        let mut evaluator = evaluator(&file, &options, directory.path(), earlier);
        let record = || journal::read(directory.path(), file.keys());
        evaluator.values(&[point(0.7)]).unwrap();
        assert_eq!(record()[1..], [row(0.1), row(0.3), row(0.5)]);
        assert_eq!(evaluator.values(&[point(0.9), point(0.3)]).unwrap()[1], Some(0.3));
        let points: Vec<Values> = record().into_iter().map(|row| row.values).collect();
        assert_eq!(points, [0.7, 0.9, 0.3, 0.1, 0.5].map(|share| row(share).values));
    }

    #[cfg(live)]
    #[test]
    fn the_build_of_a_stack_is_that_which_ran_the_point() {
        let directory = tempfile::tempdir().unwrap();
        let host = "host = [{ name = \"a\", endpoint = \"stack:object\", library = \"./mine.so\" }]\n";
        let (file, options) = (over_seeds(directory.path(), host), RunOptions::default());
        let point = |share: f64| file.draw(&[share]);
        let builds = Some("mine-before".to_owned());
        let earlier =
            Row { phase: "search".to_owned(), values: file.values(&point(0.5)), value: None, builds };
        let mut evaluator = evaluator(&file, &options, directory.path(), (Makers::new(&file), vec![earlier]));
        // It is no shared object, so these points have no value.
        for (content, points) in [("one", vec![point(0.1)]), ("mended", vec![point(0.5), point(0.9)])] {
            std::fs::write(directory.path().join("mine.so"), content).unwrap();
            assert!(evaluator.values(&points).unwrap().iter().all(Option::is_none));
        }
        let rows = journal::read(directory.path(), file.keys()).into_iter();
        let builds: Vec<String> = rows.filter_map(|row| row.builds).collect();
        let [first, before, mended] = &builds[..] else { panic!("{builds:?}") };
        assert_eq!(before, "mine-before");
        assert_ne!(first, mended);
    }

    #[cfg(live)]
    #[test]
    fn a_point_that_needs_what_is_missing_is_refused_only_if_it_is_to_be_run() {
        use super::super::{SearchOptions, found};

        let directory = tempfile::tempdir().unwrap();
        let (place, out) = (directory.path(), directory.path().join("out"));
        let host = "host = [{ name = \"a\", endpoint = \"stack:object\", library = \"./one.so\" }]\n";
        let keys = r#"
            [vary]
            seed = { from = 1, to = 1000 }
            "host[a].library" = { choices = ["./one.so", "./two.so"] }
        "#;
        let file = over_two_hosts(place, host, keys);
        // No shared object: points with it have no value.
        std::fs::write(place.join("one.so"), "one").unwrap();
        let (options, resume) =
            (RunOptions::default(), SearchOptions { resume: true, ..SearchOptions::default() });
        let mut makers = Makers::new(&file);
        found::prepare(&out, &file, &resume, &mut makers).unwrap();
        found::begin(&out, &file, &resume).unwrap();
        let point = |seed: f64, stack: f64| file.draw(&[seed, stack]);
        let kept = Row {
            phase: "search".to_owned(),
            values: file.values(&point(0.5, 0.9)),
            value: Some(2.0),
            builds: Some("two-0123456789ab".to_owned()),
        };
        let mut journal = Journal::new(Some(out.as_path()), file.keys()).unwrap();
        journal.add(&kept).unwrap();
        journal.write(&VecDeque::new()).unwrap();
        let earlier = found::prepare(&out, &file, &resume, &mut makers).unwrap().unwrap();
        assert_eq!(earlier, std::slice::from_ref(&kept));
        let mut evaluator = evaluator(&file, &options, &out, (makers, earlier));
        let values = evaluator.values(&[point(0.5, 0.9), point(0.1, 0.1)]).unwrap();
        assert_eq!(values, [Some(2.0), None]);
        assert_eq!(evaluator.without_value().map(|(count, _)| count), Some(1));
        let another = evaluator.values(&[point(0.1, 0.9)]).map(drop);
        let by_seed = evaluator.by_seed(&point(0.5, 0.9), false).map(drop);
        for missing in [another, by_seed] {
            let told = missing.unwrap_err().to_string();
            assert!(told.contains("two.so") && told.contains("put it back"), "{told}");
        }
        let rows = journal::read(&out, file.keys());
        assert_eq!((rows.len(), &rows[0]), (2, &kept));
    }
}
