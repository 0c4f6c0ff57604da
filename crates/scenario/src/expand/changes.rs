//! Which changes are of which links.

use std::collections::BTreeMap;

use warpline_core::LinkId;

use super::super::Scenario;
use super::super::diagnostics::spelling_help;
use super::super::document::entry;
use super::{Expanded, Problem};

/// Links of which no more are listed in an error.
const LISTED: usize = 200;

/// Notes at each link which of the scenario's changes are of it.
pub(super) fn assign(scenario: &Scenario, expanded: &mut Expanded, problems: &mut Vec<Problem>) {
    let mut of_links: BTreeMap<LinkId, Vec<usize>> = BTreeMap::new();
    for (number, change) in scenario.change.iter().enumerate() {
        let links = expanded.links_called(scenario, &change.link);
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
    let labels = scenario.link.iter().map(super::super::Link::label).filter(|label| !label.is_empty());
    let directions = expanded.links.iter().take(LISTED).map(|link| expanded.link_name(&link));
    labels.chain(directions).collect()
}

impl Expanded {
    /// The links that a name means, in the order of their numbers: "a>b" is that direction; the name of a `[[link]]`, or two nodes with a dash, is
    /// each direction that there is between them.
    pub fn links_called(&self, scenario: &Scenario, name: &str) -> Vec<LinkId> {
        let node = |name: &str| self.nodes.find(name).map(|node| node as usize);
        let between = |ends: &dyn Fn(usize, usize) -> bool| -> Vec<LinkId> {
            let all = (0..self.links.len() as u32).map(LinkId);
            all.filter(|&link| ends(self.links.at(link).from, self.links.at(link).to)).collect()
        };
        if let Some((from, to)) = name.split_once('>') {
            let (Some(from), Some(to)) = (node(from), node(to)) else { return Vec::new() };
            return between(&|a, b| (a, b) == (from, to));
        }
        if let Some(link) = scenario.link.iter().find(|link| link.label() == name) {
            let Some((Some(a), Some(b))) = link.ends().map(|(a, b)| (node(a), node(b))) else {
                return Vec::new();
            };
            let duplex = link.between.is_some();
            return between(&|from, to| (from, to) == (a, b) || (duplex && (from, to) == (b, a)));
        }
        // Names of nodes may have dashes of their own.
        let pairs = name.match_indices('-').map(|(at, _)| (&name[..at], &name[at + 1..]));
        let mut pairs = pairs.filter_map(|(a, b)| Some((node(a)?, node(b)?)));
        let Some((a, b)) = pairs.next() else { return Vec::new() };
        between(&|from, to| (from, to) == (a, b) || (from, to) == (b, a))
    }
}
