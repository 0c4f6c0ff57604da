//! Transfers of a known size, and their ends.

use serde::{Deserialize, Serialize};
use warpline_core::{FlowId, Timestamp};

/// A transfer of a known size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub(crate) flow: FlowId,
    pub(crate) connection: u32,
    /// The tag that its application gave it.
    pub(crate) tag: u32,
    pub(crate) bytes: u64,
    pub(crate) start: Timestamp,
}

/// The end of a transfer as one host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TransferEnd {
    pub(crate) flow: FlowId,
    pub(crate) connection: u32,
    pub(crate) at: Timestamp,
    /// Whether its connection failed before everything was delivered; a delivery at the same instant counts.
    pub(crate) failed: bool,
}
