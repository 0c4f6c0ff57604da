//! Finding out that a policer limits the flow: a token bucket that passes a burst and then drops what exceeds its rate. The bandwidth of the
//! burst would be overestimated for ten round trips, and most of what is sent at it is dropped.
//!
//! Sources: Linux tcp_bbr.c, bbr_lt_bw_sampling; T. Flach et al., "An Internet-Wide Analysis of Traffic Policing" (SIGCOMM 2016). Two
//! consecutive spans of 4 to 16 round trips, each from a loss to a loss, with a fifth of the data or more lost and with nearly the same
//! bandwidth, are a policer's. Their mean is the bandwidth for 48 round trips.
//!
//! Departures: times are exact, where Linux takes whole milliseconds.

use warpline_core::{TimeDelta, Timestamp};

/// Round trips of a span, at least and at most.
const SHORTEST: u32 = 4;
const LONGEST: u32 = 4 * SHORTEST;
/// Share of what was delivered that must be lost: 50/256.
const LOSSY: f64 = 50.0 / 256.0;
/// Two bandwidths are the same if they differ by this part, or by so many bytes per second.
const SAME_PART: f64 = 1.0 / 8.0;
const SAME_RATE: f64 = 4000.0 / 8.0;
/// Round trips for which the policer's rate is used.
const TRUSTED: u32 = 48;

/// What an acknowledgement, or a time-out, says to the detector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub now: Timestamp,
    /// Totals of the connection, in bytes.
    pub delivered: u64,
    pub lost: u64,
    /// Something was lost just now.
    pub losing: bool,
    pub app_limited: bool,
    /// A round trip ended.
    pub round_start: bool,
    /// The flow is in its steady state.
    pub steady: bool,
}

/// The detector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Bandwidth in bytes per second of the last span, or of the policer; zero for none.
    bandwidth: f64,
    found: bool,
    sampling: bool,
    /// Round trips of the present span, or since the policer was found.
    rounds: u32,
    /// Where the span began.
    began: Timestamp,
    delivered: u64,
    lost: u64,
}

impl Policer {
    /// The policer's rate in bytes per second, where one was found.
    #[inline]
    pub(super) fn rate(&self) -> Option<f64> {
        self.found.then_some(self.bandwidth)
    }

    /// Begins anew: no policer is known, and no span goes on.
    pub(super) fn reset(&mut self) {
        *self = Policer::default();
    }

    fn begin_span(&mut self, report: &Report) {
        (self.began, self.delivered, self.lost) = (report.now, report.delivered, report.lost);
        self.rounds = 0;
    }

    /// Takes a report. Returns whether the policer's rate has just been given up.
    pub(super) fn take(&mut self, report: &Report) -> bool {
        if self.found {
            if report.steady && report.round_start {
                self.rounds += 1;
                if self.rounds >= TRUSTED {
                    self.reset();
                    return true;
                }
            }
            return false;
        }
        // The span begins with a loss: the tokens are used up.
        if !self.sampling {
            if !report.losing {
                return false;
            }
            self.begin_span(report);
            self.sampling = true;
        }
        if report.app_limited {
            self.reset();
            return false;
        }
        self.rounds += u32::from(report.round_start);
        if self.rounds > LONGEST {
            self.reset();
        } else if self.rounds >= SHORTEST && report.losing {
            self.end_span(report);
        }
        false
    }

    fn end_span(&mut self, report: &Report) {
        let lost = report.lost.saturating_sub(self.lost);
        let delivered = report.delivered.saturating_sub(self.delivered);
        let span = report.now.saturating_since(self.began);
        if delivered == 0 || (lost as f64) < LOSSY * delivered as f64 || span < TimeDelta::from_millis(1) {
            return;
        }
        let bandwidth = delivered as f64 / span.as_secs_f64();
        let apart = (bandwidth - self.bandwidth).abs();
        if self.bandwidth > 0.0 && (apart <= SAME_PART * self.bandwidth || apart <= SAME_RATE) {
            self.bandwidth = (bandwidth + self.bandwidth) / 2.0;
            self.found = true;
            self.rounds = 0;
        } else {
            self.bandwidth = bandwidth;
            self.begin_span(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms in which so many bytes are delivered and lost, with a loss in each if there are any.
    struct Path {
        policer: Policer,
        now: Timestamp,
        delivered: u64,
        lost: u64,
    }

    impl Path {
        fn new() -> Path {
            Path { policer: Policer::default(), now: Timestamp::from_secs(1), delivered: 0, lost: 0 }
        }
        /// Returns in which of the rounds the rate was given up.
        fn rounds(&mut self, count: u32, delivered: u64, lost: u64, app_limited: bool) -> Option<u32> {
            let mut given_up = None;
            for round in 1..=count {
                self.now += TimeDelta::from_millis(100);
                self.delivered += delivered;
                self.lost += lost;
                let over = self.policer.take(&Report {
                    now: self.now,
                    delivered: self.delivered,
                    lost: self.lost,
                    losing: lost > 0,
                    app_limited,
                    round_start: true,
                    steady: true,
                });
                given_up = given_up.or(over.then_some(round));
            }
            given_up
        }
    }

    #[test]
    fn two_lossy_spans_of_one_rate_are_a_policer_for_48_round_trips() {
        let mut path = Path::new();
        // Begins with the first loss, which is in the first of the span's rounds.
        path.rounds(6, 100_000, 30_000, false);
        assert_eq!(path.policer.rate(), None);
        path.rounds(1, 110_000, 30_000, false);
        path.rounds(1, 110_000, 30_000, false);
        // Spans of three and four round trips after their beginnings: 1 MB/s, and 1.05.
        let rate = path.policer.rate().unwrap();
        assert!((rate - 1.025e6).abs() < 1e3, "{rate}");
        assert_eq!(path.rounds(60, 100_000, 0, false), Some(48));
        assert_eq!(path.policer.rate(), None);
    }

    #[test]
    fn few_losses_or_different_rates_are_none() {
        let mut path = Path::new();
        path.rounds(100, 100_000, 19_000, false);
        assert_eq!(path.policer.rate(), None);
        let mut path = Path::new();
        for step in 0..10 {
            path.rounds(4, 100_000 << step, 30_000 << step, false);
        }
        assert_eq!(path.policer.rate(), None);
    }

    #[test]
    fn an_application_without_data_ends_a_span() {
        let mut path = Path::new();
        for _ in 0..10 {
            path.rounds(5, 100_000, 30_000, false);
            path.rounds(1, 100_000, 30_000, true);
        }
        assert_eq!(path.policer.rate(), None);
        path.rounds(12, 100_000, 30_000, false);
        assert!(path.policer.rate().is_some());
    }

    #[test]
    fn a_span_without_a_loss_at_its_end_is_too_long() {
        let mut path = Path::new();
        path.rounds(1, 100_000, 30_000, false);
        path.rounds(15, 100_000, 0, false);
        assert!(path.policer.sampling);
        path.rounds(1, 100_000, 0, false);
        assert!(!path.policer.sampling);
    }
}
