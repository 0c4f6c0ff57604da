//! netstack: the TCP/IP stack of gVisor, in Go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Buffers, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::checker::Check;

/// The keys of a host with `endpoint = "stack:netstack"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Netstack {
    /// Sizes of its sockets' buffers.
    #[serde(flatten)]
    pub buffers: Buffers,
}

impl Netstack {
    /// The smallest buffer that netstack takes, in bytes: `MinBufferSize` of its `pkg/tcpip/transport/tcp`. A test of the stacks asks netstack itself.
    pub const LEAST_BUFFER: u64 = 4 << 10;
}

impl Kind for Netstack {
    const ABOUT: About = About {
        name: "stack:netstack",
        what: "The TCP/IP stack of gVisor, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Tcp,
        needs: "Linux, `make stacks` with Go",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(&["reno", "cubic"])
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        self.buffers.check_from(Netstack::LEAST_BUFFER, check, number, "netstack");
    }
}
