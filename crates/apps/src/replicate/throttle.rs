//! A writer with a rate limit.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use warpline_core::Rate;

/// Time of one write at the rate.
const PIECE: Duration = Duration::from_millis(10);

/// Smallest write in bytes: about a datagram.
const LEAST: u64 = 1200;

/// Bytes of a piece at `rate`.
fn piece(rate: Rate) -> usize {
    let bytes = (rate.as_bps() / 8).saturating_mul(PIECE.as_millis() as u64) / 1000;
    usize::try_from(bytes.max(LEAST)).unwrap_or(usize::MAX)
}

/// When the next piece may leave after `bytes` left at `now`. Unused time is not saved up.
fn next(free_at: Option<Instant>, now: Instant, bytes: usize, rate: Rate) -> Instant {
    let span = Duration::from_secs_f64(bytes as f64 * 8.0 / (rate.as_bps().max(1)) as f64);
    free_at.map_or(now, |free_at| free_at.max(now)) + span
}

/// A writer with an optional limit.
#[derive(Debug)]
pub(super) struct Throttle<W> {
    to: W,
    limit: Option<Rate>,
    free_at: Option<Instant>,
}

impl<W: Write> Throttle<W> {
    pub(super) fn new(to: W, limit: Option<Rate>) -> Self {
        Throttle { to, limit, free_at: None }
    }

    pub(super) fn into_inner(self) -> W {
        self.to
    }
}

impl<W: Write> Write for Throttle<W> {
    #[expect(clippy::disallowed_methods, reason = "this is the edge: a rate in real time")]
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let Some(rate) = self.limit else { return self.to.write(data) };
        if let Some(free_at) = self.free_at {
            thread::sleep(free_at.saturating_duration_since(Instant::now()));
        }
        let written = self.to.write(&data[..data.len().min(piece(rate))])?;
        self.free_at = Some(next(self.free_at, Instant::now(), written, rate));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_leave_at_the_rate() {
        let rate = Rate::from_bps(960_000);
        let start = {
            #[expect(clippy::disallowed_methods, reason = "any moment does")]
            Instant::now()
        };
        assert_eq!(piece(rate), 1200);
        assert_eq!(piece(Rate::from_bps(960_000_000)), 1_200_000);
        let first = next(None, start, 1200, rate);
        assert_eq!(first - start, Duration::from_millis(10));
        // A slightly late write does not delay the next one, unless the time of a whole piece has passed.
        assert_eq!(next(Some(first), start, 1200, rate) - start, Duration::from_millis(20));
        let late = start + Duration::from_secs(1);
        assert_eq!(next(Some(first), late, 1200, rate) - late, Duration::from_millis(10));
    }

    #[test]
    fn everything_arrives_in_order() {
        let data: Vec<u8> = (0..10_000).map(|number| number as u8).collect();
        for limit in [None, Some(Rate::from_bps(u64::MAX / 16))] {
            let mut throttle = Throttle::new(Vec::new(), limit);
            throttle.write_all(&data).unwrap();
            assert_eq!(throttle.into_inner(), data);
        }
    }
}
