//! Programs that run on live hosts and guests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::command::ProgramCommand;
use super::quantity::Time;
use super::ready::Readiness;

/// A real program on a live host or a guest, written `[[host.program]]` below its host.
///
/// It runs in the directory of the scenario file. (A guest sees the files of this machine; what it writes stays in the guest.) Its output goes into the run directory,
/// to `programs/HOST.NAME.stdout` and `.stderr`, where NAME is its name or, without one, its number on the host, from 0. In its command, `{NAME}` stands for the
/// IPv4 address of the node NAME and `{NAME:6}` for its IPv6 address. The environment has them too: `WARPLINE_ADDR_NAME` (capitals, digits and `_`) and
/// `WARPLINE_ADDR6_NAME` for every node, and `WARPLINE_HOST`, `WARPLINE_ADDRESS` and `WARPLINE_ADDRESS6` for its own host. `WARPLINE_PROGRAM` is the path of
/// `warpline` itself, for commands of the shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name in messages, file names, `after` and `until`; unique on the host. Default: its number on the host, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"server")]
    pub name: Option<String>,
    /// The program and its arguments as a list of words, or one string for the shell (`sh -c`). As the first of the words, `warpline` is this program, wherever it
    /// is installed.
    #[schemars(example = &serde_json::json!(["ping", "-c", "3", "{server}"]))]
    pub command: ProgramCommand,
    /// When it starts, unless it still waits for other programs (`after`). Default 0s.
    #[serde(default)]
    #[schemars(example = &"1s")]
    pub start: Time,
    /// How to tell that it is ready, for programs that wait for it: a port that listens (`ready = 8080`), a text that it prints
    /// (`ready = "prints listening"`), a file (`ready = "file /tmp/ready"`), or a command that exits with code 0
    /// (`ready = "command curl -s http://localhost/"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &serde_json::json!({"port": 8080}))]
    pub ready: Option<Readiness>,
    /// Programs that must be `ready` before it starts, by name ("server") or by host and name ("b.server"). Default: every program that has
    /// `ready` and starts no later; none if this program has a `ready` itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &serde_json::json!(["server"]))]
    pub after: Option<Vec<String>>,
    /// Environment variables, in addition to those of `warpline` itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = &serde_json::json!({"LANG": "C"}))]
    pub environment: BTreeMap<String, String>,
    /// How it must end: with this exit code before the end of the run; in "any" way; or "running", for a server, which is stopped at the end
    /// of the run. The run fails if it ends otherwise. Default 0.
    #[serde(default)]
    #[schemars(example = &"running")]
    pub expect: Expect,
    /// The signal that stops it if it still runs at the end of the run; SIGKILL follows a second later. Default TERM.
    #[serde(default)]
    pub stop: StopSignal,
    /// guest: files to copy into the run directory at the end. All other files of a guest are lost then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &serde_json::json!(["/tmp/result.csv"]))]
    pub collect: Vec<String>,
}

impl Program {
    /// Its name, or its number on the host.
    pub fn label(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| number.to_string())
    }
}

/// How a program must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// By itself, with this exit code.
    Code(u8),
    /// In any way.
    Any,
    /// Not before the end of the run.
    Running,
}

impl Default for Expect {
    fn default() -> Self {
        Expect::Code(0)
    }
}

impl Expect {
    /// The word for [`Expect::Running`], in scenarios and in results.
    pub const RUNNING: &'static str = "running";
}

impl Serialize for Expect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Expect::Code(code) => serializer.serialize_u8(*code),
            Expect::Any => serializer.serialize_str("any"),
            Expect::Running => serializer.serialize_str(Expect::RUNNING),
        }
    }
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Word {
            Code(u8),
            Word(String),
        }
        match Word::deserialize(deserializer)? {
            Word::Code(code) => Ok(Expect::Code(code)),
            Word::Word(word) if word == "any" => Ok(Expect::Any),
            Word::Word(word) if word == Expect::RUNNING => Ok(Expect::Running),
            Word::Word(_) => Err(D::Error::custom("expected an exit code, \"any\" or \"running\"")),
        }
    }
}

impl JsonSchema for Expect {
    fn schema_name() -> Cow<'static, str> {
        "Expect".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How a program must end: with an exit code, in \"any\" way, or not before the end of the run (\"running\").",
            "examples": [0, "any", "running"],
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 255, "description": "An exit code." },
                { "const": "any", "type": "string", "description": "In any way." },
                { "const": "running", "type": "string", "description": "Not before the end of the run." },
            ],
        })
    }
}

/// A signal that stops a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGINT, as Ctrl-C sends.
    Int,
    /// SIGHUP.
    Hup,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGKILL, which cannot be caught.
    Kill,
}
