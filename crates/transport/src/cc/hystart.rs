//! HyStart++: leaving the first slow start when the round-trip time rises, before the queue overflows.
//!
//! Source: RFC 9406, with its recommended constants. A rise of the round's smallest RTT begins conservative slow start
//! (CSS), a quarter as fast; if the rise proves to be jitter slow start resumes, else after five rounds it ends.
//!
//! Departure: round trips are counted by delivered bytes, not by sequence number. Linux's HyStart is in `hystart_linux.rs`.

use warpline_core::TimeDelta;

use super::AckSample;
use super::round::Round;

/// MIN_RTT_THRESH and MAX_RTT_THRESH: bounds of the rise that counts as one.
const MIN_RISE: TimeDelta = TimeDelta::from_millis(4);
const MAX_RISE: TimeDelta = TimeDelta::from_millis(16);
/// MIN_RTT_DIVISOR: the rise that counts, as a part of the last round's smallest RTT.
const RISE_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE: samples that a round needs before it is judged.
const SAMPLES: u32 = 8;
/// CSS_ROUNDS: rounds of conservative slow start before it ends.
const CSS_ROUNDS: u32 = 5;

/// How the window may grow from an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// As in plain slow start.
    Full,
    /// By a [`PlusPlus::GROWTH_DIVISOR`]th of that.
    Conservative,
    /// Slow start is over.
    Leave,
    /// The window falls to so many bytes, and slow start is over if that is `last`.
    Fall { to: u64, last: bool },
}

/// The state of HyStart++.
#[derive(Clone, Debug)]
pub(super) struct PlusPlus {
    round: Round,
    /// Smallest RTT of the last round and of the present one; the longest span while unknown.
    last_min: TimeDelta,
    current_min: TimeDelta,
    samples: u32,
    /// Smallest RTT at which conservative slow start began, while in it.
    baseline: Option<TimeDelta>,
    css_rounds: u32,
}

impl Default for PlusPlus {
    fn default() -> Self {
        PlusPlus {
            round: Round::default(),
            last_min: TimeDelta::MAX,
            current_min: TimeDelta::MAX,
            samples: 0,
            baseline: None,
            css_rounds: 0,
        }
    }
}

impl PlusPlus {
    /// CSS_GROWTH_DIVISOR: how much slower conservative slow start grows.
    pub(super) const GROWTH_DIVISOR: u64 = 4;

    /// Takes an acknowledgement that came in slow start.
    pub(super) fn on_ack(&mut self, ack: &AckSample) -> Step {
        if self.round.ends(ack) {
            self.last_min = self.current_min;
            self.current_min = TimeDelta::MAX;
            self.samples = 0;
            if self.baseline.is_some() {
                // The round in which it began counts, though it was a part of one.
                self.css_rounds += 1;
                if self.css_rounds >= CSS_ROUNDS {
                    return Step::Leave;
                }
            }
        }
        if let Some(rtt) = ack.rtt {
            self.current_min = self.current_min.min(rtt);
            self.samples += 1;
        }
        let judged = self.samples >= SAMPLES && self.current_min != TimeDelta::MAX;
        match self.baseline {
            None if judged && self.last_min != TimeDelta::MAX => {
                let rise = (self.last_min / RISE_DIVISOR).clamp(MIN_RISE, MAX_RISE);
                if self.current_min >= self.last_min + rise {
                    self.baseline = Some(self.current_min);
                    self.css_rounds = 0;
                }
            }
            Some(baseline) if judged && self.current_min < baseline => self.baseline = None,
            _ => {}
        }
        if self.baseline.is_some() { Step::Conservative } else { Step::Full }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::sample;
    use super::*;

    /// Feeds a round of `n` acknowledgements with the given RTT; returns the steps of the first and the last.
    fn round(hystart: &mut PlusPlus, delivered: &mut u64, n: u64, millis: u64) -> (Step, Step) {
        let begin = *delivered;
        let mut steps = vec![];
        for _ in 0..n {
            *delivered += 1000;
            let mut ack = sample(*delivered / 1000, 1000);
            ack.rtt = Some(TimeDelta::from_millis(millis));
            ack.delivered = *delivered;
            ack.prior_delivered = begin;
            steps.push(hystart.on_ack(&ack));
        }
        (steps[0], steps[steps.len() - 1])
    }

    #[test]
    fn a_rise_of_an_eighth_slows_and_after_five_rounds_ends_slow_start() {
        let (mut h, mut delivered) = (PlusPlus::default(), 0);
        assert_eq!(round(&mut h, &mut delivered, 10, 40), (Step::Full, Step::Full));
        // An eighth of 40 ms is 5 ms: 44 ms is not enough, 45 + 4 is.
        assert_eq!(round(&mut h, &mut delivered, 10, 44).1, Step::Full);
        assert_eq!(round(&mut h, &mut delivered, 10, 50), (Step::Full, Step::Conservative));
        for _ in 0..4 {
            assert_eq!(round(&mut h, &mut delivered, 10, 50), (Step::Conservative, Step::Conservative));
        }
        assert_eq!(round(&mut h, &mut delivered, 10, 50).0, Step::Leave);
    }

    #[test]
    fn jitter_is_forgiven() {
        let (mut h, mut delivered) = (PlusPlus::default(), 0);
        round(&mut h, &mut delivered, 10, 40);
        assert_eq!(round(&mut h, &mut delivered, 10, 60).1, Step::Conservative);
        assert_eq!(round(&mut h, &mut delivered, 10, 41), (Step::Conservative, Step::Full));
    }

    #[test]
    fn fewer_than_eight_samples_judge_nothing() {
        let (mut h, mut delivered) = (PlusPlus::default(), 0);
        round(&mut h, &mut delivered, 10, 40);
        assert_eq!(round(&mut h, &mut delivered, 7, 400).1, Step::Full);
    }
}
