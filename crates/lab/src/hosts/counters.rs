//! The counters of a flow: sums over its connections, and delays with their extremes and, if recorded, their distribution.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use warpline_core::counter::{Counter, Ratio};
use warpline_core::{TimeDelta, counters};
use warpline_transport::media::Watched;
use warpline_transport::tcp::Stats;

/// Count, sum and maximum of a kind of delay, with its distribution if that is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delays {
    pub(crate) count: u64,
    /// Sum in nanoseconds: 64 bits hold 1e9 packets of 18 s each.
    pub(crate) sum: u64,
    pub(crate) max: TimeDelta,
}

impl Delays {
    #[inline]
    pub(crate) fn add(&mut self, delay: TimeDelta) {
        self.count += 1;
        self.sum = self.sum.saturating_add(delay.as_nanos());
        self.max = self.max.max(delay);
    }
    pub(crate) fn reset_extremes(&mut self) {
        self.max = TimeDelta::ZERO;
    }
    /// Maximum in milliseconds of the delays after `before`, where the maximum was reset.
    pub(crate) fn max_ms_since(&self, before: &Delays) -> Option<f64> {
        (self.count > before.count).then(|| self.max.as_nanos() as f64 / 1e6)
    }
    /// Mean in milliseconds of the delays after `before`.
    pub(crate) fn mean_ms_since(&self, before: &Delays) -> Option<f64> {
        let count = self.count - before.count;
        (count > 0).then(|| self.sum.saturating_sub(before.sum) as f64 / count as f64 / 1e6)
    }
}

impl Counter for Delays {
    fn growth(&self, before: &Delays, ratio: Ratio) -> Delays {
        let (count, sum) = (self.count.growth(&before.count, ratio), self.sum.growth(&before.sum, ratio));
        Delays { count, sum, max: TimeDelta::ZERO }
    }
    fn merge(&mut self, more: &Delays) {
        self.count += more.count;
        self.sum = self.sum.saturating_add(more.sum);
        self.max = self.max.max(more.max);
    }
}

/// A distribution of delays from a microsecond up, accurate to 1 % (two significant digits). The histogram grows as needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub(crate) struct Distribution {
    /// Made with the first sample: most flows have none.
    histogram: Option<Box<Histogram<u32>>>,
}

/// A distribution as a message: values that stand for what has been recorded, and how often each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Recorded(Vec<(u64, u32)>);

impl From<Distribution> for Recorded {
    fn from(distribution: Distribution) -> Self {
        let Some(histogram) = distribution.histogram else { return Recorded::default() };
        let counts = histogram.iter_recorded();
        Recorded(counts.map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
    }
}

impl From<Recorded> for Distribution {
    fn from(Recorded(counts): Recorded) -> Self {
        let mut distribution = Distribution::default();
        for (value, count) in counts {
            distribution.record_n(value, count);
        }
        distribution
    }
}

impl Distribution {
    pub(crate) fn record(&mut self, delay: TimeDelta) {
        self.record_n(delay.as_micros().max(1), 1);
    }
    /// Records a value in microseconds several times.
    fn record_n(&mut self, micros: u64, count: u32) {
        if self.histogram.is_none() {
            self.histogram = Histogram::new(2).ok().map(Box::new);
        }
        if let Some(histogram) = &mut self.histogram {
            histogram.auto(true);
            // Not `saturating_record`, which clamps to the current range instead of growing. Growing fails only if memory
            // runs out; then the sample is left out.
            let _ = match count {
                1 => histogram.record(micros),
                many => histogram.record_n(micros, many),
            };
        }
    }
    /// The delay below which a share `q` of all samples lies, in milliseconds. It is the upper end of a step of the histogram, but no more than
    /// `largest`, the largest sample.
    pub(crate) fn quantile_ms(&self, q: f64, largest: Option<f64>) -> Option<f64> {
        let histogram = self.histogram.as_ref()?;
        let end = (!histogram.is_empty()).then(|| histogram.value_at_quantile(q) as f64 / 1e3)?;
        // Of what was skipped, no largest is known.
        Some(largest.filter(|&largest| largest > 0.0).map_or(end, |largest| end.min(largest)))
    }
}

impl Counter for Distribution {
    fn growth(&self, before: &Distribution, ratio: Ratio) -> Distribution {
        let mut grown = Distribution::default();
        let Some(present) = &self.histogram else { return grown };
        for step in present.iter_recorded() {
            let value = step.value_iterated_to();
            let earlier = before.histogram.as_ref().map_or(0, |before| before.count_at(value));
            let count = ratio.scale(u64::from(step.count_at_value().saturating_sub(earlier)));
            grown.record_n(value, u32::try_from(count).unwrap_or(u32::MAX));
        }
        grown
    }
    fn merge(&mut self, more: &Distribution) {
        match (&mut self.histogram, &more.histogram) {
            (_, None) => {}
            (Some(own), Some(more)) if !own.is_empty() => {
                own.auto(true);
                // Fails only if memory runs out, as above.
                let _ = own.add(&**more);
            }
            (own, Some(more)) => *own = Some(more.clone()),
        }
    }
}

/// Delays with their distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Messages {
    pub(crate) delays: Delays,
    pub(crate) distribution: Distribution,
}

impl Messages {
    pub(crate) fn add(&mut self, delay: TimeDelta) {
        self.delays.add(delay);
        self.distribution.record(delay);
    }
}

counters! {
    /// What became of the frames of a media stream.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct FrameTotals {
        counts {
            /// Frames sent, and frame times that have passed.
            pub(crate) sent: u64,
            pub(crate) ticks: u64,
            /// Sum of the target rate in bit/s at each frame time.
            pub(crate) target_sum: u64,
            pub(crate) watched: Watched,
            /// From a frame's capture to its being shown.
            pub(crate) delay: Delays,
            pub(crate) delays: Distribution,
        }
        state {}
    }
}

counters! {
    /// Sums over the connections of a flow.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct FlowTotals {
        counts {
            pub(crate) sent_packets: u64,
            pub(crate) sent_bytes: u64,
            pub(crate) retransmitted_packets: u64,
            pub(crate) delivered_bytes: u64,
            pub(crate) lost_packets: u64,
            pub(crate) rtos: u64,
            pub(crate) recoveries: u64,
            pub(crate) undos: u64,
            pub(crate) ce_marks: u64,
            pub(crate) rtt: Delays,
            pub(crate) rtt_min: Option<TimeDelta>,
            pub(crate) latency: Delays,
            pub(crate) latencies: Distribution,
            /// Of a media stream.
            pub(crate) frames: Option<Box<FrameTotals>>,
        }
        state {}
    }
}

impl FlowTotals {
    /// Adds the counters of the data's sender.
    pub(crate) fn add_sender(&mut self, stats: &Stats) {
        self.sent_packets += stats.segments_sent;
        self.sent_bytes += stats.bytes_sent;
        self.retransmitted_packets += stats.retransmitted_segments;
        self.lost_packets += stats.lost_segments;
        self.rtos += stats.rtos;
        self.recoveries += stats.recoveries;
        self.undos += stats.undos;
        self.rtt.merge(&Delays {
            count: stats.rtt_count,
            sum: stats.rtt_sum_ns,
            max: TimeDelta::from_nanos(stats.rtt_max_ns),
        });
        // The minimum is reset at the end of the warm-up, and there may be no sample since then.
        if stats.rtt_count > 0 && stats.rtt_min_ns != u64::MAX {
            let min = TimeDelta::from_nanos(stats.rtt_min_ns);
            self.rtt_min = Some(self.rtt_min.map_or(min, |known| known.min(min)));
        }
        self.latency.merge(&Delays {
            count: stats.latency_count,
            sum: stats.latency_sum_ns,
            max: TimeDelta::from_nanos(stats.latency_max_ns),
        });
    }
    /// Adds the counters of the data's receiver, and the bytes that it took in order: those that it passed over never came.
    pub(crate) fn add_receiver(&mut self, stats: &Stats, delivered: u64) {
        self.delivered_bytes += delivered.saturating_sub(stats.missing_bytes);
        self.ce_marks += stats.ce_marks;
    }
    pub(crate) fn reset_extremes(&mut self) {
        self.rtt.reset_extremes();
        self.latency.reset_extremes();
        self.rtt_min = None;
        self.latencies = Distribution::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_cover_only_the_measured_part() {
        let mut delays = Delays::default();
        delays.add(TimeDelta::from_millis(100));
        let before = delays.clone();
        delays.add(TimeDelta::from_millis(10));
        delays.add(TimeDelta::from_millis(20));
        assert_eq!(delays.mean_ms_since(&before), Some(15.0));
        assert_eq!(before.mean_ms_since(&before), None);
    }

    #[test]
    fn quantiles_are_accurate_to_a_hundredth() {
        let mut a = Distribution::default();
        for ms in 1..=1000 {
            a.record(TimeDelta::from_millis(ms));
        }
        let close = |q: f64, expected: f64| {
            let found = a.quantile_ms(q, None).unwrap();
            assert!((found / expected - 1.0).abs() < 0.02, "{q}: {found} instead of {expected}");
        };
        close(0.5, 500.0);
        close(0.95, 950.0);
        assert_eq!(a.quantile_ms(1.0, Some(999.5)), Some(999.5));
        assert_eq!(Distribution::default().quantile_ms(0.5, None), None);
    }

    #[test]
    fn a_distribution_sent_and_received_has_the_same_quantiles() {
        for most in [0u64, 1, 3, 1_000, 100_000_000] {
            let mut sent = Distribution::default();
            (0..most.min(1_000)).for_each(|n| sent.record(TimeDelta::from_micros(n * most / 1_000 + n)));
            let bytes = postcard::to_allocvec(&sent).unwrap();
            let received: Distribution = postcard::from_bytes(&bytes).unwrap();
            for q in [0.0, 0.01, 0.5, 0.95, 0.99, 1.0] {
                assert_eq!(received.quantile_ms(q, None), sent.quantile_ms(q, None));
            }
        }
    }
}
