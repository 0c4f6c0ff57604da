//! The machine's clock, and what a guest's clocks show when a run starts.

use rustix::time::{ClockId, clock_gettime};

/// What `CLOCK_MONOTONIC` of every guest shows when the run starts: late enough for everything that comes before.
pub const START: u64 = 100_000_000_000;
/// What a guest's `CLOCK_REALTIME` shows when the run starts: 2026-01-01 00:00:00 UTC, in nanoseconds since 1970.
pub const EPOCH: u64 = 1_767_225_600_000_000_000;

/// The machine's `CLOCK_MONOTONIC` in nanoseconds.
pub fn host_now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A moment, in which a guest can do something.
pub(crate) fn pause() {
    let moment = rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let _ = rustix::event::poll(&mut [], Some(&moment));
}
