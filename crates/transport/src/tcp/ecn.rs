//! Explicit congestion notification of one connection: what is negotiated, which packets say that they are ECN-capable, and what a receiver
//! answers to marks.
//!
//! Sources: RFC 3168 sections 6.1.1 to 6.1.5 (negotiation, the echo until CWR); RFC 8257 sections 3.2 and 3.6 (DCTCP's echo; ECN-capable SYNs);
//! Linux `tcp_input.c` and `tcp_dctcp.h` (a congestion control that needs ECN has it, and all its packets are ECN-capable).
//!
//! * [`Feedback::Latched`], RFC 3168: after a mark, every acknowledgement carries ECE until a segment with CWR comes.
//! * [`Feedback::Each`], DCTCP: an acknowledgement carries ECE if the data that it acknowledges came marked. Where a mark follows segments
//!   without, or the other way round, what was waiting to be acknowledged is acknowledged at once, with the echo that belongs to it, and then
//!   the segment itself (RFC 8257 section 3.2; Linux `dctcp_ece_ack_update`).
//!
//! The two look alike in the handshake, so each end chooses for itself how it answers, by its options or its congestion control, as in
//! Linux.
//!
//! Departure: a server takes an ECN offer whatever the mark on the SYN's packet; Linux refuses that of an ECN-capable SYN, as DCTCP's is, unless
//! it runs such a congestion control itself.

use warpline_core::parameter::Words;
use warpline_core::{Ecn, Flags};

use super::config::TcpConfig;
use crate::cc::EcnNeed;

/// How a receiver tells the sender of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Words)]
#[non_exhaustive]
pub enum EcnFeedback {
    /// As the congestion control needs it: dctcp for DCTCP, else rfc3168.
    #[default]
    Auto,
    /// A mark is echoed until the sender has answered (RFC 3168): one signal per round trip.
    Rfc3168,
    /// Every mark is echoed as it came (RFC 8257 section 3.2).
    Dctcp,
}

/// How marks come back on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Feedback {
    /// Not at all: no ECN.
    #[default]
    Off,
    /// By ECE until CWR.
    Latched,
    /// By ECE on what acknowledges the marked data.
    Each,
}

/// ECN as one end wants it, or, once that is settled, as it uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EcnUse {
    /// How this end answers to marks.
    pub feedback: Feedback,
    /// Codepoint of new data.
    pub data: Ecn,
    /// Codepoint of all else: pure acknowledgements, retransmissions, probes, SYNs and resets. RFC 3168 has none there (sections 6.1.4 to
    /// 6.1.6); where all traffic is ECN-capable, packets without are the first to be dropped (RFC 8257 section 3.6).
    pub control: Ecn,
}

impl EcnUse {
    /// What an end wants whose congestion control has this need.
    pub(super) fn wanted(config: &TcpConfig, need: EcnNeed) -> EcnUse {
        let needed = need != EcnNeed::Any;
        if !config.ecn && !needed {
            return EcnUse::default();
        }
        let feedback = match config.ecn_feedback {
            EcnFeedback::Rfc3168 => Feedback::Latched,
            EcnFeedback::Dctcp => Feedback::Each,
            EcnFeedback::Auto if needed => Feedback::Each,
            EcnFeedback::Auto => Feedback::Latched,
        };
        EcnUse { feedback, data: Ecn::Ect0, control: if needed { Ecn::Ect0 } else { Ecn::NotEct } }
    }

    /// Whether there is ECN.
    pub(super) fn is_on(&self) -> bool {
        self.feedback != Feedback::Off
    }
}

/// What a segment's mark did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// It counts as a mark.
    pub marked: bool,
    /// The echo is not what it was, and the difference is to be seen in acknowledgements (RFC 8257 section 3.2).
    pub turned: bool,
}

/// The receiver's side: what it answers to marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    feedback: Feedback,
    /// Flags that acknowledgements carry now.
    flags: Flags,
}

impl Echo {
    /// The handshake has settled how marks are answered.
    pub(super) fn new(feedback: Feedback) -> Self {
        Echo { feedback, flags: Flags::default() }
    }
    /// Flags that acknowledgements carry now.
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        self.flags
    }
    /// The echo before the last [turn](Noted::turned).
    pub(super) fn before(&self) -> Echo {
        Echo { flags: Flags(self.flags.0 ^ Flags::ECE.0), ..*self }
    }

    /// A segment arrived: `data` if it carries payload, `ce` if it was marked.
    #[inline]
    pub(super) fn on_segment(&mut self, flags: Flags, data: bool, ce: bool) -> Noted {
        match self.feedback {
            Feedback::Off => Noted::default(),
            Feedback::Latched => {
                // CWR first: a mark on the very segment that ends the last echo begins a new one.
                if flags.contains(Flags::CWR) && !flags.contains(Flags::SYN) {
                    self.flags = Flags::default();
                }
                let marked = ce && data;
                if marked {
                    self.flags = Flags::ECE;
                }
                Noted { marked, turned: false }
            }
            Feedback::Each if !data => Noted::default(),
            Feedback::Each => {
                let flags = if ce { Flags::ECE } else { Flags::default() };
                Noted { marked: ce, turned: std::mem::replace(&mut self.flags, flags) != flags }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Noted = Noted { marked: true, turned: false };
    const NONE: Noted = Noted { marked: false, turned: false };

    #[test]
    fn the_latched_echo_lasts_until_cwr() {
        let mut echo = Echo::new(Feedback::Latched);
        assert_eq!(echo.on_segment(Flags::ACK, true, true), MARK);
        assert_eq!(echo.on_segment(Flags::ACK, true, false), NONE);
        assert_eq!(echo.flags(), Flags::ECE);
        echo.on_segment(Flags::ACK.with(Flags::CWR), true, false);
        assert_eq!(echo.flags(), Flags::default());
        echo.on_segment(Flags::ACK.with(Flags::CWR), true, true);
        assert_eq!(echo.flags(), Flags::ECE, "a mark on the CWR segment itself is new congestion");
    }

    #[test]
    fn dctcps_echo_is_the_last_segments_mark_and_turns_with_it() {
        let mut echo = Echo::new(Feedback::Each);
        let came = [(true, true), (true, true), (false, true), (false, false), (true, false), (true, true)];
        let noted: Vec<Noted> =
            came.iter().map(|&(ce, data)| echo.on_segment(Flags::ACK, data, ce)).collect();
        let turned = |marked| Noted { marked, turned: true };
        assert_eq!(noted, [turned(true), MARK, turned(false), NONE, NONE, turned(true)]);
        assert_eq!((echo.flags(), echo.before().flags()), (Flags::ECE, Flags::default()));
        // CWR means nothing here.
        assert_eq!(echo.on_segment(Flags::ACK.with(Flags::CWR), true, true), MARK);
        assert_eq!(echo.flags(), Flags::ECE);
    }

    #[test]
    fn marks_mean_nothing_without_agreement_or_data() {
        assert_eq!(Echo::new(Feedback::Off).on_segment(Flags::ACK, true, true), NONE);
        for feedback in [Feedback::Latched, Feedback::Each] {
            let mut echo = Echo::new(feedback);
            assert_eq!(echo.on_segment(Flags::ACK, false, true), NONE);
            assert_eq!(echo.flags(), Flags::default());
        }
    }

    #[test]
    fn a_congestion_control_that_needs_ecn_has_it_and_the_option_says_how_marks_come_back() {
        let with = |ecn, ecn_feedback, need| {
            let config = TcpConfig { ecn, ecn_feedback, ..TcpConfig::default() };
            let EcnUse { feedback, data, control } = EcnUse::wanted(&config, need);
            (feedback, data, control)
        };
        use EcnFeedback as F;
        let (not, ect0) = (Ecn::NotEct, Ecn::Ect0);
        assert_eq!(with(false, F::Dctcp, EcnNeed::Any), (Feedback::Off, not, not));
        assert_eq!(with(true, F::Auto, EcnNeed::Any), (Feedback::Latched, ect0, not));
        assert_eq!(with(true, F::Dctcp, EcnNeed::Any), (Feedback::Each, ect0, not));
        assert_eq!(with(false, F::Auto, EcnNeed::Each), (Feedback::Each, ect0, ect0));
        assert_eq!(with(true, F::Rfc3168, EcnNeed::Each), (Feedback::Latched, ect0, ect0));
    }
}
