//! The receiving end: one push at a time into one store.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use warpline_stacks::quic::{
    Connection, Identity, PublicKey, QuicError, RecvStream, SendStream, Server, Settings, Trust,
};

use super::build::{self, BuildError, Built, Options, Progress, Source};
use super::manifest::{Id, Manifest};
use super::protocol::{Answer, BUSY, Hello, SUPERSEDED, Say, receive, receive_manifest, send};
use super::store::{Store, StoreError};

/// Why a receiver cannot work.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot listen.
    #[error(transparent)]
    Quic(#[from] QuicError),
}

/// An event of a receiver.
#[derive(Debug)]
pub enum Event<'a> {
    /// It listens.
    Listening {
        /// The address.
        address: SocketAddr,
        /// The version in use.
        current: Option<String>,
    },
    /// A sender was refused, or its connection broke in the handshake.
    Refused {
        /// The reason.
        reason: &'a QuicError,
    },
    /// A push begins.
    Begun {
        /// The sender.
        remote: SocketAddr,
        /// Its key.
        peer: Option<PublicKey>,
        /// The version.
        id: Id,
        /// Files in it.
        files: usize,
    },
    /// A push is complete.
    Done {
        /// The sender.
        remote: SocketAddr,
        /// The version.
        id: Id,
        /// The result.
        built: Built,
    },
    /// Something that is no longer needed could not be removed. The next push tries it again.
    Left {
        /// The reason.
        reason: String,
    },
    /// A push failed. Fetched chunks are kept.
    Failed {
        /// The sender.
        remote: SocketAddr,
        /// The reason.
        reason: String,
    },
}

/// Settings of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Versions to keep besides the one in use.
    pub keep: usize,
    /// Whether to end after the first completed push.
    pub once: bool,
    /// The connections; a receiver sends little.
    pub settings: Settings,
}

/// What the threads of a receiver share.
struct Receiver<'a> {
    store: Mutex<Store>,
    options: ServeOptions,
    /// The current push.
    active: Mutex<Option<Connection>>,
    /// The function that gets events; its calls do not overlap.
    observe: Mutex<&'a mut (dyn FnMut(Event<'_>) + Send)>,
    done: Mutex<bool>,
    /// Number of connections being served.
    senders: AtomicUsize,
}

/// Most senders connected at the same time. The newest takes over from the current push; the others are not queued.
const SENDERS: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens on `address` and receives pushes into the store at `root`, from senders with a key of `trust`. Returns after the first completed
/// push if `once` is set, and otherwise never: an error of one sender ends only its connection.
///
/// # Errors
/// If the store cannot be used, the address is not available, or the socket itself fails.
pub fn serve(
    root: &Path,
    address: &str,
    identity: &Identity,
    trust: &Trust,
    options: ServeOptions,
    observe: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<(), ServeError> {
    let store = Store::open(root)?;
    let server = Server::bind(address, identity, trust, &options.settings)?;
    if let Ok(address) = server.local_addr() {
        observe(Event::Listening { address, current: store.current()? });
    }
    let receiver = Receiver {
        store: Mutex::new(store),
        options,
        active: Mutex::new(None),
        observe: Mutex::new(observe),
        done: Mutex::new(false),
        senders: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        loop {
            if options.once && *lock(&receiver.done) {
                return Ok(());
            }
            match server.accept(Duration::from_millis(200)) {
                Ok(None) => {}
                Ok(Some(connection)) => {
                    let receiver = &receiver;
                    let remote = connection.remote_address();
                    let guest = connection.clone();
                    let refuse = |reason: &str| {
                        guest.close(BUSY, reason);
                        receiver.tell(Event::Failed { remote, reason: reason.to_owned() });
                    };
                    if receiver.senders.load(Ordering::Relaxed) >= SENDERS {
                        refuse("too many senders are connected");
                        continue;
                    }
                    receiver.senders.fetch_add(1, Ordering::Relaxed);
                    let begun = thread::Builder::new().spawn_scoped(scope, move || {
                        receiver.push(&connection);
                        receiver.senders.fetch_sub(1, Ordering::Relaxed);
                    });
                    if let Err(error) = begun {
                        receiver.senders.fetch_sub(1, Ordering::Relaxed);
                        refuse(&format!("cannot start a thread: {error}"));
                    }
                }
                Err(QuicError::Ended) => return Err(QuicError::Ended.into()),
                Err(reason) => (lock(&receiver.observe))(Event::Refused { reason: &reason }),
            }
        }
    })
}

impl Receiver<'_> {
    fn tell(&self, event: Event<'_>) {
        (lock(&self.observe))(event);
    }

    /// Receives one push.
    fn push(&self, connection: &Connection) {
        let remote = connection.remote_address();
        let outcome = self.take(connection);
        if let Err(error) = outcome {
            self.tell(Event::Failed { remote, reason: error.to_string() });
        }
        let mut active = lock(&self.active);
        // Another connection of the same sender has the same address.
        if active.as_ref().is_some_and(|active| active.is(connection)) {
            *active = None;
        }
    }

    fn take(&self, connection: &Connection) -> Result<(), Box<dyn std::error::Error>> {
        let remote = connection.remote_address();
        let (mut to, mut from) = connection.accept()?;
        let hello: Hello = receive(&mut from)?;
        let prepared =
            receive_manifest(&mut from, &hello).map_err(|error| error.to_string()).and_then(|encoded| {
                match Manifest::decode(&encoded) {
                    Ok(manifest) => Ok((encoded, manifest)),
                    Err(error) => Err(error.to_string()),
                }
            });
        let (encoded, manifest) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => {
                end(&mut to, &mut from, &Say::Failed { reason: reason.clone(), passing: false });
                return Err(reason.into());
            }
        };
        // The newest push wins. Otherwise a push whose sender was killed would hold the store until its connection timed out.
        let before = lock(&self.active).replace(connection.clone());
        if let Some(before) = before {
            before.close(SUPERSEDED, "another push takes over");
        }
        let store = lock(&self.store);
        let id = Id::of(&encoded);
        self.tell(Event::Begun { remote, peer: connection.peer(), id, files: manifest.count().0 });
        let options = Options { keep: self.options.keep, verify: hello.verify };
        let mut wire = Wire { to: &mut to, from: &mut from };
        let built = wire.build(&store, &encoded, &manifest, options);
        drop(store);
        let result = match built {
            Ok(built) => {
                self.tell(Event::Done { remote, id, built });
                *lock(&self.done) = true;
                end(&mut to, &mut from, &Say::Done(built));
                Ok(())
            }
            Err(error) => {
                end(
                    &mut to,
                    &mut from,
                    &Say::Failed { reason: error.to_string(), passing: error.is_passing() },
                );
                Err(error.into())
            }
        };
        self.clear_trash(connection);
        result
    }

    /// Removes what the store has put aside after a push. This may be more than the push brought, so it comes when the sender has heard how its push
    /// ended, and makes way for a newer push.
    fn clear_trash(&self, connection: &Connection) {
        let is_last = || lock(&self.active).as_ref().is_some_and(|active| active.is(connection));
        let cleared = lock(&self.store).clear_trash(&mut || is_last());
        if let Err(error) = cleared {
            self.tell(Event::Left { reason: error.to_string() });
        }
    }
}

/// Sends the last message and waits until the sender has it, or has gone.
fn end(to: &mut SendStream, from: &mut RecvStream, word: &Say) {
    if send(to, word).and_then(|()| to.finish()).is_ok() {
        let _ = io::copy(from, &mut io::sink());
    }
}

/// The sender, as a source of chunks.
struct Wire<'a> {
    to: &'a mut SendStream,
    from: &'a mut RecvStream,
}

impl Wire<'_> {
    fn build(
        &mut self,
        store: &Store,
        encoded: &[u8],
        manifest: &Manifest,
        options: Options,
    ) -> Result<Built, BuildError> {
        // The source of chunks and the reports use the same stream, one after the other.
        let wire = std::cell::RefCell::new(self);
        let mut source = Chunks(&wire);
        build::build(store, encoded, manifest, options, &mut source, &mut |progress| {
            wire.borrow_mut().report(progress)
        })
    }

    fn report(&mut self, progress: Progress) -> io::Result<()> {
        send(self.to, &Say::Progress(progress))
    }
}

struct Chunks<'a, 'b>(&'a std::cell::RefCell<&'a mut Wire<'b>>);

impl Source for Chunks<'_, '_> {
    fn want(&mut self, entry: u32, chunk: u32) -> io::Result<()> {
        let wire = &mut **self.0.borrow_mut();
        send(wire.to, &Say::Want { entry, chunk })?;
        wire.to.flush()
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        match receive(self.0.borrow_mut().from)? {
            Answer::Chunk(data) => Ok(Some(data)),
            Answer::Gone => Ok(None),
        }
    }
}
