//! The states of a connection (RFC 9293 sections 3.5, 3.6 and 3.10.7): SYN exchange, FIN, resets.

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Segment, Timestamp};

use super::{Connection, Control, Outcome, State};
use crate::cc::CongestionControl;

impl<C: CongestionControl> Connection<C> {
    /// A SYN or SYN/ACK is to be sent.
    pub(super) fn start_syn(&mut self, now: Timestamp) {
        self.sender.push_syn(now);
        self.request_syn();
    }

    pub(super) fn make_syn(&mut self, now: Timestamp) -> (Segment, Ecn) {
        let answer = self.state == State::SynReceived;
        let (mut segment, again) = self.handshake.make(answer, self.receiver.syn_header(now));
        if answer {
            self.receiver.add_accecn_to_answer(&mut segment, again);
        }
        let codepoint = self.handshake.codepoint(answer);
        if again {
            self.sender.on_syn_again(now);
            self.log.stats.retransmitted_segments += 1;
        }
        self.log.count_sent(&segment);
        self.log.record(now, TcpEvent::Sent { seq: 0, len: 0, retransmit: again, probe: false });
        (segment, codepoint)
    }

    /// The other side's SYN.
    pub(super) fn on_syn(&mut self, segment: &Segment, ecn: Ecn) {
        let ce = ecn == Ecn::Ce;
        let agreed = self.handshake.on_syn(segment, ce);
        self.receiver.on_syn(segment, &agreed, ce);
        self.sender.agree(&agreed);
        self.sender.on_peer_window(segment);
    }

    /// Any segment outside the established state, and any with SYN, FIN or RST.
    #[inline(never)]
    pub(super) fn handle_control(&mut self, now: Timestamp, segment: &Segment, ecn: Ecn) {
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.on_listen(now, segment, ecn),
            State::SynSent => self.on_syn_sent(now, segment, ecn),
            _ => self.on_synchronised(now, segment, ecn),
        }
    }

    /// There is no connection here (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if segment.flags.contains(Flags::ACK) {
            self.send_reset(segment.ack, None);
        } else {
            self.send_reset(0, Some(segment.seq + segment.seq_len()));
        }
    }

    fn on_listen(&mut self, now: Timestamp, segment: &Segment, ecn: Ecn) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if segment.flags.contains(Flags::ACK) {
            self.refuse(segment);
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.on_syn(segment, ecn);
        self.state = State::SynReceived;
        self.start_syn(now);
    }

    fn on_syn_sent(&mut self, now: Timestamp, segment: &Segment, ecn: Ecn) {
        let acks = segment.flags.contains(Flags::ACK);
        if acks && segment.ack != self.sender.nxt() {
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
        self.on_syn(segment, ecn);
        if acks {
            self.establish(now, segment);
            self.receiver.request_ack();
        } else {
            // Simultaneous open (RFC 9293 section 3.5, figure 8): our SYN goes out again, with an ACK.
            self.state = State::SynReceived;
            self.request_syn();
        }
    }

    /// Our SYN is acknowledged.
    fn establish(&mut self, now: Timestamp, segment: &Segment) {
        self.sender.establish(now, segment, &mut self.log);
        self.state = State::Established;
        self.log.record(now, TcpEvent::Established);
        self.sender.record_metrics(now, &mut self.log);
    }

    fn on_synchronised(&mut self, now: Timestamp, segment: &Segment, ecn: Ecn) {
        let end = segment.seq + segment.seq_len();
        if segment.flags.contains(Flags::RST) {
            // RFC 5961 section 3.2: exactly the next byte resets, elsewhere in the window is challenged.
            if segment.seq == self.receiver.nxt() {
                let finished = matches!(self.state, State::Closing | State::LastAck | State::TimeWait);
                self.finish(
                    now,
                    if finished && self.sender.is_drained() { Outcome::Complete } else { Outcome::Reset },
                );
            } else if segment.seq > self.receiver.nxt() && segment.seq <= self.receiver.edge() {
                self.receiver.request_ack();
            }
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            if self.state == State::SynReceived && !segment.flags.contains(Flags::ACK) {
                // The SYN again: our answer was lost, or the SYNs crossed.
                self.request_syn();
                return;
            }
            if self.state != State::SynReceived {
                // A SYN/ACK again: our acknowledgement was lost; else a challenge (RFC 5961 section 4.2).
                self.receiver.request_ack();
                return;
            }
        }
        if !segment.flags.contains(Flags::ACK) {
            return;
        }
        if self.state == State::SynReceived {
            if segment.ack == 0 || segment.ack > self.sender.nxt() {
                self.refuse(segment);
                return;
            }
            self.establish(now, segment);
            if segment.flags.contains(Flags::SYN) {
                self.receiver.request_ack();
                return;
            }
        }
        if !self.on_acknowledged(now, segment, ecn) || self.is_closed() {
            return;
        }
        self.on_our_fin_acked(now);
        if self.is_closed() {
            return;
        }
        if end > segment.seq {
            if self.state == State::TimeWait {
                // The FIN again: our acknowledgement was lost.
                self.linger(now);
            }
            self.on_control_payload(now, segment);
        } else if segment.seq < self.receiver.nxt() {
            self.receiver.request_ack();
        }
        if self.state == State::FinWait2 {
            self.linger(now);
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
        if !self.sender.is_fin_acknowledged() {
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
        self.linger(now);
    }

    /// The time of FIN-WAIT-2 or TIME-WAIT begins, anew if it had begun.
    fn linger(&mut self, now: Timestamp) {
        let config = self.handshake.config();
        self.linger = now + if self.state == State::TimeWait { config.time_wait } else { config.fin_timeout };
    }

    /// The other side's FIN has been received, and everything before it.
    pub(super) fn on_fin(&mut self, now: Timestamp) {
        self.receiver.request_ack();
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
        if matches!(self.control, Control::Syn) {
            self.control = Control::None;
        }
        self.sender.stop();
        self.receiver.stop();
        self.linger = Timestamp::NEVER;
        self.log.record(now, TcpEvent::Closed { complete: outcome == Outcome::Complete });
    }
}
