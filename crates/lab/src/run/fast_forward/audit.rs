//! Stretches that are run exactly, to see what skipping them would have made of them.

use warpline_core::counter::{Counter, Ratio};
use warpline_core::{TimeDelta, Timestamp};
use warpline_net::{LinkStats, Network};
use warpline_results::AuditedMeasure;
use warpline_results::fast_forward::GOODPUT;
use warpline_results::metrics::Estimate;

use super::history::Forecast;
use crate::hosts::reading::Reading;
use crate::run::counters::Counters;

/// An audited stretch is compared in so many pieces, so that even one says how much its error varies.
const PIECES: u64 = 4;

/// A stretch that is being run, with what was expected of it.
#[derive(Debug)]
pub(super) struct Audit {
    from: Timestamp,
    span: TimeDelta,
    forecast: Forecast,
    /// What was counted at the beginning, and at the end of each piece.
    readings: Vec<Counters>,
}

/// How far off skipping a stretch would have been, as shares of what happened. Positive: more would have been counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    /// Of the bytes of all flows together.
    pub(super) total: Option<f64>,
    /// Of those of the flow where it is largest, either way.
    pub(super) worst_flow: Option<f64>,
}

impl Audit {
    /// Begins now.
    pub(super) fn new(
        span: TimeDelta,
        forecast: Forecast,
        network: &mut Network,
        world: Reading<'_>,
    ) -> Self {
        Audit { from: network.now(), span, forecast, readings: vec![Counters::take(network, world.0)] }
    }

    /// When the next piece ends.
    pub(super) fn next_stop(&self) -> Timestamp {
        let pieces = self.readings.len() as u64;
        self.from
            + TimeDelta::from_nanos((self.span.as_nanos() / PIECES).saturating_mul(pieces)).min(self.span)
    }

    /// A piece ends now. Returns whether it was the last one.
    pub(super) fn note(&mut self, network: &mut Network, world: Reading<'_>) -> bool {
        self.readings.push(Counters::take(network, world.0));
        self.readings.len() as u64 > PIECES
    }
}

/// A quantity that is compared.
type Quantity = fn(&Counters) -> u64;

/// The quantities of the whole network.
const WHOLE: [(&str, Quantity); 3] = [
    (GOODPUT, |counts| counts.flows.iter().map(|flow| flow.delivered_bytes).sum()),
    ("time in queues", |counts| counts.links.iter().map(|link| link.queued_time.as_nanos()).sum()),
    ("drops", |counts| counts.links.iter().map(LinkStats::drops).sum()),
];
/// That of each flow.
const OF_FLOWS: &str = "goodput of a flow";

/// What all audits have found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors of pieces, by the places of `WHOLE`, and those of all flows.
    whole: [Vec<f64>; WHOLE.len()],
    flows: Vec<f64>,
    /// The largest error of a whole stretch, in the same order.
    worst: [f64; WHOLE.len()],
    worst_flow: f64,
    /// Squares of errors in units of what was promised, and their number: of all flows together, and of single ones.
    total_ratios: (f64, u64),
    flow_ratios: (f64, u64),
}

/// The errors of the pieces, and of the whole, as shares of what happened; none where nothing happened.
fn compare(expected: u64, pieces: impl Iterator<Item = u64>) -> Option<(Vec<f64>, f64)> {
    let pieces: Vec<f64> = pieces.map(|count| count as f64).collect();
    let happened = pieces.iter().sum::<f64>();
    let (count, expected) = (pieces.len() as f64, expected as f64);
    let each = |piece: f64| (expected - piece * count) / happened;
    (happened > 0.0).then(|| (pieces.into_iter().map(each).collect(), (expected - happened) / happened))
}

/// By how much a promise must be widened for such errors, in units of what was promised, to be within it in 95 of 100 cases.
fn widening((squares, count): (f64, u64)) -> f64 {
    if count == 0 { 1.0 } else { (2.0 * (squares / count as f64).sqrt()).max(1.0) }
}

fn square(ratios: &mut (f64, u64), error: f64, promised: f64) {
    let ratio = error / promised.max(1.0);
    *ratios = (ratios.0 + ratio * ratio, ratios.1 + 1);
}

impl Findings {
    /// Adds those of an audit, which has come to its end.
    pub(super) fn add(&mut self, audit: &Audit) -> Errors {
        let pieces: Vec<Counters> =
            audit.readings.windows(2).map(|pair| pair[1].growth(&pair[0], Ratio::ONE)).collect();
        let mut errors = Errors::default();
        let Forecast { counts, flows, total } = &audit.forecast;
        for (place, (_, of)) in WHOLE.iter().enumerate() {
            let Some((each, whole)) = compare(of(counts), pieces.iter().map(of)) else { continue };
            self.whole[place].extend(each);
            self.worst[place] = largest(self.worst[place], whole);
            if place == 0 {
                errors.total = Some(whole);
                let happened = pieces.iter().map(of).sum::<u64>() as f64;
                square(&mut self.total_ratios, whole * happened, *total);
            }
        }
        for (flow, promised) in flows.iter().enumerate() {
            let of = |counts: &Counters| counts.flows[flow].delivered_bytes;
            let Some((each, whole)) = compare(of(counts), pieces.iter().map(of)) else { continue };
            self.flows.extend(each);
            self.worst_flow = largest(self.worst_flow, whole);
            errors.worst_flow = Some(largest(errors.worst_flow.unwrap_or(0.0), whole));
            let happened = pieces.iter().map(of).sum::<u64>() as f64;
            square(&mut self.flow_ratios, whole * happened, *promised);
        }
        errors
    }

    /// By how much the audits widen what is promised of all flows together, and of single ones; at least 1.
    pub(super) fn widening(&self) -> (f64, f64) {
        (widening(self.total_ratios), widening(self.flow_ratios))
    }

    /// What they say of each measure.
    pub(super) fn measures(&self) -> Vec<AuditedMeasure> {
        let whole = WHOLE.iter().zip(self.whole.iter().zip(self.worst));
        let whole = whole.map(|((name, _), (errors, worst))| (*name, errors, worst));
        let mut rows: Vec<_> = whole.collect();
        rows.insert(1, (OF_FLOWS, &self.flows, self.worst_flow));
        let row = |(measure, errors, worst): (&str, &Vec<f64>, f64)| {
            let Estimate { mean, ci95, .. } = Estimate::of(errors)?;
            let half = ci95.unwrap_or(0.0);
            let (low, high) = (mean - half, mean + half);
            Some(AuditedMeasure { measure: measure.to_owned(), error: mean, low, high, worst })
        };
        rows.into_iter().filter_map(row).collect()
    }
}

/// That of the two which is farther from zero.
fn largest(one: f64, other: f64) -> f64 {
    if other.abs() > one.abs() { other } else { one }
}
