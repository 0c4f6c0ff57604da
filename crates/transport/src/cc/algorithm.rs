//! The choice of a congestion control: which algorithm with which parameters, as plain data.

use thiserror::Error;

use super::bic::{Bic, BicParams};
use super::controller::Controller;
use super::cubic::{Cubic, CubicParams};
use super::fixed::{Fixed, FixedParams};
use super::ledbat::{Ledbat, LedbatParams};
use super::ledbat_plus_plus::{LedbatPlusPlus, LedbatPlusPlusParams};
use super::lp::{Lp, LpParams};
use super::nice::{Nice, NiceParams};
use super::reno::{Reno, RenoParams};
use super::vegas::{Vegas, VegasParams};
use super::westwood::{Westwood, WestwoodParams};
use super::{CcConfig, TimeDelta};

/// An algorithm and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    /// RFC 5681.
    Reno(RenoParams),
    /// RFC 9438.
    Cubic(CubicParams),
    /// Brakmo and Peterson.
    Vegas(VegasParams),
    /// Binary increase.
    Bic(BicParams),
    /// Westwood+.
    Westwood(WestwoodParams),
    /// RFC 6817.
    Ledbat(LedbatParams),
    /// draft-irtf-iccrg-ledbat-plus-plus.
    LedbatPlusPlus(LedbatPlusPlusParams),
    /// TCP-LP.
    Lp(LpParams),
    /// TCP Nice.
    Nice(NiceParams),
    /// A constant window.
    Fixed(FixedParams),
}

/// A name that no algorithm has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{name}` is not a congestion control; there are {}", NAMES.join(", "))]
pub struct UnknownAlgorithm {
    /// The name.
    pub name: String,
}

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("`{parameter}` of the congestion control `{algorithm}` is {value}; it must be {allowed}")]
pub struct InvalidParameter {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The parameter's name: that of its field.
    pub parameter: &'static str,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

const NAMES: [&str; 10] =
    ["reno", "cubic", "vegas", "bic", "westwood", "ledbat", "ledbat++", "lp", "nice", "fixed"];

impl Default for Algorithm {
    /// CUBIC, as in Linux.
    fn default() -> Self {
        Algorithm::Cubic(CubicParams::default())
    }
}

/// Collects what is wrong with an algorithm's parameters.
struct Check {
    algorithm: &'static str,
    errors: Vec<InvalidParameter>,
}

impl Check {
    fn require(&mut self, holds: bool, parameter: &'static str, value: impl ToString, allowed: &'static str) {
        if !holds {
            let algorithm = self.algorithm;
            self.errors.push(InvalidParameter { algorithm, parameter, value: value.to_string(), allowed });
        }
    }
    /// What remains of a window after a reduction.
    fn share(&mut self, parameter: &'static str, value: f64) {
        self.require(value > 0.0 && value < 1.0, parameter, value, "above 0 and below 1");
    }
    fn part(&mut self, parameter: &'static str, value: f64) {
        self.require((0.0..=1.0).contains(&value), parameter, value, "between 0 and 1");
    }
    fn positive(&mut self, parameter: &'static str, value: f64) {
        self.require(value > 0.0 && value.is_finite(), parameter, value, "above 0");
    }
    fn queue(&mut self, parameter: &'static str, value: f64) {
        self.require(value >= 0.0 && value.is_finite(), parameter, value, "0 or more segments");
    }
    fn at_least_one(&mut self, parameter: &'static str, value: u32) {
        self.require(value >= 1, parameter, value, "1 or more");
    }
    fn span(&mut self, parameter: &'static str, value: TimeDelta) {
        self.require(!value.is_zero(), parameter, value, "longer than 0");
    }
}

impl Algorithm {
    /// The algorithm called `name`, with its default parameters.
    pub fn from_name(name: &str) -> Result<Self, UnknownAlgorithm> {
        Ok(match name {
            "reno" => Algorithm::Reno(RenoParams::default()),
            "cubic" => Algorithm::Cubic(CubicParams::default()),
            "vegas" => Algorithm::Vegas(VegasParams::default()),
            "bic" => Algorithm::Bic(BicParams::default()),
            "westwood" => Algorithm::Westwood(WestwoodParams::default()),
            "ledbat" => Algorithm::Ledbat(LedbatParams::default()),
            "ledbat++" => Algorithm::LedbatPlusPlus(LedbatPlusPlusParams::default()),
            "lp" => Algorithm::Lp(LpParams::default()),
            "nice" => Algorithm::Nice(NiceParams::default()),
            "fixed" => Algorithm::Fixed(FixedParams::default()),
            _ => return Err(UnknownAlgorithm { name: name.to_owned() }),
        })
    }

    /// The names of all built-in algorithms.
    pub const fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The algorithm's name as scenarios write it.
    pub const fn name(&self) -> &'static str {
        match self {
            Algorithm::Reno(_) => "reno",
            Algorithm::Cubic(_) => "cubic",
            Algorithm::Vegas(_) => "vegas",
            Algorithm::Bic(_) => "bic",
            Algorithm::Westwood(_) => "westwood",
            Algorithm::Ledbat(_) => "ledbat",
            Algorithm::LedbatPlusPlus(_) => "ledbat++",
            Algorithm::Lp(_) => "lp",
            Algorithm::Nice(_) => "nice",
            Algorithm::Fixed(_) => "fixed",
        }
    }

    /// Everything that is wrong with the parameters; [`build`](Self::build) takes the nearest sensible value instead.
    pub fn check(&self) -> Vec<InvalidParameter> {
        let mut check = Check { algorithm: self.name(), errors: vec![] };
        match self {
            Algorithm::Reno(p) => {
                check.share("beta", p.beta);
                check.share("beta_ecn", p.beta_ecn);
            }
            Algorithm::Cubic(p) => {
                check.positive("c", p.c);
                check.share("beta", p.beta);
                check.share("beta_ecn", p.beta_ecn);
            }
            Algorithm::Vegas(p) => {
                check.queue("alpha", p.alpha);
                check.queue("beta", p.beta);
                check.queue("gamma", p.gamma);
                check.require(p.beta >= p.alpha, "beta", p.beta, "alpha or more");
                check.at_least_one("min_samples", p.min_samples);
                check.share("decrease", p.decrease);
            }
            Algorithm::Bic(p) => {
                check.share("beta", p.beta);
                check.at_least_one("max_increment", p.max_increment);
                check.at_least_one("smooth_part", p.smooth_part);
            }
            Algorithm::Westwood(p) => {
                check.span("min_sample", p.min_sample);
                check.require(
                    (0.0..1.0).contains(&p.smoothing),
                    "smoothing",
                    p.smoothing,
                    "0 or more and below 1",
                );
            }
            Algorithm::Ledbat(p) => {
                check.span("target", p.target);
                check.positive("gain", p.gain);
                check.queue("allowed_increase", p.allowed_increase);
                check.positive("min_window", p.min_window);
                check.at_least_one("base_history", p.base_history);
                check.at_least_one("current_filter", p.current_filter);
            }
            Algorithm::LedbatPlusPlus(p) => {
                check.span("target", p.target);
                check.positive("decrease", p.decrease);
                check.at_least_one("max_gain_divisor", p.max_gain_divisor);
                check.at_least_one("base_history", p.base_history);
                check.at_least_one("current_filter", p.current_filter);
            }
            Algorithm::Lp(p) => {
                check.part("threshold", p.threshold);
                check.part("smoothing", p.smoothing);
                check.positive("inference", p.inference);
            }
            Algorithm::Nice(p) => {
                check.part("threshold", p.threshold);
                check.part("fraction", p.fraction);
                check.share("decrease", p.decrease);
                check.positive("growth", p.growth);
                check.part("target", p.target);
                check.positive("floor", p.floor);
                check.at_least_one("burst", p.burst);
                check.require(p.start >= 1.0 && p.start.is_finite(), "start", p.start, "1 or more");
                check.span("most_delay", p.most_delay);
                check.queue("own_packets", p.own_packets);
                check.queue("alpha", p.alpha);
                check.queue("beta", p.beta);
                check.queue("gamma", p.gamma);
                check.require(p.beta >= p.alpha, "beta", p.beta, "alpha or more");
            }
            Algorithm::Fixed(p) => check.positive("segments", p.segments),
        }
        check.errors
    }

    /// The congestion control of a new connection.
    pub fn build(&self, config: &CcConfig) -> Controller {
        match self {
            Algorithm::Reno(p) => Controller::Reno(Reno::new(p, config)),
            Algorithm::Cubic(p) => Controller::Cubic(Cubic::new(p, config)),
            Algorithm::Vegas(p) => Controller::Vegas(Vegas::new(p, config)),
            Algorithm::Bic(p) => Controller::Bic(Bic::new(p, config)),
            Algorithm::Westwood(p) => Controller::Westwood(Westwood::new(p, config)),
            Algorithm::Ledbat(p) => Controller::Ledbat(Box::new(Ledbat::new(p, config))),
            Algorithm::LedbatPlusPlus(p) => {
                Controller::LedbatPlusPlus(Box::new(LedbatPlusPlus::new(p, config)))
            }
            Algorithm::Lp(p) => Controller::Lp(Box::new(Lp::new(p, config))),
            Algorithm::Nice(p) => Controller::Nice(Box::new(Nice::new(p, config))),
            Algorithm::Fixed(p) => Controller::Fixed(Fixed::new(p, config)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testbed::config;
    use super::*;

    #[test]
    fn every_name_builds_what_bears_it() {
        for name in Algorithm::names() {
            let algorithm = Algorithm::from_name(name).unwrap();
            assert_eq!(algorithm.name(), *name);
            assert_eq!(algorithm.build(&config(10)).name(), *name);
            assert_eq!(algorithm.check(), [], "the defaults of {name} are allowed");
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let error = Algorithm::from_name("renno").unwrap_err().to_string();
        assert_eq!(
            error,
            "`renno` is not a congestion control; there are reno, cubic, vegas, bic, westwood, ledbat, ledbat++, lp, nice, fixed"
        );
    }

    #[test]
    fn wrong_parameters_are_all_named() {
        let nice = NiceParams { threshold: 2.0, floor: f64::NAN, alpha: 5.0, ..NiceParams::default() };
        let errors: Vec<String> =
            Algorithm::Nice(nice).check().iter().map(InvalidParameter::to_string).collect();
        assert_eq!(
            errors,
            [
                "`threshold` of the congestion control `nice` is 2; it must be between 0 and 1",
                "`floor` of the congestion control `nice` is NaN; it must be above 0",
                "`beta` of the congestion control `nice` is 3; it must be alpha or more",
            ]
        );
        // And what is built of them works.
        assert!(Algorithm::Nice(nice).build(&config(10)).cwnd() >= 1);
    }
}
