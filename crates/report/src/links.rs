//! Recorded links, packet by packet: backlog, queueing delay, and ticks for drops and marks.

use std::collections::BTreeMap;
use std::path::Path;

use super::ReportError;
use super::column::Column;
use super::data::{Columns, LinkEvents};
use super::decimate::{Envelope, Marks, quantiles};
use super::tables::scan;

/// Points of a distribution's line.
pub(super) const QUANTILES: usize = 500;

/// The recorded links.
pub(super) struct Recorded {
    pub(super) links: Vec<LinkEvents>,
    /// Queueing delays in milliseconds after the warm-up: link name, samples, columns.
    pub(super) delays: Vec<(String, usize, Columns)>,
    /// Whether events were thinned.
    pub(super) thinned: bool,
}

/// What is kept of one link while reading.
struct Collector {
    backlog: Envelope<2>,
    delay: Envelope<1>,
    ticks: BTreeMap<String, Marks>,
    delays: Vec<f64>,
}

/// Reads `packets.parquet`; none when no link was recorded. `span_s` is the run's length, `warmup_s` what distributions leave out of it,
/// `budget` the points that one kind of data may have on the page.
pub(super) fn read(
    dir: &Path,
    name: impl Fn(u32) -> String,
    span_s: f64,
    warmup_s: f64,
    budget: usize,
) -> Result<Option<Recorded>, ReportError> {
    let (span, warmup) = (span_s * 1e9, warmup_s * 1e9);
    let mut seen = std::collections::BTreeSet::new();
    scan(dir, "packets", &["link"], |batch| seen.extend(batch.numbers("link").iter().map(|&l| l as u32)))?;
    if seen.is_empty() {
        return Ok(None);
    }
    let share = budget / seen.len();
    let mut collectors: BTreeMap<u32, Collector> = BTreeMap::new();
    let wanted = ["time_ns", "link", "event", "reason", "queued_ns", "backlog_packets", "backlog_bytes"];
    scan(dir, "packets", &wanted, |batch| {
        let [time, link, queued, packets, bytes] =
            ["time_ns", "link", "queued_ns", "backlog_packets", "backlog_bytes"]
                .map(|name| batch.numbers(name));
        let (events, reasons) = (batch.words("event"), batch.words("reason"));
        for row in 0..batch.rows() {
            let collector = collectors.entry(link[row] as u32).or_insert_with(|| Collector {
                backlog: Envelope::new(span, share / 3),
                delay: Envelope::new(span, share / 2),
                ticks: BTreeMap::new(),
                delays: Vec::new(),
            });
            let event = events[row].unwrap_or_default();
            match event {
                "drop" | "mark" => {
                    let tick = match reasons[row] {
                        Some(reason) => format!("{event}: {reason}"),
                        None => event.to_owned(),
                    };
                    collector
                        .ticks
                        .entry(tick)
                        .or_insert_with(|| Marks::new(span, share / 4))
                        .push(time[row], 0.0, 0.0);
                }
                "transmit" if queued[row].is_finite() => {
                    collector.delay.push(time[row], [queued[row]]);
                    if time[row] >= warmup {
                        collector.delays.push(queued[row] / 1e6);
                    }
                }
                _ => {}
            }
            if event != "deliver" {
                collector.backlog.push(time[row], [packets[row], bytes[row]]);
            }
        }
    })?;
    let mut recorded = Recorded { links: Vec::new(), delays: Vec::new(), thinned: false };
    for (link, collector) in collectors {
        recorded.thinned |= collector.backlog.is_thinned()
            || collector.delay.is_thinned()
            || collector.ticks.values().any(Marks::is_thinned);
        let samples = collector.delays.len();
        if samples > 0 {
            recorded.delays.push((name(link), samples, distribution(collector.delays)));
        }
        let (time, [packets, bytes]) = collector.backlog.finish();
        let backlog = vec![
            ("time", Column::nanoseconds(time)),
            ("packets", Column::single(packets)),
            ("bytes", Column::single(bytes)),
        ];
        let (time, [delay]) = collector.delay.finish();
        let delay = vec![("time", Column::nanoseconds(time)), ("delay", Column::milliseconds(delay))];
        let ticks = collector
            .ticks
            .into_iter()
            .map(|(name, marks)| {
                let marks = marks.finish();
                let columns = vec![
                    ("time", Column::nanoseconds(marks.iter().map(|m| m.start).collect())),
                    ("count", Column::double(marks.iter().map(|m| m.count).collect())),
                ];
                (name, columns)
            })
            .collect();
        recorded.links.push(LinkEvents { link, name: name(link), backlog, delay, ticks });
    }
    Ok(Some(recorded))
}

/// The columns of a distribution's line.
pub(super) fn distribution(values: Vec<f64>) -> Columns {
    let (value, fraction) = quantiles(values, QUANTILES);
    vec![("value", Column::single(value)), ("fraction", Column::single(fraction))]
}
