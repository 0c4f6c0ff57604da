//! Values with ranges in them, and what is drawn from them.
//!
//! A table with `from` and `to` is a range, one with `choices` is one of several values, and one with `list` and `of` is a list of so many
//! entries, each drawn from `of`. They may stand anywhere in a value: `{ kind = "list", packets = { list = 8, of = { from = 1, to = 5000 } } }`.

use serde_json::{Map, Value};

use super::super::diagnostics::{Collector, spelling_help};
use super::super::document::{Data, Entry, Node, Step, Table, key};
use super::range::Range;

/// Most entries of a list.
const MOST: i128 = 1000;

/// A value with ranges in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Template {
    Fixed(Value),
    Range(Range),
    Choices(Vec<Value>),
    List(usize, Box<Template>),
    Array(Vec<Template>),
    Table(Vec<(String, Template)>),
}

/// A value that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Drawn {
    Fixed(Value),
    Number(Range, f64),
    /// Entries that can be left out.
    List(Vec<Drawn>),
    Array(Vec<Drawn>),
    Table(Vec<(String, Drawn)>),
}

/// Reports keys of a table other than these.
fn only(table: &Table, known: &[&str], path: &[Step], errors: &mut Collector) {
    for entry in table.0.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let path: Vec<Step> = path.iter().cloned().chain([key(&entry.key)]).collect();
        let message = format!("unknown key `{}` beside `{}`", entry.key, known[0]);
        errors.add(&entry.place, &path, message, spelling_help(&entry.key, known));
    }
}

impl Template {
    /// Reads a value; what is wrong becomes errors, and something that stands in.
    pub(super) fn read(node: &Node, path: &[Step], errors: &mut Collector) -> Template {
        let below = |step: Step| path.iter().cloned().chain([step]).collect::<Vec<Step>>();
        let fixed = || Template::Fixed(node.to_json());
        match &node.data {
            Data::Table(table) if table.find("from").is_some() || table.find("to").is_some() => {
                only(table, &["from", "to", "scale"], path, errors);
                let log = match table.value("scale") {
                    None => false,
                    Some(scale) => {
                        if !matches!(scale.text(), Some("linear" | "log")) {
                            let message = format!("`scale` cannot be {}", scale.describe());
                            let help = vec!["allowed: \"linear\", \"log\"".to_owned()];
                            errors.add(&scale.place, &below(key("scale")), message, help);
                        }
                        scale.text() == Some("log")
                    }
                };
                let (Some(from), Some(to)) = (table.value("from"), table.value("to")) else {
                    let help =
                        vec!["for example { from = \"5ms\", to = \"1s\", scale = \"log\" }".to_owned()];
                    errors.add(&node.place, path, "a range needs `from` and `to`", help);
                    return fixed();
                };
                match Range::between(from, to, log) {
                    Ok(range) => Template::Range(range),
                    Err((message, help)) => {
                        errors.add(&node.place, path, message, vec![help]);
                        fixed()
                    }
                }
            }
            Data::Table(table) if table.find("choices").is_some() => {
                only(table, &["choices"], path, errors);
                let choices: Vec<Value> = table
                    .value("choices")
                    .map(Node::items)
                    .unwrap_or_default()
                    .iter()
                    .map(Node::to_json)
                    .collect();
                if choices.is_empty() {
                    let help = vec!["for example { choices = [\"reno\", \"cubic\"] }".to_owned()];
                    errors.add(&node.place, &below(key("choices")), "`choices` needs a list of values", help);
                    return fixed();
                }
                Template::Choices(choices)
            }
            Data::Table(table) if table.find("list").is_some() => {
                only(table, &["list", "of"], path, errors);
                let count = match table.value("list").map(|node| &node.data) {
                    Some(Data::Integer(count)) if (1..=MOST).contains(count) => *count as usize,
                    _ => {
                        let help = vec![format!("allowed: 1 to {MOST}")];
                        errors.add(&node.place, &below(key("list")), "`list` is the number of entries", help);
                        1
                    }
                };
                let Some(of) = table.value("of") else {
                    let help = vec!["for example { list = 5, of = { from = 1, to = 1000 } }".to_owned()];
                    errors.add(
                        &node.place,
                        path,
                        "`list` needs `of`, from which its entries are drawn",
                        help,
                    );
                    return fixed();
                };
                Template::List(count, Box::new(Template::read(of, &below(key("of")), errors)))
            }
            Data::Table(table) => {
                let entry = |entry: &Entry| {
                    (entry.key.clone(), Template::read(&entry.value, &below(key(&entry.key)), errors))
                };
                Template::Table(table.0.iter().map(entry).collect())
            }
            Data::Array(items) => {
                let item = |(index, item)| Template::read(item, &below(Step::Index(index)), errors);
                Template::Array(items.iter().enumerate().map(item).collect())
            }
            _ => fixed(),
        }
    }

    /// How many numbers between 0 and 1 it takes to draw from it.
    pub(super) fn dimensions(&self) -> usize {
        match self {
            Template::Fixed(_) => 0,
            Template::Range(_) | Template::Choices(_) => 1,
            Template::List(count, of) => count * of.dimensions(),
            Template::Array(items) => items.iter().map(Template::dimensions).sum(),
            Template::Table(entries) => entries.iter().map(|(_, template)| template.dimensions()).sum(),
        }
    }

    /// Draws a value, with a number between 0 and 1 for each dimension. Entries of lists with an `at` are put in its order, since scenarios have them so.
    pub(super) fn draw(&self, shares: &mut dyn Iterator<Item = f64>) -> Drawn {
        match self {
            Template::Fixed(value) => Drawn::Fixed(value.clone()),
            Template::Range(range) => Drawn::Number(range.clone(), range.at(shares.next().unwrap_or(0.5))),
            Template::Choices(choices) => {
                let place = (shares.next().unwrap_or(0.5) * choices.len() as f64) as usize;
                Drawn::Fixed(choices[place.min(choices.len() - 1)].clone())
            }
            Template::List(count, of) => {
                let mut entries: Vec<Drawn> = (0..*count).map(|_| of.draw(shares)).collect();
                entries.sort_by(|a, b| a.at().total_cmp(&b.at()));
                Drawn::List(entries)
            }
            Template::Array(items) => Drawn::Array(items.iter().map(|item| item.draw(shares)).collect()),
            Template::Table(entries) => Drawn::Table(
                entries.iter().map(|(key, template)| (key.clone(), template.draw(shares))).collect(),
            ),
        }
    }
}

impl Drawn {
    /// The number of its key `at`; 0 if it has none.
    fn at(&self) -> f64 {
        match self {
            Drawn::Table(entries) => entries
                .iter()
                .find_map(|(key, drawn)| match drawn {
                    Drawn::Number(_, value) if key == "at" => Some(*value),
                    _ => None,
                })
                .unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The value as scenarios write it.
    pub(super) fn value(&self) -> Value {
        match self {
            Drawn::Fixed(value) => value.clone(),
            Drawn::Number(range, value) => range.value(*value),
            Drawn::List(items) | Drawn::Array(items) => items.iter().map(Drawn::value).collect(),
            Drawn::Table(entries) => {
                let entries = entries.iter().map(|(key, drawn)| (key.clone(), drawn.value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    fn below(&self) -> Box<dyn Iterator<Item = &Drawn> + '_> {
        match self {
            Drawn::Fixed(_) | Drawn::Number(..) => Box::new(std::iter::empty()),
            Drawn::List(items) | Drawn::Array(items) => Box::new(items.iter()),
            Drawn::Table(entries) => Box::new(entries.iter().map(|(_, drawn)| drawn)),
        }
    }

    /// The number of entries that can be left out, of all lists in it.
    pub(super) fn entries(&self) -> usize {
        let own = if let Drawn::List(items) = self { items.len() } else { 0 };
        own + self.below().map(Drawn::entries).sum::<usize>()
    }

    /// The same with those entries only that `kept` names by their numbers, `next` being that of the first.
    pub(super) fn with_entries(&self, kept: &dyn Fn(usize) -> bool, next: &mut usize) -> Drawn {
        match self {
            Drawn::Fixed(_) | Drawn::Number(..) => self.clone(),
            Drawn::List(items) => {
                let mut left = Vec::new();
                for item in items {
                    *next += 1;
                    let stays = kept(*next - 1);
                    let item = item.with_entries(kept, next);
                    left.extend(stays.then_some(item));
                }
                Drawn::List(left)
            }
            Drawn::Array(items) => {
                Drawn::Array(items.iter().map(|item| item.with_entries(kept, next)).collect())
            }
            Drawn::Table(entries) => Drawn::Table(
                entries.iter().map(|(key, drawn)| (key.clone(), drawn.with_entries(kept, next))).collect(),
            ),
        }
    }

    /// The number of numbers drawn from ranges in it.
    pub(super) fn numbers(&self) -> usize {
        usize::from(matches!(self, Drawn::Number(..))) + self.below().map(Drawn::numbers).sum::<usize>()
    }

    /// Rounds number `place` of these to so many significant digits; `place` is none from there on.
    pub(super) fn round(&mut self, place: &mut Option<usize>, digits: usize) {
        match self {
            Drawn::Fixed(_) => {}
            Drawn::Number(range, value) => {
                if *place == Some(0) {
                    *value = range.rounded(*value, digits);
                }
                *place = place.and_then(|place| place.checked_sub(1));
            }
            Drawn::List(items) | Drawn::Array(items) => {
                items.iter_mut().for_each(|item| item.round(place, digits));
            }
            Drawn::Table(entries) => entries.iter_mut().for_each(|(_, drawn)| drawn.round(place, digits)),
        }
    }
}
