//! Named random streams: each component draws from its own, so that adding a flow does not change the others.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::float;

/// The increment of SplitMix64: 2^64 over the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a name (FNV-1a, 64 bits), the same on every machine and for ever.
pub const fn hash(name: &str) -> u64 {
    let (bytes, mut hash, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// A number in which every bit depends on every bit of `z`: the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The source of a run's streams: the seed of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of `seed`.
    pub const fn new(seed: u64) -> Self {
        Streams { seed }
    }

    /// The stream called `name` ("link.r1>r2.loss"). The same seed and name give the same stream, whatever else the run
    /// contains.
    pub fn stream(&self, name: &str) -> Stream {
        // The hash of the name, then SplitMix64 over seed and hash: both fixed for ever, unlike std's hasher.
        let mut state = hash(name) ^ self.seed.wrapping_mul(GOLDEN);
        let mut seed = [0u8; 32];
        for word in seed.chunks_exact_mut(8) {
            state = state.wrapping_add(GOLDEN);
            word.copy_from_slice(&mix(state).to_le_bytes());
        }
        Stream { rng: Xoshiro256PlusPlus::from_seed(seed) }
    }
}

/// One component's random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    rng: Xoshiro256PlusPlus,
}

impl Stream {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        use rand_core::Rng as _;
        self.rng.next_u64()
    }
    /// Uniform in [0, 1), with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Uniform in [low, high); `low` if the range is empty.
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        if high > low { low + (high - low) * self.uniform() } else { low }
    }
    /// Uniform integer in [0, bound); 0 for an empty range. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
    /// Puts `items` in a random order, each as likely as any other (Fisher and Yates; Durstenfeld, CACM 7(7), 1964).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u is in (0, 1]: its logarithm is finite.
        -mean * float::ln(1.0 - self.uniform())
    }
    /// Normal with the given mean and standard deviation.
    ///
    /// Marsaglia's polar method (G. Marsaglia and T. Bray, SIAM Review 6(3), 1964). Of its two numbers only one is used, so that the generator
    /// is the only state. The crate `rand_distr` takes its logarithm from the C library.
    pub fn normal(&mut self, mean: f64, stddev: f64) -> f64 {
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return mean + stddev * u * (-2.0 * float::ln(s) / s).sqrt();
            }
        }
    }
    /// Pareto with the given mean and shape (above 1; otherwise the mean does not exist and `mean` is taken as the scale).
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let scale = if shape > 1.0 { mean * (shape - 1.0) / shape } else { mean };
        scale / float::powf(1.0 - self.uniform(), 1.0 / shape)
    }
    /// Log-normal, given the mean and standard deviation of its logarithm.
    pub fn log_normal(&mut self, mu: f64, sigma: f64) -> f64 {
        float::exp(self.normal(mu, sigma))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_seeded_and_fixed_for_ever() {
        let a = Streams::new(1).stream("flow.a").next_u64();
        assert_eq!(a, Streams::new(1).stream("flow.a").next_u64());
        assert_ne!(a, Streams::new(1).stream("flow.b").next_u64());
        assert_ne!(a, Streams::new(2).stream("flow.a").next_u64());
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn distributions_have_their_means() {
        let mut s = Streams::new(7).stream("means");
        let n = 200_000;
        let mut mean =
            |draw: &mut dyn FnMut(&mut Stream) -> f64| (0..n).map(|_| draw(&mut s)).sum::<f64>() / n as f64;
        assert!((mean(&mut |s| s.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&mut |s| s.normal(5.0, 2.0)) - 5.0).abs() < 0.05);
        assert!(
            (mean(&mut |s| (s.normal(5.0, 2.0) - 5.0).abs()) - 2.0 * (2.0 / std::f64::consts::PI).sqrt())
                .abs()
                < 0.05
        );
        // 2.275 % lie beyond two standard deviations.
        assert!((mean(&mut |s| f64::from(s.normal(0.0, 1.0) > 2.0)) - 0.022_75).abs() < 0.002);
        assert!((mean(&mut |s| s.pareto(2.0, 3.0)) - 2.0).abs() < 0.05);
        assert!((mean(&mut |s| s.range(1.0, 2.0)) - 1.5).abs() < 0.01);
        assert!((mean(&mut |s| s.below(10) as f64) - 4.5).abs() < 0.05);
    }
}
