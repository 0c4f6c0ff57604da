//! Recorded TCP endpoints: the marks and lines of the time-sequence graph, the window and the RTT over time.

use std::collections::BTreeMap;
use std::path::Path;

use super::ReportError;
use super::column::Column;
use super::data::{Columns, TcpTrace};
use super::decimate::{Envelope, Mark, Marks};
use super::links::distribution;
use super::tables::scan;

/// Endpoints that a page shows at most; those that sent most come first.
const MAX_TRACES: usize = 16;

/// Which endpoint: flow and side.
type Key = (u32, u8);

/// The recorded endpoints, and what was left out.
pub(super) struct Traces {
    pub(super) traces: Vec<TcpTrace>,
    /// RTT samples in milliseconds, all of them after the warm-up: endpoint, samples, columns.
    pub(super) rtts: Vec<(String, usize, Columns)>,
    /// Endpoints recorded but not shown.
    pub(super) omitted: usize,
    /// Whether events were thinned.
    pub(super) thinned: bool,
}

/// Reads `tcp.parquet`; none when nothing was recorded. `span_s` is the run's length, `warmup_s` what distributions leave out of it, `budget` the
/// points that one kind of data (segments, ACKs, RTT samples, ...) may have on the page.
pub(super) fn read(
    dir: &Path,
    name: impl Fn(u32) -> String,
    span_s: f64,
    warmup_s: f64,
    budget: usize,
) -> Result<Option<Traces>, ReportError> {
    let mut sent: BTreeMap<Key, u64> = BTreeMap::new();
    let found = scan(dir, "tcp", &["flow", "side", "event"], |batch| {
        let (flow, side) = (batch.numbers("flow"), batch.numbers("side"));
        for (row, event) in batch.words("event").into_iter().enumerate() {
            *sent.entry(key(flow[row], side[row])).or_default() += u64::from(event == Some("sent"));
        }
    })?;
    if !found || sent.is_empty() {
        return Ok(None);
    }
    // A side that sent but its SYN and FIN has no graph of its own, unless all are such.
    let mut chosen: Vec<(Key, u64)> = sent.iter().map(|(&k, &n)| (k, n)).filter(|&(_, n)| n > 2).collect();
    if chosen.is_empty() {
        chosen = sent.iter().map(|(&k, &n)| (k, n)).collect();
    }
    chosen.sort_by_key(|&(key, n)| (std::cmp::Reverse(n), key));
    let omitted = chosen.len().saturating_sub(MAX_TRACES);
    chosen.truncate(MAX_TRACES);
    let share = budget / chosen.len();
    let mut collectors: BTreeMap<Key, Collector> =
        chosen.iter().map(|&(key, _)| (key, Collector::new(span_s * 1e9, warmup_s * 1e9, share))).collect();
    read_events(dir, &mut collectors)?;

    let both = |flow: u32| chosen.iter().filter(|((f, _), _)| *f == flow).count() > 1;
    let thinned = collectors.values().any(Collector::is_thinned);
    let (mut traces, mut rtts) = (Vec::new(), Vec::new());
    for ((flow, side), mut collector) in collectors {
        let mut label = name(flow);
        if both(flow) || side != 0 {
            label.push_str(if side == 0 { " (opener)" } else { " (other end)" });
        }
        let samples = std::mem::take(&mut collector.rtts);
        if !samples.is_empty() {
            rtts.push((label.clone(), samples.len(), distribution(samples)));
        }
        traces.push(collector.finish(flow, side, label));
    }
    Ok(Some(Traces { traces, rtts, omitted, thinned }))
}

fn key(flow: f64, side: f64) -> Key {
    (flow as u32, side as u8)
}

fn read_events(dir: &Path, collectors: &mut BTreeMap<Key, Collector>) -> Result<(), ReportError> {
    let numbers = [
        "time_ns",
        "flow",
        "side",
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
    let mut wanted = numbers.to_vec();
    wanted.extend(["event", "state"]);
    scan(dir, "tcp", &wanted, |batch| {
        let columns: Vec<Vec<f64>> = numbers.iter().map(|name| batch.numbers(name)).collect();
        let (events, states) = (batch.words("event"), batch.words("state"));
        for row in 0..batch.rows() {
            let at = |i: usize| columns[i][row];
            let Some(collector) = collectors.get_mut(&key(at(1), at(2))) else { continue };
            let time = at(0);
            match events[row].unwrap_or_default() {
                "sent" => collector.sent.push(time, at(3), at(4)),
                "retransmit" => collector.retransmit.push(time, at(3), at(4)),
                "probe" => collector.probe.push(time, at(3), at(4)),
                "lost" => collector.lost.push(time, at(3), at(4)),
                "sacked" => collector.sacked(time, at(3), at(4)),
                "acked" => collector.acked(time, at(5), at(6), at(7)),
                "metrics" => {
                    // Unset is "unlimited": not a height to draw. Times of zero mean "no sample yet".
                    let ssthresh = if at(9) < 9e15 { at(9) } else { f64::NAN };
                    let positive = |v: f64| if v > 0.0 { v } else { f64::NAN };
                    let values =
                        [at(8), ssthresh, at(10), positive(at(11)), positive(at(12)), positive(at(13))];
                    collector.metrics.push(time, values);
                }
                "state" => {
                    collector.states.push((time / 1e9, states[row].unwrap_or("unknown").to_owned()));
                }
                "undo" => collector.undos.push(time / 1e9),
                _ => {}
            }
        }
    })?;
    Ok(())
}

/// What is kept of one endpoint while reading.
struct Collector {
    sent: Marks,
    retransmit: Marks,
    probe: Marks,
    lost: Marks,
    sack: Marks,
    dsack: Marks,
    acks: Envelope<2>,
    rtt: Envelope<1>,
    /// Those after the warm-up, in milliseconds, and when that ends.
    rtts: Vec<f64>,
    warmup: f64,
    metrics: Envelope<6>,
    states: Vec<(f64, String)>,
    undos: Vec<f64>,
    acknowledged: f64,
}

impl Collector {
    /// `span` and `warmup` in nanoseconds.
    fn new(span: f64, warmup: f64, budget: usize) -> Self {
        let marks = |part: usize| Marks::new(span, budget / part);
        Collector {
            // Contiguous segments become one mark, so that a bin mostly keeps one of the four it may have.
            sent: Marks::new(span, budget),
            retransmit: marks(4),
            probe: marks(4),
            lost: marks(4),
            sack: marks(4),
            dsack: marks(4),
            // Both columns only grow: of the six rows that a bin may keep, two are left.
            acks: Envelope::new(span, budget),
            rtt: Envelope::new(span, budget / 2),
            rtts: Vec::new(),
            warmup,
            metrics: Envelope::new(span, budget / 3),
            states: Vec::new(),
            undos: Vec::new(),
            acknowledged: 0.0,
        }
    }

    fn acked(&mut self, time: f64, ack: f64, window_end: f64, rtt: f64) {
        if ack > self.acknowledged {
            self.acknowledged = ack;
        }
        self.acks.push(time, [ack, window_end]);
        if rtt.is_finite() {
            self.rtt.push(time, [rtt]);
            if time >= self.warmup {
                self.rtts.push(rtt / 1e6);
            }
        }
    }

    /// A block at or below the cumulative ACK reports a duplicate (RFC 2883 section 4).
    fn sacked(&mut self, time: f64, seq: f64, end: f64) {
        if end <= self.acknowledged { &mut self.dsack } else { &mut self.sack }.push(time, seq, end);
    }

    fn is_thinned(&self) -> bool {
        let marks = [&self.sent, &self.retransmit, &self.probe, &self.lost, &self.sack, &self.dsack];
        marks.iter().any(|marks| marks.is_thinned())
            || self.acks.is_thinned()
            || self.rtt.is_thinned()
            || self.metrics.is_thinned()
    }

    fn finish(self, flow: u32, side: u8, name: String) -> TcpTrace {
        let kinds = [
            ("sent", self.sent),
            ("retransmit", self.retransmit),
            ("probe", self.probe),
            ("lost", self.lost),
            ("sacked", self.sack),
            ("dsack", self.dsack),
        ];
        let acks_thinned = self.acks.is_thinned();
        let (time, [ack, window_end]) = self.acks.finish();
        let acks = vec![
            ("time", Column::nanoseconds(time)),
            ("ack", Column::double(ack)),
            ("window_end", Column::double(window_end)),
        ];
        let (time, [rtt]) = self.rtt.finish();
        let rtt = vec![("time", Column::nanoseconds(time)), ("rtt", Column::milliseconds(rtt))];
        let (time, [cwnd, ssthresh, in_flight, srtt, min_rtt, rto]) = self.metrics.finish();
        let metrics = vec![
            ("time", Column::nanoseconds(time)),
            ("cwnd", Column::single(cwnd)),
            ("ssthresh", Column::single(ssthresh)),
            ("in_flight", Column::single(in_flight)),
            ("srtt", Column::milliseconds(srtt)),
            ("min_rtt", Column::milliseconds(min_rtt)),
            ("rto", Column::milliseconds(rto)),
        ];
        TcpTrace {
            flow,
            side,
            name,
            marks: kinds
                .into_iter()
                .map(|(kind, marks)| (kind, mark_columns(&marks.finish())))
                .filter(|(_, columns)| !columns[0].1.values.is_empty())
                .collect(),
            acks,
            acks_thinned,
            rtt,
            metrics,
            states: self.states,
            undos: self.undos,
        }
    }
}

fn mark_columns(marks: &[Mark]) -> Columns {
    let column = |pick: fn(&Mark) -> f64| marks.iter().map(pick).collect::<Vec<f64>>();
    vec![
        ("start", Column::nanoseconds(column(|m| m.start))),
        ("span", Column::nanoseconds(column(|m| m.stop - m.start))),
        ("seq", Column::double(column(|m| m.seq))),
        ("len", Column::double(column(|m| m.end - m.seq))),
        ("count", Column::double(column(|m| m.count))),
    ]
}
