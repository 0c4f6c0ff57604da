//! A satellite in low earth orbit, which is another one every 15 seconds, as Starlink's.
//!
//! Sources: H. B. Tanveer et al., "Making Sense of Constellations", CoNEXT Companion 2023: latency changes at the seconds 12, 27, 42 and 57 of each minute, at all places measured and
//! at low load, too, and what follows differs from what was before. N. Mohan et al., "A Multifaceted Look at Starlink Performance", WWW 2024: the
//! intervals are the same for all terminals, and throughput changes with them. Casparsen et al., "Statistical Characterization and Prediction of E2E
//! Latency over LEO Satellite Networks", arXiv 2601.08439: latency is higher in the first 140 ms and the last 75 ms of an interval, by 74 ms in the mean.
//!
//! Departures: how rates and delays are distributed is not in these papers in a form to copy. Here both are drawn anew for each interval, evenly between two bounds and
//! independently of each other and of those before; within an interval they stay as they are. After 4096 intervals the draws repeat.

use warpline_core::parameter::Parameters;
use warpline_core::{Rate, Stream, TimeDelta};

use super::{Drawn, Radio};
use crate::link::RateConfig;
use crate::schedule::{RateSchedule, Steps};

/// Most intervals that are drawn.
const MOST: u64 = 4096;

/// A satellite in low earth orbit, as Starlink's: rate and delay change when a terminal gets another satellite.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("leo")]
pub struct Leo {
    /// Least rate of an interval.
    #[parameter(default = Rate::from_bps(50_000_000), above = Rate::from_bps(0), not_above = "max_rate", required)]
    pub min_rate: Rate,
    /// Largest rate of an interval.
    #[parameter(default = Rate::from_bps(200_000_000), required)]
    pub max_rate: Rate,
    /// Least one-way delay of an interval, in addition to the link's `delay`.
    #[parameter(default = TimeDelta::from_millis(10), not_above = "max_delay")]
    pub min_delay: TimeDelta,
    /// Largest one-way delay of an interval, in addition to the link's `delay`. The defaults give round trips of 20 to 50 ms.
    #[parameter(default = TimeDelta::from_millis(25))]
    pub max_delay: TimeDelta,
    /// How long an interval is.
    #[parameter(default = TimeDelta::from_secs(15), min = TimeDelta::from_millis(1))]
    pub interval: TimeDelta,
    /// When the first interval ends. Starlink's intervals end at the seconds 12, 27, 42 and 57 of a minute: with 12s, the run begins at the start of
    /// a minute.
    #[parameter(default = TimeDelta::from_secs(12))]
    pub first: TimeDelta,
    /// By how much the delay is longer at both ends of an interval.
    #[parameter(default = TimeDelta::from_millis(74))]
    pub spike: TimeDelta,
    /// How long the delay is longer by `spike` at the beginning of an interval.
    #[parameter(default = TimeDelta::from_millis(140))]
    pub after: TimeDelta,
    /// How long the delay is longer by `spike` at the end of an interval.
    #[parameter(default = TimeDelta::from_millis(75))]
    pub before: TimeDelta,
}

impl Radio for Leo {
    fn draw(&self, span: TimeDelta, mut stream: Stream) -> Drawn {
        let interval = self.interval.max(TimeDelta::from_millis(1));
        // The end of the interval that the run begins in.
        let first = TimeDelta::from_nanos(self.first.as_nanos() % interval.as_nanos());
        let first = if first.is_zero() { interval } else { first };
        let count = span.saturating_sub(first).as_nanos().div_ceil(interval.as_nanos());
        let more = count.min(MOST - 1);
        let (least, most) = (self.min_rate.as_bps() as f64, self.max_rate.as_bps() as f64);
        let (near, far) = (self.min_delay, self.max_delay.max(self.min_delay));
        let mut draw = || {
            let rate = stream.range(least, most.max(least));
            let extra = stream.range(0.0, (far - near).as_secs_f64());
            (Rate::from_bps(rate as u64), TimeDelta::from_secs_f64(extra))
        };
        let (mut rates, mut delays) = (Vec::new(), Vec::new());
        let mut begin = TimeDelta::ZERO;
        for number in 0..=more {
            let end = first + TimeDelta::from_nanos(interval.as_nanos().saturating_mul(number));
            let (rate, extra) = draw();
            rates.push((begin, rate));
            // The first interval has begun before the run, unless it is a whole one: so much of the spike of its beginning is over.
            let passed = if begin.is_zero() { interval - first } else { TimeDelta::ZERO };
            let after = self.after.saturating_sub(passed);
            // Where the two spikes of a short interval meet, or the run begins within the second one, its own delay is never in force.
            let (calm, rough) = ((begin + after).min(end), end.saturating_sub(self.before));
            delays.push((begin, extra + self.spike));
            if calm < rough {
                delays.push((calm, extra));
            }
            if calm < rough && rough < end {
                delays.push((rough, extra + self.spike));
            }
            begin = end;
        }
        let period = (count >= MOST).then_some(begin);
        // A spike that lasts no time.
        delays.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        let initial = (rates[0].1, delays[0].1);
        let rate = Steps::new(initial.0, &rates[1..], period).map(RateSchedule::new);
        let rate = rate.map_or(RateConfig::Constant(initial.0), RateConfig::Scheduled);
        Drawn { rate, delay: near, detour: Steps::new(initial.1, &delays[1..], period).ok() }
    }

    fn words(&self) -> String {
        format!("low earth orbit at {} to {}", self.min_rate, self.max_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{Streams, Timestamp};

    fn drawn(leo: Leo, seconds: u64) -> (RateSchedule, Steps<TimeDelta>) {
        let drawn = leo.draw(TimeDelta::from_secs(seconds), Streams::new(3).stream("link.a>b.radio"));
        assert_eq!(drawn.delay, leo.min_delay);
        let RateConfig::Scheduled(rate) = drawn.rate else { panic!("{drawn:?}") };
        (rate, drawn.detour.unwrap())
    }

    #[test]
    fn another_satellite_comes_at_the_seconds_12_27_42_and_57() {
        let (rate, delay) = drawn(Leo::default(), 600);
        let mut changes = Vec::new();
        let mut at = Timestamp::ZERO;
        while changes.len() < 8 {
            at = rate.next_change(at);
            changes.push(at.as_nanos());
        }
        assert_eq!(changes, [12, 27, 42, 57, 72, 87, 102, 117].map(|second| second * 1_000_000_000));
        // The delay of an interval is in force between its two spikes.
        let at = |millis| delay.at(Timestamp::from_millis(millis));
        let spike = TimeDelta::from_millis(74);
        assert_eq!([at(12_139), at(26_925), at(26_999)], [at(12_140) + spike; 3]);
        assert_eq!(at(12_140), at(26_924));
        assert_ne!(at(26_924), at(27_140));
        assert_eq!((at(0), at(11_925)), (at(140), at(140) + spike), "the run begins within an interval");
        let (_, calm) = drawn(Leo { after: TimeDelta::ZERO, before: TimeDelta::ZERO, ..Leo::default() }, 600);
        assert_eq!(calm.next_change(Timestamp::ZERO), Timestamp::from_secs(12));
        assert!((0..600).all(|second| calm.at(Timestamp::from_secs(second)) <= TimeDelta::from_millis(15)));
    }

    #[test]
    fn a_run_that_begins_near_an_end_of_an_interval_has_the_spike_of_that_end() {
        let with = |first| drawn(Leo { first: TimeDelta::from_millis(first), ..Leo::default() }, 600).1;
        let at = |delay: &Steps<TimeDelta>, millis| delay.at(Timestamp::from_millis(millis));
        let late = with(100);
        // The first draw is the same, whenever the interval ends.
        let (calm, rough) = (at(&late, 0), at(&late, 0) + Leo::default().spike);
        assert_eq!([24, 25, 99].map(|millis| at(&late, millis)), [calm, rough, rough]);
        // Wholly within the spike of the end.
        for first in [50, 75] {
            let later = with(first);
            assert_eq!([0, first - 1].map(|millis| at(&later, millis)), [rough; 2], "{first}");
        }
        // Within that of the beginning, of which 90 ms are left.
        let early = with(14_950);
        assert_eq!(
            [0, 89, 90, 14_874, 14_875].map(|millis| at(&early, millis)),
            [rough, rough, calm, calm, rough]
        );
    }

    #[test]
    fn rates_and_delays_lie_evenly_between_their_bounds() {
        let leo = Leo { spike: TimeDelta::ZERO, ..Leo::default() };
        let (rate, delay) = drawn(leo, 45_000);
        let middles = (0..3000).map(|number| Timestamp::from_secs(12 + 7 + 15 * number));
        let (rates, delays): (Vec<f64>, Vec<f64>) = middles
            .map(|at| (rate.rate_at(at).as_bps() as f64 / 1e6, delay.at(at).as_secs_f64() * 1e3))
            .unzip();
        assert!(rates.iter().all(|rate| (50.0..=200.0).contains(rate)));
        assert!(delays.iter().all(|delay| (0.0..=15.0).contains(delay)));
        // Even draws between a and b have a standard deviation of (b - a) / sqrt(12).
        let near = |values: &[f64], mean: f64, width: f64| {
            let found = values.iter().sum::<f64>() / values.len() as f64;
            assert!((found - mean).abs() < 4.0 * width / (12.0 * values.len() as f64).sqrt(), "{found}");
        };
        near(&rates, 125.0, 150.0);
        near(&delays, 7.5, 15.0);
    }

    #[test]
    fn a_long_run_repeats_its_draws_and_a_short_interval_has_only_its_spike() {
        let (rate, _) = drawn(Leo::default(), 200_000);
        let period = 12 + 15 * (MOST - 1);
        assert_eq!(rate.rate_at(Timestamp::from_secs(5)), rate.rate_at(Timestamp::from_secs(5 + period)));
        let short = Leo { interval: TimeDelta::from_millis(100), first: TimeDelta::ZERO, ..Leo::default() };
        let (_, delay) = drawn(short, 10);
        assert!((0..9_000).all(|ms| delay.at(Timestamp::from_millis(ms)) >= TimeDelta::from_millis(74)));
    }
}
