//! The machine's clock, and a guest's clocks at the start of a run.

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` of every guest at the start of the run, which leaves time for the boot and the setup.
pub const START: u64 = 100_000_000_000;
/// A guest's `CLOCK_REALTIME` at the start of the run: 2026-01-01 00:00:00 UTC, in nanoseconds since 1970.
pub const EPOCH: u64 = 1_767_225_600_000_000_000;

/// The machine's `CLOCK_MONOTONIC` in nanoseconds.
pub fn host_now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps for a moment, in which a guest can do something.
pub(crate) fn pause() {
    let moment = rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let _ = rustix::event::poll(&mut [], Some(&moment));
}
