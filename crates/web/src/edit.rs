//! Changes of a scenario's text by hand. Everything that a change does not touch stays as it is written: comments, order, white space.

use serde::Deserialize;
use serde_json::Value as Json;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::answer::{Answer, Refusal};
use crate::naming::{remove_node, rename};

/// A step to a key: its name, or its number in a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Step {
    Number(usize),
    Key(String),
}

/// What to change.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Change {
    /// Gives a key a value; none takes the key away. A value can be written as in TOML, too.
    Set { path: Vec<Step>, value: Option<Json>, toml: Option<String> },
    /// Adds an entry to a list, "link" or "flow" or "host".
    Add { list: String, entry: serde_json::Map<String, Json> },
    /// Removes an entry of a list.
    Remove { list: String, number: usize },
    /// Gives a node another name, wherever it is named.
    Rename { from: String, to: String },
    /// Removes a node with its links and flows.
    RemoveNode { name: String },
}

/// Changes a text.
///
/// # Errors
/// If it is not TOML, or the path leads nowhere.
pub(crate) fn change(text: &str, changes: &[Change]) -> Answer<String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Refusal::bad(format!("the text is not TOML: {}", error.message()))
    })?;
    for change in changes {
        match change {
            Change::Set { path, value, toml } => {
                let written = toml.as_deref().map(written).transpose()?;
                set(&mut document, path, written.or_else(|| value.as_ref().and_then(value_of)))?;
            }
            Change::Add { list, entry } => add(&mut document, list, entry)?,
            Change::Remove { list, number } => remove(&mut document, list, |at, _| at == *number),
            Change::Rename { from, to } => rename(&mut document, from, to)?,
            Change::RemoveNode { name } => remove_node(&mut document, name),
        }
    }
    Ok(document.to_string())
}

/// The entries of a list, which is written as tables or as an array of inline tables.
pub(crate) fn entries(item: &Item) -> Vec<&dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        Item::Value(Value::Array(items)) => {
            items.iter().filter_map(Value::as_inline_table).map(|table| table as &dyn TableLike).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn entries_mut(item: &mut Item) -> Vec<&mut dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.iter_mut().map(|table| table as &mut dyn TableLike).collect(),
        Item::Value(Value::Array(items)) => items
            .iter_mut()
            .filter_map(Value::as_inline_table_mut)
            .map(|table| table as &mut dyn TableLike)
            .collect(),
        _ => Vec::new(),
    }
}

/// A value as TOML; none for null, which TOML does not have.
fn value_of(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(truth) => Value::from(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            (None, float) => Value::from(float.unwrap_or_default()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            let mut array: Array = items.iter().filter_map(value_of).collect();
            array.fmt();
            Value::Array(array)
        }
        Json::Object(map) => {
            let mut table: InlineTable =
                map.iter().filter_map(|(key, value)| Some((key.as_str(), value_of(value)?))).collect();
            table.fmt();
            Value::InlineTable(table)
        }
    })
}

/// A value as TOML has it.
fn written(text: &str) -> Answer<Value> {
    text.trim().parse().map(|value: Value| value.decorated("", "")).map_err(|_| {
        Refusal::bad(format!("{text:?} is not written as in TOML: texts stand in quotation marks, lists in brackets, tables in braces"))
    })
}

fn nowhere(path: &[Step]) -> Refusal {
    let words: Vec<String> = path
        .iter()
        .map(|step| match step {
            Step::Number(number) => number.to_string(),
            Step::Key(key) => key.clone(),
        })
        .collect();
    Refusal::bad(format!("the scenario has no place for `{}`", words.join(".")))
}

/// Goes a step down. A key that is missing becomes a table within the line; a short form ("droptail") a table with its kind.
fn down<'a>(item: &'a mut Item, step: &Step) -> Option<&'a mut Item> {
    match step {
        Step::Number(number) => item.get_mut(*number),
        Step::Key(key) => {
            if let Item::Value(Value::String(kind)) = item {
                let kind = kind.value().clone();
                *item = Item::Value(Value::InlineTable([("kind", kind)].into_iter().collect()));
            }
            let table = item.as_table_like_mut()?;
            if !table.contains_key(key) {
                table.insert(key, Item::Value(Value::InlineTable(InlineTable::new())));
            }
            table.get_mut(key)
        }
    }
}

/// Goes down to a value of an array, which is no item.
fn set(document: &mut DocumentMut, path: &[Step], value: Option<Value>) -> Answer<()> {
    let Some((Step::Key(last), above)) = path.split_last() else { return Err(nowhere(path)) };
    // An array's entries are values, which `Item` does not lead to: the entry is taken out, changed, and put back.
    let split = above.iter().position(|step| matches!(step, Step::Number(_)));
    let table = |item: &mut Item, rest: &[Step]| -> Answer<()> {
        let mut at = item;
        for step in rest {
            at = down(at, step).ok_or_else(|| nowhere(path))?;
        }
        put(at, last, value.clone()).ok_or_else(|| nowhere(path))
    };
    if let Some(split) = split
        && let Step::Number(number) = above[split]
    {
        let mut at = document.as_item_mut();
        for step in &above[..split] {
            at = down(at, step).ok_or_else(|| nowhere(path))?;
        }
        if let Item::Value(Value::Array(items)) = at {
            let entry = items.get_mut(number).ok_or_else(|| nowhere(path))?;
            let mut item = Item::Value(entry.clone());
            table(&mut item, &above[split + 1..])?;
            *entry = item.into_value().map_err(|_| nowhere(path))?;
            return Ok(());
        }
    }
    table(document.as_item_mut(), above)
}

/// Sets or removes a key of a table. What stands around the value (a comment at the line's end) stays.
fn put(item: &mut Item, key: &str, value: Option<Value>) -> Option<()> {
    if let Item::Value(Value::String(kind)) = item
        && key != "kind"
    {
        let kind = kind.value().clone();
        *item = Item::Value(Value::InlineTable([("kind", kind)].into_iter().collect()));
    }
    let inline = item.is_inline_table();
    let table = item.as_table_like_mut()?;
    match value {
        None => {
            table.remove(key);
        }
        Some(mut value) => {
            match table.get_mut(key) {
                Some(Item::Value(old)) => {
                    *value.decor_mut() = old.decor().clone();
                    *old = value;
                }
                // A table of its own, with its head and its comments: what is given is put into it, and the rest removed.
                Some(Item::Table(old)) if value.is_inline_table() => {
                    let new = value.as_inline_table()?;
                    let gone: Vec<String> = old
                        .iter()
                        .map(|(key, _)| key.to_owned())
                        .filter(|key| !new.contains_key(key))
                        .collect();
                    for key in gone {
                        old.remove(&key);
                    }
                    for (key, value) in new.iter() {
                        match old.get_mut(key) {
                            Some(Item::Value(there))
                                if there.to_string().trim() == value.to_string().trim() => {}
                            Some(Item::Value(there)) => {
                                let decor = there.decor().clone();
                                *there = value.clone();
                                *there.decor_mut() = decor;
                            }
                            _ => {
                                old.insert(key, Item::Value(value.clone().decorated(" ", "")));
                            }
                        }
                    }
                }
                _ => {
                    table.insert(key, Item::Value(value));
                }
            }
        }
    }
    if inline && let Some(table) = item.as_inline_table_mut() {
        table.fmt();
    }
    Some(())
}

/// Adds an entry at the end of a list.
fn add(document: &mut DocumentMut, list: &str, entry: &serde_json::Map<String, Json>) -> Answer<()> {
    if !["link", "host", "flow"].contains(&list) {
        return Err(Refusal::bad(format!("there is no list `{list}`")));
    }
    let values: Vec<(&str, Value)> =
        entry.iter().filter_map(|(key, value)| Some((key.as_str(), value_of(value)?))).collect();
    match document.get_mut(list) {
        Some(Item::Value(Value::Array(items))) => items.push(values.into_iter().collect::<InlineTable>()),
        other => {
            let mut table = Table::new();
            table.decor_mut().set_prefix("\n");
            for (key, value) in values {
                table.insert(key, Item::Value(value));
            }
            match other {
                Some(Item::ArrayOfTables(tables)) => tables.push(table),
                // What somebody has written there is not lost.
                Some(_) => {
                    return Err(Refusal::bad(format!(
                        "`{list}` is no list of tables in the text: write [[{list}]] there first"
                    )));
                }
                None => {
                    let mut tables = ArrayOfTables::new();
                    tables.push(table);
                    document.insert(list, Item::ArrayOfTables(tables));
                }
            }
        }
    }
    Ok(())
}

/// Removes the entries of a list that `gone` says, and the list with its last entry.
pub(crate) fn remove(document: &mut DocumentMut, list: &str, gone: impl Fn(usize, &dyn TableLike) -> bool) {
    let left = match document.get_mut(list) {
        Some(Item::ArrayOfTables(tables)) => {
            for number in (0..tables.len()).rev() {
                if tables.get(number).is_some_and(|table| gone(number, table)) {
                    tables.remove(number);
                }
            }
            tables.len()
        }
        Some(Item::Value(Value::Array(items))) => {
            for number in (0..items.len()).rev() {
                if items.get(number).and_then(Value::as_inline_table).is_some_and(|table| gone(number, table))
                {
                    items.remove(number);
                }
            }
            items.len()
        }
        _ => return,
    };
    if left == 0 {
        document.remove(list);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const TEXT: &str = "# What it is about\nduration = \"9s\"   # not long\n\n# the slow one\n[[link]]\nbetween = [\"a\", \"b\"] # both\nrate = \"1Mbit/s\"\nqueue = \"20p\"\n\n[[flow]]\nfrom = \"a\" # here\nto = \"b\"\n";

    pub(crate) fn done(text: &str, changes: Json) -> String {
        let changes: Vec<Change> = serde_json::from_value(changes).unwrap();
        change(text, &changes).unwrap()
    }

    #[test]
    fn a_value_is_changed_and_nothing_else() {
        let text = done(TEXT, serde_json::json!([{"do": "set", "path": ["duration"], "value": "1min"}]));
        assert_eq!(text, TEXT.replace("\"9s\"", "\"1min\""));
        let text =
            done(TEXT, serde_json::json!([{"do": "set", "path": ["link", 0, "rate"], "value": "2Mbit/s"}]));
        assert_eq!(text, TEXT.replace("1Mbit/s", "2Mbit/s"));
        // Taken away and given again.
        let gone = done(TEXT, serde_json::json!([{"do": "set", "path": ["link", 0, "queue"]}]));
        assert_eq!(gone, TEXT.replace("queue = \"20p\"\n", ""));
        let text =
            done(&gone, serde_json::json!([{"do": "set", "path": ["link", 0, "queue"], "value": "20p"}]));
        assert_eq!(text, TEXT);
    }

    #[test]
    fn tables_grow_where_there_were_none() {
        let text = done(
            TEXT,
            serde_json::json!([
                {"do": "set", "path": ["clock", "mode"], "value": "real"},
                {"do": "set", "path": ["link", 0, "loss"], "value": {"kind": "bernoulli", "probability": 0.01}},
                {"do": "set", "path": ["flow", 0, "tcp", "ecn"], "value": true},
            ]),
        );
        assert!(text.contains("clock = { mode = \"real\" }"), "{text}");
        assert!(text.contains("loss = { kind = \"bernoulli\", probability = 0.01 }\n"), "{text}");
        assert!(text.contains("tcp = { ecn = true }\n"), "{text}");
        // The new key stands before the first table, where TOML wants it.
        assert!(text.find("clock").unwrap() < text.find("[[link]]").unwrap(), "{text}");
        assert!(text.starts_with("# What it is about\nduration = \"9s\"   # not long\n"), "{text}");
        // A parameter of a short form.
        let text = done(
            "queue = \"codel\"\n",
            serde_json::json!([{"do": "set", "path": ["queue", "target"], "value": "5ms"}]),
        );
        assert_eq!(text, "queue = { kind = \"codel\", target = \"5ms\" }\n");
    }

    #[test]
    fn a_table_with_a_head_of_its_own_keeps_it() {
        let text = "[topology.bottleneck.queue]\nkind = \"droptail\" # first come\nlimit = \"1BDP\"\n";
        let changed = done(
            text,
            serde_json::json!([
                {"do": "set", "path": ["topology", "bottleneck", "queue"], "value": {"kind": "droptail", "limit": "5p"}},
            ]),
        );
        assert_eq!(changed, text.replace("1BDP", "5p"));
    }

    #[test]
    fn entries_are_added_and_removed() {
        let text = done(
            TEXT,
            serde_json::json!([
                {"do": "add", "list": "link", "entry": {"between": ["b", "c"], "rate": "1Mbit/s"}},
                {"do": "add", "list": "host", "entry": {"name": "c"}},
            ]),
        );
        assert!(
            text.contains("queue = \"20p\"\n\n[[link]]\nbetween = [\"b\", \"c\"]\nrate = \"1Mbit/s\"\n"),
            "{text}"
        );
        assert!(text.contains("[[host]]\nname = \"c\"\n"), "{text}");
        let back = done(&text, serde_json::json!([{"do": "remove-node", "name": "c"}]));
        assert_eq!(back, TEXT);
        let text = done(TEXT, serde_json::json!([{"do": "remove", "list": "flow", "number": 0}]));
        assert!(!text.contains("flow") && text.contains("# the slow one"), "{text}");
        // A list that is written in one line.
        let inline = "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\n";
        let text = done(
            inline,
            serde_json::json!([
                {"do": "add", "list": "link", "entry": {"between": ["b", "c"]}},
                {"do": "set", "path": ["link", 0, "delay"], "value": "1ms"},
                {"do": "set", "path": ["link", 1, "rate"], "value": "5Mbit/s"},
            ]),
        );
        let parsed: DocumentMut = text.parse().unwrap();
        assert_eq!(entries(&parsed["link"]).len(), 2, "{text}");
        assert!(text.contains("delay = \"1ms\"") && text.contains("rate = \"5Mbit/s\""), "{text}");
    }

    #[test]
    fn a_node_is_renamed_everywhere() {
        let text = done(TEXT, serde_json::json!([{"do": "rename", "from": "a", "to": "client"}]));
        assert_eq!(text, TEXT.replace("\"a\"", "\"client\""));
        let changes: Vec<Change> =
            serde_json::from_value(serde_json::json!([{"do": "rename", "from": "a", "to": "b"}])).unwrap();
        assert!(change(TEXT, &changes).unwrap_err().message.contains("already"));
    }

    #[test]
    fn a_table_in_place_of_a_list_is_kept() {
        let changes = serde_json::json!([{"do": "add", "list": "host", "entry": {"name": "b"}}]);
        let changes: Vec<Change> = serde_json::from_value(changes).unwrap();
        let message = change("[host]\nname = \"a\"\n", &changes).unwrap_err().message;
        assert!(message.contains("[[host]]"), "{message}");
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for path in [
            serde_json::json!(["link", 7, "rate"]),
            serde_json::json!([]),
            serde_json::json!(["duration", 3]),
        ] {
            let changes: Vec<Change> =
                serde_json::from_value(serde_json::json!([{"do": "set", "path": path, "value": 1}])).unwrap();
            assert_eq!(change(TEXT, &changes).unwrap_err().status, 400);
        }
        assert_eq!(change("a = ", &[]).unwrap_err().status, 400);
    }
}
