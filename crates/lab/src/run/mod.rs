//! Runs a scenario: builds the network, drives it, measures, records, and sums up.
//!
//! The command line, Python and the tests call [`run`]. It knows nothing of terminals or wall-clock time. The caller observes its
//! progress and may stop it; the results until then are kept.

mod build;
pub mod builds;
mod counters;
mod course;
mod expected;
mod fast_forward;
pub mod links;
mod measure;
mod names;
pub mod parts;
mod session;
mod simulation;
mod sinks;
mod skipped;
mod stalls;
mod team;
mod used;
pub mod watch;
mod ways;

#[cfg(live)]
pub mod control;
#[cfg(live)]
mod cradle;
#[cfg(guests)]
pub mod dilate;
#[cfg(live)]
mod emulation;
#[cfg(live)]
mod endpoints;
#[cfg(live)]
mod entrance;
#[cfg(guests)]
mod guests;
#[cfg(live)]
mod interface;
#[cfg(live)]
mod live;
#[cfg(live)]
mod live_host;
#[cfg(guests)]
mod lockstep;
#[cfg(live)]
mod pacer;
#[cfg(live)]
mod programs;
#[cfg(live)]
pub mod recording;
#[cfg(live)]
mod routers;
#[cfg(live)]
mod stage;
#[cfg(live)]
mod typed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use warpline_core::TimeDelta;
use warpline_net::Control;
use warpline_net::apart::{MeetError, Processes};
use warpline_report::ReportError;
use warpline_results::{ResultError, Summary, Tables};
use warpline_scenario::{ClockMode, Scenario};
use warpline_transport::cc::{CcConfig, CongestionControl};

use build::{Built, build};
pub use expected::{from_json, load};
use measure::LinkInfo;
use parts::{Cores, Parts};
#[cfg(live)]
pub use programs::PROGRAM;
use session::Session;
use simulation::Simulation;
use sinks::Sinks;
use team::Team;
use watch::Watchers;

/// Makes a congestion control of the caller for one end of a connection.
pub type CcFactory = Arc<dyn Fn(&CcConfig) -> Box<dyn CongestionControl> + Send + Sync>;

/// The caller's own congestion controls, by name. Flows with `cc = { kind = "custom", name = "mine" }` use them.
#[derive(Clone, Default)]
pub struct CustomCc(pub BTreeMap<String, CcFactory>);

impl std::fmt::Debug for CustomCc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a build without the feature "live" says of itself.
pub const ONLY_MODELS: &str = "this is the small build of `make run`, which has only simulated hosts; \
                               the whole program: cargo install --path crates/cli --locked";

/// Why this build has no live hosts.
#[cfg(not(live))]
pub const NO_LIVE: &str = if cfg!(feature = "live") {
    "the real clock needs Linux: live hosts are network namespaces; use mode = \"virtual\" (--clock virtual) here"
} else {
    ONLY_MODELS
};

/// Why this build has no real stacks.
#[cfg(not(live))]
const NO_STACKS: &str = if cfg!(feature = "live") {
    "real stacks need Linux; use endpoint = \"model\" here"
} else {
    ONLY_MODELS
};

/// Why this build has no guests.
#[cfg(not(guests))]
pub const NO_GUESTS: &str = if cfg!(feature = "live") { "guests need Linux on x86-64" } else { ONLY_MODELS };

/// What to do with a run's results.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The run directory to write; none to write nothing.
    pub out: Option<PathBuf>,
    /// Whether an existing run directory is replaced.
    pub force: bool,
    /// Whether a `report.html` is written into the run directory.
    pub report: bool,
    /// Whether the tables are kept in memory and returned.
    pub tables: bool,
    /// The caller's own congestion controls.
    pub custom_cc: CustomCc,
    /// How many cores it may use, if it is a simulation.
    pub cores: Cores,
    /// Where it listens for changes of its links, if it does. Only under the real or a dilated clock.
    pub control: Option<Listen>,
    /// Who watches it while it goes on.
    pub watchers: Watchers,
}

/// Where a run in progress listens for changes of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// In the user's directory, where `warpline set` finds it.
    Own,
    /// At this path.
    At(PathBuf),
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The time that has passed in the run.
    pub simulated: TimeDelta,
    /// Duration of the whole run.
    pub duration: TimeDelta,
    /// Links crossed by packets, by the last count: in a large network they are not counted for each report.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
}

/// The results of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Its summary.
    pub summary: Summary,
    /// Its directory, if one was written.
    pub directory: Option<PathBuf>,
    /// Its tables, if `tables` was set.
    pub tables: Option<Tables>,
    /// Whether it reached its end. If not, the results cover the time until it was stopped.
    pub complete: bool,
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
    /// Into which parts it was cut to use several cores.
    pub parts: Parts,
    /// Events that had to be handled one after another with these parts: with as many cores as parts, and meetings that take no time, it would be
    /// `events / critical_events` times as fast as on one core, if all events took equally long.
    pub critical_events: u64,
    /// Programs that failed: which, how, and the last lines of their output. And what the scenario expects of the results and they are not.
    pub failures: Vec<String>,
    /// Why a run with real programs could not continue: it lagged too much, an interface has gone, or a guest died.
    pub broken: Option<Broken>,
}

/// Why a live run could not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It lagged more than `clock.max_lag`.
    Lag(String),
    /// An interface failed.
    Port(String),
    /// A guest died, hung, or computed without end.
    Guest(String),
}

/// Why a run has no results.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario is valid but cannot be built: a trace cannot be read, or a custom congestion control is not
    /// registered.
    #[error("{0}")]
    Build(String),
    /// The system refuses something that a live run needs.
    #[error("{0}")]
    Live(String),
    /// The results could not be written.
    #[error(transparent)]
    Results(#[from] ResultError),
    /// The report could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Another process of the run has ended.
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// Another process of the run could not begin.
    #[error("process {process}: {message}")]
    Elsewhere {
        /// Its number.
        process: usize,
        /// Why.
        message: String,
    },
}

/// The error for a link or a flow that cannot be built.
fn fault_of(kind: &str, name: &str, reason: &dyn std::fmt::Display) -> RunError {
    RunError::Build(format!("{kind} {name}: {reason}"))
}

/// Builds all that [`run`] would build before it asks the system for anything, and drops it. If this succeeds, `run` does not
/// fail because of the scenario.
///
/// # Errors
/// The same as those of `run`.
pub fn check(scenario: &Scenario, custom: &CustomCc) -> Result<(), RunError> {
    let options = RunOptions { custom_cc: custom.clone(), cores: Cores::One, ..RunOptions::default() };
    let built = build(scenario, &options)?;
    if scenario.is_simulated() { Ok(()) } else { check_real(scenario, built) }
}

/// Runs a scenario with its seed.
///
/// `observe` is called every few milliseconds of work and can stop the run.
///
/// # Errors
/// If the scenario cannot be built or results cannot be written. No incomplete files are left.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
) -> Result<RunOutcome, RunError> {
    if options.control.is_some() && scenario.clock.mode == ClockMode::Virtual {
        return Err(RunError::Build(
            "a run under the virtual clock cannot be changed while it goes on; plan it as a [[change]] of the scenario, or choose another clock".to_owned(),
        ));
    }
    let built = build(scenario, options)?;
    if !scenario.is_simulated() {
        return run_real(scenario, options, observe, built);
    }
    let team = Team::alone();
    let sinks = Sinks::open(scenario, options, &built.records, &team)?;
    let session = Session::new(scenario, options, observe, built.links, sinks, team);
    let simulation = Simulation::new(built.network, built.world, &built.parts)?;
    Ok(RunOutcome { parts: built.parts, ..only(session.run(simulation))? })
}

/// The outcome of a run in one process.
fn only(outcome: Result<Option<RunOutcome>, RunError>) -> Result<RunOutcome, RunError> {
    outcome?.ok_or(RunError::Meet(MeetError::Ended(0)))
}

/// Why a run in several processes has no results.
#[derive(Debug, thiserror::Error)]
pub enum ApartError {
    /// It could not begin. All processes return this.
    #[error(transparent)]
    Begin(RunError),
    /// It failed in this process. The others do not know of that yet, and have to be ended.
    #[error(transparent)]
    Run(RunError),
}

/// Runs a scenario in several processes, each of which calls this with the same scenario and options. Each runs one part of the network, and
/// the first one writes the results: the same bytes as those of [`run`]. The outcome is nothing in the others. If there are fewer parts than
/// processes ([`RunOutcome::parts`]), the last processes have nothing to do.
///
/// # Errors
/// As those of [`run`]; and if the scenario is no simulation, or the processes have different scenarios, seeds or versions.
pub fn run_apart(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
    processes: &mut dyn Processes,
) -> Result<Option<RunOutcome>, ApartError> {
    let mut team = Team::new(scenario, processes).map_err(ApartError::Begin)?;
    let begun = begin_apart(scenario, options, &mut team);
    let (links, sinks, simulation, parts) = team.agree(begun).map_err(ApartError::Begin)?;
    let outcome = Session::new(scenario, options, observe, links, sinks, team).run(simulation);
    let with_parts = |outcome: RunOutcome| RunOutcome { parts, ..outcome };
    outcome.map(|outcome| outcome.map(with_parts)).map_err(ApartError::Run)
}

/// Builds the part of a process, and opens the outputs.
fn begin_apart(
    scenario: &Scenario,
    options: &RunOptions,
    team: &mut Team<'_>,
) -> Result<(Vec<LinkInfo>, Sinks, Simulation, Parts), RunError> {
    if !scenario.is_simulated() {
        return Err(RunError::Build(
            "a run with live hosts or guests has to be in one process; start it without mpirun".to_owned(),
        ));
    }
    if scenario.fast_forward {
        return Err(RunError::Build(
            "a run with `fast_forward` has to be in one process; start it without mpirun, or set it to false"
                .to_owned(),
        ));
    }
    let (own, count) = team.places();
    let Built { network, world, links, records, parts, nodes } =
        build(scenario, &RunOptions { cores: Cores::Exactly(count), ..options.clone() })?;
    let sinks = Sinks::open(scenario, options, &records, team)?;
    let simulation = Simulation::apart(network, world, &parts, nodes, own)?;
    Ok((links, sinks, simulation, parts))
}

/// As [`check`], for scenarios with real programs or real stacks.
#[cfg(live)]
fn check_real(scenario: &Scenario, built: Built) -> Result<(), RunError> {
    stage::Plan::new(scenario, built.world).map(drop)
}

/// As [`run`], for scenarios with real programs or real stacks: live hosts under the real clock or a dilated one, the others under any.
#[cfg(live)]
fn run_real(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
    built: Built,
) -> Result<RunOutcome, RunError> {
    let Built { network, world, links, records, .. } = built;
    // Report errors in the scenario first, whatever this machine has.
    let plan = stage::Plan::new(scenario, world)?;
    let (stage, hosts) = plan.set(network);
    let team = Team::alone();
    let sinks = Sinks::open(scenario, options, &records, &team)?;
    let mut session = Session::new(scenario, options, observe, links, sinks, team);
    if let Some(place) = &options.control {
        let naming = control::Naming::default();
        let (waiting, orders) = control::listen(place, scenario, naming, Vec::new()).map_err(live_error)?;
        session.control = Some(session::LiveControl::new(waiting, orders));
    }
    #[cfg(guests)]
    if scenario.clock.mode == ClockMode::Virtual && !hosts.is_empty() {
        let guests = hosts.into_iter().find_map(|kind| kind.into_guests());
        let guests =
            guests.ok_or_else(|| RunError::Build("live hosts cannot follow the virtual clock".to_owned()))?;
        let party = lockstep::LockStepRun::new(stage, guests, &mut session)?;
        return only(session.run(party));
    }
    if scenario.clock.mode == ClockMode::Virtual {
        return only(session.run(cradle::Cradle::new(stage)));
    }
    let party = emulation::Emulation::new(stage, hosts, &mut session)?;
    only(session.run(party))
}

#[cfg(not(live))]
fn check_real(_: &Scenario, _: Built) -> Result<(), RunError> {
    Ok(())
}

/// Returns the error that this build cannot do the run.
#[cfg(not(live))]
fn run_real(
    scenario: &Scenario,
    _: &RunOptions,
    _: &mut dyn FnMut(&Progress) -> Control,
    _: Built,
) -> Result<RunOutcome, RunError> {
    Err(match scenario.clock.mode {
        ClockMode::Virtual if scenario.guests().next().is_none() => RunError::Live(NO_STACKS.to_owned()),
        ClockMode::Virtual => RunError::Live(NO_GUESTS.to_owned()),
        ClockMode::Real | ClockMode::Dilated => refusal(),
    })
}

#[cfg(not(live))]
fn refusal() -> RunError {
    RunError::Live(NO_LIVE.to_owned())
}

/// Prepares this process for the real clock: moves an ordinary user's process into its own namespaces, for good. Call it before the
/// process has a second thread.
///
/// # Errors
/// If the system does not allow it; the error says what to do.
pub fn prepare() -> Result<(), RunError> {
    #[cfg(live)]
    {
        warpline_live::host::prepare_process().map(drop).map_err(live_error)
    }
    #[cfg(not(live))]
    Err(refusal())
}

/// Ends the programs of a live run in this process, which is about to exit, and sets back what it changed of interfaces.
pub fn abandon() {
    #[cfg(live)]
    {
        warpline_live::host::abandon();
        warpline_live::outside::abandon();
    }
}

/// MTU of a host's interface if its links set none.
#[cfg(live)]
const ETHERNET_MTU: u32 = 1500;

#[cfg(live)]
fn live_error(error: impl std::fmt::Display) -> RunError {
    RunError::Live(error.to_string())
}
