//! The calibration as text: delays, bandwidth and loss, capacity, and how many simulated links fit.

use std::fmt::Write as _;

use warpline_live::calibrate::measure::DelayRow;
use warpline_live::calibrate::statistics::Sample;
use warpline_live::calibrate::{Accuracy, Capacity};

use super::Calibration;
use super::dilation::{DilationRow, STATED_MS, epsilon};
use super::keep_pace::{HELD, Point, held};
use super::reference::{SEED_LINKS, SEED_ROUND_TRIPS, seed_delay};

/// The error of a round trip in percent, after subtracting the one without a delay; none for that row itself.
pub fn adjusted_percent(accuracy: &Accuracy, row: &DelayRow) -> Option<f64> {
    let base = accuracy.delay.iter().find(|base| base.delay_ms == 0.0 && base.bytes == row.bytes)?;
    let nominal = 2.0 * row.delay_ms;
    (nominal > 0.0).then(|| 100.0 * ((row.rtt_ms.median - base.rtt_ms.median) / nominal - 1.0))
}

fn dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// What the tables show, for people.
pub fn render(calibration: &Calibration) -> String {
    let mut text = String::new();
    for doubt in &calibration.doubts {
        let _ = writeln!(text, "Doubtful: {doubt}");
    }
    if !calibration.doubts.is_empty() {
        text.push('\n');
    }
    if !calibration.accuracy.delay.is_empty() {
        delays(calibration, &mut text);
        rates(calibration, &mut text);
        losses(calibration, &mut text);
    }
    capacity(calibration, &mut text);
    if !calibration.keep_pace.cbr.is_empty() {
        keep_pace(calibration, &mut text);
    }
    if !calibration.dilation.is_empty() {
        dilation(&calibration.dilation, &mut text);
    }
    text
}

fn delays(calibration: &Calibration, text: &mut String) {
    let accuracy = &calibration.accuracy;
    let _ = writeln!(
        text,
        "Delay (adjusted: minus the round trip without a delay; seed: the first simulator with live traffic)"
    );
    let _ = writeln!(
        text,
        "  {:>6} {:>6} {:>10} {:>8} {:>9} {:>12} {:>10} {:>8} {:>12}",
        "set ms", "bytes", "RTT ms", "stddev", "seen ms", "adjusted %", "seed RTT", "stddev", "adjusted %"
    );
    for row in &accuracy.delay {
        let seed = seed_delay(row.delay_ms, row.bytes);
        let _ = writeln!(
            text,
            "  {:>6} {:>6} {:>10.3} {:>8.3} {:>9.3} {:>12} {:>10} {:>8} {:>12}{}",
            row.delay_ms,
            row.bytes,
            row.rtt_ms.median,
            row.rtt_ms.stddev,
            row.seen_ms,
            dash(adjusted_percent(accuracy, row).map(|percent| format!("{percent:+.3}"))),
            dash(seed.map(|seed| format!("{:.3}", seed.rtt_ms))),
            dash(seed.map(|seed| format!("{:.3}", seed.stddev_ms))),
            dash(seed.and_then(|seed| seed.adjusted_percent).map(|percent| format!("{percent:+.2}"))),
            if row.kept_pace { "" } else { "  did not keep pace" },
        );
    }
}

fn rates(calibration: &Calibration, text: &mut String) {
    let _ = writeln!(text, "\nBandwidth (more is sent than fits)");
    let _ = writeln!(
        text,
        "  {:>10} {:>6} {:>13} {:>10} {:>8} {:>14} {:>14}",
        "set Mbit/s", "bytes", "seen Mbit/s", "error", "queue", "full queue ms", "in flight ms"
    );
    for row in &calibration.accuracy.rate {
        let _ = writeln!(
            text,
            "  {:>10} {:>6} {:>13.6} {:>+10.1e} {:>7}p {:>14.3} {:>14.3}{}",
            row.mbps,
            row.bytes,
            row.seen_mbps,
            row.error,
            row.queue_packets,
            row.full_queue_ms,
            row.under_way_ms,
            if row.kept_pace { "" } else { "  did not keep pace" },
        );
    }
}

fn losses(calibration: &Calibration, text: &mut String) {
    let _ = writeln!(text, "\nLoss (in standard deviations of the binomial distribution)");
    let _ = writeln!(
        text,
        "  {:>6} {:>6} {:>9} {:>8} {:>9} {:>12} {:>14}",
        "set %", "bytes", "sent", "lost", "lost %", "deviations", "not emulated"
    );
    for row in &calibration.accuracy.loss {
        let _ = writeln!(
            text,
            "  {:>6} {:>6} {:>9} {:>8} {:>9.4} {:>+12.2} {:>14}",
            row.probability * 100.0,
            row.bytes,
            row.sent,
            row.lost,
            100.0 * row.lost as f64 / row.sent.max(1) as f64,
            row.deviations,
            row.lost_outside,
        );
    }
}

fn capacity(calibration: &Calibration, text: &mut String) {
    if let Some(capacity) = &calibration.capacity {
        let _ =
            writeln!(text, "\nCapacity (source and sink on the same {} cores)", calibration.machine.cores);
        capacities(capacity, text);
        let _ =
            writeln!(text, "  {:<42} {:.0}", "the seed's round trips, thousand/s", SEED_ROUND_TRIPS / 1e3);
        let name = "BBR over 1 Gbit/s and 80 ms, Gbit/s";
        let _ = match &calibration.long_fat {
            Some(goodput) => {
                let steady = goodput.steady_bps.map_or_else(String::new, |steady| {
                    format!("; {:.3} in the median second, after its start", steady / 1e9)
                });
                writeln!(text, "  {name:<42} {:.3}{steady}", goodput.bps / 1e9)
            }
            None => writeln!(text, "  {name:<42} this kernel has no BBR"),
        };
    }
    for floor in &calibration.floors {
        let _ = writeln!(text, "\nCapacity without an emulated network: {}", floor.name);
        capacities(&floor.capacity, text);
    }
}

fn capacities(capacity: &Capacity, text: &mut String) {
    let lines = [
        ("round trip of 64 bytes, ms", &capacity.rtt_ms, 1.0, 3),
        ("one way, thousand/s (under 0.1 % lost)", &capacity.one_way_pps, 1e3, 0),
        ("delivered when flooded, thousand/s", &capacity.flooded_pps, 1e3, 0),
        ("round trips, thousand/s", &capacity.round_trips_ps, 1e3, 0),
        ("TCP without a limit, Gbit/s", &capacity.stream_bps, 1e9, 2),
    ];
    for (name, value, scale, digits) in lines {
        let _ = write!(text, "  {name:<42} {:.digits$}", value.median / scale);
        let _ = match value.times {
            0 | 1 => writeln!(text),
            _ => writeln!(text, " ({:.digits$} to {:.digits$})", value.min / scale, value.max / scale),
        };
    }
}

fn keep_pace(calibration: &Calibration, text: &mut String) {
    let _ = writeln!(
        text,
        "\nKeeping pace (a live TCP stream over 2 Mbit/s and 50 ms beside simulated links of the same kind)"
    );
    let k = &calibration.keep_pace;
    for (name, points, seed) in [("CBR", &k.cbr, SEED_LINKS[0]), ("TCP", &k.tcp, SEED_LINKS[1])] {
        let held = held(points).map_or_else(|| "none".to_owned(), |links| links.to_string());
        let _ = writeln!(
            text,
            "  {name}: {:.0} % of the throughput held beside {held} links; the seed beside {seed}",
            100.0 * HELD
        );
        let _ = writeln!(
            text,
            "  {:>8} {:>8} {:>10} {:>12} {:>7}",
            "links", "nodes", "held %", "lateness us", "CPU %"
        );
        for Point { links, share, cpu, lateness_us, kept_pace, .. } in points {
            let _ = writeln!(
                text,
                "  {links:>8} {:>8} {:>10.1} {lateness_us:>12.1} {:>7.0}{}",
                2 * links,
                share * 100.0,
                cpu * 100.0,
                if *kept_pace { "" } else { "  did not keep pace" }
            );
        }
    }
}

/// A median, a 99th percentile and the largest value.
fn percentiles(sample: &Sample) -> String {
    format!("{:.1} / {:.1} / {:.1}", sample.median, sample.p99, sample.max)
}

fn dilation(rows: &[DilationRow], text: &mut String) {
    let _ = writeln!(
        text,
        "\nDilated time, by the guests' clocks (median / 99 % / largest; delta: what is not dilated of a round trip, in the machine's time)"
    );
    let _ = writeln!(
        text,
        "  {:>5} {:>9} {:>24} {:>27} {:>24} {:>24}",
        "TDF", "RTT ms", "delta us", "RTT seen ms", "clock's error us", "timers late us"
    );
    for row in rows {
        let trips = &row.trips_ms;
        let clock =
            format!("{:+.2} ({:+.2} to {:+.2})", row.clock_us.median, row.clock_us.min, row.clock_us.max);
        let _ = writeln!(
            text,
            "  {:>5} {:>9} {:>24} {:>27} {clock:>24} {:>24}{}",
            row.tdf,
            row.rtt_ms,
            percentiles(&row.delta_us),
            format!("{:.4} / {:.4} / {:.4}", trips.median, trips.p99, trips.max),
            percentiles(&row.timer_us),
            if row.kept_pace { "" } else { "  did not keep pace" },
        );
    }
    let _ = writeln!(
        text,
        "\nError of a round trip against perfect dilation (epsilon: (1 - 1/TDF) delta / (RTT + delta)), median and 99 %"
    );
    let _ = write!(text, "  {:>5}", "TDF");
    STATED_MS.iter().for_each(|rtt| {
        let _ = write!(text, " {:>20}", format!("RTT {rtt} ms"));
    });
    text.push('\n');
    for row in rows {
        let _ = write!(text, "  {:>5}", row.tdf);
        for rtt in STATED_MS {
            let percent = |delta| 100.0 * epsilon(row.tdf, rtt, delta);
            let both = format!("{:.3} / {:.3} %", percent(row.delta_us.median), percent(row.delta_us.p99));
            let _ = write!(text, " {both:>20}");
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(delay_ms: f64, bytes: u32, median: f64) -> DelayRow {
        let rtt_ms = Sample { median, ..Sample::default() };
        DelayRow { delay_ms, bytes, rtt_ms, kept_pace: true, ..DelayRow::default() }
    }

    #[test]
    fn the_round_trip_without_delay_is_subtracted() {
        let delay = vec![row(0.0, 64, 0.1), row(0.0, 1518, 0.5), row(5.0, 64, 10.11), row(5.0, 1518, 10.5)];
        let accuracy = Accuracy { delay, ..Accuracy::default() };
        let adjusted: Vec<_> = accuracy.delay.iter().map(|row| adjusted_percent(&accuracy, row)).collect();
        assert_eq!(adjusted[..2], [None, None]);
        assert!((adjusted[2].unwrap() - 0.1).abs() < 1e-9 && adjusted[3].unwrap().abs() < 1e-9);
    }

    #[test]
    fn the_error_of_dilated_time_is_stated_for_each_factor() {
        let delta_us = Sample { median: 100.0, p99: 200.0, max: 300.0, ..Sample::default() };
        let of = |tdf| DilationRow { tdf, rtt_ms: 10.0, delta_us, kept_pace: true, ..DilationRow::default() };
        let mut text = String::new();
        dilation(&[of(1.0), of(10.0)], &mut text);
        assert!(text.contains("100.0 / 200.0 / 300.0"), "{text}");
        let last = text.lines().last().unwrap();
        // 0.9 of a tenth of a millisecond in 10.1 ms, and 0.9 of 0.2 ms in 10.2 ms.
        assert!(last.trim_start().starts_with("10") && last.contains("0.891 / 1.765 %"), "{text}");
    }

    #[test]
    fn the_figures_of_the_seed_stand_beside_the_measured_ones() {
        let mut calibration = Calibration::default();
        calibration.accuracy.delay = vec![row(0.0, 64, 0.05), row(5.0, 64, 10.06), row(7.0, 64, 14.05)];
        calibration.keep_pace.cbr.push(Point {
            links: 1500,
            share: 0.99,
            kept_pace: true,
            ..Point::default()
        });
        calibration.doubts.push("Noise.".to_owned());
        let text = render(&calibration);
        assert!(text.starts_with("Doubtful: Noise."), "{text}");
        let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
        assert!(line("5     64").contains("+0.100") && line("5     64").contains("10.251"), "{text}");
        assert!(line("7     64").trim_end().ends_with('-'), "{text}");
        assert!(line("CBR").contains("beside 1500 links; the seed beside 150"), "{text}");
        assert!(line("TCP:").contains("beside none links"), "{text}");
    }
}
