//! A quantity over time across the runs of several seeds: mean, and the 95 % confidence interval of the mean at each sample.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use warpline_results::{Estimate, FlowSample, Fold, LinkSample, Row, Run, RunSet, Stretch, Summary, Tables};

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
    /// The stretches of time that all of the runs skipped, in order: start and end, in seconds. Of these there are no samples.
    pub skipped: Vec<[f64; 2]>,
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

/// How exact sample times are, as instants of a second: those of real clocks differ by less from run to run.
const INSTANTS: f64 = 1e6;
/// How long one of them is, in seconds.
const INSTANT_S: f64 = 1.0 / INSTANTS;

/// A sample time as a number of instants.
fn instant(time_s: f64) -> u64 {
    (time_s * INSTANTS).round() as u64
}

/// A quantity over time in one run: sum or mean over its flows or links, by sample time.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    sums: BTreeMap<u64, (f64, f64)>,
    /// Whether a value is the sum over the members; else it is their mean.
    sum: bool,
    /// The stretches of time that the run skipped, as in [`Band::skipped`].
    skipped: Vec<[f64; 2]>,
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
        let mut samples = Samples::empty(summary, quantity);
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
        let mut samples = Samples::empty(run.summary(), quantity);
        scan(run.path(), table, &columns, |batch| samples.add(batch, columns, &members))?;
        if may_be_idle(run.summary(), quantity, &members) {
            scan(run.path(), LinkSample::TABLE, &["time_s"], |batch| samples.add_idle(batch))?;
        }
        Ok(samples)
    }

    fn empty(summary: &Summary, quantity: Quantity) -> Samples {
        let skipped = Stretch::skipped(&summary.stretches);
        Samples { sums: BTreeMap::new(), sum: quantity.column.fold == Some(Fold::Sum), skipped }
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
        let mut skipped: Option<Vec<[f64; 2]>> = None;
        for Samples { sums, sum, skipped: own } in runs {
            // A run without a value draws nothing, so it fills no gap.
            if sums.is_empty() {
                continue;
            }
            skipped = Some(match skipped {
                Some(others) => common(&others, &own),
                None => own,
            });
            for (time, (total, count)) in sums {
                values.entry(time).or_default().push(if sum { total } else { total / count });
            }
        }
        let mut band = Band { skipped: skipped.unwrap_or_default(), ..Band::default() };
        for (time, samples) in values {
            let Some(estimate) = Estimate::of(&samples) else { continue };
            let half = estimate.ci95.unwrap_or(f64::NAN);
            band.time_s.push(time as f64 / INSTANTS);
            band.mean.push(estimate.mean);
            // None of these quantities can be negative.
            band.low.push((estimate.mean - half).max(if half.is_nan() { f64::NAN } else { 0.0 }));
            band.high.push(estimate.mean + half);
        }
        band
    }

    /// The samples that are drawn in one piece, as ranges of their indices: between two pieces, time was skipped.
    pub(super) fn pieces(&self) -> Vec<Range<usize>> {
        let mut begin = 0;
        let mut pieces = Vec::new();
        for (before, pair) in self.time_s.windows(2).enumerate() {
            if let [from, to] = pair
                && self.skips_between(*from, *to)
            {
                pieces.push(begin..before + 1);
                begin = before + 1;
            }
        }
        pieces.push(begin..self.time_s.len());
        pieces
    }

    /// Whether time was skipped between two samples that follow each other.
    fn skips_between(&self, from: f64, to: f64) -> bool {
        let next = self.skipped.partition_point(|[_, until]| *until <= from + INSTANT_S);
        self.skipped.get(next).is_some_and(|[start, _]| *start < to - INSTANT_S)
    }
}

/// The stretches that are in both lists. Both rise, and those of one list do not overlap.
fn common(one: &[[f64; 2]], other: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let (mut i, mut j) = (0, 0);
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (one.get(i), other.get(j)) {
        let (from, until) = (a[0].max(b[0]), a[1].min(b[1]));
        if from < until {
            both.push([from, until]);
        }
        // What ends first has nothing in common with what comes next in the other list.
        if a[1] < b[1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    both
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

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: &[f64], skipped: &[[f64; 2]]) -> Samples {
        let sums = times.iter().map(|&time| (instant(time), (time, 1.0))).collect();
        Samples { sums, sum: true, skipped: skipped.to_vec() }
    }

    #[test]
    fn a_band_is_broken_where_all_runs_skipped_time() {
        let long = samples(&[1.0, 2.0, 8.0, 9.0], &[[2.0, 7.5], [9.0, 20.0]]);
        let short = samples(&[1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0], &[[3.0, 5.5]]);
        let none = samples(&[], &[]);
        let band = Band::of([long.clone(), short.clone(), none]);
        assert_eq!((band.skipped.as_slice(), band.pieces()), ([[3.0, 5.5]].as_slice(), vec![0..3, 3..7]));
        assert_eq!(Band::of([long]).pieces(), [0..2, 2..4]);
        let exact = samples(&[1.0, 9.0], &[]);
        assert_eq!(Band::of([short, exact]).pieces().len(), 1);
        assert_eq!(Band::default().pieces().len(), 1);
    }

    #[test]
    fn a_stretch_that_ends_at_a_sample_is_no_gap_behind_it() {
        // Both ends are a little off the sample, less than its time is exact.
        let band = Band::of([samples(&[1.0, 2.0, 3.0, 4.0], &[[2.0 - 4e-7, 3.0 + 4e-7]])]);
        assert_eq!(band.pieces(), [0..2, 2..4]);
    }

    #[test]
    fn what_two_lists_of_stretches_have_in_common() {
        let one = [[1.0, 3.0], [5.0, 9.0], [10.0, 11.0]];
        let other = [[2.0, 6.0], [8.0, 8.5], [8.6, 12.0]];
        let both = [[2.0, 3.0], [5.0, 6.0], [8.0, 8.5], [8.6, 9.0], [10.0, 11.0]];
        assert_eq!(common(&one, &other), both);
        assert_eq!(common(&other, &one), both);
        assert!(common(&one, &[]).is_empty());
    }
}
