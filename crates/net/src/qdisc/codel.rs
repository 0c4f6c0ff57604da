//! CoDel: controlled delay. RFC 8289, with the names of its section 5; Linux's `sch_codel` has the same parameters.
//!
//! Beyond the pseudocode of the RFC: a hard limit on arrival (the RFC leaves the buffer's size open), and ECN marking as in
//! Linux: where a packet would be dropped but is ECN-capable, it is marked and sent instead; `drop_next` advances all the same.
//!
//! Where the RFC's pseudocode and Linux (`include/net/codel_impl.h`) differ, this is Linux's:
//! - 1/sqrt(count) is not exact: each change of the count brings it closer by one Newton step in 16 bits ([`root`](super::root)). The second drop comes
//!   half an interval after the first, where the exact root has 71 % of one, and a queue whose count is remembered starts from what was left of the
//!   last time. So more is dropped while the count is small.
//! - A queue that runs dry without a drop keeps its `first_above_time`. This matters in FQ-CoDel only, where a flow's queue runs dry while others are
//!   full. In a single queue the next packet waits alone, which resets it.
//!
//! Departures from Linux: times are in nanoseconds, where Linux counts 1024 of them. Left out are `ce_threshold` and, of newer kernels, the limit of 256 drops for each
//! packet sent.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::fifo::{Fifo, Limit};
use super::root::InverseRoot;
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Controlled delay (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("codel")]
pub struct CodelParams {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Acceptable standing delay; RFC 8289 has it at 5 to 10 % of `interval`.
    #[parameter(default = TimeDelta::from_millis(5), above = TimeDelta::ZERO, not_above = "interval")]
    pub target: TimeDelta,
    /// How long the delay must stay above the target, about the largest RTT.
    #[parameter(default = TimeDelta::from_millis(100), above = TimeDelta::ZERO)]
    pub interval: TimeDelta,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

/// The control of one queue: its state, without the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    /// When the delay will have been above target for an interval; `None` while it is below.
    first_above_time: Option<Timestamp>,
    /// When to drop next while dropping.
    drop_next: Timestamp,
    /// Drops since dropping began.
    count: u32,
    /// `count` when dropping last began.
    last_count: u32,
    /// The part of an interval from one drop to the next.
    root: InverseRoot,
    dropping: bool,
}

/// The parameters that the control needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    target: TimeDelta,
    interval: TimeDelta,
    ecn: bool,
    /// Largest packet of the link in bytes (MAXPACKET): nothing is dropped while no more than this waits.
    mtu: u32,
}

impl Law {
    pub(crate) fn new(params: &CodelParams, sizing: &Sizing) -> Self {
        let CodelParams { target, interval, ecn, .. } = *params;
        Law { target, interval, ecn, mtu: sizing.packet }
    }
}

impl Control {
    /// Drops at another rate, after this many.
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.root = if count == 1 { InverseRoot::ONE } else { self.root.step(count) }.in_16_bits();
    }

    /// Sets when the next drop is due after one at `from`: an interval later over the root of the drops so far.
    fn schedule(&mut self, law: &Law, from: Timestamp) {
        self.drop_next = from + self.root.of(law.interval);
    }

    /// A full buffer has dropped this many packets of the queue, which count as drops of the control's own.
    pub(crate) fn overflowed(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }

    /// The head of the queue, and whether its delay allows dropping it (`dodequeue`).
    fn head(&mut self, law: &Law, now: Timestamp, fifo: &mut Fifo, elsewhere: u64) -> Option<(Queued, bool)> {
        let packet = fifo.pop()?;
        let sojourn = now.saturating_since(packet.arrived);
        if sojourn < law.target || fifo.backlog().1 + elsewhere <= u64::from(law.mtu) {
            self.first_above_time = None;
            return Some((packet, false));
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + law.interval);
                Some((packet, false))
            }
            Some(at) => Some((packet, now >= at)),
        }
    }

    /// The next packet to send; those dropped on the way go to `dropped`. `elsewhere`: bytes that wait in other queues of the same buffer.
    /// As in Linux (`codel_should_drop`), the buffer decides whether no more than one packet waits.
    pub(crate) fn dequeue(
        &mut self,
        law: &Law,
        now: Timestamp,
        fifo: &mut Fifo,
        elsewhere: u64,
        dropped: &mut Dropped,
    ) -> Option<Queued> {
        let Some((mut packet, mut ok_to_drop)) = self.head(law, now, fifo, elsewhere) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.set_count(self.count.wrapping_add(1));
                if law.ecn && packet.mark() {
                    self.schedule(law, self.drop_next);
                    break;
                }
                dropped.0.push((packet, DropReason::Aqm));
                let Some(next) = self.head(law, now, fifo, elsewhere) else {
                    (self.dropping, self.first_above_time) = (false, None);
                    return None;
                };
                (packet, ok_to_drop) = next;
                if ok_to_drop {
                    self.schedule(law, self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            let marked = law.ecn && packet.mark();
            let next = if marked {
                Some(packet)
            } else {
                dropped.0.push((packet, DropReason::Aqm));
                let head = self.head(law, now, fifo, elsewhere);
                if head.is_none() {
                    self.first_above_time = None;
                }
                head.map(|(packet, _)| packet)
            };
            self.dropping = true;
            // Coming back soon after the last time, start near the rate that controlled the queue then.
            let delta = self.count.wrapping_sub(self.last_count);
            let recent = now < self.drop_next + law.interval * 16;
            self.set_count(if delta > 1 && recent { delta } else { 1 });
            self.schedule(law, now);
            self.last_count = self.count;
            return next;
        }
        Some(packet)
    }
}

/// A CoDel queue.
#[derive(Debug)]
pub struct Codel {
    fifo: Fifo,
    limit: Limit,
    law: Law,
    control: Control,
}

impl BuiltIn for Codel {
    type Params = CodelParams;

    fn new(params: &CodelParams, sizing: &Sizing, _stream: Stream) -> Self {
        Codel {
            fifo: Fifo::default(),
            limit: params.limit.resolve(sizing),
            law: Law::new(params, sizing),
            control: Control::default(),
        }
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, _dropped: &mut Dropped) -> Verdict {
        if !self.limit.admits(self.fifo.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.fifo.push(packet);
        Verdict::Queued
    }
    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        self.control.dequeue(&self.law, now, &mut self.fifo, 0, dropped)
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.fifo.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::{Ecn, Streams};

    /// A queue that holds packets of 1000 bytes which all arrived at time 0, served every millisecond from `from` ms on.
    /// Returns the milliseconds at which packets were dropped and at which they were sent marked.
    fn serve(params: &CodelParams, ecn: Ecn, from: u64, until: u64) -> (Vec<u64>, Vec<u64>) {
        let mut queue = codel(params);
        let mut dropped = Dropped::default();
        for slot in 0..10_000 {
            queue.enqueue(Timestamp::ZERO, Queued { ecn, ..packet(slot, 1000) }, &mut dropped);
        }
        let (mut drops, mut marks) = (vec![], vec![]);
        for ms in from..until {
            let sent = queue.dequeue(Timestamp::from_millis(ms), &mut dropped).unwrap();
            if sent.ecn == Ecn::Ce {
                marks.push(ms);
            }
            drops.extend(dropped.0.drain(..).map(|_| ms));
        }
        (drops, marks)
    }

    fn codel(params: &CodelParams) -> Codel {
        Codel::new(params, &Sizing::default(), Streams::new(1).stream("codel"))
    }

    fn unlimited() -> CodelParams {
        CodelParams { limit: QueueLimit::Unlimited, ..Default::default() }
    }

    /// The control law by hand: the delay is first seen above 5 ms at 5 ms, so dropping begins at 105 ms; then, with Linux's roots, drop_next
    /// = 205, + 50 = 255, + 56.25 = 311.25, + 48.78 = 360.03, + 44.15 = 404.18, + 40.41 = 444.59.
    #[test]
    fn drops_follow_the_inverse_square_root() {
        let (drops, marks) = serve(&unlimited(), Ecn::NotEct, 0, 480);
        assert_eq!(drops, [105, 205, 255, 312, 361, 405, 445]);
        assert!(marks.is_empty());
    }

    #[test]
    fn marks_take_the_place_of_drops() {
        let ecn = CodelParams { ecn: true, ..unlimited() };
        let (drops, marks) = serve(&ecn, Ecn::Ect0, 0, 480);
        assert_eq!(marks, [105, 205, 255, 312, 361, 405, 445]);
        assert!(drops.is_empty());
        assert_eq!(serve(&ecn, Ecn::NotEct, 0, 480).0.len(), 7);
    }

    #[test]
    fn a_queue_of_one_mtu_is_left_alone() {
        let mut queue = codel(&unlimited());
        let mut dropped = Dropped::default();
        for ms in 0..1000u64 {
            // One packet of 1500 bytes is left behind at each turn; all are 300 ms late.
            let now = Timestamp::from_millis(ms * 10 + 300);
            for _ in 0..if ms == 0 { 2 } else { 1 } {
                let late = Queued { arrived: Timestamp::from_millis(ms * 10), ..packet(0, 1500) };
                queue.enqueue(now, late, &mut dropped);
            }
            assert!(queue.dequeue(now, &mut dropped).is_some());
        }
        assert!(dropped.0.is_empty());
    }

    /// Dropping that begins again within 16 intervals starts from the count gained the last time, later from 1.
    #[test]
    fn a_recent_drop_rate_is_remembered_for_sixteen_intervals() {
        let law = Law {
            target: TimeDelta::from_millis(5),
            interval: TimeDelta::from_millis(100),
            ecn: false,
            mtu: 1500,
        };
        // The root goes on from what it was, here half an interval: 50 ms (3 - 6/4) / 2.
        for (now_ms, count, next) in [(1000 + 1599, 6, 37_500), (1000 + 1600, 1, 100_000)] {
            let now = Timestamp::from_millis(now_ms);
            let mut control = Control {
                first_above_time: Some(now),
                drop_next: Timestamp::from_millis(1000),
                count: 7,
                last_count: 1,
                root: InverseRoot::ONE.step(2),
                dropping: false,
            };
            let mut fifo = Fifo::default();
            for slot in 0..9 {
                fifo.push(packet(slot, 1000));
            }
            let mut dropped = Dropped::default();
            assert_eq!(control.dequeue(&law, now, &mut fifo, 0, &mut dropped).unwrap().slot, 1);
            assert_eq!((control.count, control.last_count, dropped.0.len()), (count, count, 1));
            let found = control.drop_next.saturating_since(now).as_nanos();
            assert!((next * 1000 - 2000..=next * 1000).contains(&found), "{found}");
        }
    }
}
