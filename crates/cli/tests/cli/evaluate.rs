//! `warpline evaluate` as a user calls it.

use crate::support::Desk;

#[test]
fn an_evaluation_says_what_is_missed_and_shows_all_figures_if_asked() {
    let desk = Desk::new();
    let ask = |more: &[&str]| {
        let arguments =
            ["evaluate", "fixed:segments=300", "--quick", "--only", "losses", "--only", "slow-path"];
        desk.warpline(&[&arguments[..], more].concat()).fine().stdout
    };
    let text = ask(&[]);
    for part in [
        "fixed:segments=300, by the questions of RFC 9743 (one seed, quick): 0 met, 0 open, 2 missed\n",
        "losses, 4 flows, queue of 0.25BDP\n  MISSED  dropped: ",
        ", at most 2 times cubic's and 0.50 %; cubic 0.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("  met     used: "), "only what is not met has its figures: {text}");
    assert!(ask(&["--all"]).contains("  met     used: "));
    assert!(ask(&["--markdown"]).contains("\n| 5.1.3 | losses | "));
    let json: serde_json::Value = serde_json::from_str(&ask(&["--json", "--seeds", "2"])).unwrap();
    assert_eq!((&json["seeds"], &json["criteria"][0]["name"]), (&2.into(), &"losses".into()));
    assert_eq!(json["criteria"][0]["figures"][0]["verdict"], "missed");
}

#[test]
fn the_scenario_behind_a_figure_can_be_had_and_run() {
    let desk = Desk::new();
    let arguments = ["evaluate", "vegas", "--quick", "--only", "slow-path", "--scenarios", "trials"];
    assert_eq!(desk.warpline(&arguments).fine().stdout, "2 scenarios in trials\n");
    let file = "trials/slow-path-100-kbit-s-200-ms-queue-of-10-packets.toml";
    let run = desk.warpline(&["run", file, "--no-report", "--out", "run"]).fine().stdout;
    assert!(run.contains("vegas"), "{run}");
}

#[test]
fn a_wrong_algorithm_or_question_is_told_what_there_is() {
    let desk = Desk::new();
    let wrong = desk.warpline(&["evaluate", "renno", "--quick"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("did you mean `reno`?"), "{}", wrong.stderr);
    let wrong = desk.warpline(&["evaluate", "reno", "--only", "use"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("full-use"), "{}", wrong.stderr);
}
