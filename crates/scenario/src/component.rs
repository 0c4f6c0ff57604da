//! Components as scenarios write them: a table whose `kind` names one, with its parameters beside it. How they are read, what is written, and
//! what the JSON Schema says of them all come from what `warpline_core::parameter` knows.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};
use warpline_core::Bytes;
use warpline_core::parameter::{
    Choice, Description, Given, Kind, OutOfRange, ParameterError, Range, Vocabulary, Word,
};

use super::checker::Check;
use super::document::{Step, key};
use super::quantity::{BitRate, LimitText, Size, Time, Window};
use super::short::Probability;

/// The key of a property's schema that says by which name it goes now.
pub(super) const NOW: &str = "x-now";

/// A component as scenarios write it: a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written<C>(pub C);

impl<C: Default + PartialEq> Written<C> {
    /// Whether it is another than the default.
    pub fn is_some(&self) -> bool {
        self.0 != C::default()
    }
}

impl<C: Choice> Serialize for Written<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(&self.0).serialize(serializer)
    }
}

impl<'de, C: Choice> Deserialize<'de> for Written<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Map::deserialize(deserializer)?;
        read(&table).map(Written).map_err(de::Error::custom)
    }
}

impl<C: Choice> JsonSchema for Written<C> {
    fn schema_name() -> Cow<'static, str> {
        // "Loss" for loss models.
        capitalised(C::WHAT.split(' ').next().unwrap_or_default()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": format!("A {}.", C::WHAT), "oneOf": variants::<C>(generator)})
    }
}

/// Reads a table.
pub(super) fn read<C: Choice>(table: &Map<String, Value>) -> Result<C, ParameterError> {
    let kind = table.get("kind").and_then(Value::as_str).unwrap_or_default();
    let values = table.iter().filter(|(name, value)| *name != "kind" && !value.is_null());
    let given: Vec<(&str, Given)> = values.map(|(name, value)| (name.as_str(), given(value))).collect();
    C::of_kind(kind)?.with(&given)
}

/// Writes a table: the kind, and what differs from its defaults.
pub(super) fn write<C: Choice>(component: &C) -> Value {
    let mut table = Map::from_iter([("kind".to_owned(), json!(component.kind()))]);
    table.extend(component.given().into_iter().map(|(name, given)| (name.to_owned(), value(given))));
    Value::Object(table)
}

/// Notes parameters that are out of their ranges; `path` leads to their table.
pub(super) fn check(check: &mut Check<'_>, path: &[Step], faults: impl IntoIterator<Item = OutOfRange>) {
    for fault in faults {
        let mut path = path.to_vec();
        path.push(key(fault.parameter));
        let message = format!("`{}` is out of range: {}", fault.parameter, fault.value);
        check.error(&path, message, format!("allowed: {}", fault.allowed));
    }
}

pub(super) fn given(value: &Value) -> Given {
    match value {
        Value::Bool(flag) => Given::Flag(*flag),
        Value::Number(number) => {
            number.as_u64().map_or_else(|| Given::Number(number.as_f64().unwrap_or(f64::NAN)), Given::Whole)
        }
        Value::Array(items) if items.iter().any(Value::is_string) => {
            Given::Lines(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        Value::Array(items) => Given::List(items.iter().filter_map(Value::as_u64).collect()),
        Value::String(text) => Given::Text(text.clone()),
        other => Given::Text(other.to_string()),
    }
}

pub(super) fn value(given: Given) -> Value {
    match given {
        Given::Flag(flag) => json!(flag),
        Given::Whole(number) => json!(number),
        Given::Number(number) => json!(number),
        Given::Text(text) => json!(text),
        Given::List(numbers) => json!(numbers),
        Given::Lines(lines) => json!(lines),
    }
}

/// The schemas of all components of a choice, a table each.
pub(super) fn variants<C: Choice>(generator: &mut SchemaGenerator) -> Vec<Schema> {
    C::all().iter().map(|component| variant(component, generator)).collect()
}

fn variant(component: &impl Choice, generator: &mut SchemaGenerator) -> Schema {
    let kind = ("kind".to_owned(), json!({"type": "string", "const": component.kind()}));
    let parameters = component.describe();
    let required = parameters.iter().filter(|parameter| parameter.required).map(|parameter| parameter.name);
    let required: Vec<&str> = std::iter::once("kind").chain(required).collect();
    json_schema!({
        "type": "object",
        "description": component.about(),
        "properties": Map::from_iter(std::iter::once(kind).chain(properties(&parameters, generator))),
        "required": required,
        "additionalProperties": false,
    })
}

/// The schemas of parameters, by their names.
pub(super) fn properties(parameters: &[Description], generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut properties = Map::new();
    for parameter in parameters {
        let own = property(parameter, generator);
        if let Some(was) = parameter.was {
            properties.insert(was.to_owned(), former(&own, parameter.name));
        }
        properties.insert(parameter.name.to_owned(), own);
    }
    properties
}

/// The schema of a key by its former name: that of `own`, which is called `now`.
pub(super) fn former(own: &Value, now: &str) -> Value {
    let mut former = own.clone();
    former["description"] = json!(format!("The former name of `{now}`."));
    former["deprecated"] = json!(true);
    former[NOW] = json!(now);
    former
}

/// The schema of a parameter.
pub(super) fn property(parameter: &Description, generator: &mut SchemaGenerator) -> Value {
    let mut schema = match parameter.kind {
        _ if parameter.share => generator.subschema_for::<Probability>().to_value(),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Whole(most) => {
            let bits = u64::BITS - most.leading_zeros();
            json!({"type": "integer", "minimum": 0, "format": format!("uint{bits}")})
        }
        Kind::Number => json!({"type": "number"}),
        Kind::List => {
            json!({"type": "array", "items": {"type": "integer", "minimum": 0, "format": "uint64"}})
        }
        Kind::Lines => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Time => generator.subschema_for::<Time>().to_value(),
        Kind::Size => generator.subschema_for::<Size>().to_value(),
        Kind::Rate => generator.subschema_for::<BitRate>().to_value(),
        Kind::File => json!({"type": "string"}),
        Kind::Limit => generator.subschema_for::<LimitText>().to_value(),
        Kind::Window => generator.subschema_for::<Window>().to_value(),
        Kind::Words(Vocabulary { name, about, words }) => {
            let word = |word: &Word| json!({"type": "string", "const": word.name, "description": word.about});
            let words: Vec<Value> = words.iter().map(word).collect();
            let definition = json!({"description": about, "oneOf": words});
            generator.definitions_mut().insert(name.to_owned(), definition);
            json!({"$ref": format!("#/$defs/{name}")})
        }
    };
    let mut about = vec![parameter.about.to_owned()];
    let Range { low, high, not_below, not_above } = &parameter.range;
    if matches!(parameter.kind, Kind::Whole(_) | Kind::Number | Kind::List) && !parameter.share {
        let number = if parameter.kind == Kind::List { &mut schema["items"] } else { &mut schema };
        for (end, within, beyond) in
            [(low, "minimum", "exclusiveMinimum"), (high, "maximum", "exclusiveMaximum")]
        {
            if let Some(end) = end {
                number[if end.open { beyond } else { within }] = match &end.given {
                    Given::List(numbers) => json!(numbers.first()),
                    given => value(given.clone()),
                };
            }
        }
        about.extend(not_below.map(|other| format!("Not below `{other}`.")));
        about.extend(not_above.map(|other| format!("Not above `{other}`.")));
    } else if !parameter.range.is_all() {
        about.push(format!("{}.", capitalised(&parameter.range.to_string())));
    }
    if parameter.required {
        let example = parameter.default.clone().map(value);
        schema["examples"] = example.into_iter().collect();
    } else if parameter.default.is_some() || !parameter.with_preset.is_empty() {
        about.push(defaults(parameter));
    }
    schema["description"] = json!(about.join(" "));
    schema
}

/// "Default 0.4; 0.5 with `paper`."
fn defaults(parameter: &Description) -> String {
    let plain = |value: &Option<Given>| match value {
        Some(Given::Text(text)) if parameter.kind == Kind::Size => {
            text.parse().map_or(text.clone(), Bytes::plain)
        }
        // A list without entries has no text.
        Some(value) if !value.plain().is_empty() => value.plain(),
        _ => "none".to_owned(),
    };
    let number = plain(&parameter.default);
    let unit = if number == "1" { parameter.unit.trim_end_matches('s') } else { parameter.unit };
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let mut text = format!("Default {number}{unit}");
    // Neighbours with the same value together.
    for same in parameter.with_preset.chunk_by(|(_, one), (_, other)| one == other) {
        let words: Vec<String> = same.iter().map(|(word, _)| format!("`{word}`")).collect();
        text.push_str(&format!("; {} with {}", plain(&same[0].1), words.join(", ")));
    }
    text + "."
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// Whether a component goes by a file.
pub(super) fn has_file<C: Choice>(component: &Written<C>) -> bool {
    !component.0.clone().files().is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::Scenario;
    use super::*;

    fn read(cc: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = {cc}\n"
        );
        Scenario::from_toml("test.toml", &text, &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_former_name_is_read_with_a_note() {
        let former = read("{ kind = \"nice\", min_window = 0.5 }").unwrap();
        assert_eq!(former.notes, ["test.toml:6:23: `min_window` is now called `floor`"]);
        let present = read("{ kind = \"nice\", floor = 0.5 }").unwrap();
        assert_eq!(present.notes, [""; 0]);
        assert_eq!((&former.flow, former.scenario_hash()), (&present.flow, present.scenario_hash()));
        let both = read("{ kind = \"nice\", floor = 0.5, min_window = 0.5 }").unwrap_err();
        assert!(both.contains("`min_window` and `floor` are the same parameter"), "{both}");
        // A key of the scenario itself.
        let text = "duration = \"1s\"\nreplicate = { runs = 3 }\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\n\
                    flow = [{ from = \"a\", to = \"b\" }]\n";
        let scenario = Scenario::from_toml("test.toml", text, &["replications.runs=4".to_owned()]).unwrap();
        assert_eq!(scenario.notes, ["test.toml:2:1: `replicate` is now called `replications`"]);
        assert_eq!(scenario.seeds().len(), 4);
        // What is not known is helped with present names only.
        let unknown = read("{ kind = \"nice\", flor = 0.5 }").unwrap_err();
        assert!(unknown.contains("did you mean `floor`?") && !unknown.contains("min_window"), "{unknown}");
    }

    #[test]
    fn what_is_written_is_what_differs_from_the_defaults() {
        let written = |cc: &str| serde_json::to_value(&read(cc).unwrap().flow[0].cc).unwrap();
        assert_eq!(written("{ kind = \"vegas\", alpha = 2 }"), json!("vegas"));
        assert_eq!(written("{ kind = \"vegas\", alpha = 1 }"), json!({"kind": "vegas", "alpha": 1.0}));
        let paper = written("{ kind = \"nice\", fraction = 0.5, variant = \"paper\", burst = 3 }");
        assert_eq!(paper, json!({"kind": "nice", "variant": "paper", "burst": 3}));
    }

    #[test]
    fn a_name_with_parameters_is_the_table() {
        let short = read("\"nice:threshold=0.1,burst=3\"").unwrap();
        let table = read("{ kind = \"nice\", threshold = 0.1, burst = 3 }").unwrap();
        assert_eq!((&short.flow, short.scenario_hash()), (&table.flow, table.scenario_hash()));
        // "ledbat++" in an editor's pattern: plus signs stand for themselves.
        let schema = super::super::json_schema()["$defs"]["CongestionControl"].to_string();
        assert!(schema.contains(r"ledbat\\+\\+|") && read("\"ledbat++:target=60ms\"").is_ok(), "{schema}");
        for (cc, part) in [
            ("nice:treshold=0.1", "did you mean `threshold`?"),
            ("nice:threshold=2", "`threshold` is out of range: 2"),
            ("nyce:threshold=0.1", "`kind` cannot be \"nyce\""),
            ("nice:0.1", "write for example \"nice:threshold=0.1\""),
        ] {
            let error = read(&format!("\"{cc}\"")).unwrap_err();
            assert!(error.contains(part) && error.contains("test.toml:6:6"), "{error}");
        }
    }

    #[test]
    fn numbers_that_are_no_short_decimals_are_fractions() {
        for (number, text) in
            [(1.0 / 48.0, "1/48"), (819.0 / 1024.0, "819/1024"), (0.125, "0.125"), (2.0, "2")]
        {
            assert_eq!(Given::Number(number).plain(), text);
        }
    }
}
