//! Queue protection: keeps flows that build a queue out of a low-latency queue that all flows share.
//!
//! Source: RFC 9957 (the queue protection of DOCSIS). Rules and constants were taken from CableLabs' model for ns-3 (queue-protection.cc), and not
//! compared with the RFC's text. Each flow has a bucket with a queueing score: what its packets
//! cause in native marking, by their bytes, drains at the rate `aging`. A packet is turned away from the low-latency queue if the delay there is
//! critical, and the product of delay and score is above that of the critical delay and the critical score. A bucket is found by the flow's
//! hash, in two attempts, and may be taken by another flow once it is empty; a flow that finds none uses one that is shared.
//!
//! Departures: the delay is the caller's, and so is the probability of native marking.

use warpline_core::parameter::Parameters;
use warpline_core::{Rate, TimeDelta, Timestamp};

use super::flows::hash;

/// Attempts to find a bucket.
const ATTEMPTS: usize = 2;
/// No score is above this.
const HIGHEST: TimeDelta = TimeDelta::from_secs(5);

/// Queue protection (RFC 9957).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
pub struct ProtectionParams {
    /// Whether packets of flows that build a queue are put into the classic queue (RFC 9957).
    pub protect: bool,
    /// Delay of the L4S queue below which no packet is turned away from it.
    #[parameter(default = TimeDelta::from_millis(1), above = TimeDelta::ZERO)]
    pub critical_delay: TimeDelta,
    /// Score from which packets of a flow are turned away at the critical delay; at twice that delay half of it is enough.
    #[parameter(default = TimeDelta::from_millis(4), above = TimeDelta::ZERO)]
    pub critical_score: TimeDelta,
    /// Rate at which scores drain: a flow may cause so many bits of marked packets per second.
    #[parameter(default = Rate::from_bps(8 << 19), above = Rate::from_bps(0))]
    pub aging: Rate,
    /// Number of buckets for flows; there is another one for flows that find none.
    #[parameter(default = 32, min = 1, max = 65_536)]
    pub buckets: u32,
}

/// The score of one flow, as the time at which it will have drained.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    flow: Option<u32>,
    until: Timestamp,
}

/// Queue protection at work.
#[derive(Debug)]
pub(crate) struct Protection {
    params: ProtectionParams,
    /// The last one is shared.
    buckets: Vec<Bucket>,
    salt: u64,
    /// Nanoseconds that a byte takes to drain.
    byte_time: f64,
}

impl Protection {
    pub(crate) fn new(params: &ProtectionParams, salt: u64) -> Self {
        let buckets = vec![Bucket::default(); params.buckets.max(1) as usize + 1];
        let byte_time = 8e9 / params.aging.as_bps().max(1) as f64;
        Protection { params: *params, buckets, salt, byte_time }
    }

    /// The bucket of a flow, empty if it has drained.
    fn bucket(&mut self, now: Timestamp, flow: u32) -> &mut Bucket {
        let shared = self.buckets.len() - 1;
        let (mut rest, mut found, mut free) = (hash(self.salt, flow), None, None);
        for _ in 0..ATTEMPTS {
            let index = (rest % shared as u64) as usize;
            rest /= shared as u64;
            if self.buckets[index].flow == Some(flow) {
                found = Some(index);
                break;
            }
            if free.is_none() && self.buckets[index].until <= now {
                free = Some(index);
            }
        }
        let bucket = &mut self.buckets[found.or(free).unwrap_or(shared)];
        bucket.flow = Some(flow);
        bucket.until = bucket.until.max(now);
        bucket
    }

    /// Whether a packet that finds the low-latency queue with this delay, and with this probability of native marking, is turned away.
    pub(crate) fn turns_away(
        &mut self,
        now: Timestamp,
        (flow, size): (u32, u32),
        delay: TimeDelta,
        native: f64,
    ) -> bool {
        let more = TimeDelta::from_nanos((native * f64::from(size) * self.byte_time) as u64);
        let ProtectionParams { critical_delay, critical_score, .. } = self.params;
        let bucket = self.bucket(now, flow);
        bucket.until = (bucket.until + more).min(now + HIGHEST);
        let score = bucket.until.saturating_since(now);
        let product = |delay: TimeDelta, score: TimeDelta| delay.as_secs_f64() * score.as_secs_f64();
        delay > critical_delay && product(delay, score) > product(critical_delay, critical_score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection(buckets: u32) -> Protection {
        Protection::new(&ProtectionParams { buckets, ..ProtectionParams::default() }, 7)
    }

    fn score(protection: &mut Protection, now: Timestamp, flow: u32) -> TimeDelta {
        protection.bucket(now, flow).until.saturating_since(now)
    }

    #[test]
    fn a_score_grows_by_marked_bytes_and_drains_with_time() {
        let (mut protection, at) = (protection(32), Timestamp::from_millis(5));
        // 2^19 bytes drain in a second: 1024 of them in 1.953125 ms, and half as much where half is marked.
        assert!(!protection.turns_away(at, (3, 1024), TimeDelta::from_millis(2), 1.0));
        assert_eq!(score(&mut protection, at, 3), TimeDelta::from_nanos(1_953_125));
        assert!(!protection.turns_away(at, (3, 1024), TimeDelta::from_micros(900), 0.5));
        assert_eq!(score(&mut protection, at, 3), TimeDelta::from_nanos(2_929_687));
        assert_eq!(score(&mut protection, Timestamp::from_millis(7), 3), TimeDelta::from_nanos(929_687));
        assert_eq!(score(&mut protection, Timestamp::from_millis(9), 3), TimeDelta::ZERO);
        for _ in 0..10_000 {
            protection.turns_away(at, (3, 1500), TimeDelta::ZERO, 1.0);
        }
        assert_eq!(score(&mut protection, at, 3), HIGHEST);
    }

    #[test]
    fn delay_and_score_together_decide() {
        let (mut protection, at) = (protection(32), Timestamp::from_millis(5));
        protection.bucket(at, 1).until = at + TimeDelta::from_millis(3);
        let away = |protection: &mut Protection, micros| {
            protection.turns_away(at, (1, 1500), TimeDelta::from_micros(micros), 0.0)
        };
        // 3 ms times 1.333 ms is just below 4 ms times 1 ms.
        assert!(!away(&mut protection, 1333) && away(&mut protection, 1334));
        protection.bucket(at, 1).until = at + TimeDelta::from_secs(1);
        assert!(!away(&mut protection, 1000) && away(&mut protection, 1001));
        assert!(!protection.turns_away(at, (2, 1500), TimeDelta::from_millis(1), 0.0));
    }

    #[test]
    fn a_bucket_is_kept_while_it_has_a_score_and_taken_after() {
        let (mut protection, at) = (protection(1), Timestamp::from_millis(1));
        protection.turns_away(at, (1, 1024), TimeDelta::ZERO, 1.0);
        protection.turns_away(at, (2, 512), TimeDelta::ZERO, 1.0);
        // The second flow uses the shared one.
        assert_eq!(
            protection.buckets.iter().map(|bucket| bucket.flow).collect::<Vec<_>>(),
            [Some(1), Some(2)]
        );
        assert_eq!(score(&mut protection, at, 1), TimeDelta::from_nanos(1_953_125));
        assert_eq!(score(&mut protection, Timestamp::from_millis(3), 2), TimeDelta::ZERO);
        assert_eq!(protection.buckets[0].flow, Some(2));
    }
}
