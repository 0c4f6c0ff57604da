//! Ranges of a search file: "1Mbit/s" to "100Mbit/s", linear or logarithmic.

use std::str::FromStr;

use serde_json::{Value, json};
use warpline_core::float::{exp, ln};
use warpline_core::{Bytes, Rate, TimeDelta};

use super::super::document::{Data, Node};

/// Significant digits of a value that is drawn from a range.
const DIGITS: usize = 4;

/// What the numbers of a range are, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unit {
    Whole,
    Number,
    Time,
    Rate,
    Size,
    /// Anything else behind a number, as "BDP" in "0.5BDP".
    Suffix(String),
}

/// A range of numbers, with both ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    unit: Unit,
    from: f64,
    to: f64,
    log: bool,
}

/// Both texts as one kind of quantity, as a number of base units.
fn both<T: FromStr>(from: &str, to: &str, base: fn(T) -> u64) -> Option<(f64, f64)> {
    let one = |text: &str| text.parse::<T>().ok().map(|value| base(value) as f64);
    Some((one(from)?, one(to)?))
}

/// A number and what is behind it.
fn number_and_suffix(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+')).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

fn read(from: &str, to: &str) -> Option<(Unit, f64, f64)> {
    let quantity = |unit: Unit, ends: Option<(f64, f64)>| ends.map(|(from, to)| (unit, from, to));
    quantity(Unit::Time, both(from, to, TimeDelta::as_nanos))
        .or_else(|| quantity(Unit::Rate, both(from, to, Rate::as_bps)))
        .or_else(|| quantity(Unit::Size, both(from, to, |bytes: Bytes| bytes.0)))
        .or_else(|| {
            let ((low, suffix), (high, other)) = (number_and_suffix(from)?, number_and_suffix(to)?);
            (suffix == other && !suffix.is_empty()).then(|| (Unit::Suffix(suffix.to_owned()), low, high))
        })
}

impl Range {
    /// The range between two values as a search file has them.
    ///
    /// # Errors
    /// If they are not of one kind, or not in order; what is wrong, and what to do.
    pub(super) fn between(from: &Node, to: &Node, log: bool) -> Result<Range, (String, String)> {
        let number = |data: &Data| match data {
            Data::Integer(n) => Some(*n as f64),
            Data::Float(x) => Some(*x),
            _ => None,
        };
        let found = match (&from.data, &to.data) {
            (Data::Integer(low), Data::Integer(high)) => Some((Unit::Whole, *low as f64, *high as f64)),
            (Data::Text(low), Data::Text(high)) => read(low, high),
            (low, high) => number(low).zip(number(high)).map(|(low, high)| (Unit::Number, low, high)),
        };
        let Some((unit, from_value, to_value)) = found.filter(|(_, low, high)| (high - low).is_finite())
        else {
            let message = format!("no range leads from {} to {}", from.describe(), to.describe());
            let help = "both are numbers, or both are times, rates, sizes, or numbers with the same unit, for example from = \"5ms\", to = \"1s\"";
            return Err((message, help.to_owned()));
        };
        if from_value >= to_value {
            let message = format!("`from` is not below `to`: {} and {}", from.describe(), to.describe());
            return Err((message, "write the smaller value first".to_owned()));
        }
        if log && from_value <= 0.0 {
            let message = "a logarithmic range begins above zero".to_owned();
            return Err((message, "leave out `scale`, or begin at a small value such as \"1ms\"".to_owned()));
        }
        Ok(Range { unit, from: from_value, to: to_value, log })
    }

    /// The value at a share of the range, from 0 to 1.
    pub(super) fn at(&self, share: f64) -> f64 {
        let value = if self.log {
            exp(ln(self.from) + share * (ln(self.to) - ln(self.from)))
        } else if self.unit == Unit::Whole {
            // Each whole number has an equal share.
            (self.from + share * (self.to - self.from + 1.0)).floor()
        } else {
            self.from + share * (self.to - self.from)
        };
        self.rounded(value, DIGITS)
    }

    /// The value to so many significant digits, within the range.
    pub(super) fn rounded(&self, value: f64, digits: usize) -> f64 {
        let rounded = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
        let whole = match &self.unit {
            Unit::Number => rounded,
            // Packets are not cut.
            Unit::Suffix(suffix) if !suffix.starts_with(['p', 'P']) => rounded,
            _ => rounded.round(),
        };
        whole.clamp(self.from, self.to)
    }

    /// The value as scenarios write it.
    pub(super) fn value(&self, value: f64) -> Value {
        match &self.unit {
            Unit::Whole => json!(value as i64),
            Unit::Number => json!(value),
            Unit::Time => json!(TimeDelta::from_nanos(value as u64).to_string()),
            Unit::Rate => json!(Rate::from_bps(value as u64).to_string()),
            Unit::Size => json!(Bytes(value as u64).to_string()),
            Unit::Suffix(suffix) => json!(format!("{value}{suffix}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &str, to: &str, log: bool) -> Result<Range, String> {
        let node = |text: &str| Node::from_toml_value(text, 0, 0).unwrap();
        Range::between(&node(from), &node(to), log).map_err(|(message, _)| message)
    }

    #[test]
    fn a_share_of_a_range_is_written_in_its_unit() {
        for (from, to, log, share, written) in [
            ("\"1Mbit/s\"", "\"100Mbit/s\"", true, 0.5, json!("10Mbit/s")),
            ("\"100kbit/s\"", "\"2Mbit/s\"", false, 0.0, json!("100kbit/s")),
            ("\"0s\"", "\"30s\"", false, 0.41157, json!("12.35s")),
            ("\"1500B\"", "\"1MB\"", false, 1.0, json!("1MB")),
            ("\"0.25BDP\"", "\"4BDP\"", true, 0.5, json!("1BDP")),
            ("\"5p\"", "\"10p\"", false, 0.5, json!("8p")),
            ("1", "4", false, 0.999, json!(4)),
            ("1", "4", false, 0.0, json!(1)),
            ("0.5", "1", false, 0.5, json!(0.75)),
        ] {
            let range = range(from, to, log).unwrap();
            assert_eq!(range.value(range.at(share)), written, "{from} to {to}");
        }
    }

    #[test]
    fn ends_of_different_kinds_make_no_range() {
        assert!(range("\"1ms\"", "\"1Mbit/s\"", false).unwrap_err().contains("no range leads from"));
        assert!(range("\"1BDP\"", "\"10p\"", false).is_err());
        assert!(range("1", "\"10p\"", false).is_err());
        assert!(range("\"2s\"", "\"1s\"", false).unwrap_err().contains("not below"));
        assert!(range("\"0s\"", "\"1s\"", true).unwrap_err().contains("above zero"));
    }

    #[test]
    fn rounding_stays_within_the_range() {
        let range = range("\"12ms\"", "\"19ms\"", false).unwrap();
        assert_eq!(range.value(range.rounded(14.4e6, 1)), json!("12ms"));
        assert_eq!(range.value(range.rounded(15.1e6, 1)), json!("19ms"));
    }
}
