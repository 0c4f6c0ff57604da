//! The SYN exchange (RFC 9293 section 3.5): what is offered, and what both sides agree on.

use std::sync::Arc;

use warpline_core::{Ecn, Flags, Segment, SynOptions};

use super::config::TcpConfig;
use super::ecn::{EcnUse, seen_on_syn};
use crate::cc::EcnNeed;

/// Flags of a SYN that offers ECN (RFC 3168 section 6.1.1).
const ECN_OFFER: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);
/// Flags of a SYN that offers Accurate ECN (RFC 9768 section 3.1.1).
const ACCURATE_OFFER: Flags = Flags(ECN_OFFER.0 | Flags::AE.0);
/// Smallest MSS that is taken from a router, as in Linux (`tcp_min_snd_mss`): less would be a packet for a few bytes.
const MIN_MSS: u32 = 48;
/// Bytes of the timestamps option with its padding.
const TIMESTAMPS: u32 = 12;

/// What both sides agreed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    pub timestamps: bool,
    /// Shift of our windows; none if windows are not scaled.
    pub scale: Option<u8>,
    /// Selective acknowledgements.
    pub sack: bool,
    pub ecn: EcnUse,
    /// Acknowledgements carry the AccECN option.
    pub accecn_option: bool,
    /// Payload of a full segment that we send.
    pub payload: u64,
}

/// Our side of the exchange.
#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<TcpConfig>,
    /// What our congestion control needs of ECN.
    need: EcnNeed,
    /// The other side's SYN was marked.
    marked: bool,
    /// Largest segment that we send or ask for: less than was configured if the path takes less.
    mss: u32,
    sent: bool,
    agreed: Option<Agreed>,
}

impl Handshake {
    pub(super) fn new(config: Arc<TcpConfig>, need: EcnNeed) -> Self {
        let mss = config.mss.0.min(u64::from(u32::MAX)) as u32;
        Handshake { mss, config, need, marked: false, sent: false, agreed: None }
    }

    /// ECN as we want it.
    fn wanted(&self) -> EcnUse {
        EcnUse::wanted(&self.config, self.need)
    }

    pub(super) fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// ECN codepoint of the SYN, or of the SYN/ACK if it is an answer.
    pub(super) fn codepoint(&self, answer: bool) -> Ecn {
        let ecn = self.agreed.filter(|_| answer).map_or_else(|| self.wanted(), |agreed| agreed.ecn);
        if ecn.is_accurate() { Ecn::NotEct } else { ecn.control }
    }

    /// The SYN, or the SYN/ACK if it is an answer; and whether it was sent before. `header` has the receiver's fields.
    pub(super) fn make(&mut self, answer: bool, header: Segment) -> (Segment, bool) {
        let offered = self.config.window_scaling.then(|| wanted_scale(&self.config));
        let (ecn, window_scale, sack_permitted) = match self.agreed.filter(|_| answer) {
            // A SYN/ACK has an option only if the SYN had it.
            Some(agreed) => {
                let ecn = match agreed.ecn.is_on() {
                    // What came on the other side's SYN (RFC 9768 table 2).
                    true if agreed.ecn.is_accurate() => Flags::default().with_ace(seen_on_syn(self.marked)),
                    true => Flags::ECE,
                    false => Flags::default(),
                };
                (ecn, agreed.scale, agreed.sack)
            }
            None => {
                let wanted = self.wanted();
                let ecn = match wanted.is_on() {
                    true if wanted.is_accurate() => ACCURATE_OFFER,
                    true => ECN_OFFER,
                    false => Flags::default(),
                };
                (ecn, offered, self.config.sack)
            }
        };
        let flags = if answer { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        let syn = SynOptions { mss: self.mss.min(65_535) as u16, window_scale, sack_permitted };
        let segment = Segment { syn, flags: flags.with(ecn), ..header };
        (segment, std::mem::replace(&mut self.sent, true))
    }

    /// ECN by the other side's SYN or SYN/ACK.
    fn agree_on_ecn(&self, flags: Flags) -> EcnUse {
        let wanted = self.wanted();
        let classic = if wanted.is_accurate() { EcnUse::classic(self.need) } else { wanted };
        match (flags.contains(Flags::ACK), flags.ace()) {
            (_, 0) => EcnUse::default(),
            // A SYN: all but the two older offers are the newest (RFC 9768 section 3.1.2), and who does not know that sees RFC 3168's two flags
            // (section 6.1.1).
            (false, ace) if ace != ECN_OFFER.ace() && wanted.is_accurate() => wanted,
            (false, _) if flags.contains(ECN_OFFER) => classic,
            (false, _) => EcnUse::default(),
            // A SYN/ACK: ECE without CWR is RFC 3168's, all that is left but the offer itself RFC 9768's (table 2).
            (true, 1 | 5) => classic,
            (true, 2 | 3 | 4 | 6) if wanted.is_accurate() => wanted,
            (true, _) => EcnUse::default(),
        }
    }

    /// The other side's SYN, whose packet was marked if `ce`: what it offers, and what is agreed.
    pub(super) fn on_syn(&mut self, segment: &Segment, ce: bool) -> Agreed {
        self.marked = ce;
        let config = &*self.config;
        let timestamps = config.timestamps && segment.timestamps.is_some();
        let scaled = config.window_scaling && segment.syn.window_scale.is_some();
        let peer_mss = if segment.syn.mss == 0 { 536 } else { u32::from(segment.syn.mss) };
        let ecn = self.agree_on_ecn(segment.flags);
        let agreed = Agreed {
            timestamps,
            scale: scaled.then(|| wanted_scale(config)),
            sack: config.sack && segment.syn.sack_permitted,
            ecn,
            accecn_option: ecn.is_accurate() && config.accecn_option,
            payload: payload(self.mss.min(peer_mss), timestamps),
        };
        self.agreed = Some(agreed);
        agreed
    }

    /// Lowers the largest segment to `mss` bytes, also in a SYN that is still to be sent. Returns the payload of a
    /// full segment, if that changes.
    pub(super) fn reduce_mss(&mut self, mss: u32) -> Option<u64> {
        let mss = mss.max(MIN_MSS);
        if mss >= self.mss {
            return None;
        }
        self.mss = mss;
        let timestamps = self.agreed.map_or(self.config.timestamps, |agreed| agreed.timestamps);
        Some(payload(mss, timestamps))
    }
}

/// Payload of a full segment of `mss` bytes.
fn payload(mss: u32, timestamps: bool) -> u64 {
    u64::from(mss.saturating_sub(if timestamps { TIMESTAMPS } else { 0 }).max(1))
}

/// Window scale to offer for this buffer (RFC 7323 section 2.2).
fn wanted_scale(config: &TcpConfig) -> u8 {
    (0..14).find(|&shift| config.receive_buffer.0 >> shift <= 65_535).unwrap_or(14)
}
