//! Checks a document against the JSON Schema and finds all errors at once.
//!
//! serde stops at the first error and knows no places. This check finds unknown keys, wrong types, values that are not
//! allowed, numbers out of range and quantities that cannot be read, wherever they are. It understands the part
//! of JSON Schema that schemars generates for the scenario's structs.

use serde_json::{Map, Value};
use warpline_core::parameter::{End, Range};

use super::component::NOW;
use super::diagnostics::{Collector, spelling_help};
use super::document::{Data, Entry, Node, Place, Step, Table};
use super::quantity::check_format;

/// In a property's schema, says for which values of another key the property is allowed: `{"endpoint": ["live", "guest"]}`.
pub(crate) const GOES_WITH: &str = "x-goes-with";

/// Checks `root` against `schema`.
pub(crate) fn check(schema: &Value, root: &Node, errors: &mut Collector) {
    let mut walk = Walk { schema, errors, path: Vec::new() };
    walk.node(schema, root);
}

struct Walk<'a> {
    schema: &'a Value,
    errors: &'a mut Collector,
    path: Vec<Step>,
}

/// The types that a schema accepts, in words.
fn type_word(word: &str) -> &'static str {
    match word {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "an array",
        "object" => "a table",
        _ => "nothing",
    }
}

/// Whether `data` is of the schema type `word`.
fn is_type(data: &Data, word: &str) -> bool {
    matches!(
        (data, word),
        (Data::Text(_), "string")
            | (Data::Integer(_), "integer" | "number")
            | (Data::Float(_), "number")
            | (Data::Bool(_), "boolean")
            | (Data::Array(_), "array")
            | (Data::Table(_), "object")
            | (Data::Null, "null")
    )
}

/// The type names of a schema that has no alternatives.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

impl<'a> Walk<'a> {
    /// Follows references.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        while let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
            schema = &self.schema["$defs"][name];
        }
        schema
    }

    /// The alternatives of a schema, without null; nested alternatives are flattened.
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.resolve(schema);
        match schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            Some(choices) => choices.iter().flat_map(|choice| self.alternatives(choice)).collect(),
            None if schema["type"] == "null" => Vec::new(),
            None => vec![schema],
        }
    }

    fn error(&mut self, node: &Node, message: String, help: Vec<String>) {
        self.errors.add(&node.place, &self.path, message, help);
    }

    /// The name of the value in messages: its key, or its index in an array.
    fn subject(&self) -> String {
        match self.path.as_slice() {
            // "the scenario", by the schema's title.
            [] => format!("the {}", self.schema["title"].as_str().unwrap_or_default().to_lowercase()),
            [.., Step::Key(key)] => format!("`{key}`"),
            [.., Step::Key(key), Step::Index(index)] => format!("entry {index} of `{key}`"),
            [.., Step::Index(index)] => format!("entry {index}"),
        }
    }

    fn node(&mut self, schema: &'a Value, node: &Node) {
        // Python passes None for what is not set. serde reads it as a missing key, and rejects it for a required one.
        if node.data == Data::Null {
            return;
        }
        let outer = self.resolve(schema);
        let choices = self.alternatives(outer);
        let fitting: Vec<&Value> =
            choices.iter().copied().filter(|s| types(s).iter().any(|t| is_type(&node.data, t))).collect();
        match (&node.data, fitting.as_slice()) {
            (_, []) => self.wrong_type(&choices, outer, node),
            (Data::Text(text), _) => self.text(&fitting, &choices, outer, node, text),
            (Data::Table(_), [one]) if one["properties"]["kind"]["const"].is_null() => self.table(one, node),
            (Data::Table(_), variants) => self.tagged(variants, node),
            (Data::Array(items), [one, ..]) => self.array(one, node, items),
            (_, [one, ..]) => self.number(one, node),
        }
    }

    fn wrong_type(&mut self, choices: &[&'a Value], outer: &'a Value, node: &Node) {
        let mut words: Vec<&str> = Vec::new();
        for choice in choices {
            for word in types(choice).into_iter().filter(|word| *word != "null").map(type_word) {
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        // Alternatives that are all tables give "a table" once; "a number" includes whole numbers.
        if words.contains(&"a number") {
            words.retain(|word| *word != "a whole number");
        }
        let message = format!("{} must be {}, not {}", self.subject(), words.join(" or "), node.describe());
        let mut help = self.examples(outer, choices);
        // For "rate = 10", show that the unit and quotes are missing.
        let number = match node.data {
            Data::Integer(n) => Some(n.to_string()),
            Data::Float(x) if x.is_finite() => Some(node.to_json().to_string()),
            _ => None,
        };
        if let (Some(number), Some(format)) =
            (number, choices.iter().find_map(|choice| choice["format"].as_str()))
            && let Err(reason) = check_format(format, &number)
        {
            help.insert(0, reason);
        }
        let names = string_values(choices);
        if !names.is_empty() {
            help.push(format!("allowed: {}", names.join(", ")));
        }
        if let ([Step::Key(list)], Data::Table(_), ["an array"]) = (&*self.path, &node.data, &*words) {
            match node.place {
                // Keys of an entry that there is would have been put into it.
                Place::Set(..) => help = self.set_help(list),
                Place::File(_) => {
                    help = vec![format!("write [[{list}]] in place of [{list}], for each entry")]
                }
                Place::Unknown => {}
            }
        }
        self.error(node, message, help);
    }

    /// What to do where `--set` names an entry of a list that the scenario does not have.
    fn set_help(&self, list: &str) -> Vec<String> {
        let mut help = vec![format!("`--set` changes an entry, and the scenario has no [[{list}]]")];
        if list == "link" {
            help.push(
                "a link of a topology has the topology's keys, for example topology.bottleneck.rate"
                    .to_owned(),
            );
        }
        help
    }

    fn examples(&self, outer: &Value, choices: &[&Value]) -> Vec<String> {
        let found =
            std::iter::once(outer).chain(choices.iter().copied()).find_map(|s| s["examples"].as_array());
        found
            .map(|examples| {
                let texts: Vec<String> = examples.iter().take(3).map(toml_text).collect();
                vec![format!("for example {}", texts.join(", "))]
            })
            .unwrap_or_default()
    }

    fn text(
        &mut self,
        fitting: &[&'a Value],
        choices: &[&'a Value],
        outer: &'a Value,
        node: &Node,
        text: &str,
    ) {
        let names = string_values(fitting);
        if names.contains(&text) {
            return;
        }
        let open: Vec<&&Value> =
            fitting.iter().filter(|s| s["const"].is_null() && s["enum"].is_null()).collect();
        if open.is_empty() {
            let message = format!("{} cannot be {text:?}", self.subject());
            let mut help = spelling_help(text, &names);
            for word in ["number", "object"] {
                if choices.iter().any(|choice| types(choice).contains(&word)) {
                    help.push(format!("or {}", type_word(word)));
                }
            }
            return self.error(node, message, help);
        }
        let mut reason = None;
        for schema in open {
            match schema["format"].as_str().map(|format| check_format(format, text)) {
                None | Some(Ok(())) => return,
                Some(Err(why)) => reason = Some(why),
            }
        }
        let message = format!("{} cannot be {text:?}", self.subject());
        let mut help: Vec<String> = reason.into_iter().collect();
        help.extend(self.examples(outer, fitting));
        self.error(node, message, help);
    }

    fn number(&mut self, schema: &'a Value, node: &Node) {
        let (value, shown) = match node.data {
            Data::Integer(n) => (n as f64, n.to_string()),
            Data::Float(x) => (x, x.to_string()),
            _ => return,
        };
        let number = |key: &str| schema[key].as_f64();
        let end = |within: &str, beyond: &str| {
            let open = number(beyond).map(|size| (size, true));
            open.or(number(within).map(|size| (size, false))).map(|(size, open)| End::new(&size, open))
        };
        let widest = match schema["format"].as_str() {
            Some("uint8") => Some(u64::from(u8::MAX)),
            Some("uint16") => Some(u64::from(u16::MAX)),
            Some("uint32") => Some(u64::from(u32::MAX)),
            // TOML's integers end here.
            Some("uint64") => Some(i64::MAX as u64),
            _ => None,
        };
        let low = end("minimum", "exclusiveMinimum");
        let high = end("maximum", "exclusiveMaximum");
        // A float cannot tell the integers just beyond from the last one.
        let too_wide = widest.is_some_and(|widest| match node.data {
            Data::Integer(n) => n > i128::from(widest),
            _ => value > widest as f64,
        });
        let mut range = Range { low, high, ..Range::default() };
        let is_wrong = too_wide || !range.contains(value);
        if range.contains(value) && too_wide {
            range.high = widest.map(|widest| End::new(&widest, false));
        }
        if is_wrong {
            let message = format!("{} is out of range: {shown}", self.subject());
            self.error(node, message, vec![format!("allowed: {range}")]);
        }
    }

    fn array(&mut self, schema: &'a Value, node: &Node, items: &[Node]) {
        let count = items.len() as u64;
        let (low, high) = (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64());
        if count < low || high.is_some_and(|high| count > high) {
            let message = format!("{} must have {low} entries, not {count}", self.subject());
            let help = self.examples(schema, &[]);
            self.error(node, message, help);
        }
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            self.node(&schema["items"], item);
            self.path.pop();
        }
    }

    /// Checks a table whose `kind` determines its keys.
    fn tagged(&mut self, variants: &[&'a Value], node: &Node) {
        let kind_of = |schema: &'a Value| schema["properties"]["kind"]["const"].as_str();
        let kinds: Vec<&str> = variants.iter().filter_map(|v| kind_of(v)).collect();
        let Some(kind) = node.table().and_then(|table| table.value("kind")) else {
            let message = format!("{} needs a `kind`", self.subject());
            return self.error(node, message, vec![format!("allowed: {}", kinds.join(", "))]);
        };
        match kind.text().and_then(|text| variants.iter().find(|v| kind_of(v) == Some(text))) {
            Some(variant) => self.table(variant, node),
            None => {
                self.path.push(Step::Key("kind".to_owned()));
                match kind.text() {
                    Some(text) => {
                        self.error(kind, format!("`kind` cannot be {text:?}"), spelling_help(text, &kinds));
                    }
                    None => {
                        let message = format!("`kind` must be a string, not {}", kind.describe());
                        self.error(kind, message, vec![format!("allowed: {}", kinds.join(", "))]);
                    }
                }
                self.path.pop();
            }
        }
    }

    fn table(&mut self, schema: &'a Value, node: &Node) {
        let Some(table) = node.table() else { return };
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        for entry in &table.0 {
            self.path.push(Step::Key(entry.key.clone()));
            // A table with free keys has one schema for all its values.
            let any = Some(&schema["additionalProperties"]).filter(|any| any.is_object());
            match schema["properties"].get(&entry.key).or(any) {
                Some(property) => {
                    if let Some(now) = property[NOW].as_str() {
                        let message = format!("`{}` and `{now}` are the same parameter", entry.key);
                        self.errors.add(&entry.place, &self.path, message, vec!["leave one out".to_owned()]);
                    }
                    self.goes_with(property, properties, table, entry);
                    self.node(property, &entry.value);
                }
                None => {
                    let known = properties.iter().filter(|(_, property)| property[NOW].is_null());
                    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
                    let kind = schema["properties"]["kind"]["const"].as_str();
                    let of = kind.map(|kind| format!(" of kind \"{kind}\"")).unwrap_or_default();
                    let message = match self.path.as_slice() {
                        [_] => format!("unknown key `{}`", entry.key),
                        [.., Step::Index(_), _] if kind.is_none() => {
                            format!("unknown key `{}` in `[[{}]]`", entry.key, self.table_name())
                        }
                        _ => format!("unknown key `{}` in `{}`{of}", entry.key, self.table_name()),
                    };
                    self.errors.add(&entry.place, &self.path, message, spelling_help(&entry.key, &known));
                }
            }
            self.path.pop();
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> =
            required.filter(|key| table.value(key).is_none_or(|v| v.data == Data::Null)).collect();
        for key in missing {
            let property = &properties[key];
            let resolved = self.resolve(property);
            let mut help = self.examples(property, &[resolved]);
            if let Some(text) = property["description"].as_str().or_else(|| resolved["description"].as_str())
            {
                help.insert(0, format!("{key}: {}", text.replace('\n', " ")));
            }
            let message = format!("{} has no `{key}`", self.subject());
            self.error(node, message, help);
        }
    }

    /// Checks that a key is allowed beside the values of another key of its table.
    fn goes_with(
        &mut self,
        property: &'a Value,
        properties: &Map<String, Value>,
        table: &Table,
        entry: &Entry,
    ) {
        if entry.value.data == Data::Null {
            return;
        }
        for (other, values) in property[GOES_WITH].as_object().into_iter().flatten() {
            let given = table.value(other).filter(|value| value.data != Data::Null);
            let given = given.map_or(properties[other]["default"].as_str(), Node::text);
            let known = string_values(
                &properties[other]["oneOf"]
                    .as_array()
                    .map_or(Vec::new(), |words| words.iter().collect::<Vec<_>>()),
            );
            let fits = |value: &Value| value.as_str() == given;
            let Some(given) = given.filter(|given| known.contains(given)) else { continue };
            if values.as_array().is_some_and(|values| !values.iter().any(fits)) {
                let values: Vec<String> =
                    values.as_array().into_iter().flatten().map(Value::to_string).collect();
                let message = format!(
                    "`{}` goes with {other} = {}, and this is {given:?}",
                    entry.key,
                    values.join(" or ")
                );
                // What it is for, as the schema has it behind the values that it goes with.
                let about = property["description"].as_str().and_then(|text| text.split_once(": "));
                let help = about.map(|(_, text)| text.to_owned());
                self.errors.add(&entry.place, &self.path, message, help.into_iter().collect());
            }
        }
    }

    /// The path of the table that holds the key at the end of the path, without indices.
    fn table_name(&self) -> String {
        let keys: Vec<&str> = self.path[..self.path.len() - 1]
            .iter()
            .filter_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            })
            .collect();
        keys.join(".")
    }
}

/// The fixed strings among the alternatives.
fn string_values<'a>(choices: &[&'a Value]) -> Vec<&'a str> {
    choices
        .iter()
        .flat_map(|s| {
            let several = s["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            several.chain(s["const"].as_str())
        })
        .collect()
}

/// A key as TOML writes it: in quotation marks where it needs them, as "net.ipv4.tcp_sack" does.
fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if bare { key.to_owned() } else { Value::from(key).to_string() }
}

/// A JSON value as TOML writes it.
pub(super) fn toml_text(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{} = {}", toml_key(key), toml_text(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
