//! What was in flight, and how much had been lost, when a segment was sent.
//!
//! BBR version 3 asks that of segments that are acknowledged or lost (the draft's P.tx_in_flight and P.lost). Only it does, so it keeps a log
//! here, and not the connection with every segment of every flow. The log is asked by the time of sending, which pacing makes different for
//! almost all segments. Those sent at one instant share what the last of them saw. What is older than the log counts as its oldest entry.

use std::collections::VecDeque;

use warpline_core::{TimeDelta, Timestamp};

/// A moment at which something was sent. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AtSending {
    at: Timestamp,
    /// In flight, with what was sent.
    pub in_flight: u64,
    /// Lost by then over the whole connection.
    pub lost: u64,
}

/// The moments of the last while.
#[derive(Clone, Debug, Default)]
pub(super) struct FlightLog {
    entries: VecDeque<AtSending>,
}

impl FlightLog {
    /// Something was sent.
    pub(super) fn push(&mut self, at: Timestamp, in_flight: u64, lost: u64) {
        match self.entries.back_mut() {
            Some(last) if last.at == at => *last = AtSending { at, in_flight, lost },
            _ => self.entries.push_back(AtSending { at, in_flight, lost }),
        }
    }

    /// What held when a segment was sent at `at`.
    pub(super) fn at(&self, at: Timestamp) -> Option<AtSending> {
        let after = self.entries.partition_point(|entry| entry.at <= at);
        self.entries.get(after.saturating_sub(1)).copied()
    }

    /// Forgets what was sent more than `span` before `now`.
    pub(super) fn forget(&mut self, now: Timestamp, span: TimeDelta) {
        while self.entries.len() > 1
            && self.entries.front().is_some_and(|first| now.saturating_since(first.at) > span)
        {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_what_held_at_a_time() {
        let at = Timestamp::from_millis;
        let mut log = FlightLog::default();
        assert_eq!(log.at(at(1)), None);
        for millis in 1..=10 {
            log.push(at(10 * millis), millis * 1000, millis);
            log.push(at(10 * millis), millis * 1000 + 500, millis);
        }
        let asked = |log: &FlightLog, millis| log.at(at(millis)).map(|entry| (entry.in_flight, entry.lost));
        assert_eq!(asked(&log, 50), Some((5500, 5)));
        assert_eq!(asked(&log, 59), Some((5500, 5)));
        assert_eq!(asked(&log, 900), Some((10_500, 10)));
        log.forget(at(100), TimeDelta::from_millis(55));
        assert_eq!(asked(&log, 50), Some((5500, 5)));
        assert_eq!(asked(&log, 20), Some((5500, 5)), "the oldest stands for what is forgotten");
        log.forget(at(1000), TimeDelta::from_millis(55));
        assert_eq!(asked(&log, 20), Some((10_500, 10)), "one is left");
    }
}
