//! Requests and answers.

use warpline_core::parameter::Parameters;
use warpline_core::{Bytes, TimeDelta};

use super::Pattern;

/// Requests over one connection, one after another: `from` is the server that answers, `to` the client that asks. Both are guests.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("request")]
pub struct Request {
    /// Bytes of an answer.
    #[parameter(default = Bytes(10_000), above = Bytes(0), required)]
    pub size: Bytes,
    /// Bytes of a request, which says how long it and the answer are.
    #[parameter(default = Bytes(100), min = Bytes(16))]
    pub request_size: Bytes,
    /// How many, one after another; 0 goes on until the end.
    pub requests: u32,
    /// Pause between the end of one and the start of the next.
    pub pause: TimeDelta,
}

impl Pattern for Request {
    fn is_for_kernels(&self) -> bool {
        true
    }
}
