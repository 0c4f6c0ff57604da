//! Queues, each on a grid of paths: Linux's own in a guest that is a router, and the model's of the same kind with the same parameters.
//!
//! The traffic is the same, of the TCP model: a host with one CUBIC flow, another with three, and a third that sends small datagrams, whose delay is the queueing
//! delay that a packet meets. A scenario has as many such networks as there are seeds. They differ in when flows start and datagrams are sent.

use std::fmt::Write;
use std::sync::Arc;

use warpline_results::{FlowRow, Summary};

use super::case::{Case, Figure, Measured, Size, Stack};
use super::path::{Path, paths};

/// How many packets a path should carry, in a whole and a quick comparison, and the shortest and the longest run in seconds.
const PACKETS: f64 = 40_000.0;
const QUICK_PACKETS: f64 = 10_000.0;
const SHORTEST: f64 = 20.0;
const LONGEST: f64 = 60.0;
/// The part of a run that results leave out at its start.
const WARMUP_PART: f64 = 0.25;
/// Ethernet's header in bytes, which Linux counts as part of every packet. The links count it, too.
const FRAMING: f64 = 14.0;
/// A full packet in bytes: what HTB may send at once, so that it spaces packets as a link does.
const FULL: u32 = 1514;
/// Size of the small datagrams in bytes.
const SMALL: f64 = 100.0;

/// A queue that both have.
#[derive(Debug)]
struct Kind {
    /// Linux's name.
    name: &'static str,
    /// For tc(8), with `{rate}` for the path's rate in Mbit/s and `{limit}` for a bandwidth-delay product in packets.
    linux: &'static str,
    /// The same for the model, in short form: as a leaf of HTB with a colon behind the name, and a comma there otherwise.
    model: &'static str,
    /// Whether it keeps to the rate itself. The others are leaves of HTB, which does.
    shapes: bool,
}

const KINDS: &[Kind] = &[
    Kind { name: "pfifo", linux: "pfifo limit {limit}", model: "droptail:limit={limit}p", shapes: false },
    Kind {
        name: "tbf",
        linux: "tbf rate {rate}mbit burst 10000 limit 90000",
        model: "tbf,rate={rate}Mbit/s,burst=10kB,limit=90kB",
        shapes: true,
    },
    Kind {
        name: "red",
        // tc computes the weight from burst, min and avpkt: 2^-6. Linux does not scale the probability by a packet's size, so the mean is a full packet.
        linux: "red limit 360000 min 30000 max 90000 avpkt 1514 burst 55 probability 0.02 bandwidth {rate}mbit",
        model: "red:limit=360kB,min_threshold=30kB,max_threshold=90kB,max_probability=0.02,weight=0.015625,mean_packet=1514B,gentle=false",
        shapes: false,
    },
    // Linux's timer for the default of 15 ms is set for two ticks of 10 ms, and goes off a tick later.
    Kind { name: "pie", linux: "pie", model: "pie:update=30ms", shapes: false },
    Kind { name: "codel", linux: "codel", model: "codel", shapes: false },
    Kind { name: "fq_codel", linux: "fq_codel", model: "fq_codel", shapes: false },
    Kind { name: "sfq", linux: "sfq", model: "sfq", shapes: false },
    Kind {
        name: "cake",
        // Its default mode also goes by destinations, and there is one.
        linux: "cake bandwidth {rate}mbit dual-srchost",
        model: "cake,bandwidth={rate}Mbit/s,flowmode=dual-srchost",
        shapes: true,
    },
];

/// A queue on a path.
#[derive(Debug)]
struct Queue {
    kind: &'static Kind,
    path: Path,
    /// Seed of its scenarios, which tells its path from the others.
    seed: u64,
}

/// The names of all queues.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// Every queue on every path.
pub(super) fn cases() -> Vec<Arc<dyn Case>> {
    let on_path = |kind: &'static Kind, seed: usize, path: Path| -> Arc<dyn Case> {
        Arc::new(Queue { kind, path, seed: seed as u64 + 1 })
    };
    KINDS
        .iter()
        .flat_map(|kind| paths().enumerate().map(move |(seed, path)| on_path(kind, seed, path)))
        .collect()
}

impl Queue {
    /// How long a run is, in seconds.
    fn seconds(&self, quick: bool) -> f64 {
        let packets = if quick { QUICK_PACKETS } else { PACKETS };
        (packets / self.path.packets_per_s()).clamp(SHORTEST, LONGEST).ceil()
    }

    fn filled_in(&self, pattern: &str) -> String {
        pattern
            .replace("{rate}", &self.path.rate_mbps.to_string())
            .replace("{limit}", &self.path.limit().to_string())
    }

    /// The link's rate in Mbit/s: so high that packets wait in the queue and not in the driver below Linux's. A driver that holds one packet has no counterpart in the
    /// model; a second link in its place lets small packets run ahead of large ones.
    fn link_rate(&self) -> u32 {
        2 * self.path.rate_mbps
    }

    /// Milliseconds that a small datagram takes over an empty path. The links before the bottleneck are so fast that they do not count.
    fn empty_ms(&self) -> f64 {
        f64::from(self.path.rtt_ms) / 2.0 + (SMALL + FRAMING) * 8.0 / (f64::from(self.link_rate()) * 1e3)
    }

    /// Linux's queue at an interface, as commands for tc(8).
    fn commands(&self, interface: &str) -> Vec<String> {
        let queue = self.filled_in(self.kind.linux);
        if self.kind.shapes {
            return vec![format!("dev {interface} root {queue}")];
        }
        let rate = self.path.rate_mbps;
        vec![
            format!("dev {interface} root handle 1: htb default 1"),
            format!(
                "class add dev {interface} parent 1: classid 1:1 htb rate {rate}mbit burst {FULL} cburst {FULL}"
            ),
            format!("qdisc add dev {interface} parent 1:1 {queue}"),
        ]
    }

    /// The model's, as a scenario has it.
    fn model(&self) -> String {
        let queue = self.filled_in(self.kind.model);
        if self.kind.shapes {
            return format!("\"{queue}\"");
        }
        let rate = self.path.rate_mbps;
        format!(
            "{{ kind = \"htb\", classes = [\"all rate {rate}Mbit/s burst {FULL}B cburst {FULL}B default leaf {queue}\"] }}"
        )
    }

    /// The part of a scenario from the queue's node to the receiving host.
    fn bottleneck(&self, stack: Stack, path: u32) -> String {
        let (rate, quarter) = (self.link_rate(), f64::from(self.path.rtt_ms) / 4.0);
        let mut text = format!(
            "\n[[link]]\nbetween = [\"q{path}\", \"to{path}\"]\nrate = \"{rate}Mbit/s\"\ndelay = \"{quarter}ms\"\n"
        );
        let _ = match stack {
            Stack::Linux => writeln!(
                text,
                "\n[[host]]\nname = \"q{path}\"\nendpoint = \"guest\"\nforwards = true\ntc = {:?}",
                self.commands(&format!("to{path}"))
            ),
            Stack::Model => writeln!(text, "queue = {}", self.model()),
        };
        text
    }
}

impl Case for Queue {
    fn subject(&self) -> &'static str {
        self.kind.name
    }

    fn properties(&self) -> Vec<&'static str> {
        self.path.words.to_vec()
    }

    fn rtt_ms(&self) -> u32 {
        self.path.rtt_ms
    }

    fn is_quick(&self) -> bool {
        (self.path.rate_mbps, self.path.rtt_ms) == (10, 50)
    }

    fn figures(&self) -> &'static [Figure] {
        &[Figure::Goodput, Figure::QueueDelay, Figure::Retransmitted, Figure::Share]
    }

    fn paths(&self, size: Size) -> u32 {
        size.seeds
    }

    fn packets(&self, size: Size) -> f64 {
        self.seconds(size.quick) * self.path.packets_per_s() * f64::from(size.seeds)
    }

    fn has_traffic_of_models(&self) -> bool {
        true
    }

    fn scenario(&self, stack: Stack, size: Size) -> String {
        let seconds = self.seconds(size.quick);
        let quarter = f64::from(self.path.rtt_ms) / 4.0;
        let mut text = format!(
            "name = \"agreement\"\ndescription = \"{} over {}: {}\"\nduration = \"{seconds}s\"\nwarmup = \"{}s\"\nseed = {}\n\
             framing = \"{FRAMING}B\"\n",
            self.kind.name,
            self.properties().join(" "),
            stack.name(),
            WARMUP_PART * seconds,
            self.seed,
        );
        for path in 1..=size.seeds {
            for from in ["one", "three", "small"] {
                let _ = write!(
                    text,
                    "\n[[link]]\nbetween = [\"{from}{path}\", \"q{path}\"]\nrate = \"1Gbit/s\"\ndelay = \"{quarter}ms\"\n"
                );
            }
            text += &self.bottleneck(stack, path);
            for (from, count) in [("one", 1), ("three", 3)] {
                let _ = write!(
                    text,
                    "\n[[flow]]\nname = \"{from}{path}\"\nfrom = \"{from}{path}\"\nto = \"to{path}\"\ncount = {count}\nstart = \"0s..1s\"\n"
                );
            }
            let _ = write!(
                text,
                "\n[[flow]]\nname = \"small{path}\"\nfrom = \"small{path}\"\nto = \"to{path}\"\napp = \"poisson\"\ntransport = \"udp\"\n\
                 message_rate = 50\nmessage_size = \"{SMALL}B\"\nrecord = [\"latency\"]\n"
            );
        }
        text
    }

    fn measure(&self, summary: &Summary, _: Stack, path: u32) -> Option<Measured> {
        let from = |name: &str| -> Vec<&FlowRow> {
            let host = format!("{name}{path}");
            summary.flows.iter().filter(|flow| flow.from == host).collect()
        };
        let (one, three, small) = (from("one"), from("three"), from("small"));
        let goodput = |flows: &[&FlowRow]| flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
        let all: Vec<&FlowRow> = one.iter().chain(&three).copied().collect();
        let sent: u64 = all.iter().map(|flow| flow.sent_packets).sum();
        let again: u64 = all.iter().map(|flow| flow.retransmitted_packets).sum();
        Some(Measured::from([
            (Figure::Goodput, goodput(&all)),
            (Figure::QueueDelay, small.first()?.latency_mean_ms? - self.empty_ms()),
            (Figure::Retransmitted, again as f64 / sent.max(1) as f64),
            (Figure::Share, goodput(&one) / goodput(&all).max(1.0)),
        ]))
    }
}
