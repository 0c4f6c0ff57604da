//! The sending end: which piece of the data goes to which subflow, what the other end has, and what is to be sent once more.

use std::collections::VecDeque;

use warpline_core::TimeDelta;

use super::{Piece, Scheduler};

/// What there is to know of a subflow for sending on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Whether data can be sent on it: it is open, and no time-out makes one doubt its path.
    pub open: bool,
    /// Bytes that its windows let it send now, beside what has been written to it before.
    pub room: u64,
    /// Payload of a full segment, above zero.
    pub segment: u64,
    /// Smoothed round-trip time.
    pub srtt: TimeDelta,
}

impl Path {
    /// Whether it can take a segment.
    pub(super) fn has_room(&self) -> bool {
        self.open && self.room >= self.segment
    }
}

/// What has been written to a subflow.
#[derive(Debug, Default)]
struct Written {
    /// Bytes so far.
    bytes: u64,
    /// Pieces that it has not acknowledged, in order.
    pieces: VecDeque<Piece>,
    /// Redundant scheduling: the next byte of the data for it.
    next: u64,
    /// Whether what it holds is to be sent on another one already.
    given_up: bool,
}

/// Data that is to be sent once more.
#[derive(Clone, Copy, Debug)]
struct Again {
    data: u64,
    end: u64,
    /// The subflow that it was written to before.
    not_on: usize,
}

/// The sending end of a multipath connection.
#[derive(Debug)]
pub struct Sender {
    scheduler: Scheduler,
    /// One past the data that the application has written; `u64::MAX` while that has no end.
    end: u64,
    /// The next byte that has been written to no subflow.
    next: u64,
    /// All data below this has arrived (the data-level acknowledgement).
    acked: u64,
    /// Bytes beyond it that the receiver has room for.
    window: u64,
    written: Vec<Written>,
    again: VecDeque<Again>,
    /// The subflow that was chosen last.
    last: usize,
}

impl Sender {
    /// A sender with nothing to send, over so many subflows; the receiver has a buffer of `window` bytes for all of them together.
    pub fn new(scheduler: Scheduler, subflows: usize, window: u64) -> Self {
        let written = std::iter::repeat_with(Written::default).take(subflows).collect();
        // So that the first one is the next.
        let last = subflows.saturating_sub(1);
        Sender { scheduler, end: 0, next: 0, acked: 0, window, written, again: VecDeque::new(), last }
    }

    /// Adds data to be sent.
    pub fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
    }

    /// There is always more data, until [`end_here`](Self::end_here).
    pub fn set_unlimited(&mut self) {
        self.end = u64::MAX;
    }

    /// The data ends with what has been written to subflows so far.
    pub fn end_here(&mut self) {
        self.end = self.end.min(self.next);
    }

    /// One past the data, if that has an end.
    pub fn end(&self) -> Option<u64> {
        (self.end != u64::MAX).then_some(self.end)
    }

    /// Whether all data has arrived.
    pub fn is_done(&self) -> bool {
        self.acked >= self.end
    }

    /// A subflow has acknowledged so many bytes of its stream, and with them come data-level acknowledgements up to `data`.
    pub fn on_acked(&mut self, subflow: usize, stream: u64, data: u64) {
        self.acked = self.acked.max(data);
        let written = &mut self.written[subflow];
        while let Some(piece) = written.pieces.front()
            && piece.stream + piece.len <= stream
        {
            written.pieces.pop_front();
            // Its path works.
            written.given_up = false;
        }
    }

    /// A subflow has had a time-out, or has ended: what it has not acknowledged is sent on another one, too (Linux mptcp_reinject_data).
    pub fn give_up(&mut self, subflow: usize) {
        let acked = self.acked;
        let written = &mut self.written[subflow];
        // Those of redundant subflows have it anyway.
        if std::mem::replace(&mut written.given_up, true) || self.scheduler == Scheduler::Redundant {
            return;
        }
        let pieces = written.pieces.iter().map(|piece| (piece.data.max(acked), piece.data + piece.len));
        self.again.extend(pieces.filter(|(data, end)| data < end).map(|(data, end)| Again {
            data,
            end,
            not_on: subflow,
        }));
    }

    /// The next piece to be written to a subflow, and to which; none while nothing may be sent. Call it until there is none, with new `paths`
    /// each time. The piece counts as written.
    pub fn poll_piece(&mut self, paths: &[Path]) -> Option<(usize, Piece)> {
        if !paths.iter().any(Path::has_room) {
            return None;
        }
        if let Some(found) = self.poll_again(paths) {
            return Some(found);
        }
        let limit = self.end.min(self.acked.saturating_add(self.window));
        let redundant = self.scheduler == Scheduler::Redundant;
        let next_of = |place: usize| match redundant {
            true => self.written[place].next.max(self.acked),
            false => self.next,
        };
        let subflow = self.scheduler.choose(paths, self.last, |place| next_of(place) < limit)?;
        let data = next_of(subflow);
        let len = (limit - data).min(paths[subflow].segment);
        // A window that cuts a segment would make all that follow small: wait for more of it (RFC 9293 section 3.8.6.2.1).
        if len < paths[subflow].segment && data + len < self.end && data > self.acked {
            return None;
        }
        self.next = self.next.max(data + len);
        Some((subflow, self.put(subflow, data, len)))
    }

    /// A piece that was written to another subflow before.
    fn poll_again(&mut self, paths: &[Path]) -> Option<(usize, Piece)> {
        while let Some(&Again { data, end, not_on }) = self.again.front() {
            let data = data.max(self.acked);
            if data >= end {
                self.again.pop_front();
                continue;
            }
            let subflow = self.scheduler.choose(paths, self.last, |place| place != not_on)?;
            let len = (end - data).min(paths[subflow].segment);
            if data + len == end {
                self.again.pop_front();
            } else if let Some(front) = self.again.front_mut() {
                front.data = data + len;
            }
            return Some((subflow, self.put(subflow, data, len)));
        }
        None
    }

    fn put(&mut self, subflow: usize, data: u64, len: u64) -> Piece {
        self.last = subflow;
        let written = &mut self.written[subflow];
        let piece = Piece { data, stream: written.bytes, len };
        written.bytes += len;
        written.next = written.next.max(data + len);
        written.pieces.push_back(piece);
        piece
    }
}
