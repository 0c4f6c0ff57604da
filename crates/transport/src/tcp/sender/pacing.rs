//! Pacing: when the next segment may leave, at a rate (Linux `tcp_update_pacing_rate`), where some may leave together (Linux
//! `tcp_tso_autosize`), or in bursts of a window below one segment (TCP Nice section 4: pairs).

use warpline_core::{TimeDelta, Timestamp};

/// The gate of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// Nothing leaves before, except with what left last.
    pub next: Timestamp,
    /// Bytes that may still leave together with what left at `together_at`.
    together: u64,
    together_at: Timestamp,
    /// The gate is closed by a cap on the rate, and not by the window.
    pub capped: bool,
    /// Segments of the current burst that may still leave; only for windows below one segment.
    burst_left: u32,
    /// When the last burst ended, and until when the gate is closed for it.
    burst_ended: Timestamp,
    burst_gate: Timestamp,
}

impl Pacer {
    /// Whether a segment may leave.
    #[inline]
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        now >= self.next || (self.together > 0 && now == self.together_at)
    }

    /// A segment of `bytes` left that takes `span` at the pacing rate. Segments of up to `quantum` bytes may leave at one moment; the gate is
    /// then closed for as long as all of them take. Unused time is not saved up.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Timestamp, span: TimeDelta, bytes: u64, quantum: u64) {
        if now >= self.next {
            (self.together, self.together_at) = (quantum, now);
        }
        self.together = self.together.saturating_sub(bytes);
        if self.together < bytes {
            self.together = 0;
        }
        self.next = self.next.max(now) + span;
    }

    /// A segment left of a burst of `burst`; after the last the gate closes for `interval`.
    pub(super) fn on_sent_in_burst(&mut self, now: Timestamp, burst: u32, interval: TimeDelta) {
        if self.burst_left == 0 {
            self.burst_left = burst;
        }
        self.burst_left -= 1;
        if self.burst_left == 0 {
            self.burst_ended = now;
            self.next = now + interval;
            self.burst_gate = self.next;
        }
    }

    /// The window has changed since the last burst left, so the wait after that is `interval` now. A gate that is
    /// closed for another reason stays as it is.
    pub(super) fn rewait(&mut self, interval: TimeDelta) {
        if self.next == self.burst_gate && self.burst_left == 0 {
            self.next = self.burst_ended + interval;
            self.burst_gate = self.next;
        }
    }

    /// Opens the gate: a time-out may send at once.
    pub(super) fn reset(&mut self) {
        *self = Pacer::default();
    }
}

/// Time between bursts of `burst` segments so that on average `cwnd` bytes leave per RTT: `burst * mss / cwnd * srtt`.
pub(super) fn burst_interval(burst: u32, mss: u64, cwnd: u64, srtt: TimeDelta) -> TimeDelta {
    let nanos = u128::from(srtt.as_nanos()) * u128::from(burst) * u128::from(mss) / u128::from(cwnd.max(1));
    TimeDelta::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_of_a_segment_sends_a_pair_every_32_round_trips() {
        let interval = burst_interval(2, 1600, 100, TimeDelta::from_millis(50));
        assert_eq!(interval, TimeDelta::from_millis(1600));
        let mut pacer = Pacer::default();
        let now = Timestamp::from_secs(1);
        pacer.on_sent_in_burst(now, 2, interval);
        assert!(pacer.is_open(now));
        pacer.on_sent_in_burst(now, 2, interval);
        assert!(!pacer.is_open(now));
        assert!(pacer.is_open(now + interval));
    }

    #[test]
    fn unused_time_is_not_saved_up() {
        let mut pacer = Pacer::default();
        let now = Timestamp::from_secs(1);
        pacer.on_sent(now, TimeDelta::from_millis(1), 1000, 0);
        assert!(!pacer.is_open(now));
        let late = Timestamp::from_secs(2);
        pacer.on_sent(late, TimeDelta::from_millis(1), 1000, 0);
        assert_eq!(pacer.next, late + TimeDelta::from_millis(1));
    }

    #[test]
    fn what_fits_into_the_quantum_leaves_together_and_takes_its_time_together() {
        let mut pacer = Pacer::default();
        let (now, span) = (Timestamp::from_secs(1), TimeDelta::from_millis(1));
        for left in [2, 1, 0] {
            assert!(pacer.is_open(now));
            pacer.on_sent(now, span, 1000, 3999);
            assert_eq!(pacer.is_open(now), left > 0, "3999 bytes hold three segments");
        }
        assert_eq!(pacer.next, now + span * 3);
        // What the window cut short does not go on later.
        let next = pacer.next;
        pacer.on_sent(next, span, 1000, 3999);
        assert!(pacer.is_open(next));
        assert!(!pacer.is_open(next + TimeDelta::from_nanos(1)));
        assert!(pacer.is_open(next + span));
    }
}
