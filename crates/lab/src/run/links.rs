//! Links on a command line: the two directions of a live link, written as in scenarios.
//!
//! The words are put into a scenario and read by its parser. So every queue, loss and jitter of scenarios can be used here, with
//! the same units, short forms and checks. Errors name the option.

use std::path::Path;

use serde_json::{Map, Value, json};
use warpline_core::{LinkId, TimeDelta};
use warpline_net::{LinkConfig, RateConfig};
use warpline_scenario::diagnostics::Diagnostic;
use warpline_scenario::files::Files;
use warpline_scenario::plan::{Capacity, link_config};
use warpline_scenario::short::link_key;
use warpline_scenario::{BitRate, Change, Diagnostics, LinkSpec, Scenario, Time};

use super::{RunError, fault_of};

/// What the two directions of a live link are called: from the command to the world, and back.
pub const DIRECTIONS: [&str; 2] = ["up", "down"];
/// The rate that a link without a limit has in a scenario that is written of it: one that a simulation can carry.
const FREE: &str = "1Gbit/s";
/// What both together are called.
pub const BOTH: &str = "both";
/// Where the two directions begin; each ends where the other begins.
pub(super) const ENDS: [&str; 2] = ["inside", "outside"];
/// The name of the scenario that the words are put into.
const NAME: &str = "shell";

/// A word of the command line, with its option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The option, "--loss".
    pub option: &'static str,
    /// The option's value.
    pub text: String,
}

/// One direction of a link, as people write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkWords {
    /// Constant rate; none for no limit.
    pub rate: Option<BitRate>,
    /// A mahimahi trace file, instead of a rate.
    pub trace: Option<Word>,
    /// Propagation delay.
    pub delay: Option<Time>,
    /// A limit ("100p"), a kind with parameters ("codel", "red,limit=100p,ecn=true"), or a table of TOML.
    pub queue: Option<Word>,
    /// A percentage ("1%"), a kind with parameters ("every,n=100"), or a table of TOML.
    pub loss: Option<Word>,
    /// Which packets arrive twice, in the same words.
    pub duplicate: Option<Word>,
    /// Which packets arrive with a bit changed, in the same words.
    pub corrupt: Option<Word>,
    /// A kind with parameters ("uniform,max=5ms"), or a table of TOML.
    pub jitter: Option<Word>,
    /// Further keys of the link, and the option whose words they come from.
    pub more: Option<(&'static str, Map<String, Value>)>,
}

/// Why a link cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkWordsError {
    /// A word is not valid; the error names its option.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// It cannot be built.
    #[error(transparent)]
    Build(#[from] RunError),
}

/// Both directions of a link, ready to run.
#[derive(Clone, Debug)]
pub struct Duplex {
    /// Their configurations: forward, and back.
    pub links: [LinkConfig; 2],
    /// Descriptions of both, for people.
    pub said: [String; 2],
    /// The scenario that they are read from, whose links have the names of [`DIRECTIONS`].
    pub(super) scenario: Scenario,
    /// The capacity of each.
    pub(super) capacities: [Capacity; 2],
    /// Which of them have no rate limit.
    pub(super) unlimited: [bool; 2],
}

impl LinkWords {
    /// The words, by the keys of scenarios.
    fn words(&self) -> [(&'static str, &Option<Word>); 6] {
        [
            ("trace", &self.trace),
            ("queue", &self.queue),
            ("loss", &self.loss),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
            ("jitter", &self.jitter),
        ]
    }

    /// The option that says this key.
    fn option(&self, key: &str) -> Option<&'static str> {
        let own = self.words().into_iter().find(|(own, _)| *own == key).and_then(|(_, word)| word.as_ref());
        let more = self.more.as_ref().filter(|(_, more)| more.contains_key(key));
        own.map(|word| word.option).or(more.map(|(option, _)| *option))
    }

    /// A `[[link]]` of a scenario.
    fn link(&self, direction: usize) -> Value {
        let mut link = Map::new();
        link.insert("name".to_owned(), DIRECTIONS[direction].into());
        link.insert("from".to_owned(), ENDS[direction].into());
        link.insert("to".to_owned(), ENDS[1 - direction].into());
        if self.trace.is_none() {
            // A link without a rate limit gets any rate; it is replaced later.
            let rate = self.rate.map_or_else(|| "100Gbit/s".to_owned(), |rate| rate.to_string());
            link.insert("rate".to_owned(), rate.into());
        }
        if let Some(delay) = self.delay {
            link.insert("delay".to_owned(), delay.to_string().into());
        }
        for (key, word) in self.words() {
            if let Some(word) = word {
                link.insert(key.to_owned(), word.text.clone().into());
            }
        }
        if let Some((_, more)) = &self.more {
            link.extend(more.clone());
        }
        Value::Object(link)
    }
}

/// Turns errors of the scenario into errors of the options. Each is listed once, since an option may hold for both directions.
fn by_option(errors: Diagnostics, words: [&LinkWords; 2]) -> Diagnostics {
    let mut found: Vec<Diagnostic> = Vec::new();
    for error in errors.errors {
        let option = link_key(&error.path)
            .and_then(|(number, key)| Some((format!("`{key}` "), words.get(number)?.option(key)?)));
        let message = match option {
            None => error.message,
            Some((key, option)) => match error.message.strip_prefix(&key) {
                Some(rest) => format!("{option} {rest}"),
                None => format!("{option}: {}", error.message),
            },
        };
        let error = Diagnostic { message, path: String::new(), location: None, help: error.help };
        if !found.contains(&error) {
            found.push(error);
        }
    }
    Diagnostics { errors: found, omitted: errors.omitted }
}

/// The configuration of both directions. A limit in BDP uses the round trip of both delays.
///
/// # Errors
/// If a word cannot be read, or a trace file is missing.
pub fn duplex(forward: &LinkWords, reverse: &LinkWords) -> Result<Duplex, LinkWordsError> {
    let text = json!({
        "name": NAME,
        "duration": "1h",
        "link": [forward.link(0), reverse.link(1)],
        "flow": [{ "from": ENDS[0], "to": ENDS[1], "app": "bulk" }],
    });
    let scenario = Scenario::from_json(text, &[], Path::new(""))
        .map_err(|errors| by_option(errors, [forward, reverse]))?;
    let expanded = scenario.expand();
    let mut files = Files::default();
    let mut config = |spec: LinkSpec<'_>, words: &LinkWords| {
        let (mut config, capacity) = link_config(&spec, expanded.link_name(&spec), &scenario, &mut files)
            .map_err(|fault| fault_of("link", &expanded.link_name(&spec), &fault.message))?;
        let unlimited = words.rate.is_none() && words.trace.is_none();
        if unlimited {
            config.rate = RateConfig::Unlimited;
        }
        Ok::<_, RunError>((config, spec.kind.describe(&scenario.directory, !unlimited), capacity, unlimited))
    };
    let (there, back) =
        (config(expanded.links.at(LinkId(0)), forward)?, config(expanded.links.at(LinkId(1)), reverse)?);
    Ok(Duplex {
        links: [there.0, back.0],
        said: [there.1, back.1],
        capacities: [there.2, back.2],
        unlimited: [there.3, back.3],
        scenario,
    })
}

impl Duplex {
    /// The directions without a rate limit.
    #[cfg(live)]
    pub(super) fn unlimited(&self) -> Vec<LinkId> {
        (0..)
            .map(LinkId)
            .zip(self.unlimited)
            .filter(|(_, unlimited)| *unlimited)
            .map(|(link, _)| link)
            .collect()
    }

    /// The link as a scenario that can be run, as TOML: with what was changed of it in a session of this length, and a bulk transfer each way in place
    /// of what was sent.
    ///
    /// # Errors
    /// If it is none after all.
    pub fn to_toml(&self, seed: u64, length: TimeDelta, changes: &[Change]) -> Result<String, Diagnostics> {
        let mut scenario = self.scenario.with_whole_paths();
        scenario.seed = seed;
        scenario.change = changes.to_vec();
        let mut text = scenario.to_json();
        // A change at the very end is one of the session, too.
        let last = changes.last().map_or(TimeDelta::ZERO, |change| change.at.0 + TimeDelta::from_nanos(1));
        let millis = length.max(last).as_nanos().div_ceil(TimeDelta::from_millis(1).as_nanos());
        text["duration"] = Time(TimeDelta::from_millis(millis.max(1))).to_string().into();
        let flow = |direction: usize| {
            json!({
                "name": DIRECTIONS[direction],
                "from": ENDS[direction],
                "to": ENDS[1 - direction],
                "app": "bulk",
            })
        };
        text["flow"] = json!([flow(0), flow(1)]);
        let mut head = String::from(
            "# The link of a `warpline shell`, with what was changed of it. What was sent over it is not known: a bulk transfer\n\
             # each way stands for it. Put your own flows in their place.\n",
        );
        for (direction, _) in self.unlimited.iter().enumerate().filter(|(_, unlimited)| **unlimited) {
            text["link"][direction]["rate"] = FREE.into();
            head += &format!(
                "# The direction {} had no rate limit at first. A scenario needs one: it has {FREE} here.\n",
                DIRECTIONS[direction]
            );
        }
        let written = Scenario::from_json(text, &[], Path::new(""))?;
        Ok(format!("{head}\n{}", written.to_toml()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{Rate, TimeDelta};
    use warpline_net::loss::{BernoulliParams, LossKind};
    use warpline_net::qdisc::{Limit, QdiscConfig, QueueLimit};

    fn word(text: &str) -> Option<Word> {
        Some(Word { option: "--option", text: text.to_owned() })
    }

    fn words(rate: Option<&str>) -> LinkWords {
        LinkWords { rate: rate.map(|rate| rate.parse().unwrap()), ..LinkWords::default() }
    }

    #[test]
    fn words_give_the_same_links_as_a_scenario() {
        let up = LinkWords {
            delay: Some("20ms".parse().unwrap()),
            loss: word("1%"),
            queue: word("100p"),
            ..words(Some("12Mbit/s"))
        };
        let down = LinkWords {
            delay: Some("30ms".parse().unwrap()),
            queue: word("1BDP"),
            ..words(Some("24Mbit/s"))
        };
        let [up, down] = duplex(&up, &down).unwrap().links;
        assert!(matches!(up.rate, RateConfig::Constant(rate) if rate == Rate::from_bps(12_000_000)));
        let loss = LossKind::Bernoulli(BernoulliParams { probability: 0.01, longest: None });
        assert_eq!((up.delay, up.loss.kind), (TimeDelta::from_millis(20), loss));
        assert_eq!(up.qdisc, QdiscConfig::drop_tail(QueueLimit::Packets(100)));
        // 24 Mbit/s times 50 ms.
        assert_eq!(down.qdisc.limit().resolve(&down.sizing), Limit::bytes(150_000));
        assert!(matches!(duplex(&words(None), &words(None)).unwrap().links[0].rate, RateConfig::Unlimited));
    }

    #[test]
    fn every_kind_of_queue_loss_and_jitter_can_be_written() {
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
            let words = LinkWords { queue: word(queue), ..words(Some("1Mbit/s")) };
            duplex(&words, &words).unwrap_or_else(|error| panic!("{queue}: {error}"));
        }
        for (loss, jitter) in
            [("50%", "uniform,max=2ms"), ("every,n=3", "normal,mean=5ms,stddev=1ms"), ("none", "none")]
        {
            let words = LinkWords { loss: word(loss), jitter: word(jitter), ..words(None) };
            duplex(&words, &words).unwrap_or_else(|error| panic!("{loss}, {jitter}: {error}"));
        }
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let error = |change: fn(&mut LinkWords)| {
            let mut words = words(Some("1Mbit/s"));
            change(&mut words);
            duplex(&words, &words).unwrap_err().to_string()
        };
        let errors = [
            (error(|w| w.loss = word("120%")), "between 0% and 100%"),
            (error(|w| w.loss = word("1 %%")), "write a percentage"),
            (error(|w| w.queue = word("100")), "not a queue limit"),
            (error(|w| w.queue = word("hfsc")), "hfsc"),
            (error(|w| w.queue = word("codel,5ms")), "no KEY=VALUE"),
            (error(|w| w.queue = word("codel,targt=5ms")), "targt"),
            (error(|w| w.loss = word("1")), "--option cannot be \"1\""),
            (error(|w| w.loss = word("1")), "`1` could mean 1 % or always: write `1%` or `100%`"),
            (error(|w| w.trace = word("no/such/trace")), "--option: there is no file `no/such/trace`"),
        ];
        for (message, part) in errors {
            assert!(message.contains(part), "{message}");
            // No line of the generated scenario is shown.
            assert!(!message.contains("the link:") && !message.contains("errors"), "{message}");
        }
    }

    #[test]
    fn what_was_changed_is_a_scenario_whose_capacities_have_the_steps() {
        let words = LinkWords { queue: word("50p"), ..words(Some("12Mbit/s")) };
        let duplex = duplex(&words, &LinkWords::default()).unwrap();
        let change = |at: &str, link: &str, rate: &str| Change {
            at: at.parse().unwrap(),
            link: link.to_owned(),
            rate: Some(rate.parse().unwrap()),
            ..Change::default()
        };
        let changes =
            [change("1s", "up", "3Mbit/s"), change("2s", "down", "5Mbit/s"), change("2.5s", "up", "6Mbit/s")];
        let text = duplex.to_toml(7, TimeDelta::from_micros(2_500_300), &changes).unwrap();
        assert!(text.contains("# The direction down had no rate limit at first."), "{text}");
        let again = Scenario::from_toml("again.toml", &text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!((again.seed, again.duration, again.flow.len()), (7, "2.501s".parse().unwrap(), 2));
        let expanded = again.expand();
        let rates = |link: u32| {
            let spec = expanded.links.at(LinkId(link));
            let (_, capacity) = link_config(&spec, String::new(), &again, &mut Files::default()).unwrap();
            let at = |millis: u64| {
                let at = warpline_core::Timestamp::from_millis(millis);
                capacity.rate_between(at, at + TimeDelta::from_millis(1)).as_bps() / 1_000_000
            };
            [at(0), at(999), at(1000), at(2000), at(2500)]
        };
        assert_eq!((rates(0), rates(1)), ([12, 12, 3, 3, 6], [1000, 1000, 1000, 5, 5]));
    }

    #[test]
    fn a_direction_is_described_in_words() {
        let up =
            LinkWords { loss: word("1%"), delay: Some("20ms".parse().unwrap()), ..words(Some("12Mbit/s")) };
        let [up, down] = duplex(&up, &words(None)).unwrap().said;
        assert_eq!(up, "12 Mbit/s, 20 ms, queue 1000 packets, loss 1 %");
        assert_eq!(down, "no rate limit, 0 s, queue 1000 packets");
    }
}
