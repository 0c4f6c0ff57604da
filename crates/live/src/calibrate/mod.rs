//! Calibration: how fast and how exact the emulator is on this machine, measured with real packets.
//!
//! - [`bed`]: two hosts and what carries their packets: the emulator, or its ports alone (a floor).
//! - [`measure`]: the measurements, one function each.
//! - [`statistics`]: what is made of repeated ones.
//!
//! [`accuracy`] and [`capacity`] go through what is measured by default. Load comes from processes of its own ([`crate::load`]).

pub mod bed;
pub mod measure;
pub mod statistics;

use serde::{Deserialize, Serialize};

use bed::{Bed, BedError};
use measure::{DelayRow, Goodput, LossRow, RateRow, Way};
use statistics::Repeated;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Less of everything: an impression in a minute.
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

/// Says what is measured next: the share that is done, and in words.
pub type Tell<'a> = &'a mut dyn FnMut(f64, &str);

/// How exact it is: the three tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Delay.
    pub delay: Vec<DelayRow>,
    /// Bandwidth.
    pub rate: Vec<RateRow>,
    /// Loss.
    pub loss: Vec<LossRow>,
}

/// Bytes of the packets that are measured with, on an Ethernet wire.
const SIZES: [u32; 2] = [64, 1518];
/// Delays, in milliseconds.
const DELAYS: [f64; 5] = [0.0, 5.0, 10.0, 50.0, 300.0];
/// Rates in Mbit/s, and packets in the queue in front of each.
const RATES: [(f64, u32); 4] = [(1.0, 20), (10.0, 50), (100.0, 200), (1000.0, 1000)];
/// The largest rate that is measured with small packets, in Mbit/s: there are twenty times as many of them.
const SMALL_RATE: f64 = 100.0;
/// Loss probabilities, and packets a second by which they are measured.
const LOSSES: [f64; 3] = [0.001, 0.01, 0.1];
const LOSS_PPS: u32 = 20_000;

/// Measures the three tables.
///
/// # Errors
/// If something cannot be measured, or somebody asked to stop.
pub fn accuracy(bed: &Bed<'_>, extent: Extent, tell: Tell<'_>) -> Result<Accuracy, BedError> {
    let mut accuracy = Accuracy::default();
    let delays = if extent.quick { &DELAYS[..3] } else { &DELAYS[..] };
    let rates = if extent.quick { &RATES[1..] } else { &RATES[..] };
    let steps = SIZES.len() * (delays.len() + rates.len() + LOSSES.len());
    let mut done = 0;
    let mut tell = |what: String| {
        tell(f64::from(done) / steps as f64, &what);
        done += 1;
    };
    for &delay_ms in delays {
        for bytes in SIZES {
            tell(format!("delay of {delay_ms} ms, packets of {bytes} bytes"));
            // Long delays take long, and matter less.
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
            tell(format!("{mbps} Mbit/s, packets of {bytes} bytes"));
            if bytes == 1518 || mbps <= SMALL_RATE {
                let seconds = extent.seconds(4.0, 1.5);
                accuracy.rate.push(measure::rate(bed, mbps, bytes, queue, seconds)?);
            }
        }
    }
    for probability in LOSSES {
        for bytes in SIZES {
            tell(format!("loss of {} %, packets of {bytes} bytes", 100.0 * probability));
            let seconds = extent.seconds(4.0, 1.0);
            accuracy.loss.push(measure::loss(bed, probability, bytes, LOSS_PPS, seconds)?);
        }
    }
    Ok(accuracy)
}

/// How much it carries, with source and sink on the same machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Median round trip without a delay, in milliseconds.
    pub rtt_ms: Repeated,
    /// The most 64-byte packets a second one way of which less than a thousandth is lost.
    pub one_way_pps: Repeated,
    /// Packets that arrive in a second when as many as can be are sent.
    pub flooded_pps: Repeated,
    /// Round trips of 64-byte packets in a second.
    pub round_trips_ps: Repeated,
    /// Goodput of one TCP stream over a link without a limit, in bit/s.
    pub stream_bps: Repeated,
}

/// Share of lost packets below which a rate is stable.
pub const STABLE: f64 = 0.001;
/// Round trips under way.
const WINDOW: u32 = 256;
/// A rate that was lost at is followed by one that is less by this factor.
const STEP: f64 = 0.94;

/// Measures what a way carries.
///
/// # Errors
/// If something cannot be measured, or somebody asked to stop.
pub fn capacity(bed: &Bed<'_>, way: Way, extent: Extent, tell: Tell<'_>) -> Result<Capacity, BedError> {
    let times = extent.times();
    let seconds = extent.seconds(2.0, 1.0);
    let steps = f64::from(5 * times);
    let mut done = 0;
    let mut tell = |what: &str| {
        tell(f64::from(done) / steps, what);
        done += 1;
    };
    let mut each = |what: &str, one: &mut dyn FnMut() -> Result<f64, BedError>| {
        let values = (0..times).map(|_| {
            tell(what);
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
            // A source that does not reach its rate shows what it did reach.
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

/// A stream with BBR over 1 Gbit/s and a round trip of 80 ms; none where this kernel has no BBR.
///
/// # Errors
/// If it cannot be measured, or somebody asked to stop.
pub fn long_fat(bed: &Bed<'_>, extent: Extent) -> Result<Option<Goodput>, BedError> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !known.is_ok_and(|known| known.split_whitespace().any(|name| name == "bbr")) {
        return Ok(None);
    }
    let seconds = extent.seconds(12.0, 5.0);
    measure::stream(bed, Way::Emulator, "bbr", Some((1000.0, 40.0)), seconds).map(Some)
}
