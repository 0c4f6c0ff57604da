//! Losses in bursts (Gilbert 1960, Elliott 1963), as netem's `loss gemodel p r 1-h 1-k`.
//!
//! A packet meets the loss probability of the state it finds; then the state may change. The first packet finds the good state. In the long
//! run the share of packets that find the bad state is p / (p + r).

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// Two states with a loss probability each; after each packet the state may change (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("gilbert-elliott")]
pub struct GilbertElliottParams {
    /// Probability per packet of going from good to bad (netem's p).
    #[parameter(default = 0.002, share, required)]
    pub good_to_bad: f64,
    /// Probability per packet of going from bad to good (netem's r): the inverse of the mean length of a bad phase.
    #[parameter(default = 0.2, share, required)]
    pub bad_to_good: f64,
    /// Loss probability in the good state (netem's 1-k).
    #[parameter(default = 0.0, share)]
    pub loss_good: f64,
    /// Loss probability in the bad state (netem's 1-h).
    #[parameter(default = 1.0, share)]
    pub loss_bad: f64,
}

/// The model and its state.
#[derive(Clone, Copy, Debug)]
pub struct GilbertElliott {
    params: GilbertElliottParams,
    bad: bool,
}

impl Model<bool> for GilbertElliott {
    type Params = GilbertElliottParams;

    fn new(params: &GilbertElliottParams) -> Self {
        GilbertElliott { params: *params, bad: false }
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> bool {
        let GilbertElliottParams { good_to_bad, bad_to_good, loss_good, loss_bad } = self.params;
        let (loss, change) = if self.bad { (loss_bad, bad_to_good) } else { (loss_good, good_to_bad) };
        let lost = stream.chance(loss);
        self.bad ^= stream.chance(change);
        lost
    }
    fn words(_params: &GilbertElliottParams) -> String {
        "loss in bursts (Gilbert-Elliott)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lost;

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn it_has_its_mean_and_its_bursts() {
        let (p, r) = (0.01, 0.2);
        let n = 500_000u64;
        let hits = lost(&format!("gilbert-elliott:good_to_bad={p},bad_to_good={r}"), n);
        // Share p / (p + r); neighbours correlate with 1 - p - r, which widens the binomial noise.
        let share = hits.len() as f64 / n as f64;
        let pi = p / (p + r);
        let sigma = (pi * (1.0 - pi) / n as f64 * (2.0 - p - r) / (p + r)).sqrt();
        assert!((share - pi).abs() < 4.0 * sigma, "{share} {pi}");
        // Bursts are geometric with mean 1 / r and standard deviation sqrt(1 - r) / r.
        let bursts = 1 + hits.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let mean = hits.len() as f64 / bursts as f64;
        let sigma = (1.0 - r).sqrt() / r / (bursts as f64).sqrt();
        assert!((mean - 1.0 / r).abs() < 4.0 * sigma, "{mean}");
        // Partial loss in both states.
        let kind = "gilbert-elliott:good_to_bad=0.5,bad_to_good=0.5,loss_bad=0.4,loss_good=0.1";
        let share = lost(kind, n).len() as f64 / n as f64;
        assert!((share - 0.25).abs() < 4.0 * (0.25f64 * 0.75 / n as f64).sqrt(), "{share}");
    }
}
