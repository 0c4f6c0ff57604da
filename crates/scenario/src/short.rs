//! Short forms: `queue = "250p"`, `loss = "1%"`, `jitter = "uniform,max=5ms"`, `routing = "spray,routes=16"`, `cc = "nice:threshold=0.1"`, in scenarios, `--set`, Python and on the command line.
//!
//! A short form is a text where the schema has a table (or a number) and a format of this file. It is put in the full form before
//! anything is checked, so that all that follows knows one form only.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use warpline_net::qdisc::QueueLimit;

use super::component::NOW;
use super::document::{Data, Node, Place, Table};
use super::quantity::limit_pattern;

/// A type of the schema that has a short form.
struct Form {
    /// Its name in the schema's `$defs`.
    definition: &'static str,
    /// The schema format of the text.
    format: &'static str,
    description: &'static str,
    examples: &'static [&'static str],
    /// The pattern of what is no kind by name.
    own: fn() -> String,
    read: fn(&str) -> Result<Value, String>,
}

/// All types with a short form that is a table in full.
const FORMS: [Form; 5] = [
    Form {
        definition: "Queue",
        format: "queue",
        description: "A limit alone is that of a drop-tail queue; other kinds by name, with parameters after commas.",
        examples: &["250p", "codel", "codel,limit=100p,target=5ms"],
        own: limit_pattern,
        read: queue,
    },
    Form {
        definition: "Loss",
        format: "loss",
        description: "A percentage is that of independent losses; other kinds by name, with parameters after commas. A number without % is \
                      refused: 1 could mean 1 % or always.",
        examples: &["1%", "every,n=100", "none"],
        own: || PERCENTAGE.to_owned(),
        read: loss,
    },
    Form {
        definition: "Jitter",
        format: "jitter",
        description: "A kind by name, with parameters after commas.",
        examples: &["uniform,max=5ms", "normal,mean=5ms,stddev=1ms", "none"],
        own: || "none".to_owned(),
        read: jitter,
    },
    Form {
        definition: "Radio",
        format: "radio",
        description: "A kind by name, with parameters after commas.",
        examples: &["wifi,rate=65Mbit/s", "leo,min_rate=50Mbit/s,max_rate=200Mbit/s", "cellular,snr=20"],
        own: || "cellular".to_owned(),
        read: radio,
    },
    Form {
        definition: "Routing",
        format: "routing",
        description: "A kind by name, with parameters after commas.",
        examples: &["ecmp", "spray", "spray,routes=16"],
        own: || "first".to_owned(),
        read: routing,
    },
];

/// The pattern of a percentage.
const PERCENTAGE: &str = r"0|[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*%";

/// The schema format of a congestion control's text, if it has parameters.
pub(super) const CC: &str = "cc";

/// The schema format of a probability's text.
const PROBABILITY: &str = "probability";

/// A probability as scenarios write it: a number from 0 to 1, or a percentage with its sign. In the structs it is a number.
pub(crate) struct Probability;

impl JsonSchema for Probability {
    fn schema_name() -> Cow<'static, str> {
        "Probability".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A probability or a share: a number from 0 to 1, or a percentage with its sign (\"1%\").",
            "examples": [0.01, "1%"],
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1, "description": "From 0, never, to 1, always."},
                {"type": "string", "format": PROBABILITY, "pattern": format!(r"^\s*({PERCENTAGE})\s*$"), "description": "A percentage.", "examples": ["1%", "0.1%"]},
            ],
        })
    }
}

/// Adds the short forms to a scenario's schema.
pub(super) fn describe(schema: &mut Value) {
    for form in &FORMS {
        if let Some(variants) = schema["$defs"][form.definition]["oneOf"].as_array_mut() {
            let kinds = variants.iter().filter_map(|variant| variant["properties"]["kind"]["const"].as_str());
            let kinds: Vec<&str> = kinds.collect();
            let (own, kinds) = ((form.own)(), kinds.join("|"));
            let pattern = format!(r"^\s*({own}|({kinds})([ ,]+[A-Za-z0-9_]+=[^ ,]+)*|\{{.*\}})\s*$");
            variants.push(json!({
                "type": "string",
                "format": form.format,
                "pattern": pattern,
                "description": form.description,
                "examples": form.examples,
            }));
        }
    }
}

/// The full form of a text with a format of this file; none if the format is not of this file.
///
/// # Errors
/// What is wrong with the text, and what to write.
pub(super) fn read(format: &str, text: &str) -> Option<Result<Value, String>> {
    match format {
        PROBABILITY => return Some(percentage(text).map(Value::from)),
        CC => return Some(congestion_control(text)),
        _ => {}
    }
    FORMS.iter().find(|form| form.format == format).map(|form| (form.read)(text))
}

/// A key that was found by its former name.
pub(super) struct Renamed {
    pub(super) was: String,
    pub(super) now: String,
    pub(super) place: Place,
}

/// Puts all short forms below `node` in full, and gives keys their present names. A text that cannot be read stays, as does a former name
/// beside the present one, for the checks to say why.
pub(super) fn write_out(schema: &Value, node: &mut Node) -> Vec<Renamed> {
    let mut walk = Walk { schema, renamed: Vec::new() };
    walk.node(schema, node);
    walk.renamed
}

/// Follows the schema down a document.
struct Walk<'a> {
    schema: &'a Value,
    renamed: Vec<Renamed>,
}

impl<'a> Walk<'a> {
    /// The alternatives of a schema, references followed and choices within choices unfolded.
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.alternatives(&self.schema["$defs"][name]);
        }
        match schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            Some(choices) => choices.iter().flat_map(|choice| self.alternatives(choice)).collect(),
            None => vec![schema],
        }
    }

    fn node(&mut self, schema: &'a Value, node: &mut Node) {
        let alternatives = self.alternatives(schema);
        if let Data::Text(text) = &node.data {
            let full = alternatives.iter().find_map(|schema| read(schema["format"].as_str()?, text)?.ok());
            if let Some(full) = full {
                *node = Node::from_json(full).placed(&node.place);
            }
        }
        match &mut node.data {
            Data::Table(table) => {
                let kind = table.value("kind").and_then(Node::text).map(str::to_owned);
                let fits = |schema: &&&Value| match schema["properties"]["kind"]["const"].as_str() {
                    Some(own) => kind.as_deref() == Some(own),
                    None => schema["properties"].is_object(),
                };
                let Some(schema) = alternatives.iter().find(fits) else { return };
                self.rename(schema, table);
                for entry in &mut table.0 {
                    if let Some(property) = schema["properties"].get(&entry.key) {
                        self.node(property, &mut entry.value);
                    }
                }
            }
            Data::Array(items) => {
                if let Some(schema) = alternatives.iter().find(|schema| schema["items"].is_object()) {
                    items.iter_mut().for_each(|item| self.node(&schema["items"], item));
                }
            }
            _ => {}
        }
    }
}

impl Walk<'_> {
    fn rename(&mut self, schema: &Value, table: &mut Table) {
        for number in 0..table.0.len() {
            let Some(now) = schema["properties"][&table.0[number].key][NOW].as_str() else { continue };
            if table.find(now).is_none() {
                let entry = &mut table.0[number];
                let was = std::mem::replace(&mut entry.key, now.to_owned());
                self.renamed.push(Renamed { was, now: now.to_owned(), place: entry.place.clone() });
            }
        }
    }
}

/// Whether a text begins as a number does.
fn is_numeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
}

/// A decimal number with its point moved by `places`: exact, as "0.1" and -2 is 0.001.
fn shifted(number: &str, places: i32) -> Option<f64> {
    let shifted = match number.contains(['e', 'E']) {
        true => number.parse::<f64>().ok()? * format!("1e{places}").parse::<f64>().ok()?,
        false => format!("{number}e{places}").parse().ok()?,
    };
    shifted.is_finite().then_some(shifted)
}

/// A percentage, as a probability.
fn percentage(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let refused = || format!("`{text}` is no percentage; write for example `1%`");
    let within = |p: f64| {
        let told = || format!("`{text}` is no probability: it lies between 0% and 100%");
        (0.0..=1.0).contains(&p).then_some(p).ok_or_else(told)
    };
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(refused());
    }
    if let Some(number) = text.strip_suffix('%') {
        return within(shifted(number.trim_end(), -2).ok_or_else(refused)?);
    }
    let number: f64 = text.parse().map_err(|_| refused())?;
    if number == 0.0 {
        return Ok(0.0);
    }
    if number == 1.0 {
        return Err("`1` could mean 1 % or always: write `1%` or `100%`".to_owned());
    }
    let Some(percent) = shifted(text, 2).filter(|_| number > 0.0 && number < 1.0) else {
        return Err(format!("`{text}` has no unit; write a percentage, such as `1%`"));
    };
    Err(format!("`{text}` could mean {text} % or {percent} %: write `{text}%` or `{percent}%`"))
}

/// A loss, or other packets that are chosen as by a loss model: a percentage is that of independent losses.
fn loss(text: &str) -> Result<Value, String> {
    let word = text.trim();
    if !is_numeric(word) && !word.is_empty() {
        return table(word, "every,n=100");
    }
    match percentage(word) {
        Ok(probability) => Ok(json!({ "kind": "bernoulli", "probability": probability })),
        Err(reason) if reason.contains("is no percentage") => Err(format!(
            "`{word}` is no part of the packets; write a percentage (1%) or a model (every,n=100)"
        )),
        Err(reason) => Err(reason),
    }
}

/// A queue: a limit alone is that of a drop-tail queue.
fn queue(text: &str) -> Result<Value, String> {
    let word = text.trim();
    match word.parse::<QueueLimit>() {
        Ok(limit) => Ok(json!({ "kind": "droptail", "limit": limit.to_string() })),
        // A limit was meant: its own parser says what is wrong with it.
        Err(reason) if is_numeric(word) || word.is_empty() => Err(reason.to_string()),
        Err(_) => table(word, "codel,target=5ms"),
    }
}

fn jitter(text: &str) -> Result<Value, String> {
    let word = text.trim();
    if is_numeric(word) || word.is_empty() {
        return Err(format!(
            "`{word}` is no jitter; write a distribution: `uniform,max=5ms` or `normal,mean=5ms,stddev=1ms`"
        ));
    }
    table(word, "uniform,max=5ms")
}

fn radio(text: &str) -> Result<Value, String> {
    match text.trim() {
        "" => Err("an empty text is no radio; write for example `wifi,rate=65Mbit/s`".to_owned()),
        word => table(word, "wifi,rate=65Mbit/s"),
    }
}

fn routing(text: &str) -> Result<Value, String> {
    match text.trim() {
        "" => Err("an empty text is no routing; write for example `ecmp`".to_owned()),
        word => table(word, "spray,routes=16"),
    }
}

/// A congestion control with parameters: "nice:threshold=0.1,fraction=0.5". A name alone is not for here.
fn congestion_control(text: &str) -> Result<Value, String> {
    let (kind, parameters) =
        text.trim().split_once(':').ok_or_else(|| format!("`{text}` has no parameters"))?;
    table(&format!("{kind},{parameters}"), "nice:threshold=0.1")
}

/// "codel,target=5ms" as a table; a table of TOML is read as such. `example` is for the error.
fn table(word: &str, example: &str) -> Result<Value, String> {
    if word.starts_with('{') {
        let node = Node::from_toml_value(word, 0, 0);
        let table = node.filter(|node| node.table().is_some()).map(|node| node.to_json());
        return table.ok_or_else(|| format!("`{word}` is no table of TOML"));
    }
    let mut parts = word.split([',', ' ']).filter(|part| !part.is_empty());
    let kind = parts.next().unwrap_or_default();
    let mut table = Map::new();
    table.insert("kind".to_owned(), kind.into());
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!("{part:?} in {word:?} is no KEY=VALUE; write for example {example:?}"));
        };
        let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if key.is_empty() || !plain {
            return Err(format!("{key:?} in {word:?} is no parameter's name"));
        }
        let bare = Node::from_toml_value(value, 0, 0).filter(|node| match node.data {
            Data::Integer(_) | Data::Bool(_) => true,
            // JSON has no infinity: it would be the default. As a text it is refused.
            Data::Float(number) => number.is_finite(),
            _ => false,
        });
        let value = bare.map_or_else(|| value.into(), |node| node.to_json());
        if table.insert(key.to_owned(), value).is_some() {
            return Err(format!("`{key}` is twice in {word:?}"));
        }
    }
    Ok(Value::Object(table))
}

/// A probability on the command line: as in scenarios a number from 0 to 1 that an option calls a part, or a percentage.
///
/// # Errors
/// What is wrong with it.
pub fn part(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => percentage(text),
    }
}

/// The first key of a link's options in a path of an error: "loss" of `link.0.loss.probability`.
pub fn link_key(path: &str) -> Option<(usize, &str)> {
    let mut steps = path.split('.');
    (steps.next() == Some("link")).then_some(())?;
    Some((steps.next()?.parse().ok()?, steps.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_their_tables() {
        for (format, text, full) in [
            ("loss", "0.1%", json!({"kind": "bernoulli", "probability": 0.001})),
            ("loss", " 7 % ", json!({"kind": "bernoulli", "probability": 0.07})),
            ("loss", "100%", json!({"kind": "bernoulli", "probability": 1.0})),
            ("loss", "every,n=100", json!({"kind": "every", "n": 100})),
            ("loss", "none", json!({"kind": "none"})),
            ("queue", "250p", json!({"kind": "droptail", "limit": "250p"})),
            ("queue", "1bdp", json!({"kind": "droptail", "limit": "1BDP"})),
            (
                "queue",
                "codel limit=100p target=5ms",
                json!({"kind": "codel", "limit": "100p", "target": "5ms"}),
            ),
            ("queue", "red,ecn=true,weight=0.01", json!({"kind": "red", "ecn": true, "weight": 0.01})),
            ("queue", "{ kind = \"codel\" }", json!({"kind": "codel"})),
            ("jitter", "uniform,max=5ms", json!({"kind": "uniform", "max": "5ms"})),
            ("jitter", "pareto,mean=5ms,shape=inf", json!({"kind": "pareto", "mean": "5ms", "shape": "inf"})),
            (CC, "nice:threshold=0.1,burst=3", json!({"kind": "nice", "threshold": 0.1, "burst": 3})),
            (PROBABILITY, "1.1%", json!(0.011)),
        ] {
            assert_eq!(read(format, text), Some(Ok(full)), "{text}");
        }
        assert_eq!(read("time", "5ms"), None);
    }

    #[test]
    fn a_number_without_its_sign_is_refused_with_both_readings() {
        for (format, text, parts) in [
            ("loss", "1", ["1 % or always", "`1%` or `100%`"]),
            ("loss", "0.01", ["0.01 % or 1 %", "`0.01%` or `1%`"]),
            ("loss", "5", ["no unit", "`1%`"]),
            ("loss", "101%", ["`101%`", "between 0% and 100%"]),
            ("loss", "-1%", ["`-1%` is no part of the packets", "write a percentage"]),
            ("loss", "1 %%", ["is no part of the packets", "write a percentage"]),
            (PROBABILITY, "0.5", ["0.5 % or 50 %", "`50%`"]),
            ("queue", "250", ["not a queue limit", "100p"]),
            ("queue", "codel,5ms", ["no KEY=VALUE", "codel,target=5ms"]),
            ("queue", "codel,ecn=true,ecn=false", ["`ecn` is twice", ""]),
            ("jitter", "5ms", ["no jitter", "uniform,max=5ms"]),
            (CC, "nice:0.1", ["no KEY=VALUE", "nice:threshold=0.1"]),
        ] {
            let reason =
                read(format, text).and_then(Result::err).unwrap_or_else(|| panic!("{text} is taken"));
            assert!(parts.iter().all(|part| reason.contains(part)), "{text}: {reason}");
        }
    }
}
