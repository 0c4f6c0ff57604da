//! Exact serialisation: when a packet's last bit has left, at a constant rate, under a schedule, or on a trace.
//!
//! A packet's transmission rarely takes a whole number of nanoseconds: at 400 Gbit/s 1500 bytes take 30 ns, 1460 take
//! 29.2. The fraction is carried to the next packet as long as the link stays busy, so that n packets back to back end
//! within a nanosecond of the exact quotient, however large n is.

use warpline_core::{Rate, TimeDelta, Timestamp};

use crate::mahimahi::TraceLink;
use crate::schedule::RateSchedule;

const NANOS: u64 = 1_000_000_000;

/// A link of constant rate.
#[derive(Clone, Debug)]
pub struct ConstantRate {
    /// Bits per second.
    rate: u64,
    /// Work left over from the previous packets, in units of 1/rate ns; below `rate`.
    remainder: u64,
    /// When the last packet ended.
    end: Timestamp,
    /// The last size in bits and its transmission time as quotient and remainder: most packets of a link have one size,
    /// and a division is the most expensive operation here.
    bits: u64,
    quotient: u64,
    rest: u64,
}

impl ConstantRate {
    /// A link with `rate`; at rate 0 no packet is ever finished.
    pub fn new(rate: Rate) -> Self {
        ConstantRate {
            rate: rate.as_bps(),
            remainder: 0,
            end: Timestamp::ZERO,
            bits: 0,
            quotient: 0,
            rest: 0,
        }
    }
    /// When the transmission of a packet of `bits` bits that arrives at `at` begins, after the packets
    /// before it, and when it is finished.
    #[inline]
    pub fn serve(&mut self, at: Timestamp, bits: u64) -> (Timestamp, Timestamp) {
        let start = at.max(self.end);
        (start, self.finish_of(start, bits))
    }
    /// The rate.
    pub const fn rate(&self) -> Rate {
        Rate::from_bps(self.rate)
    }
    /// When a packet of `bits` bits, whose transmission starts at `start`, is finished, rounded down to a nanosecond. Call
    /// once for each packet, in the order of transmission. A start other than the last finish means that the link was idle.
    #[inline]
    pub fn finish_of(&mut self, start: Timestamp, bits: u64) -> Timestamp {
        if bits != self.bits {
            self.divide(bits);
        }
        if start != self.end {
            self.remainder = 0;
        }
        let mut nanos = self.quotient;
        self.remainder += self.rest;
        if self.remainder >= self.rate {
            self.remainder = self.remainder.saturating_sub(self.rate);
            nanos = nanos.saturating_add(1);
        }
        self.end = Timestamp::from_nanos(start.as_nanos().saturating_add(nanos));
        self.end
    }

    fn divide(&mut self, bits: u64) {
        self.bits = bits;
        (self.quotient, self.rest) = match (self.rate, bits.checked_mul(NANOS)) {
            (0, _) => (u64::MAX, 0),
            (rate, Some(work)) => (work / rate, work % rate),
            (rate, None) => {
                let work = u128::from(bits) * u128::from(NANOS);
                let quotient = u64::try_from(work / u128::from(rate)).unwrap_or(u64::MAX);
                (quotient, (work % u128::from(rate)) as u64)
            }
        };
    }
}

/// Decides when a packet's last bit leaves a link.
#[derive(Clone, Debug)]
pub enum Serialiser {
    /// A constant rate.
    Constant(ConstantRate),
    /// A rate that follows a schedule.
    Scheduled(RateSchedule),
    /// The delivery opportunities of a mahimahi trace.
    Trace(TraceLink),
}

impl Serialiser {
    /// When a packet of `bytes` bytes, whose turn comes at `start`, has left; [`Timestamp::NEVER`] if it never does. Call
    /// once for each packet, in the order of transmission. `waited`: it came before `start`, which only a trace asks for.
    #[inline]
    pub fn finish_of(&mut self, start: Timestamp, bytes: u32, waited: bool) -> Timestamp {
        match self {
            Serialiser::Constant(link) => link.finish_of(start, u64::from(bytes) * 8),
            Serialiser::Scheduled(link) => link.finish_of(start, u64::from(bytes) * 8),
            Serialiser::Trace(link) => link.finish_of(start, bytes, waited),
        }
    }
    /// The rate at `at`; for a trace, its mean over a whole period.
    pub fn rate_at(&self, at: Timestamp) -> Rate {
        match self {
            Serialiser::Constant(link) => link.rate(),
            Serialiser::Scheduled(link) => link.rate_at(at),
            Serialiser::Trace(link) => link.trace().mean_rate(),
        }
    }
    /// The first instant after `now` at which the rate changes; [`Timestamp::NEVER`] if it stays. On a trace it changes all the time.
    pub(crate) fn next_change(&self, now: Timestamp) -> Timestamp {
        match self {
            Serialiser::Constant(_) => Timestamp::NEVER,
            Serialiser::Scheduled(link) => link.next_change(now),
            Serialiser::Trace(_) => now,
        }
    }
    /// Lets every change of the rate happen `span` earlier. A trace stays as it is.
    pub(crate) fn skip(&mut self, span: TimeDelta) {
        if let Serialiser::Scheduled(link) = self {
            link.skip(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn four_hundred_gigabits_are_exact_in_the_long_run() {
        let mut link = ConstantRate::new(Rate::from_bps(400_000_000_000));
        let mut now = Timestamp::ZERO;
        for _ in 0..1_000_000 {
            now = link.finish_of(now, 1460 * 8);
        }
        assert_eq!(now, Timestamp::from_nanos(29_200_000)); // 29.2 ns each
    }

    #[test]
    fn an_idle_link_carries_nothing() {
        let mut link = ConstantRate::new(Rate::from_bps(3_000_000_000));
        assert_eq!(link.finish_of(Timestamp::ZERO, 8), Timestamp::from_nanos(2)); // 2 2/3
        assert_eq!(link.finish_of(Timestamp::from_nanos(2), 8), Timestamp::from_nanos(5)); // 5 1/3
        assert_eq!(link.finish_of(Timestamp::from_nanos(6), 8), Timestamp::from_nanos(8));
    }

    #[test]
    fn rate_zero_and_huge_packets_do_not_overflow() {
        let mut stalled = ConstantRate::new(Rate::from_bps(0));
        assert_eq!(stalled.finish_of(Timestamp::from_secs(1), 8), Timestamp::NEVER);
        let mut slow = ConstantRate::new(Rate::from_bps(1));
        assert_eq!(slow.finish_of(Timestamp::ZERO, u64::MAX), Timestamp::NEVER);
        let mut fast = ConstantRate::new(Rate::from_bps(1_000_000_000));
        assert_eq!(fast.finish_of(Timestamp::ZERO, 1 << 40), Timestamp::from_nanos(1 << 40));
    }

    proptest! {
        #[test]
        fn back_to_back_packets_end_where_the_exact_quotient_does(
            rate in 1u64..1_000_000_000_000_000,
            start in 0u64..1_000_000,
            sizes in prop::collection::vec(prop_oneof![Just(1500u64), 1u64..70_000], 1..200),
        ) {
            let mut link = ConstantRate::new(Rate::from_bps(rate));
            let mut now = Timestamp::from_nanos(start);
            let mut bits = 0;
            for size in sizes {
                bits += size * 8;
                now = link.finish_of(now, size * 8);
                let exact = u128::from(start) + u128::from(bits) * 1_000_000_000 / u128::from(rate);
                if exact >= u128::from(u64::MAX) {
                    prop_assert_eq!(now, Timestamp::NEVER);
                    return Ok(());
                }
                prop_assert_eq!(u128::from(now.as_nanos()), exact);
            }
        }
    }
}
