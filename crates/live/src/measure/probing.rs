//! The loop that carries the probes of a test over a socket, and their answers back.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use warpline_capacity::{ProbeReply, Prober};
use warpline_core::{TimeDelta, Timestamp};

use super::probe::{Heard, ProbeMode, ProbeSocket, Sent};
use super::{Foremost, MeasureError};
use crate::clock::RealClock;

/// Probes sent before arrivals are checked again.
const TURN: usize = 64;
/// How often to check whether the user wants the test to stop.
const LISTEN: TimeDelta = TimeDelta::from_millis(50);
/// How long sending pauses when the kernel has no room.
const REFUSED_PAUSE: TimeDelta = TimeDelta::from_millis(1);

/// Where probes go.
#[derive(Clone, Copy, Debug)]
pub struct ProbePath {
    /// The target, with its zone if its address needs one (`fe80::1%eth0`). The port has no meaning.
    pub target: SocketAddr,
    /// The kind of probes.
    pub mode: ProbeMode,
    /// How many hops they may travel; `None` for no limit.
    pub ttl: Option<u8>,
}

/// What is noticed on the way.
pub(super) trait Watcher<P> {
    /// A probe was answered, for the first time.
    fn on_answer(&mut self, kind: ProbeReply, from: IpAddr);
    /// Called on every turn. Returns when to call again at the latest.
    fn turn(&mut self, now: Timestamp, prober: &mut P) -> Timestamp;
}

/// What the loop knows of the host when a test has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// The kind of probes, as text.
    pub carrier: &'static str,
    /// When the loop ended.
    pub now: Timestamp,
    /// Time in which this end ran or waited for a processor, in nanoseconds.
    pub busy_ns: u64,
    /// Times that the kernel had no room for a probe, and how long sending paused because of that.
    pub refused: (u64, TimeDelta),
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

/// Carries probes until the test is over. `stop` ends it early.
///
/// # Errors
/// If there is no socket, or it no longer works.
pub(super) fn carry<P: Prober>(
    path: ProbePath,
    clock: &mut RealClock,
    prober: &mut P,
    stop: &AtomicBool,
    watcher: &mut dyn Watcher<P>,
) -> Result<Carried, MeasureError> {
    let mut foremost = Foremost::ask();
    let mut socket = ProbeSocket::open(path.target, path.mode, path.ttl)?;
    let busy_before = super::thread_ns();
    let mut paused_until = Timestamp::ZERO;
    let mut refused = (0, TimeDelta::ZERO);
    let mut newest = 0;
    let mut last = Timestamp::ZERO;
    loop {
        let now = clock.now();
        clock.refresh(now);
        let modulus = socket.modulus();
        let mut came = socket.receive(clock, |at, heard| match heard {
            Heard::Reply(low, kind, from) => {
                let number = unfold(low, newest, modulus);
                // A timestamp may be older than the last send; time must not go back.
                last = last.max(at);
                // Unsolicited answers say nothing of who is on the path, and could be from any number of addresses.
                if prober.on_reply(last, number, kind) {
                    watcher.on_answer(kind, from);
                }
            }
            Heard::TooBig(low, mtu) => {
                last = last.max(now);
                if prober.is_out(unfold(low, newest, modulus)) {
                    prober.on_too_big(last, mtu);
                }
            }
        })?;
        foremost.turn(now, came);
        last = last.max(now);
        if prober.poll_timeout() <= last {
            prober.handle_timeout(last);
        }
        if now >= paused_until {
            for _ in 0..TURN {
                let Some(probe) = prober.poll_transmit(last) else { break };
                newest = newest.max(probe.number);
                match socket.send(probe.number, probe.size)? {
                    Sent::Away => came = true,
                    Sent::Refused => {
                        prober.on_refused(probe.number);
                        paused_until = now + REFUSED_PAUSE;
                        refused = (refused.0 + 1, refused.1 + REFUSED_PAUSE);
                        break;
                    }
                    Sent::TooLarge => {
                        prober.on_not_sent(probe.number);
                        let mtu = socket.interface_mtu().unwrap_or(probe.size * 3 / 4).min(probe.size - 1);
                        prober.on_too_big(last, mtu);
                        came = true;
                        break;
                    }
                }
            }
        }
        let look = watcher.turn(last, prober);
        if stop.load(Ordering::Relaxed) {
            prober.stop(last);
        }
        if prober.is_over() {
            let busy_ns = super::thread_ns() - busy_before;
            return Ok(Carried { carrier: socket.describe(), now: last, busy_ns, refused });
        }
        if !came {
            let now = clock.now();
            let mut until = prober.poll_timeout().min(look).min(now + LISTEN);
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
