//! The two directions of an emulated link as command line options, for every command that has such a link.

use clap::ValueHint;
use warpline_lab::run::links::{LinkWords, Word};
use warpline_net::LinkStats;
use warpline_scenario::{BitRate, Time};

/// Explains the values in the help of such a command.
pub(crate) const VALUES: &str = "\
Values:
  rate    12Mbit/s, 1.5Gbit/s, 12mbit, 2MB/s; or a trace (mahimahi's format) instead
  delay   20ms, one way
  queue   100p, 150kB, 50ms or 1BDP (drop-tail); codel, fq_codel, red, priority
          with parameters: codel,limit=100p,target=5ms; or a table as in a scenario
  loss    1%, with its sign, or a model: every,n=100; gilbert-elliott,good_to_bad=1%,...
  jitter  uniform,max=5ms; normal,mean=5ms,stddev=1ms; pareto,mean=2ms
";

/// A link with two directions.
#[derive(Debug, clap::Args)]
pub(crate) struct LinkArgs {
    /// Rate in both directions [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<BitRate>,
    /// Rate from the command to the world
    #[arg(long, value_name = "RATE", conflicts_with = "up_trace")]
    pub(crate) up_rate: Option<BitRate>,
    /// Rate from the world to the command
    #[arg(long, value_name = "RATE", conflicts_with = "down_trace")]
    pub(crate) down_rate: Option<BitRate>,
    /// Mahimahi trace from the command to the world, instead of a rate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) up_trace: Option<String>,
    /// Mahimahi trace from the world to the command, instead of a rate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) down_trace: Option<String>,
    /// Propagation delay of each direction [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<Time>,
    /// Delay from the command to the world
    #[arg(long, value_name = "TIME")]
    pub(crate) up_delay: Option<Time>,
    /// Delay from the world to the command
    #[arg(long, value_name = "TIME")]
    pub(crate) down_delay: Option<Time>,
    /// Loss in both directions [default: none]
    #[arg(long, value_name = "LOSS")]
    pub(crate) loss: Option<String>,
    /// Loss from the command to the world
    #[arg(long, value_name = "LOSS")]
    pub(crate) up_loss: Option<String>,
    /// Loss from the world to the command
    #[arg(long, value_name = "LOSS")]
    pub(crate) down_loss: Option<String>,
    /// Queue of both directions [default: 1000p]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Queue from the command to the world
    #[arg(long, value_name = "QUEUE")]
    pub(crate) up_queue: Option<String>,
    /// Queue from the world to the command
    #[arg(long, value_name = "QUEUE")]
    pub(crate) down_queue: Option<String>,
    /// Random extra delay in both directions [default: none]
    #[arg(long, value_name = "JITTER")]
    pub(crate) jitter: Option<String>,
    /// Largest packet in bytes, from the IP header on
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=9000))]
    pub(crate) mtu: u32,
    /// Seed of loss, jitter and random queues
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl LinkArgs {
    /// The options of the two directions, up and down.
    pub(crate) fn links(&self) -> [LinkWords; 2] {
        let word =
            |option: &'static str, given: &Option<String>| given.clone().map(|text| Word { option, text });
        let both = (word("--queue", &self.queue), word("--loss", &self.loss), word("--jitter", &self.jitter));
        [
            LinkWords {
                rate: self.up_rate.or(self.rate).filter(|_| self.up_trace.is_none()),
                trace: word("--up-trace", &self.up_trace),
                delay: self.up_delay.or(self.delay),
                queue: word("--up-queue", &self.up_queue).or_else(|| both.0.clone()),
                loss: word("--up-loss", &self.up_loss).or_else(|| both.1.clone()),
                jitter: both.2.clone(),
            },
            LinkWords {
                rate: self.down_rate.or(self.rate).filter(|_| self.down_trace.is_none()),
                trace: word("--down-trace", &self.down_trace),
                delay: self.down_delay.or(self.delay),
                queue: word("--down-queue", &self.down_queue).or(both.0),
                loss: word("--down-loss", &self.down_loss).or(both.1),
                jitter: both.2,
            },
        ]
    }
}

/// Two lines that describe what the links did.
pub(crate) fn counters(links: &[LinkStats; 2]) -> String {
    let line = |(name, stats): (&str, &LinkStats)| {
        format!(
            "  {name:<10} {} packets offered, {} sent; emulated losses: {} overflow, {} AQM, {} on the wire; {} marked; queueing {:.3} ms mean\n",
            stats.arrivals,
            stats.sent_packets,
            stats.drops_overflow,
            stats.drops_aqm,
            stats.drops_loss,
            stats.marks,
            stats.queued_time.as_secs_f64() * 1e3 / stats.queued_packets.max(1) as f64,
        )
    };
    ["up", "down"].into_iter().zip(links).map(line).collect()
}
