//! Running a scenario: build, drive, measure, record, sum up.
//!
//! [`run`] is what the command line, Python and the tests call. It knows nothing of terminals or wall-clock time: whoever
//! calls it observes progress and may stop it; what was measured until then counts.

pub mod addresses;
pub(crate) mod build;
mod course;
mod faults;
pub mod links;
mod measure;
mod real;
#[cfg(target_os = "linux")]
pub mod session;
mod sinks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use warpline_core::TimeDelta;
use warpline_core::time::VirtualClock;
use warpline_net::{Control, Driver};
use warpline_transport::cc::{CcConfig, CongestionControl};

use crate::report::ReportError;
use crate::results::{NoFrames, ResultError, Summary, Tables};
use crate::scenario::{ClockMode, Host, Scenario};
use build::{Built, build};
use course::{Course, run_info};
pub(crate) use faults::faults;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use real::dilate;
pub use real::{abandon, prepare};
use sinks::Sinks;

/// Makes a congestion control of the caller's own for one end of a connection.
pub type CcFactory = Arc<dyn Fn(&CcConfig) -> Box<dyn CongestionControl> + Send + Sync>;

/// The caller's own congestion controls: flows with `cc = { kind = "custom", name = "mine" }` take theirs from here.
#[derive(Clone, Default)]
pub struct CustomCc(pub BTreeMap<String, CcFactory>);

impl std::fmt::Debug for CustomCc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What to do with a run's results.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The run directory to write; none writes nothing.
    pub out: Option<PathBuf>,
    /// Whether a run directory that is there already is replaced.
    pub force: bool,
    /// Whether the run directory gets a `report.html`.
    pub report: bool,
    /// Whether the tables are kept in memory and returned.
    pub tables: bool,
    /// The caller's own congestion controls.
    pub custom_cc: CustomCc,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time that has passed in the run.
    pub simulated: TimeDelta,
    /// Duration of the whole run.
    pub duration: TimeDelta,
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
}

/// What a run gave.
#[derive(Debug)]
pub struct RunOutcome {
    /// Its summary.
    pub summary: Summary,
    /// Its directory, if one was written.
    pub directory: Option<PathBuf>,
    /// Its tables, if they were asked for.
    pub tables: Option<Tables>,
    /// Whether it came to its end; if not, the results are those of the time until it was stopped.
    pub complete: bool,
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
    /// Programs that did not end as they should: which, how, and the last that they said.
    pub failures: Vec<String>,
    /// Why a run with real programs could not go on: it lagged more than it may, an interface has gone, a guest died.
    pub broken: Option<Broken>,
}

/// Why a live run could not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It lagged more than `clock.max_lag`.
    Lag(String),
    /// An interface failed.
    Port(String),
    /// A guest died, hung, or computed without end.
    Guest(String),
}

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be built, though its text is right: a trace that cannot be read, a congestion control that nobody
    /// brought.
    #[error("{0}")]
    Build(String),
    /// The system does not give what a live run needs.
    #[error("{0}")]
    Live(String),
    /// The results could not be written.
    #[error(transparent)]
    Results(#[from] ResultError),
    /// The report could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Builds everything that [`run`] builds of a scenario before it asks the system for anything, and throws it away: what this accepts, `run`
/// does not refuse for what the scenario says.
///
/// # Errors
/// As those of `run`, in the same words.
pub fn check(scenario: &Scenario, custom: &CustomCc) -> Result<(), RunError> {
    let mut built = build(scenario, custom)?;
    let real = scenario.clock.mode != ClockMode::Virtual || scenario.host.iter().any(Host::is_guest);
    if real { real::check(scenario, &mut built) } else { Ok(()) }
}

/// Runs a scenario with its seed.
///
/// `observe` is called every few milliseconds of work and can stop the run.
///
/// # Errors
/// If the scenario cannot be built or results cannot be written. Nothing is left half-written.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
) -> Result<RunOutcome, RunError> {
    if scenario.clock.mode != ClockMode::Virtual {
        return real::run(scenario, options, observe);
    }
    if scenario.host.iter().any(Host::is_guest) {
        return real::run_guests(scenario, options, observe);
    }
    let Built { mut network, mut world, links, flow_records, link_records } =
        build(scenario, &options.custom_cc)?;
    let mut sinks = Sinks::open(scenario, options, &flow_records, &link_records)?;

    let mut course = Course::new(scenario);
    let mut driver = Driver::new(VirtualClock::default());
    let mut failure: Option<ResultError> = None;
    let mut stopped = false;
    course.begin(&mut network, &mut world);
    loop {
        let until = course.next_stop(network.now(), &sinks);
        let reached = driver.run(&mut network, &mut world, until, |network, world| {
            if let Err(error) = sinks.drain(network, world, &NoFrames) {
                failure = Some(error);
                return Control::Stop;
            }
            let simulated = network.now() - warpline_core::Timestamp::ZERO;
            let packet_hops = network.packet_hops();
            let (duration, events) = (course.duration, network.events());
            observe(&Progress { simulated, duration, packet_hops, events })
        });
        if let Some(error) = failure {
            return Err(error.into());
        }
        if !reached {
            stopped = true;
            break;
        }
        if course.arrive(until, &mut network, &mut world, &links, &mut sinks)? {
            break;
        }
    }
    sinks.drain(&mut network, &mut world, &NoFrames)?;
    sinks.reports(&network, &mut world)?;

    let (flows, transfers, link_rows) = course.finish(&mut network, &mut world, &links);
    let info = run_info(scenario, &mut network, "virtual", stopped.then_some("interrupted"));
    let (packet_hops, events) = (info.packet_hops, info.events);
    let mut summary = Summary::new(info, flows, link_rows);
    let (directory, tables) = sinks.publish(scenario, options, &mut summary, &transfers)?;
    Ok(RunOutcome {
        summary,
        directory,
        tables,
        complete: !stopped,
        packet_hops,
        events,
        failures: Vec::new(),
        broken: None,
    })
}
