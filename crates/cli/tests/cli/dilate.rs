//! Guests under the real and the dilated clock: in scenarios, and with `warpline dilate`.
//!
//! The tests are skipped if there is no guest kernel. They do not depend on the speed of the machine: they check that dilated time is
//! never too short, and that answers arrive.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::sync::MutexGuard;

use crate::live::{kept_pace, printed, run, shortest, turn};
use crate::support::{Answer, Desk, pause};
use crate::terminal::on_a_terminal;

/// Waits for this test's turn. `None` if the machine lacks something that it needs.
fn guests(tools: &[&str]) -> Option<MutexGuard<'static, ()>> {
    if cfg!(not(target_arch = "x86_64")) {
        warpline_skip::skip("x86-64", "guests need it");
        return None;
    }
    turn(&[&["linux.uml"], tools].concat())
}

/// Processes of the guests of the Warpline with process ID `pid`, found by their directories: what the system says of each. They die with
/// it, after a moment.
fn kernels(pid: u32) -> Vec<String> {
    let of_it = format!("/dev/shm/warpline-guest-{pid:010}-");
    let mut found = Vec::new();
    for _ in 0..100 {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let directory = |process: &std::fs::DirEntry| std::fs::read_link(process.path().join("cwd")).ok();
        let own = processes.filter_map(|process| {
            let own = directory(&process)?.to_string_lossy().starts_with(&of_it);
            let about = |file: &str| std::fs::read_to_string(process.path().join(file)).unwrap_or_default();
            own.then(|| ["stat", "wchan", "status"].map(about).join("\n"))
        });
        found = own.collect();
        if found.is_empty() {
            break;
        }
        pause();
    }
    found
}

/// Their directories.
fn directories(pid: u32) -> usize {
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let of_it = format!("warpline-guest-{pid:010}-");
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_it)).count()
}

#[test]
fn guests_a_model_and_a_namespace_share_dilated_time_and_both_clocks_are_reported() {
    let Some(_turn) = guests(&["ping"]) else { return };
    let desk = Desk::new();
    // ping waits for the last answer as long as between two, or for two round trips. All pings are before the flows.
    let scenario = r#"name = "mix"
duration = "3s"
clock = { mode = "dilated", tdf = 3 }
link = [
  { between = ["g", "r"], rate = "100Mbit/s", delay = "2ms" },
  { between = ["h", "r"], rate = "10Mbit/s", delay = "10ms" },
  { between = ["l", "r"], rate = "100Mbit/s", delay = "3ms" },
  { between = ["m", "r"], rate = "100Mbit/s", delay = "5ms" },
]
[[host]]
name = "g"
endpoint = "guest"
program = [
  { command = ["ping", "-n", "-c", "2", "-i", "0.9", "{h}"] },
  { command = ["ping", "-n", "-c", "2", "-i", "0.9", "{h:6}"] },
  { command = ["ping", "-n", "-c", "2", "-i", "0.9", "{l}"] },
]
[[host]]
name = "h"
endpoint = "guest"
[[host]]
name = "l"
endpoint = "live"
program = [{ command = ["ping", "-n", "-c", "1", "{g}"], start = "500ms" }]
[[flow]]
name = "linux"
from = "g"
to = "h"
start = "1s"
[[flow]]
name = "model"
from = "m"
to = "h"
start = "1s"
"#;
    let answer = run(&desk, scenario).fine();
    assert!(answer.stdout.contains("3 s perceived in 9"), "{}", answer.stdout);
    let summary = desk.summary("out");
    let dilation = &summary["live"]["dilation"];
    assert_eq!((&dilation["tdf"], &dilation["perceived_s"]), (&3.0.into(), &3.0.into()));
    assert!(dilation["wall_s"].as_f64().unwrap() >= 9.0);
    // Delays are as the guests perceive them, over IPv4 and IPv6: never less than the links', and less than three times as much.
    for (number, least) in [(0, 24.0), (1, 24.0), (2, 10.0)] {
        let text = printed(&desk, &format!("g.{number}.stdout"));
        let rtt: f64 = text
            .lines()
            .last()
            .unwrap()
            .split(" = ")
            .nth(1)
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let late = rtt >= 2.5 * least && kept_pace(&summary);
        assert!(rtt >= least && !late && text.contains("2 received"), "{rtt}\n{text}");
    }
    // The namespace's programs run in the machine's time, in which delays are three times as long.
    let text = printed(&desk, "l.0.stdout");
    let rtt: f64 =
        text.lines().last().unwrap().split(" = ").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    assert!(rtt >= 30.0, "{text}");
    let moved = |name: &str| {
        let flows = summary["flows"].as_array().unwrap();
        let flow =
            flows.iter().find(|flow| flow["group"] == name).unwrap_or_else(|| panic!("{name}: {flows:?}"));
        flow["delivered_bytes"].as_u64().unwrap()
    };
    // The flows share 10 Mbit/s for two seconds.
    let (linux, model) = (moved("linux"), moved("model"));
    let much = linux > 50_000 && model > 50_000 || !kept_pace(&summary);
    assert!(linux > 0 && model > 0 && much && linux + model < 2_500_000, "{linux} {model}");
    assert_eq!(summary["guests"]["machines"].as_array().unwrap().len(), 2);
}

#[test]
fn guests_can_follow_the_real_clock_and_failed_programs_are_reported() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    let scenario = r#"duration = "600s"
until = "a.0 exits"
clock = { mode = "real" }
link = [{ between = ["a", "b"], rate = "10Mbit/s", delay = "1ms" }]
[[host]]
name = "a"
endpoint = "guest"
program = [{ command = "echo seen; exit 3" }, { command = "sleep 1000", expect = "running" }]
[[host]]
name = "b"
endpoint = "guest"
"#;
    let answer = run(&desk, scenario);
    assert_eq!(answer.code, Some(1), "{}{}", answer.stdout, answer.stderr);
    assert!(
        answer.stderr.contains("program 0 of host a") && answer.stderr.contains("exit code 3"),
        "{}",
        answer.stderr
    );
    assert_eq!(printed(&desk, "a.0.stdout"), "seen\n");
    assert!(desk.summary("out")["live"].get("dilation").is_none());
}

#[test]
fn a_machine_can_have_a_factor_of_its_own_and_results_are_in_the_runs_time() {
    let Some(_turn) = guests(&["ping"]) else { return };
    let desk = Desk::new();
    // At twice the speed of the network's clock, a round trip of 20 ms takes 40 ms, and a second of the run two.
    let scenario = r#"duration = "3s"
clock = { mode = "dilated", tdf = 4 }
link = [{ between = ["a", "b"], rate = "10Mbit/s", delay = "10ms" }]
[[host]]
name = "a"
endpoint = "guest"
tdf = 2
[[host.program]]
command = "ping -n -c 2 -i 1 {b}; cat /proc/uptime"
start = "1s"
[[host]]
name = "b"
endpoint = "guest"
[[flow]]
from = "a"
to = "b"
start = "1500ms"
app = "transfer"
size = "20kB"
"#;
    let answer = run(&desk, scenario);
    assert_eq!(answer.code, Some(0), "{}{}", answer.stdout, answer.stderr);
    let summary = desk.summary("out");
    let text = printed(&desk, "a.0.stdout");
    assert!(shortest(&text) >= 40.0 && text.contains("2 received"), "{text}");
    let uptime: f64 = text.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(uptime >= 103.0, "{text}");
    let machines = summary["guests"]["machines"].as_array().unwrap();
    let own = machines.iter().map(|machine| machine.get("tdf").and_then(|tdf| tdf.as_f64()));
    assert_eq!(own.collect::<Vec<_>>(), [Some(2.0), None]);
    // It was started after a second of the run, and its 1 s between pings is 0.5 s of the run.
    let program = &summary["guests"]["programs"][0];
    let seconds = |key: &str| program[key].as_f64().unwrap();
    let took = seconds("end_s") - seconds("start_s");
    assert!(seconds("start_s") >= 1.0 && took >= 0.5, "{program}");
    assert!(!kept_pace(&summary) || seconds("start_s") < 1.5, "{program}");
    let flows = summary["flows"].as_array().unwrap();
    let flow = flows.iter().find(|flow| flow["app"] == "transfer").unwrap();
    assert!(flow["end_s"].as_f64().unwrap() >= 1.5 && flow["rtt_min_ms"].as_f64().unwrap() >= 20.0, "{flow}");
    assert!(!kept_pace(&summary) || flow["rtt_min_ms"].as_f64().unwrap() < 38.0, "{flow}");
}

/// Runs a scenario with `cpu_share`, and returns its summary, too; none where this user may not limit the CPU.
fn run_with_shares(desk: &Desk, scenario: &str) -> Option<(Answer, serde_json::Value)> {
    let answer = run(desk, scenario);
    if answer.stderr.contains("control group") || answer.stderr.contains("cpu controller") {
        warpline_skip::skip("cpu-controller", answer.stderr);
        return None;
    }
    assert_eq!(answer.code, Some(0), "{}{}", answer.stdout, answer.stderr);
    Some((answer, desk.summary("out")))
}

#[test]
fn a_share_of_a_core_is_reported_with_the_periods_in_which_it_was_the_limit() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    let scenario = r#"duration = "1s"
clock = { mode = "dilated", tdf = 3 }
link = [{ between = ["a", "b"], rate = "10Mbit/s", delay = "10ms" }]
[[host]]
name = "a"
endpoint = "guest"
cpu_share = 0.2
cpu_period = "20ms"
[[host.program]]
command = "while :; do :; done"
expect = "running"
[[host]]
name = "b"
endpoint = "guest"
"#;
    let Some((answer, summary)) = run_with_shares(&desk, scenario) else { return };
    let machines = summary["guests"]["machines"].as_array().unwrap();
    let cpu = &machines[0]["cpu"];
    assert_eq!((&cpu["share"], &cpu["period_ms"]), (&0.2.into(), &60.0.into()));
    assert!(cpu["throttled_periods"].as_u64().unwrap() > 0, "{cpu}");
    assert!(cpu["throttled"].as_f64().unwrap() > 0.0 && machines[1].get("cpu").is_none(), "{summary}");
    assert!(answer.stdout.contains("20.0 % of a core"), "{}", answer.stdout);
}

#[test]
fn what_a_guest_with_too_little_cpu_cannot_read_is_dropped_by_its_network_card() {
    let Some(_turn) = guests(&["python3"]) else { return };
    let desk = Desk::new();
    // The receiver gets a millisecond in each second, and its ring has room for some 2800 of the packets.
    let scenario = r#"duration = "1s"
clock = { mode = "dilated", tdf = 4 }
link = [{ between = ["a", "b"], rate = "1Gbit/s", delay = "10ms", queue = "20000p" }]
[[host]]
name = "a"
endpoint = "guest"
[[host.program]]
command = """python3 -c 'import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(8000): s.sendto(bytes(1400), (os.environ["WARPLINE_ADDR_B"], 9))'"""
[[host]]
name = "b"
endpoint = "guest"
cpu_share = 0.001
"#;
    let Some((answer, summary)) = run_with_shares(&desk, scenario) else { return };
    let hosts = summary["guests"]["hosts"].as_array().unwrap();
    let drops = |number: usize| hosts[number]["card_drops"].as_u64().unwrap();
    assert!(drops(1) > 1000 && drops(0) == 0, "{summary}");
    assert_eq!(summary["live"]["audit"]["lost_outside"], 0, "{summary}");
    assert!(answer.stdout.contains("packets dropped by the network card of b"), "{}", answer.stdout);
}

fn dilate(desk: &Desk, words: &[&str]) -> Answer {
    let mut command = desk.program(&[&["dilate"], words].concat());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!((kernels(pid), directories(pid)), (vec![], 0), "{words:?} left something behind");
    answer
}

#[test]
fn a_command_in_dilated_time_reaches_its_peer_and_its_exit_code_is_returned() {
    let Some(_turn) = guests(&["ping", "curl"]) else { return };
    let desk = Desk::new();
    let line =
        "echo out; echo err >&2; ping -n -c 2 -i 1 $WARPLINE_PEER; ping -n -c 1 $WARPLINE_PEER6; exit 7";
    let answer = dilate(&desk, &["--tdf", "4", "--delay", "10ms", "-v", "--", "sh", "-c", line]);
    assert_eq!(answer.code, Some(7), "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stdout.starts_with("out\n") && answer.stderr.starts_with("err\n"), "{answer:?}");
    assert_eq!(answer.stdout.matches("0% packet loss").count(), 2, "{}", answer.stdout);
    assert!(shortest(&answer.stdout) >= 20.0, "{}", answer.stdout);
    // A second between the pings, plus two round trips.
    let wall = answer.stderr.split_once(" s perceived in ").unwrap_or_else(|| panic!("{}", answer.stderr)).1;
    let wall: f64 = wall.split(' ').next().unwrap().parse().unwrap();
    assert!(wall >= 4.0 * 1.02 && answer.stderr.contains("TDF 4"), "{}", answer.stderr);
    // The peer's own services, and the command that it runs.
    let serve = "echo served > /run/file; cd /run; exec python3 -m http.server 80";
    let line = "echo hello | timeout 500 nc -N $WARPLINE_PEER 7; curl -s --retry 500 --retry-delay 1 --retry-connrefused http://$WARPLINE_PEER/file";
    if Command::new("sh")
        .args(["-c", "command -v nc && command -v python3"])
        .stdout(Stdio::null())
        .status()
        .unwrap()
        .success()
    {
        let words =
            ["--tdf", "2", "--cc", "reno", "--sysctl", "net.ipv4.tcp_sack=0", "--peer-command", serve];
        let answer = dilate(&desk, &[&words[..], &["--", "sh", "-c", line]].concat());
        assert_eq!((answer.code, &answer.stdout[..]), (Some(0), "hello\nserved\n"), "{}", answer.stderr);
    }
}

#[test]
fn mistakes_are_reported_before_anything_starts() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    for (words, code, told) in [
        (&["--tdf", "0", "--", "true"][..], 2, "billionth"),
        (&["--rate", "12parsec", "--", "true"], 2, "12parsec"),
        (&["--kernel", "nope", "--", "true"], 2, "there is no guest kernel `nope`"),
        (&["--cpu-share", "50", "--", "true"], 2, "50 is not a share of a core"),
        (&["--memory", "1MB", "--", "true"], 2, "too little memory"),
        (&["--", "no-such-program"], 127, "no such program"),
        (&["--", "/dev/null"], 126, "not an executable program"),
        (&["--cc", "nothing", "--", "true"], 1, "nothing"),
    ] {
        let answer = dilate(&desk, words);
        assert_eq!(answer.code, Some(code), "{words:?}: {}", answer.stderr);
        assert!(answer.stderr.contains(told), "{words:?}: {}", answer.stderr);
    }
}

#[test]
fn a_variable_that_is_no_text_does_no_harm() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    let mut command = desk.program(&["dilate", "--", "true"]);
    let output = command.env("ODD", OsStr::from_bytes(b"\xff")).stdin(Stdio::null()).output().unwrap();
    let answer = Answer::from(output);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
}

#[test]
fn an_interrupt_reaches_the_command_and_sigterm_ends_everything() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    for (signal, code, said) in [("INT", 5, "caught\n"), ("TERM", 143, "")] {
        let line =
            "trap 'echo caught; exit 5' INT; touch /run/ready; echo ready; while :; do sleep 0.1; done";
        let mut command = desk.program(&["dilate", "--tdf", "2", "--", "sh", "-c", line]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        std::io::BufRead::read_line(&mut lines, &mut first).unwrap();
        assert_eq!(first, "ready\n");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), &rest[..]), (Some(code), said), "{signal}");
        assert_eq!((kernels(child.id()), directories(child.id())), (vec![], 0), "{signal}");
    }
}

#[test]
fn a_signal_while_the_guests_start_gives_its_own_exit_code() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = desk.program(&["dilate", "--", "sleep", "100"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        // Signals are heeded before the first directory of a guest is there.
        while directories(child.id()) == 0 {
            assert_eq!(child.try_wait().unwrap(), None, "{signal}");
            pause();
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!((kernels(child.id()), directories(child.id())), (vec![], 0), "{signal}");
    }
}

#[test]
fn a_kill_leaves_no_kernel_and_clean_removes_the_directories() {
    let Some(_turn) = guests(&[]) else { return };
    let desk = Desk::new();
    let mut command = desk.program(&["dilate", "--", "sh", "-c", "echo ready; sleep 100"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut first)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // The start of another process may have removed them.
    let left = directories(child.id());
    assert!(left <= 2, "{left}");
    let answer = desk.warpline(&["clean"]).fine();
    assert!(left == 0 || answer.stdout.contains("guest"), "{}", answer.stdout);
    assert_eq!((directories(child.id()), kernels(child.id())), (0, vec![]));
}

#[test]
fn a_change_of_the_terminals_size_reaches_a_shell() {
    let Some(_turn) = guests(&["python3"]) else { return };
    let desk = Desk::new();
    let shell = "trap 'stty size; exit 9' WINCH; echo ready; while :; do sleep 0.05; done";
    let words = ["dilate", "--tdf", "2", "--", "sh", "-c", shell];
    let answer = on_a_terminal(&desk, "xterm", &words);
    assert_eq!(answer.code, Some(9), "{answer:?}");
    assert!(answer.stdout.contains("50 160"), "{answer:?}");
}
