//! The token bucket of shapers and policers: it fills at a rate, up to a depth, and a packet takes as many tokens as it has bytes.

use warpline_core::{Bytes, Rate, TimeDelta, Timestamp};

/// A byte of tokens, as a rate in bit/s over nanoseconds gives it.
const BYTE: u128 = 8 * 1_000_000_000;

/// A token bucket, exact: it counts bits by nanoseconds. It is full at the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    /// Bits per second, above zero.
    rate: u128,
    depth: u128,
    tokens: u128,
    /// When it was filled last.
    at: Timestamp,
}

impl TokenBucket {
    /// A full bucket of `depth` bytes; none for a rate of zero.
    pub(crate) fn new(rate: Rate, depth: u64) -> Option<Self> {
        let (rate, depth) = (u128::from(rate.as_bps()), u128::from(depth) * BYTE);
        (rate > 0).then_some(TokenBucket { rate, depth, tokens: depth, at: Timestamp::ZERO })
    }

    /// Fills at another rate from the last packet on. A rate of zero, which a link has that stands still, changes nothing.
    fn set_rate(&mut self, rate: Rate) {
        if rate.as_bps() > 0 {
            self.rate = u128::from(rate.as_bps());
        }
    }

    /// Tokens at `now`.
    fn level(&self, now: Timestamp) -> u128 {
        let more = self.rate * u128::from(now.saturating_since(self.at).as_nanos());
        (self.tokens + more).min(self.depth)
    }

    /// Takes the tokens of a packet, if there are enough.
    pub(crate) fn take(&mut self, now: Timestamp, bytes: u32) -> bool {
        (self.tokens, self.at) = (self.level(now), self.at.max(now));
        let left = self.tokens.checked_sub(u128::from(bytes) * BYTE);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    /// When there are enough tokens for a packet; [`Timestamp::NEVER`] if it takes more than the bucket holds.
    pub(crate) fn ready(&self, now: Timestamp, bytes: u32) -> Timestamp {
        let needed = u128::from(bytes) * BYTE;
        if needed > self.depth {
            return Timestamp::NEVER;
        }
        let missing = needed.saturating_sub(self.level(now));
        let wait = u64::try_from(missing.div_ceil(self.rate)).unwrap_or(u64::MAX);
        now + TimeDelta::from_nanos(wait)
    }

    /// Whether a packet fits into the bucket at all.
    pub(crate) fn holds(&self, bytes: u32) -> bool {
        u128::from(bytes) * BYTE <= self.depth
    }
}

/// The depth of a bucket: as given, or what the rate gives in a time, and at least a full packet.
pub(crate) fn depth(given: Option<Bytes>, rate: Rate, span: TimeDelta, packet: u32) -> u64 {
    given.map_or_else(|| rate.bytes_in(span).0.max(u64::from(packet)), |Bytes(bytes)| bytes)
}

/// Tells the bucket of a queue the link's rate, if there is a bucket and it `follows` the link.
pub(crate) fn follow(bucket: &mut Option<TokenBucket>, follows: bool, rate: Rate) {
    if let Some(bucket) = bucket.as_mut().filter(|_| follows) {
        bucket.set_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_full_at_first_and_fills_at_its_rate() {
        // A byte per microsecond.
        let mut bucket = TokenBucket::new(Rate::from_bps(8_000_000), 3000).unwrap();
        let at = |micros: u64| Timestamp::from_nanos(micros * 1000);
        assert!(bucket.take(at(0), 1500) && bucket.take(at(0), 1500) && !bucket.take(at(0), 1));
        assert_eq!(bucket.ready(at(0), 1000), at(1000));
        assert!(!bucket.take(Timestamp::from_nanos(999_999), 1000) && bucket.take(at(1000), 1000));
        // No more than its depth, however long it fills.
        assert!(bucket.take(at(1_000_000), 3000) && !bucket.take(at(1_000_000), 1));
        assert!(bucket.holds(3000) && !bucket.holds(3001));
        assert_eq!(bucket.ready(at(0), 3001), Timestamp::NEVER);
        assert!(TokenBucket::new(Rate::from_bps(0), 3000).is_none());
    }

    #[test]
    fn a_rate_that_does_not_divide_a_nanosecond_is_kept_exactly() {
        // 3 bit/s: a byte takes 2.667 s, and three bytes 8 s.
        let mut bucket = TokenBucket::new(Rate::from_bps(3), 1).unwrap();
        let mut now = Timestamp::ZERO;
        assert!(bucket.take(now, 1));
        for _ in 0..3 {
            now = bucket.ready(now, 1);
            assert!(bucket.take(now, 1));
        }
        assert_eq!(now, Timestamp::from_nanos(8_000_000_001));
    }

    #[test]
    fn a_bucket_fills_at_its_new_rate() {
        let mut bucket = TokenBucket::new(Rate::from_bps(8_000_000), 1000).unwrap();
        assert!(bucket.take(Timestamp::ZERO, 1000));
        bucket.set_rate(Rate::from_bps(80_000_000));
        bucket.set_rate(Rate::from_bps(0));
        assert_eq!(bucket.ready(Timestamp::ZERO, 1000), Timestamp::from_nanos(100_000));
    }

    #[test]
    fn a_depth_that_is_not_given_is_a_time_s_worth() {
        let of = |given, bps| depth(given, Rate::from_bps(bps), TimeDelta::from_millis(10), 1514);
        assert_eq!([of(Some(Bytes(7)), 1), of(None, 10_000_000), of(None, 100)], [7, 12_500, 1514]);
    }
}
