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
//! | `adaptive` | `adaptive_`                            | `adaptive`                 |
//! | `adapt_interval` | `interval_`                      | always 500 ms              |
//!
//! Adaptive: Floyd, Gummadi and Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of RED's Active Queue Management" (2001), first
//! figure. Every half second `max_probability` rises by 0.01 or a quarter of itself, whichever is less, where the average is above 60 % of the
//! way from one threshold to the other, up to 0.5; it falls by a tenth where the average is below 40 % of that way, down to 0.01.
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
//! - Adaptive RED changes `max_probability` only; the paper's choice of the weight and the thresholds by the link's rate is left to the user. The changes
//!   that are due are made when a packet comes, all by the average before it.

use warpline_core::parameter::{Given, OutOfRange, Parameters};
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Rate, Stream, TimeDelta, Timestamp, float};

use super::fifo::{Admission, Fifo, Limit};
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
    /// Whether `max_probability` changes over time so that the average comes to the middle of the range (Adaptive RED).
    pub adaptive: bool,
    /// How often `max_probability` changes, with `adaptive`.
    #[parameter(default = TimeDelta::from_millis(500), min = TimeDelta::from_micros(10))]
    pub adapt_interval: TimeDelta,
}

/// Changes that are made up for at once: by then `max_probability` has come to an end of its range.
const MOST_ADAPTATIONS: u64 = 1000;

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
        let full = u64::from(sizing.packet.max(1));
        let limit = params.limit.resolve(sizing);
        let bytes = limit.packets == u32::MAX;
        let amount = |limit: Limit| {
            if !bytes {
                f64::from(limit.packets.min((limit.bytes / full).min(u64::from(u32::MAX)) as u32))
            } else if limit.bytes == u64::MAX {
                f64::from(limit.packets) * full as f64
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
    /// As given, but for `max_probability`: an adaptive queue changes it.
    params: RedParams,
    /// When that changes next; never if it is not adaptive.
    next_adaptation: Timestamp,
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
        let interval = params.adapt_interval.max(TimeDelta::from_nanos(1));
        let first = Timestamp::ZERO + interval;
        Red {
            params: RedParams { adapt_interval: interval, ..*params },
            next_adaptation: if params.adaptive { first } else { Timestamp::NEVER },
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

    /// The average is the queue itself, and the probability to mark is 0 below some number of packets and 1 from there on, as in switches for
    /// DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.4).
    fn admission(params: &RedParams, sizing: &Sizing) -> Option<Admission> {
        let Thresholds { limit, bytes, min, max } = Thresholds::new(params, sizing);
        let instantaneous = params.weight >= 1.0 && !bytes && !params.adaptive;
        // No number of packets is between the thresholds, and at the lower one the probability is 0.
        let steep =
            max > min && min.floor() + 1.0 >= max && (!params.gentle || params.max_probability >= 1.0);
        let marks = params.ecn && !params.hard_drop;
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

    /// Makes the changes of `max_probability` that are due, by the average as the last arrival left it.
    fn adapt(&mut self, now: Timestamp) {
        if now < self.next_adaptation {
            return;
        }
        let interval = self.params.adapt_interval;
        let due = now.saturating_since(self.next_adaptation).as_nanos() / interval.as_nanos() + 1;
        self.next_adaptation += interval.saturating_mul(due);
        let Thresholds { min, max, .. } = self.thresholds;
        let (low, high) = (min + 0.4 * (max - min), min + 0.6 * (max - min));
        let max_p = &mut self.params.max_probability;
        for _ in 0..due.min(MOST_ADAPTATIONS) {
            if self.average > high && *max_p <= 0.5 {
                *max_p += (*max_p / 4.0).min(0.01);
            } else if self.average < low && *max_p >= 0.01 {
                *max_p *= 0.9;
            }
        }
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
        self.adapt(now);
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
mod tests;
