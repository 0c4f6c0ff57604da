//! Calibration: how fast and how accurate the emulator is on this machine, measured with real packets.
//!
//! - [`bed`]: two hosts, and the emulator or only its ports (a lower bound) between them.
//! - [`measure`]: the measurements, one function each.
//! - [`statistics`]: summaries of repeated measurements.
//!
//! [`accuracy`] and [`capacity`] run the default measurements. Separate processes generate the load ([`crate::load`]).

pub mod bed;
pub mod measure;
pub mod statistics;

use serde::{Deserialize, Serialize};

use bed::{Bed, BedError};
use measure::{DelayRow, Goodput, LossRow, RateRow, Way};
use statistics::Repeated;

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Less of everything: a first impression in a minute.
    pub quick: bool,
}

impl Extent {
    fn seconds(self, thorough: f64, quick: f64) -> f64 {
        if self.quick { quick } else { thorough }
    }
    fn times(self) -> u32 {
        if self.quick { 1 } else { 3 }
    }
}

/// Reports the next measurement: the share that is done, and a text.
pub type OnStep<'a> = &'a mut dyn FnMut(f64, &str);

/// How accurate the emulator is: the three tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Delay.
    pub delay: Vec<DelayRow>,
    /// Bandwidth.
    pub rate: Vec<RateRow>,
    /// Loss.
    pub loss: Vec<LossRow>,
}

/// Packet sizes in bytes on an Ethernet wire.
const SIZES: [u32; 2] = [64, 1518];
/// Delays, in milliseconds.
const DELAYS: [f64; 5] = [0.0, 5.0, 10.0, 50.0, 300.0];
/// Rates in Mbit/s, and packets in the queue of each.
const RATES: [(f64, u32); 4] = [(1.0, 20), (10.0, 50), (100.0, 200), (1000.0, 1000)];
/// The largest rate in Mbit/s that is measured with small packets, which are twenty times as many.
const SMALL_RATE: f64 = 100.0;
/// Loss probabilities.
const LOSSES: [f64; 3] = [0.001, 0.01, 0.1];
const LOSS_PPS: u32 = 20_000;

/// Measures the three tables.
///
/// # Errors
/// If something cannot be measured, or the user asked to stop.
pub fn accuracy(bed: &Bed<'_>, extent: Extent, report: OnStep<'_>) -> Result<Accuracy, BedError> {
    let mut accuracy = Accuracy::default();
    let delays = if extent.quick { &DELAYS[..3] } else { &DELAYS[..] };
    let rates = if extent.quick { &RATES[1..] } else { &RATES[..] };
    let steps = SIZES.len() * (delays.len() + rates.len() + LOSSES.len());
    let mut done = 0;
    let mut report = |what: String| {
        report(f64::from(done) / steps as f64, &what);
        done += 1;
    };
    for &delay_ms in delays {
        for bytes in SIZES {
            report(format!("delay of {delay_ms} ms, packets of {bytes} bytes"));
            // Long delays take long to measure, and matter less.
            let count = match delay_ms {
                100.0.. => 20,
                20.0.. => 60,
                _ => 200,
            };
            let count = if extent.quick { count / 4 } else { count };
            accuracy.delay.push(measure::delay(bed, Way::Emulator, delay_ms, bytes, count)?);
        }
    }
    for &(mbps, queue) in rates {
        for bytes in SIZES {
            report(format!("{mbps} Mbit/s, packets of {bytes} bytes"));
            if bytes == 1518 || mbps <= SMALL_RATE {
                let seconds = extent.seconds(4.0, 1.5);
                accuracy.rate.push(measure::rate(bed, mbps, bytes, queue, seconds)?);
            }
        }
    }
    for probability in LOSSES {
        for bytes in SIZES {
            report(format!("loss of {} %, packets of {bytes} bytes", 100.0 * probability));
            let seconds = extent.seconds(4.0, 1.0);
            accuracy.loss.push(measure::loss(bed, probability, bytes, LOSS_PPS, seconds)?);
        }
    }
    Ok(accuracy)
}

/// How much the emulator carries, with source and sink on the same machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Median round trip without a delay, in milliseconds.
    pub rtt_ms: Repeated,
    /// The largest rate of 64-byte packets per second one way with less than a thousandth lost.
    pub one_way_pps: Repeated,
    /// Packets that arrive per second when as many as possible are sent.
    pub flooded_pps: Repeated,
    /// Round trips of 64-byte packets per second.
    pub round_trips_ps: Repeated,
    /// Goodput of one TCP stream over a link without a limit, in bit/s.
    pub stream_bps: Repeated,
}

/// Share of lost packets below which a rate is stable.
pub const STABLE: f64 = 0.001;
/// Packets in flight when round trips are counted.
const WINDOW: u32 = 256;
/// After a rate with losses, the next one is lower by this factor.
const STEP: f64 = 0.94;

/// Measures the capacity of one way of carrying packets.
///
/// # Errors
/// If something cannot be measured, or the user asked to stop.
pub fn capacity(bed: &Bed<'_>, way: Way, extent: Extent, report: OnStep<'_>) -> Result<Capacity, BedError> {
    let times = extent.times();
    let seconds = extent.seconds(2.0, 1.0);
    let steps = f64::from(5 * times);
    let mut done = 0;
    let mut report = |what: &str| {
        report(f64::from(done) / steps, what);
        done += 1;
    };
    let mut each = |what: &str, one: &mut dyn FnMut() -> Result<f64, BedError>| {
        let values = (0..times).map(|_| {
            report(what);
            one()
        });
        values.collect::<Result<Vec<f64>, _>>().map(Repeated::of)
    };
    let pings = if extent.quick { 50 } else { 150 };
    let flood = |seconds| measure::one_way(bed, way, 0, 64, seconds).map(|one| one.received_pps);
    let rtt_ms = each("round trips of single packets", &mut || {
        Ok(measure::delay(bed, way, 0.0, 64, pings)?.rtt_ms.median)
    })?;
    let flooded_pps = each("a flood of small packets", &mut || flood(seconds))?;
    let one_way_pps = each("the most small packets one way", &mut || {
        let mut pps = flooded_pps.median * 1.1;
        loop {
            let one = measure::one_way(bed, way, pps as u64, 64, seconds)?;
            // A source that does not reach its rate reports the rate it did reach.
            if one.lost < STABLE || pps < 1000.0 {
                return Ok(one.received_pps);
            }
            pps *= STEP;
        }
    })?;
    let round_trips_ps =
        each("round trips of small packets", &mut || Ok(measure::round_trips(bed, way, WINDOW, seconds)?.0))?;
    let stream_bps = each("a TCP stream without a limit", &mut || {
        Ok(measure::stream(bed, way, "cubic", None, seconds)?.bps)
    })?;
    Ok(Capacity { rtt_ms, one_way_pps, flooded_pps, round_trips_ps, stream_bps })
}

/// A stream with BBR over 1 Gbit/s and a round trip of 80 ms; `None` if this kernel has no BBR.
///
/// # Errors
/// If it cannot be measured, or the user asked to stop.
pub fn long_fat(bed: &Bed<'_>, extent: Extent) -> Result<Option<Goodput>, BedError> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !known.is_ok_and(|known| known.split_whitespace().any(|name| name == "bbr")) {
        return Ok(None);
    }
    let seconds = extent.seconds(12.0, 5.0);
    measure::stream(bed, Way::Emulator, "bbr", Some((1000.0, 40.0)), seconds).map(Some)
}
