//! Topologies are the links that one would write by hand.

use std::collections::BTreeSet;

use super::super::{Expanded, RouteSet, Speed};
use super::*;

#[test]
fn the_links_are_those_written_by_hand() {
    let (dumbbell, hop) = ("bottleneck = { rate = \"1Mbit/s\" }", "hop = { rate = \"1Mbit/s\" }");
    for (topology, links) in [
        (
            format!("kind = \"dumbbell\", pairs = 2, {dumbbell}"),
            "r1>r2 left.0>r1 right.0>r2 left.1>r1 right.1>r2",
        ),
        (
            format!("kind = \"parking-lot\", hops = 2, pairs = 1, {hop}"),
            "r0>r1 r1>r2 left.0>r0 right.0>r2 in.0>r0 out.0>r1 in.1>r1 out.1>r2",
        ),
        (format!("kind = \"chain\", hops = 3, {hop}"), "n0>n1 n1>n2 n2>n3"),
        (
            "kind = \"star\", leaves = 2, leaf = { rate = \"1Mbit/s\" }".to_owned(),
            "leaf.0>hub leaf.1>hub",
        ),
        (
            "kind = \"fat-tree\", k = 2, host = { rate = \"1Mbit/s\" }".to_owned(),
            "host.0>edge.0.0 host.1>edge.1.0 edge.0.0>agg.0.0 agg.0.0>core.0 edge.1.0>agg.1.0 agg.1.0>core.0",
        ),
        (
            "kind = \"leaf-spine\", leaves = 2, spines = 2, hosts = 1, host = { rate = \"1Mbit/s\" }".to_owned(),
            "host.0>leaf.0 host.1>leaf.1 leaf.0>spine.0 leaf.0>spine.1 leaf.1>spine.0 leaf.1>spine.1",
        ),
        (
            "kind = \"clos\", pods = 1, edges = 1, aggregations = 2, cores = 4, hosts = 2, host = { rate = \"1Mbit/s\" }"
                .to_owned(),
            "host.0>edge.0.0 host.1>edge.0.0 edge.0.0>agg.0.0 edge.0.0>agg.0.1 agg.0.0>core.0 agg.0.0>core.1 \
             agg.0.1>core.2 agg.0.1>core.3",
        ),
    ] {
        let text = format!("duration = \"1s\"\ntopology = {{ {topology} }}\n");
        let expanded = toml::from_str::<Scenario>(&text).unwrap().expand();
        // The forward directions.
        let names: Vec<String> =
            expanded.links.iter().step_by(2).map(|link| expanded.link_name(&link)).collect();
        assert_eq!(names.join(" "), links);
    }
}

/// What the links of the topologies below are like.
const LINK: &str = "{ rate = \"1Mbit/s\" }";

/// A scenario with such a topology. Its numbers may be out of the ranges of their keys.
fn unchecked(topology: &str) -> Scenario {
    toml::from_str(&format!("duration = \"1s\"\ntopology = {{ {topology} }}\n")).unwrap()
}

fn extent(scenario: &Scenario) -> Extent {
    scenario.topology.as_ref().unwrap().layout().extent(scenario)
}

#[test]
fn the_extent_is_that_of_what_is_built() {
    let mut kinds = BTreeSet::new();
    for topology in [
        format!("kind = \"dumbbell\", bottleneck = {LINK}"),
        format!("kind = \"dumbbell\", pairs = 3, bottleneck = {LINK}"),
        format!("kind = \"parking-lot\", hops = 2, pairs = 5, hop = {LINK}"),
        format!("kind = \"chain\", hops = 3, hop = {LINK}"),
        format!("kind = \"star\", leaves = 4, leaf = {LINK}"),
        format!("kind = \"fat-tree\", k = 6, host = {LINK}"),
        format!("kind = \"leaf-spine\", leaves = 2, spines = 3, hosts = 5, host = {LINK}"),
        format!(
            "kind = \"clos\", pods = 2, edges = 3, aggregations = 5, cores = 10, hosts = 7, host = {LINK}"
        ),
    ] {
        let scenario = unchecked(&topology);
        let expanded = scenario.expand();
        let (nodes, links) = (expanded.nodes.len() as u64, expanded.links.len() as u64);
        assert_eq!(extent(&scenario), Extent { nodes, duplex_links: links / 2 }, "{topology}");
        kinds.insert(scenario.topology.as_ref().unwrap().kind());
    }
    assert_eq!(kinds.len(), Topology::KINDS, "a small topology of each kind belongs above: {kinds:?}");
}

#[test]
fn every_topology_that_is_too_large_is_refused_before_it_is_built() {
    let (most, mut kinds) = (u32::MAX, BTreeSet::new());
    for (kind, keys) in [
        ("dumbbell", format!("pairs = {most}, bottleneck = {LINK}")),
        ("parking-lot", format!("hops = {most}, hop = {LINK}")),
        ("chain", format!("hops = {most}, hop = {LINK}")),
        ("star", format!("leaves = {most}, leaf = {LINK}")),
        ("fat-tree", format!("k = {most}, host = {LINK}")),
        ("leaf-spine", format!("leaves = {most}, spines = {most}, hosts = {most}, host = {LINK}")),
        (
            "clos",
            format!(
                "pods = {most}, edges = {most}, aggregations = {most}, cores = {most}, hosts = {most}, host = {LINK}"
            ),
        ),
    ] {
        let mut problems = Vec::new();
        let expanded = unchecked(&format!("kind = \"{kind}\", {keys}")).expand_noting(&mut problems);
        assert!(expanded.is_none(), "{kind}");
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert!(
            matches!(messages.as_slice(), [one] if one.starts_with(&format!("this {kind} would have "))),
            "{kind}: {messages:?}"
        );
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), Topology::KINDS, "a large topology of each kind belongs above: {kinds:?}");
}

#[test]
fn a_topology_that_is_too_large_has_one_error_with_its_size() {
    for (topology, message) in [
        (
            "kind = \"leaf-spine\", leaves = 10000, spines = 10000, hosts = 10000",
            "this leaf-spine would have 100020000 nodes and 400000000 links",
        ),
        (
            "kind = \"clos\", pods = 10000, edges = 10000, aggregations = 10000, cores = 10000, hosts = 1",
            "this clos would have 300010000 nodes and 2000400000000 links",
        ),
    ] {
        let text = format!(
            "duration = \"1s\"\ntopology = {{ {topology}, host = {LINK} }}\nflow = [{{ from = \"host.0\", to = \"host.1\" }}]\n"
        );
        let errors = Scenario::from_toml("test.toml", &text, &[]).unwrap_err().errors;
        let told: Vec<(&str, &str)> =
            errors.iter().map(|error| (error.path.as_str(), error.message.as_str())).collect();
        assert_eq!(told, [("topology", message)]);
        assert!(errors[0].help[0].contains(&MOST_LINKS.to_string()), "{:?}", errors[0].help);
    }
}

#[test]
fn the_largest_fat_trees_are_not_too_large() {
    // The one that docs/src/data-centre.md has measured, and the largest that `k` allows.
    for (k, nodes, links) in [(74, 108_151, 607_836), (128, 544_768, 3_145_728)] {
        let scenario = unchecked(&format!("kind = \"fat-tree\", k = {k}, host = {LINK}"));
        assert_eq!(extent(&scenario), Extent { nodes, duplex_links: links / 2 });
        assert!(scenario.topology.as_ref().unwrap().too_large(&scenario).is_none(), "{k}");
    }
}

#[test]
fn access_delays_are_taken_in_turn() {
    let text = "duration = \"1s\"\n[topology]\nkind = \"dumbbell\"\npairs = 3\naccess_delays = [\"2ms\", \"5ms\"]\nrtt = \"50ms\"\n\
                bottleneck = { rate = \"1Mbit/s\" }\n";
    let expanded = toml::from_str::<Scenario>(text).unwrap().expand();
    let delays: Vec<u64> = expanded.links.iter().map(|link| link.kind.delay.as_nanos() / 1_000_000).collect();
    assert_eq!(delays, [21, 21, 2, 2, 2, 2, 5, 5, 5, 5, 2, 2, 2, 2]);
}

const FLOW: &str = "[[flow]]\nfrom = \"left\"\nto = \"right\"\n";

/// The error of a dumbbell with such links, or the delays of its first pair's path, there and back, in milliseconds.
fn round_trip(links: &str) -> Result<[u64; 6], String> {
    let text = format!(
        "duration = \"1s\"\n[topology]\nkind = \"dumbbell\"\npairs = 1\nrtt = \"50ms\"\n{links}\n{FLOW}"
    );
    let scenario = Scenario::from_toml("test.toml", &text, &[]).map_err(|errors| errors.to_string())?;
    let delays: Vec<u64> =
        scenario.expand().links.iter().map(|link| link.kind.delay.as_nanos() / 1_000_000).collect();
    Ok(delays.try_into().unwrap())
}

#[test]
fn the_round_trip_time_of_a_dumbbell_is_that_of_both_ways() {
    let of = |links: &str| round_trip(links).map(|delays| delays.iter().sum::<u64>());
    assert_eq!(of("bottleneck = { rate = \"1Mbit/s\" }"), Ok(50));
    let access = "access = { delay = \"2ms\", reverse = { delay = \"7ms\" } }";
    assert_eq!(of(&format!("bottleneck = {{ rate = \"1Mbit/s\" }}\n{access}")), Ok(50));
    let error = of("bottleneck = { rate = \"1Mbit/s\", reverse = { delay = \"40ms\" } }").unwrap_err();
    assert!(error.contains("`rtt` and `bottleneck.reverse.delay` exclude each other"), "{error}");
}

#[test]
fn a_radio_and_delays_exclude_each_other_across_directions() {
    let radio = "radio = \"leo,min_rate=50Mbit/s,max_rate=200Mbit/s\"";
    let delays = "delays = [{ at = \"1s\", delay = \"50ms\" }]";
    for (forward, reverse) in [(radio, delays), (delays, radio)] {
        let text = format!(
            "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n{forward}\nreverse = {{ {reverse} }}\n"
        );
        let text = if forward == radio { text.replace("rate = \"1Mbit/s\"\n", "") } else { text };
        let error = Scenario::from_toml("test.toml", &text, &[]).unwrap_err().to_string();
        assert!(error.contains("`radio` excludes `delays` in the reverse direction"), "{error}");
    }
}

#[test]
fn framing_has_a_bound() {
    let text =
        "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\nframing = \"4GiB\"\n";
    let error = Scenario::from_toml("test.toml", text, &[]).unwrap_err().to_string();
    assert!(error.contains("`framing` is more than 10kB"), "{error}");
}

#[test]
fn a_ratio_sets_the_rate_of_the_fabric_whatever_the_hosts_have_on_the_way_back() {
    let host =
        "host = { rate = \"10Gbit/s\", reverse = { schedule = [{ at = \"1s\", rate = \"5Gbit/s\" }] } }";
    let topology =
        format!("kind = \"leaf-spine\", leaves = 2, spines = 2, hosts = 4, oversubscription = 2, {host}");
    let expanded = expand(&topology, "{ from = \"host.0\", to = \"host.1\" }");
    let upwards = expanded.links.iter().find(|link| expanded.link_name(link) == "leaf.0>spine.0").unwrap();
    assert!(
        matches!(&upwards.kind.speed, Speed::Constant(rate) if rate.as_bps() == 10_000_000_000),
        "{:?}",
        upwards.kind.speed
    );
}

fn expand(topology: &str, flows: &str) -> Expanded {
    let text = format!("duration = \"1s\"\ntopology = {{ {topology} }}\nflow = [{flows}]\n");
    Scenario::from_toml("test.toml", &text, &[]).unwrap_or_else(|error| panic!("{error}")).expand()
}

#[test]
fn a_fat_tree_has_the_published_counts_and_its_routes_spread() {
    let flows = "{ from = \"host\", to = \"host\", pattern = \"permutation\" }";
    let expanded =
        expand("kind = \"fat-tree\", k = 8, host = { rate = \"400Gbit/s\", delay = \"1us\" }", flows);
    let of = |kind: &str| expanded.nodes.iter().filter(|name| name.starts_with(kind)).count();
    assert_eq!(["host.", "edge.", "agg.", "core."].map(of), [128, 32, 32, 16]);
    // Every switch has k ports.
    for (node, name) in expanded.nodes.iter().enumerate().filter(|(_, name)| !name.starts_with("host.")) {
        assert_eq!(expanded.links.iter().filter(|link| link.from == node).count(), 8, "{name}");
    }
    assert!(
        expanded.links.iter().all(|link| link.kind.speed == Speed::Constant(Rate::from_bps(400_000_000_000)))
    );
    assert_eq!(expanded.flows.len(), 128);
    let cores = |set: RouteSet| {
        let route = expanded.routes.links(set.first).iter();
        let ends = route.map(|link| &expanded.nodes[expanded.links.at(*link).to]);
        ends.filter(|name| name.starts_with("core.")).map(str::to_owned).next()
    };
    let there: BTreeSet<_> = expanded.flows.iter().filter_map(|flow| cores(flow.forward)).collect();
    assert!(there.len() > 12, "{there:?}");
    // Data and acknowledgements have hashes of their own.
    assert!(expanded.flows.iter().any(|flow| cores(flow.forward) != cores(flow.reverse)));
}

#[test]
fn oversubscription_sets_the_rate_of_the_fabric() {
    for (topology, link, rate) in [
        (
            "kind = \"leaf-spine\", leaves = 2, spines = 4, hosts = 16, oversubscription = 4",
            "leaf.0>spine.0",
            10,
        ),
        (
            "kind = \"clos\", pods = 2, edges = 2, aggregations = 2, cores = 4, hosts = 8, oversubscription = 2",
            "edge.0.0>agg.0.0",
            20,
        ),
        (
            "kind = \"clos\", pods = 2, edges = 2, aggregations = 2, cores = 4, hosts = 8, oversubscription = 2",
            "agg.0.0>core.0",
            20,
        ),
        ("kind = \"fat-tree\", k = 4, fabric = { rate = \"40Gbit/s\" }", "agg.0.0>core.0", 40),
    ] {
        let topology = format!("{topology}, host = {{ rate = \"10Gbit/s\" }}");
        let expanded = expand(&topology, "{ from = \"host\", to = \"host.0\", pattern = \"incast\" }");
        let found = expanded.links.iter().find(|own| expanded.link_name(own) == link).unwrap();
        assert_eq!(found.kind.speed, Speed::Constant(Rate::from_bps(rate * 1_000_000_000)), "{topology}");
    }
}

#[test]
fn what_the_fabric_does_not_say_is_as_from_a_switch_to_a_host() {
    let expanded = expand(
        "kind = \"leaf-spine\", leaves = 1, spines = 1, hosts = 2, \
         host = { rate = \"1Gbit/s\", queue = \"7p\", loss = \"1%\", reverse = { queue = \"9p\" } }",
        "{ from = \"host.0\", to = \"host.1\" }",
    );
    let queue = |name: &str| {
        expanded.links.iter().find(|link| expanded.link_name(link) == name).unwrap().kind.queue.clone()
    };
    let (up, down) = (queue("host.0>leaf.0"), queue("leaf.0>host.0"));
    assert_ne!(up, down);
    assert_eq!((queue("leaf.0>spine.0"), queue("spine.0>leaf.0")), (down.clone(), down));
    assert!(
        !expanded
            .links
            .iter()
            .any(|link| link.kind.loss.is_some() && expanded.link_name(&link).contains("spine"))
    );
}

#[test]
fn what_a_fat_trees_fabric_says_of_the_way_down_is_not_for_the_way_up() {
    let expanded = expand(
        "kind = \"fat-tree\", k = 4, host = { rate = \"10Gbit/s\" }, fabric = { reverse = { rate = \"1Gbit/s\" } }",
        "{ from = \"host.0\", to = \"host.1\" }",
    );
    for (name, gigabits) in
        [("edge.0.0>agg.0.0", 10), ("agg.0.0>edge.0.0", 1), ("agg.0.0>core.0", 10), ("core.0>agg.0.0", 1)]
    {
        let link = expanded.links.iter().find(|link| expanded.link_name(link) == name).unwrap();
        assert_eq!(link.kind.speed, Speed::Constant(Rate::from_bps(gigabits * 1_000_000_000)), "{name}");
    }
}

#[test]
fn what_upper_does_not_say_is_as_in_the_fabric_in_each_direction() {
    let clos = "kind = \"clos\", pods = 1, edges = 1, aggregations = 1, cores = 1, hosts = 2, \
                host = { rate = \"10Gbit/s\" }, fabric = { rate = \"8Gbit/s\", reverse = { rate = \"1Gbit/s\" } }";
    for (upper, up, down) in [
        ("delay = \"3us\"", 8, 1),
        ("rate = \"4Gbit/s\"", 4, 4),
        ("reverse = { rate = \"2Gbit/s\" }", 8, 2),
        ("rate = \"4Gbit/s\", reverse = { rate = \"2Gbit/s\" }", 4, 2),
    ] {
        let topology = format!("{clos}, upper = {{ {upper} }}");
        let expanded = expand(&topology, "{ from = \"host.0\", to = \"host.1\" }");
        for (name, gigabits) in [("agg.0.0>core.0", up), ("core.0>agg.0.0", down)] {
            let link = expanded.links.iter().find(|link| expanded.link_name(link) == name).unwrap();
            let rate = Rate::from_bps(gigabits * 1_000_000_000);
            assert_eq!(link.kind.speed, Speed::Constant(rate), "{name} with {upper}");
        }
    }
}

#[test]
fn what_is_wrong_is_told_at_its_key() {
    for (topology, place, message) in [
        ("kind = \"fat-tree\", k = 5", "topology.k", "`k` is odd: 5"),
        ("kind = \"fat-tree\", k = 0", "topology.k", "out of range: 0"),
        (
            "kind = \"clos\", pods = 1, edges = 1, aggregations = 2, cores = 3, hosts = 2",
            "topology.cores",
            "cannot be shared out",
        ),
        (
            "kind = \"leaf-spine\", leaves = 1, spines = 1, hosts = 2, oversubscription = 0",
            "topology.oversubscription",
            "out of range",
        ),
        (
            "kind = \"leaf-spine\", leaves = 1, spines = 1, hosts = 2, oversubscription = 2, fabric = { rate = \"1Gbit/s\" }",
            "topology.oversubscription",
            "exclude each other",
        ),
    ] {
        let text = format!(
            "duration = \"1s\"\ntopology = {{ {topology}, host = {{ rate = \"1Gbit/s\" }} }}\nflow = [{{ from = \"host.0\", to = \"host.1\" }}]\n"
        );
        let errors = Scenario::from_toml("test.toml", &text, &[]).unwrap_err();
        let errors: Vec<String> =
            errors.errors.iter().map(|error| format!("{} {}", error.path, error.message)).collect();
        assert!(
            errors.iter().any(|error| error.contains(place) && error.contains(message)),
            "{topology}: {errors:?}"
        );
    }
}
