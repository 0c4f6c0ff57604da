//! A policer: what exceeds a rate and a burst is dropped on arrival, or marked; what keeps to them waits in a FIFO as without it.
//!
//! Sources: the token bucket of RFC 2697 (a single rate), as Linux's `police` has it; Flach et al., "An Internet-Wide Analysis of Traffic Policing",
//! SIGCOMM 2016, for what it does to TCP.
//!
//! Departures: RFC 2697's second bucket, for excess bursts, is not here: nothing here would treat its packets differently. A packet that is
//! marked takes no tokens.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Rate, Stream, TimeDelta, Timestamp};

use super::bucket::{TokenBucket, depth, follow};
use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Policer: drops what exceeds a rate and a burst (RFC 2697), in front of a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("policer")]
pub struct PolicerParams {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Rate that is allowed, the link's `framing` included. Without it the link's own, as it changes; the burst is by its mean over the run.
    #[parameter(above = Some(Rate::from_bps(0)))]
    pub rate: Option<Rate>,
    /// Bytes that may come at once. Without it what the rate gives in 100 ms, and at least a full packet.
    #[parameter(above = Some(Bytes(0)))]
    pub burst: Option<Bytes>,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

/// A policer with a FIFO behind it.
#[derive(Debug)]
pub struct Policer {
    fifo: Fifo,
    limit: Limit,
    /// None where no rate is known: then everything passes.
    bucket: Option<TokenBucket>,
    /// Whether its rate is the link's.
    follows: bool,
    ecn: bool,
}

impl BuiltIn for Policer {
    type Params = PolicerParams;

    fn new(params: &PolicerParams, sizing: &Sizing, _stream: Stream) -> Self {
        let rate = params.rate.unwrap_or(sizing.rate);
        let burst = depth(params.burst, rate, TimeDelta::from_millis(100), sizing.packet);
        Policer {
            fifo: Fifo::default(),
            limit: params.limit.resolve(sizing),
            bucket: TokenBucket::new(rate, burst),
            follows: params.rate.is_none(),
            ecn: params.ecn,
        }
    }
}

impl Qdisc for Policer {
    fn enqueue(&mut self, now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        let mut verdict = Verdict::Queued;
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now, packet.size)) {
            if !self.ecn || !packet.mark() {
                return Verdict::Dropped(DropReason::Aqm);
            }
            verdict = Verdict::Marked;
        }
        if !self.limit.admits(self.fifo.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.fifo.push(packet);
        verdict
    }
    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
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
    use warpline_core::{Ecn, Streams};

    fn policer(ecn: bool, limit: u32) -> Policer {
        let params = PolicerParams {
            rate: Some(Rate::from_bps(8_000_000)),
            burst: Some(Bytes(3000)),
            limit: QueueLimit::Packets(limit),
            ecn,
        };
        Policer::new(&params, &Sizing::default(), Streams::new(1).stream("policer"))
    }

    #[test]
    fn what_exceeds_rate_and_burst_is_dropped() {
        let (mut queue, mut none) = (policer(false, 1000), Dropped::default());
        let dropped = Verdict::Dropped(DropReason::Aqm);
        let mut at =
            |micros: u64| queue.enqueue(Timestamp::from_nanos(micros * 1000), packet(0, 1000), &mut none);
        assert_eq!([0, 0, 0, 0].map(&mut at), [Verdict::Queued, Verdict::Queued, Verdict::Queued, dropped]);
        // What was dropped has taken no tokens.
        assert_eq!([999, 1000, 1001].map(&mut at), [dropped, Verdict::Queued, dropped]);
        // Twice the rate for ten seconds: half of it passes.
        let passed = (0..20_000u64).filter(|n| at(2_000_000 + n * 500) == Verdict::Queued).count();
        // As many wait as may.
        assert_eq!((passed, queue.backlog().0), (996, 1000));
        while queue.dequeue(Timestamp::ZERO, &mut none).is_some() {}
        let mut passed = 0;
        for n in 0..20_000u64 {
            let now = Timestamp::from_nanos(20_000_000_000 + n * 500_000);
            passed += u32::from(queue.enqueue(now, packet(0, 1000), &mut none) == Verdict::Queued);
            queue.dequeue(now, &mut none);
        }
        assert!((10_000..=10_003).contains(&passed), "{passed}");
    }

    #[test]
    fn with_ecn_it_marks_what_can_be_marked() {
        let (mut queue, mut none) = (policer(true, 4), Dropped::default());
        let mut offer = |ecn| queue.enqueue(Timestamp::ZERO, Queued { ecn, ..packet(0, 1500) }, &mut none);
        assert_eq!([Ecn::Ect0, Ecn::NotEct].map(&mut offer), [Verdict::Queued; 2]);
        assert_eq!(offer(Ecn::NotEct), Verdict::Dropped(DropReason::Aqm));
        assert_eq!([Ecn::Ect0, Ecn::Ect1].map(&mut offer), [Verdict::Marked; 2]);
        assert_eq!(offer(Ecn::Ect0), Verdict::Dropped(DropReason::Overflow));
    }
}
