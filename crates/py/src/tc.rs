//! Words of Linux's `tc`, read as `warpline shell --netem` reads them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use warpline_scenario::tc::{self, netem};

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// netem's words as keys of a link, in JSON, and what these do not have.
#[pyfunction]
pub(crate) fn tc_netem(words: Vec<String>, rated: bool) -> PyResult<(String, Vec<String>)> {
    let read = netem::read(&words, rated).map_err(value_error)?;
    Ok((Value::Object(read.keys).to_string(), read.left_out))
}

/// A percentage, 0 to 100.
#[pyfunction]
pub(crate) fn tc_percent(word: &str) -> PyResult<f64> {
    tc::percent(word).map_err(value_error)
}

/// A rate in bit/s, a size in bytes, a time in nanoseconds, or a whole number.
#[pyfunction]
pub(crate) fn tc_value(kind: &str, word: &str) -> PyResult<u64> {
    let read = match kind {
        "rate" => tc::rate,
        "size" => tc::size,
        "time" => tc::time,
        "count" => tc::count,
        _ => return Err(PyValueError::new_err(format!("'{kind}' is none of rate, size, time and count"))),
    };
    read(word).map_err(value_error)
}
