//! InfluxDB's line protocol (<https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>): the table is the measurement, what
//! says which row it is are tags, numbers are fields, and times count in nanoseconds from the run's start.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arrow_array::RecordBatch;

use crate::cells::cell;
use crate::declaration::Scalar;
use crate::kinds::TableKind;

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

/// The tag that tells points apart which have the same tags and time: 2 for the second of them, and so on.
const REPEAT: &str = "repeat";

/// Makes lines of the rows of a table, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The time of the last row, and how many rows of that time had the same tags. The database makes one point of such rows.
    time: u64,
    same: BTreeMap<String, u64>,
}

impl Lines {
    /// The lines of a batch; rows without a time of their own have that of the run's end, `end_s`.
    pub(super) fn of(&mut self, table: &TableKind, batch: &RecordBatch, end_s: f64) -> String {
        let schema = batch.schema();
        let columns: Vec<_> = schema.fields().iter().zip(batch.columns()).collect();
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            let (mut tags, mut fields) = (String::new(), String::new());
            let mut time = (end_s * 1e9).round() as u64;
            for (field, array) in &columns {
                let value = cell(array, row);
                match (field.name().as_str(), &value) {
                    (_, Scalar::Absent) => continue,
                    ("time_s", Scalar::Float(seconds)) => {
                        time = (seconds * 1e9).round() as u64;
                        continue;
                    }
                    ("time_ns", Scalar::Whole(nanoseconds)) => {
                        time = *nanoseconds;
                        continue;
                    }
                    _ => {}
                }
                let name = escaped(field.name(), true);
                if table.is_label(field) {
                    let word = match &value {
                        Scalar::Text(word) => escaped(word, true),
                        value => value.to_string(),
                    };
                    // A tag cannot be empty.
                    if !word.is_empty() {
                        let _ = write!(tags, ",{name}={word}");
                    }
                } else {
                    let comma = if fields.is_empty() { "" } else { "," };
                    let _ = match &value {
                        Scalar::Whole(number) => write!(fields, "{comma}{name}={number}i"),
                        Scalar::Text(word) => {
                            let word = word.replace('\\', "\\\\").replace('"', "\\\"");
                            write!(fields, "{comma}{name}=\"{word}\"")
                        }
                        value => write!(fields, "{comma}{name}={value}"),
                    };
                }
            }
            // A line without a field is none.
            if fields.is_empty() {
                continue;
            }
            let count = self.count(&tags, time);
            if count > 1 {
                let _ = write!(tags, ",{REPEAT}={count}");
            }
            let _ = writeln!(text, "{}{tags} {fields} {time}", escaped(table.name, false));
        }
        text
    }

    /// How many rows of this time have had these tags, with this one.
    fn count(&mut self, tags: &str, time: u64) -> u64 {
        if time != self.time {
            self.same.clear();
            self.time = time;
        }
        let count = self.same.entry(tags.to_owned()).or_default();
        *count += 1;
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Row as _;
    use crate::{FlowRow, TcpRow, TransferRow};

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
            let text = Lines::default().of(&kind("flows"), &FlowRow::batch(&[row]).unwrap(), 2.5);
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
        let text = Lines::default().of(&kind("transfers"), &TransferRow::batch(&[row]).unwrap(), 1.0);
        assert_eq!(
            text,
            "transfers,transfer=0,flow=0,name=x bytes=0i,start_s=0.25,complete=true 1000000000\n"
        );
    }

    #[test]
    fn rows_with_the_same_tags_and_time_are_points_of_their_own() {
        let row = |time_ns: u64, event: &'static str, seq: u64| TcpRow {
            time_ns,
            event: event.into(),
            seq: Some(seq),
            ..TcpRow::default()
        };
        let mut lines = Lines::default();
        let mut text = String::new();
        // The instant goes on in the next batch.
        for rows in [
            vec![row(5, "sent", 1), row(5, "sent", 2), row(5, "lost", 3)],
            vec![row(5, "sent", 4), row(6, "sent", 5)],
        ] {
            text += &lines.of(&kind("tcp"), &TcpRow::batch(&rows).unwrap(), 1.0);
        }
        let expected = [
            "tcp,flow=0,side=0,event=sent seq=1i 5",
            "tcp,flow=0,side=0,event=sent,repeat=2 seq=2i 5",
            "tcp,flow=0,side=0,event=lost seq=3i 5",
            "tcp,flow=0,side=0,event=sent,repeat=3 seq=4i 5",
            "tcp,flow=0,side=0,event=sent seq=5i 6",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_table_has_a_column_of_the_tag_for_repeats() {
        for table in TableKind::all() {
            assert!(table.schema.column_with_name(REPEAT).is_none(), "{}", table.name);
        }
    }
}
