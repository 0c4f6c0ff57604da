//! Our side of the rings of frames in the page; `native/clockshim/ring.h` has the guest's.
//!
//! In lock-step, only the side that has the turn works on them. In dilated time both sides do, each at its end, so frames are copied out
//! before they are used. What the guest has written is not trusted: a length beyond the ring ends the guest, and does no harm here.

use std::sync::atomic::Ordering;

use crate::page::{LEAST_RING, RING, Ring};

/// Length (4 bytes), unused (4), time (8).
const HEAD: usize = 16;
const SKIP: u32 = u32::MAX;
/// Largest frame.
pub(crate) const FRAME_MAX: usize = 65_600;

fn room(length: usize) -> usize {
    (HEAD + length).next_multiple_of(16)
}

/// The ring's content is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

impl Ring {
    /// How many bytes the ring has. The guest may have changed the number, so it is not trusted: whatever it is, the ring is in the page.
    fn size(&self) -> usize {
        let bytes = self.bytes.load(Ordering::Relaxed) as usize;
        if bytes.is_power_of_two() { bytes.clamp(LEAST_RING, RING) } else { LEAST_RING }
    }

    /// The bytes at a place in the ring.
    fn place(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at + length <= RING, "{length} bytes at {at} leave the ring");
        self.data.get().cast::<u8>().wrapping_add(at)
    }

    fn read_head(&self, at: usize) -> (u32, u64) {
        let mut head = [0u8; HEAD];
        // SAFETY: `at` is a multiple of 16 below the ring's end, so that a head fits; if the guest changes it meanwhile, only the numbers
        // change.
        unsafe { std::ptr::copy_nonoverlapping(self.place(at, HEAD), head.as_mut_ptr(), HEAD) };
        let [a, b, c, d, _, _, _, _, time @ ..] = head;
        (u32::from_ne_bytes([a, b, c, d]), u64::from_ne_bytes(time))
    }

    /// The time of the oldest frame and its bytes, in lock-step. Call it while the guest does not run, and do not keep the bytes longer.
    ///
    /// # Errors
    /// If the ring's content is invalid.
    pub(crate) fn first(&self) -> Result<Option<(u64, &[u8])>, Corrupt> {
        let Some((time, at, length)) = self.find()? else { return Ok(None) };
        // SAFETY: within the ring, as `find` has checked; the guest does not run.
        let frame = unsafe { std::slice::from_raw_parts(self.place(at, length), length) };
        Ok(Some((time, frame)))
    }

    /// Moves the oldest frame into `into`, which gets its length; returns its time. The guest may run.
    ///
    /// # Errors
    /// If the ring's content is invalid.
    pub(crate) fn take(&self, into: &mut Vec<u8>) -> Result<Option<u64>, Corrupt> {
        let Some((time, at, length)) = self.find()? else { return Ok(None) };
        into.resize(length, 0);
        // SAFETY: within the ring, as `find` has checked, and not in `into`. The guest may not write there; if it does, the bytes
        // change.
        unsafe { std::ptr::copy_nonoverlapping(self.place(at, length), into.as_mut_ptr(), length) };
        self.release(length);
        Ok(Some(time))
    }

    /// Whether there is a frame.
    pub(crate) fn has_frames(&self) -> bool {
        self.head.load(Ordering::SeqCst) != self.tail.load(Ordering::Relaxed)
    }

    /// The oldest frame's time, the position of its bytes, and their number.
    fn find(&self) -> Result<Option<(u64, usize, usize)>, Corrupt> {
        let head = self.head.load(Ordering::SeqCst);
        let mut tail = self.tail.load(Ordering::Relaxed);
        let size = self.size();
        loop {
            if head == tail {
                return Ok(None);
            }
            if !tail.is_multiple_of(16) || head.wrapping_sub(tail) as usize > size {
                return Err(Corrupt);
            }
            let at = tail as usize & (size - 1);
            let (length, time) = self.read_head(at);
            if length == SKIP {
                tail = tail.wrapping_add((size - at) as u32);
                self.tail.store(tail, Ordering::SeqCst);
                continue;
            }
            let length = length as usize;
            if length > FRAME_MAX || at + room(length) > size {
                return Err(Corrupt);
            }
            return Ok(Some((time, at + HEAD, length)));
        }
    }

    /// Frees the room of the oldest frame, which is `length` bytes long.
    pub(crate) fn release(&self, length: usize) {
        let tail = self.tail.load(Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(room(length) as u32), Ordering::SeqCst);
    }

    /// Starts again at the ring's beginning if it is empty, so that its memory stays in the caches; in lock-step, for a ring that the guest writes.
    /// Call it while the guest does not run.
    pub(crate) fn rewind(&self) {
        if !self.has_frames() {
            self.head.store(0, Ordering::SeqCst);
            self.tail.store(0, Ordering::SeqCst);
        }
    }

    /// Puts in a frame made of several parts. Returns `None` if there is no room, and otherwise whether the guest may have found the ring
    /// empty; in dilated time it then waits for a notification.
    pub(crate) fn push(&self, time: u64, parts: &[&[u8]]) -> Option<bool> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = self.head.load(Ordering::Relaxed);
        // Our own field, but in the page: the guest may have changed it, so it is not trusted either.
        if !head.is_multiple_of(16) {
            return None;
        }
        let size = self.size();
        let used = head.wrapping_sub(self.tail.load(Ordering::SeqCst)) as usize;
        let rest = size - (head as usize & (size - 1));
        let skip = if rest < room(length) { rest } else { 0 };
        if length > FRAME_MAX || used + skip + room(length) > size {
            return None;
        }
        if skip > 0 {
            self.write(head as usize & (size - 1), &SKIP.to_ne_bytes());
            head = head.wrapping_add(skip as u32);
        }
        let mut at = head as usize & (size - 1);
        let mut record = [0u8; HEAD];
        record[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        record[8..].copy_from_slice(&time.to_ne_bytes());
        self.write(at, &record);
        at += HEAD;
        for part in parts {
            self.write(at, part);
            at += part.len();
        }
        // The store comes before the check, so a guest that finds the ring empty and sleeps is notified.
        self.head.store(head.wrapping_add(room(length) as u32), Ordering::SeqCst);
        let left = head.wrapping_add(room(length) as u32).wrapping_sub(self.tail.load(Ordering::SeqCst));
        Some(left as usize <= room(length) + skip)
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the caller has made sure of the room, which is this side's until the ring's head has moved: there is no other reference to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.place(at, bytes.len()), bytes.len()) };
    }
}

/// Fuzz target: between our own steps, changes the page as a hostile guest could.
///
/// # Panics
/// If we read beyond the ring, loop for ever, or accept an invalid frame: the faults that the fuzzer looks for.
pub fn fuzz_ring(bytes: &[u8]) {
    let Ok(page) = crate::page::Page::create() else { return };
    let mut frame = Vec::new();
    let mut rest = bytes;
    while let Some((step, behind)) = rest.split_first_chunk::<8>() {
        let [kind, a, b, number @ .., length] = *step;
        let number = u32::from_le_bytes(number);
        let ring = if kind & 128 == 0 { &page.transmit } else { &page.receive };
        let (written, behind) = behind.split_at(usize::from(length).min(behind.len()));
        rest = behind;
        let size = ring.size();
        match kind % 9 {
            0 => ring.head.store(number, Ordering::SeqCst),
            1 => ring.tail.store(number, Ordering::SeqCst),
            // Near the end, where positions wrap.
            2 => ring
                .head
                .store((size as u32 - u32::from(a) * 16).wrapping_add(u32::from(b)), Ordering::SeqCst),
            3 => ring.tail.store(size as u32 - u32::from(a) * 16, Ordering::SeqCst),
            4 => {
                let at = ring.tail.load(Ordering::SeqCst).wrapping_add(u32::from(a)) as usize % size;
                ring.write(at, &written[..written.len().min(size - at)]);
            }
            5 => ring.bytes.store(number, Ordering::SeqCst),
            6 => {
                if let Ok(Some((_, frame))) = ring.first() {
                    assert!(frame.len() <= FRAME_MAX, "{}", frame.len());
                }
            }
            7 => {
                if let Ok(Some(_)) = ring.take(&mut frame) {
                    assert!(frame.len() <= FRAME_MAX, "{}", frame.len());
                }
            }
            _ => {
                let long = vec![a; number as usize % (FRAME_MAX + 2)];
                if ring.push(u64::from(b), &[written, &long]).is_some() {
                    assert!(written.len() + long.len() <= FRAME_MAX);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use proptest::prelude::*;
    use warpline_core::Rate;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn frames_come_out_as_they_went_in(
            start in 0u32..4,
            fastest in prop::option::of(Just(Rate::from_bps(30_000_000_000))),
            // More frames come in than go out, so that long cases fill the ring.
            steps in prop::collection::vec((prop::bool::weighted(0.75), 0usize..=FRAME_MAX), 1..2000),
        ) {
            let page = Page::create().unwrap();
            let ring = &page.receive;
            page.size_rings(fastest);
            // A little before the ring's end, which is 2^32 for one of the four.
            let position = start.wrapping_mul(ring.size() as u32).wrapping_sub(96_000);
            ring.head.store(position, Ordering::Relaxed);
            ring.tail.store(position, Ordering::Relaxed);
            let mut expected = std::collections::VecDeque::new();
            let payload: Vec<u8> = (0..=FRAME_MAX).map(|n| n as u8).collect();
            for (number, (put, length)) in steps.into_iter().enumerate() {
                let empty = expected.is_empty();
                let pushed =
                    put.then(|| ring.push(number as u64, &[&payload[..length / 2], &payload[length / 2..length]]));
                if let Some(Some(first)) = pushed {
                    prop_assert_eq!(first, empty);
                    expected.push_back((number as u64, length));
                } else if let Some((time, length)) = expected.pop_front() {
                    let (found, frame) = ring.first().unwrap().unwrap();
                    prop_assert_eq!((found, frame), (time, &payload[..length]));
                    ring.release(length);
                } else {
                    prop_assert_eq!(ring.first(), Ok(None));
                }
            }
        }

        #[test]
        fn nothing_that_a_guest_may_write_is_trusted(
            head in any::<u32>(), tail in any::<u32>(), bytes in prop::collection::vec(any::<u8>(), 64),
            size in prop_oneof![any::<u32>(), (0u32..32).prop_map(|bit| 1 << bit)],
        ) {
            let page = Page::create().unwrap();
            let ring = &page.transmit;
            ring.head.store(head, Ordering::Relaxed);
            ring.tail.store(tail, Ordering::Relaxed);
            ring.bytes.store(size, Ordering::Relaxed);
            let at = (tail as usize % ring.size()).min(ring.size() - 64);
            ring.write(at, &bytes);
            // It returns, with a frame within the ring or none.
            if let Ok(Some((_, frame))) = ring.first() {
                prop_assert!(frame.len() <= FRAME_MAX);
            }
        }
    }

    #[test]
    fn a_ring_has_room_for_what_arrives_in_a_time_slice() {
        let page = Page::create().unwrap();
        let size = |gbps: Option<u64>| {
            page.size_rings(gbps.map(|gbps| Rate::from_bps(gbps * 1_000_000_000)));
            (page.transmit.size(), page.receive.size())
        };
        let mib = |count: usize| (count << 20, count << 20);
        assert_eq!([None, Some(1), Some(10), Some(11)].map(size), [4, 4, 4, 4].map(mib));
        assert_eq!([Some(12), Some(100), Some(1000)].map(size), [8, 64, 64].map(mib));
    }

    #[test]
    fn a_head_of_ours_that_the_guest_has_changed_is_not_trusted() {
        let page = Page::create().unwrap();
        let ring = &page.receive;
        let position = ring.size() as u32 - 1;
        ring.head.store(position, Ordering::Relaxed);
        ring.tail.store(position, Ordering::Relaxed);
        assert_eq!(ring.push(0, &[b"frame"]), None);
    }
}
