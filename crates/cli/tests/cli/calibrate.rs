//! `warpline calibrate`: the form of its output. The tests are skipped if namespaces are not allowed.

use std::process::Stdio;

use serde_json::Value;

use crate::live::turn;
use crate::shell::{able, ordinary};
use crate::support::{Answer, Desk, pause};

#[test]
fn a_quick_calibration_has_every_part() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let answer = desk.warpline(&["calibrate", "--quick", "--json", "--out", "page.html"]).fine();
    let said: Value = serde_json::from_str(&answer.stdout).unwrap();
    let rows = |pointer: &str| {
        said.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer}: {said}"))
    };
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {value}"));
    // Round trips are never shorter than the delay; the machine may add to it.
    for row in rows("/accuracy/delay") {
        let set = 2.0 * number(&row["delay_ms"]);
        assert!(number(&row["rtt_ms"]["min"]) >= set, "{row}");
        assert!(number(&row["rtt_ms"]["count"]) > 0.0, "{row}");
    }
    // Rates are never above the setting, and equal to it if the emulator and the source kept pace.
    for row in rows("/accuracy/rate") {
        let error = number(&row["error"]);
        assert!((-0.01..0.001).contains(&error) || row["kept_pace"] == Value::Bool(false), "{row}");
    }
    // Losses beyond the emulated loss are listed separately.
    for row in rows("/accuracy/loss") {
        let (sent, lost) = (number(&row["sent"]), number(&row["lost"]) - number(&row["lost_outside"]));
        let probability = number(&row["probability"]);
        let deviation = (sent * probability * (1.0 - probability)).sqrt();
        assert!(sent > 0.0 && (lost - sent * probability).abs() < 6.0 * deviation + 1.0, "{row}");
    }
    for part in ["rtt_ms", "one_way_pps", "flooded_pps", "round_trips_ps", "stream_bps"] {
        assert!(number(&said["capacity"][part]["median"]) > 0.0, "{part}: {said}");
    }
    for curve in ["/keep_pace/cbr", "/keep_pace/tcp"] {
        let points = rows(curve);
        assert!(number(&points[0]["links"]) > 0.0 && points[0]["kept_pace"].is_boolean(), "{said}");
    }
    assert!(
        said["doubts"]
            .as_array()
            .unwrap()
            .iter()
            .any(|doubt| doubt.as_str().unwrap().contains("quick calibration"))
    );
    let page = std::fs::read_to_string(desk.path().join("page.html")).unwrap();
    assert!(page.contains("by simulated links beside it"));
}

#[test]
fn an_ordinary_user_may_calibrate() {
    if !able(true, &["setpriv"]) {
        return;
    }
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let words = ["calibrate", "--quick", "--only", "accuracy", "--json", "--no-report"];
    let answer = Answer::from(ordinary(&desk).args(words).output().unwrap()).fine();
    let said: Value = serde_json::from_str(&answer.stdout).unwrap();
    for (table, rows) in [("delay", 4), ("rate", 4), ("loss", 4)] {
        assert!(said["accuracy"][table].as_array().unwrap().len() >= rows, "{said}");
    }
}

/// Whether a process has started others.
fn has_children(pid: u32) -> bool {
    let of = |stat: String| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| of(std::fs::read_to_string(process.path().join("stat")).ok()?))
        .any(|parent: u32| parent == pid)
}

#[test]
fn a_stopped_calibration_writes_no_report_and_leaves_nothing_behind() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let mut command = desk.program(&["calibrate"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has begun when it has child processes; it handles signals before that.
    while !has_children(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        pause();
    }
    let asked = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(130), ""), "{answer:?}");
    assert_eq!(desk.names("."), ["small.toml"]);
    let left = desk.warpline(&["clean"]).fine().stdout;
    assert!(!left.contains("calibrate"), "{left}");
}

#[test]
fn whether_the_report_can_be_written_is_checked_before_anything_is_measured() {
    let desk = Desk::new();
    let words = ["calibrate", "--quick", "--only", "accuracy", "--out", "none/page.html"];
    let mut child = desk.program(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut measures = false;
    while !measures && child.try_wait().unwrap().is_none() {
        measures = has_children(child.id());
        pause();
    }
    // It has ended, unless it measures.
    let _ = child.kill();
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert!(!measures, "{answer:?}");
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(3), ""), "{answer:?}");
    assert!(answer.stderr.contains("cannot write none/page.html"), "{answer:?}");
    assert!(answer.stderr.contains("--no-report"), "{answer:?}");
}

#[test]
fn a_calibration_is_printed_also_if_its_report_cannot_be_written() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let gone = desk.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let words = ["calibrate", "--quick", "--only", "capacity", "--json", "--out", "gone/page.html"];
    let mut child = desk.program(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !has_children(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        pause();
    }
    std::fs::remove_dir(&gone).unwrap();
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let said: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert!(said["capacity"]["one_way_pps"]["median"].is_number(), "{said}");
    assert!(answer.stderr.contains("cannot write gone/page.html"), "{answer:?}");
}

#[test]
fn unknown_words_for_load_are_refused() {
    let answer = Desk::new().warpline(&["load", "what"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("these words make no load: what"), "{answer:?}");
}
