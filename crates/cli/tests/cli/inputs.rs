//! Wrong input gives exit code 2, and a message that says where the mistake is and what to do.

use crate::support::{Desk, SMALL};

#[test]
fn errors_in_a_scenario_name_file_line_and_column_of_every_mistake() {
    let desk = Desk::new();
    desk.write(
        "bad.toml",
        &SMALL.replace("rate = \"1Mbit/s\"", "rate = \"1Mbot/s\"").replace("delay", "dealy"),
    );
    for command in ["run", "check"] {
        let answer = desk.warpline(&[command, "bad.toml"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert_eq!(answer.stdout, "");
        for part in ["bad.toml:6:8", "bad.toml:7:1", "did you mean", "delay"] {
            assert!(answer.stderr.contains(part), "{part} is missing in\n{}", answer.stderr);
        }
    }
    assert_eq!(desk.names("runs"), Vec::<String>::new(), "no run directory for a wrong scenario");
}

#[test]
fn what_a_scenario_expects_and_cannot_have_is_told_before_the_run() {
    let desk = Desk::new();
    let wrong = "expect = [\"flow.bulk.goodputt > 1Mbit/s\", \"flow[bulkk].goodput > 1Mbit/s\"]\n";
    desk.write("bad.toml", &format!("{wrong}{SMALL}"));
    for command in ["run", "check"] {
        let answer = desk.warpline(&[command, "bad.toml"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        for part in ["bad.toml:1:11", "did you mean `goodput`?", "bad.toml:1:43", "did you mean `bulk`?"] {
            assert!(answer.stderr.contains(part), "{part} is missing in\n{}", answer.stderr);
        }
    }
    assert_eq!(desk.names("runs"), Vec::<String>::new());
}

#[test]
fn a_number_below_zero_is_told_what_is_allowed() {
    let desk = Desk::new();
    for (option, part) in [
        ("--seed", "\"-1\" is not a seed; write a whole number from 0 to 9223372036854775807"),
        ("--seeds", "\"-1\" is not a seed"),
        ("--replications", "-1 is not in 1..=100000"),
    ] {
        let answer = desk.warpline(&["run", "small.toml", option, "-1"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(part), "{part}: {answer:?}");
    }
    // What is no number is an option as before.
    let answer = desk.warpline(&["run", "small.toml", "--seed", "--quiet"]);
    assert!(answer.stderr.contains("a value is required for '--seed <N>'"), "{answer:?}");
}

#[test]
fn a_wrong_file_name_gets_a_suggestion() {
    let desk = Desk::new();
    let answer = desk.warpline(&["run", "smal.toml"]);
    assert_eq!(answer.code, Some(2));
    assert_eq!(answer.stderr, "error: smal.toml does not exist; did you mean small.toml?\n");
    let answer = desk.warpline(&["run", "quite-another.toml"]);
    assert_eq!(answer.code, Some(2));
    assert!(
        answer.stderr.contains("does not exist") && !answer.stderr.contains("did you mean"),
        "{answer:?}"
    );
}

#[test]
fn a_bad_set_is_refused() {
    let desk = Desk::new();
    for set in ["duration", "duration=forever", "durration=1s", "flow.nobody.cc=reno"] {
        let answer = desk.warpline(&["check", "small.toml", "--set", set]);
        assert_eq!(answer.code, Some(2), "{set}: {answer:?}");
        assert!(answer.stderr.starts_with("error"), "{set}: {answer:?}");
    }
}

#[test]
fn check_says_which_files_are_valid() {
    let desk = Desk::new();
    desk.write("bad.toml", "name = 3");
    let answer = desk.warpline(&["check", "bad.toml", "small.toml"]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stdout.starts_with("small.toml: valid"), "{answer:?}");
    assert!(answer.stderr.contains("bad.toml:1"), "{answer:?}");
}

#[test]
fn directories_that_are_not_runs_are_refused() {
    let desk = Desk::new();
    for arguments in
        [&["report", "small.toml"][..], &["report", "nowhere"], &["compare", "nowhere", "small.toml"]]
    {
        let answer = desk.warpline(arguments);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains("is not a run directory"), "{answer:?}");
    }
}

#[test]
fn contradictory_options_are_refused() {
    let desk = Desk::new();
    for options in
        [&["--seed", "1", "--seeds", "1..3"][..], &["--force"], &["--json", "--quiet"], &["--seeds", "3..1"]]
    {
        let arguments: Vec<&str> = ["run", "small.toml"].iter().chain(options).copied().collect();
        assert_eq!(desk.warpline(&arguments).code, Some(2), "{options:?}");
    }
}

#[test]
fn the_schema_is_json_and_describes_scenarios() {
    let schema: serde_json::Value =
        serde_json::from_str(&Desk::new().warpline(&["schema"]).fine().stdout).unwrap();
    assert!(schema["properties"]["duration"]["description"].is_string());
}

#[test]
fn the_error_for_an_unknown_workload_lists_all_workloads() {
    let answer = Desk::new().warpline(&["bench", "--only", "nothing-like-it"]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("chain"), "{answer:?}");
}
