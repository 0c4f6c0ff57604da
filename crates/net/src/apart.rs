//! The parts of a network in several processes, perhaps on several machines: one part in each. What they need of each other is a trait,
//! [`Processes`], so that nothing here knows how messages are sent.

use std::fmt::Display;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use warpline_core::{TimeDelta, Timestamp};

use crate::hosts::Pause;
use crate::network::Network;
use crate::parallel::{Bounds, Neighbours, PartHosts, Post, Stretch, Told, run_part};
use crate::part::Part;

/// What a process tells all others when they meet.
pub type Words = [u64; 2];

/// The processes that run a network together, as one of them meets the others. All of them have to meet equally often.
pub trait Processes {
    /// The number of this process, from 0 on.
    fn own(&self) -> usize;

    /// How many there are.
    fn count(&self) -> usize;

    /// Tells all processes `words`, hands each the bytes for it, and waits until all have done so. `bytes` has a place for each process, in
    /// their order: before, with what it is to get; afterwards, with what has come from it. The own place is empty. Returns the words of all.
    ///
    /// # Errors
    /// If a process has ended.
    fn meet(&mut self, words: Words, bytes: &mut [Vec<u8>]) -> Result<Vec<Words>, MeetError>;
}

/// Why processes do not meet any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MeetError {
    /// One has ended.
    #[error("process {0} has ended")]
    Ended(usize),
    /// What one has sent cannot be read.
    #[error("what process {0} sent cannot be read: {1}")]
    Unreadable(usize, postcard::Error),
    /// What is to be sent cannot be written.
    #[error("a message cannot be written: {0}")]
    Unwritable(postcard::Error),
}

/// Writes a message behind what is in `bytes`.
fn write(message: &impl Serialize, bytes: &mut Vec<u8>) -> Result<(), MeetError> {
    *bytes = postcard::to_extend(message, std::mem::take(bytes)).map_err(MeetError::Unwritable)?;
    Ok(())
}

/// Reads the message of a process.
fn read<T: DeserializeOwned>(process: usize, bytes: &[u8]) -> Result<T, MeetError> {
    postcard::from_bytes(bytes).map_err(|error| MeetError::Unreadable(process, error))
}

/// Brings what each process has to say to the first one. It gets all, in the order of processes; the others get nothing.
///
/// # Errors
/// If a process has ended.
pub fn gather<T: Serialize + DeserializeOwned>(
    processes: &mut dyn Processes,
    own: T,
) -> Result<Option<Vec<T>>, MeetError> {
    let mut bytes = vec![Vec::new(); processes.count()];
    if processes.own() > 0 {
        write(&own, &mut bytes[0])?;
        drop(own);
        processes.meet(Words::default(), &mut bytes)?;
        return Ok(None);
    }
    processes.meet(Words::default(), &mut bytes)?;
    let others = bytes.iter().enumerate().skip(1).map(|(process, bytes)| read(process, bytes));
    std::iter::once(Ok(own)).chain(others).collect::<Result<_, _>>().map(Some)
}

/// Tells every process what each has to say, in the order of processes.
///
/// # Errors
/// If a process has ended.
pub fn share<T: Serialize + DeserializeOwned>(
    processes: &mut dyn Processes,
    own: &T,
) -> Result<Vec<T>, MeetError> {
    let mut message = Vec::new();
    write(own, &mut message)?;
    let mut bytes = vec![message.clone(); processes.count()];
    bytes[processes.own()].clear();
    processes.meet(Words::default(), &mut bytes)?;
    bytes[processes.own()] = message;
    bytes.iter().enumerate().map(|(process, bytes)| read(process, bytes)).collect()
}

/// Goes on only if all processes can. If some cannot, each of those returns its own error, and the others what `elsewhere` makes of the
/// number and the message of the first of them.
///
/// # Errors
/// The outer one if a process has ended.
pub fn agree<T, E: Display>(
    processes: &mut dyn Processes,
    own: Result<T, E>,
    elsewhere: impl FnOnce(usize, String) -> E,
) -> Result<Result<T, E>, MeetError> {
    let all = share(processes, &own.as_ref().err().map(E::to_string))?;
    let failed = all.into_iter().enumerate().find_map(|(process, message)| Some((process, message?)));
    Ok(match (own, failed) {
        (Ok(_), Some((process, message))) => Err(elsewhere(process, message)),
        (own, _) => own,
    })
}

/// The parts in other processes.
struct Apart<'a, N> {
    processes: &'a mut dyn Processes,
    /// What is to be handed over, by process.
    out: Vec<Post<N>>,
    /// A place for each process.
    bytes: Vec<Vec<u8>>,
    failure: Option<MeetError>,
}

impl<N: Serialize + DeserializeOwned> Apart<'_, N> {
    fn try_meet<H: PartHosts<Note = N>>(
        &mut self,
        told: Told,
        part: &mut Part,
        hosts: &mut H,
    ) -> Result<Told, MeetError> {
        for (bytes, post) in self.bytes.iter_mut().zip(&mut self.out) {
            bytes.clear();
            if !post.is_empty() {
                write(post, bytes)?;
                post.clear();
            }
        }
        let words = self.processes.meet([told.next.as_nanos(), told.handled], &mut self.bytes)?;
        for (process, bytes) in self.bytes.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            read::<Post<N>>(process, bytes)?.enter(part, hosts);
        }
        let told = |&[next, handled]: &Words| Told::new(Timestamp::from_nanos(next), handled);
        Ok(Told::together(words.iter().map(told)))
    }
}

impl<H: PartHosts> Neighbours<H> for &mut Apart<'_, H::Note> {
    /// What a part hands over is taken when they meet.
    const WINDOWS: u64 = 1;

    fn hand_over(&mut self, part: &mut Part, hosts: &mut H, after: Timestamp) -> Timestamp {
        Post::collect(part, hosts, &mut self.out, after)
    }

    fn run(&mut self, part: &mut Part, hosts: &mut H, stretch: Stretch) -> Timestamp {
        part.run_before(stretch.end, hosts, u64::MAX);
        self.hand_over(part, hosts, stretch.end)
    }

    fn meet(&mut self, told: Told, part: &mut Part, hosts: &mut H) -> Option<Told> {
        let met = self.try_meet(told, part, hosts);
        met.map_err(|error| self.failure = Some(error)).ok()
    }
}

impl Network {
    /// As [`run_parts`](Self::run_parts), for a network whose parts are in several processes ([`cut_apart`](Self::cut_apart)); `hosts` are those
    /// of the part that is here. All processes have to call this with the same `limit` and `budget`, and return the same.
    ///
    /// # Errors
    /// If a process has ended.
    ///
    /// # Panics
    /// If there is more than one part here, or the hosts panic.
    pub fn run_apart<H: PartHosts>(
        &mut self,
        limit: Timestamp,
        hosts: &mut H,
        budget: u64,
        processes: &mut dyn Processes,
    ) -> Result<Pause, MeetError> {
        assert!(self.parts.len() == 1, "each process has one part");
        self.prepare();
        let limit = limit.min(Timestamp::from_nanos(u64::MAX - 1));
        // If it is not cut, one process has everything.
        let lookahead = self.lookahead().unwrap_or(TimeDelta::MAX);
        let count = processes.count();
        let out = (0..count).map(|_| Post::default()).collect();
        let mut apart = Apart { processes, out, bytes: vec![Vec::new(); count], failure: None };
        let bounds = Bounds { limit, budget, lookahead };
        let ran = run_part(&mut self.parts[0], hosts, &mut apart, bounds);
        self.critical += ran.critical;
        apart.failure.map_or(Ok(ran.pause), Err)
    }
}

/// Processes that are threads of this one: for tests.
#[derive(Debug)]
pub struct Threads {
    own: usize,
    /// To each process, itself included.
    to: Vec<Sender<(Words, Vec<u8>)>>,
    /// From each process, itself included.
    from: Vec<Receiver<(Words, Vec<u8>)>>,
}

impl Threads {
    /// So many of them, each for a thread of its own.
    pub fn new(count: usize) -> Vec<Threads> {
        let mut all: Vec<Threads> =
            (0..count).map(|own| Threads { own, to: Vec::new(), from: Vec::new() }).collect();
        for receiver in 0..count {
            for sender in 0..count {
                let (to, from) = channel();
                all[sender].to.push(to);
                all[receiver].from.push(from);
            }
        }
        all
    }
}

impl Processes for Threads {
    fn own(&self) -> usize {
        self.own
    }

    fn count(&self) -> usize {
        self.to.len()
    }

    fn meet(&mut self, words: Words, bytes: &mut [Vec<u8>]) -> Result<Vec<Words>, MeetError> {
        for (process, (to, bytes)) in self.to.iter().zip(&mut *bytes).enumerate() {
            to.send((words, std::mem::take(bytes))).map_err(|_| MeetError::Ended(process))?;
        }
        let come = |(process, (from, place)): (usize, (&Receiver<_>, &mut Vec<u8>))| {
            let (words, bytes) = from.recv().map_err(|_| MeetError::Ended(process))?;
            *place = bytes;
            Ok(words)
        };
        self.from.iter().zip(bytes).enumerate().map(come).collect()
    }
}
