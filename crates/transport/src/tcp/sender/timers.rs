//! The sender's timers: the alarm, which watches over progress; an auxiliary one; and the pacing gate.

use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp};

use super::{Log, Probe, Sender};
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
    /// When it expires; [`Timestamp::NEVER`] while it is stopped.
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
}

/// What the auxiliary deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Auxiliary {
    /// Tail loss probe (RFC 8985 section 7).
    TailProbe,
    /// RACK's reordering window (RFC 8985 section 6.2 step 5).
    Reordering,
}

/// All timers of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    pub alarm: Timer<Alarm>,
    pub auxiliary: Timer<Auxiliary>,
    /// When the pacing gate opens for a segment that waits at it.
    pub pace_at: Timestamp,
}

impl Default for Timers {
    /// All stopped.
    fn default() -> Self {
        Timers {
            alarm: Timer::stopped(Alarm::Retransmit),
            auxiliary: Timer::stopped(Auxiliary::TailProbe),
            pace_at: Timestamp::NEVER,
        }
    }
}

/// What the connection must do after a time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tcp) enum Expired {
    Nothing,
    /// Send the SYN again.
    Syn,
    /// End: it was tried often enough.
    GiveUp,
}

/// Worst delay of an acknowledgement that a probe allows for when one segment is out (RFC 8985 section 7.2, WCDelAckT).
const WORST_ACK_DELAY: TimeDelta = TimeDelta::from_millis(200);

/// How much longer than two RTTs a probe waits at least where more is out, so that it does not go before an acknowledgement that is only
/// a little late (Linux TCP_TIMEOUT_MIN_US; RFC 8985 section 7.2 leaves the time to the implementation).
const LEAST_PROBE_WAIT: TimeDelta = TimeDelta::from_millis(2);

impl<C: CongestionControl> Sender<C> {
    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[inline]
    pub(in crate::tcp) fn poll_timeout(&self) -> Timestamp {
        self.timers.alarm.at().min(self.timers.auxiliary.at()).min(self.timers.pace_at)
    }

    /// Does what is due by `now`. `opening` while the handshake is not complete.
    #[inline]
    pub(in crate::tcp) fn handle_timeout(&mut self, now: Timestamp, log: &mut Log, opening: bool) -> Expired {
        if now >= self.timers.pace_at {
            self.timers.pace_at = Timestamp::NEVER;
        }
        if now >= self.timers.auxiliary.at() {
            self.on_auxiliary(now, log);
        }
        if now >= self.timers.alarm.at() { self.on_alarm(now, log, opening) } else { Expired::Nothing }
    }

    #[inline(never)]
    fn on_auxiliary(&mut self, now: Timestamp, log: &mut Log) {
        self.forget_outlook();
        self.timers.auxiliary.stop();
        match self.timers.auxiliary.purpose() {
            Auxiliary::Reordering => self.on_reordering_timeout(now, log),
            Auxiliary::TailProbe if self.una < self.nxt => {
                self.probe = Probe::Tail;
                self.timers.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
            }
            Auxiliary::TailProbe => {}
        }
    }

    #[inline(never)]
    fn on_alarm(&mut self, now: Timestamp, log: &mut Log, opening: bool) -> Expired {
        self.forget_outlook();
        self.timers.alarm.stop();
        match self.timers.alarm.purpose() {
            Alarm::Persist if self.retries > self.config.data_retries => return Expired::GiveUp,
            Alarm::Persist => {
                self.retries += 1;
                self.window_probes = self.window_probes.saturating_add(1);
                self.probe = Probe::Window;
                self.arm_persist(now);
            }
            Alarm::Retransmit if self.una == self.nxt => {}
            Alarm::Retransmit => return self.on_retransmission_timeout(now, log, opening),
        }
        Expired::Nothing
    }

    fn on_retransmission_timeout(&mut self, now: Timestamp, log: &mut Log, opening: bool) -> Expired {
        let limit = if opening { self.config.syn_retries } else { self.config.data_retries };
        if self.retries >= limit {
            return Expired::GiveUp;
        }
        self.retries += 1;
        log.stats.rtos += 1;
        if !opening {
            self.enter_loss(now, log, LossTrigger::Rto);
        }
        self.rtt.back_off();
        self.timers.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
        self.record_metrics(now, log);
        if opening { Expired::Syn } else { Expired::Nothing }
    }

    /// Restarts the deadlines, after data was acknowledged or was sent with nothing else in flight (RFC 6298 section
    /// 5, RFC 8985 section 7.2).
    #[inline]
    pub(super) fn rearm(&mut self, now: Timestamp) {
        self.rearm_in::<false>(now);
    }

    /// [`rearm`](Self::rearm); `CALM`: nothing is wrong (see [`is_calm`](Self::is_calm)).
    #[inline(always)]
    pub(super) fn rearm_in<const CALM: bool>(&mut self, now: Timestamp) {
        if self.una == self.nxt {
            self.timers.alarm.stop();
            self.timers.auxiliary.stop();
            return;
        }
        self.timers.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
        self.rearm_probe::<CALM>(now);
    }

    #[inline(always)]
    pub(super) fn rearm_probe<const CALM: bool>(&mut self, now: Timestamp) {
        debug_assert!(!CALM || self.is_calm());
        let expected =
            CALM || self.episode.may_probe() && self.tail_probe.is_none() && self.board.sacked == 0;
        if self.uses.tail_probes && expected {
            let srtt = self.rtt.srtt();
            let more = if self.board.len() == 1 { WORST_ACK_DELAY } else { LEAST_PROBE_WAIT };
            let wait = if srtt.is_zero() { TimeDelta::from_secs(1) } else { srtt * 2 + more };
            self.timers.auxiliary.set(Auxiliary::TailProbe, (now + wait).min(self.timers.alarm.at()));
        } else {
            self.timers.auxiliary.stop();
        }
    }

    /// Sets the alarm for a probe: the other side's window is closed, and nothing is in flight whose acknowledgement
    /// would open it.
    pub(super) fn arm_persist(&mut self, now: Timestamp) {
        let wait = self.rtt.rto().as_nanos().saturating_mul(1 << self.window_probes.min(20));
        self.timers.alarm.set(Alarm::Persist, now + TimeDelta::from_nanos(wait).min(self.config.max_rto));
    }
}
