//! What is known of every table and column, for other languages and for the book: from the declarations, so that it cannot be out of date.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::declaration::{ColumnInfo, Fold, Kind};
use crate::kinds::TableKind;

/// The word for a kind of value.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Whole => "integer",
        Kind::Float => "number",
        Kind::Truth => "boolean",
    }
}

fn column(column: &ColumnInfo) -> Value {
    json!({
        "name": column.name,
        "type": word(column.kind),
        "optional": column.optional,
        "unit": column.unit,
        "heading": column.heading(),
        "about": column.about(),
        "key": column.key,
        "compared": column.compared,
        "fold": column.fold.map(Fold::word),
        "quantity": column.quantity,
        "place": column.terminal.map(|(place, _)| place),
    })
}

/// All tables: those with files, and what only the summary has (`run`, `totals`, `groups`, `sizes`, `inputs`).
pub fn tables_json() -> Value {
    let table = |kind: TableKind, file: Option<String>| {
        json!({
            "name": kind.name,
            "about": kind.about,
            "file": file,
            "columns": kind.columns.iter().map(column).collect::<Vec<_>>(),
        })
    };
    let files = TableKind::all().into_iter().map(|kind| {
        let file = kind.file();
        table(kind, Some(file))
    });
    let parts = TableKind::of_summary().into_iter().map(|kind| table(kind, None));
    Value::Array(files.chain(parts).collect())
}

/// The same as a page of the book.
pub fn tables_markdown() -> String {
    let mut text = String::from(
        "# Columns\n\nMade by `warpline schema --results --markdown`. Of columns marked with an asterisk a row may have no value. Units: a share is \
         1 for all of it.\n",
    );
    let mut table = |kind: &TableKind, title: &str| {
        let _ = write!(
            text,
            "\n## {title}\n\n{}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n",
            kind.about
        );
        for column in &kind.columns {
            let optional = if column.optional { "\\*" } else { "" };
            let unit = match column.unit.word() {
                "index" => "",
                "1" => "share",
                unit => unit,
            };
            let about = column.about().replace('|', "\\|").replace('<', "&lt;");
            let _ =
                writeln!(text, "| `{}`{optional} | {} | {unit} | {about} |", column.name, word(column.kind));
        }
    };
    for kind in TableKind::all() {
        table(&kind, &format!("`{}`", kind.file()));
    }
    for kind in TableKind::of_summary() {
        let place = match kind.name {
            "run" => "`summary.json`".to_owned(),
            name => format!("`summary.json`: `{name}`"),
        };
        table(&kind, &place);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copies in docs, for people and for the generator of Python's types.
    #[test]
    fn the_committed_descriptions_are_current() {
        for (name, text) in
            [("results.json", format!("{:#}\n", tables_json())), ("src/columns.md", tables_markdown())]
        {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            let committed = std::fs::read_to_string(path).unwrap_or_default().replace("\r\n", "\n");
            assert!(committed == text, "docs/{name} is stale: make schema");
        }
    }

    #[test]
    fn every_column_says_what_it_is() {
        for kind in TableKind::all().iter().chain(&TableKind::of_summary()) {
            assert!(!kind.about.is_empty(), "{}", kind.name);
            for column in &kind.columns {
                assert!(
                    column.about().ends_with('.'),
                    "{} of {}: {}",
                    column.name,
                    kind.name,
                    column.about()
                );
            }
        }
    }
}
