//! From a scenario to its results.

pub mod results;
