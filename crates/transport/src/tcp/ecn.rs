//! Explicit congestion notification as RFC 3168 section 6.1 has it: negotiation, the echo, and its end.

use warpline_core::Flags;

/// ECN state of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    /// Both sides agreed.
    pub enabled: bool,
    /// Receiver: a CE mark came and no CWR since; every acknowledgement carries ECE (section 6.1.3).
    pub echo: bool,
    /// Sender: the window was reduced; the next new data segment carries CWR (section 6.1.2).
    pub cwr_pending: bool,
}

impl EcnState {
    /// Flags of a SYN that offers ECN (section 6.1.1).
    pub(super) const OFFER: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

    /// A segment arrived: `data` if it carries payload, `ce` if it was marked. Returns whether the mark counts.
    #[inline]
    pub(super) fn on_segment(&mut self, flags: Flags, data: bool, ce: bool) -> bool {
        if !self.enabled {
            return false;
        }
        // CWR first: a mark on the very segment that ends the last echo begins a new one.
        if flags.contains(Flags::CWR) && !flags.contains(Flags::SYN) {
            self.echo = false;
        }
        let marked = ce && data;
        self.echo |= marked;
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_lasts_until_cwr() {
        let mut ecn = EcnState { enabled: true, ..EcnState::default() };
        assert!(ecn.on_segment(Flags::ACK, true, true));
        assert!(!ecn.on_segment(Flags::ACK, true, false));
        assert!(ecn.echo);
        ecn.on_segment(Flags::ACK.with(Flags::CWR), true, false);
        assert!(!ecn.echo);
        ecn.on_segment(Flags::ACK.with(Flags::CWR), true, true);
        assert!(ecn.echo, "a mark on the CWR segment itself is new congestion");
    }

    #[test]
    fn marks_mean_nothing_without_agreement_or_data() {
        let mut ecn = EcnState::default();
        assert!(!ecn.on_segment(Flags::ACK, true, true));
        ecn.enabled = true;
        assert!(!ecn.on_segment(Flags::ACK, false, true));
        assert!(!ecn.echo);
    }
}
