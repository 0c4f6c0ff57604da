//! `warpline evaluate` as a user calls it.

use crate::support::Desk;

#[test]
fn an_evaluation_says_what_is_missed_and_shows_all_figures_if_asked() {
    let desk = Desk::new();
    let ask = |more: &[&str]| {
        let arguments =
            ["evaluate", "fixed:segments=300", "--quick", "--only", "losses", "--only", "queueing"];
        desk.warpline(&[&arguments[..], more].concat()).fine().stdout
    };
    let text = ask(&[]);
    for part in [
        "fixed:segments=300, by the questions of RFC 9743 (one seed, quick): 1 met, 0 open, 1 missed\n",
        "losses, 4 flows, queue of 0.25BDP\n  MISSED  dropped: ",
        ", at most 2 times cubic's and 0.50 %; cubic 0.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("queueing, queue of 4BDP"), "only what is not met has its figures: {text}");
    assert!(ask(&["--all"]).contains("queueing, queue of 4BDP"));
    assert!(ask(&["--markdown"]).contains("\n| 5.1.3 | losses | "));
    let json: serde_json::Value = serde_json::from_str(&ask(&["--json", "--seeds", "2"])).unwrap();
    assert_eq!((&json["seeds"], &json["criteria"][1]["name"]), (&2.into(), &"losses".into()));
    assert_eq!(json["criteria"][1]["figures"][0]["verdict"], "missed");
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
fn the_page_of_an_evaluation_has_its_verdicts_plots_and_scenarios() {
    let desk = Desk::new();
    let arguments =
        ["evaluate", "nice", "--quick", "--only", "background", "--only", "slow-path", "--out", "ev"];
    let text = desk.warpline(&arguments).fine().stdout;
    assert!(text.ends_with("Report: ev/report.html\n"), "{text}");
    let page = std::fs::read_to_string(desk.path().join("ev/report.html")).unwrap();
    for part in [
        "<title>Evaluation of nice · Warpline</title>",
        "<a href=\"#background\">",
        "at most 1.1 times that without it",
        "foreground, without it",
        "cubic in its place",
        "[topology.bottleneck]\nrate = &quot;",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script"), "the page has no scripts");
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    // Each trial has its plots, and its scenarios beside the page are those in it.
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(desk.path().join("ev/evaluation.json")).unwrap())
            .unwrap();
    let trials: Vec<&serde_json::Value> = json["criteria"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|answer| answer["trials"].as_array().unwrap())
        .collect();
    assert_eq!(page.matches("<svg").count(), 2 * trials.len());
    for scenario in trials.iter().flat_map(|trial| trial["scenarios"].as_array().unwrap()) {
        let file = desk.path().join("ev/scenarios").join(scenario["file"].as_str().unwrap());
        assert_eq!(std::fs::read_to_string(file).unwrap(), scenario["text"].as_str().unwrap());
    }
}

#[test]
fn guests_take_no_parameters_of_models() {
    let desk = Desk::new();
    let wrong = desk.warpline(&["evaluate", "cubic:beta=0.5", "--quick", "--guests"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("name it alone: `cubic`"), "{}", wrong.stderr);
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
