//! Runs with real programs, and simulated flows in the same network: live hosts by the real clock or a dilated one, and guests by any.
//! Linux only; elsewhere such a run is refused.

use super::RunError;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod dilate;
#[cfg(target_os = "linux")]
mod drive;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod fleet;
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
#[path = "no_fleet.rs"]
mod fleet;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guests;
#[cfg(target_os = "linux")]
mod limiter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod lockstep;
#[cfg(target_os = "linux")]
mod models;
#[cfg(target_os = "linux")]
mod pacer;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod ports;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod readiness;
#[cfg(target_os = "linux")]
mod routers;
#[cfg(target_os = "linux")]
mod traffic;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod ways;

#[cfg(target_os = "linux")]
pub(super) use drive::{audit_summary, run};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use lockstep::run as run_guests;

/// What a run's summary says of why it was stopped: somebody asked for it, or something that others wait for was not ready.
#[cfg(target_os = "linux")]
const INTERRUPTED: &str = "interrupted";
#[cfg(target_os = "linux")]
const NOT_READY: &str = "not ready";

/// MTU of a host's interface where its links have none.
#[cfg(target_os = "linux")]
const ETHERNET_MTU: u32 = 1500;

/// What a host's interface takes: what the narrowest of its links does.
#[cfg(target_os = "linux")]
fn interface_mtu(expanded: &crate::scenario::Expanded, node: u32) -> u32 {
    let own = expanded.links.iter().filter(|link| link.from == node as usize);
    own.filter_map(|link| link.mtu).min().unwrap_or(ETHERNET_MTU)
}

/// Builds what a run with real programs has beside the network, as far as the scenario alone says it.
pub(super) fn check(
    scenario: &crate::scenario::Scenario,
    built: &mut super::build::Built,
) -> Result<(), RunError> {
    #[cfg(target_os = "linux")]
    {
        let expanded = scenario.expand();
        let plan = super::addresses::AddressPlan::new(scenario, &expanded);
        let mtu = |node| interface_mtu(&expanded, node);
        models::Models::build(&mut built.world, &plan, scenario.seed, mtu)?;
        #[cfg(target_arch = "x86_64")]
        if scenario.host.iter().any(crate::scenario::Host::is_guest) {
            let readiness = readiness::Readiness::plan(scenario, &expanded, &plan, &mut built.world);
            guests::Guests::plan(scenario, &expanded, &plan, &readiness, mtu).check()?;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (scenario, built);
    Ok(())
}

/// Refuses a run with guests.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) fn run_guests(
    _: &crate::scenario::Scenario,
    _: &super::RunOptions,
    _: &mut dyn FnMut(&super::Progress) -> warpline_net::Control,
) -> Result<super::RunOutcome, RunError> {
    Err(RunError::Live("guests need Linux on x86-64; use endpoint = \"model\" here".to_owned()))
}

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
