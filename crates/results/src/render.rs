//! The summary as text for the terminal.

use std::fmt::Write;

use crate::column::{Row, columns};
use crate::declaration::{Column, Kind, Scalar};
use crate::rows::LinkRow;
use crate::summary::Summary;
use crate::text_table::TextTable;
use crate::units::{Unit, grouped};

/// More flows than this are shown by group, more transfers by size, of more links that tell something the busiest only.
pub(crate) const MANY: usize = 20;

/// The summary as lines of at most `width` characters, as far as names allow; columns that do not fit are left out, the least
/// shown_links first.
pub fn render(summary: &Summary, width: usize) -> String {
    let mut text = heading(summary);
    if summary.flows.len() > MANY {
        let _ = write!(
            text,
            "\nFlows, by group ({} in all)\n{}",
            summary.flows.len(),
            table(&summary.groups.iter().collect::<Vec<_>>()).render(width)
        );
    } else if !summary.flows.is_empty() {
        let _ = write!(text, "\nFlows\n{}", table(&summary.flows.iter().collect::<Vec<_>>()).render(width));
    }
    if summary.sizes.iter().map(|range| range.transfers).sum::<u64>() > MANY as u64 {
        let _ = write!(
            text,
            "\nTransfers, by size\n{}",
            table(&summary.sizes.iter().collect::<Vec<_>>()).render(width)
        );
    }
    if !summary.links.is_empty() {
        let (shown, title, rest) = shown_links(&summary.links);
        let _ = write!(text, "\n{title}\n{}", table(&shown).render(width));
        if rest > 0 {
            let _ = writeln!(text, "  {}: links.parquet", counted(rest as u64, "more link", "more links"));
        }
    }
    text.push('\n');
    text.push_str(&totals(summary, width));
    let skipping = summary.skipping();
    if !skipping.is_empty() {
        let _ = writeln!(text, "{}", skipping.join("\n  "));
    }
    if let Some(live) = &summary.live {
        let _ = write!(text, "\n{}", live.render(width));
    }
    if let Some(guests) = &summary.guests {
        let _ = write!(text, "\n{}", guests.render(&summary.info.clock, width));
    }
    text
}

/// The last line; broken between its parts where it is too wide.
fn totals(summary: &Summary, width: usize) -> String {
    let totals = &summary.totals;
    let mut parts = vec![format!("Total: goodput {}", Unit::BitPerSecond.show(totals.goodput_bps))];
    if let Some(jain) = totals.jain {
        parts.push(format!("Jain's index {}", Unit::Index.show(jain)));
    }
    parts.push(counted(totals.drops, "packet lost", "packets lost"));
    if totals.marks > 0 {
        parts.push(format!("{} marked", grouped(totals.marks as f64)));
    }
    let mut lines = vec![String::new()];
    let last = parts.len() - 1;
    for (index, part) in parts.iter().enumerate() {
        let end = if index == last { "" } else { "," };
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = format!("{part}{end}"),
            Some(line) if line.chars().count() + 1 + part.len() + end.len() <= width => {
                *line = format!("{line} {part}{end}");
            }
            _ => lines.push(format!("  {part}{end}")),
        }
    }
    lines.join("\n") + "\n"
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count as f64), if count == 1 { one } else { many })
}

/// What ran, and whether it came to its end.
fn heading(summary: &Summary) -> String {
    let info = &summary.info;
    let mut text = format!("{}: {} simulated", info.scenario, seconds(info.simulated_s));
    if info.clock != "virtual" && !info.clock.is_empty() {
        text = format!("{}: {} on the {} clock", info.scenario, seconds(info.simulated_s), info.clock);
    }
    if info.warmup_s > 0.0 {
        let _ = write!(text, " ({} of warm-up cut off)", seconds(info.warmup_s));
    }
    let _ = writeln!(text, ", seed {}", info.seed);
    // Before anything that was measured: whether it can be trusted.
    let lagged = summary.live.as_ref().and_then(super::live::LiveSummary::lagged);
    let pushed = summary.guests.as_ref().and_then(super::guests::GuestSummary::pushed);
    if let Some(reason) = lagged.or(pushed) {
        text = format!("{reason}\n{text}");
    }
    if !info.complete {
        let why = info.stopped.as_deref().unwrap_or("stopped");
        let _ = writeln!(
            text,
            "INCOMPLETE: {why} after {} of {}; what was measured until then follows.",
            seconds(info.simulated_s),
            seconds(info.duration_s)
        );
    }
    text
}

fn seconds(value: f64) -> String {
    format!("{} s", (value * 1e3).round() / 1e3)
}

/// Rows as a table: the columns that are declared for the terminal, in the order of their places there.
fn table<R: Row>(rows: &[&R]) -> TextTable {
    let mut shown: Vec<(u8, &'static str, &Column<R>)> = columns::<R>()
        .filter_map(|column| column.info.terminal.map(|(place, heading)| (place, heading, column)))
        .collect();
    shown.sort_by_key(|(place, ..)| *place);
    let mut table = TextTable::default();
    for (_, heading, column) in shown {
        let cells: Vec<Scalar<'_>> = rows.iter().map(|row| (column.value)(row)).collect();
        let any = cells
            .iter()
            .any(|cell| cell.text().is_some() || cell.number().is_some_and(|number| number != 0.0));
        if column.info.if_any && !any {
            continue;
        }
        if column.info.kind == Kind::Text {
            table.words(heading, cells.iter().map(|cell| cell.text().unwrap_or_default().to_owned()));
        } else {
            table.numbers(heading, column.info.unit, cells.iter().map(Scalar::number));
        }
    }
    table
}

/// Whether a link says something about what happened: it lost or marked packets, was used for a good part, or let packets
/// wait for a time that shows beside an RTT. Access links and ways back that only passed packets on do not.
pub(crate) fn matters(link: &LinkRow) -> bool {
    let busy = link.utilisation.is_some_and(|share| share >= 0.5);
    busy || link.drops() > 0 || link.marks > 0 || link.queue_delay_mean_ms >= 5.0
}

/// The links to show, what stands above them, and how many are left out.
fn shown_links(links: &[LinkRow]) -> (Vec<&LinkRow>, String, usize) {
    let mut shown: Vec<&LinkRow> = links.iter().filter(|link| matters(link)).collect();
    let busy = |link: &LinkRow| (link.utilisation.unwrap_or(0.0), link.drops());
    let by_use =
        |a: &&LinkRow, b: &&LinkRow| busy(b).0.total_cmp(&busy(a).0).then_with(|| busy(b).1.cmp(&busy(a).1));
    if shown.is_empty() {
        // Nothing happened on any: the most used one shows how little.
        shown.extend(links.iter().min_by(by_use));
    }
    let mut title = "Links".to_owned();
    if shown.len() > MANY {
        title = format!("Links, the {MANY} busiest of {}", shown.len());
        shown.sort_by(by_use);
        shown.truncate(MANY);
    }
    let rest = links.len() - shown.len();
    (shown, title, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn a_few_flows() {
        insta::assert_snapshot!(render(&example::summary(2, 1), 120));
    }

    #[test]
    fn many_flows_are_grouped_and_an_interrupted_run_says_so() {
        let mut summary = example::summary(40, 1);
        summary.info.complete = false;
        summary.info.stopped = Some("interrupted".to_owned());
        summary.info.simulated_s = 12.3456;
        insta::assert_snapshot!(render(&summary, 100));
    }

    #[test]
    fn no_line_is_too_wide() {
        for width in [60, 80, 100] {
            for line in render(&example::summary(3, 1), width).lines() {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
    }

    #[test]
    fn links_on_which_nothing_happened_are_only_counted() {
        let mut links = example::links();
        let idle = links[1].clone();
        let named = |name: &str| LinkRow { name: name.to_owned(), ..idle.clone() };
        let mut slow = named("slow>r1");
        slow.queue_delay_mean_ms = 30.0;
        let mut full = named("full>r1");
        full.utilisation = Some(0.9);
        links.extend([named("client>r1"), slow, full]);
        let of = |links: Vec<LinkRow>| render(&Summary::new(Default::default(), Vec::new(), links), 100);
        let text = of(links.clone());
        for (name, shown) in
            [("r1>r2", true), ("r2>r1", false), ("client>r1", false), ("slow>r1", true), ("full>r1", true)]
        {
            assert_eq!(text.contains(name), shown, "{name}: {text}");
        }
        assert!(text.contains("\n  2 more links: links.parquet\n"), "{text}");
        // Where nothing happened at all, the busiest is shown; where there are too many, the busiest of them.
        let mut less = named("less");
        less.utilisation = Some(0.01);
        let text = of(vec![less, idle.clone()]);
        assert!(text.contains("r2>r1") && text.contains("1 more link: links.parquet"), "{text}");
        let many = of(vec![links[0].clone(); 30]);
        assert!(many.contains("the 20 busiest of 30") && many.contains("10 more links"), "{many}");
    }

    #[test]
    fn a_group_of_one_flow_has_no_fairness() {
        let summary = example::summary(1, 1);
        assert!(summary.groups.iter().all(|group| group.flows == 1 && group.jain.is_none()));
        let text = render(&summary, 200);
        assert!(!text.contains("Jain  ") && !text.contains(" Jain\n"), "{text}");
    }

    #[test]
    fn an_empty_run_has_a_summary_too() {
        let summary = Summary::new(Default::default(), Vec::new(), Vec::new());
        assert!(render(&summary, 80).contains("Total: goodput 0 bit/s, 0 packets lost"));
    }
}
