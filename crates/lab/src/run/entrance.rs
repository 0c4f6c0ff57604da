//! The way into a host of a run in progress, for a command of the same user's.

use serde::{Deserialize, Serialize};

/// The way into a host, by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entrance {
    /// A live host.
    Live(warpline_live::enter::Door),
    /// A guest.
    #[cfg(guests)]
    Guest(warpline_guest::door::Door),
}
