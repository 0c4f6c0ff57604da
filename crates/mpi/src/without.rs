//! What there is without MPI: nothing.

use warpline_net::apart::{MeetError, Processes, Words};

use crate::{JoinError, Place};

/// The processes that MPI has joined. In this build there are none.
#[derive(Debug)]
pub enum World {}

impl World {
    pub(crate) fn join(place: Place) -> Result<World, JoinError> {
        Err(JoinError::NotBuilt(place.count))
    }

    /// The name of this machine.
    pub fn machine(&self) -> String {
        match *self {}
    }

    /// Ends all processes at once.
    pub fn abort(&self, _code: u8) -> ! {
        match *self {}
    }
}

impl Processes for World {
    fn own(&self) -> usize {
        match *self {}
    }
    fn count(&self) -> usize {
        match *self {}
    }
    fn meet(&mut self, _: Words, _: &mut [Vec<u8>]) -> Result<Vec<Words>, MeetError> {
        match *self {}
    }
}
