//! How much a subflow carries between two losses, which coupled congestion control goes by.

/// Bytes acknowledged between losses: OLIA's l1 and l2 (Linux's former multipath tree, net/mptcp/mptcp_olia.c, `mptcp_loss1` to `mptcp_loss3`).
#[derive(Clone, Copy, Debug, Default)]
pub struct LossIntervals {
    /// Bytes acknowledged so far, and when the last two losses were found.
    acked: u64,
    last: u64,
    before: u64,
    /// Losses counted so far.
    losses: u64,
}

impl LossIntervals {
    /// `acked` bytes have been acknowledged so far, and `losses` losses found. Those between which nothing was acknowledged are one.
    pub fn update(&mut self, acked: u64, losses: u64) {
        self.acked = acked;
        if losses > self.losses {
            self.losses = losses;
            if self.acked > self.last {
                (self.before, self.last) = (self.last, self.acked);
            }
        }
    }

    /// Bytes between the last two losses, or since the last one if that is more.
    pub fn larger(&self) -> u64 {
        (self.acked - self.last).max(self.last - self.before)
    }
}
