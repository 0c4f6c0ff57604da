//! The names and units that columns have in OpenMetrics.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpline_results::{TableKind, openmetrics};

/// A column as a metric: column, name, unit, divisor, meaning.
type Metric = (&'static str, String, Option<&'static str>, f64, &'static str);

/// The metrics of a table.
#[pyfunction]
pub(crate) fn openmetrics_names(table: &str) -> PyResult<Vec<Metric>> {
    let kind = TableKind::named(table)
        .ok_or_else(|| PyValueError::new_err(format!("there is no table {table:?}")))?;
    let metrics = openmetrics::metrics(&kind).into_iter();
    Ok(metrics.map(|one| (one.column, one.name, one.unit, one.divisor, one.about)).collect())
}
