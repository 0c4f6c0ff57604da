//! Studies: many runs of scenarios, and what they say together.
//!
//! [`replicate`] runs one scenario with several seeds, [`oracle`] holds runs against ns-2's answers, [`mod@bench`] has the workloads that the
//! engine's speed is measured on, `calibrate` (Linux) measures what emulation can do on this machine, and [`mod@compare`] sets two runs beside
//! each other.

pub mod bench;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod compare;
pub mod oracle;
pub mod replicate;
