//! The episodes of a sender, each with the state that belongs to it. A new episode replaces the one before together
//! with its state.

use super::prr::Prr;
use crate::cc::Phase;

/// Signs of a loss that is not declared yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// Duplicate acknowledgements in a row. With SACK they are not counted.
    pub dupacks: u32,
    /// Bytes outstanding when the first sign came: RFC 5681's FlightSize, without limited transmit. Zero if not known.
    pub flight: u64,
}

/// The episode that a sender is in.
// The tag has a place of its own and the order of `Phase`, since every acknowledgement reads the phase.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Episode {
    /// Nothing is wrong. The signs are those of the acknowledgement in hand.
    Open(Signs),
    /// Something is missing or was reordered.
    Disorder(Signs),
    /// The window was reduced for an ECN echo.
    Cwr {
        /// It lasts until more than this is acknowledged: only then has the CWR flag reached the receiver.
        end: u64,
        signs: Signs,
        prr: Option<Prr>,
    },
    /// Fast recovery, until `Sender::recover` is acknowledged.
    Recovery(Recovery),
    /// Everything goes out again in slow start, until `Sender::recover` is acknowledged.
    Loss {
        /// The next retransmission goes out whatever the window says.
        force: bool,
        frto: Frto,
    },
}

/// How far it is found out whether a time-out was spurious (F-RTO, RFC 5682).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Frto {
    /// It is not, or it was genuine.
    Off,
    /// The next acknowledgement tells more.
    Watching,
    /// New data goes out first, and what counts as lost waits for the next acknowledgement.
    NewData,
}

/// A fast recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// How the window is approached, if not at once.
    pub prr: Option<Prr>,
    /// The next retransmission goes out whatever the window says (fast retransmit, partial acknowledgement).
    pub force: bool,
    /// What counts as lost waits for the next acknowledgement, which may show that it is not.
    pub hold: bool,
    /// The rescue retransmission was sent (RFC 6675): one per recovery.
    pub rescued: bool,
    /// Without SACK: a partial acknowledgement has come, so that a retransmission is always under way (RFC 6582 section 3.2 step 3).
    pub partial: bool,
}

impl Episode {
    /// Nothing is wrong, and there are no signs of a loss.
    pub(super) const OPEN: Episode = Episode::Open(Signs { dupacks: 0, flight: 0 });

    /// A recovery begins.
    pub(super) fn recovery(prr: Option<Prr>) -> Episode {
        Episode::Recovery(Recovery { prr, force: true, hold: false, rescued: false, partial: false })
    }

    /// Its name in the interface of congestion control.
    #[inline]
    pub(super) fn phase(&self) -> Phase {
        match self {
            Episode::Open(_) => Phase::Open,
            Episode::Disorder(_) => Phase::Disorder,
            Episode::Cwr { .. } => Phase::Cwr,
            Episode::Recovery(_) => Phase::Recovery,
            Episode::Loss { .. } => Phase::Loss,
        }
    }
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Episode::Open(_))
    }
    /// Whether a tail loss probe may be sent in this state: while nothing counts as lost. The caller sees to it that nothing is selectively acknowledged
    /// (RFC 8985 section 7.2; Linux tcp_schedule_loss_probe).
    #[inline]
    pub(super) fn may_probe(&self) -> bool {
        matches!(self, Episode::Open(_) | Episode::Cwr { .. })
    }
    #[inline]
    pub(super) fn is_recovery(&self) -> bool {
        matches!(self, Episode::Recovery(_))
    }

    /// Signs of a loss that is not declared yet.
    pub(super) fn signs(&mut self) -> Option<&mut Signs> {
        match self {
            Episode::Open(signs) | Episode::Disorder(signs) | Episode::Cwr { signs, .. } => Some(signs),
            Episode::Recovery(_) | Episode::Loss { .. } => None,
        }
    }
    /// The reduction under way, where it is proportional.
    #[inline]
    pub(super) fn prr(&mut self) -> Option<&mut Prr> {
        match self {
            Episode::Cwr { prr, .. } | Episode::Recovery(Recovery { prr, .. }) => prr.as_mut(),
            _ => None,
        }
    }
    /// Whether the next retransmission goes out whatever the window says. That holds for one.
    pub(super) fn take_force(&mut self) -> bool {
        match self {
            Episode::Recovery(Recovery { force, .. }) | Episode::Loss { force, .. } => std::mem::take(force),
            _ => false,
        }
    }
    /// Whether what counts as lost waits for an acknowledgement.
    pub(super) fn holds_retransmissions(&self) -> bool {
        matches!(
            self,
            Episode::Loss { frto: Frto::NewData, .. } | Episode::Recovery(Recovery { hold: true, .. })
        )
    }
    /// Sets whether what a recovery takes for lost waits for the next acknowledgement.
    pub(super) fn set_hold(&mut self, on: bool) {
        if let Episode::Recovery(recovery) = self {
            recovery.hold = on;
        }
    }
    /// Whether a recovery without SACK has had a partial acknowledgement.
    pub(super) fn is_partial(&self) -> bool {
        matches!(self, Episode::Recovery(Recovery { partial: true, .. }))
    }
}
