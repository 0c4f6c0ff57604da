//! How busy the machine was during a run, and with what: read from `/proc` before and after it.
//!
//! Linux counts in ticks of 10 ms (`USER_HZ`). The time of processes that we started counts once they have ended and were waited for, which is so
//! when a run has ended.

use std::fs;

use serde::{Deserialize, Serialize};

/// Seconds of a tick (`USER_HZ`; proc(5)).
const TICK: f64 = 0.01;
/// Fields of `/proc/stat` in which a processor has nothing to do: idle, and idle while a disk is waited for.
const IDLE: [usize; 2] = [3, 4];
/// Fields of `/proc/stat` that are counted: user, nice, system, idle, iowait, irq, softirq, steal. Time of virtual machines is in user.
const COUNTED: usize = 8;

/// Counters of the machine at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Processor time for which something ran, in seconds, and all processor time.
    busy_s: f64,
    all_s: f64,
    cores: f64,
    /// Processor time of this process and of those that it started.
    own_s: f64,
    /// Time for which some task waited for a processor (pressure stall information), where the kernel counts it.
    waited_s: Option<f64>,
}

/// How busy the machine was during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Cores of the machine.
    pub cores: f64,
    /// Cores that were busy, on average.
    pub busy: f64,
    /// Cores that the run took.
    pub own: f64,
    /// Share of the time for which something waited for a processor; none where the kernel does not count it.
    pub waited: Option<f64>,
}

impl Reading {
    /// The counters now; none where there are none.
    pub(super) fn now() -> Option<Reading> {
        let read = |path: &str| fs::read_to_string(path).ok();
        Reading::of(&read("/proc/stat")?, &read("/proc/self/stat")?, read("/proc/pressure/cpu").as_deref())
    }

    /// The counters in the texts of these files.
    fn of(machine: &str, own: &str, pressure: Option<&str>) -> Option<Reading> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> =
            line.split_whitespace().take(COUNTED).map_while(|word| word.parse().ok()).collect();
        let all: f64 = ticks.iter().sum();
        let idle: f64 = IDLE.iter().filter_map(|&field| ticks.get(field)).sum();
        let is_core = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        // The name in brackets may hold spaces. Then come state and so on; utime, stime, cutime and cstime are fields 14 to 17.
        let fields = own.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let own: f64 = fields.filter_map(|word| word.parse::<f64>().ok()).sum();
        let total = pressure
            .and_then(|text| text.lines().next()?.rsplit_once("total=")?.1.trim().parse::<f64>().ok());
        Some(Reading {
            busy_s: (all - idle) * TICK,
            all_s: all * TICK,
            cores: machine.lines().filter(is_core).count().max(1) as f64,
            own_s: own * TICK,
            waited_s: total.map(|micros| micros / 1e6),
        })
    }

    /// How busy the machine was from this reading to a later one.
    pub(super) fn until(&self, later: &Reading) -> Option<Load> {
        let span = (later.all_s - self.all_s) / later.cores;
        if span <= 0.0 {
            return None;
        }
        let waited = later
            .waited_s
            .zip(self.waited_s)
            .map(|(after, before)| ((after - before) / span).clamp(0.0, 1.0));
        Some(Load {
            cores: later.cores,
            busy: (later.busy_s - self.busy_s) / span,
            own: (later.own_s - self.own_s) / span,
            waited,
        })
    }
}

impl Load {
    /// Cores that others took.
    pub(super) fn others(&self) -> f64 {
        (self.busy - self.own).max(0.0)
    }

    /// Whether tasks had to wait for a processor for a good part of the time.
    pub(super) fn is_short(&self) -> bool {
        /// Share of the time.
        const WAITED: f64 = 0.25;
        /// Share of all cores, where waiting is not counted.
        const BUSY: f64 = 0.9;
        match self.waited {
            Some(waited) => waited > WAITED,
            None => self.busy > BUSY * self.cores,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_s_time_is_told_from_our_own() {
        let machine = |user: u64, idle: u64| {
            format!(
                "cpu  {user} 0 100 {idle} 0 0 0 50 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\nintr 1\n"
            )
        };
        let own = |user: u64, children: u64| {
            format!("7 (a ) b) S 1 7 7 0 -1 4 0 0 0 0 {user} 10 {children} 20 20 0 1 0")
        };
        let pressure = |total: u64| {
            format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=0\n")
        };
        let before = Reading::of(&machine(1000, 1000), &own(0, 0), Some(&pressure(0))).unwrap();
        // Ten seconds of two cores: 15 s were busy, of which 4 s were ours.
        let after = Reading::of(&machine(2500, 1500), &own(100, 300), Some(&pressure(5_000_000))).unwrap();
        let load = before.until(&after).unwrap();
        assert_eq!((load.cores, load.busy, load.own, load.waited), (2.0, 1.5, 0.4, Some(0.5)));
        assert!((load.others() - 1.1).abs() < 1e-9 && load.is_short());
        assert_eq!(before.until(&before), None);
        let unsaid = Load { waited: None, ..load };
        assert!(!unsaid.is_short() && Load { busy: 1.9, ..unsaid }.is_short());
        assert_eq!(Reading::of("", "", None), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_counters() {
        assert!(Reading::now().is_some_and(|now| now.cores >= 1.0 && now.all_s > 0.0));
    }
}
