//! One end of a TCP connection: its state, the application's side, and where segments enter and leave.

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Segment, TimeDelta, Timestamp};

use super::config::TcpConfig;
use super::ecn::EcnState;
use super::episode::Episode;
use super::pacing::Pacer;
use super::rack::Rack;
use super::rate::DeliveryRate;
use super::receiver::Receiver;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::state::{Outcome, State};
use super::stats::Stats;
use super::timers::{Alarm, Auxiliary, Timer};
use super::undo::Undo;
use crate::cc::{CongestionControl, Phase};

/// Where the data of an unlimited source ends: further than any run sends.
const UNLIMITED: u64 = 1 << 62;

/// Segments that wait to be sent out of the ordinary course.
pub(super) mod pending {
    /// A SYN or SYN/ACK.
    pub(in crate::tcp) const SYN: u8 = 1;
    /// A reset.
    pub(in crate::tcp) const RST: u8 = 2;
    /// A tail loss probe.
    pub(in crate::tcp) const TAIL_PROBE: u8 = 4;
    /// A zero-window probe.
    pub(in crate::tcp) const WINDOW_PROBE: u8 = 8;
}

/// A tail loss probe that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// It is out until this is acknowledged.
    pub end: u64,
    /// It was a retransmission.
    pub again: bool,
}

/// One end of a TCP connection, generic over its congestion control so that a built-in choice is dispatched statically.
///
/// After every call that takes `now`, and after every call of the application, ask [`poll_transmit`](Self::poll_transmit)
/// until it has nothing more, then [`poll_timeout`](Self::poll_timeout). Deadlines may move in both directions; calling
/// [`handle_timeout`](Self::handle_timeout) early does nothing.
// Laid out by hand: what every segment touches comes first and together, so that thousands of connections cost few cache
// lines each.
#[derive(Debug)]
#[repr(C)]
pub struct Connection<C> {
    pub(super) state: State,
    /// Bits of [`pending`].
    pub(super) pending: u8,
    pub(super) recording: bool,
    pub(super) log_latencies: bool,
    /// The window is below `small_window_burst` segments: bursts of so many, timed.
    pub(super) small_window: bool,
    pub(super) timestamps: bool,
    /// Selective acknowledgements from the other side are used.
    pub(super) sack_used: bool,
    /// Selective acknowledgements may be sent to the other side.
    pub(super) sack_offered: bool,
    pub(super) rack_used: bool,
    pub(super) tlp_used: bool,
    pub(super) paced: bool,
    pub(super) fin_requested: bool,
    /// Window scaling was agreed.
    pub(super) scaling: bool,
    pub(super) syn_sent: bool,
    /// Growth needs the window to limit sending.
    pub(super) validate: bool,
    pub(super) alarm: Timer<Alarm>,
    pub(super) auxiliary: Timer<Auxiliary>,
    pub(super) episode: Episode,
    /// The tail loss probe that is out.
    pub(super) probe: Option<Probe>,

    /// Oldest byte not acknowledged.
    pub(super) una: u64,
    /// Next byte to send.
    pub(super) nxt: u64,
    /// Right edge of the other side's window. It only moves forward: shrinking it is discouraged (RFC 9293 section 3.8.6),
    /// and old acknowledgements that the network reordered do no harm this way.
    pub(super) window_end: u64,
    /// One past what may be sent now, FIN included; zero until established.
    pub(super) send_end: u64,
    /// Bytes that may be in flight now.
    pub(super) window: u64,
    /// Payload of a full segment.
    pub(super) mss: u64,
    /// Bound of the congestion window.
    pub(super) clamp: u64,
    /// A window below one segment, or a pair, is sent in bursts.
    pub(super) burst_bytes: u64,
    /// A window below the algorithm's, after the loss of a SYN (RFC 5681 section 3.1): it grows as in slow start until it
    /// reaches the algorithm's. `u64::MAX` when there is none.
    pub(super) ramp: u64,
    /// The window limited sending while this was the next byte: acknowledgements up to it may let the window grow.
    pub(super) limited_until: u64,
    /// One past the data that the application wrote.
    pub(super) app_end: u64,
    /// Largest window the other side offered.
    pub(super) max_offered: u64,
    pub(super) last_sent_at: Timestamp,
    /// When RACK's reordering window ends for the next segment that waits in it.
    pub(super) rack_wake: Timestamp,
    /// When the pacing gate opens for a segment that waits at it.
    pub(super) pace_at: Timestamp,
    pub(super) board: Scoreboard,
    pub(super) rtt: Rtt,
    pub(super) rate: DeliveryRate,
    pub(super) rack: Rack,
    pub(super) cc: C,
    pub(super) stats: Stats,
    pub(super) ecn: EcnState,
    pub(super) rcv: Receiver,

    /// End of the last segment sent that was not full (for Nagle's rule).
    pub(super) small_end: u64,
    /// RFC 6582's `recover`: the last recovery or loss ends when this is acknowledged. Without SACK, duplicate acknowledgements of
    /// what was sent before mean nothing.
    pub(super) recover: u64,
    pub(super) pacer: Pacer,
    /// What may show that the last reduction was spurious.
    pub(super) undo: Option<Undo>,
    /// Time-outs without progress.
    pub(super) retries: u32,
    /// Zero-window probes in a row.
    pub(super) persist_count: u32,
    /// Sequence and acknowledgement of a reset to send.
    pub(super) reset: (u64, u64),
    pub(super) outcome: Option<Outcome>,
    pub(super) records: Vec<(Timestamp, TcpEvent)>,
    pub(super) latencies: Vec<TimeDelta>,
    pub(super) config: Box<TcpConfig>,
}

impl<C: CongestionControl> Connection<C> {
    /// The side that opens: nothing happens until [`open`](Self::open). `config` should have passed
    /// [`TcpConfig::validate`], and `cc` be made from [`TcpConfig::cc_config`].
    pub fn client(config: TcpConfig, cc: C) -> Self {
        Self::new(config, cc, State::Closed)
    }

    /// The side that waits for a SYN.
    pub fn server(config: TcpConfig, cc: C) -> Self {
        Self::new(config, cc, State::Listen)
    }

    fn new(config: TcpConfig, cc: C, state: State) -> Self {
        let mut connection = Connection {
            state,
            pending: 0,
            recording: false,
            log_latencies: false,
            small_window: false,
            timestamps: config.timestamps,
            sack_used: false,
            sack_offered: false,
            rack_used: false,
            tlp_used: false,
            paced: config.pacing || config.max_rate.is_some() || cc.pacing_rate().is_some(),
            fin_requested: false,
            validate: config.cwnd_validation,
            clamp: config.max_window_clamp.unwrap_or(u64::MAX),
            burst_bytes: u64::from(config.small_window_burst) * config.payload(),
            scaling: false,
            syn_sent: false,
            alarm: Timer::stopped(Alarm::Retransmit),
            auxiliary: Timer::stopped(Auxiliary::TailProbe),
            episode: Episode::OPEN,
            probe: None,
            una: 0,
            nxt: 0,
            window_end: 1,
            send_end: 0,
            window: 0,
            mss: config.payload(),
            board: Scoreboard::default(),
            rack_wake: Timestamp::NEVER,
            pace_at: Timestamp::NEVER,
            rtt: Rtt::new(&config),
            rate: DeliveryRate::default(),
            rack: Rack::new(),
            limited_until: 0,
            last_sent_at: Timestamp::ZERO,
            rcv: Receiver::new(&config),
            ecn: EcnState::default(),
            stats: Stats::default(),
            app_end: 1,
            small_end: 0,
            max_offered: 0,
            recover: 0,
            pacer: Pacer::default(),
            undo: None,
            retries: 0,
            persist_count: 0,
            ramp: u64::MAX,
            reset: (0, 0),
            outcome: None,
            records: Vec::new(),
            latencies: Vec::new(),
            cc,
            config: Box::new(config),
        };
        connection.refresh_window();
        connection
    }

    // ---- The application's side ----

    /// Opens the connection: a SYN will be sent.
    pub fn open(&mut self, now: Timestamp) {
        if self.state == State::Closed && self.outcome.is_none() {
            self.state = State::SynSent;
            self.start_syn(now);
        }
    }

    /// Writes `bytes` of data; returns how many were accepted: fewer when the send buffer is full, none after
    /// [`close`](Self::close) or while the source is unlimited.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.fin_requested || self.outcome.is_some() || self.app_end >= UNLIMITED {
            return 0;
        }
        let room = match self.config.send_buffer {
            Some(buffer) => buffer.saturating_sub(self.app_end - self.una.max(1).min(self.app_end)),
            None => UNLIMITED - self.app_end,
        };
        let accepted = bytes.min(room);
        self.app_end += accepted;
        self.update_send_end();
        accepted
    }

    /// Makes this a bulk source that always has data, or ends that: then what was sent is all there is.
    pub fn set_unlimited(&mut self, on: bool) {
        if self.fin_requested || self.outcome.is_some() {
            return;
        }
        if on {
            self.app_end = UNLIMITED;
        } else if self.app_end >= UNLIMITED {
            self.app_end = self.nxt.max(1);
        }
        self.update_send_end();
    }

    /// Sends a FIN after all data. An unlimited source ends where it is. Before the handshake is complete this is
    /// remembered, while listening too (where RFC 9293 would end the connection: [`abort`](Self::abort) does).
    pub fn close(&mut self) {
        self.set_unlimited(false);
        self.fin_requested = true;
        self.update_send_end();
    }

    /// Ends the connection at once with a reset.
    pub fn abort(&mut self, now: Timestamp) {
        if self.outcome.is_some() {
            return;
        }
        if !matches!(self.state, State::Closed | State::Listen) {
            self.pending = pending::RST;
            self.reset = (self.nxt, self.rcv.nxt);
        }
        self.finish(now, Outcome::Aborted);
    }

    /// Takes up to `max` bytes that arrived in order; returns how many. Only where
    /// [`set_auto_read`](Self::set_auto_read) is off.
    pub fn read(&mut self, max: u64) -> u64 {
        self.rcv.take(max)
    }

    /// Whether the application takes all data at once (the default), or only with [`read`](Self::read), so that the window
    /// closes when it does not.
    pub fn set_auto_read(&mut self, on: bool) {
        self.rcv.set_auto_read(on);
    }

    /// Bytes that arrived in order and wait for [`read`](Self::read).
    pub fn readable(&self) -> u64 {
        self.rcv.unread()
    }

    // ---- What is known from outside ----

    /// State of the connection.
    pub fn state(&self) -> State {
        self.state
    }
    /// Whether the handshake is complete and the connection has not ended.
    pub fn is_established(&self) -> bool {
        self.state.is_synchronised()
    }
    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.outcome.is_some()
    }
    /// How the connection ended, once it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }
    /// Whether the other side has closed and all its data has arrived.
    pub fn peer_closed(&self) -> bool {
        self.rcv.fin_received()
    }
    /// Forgets the smallest and largest samples, as when a warm-up ends; sums and counts go on.
    pub fn reset_extremes(&mut self) {
        self.stats.reset_extremes();
    }
    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Options.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }
    /// The congestion control.
    pub fn congestion_control(&self) -> &C {
        &self.cc
    }
    /// Congestion phase.
    pub fn phase(&self) -> Phase {
        self.episode.phase()
    }
    /// Bytes that may be in flight now: the congestion window, or recovery's while one is under way, under all bounds.
    pub fn window(&self) -> u64 {
        self.window
    }
    /// The algorithm's congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cc.cwnd()
    }
    /// Slow-start threshold in bytes; `u64::MAX` while unset.
    pub fn ssthresh(&self) -> u64 {
        self.cc.ssthresh()
    }
    /// Bytes in flight: sent, and neither acknowledged nor lost as far as is known.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.board.in_flight(self.nxt - self.una)
    }
    /// Smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> TimeDelta {
        self.rtt.srtt()
    }
    /// Smallest RTT; zero before the first sample.
    pub fn min_rtt(&self) -> TimeDelta {
        self.rtt.min()
    }
    /// Retransmission time-out in force, with back-off.
    pub fn rto(&self) -> TimeDelta {
        self.rtt.rto()
    }
    /// Payload bytes acknowledged by the other side.
    pub fn bytes_acked(&self) -> u64 {
        self.una.min(self.app_end).saturating_sub(1)
    }
    /// Payload bytes written and not acknowledged; meaningless for an unlimited source.
    pub fn bytes_unacked(&self) -> u64 {
        self.app_end - self.una.clamp(1, self.app_end)
    }
    /// Payload bytes received in order, each counted once.
    pub fn bytes_delivered(&self) -> u64 {
        self.rcv.delivered()
    }
    /// Bytes that the other side's window still takes beyond what was sent.
    pub fn send_window(&self) -> u64 {
        self.window_end.saturating_sub(self.nxt)
    }
    /// Payload bytes of a full segment.
    pub fn segment_payload(&self) -> u64 {
        self.mss
    }

    // ---- Records ----

    /// Turns records of every event on or off. They cost nothing while off.
    pub fn set_recording(&mut self, on: bool) {
        self.recording = on;
    }
    /// The records since the last call.
    pub fn drain_records(&mut self) -> impl Iterator<Item = (Timestamp, TcpEvent)> + '_ {
        self.records.drain(..)
    }
    /// Turns on or off that every segment's time from first transmission to acknowledgement is kept for
    /// [`drain_latencies`](Self::drain_latencies).
    pub fn set_latency_log(&mut self, on: bool) {
        self.log_latencies = on;
    }
    /// The latencies since the last call.
    pub fn drain_latencies(&mut self) -> impl Iterator<Item = TimeDelta> + '_ {
        self.latencies.drain(..)
    }

    #[inline]
    pub(super) fn record(&mut self, now: Timestamp, event: TcpEvent) {
        if self.recording {
            self.records.push((now, event));
        }
    }
    #[inline]
    pub(super) fn record_metrics(&mut self, now: Timestamp) {
        if self.recording {
            let event = TcpEvent::Metrics {
                cwnd: self.window,
                ssthresh: self.cc.ssthresh(),
                in_flight: self.in_flight(),
                srtt: self.rtt.srtt(),
                min_rtt: self.rtt.min(),
                rto: self.rtt.rto(),
            };
            self.records.push((now, event));
        }
    }
    /// An episode begins, and the one before is over with all that it held.
    pub(super) fn enter(&mut self, now: Timestamp, episode: Episode) {
        let (before, phase) = (self.episode.phase(), episode.phase());
        self.episode = episode;
        if before != phase {
            let state = match phase {
                Phase::Open => "open",
                Phase::Disorder => "disorder",
                Phase::Cwr => "cwr",
                Phase::Recovery => "recovery",
                Phase::Loss => "loss",
            };
            self.record(now, TcpEvent::State { state });
        }
    }

    // ---- Segments in ----

    /// A segment arrived; `ce` if its IP header was marked congestion-experienced.
    // Always: so a caller's segment that nothing refers to need not exist in memory.
    #[inline(always)]
    pub fn handle_segment(&mut self, now: Timestamp, segment: &Segment, ce: bool) {
        const CONTROL: u8 = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0;
        self.stats.segments_received += 1;
        if self.state == State::Established && segment.flags.0 & CONTROL == Flags::ACK.0 {
            self.on_header(segment, ce);
            self.on_ack(now, segment);
            if segment.len > 0 {
                self.on_payload(now, segment);
            } else if segment.seq < self.rcv.nxt {
                // A probe of the window, or a keep-alive.
                self.rcv.ack_now = true;
            }
        } else {
            // A copy, here and wherever the ordinary course is left: a segment that no call refers to stays in registers.
            let segment = *segment;
            self.handle_control(now, &segment, ce);
        }
    }

    /// Timestamps and ECN.
    #[inline]
    pub(super) fn on_header(&mut self, segment: &Segment, ce: bool) {
        if let Some((value, _)) = segment.timestamps
            && segment.seq <= self.rcv.last_ack_sent
            && value.wrapping_sub(self.rcv.ts_recent) as i32 >= 0
        {
            // RFC 7323 section 4.3: the earliest unacknowledged segment's value is echoed.
            self.rcv.ts_recent = value;
        }
        if self.ecn.on_segment(segment.flags, segment.len > 0, ce) {
            self.stats.ce_marks += 1;
        }
    }

    #[inline(always)]
    pub(super) fn on_payload(&mut self, now: Timestamp, segment: &Segment) {
        let end = segment.seq + u64::from(segment.len);
        if self.rcv.is_simple(segment.seq, end) {
            self.rcv.on_in_order(now, segment.len, false);
        } else {
            let segment = *segment;
            self.on_payload_slow(now, &segment);
        }
    }

    #[inline(never)]
    pub(super) fn on_payload_slow(&mut self, now: Timestamp, segment: &Segment) {
        let fin = segment.flags.contains(Flags::FIN);
        let end = segment.seq + u64::from(segment.len) + u64::from(fin);
        let had_fin = self.rcv.fin_received();
        let arrived = self.rcv.on_data(now, segment.seq, end, fin);
        self.stats.duplicate_bytes += arrived.duplicate;
        if !had_fin && self.rcv.fin_received() {
            self.on_fin(now);
        }
    }

    // ---- Segments out ----

    /// The next segment to send, with its ECN field; call until `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<(Segment, Ecn)> {
        if (self.pending != 0 || self.board.has_waiting())
            && let Some(out) = self.poll_special(now)
        {
            return Some(out);
        }
        // What is selectively acknowledged is told without payload: options would not leave room for a full segment.
        if self.rcv.ack_now && self.rcv.has_sack() && self.state.is_synchronised() {
            return Some(self.make_ack(now));
        }
        if self.nxt < self.send_end
            && let Some(out) = self.poll_data(now)
        {
            return Some(out);
        }
        if self.rcv.ack_now && self.state.is_synchronised() {
            return Some(self.make_ack(now));
        }
        if self.episode.is_recovery() && self.sack_used && !self.rack_used {
            return self.poll_speculative(now);
        }
        None
    }
}
