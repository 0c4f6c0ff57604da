//! Random early detection. Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993, figure 2; the gentle slope above `max_th` is Floyd's recommendation of 2000.
//!
//! | here       | ns-2 `Queue/RED`                       | Linux `sch_red`            |
//! |------------|----------------------------------------|----------------------------|
//! | `min_th`   | `thresh_`                              | `min` (bytes)              |
//! | `max_th`   | `maxthresh_`                           | `max` (bytes)              |
//! | `max_p`    | 1 / `linterm_`                         | `probability`              |
//! | `weight`   | `q_weight_`                            | from `burst` (a power of 2)|
//! | `limit`    | `limit_`                               | `limit` (bytes)            |
//! | `bytes`    | `queue_in_bytes_` and `bytes_`         | thresholds only            |
//! | `mean_packet` | `mean_pktsize_`                     | `avpkt`                    |
//! | `gentle`   | `gentle_`                              | none (never gentle)        |
//! | `ecn`      | `setbit_`                              | `ecn`                      |
//! | `hard_drop`| always so                              | `harddrop`                 |
//!
//! Departures:
//! - The average decays over idle time with real-valued m rather than a whole number of packets. A packet that finds the
//!   queue empty behind a busy link counts as a sample of 0, as in ns-2 and Linux; the paper would leave the average alone.
//! - Idle time starts when the link asks for a packet and gets none; until it asks, when the last one given out is
//!   expected to have left, at the link's rate.
//! - Packets are spaced by the paper's p_a = p_b / (1 - count p_b); ns-2's `wait_` (on by default there), its exception for
//!   the first packet above `min_th`, and its sparing of a queue of one packet are not taken over.
//! - In byte mode p_b is scaled by size / `mean_packet` as in ns-2 (the paper: by the maximum packet size).
//! - The average above the range (`max_th`, or twice that if gentle) drops also ECN-capable packets unless `hard_drop` is
//!   off, as RFC 3168 advises; the paper marks.

use warpline_core::record::DropReason;
use warpline_core::{Rate, Stream, TimeDelta, Timestamp, float};

use super::fifo::{Fifo, Limit};
use super::{Dropped, Qdisc, Queued, Verdict};
use crate::parameter::{InvalidParameter, probability};

/// Parameters of [`Red`]; thresholds and weight default to the paper's, `max_p` and `gentle` to Floyd's
/// later advice, as in ns-2.
#[derive(Clone, Debug, PartialEq)]
pub struct RedConfig {
    /// Average below which nothing is dropped early, in packets (bytes in byte mode). Default 5 packets.
    pub min_th: f64,
    /// Average at which `max_p` is reached, in packets (bytes in byte mode). Default 15 packets.
    pub max_th: f64,
    /// Drop probability at `max_th`, before spacing. Default 0.1.
    pub max_p: f64,
    /// Weight of a new sample in the average (w_q). Default 0.002.
    pub weight: f64,
    /// Hard limit. Default 50 packets.
    pub limit: Limit,
    /// Byte mode: queue and thresholds in bytes, larger packets more likely dropped. Default false.
    pub bytes: bool,
    /// Mean packet size in bytes: sets the time unit of idle decay and the scale of byte mode. Default 1000.
    pub mean_packet: u32,
    /// Between `max_th` and twice that, rise from `max_p` to 1 rather than at once. Default true.
    pub gentle: bool,
    /// Mark ECN-capable packets instead of dropping them early. Default false.
    pub ecn: bool,
    /// Drop also ECN-capable packets when the average is beyond the range. Default true.
    pub hard_drop: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        RedConfig {
            min_th: 5.0,
            max_th: 15.0,
            max_p: 0.1,
            weight: 0.002,
            limit: Limit::packets(50),
            bytes: false,
            mean_packet: 1000,
            gentle: true,
            ecn: false,
            hard_drop: true,
        }
    }
}

impl RedConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        self.limit.validate()?;
        if !(self.min_th.is_finite() && self.min_th >= 0.0) {
            return Err(InvalidParameter::new("min_th", self.min_th, "it must be a number, 0 or more"));
        }
        if !(self.max_th.is_finite() && self.max_th > self.min_th) {
            let allowed = format!("it must be above `min_th` ({})", self.min_th);
            return Err(InvalidParameter::new("max_th", self.max_th, allowed));
        }
        probability("max_p", self.max_p)?;
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return Err(InvalidParameter::new("weight", self.weight, "it must be above 0, at most 1"));
        }
        if self.mean_packet == 0 {
            return Err(InvalidParameter::new("mean_packet", 0, "it must be at least 1 byte"));
        }
        Ok(())
    }
}

/// A RED queue.
#[derive(Debug)]
pub struct Red {
    config: RedConfig,
    fifo: Fifo,
    stream: Stream,
    /// Exponentially weighted average of the queue, in packets or bytes.
    average: f64,
    /// Packets since the last one dropped or marked, while the average is within the range; -1 below it.
    count: i64,
    idle: Idle,
    /// Seconds per byte at the link's rate; zero if not known.
    byte_time: f64,
}

/// What is known of the link while the queue is empty.
#[derive(Clone, Copy, Debug)]
enum Idle {
    /// Packets wait, or one has just been taken in.
    No,
    /// The last packet given out should have left by then.
    From(Timestamp),
    /// The link asked for a packet then and got none, or an arrival since has been accounted for.
    Since(Timestamp),
}

/// What the average says about an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Signal {
    None,
    Early,
    Hard,
}

impl Red {
    /// An empty queue that draws from `stream`.
    pub fn new(config: RedConfig, stream: Stream) -> Self {
        Red {
            config,
            fifo: Fifo::default(),
            stream,
            average: 0.0,
            count: -1,
            idle: Idle::Since(Timestamp::ZERO),
            byte_time: 0.0,
        }
    }

    /// The average queue in packets, or in bytes in byte mode.
    pub fn average(&self) -> f64 {
        self.average
    }

    fn update_average(&mut self, now: Timestamp) {
        let (packets, bytes) = self.fifo.backlog();
        if packets == 0
            && let Idle::From(since) | Idle::Since(since) = self.idle
            && since <= now
        {
            let packet_time = f64::from(self.config.mean_packet) * self.byte_time;
            if packet_time > 0.0 {
                let m = now.saturating_since(since).as_secs_f64() / packet_time;
                self.average *= float::powf(1.0 - self.config.weight, m);
            }
            // Should this packet be dropped, the idle time goes on.
            self.idle = Idle::Since(now);
            return;
        }
        let queue = if self.config.bytes { bytes as f64 } else { f64::from(packets) };
        self.average += self.config.weight * (queue - self.average);
    }

    /// p_b of the paper, extended by the gentle slope; `None` beyond the range.
    fn early_probability(&self) -> Option<f64> {
        let RedConfig { min_th, max_th, max_p, gentle, .. } = self.config;
        if self.average < max_th {
            Some(max_p * (self.average - min_th) / (max_th - min_th))
        } else if gentle && self.average < 2.0 * max_th {
            Some(max_p + (1.0 - max_p) * (self.average - max_th) / max_th)
        } else {
            None
        }
    }

    fn decide(&mut self, size: u32) -> Signal {
        if self.average < self.config.min_th {
            self.count = -1;
            return Signal::None;
        }
        self.count += 1;
        let Some(mut p_b) = self.early_probability() else {
            self.count = 0;
            return Signal::Hard;
        };
        if self.config.bytes {
            p_b = (p_b * f64::from(size) / f64::from(self.config.mean_packet)).min(1.0);
        }
        // Beyond count = 1 / p_b the denominator is not positive: the next packet is due for certain.
        let spacing = 1.0 - self.count as f64 * p_b;
        let p_a = if spacing > p_b { p_b / spacing } else { 1.0 };
        if self.stream.chance(if p_b > 0.0 { p_a } else { 0.0 }) {
            self.count = 0;
            return Signal::Early;
        }
        Signal::None
    }
}

impl Qdisc for Red {
    fn enqueue(&mut self, now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        self.update_average(now);
        let signal = self.decide(packet.size);
        let mut verdict = Verdict::Queued;
        if signal != Signal::None {
            let may_mark = self.config.ecn && (signal == Signal::Early || !self.config.hard_drop);
            if !may_mark || !packet.mark() {
                return Verdict::Dropped(DropReason::Aqm);
            }
            verdict = Verdict::Marked;
        }
        if !self.config.limit.admits(self.fifo.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.fifo.push(packet);
        self.idle = Idle::No;
        verdict
    }
    fn dequeue(&mut self, now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        let Some(packet) = self.fifo.pop() else {
            if !matches!(self.idle, Idle::Since(_)) {
                self.idle = Idle::Since(now);
            }
            return None;
        };
        if self.fifo.is_empty() {
            let transmission = TimeDelta::from_secs_f64(f64::from(packet.size) * self.byte_time);
            self.idle = Idle::From(now + transmission);
        }
        Some(packet)
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.fifo.backlog()
    }
    fn set_rate(&mut self, rate: Rate) {
        self.byte_time = if rate.as_bps() == 0 { 0.0 } else { 8.0 / rate.as_bps() as f64 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::{Ecn, Streams};

    fn red(config: RedConfig) -> Red {
        config.validate().unwrap();
        Red::new(config, Streams::new(1).stream("red"))
    }

    /// Offers `n` packets with the average held at `average`; returns how many lie between one signal and the next.
    fn gaps(mut queue: Red, average: f64, n: u32) -> Vec<u32> {
        let (mut gaps, mut last) = (Vec::new(), 0);
        for i in 0..n {
            queue.average = average;
            if queue.decide(1000) != Signal::None {
                gaps.push(i - last);
                last = i;
            }
        }
        gaps
    }

    /// The paper's second method: with p_a = p_b / (1 - count p_b) the gap between marks is uniform on 1 .. 1/p_b, with mean
    /// 1/(2 p_b) + 1/2.
    #[test]
    fn gaps_between_marks_are_uniform() {
        // avg 10 is half way: p_b = 0.02 / 2 = 0.01.
        let gaps = gaps(red(RedConfig { max_p: 0.02, ..Default::default() }), 10.0, 500_000);
        let gaps = &gaps[1..];
        let n = gaps.len() as f64;
        let mean = gaps.iter().map(|&g| f64::from(g)).sum::<f64>() / n;
        // A uniform gap on 1..=100 has standard deviation 28.9.
        assert!((mean - 50.5).abs() < 4.0 * 28.9 / n.sqrt(), "{mean}");
        assert!(gaps.iter().all(|&g| (1..=100).contains(&g)));
        for quarter in 0..4 {
            let share = gaps.iter().filter(|&&g| (g - 1) / 25 == quarter).count() as f64 / n;
            assert!((share - 0.25).abs() < 4.0 * (0.25f64 * 0.75 / n).sqrt(), "{quarter}: {share}");
        }
    }

    #[test]
    fn the_average_is_the_paper_s_filter() {
        // The paper's upper bound for w_q: after L arrivals that make the queue grow from 0 to L packets, the average is
        // L + 1 + ((1 - w)^(L+1) - 1) / w, so that w = 0.001 lets a burst of L = 100 leave it at 4.88.
        let config =
            RedConfig { weight: 0.001, limit: Limit::NONE, min_th: 1e6, max_th: 2e6, ..Default::default() };
        let mut queue = red(config);
        queue.idle = Idle::No;
        for slot in 0..101 {
            queue.enqueue(Timestamp::ZERO, packet(slot, 1000), &mut Dropped::default());
        }
        let expected = 101.0 + (float::powf(0.999, 101.0) - 1.0) / 0.001;
        assert!((queue.average() - expected).abs() < 1e-9, "{} {expected}", queue.average());
        assert!((queue.average() - 4.88).abs() < 0.01);
    }

    #[test]
    fn the_average_decays_over_idle_time() {
        let mut queue = red(RedConfig::default());
        let mut dropped = Dropped::default();
        queue.set_rate(Rate::from_bps(8_000_000)); // 1000 bytes take 1 ms
        queue.average = 4.0;
        let decayed = |ms: i32| 4.0 * float::powf(0.998, f64::from(ms));
        // Empty queue, but the link is still busy with the packet given out at 100 ms: a sample of 0.
        queue.enqueue(Timestamp::from_millis(100), packet(0, 1000), &mut dropped);
        assert!((queue.average() - decayed(100)).abs() < 1e-9); // idle since the start
        queue.average = 4.0;
        queue.dequeue(Timestamp::from_millis(100), &mut dropped);
        queue.enqueue(Timestamp::from_nanos(100_500_000), packet(1, 1000), &mut dropped);
        assert!((queue.average() - decayed(1)).abs() < 1e-9);
        // Idle from 102 ms on, told by an unanswered dequeue; 10 packet times pass.
        queue.dequeue(Timestamp::from_millis(101), &mut dropped);
        queue.average = 4.0;
        assert!(queue.dequeue(Timestamp::from_millis(102), &mut dropped).is_none());
        queue.enqueue(Timestamp::from_millis(112), packet(2, 1000), &mut dropped);
        assert!((queue.average() - decayed(10)).abs() < 1e-9);
        // The same if the link never asks.
        queue.dequeue(Timestamp::from_millis(112), &mut dropped);
        queue.average = 4.0;
        queue.enqueue(Timestamp::from_millis(123), packet(3, 1000), &mut dropped);
        assert!((queue.average() - decayed(10)).abs() < 1e-9);
    }

    #[test]
    fn the_gentle_slope_reaches_one_at_twice_max_th() {
        let mut queue = red(RedConfig::default());
        for (average, p_b) in [(5.0, Some(0.0)), (10.0, Some(0.05)), (15.0, Some(0.1)), (22.5, Some(0.55))] {
            queue.average = average;
            assert!((queue.early_probability().unwrap() - p_b.unwrap()).abs() < 1e-12);
        }
        queue.average = 30.0;
        assert_eq!(queue.early_probability(), None);
        queue.config.gentle = false;
        queue.average = 15.0;
        assert_eq!(queue.early_probability(), None);
    }

    #[test]
    fn ecn_capable_packets_are_marked_not_dropped_within_the_range() {
        let config = RedConfig { ecn: true, max_p: 1.0, ..Default::default() };
        let mut dropped = Dropped::default();
        let mut offer = |average: f64, ecn: Ecn, config: &RedConfig| {
            let mut queue = red(config.clone());
            queue.idle = Idle::No;
            queue.average = average;
            queue.count = 1000;
            let verdict = queue.enqueue(Timestamp::ZERO, Queued { ecn, ..packet(0, 1000) }, &mut dropped);
            (verdict, queue.dequeue(Timestamp::ZERO, &mut dropped).map(|p| p.ecn))
        };
        let aqm = Verdict::Dropped(DropReason::Aqm);
        assert_eq!(offer(12.0, Ecn::Ect0, &config), (Verdict::Marked, Some(Ecn::Ce)));
        assert_eq!(offer(12.0, Ecn::NotEct, &config), (aqm, None));
        assert_eq!(offer(40.0, Ecn::Ect0, &config), (aqm, None));
        let soft = RedConfig { hard_drop: false, ..config };
        assert_eq!(offer(40.0, Ecn::Ect1, &soft), (Verdict::Marked, Some(Ecn::Ce)));
    }

    #[test]
    fn byte_mode_spares_small_packets() {
        let config = RedConfig {
            bytes: true,
            min_th: 5e3,
            max_th: 15e3,
            max_p: 0.02,
            limit: Limit::NONE,
            ..Default::default()
        };
        let mut queue = red(config);
        let mut hits = [0u32; 2];
        for i in 0..400_000usize {
            queue.average = 10e3;
            hits[i % 2] += u32::from(queue.decide([1000, 100][i % 2]) != Signal::None);
        }
        // At least in proportion to the size; more so, as the spacing makes a large one ever more due.
        assert!(hits[1] > 50 && hits[0] > 10 * hits[1], "{hits:?}");
    }

    #[test]
    fn bad_parameters_are_refused() {
        let bad = |config: RedConfig| config.validate().unwrap_err().to_string();
        assert_eq!(
            bad(RedConfig { min_th: 20.0, ..Default::default() }),
            "`max_th` is 15: it must be above `min_th` (20)"
        );
        bad(RedConfig { min_th: f64::NAN, ..Default::default() });
        bad(RedConfig { weight: 0.0, ..Default::default() });
        bad(RedConfig { max_p: -0.1, ..Default::default() });
        bad(RedConfig { mean_packet: 0, ..Default::default() });
        bad(RedConfig { limit: Limit::packets(0), ..Default::default() });
    }
}
