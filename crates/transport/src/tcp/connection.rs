//! One end of a TCP connection: a handshake, a sender and a receiver, the application's side, and where segments enter and leave.

mod states;

use std::sync::Arc;

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Segment, TimeDelta, Timestamp};

use super::config::TcpConfig;
use super::handshake::Handshake;
use super::log::Log;
use super::receiver::Receiver;
use super::sender::{Expired, Next, Sender};
use super::state::{Outcome, State};
use super::stats::Stats;
use crate::cc::{CongestionControl, Phase, Subflow};

/// A segment of the handshake, or a reset, that goes out before everything else.
#[derive(Debug)]
enum Control {
    None,
    /// A SYN or SYN/ACK.
    Syn,
    /// Boxed, since it is rare.
    Reset(Box<ResetAt>),
}

/// Where a reset lies.
#[derive(Clone, Copy, Debug)]
struct ResetAt {
    seq: u64,
    /// What it acknowledges, if the other side's segment did not name the place.
    ack: Option<u64>,
}

/// Takes the segments that a connection sends.
pub trait Transmit {
    /// Takes the next segment, with the ECN field of its IP header.
    fn transmit(&mut self, segment: &Segment, ecn: Ecn);
}

/// One end of a TCP connection, generic over its congestion control so that a built-in choice is dispatched statically.
///
/// After every call that takes `now`, and after every call of the application, call
/// [`poll_transmit`](Self::poll_transmit) until it returns `None`, then [`poll_timeout`](Self::poll_timeout). A
/// deadline may become earlier or later; calling [`handle_timeout`](Self::handle_timeout) too early does nothing.
// Laid out by hand, here and in its parts. With thousands of connections each segment finds its connection outside the nearest caches, and the
// cache lines that it touches are what it costs. So what every segment touches comes first in each part, and each part begins with a line:
// 0 ours and the first counters, 1 the sender's counters, 4 and 5 the receiver, 6 on the sender. `layout` below holds that.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Connection<C> {
    state: State,
    outcome: Option<Outcome>,
    control: Control,
    /// End of FIN-WAIT-2 or TIME-WAIT.
    linger: Timestamp,
    log: Log,
    handshake: Handshake,
    receiver: Receiver,
    sender: Sender<C>,
}

impl<C: CongestionControl> Connection<C> {
    /// The side that opens: nothing happens until [`open`](Self::open). `config`, which connections may share, should have passed
    /// [`TcpConfig::validate`], and `cc` be made from [`TcpConfig::cc_config`].
    pub fn client(config: impl Into<Arc<TcpConfig>>, cc: C) -> Self {
        Self::new(config.into(), cc, State::Closed)
    }

    /// The side that waits for a SYN.
    pub fn server(config: impl Into<Arc<TcpConfig>>, cc: C) -> Self {
        Self::new(config.into(), cc, State::Listen)
    }

    fn new(config: Arc<TcpConfig>, cc: C, state: State) -> Self {
        Connection {
            state,
            outcome: None,
            control: Control::None,
            linger: Timestamp::NEVER,
            log: Log::default(),
            receiver: Receiver::new(&config),
            handshake: Handshake::new(config.clone(), cc.ecn_need()),
            sender: Sender::new(config, cc),
        }
    }

    /// Takes the path that is for every case from now on; `acks`: for acknowledgements, too.
    #[cfg(test)]
    pub(super) fn take_slow_paths(&mut self, acks: bool) {
        self.sender.slow = true;
        self.sender.slow_acks = acks;
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
        if self.outcome.is_some() { 0 } else { self.sender.write(bytes) }
    }

    /// Makes this a bulk source that always has data. Turned off, the data ends with what has been sent so far.
    pub fn set_unlimited(&mut self, on: bool) {
        if self.outcome.is_none() {
            self.sender.set_unlimited(on);
        }
    }

    /// Sends a FIN after all data; an unlimited source ends where it is. Before the handshake is complete, the
    /// request is kept for later, even while listening. (RFC 9293 would end a listening connection;
    /// [`abort`](Self::abort) does that.)
    pub fn close(&mut self) {
        self.set_unlimited(false);
        self.sender.close();
    }

    /// Ends the connection at once with a reset.
    pub fn abort(&mut self, now: Timestamp) {
        if self.outcome.is_some() {
            return;
        }
        if !matches!(self.state, State::Closed | State::Listen) {
            self.send_reset(self.sender.nxt(), Some(self.receiver.nxt()));
        }
        self.finish(now, Outcome::Aborted);
    }

    /// Takes up to `max` bytes that arrived in order; returns how many. Only where
    /// [`set_auto_read`](Self::set_auto_read) is off.
    pub fn read(&mut self, max: u64) -> u64 {
        self.receiver.take(max)
    }

    /// Whether the application takes all data at once (the default), or only with [`read`](Self::read), so that the window
    /// closes when it does not.
    pub fn set_auto_read(&mut self, on: bool) {
        self.receiver.set_auto_read(on);
    }

    /// Bytes that arrived in order and wait for [`read`](Self::read).
    pub fn readable(&self) -> u64 {
        self.receiver.unread()
    }

    // ---- The path ----

    /// Lowers the largest segment to `mss` bytes, TCP options included, because a router said that the path takes no
    /// more (RFC 1191, RFC 8201). Larger segments in flight are sent again in pieces at once. The caller must make
    /// sure that the router's message is about this connection (RFC 5927). Returns whether segments were larger until
    /// now.
    pub fn reduce_mss(&mut self, now: Timestamp, mss: u32) -> bool {
        if self.outcome.is_some() {
            return false;
        }
        let Some(payload) = self.handshake.reduce_mss(mss) else { return false };
        self.sender.reduce_payload(now, payload, &mut self.log)
    }

    /// Handles the message of a router or host that the other side cannot be reached (RFC 1122 section 4.2.3.9). It
    /// ends a connection that is being opened. An open connection keeps trying, since the path may come back. Returns
    /// whether the connection has ended.
    pub fn on_unreachable(&mut self, now: Timestamp) -> bool {
        if self.state != State::SynSent {
            return false;
        }
        self.finish(now, Outcome::Unreachable);
        true
    }

    // ---- State ----

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
        self.receiver.fin_received()
    }
    /// Forgets the smallest and largest samples, as when a warm-up ends; sums and counts go on.
    pub fn reset_extremes(&mut self) {
        self.log.stats.reset_extremes();
    }
    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.log.stats
    }
    /// Options.
    pub fn config(&self) -> &TcpConfig {
        self.handshake.config()
    }
    /// The congestion control.
    pub fn congestion_control(&self) -> &C {
        self.sender.cc()
    }
    /// Tells the congestion control of all subflows of the multipath connection that this one belongs to (see
    /// [`CongestionControl::on_subflows`]).
    pub fn couple(&mut self, subflows: &[Subflow], own: usize) {
        self.sender.couple(subflows, own);
    }
    /// Congestion phase.
    pub fn phase(&self) -> Phase {
        self.sender.phase()
    }
    /// Bytes that may be in flight now: the congestion window, or that of a recovery under way, within all limits.
    pub fn window(&self) -> u64 {
        self.sender.window()
    }
    /// The algorithm's congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.sender.cc().cwnd()
    }
    /// Slow-start threshold in bytes; `u64::MAX` while unset.
    pub fn ssthresh(&self) -> u64 {
        self.sender.cc().ssthresh()
    }
    /// Bytes in flight: sent, and neither acknowledged nor lost as far as is known.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.sender.in_flight()
    }
    /// Smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> TimeDelta {
        self.sender.rtt().srtt()
    }
    /// Smallest RTT; zero before the first sample.
    pub fn min_rtt(&self) -> TimeDelta {
        self.sender.rtt().min()
    }
    /// Retransmission time-out in force, with back-off.
    pub fn rto(&self) -> TimeDelta {
        self.sender.rtt().rto()
    }
    /// Payload bytes acknowledged by the other side.
    pub fn bytes_acked(&self) -> u64 {
        self.sender.bytes_acked()
    }
    /// Payload bytes written and not acknowledged; meaningless for an unlimited source.
    pub fn bytes_unacked(&self) -> u64 {
        self.sender.bytes_unacked()
    }
    /// Payload bytes written and not sent yet; meaningless for an unlimited source.
    pub fn bytes_unsent(&self) -> u64 {
        self.sender.bytes_unsent()
    }
    /// Payload bytes received in order, each counted once.
    pub fn bytes_delivered(&self) -> u64 {
        self.receiver.delivered()
    }
    /// Bytes that the other side's window still admits beyond what was sent.
    pub fn send_window(&self) -> u64 {
        self.sender.send_window()
    }
    /// Payload bytes of a full segment.
    pub fn segment_payload(&self) -> u64 {
        self.sender.payload()
    }

    // ---- Records ----

    /// Turns records of every event on or off. They cost nothing while off.
    pub fn set_recording(&mut self, on: bool) {
        self.log.set_recording(on);
    }
    /// The records since the last call.
    pub fn drain_records(&mut self) -> impl Iterator<Item = (Timestamp, TcpEvent)> + '_ {
        self.log.drain_records()
    }
    /// Turns on or off the log of latencies, the time of each segment from its first transmission to its
    /// acknowledgement, for [`drain_latencies`](Self::drain_latencies).
    pub fn set_latency_log(&mut self, on: bool) {
        self.log.set_latency_log(on);
    }
    /// The latencies since the last call.
    pub fn drain_latencies(&mut self) -> impl Iterator<Item = TimeDelta> + '_ {
        self.log.drain_latencies()
    }

    // ---- Segments in ----

    /// A segment arrived, with this ECN field in its IP header.
    // Always inlined: the caller's segment can stay in registers if nothing takes a reference to it.
    #[inline(always)]
    pub fn handle_segment(&mut self, now: Timestamp, segment: &Segment, ecn: Ecn) {
        const CONTROL: u16 = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0;
        self.log.stats.segments_received += 1;
        if self.state == State::Established && segment.flags.0 & CONTROL == Flags::ACK.0 {
            if !self.on_acknowledged(now, segment, ecn) {
                return;
            }
            if segment.len > 0 {
                self.on_payload(now, segment);
            } else if segment.seq < self.receiver.nxt() {
                // A probe of the window, or a keep-alive.
                self.receiver.request_ack();
            }
        } else {
            // A copy, here and wherever the common path ends, so that on it nothing takes a reference to the segment.
            let segment = *segment;
            self.handle_control(now, &segment, ecn);
        }
    }

    /// Timestamps, ECN and acknowledgement of a segment. One that acknowledges what was never sent is answered and dropped (RFC 9293 section
    /// 3.10.7.4), and so is one with payload whose timestamp is [old](Receiver::is_outdated). Returns whether it is to be looked at further.
    #[inline(always)]
    fn on_acknowledged(&mut self, now: Timestamp, segment: &Segment, ecn: Ecn) -> bool {
        let sound = segment.ack <= self.sender.nxt();
        if self.receiver.is_outdated(segment) {
            let segment = *segment;
            self.log.stats.duplicate_bytes += self.receiver.on_outdated(&segment);
            return false;
        }
        if sound {
            if self.receiver.on_header(segment, ecn) {
                self.log.stats.ce_marks += 1;
            }
            self.sender.on_ack(now, segment, &mut self.log);
        } else {
            self.receiver.request_ack();
        }
        sound
    }

    #[inline(always)]
    fn on_payload(&mut self, now: Timestamp, segment: &Segment) {
        let end = segment.seq + u64::from(segment.len);
        if self.receiver.is_simple(segment.seq, end) && self.sender.takes_fast_paths() {
            self.receiver.on_in_order(now, segment.len);
        } else {
            let segment = *segment;
            self.on_payload_slow(now, &segment);
        }
    }

    #[inline(never)]
    fn on_payload_slow(&mut self, now: Timestamp, segment: &Segment) {
        let fin = segment.flags.contains(Flags::FIN);
        let end = segment.seq + u64::from(segment.len) + u64::from(fin);
        let had_fin = self.receiver.fin_received();
        self.receiver.steer(now, segment);
        self.receiver.look_around(now, segment);
        let arrived = self.receiver.on_data(now, segment.seq, end, fin);
        self.receiver.resize(now);
        self.log.stats.duplicate_bytes += arrived.duplicate;
        self.log.stats.missing_bytes += arrived.missing;
        if !had_fin && self.receiver.fin_received() {
            self.on_fin(now);
        }
    }

    // ---- Time ----

    /// When to call [`handle_timeout`](Self::handle_timeout); [`Timestamp::NEVER`] if nothing is pending.
    #[inline]
    pub fn poll_timeout(&self) -> Timestamp {
        self.sender.poll_timeout().min(self.receiver.poll_timeout().min(self.linger))
    }

    /// Does what is due by `now`; nothing otherwise.
    #[inline]
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.receiver.handle_timeout(now);
        let opening = !self.state.is_synchronised();
        match self.sender.handle_timeout(now, &mut self.log, opening) {
            Expired::Nothing => {}
            Expired::Syn => self.request_syn(),
            Expired::GiveUp => self.finish(now, Outcome::TimedOut),
        }
        if now >= self.linger {
            let complete = self.state == State::TimeWait;
            self.finish(now, if complete { Outcome::Complete } else { Outcome::TimedOut });
        }
    }

    // ---- Segments out ----

    /// The next segment to send, with its ECN field. Call it until it returns `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<(Segment, Ecn)> {
        match (self.sender.next(), self.receiver.is_ack_due()) {
            (Next::None, false) => None,
            (Next::None, true) if self.state.is_synchronised() => Some(self.make_ack(now)),
            (Next::Full, false) => Some(self.sender.emit_full(now, &mut self.receiver, &mut self.log)),
            _ => self.poll_all(now),
        }
    }

    /// Sends every segment that may leave now to `to`: those that [`poll_transmit`](Self::poll_transmit) would return until it returns `None`.
    // For simulations: a segment on one of the two common paths is written where it is to lie, and nowhere before.
    #[inline(always)]
    pub fn transmit_to(&mut self, now: Timestamp, to: &mut impl Transmit) {
        loop {
            match (self.sender.next(), self.receiver.is_ack_due()) {
                (Next::None, false) => return,
                (Next::None, true) if self.state.is_synchronised() && !self.receiver.is_ack_special() => {
                    let (segment, ecn) = self.make_plain_ack(now);
                    to.transmit(&segment, ecn);
                }
                (Next::Full, false) => {
                    let (segment, ecn) = self.sender.emit_full(now, &mut self.receiver, &mut self.log);
                    to.transmit(&segment, ecn);
                }
                _ => match self.poll_all(now) {
                    Some((segment, ecn)) => to.transmit(&segment, ecn),
                    None => return,
                },
            }
        }
    }

    /// The next segment to send, whatever it is.
    #[inline(never)]
    fn poll_all(&mut self, now: Timestamp) -> Option<(Segment, Ecn)> {
        // Before anything acknowledges more than it.
        if self.receiver.is_early_due() && self.state.is_synchronised() {
            return Some(self.make_ack(now));
        }
        if (!matches!(self.control, Control::None) || self.sender.has_special())
            && let Some(out) = self.poll_special(now)
        {
            return Some(out);
        }
        // SACK blocks and the AccECN option go out without payload: a full segment would not fit beside them.
        if self.receiver.is_ack_due() && self.receiver.is_ack_special() && self.state.is_synchronised() {
            return Some(self.make_ack(now));
        }
        if self.sender.has_data()
            && let Some(out) = self.sender.poll_data(now, &mut self.receiver, &mut self.log)
        {
            self.on_data_sent(&out.0);
            return Some(out);
        }
        if self.receiver.is_ack_due() && self.state.is_synchronised() {
            return Some(self.make_ack(now));
        }
        if self.sender.may_speculate() {
            return self.sender.poll_speculative(now, &mut self.receiver, &mut self.log);
        }
        self.sender.note_quiet();
        None
    }

    #[inline]
    fn make_ack(&mut self, now: Timestamp) -> (Segment, Ecn) {
        if self.receiver.is_ack_special() {
            return self.make_special_ack(now);
        }
        self.make_plain_ack(now)
    }

    /// An acknowledgement without SACK blocks or AccECN option.
    #[inline(always)]
    fn make_plain_ack(&mut self, now: Timestamp) -> (Segment, Ecn) {
        let segment = self.receiver.header(now, self.sender.nxt());
        self.log.count_sent(&segment);
        (segment, self.receiver.codepoint())
    }

    #[inline(never)]
    fn make_special_ack(&mut self, now: Timestamp) -> (Segment, Ecn) {
        let segment = self.receiver.make_ack(now, self.sender.nxt());
        self.log.count_sent(&segment);
        (segment, self.receiver.codepoint())
    }

    /// Resets, SYNs, retransmissions and probes.
    #[inline(never)]
    fn poll_special(&mut self, now: Timestamp) -> Option<(Segment, Ecn)> {
        match std::mem::replace(&mut self.control, Control::None) {
            Control::None => {}
            Control::Syn => return Some(self.make_syn(now)),
            Control::Reset(at) => {
                let ResetAt { seq, ack } = *at;
                self.sender.cancel_probes();
                // Only an end that has a connection has timestamps.
                let timestamps = self.receiver.timestamp_option(now).filter(|_| self.receiver.nxt() > 0);
                let flags = if ack.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
                let segment = Segment { seq, ack: ack.unwrap_or(0), flags, timestamps, ..Segment::default() };
                self.log.count_sent(&segment);
                return Some((segment, self.receiver.codepoint()));
            }
        }
        if !self.state.is_synchronised() {
            return None;
        }
        let out = self.sender.poll_special(now, &mut self.receiver, &mut self.log)?;
        self.on_data_sent(&out.0);
        Some(out)
    }

    /// A SYN or SYN/ACK is to be sent, unless a reset is.
    fn request_syn(&mut self) {
        if matches!(self.control, Control::None) {
            self.sender.forget_outlook();
            self.control = Control::Syn;
        }
    }

    fn send_reset(&mut self, seq: u64, ack: Option<u64>) {
        self.sender.cancel_probes();
        self.control = Control::Reset(Box::new(ResetAt { seq, ack }));
    }

    /// A FIN may have left (RFC 9293 section 3.6).
    #[inline]
    fn on_data_sent(&mut self, segment: &Segment) {
        if segment.flags.contains(Flags::FIN) {
            self.state = match self.state {
                State::Established => State::FinWait1,
                State::CloseWait => State::LastAck,
                sent_before => sent_before,
            };
        }
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod layout {
    use std::mem::offset_of;

    use super::*;
    use crate::cc::Controller;

    #[test]
    fn each_part_begins_with_a_cache_line() {
        type Tcp = Connection<Controller>;
        assert_eq!(offset_of!(Tcp, receiver) % 64, 0, "{}", offset_of!(Tcp, receiver));
        assert_eq!(offset_of!(Tcp, sender) % 64, 0, "{}", offset_of!(Tcp, sender));
        // The pointer to the records and the first three counters.
        assert!(offset_of!(Tcp, log) + 32 <= 64, "{}", offset_of!(Tcp, log));
    }
}
