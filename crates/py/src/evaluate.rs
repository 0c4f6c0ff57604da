//! Evaluating a congestion control by the questions of RFC 9743, for Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use warpline_lab::run::RunOptions;
use warpline_net::Control;
use warpline_study::evaluate::{self as study, Advance, BY_NAME, CRITERIA, Criterion, EvaluateError, Plan};

use crate::cc::Failure;
use crate::custom::custom;
use crate::errors::run_error;

/// The verdicts on a congestion control. People use `warpline.Evaluation`, which is built on this.
#[pyclass(frozen, module = "warpline._warpline", name = "NativeEvaluation")]
#[derive(Debug)]
pub(crate) struct Evaluation(study::Evaluation);

#[pymethods]
impl Evaluation {
    /// The evaluation as JSON text.
    fn to_json(&self) -> String {
        self.0.to_json()
    }
    /// The verdicts as text, and the figures behind them: of those that are not met, or of all.
    fn render(&self, all: bool) -> String {
        self.0.render(all)
    }
    /// The same in Markdown, with all figures.
    fn to_markdown(&self) -> String {
        self.0.to_markdown()
    }
    /// A page with plots.
    fn to_html(&self) -> String {
        self.0.to_html()
    }
    /// Writes the page, the figures and the scenarios into a directory, and returns the path of the page.
    fn write(&self, py: Python<'_>, directory: PathBuf) -> PyResult<PathBuf> {
        py.detach(|| self.0.write(&directory)).map_err(|error| run_error(py, &error))
    }
}

/// Calls the observer, and checks for Ctrl-C. The evaluation ends if the observer returns False or anything raises.
fn observe(observer: Option<&Py<PyAny>>, advance: Advance<'_>, failure: &Failure) -> Control {
    if failure.is_set() {
        return Control::Stop;
    }
    let asked = Python::attach(|py| -> PyResult<bool> {
        py.check_signals()?;
        match observer.filter(|_| !advance.trial.is_empty()) {
            Some(observer) => {
                let answer = observer.bind(py).call1((advance.done, advance.of))?;
                Ok(!answer.is(PyBool::new(py, false)))
            }
            None => Ok(true),
        }
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

/// Evaluates a congestion control; the names in `cc` are those of Python's classes.
#[pyfunction]
#[pyo3(signature = (algorithm, *, quick = false, seeds = 5, only = Vec::new(), guests = false, observer = None, cc = BTreeMap::new()))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
pub(crate) fn evaluate(
    py: Python<'_>,
    algorithm: String,
    quick: bool,
    seeds: u16,
    only: Vec<String>,
    guests: bool,
    observer: Option<Py<PyAny>>,
    cc: BTreeMap<String, Py<PyAny>>,
) -> PyResult<Evaluation> {
    let all = || CRITERIA.iter().chain(BY_NAME);
    if let Some(unknown) = only.iter().find(|only| !all().any(|criterion| criterion.name == only.as_str())) {
        let names: Vec<&str> = all().map(|criterion| criterion.name).collect();
        return Err(PyValueError::new_err(format!(
            "no question {unknown:?}; there are {}",
            names.join(", ")
        )));
    }
    let named = |criterion: &&Criterion| only.iter().any(|only| only == criterion.name);
    let criteria = if only.is_empty() { CRITERIA.to_vec() } else { all().filter(named).copied().collect() };
    let failure = Failure::default();
    let options = RunOptions { custom_cc: custom(cc, &failure), ..RunOptions::default() };
    let plan = Plan { cc: algorithm, criteria, quick, seeds: seeds.into(), guests, options };
    let outcome =
        py.detach(|| study::evaluate(&plan, &|advance| observe(observer.as_ref(), advance, &failure)));
    match (outcome, failure.take()) {
        (_, Some(raised)) => Err(raised),
        (Ok(evaluation), None) => Ok(Evaluation(evaluation)),
        (Err(EvaluateError::Scenario(wrong)), None) => Err(PyValueError::new_err(wrong.to_string())),
        (Err(error), None) => Err(run_error(py, &error)),
    }
}
