//! What the tests of media share: streams over one bottleneck with a fixed delay, so that they need no network.

use std::collections::BTreeMap;

use warpline_core::{Ecn, Rate, Streams, TimeDelta, Timestamp};

use super::{Algorithm, MediaPacket, MediaParams, Receiver, Report, Sender, Watched};

/// A bottleneck and its path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// From which second on which rate in kbit/s.
    pub(super) rates: Vec<(u64, u64)>,
    /// Delay in each direction.
    pub(super) delay: TimeDelta,
    /// Longest time in the queue.
    pub(super) queue: TimeDelta,
    /// Packets of L4S that have to wait for longer than this are marked.
    pub(super) mark_after: TimeDelta,
    /// Each so many packets are lost; none for 0.
    pub(super) lose_each: u64,
    /// From which second to which other all packets are lost.
    pub(super) out: Option<(u64, u64)>,
}

impl Default for Path {
    fn default() -> Self {
        Path {
            rates: vec![(0, 2000)],
            delay: TimeDelta::from_millis(50),
            queue: TimeDelta::from_millis(300),
            mark_after: TimeDelta::MAX,
            lose_each: 0,
            out: None,
        }
    }
}

enum What {
    Packet(usize, MediaPacket, bool),
    Report(usize, Report),
}

/// What a stream did in a span of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Delivered payload in kbit/s.
    pub(super) kbps: f64,
    /// Mean and 95th percentile of the frame delay in milliseconds.
    pub(super) delay: f64,
    pub(super) delay_p95: f64,
    pub(super) watched: Watched,
    pub(super) again: u64,
}

/// Streams over a path.
pub(super) struct Bed {
    path: Path,
    streams: Vec<(Sender, Receiver)>,
    delays: Vec<Vec<f64>>,
    events: BTreeMap<(Timestamp, u64), What>,
    order: u64,
    busy: Timestamp,
    packets: u64,
    now: Timestamp,
}

impl Bed {
    pub(super) fn new(path: Path, params: &MediaParams, algorithms: &[Algorithm]) -> Bed {
        let stream = |number: usize| Streams::new(1).stream(&format!("media.{number}"));
        let streams = algorithms.iter().enumerate().map(|(number, algorithm)| {
            let sender = Sender::new(params, algorithm, stream(number));
            (sender, Receiver::new(params, algorithm.report_rule()))
        });
        let mut bed = Bed {
            path,
            streams: streams.collect(),
            delays: vec![Vec::new(); algorithms.len()],
            events: BTreeMap::new(),
            order: 0,
            busy: Timestamp::ZERO,
            packets: 0,
            now: Timestamp::ZERO,
        };
        bed.streams.iter_mut().for_each(|(sender, _)| sender.start(Timestamp::ZERO));
        bed
    }

    fn post(&mut self, at: Timestamp, what: What) {
        self.order += 1;
        self.events.insert((at, self.order), what);
    }

    /// Puts a packet into the queue.
    fn offer(&mut self, stream: usize, packet: MediaPacket, ecn: Ecn) {
        self.packets += 1;
        let kbps = self.path.rates.iter().rev().find(|(second, _)| Timestamp::from_secs(*second) <= self.now);
        let rate = Rate::from_bps(kbps.map_or(0, |(_, kbps)| kbps * 1000));
        let wait = self.busy.saturating_since(self.now);
        let second = self.now.as_secs_f64();
        let out = self.path.out.is_some_and(|(from, to)| second >= from as f64 && second < to as f64);
        let lost = out || self.path.lose_each > 0 && self.packets.is_multiple_of(self.path.lose_each);
        if lost || wait > self.path.queue {
            return;
        }
        self.busy = self.busy.max(self.now) + rate.time_for(u64::from(packet.bytes));
        let ce = ecn == Ecn::Ect1 && wait > self.path.mark_after;
        self.post(self.busy + self.path.delay, What::Packet(stream, packet, ce));
    }

    /// Runs until a second.
    pub(super) fn run(&mut self, second: u64) {
        let end = Timestamp::from_secs(second);
        loop {
            let timers = self
                .streams
                .iter()
                .map(|(sender, receiver)| sender.poll_timeout().min(receiver.poll_timeout()));
            let event = self.events.keys().next().map_or(Timestamp::NEVER, |(at, _)| *at);
            let next = timers.min().unwrap_or(Timestamp::NEVER).min(event);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let now = self.now;
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= now
            {
                match entry.remove() {
                    What::Packet(stream, packet, ce) => {
                        self.streams[stream].1.handle_packet(now, &packet, ce);
                    }
                    What::Report(stream, report) => self.streams[stream].0.handle_report(now, &report),
                }
            }
            for stream in 0..self.streams.len() {
                let (sender, receiver) = &mut self.streams[stream];
                sender.handle_timeout(now);
                receiver.handle_timeout(now);
                let report = receiver.poll_report(now);
                while let Some(delay) = receiver.poll_shown() {
                    self.delays[stream].push(delay.as_nanos() as f64 / 1e6);
                }
                if let Some(report) = report {
                    self.post(now + self.path.delay, What::Report(stream, report));
                }
                while let Some((packet, ecn)) = self.streams[stream].0.poll_transmit(now) {
                    self.offer(stream, packet, ecn);
                }
            }
        }
    }

    /// Runs from one second to another; what every stream does there.
    pub(super) fn measure(&mut self, from: u64, to: u64) -> Vec<Outcome> {
        self.run(from);
        let before: Vec<_> = self
            .streams
            .iter()
            .map(|(sender, receiver)| (receiver.delivered(), *receiver.watched(), sender.stats().again))
            .collect();
        self.delays.iter_mut().for_each(Vec::clear);
        self.run(to);
        let outcome = |stream: usize| {
            let (sender, receiver) = &self.streams[stream];
            let (delivered, watched, again) = &before[stream];
            let mut delays = self.delays[stream].clone();
            delays.sort_by(f64::total_cmp);
            let now = receiver.watched();
            Outcome {
                kbps: (receiver.delivered() - delivered) as f64 * 8.0 / (to - from) as f64 / 1000.0,
                delay: delays.iter().sum::<f64>() / delays.len().max(1) as f64,
                delay_p95: delays.get(delays.len() * 95 / 100).copied().unwrap_or(f64::NAN),
                watched: Watched {
                    shown: now.shown - watched.shown,
                    late: now.late - watched.late,
                    lost: now.lost - watched.lost,
                    freezes: now.freezes - watched.freezes,
                    frozen: now.frozen.saturating_sub(watched.frozen),
                    watched: now.watched.saturating_sub(watched.watched),
                    quality: now.quality.saturating_sub(watched.quality),
                },
                again: sender.stats().again - again,
            }
        };
        (0..self.streams.len()).map(outcome).collect()
    }
}
