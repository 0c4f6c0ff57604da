//! One direction of a link: a queue, a transmitter, a wire with delay.
//!
//! There are two ways through it, with the same outcome to the nanosecond. A constant-rate drop-tail link with constant
//! delay, which is most of them, knows when a packet will have left at the moment it arrives (`Link::offer`): no event
//! for the departure, and no queue but a `Ledger`. Everything else (active queue management, priorities, rate schedules,
//! traces, jitter, outages, or somebody recording) takes the general way in `general`, with an event per departure.

use warpline_core::{NodeId, Rate, TimeDelta, Timestamp};

use crate::arena::{Arena, OnWire};
use crate::general::General;
use crate::ledger::{Entry, LOST, Ledger};
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

/// One direction of a link.
// Laid out by hand: what every packet touches comes first and fills whole cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Link {
    /// The transmitter of the fast way; not used where `limited` is false.
    rate: ConstantRate,
    delay: TimeDelta,
    framing: u32,
    /// Whether it has a constant rate.
    limited: bool,
    /// Whether packets take the general way.
    is_general: bool,
    /// Whether what is put onto its wire is noted.
    is_watched: bool,
    lossy: bool,
    /// Packets that will arrive at the far end, oldest first.
    wire: Ring<OnWire>,
    limit: Limit,
    ledger: Ledger,
    pub(crate) loss: Option<Box<LossModel>>,
    pub(crate) general: Option<Box<General>>,
    ends: (NodeId, NodeId),
    name: Box<str>,
}

/// Everything that a link is made from.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) ends: (NodeId, NodeId),
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: TimeDelta,
    pub(crate) framing: u32,
    pub(crate) limit: Limit,
    pub(crate) loss: Option<LossModel>,
    pub(crate) general: Option<General>,
}

/// A packet that a link on the fast way has taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// When its last bit arrives at the far end.
    pub(crate) arrival: Timestamp,
    /// Whether it will be lost on the wire.
    pub(crate) lost: bool,
}

impl Link {
    pub(crate) fn new(parts: Parts) -> Self {
        Link {
            rate: ConstantRate::new(parts.rate.unwrap_or(Rate::from_bps(0))),
            delay: parts.delay,
            framing: parts.framing,
            limited: parts.rate.is_some(),
            is_general: parts.general.is_some(),
            is_watched: false,
            lossy: parts.loss.is_some(),
            wire: Ring::default(),
            ledger: Ledger::default(),
            // Without serialisation nothing ever waits.
            limit: if parts.rate.is_some() { parts.limit } else { Limit::NONE },
            loss: parts.loss.map(Box::new),
            general: parts.general.map(Box::new),
            ends: parts.ends,
            name: parts.name.into_boxed_str(),
        }
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
    /// Constant rate; none if it has no limit or follows a schedule.
    pub fn rate(&self) -> Option<Rate> {
        self.limited.then(|| self.rate.rate())
    }
    /// Propagation delay, without jitter.
    pub fn delay(&self) -> TimeDelta {
        self.delay
    }
    /// Whether packets take the general way.
    #[inline]
    pub(crate) fn is_general(&self) -> bool {
        self.is_general
    }

    /// Whether what is put onto its wire is noted.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }
    /// From now on, it is.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
    }

    /// Offers a packet of `size` bytes that arrives at `at` to a link on the fast way; `now` is the present. None when the
    /// queue is full.
    ///
    /// Offers must come in the order of their arrival, which may lie ahead of the present; in the past only for a packet that
    /// is late (see `in_order`).
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        (slot, size): (u32, u32),
        arena: &Arena,
    ) -> Option<Accepted> {
        debug_assert!(!self.is_general);
        let size = u64::from(size) + u64::from(self.framing);
        let (held, held_bytes) = self.ledger.held();
        let roomy = held < self.limit.packets as usize && held_bytes + size <= self.limit.bytes;
        if !roomy && self.is_full(now, at.max(now), size) {
            self.ledger.enter_overflow(now, at);
            return None;
        }
        let (start, departure) = self.serialise(at, size);
        let lost = self.lossy && self.is_lost(slot, arena);
        let size = if lost { size | LOST } else { size };
        self.ledger.enter(now, Entry { arrival: at, start, departure, size });
        Some(Accepted { arrival: departure + self.delay, lost })
    }

    /// When a packet that was due at `due` can be offered at the earliest: not before the one offered last.
    pub(crate) fn in_order(&self, due: Timestamp) -> Timestamp {
        self.ledger.last_arrival().map_or(due, |last| due.max(last))
    }

    /// When the transmission of `size` bytes begins, and when it is complete.
    #[inline]
    fn serialise(&mut self, at: Timestamp, size: u64) -> (Timestamp, Timestamp) {
        if self.limited { self.rate.serve(at, size * 8) } else { (at, at) }
    }

    #[inline(never)]
    fn is_lost(&mut self, slot: u32, arena: &Arena) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.lose(&arena.packet(slot)))
    }

    #[inline(never)]
    fn is_full(&mut self, now: Timestamp, at: Timestamp, size: u64) -> bool {
        !self.limit.admits(self.ledger.waiting(now, at), u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Puts a packet onto the wire. Returns true when the wire was empty: then its arrival must be announced.
    #[inline]
    pub(crate) fn append(&mut self, packet: OnWire) -> bool {
        let was_empty = self.wire.is_empty();
        self.wire.push(packet);
        was_empty
    }

    /// Takes the packet that has just arrived from the wire. The second is the time of the next arrival.
    #[inline]
    pub(crate) fn pop(&mut self) -> (Option<OnWire>, Option<Timestamp>) {
        (self.wire.pop(), self.wire.front().map(|next| next.arrival))
    }

    pub(crate) fn framing(&self) -> u32 {
        self.framing
    }

    /// Arrival of the last packet on the wire, if there is one.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.wire.back().map(|packet| packet.arrival)
    }

    /// The counters at `now`.
    pub(crate) fn stats(&mut self, now: Timestamp) -> LinkStats {
        if let Some(general) = &self.general {
            return general.stats();
        }
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

    /// Packets given up already that will be lost only after `now`.
    pub(crate) fn doomed(&self, now: Timestamp) -> usize {
        self.ledger.doomed(now)
    }

    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        match &mut self.general {
            Some(general) => general.reset_queued_max(),
            None => self.ledger.reset_queued_max(now),
        }
    }
}
