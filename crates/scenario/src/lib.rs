//! Scenarios: from a text to a network that can be built.
//!
//! One set of structs is the TOML file, the Python objects, the JSON Schema and the documentation. A scenario has three forms:
//!
//! 1. as written: text in which every key has a place. [`Scenario::load`] reads a file, applies `--set` changes and checks everything; what is
//!    wrong comes back all at once as [`Diagnostics`] with file, line and column;
//! 2. as checked: a [`Scenario`]; [`Scenario::expand`](expand) turns its topologies and counts into single links and flows with every default
//!    filled in;
//! 3. as configured: [`plan`] makes the configurations of links, TCP and measuring tools of it. `warpline_lab` builds and runs them.
//!
//! ```
//! use warpline_scenario::Scenario;
//!
//! let text = r#"
//! duration = "10s"
//!
//! [topology]
//! kind = "dumbbell"
//! pairs = 2
//! bottleneck = { rate = "10Mbit/s", delay = "20ms", queue = "1BDP" }
//!
//! [[flow]]
//! from = "left"
//! to = "right"
//! cc = { kind = "nice", threshold = 0.1 }
//! count = 2
//! "#;
//! let scenario = Scenario::from_toml("two.toml", text, &[])?;
//! let expanded = scenario.expand();
//! assert_eq!(expanded.flows.len(), 2);
//! let bottleneck = expanded.links.iter().find(|link| expanded.link_name(link) == "r1>r2").expect("a dumbbell has it");
//! let files = &mut warpline_scenario::files::Files::default();
//! let (config, _) = warpline_scenario::plan::link_config(&bottleneck, "r1>r2".to_owned(), &scenario, files).expect("it has been checked");
//! assert_eq!(config.delay.as_millis(), 20);
//!
//! let errors = Scenario::from_toml("two.toml", text, &["flow.0.cc.threshold=2".to_owned()]).unwrap_err().to_string();
//! assert!(errors.contains("`threshold` is out of range: 2") && errors.contains("allowed: 0 to 1"), "{errors}");
//! # Ok::<(), warpline_scenario::Diagnostics>(())
//! ```
//!
//! Nothing is written, and the only files that are read are the scenario itself and those that it names ([`files`]).

pub mod access_log;
mod address;
pub mod addresses;
pub mod application;
mod base_rtt;
pub mod cc;
mod cc_names;
pub mod change;
pub mod changes;
mod check;
mod checker;
mod command;
mod component;
pub mod diagnostics;
mod document;
pub mod endpoint;
pub mod expand;
mod expect;
pub mod files;
pub mod flow;
pub mod forwarding;
mod given;
pub mod host;
pub mod link;
mod load;
pub mod multipath;
pub mod pattern;
mod placement;
pub mod plan;
mod problem;
pub mod program;
mod programs;
pub mod quantity;
mod ready;
pub mod rebind;
pub mod routing;
pub mod schema;
pub mod search;
mod semantics;
mod semantics_change;
mod semantics_fast_forward;
mod semantics_flow;
mod semantics_host;
mod semantics_program;
mod set;
pub mod short;
mod source;
mod syntax;
pub mod tc;
pub mod tcp;
pub mod topology;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use address::{Address, Network};
pub use application::{App, Application, Distribution, WebModel};
pub use cc::Cc;
pub use change::Change;
pub use changes::changed_keys;
pub use command::ProgramCommand;
pub use component::Written;
pub use diagnostics::{Diagnostic, Diagnostics, Location, spelling_help};
pub use endpoint::{Endpoint, Protocol, Traffic};
pub use expand::{Arrival, Expanded, FlowSpec, LinkKind, LinkSpec, Links, RouteSet, Speed, SubflowOf};
pub use expect::{Judge, Misfit};
pub use flow::{Flow, FlowRecordKind, Transport};
pub use host::{Host, HostsByName};
pub use link::{
    DelayStep, Down, DuplexOptions, Jitter, Link, LinkOptions, LinkRecordKind, Loss, Pfc, Queue, Radio,
    RateStep,
};
pub use multipath::{Multipath, Scheduling};
pub use pattern::Pattern;
pub use program::{Expect, Program, StopSignal};
pub use programs::Named;
pub use quantity::{BitRate, CodePoint, Size, StartTime, Tdf, Time, Window};
pub use ready::{PATIENCE, Readiness, Ready, Until};
pub use rebind::Rebind;
pub use routing::{Routing, RoutingKind};
pub use schema::json_schema;
pub use source::{STANDARD_INPUT, Source};
pub use tcp::TcpOptions;
pub use topology::Topology;

/// A network experiment: hosts, links, what runs on the hosts, and for how long.
///
/// Every time and rate is in the hosts' own time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, used for the run directory and in reports. Default: the file's name.
    #[serde(default)]
    #[schemars(example = &"two-flows")]
    pub name: String,
    /// What the experiment shows, for people.
    pub description: Option<String>,
    /// How long the run lasts.
    #[schemars(example = &"60s")]
    pub duration: Time,
    /// Ends the run early, before `duration`: "PROGRAM exits", or a list of such texts, all of which must come true. PROGRAM is a
    /// program's name, its host and name ("a.client"), or its host if only one program runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"client exits")]
    pub until: Option<Until>,
    /// What the results must be: conditions on measures, a flow's, a link's or the total's. If a run that came to its end does not meet one,
    /// it fails: exit code 1. The columns of results can be named, without their unit if you like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &serde_json::json!(["flow.bulk.goodput > 1Mbit/s", "link[r1>r2].queue_delay_mean < 20ms", "total.jain >= 0.9"]))]
    pub expect: Vec<String>,
    /// Time at the start that results leave out. Default 0s.
    #[serde(default)]
    #[schemars(example = &"5s")]
    pub warmup: Time,
    /// Seed of all randomness. The same scenario and seed give the same results. Default 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Interval of the time series. Default 100ms.
    #[serde(default = "default_sample_interval")]
    #[schemars(example = &"100ms")]
    pub sample_interval: Time,
    /// Bytes that every link adds to every packet (38B for Ethernet with preamble and gap). Default 0B.
    #[serde(default)]
    #[schemars(example = &"38B")]
    pub framing: Size,
    /// Whether stretches in which every flow repeats itself are skipped, with what was measured before counted for them. A tenth of them is
    /// run after all, to see how far off that is; the summary says so. For simulations. Default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fast_forward: bool,
    /// How time passes. Default virtual.
    #[serde(default)]
    pub clock: Clock,
    /// Runs with several seeds. Default one run with `seed`.
    pub replications: Option<ReplicationPlan>,
    /// TCP options of all flows, unless a host or flow sets its own.
    #[serde(default)]
    pub tcp: TcpOptions,
    /// A network built from a few parameters.
    pub topology: Option<Topology>,
    /// How flows choose among routes that are as good as each other. Default: "ecmp" in fat-tree, leaf-spine and clos, "first" elsewhere.
    /// What real programs send takes the first.
    pub routing: Option<Routing>,
    /// Links, one by one.
    #[serde(default)]
    pub link: Vec<Link>,
    /// Changes of links during the run, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<Change>,
    /// Hosts with options or programs of their own. The others need no entry.
    #[serde(default)]
    pub host: Vec<Host>,
    /// The traffic.
    #[serde(default)]
    pub flow: Vec<Flow>,
    /// The scenario file's directory; paths of traces and logs are relative to it. Not part of the scenario's text or hash.
    #[serde(skip)]
    pub directory: PathBuf,
    /// Notes for the author on things that are not errors: keys that have a new name, each with its place. Not part of the
    /// scenario's text or hash.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// The largest seed. Scenarios are written as TOML, whose integers end there.
pub const LARGEST_SEED: u64 = i64::MAX as u64;

fn is_false(value: &bool) -> bool {
    !value
}

fn default_seed() -> u64 {
    1
}

fn default_sample_interval() -> Time {
    Time(warpline_core::TimeDelta::from_millis(100))
}

/// How time passes, written `[clock]`.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The kind of clock. Default virtual.
    #[serde(default)]
    pub mode: ClockMode,
    /// dilated: the dilation factor, how many times slower than real time the hosts' clocks run; need not be a whole number. "auto"
    /// starts at 1 and raises it during the run until this machine keeps up.
    pub tdf: Option<Tdf>,
    /// real, dilated: the run stops if a packet, live or simulated, is later than this, in the run's time. Default: late packets are counted, and the run goes on.
    #[schemars(example = &"5ms")]
    pub max_lag: Option<Time>,
}

/// The kinds of clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockMode {
    /// Simulation, as fast as the CPU allows.
    #[default]
    Virtual,
    /// Emulation in real time, with live hosts and guests (Linux).
    Real,
    /// Emulation slower than real time, so that guests see a faster network (Linux).
    Dilated,
}

impl ClockMode {
    /// All of them.
    pub const ALL: [ClockMode; 3] = [ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated];

    /// Its name, as scenarios write it.
    pub fn name(self) -> &'static str {
        match self {
            ClockMode::Virtual => "virtual",
            ClockMode::Real => "real",
            ClockMode::Dilated => "dilated",
        }
    }
}

/// Several runs of one scenario, written `[replications]`: results get means and 95 % confidence intervals.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicationPlan {
    /// Number of runs, with the seeds `seed`, `seed` + 1 and so on.
    #[schemars(range(min = 1, max = 100000), example = 10)]
    pub runs: Option<u32>,
    /// The seeds, instead of `runs`.
    #[schemars(example = &serde_json::json!([1, 2, 3]))]
    pub seeds: Option<Vec<u64>>,
}

impl Scenario {
    /// The directory that paths are relative to and that programs start in, as an absolute path if it exists.
    pub fn base(&self) -> PathBuf {
        let directory =
            if self.directory.as_os_str().is_empty() { ".".as_ref() } else { self.directory.as_path() };
        directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
    }

    /// What generates the traffic of flows at a node. For many nodes, [`hosts_by_name`](Self::hosts_by_name) is quicker.
    pub fn traffic(&self, node: &str) -> Traffic {
        self.host.iter().find(|host| host.name == node).map(Host::traffic).unwrap_or_default()
    }

    /// How flows choose among routes that are as good as each other.
    pub fn routing(&self) -> RoutingKind {
        let usual = || self.topology.as_ref().map(|topology| topology.layout().routing());
        self.routing.as_ref().map(|routing| routing.0).or_else(usual).unwrap_or_default()
    }

    /// Whether everything is simulated: virtual clock, no real programs, no real stacks.
    pub fn is_simulated(&self) -> bool {
        self.clock.mode == ClockMode::Virtual && self.host.iter().all(|host| host.traffic() == Traffic::Model)
    }

    /// The seeds of all runs; one, unless `[replications]` gives more.
    pub fn seeds(&self) -> Vec<u64> {
        match &self.replications {
            Some(ReplicationPlan { seeds: Some(seeds), .. }) if !seeds.is_empty() => seeds.clone(),
            Some(ReplicationPlan { runs: Some(runs), .. }) => {
                (0..u64::from(*runs)).map(|i| self.seed.wrapping_add(i)).collect()
            }
            _ => vec![self.seed],
        }
    }
}
