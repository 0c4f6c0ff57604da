//! A capacity test from one end.

use warpline_core::parameter::Parameters;

use super::super::checker::Check;
use super::super::document::entry;
use super::super::flow::{Flow, Transport};
use super::super::tcp::TcpOptions;

use super::{Pattern, Skipping};

/// A test with `treno` from start to stop, whose probes `to` echoes: its report is btc-FLOW.json, such as btc-probe.0.json. Of the TCP options it takes `mss`,
/// `receive_buffer`, `initial_window`, `dupack_threshold`, `delayed_ack`, `initial_rto`, `min_rto` and `max_rto`, from the flow alone.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("treno")]
pub struct Treno {
    /// The TCP options that the flow itself names.
    #[parameter(skip)]
    pub tcp: Box<TcpOptions>,
}

impl Pattern for Treno {
    fn skipping(&self) -> Skipping {
        Skipping::Refused
    }
    fn carriers(&self) -> &'static [Transport] {
        &[Transport::Udp]
    }

    fn complete(&mut self, flow: &Flow) {
        *self.tcp = flow.tcp.clone().unwrap_or_default();
    }

    fn check(&self, check: &mut Check<'_>, number: usize, _flow: &Flow) {
        for name in self.tcp.useless_to_treno() {
            let message = format!("app = \"treno\" has no use for `tcp.{name}`");
            let help = format!("it takes {}", TcpOptions::OF_TRENO.join(", "));
            check.error(&entry("flow", number, &["tcp", name]), message, help);
        }
    }
}
