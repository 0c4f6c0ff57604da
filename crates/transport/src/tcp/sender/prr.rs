//! Proportional rate reduction (RFC 6937; RFC 9937, with its slow-start reduction bound): how the window is approached while
//! a reduction is under way.

/// State of one reduction. Bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// The window to arrive at.
    target: u64,
    /// Bytes in flight when the reduction began (RecoverFS).
    flight: u64,
    delivered: u64,
    sent: u64,
    /// Window in force.
    pub cwnd: u64,
}

impl Prr {
    /// A reduction to `target` begins with `flight` bytes outstanding that are yet to be delivered or lost.
    pub(super) fn begin(target: u64, flight: u64, in_flight: u64) -> Prr {
        Prr { target, flight: flight.max(1), delivered: 0, sent: 0, cwnd: in_flight }
    }

    /// An acknowledgement delivered `delivered` bytes. `safe` when it advanced the cumulative acknowledgement and showed no
    /// further loss (RFC 9937 SafeACK).
    pub(super) fn on_ack(&mut self, delivered: u64, safe: bool, in_flight: u64, mss: u64) {
        self.delivered += delivered;
        let allowance = if in_flight > self.target {
            self.due().saturating_sub(self.sent)
        } else {
            let mut grant = self.delivered.saturating_sub(self.sent).max(delivered);
            if safe {
                grant += mss;
            }
            grant.min(self.target - in_flight)
        };
        // The fast retransmit goes out whatever the rest says; and with nothing in flight there would be no more
        // acknowledgements to clock anything out.
        let forced = self.sent == 0 || in_flight == 0;
        self.cwnd = in_flight + if forced { allowance.max(mss) } else { allowance };
    }

    /// What is to have been sent by now for the window to fall in proportion: `delivered * target / flight`, rounded up.
    fn due(&self) -> u64 {
        match self.delivered.checked_mul(self.target) {
            // Almost always: a division of 128 bits takes much longer.
            Some(product) => product.div_ceil(self.flight),
            None => {
                let product = u128::from(self.delivered) * u128::from(self.target);
                product.div_ceil(u128::from(self.flight)) as u64
            }
        }
    }

    /// `bytes` were sent.
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_in_a_hundred_arrives_at_the_target_evenly() {
        // RFC 6937 section 4's first example: 1 loss, cwnd halves.
        let mss = 1000;
        let mut in_flight = 96 * mss;
        let mut prr = Prr::begin(50 * mss, 100 * mss, in_flight);
        let mut sent = 0;
        for _ in 0..96 {
            in_flight -= mss;
            prr.on_ack(mss, false, in_flight, mss);
            while in_flight + mss <= prr.cwnd {
                in_flight += mss;
                sent += 1;
                prr.on_sent(mss);
            }
        }
        assert!((48..=51).contains(&sent), "{sent} segments for 96 acknowledgements");
        assert!(in_flight <= 50 * mss && in_flight >= 48 * mss, "{in_flight}");
    }

    #[test]
    fn heavy_loss_grows_back_to_the_target_by_slow_start_only_when_safe() {
        let mss = 1000;
        for (safe, expected) in [(true, 3), (false, 2)] {
            let mut prr = Prr::begin(10 * mss, 20 * mss, 2 * mss);
            prr.on_sent(mss);
            prr.on_ack(mss, safe, 2 * mss, mss);
            let grant = (prr.cwnd - 2 * mss) / mss;
            assert_eq!(grant, expected - 1, "safe {safe}");
        }
    }

    #[test]
    fn nothing_in_flight_never_stops_the_clock() {
        let mut prr = Prr::begin(1000, 20_000, 0);
        prr.on_sent(5000);
        prr.on_ack(1, false, 0, 1000);
        assert!(prr.cwnd >= 1000);
    }
}
