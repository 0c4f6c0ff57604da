//! COBALT: the AQM of each of CAKE's queues, CoDel and BLUE side by side (Linux's `sch_cake`, `cobalt_*`).
//!
//! CoDel here is another one than in RFC 8289: instead of starting anew near its last frequency, it lets its count sink step by step, at the pace
//! at which it grew, while there is no need to signal. BLUE drops with a probability that grows while the buffer is full and sinks while
//! the queue is empty. ECN-capable packets are marked where CoDel would drop; BLUE drops them, too.
//!
//! As in Linux, the very first time that a queue is above its target the signal comes with the next packet and not after an interval: its
//! frequency is not set before the count first changes. A later time it comes after an interval.
//!
//! Compared line by line with `cobalt_should_drop`, `cobalt_queue_full` and `cobalt_queue_empty`; the root of the count is Linux's, too: near the exact one
//! up to a count of 15, and a Newton step from the one before above that.

use warpline_core::{Rate, Stream, TimeDelta, Timestamp};

use crate::qdisc::Queued;
use crate::qdisc::root::InverseRoot;

/// Steps of BLUE's probability, of 2^32: 1/256 up and 1/4096 down.
const UP: u32 = 1 << 24;
const DOWN: u32 = 1 << 20;

/// The inverse roots of counts below 16, where one step from the root before would be far off: each after four steps from that.
const ROOTS: [InverseRoot; 16] = {
    let mut roots = [InverseRoot::ONE; 16];
    let mut count = 1;
    while count < roots.len() {
        let mut root = roots[count - 1];
        let mut steps = 0;
        while steps < 4 {
            root = root.step(count as u32);
            steps += 1;
        }
        roots[count] = root;
        count += 1;
    }
    roots
};

/// The parameters of all queues of a tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Law {
    target: TimeDelta,
    interval: TimeDelta,
    /// What a full packet takes at the tin's rate.
    packet_time: TimeDelta,
}

impl Law {
    /// For round trips of `rtt`, at a tin's rate, if there is one: the target is not below one and a half full packets.
    pub(super) fn new(rtt: TimeDelta, rate: Option<Rate>, packet: u32) -> Self {
        let wanted = TimeDelta::from_nanos(rtt.as_nanos() / 20);
        let packet_time = rate.map_or(TimeDelta::ZERO, |rate| rate.time_for(u64::from(packet)));
        let target = packet_time.mul_f64(1.5).max(wanted);
        let interval = (rtt + target.saturating_sub(wanted)).max(target * 2);
        Law { target, interval, packet_time }
    }
}

/// The state of one queue's control.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cobalt {
    count: u32,
    /// The share of an interval between two signals: the inverse root of the count.
    spacing: InverseRoot,
    drop_next: Timestamp,
    dropping: bool,
    blue_since: Timestamp,
    /// Of 2^32.
    blue: u32,
}

impl Cobalt {
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.spacing = ROOTS.get(count as usize).copied().unwrap_or_else(|| self.spacing.step(count));
    }

    /// When the next signal is due after one at `from`.
    fn after(&self, from: Timestamp, law: &Law) -> Timestamp {
        from + self.spacing.of(law.interval)
    }

    /// A packet had to be dropped because the buffer was full.
    pub(super) fn overflowed(&mut self, law: &Law, now: Timestamp) {
        if now.saturating_since(self.blue_since) > law.target {
            self.blue = self.blue.saturating_add(UP);
            self.blue_since = now;
        }
        (self.dropping, self.drop_next) = (true, now);
        self.count = self.count.max(1);
    }

    /// The queue had its turn and was empty.
    pub(super) fn ran_empty(&mut self, law: &Law, now: Timestamp) {
        if self.blue > 0 && now.saturating_since(self.blue_since) > law.target {
            self.blue = self.blue.saturating_sub(DOWN);
            self.blue_since = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(self.drop_next, law);
        }
    }

    /// Whether nothing is left of what an empty queue has been through.
    pub(super) fn is_at_rest(&self, now: Timestamp) -> bool {
        self.blue == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Whether the packet that leaves next is to be dropped; marks it instead where it can be. `sharers` queues share the rate, or none
    /// where that does not matter.
    pub(super) fn drops(
        &mut self,
        law: &Law,
        now: Timestamp,
        packet: &mut Queued,
        sharers: u32,
        stream: &mut Stream,
    ) -> bool {
        let sojourn = now.saturating_since(packet.arrived);
        let own_turns = law.packet_time * (2 * u64::from(sharers)).max(4);
        let above = sojourn > law.target && sojourn > own_turns;
        let mut due = self.count > 0 && now >= self.drop_next;
        let mut overdue = now > self.drop_next;
        if above {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.after(now, law);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut drops = false;
        if due && self.dropping {
            drops = !packet.mark();
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.after(self.drop_next, law);
            overdue = now > self.drop_next;
        } else {
            while due {
                self.set_count(self.count - 1);
                self.drop_next = self.after(self.drop_next, law);
                overdue = now > self.drop_next;
                due = self.count > 0 && now >= self.drop_next;
            }
        }
        if self.blue > 0 {
            drops |= ((stream.next_u64() >> 32) as u32) < self.blue;
        }
        // At rest the time says for how long the queue has been active.
        if self.count == 0 {
            self.drop_next = now + law.interval;
        } else if overdue && !drops {
            self.drop_next = now;
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::packet;
    use warpline_core::{Ecn, Streams};

    fn law() -> Law {
        Law::new(TimeDelta::from_millis(100), None, 1514)
    }

    /// The milliseconds at which one of the packets that leave every millisecond, `late` ms after they came, is dropped or marked.
    fn signals(cobalt: &mut Cobalt, ecn: Ecn, late: u64, from: u64, until: u64) -> Vec<u64> {
        let mut stream = Streams::new(1).stream("cobalt");
        let signal = |&ms: &u64| {
            let now = Timestamp::from_millis(ms);
            let mut leaving = Queued { ecn, arrived: Timestamp::from_millis(ms - late), ..packet(0, 1500) };
            cobalt.drops(&law(), now, &mut leaving, 0, &mut stream) || leaving.ecn == Ecn::Ce
        };
        (from..until).filter(signal).collect()
    }

    /// By hand: above the target from 1000 on, the first signal comes with the second packet; then 1000 + 100/sqrt 2 = 1070.7, + 100/sqrt 3 =
    /// 1128.4, + 50 = 1178.4, + 44.7 = 1223.2, + 40.8 = 1263.99.
    #[test]
    fn signals_come_closer_by_the_inverse_root() {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let mut cobalt = Cobalt::default();
            assert!(signals(&mut cobalt, ecn, 1, 900, 1000).is_empty());
            let times = signals(&mut cobalt, ecn, 50, 1000, 1300);
            assert_eq!(times, [1001, 1071, 1129, 1179, 1224, 1264]);
        }
    }

    #[test]
    fn the_count_sinks_while_the_delay_is_low_and_the_next_time_has_an_interval_to_wait() {
        let mut cobalt = Cobalt::default();
        signals(&mut cobalt, Ecn::NotEct, 50, 1000, 1300);
        assert_eq!(cobalt.count, 7);
        // The sum of 100/sqrt n for n from 6 down to 1 is 364 ms.
        assert!(signals(&mut cobalt, Ecn::NotEct, 1, 1300, 1500).is_empty());
        assert!((2..5).contains(&cobalt.count), "{}", cobalt.count);
        signals(&mut cobalt, Ecn::NotEct, 1, 1500, 3000);
        assert_eq!(cobalt.count, 0);
        assert_eq!(signals(&mut cobalt, Ecn::NotEct, 50, 3000, 3110), [3100]);
    }

    #[test]
    fn a_full_buffer_raises_blue_and_an_empty_queue_lowers_it() {
        let (mut cobalt, law, at) = (Cobalt::default(), law(), Timestamp::from_millis);
        // Once per target of 5 ms, however many packets are dropped.
        for ms in 100..118 {
            cobalt.overflowed(&law, at(ms));
        }
        assert_eq!(cobalt.blue, 3 * UP);
        // Some 3/256 of the packets are dropped, whatever their delay and ECN field.
        let mut stream = Streams::new(1).stream("cobalt");
        let now = at(200);
        let mut dropped = 0;
        for _ in 0..20_000 {
            let mut leaving = Queued { ecn: Ecn::Ect0, arrived: now, ..packet(0, 1500) };
            dropped += u32::from(cobalt.drops(&law, now, &mut leaving, 0, &mut stream));
            assert_eq!(leaving.ecn, Ecn::Ect0);
        }
        assert!((180..290).contains(&dropped), "{dropped}");
        for turn in 0..48 {
            assert!(!cobalt.is_at_rest(at(300 + 6 * turn)));
            cobalt.ran_empty(&law, at(300 + 6 * turn));
        }
        assert_eq!(cobalt.blue, 0);
    }

    #[test]
    fn the_target_is_not_below_one_and_a_half_packets() {
        let rtt = TimeDelta::from_millis(100);
        let at = |bps| Law::new(rtt, Some(Rate::from_bps(bps)), 1514);
        assert_eq!((at(100_000_000).target, at(100_000_000).interval), (TimeDelta::from_millis(5), rtt));
        // 1514 bytes take 12.112 ms at 1 Mbit/s.
        let slow = at(1_000_000);
        assert_eq!(slow.target, TimeDelta::from_micros(18_168));
        assert_eq!(slow.interval, TimeDelta::from_micros(113_168));
        // Four packets may wait even where that is above the target.
        let mut cobalt = Cobalt::default();
        let mut stream = Streams::new(1).stream("cobalt");
        for (late, signal) in [(48_000, false), (49_000, true)] {
            let mut leaving = packet(0, 1500);
            let now = Timestamp::ZERO + TimeDelta::from_micros(late);
            cobalt.drops(&slow, now, &mut leaving, 0, &mut stream);
            assert_eq!(cobalt.dropping, signal);
        }
    }
}
