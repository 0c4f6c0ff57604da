//! Sampled series of flows and links, put on one time grid and thinned to the page's budget.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use super::ReportError;
use super::column::Column;
use super::data::{Columns, Curves, FlowSeries, LinkSeries, Member};
use super::decimate::{Marks, grid_bins, thin_column, thin_times};
use super::tables::scan;
use warpline_results::{ColumnInfo, FlowSample, Fold, LinkSample, Row};

/// Flows or links that a page shows one by one at most.
const MAX_MEMBERS: usize = 40;
/// Cells that reading may hold in memory.
const MAX_CELLS: usize = 48_000_000;

/// The columns of a series, by how they are drawn.
struct Drawn {
    /// Those that are lines; the first `summed` of them also as sums over everybody.
    lines: Vec<&'static str>,
    summed: usize,
    /// Those that are ticks.
    ticks: Vec<&'static str>,
}

impl Drawn {
    /// As the columns are declared.
    fn of<R: Row>() -> Drawn {
        let measured = R::COLUMNS.iter().map(|column| &column.info).filter(|column| !column.key);
        let (ticks, lines): (Vec<&ColumnInfo>, Vec<&ColumnInfo>) = measured.partition(|column| column.ticks);
        let (sums, others): (Vec<&ColumnInfo>, Vec<&ColumnInfo>) =
            lines.into_iter().partition(|column| column.fold == Some(Fold::Sum));
        Drawn {
            summed: sums.len(),
            lines: sums.into_iter().chain(others).map(|column| column.name).collect(),
            ticks: ticks.into_iter().map(|column| column.name).collect(),
        }
    }
}

/// A flow or link that may become a member: larger weights come first.
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) weight: f64,
    pub(super) rate_bps: Option<f64>,
}

/// Those flows or links that may become members, and how many there are in all.
#[derive(Default)]
pub(super) struct Candidates {
    /// In their order, no more of them than a page shows.
    first: Vec<Candidate>,
    total: usize,
}

impl Candidates {
    /// Looks at more of them.
    pub(super) fn add(&mut self, more: Vec<Candidate>) {
        self.total += more.len();
        self.first.extend(more);
        self.first.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id)));
        self.first.truncate(MAX_MEMBERS);
    }
}

/// A series, and whether it was thinned.
pub(super) struct Sampled<T> {
    pub(super) series: T,
    pub(super) thinned: bool,
    /// Members left out.
    pub(super) omitted: usize,
}

/// Reads `series_flows.parquet`; none when the run has none. `budget` counts numbers on the page. Flows of programs have no samples while they
/// are idle: of a run that `has_programs`, the samples of links tell when it was sampled.
pub(super) fn flows(
    dir: &Path,
    Candidates { first, total }: Candidates,
    budget: usize,
    has_programs: bool,
) -> Result<Option<Sampled<FlowSeries>>, ReportError> {
    let also = has_programs.then_some(LinkSample::TABLE);
    let drawn = Drawn::of::<FlowSample>();
    let Some(grid) = Grid::read(dir, FlowSample::TABLE, "flow", drawn, first, also)? else {
        return Ok(None);
    };
    let omitted = total.saturating_sub(grid.members.len());
    let bins = grid.bins(budget);
    let sums = |sums: &[Vec<f64>]| curves(&grid.names, sums, bins.as_deref());
    let others = (omitted > 0).then(|| (omitted, sums(&grid.others)));
    let all: Vec<Vec<f64>> = (0..grid.others.len())
        .map(|c| {
            (0..grid.times.len())
                .map(|i| {
                    let members: f64 =
                        grid.cells.iter().map(|cells| cells[c][i]).filter(|v| v.is_finite()).sum();
                    members + grid.others[c][i]
                })
                .collect()
        })
        .collect();
    let total = sums(&all);
    let (time, thinned) = (grid.time_column(bins.as_deref()), bins.is_some());
    let members = grid.into_members(bins.as_deref(), budget);
    Ok(Some(Sampled { series: FlowSeries { time, members, total, others }, thinned, omitted }))
}

/// Reads `series_links.parquet`; none when the run has none. `budget` counts numbers on the page.
pub(super) fn links(
    dir: &Path,
    Candidates { first, total }: Candidates,
    budget: usize,
) -> Result<Option<Sampled<LinkSeries>>, ReportError> {
    let drawn = Drawn::of::<LinkSample>();
    let Some(grid) = Grid::read(dir, LinkSample::TABLE, "link", drawn, first, None)? else {
        return Ok(None);
    };
    let omitted = total.saturating_sub(grid.members.len());
    let bins = grid.bins(budget);
    let (time, thinned) = (grid.time_column(bins.as_deref()), bins.is_some());
    let members = grid.into_members(bins.as_deref(), budget);
    Ok(Some(Sampled { series: LinkSeries { time, members }, thinned, omitted }))
}

/// The columns that are not blank, thinned where there are bins.
fn curves(names: &[&'static str], cells: &[Vec<f64>], bins: Option<&[Range<usize>]>) -> Curves {
    let mut curves = Curves::default();
    for (&name, values) in names.iter().zip(cells) {
        if values.iter().all(|v| v.is_nan()) {
            continue;
        }
        let Some(bins) = bins else {
            curves.values.push((name, Column::single(values.clone())));
            continue;
        };
        let thinned = thin_column(values, bins);
        curves.values.push((name, Column::single(thinned.mean)));
        curves.low.push((name, Column::single(thinned.low)));
        curves.high.push((name, Column::single(thinned.high)));
    }
    curves
}

/// All samples of the members, at full resolution.
struct Grid {
    /// Seconds, ascending.
    times: Vec<f64>,
    members: Vec<Candidate>,
    names: Vec<&'static str>,
    /// By member, column, time.
    cells: Vec<Vec<Vec<f64>>>,
    /// By member: counts in an interval that had any, as (name, time, count).
    counts: Vec<Vec<(&'static str, f64, f64)>>,
    /// Sums of the first columns over everybody who is not a member.
    others: Vec<Vec<f64>>,
}

impl Grid {
    /// Reads `table`, whose key is `time_s` and `id`. Sums are taken over the rows that do not become members. Samples of the table `also` count as
    /// instants at which this one could have had rows.
    fn read(
        dir: &Path,
        table: &str,
        id: &str,
        Drawn { lines: names, summed, ticks: counted }: Drawn,
        mut candidates: Vec<Candidate>,
        also: Option<&str>,
    ) -> Result<Option<Grid>, ReportError> {
        let mut instants = sampled_at(dir, table)?;
        if instants.is_empty() {
            return Ok(None);
        }
        if let Some(also) = also {
            let idle = far_from(&instants, &sampled_at(dir, also)?);
            instants.extend(idle);
        }
        let times: Vec<f64> = instants.iter().map(|&bits| f64::from_bits(bits)).collect();
        candidates.truncate((MAX_CELLS / (times.len() * names.len())).clamp(1, MAX_MEMBERS));
        let slots: BTreeMap<u32, usize> =
            candidates.iter().enumerate().map(|(slot, c)| (c.id, slot)).collect();

        let mut wanted = vec!["time_s", id];
        wanted.extend(&names);
        wanted.extend(&counted);
        let columns_of = names.clone();
        let mut grid = Grid {
            cells: vec![vec![vec![f64::NAN; times.len()]; names.len()]; candidates.len()],
            counts: vec![Vec::new(); candidates.len()],
            others: vec![vec![0.0; times.len()]; summed],
            members: candidates,
            names,
            times,
        };
        let mut at = 0;
        scan(dir, table, &wanted, |batch| {
            let (times, ids) = (batch.numbers("time_s"), batch.numbers(id));
            let columns: Vec<Vec<f64>> = columns_of.iter().map(|name| batch.numbers(name)).collect();
            let counts: Vec<Vec<f64>> = counted.iter().map(|name| batch.numbers(name)).collect();
            for row in 0..batch.rows() {
                // Rows mostly come in order of time, so the instant of the row before is tried first.
                if grid.times[at] != times[row] {
                    match grid.times.binary_search_by(|t| t.total_cmp(&times[row])) {
                        Ok(found) => at = found,
                        Err(_) => continue,
                    }
                }
                let Some(&slot) = slots.get(&(ids[row] as u32)) else {
                    for (sum, column) in grid.others.iter_mut().zip(&columns) {
                        sum[at] += if column[row].is_finite() { column[row] } else { 0.0 };
                    }
                    continue;
                };
                for (cells, column) in grid.cells[slot].iter_mut().zip(&columns) {
                    cells[at] = column[row];
                }
                for (name, column) in counted.iter().zip(&counts) {
                    if column[row] > 0.0 {
                        grid.counts[slot].push((name, times[row], column[row]));
                    }
                }
            }
        })?;
        Ok(Some(grid))
    }

    /// The bins that keep all members within `budget` numbers; none when all samples may stay.
    fn bins(&self, budget: usize) -> Option<Vec<Range<usize>>> {
        let columns: usize = self
            .cells
            .iter()
            // Mean, low and high of each.
            .map(|cells| 3 * cells.iter().filter(|c| c.iter().any(|v| v.is_finite())).count())
            .sum();
        grid_bins(self.times.len(), (budget / columns.max(1)).max(500))
    }

    fn time_column(&self, bins: Option<&[Range<usize>]>) -> Column {
        let times = bins.map_or_else(|| self.times.clone(), |bins| thin_times(&self.times, bins));
        // Sample times are whole nanoseconds; as such they pack better.
        Column::nanoseconds(times.into_iter().map(|t| (t * 1e9).round()).collect())
    }

    fn into_members(self, bins: Option<&[Range<usize>]>, budget: usize) -> Vec<Member> {
        let span = self.times.last().copied().unwrap_or(0.0);
        let share = (budget / 8 / self.members.len().max(1)).max(200);
        let names = &self.names;
        self.members
            .into_iter()
            .zip(self.cells)
            .zip(self.counts)
            .map(|((candidate, cells), counts)| Member {
                id: candidate.id,
                name: candidate.name,
                rate_bps: candidate.rate_bps,
                curves: curves(names, &cells, bins),
                events: events(&counts, span, share),
            })
            .collect()
    }
}

/// The instants of a table's samples, as the bit patterns of their seconds: these order numbers that are not negative as the numbers themselves.
fn sampled_at(dir: &Path, table: &str) -> Result<BTreeSet<u64>, ReportError> {
    let mut instants = BTreeSet::new();
    let mut before = u64::MAX;
    scan(dir, table, &["time_s"], |batch| {
        for time in batch.numbers("time_s").into_iter().filter(|t| *t >= 0.0) {
            if time.to_bits() != before {
                before = time.to_bits();
                instants.insert(before);
            }
        }
    })?;
    Ok(instants)
}

/// Those of `others` that are not near any of `instants`: farther from each than half of the usual time (the median) between two of `others`.
fn far_from(instants: &BTreeSet<u64>, others: &BTreeSet<u64>) -> Vec<u64> {
    let pairs = others.iter().zip(others.iter().skip(1));
    let mut steps: Vec<f64> = pairs.map(|(a, b)| f64::from_bits(*b) - f64::from_bits(*a)).collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(f64::INFINITY);
    let is_far = |other: &u64| {
        let sides = [instants.range(..=*other).next_back(), instants.range(*other..).next()];
        let distance = |near: &u64| (f64::from_bits(*near) - f64::from_bits(*other)).abs();
        sides.into_iter().flatten().all(|near| distance(near) > usual / 2.0)
    };
    others.iter().copied().filter(is_far).collect()
}

/// Counts by name; intervals are merged within time bins when there are more than `limit`, so that no loss vanishes.
fn events(counts: &[(&'static str, f64, f64)], span: f64, limit: usize) -> Vec<(&'static str, Columns)> {
    let mut by_name: BTreeMap<&'static str, Vec<(f64, f64)>> = BTreeMap::new();
    for &(name, time, count) in counts {
        by_name.entry(name).or_default().push((time, count));
    }
    by_name
        .into_iter()
        .map(|(name, mut rows)| {
            if rows.len() > limit {
                let mut marks = Marks::new(span, limit);
                rows.iter().for_each(|&(time, _)| marks.push(time, 0.0, 0.0));
                let mut rest = rows.into_iter();
                rows = marks
                    .finish()
                    .iter()
                    .map(|m| (m.start, rest.by_ref().take(m.count as usize).map(|(_, count)| count).sum()))
                    .collect();
            }
            let columns = vec![
                ("time", Column::nanoseconds(rows.iter().map(|r| (r.0 * 1e9).round()).collect())),
                ("count", Column::double(rows.iter().map(|r| r.1).collect())),
            ];
            (name, columns)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_another_table_count_where_there_is_none_nearby() {
        let set = |times: &[f64]| times.iter().map(|time| time.to_bits()).collect::<BTreeSet<u64>>();
        let far = |own: &[f64], others: &[f64]| -> Vec<f64> {
            far_from(&set(own), &set(others)).into_iter().map(f64::from_bits).collect()
        };
        // Clocks of several hosts are not the same to the last digit.
        assert_eq!(far(&[1.0001, 4.0, 4.9999], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), [2.0, 3.0, 6.0]);
        assert_eq!(far(&[], &[1.0, 2.0]), [1.0, 2.0]);
        // Nor is each step of the same length.
        assert!(far(&[1.001, 2.001, 3.001, 4.001], &[1.0, 2.0, 3.0, 4.0, 4.0001]).is_empty());
        assert!(far(&[1.0], &[]).is_empty());
    }

    #[test]
    fn the_largest_are_found_in_whatever_parts_they_come() {
        // Each weight from 0 to 49 is there twice.
        let candidate = |id: u32| {
            let weight = f64::from(id * 7 % 50);
            Candidate { id, name: String::new(), weight, rate_bps: None }
        };
        let ids: Vec<u32> = (0..100).rev().collect();
        let found = |part: usize| -> (Vec<u32>, usize) {
            let mut candidates = Candidates::default();
            ids.chunks(part).for_each(|ids| candidates.add(ids.iter().copied().map(candidate).collect()));
            (candidates.first.iter().map(|candidate| candidate.id).collect(), candidates.total)
        };
        let (first, total) = found(ids.len());
        assert_eq!((first.len(), total), (MAX_MEMBERS, 100));
        // Those with 49, those with 48, and of the same weight the lower number first.
        assert_eq!(first[..4], [7, 57, 14, 64]);
        assert_eq!(found(3), (first, total));
    }

    #[test]
    fn merged_counts_lose_nothing() {
        let counts: Vec<_> = (0..5000).map(|i| ("drops", f64::from(i) * 0.1, f64::from(i % 3 + 1))).collect();
        let all = events(&counts, 500.0, 100);
        let (name, columns) = &all[0];
        assert_eq!(*name, "drops");
        assert!(columns[0].1.values.len() <= 100);
        let sum: f64 = columns[1].1.values.iter().sum();
        assert_eq!(sum, counts.iter().map(|c| c.2).sum::<f64>());
    }
}
