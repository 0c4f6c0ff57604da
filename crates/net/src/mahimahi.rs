//! Links that follow a mahimahi trace: a text with one millisecond timestamp per line, each an opportunity to deliver 1500 bytes.
//!
//! Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, and its `mm-link`:
//! - Timestamps never decrease; the same one twice means two opportunities in that millisecond.
//! - The trace repeats: its last stamp is time 0 of the next round.
//! - An opportunity carries up to 1500 bytes: the rest of a packet in transmission, then further waiting packets. The part beyond
//!   the waiting packets is lost, and an opportunity without waiting packets is lost completely.
//! - A packet that arrives at the very instant of an opportunity is too late for it, and for what other packets leave of it: mm-link uses up what is
//!   due before it takes a packet (link_queue.cc, `read_packet`).
//!
//! Departures: mm-link wakes once a millisecond and counts 1504 bytes, the 1500 and the header of its TUN device; here
//! packets are counted from the IP header on, and 1500 bytes are 1500. Lines may end in CR LF.

use std::sync::Arc;

use thiserror::Error;
use warpline_core::{Rate, Timestamp};

/// Bytes that an opportunity delivers.
pub const OPPORTUNITY: u32 = 1500;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Why a text is not a trace. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A character that is not a digit.
    #[error(
        "line {line}, column {column}: {found} is not a digit; each line is one whole number of milliseconds"
    )]
    NotADigit {
        /// The line.
        line: u64,
        /// The column, in bytes.
        column: u64,
        /// The character there, printable.
        found: String,
    },
    /// A line without a number.
    #[error("line {line}, column 1: the line is empty; each line is one whole number of milliseconds")]
    EmptyLine {
        /// The line.
        line: u64,
    },
    /// A stamp that does not fit.
    #[error("line {line}, column {column}: the stamp is above {} ms (49 days), the largest", u32::MAX)]
    TooLarge {
        /// The line.
        line: u64,
        /// The column of the digit that made it too large.
        column: u64,
    },
    /// A stamp below the one before.
    #[error(
        "line {line}, column 1: stamp {stamp} comes after {previous}; sort the lines: stamps must not fall"
    )]
    Falling {
        /// The line.
        line: u64,
        /// Its stamp.
        stamp: u32,
        /// The stamp of the line before.
        previous: u32,
    },
    /// No stamps at all.
    #[error("line 1, column 1: the trace is empty; it needs at least one stamp above 0")]
    Empty,
    /// It would repeat without time passing.
    #[error("line {line}, column 1: the last stamp is 0; it is the trace's length and must be above 0")]
    NoLength {
        /// The last line.
        line: u64,
    },
}

/// A parsed trace: eight bytes for each millisecond that has opportunities, however many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Millisecond and how many opportunities it has; milliseconds rise, counts are not 0.
    runs: Vec<(u32, u32)>,
    /// Opportunities in all.
    opportunities: u64,
    /// Milliseconds after which it repeats, the last stamp or later; above 0.
    period: u32,
}

/// Reads a trace piece by piece, so that a large file need not be in memory at once.
#[derive(Clone, Debug, Default)]
pub struct TraceParser {
    runs: Vec<(u32, u32)>,
    /// Lines completed.
    lines: u64,
    /// Bytes of the present line.
    column: u64,
    stamp: u32,
    digits: bool,
    /// The last byte was a CR, which only LF or the end may follow.
    cr: bool,
}

impl TraceParser {
    /// Reads the next bytes of the file.
    ///
    /// # Errors
    /// At the first error; the parser cannot be used afterwards.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        for &byte in bytes {
            let line = self.lines + 1;
            match byte {
                b'\n' => {
                    self.end_line()?;
                    continue;
                }
                b'0'..=b'9' if !self.cr => {
                    self.stamp = self
                        .stamp
                        .checked_mul(10)
                        .and_then(|stamp| stamp.checked_add(u32::from(byte - b'0')))
                        .ok_or(TraceError::TooLarge { line, column: self.column + 1 })?;
                    self.digits = true;
                }
                b'\r' if !self.cr => self.cr = true,
                other => {
                    let found = if other.is_ascii() {
                        format!("{:?}", char::from(other))
                    } else {
                        format!("byte {other:#04x}")
                    };
                    return Err(TraceError::NotADigit { line, column: self.column + 1, found });
                }
            }
            self.column += 1;
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), TraceError> {
        let line = self.lines + 1;
        if !self.digits {
            return Err(TraceError::EmptyLine { line });
        }
        let stamp = self.stamp;
        match self.runs.last_mut() {
            Some(&mut (previous, _)) if stamp < previous => {
                return Err(TraceError::Falling { line, stamp, previous });
            }
            Some((previous, count)) if stamp == *previous && *count < u32::MAX => *count += 1,
            _ => self.runs.push((stamp, 1)),
        }
        self.lines = line;
        (self.column, self.stamp, self.digits, self.cr) = (0, 0, false, false);
        Ok(())
    }

    /// The trace; the last line need not end with a line break.
    ///
    /// # Errors
    /// If the last line is invalid, or the trace has no length.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        if self.column > 0 {
            self.end_line()?;
        }
        match self.runs.last() {
            None => Err(TraceError::Empty),
            Some((0, _)) => Err(TraceError::NoLength { line: self.lines }),
            Some(&(period, _)) => {
                self.runs.shrink_to_fit();
                Ok(Trace { runs: self.runs, opportunities: self.lines, period })
            }
        }
    }
}

impl Trace {
    /// Reads the text of a trace file.
    ///
    /// # Errors
    /// At the first error, with its line and column.
    pub fn parse(text: &[u8]) -> Result<Trace, TraceError> {
        let mut parser = TraceParser::default();
        parser.feed(text)?;
        parser.finish()
    }
    /// A trace of milliseconds, above 0 and rising up to `period`, with how many opportunities each has. It repeats after `period`. None without any opportunity.
    pub(crate) fn of_runs(runs: Vec<(u32, u32)>, period: u32) -> Option<Trace> {
        debug_assert!(
            runs.windows(2).all(|pair| pair[0].0 < pair[1].0)
                && runs.iter().all(|run| (1..=period).contains(&run.0))
        );
        let opportunities = runs.iter().map(|&(_, count)| u64::from(count)).sum();
        (!runs.is_empty()).then_some(Trace { runs, opportunities, period })
    }
    /// Opportunities in one round.
    pub const fn opportunities(&self) -> u64 {
        self.opportunities
    }
    /// Milliseconds in one round.
    pub fn period_ms(&self) -> u64 {
        u64::from(self.period)
    }
    /// The rate if every opportunity is used, rounded down.
    pub fn mean_rate(&self) -> Rate {
        let bits = u128::from(self.opportunities) * u128::from(OPPORTUNITY) * 8;
        Rate::from_bps((bits * 1000 / u128::from(self.period_ms())) as u64)
    }

    /// The round of an instant, and how many runs of that round have passed by then.
    fn place(&self, at: Timestamp) -> (u64, usize) {
        let (ms, period) = (at.as_nanos() / NANOS_PER_MILLI, self.period_ms());
        (ms / period, self.runs.partition_point(|&(stamp, _)| u64::from(stamp) <= ms % period))
    }
    /// Opportunities after `from`, up to and including those at `to`; none if the two are not in order. The cost depends on those between, not on
    /// the whole trace.
    pub fn opportunities_between(&self, from: Timestamp, to: Timestamp) -> u64 {
        if to <= from {
            return 0;
        }
        let sum = |runs: &[(u32, u32)]| runs.iter().map(|&(_, count)| u64::from(count)).sum::<u64>();
        let ((first, begin), (last, end)) = (self.place(from), self.place(to));
        if first == last {
            return sum(&self.runs[begin..end]);
        }
        sum(&self.runs[begin..]) + (last - first - 1) * self.opportunities + sum(&self.runs[..end])
    }
    /// The rate between two instants if every opportunity is used, rounded down; the mean rate if they are not in order.
    pub fn rate_between(&self, from: Timestamp, to: Timestamp) -> Rate {
        if to <= from {
            return self.mean_rate();
        }
        let bits = u128::from(self.opportunities_between(from, to)) * u128::from(OPPORTUNITY) * 8;
        Rate::from_bps((bits * 1_000_000_000 / u128::from((to - from).as_nanos())) as u64)
    }
}

/// A link that delivers at the opportunities of a trace.
#[derive(Clone, Debug)]
pub struct TraceLink {
    trace: Arc<Trace>,
    /// The next unused opportunity: which run, how many of the run are used, and milliseconds of whole rounds before it.
    run: usize,
    used: u32,
    base_ms: u64,
    /// When the last packet ended, and the bytes left of the opportunity that it ended in.
    end: Timestamp,
    left: u32,
}

impl TraceLink {
    /// A link at the trace's beginning, which is the run's start.
    pub fn new(trace: Arc<Trace>) -> Self {
        TraceLink { trace, run: 0, used: 0, base_ms: 0, end: Timestamp::ZERO, left: 0 }
    }
    /// The trace it follows.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The run and round of the first millisecond with opportunities after `after`.
    fn seek(&self, after: Timestamp) -> (usize, u64) {
        let (nanos, period) = (after.as_nanos(), self.trace.period_ms());
        let ms = nanos / NANOS_PER_MILLI;
        // A round is 0 (excluded, except for the first) to the period (included), but its stamps of 0 belong to the
        // last round's end; both orders of the two at that instant come to the same.
        let turns = ms / period;
        let within = ms - turns * period;
        let run = self.trace.runs.partition_point(|&(stamp, _)| u64::from(stamp) <= within);
        if run < self.trace.runs.len() { (run, turns * period) } else { (0, (turns + 1) * period) }
    }
    fn time_of(&self, run: usize, base_ms: u64) -> Timestamp {
        self.trace.runs.get(run).map_or(Timestamp::NEVER, |&(stamp, _)| {
            Timestamp::from_nanos(base_ms.saturating_add(u64::from(stamp)).saturating_mul(NANOS_PER_MILLI))
        })
    }
    /// The first opportunity after `after`, used or not.
    pub fn next_opportunity(&self, after: Timestamp) -> Timestamp {
        let (run, base) = self.seek(after);
        self.time_of(run, base)
    }
    /// Takes the next unused opportunity and returns its time.
    fn take(&mut self) -> Timestamp {
        let time = self.time_of(self.run, self.base_ms);
        self.used += 1;
        if self.used >= self.trace.runs.get(self.run).map_or(0, |&(_, count)| count) {
            self.used = 0;
            self.run += 1;
            if self.run >= self.trace.runs.len() {
                self.run = 0;
                self.base_ms = self.base_ms.saturating_add(self.trace.period_ms());
            }
        }
        time
    }

    /// When a packet of `bytes` bytes, whose turn comes at `start`, has been delivered completely. Call once for each packet, in
    /// the order of transmission. One that `waited`, so that it came before `start`, may use the rest of the opportunity in which the last
    /// packet ended, if that was at `start`. Any other packet has lost all opportunities up to and at `start`.
    pub fn finish_of(&mut self, start: Timestamp, bytes: u32, waited: bool) -> Timestamp {
        if !waited || start != self.end || self.end == Timestamp::ZERO {
            self.left = 0;
            (self.run, self.base_ms) = self.seek(start);
            self.used = 0;
        }
        let mut needed = bytes;
        let mut now = start;
        loop {
            let taken = needed.min(self.left);
            needed -= taken;
            self.left -= taken;
            if needed == 0 {
                break;
            }
            now = self.take();
            if !now.is_set() {
                break;
            }
            self.left = OPPORTUNITY;
        }
        self.end = now;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(text: &str) -> TraceLink {
        TraceLink::new(Arc::new(Trace::parse(text.as_bytes()).unwrap()))
    }
    const fn ms(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn errors_name_line_and_column() {
        let message = |text: &[u8]| Trace::parse(text).unwrap_err().to_string();
        for (text, begin) in [
            (&b"1\n2\n1x\n"[..], "line 3, column 2: 'x' is not a digit"),
            (b"1\n 2\n", "line 2, column 1: ' ' is not a digit"),
            (b"1\n-2\n", "line 2, column 1: '-' is not a digit"),
            (b"1\n\xff\n", "line 2, column 1: byte 0xff is not a digit"),
            (b"1\n\r\r\n", "line 2, column 2: '\\r' is not a digit"),
            (b"1\n\n2\n", "line 2, column 1: the line is empty"),
            (b"5\n4\n", "line 2, column 1: stamp 4 comes after 5"),
            (b"4294967296\n", "line 1, column 10: the stamp is above 4294967295 ms"),
            (b"", "line 1, column 1: the trace is empty"),
            (b"0\n0\n", "line 2, column 1: the last stamp is 0"),
        ] {
            assert!(message(text).starts_with(begin), "{}", message(text));
        }
    }

    #[test]
    fn the_last_line_end_may_be_missing_and_lines_may_end_in_crlf() {
        let trace = Trace::parse(b"0\n3\n3\n10").unwrap();
        assert_eq!(trace, Trace::parse(b"0\r\n3\r\n3\r\n10\r\n").unwrap());
        assert_eq!((trace.opportunities(), trace.period_ms()), (4, 10));
        assert_eq!(trace.mean_rate(), Rate::from_bps(4 * 12_000 * 100));
        let mut parser = TraceParser::default();
        for piece in [&b"0\n3"[..], b"", b"\n3\n1", b"0\n"] {
            parser.feed(piece).unwrap();
        }
        assert_eq!(parser.finish().unwrap(), trace);
    }

    #[test]
    fn opportunities_are_counted_over_rounds() {
        let trace = Trace::parse(b"0\n2\n5\n5\n10\n").unwrap();
        let between = |from: u64, to: u64| trace.opportunities_between(ms(from), ms(to));
        // The stamp of 0 belongs to the end of a round: 10, 20 and so on.
        assert_eq!([between(0, 1), between(0, 2), between(2, 5), between(0, 9)], [0, 1, 2, 3]);
        assert_eq!([between(5, 10), between(9, 20), between(0, 35), between(35, 30)], [2, 7, 18, 0]);
        assert_eq!(between(0, 30) + between(30, 41), between(0, 41));
        assert_eq!(trace.rate_between(ms(0), ms(10)), Rate::from_bps(5 * 12_000 * 100));
        assert_eq!(trace.rate_between(ms(0), ms(1000)), trace.mean_rate());
    }

    #[test]
    fn packets_share_and_span_opportunities() {
        let mut link = link("2\n5\n5\n10\n");
        // Three of 500 share the opportunity at 2 ms; the fourth needs the next.
        let mut now = ms(1);
        for expected in [2, 2, 2, 5] {
            now = link.finish_of(now, 500, true);
            assert_eq!(now, ms(expected));
        }
        // 1000 left at 5 ms, then 1500 more at 5 ms; 500 left over.
        now = link.finish_of(now, 2000, true);
        assert_eq!(now, ms(5));
        // 2501 bytes: 500 at 5, 1500 at 10, the rest at 12 in the next round.
        now = link.finish_of(now, 2501, true);
        assert_eq!(now, ms(12));
        // Idle: what was left at 12, and the opportunities at 15, are lost.
        assert_eq!(link.finish_of(ms(16), 40, false), ms(20));
    }

    #[test]
    fn what_is_left_of_an_opportunity_is_for_packets_that_waited() {
        for (waited, end) in [(true, 2), (false, 5)] {
            let mut link = link("2\n2\n5\n10\n");
            assert_eq!(link.finish_of(ms(1), 500, false), ms(2));
            // 1000 bytes are left of the first opportunity at 2 ms, and all of the second.
            assert_eq!(link.finish_of(ms(2), 1500, waited), ms(end));
        }
    }

    #[test]
    fn the_very_instant_is_too_late_and_the_round_repeats() {
        let link = link("0\n2\n5\n");
        let next = |t| link.next_opportunity(t);
        assert_eq!(next(ms(0)), ms(2));
        assert_eq!(next(Timestamp::from_nanos(1_999_999)), ms(2));
        assert_eq!(next(ms(2)), ms(5));
        assert_eq!(next(ms(4)), ms(5));
        assert_eq!(next(ms(5)), ms(7)); // those at 5 (the end) and 5 + 0 (the beginning) are both past
        assert_eq!(next(ms(5000)), ms(5002));
    }

    #[test]
    fn real_traces_are_read_and_filled() {
        // That of the example, and those of a folder that is named.
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/traces").into();
        let mut files: Vec<_> = [Some(own), std::env::var_os("WARPLINE_LINK_TRACES")]
            .into_iter()
            .flatten()
            .flat_map(|folder: std::ffi::OsString| std::fs::read_dir(folder).unwrap())
            .map(|file| file.unwrap().path())
            .filter(|file| file.extension().is_some_and(|end| end == "up" || end == "down"))
            .collect();
        files.sort();
        assert!(!files.is_empty());
        for file in files {
            let text = std::fs::read(&file).unwrap();
            let trace = Arc::new(Trace::parse(&text).unwrap_or_else(|error| panic!("{file:?}: {error}")));
            println!("{file:?}: {} over {} ms", trace.mean_rate(), trace.period_ms());
            // A link that is never idle delivers a full packet per opportunity, in two rounds twice as many.
            let (mut link, mut now) = (TraceLink::new(trace.clone()), Timestamp::ZERO);
            let first =
                trace.runs.iter().filter(|&&(stamp, _)| stamp == 0).map(|&(_, n)| u64::from(n)).sum::<u64>();
            for _ in 0..2 * trace.opportunities() - first {
                now = link.finish_of(now, 1500, true);
            }
            assert_eq!(now, ms(2 * trace.period_ms()));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let whole = Trace::parse(&text);
            let mut parser = TraceParser::default();
            let (left, right) = text.split_at(cut.min(text.len()));
            let pieces = parser.feed(left).and_then(|()| parser.feed(right)).and_then(|()| parser.finish());
            prop_assert_eq!(whole, pieces);
        }

        #[test]
        fn almost_traces_never_panic(text in "([0-9]{0,11}[\r\n x]{0,2}){0,20}") {
            if let Ok(trace) = Trace::parse(text.as_bytes()) {
                let mut link = TraceLink::new(Arc::new(trace));
                let first = link.finish_of(Timestamp::ZERO, 4000, false);
                prop_assert!(first > Timestamp::ZERO && link.finish_of(first, 1, true) >= first);
            }
        }

        /// Against a reference that goes through the opportunities one by one.
        #[test]
        fn delivery_is_that_of_a_walk_over_the_opportunities(
            mut stamps in prop::collection::vec(0u32..40, 1..30),
            // Many arrive at whole milliseconds, where the opportunities are.
            packets in prop::collection::vec(
                (prop_oneof![1u64..15_000_000, (0u64..15).prop_map(|gap| gap * NANOS_PER_MILLI)], 1u32..4_000),
                1..40,
            ),
        ) {
            stamps.sort_unstable();
            *stamps.last_mut().unwrap() += 1;
            let text: String = stamps.iter().map(|stamp| format!("{stamp}\n")).collect();
            let mut link = link(&text);
            let period = u64::from(*stamps.last().unwrap());
            let mut all = (0u64..).flat_map(|round| stamps.iter().map(move |&s| ms(round * period + u64::from(s))));
            let (mut left, mut end) = (0u32, Timestamp::ZERO);
            let mut opportunity = Timestamp::ZERO;
            let mut arrival = Timestamp::ZERO;
            for (gap, bytes) in packets {
                arrival += warpline_core::TimeDelta::from_nanos(gap);
                let start = arrival.max(end);
                let waited = arrival < end;
                if !waited {
                    left = 0;
                }
                let mut needed = bytes;
                loop {
                    let taken = needed.min(left);
                    (needed, left) = (needed - taken, left - taken);
                    if needed == 0 {
                        break;
                    }
                    opportunity = all.next().unwrap();
                    while !waited && opportunity <= start {
                        opportunity = all.next().unwrap();
                    }
                    left = OPPORTUNITY;
                }
                end = opportunity;
                prop_assert_eq!(link.finish_of(start, bytes, waited), end);
            }
        }
    }
}
