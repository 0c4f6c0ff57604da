//! Which changes are of which links.

use std::collections::BTreeMap;

use warpline_core::LinkId;

use super::super::Scenario;
use super::super::diagnostics::spelling_help;
use super::super::document::entry;
use super::super::link::Link;
use super::{Expanded, Problem};

/// Links of which no more are listed in an error.
const LISTED: usize = 200;

/// Notes at each link which of the scenario's changes are of it.
pub(super) fn assign(scenario: &Scenario, expanded: &mut Expanded, problems: &mut Vec<Problem>) {
    if scenario.change.is_empty() {
        return;
    }
    let mut labels: BTreeMap<String, &Link> = BTreeMap::new();
    for link in &scenario.link {
        labels.entry(link.label()).or_insert(link);
    }
    let mut of_links: BTreeMap<LinkId, Vec<usize>> = BTreeMap::new();
    for (number, change) in scenario.change.iter().enumerate() {
        let links = expanded.called(&change.link, |name| labels.get(name).copied());
        if links.is_empty() {
            let known = names(scenario, expanded);
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            problems.push(Problem {
                path: entry("change", number, &["link"]),
                message: format!("there is no link `{}`", change.link),
                help: spelling_help(&change.link, &known),
            });
        }
        links.into_iter().for_each(|link| of_links.entry(link).or_default().push(number));
    }
    expanded.links.changes = of_links;
}

/// The names that links can be called by: those of duplex links, then the directions.
fn names(scenario: &Scenario, expanded: &Expanded) -> Vec<String> {
    let labels = scenario.link.iter().map(Link::label).filter(|label| !label.is_empty());
    let directions = expanded.links.iter().take(LISTED).map(|link| expanded.link_name(&link));
    labels.chain(directions).collect()
}

impl Expanded {
    /// The links that a name means, in the order of their numbers: "a>b" is that direction; the name of a `[[link]]`, or two nodes with a dash, is
    /// each direction that there is between them.
    pub fn links_called(&self, scenario: &Scenario, name: &str) -> Vec<LinkId> {
        self.called(name, |name| scenario.link.iter().find(|link| link.label() == name))
    }

    /// The same, where `labelled` finds the `[[link]]` of a name.
    fn called<'a>(&self, name: &str, labelled: impl FnOnce(&str) -> Option<&'a Link>) -> Vec<LinkId> {
        let node = |name: &str| self.nodes.find(name).map(|node| node as usize);
        let one_way = |from, to| self.links.between(from, to).to_vec();
        let both = |a, b| {
            let mut links = [self.links.between(a, b), self.links.between(b, a)].concat();
            links.sort_unstable();
            // A link from a node to itself is there twice.
            links.dedup();
            links
        };
        if let Some((from, to)) = name.split_once('>') {
            let (Some(from), Some(to)) = (node(from), node(to)) else { return Vec::new() };
            return one_way(from, to);
        }
        if let Some(link) = labelled(name) {
            let Some((Some(a), Some(b))) = link.ends().map(|(a, b)| (node(a), node(b))) else {
                return Vec::new();
            };
            return if link.between.is_some() { both(a, b) } else { one_way(a, b) };
        }
        // Names of nodes may have dashes of their own.
        let pairs = name.match_indices('-').map(|(at, _)| (&name[..at], &name[at + 1..]));
        let mut pairs = pairs.filter_map(|(a, b)| Some((node(a)?, node(b)?)));
        let Some((a, b)) = pairs.next() else { return Vec::new() };
        both(a, b)
    }
}
