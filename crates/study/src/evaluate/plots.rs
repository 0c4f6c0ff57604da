//! What a trial looks like over time: goodput of each group of flows, and the delay in the queue.

use warpline_report::figure::Figure;
use warpline_report::{Band, Quantity, Samples};
use warpline_results::{Summary, Tables};

use super::Made;
use super::trial::{BOTTLENECK, Compared, STANDARD, TESTED};

/// A run over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Goodput of each group, by its name.
    goodput: Vec<(String, Samples)>,
    /// Delay at the bottleneck, or else at the link where packets waited longest.
    delay: Option<Samples>,
}

fn quantities() -> Option<(Quantity, Quantity)> {
    Some((Quantity::named("goodput")?, Quantity::named("delay")?))
}

impl Course {
    /// That of a run whose tables are in memory.
    pub(super) fn of(summary: &Summary, tables: &Tables) -> Course {
        let Some((goodput, delay)) = quantities() else { return Course::default() };
        let groups = summary
            .groups
            .iter()
            .map(|group| (group.group.clone(), Samples::of(summary, tables, goodput, Some(&group.group))));
        let named = summary.links.iter().find(|link| link.name == BOTTLENECK);
        let longest =
            || summary.links.iter().max_by(|a, b| a.queue_delay_mean_ms.total_cmp(&b.queue_delay_mean_ms));
        Course {
            goodput: groups.collect(),
            delay: named.or_else(longest).map(|link| Samples::of(summary, tables, delay, Some(&link.name))),
        }
    }
}

/// The figures of a trial with the algorithm `cc`, with all seeds of each side.
pub(super) fn figures(cc: &str, tested: &[&Made], (baseline, compared): (&[&Made], Compared)) -> Vec<Figure> {
    let Some((goodput, delay)) = quantities() else { return Vec::new() };
    let group = |runs: &[&Made], name: &str| {
        let named = |made: &&Made| made.course.goodput.iter().find(|(group, _)| group == name).cloned();
        Band::of(runs.iter().filter_map(named).map(|(_, samples)| samples))
    };
    let queue = |runs: &[&Made]| Band::of(runs.iter().filter_map(|made| made.course.delay.clone()));
    let groups = |runs: &[&Made]| -> Vec<String> {
        let first = runs.first().map(|made| made.course.goodput.as_slice()).unwrap_or_default();
        first.iter().map(|(name, _)| name.clone()).collect()
    };
    let mut rates = Vec::new();
    for name in groups(tested) {
        let line = if name == TESTED { cc } else { &name };
        rates.push((line.to_owned(), group(tested, &name)));
    }
    let mut delays = vec![(cc.to_owned(), queue(tested))];
    if !baseline.is_empty() {
        let other = match compared {
            Compared::Standard => format!("{STANDARD} in its place"),
            Compared::HonestReceiver => format!("{cc}, {}", compared.name()),
            Compared::WithoutIt => {
                let lines = groups(baseline).into_iter();
                rates.extend(lines.map(|name| (format!("{name}, without it"), group(baseline, &name))));
                compared.name().to_owned()
            }
        };
        if compared != Compared::WithoutIt {
            rates.push((other.clone(), group(baseline, TESTED)));
        }
        delays.push((other, queue(baseline)));
    }
    [(goodput, rates), (delay, delays)]
        .into_iter()
        .map(|(quantity, lines)| Figure { quantity, of: None, lines })
        .filter(|figure| !figure.is_empty())
        .collect()
}
