//! Transfers, one after another.

use warpline_core::parameter::Parameters;
use warpline_core::{Bytes, TimeDelta};

use super::Pattern;

/// Transfers of a given size.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("transfer")]
pub struct Transfer {
    /// Bytes of each transfer.
    #[parameter(default = Bytes(10_000_000), above = Bytes(0), required)]
    pub size: Bytes,
    /// How many, one after another, each on a connection of its own; 0 goes on until the end.
    #[parameter(default = 1)]
    pub transfers: u32,
    /// Pause between the end of one and the start of the next.
    pub pause: TimeDelta,
}

impl Pattern for Transfer {
    fn is_for_kernels(&self) -> bool {
        true
    }
}
