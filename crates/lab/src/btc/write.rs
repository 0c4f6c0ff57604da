//! Writes the run directory of a test: tables, qlog and a capture, so that everything that reads runs can also read tests.

use std::path::{Path, PathBuf};

use warpline_capacity::{Progress, Traced, TrenoOutcome, TrenoSample};
use warpline_core::packet::{Body, EndpointId, FlowId, LinkId, NodeId, Packet};
use warpline_core::record::{LinkEvent, LinkRecord, TcpRecord};
use warpline_core::{Dscp, Ecn, TimeDelta, Timestamp};
use warpline_results::{
    AddressBook, CaptureOptions, FlowRow, FlowSample, LinkRow, Recorder, ResultError, RunInfo, RunWriter,
    Summary,
};

use super::cap::CapReport;
use super::capacity;
use super::lines::render;
use super::treno::TrenoReport;

/// The trace of a test, recorded at the client.
#[derive(Clone, Debug, Default)]
pub struct CapTrace {
    /// Counters at regular times.
    pub samples: Vec<(Timestamp, Progress)>,
    /// All events.
    pub traced: Vec<Traced>,
    /// Whether the client sends the data.
    pub forward: bool,
}

/// Width of the text report in the directory.
const WIDTH: usize = 100;
const FLOW: FlowId = FlowId(0);
const CLIENT: EndpointId = EndpointId(0);
const SERVER: EndpointId = EndpointId(1);
/// The directions of the client's path to the server, as seen at the client.
const LINKS: [(LinkId, &str); 2] = [(LinkId(0), "client>server"), (LinkId(1), "server>client")];

fn seconds(time: Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Time series of a test: differences of its samples.
fn samples(trace: &CapTrace) -> Vec<FlowSample> {
    let mut rows = Vec::new();
    let mut before: Option<(Timestamp, Progress)> = None;
    for &(at, progress) in &trace.samples {
        let span =
            before.map_or(progress.elapsed.unwrap_or(TimeDelta::ZERO), |(then, _)| at.saturating_since(then));
        let earlier = before.map_or(Progress::default(), |(_, progress)| progress);
        let per_second =
            |bytes: u64| if span.is_zero() { 0.0 } else { bytes as f64 * 8e9 / span.as_nanos() as f64 };
        let goodput = per_second(progress.data_bytes.saturating_sub(earlier.data_bytes));
        rows.push(FlowSample {
            cwnd_bytes: trace.forward.then_some(progress.cwnd),
            ssthresh_bytes: (trace.forward && progress.ssthresh != u64::MAX).then_some(progress.ssthresh),
            in_flight_bytes: trace.forward.then_some(progress.in_flight),
            srtt_ms: (!progress.srtt.is_zero()).then(|| progress.srtt.as_nanos() as f64 / 1e6),
            retransmits: progress.retransmits.saturating_sub(earlier.retransmits),
            // Headers and retransmissions are not sampled: the throughput is the goodput.
            ..FlowSample::new(seconds(at), FLOW.0, goodput, goodput)
        });
        before = Some((at, progress));
    }
    rows
}

/// Samples of a test as CSV, with a header.
pub fn csv(trace: &CapTrace) -> String {
    let mut text =
        String::from("time_s,goodput_bps,cwnd_bytes,ssthresh_bytes,in_flight_bytes,srtt_ms,retransmits\n");
    let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for row in samples(trace) {
        text += &format!(
            "{:.6},{:.0},{},{},{},{},{}\n",
            row.time_s,
            row.goodput_bps,
            optional(row.cwnd_bytes),
            optional(row.ssthresh_bytes),
            optional(row.in_flight_bytes),
            row.srtt_ms.map_or(String::new(), |value| format!("{value:.3}")),
            row.retransmits
        );
    }
    text
}

fn flow_row(report: &CapReport, trace: &CapTrace) -> FlowRow {
    let s = report.sender.unwrap_or_default();
    let r = report.receiver.unwrap_or_default();
    let p = &report.flow_based_path_properties;
    let start = trace.samples.first().and_then(|(at, progress)| {
        progress.elapsed.map(|elapsed| at.as_nanos().saturating_sub(elapsed.as_nanos()) as f64 / 1e9)
    });
    let start_s = start.unwrap_or_default();
    let per_second = |bytes: u64| {
        if report.elapsed_time_s > 0.0 { bytes as f64 * 8.0 / report.elapsed_time_s } else { 0.0 }
    };
    FlowRow {
        flow: FLOW.0,
        name: "cap".into(),
        group: "cap".into(),
        from: report.ends.sender.clone(),
        to: report.ends.receiver.clone(),
        app: "cap".into(),
        transport: "udp".into(),
        cc: Some(report.congestion_control.clone()),
        start_s,
        end_s: Some(start_s + report.elapsed_time_s),
        sent_packets: s.sent_segments,
        sent_bytes: s.sent_wire_bytes,
        retransmitted_packets: s.retransmitted_segments,
        delivered_bytes: report.data_sent_bits / 8,
        goodput_bps: report.throughput_bps.unwrap_or_default(),
        throughput_bps: per_second(s.sent_wire_bytes),
        lost_packets: s.lost_segments,
        rtos: s.rtos,
        recoveries: s.recoveries,
        undos: s.false_recoveries + s.false_timeouts,
        ce_marks: r.ce_marks,
        rtt_min_ms: p.rtt_min_ms,
        rtt_mean_ms: p.rtt_mean_ms,
        rtt_max_ms: p.rtt_max_ms,
        ..FlowRow::default()
    }
}

/// Packets as the client saw them: those sent leave on one link, those received arrive on the other.
fn packets(trace: &CapTrace) -> Vec<LinkRecord> {
    let mut id = 0;
    let record = |time, link: usize, segment: warpline_core::Segment, ecn| {
        id += 1;
        LinkRecord {
            time,
            link: LINKS[link].0,
            event: LinkEvent::Transmit { queued: TimeDelta::ZERO },
            backlog_packets: 0,
            backlog_bytes: 0,
            packet: Packet {
                flow: FLOW,
                to: if link == 0 { SERVER } else { CLIENT },
                size: segment.wire_size(),
                ecn,
                class: 0,
                damaged: false,
                dscp: Dscp::default(),
                id,
                body: Body::Tcp(segment),
            },
        }
    };
    let mut record = record;
    let mut records: Vec<LinkRecord> = trace
        .traced
        .iter()
        .filter_map(|traced| match *traced {
            Traced::Sent(time, segment, ecn) => Some(record(time, 0, segment, ecn)),
            Traced::Received(time, segment, ce) => {
                Some(record(time, 1, segment, if ce { Ecn::Ce } else { Ecn::NotEct }))
            }
            Traced::Event(..) => None,
        })
        .collect();
    records.sort_by_key(|record| record.time);
    records
}

/// Begins the run directory of a test at `out`, before the test, so that what it measures has a place.
///
/// # Errors
/// If `out` exists and must not be replaced, or the directory cannot be made.
pub fn claim(out: &Path, force: bool) -> Result<RunWriter, ResultError> {
    let mut book = AddressBook::new();
    book.add_connection(FLOW, (CLIENT, NodeId(0)), (SERVER, NodeId(1)));
    RunWriter::create(out, force, book)
}

/// Writes the run directory of a test that [`claim`] began: `btc.json`, `btc.txt`, tables, and, if anything was traced, tcp.parquet,
/// packets.parquet, qlog and captures; and its report page if `page`. Returns its path.
///
/// # Errors
/// If it cannot be written; then nothing of it is left.
pub fn write_run(
    mut writer: RunWriter,
    page: bool,
    report: &CapReport,
    trace: &CapTrace,
) -> Result<PathBuf, ResultError> {
    let recorded = !trace.traced.is_empty();
    if recorded {
        writer.record_tcp(FLOW);
        writer.record_qlog(FLOW, "cap")?;
        for (link, name) in LINKS {
            writer.record_packets(link);
            writer.record_capture(link, name, CaptureOptions::default())?;
        }
        writer.link_records(&packets(trace))?;
        let records: Vec<TcpRecord> = trace
            .traced
            .iter()
            .filter_map(|traced| match *traced {
                Traced::Event(time, event) => Some(TcpRecord { time, flow: FLOW, endpoint: CLIENT, event }),
                _ => None,
            })
            .collect();
        writer.tcp_records(&records)?;
    }
    writer.flow_samples(&samples(trace))?;
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    writer.add_file("btc.json", json.as_bytes())?;
    writer.add_file("btc.txt", render(&report.lines(), WIDTH).as_bytes())?;
    let row = flow_row(report, trace);
    let stopped = (report.outcome != "complete").then(|| report.outcome.clone());
    let links = if recorded {
        LINKS
            .iter()
            .map(|(link, name)| {
                let (from, to) = name.split_once('>').unwrap_or((name, name));
                LinkRow {
                    link: link.0,
                    name: (*name).to_owned(),
                    from: from.to_owned(),
                    to: to.to_owned(),
                    ..LinkRow::default()
                }
            })
            .collect()
    } else {
        Vec::new()
    };
    seal(writer, row, stopped, links, page)
}

/// Moves the run directory of a test to its place, with its report page if `page`.
fn seal(
    writer: RunWriter,
    row: FlowRow,
    stopped: Option<String>,
    links: Vec<LinkRow>,
    page: bool,
) -> Result<PathBuf, ResultError> {
    let end = row.end_s.unwrap_or_default();
    let info = RunInfo {
        scenario: row.name.clone(),
        clock: "real".into(),
        duration_s: end,
        simulated_s: end,
        complete: stopped.is_none(),
        stopped,
        packet_hops: row.sent_packets,
        ..RunInfo::default()
    };
    let mut summary = Summary::new(info, vec![row], links);
    summary.warpline = env!("CARGO_PKG_VERSION").into();
    summary.format = warpline_results::summary::FORMAT;
    let mut sealed = writer.seal(&summary, &[])?;
    if page {
        let path = sealed.path().join("report.html");
        // Keep the results even if the page cannot be made.
        if let Err(error) = warpline_report::write_report(&[sealed.path()], &path, capacity) {
            sealed.add_file("report-error.txt", error.to_string().as_bytes())?;
        }
    }
    sealed.publish()
}

/// Time series of a TReno test: differences of its samples.
fn treno_samples(samples: &[TrenoSample]) -> Vec<FlowSample> {
    let mut before: Option<&TrenoSample> = None;
    samples
        .iter()
        .map(|sample| {
            let earlier =
                before.replace(sample).map_or((0, 0, 0), |s| (s.elapsed_ns, s.data_bytes, s.retransmits));
            let span = sample.elapsed_ns.saturating_sub(earlier.0).max(1);
            let goodput = sample.data_bytes.saturating_sub(earlier.1) as f64 * 8e9 / span as f64;
            FlowSample {
                cwnd_bytes: Some(sample.cwnd),
                ssthresh_bytes: (sample.ssthresh != u64::MAX).then_some(sample.ssthresh),
                in_flight_bytes: Some(sample.in_flight),
                srtt_ms: (sample.srtt_ns > 0).then(|| sample.srtt_ns as f64 / 1e6),
                retransmits: sample.retransmits.saturating_sub(earlier.2),
                ..FlowSample::new(sample.elapsed_ns as f64 / 1e9, FLOW.0, goodput, goodput)
            }
        })
        .collect()
}

/// Samples of a TReno test as CSV, with a header.
pub fn treno_csv(samples: &[TrenoSample]) -> String {
    let mut text = String::from(
        "elapsed_s,data_bytes,cwnd_bytes,ssthresh_bytes,in_flight_bytes,srtt_ms,lost,retransmits,timeouts\n",
    );
    for s in samples {
        let ssthresh = if s.ssthresh == u64::MAX { String::new() } else { s.ssthresh.to_string() };
        text += &format!(
            "{:.6},{},{},{ssthresh},{},{:.3},{},{},{}\n",
            s.elapsed_ns as f64 / 1e9,
            s.data_bytes,
            s.cwnd,
            s.in_flight,
            s.srtt_ns as f64 / 1e6,
            s.lost,
            s.retransmits,
            s.timeouts
        );
    }
    text
}

/// Writes the run directory of a TReno test that [`claim`] began: `btc.json`, `btc.txt`, tables and its report page. Returns its path.
///
/// # Errors
/// If it cannot be written; then nothing of it is left.
pub fn write_treno(
    mut writer: RunWriter,
    report: &TrenoReport,
    samples: &[TrenoSample],
) -> Result<PathBuf, ResultError> {
    writer.flow_samples(&treno_samples(samples))?;
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    writer.add_file("btc.json", json.as_bytes())?;
    writer.add_file("btc.txt", render(&report.lines(), WIDTH).as_bytes())?;
    let r = &report.results;
    let row = FlowRow {
        flow: FLOW.0,
        name: "treno".into(),
        group: "treno".into(),
        from: "this host".into(),
        to: report.target.clone(),
        app: "treno".into(),
        transport: "udp".into(),
        end_s: Some(report.elapsed_time_s),
        sent_packets: r.probes,
        sent_bytes: r.probe_wire_bytes,
        retransmitted_packets: r.retransmits,
        delivered_bytes: r.data_bytes,
        goodput_bps: report.throughput_bps.unwrap_or_default(),
        throughput_bps: r.probe_wire_bytes as f64 * 8e9 / r.elapsed_ns.max(1) as f64,
        lost_packets: r.lost,
        rtos: r.timeouts,
        recoveries: r.recoveries,
        rtt_min_ms: report.rtt_ms.map(|[min, ..]| min),
        rtt_mean_ms: report.rtt_ms.map(|[_, mean, _]| mean),
        rtt_max_ms: report.rtt_ms.map(|[.., max]| max),
        ..FlowRow::default()
    };
    let stopped = match report.outcome {
        TrenoOutcome::Complete => None,
        TrenoOutcome::NoAnswer => Some("nothing answered".to_owned()),
        TrenoOutcome::Silent => Some("answers stopped during the test".to_owned()),
        TrenoOutcome::Stopped => Some("interrupted".to_owned()),
    };
    seal(writer, row, stopped, Vec::new(), true)
}
