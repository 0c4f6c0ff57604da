//! Flows of a scenario: who sends to whom, what, and with which TCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{App, Application, Keys, WebTable};
use super::cc::Cc;
use super::is_false;
use super::multipath::Multipath;
use super::pattern::Pattern;
use super::quantity::{BitRate, CodePoint, StartTime, Time, Window};
use super::tcp::TcpOptions;

/// Traffic from one node to another, written `[[flow]]`; `count` makes several alike.
///
/// Which of the parameters apply depends on `app`; one that does not is refused.
///
/// One end may be a host with real programs: a live host, a guest, or a machine behind an interface. Where that is `to`, the simulated TCP
/// connects to a program that listens there on `port`, and sends to it. Where it is `from`, the simulated host `to` offers its programs a
/// service on `port`: app is "discard", "echo", "source" or "http".
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name of the group in results and in `--set flow[NAME].cc=...`. Instances are "NAME.0", "NAME.1" and so on. Default: the
    /// app's name, with the flow's number where that is taken.
    #[schemars(example = &"bulk")]
    pub name: Option<String>,
    /// The node that opens the connection and sends the data, or a host group of the topology such as "left".
    #[schemars(example = &"client")]
    pub from: String,
    /// The node that receives, or a host group of the topology such as "right".
    #[schemars(example = &"server")]
    pub to: String,
    /// Which hosts of two groups send to each other. Default: "all-to-all" for arrivals, "turns" for the others.
    #[schemars(example = &"permutation")]
    pub pattern: Option<Pattern>,
    /// Nodes that the flow passes on its way, in order; acknowledgements and all else from `to` pass them the other way round. From node to node it
    /// takes the link between them, or the best route where there is none. Default: the best route, as `routing` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &serde_json::json!(["wifi"]))]
    pub via: Vec<String>,
    /// Over several paths at the same time, as Multipath TCP: app is "bulk" or "transfer". Each subflow has rows of its own in the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &serde_json::json!({"paths": [["wifi"], ["lte"]]}))]
    pub multipath: Option<Multipath>,
    /// How many such flows, as `pattern` counts them. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100000), example = 4)]
    pub count: u32,
    /// What the flow sends. Default bulk.
    #[serde(default)]
    pub app: App,
    /// What carries it. Default: udp for cbr, onoff and media, tcp for the others.
    pub transport: Option<Transport>,
    /// Where one end is a host with real programs: the TCP port of the program on `to`, or of the service that `to` offers.
    #[schemars(range(min = 1, max = 65535), example = 5001)]
    pub port: Option<u16>,
    /// To a program: how long the flow waits at the most, from its start, until a program listens on `port`; then the run ends with an
    /// error. 0s does not wait. Default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"10s")]
    pub wait: Option<Time>,
    /// To a live host or a guest: over IPv6. Services are there for both. Default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ipv6: bool,
    /// bulk and transfer between a guest and a guest, a stack or a simulated host: the receiver compares each byte with what was sent, and the run fails
    /// if one is wrong. Costs the guest a copy of the data. Default false; between stacks and simulated hosts it is always done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub verify: bool,
    /// The parameters of the application.
    #[serde(flatten)]
    pub keys: Keys,
    /// web: the sessions.
    pub web: Option<WebTable>,
    /// TCP and media: the congestion control. Default cubic; for media, gcc.
    pub cc: Option<Cc>,
    /// When the flow starts; a range lets each instance draw its own start. Default 0s.
    #[serde(default)]
    #[schemars(example = &"0s..1s")]
    pub start: StartTime,
    /// When the flow stops sending. Default: the end of the run.
    #[schemars(example = &"30s")]
    pub stop: Option<Time>,
    /// TCP options of this flow, for both of its ends.
    #[schemars(example = &serde_json::json!({"ecn": true, "mss": "512B"}))]
    pub tcp: Option<TcpOptions>,
    /// TCP: cap on the window, in segments or bytes; short for `tcp.max_window`.
    #[schemars(example = &"4p")]
    pub max_window: Option<Window>,
    /// TCP: cap on the sending rate; short for `tcp.max_rate`.
    #[schemars(example = &"1Mbit/s")]
    pub max_rate: Option<BitRate>,
    /// Class in priority queues, 0 first. Default 0.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub class: u8,
    /// Differentiated services code point of its packets, by which queues such as CAKE and HTB tell classes of traffic apart. Default CS0.
    #[serde(default)]
    #[schemars(example = &"EF")]
    pub dscp: CodePoint,
    /// What to record of these flows. Default nothing (totals and time series are always kept).
    #[serde(default)]
    #[schemars(example = &serde_json::json!(["tcp"]))]
    pub record: Vec<FlowRecordKind>,
}

fn one() -> u32 {
    1
}

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What a flow can record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowRecordKind {
    /// Every event of its TCP endpoints, in tcp.parquet: what the time-sequence graph is drawn from. Only ends with the TCP model have events.
    Tcp,
    /// A qlog file, NAME.sqlog, of each end. Only those of ends with the TCP model have events.
    Qlog,
    /// The distribution of the packets' latency, if the TCP model sends or the flow is UDP: its percentiles in the results.
    Latency,
}

impl Flow {
    /// What carries the flow.
    pub fn transport(&self) -> Transport {
        self.transport.unwrap_or_else(|| self.app.carriers()[0])
    }

    /// Which hosts of two groups send to each other.
    pub fn pattern(&self) -> Pattern {
        self.pattern.unwrap_or(if self.app == App::Arrivals { Pattern::AllToAll } else { Pattern::Turns })
    }

    /// What the flow sends, with defaults filled in.
    pub fn application(&self) -> Application {
        Application::of(self)
    }
}
