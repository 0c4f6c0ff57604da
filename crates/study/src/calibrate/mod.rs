//! `warpline calibrate`: how fast and how exact emulation is on this machine, in tables and a report. Linux only.
//!
//! The measuring is [`warpline_live::calibrate`]'s, but for the keep-pace curve, which is of whole scenarios ([`keep_pace`]). What came
//! out is put beside the figures of the seed ([`mod@reference`]) as text ([`tables`]) and as a page ([`report`]).

pub mod keep_pace;
pub mod reference;
pub mod report;
pub mod tables;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use warpline_live::calibrate::bed::{Bed, BedError};
use warpline_live::calibrate::measure::{Goodput, Way};
use warpline_live::calibrate::{self, Accuracy, Capacity, Extent};

use keep_pace::KeepPace;

/// The largest standard deviation of round trips on a machine that does nothing else, in milliseconds.
const QUIET_MS: f64 = 0.05;
/// The largest spread of repeated capacities that is not doubted.
const STEADY: f64 = 0.15;

/// A part of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The three tables: delay, bandwidth, loss.
    Accuracy,
    /// What the emulator carries.
    Capacity,
    /// What is carried without an emulated network.
    Floors,
    /// How many simulated links fit beside a live one.
    KeepPace,
}

impl Part {
    /// How much of the time it takes, roughly.
    fn weight(self) -> f64 {
        match self {
            Part::Accuracy => 0.3,
            Part::Capacity => 0.2,
            Part::Floors | Part::KeepPace => 0.45,
        }
    }
}

/// What is to be measured, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// This program: as `PROGRAM load WORDS...` it makes load.
    pub program: &'a Path,
    /// Less of everything.
    pub quick: bool,
    /// Which parts.
    pub parts: &'a [Part],
}

/// Why a calibration was not made.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A measurement was not made.
    #[error(transparent)]
    Measure(#[from] BedError),
    /// A scenario was not run.
    #[error("the keep-pace curve cannot be measured: {0}")]
    Scenario(String),
    /// Somebody asked to stop.
    #[error("stopped")]
    Stopped,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Processes that ran or wanted to, in the minute before (proc(5), loadavg).
    pub load: f64,
}

impl Machine {
    fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok());
        Machine {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.unwrap_or_default(),
        }
    }
}

/// What is carried without an emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// By what.
    pub name: String,
    /// How much.
    pub capacity: Capacity,
}

/// Ways without an emulated network.
const FLOORS: [(&str, Way); 3] =
    [("packet sockets alone", Way::Ports), ("TUN alone", Way::Tun), ("veth alone", Way::Veth)];

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// This program's version.
    pub warpline: String,
    /// The machine.
    pub machine: Machine,
    /// Whether less was measured than can be.
    pub quick: bool,
    /// The three tables.
    pub accuracy: Accuracy,
    /// What the emulator carries, if that was asked for.
    pub capacity: Option<Capacity>,
    /// A BBR stream over 1 Gbit/s and a round trip of 80 ms; none where the kernel has no BBR.
    pub long_fat: Option<Goodput>,
    /// What is carried without an emulated network, if that was asked for.
    pub floors: Vec<Floor>,
    /// How many simulated links fit beside a live one.
    pub keep_pace: KeepPace,
    /// Why some of it may not be this machine's own: in sentences.
    pub doubts: Vec<String>,
}

/// Measures everything. `tell` hears how far it is, as a share, and what is measured next; when `stop` becomes true, it ends soon.
///
/// The process has been prepared ([`warpline_lab::run::prepare`]).
///
/// # Errors
/// If something cannot be measured, or somebody asked to stop: nothing is left behind then.
pub fn calibrate(
    options: &Options<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(f64, &str),
) -> Result<Calibration, CalibrateError> {
    let extent = Extent { quick: options.quick };
    let machine = Machine::here();
    let mut calibration = Calibration {
        warpline: env!("CARGO_PKG_VERSION").to_owned(),
        machine,
        quick: options.quick,
        ..Calibration::default()
    };
    let total: f64 = options.parts.iter().map(|part| part.weight()).sum();
    let mut before = 0.0;
    for &part in options.parts {
        let mut tell = |share: f64, what: &str| tell((before + part.weight() * share) / total, what);
        match part {
            Part::Accuracy => {
                let bed = Bed::new(options.program.to_owned(), stop)?;
                calibration.accuracy = calibrate::accuracy(&bed, extent, &mut tell)?;
            }
            Part::Capacity => {
                let bed = Bed::new(options.program.to_owned(), stop)?;
                calibration.capacity = Some(calibrate::capacity(&bed, Way::Emulator, extent, &mut tell)?);
                tell(0.9, "BBR over 1 Gbit/s and 80 ms");
                calibration.long_fat = calibrate::long_fat(&bed, extent)?;
            }
            Part::Floors => {
                let bed = Bed::new(options.program.to_owned(), stop)?;
                for (number, (name, way)) in FLOORS.into_iter().enumerate() {
                    let capacity = calibrate::capacity(&bed, way, extent, &mut |share, what| {
                        tell((number as f64 + share) / FLOORS.len() as f64, &format!("{name}: {what}"));
                    })?;
                    calibration.floors.push(Floor { name: name.to_owned(), capacity });
                }
            }
            Part::KeepPace => {
                let program = options.program;
                calibration.keep_pace = keep_pace::measure(program, options.quick, stop, &mut tell)?;
            }
        }
        before += part.weight();
    }
    calibration.doubts = doubts(&calibration);
    Ok(calibration)
}

/// What of the figures the machine's other work may have changed.
fn doubts(calibration: &Calibration) -> Vec<String> {
    let mut doubts = Vec::new();
    let machine = &calibration.machine;
    if machine.load > 0.5 {
        doubts.push(format!(
            "The machine had other things to do (load {:.2} at the start): delays and capacities may be better without them.",
            machine.load
        ));
    }
    let restless: Vec<String> = calibration
        .accuracy
        .delay
        .iter()
        .filter(|row| row.rtt_ms.stddev > QUIET_MS)
        .map(|row| format!("{} ms/{} B: {:.3} ms", row.delay_ms, row.bytes, row.rtt_ms.stddev))
        .collect();
    if !restless.is_empty() {
        doubts.push(format!(
            "Round trips deviate by more than {QUIET_MS} ms ({}): something else ran in between.",
            restless.join(", ")
        ));
    }
    let parts = calibration.capacity.iter().flat_map(|c| {
        [
            ("round trips of single packets", &c.rtt_ms),
            ("one way", &c.one_way_pps),
            ("flooded", &c.flooded_pps),
            ("round trips", &c.round_trips_ps),
            ("TCP", &c.stream_bps),
        ]
    });
    let apart: Vec<String> = parts
        .filter(|(_, repeated)| repeated.spread() > STEADY)
        .map(|(name, repeated)| format!("{name} by {:.0} %", repeated.spread() * 100.0))
        .collect();
    if !apart.is_empty() {
        doubts.push(format!("Repeated measurements lie apart: {}.", apart.join(", ")));
    }
    let behind = calibration.accuracy.delay.iter().filter(|row| !row.kept_pace).count()
        + calibration.accuracy.rate.iter().filter(|row| !row.kept_pace).count();
    if behind > 0 {
        doubts.push(format!(
            "In {behind} of the measurements of delay and bandwidth the emulator did not keep pace: more than one packet in a thousand \
             left over 1 ms late."
        ));
    }
    if calibration.quick {
        doubts.push("It was measured quickly, each capacity once.".to_owned());
    }
    doubts
}

#[cfg(test)]
mod tests {
    use warpline_live::calibrate::measure::DelayRow;
    use warpline_live::calibrate::statistics::{Repeated, Sample};

    use super::*;

    #[test]
    fn what_is_doubtful_is_said() {
        let mut calibration = Calibration::default();
        assert_eq!(doubts(&calibration), Vec::<String>::new());
        calibration.machine.load = 3.0;
        calibration.accuracy.delay.push(DelayRow {
            delay_ms: 5.0,
            bytes: 64,
            rtt_ms: Sample { stddev: 0.2, ..Sample::default() },
            ..DelayRow::default()
        });
        let stream_bps = Repeated { median: 2.0, min: 1.0, max: 3.0, times: 3 };
        calibration.capacity = Some(Capacity { stream_bps, ..Capacity::default() });
        let text = doubts(&calibration).join("\n");
        for part in ["load 3.00", "5 ms/64 B: 0.200 ms", "TCP by 100 %", "1 of the measurements"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
