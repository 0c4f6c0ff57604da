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
    /// First and last acknowledgement of this round's train; the bytes that the first covered, and those after it.
    span: Option<(Timestamp, Timestamp)>,
    first: u64,
    bytes: u64,
    shortest: TimeDelta,
}

impl Default for Train {
    fn default() -> Self {
        Train { span: None, first: 0, bytes: 0, shortest: TimeDelta::MAX }
    }
}

impl Train {
    /// What a full segment takes at the narrowest link at most; none before the first acknowledgement.
    pub(super) fn segment_time(&self) -> Option<TimeDelta> {
        (self.shortest != TimeDelta::MAX).then_some(self.shortest)
    }

    /// Takes an acknowledgement of this round.
    #[inline]
    pub(super) fn take_sample(&mut self, ack: &AckSample) {
        match &mut self.span {
            // The acknowledgement of a single segment may have been delayed, if later ones cover two: then the train would seem too short.
            Some((_, last)) if self.first >= 2 * ack.mss || ack.acked < 2 * ack.mss => {
                *last = ack.now;
                self.bytes += ack.acked;
            }
            _ => {
                self.span = Some((ack.now, ack.now));
                (self.first, self.bytes) = (ack.acked, 0);
            }
        }
    }

    /// A segment was acknowledged after `rtt`; so many bytes, its own included, had been in flight when it left. Those after the first passed the link in that
    /// time.
    #[inline]
    pub(super) fn take_flight(&mut self, rtt: TimeDelta, flight: u64, mss: u64) {
        let behind = flight.saturating_sub(mss).max(mss);
        self.shortest = self.shortest.min(rtt.mul_f64(mss as f64 / behind as f64));
    }

    /// The round is over.
    pub(super) fn end_round(&mut self, mss: u64) {
        if let Some((first, last)) = self.span.filter(|_| self.bytes >= LEAST * mss) {
            let each = last.saturating_since(first).mul_f64(mss as f64 / self.bytes as f64);
            self.shortest = self.shortest.min(each);
        }
        self.forget_round();
    }

    /// Forgets what was measured of this round.
    pub(super) fn forget_round(&mut self) {
        (self.span, self.bytes) = (None, 0);
    }
}
