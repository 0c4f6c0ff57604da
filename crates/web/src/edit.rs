//! Changes of a scenario's text by hand. Everything that a change does not touch stays as it is written: comments, order, white space.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value as Json;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};
use warpline_scenario::Until;
use warpline_scenario::addresses::variables;

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

/// How the texts of a key name nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// A text is a node's name.
    Node,
    /// A text calls a link, maybe by its ends: "a-b" or "a>b".
    Link,
    /// A text compares a measure, maybe that of a link: `link[a>b].drops < 3`.
    Measure,
    /// A text calls a program, maybe by its host: "a.client" or "a".
    Program,
    /// A text says that a program exits: "a.client exits".
    Exit,
    /// A text of a program has addresses: `{a}`, `{a:6}`, `$WARPLINE_ADDR_A`.
    Addresses,
    /// A text is the name of a machine, which may be that of the guest for which it was made.
    Machine,
    /// A text is a command of tc(8). The interfaces of a router have the names of its neighbours.
    Interface,
}

/// All keys whose texts name nodes, each with the way to it.
const NAMED: [(&[&str], Naming); 17] = [
    (&["link", "between"], Naming::Node),
    (&["link", "from"], Naming::Node),
    (&["link", "to"], Naming::Node),
    (&["host", "name"], Naming::Node),
    (&["flow", "from"], Naming::Node),
    (&["flow", "to"], Naming::Node),
    (&["flow", "via"], Naming::Node),
    (&["flow", "multipath", "paths"], Naming::Node),
    (&["change", "link"], Naming::Link),
    (&["expect"], Naming::Measure),
    (&["until"], Naming::Exit),
    (&["host", "program", "after"], Naming::Program),
    (&["host", "program", "command"], Naming::Addresses),
    (&["host", "program", "environment"], Naming::Addresses),
    (&["host", "program", "ready"], Naming::Addresses),
    (&["host", "machine"], Naming::Machine),
    (&["host", "tc"], Naming::Interface),
];

/// The lists whose entries go with a node that they name.
const BOUND: [&str; 3] = ["link", "host", "flow"];

/// The entries of a list of this name.
fn list<'a>(document: &'a DocumentMut, name: &str) -> Vec<&'a dyn TableLike> {
    document.get(name).map(entries).unwrap_or_default()
}

fn text<'a>(table: &'a dyn TableLike, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Item::as_str)
}

/// Whether an entry of a list names a node.
fn names(list: &str, entry: &dyn TableLike, node: &str) -> bool {
    let mut keys = NAMED.iter().filter(|(_, naming)| *naming == Naming::Node);
    keys.any(|(path, _)| {
        path.split_first().is_some_and(|(first, below)| *first == list && has_text(entry, below, node))
    })
}

/// Whether this text is at a path, by itself or in a list.
fn has_text(table: &dyn TableLike, path: &[&str], text: &str) -> bool {
    let Some((key, below)) = path.split_first() else { return false };
    match table.get(key) {
        Some(Item::Value(value)) if below.is_empty() => is_among(value, text),
        Some(item) => item.as_table_like().is_some_and(|table| has_text(table, below, text)),
        None => false,
    }
}

fn is_among(value: &Value, text: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| is_among(item, text)),
        other => other.as_str() == Some(text),
    }
}

/// Whether a text is the name that a `[[link]]` gives itself.
fn is_own_name(document: &DocumentMut, called: &str) -> bool {
    list(document, "link").into_iter().any(|link| text(link, "name") == Some(called))
}

/// The two nodes by which a text calls a link, "a>b" or "a-b"; none if it does not call one by its ends.
fn ends_called<'a>(document: &DocumentMut, called: &'a str) -> Option<(&'a str, &'a str)> {
    if called.contains('>') {
        return called.split_once('>');
    }
    if is_own_name(document, called) {
        return None;
    }
    let links = list(document, "link");
    let joins =
        |a: &str, b: &str| links.iter().any(|link| names("link", *link, a) && names("link", *link, b));
    // Names of nodes may have dashes of their own: at one of the dashes, both sides are the ends of a link.
    let mut sides = called.match_indices('-').map(|(at, _)| (&called[..at], &called[at + 1..]));
    sides.find(|&(a, b)| joins(a, b))
}

/// All programs: the host of each, and the name that it has itself.
fn programs(document: &DocumentMut) -> Vec<(&str, Option<&str>)> {
    let mut all = Vec::new();
    for host in list(document, "host") {
        let Some(name) = text(host, "name") else { continue };
        let own = host.get("program").map(entries).unwrap_or_default();
        all.extend(own.into_iter().map(|program| (name, text(program, "name"))));
    }
    all
}

/// Another name for a node.
struct Renaming<'a> {
    /// The scenario with the old name, which says what texts stand for.
    before: DocumentMut,
    from: &'a str,
    to: &'a str,
}

impl Renaming<'_> {
    /// What a text becomes; none if it stays.
    fn of(&self, naming: Naming, text: &str) -> Option<String> {
        match naming {
            Naming::Node => (text == self.from).then(|| self.to.to_owned()),
            Naming::Link => self.link(text),
            Naming::Measure => self.measure(text),
            Naming::Program => self.program(text),
            Naming::Exit => {
                let program = Until::program(text)?;
                Some(text.replacen(program, &self.program(program)?, 1))
            }
            Naming::Addresses => Some(self.addresses(text)),
            Naming::Machine => (text == self.from && self.has_machine()).then(|| self.to.to_owned()),
            Naming::Interface => Some(self.interface(text)),
        }
    }

    fn link(&self, called: &str) -> Option<String> {
        let (first, second) = ends_called(&self.before, called)?;
        let sign = &called[first.len()..called.len() - second.len()];
        let [first, second] = [first, second].map(|end| if end == self.from { self.to } else { end });
        Some(format!("{first}{sign}{second}"))
    }

    fn measure(&self, condition: &str) -> Option<String> {
        // The last sign compares: a link's name has a ">" of its own.
        let measure = &condition[..condition.rfind(['<', '>'])?];
        let rest = measure.trim_start().strip_prefix("link")?.strip_prefix(['[', '.'])?;
        // The column stands behind the last dot: names may have dots of their own.
        let (name, _) = rest.rsplit_once('.')?;
        let name = name.strip_suffix(']').unwrap_or(name);
        let at = measure.len() - rest.len();
        Some(format!("{}{}{}", &condition[..at], self.link(name)?, &condition[at + name.len()..]))
    }

    fn program(&self, called: &str) -> Option<String> {
        let programs = programs(&self.before);
        let is_name = |text: &str| programs.iter().any(|(_, name)| *name == Some(text));
        let has_program = |label: &str| {
            let mut own = programs.iter().filter(|(host, _)| *host == self.from).enumerate();
            own.any(|(number, (_, name))| name.map_or(label == number.to_string(), |name| label == name))
        };
        let label = match called.strip_prefix(self.from)? {
            // A program of this name comes before the host.
            "" if is_name(called) => return None,
            "" if !is_name(self.to) => return Some(self.to.to_owned()),
            // The new name alone would be another program.
            "" => programs.iter().find(|(host, _)| *host == self.from)?.1.unwrap_or("0"),
            // Names of nodes may have dots: without such a program, it is another host.
            rest => rest.strip_prefix('.').filter(|label| has_program(label))?,
        };
        Some(format!("{}.{label}", self.to))
    }

    fn addresses(&self, text: &str) -> String {
        let mut new = with_address_of(text, self.from, self.to);
        for (from, to) in variables(self.from).iter().zip(&variables(self.to)) {
            new = with_variable(&new, from, to);
        }
        new
    }

    /// Whether the node is a guest whose machine has its name.
    fn has_machine(&self) -> bool {
        list(&self.before, "host").into_iter().any(|host| {
            let is_guest = text(host, "endpoint") == Some("guest") && !host.contains_key("machine");
            is_guest && text(host, "name") == Some(self.from)
        })
    }

    fn interface(&self, command: &str) -> String {
        let mut new = String::with_capacity(command.len());
        let mut before = "";
        for part in command.split_inclusive(char::is_whitespace) {
            let word = part.trim_end();
            let is_named = before == "dev" && word == self.from;
            new.push_str(if is_named { self.to } else { word });
            new.push_str(&part[word.len()..]);
            // Between two words there may be more than one space.
            if !word.is_empty() {
                before = word;
            }
        }
        new
    }
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

/// A text with another variable in place of one. A longer name in which it stands is left alone.
fn with_variable(text: &str, from: &str, to: &str) -> String {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut new = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(from) {
        let end = at + from.len();
        if !text[..at].ends_with(is_inside) && !text[end..].starts_with(is_inside) {
            new.push_str(&text[done..at]);
            new.push_str(to);
            done = end;
        }
    }
    new + &text[done..]
}

/// Replaces a text. What stands around it stays.
fn put_text(value: &mut Value, text: &str) {
    let decor = value.decor().clone();
    *value = Value::from(text);
    *value.decor_mut() = decor;
}

/// Changes all texts at a path and below it, as `new` says; it says none for a text that stays. Lists on the way are gone through.
fn rewrite(item: &mut Item, path: &[&str], new: &dyn Fn(&str) -> Option<String>) {
    match item {
        Item::Value(value) => rewrite_value(value, path, new),
        Item::Table(table) => rewrite_table(table, path, new),
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| rewrite_table(table, path, new)),
        Item::None => {}
    }
}

fn rewrite_table(table: &mut dyn TableLike, path: &[&str], new: &dyn Fn(&str) -> Option<String>) {
    match path.split_first() {
        Some((key, below)) => {
            if let Some(item) = table.get_mut(key) {
                rewrite(item, below, new);
            }
        }
        None => table.iter_mut().for_each(|(_, item)| rewrite(item, path, new)),
    }
}

fn rewrite_value(value: &mut Value, path: &[&str], new: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_value(item, path, new)),
        Value::InlineTable(table) => rewrite_table(table, path, new),
        Value::String(_) if path.is_empty() => rewrite_text(value, new),
        _ => {}
    }
}

fn rewrite_text(value: &mut Value, new: &dyn Fn(&str) -> Option<String>) {
    let old = value.as_str().unwrap_or_default();
    let Some(text) = new(old).filter(|text| text != old) else { return };
    // As it is written, with its quotation marks and lines, if that gives the same text.
    let bare = value.clone().decorated("", "").to_string();
    let written = new(&bare).and_then(|written| written.parse::<Value>().ok());
    match written.filter(|written| written.as_str() == Some(text.as_str())) {
        Some(mut written) => {
            *written.decor_mut() = value.decor().clone();
            *value = written;
        }
        None => put_text(value, &text),
    }
}

fn rename(document: &mut DocumentMut, from: &str, to: &str) -> Answer<()> {
    if to.is_empty() {
        return Err(Refusal::bad("a node needs a name"));
    }
    if BOUND.iter().any(|own| list(document, own).into_iter().any(|entry| names(own, entry, to))) {
        return Err(Refusal::bad(format!("there is a node `{to}` already")));
    }
    let renaming = Renaming { before: document.clone(), from, to };
    for (path, naming) in NAMED {
        rewrite(document.as_item_mut(), path, &|text| renaming.of(naming, text));
    }
    Ok(())
}

fn remove_node(document: &mut DocumentMut, name: &str) {
    // Before its links go, which say what changes call by a name.
    let links = list(document, "link").into_iter().filter(|link| names("link", *link, name));
    let going: Vec<&str> = links.filter_map(|link| text(link, "name")).collect();
    let called = list(document, "change").into_iter().filter_map(|change| text(change, "link"));
    let is_gone = |called: &&str| match ends_called(document, called) {
        Some((first, second)) => first == name || second == name,
        None => going.contains(called),
    };
    let gone: BTreeSet<String> = called.filter(is_gone).map(str::to_owned).collect();
    remove(document, "change", |_, change| text(change, "link").is_some_and(|link| gone.contains(link)));
    for own in BOUND {
        remove(document, own, |_, entry| names(own, entry, name));
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

    /// A scenario with a node "@", whose variables end with "%", and others with names that look alike.
    const NAMING: &str = r#"until = ["@.get exits", "ab.0 exits", "get exits"] # all
expect = ["link[@>b].drops < 3", "link.b>@.drops<=3", "link[a-b>b].drops > 3"]
link = [{ between = ["@", "b"] }, { from = "ab", to = "@" }, { between = ["a-b", "b"] }]
change = [{ link = "@-b" }, { link = "b-@" }, { link = "@>b" }, { link = "a-b-b" }, { link = "a-b>b" }]
flow = [{ from = "ab", to = "b", multipath = { paths = [["@"], ["ab", "@"]] } }]

[[host]]
name = "@"
endpoint = "guest"

[[host.program]]
name = "get"
command = ["sh", "-c", "ping $WARPLINE_ADDR_% ${WARPLINE_ADDR6_%} $WARPLINE_ADDR_AB $MY_WARPLINE_ADDR_A"]

[[host]]
name = "ab"
endpoint = "guest"
machine = "@"
forwards = true
tc = ["dev @ root cake", "qdisc add dev  @ root fq", "dev ab root cake"]

[[host.program]]
after = ["@", "get", "@.get", "ab.get"]
command = "ping {@} {ab}"
"#;

    #[test]
    fn every_key_follows_the_node_that_it_names() {
        let text = |node: &str, variable: &str| NAMING.replace('@', node).replace('%', variable);
        let renamed = done(&text("a", "A"), serde_json::json!([{"do": "rename", "from": "a", "to": "x-1"}]));
        assert_eq!(renamed, text("x-1", "X_1"));
    }

    #[test]
    fn a_host_does_not_get_mixed_up_with_a_program_of_its_name() {
        let text = "until = \"a exits\"\n\n[[host]]\nname = \"a\"\n\n[[host.program]]\ncommand = \"x\"\n\n\
            [[host]]\nname = \"b\"\n\n[[host.program]]\nname = \"web\"\ncommand = \"y\"\n";
        let renamed = done(text, serde_json::json!([{"do": "rename", "from": "a", "to": "web"}]));
        let expected = text.replace("\"a exits\"", "\"web.0 exits\"").replace("\"a\"", "\"web\"");
        assert_eq!(renamed, expected);
        // What is called "a" now is a program of the other host.
        let text = text.replace("web", "a");
        let renamed = done(&text, serde_json::json!([{"do": "rename", "from": "a", "to": "c"}]));
        assert_eq!(renamed, text.replacen("name = \"a\"", "name = \"c\"", 1));
    }

    #[test]
    fn a_host_with_a_dot_is_not_a_program_of_another() {
        let text = "until = \"a.b exits\"\n\n[[host]]\nname = \"a\"\n\n[[host.program]]\ncommand = \"x\"\n\n\
            [[host]]\nname = \"a.b\"\n\n[[host.program]]\ncommand = \"y\"\n";
        let renamed = done(text, serde_json::json!([{"do": "rename", "from": "a", "to": "c"}]));
        assert_eq!(renamed, text.replacen("name = \"a\"", "name = \"c\"", 1));
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
