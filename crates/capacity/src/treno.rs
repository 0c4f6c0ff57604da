//! TReno: the capacity of a path from one side. Probes are sent as a TCP's segments would be, and the answers to them (an echo, a router's time
//! exceeded, a closed port) stand for acknowledgements.
//!
//! Every answer acknowledges only its own probe. On top of that, forward acknowledgement (FACK, Mathis and Mahdavi 1996) is emulated: a probe is
//! lost when one sent [`TrenoOptions::dupacks`] later has been answered. What was sent before a loss was found, and is found lost after its recovery, is no
//! further congestion (the "overdamping" of the same paper). The loss of a probe cannot be distinguished from the loss of its answer.
//!
//! The window is in bytes. Up to the threshold (`cwnd <= ssthresh`) it grows by the acknowledged bytes, above it by `MSS * bytes / cwnd` (RFC 3465
//! with L = 2). A loss begins one round trip of rate halving: one probe for two answers; then `cwnd = ssthresh = (old - lost) / 2`. A
//! time-out sets `ssthresh = cwnd / 4` and the window to one segment, and doubles the next time-out. Time-outs follow RFC 6298, one sample
//! per round trip.
//!
//! Delayed acknowledgements are emulated like this: answers are taken in pairs, as one acknowledgement of both probes, when the second of them
//! arrives. An answer that waits alone for [`TrenoOptions::delayed_ack`] is taken by itself, and so is any that shows a gap or arrives in recovery.

use std::collections::{BTreeMap, VecDeque};

use warpline_core::{TimeDelta, Timestamp};

use super::prober::{Probe, Prober};
use super::treno_options::{HEADERS, SIZES, TrenoOptions};
use super::treno_results::{ProbeReply, TrenoOutcome, TrenoResults, TrenoSample};
use warpline_transport::tcp::Rtt;
use warpline_transport::tcp::{RtoVariance, TcpConfig};

#[derive(Clone, Copy, Debug)]
struct Out {
    /// The data it stands for.
    data: u64,
    at: Timestamp,
    bytes: u32,
    /// Whether the data had been sent before.
    again: bool,
}

/// One round trip of rate halving.
#[derive(Clone, Copy, Debug)]
struct Halving {
    /// It ends when this probe, or a later one, is answered.
    until: u64,
    old_cwnd: u64,
    lost: u64,
    /// Answers since the last probe.
    answers: u32,
}

/// The sender of a TReno test.
///
/// It is used as a [`Prober`].
#[derive(Debug)]
pub struct Treno {
    options: TrenoOptions,
    mss: u64,
    mtu: u32,
    cwnd: u64,
    ssthresh: u64,
    rtt: Rtt,
    /// Next probe, and next data never sent.
    next: u64,
    next_data: u64,
    /// Probes that are neither answered nor considered lost.
    out: BTreeMap<u64, Out>,
    in_flight: u64,
    /// Data to be sent again.
    lost: VecDeque<u64>,
    /// Data whose first probe could not be sent.
    unsent: Vec<u64>,
    /// Data that was considered lost and has been answered since: not to be sent again.
    answered: BTreeMap<u64, u64>,
    /// Highest probe answered, plus one.
    fack: u64,
    halving: Option<Halving>,
    /// Probes before this one were sent before the last loss was found. Those of them that are found lost later belong to the same congestion.
    recover: u64,
    /// Probes that answers have earned, in rate halving.
    allowed: u32,
    alarm: Timestamp,
    repeated: bool,
    /// An answer that waits for a second one, and when it is taken by itself.
    held: Option<(Timestamp, u64)>,
    started: Option<Timestamp>,
    heard: Timestamp,
    /// The time in each phase by then.
    heard_phases: [u64; 4],
    since: Timestamp,
    outcome: Option<TrenoOutcome>,
    results: TrenoResults,
}

impl Treno {
    /// A sender. `options` should have passed [`TrenoOptions::validate`].
    pub fn new(options: TrenoOptions) -> Self {
        let config = TcpConfig {
            initial_rto: options.initial_rto,
            min_rto: options.min_rto,
            max_rto: options.max_rto,
            rto_variance: RtoVariance::Rfc6298,
            ..TcpConfig::default()
        };
        let mss = u64::from(options.mtu.saturating_sub(HEADERS).max(1));
        let segments = options.flat_window.unwrap_or(options.initial_window);
        Treno {
            mss,
            mtu: options.mtu,
            cwnd: (u64::from(segments) * mss).min(options.max_window.max(mss)),
            ssthresh: u64::MAX,
            rtt: Rtt::new(&config),
            next: 0,
            next_data: 0,
            out: BTreeMap::new(),
            in_flight: 0,
            lost: VecDeque::new(),
            unsent: Vec::new(),
            answered: BTreeMap::new(),
            fack: 0,
            halving: None,
            recover: 0,
            allowed: 0,
            alarm: Timestamp::NEVER,
            repeated: false,
            held: None,
            started: None,
            heard: Timestamp::ZERO,
            heard_phases: [0; 4],
            since: Timestamp::ZERO,
            outcome: None,
            results: TrenoResults { mtu: u64::from(options.mtu), ..TrenoResults::default() },
            options,
        }
    }

    /// How it ended, when it has.
    pub fn outcome(&self) -> Option<TrenoOutcome> {
        self.outcome
    }
    /// The counts so far.
    pub fn results(&self) -> &TrenoResults {
        &self.results
    }
    /// Time since the first probe; `None` before it.
    pub fn elapsed(&self, now: Timestamp) -> Option<TimeDelta> {
        self.started.map(|started| now.saturating_since(started))
    }
    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }
    /// Slow-start threshold in bytes; `u64::MAX` while unset.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }
    /// Smoothed round-trip time; zero before the first answer.
    pub fn srtt(&self) -> TimeDelta {
        self.rtt.srtt()
    }
    /// Bytes of data in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Notes that the path answers; all time up to now has been accrued.
    fn hear(&mut self, now: Timestamp) {
        (self.heard, self.heard_phases) = (now, self.results.phases());
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    fn accrue(&mut self, now: Timestamp) {
        let span = now.saturating_since(self.since).as_nanos();
        self.since = self.since.max(now);
        if self.started.is_none() {
            return;
        }
        if self.halving.is_some() {
            self.results.recovery_ns += span;
        } else if self.in_slow_start() {
            self.results.slow_start_ns += span;
        } else {
            self.results.avoidance_ns += span;
        }
        if self.cwnd >= self.options.max_window && self.halving.is_none() {
            self.results.window_limited_ns += span;
        }
    }

    /// The current state; `None` before the first probe.
    pub fn sample(&self, now: Timestamp) -> Option<TrenoSample> {
        let elapsed = self.elapsed(now)?;
        Some(TrenoSample {
            elapsed_ns: elapsed.as_nanos(),
            data_bytes: self.results.data_bytes,
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            in_flight: self.in_flight,
            srtt_ns: self.srtt().as_nanos(),
            lost: self.results.lost,
            retransmits: self.results.retransmits,
            timeouts: self.results.timeouts,
        })
    }

    fn finish(&mut self, now: Timestamp, outcome: TrenoOutcome) {
        if self.outcome.is_some() {
            return;
        }
        self.accrue(now);
        self.results.elapsed_ns = self.elapsed(now).map_or(0, TimeDelta::as_nanos);
        self.results.final_cwnd = self.cwnd;
        self.results.mtu = u64::from(self.mtu);
        let patience = TimeDelta::from_nanos(self.results.rtt_max_ns.saturating_mul(2));
        self.results.overdue =
            self.out.values().filter(|out| now.saturating_since(out.at) > patience).count() as u64;
        self.outcome = Some(outcome);
    }

    /// The probe had been given up, or answered. Its data need not be sent again.
    fn on_stray(&mut self, number: u64) {
        self.results.stray_replies += 1;
        if let Some(data) = self.answered.remove(&number)
            && let Some(place) = self.lost.iter().position(|&lost| lost == data)
        {
            self.lost.remove(place);
            let bytes = self.mss;
            self.deliver(bytes);
        }
    }

    fn deliver(&mut self, bytes: u64) {
        self.results.data_bytes += bytes;
        *if self.halving.is_some() {
            &mut self.results.recovery_bytes
        } else if self.in_slow_start() {
            &mut self.results.slow_start_bytes
        } else {
            &mut self.results.avoidance_bytes
        } += bytes;
    }

    /// FACK: probes sent `dupacks` or more before the latest answered probe are lost.
    fn find_losses(&mut self, now: Timestamp) {
        let edge = (self.fack).saturating_sub(u64::from(self.options.dupacks));
        let (mut newly, mut last) = (0, 0);
        while let Some((&number, &out)) = self.out.first_key_value()
            && number < edge
        {
            self.out.pop_first();
            self.in_flight -= u64::from(out.bytes);
            self.give_up(number, out.data);
            (newly, last) = (newly + 1, number);
        }
        if newly == 0 || self.options.flat_window.is_some() {
            return;
        }
        match &mut self.halving {
            Some(halving) => halving.lost += newly,
            None if last < self.recover => {}
            None => {
                self.accrue(now);
                self.results.recoveries += 1;
                self.results.congestion_signals += 1;
                self.recover = self.next;
                self.halving =
                    Some(Halving { until: self.next, old_cwnd: self.cwnd, lost: newly, answers: 0 });
                self.allowed = 0;
                // In recovery each answer is taken by itself, including the waiting one.
                self.in_flight -= self.held.take().map_or(0, |(_, bytes)| bytes);
            }
        }
    }

    fn give_up(&mut self, number: u64, data: u64) {
        self.results.lost += 1;
        self.lost.push_back(data);
        self.answered.insert(number, data);
        // Keeps a window or two of late answers, not those of the whole test.
        while self.answered.len() > 1 << 16 {
            self.answered.pop_first();
        }
    }

    /// Updates the window for an answer.
    fn count(&mut self, now: Timestamp, number: u64, gap: bool) {
        if self.options.flat_window.is_some() {
            return;
        }
        if let Some(halving) = &mut self.halving {
            if number >= halving.until {
                self.end_halving(now);
            } else {
                halving.answers += 1;
                if halving.answers == 2 {
                    halving.answers = 0;
                    self.allowed += 1;
                }
            }
            return;
        }
        match (self.options.delayed_ack, self.held.take()) {
            (Some(wait), None) if !gap => {
                // It will be acknowledged with the next one: until then its probe counts as in flight.
                self.in_flight += self.mss;
                self.held = Some((now + wait, self.mss));
            }
            (_, held) => {
                let waited = held.map_or(0, |(_, bytes)| bytes);
                self.in_flight -= waited.min(self.in_flight);
                self.grow(waited + self.mss);
            }
        }
    }

    /// Ends the round trip of rate halving.
    fn end_halving(&mut self, now: Timestamp) {
        let Some(halving) = self.halving else { return };
        self.accrue(now);
        self.results.max_cluster = self.results.max_cluster.max(halving.lost);
        self.halving = None;
        self.allowed = 0;
        let lost = halving.lost * self.mss;
        self.cwnd = (halving.old_cwnd.saturating_sub(lost) / 2).max(self.mss);
        self.ssthresh = self.cwnd.max(2 * self.mss);
    }

    /// Takes back a probe that was never on the path: its data has yet to be sent. Returns whether it was outstanding.
    fn take_back(&mut self, number: u64) -> bool {
        let Some(out) = self.out.remove(&number) else { return false };
        self.in_flight -= u64::from(out.bytes);
        if out.again {
            self.lost.push_front(out.data);
            self.results.retransmits -= 1;
        } else {
            self.unsent.push(out.data);
        }
        self.allowed += u32::from(self.halving.is_some());
        self.results.probes -= 1;
        self.results.probe_wire_bytes -= u64::from(self.mtu);
        true
    }

    /// Grows the window for an acknowledgement of so many bytes.
    fn grow(&mut self, bytes: u64) {
        let step = if self.in_slow_start() { bytes } else { (self.mss * bytes / self.cwnd).max(1) };
        self.cwnd = (self.cwnd + step).min(self.options.max_window.max(self.mss));
        let peak = if self.in_slow_start() {
            &mut self.results.max_cwnd_slow_start
        } else {
            &mut self.results.max_cwnd_avoidance
        };
        *peak = (*peak).max(self.cwnd);
    }

    fn on_rto(&mut self, now: Timestamp) {
        self.accrue(now);
        self.results.timeouts += 1;
        for (number, out) in std::mem::take(&mut self.out) {
            self.give_up(number, out.data);
        }
        self.in_flight = 0;
        self.held = None;
        if let Some(halving) = self.halving.take() {
            self.results.max_cluster = self.results.max_cluster.max(halving.lost);
        }
        self.allowed = 0;
        if !self.repeated && self.options.flat_window.is_none() {
            self.results.congestion_signals += 1;
            self.ssthresh = (self.cwnd / 4).max(2 * self.mss);
        }
        if self.options.flat_window.is_none() {
            self.cwnd = self.mss;
        }
        self.repeated = true;
        self.rtt.back_off();
        // The next probe sets it again.
        self.alarm = Timestamp::NEVER;
    }
}

#[cfg(test)]
#[path = "treno_tests.rs"]
mod tests;

impl Prober for Treno {
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Probe> {
        if self.outcome.is_some() {
            return None;
        }
        if self.halving.is_some() {
            if self.allowed == 0 {
                return None;
            }
            self.allowed -= 1;
        } else if self.in_flight + self.mss > self.cwnd.max(self.mss) {
            return None;
        }
        if self.started.is_none() {
            self.started = Some(now);
            self.since = now;
            self.heard = now;
        }
        let (data, again) = if let Some(data) = self.unsent.pop() {
            (data, false)
        } else if let Some(data) = self.lost.pop_front() {
            (data, true)
        } else {
            (self.next_data, false)
        };
        self.next_data = self.next_data.max(data + 1);
        let number = self.next;
        self.next += 1;
        self.out.insert(number, Out { data, at: now, bytes: self.mss as u32, again });
        self.in_flight += self.mss;
        self.results.probes += 1;
        self.results.probe_wire_bytes += u64::from(self.mtu);
        self.results.retransmits += u64::from(again);
        if !self.alarm.is_set() {
            self.alarm = self.rtt.deadline(now);
        }
        Some(Probe { number, size: self.mtu, retransmit: again })
    }

    fn on_refused(&mut self, number: u64) {
        self.results.refused_sends += u64::from(self.take_back(number));
    }

    fn on_not_sent(&mut self, number: u64) {
        self.take_back(number);
    }

    fn on_too_big(&mut self, now: Timestamp, mtu: u32) {
        // Values below the smallest probe, or not below the present size, are ignored.
        if mtu >= self.mtu || !SIZES.contains(&mtu) || self.outcome.is_some() {
            return;
        }
        self.accrue(now);
        // No probe is left by whose answer it would end.
        self.end_halving(now);
        self.mtu = mtu;
        let old = self.mss;
        self.mss = u64::from(mtu - HEADERS);
        // The window and the threshold stay the same in segments, and there is no congestion signal.
        self.cwnd = (self.cwnd / old).max(1) * self.mss;
        if self.ssthresh != u64::MAX {
            self.ssthresh = (self.ssthresh / old).max(2) * self.mss;
        }
        self.results.mtu_reductions += 1;
        // Outstanding probes are too large, and are sent again smaller.
        for (_, out) in std::mem::take(&mut self.out) {
            self.lost.push_back(out.data);
        }
        self.in_flight = 0;
        self.held = None;
        self.alarm = Timestamp::NEVER;
    }

    fn is_out(&self, number: u64) -> bool {
        self.out.contains_key(&number)
    }

    fn on_reply(&mut self, now: Timestamp, number: u64, kind: ProbeReply) -> bool {
        if self.outcome.is_some() || number >= self.next {
            return false;
        }
        self.accrue(now);
        let Some(out) = self.out.remove(&number) else {
            // It may be of anyone who guesses numbers. One to a probe that was given up is late.
            if self.answered.contains_key(&number) {
                self.hear(now);
            }
            self.on_stray(number);
            return false;
        };
        self.hear(now);
        *match kind {
            ProbeReply::Echo => &mut self.results.echoes,
            ProbeReply::TimeExceeded => &mut self.results.time_exceeded,
            ProbeReply::PortUnreachable => &mut self.results.port_unreachable,
            ProbeReply::Unreachable => &mut self.results.unreachable,
        } += 1;
        self.results.replies += 1;
        self.in_flight -= u64::from(out.bytes);
        let in_order = number >= self.fack;
        self.results.reordered += u64::from(!in_order);
        let rtt = now.saturating_since(out.at);
        let first = self.out.first_key_value().map_or(self.next, |(&first, _)| first);
        self.rtt.sample(rtt, first, self.next);
        self.repeated = false;
        let nanos = rtt.as_nanos();
        let results = &mut self.results;
        results.rtt_min_ns = if results.rtt_count == 0 { nanos } else { results.rtt_min_ns.min(nanos) };
        results.rtt_max_ns = results.rtt_max_ns.max(nanos);
        results.rtt_sum_ns += nanos;
        results.rtt_count += 1;
        self.fack = self.fack.max(number + 1);
        self.alarm = if self.out.is_empty() { Timestamp::NEVER } else { self.rtt.deadline(now) };
        self.deliver(u64::from(out.bytes));
        let gap = first < number;
        self.find_losses(now);
        self.count(now, number, gap);
        true
    }

    fn poll_timeout(&self) -> Timestamp {
        if self.outcome.is_some() {
            return Timestamp::NEVER;
        }
        let Some(started) = self.started else { return Timestamp::ZERO };
        let held = self.held.map_or(Timestamp::NEVER, |(until, _)| until);
        (started + self.options.duration).min(self.heard + self.options.patience).min(self.alarm).min(held)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        let Some(started) = self.started else { return };
        if self.outcome.is_some() {
            return;
        }
        if now >= started + self.options.duration {
            let nothing = self.results.replies == 0;
            return self.finish(now, if nothing { TrenoOutcome::NoAnswer } else { TrenoOutcome::Complete });
        }
        if now >= self.heard + self.options.patience {
            let nothing = self.results.replies == 0;
            if nothing {
                return self.finish(now, TrenoOutcome::NoAnswer);
            }
            // Waiting for a path that is silent is not part of the measurement.
            self.accrue(now);
            self.results.set_phases(self.heard_phases);
            return self.finish(self.heard, TrenoOutcome::Silent);
        }
        if let Some((until, bytes)) = self.held
            && now >= until
        {
            self.held = None;
            self.in_flight -= bytes.min(self.in_flight);
            self.accrue(now);
            self.grow(bytes);
        }
        if now >= self.alarm {
            self.on_rto(now);
        }
    }

    fn stop(&mut self, now: Timestamp) {
        self.finish(now, TrenoOutcome::Stopped);
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }
}
