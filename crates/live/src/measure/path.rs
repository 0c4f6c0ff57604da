//! Finds the routers on the way to a target, with probes limited to one hop, two hops, and so on.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use warpline_capacity::ProbeReply;
use warpline_core::TimeDelta;

use super::MeasureError;
use super::probe::{Heard, ProbeMode, ProbeSocket};
use crate::clock::RealClock;

/// Probes for each hop, one after another; the first answer is enough.
const TRIES: u64 = 3;
/// Bytes of such a probe on the wire.
const SIZE: u32 = 60;
/// Silent hops in a row after which the search ends.
const SILENT: u32 = 5;

/// A hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Its number, from one.
    pub ttl: u8,
    /// The address that answered; `None` if there was no answer.
    pub address: Option<IpAddr>,
    /// Its round-trip time in nanoseconds.
    pub rtt_ns: Option<u64>,
    /// Whether it is the target.
    pub target: bool,
}

/// Finds the hops to `target`, at most `most`; waits `wait` for the answer to each probe.
///
/// # Errors
/// If there is no socket.
pub fn trace(
    target: SocketAddr,
    mode: ProbeMode,
    most: u8,
    wait: TimeDelta,
    stop: &AtomicBool,
) -> Result<Vec<Hop>, MeasureError> {
    let clock = RealClock::start();
    let mut hops = Vec::new();
    let mut silent = 0;
    for ttl in 1..=most {
        let mut socket = ProbeSocket::open(target, mode, Some(ttl))?;
        let mut hop = Hop { ttl, address: None, rtt_ns: None, target: false };
        for number in 0..TRIES {
            let sent = clock.now();
            socket.send(number, SIZE)?;
            let until = sent + wait;
            let mut answered = false;
            while !answered && clock.now() < until && !stop.load(Ordering::Relaxed) {
                socket.wait(clock.now(), until);
                socket.receive(&clock, |at, heard| {
                    if let Heard::Reply(_, kind, from) = heard {
                        answered = true;
                        hop.address = Some(from);
                        hop.rtt_ns = Some(at.saturating_since(sent).as_nanos());
                        hop.target = kind != ProbeReply::TimeExceeded;
                    }
                })?;
            }
            if answered || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        silent = if hop.address.is_some() { 0 } else { silent + 1 };
        hops.push(hop);
        if hop.target || silent >= SILENT || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(hops)
}
