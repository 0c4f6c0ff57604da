//! Linux's HyStart: slow start ends at once where a train of closely spaced acknowledgements is half a round trip long, or where the
//! round-trip time has risen by an eighth.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cubic.c (hystart_update, cubictcp_acked) and tcp_cdg.c (tcp_cdg_hystart_update), after Ha and Rhee,
//! "Taming the elephants: New TCP slow start", Computer Networks 2011. The constants are the kernel's defaults.
//!
//! Departures: sending is taken for not paced, as iperf3's is without the fq discipline (with pacing the kernel wants trains of a
//! whole round trip); acknowledgements in fast recovery are not looked at.

use warpline_core::{TimeDelta, Timestamp};

use super::AckSample;
use super::hystart::Step;
use super::round::Round;

/// What differs from one of the kernel's algorithms to another.
#[derive(Debug)]
pub(super) struct Rules {
    /// Segments below which it does nothing.
    low_window: u64,
    /// Acknowledgements farther apart are no train.
    ack_delta: TimeDelta,
    /// Least train that ends slow start.
    min_train: TimeDelta,
    /// How long segmentation batches may hold acknowledgements up, at most.
    max_ack_delay: TimeDelta,
    /// Bounds of an eighth of the smallest round-trip time, which is the rise that ends slow start.
    rise: (TimeDelta, TimeDelta),
    /// Least round-trip time that ends it by a rise.
    min_rtt: TimeDelta,
}

/// CUBIC's (hystart_low_window, hystart_ack_delta_us, hystart_ack_delay, HYSTART_DELAY_MIN and HYSTART_DELAY_MAX).
pub(super) const CUBIC: Rules = Rules {
    low_window: 16,
    ack_delta: TimeDelta::from_millis(2),
    min_train: TimeDelta::ZERO,
    max_ack_delay: TimeDelta::from_millis(1),
    rise: (TimeDelta::from_millis(4), TimeDelta::from_millis(16)),
    min_rtt: TimeDelta::ZERO,
};

/// CDG's (tcp_cdg_hystart_update): at any window, and with smaller rises.
pub(super) const CDG: Rules = Rules {
    low_window: 0,
    ack_delta: TimeDelta::from_millis(3),
    min_train: TimeDelta::from_micros(125),
    max_ack_delay: TimeDelta::ZERO,
    rise: (TimeDelta::ZERO, TimeDelta::MAX),
    min_rtt: TimeDelta::from_micros(125),
};

/// HYSTART_MIN_SAMPLES: samples of a round before its smallest is judged.
const SAMPLES: u32 = 8;
/// hystart_ack_delay: four of the largest segmentation batches (gso_max_size) at the pacing rate.
const BATCHES: u64 = 4 * 65_536;

/// The state of Linux's HyStart.
#[derive(Clone, Debug)]
pub(super) struct LinuxHystart {
    rules: &'static Rules,
    round: Round,
    round_start: Timestamp,
    /// Last acknowledgement of the train.
    last_ack: Timestamp,
    /// Smallest round-trip time since the connection began, or since the last time-out; the longest span while unknown.
    delay_min: TimeDelta,
    /// That of the present round.
    current: TimeDelta,
    samples: u32,
}

/// How long acknowledgements may have been held up by segmentation batches in slow start, where the kernel would pace at twice the
/// window per round trip.
fn ack_delay(cwnd: u64, ack: &AckSample) -> TimeDelta {
    let span = ack.srtt.as_nanos().saturating_mul(BATCHES).checked_div(2 * cwnd);
    span.map_or(TimeDelta::ZERO, TimeDelta::from_nanos)
}

impl LinuxHystart {
    pub(super) fn new(rules: &'static Rules) -> Self {
        LinuxHystart {
            rules,
            round: Round::default(),
            round_start: Timestamp::ZERO,
            last_ack: Timestamp::ZERO,
            delay_min: TimeDelta::MAX,
            current: TimeDelta::MAX,
            samples: 0,
        }
    }

    /// Takes an acknowledgement that came in slow start, before the window of `cwnd` bytes grows from it.
    pub(super) fn on_ack(&mut self, cwnd: u64, mss: u64, ack: &AckSample) -> Step {
        let Some(rtt) = ack.rtt else { return Step::Full };
        self.delay_min = self.delay_min.min(rtt);
        let Rules { low_window, ack_delta, min_train, max_ack_delay, rise, min_rtt } = *self.rules;
        // Rounds are counted from the beginning: one that began in the middle of a burst would see half of its train.
        if self.round.ends(ack) {
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.current = TimeDelta::MAX;
            self.samples = 0;
        }
        if cwnd < low_window * mss {
            return Step::Full;
        }
        if ack.now.saturating_since(self.last_ack) <= ack_delta {
            self.last_ack = ack.now;
            let threshold = (self.delay_min + ack_delay(cwnd, ack).min(max_ack_delay)) / 2;
            if ack.now.saturating_since(self.round_start) > threshold.max(min_train) {
                return Step::Leave;
            }
        }
        self.current = self.current.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if self.current > (self.delay_min + (self.delay_min / 8).clamp(rise.0, rise.1)).max(min_rtt) {
            return Step::Leave;
        }
        Step::Full
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{MSS, sample};
    use super::*;

    /// Acknowledgements of one round, `spacing_us` apart, from `start_us` on; which of them ends slow start.
    fn round(
        hystart: &mut LinuxHystart,
        cwnd: u64,
        (start_us, spacing_us): (u64, u64),
        rtt_ms: u64,
    ) -> Option<u64> {
        let begin = cwnd * start_us;
        (0..40).find(|n| {
            let mut ack = sample(0, 1000);
            ack.now = Timestamp::from_nanos((start_us + n * spacing_us) * 1000);
            ack.rtt = Some(TimeDelta::from_millis(rtt_ms));
            ack.srtt = TimeDelta::from_millis(rtt_ms);
            ack.prior_delivered = begin;
            ack.delivered = begin + (n + 1) * 1000;
            hystart.on_ack(cwnd, MSS, &ack) == Step::Leave
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        let cwnd = 20 * MSS;
        // 40 ms and the millisecond for batches: the train has to be longer than 20.5 ms.
        let mut close = LinuxHystart::new(&CUBIC);
        assert_eq!(round(&mut close, cwnd, (1_000_000, 1000), 40), Some(21));
        // Acknowledgements that are more than 2 ms apart are no train, however long it goes on.
        let mut apart = LinuxHystart::new(&CUBIC);
        assert_eq!(round(&mut apart, cwnd, (1_000_000, 2100), 40), None);
    }

    #[test]
    fn a_round_in_which_the_window_becomes_large_enough_is_counted_from_its_beginning() {
        let (rtt, spacing) = (30_000, 1200);
        let mut hystart = LinuxHystart::new(&CUBIC);
        // Ten segments and then twenty over 10 Mbit/s, acknowledged one by one. Linux 6.1 ends slow start in the middle of the second train.
        let (mut cwnd, mut left) = (10 * MSS, None);
        for n in 0..30u64 {
            let (round, place) = if n < 10 { (0, n) } else { (1, n - 10) };
            let mut ack = sample(0, MSS);
            ack.now = Timestamp::from_nanos((1_000_000 + round * rtt + place * spacing) * 1000);
            ack.rtt = Some(TimeDelta::from_micros(rtt + place * spacing));
            ack.srtt = TimeDelta::from_micros(rtt);
            (ack.prior_delivered, ack.delivered) =
                (if n < 10 { 0 } else { ((n - 10) / 2 + 1) * MSS }, (n + 1) * MSS);
            if left.is_none() && hystart.on_ack(cwnd, MSS, &ack) == Step::Leave {
                left = Some(n);
            }
            cwnd += MSS;
        }
        assert_eq!(left, Some(23));
    }

    #[test]
    fn a_rise_by_an_eighth_ends_it_with_the_ninth_sample() {
        let cwnd = 20 * MSS;
        let mut hystart = LinuxHystart::new(&CUBIC);
        assert_eq!(round(&mut hystart, cwnd, (1_000_000, 2100), 80), None);
        assert_eq!(
            round(&mut hystart, cwnd, (2_000_000, 2100), 90),
            None,
            "10 ms are no more than an eighth"
        );
        assert_eq!(round(&mut hystart, cwnd, (3_000_000, 2100), 91), Some(8));
    }

    #[test]
    fn cdgs_has_no_least_window_and_no_least_rise() {
        let cwnd = 10 * MSS;
        // Half of 40 ms, without time for batches; and a rise from 8 to 10 ms is more than an eighth.
        assert_eq!(round(&mut LinuxHystart::new(&CDG), cwnd, (1_000_000, 1000), 40), Some(21));
        let mut hystart = LinuxHystart::new(&CDG);
        assert_eq!(round(&mut hystart, cwnd, (1_000_000, 3100), 8), None);
        assert_eq!(round(&mut hystart, cwnd, (2_000_000, 3100), 10), Some(8));
    }

    #[test]
    fn below_sixteen_segments_nothing_ends_it() {
        let cwnd = 15 * MSS;
        let mut hystart = LinuxHystart::new(&CUBIC);
        assert_eq!(round(&mut hystart, cwnd, (1_000_000, 1000), 10), None);
        assert_eq!(round(&mut hystart, cwnd, (2_000_000, 1000), 100), None);
    }
}
