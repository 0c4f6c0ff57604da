//! Jitter: a further delay, drawn anew for each packet.

use warpline_core::{Stream, TimeDelta};

use crate::parameter::InvalidParameter;

/// How the further delay is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum JitterKind {
    /// None.
    #[default]
    None,
    /// Uniform from `low` to `high`.
    Uniform {
        /// Least delay.
        low: TimeDelta,
        /// Greatest delay.
        high: TimeDelta,
    },
    /// Normal; draws below zero become zero, which raises the mean a little where `mean` is not far above `stddev`.
    Normal {
        /// Mean before truncation.
        mean: TimeDelta,
        /// Standard deviation before truncation.
        stddev: TimeDelta,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: TimeDelta,
    },
    /// Pareto: no delay is below mean (shape - 1) / shape.
    Pareto {
        /// Mean.
        mean: TimeDelta,
        /// Above 1; the variance is infinite up to 2.
        shape: f64,
    },
}

/// A jitter model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct JitterConfig {
    /// The distribution.
    pub kind: JitterKind,
    /// Delays beyond this are cut to it. Default none; an hour is always the most, so that every packet arrives.
    pub max: Option<TimeDelta>,
    /// Whether a later packet may overtake an earlier one; if not, it waits to arrive right after it. Default false.
    pub reorder: bool,
}

const LONGEST: TimeDelta = TimeDelta::from_secs(3600);

impl JitterConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        match self.kind {
            JitterKind::Uniform { low, high } if low > high => {
                let allowed = format!("it must not be above `high` ({high})");
                Err(InvalidParameter::new("low", low, allowed))
            }
            JitterKind::Pareto { shape, .. } if !(shape > 1.0 && shape.is_finite()) => {
                Err(InvalidParameter::new("shape", shape, "it must be above 1, or there is no mean"))
            }
            _ => Ok(()),
        }
    }
    /// The model, drawing from `stream`.
    pub fn build(&self, stream: Stream) -> JitterModel {
        JitterModel { config: *self, stream }
    }
}

/// A jitter model at work on one link.
#[derive(Clone, Debug)]
pub struct JitterModel {
    config: JitterConfig,
    stream: Stream,
}

impl JitterModel {
    /// Whether there is no jitter, so that the link need not ask.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.config.kind == JitterKind::None
    }
    /// Whether a later packet may overtake.
    #[inline]
    pub fn reorders(&self) -> bool {
        self.config.reorder
    }
    /// The next packet's further delay.
    pub fn extra(&mut self) -> TimeDelta {
        let stream = &mut self.stream;
        let secs = match self.config.kind {
            JitterKind::None => return TimeDelta::ZERO,
            JitterKind::Uniform { low, high } => stream.range(low.as_secs_f64(), high.as_secs_f64()),
            JitterKind::Normal { mean, stddev } => stream.normal(mean.as_secs_f64(), stddev.as_secs_f64()),
            JitterKind::Exponential { mean } => stream.exponential(mean.as_secs_f64()),
            JitterKind::Pareto { mean, shape } => stream.pareto(mean.as_secs_f64(), shape),
        };
        TimeDelta::from_secs_f64(secs).min(self.config.max.unwrap_or(LONGEST)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{Streams, float};

    const MS: fn(u64) -> TimeDelta = TimeDelta::from_millis;

    fn draw(kind: JitterKind, max: Option<TimeDelta>) -> Vec<f64> {
        let config = JitterConfig { kind, max, reorder: true };
        config.validate().unwrap();
        let mut model = config.build(Streams::new(11).stream("jitter"));
        assert!(model.reorders());
        (0..100_000).map(|_| model.extra().as_secs_f64() * 1e3).collect()
    }
    /// Mean within four standard errors.
    fn assert_mean(draws: &[f64], mean: f64, stddev: f64) {
        let found = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((found - mean).abs() < 4.0 * stddev / (draws.len() as f64).sqrt(), "{found} {mean}");
    }
    fn share(draws: &[f64], below: f64) -> f64 {
        draws.iter().filter(|&&ms| ms < below).count() as f64 / draws.len() as f64
    }

    #[test]
    fn the_distributions_are_what_they_say() {
        let noise = |p: f64| 4.0 * (p * (1.0 - p) / 100_000.0).sqrt();
        let uniform = draw(JitterKind::Uniform { low: MS(2), high: MS(6) }, None);
        assert_mean(&uniform, 4.0, 4.0 / 12f64.sqrt());
        assert!(uniform.iter().all(|ms| (2.0..=6.0).contains(ms)));
        assert!((share(&uniform, 3.0) - 0.25).abs() < noise(0.25));

        let normal = draw(JitterKind::Normal { mean: MS(50), stddev: MS(5) }, None);
        assert_mean(&normal, 50.0, 5.0);
        assert!((share(&normal, 45.0) - 0.158_655).abs() < noise(0.158_655));

        let exponential = draw(JitterKind::Exponential { mean: MS(10) }, None);
        assert_mean(&exponential, 10.0, 10.0);
        let below = 1.0 - float::exp(-0.5);
        assert!((share(&exponential, 5.0) - below).abs() < noise(below));

        let pareto = draw(JitterKind::Pareto { mean: MS(10), shape: 5.0 }, None);
        assert_mean(&pareto, 10.0, 10.0 / 15f64.sqrt()); // variance mean^2 / (shape (shape - 2))
        assert!(pareto.iter().all(|&ms| ms >= 8.0 - 1e-6));
        assert!((share(&pareto, 10.0) - (1.0 - float::powf(0.8, 5.0))).abs() < noise(0.328));
    }

    #[test]
    fn normal_is_cut_at_zero_and_all_at_max() {
        let normal = draw(JitterKind::Normal { mean: MS(0), stddev: MS(5) }, None);
        let zeros = normal.iter().filter(|&&ms| ms == 0.0).count() as f64 / normal.len() as f64;
        assert!((zeros - 0.5).abs() < 0.01);
        let cut = draw(JitterKind::Exponential { mean: MS(10) }, Some(MS(7)));
        assert!(cut.iter().all(|&ms| ms <= 7.0) && cut.contains(&7.0));
        let wild = draw(JitterKind::Exponential { mean: TimeDelta::from_secs(1 << 30) }, None);
        assert!(wild.iter().all(|&ms| ms <= 3.6e6));
    }

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |kind| JitterConfig { kind, ..Default::default() }.validate().is_err();
        assert!(refused(JitterKind::Uniform { low: MS(2), high: MS(1) }));
        assert!(refused(JitterKind::Pareto { mean: MS(2), shape: 1.0 }));
        assert!(refused(JitterKind::Pareto { mean: MS(2), shape: f64::NAN }));
        assert!(!refused(JitterKind::None));
    }
}
