//! What hosts and the network tell each other.

use warpline_core::{Packet, TimerId, Timestamp};

use crate::hops::HopId;
use crate::part::Port;

/// The hosts: called when a packet arrives or a timer fires.
pub trait Hosts {
    /// A packet has arrived at the endpoint it is addressed to.
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>);
    /// A packet has arrived with a bit changed ([`Packet::damaged`]). Most hosts drop it, since its checksum does not fit, and need do nothing.
    fn handle_damaged(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        let _ = (now, packet, port);
    }
    /// Copies the bytes of a frame ([`warpline_core::Frame`]) that is to be delivered while another packet in the network has it, too: then each receiver has a
    /// frame of its own. Returns the copy's handle; if there is none, for want of memory, the packet is not delivered. Only hosts with frames need it.
    fn copy_frame(&mut self, handle: u32) -> Option<u32> {
        let _ = handle;
        None
    }
    /// A timer has fired. It may be early if it was set with [`Port::set_timer`] more than once, so the host must check its own deadline and set
    /// the timer again.
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>);
}

/// A sequence of links from one node to another. Made by [`Network::add_route`](crate::Network::add_route).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteId(pub(crate) HopId);

/// A packet whose arrival at its endpoint is certain.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// When it will be passed to [`Hosts::handle_packet`].
    pub arrival: Timestamp,
    /// The packet as it will be then.
    pub packet: Packet,
}

/// Why [`Network::run_until`](crate::Network::run_until) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Everything up to the limit has been handled.
    Reached,
    /// The event budget is used up; there is more to do before the limit.
    Budget,
}
