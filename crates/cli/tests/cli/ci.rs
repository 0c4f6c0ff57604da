//! The example of docs/src/ci.md: a library's client and server in guests under loss, in three languages, and the files for CI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Answer, Desk};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ci")
}

/// Whether a program is installed.
fn have(program: &str) -> bool {
    let is = Command::new("which").arg(program).output().is_ok_and(|output| output.status.success());
    if !is {
        warpline_skip::skip("program", format!("{program} is not installed"));
    }
    is
}

/// A desk with the example's scenario. The programs under test must still be built into `under-test`. `None` without guests.
fn desk() -> Option<Desk> {
    if !have("linux.uml") {
        return None;
    }
    let desk = Desk::new();
    fs::copy(example().join("ci.toml"), desk.path().join("ci.toml")).unwrap();
    fs::create_dir(desk.path().join("under-test")).unwrap();
    Some(desk)
}

fn python() -> Option<Desk> {
    let desk = desk()?;
    for name in ["client", "server"] {
        fs::copy(example().join("python").join(name), desk.path().join("under-test").join(name)).unwrap();
    }
    Some(desk)
}

fn run(desk: &Desk, more: &[&str]) -> Answer {
    // Even if the scenario is a bare file name, programs start in its directory.
    desk.warpline(
        &[&["run", "ci.toml", "--out", "out", "--junit", "junit.xml", "--no-report"], more].concat(),
    )
}

fn check(desk: &Desk) {
    let answer = run(desk, &[]).fine();
    let printed = fs::read_to_string(desk.path().join("out/programs/client.0.stdout")).unwrap();
    assert!(printed.ends_with("300000 bytes: right\n"), "{printed}\n{answer:?}");
    let summary = desk.summary("out");
    // The run ends with the client, and not before the server was ready.
    assert!(summary["simulated_s"].as_f64().unwrap() < 30.0 && summary["complete"] == true, "{summary}");
    assert!(desk.names("out").iter().any(|name| name.ends_with(".pcapng")), "{:?}", desk.names("out"));
}

fn junit(desk: &Desk) -> String {
    fs::read_to_string(desk.path().join("junit.xml")).unwrap()
}

#[test]
fn the_example_in_python_passes_with_every_seed_and_ends_with_its_client() {
    let Some(desk) = python() else { return };
    check(&desk);
    assert!(junit(&desk).contains("tests=\"3\" failures=\"0\""), "{}", junit(&desk));
    fs::remove_dir_all(desk.path().join("out")).unwrap();
    run(&desk, &["--seeds", "1..2"]).fine();
    let text = junit(&desk);
    assert!(text.contains("tests=\"6\" failures=\"0\""), "{text}");
    for case in
        ["classname=\"ci.seed-1\" name=\"program 0 of host client\"", "classname=\"ci.seed-2\" name=\"run\""]
    {
        assert!(text.contains(case), "{text}");
    }
}

#[test]
fn the_example_in_go_passes() {
    let Some(desk) = desk().filter(|_| have("go")) else { return };
    let built = Command::new("go")
        .args(["build", "-C"])
        .arg(example().join("go"))
        .arg("-o")
        .arg(desk.path().join("under-test").join(""))
        .arg("./...")
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .status();
    assert!(built.unwrap().success());
    check(&desk);
}

#[test]
fn the_example_in_rust_passes() {
    let Some(desk) = desk().filter(|_| have("rustc")) else { return };
    for name in ["client", "server"] {
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2021", "-O", "-o"]).arg(desk.path().join("under-test").join(name));
        assert!(rustc.arg(example().join("rust").join(format!("{name}.rs"))).status().unwrap().success());
    }
    check(&desk);
}

#[test]
fn the_error_for_a_client_that_fails_names_its_output_and_the_capture() {
    let Some(desk) = python() else { return };
    desk.write("under-test/client", "#!/bin/sh\necho all is lost >&2\nexit 3\n");
    let answer = run(&desk, &[]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    for part in [
        "program 0 of host client (under-test/client 10.0.0.2 7000) ended with exit code 3 at ",
        "; its output: out/programs/client.0.stderr; capture: out/client-server.pcapng",
        "    all is lost",
    ] {
        assert!(answer.stderr.contains(part), "{part}: {answer:?}");
    }
    assert!(desk.path().join("out/programs/client.0.stderr").exists(), "{answer:?}");
    assert!(desk.names("out").contains(&"client-server.pcapng".to_owned()), "{:?}", desk.names("out"));
    let text = junit(&desk);
    assert!(
        text.contains("failures=\"1\"") && text.contains("<failure message=\"program 0 of host client"),
        "{text}"
    );
}

#[test]
fn the_error_for_a_server_that_is_never_ready_names_it_its_condition_and_the_limit() {
    let Some(desk) = python() else { return };
    desk.write("under-test/server", "#!/bin/sh\necho tired >&2\nsleep 50\n");
    let answer =
        run(&desk, &["--set", "host[server].program[0].ready={ prints = \"listening\", within = \"5s\" }"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let expected = "program 0 of host server was not ready: it did not print \"listening\" within 5s; program 0 of host client waited \
                    for it; its output: out/programs/server.0.stderr";
    assert!(answer.stderr.contains(expected) && answer.stderr.contains("    tired"), "{answer:?}");
    let summary = desk.summary("out");
    assert_eq!((&summary["stopped"], &summary["complete"]), (&"not ready".into(), &false.into()));
    assert!((5.0..6.0).contains(&summary["simulated_s"].as_f64().unwrap()), "{summary}");
    assert!(junit(&desk).contains("name=\"program 0 of host server\""));
}

#[test]
fn a_missing_program_is_also_named_in_the_table() {
    let Some(desk) = python() else { return };
    fs::remove_file(desk.path().join("under-test/server")).unwrap();
    let answer = run(&desk, &[]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("cannot start under-test/server: No such file"), "{answer:?}");
    let row = answer.stdout.lines().find(|line| line.trim_start().starts_with("server.0")).unwrap();
    assert!(row.contains("not started (FAILED)  under-test/server 7000"), "{row}");
}

/// Ctrl-C stops a run with guests, both under way and while they boot; results until then are kept.
#[test]
fn ctrl_c_stops_a_run_with_guests() {
    let Some(desk) = python() else { return };
    // A client that never stops.
    desk.write("under-test/client", "#!/bin/sh\nexec ping -q -i 0.01 $1\n");
    for (clock, out) in [("virtual", "virtual"), ("real", "real"), ("dilated", "dilated")] {
        let tdf = if clock == "dilated" { &["--tdf", "10"][..] } else { &[] };
        let words = ["run", "ci.toml", "--set", "duration=100000s", "--out", out, "--clock", clock];
        let mut child = desk
            .program(&[&words, tdf].concat())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The capture grows once the guests send packets.
        crate::interrupt::goes_on(&desk, &mut child);
        crate::interrupt::kill(&child, "-INT");
        let answer = Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.code, Some(130), "{clock}: {answer:?}");
        assert!(answer.stderr.contains("interrupted after"), "{answer:?}");
        let summary = desk.summary(out);
        assert_eq!((&summary["complete"], &summary["stopped"]), (&false.into(), &"interrupted".into()));
        let simulated = summary["simulated_s"].as_f64().unwrap();
        assert!(simulated > 0.0 && simulated < 99_000.0, "{clock}: {simulated}");
    }
    let child = desk
        .program(&["run", "ci.toml", "--out", "boot"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::interrupt::kill_when(&desk, &child, "-TERM", |names| {
        names.iter().any(|name| name.contains("boot.partial-"))
    });
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(desk.summary("boot")["stopped"], "interrupted");
}
