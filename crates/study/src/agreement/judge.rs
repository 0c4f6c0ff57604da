//! Verdicts on the differences between the model and Linux.

use serde::Serialize;
use warpline_results::{Estimate, Unit};

use super::algorithms::Algorithm;
use super::cell::{Cell, Stack};
use super::kept::Measured;

/// Up to this difference, in percent, the model is close to Linux.
const CLOSE: f64 = 5.0;
/// Up to this difference, it is near.
const NEAR: f64 = 10.0;
/// A queue that is shorter than this part of the round-trip time counts as one of that length: 5 % of it are 1 % of the round trip.
const LEAST_QUEUE: f64 = 0.2;
/// A retransmitted share below this counts as this: 5 % of it are one packet in two thousand.
const LEAST_RETRANSMITTED: f64 = 0.01;

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

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Goodput of the flow.
    Goodput,
    /// Mean delay in the bottleneck's queue.
    QueueDelay,
    /// Retransmitted share of the packets.
    Retransmitted,
}

impl Figure {
    pub(super) const ALL: [Figure; 3] = [Figure::Goodput, Figure::QueueDelay, Figure::Retransmitted];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Figure::Goodput => "goodput",
            Figure::QueueDelay => "queue delay",
            Figure::Retransmitted => "retransmitted",
        }
    }

    pub(super) const fn unit(self) -> Unit {
        match self {
            Figure::Goodput => Unit::BitPerSecond,
            Figure::QueueDelay => Unit::Millisecond,
            Figure::Retransmitted => Unit::Share,
        }
    }

    fn of(self, measured: &Measured) -> f64 {
        match self {
            Figure::Goodput => measured.goodput_bps,
            Figure::QueueDelay => measured.queue_delay_ms,
            Figure::Retransmitted => measured.retransmitted,
        }
    }

    /// The least that differences are measured by.
    fn floor(self, cell: &Cell) -> f64 {
        match self {
            Figure::Goodput => f64::MIN_POSITIVE,
            Figure::QueueDelay => LEAST_QUEUE * f64::from(cell.rtt_ms),
            Figure::Retransmitted => LEAST_RETRANSMITTED,
        }
    }
}

/// A quantity of a cell, from both stacks.
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
    fn new(figure: Figure, cell: &Cell, linux: &[Measured], model: &[Measured]) -> Option<Compared> {
        let values = |of: &[Measured]| of.iter().map(|measured| figure.of(measured)).collect::<Vec<_>>();
        let (of_linux, of_model) = (values(linux), values(model));
        let (linux, scale) = {
            let estimate = Estimate::of(&of_linux)?;
            (estimate, estimate.mean.max(figure.floor(cell)))
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

/// A congestion control on a path, by both stacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The congestion control.
    pub algorithm: &'static str,
    /// Name of the cell.
    pub cell: String,
    /// Names of the files with its scenarios, Linux's and the model's.
    pub scenarios: [String; 2],
    /// Goodput, queueing delay, retransmissions.
    pub figures: Vec<Compared>,
}

impl Row {
    pub(super) fn new(algorithm: &Algorithm, cell: &Cell, linux: &[Measured], model: &[Measured]) -> Row {
        let compared = |figure| Compared::new(figure, cell, linux, model);
        Row {
            algorithm: algorithm.name,
            cell: cell.name(),
            scenarios: Stack::BOTH.map(|stack| cell.file_name(algorithm, stack) + ".toml"),
            figures: Figure::ALL.into_iter().filter_map(compared).collect(),
        }
    }
}
