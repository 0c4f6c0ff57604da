//! Runs under the real clock, with common programs. The tests are skipped if namespaces are not allowed or a
//! program is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::{Answer, Desk, pause};

/// One test at a time: tests of live networks would see each other's processes and interfaces, and make each other late.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for this test's turn. `None` if the machine lacks something that it needs.
pub(crate) fn turn(tools: &[&str]) -> Option<MutexGuard<'static, ()>> {
    let works = |command: &mut Command| {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    if !works(Command::new("unshare").args(["--net", "true"])) {
        warpline_skip::skip("root", "this user may not make network namespaces here");
        return None;
    }
    for tool in tools {
        if !works(Command::new("sh").args(["-c", "command -v \"$0\"", tool])) {
            warpline_skip::skip("program", format!("there is no {tool}"));
            return None;
        }
    }
    Some(alone())
}

/// Waits for this test's turn.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Duration of a run: far more than it needs, because it ends with its programs.
const ENOUGH: &str = "600s";

/// The condition for the end of a run: these programs of host a have ended.
fn until(numbers: impl IntoIterator<Item = usize>) -> String {
    let conditions: Vec<String> = numbers.into_iter().map(|number| format!("\"a.{number} exits\"")).collect();
    format!("until = [{}]\n", conditions.join(", "))
}

/// a - r1 - r2 - b, and a simulated host m on r2. `programs` run on a, and servers on b, each with a further key. The run ends when all
/// programs on a have ended.
fn path(programs: &[String], servers: &[(&str, &str)]) -> String {
    until(0..programs.len()) + &timed(ENOUGH, programs, servers)
}

/// The same with another duration.
fn timed(duration: &str, programs: &[String], servers: &[(&str, &str)]) -> String {
    let list = |programs: Vec<String>| programs.join(",\n  ");
    let servers = servers
        .iter()
        .map(|(words, more)| format!("{{ command = {words:?}, expect = \"running\", {more} }}"));
    format!(
        r#"name = "path"
duration = "{duration}"
clock = {{ mode = "real" }}
link = [
  {{ between = ["a", "r1"], rate = "1Gbit/s", delay = "2ms", record = ["pcap"] }},
  {{ between = ["r1", "r2"], rate = "100Mbit/s", delay = "5ms", mtu = "1400B", record = ["pcap"] }},
  {{ between = ["r2", "b"], rate = "1Gbit/s", delay = "3ms" }},
  {{ between = ["r2", "m"], rate = "1Gbit/s", delay = "3ms" }},
]
[[host]]
name = "a"
endpoint = "live"
program = [
  {}
]
[[host]]
name = "b"
endpoint = "live"
program = [{}]
"#,
        list(programs.to_vec()),
        list(servers.collect())
    )
}

fn shell(line: &str, more: &str) -> String {
    format!("{{ command = {line:?}{more} }}")
}

/// What a program of the run `out` has printed.
pub(crate) fn printed(desk: &Desk, name: &str) -> String {
    fs::read_to_string(desk.path().join("out/programs").join(name)).unwrap()
}

pub(crate) fn run(desk: &Desk, scenario: &str) -> Answer {
    desk.write("live.toml", scenario);
    desk.warpline(&["run", "live.toml", "--out", "out", "--force"])
}

/// Whether a run reports that the emulator kept pace. Values that depend on that are checked only then.
pub(crate) fn kept_pace(summary: &serde_json::Value) -> bool {
    summary["live"]["kept_pace"].as_bool().unwrap_or_else(|| panic!("no audit: {summary}"))
}

/// The shortest round trip that ping reports, in milliseconds.
pub(crate) fn shortest(ping: &str) -> f64 {
    let line = ping.lines().find(|line| line.contains("min/avg/max")).unwrap_or_else(|| panic!("{ping}"));
    line.split(" = ").nth(1).unwrap().split('/').next().unwrap().parse().unwrap()
}

#[test]
fn ping_sees_the_delay_of_the_links_and_every_node_answers() {
    let Some(_turn) = turn(&["ping"]) else { return };
    let desk = Desk::new();
    // ping waits for the last answer as long as between two, or for two round trips.
    let ping = |options: &str| shell(&format!("ping -n -c 4 -i 1 {options}"), "");
    let programs = [
        "-4 {b}",
        "-6 {b:6}",
        "-4 {r1}",
        "-6 {r2:6}",
        "-4 {m}",
        "-4 -M dont -s 1400 -p 5a {b}",
        "-4 -s 4000 {r1}",
        "-6 -s 4000 {r1:6}",
    ]
    .map(ping);
    let answer = run(&desk, &path(&programs, &[])).fine();
    let summary = desk.summary("out");
    // Two links each way between a and r2, three to b and m; 84 bytes on 100 Mbit/s and 1 Gbit/s take 7 and 0.7 us.
    // 1428 bytes cross the middle in fragments of 1396 and 52: 11.4, 115.8 and 0.4 us each way. The last two go to the
    // router in fragments, and so do the answers.
    for (number, expected) in [20.0, 20.0, 4.0, 14.0, 20.0, 20.25, 4.0, 4.0].into_iter().enumerate() {
        let text = printed(&desk, &format!("a.{number}.stdout"));
        let rtt = shortest(&text);
        // Never early; and not much late if the run reports that it kept pace.
        assert!(
            rtt >= expected && (rtt < expected + 15.0 || !kept_pace(&summary)),
            "{number}: {rtt}\n{text}"
        );
        assert!(text.contains("4 received"), "{text}");
    }
    // Each router decrements the TTL.
    assert!(printed(&desk, "a.0.stdout").contains("ttl=62"));
    assert_eq!((&summary["clock"], &summary["complete"]), (&"real".into(), &true.into()));
    let live = &summary["live"];
    assert!(live["audit"]["lateness"]["packets"].as_u64().unwrap() >= 40, "{live}");
    assert_eq!((&live["audit"]["lost_outside"], &live["hosts"][0]["host"]), (&0.into(), &"a".into()));
    assert_eq!(
        (&live["programs"][0]["outcome"], &live["programs"][0]["ok"]),
        (&"exit code 0".into(), &true.into())
    );
    assert!(answer.stdout.contains("lateness"), "{}", answer.stdout);
    assert!(desk.path().join("out/report.html").exists());
    // Captures have the real bytes of packets, with the time to live on that link.
    for (capture, ttl) in [("a-r1", 64), ("r1-r2", 63)] {
        let bytes = fs::read(desk.path().join(format!("out/{capture}.pcapng"))).unwrap();
        let ends = [10, 0, 0, 1, 10, 0, 0, 4];
        let found: Vec<usize> = (4..bytes.len() - 60).filter(|&at| bytes[at..].starts_with(&ends)).collect();
        assert!(
            found.iter().all(|&at| bytes[at - 4] == ttl) && found.len() >= 8,
            "{capture}: {}",
            found.len()
        );
        assert!(
            found.iter().any(|&at| bytes[at + 32..at + 60].iter().all(|&byte| byte == 0x5a)),
            "{capture}"
        );
    }
}

#[test]
fn traceroute_sees_the_routers_and_a_link_with_a_small_mtu_reports_it() {
    let Some(_turn) = turn(&["ping", "traceroute", "curl"]) else { return };
    let desk = Desk::new();
    let programs = [
        shell("traceroute -n -q 1 -w 60 {b}", ""),
        shell("traceroute -n -q 1 -w 60 -6 {b:6}", ""),
        shell("traceroute -n -q 1 -w 60 {m}", ""),
        shell("ping -n -c 1 -M do -s 1400 {b}", ", expect = 1, start = \"500ms\""),
        shell("ping -n -6 -c 3 -W 10 -i 0.2 -s 1400 {b:6}", ", start = \"500ms\""),
        shell("ping -n -c 1 -W 60 10.99.0.1", ", expect = 1"),
        shell("curl -sS --max-time 60 http://{m}/", ", expect = 7"),
    ];
    run(&desk, &path(&programs, &[])).fine();
    let hops = |text: &str| -> Vec<String> {
        text.lines().skip(1).filter_map(|line| Some(line.split_whitespace().nth(1)?.to_owned())).collect()
    };
    let plan = "fd77:6172:7075::";
    assert_eq!(hops(&printed(&desk, "a.0.stdout")), ["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    assert_eq!(
        hops(&printed(&desk, "a.1.stdout")),
        [format!("{plan}2"), format!("{plan}3"), format!("{plan}4")]
    );
    assert_eq!(hops(&printed(&desk, "a.2.stdout")), ["10.0.0.2", "10.0.0.3", "10.0.0.5"]);
    let narrow = printed(&desk, "a.3.stdout");
    assert!(narrow.contains("From 10.0.0.2") && narrow.contains("mtu = 1400"), "{narrow}");
    let narrow = printed(&desk, "a.4.stdout");
    assert!(narrow.contains(&format!("From {plan}2")) && narrow.contains("mtu=1400"), "{narrow}");
    assert!(narrow.contains(&format!("bytes from {plan}4")), "{narrow}");
    let nowhere = printed(&desk, "a.5.stdout");
    assert!(
        nowhere.contains("From 10.0.0.2") && nowhere.contains("Destination Net Unreachable"),
        "{nowhere}"
    );
}

/// A bottleneck of 10 Mbit/s with 60 packets before it.
const BOTTLENECK: &str = r#"
link = [
  { between = ["a", "r1"], rate = "1Gbit/s", delay = "1ms" },
  { between = ["c", "r1"], rate = "1Gbit/s", delay = "1ms" },
  { between = ["r1", "r2"], rate = "10Mbit/s", delay = "10ms", queue = { kind = "droptail", limit = "60p" } },
  { between = ["r2", "b"], rate = "1Gbit/s", delay = "1ms" },
  { between = ["r2", "d"], rate = "1Gbit/s", delay = "1ms" },
]
"#;

/// An iperf3 client that sends for this many seconds, after which the run ends.
fn iperf(seconds: u32) -> String {
    format!(
        r#"duration = "{ENOUGH}"
until = "client exits"
warmup = "3s"
clock = {{ mode = "real" }}
{BOTTLENECK}
[[host]]
name = "b"
endpoint = "live"
program = [{{ command = ["iperf3", "-s"], expect = "running", ready = 5201 }}]
[[host]]
name = "a"
endpoint = "live"
program = [{{ name = "client", command = "iperf3 -c {{b}} -t {seconds} -O 2 -C cubic --json", start = "500ms" }}]
"#
    )
}

/// What iperf3 received, in bit/s.
fn received(desk: &Desk) -> f64 {
    let text = printed(desk, "a.client.stdout");
    let answer: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    answer["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_live_flow_gets_what_a_simulated_one_gets() {
    let Some(_turn) = turn(&["iperf3"]) else { return };
    let desk = Desk::new();
    run(&desk, &iperf(10)).fine();
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\nstart = \"500ms\"\n";
    desk.write("simulated.toml", &format!("duration = \"13s\"\nwarmup = \"3s\"\n{BOTTLENECK}{flow}"));
    desk.warpline(&["run", "simulated.toml", "--out", "simulated"]).fine();
    let simulated = desk.summary("simulated")["flows"][0]["goodput_bps"].as_f64().unwrap();
    let live = received(&desk);
    // The row of the connection agrees with the program and has its retransmissions.
    let summary = desk.summary("out");
    let alike = (live / simulated - 1.0).abs() < 0.05;
    assert!(alike || !kept_pace(&summary), "live {live}, simulated {simulated}: {summary}");
    let flows = summary["flows"].as_array().unwrap();
    let goodput = |flow: &serde_json::Value| flow["goodput_bps"].as_f64().unwrap();
    let row = flows.iter().max_by(|a, b| goodput(a).total_cmp(&goodput(b))).unwrap();
    assert_eq!((&row["app"], &row["from"], &row["to"]), (&"program".into(), &"a".into(), &"b".into()));
    assert!((goodput(row) / live - 1.0).abs() < 0.05 || !kept_pace(&summary), "{row}");
    assert!(row["lost_packets"].as_u64().unwrap() > 0 && row["retransmitted_packets"].as_u64().unwrap() > 0);
}

#[test]
fn live_and_simulated_flows_share_a_link() {
    let Some(_turn) = turn(&["iperf3"]) else { return };
    let desk = Desk::new();
    let flow = "[[flow]]\nfrom = \"c\"\nto = \"d\"\ncc = \"cubic\"\n";
    run(&desk, &format!("{}{flow}", iperf(5))).fine();
    let summary = desk.summary("out");
    let (simulated, live) = (summary["flows"][0]["goodput_bps"].as_f64().unwrap(), received(&desk));
    let pace = kept_pace(&summary);
    assert!(simulated > 0.0 && live > 0.0, "simulated {simulated}, live {live}");
    assert!(simulated > 1.5e6 && live > 1.5e6 || !pace, "simulated {simulated}, live {live}");
    // The sum is over the whole measured time; the two rates above are over different parts of it.
    let both = summary["totals"]["goodput_bps"].as_f64().unwrap();
    assert!(both < 10e6 && (both > 8.5e6 || !pace), "{both}; simulated {simulated}, live {live}");
}

#[test]
fn a_web_server_answers_curl() {
    let Some(_turn) = turn(&["curl", "python3"]) else { return };
    let desk = Desk::new();
    // The client need not wait: it is started when the server is ready.
    let get = "curl -sS http://$WARPLINE_ADDR_B:8000/live.toml";
    let server = ("sleep 1; exec python3 -m http.server 8000", "ready = 8000");
    run(&desk, &path(&[shell(get, "")], &[server])).fine();
    assert_eq!(printed(&desk, "a.0.stdout"), fs::read_to_string(desk.path().join("live.toml")).unwrap());
}

#[test]
fn programs_that_do_not_end_as_expected_make_the_run_fail() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let programs = [
        shell("echo so far >&2; echo no further >&2; exit 3", ""),
        shell("trap '' TERM; sleep 86461 & sleep 86461; sleep 86461", ""),
        "{ command = [\"no-such-program\"] }".to_owned(),
        shell("true", ", expect = \"running\""),
        shell("exit 3", ", expect = 3"),
        shell("exit 9", ", expect = \"any\""),
        shell("kill -9 $$", ""),
    ];
    // The second does not end.
    let scenario = until([0, 2, 3, 4, 5, 6]) + &timed(ENOUGH, &programs, &[]);
    let answer = run(&desk, &scenario);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    for part in [
        "program 0 of host a (echo so far >&2; echo no further >&2; exit 3) ended with exit code 3 at ",
        "; expected: exit code 0; its output: out/programs/a.0.stderr; capture: out/a-r1.pcapng, out/r1-a.pcapng",
        "    so far\n    no further",
        "program 1 of host a",
        "still ran at the end and was stopped",
        "program 2 of host a (no-such-program)",
        "No such file",
        "program 3 of host a (true)",
        "expected: running",
        "with signal 9",
    ] {
        assert!(answer.stderr.contains(part), "{part}\n{}", answer.stderr);
    }
    assert!(
        !answer.stderr.contains("program 4") && !answer.stderr.contains("program 5"),
        "{}",
        answer.stderr
    );
    assert_eq!(desk.summary("out")["live"]["programs"][1]["ok"], false);
    assert_eq!(processes("86461"), 0);
}

#[test]
fn a_limit_on_lag_ends_the_run_and_keeps_the_results() {
    let Some(_turn) = turn(&["ping"]) else { return };
    let desk = Desk::new();
    let scenario = path(&[shell("ping -n -i 0.1 {b}", "")], &[]);
    let scenario = scenario.replace("mode = \"real\"", "mode = \"real\", max_lag = \"1ns\"");
    let answer = run(&desk, &scenario);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(answer.stderr.contains("more than the limit of 1ns"), "{answer:?}");
    assert_eq!(desk.summary("out")["stopped"], "lag");
}

/// The processes with this word on their command line, as directories of `/proc`.
pub(crate) fn with_word(word: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |line: Vec<u8>| line.split(|&byte| byte == 0).any(|found| found == word.as_bytes());
    entries.filter(|entry| fs::read(entry.join("cmdline")).is_ok_and(has)).collect()
}

/// How many these are.
pub(crate) fn processes(word: &str) -> usize {
    with_word(word).len()
}

/// This machine's interfaces that are the near ends of our hosts.
fn interfaces() -> BTreeSet<String> {
    let names = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| ["a", "b", "eth0"].contains(&name.as_str())).collect()
}

/// A run of an hour with a program that sleeps, and that has a background process; `word` is on both command lines.
pub(crate) fn sleeper(desk: &Desk, word: &str) -> Child {
    let line = format!("sleep {word} & sleep {word}");
    desk.write("live.toml", &timed("1h", &[shell(&line, "")], &[]));
    let run = ["run", "live.toml", "--out", "out"];
    let mut child = desk.program(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while processes(word) < 2 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its programs had started");
        pause();
    }
    child
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let Some(_turn) = turn(&[]) else { return };
    let before = interfaces();
    for (signal, word) in [("-INT", "86471"), ("-TERM", "86472")] {
        let desk = Desk::new();
        let child = sleeper(&desk, word);
        kill(&child, signal);
        let answer = Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.code, Some(130), "{answer:?}");
        assert!(answer.stderr.contains("of real time"), "{answer:?}");
        assert_eq!((processes(word), interfaces()), (0, before.clone()));
        assert_eq!(desk.summary("out")["stopped"], "interrupted");
        assert!(desk.path().join("out/programs/a.0.stdout").exists());
    }
}

#[test]
fn two_interrupts_also_end_the_programs() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let child = sleeper(&desk, "86491");
    kill(&child, "-INT");
    kill(&child, "-INT");
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!((answer.code, processes("86491")), (Some(130), 0), "{answer:?}");
    assert!(!desk.names("").iter().any(|name| name.starts_with('.')), "{:?}", desk.names(""));
}

#[test]
fn the_next_run_removes_what_a_killed_run_left() {
    let Some(_turn) = turn(&[]) else { return };
    let before = interfaces();
    let desk = Desk::new();
    let mut child = sleeper(&desk, "86481");
    crate::killed::kill_both(&mut child);
    run(&desk, &path(&[shell("true", "")], &[])).fine();
    assert_eq!((processes("86481"), interfaces()), (0, before));
    assert_eq!(desk.names(""), ["live.toml", "out", "small.toml"]);
}
