//! The processes that `mpirun` started together with this one. They do one run, and only the first one speaks.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};

use warpline_mpi::World;
use warpline_net::apart::{MeetError, Processes, agree, share};

use crate::failure::Failure;
use crate::output;

/// All processes of a command; usually it is alone.
#[derive(Debug)]
pub(crate) struct Together(Option<World>);

impl Together {
    /// Joins the others, if there are any.
    ///
    /// # Errors
    /// If they cannot be reached, or run another build of Warpline.
    pub(crate) fn join() -> Result<Together, Failure> {
        let mut world = warpline_mpi::join().map_err(Failure::usage)?;
        if let Some(world) = &mut world {
            let builds = share(world, &build().ok()).map_err(Failure::run)?;
            if let Some(other) = builds.iter().position(|build| *build != builds[0]) {
                return Err(Failure::usage(format!(
                    "process {other} runs another build of warpline than process 0; all need the same file"
                )));
            }
        }
        Ok(Together(world))
    }

    /// Whether this process prints what is to be printed, and writes the results.
    pub(crate) fn speaks(&self) -> bool {
        self.0.as_ref().is_none_or(|world| world.own() == 0)
    }

    /// The processes, if there are several.
    pub(crate) fn world(&mut self) -> Option<&mut World> {
        self.0.as_mut()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.as_ref().map_or(1, World::count)
    }

    /// Goes on only if all processes can.
    ///
    /// # Errors
    /// If one cannot: its failure, in all of them.
    pub(crate) fn agree<T>(&mut self, own: Result<T, Failure>) -> Result<T, Failure> {
        let elsewhere = |process, message: String| Failure::usage(format!("process {process}: {message}"));
        match &mut self.0 {
            None => own,
            Some(world) => agree(world, own, elsewhere).map_err(Failure::run)?,
        }
    }

    /// Waits until all have come here.
    pub(crate) fn wait(&mut self) {
        if let Some(world) = &mut self.0 {
            let _: Result<_, MeetError> = share(world, &());
        }
    }

    /// Ends all processes because of a failure in this one.
    pub(crate) fn abort(&self, failure: &Failure) {
        if let Some(world) = &self.0 {
            let place = format!("process {} on {}", world.own(), world.machine());
            output::error(&format!("{place}: {}", failure.message()));
            world.abort(failure.code().number());
        }
    }

    /// On which machines they are: "4 processes: 3 on one, 1 on two"; nothing if there is only one.
    ///
    /// # Errors
    /// If a process has ended.
    pub(crate) fn machines(&mut self) -> Result<Option<String>, Failure> {
        let Some(world) = &mut self.0 else { return Ok(None) };
        let own = world.machine();
        let mut on: BTreeMap<String, usize> = BTreeMap::new();
        for machine in share(world, &own).map_err(Failure::run)? {
            *on.entry(machine).or_default() += 1;
        }
        let on: Vec<String> = on.iter().map(|(machine, count)| format!("{count} on {machine}")).collect();
        Ok(Some(format!("{} processes: {}", world.count(), on.join(", "))))
    }
}

/// A number for the program's file: that of another build is another.
fn build() -> io::Result<u64> {
    let mut file = File::open(std::env::current_exe()?)?;
    let mut hasher = DefaultHasher::new();
    // In pieces: the whole would be more than what a small run takes.
    let mut piece = [0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finish()),
            read => hasher.write(&piece[..read]),
        }
    }
}
