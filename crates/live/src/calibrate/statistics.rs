//! Summaries of repeated measurements: quantiles, means, slopes, deviations.

use serde::{Deserialize, Serialize};

/// The quantile of sorted values at `share`, interpolated linearly between neighbours; `None` without values.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * part)
}

/// A summary of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// How many values.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Sample {
    /// Summarises the values; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Sample::default() };
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        let share = |share| quantile(&values, share).unwrap_or_default();
        Sample {
            count: values.len() as u64,
            min,
            median: share(0.5),
            mean,
            stddev: variance.sqrt(),
            p99: share(0.99),
            max,
        }
    }
}

/// The median of repeated measurements, and their range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Number of measurements.
    pub times: u64,
}

impl Repeated {
    /// Summarises the repetitions; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let sample = Sample::of(values);
        Repeated { median: sample.median, min: sample.min, max: sample.max, times: sample.count }
    }

    /// Largest minus smallest, as a share of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median.abs() }
    }
}

/// The slope of the line that lies below all points and as near to them as possible (least sum of distances). If points are late by
/// some noise but never early, that is the slope without the noise. The points are sorted by the first number. `None` for fewer than two.
pub fn lower_slope(points: &[(f64, f64)]) -> Option<f64> {
    // The line is the edge of the lower convex hull above the mean of the first numbers: there the sum, which is linear in height and
    // slope, is smallest. Andrew's monotone chain finds the hull.
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len().max(1) as f64;
    let edge = hull.windows(2).find(|edge| edge[1].0 >= mean)?;
    Some((edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0))
}

/// How far `lost` of `sent` is from the expected value at probability `p`, in standard deviations of the binomial distribution.
pub fn binomial_deviations(lost: u64, sent: u64, p: f64) -> f64 {
    let (sent, lost) = (sent as f64, lost as f64);
    let deviation = (sent * p * (1.0 - p)).sqrt();
    if deviation == 0.0 { lost - sent * p } else { (lost - sent * p) / deviation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_summed_up() {
        let sample = Sample::of([4.0, 1.0, 2.0, 3.0, 10.0]);
        assert_eq!((sample.count, sample.min, sample.median, sample.max), (5, 1.0, 3.0, 10.0));
        assert_eq!((sample.mean, sample.stddev), (4.0, 10.0f64.sqrt()));
        assert!((sample.p99 - 9.76).abs() < 1e-9);
        assert_eq!(Sample::of([]), Sample::default());
        assert_eq!((quantile(&[], 0.5), quantile(&[1.0, 2.0], 0.5)), (None, Some(1.5)));
    }

    #[test]
    fn repetitions_have_a_spread() {
        let repeated = Repeated::of([100.0, 110.0, 90.0]);
        assert_eq!((repeated.median, repeated.times), (100.0, 3));
        assert!((repeated.spread() - 0.2).abs() < 1e-12);
        assert_eq!(Repeated::of([]).spread(), 0.0);
    }

    #[test]
    fn lateness_does_not_change_the_slope() {
        // Every third on time, the others late by what grows and shrinks.
        let late = |i: u32| if i.is_multiple_of(3) { 0.0 } else { f64::from(i * 7919 % 1000) };
        let points: Vec<(f64, f64)> =
            (0..1000).map(|i| (f64::from(i), 5.0 + 12.5 * f64::from(i) + late(i))).collect();
        let slope = lower_slope(&points).unwrap();
        assert!((slope - 12.5).abs() < 1e-9, "{slope}");
        // The last ones all late, by ever more: the middle counts.
        let bent: Vec<(f64, f64)> =
            points.iter().map(|&(x, y)| (x, if x > 900.0 { y + (x - 900.0) } else { y })).collect();
        assert!((lower_slope(&bent).unwrap() - 12.5).abs() < 1e-9);
        assert_eq!((lower_slope(&[]), lower_slope(&[(1.0, 2.0)])), (None, None));
        assert_eq!(lower_slope(&[(0.0, 1.0), (2.0, 5.0)]), Some(2.0));
    }

    #[test]
    fn losses_are_measured_in_deviations() {
        assert!((binomial_deviations(110, 1000, 0.1) - 10.0 / 90f64.sqrt()).abs() < 1e-12);
        assert_eq!(binomial_deviations(3, 1000, 0.0), 3.0);
    }
}
