//! TBF: a token bucket filter, which delays packets so that they keep to a rate and a burst.
//!
//! Source: Linux's `sch_tbf`. A packet leaves when the bucket of `burst` bytes, which fills at `rate`, has tokens for it, and so with the second
//! bucket of `peak_burst` bytes at the rate `peak`, if there is one. A packet that a bucket cannot hold is dropped. Packets are never reordered.
//!
//! Departures: time is exact, and not in ticks. A time as limit is `tc`'s `latency` without the burst: what `rate` gives in that time. The
//! queue inside is always a FIFO.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Rate, Stream, TimeDelta, Timestamp};

use super::bucket::{TokenBucket, depth, follow};
use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Token bucket filter (Linux): shapes to a rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("tbf")]
pub struct TbfParams {
    /// How much may wait; a time and a BDP are counted at `rate`.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Rate, the link's `framing` included. Without it the link's own, as it changes; burst and limit are by its mean over the run.
    #[parameter(above = Some(Rate::from_bps(0)))]
    pub rate: Option<Rate>,
    /// Bytes that may leave at once. Without it what the rate gives in 10 ms, and at least a full packet.
    #[parameter(above = Some(Bytes(0)))]
    pub burst: Option<Bytes>,
    /// Rate within a burst. Without it the link's own.
    #[parameter(above = Some(Rate::from_bps(0)))]
    pub peak: Option<Rate>,
    /// Bytes that may leave at once at the peak rate. Without it a full packet of 1500B with the link's `framing`.
    #[parameter(above = Some(Bytes(0)))]
    pub peak_burst: Option<Bytes>,
}

/// A token bucket filter.
#[derive(Debug)]
pub struct Tbf {
    fifo: Fifo,
    limit: Limit,
    /// None where no rate is known: then nothing is delayed.
    bucket: Option<TokenBucket>,
    /// Whether its rate is the link's.
    follows: bool,
    peak: Option<TokenBucket>,
}

impl BuiltIn for Tbf {
    type Params = TbfParams;

    fn new(params: &TbfParams, sizing: &Sizing, _stream: Stream) -> Self {
        let rate = params.rate.unwrap_or(sizing.rate);
        let burst = depth(params.burst, rate, TimeDelta::from_millis(10), sizing.packet);
        let peak_burst = params.peak_burst.map_or(u64::from(sizing.packet), |Bytes(bytes)| bytes);
        Tbf {
            fifo: Fifo::default(),
            limit: params.limit.resolve(&Sizing { rate, ..*sizing }),
            bucket: TokenBucket::new(rate, burst),
            follows: params.rate.is_none(),
            peak: params.peak.and_then(|peak| TokenBucket::new(peak, peak_burst)),
        }
    }
}

impl Tbf {
    /// When the head may leave.
    fn head_ready(&self, now: Timestamp) -> Option<Timestamp> {
        let size = self.fifo.head()?.size;
        let of = |bucket: &Option<TokenBucket>| bucket.map_or(now, |bucket| bucket.ready(now, size));
        Some(of(&self.bucket).max(of(&self.peak)))
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, _dropped: &mut Dropped) -> Verdict {
        let held = [&self.bucket, &self.peak].into_iter().flatten().all(|bucket| bucket.holds(packet.size));
        if !held || !self.limit.admits(self.fifo.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.fifo.push(packet);
        Verdict::Queued
    }
    fn dequeue(&mut self, now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        if self.head_ready(now)? > now {
            return None;
        }
        let packet = self.fifo.pop()?;
        for bucket in [&mut self.bucket, &mut self.peak].into_iter().flatten() {
            bucket.take(now, packet.size);
        }
        Some(packet)
    }
    fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        self.head_ready(now)
    }
    fn discard(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        self.fifo.pop()
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.fifo.backlog()
    }
    fn set_rate(&mut self, rate: Rate) {
        follow(&mut self.bucket, self.follows, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::Streams;

    fn tbf(params: TbfParams) -> Tbf {
        let sizing = Sizing { rate: Rate::from_bps(80_000_000), ..Sizing::default() };
        Tbf::new(&params, &sizing, Streams::new(1).stream("tbf"))
    }

    /// When packets of 1000 bytes that come at the start leave, in microseconds.
    fn departures(params: TbfParams, count: u32) -> Vec<u64> {
        let (mut queue, mut none) = (tbf(params), Dropped::default());
        for slot in 0..count {
            queue.enqueue(Timestamp::ZERO, packet(slot, 1000), &mut none);
        }
        let (mut now, mut left) = (Timestamp::ZERO, Vec::new());
        while let Some(at) = queue.next_ready(now) {
            now = at;
            assert!(queue.dequeue(now, &mut none).is_some());
            left.push(now.as_nanos() / 1000);
        }
        left
    }

    #[test]
    fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
        let params = TbfParams {
            rate: Some(Rate::from_bps(8_000_000)),
            burst: Some(Bytes(3500)),
            ..TbfParams::default()
        };
        assert_eq!(departures(params, 6), [0, 0, 0, 500, 1500, 2500]);
        // At a peak of twice the rate, a packet at a time.
        let peak =
            TbfParams { peak: Some(Rate::from_bps(16_000_000)), peak_burst: Some(Bytes(1000)), ..params };
        assert_eq!(departures(peak, 8), [0, 500, 1000, 1500, 2000, 2500, 3500, 4500]);
        // 10 ms of the link's rate are 100 kB.
        assert_eq!(departures(TbfParams::default(), 102)[98..], [0, 0, 100, 200]);
    }

    #[test]
    fn a_packet_that_must_wait_is_not_given_out_but_can_be_discarded() {
        let params = TbfParams {
            rate: Some(Rate::from_bps(8_000_000)),
            burst: Some(Bytes(1000)),
            ..TbfParams::default()
        };
        let (mut queue, mut none) = (tbf(params), Dropped::default());
        for slot in 0..2 {
            queue.enqueue(Timestamp::ZERO, packet(slot, 1000), &mut none);
        }
        let slot = |packet: Option<Queued>| packet.map(|packet| packet.slot);
        assert_eq!(slot(queue.dequeue(Timestamp::ZERO, &mut none)), Some(0));
        assert_eq!(slot(queue.dequeue(Timestamp::from_nanos(999_999), &mut none)), None);
        assert_eq!(queue.next_ready(Timestamp::ZERO), Some(Timestamp::from_millis(1)));
        assert_eq!((queue.backlog(), slot(queue.discard(Timestamp::ZERO, &mut none))), ((1, 1000), Some(1)));
        assert_eq!(queue.next_ready(Timestamp::ZERO), None);
    }

    #[test]
    fn without_a_rate_of_its_own_it_follows_the_link() {
        let departs = |params: TbfParams| {
            let (mut queue, mut none) =
                (tbf(TbfParams { burst: Some(Bytes(1000)), ..params }), Dropped::default());
            queue.set_rate(Rate::from_bps(160_000_000));
            for slot in 0..2 {
                queue.enqueue(Timestamp::ZERO, packet(slot, 1000), &mut none);
            }
            assert!(queue.dequeue(Timestamp::ZERO, &mut none).is_some());
            queue.next_ready(Timestamp::ZERO).unwrap().as_nanos()
        };
        assert_eq!(departs(TbfParams::default()), 50_000);
        let own = Some(Rate::from_bps(80_000_000));
        assert_eq!(departs(TbfParams { rate: own, ..TbfParams::default() }), 100_000);
    }

    #[test]
    fn what_no_bucket_holds_and_what_is_beyond_the_limit_is_dropped() {
        let rate = Some(Rate::from_bps(8_000_000));
        let limit = QueueLimit::Time(TimeDelta::from_millis(3));
        let mut queue = tbf(TbfParams { rate, limit, burst: Some(Bytes(1500)), ..TbfParams::default() });
        let mut offer = |size| queue.enqueue(Timestamp::ZERO, packet(0, size), &mut Dropped::default());
        assert_eq!(offer(1501), Verdict::Dropped(DropReason::Overflow));
        // 3 ms at 8 Mbit/s, not at the link's rate.
        assert_eq!([1500, 1500].map(&mut offer), [Verdict::Queued; 2]);
        assert_eq!(offer(1), Verdict::Dropped(DropReason::Overflow));
    }
}
