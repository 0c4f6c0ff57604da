//! The keys of a flow that belong to some applications only: the parameters of all of them, by name.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use warpline_core::parameter::{Choice, Field, Parameters};

use super::super::component;
use super::super::given::GivenParameters;
use super::Application;

/// The parameters of all applications. Those of one name are of one type, whatever application they belong to.
struct All(Vec<Application>);

impl Default for All {
    fn default() -> Self {
        All(Application::all())
    }
}

impl Parameters for All {
    fn fields(&mut self) -> Vec<Field<'_>> {
        let mut fields: Vec<Field<'_>> = Vec::new();
        for field in self.0.iter_mut().flat_map(|application| application.parameters().fields()) {
            if !fields.iter().any(|other| other.name == field.name) {
                fields.push(field);
            }
        }
        fields
    }
}

/// Their names.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| All::default().fields().iter().map(|field| field.name).collect());

/// The parameters of applications that a flow gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Keys(GivenParameters);

impl Keys {
    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.names()
    }

    /// Sets those of `parameters` that are given.
    pub(super) fn put_into(&self, parameters: &mut dyn Parameters) {
        self.0.put_into(parameters);
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As a struct, so that only these keys are taken from the flow's.
        deserializer.deserialize_struct("Keys", &NAMES, Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Keys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parameters of an application")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let mut table = Map::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            table.insert(name, value);
        }
        GivenParameters::read(&mut All::default(), &table).map(Keys).map_err(A::Error::custom)
    }
}

impl JsonSchema for Keys {
    fn schema_name() -> Cow<'static, str> {
        "Keys".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for name in NAMES.iter() {
            // What it means to each application, once where that is the same.
            let mut meanings: Vec<(String, Vec<&str>)> = Vec::new();
            for application in Application::all() {
                let Some(own) = application.describe().into_iter().find(|own| own.name == *name) else {
                    continue;
                };
                let schema = component::property(&own, generator);
                let meaning = schema["description"].as_str().unwrap_or_default().to_owned();
                properties.entry(*name).or_insert(schema);
                match meanings.iter_mut().find(|(other, _)| *other == meaning) {
                    Some((_, applications)) => applications.push(application.kind()),
                    None => meanings.push((meaning, vec![application.kind()])),
                }
            }
            let meanings: Vec<String> =
                meanings.iter().map(|(meaning, of)| format!("{}: {meaning}", of.join(", "))).collect();
            properties[*name]["description"] = json!(meanings.join(" "));
        }
        json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Scenario;
    use super::*;

    fn read(flow: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
        );
        Scenario::from_toml("test.toml", &text, &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_of_one_name_are_of_one_type() {
        for name in NAMES.iter() {
            let all = Application::all().into_iter().flat_map(|own| own.describe());
            let mut kinds: Vec<_> = all.filter(|own| own.name == *name).map(|own| own.kind).collect();
            kinds.dedup();
            assert_eq!(kinds.len(), 1, "{name}: {kinds:?}");
        }
    }

    #[test]
    fn a_flow_is_written_with_the_keys_it_was_given() {
        let scenario =
            read("app = \"onoff\"\nmean_on = \"0.5s\"\nshape = 1.5\nrate = \"1000kbit/s\"").unwrap();
        let written = scenario.to_json()["flow"][0].clone();
        let own = |name: &str| written[name].clone();
        assert_eq!(
            ["rate", "packet_size", "mean_on", "mean_off", "shape"].map(own),
            [json!("1Mbit/s"), Value::Null, json!("500ms"), Value::Null, json!(1.5)]
        );
        let again = Scenario::from_json(scenario.to_json(), &[], std::path::Path::new(""));
        assert_eq!(again.map(|again| again.flow).unwrap_or_default(), scenario.flow);
    }

    #[test]
    fn a_key_must_belong_to_the_application_and_be_in_its_range() {
        for (flow, message) in [
            ("app = \"cbr\"\nrate = \"1Mbit/s\"\nsize = \"1kB\"", "`size` does not apply to app = \"cbr\""),
            ("size = \"1kB\"", "app = \"bulk\" has no parameters of its own"),
            ("app = \"poisson\"", "for example message_rate = 100"),
            ("app = \"onoff\"\nrate = \"0bit/s\"", "`rate` is out of range: 0bit/s"),
            ("app = \"onoff\"\nrate = \"1Mbit/s\"\nshape = 1.0", "test.toml:8:9"),
            ("app = \"cbr\"\nrate = \"1Mbit/s\"\npacket_size = \"28B\"", "allowed: 29B to 65.535kB"),
            ("app = \"transfer\"\nsize = 5", "`size` must be a string"),
            ("app = \"bulk\"\ntransport = \"udp\"", "UDP can carry cbr, poisson, onoff, media, treno"),
        ] {
            let told = read(flow).unwrap_err();
            assert!(told.contains(message), "{flow}: {told}");
        }
    }
}
