//! Studies: many runs of scenarios, evaluated together.
//!
//! [`replicate`] runs one scenario with several seeds. [`oracle`] compares Warpline with ns-2. [`mod@bench`] has the workloads that
//! measure the engine's speed. [`mod@agreement`] holds the TCP model against Linux in guests. [`mod@evaluate`] asks what RFC 9743 asks of a congestion control. `calibrate` (Linux) measures what emulation can do
//! on this machine. [`mod@compare`] compares two runs. [`mod@search`] looks for the scenario that hurts most. [`mod@stacks`] lets all
//! stacks talk to each other. [`mod@programs`] runs real programs under each clock. [`mod@crosscheck`] runs one scenario in every way that its hosts allow, and says where they differ and why. [`mod@infer`] proposes a scenario that reproduces a capture.

pub mod agreement;
pub mod bench;
pub mod bisect;
#[cfg(live)]
pub mod calibrate;
pub mod compare;
pub mod crosscheck;
pub mod evaluate;
pub mod infer;
mod kept;
mod linux;
mod names;
pub mod oracle;
pub mod programs;
pub mod replicate;
mod scale;
pub mod search;
pub mod stacks;
mod whole;
