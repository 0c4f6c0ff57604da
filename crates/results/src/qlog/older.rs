//! qlog 0.3 (draft-ietf-quic-qlog-main-schema-02, draft-ietf-quic-qlog-quic-events-01) made of a file in the present form.
//!
//! The trace is the same, record by record. What has another name there is listed here, and nothing else is.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use super::{RECORD_SEPARATOR, SHARED};

/// The version that the file names.
pub const VERSION: &str = "0.3";

/// Events with another name: the present one, and that of 0.3. All others keep theirs.
const NAMES: [(&str, &str); 6] = [
    ("quic:packet_sent", "transport:packet_sent"),
    ("quic:packet_received", "transport:packet_received"),
    ("quic:recovery_metrics_updated", "recovery:metrics_updated"),
    ("quic:congestion_state_updated", "recovery:congestion_state_updated"),
    ("quic:packet_lost", "recovery:packet_lost"),
    ("quic:connection_state_updated", "connectivity:connection_state_updated"),
];

/// What the file's description says of this form.
const OURS: &str = "Ours, too: the trigger `ecn`, and that packet_number is the position of the segment's first byte (so a retransmission \
    repeats it).";

/// Writes a file in the form of 0.3. One that is in that form already, as earlier versions of Warpline wrote it, is copied.
///
/// # Errors
/// If it cannot be read or written, or is not a file in one of the two forms (`InvalidData`).
pub fn write(trace: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
    each(trace, &mut |record| write_record(out, &older(record)))
}

/// Writes a file in the present form, which it has to have.
///
/// # Errors
/// If it cannot be read or written, or is not a file in the present form; that of 0.3 says less.
pub fn copy(trace: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
    each(trace, &mut |record| {
        if record.get("qlog_version").is_some() {
            return Err(invalid(format!(
                "is in the form of qlog {VERSION}, as an earlier version wrote it; ask for that form"
            )));
        }
        write_record(out, &record)
    })
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Hands over each record of a text sequence. Its first one has to be the head of a qlog file.
fn each(trace: &mut dyn BufRead, take: &mut dyn FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    let mut line = Vec::new();
    let mut number = 0_u64;
    while trace.read_until(b'\n', &mut line)? > 0 {
        number += 1;
        let record = line.strip_prefix(&[RECORD_SEPARATOR]).unwrap_or(&line);
        let record: Value = serde_json::from_slice(record)
            .map_err(|error| invalid(format!("record {number} is not JSON: {error}")))?;
        if number == 1 && record.get("file_schema").or(record.get("qlog_version")).is_none() {
            return Err(invalid("does not begin as a qlog file".to_owned()));
        }
        take(record)?;
        line.clear();
    }
    if number == 0 { Err(invalid("is empty".to_owned())) } else { Ok(()) }
}

pub(super) fn write_record(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    out.write_all(&[RECORD_SEPARATOR])?;
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// A record in the form of 0.3.
fn older(mut record: Value) -> Value {
    if record.get("qlog_version").is_some() {
        return record;
    }
    if record.get("file_schema").is_some() {
        return head(&record);
    }
    if let Some((_, name)) = NAMES.iter().find(|(now, _)| record["name"] == *now) {
        record["name"] = (*name).into();
    }
    let data = &mut record["data"];
    if let Some(seq) = data["tcp"].get("seq").cloned()
        && let Some(header) = data.get_mut("header").and_then(Value::as_object_mut)
    {
        header.insert("packet_number".to_owned(), seq);
    }
    if let Some(trigger) =
        data.get_mut("tcp").and_then(Value::as_object_mut).and_then(|tcp| tcp.remove("trigger"))
    {
        data["trigger"] = trigger;
    }
    record
}

/// The first record.
fn head(record: &Value) -> Value {
    let (title, trace) = (&record["title"], &record["trace"]);
    let renamed = NAMES.iter().fold(SHARED.to_owned(), |text, (now, then)| text.replace(now, then));
    json!({
        "qlog_version": VERSION,
        "qlog_format": "JSON-SEQ",
        "title": title,
        "description": format!("{renamed} {OURS}"),
        "trace": {
            "title": trace["title"],
            "vantage_point": trace["vantage_point"],
            "common_fields": {
                "group_id": trace["common_fields"]["group_id"],
                "protocol_type": ["TCP"],
                "time_format": "relative",
                "reference_time": 0,
            },
        },
    })
}
