//! Messages at random times.

use warpline_core::Bytes;
use warpline_core::parameter::Parameters;

use super::super::checker::Check;
use super::super::document::entry;
use super::super::flow::{Flow, Transport};

use super::Pattern;

/// Most that a datagram carries: what an IPv4 packet has room for.
const DATAGRAM: u64 = 65_507;

/// Messages at random times (a Poisson process), one stream for all.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("poisson")]
pub struct Poisson {
    /// Bytes of a message.
    #[parameter(default = Bytes(512), above = Bytes(0))]
    pub message_size: Bytes,
    /// Mean number of messages per second.
    #[parameter(default = 100.0, above = 0.0, max = 1e7, required)]
    pub message_rate: f64,
}

impl Pattern for Poisson {
    fn carriers(&self) -> &'static [Transport] {
        &[Transport::Tcp, Transport::Udp]
    }

    fn check(&self, check: &mut Check<'_>, number: usize, flow: &Flow) {
        if flow.transport() == Transport::Udp && self.message_size.0 > DATAGRAM {
            let message = format!("a datagram cannot carry {}", self.message_size);
            let help = format!(
                "allowed: at most {DATAGRAM}B, which an IPv4 packet has room for; or transport = \"tcp\""
            );
            check.error(&entry("flow", number, &["message_size"]), message, help);
        }
    }
}
