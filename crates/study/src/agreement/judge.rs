//! Verdicts on the differences between the model and Linux.

use serde::Serialize;
use warpline_results::{Estimate, Unit};

use super::case::{Case, Figure, Measured, Stack};

/// Up to this difference, in percent, the model is close to Linux.
const CLOSE: f64 = 5.0;
/// Up to this difference, it is near.
const NEAR: f64 = 10.0;
/// A verdict on a difference. The worst of several is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// At most 5 %.
    Close,
    /// At most 10 %.
    Near,
    /// More, but the 95 % confidence interval of the difference holds zero.
    Chance,
    /// More.
    Differs,
}

impl Verdict {
    /// The word for it in tables; none where there is nothing to say.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Verdict::Close => "",
            Verdict::Near => "near",
            Verdict::Chance => "chance",
            Verdict::Differs => "DIFFERS",
        }
    }
}

/// A quantity of a case, from both stacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What was measured.
    pub figure: &'static str,
    /// In which unit, as in the tables of results.
    pub unit: Unit,
    /// Linux's, over the seeds.
    pub linux: Estimate,
    /// The model's.
    pub model: Estimate,
    /// By how much the model's mean is larger, in percent of Linux's.
    pub difference_percent: f64,
    /// Half of the 95 % confidence interval of the difference, over pairs of paths with the same losses; none with one seed.
    pub ci95_percent: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Compared {
    fn new(figure: Figure, case: &dyn Case, linux: &[Measured], model: &[Measured]) -> Option<Compared> {
        let values =
            |of: &[Measured]| of.iter().map(|paths| paths.get(&figure).copied()).collect::<Option<Vec<_>>>();
        let (of_linux, of_model) = (values(linux)?, values(model)?);
        let (linux, scale) = {
            let estimate = Estimate::of(&of_linux)?;
            (estimate, estimate.mean.max(figure.floor(case.rtt_ms())))
        };
        let differences: Vec<f64> =
            of_linux.iter().zip(&of_model).map(|(linux, model)| 100.0 * (model - linux) / scale).collect();
        let difference = Estimate::of(&differences)?;
        let large = difference.mean.abs();
        let verdict = if large <= CLOSE {
            Verdict::Close
        } else if large <= NEAR {
            Verdict::Near
        } else if difference.ci95.is_some_and(|half| half >= large) {
            Verdict::Chance
        } else {
            Verdict::Differs
        };
        Some(Compared {
            figure: figure.name(),
            unit: figure.unit(),
            linux,
            model: Estimate::of(&of_model)?,
            difference_percent: difference.mean,
            ci95_percent: difference.ci95,
            verdict,
        })
    }
}

/// A congestion control or a queue on a path, by both stacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The congestion control or the queue.
    pub subject: &'static str,
    /// Name of the path.
    pub path: String,
    /// Names of the files with its scenarios, Linux's and the model's.
    pub scenarios: [String; 2],
    /// What was compared.
    pub figures: Vec<Compared>,
}

impl Row {
    pub(super) fn new(case: &dyn Case, linux: &[Measured], model: &[Measured]) -> Row {
        let compared = |figure: &Figure| Compared::new(*figure, case, linux, model);
        Row {
            subject: case.subject(),
            path: case.path(),
            scenarios: Stack::BOTH.map(|stack| case.file_name(stack) + ".toml"),
            figures: case.figures().iter().filter_map(compared).collect(),
        }
    }
}
