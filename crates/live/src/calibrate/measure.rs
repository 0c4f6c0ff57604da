//! The measurements of calibration, one function each: the set-up, the load, and how its output becomes a result.

use serde::{Deserialize, Serialize};
use warpline_core::{NodeId, Rate, TimeDelta};
use warpline_net::loss::{BernoulliParams, LossKind};
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::{LinkConfig, RateConfig};

use super::bed::{Bed, BedError, Emulated, PORT};
use super::statistics::Sample;
use crate::emulator::EmulatorConfig;
use crate::load::{Returned, Sent, Streamed, Trips};

/// What carries the packets of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The emulator.
    Emulator,
    /// The emulator's ports, with nothing between them.
    Ports,
    /// Two TUN devices, with nothing between them.
    Tun,
    /// A veth pair, and no program at all.
    Veth,
}

/// Round trips over one delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelayRow {
    /// Delay of each direction, in milliseconds.
    pub delay_ms: f64,
    /// Bytes of a packet on an Ethernet wire; from the IP header on 18 less, except for the smallest.
    pub bytes: u32,
    /// Round trips in milliseconds, from before the send to the kernel's timestamp of the answer.
    pub rtt_ms: Sample,
    /// Median in milliseconds of the same up to the moment when the measuring program had the answer.
    pub seen_ms: f64,
    /// Pings without an answer.
    pub lost: u64,
    /// Whether the emulator kept pace.
    pub kept_pace: bool,
}

/// Result of a bandwidth measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// The link's rate, in Mbit/s.
    pub mbps: f64,
    /// Bytes of a packet on an Ethernet wire.
    pub bytes: u32,
    /// Measured rate in Mbit/s, by the kernel's timestamps at the sink.
    pub seen_mbps: f64,
    /// Measured rate over the link's rate, minus one.
    pub error: f64,
    /// Packets that the queue holds.
    pub queue_packets: u32,
    /// How long this many packets take at this rate, in milliseconds.
    pub full_queue_ms: f64,
    /// The median transit time of packets, in milliseconds; the queue is full.
    pub under_way_ms: f64,
    /// Whether the emulator kept pace, and the source too, so that the queue was never empty.
    pub kept_pace: bool,
}

/// Result of a loss measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossRow {
    /// The link's loss probability.
    pub probability: f64,
    /// Bytes of a packet on an Ethernet wire.
    pub bytes: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// The difference from the expected value, in standard deviations of the binomial distribution.
    pub deviations: f64,
    /// Packets lost outside the emulated link, included in `lost`.
    pub lost_outside: u64,
}

/// Result of sending datagrams one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWay {
    /// Packets sent per second.
    pub sent_pps: f64,
    /// Packets that arrived per second.
    pub received_pps: f64,
    /// Share that did not arrive.
    pub lost: f64,
    /// Packets that the emulator lost: its rings or its memory were full, or the kernel refused them.
    pub lost_in_emulator: u64,
    /// Share of a core that the emulator used.
    pub cpu: f64,
}

/// Goodput of a stream, in bit/s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// From its first byte to its last.
    pub bps: f64,
    /// In the median second, without the first seconds, in which the congestion control searches for its rate; `None` for short streams.
    pub steady_bps: Option<f64>,
    /// Whether the emulator kept pace.
    pub kept_pace: bool,
}

/// Seconds in which a stream searches for its rate.
const START_S: usize = 2;
/// Bytes that TCP may buffer to send and to receive: Linux's own limits, which are more than the fastest and longest link holds.
const USUAL: [u32; 2] = [4 << 20, 6 << 20];
const WIDE: [u32; 2] = [64 << 20, 64 << 20];

/// Bytes from the IP header on of a packet with this size on an Ethernet wire, check sequence included. The smallest size counts unchanged,
/// as in the measurements that these are compared with.
fn ip_bytes(bytes: u32) -> u32 {
    if bytes > 64 { bytes - 18 } else { bytes }
}

/// A link without rate, delay or loss.
fn plain() -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Unlimited,
        qdisc: QdiscConfig::drop_tail(QueueLimit::Unlimited),
        ..LinkConfig::new("link", NodeId(0), NodeId(1))
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn emulated<T: serde::de::DeserializeOwned>(
    bed: &Bed<'_>,
    links: [&LinkConfig; 2],
    sink: &str,
    source: &str,
) -> Result<(T, Emulated), BedError> {
    let sink = if sink.is_empty() { Vec::new() } else { words(sink) };
    bed.emulated(links, EmulatorConfig::default(), &sink, &words(source))
}

/// Measures over a link without rate, delay or loss, carried in the given way.
fn carried<T: serde::de::DeserializeOwned>(
    bed: &Bed<'_>,
    way: Way,
    sink: &str,
    source: &str,
) -> Result<(T, Emulated), BedError> {
    match way {
        Way::Emulator => emulated(bed, [&plain(), &plain()], sink, source),
        way => {
            let (sink, source) = (if sink.is_empty() { Vec::new() } else { words(sink) }, words(source));
            let measured = match way {
                Way::Tun => bed.tunnelled(&sink, &source)?,
                Way::Veth => bed.wired(&sink, &source)?,
                Way::Ports | Way::Emulator => bed.forwarded(&sink, &source)?,
            };
            Ok((measured, Emulated::default()))
        }
    }
}

/// Round trips of `count` packets.
///
/// # Errors
/// If they cannot be measured.
pub fn delay(bed: &Bed<'_>, way: Way, delay_ms: f64, bytes: u32, count: u32) -> Result<DelayRow, BedError> {
    let link = LinkConfig { delay: TimeDelta::from_secs_f64(delay_ms / 1e3), ..plain() };
    let source = format!("echo {} {count} 2000 {}", bed.sink(), ip_bytes(bytes));
    let (trips, emulated): (Trips, Emulated) = match way {
        Way::Emulator => emulated(bed, [&link, &link], "", &source)?,
        _ => carried(bed, way, "", &source)?,
    };
    let millis = |nanos: &Vec<u64>| Sample::of(nanos.iter().map(|&nanos| nanos as f64 / 1e6));
    Ok(DelayRow {
        delay_ms,
        bytes,
        rtt_ms: millis(&trips.stamped),
        seen_ms: millis(&trips.seen).median,
        lost: trips.lost,
        kept_pace: emulated.audit.summary.kept_pace(),
    })
}

/// The throughput of a link with a rate when more is sent than fits, for `seconds`.
///
/// # Errors
/// If it cannot be measured.
pub fn rate(bed: &Bed<'_>, mbps: f64, bytes: u32, queue: u32, seconds: f64) -> Result<RateRow, BedError> {
    let size = ip_bytes(bytes);
    let link = LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps((mbps * 1e6) as u64)),
        qdisc: QdiscConfig::drop_tail(QueueLimit::Packets(queue)),
        ..plain()
    };
    let packet_s = f64::from(size) * 8.0 / (mbps * 1e6);
    // Five percent more than fits keeps the queue full once it has been filled.
    let rate = (1.05 / packet_s).ceil();
    let source = format!("udp {}:{PORT} {seconds} {rate} {size} {}", bed.sink(), queue + 10);
    let (sent, emulated): (Sent, _) =
        emulated(bed, [&link, &plain()], &format!("udp-sink {PORT} stamps"), &source)?;
    let under_way_s = sent.sunk.under_way_us.map(|times| times.map(|micros| micros / 1e6));
    // Without a queue, the transit takes the time of the packet itself.
    let filled = under_way_s.is_some_and(|[least, ..]| least >= 2.0 * packet_s);
    let seen_mbps = sent.sunk.spacing_ns.map_or(f64::NAN, |spacing| f64::from(size) * 8.0 / spacing * 1e3);
    Ok(RateRow {
        mbps,
        bytes,
        seen_mbps,
        error: seen_mbps / mbps - 1.0,
        queue_packets: queue,
        full_queue_ms: f64::from(queue) * packet_s * 1e3,
        under_way_ms: under_way_s.map_or(f64::NAN, |[_, median, _]| median * 1e3),
        kept_pace: filled && emulated.audit.summary.kept_pace(),
    })
}

/// How many of the packets sent in `seconds` a link loses.
///
/// # Errors
/// If it cannot be measured.
pub fn loss(
    bed: &Bed<'_>,
    probability: f64,
    bytes: u32,
    pps: u32,
    seconds: f64,
) -> Result<LossRow, BedError> {
    let loss = LossKind::Bernoulli(BernoulliParams { probability, longest: None }).into();
    // Random draws depend on the link's name: a different sample for each row.
    let link = LinkConfig { loss, name: format!("{bytes} bytes at {probability}"), ..plain() };
    let source = format!("udp {}:{PORT} {seconds} {pps} {} 0", bed.sink(), ip_bytes(bytes));
    let (sent, emulated): (Sent, _) = emulated(bed, [&link, &plain()], &format!("udp-sink {PORT}"), &source)?;
    let lost = sent.packets.saturating_sub(sent.sunk.packets);
    Ok(LossRow {
        probability,
        bytes,
        sent: sent.packets,
        lost,
        deviations: super::statistics::binomial_deviations(lost, sent.packets, probability),
        lost_outside: lost.saturating_sub(emulated.links[0].drops_loss),
    })
}

/// Datagrams one way, `pps` per second; 0 for as many as possible.
///
/// # Errors
/// If it cannot be measured.
pub fn one_way(bed: &Bed<'_>, way: Way, pps: u64, bytes: u32, seconds: f64) -> Result<OneWay, BedError> {
    let source = format!("udp {}:{PORT} {seconds} {pps} {} 0", bed.sink(), ip_bytes(bytes));
    let (sent, emulated): (Sent, _) = carried(bed, way, &format!("udp-sink {PORT}"), &source)?;
    let received = sent.sunk.packets as f64;
    Ok(OneWay {
        sent_pps: sent.packets as f64 / sent.seconds,
        received_pps: received / sent.seconds,
        lost: 1.0 - received / sent.packets.max(1) as f64,
        lost_in_emulator: emulated.audit.summary.lost_outside,
        cpu: emulated.audit.summary.cpu_share,
    })
}

/// Round trips per second with `window` small packets in flight, and the share that was lost.
///
/// # Errors
/// If it cannot be measured.
pub fn round_trips(bed: &Bed<'_>, way: Way, window: u32, seconds: f64) -> Result<(f64, f64), BedError> {
    let source = format!("return {}:{PORT} {seconds} {window}", bed.sink());
    let (returned, _): (Returned, _) = carried(bed, way, &format!("udp-sink {PORT}"), &source)?;
    let lost = returned.packets.saturating_sub(returned.returned + u64::from(window)) as f64;
    Ok((returned.returned as f64 / returned.seconds, lost / returned.packets.max(1) as f64))
}

/// Goodput of one TCP stream, over a link without a limit or of `mbps` with `delay_ms` each way and a queue of one
/// bandwidth-delay product.
///
/// # Errors
/// If it cannot be measured.
pub fn stream(
    bed: &Bed<'_>,
    way: Way,
    control: &str,
    limit: Option<(f64, f64)>,
    seconds: f64,
) -> Result<Goodput, BedError> {
    bed.limit_windows(if limit.is_some() { WIDE } else { USUAL })?;
    let source = format!("tcp {}:{PORT} {seconds} 0 {control}", bed.sink());
    let sink = format!("tcp-sink {PORT}");
    let (streamed, emulated): (Streamed, _) = match limit {
        None => carried(bed, way, &sink, &source)?,
        Some((mbps, delay_ms)) => {
            let packets = mbps * 1e6 * 2.0 * delay_ms / 1e3 / 8.0 / 1500.0;
            let link = LinkConfig {
                rate: RateConfig::Constant(Rate::from_bps((mbps * 1e6) as u64)),
                delay: TimeDelta::from_secs_f64(delay_ms / 1e3),
                qdisc: QdiscConfig::drop_tail(QueueLimit::Packets(packets.ceil() as u32)),
                ..plain()
            };
            self::emulated(bed, [&link, &link], &sink, &source)?
        }
    };
    let steady: Vec<f64> = streamed
        .tenths
        .chunks_exact(10)
        .skip(START_S)
        .map(|second| second.iter().sum::<u64>() as f64 * 8.0)
        .collect();
    Ok(Goodput {
        bps: streamed.bytes as f64 * 8.0 / streamed.seconds,
        steady_bps: (!steady.is_empty()).then(|| Sample::of(steady).median),
        kept_pace: emulated.audit.summary.kept_pace(),
    })
}
