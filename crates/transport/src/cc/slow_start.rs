//! Slow start, shared by all algorithms: what an acknowledgement counts for, and how the window doubles.
//!
//! Sources: RFC 5681 section 3.1 (at most SMSS per acknowledgement), RFC 3465 (appropriate byte counting, limit L), Linux
//! tcp_slow_start (every byte counts), RFC 2581 (an acknowledgement counts for one segment), RFC 9406 (HyStart++, in
//! `hystart.rs`), Linux tcp_cubic.c (HyStart, in `hystart_linux.rs`).
//!
//! Departure: RFC 9406 limits a step to 8 segments where the sender does not pace; here the limit is the parameter's, and
//! without one a stretch acknowledgement counts in full, as in Linux.

use warpline_core::parameter::{Parameters, Words};

use super::hystart::{PlusPlus, Step};
use super::hystart_linux::LinuxHystart;
use super::window::Window;
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
    /// HyStart++ (RFC 9406): on a rise of the round-trip time slow start goes on more slowly, and ends if the rise lasts.
    Rfc9406,
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
enum Detector {
    Linux(LinuxHystart),
    PlusPlus(PlusPlus),
}

impl Detector {
    fn new(kind: Hystart) -> Option<Box<Self>> {
        match kind {
            Hystart::No => None,
            Hystart::Linux => Some(Box::new(Detector::Linux(LinuxHystart::default()))),
            Hystart::Rfc9406 => Some(Box::new(Detector::PlusPlus(PlusPlus::default()))),
        }
    }
}

/// The state of slow start on one connection.
#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    limit: u32,
    counting: AckCounting,
    hystart: Hystart,
    /// Only until it has ended slow start; boxed so that it does not weigh on the rest of the connection's life.
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

    /// Grows the window while it is below the threshold. Returns the bytes left for congestion avoidance.
    #[inline]
    pub(super) fn on_ack(&mut self, window: &mut Window, ack: &AckSample, counted: u64) -> u64 {
        if !window.in_slow_start() { counted } else { self.step(window, ack, counted) }
    }

    fn step(&mut self, window: &mut Window, ack: &AckSample, counted: u64) -> u64 {
        let limit = if self.limit == 0 { u64::MAX } else { u64::from(self.limit) * window.mss };
        let mut counted = counted.min(limit);
        if let Some(detector) = &mut self.detector {
            let step = match &mut **detector {
                Detector::Linux(linux) => linux.on_ack(window, ack),
                Detector::PlusPlus(plus_plus) => plus_plus.on_ack(ack),
            };
            match step {
                Step::Full => {}
                Step::Conservative => counted /= PlusPlus::GROWTH_DIVISOR,
                Step::Leave => {
                    window.ssthresh = window.cwnd.max(2 * window.mss);
                    self.detector = None;
                    return counted;
                }
            }
        }
        window.slow_start(counted)
    }

    /// The window was reduced: HyStart++ is for the first slow start only (RFC 9406 section 4.3); and in Linux slow start is over, too.
    pub(super) fn on_reduction(&mut self) {
        self.detector = None;
    }

    /// A time-out: the slow start after it is limited to one segment per acknowledgement (RFC 3465 section 2.3). Linux watches it as it
    /// did the first (bictcp_reset).
    pub(super) fn on_rto(&mut self) {
        self.detector = if self.hystart == Hystart::Linux { Detector::new(Hystart::Linux) } else { None };
        self.limit = self.limit.min(1);
    }
}

/// Whether the window may grow from this acknowledgement: it limited sending, and no reduction is under way.
#[inline]
pub(super) fn may_grow(ack: &AckSample) -> bool {
    ack.cwnd_limited && !matches!(ack.phase, Phase::Recovery | Phase::Cwr)
}
