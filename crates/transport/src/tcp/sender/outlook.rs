//! What is known of the next segment to send, so that it need not be found out anew for each: after an acknowledgement in the open state,
//! mostly one or two full segments of new data leave, and then the window is full.

use super::timers::Alarm;
use super::{Probe, Sender};
use crate::cc::CongestionControl;

/// What is known of the next segment. It holds until anything happens but sending by it, and payload that arrives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outlook {
    /// Nothing is known.
    Unknown,
    /// Nothing is to be sent.
    Quiet,
    /// Nothing is to be sent but new data, of which there is enough for full segments, and only the window decides when. Something is in
    /// flight.
    Stream {
        /// A full segment that ends here at most is within the window. Those beyond wait for it. Where something is wrong, all wait.
        window_end: u64,
        /// A full segment that ends here at most can be made, and nothing marks it: it does not end the data.
        data_end: u64,
    },
}

/// Whether the next segment leaves now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tcp) enum Next {
    /// It is not known.
    Unknown,
    /// None does.
    None,
    /// A full segment does, to be sent with `Sender::emit_full`.
    Full,
}

impl<C: CongestionControl> Sender<C> {
    /// Whether the next segment leaves now, as far as that is known.
    #[inline]
    pub(in crate::tcp) fn next(&mut self) -> Next {
        match self.outlook {
            _ if !self.takes_fast_paths() => Next::Unknown,
            Outlook::Unknown => Next::Unknown,
            Outlook::Quiet => {
                debug_assert!(self.is_quiet(), "{self:?}");
                Next::None
            }
            Outlook::Stream { window_end, data_end } => {
                let end = self.nxt + self.mss;
                debug_assert!(self.is_stream_to(window_end, data_end), "{self:?}");
                if end <= window_end {
                    Next::Full
                } else if end <= data_end {
                    self.limited_until = self.nxt;
                    Next::None
                } else {
                    Next::Unknown
                }
            }
        }
    }

    /// Something has happened that may change what is sent next.
    #[inline]
    pub(in crate::tcp) fn forget_outlook(&mut self) {
        self.outlook = Outlook::Unknown;
    }

    /// There was nothing to send.
    #[inline]
    pub(in crate::tcp) fn note_quiet(&mut self) {
        if self.is_quiet() {
            self.outlook = Outlook::Quiet;
        }
    }

    fn is_quiet(&self) -> bool {
        !self.has_special() && !self.has_data() && !self.may_speculate()
    }

    /// Nothing is wrong: the state is open, nothing is selectively acknowledged, lost or sent again, and no tail loss probe is out.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.episode.is_open() && self.board.is_clean() && self.tail_probe.is_none()
    }

    /// Finds out what the next segments are, after an acknowledgement or a segment of new data. `CALM`: [nothing is wrong](Self::is_calm).
    #[inline(always)]
    pub(super) fn look_ahead<const CALM: bool>(&mut self) {
        let (window_end, data_end) = self.stream_ends();
        self.outlook = if !self.is_streaming() {
            Outlook::Unknown
        } else if CALM || self.is_calm() {
            Outlook::Stream { window_end, data_end }
        } else if self.is_window_full() {
            Outlook::Stream { window_end: self.nxt, data_end }
        } else {
            Outlook::Unknown
        };
    }

    /// Whether the window holds back the next full segment, whatever is wrong.
    fn is_window_full(&self) -> bool {
        !self.board.has_waiting() && !self.may_speculate() && self.in_flight() + self.mss > self.window
    }

    /// The ends of a [stream](Outlook::Stream).
    #[inline]
    fn stream_ends(&self) -> (u64, u64) {
        let data_end = self.offered.end.min(self.app_end - 1);
        (data_end.min(self.una + self.window), data_end)
    }

    /// Whether a stream is still one, with the same end of its window. More room at the receiver is not seen before it is needed.
    fn is_stream_to(&self, window_end: u64, data_end: u64) -> bool {
        let (window, data) = self.stream_ends();
        let ends = if self.is_calm() { window_end == window.min(data_end) } else { self.is_window_full() };
        self.is_streaming() && data_end <= data && ends
    }

    /// Whether, where nothing is wrong, new data is all that may leave, and only the windows decide when.
    #[inline]
    fn is_streaming(&self) -> bool {
        self.una < self.nxt
            && self.send_end > 0
            && self.probe == Probe::None
            && !(self.paced | self.small_window | self.cwr_pending)
            && self.timers.alarm.is_set_for(Alarm::Retransmit)
    }
}
