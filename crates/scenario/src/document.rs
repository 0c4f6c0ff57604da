//! A scenario as a tree of values with their places in the text.
//!
//! TOML files, `--set` texts and JSON values from Python all become this tree. It is checked against the schema first, and
//! then turned into the structs. A value that came without text is located by its key path.

use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The place of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// At these bytes of the file.
    File(Range<usize>),
    /// In the `--set` text of this index, at these bytes.
    Set(usize, Range<usize>),
    /// Not in a text (JSON).
    #[default]
    Unknown,
}

/// A syntax error of the TOML parser, and its place.
pub(crate) type SyntaxError = (String, Option<Range<usize>>);

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) data: Data,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Text(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    /// A TOML date or time. No key accepts one.
    Date(String),
    Null,
    Array(Vec<Node>),
    Table(Table),
}

/// A table, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table(pub(crate) Vec<Entry>);

/// A key, its place and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) value: Node,
}

impl Table {
    pub(crate) fn find(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Node> {
        self.find(key).map(|entry| &entry.value)
    }

    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value)
    }
}

impl Node {
    /// Reads TOML and continues after syntax errors, which are returned with their places.
    pub(crate) fn from_toml(text: &str) -> (Node, Vec<SyntaxError>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut errors: Vec<SyntaxError> =
            errors.iter().map(|e| (e.message().to_owned(), e.span())).collect();
        let place = Place::File(table.span());
        let mut tree = Tree { place: &Place::File, unread: Vec::new() };
        let node = Node { place, data: Data::Table(tree.table(table.into_inner())) };
        for number in tree.unread {
            let touches = |span: &Range<usize>| span.start <= number.end && number.start <= span.end;
            // The parser has told of most of them.
            if !errors.iter().any(|(_, span)| span.as_ref().is_some_and(touches)) {
                errors.push(("the number cannot be read".to_owned(), Some(number)));
            }
        }
        (node, errors)
    }

    /// Reads one TOML value from `--set` text number `index`, where it starts at byte `offset`; none if it is no value.
    pub(crate) fn from_toml_value(text: &str, index: usize, offset: usize) -> Option<Node> {
        let value = DeValue::parse(text).ok()?;
        let place = |span: Range<usize>| Place::Set(index, span.start + offset..span.end + offset);
        let mut tree = Tree { place: &place, unread: Vec::new() };
        let node = tree.value(value);
        tree.unread.is_empty().then_some(node)
    }

    /// Turns a JSON value into a tree.
    pub(crate) fn from_json(value: Value) -> Node {
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(b) => Data::Bool(b),
            Value::Number(n) => number_from(&n),
            Value::String(s) => Data::Text(s),
            Value::Array(items) => Data::Array(items.into_iter().map(Node::from_json).collect()),
            Value::Object(map) => Data::Table(Table(
                map.into_iter()
                    .map(|(key, value)| Entry { key, place: Place::Unknown, value: Node::from_json(value) })
                    .collect(),
            )),
        };
        Node { place: Place::Unknown, data }
    }

    /// The same tree with every value at `place`.
    pub(crate) fn placed(mut self, place: &Place) -> Node {
        self.place = place.clone();
        match &mut self.data {
            Data::Array(items) => items.iter_mut().for_each(|item| item.place = place.clone()),
            Data::Table(table) => {
                for entry in &mut table.0 {
                    entry.place = place.clone();
                    let value = std::mem::replace(&mut entry.value.data, Data::Null);
                    entry.value = Node { place: Place::Unknown, data: value }.placed(place);
                }
            }
            _ => {}
        }
        self
    }

    /// The value without places. Nulls in tables are left out, since they mean the same as a missing key.
    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Text(text) | Data::Date(text) => Value::String(text.clone()),
            Data::Integer(n) => match (u64::try_from(*n), i64::try_from(*n)) {
                (Ok(n), _) => Value::from(n),
                (_, Ok(n)) => Value::from(n),
                _ => Value::from(*n as f64),
            },
            Data::Float(x) => Number::from_f64(*x).map_or(Value::Null, Value::Number),
            Data::Bool(b) => Value::Bool(*b),
            Data::Null => Value::Null,
            Data::Array(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Data::Table(table) => Value::Object(
                table
                    .0
                    .iter()
                    .filter(|entry| entry.value.data != Data::Null)
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.data {
            Data::Array(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The node at `path`.
    pub(crate) fn at<'a>(&'a self, path: &[Step]) -> Option<&'a Node> {
        path.iter().try_fold(self, |node, step| match step {
            Step::Key(key) => node.table()?.value(key),
            Step::Index(index) => node.items().get(*index),
        })
    }

    /// The kind of this value in words, with the value itself if it is short.
    pub(crate) fn describe(&self) -> String {
        match &self.data {
            Data::Text(text) if text.chars().count() <= 40 => format!("the string {text:?}"),
            Data::Text(_) => "a string".to_owned(),
            Data::Integer(n) => format!("the number {n}"),
            Data::Float(x) => format!("the number {x}"),
            Data::Bool(b) => format!("{b}"),
            Data::Date(text) => format!("the date {text}"),
            Data::Null => "null".to_owned(),
            Data::Array(_) => "an array".to_owned(),
            Data::Table(_) => "a table".to_owned(),
        }
    }
}

/// One step of a key path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A key of a table.
    Key(String),
    /// An index of an array, from 0.
    Index(usize),
}

/// A step to a key.
pub(crate) fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

/// `[[list]]` entry `index`, and keys below it.
pub(crate) fn entry(list: &str, index: usize, below: &[&str]) -> Vec<Step> {
    let mut path = vec![key(list), Step::Index(index)];
    path.extend(below.iter().map(|name| key(name)));
    path
}

/// The path as text: `link.1.rate`.
pub(crate) fn path_text(path: &[Step]) -> String {
    let steps: Vec<String> = path
        .iter()
        .map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Index(index) => index.to_string(),
        })
        .collect();
    steps.join(".")
}

fn number_from(number: &Number) -> Data {
    match (number.as_i128(), number.as_f64()) {
        (Some(n), _) => Data::Integer(n),
        (None, x) => Data::Float(x.unwrap_or(f64::NAN)),
    }
}

/// What the parser found is made a tree.
struct Tree<'a> {
    /// The place of bytes of the text.
    place: &'a dyn Fn(Range<usize>) -> Place,
    /// Where numbers stand that cannot be read. The parser lets some pass: it takes `1_000s` for a whole number.
    unread: Vec<Range<usize>>,
}

impl Tree<'_> {
    fn table(&mut self, table: DeTable<'_>) -> Table {
        let mut entries: Vec<(usize, Entry)> = table
            .into_iter()
            .map(|(key, value)| {
                let span = key.span();
                let entry = Entry {
                    key: key.into_inner().into_owned(),
                    place: (self.place)(span.clone()),
                    value: self.value(value),
                };
                (span.start, entry)
            })
            .collect();
        entries.sort_by_key(|(start, _)| *start);
        Table(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn value(&mut self, value: Spanned<DeValue<'_>>) -> Node {
        let span = value.span();
        let place = (self.place)(span.clone());
        let data = match value.into_inner() {
            DeValue::String(text) => Data::Text(text.into_owned()),
            DeValue::Integer(n) => {
                self.number(span, i128::from_str_radix(n.as_str(), n.radix()).ok().map(Data::Integer))
            }
            DeValue::Float(x) => self.number(span, x.as_str().parse::<f64>().ok().map(Data::Float)),
            DeValue::Boolean(b) => Data::Bool(b),
            DeValue::Datetime(date) => Data::Date(date.to_string()),
            DeValue::Array(items) => Data::Array(items.into_iter().map(|item| self.value(item)).collect()),
            DeValue::Table(table) => Data::Table(self.table(table)),
        };
        Node { place, data }
    }

    /// The number that was read at `span`, or nothing in its place.
    fn number(&mut self, span: Range<usize>, read: Option<Data>) -> Data {
        read.unwrap_or_else(|| {
            self.unread.push(span);
            Data::Null
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_cannot_be_read_is_an_error_and_no_value() {
        for text in ["1_000s", "0x", "99999999999999999999999999999999999999999999"] {
            let (_, errors) = Node::from_toml(&format!("a = 1\nb = {text}\n"));
            let [(message, span)] = errors.as_slice() else { panic!("{text}: {errors:?}") };
            assert_eq!((message.as_str(), span), ("the number cannot be read", &Some(10..10 + text.len())));
            assert_eq!(Node::from_toml_value(text, 0, 0), None, "{text}");
        }
        // The parser has refused these itself: one error each.
        assert_eq!(Node::from_toml("a = 1.5ms\n").1.len(), 1);
        let data = |text: &str| Node::from_toml_value(text, 0, 0).unwrap().data;
        assert_eq!(data("1_000"), Data::Integer(1000));
        assert_eq!(data("0x1f"), Data::Integer(31));
        assert_eq!(data("-inf"), Data::Float(f64::NEG_INFINITY));
    }
}
