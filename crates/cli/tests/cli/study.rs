//! `warpline study` as a user calls it.

use crate::support::Desk;

#[test]
fn the_scenarios_of_both_stacks_can_be_had_and_that_of_the_model_run() {
    let desk = Desk::new();
    let arguments =
        ["study", "agreement", "reno", "--quick", "--only", "1%", "--seeds", "1", "--scenarios", "cells"];
    assert_eq!(desk.warpline(&arguments).fine().stdout, "2 scenarios in cells\n");
    let names = ["linux", "model"].map(|stack| format!("reno-10mbit-s-50ms-1-droptail-{stack}.toml"));
    assert_eq!(desk.names("cells"), names);
    let file = format!("cells/{}", names[1]);
    let run = desk.warpline(&["run", &file, "--no-report", "--out", "run"]).fine().stdout;
    assert!(run.contains("reno"), "{run}");
}

#[test]
fn a_wrong_algorithm_or_property_is_told_what_there_is() {
    let desk = Desk::new();
    for (arguments, part) in [
        (&["renno"][..], "reno"),
        (&["--only", "5ms"], "50ms"),
        (&["--quick", "--only", "3%"], "no path has all these properties"),
    ] {
        let wrong = desk.warpline(&[&["study", "agreement"], arguments].concat());
        assert_eq!(wrong.code, Some(2), "{arguments:?}");
        assert!(wrong.stderr.contains(part), "{}", wrong.stderr);
    }
}

/// One path with Linux and with the model; then again, from what was kept.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_model_agrees_with_linux_and_results_are_kept() {
    if let Err(reason) = warpline_guest::Kernel::find() {
        return warpline_skip::skip("program", reason.to_string());
    }
    let desk = Desk::new();
    let compare = |more: &[&str]| {
        let arguments = ["study", "agreement", "cubic", "--quick", "--only", "1%", "--seeds", "1"];
        desk.warpline(&[&arguments[..], more].concat()).fine().stdout
    };
    let json: serde_json::Value = serde_json::from_str(&compare(&["--json"])).unwrap();
    let goodput = &json["rows"][0]["figures"][0];
    assert_eq!((&goodput["figure"], &json["rows"].as_array().unwrap().len()), (&"goodput".into(), &1));
    let difference = goodput["difference_percent"].as_f64().unwrap();
    assert!(difference.abs() < 10.0, "{json}");
    assert!(goodput["linux"]["mean"].as_f64().unwrap() > 1e6, "{json}");
    let kept = desk.names("agreement");
    assert!(
        kept.len() == 2 && kept[0].starts_with("linux-6.1.") && kept[1].starts_with("warpline-"),
        "{kept:?}"
    );
    // Another figure in the file of Linux's run is what is shown next.
    let file = desk.names(&format!("agreement/{}", kept[0])).remove(0);
    let path = desk.path().join("agreement").join(&kept[0]).join(&file);
    let text = std::fs::read_to_string(&path).unwrap();
    let goodput = json["rows"][0]["figures"][0]["linux"]["mean"].to_string();
    std::fs::write(&path, text.replace(&goodput, "1234567.0")).unwrap();
    assert!(compare(&[]).contains("1.23 Mbit/s"), "the file that was kept has not been used");
}
