//! Counting round trips by what has been delivered.
//!
//! A round ends with the first acknowledgement of something that was sent after the round began. Counting by delivered
//! bytes needs no sequence numbers and survives retransmissions (draft-cardwell-iccrg-bbr-congestion-control, section
//! "BBR.round_count").

use super::AckSample;

/// Where the present round trip ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Bytes delivered when the round began.
    end: u64,
}

impl Round {
    /// Whether `ack` ends a round (and so begins the next). The first acknowledgement of a connection does.
    #[inline]
    pub(super) fn ends(&mut self, ack: &AckSample) -> bool {
        let ended = ack.prior_delivered >= self.end;
        if ended {
            self.end = ack.delivered;
        }
        ended
    }

    /// Begins a round now.
    pub(super) fn restart(&mut self, ack: &AckSample) {
        self.restart_at(ack.delivered);
    }

    /// Begins a round now that `delivered` bytes have been delivered.
    pub(super) fn restart_at(&mut self, delivered: u64) {
        self.end = delivered;
    }
}
