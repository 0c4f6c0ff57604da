//! A constant rate at times.

use warpline_core::parameter::Parameters;
use warpline_core::{Bytes, Rate, TimeDelta};

use super::super::flow::Transport;

use super::Pattern;

/// A constant rate while on, nothing while off; both times are Pareto distributed.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("onoff")]
pub struct Onoff {
    /// The rate while on: wire bytes of full packets for UDP, payload for TCP.
    #[parameter(default = Rate::from_bps(1_000_000), above = Rate::from_bps(0), required)]
    pub rate: Rate,
    /// Bytes of a UDP packet on the wire, with its 28 bytes of headers; for TCP, bytes of each write.
    #[parameter(default = Bytes(1500), min = Bytes(29), max = Bytes(65_535))]
    pub packet_size: Bytes,
    /// Mean time on.
    #[parameter(default = TimeDelta::from_millis(250), above = TimeDelta::ZERO)]
    pub mean_on: TimeDelta,
    /// Mean time off.
    #[parameter(default = TimeDelta::from_millis(250))]
    pub mean_off: TimeDelta,
    /// Pareto tail index of both times.
    #[parameter(default = 1.5, above = 1.0)]
    pub shape: f64,
}

impl Pattern for Onoff {
    fn carriers(&self) -> &'static [Transport] {
        &[Transport::Udp, Transport::Tcp]
    }
}
