//! Explicit congestion notification of one connection: what is negotiated, which packets say that they are ECN-capable, what a receiver
//! answers to marks, and what a sender learns from that.
//!
//! Sources: RFC 3168 sections 6.1.1 to 6.1.5 (negotiation, the echo until CWR); RFC 8257 sections 3.2 and 3.6 (DCTCP's echo; ECN-capable SYNs);
//! RFC 9768 (Accurate ECN, AccECN: sections 3.1 and 3.2.2); RFC 9331 section 4.1 (ECT(1) of L4S); Linux `tcp_ecn.h`, `tcp_input.c` and
//! `tcp_dctcp.h` (a congestion control that needs ECN has it, and all its packets are ECN-capable).
//!
//! * [`Feedback::Latched`], RFC 3168: after a mark, every acknowledgement carries ECE until a segment with CWR comes.
//! * [`Feedback::Each`], DCTCP: an acknowledgement carries ECE if the data that it acknowledges came marked. Where a mark follows segments
//!   without, or the other way round, what was waiting to be acknowledged is acknowledged at once, with the echo that belongs to it, and then
//!   the segment itself (RFC 8257 section 3.2; Linux `dctcp_ece_ack_update`).
//!
//! * [`Feedback::Accurate`], RFC 9768: AE, CWR and ECE are the ACE field, which counts marked packets from 5 on, modulo 8. The first of several
//!   marked segments is acknowledged at once, and so is a marked one while others wait (section 3.2.2.5.1). Where an acknowledgement is of so
//!   many packets that the field may have gone round unseen, the sender takes it that it did as often as possible (section 3.2.2.5.2, the safe
//!   algorithm of appendix A.1). The AccECN option (`accecn.rs`) says it in bytes, and where it comes through nothing has to be assumed.
//!
//! The first two look alike in the handshake, so each end chooses for itself how it answers, by its options or its congestion control, as in
//! Linux. The third is offered by all three flags on the SYN. A server that knows it answers with what it saw on the SYN's packet (section
//! 3.1.2, table 2), any other as to RFC 3168's offer; then both do as that says.
//!
//! Departures: a server takes an ECN offer whatever the mark on the SYN's packet; Linux refuses that of an ECN-capable SYN, as DCTCP's is, unless
//! it runs such a congestion control itself. With AccECN, SYNs are not ECN-capable (which section 3.2.2.1 and RFC 9331 let be), and what came on
//! one is fed back as marked or not. Nothing on the path clears flags here, so what finds that out (sections 3.1.4, 3.2.2.3 and 3.2.2.4) is left
//! out. Marks on pure acknowledgements are counted, but cause no acknowledgement of their own.

use warpline_core::parameter::Words;
use warpline_core::{Ecn, Flags};

use super::config::TcpConfig;
use crate::cc::EcnNeed;

/// How a receiver tells the sender of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Words)]
#[non_exhaustive]
pub enum EcnFeedback {
    /// As the congestion control needs it: dctcp for DCTCP, accecn for one of L4S, else rfc3168.
    #[default]
    Auto,
    /// A mark is echoed until the sender has answered (RFC 3168): one signal per round trip.
    Rfc3168,
    /// Every mark is echoed as it came (RFC 8257 section 3.2).
    Dctcp,
    /// Marked packets are counted (Accurate ECN, RFC 9768), if both ends know how; else rfc3168, or dctcp for DCTCP.
    Accecn,
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
    /// By the number of marked packets.
    Accurate,
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
        if !config.ecn && need == EcnNeed::Any {
            return EcnUse::default();
        }
        match (config.ecn_feedback, need) {
            (EcnFeedback::Rfc3168, _) => EcnUse { feedback: Feedback::Latched, ..EcnUse::classic(need) },
            (EcnFeedback::Dctcp, _) => EcnUse { feedback: Feedback::Each, ..EcnUse::classic(need) },
            (EcnFeedback::Auto, EcnNeed::Any | EcnNeed::Each) => EcnUse::classic(need),
            (EcnFeedback::Auto | EcnFeedback::Accecn, EcnNeed::L4s) => {
                EcnUse { feedback: Feedback::Accurate, data: Ecn::Ect1, control: Ecn::Ect1 }
            }
            (EcnFeedback::Accecn, _) => EcnUse { feedback: Feedback::Accurate, ..EcnUse::classic(need) },
        }
    }

    /// What an end does whose peer knows no AccECN. ECT(1) is for L4S alone, which takes accurate feedback (RFC 9331 section 4.1).
    pub(super) fn classic(need: EcnNeed) -> EcnUse {
        match need {
            EcnNeed::Each => EcnUse { feedback: Feedback::Each, data: Ecn::Ect0, control: Ecn::Ect0 },
            EcnNeed::Any | EcnNeed::L4s => {
                EcnUse { feedback: Feedback::Latched, data: Ecn::Ect0, control: Ecn::NotEct }
            }
        }
    }

    /// Whether there is ECN.
    pub(super) fn is_on(&self) -> bool {
        self.feedback != Feedback::Off
    }
    /// Whether marked packets are counted.
    pub(super) fn is_accurate(&self) -> bool {
        self.feedback == Feedback::Accurate
    }
}

/// The ACE field of a connection without marks (RFC 9768 section 3.2.2).
const ACE_START: u8 = 5;

/// The ACE field by which one end says what it saw on the other's SYN (RFC 9768 tables 2 and 3): the mark, or a packet that was not ECN-capable.
pub(super) fn seen_on_syn(ce: bool) -> u8 {
    if ce { 6 } else { 2 }
}

/// What a sender needs of ECN for every segment, in one byte: the codepoint of new data, and the flags by which an acknowledgement says that
/// nothing new was marked.
// Bits 0 and 1: the codepoint. 2 to 4: the ACE field seen last; zero where there is none. 5 to 7: those bits of it that say something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SenderEcn(u8);

impl SenderEcn {
    pub(super) fn new(ecn: &EcnUse) -> SenderEcn {
        let (last, bits) = if ecn.is_accurate() { (ACE_START, 7) } else { (0, 1) };
        SenderEcn(ecn.data as u8 | last << 2 | bits << 5)
    }

    /// Codepoint of new data.
    #[inline]
    pub(super) fn data(self) -> Ecn {
        match self.0 & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    /// Whether there is ECN.
    #[inline]
    pub(super) fn is_on(self) -> bool {
        self.0 & 3 != 0
    }
    /// Whether marked packets are counted.
    #[inline]
    pub(super) fn is_accurate(self) -> bool {
        self.0 >= 7 << 5
    }
    /// Whether an acknowledgement with these flags reports nothing new. Of one for many packets that is not sure with AccECN.
    #[inline]
    pub(super) fn is_quiet(self, flags: Flags) -> bool {
        (flags.ace() ^ self.0 >> 2) & self.0 >> 5 == 0
    }

    /// AccECN: the packets that were marked, by an acknowledgement with these flags that delivers so many packets.
    pub(super) fn count(&mut self, flags: Flags, packets: u32) -> u32 {
        let last = self.0 >> 2 & 7;
        let more = u32::from(flags.ace().wrapping_sub(last) & 7);
        self.0 = self.0 & !(7 << 2) | flags.ace() << 2;
        // The most that leaves this field, where more packets may have been marked than it can tell.
        if packets < 8 { more } else { packets - (packets.wrapping_sub(more) & 7) }
    }
}

/// What a segment's mark did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// It counts as a mark.
    pub marked: bool,
    /// The echo is not what it was, and the difference is to be seen in acknowledgements (RFC 8257 section 3.2).
    pub turned: bool,
    /// It is to be acknowledged at once (RFC 9768 section 3.2.2.5.1).
    pub urgent: bool,
}

/// The receiver's side: what it answers to marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    feedback: Feedback,
    /// The last segment with payload was marked (AccECN).
    marked_last: bool,
    /// Flags that acknowledgements carry now.
    flags: Flags,
}

impl Echo {
    /// The handshake has settled how marks are answered.
    pub(super) fn new(feedback: Feedback) -> Self {
        let start = if feedback == Feedback::Accurate { ACE_START } else { 0 };
        Echo { feedback, marked_last: false, flags: Flags::default().with_ace(start) }
    }
    /// Whether there is ECN.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.feedback != Feedback::Off
    }
    /// Flags that acknowledgements carry now.
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        self.flags
    }
    /// Another marked packet (AccECN).
    fn count(&mut self) {
        self.flags = self.flags.with_ace(self.flags.ace() + 1);
    }
    /// The other side's SYN/ACK arrived, marked if `ce`. Returns what the first acknowledgement says of it; `None` where that is nothing.
    pub(super) fn on_syn_ack(&mut self, ce: bool) -> Option<u8> {
        if self.feedback != Feedback::Accurate {
            return None;
        }
        if ce {
            self.count();
        }
        Some(seen_on_syn(ce))
    }
    /// The echo as it would be with this ACE field.
    pub(super) fn saying(&self, ace: u8) -> Echo {
        Echo { flags: self.flags.with_ace(ace), ..*self }
    }
    /// The echo before the last [turn](Noted::turned).
    pub(super) fn before(&self) -> Echo {
        Echo { flags: Flags(self.flags.0 ^ Flags::ECE.0), ..*self }
    }

    /// A segment arrived: `data` if it carries payload, `ce` if it was marked. `waiting`: data waits to be acknowledged.
    pub(super) fn on_segment(&mut self, flags: Flags, data: bool, ce: bool, waiting: bool) -> Noted {
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
                Noted { marked, ..Noted::default() }
            }
            Feedback::Each if !data => Noted::default(),
            Feedback::Each => {
                let flags = if ce { Flags::ECE } else { Flags::default() };
                Noted {
                    marked: ce,
                    turned: std::mem::replace(&mut self.flags, flags) != flags,
                    urgent: false,
                }
            }
            Feedback::Accurate => {
                if ce {
                    self.count();
                }
                if !data {
                    return Noted::default();
                }
                let first = !std::mem::replace(&mut self.marked_last, ce);
                Noted { marked: ce, turned: false, urgent: ce && (first || waiting) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Noted = Noted { marked: true, turned: false, urgent: false };
    const NONE: Noted = Noted { marked: false, turned: false, urgent: false };

    #[test]
    fn the_latched_echo_lasts_until_cwr() {
        let mut echo = Echo::new(Feedback::Latched);
        assert_eq!(echo.on_segment(Flags::ACK, true, true, false), MARK);
        assert_eq!(echo.on_segment(Flags::ACK, true, false, false), NONE);
        assert_eq!(echo.flags(), Flags::ECE);
        echo.on_segment(Flags::ACK.with(Flags::CWR), true, false, false);
        assert_eq!(echo.flags(), Flags::default());
        echo.on_segment(Flags::ACK.with(Flags::CWR), true, true, false);
        assert_eq!(echo.flags(), Flags::ECE, "a mark on the CWR segment itself is new congestion");
    }

    #[test]
    fn dctcps_echo_is_the_last_segments_mark_and_turns_with_it() {
        let mut echo = Echo::new(Feedback::Each);
        let came = [(true, true), (true, true), (false, true), (false, false), (true, false), (true, true)];
        let noted: Vec<Noted> =
            came.iter().map(|&(ce, data)| echo.on_segment(Flags::ACK, data, ce, false)).collect();
        let turned = |marked| Noted { marked, turned: true, urgent: false };
        assert_eq!(noted, [turned(true), MARK, turned(false), NONE, NONE, turned(true)]);
        assert_eq!((echo.flags(), echo.before().flags()), (Flags::ECE, Flags::default()));
        // CWR means nothing here.
        assert_eq!(echo.on_segment(Flags::ACK.with(Flags::CWR), true, true, false), MARK);
        assert_eq!(echo.flags(), Flags::ECE);
    }

    #[test]
    fn marks_mean_nothing_without_agreement_or_data() {
        assert_eq!(Echo::new(Feedback::Off).on_segment(Flags::ACK, true, true, false), NONE);
        for feedback in [Feedback::Latched, Feedback::Each] {
            let mut echo = Echo::new(feedback);
            assert_eq!(echo.on_segment(Flags::ACK, false, true, false), NONE);
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
        assert_eq!(with(true, F::Accecn, EcnNeed::Any), (Feedback::Accurate, ect0, not));
        assert_eq!(with(true, F::Accecn, EcnNeed::Each), (Feedback::Accurate, ect0, ect0));
        assert_eq!(with(false, F::Auto, EcnNeed::L4s), (Feedback::Accurate, Ecn::Ect1, Ecn::Ect1));
        assert_eq!(with(false, F::Rfc3168, EcnNeed::L4s), (Feedback::Latched, ect0, not));
    }

    #[test]
    fn accurate_feedback_counts_marked_packets_from_five_and_is_in_a_hurry_for_the_first_and_every_second() {
        let mut echo = Echo::new(Feedback::Accurate);
        assert_eq!(echo.flags().ace(), 5);
        let noted: Vec<Noted> = [
            (true, true, false),
            (true, true, false),
            (true, true, true),
            (true, false, true),
            (false, true, false),
        ]
        .iter()
        .map(|&(data, ce, waiting)| echo.on_segment(Flags::ACK, data, ce, waiting))
        .collect();
        let urgent = Noted { urgent: true, ..MARK };
        assert_eq!(noted, [urgent, MARK, urgent, NONE, NONE]);
        // The marked acknowledgement counts, too: three and one, modulo eight.
        assert_eq!((echo.flags(), echo.saying(2).flags()), (Flags::ECE, Flags::CWR));
        assert_eq!(Echo::new(Feedback::Accurate).on_syn_ack(false), Some(2));
        let mut echo = Echo::new(Feedback::Accurate);
        assert_eq!((echo.on_syn_ack(true), echo.flags().ace()), (Some(6), 6));
        assert_eq!(Echo::new(Feedback::Latched).on_syn_ack(true), None);
    }

    #[test]
    fn the_sender_takes_a_counter_that_may_have_gone_round_for_one_that_did() {
        let accurate = EcnUse { feedback: Feedback::Accurate, data: Ecn::Ect1, control: Ecn::Ect1 };
        let mut sender = SenderEcn::new(&accurate);
        let ace = |number: u8| Flags::ACK.with_ace(number);
        assert_eq!((sender.data(), sender.is_on(), sender.is_accurate()), (Ecn::Ect1, true, true));
        assert!(sender.is_quiet(ace(5)) && !sender.is_quiet(ace(6)) && !sender.is_quiet(ace(1)));
        assert_eq!(sender.count(ace(6), 2), 1);
        assert!(sender.is_quiet(ace(6)));
        assert_eq!(sender.count(ace(1), 7), 3, "over the end");
        assert_eq!(sender.count(ace(1), 7), 0);
        assert_eq!(sender.count(ace(1), 8), 8, "all eight, or none");
        assert_eq!(sender.count(ace(3), 9), 2, "ten would be more than there were");
        assert_eq!(sender.count(ace(4), 30), 25);
        assert_eq!(sender.data(), Ecn::Ect1);
        // Without, ECE alone says something.
        for feedback in [Feedback::Off, Feedback::Latched, Feedback::Each] {
            let data = if feedback == Feedback::Off { Ecn::NotEct } else { Ecn::Ect0 };
            let sender = SenderEcn::new(&EcnUse { feedback, data, control: Ecn::NotEct });
            assert_eq!((sender.data(), sender.is_accurate()), (data, false));
            assert!(sender.is_quiet(Flags::CWR.with(Flags::ACK)) && !sender.is_quiet(Flags::ECE));
        }
    }
}
