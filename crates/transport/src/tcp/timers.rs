//! Timers: one alarm that is always about progress, one auxiliary, the delayed acknowledgement and the pacing gate.

use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp};

use super::connection::{Connection, pending};
use super::state::{Outcome, State};
use crate::cc::CongestionControl;

/// A deadline and what it is for. A timer that has stopped still knows what it was set for last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer<P> {
    purpose: P,
    at: Timestamp,
}

impl<P: Copy + PartialEq> Timer<P> {
    pub(super) const fn stopped(purpose: P) -> Self {
        Timer { purpose, at: Timestamp::NEVER }
    }
    /// When it goes off; [`Timestamp::NEVER`] while it is stopped.
    #[inline]
    pub(super) fn at(&self) -> Timestamp {
        self.at
    }
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.at.is_set()
    }
    /// What it is set for, or was last.
    #[inline]
    pub(super) fn purpose(&self) -> P {
        self.purpose
    }
    /// Whether it is set for `purpose`.
    #[inline]
    pub(super) fn is_set_for(&self, purpose: P) -> bool {
        self.purpose == purpose && self.at.is_set()
    }
    #[inline]
    pub(super) fn set(&mut self, purpose: P, at: Timestamp) {
        *self = Timer { purpose, at };
    }
    #[inline]
    pub(super) fn stop(&mut self) {
        self.at = Timestamp::NEVER;
    }
}

/// What the alarm is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// Retransmission time-out (RFC 6298).
    Retransmit,
    /// Zero-window probe (RFC 9293 section 3.8.6.1).
    Persist,
    /// End of FIN-WAIT-2 or TIME-WAIT.
    Linger,
}

/// What the auxiliary deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Auxiliary {
    /// Tail loss probe (RFC 8985 section 7).
    TailProbe,
    /// RACK's reordering window (RFC 8985 section 6.3).
    Reordering,
}

/// Worst delay of an acknowledgement that a probe allows for when one segment is out (RFC 8985 section 7.2, WCDelAckT).
const WORST_ACK_DELAY: TimeDelta = TimeDelta::from_millis(200);

impl<C: CongestionControl> Connection<C> {
    /// When [`handle_timeout`](Self::handle_timeout) is to be called; [`Timestamp::NEVER`] if nothing is due.
    #[inline]
    pub fn poll_timeout(&self) -> Timestamp {
        self.alarm.at().min(self.auxiliary.at()).min(self.rcv.delayed_until.min(self.pace_at))
    }

    /// Does what is due by `now`; nothing otherwise.
    #[inline]
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if now >= self.rcv.delayed_until {
            self.rcv.delayed_until = Timestamp::NEVER;
            self.rcv.ack_now = true;
        }
        if now >= self.pace_at {
            self.pace_at = Timestamp::NEVER;
        }
        if now >= self.auxiliary.at() {
            self.on_auxiliary(now);
        }
        if now >= self.alarm.at() {
            self.on_alarm(now);
        }
    }

    #[inline(never)]
    fn on_auxiliary(&mut self, now: Timestamp) {
        self.auxiliary.stop();
        match self.auxiliary.purpose() {
            Auxiliary::Reordering => self.on_reordering_timeout(now),
            Auxiliary::TailProbe if self.una < self.nxt => {
                self.pending |= pending::TAIL_PROBE;
                self.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
            }
            Auxiliary::TailProbe => {}
        }
    }

    #[inline(never)]
    fn on_alarm(&mut self, now: Timestamp) {
        self.alarm.stop();
        match self.alarm.purpose() {
            Alarm::Linger => {
                let complete = self.state == State::TimeWait;
                self.finish(now, if complete { Outcome::Complete } else { Outcome::TimedOut });
            }
            Alarm::Persist => {
                if self.retries > self.config.data_retries {
                    self.finish(now, Outcome::TimedOut);
                    return;
                }
                self.retries += 1;
                self.persist_count += 1;
                self.pending |= pending::WINDOW_PROBE;
                self.arm_persist(now);
            }
            Alarm::Retransmit if self.una == self.nxt => {}
            Alarm::Retransmit => self.on_retransmission_timeout(now),
        }
    }

    fn on_retransmission_timeout(&mut self, now: Timestamp) {
        let handshake = !self.state.is_synchronised();
        let limit = if handshake { self.config.syn_retries } else { self.config.data_retries };
        if self.retries >= limit {
            self.finish(now, Outcome::TimedOut);
            return;
        }
        self.retries += 1;
        self.stats.rtos += 1;
        if handshake {
            self.pending |= pending::SYN;
        } else {
            self.enter_loss(now, LossTrigger::Rto);
        }
        self.rtt.back_off();
        self.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
        self.record_metrics(now);
    }

    /// Data was acknowledged, or sent with nothing else out: the deadlines start anew (RFC 6298 section 5, RFC 8985 section
    /// 7.2).
    #[inline]
    pub(super) fn rearm(&mut self, now: Timestamp) {
        if self.una == self.nxt {
            self.alarm.stop();
            self.auxiliary.stop();
            if self.state == State::FinWait2 || self.state == State::TimeWait {
                self.arm_linger(now);
            }
            return;
        }
        self.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
        self.rearm_probe(now);
    }

    #[inline]
    pub(super) fn rearm_probe(&mut self, now: Timestamp) {
        if self.tlp_used && self.episode.is_open() && self.probe.is_none() && self.board.sacked == 0 {
            let srtt = self.rtt.srtt();
            let mut wait = if srtt.is_zero() { TimeDelta::from_secs(1) } else { srtt * 2 };
            if self.board.len() == 1 {
                wait += WORST_ACK_DELAY;
            }
            self.auxiliary.set(Auxiliary::TailProbe, (now + wait).min(self.alarm.at()));
        } else {
            self.auxiliary.stop();
        }
    }

    /// The other side's window is closed and nothing is in flight that would tell when it opens.
    pub(super) fn arm_persist(&mut self, now: Timestamp) {
        let wait = self.rtt.rto().as_nanos().saturating_mul(1 << self.persist_count.min(20));
        self.alarm.set(Alarm::Persist, now + TimeDelta::from_nanos(wait).min(self.config.max_rto));
    }

    pub(super) fn arm_linger(&mut self, now: Timestamp) {
        let span =
            if self.state == State::TimeWait { self.config.time_wait } else { self.config.fin_timeout };
        self.alarm.set(Alarm::Linger, now + span);
    }
}
