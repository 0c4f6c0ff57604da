//! `warpline prefetch` against a real nginx.

use std::process::{Command, Stdio};

use crate::support::{Desk, wait_until};

fn has_nginx() -> bool {
    let found = Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_ok();
    if !found {
        warpline_skip::skip("program", "nginx is not installed");
    }
    found
}

#[test]
fn clients_fetch_requested_objects_and_prefetch_others() {
    if !has_nginx() {
        return;
    }
    let desk = Desk::new();
    // Ten pages, so that the predictor learns quickly.
    let trace = ["--duration", "60", "--think", "2", "--clients", "4", "--pages", "10", "--speed", "20"];
    let run = |policy: &str| {
        let words = [&["prefetch", "run", "--json", "--cc", "reno", "--policy", policy], &trace[..]].concat();
        desk.warpline(&words).fine().json()["report"].clone()
    };
    let count = |report: &serde_json::Value, name: &str| report[name].as_u64().unwrap();
    let none = run("none");
    assert!(count(&none, "requests") > 50 && count(&none, "failures") == 0, "{none}");
    assert_eq!((count(&none, "prefetched"), count(&none, "prefetch_hits")), (0, 0));
    let ahead = run("aggressive");
    assert_eq!(count(&ahead, "requests"), count(&none, "requests"));
    assert!(count(&ahead, "prefetched") > 0 && count(&ahead, "prefetch_hits") > 0, "{ahead}");
    assert!(count(&ahead, "hits") > count(&none, "hits"), "{ahead}");
    // With pipelining, all requests are answered as well.
    let words = [&["prefetch", "run", "--json", "--cc", "reno", "--pipeline", "8"], &trace[..]].concat();
    let piped = desk.warpline(&words).fine().json()["report"].clone();
    assert_eq!(
        (count(&piped, "requests"), count(&piped, "failures")),
        (count(&none, "requests"), 0),
        "{piped}"
    );
    assert!(count(&piped, "prefetch_hits") > 0, "{piped}");
    // The server's suggestions are of use, too, once it has learnt.
    let words = ["prefetch", "run", "--json", "--cc", "reno", "--pipeline", "8", "--hints", "--learn"];
    let with =
        |learn: &str| desk.warpline(&[&words[..], &[learn], &trace].concat()).fine().json()["report"].clone();
    let hinted = with("30");
    assert!(count(&hinted, "prefetch_hits") > 0 && count(&hinted, "failures") == 0, "{hinted}");
    let untaught = with("0");
    assert_eq!(count(&untaught, "prefetched"), 0, "{untaught}");
}

#[test]
fn a_speed_out_of_its_range_is_refused() {
    let desk = Desk::new();
    for speed in ["1e-300", "0", "-1", "nan", "inf"] {
        let answer = desk.warpline(&["prefetch", "run", &format!("--speed={speed}")]);
        assert_eq!(answer.code, Some(2), "{speed}: {}", answer.stderr);
        assert!(answer.stderr.contains("a speed is a number from"), "{speed}: {}", answer.stderr);
    }
}

#[test]
fn with_strict_a_substitute_for_the_congestion_control_is_refused() {
    if !has_nginx() {
        return;
    }
    let answer = Desk::new().warpline(&["prefetch", "run", "--duration", "1", "--cc", "no-such"]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("cannot use the congestion control `no-such`"), "{}", answer.stderr);
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn nginx_ends_with_a_command_that_is_killed() {
    if !has_nginx() {
        return;
    }
    if !Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        return warpline_skip::skip("program", "no setpriv that knows --pdeathsig");
    }
    let desk = Desk::new();
    let mut replay = desk.program(&["prefetch", "run", "--cc", "reno", "--duration", "600"]);
    let mut replay = replay.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The master and its worker.
    let nginx = || children(replay.id()).into_iter().find(|&master| !children(master).is_empty());
    wait_until("nginx serves", || nginx().is_some());
    let master = nginx().unwrap();
    let processes = [children(master), vec![master]].concat();
    replay.kill().unwrap();
    replay.wait().unwrap();
    let is_there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    wait_until("nginx has ended", || !processes.iter().any(is_there));
}
