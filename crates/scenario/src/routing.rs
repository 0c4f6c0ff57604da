//! How flows choose among routes that are as good as each other.

use warpline_core::parameter::{Choice, Parameters};

use super::component::Written;

/// All flows between two nodes take the same route. Of routes that are equally good, it is the one whose link is listed first, at the first node
/// where they part.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("first")]
pub struct First {}

/// Equal-cost multipath (RFC 2992): every node hashes the flow and takes the link that the hash says, as switches do. Connections of
/// app = "arrivals" are flows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("ecmp")]
pub struct Ecmp {}

/// Packet spraying: a sender takes another route for each packet, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("spray")]
pub struct Spray {
    /// Routes between two hosts, at most; where there are more, each flow draws its own.
    #[parameter(default = 64, min = 1, max = 1024)]
    pub routes: u32,
}

/// How flows choose among routes that are as good as each other: with the least total delay, and of these the fewest links.
#[derive(Clone, Copy, Debug, PartialEq, Choice)]
#[choice("routing rule")]
pub enum RoutingKind {
    /// [`First`].
    First(First),
    /// [`Ecmp`].
    Ecmp(Ecmp),
    /// [`Spray`].
    Spray(Spray),
}

impl Default for RoutingKind {
    fn default() -> Self {
        RoutingKind::First(First {})
    }
}

impl RoutingKind {
    /// By the hash of the flow.
    pub(super) const fn ecmp() -> Self {
        RoutingKind::Ecmp(Ecmp {})
    }
}

/// How flows choose among routes that are as good as each other.
pub type Routing = Written<RoutingKind>;
