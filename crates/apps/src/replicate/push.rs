//! The sending end: one tree, many receivers.
//!
//! The tree is described once. Receivers are served at the same time, each over its own connection and so with its own congestion control.
//! After a temporary failure there is another attempt. If a file has changed, everything starts again with a new description; receivers copy
//! the chunks that they have.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use warpline_core::Rate;
use warpline_stacks::quic::{Client, Connection, Identity, QuicError, Settings, Trust, plain};

use super::PORT;
use super::build::{Built, Progress};
use super::manifest::{Id, Manifest};
use super::patience::{Patience, Work};
use super::protocol::{Answer, Hello, SUPERSEDED, Say, VERSION, receive, send};
use super::scan::{Scan, ScanError, read_chunk, scan};
use super::throttle::Throttle;
use super::tree::Tree;

/// How often the tree is described again if files change while they are sent.
const ROUNDS: u32 = 5;

/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Settings of a push.
#[derive(Clone, Copy, Debug)]
pub struct PushOptions {
    /// Most receivers served at the same time; receivers that hang do not count.
    pub at_once: usize,
    /// A receiver is given up after this long without progress: taking chunks, or comparing or checking more. An answer is not progress.
    pub patience: Duration,
    /// Whether to leave out special files and links that lead out of the tree.
    pub skip_special: bool,
    /// Whether receivers must read every byte that they have.
    pub verify: bool,
    /// Rate limit for each receiver, besides the congestion control; `None` for no limit.
    pub limit: Option<Rate>,
    /// The connections, with their congestion control.
    pub settings: Settings,
}

/// Why the push failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The tree cannot be described.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// No socket could be opened, or a similar problem.
    #[error(transparent)]
    Quic(#[from] QuicError),
}

/// An event of a push.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The tree was described; all receivers begin with it.
    Described {
        /// The version.
        id: Id,
        /// Files.
        files: usize,
        /// Bytes of data in them.
        bytes: u64,
        /// Things left out.
        skipped: usize,
    },
    /// The receiver's connection is being opened.
    Connecting {
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// It makes progress.
    Progress(Progress),
    /// It could not be reached, or was lost; there will be another attempt.
    Waiting {
        /// The reason.
        reason: String,
    },
}

/// The outcome for a receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The receiver as the user named it.
    pub host: String,
    /// Its result, or why it failed.
    pub result: Result<Built, String>,
    /// Number of connections.
    pub attempts: u32,
    /// Bytes of UDP payload sent to it.
    pub sent: u64,
}

/// Receives events, with the number of the receiver; `None` for events of all.
pub type Observer<'a> = &'a (dyn Fn(Option<usize>, Event) + Sync);

/// A receiver without progress for this long, or for a quarter of the patience, makes room for another and continues beside it.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// How often to check the receivers' progress.
const LOOK: Duration = Duration::from_millis(20);

/// The result of one attempt.
enum Attempt {
    Built(Built),
    /// There may be another attempt.
    Passing(String),
    /// A file changed.
    Stale,
    Final(String),
}

/// An address with a port.
fn with_port(host: &str) -> String {
    let bare = host.parse::<std::net::Ipv6Addr>().is_ok();
    let has_port = !bare && host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (has_port, bare) {
        (true, _) => host.to_owned(),
        (false, true) => format!("[{host}]:{PORT}"),
        (false, false) => format!("{host}:{PORT}"),
    }
}

/// Pushes the directory `root` to all `hosts` ("host" or "host:port") that show a key of `trust`. Returns the outcome for each.
///
/// # Errors
/// If the directory cannot be described, or there is no socket. The failure of one receiver is in its outcome.
pub fn push(
    root: &Path,
    hosts: &[String],
    identity: &Identity,
    trust: &Trust,
    options: &PushOptions,
    observe: Observer<'_>,
) -> Result<(Id, Vec<Outcome>), PushError> {
    let client = Client::new(identity, trust, &options.settings)?;
    let mut outcomes: Vec<Outcome> = hosts
        .iter()
        .map(|host| Outcome { host: host.clone(), result: Err(String::new()), attempts: 0, sent: 0 })
        .collect();
    for round in 1.. {
        let Scan { manifest, skipped, tree } = scan(root, options.skip_special)?;
        let encoded = manifest.encode();
        let id = Id::of(&encoded);
        let (files, _) = manifest.count();
        let described = Event::Described { id, files, bytes: manifest.data_bytes(), skipped: skipped.len() };
        observe(None, described);
        let job =
            Job { tree: &tree, manifest: &manifest, encoded: &encoded, client: &client, options, observe };
        let stale = job.serve_all(&mut outcomes);
        if !stale || round == ROUNDS {
            return Ok((id, outcomes));
        }
    }
    unreachable!("the rounds end by returning")
}

/// One description to send to the receivers.
struct Job<'a> {
    tree: &'a Tree,
    manifest: &'a Manifest,
    encoded: &'a [u8],
    client: &'a Client,
    options: &'a PushOptions,
    observe: Observer<'a>,
}

/// A receiver that is being served: the state that its thread and the watching thread share.
struct Watch {
    patience: Patience,
    connection: Option<Connection>,
    /// Whether it was given up.
    over: bool,
    finished: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Checks for progress. Returns whether the receiver counts as being served; one that hangs does not.
    fn look(&mut self, now: Instant, hangs_after: Duration) -> bool {
        if let Some(connection) = &self.connection {
            let acknowledged = connection.congestion().map_or(0, |view| view.delivered);
            self.patience.acknowledges(acknowledged, now);
        }
        if !self.finished && !self.over && self.patience.is_over(now) {
            self.over = true;
            // Closing the connection ends everything that waits for this receiver.
            if let Some(connection) = &self.connection {
                connection.close(0, "no progress");
            }
        }
        !self.finished && !self.over && self.patience.idle(now) < hangs_after
    }
}

impl Job<'_> {
    /// Serves all receivers, each in its own thread and a limited number at once; those without progress do not count. Returns whether a file
    /// has changed.
    fn serve_all(&self, outcomes: &mut [Outcome]) -> bool {
        let hangs_after = (self.options.patience / 4).min(HANGS_AFTER);
        let work = Work::of(self.manifest);
        let watches: Vec<Mutex<Watch>> = outcomes
            .iter()
            .map(|_| {
                let patience = Patience::new(self.options.patience, work, now());
                Mutex::new(Watch { patience, connection: None, over: false, finished: false })
            })
            .collect();
        let stale = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut waiting: VecDeque<(usize, &mut Outcome)> = outcomes.iter_mut().enumerate().collect();
            let mut begun: Vec<&Mutex<Watch>> = Vec::new();
            loop {
                begun.retain(|watch| !lock(watch).finished);
                let at = now();
                let active = begun.iter().filter(|watch| lock(watch).look(at, hangs_after)).count();
                if active < self.options.at_once.max(1)
                    && let Some((number, outcome)) = waiting.pop_front()
                {
                    let (watch, stale) = (&watches[number], &stale);
                    lock(watch).patience = Patience::new(self.options.patience, work, now());
                    begun.push(watch);
                    scope.spawn(move || {
                        stale.fetch_or(self.serve(number, outcome, watch), Ordering::Relaxed);
                        lock(watch).finished = true;
                    });
                } else if begun.is_empty() {
                    break;
                } else {
                    pause(LOOK);
                }
            }
        });
        stale.into_inner()
    }

    /// Serves one receiver, with as many attempts as necessary. Returns whether a file has changed.
    fn serve(&self, number: usize, outcome: &mut Outcome, watch: &Mutex<Watch>) -> bool {
        let address = with_port(&outcome.host);
        let first = Duration::from_millis(250);
        let (mut wait, mut last) = (first, lock(watch).patience.idle(now()));
        loop {
            outcome.attempts += 1;
            (self.observe)(Some(number), Event::Connecting { attempt: outcome.attempts });
            let attempt = self.attempt(number, &address, &mut outcome.sent, watch);
            let idle = {
                let mut watch = lock(watch);
                watch.connection = None;
                watch.patience.lost();
                watch.over |= watch.patience.is_over(now());
                watch.patience.idle(now())
            };
            let reason = match attempt {
                Attempt::Built(built) => {
                    outcome.result = Ok(built);
                    return false;
                }
                Attempt::Final(reason) => {
                    outcome.result = Err(reason);
                    return false;
                }
                Attempt::Stale => {
                    outcome.result = Err("files kept changing while they were sent".to_owned());
                    return true;
                }
                Attempt::Passing(reason) => reason,
            };
            if lock(watch).over {
                let seconds = self.options.patience.as_secs_f64();
                outcome.result = Err(format!("no progress in {seconds} s (--patience); at last: {reason}"));
                return false;
            }
            if idle < last {
                wait = first;
            }
            last = idle;
            (self.observe)(Some(number), Event::Waiting { reason });
            let left = self.options.patience.saturating_sub(idle);
            pause(wait.min(left));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn attempt(&self, number: usize, address: &str, sent: &mut u64, watch: &Mutex<Watch>) -> Attempt {
        let connection = match self.client.connect(address) {
            Ok(connection) => connection,
            Err(error) => return judged(error.into()),
        };
        {
            let mut watch = lock(watch);
            watch.patience.connected(self.encoded.len() as u64);
            watch.connection = Some(connection.clone());
            if watch.over {
                return Attempt::Passing("it connected too late".to_owned());
            }
        }
        let outcome = self.talk(number, &connection, watch);
        *sent += connection.stats().udp_tx.bytes;
        // The receiver's reason says more than a broken stream.
        outcome.unwrap_or_else(|error| judged(connection.close_reason().map_or(error, io::Error::from)))
    }

    fn talk(&self, number: usize, connection: &Connection, watch: &Mutex<Watch>) -> io::Result<Attempt> {
        let (to, mut from) = connection.open()?;
        let mut to = Throttle::new(to, self.options.limit);
        let hello =
            Hello { version: VERSION, manifest: self.encoded.len() as u64, verify: self.options.verify };
        send(&mut to, &hello)?;
        io::Write::write_all(&mut to, self.encoded)?;
        let mut stale = false;
        let mut offsets = Offsets::default();
        loop {
            match receive(&mut from)? {
                Say::Progress(progress) => {
                    lock(watch).patience.says(progress, now());
                    (self.observe)(Some(number), Event::Progress(progress));
                }
                Say::Want { entry, chunk } => {
                    let answer = self.answer(entry, chunk, &mut offsets)?;
                    let length = self.manifest.entries[entry as usize].chunks()[chunk as usize].length;
                    if !lock(watch).patience.takes(entry, chunk, length, now()) {
                        return Ok(Attempt::Passing("it requests the same chunk over and over".to_owned()));
                    }
                    stale |= answer == Answer::Gone;
                    send(&mut to, &answer)?;
                }
                Say::Done(built) => {
                    to.into_inner().finish()?;
                    return Ok(Attempt::Built(built));
                }
                Say::Failed { .. } if stale => return Ok(Attempt::Stale),
                Say::Failed { reason, passing: true } => return Ok(Attempt::Passing(plain(&reason))),
                Say::Failed { reason, passing: false } => return Ok(Attempt::Final(plain(&reason))),
            }
        }
    }

    fn answer(&self, entry: u32, chunk: u32, offsets: &mut Offsets) -> io::Result<Answer> {
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, "the receiver requests what is not in the tree");
        let found = self.manifest.entries.get(entry as usize).ok_or_else(wrong)?;
        let piece =
            found.chunks().get(chunk as usize).filter(|piece| piece.hash.is_some()).ok_or_else(wrong)?;
        let offset = offsets.of(entry, chunk, found.chunks());
        // The next description of the tree will show why it cannot be read.
        let data = read_chunk(self.tree, found, offset, piece).unwrap_or(None);
        Ok(data.map_or(Answer::Gone, Answer::Chunk))
    }
}

/// The offsets of the chunks in the last requested file.
#[derive(Default)]
struct Offsets {
    entry: Option<u32>,
    starts: Vec<u64>,
}

impl Offsets {
    fn of(&mut self, entry: u32, chunk: u32, chunks: &[super::manifest::Chunk]) -> u64 {
        if self.entry != Some(entry) {
            self.entry = Some(entry);
            self.starts.clear();
            let mut at = 0;
            for chunk in chunks {
                self.starts.push(at);
                at += chunk.length;
            }
        }
        self.starts[chunk as usize]
    }
}

/// Decides whether another attempt makes sense after an error.
fn judged(error: io::Error) -> Attempt {
    let quic = error.get_ref().and_then(|inner| inner.downcast_ref::<QuicError>());
    match quic {
        Some(
            QuicError::Untrusted { .. }
            | QuicError::Refused { .. }
            | QuicError::Address { .. }
            | QuicError::NoKeyFor { .. }
            | QuicError::Setup(_),
        ) => Attempt::Final(error.to_string()),
        Some(QuicError::Closed { code, .. }) if *code == u64::from(SUPERSEDED) => {
            Attempt::Final("another push took over at this receiver".to_owned())
        }
        _ => Attempt::Passing(error.to_string()),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: patience is measured in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: between two attempts real time has to pass")]
fn pause(span: Duration) {
    thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_the_usual_port() {
        for (host, address) in [
            ("example.org", "example.org:4433"),
            ("example.org:99", "example.org:99"),
            ("192.0.2.1", "192.0.2.1:4433"),
            ("2001:db8::1", "[2001:db8::1]:4433"),
            ("[2001:db8::1]:5", "[2001:db8::1]:5"),
        ] {
            assert_eq!(with_port(host), address);
        }
    }
}
