//! The transmitter of Wi-Fi with aggregation (802.11n A-MPDU): packets are sent in aggregates, each after a contention for the channel and followed by a block acknowledgement.
//!
//! Airtime of an aggregate of n packets: AIFS, a random backoff, the preamble, the packets with their headers at the rate of the radio, SIFS, and the block acknowledgement.
//! T. Høiland-Jørgensen et al., "Ending the Anomaly: Achieving Low Latency and Airtime Fairness in WiFi", USENIX ATC 2017, have a model of this kind; only its abstract was at
//! hand, so the terms have not been compared with theirs. The preamble (HT mixed: 32 us, and 4 us for each spatial stream) and the 16 service and 6 tail bits were checked against
//! ns-3 (src/wifi/model/ht/ht-phy.cc). The other durations and sizes (slot, SIFS, AIFS, contention windows, headers, block acknowledgement, longest airtime) were not checked
//! against IEEE 802.11. No measurement stands behind the whole.
//!
//! Each packet of an aggregate is received or not by itself. Those that are not are sent again at the head of the next aggregate; those behind them wait at the receiver, which
//! passes packets on in order. At most 64 packets are between the oldest one missing and the newest (the window of a block acknowledgement).
//!
//! Departures: there is one sender, so no collisions; the two directions of a link do not share the channel; a transmission is not rounded up to whole symbols (at
//! most 4 us); the next aggregate is put together when the last bit of the one before has left, not after its acknowledgement, which is never lost; the contention window
//! grows only when no packet of an aggregate has been received.

use std::collections::VecDeque;

use warpline_core::parameter::Parameters;
use warpline_core::{Rate, Stream, TimeDelta, Timestamp};

use crate::qdisc::Queued;

const SLOT: TimeDelta = TimeDelta::from_micros(9);
const SIFS: TimeDelta = TimeDelta::from_micros(16);
/// SIFS and three slots: best effort.
const AIFS: TimeDelta = TimeDelta::from_micros(16 + 3 * 9);
/// 32 bytes at 24 Mbit/s: 20 us of preamble and three symbols.
const BLOCK_ACK: TimeDelta = TimeDelta::from_micros(32);
/// Contention windows in slots, least and largest.
const WINDOW: (u64, u64) = (15, 1023);
/// Header of the MAC with QoS (26), LLC and SNAP (8), FCS (4), and the delimiter in an aggregate (4).
const HEADERS: u64 = 42;
/// Service and tail bits of a transmission.
const SERVICE: u64 = 22;
/// Packets from the oldest one missing to the newest, at most.
const SPREAD: usize = 64;

/// Wi-Fi that sends packets in aggregates (802.11n).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("wifi")]
pub struct Wifi {
    /// Rate of the radio (PHY): 65Mbit/s for one stream at 20 MHz, 144.4Mbit/s for two with a short guard interval.
    #[parameter(default = Rate::from_bps(144_400_000), above = Rate::from_bps(0), required)]
    pub rate: Rate,
    /// Most packets in an aggregate.
    #[parameter(default = 64, min = 1, max = 64)]
    pub frames: u32,
    /// How long the data of an aggregate may take. A packet is added if 1500 bytes more would still fit; there is always one. The default is what a legacy header
    /// can announce.
    #[parameter(default = TimeDelta::from_micros(5484), max = TimeDelta::from_millis(10))]
    pub airtime: TimeDelta,
    /// Spatial streams: each makes the preamble longer.
    #[parameter(default = 2, min = 1, max = 4)]
    pub streams: u32,
    /// Part of the packets that are not received.
    #[parameter(share)]
    pub error: f64,
    /// How often a packet is sent again before it is given up, and counts as lost.
    #[parameter(default = 7, max = 255)]
    pub retries: u32,
}

impl Wifi {
    /// How long the data of these bytes take, headers included, padded to a multiple of four.
    fn airtime_of(&self, bytes: u32) -> TimeDelta {
        self.bits((u64::from(bytes) + HEADERS).next_multiple_of(4) * 8)
    }
    fn bits(&self, bits: u64) -> TimeDelta {
        let rate = u128::from(self.rate.as_bps().max(1));
        let nanos = (u128::from(bits) * 1_000_000_000).div_ceil(rate);
        TimeDelta::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
    fn preamble(&self) -> TimeDelta {
        TimeDelta::from_micros(32 + 4 * u64::from(self.streams.clamp(1, 4)))
    }
}

/// A packet that is not settled.
#[derive(Clone, Copy, Debug)]
struct Frame {
    packet: Queued,
    sent: u32,
    received: bool,
}

impl Frame {
    /// Whether it is to be sent.
    fn is_pending(&self, retries: u32) -> bool {
        !self.received && self.sent <= retries
    }
}

/// The sender of a Wi-Fi link: what it has taken from the queue and not settled yet.
#[derive(Debug)]
pub(crate) struct Aggregator {
    wifi: Wifi,
    stream: Stream,
    /// In the order in which they are passed on.
    frames: VecDeque<Frame>,
    /// How many of them are in the aggregate that is being put together or sent, and how long their data take.
    chosen: u32,
    airtime: TimeDelta,
    window: u64,
    /// When the acknowledgement of the last aggregate has ended.
    free: Timestamp,
}

impl Aggregator {
    pub(crate) fn new(wifi: Wifi, stream: Stream) -> Self {
        let (frames, airtime) = (VecDeque::with_capacity(SPREAD), TimeDelta::ZERO);
        Aggregator { wifi, stream, frames, chosen: 0, airtime, window: WINDOW.0, free: Timestamp::ZERO }
    }

    /// Rate of the radio.
    pub(crate) fn rate(&self) -> Rate {
        self.wifi.rate
    }

    /// Begins an aggregate with what must be sent again.
    pub(crate) fn begin(&mut self) {
        (self.chosen, self.airtime) = (0, TimeDelta::ZERO);
        for at in 0..self.frames.len() {
            if self.frames[at].is_pending(self.wifi.retries) {
                self.choose(self.frames[at].packet.size);
            }
        }
    }

    fn choose(&mut self, size: u32) {
        self.chosen += 1;
        self.airtime += self.wifi.airtime_of(size);
    }

    /// Whether another packet may be added.
    pub(crate) fn has_room(&self) -> bool {
        let fits = self.airtime + self.wifi.airtime_of(1500) <= self.wifi.airtime;
        self.frames.len() < SPREAD && (self.chosen == 0 || self.chosen < self.wifi.frames && fits)
    }

    /// Adds a packet.
    pub(crate) fn add(&mut self, packet: Queued) {
        self.choose(packet.size);
        self.frames.push_back(Frame { packet, sent: 0, received: false });
    }

    /// Sends the aggregate, if there is anything in it. Returns when the last bit of its data will have left.
    pub(crate) fn send(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.chosen == 0 {
            return None;
        }
        let backoff = TimeDelta::from_nanos(SLOT.as_nanos() * self.stream.below(self.window + 1));
        let start = now.max(self.free);
        let end = start + AIFS + backoff + self.wifi.preamble() + self.wifi.bits(SERVICE) + self.airtime;
        self.free = end + SIFS + BLOCK_ACK;
        Some(end)
    }

    /// The aggregate has been sent: some of its packets have been received.
    pub(crate) fn sent(&mut self) {
        let mut received = false;
        let retries = self.wifi.retries;
        for frame in self.frames.iter_mut().filter(|frame| frame.is_pending(retries)) {
            frame.sent += 1;
            frame.received = !self.stream.chance(self.wifi.error);
            received |= frame.received;
        }
        self.window = if received { WINDOW.0 } else { (2 * self.window + 1).min(WINDOW.1) };
    }

    /// Takes the next packet that is settled: whether it has been received, or else given up.
    pub(crate) fn settle(&mut self) -> Option<(Queued, bool)> {
        let frame = *self.frames.front()?;
        (!frame.is_pending(self.wifi.retries)).then(|| {
            self.frames.pop_front();
            (frame.packet, frame.received)
        })
    }

    /// Takes the next packet, settled or not.
    pub(crate) fn discard(&mut self) -> Option<Queued> {
        self.frames.pop_front().map(|frame| frame.packet)
    }
}
