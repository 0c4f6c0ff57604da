//! Measures by name, as conditions and searches give them: `flow.bulk.goodput`, `link[r1>r2].queue_delay_max`, `total.jain`.
//!
//! A name is what it is about, the name of that, and a column. Every number that a row of the summary declares can be named; the unit at the end of a
//! column's name may be left out.

use std::fmt;
use std::ops::Range;

use warpline_core::spelling::nearest;

use crate::column::{Row, columns};
use crate::declaration::{Column, ColumnInfo, Kind, bare_name};
use crate::rows::{FlowRow, LinkRow};
use crate::summary::{GroupSummary, Summary, Totals, folded_columns};

/// What a measure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The whole run.
    Total,
    /// A flow, or a group of them.
    Flow,
    /// One direction of a link.
    Link,
}

const ABOUT: [(&str, About); 3] = [("total", About::Total), ("flow", About::Flow), ("link", About::Link)];

/// A measure of a run, by name.
///
/// A flow's name is that of a group of flows, as the scenario names them, or of one flow of it ("bulk.0"). A link's name is that of one
/// direction ("r1>r2").
#[derive(Clone, Debug, PartialEq)]
pub struct NamedMeasure {
    /// What it is about.
    pub about: About,
    /// The name of the flow or link; empty for the total.
    pub name: String,
    /// Which column.
    pub column: &'static ColumnInfo,
}

/// Why a text names no measure, or a run does not have the measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoMeasure {
    /// What is wrong.
    pub message: String,
    /// What was meant, if a name is almost right, and what there is.
    pub help: Vec<String>,
}

/// The help for a name that there is not: the nearest of those that there are, and a sentence that lists them.
fn spelling(found: &str, known: &[&str], all: String) -> Vec<String> {
    let meant = nearest(found, known.iter().copied()).map(|name| format!("did you mean `{name}`?"));
    meant.into_iter().chain([all]).collect()
}

impl fmt::Display for NamedMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.name;
        match self.about {
            About::Total => write!(f, "total.{column}"),
            About::Flow => write!(f, "flow[{}].{column}", self.name),
            About::Link => write!(f, "link[{}].{column}", self.name),
        }
    }
}

/// The numbers that a row has, apart from those that only say which row it is.
fn numbers<R: Row>() -> impl Iterator<Item = &'static Column<R>> {
    columns::<R>().filter(|column| column.info.kind != Kind::Text && !column.info.key)
}

/// The declarations of all numbers of what a measure is about, those of groups first.
fn infos(about: About) -> Vec<&'static ColumnInfo> {
    match about {
        About::Total => numbers::<Totals>().map(|column| &column.info).collect(),
        About::Link => numbers::<LinkRow>().map(|column| &column.info).collect(),
        About::Flow => {
            let mut all: Vec<&'static ColumnInfo> =
                numbers::<GroupSummary>().map(|column| &column.info).collect();
            let more: Vec<_> = numbers::<FlowRow>()
                .map(|column| &column.info)
                .filter(|info| all.iter().all(|other| other.name != info.name))
                .collect();
            all.extend(more);
            all
        }
    }
}

fn value_of<R: Row>(row: &R, name: &str) -> Option<f64> {
    let column = numbers::<R>().find(|column| column.info.name == name)?;
    (column.value)(row).number()
}

/// What the text of a measure's name says, whether or not there is such a column.
struct Parts<'a> {
    about: About,
    /// The word for what it is about.
    head: &'static str,
    /// Of the flow or link, and where it begins in the text.
    name: &'a str,
    at: usize,
    column: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, NoMeasure> {
        const FORMS: &str =
            "write flow.NAME.COLUMN, link[A>B].COLUMN or total.COLUMN, for example flow.bulk.goodput";
        let before = text.len() - text.trim_start().len();
        let text = text.trim();
        let wrong = |message: String| NoMeasure { message, help: vec![FORMS.to_owned()] };
        let word = text.split(['.', '[']).next().unwrap_or_default();
        let Some(&(head, about)) = ABOUT.iter().find(|(own, _)| *own == word) else {
            return Err(wrong(format!("`{text}` does not begin with flow, link or total")));
        };
        // Names may have dots of their own: the column stands behind the last one.
        let Some((called, column)) = text[head.len()..].rsplit_once('.') else {
            return Err(wrong(format!("`{text}` names no column")));
        };
        let name = match called.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').unwrap_or(inner),
            None => called.strip_prefix('.').unwrap_or(called),
        };
        if name.is_empty() != (about == About::Total) {
            return Err(wrong(match about {
                About::Total => format!("`{text}`: the total has no names"),
                _ => format!("`{text}` does not say which {head}"),
            }));
        }
        let sign = usize::from(called.starts_with(['[', '.']));
        Ok(Parts { about, head, name, at: before + head.len() + sign, column })
    }
}

/// Where the name of a measure has that of its link; none if it is about something else. There need not be such a column.
pub(crate) fn link_in(text: &str) -> Option<Range<usize>> {
    let Parts { about, name, at, .. } = Parts::of(text).ok()?;
    (about == About::Link).then(|| at..at + name.len())
}

impl NamedMeasure {
    /// Reads a name.
    ///
    /// # Errors
    /// If there is no such column, with those that there are.
    pub fn parse(text: &str) -> Result<NamedMeasure, NoMeasure> {
        let Parts { about, head, name, column, .. } = Parts::of(text)?;
        let known = infos(about);
        let found = known
            .iter()
            .find(|info| info.name == column)
            .or_else(|| known.iter().find(|info| bare_name(info.name) == column));
        let Some(&column) = found else {
            let names: Vec<&str> = known.iter().map(|info| info.name).collect();
            let all = format!("its columns: {}", names.join(", "));
            // As it was written: with its unit or without.
            let bare = names.iter().map(|name| bare_name(name));
            let forms: Vec<&str> = names.iter().copied().chain(bare).collect();
            return Err(NoMeasure {
                message: format!("a {head} has no column `{column}`"),
                help: spelling(column, &forms, all),
            });
        };
        Ok(NamedMeasure { about, name: name.to_owned(), column })
    }

    /// Whether it is a measure of single flows.
    pub fn is_of_a_flow(&self) -> bool {
        self.about == About::Flow && numbers::<FlowRow>().any(|own| own.info.name == self.column.name)
    }

    /// Whether it is a measure of the flows of a group together.
    pub fn is_of_a_group(&self) -> bool {
        let name = self.column.name;
        self.about == About::Flow
            && (numbers::<GroupSummary>().any(|own| own.info.name == name)
                || folded_columns().any(|(folded, _)| folded.info.name == name))
    }

    /// The error that the run has no flow or link of this name, but those called `known`.
    pub fn absent(&self, known: &[&str]) -> NoMeasure {
        const SOME: usize = 20;
        let what = if self.about == About::Link { "link" } else { "flow" };
        let more = if known.len() > SOME { " and so on" } else { "" };
        let names = known.iter().take(SOME).copied().collect::<Vec<_>>().join(", ");
        NoMeasure {
            message: format!("the run has no {what} `{}`", self.name),
            help: spelling(&self.name, known, format!("its {what}s: {names}{more}")),
        }
    }

    /// The error that its name is that of several flows, and it is no measure of them together; `one` is one of them.
    pub fn of_several(&self, one: &str) -> NoMeasure {
        let column = self.column.name;
        NoMeasure {
            message: format!("`{}` is several flows, which have no `{column}` together", self.name),
            help: vec![format!("name one of them, for example flow[{one}].{column}")],
        }
    }

    /// Its value in a run, in the column's unit; none if there was nothing to measure.
    ///
    /// # Errors
    /// If the run has no flow or link of that name, or the name is that of several flows that do not have the column together.
    pub fn value(&self, summary: &Summary) -> Result<Option<f64>, NoMeasure> {
        let column = self.column.name;
        match self.about {
            About::Total => Ok(value_of(&summary.totals, column)),
            About::Link => match summary.links.iter().find(|link| link.name == self.name) {
                Some(link) => Ok(value_of(link, column)),
                None => {
                    let known: Vec<&str> = summary.links.iter().map(|link| link.name.as_str()).collect();
                    Err(self.absent(&known))
                }
            },
            About::Flow => {
                if let Some(flow) = summary.flows.iter().find(|flow| flow.name == self.name) {
                    // A column that only groups have is that of the flow's group if it is alone there.
                    let alone =
                        summary.groups.iter().find(|group| group.group == flow.group && group.flows == 1);
                    return Ok(
                        value_of(flow, column).or_else(|| alone.and_then(|group| value_of(group, column)))
                    );
                }
                let Some(group) = summary.groups.iter().find(|group| group.group == self.name) else {
                    let known: Vec<&str> = summary.groups.iter().map(|group| group.group.as_str()).collect();
                    return Err(self.absent(&known));
                };
                if numbers::<GroupSummary>().any(|own| own.info.name == column) {
                    return Ok(value_of(group, column));
                }
                if folded_columns().any(|(folded, _)| folded.info.name == column) {
                    return Ok(group.more.get(column).and_then(serde_json::Value::as_f64));
                }
                let mut members = summary.flows.iter().filter(|flow| flow.group == self.name);
                match (members.next(), members.next()) {
                    (Some(only), None) => Ok(value_of(only, column)),
                    (first, _) => Err(self.of_several(first.map_or("", |flow| &flow.name))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn every_number_of_the_summary_has_a_name() {
        let summary = example::summary(2, 1);
        let value = |text: &str| NamedMeasure::parse(text).unwrap().value(&summary).unwrap();
        let (flow, link) = (&summary.flows[0], &summary.links[0]);
        assert_eq!(value(&format!("flow.{}.goodput_bps", flow.name)), Some(flow.goodput_bps));
        assert_eq!(value(&format!("flow[{}].goodput", flow.group)), Some(summary.groups[0].goodput_bps));
        assert_eq!(value(&format!("flow.{}.rtt_max", flow.name)), flow.rtt_max_ms);
        assert_eq!(value(&format!("link[{}].drops", link.name)), Some(link.drops() as f64));
        assert_eq!(value("total.jain"), summary.totals.jain);
        // What is folded of flows is their group's.
        let marks: u64 =
            summary.flows.iter().filter(|other| other.group == flow.group).map(|flow| flow.ce_marks).sum();
        assert_eq!(value(&format!("flow.{}.ce_marks", flow.group)), Some(marks as f64));
    }

    #[test]
    fn a_wrong_name_is_told_what_there_is() {
        let message = |text: &str| {
            let NoMeasure { message, help } = NamedMeasure::parse(text).unwrap_err();
            format!("{message}; {}", help.join("; "))
        };
        assert!(message("flows.bulk.goodput").contains("does not begin with flow, link or total"));
        assert!(message("flow.goodput").contains("does not say which flow"));
        assert!(message("total.bulk.goodput").contains("the total has no names"));
        assert!(message("flow.bulk.speed").contains("its columns: flows, goodput_bps"));
        assert!(NamedMeasure::parse("flow.bulk.cc").is_err(), "a text is no measure");
        let summary = example::summary(2, 1);
        let absent = NamedMeasure::parse("flow.nobody.goodput").unwrap().value(&summary).unwrap_err();
        assert!(absent.help[0].contains(&summary.flows[0].group), "{absent:?}");
        let several = format!("flow.{}.rtt_max", summary.flows[0].group);
        let several = NamedMeasure::parse(&several).unwrap().value(&summary).unwrap_err();
        assert!(several.help[0].contains("name one of them"), "{several:?}");
    }

    #[test]
    fn a_name_that_is_almost_right_is_told_the_nearest() {
        for (text, meant) in [
            ("flow.bulk.goodputt", "goodput"),
            ("flow.bulk.godput_bps", "goodput_bps"),
            ("link[a>b].utilization", "utilisation"),
            ("total.jane", "jain"),
        ] {
            let help = NamedMeasure::parse(text).unwrap_err().help;
            assert_eq!(help[0], format!("did you mean `{meant}`?"), "{text}: {help:?}");
            assert!(help[1].starts_with("its columns: "), "{help:?}");
        }
        let absent = NamedMeasure::parse("flow[upp].goodput").unwrap().absent(&["up", "down"]);
        assert_eq!(absent.message, "the run has no flow `upp`");
        assert_eq!(absent.help, ["did you mean `up`?", "its flows: up, down"]);
    }

    #[test]
    fn a_measure_knows_whether_it_is_of_one_flow_or_of_several() {
        let of = |text: &str| {
            let measure = NamedMeasure::parse(text).unwrap();
            (measure.is_of_a_flow(), measure.is_of_a_group())
        };
        assert_eq!(of("flow.bulk.goodput"), (true, true));
        assert_eq!(of("flow.bulk.rtt_max"), (true, false));
        assert_eq!(of("flow.bulk.goodput_mean"), (false, true));
        assert_eq!(of("flow.bulk.ce_marks"), (true, true), "it is folded");
        assert_eq!(of("link[a>b].drops"), (false, false));
    }
}
