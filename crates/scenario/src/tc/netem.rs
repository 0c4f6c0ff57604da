//! netem's words (tc-netem(8)) as keys of a link, as the table in the chapter Scenarios of the book has them.
//!
//! `warpline shell --netem` and `warpline import tc` read them here.

use serde_json::{Map, Value, json};
use warpline_core::{Bytes, Rate, TimeDelta};

use super::{Words, WordsError, count, percent, rate, signed, time};

/// All of netem's words.
pub const KNOWN: &str = "limit, delay, distribution, reorder, gap, loss, drop, ecn, corrupt, duplicate, rate, slot, seed (tc-netem(8))";

/// What netem's words come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Netem {
    /// Keys of a `[[link]]`: rate, delay, jitter, loss, queue and so on.
    pub keys: Map<String, Value>,
    /// What the words say and the keys do not have, each in a sentence.
    pub left_out: Vec<String>,
}

/// A delay as the words say it.
#[derive(Clone, Copy, Debug)]
struct Delay<'a> {
    /// Nanoseconds.
    mean: u64,
    /// netem's jitter, in nanoseconds.
    spread: u64,
    distribution: &'a str,
}

/// Packets that overtake others: percentages.
#[derive(Clone, Copy, Debug)]
struct Reorder {
    probability: f64,
    correlation: f64,
}

/// Reads netem's words. `rated` is whether the link has a rate from elsewhere: only then a limit is that of its queue.
///
/// # Errors
/// If a word is not known, or its value is wrong.
pub fn read<W: AsRef<str>>(words: &[W], rated: bool) -> Result<Netem, WordsError> {
    let mut words = Words::new(words);
    let mut netem = Netem::default();
    let mut delay = Delay { mean: 0, spread: 0, distribution: "uniform" };
    let (mut reorder, mut gap, mut limit) = (None, None, None);
    while let Some(word) = words.next() {
        match word {
            "delay" | "latency" => {
                delay.mean = words.value(time)?;
                delay.spread = words.maybe(time).unwrap_or(0);
                if words.maybe(percent).is_some_and(|correlation| correlation > 0.0) {
                    netem.leave_out("the correlation of netem's delays, which has no counterpart");
                }
            }
            "distribution" => {
                delay.distribution = words.next().ok_or_else(|| WordsError::NoValue(word.to_owned()))?
            }
            "loss" | "drop" => netem.loss(&mut words)?,
            "duplicate" | "corrupt" => netem.correlated(&mut words, word)?,
            "reorder" => {
                let probability = words.value(percent)?;
                reorder = Some(Reorder { probability, correlation: words.maybe(percent).unwrap_or(0.0) });
            }
            "gap" => gap = Some(words.value(count)?),
            "limit" => limit = Some(words.value(count)?),
            "rate" => netem.rate(&mut words)?,
            "slot" => {
                let further = ["distribution", "packets", "bytes", "normal", "uniform", "pareto"];
                while words.peek().is_some_and(|word| time(word).is_ok() || further.contains(&word)) {
                    words.next();
                }
                netem.leave_out("netem's slot; a trace of opportunities or radio = { kind = \"wifi\", ... } sends in bursts");
            }
            "seed" => {
                words.next().ok_or_else(|| WordsError::NoValue(word.to_owned()))?;
                netem.leave_out("netem's seed; a run has one of its own");
            }
            "ecn" => netem.ecn(),
            unknown => return Err(WordsError::Unknown { word: unknown.to_owned(), known: KNOWN }),
        }
    }
    match limit {
        Some(packets) if rated || netem.keys.contains_key("rate") => {
            netem.set("queue", format!("{}p", packets.max(1)));
        }
        Some(_) => netem.leave_out(
            "netem's limit without a rate: it counts packets that are delayed, too, and here those are on the wire and need no queue",
        ),
        None => {}
    }
    match reorder {
        Some(reorder) => netem.overtaking(delay, reorder, gap)?,
        None => {
            netem.delay(delay);
            if gap.is_some_and(|gap| gap > 0) {
                netem.leave_out("netem's gap without reorder");
            }
        }
    }
    Ok(netem)
}

/// A span as scenarios have it.
fn span(nanos: u64) -> String {
    TimeDelta::from_nanos(nanos).to_string()
}

/// A percentage as scenarios have it, to twelve decimals.
fn share(percent: f64) -> String {
    let text = format!("{percent:.12}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Netem {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.insert(key.to_owned(), value.into());
    }

    fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    fn ecn(&mut self) {
        self.leave_out("netem's ecn: a loss model drops, and only queues mark");
    }

    /// `loss 1% 25%`, `duplicate 1%` and so on.
    fn correlated(&mut self, words: &mut Words<'_, impl AsRef<str>>, key: &str) -> Result<(), WordsError> {
        let probability = words.value(percent)?;
        let correlation = words.maybe(percent).unwrap_or(0.0);
        if correlation > 0.0 {
            let value = json!({
                "kind": "correlated",
                "probability": share(probability),
                "correlation": share(correlation),
                "form": "netem",
            });
            self.set(key, value);
        } else if probability > 0.0 {
            self.set(key, share(probability));
        } else {
            self.keys.shift_remove(key);
        }
        Ok(())
    }

    fn loss(&mut self, words: &mut Words<'_, impl AsRef<str>>) -> Result<(), WordsError> {
        if words.takes("state") {
            let p13 = words.value(percent)?;
            let [p31, p32, p23, p14] = [(); 4].map(|()| words.maybe(percent));
            let value = json!({
                "kind": "four-state",
                "begin": share(p13),
                "end": share(p31.unwrap_or(100.0 - p13)),
                "pass": share(p32.unwrap_or(0.0)),
                "lose": share(p23.unwrap_or(100.0)),
                "alone": share(p14.unwrap_or(0.0)),
            });
            self.set("loss", value);
        } else if words.takes("gemodel") {
            let p = words.value(percent)?;
            let [r, bad, good] = [(); 3].map(|()| words.maybe(percent));
            let value = json!({
                "kind": "gilbert-elliott",
                "good_to_bad": share(p),
                "bad_to_good": share(r.unwrap_or(100.0 - p)),
                "loss_bad": share(bad.unwrap_or(100.0)),
                "loss_good": share(good.unwrap_or(0.0)),
            });
            self.set("loss", value);
        } else {
            words.takes("random");
            self.correlated(words, "loss")?;
        }
        if words.takes("ecn") {
            self.ecn();
        }
        Ok(())
    }

    fn rate(&mut self, words: &mut Words<'_, impl AsRef<str>>) -> Result<(), WordsError> {
        let bps = words.value(rate)?;
        self.set("rate", Rate::from_bps(bps).to_string());
        match words.maybe(signed) {
            Some(overhead) if overhead > 0 => self.set("framing", Bytes(overhead.unsigned_abs()).to_string()),
            Some(overhead) if overhead < 0 => self.leave_out("netem's packet overhead below zero"),
            _ => {}
        }
        if words.maybe(count).is_some_and(|cell| cell > 0) {
            self.leave_out("netem's cell size and overhead; a CAKE queue counts cells (atm)");
            words.maybe(signed);
        }
        Ok(())
    }

    fn overtaking(&mut self, delay: Delay<'_>, reorder: Reorder, gap: Option<u64>) -> Result<(), WordsError> {
        if delay.mean == 0 {
            return Err(WordsError::ReorderWithoutDelay);
        }
        if delay.spread > 0 {
            self.leave_out("netem's jitter, since a link has one model of delays: packets that overtake");
        }
        let mut jitter = json!({ "kind": "overtaking", "delay": span(delay.mean), "probability": share(reorder.probability) });
        if reorder.correlation > 0.0 {
            jitter["correlation"] = share(reorder.correlation).into();
            jitter["form"] = "netem".into();
        }
        if let Some(gap) = gap.filter(|gap| *gap > 0) {
            jitter["gap"] = gap.into();
        }
        self.set("jitter", jitter);
        Ok(())
    }

    fn delay(&mut self, Delay { mean: delay, spread, distribution }: Delay<'_>) {
        if spread == 0 {
            if delay > 0 {
                self.set("delay", span(delay));
            }
            return;
        }
        // How far below its mean a delay can be, in jitters: all of it uniformly; three standard deviations; and, by iproute2's table
        // of Pareto delays (4/3 of a jitter times a Pareto number of shape 3, less two jitters), what that begins with.
        let reach = match distribution {
            "uniform" => spread,
            "pareto" => 2 * spread,
            _ => 3 * spread,
        };
        if !["uniform", "normal", "pareto"].contains(&distribution) {
            self.leave_out(format!(
                "netem's distribution {distribution}: the normal one stands in its place"
            ));
        }
        let base = delay.saturating_sub(reach);
        let mean = delay - base;
        if base > 0 {
            self.set("delay", span(base));
        }
        if reach > delay && ["uniform", "pareto"].contains(&distribution) {
            self.leave_out(format!(
                "netem's delays below zero, which it makes zero: here they are {distribution} from zero on"
            ));
        }
        let jitter = match distribution {
            "uniform" => {
                json!({ "kind": "uniform", "max": span((2 * spread).min(delay + spread)), "reorder": true })
            }
            "pareto" => {
                let mean = if mean > 0 { mean } else { spread };
                json!({ "kind": "pareto", "mean": span(mean), "shape": 3.0, "reorder": true })
            }
            // It is cut off at zero, as netem's.
            _ => json!({ "kind": "normal", "mean": span(mean), "stddev": span(spread), "reorder": true }),
        };
        self.set("jitter", jitter);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::Scenario;

    fn keys(words: &str) -> Value {
        let words: Vec<&str> = words.split_whitespace().collect();
        Value::Object(read(&words, false).unwrap().keys)
    }

    /// A scenario whose link has these keys.
    fn scenario(mut keys: Map<String, Value>) -> Result<Scenario, String> {
        keys.entry("rate").or_insert("10Mbit/s".into());
        keys.insert("between".to_owned(), json!(["a", "b"]));
        let text = json!({ "duration": "1s", "link": [keys], "flow": [{ "from": "a", "to": "b" }] });
        Scenario::from_json(text, &[], Path::new("")).map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_keys_of_a_link() {
        for (words, expected) in [
            ("delay 100ms", json!({ "delay": "100ms" })),
            (
                "delay 100ms 10ms",
                json!({ "delay": "90ms", "jitter": { "kind": "uniform", "max": "20ms", "reorder": true } }),
            ),
            ("loss 1% ", json!({ "loss": "1%" })),
            ("loss random 0.3 loss 0", json!({})),
            ("duplicate 1% corrupt 0.1%", json!({ "duplicate": "1%", "corrupt": "0.1%" })),
            ("rate 10mbit 38 limit 500", json!({ "rate": "10Mbit/s", "framing": "38B", "queue": "500p" })),
            (
                "loss gemodel 0.3%",
                json!({ "loss": { "kind": "gilbert-elliott", "good_to_bad": "0.3%", "bad_to_good": "99.7%", "loss_bad": "100%", "loss_good": "0%" } }),
            ),
            (
                "delay 10ms reorder 25% 50% gap 5",
                json!({ "jitter": { "kind": "overtaking", "delay": "10ms", "probability": "25%", "correlation": "50%", "form": "netem", "gap": 5 } }),
            ),
        ] {
            assert_eq!(keys(words), expected, "{words}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        for (words, part) in [
            ("limit 100", "netem's limit without a rate"),
            ("seed 5", "netem's seed"),
            ("loss 1% ecn", "netem's ecn"),
            ("slot 1ms 2ms packets 5", "netem's slot"),
            ("delay 10ms 1ms 25%", "the correlation of netem's delays"),
            ("delay 1ms 5ms", "delays below zero"),
            ("delay 9ms 1ms distribution mine", "netem's distribution mine"),
            ("rate 1mbit 0 48 5", "netem's cell size"),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            let left_out = read(&words, false).unwrap().left_out;
            assert!(left_out[0].contains(part), "{left_out:?}");
        }
        let rated = read(&["limit", "100"], true).unwrap();
        assert_eq!((rated.keys["queue"].as_str(), rated.left_out.len()), (Some("100p"), 0));
    }

    #[test]
    fn errors_say_what_is_allowed() {
        for (words, part) in [
            ("dalay 3ms", "'dalay' is not known here; there are limit, delay"),
            ("delay", "delay has no value behind it"),
            ("loss 300%", "loss 300%: '300%' is not a percentage from 0 to 100"),
            ("rate $RATE", "variable of a shell"),
            ("reorder 25%", "reorder needs a delay"),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            let error = read(&words, false).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_word_of_the_list_is_known() {
        for word in KNOWN.split(", ").map(|word| word.split(' ').next().unwrap_or_default()) {
            assert!(!matches!(read(&[word], false), Err(WordsError::Unknown { .. })), "{word}");
        }
    }

    /// Words that netem knows, and values of all kinds.
    fn word() -> impl Strategy<Value = String> {
        let known = KNOWN.split(", ").map(|word| word.split(' ').next().unwrap_or_default().to_owned());
        let more = ["random", "state", "gemodel", "normal", "pareto", "paretonormal", "packets"];
        let known: Vec<String> = known.chain(more.map(str::to_owned)).collect();
        prop_oneof![
            prop::sample::select(known),
            "[0-9]{1,4}(\\.[0-9]{1,3})?(ms|us|s|%|mbit|kbit|mbps|)",
            "\\PC{0,8}",
        ]
    }

    proptest! {
        #[test]
        fn no_words_break_it_and_what_is_read_is_a_link(words in prop::collection::vec(word(), 0..12), rated: bool) {
            if let Ok(netem) = read(&words, rated) {
                // A rate of zero is the scenario's to refuse.
                let zero = |key: &str| netem.keys.get(key).is_some_and(|value| value.to_string().contains("\"0"));
                if !zero("rate") {
                    let made = scenario(netem.keys.clone());
                    prop_assert!(made.is_ok(), "{words:?}: {netem:?}: {}", made.unwrap_err());
                }
            }
        }
    }
}
