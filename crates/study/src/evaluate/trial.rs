//! Trials: the scenario that is run, what is measured, and what is asked of it.

use serde::Serialize;
use warpline_results::units::Unit;
use warpline_results::{FlowRow, Summary};

use super::Criterion;
use crate::names::file_name;

/// The group of the flows that run the algorithm under test.
pub(super) const TESTED: &str = "tested";
/// The bottleneck of the dumbbells, in the direction of the data.
pub(super) const BOTTLENECK: &str = "r1>r2";
/// The standard algorithm that figures are compared with: that of RFC 9438, and of nearly all hosts.
pub(super) const STANDARD: &str = "cubic";

/// One scenario, and what is asked of it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What tells it from the criterion's other trials: "20Mbit/s, 4BDP".
    pub setting: String,
    /// The scenario with the algorithm under test, as TOML.
    pub tested: String,
    /// What figures are compared with, if with anything: mostly the same with the standard algorithm in its place.
    pub baseline: Option<String>,
    /// What that scenario is.
    pub(super) compared: Compared,
    pub(super) figures: Vec<Figure>,
    /// Whether it belongs to a quick evaluation.
    pub quick: bool,
}

impl Trial {
    /// A trial in every evaluation, with a scenario made for an algorithm.
    pub(super) fn new(setting: impl Into<String>, tested: String) -> Trial {
        let setting = setting.into();
        Trial {
            setting,
            tested,
            baseline: None,
            compared: Compared::Standard,
            figures: Vec::new(),
            quick: true,
        }
    }
    /// Only in whole evaluations.
    pub(super) fn whole_only(self, whole_only: bool) -> Trial {
        Trial { quick: !whole_only, ..self }
    }
    /// Compared with this scenario, which has the standard algorithm.
    pub(super) fn against(self, baseline: String) -> Trial {
        Trial { baseline: Some(baseline), ..self }
    }
    /// Compared with this scenario, in which the flows under test are not there.
    pub(super) fn without_it(self, baseline: String) -> Trial {
        Trial { baseline: Some(baseline), compared: Compared::WithoutIt, ..self }
    }
    /// Compared with this scenario, in which the receiver keeps to the rules.
    pub(super) fn with_honest_receiver(self, baseline: String) -> Trial {
        Trial { baseline: Some(baseline), compared: Compared::HonestReceiver, ..self }
    }
    /// Asks for a figure.
    pub(super) fn ask(mut self, what: &'static str, unit: Unit, bound: Bound, value: Value) -> Trial {
        self.figures.push(Figure { what, unit, bound, value });
        self
    }

    /// Its name: "full-use, 20Mbit/s, 4BDP".
    pub fn name(&self, criterion: &Criterion) -> String {
        format!("{}, {}", criterion.name, self.setting)
    }
    /// The same with further hosts.
    pub(super) fn with_hosts(self, hosts: &str) -> Trial {
        Trial { tested: self.tested + hosts, baseline: self.baseline.map(|text| text + hosts), ..self }
    }

    /// Its scenarios as files: the one under test, then the one that it is compared with.
    pub fn scenarios(&self, criterion: &Criterion) -> Vec<ScenarioFile> {
        let stem = file_name(&self.name(criterion));
        let other = self.compared.name().replace(' ', "-");
        let tested = ScenarioFile { file: format!("{stem}.toml"), text: self.tested.clone() };
        let baseline =
            self.baseline.clone().map(|text| ScenarioFile { file: format!("{stem}-{other}.toml"), text });
        std::iter::once(tested).chain(baseline).collect()
    }
}

/// A scenario of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScenarioFile {
    /// The name of its file: "full-use-20mbit-s-4bdp.toml".
    pub file: String,
    /// Its text.
    pub text: String,
}

/// What the other scenario of a trial has in place of what is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// The standard algorithm.
    Standard,
    /// Nothing: the others are alone.
    WithoutIt,
    /// The algorithm itself, with a receiver that keeps to the rules.
    HonestReceiver,
}

impl Compared {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Compared::Standard => STANDARD,
            Compared::WithoutIt => "without it",
            Compared::HonestReceiver => "honest receiver",
        }
    }
    /// "cubic's", in bounds.
    fn its(self) -> String {
        match self {
            Compared::Standard => format!("{STANDARD}'s"),
            Compared::WithoutIt => "that without it".to_owned(),
            Compared::HonestReceiver => "that with an honest receiver".to_owned(),
        }
    }
}

/// Reads a figure from the summary of a run; none if there was nothing to measure.
pub(super) type Value = fn(&Summary) -> Option<f64>;

/// A quantity and its bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) what: &'static str,
    pub(super) unit: Unit,
    pub(super) bound: Bound,
    pub(super) value: Value,
}

/// What is asked of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Bound {
    /// At least this.
    AtLeast {
        /// The limit.
        limit: f64,
    },
    /// At most this.
    AtMost {
        /// The limit.
        limit: f64,
    },
    /// At least so many times what the scenario has that the trial is compared with.
    AtLeastTimes {
        /// How many times.
        times: f64,
    },
    /// At most so many times what that scenario has, and so much more.
    AtMostTimes {
        /// How many times.
        times: f64,
        /// How much more, in the figure's unit.
        plus: f64,
    },
}

impl Bound {
    /// By how much a value is better than the bound asks; negative if it is worse. A value or baseline that is missing is worse than any.
    pub(super) fn margin(self, value: f64, baseline: Option<f64>) -> f64 {
        let standard = baseline.unwrap_or(f64::NAN);
        let margin = match self {
            Bound::AtLeast { limit } => value - limit,
            Bound::AtMost { limit } => limit - value,
            Bound::AtLeastTimes { times } => value - times * standard,
            Bound::AtMostTimes { times, plus } => times * standard + plus - value,
        };
        if margin.is_nan() { f64::NEG_INFINITY } else { margin }
    }

    /// The bound in words: "at least 90 %".
    pub fn words(self, unit: Unit, compared: Compared) -> String {
        let its = compared.its();
        match self {
            Bound::AtLeast { limit } => format!("at least {}", unit.show(limit)),
            Bound::AtMost { limit } => format!("at most {}", unit.show(limit)),
            Bound::AtLeastTimes { times: 1.0 } => format!("at least {its}"),
            Bound::AtLeastTimes { times } => format!("at least {times} times {its}"),
            Bound::AtMostTimes { times, plus } => {
                let times = if times == 1.0 { String::new() } else { format!("{times} times ") };
                let plus = if plus == 0.0 { String::new() } else { format!(" and {}", unit.show(plus)) };
                format!("at most {times}{its}{plus}")
            }
        }
    }
}

/// At least `limit`.
pub(super) const fn at_least(limit: f64) -> Bound {
    Bound::AtLeast { limit }
}
/// At most `limit`.
pub(super) const fn at_most(limit: f64) -> Bound {
    Bound::AtMost { limit }
}
/// At least `times` what the scenario has that the trial is compared with.
pub(super) const fn at_least_times(times: f64) -> Bound {
    Bound::AtLeastTimes { times }
}
/// At most `times` what that scenario has, and `plus` more.
pub(super) const fn at_most_times(times: f64, plus: f64) -> Bound {
    Bound::AtMostTimes { times, plus }
}

/// A dumbbell: what is said of its bottleneck, of the run, and of its flows.
pub(super) struct Dumbbell<'a> {
    pub(super) rate: &'a str,
    pub(super) rtt: &'a str,
    pub(super) queue: &'a str,
    pub(super) duration_s: u32,
    pub(super) warmup_s: u32,
    /// Further lines of the topology.
    pub(super) topology: &'a str,
    /// Further lines of the bottleneck.
    pub(super) bottleneck: &'a str,
}

impl Default for Dumbbell<'_> {
    fn default() -> Self {
        Dumbbell {
            rate: "20Mbit/s",
            rtt: "50ms",
            queue: "1BDP",
            duration_s: 60,
            warmup_s: 10,
            topology: "",
            bottleneck: "",
        }
    }
}

impl Dumbbell<'_> {
    /// The scenario with these flows.
    pub(super) fn with(&self, flows: &[String]) -> String {
        let Dumbbell { rate, rtt, queue, duration_s, warmup_s, topology, bottleneck } = self;
        format!(
            "name = \"evaluation\"\nduration = \"{duration_s}s\"\nwarmup = \"{warmup_s}s\"\n\n[topology]\nkind = \"dumbbell\"\nrtt = \"{rtt}\"\n{topology}\n\
             [topology.bottleneck]\nrate = \"{rate}\"\nqueue = \"{queue}\"\n{bottleneck}\n{}",
            flows.join("\n")
        )
    }
}

/// Flows from left to right with an algorithm, `more` being further lines.
pub(super) fn flows(group: &str, cc: &str, count: u32, more: &str) -> String {
    // A string of JSON is one of TOML, too.
    let cc = serde_json::Value::from(cc);
    format!(
        "[[flow]]\nname = \"{group}\"\nfrom = \"left\"\nto = \"right\"\ncount = {count}\ncc = {cc}\nstart = \"0s..1s\"\n{more}\n"
    )
}

/// The flows under test.
pub(super) fn tested(summary: &Summary) -> impl Iterator<Item = &FlowRow> {
    group(summary, TESTED)
}
/// The flows of a group.
pub(super) fn group<'a>(summary: &'a Summary, name: &'static str) -> impl Iterator<Item = &'a FlowRow> {
    summary.flows.iter().filter(move |flow| flow.group == name)
}
/// Sum of the goodput of flows in bit/s.
pub(super) fn goodput<'a>(flows: impl Iterator<Item = &'a FlowRow>) -> f64 {
    flows.map(|flow| flow.goodput_bps).sum()
}
/// Share of the bottleneck that was used.
pub(super) fn used(summary: &Summary) -> Option<f64> {
    summary.links.iter().find(|link| link.name == BOTTLENECK)?.utilisation
}
/// Mean time in the bottleneck's queue in milliseconds.
pub(super) fn queueing(summary: &Summary) -> Option<f64> {
    summary.links.iter().find(|link| link.name == BOTTLENECK).map(|link| link.queue_delay_mean_ms)
}
/// Share of the packets offered to the bottleneck that it dropped.
pub(super) fn dropped(summary: &Summary) -> Option<f64> {
    let link = summary.links.iter().find(|link| link.name == BOTTLENECK)?;
    (link.arrivals > 0).then(|| link.drops() as f64 / link.arrivals as f64)
}
/// Goodput of the flows under test in bit/s.
pub(super) fn tested_goodput(summary: &Summary) -> Option<f64> {
    Some(goodput(tested(summary)))
}
/// Mean completion time of the transfers of a group, in seconds.
pub(super) fn completion_of(summary: &Summary, name: &str) -> Option<f64> {
    summary.groups.iter().find(|group| group.group == name)?.completion_mean_s
}
/// Mean completion time of the transfers under test, in seconds.
pub(super) fn completion(summary: &Summary) -> Option<f64> {
    completion_of(summary, TESTED)
}
