//! Slow start, shared by all algorithms: what an acknowledgement counts for, and how the window doubles.
//!
//! Sources: RFC 5681 section 3.1 (at most SMSS per acknowledgement), RFC 3465 (appropriate byte counting, limit L), Linux
//! tcp_slow_start (every byte counts), RFC 2581 (an acknowledgement counts for one segment), RFC 9406 (HyStart++, in
//! `hystart.rs`), Linux tcp_cubic.c (HyStart, in `hystart_linux.rs`), draft-chung-ccwg-search (SEARCH, in `search.rs`).
//!
//! Departure: RFC 9406 limits a step to 8 segments where the sender does not pace; here the limit is the parameter's, and
//! without one a stretch acknowledgement counts in full, as in Linux.

use warpline_core::parameter::{Parameters, Words};

use super::hystart::{PlusPlus, Step};
use super::hystart_linux::{self, LinuxHystart};
use super::search::Search;
use super::{AckSample, Phase};

/// What an acknowledgement counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum AckCounting {
    /// The bytes it acknowledges (RFC 3465, Linux).
    #[default]
    Bytes,
    /// One segment, however much it acknowledges (RFC 2581, ns-2): with delayed ACKs the window grows half as fast.
    Acks,
}

/// What ends slow start before a loss does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
pub enum Hystart {
    /// Nothing.
    #[default]
    No,
    /// Trains of acknowledgements and a rise of the round-trip time, as in Linux (tcp_cubic.c, hystart_update; Ha and Rhee 2011).
    Linux,
    /// As `linux`, in the form of Linux's CDG: at any window, and from a smaller rise on (tcp_cdg.c, tcp_cdg_hystart_update).
    Cdg,
    /// HyStart++ (RFC 9406): on a rise of the round-trip time slow start goes on more slowly, and ends if the rise lasts.
    Rfc9406,
    /// SEARCH (draft-chung-ccwg-search): what is delivered falls behind what was sent a round trip before. Then the queue is drained.
    Search,
}

/// How slow start goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Parameters)]
pub struct SlowStartParams {
    /// What an acknowledgement counts for when the window grows.
    pub counting: AckCounting,
    /// Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0 for no limit, as in Linux. After a
    /// time-out a limit is 1.
    pub limit: u32,
    /// What ends slow start before a loss does.
    pub hystart: Hystart,
}

/// The state of what ends slow start early.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is boxed as a whole, and only until slow start has ended")]
enum Detector {
    Linux(LinuxHystart),
    PlusPlus(PlusPlus),
    Search(Search),
}

impl Detector {
    fn new(kind: Hystart) -> Option<Box<Self>> {
        match kind {
            Hystart::No => None,
            Hystart::Linux => Some(Box::new(Detector::Linux(LinuxHystart::new(&hystart_linux::CUBIC)))),
            Hystart::Cdg => Some(Box::new(Detector::Linux(LinuxHystart::new(&hystart_linux::CDG)))),
            Hystart::Rfc9406 => Some(Box::new(Detector::PlusPlus(PlusPlus::default()))),
            Hystart::Search => Some(Box::new(Detector::Search(Search::default()))),
        }
    }
}

/// What an acknowledgement does to a window in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// The window grows by so many bytes, up to the threshold.
    By(u64),
    /// Slow start ends here, and so many bytes are left for congestion avoidance.
    Ends(u64),
    /// The window falls to so many bytes, and slow start ends there if that is `last`.
    Falls { to: u64, last: bool },
}

/// The state of slow start on one connection.
#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    limit: u32,
    counting: AckCounting,
    hystart: Hystart,
    /// Only until it has ended slow start; boxed, since a connection does without it for the rest of its life.
    detector: Option<Box<Detector>>,
    /// Highest cumulative acknowledgement (kept when acknowledgements are counted).
    ack: u64,
}

impl SlowStart {
    pub(super) fn new(params: &SlowStartParams) -> Self {
        SlowStart {
            limit: params.limit,
            counting: params.counting,
            hystart: params.hystart,
            detector: Detector::new(params.hystart),
            ack: 0,
        }
    }

    /// The bytes that `ack` counts for; zero where the window must not grow from it.
    #[inline]
    pub(super) fn counted(&mut self, ack: &AckSample) -> u64 {
        let counted = match self.counting {
            AckCounting::Bytes => ack.acked,
            AckCounting::Acks => {
                // A duplicate acknowledgement counts for nothing, whatever its SACK blocks say.
                let advances = ack.ack > self.ack;
                self.ack = self.ack.max(ack.ack);
                if advances { ack.mss } else { 0 }
            }
        };
        if may_grow(ack) { counted } else { 0 }
    }

    /// What `counted` bytes do to a window of `cwnd` bytes that is below its threshold.
    pub(super) fn step(&mut self, cwnd: u64, mss: u64, ack: &AckSample, counted: u64) -> Growth {
        let limit = if self.limit == 0 { u64::MAX } else { u64::from(self.limit) * mss };
        let counted = counted.min(limit);
        let step = match self.detector.as_deref_mut() {
            None => Step::Full,
            Some(Detector::Linux(linux)) => linux.on_ack(cwnd, mss, ack),
            Some(Detector::PlusPlus(plus_plus)) => plus_plus.on_ack(ack),
            Some(Detector::Search(search)) => search.on_ack(mss, ack),
        };
        match step {
            Step::Full => Growth::By(counted),
            Step::Conservative => Growth::By(counted / PlusPlus::GROWTH_DIVISOR),
            Step::Leave => {
                self.detector = None;
                Growth::Ends(counted)
            }
            Step::Fall { to, last } => {
                if last {
                    self.detector = None;
                }
                Growth::Falls { to, last }
            }
        }
    }

    /// What ends slow start early looks at an acknowledgement from which the window does not grow, as Linux's does at every one (tcp_cubic.c,
    /// cubictcp_acked). Returns whether slow start ends here.
    pub(super) fn watch(&mut self, cwnd: u64, mss: u64, ack: &AckSample) -> bool {
        self.detector.is_some()
            && !matches!(ack.phase, Phase::Recovery | Phase::Cwr)
            && matches!(self.step(cwnd, mss, ack, 0), Growth::Ends(_))
    }

    /// The window was reduced. HyStart++ and SEARCH are for the first slow start only (RFC 9406 section 4.3), and in Linux slow
    /// start is over then, too.
    pub(super) fn on_reduction(&mut self) {
        self.detector = None;
    }

    /// A time-out: the slow start after it is limited to one segment per acknowledgement (RFC 3465 section 2.3). Linux watches it as it
    /// did the first (bictcp_reset).
    pub(super) fn on_rto(&mut self) {
        let lasts = matches!(self.hystart, Hystart::Linux | Hystart::Cdg);
        self.detector = if lasts { Detector::new(self.hystart) } else { None };
        self.limit = self.limit.min(1);
    }
}

/// Whether the window may grow from this acknowledgement: it limited sending, and no reduction is under way.
#[inline]
pub(super) fn may_grow(ack: &AckSample) -> bool {
    ack.cwnd_limited && !matches!(ack.phase, Phase::Recovery | Phase::Cwr)
}
