//! Links in the words of a command line: the two directions of a live link, in the grammar of scenarios.
//!
//! The words are put into a scenario and read by its own parser, so that every queue, loss and jitter that a scenario can have
//! is had here, with the same units and the same checks.

use std::fmt::Write as _;

use warpline_net::{LinkConfig, RateConfig};

use super::RunError;
use super::build::link_config;
use crate::scenario::{BitRate, Diagnostics, Scenario, Time};

/// One direction of a link, as people write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkWords {
    /// Constant rate; none for no limit.
    pub rate: Option<BitRate>,
    /// A mahimahi trace file, in place of a rate.
    pub trace: Option<String>,
    /// Propagation delay.
    pub delay: Option<Time>,
    /// A limit ("100p"), a kind with parameters ("codel", "red,limit=100p,ecn=true"), or a table of TOML.
    pub queue: Option<String>,
    /// A percentage ("1%"), a kind with parameters ("every,n=100"), or a table of TOML.
    pub loss: Option<String>,
    /// A kind with parameters ("uniform,max=5ms"), or a table of TOML.
    pub jitter: Option<String>,
}

/// Why words are no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkWordsError {
    /// A word cannot be read.
    #[error("{0}")]
    Word(String),
    /// The parser of scenarios refuses it.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// It cannot be built.
    #[error(transparent)]
    Build(#[from] RunError),
}

/// "codel,target=5ms" as a table of TOML; what is a table already stays as it is.
fn table(word: &str) -> Result<String, String> {
    let word = word.trim();
    if word.starts_with('{') {
        return Ok(word.to_owned());
    }
    let mut parts = word.split([',', ' ']).filter(|part| !part.is_empty());
    let kind = parts.next().unwrap_or_default();
    let mut text = format!("{{ kind = {}", quoted(kind));
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!(
                "{part:?} in {word:?} is no KEY=VALUE; write for example \"codel,target=5ms\""
            ));
        };
        let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if key.is_empty() || !plain {
            return Err(format!("{key:?} in {word:?} is no parameter's name"));
        }
        let bare = value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
        let _ = write!(text, ", {key} = {}", if bare { value.to_owned() } else { quoted(value) });
    }
    Ok(text + " }")
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// A queue: a limit alone is that of a drop-tail queue.
fn queue(word: &str) -> Result<String, String> {
    if word.parse::<crate::scenario::QueueLimit>().is_ok() {
        return Ok(format!("{{ kind = \"droptail\", limit = {} }}", quoted(word)));
    }
    if word.trim().starts_with(|c: char| c.is_ascii_digit()) {
        // Somebody meant a limit: its own parser says what is wrong with it.
        return word.parse::<crate::scenario::QueueLimit>().map(|_| String::new());
    }
    table(word)
}

/// A loss: a percentage or a probability is that of independent losses.
fn loss(word: &str) -> Result<String, String> {
    let number = word.trim();
    let probability = match number.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => number.parse::<f64>(),
    };
    match probability {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(format!("{{ kind = \"bernoulli\", probability = {p:?} }}")),
        Ok(_) => Err(format!("`{word}` is no loss probability: it lies between 0% and 100%")),
        Err(_) if number.starts_with(|c: char| c.is_ascii_digit()) || number.is_empty() => {
            Err(format!("`{word}` is no loss; write a percentage (1%) or a model (every,n=100)"))
        }
        Err(_) => table(word),
    }
}

/// The two directions of a link as the network takes them. A limit in BDP counts with the round trip of both delays.
///
/// # Errors
/// If a word cannot be read, or a trace file not be found.
pub fn duplex(forward: &LinkWords, reverse: &LinkWords) -> Result<[LinkConfig; 2], LinkWordsError> {
    let mut text = String::from("name = \"live\"\nduration = \"1h\"\n");
    for (words, ends) in [(forward, ["inside", "outside"]), (reverse, ["outside", "inside"])] {
        let _ = writeln!(text, "[[link]]\nfrom = \"{}\"\nto = \"{}\"", ends[0], ends[1]);
        match (&words.trace, words.rate) {
            (Some(trace), _) => {
                let _ = writeln!(text, "trace = {}", quoted(trace));
            }
            // What has no limit takes any: it is replaced below.
            (None, rate) => {
                let rate = rate.map_or_else(|| "100Gbit/s".to_owned(), |rate| rate.to_string());
                let _ = writeln!(text, "rate = {}", quoted(&rate));
            }
        }
        if let Some(delay) = words.delay {
            let _ = writeln!(text, "delay = {}", quoted(&delay.to_string()));
        }
        let word = |word: &Option<String>, read: fn(&str) -> Result<String, String>| {
            word.as_deref().map(read).transpose().map_err(LinkWordsError::Word)
        };
        for (key, value) in [
            ("queue", word(&words.queue, queue)?),
            ("loss", word(&words.loss, loss)?),
            ("jitter", word(&words.jitter, table)?),
        ] {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
    }
    text += "[[flow]]\nfrom = \"inside\"\nto = \"outside\"\napp = \"bulk\"\n";
    let scenario = Scenario::from_toml("the link", &text, &[])?;
    let expanded = scenario.expand();
    let config = |at: usize, words: &LinkWords| {
        let (mut config, _) = link_config(&expanded.links[at], &scenario)
            .map_err(|fault| fault.of_link(&expanded.links[at].name))?;
        if words.rate.is_none() && words.trace.is_none() {
            config.rate = RateConfig::Unlimited;
        }
        Ok::<_, RunError>(config)
    };
    Ok([config(0, forward)?, config(1, reverse)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{Rate, TimeDelta};
    use warpline_net::loss::LossKind;
    use warpline_net::qdisc::{Limit, QdiscConfig};

    fn words(rate: Option<&str>) -> LinkWords {
        LinkWords { rate: rate.map(|rate| rate.parse().unwrap()), ..LinkWords::default() }
    }

    #[test]
    fn words_become_the_links_that_a_scenario_would_have() {
        let up = LinkWords {
            delay: Some("20ms".parse().unwrap()),
            loss: Some("1%".to_owned()),
            queue: Some("100p".to_owned()),
            ..words(Some("12Mbit/s"))
        };
        let down = LinkWords {
            delay: Some("30ms".parse().unwrap()),
            queue: Some("1BDP".to_owned()),
            ..words(Some("24Mbit/s"))
        };
        let [up, down] = duplex(&up, &down).unwrap();
        assert!(matches!(up.rate, RateConfig::Constant(rate) if rate == Rate::from_bps(12_000_000)));
        assert_eq!((up.delay, up.loss.kind), (TimeDelta::from_millis(20), LossKind::Bernoulli { p: 0.01 }));
        assert_eq!(up.qdisc, QdiscConfig::DropTail { limit: Limit::packets(100) });
        // 24 Mbit/s times 50 ms.
        assert_eq!(down.qdisc, QdiscConfig::DropTail { limit: Limit::bytes(150_000) });
        assert!(matches!(duplex(&words(None), &words(None)).unwrap()[0].rate, RateConfig::Unlimited));
    }

    #[test]
    fn every_kind_of_queue_loss_and_jitter_can_be_said() {
        for queue in [
            "50ms",
            "unlimited",
            "droptail,limit=10p",
            "codel",
            "fq_codel,flows=64,quantum=300B",
            "red,limit=100p,ecn=true",
            "priority,classes=3",
            "{ kind = \"codel\", target = \"1ms\" }",
        ] {
            let words = LinkWords { queue: Some(queue.to_owned()), ..words(Some("1Mbit/s")) };
            duplex(&words, &words).unwrap_or_else(|error| panic!("{queue}: {error}"));
        }
        for (loss, jitter) in
            [("0.5", "uniform,max=2ms"), ("every,n=3", "normal,mean=5ms,stddev=1ms"), ("none", "none")]
        {
            let words =
                LinkWords { loss: Some(loss.to_owned()), jitter: Some(jitter.to_owned()), ..words(None) };
            duplex(&words, &words).unwrap_or_else(|error| panic!("{loss}, {jitter}: {error}"));
        }
    }

    #[test]
    fn mistakes_are_told_with_what_is_allowed() {
        let error = |change: fn(&mut LinkWords)| {
            let mut words = words(Some("1Mbit/s"));
            change(&mut words);
            duplex(&words, &words).unwrap_err().to_string()
        };
        let told = [
            (error(|w| w.loss = Some("120%".to_owned())), "between 0% and 100%"),
            (error(|w| w.loss = Some("1 %%".to_owned())), "write a percentage"),
            (error(|w| w.queue = Some("100".to_owned())), "not a queue limit"),
            (error(|w| w.queue = Some("cake".to_owned())), "cake"),
            (error(|w| w.queue = Some("codel,5ms".to_owned())), "no KEY=VALUE"),
            (error(|w| w.queue = Some("codel,targt=5ms".to_owned())), "targt"),
            (error(|w| w.trace = Some("no/such/trace".to_owned())), "no/such/trace"),
        ];
        for (message, part) in told {
            assert!(message.contains(part), "{message}");
        }
    }
}
