//! What a run says of itself while it goes on: `run --json-stream`, and metrics over HTTP.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::support::Desk;
#[cfg(target_os = "linux")]
use crate::support::{Answer, SMALL};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn a_run_is_lines_of_json_with_the_same_bytes_for_the_same_seed() {
    let desk = Desk::new();
    let run = |out: &str| {
        let arguments =
            ["run", "small.toml", "--json-stream", "--period", "500ms", "--no-report", "--out", out];
        desk.warpline(&arguments).fine().stdout
    };
    let (one, two) = (run("one"), run("two"));
    let all_but_last = |text: &str| text.trim_end().rsplit_once('\n').unwrap().0.to_owned();
    assert_eq!(all_but_last(&one), all_but_last(&two));
    let lines = lines(&one);
    let summary = desk.summary("one");
    assert_eq!((&lines[0]["event"], &lines[0]["seed"]), (&"begin".into(), &summary["seed"]));
    assert_eq!(of(&lines, "end")[0]["summary"], summary);
    assert_eq!(of(&lines, "written")[0]["directory"], "one");
    assert_eq!(lines.last().unwrap()["event"], "written");
    // A line for each period, up to the whole run.
    let duration = summary["duration_s"].as_f64().unwrap();
    let times: Vec<f64> =
        of(&lines, "interval").iter().map(|line| line["time_s"].as_f64().unwrap()).collect();
    let expected: Vec<f64> =
        (1..=(duration / 0.5).round() as u32).map(|number| f64::from(number) * 0.5).collect();
    assert_eq!(times, expected);
    let shares: Vec<f64> =
        of(&lines, "progress").iter().map(|line| line["share"].as_f64().unwrap()).collect();
    assert_eq!((shares.len(), shares.last()), (times.len(), Some(&1.0)));
    let first = of(&lines, "interval")[0];
    assert_eq!(first["flows"][0]["name"], summary["flows"][0]["name"]);
    for column in ["throughput_bps", "drops", "backlog_packets"] {
        assert!(first["links"][0][column].is_number(), "{first}");
    }
    // Bytes of the intervals are those of the run.
    let sum: f64 = of(&lines, "interval")
        .iter()
        .map(|line| line["flows"][0]["goodput_bps"].as_f64().unwrap() * 0.5)
        .sum();
    let rows = desk.warpline(&["export", "one", "--table", "series_flows", "--json"]).fine().json();
    let rows: f64 = rows.as_array().unwrap().iter().map(|row| row["goodput_bps"].as_f64().unwrap()).sum();
    let interval = duration / (rows_of(&desk) as f64);
    assert!((sum / (rows * interval) - 1.0).abs() < 1e-9, "{sum} {rows}");
}

/// How many samples the run has.
fn rows_of(desk: &Desk) -> usize {
    let csv = desk.warpline(&["export", "one", "--table", "series_flows"]).fine().stdout;
    csv.lines().count() - 1
}

#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let desk = Desk::new();
    let mut child = desk
        .program(&["run", "small.toml", "--json-stream", "--no-report", "--out", "here"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
    assert_eq!(desk.summary("here")["complete"], true);
}

#[test]
fn a_run_that_cannot_begin_says_so() {
    let desk = Desk::new();
    fs::create_dir(desk.path().join("taken")).unwrap();
    desk.write("taken/mine.txt", "not a run");
    let answer = desk.warpline(&["run", "small.toml", "--json-stream", "--out", "taken"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let lines = lines(&answer.stdout);
    assert_eq!(lines.last().unwrap()["event"], "error");
    assert!(answer.stderr.contains(lines.last().unwrap()["message"].as_str().unwrap()), "{answer:?}");
    for (arguments, part) in [
        (&["run", "small.toml", "--json-stream", "--json"][..], "cannot be used with"),
        (&["run", "small.toml", "--json-stream", "--seeds", "1,2"], "cannot be used with"),
        (&["run", "small.toml", "--period", "1s"], "--json-stream"),
        (&["run", "small.toml", "--json-stream", "--period", "150ms"], "write 100ms or 200ms"),
        (&["run", "small.toml", "--json-stream", "--period", "0s"], "write 100ms"),
        (&["run", "small.toml", "--metrics", "here"], "127.0.0.1:9000"),
        (
            &["run", "small.toml", "--metrics", "0", "--set", "replications.runs=2"],
            "leave out its `replications`",
        ),
    ] {
        let refused = desk.warpline(arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn why_a_run_failed_is_told_even_if_nothing_can_be_written() {
    let desk = Desk::new();
    let expect = "expect = [\"flow.bulk.goodput > 1Gbit/s\"]\nduration";
    desk.write("missed.toml", &SMALL.replace("duration", expect));
    for (how, out) in [("--json-stream", "one"), ("--json", "two")] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut program = desk.program(&["run", "missed.toml", how, "--no-report", "--out", out]);
        let answer = Answer::from(program.stdout(full).output().unwrap());
        assert_eq!(answer.code, Some(1), "{answer:?}");
        for part in ["expected flow", "cannot write to standard output"] {
            assert!(answer.stderr.contains(part), "{part}: {answer:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn metrics_can_be_read_while_a_run_goes_on() {
    use std::io::Write as _;
    use std::net::TcpStream;
    let desk = Desk::new();
    // Long enough that it has to be stopped.
    let mut child = desk
        .program(&[
            "run",
            "small.toml",
            "--set",
            "duration=1000h",
            "--metrics",
            "0",
            "--out",
            "here",
            "--no-report",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.split_once('/').unwrap().0.to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let idle = TcpStream::connect(&address).unwrap();
    let mut text = String::new();
    while !text.contains("warpline_link_sample_backlog_packets{") {
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        text.clear();
        client.read_to_string(&mut text).unwrap();
    }
    assert!(text.contains("# TYPE warpline_flow_sample_goodput_bits_per_second gauge"), "{text}");
    drop(idle);
    let stopped =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_whose_name_is_not_utf_8_is_told_as_well_as_json_can() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::new();
    for (how, name) in [("--json", b"one\xff"), ("--json-stream", b"two\xff")] {
        let mut program = desk.program(&["run", "small.toml", how, "--out"]);
        program.arg(OsStr::from_bytes(name));
        let answer = Answer::from(program.output().unwrap()).fine();
        assert!(answer.stdout.contains(&*String::from_utf8_lossy(name)), "{answer:?}");
    }
}
