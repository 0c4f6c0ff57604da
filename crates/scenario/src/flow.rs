//! Flows of a scenario: who sends to whom, what, and with which TCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cc::Cc;
use super::quantity::{BitRate, Size, StartTime, Time, Window};
use super::tcp::TcpOptions;

/// Traffic from one node to another, written `[[flow]]`; `count` makes several alike.
///
/// Which of the parameters apply depends on `app`; one that does not is refused.
///
/// Under the real clock one end may be a live host. Where that is `to`, the simulated TCP connects to a program that listens there on
/// `port`, and sends to it. Where it is `from`, the simulated host `to` offers its programs a service on `port`: app is "discard",
/// "echo", "source" or "http".
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
    /// How many such flows. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100000), example = 4)]
    pub count: u32,
    /// What the flow sends. Default bulk.
    #[serde(default)]
    pub app: App,
    /// What carries it. Default: udp for cbr and onoff, tcp for the others.
    pub transport: Option<Transport>,
    /// Where one end is a live host: the TCP port, of the program on `to`, or of the service that `to` offers.
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
    /// transfer: bytes of each transfer; request: bytes of an answer; source: bytes of each connection, default as many as the program takes; http: bytes of every
    /// path but `/bytes/N`, default none.
    #[schemars(example = &"10MB")]
    pub size: Option<Size>,
    /// transfer: how many, one after another, each on a connection of its own. Default 1; 0 goes on until the end.
    pub transfers: Option<u32>,
    /// request: bytes of a request, at least 16. Default 100B.
    #[schemars(example = &"100B")]
    pub request_size: Option<Size>,
    /// request: how many, one after another. Default 0, which goes on until the end.
    pub requests: Option<u32>,
    /// transfer, request: pause between the end of one and the start of the next. Default 0s.
    #[schemars(example = &"1s")]
    pub pause: Option<Time>,
    /// cbr: the rate; onoff: the rate while on. Counts the wire bytes of full packets for UDP, payload for TCP.
    #[schemars(example = &"1Mbit/s")]
    pub rate: Option<BitRate>,
    /// cbr, onoff: bytes of a UDP packet on the wire, with its 28 bytes of headers; for TCP, bytes of each write. Default 1500B.
    #[schemars(example = &"1500B")]
    pub packet_size: Option<Size>,
    /// poisson: bytes of a message. Default 512B.
    #[schemars(example = &"512B")]
    pub message_size: Option<Size>,
    /// poisson: mean number of messages per second.
    #[schemars(range(min = 0.0), example = 100)]
    pub message_rate: Option<f64>,
    /// onoff: mean time on. Default 250ms.
    #[schemars(example = &"250ms")]
    pub mean_on: Option<Time>,
    /// onoff: mean time off. Default 250ms.
    #[schemars(example = &"250ms")]
    pub mean_off: Option<Time>,
    /// onoff: Pareto tail index of both times, above 1. Default 1.5.
    #[schemars(example = 1.5)]
    pub shape: Option<f64>,
    /// web: the sessions.
    pub web: Option<Web>,
    /// TCP: the congestion control. Default cubic.
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
    /// What to record of these flows. Default nothing (totals and time series are always kept).
    #[serde(default)]
    #[schemars(example = &serde_json::json!(["tcp"]))]
    pub record: Vec<FlowRecordKind>,
}

fn one() -> u32 {
    1
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// As much as it can, from start to stop.
    #[default]
    Bulk,
    /// Transfers of a given size.
    Transfer,
    /// Packets at a constant rate.
    Cbr,
    /// Messages at random times (a Poisson process), one stream for all.
    Poisson,
    /// A constant rate while on, nothing while off; both times are Pareto distributed.
    Onoff,
    /// A test with `cap` from start to stop: its report is btc-NAME.json.
    Cap,
    /// A test with `treno` from start to stop, whose probes `to` echoes: its report is btc-NAME.json. Of the TCP options it takes `mss`,
    /// `receive_buffer`, `initial_window`, `dupack_threshold`, `delayed_ack`, `initial_rto`, `min_rto` and `max_rto`, from the flow alone.
    Treno,
    /// Web sessions: `from` is the server that sends the objects, `to` the client that asks for them.
    Web,
    /// Requests over one connection, one after another: `from` is the server that answers, `to` the client that asks. Both are guests.
    Request,
    /// A service for the programs on the live host `from`: takes what they send (RFC 863).
    Discard,
    /// A service for the programs on the live host `from`: sends back what they send (RFC 862).
    Echo,
    /// A service for the programs on the live host `from`: sends `size` bytes and closes, or sends until they close.
    Source,
    /// A service for the programs on the live host `from`: a web server, that answers `GET /bytes/N` with N bytes and any other path
    /// with `size` bytes.
    Http,
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
    /// Every event of its TCP endpoints, in tcp.parquet: what the time-sequence graph is drawn from.
    Tcp,
    /// A qlog file, NAME.sqlog.
    Qlog,
    /// The distribution of the packets' latency: its percentiles in the results.
    Latency,
}

/// Web sessions, from a proxy's log or from distributions.
///
/// A session opens pages one after another with pauses to think; a page is a number of objects, fetched over a few
/// connections at once, each object on a connection of its own.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Web {
    /// A Squid access.log in the native format: each entry is a transfer of its size that starts at its time, counted from the
    /// log's first. The path is relative to the scenario file. Excludes the distributions below.
    #[schemars(example = &"traces/access.log")]
    pub access_log: Option<String>,
    /// New sessions per second (a Poisson process). Default 1.
    #[schemars(range(min = 0.0), example = 0.5)]
    pub session_rate: Option<f64>,
    /// Pages in a session. Default exponential, mean 5.
    #[schemars(example = &serde_json::json!({"kind": "exponential", "mean": 5}))]
    pub pages: Option<Distribution<f64>>,
    /// Objects in a page, at least one. Default Pareto, mean 8, shape 1.5.
    #[schemars(example = &serde_json::json!({"kind": "constant", "value": 4}))]
    pub objects: Option<Distribution<f64>>,
    /// Bytes in an object, at least one. Default Pareto, mean 12kB, shape 1.2, at most 10MB.
    #[schemars(example = &serde_json::json!({"kind": "pareto", "mean": "12kB", "shape": 1.2, "max": "10MB"}))]
    pub object_size: Option<Distribution<Size>>,
    /// Pause between two pages of a session. Default exponential, mean 5s.
    #[schemars(example = &serde_json::json!({"kind": "exponential", "mean": "5s"}))]
    pub think_time: Option<Distribution<Time>>,
    /// Connections that a session uses at once. Default 6.
    #[schemars(range(min = 1, max = 1000))]
    pub connections: Option<u32>,
}

/// A distribution of counts, sizes or times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "{T}Distribution")]
pub enum Distribution<T> {
    /// Always the same.
    Constant {
        /// The value.
        value: T,
    },
    /// Uniform between two values.
    Uniform {
        /// The smallest.
        min: T,
        /// The largest.
        max: T,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: T,
    },
    /// Pareto (heavy-tailed) from its smallest value, mean*(shape-1)/shape, up.
    Pareto {
        /// Mean, before it is cut off at `max`.
        mean: T,
        /// Tail index, above 1.
        shape: f64,
        /// Larger values are drawn again. Default none.
        max: Option<T>,
    },
    /// Log-normal.
    Lognormal {
        /// Median.
        median: T,
        /// Standard deviation of the logarithm, above 0.
        sigma: f64,
        /// Larger values are drawn again. Default none.
        max: Option<T>,
    },
}

/// What a flow sends, with every parameter filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// As much as it can.
    Bulk,
    /// Sized transfers.
    Transfer {
        /// Bytes of each.
        size: u64,
        /// How many one after another; `None` until the end.
        transfers: Option<u32>,
        /// Pause between two.
        pause: warpline_core::TimeDelta,
    },
    /// Constant rate.
    Cbr {
        /// Wire bytes per second for UDP, payload for TCP.
        rate: warpline_core::Rate,
        /// Bytes of a packet on the wire (UDP) or of a write (TCP).
        packet_size: u64,
    },
    /// Poisson messages.
    Poisson {
        /// Mean messages per second.
        message_rate: f64,
        /// Bytes of each.
        message_size: u64,
    },
    /// On/off with Pareto times.
    OnOff {
        /// Rate while on.
        rate: warpline_core::Rate,
        /// Bytes of a packet on the wire (UDP) or of a write (TCP).
        packet_size: u64,
        /// Mean time on.
        mean_on: warpline_core::TimeDelta,
        /// Mean time off.
        mean_off: warpline_core::TimeDelta,
        /// Pareto tail index.
        shape: f64,
    },
    /// A capacity test with both ends.
    Cap,
    /// A capacity test from one side, with the TCP options that the flow itself names.
    Treno(Box<TcpOptions>),
    /// Web sessions from a log; the path as the scenario gives it.
    AccessLog(String),
    /// Web sessions from distributions.
    Web(WebModel),
    /// Requests between guests.
    Request {
        /// Bytes of an answer.
        size: u64,
        /// Bytes of a request.
        request_size: u64,
        /// How many one after another; `None` until the end.
        requests: Option<u32>,
        /// Pause between two.
        pause: warpline_core::TimeDelta,
    },
    /// A service for programs.
    Service {
        /// Which: discard, echo, source or http.
        app: App,
        /// Bytes of a connection or page.
        size: Option<u64>,
    },
}

/// Web sessions with every distribution filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct WebModel {
    /// New sessions per second.
    pub session_rate: f64,
    /// Pages in a session.
    pub pages: Distribution<f64>,
    /// Objects in a page.
    pub objects: Distribution<f64>,
    /// Bytes in an object.
    pub object_size: Distribution<Size>,
    /// Pause between pages.
    pub think_time: Distribution<Time>,
    /// Connections at once.
    pub connections: u32,
}

impl App {
    /// The word scenarios use.
    pub const fn name(self) -> &'static str {
        match self {
            App::Bulk => "bulk",
            App::Transfer => "transfer",
            App::Cbr => "cbr",
            App::Poisson => "poisson",
            App::Onoff => "onoff",
            App::Cap => "cap",
            App::Treno => "treno",
            App::Web => "web",
            App::Request => "request",
            App::Discard => "discard",
            App::Echo => "echo",
            App::Source => "source",
            App::Http => "http",
        }
    }

    /// The keys of [`Flow`] that apply to this app and not to all.
    pub const fn parameters(self) -> &'static [&'static str] {
        match self {
            App::Bulk | App::Cap | App::Treno | App::Discard | App::Echo => &[],
            App::Source | App::Http => &["size"],
            App::Transfer => &["size", "transfers", "pause"],
            App::Cbr => &["rate", "packet_size"],
            App::Poisson => &["message_size", "message_rate"],
            App::Onoff => &["rate", "packet_size", "mean_on", "mean_off", "shape"],
            App::Web => &["web"],
            App::Request => &["size", "request_size", "requests", "pause"],
        }
    }

    /// The keys that it cannot do without.
    pub const fn required(self) -> &'static [&'static str] {
        match self {
            App::Transfer | App::Request => &["size"],
            App::Cbr | App::Onoff => &["rate"],
            App::Poisson => &["message_rate"],
            _ => &[],
        }
    }

    /// Whether it is a service that a simulated host offers to programs.
    pub const fn is_service(self) -> bool {
        matches!(self, App::Discard | App::Echo | App::Source | App::Http)
    }
}

impl Flow {
    /// What carries the flow.
    pub fn transport(&self) -> Transport {
        self.transport.unwrap_or(match self.app {
            App::Cbr | App::Onoff | App::Treno => Transport::Udp,
            _ => Transport::Tcp,
        })
    }

    /// What the flow sends, with defaults filled in. A required parameter that is missing (the scenario does not load then)
    /// counts as zero.
    pub fn application(&self) -> Application {
        use warpline_core::{Bytes, TimeDelta};
        let span = |t: Option<Time>, default_ms| t.map_or(TimeDelta::from_millis(default_ms), |t| t.0);
        let size = |s: Option<Size>, default| s.map_or(default, |s| s.0.0);
        let rate = self.rate.unwrap_or_default().0;
        match self.app {
            App::Bulk => Application::Bulk,
            App::Cap => Application::Cap,
            App::Treno => Application::Treno(Box::new(self.tcp.clone().unwrap_or_default())),
            App::Discard | App::Echo | App::Source | App::Http => {
                Application::Service { app: self.app, size: self.size.map(|size| size.0.0) }
            }
            App::Transfer => Application::Transfer {
                size: size(self.size, 0),
                transfers: Some(self.transfers.unwrap_or(1)).filter(|n| *n > 0),
                pause: span(self.pause, 0),
            },
            App::Request => Application::Request {
                size: size(self.size, 0),
                request_size: size(self.request_size, 100),
                requests: self.requests.filter(|n| *n > 0),
                pause: span(self.pause, 0),
            },
            App::Cbr => Application::Cbr { rate, packet_size: size(self.packet_size, 1500) },
            App::Poisson => Application::Poisson {
                message_rate: self.message_rate.unwrap_or_default(),
                message_size: size(self.message_size, 512),
            },
            App::Onoff => Application::OnOff {
                rate,
                packet_size: size(self.packet_size, 1500),
                mean_on: span(self.mean_on, 250),
                mean_off: span(self.mean_off, 250),
                shape: self.shape.unwrap_or(1.5),
            },
            App::Web => {
                let web = self.web.clone().unwrap_or_default();
                match web.access_log {
                    Some(path) => Application::AccessLog(path),
                    None => Application::Web(WebModel {
                        session_rate: web.session_rate.unwrap_or(1.0),
                        pages: web.pages.unwrap_or(Distribution::Exponential { mean: 5.0 }),
                        objects: web.objects.unwrap_or(Distribution::Pareto {
                            mean: 8.0,
                            shape: 1.5,
                            max: None,
                        }),
                        object_size: web.object_size.unwrap_or(Distribution::Pareto {
                            mean: Size(Bytes(12_000)),
                            shape: 1.2,
                            max: Some(Size(Bytes(10_000_000))),
                        }),
                        think_time: web
                            .think_time
                            .unwrap_or(Distribution::Exponential { mean: Time(TimeDelta::from_secs(5)) }),
                        connections: web.connections.unwrap_or(6),
                    }),
                }
            }
        }
    }
}
