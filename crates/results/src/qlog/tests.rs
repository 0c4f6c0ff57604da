//! Tests of both forms of qlog: each record against a small schema made of the drafts' CDDL, and snapshots.

use serde_json::Value;
use warpline_core::packet::{EndpointId, FlowId};
use warpline_core::record::{LossTrigger, Phase, TcpEvent, TcpRecord};
use warpline_core::time::Timestamp;

use super::{QlogWriter, older};
use crate::example;

/// The file of the example's records, and one loss of each cause.
fn file() -> Vec<u8> {
    let mut writer = QlogWriter::new(Vec::new(), FlowId(0), "bulk", 0).unwrap();
    for record in &example::tcp_records() {
        writer.record(record).unwrap();
    }
    let causes = [LossTrigger::DupAcks, LossTrigger::Rack, LossTrigger::Rto, LossTrigger::Ecn];
    let lost = causes.map(|trigger| TcpEvent::Lost { seq: 1, len: 100, trigger });
    for event in lost.into_iter().chain([TcpEvent::State { state: Phase::Cwr }]) {
        let (time, flow, endpoint) = (Timestamp::from_nanos(1), FlowId(0), EndpointId(0));
        writer.record(&TcpRecord { time, flow, endpoint, event }).unwrap();
    }
    writer.into_inner()
}

fn records(file: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(file).unwrap();
    let mut records = text.split('\u{1e}');
    assert_eq!(records.next(), Some(""));
    records.map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap()).collect()
}

fn shown(file: &[u8]) -> String {
    let lines = records(file).into_iter().map(|mut record| {
        if let Some(name) = record.pointer_mut("/trace/vantage_point/name") {
            *name = "Warpline VERSION".into();
        }
        record.to_string()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What a member may be. A table of members is an object that has no others; those with a `?` may be absent.
enum Type {
    Text,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// Not below zero.
    Number,
    /// uint64.
    Whole,
    /// At least one text.
    Texts,
    /// Anything, of ours.
    Ours,
    Object(&'static [(&'static str, Type)]),
}

/// Main schema: QlogFileSeq, TraceSeq, VantagePoint, CommonFields, ReferenceTime.
const HEAD: Type = Type::Object(&[
    ("file_schema", Type::Word(&["urn:ietf:params:qlog:file:sequential"])),
    ("serialization_format", Type::Word(&["application/qlog+json-seq"])),
    ("title?", Type::Text),
    ("description?", Type::Text),
    (
        "trace",
        Type::Object(&[
            ("title?", Type::Text),
            ("description?", Type::Text),
            (
                "common_fields?",
                Type::Object(&[
                    ("time_format?", Type::Word(&["relative_to_epoch", "relative_to_previous_event"])),
                    (
                        "reference_time?",
                        // A monotonic clock has no known epoch.
                        Type::Object(&[
                            ("clock_type", Type::Word(&["monotonic"])),
                            ("epoch", Type::Word(&["unknown"])),
                        ]),
                    ),
                    ("group_id?", Type::Text),
                ]),
            ),
            (
                "vantage_point?",
                Type::Object(&[
                    ("name?", Type::Text),
                    ("type", Type::Word(&["client", "server", "network", "unknown"])),
                ]),
            ),
            ("event_schemas", Type::Texts),
        ]),
    ),
]);

/// A packet that is none of QUIC's: it has no number.
const HEADER: Type = Type::Object(&[("packet_type", Type::Word(&["unknown"]))]);
const STATES: &[&str] = &["attempted", "handshake_started", "handshake_complete", "closed"];

/// QUIC events: the members of `data`. `tcp` is ours, in the place that each definition has for extensions.
const EVENTS: &[(&str, Type)] = &[
    (
        "quic:packet_sent",
        Type::Object(&[
            ("header", HEADER),
            ("raw?", Type::Object(&[("length?", Type::Whole), ("payload_length?", Type::Whole)])),
            ("tcp?", Type::Ours),
        ]),
    ),
    ("quic:packet_received", Type::Object(&[("header", HEADER), ("tcp?", Type::Ours)])),
    (
        "quic:recovery_metrics_updated",
        Type::Object(&[
            ("min_rtt?", Type::Number),
            ("smoothed_rtt?", Type::Number),
            ("latest_rtt?", Type::Number),
            ("congestion_window?", Type::Whole),
            ("bytes_in_flight?", Type::Whole),
            ("ssthresh?", Type::Whole),
            ("tcp?", Type::Ours),
        ]),
    ),
    (
        "quic:congestion_state_updated",
        Type::Object(&[("old?", Type::Text), ("new", Type::Text), ("trigger?", Type::Text)]),
    ),
    (
        "quic:packet_lost",
        Type::Object(&[
            ("header?", HEADER),
            ("trigger?", Type::Word(&["reordering_threshold", "time_threshold", "pto_expired"])),
            ("tcp?", Type::Ours),
        ]),
    ),
    (
        "quic:connection_state_updated",
        Type::Object(&[("old?", Type::Word(STATES)), ("new", Type::Word(STATES)), ("tcp?", Type::Ours)]),
    ),
    ("tcp:sacked", Type::Ours),
    ("tcp:undo", Type::Ours),
];

/// Why a value is not of a type.
fn wrong(value: &Value, is: &Type) -> Option<String> {
    let fits = match is {
        Type::Text => value.is_string(),
        Type::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Type::Number => value.as_f64().is_some_and(|number| number >= 0.0),
        Type::Whole => value.is_u64(),
        Type::Texts => {
            value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string))
        }
        Type::Ours => true,
        Type::Object(members) => {
            let Some(object) = value.as_object() else { return Some(format!("{value} is no object")) };
            let named = |key: &str| members.iter().find(|(name, _)| name.trim_end_matches('?') == key);
            if let Some(key) = object.keys().find(|key| named(key).is_none()) {
                return Some(format!("{key} is not defined"));
            }
            return members.iter().find_map(|(name, is)| match object.get(name.trim_end_matches('?')) {
                None if name.ends_with('?') => None,
                None => Some(format!("{name} is missing")),
                Some(value) => wrong(value, is).map(|why| format!("{name}: {why}")),
            });
        }
    };
    (!fits).then(|| format!("{value} does not fit"))
}

fn wrong_event(record: &Value) -> Option<String> {
    let name = record["name"].as_str()?;
    let Some((_, data)) = EVENTS.iter().find(|(known, _)| *known == name) else {
        return Some(format!("there is no event {name}"));
    };
    if !record["time"].is_number() || record.as_object()?.len() != 3 {
        return Some(format!("{record} is no event"));
    }
    wrong(&record["data"], data)
}

#[test]
fn every_record_is_as_the_drafts_define_it() {
    let records = records(&file());
    assert_eq!(wrong(&records[0], &HEAD), None);
    for record in &records[1..] {
        assert_eq!(wrong_event(record), None, "{record}");
    }
    // Each event of the list is there.
    let written: Vec<_> = records.iter().filter_map(|record| record["name"].as_str()).collect();
    assert!(EVENTS.iter().all(|(name, _)| written.contains(name)), "{written:?}");
    // Namespaces are those of the schemas that the head lists.
    let schemas = records[0]["trace"]["event_schemas"].to_string();
    assert!(schemas.contains("quic-13") && schemas.contains("tcp"), "{schemas}");
}

#[test]
fn the_schema_refuses_what_the_drafts_do_not_have() {
    let records = records(&file());
    let broken = |at: usize, change: fn(&mut Value)| {
        let mut record = records[at].clone();
        change(&mut record);
        if at == 0 { wrong(&record, &HEAD) } else { wrong_event(&record) }
    };
    for (at, change) in [
        (0, (|head| head["qlog_version"] = "0.3".into()) as fn(&mut Value)),
        (0, |head| head["trace"]["common_fields"]["reference_time"] = 0.into()),
        (0, |head| drop(head["trace"].as_object_mut().unwrap().remove("event_schemas"))),
        (1, |event| event["data"]["header"]["packet_number"] = 0.into()),
        (1, |event| event["name"] = "transport:packet_sent".into()),
        (8, |event| event["data"]["trigger"] = "ecn".into()),
    ] {
        assert!(broken(at, change).is_some(), "record {at}");
    }
}

#[test]
fn both_forms_have_the_same_events() {
    let now = file();
    insta::assert_snapshot!("draft", shown(&now));
    let mut old = Vec::new();
    older::write(&mut &now[..], &mut old).unwrap();
    insta::assert_snapshot!("older", shown(&old));
    // A file that is in the older form stays as it is.
    let mut again = Vec::new();
    older::write(&mut &old[..], &mut again).unwrap();
    assert_eq!(again, old);
    let mut copied = Vec::new();
    older::copy(&mut &now[..], &mut copied).unwrap();
    assert_eq!(copied, now);
}

#[test]
fn what_is_no_trace_is_refused() {
    let mut old = Vec::new();
    older::write(&mut &file()[..], &mut old).unwrap();
    for (trace, why) in [
        (&old[..], "in the form of qlog 0.3"),
        (b"", "is empty"),
        (b"\x1e{}\n", "does not begin as a qlog file"),
        (b"\x1e{\"file_schema\":1}\n\x1e{\n", "record 2 is not JSON"),
    ] {
        let error = older::copy(&mut &trace[..], &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}
