//! Options of a capacity test: how long, in which direction, and which TCP it emulates. Both ends make their TCP from
//! the same options, which cross the network in a fixed layout.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use warpline_core::parameter::{Choice, OutOfRange};
use warpline_core::{Bytes, Rate, TimeDelta};

use super::bytes::{Reader, Writer};
use warpline_transport::cc::{AckCounting, Algorithm, Controller, ReduceFrom, RenoParams};
use warpline_transport::tcp::{Recovery, RtoVariance, TcpConfig, Window};

/// Bytes of IPv4 and TCP headers without options that count for every segment.
pub const HEADERS: u32 = 40;
/// Smallest segment, in the bytes of [`CapOptions::segment`]: its header and the tool's own must fit.
pub const MIN_SEGMENT: u32 = 128;
/// Largest segment, in the same bytes: what an IPv4 datagram can hold.
pub const MAX_SEGMENT: u32 = 65_507;
/// Shortest test.
pub const MIN_DURATION: TimeDelta = TimeDelta::from_millis(100);
/// Longest test.
pub const MAX_DURATION: TimeDelta = TimeDelta::from_secs(86_400);

/// Who sends the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The client.
    #[default]
    Forward,
    /// The server.
    Reverse,
}

/// Options of a capacity test. The default emulates today's Linux TCP with its default congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct CapOptions {
    /// How long to send data.
    pub duration: TimeDelta,
    /// Who sends the data.
    pub direction: Direction,
    /// Congestion control.
    pub cc: Algorithm,
    /// How lost segments are recovered.
    pub recovery: Recovery,
    /// Bytes of a full packet over IPv4, from the IP header on. Over IPv6 the same data makes a longer packet: [`packet`](Self::packet)
    /// is its size, and [`set_packet`](Self::set_packet) chooses the segment by it. Both ends take the size of their data from this number,
    /// so it means the same at both, also where a translator between them makes one family of the other.
    pub segment: u32,
    /// Window that the receiver advertises, in bytes.
    pub window: u64,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Whether segments carry timestamps.
    pub timestamps: bool,
    /// Whether ECN is used (RFC 3168).
    pub ecn: bool,
    /// RACK, tail loss probes, proportional rate reduction, limited transmit and undo of spurious reductions, as in Linux. Without
    /// them losses are detected by duplicate acknowledgements and RFC 6675, as in 2001.
    pub modern: bool,
    /// Whether slow start counts acknowledgements (RFC 5681) rather than the bytes they acknowledge (RFC 3465).
    pub count_acks: bool,
    /// Whether segments are paced at a multiple of `cwnd / srtt`.
    pub pacing: bool,
    /// First retransmission time-out.
    pub initial_rto: TimeDelta,
    /// Smallest retransmission time-out.
    pub min_rto: TimeDelta,
    /// Largest retransmission time-out.
    pub max_rto: TimeDelta,
    /// Timer granularity; zero for none.
    pub granularity: TimeDelta,
    /// Whether time-outs wait for a heartbeat of that granularity and random phase.
    pub heartbeat: bool,
    /// How long the receiver may delay an acknowledgement; `None` acknowledges every segment.
    pub delayed_ack: Option<TimeDelta>,
    /// Segments that the receiver acknowledges one by one at the start (Linux quick ACKs).
    pub quick_acks: u32,
    /// Upper limit of the sending rate, in wire bytes; a result with it is not a bulk transfer capacity.
    pub max_rate: Option<Rate>,
}

impl Default for CapOptions {
    fn default() -> Self {
        CapOptions {
            duration: TimeDelta::from_secs(10),
            direction: Direction::Forward,
            cc: Algorithm::default(),
            recovery: Recovery::Sack,
            segment: 1500,
            window: 16 << 20,
            initial_window: 10,
            timestamps: true,
            ecn: false,
            modern: true,
            count_acks: false,
            pacing: false,
            initial_rto: TimeDelta::from_secs(1),
            min_rto: TimeDelta::from_millis(200),
            max_rto: TimeDelta::from_secs(120),
            granularity: TimeDelta::ZERO,
            heartbeat: false,
            delayed_ack: Some(TimeDelta::from_millis(40)),
            quick_acks: 16,
            max_rate: None,
        }
    }
}

/// How many bytes longer a packet with the same data is than over IPv4.
const fn longer(ipv6: bool) -> u32 {
    if ipv6 { 20 } else { 0 }
}

/// Checks the size of a full packet on the wire.
fn check_packet(bytes: u32, ipv6: bool) -> Result<(), OptionError> {
    let [least, most] = [MIN_SEGMENT, MAX_SEGMENT].map(|bound| bound + longer(ipv6));
    if (least..=most).contains(&bytes) {
        return Ok(());
    }
    let family = if ipv6 { " over IPv6" } else { "" };
    let allowed = format!("{least} to {most} bytes{family}");
    Err(OptionError { option: "segment", value: bytes.to_string(), allowed })
}

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option} = {value}: must be {allowed}")]
#[non_exhaustive]
pub struct OptionError {
    /// Which option.
    pub option: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl From<OutOfRange> for OptionError {
    fn from(OutOfRange { parameter, value, allowed }: OutOfRange) -> Self {
        OptionError { option: parameter, value: value.to_string(), allowed }
    }
}

impl CapOptions {
    /// The tool that the IPPM drafts describe: Reno with the timers of a BSD of its time (a heartbeat of 500 ms, a first time-out of
    /// 3 s, time-outs between 1 and 64 s), SACK recovery, an initial window of two segments, delayed acknowledgements of 200 ms.
    pub fn classic() -> Self {
        CapOptions {
            cc: Algorithm::Reno(RenoParams::default()),
            window: 200 << 10,
            initial_window: 2,
            modern: false,
            count_acks: true,
            initial_rto: TimeDelta::from_secs(3),
            min_rto: TimeDelta::from_secs(1),
            max_rto: TimeDelta::from_secs(64),
            granularity: TimeDelta::from_millis(500),
            heartbeat: true,
            delayed_ack: Some(TimeDelta::from_millis(200)),
            quick_acks: 0,
            ..CapOptions::default()
        }
    }

    /// Bytes of a full packet on the wire, from the IP header on.
    pub fn packet(&self, ipv6: bool) -> u32 {
        self.segment + longer(ipv6)
    }

    /// Makes full packets this large on the wire, from the IP header on: over IPv6 less of it is data.
    ///
    /// # Errors
    /// If that is too small or too large, with the allowed sizes.
    pub fn set_packet(&mut self, bytes: u32, ipv6: bool) -> Result<(), OptionError> {
        check_packet(bytes, ipv6)?;
        self.segment = bytes - longer(ipv6);
        Ok(())
    }

    /// Checks every option.
    ///
    /// # Errors
    /// The first invalid one, with the allowed values.
    pub fn validate(&self) -> Result<(), OptionError> {
        let check = |ok: bool, option, value: String, allowed: &str| {
            if ok { Ok(()) } else { Err(OptionError { option, value, allowed: allowed.to_owned() }) }
        };
        let within = |span: TimeDelta, least: TimeDelta, most: TimeDelta| least <= span && span <= most;
        let duration = within(self.duration, MIN_DURATION, MAX_DURATION);
        check(duration, "duration", self.duration.to_string(), "100ms to 24h")?;
        if let Some(wrong) = self.cc.faults().into_iter().next() {
            return Err(wrong.into());
        }
        check_packet(self.segment, false)?;
        let hour = TimeDelta::from_secs(3600);
        let tick = TimeDelta::from_millis(1);
        check(
            !self.heartbeat || within(self.granularity, tick, hour),
            "granularity",
            self.granularity.to_string(),
            "1ms to 1h with a heartbeat",
        )?;
        for (option, span) in
            [("initial_rto", self.initial_rto), ("min_rto", self.min_rto), ("max_rto", self.max_rto)]
        {
            check(within(span, tick, hour), option, span.to_string(), "1ms to 1h")?;
        }
        check(
            self.granularity <= self.max_rto,
            "granularity",
            self.granularity.to_string(),
            "at most max_rto",
        )?;
        check(
            (1..=1000).contains(&self.initial_window),
            "initial_window",
            self.initial_window.to_string(),
            "1 to 1000 segments",
        )?;
        let delay = self.delayed_ack.unwrap_or(tick);
        check(
            within(delay, tick, TimeDelta::from_secs(1)),
            "delayed_ack",
            delay.to_string(),
            "1ms to 1s, or none",
        )?;
        Ok(self.tcp(TimeDelta::ZERO).validate()?)
    }

    /// TCP options for the emulated TCP, at either end. `phase` is the heartbeat's, below the granularity.
    pub fn tcp(&self, phase: TimeDelta) -> TcpConfig {
        let sack = self.recovery == Recovery::Sack;
        let default = TcpConfig::default();
        // The classic tool's time-outs are whole ticks: int(3 s / G), ceil(1 s / G), ceil(64 s / G).
        let ticks = |span: TimeDelta, up: bool| {
            let tick = self.granularity.as_nanos();
            if tick == 0 {
                return span;
            }
            let count = if up { span.as_nanos().div_ceil(tick) } else { span.as_nanos() / tick };
            TimeDelta::from_nanos(count.max(1).saturating_mul(tick))
        };
        let max_rto = ticks(self.max_rto, true);
        TcpConfig {
            mss: Bytes(u64::from(self.segment.saturating_sub(HEADERS))),
            initial_window: Window::Segments(f64::from(self.initial_window)),
            recovery: self.recovery,
            sack,
            dsack: sack && self.modern,
            timestamps: self.timestamps,
            ecn: self.ecn,
            // This program's datagrams have no room for it.
            accecn_option: false,
            rack: self.modern,
            tlp: self.modern,
            prr: self.modern,
            limited_transmit: self.modern,
            undo: self.modern,
            nagle: false,
            pacing: self.pacing,
            delayed_ack: self.delayed_ack.unwrap_or_default(),
            quick_acks: self.quick_acks,
            min_rto: ticks(self.min_rto, true),
            max_rto,
            initial_rto: ticks(self.initial_rto, false).min(max_rto),
            tick: self.granularity,
            heartbeat: self.heartbeat,
            heartbeat_phase: phase,
            rto_variance: if self.modern { RtoVariance::Linux } else { RtoVariance::Rfc6298 },
            receive_buffer: Bytes(self.window),
            max_rate: self.max_rate,
            cwnd_validation: self.modern,
            ..default
        }
    }

    /// The congestion control, with the parameters that the other options imply.
    pub fn algorithm(&self) -> Algorithm {
        let mut algorithm = self.cc;
        if let Algorithm::Reno(params) = &mut algorithm {
            if self.count_acks {
                params.slow_start.counting = AckCounting::Acks;
            }
            if !self.modern {
                params.reduce_from = ReduceFrom::Flight;
            }
        }
        algorithm
    }

    pub(super) fn controller(&self, config: &TcpConfig) -> Controller {
        self.algorithm().build(&config.cc_config())
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        let bit = |on: bool, place: u8| u8::from(on) << place;
        out.u8(bit(self.direction == Direction::Reverse, 0)
            | bit(self.timestamps, 1)
            | bit(self.ecn, 2)
            | bit(self.modern, 3)
            | bit(self.count_acks, 4)
            | bit(self.pacing, 5)
            | bit(self.heartbeat, 6));
        out.u8(match self.recovery {
            Recovery::Tahoe => 0,
            Recovery::Reno => 1,
            Recovery::NewReno => 2,
            Recovery::Sack => 3,
        });
        out.u16(self.segment as u16);
        out.u32(self.window.min(u64::from(u32::MAX)) as u32);
        out.u16(self.initial_window as u16);
        out.u16(self.quick_acks.min(u32::from(u16::MAX)) as u16);
        for span in [
            self.duration,
            self.initial_rto,
            self.min_rto,
            self.max_rto,
            self.granularity,
            self.delayed_ack.unwrap_or_default(),
        ] {
            out.u64(span.as_nanos());
        }
        out.u64(self.max_rate.map_or(0, Rate::as_bps));
        let cc = self.cc.to_string();
        let len = cc.len().min(usize::from(u16::MAX));
        out.u16(len as u16);
        out.bytes(&cc.as_bytes()[..len]);
    }

    pub(super) fn read(input: &mut Reader<'_>) -> Option<Self> {
        let flags = input.u8()?;
        let bit = |place: u8| flags >> place & 1 == 1;
        let recovery = match input.u8()? {
            0 => Recovery::Tahoe,
            1 => Recovery::Reno,
            2 => Recovery::NewReno,
            3 => Recovery::Sack,
            _ => return None,
        };
        let segment = u32::from(input.u16()?);
        let window = u64::from(input.u32()?);
        let initial_window = u32::from(input.u16()?);
        let quick_acks = u32::from(input.u16()?);
        let mut spans = [TimeDelta::ZERO; 6];
        for span in &mut spans {
            *span = TimeDelta::from_nanos(input.u64()?);
        }
        let [duration, initial_rto, min_rto, max_rto, granularity, delayed_ack] = spans;
        let max_rate = Some(Rate::from_bps(input.u64()?)).filter(|rate| rate.as_bps() > 0);
        let len = usize::from(input.u16()?);
        let cc = std::str::from_utf8(input.bytes(len)?).ok()?.parse().ok()?;
        let options = CapOptions {
            duration,
            direction: if bit(0) { Direction::Reverse } else { Direction::Forward },
            cc,
            recovery,
            segment,
            window,
            initial_window,
            timestamps: bit(1),
            ecn: bit(2),
            modern: bit(3),
            count_acks: bit(4),
            pacing: bit(5),
            initial_rto,
            min_rto,
            max_rto,
            granularity,
            heartbeat: bit(6),
            delayed_ack: Some(delayed_ack).filter(|delay| !delay.is_zero()),
            quick_acks,
            max_rate,
        };
        options.validate().ok()?;
        Some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_transport::cc::FixedParams;

    #[test]
    fn both_presets_are_valid_and_survive_the_wire() {
        for options in [
            CapOptions::default(),
            CapOptions::classic(),
            CapOptions {
                direction: Direction::Reverse,
                delayed_ack: None,
                max_rate: Some(Rate::from_bps(5_000_000)),
                recovery: Recovery::NewReno,
                cc: "cubic:beta=0.55,hystart=no".parse().unwrap(),
                ..CapOptions::default()
            },
        ] {
            options.validate().unwrap();
            let mut bytes = Vec::new();
            options.write(&mut Writer::new(&mut bytes));
            assert_eq!(CapOptions::read(&mut Reader::new(&bytes)), Some(options));
        }
    }

    #[test]
    fn the_classic_timers_are_whole_ticks() {
        let config = CapOptions::classic().tcp(TimeDelta::from_millis(120));
        assert_eq!(config.initial_rto, TimeDelta::from_secs(3));
        assert_eq!((config.min_rto, config.max_rto), (TimeDelta::from_secs(1), TimeDelta::from_secs(64)));
        let odd = CapOptions { granularity: TimeDelta::from_millis(700), ..CapOptions::classic() };
        let config = odd.tcp(TimeDelta::ZERO);
        assert_eq!(config.initial_rto, TimeDelta::from_millis(2800), "int(3 s / G)");
        assert_eq!(config.min_rto, TimeDelta::from_millis(1400), "ceil(1 s / G)");
    }

    #[test]
    fn packets_are_as_large_over_ipv6_and_carry_less() {
        for (ipv6, data) in [(false, 1448), (true, 1428)] {
            let mut options = CapOptions::default();
            options.set_packet(1500, ipv6).unwrap();
            assert_eq!((options.packet(ipv6), options.tcp(TimeDelta::ZERO).payload()), (1500, data));
            options.validate().unwrap();
        }
        let told = CapOptions::default().set_packet(147, true).unwrap_err().to_string();
        assert_eq!(told, "segment = 147: must be 148 to 65527 bytes over IPv6");
    }

    #[test]
    fn what_cannot_work_is_refused_with_what_is_allowed() {
        let told = |options: CapOptions| options.validate().unwrap_err().to_string();
        assert_eq!(
            told(CapOptions { segment: 100, ..CapOptions::default() }),
            "segment = 100: must be 128 to 65507 bytes"
        );
        assert!(
            told(CapOptions {
                cc: Algorithm::Fixed(FixedParams { segments: -1.0 }),
                ..CapOptions::default()
            })
            .contains("above 0")
        );
        assert!(told(CapOptions { duration: TimeDelta::ZERO, ..CapOptions::default() }).contains("100ms"));
        assert!(told(CapOptions { heartbeat: true, ..CapOptions::default() }).contains("granularity"));
    }
}
