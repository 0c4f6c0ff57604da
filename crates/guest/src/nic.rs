//! Our end of a guest's network device in dilated time. Frames go through the rings of the page, in both directions at once. A side that
//! puts a frame into an empty ring rings a bell.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpline_core::dilation::Clocks;

use crate::page::Page;
use crate::time::START;

/// A guest has written invalid data into the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has written invalid data into the memory that it shares with us")]
pub struct Nonsense;

/// The network device of a guest.
#[derive(Debug)]
pub struct Nic {
    page: Arc<Page>,
    bell: OwnedFd,
    /// Number of the guest's bells that have been handled.
    heard: u64,
    /// Whether to notify the guest of what has been put into its ring.
    notify: bool,
    /// Difference between the guest's clock and the shim's time.
    offset: i64,
    /// Its clock beside the run's.
    clocks: Clocks,
    frame: Vec<u8>,
}

impl Nic {
    pub(crate) fn new(page: Arc<Page>, bell: OwnedFd, offset: i64, clocks: Clocks) -> Self {
        Nic { page, bell, heard: 0, notify: false, offset, clocks, frame: Vec::new() }
    }

    /// Becomes readable when the guest sends something after [`Nic::receive`] has found nothing.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether the guest has sent a frame that has not been received yet.
    #[inline]
    pub fn pending(&self) -> bool {
        self.page.transmit.has_frames()
    }

    /// Takes the bells off the socket, so that it is no longer readable. Call it when a wait has ended because it was: [`Nic::receive`] does so by itself
    /// only if the guest has counted a bell, and a guest may stand still between ringing and counting, as one whose CPU time is used up does for
    /// hundreds of milliseconds. Until then each wait would end at once.
    pub fn silence(&self) {
        let mut bytes = [0; 64];
        while matches!(rustix::io::read(&self.bell, &mut bytes), Ok(64)) {}
    }

    /// Receives up to `most` frames. `each` gets the time at which a frame was sent, in nanoseconds of the run, and its bytes.
    ///
    /// # Errors
    /// If the guest has written invalid data.
    pub fn receive(&mut self, most: usize, mut each: impl FnMut(u64, &[u8])) -> Result<(), Nonsense> {
        // Bells first: a bell for a frame that is not found below is handled the next time.
        let rung = self.page.bells_out.load(Ordering::SeqCst);
        if rung != self.heard {
            self.heard = rung;
            self.silence();
        }
        for _ in 0..most {
            let taken = self.page.transmit.take(&mut self.frame).map_err(|_| Nonsense)?;
            let Some(time) = taken else { break };
            let at = time.saturating_add_signed(self.offset).saturating_sub(START);
            each(self.clocks.to_run(at), &self.frame);
        }
        Ok(())
    }

    /// Puts a frame, made of several parts, into the guest's ring; false if there is no room. [`Nic::flush`] notifies the guest.
    pub fn transmit(&mut self, parts: &[&[u8]]) -> bool {
        let pushed = self.page.receive.push(0, parts);
        self.notify |= pushed == Some(true);
        pushed.is_some()
    }

    /// Notifies the guest of new frames, if it may not know of them.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.notify) {
            // A full socket already contains bells; a guest that has ended needs none.
            let _ = rustix::net::send(&self.bell, &[0], rustix::net::SendFlags::NOSIGNAL);
            // Counted only now that it can be received.
            self.page.bells_in.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::process::{Child, Command};

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use warpline_core::Streams;
    use warpline_core::dilation::{Pace, Tdf};

    use super::*;
    use crate::page::{MODE_DILATED, write_pace};
    use crate::time::host_now;

    const FRAME: usize = 1500;

    /// Starts the minimal kernel in `native/clockshim/tests/wake.c`, and returns its network device.
    fn start(directory: &Path) -> (Nic, Child) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/clockshim");
        let program = directory.join("wake");
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o"])
            .arg(&program)
            .args(
                [
                    "tests/wake.c",
                    "checksum.c",
                    "clock.c",
                    "cut.c",
                    "judge.c",
                    "nic.c",
                    "process.c",
                    "ratio.c",
                    "ring.c",
                    "shim.c",
                    "signal.c",
                    "sockets.c",
                    "turn.c",
                    "wire.c",
                ]
                .map(|name| sources.join(name)),
            )
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let page = Arc::new(Page::create().unwrap());
        page.mode.store(MODE_DILATED, Ordering::Relaxed);
        write_pace(&page, &Pace::new(host_now(), Tdf::REAL), |shown| shown);
        let (bell, far) = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        )
        .unwrap();
        let shared = page.fd().try_clone_to_owned().unwrap();
        for fd in [&far, &shared] {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        }
        page.nic.store(far.as_raw_fd(), Ordering::Relaxed);
        let child = Command::new(&program)
            .env("WARPLINE_CLOCKSHIM", shared.as_raw_fd().to_string())
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .spawn()
            .unwrap();
        (Nic::new(page, bell, 0, Clocks::default()), child)
    }

    /// Sleeps until the guest rings, which it must.
    fn sleep(nic: &Nic, about: &str) {
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        let fd = nic.fd();
        let rang = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&patience)).unwrap();
        assert!(rang > 0, "{about}: the guest sleeps, and has not rung");
        nic.silence();
    }

    /// A guest whose CPU time is used up stands still right after the system call that rings the bell, before it has counted it.
    #[test]
    fn a_bell_that_is_not_counted_yet_can_be_silenced() {
        let kind = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (bell, guest) = socketpair(AddressFamily::Unix, SockType::Stream, None, kind).unwrap();
        let mut nic = Nic::new(Arc::new(Page::create().unwrap()), bell, 0, Clocks::default());
        let readable = |nic: &Nic| {
            let fd = nic.fd();
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&Timespec::default())).unwrap() > 0
        };
        rustix::net::send(&guest, &[0; 100], rustix::net::SendFlags::NOSIGNAL).unwrap();
        nic.receive(1, |_, _| {}).unwrap();
        assert!(readable(&nic), "nothing was counted");
        nic.silence();
        assert!(!readable(&nic));
        // It is counted later, and nothing is left to be read.
        nic.page.bells_out.fetch_add(1, Ordering::SeqCst);
        nic.receive(1, |_, _| {}).unwrap();
        assert!(!readable(&nic));
    }

    /// Both sides sleep as often as they can, rings fill up, and there is no timer, so the test hangs if a side misses a wake-up.
    #[test]
    fn no_wake_up_is_missed() {
        let directory = tempfile::tempdir().unwrap();
        let (mut nic, mut child) = start(directory.path());
        let mut random = Streams::new(1).stream("bursts");
        let mut frame = [0u8; FRAME];
        let (mut sent, mut back, mut full) = (0u32, 0u32, 0);
        // A round takes microseconds if both sides have a core, and milliseconds on a busy machine.
        let enough = host_now() + 20_000_000_000;
        for round in (0..30_000).take_while(|&round| round < 2_000 || host_now() < enough) {
            // More than a ring holds, now and then.
            let burst = if round % 1000 == 500 { 8000 } else { 1 + (random.uniform() * 4.0) as u32 };
            let end = sent + burst;
            while back < end {
                let held = (random.uniform() * 4000.0) as u32;
                while sent < end {
                    frame[..4].copy_from_slice(&sent.to_ne_bytes());
                    let length = 60 + (sent as usize * 7919) % (FRAME - 60);
                    if !nic.transmit(&[&frame[..30], &frame[30..length]]) {
                        full += 1;
                        break;
                    }
                    sent += 1;
                }
                // The guest is notified of the ring's content a little later.
                for spin in 0..held {
                    if spin % 512 == 0 {
                        std::thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
                nic.flush();
                if !nic.pending() {
                    sleep(&nic, &format!("round {round}, {sent} sent, {back} back"));
                }
                nic.receive(256, |_, bytes| {
                    let number = bytes.first_chunk::<4>().map(|number| u32::from_ne_bytes(*number));
                    assert_eq!(
                        (number, bytes.len()),
                        (Some(back), 60 + (back as usize * 7919) % (FRAME - 60))
                    );
                    back += 1;
                })
                .unwrap();
            }
        }
        assert!(full > 0, "the ring was never full");
        assert!(nic.transmit(&[&[0]]));
        nic.flush();
        assert!(child.wait().unwrap().success());
    }
}
