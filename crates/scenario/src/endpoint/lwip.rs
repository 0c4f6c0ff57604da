//! lwIP: a TCP/IP stack for small machines, in C.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Kind, Protocol, Traffic};
use crate::ClockMode;

/// The keys of a host with `endpoint = "stack:lwip"`: none. Its buffers are fixed when it is built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lwip {}

impl Kind for Lwip {
    const ABOUT: About = About {
        name: "stack:lwip",
        what: "The TCP/IP stack lwIP, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Tcp,
        needs: "Linux, `make stacks`",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(&["reno"])
    }
}
