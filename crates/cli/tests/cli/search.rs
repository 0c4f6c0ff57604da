//! `warpline search` as a user calls it, and the condition that its counterexample carries.

use crate::support::Desk;

/// An outage in the two seconds of the run: the longer, the worse.
const OUTAGE: &str = r#"scenario = "small.toml"
minimise = "flow.bulk.goodput"
evaluations = 24
population = 8

[vary]
"link[client-server].down" = { list = 1, of = { at = { from = "0s", to = "1s" }, for = { from = "10ms", to = "1s" } } }
"link[client-server].delay" = { from = "5ms", to = "6ms" }
"#;

#[test]
fn a_search_leaves_a_counterexample_that_runs() {
    let desk = Desk::new();
    desk.write("outage.search.toml", OUTAGE);
    let text = desk.warpline(&["search", "outage.search.toml"]).fine().stdout;
    for part in [
        "flow[bulk].goodput_bps: 9",
        " in the scenario as it is; ",
        "  --set 'link[client-server].down=[{ at = ",
        "Counterexample: runs/search-outage/found.toml\n",
        "Report: runs/search-outage/report.html\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(".delay="), "what does not matter is left out: {text}");
    let names = [
        "base",
        "base.toml",
        "evaluations.csv",
        "found",
        "found.toml",
        "made-by",
        "report.html",
        "search.toml",
    ];
    assert_eq!(desk.names("runs/search-outage"), names);
    desk.warpline(&["run", "runs/search-outage/found.toml", "--no-report", "--out", "again"]).fine();
    // Without the outage it does not show the harm.
    let mended = ["run", "runs/search-outage/found.toml", "--set", "link.0.down=[]", "--junit", "junit.xml"];
    let answer = desk.warpline(&mended);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("error: expected flow[bulk].goodput_bps <= "), "{}", answer.stderr);
    let junit = std::fs::read_to_string(desk.path().join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"1\"") && junit.contains("expected flow[bulk].goodput_bps"), "{junit}");
}

#[test]
fn a_search_is_the_same_for_any_number_of_jobs_and_goes_on() {
    let desk = Desk::new();
    desk.write("outage.search.toml", OUTAGE);
    let ask = |more: &[&str]| desk.warpline(&[&["search", "outage.search.toml", "--json"], more].concat());
    let json = |more: &[&str]| serde_json::from_str::<serde_json::Value>(&ask(more).fine().stdout).unwrap();
    let one = json(&["--jobs", "1", "--out", "one"]);
    let two = json(&["--jobs", "2", "--out", "two"]);
    assert_eq!((&one["worst"]["sets"], &one["points"]), (&two["worst"]["sets"], &two["points"]));
    assert_eq!(one["complete"], true);
    let refused = ask(&["--out", "one"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("go on with it (--resume)"), "{}", refused.stderr);
    let again = json(&["--out", "one", "--resume"]);
    assert_eq!(again["worst"]["value"], one["worst"]["value"]);
}

#[test]
fn what_is_wrong_with_a_search_or_a_condition_is_told() {
    let desk = Desk::new();
    desk.write("bad.search.toml", &OUTAGE.replace("flow.bulk.goodput", "flow.bulk.speed"));
    let wrong = desk.warpline(&["search", "bad.search.toml"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("--> bad.search.toml:2:12"), "{}", wrong.stderr);
    for (condition, part) in [
        ("flow.bulk.goodput", "`flow.bulk.goodput` compares nothing\n --> --set:1:9\n"),
        ("flow.bulk.speed > 1", "a flow has no column `speed`\n --> --set:1:9\n"),
        ("flow.bulk.goodput > 1", "`flow.bulk.goodput > 1`: `1` has no unit"),
    ] {
        let set = format!("expect=[{condition:?}]");
        let wrong = desk.warpline(&["check", "small.toml", "--set", &set]);
        assert_eq!(wrong.code, Some(2), "{condition}");
        assert!(wrong.stderr.contains(part), "{}", wrong.stderr);
    }
}
