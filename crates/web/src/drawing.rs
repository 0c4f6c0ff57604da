//! A scenario's text, checked: what is wrong and where, and the network as it is drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use warpline_core::LinkId;
use warpline_lab::run::{self, CustomCc};
use warpline_scenario::expand::{Expanded, LinkSpec, RouteSet, Speed};
use warpline_scenario::{Diagnostic, Diagnostics, Scenario, Source};

use crate::sketch;

/// Larger networks are not drawn.
const MOST_NODES: usize = 20_000;
/// One-way links that are drawn, at most.
const MOST_LINKS: usize = 60_000;
/// Events on a link for each packet that crosses it: it is queued, sent and delivered.
const EVENTS: f64 = 3.0;
/// Bits of a full packet.
const PACKET_BITS: f64 = 12_000.0;

/// What there is to say of a text.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Checked {
    /// Whether it can be run.
    pub(crate) valid: bool,
    problems: Vec<Problem>,
    /// How many more there are.
    omitted: usize,
    notes: Vec<String>,
    about: Option<About>,
    drawing: Option<Drawing>,
    /// The values as they are written; none where the text is not TOML.
    written: Option<serde_json::Value>,
}

/// Something that is wrong.
#[derive(Debug, Serialize)]
struct Problem {
    message: String,
    /// The key that it is about: "link.1.rate"; may be empty.
    path: String,
    help: Vec<String>,
    /// From 1; none where it has no place in the text.
    line: Option<usize>,
    column: Option<usize>,
    width: Option<usize>,
}

/// What a scenario is.
#[derive(Debug, Serialize)]
struct About {
    name: String,
    description: Option<String>,
    duration_s: f64,
    warmup_s: f64,
    seed: u64,
    seeds: Vec<u64>,
    clock: &'static str,
    /// Whether all of it is simulated by our models.
    simulated: bool,
    /// About how many packet events a recording of all links has.
    events: f64,
}

/// A network as it is drawn.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Drawing {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) flows: Vec<Flow>,
    /// Says why not all of it is drawn.
    pub(crate) left_out: Option<String>,
}

/// A host or router.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// "host" at an end of a flow or with an entry of its own, otherwise "router".
    pub(crate) role: &'static str,
    /// Its kind: model, guest, live and so on.
    pub(crate) endpoint: Option<String>,
    /// Its `[[host]]`, if it has one.
    pub(crate) entry: Option<usize>,
    /// Whether a topology makes it.
    pub(crate) built: bool,
}

/// A link, both directions where it has both.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The key that it comes from: "link.2", "topology.bottleneck".
    pub(crate) origin: String,
    pub(crate) there: Option<Way>,
    pub(crate) back: Option<Way>,
}

/// A direction of a link.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    /// Its number in results.
    number: usize,
    /// Its values in force, in words.
    words: String,
    rate_bps: Option<f64>,
    delay_s: f64,
}

/// Flows of one entry.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Flow {
    pub(crate) entry: usize,
    pub(crate) name: String,
    pub(crate) from: Vec<usize>,
    pub(crate) to: Vec<usize>,
    pub(crate) count: usize,
    /// The number of the first of them in results; the others follow it.
    pub(crate) first: usize,
    pub(crate) words: String,
    /// The drawn links that their data cross.
    pub(crate) links: Vec<usize>,
}

fn problem(error: Diagnostic) -> Problem {
    let place = error.location;
    Problem {
        message: error.message,
        path: error.path,
        help: error.help,
        line: place.as_ref().map(|place| place.line),
        column: place.as_ref().map(|place| place.column),
        width: place.as_ref().map(|place| place.width),
    }
}

/// Checks a text. `name` stands for its file; paths in it are relative to `directory`.
pub(crate) fn check(name: &str, text: &str, directory: &Path) -> Checked {
    let checked = check_meaning(name, text, directory);
    Checked { written: toml_edit::de::from_str(text).ok(), ..checked }
}

fn check_meaning(name: &str, text: &str, directory: &Path) -> Checked {
    match run::load(&Source::from_text(name, text, directory), &[]) {
        Ok(scenario) => {
            let built = run::check(&scenario, &CustomCc::default());
            let message = built.as_ref().err().map(ToString::to_string);
            let unplaced = |message| Problem {
                message,
                path: String::new(),
                help: Vec::new(),
                line: None,
                column: None,
                width: None,
            };
            let expanded = scenario.expand();
            Checked {
                valid: built.is_ok(),
                problems: message.map(unplaced).into_iter().collect(),
                omitted: 0,
                notes: scenario.notes.clone(),
                about: Some(about(&scenario, &expanded)),
                drawing: Some(draw(&scenario, &expanded)),
                written: None,
            }
        }
        Err(Diagnostics { errors, omitted }) => Checked {
            problems: errors.into_iter().map(problem).collect(),
            omitted,
            drawing: sketch::draw(text),
            ..Checked::default()
        },
    }
}

fn rate(link: &LinkSpec<'_>) -> Option<f64> {
    match &link.kind.speed {
        Speed::Constant(rate) => Some(rate.as_bps() as f64),
        Speed::Schedule { initial, .. } => Some(initial.as_bps() as f64),
        _ => None,
    }
}

fn about(scenario: &Scenario, expanded: &Expanded) -> About {
    About {
        name: scenario.name.clone(),
        description: scenario.description.clone(),
        duration_s: scenario.duration.0.as_secs_f64(),
        warmup_s: scenario.warmup.0.as_secs_f64(),
        seed: scenario.seed,
        seeds: scenario.seeds(),
        clock: scenario.clock.mode.name(),
        simulated: scenario.is_simulated(),
        events: events(expanded, scenario.duration.0.as_secs_f64()),
    }
}

/// About how many events of packets there are, at most: each flow has its share of the slowest link on its way or sends what it is asked for, and
/// each packet has an acknowledgement.
fn events(expanded: &Expanded, seconds: f64) -> f64 {
    let links_of = |set: &RouteSet| match set.count {
        0 => &[],
        _ => expanded.routes.links(set.first),
    };
    let flows = || expanded.flows.iter().filter(|flow| flow.arrivals.is_empty());
    let mut users = vec![0u32; expanded.links.len()];
    for flow in flows() {
        links_of(&flow.forward).iter().for_each(|link| users[link.index()] += 1);
    }
    let share = |link: &LinkId| {
        rate(&expanded.links.at(*link)).unwrap_or(1e9) / f64::from(users[link.index()].max(1))
    };
    let steady = flows().map(|flow| {
        let links = links_of(&flow.forward);
        let least = links.iter().map(share).fold(f64::INFINITY, f64::min);
        let packets = if least.is_finite() { least * seconds / PACKET_BITS } else { 0.0 };
        packets * links.len() as f64
    });
    let asked = expanded.flows.iter().flat_map(|flow| &flow.arrivals).map(|arrival| {
        let packets = (arrival.size.0 as f64 * 8.0 / PACKET_BITS).ceil();
        packets * links_of(&arrival.forward).len() as f64
    });
    steady.chain(asked).sum::<f64>() * EVENTS * 2.0
}

/// The flows of an entry, collected.
#[derive(Default)]
struct Group {
    from: BTreeSet<usize>,
    to: BTreeSet<usize>,
    links: BTreeSet<usize>,
    count: usize,
    first: usize,
}

fn draw(scenario: &Scenario, expanded: &Expanded) -> Drawing {
    let (nodes, links) = (expanded.nodes.len(), expanded.links.len());
    if nodes > MOST_NODES || links > MOST_LINKS {
        let left_out = Some(format!("{nodes} nodes and {links} one-way links are too many to be drawn"));
        return Drawing { left_out, ..Drawing::default() };
    }
    let mut drawing = Drawing::default();
    let mut built: BTreeSet<usize> = BTreeSet::new();
    let mut drawn = Vec::with_capacity(links);
    for (number, link) in expanded.links.iter().enumerate() {
        let origin = link.kind.origin();
        if origin.starts_with("topology") {
            built.extend([link.from, link.to]);
        }
        let way = Way {
            number,
            words: link.kind.describe(&scenario.directory, true),
            rate_bps: rate(&link),
            delay_s: link.kind.delay.as_secs_f64(),
        };
        match drawing.links.last_mut() {
            Some(last)
                if last.back.is_none()
                    && (last.from, last.to) == (link.to, link.from)
                    && last.origin == origin =>
            {
                last.back = Some(way);
            }
            _ => drawing.links.push(Link {
                from: link.from,
                to: link.to,
                origin,
                there: Some(way),
                back: None,
            }),
        }
        drawn.push(drawing.links.len() - 1);
    }
    let names = scenario.group_names();
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for (number, flow) in expanded.flows.iter().enumerate() {
        let group = groups.entry(flow.entry).or_insert_with(|| Group { first: number, ..Group::default() });
        group.from.insert(flow.from);
        group.to.insert(flow.to);
        if flow.forward.count > 0 {
            let links = expanded.routes.links(flow.forward.first);
            group.links.extend(links.iter().map(|link| drawn[link.index()]));
        }
        group.count += 1;
    }
    let mut ends: BTreeSet<usize> = BTreeSet::new();
    for (entry, Group { from, to, links, count, first }) in groups {
        ends.extend(from.iter().chain(&to));
        let own = &scenario.flow[entry];
        let control = own.cc.as_ref().map(|cc| format!(", {}", cc.name())).unwrap_or_default();
        drawing.flows.push(Flow {
            entry,
            name: names.get(entry).cloned().unwrap_or_default(),
            from: from.into_iter().collect(),
            to: to.into_iter().collect(),
            count,
            first,
            words: format!("{}{control}", own.app.name()),
            links: links.into_iter().collect(),
        });
    }
    let entries: BTreeMap<&str, usize> =
        scenario.host.iter().enumerate().map(|(entry, host)| (host.name.as_str(), entry)).collect();
    for number in 0..nodes {
        let name = &expanded.nodes[number];
        let entry = entries.get(name).copied();
        let host = ends.contains(&number) || entry.is_some();
        drawing.nodes.push(Node {
            name: name.to_owned(),
            role: if host { "host" } else { "router" },
            endpoint: entry.map(|entry| scenario.host[entry].endpoint.about().name.to_owned()),
            entry,
            built: built.contains(&number),
        });
    }
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> serde_json::Value {
        serde_json::to_value(check("test.toml", text, Path::new(""))).unwrap()
    }

    #[test]
    fn a_scenario_is_drawn_with_its_values_in_force() {
        let text = "duration = \"9s\"\n[[link]]\nbetween = [\"a\", \"r\"]\nrate = \"8Mbit/s\"\ndelay = \"5ms\"\n[[link]]\nbetween = [\"r\", \"b\"]\n\
                    rate = \"1Mbit/s\"\nqueue = \"20p\"\n[[host]]\nname = \"b\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\n";
        let found = checked(text);
        assert_eq!(found["valid"], true, "{found}");
        let drawing = &found["drawing"];
        let names: Vec<_> = drawing["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["name"].as_str().unwrap(), node["role"].as_str().unwrap()))
            .collect();
        assert_eq!(names, [("a", "host"), ("r", "router"), ("b", "host")]);
        assert_eq!(drawing["links"][1]["origin"], "link.1");
        assert_eq!(drawing["links"][1]["there"]["words"], "1 Mbit/s, 0 s, queue 20 packets");
        assert_eq!(drawing["links"][1]["back"]["number"], 3);
        assert_eq!(drawing["flows"][0]["links"], serde_json::json!([0, 1]));
        assert_eq!(drawing["flows"][0]["words"], "bulk, reno");
        // Nine seconds of 1 Mbit/s are 750 packets, with three events and an acknowledgement on each of two links.
        assert_eq!(found["about"]["events"], 9000.0);
    }

    #[test]
    fn what_is_wrong_has_a_place_and_a_key_and_the_rest_is_drawn() {
        let found = checked("duration = \"9s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"fast\"\n");
        assert_eq!(found["valid"], false);
        let problems = found["problems"].as_array().unwrap();
        let problem = problems.iter().find(|problem| problem["path"] == "link.0.rate").unwrap();
        assert_eq!((&problem["line"], &problem["column"]), (&4.into(), &8.into()), "{problem}");
        assert_eq!(found["drawing"]["nodes"][1]["name"], "b");
        // Of a text that is not TOML nothing can be drawn.
        let found = checked("duration = \n");
        assert_eq!(found["problems"][0]["line"], 1);
        assert!(found["drawing"].is_null());
    }

    #[test]
    fn a_topology_is_drawn_link_by_link() {
        let found = checked(include_str!("../../../scenarios/dumbbell.toml"));
        assert_eq!(found["drawing"]["links"].as_array().unwrap().len(), 7);
        assert_eq!(found["drawing"]["links"][0]["origin"], "topology.bottleneck");
        assert_eq!(found["drawing"]["nodes"][0]["built"], true);
        assert_eq!(found["drawing"]["flows"][0]["count"], 2);
    }
}
