//! Random early detection. Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993, figure 2; the gentle slope above `max_threshold` is Floyd's recommendation of 2000.
//!
//! | here       | ns-2 `Queue/RED`                       | Linux `sch_red`            |
//! |------------|----------------------------------------|----------------------------|
//! | `min_threshold` | `thresh_`                              | `min` (bytes)              |
//! | `max_threshold` | `maxthresh_`                           | `max` (bytes)              |
//! | `max_probability` | 1 / `linterm_`                         | `probability`              |
//! | `weight`   | `q_weight_`                            | from `burst` (a power of 2)|
//! | `limit`    | `limit_`                               | `limit` (bytes)            |
//! | `limit` in bytes | `queue_in_bytes_` and `bytes_`         | thresholds only            |
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
//!   the first packet above `min_threshold`, and its sparing of a queue of one packet are not taken over.
//! - In byte mode p_b is scaled by size / `mean_packet` as in ns-2 (the paper: by the maximum packet size).
//! - With a weight of 1 the average is the queue itself, whether the link is idle or not.
//! - The average above the range (`max_threshold`, or twice that if gentle) drops also ECN-capable packets unless `hard_drop` is
//!   off, as RFC 3168 advises; the paper marks.

use warpline_core::parameter::{Given, OutOfRange, Parameters};
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Rate, Stream, TimeDelta, Timestamp, float};

use crate::fifo::Admission;

use super::fifo::{Fifo, Limit};
use super::limit::FULL_PACKET;
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Random early detection (Floyd and Jacobson 1993). Thresholds count as `limit` does: in packets, or else in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("red")]
pub struct RedParams {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Average queue below which nothing is dropped early. Without it a quarter of `limit`.
    pub min_threshold: Option<QueueLimit>,
    /// Average queue at which the drop probability reaches `max_probability`. Without it three quarters of `limit`.
    pub max_threshold: Option<QueueLimit>,
    /// Drop probability at `max_threshold`, before spacing.
    #[parameter(default = 0.1, share, above = 0.0)]
    pub max_probability: f64,
    /// Weight of the newest sample in the average.
    #[parameter(default = 0.002, share, above = 0.0)]
    pub weight: f64,
    /// Whether the probability rises on to 1 at twice `max_threshold` instead of jumping to it.
    #[parameter(default = true)]
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped early.
    pub ecn: bool,
    /// Mean packet size: the time unit of the average's decay over idle time, and the scale of drops where bytes count.
    #[parameter(default = Bytes(1000), above = Bytes(0))]
    pub mean_packet: Bytes,
    /// Whether ECN-capable packets are dropped, too, when the average is beyond the range.
    #[parameter(default = true)]
    pub hard_drop: bool,
}

/// Limit and thresholds as one link has them.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    limit: Limit,
    /// Whether bytes count, not packets.
    bytes: bool,
    min: f64,
    max: f64,
}

impl Thresholds {
    fn new(params: &RedParams, sizing: &Sizing) -> Self {
        const FULL: u64 = FULL_PACKET as u64;
        let limit = params.limit.resolve(sizing);
        let bytes = limit.packets == u32::MAX;
        let amount = |limit: Limit| {
            if !bytes {
                f64::from(limit.packets.min((limit.bytes / FULL).min(u64::from(u32::MAX)) as u32))
            } else if limit.bytes == u64::MAX {
                f64::from(limit.packets) * FULL as f64
            } else {
                limit.bytes as f64
            }
        };
        let whole = amount(limit);
        let of = |given: Option<QueueLimit>, part: f64| {
            given.map_or(whole * part, |given| amount(given.resolve(sizing)))
        };
        Thresholds { limit, bytes, min: of(params.min_threshold, 0.25), max: of(params.max_threshold, 0.75) }
    }
}

/// A RED queue.
#[derive(Debug)]
pub struct Red {
    params: RedParams,
    thresholds: Thresholds,
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

impl BuiltIn for Red {
    type Params = RedParams;

    /// Its drops come from `stream`.
    fn new(params: &RedParams, sizing: &Sizing, stream: Stream) -> Self {
        Red {
            params: *params,
            thresholds: Thresholds::new(params, sizing),
            fifo: Fifo::default(),
            stream,
            average: 0.0,
            count: -1,
            idle: Idle::Since(Timestamp::ZERO),
            byte_time: 0.0,
        }
    }

    fn fault(params: &RedParams, sizing: &Sizing) -> Option<OutOfRange> {
        let Thresholds { min, max, bytes, .. } = Thresholds::new(params, sizing);
        let unit = if bytes { "bytes" } else { "packets" };
        (max <= min).then(|| {
            let value = Given::Text(format!("{max} {unit} on this link"));
            let allowed = format!("above `min_threshold` ({min} {unit})");
            OutOfRange { parameter: "max_threshold", value, allowed }
        })
    }
}

impl RedParams {
    /// What the queue does if it decides on each packet by what waits, and by nothing else: the average is the queue itself, and the
    /// probability to mark is 0 below some number of packets and 1 from there on, as in switches for DCTCP (Alizadeh et al., SIGCOMM 2010,
    /// section 3.4).
    pub(crate) fn admission(&self, sizing: &Sizing) -> Option<Admission> {
        let Thresholds { limit, bytes, min, max } = Thresholds::new(self, sizing);
        let instantaneous = self.weight >= 1.0 && !bytes;
        // No number of packets is between the thresholds, and at the lower one the probability is 0.
        let steep = max > min && min.floor() + 1.0 >= max && (!self.gentle || self.max_probability >= 1.0);
        let marks = self.ecn && !self.hard_drop;
        let mark_from = max.ceil() as u32;
        (instantaneous && steep && marks && mark_from < limit.packets)
            .then_some(Admission { limit, mark_from: Some(mark_from) })
    }
}

impl Red {
    /// The average queue in packets, or in bytes in byte mode.
    pub fn average(&self) -> f64 {
        self.average
    }

    fn update_average(&mut self, now: Timestamp) {
        let (packets, bytes) = self.fifo.backlog();
        let queue = if self.thresholds.bytes { bytes as f64 } else { f64::from(packets) };
        if self.params.weight >= 1.0 {
            self.average = queue;
            return;
        }
        if packets == 0
            && let Idle::From(since) | Idle::Since(since) = self.idle
            && since <= now
        {
            let packet_time = self.params.mean_packet.0 as f64 * self.byte_time;
            if packet_time > 0.0 {
                let m = now.saturating_since(since).as_secs_f64() / packet_time;
                self.average *= float::powf(1.0 - self.params.weight, m);
            }
            // Should this packet be dropped, the idle time goes on.
            self.idle = Idle::Since(now);
            return;
        }
        self.average += self.params.weight * (queue - self.average);
    }

    /// p_b of the paper, extended by the gentle slope; `None` beyond the range.
    fn early_probability(&self) -> Option<f64> {
        let (Thresholds { min: min_th, max: max_th, .. }, RedParams { max_probability: max_p, gentle, .. }) =
            (self.thresholds, self.params);
        if self.average < max_th {
            Some(max_p * (self.average - min_th) / (max_th - min_th))
        } else if gentle && self.average < 2.0 * max_th {
            Some(max_p + (1.0 - max_p) * (self.average - max_th) / max_th)
        } else {
            None
        }
    }

    fn decide(&mut self, size: u32) -> Signal {
        if self.average < self.thresholds.min {
            self.count = -1;
            return Signal::None;
        }
        self.count += 1;
        let Some(mut p_b) = self.early_probability() else {
            self.count = 0;
            return Signal::Hard;
        };
        if self.thresholds.bytes {
            p_b = (p_b * f64::from(size) / self.params.mean_packet.0 as f64).min(1.0);
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
            let may_mark = self.params.ecn && (signal == Signal::Early || !self.params.hard_drop);
            if !may_mark || !packet.mark() {
                return Verdict::Dropped(DropReason::Aqm);
            }
            verdict = Verdict::Marked;
        }
        if !self.thresholds.limit.admits(self.fifo.backlog(), packet.size) {
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

    fn red(params: RedParams) -> Red {
        Red::new(&params, &Sizing::default(), Streams::new(1).stream("red"))
    }

    /// The paper's thresholds.
    fn paper() -> RedParams {
        RedParams {
            limit: QueueLimit::Packets(50),
            min_threshold: Some(QueueLimit::Packets(5)),
            max_threshold: Some(QueueLimit::Packets(15)),
            ..RedParams::default()
        }
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
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn gaps_between_marks_are_uniform() {
        // avg 10 is half way: p_b = 0.02 / 2 = 0.01.
        let gaps = gaps(red(RedParams { max_probability: 0.02, ..paper() }), 10.0, 500_000);
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
        let config = RedParams {
            weight: 0.001,
            limit: QueueLimit::Packets(10_000_000),
            min_threshold: Some(QueueLimit::Packets(1_000_000)),
            max_threshold: Some(QueueLimit::Packets(2_000_000)),
            ..paper()
        };
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
        let mut queue = red(paper());
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
        let mut queue = red(paper());
        for (average, p_b) in [(5.0, Some(0.0)), (10.0, Some(0.05)), (15.0, Some(0.1)), (22.5, Some(0.55))] {
            queue.average = average;
            assert!((queue.early_probability().unwrap() - p_b.unwrap()).abs() < 1e-12);
        }
        queue.average = 30.0;
        assert_eq!(queue.early_probability(), None);
        queue.params.gentle = false;
        queue.average = 15.0;
        assert_eq!(queue.early_probability(), None);
    }

    #[test]
    fn ecn_capable_packets_are_marked_not_dropped_within_the_range() {
        let config = RedParams { ecn: true, max_probability: 1.0, ..paper() };
        let mut dropped = Dropped::default();
        let mut offer = |average: f64, ecn: Ecn, config: &RedParams| {
            let mut queue = red(*config);
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
        let soft = RedParams { hard_drop: false, ..config };
        assert_eq!(offer(40.0, Ecn::Ect1, &soft), (Verdict::Marked, Some(Ecn::Ce)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn byte_mode_spares_small_packets() {
        let config = RedParams {
            min_threshold: Some(QueueLimit::Bytes(5000)),
            max_threshold: Some(QueueLimit::Bytes(15_000)),
            max_probability: 0.02,
            limit: QueueLimit::Bytes(1_000_000_000),
            ..paper()
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
    fn thresholds_count_as_the_limit_does() {
        let of = |params: &RedParams| {
            let Thresholds { bytes, min, max, .. } = Thresholds::new(params, &Sizing::default());
            (bytes, min, max)
        };
        assert_eq!(of(&RedParams::default()), (false, 250.0, 750.0));
        let limit = QueueLimit::Bytes(60_000);
        assert_eq!(of(&RedParams { limit, ..RedParams::default() }), (true, 15e3, 45e3));
        let min_threshold = Some(QueueLimit::Packets(5));
        assert_eq!(of(&RedParams { limit, min_threshold, ..RedParams::default() }), (true, 7500.0, 45e3));
        let inverted = RedParams { min_threshold: Some(QueueLimit::Packets(800)), ..RedParams::default() };
        let fault = Red::fault(&inverted, &Sizing::default()).unwrap();
        assert_eq!(
            fault.to_string(),
            "`max_threshold` is 750 packets on this link; allowed: above `min_threshold` (800 packets)"
        );
    }
}
