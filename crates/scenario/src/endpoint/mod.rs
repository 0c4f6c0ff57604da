//! The kinds of endpoint, one file each: the keys that `[[host]]` takes for the kind, what the kind can do, and how it is
//! checked. `warpline_lab` runs them.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ClockMode;
use super::address::Address;
use super::application::Application;
use super::checker::Check;
use super::document::entry;
use super::program::Program;
use super::quantity::Size;
use super::rebind::Rebind;
use super::tcp::TcpOptions;

/// Facts about a kind of endpoint that hold in every scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name in scenarios.
    pub name: &'static str,
    /// What it is, as a sentence.
    pub what: &'static str,
    /// The clocks that it follows.
    pub clocks: &'static [ClockMode],
    /// Why it cannot follow the others; empty if it follows all.
    pub why: &'static str,
    /// What generates the traffic of flows that end there.
    pub traffic: Traffic,
    /// What the connections of those flows speak.
    pub protocol: Protocol,
    /// What it needs of the machine that runs it.
    pub needs: &'static str,
}

/// The protocol of a host's connections. Both ends of a flow need the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// QUIC, which is carried in UDP datagrams.
    Quic,
    /// SCTP, straight over IP.
    Sctp,
}

impl Protocol {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Quic => "QUIC",
            Protocol::Sctp => "SCTP",
        }
    }

    /// Its name in results.
    pub fn transport(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Quic => "quic",
            Protocol::Sctp => "sctp",
        }
    }
}

/// What generates the traffic of a `[[flow]]` at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// The built-in TCP model.
    #[default]
    Model,
    /// The host's programs only.
    Programs,
    /// The host's kernel, for flows that only move bytes, and its programs.
    Kernel,
    /// A transport stack in this process, with its own packets.
    Stack,
    /// Programs on machines outside, of which nothing is known here.
    Outside,
}

impl Traffic {
    /// Whether real programs run there.
    pub fn has_programs(self) -> bool {
        matches!(self, Traffic::Programs | Traffic::Kernel | Traffic::Outside)
    }

    fn describe(self, protocol: Protocol) -> String {
        let programs = "to and from its programs, at a `port`";
        match self {
            Traffic::Model => "any `app`, by the TCP model".to_owned(),
            Traffic::Stack if protocol == Protocol::Tcp => "any `app` over TCP, by its own code".to_owned(),
            Traffic::Stack => {
                format!("any `app` over TCP; they go over {}, to a host that speaks it, too", protocol.name())
            }
            Traffic::Programs | Traffic::Outside => programs.to_owned(),
            Traffic::Kernel => {
                format!("by its kernel (`{}`); {programs}", Application::for_kernels().join("`, `"))
            }
        }
    }
}

/// The keys of every host whose packets are real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Addresses {
    /// Its IPv4 address. Default 10.0.0.1 for the first node that links mention, 10.0.0.2 for the second and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"192.0.2.1")]
    pub address: Option<Address<Ipv4Addr>>,
    /// Its IPv6 address. Default fd77:6172:7075::1 for the first node, and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2001:db8::1")]
    pub address6: Option<Address<Ipv6Addr>>,
}

/// The keys of every host on which real programs run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Real {
    /// Its addresses.
    #[serde(flatten)]
    pub addresses: Addresses,
    /// The programs that run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<Program>,
    /// A NAT in front of it that changes its bindings. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebind: Option<Rebind>,
}

/// The keys of every host that is a transport stack in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Buffers {
    /// Send buffer of each of the stack's sockets. Default: the stack's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"256KiB")]
    pub send_buffer: Option<Size>,
    /// Receive buffer of each of the stack's sockets: the largest window that it can offer. Default: the stack's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"256KiB")]
    pub receive_buffer: Option<Size>,
}

impl Buffers {
    /// The largest size in bytes: the largest window of TCP (RFC 7323 section 2.3).
    const LARGEST: u64 = 1 << 30;

    /// Reports sizes beyond what the stack called `name` takes in the entry `[[host]]` of index `number`.
    fn check(&self, check: &mut Check<'_>, number: usize, name: &str) {
        self.check_from(1, check, number, name);
    }

    /// The same for a stack that takes no fewer than `least` bytes.
    fn check_from(&self, least: u64, check: &mut Check<'_>, number: usize, name: &str) {
        for (key, size) in [("send_buffer", self.send_buffer), ("receive_buffer", self.receive_buffer)] {
            if size.is_some_and(|size| !(least..=Buffers::LARGEST).contains(&size.0.0)) {
                let message = format!("`{key}` is out of range");
                let help = format!("{name} takes {least}B to 1GiB");
                check.error(&entry("host", number, &[key]), message, &help);
            }
        }
    }
}

/// A kind of endpoint; implemented in its file.
pub(crate) trait Kind: Default + Serialize + DeserializeOwned + JsonSchema {
    /// What holds for all endpoints of this kind.
    const ABOUT: About;

    /// The keys that all hosts with real programs have; none where no real programs run.
    fn real(&self) -> Option<&Real> {
        None
    }

    /// The same keys, to be changed.
    fn real_mut(&mut self) -> Option<&mut Real> {
        None
    }

    /// Its addresses, if it can have some of its own.
    fn addresses(&self) -> Option<&Addresses> {
        self.real().map(|real| &real.addresses)
    }

    /// The NAT in front of it, if there is one.
    fn rebind(&self) -> Option<&Rebind> {
        self.real()?.rebind.as_ref()
    }

    /// TCP options for the built-in model, if it uses the model.
    fn tcp(&self) -> Option<&TcpOptions> {
        None
    }

    /// The names of its congestion controls, its default first, if it is a transport stack in this process.
    fn congestion_controls(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Whether those congestion controls are Warpline's own, which have parameters.
    fn has_parameters(&self) -> bool {
        false
    }

    /// Reports errors in the entry `[[host]]` of index `number`, which is of this kind. Types, ranges of plain numbers and the clock have
    /// been checked before.
    fn check(&self, _check: &mut Check<'_>, _number: usize) {}
}

/// Makes [`Endpoint`] from the kinds, each in its file.
macro_rules! endpoints {
    ($($module:ident::$kind:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$kind;)+

        /// The kind of a host, with the keys of that kind.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "each kind is documented in its file")]
        pub enum Endpoint {
            $($kind($kind),)+
        }

        impl Endpoint {
            /// All kinds, the default first.
            pub const ALL: &'static [About] = &[$($kind::ABOUT),+];

            /// Facts about its kind.
            pub fn about(&self) -> &'static About {
                match self {
                    $(Endpoint::$kind(_) => &const { $kind::ABOUT },)+
                }
            }

            /// The keys that all hosts with real programs have; none where no real programs run.
            pub fn real(&self) -> Option<&Real> {
                match self {
                    $(Endpoint::$kind(own) => own.real(),)+
                }
            }

            /// The same keys, to be changed.
            pub fn real_mut(&mut self) -> Option<&mut Real> {
                match self {
                    $(Endpoint::$kind(own) => own.real_mut(),)+
                }
            }

            /// The NAT in front of it, if there is one.
            pub fn rebind(&self) -> Option<&Rebind> {
                match self {
                    $(Endpoint::$kind(own) => own.rebind(),)+
                }
            }

            /// Its addresses, if it can have some of its own.
            pub fn addresses(&self) -> Option<&Addresses> {
                match self {
                    $(Endpoint::$kind(own) => own.addresses(),)+
                }
            }

            /// TCP options for the built-in model; none if it does not use the model, or none are given.
            pub fn tcp(&self) -> Option<&TcpOptions> {
                match self {
                    $(Endpoint::$kind(own) => own.tcp(),)+
                }
            }

            /// The names of its congestion controls, its default first, if it is a transport stack in this process.
            pub fn congestion_controls(&self) -> Option<&'static [&'static str]> {
                match self {
                    $(Endpoint::$kind(own) => own.congestion_controls(),)+
                }
            }

            /// Whether those congestion controls are Warpline's own, which have parameters.
            pub fn has_parameters(&self) -> bool {
                match self {
                    $(Endpoint::$kind(own) => own.has_parameters(),)+
                }
            }

            pub(crate) fn check(&self, check: &mut Check<'_>, number: usize) {
                match self {
                    $(Endpoint::$kind(own) => own.check(check, number),)+
                }
            }

            /// Reads one from the name of its kind and the keys of that kind.
            pub(crate) fn read(name: &str, keys: Map<String, Value>) -> serde_json::Result<Self> {
                match name {
                    $(name if name == $kind::ABOUT.name => {
                        serde_json::from_value(Value::Object(keys)).map(Endpoint::$kind)
                    })+
                    other => Err(serde_json::Error::custom(format!("{other:?} is not an endpoint"))),
                }
            }

            /// The keys of its kind.
            pub(crate) fn write(&self) -> serde_json::Result<Value> {
                match self {
                    $(Endpoint::$kind(own) => serde_json::to_value(own),)+
                }
            }

            /// The keys of each kind, with their schemas.
            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Map<String, Value>)> {
                let keys = |schema: schemars::Schema| match schema.to_value()["properties"].take() {
                    Value::Object(keys) => keys,
                    _ => Map::new(),
                };
                vec![$(($kind::ABOUT.name, keys($kind::json_schema(generator)))),+]
            }
        }

        impl Default for Endpoint {
            fn default() -> Self {
                endpoints!(@first $($kind)+)
            }
        }
    };
    (@first $first:ident $($rest:ident)*) => { Endpoint::$first($first::default()) };
}

pub use guest::{CPU_PERIOD, Tsc};
pub use quinn::Controls;

// To add a kind, add its file and one line here. The first is the default.
endpoints! {
    model::Model,
    live::Live,
    guest::Guest,
    interface::Interface,
    smoltcp::Smoltcp,
    lwip::Lwip,
    netstack::Netstack,
    bsd::Bsd,
    object::Object,
    quinn::Quinn,
    sctp::Sctp,
}

impl Endpoint {
    /// Facts about the kind of this name.
    pub fn named(name: &str) -> Option<&'static About> {
        Endpoint::ALL.iter().find(|about| about.name == name)
    }

    /// The kinds for which `holds` is true, as messages list them: `"live" or "guest"`.
    pub(crate) fn list(holds: impl Fn(&About) -> bool) -> String {
        let names: Vec<String> = Endpoint::ALL
            .iter()
            .filter(|about| holds(about))
            .map(|about| format!("{:?}", about.name))
            .collect();
        names.join(" or ")
    }

    /// What each kind can do, as a table in Markdown.
    pub fn table() -> String {
        let mut text =
            "| `endpoint` | what it is | clocks | real programs | flows | needs |\n| --- | --- | --- | --- | --- | --- |\n"
                .to_owned();
        for About { name, what, clocks, traffic, protocol, needs, .. } in Endpoint::ALL {
            let clocks: Vec<&str> = clocks.iter().map(|clock| clock.name()).collect();
            let programs = match traffic {
                Traffic::Outside => "its own",
                traffic if traffic.has_programs() => "yes",
                _ => "no",
            };
            let (clocks, flows) = (clocks.join(", "), traffic.describe(*protocol));
            text.push_str(&format!(
                "| `\"{name}\"` | {what} | {clocks} | {programs} | {flows} | {needs} |\n"
            ));
        }
        text
    }

    /// The schema of the key `endpoint`.
    pub(crate) fn words() -> Value {
        let word = |about: &About| json!({"type": "string", "const": about.name, "description": about.what});
        let words: Vec<Value> = Endpoint::ALL.iter().map(word).collect();
        let default = Endpoint::ALL[0].name;
        json!({
            "description": format!("What the host is. Default {default}."),
            "oneOf": words,
            "default": default,
            "examples": [Endpoint::ALL[1].name],
        })
    }
}
