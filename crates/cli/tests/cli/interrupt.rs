//! Ctrl-C, SIGTERM and SIGKILL in the middle of a run.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Answer, Desk, SMALL};

/// A run that would take hours, with a capture that shows when it runs. It is started through the command in `shell`, if any.
fn endless(desk: &Desk, out: &str, shell: &[&str]) -> Child {
    let scenario =
        SMALL.replace("duration = \"2s\"", "duration = \"10000000s\"\nsample_interval = \"1000s\"");
    desk.write("endless.toml", &scenario.replace("delay = \"5ms\"", "delay = \"5ms\"\nrecord = [\"pcap\"]"));
    let mut child = desk
        .program_in(shell, &["run", "endless.toml", "--out", out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    goes_on(desk, &mut child);
    child
}

/// Waits until the run has captured more packets than it has now.
pub(crate) fn goes_on(desk: &Desk, child: &mut Child) {
    let before = captured(desk);
    while captured(desk) <= before {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        pause();
    }
}

/// Bytes of captures in directories that are still being written.
fn captured(desk: &Desk) -> u64 {
    let unfinished = desk.names("").into_iter().filter(|name| name.contains(".partial-"));
    let files = unfinished.flat_map(|directory| {
        let files = desk.names(&directory).into_iter().filter(|name| name.ends_with(".pcapng"));
        files.map(move |file| format!("{directory}/{file}")).collect::<Vec<_>>()
    });
    files.filter_map(|file| fs::metadata(desk.path().join(file)).ok()).map(|metadata| metadata.len()).sum()
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn pause() {
    thread::sleep(Duration::from_millis(5));
}

/// Sends a signal to a run as soon as the names in the desk satisfy the condition.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn kill_when(desk: &Desk, child: &Child, signal: &str, is_so: impl Fn(&[String]) -> bool) {
    while !is_so(&desk.names("")) {
        pause();
    }
    kill(child, signal);
}

#[cfg(target_os = "linux")]
#[test]
fn an_ignored_hangup_stays_ignored() {
    let desk = Desk::new();
    desk.write("nohup.sh", "trap '' HUP\nexec \"$@\"\n");
    let mut child = endless(&desk, "detached", &["sh", "nohup.sh"]);
    kill(&child, "-HUP");
    goes_on(&desk, &mut child);
    goes_on(&desk, &mut child);
    kill(&child, "-INT");
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(desk.summary("detached")["stopped"], "interrupted");
}

pub(crate) fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupted_run_keeps_its_results_and_says_so() {
    for signal in ["-INT", "-TERM"] {
        let desk = Desk::new();
        let child = endless(&desk, "kept", &[]);
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

/// Stops a run, sends it all of these signals, and lets it continue. So they arrive together, and it cannot finish its results in
/// between. They must be of different kinds, because two of the same kind would arrive as one.
fn ask(child: Child, signals: &[&str]) -> Answer {
    kill(&child, "-STOP");
    signals.iter().for_each(|signal| kill(&child, signal));
    kill(&child, "-CONT");
    Answer::from(child.wait_with_output().unwrap())
}

#[test]
fn a_second_interrupt_loses_nothing() {
    let desk = Desk::new();
    let answer = ask(endless(&desk, "twice", &[]), &["-INT", "-TERM"]);
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert!(answer.stderr.contains("once more to end at once"), "{answer:?}");
    assert_eq!(desk.summary("twice")["stopped"], "interrupted");
}

#[test]
fn a_third_interrupt_ends_the_run_at_once_and_leaves_nothing() {
    let desk = Desk::new();
    let answer = ask(endless(&desk, "thrice", &[]), &["-INT", "-TERM", "-HUP"]);
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert!(!answer.stderr.contains("interrupted after"), "it wrote its results: {answer:?}");
    assert_eq!(desk.names(""), ["endless.toml", "small.toml"]);
}

#[test]
fn a_killed_run_leaves_no_run_directory_and_the_next_run_cleans_up() {
    let desk = Desk::new();
    let child = endless(&desk, "killed", &[]);
    kill(&child, "-KILL");
    assert_eq!(Answer::from(child.wait_with_output().unwrap()).code, None);
    assert!(!desk.path().join("killed").exists());
    desk.warpline(&["run", "small.toml", "--out", "killed"]).fine();
    assert_eq!(desk.names(""), ["endless.toml", "killed", "small.toml"]);
}
