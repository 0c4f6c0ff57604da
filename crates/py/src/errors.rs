//! Errors as exceptions of Python.

use pyo3::prelude::*;

/// The exception `warpline.RunError` with the text of an error.
pub(crate) fn run_error(py: Python<'_>, error: &dyn std::error::Error) -> PyErr {
    let class = py.import("warpline._errors").and_then(|errors| errors.getattr("RunError"));
    match class.and_then(|class| class.call1((error.to_string(),))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
