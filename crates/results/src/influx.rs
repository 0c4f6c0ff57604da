//! InfluxDB's line protocol (<https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>): the table is the measurement, what
//! says which row it is are tags, numbers are fields, and times count in nanoseconds from the run's start.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::kinds::TableKind;

/// A value that a line can hold.
enum Value<'a> {
    Text(&'a str),
    Whole(u64),
    Float(f64),
    Truth(bool),
}

/// A cell; none where it is null.
fn value(array: &dyn Array, row: usize) -> Option<Value<'_>> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::UInt8 => Value::Whole(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt32 => Value::Whole(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Value::Whole(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::Truth(array.as_boolean().value(row)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row)),
        DataType::Dictionary(..) => {
            let words = array.as_dictionary_opt::<Int32Type>()?;
            Value::Text(words.values().as_string_opt::<i32>()?.value(words.key(row)?))
        }
        _ => return None,
    })
}

/// A measurement, or the key or value of a tag: commas, spaces and equal signs are escaped. A line cannot hold a line's end: it is written
/// as the two characters `\n`. After a backslash at the end, which would escape what follows, stands an escaped space.
fn escaped(text: &str, equals: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ',' | ' ' => safe.extend(['\\', c]),
            '=' if equals => safe.extend(['\\', c]),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            c => safe.push(c),
        }
    }
    if safe.ends_with('\\') {
        safe.push_str("\\ ");
    }
    safe
}

/// The lines of a batch; rows without a time of their own have that of the run's end, `end_s`.
pub(super) fn lines(table: &TableKind, batch: &RecordBatch, end_s: f64) -> String {
    let schema = batch.schema();
    let columns: Vec<_> = schema.fields().iter().zip(batch.columns()).collect();
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        let (mut tags, mut fields) = (String::new(), String::new());
        let mut time = (end_s * 1e9).round() as u64;
        for (field, array) in &columns {
            let Some(value) = value(array, row) else { continue };
            match (field.name().as_str(), &value) {
                ("time_s", Value::Float(seconds)) => {
                    time = (seconds * 1e9).round() as u64;
                    continue;
                }
                ("time_ns", Value::Whole(nanoseconds)) => {
                    time = *nanoseconds;
                    continue;
                }
                _ => {}
            }
            let name = escaped(field.name(), true);
            if table.is_label(field) {
                let word = match value {
                    Value::Text(word) => escaped(word, true),
                    Value::Whole(number) => number.to_string(),
                    Value::Float(number) => number.to_string(),
                    Value::Truth(truth) => truth.to_string(),
                };
                // A tag cannot be empty.
                if !word.is_empty() {
                    let _ = write!(tags, ",{name}={word}");
                }
            } else {
                let comma = if fields.is_empty() { "" } else { "," };
                let _ = match value {
                    Value::Whole(number) => write!(fields, "{comma}{name}={number}i"),
                    Value::Float(number) => write!(fields, "{comma}{name}={number}"),
                    Value::Truth(truth) => write!(fields, "{comma}{name}={truth}"),
                    Value::Text(word) => {
                        let word = word.replace('\\', "\\\\").replace('"', "\\\"");
                        write!(fields, "{comma}{name}=\"{word}\"")
                    }
                };
            }
        }
        // A line without a field is none.
        if !fields.is_empty() {
            let _ = writeln!(text, "{}{tags} {fields} {time}", escaped(table.name, false));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Row as _;
    use crate::{FlowRow, TransferRow};

    fn kind(name: &str) -> TableKind {
        TableKind::named(name).unwrap()
    }

    #[test]
    fn odd_names_stay_one_tag() {
        for (name, tag) in [
            ("a b", "a\\ b"),
            ("a,b=c", "a\\,b\\=c"),
            ("q\"uote", "q\"uote"),
            ("two\nlines\r", "two\\nlines\\r"),
            ("back\\", "back\\\\ "),
            ("back\\slash", "back\\slash"),
            ("Ωµ中", "Ωµ中"),
        ] {
            let row = FlowRow { name: name.to_owned(), sent_packets: 7, ..FlowRow::default() };
            let text = lines(&kind("flows"), &FlowRow::batch(&[row]).unwrap(), 2.5);
            assert_eq!(text.lines().count(), 1, "{text}");
            let expected = format!("flows,flow=0,name={tag} start_s=0,sent_packets=7i,");
            assert!(text.starts_with(&expected), "{text}");
            assert!(text.ends_with(" 2500000000\n"), "{text}");
        }
    }

    #[test]
    fn what_is_absent_is_left_out_and_truth_is_a_word() {
        let row =
            TransferRow { complete: true, start_s: 0.25, name: "x".to_owned(), ..TransferRow::default() };
        let text = lines(&kind("transfers"), &TransferRow::batch(&[row]).unwrap(), 1.0);
        assert_eq!(
            text,
            "transfers,transfer=0,flow=0,name=x bytes=0i,start_s=0.25,complete=true 1000000000\n"
        );
    }
}
