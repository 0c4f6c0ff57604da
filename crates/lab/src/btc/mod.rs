//! Reports of bulk transfer capacity: what RFC 3148 requires a tool to state and recommends it to tell, under the RFC's own names, from what
//! both ends of a test have counted.
//!
//! [`CapReport`] is for `cap`, [`TrenoReport`] for `treno`. Each is JSON as it is, and text, table rows and a run directory by the functions
//! here.

mod cap;
mod lines;
mod statements;
mod treno;
mod verdict;
mod write;

pub use cap::{CapInput, CapReport, Ends};
pub use lines::{Line, render};
pub use statements::Statements;
pub use treno::{HopReport, TrenoInput, TrenoReport};
pub use verdict::{Judgement, host_limits};
pub use write::{CapTrace, csv, write_run};

#[cfg(test)]
mod tests;
