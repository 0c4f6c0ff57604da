//! A report as lines of name and value under headings, from which text and HTML pages are made.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its heading: a section of RFC 3148 where there is one.
    pub section: String,
    /// Its name.
    pub name: String,
    /// The value with its unit, or a sentence.
    pub value: String,
}

/// Collects lines under headings.
#[derive(Debug, Default)]
pub(super) struct Lines {
    section: &'static str,
    lines: Vec<Line>,
}

impl Lines {
    pub(super) fn section(&mut self, section: &'static str) {
        self.section = section;
    }
    pub(super) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.lines.push(Line {
            section: self.section.to_owned(),
            name: name.to_owned(),
            value: value.into(),
        });
    }
    pub(super) fn finish(self) -> Vec<Line> {
        self.lines
    }
}

/// Selects the lines with these names, for a report that fits on a screen, and adds one that says how to get the rest. The first heading
/// stays; all others become `rest`.
pub(super) fn select(lines: Vec<Line>, names: &[&str], rest: &str) -> Vec<Line> {
    let first = lines.first().map(|line| line.section.clone()).unwrap_or_default();
    let mut chosen: Vec<Line> = lines
        .into_iter()
        .filter(|line| names.contains(&line.name.as_str()))
        .map(|line| Line {
            section: if line.section == first { line.section } else { rest.to_owned() },
            ..line
        })
        .collect();
    chosen.push(Line {
        section: rest.to_owned(),
        name: "more".to_owned(),
        value: "--verbose shows everything that RFC 3148 asks for; --json and --out have it too".to_owned(),
    });
    chosen
}

/// Lines as text: headings, names in a column, values wrapped to `width`.
pub fn render(lines: &[Line], width: usize) -> String {
    let mut text = String::new();
    let mut section = None;
    let indent = 2 + lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0) + 2;
    let room = width.saturating_sub(indent).max(30);
    for line in lines {
        if section != Some(&line.section) {
            if section.is_some() {
                text.push('\n');
            }
            let _ = writeln!(text, "{}", line.section);
            section = Some(&line.section);
        }
        let pad = indent - 2;
        for (i, part) in wrap(&line.value, room).into_iter().enumerate() {
            let name = if i == 0 { line.name.as_str() } else { "" };
            let _ = writeln!(text, "  {name:<pad$}{part}");
        }
    }
    text
}

fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split_whitespace() {
        let last = rows.last_mut().map_or(0, |row| row.chars().count());
        if last > 0 && last + 1 + word.chars().count() > room {
            rows.push(String::new());
        }
        if let Some(row) = rows.last_mut() {
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
    }
    rows
}

/// A rate: "9.41 Mbit/s".
pub(super) fn bits(bps: f64) -> String {
    let (value, unit) = match bps {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b if b >= 1e3 => (b / 1e3, "kbit/s"),
        b => (b, "bit/s"),
    };
    format!("{value:.3} {unit}")
}

/// A span of nanoseconds: "12.3 ms".
pub(super) fn span(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        n if n >= 1_000_000_000 => format!("{:.3} s", value / 1e9),
        n if n >= 1_000_000 => format!("{:.2} ms", value / 1e6),
        n if n >= 1_000 => format!("{:.1} us", value / 1e3),
        n => format!("{n} ns"),
    }
}

/// A size: "1.25 MB".
pub(super) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        b if b >= 1_000_000_000 => format!("{:.2} GB", value / 1e9),
        b if b >= 1_000_000 => format!("{:.2} MB", value / 1e6),
        b if b >= 10_000 => format!("{:.1} kB", value / 1e3),
        b => format!("{b} B"),
    }
}

/// The largest windows of the two phases; one that never came is left out.
pub(super) fn windows(slow_start: u64, avoidance: u64) -> String {
    let phases = [(slow_start, "slow start"), (avoidance, "congestion avoidance")];
    let came = phases.iter().filter(|(window, _)| *window > 0);
    let said: Vec<String> = came.map(|(window, phase)| format!("{} in {phase}", bytes(*window))).collect();
    if said.is_empty() { "-".to_owned() } else { said.join(", ") }
}

/// A share: "1.25 %".
pub(super) fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

/// Bits per second; none over no time.
pub(super) fn rate(bytes: u64, nanos: u64) -> Option<f64> {
    (nanos > 0).then(|| bytes as f64 * 8e9 / nanos as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_never_came_has_no_largest_window() {
        assert_eq!(windows(180_000, 120_000), "180.0 kB in slow start, 120.0 kB in congestion avoidance");
        assert_eq!((windows(14_600, 0).as_str(), windows(0, 0).as_str()), ("14.6 kB in slow start", "-"));
    }
}
