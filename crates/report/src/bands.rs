//! A quantity over time across the runs of several seeds: mean, and the 95 % confidence interval of the mean at each sample.

use std::collections::{BTreeMap, BTreeSet};

use warpline_results::{Estimate, FlowSample, Fold, LinkSample, Row, Run, RunSet, Summary, Tables};

use super::ReportError;
use super::quantity::Quantity;
use super::tables::{Batch, convert, scan};

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

/// A quantity over time in one run: sum or mean over its flows or links, by sample time.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    sums: BTreeMap<u64, (f64, f64)>,
    /// Whether a value is the sum over the members; else it is their mean.
    sum: bool,
}

/// Which table a quantity is in, the column that says whose a row is, and the quantity's own.
fn place(quantity: Quantity) -> (&'static str, [&'static str; 3]) {
    let (table, id) = if quantity.link { (LinkSample::TABLE, "link") } else { (FlowSample::TABLE, "flow") };
    (table, ["time_s", id, quantity.column.name])
}

/// Whether these flows may all lack a row at an instant at which the run was sampled, and then have a sum of zero. Flows of programs have
/// none while they are idle; those of simulated hosts always have one.
fn may_be_idle(summary: &Summary, quantity: Quantity, members: &BTreeSet<u32>) -> bool {
    let has_programs = summary.live.is_some() || summary.guests.is_some();
    has_programs && !quantity.link && quantity.column.fold == Some(Fold::Sum) && !members.is_empty()
}

impl Samples {
    /// That of `of` (a group, a flow or a link; none: all flows) in tables that are in memory.
    pub fn of(summary: &Summary, tables: &Tables, quantity: Quantity, of: Option<&str>) -> Samples {
        let (name, columns) = place(quantity);
        let members = members(summary, quantity, of);
        let mut samples = Samples::empty(quantity);
        let table = tables.iter().find(|(table, _)| *table == name);
        for batch in table.into_iter().flat_map(|(_, table)| &table.batches) {
            samples.add(&convert(batch), columns, &members);
        }
        if may_be_idle(summary, quantity, &members) {
            tables.series_links.batches.iter().for_each(|batch| samples.add_idle(&convert(batch)));
        }
        samples
    }

    fn read(run: &Run, quantity: Quantity, of: Option<&str>) -> Result<Samples, ReportError> {
        let (table, columns) = place(quantity);
        let members = members(run.summary(), quantity, of);
        let mut samples = Samples::empty(quantity);
        scan(run.path(), table, &columns, |batch| samples.add(batch, columns, &members))?;
        if may_be_idle(run.summary(), quantity, &members) {
            scan(run.path(), LinkSample::TABLE, &["time_s"], |batch| samples.add_idle(batch))?;
        }
        Ok(samples)
    }

    fn empty(quantity: Quantity) -> Samples {
        Samples { sums: BTreeMap::new(), sum: quantity.column.fold == Some(Fold::Sum) }
    }

    fn add(&mut self, batch: &Batch, columns: [&str; 3], members: &BTreeSet<u32>) {
        let [times, ids, cells] = columns.map(|column| batch.numbers(column));
        for ((time, id), value) in times.into_iter().zip(ids).zip(cells) {
            if value.is_finite() && members.contains(&(id as u32)) {
                let (total, count) = self.sums.entry(instant(time)).or_default();
                (*total, *count) = (*total + value, *count + 1.0);
            }
        }
    }

    /// Counts zero at the instants of these samples of links at which no flow has a row.
    fn add_idle(&mut self, links: &Batch) {
        for time in links.numbers("time_s") {
            self.sums.entry(instant(time)).or_default();
        }
    }
}

impl Band {
    /// Mean and interval across runs.
    pub fn of(runs: impl IntoIterator<Item = Samples>) -> Band {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for Samples { sums, sum } in runs {
            for (time, (total, count)) in sums {
                values.entry(time).or_default().push(if sum { total } else { total / count });
            }
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
        band
    }
}

/// A quantity of `of` (a group, a flow or a link; none: all flows) across the complete runs of a set.
///
/// # Errors
/// If a table cannot be read.
pub fn band(set: &RunSet, quantity: Quantity, of: Option<&str>) -> Result<Band, ReportError> {
    let runs = set.runs().iter().filter(|run| run.summary().info.complete || set.runs().len() == 1);
    let samples = runs.map(|run| Samples::read(run, quantity, of)).collect::<Result<Vec<_>, _>>()?;
    Ok(Band::of(samples))
}
