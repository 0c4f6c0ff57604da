//! The routes of connections: the one or several that their packets take, and how long a transfer would take there with nobody else.

use std::sync::Arc;

use warpline_core::packet::{IPV4_HEADER, TCP_HEADER};
use warpline_core::{NodeId, Rate, TimeDelta};
use warpline_net::RouteId;
use warpline_transport::tcp::TcpConfig;

/// The routes of a connection in one direction. Its packets take them in turn.
#[derive(Clone, Debug)]
pub(crate) enum Routes {
    One(RouteId),
    Several {
        all: Arc<[RouteId]>,
        /// The place of the next one.
        next: u32,
    },
}

impl Routes {
    /// The first route, for what needs one only.
    pub(crate) fn first(&self) -> RouteId {
        match self {
            Routes::One(route) => *route,
            Routes::Several { all, .. } => all[0],
        }
    }

    /// The route of the next packet.
    #[inline]
    pub(crate) fn next(&mut self) -> RouteId {
        match self {
            Routes::One(route) => *route,
            Routes::Several { all, next } => {
                let route = all[*next as usize];
                *next = if *next as usize + 1 == all.len() { 0 } else { *next + 1 };
                route
            }
        }
    }
}

/// Where a transfer goes, for a flow whose transfers have ways of their own.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The receiver and its name.
    pub(crate) to: (NodeId, Arc<str>),
    /// Routes of the data and of the opposite direction.
    pub(crate) routes: (Routes, Routes),
    pub(crate) idle: IdlePath,
}

/// A path with nobody else on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdlePath {
    /// Propagation delays there and back.
    pub(crate) rtt: TimeDelta,
    /// The rate of its slowest link towards the receiver; zero where that is not known.
    pub(crate) slowest: Rate,
}

impl IdlePath {
    /// The shortest time that a transfer is compared with: a base round-trip time, and the time in which the slowest link sends all of
    /// its packets, headers included; link framing, the handshake, store and forward, and slow start are not counted.
    pub(crate) fn ideal(&self, bytes: u64, config: &TcpConfig) -> Option<TimeDelta> {
        let payload = config.payload();
        let headers = (config.mss.0 + HEADERS).saturating_sub(payload);
        let wire = bytes.saturating_add(bytes.div_ceil(payload).saturating_mul(headers));
        let rate = self.slowest.as_bps();
        (rate > 0).then(|| {
            let nanos = u128::from(wire) * 8_000_000_000 / u128::from(rate);
            self.rtt + TimeDelta::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }
}

/// Bytes of the headers of IPv4 and TCP, without options.
const HEADERS: u64 = (IPV4_HEADER + TCP_HEADER) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_a_round_trip_and_the_packets_at_the_slowest_rate() {
        let path = IdlePath { rtt: TimeDelta::from_micros(80), slowest: Rate::from_bps(10_000_000_000) };
        let config = TcpConfig::default();
        let segments = 1_000_000u64.div_ceil(config.payload());
        let headers = config.mss.0 + 40 - config.payload();
        let expected = 80_000 + (1_000_000 + segments * headers) * 8 / 10;
        assert_eq!(path.ideal(1_000_000, &config), Some(TimeDelta::from_nanos(expected)));
        assert_eq!(IdlePath::default().ideal(1, &config), None);
    }
}
