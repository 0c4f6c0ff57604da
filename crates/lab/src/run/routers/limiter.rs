//! Limits how many ICMP errors a router sends to one host: a burst, then one per second, as Linux does (`net.ipv4.icmp_ratelimit`, token
//! buckets by destination; RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f).

use std::collections::BTreeMap;

use warpline_core::{TimeDelta, Timestamp};

/// Time that one error costs.
const COST: TimeDelta = TimeDelta::from_secs(1);
/// Errors that may be sent at once.
const BURST: u64 = 6;

/// The buckets of all routers, as time that may be spent.
#[derive(Debug, Default)]
pub(in crate::run) struct Limiter {
    buckets: BTreeMap<(u32, u32), (Timestamp, TimeDelta)>,
}

impl Limiter {
    /// Whether `router` may send an error to `host` now.
    pub(in crate::run) fn allow(&mut self, now: Timestamp, router: u32, host: u32) -> bool {
        let full = COST * BURST;
        let (last, saved) = self.buckets.entry((router, host)).or_insert((now, full));
        *saved = (*saved + now.saturating_since(*last)).min(full);
        *last = now;
        if *saved < COST {
            return false;
        }
        *saved = saved.saturating_sub(COST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_per_second() {
        let mut limiter = Limiter::default();
        let mut sent = |ms: u64, router| limiter.allow(Timestamp::from_millis(ms), router, 0);
        assert_eq!((0..20).filter(|_| sent(5000, 1)).count(), 6);
        assert!(!sent(5999, 1) && sent(6000, 1) && !sent(6001, 1));
        // Each router has its own bucket.
        assert!(sent(6001, 2));
        assert_eq!((0..20).filter(|_| sent(60_000, 1)).count(), 6);
    }
}
