//! The beginning and the end of a connection (RFC 9293 sections 3.5, 3.6 and 3.10.7): SYN exchange, FIN, resets.

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Segment, SynOptions, Timestamp};

use super::ack::Said;
use super::config::LossRecovery;
use super::connection::{Connection, pending};
use super::ecn::EcnState;
use super::episode::Episode;
use super::receiver::Receiver;
use super::scoreboard::Sent;
use super::state::{Outcome, State};
use crate::cc::CongestionControl;

impl<C: CongestionControl> Connection<C> {
    /// A SYN or SYN/ACK is to be sent: sequence number zero.
    pub(super) fn start_syn(&mut self, now: Timestamp) {
        self.board.push(Sent {
            len: 1,
            flags: Sent::SYN,
            sent_at: now,
            first_sent_at: now,
            ..Sent::default()
        });
        self.nxt = 1;
        self.pending |= pending::SYN;
        self.rearm(now);
    }

    pub(super) fn make_syn(&mut self, now: Timestamp) -> (Segment, Ecn) {
        let answer = self.state == State::SynReceived;
        let scale = self.config.window_scaling.then(|| Receiver::wanted_scale(&self.config));
        let mut flags = if answer { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        if answer && self.ecn.enabled {
            flags = flags.with(Flags::ECE);
        } else if !answer && self.config.ecn {
            flags = flags.with(EcnState::OFFER);
        }
        let window = self.rcv.acknowledge(true);
        let segment = Segment {
            seq: 0,
            ack: self.rcv.nxt,
            window,
            flags,
            // A SYN/ACK has an option only if the SYN had it.
            timestamps: self.timestamp_option(now),
            syn: SynOptions {
                mss: self.config.mss.min(65_535) as u16,
                window_scale: if answer && !self.scaling { None } else { scale },
                sack_permitted: if answer { self.sack_offered } else { self.config.sack },
            },
            ..Segment::default()
        };
        let again = self.syn_sent;
        self.syn_sent = true;
        if again {
            let state = self.rate.on_send(now, true);
            let position = self.board.last_position().unwrap_or(0);
            self.board.retransmit(position, now, state, false);
            self.stats.retransmitted_segments += 1;
        }
        self.count_sent(&segment);
        let event = TcpEvent::Sent { seq: 0, len: 0, retransmit: again, probe: false };
        self.record(now, event);
        (segment, Ecn::NotEct)
    }

    /// The other side's SYN: what it offers, and what is agreed.
    fn on_syn(&mut self, segment: &Segment) {
        let answer = segment.flags.contains(Flags::ACK);
        self.rcv.nxt = 1;
        self.timestamps = self.config.timestamps && segment.timestamps.is_some();
        if let Some((value, _)) = segment.timestamps {
            self.rcv.ts_recent = value;
        }
        self.scaling = self.config.window_scaling && segment.syn.window_scale.is_some();
        self.rcv.set_scale(if self.scaling { Receiver::wanted_scale(&self.config) } else { 0 });
        self.sack_offered = self.config.sack && segment.syn.sack_permitted;
        self.sack_used = self.sack_offered && self.config.recovery == LossRecovery::Sack;
        self.rack_used = self.sack_used && self.config.rack;
        self.tlp_used = self.sack_used && self.config.tlp;
        let peer_mss = if segment.syn.mss == 0 { 536 } else { u32::from(segment.syn.mss) };
        let options = if self.timestamps { 12 } else { 0 };
        self.mss = u64::from(self.config.mss.min(peer_mss).saturating_sub(options).max(1));
        self.burst_bytes = u64::from(self.config.small_window_burst) * self.mss;
        // RFC 3168 section 6.1.1: a SYN offers with both flags, a SYN/ACK agrees with ECE alone.
        let both = segment.flags.contains(EcnState::OFFER);
        let ece = segment.flags.contains(Flags::ECE);
        self.ecn.enabled = self.config.ecn && if answer { ece && !both } else { both };
        self.on_peer_window(segment);
    }

    fn on_peer_window(&mut self, segment: &Segment) {
        self.window_end = self.window_end.max(1 + u64::from(segment.window));
        self.max_offered = self.max_offered.max(u64::from(segment.window));
    }

    /// Any segment outside the established state, and any with SYN, FIN or RST.
    #[inline(never)]
    pub(super) fn handle_control(&mut self, now: Timestamp, segment: &Segment, ce: bool) {
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.on_listen(now, segment),
            State::SynSent => self.on_syn_sent(now, segment),
            _ => self.on_synchronised(now, segment, ce),
        }
    }

    /// There is no connection here (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        let seq = if segment.flags.contains(Flags::ACK) { segment.ack } else { 0 };
        self.reset = (seq, segment.seq + segment.seq_len());
        self.pending = pending::RST;
    }

    fn on_listen(&mut self, now: Timestamp, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if segment.flags.contains(Flags::ACK) || !segment.flags.contains(Flags::SYN) {
            self.refuse(segment);
            return;
        }
        self.on_syn(segment);
        self.state = State::SynReceived;
        self.start_syn(now);
    }

    fn on_syn_sent(&mut self, now: Timestamp, segment: &Segment) {
        let acks = segment.flags.contains(Flags::ACK);
        if acks && segment.ack != self.nxt {
            self.refuse(segment);
            return;
        }
        if segment.flags.contains(Flags::RST) {
            if acks {
                self.finish(now, Outcome::Reset);
            }
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.on_syn(segment);
        if acks {
            self.establish(now, segment);
            self.rcv.ack_now = true;
        } else {
            // Simultaneous open (RFC 9293 section 3.5, figure 8): our SYN goes out again, with an ACK.
            self.state = State::SynReceived;
            self.pending |= pending::SYN;
        }
    }

    /// Our SYN is acknowledged.
    fn establish(&mut self, now: Timestamp, segment: &Segment) {
        while let Some(sent) = self.board.pop(1) {
            if sent.was_retransmitted() {
                // RFC 5681 section 3.1: after the loss of a SYN the window starts at one segment.
                self.ramp = self.mss;
                match self.echo_rtt(now, Said::by(segment)) {
                    Some(rtt) => self.stats.note_rtt(rtt),
                    None => self.rtt.restart_after_syn_loss(),
                }
            } else {
                let rtt = now.saturating_since(sent.sent_at);
                self.rtt.sample(rtt, 1, 1);
                self.rtt.note_min(rtt);
                self.stats.note_rtt(rtt);
            }
        }
        self.una = 1;
        self.retries = 0;
        self.state = State::Established;
        self.on_peer_window(segment);
        self.update_send_end();
        self.rearm(now);
        self.refresh_window();
        self.record(now, TcpEvent::Established);
        self.record_metrics(now);
    }

    fn on_synchronised(&mut self, now: Timestamp, segment: &Segment, ce: bool) {
        let end = segment.seq + segment.seq_len();
        if segment.flags.contains(Flags::RST) {
            // RFC 5961 section 3.2: exactly the next byte resets, elsewhere in the window is challenged.
            if segment.seq == self.rcv.nxt {
                let data_acked = self.una >= self.app_end && self.fin_requested;
                let finished = matches!(self.state, State::Closing | State::LastAck | State::TimeWait);
                self.finish(now, if finished && data_acked { Outcome::Complete } else { Outcome::Reset });
            } else if segment.seq > self.rcv.nxt && segment.seq <= self.rcv.edge {
                self.rcv.ack_now = true;
            }
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            if self.state == State::SynReceived && !segment.flags.contains(Flags::ACK) {
                // The SYN again: our answer was lost, or the SYNs crossed.
                self.pending |= pending::SYN;
                return;
            }
            if self.state != State::SynReceived {
                // A SYN/ACK again: our acknowledgement was lost; else a challenge (RFC 5961 section 4.2).
                self.rcv.ack_now = true;
                return;
            }
        }
        if !segment.flags.contains(Flags::ACK) {
            return;
        }
        if self.state == State::SynReceived {
            if segment.ack == 0 || segment.ack > self.nxt {
                self.refuse(segment);
                return;
            }
            self.establish(now, segment);
            if segment.flags.contains(Flags::SYN) {
                self.rcv.ack_now = true;
                return;
            }
        }
        self.on_header(segment, ce);
        self.on_ack(now, segment);
        if self.is_closed() {
            return;
        }
        self.on_our_fin_acked(now);
        if self.is_closed() {
            return;
        }
        if end > segment.seq {
            if self.state == State::TimeWait {
                // The FIN again: our acknowledgement was lost.
                self.arm_linger(now);
            }
            self.on_control_payload(now, segment);
        } else if segment.seq < self.rcv.nxt {
            self.rcv.ack_now = true;
        }
        if self.state == State::FinWait2 {
            self.arm_linger(now);
        }
    }

    fn on_control_payload(&mut self, now: Timestamp, segment: &Segment) {
        if segment.flags.contains(Flags::FIN) || segment.len == 0 {
            self.on_payload_slow(now, segment);
        } else {
            self.on_payload(now, segment);
        }
    }

    fn on_our_fin_acked(&mut self, now: Timestamp) {
        if !self.fin_requested || self.una != self.nxt || self.nxt != self.send_end {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.finish(now, Outcome::Complete),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Timestamp) {
        self.state = State::TimeWait;
        self.auxiliary.stop();
        self.arm_linger(now);
    }

    /// The other side's FIN has been received, and everything before it.
    pub(super) fn on_fin(&mut self, now: Timestamp) {
        self.rcv.ack_now = true;
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// The connection ends. An acknowledgement or reset that is due still goes out.
    pub(super) fn finish(&mut self, now: Timestamp, outcome: Outcome) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = Some(outcome);
        self.state = State::Closed;
        self.episode = Episode::OPEN;
        self.pending &= pending::RST;
        self.send_end = 0;
        self.alarm.stop();
        self.auxiliary.stop();
        self.pace_at = Timestamp::NEVER;
        self.rcv.delayed_until = Timestamp::NEVER;
        self.rcv.ack_now = false;
        self.board = Default::default();
        self.nxt = self.una;
        self.record(now, TcpEvent::Closed { complete: outcome == Outcome::Complete });
    }
}
