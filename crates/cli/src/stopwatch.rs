//! Wall-clock time of a command, only for display: no result of a run depends on it.

use std::time::Instant;

/// Measures time from its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "speed is measured on the wall clock, and shown, never recorded"
    )]
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Seconds since the start.
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// The wall clock's time since the epoch, for captures that users compare with other captures.
#[cfg(live)]
#[expect(clippy::disallowed_methods, reason = "the capture of a live link has the times of the wall clock")]
pub(crate) fn since_epoch() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
