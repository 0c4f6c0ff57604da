//! The page that a guest's kernel shares with this process; `native/clockshim/page.h` explains each field.

use std::cell::UnsafeCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use warpline_core::dilation::{Line, Pace};
use warpline_core::{Rate, TimeDelta};

use crate::error::{Doing, GuestError};

const MAGIC: u64 = 0x3165_6e69_6c70_7277;
const VERSION: u32 = 7;
/// Network devices besides the first, at most.
pub(crate) const DEVICES: usize = 16;
/// Bytes of each ring, at most. In dilated time frames go round the whole ring, so that in the end all of it takes memory.
pub(crate) const RING: usize = 64 << 20;
/// Bytes of each ring, at least; in lock-step all have these, since a guest there takes what has come before more comes.
pub(crate) const LEAST_RING: usize = 4 << 20;
/// A ring has room for what arrives in this time, in the guest's time. While a program has the guest's only CPU, nothing takes frames out of the ring. At
/// 100 Gbit/s and TDF 100, with fifty flows of Reno, 9999 packets found no room in 16 MiB, and all of them in 64.
const SLICE: TimeDelta = TimeDelta::from_millis(3);
pub(crate) const MODE_DILATED: u32 = 1;
pub(crate) const MODE_LOCKSTEP: u32 = 2;
pub(crate) const TURN_GUEST: u32 = 0;
pub(crate) const TURN_DRIVER: u32 = 1;
/// Added to the turn by a side that sleeps while it waits.
pub(crate) const TURN_ASLEEP: u32 = 2;
pub(crate) const REASON_IDLE: u32 = 1;
/// Stands for no instant.
pub(crate) const NEVER: u64 = u64::MAX;

/// A network device besides the first.
#[repr(C)]
pub(crate) struct Device {
    pub(crate) fd: AtomicI32,
    pub(crate) vlan: AtomicU32,
    pub(crate) rate: AtomicU64,
    pub(crate) framing: AtomicU32,
    pub(crate) card: AtomicU32,
}

/// Frames in one direction.
#[repr(C, align(4096))]
pub(crate) struct Ring {
    pub(crate) head: AtomicU32,
    pub(crate) tail: AtomicU32,
    pub(crate) bytes: AtomicU32,
    padding: [u8; 52],
    pub(crate) data: UnsafeCell<[u8; RING]>,
}

/// The layout of `struct page`.
#[repr(C)]
pub(crate) struct Layout {
    magic: AtomicU64,
    version: AtomicU32,
    pub(crate) mode: AtomicU32,
    pub(crate) seed: AtomicU64,
    pub(crate) epoch: AtomicU64,
    pub(crate) cost: AtomicU64,
    pub(crate) nic: AtomicI32,
    pub(crate) spin: AtomicU32,
    pub(crate) sequence: AtomicU32,
    pub(crate) tsc: AtomicU32,
    /// The current segment and the next one, with three numbers each.
    pub(crate) pace: [AtomicU64; 6],
    pub(crate) bells_in: AtomicU64,
    pub(crate) bells_out: AtomicU64,
    pub(crate) turn: AtomicU32,
    pub(crate) reason: AtomicU32,
    pub(crate) now: AtomicU64,
    pub(crate) timer: AtomicU64,
    pub(crate) horizon: AtomicU64,
    pub(crate) interval: AtomicU64,
    pub(crate) lookahead: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) push: AtomicU64,
    pub(crate) user: AtomicI32,
    pub(crate) started: AtomicU32,
    pub(crate) handovers: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) xstate_skipped: AtomicU64,
    pub(crate) devices: [Device; DEVICES],
    pub(crate) transmit: Ring,
    pub(crate) receive: Ring,
}

/// The page, mapped.
#[derive(Debug)]
pub(crate) struct Page {
    fd: OwnedFd,
    memory: NonNull<Layout>,
}

// SAFETY: the page owns the memory until it is dropped, and all of it is atomic but the rings' data: of these ring.rs only touches
// this side's part, for the one LockStep or Nic that has the page.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A new page, all zero except its magic number and version.
    pub(crate) fn create() -> Result<Self, GuestError> {
        let doing = || "make memory to share with a guest".to_owned();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("warpline-guest", flags).doing(doing)?;
        let length = size_of::<Layout>();
        ftruncate(&fd, length as u64).doing(doing)?;
        // The guest's kernel has the descriptor. If it could shorten the file, the next access to the page would end this process (SIGBUS).
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).doing(doing)?;
        // SAFETY: a new mapping of a file as long as the layout; nothing else is at its address.
        let memory = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &fd, 0)
        };
        let memory = memory.doing(doing)?.cast::<Layout>();
        let memory = NonNull::new(memory).ok_or(rustix::io::Errno::NOMEM).doing(doing)?;
        let page = Page { fd, memory };
        page.magic.store(MAGIC, Ordering::Relaxed);
        page.version.store(VERSION, Ordering::Relaxed);
        page.size_rings(None);
        Ok(page)
    }

    /// Gives the rings as many bytes as are right for the fastest link of the guest: a power of two. Call it before the guest starts.
    pub(crate) fn size_rings(&self, fastest: Option<Rate>) {
        let frames = fastest.map_or(0, |rate| rate.bytes_in(SLICE).0);
        let bytes = usize::try_from(frames).unwrap_or(RING).clamp(LEAST_RING, RING).next_power_of_two();
        for ring in [&self.transmit, &self.receive] {
            ring.bytes.store(bytes as u32, Ordering::Relaxed);
        }
    }

    /// The descriptor that the guest maps.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl std::ops::Deref for Page {
    type Target = Layout;
    fn deref(&self) -> &Layout {
        // SAFETY: mapped as long as this lives, aligned by mmap, and any bytes are a Layout.
        unsafe { self.memory.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping that `create` made, which nothing refers to any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), size_of::<Layout>()) };
    }
}

/// Writes the pace that a guest's clock follows. The guest may read it at any time; while the sequence is odd, it reads again. `shown` is
/// the time on the clock at an instant of the run.
pub(crate) fn write_pace(page: &Page, pace: &Pace, shown: impl Fn(u64) -> u64) {
    let sequence = page.sequence.load(Ordering::Relaxed);
    page.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::Release);
    let [host, run, tdf, next_host, next_run, next_tdf] = &page.pace;
    let write = |fields: [&AtomicU64; 3], line: &Line| {
        for (field, value) in fields.into_iter().zip([line.host, shown(line.run), line.tdf.billionths()]) {
            field.store(value, Ordering::Relaxed);
        }
    };
    write([host, run, tdf], &pace.current);
    match &pace.next {
        Some(next) => write([next_host, next_run, next_tdf], next),
        None => next_host.store(NEVER, Ordering::Relaxed),
    }
    page.sequence.store(sequence.wrapping_add(2), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::mem::offset_of;

    #[test]
    fn a_guest_cannot_change_the_length_of_the_page() {
        let page = Page::create().unwrap();
        let length = size_of::<Layout>() as u64;
        for other in [0, length - 1, length + 1] {
            assert_eq!(ftruncate(page.fd(), other), Err(rustix::io::Errno::PERM), "{other}");
        }
        // All of it is mapped, to the last byte.
        assert_eq!(page.receive.head.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_layout_matches_the_shims() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("clockshim.so");
        std::fs::write(&file, crate::embedded::CLOCKSHIM).unwrap();
        let file = CString::new(file.to_str().unwrap()).unwrap();
        // SAFETY: the library's constructor does nothing without the variable that names a page, and the symbol is an array of
        // as many numbers as are read. It stays loaded, with local symbols.
        let offsets = unsafe {
            let library = nix::libc::dlopen(file.as_ptr(), nix::libc::RTLD_NOW | nix::libc::RTLD_LOCAL);
            assert!(!library.is_null());
            let symbol = nix::libc::dlsym(library, c"clockshim_layout".as_ptr());
            assert!(!symbol.is_null());
            std::slice::from_raw_parts(symbol.cast::<u32>(), 34)
        };
        let own = [
            offset_of!(Layout, magic),
            offset_of!(Layout, version),
            offset_of!(Layout, mode),
            offset_of!(Layout, seed),
            offset_of!(Layout, epoch),
            offset_of!(Layout, cost),
            offset_of!(Layout, nic),
            offset_of!(Layout, spin),
            offset_of!(Layout, sequence),
            offset_of!(Layout, tsc),
            offset_of!(Layout, pace),
            offset_of!(Layout, bells_in),
            offset_of!(Layout, bells_out),
            offset_of!(Layout, turn),
            offset_of!(Layout, reason),
            offset_of!(Layout, now),
            offset_of!(Layout, timer),
            offset_of!(Layout, horizon),
            offset_of!(Layout, interval),
            offset_of!(Layout, lookahead),
            offset_of!(Layout, entries),
            offset_of!(Layout, push),
            offset_of!(Layout, user),
            offset_of!(Layout, started),
            offset_of!(Layout, handovers),
            offset_of!(Layout, sent),
            offset_of!(Layout, received),
            offset_of!(Layout, xstate_skipped),
            offset_of!(Layout, devices),
            offset_of!(Layout, transmit),
            offset_of!(Layout, receive),
            offset_of!(Layout, receive.bytes),
            offset_of!(Layout, receive.data),
            size_of::<Layout>(),
        ];
        assert_eq!(offsets, own.map(|offset| offset as u32));
    }
}
