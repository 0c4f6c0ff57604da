//! Two runs beside each other: every measure of both, with difference and ratio.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use crate::results::error::ResultError;
use crate::results::measures::{Measure, Subject, measures};
use crate::results::render::MANY;
use crate::results::run::Run;
use crate::results::summary::Summary;
use crate::results::units::{ABSENT, TextTable, Unit};

/// A measure of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// The metric's name, as in summary.json.
    pub metric: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Value in the first run; none where it has none.
    pub a: Option<f64>,
    /// Value in the second run.
    pub b: Option<f64>,
    /// Second less first.
    pub difference: Option<f64>,
    /// Second over first; none where the first is zero.
    pub ratio: Option<f64>,
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the first run is called: its directory.
    pub a: String,
    /// What the second run is called.
    pub b: String,
    /// What to know before the numbers are compared: other scenario, other duration, an incomplete run.
    pub notes: Vec<String>,
    /// The measures: those of the first run in its order, then those that only the second has.
    pub changes: Vec<Change>,
}

/// Compares two run directories.
///
/// # Errors
/// If one of them is not a run, or cannot be read.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, ResultError> {
    let (run_a, run_b) = (Run::open(a)?, Run::open(b)?);
    let name = |path: &Path| path.display().to_string();
    Ok(Comparison::of((&name(a), run_a.summary()), (&name(b), run_b.summary())))
}

impl Comparison {
    /// Compares two summaries, each with the name that it goes by.
    pub fn of((a_name, a): (&str, &Summary), (b_name, b): (&str, &Summary)) -> Comparison {
        let mut notes = Vec::new();
        if a.info.scenario != b.info.scenario {
            notes.push(format!("the scenarios differ: {} and {}", a.info.scenario, b.info.scenario));
        } else if a.info.scenario_hash != b.info.scenario_hash {
            notes.push(format!("scenario {} was changed between the runs", a.info.scenario));
        }
        if a.info.seed != b.info.seed {
            notes.push(format!("the seeds differ: {} and {}", a.info.seed, b.info.seed));
        }
        if a.info.simulated_s != b.info.simulated_s {
            notes
                .push(format!("the durations differ: {} s and {} s", a.info.simulated_s, b.info.simulated_s));
        }
        for (name, summary) in [(a_name, a), (b_name, b)] {
            if !summary.info.complete {
                notes.push(format!("{name} is incomplete"));
            }
        }
        if a.warpline != b.warpline {
            notes.push(format!("the versions of Warpline differ: {} and {}", a.warpline, b.warpline));
        }
        let key = |measure: &Measure| (measure.subject.clone(), measure.metric);
        let first = measures(a);
        let second = measures(b);
        let of_b: BTreeMap<_, _> = second.iter().map(|m| (key(m), m.value)).collect();
        let of_a: BTreeMap<_, _> = first.iter().map(|m| (key(m), m.value)).collect();
        let only_b = second.iter().filter(|measure| !of_a.contains_key(&key(measure)));
        let changes = first
            .iter()
            .chain(only_b)
            .map(|measure| {
                let value = |run: &BTreeMap<_, Option<f64>>| run.get(&key(measure)).copied().flatten();
                let (a, b) = (value(&of_a), value(&of_b));
                let pair = a.zip(b);
                Change {
                    subject: measure.subject.clone(),
                    metric: measure.metric,
                    unit: measure.unit,
                    a,
                    b,
                    difference: pair.map(|(a, b)| b - a),
                    ratio: pair.map(|(a, b)| b / a).filter(|ratio| ratio.is_finite()),
                }
            })
            .collect();
        Comparison { a: a_name.to_owned(), b: b_name.to_owned(), notes, changes }
    }

    /// The comparison as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: there is nothing that could fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The comparison as lines of at most `width` characters. What neither run has, or is zero in both, is left out; so are
    /// single flows where there are many.
    pub fn render(&self, width: usize) -> String {
        let mut text = format!("A: {}\nB: {}\n", self.a, self.b);
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}.");
        }
        let telling = |change: &&Change| [change.a, change.b].into_iter().flatten().any(|value| value != 0.0);
        for changes in self.changes.chunk_by(|x, y| x.subject == y.subject) {
            let Some(subject) = changes.first().map(|change| &change.subject) else { continue };
            if matches!(subject, Subject::Flow(_)) && self.flows() > MANY {
                continue;
            }
            let changes: Vec<&Change> = changes.iter().filter(telling).collect();
            if changes.is_empty() {
                continue;
            }
            let show =
                |unit: Unit, value: Option<f64>| value.map_or(ABSENT.to_owned(), |value| unit.show(value));
            let signed = |change: &&Change| match change.difference {
                Some(difference) if difference > 0.0 => format!("+{}", change.unit.show(difference)),
                difference => show(change.unit, difference),
            };
            let mut table = TextTable::default();
            table.words("metric", changes.iter().map(|change| change.metric.to_owned()));
            table.figures("A", changes.iter().map(|change| show(change.unit, change.a)));
            table.figures("B", changes.iter().map(|change| show(change.unit, change.b)));
            table.figures("difference", changes.iter().map(signed));
            table.figures("B/A", changes.iter().map(|change| show(Unit::Index, change.ratio)));
            let _ = write!(text, "\n{subject}\n{}", table.render(width));
        }
        text
    }

    fn flows(&self) -> usize {
        let subjects = self.changes.chunk_by(|x, y| x.subject == y.subject);
        subjects.filter(|changes| matches!(changes[0].subject, Subject::Flow(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::example;

    #[test]
    fn differences_and_ratios_are_of_the_second_to_the_first() {
        let (mut a, mut b) = (example::summary(2, 1), example::summary(1, 2));
        b.links[0].queue_delay_mean_ms = 34.5;
        a.info.simulated_s = 30.0;
        b.info.complete = false;
        let comparison = Comparison::of(("runs/a", &a), ("runs/b", &b));
        insta::assert_snapshot!(comparison.render(100));
        let queue = comparison
            .changes
            .iter()
            .find(|c| c.subject == Subject::Link("r1>r2".to_owned()) && c.metric == "queue_delay_mean_ms")
            .unwrap();
        assert_eq!((queue.difference, queue.ratio), (Some(17.25), Some(2.0)));
        let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
        assert_eq!(json["changes"][0]["kind"], "total");
        assert_eq!(json["changes"][0]["unit"], "bit/s");
    }

    #[test]
    fn a_run_is_the_same_as_itself() {
        let summary = example::summary(2, 1);
        let comparison = Comparison::of(("a", &summary), ("b", &summary));
        assert!(comparison.notes.is_empty());
        for change in &comparison.changes {
            assert_eq!(change.difference.unwrap_or(0.0), 0.0, "{change:?}");
        }
    }
}
