//! A quantity over time across the runs of several seeds: mean, and the 95 % confidence interval of the mean at each sample.

use std::collections::{BTreeMap, BTreeSet};

use warpline_results::{Estimate, FlowSample, Fold, LinkSample, Row, Run, RunSet, Summary};

use super::ReportError;
use super::quantity::Quantity;
use super::tables::scan;

/// A quantity over time across runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Band {
    /// Sample times in seconds, rising.
    pub time_s: Vec<f64>,
    /// Mean over the runs.
    pub mean: Vec<f64>,
    /// Lower end of the mean's 95 % interval; not a number where a single run has a value.
    pub low: Vec<f64>,
    /// Upper end.
    pub high: Vec<f64>,
}

/// Whose quantity: a group or flow by name, a link by name; all flows where nobody is named.
fn members(summary: &Summary, quantity: Quantity, of: Option<&str>) -> BTreeSet<u32> {
    if quantity.of_link() {
        return summary.links.iter().filter(|link| of == Some(&link.name)).map(|link| link.link).collect();
    }
    let named = |flow: &&warpline_results::FlowRow| of.is_none_or(|of| flow.name == of || flow.group == of);
    summary.flows.iter().filter(named).map(|flow| flow.flow).collect()
}

/// The link where packets waited longest, in the mean over the runs; of links that no packet waited for, that which carried most.
pub fn busiest_link(set: &RunSet) -> Option<String> {
    let mut links: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for link in set.summaries().into_iter().flat_map(|summary| &summary.links) {
        let (wait, load) = links.entry(&link.name).or_default();
        *wait += link.queue_delay_mean_ms;
        *load += link.throughput_bps;
    }
    let longest = |x: &(f64, f64), y: &(f64, f64)| x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1));
    // The first in the alphabet of those that are alike.
    links.into_iter().rev().max_by(|x, y| longest(&x.1, &y.1)).map(|(name, _)| name.to_owned())
}

/// Microseconds: sample times of real clocks differ by less from run to run.
fn instant(time_s: f64) -> u64 {
    (time_s * 1e6).round() as u64
}

/// Adds one run's values, by instant.
fn read(
    run: &Run,
    quantity: Quantity,
    of: Option<&str>,
    values: &mut BTreeMap<u64, Vec<f64>>,
) -> Result<(), ReportError> {
    let Quantity { column, link, .. } = quantity;
    let (column, sum) = (column.name, column.fold == Some(Fold::Sum));
    let (table, id) = if link { (LinkSample::TABLE, "link") } else { (FlowSample::TABLE, "flow") };
    let members = members(run.summary(), quantity, of);
    let mut own: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    scan(run.path(), table, &["time_s", id, column], |batch| {
        let (times, ids, cells) = (batch.numbers("time_s"), batch.numbers(id), batch.numbers(column));
        for ((time, id), value) in times.into_iter().zip(ids).zip(cells) {
            if value.is_finite() && members.contains(&(id as u32)) {
                let (total, count) = own.entry(instant(time)).or_default();
                (*total, *count) = (*total + value, *count + 1.0);
            }
        }
    })?;
    for (time, (total, count)) in own {
        values.entry(time).or_default().push(if sum { total } else { total / count });
    }
    Ok(())
}

/// A quantity of `of` (a group, a flow or a link; none: all flows) across the complete runs of a set.
///
/// # Errors
/// If a table cannot be read.
pub fn band(set: &RunSet, quantity: Quantity, of: Option<&str>) -> Result<Band, ReportError> {
    let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for run in set.runs().iter().filter(|run| run.summary().info.complete || set.runs().len() == 1) {
        read(run, quantity, of, &mut values)?;
    }
    let mut band = Band::default();
    for (time, samples) in values {
        let Some(estimate) = Estimate::of(&samples) else { continue };
        let half = estimate.ci95.unwrap_or(f64::NAN);
        band.time_s.push(time as f64 / 1e6);
        band.mean.push(estimate.mean);
        // None of these quantities can be negative.
        band.low.push((estimate.mean - half).max(if half.is_nan() { f64::NAN } else { 0.0 }));
        band.high.push(estimate.mean + half);
    }
    Ok(band)
}
