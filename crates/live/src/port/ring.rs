//! The receive ring that a packet socket shares with the kernel (`TPACKET_V2`, Documentation/networking/packet_mmap.rst).
//!
//! The kernel fills slots in turn and hands each over by a word in its head; the reader hands it back in the same
//! way. Receiving needs no system call. Version 3 of the ring hands over blocks, half-filled ones only after a time-out of
//! a millisecond or more, which an emulator cannot wait for.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::link::VLAN;
use super::segmentation::Merged;
use super::unfinished::Unfinished;
use super::vnet::VNET;

/// A ring of slots, each of which holds one frame.
#[derive(Debug)]
pub(super) struct RxRing {
    base: NonNull<u8>,
    slots: usize,
    slot_size: usize,
    next: usize,
    /// Whether the kernel says of each frame how it was merged.
    vnet: bool,
}

// SAFETY: the mapping belongs to this value alone (the kernel aside, with which the status words synchronise) and is not
// bound to a thread.
unsafe impl Send for RxRing {}

/// A frame in its slot.
#[derive(Debug)]
pub(super) struct RxFrame<'a> {
    /// The captured bytes, from the link-layer header on.
    pub(super) bytes: &'a [u8],
    /// Original length of the frame in bytes.
    pub(super) original_len: usize,
    /// When the kernel saw it: nanoseconds of `CLOCK_REALTIME`.
    pub(super) realtime: u64,
    /// The checksum that the sender left to its card, if it did.
    pub(super) unfinished: Option<Unfinished>,
    /// The tag that the kernel has taken out of it: its EtherType and content.
    pub(super) tag: Option<(u16, u16)>,
    /// How it is to be cut into packets, if it was merged of several.
    pub(super) merged: Option<Merged>,
    /// Whether it is larger than a slot, and the whole of it is the next message of the socket.
    pub(super) queued: bool,
}

/// The layout of the ring, to request from the kernel before the mapping.
pub(super) fn layout(slots: usize, slot_size: usize) -> libc::tpacket_req {
    let block = slot_size.max(1 << 16);
    let per_block = block / slot_size;
    libc::tpacket_req {
        tp_block_size: block as u32,
        tp_block_nr: (slots / per_block).max(1) as u32,
        tp_frame_size: slot_size as u32,
        tp_frame_nr: ((slots / per_block).max(1) * per_block) as u32,
    }
}

impl RxRing {
    /// Maps the ring that `layout` has made for the socket. `vnet` says whether the socket has the option `PACKET_VNET_HDR`.
    pub(super) fn map(socket: impl AsFd, layout: &libc::tpacket_req, vnet: bool) -> nix::Result<RxRing> {
        let bytes = layout.tp_block_size as usize * layout.tp_block_nr as usize;
        let length = NonZeroUsize::new(bytes).ok_or(nix::errno::Errno::EINVAL)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use; it is unmapped when the
        // ring is dropped, after which nothing refers to it.
        let base = unsafe {
            mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, socket, 0)
        }?;
        Ok(RxRing {
            base: base.cast(),
            slots: layout.tp_frame_nr as usize,
            slot_size: layout.tp_frame_size as usize,
            next: 0,
            vnet,
        })
    }

    /// The head of the slot that is filled next.
    fn head(&self) -> *mut libc::tpacket2_hdr {
        debug_assert!(self.next < self.slots);
        // SAFETY: `next` is below the number of slots, so the address lies in the mapping.
        unsafe { self.base.as_ptr().add(self.next * self.slot_size) }.cast()
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the first field of the head, lies in the mapping for as long as `self`, and is aligned to the
        // slot's size; the kernel writes to it at the same time, which is what an atomic is for.
        unsafe { AtomicU32::from_ptr((&raw mut (*self.head()).tp_status).cast()) }
    }

    /// Whether the next slot has been filled.
    #[inline]
    pub(super) fn ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The frame in the next slot, if it has been filled.
    #[inline]
    pub(super) fn peek(&self) -> Option<RxFrame<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has handed the slot over and does not touch it until it is handed back (`advance`, which takes
        // the ring mutably and so ends this borrow). The head is plain numbers.
        let head = unsafe { self.head().read() };
        let at = usize::from(head.tp_mac).min(self.slot_size);
        let len = (head.tp_snaplen as usize).min(self.slot_size - at);
        // SAFETY: as above, and the range was cut to the slot.
        let bytes = unsafe { std::slice::from_raw_parts(self.head().cast::<u8>().add(at), len) };
        let vnet = (self.vnet && at >= VNET).then(|| {
            // SAFETY: the ten bytes in front of the frame lie in the same slot, which the kernel has handed over.
            unsafe { self.head().cast::<u8>().add(at - VNET).cast::<[u8; VNET]>().read() }
        });
        let unfinished = match &vnet {
            Some(vnet) => Unfinished::read(vnet),
            None => (status & libc::TP_STATUS_CSUMNOTREADY != 0).then_some(Unfinished::Usual),
        };
        let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { head.tp_vlan_tpid } else { VLAN };
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then_some((kind, head.tp_vlan_tci));
        Some(RxFrame {
            bytes,
            original_len: head.tp_len as usize,
            realtime: u64::from(head.tp_sec) * 1_000_000_000 + u64::from(head.tp_nsec),
            unfinished,
            tag,
            merged: vnet.as_ref().and_then(Merged::read),
            queued: status & libc::TP_STATUS_COPY != 0,
        })
    }

    /// Hands the next slot back to the kernel and moves on to the following one.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += 1;
        if self.next == self.slots {
            self.next = 0;
        }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.base.cast(), self.slots * self.slot_size) };
    }
}
