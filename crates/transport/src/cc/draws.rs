//! Random numbers for an algorithm that draws.
//!
//! A connection has no stream of its own: one would have to come through every maker of connections. So a number is a hash of the seed among the
//! algorithm's parameters, of how many were drawn before, and of when it is drawn. The same run draws the same; and connections with the same
//! parameters, which see their acknowledgements at different times, draw differently.

use warpline_core::Timestamp;
use warpline_core::random::mix;

/// The increment of SplitMix64, which spreads what is counted over all bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// One connection's random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    state: u64,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Draws { state: mix(seed ^ GOLDEN) }
    }

    /// Uniform in [0, 1), with 53 bits.
    pub(super) fn uniform(&mut self, now: Timestamp) -> f64 {
        self.state = self.state.wrapping_add(GOLDEN);
        let bits = mix(mix(self.state) ^ now.as_nanos());
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_count_and_time_each_make_another_number() {
        let at = Timestamp::from_nanos;
        let first = Draws::new(0).uniform(at(1));
        assert_eq!(first, Draws::new(0).uniform(at(1)));
        assert_ne!(first, Draws::new(1).uniform(at(1)));
        assert_ne!(first, Draws::new(0).uniform(at(2)));
        let mut draws = Draws::new(0);
        draws.uniform(at(1));
        assert_ne!(first, draws.uniform(at(1)));
    }

    #[test]
    fn they_are_uniform() {
        let mut draws = Draws::new(7);
        let numbers: Vec<f64> = (0..10_000).map(|n| draws.uniform(Timestamp::from_nanos(n / 3))).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        for tenth in 0..10 {
            let (low, high) = (f64::from(tenth) / 10.0, f64::from(tenth + 1) / 10.0);
            let count = numbers.iter().filter(|number| (low..high).contains(*number)).count();
            assert!((880..1120).contains(&count), "{count} in {low}..{high}");
        }
    }
}
