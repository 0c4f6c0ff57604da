//! Reads scenarios from files, texts and JSON values; writes them as TOML and JSON; hashes them.

use std::path::Path;

use serde_json::{Map, Value};

use super::diagnostics::{Collector, Diagnostics, Sources};
use super::document::{Data, Entry, Node, Place, Step, Table};
use super::expect::{self, Judge};
use super::schema::json_schema;
use super::short::Renamed;
use super::{Scenario, cc_names, check, files, semantics, set, short, syntax};

impl Scenario {
    /// Reads a scenario from TOML text. `name` is its name in errors; paths in it are relative to the current directory.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn from_toml(name: &str, text: &str, sets: &[String]) -> Result<Scenario, Diagnostics> {
        Self::from_toml_in(name, text, sets, Path::new(""))
    }

    /// As [`from_toml`](Self::from_toml), with paths relative to `directory`.
    ///
    /// # Errors
    /// As there.
    pub fn from_toml_in(
        name: &str,
        text: &str,
        sets: &[String],
        directory: &Path,
    ) -> Result<Scenario, Diagnostics> {
        Self::parse((name, name), text, sets, directory, None)
    }

    /// Reads a scenario from a JSON value with the structure of the TOML file, as Python makes it; paths in it are relative to
    /// `directory`.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once, by key path.
    pub fn from_json(value: Value, sets: &[String], directory: &Path) -> Result<Scenario, Diagnostics> {
        let sources = Sources { name: "scenario", text: "", sets };
        finish(Node::from_json(value), &sources, sources.name, directory, None)
    }

    /// As [`from_json`](Self::from_json), where `judge` judges what the scenario expects of its results.
    ///
    /// # Errors
    /// As there, and what `judge` finds.
    pub fn from_json_judged(
        value: Value,
        sets: &[String],
        directory: &Path,
        judge: Judge,
    ) -> Result<Scenario, Diagnostics> {
        let sources = Sources { name: "scenario", text: "", sets };
        finish(Node::from_json(value), &sources, sources.name, directory, Some(judge))
    }

    /// `name` is the text's name in errors; `stem` is the scenario's name if it has none.
    pub(super) fn parse(
        (name, stem): (&str, &str),
        text: &str,
        sets: &[String],
        directory: &Path,
        judge: Option<Judge>,
    ) -> Result<Scenario, Diagnostics> {
        let sources = Sources { name, text, sets };
        // A byte-order mark is not part of the text.
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        let sources = Sources { text: plain, ..sources };
        let (node, wrong) = Node::from_toml(plain);
        if !wrong.is_empty() {
            // What was read around a syntax error is not what the author meant: no further checks.
            let mut errors = Collector::default();
            syntax::explain(plain, wrong, &mut errors);
            return Err(errors.finish(&sources));
        }
        finish(node, &sources, stem, directory, judge)
    }

    /// Checks a scenario that was built or changed in code.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once, by key path.
    pub fn check(&self) -> Result<(), Diagnostics> {
        Self::from_json(self.to_json(), &[], &self.directory).map(drop)
    }

    /// The scenario as a JSON value, with constant defaults filled in and without keys that are not set.
    pub fn to_json(&self) -> Value {
        // Maps with string keys and finite numbers only: this cannot fail.
        let mut value = without_nulls(serde_json::to_value(self).unwrap_or_default());
        if let Value::Object(map) = &mut value {
            map.retain(|_, v| *v != Value::Array(Vec::new()) && *v != Value::Object(Map::new()));
        }
        value
    }

    /// The scenario as TOML, normalised: without comments, with defaults filled in. Reading it gives the same scenario.
    pub fn to_toml(&self) -> String {
        let mut document = match toml_edit::ser::to_document(&self.to_json()) {
            Ok(document) => document,
            // Only of one that `check` refuses, as with a seed above `LARGEST_SEED`.
            Err(error) => {
                let why = error.to_string().replace('\n', " ");
                return format!("# This scenario cannot be written as TOML: {why}\n");
            }
        };
        for (_, item) in document.as_table_mut().iter_mut() {
            let value = std::mem::take(item);
            *item = match value {
                toml_edit::Item::Value(toml_edit::Value::Array(array))
                    if !array.is_empty() && array.iter().all(toml_edit::Value::is_inline_table) =>
                {
                    let tables = array.into_iter().filter_map(|value| match value {
                        toml_edit::Value::InlineTable(table) => Some(table.into_table()),
                        _ => None,
                    });
                    toml_edit::Item::ArrayOfTables(tables.collect())
                }
                toml_edit::Item::Value(toml_edit::Value::InlineTable(table)) => {
                    toml_edit::Item::Table(table.into_table())
                }
                other => other,
            };
        }
        document.to_string()
    }

    /// "sha256:..." of the canonical JSON: keys sorted, no white space, no keys that are not set. Files that the scenario reads count by
    /// their contents, not their names; a file that cannot be read counts by its name.
    pub fn scenario_hash(&self) -> String {
        files::sha256(sorted(self.with_contents().to_json()).to_string().as_bytes())
    }
}

/// Turns a document into a scenario: applies `--set`, checks the schema, fills the structs, checks the meaning.
fn finish(
    mut node: Node,
    sources: &Sources<'_>,
    stem: &str,
    directory: &Path,
    judge: Option<Judge>,
) -> Result<Scenario, Diagnostics> {
    let schema = json_schema();
    let mut errors = Collector::default();
    let mut notes = Vec::new();
    set::apply(&mut node, sources.sets, &mut errors, &mut |node| {
        for Renamed { was, now, place } in short::write_out(schema, node) {
            notes.push(sources.at(&place, &format!("`{was}` is now called `{now}`")));
        }
    });
    name_after_file(&mut node, stem);
    check::check(schema, &node, &mut errors);
    cc_names::check(&node, &mut errors);
    let mut wrong = errors.paths();
    let sound = sound(schema, &node, &mut wrong);
    match serde_json::from_value::<Scenario>(sound.to_json()) {
        Ok(mut scenario) => {
            scenario.directory = directory.to_path_buf();
            scenario.place_guests();
            scenario.notes = notes;
            let mut meaning = Collector::default();
            let expanded = semantics::check(&scenario, &node, &mut meaning);
            if let Some(judge) = judge {
                expect::check(judge, &scenario, expanded.as_ref(), &node, &wrong, &mut meaning);
            }
            // Leave out errors that only follow from one already reported.
            errors.append_unrelated(meaning, &wrong);
            if errors.is_empty() { Ok(scenario) } else { Err(errors.finish(sources)) }
        }
        Err(error) => {
            if errors.is_empty() {
                errors.about(&node, &[], error.to_string(), Vec::new());
            }
            Err(errors.finish(sources))
        }
    }
}

/// Fills in a missing name from the file's name, without its extension and without dots at the start: as much of it as can be a name.
fn name_after_file(node: &mut Node, file: &str) {
    if let Data::Table(table) = &mut node.data
        && table.value("name").is_none_or(|value| value.data == Data::Null)
    {
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        let plain: String = stem
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
            .skip_while(|c| *c == '.')
            .take(semantics::LONGEST_NAME)
            .collect();
        let name = if plain.is_empty() { "scenario".to_owned() } else { plain };
        stand_in(table, "name", &name);
    }
}

/// The document without its wrong values, so that the meaning of the rest can be checked too. What lacks a key that it needs after that goes, too,
/// and is added to `wrong`: a jitter without the `max` that could not be read is none.
fn sound(schema: &Value, node: &Node, wrong: &mut Vec<Vec<Step>>) -> Node {
    loop {
        let pruned = pruned(node, wrong);
        if wrong.is_empty() {
            return pruned;
        }
        let mut left = Collector::default();
        check::check(schema, &pruned, &mut left);
        let holds_wrong =
            |path: &Vec<Step>| wrong.iter().any(|w| w.len() > path.len() && w.starts_with(path));
        let lacking: Vec<Vec<Step>> = left
            .paths()
            .into_iter()
            .filter(|path| !path.is_empty() && holds_wrong(path) && !wrong.contains(path))
            .collect();
        if lacking.is_empty() {
            return pruned;
        }
        wrong.extend(lacking);
    }
}

/// The document without what `wrong` leads to. Required keys get placeholder values, and errors about those are left out (see
/// `append_unrelated`).
fn pruned(node: &Node, wrong: &[Vec<Step>]) -> Node {
    let mut pruned = node.clone();
    for path in wrong {
        let mut path = path.as_slice();
        // A wrong entry removes its whole list, except in the lists of links, hosts and flows.
        while let [rest @ .., Step::Index(_)] = path
            && !matches!(rest, [Step::Key(list)] if STAND_INS.iter().any(|(name, _)| name == list))
        {
            path = rest;
        }
        if let Some((Step::Key(last), parents)) = path.split_last()
            && let Some(table) = table_at(&mut pruned, parents)
        {
            table.0.retain(|entry| entry.key != *last);
        }
    }
    if !wrong.is_empty()
        && let Data::Table(table) = &mut pruned.data
    {
        stand_in(table, "duration", "100000h");
        for (list, keys) in STAND_INS {
            let Some(Data::Array(items)) = table.value_mut(list).map(|node| &mut node.data) else { continue };
            for item in items {
                if item.table().is_none() {
                    item.data = Data::Table(Table::default());
                }
                if let Data::Table(entry) = &mut item.data {
                    keys.iter().for_each(|key| stand_in(entry, key, "?"));
                }
            }
        }
    }
    pruned
}

/// The lists whose entries stay where they are if something in them is wrong, and the keys that these need.
const STAND_INS: [(&str, &[&str]); 3] = [("flow", &["from", "to"]), ("host", &["name"]), ("link", &[])];

/// Gives `table` a value for `key` if it has none.
fn stand_in(table: &mut Table, key: &str, text: &str) {
    if table.value(key).is_none_or(|value| value.data == Data::Null) {
        let value = Node { place: Place::Unknown, data: Data::Text(text.to_owned()) };
        table.0.retain(|entry| entry.key != key);
        table.0.push(Entry { key: key.to_owned(), place: Place::Unknown, value });
    }
}

fn table_at<'a>(node: &'a mut Node, path: &[Step]) -> Option<&'a mut Table> {
    let mut node = node;
    for step in path {
        node = match (step, &mut node.data) {
            (Step::Key(key), Data::Table(table)) => table.value_mut(key)?,
            (Step::Index(index), Data::Array(items)) => items.get_mut(*index)?,
            _ => return None,
        };
    }
    match &mut node.data {
        Data::Table(table) => Some(table),
        _ => None,
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
