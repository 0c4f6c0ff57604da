//! Completion times and slowdowns of transfers, by their sizes: what the summary says of short and long ones.

use std::collections::BTreeMap;

use crate::column::{Row, table};
use crate::metrics::mean;
use crate::rows::TransferRow;
use crate::summary::Summary;

/// The ranges of sizes, each with the bytes above which it ends: decades, as papers on data centres have them.
const RANGES: [(&str, u64); 5] = [
    ("0-10 kB", 10_000),
    ("10-100 kB", 100_000),
    ("100 kB-1 MB", 1_000_000),
    ("1-10 MB", 10_000_000),
    ("over 10 MB", u64::MAX),
];

table! {
    /// The transfers of one scenario entry that have sizes of one range, without those that began during the warm-up.
    pub struct SizeSummary: "sizes" #[serde(default)] from (group: &str, range: &str, transfers: &[&TransferRow]) {
        /// Name of the group of flows that carried them.
        group: String ["" terminal(1, "group")] = group.to_owned(),
        /// The range of sizes; its upper end belongs to it.
        sizes: String ["" terminal(2, "transfers of")] = range.to_owned(),
        /// Transfers begun.
        transfers: u64 ["" terminal(3, "begun")] = transfers.len() as u64,
        /// Those of them that completed. What follows is of these.
        completed: u64 ["" terminal(4, "done")] = transfers.iter().filter(|transfer| transfer.complete).count() as u64,
        /// Mean completion time.
        completion_mean_ms: Option<f64> ["ms" compared terminal(5, "mean")] = mean(times(transfers)),
        /// Median completion time.
        completion_p50_ms: Option<f64> ["ms" terminal(6, "p50")] = quantile(times(transfers), 0.5),
        /// 99th percentile of the completion times.
        completion_p99_ms: Option<f64> ["ms" compared terminal(7, "p99")] = quantile(times(transfers), 0.99),
        /// Mean slowdown: completion time as a multiple of the ideal one (`ideal_s` of transfers).
        slowdown_mean: Option<f64> ["index" compared terminal(8, "slowdown")] = mean(slowdowns(transfers)),
        /// Median slowdown.
        slowdown_p50: Option<f64> ["index" terminal(9, "p50")] = quantile(slowdowns(transfers), 0.5),
        /// 99th percentile of the slowdowns.
        slowdown_p99: Option<f64> ["index" compared terminal(10, "p99")] = quantile(slowdowns(transfers), 0.99),
    }
}

/// Completion times in milliseconds.
fn times<'a>(transfers: &'a [&TransferRow]) -> impl Iterator<Item = f64> + 'a {
    transfers.iter().filter_map(|transfer| Some(transfer.completion_s? * 1000.0))
}

fn slowdowns<'a>(transfers: &'a [&TransferRow]) -> impl Iterator<Item = f64> + 'a {
    transfers.iter().filter_map(|transfer| transfer.slowdown)
}

/// The smallest value that a share of `part` of all is not above (nearest rank); none of nothing.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let rank = ((values.len() as f64 * part).ceil() as usize).saturating_sub(1);
    (rank < values.len()).then(|| *values.select_nth_unstable_by(rank, f64::total_cmp).1)
}

impl Summary {
    /// Adds what is to be said of the transfers by their sizes; groups are in the order of the summary's.
    pub fn add_transfers(&mut self, transfers: &[TransferRow]) {
        let places: BTreeMap<&str, usize> =
            self.groups.iter().enumerate().map(|(place, group)| (group.group.as_str(), place)).collect();
        let of_flow: BTreeMap<u32, usize> = self
            .flows
            .iter()
            .filter_map(|flow| Some((flow.flow, *places.get(flow.group.as_str())?)))
            .collect();
        let mut members: BTreeMap<(usize, usize), Vec<&TransferRow>> = BTreeMap::new();
        for transfer in transfers.iter().filter(|transfer| transfer.start_s >= self.info.warmup_s) {
            let range = RANGES.iter().position(|(_, most)| transfer.bytes <= *most);
            if let (Some(&group), Some(range)) = (of_flow.get(&transfer.flow), range) {
                members.entry((group, range)).or_default().push(transfer);
            }
        }
        self.sizes = members
            .into_iter()
            .map(|((group, range), transfers)| {
                let mut row = SizeSummary::new(&self.groups[group].group, RANGES[range].0, &transfers);
                row.make_finite();
                row
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn ranges_have_means_and_percentiles_of_their_own() {
        let mut summary = example::summary(2, 1);
        let flow = summary.flows[0].flow;
        let transfer = |bytes, start_s: f64, completion_s: Option<f64>| TransferRow {
            flow,
            bytes,
            start_s,
            completion_s,
            complete: completion_s.is_some(),
            slowdown: completion_s.map(|seconds| seconds * 10.0),
            ..TransferRow::default()
        };
        let late = summary.info.warmup_s + 1.0;
        let mut all: Vec<TransferRow> =
            (1..=100).map(|i| transfer(10_000, late, Some(f64::from(i)))).collect();
        all.extend([transfer(10_001, late, None), transfer(1, summary.info.warmup_s - 1.0, Some(1000.0))]);
        summary.add_transfers(&all);
        let [short, long] = summary.sizes.as_slice() else { panic!("{:?}", summary.sizes) };
        assert_eq!((short.sizes.as_str(), short.transfers, short.completed), ("0-10 kB", 100, 100));
        assert_eq!((short.completion_mean_ms, short.completion_p50_ms), (Some(50_500.0), Some(50_000.0)));
        assert_eq!((short.completion_p99_ms, short.slowdown_p99), (Some(99_000.0), Some(990.0)));
        assert_eq!((long.sizes.as_str(), long.transfers, long.completed), ("10-100 kB", 1, 0));
        assert_eq!((long.completion_mean_ms, long.slowdown_p50), (None, None));
    }
}
