//! RACK: loss found by time (RFC 8985 section 6). The state, the reordering window, and when a segment counts as lost.

use warpline_core::{TimeDelta, Timestamp};

use super::sent::Sent;

/// RACK state of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// Send time of the most recently sent segment that was delivered.
    xmit_at: Timestamp,
    /// One past its last byte.
    end: u64,
    /// Whether it was a retransmission.
    again: bool,
    /// Its RTT.
    rtt: TimeDelta,
    /// Whether reordering was seen on this connection.
    reordering_seen: bool,
    /// Multiple of a quarter of the smallest RTT.
    window_multiple: u32,
    /// Recoveries left until the multiple falls back to 1.
    window_persist: u32,
    /// The current D-SACK round ends when this is acknowledged; zero for none.
    dsack_round: u64,
    /// The reordering window in force.
    pub window: TimeDelta,
}

impl Rack {
    pub(super) const fn new() -> Self {
        Rack {
            xmit_at: Timestamp::ZERO,
            end: 0,
            again: false,
            rtt: TimeDelta::ZERO,
            reordering_seen: false,
            window_multiple: 1,
            window_persist: 16,
            dsack_round: 0,
            window: TimeDelta::ZERO,
        }
    }

    /// Step 2: whether it is known which transmission of a segment was delivered now. Of one sent more than once it is the last only if the
    /// echoed timestamp is not older, and the RTT not below the smallest seen.
    #[inline]
    pub(super) fn is_known(now: Timestamp, sent: &Sent, echo: Option<u32>, min_rtt: TimeDelta) -> bool {
        if !sent.was_retransmitted() {
            return true;
        }
        let sent_ms = sent.sent_at.as_millis() as u32;
        let older = echo.is_some_and(|echo| (echo.wrapping_sub(sent_ms) as i32) < 0);
        !older && now.saturating_since(sent.sent_at) >= min_rtt
    }

    /// Steps 1 and 2: `newest` is the most recently sent segment that this acknowledgement delivered, of those whose transmission
    /// [is known](Self::is_known).
    #[inline]
    pub(super) fn advance(&mut self, now: Timestamp, newest: &Sent) {
        self.rtt = now.saturating_since(newest.sent_at);
        if (newest.sent_at, newest.end()) > (self.xmit_at, self.end) {
            self.xmit_at = newest.sent_at;
            self.end = newest.end();
            self.again = newest.was_retransmitted();
        }
    }

    /// Step 3: a segment that was sent once was delivered after one above it.
    pub(super) fn note_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Step 4, on a D-SACK: the window widens by a quarter of the smallest RTT, once per round trip.
    pub(super) fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round == 0 || una >= self.dsack_round {
            self.dsack_round = nxt;
            self.window_multiple = (self.window_multiple + 1).min(1 << 16);
            self.window_persist = 16;
        }
    }

    /// Step 4, at the end of a recovery: after sixteen without D-SACK the window narrows again.
    pub(super) fn on_recovery_exit(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
        if self.window_persist == 0 {
            self.window_multiple = 1;
        }
    }

    /// Step 4: the window. `immediate` when in recovery, or when as many segments are selectively acknowledged as duplicate
    /// acknowledgements would show a loss: then no time is given unless reordering was seen.
    pub(super) fn update_window(&mut self, immediate: bool, min_rtt: TimeDelta, srtt: TimeDelta) {
        self.window = if immediate && !self.reordering_seen {
            TimeDelta::ZERO
        } else {
            (min_rtt * u64::from(self.window_multiple) / 4).min(srtt)
        };
    }

    /// Step 5: whether `segment` was sent before the segment that was delivered most recently. If both were sent at
    /// the same instant, the sequence decides. It says nothing about a retransmission and new data: these count as
    /// sent together.
    #[inline]
    pub(super) fn sent_before(&self, segment: &Sent) -> bool {
        if segment.sent_at == self.xmit_at {
            return segment.end() < self.end && segment.was_retransmitted() == self.again;
        }
        segment.sent_at < self.xmit_at
    }

    /// Step 5: when `segment` will count as lost.
    #[inline]
    pub(super) fn lost_at(&self, segment: &Sent) -> Timestamp {
        segment.sent_at + self.rtt + self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at: u64, end: u64) -> Sent {
        Sent {
            seq: end - 1000,
            len: 1000,
            sent_at: Timestamp::from_millis(at),
            first_sent_at: Timestamp::from_millis(at),
            ..Sent::default()
        }
    }

    #[test]
    fn order_of_sending_decides_with_the_sequence_as_tie_break() {
        let mut rack = Rack::new();
        rack.advance(Timestamp::from_millis(150), &sent(100, 3000));
        assert!(rack.sent_before(&sent(99, 9000)));
        assert!(rack.sent_before(&sent(100, 2000)));
        assert!(!rack.sent_before(&sent(100, 4000)));
        rack.update_window(true, TimeDelta::from_millis(40), TimeDelta::from_millis(50));
        assert_eq!(rack.lost_at(&sent(100, 2000)), Timestamp::from_millis(150));
        rack.update_window(false, TimeDelta::from_millis(40), TimeDelta::from_millis(50));
        assert_eq!(rack.lost_at(&sent(100, 2000)), Timestamp::from_millis(160));
    }

    #[test]
    fn an_acknowledgement_of_an_earlier_transmission_is_ignored() {
        let mut segment = sent(100, 3000);
        segment.flags = Sent::RETRANSMITTED;
        let min_rtt = TimeDelta::from_millis(40);
        let known = |now, echo| Rack::is_known(Timestamp::from_millis(now), &segment, echo, min_rtt);
        assert!(!known(150, Some(99)), "the echo is older than the retransmission");
        assert!(!known(110, Some(100)), "no RTT is shorter than the smallest");
        assert!(known(150, Some(100)) && known(150, None));
        assert!(
            Rack::is_known(Timestamp::from_millis(110), &sent(100, 3000), Some(99), min_rtt),
            "it was sent once"
        );
    }

    #[test]
    fn the_window_widens_once_per_round_and_narrows_after_sixteen_recoveries() {
        let (min, srtt) = (TimeDelta::from_millis(40), TimeDelta::from_millis(100));
        let mut rack = Rack::new();
        rack.note_reordering();
        rack.on_dsack(1000, 5000);
        rack.on_dsack(2000, 6000);
        rack.update_window(true, min, srtt);
        assert_eq!(rack.window, TimeDelta::from_millis(20));
        for _ in 0..8 {
            rack.on_dsack(7000, 7000);
        }
        rack.update_window(true, min, srtt);
        assert_eq!(rack.window, srtt, "bounded by the smoothed RTT");
        for _ in 0..16 {
            rack.on_recovery_exit();
        }
        rack.update_window(true, min, srtt);
        assert_eq!(rack.window, TimeDelta::from_millis(10));
    }
}
