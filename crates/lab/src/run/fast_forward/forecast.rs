//! From equal windows of the past to a longer stretch of the future: how far off its mean may be.

use warpline_results::metrics::student_t_975;

/// Half the width of the 95 % interval in which the mean of the next `ahead` windows lies, if they go on as those of `series` did: Student's
/// prediction interval. Neighbouring windows may depend on each other, for example because a sawtooth is longer than one. So it is also
/// made of means of two and of four windows, and the widest counts. At least eight windows are needed.
pub(super) fn half_width(series: &[f64], ahead: f64) -> f64 {
    let of_batches = |size: usize| {
        // The newest windows, if some are left over.
        let batches = series.rchunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64);
        let batches: Vec<f64> = batches.collect();
        let n = batches.len();
        if n < 2 {
            return f64::INFINITY;
        }
        let mean = mean(&batches);
        let squares: f64 = batches.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = (squares / (n - 1) as f64).sqrt();
        let ahead = (ahead / size as f64).max(1.0);
        student_t_975(n as u64 - 1) * deviation * (1.0 / n as f64 + 1.0 / ahead).sqrt()
    };
    [1, 2, 4].into_iter().map(of_batches).fold(0.0, f64::max)
}

/// The arithmetic mean; zero of nothing.
pub(super) fn mean(series: &[f64]) -> f64 {
    if series.is_empty() { 0.0 } else { series.iter().sum::<f64>() / series.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    #[test]
    fn nineteen_of_twenty_futures_lie_within() {
        let mut stream = Streams::new(1).stream("test");
        let mut outside = 0;
        for _ in 0..2_000 {
            let mut draw =
                |count: usize| -> Vec<f64> { (0..count).map(|_| stream.normal(10.0, 1.0)).collect() };
            let (past, future) = (draw(16), draw(16));
            outside += u32::from((mean(&past) - mean(&future)).abs() > half_width(&past, 16.0));
        }
        // The widest of three intervals is wider than 95 % needs.
        assert!((4..100).contains(&outside), "{outside} of 2000");
    }

    #[test]
    fn slow_waves_are_not_taken_for_steady() {
        // Each value four times: sixteen windows tell as little as four.
        let mut stream = Streams::new(2).stream("test");
        let mut outside = 0;
        for _ in 0..1_000 {
            let mut draw =
                || -> Vec<f64> { (0..4).flat_map(|_| [stream.normal(10.0, 1.0)].repeat(4)).collect() };
            let (past, future) = (draw(), draw());
            outside += u32::from((mean(&past) - mean(&future)).abs() > half_width(&past, 16.0));
        }
        assert!(outside < 80, "{outside} of 1000");
        assert_eq!(half_width(&[5.0; 16], 4.0), 0.0);
        assert!(half_width(&[5.0; 7], 4.0).is_infinite());
    }
}
