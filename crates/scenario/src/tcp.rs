//! TCP options, and presets: values that make up the TCP of a certain system or decade.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{BitRate, Size, Time, Window};
use warpline_core::{Bytes, TimeDelta};

/// How a sender recovers from loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Fast retransmit, then slow start from one segment (Jacobson 1988).
    Tahoe,
    /// Fast retransmit and fast recovery, left at the first new ACK (Jacobson 1990, RFC 2581).
    Reno,
    /// Fast recovery that goes on through partial ACKs (RFC 6582).
    Newreno,
    /// Recovery from the SACK scoreboard (RFC 6675); needs `sack` at both ends, else as newreno.
    Sack,
}

/// How the variance of the RTT enters the retransmission time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoVariance {
    /// Exactly as RFC 6298; `min_rto` bounds the whole time-out.
    Rfc6298,
    /// As Linux: the largest deviation within each round trip, which decays slowly. `min_rto` bounds the variance term, so the
    /// time-out is at least the smoothed RTT plus `min_rto`.
    Linux,
}

/// A set of values for the TCP options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpPreset {
    /// As Linux does today: SACK, DSACK, timestamps, window scaling, RACK-TLP, PRR, limited transmit, undo, initial window 10,
    /// delayed ACKs of 40 ms, smallest RTO 200 ms. The default.
    Modern,
    /// 4.3BSD-Tahoe: no options at all, a 500 ms clock, initial window 1.
    #[serde(rename = "1988-tahoe")]
    Tahoe1988,
    /// 4.3BSD-Reno: as 1988-tahoe with fast recovery.
    #[serde(rename = "1990-reno")]
    Reno1990,
    /// NewReno of 1999 (RFC 2582): partial ACKs, limited transmit, initial window 2.
    #[serde(rename = "1999-newreno")]
    Newreno1999,
    /// ns-2's Agent/TCP/Sack1 with a delayed-ACK sink as it is usually run: SACK, limited transmit (`singledup_`), no timestamps,
    /// no undo, no RACK, initial window 2, delayed ACK 100 ms, smallest RTO 200 ms, unlimited window.
    #[serde(rename = "ns2-sack1")]
    Ns2Sack1,
}

/// Options of a TCP endpoint. An option that is not given comes from the host, then the scenario's `[tcp]`, then the preset "modern".
///
/// A preset sets many options. Options given beside it override it, and everything given at an inner level (flow) overrides the
/// outer levels (host, scenario), also a preset. A flow's options hold for both of its ends; a host's options hold for the
/// connections that end there.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpOptions {
    /// A set of values for the options; an option given beside it overrides it.
    #[schemars(example = &"1990-reno")]
    pub preset: Option<TcpPreset>,
    /// How the sender recovers from loss. modern: sack.
    pub recovery: Option<Recovery>,
    /// Selective acknowledgements (RFC 2018). modern: true.
    pub sack: Option<bool>,
    /// Duplicate SACKs from the receiver (RFC 2883). modern: true.
    pub dsack: Option<bool>,
    /// Timestamps (RFC 7323); they take 12 bytes of every segment. modern: true.
    pub timestamps: Option<bool>,
    /// Window scaling (RFC 7323); without it no window can exceed 65535 bytes. modern: true.
    pub window_scaling: Option<bool>,
    /// Explicit congestion notification (RFC 3168). modern: false.
    pub ecn: Option<bool>,
    /// Time-based loss detection (RACK, RFC 8985); needs `sack`. modern: true.
    pub rack: Option<bool>,
    /// Tail loss probes (RFC 8985 section 7); needs `sack`. modern: true.
    pub tlp: Option<bool>,
    /// Proportional rate reduction in recovery (RFC 6937). modern: true.
    pub prr: Option<bool>,
    /// Send new data on the first two duplicate ACKs (RFC 3042). modern: true.
    pub limited_transmit: Option<bool>,
    /// Undo the effects of spurious retransmissions, found by timestamps (Eifel, RFC 3522) or DSACK. modern: true.
    pub undo: Option<bool>,
    /// Nagle's algorithm (RFC 896): at most one small segment in flight. modern: true.
    pub nagle: Option<bool>,
    /// Spread a window's segments over the RTT. modern: false (a window below one segment is always paced).
    pub pacing: Option<bool>,
    /// Pacing rate in congestion avoidance, as a multiple of the window per RTT. modern: 1.2.
    pub pacing_gain: Option<f64>,
    /// Pacing rate in slow start, as a multiple of the window per RTT. modern: 2.
    pub pacing_gain_slow_start: Option<f64>,
    /// Segments sent together while the window is smaller than this, 1 or 2. TCP Nice sends pairs, so that a receiver that
    /// delays acknowledgements answers at once. modern: 1.
    #[schemars(range(min = 1, max = 2))]
    pub small_window_burst: Option<u32>,
    /// Whether the window may grow only while it limits sending (RFC 7661). modern: true.
    pub cwnd_validation: Option<bool>,
    /// How long an acknowledgement may be delayed; 0s acknowledges every segment at once. modern: 40ms.
    #[schemars(example = &"40ms")]
    pub delayed_ack: Option<Time>,
    /// Number of full segments after which an acknowledgement is sent at once. modern: 2.
    #[schemars(range(min = 1, max = 64))]
    pub delayed_ack_segments: Option<u32>,
    /// Number of segments at the start of a connection that are acknowledged one by one (Linux quick ACKs). modern: 0.
    pub quick_acks: Option<u32>,
    /// Smallest retransmission time-out (1s in RFC 6298, 200ms in Linux). modern: 200ms.
    #[schemars(example = &"200ms")]
    pub min_rto: Option<Time>,
    /// Largest retransmission time-out. modern: 120s.
    #[schemars(example = &"120s")]
    pub max_rto: Option<Time>,
    /// Retransmission time-out before the first RTT sample. modern: 1s.
    #[schemars(example = &"1s")]
    pub initial_rto: Option<Time>,
    /// Granularity of the retransmission timer: time-outs are rounded up to a multiple of it; 0s for none. modern: 0s; BSD: 500ms.
    #[schemars(example = &"500ms")]
    pub tick: Option<Time>,
    /// Whether time-outs end with a beat of a clock of period `tick` (BSD's slow timer), so that a time-out of n ticks ends with the n-th beat.
    /// Each flow's clock has a random phase. modern: false, so that a time-out lasts whole ticks from when it was set.
    pub heartbeat: Option<bool>,
    /// How the variance of the RTT enters the retransmission time-out. modern: linux.
    pub rto_variance: Option<RtoVariance>,
    /// Retransmissions of a SYN before the connection fails. modern: 6.
    pub syn_retries: Option<u32>,
    /// Consecutive time-outs before the connection fails. modern: 15.
    pub data_retries: Option<u32>,
    /// Initial congestion window, in segments or bytes. modern: 10p (RFC 6928).
    #[schemars(example = &"10p")]
    pub initial_window: Option<Window>,
    /// Initial slow-start threshold. modern: none, so that slow start lasts until the first loss.
    #[schemars(example = &"20p")]
    pub initial_ssthresh: Option<Window>,
    /// Receive buffer: the largest window that is advertised. modern: 32MiB.
    #[schemars(example = &"256KiB")]
    pub receive_buffer: Option<Size>,
    /// Send buffer: how much the application may have written that is not yet acknowledged. modern: no bound.
    #[schemars(example = &"256KiB")]
    pub send_buffer: Option<Size>,
    /// Maximum segment size as announced in the SYN: the payload of a segment without options. A full packet has 40 bytes more;
    /// timestamps take 12 bytes of the payload (RFC 6691). modern: 1460B.
    #[schemars(example = &"1460B")]
    pub mss: Option<Size>,
    /// Whether the window restarts from the initial one after an idle RTO (RFC 5681 section 4.1). modern: true.
    pub idle_restart: Option<bool>,
    /// Duplicate ACKs that start fast retransmit. modern: 3.
    #[schemars(range(min = 1, max = 1000))]
    pub dupack_threshold: Option<u32>,
    /// Upper bound of the congestion window, in segments or bytes. modern: none.
    #[schemars(example = &"4p")]
    pub max_window: Option<Window>,
    /// Upper bound of the sending rate in bytes on the wire, enforced by pacing. modern: none.
    #[schemars(example = &"1Mbit/s")]
    pub max_rate: Option<BitRate>,
}

const fn ms(n: u64) -> Option<Time> {
    Some(Time(TimeDelta::from_millis(n)))
}

const fn bytes(n: u64) -> Option<Size> {
    Some(Size(Bytes(n)))
}

impl TcpPreset {
    /// The options that the preset sets.
    pub fn options(self) -> TcpOptions {
        let modern = TcpOptions {
            preset: None,
            recovery: Some(Recovery::Sack),
            sack: Some(true),
            dsack: Some(true),
            timestamps: Some(true),
            window_scaling: Some(true),
            ecn: Some(false),
            rack: Some(true),
            tlp: Some(true),
            prr: Some(true),
            limited_transmit: Some(true),
            undo: Some(true),
            nagle: Some(true),
            pacing: Some(false),
            pacing_gain: Some(1.2),
            pacing_gain_slow_start: Some(2.0),
            small_window_burst: Some(1),
            cwnd_validation: Some(true),
            quick_acks: Some(0),
            rto_variance: Some(RtoVariance::Linux),
            syn_retries: Some(6),
            data_retries: Some(15),
            delayed_ack: ms(40),
            delayed_ack_segments: Some(2),
            min_rto: ms(200),
            max_rto: ms(120_000),
            initial_rto: ms(1000),
            tick: ms(0),
            heartbeat: Some(false),
            initial_window: Some(Window::Segments(10.0)),
            initial_ssthresh: None,
            receive_buffer: bytes(32 << 20),
            send_buffer: None,
            mss: bytes(1460),
            idle_restart: Some(true),
            dupack_threshold: Some(3),
            max_window: None,
            max_rate: None,
        };
        // Not yet invented then.
        let bare = TcpOptions {
            sack: Some(false),
            dsack: Some(false),
            timestamps: Some(false),
            rack: Some(false),
            tlp: Some(false),
            prr: Some(false),
            undo: Some(false),
            cwnd_validation: Some(false),
            rto_variance: Some(RtoVariance::Rfc6298),
            ..modern.clone()
        };
        let bsd = TcpOptions {
            window_scaling: Some(false),
            limited_transmit: Some(false),
            // 4.3BSD's fast timer runs every 200 ms, its slow timer every 500 ms.
            delayed_ack: ms(200),
            min_rto: ms(1000),
            max_rto: ms(64_000),
            initial_rto: ms(6000),
            tick: ms(500),
            initial_window: Some(Window::Segments(1.0)),
            initial_ssthresh: Some(Window::Bytes(65_535)),
            receive_buffer: bytes(65_535),
            send_buffer: bytes(65_535),
            ..bare.clone()
        };
        match self {
            TcpPreset::Modern => modern,
            TcpPreset::Tahoe1988 => TcpOptions { recovery: Some(Recovery::Tahoe), ..bsd },
            TcpPreset::Reno1990 => TcpOptions { recovery: Some(Recovery::Reno), ..bsd },
            TcpPreset::Newreno1999 => TcpOptions {
                recovery: Some(Recovery::Newreno),
                window_scaling: Some(true),
                min_rto: ms(1000),
                max_rto: ms(64_000),
                initial_rto: ms(3000),
                delayed_ack: ms(200),
                initial_window: Some(Window::Segments(2.0)),
                ..bare
            },
            TcpPreset::Ns2Sack1 => TcpOptions {
                recovery: Some(Recovery::Sack),
                sack: Some(true),
                limited_transmit: Some(true),
                nagle: Some(false),
                delayed_ack: ms(100),
                max_rto: ms(60_000),
                initial_rto: ms(3000),
                tick: ms(10),
                initial_window: Some(Window::Segments(2.0)),
                receive_buffer: bytes(1_000_000_000),
                idle_restart: Some(false),
                ..bare
            },
        }
    }
}

/// Writes `merged` from one list of options: for each, the inner level's value if it has one.
macro_rules! merge {
    ($inner:expr, $outer:expr; $($field:ident),*) => {
        TcpOptions { preset: None, $($field: $inner.$field.or($outer.$field)),* }
    };
}

impl TcpOptions {
    fn merged_over(&self, outer: &TcpOptions) -> TcpOptions {
        merge!(self, outer; recovery, sack, dsack, timestamps, window_scaling, ecn, rack, tlp, prr,
            limited_transmit, undo, nagle, pacing, pacing_gain, pacing_gain_slow_start,
            small_window_burst, cwnd_validation, quick_acks, rto_variance, syn_retries, data_retries, delayed_ack, delayed_ack_segments, min_rto, max_rto, initial_rto,
            tick, heartbeat, initial_window, initial_ssthresh, receive_buffer, send_buffer, mss, idle_restart,
            dupack_threshold, max_window, max_rate)
    }

    /// The options that TReno uses; it emulates a TCP of its own.
    pub const OF_TRENO: [&'static str; 8] = [
        "mss",
        "receive_buffer",
        "initial_window",
        "dupack_threshold",
        "delayed_ack",
        "initial_rto",
        "min_rto",
        "max_rto",
    ];

    /// Names of the options given here that TReno does not use.
    pub(crate) fn useless_to_treno(&self) -> Vec<String> {
        let Ok(serde_json::Value::Object(options)) = serde_json::to_value(self) else { return vec![] };
        options
            .into_iter()
            .filter(|(name, value)| !value.is_null() && !Self::OF_TRENO.contains(&name.as_str()))
            .map(|(name, _)| name)
            .collect()
    }

    /// The options in force when `levels` are given, from the outermost (scenario) to the innermost (flow), on top of the
    /// preset "modern". All are set except `initial_ssthresh`, `send_buffer`, `max_window` and `max_rate`, where a missing value
    /// means "none".
    pub fn resolve(levels: &[&TcpOptions]) -> TcpOptions {
        levels.iter().fold(TcpPreset::Modern.options(), |outer, level| {
            let below = match level.preset {
                Some(preset) => preset.options().merged_over(&outer),
                None => outer,
            };
            level.merged_over(&below)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_levels_override_outer_ones_and_options_override_the_preset_beside_them() {
        let scenario = TcpOptions { mss: bytes(512), ecn: Some(true), ..TcpOptions::default() };
        let host =
            TcpOptions { preset: Some(TcpPreset::Tahoe1988), sack: Some(true), ..TcpOptions::default() };
        let flow = TcpOptions { recovery: Some(Recovery::Newreno), ..TcpOptions::default() };
        let resolved = TcpOptions::resolve(&[&scenario, &host, &flow]);
        assert_eq!(resolved.recovery, Some(Recovery::Newreno));
        assert_eq!(resolved.sack, Some(true));
        assert_eq!(resolved.tick, ms(500));
        // The preset sets these too, at an inner level.
        assert_eq!((resolved.mss, resolved.ecn), (bytes(1460), Some(false)));
        assert_eq!(resolved.preset, None);
    }

    #[test]
    fn without_options_tcp_is_modern() {
        assert_eq!(TcpOptions::resolve(&[]), TcpPreset::Modern.options());
        assert_eq!(TcpOptions::resolve(&[&TcpOptions::default()]), TcpPreset::Modern.options());
    }
}
