//! What is inferred from captures of paths that are known.

use std::fs;
use std::path::{Path as File, PathBuf};

use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_scenario::Source;

use super::{Inferred, infer};

/// Runs a scenario of two hosts, "a" and "b", with a capture at `at`, and infers from it. `bottleneck` has the keys of the path between the routers.
fn inferred(directory: &File, bottleneck: &str, at: &str, flows: &str) -> Inferred {
    let edge = |node: &str, router: &str| {
        let record = if node == at { "record = [\"pcap\"]" } else { "" };
        format!(
            "[[link]]\nbetween = [\"{node}\", \"{router}\"]\nrate = \"1Gbit/s\"\nqueue = \"unlimited\"\n{record}\n"
        )
    };
    let text = format!(
        "name = \"known\"\nduration = \"30s\"\nseed = 3\n{}{}[[link]]\nbetween = [\"x\", \"y\"]\n{bottleneck}\n{flows}",
        edge("a", "x"),
        edge("b", "y")
    );
    let scenario = Source::from_text("known", &text, directory).load(&[]).unwrap();
    let out = directory.join("run");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    let files = fs::read_dir(&out).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let captures: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "pcapng")).collect();
    assert_eq!(captures.len(), 2, "one for each direction");
    infer(&captures, "cubic").unwrap()
}

/// Asserts that a value is within 10 % of what is known.
#[track_caller]
fn close(found: f64, known: f64) {
    assert!((found / known - 1.0).abs() < 0.1, "{found} is not {known}");
}

const BULK: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn rate_delay_and_queue_of_a_path_that_is_full() {
    for (at, back) in [("a", 0), ("b", 1)] {
        let directory = tempfile::tempdir().unwrap();
        let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"60p\"";
        let found = inferred(directory.path(), keys, at, BULK);
        let way = &found.path.ways[back];
        close(way.rate.unwrap(), 10e6);
        close(found.path.rtt.unwrap(), 0.04);
        close(way.queue().unwrap(), 60.0);
        assert_eq!(way.loss(), 0.0, "all losses are the queue's: {way:?}");
    }
}

#[test]
fn losses_at_random_are_told_from_those_of_a_full_queue() {
    for (at, back) in [("a", 0), ("b", 1)] {
        let directory = tempfile::tempdir().unwrap();
        // Several flows keep the queue full although packets are lost.
        let keys = "rate = \"10Mbit/s\"\ndelay = \"10ms\"\nqueue = \"100p\"\nloss = \"2%\"\nreverse = { loss = \"none\" }";
        let found = inferred(directory.path(), keys, at, &format!("{BULK}count = 8\n"));
        let way = &found.path.ways[back];
        close(way.rate.unwrap(), 10e6);
        close(found.path.rtt.unwrap(), 0.02);
        close(way.loss(), 0.02);
    }
}

#[test]
fn a_path_that_was_never_full_has_no_rate() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"50Mbit/s\"\ndelay = \"30ms\"";
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"cbr\"\ntransport = \"tcp\"\nrate = \"2Mbit/s\"\n";
    let found = inferred(directory.path(), keys, "a", flow);
    assert_eq!(found.path.ways[0].rate, None);
    close(found.path.rtt.unwrap(), 0.06);
    assert!(found.scenario.contains("is at least"), "{}", found.scenario);
}

#[test]
fn what_is_proposed_reproduces_the_capture() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"8Mbit/s\"\ndelay = \"15ms\"\nqueue = \"50p\"";
    let flows = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"transfer\"\nsize = \"10MB\"\n[[flow]]\nfrom = \"b\"\nto = \"a\"\napp = \"transfer\"\nsize = \"2MB\"\nstart = \"5s\"\n";
    let found = inferred(directory.path(), keys, "a", flows);
    let compared = found.reproduce("cubic", &mut |_| Control::Continue).unwrap();
    let row = |name: &str| compared.rows.iter().find(|row| row.measure.starts_with(name)).unwrap();
    for name in ["goodput from", "rate from", "shortest round trip"] {
        let difference = row(name).difference().unwrap();
        assert!(difference.abs() < 0.1, "{:?}", compared.rows);
    }
}

#[test]
fn what_is_no_capture_is_an_error_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text.pcap");
    for (bytes, reason) in
        [(&b""[..], "has no header"), (&b"no capture at all, but a text"[..], "neither pcap nor pcapng")]
    {
        fs::write(&file, bytes).unwrap();
        let error = infer(std::slice::from_ref(&file), "cubic").unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
