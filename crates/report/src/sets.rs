//! What a page shows of sets of seeds: measures with mean and interval, and quantities over time with bands.

use std::path::{Path, PathBuf};

use warpline_results::{Replications, RunSet, Summary, spoken_seeds};

use super::ReportError;
use super::bands::{Band, bands};
use super::column::Column;
use super::data::{BandData, SetData};
use super::decimate::{grid_bins, thin_column, thin_times};
use super::names::distinct_names;
use super::quantity::Quantity;

/// Samples of a band on the page, at the most.
const MAX_SAMPLES: usize = 1500;
/// Groups, and links, that have bands of their own; the largest come first.
const MAX_NAMES: usize = 8;

/// Reads what is known across the runs of each directory.
pub(super) fn read(parts: &[(&Path, Vec<PathBuf>)]) -> Result<Vec<SetData>, ReportError> {
    let sets = parts.iter().map(|(directory, _)| RunSet::open(directory)).collect::<Result<Vec<_>, _>>()?;
    let (groups, links) = names(&sets);
    let mut all = Vec::new();
    for set in &sets {
        let summaries: Vec<Summary> = set.summaries().into_iter().cloned().collect();
        let Replications { scenario, seeds, incomplete, measures, .. } = Replications::of(&summaries);
        let complete: Vec<u64> = seeds.into_iter().filter(|seed| !incomplete.contains(seed)).collect();
        let mut data = SetData {
            label: scenario,
            seeds: spoken_seeds(&complete),
            count: complete.len(),
            incomplete: spoken_seeds(&incomplete),
            measures,
            bands: Vec::new(),
        };
        for link in [false, true] {
            let quantities: Vec<Quantity> =
                Quantity::all().into_iter().filter(|quantity| quantity.of_link() == link).collect();
            let own: Vec<Option<&str>> = match (link, groups.len()) {
                (true, _) => links.iter().map(|link| Some(link.as_str())).collect(),
                // The only group is all flows.
                (false, 0 | 1) => vec![None],
                (false, _) => {
                    std::iter::once(None).chain(groups.iter().map(|name| Some(name.as_str()))).collect()
                }
            };
            let whose = quantities.iter().flat_map(|quantity| own.iter().map(move |of| (*quantity, *of)));
            for ((quantity, of), band) in whose.zip(bands(set, &quantities, &own)?) {
                data.bands.extend(shown(quantity, of, band));
            }
        }
        all.push(data);
    }
    let labels: Vec<String> = all.iter().map(|set| set.label.clone()).collect();
    let directories: Vec<&Path> = parts.iter().map(|(directory, _)| *directory).collect();
    for (set, name) in all.iter_mut().zip(distinct_names(&directories)) {
        if labels.iter().filter(|label| **label == set.label).count() > 1 {
            set.label = name;
        }
    }
    Ok(all)
}

/// The groups that delivered most, and the links where packets waited longest, over all sets.
fn names(sets: &[RunSet]) -> (Vec<String>, Vec<String>) {
    let mut groups: Vec<(String, f64)> = Vec::new();
    let mut links: Vec<(String, f64)> = Vec::new();
    let add = |list: &mut Vec<(String, f64)>, name: &str, weight: f64| match list
        .iter_mut()
        .find(|(known, _)| known == name)
    {
        Some((_, sum)) => *sum += weight,
        None => list.push((name.to_owned(), weight)),
    };
    for summary in sets.iter().flat_map(RunSet::summaries) {
        // Of very many, some are enough to choose from.
        for group in summary.groups.iter().take(1000) {
            add(&mut groups, &group.group, group.goodput_bps);
        }
        for link in summary.links.iter().take(1000) {
            add(&mut links, &link.name, link.queue_delay_mean_ms + link.throughput_bps * 1e-15);
        }
    }
    let first = |mut list: Vec<(String, f64)>| {
        list.sort_by(|x, y| y.1.total_cmp(&x.1));
        list.truncate(MAX_NAMES);
        list.into_iter().map(|(name, _)| name).collect()
    };
    (first(groups), first(links))
}

/// A band as the page shows it; none where no run has a value.
fn shown(quantity: Quantity, of: Option<&str>, mut values: Band) -> Option<BandData> {
    if values.time_s.is_empty() {
        return None;
    }
    if let Some(bins) = grid_bins(values.time_s.len(), MAX_SAMPLES) {
        values.time_s = thin_times(&values.time_s, &bins);
        for column in [&mut values.mean, &mut values.low, &mut values.high] {
            *column = thin_column(column, &bins).mean;
        }
    }
    let or_mean = |ends: Vec<f64>| {
        let both = ends.iter().zip(&values.mean);
        Column::single(both.map(|(end, mean)| if end.is_nan() { *mean } else { *end }).collect())
    };
    let (low, high) = (or_mean(values.low.clone()), or_mean(values.high.clone()));
    Some(BandData {
        quantity,
        of: of.unwrap_or_default().to_owned(),
        time: Column::nanoseconds(values.time_s.iter().map(|time| (time * 1e9).round()).collect()),
        mean: Column::single(values.mean),
        low,
        high,
        skipped: values.skipped,
    })
}
