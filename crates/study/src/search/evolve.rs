//! The search itself: differential evolution (Storn and Price 1997), of the crate `optimizer`.
//!
//! It uses ranks only, so it does not matter how a measure is scaled, and nothing but additions and multiplications, so that the points are the same on
//! every machine. A population is asked for at once and told at once: the points do not depend on which run ends first.

use optimizer::parameter::{FloatParam, Parameter as _};
use optimizer::sampler::de::{DESampler, DEStrategy};
use optimizer::{Direction, Study, Trial};

/// How far points are moved by the difference of two others. Below the usual 0.8, since the budget is small.
const MUTATION: f64 = 0.6;
/// The share of numbers that a point takes from the moved one.
const CROSSOVER: f64 = 0.9;

/// A population that evolves, its points being numbers between 0 and 1.
pub(super) struct Evolution {
    study: Study<f64>,
    numbers: Vec<FloatParam>,
    asked: Vec<Trial>,
}

impl Evolution {
    /// A population whose first points are drawn evenly.
    pub(super) fn new(dimensions: usize, population: u32, seed: u64) -> Evolution {
        let sampler = DESampler::builder()
            .population_size(population as usize)
            .mutation_factor(MUTATION)
            .crossover_rate(CROSSOVER)
            .strategy(DEStrategy::CurrentToBest1)
            .seed(seed)
            .build();
        let study = Study::with_sampler(Direction::Minimize, sampler);
        let numbers = (0..dimensions).map(|_| FloatParam::new(0.0, 1.0)).collect();
        let mut evolution = Evolution { study, numbers, asked: Vec::new() };
        // From the first trial the sampler only learns how many numbers there are.
        let _ = evolution.ask(1);
        evolution.tell(&[f64::INFINITY]);
        evolution
    }

    /// The next points.
    pub(super) fn ask(&mut self, count: usize) -> Vec<Vec<f64>> {
        let mut one = || {
            let mut trial = self.study.ask();
            // Only a parameter of another trial, or with another range, could be refused.
            let point = self.numbers.iter().map(|number| number.suggest(&mut trial).unwrap_or(0.5)).collect();
            self.asked.push(trial);
            point
        };
        (0..count).map(|_| one()).collect()
    }

    /// What the points asked for last cost, in their order; infinity for one that cannot be run.
    pub(super) fn tell(&mut self, costs: &[f64]) {
        for (trial, cost) in self.asked.drain(..).zip(costs) {
            self.study.complete_trial(trial, *cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best of so many points of a bowl with ripples: the least is 0, at 0.3 in all dimensions, and there is another minimum every 0.2.
    fn rippled_bowl(dimensions: usize, generations: usize, seed: u64) -> (f64, Vec<f64>) {
        let one = |x: f64| 10.0 * (x - 0.3) * (x - 0.3) + (5.0 * (x - 0.3) - (5.0 * (x - 0.3)).round()).abs();
        let cost = |point: &[f64]| -> f64 { point.iter().copied().map(one).sum() };
        let mut evolution = Evolution::new(dimensions, 20, seed);
        let mut best = (f64::INFINITY, Vec::new());
        for _ in 0..generations {
            let points = evolution.ask(20);
            let costs: Vec<f64> = points.iter().map(|point| cost(point)).collect();
            for (point, cost) in points.into_iter().zip(&costs) {
                assert!(point.iter().all(|x| (0.0..=1.0).contains(x)));
                if *cost < best.0 {
                    best = (*cost, point);
                }
            }
            evolution.tell(&costs);
        }
        best
    }

    #[test]
    fn the_minimum_among_others_is_found() {
        let (_, point) = rippled_bowl(3, 60, 1);
        assert!(point.iter().all(|x| (x - 0.3).abs() < 0.02), "{point:?}");
    }

    #[test]
    fn a_seed_gives_the_same_points() {
        assert_eq!(rippled_bowl(3, 10, 5), rippled_bowl(3, 10, 5));
        assert_ne!(rippled_bowl(3, 10, 5), rippled_bowl(3, 10, 6));
    }
}
