//! `check` and `run` agree: what one accepts the other accepts, and both give the same error, whatever values a scenario has.

use proptest::prelude::*;
use serde_json::{Value, json};
use warpline_lab::run::{CustomCc, RunError, RunOptions, check, run};
use warpline_net::Control;
use warpline_scenario::Scenario;

use crate::support::parse;

/// A scenario with something of everything.
const BASE: &str = r#"
    duration = "100ms"
    warmup = "10ms"
    framing = "38B"
    [tcp]
    min_rto = "200ms"
    tick = "10ms"
    heartbeat = true
    [topology]
    kind = "dumbbell"
    bottleneck = { rate = "10Mbit/s", queue = "red,limit=100p,min_threshold=10p,max_threshold=50p", loss = "1%", reverse = { loss = "none" } }
    access = { queue = { kind = "priority", limit = "50p", classes = 3 } }
    access_delays = ["1ms", "5ms"]
    [[link]]
    between = ["r2", "far"]
    rate = "5Mbit/s"
    schedule = [{ at = "10ms", rate = "2Mbit/s" }, { at = "50ms", rate = "8Mbit/s" }]
    repeat = "80ms"
    delays = [{ at = "20ms", delay = "2ms" }]
    queue = { kind = "codel", limit = "60p", target = "5ms", interval = "100ms" }
    loss = { kind = "gilbert-elliott", good_to_bad = 0.01, bad_to_good = 0.5, loss_good = 0.0, loss_bad = 1.0 }
    jitter = { kind = "normal", mean = "2ms", stddev = "1ms", reorder = true }
    down = [{ at = "30ms", for = "5ms" }]
    mtu = "1500B"
    [[link]]
    between = ["far", "farther"]
    rate = "5Mbit/s"
    queue = { kind = "fq_codel", limit = "1BDP", quantum = "1514B", flows = 64, target = "5ms", interval = "100ms" }
    loss = { kind = "every", n = 50 }
    jitter = { kind = "pareto", mean = "1ms", shape = 2.5 }
    [[flow]]
    name = "cubic"
    from = "left"
    to = "right"
    count = 2
    cc = { kind = "cubic", beta = 0.7, c = 0.4 }
    start = "0s..5ms"
    tcp = { mss = "1000B", initial_window = "4p", receive_buffer = "60kB", dupack_threshold = 3, max_rto = "60s", initial_rto = "1s" }
    [[flow]]
    name = "vegas"
    from = "left"
    to = "farther"
    cc = { kind = "vegas", alpha = 2, beta = 4, gamma = 1 }
    max_window = "20p"
    [[flow]]
    name = "nice"
    from = "left"
    to = "far"
    cc = { kind = "nice", threshold = 0.2, fraction = 0.4, floor = 0.1, alpha = 1, beta = 3 }
    max_rate = "1Mbit/s"
    [[flow]]
    name = "ledbat"
    from = "left"
    to = "far"
    cc = { kind = "ledbat", target = "60ms", gain = 1.0, floor = 2, base_history = 10 }
    app = "transfer"
    size = "20kB"
    transfers = 2
    pause = "1ms"
    [[flow]]
    name = "bic"
    from = "far"
    to = "left"
    cc = { kind = "bic", max_increment = 16, smooth_part = 20, beta = 0.8, low_window = 14 }
    [[flow]]
    name = "lp"
    from = "far"
    to = "left"
    cc = { kind = "lp", threshold = 0.15, inference = 3 }
    [[flow]]
    name = "westwood"
    from = "far"
    to = "left"
    cc = { kind = "westwood", tick = "50ms" }
    [[flow]]
    name = "call"
    app = "cbr"
    rate = "100kbit/s"
    packet_size = "200B"
    from = "left"
    to = "right"
    class = 1
    [[flow]]
    name = "on-off"
    app = "onoff"
    rate = "1Mbit/s"
    mean_on = "5ms"
    mean_off = "5ms"
    shape = 1.5
    from = "left"
    to = "right"
    [[flow]]
    name = "messages"
    app = "poisson"
    message_rate = 100
    message_size = "400B"
    from = "left"
    to = "right"
    [[flow]]
    name = "cap"
    app = "cap"
    from = "left"
    to = "right"
    tcp = { mss = "1460B" }
    [[flow]]
    name = "treno"
    app = "treno"
    from = "left"
    to = "right"
    tcp = { mss = "1460B", min_rto = "1s" }
    [[flow]]
    name = "web"
    app = "web"
    web = { session_rate = 20.0, pages = { kind = "constant", value = 2 }, objects = { kind = "uniform", min = 1, max = 3 }, object_size = { kind = "pareto", mean = "5kB", shape = 1.3 }, connections = 2 }
    from = "left"
    to = "right"
"#;

/// The leaves of a document: paths of its values that are neither tables nor lists.
fn leaves(value: &Value, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, item)| (i.to_string(), item)).collect(),
        _ => return all.push(path.clone()),
    };
    for (key, child) in children {
        path.push(key);
        leaves(child, path, all);
        path.pop();
    }
}

/// Values that are right in some places and wrong in others.
fn values() -> Vec<Value> {
    let mut values = vec![json!(true), json!(-1), json!(0), json!(1), json!(2), json!(17), json!(70_000)];
    values.extend([0.5, 1e-12, 1.0, 1.5, 3e4, 1e300].map(|number| json!(number)));
    let texts = [
        "",
        "x",
        "0s",
        "1ns",
        "3ms",
        "1s",
        "10h",
        "0s..1s",
        "0B",
        "1B",
        "40B",
        "9kB",
        "70kB",
        "9GB",
        "1bit/s",
        "1Tbit/s",
        "0p",
        "1p",
        "100p",
        "0.5p",
        "0BDP",
        "3BDP",
        "unlimited",
        "0%",
        "1%",
        "100%",
        "none",
        "codel",
        "codel,target=1s,interval=1ms",
        "reno",
        "every,n=1",
        "uniform,max=5ms",
        "left",
        "r1",
        "bulk",
        "udp",
        "tcp",
    ];
    values.extend(texts.map(|text| json!(text)));
    values
}

fn place<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match value {
        Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
        other => &mut other[step.as_str()],
    })
}

/// The error of `run`, which is stopped at once.
fn tried(scenario: &Scenario) -> Result<(), String> {
    match run(scenario, &RunOptions::default(), &mut |_| Control::Stop) {
        Ok(_) => Ok(()),
        Err(RunError::Build(reason)) => Err(reason),
        Err(other) => panic!("refused for another reason: {other}"),
    }
}

fn checked(scenario: &Scenario) -> Result<(), String> {
    check(scenario, &CustomCc::default()).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn check_and_run_agree(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4)) {
        let mut document = parse(BASE).to_json();
        let values = values();
        for (at, value) in changes {
            let mut all = Vec::new();
            leaves(&document, &mut Vec::new(), &mut all);
            let path = at.get(&all);
            let value = value.get(&values).clone();
            // Tens of thousands of flows are valid, but slow.
            let many = matches!(path.last().map(String::as_str), Some("count" | "connections"));
            if !(many && value.as_u64().is_some_and(|count| count > 100)) {
                *place(&mut document, path) = value;
            }
        }
        if let Ok(scenario) = Scenario::from_json(document, &[], std::path::Path::new("")) {
            prop_assert_eq!(checked(&scenario), tried(&scenario));
        }
    }
}

#[test]
fn check_finds_what_only_building_can_find() {
    for (set, error) in [
        ("flow.cubic.cc={ kind = \"custom\", name = \"mine\" }", "mine"),
        ("flow.cubic.record=[\"qlog\"]", ""),
    ] {
        let scenario =
            Scenario::from_toml("test.toml", BASE, &[set.to_owned()]).unwrap_or_else(|e| panic!("{e}"));
        let (checked, tried) = (checked(&scenario), tried(&scenario));
        assert_eq!(checked, tried);
        assert_eq!(checked.is_err(), !error.is_empty(), "{set}");
        assert!(checked.err().unwrap_or_default().contains(error));
    }
    // On some file systems these are one file.
    let both = "name = \"A\"\nfrom = \"a\"\nto = \"b\"\nrecord = [\"qlog\"]";
    let text = format!(
        "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n[[flow]]\n{both}\n[[flow]]\n{}",
        both.replace("\"A\"", "\"a\"")
    );
    let scenario = parse(&text);
    let reason = checked(&scenario).unwrap_err();
    assert_eq!(Err(&reason), tried(&scenario).as_ref());
    assert!(reason.contains("A.0") && reason.contains("a.0.sqlog") && reason.contains("rename"), "{reason}");
}
