//! SCTP by usrsctp, which is FreeBSD's for programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Buffers, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::checker::Check;

/// The keys of a host with `endpoint = "stack:sctp"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sctp {
    /// Sizes of its sockets' buffers.
    #[serde(flatten)]
    pub buffers: Buffers,
}

impl Kind for Sctp {
    const ABOUT: About = About {
        name: "stack:sctp",
        what: "The SCTP of FreeBSD as usrsctp has it, in this process.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Stack,
        protocol: Protocol::Sctp,
        needs: "Linux, `make stacks` with libusrsctp",
    };

    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        Some(&["rfc2581", "hstcp", "htcp", "rtcc"])
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        self.buffers.check(check, number, "usrsctp");
    }
}
