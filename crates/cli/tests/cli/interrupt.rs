//! Ctrl-C, SIGTERM and SIGKILL in the middle of a run.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Answer, Desk, SMALL};

/// A run that would take hours, with a capture that shows when it is under way.
fn endless(desk: &Desk, out: &str) -> Child {
    let scenario =
        SMALL.replace("duration = \"2s\"", "duration = \"10000000s\"\nsample_interval = \"1000s\"");
    desk.write("endless.toml", &scenario.replace("delay = \"5ms\"", "delay = \"5ms\"\nrecord = [\"pcap\"]"));
    let mut child = desk
        .program(&["run", "endless.toml", "--out", out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !captured(desk) {
        if let Some(status) = child.try_wait().unwrap() {
            let answer = Answer::from(child.wait_with_output().unwrap());
            panic!("it ended by itself with {status}: {answer:?}");
        }
        pause();
    }
    child
}

/// Whether packets have reached a capture in a directory that is still being written.
fn captured(desk: &Desk) -> bool {
    desk.names("").iter().filter(|name| name.contains(".partial-")).any(|directory| {
        desk.names(directory).iter().filter(|name| name.ends_with(".pcapng")).any(|name| {
            fs::metadata(desk.path().join(directory).join(name)).is_ok_and(|metadata| metadata.len() > 1000)
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn pause() {
    thread::sleep(Duration::from_millis(5));
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupted_run_keeps_what_was_measured_and_says_so() {
    for signal in ["-INT", "-TERM"] {
        let desk = Desk::new();
        let child = endless(&desk, "kept");
        kill(&child, signal);
        let answer = Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.code, Some(130), "{signal}: {answer:?}");
        assert!(answer.stderr.contains("interrupted after"), "{answer:?}");
        let summary = desk.summary("kept");
        assert_eq!((&summary["complete"], &summary["stopped"]), (&false.into(), &"interrupted".into()));
        let simulated = summary["simulated_s"].as_f64().unwrap();
        assert!(simulated > 0.0 && simulated < 1e7, "{simulated}");
        assert!(summary["flows"][0]["sent_packets"].as_u64().unwrap() > 0, "{summary}");
        assert!(desk.path().join("kept/report.html").exists());
        assert!(!desk.names("").iter().any(|name| name.starts_with('.')), "{:?}", desk.names(""));
    }
}

#[test]
fn two_interrupts_leave_a_whole_run_or_nothing() {
    let desk = Desk::new();
    let child = endless(&desk, "twice");
    kill(&child, "-INT");
    kill(&child, "-INT");
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert!(!desk.names("").iter().any(|name| name.starts_with('.')), "{:?}", desk.names(""));
    if desk.path().join("twice").exists() {
        assert_eq!(desk.summary("twice")["stopped"], "interrupted");
    }
}

#[test]
fn a_killed_run_leaves_no_run_directory_and_the_next_one_tidies_up() {
    let desk = Desk::new();
    let child = endless(&desk, "killed");
    kill(&child, "-KILL");
    assert_eq!(Answer::from(child.wait_with_output().unwrap()).code, None);
    assert!(!desk.path().join("killed").exists());
    desk.warpline(&["run", "small.toml", "--out", "killed"]).fine();
    assert_eq!(desk.names(""), ["endless.toml", "killed", "small.toml"]);
}
