//! Connects a congestion control of `warpline-transport` to quinn's `congestion::Controller`.
//!
//! quinn's calls for each packet become one [`AckSample`] per ACK frame. A congestion episode (RFC 9002 section 7.3.2) becomes one
//! event, and persistent congestion a time-out. Algorithms count in datagrams of the initial size. When path MTU discovery changes
//! the size, bytes are scaled, so that a window of one segment stays one datagram.
//!
//! quinn sends a datagram while `in_flight + mtu < window`, so a window below two datagrams needs a [`gate`](super::gate). The other
//! differences from the library's TCP are in the book, docs/src/embedding.md.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quinn::congestion::{Controller as QuinnController, ControllerFactory, ControllerMetrics};
use tokio::sync::Notify;
use warpline_core::record::LossTrigger;
use warpline_core::{Rate, TimeDelta, Timestamp};
use warpline_transport::cc::{
    AckSample, Algorithm, CcConfig, CongestionControl, CongestionEvent, Controller, EcnNeed, LostSegment,
    Phase,
};

use super::gate::Gate;

/// Segments of the initial window (RFC 9002 section 7.2).
const INITIAL_SEGMENTS: u64 = 10;

/// Gives every new connection its congestion control: for `quinn::TransportConfig::congestion_controller_factory`.
#[derive(Clone, Copy, Debug)]
pub struct Factory {
    algorithm: Algorithm,
    jitter: TimeDelta,
    seed: u64,
}

impl Factory {
    /// For connections that use `algorithm`. Of an RTT's excess over the smallest RTT, the first `jitter` is attributed to the scheduling of
    /// the two programs and not to a queue.
    pub const fn new(algorithm: Algorithm, jitter: TimeDelta) -> Self {
        Factory { algorithm, jitter, seed: 0 }
    }

    /// The same, with the seed of what an algorithm draws.
    pub const fn seeded(self, seed: u64) -> Self {
        Factory { seed, ..self }
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn QuinnController> {
        Box::new(Bridge(Arc::new(Shared {
            state: Mutex::new(State::new(&self, now, current_mtu)),
            changed: Notify::new(),
        })))
    }
}

/// The controller that quinn holds. Clones share the state: a path that a NAT moved continues with the same window.
#[derive(Clone, Debug)]
struct Bridge(Arc<Shared>);

/// One connection's congestion control, which the connection and its [`Keeper`](super::Keeper) share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when the gate shuts, or opens at another time.
    pub(super) changed: Notify,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Its state is consistent after every call, so a panic elsewhere need not stop sending.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current state of a connection's congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// Congestion window in bytes; may be below one datagram.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `u64::MAX` while unset.
    pub ssthresh: u64,
    /// Bytes of a full datagram.
    pub mtu: u64,
    /// Smallest RTT seen; zero before the first sample.
    pub min_rtt: TimeDelta,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: TimeDelta,
    /// Bytes acknowledged.
    pub delivered: u64,
    /// Bytes declared lost.
    pub lost: u64,
    /// When the gate of a window below two datagrams opens, as time since the connection's start; `None` while it is open.
    pub shut_until: Option<Timestamp>,
}

/// The shared state of a quinn connection that was created with a [`Factory`].
pub(super) fn shared(connection: &quinn::Connection) -> Option<Arc<Shared>> {
    within(connection.congestion_state())
}

/// The shared state of quinn's controller, if it is ours.
pub(crate) fn within(controller: Box<dyn QuinnController>) -> Option<Arc<Shared>> {
    controller.into_any().downcast::<Bridge>().ok().map(|bridge| bridge.0)
}

/// The state when a packet left.
#[derive(Clone, Copy, Debug)]
struct SentAt {
    at: Timestamp,
    delivered: u64,
    delivered_at: Timestamp,
    first_at: Timestamp,
}

/// The acknowledgements of one ACK frame, while they are processed.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    acked: u64,
    packets: u64,
    newest: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) struct State {
    cc: Controller,
    jitter: TimeDelta,
    epoch: Instant,
    /// Bytes of a segment for the algorithm, and bytes of a datagram now.
    mss: u64,
    mtu: u64,
    /// All in the algorithm's bytes.
    sent: u64,
    delivered: u64,
    lost: u64,
    in_flight: u64,
    delivered_at: Timestamp,
    first_at: Timestamp,
    last_sent_at: Timestamp,
    unacked: VecDeque<SentAt>,
    batch: Batch,
    srtt: TimeDelta,
    min_rtt: TimeDelta,
    /// Start and kind of the episode. Losses of packets sent before it are not new congestion.
    episode: Option<(Timestamp, Phase)>,
    gate: Gate,
}

impl State {
    fn new(factory: &Factory, epoch: Instant, mtu: u16) -> Self {
        let mss = u64::from(mtu);
        let config = CcConfig {
            mss,
            initial_window: INITIAL_SEGMENTS * mss,
            initial_ssthresh: u64::MAX,
            seed: factory.seed,
            saved: None,
        };
        State {
            cc: factory.algorithm.build(&config),
            jitter: factory.jitter,
            epoch,
            mss,
            mtu: mss,
            sent: 0,
            delivered: 0,
            lost: 0,
            in_flight: 0,
            delivered_at: Timestamp::ZERO,
            first_at: Timestamp::ZERO,
            last_sent_at: Timestamp::ZERO,
            unacked: VecDeque::new(),
            batch: Batch::default(),
            srtt: TimeDelta::ZERO,
            min_rtt: TimeDelta::ZERO,
            episode: None,
            gate: Gate::default(),
        }
    }

    fn time(&self, now: Instant) -> Timestamp {
        let nanos = now.saturating_duration_since(self.epoch).as_nanos();
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes on the wire as the algorithm counts them.
    fn counted(&self, wire: u64) -> u64 {
        scale(wire, self.mss, self.mtu)
    }

    fn burst(&self) -> u64 {
        u64::from(self.cc.min_burst().max(1)) * self.mss
    }

    /// Whether the window is so small that it uses the gate.
    fn is_small(&self) -> bool {
        self.cc.cwnd() < self.burst() && !self.srtt.is_zero()
    }

    /// The window to report to quinn, which sends while `in_flight + mtu` is below it.
    fn window(&self) -> u64 {
        let allowed = match (self.is_small(), self.gate.is_shut()) {
            (true, true) => return 1,
            (true, false) => self.burst(),
            // Before the first RTT sample, the gate cannot be computed, so the handshake may leave.
            (false, _) => self.cc.cwnd().max(2 * self.mss),
        };
        scale(allowed, self.mtu, self.mss).saturating_add(1)
    }

    /// Returns whether the gate shut.
    fn on_sent(&mut self, now: Timestamp, wire: u64) -> bool {
        let bytes = self.counted(wire);
        if self.in_flight == 0 {
            let (idle, rto) = (now.saturating_since(self.last_sent_at), self.rto());
            // Pauses at the gate do not count as idle time: the program did not cause them.
            if self.sent > 0 && idle > rto && !self.is_small() {
                self.cc.on_idle(now, idle, rto);
            }
            self.first_at = now;
            self.delivered_at = now;
        }
        self.last_sent_at = now;
        self.sent = self.sent.saturating_add(bytes);
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.unacked.push_back(SentAt {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
        });
        self.cc.on_sent(now, bytes, self.in_flight);
        if !self.is_small() {
            self.gate.reset();
            return false;
        }
        self.gate.on_sent(now, bytes, self.burst(), self.mss, self.cc.cwnd(), self.srtt)
    }

    /// Updates the gate for a changed window or RTT. Returns whether to notify the keeper.
    fn follow(&mut self) -> bool {
        if self.is_small() {
            return self.gate.rewait(self.cc.cwnd(), self.srtt);
        }
        let was_shut = self.gate.is_shut();
        self.gate.reset();
        was_shut
    }

    /// Retransmission time-out for the detection of idle times (RFC 9002 section 6.2.1, without the variance).
    fn rto(&self) -> TimeDelta {
        if self.srtt.is_zero() { TimeDelta::from_secs(1) } else { self.srtt * 2 + TimeDelta::from_millis(25) }
    }

    fn on_acked(&mut self, sent: Timestamp, wire: u64, srtt: TimeDelta, min_rtt: TimeDelta) {
        self.batch.acked = self.batch.acked.saturating_add(self.counted(wire));
        self.batch.packets += 1;
        self.batch.newest = Some(self.batch.newest.map_or(sent, |newest| newest.max(sent)));
        self.srtt = srtt;
        self.min_rtt = min_rtt;
    }

    fn on_end_acks(&mut self, now: Timestamp, in_flight: u64, app_limited: bool) {
        let Batch { acked, packets, newest } = std::mem::take(&mut self.batch);
        let after = self.counted(in_flight);
        self.in_flight = after;
        let Some(newest) = newest else { return };
        let rtt = now.saturating_since(newest);
        // A receiver delays its answer to a single packet by up to a second. That delay is not a queue.
        let waited = packets == 1 && after == 0 && self.delivered > 0 && rtt > self.min_rtt;
        // quinn updates its smoothed RTT after this call; before the first sample, that is a guess.
        if self.delivered == 0 {
            (self.srtt, self.min_rtt) = (rtt, rtt);
        }
        self.min_rtt = self.min_rtt.min(rtt);
        // Keeps the newest entry that was not sent later. Packets sent together share an entry; MTU probes have none.
        while self.unacked.get(1).is_some_and(|sent| sent.at <= newest) {
            self.unacked.pop_front();
        }
        let at = self.unacked.front().copied().filter(|sent| sent.at <= newest);
        let phase = self.phase_at(now, newest);
        self.delivered = self.delivered.saturating_add(acked);
        self.delivered_at = now;
        let rate = at.and_then(|sent| {
            // The lower of the sending and acknowledgement rates, as in draft-cheng-iccrg-delivery-rate-estimation.
            let sending = sent.at.saturating_since(sent.first_at);
            let acking = now.saturating_since(sent.delivered_at);
            let span = sending.max(acking).as_secs_f64();
            let bits = 8.0 * (self.delivered - sent.delivered) as f64;
            (span > 0.0).then(|| Rate::from_bps((bits / span) as u64))
        });
        self.first_at = newest;
        self.cc.on_ack(&AckSample {
            now,
            acked,
            mss: self.mss,
            rtt: (!waited).then_some(rtt.saturating_sub(self.jitter).max(self.min_rtt)),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            one_way_delay: None,
            delivery_rate: rate,
            app_limited,
            sent_at: newest,
            delivered: self.delivered,
            prior_delivered: at.map_or(self.delivered - acked, |sent| sent.delivered),
            prior_in_flight: after.saturating_add(acked),
            in_flight: after,
            next_seq: self.sent,
            ack: self.sent.saturating_sub(after),
            ce: 0,
            cwnd_limited: !app_limited,
            phase,
        });
    }

    /// The phase of an acknowledgement of a packet sent at `sent`; the first packet sent after an episode's start ends the episode.
    fn phase_at(&mut self, now: Timestamp, sent: Timestamp) -> Phase {
        match self.episode {
            Some((start, phase)) if sent <= start => phase,
            Some(_) => {
                self.episode = None;
                self.cc.on_recovery_exit(now);
                Phase::Open
            }
            None => Phase::Open,
        }
    }

    fn on_congestion_event(&mut self, now: Timestamp, sent: Timestamp, persistent: bool, lost: u64) {
        let in_flight = self.in_flight;
        let lost = self.counted(lost);
        self.lost = self.lost.saturating_add(lost);
        self.in_flight = in_flight.saturating_sub(lost);
        let trigger = match (persistent, lost) {
            (true, _) => LossTrigger::Rto,
            // quinn does not say how much was marked. An algorithm that goes by that takes a mark for a loss.
            (false, 0) if self.cc.ecn_need() == EcnNeed::Any => LossTrigger::Ecn,
            (false, _) => LossTrigger::Rack,
        };
        if lost > 0 {
            let (bytes, delivered) = (lost, self.delivered);
            let segment = LostSegment { now, bytes, sent_at: sent, delivered, app_limited: false, trigger };
            self.cc.on_lost(&segment);
        }
        let known = self.episode.is_some_and(|(start, _)| sent <= start);
        if known && !persistent {
            return;
        }
        let event = CongestionEvent {
            now,
            trigger,
            in_flight,
            mss: self.mss,
            min_rtt: self.min_rtt,
            srtt: self.srtt,
        };
        let phase = match trigger {
            LossTrigger::Rto => Phase::Loss,
            LossTrigger::Ecn => Phase::Cwr,
            _ => Phase::Recovery,
        };
        self.episode = Some((now, phase));
        if persistent {
            self.cc.on_rto(&event);
        } else {
            self.cc.on_congestion_event(&event);
        }
    }

    /// When to open the gate, if it is shut.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        let at = self.gate.opens_at()?;
        self.epoch.checked_add(std::time::Duration::from_nanos(at.as_nanos()))
    }

    /// Opens the gate if its time has come.
    pub(crate) fn open(&mut self, now: Instant) -> bool {
        let now = self.time(now);
        self.gate.open(now)
    }

    pub(super) fn view(&self) -> View {
        let wire = |bytes| scale(bytes, self.mtu, self.mss);
        let ssthresh = self.cc.ssthresh();
        View {
            algorithm: self.cc.name(),
            cwnd: wire(self.cc.cwnd()),
            ssthresh: if ssthresh == u64::MAX { ssthresh } else { wire(ssthresh) },
            mtu: self.mtu,
            min_rtt: self.min_rtt,
            srtt: self.srtt,
            delivered: wire(self.delivered),
            lost: wire(self.lost),
            shut_until: self.gate.opens_at().filter(|_| self.is_small()),
        }
    }
}

/// `bytes * to / from`, without overflow.
fn scale(bytes: u64, to: u64, from: u64) -> u64 {
    if to == from {
        return bytes;
    }
    u64::try_from(u128::from(bytes) * u128::from(to) / u128::from(from.max(1))).unwrap_or(u64::MAX)
}

fn delta(duration: std::time::Duration) -> TimeDelta {
    TimeDelta::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl QuinnController for Bridge {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let mut state = self.0.state();
        let now = state.time(now);
        if state.on_sent(now, bytes) {
            drop(state);
            self.0.changed.notify_one();
        }
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        let mut state = self.0.state();
        let sent = state.time(sent);
        state.on_acked(sent, bytes, delta(rtt.get()), delta(rtt.min()));
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let mut state = self.0.state();
        let now = state.time(now);
        state.on_end_acks(now, in_flight, app_limited);
        if state.follow() {
            drop(state);
            self.0.changed.notify_one();
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let mut state = self.0.state();
        let (now, sent) = (state.time(now), state.time(sent));
        state.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        if state.follow() {
            drop(state);
            self.0.changed.notify_one();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.state().mtu = u64::from(new_mtu).max(1);
    }

    fn window(&self) -> u64 {
        self.0.state().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let view = self.0.state().view();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = view.cwnd;
        metrics.ssthresh = (view.ssthresh != u64::MAX).then_some(view.ssthresh);
        metrics
    }

    fn clone_box(&self) -> Box<dyn QuinnController> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        let state = self.0.state();
        INITIAL_SEGMENTS * state.mtu
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "quinn's times are those of the clock; which one does not matter here"
    )]
    fn an_algorithm_that_goes_by_the_part_of_marks_takes_a_mark_for_a_loss() {
        for (name, remains) in
            [("reno", 0.5), ("cubic", 0.7), ("dctcp:initial_alpha=0", 0.5), ("prague", 0.5)]
        {
            let algorithm: Algorithm = name.parse().unwrap_or_else(|error| panic!("{error}"));
            let factory = Factory::new(algorithm, TimeDelta::ZERO);
            let mut state = State::new(&factory, Instant::now(), 1200);
            let before = state.cc.cwnd();
            state.in_flight = before;
            state.on_congestion_event(Timestamp::from_secs(2), Timestamp::from_secs(1), false, 0);
            let part = state.cc.cwnd() as f64 / before as f64;
            assert!((part - remains).abs() < 0.01, "{name}: {part}");
        }
    }
}
