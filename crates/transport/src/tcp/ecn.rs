//! The receiver's side of explicit congestion notification (RFC 3168 section 6.1.3): the echo, and its end.

use warpline_core::Flags;

/// Whether marks are echoed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    /// Both sides agreed.
    enabled: bool,
    /// A CE mark came and no CWR since; every acknowledgement carries ECE.
    on: bool,
}

impl Echo {
    /// The handshake has settled whether ECN is used.
    pub(super) fn new(enabled: bool) -> Self {
        Echo { enabled, on: false }
    }
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// A segment arrived: `data` if it carries payload, `ce` if it was marked. Returns whether the mark counts.
    #[inline]
    pub(super) fn on_segment(&mut self, flags: Flags, data: bool, ce: bool) -> bool {
        if !self.enabled {
            return false;
        }
        // CWR first: a mark on the very segment that ends the last echo begins a new one.
        if flags.contains(Flags::CWR) && !flags.contains(Flags::SYN) {
            self.on = false;
        }
        let marked = ce && data;
        self.on |= marked;
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_lasts_until_cwr() {
        let mut echo = Echo::new(true);
        assert!(echo.on_segment(Flags::ACK, true, true));
        assert!(!echo.on_segment(Flags::ACK, true, false));
        assert!(echo.is_on());
        echo.on_segment(Flags::ACK.with(Flags::CWR), true, false);
        assert!(!echo.is_on());
        echo.on_segment(Flags::ACK.with(Flags::CWR), true, true);
        assert!(echo.is_on(), "a mark on the CWR segment itself is new congestion");
    }

    #[test]
    fn marks_mean_nothing_without_agreement_or_data() {
        assert!(!Echo::new(false).on_segment(Flags::ACK, true, true));
        let mut echo = Echo::new(true);
        assert!(!echo.on_segment(Flags::ACK, false, true));
        assert!(!echo.is_on());
    }
}
