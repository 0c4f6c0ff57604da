//! Scenarios for Python: read, written, changed and checked by the code that the command line uses.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyFutureWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use warpline_lab::run;
use warpline_lab::run::builds::builds;
use warpline_scenario::diagnostics::{Diagnostic, Diagnostics};
use warpline_scenario::{Scenario as Inner, Source, schema};

use crate::errors::run_error;

/// A checked scenario. People use `warpline.Scenario`, which is built on this.
#[pyclass(frozen, module = "warpline._warpline", name = "NativeScenario")]
#[derive(Debug)]
pub(crate) struct Scenario(pub(crate) Inner);

/// The exception `warpline.ScenarioError`, with a text for people and diagnostics for programs.
fn scenario_error(py: Python<'_>, diagnostics: &Diagnostics) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let errors = py.import("warpline._errors")?;
        let class = errors.getattr("Diagnostic")?;
        let one = |diagnostic: &Diagnostic| {
            let keywords = PyDict::new(py);
            keywords.set_item("message", &diagnostic.message)?;
            keywords.set_item("path", &diagnostic.path)?;
            keywords.set_item("help", PyTuple::new(py, &diagnostic.help)?)?;
            if let Some(location) = &diagnostic.location {
                keywords.set_item("source", &location.source)?;
                keywords.set_item("line", location.line)?;
                keywords.set_item("column", location.column)?;
            }
            class.call((), Some(&keywords))
        };
        let list = diagnostics.errors.iter().map(one).collect::<PyResult<Vec<_>>>()?;
        let error =
            errors.getattr("ScenarioError")?.call1((diagnostics.to_string(), PyTuple::new(py, list)?))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|error| error)
}

fn checked(py: Python<'_>, read: Result<Inner, Diagnostics>) -> PyResult<Scenario> {
    let scenario = read.map_err(|diagnostics| scenario_error(py, &diagnostics))?;
    for note in &scenario.notes {
        PyErr::warn(py, &py.get_type::<PyFutureWarning>(), &CString::new(note.as_str())?, 2)?;
    }
    Ok(Scenario(scenario))
}

#[pymethods]
impl Scenario {
    /// Reads a scenario file and applies `sets`, each "path=value".
    #[staticmethod]
    #[pyo3(signature = (path, sets = Vec::new()))]
    fn load(py: Python<'_>, path: PathBuf, sets: Vec<String>) -> PyResult<Self> {
        checked(py, Source::read(&path).and_then(|source| run::load(&source, &sets)))
    }

    /// Reads TOML text. Errors call it `name`; paths in it are relative to `directory`.
    #[staticmethod]
    #[pyo3(signature = (name, text, sets = Vec::new(), directory = PathBuf::new()))]
    fn from_toml(
        py: Python<'_>,
        name: &str,
        text: &str,
        sets: Vec<String>,
        directory: PathBuf,
    ) -> PyResult<Self> {
        checked(py, run::load(&Source::from_text(name, text, &directory), &sets))
    }

    /// Reads JSON text with the structure of the TOML file.
    #[staticmethod]
    #[pyo3(signature = (text, sets = Vec::new(), directory = PathBuf::new()))]
    fn from_json(py: Python<'_>, text: &str, sets: Vec<String>, directory: PathBuf) -> PyResult<Self> {
        let value = serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
        checked(py, run::from_json(value, &sets, &directory))
    }

    /// The scenario as TOML in its normal form, with defaults filled in.
    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    /// The scenario as JSON text, with defaults filled in.
    fn to_json(&self) -> String {
        self.0.to_json().to_string()
    }

    /// Hash of the scenario: "sha256:...".
    fn scenario_hash(&self) -> String {
        self.0.scenario_hash()
    }

    /// The kernels of guests and the stacks in shared objects that a run would use on this machine.
    fn builds(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| builds(&self.0)).map_err(|error| run_error(py, &error))
    }

    /// Directory that paths of traces and logs are relative to.
    /// The seeds of all runs that the scenario plans: its seed, or those of `replications`.
    fn seeds(&self) -> Vec<u64> {
        self.0.seeds()
    }
    #[getter]
    fn directory(&self) -> &Path {
        &self.0.directory
    }
}

/// The JSON Schema (draft 2020-12) of a scenario.
#[pyfunction]
pub(crate) fn json_schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("json")?.call_method1("loads", (schema::json_schema_text(),))
}
