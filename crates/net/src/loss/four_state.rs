//! Losses by a chain of four states: netem's `loss state P13 P31 P32 P23 P14`.
//!
//! Sources: S. Salsano, F. Ludovici, A. Ordine, D. Giannuzzi, "Definition of a general and intuitive loss model for packet networks and its
//! implementation in the Netem module in the Linux kernel" (2012); Linux net/sched/sch_netem.c, loss_4state.
//!
//! Two states pass a packet, one between bursts of losses (1) and one within a burst (2); two lose it, within a burst (3) and alone (4). The
//! state changes first, then the new one decides. After a lone loss comes state 1.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// Bursts of losses in which some packets pass, and lone losses between bursts.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("four-state")]
pub struct FourStateParams {
    /// Probability per packet between bursts that a burst begins, with a loss (netem's p13).
    #[parameter(default = 0.002, share, required)]
    pub begin: f64,
    /// Probability after a loss in a burst that the burst ends (netem's p31).
    #[parameter(default = 0.2, share, required)]
    pub end: f64,
    /// Probability after a loss in a burst that the next packet passes and the burst goes on (netem's p32). If it and `end` come to more than
    /// 1, it counts first.
    #[parameter(default = 0.0, share)]
    pub pass: f64,
    /// Probability after a packet that passed in a burst that the next one is lost (netem's p23).
    #[parameter(default = 1.0, share)]
    pub lose: f64,
    /// Probability per packet between bursts that it alone is lost (netem's p14). If it and `begin` come to more than 1, it counts first.
    #[parameter(default = 0.0, share)]
    pub alone: f64,
}

/// Where the chain is, by what became of the last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Passed between bursts (1).
    Gap,
    /// Passed within a burst (2).
    Passed,
    /// Lost within a burst (3).
    Burst,
    /// Lost alone (4).
    Alone,
}

/// The model and its state.
#[derive(Clone, Copy, Debug)]
pub struct FourState {
    params: FourStateParams,
    state: State,
}

impl Model<bool> for FourState {
    type Params = FourStateParams;

    fn new(params: &FourStateParams) -> Self {
        FourState { params: *params, state: State::Gap }
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> bool {
        let FourStateParams { begin, end, pass, lose, alone } = self.params;
        // One number for each packet, as in netem, also where the next state is certain.
        let number = stream.uniform();
        self.state = match self.state {
            State::Gap if number < alone => State::Alone,
            State::Gap if number < alone + begin => State::Burst,
            State::Gap | State::Alone => State::Gap,
            State::Passed if number < lose => State::Burst,
            State::Passed => State::Passed,
            State::Burst if number < pass => State::Passed,
            State::Burst if number < pass + end => State::Gap,
            State::Burst => State::Burst,
        };
        matches!(self.state, State::Burst | State::Alone)
    }
    fn words(_params: &FourStateParams) -> String {
        "loss in bursts (four states)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lost;

    /// How long the runs of losses are.
    fn runs(lost: &[u64]) -> Vec<usize> {
        lost.chunk_by(|one, next| *next == one + 1).map(<[u64]>::len).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn bursts_are_as_frequent_and_as_long_as_asked_for() {
        let n = 500_000;
        let lost = lost("four-state:begin=0.01,end=0.2", n);
        // In the long run, p13 / (p13 + p31).
        let share = lost.len() as f64 / n as f64;
        assert!((share - 0.01 / 0.21).abs() < 0.003, "{share}");
        let runs = runs(&lost);
        let mean = lost.len() as f64 / runs.len() as f64;
        assert!((mean - 5.0).abs() < 0.3, "{mean}");
    }

    #[test]
    fn lone_losses_are_alone() {
        let lost = lost("four-state:begin=0,end=1,alone=0.3", 10_000);
        assert!(lost.len() > 1000 && runs(&lost).iter().all(|&length| length == 1));
        // Certain, it takes every other packet: after a lone loss one passes.
        assert_eq!(super::super::tests::lost("four-state:begin=0,end=1,alone=1", 6), [1, 3, 5]);
    }

    #[test]
    fn in_a_burst_some_pass() {
        // The burst begins at once and never ends: after a loss one passes, after that one is lost.
        assert_eq!(lost("four-state:begin=1,end=0,pass=1,lose=1", 7), [1, 3, 5, 7]);
        // One that passes never leads to a loss again.
        assert_eq!(lost("four-state:begin=1,end=0,pass=1,lose=0", 7), [1]);
        // It ends after each loss, and begins again after the packet that passes.
        assert_eq!(lost("four-state:begin=1,end=1", 6), [1, 3, 5]);
    }

    #[test]
    fn what_comes_to_more_than_one_counts_in_order() {
        // Alone first, then a burst: the burst never begins.
        assert_eq!(lost("four-state:begin=1,end=0,alone=1", 5), [1, 3, 5]);
        // Passing first, then the end: the burst goes on.
        assert_eq!(lost("four-state:begin=1,end=1,pass=1,lose=1", 5), [1, 3, 5]);
    }
}
