//! What goes from the thread that serves the socket to the emulator's, with a bell that wakes it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

/// Where orders are posted.
#[derive(Debug)]
pub struct Post<T> {
    orders: Sender<T>,
    bell: Arc<OwnedFd>,
}

/// Where they come in.
#[derive(Debug)]
pub struct Inbox<T> {
    orders: Receiver<T>,
    bell: Arc<OwnedFd>,
}

/// A post and its inbox.
///
/// # Errors
/// If the system has no descriptor left.
pub fn post<T>() -> io::Result<(Post<T>, Inbox<T>)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((Post { orders: sender, bell: Arc::clone(&bell) }, Inbox { orders: receiver, bell }))
}

impl<T> Post<T> {
    /// Posts an order, and rings the bell. Returns whether there is still somebody to take it.
    pub fn send(&self, order: T) -> bool {
        // The order comes first: whoever hears the bell finds it.
        let sent = self.orders.send(order).is_ok();
        sent && rustix::io::write(&*self.bell, &1u64.to_ne_bytes()).is_ok()
    }
}

impl<T> Inbox<T> {
    /// Takes the orders that have come. Does not wait. `rung` says whether the bell was heard: only then is it silenced, which takes a system call.
    pub fn take(&self, rung: bool) -> impl Iterator<Item = T> + '_ {
        if rung {
            // Before the orders are looked for: it rings again for any that comes later.
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
        self.orders.try_iter()
    }

    /// Becomes readable when an order comes.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The same for somebody who keeps it.
    pub fn shared_bell(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.bell)
    }
}
