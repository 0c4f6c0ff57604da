//! Time as the run's hosts perceive it: instants, spans, and the clock that makes the run wait for them.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

use crate::shown::display;

/// An instant, in nanoseconds since the run's start.
///
/// 64 bits reach 584 years. [`Timestamp::NEVER`] stands for "no deadline" and sorts after every real instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(u64);

/// A span of time, in nanoseconds; never negative.
///
/// A plain 64-bit integer: `std::time::Duration` is two fields with carries between them, which the event path would pay
/// for on every addition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TimeDelta(u64);

impl Timestamp {
    /// The run's start.
    pub const ZERO: Timestamp = Timestamp(0);
    /// No deadline: later than every instant.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Timestamp(nanos)
    }
    /// The instant `millis` milliseconds after the start; [`Timestamp::NEVER`] beyond 584 years.
    pub const fn from_millis(millis: u64) -> Self {
        Timestamp(millis.saturating_mul(1_000_000))
    }
    /// The instant `secs` seconds after the start; [`Timestamp::NEVER`] beyond 584 years.
    pub const fn from_secs(secs: u64) -> Self {
        Timestamp(secs.saturating_mul(1_000_000_000))
    }
    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Microseconds since the start, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Milliseconds since the start, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Whether this is a real instant and not [`Timestamp::NEVER`].
    pub const fn is_set(self) -> bool {
        self.0 != u64::MAX
    }
    /// The span since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Timestamp) -> TimeDelta {
        TimeDelta(self.0.saturating_sub(earlier.0))
    }
    /// The instant `span` earlier, not before the start.
    pub const fn saturating_sub(self, span: TimeDelta) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.0))
    }
}

impl TimeDelta {
    /// No time at all.
    pub const ZERO: TimeDelta = TimeDelta(0);
    /// The longest span.
    pub const MAX: TimeDelta = TimeDelta(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        TimeDelta(nanos)
    }
    /// A span of `micros` microseconds; the longest span beyond 584 years.
    pub const fn from_micros(micros: u64) -> Self {
        TimeDelta(micros.saturating_mul(1_000))
    }
    /// A span of `millis` milliseconds; the longest span beyond 584 years.
    pub const fn from_millis(millis: u64) -> Self {
        TimeDelta(millis.saturating_mul(1_000_000))
    }
    /// A span of `secs` seconds; the longest span beyond 584 years.
    pub const fn from_secs(secs: u64) -> Self {
        TimeDelta(secs.saturating_mul(1_000_000_000))
    }
    /// A span of `secs` seconds, to the nearest nanosecond; negative and not-a-number give zero, too large gives the
    /// longest span.
    pub fn from_secs_f64(secs: f64) -> Self {
        TimeDelta((secs * 1e9).round() as u64)
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Whether the span is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The difference; zero if `other` is longer.
    pub const fn saturating_sub(self, other: TimeDelta) -> TimeDelta {
        TimeDelta(self.0.saturating_sub(other.0))
    }
    /// The product; the longest span if it does not fit.
    pub const fn saturating_mul(self, factor: u64) -> TimeDelta {
        TimeDelta(self.0.saturating_mul(factor))
    }
    /// The span scaled by a non-negative factor, to the nearest nanosecond.
    pub fn mul_f64(self, factor: f64) -> TimeDelta {
        TimeDelta((self.0 as f64 * factor).round() as u64)
    }
}

impl Add<TimeDelta> for Timestamp {
    type Output = Timestamp;
    /// Saturates at [`Timestamp::NEVER`].
    fn add(self, span: TimeDelta) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}
impl AddAssign<TimeDelta> for Timestamp {
    fn add_assign(&mut self, span: TimeDelta) {
        *self = *self + span;
    }
}
impl Sub for Timestamp {
    type Output = TimeDelta;
    /// The span since `earlier`, which must not be later: as with integers, a debug build panics then. Where it may be later, use
    /// [`saturating_since`](Timestamp::saturating_since).
    fn sub(self, earlier: Timestamp) -> TimeDelta {
        debug_assert!(earlier.0 <= self.0, "{earlier} is after {self}");
        TimeDelta(self.0.wrapping_sub(earlier.0))
    }
}
impl Add for TimeDelta {
    type Output = TimeDelta;
    fn add(self, other: TimeDelta) -> TimeDelta {
        TimeDelta(self.0.saturating_add(other.0))
    }
}
impl AddAssign for TimeDelta {
    fn add_assign(&mut self, other: TimeDelta) {
        *self = *self + other;
    }
}
impl Sub for TimeDelta {
    type Output = TimeDelta;
    /// The difference from `other`, which must not be longer: as with integers, a debug build panics then. Where it may be longer, use
    /// [`saturating_sub`](TimeDelta::saturating_sub).
    fn sub(self, other: TimeDelta) -> TimeDelta {
        debug_assert!(other.0 <= self.0, "{other} is longer than {self}");
        TimeDelta(self.0.wrapping_sub(other.0))
    }
}
impl Mul<u64> for TimeDelta {
    type Output = TimeDelta;
    fn mul(self, factor: u64) -> TimeDelta {
        self.saturating_mul(factor)
    }
}
impl Div<u64> for TimeDelta {
    type Output = TimeDelta;
    fn div(self, divisor: u64) -> TimeDelta {
        TimeDelta(self.0 / divisor)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_set() {
            write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
        } else {
            f.write_str("never")
        }
    }
}
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for TimeDelta {
    /// The form that is also read back: the largest unit that needs at most three decimals, else "ns". The alternate form,
    /// `{:#}`, has a space before the unit, for sentences: "200 ms".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        display(f, self.0, &UNITS, if self.0 == 0 { "s" } else { "ns" })
    }
}
impl fmt::Debug for TimeDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why a [`Clock`] stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The deadline has come.
    Reached,
    /// Something arrived from outside (a live packet, a signal) before the deadline.
    Interrupted,
}

/// Makes a run wait: a virtual clock jumps, a real one sleeps, a dilated one sleeps TDF times as long.
///
/// The driver never assumes that time jumps: it asks for a deadline and works with whatever `now` is afterwards, which
/// under a real clock is a little later, or earlier if the outside interrupted.
pub trait Clock {
    /// The current time, as the hosts perceive it.
    fn now(&self) -> Timestamp;
    /// Waits until `deadline` or until something arrives from outside, whichever is first.
    fn wait_until(&mut self, deadline: Timestamp) -> Wake;
    /// The instant, `limit` at most, up to which events may be handled without waiting: the current time under a clock that
    /// really passes, `limit` itself under one that jumps.
    fn horizon(&mut self, limit: Timestamp) -> Timestamp {
        self.now().min(limit)
    }
}

/// The simulator's clock: waiting takes no time at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualClock {
    now: Timestamp,
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.now
    }
    fn wait_until(&mut self, deadline: Timestamp) -> Wake {
        self.now = self.now.max(deadline);
        Wake::Reached
    }
    fn horizon(&mut self, limit: Timestamp) -> Timestamp {
        self.now = self.now.max(limit);
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_sorts_last_and_survives_addition() {
        assert!(Timestamp::from_secs(1 << 33) < Timestamp::NEVER);
        assert_eq!(Timestamp::NEVER + TimeDelta::from_secs(1), Timestamp::NEVER);
        assert!(!Timestamp::NEVER.is_set());
    }

    #[test]
    fn what_does_not_fit_is_the_end_of_time() {
        for many in [u64::MAX, u64::MAX / 1_000 + 1] {
            assert_eq!([Timestamp::from_secs(many), Timestamp::from_millis(many)], [Timestamp::NEVER; 2]);
            let spans =
                [TimeDelta::from_secs(many), TimeDelta::from_millis(many), TimeDelta::from_micros(many)];
            assert_eq!(spans, [TimeDelta::MAX; 3]);
        }
    }

    #[test]
    fn spans_print_as_people_write_them() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5us"),
            (50_000_000, "50ms"),
            (1_500_000_000, "1.5s"),
            (1_000_000_001, "1000000.001us"),
            (9_007_199_254_740_993, "9007199254740.993us"),
            (u64::MAX, "18446744073709551.615us"),
        ] {
            assert_eq!(TimeDelta::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn the_virtual_clock_jumps_and_never_goes_back() {
        let mut clock = VirtualClock::default();
        assert_eq!(clock.wait_until(Timestamp::from_secs(9)), Wake::Reached);
        clock.wait_until(Timestamp::from_secs(3));
        assert_eq!(clock.now(), Timestamp::from_secs(9));
    }
}
