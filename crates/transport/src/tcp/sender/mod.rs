//! The sending side: what is to be sent, what is in flight, the windows that limit it, and the episode that it is in.
//!
//! It is implemented in several files: `transmit` sends segments, `ack` takes acknowledgements, `recovery` and `undo`
//! handle losses.

mod ack;
mod episode;
mod outlook;
mod pacing;
mod prr;
mod rack;
mod rate;
mod recovery;
mod ring;
mod scoreboard;
mod sent;
mod timers;
mod transmit;
mod undo;

use std::sync::Arc;

use warpline_core::record::TcpEvent;
use warpline_core::{Bytes, Segment, TimeDelta, Timestamp};

use super::accecn::MarkedBytes;
use super::config::{Recovery, TcpConfig};
use super::ecn::{EcnUse, SenderEcn};
use super::handshake::Agreed;
use super::log::Log;
use super::receiver::Receiver;
use super::rtt::Rtt;
use crate::cc::{CongestionControl, MssChange, Phase, Subflow};
use ack::AckFields;
use episode::{Episode, Frto};
pub(super) use outlook::Next;
use outlook::Outlook;
use pacing::Pacer;
use rack::Rack;
use rate::DeliveryRate;
use scoreboard::Scoreboard;
use sent::Sent;
pub(super) use timers::Expired;
use timers::{Alarm, Timers};
use undo::Undo;

/// How far a timestamp may be from the time when it was taken (a millisecond is their resolution).
const TICK: TimeDelta = TimeDelta::from_millis(1);

/// Where the data of an unlimited source ends: further than any run sends.
const UNLIMITED: u64 = 1 << 62;

/// The probe that is to be sent now. There is one at most: data is in flight, or none is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    None,
    /// For losses at the tail of what is in flight (RFC 8985 section 7).
    Tail,
    /// Whether the other side's window has opened (RFC 9293 section 3.8.6.1).
    Window,
}

/// A tail loss probe that was sent.
#[derive(Clone, Copy, Debug)]
struct TailProbe {
    /// It is out until this is acknowledged.
    end: u64,
    /// It was a retransmission.
    again: bool,
}

/// What the sender uses of what both sides agreed on.
#[derive(Clone, Copy, Debug)]
struct Uses {
    timestamps: bool,
    /// Selective acknowledgements from the other side.
    sack: bool,
    rack: bool,
    tail_probes: bool,
    ecn: SenderEcn,
}

/// The window that the other side offers.
#[derive(Clone, Copy, Debug)]
struct Offered {
    /// Its right edge. The other side may take a part of the window back (RFC 9293 section 3.8.6): then it moves back.
    end: u64,
    /// The largest so far.
    largest: u64,
}

/// How much of the window was used in a round trip (Linux tcp_cwnd_validate).
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// It ends when this is acknowledged.
    end: u64,
    /// Most bytes that were outstanding.
    peak: u64,
    /// The window was full.
    full: bool,
}

/// The sending side of one connection.
// Laid out by hand (see `Connection`): the first two lines are for every segment, the next four for those that acknowledge or carry data.
// Then come the samples of acknowledgements, what losses touch, and congestion control.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Sender<C> {
    uses: Uses,
    /// The window is below `small_window_burst` segments: bursts of so many, timed.
    small_window: bool,
    paced: bool,
    fin_requested: bool,
    /// The handshake is complete, and the connection has not ended.
    established: bool,
    /// The window was reduced for an ECN echo: the next new data carries CWR (RFC 3168 section 6.1.2).
    cwr_pending: bool,
    probe: Probe,
    /// Window probes sent in a row, counted up to 255.
    window_probes: u8,
    /// Time-outs without progress.
    retries: u32,
    /// Oldest byte not acknowledged.
    una: u64,
    /// Next byte to send.
    nxt: u64,
    /// Payload of a full segment.
    mss: u64,
    outlook: Outlook,

    timers: Timers,
    /// One past what may be sent now, FIN included; zero until established.
    send_end: u64,
    offered: Offered,

    // Its counts and its ring are a line.
    board: Scoreboard,

    /// Bytes that may be in flight now.
    window: u64,
    /// A window below one segment, or a pair, is sent in bursts.
    burst_bytes: u64,
    /// A window below the algorithm's, after the loss of a SYN (RFC 5681 section 3.1): it grows as in slow start until it
    /// reaches the algorithm's. `u64::MAX` when there is none.
    ramp: u64,
    /// Upper bound of the congestion window in bytes.
    max_window: u64,
    /// One past the data that the application wrote.
    app_end: u64,
    /// The window limited sending while this was the next byte.
    limited_until: u64,
    last_sent_at: Timestamp,
    config: Arc<TcpConfig>,

    rtt: Rtt,
    rate: DeliveryRate,

    rack: Rack,
    /// When RACK's reordering window ends for the next segment that waits in it.
    rack_wake: Timestamp,
    /// RFC 6582's `recover`: the last recovery or loss ends when this is acknowledged. Without SACK, duplicate acknowledgements of
    /// what was sent before mean nothing.
    recover: u64,
    /// By how many segments one may come late, as far as is known. Without RACK, so many duplicate acknowledgements show a loss (Linux tp->reordering).
    reordering: u32,
    /// End of the last segment sent that was not full (for Nagle's rule).
    small_end: u64,
    tail_probe: Option<TailProbe>,
    /// What AccECN options have said.
    marked: MarkedBytes,
    /// First byte of the segment that offered the window last (RFC 9293 SND.WL1).
    offered_at: u64,
    usage: Usage,
    /// What may prove the last reduction spurious.
    undo: Option<Undo>,
    /// Timestamp of the first of the retransmissions under way: an acknowledgement that echoes an older one was not triggered by any of them
    /// (Linux retrans_stamp).
    repeats_from: Option<u32>,
    episode: Episode,
    pacer: Pacer,

    cc: C,
    /// Everything takes the path that is for every case, and so do acknowledgements.
    #[cfg(test)]
    pub slow: bool,
    #[cfg(test)]
    pub slow_acks: bool,
}

impl<C: CongestionControl> Sender<C> {
    pub(super) fn new(config: Arc<TcpConfig>, cc: C) -> Self {
        let uses = Uses {
            timestamps: config.timestamps,
            sack: false,
            rack: false,
            tail_probes: false,
            ecn: SenderEcn::new(&EcnUse::default()),
        };
        let mut sender = Sender {
            uses,
            small_window: false,
            paced: config.pacing || config.max_rate.is_some() || cc.pacing_rate().is_some(),
            fin_requested: false,
            established: false,
            cwr_pending: false,
            probe: Probe::None,
            window_probes: 0,
            retries: 0,
            timers: Timers::default(),
            outlook: Outlook::Unknown,
            una: 0,
            nxt: 0,
            send_end: 0,
            offered: Offered { end: 1, largest: 0 },
            board: Scoreboard::default(),
            rack_wake: Timestamp::NEVER,
            recover: 0,
            reordering: config.dupack_threshold,
            small_end: 0,
            offered_at: 0,
            usage: Usage::default(),
            window: 0,
            mss: config.payload(),
            burst_bytes: u64::from(config.small_window_burst.max(cc.min_burst())) * config.payload(),
            ramp: u64::MAX,
            app_end: 1,
            limited_until: 0,
            last_sent_at: Timestamp::ZERO,
            rtt: Rtt::new(&config),
            rate: DeliveryRate::new(cc.reads_delivery_rate()),
            rack: Rack::new(),
            undo: None,
            repeats_from: None,
            episode: Episode::OPEN,
            pacer: Pacer::default(),
            tail_probe: None,
            marked: MarkedBytes::default(),
            max_window: config.max_window.map_or(u64::MAX, |window| window.bytes(config.payload())),
            cc,
            config,
            #[cfg(test)]
            slow: false,
            #[cfg(test)]
            slow_acks: false,
        };
        sender.refresh_window();
        sender
    }

    // ---- The application ----

    /// Accepts up to `bytes` of data to send. Returns how many.
    pub(super) fn write(&mut self, bytes: u64) -> u64 {
        if self.fin_requested || self.app_end >= UNLIMITED {
            return 0;
        }
        let room = match self.config.send_buffer {
            Some(Bytes(buffer)) => buffer.saturating_sub(self.app_end - self.una.max(1).min(self.app_end)),
            None => UNLIMITED - self.app_end,
        };
        let accepted = bytes.min(room);
        if self.rate.is_sampled() {
            self.look_for_app_limit();
        }
        self.app_end += accepted;
        self.update_send_end();
        accepted
    }

    /// The application is about to write. Had it less than a segment left to send, while the window had room, it limited sending
    /// (Linux tcp_rate_check_app_limited).
    fn look_for_app_limit(&mut self) {
        let in_flight = self.in_flight();
        if self.app_end.saturating_sub(self.nxt) < self.mss
            && in_flight < self.window
            && !self.board.has_waiting()
        {
            self.rate.mark_limited(in_flight);
        }
    }

    pub(super) fn set_unlimited(&mut self, on: bool) {
        if self.fin_requested {
            return;
        }
        if on {
            self.app_end = UNLIMITED;
        } else if self.app_end >= UNLIMITED {
            self.app_end = self.nxt.max(1);
        }
        self.update_send_end();
    }

    /// A FIN follows all data.
    pub(super) fn close(&mut self) {
        self.fin_requested = true;
        self.update_send_end();
    }

    /// Recomputes how far may be sent.
    fn update_send_end(&mut self) {
        self.forget_outlook();
        if self.established {
            self.send_end = self.app_end + u64::from(self.fin_requested);
        }
    }

    // ---- The beginning and the end ----

    /// A SYN or SYN/ACK is to be sent: sequence number zero.
    pub(super) fn push_syn(&mut self, now: Timestamp) {
        self.forget_outlook();
        self.board.push(Sent {
            len: 1,
            flags: Sent::SYN,
            sent_at: now,
            first_sent_at: now,
            ..Sent::default()
        });
        self.nxt = 1;
        // No tail loss probe: nothing is to be had from it before the handshake is complete.
        self.timers.alarm.set(Alarm::Retransmit, self.rtt.deadline(now));
    }

    /// The SYN was sent once more.
    pub(super) fn on_syn_again(&mut self, now: Timestamp) {
        let state = self.rate.on_send(now, true);
        let position = self.board.last_position().unwrap_or(0);
        self.board.retransmit(position, now, state, false);
    }

    /// Takes the options that the handshake has settled.
    pub(super) fn agree(&mut self, agreed: &Agreed) {
        let sack = agreed.sack && self.config.recovery == Recovery::Sack;
        self.uses = Uses {
            timestamps: agreed.timestamps,
            sack,
            rack: sack && self.config.rack,
            tail_probes: sack && self.config.tlp,
            ecn: SenderEcn::new(&agreed.ecn),
        };
        self.cc.on_ecn_agreed(agreed.ecn.is_accurate());
        self.set_payload(agreed.payload);
    }

    fn set_payload(&mut self, payload: u64) {
        self.forget_outlook();
        if payload != self.mss {
            let (before, after) = (self.config.cc_config_of(self.mss), self.config.cc_config_of(payload));
            self.cc.on_mss(&MssChange { before, after });
            self.max_window = self.config.max_window.map_or(u64::MAX, |window| window.bytes(payload));
        }
        self.mss = payload;
        self.burst_bytes = u64::from(self.small_window_burst()) * payload;
    }

    /// Segments that are sent together while the window is smaller: an algorithm may ask for more than the options do.
    fn small_window_burst(&self) -> u32 {
        self.config.small_window_burst.max(self.cc.min_burst())
    }

    /// The window that a SYN or the end of the handshake offers.
    pub(super) fn on_peer_window(&mut self, segment: &Segment) {
        let window = u64::from(segment.window);
        self.offered = Offered { end: 1 + window, largest: self.offered.largest.max(window) };
        self.offered_at = segment.seq;
    }

    /// Our SYN is acknowledged, and `segment` completes the handshake.
    pub(super) fn establish(&mut self, now: Timestamp, segment: &Segment, log: &mut Log) {
        while let Some(sent) = self.board.pop(1) {
            if sent.was_retransmitted() {
                let rtt = self.echo_rtt(now, AckFields::of(segment));
                match rtt {
                    Some(rtt) => log.stats.note_rtt(rtt),
                    None => self.rtt.restart_after_syn_loss(),
                }
                // RFC 5681 section 3.1: after the loss of a SYN the window starts at one segment. Where the answer is to one that was sent before
                // the last, the path was longer than the time-out, and that is no loss (Linux tcp_try_undo_spurious_syn).
                let was_late = rtt.is_some_and(|rtt| rtt > now.saturating_since(sent.sent_at) + TICK);
                if !was_late {
                    self.ramp = self.mss;
                }
            } else {
                let rtt = now.saturating_since(sent.sent_at);
                self.rtt.sample(rtt, 1, 1);
                self.rtt.note_min(rtt);
                log.stats.note_rtt(rtt);
            }
        }
        self.marked.on_handshake(segment.accecn());
        self.una = 1;
        self.retries = 0;
        self.established = true;
        self.on_peer_window(segment);
        self.update_send_end();
        self.rearm(now);
        self.cc.on_established(now, self.rtt.srtt(), self.rtt.min());
        self.refresh_window();
    }

    /// The connection has ended: nothing is sent any more, and nothing is in flight.
    pub(super) fn stop(&mut self) {
        self.forget_outlook();
        self.established = false;
        self.send_end = 0;
        self.episode = Episode::OPEN;
        self.cancel_probes();
        self.timers = Timers::default();
        self.board = Scoreboard::default();
        self.nxt = self.una;
    }

    /// No probe is sent now.
    pub(super) fn cancel_probes(&mut self) {
        self.forget_outlook();
        self.probe = Probe::None;
    }

    /// The tail loss probe has lost its meaning, whether it is out or still to be sent.
    fn forget_tail_probe(&mut self) {
        self.tail_probe = None;
        if self.probe == Probe::Tail {
            self.probe = Probe::None;
        }
    }

    /// No segment may carry more than `payload` bytes from now on. What is in flight and larger is sent again in pieces at once; the
    /// congestion window stays as many segments, since nothing was lost to congestion (RFC 1191 section 6.5; Linux `tcp_simple_retransmit`).
    /// Returns whether segments were larger until now.
    pub(super) fn reduce_payload(&mut self, now: Timestamp, payload: u64, log: &mut Log) -> bool {
        if payload >= self.mss {
            return false;
        }
        self.set_payload(payload);
        if self.board.split(payload as u32) {
            self.undo = None;
            self.recover = self.nxt;
            self.forget_tail_probe();
            self.enter(now, log, Episode::Loss { force: true, frto: Frto::Off });
            self.rearm(now);
        }
        self.refresh_window();
        true
    }

    // ---- State ----

    /// Whether the shorter paths for common cases are taken. They are, but in a test that compares them with the long ones.
    #[inline(always)]
    pub(super) fn takes_fast_paths(&self) -> bool {
        #[cfg(test)]
        return !self.slow;
        #[cfg(not(test))]
        true
    }
    /// The same of acknowledgements.
    #[inline(always)]
    fn takes_plain_acks(&self) -> bool {
        #[cfg(test)]
        return !self.slow_acks;
        #[cfg(not(test))]
        true
    }
    /// Whether a retransmission or a probe is to be sent.
    #[inline]
    pub(super) fn has_special(&self) -> bool {
        self.board.has_waiting() || self.probe != Probe::None
    }
    /// Whether there is new data, or a FIN.
    #[inline]
    pub(super) fn has_data(&self) -> bool {
        self.nxt < self.send_end
    }
    /// Whether RFC 6675 may let segments out that are not known to be lost.
    #[inline]
    pub(super) fn may_speculate(&self) -> bool {
        // In this order, since the first two are in a cache line that is at hand.
        self.uses.sack && !self.uses.rack && self.episode.is_recovery()
    }
    /// Next byte to send.
    #[inline]
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }
    /// Whether the application has closed and all its data is acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        self.una >= self.app_end && self.fin_requested
    }
    /// Whether our FIN was sent, and acknowledged.
    pub(super) fn is_fin_acknowledged(&self) -> bool {
        self.fin_requested && self.una == self.nxt && self.nxt == self.send_end
    }
    pub(super) fn cc(&self) -> &C {
        &self.cc
    }
    pub(super) fn phase(&self) -> Phase {
        self.episode.phase()
    }
    pub(super) fn window(&self) -> u64 {
        self.window
    }
    /// Bytes in flight: sent, and neither acknowledged nor lost as far as is known.
    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        self.board.in_flight(self.nxt - self.una)
    }
    pub(super) fn rtt(&self) -> &Rtt {
        &self.rtt
    }
    pub(super) fn bytes_acked(&self) -> u64 {
        self.una.min(self.app_end).saturating_sub(1)
    }
    pub(super) fn bytes_unacked(&self) -> u64 {
        self.app_end - self.una.clamp(1, self.app_end)
    }
    pub(super) fn bytes_unsent(&self) -> u64 {
        self.app_end.saturating_sub(self.nxt.max(1))
    }
    pub(super) fn couple(&mut self, subflows: &[Subflow], own: usize) {
        self.cc.on_subflows(subflows, own);
    }
    pub(super) fn send_window(&self) -> u64 {
        self.offered.end.saturating_sub(self.nxt)
    }
    pub(super) fn payload(&self) -> u64 {
        self.mss
    }

    #[inline]
    pub(super) fn record_metrics(&self, now: Timestamp, log: &mut Log) {
        if log.is_recording() {
            let event = TcpEvent::Metrics {
                cwnd: self.window,
                ssthresh: self.cc.ssthresh(),
                in_flight: self.in_flight(),
                srtt: self.rtt.srtt(),
                min_rtt: self.rtt.min(),
                rto: self.rtt.rto(),
            };
            log.record(now, event);
        }
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod layout {
    use std::mem::offset_of;

    use super::*;
    use crate::cc::Controller;

    #[test]
    fn groups_begin_with_a_cache_line() {
        type S = Sender<Controller>;
        let places = [
            ("timers", offset_of!(S, timers)),
            ("board", offset_of!(S, board)),
            ("window", offset_of!(S, window)),
            ("rtt", offset_of!(S, rtt)),
            ("rack", offset_of!(S, rack)),
        ];
        for (name, place) in places {
            assert_eq!(place % 64, 0, "`{name}` is at {place}");
        }
    }
}
