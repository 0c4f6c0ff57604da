//! `warpline calibrate`: how fast and how exact emulation is on this machine, in tables and a report. Linux only.
//!
//! The measuring is [`warpline_live::calibrate`]'s, but for the keep-pace curve, which is of whole scenarios ([`keep_pace`]). What came
//! out is put beside the figures of the seed ([`reference`]) as text ([`tables`]) and as a page ([`report`]).

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

/// What is to be measured, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// This program: as `PROGRAM load WORDS...` it makes load.
    pub program: &'a Path,
    /// Less of everything.
    pub quick: bool,
    /// Also what is carried without an emulated network.
    pub floors: bool,
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
    /// What the emulator carries.
    pub capacity: Capacity,
    /// A BBR stream over 1 Gbit/s and a round trip of 80 ms; none where the kernel has no BBR.
    pub long_fat: Option<Goodput>,
    /// What is carried without an emulated network, if that was asked for.
    pub floors: Vec<Floor>,
    /// How many simulated links fit beside a live one.
    pub keep_pace: KeepPace,
    /// Why some of it may not be this machine's own: in sentences.
    pub doubts: Vec<String>,
}

/// How much of the time each part takes, roughly: accuracy, capacity, long and fat, floor, keep pace.
const PARTS: [f64; 5] = [0.35, 0.15, 0.05, 0.45, 0.45];

/// Measures everything. `tell` hears how far it is, as a share, and what is measured next; when `stop` becomes true, it ends soon.
///
/// The process has been prepared ([`crate::run::prepare`]).
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
    let total: f64 = if options.floors { PARTS.iter().sum() } else { PARTS.iter().sum::<f64>() - PARTS[3] };
    let mut before = 0.0;
    let mut part = |number: usize, tell: &mut dyn FnMut(f64, &str), share: f64, what: &str| {
        tell((before + PARTS[number] * share) / total, what);
        if share >= 1.0 {
            before += PARTS[number];
        }
    };
    {
        let bed = Bed::new(options.program.to_owned(), stop)?;
        calibration.accuracy =
            calibrate::accuracy(&bed, extent, &mut |share, what| part(0, tell, share.min(0.99), what))?;
        part(0, tell, 1.0, "capacity");
        calibration.capacity = calibrate::capacity(&bed, Way::Emulator, extent, &mut |share, what| {
            part(1, tell, share.min(0.99), what);
        })?;
        part(1, tell, 1.0, "BBR over 1 Gbit/s and 80 ms");
        calibration.long_fat = calibrate::long_fat(&bed, extent)?;
        part(2, tell, 1.0, "without an emulated network");
        if options.floors {
            for (number, (name, way)) in FLOORS.into_iter().enumerate() {
                let capacity = calibrate::capacity(&bed, way, extent, &mut |share, what| {
                    let share = (number as f64 + share) / FLOORS.len() as f64;
                    part(3, tell, share.min(0.99), &format!("{name}: {what}"));
                })?;
                calibration.floors.push(Floor { name: name.to_owned(), capacity });
            }
            part(3, tell, 1.0, "simulated links");
        }
    }
    calibration.keep_pace = keep_pace::measure(options.program, options.quick, stop, &mut |share, what| {
        part(4, tell, share.min(0.99), what);
    })?;
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
    let c = &calibration.capacity;
    let parts = [
        ("round trips of single packets", &c.rtt_ms),
        ("one way", &c.one_way_pps),
        ("flooded", &c.flooded_pps),
        ("round trips", &c.round_trips_ps),
        ("TCP", &c.stream_bps),
    ];
    let apart: Vec<String> = parts
        .iter()
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
        calibration.capacity.stream_bps = Repeated { median: 2.0, min: 1.0, max: 3.0, times: 3 };
        let text = doubts(&calibration).join("\n");
        for part in ["load 3.00", "5 ms/64 B: 0.200 ms", "TCP by 100 %", "1 of the measurements"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
