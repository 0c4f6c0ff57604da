//! What a segment takes at the narrowest link of the path, from how the acknowledgements of a round are spread.
//!
//! The segments of a window that leave together arrive as a train, spaced by the narrowest link; others' packets between them only
//! lengthen it, so that the shortest of many rounds is near the truth (C. Dovrolis, P. Ramanathan, D. Moore, "What do packet dispersion techniques
//! measure?", INFOCOM 2001). Nice needs it on slow links, where its own few packets make a longer queue than what it would yield to.

use warpline_core::{TimeDelta, Timestamp};

use super::AckSample;

/// Segments that a train must have after the first: two acknowledgements alone are too easily pushed together on
/// their way back.
const LEAST: u64 = 2;

/// Measures trains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    /// First and last acknowledgement of this round, and the bytes acknowledged after the first.
    span: Option<(Timestamp, Timestamp)>,
    bytes: u64,
    shortest: TimeDelta,
}

impl Default for Train {
    fn default() -> Self {
        Train { span: None, bytes: 0, shortest: TimeDelta::MAX }
    }
}

impl Train {
    /// What a full segment takes at the narrowest link at most; none before the first train.
    pub(super) fn segment_time(&self) -> Option<TimeDelta> {
        (self.shortest != TimeDelta::MAX).then_some(self.shortest)
    }

    /// Takes an acknowledgement of this round.
    #[inline]
    pub(super) fn take_sample(&mut self, ack: &AckSample) {
        match &mut self.span {
            None => self.span = Some((ack.now, ack.now)),
            Some((_, last)) => {
                *last = ack.now;
                self.bytes += ack.acked;
            }
        }
    }

    /// The round is over. Returns whether its train was the shortest so far.
    pub(super) fn end_round(&mut self, mss: u64) -> bool {
        let train = self.span.filter(|_| self.bytes >= LEAST * mss);
        let shorter = train.is_some_and(|(first, last)| {
            let each = last.saturating_since(first).mul_f64(mss as f64 / self.bytes as f64);
            let shorter = each < self.shortest;
            self.shortest = self.shortest.min(each);
            shorter
        });
        self.forget_round();
        shorter
    }

    /// Forgets what was measured of this round.
    pub(super) fn forget_round(&mut self) {
        (self.span, self.bytes) = (None, 0);
    }
}
