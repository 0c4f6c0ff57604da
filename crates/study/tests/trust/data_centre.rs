//! Networks of data centres: routes, patterns, arrivals at a load, and what becomes of transfers by size.

use std::collections::BTreeMap;

use crate::support::{Rows, simulate};

const FAT_TREE: &str = r#"
    duration = "4ms"
    sample_interval = "1ms"
    topology = { kind = "fat-tree", k = 4, host = { rate = "10Gbit/s", delay = "1us", queue = "500p" } }
"#;

/// A transfer of this size over the whole fat-tree, with nobody else there.
fn alone(size: &str) -> f64 {
    let outcome = simulate(&format!(
        "{FAT_TREE}\nflow = [{{ app = \"transfer\", from = \"host.0\", to = \"host.15\", size = \"{size}\" }}]\n"
    ));
    let transfer = &outcome.transfers()[0];
    assert_eq!(transfer.to, "host.15");
    // Six links of 1 us each way, and the bytes with 52 of headers for every 1448.
    let segments = transfer.bytes.div_ceil(1448);
    let ideal = 12e-6 + (transfer.bytes + 52 * segments) as f64 * 8.0 / 10e9;
    assert!((transfer.ideal_s.unwrap() - ideal).abs() < 2e-9, "{:?} instead of {ideal}", transfer.ideal_s);
    transfer.slowdown.unwrap()
}

#[test]
fn the_slowdown_on_an_idle_path_is_that_of_the_handshake() {
    // One and a half round trips instead of one, and each of six links takes the packet in before it sends it on.
    let packet = 1500.0 * 8.0 / 10e9;
    let expected = (18e-6 + 6.0 * packet) / (12e-6 + packet);
    let found = alone("1448B");
    assert!((found - expected).abs() < 0.05, "{found} instead of {expected}");
    // A long one is limited by the rate, after slow start.
    let long = alone("2MB");
    assert!((1.0..1.15).contains(&long), "{long}");
}

#[test]
fn arrivals_do_not_wait_for_each_other() {
    // The same transfers are asked for at the same times, whether the network is fast or hardly carries anything.
    let of = |rate: &str| {
        let flow = "flow = [{ app = \"arrivals\", from = \"host\", to = \"host\", load = \"30%\", size = \"20kB\" }]";
        let fabric = format!("queue = \"500p\" }}, fabric = {{ rate = \"{rate}\" }} }}");
        let outcome = simulate(&format!("{}\n{flow}\n", FAT_TREE.replace("queue = \"500p\" } }", &fabric)));
        let asked = |flow: u32, at: f64, to: &str| (flow, (at * 1e9).round() as u64, to.to_owned());
        let mut asked: Vec<_> =
            outcome.transfers().iter().map(|row| asked(row.flow, row.start_s, &row.to)).collect();
        asked.sort();
        let sizes = &outcome.summary.sizes;
        assert_eq!((sizes.len(), sizes[0].sizes.as_str()), (1, "10-100 kB"));
        assert_eq!(sizes[0].transfers, asked.len() as u64);
        (asked, sizes[0].completed, sizes[0].slowdown_p50)
    };
    let (fast, slow) = (of("10Gbit/s"), of("100Mbit/s"));
    assert!(fast.0.len() > 1000, "{}", fast.0.len());
    assert_eq!(fast.0, slow.0);
    assert!(fast.1 > slow.1 && fast.2.unwrap() >= 1.0);
}

/// Packets on each of the links that begin at `node` and lead to a node whose name begins with `to`.
fn loads(routing: &str, node: &str, to: &str) -> BTreeMap<String, u64> {
    let flows = "flow = [{ from = \"host.0\", to = \"host.15\", app = \"transfer\", size = \"1MB\" }]";
    let outcome = simulate(&format!("{FAT_TREE}\nrouting = \"{routing}\"\n{flows}\n"));
    let links = outcome.summary.links.iter().filter(|link| link.from == node && link.to.starts_with(to));
    links.map(|link| (link.to.clone(), link.sent_packets)).collect()
}

#[test]
fn sprayed_packets_take_all_routes_in_turn_and_hashed_ones_a_single_one() {
    let sprayed: Vec<u64> = loads("spray", "edge.0.0", "agg").into_values().collect();
    assert!(sprayed.len() == 2 && sprayed[0].abs_diff(sprayed[1]) <= 1 && sprayed[0] > 300, "{sprayed:?}");
    for routing in ["ecmp", "first"] {
        // The other link is not in use: it has no row.
        let loads: Vec<u64> = loads(routing, "edge.0.0", "agg").into_values().collect();
        assert!(loads.len() == 1 && loads[0] > 600, "{routing}: {loads:?}");
    }
}

#[test]
fn a_permutation_of_sprayed_flows_fills_every_host() {
    // CUBIC's function begins anew with each needless recovery (`restore`), which would hide what is looked at.
    let flows = "flow = [{ from = \"host\", to = \"host\", pattern = \"permutation\", cc = \"reno\" }]";
    // Slow start is a small part of so many round trips.
    let longer = FAT_TREE.replace("4ms", "20ms");
    let outcome =
        simulate(&format!("{longer}\nrouting = \"spray\"\ntcp = {{ min_rto = \"1ms\" }}\n{flows}\n"));
    assert_eq!(outcome.summary.flows.len(), 16);
    let goodput = outcome.summary.totals.goodput_bps / 16.0;
    assert!(goodput > 0.8 * 10e9, "{goodput}");
}
