//! CoDel: controlled delay. RFC 8289, with the names of its section 5; Linux's `sch_codel` has the same parameters.
//!
//! Beyond the pseudocode of the RFC: a hard limit on arrival (the RFC leaves the buffer's size open), and ECN marking as in
//! Linux: where a packet would be dropped but is ECN-capable, it is marked and sent instead; `drop_next` advances all the same.
//!
//! Departures: none known. Linux computes 1/sqrt(count) by a Newton step in 16 bits; here it is exact to a nanosecond.

use warpline_core::record::DropReason;
use warpline_core::{TimeDelta, Timestamp};

use super::fifo::{Fifo, Limit};
use super::{Dropped, Qdisc, Queued, Verdict};
use crate::parameter::InvalidParameter;

/// Parameters of [`Codel`]; the defaults are RFC 8289's and Linux's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Acceptable standing queue delay. Default 5 ms (the RFC: 5 to 10 % of `interval`).
    pub target: TimeDelta,
    /// Time over which a standing queue must show, about the largest RTT in use. Default 100 ms.
    pub interval: TimeDelta,
    /// Hard limit. Default 1000 packets.
    pub limit: Limit,
    /// Mark ECN-capable packets instead of dropping them. Default false.
    pub ecn: bool,
    /// Largest packet of the link in bytes (MAXPACKET): nothing is dropped while no more than this waits. Default 1500.
    pub mtu: u32,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig {
            target: TimeDelta::from_millis(5),
            interval: TimeDelta::from_millis(100),
            limit: Limit::packets(1000),
            ecn: false,
            mtu: 1500,
        }
    }
}

impl CodelConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        self.limit.validate()?;
        if self.interval.is_zero() {
            return Err(InvalidParameter::new("interval", self.interval, "it must be longer than 0"));
        }
        if self.target > self.interval {
            let allowed = format!("it must not be longer than `interval` ({})", self.interval);
            return Err(InvalidParameter::new("target", self.target, allowed));
        }
        Ok(())
    }
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
    dropping: bool,
}

/// The parameters that the control needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    pub(crate) target: TimeDelta,
    pub(crate) interval: TimeDelta,
    pub(crate) ecn: bool,
    pub(crate) mtu: u32,
}

impl Law {
    /// The instant of the next drop: an interval over the square root of the drops so far.
    fn control(&self, from: Timestamp, count: u32) -> Timestamp {
        from + self.interval.mul_f64(1.0 / f64::from(count.max(1)).sqrt())
    }
}

impl Control {
    /// The head of the queue, and whether its delay allows dropping it (`dodequeue`).
    fn head(&mut self, law: &Law, now: Timestamp, fifo: &mut Fifo) -> Option<(Queued, bool)> {
        let Some(packet) = fifo.pop() else {
            self.first_above_time = None;
            return None;
        };
        let sojourn = now.saturating_since(packet.arrived);
        if sojourn < law.target || fifo.backlog().1 <= u64::from(law.mtu) {
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

    /// The next packet to send; those dropped on the way go to `dropped`.
    pub(crate) fn dequeue(
        &mut self,
        law: &Law,
        now: Timestamp,
        fifo: &mut Fifo,
        dropped: &mut Dropped,
    ) -> Option<Queued> {
        let Some((mut packet, mut ok_to_drop)) = self.head(law, now, fifo) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if law.ecn && packet.mark() {
                    self.drop_next = law.control(self.drop_next, self.count);
                    break;
                }
                dropped.0.push((packet, DropReason::Aqm));
                let Some(next) = self.head(law, now, fifo) else {
                    self.dropping = false;
                    return None;
                };
                (packet, ok_to_drop) = next;
                if ok_to_drop {
                    self.drop_next = law.control(self.drop_next, self.count);
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
                self.head(law, now, fifo).map(|(packet, _)| packet)
            };
            self.dropping = true;
            // Coming back soon after the last time, start near the rate that controlled the queue then.
            let delta = self.count.wrapping_sub(self.last_count);
            let recent = now < self.drop_next + law.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = law.control(now, self.count);
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

impl Codel {
    /// An empty queue.
    pub fn new(config: &CodelConfig) -> Self {
        let CodelConfig { target, interval, limit, ecn, mtu } = *config;
        Codel {
            fifo: Fifo::default(),
            limit,
            law: Law { target, interval, ecn, mtu },
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
        self.control.dequeue(&self.law, now, &mut self.fifo, dropped)
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
    use warpline_core::Ecn;

    /// A queue that holds packets of 1000 bytes which all arrived at time 0, served every millisecond from `from` ms on.
    /// Returns the milliseconds at which packets were dropped and at which they were sent marked.
    fn serve(config: &CodelConfig, ecn: Ecn, from: u64, until: u64) -> (Vec<u64>, Vec<u64>) {
        let mut queue = Codel::new(config);
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

    fn unlimited() -> CodelConfig {
        CodelConfig { limit: Limit::NONE, ..Default::default() }
    }

    /// The control law by hand: the delay is first seen above 5 ms at 5 ms, so dropping begins at 105 ms; then drop_next
    /// = 205 (count 1), 205 + 100/sqrt 2 = 275.71, + 100/sqrt 3 = 333.45, + 50 = 383.45, + 44.72 = 428.17, + 40.82 = 468.99.
    #[test]
    fn drops_follow_the_inverse_square_root() {
        let (drops, marks) = serve(&unlimited(), Ecn::NotEct, 0, 480);
        assert_eq!(drops, [105, 205, 276, 334, 384, 429, 469]);
        assert!(marks.is_empty());
    }

    #[test]
    fn marks_take_the_place_of_drops() {
        let ecn = CodelConfig { ecn: true, ..unlimited() };
        let (drops, marks) = serve(&ecn, Ecn::Ect0, 0, 480);
        assert_eq!(marks, [105, 205, 276, 334, 384, 429, 469]);
        assert!(drops.is_empty());
        assert_eq!(serve(&ecn, Ecn::NotEct, 0, 480).0.len(), 7);
    }

    #[test]
    fn a_queue_of_one_mtu_is_left_alone() {
        let mut queue = Codel::new(&unlimited());
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
        for (now_ms, count) in [(1000 + 1599, 6), (1000 + 1600, 1)] {
            let now = Timestamp::from_millis(now_ms);
            let mut control = Control {
                first_above_time: Some(now),
                drop_next: Timestamp::from_millis(1000),
                count: 7,
                last_count: 1,
                dropping: false,
            };
            let mut fifo = Fifo::default();
            for slot in 0..9 {
                fifo.push(packet(slot, 1000));
            }
            let mut dropped = Dropped::default();
            assert_eq!(control.dequeue(&law, now, &mut fifo, &mut dropped).unwrap().slot, 1);
            assert_eq!((control.count, control.last_count, dropped.0.len()), (count, count, 1));
            assert_eq!(control.drop_next, law.control(now, count));
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(CodelConfig::default().validate().is_ok());
        let inverted = CodelConfig { target: TimeDelta::from_millis(200), ..Default::default() };
        assert_eq!(
            inverted.validate().unwrap_err().to_string(),
            "`target` is 200ms: it must not be longer than `interval` (100ms)"
        );
        let none = CodelConfig { interval: TimeDelta::ZERO, target: TimeDelta::ZERO, ..Default::default() };
        assert!(none.validate().is_err());
    }
}
