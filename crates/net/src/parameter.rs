//! The error of a parameter that is out of its range, shared by queues, loss, jitter and schedules.

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

/// Checks that a probability is one.
pub(crate) fn probability(parameter: &'static str, value: f64) -> Result<(), InvalidParameter> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(InvalidParameter::new(parameter, value, "a probability lies between 0 and 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_what_is_wrong_and_what_is_allowed() {
        let error = probability("p", 1.5).unwrap_err();
        assert_eq!(error.to_string(), "`p` is 1.5: a probability lies between 0 and 1");
        assert!(probability("p", f64::NAN).is_err());
        assert!(probability("p", 0.0).is_ok() && probability("p", 1.0).is_ok());
    }
}
