//! smoltcp: a TCP/IP stack for small machines, in Rust.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Buffers, Kind, Traffic};
use crate::ClockMode;
use crate::checker::Check;
use crate::document::entry;

/// Allowed sizes of a buffer in bytes: up to the largest window of TCP (RFC 7323 section 2.3).
const BUFFERS: std::ops::RangeInclusive<u64> = 1..=1 << 30;

/// The keys of a host with `endpoint = "stack:smoltcp"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Smoltcp {
    /// Sizes of its sockets' buffers.
    #[serde(flatten)]
    pub buffers: Buffers,
}

impl Kind for Smoltcp {
    const ABOUT: About = About {
        name: "stack:smoltcp",
        what: "The TCP/IP stack smoltcp, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        needs: "Linux",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(&["cubic", "reno"])
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        let Buffers { send_buffer, receive_buffer } = self.buffers;
        for (name, size) in [("send_buffer", send_buffer), ("receive_buffer", receive_buffer)] {
            if size.is_some_and(|size| !BUFFERS.contains(&size.0.0)) {
                let message = format!("`{name}` is out of range");
                check.error(&entry("host", number, &[name]), message, "smoltcp takes 1B to 1GiB");
            }
        }
    }
}
