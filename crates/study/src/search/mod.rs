//! The scenario that hurts most: a search over ranges in a scenario for what makes a measure as small or as large as can be, and the counterexample
//! made small.
//!
//! Searches of this kind have found what tests had missed: Ray and Seshan, CC-Fuzz (HotNets 2022), evolve traces and cross traffic against congestion
//! controls. Here what may be varied is said in a [`SearchFile`]; the points evolve (`evolve`), each is run on all cores, once (`evaluate`), and of the worst
//! all that does not matter is taken away again (`small`).
//!
//! The points depend on the seed of the search only, not on the number of cores. So a search that was killed goes on where it was: it begins anew, and
//! takes from its record what it had measured (`journal`), unless another build of the program, or of a kernel or stack of one of its points, measured it
//! (`makers`). What cannot be read now may have measured points of the record, but no run that is left may need it.

mod evaluate;
mod evolve;
mod found;
mod journal;
mod makers;
mod small;

use std::path::PathBuf;

use warpline_lab::run::{RunError, RunOptions};
use warpline_net::Control;
use warpline_report::ReportError;
use warpline_results::{NamedMeasure, ResultError};
use warpline_scenario::Diagnostics;
use warpline_scenario::search::{COARSER, Part, Point, SearchFile};

use evaluate::Evaluator;
use evolve::Evolution;
use journal::Journal;
use makers::Makers;

pub use found::{AGAINST, BASE, FOUND};
pub use journal::EVALUATIONS_FILE;

/// So many populations in a row without a new point end a search: there are no others.
const MOST_IDLE: u32 = 10;

/// What else belongs to a search.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Runs at the same time; 0: one per core.
    pub jobs: usize,
    /// The directory for the record, the counterexample and its runs; none to write nothing.
    pub out: Option<PathBuf>,
    /// Whether it goes on from the record in that directory.
    pub resume: bool,
    /// What tells this program from every other version and build of it: what another one has measured is measured again.
    pub build: String,
    /// Takes what a person should know, before anything is run: what is in the record is measured again.
    pub note: Option<fn(&str)>,
    /// Own congestion controls and the like.
    pub run: RunOptions,
}

/// What a search is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Runs the scenario as it is.
    Base,
    /// Looks for the worst point.
    Search,
    /// Makes it small.
    Small,
}

impl Phase {
    /// Its word in the record.
    fn word(self) -> &'static str {
        match self {
            Phase::Base => "base",
            Phase::Search => "search",
            Phase::Small => "small",
        }
    }
}

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advance {
    /// What it is doing.
    pub phase: Phase,
    /// Points that have been run, that of the scenario as it is among them.
    pub count: usize,
    /// The best value so far.
    pub best: Option<f64>,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The search file or its scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// A run failed, for another reason than what was varied.
    #[error(transparent)]
    Run(RunError),
    /// The record or the counterexample could not be written.
    #[error(transparent)]
    Results(#[from] ResultError),
    /// There is a search in the directory already.
    #[error("{} holds a search already; go on with it (--resume), or name another directory", .0.display())]
    Exists(PathBuf),
    /// There is something else in the directory, perhaps another search.
    #[error("{} holds something else than this search; name another directory", .0.display())]
    Occupied(PathBuf),
    /// A kernel or a stack that ran points of the record is not there now, or cannot be read, and a run that is left needs it.
    #[error(
        "{} has points of a kernel or a stack that cannot be read now, and a run that is left needs it; put it back and go on (--resume), or name another directory (--out): {why}",
        record.display()
    )]
    Missing {
        /// The record of the search.
        record: PathBuf,
        /// Which one, and why.
        why: String,
    },
    /// A report could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// It was stopped before anything was found.
    #[error("stopped before the scenario as it is was run")]
    Stopped,
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The measure.
    pub measure: NamedMeasure,
    /// Its value in the scenario as it is. This and the others are means over the seeds, and what the measure was divided by if there is `against`.
    pub base: f64,
    /// How many points were tried.
    pub count: usize,
    /// How many of them have no value, if any, and the mistake in the scenario of the first of those, if it has one. Otherwise its run failed, or there was nothing
    /// to measure.
    pub without_value: Option<(usize, Option<String>)>,
    /// The worst point; none if no point is worse than the scenario as it is.
    pub worst: Option<Worst>,
    /// Whether it came to its end.
    pub complete: bool,
}

/// The worst point of a search.
#[derive(Clone, Debug)]
pub struct Worst {
    /// Its value before it was made small.
    pub before: f64,
    /// Its value.
    pub value: f64,
    /// Its changes of the scenario, as `--set` writes them.
    pub sets: Vec<String>,
    /// The file with the counterexample, if it was written.
    pub file: Option<PathBuf>,
}

/// Searches.
///
/// `observe` is called from several threads, before and during each run; it can stop the search. The worst point until then is kept, but is not made small.
///
/// # Errors
/// If the measure does not exist, a run failed, or something could not be written.
pub fn search(
    search: &SearchFile,
    options: &SearchOptions,
    observe: &(dyn Fn(Advance) -> Control + Sync),
) -> Result<Outcome, SearchError> {
    let measure = NamedMeasure::parse(&search.measure)
        .map_err(|wrong| search.wrong_measure(&wrong.message, wrong.help))?;
    let out = options.out.as_deref();
    let mut makers = Makers::new(search);
    let earlier = match out {
        Some(directory) => found::prepare(directory, search, options, &mut makers)?,
        None => None,
    };
    // What is wrong with the measure may show in the first run only. Until then, a search that begins writes nothing that the mended one would meet.
    let anew = out.filter(|_| earlier.is_none());
    let mut journal = Journal::new(out, search.keys())?;
    journal.hold(anew.is_some());
    let record = (journal, makers, earlier.unwrap_or_default());
    let mut evaluator = Evaluator::new(search, measure.clone(), &options.run, options.jobs, record, observe)?;
    let base =
        unchanged(search, &mut evaluator).inspect_err(|_| anew.into_iter().for_each(found::give_up))?;
    if let Some(directory) = anew {
        found::begin(directory, search, options)?;
        evaluator.begin_record()?;
    }
    let mut course = Course { search, evaluator, base, worst: None };
    let ended = course.evolve().and_then(|()| course.make_small());
    let complete = match ended {
        Ok(()) => true,
        Err(SearchError::Stopped) => false,
        Err(error) => return Err(error),
    };
    let before = course.evaluator.best;
    let worst = course.worst.take();
    let (count, without_value) = (course.evaluator.count(), course.evaluator.without_value());
    let mut outcome = Outcome { measure, base, count, without_value, worst: None, complete };
    if let Some((point, value)) = worst {
        let before = before.unwrap_or(value);
        let sets = search.sets(&point);
        let mut worst = Worst { before, value, sets, file: None };
        if let Some(directory) = out {
            worst.file = Some(found::write(directory, &mut course.evaluator, &point, &worst, base)?);
        }
        outcome.worst = Some(worst);
    }
    Ok(outcome)
}

/// The measure in the scenario as it is.
fn unchanged(search: &SearchFile, evaluator: &mut Evaluator<'_>) -> Result<f64, SearchError> {
    let base = evaluator.values(&[search.unchanged()])?.into_iter().next().flatten();
    Ok(base.ok_or_else(|| {
        let message = "the scenario as it is has no value of this: there was nothing to measure";
        search.wrong_measure(message, Vec::new())
    })?)
}

/// A search under way.
struct Course<'a> {
    search: &'a SearchFile,
    evaluator: Evaluator<'a>,
    base: f64,
    /// The worst point so far, and its value.
    worst: Option<(Point, f64)>,
}

impl Course<'_> {
    /// What a value costs evolution, which looks for the least.
    fn cost(&self, value: Option<f64>) -> f64 {
        value.map_or(f64::INFINITY, |value| if self.search.maximise { -value } else { value })
    }

    /// Looks for the worst point.
    fn evolve(&mut self) -> Result<(), SearchError> {
        self.evaluator.phase = Phase::Search;
        let (mut tried, mut idle, mut seed) = (0, 0, self.search.seed);
        let new = |seed| Evolution::new(self.search.dimensions(), self.search.population, seed);
        let mut evolution = new(seed);
        while tried < self.search.evaluations && idle < MOST_IDLE {
            let count = self.search.population.min(self.search.evaluations - tried);
            let points: Vec<Point> =
                evolution.ask(count as usize).iter().map(|shares| self.search.draw(shares)).collect();
            let before = self.evaluator.count();
            // If it is stopped, those points count that were run until then.
            let ended = self.evaluator.values(&points).map(|_| ());
            let values = self.evaluator.known(&points);
            let costs: Vec<f64> = values.iter().map(|value| self.cost(*value)).collect();
            for (point, value) in points.into_iter().zip(values) {
                let least = self.worst.as_ref().map_or(self.base, |(_, value)| *value);
                if let Some(value) = value.filter(|&value| self.cost(Some(value)) < self.cost(Some(least))) {
                    self.worst = Some((point, value));
                    self.evaluator.best = Some(value);
                }
            }
            ended?;
            evolution.tell(&costs);
            tried += count;
            // A population whose points are all alike finds nothing more.
            if self.evaluator.count() == before {
                idle += 1;
                seed = seed.wrapping_add(1);
                evolution = new(seed);
            } else {
                idle = 0;
            }
        }
        Ok(())
    }

    /// Takes away from the worst point what does not matter, and rounds its numbers.
    fn make_small(&mut self) -> Result<(), SearchError> {
        self.evaluator.phase = Phase::Small;
        let Some((whole, worst)) = self.worst.clone() else { return Ok(()) };
        let least = self.base + self.search.keep * (worst - self.base);
        let mut first = |points: &[Point]| -> Result<Option<usize>, SearchError> {
            let values = self.evaluator.values(points)?;
            let bound = self.cost(Some(least));
            Ok(values.iter().position(|value| self.cost(*value) <= bound))
        };
        let parts = small::smallest(&whole.parts(), &mut |candidates: &[Vec<Part>]| {
            first(&candidates.iter().map(|parts| whole.with(parts)).collect::<Vec<_>>())
        })?;
        let mut point = whole.with(&parts);
        for number in 0..point.numbers() {
            let rounded: Vec<Point> = COARSER.iter().map(|&digits| point.rounded(number, digits)).collect();
            if let Some(place) = first(&rounded)? {
                point.clone_from(&rounded[place]);
            }
        }
        let value = self.evaluator.values(std::slice::from_ref(&point))?.into_iter().next().flatten();
        self.worst = value.map(|value| (point, value));
        Ok(())
    }
}

/// For tests: a search over two hosts with a flow, with these other keys of the scenario and of the search.
#[cfg(test)]
fn over_two_hosts(directory: &std::path::Path, base: &str, keys: &str) -> SearchFile {
    let base = format!(
        "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n\
         flow = [{{ name = \"bulk\", from = \"a\", to = \"b\" }}]\n{base}"
    );
    let text = format!("scenario = \"base.toml\"\nminimise = \"flow.bulk.goodput\"\n{keys}");
    let base = warpline_scenario::Source::from_text("base.toml", &base, directory);
    SearchFile::over("test.search.toml", &text, &base).unwrap_or_else(|wrong| panic!("{wrong}"))
}
