//! The TCP of 4.4BSD, as libslirp has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Kind, Protocol, Traffic};
use crate::ClockMode;

/// The keys of a host with `endpoint = "stack:bsd"`: none. Its buffers are fixed in the library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bsd {}

impl Kind for Bsd {
    const ABOUT: About = About {
        name: "stack:bsd",
        what: "The TCP of 4.4BSD as libslirp has it, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Tcp,
        needs: "Linux, `make stacks` with libslirp",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(&["reno"])
    }
}
