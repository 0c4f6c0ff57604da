//! When a program is ready for others, and what ends a run early.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::command::ProgramCommand;
use super::quantity::Time;

/// How long programs wait for another to be ready, by default.
pub const PATIENCE: Time = Time(warpline_core::TimeDelta::from_secs(30));

/// How to tell that a program is ready: one of `port`, `prints`, `file` and `command`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// A port of the host on which TCP listens or a UDP socket is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535), example = 8080)]
    pub port: Option<u16>,
    /// A text that the program prints, to its standard output or error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"listening")]
    pub prints: Option<String>,
    /// A file that exists. If it existed before the program started, it must change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"/tmp/ready")]
    pub file: Option<String>,
    /// A command that exits with code 0, written like a program's `command`. It is run every 100 ms on the program's host, in the
    /// program's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"curl -s http://localhost/")]
    pub command: Option<ProgramCommand>,
    /// How long it may take from the program's start, in the run's time. If it takes longer, the run ends with an error. Default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"10s")]
    pub within: Option<Time>,
}

/// [`Ready`] as scenarios write it: a table, a port number, or a text whose first word is the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness(pub Ready);

impl Ready {
    /// How many conditions it gives; must be one.
    pub(super) fn given(&self) -> usize {
        [self.port.is_some(), self.prints.is_some(), self.file.is_some(), self.command.is_some()]
            .into_iter()
            .filter(|given| *given)
            .count()
    }

    /// How long other programs wait for it.
    pub fn limit(&self) -> Time {
        self.within.unwrap_or(PATIENCE)
    }

    /// Reads a text such as "prints listening"; empty if its first word is not a key.
    fn from_words(text: &str) -> Ready {
        let (key, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let value = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        let nothing = Ready::default();
        match key {
            "port" => Ready { port: value.and_then(|port| port.parse().ok()), ..nothing },
            "prints" => Ready { prints: value, ..nothing },
            "file" => Ready { file: value, ..nothing },
            "command" => Ready { command: value.map(ProgramCommand::Shell), ..nothing },
            _ => nothing,
        }
    }
}

impl Serialize for Readiness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Readiness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Readiness(Ready::from_words(&text))),
            Value::Number(port) => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
                Ok(Readiness(Ready { port: Some(port.unwrap_or(0)), ..Ready::default() }))
            }
            table => Ready::deserialize(table).map(Readiness).map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Readiness {
    fn schema_name() -> Cow<'static, str> {
        "Readiness".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Ready>();
        json_schema!({
            "description": "How to tell that a program is ready: a port number, a text such as \"prints listening\", or a table.",
            "examples": [8080, "prints listening", {"port": 8080, "within": "10s"}],
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 65535, "description": "A port."},
                {"type": "string", "description": "\"port 8080\", \"prints TEXT\", \"file PATH\" or \"command LINE\"."},
                table,
            ],
        })
    }
}

/// What ends a run early: "PROGRAM exits", or a list of such texts, all of which must come true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Until(pub Vec<String>);

impl Until {
    /// The program of a condition "PROGRAM exits"; none for any other text.
    pub fn program(condition: &str) -> Option<&str> {
        condition
            .trim()
            .strip_suffix("exits")
            .filter(|rest| rest.ends_with(char::is_whitespace))
            .map(str::trim)
    }
}

impl Serialize for Until {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Until {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            One(String),
            All(Vec<String>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::One(one) => Until(vec![one]),
            Form::All(all) => Until(all),
        })
    }
}

impl JsonSchema for Until {
    fn schema_name() -> Cow<'static, str> {
        "Until".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What ends a run early: \"PROGRAM exits\", or a list of such texts, all of which must come true.",
            "examples": ["client exits", ["a.client exits", "b.client exits"]],
            "anyOf": [
                {"type": "string", "description": "\"PROGRAM exits\"."},
                {"type": "array", "items": {"type": "string"}, "description": "All must come true."},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    fn scenario(programs: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"9s\"\nclock = {{ mode = \"real\" }}\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n{programs}"
        );
        Scenario::from_toml("test.toml", &text, &[]).map_err(|errors| errors.to_string())
    }

    fn two(server: &str, client: &str) -> Result<Scenario, String> {
        let host = |name: &str| format!("[[host]]\nname = \"{name}\"\nendpoint = \"live\"\n");
        scenario(&format!(
            "{}[[host.program]]\nname = \"server\"\ncommand = \"x\"\n{server}\n{}[[host.program]]\ncommand = \"y\"\n{client}\n",
            host("a"),
            host("b")
        ))
    }

    #[test]
    fn readiness_has_short_forms() {
        let ready = |text: &str| two(text, "").unwrap().host[0].programs()[0].ready.clone().unwrap().0;
        assert_eq!(ready("ready = 8080"), ready("ready = \"port 8080\""));
        assert_eq!(ready("ready = 8080"), ready("ready = { port = 8080 }"));
        assert_eq!(ready("ready = \"prints now listening\"").prints.as_deref(), Some("now listening"));
        assert_eq!(ready("ready = \"file up\""), ready("ready = { file = \"up\" }"));
        assert_eq!(ready("ready = \"command true\""), ready("ready = { command = \"true\" }"));
        assert_eq!(ready("ready = { port = 1, within = \"2s\" }").limit().to_string(), "2s");
        // Written out and read back, it is the same.
        let scenario = two("ready = \"prints x\"", "").unwrap();
        assert_eq!(Scenario::from_toml("again", &scenario.to_toml(), &[]).unwrap().host, scenario.host);
    }

    #[test]
    fn wrong_values_are_reported_at_their_keys() {
        for (server, client, part) in [
            ("ready = \"listening\"", "", "`ready` needs one of `port`"),
            ("ready = { port = 1, file = \"x\" }", "", "`ready` needs one of `port`"),
            ("ready = 0", "", "`ready`"),
            ("ready = { port = 1, within = \"0s\" }", "", "`within` must be above zero"),
            ("ready = 1", "after = [\"sever\"]", "there is no program `sever`"),
            ("", "after = [\"server\"]", "has no `ready`"),
            ("ready = 1\nafter = [\"b.0\"]", "ready = 2\nafter = [\"server\"]", "wait for each other"),
            ("", "name = \"7\"", "cannot be a program's name"),
        ] {
            let errors = two(server, client).unwrap_err();
            assert!(errors.contains(part), "{server} {client}: {errors}");
        }
        for (until, part) in
            [("\"sever exits\"", "there is no program `sever`"), ("\"server ends\"", "PROGRAM exits")]
        {
            let errors = scenario(&format!(
                "until = {until}\n[[host]]\nname = \"a\"\nendpoint = \"live\"\n[[host.program]]\nname = \"server\"\ncommand = \"x\"\n"
            ));
            let errors = errors.unwrap_err();
            assert!(errors.contains(part), "{until}: {errors}");
        }
    }
}
