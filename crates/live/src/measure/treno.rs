//! One TReno test over a socket.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use warpline_capacity::{ProbeReply, Treno, TrenoOptions, TrenoOutcome, TrenoResults, TrenoSample};
use warpline_core::{TimeDelta, Timestamp};

use super::probe::{Heard, ProbeMode, ProbeSocket, Sent};
use super::{Foremost, MeasureError};
use crate::clock::RealClock;

/// Probes sent before arrivals are checked again.
const TURN: usize = 64;
const LISTEN: TimeDelta = TimeDelta::from_millis(50);
/// Most responders that are listed separately.
const RESPONDERS: usize = 256;
/// How long sending pauses when the kernel has no room.
const REFUSED_PAUSE: TimeDelta = TimeDelta::from_millis(1);

/// Settings of a test.
#[derive(Clone, Debug)]
pub struct TrenoConfig {
    /// The target of the probes.
    pub target: IpAddr,
    /// Their kind.
    pub mode: ProbeMode,
    /// How many hops they may travel; `None` for no limit.
    pub ttl: Option<u8>,
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

/// The number nearest to `near` that is `low` modulo `modulus`.
fn unfold(low: u64, near: u64, modulus: u64) -> u64 {
    let round = near / modulus * modulus;
    let candidates = [round.checked_sub(modulus), Some(round), round.checked_add(modulus)];
    candidates
        .into_iter()
        .flatten()
        .map(|base| base + low)
        .min_by_key(|candidate| candidate.abs_diff(near))
        .unwrap_or(low)
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
    let mut foremost = Foremost::ask();
    let mut socket = ProbeSocket::open(config.target, config.mode, config.ttl)?;
    let mut clock = RealClock::start();
    let busy_before = super::thread_ns();
    let mut treno = Treno::new(config.options.clone());
    let mut responders: BTreeMap<(IpAddr, ProbeReply), u64> = BTreeMap::new();
    let mut samples = Vec::new();
    let mut next_sample = clock.now() + config.interval;
    let mut paused_until = Timestamp::ZERO;
    let mut newest = 0;
    let mut last = Timestamp::ZERO;
    loop {
        let now = clock.now();
        clock.refresh(now);
        let modulus = socket.modulus();
        let mut came = socket.receive(&clock, |at, heard| match heard {
            Heard::Reply(low, kind, from) => {
                let number = unfold(low, newest, modulus);
                // A timestamp may be older than the last send; time must not go back.
                last = last.max(at);
                // Unsolicited answers say nothing of who is on the path, and could be from any number of addresses.
                if treno.on_reply(last, number, kind)
                    && (responders.len() < RESPONDERS || responders.contains_key(&(from, kind)))
                {
                    *responders.entry((from, kind)).or_default() += 1;
                }
            }
            Heard::TooBig(low, mtu) => {
                last = last.max(now);
                if treno.is_out(unfold(low, newest, modulus)) {
                    treno.on_too_big(last, mtu);
                }
            }
        })?;
        foremost.turn(now, came);
        last = last.max(now);
        if treno.poll_timeout() <= last {
            treno.handle_timeout(last);
        }
        if now >= paused_until {
            for _ in 0..TURN {
                let Some(probe) = treno.poll_transmit(last) else { break };
                newest = probe.number;
                match socket.send(probe.number, probe.size)? {
                    Sent::Away => came = true,
                    Sent::Refused => {
                        treno.on_refused(probe.number);
                        paused_until = now + REFUSED_PAUSE;
                        break;
                    }
                    Sent::TooLarge => {
                        treno.on_refused(probe.number);
                        let mtu = socket.interface_mtu().unwrap_or(probe.size * 3 / 4).min(probe.size - 1);
                        treno.on_too_big(last, mtu);
                        came = true;
                        break;
                    }
                }
            }
        }
        if now >= next_sample {
            next_sample = now + config.interval;
            if let Some(sample) = treno.sample(last) {
                progress(&sample);
                samples.push(sample);
            }
        }
        if stop.load(Ordering::Relaxed) {
            treno.stop(last);
        }
        if let Some(outcome) = treno.outcome() {
            let counted = |((address, kind), count)| Responder { address, kind, count };
            return Ok(TrenoRun {
                outcome,
                carrier: socket.describe().to_owned(),
                ttl: config.ttl,
                results: treno.results().clone(),
                responders: responders.into_iter().map(counted).collect(),
                samples,
                busy_ns: super::thread_ns() - busy_before,
            });
        }
        if !came {
            let now = clock.now();
            let mut until = treno.poll_timeout().min(next_sample).min(now + LISTEN);
            if paused_until > now {
                until = until.min(paused_until);
            }
            socket.wait(now, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unfold;

    #[test]
    fn numbers_are_found_again_from_their_low_part() {
        for modulus in [1_u64 << 16, 32_102] {
            for near in [0_u64, 5, 40_000, 65_535, 65_536, 1_000_000] {
                for number in near.saturating_sub(10_000)..near + 100 {
                    assert_eq!(unfold(number % modulus, near, modulus), number);
                }
            }
        }
    }
}
