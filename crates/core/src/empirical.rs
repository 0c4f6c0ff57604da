//! Empirical distributions: a few points of a published cumulative distribution, and straight lines between them.

use crate::Stream;

/// A distribution given by points of its cumulative distribution function. Between two points values are uniform, as the simulators of
/// the literature have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Empirical {
    /// Values and the shares of draws that are not above them; both rise from point to point, the shares from 0 to 1.
    points: &'static [(f64, f64)],
}

impl Empirical {
    /// Flow sizes in bytes of a cluster that answers web searches: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4, all
    /// flows. The points are those of the authors' traffic generator (`datacenter/empirical-traffic-gen`, `DCTCP_CDF`), which pFabric,
    /// HPCC and others take over.
    pub const WEB_SEARCH: Empirical = Empirical {
        points: &[
            (0.0, 0.0),
            (10e3, 0.15),
            (20e3, 0.2),
            (30e3, 0.3),
            (50e3, 0.4),
            (80e3, 0.53),
            (200e3, 0.6),
            (1e6, 0.7),
            (2e6, 0.8),
            (5e6, 0.9),
            (10e6, 0.97),
            (30e6, 1.0),
        ],
    };

    /// Flow sizes in bytes of a cluster that mines data: Greenberg et al., "VL2: A Scalable and Flexible Data Center Network", SIGCOMM 2009,
    /// figure 2. The points are those of the same traffic generator (`VL2_CDF`).
    pub const DATA_MINING: Empirical = Empirical {
        points: &[
            (0.0, 0.0),
            (180.0, 0.1),
            (216.0, 0.2),
            (560.0, 0.3),
            (900.0, 0.4),
            (1100.0, 0.5),
            (1870.0, 0.6),
            (3160.0, 0.7),
            (10e3, 0.8),
            (400e3, 0.9),
            (3.16e6, 0.95),
            (100e6, 0.98),
            (1e9, 1.0),
        ],
    };

    /// The mean: 1,711,250 bytes for web searches, 12.66 MB for data mining.
    pub fn mean(&self) -> f64 {
        self.points.windows(2).map(|ends| (ends[1].1 - ends[0].1) * (ends[0].0 + ends[1].0) / 2.0).sum()
    }

    /// A value.
    pub fn draw(&self, stream: &mut Stream) -> f64 {
        self.quantile(stream.uniform())
    }

    /// The value that a share of `part` of the draws, from 0 to 1, is not above.
    pub fn quantile(&self, part: f64) -> f64 {
        let above =
            self.points.partition_point(|&(_, share)| share <= part).min(self.points.len() - 1).max(1);
        let ((low, from), (high, to)) = (self.points[above - 1], self.points[above]);
        low + (high - low) * ((part - from) / (to - from)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Streams;

    #[test]
    fn the_points_rise_from_nothing_to_all() {
        for Empirical { points } in [Empirical::WEB_SEARCH, Empirical::DATA_MINING] {
            assert!(points.windows(2).all(|ends| ends[0].0 < ends[1].0 && ends[0].1 < ends[1].1));
            assert_eq!((points[0].1, points[points.len() - 1].1), (0.0, 1.0));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn draws_have_the_stated_mean_and_quantiles() {
        for (sizes, mean, tolerance) in
            [(Empirical::WEB_SEARCH, 1_711_250.0, 0.01), (Empirical::DATA_MINING, 12_658_198.6, 0.03)]
        {
            assert!((sizes.mean() - mean).abs() < 0.1, "{}", sizes.mean());
            let mut stream = Streams::new(3).stream("sizes");
            let drawn: Vec<f64> = (0..1_000_000).map(|_| sizes.draw(&mut stream)).collect();
            let found = drawn.iter().sum::<f64>() / drawn.len() as f64;
            assert!((found / mean - 1.0).abs() < tolerance, "{found} instead of {mean}");
            for part in [0.05, 0.25, 0.5, 0.8, 0.93, 0.99] {
                let found = drawn.iter().filter(|&&value| value <= sizes.quantile(part)).count() as f64 / 1e6;
                assert!((found - part).abs() < 0.002, "{part}: {found}");
            }
        }
        assert_eq!(Empirical::WEB_SEARCH.quantile(0.53), 80e3);
        assert_eq!(Empirical::WEB_SEARCH.quantile(1.0), 30e6);
    }
}
