//! A quantity over time across the runs of several seeds: mean, and the 95 % confidence interval of the mean at each sample.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use warpline_results::{
    Estimate, FlowRow, FlowSample, Fold, LinkSample, Row, Run, RunSet, Stretch, Summary, Tables,
};

use super::ReportError;
use super::quantity::Quantity;
use super::tables::{Batch, convert, rows_of, scan};

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

/// The number of each flow or link that goes by one of `names`, with the place of that name: a group or flow by name, a link by name; all flows
/// where nobody is named.
fn members(summary: &Summary, link: bool, names: &[Option<&str>]) -> BTreeSet<(u32, usize)> {
    let mut members = BTreeSet::new();
    for (place, &of) in names.iter().enumerate() {
        if link {
            let named = summary.links.iter().filter(|link| of == Some(link.name.as_str()));
            members.extend(named.map(|link| (link.link, place)));
        } else {
            let is_named = |flow: &&FlowRow| of.is_none_or(|of| flow.name == of || flow.group == of);
            members.extend(summary.flows.iter().filter(is_named).map(|flow| (flow.flow, place)));
        }
    }
    members
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

impl Samples {
    /// That of `of` (a group, a flow or a link; none: all flows) in tables that are in memory.
    pub fn of(summary: &Summary, tables: &Tables, quantity: Quantity, of: Option<&str>) -> Samples {
        let quantities = [quantity];
        let mut reading = Reading::new(summary, &quantities, &[of]);
        let table = tables.iter().find(|(table, _)| *table == reading.table());
        for batch in table.into_iter().flat_map(|(_, table)| &table.batches) {
            reading.add(&convert(batch));
        }
        if !reading.idle.is_empty() {
            tables.series_links.batches.iter().for_each(|batch| reading.add_idle(&convert(batch)));
        }
        reading.samples.pop().unwrap_or_default()
    }

    fn add(&mut self, time_s: f64, value: f64) {
        if value.is_finite() {
            let (total, count) = self.sums.entry(instant(time_s)).or_default();
            (*total, *count) = (*total + value, *count + 1.0);
        }
    }
}

/// Whether these are quantities of links. They are all of one table.
fn of_links(quantities: &[Quantity]) -> bool {
    quantities.first().is_some_and(|quantity| quantity.link)
}

/// The table of quantities of links, or of flows.
fn table(link: bool) -> &'static str {
    if link { LinkSample::TABLE } else { FlowSample::TABLE }
}

/// Takes several quantities out of one run, each for several names, while their table is read once.
struct Reading<'a> {
    quantities: &'a [Quantity],
    /// How many names there are.
    names: usize,
    /// Whose rows are read, as [`members`] has it.
    members: BTreeSet<(u32, usize)>,
    /// By quantity, then by name.
    samples: Vec<Samples>,
    /// Which of them are zero at an instant at which the run was sampled and none of their flows has a row: sums over flows of programs, which
    /// have no row while they are idle. Those of simulated hosts always have one.
    idle: Vec<usize>,
}

impl<'a> Reading<'a> {
    /// Before the first row. The quantities are of one table.
    fn new(summary: &Summary, quantities: &'a [Quantity], names: &[Option<&str>]) -> Reading<'a> {
        let link = of_links(quantities);
        let members = members(summary, link, names);
        let known: BTreeSet<usize> = members.iter().map(|(_, place)| *place).collect();
        let has_programs = summary.live.is_some() || summary.guests.is_some();
        let skipped = Stretch::skipped(&summary.stretches);
        let (mut samples, mut idle) = (Vec::new(), Vec::new());
        for quantity in quantities {
            let sum = quantity.column.fold == Some(Fold::Sum);
            for place in 0..names.len() {
                if has_programs && !link && sum && known.contains(&place) {
                    idle.push(samples.len());
                }
                samples.push(Samples { sums: BTreeMap::new(), sum, skipped: skipped.clone() });
            }
        }
        Reading { quantities, names: names.len(), members, samples, idle }
    }

    fn table(&self) -> &'static str {
        table(of_links(self.quantities))
    }

    /// The column that says whose a row is.
    fn id(&self) -> &'static str {
        if of_links(self.quantities) { "link" } else { "flow" }
    }

    /// The columns that are needed.
    fn columns(&self) -> Vec<&'static str> {
        let quantities = self.quantities.iter().map(|quantity| quantity.column.name);
        ["time_s", self.id()].into_iter().chain(quantities).collect()
    }

    /// Takes what is needed of a part of the table.
    fn add(&mut self, batch: &Batch) {
        let (times, ids) = (batch.numbers("time_s"), batch.numbers(self.id()));
        let cells = self.quantities.iter().map(|quantity| batch.numbers(quantity.column.name));
        let columns: Vec<Vec<f64>> = cells.collect();
        for (row, (time_s, id)) in times.into_iter().zip(ids).enumerate() {
            let id = id as u32;
            for &(_, place) in self.members.range((id, 0)..=(id, usize::MAX)) {
                for (samples, column) in self.samples.chunks_mut(self.names).zip(&columns) {
                    samples[place].add(time_s, column[row]);
                }
            }
        }
    }

    /// Counts zero at the instants of these samples of links at which no flow has a row.
    fn add_idle(&mut self, links: &Batch) {
        for time_s in links.numbers("time_s") {
            for &place in &self.idle {
                self.samples[place].sums.entry(instant(time_s)).or_default();
            }
        }
    }

    /// The samples of a run in its directory, by quantity, then by name.
    fn of(run: &Run, quantities: &[Quantity], names: &[Option<&str>]) -> Result<Vec<Samples>, ReportError> {
        let mut reading = Reading::new(run.summary(), quantities, names);
        scan(run.path(), reading.table(), &reading.columns(), |batch| reading.add(batch))?;
        if !reading.idle.is_empty() {
            scan(run.path(), LinkSample::TABLE, &["time_s"], |batch| reading.add_idle(batch))?;
        }
        Ok(reading.samples)
    }
}

/// The values of a quantity across runs: at each sample time, one of each run that has one.
#[derive(Clone, Default)]
struct Spread {
    values: BTreeMap<u64, Vec<f64>>,
    /// The stretches of time that all of the runs skipped; none before the first run.
    skipped: Option<Vec<[f64; 2]>>,
}

impl Spread {
    /// Adds those of a run.
    fn add(&mut self, Samples { sums, sum, skipped }: Samples) {
        // A run without a value draws nothing, so it fills no gap.
        if sums.is_empty() {
            return;
        }
        self.skipped = Some(match self.skipped.take() {
            Some(others) => common(&others, &skipped),
            None => skipped,
        });
        for (time, (total, count)) in sums {
            self.values.entry(time).or_default().push(if sum { total } else { total / count });
        }
    }

    /// Mean and interval.
    fn band(self) -> Band {
        let mut band = Band { skipped: self.skipped.unwrap_or_default(), ..Band::default() };
        for (time, samples) in self.values {
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
}

impl Band {
    /// Mean and interval across runs.
    pub fn of(runs: impl IntoIterator<Item = Samples>) -> Band {
        let mut spread = Spread::default();
        runs.into_iter().for_each(|samples| spread.add(samples));
        spread.band()
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
    Ok(read_bands(set, &[quantity], &[of])?.pop().unwrap_or_default())
}

/// Quantities of one table, each of all these groups, flows or links, as [`band`] reads one: by quantity, then by name. The table of each run is read
/// once, unless that takes too much memory.
pub(super) fn bands(
    set: &RunSet,
    quantities: &[Quantity],
    names: &[Option<&str>],
) -> Result<Vec<Band>, ReportError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let link = of_links(quantities);
    // A flow or link has about one row for each instant. What a damaged file says of its rows may be anything.
    let mut instants = 0_u64;
    for run in set.runs() {
        let summary = run.summary();
        let members = if link { summary.links.len() } else { summary.flows.len() };
        instants = instants.saturating_add(rows_of(run.path(), table(link))? / members.max(1) as u64);
    }
    let mut bands = Vec::new();
    for part in quantities.chunks(at_once(instants.saturating_mul(names.len() as u64))) {
        bands.extend(read_bands(set, part, names)?);
    }
    Ok(bands)
}

/// Values of all runs that reading may hold in memory.
const MAX_VALUES: u64 = 24_000_000;

/// How many quantities to read at once, if each has about `values` values in all runs together: at least one.
fn at_once(values: u64) -> usize {
    usize::try_from(MAX_VALUES / values.max(1)).unwrap_or(usize::MAX).max(1)
}

/// Reads the table of each complete run once.
fn read_bands(
    set: &RunSet,
    quantities: &[Quantity],
    names: &[Option<&str>],
) -> Result<Vec<Band>, ReportError> {
    let mut spreads = vec![Spread::default(); quantities.len() * names.len()];
    for run in set.runs().iter().filter(|run| run.summary().info.complete || set.runs().len() == 1) {
        let read = Reading::of(run, quantities, names)?;
        spreads.iter_mut().zip(read).for_each(|(spread, samples)| spread.add(samples));
    }
    Ok(spreads.into_iter().map(Spread::band).collect())
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
    fn one_reading_gives_each_quantity_of_each_name() {
        let flow = |flow: u32, group: &str| FlowRow {
            flow,
            name: format!("{group}.{flow}"),
            group: group.to_owned(),
            ..FlowRow::default()
        };
        let flows = vec![flow(0, "a"), flow(1, "a"), flow(2, "b")];
        let summary = Summary { flows, ..Summary::default() };
        let sample = |time_s: f64, flow: u32, goodput_bps: f64, cwnd_bytes: u64| FlowSample {
            cwnd_bytes: Some(cwnd_bytes),
            ..FlowSample::new(time_s, flow, goodput_bps, 0.0)
        };
        let first = [sample(1.0, 0, 1.0, 10), sample(1.0, 1, 2.0, 30), sample(1.0, 2, 4.0, 80)];
        // Flow 7 is in no summary.
        let second = [sample(2.0, 2, 8.0, 40), sample(2.0, 7, 100.0, 100), sample(2.0, 0, 16.0, 20)];
        let quantities = ["goodput", "cwnd", "rtt"].map(|word| Quantity::named(word).unwrap());
        let mut reading =
            Reading::new(&summary, &quantities, &[None, Some("a"), Some("b"), Some("a.0"), Some("none")]);
        for rows in [first, second] {
            reading.add(&convert(&FlowSample::batch(&rows).unwrap()));
        }
        let means: Vec<Vec<f64>> =
            reading.samples.into_iter().map(|samples| Band::of([samples]).mean).collect();
        let goodput = [vec![7.0, 24.0], vec![3.0, 16.0], vec![4.0, 8.0], vec![1.0, 16.0], vec![]];
        let window = [vec![40.0, 30.0], vec![20.0, 20.0], vec![80.0, 40.0], vec![10.0, 20.0], vec![]];
        assert_eq!(means, [goodput, window, Default::default()].concat());
    }

    #[test]
    fn as_many_quantities_are_read_at_once_as_fit_into_memory() {
        assert_eq!([MAX_VALUES / 3, MAX_VALUES, MAX_VALUES + 1].map(at_once), [3, 1, 1]);
        assert!(at_once(0) > Quantity::all().len());
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
