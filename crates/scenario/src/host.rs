//! Hosts of a scenario.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::{Map, Value, json};

use super::Scenario;
use super::check::GOES_WITH;
use super::endpoint::{Endpoint, Guest, Interface, Traffic};
use super::program::Program;

/// A host with options or programs of its own, written `[[host]]`. In the file, the keys of its endpoint stand beside `name`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Host {
    /// The node's name, as links and topologies use it.
    pub name: String,
    /// What kind of host it is, with the keys of that kind.
    pub endpoint: Endpoint,
}

/// The keys that every host has.
const NAME: &str = "name";
const ENDPOINT: &str = "endpoint";

impl Host {
    /// Its programs; empty for a host without real ones.
    pub fn programs(&self) -> &[Program] {
        self.endpoint.real().map_or(&[], |real| &real.program)
    }

    /// What generates the traffic of flows that end here.
    pub fn traffic(&self) -> Traffic {
        self.endpoint.about().traffic
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Map::from_iter([(NAME.to_owned(), json!(self.name))]);
        let kind = self.endpoint.about().name;
        if kind != Endpoint::ALL[0].name {
            table.insert(ENDPOINT.to_owned(), json!(kind));
        }
        if let Value::Object(own) = self.endpoint.write().map_err(ser::Error::custom)? {
            table.extend(own);
        }
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Map::deserialize(deserializer)?;
        table.retain(|_, value| !value.is_null());
        let mut text = |key| match table.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let name = text(NAME).ok_or_else(|| D::Error::missing_field(NAME))?;
        let kind = text(ENDPOINT);
        let kind = kind.as_deref().unwrap_or(Endpoint::ALL[0].name);
        Ok(Host { name, endpoint: Endpoint::read(kind, table).map_err(D::Error::custom)? })
    }
}

impl JsonSchema for Host {
    fn schema_name() -> Cow<'static, str> {
        "Host".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = json!({
            "type": "string",
            "description": "The node's name, as links and topologies use it.",
            "examples": ["server"],
        });
        let mut properties =
            Map::from_iter([(NAME.to_owned(), name), (ENDPOINT.to_owned(), Endpoint::words())]);
        for (kind, keys) in Endpoint::schemas(generator) {
            for (key, schema) in keys {
                let property = properties.entry(key).or_insert(schema);
                let mut kinds = property[GOES_WITH][ENDPOINT].take();
                match kinds.as_array_mut() {
                    Some(kinds) => kinds.push(json!(kind)),
                    None => kinds = json!([kind]),
                }
                property[GOES_WITH] = json!({ENDPOINT: kinds});
            }
        }
        for property in properties.values_mut() {
            let kinds = property[GOES_WITH][ENDPOINT].as_array().map(Vec::as_slice).unwrap_or_default();
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            if !kinds.is_empty() {
                property["description"] = json!(format!(
                    "{}: {}",
                    kinds.join(", "),
                    property["description"].as_str().unwrap_or_default()
                ));
            }
        }
        json_schema!({
            "type": "object",
            "description": "A host with options or programs of its own, written `[[host]]`. Which keys it takes depends on its `endpoint`.",
            "x-table": Endpoint::table(),
            "properties": properties,
            "required": [NAME],
            "additionalProperties": false,
        })
    }
}

/// The `[[host]]` entries of a scenario by the names of their nodes, for whoever looks for many of them.
#[derive(Debug)]
pub struct HostsByName<'a>(BTreeMap<&'a str, &'a Host>);

impl<'a> HostsByName<'a> {
    /// The entry of a node, if it has one.
    pub fn find(&self, node: &str) -> Option<&'a Host> {
        self.0.get(node).copied()
    }

    /// What generates the traffic of flows at a node.
    pub fn traffic(&self, node: &str) -> Traffic {
        self.find(node).map(Host::traffic).unwrap_or_default()
    }
}

impl Scenario {
    /// Its `[[host]]` entries by name.
    pub fn hosts_by_name(&self) -> HostsByName<'_> {
        let mut hosts = BTreeMap::new();
        for host in &self.host {
            // A check refuses a second one. Until it does, the first counts.
            hosts.entry(host.name.as_str()).or_insert(host);
        }
        HostsByName(hosts)
    }

    /// The hosts that are guests.
    pub fn guests(&self) -> impl Iterator<Item = (&Host, &Guest)> {
        self.host.iter().filter_map(|host| match &host.endpoint {
            Endpoint::Guest(guest) => Some((host, guest)),
            _ => None,
        })
    }

    /// The hosts that are machines outside.
    pub fn outside(&self) -> impl Iterator<Item = (&Host, &Interface)> {
        self.host.iter().filter_map(|host| match &host.endpoint {
            Endpoint::Interface(outside) => Some((host, outside)),
            _ => None,
        })
    }

    /// Whether the run needs network namespaces on this machine.
    pub fn needs_namespaces(&self) -> bool {
        self.host.iter().any(|host| matches!(host.endpoint, Endpoint::Live(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_an_entry_is_a_model() {
        let text = "duration = \"1s\"\n\
                    link = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }, { between = [\"b\", \"c\"], rate = \"1Mbit/s\" }]\n\
                    host = [{ name = \"c\", endpoint = \"guest\" }, { name = \"a\", tcp = { mss = \"1000B\" } }]\n\
                    flow = [{ from = \"a\", to = \"b\" }]\n";
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap();
        let hosts = scenario.hosts_by_name();
        assert_eq!(
            ["a", "b", "c"].map(|node| hosts.traffic(node)),
            [Traffic::Model, Traffic::Model, Traffic::Kernel]
        );
        assert_eq!(hosts.find("a"), Some(&scenario.host[1]));
        assert_eq!(hosts.find("b"), None);
    }
}
