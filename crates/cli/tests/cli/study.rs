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

/// A Python that says what it was asked, and ends with 7. The probe for the package ends with `probed`.
#[cfg(unix)]
fn python(desk: &Desk, name: &str, probed: i32) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let file =
        desk.write(name, &format!("#!/bin/sh\n[ \"$1\" = -c ] && exit {probed}\necho \"$@\"\nexit 7\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[cfg(unix)]
#[test]
fn declared_studies_are_done_by_a_python_with_the_package() {
    let desk = Desk::new();
    let (named, before_3_11) = (python(&desk, "named", 0), python(&desk, "old", 3));
    let ask = |words: &[&str]| {
        let mut program = desk.program(words);
        program.env("WARPLINE_PYTHON", &named).output().unwrap()
    };
    for (words, passed) in [
        (&["study", "run", "a.py", "--quick", "--jobs", "2"][..], "run a.py --quick --jobs 2"),
        (&["study", "judge"], "judge"),
        (&["study", "evidence", "--check"], "evidence --check"),
        (&["reproduce", "tcp-nice/fig3", "--quick"], "reproduce tcp-nice/fig3 --quick"),
        (&["reproduce", "--all"], "reproduce --all"),
        (&["reproduce", "--", "--help"], "reproduce --help"),
    ] {
        let answer = ask(words);
        assert_eq!(String::from_utf8_lossy(&answer.stdout), format!("-P -m warpline.study {passed}\n"));
        assert_eq!(answer.status.code(), Some(7), "{words:?}");
    }
    // One before 3.11 does not know the option that keeps the current directory out.
    let answer = desk.program(&["study", "judge"]).env("WARPLINE_PYTHON", &before_3_11).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "-m warpline.study judge\n");
}

#[cfg(unix)]
#[test]
fn without_a_python_with_the_package_the_error_says_what_to_install() {
    let desk = Desk::new();
    let without = python(&desk, "without", 1);
    for named in [without.as_path(), std::path::Path::new("/nowhere/python")] {
        let answer = desk.program(&["reproduce", "--list"]).env("WARPLINE_PYTHON", named).output().unwrap();
        let told = String::from_utf8_lossy(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{told}");
        assert!(told.contains("WARPLINE_PYTHON is") && told.contains("make python"), "{told}");
    }
    // That of .venv here.
    let own = desk.path().join(".venv/bin");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::rename(python(&desk, "own", 0), own.join("python")).unwrap();
    let mut program = desk.program(&["study", "judge"]);
    let answer = program.env_remove("WARPLINE_PYTHON").output().unwrap();
    assert_eq!(answer.status.code(), Some(7), "{}", String::from_utf8_lossy(&answer.stderr));
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
