//! One direction of a link: a queue, a transmitter, a wire with delay.
//!
//! There are two kinds, with the same outcome to the nanosecond. A constant-rate link with constant delay, and a queue that drops or marks by
//! what waits (drop-tail, a step in packets, or RED at one threshold, as for DCTCP), is the most common kind. It knows when a packet will have left at the moment
//! it arrives (`Fifo`): no event for the departure, and no queue but a `Ledger`. Everything else (other active queue management, priorities,
//! rate schedules, traces, jitter, outages, changes, priority flow control, or recording) is a `General` link, with an event per departure.

use std::sync::Arc;

use warpline_core::{LinkId, NodeId, Rate, TimeDelta, Timestamp};

use crate::aggregate::Wifi;
use crate::change::{ChangeError, LinkChange};
use crate::far::Far;
use crate::fifo::Fifo;
use crate::general::{Announce, General};
use crate::incoming::Incoming;
use crate::jitter::JitterKind;
use crate::loss::{LossConfig, LossKind};
use crate::mahimahi::{Trace, TraceLink};
use crate::pfc::{Pfc, PfcConfig};
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
    /// Aggregates, each after a contention for the channel.
    Wifi(Wifi),
}

impl RateConfig {
    /// The rate, if it is always the same.
    pub fn constant(&self) -> Option<Rate> {
        if let RateConfig::Constant(rate) = self { Some(*rate) } else { None }
    }

    pub(crate) fn serialiser(&self) -> Option<Serialiser> {
        match self {
            RateConfig::Unlimited | RateConfig::Wifi(_) => None,
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
    /// Which packets arrive twice: those that a loss model of this kind would lose. A packet that is lost has no copy. The copy arrives right behind
    /// its packet and takes no time on this link.
    pub duplicate: LossKind,
    /// Which packets arrive with a bit changed, so that their receiver drops them: those that a loss model of this kind would lose.
    pub corrupt: LossKind,
    /// Extra delay per packet.
    pub jitter: JitterKind,
    /// Outages as (from, until): the queue is emptied, a packet in transmission is finished, and packets on the wire arrive.
    /// Outages that meet or overlap become one.
    pub outages: Vec<(Timestamp, Timestamp)>,
    /// Changes that are planned: when, and what. Those of one instant are made in their order.
    pub changes: Vec<(Timestamp, LinkChange)>,
    /// Whether it may be changed in other ways while it is in use ([`Network::change`](crate::Network::change)). That makes it slower.
    pub changeable: bool,
    /// Bytes that each packet takes on this link beyond its IP datagram (14 to 38 for Ethernet).
    pub framing: u32,
    /// Priority flow control of the node at which the link ends, over this link. The links that begin there have to count sources.
    pub pfc: Option<PfcConfig>,
    /// Whether packets are counted by the link over which they came, for priority flow control at the node where this link begins.
    pub counts_sources: bool,
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
            duplicate: LossKind::default(),
            corrupt: LossKind::default(),
            jitter: JitterKind::default(),
            outages: Vec::new(),
            changes: Vec::new(),
            changeable: false,
            framing: 0,
            pfc: None,
            counts_sources: false,
            record: false,
        }
    }
}

impl LinkConfig {
    /// Whether a link like this can be changed like that, if it is made for it.
    ///
    /// # Errors
    /// If what is to be changed follows something else.
    pub fn check(&self, change: &LinkChange) -> Result<(), ChangeError> {
        let constant = matches!(self.rate, RateConfig::Unlimited | RateConfig::Constant(_));
        change.check(!constant, self.detour.is_some())
    }
}

/// One direction of a link: its name, its ends, and its kind.
// The kind comes first: what every packet touches fills whole cache lines from there on.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Link {
    pub(crate) kind: Kind,
    /// Its number in the network, whatever its number in a part.
    pub(crate) id: LinkId,
    ends: (NodeId, NodeId),
    name: Box<str>,
}

// Large networks have millions of them.
const _: () = assert!(size_of::<Link>() <= 256);

/// The kinds of links.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and every packet touches it")]
pub(crate) enum Kind {
    Fifo(Fifo),
    General(Box<General>),
    /// The far end of a link of another part.
    Incoming(Box<Incoming>),
}

impl Link {
    pub(crate) fn new(id: LinkId, name: String, ends: (NodeId, NodeId), kind: Kind) -> Self {
        Link { kind, id, ends, name: name.into_boxed_str() }
    }

    /// The far end of this link, for the part that it leads to.
    pub(crate) fn far_end(&self) -> Link {
        let reorders = matches!(&self.kind, Kind::General(general) if general.reorders());
        let kind = Kind::Incoming(Box::new(Incoming::new(reorders)));
        Link { kind, id: self.id, ends: self.ends, name: Box::default() }
    }

    /// A number for the packet that a host sends over it now. With a `step` of at least the number of links, no other packet has it.
    #[inline]
    pub(crate) fn number(&self, step: u64) -> u64 {
        let offered = match &self.kind {
            Kind::Fifo(fifo) => fifo.offered(),
            Kind::General(general) => general.offered(),
            Kind::Incoming(_) => 0,
        };
        offered * step + u64::from(self.id.0)
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
            Kind::Incoming(_) => None,
        }
    }
    /// Propagation delay, without jitter; of a link with planned changes the least of all.
    pub fn delay(&self) -> TimeDelta {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.delay(),
            Kind::General(general) => general.delay(),
            Kind::Incoming(_) => TimeDelta::ZERO,
        }
    }
    /// Whether its departures are events: it has active queue management, a rate that changes, jitter, outages, changes or records.
    pub fn has_departures(&self) -> bool {
        matches!(self.kind, Kind::General(_))
    }
    /// Its part in priority flow control, if the node where it ends uses that.
    pub(crate) fn pfc(&mut self) -> Option<&mut Pfc> {
        match &mut self.kind {
            Kind::General(general) => general.pfc(),
            Kind::Fifo(_) | Kind::Incoming(_) => None,
        }
    }
    /// Whether the node where it ends uses priority flow control.
    pub fn has_pfc(&self) -> bool {
        matches!(&self.kind, Kind::General(general) if general.has_pfc())
    }
    /// Whether its queue goes by headers.
    pub(crate) fn reads_headers(&self) -> bool {
        matches!(&self.kind, Kind::General(general) if general.reads_headers())
    }
    /// What its far end is.
    pub(crate) fn far(&self) -> Far {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.far(),
            Kind::General(general) => general.far(),
            Kind::Incoming(_) => Far::Near,
        }
    }
    /// Sets what its far end is.
    pub(crate) fn set_far(&mut self, far: Far) {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.set_far(far),
            Kind::General(general) => general.set_far(far),
            Kind::Incoming(_) => {}
        }
    }
    /// Whether every packet event is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(&self.kind, Kind::General(general) if general.is_recorded())
    }

    /// When it changes next as planned.
    pub(crate) fn next_change(&self, now: Timestamp) -> Timestamp {
        match &self.kind {
            Kind::General(general) => general.next_change(now),
            Kind::Fifo(_) | Kind::Incoming(_) => Timestamp::NEVER,
        }
    }
    /// Lets everything that is planned happen `span` earlier. Returns the events to schedule for that.
    pub(crate) fn skip(&mut self, now: Timestamp, span: TimeDelta) -> Announce {
        match &mut self.kind {
            Kind::General(general) => general.skip(now, span),
            Kind::Fifo(_) | Kind::Incoming(_) => Announce::default(),
        }
    }

    /// The counters at `now`.
    pub(crate) fn stats(&mut self, now: Timestamp) -> LinkStats {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.stats(now),
            Kind::General(general) => general.stats(now),
            Kind::Incoming(_) => LinkStats::default(),
        }
    }
    /// Packets sent by `now`, one of its counters. It takes no longer with a long queue.
    pub(crate) fn sent_packets(&mut self, now: Timestamp) -> u64 {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.sent_packets(now),
            Kind::General(general) => general.sent_packets(),
            Kind::Incoming(_) => 0,
        }
    }
    /// Packets already given up that will be lost only after `now`.
    pub(crate) fn doomed(&self, now: Timestamp) -> usize {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.doomed(now),
            Kind::General(_) | Kind::Incoming(_) => 0,
        }
    }
    /// Copies of packets already made that will be on the wire only after `now`.
    pub(crate) fn unborn(&self, now: Timestamp) -> usize {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.unborn(now),
            Kind::General(_) | Kind::Incoming(_) => 0,
        }
    }
    /// Packets on its wire that are also in another part.
    pub(crate) fn copies(&self) -> usize {
        match &self.kind {
            Kind::General(general) => general.copies(),
            Kind::Fifo(_) | Kind::Incoming(_) => 0,
        }
    }
    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.reset_queued_max(now),
            Kind::General(general) => general.reset_queued_max(),
            Kind::Incoming(_) => {}
        }
    }
}
