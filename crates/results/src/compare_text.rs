//! A comparison as text for the terminal: what changed beyond noise first, and not more of it than is read.

use std::fmt::Write;

use crate::compare::{Change, Comparison, Method, Side};
use crate::measures::Subject;
use crate::set::spoken_seeds;
use crate::text_table::{ABSENT, TextTable};
use crate::units::{Unit, grouped};

/// Lines that a comparison takes where it is not known how many there is room for.
pub const SCREEN: usize = 40;
/// Rows that a table has at the least, however small the screen.
const LEAST_ROWS: usize = 8;
/// Lines that follow the main table.
const FOOT: usize = 6;

/// How much room there is.
#[derive(Clone, Copy, Debug)]
struct Room {
    width: usize,
    /// Lines of the screen; none where everything is shown.
    lines: Option<usize>,
}

impl Room {
    /// Rows that a table may have below this text.
    fn rows(self, text: &str) -> usize {
        let used = text.lines().count() + FOOT;
        self.lines.map_or(usize::MAX, |lines| lines.saturating_sub(used).max(LEAST_ROWS))
    }
}

impl Comparison {
    /// The comparison as lines of at most `width` characters, about as many as `lines` (none: with every measure). What neither side has,
    /// or is zero in both, is left out.
    pub fn render(&self, width: usize, lines: Option<usize>) -> String {
        let room = Room { width, lines };
        let mut text = format!("A: {}\nB: {}\n", spoken(&self.a), spoken(&self.b));
        self.keys(&mut text, room);
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}.");
        }
        let known: Vec<&Change> = self.changes.iter().filter(|change| change.has_value()).collect();
        let (mut changed, same): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|change| change.difference != Some(0.0));
        let mut quiet = Quiet { same: same.len(), ..Quiet::default() };
        match self.method {
            Method::Single => {
                changed.sort_by(|x, y| {
                    rank(x).cmp(&rank(y)).then(y.relative().abs().total_cmp(&x.relative().abs()))
                });
                let title = format!("Differences ({}), the largest first", changed.len());
                table(&mut text, &title, &changed, room);
            }
            Method::Paired | Method::Welch => self.sets(&mut text, changed, &mut quiet, room),
        }
        if room.lines.is_none() && !same.is_empty() {
            table(&mut text, &format!("The same in both ({})", same.len()), &same, room);
        }
        text += &quiet.lines(room.lines.is_some());
        text.push_str(match self.method {
            Method::Single => {
                "Two single runs: how much of this is chance is not known. Sets of seeds tell: warpline run SCENARIO --seeds 1..10\n"
            }
            _ if quiet.within > 0 => {
                "Of measures that did not change, about one in twenty looks as if it had: that is what 95 % means.\n"
            }
            _ => "",
        });
        text
    }

    /// The keys of the scenario that differ; on a screen they take a quarter of it.
    fn keys(&self, text: &mut String, room: Room) {
        if self.scenario.is_empty() {
            return;
        }
        let most = room.lines.map_or(usize::MAX, |lines| (lines / 4).max(LEAST_ROWS));
        let shown = most.min(self.scenario.len());
        text.push_str("\nChanged in the scenario\n");
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
        for change in &self.scenario[..shown] {
            let _ = writeln!(text, "  {}: {} -> {}", change.key, value(&change.before), value(&change.after));
        }
        rest(text, self.scenario.len() - shown, "keys");
    }

    /// Two sets: what is beyond noise, the farthest first, and what is not.
    fn sets(&self, text: &mut String, changed: Vec<&Change>, quiet: &mut Quiet, room: Room) {
        let (known, mut unknown): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|change| change.ci95.is_some());
        let (mut beyond, mut within): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|change| change.beyond_noise() == Some(true));
        for changes in [&mut beyond, &mut within, &mut unknown] {
            changes.sort_by(|x, y| {
                // Where every seed changed by the same, mostly a trifle in whole packets, there is no noise to measure by: last.
                let noise =
                    |change: &Change| change.times_noise().filter(|times| times.is_finite()).unwrap_or(0.0);
                let relative = |change: &Change| change.relative().abs();
                noise(y)
                    .total_cmp(&noise(x))
                    .then(rank(x).cmp(&rank(y)))
                    .then(relative(y).total_cmp(&relative(x)))
            });
        }
        let how = match self.method {
            Method::Paired => "mean difference from seed to the same seed",
            _ => "difference of the means",
        };
        let _ = writeln!(text, "\nDifference: {how}; ± is half of its 95 % confidence interval");
        // Where nothing can be judged, there is still something to see.
        let judged = !beyond.is_empty() || !within.is_empty();
        if judged {
            let title =
                format!("Changed beyond the noise of the seeds ({}), the farthest first", beyond.len());
            table(text, &title, &beyond, room);
        }
        if !judged || room.lines.is_none() {
            if !within.is_empty() {
                table(text, &format!("Within the noise ({})", within.len()), &within, room);
            }
            if !unknown.is_empty() {
                table(text, &format!("Too few seeds to judge ({})", unknown.len()), &unknown, room);
            }
        }
        quiet.within = within.len();
        quiet.unknown = if judged { unknown.len() } else { 0 };
    }
}

/// How many measures say nothing.
#[derive(Default)]
struct Quiet {
    same: usize,
    within: usize,
    unknown: usize,
}

impl Quiet {
    /// In a line or two; `hidden` where they are not shown.
    fn lines(&self, hidden: bool) -> String {
        let hint = |count: usize| if hidden && count > 0 { "; --all shows them" } else { "" };
        let mut text = match (self.within, self.same) {
            (0, 0) => "\n".to_owned(),
            (0, same) => format!("\nDid not change: {}{}\n", counted(same), hint(same)),
            (within, same) => format!(
                "\nDid not change: {} ({} within the noise, {} the same in both){}\n",
                counted(within + same),
                grouped(within as f64),
                grouped(same as f64),
                hint(within + same)
            ),
        };
        if self.unknown > 0 {
            let _ = writeln!(text, "Too few seeds to judge: {}{}", counted(self.unknown), hint(self.unknown));
        }
        text
    }
}

/// Where a subject stands among changes that are alike.
fn rank(change: &Change) -> u8 {
    match change.subject {
        Subject::Total => 0,
        Subject::Group(_) => 1,
        Subject::Link(_) => 2,
        Subject::Flow(_) => 3,
    }
}

/// A table of changes.
fn table(text: &mut String, title: &str, changes: &[&Change], room: Room) {
    let _ = writeln!(text, "\n{title}");
    if changes.is_empty() {
        text.push_str("  none\n");
        return;
    }
    let most = room.rows(text);
    // One more row takes as much room as to say that it is left out.
    let shown = if changes.len() <= most.saturating_add(1) { changes } else { &changes[..most] };
    let show = |unit: Unit, value: Option<f64>| value.map_or(ABSENT.to_owned(), |value| unit.show(value));
    let signed = |change: &&Change| match change.difference {
        Some(difference) if difference > 0.0 => format!("+{}", change.column.unit.show(difference)),
        difference => show(change.column.unit, difference),
    };
    let percent = |change: &&Change| match change.ratio {
        Some(ratio) if ratio > 0.0 => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        _ => ABSENT.to_owned(),
    };
    let times = |change: &&Change| match change.times_noise() {
        Some(times) if times.is_finite() => format!("{times:.1}"),
        Some(_) => "∞".to_owned(),
        None => ABSENT.to_owned(),
    };
    let mut table = TextTable::default();
    table.words("of", shown.iter().map(|change| change.subject.to_string()));
    table.words("metric", shown.iter().map(|change| change.column.name.to_owned()));
    table.figures("A", shown.iter().map(|change| show(change.column.unit, change.a)));
    table.figures("B", shown.iter().map(|change| show(change.column.unit, change.b)));
    table.figures("change", shown.iter().map(percent));
    let judged = shown.iter().any(|change| change.ci95.is_some());
    if judged {
        table.figures("times ±", shown.iter().map(times));
    }
    table.figures("difference", shown.iter().map(signed));
    if judged {
        table.figures("±", shown.iter().map(|change| show(change.column.unit, change.ci95)));
    }
    text.push_str(&table.render(room.width));
    rest(text, changes.len() - shown.len(), "measures");
}

/// A side and its seeds.
fn spoken(side: &Side) -> String {
    match side.seeds.as_slice() {
        [_] => side.name.clone(),
        seeds => format!("{} ({} seeds: {})", side.name, seeds.len(), spoken_seeds(seeds)),
    }
}

fn counted(count: usize) -> String {
    format!("{} {}", grouped(count as f64), if count == 1 { "measure" } else { "measures" })
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
        let text = sets().render(120, Some(SCREEN));
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        // Who is compared, what was changed, what is beyond noise, and how much is not.
        let places = [
            "A: runs/cubic (4 seeds: 1 to 4)\nB: runs/vegas (4 seeds: 1 to 4)\n",
            "Changed in the scenario\n  flow.bulk.cc: cubic -> vegas\n  flow.new.cc: (not set) -> vegas\n",
            "mean difference from seed to the same seed",
            "Changed beyond the noise of the seeds (1), the farthest first",
            "  Link r1>r2  queue_delay_mean_ms  17.5 ms  27.8 ms  +58.6 %",
            "Did not change: ",
            " within the noise, ",
            " the same in both); --all shows them",
            "about one in twenty",
        ]
        .map(place);
        assert!(places.is_sorted(), "{text}");
        assert!(!text.contains("rtt_mean_ms"), "{text}");
        let all = sets().render(120, None);
        assert!(all.contains("Within the noise (") && all.contains("rtt_mean_ms"), "{all}");
    }

    #[test]
    fn two_runs_say_that_chance_is_not_known() {
        let (a, mut b) = (example::summary(2, 1), example::summary(1, 2));
        b.links[0].queue_delay_mean_ms = 34.5;
        let comparison = Comparison::of(("runs/a", vec![&a]), ("runs/b", vec![&b]), true);
        let text = comparison.render(100, Some(20));
        for part in ["Note: the seeds differ: 1 and 2.", "Differences (", " more measures: --all shows them"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("how much of this is chance is not known") && !text.contains('±'), "{text}");
    }

    #[test]
    fn the_farthest_beyond_its_noise_comes_first_and_all_fits_a_screen() {
        // Many links that each changed, by ever more; one change is small, and the same for all seeds.
        let make = |step: f64| -> Vec<Summary> {
            (1..=4)
                .map(|seed| {
                    let mut summary = example::summary(2, seed);
                    let link = summary.links[0].clone();
                    for index in 0..60 {
                        let wait =
                            100.0 + step * f64::from(index) + 0.1 * (seed * (1 + step as u64) % 3) as f64;
                        summary.links.push(crate::LinkRow {
                            name: format!("l{index}"),
                            queue_delay_mean_ms: wait,
                            queue_delay_max_ms: if index == 7 { 400.0 + step } else { 400.0 },
                            ..link.clone()
                        });
                    }
                    summary
                })
                .collect()
        };
        let (a, b) = (make(0.0), make(1.0));
        let comparison = Comparison::of(("a", a.iter().collect()), ("b", b.iter().collect()), true);
        let text = comparison.render(120, Some(30));
        assert!(text.lines().count() <= 31, "{text}");
        let row = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(row("Link l59  ") < row("Link l58  "), "{text}");
        assert!(!text.contains("∞") && text.contains(" more measures: --all shows them"), "{text}");
        let all = comparison.render(120, None);
        assert!(all.contains("∞") && all.lines().count() > 200, "{all}");
    }

    #[test]
    fn a_run_beside_a_set_shows_its_differences_unjudged() {
        let set: Vec<Summary> = (1..=4).map(|seed| example::summary(2, seed)).collect();
        let comparison = Comparison::of(("a", vec![&set[0]]), ("b", set.iter().collect()), true);
        let text = comparison.render(100, Some(SCREEN));
        assert!(text.contains("Too few seeds to judge (") && text.contains("  Total "), "{text}");
        assert!(!text.contains("beyond the noise"), "{text}");
    }
}
