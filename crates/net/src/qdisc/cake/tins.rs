//! CAKE's tins: which packets a tin takes by their code point, and which share of the rate it has.
//!
//! A tin has a threshold rate. While it keeps to that, it goes before tins with smaller numbers; above it, the tin whose schedule is
//! earliest sends. Without a shaper tins take turns by their quanta. The tables are those of Linux's `sch_cake` (6.18).

use warpline_core::parameter::Words;
use warpline_core::{Dscp, Rate, TimeDelta, Timestamp};

use super::cobalt::Law;
use super::flows::Flows;
use super::hosts::Hosts;

/// Which tins there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum CakeDiffserv {
    /// One for everything.
    Besteffort,
    /// Eight, by the upper three bits of the code point.
    Precedence,
    /// Eight, from background to network control.
    Diffserv8,
    /// Four: best effort, bulk (LE, CS1), video (AF2x, AF3x, AF4x, CS2, CS3), voice (CS4 to CS7, EF, VA).
    Diffserv4,
    /// Three: best effort, bulk (LE, CS1), voice (CS6, CS7, EF, VA).
    #[default]
    Diffserv3,
}

/// Code points that mean something but have no name in RFCs of today: the old bits for delay and throughput (RFC 1349).
const LOW_DELAY: u8 = 4;
const THROUGHPUT: u8 = 2;

impl CakeDiffserv {
    /// The number of the tin for a code point.
    pub(super) fn tin_of(self, dscp: Dscp) -> usize {
        let value = dscp.value();
        match self {
            CakeDiffserv::Besteffort => 0,
            CakeDiffserv::Precedence => usize::from(value >> 3),
            CakeDiffserv::Diffserv3 => match value {
                1 | 8 => 1,
                LOW_DELAY | 44 | 46 | 48 | 56 => 2,
                _ => 0,
            },
            CakeDiffserv::Diffserv4 => match value {
                1 | 8 => 1,
                LOW_DELAY | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
                32 | 40 | 44 | 46 | 48 | 56 => 3,
                _ => 0,
            },
            CakeDiffserv::Diffserv8 => match value {
                1 => 0,
                THROUGHPUT | 8 | 10 | 12 | 14 => 1,
                24 | 26 | 28 | 30 | 34 | 36 | 38 => 3,
                LOW_DELAY | 18 | 20 | 22 => 4,
                16 => 5,
                32 | 40 | 44 | 46 => 6,
                48 | 56 => 7,
                _ => 2,
            },
        }
    }

    /// For each tin, the share of the whole rate that is its threshold, as a fraction, and its quantum without a shaper.
    fn shares(self) -> Vec<((u64, u64), i64)> {
        let halves = |shifts: &[u32]| shifts.iter().map(|&shift| ((1, 1 << shift), 1024 >> shift)).collect();
        match self {
            CakeDiffserv::Besteffort => vec![((1, 1), 65_535)],
            CakeDiffserv::Diffserv3 => halves(&[0, 4, 2]),
            CakeDiffserv::Diffserv4 => halves(&[0, 4, 1, 2]),
            // Each has 7/8 of the one before.
            CakeDiffserv::Precedence | CakeDiffserv::Diffserv8 => {
                let quantum = |quantum: &i64| Some((quantum * 7) >> 3);
                let quanta = std::iter::successors(Some(256), quantum);
                (0..8).zip(quanta).map(|(tin, quantum)| ((7u64.pow(tin), 8u64.pow(tin)), quantum)).collect()
            }
        }
    }

    /// Empty tins for a shaper with `rate`, if there is one, and packets of `packet` bytes at most. `hosts` makes the tables of their hosts.
    pub(super) fn tins(
        self,
        rate: Option<Rate>,
        rtt: TimeDelta,
        packet: u32,
        mut hosts: impl FnMut() -> Hosts,
    ) -> Vec<Tin> {
        let tin = |((part, of), quantum): ((u64, u64), i64)| {
            let share = |rate: Rate| (u128::from(rate.as_bps()) * u128::from(part) / u128::from(of)) as u64;
            let rate = rate.map(|rate| Rate::from_bps(share(rate).max(LEAST_RATE)));
            Tin {
                flows: Flows::new(hosts(), flow_quantum(rate)),
                law: Law::new(rtt, rate, packet),
                rate,
                next: Timestamp::ZERO,
                quantum,
                deficit: 0,
                packets: 0,
            }
        };
        self.shares().into_iter().map(tin).collect()
    }
}

/// No tin is slower than this, in bit/s.
const LEAST_RATE: u64 = 64 * 8;

/// Bytes that a queue may send in a round: what the tin's rate carries in 1/4096 s, from 300 to 1514.
fn flow_quantum(rate: Option<Rate>) -> u32 {
    rate.map_or(1514, |rate| ((rate.as_bps() / 8) >> 12).clamp(300, 1514) as u32)
}

/// A tin.
#[derive(Debug)]
pub(super) struct Tin {
    pub(super) flows: Flows,
    pub(super) law: Law,
    /// The threshold; none without a shaper.
    rate: Option<Rate>,
    /// When it may send next if it keeps to its threshold.
    next: Timestamp,
    quantum: i64,
    /// Bytes that it may send before the next tin's turn, without a shaper.
    pub(super) deficit: i64,
    /// Packets that wait.
    pub(super) packets: u32,
}

impl Tin {
    /// A packet comes into the empty tin: what it did not send while it was empty is not made up for.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.next = self.next.max(now);
    }

    /// A packet that counts `length` bytes was sent, or dropped.
    pub(super) fn charge(&mut self, length: u32, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        let took = rate.time_for(u64::from(length));
        if self.next < now {
            self.next += took;
        } else {
            self.next = self.next.max(now + took);
        }
    }
}

/// The tin that sends next in a shaped queue: of those that keep to their thresholds the last, or else the one whose schedule is earliest.
pub(super) fn by_schedule(tins: &[Tin], now: Timestamp) -> Option<usize> {
    let mut best: Option<(Timestamp, usize)> = None;
    for (index, tin) in tins.iter().enumerate().filter(|(_, tin)| tin.flows.is_active()) {
        if tin.next <= now || best.is_none_or(|(next, _)| tin.next <= next) {
            best = Some((tin.next, index));
        }
    }
    best.map(|(_, index)| index)
}

/// The tin that sends next without a shaper, by deficit round robin from `current` on.
pub(super) fn by_deficit(tins: &mut [Tin], mut current: usize) -> Option<usize> {
    if !tins.iter().any(|tin| tin.flows.is_active()) {
        return None;
    }
    loop {
        let tin = &mut tins[current];
        if tin.deficit >= 0 && tin.flows.is_active() {
            return Some(current);
        }
        if tin.deficit <= 0 {
            tin.deficit += tin.quantum;
        }
        current = (current + 1) % tins.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of code points, and the tins that Linux's tables have for them in diffserv3, 4 and 8.
    #[test]
    fn code_points_have_their_tins() {
        for (name, tins) in [
            ("DF", [0, 0, 2]),
            ("LE", [1, 1, 0]),
            ("CS1", [1, 1, 1]),
            ("AF11", [0, 0, 1]),
            ("AF22", [0, 2, 4]),
            ("AF33", [0, 2, 3]),
            ("AF41", [0, 2, 3]),
            ("CS2", [0, 2, 5]),
            ("CS3", [0, 2, 3]),
            ("CS4", [0, 3, 6]),
            ("CS5", [0, 3, 6]),
            ("VA", [2, 3, 6]),
            ("EF", [2, 3, 6]),
            ("CS6", [2, 3, 7]),
            ("CS7", [2, 3, 7]),
            ("2", [0, 0, 1]),
            ("4", [2, 2, 4]),
            ("63", [0, 0, 2]),
        ] {
            let dscp: Dscp = name.parse().unwrap();
            let modes = [CakeDiffserv::Diffserv3, CakeDiffserv::Diffserv4, CakeDiffserv::Diffserv8];
            assert_eq!(modes.map(|mode| mode.tin_of(dscp)), tins, "{name}");
            assert_eq!(CakeDiffserv::Besteffort.tin_of(dscp), 0);
            assert_eq!(CakeDiffserv::Precedence.tin_of(dscp), usize::from(dscp.value() / 8));
        }
    }

    #[test]
    fn tins_have_their_thresholds_and_quanta() {
        let tins = |mode: CakeDiffserv| {
            let hosts = || Hosts::new(super::super::hosts::CakeFlowMode::Flows, 8, 0);
            mode.tins(Some(Rate::from_bps(64_000_000)), TimeDelta::from_millis(100), 1514, hosts)
        };
        let rates = |mode| -> Vec<u64> {
            tins(mode).iter().map(|tin| tin.rate.unwrap().as_bps() / 1_000_000).collect()
        };
        assert_eq!(rates(CakeDiffserv::Besteffort), [64]);
        assert_eq!(rates(CakeDiffserv::Diffserv3), [64, 4, 16]);
        assert_eq!(rates(CakeDiffserv::Diffserv4), [64, 4, 32, 16]);
        assert_eq!(rates(CakeDiffserv::Diffserv8), [64, 56, 49, 42, 37, 32, 28, 25]);
        let quanta: Vec<i64> = tins(CakeDiffserv::Diffserv4).iter().map(|tin| tin.quantum).collect();
        assert_eq!(quanta, [1024, 64, 512, 256]);
        let quantum = |mbps: u64| flow_quantum(Some(Rate::from_bps(mbps * 1_000_000)));
        assert_eq!([1, 10, 20, 100].map(quantum), [300, 305, 610, 1514]);
    }
}
