//! smoltcp: a TCP/IP stack for small machines, in Rust.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Buffers, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::checker::Check;

/// The keys of a host with `endpoint = "stack:smoltcp"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Smoltcp {
    /// Sizes of its sockets' buffers.
    #[serde(flatten)]
    pub buffers: Buffers,
}

impl Smoltcp {
    /// smoltcp's congestion controls, the default first.
    pub const CONGESTION_CONTROLS: &'static [&'static str] = &["cubic", "reno"];
}

impl Kind for Smoltcp {
    const ABOUT: About = About {
        name: "stack:smoltcp",
        what: "The TCP/IP stack smoltcp, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Tcp,
        needs: "Linux",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(Smoltcp::CONGESTION_CONTROLS)
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        self.buffers.check(check, number, "smoltcp");
    }
}
