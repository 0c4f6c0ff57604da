//! The sending end of a stream: frames on time, packets paced and within the window, what reports say of them, and losses.
//!
//! A packet is lost when a later one has arrived and a quarter of the round trip has passed since (RFC 8985 section 6.2, reordering window). It is
//! sent once more, under a new number and before everything else, if the stream retransmits. Where the receiver asks for a key frame, what belongs to
//! frames before that is of no more use, and is not sent again. What RFC 8083 asks for when no reports come (the
//! circuit breaker) is left out.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use warpline_core::{Ecn, Stream, TimeDelta, Timestamp, counters};

use super::report::Report;
use super::source::Source;
use super::{Acked, Algorithm, Feedback, MediaControl, MediaPacket, MediaParams};

/// After this time without sending, what is in flight no longer holds anything back (SCReAM's implementation has the same).
const STUCK: TimeDelta = TimeDelta::from_millis(500);
/// Shortest time between two key frames that the receiver asks for.
const KEY_FRAMES: TimeDelta = TimeDelta::from_millis(300);
/// The most packets of which is remembered when they were sent.
const REMEMBERED: usize = 1 << 15;

counters! {
    /// What a sender has done.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct SenderStats {
        counts {
            /// Packets sent.
            pub packets: u64,
            /// Their bytes on the wire.
            pub bytes: u64,
            /// Those that had been sent before.
            pub again: u64,
            /// Frames encoded.
            pub frames: u64,
            /// Frame times that have passed, those without a frame among them.
            pub ticks: u64,
            /// Sum of the target rate in bit/s at each of them.
            pub target_sum: u64,
            /// Samples of the round-trip time, and their sum in nanoseconds.
            pub rtt_count: u64,
            /// Sum of them in nanoseconds.
            pub rtt_sum: u64,
            /// The smallest of them.
            pub rtt_min: Option<TimeDelta>,
        }
        state {
            /// The largest of them.
            pub rtt_max: TimeDelta,
        }
    }
}

/// A packet that waits to be sent.
#[derive(Clone, Copy, Debug)]
struct Queued {
    packet: MediaPacket,
    /// When it came into the queue.
    since: Timestamp,
}

/// What is remembered of a packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    packet: MediaPacket,
    at: Timestamp,
    /// Bytes sent in all, this packet included.
    end: u64,
    /// Whether it is known to have arrived, or taken for lost.
    settled: bool,
    /// When the first later packet arrived, on the receiver's clock.
    passed: Timestamp,
}

/// The sending end of a stream.
#[derive(Debug)]
pub struct Sender {
    source: Source,
    control: Box<dyn MediaControl>,
    frame_rate: f64,
    retransmit: bool,
    patience: TimeDelta,
    start: Option<Timestamp>,
    next_frame: Timestamp,
    frame: u32,
    stopped: bool,
    wants_key_frame: bool,
    /// The last key frame.
    key_frame: u32,
    /// The first frame of which packets are worth sending again.
    needed: u32,
    queue: VecDeque<Queued>,
    again: VecDeque<MediaPacket>,
    /// Packets from number `first` on.
    sent: VecDeque<Sent>,
    first: u64,
    /// One past the highest number that is known to have arrived.
    highest: u64,
    /// Bytes sent in all, and up to the highest packet that is known to have arrived.
    sent_bytes: u64,
    passed_bytes: u64,
    /// Earliest time of the next packet.
    paced: Timestamp,
    last: Timestamp,
    srtt: TimeDelta,
    acked: Vec<Acked>,
    stats: SenderStats,
}

impl Sender {
    /// A stream that has not begun. Its encoder draws from `stream`.
    pub fn new(params: &MediaParams, algorithm: &Algorithm, stream: Stream) -> Self {
        Sender {
            source: Source::new(params, stream),
            control: algorithm.build(&params.control_config()),
            frame_rate: params.frame_rate,
            retransmit: params.retransmit,
            patience: params.send_queue,
            start: None,
            next_frame: Timestamp::NEVER,
            frame: 0,
            stopped: false,
            wants_key_frame: false,
            key_frame: 0,
            needed: 0,
            queue: VecDeque::new(),
            again: VecDeque::new(),
            sent: VecDeque::new(),
            first: 0,
            highest: 0,
            sent_bytes: 0,
            passed_bytes: 0,
            paced: Timestamp::ZERO,
            last: Timestamp::ZERO,
            srtt: TimeDelta::ZERO,
            acked: Vec::new(),
            stats: SenderStats::default(),
        }
    }

    /// Captures the first frame.
    pub fn start(&mut self, now: Timestamp) {
        (self.start, self.next_frame, self.last) = (Some(now), now, now);
        self.handle_timeout(now);
    }

    /// Captures no more frames. What has been encoded is still sent.
    pub fn stop(&mut self) {
        (self.stopped, self.next_frame) = (true, Timestamp::NEVER);
    }

    /// Handles the passing of time: captures the frames that are due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while now >= self.next_frame {
            let Some(start) = self.start else { return };
            let at = self.next_frame;
            self.stats.ticks += 1;
            self.stats.target_sum += self.control.target_rate().as_bps();
            self.next_frame = start + TimeDelta::from_secs_f64(self.stats.ticks as f64 / self.frame_rate);
            let waits = |queued: &Queued| at.saturating_since(queued.since) > self.patience;
            if !self.queue.front().is_some_and(waits) {
                self.capture(at);
            }
        }
    }

    /// Encodes a frame and puts its packets into the queue.
    fn capture(&mut self, now: Timestamp) {
        let asked = std::mem::take(&mut self.wants_key_frame);
        let target = self.control.target_rate().as_bps() as f64;
        let encoded = self.source.encode(now, target, asked);
        self.control.on_frame(now, encoded.bytes);
        if encoded.key {
            self.key_frame = self.frame;
        }
        let count = u64::from(encoded.count);
        for index in 0..count {
            // Packets of a frame are of equal size, apart from a byte.
            let bytes = (encoded.bytes * (index + 1) / count - encoded.bytes * index / count) as u32;
            let packet = MediaPacket {
                seq: 0,
                captured: now,
                frame: self.frame,
                index: index as u16,
                count: encoded.count,
                key: encoded.key,
                kbps: encoded.kbps,
                bytes,
                again: false,
            };
            self.queue.push_back(Queued { packet, since: now });
        }
        self.frame += 1;
        self.stats.frames += 1;
    }

    /// The next packet to be sent at `now`, with its ECN field.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<(MediaPacket, Ecn)> {
        if now < self.next_transmit() {
            return None;
        }
        if self.in_flight() >= self.control.window() {
            // It has been stuck: what is in flight is forgotten.
            self.passed_bytes = self.sent_bytes;
        }
        let mut packet =
            self.again.pop_front().or_else(|| self.queue.pop_front().map(|queued| queued.packet))?;
        packet.seq = self.first + self.sent.len() as u64;
        let bytes = u64::from(packet.bytes);
        self.sent_bytes += bytes;
        self.sent.push_back(Sent {
            packet,
            at: now,
            end: self.sent_bytes,
            settled: false,
            passed: Timestamp::NEVER,
        });
        if self.sent.len() > REMEMBERED {
            self.sent.pop_front();
            self.first += 1;
        }
        self.stats.packets += 1;
        self.stats.bytes += bytes;
        self.stats.again += u64::from(packet.again);
        self.paced = self.paced.max(now) + self.control.pacing_rate().time_for(bytes);
        self.last = now;
        self.control.on_sent(now, bytes, self.in_flight());
        Some((packet, self.control.ecn()))
    }

    /// When the next packet that waits may be sent.
    fn next_transmit(&self) -> Timestamp {
        if self.queue.is_empty() && self.again.is_empty() {
            return Timestamp::NEVER;
        }
        match self.in_flight() < self.control.window() {
            true => self.paced,
            false => self.paced.max(self.last + STUCK),
        }
    }

    /// When there is something to do next.
    pub fn poll_timeout(&self) -> Timestamp {
        self.next_frame.min(self.next_transmit())
    }

    /// Handles a report.
    pub fn handle_report(&mut self, now: Timestamp, report: &Report) {
        if report.wants_key_frame && !self.stopped {
            let wait = KEY_FRAMES.max(self.srtt.saturating_mul(2));
            self.wants_key_frame |= self.source.key_at().is_none_or(|at| now.saturating_since(at) >= wait);
            // The receiver shows nothing until it has a key frame: the next one, or the last if that may still be under way.
            self.needed = if self.wants_key_frame { self.frame } else { self.key_frame };
            self.again.retain(|packet| packet.frame >= self.needed);
        }
        let (prior_in_flight, prior_passed) = (self.in_flight(), self.passed_bytes);
        self.acknowledge(now, report);
        let lost = self.find_lost(now, report);
        let settled = self.sent.iter().take_while(|sent| sent.settled).count();
        self.sent.drain(..settled);
        self.first += settled as u64;
        if self.acked.is_empty() && lost == 0 {
            return;
        }
        self.control.on_feedback(&Feedback {
            now,
            acked: &self.acked,
            lost,
            passed: self.passed_bytes - prior_passed,
            srtt: self.srtt,
            prior_in_flight,
            in_flight: self.in_flight(),
        });
    }

    /// Notes what has arrived, and what later packets have passed.
    fn acknowledge(&mut self, now: Timestamp, report: &Report) {
        self.acked.clear();
        let mut earliest = Timestamp::NEVER;
        for (place, arrival) in report.arrivals.iter().enumerate().rev() {
            let seq = report.begin + place as u64;
            if let Some(arrival) = arrival {
                earliest = earliest.min(arrival.at);
            }
            let Some(place) = seq.checked_sub(self.first) else { break };
            let Some(sent) = self.sent.get_mut(place as usize).filter(|sent| !sent.settled) else { continue };
            match arrival {
                Some(arrival) => {
                    sent.settled = true;
                    self.passed_bytes = self.passed_bytes.max(sent.end);
                    self.highest = self.highest.max(seq + 1);
                    self.acked.push(Acked {
                        seq,
                        sent: sent.at,
                        arrived: arrival.at,
                        bytes: u64::from(sent.packet.bytes),
                        ce: arrival.ce,
                    });
                }
                None => sent.passed = sent.passed.min(earliest),
            }
        }
        self.acked.reverse();
        if let Some(newest) = self.acked.last() {
            let held = report.at.saturating_since(newest.arrived);
            self.on_rtt(now.saturating_since(newest.sent).saturating_sub(held));
        }
    }

    /// Takes packets for lost. Returns how many.
    fn find_lost(&mut self, now: Timestamp, report: &Report) -> u64 {
        let window = self.srtt / 4;
        let mut lost = 0;
        let up_to = (self.highest.saturating_sub(self.first) as usize).min(self.sent.len());
        for (sent, seq) in self.sent.iter_mut().take(up_to).zip(self.first..) {
            // Of what came before its begin no report will tell any more.
            let forgotten = seq < report.begin;
            let overdue = sent.passed.is_set() && report.at.saturating_since(sent.passed) >= window;
            if sent.settled || !forgotten && !overdue {
                continue;
            }
            sent.settled = true;
            lost += 1;
            let recent = now.saturating_since(sent.packet.captured) < TimeDelta::from_secs(1);
            let needed = sent.packet.frame >= self.needed;
            if self.retransmit && !sent.packet.again && recent && needed {
                self.again.push_back(MediaPacket { again: true, ..sent.packet });
            }
        }
        lost
    }

    fn on_rtt(&mut self, rtt: TimeDelta) {
        self.stats.rtt_count += 1;
        self.stats.rtt_sum = self.stats.rtt_sum.saturating_add(rtt.as_nanos());
        self.stats.rtt_min = Some(self.stats.rtt_min.map_or(rtt, |min| min.min(rtt)));
        self.stats.rtt_max = self.stats.rtt_max.max(rtt);
        self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt.saturating_mul(7) + rtt) / 8 };
    }

    /// Bytes of the packets sent after the last one that is known to have arrived.
    pub fn in_flight(&self) -> u64 {
        self.sent_bytes - self.passed_bytes
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> TimeDelta {
        self.srtt
    }

    /// Its congestion control.
    pub fn control(&self) -> &dyn MediaControl {
        &*self.control
    }

    /// What it has done so far.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Begins extremes anew.
    pub fn reset_extremes(&mut self) {
        (self.stats.rtt_min, self.stats.rtt_max) = (None, TimeDelta::ZERO);
    }
}
