//! Verdicts: two ways beside each other, measure by measure.

use schemars::JsonSchema;
use serde::Serialize;
use warpline_results::{Estimate, Unit, welch};

use super::measures::{Measured, Quantity, is_idle};

/// A verdict on a measure. The worst of several is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The means differ by no more than the bound.
    Agrees,
    /// They differ by more, but the 95 % interval of the difference holds zero: more seeds would tell.
    Chance,
    /// They differ by more than the bound and than chance.
    Differs,
}

impl Verdict {
    /// In words.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Chance => "within chance",
            Verdict::Differs => "DIFFERS",
        }
    }
}

/// A value over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Value {
    /// Mean over the seeds.
    pub mean: f64,
    /// Half of its 95 % confidence interval; none with one seed.
    pub ci95: Option<f64>,
    /// How many seeds have it.
    pub n: u64,
}

impl Value {
    fn of(samples: &[f64]) -> Option<Value> {
        Estimate::of(samples).map(|Estimate { mean, ci95, n, .. }| Value { mean, ci95, n })
    }

    /// The value with its unit and interval.
    pub(super) fn show(&self, unit: Unit) -> String {
        match self.ci95 {
            Some(half) => format!("{} ± {}", unit.show(self.mean), unit.show(half)),
            None => unit.show(self.mean),
        }
    }
}

/// A measure of two ways.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// What it is about: "flow bulk", "link r1>r2", "program client.curl".
    pub subject: String,
    /// Which quantity of it.
    pub quantity: &'static str,
    /// Its unit, as in the tables of results.
    #[schemars(with = "String")]
    pub unit: Unit,
    /// The value in this way.
    pub value: Value,
    /// The value in the way that it is compared with.
    pub reference: Value,
    /// By how much it is larger, in percent of the other, or of itself if the other is zero. Small queues and retransmitted shares are measured by a least value.
    pub difference_percent: f64,
    /// Half of the 95 % confidence interval of the difference (Welch), in percent; none with one seed.
    pub ci95_percent: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares the runs of a way with those of another, the reference, of which each has one entry per seed. Links that are idle in the reference are left
/// out. `rtt_ms` is the shortest round trip of the scenario.
pub(super) fn compare(
    own: &[Measured],
    reference: &[Measured],
    bound_percent: f64,
    rtt_ms: f64,
) -> Vec<Compared> {
    let mut order: Vec<(&str, Quantity)> = Vec::new();
    for (subject, quantity, _) in reference.iter().flatten() {
        if !order.contains(&(subject, *quantity)) {
            order.push((subject, *quantity));
        }
    }
    order.retain(|(subject, _)| !is_idle(subject, reference));
    let one = |(subject, quantity): (&str, Quantity)| {
        let samples = |runs: &[Measured]| -> Vec<f64> {
            let of = |run: &Measured| {
                run.iter().find(|(of, what, _)| of == subject && *what == quantity).map(|own| own.2)
            };
            runs.iter().filter_map(of).collect()
        };
        let (ours, theirs) = (samples(own), samples(reference));
        let (value, reference) = (Value::of(&ours)?, Value::of(&theirs)?);
        // Nothing has no percentages: where the other way has nothing, the difference is measured by this one; where neither has anything, there is none.
        let scales = [reference.mean.abs().max(quantity.floor(rtt_ms)), value.mean.abs(), 1.0];
        let scale = scales.into_iter().find(|scale| *scale > 0.0).unwrap_or(1.0);
        let percent = |difference: f64| 100.0 * difference / scale;
        let difference = percent(value.mean - reference.mean);
        let ci95 = welch(&ours, &theirs).map(percent);
        Some(Compared {
            subject: subject.to_owned(),
            quantity: quantity.name,
            unit: quantity.unit,
            value,
            reference,
            difference_percent: difference,
            ci95_percent: ci95,
            verdict: verdict(difference, ci95, bound_percent),
        })
    };
    order.into_iter().filter_map(one).collect()
}

/// The verdict on a difference.
fn verdict(difference: f64, ci95: Option<f64>, bound: f64) -> Verdict {
    if difference.abs() <= bound {
        Verdict::Agrees
    } else if ci95.is_some_and(|half| half >= difference.abs()) {
        Verdict::Chance
    } else {
        Verdict::Differs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(goodput: f64, queue: f64) -> Measured {
        let goodput_of = Quantity { name: "goodput", unit: Unit::BitPerSecond };
        let queue_of = Quantity { name: "queue delay", unit: Unit::Millisecond };
        let link = || "link x>y".to_owned();
        vec![("flow a".to_owned(), goodput_of, goodput), (link(), queue_of, queue), (link(), USED, 0.8)]
    }

    const USED: Quantity = Quantity { name: "utilisation", unit: Unit::Share };

    #[test]
    fn a_difference_is_judged_by_bound_and_chance() {
        let reference = [run(100.0, 1.0), run(102.0, 1.0), run(98.0, 1.0)];
        let verdicts = |own: &[Measured], bound| -> Vec<Verdict> {
            compare(own, &reference, bound, 50.0).iter().map(|compared| compared.verdict).collect()
        };
        assert_eq!(verdicts(&[run(104.0, 1.4), run(103.0, 1.4), run(105.0, 1.4)], 5.0), [Verdict::Agrees; 3]);
        // Seven per cent with hardly any spread, and with much.
        assert_eq!(verdicts(&[run(107.0, 1.0), run(107.0, 1.0), run(107.0, 1.0)], 5.0)[0], Verdict::Differs);
        assert_eq!(verdicts(&[run(87.0, 1.0), run(107.0, 1.0), run(127.0, 1.0)], 5.0)[0], Verdict::Chance);
        // One run says nothing of chance.
        assert_eq!(verdicts(&[run(107.0, 1.0)], 5.0)[0], Verdict::Differs);
        // A queue of 1 ms counts as one of 10 ms, a fifth of the round trip.
        let queue = &compare(&[run(100.0, 1.4)], &reference, 5.0, 50.0)[1];
        assert!((queue.difference_percent - 4.0).abs() < 1e-9, "{queue:?}");
    }

    #[test]
    fn what_only_one_of_them_has_is_left_out() {
        let goodput = Quantity { name: "goodput", unit: Unit::BitPerSecond };
        let other = vec![("flow b".to_owned(), goodput, 1.0)];
        assert_eq!(compare(&[other], &[run(1.0, 1.0)], 5.0, 50.0), []);
    }

    #[test]
    fn a_link_that_collapses_differs_and_one_that_is_idle_in_the_reference_is_left_out() {
        let with = |used: f64| {
            let mut own = run(100.0, 1.0);
            own[2].2 = used;
            [own]
        };
        let utilisation = |own: f64, reference: f64| {
            let all = compare(&with(own), &with(reference), 5.0, 50.0);
            all.iter().find(|compared| compared.quantity == USED.name).map(|compared| compared.verdict)
        };
        assert_eq!(utilisation(0.79, 0.8), Some(Verdict::Agrees));
        assert_eq!(utilisation(0.02, 0.8), Some(Verdict::Differs));
        assert_eq!(utilisation(0.8, 0.02), None);
        // Nothing else is compared of it then.
        assert_eq!(compare(&with(0.8), &with(0.02), 5.0, 50.0).len(), 1);
    }

    #[test]
    fn nothing_on_both_sides_agrees() {
        // With delays, and without any.
        for rtt_ms in [50.0, 0.0] {
            let compared = compare(&[run(0.0, 0.0)], &[run(0.0, 0.0)], 2.0, rtt_ms);
            assert!(
                compared
                    .iter()
                    .all(|compared| compared.verdict == Verdict::Agrees && compared.difference_percent == 0.0),
                "{compared:?}"
            );
        }
    }

    #[test]
    fn something_beside_nothing_differs_by_finite_numbers() {
        let nothing = [run(0.0, 0.0), run(0.0, 0.0), run(0.0, 0.0)];
        let judged = |own: &[Measured], reference: &[Measured]| {
            let goodput = compare(own, reference, 5.0, 0.0).remove(0);
            (goodput.difference_percent, goodput.ci95_percent.map(f64::is_finite), goodput.verdict)
        };
        let own = [run(9.0, 0.0), run(10.0, 0.0), run(11.0, 0.0)];
        assert_eq!(judged(&own, &nothing), (100.0, Some(true), Verdict::Differs));
        assert_eq!(judged(&nothing, &own), (-100.0, Some(true), Verdict::Differs));
        assert_eq!(judged(&own[..1], &nothing[..1]), (100.0, None, Verdict::Differs));
        // Something in one run of three may be chance.
        let seldom = [run(0.0, 0.0), run(0.0, 0.0), run(10.0, 0.0)];
        assert_eq!(judged(&seldom, &nothing).2, Verdict::Chance);
        // Without delays, a queue has no least value.
        let queue = compare(&[run(1.0, 2.0)], &[run(1.0, 0.0)], 5.0, 0.0).remove(1);
        assert_eq!((queue.difference_percent, queue.verdict), (100.0, Verdict::Differs));
    }
}
