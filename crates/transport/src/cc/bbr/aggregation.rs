//! How much more than expected is acknowledged at once: networks that gather acknowledgements or data (Wi-Fi, cable) make pauses, and a window
//! of the bandwidth-delay product alone would leave them unused.
//!
//! Source: Linux tcp_bbr.c, bbr_update_ack_aggregation and bbr_ack_aggregation_cwnd. An epoch lasts as long as more is acknowledged than the
//! bandwidth explains. The largest excess of the last five to ten round trips counts, in two halves.
//!
//! Departure: bytes, where Linux counts segments.

use warpline_core::{TimeDelta, Timestamp};

/// Round trips of half a window of the filter.
const HALF: u32 = 5;
/// Segments after which an epoch ends in any case.
const LONGEST_EPOCH: u64 = 1 << 20;
/// The excess counts for what the bandwidth carries in this time at most.
const LONGEST: TimeDelta = TimeDelta::from_millis(100);

/// What is known of the aggregation of acknowledgements. Bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    /// Largest excess of the half window that goes on, and of the one before.
    excess: [u64; 2],
    /// Round trips of the half window that goes on.
    rounds: u32,
    began: Timestamp,
    acked: u64,
}

impl Aggregation {
    pub(super) fn new() -> Self {
        Aggregation { excess: [0; 2], rounds: 0, began: Timestamp::ZERO, acked: 0 }
    }

    /// Begins an epoch: what came before does not count.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.began = now;
        self.acked = 0;
    }

    /// A round trip has ended.
    pub(super) fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= HALF {
            self.rounds = 0;
            self.excess = [0, self.excess[0]];
        }
    }

    /// `acked` bytes are acknowledged, at a bandwidth of `bandwidth` bytes per second. The excess is at most `cwnd`.
    pub(super) fn on_ack(&mut self, now: Timestamp, acked: u64, bandwidth: f64, cwnd: u64, mss: u64) {
        let mut expected = (bandwidth * now.saturating_since(self.began).as_secs_f64()) as u64;
        let total = self.acked.saturating_add(acked);
        if self.acked <= expected || total >= LONGEST_EPOCH.saturating_mul(mss) {
            self.restart(now);
            expected = 0;
        }
        self.acked = self.acked.saturating_add(acked);
        let excess = self.acked.saturating_sub(expected).min(cwnd);
        self.excess[0] = self.excess[0].max(excess);
    }

    /// The excess to allow for at that bandwidth.
    pub(super) fn allowance(&self, bandwidth: f64) -> u64 {
        let most = (bandwidth * LONGEST.as_secs_f64()) as u64;
        self.excess[0].max(self.excess[1]).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A megabyte per second: a segment per millisecond.
    const BANDWIDTH: f64 = 1e6;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1000 + millis)
    }

    #[test]
    fn an_even_stream_has_an_excess_of_what_one_acknowledgement_brings() {
        let mut aggregation = Aggregation::new();
        for millis in 0..50 {
            aggregation.on_ack(at(2 * millis), 2000, BANDWIDTH, 100_000, 1000);
        }
        assert_eq!(aggregation.allowance(BANDWIDTH), 2000);
    }

    #[test]
    fn gathered_acknowledgements_count_for_five_to_ten_round_trips() {
        let mut aggregation = Aggregation::new();
        for burst in 0..5 {
            for _ in 0..10 {
                aggregation.on_ack(at(20 * burst), 2000, BANDWIDTH, 100_000, 1000);
            }
        }
        assert_eq!(aggregation.allowance(BANDWIDTH), 20_000);
        for _ in 0..9 {
            aggregation.on_round();
        }
        assert_eq!(aggregation.allowance(BANDWIDTH), 20_000);
        aggregation.on_round();
        assert_eq!(aggregation.allowance(BANDWIDTH), 0);
    }

    #[test]
    fn neither_the_window_nor_a_tenth_of_a_second_is_exceeded() {
        let mut aggregation = Aggregation::new();
        aggregation.on_ack(at(0), 700_000, BANDWIDTH, 150_000, 1000);
        assert_eq!(aggregation.allowance(2.0 * BANDWIDTH), 150_000);
        assert_eq!(aggregation.allowance(BANDWIDTH), 100_000);
    }

    #[test]
    fn an_epoch_goes_on_while_it_is_ahead() {
        let mut aggregation = Aggregation::new();
        // 30 segments at once, then one per two milliseconds: after 60 ms the lead is used up.
        aggregation.on_ack(at(0), 30_000, BANDWIDTH, 1 << 20, 1000);
        for millis in 1..=20 {
            aggregation.on_ack(at(2 * millis), 1000, BANDWIDTH, 1 << 20, 1000);
        }
        assert_eq!(aggregation.acked, 50_000);
        for millis in 21..=31 {
            aggregation.on_ack(at(2 * millis), 1000, BANDWIDTH, 1 << 20, 1000);
        }
        assert_eq!(aggregation.acked, 1000);
        assert_eq!(aggregation.began, at(62));
    }
}
