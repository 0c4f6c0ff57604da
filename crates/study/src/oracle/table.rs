//! The table of agreement, with a verdict on each difference.

use std::fmt::Write;

use serde::Serialize;
use warpline_results::Estimate;
use warpline_results::metrics::student_t_975;

use super::cases::{Case, Family, Metric, Setting};
use super::reasons::reason;

/// Two results agree up to this relative difference.
pub const TOLERANCE: f64 = 0.1;

/// The verdict on a difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The difference is at most [`TOLERANCE`].
    Agrees,
    /// It is larger, but the seeds vary so much that its 95 % confidence interval contains zero.
    Chance {
        /// Lower end of the interval, in percent of ns-2's mean.
        low_percent: f64,
        /// Upper end.
        high_percent: f64,
    },
    /// It is larger, and the reason is known.
    Explained {
        /// The reason.
        reason: &'static str,
    },
    /// It is larger, and the reason is not known.
    Unexplained,
    /// The case was not run in Warpline.
    NotRun {
        /// Why not.
        reason: &'static str,
    },
}

/// A quantity of a case, from both simulators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The figure.
    pub family: Family,
    /// Name of the case.
    pub case: String,
    /// The case's parameters.
    pub setting: Setting,
    /// What was measured.
    pub metric: Metric,
    /// ns-2's results over its seeds.
    pub ns2: Estimate,
    /// Warpline's results over its seeds; none if the case was not run.
    pub warpline: Option<Estimate>,
    /// The difference of Warpline's mean from ns-2's, in percent of ns-2's.
    pub difference_percent: Option<f64>,
    /// The verdict on the difference.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The comparison of all cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The entries, in the order of ns-2's tables.
    pub entries: Vec<Entry>,
}

/// The 95 % confidence interval of the difference of two means: Welch's, if both have several seeds. If ns-2 has one seed,
/// it is assumed to vary as much as Warpline.
fn interval(ns2: &Estimate, warpline: &Estimate) -> Option<(f64, f64)> {
    let deviation = warpline.stddev?;
    let n = warpline.n as f64;
    let difference = warpline.mean - ns2.mean;
    let (error, degrees) = match ns2.stddev {
        Some(other) => {
            let (a, b) = (deviation * deviation / n, other * other / ns2.n as f64);
            let below = a * a / (n - 1.0) + b * b / (ns2.n as f64 - 1.0);
            let degrees = if below > 0.0 { (a + b) * (a + b) / below } else { 1.0 };
            ((a + b).sqrt(), degrees.floor().max(1.0) as u64)
        }
        None => (deviation * (1.0 + 1.0 / n).sqrt(), warpline.n - 1),
    };
    let half = student_t_975(degrees) * error;
    Some((difference - half, difference + half))
}

impl Table {
    /// Judges `measured`: Warpline's values over the seeds, for each case and each of its quantities.
    pub(super) fn new(cases: &[Case], measured: &[Vec<Vec<f64>>]) -> Table {
        let mut entries = Vec::new();
        for (case, of_case) in cases.iter().zip(measured) {
            for ((metric, answers), values) in case.answers.iter().zip(of_case) {
                let Some(ns2) = Estimate::of(answers) else { continue };
                let warpline = Estimate::of(values);
                entries.push(judge(case, *metric, ns2, warpline));
            }
        }
        Table { entries }
    }

    /// The numbers of cases that agree, differ by chance, differ with a reason, differ without one, and were not run.
    pub fn counts(&self) -> [usize; 5] {
        let mut counts = [0; 5];
        for entry in &self.entries {
            counts[match entry.verdict {
                Verdict::Agrees => 0,
                Verdict::Chance { .. } => 1,
                Verdict::Explained { .. } => 2,
                Verdict::Unexplained => 3,
                Verdict::NotRun { .. } => 4,
            }] += 1;
        }
        counts
    }

    fn summary(&self) -> String {
        let [agree, chance, explained, unexplained, skipped] = self.counts();
        format!(
            "{} comparisons: {agree} within {:.0} %, {chance} beyond it within chance, {explained} with a reason, \
             {unexplained} unexplained, {skipped} not run",
            self.entries.len(),
            TOLERANCE * 100.0
        )
    }

    /// The reasons in the table, in the order of their first use.
    fn reasons(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        for entry in &self.entries {
            if let Verdict::Explained { reason } | Verdict::NotRun { reason } = entry.verdict
                && !all.contains(&reason)
            {
                all.push(reason);
            }
        }
        all
    }

    fn cells(&self, entry: &Entry, reasons: &[&str]) -> [String; 5] {
        let shown = |estimate: &Estimate| {
            let (mean, deviation) = (figure(estimate.mean), estimate.stddev.map(figure));
            deviation.map_or(mean.clone(), |deviation| format!("{mean} ± {deviation}"))
        };
        let number = |reason: &str| reasons.iter().position(|known| *known == reason).unwrap_or(0) + 1;
        let remark = match &entry.verdict {
            Verdict::Agrees => String::new(),
            Verdict::Chance { low_percent, high_percent } => {
                format!("chance: 95 % interval {low_percent:+.0} to {high_percent:+.0} %")
            }
            Verdict::Explained { reason } => format!("reason {}", number(reason)),
            Verdict::Unexplained => "UNEXPLAINED".to_owned(),
            Verdict::NotRun { reason } => format!("not run: reason {}", number(reason)),
        };
        [
            entry.case.clone(),
            shown(&entry.ns2),
            entry.warpline.as_ref().map_or("-".to_owned(), shown),
            entry.difference_percent.map_or("-".to_owned(), |percent| format!("{percent:+.1}")),
            remark,
        ]
    }

    /// The groups of entries that share a figure and a quantity, each with a title.
    fn groups(&self) -> Vec<(String, Vec<&Entry>)> {
        let mut groups: Vec<((Family, Metric), Vec<&Entry>)> = Vec::new();
        for entry in &self.entries {
            let key = (entry.family, entry.metric);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, entries)) => entries.push(entry),
                None => groups.push((key, vec![entry])),
            }
        }
        let title = |(family, metric): (Family, Metric)| {
            format!("{}, {}: {}", family.name(), metric.label(), family.about())
        };
        groups.into_iter().map(|(key, entries)| (title(key), entries)).collect()
    }

    /// The table as text for a terminal.
    pub fn render(&self) -> String {
        const HEADS: [&str; 5] = ["case", "ns-2", "Warpline", "%", ""];
        let reasons = self.reasons();
        let mut text = String::new();
        for (title, entries) in self.groups() {
            let rows: Vec<[String; 5]> = entries.iter().map(|entry| self.cells(entry, &reasons)).collect();
            let wide = |column: usize| {
                let cells = rows.iter().map(|row| row[column].chars().count());
                cells.fold(HEADS[column].len(), usize::max)
            };
            let [a, b, c, d] = [wide(0), wide(1), wide(2), wide(3)];
            let _ = writeln!(text, "{title}");
            for [case, ns2, warpline, percent, remark] in
                std::iter::once(HEADS.map(str::to_owned)).chain(rows.iter().cloned())
            {
                let line = format!("  {case:<a$}  {ns2:>b$}  {warpline:>c$}  {percent:>d$}  {remark}");
                let _ = writeln!(text, "{}", line.trim_end());
            }
            text.push('\n');
        }
        for (index, reason) in reasons.iter().enumerate() {
            let _ = writeln!(text, "Reason {}: {reason}", index + 1);
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }

    /// The table in Markdown.
    pub fn to_markdown(&self) -> String {
        let reasons = self.reasons();
        let mut text = String::new();
        for (title, entries) in self.groups() {
            let _ = writeln!(text, "### {title}\n\n| case | ns-2 | Warpline | % | |\n|---|--:|--:|--:|---|");
            for entry in entries {
                let _ = writeln!(text, "| {} |", self.cells(entry, &reasons).join(" | "));
            }
            text.push('\n');
        }
        if !reasons.is_empty() {
            text.push_str("### Reasons\n\n");
            for (index, reason) in reasons.iter().enumerate() {
                let _ = writeln!(text, "{}. {reason}", index + 1);
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}.", self.summary());
        text
    }

    /// The table in JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Three digits, or four above a thousand.
fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

fn judge(case: &Case, metric: Metric, ns2: Estimate, warpline: Option<Estimate>) -> Entry {
    let percent = |difference: f64| 100.0 * difference / ns2.mean;
    let difference_percent = warpline.as_ref().map(|warpline| percent(warpline.mean - ns2.mean));
    let verdict = match (&warpline, difference_percent) {
        (Some(_), Some(difference)) if difference.abs() <= 100.0 * TOLERANCE => Verdict::Agrees,
        (Some(warpline), difference) => {
            // What is no number is above no bound and below none: no reason is one for it.
            let known = difference.filter(|percent| percent.is_finite());
            match (interval(&ns2, warpline), known.and_then(|percent| reason(case, metric, percent))) {
                (Some((low, high)), _) if low <= 0.0 && high >= 0.0 => {
                    Verdict::Chance { low_percent: percent(low), high_percent: percent(high) }
                }
                (_, Some(reason)) => Verdict::Explained { reason },
                (_, None) => Verdict::Unexplained,
            }
        }
        (None, _) => Verdict::NotRun { reason: super::reasons::NOT_RUN },
    };
    Entry {
        family: case.family,
        case: case.name(),
        setting: case.setting,
        metric,
        ns2,
        warpline,
        difference_percent,
        verdict,
    }
}
