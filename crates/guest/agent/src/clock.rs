//! The guest's clock, counted from the run's start.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep, clock_settime};

const SECOND: u64 = 1_000_000_000;

/// How much later than requested the kernel may wake a thread, in nanoseconds (prctl(2), PR_SET_TIMERSLACK): the value for the
/// agent's own threads.
pub(crate) const PUNCTUAL: u64 = 1;
/// The kernel's default, which programs get.
pub(crate) const USUAL: u64 = 50_000;

/// Sets the timer slack of the calling thread and those that it creates.
pub(crate) fn set_slack(nanos: u64) {
    // It cannot fail with such a value.
    let _ = nix::sys::prctl::set_timerslack(nanos);
}

/// The clock of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: u64,
}

/// What `CLOCK_MONOTONIC` shows.
pub(crate) fn monotonic() -> u64 {
    // A clock that every kernel has.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64)
}

/// Sleeps for this many nanoseconds.
pub(crate) fn sleep(nanos: u64) {
    let clock = Clock { start: 0 };
    clock.sleep_until(clock.now() + nanos);
}

/// Sets `CLOCK_REALTIME`.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn set_wall(nanos: u64) -> nix::Result<()> {
    let time = TimeSpec::new((nanos / SECOND) as i64, (nanos % SECOND) as i64);
    clock_settime(ClockId::CLOCK_REALTIME, time)
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

    /// The time passed until `at`, counted from the run's start; 0 before it.
    pub(crate) fn until(self, at: u64) -> u64 {
        (self.start + at).saturating_sub(monotonic())
    }

    /// Sleeps until `at`.
    pub(crate) fn sleep_until(self, at: u64) {
        let at = self.start.saturating_add(at);
        let at = TimeSpec::new((at / SECOND) as i64, (at % SECOND) as i64);
        // Continues after an interruption by a signal.
        while let Err(nix::errno::Errno::EINTR) =
            clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
        {}
    }
}
