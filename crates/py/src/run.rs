//! Running scenarios and reading runs back, for Python.
//!
//! A run holds the interpreter only while it calls Python: the observer of its progress, the check for Ctrl-C, and
//! congestion controls written in Python.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};
use warpline_lab::report::write_report;
use warpline_lab::run::parts::Cores;
use warpline_lab::run::{self, Broken, RunOptions};
use warpline_net::Control;
use warpline_results::{self as results, Replications, ResultError, Summary, TableKind, Tables};
use warpline_scenario::LARGEST_SEED;
use warpline_study::replicate;

use crate::cc::Failure;
use crate::custom::custom;
use crate::errors::run_error;
use crate::scenario::Scenario;
use crate::table::Table;

/// How far a run has come.
#[pyclass(frozen, get_all, module = "warpline._warpline")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Time that has passed in the run, in seconds.
    simulated_s: f64,
    /// Duration of the whole run, in seconds.
    duration_s: f64,
    /// Events handled.
    events: u64,
}

#[pymethods]
impl Progress {
    /// For tests of an observer outside a run.
    #[new]
    #[pyo3(signature = (simulated_s, duration_s, events = 0))]
    fn new(simulated_s: f64, duration_s: f64, events: u64) -> Self {
        Progress { simulated_s, duration_s, events }
    }
    /// Share of the run that is done, 0 to 1.
    #[getter]
    fn fraction(&self) -> f64 {
        if self.duration_s > 0.0 { (self.simulated_s / self.duration_s).min(1.0) } else { 1.0 }
    }
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

/// Where a run's tables are kept.
#[derive(Debug)]
enum Store {
    Memory(Box<Tables>),
    Directory(Box<results::Run>),
}

/// A run's results. People use `warpline.Run`, which is built on this.
#[pyclass(frozen, module = "warpline._warpline", name = "NativeRun")]
#[derive(Debug)]
pub(crate) struct Run {
    summary: Summary,
    store: Store,
    failures: Vec<String>,
}

#[pymethods]
impl Run {
    /// Opens a run directory.
    #[staticmethod]
    fn open(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let run = py.detach(|| results::Run::open(&directory)).map_err(|error| run_error(py, &error))?;
        let (summary, failures) = (run.summary().clone(), Vec::new());
        Ok(Run { summary, store: Store::Directory(Box::new(run)), failures })
    }

    /// The run directory; None for a run that is in memory only.
    #[getter]
    fn directory(&self) -> Option<&Path> {
        match &self.store {
            Store::Memory(_) => None,
            Store::Directory(run) => Some(run.path()),
        }
    }

    /// What failed: stacks, programs, what the scenario expects. Empty for a run that was opened.
    #[getter]
    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    /// The summary as JSON text: the bytes of summary.json.
    fn summary_json(&self) -> String {
        self.summary.to_json()
    }

    /// A table by its name ("flows", "series_links"); empty where nothing of it was recorded.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = match &self.store {
            Store::Memory(tables) => {
                tables.iter().find(|(known, _)| *known == name).map(|(_, table)| table.clone())
            }
            Store::Directory(run) => {
                let read = || {
                    run.confirm()?;
                    TableKind::named(name).map(|kind| kind.read(run)).transpose()
                };
                py.detach(read).map_err(|error| run_error(py, &error))?
            }
        };
        let unknown = || {
            pyo3::exceptions::PyKeyError::new_err(format!(
                "no table {name:?}; the tables are {}",
                TableKind::all().iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
            ))
        };
        let table = table.ok_or_else(unknown)?;
        Ok(Table::new(table.schema, table.batches))
    }

    /// For pickle: a run in memory, from what `__reduce__` gave.
    #[staticmethod]
    fn _restore(summary: &str, failures: Vec<String>, tables: BTreeMap<String, Py<Table>>) -> PyResult<Self> {
        let invalid = |text: String| PyValueError::new_err(text);
        let summary = serde_json::from_str(summary).map_err(|error| invalid(error.to_string()))?;
        let tables = Tables::each(|name| {
            let table = tables.get(name).ok_or_else(|| invalid(format!("no table {name:?}")))?;
            Ok::<_, PyErr>(table.get().to_results())
        })?;
        Ok(Run { summary, store: Store::Memory(Box::new(tables)), failures })
    }

    /// For pickle: a run directory is named, and opened again; a run in memory goes along with its tables.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, run) = (slf.py(), slf.get());
        match &run.store {
            Store::Directory(own) => {
                own.confirm().map_err(|error| run_error(py, &error))?;
                let path = std::path::absolute(own.path())?;
                let made = (path, run.summary.to_json(), run.failures.clone()).into_pyobject(py)?;
                Ok((slf.get_type().getattr("_reopen")?, made))
            }
            Store::Memory(tables) => {
                let tables: BTreeMap<_, _> = tables
                    .iter()
                    .map(|(name, table)| (name, Table::new(Arc::clone(&table.schema), table.batches.clone())))
                    .collect();
                let made = (run.summary.to_json(), run.failures.clone(), tables).into_pyobject(py)?;
                Ok((slf.get_type().getattr("_restore")?, made))
            }
        }
    }

    /// For pickle: a run directory that still holds the run of this summary, with the failures of the run that wrote it.
    #[staticmethod]
    fn _reopen(py: Python<'_>, directory: PathBuf, summary: &str, failures: Vec<String>) -> PyResult<Self> {
        let run = Self::open(py, directory.clone())?;
        if run.summary.to_json() != summary {
            return Err(run_error(py, &ResultError::Replaced(directory)));
        }
        Ok(Run { failures, ..run })
    }

    /// Captures (.pcapng) and qlog files (.sqlog) in the run directory.
    fn recordings(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        match &self.store {
            Store::Memory(_) => Ok(Vec::new()),
            Store::Directory(run) => {
                run.confirm().and_then(|()| run.recordings()).map_err(|error| run_error(py, &error))
            }
        }
    }

    /// Writes the report page of this run and of `others` beside it.
    #[pyo3(signature = (out, others = Vec::new()))]
    fn report(&self, py: Python<'_>, out: PathBuf, others: Vec<Py<Run>>) -> PyResult<()> {
        let runs: Vec<&Run> = std::iter::once(self).chain(others.iter().map(Py::get)).collect();
        py.detach(|| report(&runs, &out)).map_err(|error| run_error(py, &*error))
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Writes a report. Reports are made from run directories, so runs in memory are first written to temporary ones.
fn report(runs: &[&Run], out: &Path) -> Result<(), AnyError> {
    let mut temporary = Vec::new();
    let mut paths: Vec<PathBuf> = Vec::new();
    for run in runs {
        match &run.store {
            Store::Directory(run) => {
                run.confirm()?;
                paths.push(run.path().to_owned());
            }
            Store::Memory(tables) => {
                let parent = tempfile::tempdir()?;
                // The report calls a run by the name of its directory.
                let directory =
                    parent.path().join(format!("{}-{}", run.summary.info.scenario, run.summary.info.seed));
                std::fs::create_dir(&directory)?;
                write_tables(&directory, &run.summary, tables)?;
                paths.push(directory);
                temporary.push(parent);
            }
        }
    }
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    write_report(&paths, out)?;
    Ok(())
}

/// Writes the report page of runs of several seeds: means with intervals, and each run.
#[pyfunction]
pub(crate) fn report_seeds(py: Python<'_>, out: PathBuf, runs: Vec<Py<Run>>) -> PyResult<()> {
    let runs: Vec<&Run> = runs.iter().map(Py::get).collect();
    py.detach(|| seeds_page(&runs, &out)).map_err(|error| run_error(py, &*error))
}

/// The page is made from a directory of seeds, so what it shows of each run is first put into a temporary one.
fn seeds_page(runs: &[&Run], out: &Path) -> Result<(), AnyError> {
    let parent = tempfile::tempdir()?;
    let name = runs.first().map_or("seeds", |run| run.summary.info.scenario.as_str()).replace('/', "-");
    let set = parent.path().join(name);
    for run in runs {
        let directory = results::seed_directory(&set, run.summary.info.seed);
        std::fs::create_dir_all(&directory)?;
        match &run.store {
            Store::Memory(tables) => write_tables(&directory, &run.summary, tables)?,
            Store::Directory(own) => {
                own.confirm()?;
                write_tables(&directory, &run.summary, &Tables::read(own)?)?;
            }
        }
    }
    write_report(&[set.as_path()], out)?;
    Ok(())
}

/// The seeds of which a directory holds runs, in rising order.
#[pyfunction]
pub(crate) fn seeds_in(directory: PathBuf) -> Vec<u64> {
    results::seeds_in(&directory)
}

/// Makes room for the runs of several seeds in a directory, by the rules of the command line, but runs that are there are never replaced without
/// `force`. Whether the scenario can be run is checked first,
/// so that no earlier set is removed for nothing.
#[pyfunction]
#[pyo3(signature = (scenario, directory, *, force = false, cc = BTreeMap::new()))]
pub(crate) fn prepare_seeds(
    py: Python<'_>,
    scenario: &Scenario,
    directory: PathBuf,
    force: bool,
    cc: BTreeMap<String, Py<PyAny>>,
) -> PyResult<()> {
    let failure = Failure::default();
    let own = custom(cc, &failure);
    let checked = py.detach(|| run::check(&scenario.0, &own));
    // An exception from Python is the cause of every later error.
    if let Some(raised) = failure.take() {
        return Err(raised);
    }
    checked.map_err(|error| run_error(py, &error))?;
    // Sets that earlier versions wrote from Python have no replications.json.
    let kept = !force && !results::seeds_in(&directory).is_empty();
    let prepared = if kept {
        Err(ResultError::Exists(directory))
    } else {
        py.detach(|| replicate::prepare(&directory, force))
    };
    prepared.map_err(|error| match error {
        ResultError::Exists(path) => {
            let text = format!(
                "{} holds an earlier set of seeds; name another directory, or allow it to be replaced (force=True)",
                path.display()
            );
            run_error(py, &*AnyError::from(text))
        }
        error => run_error(py, &error),
    })
}

/// Writes replications.json into the directory of these seeds' runs, as the command line does, and removes runs of other seeds. If there is
/// no run, the directory goes.
#[pyfunction]
pub(crate) fn finish_seeds(
    py: Python<'_>,
    directory: PathBuf,
    seeds: Vec<u64>,
    runs: Vec<Py<Run>>,
) -> PyResult<()> {
    let summaries: Vec<Summary> = runs.iter().map(|run| run.get().summary.clone()).collect();
    let finished = py.detach(|| {
        if summaries.is_empty() {
            // The caller reports why there is no run, and not an error of removing the directory.
            let _ = replicate::discard(&directory);
            return Ok(());
        }
        replicate::finish(&directory, &seeds, &Replications::of(&summaries))
    });
    finished.map_err(|error| run_error(py, &error))
}

/// The 97.5 % quantile of Student's t distribution: half of a 95 % interval's width in standard errors.
#[pyfunction]
pub(crate) fn student_t_975(degrees_of_freedom: u64) -> f64 {
    results::metrics::student_t_975(degrees_of_freedom)
}

/// Every table of results and its columns, with their names, units and meanings.
#[pyfunction]
pub(crate) fn result_tables(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("json")?.call_method1("loads", (results::describe::tables_json().to_string(),))
}

/// A value as people read it, to about three digits: `show("bit/s", 9.57e6)` is "9.57 Mbit/s".
#[pyfunction]
pub(crate) fn show(unit: &str, value: f64) -> PyResult<String> {
    let unknown = || pyo3::exceptions::PyValueError::new_err(format!("no unit {unit:?}"));
    Ok(results::Unit::named(unit).ok_or_else(unknown)?.show(value))
}

fn write_tables(directory: &Path, summary: &Summary, tables: &Tables) -> Result<(), AnyError> {
    std::fs::write(directory.join("summary.json"), summary.to_json())?;
    for (name, table) in tables.iter() {
        let file = File::create(directory.join(format!("{name}.parquet")))?;
        let mut writer = ArrowWriter::try_new(file, Arc::clone(&table.schema), None)?;
        for batch in &table.batches {
            writer.write(batch)?;
        }
        writer.close()?;
    }
    Ok(())
}

/// Checks for Ctrl-C and calls the observer. The run ends if the observer returns False or anything raises.
fn observe(observer: Option<&Py<PyAny>>, progress: &run::Progress, failure: &Failure) -> Control {
    if failure.is_set() {
        return Control::Stop;
    }
    let asked = Python::attach(|py| -> PyResult<bool> {
        py.check_signals()?;
        let Some(observer) = observer else { return Ok(true) };
        let progress = Progress {
            simulated_s: progress.simulated.as_secs_f64(),
            duration_s: progress.duration.as_secs_f64(),
            events: progress.events,
        };
        let answer = observer.bind(py).call1((progress,))?;
        Ok(!answer.is(PyBool::new(py, false)))
    });
    match asked {
        Ok(true) => Control::Continue,
        Ok(false) => Control::Stop,
        Err(error) => {
            failure.set(error);
            Control::Stop
        }
    }
}

/// A seed, if a scenario can have it.
pub(crate) fn scenario_seed(seed: u64) -> PyResult<u64> {
    if seed > LARGEST_SEED {
        return Err(PyValueError::new_err(format!("seed is {seed}; it can be {LARGEST_SEED} at most")));
    }
    Ok(seed)
}

/// Runs a scenario and returns the run, with the exception that stopped it if one did.
#[pyfunction]
#[pyo3(signature = (scenario, *, seed = None, out = None, force = false, report = false, observer = None, cc = BTreeMap::new(), cores = None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
pub(crate) fn run_scenario<'py>(
    py: Python<'py>,
    scenario: &Scenario,
    seed: Option<u64>,
    out: Option<PathBuf>,
    force: bool,
    report: bool,
    observer: Option<Py<PyAny>>,
    cc: BTreeMap<String, Py<PyAny>>,
    cores: Option<NonZero<usize>>,
) -> PyResult<(Run, Option<Bound<'py, PyAny>>)> {
    let failure = Failure::default();
    let mut inner = scenario.0.clone();
    inner.seed = seed.map_or(Ok(inner.seed), scenario_seed)?;
    // What is kept of this run makes this run again, and no others.
    inner.replications = None;
    let options = RunOptions {
        tables: out.is_none(),
        out,
        force,
        report,
        custom_cc: custom(cc, &failure),
        cores: Cores::asked(cores),
        ..RunOptions::default()
    };
    let outcome = py.detach(|| {
        let outcome =
            run::run(&inner, &options, &mut |progress| observe(observer.as_ref(), progress, &failure))?;
        let store = match (outcome.directory, outcome.tables) {
            (Some(directory), _) => Store::Directory(Box::new(results::Run::open(&directory)?)),
            (None, Some(tables)) => Store::Memory(Box::new(tables)),
            (None, None) => return Err("the run left neither tables nor a directory".into()),
        };
        let broken = outcome.broken.map(|(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why))| why);
        let failures = broken.into_iter().chain(outcome.failures).collect();
        Ok::<Run, AnyError>(Run { summary: outcome.summary, store, failures })
    });
    match (outcome, failure.take()) {
        (Ok(run), stopped) => Ok((run, stopped.map(|error| error.into_value(py).into_bound(py).into_any()))),
        // An exception from Python is the cause of every later error.
        (Err(_), Some(raised)) => Err(raised),
        (Err(error), None) => Err(run_error(py, &*error)),
    }
}
