//! Our end of a guest's network device in dilated time: frames go through the rings of the page, both ways at once, and whoever puts one
//! into an empty ring rings a bell.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::machine::START;
use crate::page::Page;

/// A guest has written into the shared memory what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has written nonsense into the memory that it shares with us")]
pub struct Nonsense;

/// The network device of a guest.
#[derive(Debug)]
pub struct Nic {
    page: Arc<Page>,
    bell: OwnedFd,
    /// Bells of the guest that have been heard.
    heard: u64,
    /// The guest is to be told of what has been put into its ring.
    tell: bool,
    /// What the guest's clock shows less what the shim gives it.
    offset: i64,
    frame: Vec<u8>,
}

impl Nic {
    pub(crate) fn new(page: Arc<Page>, bell: OwnedFd, offset: i64) -> Self {
        Nic { page, bell, heard: 0, tell: false, offset, frame: Vec::new() }
    }

    /// Becomes readable when the guest sends something after [`Nic::receive`] has found nothing.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether the guest has sent something that has not been received.
    #[inline]
    pub fn pending(&self) -> bool {
        self.page.transmit.has_frames()
    }

    /// Receives up to `most` frames: `each` gets the run's instant in nanoseconds at which one was sent, and its bytes.
    ///
    /// # Errors
    /// If the guest has written nonsense.
    pub fn receive(&mut self, most: usize, mut each: impl FnMut(u64, &[u8])) -> Result<(), Nonsense> {
        // Bells first: one that is rung for what is not found below is heard the next time.
        let rung = self.page.bells_out.load(Ordering::SeqCst);
        if rung != self.heard {
            self.heard = rung;
            let mut bytes = [0; 64];
            while matches!(rustix::io::read(&self.bell, &mut bytes), Ok(64)) {}
        }
        for _ in 0..most {
            let taken = self.page.transmit.take(&mut self.frame).map_err(|_| Nonsense)?;
            let Some(time) = taken else { break };
            let at = time.saturating_add_signed(self.offset).saturating_sub(START);
            each(at, &self.frame);
        }
        Ok(())
    }

    /// Puts a frame, made of several parts, before the guest; false if there is no room. It is told of it by [`Nic::flush`].
    pub fn transmit(&mut self, parts: &[&[u8]]) -> bool {
        let pushed = self.page.receive.push(0, parts);
        self.tell |= pushed == Some(true);
        pushed.is_some()
    }

    /// Tells the guest of what has been put before it, if it may not know.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.tell) {
            self.page.bells_in.fetch_add(1, Ordering::SeqCst);
            // A full socket has bells enough in it; a guest that has ended needs none.
            let _ = rustix::net::send(&self.bell, &[0], rustix::net::SendFlags::NOSIGNAL);
        }
    }
}
