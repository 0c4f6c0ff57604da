//! `warpline calibrate`: how fast and how accurate emulation is on this machine. Linux only.
//!
//! [`warpline_live::calibrate`] does the measuring, except for the keep-pace curve, which needs whole scenarios ([`keep_pace`]), and for dilated
//! time, which needs guests ([`dilation`]). The
//! results are compared with an early simulator, called the seed ([`mod@reference`]), as text ([`tables`]) and as a page ([`report`]).

pub mod dilation;
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

use dilation::DilationRow;
use keep_pace::KeepPace;

/// The largest standard deviation of round trips on an otherwise idle machine, in milliseconds.
const QUIET_MS: f64 = 0.05;
/// The largest spread of repeated capacities that raises no doubt.
const STEADY: f64 = 0.15;

/// A part of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The three tables: delay, bandwidth, loss.
    Accuracy,
    /// The capacity of the emulator.
    Capacity,
    /// The capacity without an emulated network.
    Floors,
    /// How many simulated links fit beside a live one.
    KeepPace,
    /// How exact dilated time is, with guests.
    Dilation,
}

impl Part {
    /// Its approximate share of the time.
    fn weight(self) -> f64 {
        match self {
            Part::Accuracy => 0.3,
            Part::Capacity => 0.2,
            Part::Floors | Part::KeepPace | Part::Dilation => 0.45,
        }
    }
}

/// What to measure, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// This program; `PROGRAM load WORDS...` generates load.
    pub program: &'a Path,
    /// Whether to measure less of everything.
    pub quick: bool,
    /// The parts to measure.
    pub parts: &'a [Part],
}

/// Why a calibration failed.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A measurement failed.
    #[error(transparent)]
    Measure(#[from] BedError),
    /// A scenario failed.
    #[error("the keep-pace curve cannot be measured: {0}")]
    Scenario(String),
    /// Guests failed.
    #[error("the error of dilated time cannot be measured: {0}")]
    Dilation(String),
    /// It was stopped.
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
    /// Processes that ran or were ready to run, averaged over the minute before (proc(5), loadavg).
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

/// The capacity of a path without an emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The name of the path.
    pub name: String,
    /// Its capacity.
    pub capacity: Capacity,
}

/// Paths without an emulated network.
const FLOORS: [(&str, Way); 3] =
    [("packet sockets alone", Way::Ports), ("TUN alone", Way::Tun), ("veth alone", Way::Veth)];

/// All results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// This program's version.
    pub warpline: String,
    /// The machine.
    pub machine: Machine,
    /// Whether it was a quick calibration, which measures less.
    pub quick: bool,
    /// The three tables.
    pub accuracy: Accuracy,
    /// The capacity of the emulator, if it was measured.
    pub capacity: Option<Capacity>,
    /// A BBR stream over 1 Gbit/s and a round trip of 80 ms; none if the kernel has no BBR.
    pub long_fat: Option<Goodput>,
    /// The capacity without an emulated network, if it was measured.
    pub floors: Vec<Floor>,
    /// How many simulated links fit beside a live one.
    pub keep_pace: KeepPace,
    /// How exact dilated time is, by the factor, if it was measured.
    pub dilation: Vec<DilationRow>,
    /// Reasons why some results may not be typical of this machine, as sentences.
    pub doubts: Vec<String>,
}

/// Measures everything. `progress` gets the share that is done and what is measured next. When `stop` becomes true, it ends soon.
///
/// The process must be prepared ([`warpline_lab::run::prepare`]).
///
/// # Errors
/// If something cannot be measured, or it was stopped. Nothing is left behind then.
pub fn calibrate(
    options: &Options<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64, &str),
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
        let mut progress = |share: f64, what: &str| progress((before + part.weight() * share) / total, what);
        match part {
            Part::Accuracy => {
                let bed = Bed::new(options.program.to_owned(), stop)?;
                calibration.accuracy = calibrate::accuracy(&bed, extent, &mut progress)?;
            }
            Part::Capacity => {
                let bed = Bed::new(options.program.to_owned(), stop)?;
                calibration.capacity = Some(calibrate::capacity(&bed, Way::Emulator, extent, &mut progress)?);
                progress(0.9, "BBR over 1 Gbit/s and 80 ms");
                calibration.long_fat = calibrate::long_fat(&bed, extent)?;
            }
            Part::Floors => {
                let bed = Bed::new(options.program.to_owned(), stop)?;
                for (number, (name, way)) in FLOORS.into_iter().enumerate() {
                    let capacity = calibrate::capacity(&bed, way, extent, &mut |share, what| {
                        progress((number as f64 + share) / FLOORS.len() as f64, &format!("{name}: {what}"));
                    })?;
                    calibration.floors.push(Floor { name: name.to_owned(), capacity });
                }
            }
            Part::KeepPace => {
                let program = options.program;
                calibration.keep_pace = keep_pace::measure(program, options.quick, stop, &mut progress)?;
            }
            Part::Dilation => {
                calibration.dilation = dilation::measure(options.program, options.quick, &mut progress)?;
            }
        }
        before += part.weight();
    }
    calibration.doubts = doubts(&calibration);
    Ok(calibration)
}

/// Results that other work on the machine may have changed.
fn doubts(calibration: &Calibration) -> Vec<String> {
    let mut doubts = Vec::new();
    let machine = &calibration.machine;
    if machine.load > 0.5 {
        doubts.push(format!(
            "The machine had other work (load {:.2} at the start): delays and capacities may be better without it.",
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
            "Round trips deviate by more than {QUIET_MS} ms ({}): other work ran in between.",
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
        doubts.push(format!("Repeated measurements differ: {}.", apart.join(", ")));
    }
    let behind = calibration.accuracy.delay.iter().filter(|row| !row.kept_pace).count()
        + calibration.accuracy.rate.iter().filter(|row| !row.kept_pace).count()
        + calibration.dilation.iter().filter(|row| !row.kept_pace).count();
    if behind > 0 {
        doubts.push(format!(
            "In {behind} of the measurements of delay, bandwidth and dilated time the emulator did not keep pace: more than one packet in a thousand \
             left over 1 ms late."
        ));
    }
    if calibration.quick {
        doubts.push("This was a quick calibration: each capacity was measured once.".to_owned());
    }
    doubts
}

#[cfg(test)]
mod tests {
    use warpline_live::calibrate::measure::DelayRow;
    use warpline_live::calibrate::statistics::{Repeated, Sample};

    use super::*;

    #[test]
    fn doubtful_results_are_named() {
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
