//! Congestion controls, each on a grid of paths: one flow between two hosts, and random losses.
//!
//! A scenario has as many paths, of two hosts each, as there are seeds. So one run has all seeds, and a guest's kernel is booted once for them.
//! A path's losses follow from its name and the case's seed: Linux and the model lose the same packets.

use std::fmt::Write;
use std::sync::Arc;

use warpline_results::Summary;

use super::case::{Case, Figure, Measured, Size, Stack};
use super::path::{Path, paths};
use crate::linux::{ALGORITHMS, Algorithm, BUFFERS, model_tcp};

/// How many data packets a path with random losses should carry, in a whole and a quick comparison.
const PACKETS: f64 = 20_000.0;
const QUICK_PACKETS: f64 = 5_000.0;
/// Without random losses, the number of Reno's sawteeth, and the number of packets at most.
const SAWTEETH: f64 = 4.0;
const MOST_PACKETS: f64 = 300_000.0;
/// Shortest and longest run in seconds, and the shortest in round trips.
const SHORTEST: f64 = 20.0;
const LONGEST: f64 = 600.0;
const ROUND_TRIPS: f64 = 100.0;
/// What results leave out at the start: so many round trips, or this part of a short run.
const WARMUP_ROUND_TRIPS: f64 = 20.0;
const WARMUP_PART: f64 = 0.25;

/// The loss rates in percent, and the queues, each with its word in names.
pub(super) const LOSSES: [(f64, &str); 4] = [(0.0, "0%"), (0.1, "0.1%"), (1.0, "1%"), (3.0, "3%")];
pub(super) const QUEUES: [(Queue, &str); 2] = [(Queue::DropTail, "droptail"), (Queue::FqCodel, "fq_codel")];

/// The queue at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// First in, first out, of one bandwidth-delay product.
    DropTail,
    /// FQ-CoDel with its defaults.
    FqCodel,
}

/// A congestion control on a path with random losses and a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transport {
    algorithm: &'static Algorithm,
    path: Path,
    loss_percent: f64,
    queue: Queue,
    /// The words for losses and queue.
    words: [&'static str; 2],
    /// Seed of its scenarios, which tells its path from the others.
    seed: u64,
}

/// Every congestion control on every path.
pub(super) fn cases() -> Vec<Arc<dyn Case>> {
    let mut cases: Vec<Arc<dyn Case>> = Vec::new();
    for algorithm in ALGORITHMS {
        let mut seed = 0;
        for (queue, of_queue) in QUEUES {
            for path in paths() {
                for (loss_percent, of_loss) in LOSSES {
                    seed += 1;
                    let words = [of_loss, of_queue];
                    cases.push(Arc::new(Transport { algorithm, path, loss_percent, queue, words, seed }));
                }
            }
        }
    }
    cases
}

impl Transport {
    /// Packets per second that a path is expected to carry: Reno's mean window is sqrt(1.5 / loss) (Mathis et al. 1997).
    fn expected(&self) -> f64 {
        let full = self.path.packets_per_s();
        if self.loss_percent == 0.0 {
            return full;
        }
        full.min(self.algorithm.times * (150.0 / self.loss_percent).sqrt() / self.path.rtt_s())
    }

    /// How long a run is, in seconds.
    fn seconds(&self, quick: bool) -> f64 {
        let packets = if quick { QUICK_PACKETS } else { PACKETS };
        let (expected, rtt) = (self.expected(), self.path.rtt_s());
        let enough = if self.loss_percent > 0.0 {
            packets / expected
        } else {
            // From half of what path and queue hold to all of it, by a packet per round trip.
            let (path, queue) = (self.path.bdp(), self.path.limit());
            let sawtooth = (path + queue) / 2.0 * (rtt + queue / expected);
            (SAWTEETH * sawtooth).min(MOST_PACKETS / expected)
        };
        enough.max(SHORTEST).max(ROUND_TRIPS * rtt).min(LONGEST).ceil()
    }
}

impl Case for Transport {
    fn subject(&self) -> &'static str {
        self.algorithm.name
    }

    fn properties(&self) -> Vec<&'static str> {
        [self.path.words, self.words].concat()
    }

    fn rtt_ms(&self) -> u32 {
        self.path.rtt_ms
    }

    /// Where the queue decides, where losses do, and where both the path and its queue are long.
    fn is_quick(&self) -> bool {
        matches!(
            (self.path.rate_mbps, self.path.rtt_ms, self.loss_percent, self.queue),
            (10, 50, 0.0 | 1.0, Queue::DropTail) | (10, 200, 0.1, Queue::FqCodel)
        )
    }

    fn figures(&self) -> &'static [Figure] {
        &[Figure::Goodput, Figure::QueueDelay, Figure::Retransmitted]
    }

    fn paths(&self, size: Size) -> u32 {
        if self.loss_percent > 0.0 || self.algorithm.draws { size.seeds } else { 1 }
    }

    fn packets(&self, size: Size) -> f64 {
        self.seconds(size.quick) * self.expected() * f64::from(self.paths(size))
    }

    fn scenario(&self, stack: Stack, size: Size) -> String {
        let Transport { algorithm, path, .. } = self;
        let seconds = self.seconds(size.quick);
        let warmup = (WARMUP_ROUND_TRIPS * path.rtt_s()).min(WARMUP_PART * seconds);
        let (of, delay) = (self.properties().join(" "), f64::from(path.rtt_ms) / 2.0);
        let mut text = format!(
            "name = \"agreement\"\ndescription = \"{} over {of}: {}\"\nduration = \"{seconds}s\"\nwarmup = \"{warmup}s\"\n\
             seed = {}\nsample_interval = \"{seconds}s\"\n",
            algorithm.name,
            stack.name(),
            self.seed,
        );
        if stack == Stack::Model {
            let _ = writeln!(text, "tcp = {}", model_tcp());
        }
        let queue = match self.queue {
            Queue::DropTail => format!("{{ kind = \"droptail\", limit = \"{}p\" }}", path.limit()),
            Queue::FqCodel => "\"fq_codel\"".to_owned(),
        };
        let loss = match self.loss_percent {
            0.0 => String::new(),
            percent => format!("loss = \"{percent}%\"\nreverse = {{ loss = \"none\" }}\n"),
        };
        for number in 1..=self.paths(size) {
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"s{number}\", \"r{number}\"]\nrate = \"{}Mbit/s\"\ndelay = \"{delay}ms\"\nqueue = {queue}\n{loss}",
                path.rate_mbps
            );
            if stack == Stack::Linux {
                text += &guest(&format!("s{number}"), algorithm);
                text += &guest(&format!("r{number}"), algorithm);
            }
            let cc = match stack {
                Stack::Linux => String::new(),
                Stack::Model => format!("cc = \"{}\"\n", algorithm.model),
            };
            let _ = write!(
                text,
                "\n[[flow]]\nname = \"path{number}\"\nfrom = \"s{number}\"\nto = \"r{number}\"\n{cc}"
            );
        }
        text
    }

    fn measure(&self, summary: &Summary, _: Stack, path: u32) -> Option<Measured> {
        let (from, link) = (format!("s{path}"), format!("s{path}>r{path}"));
        let flow = summary.flows.iter().find(|flow| flow.from == from)?;
        let link = summary.links.iter().find(|row| row.name == link)?;
        Some(Measured::from([
            (Figure::Goodput, flow.goodput_bps),
            (Figure::QueueDelay, link.queue_delay_mean_ms),
            (Figure::Retransmitted, flow.retransmitted_packets as f64 / flow.sent_packets.max(1) as f64),
        ]))
    }
}

/// A Linux host. Its buffers are never the limit, as the model's are not.
fn guest(name: &str, algorithm: &Algorithm) -> String {
    let buffers = BUFFERS.map(|(setting, sizes)| format!("\"{setting}\" = \"{sizes}\"")).join(", ");
    format!(
        "\n[[host]]\nname = \"{name}\"\nendpoint = \"guest\"\nmachine = \"linux\"\nmemory = \"2GiB\"\ncc = \"{}\"\n\
         sysctl = {{ {buffers} }}\n",
        algorithm.name
    )
}
