//! qlog of a TCP endpoint: JSON text sequences (RFC 7464) as in draft-ietf-quic-qlog-main-schema-14, with the events of
//! draft-ietf-quic-qlog-quic-events-13. [`older`] is the same in the form of qlog 0.3, which viewers such as qvis read.
//!
//! qlog is made for QUIC. What is used as defined there and what is ours is said in the file's own description.

pub mod older;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use warpline_core::packet::FlowId;
use warpline_core::record::{LossTrigger, Phase, TcpEvent, TcpRecord};
use warpline_core::time::{TimeDelta, Timestamp};
use warpline_disk::{OsDirectory, write_whole_with};

use crate::error::ResultError;
use crate::tables::FILE_MODE;

/// The ending of the names of files.
pub const ENDING: &str = "sqlog";

/// Separator before each record (RFC 7464 section 2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The schema of the file: one trace, event by event (main schema, section 5).
const FILE_SCHEMA: &str = "urn:ietf:params:qlog:file:sequential";
/// How it is written (main schema, section 11.2).
const SERIALIZATION: &str = "application/qlog+json-seq";
/// The schema of the events of QUIC, with the draft's number as long as it is none (QUIC events, section 2.1).
const QUIC_EVENTS: &str = "urn:ietf:params:qlog:events:quic-13";
/// The schema of our own events and members, which the description defines.
const TCP_EVENTS: &str = "warpline:qlog:tcp";

/// What a file of either form says about itself first, with the present names of events.
const SHARED: &str = "A TCP endpoint. As in the qlog drafts: quic:packet_sent, quic:packet_received, quic:recovery_metrics_updated, \
    quic:congestion_state_updated, quic:packet_lost and quic:connection_state_updated, with times in milliseconds and sizes in bytes. \
    Ours: every member `tcp`, the events tcp:sacked and tcp:undo, and Linux's names of congestion states. A position in the stream \
    (`seq`, `end`, `ack`) counts from the SYN, which is byte 0.";
/// What it says of the present form.
const PRESENT: &str =
    "TCP has no packet numbers. The cause of a loss that the drafts do not know is tcp.trigger.";

/// The form of a qlog file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// That of the present drafts, which runs write.
    Draft,
    /// qlog 0.3.
    Older,
}

impl Form {
    /// All forms, the newest first.
    pub const ALL: [Form; 2] = [Form::Draft, Form::Older];

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Form::Draft => "draft",
            Form::Older => older::VERSION,
        }
    }
}

/// Writes a file of a run in this form.
///
/// # Errors
/// If the file cannot be read or is no qlog, or `out`, which errors call `name`, cannot be written.
pub fn export(trace: &Path, form: Form, out: &mut dyn Write, name: &Path) -> Result<(), ResultError> {
    let unreadable = |error| ResultError::io("read", trace, error);
    let mut reader = BufReader::new(File::open(trace).map_err(unreadable)?);
    let written = match form {
        Form::Draft => older::copy(&mut reader, out),
        Form::Older => older::write(&mut reader, out),
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => ResultError::Damaged { path: trace.to_owned(), why: error.to_string() },
        _ => ResultError::io("write", name, error),
    })
}

/// As [`export`], into a file: whole or not at all.
///
/// # Errors
/// The same.
pub fn export_file(trace: &Path, form: Form, path: &Path) -> Result<(), ResultError> {
    let written = write_whole_with(&OsDirectory::here(), path, FILE_MODE, |file| {
        let mut buffered = BufWriter::new(file);
        export(trace, form, &mut buffered, path).map_err(io::Error::other)?;
        buffered.flush()
    });
    written.map_err(|error| error.downcast().unwrap_or_else(|error| ResultError::io("write", path, error)))
}

/// Writes the trace of one endpoint of a flow.
#[derive(Debug)]
pub struct QlogWriter<W: Write> {
    out: W,
    state: &'static str,
}

/// A time in milliseconds.
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// A span in milliseconds, unless it is zero, which stands for "not known yet".
fn known(span: TimeDelta) -> Option<f64> {
    (!span.is_zero()).then(|| millis(span.as_nanos()))
}

/// A JSON object of the members that have a value.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    Value::Object(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

impl<W: Write> QlogWriter<W> {
    /// Begins the trace of side 0 (the opener: qlog's client) or 1 (the server) of the flow.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, flow: FlowId, name: &str, side: u8) -> io::Result<Self> {
        let mut writer = QlogWriter { out, state: "open" };
        writer.write(&json!({
            "file_schema": FILE_SCHEMA,
            "serialization_format": SERIALIZATION,
            "title": name,
            "description": format!("{SHARED} {PRESENT}"),
            "trace": {
                "title": name,
                "vantage_point": {
                    "name": concat!("Warpline ", env!("CARGO_PKG_VERSION")),
                    "type": if side == 0 { "client" } else { "server" },
                },
                "common_fields": {
                    "group_id": flow.0.to_string(),
                    "time_format": "relative_to_epoch",
                    // The run's own clock begins at zero, whatever the day.
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                "event_schemas": [QUIC_EVENTS, TCP_EVENTS],
            },
        }))?;
        Ok(writer)
    }

    fn write(&mut self, value: &Value) -> io::Result<()> {
        older::write_record(&mut self.out, value)
    }

    fn event(&mut self, time: Timestamp, name: &str, data: Value) -> io::Result<()> {
        self.write(&json!({ "time": millis(time.as_nanos()), "name": name, "data": data }))
    }

    /// Takes an event of the endpoint.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self, record: &TcpRecord) -> io::Result<()> {
        // A number goes with QUIC's own types of packets only.
        let header = json!({ "packet_type": "unknown" });
        let (name, data) = match record.event {
            TcpEvent::Sent { seq, len, retransmit, probe } => (
                "quic:packet_sent",
                json!({
                    "header": header,
                    "raw": { "payload_length": len },
                    "tcp": { "seq": seq, "end": seq + u64::from(len), "retransmit": retransmit, "probe": probe },
                }),
            ),
            TcpEvent::Acked { ack, window_end, newly_acked, ce, rtt } => {
                let tcp = object([
                    ("ack", Some(ack.into())),
                    ("window_end", Some(window_end.into())),
                    ("newly_acked", Some(newly_acked.into())),
                    ("ce", (ce > 0).then(|| ce.into())),
                ]);
                let data = json!({ "header": header, "tcp": tcp });
                self.event(record.time, "quic:packet_received", data)?;
                let Some(rtt) = rtt else { return Ok(()) };
                ("quic:recovery_metrics_updated", json!({ "latest_rtt": millis(rtt.as_nanos()) }))
            }
            TcpEvent::Sacked { start, end } => ("tcp:sacked", json!({ "start": start, "end": end })),
            TcpEvent::Metrics { cwnd, ssthresh, in_flight, srtt, min_rtt, rto } => (
                "quic:recovery_metrics_updated",
                object([
                    ("min_rtt", known(min_rtt).map(Value::from)),
                    ("smoothed_rtt", known(srtt).map(Value::from)),
                    ("congestion_window", Some(cwnd.into())),
                    ("bytes_in_flight", Some(in_flight.into())),
                    ("ssthresh", (ssthresh != u64::MAX).then(|| ssthresh.into())),
                    ("tcp", Some(json!({ "rto": millis(rto.as_nanos()) }))),
                ]),
            ),
            TcpEvent::Lost { seq, len, trigger } => {
                let (trigger, ours) = match trigger {
                    LossTrigger::DupAcks => (Some("reordering_threshold"), None),
                    LossTrigger::Rack => (Some("time_threshold"), None),
                    LossTrigger::Rto => (Some("pto_expired"), None),
                    LossTrigger::Ecn => (None, Some("ecn")),
                };
                let end = seq + u64::from(len);
                let tcp = [
                    ("seq", Some(seq.into())),
                    ("end", Some(end.into())),
                    ("trigger", ours.map(Value::from)),
                ];
                let members = [
                    ("header", Some(header)),
                    ("trigger", trigger.map(Value::from)),
                    ("tcp", Some(object(tcp))),
                ];
                ("quic:packet_lost", object(members))
            }
            TcpEvent::State { state } => {
                // Nothing but marks brings this state.
                let trigger = (state == Phase::Cwr).then(|| "ECN".into());
                let state = state.name();
                let old = std::mem::replace(&mut self.state, state);
                let members = [("old", Some(old.into())), ("new", Some(state.into())), ("trigger", trigger)];
                ("quic:congestion_state_updated", object(members))
            }
            TcpEvent::Undo => ("tcp:undo", json!({})),
            TcpEvent::Established => {
                ("quic:connection_state_updated", json!({ "new": "handshake_complete" }))
            }
            TcpEvent::Closed { complete } => {
                ("quic:connection_state_updated", json!({ "new": "closed", "tcp": { "complete": complete } }))
            }
        };
        self.event(record.time, name, data)
    }

    /// The file, complete.
    pub fn into_inner(self) -> W {
        self.out
    }
}
