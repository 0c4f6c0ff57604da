//! The certificate: what was run, how the ways compare, and what explains the differences; as JSON with a schema, and as text. (`page.rs` shows it as a
//! page.)

use std::fmt::Write;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;
use warpline_scenario::{ClockMode, Scenario, Tdf};

use super::Plan;
use super::base::Base;
use super::bench::Ran;
use super::causes::{Evidence, Explanation};
use super::judge::{Compared, Verdict};
use super::load::Load;
use super::ways::Made;

/// What is said of two ways of which nothing could be compared.
pub(super) const NOTHING: &str = "nothing could be compared: they have no measure in common";
/// Version of the certificate's format.
const FORMAT: u32 = 1;

/// The outcome of a cross-check. The worst of several is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every measure agrees.
    Agrees,
    /// No measure differs by more than chance, but some differ by more than the bound: more seeds would tell.
    Chance,
    /// Some differ, and the evidence says why.
    Explained,
    /// Two ways have no measure in common, so that nothing is known of them.
    Nothing,
    /// Some differ, and nothing says why.
    Unexplained,
    /// A way could not be run to its end, or its runs do not repeat.
    Failed,
}

impl Outcome {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Agrees => "agree",
            Outcome::Chance => "differ by no more than chance, and more seeds would tell",
            Outcome::Explained => "differ, and it is explained",
            Outcome::Nothing => "have no measure in common",
            Outcome::Unexplained => "differ, and it is not explained",
            Outcome::Failed => "cannot be relied on: one failed, or does not repeat",
        }
    }
}

/// A cross-check of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Certificate {
    /// Version of this format.
    pub format: u32,
    /// Version of Warpline.
    pub warpline: String,
    /// The build of it: its version, and a hash of its file.
    pub build: String,
    /// The date.
    pub date: String,
    /// What was checked.
    pub scenario: ScenarioFacts,
    /// The machine that made the runs.
    pub machine: MachineFacts,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The ways, those included that are not possible.
    pub ways: Vec<WayFacts>,
    /// The ways beside each other.
    pub pairs: Vec<Pair>,
}

/// The scenario that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScenarioFacts {
    /// Its name.
    pub name: String,
    /// What it shows, if it says.
    pub description: Option<String>,
    /// Hash of its canonical text: "sha256:" and 64 hexadecimal digits.
    pub hash: String,
    /// Changes to it in all ways, as `warpline run --set` takes them.
    pub changes: Vec<String>,
}

/// The machine that made the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachineFacts {
    /// Its processor.
    pub processor: String,
    /// How many cores it has.
    pub cores: usize,
    /// Version of its kernel.
    pub kernel: String,
}

/// A way, and its runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WayFacts {
    /// Its name: "model", "linux", "linux@6.12" and so on.
    pub name: String,
    /// What it is.
    pub what: String,
    /// Why it is not possible; none if it is.
    pub not_possible: Option<String>,
    /// Why it could not be run to its end; none if it was.
    pub failed: Option<String>,
    /// Its clock: "virtual", "real", "dilated, TDF 2".
    pub clock: String,
    /// The kernels whose TCP carries flows, by their versions, those of guests with digits of their files' hash ("6.1.176-0123456789ab"); none if only
    /// models do.
    pub kernels: Vec<String>,
    /// Changes in this way only.
    pub changes: Vec<String>,
    /// What to know: flows that stay models, and why.
    pub notes: Vec<String>,
    /// Hash of its scenario with the first seed.
    pub scenario_hash: String,
    /// Whether a second run with the first seed was the same to the last digit; none on the machine's clock.
    pub repeats: Option<bool>,
    /// Its runs, in the order of the seeds.
    pub runs: Vec<RunFacts>,
    /// Its scenario, with the first seed.
    #[serde(skip)]
    pub(super) scenario: Option<Scenario>,
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunFacts {
    /// Its seed.
    pub seed: u64,
    /// Whether the emulator kept pace; none where time is the simulation's.
    pub kept_pace: Option<bool>,
    /// 99th percentile of how late packets left, in microseconds.
    pub lateness_p99_us: Option<f64>,
    /// Packets lost outside of the network.
    pub lost_outside: Option<u64>,
    /// Cores of the machine that the run took.
    pub own_cores: Option<f64>,
    /// Cores that other work took.
    pub other_cores: Option<f64>,
}

impl WayFacts {
    /// A way before it is run.
    pub(super) fn new(name: &str, what: &str, changes: Vec<String>) -> WayFacts {
        WayFacts {
            name: name.to_owned(),
            what: what.to_owned(),
            not_possible: None,
            failed: None,
            clock: String::new(),
            kernels: Vec::new(),
            changes,
            notes: Vec::new(),
            scenario_hash: String::new(),
            repeats: None,
            runs: Vec::new(),
            scenario: None,
        }
    }

    /// Whether it failed, or a simulation with the same seed was not the same.
    fn is_spoilt(&self) -> bool {
        self.failed.is_some() || self.repeats == Some(false)
    }

    /// Notes what was run, and how it went.
    pub(super) fn fill(&mut self, made: &Made, runs: &[Ran], evidence: &Evidence) {
        let scenario = &made.scenario;
        self.clock = match (scenario.clock.mode, scenario.clock.tdf) {
            (ClockMode::Dilated, Some(Tdf::Factor(factor))) => format!("dilated, TDF {factor}"),
            (mode, _) => mode.name().to_owned(),
        };
        self.notes.clone_from(&made.notes);
        self.scenario_hash = scenario.scenario_hash();
        self.kernels.clone_from(&evidence.kernels);
        self.repeats = evidence.repeats;
        self.scenario = Some(scenario.clone());
        let one = |ran: &Ran| {
            let audit = ran.summary.live.as_ref().map(|live| &live.audit);
            RunFacts {
                seed: ran.summary.info.seed,
                kept_pace: audit.map(|audit| audit.kept_pace()),
                lateness_p99_us: audit.map(|audit| audit.lateness.p99_us),
                lost_outside: audit.map(|audit| audit.lost_outside),
                own_cores: ran.load.map(|load| load.own),
                other_cores: ran.load.as_ref().map(Load::others),
            }
        };
        self.runs = runs.iter().map(one).collect();
    }

    /// How its runs went: whether they repeat, or how late packets were and how busy the machine was.
    pub(super) fn how_it_went(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.repeats.map(|same| match same {
            true => "a second run with the first seed was the same to the last digit".to_owned(),
            false => "a second run with the first seed was NOT the same".to_owned(),
        }));
        let behind = self.runs.iter().filter(|run| run.kept_pace == Some(false)).count();
        if behind > 0 {
            words.push(format!("{behind} of {} did NOT keep pace", self.runs.len()));
        }
        let largest = |of: fn(&RunFacts) -> Option<f64>| self.runs.iter().filter_map(of).reduce(f64::max);
        words.extend(
            largest(|run| run.lateness_p99_us)
                .map(|late| format!("99 % of packets at most {late:.0} µs late")),
        );
        if let (Some(own), Some(others)) = (largest(|run| run.own_cores), largest(|run| run.other_cores)) {
            words.push(format!("it took up to {own:.1} cores and other work {others:.1}"));
        }
        words.join("; ")
    }

    /// The file with its scenario, in the directory of scenarios: "linux-6.12.toml".
    pub(super) fn file(&self) -> String {
        format!("{}.toml", self.name.replace('@', "-").replace('/', "_"))
    }
}

/// Two ways beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    /// The way.
    pub way: String,
    /// The way that it is compared with.
    pub reference: String,
    /// Up to this difference they agree, in percent.
    pub bound_percent: f64,
    /// The measures that both have.
    pub compared: Vec<Compared>,
    /// What explains that some differ.
    pub explanation: Option<Explanation>,
}

impl Pair {
    /// The worst verdict on any measure; none if they have no measure in common.
    pub fn verdict(&self) -> Option<Verdict> {
        self.compared.iter().map(|compared| compared.verdict).max()
    }

    /// Whether a measure differs.
    pub fn differs(&self) -> bool {
        self.verdict() == Some(Verdict::Differs)
    }

    /// How many measures have this verdict.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.compared.iter().filter(|compared| compared.verdict == verdict).count()
    }

    fn outcome(&self) -> Outcome {
        match (self.verdict(), &self.explanation) {
            (Some(Verdict::Agrees), _) => Outcome::Agrees,
            (Some(Verdict::Chance), _) => Outcome::Chance,
            (Some(Verdict::Differs), Some(_)) => Outcome::Explained,
            (Some(Verdict::Differs), None) => Outcome::Unexplained,
            (None, _) => Outcome::Nothing,
        }
    }
}

impl Certificate {
    pub(super) fn new(plan: &Plan, base: &Base, ways: Vec<WayFacts>, pairs: Vec<Pair>) -> Certificate {
        let failed = ways.iter().any(WayFacts::is_spoilt).then_some(Outcome::Failed);
        let outcome = pairs.iter().map(Pair::outcome).chain(failed).max().unwrap_or(Outcome::Nothing);
        let Scenario { name, description, .. } = &base.scenario;
        Certificate {
            format: FORMAT,
            warpline: env!("CARGO_PKG_VERSION").to_owned(),
            build: plan.machine.build.clone(),
            date: plan.date.clone(),
            scenario: ScenarioFacts {
                name: name.clone(),
                description: description.clone(),
                hash: base.hash.clone(),
                changes: plan.sets.clone(),
            },
            machine: MachineFacts {
                processor: plan.machine.processor.clone(),
                cores: plan.machine.cores,
                kernel: plan.machine.kernel.clone(),
            },
            seeds: plan.seeds.clone(),
            outcome,
            ways,
            pairs,
        }
    }

    /// The certificate as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub(super) fn headline(&self) -> String {
        let seeds =
            if self.seeds.len() == 1 { "one seed".to_owned() } else { format!("{} seeds", self.seeds.len()) };
        let possible = self.ways.iter().filter(|way| way.not_possible.is_none()).count();
        format!("{} in {possible} ways, {seeds}: {}", self.scenario.name, self.outcome.word())
    }

    /// The certificate as text for a terminal: verdicts, what differs and why; every measure if `all`.
    pub fn render(&self, all: bool) -> String {
        let mut text = format!("{}\n\n", self.headline());
        let wide = self.ways.iter().map(|way| way.name.len()).max().unwrap_or(0);
        for way in &self.ways {
            let _ = write!(text, "  {:wide$}  ", way.name);
            let _ = match (&way.not_possible, &way.failed) {
                (Some(why), _) => writeln!(text, "not possible: {why}"),
                (_, Some(why)) => writeln!(text, "FAILED: {why}"),
                _ => writeln!(text, "{}{}", way.what, kernels(way)),
            };
            let changes = way.changes.iter().map(|change| format!("with {change}"));
            let went = Some(way.how_it_went()).filter(|went| !went.is_empty());
            for line in changes.chain(way.notes.iter().cloned()).chain(went) {
                let _ = writeln!(text, "  {:wide$}  {line}", "");
            }
        }
        for pair in &self.pairs {
            let (differs, chance) = (pair.count(Verdict::Differs), pair.count(Verdict::Chance));
            let _ = writeln!(
                text,
                "\n{} beside {}, within {} %: {} of {} measures agree{}{}",
                pair.way,
                pair.reference,
                pair.bound_percent,
                pair.count(Verdict::Agrees),
                pair.compared.len(),
                if chance > 0 { format!(", {chance} within chance") } else { String::new() },
                if differs > 0 { format!(", {differs} DIFFER") } else { String::new() },
            );
            for compared in pair.compared.iter().filter(|compared| all || compared.verdict != Verdict::Agrees)
            {
                let [subject, own, reference, percent, verdict] = cells(compared);
                let _ = writeln!(
                    text,
                    "  {subject}: {own}, {} {reference}: {percent}, {verdict}",
                    pair.reference
                );
            }
            if pair.compared.is_empty() {
                let _ = writeln!(text, "  {NOTHING}");
            } else if pair.differs() {
                text += &explained(pair);
            }
        }
        text
    }

    /// The pairs as a table in Markdown: a row for each measure.
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "{}.\n\n| ways | measure | value | beside | difference | verdict |\n|---|---|--:|--:|--:|---|\n",
            self.headline()
        );
        for pair in &self.pairs {
            for compared in &pair.compared {
                let [subject, own, reference, percent, verdict] = cells(compared);
                let _ = writeln!(
                    text,
                    "| {} beside {} | {subject} | {own} | {reference} | {percent} | {verdict} |",
                    pair.way, pair.reference
                );
            }
        }
        for pair in self.pairs.iter().filter(|pair| pair.compared.is_empty()) {
            let _ = writeln!(text, "\n{} beside {}: {NOTHING}.", pair.way, pair.reference);
        }
        for pair in self.pairs.iter().filter(|pair| pair.differs()) {
            let _ =
                writeln!(text, "\n{} beside {}:\n{}", pair.way, pair.reference, explained(pair).trim_end());
        }
        text
    }
}

/// The kernels of a way, for people.
fn kernels(way: &WayFacts) -> String {
    if way.kernels.is_empty() { String::new() } else { format!(" (Linux {})", way.kernels.join(", ")) }
}

/// What is printed of a measure: its name, its value, the other way's, the difference, and the verdict.
pub(super) fn cells(compared: &Compared) -> [String; 5] {
    let percent = format!("{:+.1}", compared.difference_percent);
    let percent = match compared.ci95_percent {
        Some(half) => format!("{percent} ± {half:.1} %"),
        None => format!("{percent} %"),
    };
    [
        format!("{}, {}", compared.subject, compared.quantity),
        compared.value.show(compared.unit),
        compared.reference.show(compared.unit),
        percent,
        compared.verdict.word().to_owned(),
    ]
}

/// Why a pair differs, in lines.
fn explained(pair: &Pair) -> String {
    let Some(explanation) = &pair.explanation else {
        return "  not explained: no evidence says where it comes from\n".to_owned();
    };
    let mut text = format!("  it comes from {}\n", explanation.cause.word());
    for evidence in &explanation.evidence {
        let _ = writeln!(text, "    {evidence}");
    }
    for line in experiments(explanation) {
        let _ = writeln!(text, "    {line}");
    }
    text
}

/// What the experiments of an explanation found, a sentence each.
pub(super) fn experiments(explanation: &Explanation) -> Vec<String> {
    let one = |experiment: &super::Experiment| match experiment.verdict {
        Verdict::Agrees => format!(
            "{}, they agree (at most {:.1} %): it comes from {}",
            experiment.what, experiment.worst_percent, experiment.from
        ),
        Verdict::Chance => format!(
            "{}, the difference (up to {:.1} %) is within chance: more seeds would tell",
            experiment.what, experiment.worst_percent
        ),
        Verdict::Differs => {
            format!("{}, they still differ (by up to {:.1} %)", experiment.what, experiment.worst_percent)
        }
    };
    explanation.experiments.iter().map(one).collect()
}

/// The JSON Schema of certificates.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Certificate>().to_value()
}
