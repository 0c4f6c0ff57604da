//! What hosts of one part of a network tell those of another.

use serde::{Deserialize, Serialize};
use warpline_core::FlowId;
use warpline_transport::media::Report;

use super::app::Exchange;

/// A connection that has been opened to a host of another part. It is expected there from then on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(super) flow: FlowId,
    pub(super) connection: u32,
    pub(super) exchange: Exchange,
}

/// What hosts of one part tell those of another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// A connection has been opened.
    Opening(Opening),
    /// A packet is on its way that carries this report on a media stream.
    Report { flow: FlowId, number: u64, report: Report },
}
