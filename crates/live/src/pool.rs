//! The bytes of live packets while they are in the network.
//!
//! Frames have a fixed size, lie in large pieces of memory that never move, and are named by a number that travels in
//! [`warpline_core::Frame`]. Each has room in front of the datagram for the link-layer header of the port it leaves by.
//!
//! A released frame is not reused at once, since a recorder may still want its bytes. It is reused after
//! [`Pool::recycle`], which the emulator calls at the end of its turn, after the records have been taken.

use warpline_core::Ecn;

use crate::datagram::Header;

/// Room in front of a datagram, for an Ethernet header at its end: 14 bytes, and 4 for each of two VLAN tags.
pub const HEADROOM: usize = 24;
/// Frames that one piece of memory holds.
const PIECE: usize = 1024;

/// What is known of a frame without reading its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Bytes of the datagram; 0 for a frame that is free.
    len: u32,
    /// Bytes of the link-layer header in front of it.
    front: u8,
    header: Header,
}

/// All frames.
#[derive(Debug)]
pub struct Pool {
    /// Bytes of a frame, headroom included.
    room: usize,
    pieces: Vec<Box<[u8]>>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    released: Vec<u32>,
    most: usize,
    exhausted: u64,
}

impl Pool {
    /// A pool for datagrams of up to `mtu` bytes that holds at most `memory` bytes.
    pub fn new(mtu: u32, memory: usize) -> Self {
        let room = (HEADROOM + mtu as usize).next_multiple_of(64);
        Pool {
            room,
            pieces: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            released: Vec::new(),
            most: (memory / room).clamp(1, u32::MAX as usize),
            exhausted: 0,
        }
    }

    /// Largest datagram in bytes.
    pub fn largest(&self) -> usize {
        self.room - HEADROOM
    }

    /// Stores a datagram whose header has been read. If the pool is full or the datagram is too large, counts that and returns `None`.
    #[inline]
    pub fn insert(&mut self, datagram: &[u8], header: Header) -> Option<u32> {
        if datagram.len() > self.largest() {
            self.exhausted += 1;
            return None;
        }
        let handle = match self.free.pop() {
            Some(handle) => handle,
            None => self.grow()?,
        };
        self.entries[handle as usize] = Entry { len: datagram.len() as u32, front: 0, header };
        let at = HEADROOM;
        self.frame_mut(handle)[at..at + datagram.len()].copy_from_slice(datagram);
        Some(handle)
    }

    /// Stores a copy of a datagram with its link-layer header, or counts that there is no room for it.
    pub fn copy(&mut self, handle: u32) -> Option<u32> {
        let copy = match self.free.pop() {
            Some(free) => free,
            None => self.grow()?,
        };
        let entry = self.entries[handle as usize];
        self.entries[copy as usize] = entry;
        let bytes = HEADROOM - usize::from(entry.front)..HEADROOM + entry.len as usize;
        let index = |handle: u32| (handle as usize / PIECE, handle as usize % PIECE * self.room);
        let ((from, start), (to, place)) = (index(handle), index(copy));
        if from == to {
            self.pieces[from].copy_within(start + bytes.start..start + bytes.end, place + bytes.start);
        } else if let Ok([from, to]) = self.pieces.get_disjoint_mut([from, to]) {
            to[place..][bytes.clone()].copy_from_slice(&from[start..][bytes]);
        }
        Some(copy)
    }

    #[cold]
    fn grow(&mut self) -> Option<u32> {
        let known = self.entries.len();
        if known >= self.most {
            self.exhausted += 1;
            return None;
        }
        let more = PIECE.min(self.most - known);
        self.pieces.push(vec![0; PIECE * self.room].into_boxed_slice());
        self.entries.resize(known + more, Entry::default());
        self.free.extend((known + 1..known + more).rev().map(|handle| handle as u32));
        Some(known as u32)
    }

    fn frame(&self, handle: u32) -> &[u8] {
        let index = handle as usize;
        let at = index % PIECE * self.room;
        &self.pieces[index / PIECE][at..at + self.room]
    }

    fn frame_mut(&mut self, handle: u32) -> &mut [u8] {
        let index = handle as usize;
        let at = index % PIECE * self.room;
        &mut self.pieces[index / PIECE][at..at + self.room]
    }

    /// The bytes of a datagram, from the IP header on.
    #[inline]
    pub fn datagram(&self, handle: u32) -> &[u8] {
        let len = self.entries[handle as usize].len as usize;
        &self.frame(handle)[HEADROOM..HEADROOM + len]
    }

    /// The bytes of a datagram, to change them; its length stays the same.
    pub fn datagram_mut(&mut self, handle: u32) -> &mut [u8] {
        let len = self.entries[handle as usize].len as usize;
        &mut self.frame_mut(handle)[HEADROOM..HEADROOM + len]
    }

    /// Writes a link-layer header in front of a datagram, of [`HEADROOM`] bytes at most.
    #[inline]
    pub fn put_front(&mut self, handle: u32, front: &[u8]) {
        self.entries[handle as usize].front = front.len() as u8;
        self.frame_mut(handle)[HEADROOM - front.len()..HEADROOM].copy_from_slice(front);
    }

    /// The link-layer header in front of a datagram; empty if there is none.
    #[inline]
    pub fn front(&self, handle: u32) -> &[u8] {
        let front = usize::from(self.entries[handle as usize].front);
        &self.frame(handle)[HEADROOM - front..HEADROOM]
    }

    /// The datagram behind its link-layer header.
    #[inline]
    pub fn framed_mut(&mut self, handle: u32) -> &mut [u8] {
        let Entry { len, front, .. } = self.entries[handle as usize];
        &mut self.frame_mut(handle)[HEADROOM - usize::from(front)..HEADROOM + len as usize]
    }

    /// The datagram's header fields at arrival.
    #[inline]
    pub fn header(&self, handle: u32) -> Header {
        self.entries[handle as usize].header
    }

    /// Reads the header fields again, after the bytes have changed.
    pub fn reread(&mut self, handle: u32) {
        if let Ok(header) = crate::datagram::read(self.datagram(handle)) {
            self.entries[handle as usize].header = header;
        }
    }

    /// Writes congestion-experienced into the datagram's IP header.
    pub fn mark_congestion(&mut self, handle: u32) {
        crate::router::set_ecn(self.datagram_mut(handle), Ecn::Ce);
    }

    /// Releases a frame, which only records may still need.
    #[inline]
    pub fn release(&mut self, handle: u32) {
        debug_assert!(self.entries[handle as usize].len > 0, "frame {handle} was released twice");
        self.released.push(handle);
    }

    /// Makes all released frames free.
    #[inline]
    pub fn recycle(&mut self) {
        if cfg!(debug_assertions) {
            for &handle in &self.released {
                self.entries[handle as usize].len = 0;
            }
        }
        self.free.append(&mut self.released);
    }

    /// Frames in use, released ones included.
    pub fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Datagrams that found no room since the start.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(pool: &mut Pool, byte: u8, len: usize) -> Option<u32> {
        pool.insert(&vec![byte; len], Header::default())
    }

    #[test]
    fn bytes_stay_until_they_are_recycled() {
        let mut pool = Pool::new(1500, 1 << 20);
        let (a, b) = (keep(&mut pool, 1, 100).unwrap(), keep(&mut pool, 2, 1500).unwrap());
        pool.release(a);
        // Another frame does not take its place yet.
        let c = keep(&mut pool, 3, 100).unwrap();
        assert_eq!(
            (pool.datagram(a), pool.datagram(b), pool.datagram(c)),
            (&[1; 100][..], &[2; 1500][..], &[3; 100][..])
        );
        pool.recycle();
        assert_eq!((pool.in_use(), keep(&mut pool, 4, 1)), (2, Some(a)));
    }

    #[test]
    fn a_full_pool_and_a_datagram_too_large_are_refused_and_counted() {
        let mut pool = Pool::new(1500, 3 * 1536);
        let all: Vec<_> = (0..5).map(|_| keep(&mut pool, 0, 1500)).collect();
        assert_eq!(all.iter().flatten().count(), 3);
        pool.release(all[1].unwrap());
        pool.recycle();
        assert_eq!(keep(&mut pool, 0, 1521), None);
        assert_eq!((keep(&mut pool, 0, 9), pool.exhausted()), (all[1], 3));
    }

    #[test]
    fn a_copy_has_bytes_of_its_own_in_whichever_piece_it_lies() {
        let mut pool = Pool::new(100, 1 << 20);
        let first = keep(&mut pool, 7, 60).unwrap();
        for _ in 0..PIECE + 1 {
            let copy = pool.copy(first).unwrap();
            assert_eq!(pool.datagram(copy), [7; 60]);
            pool.datagram_mut(copy)[0] = 8;
        }
        assert_eq!((pool.datagram(first), pool.in_use()), (&[7; 60][..], PIECE + 2));
        let mut full = Pool::new(100, 100);
        let only = keep(&mut full, 1, 10).unwrap();
        assert_eq!((full.copy(only), full.exhausted()), (None, 1));
    }

    #[test]
    fn there_is_room_for_a_link_header_in_front() {
        let mut pool = Pool::new(100, 1 << 20);
        let handle = keep(&mut pool, 7, 60).unwrap();
        assert_eq!((pool.framed_mut(handle).len(), pool.front(handle)), (60, &[][..]));
        pool.put_front(handle, &[9; HEADROOM]);
        pool.put_front(handle, &[8; 14]);
        assert_eq!((pool.framed_mut(handle).len(), pool.datagram(handle)), (74, &[7; 60][..]));
        let copy = pool.copy(handle).unwrap();
        assert_eq!((pool.front(copy), pool.datagram(copy)), (&[8; 14][..], &[7; 60][..]));
    }
}
