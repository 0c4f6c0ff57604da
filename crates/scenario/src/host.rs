//! Hosts of a scenario, and the programs that run on live ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::quantity::{Size, Time};
use super::ready::Readiness;
use super::short::Probability;
use super::tcp::TcpOptions;

/// A host that needs to be told something, written `[[host]]`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The node's name, as links and topologies use it.
    #[schemars(example = &"server")]
    pub name: String,
    /// What the host is: "model", the built-in TCP model; "live", a network namespace in which real programs run (Linux; needs
    /// `[clock] mode = "real"`, or "dilated", by which its network is dilated and its programs and their CPU are not); or "guest", an
    /// unmodified Linux kernel with real programs in the time of the run (Linux on x86-64 with the package user-mode-linux; any clock). Real stacks ("stack:lwip") are not in this version. Default model.
    #[schemars(example = &"live")]
    pub endpoint: Option<String>,
    /// live, guest: its IPv4 address. Default 10.0.0.1 for the first node that links mention, 10.0.0.2 for the second and so on.
    #[schemars(example = &"192.0.2.1")]
    pub address: Option<Address<Ipv4Addr>>,
    /// live, guest: its IPv6 address. Default fd77:6172:7075::1 for the first node, and so on.
    #[schemars(example = &"2001:db8::1")]
    pub address6: Option<Address<Ipv6Addr>>,
    /// live, guest: the programs that run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<Program>,
    /// guest: the machine, one kernel, that it is on, together with all guests that name the same one. Default: a machine of its own
    /// with the host's name. Machines run in parallel; hosts on one machine need less memory.
    #[schemars(example = &"m1")]
    pub machine: Option<String>,
    /// guest: the kernel's congestion control for its connections ("bbr", "cubic", "reno", "vegas" and what else the package has as
    /// tcp_NAME.ko). Default: the kernel's, cubic.
    #[schemars(example = &"bbr")]
    pub cc: Option<String>,
    /// guest: the kernel's settings on this host, by sysctl(8)'s names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = &serde_json::json!({"net.ipv4.tcp_sack": "0"}))]
    pub sysctl: BTreeMap<String, String>,
    /// guest: share of one core that its machine gets, whatever the dilation, above 0 and at most 1 (control groups; not by the virtual
    /// clock, where a kernel's work takes no time). Guests of one machine share it. Default: all that it wants.
    #[schemars(with = "Option<Probability>", example = 0.5)]
    pub cpu_share: Option<f64>,
    /// guest: memory of its machine; what is not used is not taken. What programs write goes into it, too. Guests of one machine share it.
    /// Default: what its hosts, flows and the buffers in their `sysctl` need.
    #[schemars(example = &"2GB")]
    pub memory: Option<Size>,
    /// model: TCP options of connections that end here.
    pub tcp: Option<TcpOptions>,
}

impl Host {
    /// Whether it is a network namespace of this machine.
    pub fn is_live(&self) -> bool {
        self.endpoint.as_deref() == Some("live")
    }
    /// Whether it is a Linux guest.
    pub fn is_guest(&self) -> bool {
        self.endpoint.as_deref() == Some("guest")
    }
    /// Whether real programs run on it.
    pub fn runs_programs(&self) -> bool {
        self.is_live() || self.is_guest()
    }
    /// The machine of a guest.
    pub fn machine_name(&self) -> &str {
        self.machine.as_deref().unwrap_or(&self.name)
    }
}

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address<A>(pub A);

macro_rules! address {
    ($address:ty, $name:literal, $format:literal, $description:literal, $example:literal) => {
        impl Serialize for Address<$address> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0.to_string())
            }
        }
        impl<'de> Deserialize<'de> for Address<$address> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(deserializer)?;
                text.parse().map(Address).map_err(|_| D::Error::custom(concat!("expected ", $description)))
            }
        }
        impl JsonSchema for Address<$address> {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn schema_id() -> Cow<'static, str> {
                concat!("warpline::", $name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format, "description": $description, "examples": [$example] })
            }
        }
    };
}

address!(Ipv4Addr, "Ipv4Address", "ipv4", "An IPv4 address.", "192.0.2.1");
address!(Ipv6Addr, "Ipv6Address", "ipv6", "An IPv6 address.", "2001:db8::1");

/// A real program on a live host or a guest, written `[[host.program]]` below its host.
///
/// It runs on the host, in the directory of the scenario file (a guest sees the machine's files; what it writes stays in the guest). What it prints goes into the run directory:
/// `programs/HOST.NAME.stdout` and `.stderr`, where NAME is its name, or else its number on the host, from 0. `{NAME}` in its command stands for the IPv4
/// address of the node NAME, `{NAME:6}` for the IPv6 one; the environment has them too: `WARPLINE_ADDR_NAME` (capitals,
/// digits and `_`) and `WARPLINE_ADDR6_NAME` of every node, `WARPLINE_HOST`, `WARPLINE_ADDRESS` and `WARPLINE_ADDRESS6` of its own host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name, for messages, for files, and for `after` and `until`; one of its own on the host. Default: its number on the host, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"server")]
    pub name: Option<String>,
    /// The program and its arguments, as a list of words; or one string, which the shell (`sh -c`) reads.
    #[schemars(example = &serde_json::json!(["ping", "-c", "3", "{server}"]))]
    pub command: ProgramCommand,
    /// When it is started, unless it waits for others then (`after`). Default 0s.
    #[serde(default)]
    #[schemars(example = &"1s")]
    pub start: Time,
    /// What says that it is ready for others, which wait for it: a port that listens (`ready = 8080`), a text that it prints
    /// (`ready = "prints listening"`), a file (`ready = "file /tmp/ready"`), or a command that ends with exit code 0
    /// (`ready = "command curl -s http://localhost/"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &serde_json::json!({"port": 8080}))]
    pub ready: Option<Readiness>,
    /// Programs that it waits for until they are `ready`, by name ("server") or by host and name ("b.server"). Default: all that have
    /// `ready` and start no later, where it has no `ready` itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &serde_json::json!(["server"]))]
    pub after: Option<Vec<String>>,
    /// Environment variables in addition to those of `warpline` itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = &serde_json::json!({"LANG": "C"}))]
    pub environment: BTreeMap<String, String>,
    /// How it should end: with this exit code before the run does, or "any" way, or not at all ("running": it is stopped at
    /// the end of the run, as a server is). Anything else makes the run fail. Default 0.
    #[serde(default)]
    #[schemars(example = &"running")]
    pub expect: Expect,
    /// The signal that ends it at the end of the run if it still runs; SIGKILL follows a second later. Default TERM.
    #[serde(default)]
    pub stop: StopSignal,
    /// guest: files to bring back into the run directory at the end: a guest's own are gone with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &serde_json::json!(["/tmp/result.csv"]))]
    pub collect: Vec<String>,
}

/// What a program is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProgramCommand {
    /// A line for `sh -c`.
    Shell(String),
    /// The program and its arguments.
    Words(Vec<String>),
}

impl ProgramCommand {
    /// What is executed: the program and its arguments.
    pub fn words(&self) -> Vec<String> {
        match self {
            ProgramCommand::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            ProgramCommand::Words(words) => words.clone(),
        }
    }
}

impl std::fmt::Display for ProgramCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgramCommand::Shell(line) => f.write_str(line),
            ProgramCommand::Words(words) => f.write_str(&words.join(" ")),
        }
    }
}

impl Program {
    /// Its name, or its number on the host.
    pub fn label(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| number.to_string())
    }
}

/// How a program should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// By itself, with this exit code.
    Code(u8),
    /// However it likes.
    Any,
    /// Not before the run does.
    Running,
}

impl Default for Expect {
    fn default() -> Self {
        Expect::Code(0)
    }
}

impl Serialize for Expect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Expect::Code(code) => serializer.serialize_u8(*code),
            Expect::Any => serializer.serialize_str("any"),
            Expect::Running => serializer.serialize_str("running"),
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
            Word::Word(word) if word == "running" => Ok(Expect::Running),
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
            "description": "How a program should end: with an exit code, \"any\" way, or \"running\" still at the end of the run.",
            "examples": [0, "any", "running"],
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 255, "description": "An exit code." },
                { "const": "any", "type": "string", "description": "However it likes." },
                { "const": "running", "type": "string", "description": "Not before the run does." },
            ],
        })
    }
}

/// A signal that ends a program.
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
