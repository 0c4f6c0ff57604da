//! A plausible run directory made without a simulation: window sawtooths, losses, queues, transfers.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use parquet::arrow::ArrowWriter;
use serde_json::json;
use warpline_core::float;

/// What the run contains.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) flows: u32,
    pub(crate) duration_s: f64,
    pub(crate) interval_s: f64,
    /// Bottleneck rate, bit/s.
    pub(crate) rate_bps: f64,
    /// Whether the first flow has `record = ["tcp"]` and the bottleneck `record = ["packets"]`.
    pub(crate) recorded: bool,
    pub(crate) transfers: u32,
    pub(crate) stopped_at: Option<f64>,
    /// Time dilation factors, each with the time from which it holds.
    pub(crate) dilation: Vec<(f64, f64)>,
    /// Stretches of time that were skipped, from and until.
    pub(crate) skipped: Vec<(f64, f64)>,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            scenario: "two-flows".to_owned(),
            seed: 1,
            flows: 2,
            duration_s: 60.0,
            interval_s: 0.1,
            rate_bps: 10e6,
            recorded: true,
            transfers: 120,
            stopped_at: None,
            dilation: Vec::new(),
            skipped: Vec::new(),
        }
    }
}

/// A small random generator (xorshift64*), so that the data is the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

const SEGMENT: u64 = 1448;
const BASE_RTT: f64 = 0.044;
const WARMUP: f64 = 5.0;

pub(crate) fn write(dir: &Path, table: &str, batches: &[Vec<(&str, ArrayRef)>]) {
    let file = File::create(dir.join(format!("{table}.parquet"))).unwrap();
    let mut writer: Option<ArrowWriter<File>> = None;
    let mut file = Some(file);
    for columns in batches {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.iter().map(|(name, array)| (*name, Arc::clone(array), true)),
        )
        .unwrap();
        writer
            .get_or_insert_with(|| ArrowWriter::try_new(file.take().unwrap(), batch.schema(), None).unwrap())
            .write(&batch)
            .unwrap();
    }
    writer.unwrap().close().unwrap();
}

fn f64s(values: Vec<f64>) -> ArrayRef {
    Arc::new(Float64Array::from(values))
}
fn opt(values: Vec<Option<u64>>) -> ArrayRef {
    Arc::new(UInt64Array::from(values))
}
fn u64s(values: Vec<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from(values))
}
fn u32s(values: Vec<u32>) -> ArrayRef {
    Arc::new(UInt32Array::from(values))
}
fn texts<T: Into<String>>(values: Vec<T>) -> ArrayRef {
    Arc::new(StringArray::from(values.into_iter().map(Into::into).collect::<Vec<String>>()))
}
fn words(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<DictionaryArray<Int8Type>>())
}

/// Writes the run into `dir`.
pub(crate) fn run(dir: &Path, spec: &Spec) {
    std::fs::create_dir_all(dir).unwrap();
    let mut dice = Dice(spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let end = spec.stopped_at.unwrap_or(spec.duration_s);
    let shares = sampled(dir, spec, end, &mut dice);
    flows(dir, spec, &shares, end);
    if spec.recorded {
        tcp(dir, spec, end, &mut dice);
        packets(dir, spec, end, &mut dice);
    }
    if spec.transfers > 0 {
        transfers(dir, spec, end, &mut dice);
    }
    summary(dir, spec, &shares, end);
}

/// The sampled series; returns the goodput of each flow.
fn sampled(dir: &Path, spec: &Spec, end: f64, dice: &mut Dice) -> Vec<f64> {
    let n = spec.flows as usize;
    let fair = spec.rate_bps * BASE_RTT * 1.5 / 8.0 / n as f64;
    let mut cwnd: Vec<f64> = (0..n).map(|_| fair * (0.2 + dice.next() * 0.6)).collect();
    let mut sums = vec![0.0; n];
    let steps = (end / spec.interval_s) as usize;
    let (mut flow_batches, mut link_batches) = (Vec::new(), Vec::new());
    let mut ssthresh = vec![None; n];
    let mut rows = 0;
    let (mut time, mut flow, mut good, mut through) = (vec![], vec![], vec![], vec![]);
    let (mut windows, mut thresholds, mut flights, mut rtts, mut again) =
        (vec![], vec![], vec![], vec![], vec![]);
    let (mut lt, mut link, mut lthrough, mut packets, mut bytes) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut drops, mut marks, mut delay) = (vec![], vec![], vec![]);
    for step in 1..=steps {
        let t = step as f64 * spec.interval_s;
        if spec.skipped.iter().any(|&(from, until)| from < t && t - spec.interval_s < until) {
            continue;
        }
        let total: f64 = cwnd.iter().sum();
        let pipe = spec.rate_bps * BASE_RTT / 8.0;
        let backlog = (total - pipe).clamp(0.0, pipe);
        let rtt = BASE_RTT + backlog * 8.0 / spec.rate_bps;
        let mut lost = 0u64;
        for f in 0..n {
            let rate = (cwnd[f] * 8.0 / rtt).min(spec.rate_bps * cwnd[f] / total.max(1.0));
            let loss = total > 1.9 * pipe && dice.next() < 0.6 / (n as f64).sqrt();
            sums[f] += rate * 0.965;
            time.push(t);
            flow.push(f as u32);
            good.push(rate * 0.965 * (0.97 + 0.06 * dice.next()));
            through.push(rate);
            windows.push(Some(cwnd[f] as u64));
            thresholds.push(ssthresh[f]);
            flights.push(Some((cwnd[f] * (0.9 + 0.1 * dice.next())) as u64));
            rtts.push(Some(rtt * 1e3));
            again.push(u64::from(loss) * (1 + (dice.next() * 3.0) as u64));
            if loss {
                lost += again.last().unwrap();
                cwnd[f] *= 0.5;
                ssthresh[f] = Some(cwnd[f] as u64);
            } else {
                cwnd[f] += SEGMENT as f64 * spec.interval_s / rtt * (1.0 + n as f64 / 20.0);
            }
            rows += 1;
        }
        for (l, share) in [1.0, 0.98, 0.03].into_iter().enumerate() {
            let carried = (total * 8.0 / rtt).min(spec.rate_bps) * share;
            let queued = if l == 1 { backlog } else { 0.0 };
            lt.push(t);
            link.push(l as u32);
            lthrough.push(carried);
            packets.push((queued / 1500.0) as u32);
            bytes.push(queued as u64);
            drops.push(if l == 1 { lost } else { 0 });
            marks.push(if l == 1 && dice.next() < 0.01 { 2 } else { 0 });
            delay.push(queued * 8.0 / spec.rate_bps * 1e3);
        }
        if rows >= 200_000 || step == steps {
            rows = 0;
            let take = std::mem::take::<Vec<f64>>;
            flow_batches.push(vec![
                ("time_s", f64s(take(&mut time))),
                ("flow", u32s(std::mem::take(&mut flow))),
                ("goodput_bps", f64s(take(&mut good))),
                ("throughput_bps", f64s(take(&mut through))),
                ("cwnd_bytes", opt(std::mem::take(&mut windows))),
                ("ssthresh_bytes", opt(std::mem::take(&mut thresholds))),
                ("in_flight_bytes", opt(std::mem::take(&mut flights))),
                ("srtt_ms", Arc::new(Float64Array::from(std::mem::take(&mut rtts))) as ArrayRef),
                ("retransmits", u64s(std::mem::take(&mut again))),
            ]);
            link_batches.push(vec![
                ("time_s", f64s(take(&mut lt))),
                ("link", u32s(std::mem::take(&mut link))),
                ("throughput_bps", f64s(take(&mut lthrough))),
                ("backlog_packets", u32s(std::mem::take(&mut packets))),
                ("backlog_bytes", u64s(std::mem::take(&mut bytes))),
                ("drops", u64s(std::mem::take(&mut drops))),
                ("marks", u64s(std::mem::take(&mut marks))),
                ("queue_delay_ms", f64s(take(&mut delay))),
            ]);
        }
    }
    write(dir, "series_flows", &flow_batches);
    write(dir, "series_links", &link_batches);
    sums.iter().map(|sum| sum / steps as f64).collect()
}

fn group(spec: &Spec, flow: u32) -> String {
    // The last group has a hostile name, as a scenario may have.
    if flow + 1 == spec.flows && spec.scenario.contains('<') {
        spec.scenario.clone()
    } else {
        "bulk".to_owned()
    }
}

fn flows(dir: &Path, spec: &Spec, shares: &[f64], end: f64) {
    let all: Vec<u32> = (0..spec.flows).collect();
    let bytes: Vec<u64> = shares.iter().map(|bps| (bps * (end - WARMUP) / 8.0) as u64).collect();
    let each = |value: f64| f64s(vec![value; all.len()]);
    let name = |f: &u32| format!("{}.{f}", group(spec, *f));
    write(
        dir,
        "flows",
        &[vec![
            ("flow", u32s(all.clone())),
            ("name", texts(all.iter().map(name).collect())),
            ("group", texts(all.iter().map(|&f| group(spec, f)).collect())),
            ("from", texts(vec!["client"; all.len()])),
            ("to", texts(vec!["server"; all.len()])),
            ("app", texts(vec!["bulk"; all.len()])),
            ("transport", texts(vec!["tcp"; all.len()])),
            ("cc", texts(all.iter().map(|f| if f % 2 == 0 { "cubic" } else { "reno" }).collect())),
            ("start_s", f64s(all.iter().map(|&f| f64::from(f) * 0.013).collect())),
            ("end_s", Arc::new(Float64Array::from(vec![None::<f64>; all.len()]))),
            ("sent_packets", u64s(bytes.iter().map(|b| b / 1448).collect())),
            ("sent_bytes", u64s(bytes.iter().map(|b| b * 1500 / 1448).collect())),
            ("retransmitted_packets", u64s(bytes.iter().map(|b| b / 1_000_000).collect())),
            ("delivered_bytes", u64s(bytes)),
            ("goodput_bps", f64s(shares.to_vec())),
            ("throughput_bps", f64s(shares.iter().map(|b| b / 0.965).collect())),
            ("lost_packets", u64s(vec![7; all.len()])),
            ("rtos", u64s(vec![0; all.len()])),
            ("rtt_min_ms", each(44.0)),
            ("rtt_mean_ms", each(66.25)),
            ("latency_mean_ms", each(67.125)),
            ("latency_p99_ms", each(91.5)),
        ]],
    );
    let names = ["client>r1", "r1>r2", "r2>r1"];
    write(
        dir,
        "links",
        &[vec![
            ("link", u32s(vec![0, 1, 2])),
            ("name", texts(names.to_vec())),
            ("from", texts(vec!["client", "r1", "r2"])),
            ("to", texts(vec!["r1", "r2", "r1"])),
            ("rate_bps", f64s(vec![spec.rate_bps * 10.0, spec.rate_bps, spec.rate_bps])),
            ("delay_s", f64s(vec![0.001, 0.02, 0.02])),
            ("sent_packets", u64s(vec![50_000, 49_900, 25_000])),
            ("throughput_bps", f64s(vec![spec.rate_bps * 0.99, spec.rate_bps * 0.98, spec.rate_bps * 0.03])),
            ("utilisation", f64s(vec![0.099, 0.98, 0.03])),
            ("drops_overflow", u64s(vec![0, 100, 0])),
            ("drops_loss", u64s(vec![0, 3, 0])),
            ("marks", u64s(vec![0, 12, 0])),
            ("arrivals", u64s(vec![50_000, 50_000, 25_000])),
            ("queue_delay_mean_ms", f64s(vec![0.0, 21.5, 0.0])),
            ("queue_delay_max_ms", f64s(vec![0.0, 44.0, 0.0])),
        ]],
    );
}

/// The rows of `tcp.parquet`.
#[derive(Default)]
struct Tcp {
    time: Vec<u64>,
    event: Vec<Option<&'static str>>,
    numbers: [Vec<Option<u64>>; 11],
    state: Vec<Option<&'static str>>,
    batches: Vec<Vec<(&'static str, ArrayRef)>>,
}

const TCP_NUMBERS: [&str; 11] = [
    "seq",
    "end",
    "ack",
    "window_end",
    "rtt_ns",
    "cwnd",
    "ssthresh",
    "in_flight",
    "srtt_ns",
    "min_rtt_ns",
    "rto_ns",
];

impl Tcp {
    fn row(
        &mut self,
        seconds: f64,
        event: &'static str,
        cells: &[(usize, u64)],
        state: Option<&'static str>,
    ) {
        self.time.push((seconds * 1e9) as u64);
        self.event.push(Some(event));
        self.state.push(state);
        for (i, column) in self.numbers.iter_mut().enumerate() {
            column.push(cells.iter().find(|(c, _)| *c == i).map(|(_, v)| *v));
        }
        if self.time.len() >= 300_000 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let rows = self.time.len();
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|&i| self.time[i]);
        let mut columns: Vec<(&'static str, ArrayRef)> = vec![
            ("time_ns", u64s(order.iter().map(|&i| self.time[i]).collect())),
            ("flow", u32s(vec![0; rows])),
            ("side", Arc::new(UInt8Array::from(vec![0; rows]))),
            ("event", words(order.iter().map(|&i| self.event[i]).collect())),
            ("state", words(order.iter().map(|&i| self.state[i]).collect())),
        ];
        for (name, values) in TCP_NUMBERS.iter().zip(&self.numbers) {
            columns.push((name, opt(order.iter().map(|&i| values[i]).collect())));
        }
        self.batches.push(columns);
        let batches = std::mem::take(&mut self.batches);
        *self = Tcp { batches, ..Tcp::default() };
    }
}

/// One flow, segment by segment: windows round by round, a loss at the top of the sawtooth, SACK and a retransmission.
fn tcp(dir: &Path, spec: &Spec, end: f64, dice: &mut Dice) {
    let mut rows = Tcp::default();
    let top = (spec.rate_bps * BASE_RTT * 2.0 / 8.0 / SEGMENT as f64).max(8.0);
    let (mut cwnd, mut ssthresh, mut seq, mut t) = (10.0f64, u64::MAX, 1u64, 0.05);
    rows.row(0.0, "sent", &[(0, 0), (1, 1)], None);
    rows.row(0.045, "established", &[], None);
    rows.row(0.045, "state", &[], Some("open"));
    while t < end - 0.3 {
        let count = cwnd as u64;
        let rtt = BASE_RTT * (1.0 + (cwnd / top - 0.5).max(0.0)) + dice.next() * 0.002;
        let spacing = rtt / count as f64;
        let lost =
            (cwnd > top * (0.85 + 0.15 * dice.next())).then(|| (dice.next() * count as f64 * 0.8) as u64);
        let mut acked = seq;
        for i in 0..count {
            let (start, stop) = (seq + i * SEGMENT, seq + (i + 1) * SEGMENT);
            let sent = t + i as f64 * spacing;
            rows.row(sent, "sent", &[(0, start), (1, stop)], None);
            match lost {
                Some(l) if i == l => {}
                Some(l) if i > l => {
                    rows.row(sent + rtt, "sacked", &[(0, start), (1, stop)], None);
                    rows.row(sent + rtt, "acked", &[(2, acked), (3, acked + 262_144)], None);
                }
                _ => {
                    acked = stop;
                    let sample = ((rtt + dice.next() * 0.001) * 1e9) as u64;
                    rows.row(sent + rtt, "acked", &[(2, acked), (3, acked + 262_144), (4, sample)], None);
                }
            }
            if i % 3 == 0 {
                let ns = |s: f64| (s * 1e9) as u64;
                let flight = (count * SEGMENT) as f64 * (0.85 + 0.15 * dice.next());
                rows.row(
                    sent,
                    "metrics",
                    &[
                        (5, cwnd as u64 * SEGMENT),
                        (6, ssthresh),
                        (7, flight as u64),
                        (8, ns(rtt)),
                        (9, ns(BASE_RTT)),
                        (10, ns(0.2 + rtt)),
                    ],
                    None,
                );
            }
        }
        if let Some(l) = lost {
            let start = seq + l * SEGMENT;
            let noticed = t + (l + 3) as f64 * spacing + rtt;
            rows.row(noticed, "lost", &[(0, start), (1, start + SEGMENT)], None);
            rows.row(noticed, "state", &[], Some("recovery"));
            rows.row(noticed + 0.0002, "retransmit", &[(0, start), (1, start + SEGMENT)], None);
            let full = seq + count * SEGMENT;
            rows.row(noticed + rtt, "acked", &[(2, full), (3, full + 262_144)], None);
            rows.row(noticed + rtt, "state", &[], Some("open"));
            if dice.next() < 0.2 {
                rows.row(noticed + rtt * 1.02, "sacked", &[(0, start), (1, start + SEGMENT)], None);
                rows.row(noticed + rtt * 1.02, "undo", &[], None);
            }
            cwnd *= 0.6;
            ssthresh = cwnd as u64 * SEGMENT;
            t = noticed + rtt * 1.05;
        } else {
            cwnd += if cwnd as u64 * SEGMENT < ssthresh.min(1 << 40) && cwnd < top { cwnd } else { 1.0 };
            cwnd = cwnd.min(top * 1.1);
            t += rtt;
        }
        seq += count * SEGMENT;
    }
    rows.flush();
    write(dir, "tcp", &rows.batches);
}

/// The bottleneck packet by packet.
fn packets(dir: &Path, spec: &Spec, end: f64, dice: &mut Dice) {
    let gap = 12_000.0 / spec.rate_bps;
    let mut batches = Vec::new();
    let mut t = 0.1;
    let mut queue = 0.0f64;
    while t < end {
        let (mut time, mut event, mut reason) = (vec![], vec![], vec![]);
        let (mut queued, mut waiting) = (vec![], vec![]);
        while t < end && time.len() < 300_000 {
            t += gap;
            queue = (queue + (dice.next() - 0.485) * 2.0).max(0.0);
            let ns = (t * 1e9) as u64;
            if queue > 36.0 {
                time.push(ns);
                event.push(Some("drop"));
                reason.push(Some("overflow"));
                queued.push(None);
                waiting.push(queue as u32);
                queue *= 0.35;
            }
            time.push(ns);
            event.push(Some("transmit"));
            reason.push(None);
            queued.push(Some((queue * gap * 1e9) as u64));
            waiting.push(queue as u32);
        }
        let rows = time.len();
        batches.push(vec![
            ("time_ns", u64s(time)),
            ("link", u32s(vec![1; rows])),
            ("event", words(event)),
            ("reason", words(reason)),
            ("queued_ns", opt(queued)),
            ("backlog_bytes", u64s(waiting.iter().map(|&p| u64::from(p) * 1500).collect())),
            ("backlog_packets", u32s(waiting)),
        ]);
    }
    write(dir, "packets", &batches);
}

fn transfers(dir: &Path, spec: &Spec, end: f64, dice: &mut Dice) {
    let all: Vec<u32> = (0..spec.transfers).collect();
    let start: Vec<f64> = all.iter().map(|&i| f64::from(i) / f64::from(spec.transfers) * end).collect();
    let took: Vec<Option<f64>> =
        all.iter().map(|i| (i % 17 != 16).then(|| 0.05 - float::ln(dice.next().max(1e-9)) * 0.3)).collect();
    write(
        dir,
        "transfers",
        &[vec![
            ("transfer", u32s(all.clone())),
            ("flow", u32s(all.iter().map(|i| i % spec.flows).collect())),
            ("name", texts(all.iter().map(|i| format!("{}.{i}", ["web", "api"][*i as usize % 2])).collect())),
            ("bytes", u64s(all.iter().map(|i| 20_000 + u64::from(*i) * 137).collect())),
            ("start_s", f64s(start.clone())),
            (
                "end_s",
                Arc::new(start.iter().zip(&took).map(|(s, t)| t.map(|t| s + t)).collect::<Float64Array>()),
            ),
            ("completion_s", Arc::new(took.iter().copied().collect::<Float64Array>())),
            ("complete", Arc::new(BooleanArray::from(took.iter().map(Option::is_some).collect::<Vec<_>>()))),
        ]],
    );
}

fn summary(dir: &Path, spec: &Spec, shares: &[f64], end: f64) {
    let goodput: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let mut text = json!({
        "warpline": "0.1.0",
        "format": 1,
        "scenario": spec.scenario,
        "scenario_hash": "sha256:5f0c8b0f6a2d6a1fb35d9a2c7f5ac1d1b0a1e7d64b0c1b7d6f3a9e8c5d2b4a10",
        "seed": spec.seed,
        "clock": "virtual",
        "duration_s": spec.duration_s,
        "warmup_s": WARMUP,
        "simulated_s": end,
        "complete": spec.stopped_at.is_none(),
        "stopped": spec.stopped_at.map(|_| "interrupted"),
        "packet_hops": (goodput * end / 12_000.0 * 3.0) as u64,
        "events": (goodput * end / 12_000.0 * 4.1) as u64,
        "totals": { "goodput_bps": goodput, "throughput_bps": goodput / 0.965, "drops": 103, "marks": 12,
            "jain": goodput * goodput / (shares.len() as f64 * squares) },
        "groups": [{ "group": group(spec, spec.flows - 1), "flows": spec.flows, "goodput_bps": goodput,
            "goodput_mean_bps": goodput / f64::from(spec.flows), "jain": 0.987_654_321, "retransmit_ratio": 0.001_5 }],
    });
    if let Some((_, last)) = spec.dilation.last() {
        let step = |(time, tdf): &(f64, f64)| json!({ "time_s": time, "wall_s": time * 1.5, "tdf": tdf });
        let steps: Vec<_> = spec.dilation.iter().map(step).collect();
        text["live"] = json!({ "kept_pace": true, "dilation": {
            "auto": true, "perceived_s": end, "wall_s": end * 3.0, "tdf_mean": 3.0, "tdf": last, "steps": steps } });
    }
    if !spec.skipped.is_empty() {
        let row = |audited: bool, (from, until): (f64, f64)| json!({ "from_s": from, "until_s": until, "audited": audited });
        let skipped_s: f64 = spec.skipped.iter().map(|(from, until)| until - from).sum();
        // The first stretch that could be skipped is run.
        let mut stretches = vec![row(true, (0.0, 0.5))];
        stretches.extend(spec.skipped.iter().map(|&span| row(false, span)));
        text["stretches"] = json!(stretches);
        text["fast_forward"] = json!({ "exact_s": end - skipped_s, "skipped_s": skipped_s,
            "skipped": spec.skipped.len(), "audited": 1 });
    }
    std::fs::write(dir.join("summary.json"), format!("{text:#}\n")).unwrap();
}
