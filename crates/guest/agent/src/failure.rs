//! What went wrong in a guest: what was being done, and what its kernel said.

use std::fmt;

/// An error with what was being done.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Says what was wrong.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds to an error what was being done.
pub(crate) trait Doing<T> {
    /// `what` completes "cannot".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("cannot {}: {error}", what())))
    }
}
