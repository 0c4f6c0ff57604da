//! Metrics over samples: fairness, means, confidence intervals, percentiles.

use hdrhistogram::Histogram;
use warpline_core::time::TimeDelta;

/// Jain's fairness index, (sum x)^2 / (n sum x^2): 1 where all shares are equal, 1/n where one takes all (Jain, Chiu and
/// Hawe, "A quantitative measure of fairness and discrimination for resource allocation in shared computer systems", DEC
/// TR-301, 1984). None of fewer than two shares, which nobody shares with, or where all are zero.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        (count, sum, squares) = (count + 1.0, sum + share, squares + share * share);
    }
    let index = sum * sum / (count * squares);
    (count > 1.0 && index.is_finite()).then_some(index)
}

/// The arithmetic mean; none without samples.
pub fn mean(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    weighted_mean(samples.into_iter().map(|sample| (sample, 1.0)))
}

/// The mean of `(sample, weight)` pairs; none where the weights sum to zero.
pub fn weighted_mean(samples: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (sample, weight) in samples {
        (sum, weights) = (sum + sample * weight, weights + weight);
    }
    (weights > 0.0).then(|| sum / weights)
}

/// The 97.5 % quantile of Student's t distribution: half of a two-sided 95 % interval's width in standard errors.
///
/// Up to ten degrees of freedom from the published table (NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2),
/// beyond from the expansion about the normal quantile (Abramowitz and Stegun, 26.7.5), which is exact to five digits there.
/// Infinite for zero degrees of freedom.
pub fn student_t_975(degrees_of_freedom: u64) -> f64 {
    const TABLE: [f64; 10] =
        [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];
    /// The 97.5 % quantile of the standard normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    match degrees_of_freedom {
        0 => f64::INFINITY,
        1..=10 => TABLE[degrees_of_freedom as usize - 1],
        _ => {
            let v = degrees_of_freedom as f64;
            let z2 = Z * Z;
            let z3 = Z * z2;
            let z5 = z3 * z2;
            let z7 = z5 * z2;
            let z9 = z7 * z2;
            let g1 = (z3 + Z) / 4.0;
            let g2 = (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / 96.0;
            let g3 = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / 384.0;
            let g4 = (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * Z) / 92_160.0;
            Z + (g1 + (g2 + (g3 + g4 / v) / v) / v) / v
        }
    }
}

/// Mean, spread and confidence interval of independent samples.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// Number of samples.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); absent for a single sample.
    pub stddev: Option<f64>,
    /// Half-width of the 95 % confidence interval of the mean; absent for a single sample.
    pub ci95: Option<f64>,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
}

impl Estimate {
    /// The estimate from samples; none without any.
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        let mean = mean(samples.iter().copied())?;
        let n = samples.len() as f64;
        let stddev = (samples.len() > 1).then(|| {
            let squares = samples.iter().map(|sample| (sample - mean) * (sample - mean));
            (squares.sum::<f64>() / (n - 1.0)).sqrt()
        });
        Some(Estimate {
            n: samples.len() as u64,
            mean,
            stddev,
            ci95: stddev.map(|stddev| student_t_975(samples.len() as u64 - 1) * stddev / n.sqrt()),
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// Collects spans: exact count, mean, smallest and largest; percentiles from an HdrHistogram.
#[derive(Clone, Debug)]
pub struct SpanStats {
    histogram: Histogram<u32>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// Spans closer together than this many nanoseconds need not be told apart by percentiles.
const RESOLUTION: u64 = 64;

impl Default for SpanStats {
    fn default() -> Self {
        Self::new()
    }
}

impl SpanStats {
    /// No spans yet. Percentiles are within 0.1 %; takes 60 kB for spans of up to a second.
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// No spans yet. Percentiles are within 1 %; takes 9 kB for spans of up to a second: for thousands of flows.
    pub fn compact() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        // The bounds are in the permitted order, and up to five digits are allowed. It grows as longer spans come.
        let mut histogram = Histogram::new_with_bounds(RESOLUTION, 2 * RESOLUTION, digits)
            .unwrap_or_else(|error| unreachable!("{error}"));
        histogram.auto(true);
        SpanStats { histogram, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Adds a span.
    pub fn record(&mut self, span: TimeDelta) {
        let nanos = span.as_nanos();
        // It grows to hold any span; where memory forbids that, the longest that it holds counts instead.
        if self.histogram.record(nanos).is_err() {
            self.histogram.saturating_record(nanos);
        }
        self.count += 1;
        self.sum += u128::from(nanos);
        (self.min, self.max) = (self.min.min(nanos), self.max.max(nanos));
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Mean in milliseconds; none without spans.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e6)
    }
    /// Smallest in milliseconds.
    pub fn min_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.min as f64 / 1e6)
    }
    /// Largest in milliseconds.
    pub fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max as f64 / 1e6)
    }
    /// The value in milliseconds below which `percent` of the spans lie, never above the largest.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        (self.count > 0).then(|| self.histogram.value_at_percentile(percent).min(self.max) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_of_known_shares() {
        assert_eq!(jain([5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!((jain([]), jain([5.0])), (None, None));
        assert_eq!(jain([0.0, 0.0]), None);
    }

    #[test]
    fn student_s_t_agrees_with_the_tables_and_joins_smoothly() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
        for (degrees, t) in
            [(1, 12.706), (2, 4.303), (10, 2.228), (11, 2.201), (20, 2.086), (30, 2.042), (100, 1.984)]
        {
            assert!((student_t_975(degrees) - t).abs() < 6e-4, "{degrees}: {}", student_t_975(degrees));
        }
        assert!((1..500).all(|v| student_t_975(v) > student_t_975(v + 1)));
        assert_eq!(student_t_975(0), f64::INFINITY);
    }

    #[test]
    fn an_estimate_of_known_samples() {
        let estimate = Estimate::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((estimate.n, estimate.mean, estimate.min, estimate.max), (8, 5.0, 2.0, 9.0));
        let stddev = (32f64 / 7.0).sqrt();
        assert!((estimate.stddev.unwrap() - stddev).abs() < 1e-12);
        assert!((estimate.ci95.unwrap() - 2.3646 * stddev / 8f64.sqrt()).abs() < 1e-12);
        assert_eq!(Estimate::of(&[3.0]).unwrap().ci95, None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn spans_have_exact_moments_and_close_percentiles() {
        for (mut stats, error) in [(SpanStats::new(), 1.1e-3), (SpanStats::compact(), 1.1e-2)] {
            assert_eq!((stats.mean_ms(), stats.percentile_ms(50.0)), (None, None));
            for millis in 1..=1000 {
                stats.record(TimeDelta::from_millis(millis));
            }
            assert_eq!((stats.count(), stats.mean_ms()), (1000, Some(500.5)));
            assert_eq!((stats.min_ms(), stats.max_ms()), (Some(1.0), Some(1000.0)));
            for percent in [50.0, 95.0, 99.0] {
                let value = stats.percentile_ms(percent).unwrap();
                assert!((value / (percent * 10.0) - 1.0).abs() < error, "{percent}: {value}");
            }
            assert_eq!(stats.percentile_ms(100.0), Some(1000.0));
            stats.record(TimeDelta::MAX);
            assert!(stats.percentile_ms(100.0).unwrap() <= stats.max_ms().unwrap());
        }
    }
}
