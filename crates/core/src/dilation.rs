//! Dilated time: conversion between the machine's clock and the run's, without drift (Gupta et al., "To infinity and beyond: time-warped
//! network emulation", NSDI 2006).
//!
//! Instants are computed from the start of their line, with 128-bit intermediate values: rounding errors never add up.
//! `native/clockshim/ratio.c` does the same for the guests' kernels.

use std::fmt;

const BILLION: u64 = 1_000_000_000;

/// A time dilation factor: seconds of the machine in one second of the run. Exact to a billionth, above 0, fractions included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tdf(u64);

impl Tdf {
    /// The factors that there are, in words.
    pub const ALLOWED: &'static str = "from a billionth to a million";
    /// No dilation.
    pub const REAL: Tdf = Tdf(BILLION);
    /// Almost standing still: a microsecond in a second.
    pub const STILL: Tdf = Tdf(1_000_000 * BILLION);

    /// The representable factor nearest to `factor`; `None` if that is not [allowed](Self::ALLOWED).
    pub fn new(factor: f64) -> Option<Self> {
        let billionths = (factor * 1e9).round();
        (1.0..=1e15).contains(&billionths).then_some(Tdf(billionths as u64))
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In billionths.
    pub const fn billionths(self) -> u64 {
        self.0
    }

    /// The run's time that passes in this many nanoseconds of the machine, rounded down.
    #[inline]
    pub fn to_run(self, host: u64) -> u64 {
        if self.0 == BILLION {
            return host;
        }
        (u128::from(host) * u128::from(BILLION) / u128::from(self.0)).min(u128::from(u64::MAX)) as u64
    }

    /// The machine's time in which this many nanoseconds of the run pass, rounded up.
    #[inline]
    pub fn to_host(self, run: u64) -> u64 {
        if self.0 == BILLION {
            return run;
        }
        (u128::from(run) * u128::from(self.0)).div_ceil(u128::from(BILLION)).min(u128::from(u64::MAX)) as u64
    }
}

impl fmt::Display for Tdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

/// A stretch of time with a constant factor. Instants are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it begins, on the machine's `CLOCK_MONOTONIC`.
    pub host: u64,
    /// The run's time there.
    pub run: u64,
    /// The factor.
    pub tdf: Tdf,
}

impl Line {
    /// The run's time at a time of the machine; before the line's beginning, the value at its beginning.
    #[inline]
    pub fn at(&self, host: u64) -> u64 {
        self.run.saturating_add(self.tdf.to_run(host.saturating_sub(self.host)))
    }

    /// The machine's time at which a time of the run comes; before the line's beginning, the value at its beginning. Saturates.
    #[inline]
    pub fn host_of(&self, run: u64) -> u64 {
        self.host.saturating_add(self.tdf.to_host(run.saturating_sub(self.run)))
    }
}

/// The relation of a run's time to the machine's: a line, and the next one if a change has been announced. Continuous and never
/// backwards: a change begins where the previous line ends, and is known before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The current line, or the one before the announced change.
    pub current: Line,
    /// The line after it.
    pub next: Option<Line>,
}

impl Pace {
    /// Time that is zero at an instant of the machine, and runs with this factor.
    pub fn new(host: u64, tdf: Tdf) -> Self {
        Pace { current: Line { host, run: 0, tdf }, next: None }
    }

    /// The line at an instant of the machine.
    #[inline]
    pub fn line(&self, host: u64) -> &Line {
        match &self.next {
            Some(next) if host >= next.host => next,
            _ => &self.current,
        }
    }

    /// The run's time at an instant of the machine.
    #[inline]
    pub fn at(&self, host: u64) -> u64 {
        self.line(host).at(host)
    }

    /// The machine's time at which a time of the run comes.
    #[inline]
    pub fn host_of(&self, run: u64) -> u64 {
        match &self.next {
            Some(next) if run >= next.run => next.host_of(run),
            _ => self.current.host_of(run),
        }
    }

    /// Announces a change of the factor at an instant of the machine, not before the previous change. An earlier announcement
    /// takes effect at its own instant.
    pub fn change(&mut self, host: u64, tdf: Tdf) {
        let current = *self.line(host);
        let host = host.max(current.host);
        self.next = Some(Line { host, run: current.at(host), tdf });
        self.current = current;
    }
}

/// The clock of a host beside the run's: both begin at zero at the same instant of the machine. A host without a factor of its own has the
/// run's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The factors of the run and of the host, if they may differ.
    factors: Option<(Tdf, Tdf)>,
}

impl Clocks {
    /// A host with the factor `own` in a run with the factor `run`. Neither changes before the run is over.
    pub fn new(run: Tdf, own: Tdf) -> Self {
        Clocks { factors: Some((run, own)) }
    }

    /// The host's own factor, if it has one.
    pub fn own(&self) -> Option<Tdf> {
        self.factors.map(|(_, own)| own)
    }

    /// The host's factor in a run that has the factor `run` at present.
    pub fn own_tdf(&self, run: Tdf) -> Tdf {
        self.factors.map_or(run, |(_, own)| own)
    }

    /// The host's time at a time of the run, in nanoseconds, rounded down.
    #[inline]
    pub fn to_own(&self, run: u64) -> u64 {
        self.factors.map_or(run, |(factor, own)| scale(run, factor, own))
    }

    /// The run's time at a time of the host, in nanoseconds, rounded down.
    #[inline]
    pub fn to_run(&self, own: u64) -> u64 {
        self.factors.map_or(own, |(factor, host)| scale(own, host, factor))
    }

    /// The relation of the host's time to the machine's in a run with this pace. The only change of a run whose hosts have factors of their own
    /// is at its end: from then on no host is slower than the machine.
    pub fn pace(&self, run: &Pace) -> Pace {
        let Some((_, own)) = self.factors else { return *run };
        let Line { host, run: at, .. } = run.current;
        let current = Line { host, run: self.to_own(at), tdf: own };
        let end = |next: Line| Line { host: next.host, run: current.at(next.host), tdf: own.min(Tdf::REAL) };
        Pace { current, next: run.next.map(end) }
    }
}

/// A span by one clock in nanoseconds of another, rounded down; each clock has its factor.
#[inline]
fn scale(span: u64, from: Tdf, to: Tdf) -> u64 {
    if from == to {
        return span;
    }
    (u128::from(span) * u128::from(from.0) / u128::from(to.0)).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn there_and_back_is_no_further_than_a_nanosecond(factor in 1e-6f64..1e6, run in 0u64..1 << 42) {
            let tdf = Tdf::new(factor).unwrap();
            let host = tdf.to_host(run);
            prop_assert!(tdf.to_run(host) >= run);
            prop_assert!(host == 0 || tdf.to_run(host - 1) <= run);
        }

        #[test]
        fn time_goes_on_over_changes_and_never_back(
            factors in prop::collection::vec((0.001f64..2000.0, 0u64..1 << 36), 1..8), step in 1u64..1 << 30,
        ) {
            let mut pace = Pace::new(1000, Tdf::REAL);
            let (mut at, mut last) = (0, 0);
            for (factor, after) in factors {
                let host = at + after;
                pace.change(host, Tdf::new(factor).unwrap());
                let change = pace.next.unwrap();
                // Both lines meet there.
                prop_assert_eq!(change.run, pace.current.at(change.host));
                for _ in 0..40 {
                    at += step;
                    let now = pace.at(at);
                    prop_assert!(now >= last);
                    last = now;
                    prop_assert!(pace.at(pace.host_of(now)) >= now);
                }
                at = at.max(host);
            }
        }
    }

    #[test]
    fn a_host_with_a_factor_of_its_own_has_a_clock_of_its_own() {
        let tdf = |factor| Tdf::new(factor).unwrap();
        let clocks = Clocks::new(tdf(10.0), tdf(4.0));
        // In ten seconds of the machine, one second of the run passes and two and a half of the host.
        assert_eq!(
            (clocks.to_own(1_000_000_000), clocks.to_run(2_500_000_000)),
            (2_500_000_000, 1_000_000_000)
        );
        assert_eq!(clocks.own_tdf(tdf(10.0)), tdf(4.0));
        let mut pace = Pace::new(500, tdf(10.0));
        let own = clocks.pace(&pace);
        assert_eq!((own.at(500), own.at(500 + 40_000)), (0, 10_000));
        // At the end of the run both go by the machine's clock, and neither jumps.
        pace.change(500 + 40_000, Tdf::REAL);
        let own = clocks.pace(&pace);
        assert_eq!((own.at(500 + 40_000), own.at(500 + 40_007)), (10_000, 10_007));
        // Another host has the run's clock.
        assert_eq!(Clocks::default().pace(&pace), pace);
        assert_eq!(Clocks::default().own_tdf(tdf(3.0)), tdf(3.0));
    }

    #[test]
    fn factors_are_exact_decimals() {
        let tdf = Tdf::new(2.5).unwrap();
        assert_eq!((tdf.to_run(10), tdf.to_host(4)), (4, 10));
        assert_eq!(Tdf::new(0.1).unwrap().to_run(1), 10);
        assert_eq!(Tdf::new(33.3).unwrap().to_string(), "33.3");
        // A year at a third: not a nanosecond is lost.
        assert_eq!(Tdf::new(3.0).unwrap().to_run(3 * 31_557_600_000_000_000), 31_557_600_000_000_000);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-10, 1e7] {
            assert_eq!(Tdf::new(wrong), None, "{wrong}");
        }
    }
}
