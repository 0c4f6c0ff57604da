//! Step marking: an arriving packet is marked if it finds at least so much waiting, as switches do for DCTCP.
//!
//! Source: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1 and 3.4: RED with both thresholds at K, and the queue in place of
//! its average; RFC 8257. A packet that is not ECN-capable is dropped where another one would be marked, as by RED in such a switch.
//!
//! Departures: the packet in transmission does not count, as everywhere here. A threshold in time is counted in bytes at the link's rate.

use warpline_core::parameter::{Given, OutOfRange, Parameters};
use warpline_core::record::DropReason;
use warpline_core::{Stream, Timestamp};

use super::fifo::{Admission, Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Marking above a threshold of what waits, as for DCTCP (Alizadeh et al. 2010).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("step")]
pub struct StepParams {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// How much must wait for an arriving packet to be marked (K). Links are simulated fastest where it is in packets.
    #[parameter(default = QueueLimit::Packets(65))]
    pub threshold: QueueLimit,
}

/// A queue that marks above a threshold.
#[derive(Debug)]
pub struct Step {
    fifo: Fifo,
    limit: Limit,
    threshold: Limit,
}

impl BuiltIn for Step {
    type Params = StepParams;

    fn new(params: &StepParams, sizing: &Sizing, _stream: Stream) -> Self {
        let (limit, threshold) = (params.limit.resolve(sizing), params.threshold.resolve(sizing));
        // A packet that finds a full queue is no sign of a threshold at the limit.
        let never = threshold.packets >= limit.packets && threshold.bytes == u64::MAX;
        Step { fifo: Fifo::default(), limit, threshold: if never { Limit::NONE } else { threshold } }
    }

    fn fault(params: &StepParams, sizing: &Sizing) -> Option<OutOfRange> {
        let (limit, threshold) = (params.limit.resolve(sizing), params.threshold.resolve(sizing));
        let never = threshold.packets != u32::MAX && threshold.packets >= limit.packets
            || threshold.bytes != u64::MAX && threshold.bytes >= limit.bytes;
        never.then(|| OutOfRange {
            parameter: "threshold",
            value: Given::Text(params.threshold.to_string()),
            allowed: format!("below `limit` ({})", params.limit),
        })
    }

    fn admission(params: &StepParams, sizing: &Sizing) -> Option<Admission> {
        let (limit, threshold) = (params.limit.resolve(sizing), params.threshold.resolve(sizing));
        if threshold.bytes != u64::MAX {
            return None;
        }
        // At the limit or above it, there is never a packet to mark.
        let mark_from = (threshold.packets < limit.packets).then_some(threshold.packets);
        Some(Admission { limit, mark_from })
    }
}

impl Qdisc for Step {
    fn enqueue(&mut self, _now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        let waiting @ (packets, bytes) = self.fifo.backlog();
        let Limit { packets: most_packets, bytes: most_bytes } = self.threshold;
        let mut verdict = Verdict::Queued;
        if packets >= most_packets || bytes >= most_bytes {
            if !packet.mark() {
                return Verdict::Dropped(DropReason::Aqm);
            }
            verdict = Verdict::Marked;
        }
        if !self.limit.admits(waiting, packet.size) {
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
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::{Ecn, Rate, Streams, TimeDelta};

    fn sizing() -> Sizing {
        Sizing { rate: Rate::from_bps(8_000_000), ..Sizing::default() }
    }

    /// What becomes of packets of 1000 bytes that come while none leaves.
    fn verdicts(threshold: QueueLimit, ecn: &[Ecn]) -> Vec<Verdict> {
        let params = StepParams { limit: QueueLimit::Packets(5), threshold };
        let mut queue = Step::new(&params, &sizing(), Streams::new(1).stream("step"));
        let mut offer = |ecn: &Ecn| {
            queue.enqueue(Timestamp::ZERO, Queued { ecn: *ecn, ..packet(0, 1000) }, &mut Dropped::default())
        };
        ecn.iter().map(&mut offer).collect()
    }

    #[test]
    fn a_packet_that_finds_the_threshold_is_marked_or_dropped() {
        use Ecn::{Ect0, Ect1, NotEct};
        let (early, full) = (Verdict::Dropped(DropReason::Aqm), Verdict::Dropped(DropReason::Overflow));
        let expected = [
            Verdict::Queued,
            Verdict::Queued,
            Verdict::Queued,
            early,
            Verdict::Marked,
            Verdict::Marked,
            full,
        ];
        let ecn = [Ect0, NotEct, Ect0, NotEct, Ect0, Ect1, Ect0];
        for threshold in ["3p", "3kB", "2001B", "3ms"] {
            let threshold: QueueLimit = threshold.parse().unwrap();
            assert_eq!(verdicts(threshold, &ecn), expected, "{threshold}");
        }
        assert_eq!(verdicts(QueueLimit::Packets(0), &[Ect0, NotEct]), [Verdict::Marked, early]);
        // A full queue: above the threshold first, as with RED, but not for a threshold that is the limit.
        assert_eq!(verdicts(QueueLimit::Packets(4), &[Ect0, Ect0, Ect0, Ect0, Ect0, NotEct])[5], early);
        assert_eq!(verdicts(QueueLimit::Packets(5), &[NotEct; 6])[5], full);
        assert_eq!(verdicts(QueueLimit::Unlimited, &[Ect0; 6])[4..], [Verdict::Queued, full]);
    }

    #[test]
    fn packets_and_nothing_else_are_for_the_fast_link() {
        let of = |limit: &str, threshold: &str| {
            let params = StepParams { limit: limit.parse().unwrap(), threshold: threshold.parse().unwrap() };
            let fault = Step::fault(&params, &sizing()).is_some();
            (Step::admission(&params, &sizing()).map(|admission| admission.mark_from), fault)
        };
        assert_eq!(of("100p", "20p"), (Some(Some(20)), false));
        assert_eq!(of("100kB", "20p"), (Some(Some(20)), false));
        assert_eq!((of("100p", "100p"), of("100p", "30kB")), ((Some(None), true), (None, false)));
        assert_eq!(of("100kB", "100ms"), (None, true));
        let span = QueueLimit::Time(TimeDelta::from_millis(3));
        assert_eq!(span.resolve(&sizing()), Limit::bytes(3000));
    }
}
