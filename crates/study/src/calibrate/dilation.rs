//! How exact dilated time is on this machine: the error that section 2.4.3 of the paper estimates (Gupta and others, "To Infinity and Beyond:
//! Time-Warped Network Emulation", NSDI 2006), measured, and that of the guests' clocks and timers.
//!
//! Of a round trip over a link with a round-trip time R, a part δ is not dilated: the emulator's and the machine's own work. At a factor S a
//! host therefore measures (S·R + δ)/S instead of R + δ. The relative error is ε = (1 - 1/S)·δ/(R + δ).

use std::path::Path;

use serde::{Deserialize, Serialize};
use warpline_live::calibrate::statistics::Sample;

/// The factors at which it is measured.
pub const FACTORS: [f64; 3] = [1.0, 10.0, 100.0];
/// The round-trip time of the link over which it is measured, in milliseconds.
pub const RTT_MS: f64 = 10.0;
/// The round-trip times for which the error is stated, in milliseconds.
pub const STATED_MS: [f64; 3] = [1.0, 10.0, 80.0];

/// How exact time was at one factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DilationRow {
    /// The time dilation factor S.
    pub tdf: f64,
    /// The round-trip time of the link, R, in milliseconds of the guests.
    pub rtt_ms: f64,
    /// Round trips as a guest's kernel measured them, in milliseconds of the guest.
    pub trips_ms: Sample,
    /// Pings without an answer.
    pub lost: u64,
    /// What is not dilated in a round trip, δ, in microseconds of the machine.
    pub delta_us: Sample,
    /// A guest's clock less the ideal one, in microseconds of the guest.
    pub clock_us: Sample,
    /// How exactly that could be told: the median time that a reading took, in microseconds of the guest.
    pub reading_us: f64,
    /// How late timers of a program in a guest fired, in microseconds of the guest.
    pub timer_us: Sample,
    /// Whether the emulator kept pace.
    pub kept_pace: bool,
}

/// The relative error of a round trip of `rtt_ms` of which `delta_us` are not dilated, at the factor `tdf`: ε of the paper.
pub fn epsilon(tdf: f64, rtt_ms: f64, delta_us: f64) -> f64 {
    let delta_ms = delta_us / 1e3;
    (1.0 - 1.0 / tdf) * delta_ms / (rtt_ms + delta_ms)
}

#[cfg(guests)]
mod guests {
    use std::path::PathBuf;

    use warpline_core::dilation::Pace;
    use warpline_core::{NodeId, TimeDelta};
    use warpline_lab::run::dilate::{DilateConfig, Ending, START, dilate};
    use warpline_live::crossing::CrossingConfig;
    use warpline_live::emulator::EmulatorConfig;
    use warpline_live::load::{Clocks, Trips, clock};
    use warpline_net::qdisc::{QdiscConfig, QueueLimit};
    use warpline_net::{LinkConfig, RateConfig};
    use warpline_scenario::Tdf;

    use super::super::CalibrateError;
    use super::{DilationRow, Path, RTT_MS, Sample};

    /// Memory of a guest in bytes.
    const MEMORY: u64 = 256 << 20;
    /// Time between two readings of a guest's clock, in microseconds of the guest.
    const GAP_US: u64 = 500;

    /// The machine's clock by the time-stamp counter, from two readings of both.
    pub(super) struct Counter([[u64; 2]; 2]);

    impl Counter {
        /// The counter and the clock at two instants.
        pub(super) fn new(first: [u64; 3], last: [u64; 3]) -> Self {
            Counter([first, last].map(|[before, time, after]| [before.midpoint(after), time]))
        }

        /// The machine's `CLOCK_MONOTONIC` when the counter showed this, in nanoseconds.
        pub(super) fn clock(&self, counter: u64) -> f64 {
            let [[c0, t0], [c1, t1]] = self.0;
            let slope = (t1 as f64 - t0 as f64) / (c1 as f64 - c0 as f64);
            t0 as f64 + (counter as f64 - c0 as f64) * slope
        }

        /// How much the clock of a guest with this pace was ahead of the ideal one, in nanoseconds of the guest.
        pub(super) fn ahead(&self, pace: &Pace, [before, shown, after]: [u64; 3]) -> f64 {
            let ideal = START + pace.at(self.clock(before.midpoint(after)) as u64);
            shown as f64 - ideal as f64
        }
    }

    fn link() -> LinkConfig {
        LinkConfig {
            rate: RateConfig::Unlimited,
            delay: TimeDelta::from_secs_f64(RTT_MS / 2e3),
            qdisc: QdiscConfig::drop_tail(QueueLimit::Unlimited),
            ..LinkConfig::new("link", NodeId(0), NodeId(1))
        }
    }

    fn config(program: &Path, tdf: f64, quick: bool) -> DilateConfig {
        let (pings, readings) = if quick { (20, 100) } else { (100, 500) };
        let line = format!(
            "\"$0\" load echo $WARPLINE_PEER {pings} 0 64 && echo && \"$0\" load clock {readings} {GAP_US}"
        );
        let emulator = EmulatorConfig { mtu: 1500, ..EmulatorConfig::default() };
        DilateConfig {
            link: CrossingConfig { up: link(), down: link(), seed: 1, emulator },
            tdf: Tdf::Factor(tdf),
            kernel: None,
            cc: None,
            // Sockets for pings, which the load generator uses, are off by default.
            sysctl: vec![("net.ipv4.ping_group_range".to_owned(), "0 0".to_owned())],
            memory: MEMORY,
            cpu_share: None,
            own_tsc: false,
            command: ["sh", "-c", &line]
                .map(str::to_owned)
                .into_iter()
                .chain([program.to_string_lossy().into_owned()])
                .collect(),
            peer_command: None,
            environment: DilateConfig::environment(),
            directory: PathBuf::from("/"),
            terminal: || None,
            keep: true,
            verbose: false,
        }
    }

    /// Measures at one factor.
    pub(super) fn row(program: &Path, tdf: f64, quick: bool) -> Result<DilationRow, CalibrateError> {
        let fail = |why: String| CalibrateError::Dilation(why);
        let first = clock::close_reading();
        let outcome = dilate(&config(program, tdf, quick)).map_err(|error| fail(error.to_string()))?;
        let counter = Counter::new(first, clock::close_reading());
        match outcome.ending {
            Some(Ending::Exited(0)) => {}
            // Ctrl-C reaches the program.
            None | Some(Ending::Signalled(_) | Ending::Exited(130)) => return Err(CalibrateError::Stopped),
            Some(other) => return Err(fail(format!("the measuring program in a guest ended: {other:?}"))),
        }
        let mut parts = outcome.printed.lines().filter(|line| !line.is_empty());
        let mut part = || parts.next().unwrap_or_default();
        let trips: Trips = serde_json::from_str(part()).map_err(|error| fail(error.to_string()))?;
        let clocks: Clocks = serde_json::from_str(part()).map_err(|error| fail(error.to_string()))?;
        let took =
            |[before, _, after]: &[u64; 3]| (counter.clock(*after) - counter.clock(*before)) / tdf / 1e3;
        Ok(DilationRow {
            tdf,
            rtt_ms: RTT_MS,
            trips_ms: Sample::of(trips.stamped.iter().map(|&nanos| nanos as f64 / 1e6)),
            lost: trips.lost,
            delta_us: Sample::of(
                trips.stamped.iter().map(|&nanos| (nanos as f64 / 1e3 - RTT_MS * 1e3) * tdf),
            ),
            clock_us: Sample::of(
                clocks.readings.iter().map(|&reading| counter.ahead(&outcome.pace, reading) / 1e3),
            ),
            reading_us: Sample::of(clocks.readings.iter().map(took)).median,
            timer_us: Sample::of(clocks.late.iter().map(|&nanos| nanos as f64 / 1e3)),
            kept_pace: outcome.account.audit.summary.kept_pace(),
        })
    }
}

/// Measures at each of [`FACTORS`]: two guests boot for each, and `program` measures in one of them (`PROGRAM load WORDS...`).
///
/// # Errors
/// Without a kernel for guests, if something cannot be measured, or if it was stopped.
pub fn measure(
    program: &Path,
    quick: bool,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<Vec<DilationRow>, super::CalibrateError> {
    let total: f64 = FACTORS.iter().sum();
    let mut before = 0.0;
    let mut rows = Vec::new();
    for tdf in FACTORS {
        progress(before / total, &format!("guests at a factor of {tdf}"));
        #[cfg(guests)]
        rows.push(guests::row(program, tdf, quick)?);
        #[cfg(not(guests))]
        return Err(super::CalibrateError::Dilation(warpline_lab::run::NO_GUESTS.to_owned()));
        before += tdf;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_paper() {
        // Undilated, nothing is wrong, whatever takes how long.
        assert_eq!(epsilon(1.0, 10.0, 50.0), 0.0);
        // T_perfect is 10.05 ms; a host at a factor of 10 sees 10.005 ms.
        let (perfect, dilated) = (10.0 + 0.05, (10.0 * 10.0 + 0.05) / 10.0);
        assert!((epsilon(10.0, 10.0, 50.0) - (perfect - dilated) / perfect).abs() < 1e-12);
    }

    #[cfg(guests)]
    #[test]
    fn a_clock_that_is_wrong_is_seen_to_be() {
        use warpline_core::dilation::{Pace, Tdf};
        // A counter of 2 GHz, and a run that began at 5 s of the machine's clock.
        let counter = guests::Counter::new([0, 0, 0], [40_000_000_000, 20_000_000_000, 40_000_000_000]);
        let pace = Pace::new(5_000_000_000, Tdf::new(10.0).unwrap());
        let shown = |error: u64| 100_000_000_000 + 1_000_000_000 + error;
        // At 15 s of the machine's clock the guest's has gone on by one second.
        assert_eq!(counter.ahead(&pace, [30_000_000_000, shown(0), 30_000_000_000]), 0.0);
        assert_eq!(counter.ahead(&pace, [29_999_999_000, shown(700), 30_000_001_000]), 700.0);
    }
}
