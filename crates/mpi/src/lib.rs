//! The processes of a run that `mpirun` has started, by MPI (the Message Passing Interface).
//!
//! [`join`] finds the others, and [`World`] meets them. MPI is a C library, so it is behind the feature `mpi`, and a crate of its own.
//! Without the feature, `join` only says that this build cannot do it.

use std::env;

use thiserror::Error;

#[cfg(not(feature = "mpi"))]
mod without;
#[cfg(feature = "mpi")]
mod world;

#[cfg(not(feature = "mpi"))]
pub use without::World;
#[cfg(feature = "mpi")]
pub use world::World;

/// Why the processes cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// This build has no MPI.
    #[error(
        "started in {0} processes, but this build has no MPI; start it without mpirun, or build it with: \
         cargo build --release --package warpline-cli --features mpi"
    )]
    NotBuilt(usize),
    /// The MPI library refuses to start.
    #[error("MPI does not start")]
    Refused,
    /// The launcher and the MPI library are not of the same kind.
    #[error(
        "{started} processes were started, but MPI knows of {known}; use the mpirun of the MPI library that this was built with"
    )]
    Others {
        /// How many the launcher says.
        started: usize,
        /// How many MPI says.
        known: usize,
    },
}

/// A place among processes that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of this process, from 0 on.
    pub own: usize,
    /// How many there are: at least two.
    pub count: usize,
}

/// The variables by which launchers tell a process its number and how many there are: Open MPI; MPICH and Intel MPI; Slurm.
const LAUNCHERS: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
];

/// The place of this process, if a launcher such as `mpirun` started it together with others.
pub fn place() -> Option<Place> {
    place_by(|name| env::var(name).ok())
}

fn place_by(variable: impl Fn(&str) -> Option<String>) -> Option<Place> {
    let number = |name: &str| variable(name)?.parse().ok();
    let told = |&(own, count): &(&str, &str)| Some(Place { own: number(own)?, count: number(count)? });
    LAUNCHERS.iter().find_map(told).filter(|place| place.count > 1)
}

/// Joins the processes that were started together with this one; nothing if it is alone. To be called once, at the start of the program.
///
/// # Errors
/// If there are others, and MPI cannot reach them.
pub fn join() -> Result<Option<World>, JoinError> {
    place().map(World::join).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_tell_a_process_its_place() {
        let by = |given: &[(&str, &str)]| {
            place_by(|name| {
                given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let two = Some(Place { own: 1, count: 2 });
        assert_eq!(by(&[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")]), two);
        assert_eq!(by(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), two);
        assert_eq!(by(&[("PMIX_RANK", "1"), ("SLURM_NTASKS", "2")]), two);
        assert_eq!(by(&[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")]), None);
        assert_eq!(by(&[("SLURM_NTASKS", "2")]), None);
        assert_eq!(by(&[]), None);
    }
}
