//! Room for the clients' connections: the open files that they take, and the limit of the system.
//!
//! Many systems let a program have 1024 open files unless it asks for more. A program may raise this limit up to a second one, the hard limit.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files of one client: its two connections, each of which this process holds twice (`http::Breaker`), and for which nginx opens an object.
const PER_CLIENT: u64 = 4;
/// Open files for all else: listening sockets, logs, standard streams.
const OTHER: u64 = 64;

/// Why there is no room.
#[derive(Debug, thiserror::Error)]
pub enum NoRoom {
    /// The hard limit is too low.
    #[error(
        "{clients} clients need {needed} open files, and this system allows {allowed}, enough for {most} \
         clients: ask for fewer, or raise the hard limit (`ulimit -Hn`)"
    )]
    HardLimit {
        /// The wanted clients.
        clients: usize,
        /// The open files that they need.
        needed: u64,
        /// The hard limit.
        allowed: u64,
        /// How many clients it is enough for.
        most: u64,
    },
    /// The limit cannot be changed.
    #[error("cannot raise the limit of open files: {0}")]
    System(#[source] io::Error),
}

/// Open files that so many clients need at most, in this process and in nginx alike.
pub fn open_files(clients: usize) -> u64 {
    PER_CLIENT * clients as u64 + OTHER
}

/// The limit of open files that this process needs instead of `present`; `None` if that suffices.
fn raised(clients: usize, present: Rlimit) -> Result<Option<u64>, NoRoom> {
    let needed = open_files(clients);
    if present.current.is_none_or(|limit| limit >= needed) {
        return Ok(None);
    }
    match present.maximum {
        Some(allowed) if allowed < needed => {
            let most = allowed.saturating_sub(OTHER) / PER_CLIENT;
            Err(NoRoom::HardLimit { clients, needed, allowed, most })
        }
        _ => Ok(Some(needed)),
    }
}

/// Lets this process, and nginx if it starts it afterwards, have as many open files as so many clients need.
///
/// # Errors
/// If the system does not allow so many.
pub fn make(clients: usize) -> Result<(), NoRoom> {
    let present = getrlimit(Resource::Nofile);
    let Some(current) = raised(clients, present)? else { return Ok(()) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..present })
        .map_err(|error| NoRoom::System(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_when_it_must_be_and_an_error_says_how_many_clients_are_allowed() {
        let limits = |current, maximum| Rlimit { current, maximum };
        let usual = limits(Some(1024), Some(524_288));
        assert_eq!(raised(240, usual).unwrap(), None);
        assert_eq!(raised(241, usual).unwrap(), Some(1028));
        assert_eq!(raised(1000, usual).unwrap(), Some(4064));
        assert_eq!(raised(1000, limits(Some(1024), None)).unwrap(), Some(4064));
        assert_eq!(raised(1000, limits(None, None)).unwrap(), None);
        let refused = raised(1000, limits(Some(1024), Some(2048))).unwrap_err().to_string();
        assert!(refused.contains("need 4064 open files"), "{refused}");
        assert!(refused.contains("allows 2048, enough for 496 clients"), "{refused}");
        assert_eq!(raised(496, limits(Some(1024), Some(2048))).unwrap(), Some(2048));
    }
}
