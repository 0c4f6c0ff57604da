//! Replications: the same scenario with several seeds, each measure with mean, spread and 95 % confidence interval.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use crate::declaration::ColumnInfo;
use crate::measures::{Subject, subjects};
use crate::metrics::Estimate;
use crate::render::{MANY, matters};
use crate::summary::Summary;
use crate::text_table::{ABSENT, TextTable};

/// A measure over all replications that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replicated {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// Which column of it.
    #[serde(flatten)]
    pub column: &'static ColumnInfo,
    /// Mean, standard deviation and confidence interval over the seeds.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// The replications of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replications {
    /// Name of the scenario.
    pub scenario: String,
    /// The seeds, in the order given.
    pub seeds: Vec<u64>,
    /// Seeds whose run did not come to its end; they are left out of the estimates.
    pub incomplete: Vec<u64>,
    /// The measures, in the order of the first summary.
    pub measures: Vec<Replicated>,
    /// Links that the terminal shows: those that it would show of one of the runs.
    #[serde(skip)]
    mattering: BTreeSet<String>,
}

impl Replications {
    /// Estimates over the complete runs among these, one summary per seed.
    pub fn of(summaries: &[Summary]) -> Replications {
        let mut order: Vec<(Subject, &'static ColumnInfo)> = Vec::new();
        let mut samples: BTreeMap<(Subject, &'static str), Vec<f64>> = BTreeMap::new();
        let mut mattering = BTreeSet::new();
        for summary in summaries.iter().filter(|summary| summary.info.complete) {
            mattering.extend(summary.links.iter().filter(|link| matters(link)).map(|link| link.name.clone()));
            for (subject, figures) in subjects(summary, true) {
                for (column, value) in figures {
                    let Some(value) = value else { continue };
                    let values = samples.entry((subject.clone(), column.name)).or_insert_with(|| {
                        order.push((subject.clone(), column));
                        Vec::new()
                    });
                    values.push(value);
                }
            }
        }
        let mut measures = Vec::with_capacity(order.len());
        for (subject, column) in order {
            let values = samples.remove(&(subject.clone(), column.name)).unwrap_or_default();
            measures.extend(Estimate::of(&values).map(|estimate| Replicated { subject, column, estimate }));
        }
        let seeds = |complete: fn(&Summary) -> bool| {
            summaries.iter().filter(|summary| complete(summary)).map(|summary| summary.info.seed).collect()
        };
        Replications {
            scenario: summaries.first().map(|summary| summary.info.scenario.clone()).unwrap_or_default(),
            seeds: seeds(|_| true),
            incomplete: seeds(|summary| !summary.info.complete),
            measures,
            mattering,
        }
    }

    /// The replications as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: there is nothing that could fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The replications as lines of at most `width` characters. What is zero in all is left out; so are single flows where
    /// there are many, and links on which nothing happened.
    pub fn render(&self, width: usize) -> String {
        let runs = self.seeds.len();
        let mut text = format!("{}: {runs} {}", self.scenario, if runs == 1 { "seed" } else { "seeds" });
        text.push_str(", mean and 95 % confidence interval (Student's t)\n");
        if !self.incomplete.is_empty() {
            let seeds: Vec<String> = self.incomplete.iter().map(u64::to_string).collect();
            let _ =
                writeln!(text, "Note: left out, because they are incomplete: seeds {}.", seeds.join(", "));
        }
        let by_subject = || self.measures.chunk_by(|x, y| x.subject == y.subject);
        let flows = by_subject().filter(|all| matches!(all[0].subject, Subject::Flow(_))).count();
        let mut rest = 0;
        for all in by_subject() {
            if matches!(&all[0].subject, Subject::Link(name) if !self.mattering.contains(name)) {
                rest += 1;
                continue;
            }
            let mattering = |m: &&Replicated| m.estimate.min != 0.0 || m.estimate.max != 0.0;
            let shown: Vec<&Replicated> = all.iter().filter(mattering).collect();
            let Some(first) = shown.first() else { continue };
            if matches!(first.subject, Subject::Flow(_)) && flows > MANY {
                continue;
            }
            let column = |value: fn(&Estimate) -> Option<f64>| {
                shown
                    .iter()
                    .map(move |m| value(&m.estimate).map_or(ABSENT.to_owned(), |v| m.column.unit.show(v)))
            };
            let mut table = TextTable::default();
            table.words("metric", shown.iter().map(|m| m.column.name.to_owned()));
            table.figures("mean", column(|e| Some(e.mean)));
            table.figures("±", column(|e| e.ci95));
            table.figures("deviation", column(|e| e.stddev));
            table.figures("least", column(|e| Some(e.min)));
            table.figures("most", column(|e| Some(e.max)));
            let _ = write!(text, "\n{}\n{}", first.subject, table.render(width));
        }
        if rest > 0 {
            let links = if rest == 1 { "1 more link".to_owned() } else { format!("{rest} more links") };
            let _ = writeln!(text, "\n{links}: replications.json");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn seeds_give_a_mean_and_an_interval() {
        let mut summaries: Vec<Summary> = (1..=4).map(|seed| example::summary(1, seed)).collect();
        summaries[3].info.complete = false;
        let replications = Replications::of(&summaries);
        let goodput = &replications.measures[0];
        assert_eq!((goodput.column.name, goodput.estimate.n), ("goodput_bps", 3));
        // 10 kbit/s apart: deviation 10 kbit/s, interval t(2) / sqrt(3) of it.
        assert!((goodput.estimate.ci95.unwrap() - 4.3027 * 1e4 / 3f64.sqrt()).abs() < 1.0);
        assert_eq!(replications.incomplete, [4]);
        insta::assert_snapshot!(replications.render(100));
        let json: serde_json::Value = serde_json::from_str(&replications.to_json()).unwrap();
        assert_eq!(json["measures"][0]["n"], 3);
    }

    #[test]
    fn one_seed_has_no_interval_and_none_has_nothing() {
        let one = Replications::of(&[example::summary(1, 1)]);
        assert!(one.measures.iter().all(|measure| measure.estimate.ci95.is_none()));
        assert!(Replications::of(&[]).measures.is_empty());
    }
}
