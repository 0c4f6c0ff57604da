//! What the page says of columns: heading, kind of number and meaning. Of our own tables it is what their declarations say; of others the
//! endings of names tell the unit.

use serde_json::{Value, json};
use warpline_results::{ColumnInfo, Kind, TableKind, Unit, heading_of};

/// The kind of number on an axis, in the words of the page (`format.js`).
pub(crate) fn axis_kind(unit: Unit) -> &'static str {
    match unit {
        Unit::BitPerSecond => "bps",
        Unit::Byte => "bytes",
        Unit::Second => "s",
        Unit::Millisecond => "ms",
        Unit::Packet => "packets",
        Unit::Share => "ratio",
        Unit::Index => "number",
        Unit::Nanosecond | Unit::Count => "count",
    }
}

/// The kind of number in a cell: without the word "packets".
pub(crate) fn cell_kind(column: &ColumnInfo) -> &'static str {
    match column.unit {
        Unit::Packet => "count",
        Unit::Count if column.key && column.kind == Kind::Whole => "id",
        unit => axis_kind(unit),
    }
}

/// The head of a column that is declared.
pub(crate) fn declared(column: &ColumnInfo) -> Value {
    json!({
        "name": column.name,
        "label": column.heading(),
        "kind": cell_kind(column),
        "about": column.about(),
    })
}

/// The head of a column that is not.
fn guessed(name: &str) -> Value {
    let kinds = [("_bps", "bps"), ("bytes", "bytes"), ("_ms", "ms"), ("_s", "s"), ("_ratio", "ratio")];
    let kind = kinds.into_iter().find(|(ending, _)| name.ends_with(ending)).map_or("count", |(_, kind)| kind);
    json!({ "name": name, "label": heading_of(name), "kind": kind })
}

/// The heads of a table's columns.
pub(crate) fn of_table(id: &str, columns: &[String]) -> Vec<Value> {
    let kind = TableKind::declared(id);
    let of = |name: &String| {
        kind.as_ref().and_then(|kind| kind.column(name)).map_or_else(|| guessed(name), declared)
    };
    columns.iter().map(of).collect()
}

/// The heads of everything that the summary says of a run and its totals: what a page shows without a table.
pub(crate) fn of_summary(id: &str) -> Vec<Value> {
    let columns = TableKind::declared(id).map(|kind| kind.columns).unwrap_or_default();
    columns.iter().map(declared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_declared_or_guessed() {
        let columns = ["flow", "rtos", "goodput_bps", "new_ms"].map(str::to_owned);
        let heads = of_table("flows", &columns);
        let values = |key: &str| heads.iter().map(|head| head[key].clone()).collect::<Vec<_>>();
        assert_eq!(values("kind"), ["id", "count", "bps", "ms"]);
        assert_eq!(values("label"), ["№", "Time-outs", "Goodput", "New"]);
        assert!(heads[1]["about"].is_string() && heads[3]["about"].is_null());
        assert!(of_summary("totals").iter().any(|head| head["label"] == "Jain’s index"));
    }
}
