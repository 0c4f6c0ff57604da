//! The summary as text for the terminal.

use std::fmt::Write;

use crate::rows::LinkRow;
use crate::summary::Summary;
use crate::units::{TextTable, Unit, grouped};

/// More flows than this are shown by group, of more links that tell something the busiest only.
pub(crate) const MANY: usize = 20;

/// The summary as lines of at most `width` characters, as far as names allow; columns that do not fit are left out, the least
/// telling first.
pub fn render(summary: &Summary, width: usize) -> String {
    let mut text = heading(summary);
    if summary.flows.len() > MANY {
        let _ = write!(
            text,
            "\nFlows, by group ({} in all)\n{}",
            summary.flows.len(),
            groups(summary).render(width)
        );
    } else if !summary.flows.is_empty() {
        let _ = write!(text, "\nFlows\n{}", flows(summary).render(width));
    }
    if !summary.links.is_empty() {
        let (shown, title, rest) = telling(&summary.links);
        let _ = write!(text, "\n{title}\n{}", links(&shown).render(width));
        if rest > 0 {
            let _ = writeln!(text, "  {}: links.parquet", counted(rest as u64, "more link", "more links"));
        }
    }
    text.push('\n');
    text.push_str(&totals(summary, width));
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
    if let Some(jain) = totals.jain.filter(|_| summary.flows.len() > 1) {
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

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A count that is worth showing only where it is not always zero.
fn unless_all_zero(counts: Vec<u64>) -> impl Iterator<Item = Option<f64>> {
    let any = counts.iter().any(|&count| count > 0);
    counts.into_iter().map(move |count| any.then_some(count as f64))
}

fn flows(summary: &Summary) -> TextTable {
    let flows = &summary.flows;
    let mut table = TextTable::default();
    table.words("flow", flows.iter().map(|f| f.name.clone()));
    table.numbers("goodput", Unit::BitPerSecond, flows.iter().map(|f| Some(f.goodput_bps)));
    if flows.iter().any(|f| f.outcome.is_some()) {
        table.words("outcome", flows.iter().map(|f| f.outcome.clone().unwrap_or_default()));
    }
    table.words("control", flows.iter().map(|f| f.cc.clone().unwrap_or_else(|| f.transport.clone())));
    let retransmitted = |f: &crate::FlowRow| {
        (f.transport == "tcp").then(|| share(f.retransmitted_packets, f.sent_packets)).flatten()
    };
    table.numbers("retransmitted", Unit::Share, flows.iter().map(retransmitted));
    table.numbers("RTT", Unit::Millisecond, flows.iter().map(|f| f.rtt_mean_ms));
    table.numbers("latency p95", Unit::Millisecond, flows.iter().map(|f| f.latency_p95_ms));
    table.numbers("message latency", Unit::Millisecond, flows.iter().map(|f| f.message_latency_mean_ms));
    table.numbers("completion", Unit::Second, flows.iter().map(|f| f.completion_mean_s));
    table.numbers("time-outs", Unit::Count, unless_all_zero(flows.iter().map(|f| f.rtos).collect()));
    table.words("path", flows.iter().map(|f| format!("{} > {}", f.from, f.to)));
    table
}

fn groups(summary: &Summary) -> TextTable {
    let groups = &summary.groups;
    let mut table = TextTable::default();
    table.words("group", groups.iter().map(|g| g.group.clone()));
    table.numbers("flows", Unit::Count, groups.iter().map(|g| Some(g.flows as f64)));
    table.numbers("goodput", Unit::BitPerSecond, groups.iter().map(|g| Some(g.goodput_bps)));
    table.numbers("per flow", Unit::BitPerSecond, groups.iter().map(|g| Some(g.goodput_mean_bps)));
    table.numbers("Jain", Unit::Index, groups.iter().map(|g| g.jain));
    table.words("control", groups.iter().map(|g| g.cc.clone()));
    table.numbers(
        "retransmitted",
        Unit::Share,
        groups.iter().map(|g| share(g.retransmitted_packets, g.sent_packets)),
    );
    table.numbers("RTT", Unit::Millisecond, groups.iter().map(|g| g.rtt_mean_ms));
    table.numbers("latency", Unit::Millisecond, groups.iter().map(|g| g.latency_mean_ms));
    table.numbers("completion", Unit::Second, groups.iter().map(|g| g.completion_mean_s));
    table.numbers("time-outs", Unit::Count, unless_all_zero(groups.iter().map(|g| g.rtos).collect()));
    table
}

/// Whether a link says something about what happened: it lost or marked packets, was used for a good part, or let packets
/// wait for a time that shows beside an RTT. Access links and ways back that only passed packets on do not.
fn tells(link: &LinkRow) -> bool {
    let busy = link.utilisation.is_some_and(|share| share >= 0.5);
    busy || link.drops() > 0 || link.marks > 0 || link.queue_delay_mean_ms >= 5.0
}

/// The links to show, what stands above them, and how many are left out.
fn telling(links: &[LinkRow]) -> (Vec<&LinkRow>, String, usize) {
    let mut shown: Vec<&LinkRow> = links.iter().filter(|link| tells(link)).collect();
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

fn links(links: &[&LinkRow]) -> TextTable {
    let mut table = TextTable::default();
    table.words("link", links.iter().map(|l| l.name.clone()));
    table.numbers("rate", Unit::BitPerSecond, links.iter().map(|l| l.rate_bps));
    table.numbers("used", Unit::Share, links.iter().map(|l| l.utilisation));
    table.numbers("lost", Unit::Count, links.iter().map(|l| Some(l.drops() as f64)));
    table.numbers("of arrivals", Unit::Share, links.iter().map(|l| share(l.drops(), l.arrivals)));
    table.numbers("marked", Unit::Count, unless_all_zero(links.iter().map(|l| l.marks).collect()));
    table.numbers("queue", Unit::Millisecond, links.iter().map(|l| Some(l.queue_delay_mean_ms)));
    table.numbers("longest", Unit::Millisecond, links.iter().map(|l| Some(l.queue_delay_max_ms)));
    table
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
    fn an_empty_run_has_a_summary_too() {
        let summary = Summary::new(Default::default(), Vec::new(), Vec::new());
        assert!(render(&summary, 80).contains("Total: goodput 0 bit/s, 0 packets lost"));
    }
}
