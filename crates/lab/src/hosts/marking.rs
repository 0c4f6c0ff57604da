//! How a flow's packets are marked for routers.

use warpline_core::Dscp;

/// What a flow's packets tell routers of how they are to be treated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marking {
    /// Traffic class for priority queues.
    pub(crate) class: u8,
    /// Code point.
    pub(crate) dscp: Dscp,
}
