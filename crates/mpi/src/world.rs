//! The processes as MPI joins them.

use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use warpline_net::apart::{MeetError, Processes, Words};

use crate::{JoinError, Place};

/// A message is sent in pieces of at most so many bytes, since MPI counts in 32 bits.
const PIECE: usize = 1 << 30;

/// The processes that MPI has joined. If this is dropped, MPI ends, and waits for the others to end, too; if that is because of a panic,
/// all processes are ended at once.
pub struct World {
    world: SimpleCommunicator,
    own: usize,
    count: usize,
    /// What comes from each process, while it comes.
    incoming: Vec<Vec<u8>>,
    /// For each process, what it is sent first: the words, and the number of bytes that follow.
    told: Vec<[u64; 3]>,
    heard: Vec<[u64; 3]>,
    // Dropped last: it ends MPI.
    _universe: Universe,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("own", &self.own).field("count", &self.count).finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn join(place: Place) -> Result<World, JoinError> {
        let universe = mpi::initialize().ok_or(JoinError::Refused)?;
        let world = universe.world();
        let (own, count) = (world.rank() as usize, world.size() as usize);
        if count != place.count {
            return Err(JoinError::Others { started: place.count, known: count });
        }
        Ok(World {
            world,
            own,
            count,
            incoming: vec![Vec::new(); count],
            told: vec![[0; 3]; count],
            heard: vec![[0; 3]; count],
            _universe: universe,
        })
    }

    /// The name of this machine.
    pub fn machine(&self) -> String {
        mpi::environment::processor_name().unwrap_or_default()
    }

    /// Ends all processes at once, with this exit code.
    pub fn abort(&self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The others wait for this process.
            self.abort(101);
        }
    }
}

impl Processes for World {
    fn own(&self) -> usize {
        self.own
    }

    fn count(&self) -> usize {
        self.count
    }

    // An error of MPI ends all processes; that is its default.
    fn meet(&mut self, words: Words, bytes: &mut [Vec<u8>]) -> Result<Vec<Words>, MeetError> {
        let World { world, incoming, told, heard, .. } = self;
        for (told, bytes) in told.iter_mut().zip(&*bytes) {
            *told = [words[0], words[1], bytes.len() as u64];
        }
        world.all_to_all_into(told.as_flattened(), heard.as_flattened_mut());
        for (incoming, &[.., length]) in incoming.iter_mut().zip(&*heard) {
            incoming.resize(length as usize, 0);
        }
        let outgoing = &*bytes;
        let pieces = 2 * self.count;
        mpi::request::multiple_scope(pieces, |scope, requests| {
            for (process, incoming) in incoming.iter_mut().enumerate() {
                let process = world.process_at_rank(process as i32);
                for piece in incoming.chunks_mut(PIECE) {
                    requests.add(process.immediate_receive_into(scope, piece));
                }
            }
            for (process, outgoing) in outgoing.iter().enumerate() {
                let process = world.process_at_rank(process as i32);
                for piece in outgoing.chunks(PIECE) {
                    requests.add(process.immediate_send(scope, piece));
                }
            }
            requests.wait_all(&mut Vec::new());
        });
        bytes.swap_with_slice(incoming);
        Ok(heard.iter().map(|&[first, second, _]| [first, second]).collect())
    }
}
