//! The cells of the comparison: paths, and the scenario of a cell for Linux and for the model.
//!
//! A scenario has as many paths, of two hosts each, as there are seeds. So one run has all seeds, and a guest's kernel is booted once for them.
//! A path's losses follow from its name and the cell's seed: Linux and the model lose the same packets.

use std::fmt::Write;

use super::algorithms::Algorithm;
use crate::names::file_name;

/// Size of a full packet in bits.
const PACKET: f64 = 12_000.0;
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
/// Queues hold at least so many packets.
const SHORTEST_QUEUE: f64 = 20.0;

/// The rates in Mbit/s, the round-trip times in milliseconds, the loss rates in percent, and the queues, each with its word in names.
const RATES: [(u32, &str); 3] = [(2, "2Mbit/s"), (10, "10Mbit/s"), (50, "50Mbit/s")];
const RTTS: [(u32, &str); 3] = [(10, "10ms"), (50, "50ms"), (200, "200ms")];
const LOSSES: [(f64, &str); 4] = [(0.0, "0%"), (0.1, "0.1%"), (1.0, "1%"), (3.0, "3%")];
const QUEUES: [(Queue, &str); 2] = [(Queue::DropTail, "droptail"), (Queue::FqCodel, "fq_codel")];

/// The queue at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// First in, first out, of one bandwidth-delay product.
    DropTail,
    /// FQ-CoDel with its defaults.
    FqCodel,
}

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// A Linux kernel at both ends.
    Linux,
    /// The TCP model at both ends.
    Model,
}

impl Stack {
    pub(super) const BOTH: [Stack; 2] = [Stack::Linux, Stack::Model];

    /// Its name in names of files.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Stack::Linux => "linux",
            Stack::Model => "model",
        }
    }
}

/// A path: rate, round-trip time, losses, queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub(super) rate_mbps: u32,
    pub(super) rtt_ms: u32,
    pub(super) loss_percent: f64,
    pub(super) queue: Queue,
    /// The words for these.
    words: [&'static str; 4],
    /// Seed of its scenarios, which tells it from the others.
    seed: u64,
}

/// Every cell.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (queue, of_queue) in QUEUES {
        for (rate_mbps, of_rate) in RATES {
            for (rtt_ms, of_rtt) in RTTS {
                for (loss_percent, of_loss) in LOSSES {
                    let words = [of_rate, of_rtt, of_loss, of_queue];
                    let seed = cells.len() as u64 + 1;
                    cells.push(Cell { rate_mbps, rtt_ms, loss_percent, queue, words, seed });
                }
            }
        }
    }
    cells
}

/// Every word that a cell's name may have.
pub fn words() -> Vec<&'static str> {
    let rates = RATES.iter().map(|rate| rate.1).chain(RTTS.iter().map(|rtt| rtt.1));
    rates.chain(LOSSES.iter().map(|loss| loss.1)).chain(QUEUES.iter().map(|queue| queue.1)).collect()
}

impl Cell {
    /// Its name: "10Mbit/s 50ms 1% droptail".
    pub fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Whether it is among those that these words choose: of each kind of words (rates, round-trip times and so on) that is named, it has one.
    pub fn is_chosen(&self, words: &[String]) -> bool {
        let all = cells();
        self.words.iter().enumerate().all(|(kind, own)| {
            let mut named =
                words.iter().filter(|word| all.iter().any(|cell| cell.words[kind] == **word)).peekable();
            named.peek().is_none() || named.any(|word| word == own)
        })
    }

    /// Whether it belongs to a quick comparison: where the queue decides, where losses do, and where both the path and its queue are long.
    pub fn is_quick(&self) -> bool {
        matches!(
            (self.rate_mbps, self.rtt_ms, self.loss_percent, self.queue),
            (10, 50, 0.0 | 1.0, Queue::DropTail) | (10, 200, 0.1, Queue::FqCodel)
        )
    }

    /// Packets per second at the link's rate.
    fn packets_per_s(&self) -> f64 {
        f64::from(self.rate_mbps) * 1e6 / PACKET
    }

    fn rtt_s(&self) -> f64 {
        f64::from(self.rtt_ms) / 1e3
    }

    /// Bandwidth-delay product in packets.
    fn bdp(&self) -> f64 {
        self.packets_per_s() * self.rtt_s()
    }

    /// Limit of a drop-tail queue in packets.
    fn limit(&self) -> f64 {
        self.bdp().ceil().max(SHORTEST_QUEUE)
    }

    /// Packets per second that a path is expected to carry: Reno's mean window is sqrt(1.5 / loss) (Mathis et al. 1997).
    fn expected(&self, algorithm: &Algorithm) -> f64 {
        let full = self.packets_per_s();
        if self.loss_percent == 0.0 {
            return full;
        }
        full.min(algorithm.times * (150.0 / self.loss_percent).sqrt() / self.rtt_s())
    }

    /// How long a run is, in seconds.
    fn seconds(&self, algorithm: &Algorithm, quick: bool) -> f64 {
        let packets = if quick { QUICK_PACKETS } else { PACKETS };
        let expected = self.expected(algorithm);
        let enough = if self.loss_percent > 0.0 {
            packets / expected
        } else {
            // From half of what path and queue hold to all of it, by a packet per round trip.
            let (path, queue) = (self.bdp(), self.limit());
            let sawtooth = (path + queue) / 2.0 * (self.rtt_s() + queue / expected);
            (SAWTEETH * sawtooth).min(MOST_PACKETS / expected)
        };
        enough.max(SHORTEST).max(ROUND_TRIPS * self.rtt_s()).min(LONGEST).ceil()
    }

    /// How many paths a scenario has.
    pub(super) fn paths(&self, algorithm: &Algorithm, seeds: u32) -> u32 {
        if self.loss_percent > 0.0 || algorithm.draws { seeds } else { 1 }
    }

    /// About how many packets a run has, to tell long runs from short ones.
    pub(super) fn work(&self, algorithm: &Algorithm, quick: bool, seeds: u32) -> f64 {
        self.seconds(algorithm, quick) * self.expected(algorithm) * f64::from(self.paths(algorithm, seeds))
    }

    /// Name of the file with a scenario, without an ending: "reno-10mbit-s-50ms-1-droptail-linux".
    pub(super) fn file_name(&self, algorithm: &Algorithm, stack: Stack) -> String {
        file_name(&format!("{} {} {}", algorithm.name, self.name(), stack.name()))
    }

    /// The scenario for a stack, as TOML.
    pub(super) fn scenario(&self, algorithm: &Algorithm, stack: Stack, seeds: u32, quick: bool) -> String {
        let seconds = self.seconds(algorithm, quick);
        let warmup = (WARMUP_ROUND_TRIPS * self.rtt_s()).min(WARMUP_PART * seconds);
        let (of, delay) = (self.name(), f64::from(self.rtt_ms) / 2.0);
        let mut text = format!(
            "name = \"agreement\"\ndescription = \"{} over {of}: {}\"\nduration = \"{seconds}s\"\nwarmup = \"{warmup}s\"\n\
             seed = {}\nsample_interval = \"{seconds}s\"\n",
            algorithm.name,
            stack.name(),
            self.seed,
        );
        if stack == Stack::Model {
            // The kernel's clock has a hundred ticks a second. Its receivers acknowledge the first segments one by one, and open their window
            // step by step. Of the guests' buffer of 32 MiB they advertise half (tcp_adv_win_scale).
            text += "tcp = { tick = \"10ms\", quick_acks = 16, receive_buffer = \"16MiB\", receive_ssthresh = \"65535B\" }\n";
        }
        let queue = match self.queue {
            Queue::DropTail => format!("{{ kind = \"droptail\", limit = \"{}p\" }}", self.limit()),
            Queue::FqCodel => "\"fq_codel\"".to_owned(),
        };
        let loss = match self.loss_percent {
            0.0 => String::new(),
            percent => format!("loss = \"{percent}%\"\nreverse = {{ loss = \"none\" }}\n"),
        };
        for path in 1..=self.paths(algorithm, seeds) {
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"s{path}\", \"r{path}\"]\nrate = \"{}Mbit/s\"\ndelay = \"{delay}ms\"\nqueue = {queue}\n{loss}",
                self.rate_mbps
            );
            if stack == Stack::Linux {
                text += &guest(&format!("s{path}"), algorithm);
                text += &guest(&format!("r{path}"), algorithm);
            }
            let cc = match stack {
                Stack::Linux => String::new(),
                Stack::Model => format!("cc = \"{}\"\n", algorithm.model),
            };
            let _ =
                write!(text, "\n[[flow]]\nname = \"path{path}\"\nfrom = \"s{path}\"\nto = \"r{path}\"\n{cc}");
        }
        text
    }
}

/// A Linux host. Its buffers are never the limit, as the model's are not.
fn guest(name: &str, algorithm: &Algorithm) -> String {
    format!(
        "\n[[host]]\nname = \"{name}\"\nendpoint = \"guest\"\nmachine = \"linux\"\nmemory = \"2GiB\"\ncc = \"{}\"\n\
         sysctl = {{ \"net.ipv4.tcp_rmem\" = \"4096 33554432 33554432\", \"net.ipv4.tcp_wmem\" = \"4096 33554432 33554432\" }}\n",
        algorithm.name
    )
}
