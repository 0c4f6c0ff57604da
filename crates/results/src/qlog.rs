//! qlog of a TCP endpoint: JSON text sequences (RFC 7464) in the form of draft-ietf-quic-qlog-main-schema-02 (qlog 0.3, which
//! viewers such as qvis read) with the recovery events of draft-ietf-quic-qlog-quic-events-01.
//!
//! qlog is made for QUIC. What is used as defined there and what is ours is said in the file's own description, see
//! [`DESCRIPTION`].

use std::io::{self, Write};

use serde_json::{Value, json};
use warpline_core::packet::FlowId;
use warpline_core::record::{LossTrigger, Phase, TcpEvent, TcpRecord};
use warpline_core::time::{TimeDelta, Timestamp};

/// Separator before each record (RFC 7464 section 2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// What the file says about itself.
pub const DESCRIPTION: &str = "A TCP endpoint. As in the qlog drafts: transport:packet_sent, transport:packet_received, \
    recovery:metrics_updated, recovery:congestion_state_updated, recovery:packet_lost and \
    connectivity:connection_state_updated, with times in milliseconds and sizes in bytes. Ours: every member `tcp`, the events \
    tcp:sacked and tcp:undo, Linux's names of congestion states, the trigger `ecn`, and that packet_number is the \
    stream position of the segment's first byte, the SYN being byte 0 (so a retransmission repeats it).";

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
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": name,
            "description": DESCRIPTION,
            "trace": {
                "title": name,
                "vantage_point": {
                    "name": concat!("Warpline ", env!("CARGO_PKG_VERSION")),
                    "type": if side == 0 { "client" } else { "server" },
                },
                "common_fields": {
                    "group_id": flow.0.to_string(),
                    "protocol_type": ["TCP"],
                    "time_format": "relative",
                    "reference_time": 0,
                },
            },
        }))?;
        Ok(writer)
    }

    fn write(&mut self, value: &Value) -> io::Result<()> {
        self.out.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }

    fn event(&mut self, time: Timestamp, name: &str, data: Value) -> io::Result<()> {
        self.write(&json!({ "time": millis(time.as_nanos()), "name": name, "data": data }))
    }

    /// Takes an event of the endpoint.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self, record: &TcpRecord) -> io::Result<()> {
        let header = |seq: u64| json!({ "packet_type": "unknown", "packet_number": seq });
        let (name, data) = match record.event {
            TcpEvent::Sent { seq, len, retransmit, probe } => (
                "transport:packet_sent",
                json!({
                    "header": header(seq),
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
                let data = json!({ "header": { "packet_type": "unknown" }, "tcp": tcp });
                self.event(record.time, "transport:packet_received", data)?;
                let Some(rtt) = rtt else { return Ok(()) };
                ("recovery:metrics_updated", json!({ "latest_rtt": millis(rtt.as_nanos()) }))
            }
            TcpEvent::Sacked { start, end } => ("tcp:sacked", json!({ "start": start, "end": end })),
            TcpEvent::Metrics { cwnd, ssthresh, in_flight, srtt, min_rtt, rto } => (
                "recovery:metrics_updated",
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
                let trigger = match trigger {
                    LossTrigger::DupAcks => "reordering_threshold",
                    LossTrigger::Rack => "time_threshold",
                    LossTrigger::Rto => "pto_expired",
                    LossTrigger::Ecn => "ecn",
                };
                let tcp = json!({ "seq": seq, "end": seq + u64::from(len) });
                ("recovery:packet_lost", json!({ "header": header(seq), "trigger": trigger, "tcp": tcp }))
            }
            TcpEvent::State { state } => {
                // Nothing but marks brings this state.
                let trigger = (state == Phase::Cwr).then(|| "ECN".into());
                let state = state.name();
                let old = std::mem::replace(&mut self.state, state);
                let members = [("old", Some(old.into())), ("new", Some(state.into())), ("trigger", trigger)];
                ("recovery:congestion_state_updated", object(members))
            }
            TcpEvent::Undo => ("tcp:undo", json!({})),
            TcpEvent::Established => {
                ("connectivity:connection_state_updated", json!({ "new": "handshake_complete" }))
            }
            TcpEvent::Closed { complete } => (
                "connectivity:connection_state_updated",
                json!({ "new": "closed", "tcp": { "complete": complete } }),
            ),
        };
        self.event(record.time, name, data)
    }

    /// The file, complete.
    pub fn into_inner(self) -> W {
        self.out
    }
}
