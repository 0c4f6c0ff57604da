//! The run directory of a test: tables, qlog and a capture from what was traced, so that everything that reads runs reads tests too.

use std::path::{Path, PathBuf};

use warpline_core::packet::{Body, EndpointId, FlowId, LinkId, NodeId, Packet};
use warpline_core::record::{LinkEvent, LinkRecord, TcpRecord};
use warpline_core::{Ecn, TimeDelta, Timestamp};
use warpline_transport::btc::{Progress, Traced};

use super::cap::CapReport;
use super::lines::render;
use crate::report::write_report;
use crate::results::{
    AddressBook, CaptureOptions, FlowRow, FlowSample, LinkRow, Recorder, ResultError, RunInfo, RunWriter,
    Summary,
};

/// What was traced of a test, at the client.
#[derive(Clone, Debug, Default)]
pub struct CapTrace {
    /// Progress at instants.
    pub samples: Vec<(Timestamp, Progress)>,
    /// Everything that happened.
    pub traced: Vec<Traced>,
    /// Whether the client sends the data.
    pub forward: bool,
}

/// Width of the text in the directory.
const WIDTH: usize = 100;
const FLOW: FlowId = FlowId(0);
const CLIENT: EndpointId = EndpointId(0);
const SERVER: EndpointId = EndpointId(1);
/// The client's way to the server and back, as seen at the client.
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
            time_s: seconds(at),
            flow: FLOW.0,
            goodput_bps: goodput,
            // Headers and retransmissions are not sampled.
            throughput_bps: goodput,
            cwnd_bytes: trace.forward.then_some(progress.cwnd),
            ssthresh_bytes: (trace.forward && progress.ssthresh != u64::MAX).then_some(progress.ssthresh),
            in_flight_bytes: trace.forward.then_some(progress.in_flight),
            srtt_ms: (!progress.srtt.is_zero()).then(|| progress.srtt.as_nanos() as f64 / 1e6),
            retransmits: progress.retransmits.saturating_sub(earlier.retransmits),
        });
        before = Some((at, progress));
    }
    rows
}

/// Samples of a test as CSV, with a head.
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

/// Packets as the client saw them: those that it sent leave on the one link, those that came on the other.
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

/// Writes the run directory of a test to `out`: `btc.json`, `btc.txt`, tables, and, if anything was traced, tcp.parquet, packets.parquet,
/// qlog and captures; and its report page if `page`. Returns its path.
///
/// # Errors
/// If something else is there, or it cannot be written; then nothing is left of it.
pub fn write_run(
    out: &Path,
    force: bool,
    page: bool,
    report: &CapReport,
    trace: &CapTrace,
) -> Result<PathBuf, ResultError> {
    let mut book = AddressBook::new();
    book.add_connection(FLOW, (CLIENT, NodeId(0)), (SERVER, NodeId(1)));
    let mut writer = RunWriter::create(out, force, book)?;
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
    let end = row.end_s.unwrap_or_default();
    let info = RunInfo {
        scenario: "cap".into(),
        clock: "real".into(),
        duration_s: end,
        simulated_s: end,
        complete: report.outcome == "complete",
        stopped: (report.outcome != "complete").then(|| report.outcome.clone()),
        packet_hops: row.sent_packets,
        ..RunInfo::default()
    };
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
    let mut summary = Summary::new(info, vec![row], links);
    summary.warpline = env!("CARGO_PKG_VERSION").into();
    summary.format = crate::results::summary::FORMAT;
    let mut sealed = writer.seal(&summary, &[])?;
    if page {
        let path = sealed.path().join("report.html");
        // A page that cannot be made is no reason to lose the results.
        if let Err(error) = write_report(&[sealed.path()], &path) {
            sealed.add_file("report-error.txt", error.to_string().as_bytes())?;
        }
    }
    sealed.publish()
}
