//! What the declaration of a column says, once, for everything that shows, compares, describes or exports it.

use std::borrow::Cow;
use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::units::Unit;

/// What kind of value a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Float,
    /// True or false.
    Truth,
}

/// What becomes of a column where several rows are shown as one: the flows of a group, the links of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// They add up.
    Sum,
    /// Their mean counts.
    Mean,
    /// The largest counts.
    Max,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// None.
    Absent,
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number.
    Whole(u64),
    /// A number.
    Float(f64),
    /// True or false.
    Truth(bool),
}

impl Scalar<'_> {
    /// The value as a number; none for texts.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Scalar::Whole(number) => Some(number as f64),
            Scalar::Float(number) => Some(number),
            Scalar::Truth(truth) => Some(f64::from(u8::from(truth))),
            Scalar::Text(_) | Scalar::Absent => None,
        }
    }

    /// The value as a text; none for numbers.
    pub fn text(&self) -> Option<&str> {
        match self {
            Scalar::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same, on its own.
    pub fn into_owned(self) -> Scalar<'static> {
        match self {
            Scalar::Absent => Scalar::Absent,
            Scalar::Text(text) => Scalar::Text(Cow::Owned(text.into_owned())),
            Scalar::Whole(number) => Scalar::Whole(number),
            Scalar::Float(number) => Scalar::Float(number),
            Scalar::Truth(truth) => Scalar::Truth(truth),
        }
    }
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Absent => Ok(()),
            Scalar::Text(text) => text.fmt(f),
            Scalar::Whole(number) => number.fmt(f),
            Scalar::Float(number) => number.fmt(f),
            Scalar::Truth(truth) => truth.fmt(f),
        }
    }
}

/// A column, as it is declared: each of the methods here is a word after the unit in `table!`.
#[derive(Clone, Copy, Debug)]
pub struct ColumnInfo {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What kind of value it has.
    pub kind: Kind,
    /// Whether a row may have no value.
    pub optional: bool,
    /// Whether it is a number that says which row it is, as texts do, and measures nothing: a time, the number of a flow or link.
    pub key: bool,
    /// Whether comparisons and replications go through it.
    pub compared: bool,
    /// Whether it counts what happens seldom in an interval: the page draws ticks, not a line.
    pub ticks: bool,
    /// What becomes of it where several rows are one.
    pub fold: Option<Fold>,
    /// The word by which it is drawn over time: `warpline compare --plot WORD`.
    pub quantity: Option<&'static str>,
    /// Its place among the columns in the terminal and their heading there; the last go first where there is no room.
    pub terminal: Option<(u8, &'static str)>,
    /// Whether the terminal leaves it out where every row has zero, or nothing.
    pub if_any: bool,
    about: &'static str,
    heading: Option<&'static str>,
}

impl ColumnInfo {
    pub(crate) const fn new(
        name: &'static str,
        unit: &str,
        about: &'static str,
        kind: Kind,
        optional: bool,
    ) -> ColumnInfo {
        ColumnInfo {
            name,
            unit: Unit::declared(unit),
            kind,
            optional,
            key: false,
            compared: false,
            ticks: false,
            fold: None,
            quantity: None,
            terminal: None,
            if_any: false,
            about,
            heading: None,
        }
    }
    pub(crate) const fn key(self) -> Self {
        ColumnInfo { key: true, ..self }
    }
    pub(crate) const fn compared(self) -> Self {
        ColumnInfo { compared: true, ..self }
    }
    pub(crate) const fn ticks(self) -> Self {
        ColumnInfo { ticks: true, ..self }
    }
    pub(crate) const fn sum(self) -> Self {
        ColumnInfo { fold: Some(Fold::Sum), ..self }
    }
    pub(crate) const fn mean(self) -> Self {
        ColumnInfo { fold: Some(Fold::Mean), ..self }
    }
    pub(crate) const fn max(self) -> Self {
        ColumnInfo { fold: Some(Fold::Max), ..self }
    }
    pub(crate) const fn drawn(self, quantity: &'static str) -> Self {
        ColumnInfo { quantity: Some(quantity), ..self }
    }
    pub(crate) const fn terminal(self, place: u8, heading: &'static str) -> Self {
        ColumnInfo { terminal: Some((place, heading)), ..self }
    }
    pub(crate) const fn if_any(self) -> Self {
        ColumnInfo { if_any: true, ..self }
    }
    pub(crate) const fn called(self, heading: &'static str) -> Self {
        ColumnInfo { heading: Some(heading), ..self }
    }

    /// What it holds, in sentences.
    pub fn about(&self) -> &'static str {
        self.about.trim()
    }

    /// What pages and plots call it.
    pub fn heading(&self) -> Cow<'static, str> {
        self.heading.map_or_else(|| Cow::Owned(heading_of(self.name)), Cow::Borrowed)
    }

    /// The column of the values that several rows have as one, where it has any.
    pub fn folded(&self) -> Option<ColumnInfo> {
        let fold = self.fold?;
        Some(ColumnInfo { optional: fold != Fold::Sum, kind: fold.kind(self.kind), ..*self })
    }
}

/// A column's name without the unit at its end.
pub(crate) fn bare_name(name: &str) -> &str {
    ["_bps", "_bytes", "_ms", "_ns", "_s"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

/// What pages call a column of this name that says nothing else: without its unit, in words.
pub fn heading_of(name: &str) -> String {
    let bare = bare_name(name);
    let words = bare.replace('_', " ");
    match words.strip_prefix("rtt") {
        Some(rest) => format!("RTT{rest}"),
        None => words.chars().take(1).flat_map(char::to_uppercase).chain(words.chars().skip(1)).collect(),
    }
}

/// As comparisons and replications name a measure.
impl Serialize for ColumnInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ColumnInfo", 2)?;
        fields.serialize_field("metric", self.name)?;
        fields.serialize_field("unit", &self.unit)?;
        fields.end()
    }
}

impl PartialEq for ColumnInfo {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.unit) == (other.name, other.unit)
    }
}

impl Fold {
    /// Its word in descriptions.
    pub fn word(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Mean => "mean",
            Fold::Max => "max",
        }
    }

    /// The kind of value that it makes.
    fn kind(self, kind: Kind) -> Kind {
        if self == Fold::Mean { Kind::Float } else { kind }
    }

    /// The one value of several rows.
    pub fn of<'a>(self, values: impl Iterator<Item = Scalar<'a>>) -> Scalar<'static> {
        let values = values.filter(|value| value.number().is_some());
        match self {
            Fold::Sum => values.fold(Scalar::Whole(0), |sum, value| match (&sum, &value) {
                (Scalar::Whole(x), Scalar::Whole(y)) => Scalar::Whole(x + y),
                _ => Scalar::Float(sum.number().unwrap_or(0.0) + value.number().unwrap_or(0.0)),
            }),
            Fold::Mean => {
                let (sum, count) = values
                    .filter_map(|v| v.number())
                    .fold((0.0, 0u64), |(sum, count), v| (sum + v, count + 1));
                if count == 0 { Scalar::Absent } else { Scalar::Float(sum / count as f64) }
            }
            Fold::Max => values
                .reduce(|x, y| if y.number() > x.number() { y } else { x })
                .map_or(Scalar::Absent, Scalar::into_owned),
        }
    }
}

/// A column of a row type: what is declared, and where its value is.
pub struct Column<R> {
    /// What is declared.
    pub info: ColumnInfo,
    /// The value in a row.
    pub value: for<'a> fn(&'a R) -> Scalar<'a>,
}

impl<R> std::fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.info.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_names_in_words() {
        for (name, heading) in [
            ("goodput_bps", "Goodput"),
            ("rtt_mean_ms", "RTT mean"),
            ("latency_p95_ms", "Latency p95"),
            ("transfers", "Transfers"),
            ("time_ns", "Time"),
        ] {
            assert_eq!(heading_of(name), heading);
        }
    }

    #[test]
    fn several_rows_fold_into_one_value() {
        let whole = || [1u64, 5, 3].map(Scalar::Whole).into_iter();
        let some = || [Scalar::Float(1.5), Scalar::Absent, Scalar::Float(0.5)].into_iter();
        for (fold, of_whole, of_some) in [
            (Fold::Sum, Scalar::Whole(9), Scalar::Float(2.0)),
            (Fold::Mean, Scalar::Float(3.0), Scalar::Float(1.0)),
            (Fold::Max, Scalar::Whole(5), Scalar::Float(1.5)),
        ] {
            assert_eq!((fold.of(whole()), fold.of(some())), (of_whole, of_some));
        }
        assert_eq!(
            (Fold::Sum.of(std::iter::empty()), Fold::Max.of(std::iter::empty())),
            (Scalar::Whole(0), Scalar::Absent)
        );
    }
}
