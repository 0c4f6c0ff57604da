//! The JSON Schema of a scenario, made from the structs.
//!
//! `docs/scenario.schema.json` is a copy for editors. A test fails when it is stale; running the tests with
//! `WARPLINE_WRITE_SCHEMA=1` in the environment writes it.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::component::former;
use super::{Scenario, short};

/// Keys of a scenario that had another name, which is still read: the former name and the present one.
const FORMER: [(&str, &str); 1] = [("replicate", "replications")];

/// The JSON Schema (draft 2020-12) of a scenario.
pub fn json_schema() -> &'static Value {
    // Made once in a process: every scenario that is read is checked against it.
    static SCHEMA: LazyLock<Value> = LazyLock::new(generate);
    &SCHEMA
}

fn generate() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Scenario>().to_value();
    short::describe(&mut schema);
    for (was, now) in FORMER {
        schema["properties"][was] = former(&schema["properties"][now], now);
    }
    schema
}

/// The schema as text, as in the committed file.
pub fn json_schema_text() -> String {
    format!("{:#}\n", json_schema())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.schema.json");
        if std::env::var_os("WARPLINE_WRITE_SCHEMA").is_some() {
            std::fs::write(path, json_schema_text()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default().replace("\r\n", "\n");
        assert!(
            committed == json_schema_text(),
            "docs/scenario.schema.json is stale: run the tests of warpline-scenario with WARPLINE_WRITE_SCHEMA=1"
        );
    }
}
