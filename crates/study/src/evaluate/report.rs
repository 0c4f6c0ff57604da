//! The outcome of an evaluation: a verdict on each question, as text, Markdown and JSON. (`page.rs` shows it as a page.)

use std::fmt::Write;

use serde::Serialize;
use warpline_report::figure::Figure;
use warpline_results::{Estimate, Unit};

use super::trial::{Bound, Compared, ScenarioFile};

/// A verdict. The worst of several is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the bound.
    Met,
    /// The 95 % confidence interval over the seeds holds the bound: more seeds would tell.
    Open,
    /// Beyond the bound.
    Missed,
}

impl Verdict {
    /// The verdict on how much better than the bound each seed is.
    pub(super) fn of(margins: &[f64]) -> Verdict {
        let Some(Estimate { mean, ci95, .. }) = Estimate::of(margins) else { return Verdict::Missed };
        let half = ci95.unwrap_or(0.0);
        if !mean.is_finite() || mean + half < 0.0 {
            Verdict::Missed
        } else if mean - half >= 0.0 {
            Verdict::Met
        } else {
            Verdict::Open
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Open => "open",
            Verdict::Missed => "MISSED",
        }
    }
}

/// A figure of a trial, held against its bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Name of the trial.
    pub trial: String,
    /// What was measured.
    pub figure: &'static str,
    /// In which unit, as in the tables of results.
    pub unit: &'static str,
    /// Its mean over the seeds; none if there was nothing to measure.
    pub mean: Option<f64>,
    /// Half of the mean's 95 % confidence interval, with several seeds.
    pub ci95: Option<f64>,
    /// The mean in the scenario that the trial is compared with, if there is one.
    pub baseline: Option<f64>,
    /// What that scenario has in place of the algorithm.
    pub compared: Compared,
    /// What is asked of it.
    pub bound: Bound,
    /// The verdict.
    pub verdict: Verdict,
}

/// A trial as it is shown: its scenarios, and what happened over time.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Name of the trial.
    pub trial: String,
    /// Its scenarios: the one under test, then the one that it is compared with.
    pub scenarios: Vec<ScenarioFile>,
    /// Figures over time.
    #[serde(skip)]
    pub plots: Vec<Figure>,
}

/// The answer to a question.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Name of the criterion.
    pub name: &'static str,
    /// Section of RFC 9743.
    pub section: &'static str,
    /// The question.
    pub question: &'static str,
    /// The figures of all trials.
    pub figures: Vec<Judged>,
    /// The trials.
    pub trials: Vec<Shown>,
}

impl Answer {
    /// The worst verdict on any of its figures.
    pub fn verdict(&self) -> Verdict {
        self.figures.iter().map(|judged| judged.verdict).max().unwrap_or(Verdict::Missed)
    }
}

/// The evaluation of an algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The algorithm, as it was given.
    pub cc: String,
    /// Whether only those trials were run that differ most.
    pub quick: bool,
    /// With how many seeds.
    pub seeds: u32,
    /// Whether the flows that were compared ran between Linux kernels.
    pub guests: bool,
    /// The answers, in the order of the RFC.
    pub criteria: Vec<Answer>,
    /// Trials that guests cannot run: their names, and why.
    pub left_out: Vec<String>,
}

impl Evaluation {
    /// On how many questions the verdict is this one.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.criteria.iter().filter(|answer| answer.verdict() == verdict).count()
    }

    /// How the runs were made: "5 seeds, quick".
    pub(super) fn manner(&self) -> String {
        let seeds = if self.seeds == 1 { "one seed".to_owned() } else { format!("{} seeds", self.seeds) };
        let quick = if self.quick { ", quick" } else { "" };
        let guests = if self.guests { ", in Linux guests" } else { "" };
        format!("{seeds}{quick}{guests}")
    }

    fn headline(&self) -> String {
        format!(
            "{}, by the questions of RFC 9743 ({}): {} met, {} open, {} missed",
            self.cc,
            self.manner(),
            self.count(Verdict::Met),
            self.count(Verdict::Open),
            self.count(Verdict::Missed)
        )
    }

    /// The verdicts as text for a terminal, and the figures behind them: of those that are not met, or of all.
    pub fn render(&self, all: bool) -> String {
        let mut text = format!("{}\n\n", self.headline());
        let wide = self.criteria.iter().map(|answer| answer.name.len()).max().unwrap_or(0);
        for answer in &self.criteria {
            let Answer { name, section, question, .. } = answer;
            let _ =
                writeln!(text, "  {section:<7} {name:<wide$}  {:<6}  {question}", answer.verdict().word());
        }
        let mut last = "";
        for judged in self.figures().filter(|judged| all || judged.verdict != Verdict::Met) {
            if judged.trial != last {
                let _ = writeln!(text, "\n{}", judged.trial);
                last = &judged.trial;
            }
            let [figure, value, standard, bound, verdict] = cells(judged);
            let compared = judged.compared.name();
            let standard = if standard == "-" { String::new() } else { format!("; {compared} {standard}") };
            let _ = writeln!(text, "  {verdict:<6}  {figure}: {value}, {bound}{standard}");
        }
        if !self.left_out.is_empty() {
            let _ =
                writeln!(text, "\nLeft out, because guests cannot run it\n  {}", self.left_out.join("\n  "));
        }
        text
    }

    /// The same in Markdown, with all figures.
    pub fn to_markdown(&self) -> String {
        let mut text =
            format!("{}.\n\n| section | question | | verdict |\n|---|---|---|---|\n", self.headline());
        for answer in &self.criteria {
            let Answer { name, section, question, .. } = answer;
            let _ = writeln!(text, "| {section} | {name} | {question} | {} |", answer.verdict().word());
        }
        text += "\n| trial | figure | value | compared with | asked | verdict |\n|---|---|--:|--:|---|---|\n";
        for judged in self.figures() {
            let [figure, value, standard, bound, verdict] = cells(judged);
            let _ = writeln!(
                text,
                "| {} | {figure} | {value} | {standard} | {bound} | {verdict} |",
                judged.trial
            );
        }
        text
    }

    /// The same as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    fn figures(&self) -> impl Iterator<Item = &Judged> {
        self.criteria.iter().flat_map(|answer| &answer.figures)
    }
}

/// What is printed of a figure: what it is, its value, the standard algorithm's, the bound, and the verdict.
pub(super) fn cells(judged: &Judged) -> [String; 5] {
    let unit = Unit::named(judged.unit).unwrap_or(Unit::Index);
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| unit.show(value));
    let value = match judged.ci95 {
        Some(half) => format!("{} ± {}", show(judged.mean), unit.show(half)),
        None => show(judged.mean),
    };
    let words =
        [judged.figure.to_owned(), value, show(judged.baseline), judged.bound.words(unit, judged.compared)];
    let [figure, value, baseline, bound] = words;
    [figure, value, baseline, bound, judged.verdict.word().to_owned()]
}
