//! Connections over several paths: what they take beside others, what they get alone, and what becomes of them when a path goes down.

use proptest::prelude::*;
use warpline_lab::run::parts::Cores;
use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_scenario::Scenario;

use crate::support::{Rows, close, parse, simulate};

/// A link of 20 ms with a queue of a bandwidth-delay product.
fn link(rate: &str) -> String {
    format!("rate = \"{rate}\", delay = \"20ms\", queue = \"1BDP\"")
}

/// The same, but it goes down for good at 1 s.
fn failing(rate: &str) -> String {
    link(rate) + ", down = [{ at = \"1s\", for = \"1h\" }]"
}

/// Two paths from "a" to "b", over "x" and over "y", each with one slow link. Long runs have a warm-up.
fn two_paths(seconds: u32, x: &str, y: &str, flows: &str) -> String {
    let warmup = if seconds > 100 { 20 } else { 0 };
    format!(
        "duration = \"{seconds}s\"\nwarmup = \"{warmup}s\"\n\
         link = [\n{{ between = [\"a\", \"x\"], {x} }},\n{{ between = [\"a\", \"y\"], {y} }},\n\
         {{ between = [\"x\", \"b\"], rate = \"1Gbit/s\" }}, {{ between = [\"y\", \"b\"], rate = \"1Gbit/s\" }},\n]\n{flows}"
    )
}

/// A flow over both.
fn both(cc: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"both\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\nmultipath = {{ paths = [[\"x\"], [\"y\"]] }}\n{more}\n"
    )
}

/// Flows over one of them.
fn single(via: &str, count: usize) -> String {
    format!(
        "[[flow]]\nname = \"{via}\"\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\nvia = [\"{via}\"]\ncount = {count}\n"
    )
}

fn goodput(outcome: &RunOutcome, group: &str) -> f64 {
    outcome.summary.groups.iter().find(|row| row.group == group).unwrap().goodput_bps
}

#[test]
fn at_one_bottleneck_coupled_subflows_take_the_share_of_one_tcp() {
    // RFC 6356 section 1, goal 2 (do no harm). Uncoupled subflows are two flows of three.
    let share = |cc: &str| {
        let text = format!(
            "duration = \"220s\"\nwarmup = \"20s\"\n[topology]\nkind = \"dumbbell\"\npairs = 2\nrtt = \"40ms\"\n\
             bottleneck = {{ rate = \"20Mbit/s\", queue = {{ kind = \"red\", limit = \"200p\" }} }}\n\
             [[flow]]\nname = \"both\"\nfrom = \"left.0\"\nto = \"right.0\"\ncc = \"{cc}\"\nmultipath = {{ paths = [[], []] }}\n\
             [[flow]]\nname = \"one\"\nfrom = \"left.1\"\nto = \"right.1\"\ncc = \"reno\"\n"
        );
        let outcome = simulate(&text);
        let (both, one) = (goodput(&outcome, "both"), goodput(&outcome, "one"));
        assert!(both + one > 17e6, "{cc}: {both} and {one}");
        both / (both + one)
    };
    let shares = ["lia", "olia", "reno"].map(|cc| (cc, share(cc)));
    for ((cc, share), expected) in shares.into_iter().zip([0.5, 0.5, 0.667]) {
        assert!((share - expected).abs() < 0.08, "{cc}: {share}, all: {shares:?}");
    }
}

#[test]
fn two_free_paths_carry_what_both_can() {
    for cc in ["lia", "olia", "cubic", "bbr"] {
        let outcome = simulate(&two_paths(60, &link("10Mbit/s"), &link("5Mbit/s"), &both(cc, "")));
        // 1448 of 1500 bytes are data.
        let (x, y) = (outcome.flow("both.0.0"), outcome.flow("both.0.1"));
        let whole = x.goodput_bps + y.goodput_bps;
        assert!((0.9..1.0).contains(&(whole / (15e6 * 1448.0 / 1500.0))), "{cc}: {whole}");
        assert!((0.6..0.72).contains(&(x.goodput_bps / x.connection_goodput_bps.unwrap())), "{cc}: {x:?}");
        assert_eq!((x.connection.as_deref(), x.via.as_deref()), (Some("both.0"), Some("x")));
        assert_eq!((x.connection_goodput_bps, y.cc.as_deref()), (Some(whole), Some(cc)));
        assert!(x.rtt_min_ms.unwrap() >= 40.0 && x.latency_mean_ms.is_some() && y.sent_packets > 10_000);
        // The connection is one flow of its group.
        let group = &outcome.summary.groups[0];
        assert_eq!((group.flows, group.jain), (1, None));
        close(group.goodput_mean_bps, whole, 1e-9);
        // Each subflow has a time series.
        let samples = outcome.flow_samples();
        assert!((0..2).all(|flow| samples.iter().any(|row| row.flow == flow && row.cwnd_bytes > Some(0))));
    }
}

#[test]
fn with_others_on_one_path_it_gets_what_the_best_path_gives() {
    // RFC 6356 goal 1 (improve throughput): at least a TCP's share of the better path. Five others on "y" leave a sixth.
    for cc in ["lia", "olia"] {
        let flows = both(cc, "") + &single("x", 1) + &single("y", 5);
        let outcome = simulate(&two_paths(220, &link("10Mbit/s"), &link("10Mbit/s"), &flows));
        let (both, x) = (goodput(&outcome, "both"), goodput(&outcome, "x"));
        assert!(both > 0.9 * x, "{cc}: {both}, and {x} for one on the better path");
    }
}

#[test]
fn olia_leaves_a_congested_path_to_others_more_than_lia() {
    // RFC 6356 goal 3 (balance congestion), and what Khalili et al. show: a path that is free, and one with two others on it.
    let on_y = |cc: &str| {
        let flows = both(cc, "") + &single("y", 2);
        let link = "rate = \"20Mbit/s\", delay = \"20ms\", queue = { kind = \"red\", limit = \"400p\" }";
        let text = two_paths(220, link, link, &flows);
        let outcome = simulate(&text);
        assert!(outcome.flow("both.0.0").goodput_bps > 18.5e6, "{cc}");
        outcome.flow("both.0.1").goodput_bps
    };
    let [reno, lia, olia] = ["reno", "lia", "olia"].map(on_y);
    // A third of the path, and much less.
    close(reno, 20e6 / 3.0, 0.1);
    assert!(lia < 0.5 * reno && olia < 0.5 * lia, "reno {reno}, LIA {lia}, OLIA {olia}");
}

#[test]
fn a_transfer_completes_when_a_path_goes_down() {
    for (cc, scheduler) in
        [("lia", "minrtt"), ("cubic", "roundrobin"), ("olia", "redundant"), ("bbr", "minrtt")]
    {
        // 3 MB take 1.7 s on both paths. "x" goes down for good at 1 s, with a window in flight.
        let flow = both(cc, "app = \"transfer\"\nsize = \"3MB\"\nstart = \"200ms\"")
            .replace("]] }", &format!("]], scheduler = \"{scheduler}\" }}"));
        let outcome = simulate(&two_paths(30, &failing("10Mbit/s"), &link("10Mbit/s"), &flow));
        let transfers = outcome.transfers();
        assert_eq!((transfers.len(), &*transfers[0].name, transfers[0].complete), (1, "both.0", true));
        let time = transfers[0].completion_s.unwrap();
        assert!((1.8..6.0).contains(&time), "{cc} {scheduler}: {time} s");
        let (x, y) = (outcome.flow("both.0.0"), outcome.flow("both.0.1"));
        assert_eq!(x.delivered_bytes + y.delivered_bytes, 3_000_000, "{cc} {scheduler}");
        assert!(x.delivered_bytes > 100_000 && x.rtos > 0 && y.delivered_bytes > 1_500_000, "{x:?} {y:?}");
        assert_eq!((x.transfers, y.transfers, x.transfers_completed), (1, 0, 1));
        assert_eq!((x.end_s, y.end_s), (transfers[0].end_s, transfers[0].end_s));
    }
}

#[test]
fn a_connection_whose_paths_are_all_down_ends_without_its_data_and_one_that_stops_ends() {
    let down = &failing("10Mbit/s");
    let tcp = "tcp = { data_retries = 3, max_rto = \"1s\" }\n";
    let failed = both("lia", &format!("app = \"transfer\"\nsize = \"30MB\"\n{tcp}"));
    let outcome = simulate(&two_paths(30, down, down, &failed));
    assert!(!outcome.transfers()[0].complete && outcome.transfers()[0].end_s.is_none());
    assert_eq!(outcome.flow("both.0.0").outcome.as_deref(), Some("timed out"));
    let whole = &link("10Mbit/s");
    let outcome = simulate(&two_paths(9, whole, whole, &both("lia", "stop = \"5s\"")));
    let (x, y) = (outcome.flow("both.0.0"), outcome.flow("both.0.1"));
    assert!((5.0..5.5).contains(&x.end_s.unwrap()) && x.end_s == y.end_s, "{x:?}");
    assert_eq!((x.outcome.clone(), y.outcome.clone()), (None, None));
}

#[test]
fn a_small_receive_buffer_lets_the_slow_path_hold_up_the_fast_one() {
    let over_both = |buffer: &str| {
        let flow = both("cubic", &format!("tcp = {{ receive_buffer = \"{buffer}\" }}"));
        let slow = link("10Mbit/s").replace("20ms", "200ms");
        let outcome = simulate(&two_paths(40, &link("10Mbit/s"), &slow, &flow));
        goodput(&outcome, "both")
    };
    // Both paths hold 550 kB, the fast one alone 50 kB.
    let (large, small) = (over_both("8MB"), over_both("100kB"));
    assert!(large > 15e6 && small < 0.7 * 9.65e6, "{large} and {small}");
}

#[test]
fn connections_one_after_the_other_each_have_their_subflows() {
    let flow = both("lia", "app = \"transfer\"\nsize = \"200kB\"\ntransfers = 5\npause = \"100ms\"");
    let lossy = &(link("10Mbit/s") + ", loss = \"1%\"");
    let outcome = simulate(&two_paths(30, lossy, lossy, &flow));
    let transfers = outcome.transfers();
    assert!(transfers.len() == 5 && transfers.iter().all(|transfer| transfer.complete));
    let delivered: u64 = outcome.summary.flows.iter().map(|flow| flow.delivered_bytes).sum();
    assert_eq!(delivered, 1_000_000);
}

#[test]
fn subflows_without_nodes_to_pass_spread_over_equal_routes() {
    // Raiciu et al., SIGCOMM 2011: subflows of a fat-tree that are hashed each by itself.
    let text = "duration = \"20ms\"\nsample_interval = \"10ms\"\nseed = 3\n[topology]\nkind = \"fat-tree\"\nk = 4\n\
        host = { rate = \"10Gbit/s\", delay = \"1us\", queue = \"200p\" }\nfabric = { delay = \"1us\" }\n\
        [[flow]]\nname = \"spread\"\nfrom = \"host.0\"\nto = \"host.15\"\nmultipath = { paths = [[], [], [], [], [], [], [], []] }\n";
    let expanded = parse(text).expand();
    let mut routes: Vec<_> =
        expanded.flows.iter().map(|flow| expanded.routes.links(flow.forward.first)).collect();
    routes.sort();
    routes.dedup();
    assert!(routes.len() > 2, "{}", routes.len());
    let outcome = simulate(text);
    assert!(goodput(&outcome, "spread") > 5e9);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn any_number_of_parts_does_the_same(
        cc in prop::sample::select(vec!["lia", "olia", "cubic", "bbr"]),
        scheduler in prop::sample::select(vec!["minrtt", "roundrobin", "redundant"]),
        down in 1u32..4,
        seed in 0u32..1000,
    ) {
        let flow = both(cc, "app = \"transfer\"\nsize = \"1MB\"\ntransfers = 3\ncount = 2\nstart = \"0s..1s\"")
            .replace("]] }", &format!("]], scheduler = \"{scheduler}\" }}"));
        let x = link("4Mbit/s") + &format!(", loss = \"0.5%\", down = [{{ at = \"{down}s\", for = \"1s\" }}]");
        let text = format!("seed = {seed}\n{}", two_paths(9, &x, &link("3Mbit/s"), &(flow + &single("y", 2))));
        let flows = |cores| {
            let options = RunOptions { cores, tables: true, ..RunOptions::default() };
            let outcome = run(&parse(&text), &options, &mut |_| Control::Continue).unwrap();
            (outcome.summary.flows.clone(), outcome.transfers())
        };
        let whole = flows(Cores::One);
        let delivered: u64 = whole.0.iter().filter(|flow| flow.connection.is_some()).map(|flow| flow.delivered_bytes).sum();
        let complete = whole.1.iter().filter(|transfer| transfer.complete).count() as u64;
        prop_assert!(complete > 0 && (complete..=6).contains(&(delivered / 1_000_000)));
        prop_assert_eq!(&whole, &flows(Cores::Exactly(3)));
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let link = &link("1Mbit/s");
    let load = |flow: &str| {
        let text = two_paths(9, link, link, &format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"));
        // Nothing comes back from "c".
        let text = text.replace("link = [", "link = [{ from = \"a\", to = \"c\", rate = \"1Mbit/s\" },");
        Scenario::from_toml("test.toml", &text, &[]).map_err(|errors| errors.to_string())
    };
    let paths = "paths = [[\"x\"], [\"y\"]]";
    let scenario = load(&format!("multipath = {{ {paths}, scheduler = \"redundant\" }}")).unwrap();
    let again = Scenario::from_toml("test.toml", &scenario.to_toml(), &[]);
    assert_eq!(again.map_err(|errors| errors.to_string()), Ok(scenario));
    for (flow, parts) in [
        (
            &*format!("multipath = {{ {paths}, scheduler = \"minrt\" }}"),
            ["test.toml:11:", "`scheduler` cannot be \"minrt\"", "did you mean `minrtt`?"],
        ),
        (
            "multipath = { paths = [[\"x\"], [\"z\"]] }",
            ["test.toml:11:", "there is no node `z`", "allowed: a, c, x, y, b"],
        ),
        ("via = [\"z\"]", ["test.toml:11:", "there is no node `z`", "allowed: a, c, x, y, b"]),
        ("multipath = { paths = [] }", ["test.toml:11:", "`paths` has 0 entries", "at most 8"]),
        (
            &*format!("multipath = {{ {paths} }}\nvia = [\"x\"]"),
            ["test.toml:12:", "both say which way", "leave `via` out"],
        ),
        (
            &*format!("app = \"cbr\"\nrate = \"1Mbit/s\"\nmultipath = {{ {paths} }}"),
            ["test.toml:13:", "does not go with app = \"cbr\"", "\"transfer\""],
        ),
        (
            &*format!("multipath = {{ {paths} }}\n[[host]]\nname = \"b\"\nendpoint = \"guest\""),
            ["test.toml:11:", "`b` runs real programs", "endpoint = \"model\""],
        ),
        ("via = [\"c\"]", ["test.toml:11:", "no links lead from `c` to `a`", "both directions"]),
    ] {
        let text = load(flow).expect_err("the scenario is wrong");
        for part in parts {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("2 errors"), "{text}");
    }
    let skipping = format!("fast_forward = true\n{}", two_paths(9, link, link, &both("lia", "")));
    let errors = Scenario::from_toml("test.toml", &skipping, &[]).unwrap_err().to_string();
    assert!(errors.contains("`fast_forward` cannot go with `multipath`"), "{errors}");
}
