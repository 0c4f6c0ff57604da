//! Which queueing discipline a link has, and the one type that holds any of them.

use warpline_core::{Rate, Stream, Timestamp};

use super::codel::{Codel, CodelConfig};
use super::droptail::DropTail;
use super::fifo::Limit;
use super::fq_codel::{FqCodel, FqCodelConfig};
use super::priority::{Priority, PriorityConfig};
use super::red::{Red, RedConfig};
use super::{Dropped, Qdisc, Queued, Verdict};
use crate::parameter::InvalidParameter;

/// A queueing discipline and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum QdiscConfig {
    /// First in, first out, up to a limit.
    DropTail {
        /// Default 1000 packets, as a Linux interface has.
        limit: Limit,
    },
    /// Strict priority over the traffic class.
    Priority(PriorityConfig),
    /// Random early detection (Floyd and Jacobson 1993).
    Red(RedConfig),
    /// Controlled delay (RFC 8289).
    Codel(CodelConfig),
    /// Fair queueing with CoDel per flow (RFC 8290).
    FqCodel(FqCodelConfig),
}

impl Default for QdiscConfig {
    fn default() -> Self {
        QdiscConfig::DropTail { limit: Limit::packets(1000) }
    }
}

impl QdiscConfig {
    /// Checks the parameters. A queue can also be built from bad ones, but then does nothing useful.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        match self {
            QdiscConfig::DropTail { limit } => limit.validate(),
            QdiscConfig::Priority(config) => config.validate(),
            QdiscConfig::Red(config) => config.validate(),
            QdiscConfig::Codel(config) => config.validate(),
            QdiscConfig::FqCodel(config) => config.validate(),
        }
    }
    /// An empty queue. Only RED (its drops) and FQ-CoDel (its hash) draw from `stream`.
    pub fn build(&self, stream: Stream) -> AnyQdisc {
        match self {
            QdiscConfig::DropTail { limit } => AnyQdisc::DropTail(DropTail::new(*limit)),
            QdiscConfig::Priority(config) => AnyQdisc::Priority(Priority::new(config)),
            QdiscConfig::Red(config) => AnyQdisc::Red(Box::new(Red::new(config.clone(), stream))),
            QdiscConfig::Codel(config) => AnyQdisc::Codel(Box::new(Codel::new(config))),
            QdiscConfig::FqCodel(config) => AnyQdisc::FqCodel(Box::new(FqCodel::new(config, stream))),
        }
    }
}

/// Any queueing discipline. The large ones are boxed so that a link with a FIFO stays small.
#[derive(Debug)]
pub enum AnyQdisc {
    /// First in, first out.
    DropTail(DropTail),
    /// Strict priority.
    Priority(Priority),
    /// Random early detection.
    Red(Box<Red>),
    /// Controlled delay.
    Codel(Box<Codel>),
    /// Fair queueing with CoDel per flow.
    FqCodel(Box<FqCodel>),
    /// One from outside this crate.
    Boxed(Box<dyn Qdisc>),
}

macro_rules! dispatch {
    ($self:ident, $queue:ident => $call:expr) => {
        match $self {
            AnyQdisc::DropTail($queue) => $call,
            AnyQdisc::Priority($queue) => $call,
            AnyQdisc::Red($queue) => $call,
            AnyQdisc::Codel($queue) => $call,
            AnyQdisc::FqCodel($queue) => $call,
            AnyQdisc::Boxed($queue) => $call,
        }
    };
}

impl Qdisc for AnyQdisc {
    #[inline]
    fn enqueue(&mut self, now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        dispatch!(self, queue => queue.enqueue(now, packet, dropped))
    }
    #[inline]
    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        dispatch!(self, queue => queue.dequeue(now, dropped))
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        dispatch!(self, queue => queue.backlog())
    }
    fn set_rate(&mut self, rate: Rate) {
        dispatch!(self, queue => queue.set_rate(rate));
    }
}
