//! Changes of a scenario's text by hand. Everything that a change does not touch stays as it is written: comments, order, white space.

use serde::Deserialize;
use serde_json::Value as Json;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::answer::{Answer, Refusal};

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
                _ => {
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
fn remove(document: &mut DocumentMut, list: &str, gone: impl Fn(usize, &dyn TableLike) -> bool) {
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

/// Keys that name nodes, by list.
const NAMED: [(&str, &[&str]); 3] =
    [("link", &["between", "from", "to"]), ("host", &["name"]), ("flow", &["from", "to", "via"])];

/// The keys of a `[[host.program]]` in whose texts nodes stand in braces for their addresses.
const ADDRESSED: [&str; 3] = ["command", "environment", "ready"];

/// The key of a `[[change]]` that names a link by its ends: "a-b" or "a>b".
const CHANGED: (&str, &str) = ("change", "link");

/// How a link that is called by its two ends, one of which is `node`, is called if that node has another name; none for other links.
fn with_end(link: &str, node: &str, name: &str) -> Option<String> {
    let first = link.strip_prefix(node).filter(|rest| rest.starts_with(['-', '>']));
    let second = link.strip_suffix(node).filter(|rest| rest.ends_with(['-', '>']));
    first.map(|rest| format!("{name}{rest}")).or(second.map(|rest| format!("{rest}{name}")))
}

/// Whether a text is the name that a `[[link]]` gives itself.
fn is_own_name(document: &DocumentMut, text: &str) -> bool {
    let links = document.get("link").map(entries).unwrap_or_default();
    links.iter().any(|link| link.get("name").and_then(Item::as_str) == Some(text))
}

fn names(table: &dyn TableLike, keys: &[&str], name: &str) -> bool {
    keys.iter().filter_map(|key| table.get(key)).any(|item| match item {
        Item::Value(Value::String(text)) => text.value() == name,
        Item::Value(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(name)),
        _ => false,
    })
}

/// Replaces a text. What stands around it stays.
fn put_text(value: &mut Value, text: &str) {
    let decor = value.decor().clone();
    *value = Value::from(text);
    *value.decor_mut() = decor;
}

/// A text of a program with another name for a node, whose addresses are `{NAME}` and `{NAME:6}` there. `${NAME}` is left to the shell.
fn with_address_of(text: &str, from: &str, to: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, braced) = rest.split_at(at);
        new.push_str(before);
        new.push('{');
        rest = &braced[1..];
        let behind =
            rest.strip_prefix(from).filter(|behind| behind.starts_with('}') || behind.starts_with(":6}"));
        if let Some(behind) = behind.filter(|_| !before.ends_with('$')) {
            new.push_str(to);
            rest = behind;
        }
    }
    new + rest
}

/// Gives a node another name in all texts of a program's key.
fn rename_in(item: &mut Item, from: &str, to: &str) {
    match item {
        Item::Value(value) => rename_in_value(value, from, to),
        Item::Table(table) => table.iter_mut().for_each(|(_, item)| rename_in(item, from, to)),
        _ => {}
    }
}

fn rename_in_value(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename_in_value(item, from, to)),
        Value::InlineTable(table) => table.iter_mut().for_each(|(_, item)| rename_in_value(item, from, to)),
        Value::String(_) => {
            let old = value.as_str().unwrap_or_default();
            let new = with_address_of(old, from, to);
            if new == old {
                return;
            }
            // As it is written, with its quotation marks and lines, if that gives the same text.
            let bare = value.clone().decorated("", "").to_string();
            let written = with_address_of(&bare, from, to).parse::<Value>().ok();
            match written.filter(|written| written.as_str() == Some(new.as_str())) {
                Some(mut written) => {
                    *written.decor_mut() = value.decor().clone();
                    *value = written;
                }
                None => put_text(value, &new),
            }
        }
        _ => {}
    }
}

fn rename(document: &mut DocumentMut, from: &str, to: &str) -> Answer<()> {
    let renamed = |value: &mut Value| {
        if value.as_str() == Some(from) {
            put_text(value, to);
        }
    };
    if to.is_empty() {
        return Err(Refusal::bad("a node needs a name"));
    }
    let taken = NAMED.iter().any(|(list, keys)| {
        document.get(list).map(entries).unwrap_or_default().iter().any(|table| names(*table, keys, to))
    });
    if taken {
        return Err(Refusal::bad(format!("there is a node `{to}` already")));
    }
    for (list, keys) in NAMED {
        let Some(item) = document.get_mut(list) else { continue };
        for table in entries_mut(item) {
            for key in keys {
                match table.get_mut(key) {
                    Some(Item::Value(Value::Array(items))) => items.iter_mut().for_each(renamed),
                    Some(Item::Value(value)) => renamed(value),
                    _ => {}
                }
            }
        }
    }
    for host in document.get_mut("host").map(entries_mut).unwrap_or_default() {
        for program in host.get_mut("program").map(entries_mut).unwrap_or_default() {
            for key in ADDRESSED {
                if let Some(item) = program.get_mut(key) {
                    rename_in(item, from, to);
                }
            }
        }
    }
    let own: Vec<String> = changed_links(document).filter(|link| is_own_name(document, link)).collect();
    let (list, key) = CHANGED;
    for table in document.get_mut(list).map(entries_mut).unwrap_or_default() {
        if let Some(Item::Value(value)) = table.get_mut(key)
            && let Some(link) = value.as_str().filter(|link| !own.iter().any(|own| own == link))
            && let Some(called) = with_end(link, from, to)
        {
            put_text(value, &called);
        }
    }
    Ok(())
}

/// The links that changes name.
fn changed_links(document: &DocumentMut) -> impl Iterator<Item = String> {
    let (list, key) = CHANGED;
    let changes = document.get(list).map(entries).unwrap_or_default();
    changes.into_iter().filter_map(move |change| Some(change.get(key)?.as_str()?.to_owned()))
}

fn remove_node(document: &mut DocumentMut, name: &str) {
    // Before its links go: they may have names of their own, by which changes call them.
    let links = document.get("link").map(entries).unwrap_or_default();
    let (_, ends) = NAMED[0];
    let going = links.iter().filter(|link| names(**link, ends, name));
    let gone: Vec<String> = going.filter_map(|link| Some(link.get("name")?.as_str()?.to_owned())).collect();
    let kept: Vec<String> =
        changed_links(document).filter(|link| is_own_name(document, link) && !gone.contains(link)).collect();
    let (list, key) = CHANGED;
    remove(document, list, |_, change| {
        change.get(key).and_then(Item::as_str).is_some_and(|link| {
            gone.iter().any(|own| own == link)
                || (!kept.iter().any(|own| own == link) && with_end(link, name, "").is_some())
        })
    });
    for (list, keys) in NAMED {
        remove(document, list, |_, table| names(table, keys, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# What it is about\nduration = \"9s\"   # not long\n\n# the slow one\n[[link]]\nbetween = [\"a\", \"b\"] # both\nrate = \"1Mbit/s\"\nqueue = \"20p\"\n\n[[flow]]\nfrom = \"a\" # here\nto = \"b\"\n";

    fn done(text: &str, changes: Json) -> String {
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
    fn programs_follow_the_nodes_whose_addresses_they_use() {
        let rename = serde_json::json!([{"do": "rename", "from": "server", "to": "web"}]);
        let text = "[[host]]\nname = \"client\"\n\n[[host.program]]\ncommand = [\"curl\", 'http://{server}:80/{server2}'] # once\nready = \"prints {server}\"\n\n\
            [host.program.environment]\nSIX = \"{server:6}\"\n\n[[host.program]]\ncommand = \"\"\"\nping {server} \\\n  && echo ${server}\"\"\"\n";
        let renamed = text.replace("{server}", "{web}").replace("{server:6}", "{web:6}");
        // A variable of the shell is no node.
        let renamed = renamed.replace("${web}", "${server}");
        assert_eq!(done(text, rename.clone()), renamed);
        let inline = "host = [{ name = \"client\", program = [{ command = \"ping {server}\", environment = { TO = \"{server}\" } }] }]\n";
        assert_eq!(done(inline, rename), inline.replace("{server}", "{web}"));
    }

    #[test]
    fn changes_follow_the_nodes_of_their_links() {
        let changes = "\n[[link]]\nname = \"a-fast\"\nbetween = [\"b\", \"c\"]\n\n[[change]]\nlink = \"a-b\" # both\n\n[[change]]\nlink = \"b>a\"\n\n[[change]]\nlink = \"a-fast\"\n";
        let text = format!("{TEXT}{changes}");
        let renamed = done(&text, serde_json::json!([{"do": "rename", "from": "a", "to": "x"}]));
        assert!(renamed.contains("link = \"x-b\" # both") && renamed.contains("link = \"b>x\""), "{renamed}");
        assert!(renamed.contains("link = \"a-fast\""), "{renamed}");
        let left = |node: &str| {
            let text = done(&text, serde_json::json!([{"do": "remove-node", "name": node}]));
            text.matches("[[change]]").count()
        };
        assert_eq!([left("a"), left("b"), left("c")], [1, 0, 2]);
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
