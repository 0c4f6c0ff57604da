//! The congestion control of a flow: a name, or a table with parameters.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::diagnostics::{Collector, spelling_help};
use super::document::Node;
use super::expand::entry;
use super::quantity::Time;

/// A congestion control and its parameters. Written as a name, `cc = "vegas"`, or as a table,
/// `cc = { kind = "vegas", alpha = 1, beta = 3 }`. A parameter left out has the algorithm's own default.
#[derive(Clone, Debug, PartialEq)]
pub struct Cc(pub CcKind);

/// The algorithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CcKind {
    /// Reno's window: slow start, one segment per RTT, half on loss (RFC 5681).
    Reno {
        /// What an acknowledgement counts for when the window grows. Default bytes.
        counting: Option<AckCounting>,
    },
    /// CUBIC (RFC 9438).
    Cubic {
        /// Multiplicative decrease factor, above 0 and below 1. Default 0.7.
        beta: Option<f64>,
        /// Aggressiveness in segments per second cubed. Default 0.4.
        c: Option<f64>,
        /// Whether to give up bandwidth to new flows faster. Default true.
        fast_convergence: Option<bool>,
        /// Whether to be at least as fast as Reno would be. Default true.
        reno_friendly: Option<bool>,
        /// What ends slow start before a loss does. Default linux.
        hystart: Option<Hystart>,
        /// Whether what Reno would have grows by a segment per RTT once it has regained the last maximum, as RFC 9438 has it. Default
        /// false, as in Linux.
        catch_up: Option<bool>,
    },
    /// TCP Vegas (Brakmo and Peterson 1995).
    Vegas {
        /// Segments in the queue below which the window grows. Default 2.
        alpha: Option<f64>,
        /// Segments in the queue above which it shrinks. Default 4.
        beta: Option<f64>,
        /// Segments in the queue at which slow start ends. Default 1.
        gamma: Option<f64>,
        /// What an acknowledgement counts for when the window grows. Default bytes.
        counting: Option<AckCounting>,
        /// Whether slow start doubles the window only every other round trip, as in the paper. Default false, as in Linux.
        alternate_slow_start: Option<bool>,
        /// How the segments in the queue are reckoned. Default linux.
        estimate: Option<VegasEstimate>,
        /// What remains of the window after a loss, above 0 and below 1; 0.75 in the paper. Default 0.5, as in Linux.
        decrease: Option<f64>,
    },
    /// BIC (Xu, Harfoush and Rhee 2004).
    Bic {
        /// Most segments of growth per RTT. Default 16.
        #[schemars(range(min = 1))]
        max_increment: Option<u32>,
        /// RTTs that the last segments up to the old maximum take. Default 20.
        #[schemars(range(min = 1))]
        smooth_part: Option<u32>,
        /// What remains of the window after a loss, above 0 and below 1. Default 819/1024.
        beta: Option<f64>,
        /// Window in segments up to which it acts as Reno. Default 14.
        low_window: Option<u32>,
        /// Whether a flow that lost before it regained its last maximum gives way. Default true.
        fast_convergence: Option<bool>,
        /// Whether it grows as many times as fast as an acknowledgement covers segments, as in Linux. Default true.
        ack_ratio: Option<bool>,
    },
    /// Westwood+ (Grieco and Mascolo 2004).
    Westwood {
        /// Tick of the clock that it reckons with, as the kernel in jiffies: 10ms with HZ=100. Default 0s, exact.
        #[schemars(example = &"10ms")]
        tick: Option<Time>,
    },
    /// LEDBAT (RFC 6817).
    Ledbat {
        /// Queueing delay aimed at, at most 100ms. Default 100ms.
        target: Option<Time>,
        /// Gain, above 0 to 1. Default 1.
        gain: Option<f64>,
        /// Segments by which the window may exceed what is in flight. Default 1.
        allowed_increase: Option<f64>,
        /// Smallest window in segments. Default 2.
        min_window: Option<f64>,
        /// One-minute minima kept of the base delay. Default 10.
        base_history: Option<u32>,
    },
    /// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus).
    #[serde(rename = "ledbat++")]
    LedbatPlusPlus {
        /// Queueing delay aimed at. Default 60ms.
        target: Option<Time>,
        /// Whether the window is slowed down periodically, to measure the base delay. Default true.
        slow_down: Option<bool>,
    },
    /// TCP-LP (Kuzmanovic and Knightly 2003).
    Lp {
        /// Part of the way from the smallest to the largest one-way delay at which congestion begins. Default 0.15.
        threshold: Option<f64>,
        /// Length of the phase without growth after an indication of congestion, in RTTs. Default 3.
        inference: Option<f64>,
        /// Whose rules. Default paper.
        variant: Option<LpVariant>,
    },
    /// TCP Nice (Venkataramani, Kokku and Dahlin 2002).
    Nice {
        /// Whose rules: the defaults of all that follows. Default revised.
        variant: Option<NiceVariant>,
        /// Segments in the queue below which the window grows. Default 1.
        alpha: Option<f64>,
        /// Segments in the queue above which it shrinks. Default 3.
        beta: Option<f64>,
        /// Part of the way from the smallest to the largest RTT above which an RTT counts as congested. Default 0.2.
        threshold: Option<f64>,
        /// Part of a window's ACKs that must be congested for the window to be reduced. Default 0.4; 0.5 in the paper.
        fraction: Option<f64>,
        /// What remains of the window when it is reduced for delay, above 0 and below 1. Default 0.7; 0.5 in the paper.
        decrease: Option<f64>,
        /// Segments by which the window grows in a round trip where the queue is empty, above 0. Default 1.5; 1 in the paper.
        growth: Option<f64>,
        /// Delay above the smallest RTT at which the window stays as it is, as a part of that at which an RTT counts as congested: it grows
        /// the less the nearer a round is to it, and shrinks beyond. Default 0.5; 0, as in the paper, for growth at any delay.
        target: Option<f64>,
        /// Smallest window in segments. Default 1/48; 1 is the paper's "W >= 1".
        min_window: Option<f64>,
        /// Largest RTT after the first sample, in smallest RTTs, 1 or more. Default 2.
        start: Option<f64>,
        /// Delay above the smallest RTT at which an RTT counts as congested, whatever the threshold says. Default 10ms; in the paper
        /// there is none.
        most_delay: Option<Time>,
        /// Packets of full size that may wait at the narrowest link, by what they take there, before any RTT counts as congested, 0
        /// or more. Default 4; 0 in the paper.
        own_packets: Option<f64>,
        /// Whether the largest RTT is that of the rounds' smallest, which delayed ACKs do not raise. Default true; false in the paper.
        max_of_rounds: Option<bool>,
        /// Whether the window is halved as soon as enough ACKs are congested, not at the end of the round. Default true; false in
        /// the paper.
        prompt: Option<bool>,
        /// How long the smallest and the largest RTT are remembered at least; twice that at most. Default 10min; 0s, as in the
        /// paper, for ever.
        base_window: Option<Time>,
    },
    /// An algorithm that the program which runs the scenario has registered under this name (a Python class); from a guest, one of Linux.
    Custom {
        /// Its name.
        name: String,
    },
}

/// What an acknowledgement counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AckCounting {
    /// The bytes that it acknowledges (RFC 3465, Linux).
    Bytes,
    /// One segment, however much it acknowledges (RFC 2581, ns-2): with delayed ACKs the window grows half as fast.
    Acks,
}

/// What ends slow start before a loss does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hystart {
    /// Nothing.
    No,
    /// A train of acknowledgements half a round trip long, or a rise of the RTT, as in Linux.
    Linux,
    /// A rise of the RTT that lasts (HyStart++, RFC 9406).
    Rfc9406,
}

/// How Vegas reckons the segments that it holds in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VegasEstimate {
    /// `cwnd * (rtt - base) / base`, as Linux.
    Linux,
    /// `cwnd * (rtt - base) / rtt`, as the paper and ns-2.
    Paper,
}

/// Whose TCP-LP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LpVariant {
    /// The paper's.
    Paper,
    /// The kernel's (`lp`), which takes the delay at an indication for the smallest there is: much less timid.
    Linux,
}

/// Whose TCP Nice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NiceVariant {
    /// The paper's.
    Paper,
    /// The paper's with a better notion of the queue, and quicker: interferes less.
    Revised,
}

/// Names that may stand alone.
pub const CC_NAMES: [&str; 9] =
    ["reno", "cubic", "vegas", "bic", "westwood", "ledbat", "ledbat++", "lp", "nice"];

impl Cc {
    /// The algorithm called `name` with its own defaults.
    pub fn named(name: &str) -> Option<Cc> {
        Some(Cc(match name {
            "reno" => CcKind::Reno { counting: None },
            "cubic" => CcKind::Cubic {
                beta: None,
                c: None,
                fast_convergence: None,
                reno_friendly: None,
                hystart: None,
                catch_up: None,
            },
            "vegas" => CcKind::Vegas {
                alpha: None,
                beta: None,
                gamma: None,
                counting: None,
                alternate_slow_start: None,
                estimate: None,
                decrease: None,
            },
            "bic" => CcKind::Bic {
                max_increment: None,
                smooth_part: None,
                beta: None,
                low_window: None,
                fast_convergence: None,
                ack_ratio: None,
            },
            "westwood" => CcKind::Westwood { tick: None },
            "ledbat" => CcKind::Ledbat {
                target: None,
                gain: None,
                allowed_increase: None,
                min_window: None,
                base_history: None,
            },
            "ledbat++" => CcKind::LedbatPlusPlus { target: None, slow_down: None },
            "lp" => CcKind::Lp { threshold: None, inference: None, variant: None },
            "nice" => CcKind::Nice {
                variant: None,
                alpha: None,
                beta: None,
                threshold: None,
                fraction: None,
                decrease: None,
                growth: None,
                target: None,
                min_window: None,
                start: None,
                most_delay: None,
                own_packets: None,
                max_of_rounds: None,
                prompt: None,
                base_window: None,
            },
            _ => return None,
        }))
    }

    /// The name, for tables and plots.
    pub fn name(&self) -> &str {
        match &self.0 {
            CcKind::Reno { .. } => "reno",
            CcKind::Cubic { .. } => "cubic",
            CcKind::Vegas { .. } => "vegas",
            CcKind::Bic { .. } => "bic",
            CcKind::Westwood { .. } => "westwood",
            CcKind::Ledbat { .. } => "ledbat",
            CcKind::LedbatPlusPlus { .. } => "ledbat++",
            CcKind::Lp { .. } => "lp",
            CcKind::Nice { .. } => "nice",
            CcKind::Custom { name } => name,
        }
    }
}

/// Checks the congestion controls that flows of a document name: all but guests, which have Linux's, have those of ours.
pub(super) fn check_names(root: &Node, errors: &mut Collector) {
    let value = root.to_json();
    let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
    let hosts = list("host");
    let is_guest = |from: &str| {
        let guests = hosts.iter().filter(|host| host["endpoint"] == "guest");
        let names = guests.filter_map(|host| host["name"].as_str());
        // The node, or one of a group of the topology.
        names
            .into_iter()
            .any(|name| name.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    for (i, flow) in list("flow").iter().enumerate() {
        let Some(name) = flow["cc"].as_str().filter(|name| !CC_NAMES.contains(name)) else { continue };
        let from = flow["from"].as_str().unwrap_or_default();
        if is_guest(from) {
            continue;
        }
        let mut help = spelling_help(name, &CC_NAMES);
        help.push("or a table".to_owned());
        help.push(
            "what Linux has beside these, a guest can name: a [[host]] for `from` with endpoint = \"guest\""
                .to_owned(),
        );
        errors.about(root, &entry("flow", i, &["cc"]), format!("`cc` cannot be {name:?}"), help);
    }
}

impl Default for Cc {
    fn default() -> Self {
        Cc(CcKind::Cubic {
            beta: None,
            c: None,
            fast_convergence: None,
            reno_friendly: None,
            hystart: None,
            catch_up: None,
        })
    }
}

impl Serialize for Cc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The short form where it says the same.
        if Cc::named(self.name()).as_ref() == Some(self) {
            serializer.serialize_str(self.name())
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Cc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            // Linux has others by name; whether they may be named here is checked with the hosts.
            Value::String(name) => Ok(Cc::named(&name).unwrap_or(Cc(CcKind::Custom { name }))),
            table => CcKind::deserialize(table).map(Cc).map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Cc {
    fn schema_name() -> Cow<'static, str> {
        "CongestionControl".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<CcKind>();
        json_schema!({
            "description": "A congestion control: its name, or a table with its kind and parameters.",
            "examples": ["cubic", {"kind": "vegas", "alpha": 1, "beta": 3}],
            "anyOf": [
                {"type": "string", "enum": CC_NAMES},
                {"type": "string", "description": "From a guest: a congestion control of Linux, \"bbr\" for example."},
                table,
            ],
        })
    }
}
