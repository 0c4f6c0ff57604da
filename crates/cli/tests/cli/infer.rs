//! `warpline infer`: from a capture to a scenario that can be run.

use std::fs;

use crate::support::Desk;

/// A desk with a run whose captures show a path of 10 Mbit/s.
fn captured() -> Desk {
    let desk = Desk::new();
    desk.write(
        "known.toml",
        "duration = \"10s\"\n[[link]]\nbetween = [\"a\", \"x\"]\nrate = \"1Gbit/s\"\nqueue = \"unlimited\"\nrecord = [\"pcap\"]\n\
         [[link]]\nbetween = [\"x\", \"b\"]\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\nqueue = \"50p\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n",
    );
    desk.warpline(&["run", "known.toml", "--quiet", "--no-report", "--out", "run"]).fine();
    desk
}

#[test]
fn a_capture_gives_a_scenario_that_runs() {
    let desk = captured();
    let captures = ["infer", "run/a-x.pcapng", "run/x-a.pcapng"];
    let printed = desk.warpline(&captures).fine().stdout;
    assert!(printed.contains("[[link]]") && printed.contains("app = \"bulk\""), "{printed}");
    let written = [&captures[..], &["--out", "again.toml", "--cc", "reno", "--check", "--json"]].concat();
    let compared = desk.warpline(&written).fine().json();
    let rows = compared["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["measure"].as_str().unwrap().starts_with("goodput")), "{compared}");
    let text = fs::read_to_string(desk.path().join("again.toml")).unwrap();
    assert_eq!(text, printed.replace("cc = \"cubic\"", "cc = \"reno\""));
    desk.warpline(&["check", "again.toml"]).fine();
    let table = desk.warpline(&[&captures[..], &["--out", "again.toml", "--check"]].concat()).fine().stdout;
    assert!(table.starts_with("measure ") && table.contains("shortest round trip"), "{table}");
}

#[test]
fn a_congestion_control_that_does_not_exist_is_refused_and_nothing_is_written() {
    let desk = captured();
    for cc in ["bogus", "nice:threshold=2", "cu\"bic"] {
        let words = ["infer", "run/a-x.pcapng", "run/x-a.pcapng", "--out", "again.toml", "--cc", cc];
        let refused = desk.warpline(&words);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.starts_with(&format!("error: --cc {cc}: ")), "{refused:?}");
        assert!(!desk.path().join("again.toml").exists());
    }
    let printed = desk.warpline(&["infer", "run/a-x.pcapng", "run/x-a.pcapng", "--cc", "nice:threshold=0.2"]);
    assert!(printed.fine().stdout.contains("cc = \"nice:threshold=0.2\""));
}

#[test]
fn what_cannot_be_inferred_is_an_error() {
    let desk = Desk::new();
    desk.write("text.pcap", "no capture at all, but a text");
    for (arguments, code, part) in [
        (&["infer", "text.pcap"][..], 2, "neither pcap nor pcapng"),
        (&["infer", "nowhere.pcap"], 2, "cannot read nowhere.pcap"),
        (&["infer", "text.pcap", "--check"], 2, "--out"),
        (&["infer"], 2, "CAPTURE"),
    ] {
        let refused = desk.warpline(arguments);
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn a_missing_direction_and_a_file_that_is_named_twice_are_errors() {
    let desk = captured();
    for (files, part) in [
        (&["run/a-x.pcapng"][..], "capture both directions"),
        (&["run/a-x.pcapng", "run/x-a.pcapng", "run/a-x.pcapng"], "name each capture once"),
    ] {
        let refused = desk.warpline(&[&["infer"][..], files].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}
