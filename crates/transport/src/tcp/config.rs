//! The options of one TCP endpoint, each with its source, so that the TCP of any decade can be built.

use thiserror::Error;
use warpline_core::{Rate, TimeDelta};

use crate::cc::CcConfig;

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LossRecovery {
    /// Fast retransmit, then slow start from one segment (Jacobson 1988).
    Tahoe,
    /// Fast recovery that ends with the first new acknowledgement (RFC 5681 section 3.2).
    Reno,
    /// Fast recovery that repairs one loss per round trip on partial acknowledgements (RFC 6582).
    NewReno,
    /// Recovery from selective acknowledgements (RFC 6675, and RFC 8985 where `rack` is on). NewReno when the other side
    /// does not permit SACK.
    #[default]
    Sack,
}

/// The window a connection starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialWindow {
    /// Full segments.
    Segments(u32),
    /// Payload bytes.
    Bytes(u64),
}

/// How the variance term of the retransmission time-out is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum RtoVariance {
    /// RFC 6298 section 2 to the letter; `min_rto` bounds the whole time-out.
    Rfc6298,
    /// Linux `tcp_rtt_estimator`: the largest mean deviation of each round trip, falling a quarter per round trip; `min_rto`
    /// bounds the variance term, so that the time-out is at least `srtt + min_rto`.
    #[default]
    Linux,
}

/// The options of one TCP endpoint. The default is a modern Linux-like stack.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Largest segment in bytes without options counted (RFC 9293 section 3.7.1): 1460 makes 1500-byte packets. With
    /// timestamps in use the payload of a full segment is 12 bytes less.
    pub mss: u32,
    /// Initial congestion window (RFC 6928: ten segments).
    pub initial_window: InitialWindow,
    /// Initial slow-start threshold in bytes; `None` leaves it unset.
    pub initial_ssthresh: Option<u64>,
    /// How losses are repaired.
    pub recovery: LossRecovery,
    /// Whether selective acknowledgements are offered and sent (RFC 2018).
    pub sack: bool,
    /// Whether duplicates are reported by D-SACK (RFC 2883).
    pub dsack: bool,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: bool,
    /// Whether window scaling is offered (RFC 7323). Without it the window is at most 65535 bytes.
    pub window_scaling: bool,
    /// Whether ECN is negotiated (RFC 3168).
    pub ecn: bool,
    /// Whether losses are found by time (RFC 8985 section 6); needs SACK.
    pub rack: bool,
    /// Whether the tail is probed before a time-out (RFC 8985 section 7); needs SACK.
    pub tlp: bool,
    /// Whether the window is approached by proportional rate reduction (RFC 6937, RFC 9937).
    pub prr: bool,
    /// Whether the first duplicate acknowledgements let new segments out (RFC 3042).
    pub limited_transmit: bool,
    /// Whether reductions are undone when the retransmission proves spurious: Eifel by timestamps (RFC 3522, RFC 4015) and
    /// D-SACK (RFC 3708).
    pub undo: bool,
    /// Whether small segments wait while one is unacknowledged (RFC 896, in Minshall's form as in Linux).
    pub nagle: bool,
    /// Whether segments are paced at a multiple of `cwnd / srtt`, as Linux `sk_pacing_rate`. Algorithms that give a pacing
    /// rate of their own are paced in any case.
    pub pacing: bool,
    /// Multiple of `cwnd / srtt` to pace at in slow start.
    pub pacing_gain_slow_start: f64,
    /// Multiple of `cwnd / srtt` to pace at in congestion avoidance.
    pub pacing_gain: f64,
    /// How long an acknowledgement may wait (RFC 5681 section 4.2); `None` acknowledges every segment at once.
    pub delayed_ack: Option<TimeDelta>,
    /// Full segments after which a delayed acknowledgement is sent at once.
    pub delayed_ack_segments: u32,
    /// Segments at the start that are acknowledged one by one (Linux quick ACKs).
    pub quick_acks: u32,
    /// Smallest retransmission time-out.
    pub min_rto: TimeDelta,
    /// Largest retransmission time-out, and largest back-off.
    pub max_rto: TimeDelta,
    /// Retransmission time-out before the first RTT sample (RFC 6298 section 2.1).
    pub initial_rto: TimeDelta,
    /// Clock granularity that time-outs are rounded up to; zero for none.
    pub rto_granularity: TimeDelta,
    /// Phase of a heartbeat with period `rto_granularity`, counted from the run's start. With one, time-outs end at a
    /// beat, as in BSD's slow timer: a time-out of n ticks lasts for the rest of the present tick and n - 1 more.
    /// Without one, it counts from when it is set.
    pub heartbeat: Option<TimeDelta>,
    /// How the variance is kept.
    pub rto_variance: RtoVariance,
    /// Retransmissions of a SYN or SYN/ACK before the connection is given up.
    pub syn_retries: u32,
    /// Consecutive time-outs without progress before the connection is given up.
    pub data_retries: u32,
    /// Receive buffer in bytes: the window offered when it is empty, rounded down to the window scale.
    pub receive_buffer: u64,
    /// Bytes the application may write ahead of acknowledgements; `None` for no bound.
    pub send_buffer: Option<u64>,
    /// Upper bound of the congestion window in bytes: a flow limited to a window.
    pub max_window_clamp: Option<u64>,
    /// Upper bound of the sending rate, on wire bytes: a flow limited to a rate.
    pub max_rate: Option<Rate>,
    /// Duplicate acknowledgements that show a loss (RFC 5681 section 3.2).
    pub dupack_threshold: u32,
    /// Whether the window may grow only while it limits sending (RFC 7661 in Linux's form).
    pub cwnd_validation: bool,
    /// Whether congestion control learns of idle periods that are longer than the time-out (RFC 5681 section 4.1).
    pub idle_restart: bool,
    /// Segments that are sent together while the window is below this many: 1 or 2. TCP Nice sends pairs, so that a
    /// receiver that delays acknowledgements answers at once. Between two bursts, `small_window_burst * mss / cwnd *
    /// srtt` passes.
    pub small_window_burst: u32,
    /// How long TIME-WAIT lasts. Far below RFC 9293's four minutes, since no port is used again here while old
    /// segments are under way.
    pub time_wait: TimeDelta,
    /// How long a closed endpoint waits in FIN-WAIT-2 without hearing anything (Linux `tcp_fin_timeout`).
    pub fin_timeout: TimeDelta,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            mss: 1460,
            initial_window: InitialWindow::Segments(10),
            initial_ssthresh: None,
            recovery: LossRecovery::Sack,
            sack: true,
            dsack: true,
            timestamps: true,
            window_scaling: true,
            ecn: false,
            rack: true,
            tlp: true,
            prr: true,
            limited_transmit: true,
            undo: true,
            nagle: true,
            pacing: false,
            pacing_gain_slow_start: 2.0,
            pacing_gain: 1.2,
            delayed_ack: Some(TimeDelta::from_millis(40)),
            delayed_ack_segments: 2,
            quick_acks: 0,
            min_rto: TimeDelta::from_millis(200),
            max_rto: TimeDelta::from_secs(120),
            initial_rto: TimeDelta::from_secs(1),
            rto_granularity: TimeDelta::ZERO,
            heartbeat: None,
            rto_variance: RtoVariance::Linux,
            syn_retries: 6,
            data_retries: 15,
            receive_buffer: 32 << 20,
            send_buffer: None,
            max_window_clamp: None,
            max_rate: None,
            dupack_threshold: 3,
            cwnd_validation: true,
            idle_restart: true,
            small_window_burst: 1,
            time_wait: TimeDelta::from_secs(1),
            fin_timeout: TimeDelta::from_secs(60),
        }
    }
}

/// Why a [`TcpConfig`] cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{key} = {value} is out of range: {allowed}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The option.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
}

/// Largest receive window that window scaling can express (RFC 7323 section 2.3: shift 14).
const MAX_WINDOW: u64 = 65_535 << 14;

impl TcpConfig {
    /// Bytes of payload in a full segment if the other side agrees to timestamps and has at least this MSS.
    pub fn payload(&self) -> u64 {
        u64::from(self.mss.saturating_sub(if self.timestamps { 12 } else { 0 }).max(1))
    }

    /// What the congestion control of an endpoint with these options is built from.
    pub fn cc_config(&self) -> CcConfig {
        let mss = self.payload();
        CcConfig {
            mss,
            initial_window: match self.initial_window {
                InitialWindow::Segments(n) => u64::from(n) * mss,
                InitialWindow::Bytes(bytes) => bytes,
            },
            initial_ssthresh: self.initial_ssthresh.unwrap_or(u64::MAX),
        }
    }

    /// Checks every option.
    ///
    /// # Errors
    /// The first one that cannot work, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, key: &'static str, value: String, allowed: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError { key, value, allowed }) }
        };
        check((64..=65_495).contains(&self.mss), "mss", self.mss.to_string(), "64 to 65495 bytes")?;
        let window = self.cc_config().initial_window;
        check(window > 0, "initial_window", window.to_string(), "at least one byte")?;
        check(
            (1..=MAX_WINDOW).contains(&self.receive_buffer),
            "receive_buffer",
            self.receive_buffer.to_string(),
            "1 to 1073725440 bytes (a 16-bit window scaled by 14)",
        )?;
        check(
            self.send_buffer != Some(0),
            "send_buffer",
            "0".into(),
            "at least one byte, or none for no bound",
        )?;
        check(
            self.max_window_clamp != Some(0),
            "max_window_clamp",
            "0".into(),
            "at least one byte, or none for no bound",
        )?;
        check(
            self.max_rate.is_none_or(|rate| rate.as_bps() > 0),
            "max_rate",
            "0".into(),
            "above zero, or none for no bound",
        )?;
        check(
            self.small_window_burst == 1 || self.small_window_burst == 2,
            "small_window_burst",
            self.small_window_burst.to_string(),
            "1 or 2 segments",
        )?;
        check(
            self.dupack_threshold >= 1,
            "dupack_threshold",
            self.dupack_threshold.to_string(),
            "at least 1",
        )?;
        check(
            self.delayed_ack_segments >= 1,
            "delayed_ack_segments",
            self.delayed_ack_segments.to_string(),
            "at least 1",
        )?;
        check(
            self.min_rto <= self.max_rto && self.initial_rto <= self.max_rto && !self.max_rto.is_zero(),
            "max_rto",
            self.max_rto.to_string(),
            "above zero and at least min_rto and initial_rto",
        )?;
        check(
            self.heartbeat.is_none() || !self.rto_granularity.is_zero(),
            "heartbeat",
            self.heartbeat.unwrap_or_default().to_string(),
            "none, unless rto_granularity is above zero",
        )?;
        check(!self.initial_rto.is_zero(), "initial_rto", "0s".into(), "above zero")?;
        for (key, gain) in
            [("pacing_gain", self.pacing_gain), ("pacing_gain_slow_start", self.pacing_gain_slow_start)]
        {
            check(gain > 0.0, key, gain.to_string(), "above zero")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_makes_1500_byte_packets() {
        let config = TcpConfig::default();
        config.validate().unwrap();
        assert_eq!(config.payload(), 1448);
        assert_eq!(config.cc_config().initial_window, 14_480);
        assert_eq!(config.cc_config().initial_ssthresh, u64::MAX);
    }

    #[test]
    fn what_cannot_work_is_refused_with_what_is_allowed() {
        let text = |config: TcpConfig| config.validate().unwrap_err().to_string();
        assert_eq!(
            text(TcpConfig { mss: 10, ..TcpConfig::default() }),
            "mss = 10 is out of range: 64 to 65495 bytes"
        );
        assert!(
            text(TcpConfig { small_window_burst: 3, ..TcpConfig::default() }).contains("1 or 2 segments")
        );
        assert!(text(TcpConfig { receive_buffer: 0, ..TcpConfig::default() }).contains("receive_buffer"));
        let late = TcpConfig { min_rto: TimeDelta::from_secs(200), ..TcpConfig::default() };
        assert!(text(late).contains("max_rto"));
        let beat = TcpConfig { heartbeat: Some(TimeDelta::from_millis(200)), ..TcpConfig::default() };
        assert_eq!(
            text(beat),
            "heartbeat = 200ms is out of range: none, unless rto_granularity is above zero"
        );
        let still = TcpConfig { pacing_gain_slow_start: 0.0, ..TcpConfig::default() };
        assert_eq!(text(still), "pacing_gain_slow_start = 0 is out of range: above zero");
    }
}
