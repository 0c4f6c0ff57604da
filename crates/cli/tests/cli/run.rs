//! `warpline run`, and then `report` and `compare`.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Desk, SMALL};

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_run_ends_with_the_path_of_its_report() {
    let desk = Desk::new();
    let answer = desk.warpline(&["run", "small.toml"]).fine();
    assert_eq!(answer.stdout.lines().last(), Some("Report: runs/small-1/report.html"));
    assert_eq!(answer.stderr, "", "no progress bar and no message if stderr is not a terminal");
    assert!(!answer.stdout.contains('\u{1b}'), "no colours if stdout is not a terminal");
    let names = desk.names("runs/small-1");
    for name in ["flows.parquet", "links.parquet", "report.html", "series_flows.parquet", "summary.json"] {
        assert!(names.iter().any(|other| other == name), "{name} is missing among {names:?}");
    }
    assert_eq!(desk.names("runs"), ["small-1"], "nothing else is left");
}

#[test]
fn with_json_stdout_has_nothing_else() {
    let desk = Desk::new();
    let answer = desk.warpline(&["run", "small.toml", "--json", "--no-report", "--out", "here"]).fine();
    let document = parse(&answer.stdout);
    assert_eq!(document["directory"], "here");
    assert_eq!(document["report"], Value::Null);
    assert_eq!(document["complete"], true);
    assert_eq!(document["summary"], desk.summary("here"));
    let goodput = document["summary"]["totals"]["goodput_bps"].as_f64().unwrap();
    assert!((0.7e6..1e6).contains(&goodput), "{goodput} over a link of 1 Mb/s");
    assert!(!desk.path().join("here/report.html").exists());
}

#[test]
fn quiet_prints_the_path_only() {
    let desk = Desk::new();
    let answer = desk.warpline(&["run", "small.toml", "--quiet", "--out", "a/b"]).fine();
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("a/b/report.html\n", ""));
    let answer = desk.warpline(&["run", "small.toml", "--quiet", "--no-report", "--out", "c"]).fine();
    assert_eq!(answer.stdout, "c\n");
}

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes() {
    let desk = Desk::new();
    for out in ["one", "two"] {
        desk.warpline(&["run", "small.toml", "--seed", "7", "--out", out]).fine();
    }
    assert_eq!(desk.names("one"), desk.names("two"));
    for name in desk.names("one").iter().filter(|name| *name != "audit.json") {
        let read = |run: &str| fs::read(desk.path().join(run).join(name)).unwrap();
        assert!(read("one") == read("two"), "{name} differs");
    }
    assert_eq!(desk.summary("one")["seed"], 7);
}

#[test]
fn set_changes_the_scenario() {
    let desk = Desk::new();
    let arguments = ["run", "small.toml", "--out", "set", "--set", "duration=1s", "--set", "flow.0.cc=vegas"];
    desk.warpline(&arguments).fine();
    let summary = desk.summary("set");
    assert_eq!(summary["duration_s"], 1.0);
    assert_eq!(summary["flows"][0]["cc"], "vegas");
}

#[test]
fn an_existing_run_is_not_overwritten_unless_forced() {
    let desk = Desk::new();
    desk.warpline(&["run", "small.toml", "--out", "here", "--seed", "1"]).fine();
    let refused = desk.warpline(&["run", "small.toml", "--out", "here", "--seed", "2"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(desk.summary("here")["seed"], 1);
    desk.warpline(&["run", "small.toml", "--out", "here", "--seed", "2", "--force"]).fine();
    assert_eq!(desk.summary("here")["seed"], 2);
    let occupied = desk.warpline(&["run", "small.toml", "--out", ".", "--force"]);
    assert_eq!(occupied.code, Some(3), "a directory that is not a run is never replaced: {occupied:?}");
    desk.warpline(&["run", "small.toml"]).fine();
    let second = desk.warpline(&["run", "small.toml"]).fine();
    assert_eq!(second.stdout.lines().last(), Some("Report: runs/small-1.2/report.html"));
}

#[test]
fn runs_that_start_together_get_different_names() {
    let desk = Desk::new();
    let mut children: Vec<_> = (0..4)
        .map(|_| {
            desk.program(&["run", "small.toml", "--quiet", "--no-report"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(desk.names("runs"), ["small-1", "small-1.2", "small-1.3", "small-1.4"]);
}

#[test]
fn replications_give_confidence_intervals() {
    let desk = Desk::new();
    let document = parse(
        &desk.warpline(&["run", "small.toml", "--seeds", "1..3", "--json", "--out", "all"]).fine().stdout,
    );
    assert_eq!(document["complete"], true);
    assert_eq!(document["directory"], "all");
    let text = document["replications"].to_string();
    assert!(text.contains("ci95"), "{text}");
    let text = desk.warpline(&["run", "small.toml", "--replications", "3"]).fine().stdout;
    assert!(text.contains("95 %"), "{text}");
}

#[test]
fn a_seed_on_the_command_line_replaces_those_of_the_scenario() {
    let desk = Desk::new();
    let with = |plan: &str| SMALL.replace("duration", &format!("replications = {{ {plan} }}\nduration"));
    desk.write("listed.toml", &with("seeds = [1, 2]"));
    desk.write("counted.toml", &with("runs = 2"));
    let run = |file: &str, how: [&str; 2], out: &str| {
        desk.warpline(&["run", file, how[0], how[1], "--no-report", "--out", out]).fine();
    };
    run("listed.toml", ["--seed", "7"], "one");
    assert_eq!(desk.summary("one")["seed"], 7);
    // A number of runs counts up from it.
    run("counted.toml", ["--seed", "7"], "two");
    assert_eq!(desk.names("two"), ["replications.json", "seed-7", "seed-8"]);
    // What is kept of a single run makes this run again, and no others.
    run("counted.toml", ["--seeds", "9223372036854775807"], "three");
    desk.warpline(&["run", "three/scenario.toml", "--no-report", "--out", "again"]).fine();
    assert_eq!(desk.summary("again")["seed"], i64::MAX);
    assert_eq!(desk.summary("again"), desk.summary("three"));
    for (arguments, part) in [
        (&["--seed", "9223372036854775808"][..], "from 0 to 9223372036854775807"),
        (&["--seeds", "1,9223372036854775808"], "from 0 to 9223372036854775807"),
        (&["--seed", "9223372036854775807", "--replications", "2"], "begin with a smaller one"),
    ] {
        let refused = desk.warpline(&[&["run", "small.toml"], arguments].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn report_and_compare_take_runs() {
    let desk = Desk::new();
    for (out, cc) in [("cubic", "flow.0.cc=cubic"), ("vegas", "flow.0.cc=vegas")] {
        desk.warpline(&["run", "small.toml", "--no-report", "--out", out, "--set", cc]).fine();
    }
    desk.warpline(&["report", "cubic"]).fine();
    assert!(fs::read_to_string(desk.path().join("cubic/report.html")).unwrap().contains("</html>"));
    let both = desk.warpline(&["report", "cubic", "vegas"]).fine();
    assert_eq!(both.stdout, "Report: report.html\n");
    let nowhere = desk.warpline(&["report", "cubic", "--out", "no/such/place.html"]);
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    let text = desk.warpline(&["compare", "cubic", "vegas"]).fine().stdout;
    assert!(text.contains("flow.bulk.cc: cubic -> vegas") && text.contains("throughput_bps"), "{text}");
    assert!(parse(&desk.warpline(&["compare", "cubic", "vegas", "--json"]).fine().stdout).is_object());
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let desk = Desk::new();
    let mut child = desk.program(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_exit_code_3() {
    let desk = Desk::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = desk.program(&["schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

/// JUnit shows why there was no run: the scenario has errors or is missing, or results cannot be written.
#[test]
fn junit_has_an_error_if_there_was_no_run() {
    let desk = Desk::new();
    desk.write("wrong.toml", &SMALL.replace("rate", "rat"));
    desk.write("taken", "");
    for (words, code, name, why) in [
        (&["wrong.toml"][..], 2, "wrong", "unknown key `rat`"),
        (&["nowhere.toml", "--seeds", "1..3"], 2, "nowhere", "nowhere.toml"),
        (&["small.toml", "--out", "taken"], 3, "small", "taken"),
    ] {
        let answer = desk.warpline(&[&["run"], words, &["--junit", "junit.xml"]].concat());
        assert_eq!(answer.code, Some(code), "{answer:?}");
        let text = std::fs::read_to_string(desk.path().join("junit.xml")).unwrap();
        assert!(text.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "{text}");
        assert!(text.contains(&format!("classname=\"{name}\" name=\"run\"")), "{text}");
        assert!(text.contains("<error message=") && text.contains(why), "{text}");
        std::fs::remove_file(desk.path().join("junit.xml")).unwrap();
    }
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_refuses_to_be_one_of_several_processes() {
    let desk = Desk::new();
    let one_of_two = |number: &str| {
        let mut program = desk.program(&["run", "small.toml"]);
        program.env("OMPI_COMM_WORLD_SIZE", "2").env("OMPI_COMM_WORLD_RANK", number);
        crate::support::Answer::from(program.output().unwrap())
    };
    let first = one_of_two("0");
    assert!(
        first.stderr.starts_with("error: started in 2 processes, but this build has no MPI"),
        "{first:?}"
    );
    assert_eq!((first.code, first.stdout.as_str()), (Some(2), ""));
    // It is said once.
    let second = one_of_two("1");
    assert_eq!((second.code, second.stdout.as_str(), second.stderr.as_str()), (Some(0), "", ""));
    assert_eq!(desk.names("."), ["small.toml"], "nothing was run");
}
