//! The server of capacity tests: one socket, one thread, any number of clients.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use warpline_capacity::{CapServer, Finished, ServerLimits};
use warpline_core::TimeDelta;

use super::socket::Endpoint;
use super::{Foremost, MeasureError, random, wall_us};
use crate::clock::RealClock;

const TURN: usize = 256;
const LISTEN: TimeDelta = TimeDelta::from_millis(50);

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct CapdConfig {
    /// Where it listens; the unspecified IPv6 address serves IPv4 too.
    pub listen: SocketAddr,
    /// What it grants.
    pub limits: ServerLimits,
    /// Whether segmentation offload may be used.
    pub offload: bool,
    /// Ends after this many tests; `None` runs until it is stopped.
    pub tests: Option<u64>,
}

/// An event of a server.
#[derive(Clone, Debug)]
pub enum CapdEvent {
    /// It listens.
    Listening(SocketAddr),
    /// A test is over.
    Finished(Box<Finished>),
}

/// Serves until `stop`, or until the configured number of tests is over.
///
/// # Errors
/// If there is no socket.
pub fn serve(
    config: &CapdConfig,
    stop: &AtomicBool,
    report: &mut dyn FnMut(CapdEvent),
) -> Result<(), MeasureError> {
    let mut foremost = Foremost::ask();
    let mut endpoint = Endpoint::new(config.listen, None, config.offload)?;
    let mut clock = RealClock::start();
    let mut server = CapServer::new(config.limits.clone(), &random::<32>()?, wall_us(&clock));
    report(CapdEvent::Listening(endpoint.local()?));
    let mut tests = 0;
    let (mut idle, mut idle_since) = (true, clock.now());
    loop {
        let now = clock.now();
        clock.refresh(now);
        let mut busy = endpoint.receive(&clock, |arrival| {
            server.handle_datagram(now, arrival.at, arrival.from, arrival.bytes, arrival.ce);
        })?;
        foremost.turn(now, busy);
        // Clients come and go: an error for one that has gone is not interesting.
        endpoint.take_complaint();
        if server.poll_timeout() <= now {
            server.set_host(endpoint.host(now, idle_since));
            server.handle_timeout(now);
        }
        for _ in 0..TURN {
            let Some((to, datagram)) = server.poll_transmit(now, endpoint.buffer()) else { break };
            busy = true;
            endpoint.queue(to, datagram, &clock)?;
        }
        endpoint.flush(&clock)?;
        for (to, count) in endpoint.take_refused() {
            server.on_refused(to, count);
        }
        for to in endpoint.take_too_large() {
            server.on_too_large(to);
        }
        let looked = endpoint.watch(now);
        if server.sessions() == 0 {
            if !idle {
                endpoint.begin();
            }
            (idle, idle_since) = (true, now);
        } else if looked || idle {
            if idle {
                // What waiting for clients took is no part of a test.
                endpoint.begin();
            }
            idle = false;
            server.set_host(endpoint.host(now, idle_since));
        }
        for finished in server.take_finished() {
            tests += 1;
            report(CapdEvent::Finished(Box::new(finished)));
        }
        let enough = config.tests.is_some_and(|most| tests >= most && server.sessions() == 0);
        if stop.load(Ordering::Relaxed) || enough {
            server.stop();
            while let Some((to, datagram)) = server.poll_transmit(now, endpoint.buffer()) {
                endpoint.queue(to, datagram, &clock)?;
            }
            endpoint.flush(&clock)?;
            for finished in server.take_finished() {
                report(CapdEvent::Finished(Box::new(finished)));
            }
            return Ok(());
        }
        if !busy {
            let now = clock.now();
            endpoint.wait(now, server.poll_timeout().min(now + LISTEN));
        }
    }
}
