//! Every parameter of every component: what `check` accepts can be built and run, and the documented default is the real one.

use std::path::Path;

use serde_json::{Map, Value, json};
use warpline_core::LinkId;
use warpline_lab::run::{Progress, RunOptions, run};
use warpline_net::Control;
use warpline_scenario::files::Files;
use warpline_scenario::plan::link_config;
use warpline_scenario::{Scenario, json_schema};

/// A parameter of a component: its holder, the table around it with other required keys, its name, its schema.
struct Parameter {
    holder: &'static str,
    table: Map<String, Value>,
    name: String,
    schema: Value,
}

/// A schema without references and without "or null".
fn plain(root: &Value, schema: &Value) -> Value {
    let mut merged = schema.as_object().cloned().unwrap_or_default();
    if let Some(name) = schema["$ref"].as_str() {
        let target = &root["$defs"][name.trim_start_matches("#/$defs/")];
        for (key, value) in plain(root, target).as_object().unwrap() {
            merged.entry(key.clone()).or_insert(value.clone());
        }
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        for choice in choices.iter().filter(|choice| choice["type"] != "null") {
            for (key, value) in plain(root, choice).as_object().unwrap() {
                merged.entry(key.clone()).or_insert(value.clone());
            }
        }
    }
    Value::Object(merged)
}

/// Every parameter of congestion controls, queues, loss, jitter and radios, and every TCP option.
fn parameters() -> Vec<Parameter> {
    let root = json_schema();
    let mut found = Vec::new();
    for (holder, def) in
        [("cc", "CcKind"), ("queue", "Queue"), ("loss", "Loss"), ("jitter", "Jitter"), ("radio", "Radio")]
    {
        for variant in root["$defs"][def]["oneOf"].as_array().unwrap_or_else(|| panic!("no {def}")) {
            // A short form has no parameters of its own.
            let Some(properties) = variant["properties"].as_object() else { continue };
            let kind = &properties["kind"]["const"];
            if kind == "custom" {
                continue;
            }
            let mut table = Map::from_iter([("kind".to_owned(), kind.clone())]);
            for name in variant["required"].as_array().unwrap() {
                let name = name.as_str().unwrap();
                if name != "kind" {
                    table.insert(name.to_owned(), plain(root, &properties[name])["examples"][0].clone());
                }
            }
            for (name, schema) in properties.iter().filter(|(name, _)| *name != "kind") {
                let (table, schema) = (table.clone(), plain(root, schema));
                found.push(Parameter { holder, table, name: name.clone(), schema });
            }
        }
    }
    for (name, schema) in root["$defs"]["TcpOptions"]["properties"].as_object().unwrap() {
        // What was saved of a path is a pair.
        let other = match name.as_str() {
            "saved_cwnd" => Some(("saved_rtt", "10ms")),
            "saved_rtt" => Some(("saved_cwnd", "100p")),
            _ => None,
        };
        let table = other.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect();
        found.push(Parameter { holder: "tcp", table, name: name.clone(), schema: plain(root, schema) });
    }
    assert!(found.len() > 90, "{}", found.len());
    found
}

/// A directory with the files that parameters name.
fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("losses.csv", "0\n1\n"), ("delays.csv", "time,delay\n0,1\n1,2\n")] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// A small scenario with `value` for the parameter.
fn with(parameter: &Parameter, value: Option<&Value>) -> Value {
    let mut table = parameter.table.clone();
    let mut scenario = json!({
        "duration": "150ms",
        "link": [{ "between": ["a", "b"], "rate": "10Mbit/s", "delay": "5ms" }],
        "flow": [{ "from": "a", "to": "b" }],
    });
    if parameter.holder == "cc" {
        // Of media and bulk, what this congestion control is for.
        scenario["flow"][0]["cc"] = Value::Object(table.clone());
        if Scenario::from_json(scenario.clone(), &[], Path::new("")).is_err() {
            scenario["flow"][0]["app"] = json!("media");
        }
    }
    if let Some(value) = value {
        table.insert(parameter.name.clone(), value.clone());
    }
    let holder = if matches!(parameter.holder, "cc" | "tcp") { "flow" } else { "link" };
    if parameter.holder == "radio" {
        scenario["link"][0]["rate"] = Value::Null;
    }
    scenario[holder][0][parameter.holder] = Value::Object(table);
    scenario
}

/// Values at the limits of the parameter's type and of its schema, next to them, and in between.
fn values(parameter: &Parameter) -> Vec<Value> {
    let schema = &parameter.schema;
    let mut values: Vec<Value> = schema["examples"].as_array().cloned().unwrap_or_default();
    values.extend(schema["enum"].as_array().cloned().unwrap_or_default());
    values.extend(
        schema["oneOf"].as_array().iter().flat_map(|of| of.iter().map(|choice| choice["const"].clone())),
    );
    let numbers = [-1.0, 0.0, 1e-300, 1e-9, 0.5, 0.999, 1.0, 1.001, 2.0, 3.0, 10.0, 1e9, 1e300];
    let whole = [0u64, 1, 2, 3, 16, 17, 255, 256, 65_535, 65_536, 65_537, u64::from(u32::MAX), u64::MAX];
    for bound in ["minimum", "maximum"] {
        if let Some(bound) = schema[bound].as_f64() {
            values.extend([json!(bound), json!(bound - 1.0), json!(bound + 1.0), json!(bound - 0.001)]);
        }
    }
    values.extend(numbers.map(|n| json!(n)));
    values.extend(whole.map(|n| json!(n)));
    values.extend([json!(true), json!(false), json!([0]), json!([1, 1]), json!([3, 2])]);
    values.extend([json!(["all rate 1Mbit/s default"]), json!(["all"]), json!([""])]);
    for text in [
        "0s",
        "1ns",
        "1us",
        "1ms",
        "5ms",
        "99ms",
        "100ms",
        "101ms",
        "1h",
        "100000h",
        "0B",
        "1B",
        "63B",
        "64B",
        "1500B",
        "65495B",
        "65536B",
        "1GB",
        "5GB",
        "1000000TB",
        "0p",
        "1p",
        "1000p",
        "4294967295p",
        "0BDP",
        "0.1BDP",
        "1BDP",
        "1e9BDP",
        "0bit/s",
        "1bit/s",
        "1Tbit/s",
        "unlimited",
        "0 segments",
        "1 segments",
    ] {
        values.push(json!(text));
    }
    // Only of the types that the schema allows; other tests check that the rest are errors.
    let types = schema["type"].to_string();
    values.retain(|value| {
        let word = match value {
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Array(_) => "array",
            Value::Number(number) if number.is_f64() => "number",
            _ => "integer",
        };
        schema["type"].is_null() || types.contains(word) || word == "integer" && types.contains("number")
    });
    values
}

#[test]
fn what_check_accepts_is_built_and_runs() {
    let (mut accepted, mut refused) = (0, 0);
    let files = files();
    for parameter in parameters() {
        let mut own = 0;
        for value in values(&parameter) {
            let Ok(scenario) = Scenario::from_json(with(&parameter, Some(&value)), &[], files.path()) else {
                refused += 1;
                continue;
            };
            let stop = &mut |progress: &Progress| {
                if progress.events > 50_000 { Control::Stop } else { Control::Continue }
            };
            let outcome = run(&scenario, &RunOptions::default(), stop);
            let Parameter { holder, table, name, .. } = &parameter;
            assert!(outcome.is_ok(), "{holder} {table:?}: {name} = {value}: {}", outcome.unwrap_err());
            own += 1;
        }
        assert!(
            own > 0,
            "{} {:?}: no value of `{}` was accepted",
            parameter.holder,
            parameter.table,
            parameter.name
        );
        accepted += own;
    }
    assert!(accepted > 300 && refused > 100, "{accepted} {refused}");
}

#[test]
fn a_parameter_that_cannot_be_built_is_reported_at_its_place() {
    let text = "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\", queue = { kind = \"codel\", \
         target = \"200ms\" } }]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = { kind = \"ledbat\", base_history = 0 }\n";
    let error = Scenario::from_toml("x.toml", text, &[]).unwrap_err().to_string();
    for part in
        ["x.toml:6:", "base_history", "allowed: 1 or more", "x.toml:2:", "`target` is out of range: 200ms"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// The value after "Default" in a description; none if it is not a plain value.
fn documented_default(schema: &Value) -> Option<Value> {
    let rest = schema["description"].as_str()?.split("Default ").nth(1)?;
    let end = |c: char| c.is_whitespace() || c == ',' || c == ';';
    let word = rest.split(end).next()?.trim_end_matches('.');
    if let Some((over, under)) = word.split_once('/') {
        return Some(json!(over.parse::<f64>().ok()? / under.parse::<f64>().ok()?));
    }
    let number = word.parse::<u64>().map(Value::from).or_else(|_| word.parse::<f64>().map(Value::from));
    let named = |schema: &Value| {
        schema["const"] == word || schema["enum"].as_array().is_some_and(|e| e.contains(&json!(word)))
    };
    let choice = named(schema) || schema["oneOf"].as_array().is_some_and(|choices| choices.iter().any(named));
    match word {
        "true" | "false" => Some(json!(word == "true")),
        _ if number.is_ok() => number.ok(),
        _ if choice || word.starts_with(|c: char| c.is_ascii_digit()) => Some(json!(word)),
        _ => None,
    }
}

#[test]
fn the_defaults_are_as_documented() {
    let mut count = 0;
    let files = files();
    for parameter in parameters() {
        let Some(default) = documented_default(&parameter.schema) else { continue };
        let built = |value: Option<&Value>| {
            let json = with(&parameter, value);
            let scenario = Scenario::from_json(json, &[], files.path())
                .unwrap_or_else(|error| panic!("{:?} {}: {error}", parameter.table, parameter.name));
            let expanded = scenario.expand();
            let algorithm = expanded.flows[0].cc.as_ref().unwrap();
            let tcp = &expanded.flows[0].tcp_from;
            let first = expanded.links.at(LinkId(0));
            let Ok((link, _)) = link_config(&first, String::new(), &scenario, &mut Files::default()) else {
                panic!("no link")
            };
            format!("{algorithm:?} {tcp:?} {:?} {:?} {:?}", link.qdisc, link.loss, (link.jitter, link.rate))
        };
        let (given, left_out) = (built(Some(&default)), built(None));
        assert_eq!(given, left_out, "{:?}: {} is documented as {default}", parameter.table, parameter.name);
        count += 1;
    }
    assert!(count > 85, "{count}");
}

#[test]
fn full_packets_include_the_framing_of_the_link() {
    let queue = |framing: &str| {
        let scenario = json!({
            "duration": "1s",
            "framing": framing,
            "link": [{ "between": ["a", "b"], "rate": "10Mbit/s", "queue": { "kind": "fq_codel" } }],
            "flow": [{ "from": "a", "to": "b" }],
        });
        let scenario = Scenario::from_json(scenario, &[], Path::new("")).unwrap();
        let expanded = scenario.expand();
        let first = expanded.links.at(LinkId(0));
        let Ok((link, _)) = link_config(&first, String::new(), &scenario, &mut Files::default()) else {
            panic!("no link")
        };
        link.sizing.packet
    };
    assert_eq!(queue("0B"), 1500);
    // The header of Ethernet, as Linux counts.
    assert_eq!(queue("14B"), 1514);
}
