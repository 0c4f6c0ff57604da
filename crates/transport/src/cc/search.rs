//! SEARCH: leaving slow start when less is delivered than was sent a round trip before, so that a delay that varies, as on wireless links, does not
//! end it.
//!
//! Source: draft-chung-ccwg-search (Slow start Exit At Right CHokepoint; the constants' names are its), in the version that its authors call 4.0:
//! what was sent in a window of time, a round trip ago, is compared with what was delivered in the last window. Read were the draft's version of
//! June 2024 (SEARCH 3.0, which doubles what was delivered before instead) and the authors' kernel module of version 4.0. The threshold is that of
//! draft 09, as neqo's `cc/search.rs` gives it, since the draft itself could not be read: 0.26, where 3.0 has 0.35. Between two bins, what was sent
//! is taken from the earlier one, as neqo has it: the draft looks a bin ahead.
//!
//! In the end the window drains: it falls with what is in flight, but for one segment in three acknowledged, until it is what was delivered in
//! one initial round trip (version 4.0; its text says three, its code sixteen).
//!
//! Departures: bins are of 64 bits and not scaled down; what was sent is counted by sequence number, since nothing is sent again before the first
//! loss, which ends this; more than a window without an acknowledgement begins all anew with a new initial round trip, as draft 09 allows.

use warpline_core::{TimeDelta, Timestamp};

use super::AckSample;
use super::hystart::Step;

/// W: bins in a window.
const BINS: usize = 10;
/// EXTRA_BINS: bins by which a round trip may be longer than a window's before this stops working.
const EXTRA_BINS: usize = 15;
/// WINDOW_SIZE: 3.5 initial round trips; so a bin is 7/20 of one.
const BIN_OF_RTT: (u64, u64) = (7, 20);
/// THRESH, in percent: the part of what was sent that has to be missing.
const THRESHOLD: u128 = 26;
/// The drain: segments acknowledged for each that is sent.
const DRAIN_RATIO: u64 = 3;
/// The drain goes no lower than an initial window, in segments.
const SMALLEST: u64 = 10;

/// The state of SEARCH.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// Bytes delivered, and sent, up to the end of each of the last bins. The n-th bin is at n modulo the length.
    delivered: [u64; BINS + 1],
    sent: [u64; BINS + 1 + EXTRA_BINS],
    /// Number of the last bin that has ended.
    last: usize,
    /// When the present bin ends, and how long each is; zero before the first acknowledgement.
    end: Timestamp,
    bin: TimeDelta,
    drain: Option<Drain>,
}

/// The window falls to `target`.
#[derive(Clone, Copy, Debug)]
struct Drain {
    target: u64,
    /// Bytes acknowledged that have not let a segment out.
    acked: u64,
}

impl Search {
    /// Takes an acknowledgement that came in slow start, before the window grows from it.
    pub(super) fn on_ack(&mut self, mss: u64, ack: &AckSample) -> Step {
        if self.drain.is_none() && self.found(mss, ack) {
            let target = self.delivered_since(BIN_OF_RTT.1.div_ceil(BIN_OF_RTT.0) as usize);
            self.drain = Some(Drain { target: target.max(SMALLEST * mss), acked: 0 });
        }
        let Some(drain) = &mut self.drain else { return Step::Full };
        drain.acked += ack.acked;
        let segments = drain.acked / (DRAIN_RATIO * mss);
        drain.acked -= segments * DRAIN_RATIO * mss;
        let to = (ack.in_flight + segments * mss).max(drain.target);
        Step::Fall { to, last: to == drain.target }
    }

    /// Whether the capacity has been reached, as far as bins that have just ended show it.
    fn found(&mut self, mss: u64, ack: &AckSample) -> bool {
        let Some(rtt) = ack.rtt.filter(|rtt| rtt.as_nanos() > BIN_OF_RTT.1) else { return false };
        if self.bin.is_zero() {
            self.begin(rtt, ack);
            return false;
        }
        if ack.now <= self.end || !self.end_bins(ack) {
            return false;
        }
        let bin = self.bin.as_nanos();
        let back = usize::try_from(rtt.as_nanos() / bin).unwrap_or(usize::MAX);
        // Too early, or a round trip of now is longer than what is remembered.
        if back >= EXTRA_BINS || self.last <= BINS + back {
            return false;
        }
        let before = self.last - back;
        let window = |end: usize| u128::from(self.sent_until(end) - self.sent_until(end - BINS));
        let part = u128::from(rtt.as_nanos() % bin);
        let whole = u128::from(bin);
        let sent = (window(before - 1) * part + window(before) * (whole - part)) / whole;
        let delivered = u128::from(self.delivered_since(BINS));
        sent >= u128::from(mss) && sent.saturating_sub(delivered) * 100 >= sent * THRESHOLD
    }

    fn begin(&mut self, initial_rtt: TimeDelta, ack: &AckSample) {
        self.bin = initial_rtt * BIN_OF_RTT.0 / BIN_OF_RTT.1;
        self.end = ack.now + self.bin;
        self.last = 0;
        self.delivered[0] = ack.delivered;
        self.sent[0] = ack.next_seq;
    }

    /// Ends the bins that are over. Returns whether there is something to compare: not where too many are over at once.
    fn end_bins(&mut self, ack: &AckSample) -> bool {
        let late = ack.now.saturating_since(self.end).as_nanos() / self.bin.as_nanos();
        let passed = usize::try_from(late).unwrap_or(usize::MAX).saturating_add(1);
        if passed > BINS {
            self.bin = TimeDelta::ZERO;
            return false;
        }
        for _ in 1..passed {
            let (delivered, sent) = (self.delivered_until(self.last), self.sent_until(self.last));
            self.push(delivered, sent);
        }
        self.push(ack.delivered, ack.next_seq);
        self.end += self.bin * passed as u64;
        true
    }

    fn push(&mut self, delivered: u64, sent: u64) {
        self.last += 1;
        self.delivered[self.last % (BINS + 1)] = delivered;
        self.sent[self.last % (BINS + 1 + EXTRA_BINS)] = sent;
    }

    fn delivered_until(&self, bin: usize) -> u64 {
        self.delivered[bin % (BINS + 1)]
    }
    fn sent_until(&self, bin: usize) -> u64 {
        self.sent[bin % (BINS + 1 + EXTRA_BINS)]
    }
    /// Bytes delivered in the last so many bins.
    fn delivered_since(&self, bins: usize) -> u64 {
        self.delivered_until(self.last) - self.delivered_until(self.last - bins)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{MSS, sample};
    use super::*;

    const RTT: u64 = 100;

    /// A path of 100 ms without a queue that matters, on which acknowledgements come every 5 ms. `rate` says how many segments are delivered in
    /// each of these intervals of the n-th round trip; twice as many are sent.
    struct Path {
        search: Search,
        millis: u64,
        delivered: u64,
        sent: u64,
    }

    impl Path {
        fn new() -> Path {
            // A first acknowledgement says how long a round trip is.
            let mut path = Path { search: Search::default(), millis: RTT, delivered: 0, sent: 10 * MSS };
            assert_eq!(path.ack(0, 0, RTT), Step::Full);
            path
        }
        fn ack(&mut self, delivered: u64, sent: u64, rtt: u64) -> Step {
            self.delivered += delivered * MSS;
            self.sent += sent * MSS;
            let ack = AckSample {
                rtt: Some(TimeDelta::from_millis(rtt)),
                delivered: self.delivered,
                next_seq: self.sent,
                in_flight: self.sent - self.delivered,
                ..sample(self.millis, delivered * MSS)
            };
            self.search.on_ack(MSS, &ack)
        }
        /// A round trip; the acknowledgement within it that ends slow start, if one does.
        fn round(&mut self, delivered: u64, sent: u64, rtt: u64) -> Option<u64> {
            (0..RTT / 5).find(|_| {
                self.millis += 5;
                self.ack(delivered, sent, rtt) != Step::Full
            })
        }
    }

    #[test]
    fn while_all_that_was_sent_is_delivered_slow_start_goes_on() {
        let mut path = Path::new();
        for round in 0..9 {
            assert_eq!(path.round(1 << round, 2 << round, RTT), None, "round {round}");
        }
        // The round trip may vary by a half, as long as the data comes.
        let mut path = Path::new();
        for round in 0..9 {
            assert_eq!(path.round(1 << round, 2 << round, RTT + 50 * (round % 2)), None, "round {round}");
        }
    }

    #[test]
    fn within_two_round_trips_of_the_capacity_it_is_found() {
        // 64 segments in 5 ms are the most. What is sent still doubles.
        let mut path = Path::new();
        let mut rounds = 0;
        let found = (0..12).find_map(|round: u32| {
            rounds = round;
            path.round(1 << round.min(6), 2 << round, RTT)
        });
        // Round 6 is the first at capacity, and at the end of the next a quarter of what was sent is missing:
        // the window of 3.5 round trips has 64 + 64 + 32 + 8 of 128 + 64 + 32 + 8, and more.
        assert!(found.is_some() && (7..=8).contains(&rounds), "round {rounds}, {found:?}");
        let drain = path.search.drain.unwrap();
        // Three bins of 35 ms at capacity.
        assert_eq!(drain.target, 3 * 7 * 64 * MSS);
    }

    #[test]
    fn the_drain_lets_one_in_three_out_until_the_target() {
        let mut search = Search { drain: Some(Drain { target: 40 * MSS, acked: 0 }), ..Search::default() };
        let mut in_flight = 100 * MSS;
        let mut acked = 0;
        loop {
            // Seven at a time, so that the target is passed and not met.
            in_flight -= 7 * MSS;
            acked += 7;
            let ack = AckSample { in_flight, ..sample(acked, 7 * MSS) };
            let Step::Fall { to, last } = search.on_ack(MSS, &ack) else { panic!("it has begun") };
            in_flight = in_flight.max(to);
            assert_eq!(last, to == 40 * MSS);
            if last {
                break;
            }
        }
        // Two of three segments are missing: 60 are gone after 90.
        assert!((84..=98).contains(&acked), "{acked}");
    }

    #[test]
    fn a_round_trip_longer_than_what_is_remembered_says_nothing_and_a_long_silence_begins_anew() {
        // As in the test of the capacity, but a round trip of 15 bins.
        let mut path = Path::new();
        assert!((0..12).all(|round: u32| path.round(1 << round.min(6), 2 << round, 15 * 35).is_none()));
        let mut path = Path::new();
        for round in 0..6 {
            path.round(1 << round, 2 << round, RTT);
        }
        path.millis += 11 * 35 + 5;
        assert_eq!(path.ack(1, 1, 40), Step::Full);
        assert!(path.search.bin.is_zero());
        path.ack(1, 1, 40);
        assert_eq!(path.search.bin, TimeDelta::from_millis(14));
    }

    #[test]
    fn a_quarter_missing_is_not_enough() {
        for (delivered, found) in [(75, false), (74, true)] {
            let mut path = Path::new();
            // A steady flow: of a hundred segments sent, so many are delivered.
            let end = (0..20).find_map(|_| path.round(delivered, 100, RTT));
            assert_eq!(end.is_some(), found, "{delivered}");
        }
    }
}
