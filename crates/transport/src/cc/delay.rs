//! Delay histories of LEDBAT: the smallest delay of the last minutes, and the smallest of the last few samples.
//!
//! Source: RFC 6817 sections 3.4.1 (base delay, ten one-minute minima) and 3.4.2 (current delay; at least four samples,
//! none older than a round trip).

use std::collections::VecDeque;

use warpline_core::{TimeDelta, Timestamp};

/// Length of one entry of the base-delay history.
const MINUTE_NANOS: u64 = 60_000_000_000;

/// Smallest delay of the last minutes.
#[derive(Clone, Debug)]
pub(super) struct BaseDelay {
    minima: VecDeque<TimeDelta>,
    length: usize,
    minute: u64,
    /// The smallest of `minima`, kept so that an acknowledgement does not scan.
    smallest: TimeDelta,
}

impl BaseDelay {
    /// A history of `minutes` one-minute minima.
    pub(super) fn new(minutes: u32) -> Self {
        let length = minutes.clamp(1, 1440) as usize;
        BaseDelay { minima: VecDeque::new(), length, minute: 0, smallest: TimeDelta::MAX }
    }

    /// Takes a sample.
    pub(super) fn add(&mut self, now: Timestamp, delay: TimeDelta) {
        let minute = now.as_nanos() / MINUTE_NANOS;
        if self.minima.is_empty() || minute > self.minute {
            self.minute = minute;
            if self.minima.len() == self.length {
                self.minima.pop_front();
            }
            self.minima.push_back(delay);
            self.smallest = self.minima.iter().copied().min().unwrap_or(delay);
        } else if let Some(last) = self.minima.back_mut() {
            *last = (*last).min(delay);
            self.smallest = self.smallest.min(delay);
        }
    }

    /// The smallest delay; the longest span before the first sample.
    pub(super) fn get(&self) -> TimeDelta {
        self.smallest
    }
}

/// Smallest delay of the last few samples.
#[derive(Clone, Debug)]
pub(super) struct CurrentDelay {
    samples: VecDeque<(Timestamp, TimeDelta)>,
    length: usize,
}

impl CurrentDelay {
    /// A filter over `length` samples.
    pub(super) fn new(length: u32) -> Self {
        let length = length.clamp(1, 256) as usize;
        CurrentDelay { samples: VecDeque::with_capacity(length), length }
    }

    /// Takes a sample and forgets those older than `age`; returns the smallest that is left, which is never none.
    pub(super) fn add(&mut self, now: Timestamp, delay: TimeDelta, age: TimeDelta) -> TimeDelta {
        if self.samples.len() == self.length {
            self.samples.pop_front();
        }
        while self.samples.front().is_some_and(|&(at, _)| now.saturating_since(at) > age) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, delay));
        self.samples.iter().map(|&(_, delay)| delay).min().unwrap_or(delay)
    }

    /// Forgets all samples.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }

    #[test]
    fn a_base_delay_is_forgotten_after_its_minutes() {
        let mut base = BaseDelay::new(3);
        base.add(Timestamp::from_secs(10), ms(20));
        base.add(Timestamp::from_secs(70), ms(50));
        base.add(Timestamp::from_secs(80), ms(40));
        base.add(Timestamp::from_secs(130), ms(60));
        assert_eq!(base.get(), ms(20));
        base.add(Timestamp::from_secs(190), ms(70));
        assert_eq!(base.get(), ms(40));
    }

    #[test]
    fn the_current_delay_is_of_the_last_samples_and_the_last_round_trip() {
        let mut current = CurrentDelay::new(4);
        let at = Timestamp::from_millis;
        assert_eq!(current.add(at(0), ms(10), ms(100)), ms(10));
        for now in 1..4 {
            assert_eq!(current.add(at(now), ms(30), ms(100)), ms(10));
        }
        assert_eq!(current.add(at(4), ms(30), ms(100)), ms(30));
        assert_eq!(current.add(at(5), ms(20), ms(100)), ms(20));
        assert_eq!(current.add(at(106), ms(35), ms(100)), ms(35));
    }
}
