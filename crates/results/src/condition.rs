//! Conditions on measures: "flow.bulk.goodput < 1Mbit/s".
//!
//! A scenario's `expect` lists them. A run whose results do not meet them fails.

use std::fmt;
use std::ops::Range;

use warpline_core::{Bytes, Rate, TimeDelta};

use crate::named::{self, NamedMeasure, NoMeasure};
use crate::summary::Summary;
use crate::units::Unit;

/// How a measure compares with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Below it.
    Below,
    /// Not above it.
    AtMost,
    /// Above it.
    Above,
    /// Not below it.
    AtLeast,
}

/// The longer signs first: the first that a text has is meant.
const SIGNS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];

impl Relation {
    fn sign(self) -> &'static str {
        SIGNS.iter().find(|(_, relation)| *relation == self).map_or("", |(sign, _)| sign)
    }
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Relation::Below => value < bound,
            Relation::AtMost => value <= bound,
            Relation::Above => value > bound,
            Relation::AtLeast => value >= bound,
        }
    }
}

/// A condition on a measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The measure.
    pub measure: NamedMeasure,
    /// How it compares with the bound.
    pub relation: Relation,
    /// The bound, in the unit of the measure's column.
    pub bound: f64,
}

/// The form that is read again.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = written(self.measure.column.unit, self.bound);
        write!(f, "{} {} {bound}", self.measure, self.relation.sign())
    }
}

/// A value with its unit as conditions write it, to four significant digits.
fn written(unit: Unit, value: f64) -> String {
    let digits = |value: f64| {
        let text = format!("{value:.3e}");
        text.parse::<f64>().map_or(text, |rounded| rounded.to_string())
    };
    let whole = |value: f64| digits(value).parse::<f64>().unwrap_or(value).round() as u64;
    match unit {
        Unit::BitPerSecond => Rate::from_bps(whole(value)).to_string(),
        Unit::Byte => Bytes(whole(value)).to_string(),
        Unit::Second => TimeDelta::from_nanos(whole(value * 1e9)).to_string(),
        Unit::Millisecond => TimeDelta::from_nanos(whole(value * 1e6)).to_string(),
        Unit::Nanosecond => TimeDelta::from_nanos(whole(value)).to_string(),
        Unit::Share | Unit::Index | Unit::Count | Unit::Packet => digits(value),
    }
}

/// Reads a value with its unit.
fn read(unit: Unit, text: &str) -> Result<f64, String> {
    let time = |text: &str| text.parse::<TimeDelta>().map_err(|error| error.to_string());
    match unit {
        Unit::BitPerSecond => {
            text.parse::<Rate>().map(|rate| rate.as_bps() as f64).map_err(|error| error.to_string())
        }
        Unit::Byte => text.parse::<Bytes>().map(|bytes| bytes.0 as f64).map_err(|error| error.to_string()),
        Unit::Second => time(text).map(TimeDelta::as_secs_f64),
        Unit::Millisecond => time(text).map(|time| time.as_nanos() as f64 / 1e6),
        Unit::Nanosecond => time(text).map(|time| time.as_nanos() as f64),
        Unit::Share | Unit::Index | Unit::Count | Unit::Packet => {
            let (text, scale) = match text.strip_suffix('%') {
                Some(text) if unit == Unit::Share => (text.trim_end(), 0.01),
                _ => (text, 1.0),
            };
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.map(|number| number * scale).ok_or_else(|| format!("`{text}` is not a number"))
        }
    }
}

/// Where a condition compares, and how.
fn compared(text: &str) -> Option<(usize, (&'static str, Relation))> {
    // The last one: a link's name has a ">" of its own.
    let at = text.rfind(['<', '>'])?;
    let (sign, relation) = SIGNS.iter().find(|(sign, _)| text[at..].starts_with(sign))?;
    // That of a link's name is the last one if the text compares by "=" or not at all.
    (!text[at + sign.len()..].contains([']', '='])).then_some((at, (sign, *relation)))
}

/// Where the text of a condition names the link that it is about; none if it is about something else. There need not be such a column, and the bound
/// may be wrong.
pub fn link_in(text: &str) -> Option<Range<usize>> {
    compared(text).and_then(|(at, _)| named::link_in(&text[..at]))
}

impl Condition {
    /// Reads a text.
    ///
    /// # Errors
    /// If it has no relation, its measure does not exist, or the bound is not of the measure's unit.
    pub fn parse(text: &str) -> Result<Condition, NoMeasure> {
        let Some((at, (sign, relation))) = compared(text) else {
            let help = "write MEASURE < VALUE, or with <=, > or >=, for example flow.bulk.goodput < 1Mbit/s";
            return Err(NoMeasure {
                message: format!("`{text}` compares nothing"),
                help: vec![help.to_owned()],
            });
        };
        let measure = NamedMeasure::parse(&text[..at])?;
        let bound = read(measure.column.unit, text[at + sign.len()..].trim());
        let bound = bound.map_err(|why| {
            let message = format!("`{}`: {why}", text.trim());
            NoMeasure { message, help: Vec::new() }
        })?;
        Ok(Condition { measure, relation, bound })
    }

    /// The bound in words: "< 1.00 Mbit/s".
    fn asked(&self) -> String {
        format!("{} {}", self.relation.sign(), self.measure.column.unit.show(self.bound))
    }

    /// Whether a run meets it; if not, what it has in its place.
    ///
    /// # Errors
    /// If it does not, or has no such flow or link.
    pub fn judge(&self, summary: &Summary) -> Result<(), String> {
        let value = self.measure.value(summary).map_err(|absent| {
            let why = [vec![absent.message], absent.help].concat().join("; ");
            format!("expected {} {}; {why}", self.measure, self.asked())
        })?;
        match value {
            Some(value) if self.relation.holds(value, self.bound) => Ok(()),
            Some(value) => {
                let show = |value: f64| self.measure.column.unit.show(value);
                // They can differ by less than is shown.
                let off = match value - self.bound {
                    off if off == 0.0 || show(value) != show(self.bound) => String::new(),
                    off => format!(", {} {}", show(off.abs()), if off > 0.0 { "more" } else { "less" }),
                };
                Err(format!("expected {} {}; it is {}{off}", self.measure, self.asked(), show(value)))
            }
            None => Err(format!("expected {} {}; nothing was measured", self.measure, self.asked())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn what_is_written_is_read_again() {
        for (text, written) in [
            ("flow.bulk.goodput<1.5Mbit/s", "flow[bulk].goodput_bps < 1.5Mbit/s"),
            ("link[r1>r2].queue_delay_max >= 20ms", "link[r1>r2].queue_delay_max_ms >= 20ms"),
            ("link.r1>r2.drops >= 3", "link[r1>r2].drops >= 3"),
            ("flow.bulk.retransmit_ratio <= 2.5 %", "flow[bulk].retransmit_ratio <= 0.025"),
            ("flow.bulk.delivered > 10kB", "flow[bulk].delivered_bytes > 10kB"),
            ("flow.bulk.completion_mean > 1.2s", "flow[bulk].completion_mean_s > 1.2s"),
        ] {
            let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(condition.to_string(), written);
            assert_eq!(Condition::parse(written).unwrap(), condition);
        }
    }

    #[test]
    fn the_link_of_a_condition_is_found_whether_or_not_the_rest_is_right() {
        let link = |text: &'static str| link_in(text).map(|place| &text[place]);
        for text in ["link[r1>r2].drops < 3", " link.r1>r2.drops<=3", "link[r1>r2].speed > much"] {
            assert_eq!(link(text), Some("r1>r2"), "{text}");
        }
        assert_eq!(link("link[a.b>c].drops < 3"), Some("a.b>c"));
        for text in ["flow.bulk.goodput < 1", "total.jain > 0.5", "link[r1].drops", "link.drops < 1"] {
            assert_eq!(link(text), None, "{text}");
        }
    }

    #[test]
    fn a_wrong_condition_says_what_is_missing() {
        let message = |text: &str| Condition::parse(text).unwrap_err().message;
        assert!(message("flow.bulk.goodput").contains("compares nothing"));
        for text in
            ["link[r1>r2].drops = 0", "link.r1>r2.drops == 0", "link[r1>r2].drops != 0", "link[r1>r2].drops"]
        {
            assert!(message(text).contains("compares nothing"), "{text}: {}", message(text));
        }
        assert!(message("flow.bulk.goodput < 1").contains("has no unit"));
        assert!(message("flow.bulk.speed < 1").contains("no column `speed`"));
        assert!(message("total.jain > much").contains("not a number"));
    }

    #[test]
    fn a_run_meets_it_or_is_told_what_it_has() {
        let summary = example::summary(2, 1);
        let flow = &summary.flows[0];
        let judge = |text: String| Condition::parse(&text).unwrap().judge(&summary);
        let bits = flow.goodput_bps as u64;
        assert_eq!(judge(format!("flow.{}.goodput >= {bits}bit/s", flow.name)), Ok(()));
        let missed = judge(format!("flow.{}.goodput < {bits}bit/s", flow.name)).unwrap_err();
        assert!(missed.contains("; it is "), "{missed}");
        let absent = judge("flow.nobody.goodput < 1Mbit/s".to_owned()).unwrap_err();
        assert!(absent.contains("the run has no flow `nobody`"), "{absent}");
    }
}
