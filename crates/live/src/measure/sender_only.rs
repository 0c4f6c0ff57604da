//! One test with the TCP of cap and no software at the far end, over a socket for probes.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

use warpline_capacity::{CapOptions, HostResults, Outcome, ProbeReply, Report, SenderOnly, Traced};
use warpline_core::{TimeDelta, Timestamp};

use super::cap::{CapRun, Sample};
use super::probing::{ProbePath, Watcher, carry};
use super::{MeasureError, random, towards, unspecified, wall_us};
use crate::clock::RealClock;

/// Settings of a test.
#[derive(Clone, Debug)]
pub struct SenderOnlyConfig {
    /// Where the probes go.
    pub path: ProbePath,
    /// The emulated TCP.
    pub options: CapOptions,
    /// How long the path may be silent.
    pub patience: TimeDelta,
    /// How often progress is reported and sampled.
    pub interval: TimeDelta,
    /// Whether to record every event for traces.
    pub trace: bool,
}

/// Samples and traces.
struct Notes<'a> {
    samples: Vec<Sample>,
    traced: Vec<Traced>,
    trace: bool,
    interval: TimeDelta,
    since: Option<Timestamp>,
    next_sample: Timestamp,
    progress: &'a mut dyn FnMut(&Sample),
}

impl Watcher<SenderOnly> for Notes<'_> {
    fn on_answer(&mut self, _: ProbeReply, _: IpAddr) {}

    fn turn(&mut self, now: Timestamp, test: &mut SenderOnly) -> Timestamp {
        if self.since.is_none() && test.is_running() {
            self.since = Some(now);
            self.next_sample = now + self.interval;
        }
        if now >= self.next_sample && test.is_running() {
            let sample = Sample { at: now, progress: test.progress(now) };
            (self.progress)(&sample);
            self.samples.push(sample);
            self.next_sample = now + self.interval;
        }
        if self.trace {
            self.traced.extend(test.drain_trace());
        }
        self.next_sample
    }
}

/// Runs a test. `stop` ends it early with the results so far; `progress` is called with its progress. The run has the counters of both ends
/// in its own report, and no other. Also returns the kind of probes, in words.
///
/// # Errors
/// If there is no socket.
pub fn run(
    config: &SenderOnlyConfig,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Sample),
) -> Result<(CapRun, &'static str), MeasureError> {
    let mut clock = RealClock::start();
    let wall = wall_us(&clock);
    let target = config.path.target;
    let phase = u64::from_be_bytes(random()?) % config.options.granularity.as_nanos().max(1);
    let mut test = SenderOnly::new(
        config.options.clone(),
        TimeDelta::from_nanos(phase),
        target.is_ipv6(),
        config.patience,
        config.trace,
    );
    let mut notes = Notes {
        samples: Vec::new(),
        traced: Vec::new(),
        trace: config.trace,
        interval: config.interval,
        since: None,
        next_sample: Timestamp::NEVER,
        progress,
    };
    let carried = carry(config.path, &mut clock, &mut test, stop, &mut notes)?;
    notes.turn(carried.now, &mut test);
    test.set_host(HostResults {
        elapsed_ns: carried.now.saturating_since(notes.since.unwrap_or(carried.now)).as_nanos(),
        busy_ns: carried.busy_ns,
        send_waits: carried.refused.0,
        send_wait_ns: carried.refused.1.as_nanos(),
        ..HostResults::default()
    });
    let Report { sender, receiver, host } = test.report();
    let run = CapRun {
        outcome: test.outcome().unwrap_or(Outcome::Stopped),
        options: test.options().clone(),
        granted: None,
        local: SocketAddr::new(source(target).unwrap_or_else(|| unspecified(target.ip())), 0),
        remote: target,
        wall_us: wall,
        own: Report { sender, receiver, host },
        peer: None,
        samples: notes.samples,
        traced: notes.traced,
        too_big: test.too_big().map(Some),
    };
    Ok((run, carried.carrier))
}

/// The address that this host sends from.
fn source(target: SocketAddr) -> Option<IpAddr> {
    let socket = towards(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}
