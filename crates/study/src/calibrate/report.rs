//! The calibration as a page: the tables, and the keep-pace curve as a plot. It looks like the reports of runs.

use std::path::Path;

use serde_json::{Map, Value, json};
use warpline_live::calibrate::Capacity;
use warpline_live::calibrate::statistics::Repeated;
use warpline_report::{Column, Note, NoteLevel, ReportData, ReportError, RunData, Shares, Table, write_page};

use super::Calibration;
use super::dilation::epsilon;
use super::keep_pace::Point;
use super::reference::{SEED_LINKS, SEED_ROUND_TRIPS, seed_delay};
use super::tables::adjusted_percent;

/// Writes the page, completely or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn write(calibration: &Calibration, out: &Path) -> Result<(), ReportError> {
    write_page(&data(calibration), out)
}

/// A table from rows of cells.
fn table<const N: usize>(id: &str, columns: [&str; N], rows: impl IntoIterator<Item = [Value; N]>) -> Table {
    let mut cells = vec![Vec::new(); N];
    for row in rows {
        for (column, cell) in cells.iter_mut().zip(row) {
            column.push(cell);
        }
    }
    let total_rows = cells.first().map_or(0, Vec::len);
    Table { id: id.to_owned(), columns: columns.map(str::to_owned).to_vec(), cells, total_rows }
}

/// A number, or nothing.
fn number(value: impl Into<Option<f64>>) -> Value {
    value.into().filter(|value| value.is_finite()).map_or(Value::Null, Value::from)
}

fn data(calibration: &Calibration) -> ReportData {
    let accuracy = &calibration.accuracy;
    let delay = table(
        "delay",
        [
            "set_ms",
            "packet_bytes",
            "rtt_ms",
            "over_set_ms",
            "stddev_ms",
            "seen_by_program_ms",
            "adjusted_error_percent",
            "seed_rtt_ms",
            "seed_stddev_ms",
            "seed_adjusted_error_percent",
            "kept_pace",
        ],
        accuracy.delay.iter().map(|row| {
            let seed = seed_delay(row.delay_ms, row.bytes);
            [
                number(row.delay_ms),
                row.bytes.into(),
                number(row.rtt_ms.median),
                number(row.rtt_ms.median - 2.0 * row.delay_ms),
                number(row.rtt_ms.stddev),
                number(row.seen_ms),
                number(adjusted_percent(accuracy, row)),
                number(seed.map(|seed| seed.rtt_ms)),
                number(seed.map(|seed| seed.stddev_ms)),
                number(seed.and_then(|seed| seed.adjusted_percent)),
                row.kept_pace.into(),
            ]
        }),
    );
    let bandwidth = table(
        "bandwidth",
        [
            "set_bps",
            "packet_bytes",
            "seen_bps",
            "error_ppm",
            "queue_packets",
            "full_queue_ms",
            "under_way_ms",
            "kept_pace",
        ],
        accuracy.rate.iter().map(|row| {
            [
                number(row.mbps * 1e6),
                row.bytes.into(),
                number(row.seen_mbps * 1e6),
                number(row.error * 1e6),
                row.queue_packets.into(),
                number(row.full_queue_ms),
                number(row.under_way_ms),
                row.kept_pace.into(),
            ]
        }),
    );
    let loss = table(
        "loss",
        ["set_ratio", "packet_bytes", "sent", "lost", "lost_ratio", "standard_deviations", "not_emulated"],
        accuracy.loss.iter().map(|row| {
            [
                number(row.probability),
                row.bytes.into(),
                row.sent.into(),
                row.lost.into(),
                number(row.lost as f64 / row.sent.max(1) as f64),
                number(row.deviations),
                row.lost_outside.into(),
            ]
        }),
    );
    let note = |level, text: &str| Note { level, text: text.to_owned() };
    let mut notes: Vec<Note> = calibration.doubts.iter().map(|text| note(NoteLevel::Warning, text)).collect();
    notes.push(note(
        NoteLevel::Info,
        "The seed's figures are those of a simulator that carried live traffic on an 850 MHz PC; its tables of bandwidth and loss have other settings.",
    ));
    let mut summary = Map::new();
    summary.insert("scenario".to_owned(), "Calibration".into());
    summary.insert("warpline".to_owned(), calibration.warpline.as_str().into());
    summary.insert("calibration".to_owned(), json!(calibration.machine));
    let run = RunData {
        label: "calibration".to_owned(),
        summary,
        notes,
        tables: vec![
            delay,
            bandwidth,
            loss,
            capacity(calibration),
            points(calibration),
            dilated(calibration),
        ],
        shares: vec![shares(calibration)],
        ..RunData::default()
    };
    ReportData { runs: vec![run], ..ReportData::default() }
}

fn capacity(calibration: &Calibration) -> Table {
    let row = |path: &str, name: &str, unit: &str, value: &Repeated| {
        [
            Value::from(path),
            name.into(),
            unit.into(),
            number(value.median),
            number(value.min),
            number(value.max),
        ]
    };
    let all = |path: &str, c: &Capacity| {
        vec![
            row(path, "round trip of 64 bytes", "ms", &c.rtt_ms),
            row(path, "one way, 64 bytes, under 0.1 % lost", "packets/s", &c.one_way_pps),
            row(path, "delivered when flooded", "packets/s", &c.flooded_pps),
            row(path, "round trips, 64 bytes", "round trips/s", &c.round_trips_ps),
            row(path, "TCP without a limit", "bit/s", &c.stream_bps),
        ]
    };
    let mut rows: Vec<_> =
        calibration.capacity.iter().flat_map(|capacity| all("emulator", capacity)).collect();
    if let Some(goodput) = &calibration.long_fat {
        let name = "BBR over 1 Gbit/s and 80 ms";
        rows.push(row("emulator", name, "bit/s", &Repeated::of([goodput.bps])));
        let name = "the same, median second after its start";
        rows.push(row("emulator", name, "bit/s", &Repeated::of(goodput.steady_bps)));
    }
    rows.push(row("seed", "round trips, 64 bytes", "round trips/s", &Repeated::of([SEED_ROUND_TRIPS])));
    for floor in &calibration.floors {
        rows.extend(all(&floor.name, &floor.capacity));
    }
    table("capacity", ["path", "name", "unit", "median", "smallest", "largest"], rows)
}

fn points(calibration: &Calibration) -> Table {
    let k = &calibration.keep_pace;
    let all = [("CBR", &k.cbr), ("TCP", &k.tcp)].into_iter();
    let rows =
        all.flat_map(|(name, points)| points.iter().map(move |point| (name, point))).map(|(name, p)| {
            [
                Value::from(name),
                p.links.into(),
                (2 * p.links).into(),
                number(p.goodput_bps),
                number(p.share),
                number(p.lateness_us / 1e3),
                number(p.cpu),
                p.kept_pace.into(),
            ]
        });
    let columns = [
        "simulated_flows",
        "links_beside",
        "nodes_beside",
        "live_goodput_bps",
        "held_ratio",
        "lateness_ms",
        "cpu_ratio",
        "kept_pace",
    ];
    table("keeping_pace", columns, rows)
}

fn dilated(calibration: &Calibration) -> Table {
    let columns = [
        "tdf",
        "rtt_ms",
        "rtt_seen_ms",
        "rtt_seen_99_percent_ms",
        "delta_us",
        "delta_99_percent_us",
        "epsilon_ratio",
        "epsilon_99_percent_ratio",
        "clock_error_us",
        "clock_error_largest_us",
        "timers_late_us",
        "timers_late_99_percent_us",
        "kept_pace",
    ];
    let rows = calibration.dilation.iter().map(|row| {
        let epsilon = |delta| number(epsilon(row.tdf, row.rtt_ms, delta));
        [
            number(row.tdf),
            number(row.rtt_ms),
            number(row.trips_ms.median),
            number(row.trips_ms.p99),
            number(row.delta_us.median),
            number(row.delta_us.p99),
            epsilon(row.delta_us.median),
            epsilon(row.delta_us.p99),
            number(row.clock_us.median),
            number(row.clock_us.max.max(-row.clock_us.min)),
            number(row.timer_us.median),
            number(row.timer_us.p99),
            row.kept_pace.into(),
        ]
    });
    table("dilated_time", columns, rows)
}

fn shares(calibration: &Calibration) -> Shares {
    let line = |name: String, points: &[Point]| {
        let count = points.iter().map(|point| f64::from(point.links)).collect();
        let percent = points.iter().map(|point| point.share * 100.0).collect();
        (name, vec![("count", Column::double(count)), ("percent", Column::single(percent))])
    };
    let k = &calibration.keep_pace;
    Shares {
        title: "Throughput of the live stream, by simulated links beside it".to_owned(),
        about: format!(
            "A live TCP stream over 2 Mbit/s and 50 ms, in one instance with simulated flows over links of the same kind. The seed held up to {} \
             links with CBR and {} with TCP.",
            SEED_LINKS[0], SEED_LINKS[1]
        ),
        lines: vec![line("CBR".to_owned(), &k.cbr), line("TCP".to_owned(), &k.tcp)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_report::render;

    #[test]
    fn the_page_has_the_tables_and_the_curve() {
        let mut calibration = Calibration::default();
        let point = Point { links: 150, share: 1.0, ..Point::default() };
        calibration.keep_pace.cbr.push(point);
        calibration.doubts.push("Noise.".to_owned());
        let data = data(&calibration);
        let ids: Vec<&str> = data.runs[0].tables.iter().map(|table| table.id.as_str()).collect();
        assert_eq!(ids, ["delay", "bandwidth", "loss", "capacity", "keeping_pace", "dilated_time"]);
        assert_eq!(data.runs[0].shares[0].lines[0].1[1].1.values, [100.0]);
        let page = render(&data);
        assert!(page.contains("Noise.") && page.contains("by simulated links beside it"));
        for table in &data.runs[0].tables {
            assert!(table.cells.iter().all(|column| column.len() == table.rows()), "{}", table.id);
        }
    }
}
