//! Two runs, or two sets of seeds, beside each other: which measures differ, by how much, and whether that is more than chance.
//!
//! Sets with the same seeds are compared pair by pair: what both had in common (the random numbers of their seed) drops out of the
//! difference. Sets of other seeds are compared by their means, with Welch's interval (B. L. Welch, "The generalization of 'Student's'
//! problem when several different population variances are involved", Biometrika 34, 1947).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::declaration::ColumnInfo;
use crate::measures::{Figure, Subject, subjects};
use crate::metrics::{Estimate, mean, student_t_975};
use crate::set::{RunSet, spoken_seeds};
use crate::summary::Summary;

/// A measure of two runs or sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// Which column of it.
    #[serde(flatten)]
    pub column: &'static ColumnInfo,
    /// Value in the first, of a set its mean over the seeds that are compared; none where it has none.
    pub a: Option<f64>,
    /// Value in the second.
    pub b: Option<f64>,
    /// Second less first.
    pub difference: Option<f64>,
    /// Half-width of the 95 % confidence interval of the difference; none for single runs, and where there are too few.
    pub ci95: Option<f64>,
    /// Pairs of seeds that the difference is the mean of, or the seeds of the smaller set.
    pub n: usize,
    /// Second over first; none where the first is zero.
    pub ratio: Option<f64>,
}

impl Change {
    /// Whether the difference is larger than its interval; none where there is no interval.
    pub fn beyond_noise(&self) -> Option<bool> {
        self.difference.zip(self.ci95).map(|(difference, ci95)| difference.abs() > ci95)
    }

    /// How many times its interval the difference is, infinite where the interval is nothing; none where there is no interval.
    pub fn times_noise(&self) -> Option<f64> {
        let (difference, ci95) = self.difference.zip(self.ci95)?;
        Some(if difference == 0.0 { 0.0 } else { difference.abs() / ci95 })
    }

    /// The difference as a share of the larger of both values, -1 to 1 where they have one sign; zero where one is missing.
    pub(crate) fn relative(&self) -> f64 {
        let largest = self.a.unwrap_or(0.0).abs().max(self.b.unwrap_or(0.0).abs());
        self.difference.filter(|_| largest > 0.0).map_or(0.0, |difference| difference / largest)
    }

    /// Whether there is anything to show: a value that is not zero.
    pub(crate) fn has_value(&self) -> bool {
        [self.a, self.b].into_iter().flatten().any(|value| value != 0.0)
    }
}

/// How two sides were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// One run with one run: nothing is known of chance.
    Single,
    /// Seed by seed.
    Paired,
    /// Means of sets with other seeds, by Welch's interval.
    Welch,
}

/// One of the two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Its directory.
    pub name: String,
    /// The seeds that are compared.
    pub seeds: Vec<u64>,
}

/// A key of the scenario that has another value in the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    /// Its path: `flow.bulk.cc`.
    pub key: String,
    /// Its value in the first; none where it has none there.
    pub before: Option<String>,
    /// Its value in the second; none where it has none there.
    pub after: Option<String>,
}

/// Finds the keys that differ between the texts of two scenarios; none where one of them cannot be read.
pub type ChangedKeys = fn(&str, &str) -> Option<Vec<KeyChange>>;

/// Two runs or sets, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// How they were compared.
    pub method: Method,
    /// What to know before the numbers are compared: other scenario, other duration, an incomplete run.
    pub notes: Vec<String>,
    /// The keys of the scenario that differ.
    pub scenario: Vec<KeyChange>,
    /// The measures: those of the first in its order, then those that only the second has.
    pub changes: Vec<Change>,
}

/// A side while it is compared.
struct Entrant<'a> {
    name: String,
    summaries: Vec<&'a Summary>,
}

impl<'a> Entrant<'a> {
    fn new((name, summaries): (&str, Vec<&'a Summary>)) -> Entrant<'a> {
        Entrant { name: name.to_owned(), summaries }
    }

    fn seeds(&self) -> Vec<u64> {
        self.summaries.iter().map(|summary| summary.info.seed).collect()
    }

    /// Keeps the seeds that `keep` wants.
    fn keep(&mut self, keep: impl Fn(&Summary) -> bool) {
        self.summaries.retain(|summary| keep(summary));
    }
}

impl Comparison {
    /// Compares two opened sets. Single flows are among the measures where `flows` asks for them.
    pub fn of_sets(a: &RunSet, b: &RunSet, flows: bool, changed_keys: ChangedKeys) -> Comparison {
        let name = |set: &RunSet| set.path().display().to_string();
        let mut comparison = Comparison::of((&name(a), a.summaries()), (&name(b), b.summaries()), flows);
        let changed = match (a.scenario(), b.scenario()) {
            (Some(before), Some(after)) => changed_keys(&before, &after).ok_or("is damaged"),
            _ => Err("is missing"),
        };
        match changed {
            Ok(changed) => comparison.scenario = changed,
            Err(state) => comparison
                .notes
                .push(format!("scenario.toml {state}: what was changed in the scenario is not known")),
        }
        comparison
    }

    /// Compares the summaries of two sides, each with the name that it goes by.
    pub fn of(a: (&str, Vec<&Summary>), b: (&str, Vec<&Summary>), flows: bool) -> Comparison {
        let (mut a, mut b) = (Entrant::new(a), Entrant::new(b));
        let mut notes = notes(&a, &b);
        let method = pair(&mut a, &mut b, &mut notes);
        let changes = changes(&a, &b, method, flows);
        let side = |entrant: &Entrant<'_>| Side { name: entrant.name.clone(), seeds: entrant.seeds() };
        Comparison { a: side(&a), b: side(&b), method, notes, scenario: Vec::new(), changes }
    }

    /// The comparison as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: there is nothing that could fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// What to know before the numbers are compared.
fn notes(a: &Entrant<'_>, b: &Entrant<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(first), Some(second)) = (a.summaries.first(), b.summaries.first()) {
        if first.info.scenario != second.info.scenario {
            notes.push(format!("the scenarios differ: {} and {}", first.info.scenario, second.info.scenario));
        }
        if first.info.duration_s != second.info.duration_s {
            let (first, second) = (first.info.duration_s, second.info.duration_s);
            notes.push(format!("the durations differ: {first} s and {second} s"));
        }
        if first.warpline != second.warpline {
            notes
                .push(format!("the versions of Warpline differ: {} and {}", first.warpline, second.warpline));
        }
    }
    for side in [a, b] {
        let cut: Vec<u64> = side
            .summaries
            .iter()
            .filter(|summary| !summary.info.complete)
            .map(|summary| summary.info.seed)
            .collect();
        match side.summaries.len() {
            _ if cut.is_empty() => {}
            1 => notes.push(format!("{} is incomplete", side.name)),
            _ => notes.push(format!(
                "{}: left out, because the run is incomplete: seed {}",
                side.name,
                spoken_seeds(&cut)
            )),
        }
    }
    notes
}

/// Decides how two sides are compared, and leaves the seeds that take part.
fn pair<'a>(a: &mut Entrant<'a>, b: &mut Entrant<'a>, notes: &mut Vec<String>) -> Method {
    if a.summaries.len() == 1 && b.summaries.len() == 1 {
        if a.seeds() != b.seeds() {
            notes.push(format!("the seeds differ: {} and {}", a.seeds()[0], b.seeds()[0]));
        }
        return Method::Single;
    }
    for side in [&mut *a, &mut *b] {
        if side.summaries.len() > 1 {
            side.keep(|summary| summary.info.complete);
        }
    }
    let (seeds_a, seeds_b) = (a.seeds(), b.seeds());
    let shared: Vec<u64> = seeds_a.iter().copied().filter(|seed| seeds_b.contains(seed)).collect();
    let fewest = seeds_a.len().min(seeds_b.len());
    // Where one set has all the seeds of the other, and not many more: a run that failed must not cost the pairs of all others.
    let most = seeds_a.len().max(seeds_b.len());
    if shared.len() == fewest && fewest > 1 && 2 * fewest > most {
        for (side, other) in [(&mut *a, &seeds_b), (&mut *b, &seeds_a)] {
            let alone: Vec<u64> = side.seeds().into_iter().filter(|seed| !other.contains(seed)).collect();
            if !alone.is_empty() {
                notes.push(format!(
                    "{}: left out, because the other set does not have it: seed {}",
                    side.name,
                    spoken_seeds(&alone)
                ));
            }
            side.keep(|summary| other.contains(&summary.info.seed));
        }
        return Method::Paired;
    }
    notes.push(format!(
        "the seeds differ ({} and {}): means are compared, unpaired, by Welch's interval; run both with the same seeds to compare \
         seed by seed",
        spoken_seeds(&seeds_a),
        spoken_seeds(&seeds_b)
    ));
    if fewest < 2 {
        notes.push("one side has a single run: the interval of a difference is not known".to_owned());
    }
    Method::Welch
}

/// The values of one measure, by the seed that gave each.
#[derive(Clone, Debug, Default)]
struct Values {
    a: Vec<(u64, f64)>,
    b: Vec<(u64, f64)>,
}

/// The measures of one subject, in the order in which they came.
type Entry = Vec<(&'static ColumnInfo, Values)>;

/// All measures of both sides.
fn changes(a: &Entrant<'_>, b: &Entrant<'_>, method: Method, flows: bool) -> Vec<Change> {
    let mut order: Vec<Subject> = Vec::new();
    let mut entries: BTreeMap<Subject, Entry> = BTreeMap::new();
    for (side, first) in [(a, true), (b, false)] {
        for summary in &side.summaries {
            for (subject, figures) in subjects(summary, flows) {
                if !entries.contains_key(&subject) {
                    order.push(subject.clone());
                }
                add(entries.entry(subject).or_default(), &figures, summary.info.seed, first);
            }
        }
    }
    let mut changes = Vec::new();
    for subject in order {
        let entry = entries.remove(&subject).unwrap_or_default();
        changes
            .extend(entry.into_iter().map(|(column, values)| values.change(subject.clone(), column, method)));
    }
    changes
}

/// Takes the figures of a subject in one run.
fn add(entry: &mut Entry, figures: &[Figure], seed: u64, first: bool) {
    for (index, &(column, value)) in figures.iter().enumerate() {
        // A kind of subject has its columns in one order.
        let at = match entry.get(index) {
            Some((known, _)) if *known == column => index,
            _ => entry.iter().position(|(known, _)| *known == column).unwrap_or_else(|| {
                entry.push((column, Values::default()));
                entry.len() - 1
            }),
        };
        let values = &mut entry[at].1;
        let side = if first { &mut values.a } else { &mut values.b };
        side.extend(value.map(|value| (seed, value)));
    }
}

impl Values {
    fn change(mut self, subject: Subject, column: &'static ColumnInfo, method: Method) -> Change {
        let mut pairs = Vec::new();
        if method == Method::Paired {
            let of_b: BTreeMap<u64, f64> = self.b.iter().copied().collect();
            pairs = self.a.iter().filter_map(|(seed, a)| Some((*a, *of_b.get(seed)?))).collect();
            // Where no seed has it on both sides, each side still has its mean.
            if !pairs.is_empty() {
                self.a = pairs.iter().map(|&(a, _)| (0, a)).collect();
                self.b = pairs.iter().map(|&(_, b)| (0, b)).collect();
            }
        }
        let samples = |side: &[(u64, f64)]| side.iter().map(|&(_, value)| value).collect::<Vec<f64>>();
        let (of_a, of_b) = (samples(&self.a), samples(&self.b));
        let (a, b) = (mean(of_a.iter().copied()), mean(of_b.iter().copied()));
        let difference = a.zip(b).map(|(a, b)| b - a);
        let (n, ci95) = match method {
            Method::Single => (1, None),
            Method::Paired => {
                let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
                (pairs.len(), Estimate::of(&differences).and_then(|estimate| estimate.ci95))
            }
            Method::Welch => (of_a.len().min(of_b.len()), welch(&of_a, &of_b)),
        };
        Change {
            subject,
            column,
            a,
            b,
            difference,
            ci95,
            n,
            ratio: a.zip(b).map(|(a, b)| b / a).filter(|ratio| ratio.is_finite()),
        }
    }
}

/// Half of the 95 % interval of the difference of two means whose variances need not be the same; none where a side has fewer than two
/// samples. The degrees of freedom (Welch and Satterthwaite) are rounded down, which makes the interval a little wider.
pub fn welch(a: &[f64], b: &[f64]) -> Option<f64> {
    let part = |samples: &[f64]| {
        let estimate = Estimate::of(samples)?;
        let n = samples.len() as f64;
        let stddev = estimate.stddev?;
        Some((stddev * stddev / n, n - 1.0))
    };
    let ((var_a, free_a), (var_b, free_b)) = (part(a)?, part(b)?);
    let sum = var_a + var_b;
    if sum == 0.0 {
        return Some(0.0);
    }
    let degrees = sum * sum / (var_a * var_a / free_a + var_b * var_b / free_b);
    Some(student_t_975((degrees + 1e-9).floor().max(1.0) as u64) * sum.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn seeds(count: u32, seeds: std::ops::RangeInclusive<u64>) -> Vec<Summary> {
        seeds.map(|seed| example::summary(count, seed)).collect()
    }

    fn compared(a: &[Summary], b: &[Summary]) -> Comparison {
        Comparison::of(("runs/a", a.iter().collect()), ("runs/b", b.iter().collect()), true)
    }

    fn goodput(comparison: &Comparison) -> &Change {
        comparison
            .changes
            .iter()
            .find(|c| c.subject == Subject::Total && c.column.name == "goodput_bps")
            .unwrap()
    }

    #[test]
    fn differences_and_ratios_are_of_the_second_to_the_first() {
        let (a, mut b) = (example::summary(2, 1), example::summary(1, 2));
        b.links[0].queue_delay_mean_ms = 34.5;
        b.info.complete = false;
        b.info.duration_s = 30.0;
        let comparison = compared(&[a], &[b]);
        let notes = comparison.notes.join("; ");
        for part in
            ["the seeds differ: 1 and 2", "the durations differ: 60 s and 30 s", "runs/b is incomplete"]
        {
            assert!(notes.contains(part), "{notes}");
        }
        let queue = comparison
            .changes
            .iter()
            .find(|c| {
                c.subject == Subject::Link("r1>r2".to_owned()) && c.column.name == "queue_delay_mean_ms"
            })
            .unwrap();
        assert_eq!((queue.difference, queue.ratio, queue.ci95), (Some(17.25), Some(2.0), None));
        let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
        assert_eq!(json["changes"][0]["kind"], "total");
        assert_eq!(json["changes"][0]["unit"], "bit/s");
        assert_eq!((&json["method"], &json["a"]["seeds"][0]), (&"single".into(), &1.into()));
    }

    #[test]
    fn a_run_is_the_same_as_itself() {
        let summary = example::summary(2, 1);
        let comparison = compared(std::slice::from_ref(&summary), std::slice::from_ref(&summary));
        assert!(comparison.notes.is_empty());
        for change in &comparison.changes {
            assert_eq!(change.difference.unwrap_or(0.0), 0.0, "{change:?}");
        }
    }

    #[test]
    fn the_same_seeds_are_compared_pair_by_pair() {
        // From seed to seed the goodput varies by far more than the change, which is the same (nearly) in each pair.
        let (a, mut b) = (seeds(1, 1..=5), seeds(1, 1..=5));
        let changes = [1_000.0, 1_200.0, 900.0, 1_100.0, 800.0];
        for (summary, change) in b.iter_mut().zip(changes) {
            summary.totals.goodput_bps += change;
        }
        let comparison = compared(&a, &b);
        assert_eq!((comparison.method, comparison.notes.len()), (Method::Paired, 0));
        let change = goodput(&comparison);
        let expected = Estimate::of(&changes).unwrap();
        assert_eq!(change.n, 5);
        assert!((change.difference.unwrap() - 1_000.0).abs() < 1e-6);
        assert!((change.ci95.unwrap() - expected.ci95.unwrap()).abs() < 1e-6);
        assert_eq!(change.beyond_noise(), Some(true));
        // The same numbers, unpaired, drown in what varies from seed to seed.
        let others: Vec<Summary> = b
            .iter()
            .map(|summary| {
                let mut summary = summary.clone();
                summary.info.seed += 100;
                summary
            })
            .collect();
        let unpaired = compared(&a, &others);
        assert_eq!(unpaired.method, Method::Welch);
        assert!(unpaired.notes.join(" ").contains("1 to 5 and 101 to 105"), "{:?}", unpaired.notes);
        assert_eq!(goodput(&unpaired).beyond_noise(), Some(false));
    }

    #[test]
    fn welch_s_interval_is_that_worked_out_by_hand() {
        // Unequal sizes and variances, by hand: s1^2/n1 = 2.5/5, s2^2/n2 = (20/3)/4, 4.75 degrees of freedom, which count as 4.
        let interval = welch(&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 4.0, 6.0, 8.0]).unwrap();
        let expected = 2.7764 * (0.5f64 + 5.0 / 3.0).sqrt();
        assert!((interval - expected).abs() < 1e-9, "{interval} {expected}");
        assert_eq!((welch(&[1.0], &[1.0, 2.0]), welch(&[3.0, 3.0], &[3.0, 3.0])), (None, Some(0.0)));
    }

    #[test]
    fn a_seed_that_one_set_lacks_costs_no_other_pair() {
        let (a, mut b) = (seeds(1, 1..=5), seeds(1, 1..=5));
        b[1].info.complete = false;
        b.remove(4);
        let comparison = compared(&a, &b);
        assert_eq!((comparison.method, &comparison.a.seeds[..]), (Method::Paired, &[1, 3, 4][..]));
        let notes = comparison.notes.join("\n");
        assert!(notes.contains("runs/b: left out, because the run is incomplete: seed 2"), "{notes}");
        assert!(
            notes.contains("runs/a: left out, because the other set does not have it: seed 2, 5"),
            "{notes}"
        );
        // Seeds of which each set has some that the other lacks are other seeds.
        assert_eq!(compared(&seeds(1, 1..=4), &seeds(1, 3..=6)).method, Method::Welch);
        let single = compared(&seeds(1, 1..=1), &seeds(1, 1..=4));
        assert_eq!((single.method, goodput(&single).ci95), (Method::Welch, None));
        assert!(single.notes.join(" ").contains("a single run"));
    }

    #[test]
    fn the_time_taken_grows_as_the_number_of_flows() {
        // With a step for each pair of flows this would be ten thousand million of them: minutes, not a moment.
        let many = example::summary(100_000, 1);
        let comparison = compared(std::slice::from_ref(&many), std::slice::from_ref(&many));
        assert!(comparison.changes.len() > 1_000_000);
        assert!(comparison.render(100, Some(10)).lines().count() < 40);
    }
}
