//! One direction of a TCP connection: what one end sends, and the other acknowledges, as they pass the capture.

use std::collections::BTreeMap;

use super::capture::Segment;

/// Bytes of a segment's payload where nothing tells: Ethernet's 1500 less the headers of IPv4 and TCP with timestamps.
const USUAL_MSS: u32 = 1448;
/// Segments that arrive within this share of the round trip after a gap have been overtaken, and were not lost (as RACK has it: RFC 8985 section 6.2).
const REORDERING: f64 = 0.25;

/// A round trip from the capture to the other end and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// When the packet passed.
    pub sent: f64,
    /// How long the answer took, in seconds.
    pub rtt: f64,
    /// Bytes of the packet and its answer together, which take time on slow links.
    pub bytes: u32,
}

/// A packet that was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    /// When it passed the capture; for one lost before it, when the last packet of this end passed before the gap.
    pub after: f64,
    /// When it passed the capture; for one lost before it, when the next one did.
    pub at: f64,
}

/// A segment that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: f64,
    end: u64,
    bytes: u32,
    is_resent: bool,
}

/// What one end of a connection sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Half {
    /// The sequence number of the first byte.
    start: Option<u32>,
    /// The end of what was seen, counted from the first byte.
    next: u64,
    /// Segments that are not acknowledged, by their first byte.
    flight: BTreeMap<u64, Sent>,
    /// What was not seen, by its first byte: its end, and when that showed.
    gaps: BTreeMap<u64, (u64, f64)>,
    /// When the SYN passed, if it did once.
    syn: Option<f64>,
    mss: Option<u32>,
    /// The shortest round trip so far.
    shortest: Option<f64>,
    /// Since when all that it sent is acknowledged.
    idle: Option<f64>,
    /// The longest such time, in seconds, that new data has ended.
    longest_idle: f64,
    /// Packets with payload.
    pub packets: u64,
    /// Packets with payload that was sent before.
    pub resent: u64,
    pub samples: Vec<Sample>,
    pub losses: Vec<Loss>,
    /// When packets passed, and their bytes.
    pub passed: Vec<(f64, u32)>,
    /// When packets were acknowledged, and their bytes.
    pub delivered: Vec<(f64, u32)>,
    /// When packets without payload passed, and their bytes.
    pub answers: Vec<(f64, u32)>,
    /// When packets with a timestamp (RFC 7323) passed, and this end's clock in it.
    pub stamps: Vec<(f64, u32)>,
    /// When the first and the last byte of payload passed.
    pub times: Option<(f64, f64)>,
    /// Whether it has acknowledged anything.
    pub has_acknowledged: bool,
    /// Whether it has ended by a FIN or a RST.
    pub is_over: bool,
}

impl Half {
    /// Bytes of payload, each counted once.
    pub(super) fn payload(&self) -> u64 {
        self.next
    }

    /// Packets of this end that passed.
    pub(super) fn seen(&self) -> usize {
        self.passed.len() + self.answers.len()
    }

    /// The shortest round trip to the other end, in seconds.
    pub(super) fn shortest(&self) -> Option<f64> {
        self.shortest
    }

    /// Whether it had data to send at all times until `end`, in seconds, when the capture ends. One that waits for its user is idle for longer than `pause`
    /// seconds, or sends less than a full packet in such a time.
    pub(super) fn always_sends(&self, pause: f64, end: f64) -> bool {
        let Some((first, last)) = self.times else { return false };
        let idle = self.idle.map_or(0.0, |since| end - since).max(self.longest_idle);
        let full = f64::from(self.mss.unwrap_or(USUAL_MSS));
        idle <= pause
            && self.payload() as f64 * pause >= full * (end - first)
            && end - last <= self.patience()
    }

    /// The longest time in seconds for which it was silent while it sent, or waited for an answer.
    fn patience(&self) -> f64 {
        let pauses = self.passed.windows(2).map(|two| two[1].0 - two[0].0);
        let waits = self.samples.iter().map(|sample| sample.rtt);
        pauses.chain(waits).fold(0.0, f64::max)
    }

    /// The largest segment that the other end takes.
    pub(super) fn limit(&mut self, mss: u16) {
        self.mss = Some(u32::from(mss).max(1));
    }

    /// The distance of a sequence number from the first byte; none if it lies before that.
    fn place(&self, seq: u32) -> Option<u64> {
        let start = self.start?;
        let near = start.wrapping_add(self.next as u32);
        self.next.checked_add_signed(i64::from(seq.wrapping_sub(near) as i32))
    }

    /// A segment of this end's passes. `bytes` counts its headers too.
    pub(super) fn on_segment(&mut self, at: f64, segment: &Segment, bytes: u32) {
        self.stamps.extend(segment.stamp.map(|(own, _)| (at, own)));
        if segment.payload == 0 {
            self.answers.push((at, bytes));
        }
        self.has_acknowledged |= segment.ack.is_some() && !segment.rst;
        if segment.syn {
            self.syn = if self.start.is_none() { Some(at) } else { None };
            self.start = Some(segment.seq.wrapping_add(1));
            return;
        }
        self.is_over |= segment.fin || segment.rst;
        if segment.payload == 0 {
            return;
        }
        self.start.get_or_insert(segment.seq);
        let Some(begin) = self.place(segment.seq) else { return };
        let end = begin + u64::from(segment.payload);
        // A probe of a connection that sends nothing repeats its last byte.
        if segment.payload == 1 && end <= self.next {
            return;
        }
        // A capture on the sender shows what its card cuts into segments.
        let mss = self.mss.unwrap_or(USUAL_MSS);
        let count = segment.payload.div_ceil(mss);
        let bytes = segment.payload + count * bytes.saturating_sub(segment.payload);
        self.packets += u64::from(count);
        self.passed.push((at, bytes));
        let (first, before) = self.times.unwrap_or((at, at));
        self.times = Some((first, at));
        if begin >= self.next {
            if let Some(since) = self.idle.take() {
                self.longest_idle = self.longest_idle.max(at - since);
            }
            if begin > self.next {
                self.on_gap(before, at, begin, mss);
            }
            self.next = end;
            self.flight.insert(begin, Sent { at, end, bytes, is_resent: false });
        } else if let Some((&first, &(gap_end, since))) =
            self.gaps.range(..=begin).next_back().filter(|&(_, &(gap_end, _))| begin < gap_end)
        {
            self.gaps.remove(&first);
            if begin > first {
                self.gaps.insert(first, (begin, since));
            }
            if end < gap_end {
                self.gaps.insert(end, (gap_end, since));
            }
            if self.shortest.is_some_and(|shortest| at - since < REORDERING * shortest) {
                let lost = self.losses.iter().rposition(|loss| loss.at == since);
                lost.map(|lost| self.losses.remove(lost));
            } else {
                self.resent += u64::from(count);
            }
            self.flight.insert(begin, Sent { at, end, bytes, is_resent: true });
        } else {
            self.resent += u64::from(count);
            // What is acknowledged already was not lost.
            if let Some(sent) = self.flight.range_mut(..=begin).next_back().map(|(_, sent)| sent)
                && begin < sent.end
            {
                self.losses.extend((0..count).map(|_| Loss { after: sent.at, at: sent.at }));
                sent.at = at;
                sent.is_resent = true;
            }
        }
    }

    /// Notes that what lies between the segments that passed at `after` and `at` was not seen.
    fn on_gap(&mut self, after: f64, at: f64, begin: u64, mss: u32) {
        let missing = begin - self.next;
        // A capture that leaves out a part of a connection has no use for counts of millions.
        let count = missing.div_ceil(u64::from(mss)).min(1000);
        self.losses.extend((0..count).map(|_| Loss { after, at }));
        self.gaps.insert(self.next, (begin, at));
    }

    /// The other end acknowledges what this one has sent. `bytes` are those of the packet that does.
    pub(super) fn on_ack(&mut self, at: f64, segment: &Segment, bytes: u32) {
        let Some(ack) = segment.ack else { return };
        if let Some(sent) = self.syn.take() {
            self.sample(Sample { sent, rtt: at - sent, bytes: 2 * bytes });
        }
        let Some(ack) = self.place(ack) else { return };
        let mut delivered = 0;
        let mut newest: Option<Sent> = None;
        let mut is_resent = false;
        let mut take = |sent: Sent| {
            delivered += sent.bytes;
            is_resent |= sent.is_resent;
            if newest.is_none_or(|newest| newest.at <= sent.at) {
                newest = Some(sent);
            }
        };
        while let Some(first) = self.flight.first_entry()
            && first.get().end <= ack
        {
            take(first.remove());
        }
        for (left, right) in &segment.sacked {
            let (Some(left), Some(right)) = (self.place(*left), self.place(*right)) else { continue };
            if right <= ack {
                // What has arrived twice was not lost (RFC 2883).
                self.losses.pop();
                continue;
            }
            if left >= right {
                continue;
            }
            let inside: Vec<u64> = self
                .flight
                .range(left..right)
                .filter(|(_, sent)| sent.end <= right)
                .map(|(&begin, _)| begin)
                .collect();
            for begin in inside {
                self.flight.remove(&begin).map(&mut take);
            }
        }
        if delivered > 0 {
            self.delivered.push((at, delivered));
            self.idle = self.flight.is_empty().then_some(at);
        }
        // Of what was sent twice, nobody knows which one is acknowledged (Karn).
        if let Some(sent) = newest.filter(|_| !is_resent) {
            self.sample(Sample { sent: sent.at, rtt: at - sent.at, bytes: sent.bytes + bytes });
        }
    }

    /// A round trip was seen.
    pub(super) fn sample(&mut self, sample: Sample) {
        if sample.rtt >= 0.0 {
            self.shortest = Some(self.shortest.map_or(sample.rtt, |shortest| shortest.min(sample.rtt)));
            self.samples.push(sample);
        }
    }
}
