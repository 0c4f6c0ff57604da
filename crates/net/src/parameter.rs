//! The error of a parameter that is out of its range, of schedules.

use thiserror::Error;

/// A parameter has a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{parameter}` is {value}: {allowed}")]
#[non_exhaustive]
pub struct InvalidParameter {
    /// The parameter's name, as in the scenario.
    pub parameter: &'static str,
    /// The value given.
    pub value: String,
    /// What is allowed, as the rest of a sentence: "it must lie between 0 and 1".
    pub allowed: String,
}

impl InvalidParameter {
    /// The error for `parameter` with `value`.
    pub(crate) fn new(
        parameter: &'static str,
        value: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        InvalidParameter { parameter, value: value.to_string(), allowed: allowed.into() }
    }
}
