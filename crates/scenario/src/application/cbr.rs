//! A constant rate.

use warpline_core::parameter::Parameters;
use warpline_core::{Bytes, Rate};

use super::super::flow::Transport;

use super::{Pattern, Skipping};

/// Packets at a constant rate.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("cbr")]
pub struct Cbr {
    /// The rate: wire bytes of full packets for UDP, payload for TCP.
    #[parameter(default = Rate::from_bps(1_000_000), above = Rate::from_bps(0), required)]
    pub rate: Rate,
    /// Bytes of a UDP packet on the wire, with its 28 bytes of headers; for TCP, bytes of each write.
    #[parameter(default = Bytes(1500), min = Bytes(29), max = Bytes(65_535))]
    pub packet_size: Bytes,
}

impl Pattern for Cbr {
    fn skipping(&self) -> Skipping {
        Skipping::Within
    }
    fn carriers(&self) -> &'static [Transport] {
        &[Transport::Udp, Transport::Tcp]
    }
}
