//! The scenario reference as Markdown, generated from the JSON Schema.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The whole reference: the scenario's own keys, then every type in the order of the schema.
pub(crate) fn markdown(schema: &Value) -> String {
    let mut text = String::from(
        "# Scenario reference\n\nMade by `warpline schema --markdown`. Keys marked with an asterisk are required.\n\n## Scenario\n",
    );
    describe(schema, &mut text);
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        let _ = write!(text, "\n## {name}\n");
        describe(definition, &mut text);
    }
    text
}

/// The description of a type, then its keys, its words or its kinds.
fn describe(schema: &Value, text: &mut String) {
    if let Some(description) = schema["description"].as_str() {
        let _ = write!(text, "\n{description}\n");
    }
    if let Some(table) = schema["x-table"].as_str() {
        let _ = write!(text, "\n{table}");
    }
    if let Some(examples) = schema["examples"].as_array() {
        let _ = write!(text, "\nExamples: {}.\n", listed(examples));
    }
    keys(schema, text);
    let variants: Vec<&Value> =
        ["oneOf", "anyOf"].iter().filter_map(|key| schema[*key].as_array()).flatten().collect();
    let (kinds, words): (Vec<&Value>, Vec<&Value>) =
        variants.into_iter().partition(|variant| variant["properties"].is_object());
    if !words.is_empty() {
        text.push('\n');
    }
    for word in words {
        let _ = writeln!(text, "- {}{}", type_of(word), trailing(&line(&word["description"])));
    }
    for kind in kinds {
        let name = kind["properties"]["kind"]["const"].as_str().unwrap_or_default();
        let _ = write!(text, "\n### `kind = \"{name}\"`\n\n{}\n", line(&kind["description"]));
        keys(kind, text);
    }
}

/// The table of an object's keys, without the tag that names its kind.
fn keys(schema: &Value, text: &mut String) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let mut head = "\n| key | type | meaning | example |\n|---|---|---|---|\n";
    let shown = |property: &Value| property["const"].is_null() && property["deprecated"] != true;
    for (key, property) in properties.iter().filter(|(_, property)| shown(property)) {
        let required =
            schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key));
        let example = property["examples"].as_array().and_then(|examples| examples.first());
        let _ = writeln!(
            text,
            "{head}| `{key}`{} | {} | {}{} | {} |",
            if required { "\\*" } else { "" },
            cell(&type_of(property)),
            cell(&line(&property["description"])),
            cell(&range(property)),
            example.map(|example| cell(&code(example))).unwrap_or_default(),
        );
        head = "";
    }
}

/// A type in a few words, with links to those of this page.
fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if !schema["const"].is_null() {
        return code(&schema["const"]);
    }
    if let Some(variants) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let types: Vec<String> = variants.iter().map(type_of).filter(|name| name != "null").collect();
        return types.join(" or ");
    }
    let named: Vec<&str> = match &schema["type"] {
        Value::Array(types) => {
            types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
        }
        other => other.as_str().into_iter().collect(),
    };
    match named.as_slice() {
        ["array"] if schema["items"].is_object() => format!("list of {}", type_of(&schema["items"])),
        ["array"] => "list".to_owned(),
        ["object"] if schema["additionalProperties"].is_object() => {
            format!("table of {}", type_of(&schema["additionalProperties"]))
        }
        names => names.join(" or "),
    }
}

/// The range of a number, if it has one.
fn range(schema: &Value) -> String {
    let end = |key: &str| schema[key].as_f64();
    let (most, below) = (end("maximum"), end("exclusiveMaximum"));
    // "At least 0" is left out for whole numbers.
    let whole = schema["format"].as_str().is_some_and(|format| format.starts_with("uint"));
    let least = end("minimum").filter(|least| *least != 0.0 || most.or(below).is_some() || !whole);
    match (least, end("exclusiveMinimum"), most, below) {
        (Some(least), _, Some(most), _) => format!(" From {least} to {most}."),
        (least, above, most, below) => {
            let ends = [("at least", least), ("above", above), ("at most", most), ("below", below)];
            let ends: Vec<String> =
                ends.into_iter().filter_map(|(word, end)| Some(format!("{word} {}", end?))).collect();
            let text = ends.join(" and ");
            let mut rest = text.chars();
            rest.next().map_or(String::new(), |first| format!(" {}{}.", first.to_uppercase(), rest.as_str()))
        }
    }
}

/// A description on one line.
fn line(description: &Value) -> String {
    description.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn trailing(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Text escaped for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(value: &Value) -> String {
    format!("`{value}`")
}

fn listed(values: &[Value]) -> String {
    values.iter().map(code).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_kinds_and_words_are_described() {
        let schema = json!({
            "description": "An experiment.",
            "required": ["rate"],
            "properties": {
                "rate": { "$ref": "#/$defs/Rate", "description": "How\nfast.", "examples": ["1Mbit/s"] },
                "count": { "type": ["integer", "null"], "minimum": 1, "maximum": 9, "description": "How many." },
                "queue": { "anyOf": [{ "$ref": "#/$defs/Queue" }, { "type": "null" }] },
                "packets": { "type": "array", "items": { "type": "integer" } },
            },
            "$defs": {
                "Rate": { "type": "string", "description": "Bits a second.", "examples": ["2Mbit/s", "a|b"] },
                "Queue": { "oneOf": [{
                    "properties": { "kind": { "const": "red" }, "limit": { "type": "string" } },
                    "description": "Early.",
                }] },
                "App": { "oneOf": [{ "const": "bulk", "description": "All it can." }] },
            },
        });
        insta::assert_snapshot!(markdown(&schema));
    }
}
