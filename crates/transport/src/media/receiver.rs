//! The receiving end of a stream: reports on packets, and frames that are shown.

use std::collections::VecDeque;

use warpline_core::{TimeDelta, Timestamp};

use super::playout::{Playout, Watched};
use super::report::{Arrival, Report, ReportRule};
use super::{HEADERS, MediaPacket, MediaParams};

/// The most packets that a report tells of (RFC 8888 section 3.1).
const LONGEST: usize = 16_384;

/// The receiving end of a stream.
///
/// Every report tells of the packets of the two reports before it once more, so that the loss of one or two reports does not look like one of packets.
#[derive(Clone, Debug)]
pub struct Receiver {
    rule: ReportRule,
    playout: Playout,
    /// How packets arrived, from number `begin` on.
    arrivals: VecDeque<Option<Arrival>>,
    begin: u64,
    /// One past the last number of each of the last three reports, the oldest first.
    reported: [u64; 3],
    /// When the first packet arrived of which no report has told.
    waiting: Option<Timestamp>,
    /// Whether a report is due at once.
    due: bool,
    /// Received rate in bit/s, averaged; bytes since the last report, and when that was.
    rate: f64,
    bytes: u64,
    last: Option<Timestamp>,
    /// Unique payload bytes that were needed.
    delivered: u64,
}

impl Receiver {
    /// The receiver of a stream, which reports as its congestion control asks.
    pub fn new(params: &MediaParams, rule: ReportRule) -> Self {
        Receiver {
            rule,
            playout: Playout::new(params),
            arrivals: VecDeque::new(),
            begin: 0,
            reported: [0; 3],
            waiting: None,
            due: false,
            rate: 0.0,
            bytes: 0,
            last: None,
            delivered: 0,
        }
    }

    /// Handles a packet, which came with the congestion-experienced mark if `ce`. Returns whether it brought something that was still needed.
    pub fn handle_packet(&mut self, now: Timestamp, packet: &MediaPacket, ce: bool) -> bool {
        self.bytes += u64::from(packet.bytes);
        if packet.seq >= self.begin {
            let place = (packet.seq - self.begin) as usize;
            if place >= self.arrivals.len() {
                self.arrivals.resize(place + 1, None);
            }
            let first = self.arrivals[place].is_none();
            if first {
                self.arrivals[place] = Some(Arrival { at: now, ce });
                self.waiting.get_or_insert(now);
                self.due |= self.rule == ReportRule::Frame && packet.index + 1 == packet.count;
            }
        }
        let new = self.playout.insert(now, packet);
        if new {
            self.delivered += u64::from(packet.bytes.saturating_sub(HEADERS));
        }
        new
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if now >= self.playout.poll_timeout() {
            self.playout.advance(now);
        }
    }

    /// When there is something to do next.
    pub fn poll_timeout(&self) -> Timestamp {
        self.report_due().min(self.playout.poll_timeout())
    }

    /// When the next report is due.
    fn report_due(&self) -> Timestamp {
        let Some(waiting) = self.waiting else { return Timestamp::NEVER };
        if self.due {
            return waiting;
        }
        let patience = self.rule.patience(self.rate);
        match self.rule {
            ReportRule::Frame => waiting + patience,
            ReportRule::Share => self.last.map_or(waiting, |last| waiting.max(last + patience)),
        }
    }

    /// The report that is due at `now`, if one is.
    pub fn poll_report(&mut self, now: Timestamp) -> Option<Report> {
        if now < self.report_due() {
            return None;
        }
        (self.waiting, self.due) = (None, false);
        if let Some(last) = self.last {
            let span = now.saturating_since(last).as_secs_f64();
            if span > 0.0 {
                let rate = self.bytes as f64 * 8.0 / span;
                self.rate += (rate - self.rate) / 8.0;
            }
        }
        (self.last, self.bytes) = (Some(now), 0);
        let end = self.begin + self.arrivals.len() as u64;
        self.forget(self.reported[0].max(end.saturating_sub(LONGEST as u64)));
        self.reported = [self.reported[1], self.reported[2], end];
        Some(Report {
            at: now,
            begin: self.begin,
            arrivals: self.arrivals.iter().copied().collect(),
            wants_key_frame: self.playout.wants_key_frame(),
        })
    }

    /// Forgets packets below this number.
    fn forget(&mut self, begin: u64) {
        let count = (begin.saturating_sub(self.begin) as usize).min(self.arrivals.len());
        self.arrivals.drain(..count);
        self.begin += count as u64;
    }

    /// The frames shown since the last call, one by one: the time from the capture of each.
    pub fn poll_shown(&mut self) -> Option<TimeDelta> {
        self.playout.poll_shown()
    }

    /// What has been shown so far.
    pub fn watched(&self) -> &Watched {
        self.playout.totals()
    }

    /// Payload bytes of media that were needed, each counted once.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The stream has ended: from now on a picture that stays is no freeze.
    pub fn stop(&mut self, now: Timestamp) {
        self.playout.stop(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u64, frame: u32, index: u16, count: u16) -> MediaPacket {
        MediaPacket {
            seq,
            captured: Timestamp::from_millis(10),
            frame,
            index,
            count,
            key: frame == 0,
            kbps: 300,
            bytes: 1200,
            again: false,
        }
    }

    fn receiver(rule: ReportRule) -> Receiver {
        Receiver::new(&MediaParams::default(), rule)
    }

    #[test]
    fn a_report_follows_the_last_packet_of_a_frame_and_repeats_those_of_two_reports() {
        let mut receiver = receiver(ReportRule::Frame);
        let at = Timestamp::from_millis;
        receiver.handle_packet(at(20), &packet(0, 0, 0, 2), false);
        assert_eq!(receiver.poll_timeout(), at(120));
        assert_eq!(receiver.poll_report(at(20)), None);
        receiver.handle_packet(at(21), &packet(1, 0, 1, 2), true);
        let first = receiver.poll_report(at(21)).unwrap();
        assert_eq!((first.begin, first.arrivals.len()), (0, 2));
        assert_eq!(first.arrivals[1], Some(Arrival { at: at(21), ce: true }));
        assert_eq!(receiver.poll_report(at(22)), None);
        let mut begins = Vec::new();
        for frame in 1..5 {
            // The first packet of each frame is lost.
            receiver.handle_packet(
                at(21 + u64::from(frame)),
                &packet(u64::from(frame) * 2 + 1, frame, 1, 2),
                false,
            );
            let report = receiver.poll_report(at(21 + u64::from(frame))).unwrap();
            assert_eq!(report.arrivals.last().copied().flatten().map(|last| last.at), Some(report.at));
            begins.push((report.begin, report.arrivals.iter().filter(|arrival| arrival.is_none()).count()));
        }
        assert_eq!(begins, [(0, 1), (0, 2), (2, 3), (4, 3)]);
    }

    #[test]
    fn reports_by_share_come_at_their_interval() {
        let mut receiver = receiver(ReportRule::Share);
        let mut reports = Vec::new();
        // 1.2 Mbit/s: a packet each 8 ms.
        for n in 0..1000 {
            let now = Timestamp::from_millis(8 * n);
            receiver.handle_packet(now, &packet(n, n as u32, 0, 1), false);
            reports.extend(receiver.poll_report(now).map(|report| report.at));
        }
        let late = reports.iter().filter(|at| **at >= Timestamp::from_secs(4)).count();
        // One in 33 ms, and here with the next packet: one in 40 ms.
        assert_eq!(late, 100);
    }

    #[test]
    fn a_packet_that_comes_twice_is_delivered_once() {
        let mut receiver = receiver(ReportRule::Frame);
        let now = Timestamp::from_millis(20);
        assert!(receiver.handle_packet(now, &packet(0, 0, 0, 2), false));
        assert!(!receiver.handle_packet(now, &packet(0, 0, 0, 2), false));
        assert!(!receiver.handle_packet(now, &packet(5, 0, 0, 2), false));
        assert_eq!(receiver.delivered(), 1200 - u64::from(HEADERS));
    }
}
