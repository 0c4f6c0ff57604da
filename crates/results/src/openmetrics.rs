//! OpenMetrics text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>): how the columns of tables are called there, with which units, and
//! how a text is put together. `warpline export --to openmetrics` and `warpline run --metrics` have their names here.

use std::fmt::{Display, Write as _};

use crate::column::Row;
use crate::declaration::{Column, ColumnInfo, Kind, bare_name};
use crate::kinds::TableKind;
use crate::units::Unit;

/// The type of a text, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Tables whose columns are metrics, what their rows are about, and what sets the names of time series apart from those of totals.
const TABLES: [(&str, &str, &str); 4] = [
    ("flows", "flow", ""),
    ("links", "link", ""),
    ("series_flows", "flow", "sample_"),
    ("series_links", "link", "sample_"),
];

/// What a column is as a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The column.
    pub column: &'static str,
    /// Its name, which ends in the unit.
    pub name: String,
    /// Its unit, one of the base units; none for plain numbers.
    pub unit: Option<&'static str>,
    /// A value of the column is divided by this: there are no milliseconds.
    pub divisor: f64,
    /// What it is.
    pub about: &'static str,
}

/// The base unit, and how many of the column's units are one of it.
fn base_unit(unit: Unit) -> Option<(&'static str, f64)> {
    Some(match unit {
        Unit::BitPerSecond => ("bits_per_second", 1.0),
        Unit::Byte => ("bytes", 1.0),
        Unit::Packet => ("packets", 1.0),
        Unit::Second => ("seconds", 1.0),
        Unit::Millisecond => ("seconds", 1e3),
        Unit::Nanosecond => ("seconds", 1e9),
        Unit::Share => ("ratio", 1.0),
        Unit::Count | Unit::Index => return None,
    })
}

/// The metric of a column; none of one that measures nothing.
fn metric(table: &str, column: &ColumnInfo) -> Option<Metric> {
    let (_, about, apart) = TABLES.into_iter().find(|(name, ..)| *name == table)?;
    if !matches!(column.kind, Kind::Whole | Kind::Float) || column.key || column.name == about {
        return None;
    }
    let unit = base_unit(column.unit);
    let (plain, ending, divisor) = match unit {
        Some((unit, divisor)) => {
            let bare = bare_name(column.name);
            (bare.strip_suffix("_packets").unwrap_or(bare), format!("_{unit}"), divisor)
        }
        None => (column.name, String::new(), 1.0),
    };
    Some(Metric {
        column: column.name,
        name: format!("warpline_{about}_{apart}{plain}{ending}"),
        unit: unit.map(|(unit, _)| unit),
        divisor,
        about: column.about(),
    })
}

/// The metrics of a table, in the order of its columns; none if its columns are none.
pub fn metrics(table: &TableKind) -> Vec<Metric> {
    table.columns.iter().filter_map(|column| metric(table.name, column)).collect()
}

/// Labels, with their braces: nothing where a value is absent.
pub fn labels<'a>(labels: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let one = |(name, value): (&str, Option<String>)| Some(format!("{name}=\"{}\"", escaped(&value?)));
    format!("{{{}}}", labels.into_iter().filter_map(one).collect::<Vec<_>>().join(","))
}

/// A label's value, or a help text.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// A text that is being put together.
#[derive(Clone, Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a metric: its type ("gauge", "counter", "info"), and its unit and meaning.
    pub fn begin(&mut self, name: &str, kind: &str, unit: Option<&str>, about: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if let Some(unit) = unit {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {}", escaped(about));
    }

    /// A sample of the metric that was begun last. `name` has the ending that its type asks for.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// All metrics of these rows, with the labels of each row.
    pub fn rows<R: Row>(&mut self, rows: &[R], labels: &[String]) {
        for Column { info, value } in R::COLUMNS {
            let Some(metric) = metric(R::TABLE, info) else { continue };
            let samples: Vec<_> = rows
                .iter()
                .zip(labels)
                .filter_map(|(row, labels)| Some((labels, value(row).number()?)))
                .collect();
            if samples.is_empty() {
                continue;
            }
            self.begin(&metric.name, "gauge", metric.unit, metric.about);
            for (labels, number) in samples {
                self.sample(&metric.name, labels, number / metric.divisor);
            }
        }
    }

    /// The text, complete.
    pub fn finish(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkSample, example};

    #[test]
    fn columns_have_names_with_base_units() {
        let names = |table: &str| metrics(&TableKind::named(table).unwrap());
        let of = |table: &str, column: &str| {
            let metric = names(table).into_iter().find(|metric| metric.column == column).unwrap();
            (metric.name, metric.unit, metric.divisor)
        };
        let goodput = ("warpline_flow_goodput_bits_per_second".to_owned(), Some("bits_per_second"), 1.0);
        assert_eq!(of("flows", "goodput_bps"), goodput);
        let delay = ("warpline_link_sample_queue_delay_seconds".to_owned(), Some("seconds"), 1e3);
        assert_eq!(of("series_links", "queue_delay_ms"), delay);
        assert_eq!(of("series_links", "backlog_packets").0, "warpline_link_sample_backlog_packets");
        assert_eq!(of("series_links", "backlog_bytes").0, "warpline_link_sample_backlog_bytes");
        // Which row it is, and when, are no metrics.
        assert!(names("series_flows").iter().all(|metric| !["flow", "time_s"].contains(&metric.column)));
        assert!(names("tcp").is_empty());
        // No two columns of a table have one name.
        for (table, ..) in TABLES {
            let mut all: Vec<_> = names(table).into_iter().map(|metric| metric.name).collect();
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "{table}");
        }
    }

    #[test]
    fn a_text_has_types_units_meanings_and_an_end() {
        let mut text = Text::default();
        let rows: Vec<LinkSample> = example::link_samples();
        let of = |row: &LinkSample| labels([("link", Some(format!("a>\"b\"\n{}", row.link))), ("to", None)]);
        text.rows(&rows[..1], &[of(&rows[0])]);
        insta::assert_snapshot!(text.finish());
    }
}
