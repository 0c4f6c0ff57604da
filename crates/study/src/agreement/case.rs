//! A case of the comparison: something that Linux and the model both have, on a path.

use std::collections::BTreeMap;
use std::fmt;

use warpline_results::{Summary, Unit};

use crate::names::file_name;
use crate::scale::{LEAST_QUEUE, LEAST_RETRANSMITTED};

/// What was measured on one path.
pub type Measured = BTreeMap<Figure, f64>;

/// Who does what is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// A Linux kernel.
    Linux,
    /// The model.
    Model,
}

impl Stack {
    pub(super) const BOTH: [Stack; 2] = [Stack::Linux, Stack::Model];

    /// Its name in names of files.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Stack::Linux => "linux",
            Stack::Model => "model",
        }
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Whether runs are a quarter as long.
    pub quick: bool,
    /// How many paths of a kind are run where anything is random.
    pub seeds: u32,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Goodput of all TCP flows.
    Goodput,
    /// Mean delay in the bottleneck's queue.
    QueueDelay,
    /// Retransmitted share of the packets.
    Retransmitted,
    /// Share of the goodput that the host with one flow has, beside a host with three.
    Share,
}

impl Figure {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Figure::Goodput => "goodput",
            Figure::QueueDelay => "queue delay",
            Figure::Retransmitted => "retransmitted",
            Figure::Share => "host's share",
        }
    }

    pub(super) const fn unit(self) -> Unit {
        match self {
            Figure::Goodput => Unit::BitPerSecond,
            Figure::QueueDelay => Unit::Millisecond,
            Figure::Retransmitted | Figure::Share => Unit::Share,
        }
    }

    /// The least that differences are measured by, where the round trip takes so long.
    pub(super) fn floor(self, rtt_ms: u32) -> f64 {
        match self {
            Figure::Goodput | Figure::Share => f64::MIN_POSITIVE,
            Figure::QueueDelay => LEAST_QUEUE * f64::from(rtt_ms),
            Figure::Retransmitted => LEAST_RETRANSMITTED,
        }
    }
}

/// Something that Linux and the model both have, on a path.
pub trait Case: fmt::Debug + Send + Sync {
    /// Name of the congestion control or the queue.
    fn subject(&self) -> &'static str;

    /// The properties of its path, each one of [`words`](super::words).
    fn properties(&self) -> Vec<&'static str>;

    /// Round-trip time of its path, without queueing.
    fn rtt_ms(&self) -> u32;

    /// Whether it belongs to a quick comparison.
    fn is_quick(&self) -> bool;

    /// What is compared.
    fn figures(&self) -> &'static [Figure];

    /// How many paths of its kind a scenario has.
    fn paths(&self, size: Size) -> u32;

    /// About how many packets a run has, to tell long runs from short ones.
    fn packets(&self, size: Size) -> f64;

    /// Whether models send the traffic of Linux's runs, too. Then another build of the program may change them.
    fn has_traffic_of_models(&self) -> bool {
        false
    }

    /// The scenario for a stack, as TOML.
    fn scenario(&self, stack: Stack, size: Size) -> String;

    /// The figures of a path, counted from 1, out of the summary of a stack's run. `None` if a flow or a link is missing.
    fn measure(&self, summary: &Summary, stack: Stack, path: u32) -> Option<Measured>;
}

impl dyn Case + '_ {
    /// The name of its path: "10Mbit/s 50ms 1% droptail".
    pub fn path(&self) -> String {
        self.properties().join(" ")
    }

    /// Name of the file with a scenario, without an ending: "reno-10mbit-s-50ms-1-droptail-linux".
    pub(super) fn file_name(&self, stack: Stack) -> String {
        file_name(&format!("{} {} {}", self.subject(), self.path(), stack.name()))
    }
}
