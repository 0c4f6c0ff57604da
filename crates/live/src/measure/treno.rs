//! One TReno test over a socket.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use warpline_capacity::{ProbeReply, Treno, TrenoOptions, TrenoOutcome, TrenoResults, TrenoSample};
use warpline_core::{TimeDelta, Timestamp};

use super::MeasureError;
use super::probing::{ProbePath, Watcher, carry};
use crate::clock::RealClock;

/// Most responders that are listed separately.
const RESPONDERS: usize = 256;

/// Settings of a test.
#[derive(Clone, Debug)]
pub struct TrenoConfig {
    /// Where the probes go.
    pub path: ProbePath,
    /// The emulated TCP.
    pub options: TrenoOptions,
    /// How often progress is reported and sampled.
    pub interval: TimeDelta,
}

/// An address that answered, and how often in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responder {
    /// Its address.
    pub address: IpAddr,
    /// What it answered.
    pub kind: ProbeReply,
    /// How often.
    pub count: u64,
}

/// A finished test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrenoRun {
    /// How it ended.
    pub outcome: TrenoOutcome,
    /// The kind of probes, as text.
    pub carrier: String,
    /// How many hops they could travel.
    pub ttl: Option<u8>,
    /// Counters.
    pub results: TrenoResults,
    /// The addresses that answered.
    pub responders: Vec<Responder>,
    /// Progress, one sample for each interval.
    pub samples: Vec<TrenoSample>,
    /// Time in which this end ran or waited for a processor, in nanoseconds.
    pub busy_ns: u64,
}

/// Samples, and who answered.
struct Notes<'a> {
    responders: BTreeMap<(IpAddr, ProbeReply), u64>,
    samples: Vec<TrenoSample>,
    interval: TimeDelta,
    next_sample: Timestamp,
    progress: &'a mut dyn FnMut(&TrenoSample),
}

impl Watcher<Treno> for Notes<'_> {
    fn on_answer(&mut self, kind: ProbeReply, from: IpAddr) {
        if self.responders.len() < RESPONDERS || self.responders.contains_key(&(from, kind)) {
            *self.responders.entry((from, kind)).or_default() += 1;
        }
    }

    fn turn(&mut self, now: Timestamp, treno: &mut Treno) -> Timestamp {
        if now >= self.next_sample {
            self.next_sample = now + self.interval;
            if let Some(sample) = treno.sample(now) {
                (self.progress)(&sample);
                self.samples.push(sample);
            }
        }
        self.next_sample
    }
}

/// Runs a test. `stop` ends it early with the results so far.
///
/// # Errors
/// If there is no socket.
pub fn run(
    config: &TrenoConfig,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&TrenoSample),
) -> Result<TrenoRun, MeasureError> {
    let mut clock = RealClock::start();
    let mut treno = Treno::new(config.options.clone());
    let mut notes = Notes {
        responders: BTreeMap::new(),
        samples: Vec::new(),
        interval: config.interval,
        next_sample: clock.now() + config.interval,
        progress,
    };
    let carried = carry(config.path, &mut clock, &mut treno, stop, &mut notes)?;
    let counted = |((address, kind), count)| Responder { address, kind, count };
    Ok(TrenoRun {
        outcome: treno.outcome().unwrap_or(TrenoOutcome::Stopped),
        carrier: carried.carrier.to_owned(),
        ttl: config.path.ttl,
        results: treno.results().clone(),
        responders: notes.responders.into_iter().map(counted).collect(),
        samples: notes.samples,
        busy_ns: carried.busy_ns,
    })
}
