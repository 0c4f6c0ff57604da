//! Packets that overtake others: netem's `delay TIME reorder PERCENT CORRELATION gap DISTANCE`.
//!
//! Source: Linux net/sched/sch_netem.c (netem_enqueue). Every packet is delayed but those that are chosen: they go at once, and so overtake what
//! is still delayed. After one has been chosen, `gap` - 1 packets are delayed; each one after those is chosen with the probability given.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, TimeDelta, Timestamp};

use crate::chance::{Chance, Correlation};
use crate::model::Model;

/// All packets are delayed but some, which overtake (netem's `reorder`).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("overtaking")]
pub struct OvertakingParams {
    /// Delay of all packets but those that overtake. How far these get ahead depends on how many packets come in that time.
    #[parameter(default = TimeDelta::from_millis(10), required)]
    pub delay: TimeDelta,
    /// Probability that a packet overtakes.
    #[parameter(default = 0.25, share, required)]
    pub probability: f64,
    /// Correlation with the candidate before.
    #[parameter(default = 0.0, share)]
    pub correlation: f64,
    /// What the correlation means.
    #[parameter(default = Correlation::Outcomes)]
    pub form: Correlation,
    /// How many packets there are from one that overtakes to the next candidate: 5 for every fifth packet, if the probability is 1.
    #[parameter(default = 1, min = 1)]
    pub gap: u64,
    /// Whether the packets that are not delayed overtake the others; otherwise they wait for them.
    #[parameter(default = true)]
    pub reorder: bool,
}

/// The model and what came before.
#[derive(Clone, Copy, Debug)]
pub struct Overtaking {
    delay: f64,
    gap: u64,
    chance: Chance,
    /// Packets since the last one that overtook.
    delayed: u64,
}

impl Model<f64> for Overtaking {
    type Params = OvertakingParams;

    fn new(params: &OvertakingParams) -> Self {
        let OvertakingParams { delay, probability, correlation, form, gap, .. } = *params;
        let chance = Chance::new(probability, correlation, form);
        Overtaking { delay: delay.as_secs_f64(), gap: gap.max(1), chance, delayed: 0 }
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> f64 {
        if self.delayed + 1 >= self.gap && self.chance.hits(stream) {
            self.delayed = 0;
            return 0.0;
        }
        self.delayed += 1;
        self.delay
    }
    fn words(params: &OvertakingParams) -> String {
        let share = (params.probability * 1e8).round() / 1e6;
        format!("{share} % of packets overtake others ({} later)", params.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_share, draw};

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn the_share_asked_for_is_not_delayed() {
        let delays = draw("overtaking:delay=4ms,probability=0.25");
        assert!(delays.iter().all(|&ms| ms == 0.0 || ms == 4.0));
        assert_share(&delays, 1.0, 0.25);
    }

    #[test]
    fn with_certainty_every_nth_packet_overtakes() {
        let delays = draw("overtaking:delay=4ms,probability=1,gap=5");
        let early: Vec<usize> = (0..20).filter(|&n| delays[n] == 0.0).collect();
        assert_eq!(early, [4, 9, 14, 19]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn after_the_gap_each_packet_is_a_candidate() {
        let delays = draw("overtaking:delay=4ms,probability=0.5,gap=3");
        let early: Vec<usize> = (0..delays.len()).filter(|&n| delays[n] == 0.0).collect();
        let apart: Vec<usize> = early.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(apart.iter().min(), Some(&3));
        // Two are delayed; then it takes two candidates in the mean.
        let mean = apart.iter().sum::<usize>() as f64 / apart.len() as f64;
        assert!((mean - 4.0).abs() < 0.05, "{mean}");
    }
}
