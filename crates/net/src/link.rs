//! One direction of a link: a queue, a transmitter, a wire with delay.
//!
//! There are two kinds, with the same outcome to the nanosecond. A constant-rate drop-tail link with constant delay, the most
//! common kind, knows when a packet will have left at the moment it arrives (`Fifo`): no event for the departure, and no queue but a `Ledger`.
//! Everything else (active queue management, priorities, rate schedules, traces, jitter, outages, or recording) is a `General`
//! link, with an event per departure.

use std::sync::Arc;

use warpline_core::{NodeId, Rate, TimeDelta, Timestamp};

use crate::fifo::Fifo;
use crate::general::General;
use crate::jitter::JitterKind;
use crate::loss::LossConfig;
use crate::mahimahi::{Trace, TraceLink};
use crate::qdisc::{OwnQueue, QdiscConfig, Sizing};
use crate::schedule::{RateSchedule, Steps};
use crate::serialise::{ConstantRate, Serialiser};
pub use crate::stats::LinkStats;

/// How fast a link sends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RateConfig {
    /// Serialisation takes no time.
    Unlimited,
    /// Always the same rate.
    Constant(Rate),
    /// A rate that changes at stated times.
    Scheduled(RateSchedule),
    /// The opportunities of a mahimahi trace.
    Trace(Arc<Trace>),
}

impl RateConfig {
    pub(crate) fn serialiser(&self) -> Option<Serialiser> {
        match self {
            RateConfig::Unlimited => None,
            RateConfig::Constant(rate) => Some(Serialiser::Constant(ConstantRate::new(*rate))),
            RateConfig::Scheduled(schedule) => Some(Serialiser::Scheduled(schedule.clone())),
            RateConfig::Trace(trace) => Some(Serialiser::Trace(TraceLink::new(trace.clone()))),
        }
    }
}

/// Configuration of a link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Its name, "from>to": also the name of its random streams.
    pub name: String,
    /// Where it starts.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Rate: constant, scheduled, from a trace, or without limit.
    pub rate: RateConfig,
    /// Propagation delay.
    pub delay: TimeDelta,
    /// Additional delay that changes over time, as when packets take another route: each packet gets the value in force when it leaves. No packet
    /// overtakes another because of that, unless jitter allows it.
    pub detour: Option<Steps<TimeDelta>>,
    /// Queueing discipline.
    pub qdisc: QdiscConfig,
    /// A queue of one's own, in place of `qdisc`.
    pub own_queue: Option<OwnQueue>,
    /// What limits of the queue in BDPs, times and full packets are counted by.
    pub sizing: Sizing,
    /// Loss on the wire.
    pub loss: LossConfig,
    /// Extra delay per packet.
    pub jitter: JitterKind,
    /// Outages as (from, until): the queue is emptied, a packet in transmission is finished, and packets on the wire arrive.
    /// Outages that meet or overlap become one.
    pub outages: Vec<(Timestamp, Timestamp)>,
    /// Bytes that each packet takes on this link beyond its IP datagram (14 to 38 for Ethernet).
    pub framing: u32,
    /// Whether every packet event is recorded.
    pub record: bool,
}

impl LinkConfig {
    /// A link without a limit, delay or loss.
    pub fn new(name: impl Into<String>, from: NodeId, to: NodeId) -> Self {
        LinkConfig {
            name: name.into(),
            from,
            to,
            rate: RateConfig::Unlimited,
            delay: TimeDelta::ZERO,
            detour: None,
            qdisc: QdiscConfig::default(),
            own_queue: None,
            sizing: Sizing::default(),
            loss: LossConfig::default(),
            jitter: JitterKind::default(),
            outages: Vec::new(),
            framing: 0,
            record: false,
        }
    }
}

/// One direction of a link: its name, its ends, and its kind.
#[derive(Debug)]
#[repr(align(64))]
pub struct Link {
    pub(crate) kind: Kind,
    ends: (NodeId, NodeId),
    name: Box<str>,
}

/// The two kinds of links.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and every packet touches it")]
pub(crate) enum Kind {
    Fifo(Fifo),
    General(Box<General>),
}

impl Link {
    pub(crate) fn new(name: String, ends: (NodeId, NodeId), kind: Kind) -> Self {
        Link { kind, ends, name: name.into_boxed_str() }
    }

    /// Its name, "from>to".
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Where it starts.
    pub fn from(&self) -> NodeId {
        self.ends.0
    }
    /// Where it ends.
    pub fn to(&self) -> NodeId {
        self.ends.1
    }
    /// Constant rate; `None` if it has no limit or follows a schedule.
    pub fn rate(&self) -> Option<Rate> {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.rate(),
            Kind::General(general) => general.rate(),
        }
    }
    /// Propagation delay, without jitter.
    pub fn delay(&self) -> TimeDelta {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.delay(),
            Kind::General(general) => general.delay(),
        }
    }
    /// Whether its departures are events.
    pub(crate) fn is_general(&self) -> bool {
        matches!(self.kind, Kind::General(_))
    }
    /// From now on, notes packets put onto its wire.
    pub(crate) fn watch(&mut self) {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.watch(),
            Kind::General(general) => general.watch(),
        }
    }

    /// The counters at `now`.
    pub(crate) fn stats(&mut self, now: Timestamp) -> LinkStats {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.stats(now),
            Kind::General(general) => general.stats(),
        }
    }
    /// Packets already given up that will be lost only after `now`.
    pub(crate) fn doomed(&self, now: Timestamp) -> usize {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.doomed(now),
            Kind::General(_) => 0,
        }
    }
    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.reset_queued_max(now),
            Kind::General(general) => general.reset_queued_max(),
        }
    }
}
