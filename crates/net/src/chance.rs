//! A chance for each packet, whose outcomes in a row may be correlated.
//!
//! Source of the second form: Linux net/sched/sch_netem.c, get_crandom. A number there is the mean of a new random number and the one before,
//! weighted by the correlation, and the outcome is whether it is small. The mean of two numbers is seldom small, so a rare outcome becomes much
//! rarer with a correlation: `loss 10% 25%` loses 1.8 % of the packets, and `loss 1% 25%` two in a million. The first form keeps the probability whatever the correlation is.

use warpline_core::Stream;
use warpline_core::parameter::Words;

/// What a correlation means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum Correlation {
    /// That of two outcomes in a row. The probability stays what it is.
    #[default]
    Outcomes,
    /// That of netem: a number is the mean of a random number and the one before it, weighted by the correlation. Rare outcomes become much
    /// rarer.
    Netem,
}

/// A chance, and what the last outcome was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    probability: f64,
    correlation: f64,
    form: Correlation,
    /// The last number of netem's form, or whether the last outcome was a hit; none before the first.
    last: Option<f64>,
}

impl Chance {
    /// Both numbers are between 0 and 1.
    pub(crate) fn new(probability: f64, correlation: f64, form: Correlation) -> Self {
        Chance { probability, correlation, form, last: None }
    }

    /// Whether the next packet is hit.
    pub(crate) fn hits(&mut self, stream: &mut Stream) -> bool {
        let number = stream.uniform();
        let Chance { probability, correlation, form, last } = *self;
        match form {
            Correlation::Outcomes => {
                // A chain of two states: after a hit, the share of the correlation that is certain adds to the probability.
                let memory = last.unwrap_or(probability);
                let hit = number < probability + correlation * (memory - probability);
                self.last = Some(if hit { 1.0 } else { 0.0 });
                hit
            }
            Correlation::Netem => {
                let last = last.unwrap_or_else(|| stream.uniform());
                let number = number + correlation * (last - number);
                self.last = Some(number);
                number < probability
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    /// The share of hits, and the correlation of two outcomes in a row.
    fn measured(probability: f64, correlation: f64, form: Correlation) -> (f64, f64) {
        let mut stream = Streams::new(3).stream("chance");
        let mut chance = Chance::new(probability, correlation, form);
        let hits: Vec<f64> = (0..400_000).map(|_| f64::from(u8::from(chance.hits(&mut stream)))).collect();
        let mean = hits.iter().sum::<f64>() / hits.len() as f64;
        let both = hits.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        let own = hits.iter().map(|hit| (hit - mean) * (hit - mean)).sum::<f64>();
        (mean, both / own)
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn outcomes_have_the_probability_and_the_correlation_asked_for() {
        for (probability, correlation) in [(0.01, 0.0), (0.01, 0.25), (0.3, 0.9), (0.5, 0.5)] {
            let (share, found) = measured(probability, correlation, Correlation::Outcomes);
            // A chain with this correlation is as noisy as (1 + c) / (1 - c) times fewer independent outcomes.
            let few = 400_000.0 * (1.0 - correlation) / (1.0 + correlation);
            let sigma = (probability * (1.0 - probability) / few).sqrt();
            assert!((share - probability).abs() < 4.0 * sigma, "{probability} {correlation}: {share}");
            assert!((found - correlation).abs() < 0.04, "{probability} {correlation}: {found}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn netems_numbers_are_seldom_small() {
        // By a simulation of get_crandom's numbers apart from this one: 0.0176 of them are below a tenth.
        let (share, _) = measured(0.1, 0.25, Correlation::Netem);
        assert!((share - 0.0176).abs() < 0.0015, "{share}");
        let (share, _) = measured(0.5, 0.25, Correlation::Netem);
        assert!((share - 0.5).abs() < 0.01, "even chances stay even: {share}");
        let (share, _) = measured(0.01, 0.0, Correlation::Netem);
        assert!((share - 0.01).abs() < 0.001, "without a correlation both forms are the same: {share}");
    }

    #[test]
    fn certain_outcomes_stay_certain() {
        for form in [Correlation::Outcomes, Correlation::Netem] {
            assert_eq!((measured(0.0, 0.5, form).0, measured(1.0, 0.5, form).0), (0.0, 1.0));
        }
    }

    #[test]
    fn a_correlation_of_one_repeats_the_first_outcome() {
        for (probability, seed) in [(0.5, 1), (0.5, 2), (0.5, 3), (0.5, 4)] {
            let mut stream = Streams::new(seed).stream("chance");
            let mut chance = Chance::new(probability, 1.0, Correlation::Outcomes);
            let first = chance.hits(&mut stream);
            assert!((0..100).all(|_| chance.hits(&mut stream) == first));
        }
    }
}
