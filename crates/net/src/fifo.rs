//! The fast kind of link: a constant rate, a constant delay, and a first-in first-out queue that drops and marks by what waits. It knows when a
//! packet will have left at the moment it arrives: no event for the departure, and no queue but a `Ledger`.

use warpline_core::{Ecn, Rate, TimeDelta, Timestamp};

use crate::arena::{Arena, SlotId};
use crate::far::Far;
use crate::fate::{Fate, Fates};
use crate::ledger::{Entry, Ledger, Load, Refusal};
use crate::qdisc::{Admission, Limit};
use crate::serialise::ConstantRate;
use crate::stats::LinkStats;
use crate::wire::Wire;

/// A constant-rate link with constant delay and a simple queue.
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
    far: Far,
    /// Whether anything may become of a packet on the wire.
    fated: bool,
    /// Whether packets are marked from `easy` on.
    marks: bool,
    wire: Wire,
    /// While fewer packets wait, each is taken as it is, given that its bytes fit.
    easy: u32,
    most_packets: u32,
    most_bytes: u64,
    ledger: Ledger,
    /// What decides what becomes of a packet on the wire.
    fates: Option<Box<Fates>>,
}

/// A packet that a link has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// When its last bit arrives at the far end.
    pub(crate) arrival: Timestamp,
    /// What will become of it on the wire.
    pub(crate) fate: Fate,
}

impl Fifo {
    /// A link with `rate`; `None` for no limit.
    pub(crate) fn new(
        rate: Option<Rate>,
        delay: TimeDelta,
        framing: u32,
        admission: Admission,
        fates: Option<Fates>,
    ) -> Self {
        // Without serialisation nothing ever waits.
        let Admission { limit, mark_from } = if rate.is_some() { admission } else { Admission::ALL };
        Fifo {
            rate: ConstantRate::new(rate.unwrap_or(Rate::from_bps(0))),
            delay,
            framing,
            limited: rate.is_some(),
            far: Far::Near,
            fated: fates.is_some(),
            marks: mark_from.is_some(),
            wire: Wire::default(),
            easy: mark_from.map_or(limit.packets, |from| from.min(limit.packets)),
            most_packets: limit.packets,
            most_bytes: limit.bytes,
            ledger: Ledger::default(),
            fates: fates.map(Box::new),
        }
    }

    /// Its rate; `None` for no limit.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.limited.then(|| self.rate.rate())
    }
    /// Propagation delay.
    pub(crate) fn delay(&self) -> TimeDelta {
        self.delay
    }
    /// What its far end is.
    #[inline]
    pub(crate) fn far(&self) -> Far {
        self.far
    }
    /// Sets what its far end is.
    pub(crate) fn set_far(&mut self, far: Far) {
        self.far = far;
    }
    /// Packets offered so far, if no feeder offers them ahead of time.
    #[inline]
    pub(crate) fn offered(&self) -> u64 {
        self.ledger.entered()
    }
    #[inline]
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Offers a packet of `size` bytes that arrives at `at`; `now` is the current time. `None` if it is dropped.
    ///
    /// Offers must come in the order of their arrival, which may lie ahead of the current time; in the past only for a late
    /// packet (see `in_order`).
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        (slot, size): (SlotId, u32),
        arena: &mut Arena,
    ) -> Option<Accepted> {
        let size = u64::from(size) + u64::from(self.framing);
        let (held, held_bytes) = self.ledger.held();
        let easy = held < self.easy as usize && held_bytes + size <= self.most_bytes;
        let marked = !easy && self.judge(now, at, size, slot, arena)?;
        let (start, departure) = if self.limited { self.rate.serve(at, size * 8) } else { (at, at) };
        let fate = if self.fated { self.fate(departure, slot, arena) } else { Fate::WHOLE };
        self.ledger.enter(now, Entry { arrival: at, start, departure, load: Load::new(size, fate, marked) });
        Some(Accepted { arrival: departure + self.delay, fate })
    }

    /// The earliest time at which a packet that was due at `due` can be offered: not before the last one.
    pub(crate) fn in_order(&self, due: Timestamp) -> Timestamp {
        self.ledger.last_arrival().map_or(due, |last| due.max(last))
    }

    #[inline(never)]
    fn fate(&mut self, departure: Timestamp, slot: SlotId, arena: &Arena) -> Fate {
        let Some(fates) = &mut self.fates else { return Fate::WHOLE };
        fates.decide(departure, &arena.packet(slot))
    }

    /// Whether a packet is marked here, by what waits when it arrives; `None` if it is dropped.
    #[inline(never)]
    fn judge(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        size: u64,
        slot: SlotId,
        arena: &mut Arena,
    ) -> Option<bool> {
        let waiting = self.ledger.waiting(now, at.max(now));
        let limit = Limit { packets: self.most_packets, bytes: self.most_bytes };
        let signal = self.marks && waiting.0 >= self.easy;
        let refusal = if signal && arena.ecn(slot) == Ecn::NotEct {
            Refusal::Early
        } else if !limit.admits(waiting, u32::try_from(size).unwrap_or(u32::MAX)) {
            Refusal::Full
        } else {
            return Some(signal && arena.mark(slot));
        };
        self.ledger.refuse(now, at, refusal);
        None
    }

    /// Packets already given up that will be lost only after `now`.
    pub(crate) fn doomed(&self, now: Timestamp) -> usize {
        self.ledger.doomed(now)
    }
    /// Copies already made that will be on the wire only after `now`.
    pub(crate) fn unborn(&self, now: Timestamp) -> usize {
        if self.fated { self.ledger.ahead(now).filter(|fate| fate.is_copied()).count() } else { 0 }
    }
    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        self.ledger.reset_queued_max(now);
    }

    pub(crate) fn sent_packets(&mut self, now: Timestamp) -> u64 {
        self.ledger.departed(now)
    }

    pub(crate) fn stats(&mut self, now: Timestamp) -> LinkStats {
        let (sums, backlog) = self.ledger.read(now);
        let (copied, damaged) = self.ledger.befallen(now);
        LinkStats {
            arrivals: sums.packets
                + sums.overflows
                + sums.early_drops
                + u64::from(backlog.packets)
                + u64::from(backlog.busy),
            sent_packets: sums.packets,
            sent_bytes: sums.bytes,
            drops_overflow: sums.overflows,
            drops_aqm: sums.early_drops,
            marks: sums.marks,
            drops_loss: sums.lost,
            duplicated: copied,
            corrupted: damaged,
            queued_packets: sums.packets + u64::from(backlog.busy),
            queued_time: TimeDelta::from_nanos(sums.queued_time),
            queued_max: TimeDelta::from_nanos(sums.queued_max),
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes,
            ..LinkStats::default()
        }
    }
}
