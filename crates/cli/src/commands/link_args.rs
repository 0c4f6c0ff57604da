//! The two directions of an emulated link as command line options, for every command that has such a link.

use clap::ValueHint;
use warpline_core::parameter::Choice as _;
use warpline_lab::run::links::{Duplex, LinkWords, Word, duplex};
use warpline_live::clock::LagPolicy;
use warpline_live::crossing::{Account, CrossingConfig};
use warpline_live::emulator::EmulatorConfig;
use warpline_net::RateConfig;
use warpline_net::jitter::JitterKind;
use warpline_net::loss::LossKind;
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_results::live::dropped_by_card;
use warpline_scenario::tc::netem;
use warpline_scenario::{BitRate, Time};

use crate::failure::Failure;
use crate::{output, seeds};

/// Explains the values in the help of such a command.
pub(crate) fn values() -> String {
    // A limit alone is a drop-tail queue; a loss or a jitter of none needs no words.
    let kinds = |all: &[&'static str], but: &str| -> String {
        all.iter().filter(|kind| **kind != but).copied().collect::<Vec<_>>().join(", ")
    };
    let queues = kinds(QdiscConfig::KINDS, QdiscConfig::KINDS[0]);
    let losses = kinds(LossKind::KINDS, "none");
    let jitters = kinds(JitterKind::KINDS, "none");
    let rows = [
        ("rate", "12Mbit/s, 1.5Gbit/s, 12mbit, 2MB/s; or a trace (mahimahi's format) instead".to_owned()),
        ("delay", "20ms, one way".to_owned()),
        (
            "queue",
            format!(
                "100p, 150kB, 50ms or 1BDP (drop-tail); or a kind ({queues}), with parameters: \
                 codel,limit=100p,target=5ms; or a table as in a scenario"
            ),
        ),
        (
            "loss",
            format!(
                "1%, with its sign; or a model ({losses}), with parameters: every,n=100; \
                 gilbert-elliott,good_to_bad=1%,..."
            ),
        ),
        (
            "jitter",
            format!(
                "a model ({jitters}), with parameters: uniform,max=5ms; normal,mean=5ms,stddev=1ms; \
                 pareto,mean=2ms"
            ),
        ),
        ("netem", "Linux's words (tc-netem(8)): \"delay 20ms 5ms loss 1% rate 5mbit limit 100\"".to_owned()),
    ];
    let rows = rows.map(|(name, about)| format!("  {name:<6}  {}\n", indented(&about)));
    format!("Values:\n{}", rows.concat())
}

/// Text in lines of up to 78 characters. All but the first are indented, to the column behind the name of a value.
fn indented(text: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        if length > 0 && length + 1 + word.len() > 78 {
            lines += "\n          ";
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += word.len();
    }
    lines
}

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
    /// Packets of both directions that arrive twice [default: none]
    #[arg(long, value_name = "LOSS")]
    pub(crate) duplicate: Option<String>,
    /// Packets of both directions that arrive with a bit changed [default: none]
    #[arg(long, value_name = "LOSS")]
    pub(crate) corrupt: Option<String>,
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
    /// What netem's words (tc-netem(8)) say of both directions
    #[arg(long, value_name = "WORDS")]
    pub(crate) netem: Option<String>,
    /// netem's words for the direction from the command to the world
    #[arg(long, value_name = "WORDS")]
    pub(crate) up_netem: Option<String>,
    /// netem's words for the direction from the world to the command
    #[arg(long, value_name = "WORDS")]
    pub(crate) down_netem: Option<String>,
    /// Largest packet in bytes, from the IP header on
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=9000))]
    pub(crate) mtu: u32,
    /// Seed of loss, jitter and random queues
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seeds::seed)]
    pub(crate) seed: u64,
}

impl LinkArgs {
    /// The link in words, and as an emulator carries it: it stops if a packet is later than `hard_limit`.
    ///
    /// # Errors
    /// If a word cannot be read, or does not go with the others.
    pub(crate) fn crossing(&self, hard_limit: Option<Time>) -> Result<(Duplex, CrossingConfig), Failure> {
        let [up, down] = self.links()?;
        let duplex = duplex(&up, &down).map_err(Failure::usage)?;
        for link in &duplex.links {
            if matches!(link.rate, RateConfig::Unlimited) && matches!(link.qdisc.limit(), QueueLimit::Bdp(_))
            {
                return Err(Failure::usage(
                    "a queue limit in BDP needs a rate, and a direction of this link has none: give --rate, or a limit in packets, bytes or time (100p, \
                     150kB, 50ms)",
                ));
            }
        }
        let [up, down] = duplex.links.clone();
        let emulator = EmulatorConfig {
            lag: hard_limit.map_or(LagPolicy::BestEffort, |limit| LagPolicy::Hard(limit.0)),
            mtu: self.mtu,
            ..EmulatorConfig::default()
        };
        Ok((duplex, CrossingConfig { up, down, seed: self.seed, emulator }))
    }

    /// The options of the two directions, up and down.
    fn links(&self) -> Result<[LinkWords; 2], Failure> {
        let [mut up, mut down] = self.plain();
        let both = self.netem.as_deref().map(|words| ("--netem", words));
        let own = |option: &'static str, words: &'_ Option<String>| {
            words.as_ref().map(|words| (option, words.clone()))
        };
        let both = || both.map(|(option, words)| (option, words.to_owned()));
        if let Some((option, words)) = own("--up-netem", &self.up_netem).or_else(both) {
            let rate = if self.up_rate.is_some() { "--up-rate" } else { "--rate" };
            add_netem(
                &mut up,
                option,
                &words,
                [rate, if self.up_delay.is_some() { "--up-delay" } else { "--delay" }],
            )?;
        }
        if let Some((option, words)) = own("--down-netem", &self.down_netem).or_else(both) {
            let rate = if self.down_rate.is_some() { "--down-rate" } else { "--rate" };
            let delay = if self.down_delay.is_some() { "--down-delay" } else { "--delay" };
            add_netem(&mut down, option, &words, [rate, delay])?;
        }
        Ok([up, down])
    }

    /// The options of the two directions without netem's words.
    fn plain(&self) -> [LinkWords; 2] {
        let word =
            |option: &'static str, given: &Option<String>| given.clone().map(|text| Word { option, text });
        let both = (word("--queue", &self.queue), word("--loss", &self.loss), word("--jitter", &self.jitter));
        let (duplicate, corrupt) = (word("--duplicate", &self.duplicate), word("--corrupt", &self.corrupt));
        [
            LinkWords {
                rate: self.up_rate.or(self.rate).filter(|_| self.up_trace.is_none()),
                trace: word("--up-trace", &self.up_trace),
                delay: self.up_delay.or(self.delay),
                queue: word("--up-queue", &self.up_queue).or_else(|| both.0.clone()),
                loss: word("--up-loss", &self.up_loss).or_else(|| both.1.clone()),
                duplicate: duplicate.clone(),
                corrupt: corrupt.clone(),
                jitter: both.2.clone(),
                more: None,
            },
            LinkWords {
                rate: self.down_rate.or(self.rate).filter(|_| self.down_trace.is_none()),
                trace: word("--down-trace", &self.down_trace),
                delay: self.down_delay.or(self.delay),
                queue: word("--down-queue", &self.down_queue).or(both.0),
                loss: word("--down-loss", &self.down_loss).or(both.1),
                duplicate,
                corrupt,
                jitter: both.2,
                more: None,
            },
        ]
    }
}

/// Adds what netem's words of an option say to one direction. `names` are the options of the rate and the delay, which have no words.
fn add_netem(
    link: &mut LinkWords,
    option: &'static str,
    words: &str,
    names: [&str; 2],
) -> Result<(), Failure> {
    let refused = |why: String| Failure::usage(format!("{option} \"{words}\": {why}"));
    let mut split: Vec<&str> = words.split_whitespace().collect();
    if split.first() == Some(&"netem") {
        split.remove(0);
    }
    let rated = link.rate.is_some() || link.trace.is_some();
    let read = netem::read(&split, rated).map_err(|error| refused(error.to_string()))?;
    if !read.left_out.is_empty() {
        let what = read.left_out.join("; ");
        return Err(refused(format!("a link here cannot have {what}. netem's words are {}", netem::KNOWN)));
    }
    let mut keys = read.keys;
    if keys.is_empty() {
        return Err(refused(format!("says nothing of the link; netem's words are {}", netem::KNOWN)));
    }
    // What the words say must not be said by another option. netem's delay is the delay and the jitter.
    let options = [
        ("rate", link.rate.map(|_| names[0])),
        ("rate", link.trace.as_ref().map(|word| word.option)),
        ("delay", link.delay.map(|_| names[1])),
        ("delay", link.jitter.as_ref().map(|word| word.option)),
        ("loss", link.loss.as_ref().map(|word| word.option)),
        ("duplicate", link.duplicate.as_ref().map(|word| word.option)),
        ("corrupt", link.corrupt.as_ref().map(|word| word.option)),
        ("queue", link.queue.as_ref().map(|word| word.option)),
    ];
    for (key, other) in options {
        let said = keys.contains_key(key) || key == "delay" && keys.contains_key("jitter");
        if let Some(other) = other.filter(|_| said) {
            let word = if key == "queue" { "limit" } else { key };
            return Err(refused(format!("its {word} and {other} say the same thing; give one of them")));
        }
    }
    if let Some(rate) = keys.shift_remove("rate") {
        link.rate = Some(rate.as_str().unwrap_or_default().parse().map_err(refused)?);
    }
    link.more = Some((option, keys));
    Ok(())
}

/// The command, or the user's shell if none was given.
pub(crate) fn or_shell<T: From<String>>(command: Vec<T>) -> Vec<T> {
    let shell = || std::env::var("SHELL").ok().filter(|shell| !shell.is_empty());
    if command.is_empty() { vec![shell().unwrap_or_else(|| "/bin/sh".to_owned()).into()] } else { command }
}

/// Prints what happened on stderr: all of it, with `more` lines, if that was requested; or how the emulator did not keep pace.
pub(crate) fn report(account: &mut Account, more: &str, verbose: bool) {
    let counters = ["up", "down"].into_iter().zip(account.links()).map(|(name, stats)| {
        format!(
            "  {name:<10} {} packets offered, {} sent; emulated losses: {} overflow, {} AQM, {} on the wire; {} marked, {} duplicated, {} corrupted; queueing {:.3} ms mean\n",
            stats.arrivals,
            stats.sent_packets,
            stats.drops_overflow,
            stats.drops_aqm,
            stats.drops_loss,
            stats.marks,
            stats.duplicated,
            stats.corrupted,
            stats.queued_time.as_secs_f64() * 1e3 / stats.queued_packets.max(1) as f64,
        )
    });
    if verbose {
        output::note(&(account.audit.render() + &counters.collect::<String>() + more));
    } else if !account.audit.summary.kept_pace() {
        output::note(&account.audit.render());
    } else {
        for port in account.audit.ports.iter().filter(|port| port.counters.card_drops > 0) {
            output::note(&dropped_by_card(&port.name, port.counters.card_drops));
        }
    }
}
