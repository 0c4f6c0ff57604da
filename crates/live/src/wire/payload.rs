//! Payload: the simulator only counts it, but a real stack needs its bytes.
//!
//! Offsets count the payload bytes of a connection's one direction from 0: stream position 1 is offset 0, for the SYN is position
//! 0.

use std::collections::VecDeque;
use std::fmt::Debug;

pub use warpline_core::pattern::Pattern;

/// Where the payload of outgoing segments comes from.
pub trait PayloadSource: Debug {
    /// Fills `bytes` with the payload from `offset` on. Unacknowledged payload is requested again when it is retransmitted, in
    /// any pieces; it must then be the same.
    fn fill(&mut self, offset: u64, bytes: &mut [u8]);
    /// Everything below `offset` is acknowledged and will not be requested again.
    fn release(&mut self, offset: u64) {
        let _ = offset;
    }
}

/// Where the payload of incoming segments goes.
pub trait PayloadSink: Debug {
    /// Payload of a segment that arrived, in the order of arrival: out of order, repeated, or partly known.
    fn take(&mut self, offset: u64, bytes: &[u8]);
}

/// Ignores payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardPayload;

impl PayloadSink for DiscardPayload {
    fn take(&mut self, _: u64, _: &[u8]) {}
}

impl PayloadSource for Pattern {
    fn fill(&mut self, offset: u64, bytes: &mut [u8]) {
        Pattern::fill(offset, bytes);
    }
}

/// A head of given bytes, followed by the pattern from its offset 0.
#[derive(Clone, Debug, Default)]
pub struct HeadThenPattern(pub Vec<u8>);

impl PayloadSource for HeadThenPattern {
    fn fill(&mut self, offset: u64, bytes: &mut [u8]) {
        let head = self.0.len() as u64;
        let in_head = head.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if in_head > 0 {
            let start = offset as usize;
            bytes[..in_head].copy_from_slice(&self.0[start..start + in_head]);
        }
        let rest = &mut bytes[in_head..];
        if !rest.is_empty() {
            Pattern::fill(offset + in_head as u64 - head, rest);
        }
    }
}

/// Bytes that were written and are not acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// Offset of the first stored byte.
    base: u64,
    bytes: VecDeque<u8>,
}

impl Backlog {
    /// Adds bytes at the end.
    pub fn write(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.bytes.extend(bytes);
    }
    /// Number of stored bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl PayloadSource for Backlog {
    fn fill(&mut self, offset: u64, bytes: &mut [u8]) {
        let start = offset.saturating_sub(self.base) as usize;
        for (place, &byte) in bytes.iter_mut().zip(self.bytes.iter().skip(start)) {
            *place = byte;
        }
    }
    fn release(&mut self, offset: u64) {
        let done = offset.saturating_sub(self.base).min(self.bytes.len() as u64);
        self.bytes.drain(..done as usize);
        self.base += done;
    }
}

/// Bytes that arrived, in any order, until the application reads them.
///
/// The connection knows which of them have arrived: it says how many may be read, in order.
#[derive(Clone, Debug)]
pub struct Inbox {
    /// Offset of the next byte to read.
    base: u64,
    /// The bytes from there on, with undefined content in the gaps.
    bytes: VecDeque<u8>,
    limit: usize,
}

impl Inbox {
    /// An inbox that stores at most `limit` bytes beyond what was read last. The limit must not be less than the advertised window,
    /// or acknowledged bytes would be lost.
    pub fn new(limit: usize) -> Self {
        Inbox { base: 0, bytes: VecDeque::new(), limit }
    }
    /// The next `len` bytes, which must all have arrived.
    pub fn read(&mut self, len: usize) -> impl Iterator<Item = u8> + '_ {
        let len = len.min(self.bytes.len());
        self.base += len as u64;
        self.bytes.drain(..len)
    }
    /// Offset of the next byte to read.
    pub fn offset(&self) -> u64 {
        self.base
    }
}

impl PayloadSink for Inbox {
    fn take(&mut self, offset: u64, bytes: &[u8]) {
        let known = self.base.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let bytes = &bytes[known..];
        let Ok(start) = usize::try_from((offset + known as u64).saturating_sub(self.base)) else { return };
        let end = start.saturating_add(bytes.len()).min(self.limit);
        if bytes.is_empty() || start >= end {
            return;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        for (place, &byte) in self.bytes.range_mut(start..end).zip(bytes) {
            *place = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(source: &mut impl PayloadSource, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        source.fill(offset, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_source_gives_the_same_in_whatever_pieces(start in 0u64..20, len in 0usize..30, cut in 0usize..30) {
            let whole = filled(&mut Pattern, start, len);
            let cut = cut.min(len);
            let mut pieces = filled(&mut Pattern, start, cut);
            pieces.extend(filled(&mut Pattern, start + cut as u64, len - cut));
            prop_assert_eq!(&pieces, &whole);
            prop_assert_eq!(Pattern::differences(start, &whole), 0);

            let mut source = HeadThenPattern(b"head".to_vec());
            let mut expected = b"head".to_vec();
            expected.extend(filled(&mut Pattern, 0, 700));
            prop_assert_eq!(filled(&mut source, start, len), &expected[start as usize..start as usize + len]);
        }

        /// Segments in any order, some twice, come out in order once.
        #[test]
        fn an_inbox_puts_in_order(mut pieces in Just((0..40u64).collect::<Vec<_>>()).prop_shuffle(), again in 0usize..40) {
            pieces.push(pieces[again]);
            let mut inbox = Inbox::new(1000);
            let mut read = Vec::new();
            for (at, &piece) in pieces.iter().enumerate() {
                // Overlapping its neighbours by three bytes.
                inbox.take(piece * 10, &filled(&mut Pattern, piece * 10, 13));
                let mut have = pieces[..=at].to_vec();
                have.sort_unstable();
                have.dedup();
                let in_order = have.iter().zip(0..).take_while(|(a, b)| **a == *b).count() * 10;
                let more = in_order - read.len();
                read.extend(inbox.read(more));
            }
            prop_assert_eq!(read, filled(&mut Pattern, 0, 400));
        }
    }

    #[test]
    fn differences_are_counted() {
        let mut bytes = filled(&mut Pattern, 5, 200);
        bytes[0] ^= 1;
        bytes[199] ^= 1;
        assert_eq!(Pattern::differences(5, &bytes), 2);
        assert!(Pattern::differences(6, &bytes) > 150);
    }

    #[test]
    fn an_inbox_has_its_limit() {
        let mut inbox = Inbox::new(10);
        inbox.take(u64::MAX - 5, &[1; 5]);
        inbox.take(100, &[1; 5]);
        assert_eq!(inbox.bytes.len(), 0);
        inbox.take(8, &[1; 5]);
        assert_eq!(inbox.bytes.len(), 10);
    }

    #[test]
    fn a_backlog_lets_go_of_what_is_acknowledged() {
        let mut backlog = Backlog::default();
        backlog.write(*b"abcdef");
        assert_eq!(filled(&mut backlog, 2, 3), b"cde");
        backlog.release(4);
        assert_eq!((filled(&mut backlog, 4, 2), backlog.len()), (b"ef".to_vec(), 2));
        backlog.release(9);
        assert!(backlog.is_empty());
    }
}
