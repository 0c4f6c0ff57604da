//! Segments out: new data, retransmissions and probes.

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Segment, TimeDelta, Timestamp};

use super::episode::Episode;
use super::pacing::burst_interval;
use super::sent::Sent;
use super::timers::{Alarm, Auxiliary};
use super::{Log, Probe, Receiver, Sender, TailProbe};
use crate::cc::CongestionControl;

impl<C: CongestionControl> Sender<C> {
    /// New data, if the windows, Nagle's rule and the pacing gate allow.
    #[inline]
    pub(in crate::tcp) fn poll_data(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
    ) -> Option<(Segment, Ecn)> {
        self.forget_outlook();
        let available = self.app_end.saturating_sub(self.nxt);
        let room = self.offered.end.saturating_sub(self.nxt);
        let len = self.mss.min(available).min(room);
        let fin = self.fin_requested && len == available;
        if len < self.mss && !self.may_send_small(now, len, available, room, fin) {
            return None;
        }
        let in_flight = self.in_flight();
        if in_flight + len.max(u64::from(fin)) > self.window || self.no_limited_transmit(len) {
            self.limited_until = self.nxt;
            return None;
        }
        if (self.paced || self.small_window) && !self.pacer.is_open(now) {
            // A window that a cap keeps from being used must not grow (Linux tcp_write_xmit).
            if !self.pacer.capped {
                self.limited_until = self.nxt;
            }
            self.timers.pace_at = self.pacer.next;
            return None;
        }
        let out = self.emit::<false>(now, rx, log, len as u32, fin);
        self.look_ahead::<false>();
        Some(out)
    }

    /// A full segment of new data, which [`next`](Self::next) has found free to leave.
    #[inline]
    pub(in crate::tcp) fn emit_full(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
    ) -> (Segment, Ecn) {
        self.emit::<true>(now, rx, log, self.mss as u32, false)
    }

    /// Without limited transmit (RFC 3042), duplicate acknowledgements release no new segments before recovery.
    #[inline]
    fn no_limited_transmit(&self, len: u64) -> bool {
        matches!(self.episode, Episode::Disorder(_))
            && !self.config.limited_transmit
            && self.nxt - self.una + len > self.window
    }

    /// RFC 6675 `NextSeg` rules 3 and 4, for when the window has room but no new data can be sent: a segment below
    /// the highest sacked one that is not known to be lost, or, once per recovery, the last one (rescue).
    #[cold]
    pub(in crate::tcp) fn poll_speculative(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
    ) -> Option<(Segment, Ecn)> {
        if self.board.has_waiting() || self.in_flight() + self.mss > self.window {
            return None;
        }
        if self.small_window || self.paced && !self.pacer.is_open(now) {
            return None;
        }
        if self.nxt < self.send_end && self.nxt < self.offered.end {
            return None;
        }
        if let Some(position) = self.board.next_unsacked_below_top() {
            return self.retransmit(now, rx, log, position, false);
        }
        match &mut self.episode {
            Episode::Recovery(recovery) if !recovery.rescued => recovery.rescued = true,
            _ => return None,
        }
        let position = self.board.last_position()?;
        let unknown = self.board.at(position)?.flags & (Sent::SACKED | Sent::RETRANS) == 0;
        if unknown { self.retransmit(now, rx, log, position, false) } else { None }
    }

    /// Segments that are not full: Nagle's rule, and the sender's side of silly window avoidance (RFC 1122 section
    /// 4.2.3.4).
    #[inline(never)]
    fn may_send_small(&mut self, now: Timestamp, len: u64, available: u64, room: u64, fin: bool) -> bool {
        let idle = self.una == self.nxt;
        if len == available && (len > 0 || fin) {
            // Minshall's form: only a small segment that is still unacknowledged holds the next one back.
            return fin || !self.config.nagle || self.small_end <= self.una;
        }
        if room == 0 {
            if idle && !self.timers.alarm.is_set_for(Alarm::Persist) {
                self.arm_persist(now);
            }
            return false;
        }
        // The window cuts the segment.
        let enough = room * 2 >= self.offered.largest;
        if !enough && idle && !self.timers.alarm.is_set_for(Alarm::Persist) {
            self.arm_persist(now);
        }
        enough
    }

    /// Sends `len` bytes of new data, with the FIN after them if `fin`. `STREAM`: the segment is of a [stream](super::outlook::Outlook::Stream),
    /// so what cannot be the case then is not asked for.
    #[inline]
    fn emit<const STREAM: bool>(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
        len: u32,
        fin: bool,
    ) -> (Segment, Ecn) {
        let idle = !STREAM && self.una == self.nxt;
        if idle {
            self.on_first_in_flight(now);
        }
        let mut segment = rx.header(now, self.nxt);
        segment.len = len;
        let mut marks = 0;
        if fin {
            segment.flags = segment.flags.with(Flags::FIN);
            marks |= Sent::FIN;
        }
        if !STREAM && self.nxt + u64::from(len) >= self.app_end {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        let ecn = if STREAM || len > 0 { self.uses.ecn.data() } else { rx.codepoint() };
        if !STREAM && self.cwr_pending && len > 0 {
            segment.flags = segment.flags.with(Flags::CWR);
            self.cwr_pending = false;
        }
        let state = self.rate.on_send(now, idle);
        marks |= state.mark;
        let seq_len = len + u32::from(fin);
        self.board.push(Sent {
            seq: self.nxt,
            sent_at: now,
            first_sent_at: now,
            delivered: state.delivered,
            send_span: state.send_span,
            ack_span: state.ack_span,
            len: seq_len,
            flags: marks,
            sacked_behind: 0,
        });
        self.nxt += u64::from(seq_len);
        if !STREAM && u64::from(len) < self.mss {
            self.small_end = self.nxt;
        }
        log.stats.data_segments_sent += 1;
        self.after_sending::<STREAM>(now, log, &segment);
        if !STREAM && (idle || !self.timers.alarm.is_set_for(Alarm::Retransmit)) {
            self.rearm(now);
        } else if self.timers.auxiliary.is_set() || self.board.len() == 2 {
            self.rearm_tail::<STREAM>(now);
        }
        if log.is_recording() {
            let event = TcpEvent::Sent { seq: segment.seq, len, retransmit: false, probe: false };
            log.record(now, event);
        }
        (segment, ecn)
    }

    /// A probe of the tail waits for the newest segment (RFC 8985 section 7.2).
    #[inline]
    fn rearm_tail<const CALM: bool>(&mut self, now: Timestamp) {
        if self.timers.auxiliary.purpose() == Auxiliary::TailProbe {
            self.rearm_probe::<CALM>(now);
        }
    }

    /// Sending begins anew with nothing in flight.
    fn on_first_in_flight(&mut self, now: Timestamp) {
        self.window_probes = 0;
        self.note_restart(now);
        if self.config.idle_restart && self.last_sent_at > Timestamp::ZERO {
            // The wait of a window below one segment is the congestion control's own, not the application's.
            let idle_since = self.last_sent_at.max(self.pacer.next);
            let (idle, rto) = (now.saturating_since(idle_since), self.rtt.rto());
            if idle > rto {
                self.cc.on_idle(now, idle, rto);
                self.refresh_window();
            }
        }
    }

    /// Sending begins with nothing in flight.
    fn note_restart(&mut self, now: Timestamp) {
        self.cc.on_restart(now, self.rate.is_sampled() && self.rate.is_limited());
    }

    /// What every segment that takes up window needs when it is sent: congestion control, pacing, counters. `STREAM` as in [`emit`](Self::emit).
    #[inline]
    fn after_sending<const STREAM: bool>(&mut self, now: Timestamp, log: &mut Log, segment: &Segment) {
        let bytes = u64::from(segment.len);
        self.last_sent_at = now;
        self.cc.on_sent(now, bytes, self.in_flight());
        if !STREAM {
            if let Some(prr) = self.episode.prr() {
                prr.on_sent(bytes);
            }
            if self.paced || self.small_window {
                self.pace(now, segment);
            }
        }
        log.count_sent(segment);
    }

    #[inline(never)]
    fn pace(&mut self, now: Timestamp, segment: &Segment) {
        let srtt = self.rtt.srtt();
        if self.small_window && !srtt.is_zero() {
            let cwnd = self.cc.cwnd().min(self.window_bound());
            let burst = self.small_window_burst();
            self.pacer.on_sent_in_burst(now, burst, burst_interval(burst, self.mss, cwnd, srtt));
        }
        let wire = u64::from(segment.wire_size());
        let own = self.cc.pacing_rate();
        let span = match own {
            Some(rate) if self.cc.paces_payload() => rate.time_for(u64::from(segment.len)),
            Some(rate) => rate.time_for(wire),
            None if self.config.pacing && !srtt.is_zero() && !self.small_window => {
                let slow_start = self.cc.cwnd() < self.cc.ssthresh() / 2;
                let gain =
                    if slow_start { self.config.pacing_gain_slow_start } else { self.config.pacing_gain };
                let rate = gain * self.window.max(self.mss) as f64 / srtt.as_nanos() as f64;
                TimeDelta::from_nanos((segment.len as f64 / rate) as u64)
            }
            None => TimeDelta::ZERO,
        };
        let least = self.config.max_rate.map_or(TimeDelta::ZERO, |cap| cap.time_for(wire));
        self.pacer.capped = least > span && !self.small_window;
        let span = span.max(least);
        if !span.is_zero() {
            self.pacer.on_sent(now, span, u64::from(segment.len), self.cc.send_quantum());
        }
    }

    /// Retransmissions and probes.
    pub(in crate::tcp) fn poll_special(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
    ) -> Option<(Segment, Ecn)> {
        self.forget_outlook();
        if let Some(position) = self.board.next_waiting() {
            return self.poll_retransmission(now, rx, log, position);
        }
        match std::mem::replace(&mut self.probe, Probe::None) {
            Probe::None => None,
            Probe::Tail => self.make_tail_probe(now, rx, log),
            Probe::Window => self.make_window_probe(now, rx, log),
        }
    }

    fn poll_retransmission(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
        position: u64,
    ) -> Option<(Segment, Ecn)> {
        let sent = self.board.at(position)?;
        let len = u64::from(sent.len);
        // Beyond a window that was taken back only the oldest segment goes out, as a probe of the window (Linux __tcp_retransmit_skb).
        let outside = sent.seq >= self.offered.end && sent.seq > self.una;
        if outside || self.episode.holds_retransmissions() {
            return None;
        }
        if !self.episode.take_force() {
            if self.in_flight() + len > self.window {
                self.limited_until = self.nxt;
                return None;
            }
            if (self.paced || self.small_window) && !self.pacer.is_open(now) {
                self.timers.pace_at = self.pacer.next;
                return None;
            }
        }
        self.retransmit(now, rx, log, position, false)
    }

    fn retransmit(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
        position: u64,
        probe: bool,
    ) -> Option<(Segment, Ecn)> {
        let idle = self.in_flight() == 0;
        if idle {
            self.note_restart(now);
        }
        let alone = self.board.retrans == 0;
        let state = self.rate.on_send(now, idle);
        let sent = if probe {
            self.board.probe_last(now, state)?
        } else {
            self.board.retransmit(position, now, state, self.uses.rack)?
        };
        let mut segment = rx.header(now, sent.seq);
        segment.len = sent.payload();
        if sent.flags & Sent::FIN != 0 {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if sent.end() >= self.app_end {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        if alone && !probe {
            self.repeats_from = segment.timestamps.map(|(value, _)| value);
        }
        if let Some(undo) = &mut self.undo
            && !probe
        {
            undo.on_retransmit(self.repeats_from);
        }
        log.stats.retransmitted_segments += 1;
        log.stats.retransmitted_bytes += u64::from(segment.len);
        log.stats.data_segments_sent += 1;
        self.after_sending::<false>(now, log, &segment);
        if sent.seq == self.una && !self.is_impatient() || !self.timers.alarm.is_set() {
            self.timers.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
        }
        let event = TcpEvent::Sent { seq: segment.seq, len: segment.len, retransmit: true, probe };
        log.record(now, event);
        // Retransmissions are not ECN-capable (RFC 3168 section 6.1.5), unless everything is.
        Some((segment, rx.codepoint()))
    }

    /// The probe of RFC 8985 section 7.3: new data, if there is any and the other side's window admits it, else the
    /// last segment once more.
    fn make_tail_probe(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
    ) -> Option<(Segment, Ecn)> {
        if self.una == self.nxt || !self.episode.may_probe() || self.board.sacked > 0 {
            return None;
        }
        log.stats.tail_probes += 1;
        let available = self.app_end.saturating_sub(self.nxt);
        let room = self.offered.end.saturating_sub(self.nxt);
        let len = self.mss.min(available).min(room);
        let fin = self.fin_requested && len == available;
        let again = !(self.nxt < self.send_end && (len > 0 || fin));
        let out = if again {
            self.retransmit(now, rx, log, self.board.last_position()?, true)?
        } else {
            self.emit::<false>(now, rx, log, len as u32, fin)
        };
        self.tail_probe = Some(TailProbe { end: self.nxt, again });
        self.timers.auxiliary.stop();
        self.timers.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
        Some(out)
    }

    /// A probe that asks how large the window is: as much data as fits, or, if none fits, an old sequence number as
    /// in Linux.
    fn make_window_probe(
        &mut self,
        now: Timestamp,
        rx: &mut Receiver,
        log: &mut Log,
    ) -> Option<(Segment, Ecn)> {
        if self.una < self.nxt || self.nxt >= self.send_end {
            return None;
        }
        let available = self.app_end.saturating_sub(self.nxt);
        let len = self.mss.min(available).min(self.offered.end.saturating_sub(self.nxt));
        if len > 0 {
            return Some(self.emit::<false>(
                now,
                rx,
                log,
                len as u32,
                self.fin_requested && len == available,
            ));
        }
        log.stats.window_probes += 1;
        let segment = rx.header(now, self.una - 1);
        log.count_sent(&segment);
        Some((segment, rx.codepoint()))
    }
}
