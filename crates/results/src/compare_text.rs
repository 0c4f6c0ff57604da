//! A comparison as text for the terminal: what changed beyond noise first, and not more of it than is read.

use std::fmt::Write;

use crate::compare::{Change, Comparison, Method, Side};
use crate::measures::Subject;
use crate::set::spoken_seeds;
use crate::text_table::{ABSENT, TextTable};
use crate::units::Unit;

/// Changes that are shown where nobody asks for all.
pub const MOST_CHANGES: usize = 30;

impl Comparison {
    /// The comparison as lines of at most `width` characters, with at most `most` changes in a table (none: with all). What neither
    /// side has, or is zero in both, is left out.
    pub fn render(&self, width: usize, most: Option<usize>) -> String {
        let mut text = format!("A: {}\nB: {}\n", spoken(&self.a), spoken(&self.b));
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}.");
        }
        self.keys(&mut text, most);
        let told: Vec<&Change> = self.changes.iter().filter(|change| change.tells()).collect();
        match self.method {
            Method::Single => {
                let (changed, same): (Vec<_>, Vec<_>) =
                    told.into_iter().partition(|change| change.difference != Some(0.0));
                let title = format!("Differences, the largest first ({})", changed.len());
                self.table(&mut text, &title, changed, (width, most));
                if !same.is_empty() {
                    let _ = writeln!(text, "\nThe same in both: {}", counted(same.len()));
                }
                text.push_str(
                    "\nTwo single runs: how much of this is chance is not known. Sets of seeds tell: warpline run SCENARIO --seeds 1..10\n",
                );
            }
            Method::Paired | Method::Welch => self.sets(&mut text, told, (width, most)),
        }
        text
    }

    /// The keys of the scenario that differ.
    fn keys(&self, text: &mut String, most: Option<usize>) {
        if self.scenario.is_empty() {
            return;
        }
        let shown = most.unwrap_or(usize::MAX).min(self.scenario.len());
        text.push_str("\nChanged in the scenario\n");
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
        for change in &self.scenario[..shown] {
            let _ = writeln!(text, "  {}: {} -> {}", change.key, value(&change.before), value(&change.after));
        }
        rest(text, self.scenario.len() - shown, "keys");
    }

    /// Two sets: what is beyond noise, and what is not.
    fn sets(&self, text: &mut String, told: Vec<&Change>, (width, most): (usize, Option<usize>)) {
        let (known, unknown): (Vec<_>, Vec<_>) = told.into_iter().partition(|change| change.ci95.is_some());
        let judged = known.len();
        let (beyond, within): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|change| change.beyond_noise() == Some(true));
        let how = match self.method {
            Method::Paired => "mean difference from seed to the same seed",
            _ => "difference of the means",
        };
        let _ = writeln!(text, "\nDifference: {how}; ± is half of its 95 % confidence interval");
        if judged > 0 {
            let title = format!("Changed beyond the noise of the seeds ({} of {judged})", beyond.len());
            let none = beyond.is_empty();
            self.table(text, &title, beyond, (width, most));
            if none {
                text.push_str("  none\n");
            }
        }
        if !within.is_empty() {
            if most.is_none() {
                self.table(text, &format!("Within the noise ({})", within.len()), within, (width, None));
            } else {
                let _ = writeln!(text, "\nWithin the noise: {} (--all shows them)", counted(within.len()));
            }
            let _ = writeln!(
                text,
                "Of measures that did not change, about one in twenty looks as if it had: that is what 95 % means."
            );
        }
        if !unknown.is_empty() {
            let title = format!("Too few seeds to judge ({})", unknown.len());
            self.table(text, &title, unknown, (width, most));
        }
    }

    /// A table of changes, the largest first within the whole run, the groups, the links and the flows.
    fn table(
        &self,
        text: &mut String,
        title: &str,
        mut changes: Vec<&Change>,
        (width, most): (usize, Option<usize>),
    ) {
        let _ = writeln!(text, "\n{title}");
        if changes.is_empty() {
            return;
        }
        let rank = |change: &Change| match change.subject {
            Subject::Total => 0,
            Subject::Group(_) => 1,
            Subject::Link(_) => 2,
            Subject::Flow(_) => 3,
        };
        changes.sort_by(|x, y| rank(x).cmp(&rank(y)).then(y.relative().abs().total_cmp(&x.relative().abs())));
        let all = changes.len();
        changes.truncate(most.unwrap_or(all));
        let show = |unit: Unit, value: Option<f64>| value.map_or(ABSENT.to_owned(), |value| unit.show(value));
        let signed = |change: &&Change| match change.difference {
            Some(difference) if difference > 0.0 => format!("+{}", change.column.unit.show(difference)),
            difference => show(change.column.unit, difference),
        };
        let percent = |change: &&Change| match change.ratio {
            Some(ratio) if ratio > 0.0 => format!("{:+.1} %", (ratio - 1.0) * 100.0),
            _ => ABSENT.to_owned(),
        };
        let mut table = TextTable::default();
        table.words("of", changes.iter().map(|change| change.subject.to_string()));
        table.words("metric", changes.iter().map(|change| change.column.name.to_owned()));
        table.figures("A", changes.iter().map(|change| show(change.column.unit, change.a)));
        table.figures("B", changes.iter().map(|change| show(change.column.unit, change.b)));
        table.figures("difference", changes.iter().map(signed));
        if changes.iter().any(|change| change.ci95.is_some()) {
            table.figures("±", changes.iter().map(|change| show(change.column.unit, change.ci95)));
        }
        table.figures("change", changes.iter().map(percent));
        text.push_str(&table.render(width));
        rest(text, all - changes.len(), "measures");
    }
}

/// A side and its seeds.
fn spoken(side: &Side) -> String {
    match side.seeds.as_slice() {
        [_] => side.name.clone(),
        seeds => format!("{} ({} seeds: {})", side.name, seeds.len(), spoken_seeds(seeds)),
    }
}

fn counted(count: usize) -> String {
    format!("{count} {}", if count == 1 { "measure" } else { "measures" })
}

/// Says how many are not shown.
fn rest(text: &mut String, count: usize, what: &str) {
    if count > 0 {
        let _ = writeln!(text, "  {count} more {what}: --all shows them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;
    use crate::compare::KeyChange;
    use crate::example;

    fn sets() -> Comparison {
        let make = |queue: f64| -> Vec<Summary> {
            (1..=4)
                .map(|seed| {
                    let mut summary = example::summary(2, seed);
                    summary.links[0].queue_delay_mean_ms += queue + 0.5 * (seed % 2) as f64;
                    summary.groups[0].rtt_mean_ms = Some(60.0 + queue / 10.0 + (seed * 7 % 5) as f64);
                    summary
                })
                .collect()
        };
        let (a, mut b) = (make(0.0), make(10.0));
        b[0].links[0].queue_delay_mean_ms += 1.0;
        b[1].groups[0].rtt_mean_ms = Some(50.0);
        let mut comparison =
            Comparison::of(("runs/cubic", a.iter().collect()), ("runs/vegas", b.iter().collect()), true);
        let key = |key: &str, before: Option<&str>| KeyChange {
            key: key.to_owned(),
            before: before.map(str::to_owned),
            after: Some("vegas".to_owned()),
        };
        comparison.scenario = vec![key("flow.bulk.cc", Some("cubic")), key("flow.new.cc", None)];
        comparison
    }

    #[test]
    fn what_changed_beyond_noise_comes_first() {
        let text = sets().render(110, Some(MOST_CHANGES));
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        // Who is compared, what was changed, what is beyond noise, and how much is not.
        let places = [
            "A: runs/cubic (4 seeds: 1 to 4)\nB: runs/vegas (4 seeds: 1 to 4)\n",
            "Changed in the scenario\n  flow.bulk.cc: cubic -> vegas\n  flow.new.cc: (not set) -> vegas\n",
            "mean difference from seed to the same seed",
            "Changed beyond the noise of the seeds (1 of ",
            "  Link r1>r2  queue_delay_mean_ms  17.5 ms  27.8 ms    +10.2 ms",
            "Within the noise: ",
            "about one in twenty",
        ]
        .map(place);
        assert!(places.is_sorted(), "{text}");
        assert!(!text.contains("rtt_mean_ms"), "{text}");
        let all = sets().render(110, None);
        assert!(all.contains("Within the noise (") && all.contains("rtt_mean_ms"), "{all}");
    }

    #[test]
    fn two_runs_say_that_chance_is_not_known() {
        let (a, mut b) = (example::summary(2, 1), example::summary(1, 2));
        b.links[0].queue_delay_mean_ms = 34.5;
        let comparison = Comparison::of(("runs/a", vec![&a]), ("runs/b", vec![&b]), true);
        let text = comparison.render(100, Some(12));
        for part in [
            "Note: the seeds differ: 1 and 2.",
            "Differences, the largest first (",
            " more measures: --all shows them",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("how much of this is chance is not known") && !text.contains('±'), "{text}");
    }
}
