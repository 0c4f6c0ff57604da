//! Expanding: dumbbells and parking lots, and what data centres draw.

use std::collections::BTreeSet;

use super::*;

fn expand(text: &str) -> Expanded {
    Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|e| panic!("{e}")).expand()
}

const DUMBBELL: &str = r#"
    duration = "10s"
    [topology]
    kind = "dumbbell"
    rtt = "50ms"
    access = { delay = "5ms" }
    bottleneck = { rate = "10Mbit/s", queue = { kind = "droptail", limit = "1BDP" }, reverse = { rate = "1Mbit/s" } }
    [[flow]]
    name = "a"
    from = "left"
    to = "right"
    count = 2
    [[flow]]
    name = "b"
    from = "left"
    to = "right"
"#;

#[test]
fn a_dumbbell_gives_each_flow_hosts_of_its_own() {
    let expanded = expand(DUMBBELL);
    let names: Vec<&str> = expanded.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["a.0", "a.1", "b.0"]);
    let hosts: Vec<&str> = expanded.flows.iter().map(|f| &expanded.nodes[f.from]).collect();
    assert_eq!(hosts, ["left.0", "left.1", "left.2"]);
    let path: Vec<String> = expanded
        .routes
        .links(expanded.flows[2].forward.first)
        .iter()
        .map(|&l| expanded.link_name(&expanded.links.at(l)))
        .collect();
    assert_eq!(path, ["left.2>r1", "r1>r2", "r2>right.2"]);
    // 2 + 6 one-way links.
    assert_eq!(expanded.links.len(), 2 + 3 * 4);
    let middle = expanded.links.at(LinkId(0));
    assert_eq!(
        (middle.kind.delay, middle.base_rtt),
        (TimeDelta::from_millis(15), TimeDelta::from_millis(50))
    );
    assert_eq!(expanded.links.at(LinkId(1)).kind.speed, Speed::Constant(Rate::from_bps(1_000_000)));
    assert_eq!(expanded.links.at(LinkId(2)).kind.speed, Speed::Constant(Rate::from_bps(100_000_000)));
}

#[test]
fn a_parking_lot_maps_cross_flows_over_its_hops() {
    let expanded = expand(
        r#"
        duration = "10s"
        topology = { kind = "parking-lot", hops = 3, hop = { rate = "10Mbit/s", delay = "10ms" } }
        flow = [{ name = "long", from = "left.0", to = "right.0" },
                { name = "cross", from = "in", to = "out", count = 6 }]
        "#,
    );
    let hops: Vec<usize> =
        expanded.flows.iter().map(|f| expanded.routes.links(f.forward.first).len()).collect();
    assert_eq!(hops, [5, 3, 3, 3, 3, 3, 3]);
    let starts: Vec<&str> = expanded.flows.iter().map(|f| &expanded.nodes[f.from]).collect();
    assert_eq!(starts, ["left.0", "in.0", "in.1", "in.2", "in.0", "in.1", "in.2"]);
}

#[test]
fn a_flow_without_a_name_is_called_after_its_app_unless_another_is() {
    let flows = [
        "",
        "name = \"cbr\"",
        "app = \"poisson\"\nmessage_rate = 10",
        "app = \"cbr\"\nrate = \"1Mbit/s\"",
        "",
        "name = \"poisson\"",
    ];
    let flows = flows.map(|keys| format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\n{keys}\n"));
    let text = format!(
        "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n{}",
        flows.concat()
    );
    let scenario = Scenario::from_toml("test.toml", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(scenario.group_names(), ["bulk", "cbr", "poisson-2", "cbr-3", "bulk-4", "poisson"]);
}

const DATA_CENTRE: &str = r#"
    duration = "50ms"
    topology = { kind = "fat-tree", k = 4, host = { rate = "10Gbit/s", delay = "1us" } }
"#;

/// Everything that is drawn, as text.
fn drawn(text: &str) -> String {
    let expanded = expand(text);
    format!("{:?} {:?}", expanded.flows, expanded.routes)
}

#[test]
fn the_same_seed_draws_the_same_and_another_flow_changes_nothing() {
    let one = format!(
        "{DATA_CENTRE}\n[[flow]]\nname = \"a\"\nfrom = \"host\"\nto = \"host\"\napp = \"arrivals\"\nload = 0.3\n"
    );
    assert_eq!(drawn(&one), drawn(&one));
    assert_ne!(drawn(&one), drawn(&format!("seed = 2\n{one}")));
    let two = format!("{one}[[flow]]\nfrom = \"host\"\nto = \"host\"\npattern = \"permutation\"\n");
    let (one, two) = (expand(&one), expand(&two));
    for (before, after) in one.flows.iter().zip(&two.flows) {
        assert_eq!(before.arrivals.len(), after.arrivals.len());
        for (before, after) in before.arrivals.iter().zip(&after.arrivals) {
            assert_eq!((before.at, before.size, before.to), (after.at, after.size, after.to));
            assert_eq!(one.routes.links(before.forward.first), two.routes.links(after.forward.first));
        }
    }
}

#[test]
fn arrivals_offer_the_load_from_every_host_to_all_others() {
    let text = DATA_CENTRE.replace("50ms", "2s");
    let expanded = expand(&format!(
        "{text}\n[[flow]]\nfrom = \"host\"\nto = \"host\"\napp = \"arrivals\"\nload = \"40%\"\nsize = \"100kB\"\n"
    ));
    assert_eq!(expanded.flows.len(), 16);
    for flow in &expanded.flows {
        let bytes: u64 = flow.arrivals.iter().map(|arrival| arrival.size.0).sum();
        let load = bytes as f64 * 8.0 / (2.0 * 10e9);
        assert!((load - 0.4).abs() < 0.02, "{load}");
        let receivers: BTreeSet<u32> = flow.arrivals.iter().map(|arrival| arrival.to).collect();
        assert!(receivers.len() == 15 && !receivers.contains(&(flow.from as u32)));
        assert!(flow.arrivals.is_sorted_by_key(|arrival| arrival.at));
        // Of a Poisson process the gaps vary as much as they are long.
        let gaps: Vec<f64> =
            flow.arrivals.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.06, "{}", variance.sqrt() / mean);
        for arrival in &flow.arrivals {
            let links = expanded.routes.links(arrival.forward.first);
            let ends = (expanded.links.at(links[0]).from, expanded.links.at(links[links.len() - 1]).to);
            assert_eq!(ends, (flow.from, arrival.to as usize));
        }
    }
}

#[test]
fn routes_are_one_for_all_or_hashed_or_sprayed() {
    let flows = "[[flow]]\nfrom = \"host.0\"\nto = \"host.15\"\ncount = 40\n";
    let routes = |routing: &str| {
        let expanded = expand(&format!("{DATA_CENTRE}{routing}\n{flows}"));
        let sets =
            expanded.flows.iter().map(|flow| flow.forward.first..flow.forward.first + flow.forward.count);
        let all: BTreeSet<Vec<LinkId>> =
            sets.flatten().map(|route| expanded.routes.links(route).to_vec()).collect();
        (expanded.flows[0].forward.count, all.len())
    };
    assert_eq!(routes("routing = \"first\""), (1, 1));
    assert_eq!(routes(""), (1, 4));
    assert_eq!(routes("routing = \"spray\""), (4, 4));
    assert_eq!(routes("routing = \"spray,routes=3\"").0, 3);
}

#[test]
fn transfers_that_would_come_after_the_end_do_not_count() {
    let flow = "app = \"arrivals\"\nload = 0.5\nsize = \"100kB\"\nstop = \"10000h\"";
    let text = format!("{DATA_CENTRE}\n[[flow]]\nfrom = \"host.0\"\nto = \"host.1\"\n{flow}\n");
    Scenario::from_toml("test.toml", &text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn what_is_wrong_with_patterns_and_arrivals_is_told_at_its_key() {
    for (flow, place, message) in [
        ("pattern = \"incast\"\ncount = 16", "flow.0.count", "15 hosts that can send"),
        (
            "app = \"arrivals\"\nload = 0.5\nsize = \"1kB\"\nsizes = \"data-mining\"",
            "flow.0.size",
            "exclude each other",
        ),
        ("app = \"arrivals\"\nload = 0.5\nsize = \"1B\"", "flow.0.load", "more than a run may make"),
        ("app = \"arrivals\"", "flow.0", "needs `load`"),
        ("count = 3", "flow.0.to", "to itself"),
    ] {
        let text = format!("{DATA_CENTRE}\n[[flow]]\nfrom = \"host\"\nto = \"host\"\n{flow}\n");
        let errors = Scenario::from_toml("test.toml", &text, &[]).unwrap_err().errors;
        let found =
            errors.iter().any(|error| error.path.starts_with(place) && error.message.contains(message));
        assert!(found, "{flow}: {errors:?}");
    }
}

#[test]
fn too_many_flows_are_refused_before_they_are_listed() {
    let text = r#"
        duration = "1s"
        topology = { kind = "star", leaves = 100, leaf = { rate = "1Gbit/s" } }
        flow = [{ from = "leaf", to = "leaf", pattern = "all-to-all", count = 100000 }]
    "#;
    let errors = Scenario::from_toml("test.toml", text, &[]).unwrap_err().errors;
    let told: Vec<(&str, &str)> =
        errors.iter().map(|error| (error.path.as_str(), error.message.as_str())).collect();
    // Of the senders: those that each of them sends to have not been counted.
    let message = "10000000 flows are more than a scenario may have: 4000000";
    assert_eq!(told, [("flow.0.pattern", message)]);
}
