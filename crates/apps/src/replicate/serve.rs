//! The receiving end: one push at a time into one store.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use warpline_disk::Directory;
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
    /// A push failed. The chunks that it fetched stay, unless a push of another tree needs their room.
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
struct Receiver<'a, D: Directory> {
    store: Mutex<Store<D>>,
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
    let receiver = Receiver::new(store, options, observe);
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

impl<'a, D: Directory> Receiver<'a, D> {
    fn new(store: Store<D>, options: ServeOptions, observe: &'a mut (dyn FnMut(Event<'_>) + Send)) -> Self {
        Receiver {
            store: Mutex::new(store),
            options,
            active: Mutex::new(None),
            observe: Mutex::new(observe),
            done: Mutex::new(false),
            senders: AtomicUsize::new(0),
        }
    }

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
    fn build<D: Directory>(
        &mut self,
        store: &Store<D>,
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

#[cfg(test)]
mod tests {
    use super::super::push::{PushOptions, push};
    use super::*;
    use std::path::PathBuf;
    use warpline_disk::sim::{Fault, Hold, SimDirectory, SimDisk};

    /// Longest wait for the other end: much more than it takes.
    const WAIT: Duration = Duration::from_secs(30);

    /// A directory to push, and the socket and the disk of a receiver that keeps no old versions.
    struct Bench {
        source: tempfile::TempDir,
        key: Identity,
        trust: Trust,
        server: Server,
        disk: SimDisk,
    }

    /// What a receiver has told.
    #[derive(Default)]
    struct Told {
        /// How much was in the trash when each push began.
        trash: Vec<usize>,
        /// What could not be removed.
        left: Vec<String>,
    }

    impl Bench {
        fn new() -> Self {
            let key = Identity::generate().unwrap();
            let trust = Trust::only(key.public());
            let server = Server::bind("127.0.0.1:0", &key, &trust, &Settings::default()).unwrap();
            Bench { source: tempfile::tempdir().unwrap(), key, trust, server, disk: SimDisk::new(1) }
        }

        fn receiver<'a>(&self, observe: &'a mut (dyn FnMut(Event<'_>) + Send)) -> Receiver<'a, SimDirectory> {
            let store = Store::open_at(self.disk.root(), PathBuf::from("/")).unwrap();
            let options = ServeOptions { keep: 0, once: false, settings: Settings::default() };
            Receiver::new(store, options, observe)
        }

        fn note(&self, told: &Mutex<Told>, event: &Event<'_>) {
            match event {
                Event::Begun { .. } => lock(told).trash.push(self.names("trash").len()),
                Event::Left { reason } => lock(told).left.push(reason.clone()),
                _ => {}
            }
        }

        fn names(&self, part: &str) -> Vec<std::ffi::OsString> {
            self.disk.root().names(Path::new(part)).unwrap()
        }

        /// Takes a connection. Returns when the receiver has nothing more to do for it.
        fn take(&self, receiver: &Receiver<'_, SimDirectory>) {
            let connection = self.server.accept(WAIT).unwrap().unwrap();
            receiver.push(&connection);
        }

        /// Pushes a directory with this text in a file. Returns what the sender hears.
        fn push(&self, text: &str) -> Result<Built, String> {
            std::fs::write(self.source.path().join("file"), text).unwrap();
            let host = self.server.local_addr().unwrap().to_string();
            let options = PushOptions {
                at_once: 1,
                patience: WAIT,
                skip_special: false,
                verify: false,
                limit: None,
                settings: Settings::default(),
            };
            let pushed = push(self.source.path(), &[host], &self.key, &self.trust, &options, &|_, _| {});
            pushed.unwrap().1.remove(0).result
        }

        /// Pushes twice. The sender hears that the second push is done, though nothing can be removed from the trash: that waits.
        fn push_twice<'scope, 'env>(
            &'env self,
            scope: &'scope thread::Scope<'scope, 'env>,
            receiver: &'env Receiver<'_, SimDirectory>,
        ) -> (Hold, thread::ScopedJoinHandle<'scope, ()>) {
            let take = || scope.spawn(move || self.take(receiver));
            let first = take();
            self.push("first").unwrap();
            first.join().unwrap();
            let held = self.disk.root().open_directory(Path::new("trash")).unwrap().hold_removals();
            let second = take();
            self.push("second").unwrap();
            wait(&second, || held.is_reached());
            (held, second)
        }
    }

    /// Waits for something that comes before another thread can end.
    fn wait<T>(other: &thread::ScopedJoinHandle<'_, T>, comes: impl Fn() -> bool) {
        while !comes() {
            assert!(!other.is_finished(), "it ended too early");
            thread::yield_now();
        }
    }

    #[test]
    fn old_versions_are_removed_when_the_sender_has_heard_and_a_newer_push_goes_first() {
        let bench = &Bench::new();
        let told = Mutex::new(Told::default());
        let mut observe = |event: Event<'_>| bench.note(&told, &event);
        let receiver = &bench.receiver(&mut observe);
        thread::scope(|scope| {
            let (held, second) = bench.push_twice(scope, receiver);
            let of_second = lock(&receiver.active).clone().unwrap();
            let third = scope.spawn(|| bench.take(receiver));
            let pushed = scope.spawn(|| bench.push("third"));
            wait(&pushed, || lock(&receiver.active).as_ref().is_some_and(|active| !active.is(&of_second)));
            drop(held);
            pushed.join().unwrap().unwrap();
            second.join().unwrap();
            third.join().unwrap();
        });
        // When the third began, what was left of the building of the second was removed, but not the first version and its description.
        assert_eq!(lock(&told).trash, [0, 0, 2]);
        assert_eq!(lock(&told).left, [""; 0]);
        let parts = ["versions", "manifests", "incoming", "trash"];
        assert_eq!(parts.map(|part| bench.names(part).len()), [1, 1, 0, 0]);
    }

    #[test]
    fn what_cannot_be_removed_is_told_and_keeps_neither_the_rest_nor_the_next_push() {
        let bench = &Bench::new();
        let told = Mutex::new(Told::default());
        let mut observe = |event: Event<'_>| bench.note(&told, &event);
        let receiver = &bench.receiver(&mut observe);
        thread::scope(|scope| {
            let (held, second) = bench.push_twice(scope, receiver);
            // The removal that waits is the next operation of this disk.
            bench.disk.inject(bench.disk.count(), Fault::Fail);
            drop(held);
            second.join().unwrap();
            assert_eq!(bench.names("trash").len(), 1);

            let third = scope.spawn(|| bench.take(receiver));
            bench.push("third").unwrap();
            third.join().unwrap();
        });
        assert_eq!(lock(&told).trash, [0, 0, 1]);
        let left = lock(&told).left.clone();
        assert!(left.len() == 1 && left[0].starts_with("cannot remove /trash/incoming-"), "{left:?}");
        assert!(bench.names("trash").is_empty());
    }
}
