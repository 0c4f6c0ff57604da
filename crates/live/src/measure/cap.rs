//! The client of capacity tests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use warpline_capacity::{CapClient, CapOptions, HostResults, Identity, Outcome, Progress, Report, Traced};
use warpline_core::{TimeDelta, Timestamp};

use super::socket::{Complaint, Endpoint};
use super::{Foremost, MeasureError, random, unspecified, wall_us};
use crate::clock::RealClock;

/// Datagrams made before arrivals are checked again.
const TURN: usize = 256;
/// How often to check whether the user wants the test to stop.
const LISTEN: TimeDelta = TimeDelta::from_millis(50);

/// Settings of a test.
#[derive(Clone, Debug)]
pub struct CapConfig {
    /// The server.
    pub server: SocketAddr,
    /// The requested options.
    pub options: CapOptions,
    /// The key shared with the server.
    pub key: Option<Vec<u8>>,
    /// How long the server may be silent.
    pub patience: TimeDelta,
    /// How often progress is reported and sampled.
    pub interval: TimeDelta,
    /// Whether to record every event for traces.
    pub trace: bool,
    /// Whether segmentation offload may be used.
    pub offload: bool,
}

/// Progress at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the run's start.
    pub at: Timestamp,
    /// The progress at that time.
    pub progress: Progress,
}

/// A finished test.
#[derive(Clone, Debug)]
pub struct CapRun {
    /// How it ended.
    pub outcome: Outcome,
    /// The options in force.
    pub options: CapOptions,
    /// Time and rate that the server granted.
    pub granted: Option<(TimeDelta, Option<warpline_core::Rate>)>,
    /// This end's address.
    pub local: SocketAddr,
    /// The server's address.
    pub remote: SocketAddr,
    /// Wall-clock time at the run's start, in microseconds since 1970.
    pub wall_us: u64,
    /// This end's report.
    pub own: Report,
    /// The server's report.
    pub peer: Option<Report>,
    /// Progress, one sample for each interval.
    pub samples: Vec<Sample>,
    /// All recorded events, if they were requested.
    pub traced: Vec<Traced>,
    /// The MTU that the path reported, if segments were too large for it.
    pub too_big: Option<Option<u32>>,
}

impl CapRun {
    /// Bytes of a full packet on the wire, from the IP header on.
    pub fn packet(&self) -> u32 {
        self.options.packet(self.remote.is_ipv6())
    }
}

/// Runs a test. `stop` ends it early with the results so far; `progress` is called with its progress.
///
/// # Errors
/// If there is no socket, or segments are too large to be sent at all.
pub fn run(
    config: &CapConfig,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Sample),
) -> Result<CapRun, MeasureError> {
    let mut foremost = Foremost::ask();
    let local = SocketAddr::new(unspecified(config.server.ip()), 0);
    let mut endpoint = Endpoint::new(local, Some(config.server), config.offload)?;
    let mut clock = RealClock::start();
    let wall = wall_us(&clock);
    let nonce = random::<16>()?;
    let phase = u64::from_be_bytes(random()?) % config.options.granularity.as_nanos().max(1);
    let identity = Identity {
        nonce,
        key: config.key.clone(),
        wall_us: wall,
        phase: TimeDelta::from_nanos(phase),
        ipv6: config.server.is_ipv6(),
        patience: config.patience,
        trace: config.trace,
    };
    let mut client = CapClient::new(config.options.clone(), identity);
    let mut samples = Vec::new();
    let mut traced = Vec::new();
    let mut next_sample = Timestamp::NEVER;
    let packet = config.options.packet(config.server.is_ipv6());
    let mut too_big = None;
    let mut since = None;
    loop {
        let now = clock.now();
        clock.refresh(now);
        let mut came = endpoint.receive(&clock, |arrival| {
            if arrival.from.address == config.server {
                client.handle_datagram(now, arrival.at, arrival.bytes, arrival.ce);
            }
        })?;
        foremost.turn(now, came);
        match endpoint.take_complaint() {
            Some(Complaint::Unreachable(what)) => client.unreachable(now, what),
            Some(Complaint::TooBig(mtu)) if mtu.is_none_or(|mtu| mtu < packet) => {
                too_big = Some(mtu);
                // Anyone can send it, so with a key it only explains silence.
                if config.key.is_none() {
                    client.stop(now);
                }
            }
            Some(Complaint::TooBig(_)) | None => {}
        }
        if client.poll_timeout() <= now {
            client.handle_timeout(now);
        }
        for _ in 0..TURN {
            let Some(datagram) = client.poll_transmit(now, endpoint.buffer()) else { break };
            came = true;
            endpoint.queue(config.server, datagram, &clock)?;
        }
        endpoint.flush(&clock)?;
        endpoint.watch(now);
        if client.is_running() && since.is_none() {
            since = Some(now);
            next_sample = now + config.interval;
        }
        if now >= next_sample {
            let sample = Sample { at: now, progress: client.progress(now) };
            if client.is_running() {
                progress(&sample);
                samples.push(sample);
            }
            next_sample += config.interval
                * (1 + now.saturating_since(next_sample).as_nanos() / config.interval.as_nanos().max(1));
        }
        if config.trace {
            traced.extend(client.drain_trace());
        }
        if stop.load(Ordering::Relaxed) {
            client.stop(now);
        }
        if let Some(outcome) = client.outcome() {
            let host: HostResults = endpoint.host(now, since.unwrap_or(now));
            client.set_host(host);
            return Ok(CapRun {
                outcome,
                options: client.options().clone(),
                granted: client.granted(),
                local: endpoint.local()?,
                remote: config.server,
                wall_us: wall,
                own: client.report(),
                peer: client.peer_report().copied(),
                samples,
                traced,
                too_big: too_big.filter(|_| config.key.is_none() || outcome == Outcome::Silent),
            });
        }
        if !came {
            let now = clock.now();
            let until = client.poll_timeout().min(next_sample).min(now + LISTEN);
            endpoint.wait(now, until);
        }
    }
}
