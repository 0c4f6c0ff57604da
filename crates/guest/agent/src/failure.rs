//! An error in a guest: the operation that failed, and the kernel's error.

use std::fmt;

/// An error with the operation that failed.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// An error with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds the operation that failed to an error.
pub(crate) trait Doing<T> {
    /// `what` completes "cannot".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("cannot {}: {error}", what())))
    }
}
