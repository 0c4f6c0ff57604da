//! The far ends of links, as their near ends know them.

use crate::arena::OnWire;

/// What is at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Far {
    /// A node of the same part.
    Near,
    /// A node of the same part; packets put onto the wire are noted.
    Watched,
    /// A node of another part, which the packets enter.
    Elsewhere,
}

/// A packet put onto the wire of a link whose far end is watched, or in another part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    /// The link, by its number in this part.
    pub(crate) index: u32,
    pub(crate) packet: OnWire,
}
