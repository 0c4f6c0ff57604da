//! The options of one TCP endpoint, so that the TCP of any decade can be built.
//!
//! Each stands here once, with its meaning, its default and its range. Scenarios, their schema and Python's classes take it from here.

use warpline_core::parameter::{Given, OutOfRange, Parameters, Value, Words};
use warpline_core::{Bytes, Rate, TimeDelta};

use super::ecn::EcnFeedback;
use super::receiver::Misbehaviour;
use super::rledbat::Rledbat;
use super::window::Window;
use crate::cc::{CcConfig, SavedPath};

/// How a sender recovers from loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Words)]
pub enum Recovery {
    /// Fast retransmit, then slow start from one segment (Jacobson 1988).
    Tahoe,
    /// Fast retransmit and fast recovery, left at the first new ACK (Jacobson 1990, RFC 2581). Duplicate ACKs of what was sent before that begin no second one, as with `bugFix_` of ns-2.
    Reno,
    /// Fast recovery that goes on through partial ACKs (RFC 6582).
    #[word("newreno")]
    NewReno,
    /// Recovery from the SACK scoreboard (RFC 6675, and RFC 8985 with `rack`); needs `sack` at both ends, else as newreno.
    #[default]
    Sack,
}

/// How the variance of the RTT enters the retransmission time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Words)]
#[non_exhaustive]
pub enum RtoVariance {
    /// Exactly as RFC 6298; `min_rto` bounds the whole time-out.
    Rfc6298,
    /// As Linux: the largest deviation within each round trip, which decays slowly. `min_rto` bounds the variance term, so the time-out is at
    /// least the smoothed RTT plus `min_rto`.
    #[default]
    Linux,
}

/// The options of one TCP endpoint. The default is a modern Linux-like stack; [`TcpPreset`](super::TcpPreset) has others.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct TcpConfig {
    /// How the sender recovers from loss.
    pub recovery: Recovery,
    /// Selective acknowledgements (RFC 2018).
    #[parameter(default = true)]
    pub sack: bool,
    /// Duplicate SACKs from the receiver (RFC 2883).
    #[parameter(default = true)]
    pub dsack: bool,
    /// Timestamps (RFC 7323); they take 12 bytes of every segment.
    #[parameter(default = true)]
    pub timestamps: bool,
    /// Window scaling (RFC 7323); without it no window can exceed 65535 bytes.
    #[parameter(default = true)]
    pub window_scaling: bool,
    /// Explicit congestion notification (RFC 3168). A congestion control that needs it, as DCTCP does, has it in any case.
    pub ecn: bool,
    /// How this end tells the other of marks that it receives.
    pub ecn_feedback: EcnFeedback,
    /// Whether acknowledgements say how many bytes came marked, by the AccECN option (RFC 9768 section 3.2.3), where marked packets are counted.
    #[parameter(default = true)]
    pub accecn_option: bool,
    /// Time-based loss detection (RACK, RFC 8985 section 6); needs `sack`.
    #[parameter(default = true)]
    pub rack: bool,
    /// Tail loss probes (RFC 8985 section 7); needs `sack`.
    #[parameter(default = true)]
    pub tlp: bool,
    /// Proportional rate reduction in recovery (RFC 6937, RFC 9937).
    #[parameter(default = true)]
    pub prr: bool,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    #[parameter(default = true)]
    pub limited_transmit: bool,
    /// Without SACK: only the first partial ACK of a recovery restarts the retransmission timer, so that many losses end in a time-out and slow start (RFC 6582
    /// section 4). Otherwise each does, as in Linux, and a loss is repaired in each round trip, however many there are.
    #[parameter(default = true)]
    pub impatient: bool,
    /// Undo the effects of spurious retransmissions, found by timestamps (Eifel, RFC 3522, RFC 4015), DSACK (RFC 3708) or what is
    /// acknowledged after a time-out (F-RTO, RFC 5682).
    #[parameter(default = true)]
    pub undo: bool,
    /// Nagle's algorithm (RFC 896, in Minshall's form as in Linux): at most one small segment in flight.
    #[parameter(default = true)]
    pub nagle: bool,
    /// Spread a window's segments over the RTT. A window below one segment is always paced, and so is an algorithm that gives a pacing rate.
    pub pacing: bool,
    /// Pacing rate in congestion avoidance, as a multiple of the window per RTT.
    #[parameter(default = 1.2, above = 0.0)]
    pub pacing_gain: f64,
    /// Pacing rate in slow start, as a multiple of the window per RTT.
    #[parameter(default = 2.0, above = 0.0)]
    pub pacing_gain_slow_start: f64,
    /// Segments sent together while the window is smaller than this, 1 or 2. TCP Nice sends pairs, so that a receiver that delays
    /// acknowledgements answers at once.
    ///
    /// Between two bursts, `small_window_burst * mss / cwnd * srtt` passes.
    #[parameter(default = 1, min = 1, max = 2)]
    pub small_window_burst: u32,
    /// Whether the window may grow only while it limits sending (RFC 7661 in Linux's form).
    #[parameter(default = true)]
    pub cwnd_validation: bool,
    /// How long an acknowledgement may be delayed (RFC 5681 section 4.2); 0s acknowledges every segment at once.
    #[parameter(default = TimeDelta::from_millis(40))]
    pub delayed_ack: TimeDelta,
    /// Number of full segments after which an acknowledgement is sent at once.
    #[parameter(default = 2, min = 1, max = 64)]
    pub delayed_ack_segments: u32,
    /// How many segments at the start of a connection are acknowledged one by one (Linux quick ACKs, TCP_MAX_QUICKACKS). No more than half of the
    /// receive buffer holds; two if that is less than one.
    #[parameter(default = 16)]
    pub quick_acks: u32,
    /// Smallest retransmission time-out (1s in RFC 6298, 200ms in Linux).
    #[parameter(default = TimeDelta::from_millis(200), not_above = "max_rto")]
    pub min_rto: TimeDelta,
    /// Largest retransmission time-out, and largest back-off.
    #[parameter(default = TimeDelta::from_secs(120), above = TimeDelta::ZERO, not_below = "initial_rto")]
    pub max_rto: TimeDelta,
    /// Retransmission time-out before the first RTT sample (RFC 6298 section 2.1).
    #[parameter(default = TimeDelta::from_secs(1), above = TimeDelta::ZERO, not_above = "max_rto")]
    pub initial_rto: TimeDelta,
    /// Granularity of the retransmission timer: time-outs are rounded up to a multiple of it; 0s for none. RACK's timer waits for 2 ms more and
    /// the end of a tick, as in Linux.
    pub tick: TimeDelta,
    /// Whether time-outs end with a beat of a clock of period `tick` (BSD's slow timer), so that a time-out of n ticks ends with the n-th
    /// beat. Each flow's clock has a random phase. Without it, a time-out lasts whole ticks from when it was set.
    pub heartbeat: bool,
    /// How the variance of the RTT enters the retransmission time-out.
    pub rto_variance: RtoVariance,
    /// Retransmissions of a SYN or SYN/ACK before the connection fails.
    #[parameter(default = 6)]
    pub syn_retries: u32,
    /// Consecutive time-outs without progress before the connection fails.
    #[parameter(default = 15)]
    pub data_retries: u32,
    /// Initial congestion window, in segments or bytes (RFC 6928: ten segments).
    #[parameter(above = Window::Segments(0.0))]
    pub initial_window: Window,
    /// Initial slow-start threshold. Without it slow start lasts until the first loss.
    #[parameter(above = Some(Window::Segments(0.0)))]
    pub initial_ssthresh: Option<Window>,
    /// Bytes that an earlier connection on the same path had delivered in a round trip: this one jumps to half of it (Careful Resume, RFC 9959).
    /// Only with `saved_rtt`, and for a congestion control that goes by a window.
    #[parameter(above = Some(Window::Segments(0.0)))]
    pub saved_cwnd: Option<Window>,
    /// Smallest round-trip time of the earlier connection. If that of this connection is at most half as long, or more than ten times as long, the
    /// path is another, and `saved_cwnd` is not used.
    #[parameter(above = Some(TimeDelta::ZERO))]
    pub saved_rtt: Option<TimeDelta>,
    /// Receive buffer: the largest window that is advertised, rounded down to the window scale. No 16-bit window scaled by 14 is larger than
    /// 1073725440 bytes (RFC 7323).
    #[parameter(default = Bytes(32 << 20), min = Bytes(1), max = Bytes(65_535 << 14))]
    pub receive_buffer: Bytes,
    /// Window that is advertised at first (Linux rcv_ssthresh: 65535 bytes). Each segment that arrives opens it by two full ones, up to
    /// `receive_buffer`, and until then all are acknowledged one by one. Without it the whole buffer is advertised at once.
    #[parameter(above = Some(Bytes(0)))]
    pub receive_ssthresh: Option<Bytes>,
    /// Whether the receive buffer grows with the transfer, from `receive_ssthresh` to `receive_buffer`, so that the window opens as far as the sender needs
    /// it (Linux tcp_moderate_rcvbuf). Without it, the buffer has its full size from the start.
    pub receive_autotuning: bool,
    /// Whether this end, as a receiver, keeps the sender from filling the path's queue, by the window that it advertises (rLEDBAT, RFC 9840), and by
    /// which rule; needs `timestamps`.
    pub rledbat: Rledbat,
    /// How this end, as a receiver, breaks the rules so that the sender sends faster: to try senders against it.
    pub misbehaviour: Misbehaviour,
    /// Send buffer: how much the application may have written that is not yet acknowledged. Without it there is no bound.
    #[parameter(above = Some(Bytes(0)))]
    pub send_buffer: Option<Bytes>,
    /// Maximum segment size as announced in the SYN: the payload of a segment without options. A full packet has 40 bytes more; timestamps
    /// take 12 bytes of the payload (RFC 6691).
    #[parameter(default = Bytes(1460), min = Bytes(64), max = Bytes(65_495))]
    pub mss: Bytes,
    /// Whether the window restarts from the initial one after an idle RTO (RFC 5681 section 4.1).
    #[parameter(default = true)]
    pub idle_restart: bool,
    /// Duplicate ACKs that start fast retransmit (RFC 5681 section 3.2).
    #[parameter(default = 3, min = 1, max = 1000)]
    pub dupack_threshold: u32,
    /// How much reordering the sender learns to expect at most, in segments (Linux tcp_max_reordering). Without RACK, fast retransmit takes as many
    /// duplicate ACKs as a segment was seen to come late by, in place of `dupack_threshold`. With SACK, once that number is above `dupack_threshold`, the
    /// window grows with each segment that arrives, in order or not. With 0, the sender learns nothing.
    #[parameter(default = 300, max = 1000)]
    pub max_reordering: u32,
    /// Upper bound of what the congestion window allows to be on its way, in segments or bytes. At the bound, the window no longer grows. Without it there is none.
    #[parameter(above = Some(Window::Segments(0.0)))]
    pub max_window: Option<Window>,
    /// Upper bound of the sending rate in bytes on the wire, enforced by pacing. Without it there is none.
    #[parameter(above = Some(Rate::from_bps(0)))]
    pub max_rate: Option<Rate>,
    /// Phase of the clock of `heartbeat`, counted from the run's start.
    #[parameter(skip)]
    pub heartbeat_phase: TimeDelta,
    /// How long TIME-WAIT lasts. Far below RFC 9293's four minutes, since no port is used again here while old segments are under way.
    #[parameter(skip, default = TimeDelta::from_secs(1))]
    pub time_wait: TimeDelta,
    /// How long a closed endpoint waits in FIN-WAIT-2 without hearing anything (Linux `tcp_fin_timeout`).
    #[parameter(skip, default = TimeDelta::from_secs(60))]
    pub fin_timeout: TimeDelta,
}

impl TcpConfig {
    /// Bytes of payload in a full segment if the other side agrees to timestamps and has at least this MSS.
    pub fn payload(&self) -> u64 {
        self.mss.0.saturating_sub(if self.timestamps { 12 } else { 0 }).max(1)
    }

    /// What the congestion control of an endpoint with these options is built from. The seed is zero: give each flow its own.
    pub fn cc_config(&self) -> CcConfig {
        self.cc_config_of(self.payload())
    }

    /// The same where a full segment carries `mss` bytes of payload.
    pub(super) fn cc_config_of(&self, mss: u64) -> CcConfig {
        CcConfig {
            mss,
            initial_window: self.initial_window.bytes(mss),
            initial_ssthresh: self.initial_ssthresh.map_or(u64::MAX, |window| window.bytes(mss)),
            seed: 0,
            saved: self
                .saved_cwnd
                .zip(self.saved_rtt)
                .map(|(cwnd, rtt)| SavedPath { cwnd: cwnd.bytes(mss), rtt }),
        }
    }

    /// Every option that is out of its range or does not go with another.
    pub fn faults(&self) -> Vec<OutOfRange> {
        let parameters: &mut dyn Parameters = &mut self.clone();
        let mut faults = parameters.faults();
        if self.heartbeat && self.tick.is_zero() {
            let value = Given::Text("true".to_owned());
            let allowed = "true only with a `tick`, such as 500ms".to_owned();
            faults.push(OutOfRange { parameter: "heartbeat", value, allowed });
        }
        if self.receive_autotuning && self.receive_ssthresh.is_none() {
            let value = Given::Text("true".to_owned());
            let allowed = "true only with a `receive_ssthresh`, such as 65535B".to_owned();
            faults.push(OutOfRange { parameter: "receive_autotuning", value, allowed });
        }
        for (parameter, value, other) in [
            ("saved_cwnd", self.saved_cwnd.given().filter(|_| self.saved_rtt.is_none()), "saved_rtt"),
            ("saved_rtt", self.saved_rtt.given().filter(|_| self.saved_cwnd.is_none()), "saved_cwnd"),
        ] {
            let allowed = format!("only with `{other}`, of the same connection");
            faults.extend(value.map(|value| OutOfRange { parameter, value, allowed }));
        }
        if self.rledbat != Rledbat::No && !self.timestamps {
            let value = Given::Text(self.rledbat.word().to_owned());
            let allowed = "no, or another with `timestamps`: it goes by them".to_owned();
            faults.push(OutOfRange { parameter: "rledbat", value, allowed });
        }
        faults
    }

    /// Checks every option.
    ///
    /// # Errors
    /// The first of the [faults](Self::faults), with what is allowed.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
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
        let default = TcpConfig::default;
        let times = |min, max, initial| TcpConfig {
            min_rto: TimeDelta::from_secs(min),
            max_rto: TimeDelta::from_secs(max),
            initial_rto: TimeDelta::from_secs(initial),
            ..default()
        };
        for (config, message) in [
            (TcpConfig { mss: Bytes(10), ..default() }, "`mss` is 10B; allowed: 64B to 65.495kB"),
            (TcpConfig { small_window_burst: 3, ..default() }, "`small_window_burst` is 3; allowed: 1 to 2"),
            (
                TcpConfig { receive_buffer: Bytes(0), ..default() },
                "`receive_buffer` is 0B; allowed: 1B to 1073725.44kB",
            ),
            (
                TcpConfig { initial_window: Window::Bytes(0), ..default() },
                "`initial_window` is 0B; allowed: above 0p",
            ),
            (times(200, 120, 1), "`min_rto` is 200s; allowed: not above `max_rto`"),
            (times(1, 2, 3), "`max_rto` is 2s; allowed: above 0s, not below `initial_rto`"),
            (
                TcpConfig { heartbeat: true, ..default() },
                "`heartbeat` is true; allowed: true only with a `tick`, such as 500ms",
            ),
            (
                TcpConfig { receive_autotuning: true, ..default() },
                "`receive_autotuning` is true; allowed: true only with a `receive_ssthresh`, such as 65535B",
            ),
            (
                TcpConfig { pacing_gain_slow_start: 0.0, ..default() },
                "`pacing_gain_slow_start` is 0; allowed: above 0",
            ),
            (
                TcpConfig { saved_cwnd: Some(Window::Segments(400.0)), ..default() },
                "`saved_cwnd` is 400p; allowed: only with `saved_rtt`, of the same connection",
            ),
            (
                TcpConfig { saved_rtt: Some(TimeDelta::from_millis(80)), ..default() },
                "`saved_rtt` is 80ms; allowed: only with `saved_cwnd`, of the same connection",
            ),
            (
                TcpConfig { rledbat: Rledbat::Ledbat, timestamps: false, ..default() },
                "`rledbat` is ledbat; allowed: no, or another with `timestamps`: it goes by them",
            ),
        ] {
            assert_eq!(config.validate().unwrap_err().to_string(), message);
        }
    }
}
