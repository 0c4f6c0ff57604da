//! Files of measurements: a line per packet or instant, numbers separated by commas, and a first line that names the columns.
//!
//! ```text
//! time,delay
//! 0,31.5
//! 15,28.25
//! ```
//!
//! Lines that are empty or begin with `#` are skipped, blanks around a number are, too, and lines may end in CR LF. A file without names has one column. Numbers
//! are decimal, with a sign and a fraction if need be. What the columns mean is for those who read such a file: [`LossTrace`](crate::loss::LossTrace)
//! and [`DelayTrace`](crate::jitter::DelayTrace).
//!
//! Both also read the data set LENS of Starlink's latency, as it is published (J. Zhao, J. Pan, "LENS: A LEO Satellite Network Measurement Dataset", MMSys 2024;
//! format: README of `clarkzjw/LENS`): `timestamp,rtt,uplink,downlink` in files of IRTT and `timestamp,rtt` in files of ping. Timestamps are since the epoch, in
//! nanoseconds (a whole number) or in seconds (with a fraction), delays in milliseconds. A lost packet has -1 in the column of the way that it was lost on, or in `rtt` if
//! that is not known, and 0 in the others.

use thiserror::Error;
use warpline_core::parameter::Words;

const NANOS: u64 = 1_000_000_000;

/// What happens after the end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum TraceEnd {
    /// It begins again.
    #[default]
    Repeat,
    /// Its last line stays in force.
    Hold,
}

/// Which column of a LENS file is read. Other files have one column only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum TraceColumn {
    /// From the terminal to the Internet.
    Uplink,
    /// From the Internet to the terminal.
    #[default]
    Downlink,
    /// There and back; of delays, half of it. LENS files of ping have this column only, so that it is read for the other two as well.
    Rtt,
}

/// What is wrong with a file of measurements. Lines and columns count from 1, columns in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {what}")]
pub struct SeriesError {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
    /// What is wrong there.
    pub what: String,
}

/// A decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    whole: u64,
    /// Billionths; further digits are cut off.
    billionths: u32,
    /// Whether it was written with a point.
    point: bool,
}

impl Decimal {
    fn parse(text: &str) -> Option<Decimal> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !plain(whole) || !plain(fraction) {
            return None;
        }
        let nine: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
        let point = digits.contains('.');
        Some(Decimal { negative, whole: whole.parse().ok()?, billionths: nine.parse().ok()?, point })
    }
    /// As a floating-point number.
    pub(crate) fn value(self) -> f64 {
        let size = self.whole as f64 + f64::from(self.billionths) / 1e9;
        if self.negative { -size } else { size }
    }
    /// As a whole number that is not negative.
    pub(crate) fn whole(self) -> Option<u64> {
        (!self.negative && self.billionths == 0).then_some(self.whole)
    }
    /// Seconds as nanoseconds.
    fn seconds(self) -> Option<u64> {
        let nanos = self.whole.checked_mul(NANOS)?.checked_add(u64::from(self.billionths))?;
        (!self.negative).then_some(nanos)
    }
    /// A timestamp of LENS as nanoseconds.
    fn timestamp(self) -> Option<u64> {
        if self.point { self.seconds() } else { self.whole() }
    }
}

/// A number and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) number: Decimal,
    line: u64,
    column: u64,
}

impl Cell {
    /// An error about this number.
    pub(crate) fn error(self, what: impl Into<String>) -> SeriesError {
        SeriesError { line: self.line, column: self.column, what: what.into() }
    }
}

/// A file's columns and rows.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    /// The names of the columns; empty where there are none.
    pub(crate) names: Vec<&'a str>,
    /// Rows of as many numbers as there are names, or of one: at least one row.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl<'a> Series<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, SeriesError> {
        let fail = |line, column, what: String| SeriesError { line, column, what };
        let mut series = Series { names: Vec::new(), rows: Vec::new() };
        for (index, text) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = index as u64 + 1;
            let text = std::str::from_utf8(text).map_err(|error| {
                fail(line, error.valid_up_to() as u64 + 1, "this is not UTF-8".to_owned())
            })?;
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let first = series.rows.is_empty() && series.names.is_empty();
            if first && text.starts_with(|c: char| c.is_ascii_alphabetic()) {
                series.names = text.split(',').map(str::trim).collect();
                continue;
            }
            let wanted = series.names.len().max(1);
            let (mut row, mut start) = (Vec::with_capacity(wanted), 0);
            for part in text.split(',') {
                let word = part.trim();
                let column = (start + part.len() - part.trim_start().len()) as u64 + 1;
                let number = Decimal::parse(word)
                    .ok_or_else(|| fail(line, column, format!("{word:?} is no decimal number")))?;
                row.push(Cell { number, line, column });
                start += part.len() + 1;
            }
            if row.len() != wanted {
                let what =
                    format!("the line has {} numbers and not {wanted}, as the first line says", row.len());
                return Err(fail(line, 1, what));
            }
            series.rows.push(row);
        }
        match series.rows.is_empty() {
            true => Err(fail(1, 1, "the file has no numbers".to_owned())),
            false => Ok(series),
        }
    }

    /// Where the columns of LENS are that the file has: `rtt`, `uplink` and `downlink`, the latter two those of `rtt` in files of ping.
    pub(crate) fn lens(&self) -> Option<[usize; 3]> {
        match self.names[..] {
            ["timestamp", "rtt", "uplink", "downlink"] => Some([1, 2, 3]),
            ["timestamp", "rtt"] => Some([1, 1, 1]),
            _ => None,
        }
    }

    /// An error about the names of the columns.
    pub(crate) fn unknown(&self, known: &str) -> SeriesError {
        let found = if self.names.is_empty() { "none".to_owned() } else { self.names.join(",") };
        let what = format!("the names of the columns are {found}; known: {known}");
        SeriesError { line: 1, column: 1, what }
    }

    /// The times of the rows, by their first column, in nanoseconds from the first row on for LENS and from the start of the run for others. They must not fall.
    pub(crate) fn times(&self) -> Result<Vec<u64>, SeriesError> {
        let lens = self.lens().is_some();
        let mut times: Vec<u64> = Vec::with_capacity(self.rows.len());
        let mut first = None;
        for cell in self.rows.iter().filter_map(|row| row.first()) {
            let time = if lens { cell.number.timestamp() } else { cell.number.seconds() };
            let time = time.ok_or_else(|| cell.error("a time is not negative, and below 2^64 ns"))?;
            let time = time.checked_sub(if lens { *first.get_or_insert(time) } else { 0 });
            match time {
                Some(time) if times.last().is_none_or(|&last| last <= time) => times.push(time),
                _ => return Err(cell.error("the time is before that of the line before; sort the lines")),
            }
        }
        Ok(times)
    }
}

/// A value that changes along a line of packets or of time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timeline<T> {
    /// From where on each value holds; rising.
    changes: Vec<(u64, T)>,
    /// Where the trace ends.
    end: u64,
}

impl<T: Copy + PartialEq> Timeline<T> {
    /// What holds from each place on, the last of those at one place, and where the trace ends. Places must not fall.
    pub(crate) fn new(values: impl IntoIterator<Item = (u64, T)>, end: u64) -> Self {
        let mut changes: Vec<(u64, T)> = Vec::new();
        for (at, value) in values {
            match changes.last_mut() {
                Some(last) if last.0 == at => last.1 = value,
                Some(last) if last.1 == value => {}
                _ => changes.push((at, value)),
            }
        }
        changes.shrink_to_fit();
        Timeline { changes, end }
    }

    /// What holds from the first place on.
    pub(crate) fn first(&self) -> Option<T> {
        self.changes.first().map(|&(_, value)| value)
    }

    /// What holds at a place; `before` ahead of the first.
    pub(crate) fn at(&self, place: u64, end: TraceEnd, before: T) -> T {
        let place = match end {
            TraceEnd::Repeat if self.end > 0 => place % self.end,
            _ => place,
        };
        let passed = self.changes.partition_point(|&(at, _)| at <= place);
        passed.checked_sub(1).map_or(before, |last| self.changes[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_and_column() {
        for (text, message) in [
            ("", "line 1, column 1: the file has no numbers"),
            ("time,delay\n", "line 1, column 1: the file has no numbers"),
            ("0\n1\nx\n", "line 3, column 1: \"x\" is no decimal number"),
            ("time,delay\n0, 1e3\n", "line 2, column 4: \"1e3\" is no decimal number"),
            ("time,delay\n0,\n", "line 2, column 3: \"\" is no decimal number"),
            (
                "time,delay\n# 0,1\n0,1,2\n",
                "line 3, column 1: the line has 3 numbers and not 2, as the first line says",
            ),
        ] {
            assert_eq!(Series::parse(text.as_bytes()).unwrap_err().to_string(), message);
        }
        let error = Series::parse(b"0\n\xff\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 1));
    }

    #[test]
    fn times_are_exact_and_do_not_fall() {
        let times = |text: &str| Series::parse(text.as_bytes()).and_then(|series| series.times());
        assert_eq!(times("time,x\r\n0.5,0\r\n\r\n1.000000001,0"), Ok(vec![500_000_000, 1_000_000_001]));
        assert_eq!(times("timestamp,rtt\n1705744800.5,1\n1705744800.75,1\n"), Ok(vec![0, 250_000_000]));
        let irtt = "timestamp,rtt,uplink,downlink\n1705744800616897349,0,0,-1\n1705744800626565141,1,1,0\n";
        assert_eq!(times(irtt), Ok(vec![0, 9_667_792]));
        let fallen = times("time,x\n2,0\n1,0\n").unwrap_err().to_string();
        assert_eq!(fallen, "line 3, column 1: the time is before that of the line before; sort the lines");
        assert!(times("time,x\n-1,0\n").is_err());
        assert!(times("time,x\n18446744073709551615,0\n").is_err());
    }

    #[test]
    fn a_timeline_repeats_or_holds() {
        let line = Timeline::new([(2, 'a'), (5, 'b'), (5, 'c'), (7, 'c')], 10);
        let at = |end| [0, 2, 4, 5, 9, 10, 12, 25].map(|place| line.at(place, end, '-'));
        assert_eq!(at(TraceEnd::Hold), ['-', 'a', 'a', 'c', 'c', 'c', 'c', 'c']);
        assert_eq!(at(TraceEnd::Repeat), ['-', 'a', 'a', 'c', 'c', '-', 'a', 'c']);
        assert_eq!(Timeline::new([(0, 1)], 0).at(3, TraceEnd::Repeat, 0), 1, "without a length it holds");
    }
}
