//! The receiving end: puts the data of all subflows in order.

use std::collections::{BTreeMap, VecDeque};

use super::Piece;

/// What is known of a subflow.
#[derive(Debug, Default)]
struct Incoming {
    /// Pieces that are on their way or have partly arrived, in the order of its stream.
    pieces: VecDeque<Piece>,
    /// Bytes of its stream that have arrived in order.
    stream: u64,
    /// Bytes of the connection's data that it was the first to bring, and that have been delivered.
    share: u64,
}

/// The receiving end of a multipath connection.
#[derive(Debug)]
pub struct Receiver {
    subflows: Vec<Incoming>,
    /// Data delivered in order.
    delivered: u64,
    /// Beyond it: from where to where data has arrived, and by which subflow first. Apart.
    ahead: BTreeMap<u64, (u64, usize)>,
}

impl Receiver {
    /// A receiver that has nothing, of so many subflows.
    pub fn new(subflows: usize) -> Self {
        let subflows = std::iter::repeat_with(Incoming::default).take(subflows).collect();
        Receiver { subflows, delivered: 0, ahead: BTreeMap::new() }
    }

    /// A piece is on its way, behind those that this subflow carried before.
    pub fn expect(&mut self, subflow: usize, piece: Piece) {
        self.subflows[subflow].pieces.push_back(piece);
    }

    /// So many bytes of a subflow's stream have arrived in order. Returns whether that was news.
    pub fn on_delivered(&mut self, subflow: usize, stream: u64) -> bool {
        let from = std::mem::replace(&mut self.subflows[subflow].stream, stream);
        while let Some(&piece) = self.subflows[subflow].pieces.front()
            && piece.stream < stream
        {
            let offset = from.saturating_sub(piece.stream).min(piece.len);
            let arrived = piece.len.min(stream - piece.stream);
            self.insert(piece.data + offset, piece.data + arrived, subflow);
            if arrived < piece.len {
                break;
            }
            self.subflows[subflow].pieces.pop_front();
        }
        stream > from
    }

    /// Bytes of data delivered in order, each once.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Those of them that a subflow was the first to bring.
    pub fn share_of(&self, subflow: usize) -> u64 {
        self.subflows[subflow].share
    }

    fn insert(&mut self, start: u64, end: u64, subflow: usize) {
        let mut start = start.max(self.delivered);
        while start < end {
            let before = self.ahead.range(..=start).next_back();
            if let Some((_, &(known, _))) = before
                && known > start
            {
                start = known;
                continue;
            }
            let next = self.ahead.range(start..).next().map_or(end, |(&next, _)| next.min(end));
            self.keep(start, next, subflow);
            start = next;
        }
        while let Some(first) = self.ahead.first_entry()
            && *first.key() == self.delivered
        {
            let (end, by) = first.remove();
            self.subflows[by].share += end - self.delivered;
            self.delivered = end;
        }
    }

    /// Keeps a range of which nothing has arrived before.
    fn keep(&mut self, start: u64, end: u64, subflow: usize) {
        if start == self.delivered {
            self.subflows[subflow].share += end - start;
            self.delivered = end;
            return;
        }
        match self.ahead.range_mut(..start).next_back() {
            Some((_, (last, by))) if *last == start && *by == subflow => *last = end,
            _ => drop(self.ahead.insert(start, (end, subflow))),
        }
    }
}
