//! Links of a scenario: rate, delay, queue, loss, jitter, down times, records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_net::jitter::JitterKind;
use warpline_net::loss::LossKind;
use warpline_net::qdisc::QdiscConfig;
use warpline_net::radio::RadioKind;

use super::Scenario;
use super::component::Written;
use super::quantity::{BitRate, Size, Time};

/// A link between two nodes, written `[[link]]`. Nodes exist by being named.
///
/// `between` makes a duplex link, two one-way links named "a>b" and "b>a". Every option, `loss`, `jitter` and `trace` too, holds in
/// both directions, each with draws of its own, unless `reverse` says otherwise: `loss = "1%", reverse = { loss = "none" }` loses on the
/// way there only. `from` and `to` make a single one.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name for `--set link[NAME].rate=...`; default: the two nodes with a dash, "r1-r2".
    #[schemars(example = &"bottleneck")]
    pub name: Option<String>,
    /// The two ends of a duplex link. The first is where the forward direction starts. The options hold in both directions; what differs
    /// on the way back is in `reverse`.
    #[schemars(example = &serde_json::json!(["r1", "r2"]))]
    pub between: Option<[String; 2]>,
    /// Where a one-way link starts; goes with `to`, not with `between`.
    #[schemars(example = &"r1")]
    pub from: Option<String>,
    /// Where a one-way link ends.
    #[schemars(example = &"r2")]
    pub to: Option<String>,
    /// What the forward direction is like.
    #[serde(flatten)]
    pub options: LinkOptions,
    /// What differs in the reverse direction of a duplex link. Giving `rate`, `schedule`, `trace` or `radio` here replaces all of them.
    #[schemars(example = &serde_json::json!({"rate": "1Mbit/s"}))]
    pub reverse: Option<LinkOptions>,
}

/// A duplex link that a topology builds: the options of a `[[link]]` without its ends.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DuplexOptions {
    /// What the forward direction is like.
    #[serde(flatten)]
    pub options: LinkOptions,
    /// What differs in the reverse direction. Giving `rate`, `schedule`, `trace` or `radio` here replaces all of them.
    #[schemars(example = &serde_json::json!({"rate": "1Mbit/s"}))]
    pub reverse: Option<LinkOptions>,
}

/// What one direction of a link is like.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkOptions {
    /// Constant rate at which packets are sent. One of `rate`, `schedule`, `trace` and `radio` is needed; with a schedule this is the
    /// rate before its first step, and without it that step's rate holds before it, too.
    #[schemars(example = &"10Mbit/s")]
    pub rate: Option<BitRate>,
    /// Rates that come into force at given times, in order. A packet in transmission finishes at the rate it began with.
    #[schemars(example = &serde_json::json!([{"at": "10s", "rate": "5Mbit/s"}, {"at": "20s", "rate": "10Mbit/s"}]))]
    pub schedule: Option<Vec<RateStep>>,
    /// Period after which the schedule starts again; without it the last rate stays.
    #[schemars(example = &"30s")]
    pub repeat: Option<Time>,
    /// A mahimahi trace: a text file with one line per opportunity to send 1500 bytes, in milliseconds from the start, repeated
    /// for ever. The path is relative to the scenario file. With `between` both directions follow it, unless `reverse` has a rate or a trace
    /// of its own.
    #[schemars(example = &"traces/cellular.down")]
    pub trace: Option<String>,
    /// A radio in place of `rate`, `schedule` and `trace`, as a table or in short: "wifi,rate=65Mbit/s" sends in aggregates as Wi-Fi does. With `between` in both directions,
    /// each with draws of its own, unless `reverse` has a rate, a trace or a radio of its own.
    #[schemars(example = &serde_json::json!({"kind": "leo", "min_rate": "50Mbit/s", "max_rate": "200Mbit/s"}), example = &"wifi,rate=65Mbit/s")]
    pub radio: Option<Radio>,
    /// Propagation delay, one way. Default 0s.
    #[schemars(example = &"20ms")]
    pub delay: Option<Time>,
    /// Delays that come into force at given times, in order, as when packets take another route. A packet takes the delay in force when it leaves; none
    /// overtakes another by that. BDPs and routes go by `delay`.
    #[schemars(example = &serde_json::json!([{"at": "60s", "delay": "70ms"}, {"at": "120s", "delay": "20ms"}]))]
    pub delays: Option<Vec<DelayStep>>,
    /// What waits in front of the link, as a table or in short: "250p" is a drop-tail queue with this limit. Default `"1000p"`.
    #[schemars(example = &serde_json::json!({"kind": "droptail", "limit": "1BDP"}), example = &"250p")]
    pub queue: Option<Queue>,
    /// Packets lost on the link after they were sent, as a table or in short: "1%" loses each with this probability. With `between` they are
    /// lost in both directions, unless `reverse` says otherwise. Default none.
    #[schemars(example = &"0.1%", example = &serde_json::json!({"kind": "bernoulli", "probability": 0.001}))]
    pub loss: Option<Loss>,
    /// Packets that arrive twice, chosen as a loss model chooses those that it loses, as a table or in short: "1%" copies each with this probability. A copy arrives
    /// right behind its packet and takes no time on this link; a packet that is lost has none. Default none.
    #[schemars(example = &"0.1%", example = &serde_json::json!({"kind": "correlated", "probability": 0.01, "correlation": 0.25, "form": "netem"}))]
    pub duplicate: Option<Loss>,
    /// Packets of which the link changes a bit, chosen as a loss model chooses those that it loses, as a table or in short: "1%". They arrive, and their receiver
    /// drops them, as their checksum does not fit; those of programs and guests really have a bit changed. Default none.
    #[schemars(example = &"0.1%", example = &serde_json::json!({"kind": "every", "n": 1000}))]
    pub corrupt: Option<Loss>,
    /// Random delay that each packet takes in addition to `delay`, as a table or in short: "uniform,max=5ms". With `between` in both
    /// directions, unless `reverse` says otherwise. Default none.
    #[schemars(example = &serde_json::json!({"kind": "exponential", "mean": "2ms", "reorder": true}), example = &"uniform,max=5ms")]
    pub jitter: Option<Jitter>,
    /// When the link is down: what waits or comes is lost, what is under way arrives. Default never.
    #[schemars(example = &serde_json::json!([{"at": "10s", "for": "2s"}]))]
    pub down: Option<Vec<Down>>,
    /// Bytes that the link adds to every packet (38B for Ethernet with preamble and gap). Default: the scenario's `framing`.
    #[schemars(example = &"38B")]
    pub framing: Option<Size>,
    /// Largest IP packet that the link takes. Larger live packets are cut into fragments or refused with an ICMP error by the router in
    /// front of the link, as IP has it; simulated flows are not bound by it (their `tcp.mss` is). Default: no limit, and 1500B for the
    /// interfaces of live hosts.
    #[schemars(example = &"1400B")]
    pub mtu: Option<Size>,
    /// Priority flow control at the far end: the node there pauses the link when more than `xoff` of what came over it waits there. Default none.
    #[schemars(example = &serde_json::json!({"xoff": "100kB"}))]
    pub pfc: Option<Pfc>,
    /// What to record of this link. Default nothing (totals and time series are always kept).
    #[schemars(example = &serde_json::json!(["pcap", "queue"]))]
    pub record: Option<Vec<LinkRecordKind>>,
}

/// When the node at the far end of a link pauses it (priority flow control, IEEE 802.1Qbb). Sizes are from the IP header on. Where the link's queue is of the kind
/// "priority", each of its classes (the first eight; further ones with the eighth) is counted and paused by itself; otherwise all packets pause together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pfc {
    /// The link is paused when so much of what came over it is at the node.
    #[schemars(example = &"100kB")]
    pub xoff: Size,
    /// It goes on when so little is left. Default: half of `xoff`.
    #[schemars(example = &"50kB")]
    pub xon: Option<Size>,
    /// How much more than `xoff` may be there; what comes then is dropped. Default: what comes until a pause takes hold, twice the link's delay at
    /// its rate and three full packets.
    #[schemars(example = &"30kB")]
    pub headroom: Option<Size>,
}

/// A step of a rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// When the rate comes into force, from the run's start (or from the period's).
    #[schemars(example = &"10s")]
    pub at: Time,
    /// The rate from then on; 0 stops the link, packets wait.
    #[schemars(example = &"5Mbit/s")]
    pub rate: BitRate,
}

/// A step of a link's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayStep {
    /// When the delay comes into force, from the run's start.
    #[schemars(example = &"60s")]
    pub at: Time,
    /// The propagation delay from then on, one way.
    #[schemars(example = &"70ms")]
    pub delay: Time,
}

/// A time during which a link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Down {
    /// When it goes down.
    #[schemars(example = &"10s")]
    pub at: Time,
    /// How long it stays down.
    #[serde(rename = "for")]
    #[schemars(example = &"2s")]
    pub duration: Time,
}

/// What a link can record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkRecordKind {
    /// Every packet event, in packets.parquet.
    Packets,
    /// A capture of what was sent, NAME.pcapng, for Wireshark.
    Pcap,
    /// The backlog at every change, for the queue plot.
    Queue,
}

/// A queueing discipline.
pub type Queue = Written<QdiscConfig>;

/// A loss model.
pub type Loss = Written<LossKind>;

/// A radio.
pub type Radio = Written<RadioKind>;

/// A jitter model.
pub type Jitter = Written<JitterKind>;

impl DuplexOptions {
    /// What the reverse direction is like.
    pub fn back(&self) -> LinkOptions {
        self.options.back(self.reverse.as_ref())
    }
}

impl LinkOptions {
    /// Whether they say how fast the link sends.
    pub fn has_rate(&self) -> bool {
        self.rate.is_some() || self.schedule.is_some() || self.trace.is_some() || self.radio.is_some()
    }

    /// What the reverse direction of a duplex link is like whose forward direction has these options: the same, but for what `reverse`
    /// says.
    pub fn back(&self, reverse: Option<&LinkOptions>) -> LinkOptions {
        reverse.map_or_else(|| self.clone(), |reverse| self.overridden_by(reverse))
    }

    /// These options with `over`'s in place of them where `over` has some. A rate, schedule, trace or radio in `over` replaces all
    /// of them, as they exclude each other.
    pub fn overridden_by(&self, over: &LinkOptions) -> LinkOptions {
        let speed = if over.has_rate() { over } else { self };
        LinkOptions {
            rate: speed.rate,
            schedule: speed.schedule.clone(),
            repeat: speed.repeat,
            trace: speed.trace.clone(),
            radio: speed.radio.clone(),
            delay: over.delay.or(self.delay),
            delays: over.delays.clone().or_else(|| self.delays.clone()),
            queue: over.queue.clone().or_else(|| self.queue.clone()),
            loss: over.loss.clone().or_else(|| self.loss.clone()),
            duplicate: over.duplicate.clone().or_else(|| self.duplicate.clone()),
            corrupt: over.corrupt.clone().or_else(|| self.corrupt.clone()),
            jitter: over.jitter.clone().or_else(|| self.jitter.clone()),
            down: over.down.clone().or_else(|| self.down.clone()),
            framing: over.framing.or(self.framing),
            mtu: over.mtu.or(self.mtu),
            pfc: over.pfc.or(self.pfc),
            record: over.record.clone().or_else(|| self.record.clone()),
        }
    }
}

impl Scenario {
    /// What a link with `between` has in both directions that people often mean for one: its loss, copies, corruption, trace or jitter, unless `reverse` says
    /// otherwise.
    pub fn both_ways(&self) -> Option<&'static str> {
        let one = |link: &Link| {
            link.between.as_ref()?;
            let (own, none) = (&link.options, LinkOptions::default());
            let back = link.reverse.as_ref().unwrap_or(&none);
            let chosen = |own: &Option<Loss>, back: &Option<Loss>| {
                own.as_ref().is_some_and(Written::is_some) && back.is_none()
            };
            let same = [
                ("loss", chosen(&own.loss, &back.loss)),
                ("duplicate", chosen(&own.duplicate, &back.duplicate)),
                ("corrupt", chosen(&own.corrupt, &back.corrupt)),
                ("trace", own.trace.is_some() && !back.has_rate()),
                ("jitter", own.jitter.as_ref().is_some_and(Written::is_some) && back.jitter.is_none()),
            ];
            same.into_iter().find(|(_, same)| *same).map(|(what, _)| what)
        };
        self.link.iter().find_map(one)
    }
}

impl Link {
    /// The two ends, forward direction first; `None` where the scenario does not say them (it does not load then).
    pub fn ends(&self) -> Option<(&str, &str)> {
        match (&self.between, &self.from, &self.to) {
            (Some([a, b]), None, None) => Some((a, b)),
            (None, Some(a), Some(b)) => Some((a, b)),
            _ => None,
        }
    }

    /// What the reverse direction of a duplex link is like.
    pub fn back(&self) -> LinkOptions {
        self.options.back(self.reverse.as_ref())
    }

    /// The name, given or made of the ends.
    pub fn label(&self) -> String {
        match (&self.name, self.ends()) {
            (Some(name), _) => name.clone(),
            (None, Some((a, b))) => format!("{a}-{b}"),
            (None, None) => String::new(),
        }
    }
}
