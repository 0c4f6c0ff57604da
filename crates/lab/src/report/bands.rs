//! A quantity over time across the runs of several seeds: mean, and the 95 % confidence interval of the mean at each sample.

use std::collections::{BTreeMap, BTreeSet};

use super::ReportError;
use super::tables::scan;
use crate::results::metrics::Estimate;
use crate::results::{FlowSample, LinkSample, Row as _, Run, RunSet, Summary};

/// What can be drawn over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Unique application bits delivered per second: the sum over the flows.
    Goodput,
    /// Wire bits sent per second: the sum over the flows.
    Throughput,
    /// Congestion window: the mean of the flows.
    Cwnd,
    /// Smoothed round-trip time: the mean of the flows.
    Rtt,
    /// Packets that wait in front of a link.
    Queue,
    /// Time that packets waited in front of a link.
    Delay,
    /// Bits per second that a link carried.
    Load,
}

/// What is known of a quantity.
struct Nature {
    /// Its word on the command line.
    name: &'static str,
    /// On the axis of a figure.
    label: &'static str,
    /// The column of the series that has it.
    column: &'static str,
    /// "bps", "bytes", "ms", "packets": as the page and the figures scale it.
    kind: &'static str,
    /// Whether it is that of links; else of flows.
    link: bool,
    /// Whether flows add up; else their mean counts.
    sum: bool,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Quantity; 7] = [
        Quantity::Goodput,
        Quantity::Throughput,
        Quantity::Cwnd,
        Quantity::Rtt,
        Quantity::Queue,
        Quantity::Delay,
        Quantity::Load,
    ];

    fn nature(self) -> Nature {
        let flow = |name, label, column, kind, sum| Nature { name, label, column, kind, link: false, sum };
        let link = |name, label, column, kind| Nature { name, label, column, kind, link: true, sum: true };
        match self {
            Quantity::Goodput => flow("goodput", "Goodput", "goodput_bps", "bps", true),
            Quantity::Throughput => flow("throughput", "Throughput", "throughput_bps", "bps", true),
            Quantity::Cwnd => flow("cwnd", "Congestion window", "cwnd_bytes", "bytes", false),
            Quantity::Rtt => flow("rtt", "Round-trip time", "srtt_ms", "ms", false),
            Quantity::Queue => link("queue", "Queue", "backlog_packets", "packets"),
            Quantity::Delay => link("delay", "Queueing delay", "queue_delay_ms", "ms"),
            Quantity::Load => link("load", "Link throughput", "throughput_bps", "bps"),
        }
    }

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        self.nature().name
    }
    /// What an axis is called.
    pub fn label(self) -> &'static str {
        self.nature().label
    }
    pub(super) fn kind(self) -> &'static str {
        self.nature().kind
    }
    /// Whether it is that of a link, not of flows.
    pub fn of_link(self) -> bool {
        self.nature().link
    }
}

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
    let named = |flow: &&crate::results::FlowRow| of.is_none_or(|of| flow.name == of || flow.group == of);
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
    let Nature { column, sum, link, .. } = quantity.nature();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicate::replicate;
    use crate::run::RunOptions;
    use crate::scenario::Scenario;
    use warpline_net::Control;

    #[test]
    fn a_band_is_the_mean_of_the_seeds_and_its_interval() {
        let text = r#"
            duration = "2s"
            sample_interval = "500ms"
            link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms", loss = { kind = "bernoulli", probability = 0.02 } }]
            flow = [{ name = "bulk", from = "a", to = "b", count = 2 }, { name = "one", from = "a", to = "b" }]
        "#;
        let scenario = Scenario::from_toml("s", text, &[]).unwrap();
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("set");
        let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
        replicate(&scenario, &[1, 2, 3], 2, &options, &|_, _| Control::Continue).unwrap();
        let set = RunSet::open(&out).unwrap();
        let all = band(&set, Quantity::Goodput, None).unwrap();
        assert_eq!(all.time_s, [0.5, 1.0, 1.5, 2.0]);
        let samples: Vec<f64> = set
            .runs()
            .iter()
            .map(|run| {
                let rows = run.rows::<FlowSample>().unwrap();
                rows.iter().filter(|row| row.time_s == 1.0).map(|row| row.goodput_bps).sum()
            })
            .collect();
        let estimate = Estimate::of(&samples).unwrap();
        assert!((all.mean[1] - estimate.mean).abs() < 1e-6 * estimate.mean);
        assert!((all.high[1] - all.mean[1] - estimate.ci95.unwrap()).abs() < 1e-6 * estimate.mean);
        let parts = [Some("bulk"), Some("one")].map(|of| band(&set, Quantity::Goodput, of).unwrap().mean[1]);
        assert!((parts[0] + parts[1] - all.mean[1]).abs() < 1e-6 * estimate.mean, "groups add up");
        let both = ["bulk.0", "bulk.1"].map(|of| band(&set, Quantity::Cwnd, Some(of)).unwrap().mean[1]);
        let mean = band(&set, Quantity::Cwnd, Some("bulk")).unwrap().mean[1];
        assert!((both[0] + both[1] - 2.0 * mean).abs() < 1e-6 * mean, "windows have a mean");
        assert_eq!(busiest_link(&set).as_deref(), Some("a>b"));
        assert_eq!(band(&set, Quantity::Queue, Some("a>b")).unwrap().time_s.len(), 4);
        assert_eq!(band(&set, Quantity::Goodput, Some("none")).unwrap(), Band::default());
        let one = RunSet::open(&out.join("seed-2")).unwrap();
        assert!(band(&one, Quantity::Rtt, None).unwrap().low.iter().all(|low| low.is_nan()));
    }
}
