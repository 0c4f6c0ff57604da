//! Dilated time: a guest whose clock goes TDF times slower than the machine's (Gupta et al., "To infinity and beyond: time-warped
//! network emulation", NSDI 2006), so that the world around it seems TDF times faster.
//!
//! A guest boots in real time. When all are ready they are set, together, to the run's start ([`begin`]); from then on their clock is
//! a straight line, whose slope may be changed while they run ([`change`]).

use std::fmt;
use std::sync::atomic::{Ordering, fence};

use nix::sys::signal::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::error::GuestError;
use crate::machine::{Machine, START};
use crate::page::Page;

const BILLION: u128 = 1_000_000_000;

/// A time dilation factor: seconds of the machine in one second of the guest. Exact to a billionth, above 0, whole or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tdf(u64);

impl Tdf {
    /// No dilation.
    pub const REAL: Tdf = Tdf(1_000_000_000);

    /// The nearest to `factor` that there is; none if it is not above 0, or beyond a million.
    pub fn new(factor: f64) -> Option<Self> {
        let billionths = (factor * 1e9).round();
        (1.0..=1e15).contains(&billionths).then_some(Tdf(billionths as u64))
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The guest's time that passes in so many nanoseconds of the machine, rounded down.
    pub fn to_guest(self, host: u64) -> u64 {
        (u128::from(host) * BILLION / u128::from(self.0)).min(u128::from(u64::MAX)) as u64
    }

    /// The machine's time in which so many nanoseconds of the guest have passed, rounded up.
    pub fn to_host(self, guest: u64) -> u64 {
        (u128::from(guest) * u128::from(self.0)).div_ceil(BILLION).min(u128::from(u64::MAX)) as u64
    }
}

impl fmt::Display for Tdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

/// The machine's `CLOCK_MONOTONIC` in nanoseconds.
pub fn host_now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes the line that a guest's clock follows from now on. The guest may read it at any time: an odd sequence tells it to
/// look again.
pub(crate) fn write_segment(page: &Page, host: u64, guest: u64, tdf: Tdf) {
    let sequence = page.sequence.load(Ordering::Relaxed);
    page.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::Release);
    for (field, value) in page.segment.iter().zip([host, guest, tdf.0]) {
        field.store(value, Ordering::Relaxed);
    }
    page.sequence.store(sequence.wrapping_add(2), Ordering::Release);
}

/// Sets the clocks of guests that are ready to the run's start: it is when the machine's `CLOCK_MONOTONIC` shows `host`, which
/// should be soon.
pub fn begin<'a>(machines: impl IntoIterator<Item = &'a Machine>, host: u64, tdf: Tdf) {
    for machine in machines {
        write_segment(&machine.page, host, START, tdf);
        kick(machine);
    }
}

/// Changes the factor while the guests run: from the instant `host` of the machine, at which the run's time is `at` nanoseconds.
pub fn change<'a>(machines: impl IntoIterator<Item = &'a Machine>, host: u64, at: u64, tdf: Tdf) {
    for machine in machines {
        write_segment(&machine.page, host, START + at, tdf);
        kick(machine);
    }
}

/// Has a guest look at its timers: they were set on the machine for the line before.
fn kick(machine: &Machine) {
    machine.signal(Signal::SIGALRM);
}

impl Machine {
    /// Waits until the hosts of a guest that is not in lock-step are set up, up to `patience` seconds.
    ///
    /// # Errors
    /// If it ends before, or takes longer.
    pub fn wait_ready(&mut self, patience: u64) -> Result<(), GuestError> {
        let begun = host_now();
        while !self.is_ready() {
            if !self.is_alive() {
                return Err(self.post_mortem());
            }
            let seconds = (host_now() - begun) / 1_000_000_000;
            if seconds >= patience {
                let (name, console) = (self.name().to_owned(), self.console_tail());
                return Err(GuestError::Hung { name, seconds, console });
            }
            pause();
        }
        Ok(())
    }

    /// Waits until a guest that is not in lock-step has powered itself off, up to `patience` seconds. Whether it has.
    pub fn wait_end(&mut self, patience: u64) -> bool {
        let begun = host_now();
        while self.is_alive() {
            if host_now() - begun > patience * 1_000_000_000 {
                return false;
            }
            pause();
        }
        true
    }
}

/// A moment, in which a guest can do something.
fn pause() {
    let moment = rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let _ = rustix::event::poll(&mut [], Some(&moment));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn there_and_back_is_no_further_than_a_nanosecond(factor in 1e-6f64..1e6, guest in 0u64..1 << 42) {
            let tdf = Tdf::new(factor).unwrap();
            let host = tdf.to_host(guest);
            prop_assert!(tdf.to_guest(host) >= guest);
            prop_assert!(host == 0 || tdf.to_guest(host - 1) <= guest);
        }
    }

    #[test]
    fn factors_are_exact_decimals() {
        let tdf = Tdf::new(2.5).unwrap();
        assert_eq!((tdf.to_guest(10), tdf.to_host(4)), (4, 10));
        assert_eq!(Tdf::new(0.1).unwrap().to_guest(1), 10);
        assert_eq!(Tdf::new(33.3).unwrap().to_string(), "33.3");
        // A year at a third: not a nanosecond is lost.
        assert_eq!(Tdf::new(3.0).unwrap().to_guest(3 * 31_557_600_000_000_000), 31_557_600_000_000_000);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-10, 1e7] {
            assert_eq!(Tdf::new(wrong), None, "{wrong}");
        }
    }
}
