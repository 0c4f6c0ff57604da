//! Errors as exceptions of Python.

use pyo3::prelude::*;

/// Options that errors name, as the command line writes them and as Python does.
const OPTIONS: [(&str, &str); 2] = [("--force", "force=True"), ("--seeds", "seeds")];

/// The exception `warpline.RunError` with the text of an error.
pub(crate) fn run_error(py: Python<'_>, error: &dyn std::error::Error) -> PyErr {
    let text = OPTIONS.iter().fold(error.to_string(), |text, (there, here)| text.replace(there, here));
    let class = py.import("warpline._errors").and_then(|errors| errors.getattr("RunError"));
    match class.and_then(|class| class.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
