//! Which links of a scenario are in use: those that something may cross. Only these have state in the network, and rows.

use warpline_core::LinkId;
use warpline_scenario::{Expanded, Scenario};

/// A bit for each link.
pub(super) struct Used {
    words: Vec<u64>,
    /// For each word, how many links of those before are in use.
    before: Vec<u32>,
}

impl Used {
    /// The links on the paths of flows, and those that are recorded. With programs all links: their datagrams may take any.
    pub(super) fn new(expanded: &Expanded, scenario: &Scenario) -> Used {
        let all = !scenario.is_simulated();
        let mut words = vec![0u64; expanded.links.len().div_ceil(64)];
        let mut mark = |link: usize| words[link / 64] |= 1 << (link % 64);
        let recorded = |link: usize| all || !expanded.links.at(LinkId(link as u32)).kind.record.is_empty();
        (0..expanded.links.len()).filter(|&link| recorded(link)).for_each(&mut mark);
        for route in 0..expanded.routes.len() as u32 {
            expanded.routes.links(route).iter().for_each(|link| mark(link.index()));
        }
        let before = words.iter().scan(0, |count, word| {
            let before = *count;
            *count += word.count_ones();
            Some(before)
        });
        let before = before.collect();
        Used { words, before }
    }

    /// Whether a link is in use.
    pub(super) fn contains(&self, link: LinkId) -> bool {
        self.words[link.index() / 64] >> (link.index() % 64) & 1 == 1
    }

    /// How many links with lower numbers are in use: the place of a link in use among them.
    pub(super) fn place(&self, link: LinkId) -> usize {
        let below = self.words[link.index() / 64] & ((1 << (link.index() % 64)) - 1);
        (self.before[link.index() / 64] + below.count_ones()) as usize
    }
}

#[cfg(test)]
mod tests {
    use warpline_scenario::Scenario;

    use super::super::build::build;
    use super::super::{Control, RunOptions, run};
    use super::*;

    /// Hosts at a switch, between two of which there is a flow; `more` are further keys.
    fn star(more: &str) -> Scenario {
        let text = format!(
            "duration = \"100ms\"\n\
             topology = {{ kind = \"star\", leaves = 100, leaf = {{ rate = \"10Mbit/s\", delay = \"1ms\" }} }}\n\
             flow = [{{ from = \"leaf.3\", to = \"leaf.70\" }}]\n{more}"
        );
        Scenario::from_toml("test.toml", &text, &[]).unwrap()
    }

    #[test]
    fn only_links_in_use_have_state_and_rows() {
        let scenario = star("");
        let expanded = scenario.expand();
        let used = Used::new(&expanded, &scenario);
        let all = || (0..expanded.links.len() as u32).map(LinkId);
        let in_use: Vec<LinkId> = all().filter(|&link| used.contains(link)).collect();
        assert_eq!((all().count(), in_use.len()), (200, 4));
        assert!(in_use.iter().enumerate().all(|(place, &link)| used.place(link) == place));

        let built = build(&scenario, &RunOptions::default()).unwrap();
        assert_eq!(
            (built.network.link_count(), built.network.links().collect::<Vec<_>>()),
            (200, in_use.clone())
        );
        let options = RunOptions { tables: true, ..RunOptions::default() };
        let outcome = run(&scenario, &options, &mut |_| Control::Continue).unwrap();
        let rows = &outcome.summary.links;
        assert!(rows.iter().map(|row| LinkId(row.link)).eq(in_use.iter().copied()));
        for row in rows {
            assert_eq!(row.name, expanded.link_name(&expanded.links.at(LinkId(row.link))));
            assert!(row.sent_packets > 0, "{}", row.name);
        }
        let samples = outcome.tables.unwrap().series_links.rows::<warpline_results::LinkSample>().unwrap();
        assert!(
            samples.iter().all(|sample| in_use.contains(&LinkId(sample.link)))
                && samples.len().is_multiple_of(4)
        );
        let busy = samples.iter().filter(|sample| sample.link == in_use[0].0);
        assert!(busy.map(|sample| sample.throughput_bps).fold(0.0, f64::max) > 1e6);
    }

    #[test]
    fn a_link_that_is_recorded_is_in_use() {
        let text = "duration = \"100ms\"\n\
             link = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }, { between = [\"b\", \"c\"], rate = \"1Mbit/s\", record = [\"packets\"] }]\n\
             flow = [{ from = \"a\", to = \"b\" }]";
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap();
        let built = build(&scenario, &RunOptions::default()).unwrap();
        assert_eq!((built.network.links().count(), built.records.links.len()), (4, 2));
    }
}
