//! Runs by the real clock: live hosts and simulated flows in one network. Linux only; elsewhere such a run is refused.

use super::RunError;

#[cfg(target_os = "linux")]
mod drive;
#[cfg(target_os = "linux")]
mod limiter;
#[cfg(target_os = "linux")]
mod models;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod routers;
#[cfg(target_os = "linux")]
mod traffic;
#[cfg(target_os = "linux")]
mod ways;

#[cfg(target_os = "linux")]
pub(super) use drive::run;

/// Lets this process run by the real clock: an ordinary user's is put into namespaces of its own, for good. To be called before the
/// process has a second thread.
///
/// # Errors
/// If the system does not allow it, with what to do.
pub fn prepare() -> Result<(), RunError> {
    #[cfg(target_os = "linux")]
    {
        let prepared = warpline_live::host::prepare_process();
        prepared.map(drop).map_err(|error| RunError::Live(error.to_string()))
    }
    #[cfg(not(target_os = "linux"))]
    Err(refusal())
}

/// Ends the programs of a live run that is under way in this process, which is about to end at once.
pub fn abandon() {
    #[cfg(target_os = "linux")]
    warpline_live::host::abandon();
}

#[cfg(not(target_os = "linux"))]
fn refusal() -> RunError {
    RunError::Live(
        "the real clock needs Linux: live hosts are network namespaces; use mode = \"virtual\" (--clock virtual) here".to_owned(),
    )
}

/// Refuses the run.
#[cfg(not(target_os = "linux"))]
pub(super) fn run(
    _: &crate::scenario::Scenario,
    _: &super::RunOptions,
    _: &mut dyn FnMut(&super::Progress) -> warpline_net::Control,
) -> Result<super::RunOutcome, RunError> {
    Err(refusal())
}
