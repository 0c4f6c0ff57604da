//! The guest's clock, counted from the run's start.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

const SECOND: u64 = 1_000_000_000;

/// How much later than asked for the kernel may wake a thread, in nanoseconds; what a program gets is the kernel's default
/// (prctl(2), PR_SET_TIMERSLACK).
pub(crate) const PUNCTUAL: u64 = 1;
/// The default.
pub(crate) const USUAL: u64 = 50_000;

/// Sets that for the calling thread and those that it makes.
pub(crate) fn set_slack(nanos: u64) {
    // It cannot fail with such a value.
    let _ = nix::sys::prctl::set_timerslack(nanos);
}

/// The clock of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: u64,
}

fn monotonic() -> u64 {
    // A clock that every kernel has.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64)
}

impl Clock {
    /// The clock of a run that starts when `CLOCK_MONOTONIC` shows `start`.
    pub(crate) fn new(start: u64) -> Self {
        Clock { start }
    }

    /// Nanoseconds since the run's start, 0 before it.
    pub(crate) fn now(self) -> u64 {
        monotonic().saturating_sub(self.start)
    }

    /// What has passed until `at`, of which 0 is before the start too.
    pub(crate) fn until(self, at: u64) -> u64 {
        (self.start + at).saturating_sub(monotonic())
    }

    /// Sleeps until `at`.
    pub(crate) fn sleep_until(self, at: u64) {
        let at = self.start.saturating_add(at);
        let at = TimeSpec::new((at / SECOND) as i64, (at % SECOND) as i64);
        // Interrupted by a signal, it goes on.
        while let Err(nix::errno::Errno::EINTR) =
            clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
        {}
    }
}
