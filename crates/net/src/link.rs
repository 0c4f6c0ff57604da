//! One direction of a link: a queue, a transmitter, a wire with delay.
//!
//! There are two kinds, with the same outcome to the nanosecond. A constant-rate drop-tail link with constant delay, the most
//! common kind, knows when a packet will have left at the moment it arrives (`Fifo`): no event for the departure, and no queue but a `Ledger`.
//! Everything else (active queue management, priorities, rate schedules, traces, jitter, outages, or recording) is a `General`
//! link, with an event per departure.

use warpline_core::{NodeId, Rate, TimeDelta, Timestamp};

use crate::arena::{Arena, OnWire, SlotId};
use crate::general::General;
use crate::ledger::{Entry, Ledger, Load};
use crate::loss::LossModel;
use crate::qdisc::Limit;
use crate::ring::Ring;
use crate::serialise::ConstantRate;

/// What a link has carried and lost since the run's start. Counters only grow: differences of two readings give intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered to the link.
    pub arrivals: u64,
    /// Packets whose transmission was completed.
    pub sent_packets: u64,
    /// Their bytes on the wire, framing included.
    pub sent_bytes: u64,
    /// Packets that did not fit into the queue.
    pub drops_overflow: u64,
    /// Packets dropped by active queue management.
    pub drops_aqm: u64,
    /// Packets lost on the wire; they count as sent.
    pub drops_loss: u64,
    /// Packets that met the link down.
    pub drops_down: u64,
    /// Packets marked congestion-experienced.
    pub marks: u64,
    /// Packets whose transmission has begun, so that their time in the queue is known.
    pub queued_packets: u64,
    /// Sum of their times in the queue, transmission excluded.
    pub queued_time: TimeDelta,
    /// Longest time in the queue since the last call of `Network::reset_queued_max`.
    pub queued_max: TimeDelta,
    /// Packets waiting now, without the one in transmission.
    pub backlog_packets: u32,
    /// Bytes waiting now.
    pub backlog_bytes: u64,
}

impl LinkStats {
    /// All packets that this link lost.
    pub fn drops(&self) -> u64 {
        self.drops_overflow + self.drops_aqm + self.drops_loss + self.drops_down
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
            Kind::Fifo(fifo) => fifo.limited.then(|| fifo.rate.rate()),
            Kind::General(general) => general.rate(),
        }
    }
    /// Propagation delay, without jitter.
    pub fn delay(&self) -> TimeDelta {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.delay,
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
            Kind::Fifo(fifo) => fifo.watched = true,
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
            Kind::Fifo(fifo) => fifo.ledger.doomed(now),
            Kind::General(_) => 0,
        }
    }
    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.ledger.reset_queued_max(now),
            Kind::General(general) => general.reset_queued_max(),
        }
    }
}

/// Packets that will arrive at the far end, in the order in which they left.
#[derive(Debug, Default)]
pub(crate) struct Wire(Ring<OnWire>);

impl Wire {
    /// Puts a packet onto the wire. Returns true when the wire was empty: then its arrival must be announced.
    #[inline]
    pub(crate) fn append(&mut self, packet: OnWire) -> bool {
        let was_empty = self.0.is_empty();
        self.0.push(packet);
        was_empty
    }
    /// Takes the packet that has just arrived from the wire. The second value is the time of the next arrival.
    #[inline]
    pub(crate) fn take(&mut self) -> (Option<OnWire>, Option<Timestamp>) {
        (self.0.pop(), self.0.front().map(|next| next.arrival))
    }
    /// Arrival of the last packet on the wire, if there is one.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.0.back().map(|packet| packet.arrival)
    }
}

/// A constant-rate drop-tail link with constant delay.
// Laid out by hand: fields that every packet touches come first and fill whole cache lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Fifo {
    /// Not used if `limited` is false.
    rate: ConstantRate,
    delay: TimeDelta,
    framing: u32,
    /// Whether it has a rate: without one, packets take no time and nothing ever waits.
    limited: bool,
    /// Whether packets put onto its wire are noted.
    watched: bool,
    lossy: bool,
    wire: Wire,
    limit: Limit,
    ledger: Ledger,
    loss: Option<Box<LossModel>>,
}

/// A packet that a link has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// When its last bit arrives at the far end.
    pub(crate) arrival: Timestamp,
    /// Whether it will be lost on the wire.
    pub(crate) lost: bool,
}

impl Fifo {
    /// A link with `rate`; `None` for no limit.
    pub(crate) fn new(
        rate: Option<Rate>,
        delay: TimeDelta,
        framing: u32,
        limit: Limit,
        loss: Option<LossModel>,
    ) -> Self {
        Fifo {
            rate: ConstantRate::new(rate.unwrap_or(Rate::from_bps(0))),
            delay,
            framing,
            limited: rate.is_some(),
            watched: false,
            lossy: loss.is_some(),
            wire: Wire::default(),
            limit: if rate.is_some() { limit } else { Limit::NONE },
            ledger: Ledger::default(),
            loss: loss.map(Box::new),
        }
    }

    /// Whether packets put onto its wire are noted.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }
    #[inline]
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Offers a packet of `size` bytes that arrives at `at`; `now` is the current time. `None` if the queue is full.
    ///
    /// Offers must come in the order of their arrival, which may lie ahead of the current time; in the past only for a late
    /// packet (see `in_order`).
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        (slot, size): (SlotId, u32),
        arena: &Arena,
    ) -> Option<Accepted> {
        let size = u64::from(size) + u64::from(self.framing);
        let (held, held_bytes) = self.ledger.held();
        let roomy = held < self.limit.packets as usize && held_bytes + size <= self.limit.bytes;
        if !roomy && self.is_full(now, at.max(now), size) {
            self.ledger.enter_overflow(now, at);
            return None;
        }
        let (start, departure) = if self.limited { self.rate.serve(at, size * 8) } else { (at, at) };
        let lost = self.lossy && self.is_lost(slot, arena);
        self.ledger.enter(now, Entry { arrival: at, start, departure, load: Load::new(size, lost) });
        Some(Accepted { arrival: departure + self.delay, lost })
    }

    /// The earliest time at which a packet that was due at `due` can be offered: not before the last one.
    pub(crate) fn in_order(&self, due: Timestamp) -> Timestamp {
        self.ledger.last_arrival().map_or(due, |last| due.max(last))
    }

    #[inline(never)]
    fn is_lost(&mut self, slot: SlotId, arena: &Arena) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.lose(&arena.packet(slot)))
    }

    #[inline(never)]
    fn is_full(&mut self, now: Timestamp, at: Timestamp, size: u64) -> bool {
        !self.limit.admits(self.ledger.waiting(now, at), u32::try_from(size).unwrap_or(u32::MAX))
    }

    fn stats(&mut self, now: Timestamp) -> LinkStats {
        let (sums, backlog) = self.ledger.read(now);
        LinkStats {
            arrivals: sums.packets + sums.overflows + u64::from(backlog.packets) + u64::from(backlog.busy),
            sent_packets: sums.packets,
            sent_bytes: sums.bytes,
            drops_overflow: sums.overflows,
            drops_loss: sums.lost,
            queued_packets: sums.packets + u64::from(backlog.busy),
            queued_time: TimeDelta::from_nanos(sums.queued_time),
            queued_max: TimeDelta::from_nanos(sums.queued_max),
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes,
            ..LinkStats::default()
        }
    }
}
