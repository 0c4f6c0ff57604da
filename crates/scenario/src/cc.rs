//! The congestion control of a flow: a name, alone or with parameters, or a table.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use warpline_core::parameter::Choice;
use warpline_transport::cc::Algorithm;
use warpline_transport::media;

use super::component;
use super::short;

/// A congestion control and its parameters. Written as a name, `cc = "vegas"`, as a name with parameters, `cc = "vegas:alpha=1,beta=3"`,
/// or as a table, `cc = { kind = "vegas", alpha = 1, beta = 3 }`. A parameter left out has the algorithm's own default.
#[derive(Clone, Debug, PartialEq)]
pub enum Cc {
    /// A built-in one.
    BuiltIn(Algorithm),
    /// A built-in one for media, which only `app = "media"` can use.
    Media(media::Algorithm),
    /// One that is registered under this name by the program that runs the scenario (a Python class); from a guest, one of Linux.
    Custom {
        /// Its name.
        name: String,
    },
}

impl Cc {
    /// The kind of a congestion control that is not built in.
    pub const CUSTOM: &str = "custom";

    /// The name, for tables and plots.
    pub fn name(&self) -> &str {
        match self {
            Cc::BuiltIn(algorithm) => algorithm.kind(),
            Cc::Media(algorithm) => algorithm.kind(),
            Cc::Custom { name } => name,
        }
    }

    /// The names of the built-in ones for TCP.
    pub fn for_tcp() -> &'static [&'static str] {
        Algorithm::KINDS
    }

    /// The names of all built-in ones.
    pub(super) fn kinds() -> Vec<&'static str> {
        [Algorithm::KINDS, media::Algorithm::KINDS].concat()
    }

    /// The built-in one of this name, with its defaults.
    fn named(name: &str) -> Option<Cc> {
        let media = || media::Algorithm::of_kind(name).map(Cc::Media);
        Algorithm::of_kind(name).map(Cc::BuiltIn).or_else(|_| media()).ok()
    }
}

impl Default for Cc {
    fn default() -> Self {
        Cc::BuiltIn(Algorithm::default())
    }
}

impl Serialize for Cc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // The short form, if there are no parameters.
            Cc::BuiltIn(algorithm) if algorithm.given().is_empty() => {
                serializer.serialize_str(algorithm.kind())
            }
            Cc::Media(algorithm) if algorithm.given().is_empty() => {
                serializer.serialize_str(algorithm.kind())
            }
            Cc::BuiltIn(algorithm) => component::write(algorithm).serialize(serializer),
            Cc::Media(algorithm) => component::write(algorithm).serialize(serializer),
            Cc::Custom { name } => json!({"kind": Self::CUSTOM, "name": name}).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Cc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            // Names of Linux's congestion controls are allowed for guests; `cc_names` checks that.
            Value::String(name) => Ok(Cc::named(&name).unwrap_or(Cc::Custom { name })),
            Value::Object(table) if table.get("kind").is_some_and(|kind| kind == Self::CUSTOM) => {
                let name = table.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| de::Error::missing_field("name"))?;
                Ok(Cc::Custom { name: name.to_owned() })
            }
            Value::Object(table) => {
                let kind = table.get("kind").and_then(Value::as_str).unwrap_or_default();
                let read = match media::Algorithm::KINDS.contains(&kind) {
                    true => component::read(&table).map(Cc::Media),
                    false => component::read(&table).map(Cc::BuiltIn),
                };
                read.map_err(de::Error::custom)
            }
            _ => Err(de::Error::custom("a congestion control is a name or a table")),
        }
    }
}

impl JsonSchema for Cc {
    fn schema_name() -> Cow<'static, str> {
        "CongestionControl".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<CcKind>();
        let kinds = Cc::kinds();
        json_schema!({
            "description": "A congestion control: its name, alone or with parameters, or a table with its kind and parameters.",
            "examples": ["cubic", "nice:threshold=0.1", {"kind": "vegas", "alpha": 1, "beta": 3}],
            "anyOf": [
                {"type": "string", "enum": kinds},
                {
                    "type": "string",
                    "format": short::CC,
                    "pattern": format!("^\\s*({}):.+$", kinds.join("|").replace('+', "\\+")),
                    "description": "A name with parameters.",
                    "examples": ["nice:threshold=0.1"],
                },
                {"type": "string", "description": "From a guest: a congestion control of Linux, \"bbr\" for example."},
                table,
            ],
        })
    }
}

/// The table, in the schema.
struct CcKind;

impl JsonSchema for CcKind {
    fn schema_name() -> Cow<'static, str> {
        "CcKind".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut variants = component::variants::<Algorithm>(generator);
        variants.extend(component::variants::<media::Algorithm>(generator));
        variants.push(json_schema!({
            "type": "object",
            "description": "An algorithm that is registered under this name by the program that runs the scenario (a Python class); from a guest, \
                            one of Linux.",
            "properties": {
                "kind": {"type": "string", "const": Cc::CUSTOM},
                "name": {"type": "string", "description": "Its name."},
            },
            "required": ["kind", "name"],
            "additionalProperties": false,
        }));
        json_schema!({"description": "The algorithms.", "oneOf": variants})
    }
}
