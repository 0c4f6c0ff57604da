//! `cap`, `capd` and `treno` as users run them, on loopback and across an emulated link.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Answer, Desk};

/// A server on its own port, which is killed when dropped.
struct Server {
    child: Child,
    log: BufReader<ChildStdout>,
    port: String,
}

impl Server {
    fn start(desk: &Desk, more: &[&str]) -> Server {
        let mut words = vec!["capd", "--listen", "127.0.0.1", "--port", "0", "--json"];
        words.extend(more);
        let mut child = desk.program(&words).stdout(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server { child, log, port: String::new() };
        let listening = server.line();
        server.port = listening["listening"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
        server
    }

    /// The next line of its log.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.log.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A test that any machine keeps up with.
fn gentle<'a>(server: &'a Server, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["cap", "127.0.0.1", "--port", &server.port, "-t", "500ms", "--max-rate", "20Mbit/s"];
    words.extend(more);
    words
}

fn tests(answer: &Answer) -> Vec<Value> {
    let value: Value =
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    value["tests"].as_array().unwrap().clone()
}

#[test]
fn cap_measures_both_directions_and_uses_the_rfcs_names() {
    let desk = Desk::new();
    let mut server = Server::start(&desk, &[]);
    let answer = desk.warpline(&gentle(&server, &["--both", "--json", "--anyway"])).fine();
    let tests = tests(&answer);
    assert_eq!(tests.len(), 2);
    let log = server.line();
    assert_eq!((&log["direction"], &log["ended"]), (&"forward".into(), &"complete".into()));
    // The clocks are one, so the delay is what it takes to get through the kernel.
    let least = log["report"]["receiver"]["delay_min_us"].as_i64().unwrap();
    assert!((-100..60_000_000).contains(&least), "{log}");
    for test in tests {
        let bps = test["bulk_transfer_capacity_bps"].as_f64().unwrap();
        assert!(bps > 0.0 && bps < 20e6, "{bps}");
        let told = test["data_sent_bits"].as_f64().unwrap() / test["elapsed_time_s"].as_f64().unwrap();
        assert!((told / bps - 1.0).abs() < 1e-9);
        for name in [
            "statements",
            "congestion_avoidance_capacity",
            "preservation_of_self_clock",
            "flow_based_path_properties",
            "calibration_checks",
            "advanced_tcp_features",
            "reverse_path_load",
        ] {
            assert!(test[name].is_object(), "{name}: {test}");
        }
    }
    let answer = desk.warpline(&gentle(&server, &["--anyway"])).fine();
    let report = &answer.stdout;
    assert!(report.contains("BTC") && report.lines().count() <= 40, "a screen: {report}");
    let answer = desk.warpline(&gentle(&server, &["--anyway", "--verbose"])).fine();
    for name in
        ["BTC", "heroic clock preservation", "lost transmission opportunities", "cwnd equal to ssthresh"]
    {
        assert!(answer.stdout.contains(name), "{name}: {}", answer.stdout);
    }
}

#[test]
fn the_error_for_a_stranger_who_requests_too_much_says_what_is_allowed() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let answer = desk.warpline(&gentle(&server, &["--reverse", "--cc", "fixed:segments=3000"]));
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("any but fixed is allowed"), "{answer:?}");
    assert!(answer.stderr.contains("--key-file"), "{answer:?}");
}

#[test]
fn results_are_a_run_directory_that_other_commands_read() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    desk.warpline(&gentle(&server, &["--out", "one", "--trace", "--quiet", "--anyway"])).fine();
    desk.warpline(&gentle(&server, &["--out", "two", "--quiet", "--anyway"])).fine();
    let names = desk.names("one");
    for name in ["btc.json", "btc.txt", "cap.sqlog", "client-server.pcapng", "report.html", "tcp.parquet"] {
        assert!(names.contains(&name.to_owned()), "{name} is not in {names:?}");
    }
    assert_eq!(desk.summary("one")["flows"][0]["app"], "cap");
    desk.warpline(&["compare", "one", "two"]).fine();
    desk.warpline(&["report", "one", "two", "--out", "both.html"]).fine();
    // It is not overwritten without --force.
    let again = desk.warpline(&gentle(&server, &["--out", "one", "--anyway"]));
    assert_eq!(again.code, Some(3), "{again:?}");
}

#[test]
fn whether_results_can_be_written_is_checked_before_a_test() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    desk.warpline(&gentle(&server, &["--out", "out", "--quiet", "--anyway"])).fine();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    // A test would find nobody at the port, and show its progress.
    for words in [
        &["cap", "127.0.0.1", "--port", &free, "-t", "1s", "--out", "out"][..],
        &["treno", "127.0.0.1", "--mode", "udp", "-t", "500ms", "--interval", "100ms", "--out", "out"],
    ] {
        let answer = desk.warpline(words);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(3), ""), "{answer:?}");
        assert!(answer.stderr.contains("out holds an earlier run"), "{answer:?}");
    }
}

#[test]
fn what_was_measured_is_printed_also_if_it_cannot_be_written() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let treno =
        ["treno", "127.0.0.1", "--mode", "udp", "-t", "600s", "--interval", "100ms", "--out", "other"];
    for (client, out) in [(under_way(&desk, &server), "out"), (begun(&desk, &treno), "other")] {
        // Somebody takes the place meanwhile.
        std::fs::create_dir(desk.path().join(out)).unwrap();
        desk.write(&format!("{out}/theirs"), "");
        terminate(client.id());
        let answer = Answer::from(client.wait_with_output().unwrap());
        assert_eq!(answer.code, Some(3), "{answer:?}");
        assert!(answer.stdout.contains("Bulk transfer capacity"), "{answer:?}");
        assert!(answer.stderr.contains("is not a run directory"), "{answer:?}");
        assert_eq!(desk.names(out), ["theirs"]);
    }
}

#[test]
fn csv_has_a_row_for_each_interval() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let answer = desk.warpline(&gentle(&server, &["--csv", "--interval", "100ms", "--anyway"])).fine();
    let mut lines = answer.stdout.lines();
    assert!(lines.next().unwrap().starts_with("time_s,goodput_bps,cwnd_bytes"));
    assert!((2..=5).contains(&lines.count()), "{}", answer.stdout);
}

#[test]
fn errors_distinguish_a_missing_server_a_wrong_key_and_a_wrong_option() {
    let desk = Desk::new();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let answer = desk.warpline(&["cap", "127.0.0.1", "--port", &free, "-t", "1s"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("start `warpline capd` there"), "{answer:?}");
    desk.write("key", "a long enough key\n");
    desk.write("other", "another long key\n");
    let server = Server::start(&desk, &["--key-file", "key"]);
    desk.warpline(&gentle(&server, &["--key-file", "key", "--anyway"])).fine();
    let answer = desk.warpline(&gentle(&server, &["--key-file", "other"]));
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("--key-file"), "{answer:?}");
    let answer = desk.warpline(&gentle(&server, &["--segment", "20B"]));
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("128 to 65507 bytes"), "{answer:?}");
}

#[test]
fn times_that_do_not_pass_are_refused() {
    let desk = Desk::new();
    for command in ["cap", "treno"] {
        for option in ["--interval", "--patience"] {
            for time in ["0s", "999us"] {
                let answer = desk.warpline(&[command, "127.0.0.1", "-t", "100ms", option, time]);
                assert_eq!(answer.code, Some(2), "{answer:?}");
                assert!(answer.stderr.contains(option), "{answer:?}");
                assert!(answer.stderr.contains("at least 1ms"), "{answer:?}");
            }
        }
    }
    for (option, time, allowed) in [
        ("--patience", "0s", "at least 1ms"),
        ("--max-duration", "99ms", "100ms to 24h"),
        ("--max-duration", "25h", "100ms to 24h"),
    ] {
        let answer = desk.warpline(&["capd", option, time]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(option) && answer.stderr.contains(allowed), "{answer:?}");
    }
}

#[test]
fn results_are_kept_if_the_server_is_killed_in_mid_test() {
    let desk = Desk::new();
    let mut server = Server::start(&desk, &[]);
    let client = under_way(&desk, &server);
    server.child.kill().unwrap();
    let answer = Answer::from(client.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("killed in mid-test"), "{answer:?}");
    assert!(sent(&desk) > 0, "{answer:?}");
}

/// A client in the middle of a long test, which writes to `out`.
fn under_way(desk: &Desk, server: &Server) -> Child {
    let mut words = gentle(server, &["--interval", "100ms", "--out", "out", "--anyway"]);
    words[5] = "600s";
    begun(desk, &words)
}

/// The program in the middle of this test, which shows its progress every 100 ms.
fn begun(desk: &Desk, words: &[&str]) -> Child {
    let mut child = desk.program(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Byte by byte, so that later output is left to the caller. Each interval with a measurement has a line.
    let stdout = child.stdout.as_mut().unwrap();
    let lines = std::io::Read::bytes(stdout).map(Result::unwrap).filter(|byte| *byte == b'\n');
    assert_eq!(lines.take(3).count(), 3, "it has ended");
    child
}

fn terminate(process: u32) {
    let done = Command::new("sh").args(["-c", &format!("kill -TERM {process}")]).status().unwrap();
    assert!(done.success());
}

/// Bits that the client of [`under_way`] has sent.
fn sent(desk: &Desk) -> u64 {
    let text = std::fs::read_to_string(desk.path().join("out/btc.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["data_sent_bits"].as_u64().unwrap()
}

/// What a path does to the datagrams of a test after a while.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// It carries no more datagrams.
    Silence,
    /// The client gets another address, because a NAT has forgotten it.
    Rebinding,
    /// Every datagram arrives twice, with a forged copy of each, and the first requests are repeated again and again.
    Forgery,
    /// It carries small datagrams only, and says nothing about it, as a tunnel whose messages a firewall drops.
    Narrow,
}

/// Whether a path with this trouble loses a datagram of this many bytes.
fn lost(trouble: Trouble, len: usize) -> bool {
    match trouble {
        Trouble::Silence => true,
        Trouble::Narrow => len > 1000,
        Trouble::Rebinding | Trouble::Forgery => false,
    }
}

/// A path between client and server that is disturbed after so many datagrams of the client. Ends with the test's process.
fn path(server: &str, trouble: Trouble, after: u32) -> (u16, Arc<AtomicU64>) {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = near.local_addr().unwrap().port();
    let server: SocketAddr = format!("127.0.0.1:{server}").parse().unwrap();
    let pause = Some(Duration::from_millis(1));
    near.set_read_timeout(pause).unwrap();
    let upstream = move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let forged = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&forged);
    std::thread::spawn(move || {
        let (mut far, mut client, mut came) = (upstream(), None, 0);
        let (mut early, mut spoilt, mut buffer) = (Vec::new(), false, [0; 65_536]);
        loop {
            let late = came >= after;
            if late && !spoilt && trouble == Trouble::Rebinding {
                far = upstream();
            }
            spoilt = late;
            if let Ok((len, from)) = near.recv_from(&mut buffer) {
                client = Some(from);
                came += 1;
                let bytes = &mut buffer[..len];
                if early.len() < 4 {
                    early.push(bytes.to_vec());
                }
                if spoilt && lost(trouble, len) {
                    continue;
                }
                far.send_to(bytes, server).unwrap();
                if spoilt && trouble == Trouble::Forgery {
                    far.send_to(bytes, server).unwrap();
                    // The token of another session; then the opening of this one, from the same address and from another.
                    bytes[5] ^= 0xff;
                    far.send_to(bytes, server).unwrap();
                    for question in &early {
                        far.send_to(question, server).unwrap();
                        upstream().send_to(question, server).unwrap();
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            while let (Ok((len, _)), Some(client)) = (far.recv_from(&mut buffer), client) {
                if !(spoilt && lost(trouble, len)) {
                    near.send_to(&buffer[..len], client).unwrap();
                }
            }
        }
    });
    (port, forged)
}

/// Runs a test through a path that is disturbed after 200 datagrams, which is nearly half a second of it.
fn through(trouble: Trouble, more: &[&str]) -> (Answer, u64) {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let (port, forged) = path(&server.port, trouble, 200);
    let port = port.to_string();
    let mut words = vec!["cap", "127.0.0.1", "--port", &port, "--max-rate", "5Mbit/s", "--json", "--anyway"];
    words.extend(more);
    let answer = desk.warpline(&words);
    // The server continues to serve.
    desk.warpline(&gentle(&server, &["--quiet", "--anyway"])).fine();
    (answer, forged.load(Ordering::Relaxed))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "real datagrams take real time")]
fn a_silent_path_is_reported_and_the_silence_is_not_measured() {
    let began = Instant::now();
    let (answer, _) = through(Trouble::Silence, &["-t", "60s", "--patience", "2s"]);
    let took = began.elapsed().as_secs_f64();
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("no longer answers"), "{answer:?}");
    let test = &tests(&answer)[0];
    let elapsed = test["elapsed_time_s"].as_f64().unwrap();
    assert!(elapsed > 0.1 && elapsed + 1.9 < took, "two seconds of waiting are not measured: {test}");
    assert!(test["throughput_bps"].as_f64().unwrap() > 1e6, "{test}");
}

#[test]
fn a_change_of_address_in_mid_test_is_reported() {
    let (answer, _) = through(Trouble::Rebinding, &["-t", "60s"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("address, as the server sees it, has changed"), "{answer:?}");
    assert!(tests(&answer)[0]["data_sent_bits"].as_u64().unwrap() > 100_000, "{answer:?}");
}

#[test]
fn copies_forgeries_and_replays_do_not_disturb_a_test() {
    let (answer, forged) = through(Trouble::Forgery, &["-t", "1500ms"]);
    let answer = answer.fine();
    assert!(forged > 10, "{forged}");
    let test = &tests(&answer)[0];
    assert_eq!(test["outcome"], "complete");
    assert!(test["flow_based_path_properties"]["duplicated"].as_u64().unwrap() > 10, "{test}");
    assert!(test["throughput_bps"].as_f64().unwrap() < 5e6, "{test}");
}

#[test]
fn a_test_in_which_no_data_arrived_has_a_report_and_an_error() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let (port, _) = path(&server.port, Trouble::Narrow, 0);
    let port = port.to_string();
    let words = ["cap", "127.0.0.1", "--port", &port, "-t", "500ms", "--max-rate", "5Mbit/s"];
    for direction in [None, Some("--reverse")] {
        let words: Vec<&str> = words.into_iter().chain(direction).collect();
        let answer = desk.warpline(&words);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert!(answer.stdout.contains("not measured"), "{answer:?}");
        let error = "no data arrived: packets of 1500 bytes may be larger than the path's MTU";
        assert!(answer.stderr.contains(error), "{answer:?}");
    }
}

#[test]
fn signals_end_both_sides_properly() {
    let desk = Desk::new();
    let mut server = Server::start(&desk, &[]);
    let client = under_way(&desk, &server);
    terminate(client.id());
    let answer = Answer::from(client.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert!(sent(&desk) > 0, "{answer:?}");
    terminate(server.child.id());
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

/// Whether this user may make namespaces; says so otherwise.
fn namespaces() -> bool {
    let can = Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        warpline_skip::skip("root", "this user may not make namespaces here");
    }
    can
}

/// Whether the kernel has IPv6; says so otherwise.
fn ipv6() -> bool {
    let has = std::path::Path::new("/proc/sys/net/ipv6").exists();
    if !has {
        warpline_skip::skip("ipv6", "the kernel has none");
    }
    has
}

#[test]
fn cap_and_treno_measure_an_emulated_link() {
    if !namespaces() {
        return;
    }
    let desk = Desk::new();
    let program = env!("CARGO_BIN_EXE_warpline");
    let base = format!("{program} capd -q");
    let line = format!(
        "tries=0; until {program} cap $WARPLINE_BASE -t 1s --json --anyway > cap.json; do \
         tries=$((tries + 1)); [ $tries -lt 100 ] || exit 1; sleep 0.5; done; \
         {program} treno $WARPLINE_BASE --mode udp -t 1s --json --anyway > treno.json; true"
    );
    let link = [
        "shell", "--rate", "10mbit", "--delay", "10ms", "--queue", "60p", "--base", &base, "--", "sh", "-c",
        &line,
    ];
    desk.warpline(&link).fine();
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(desk.path().join(name)).unwrap()).unwrap()
    };
    let cap = &read("cap.json")["tests"][0];
    let bps = cap["throughput_bps"].as_f64().unwrap();
    // 1448 of 1500 bytes are data.
    assert!(bps > 0.0 && bps < 9.66e6, "{cap}");
    assert!(cap["flow_based_path_properties"]["rtt_min_ms"].as_f64().unwrap() >= 20.0);
    let treno = read("treno.json");
    // Linux limits port-unreachable answers; all answers came over the link.
    assert!(treno["rtt_ms"][0].as_f64().unwrap() >= 20.0, "{treno}");
    assert!(treno["throughput_bps"].as_f64().unwrap() < 9.8e6);
}

#[test]
fn over_ipv6_full_segments_fit_the_usual_mtu() {
    if !namespaces() || !ipv6() {
        return;
    }
    let desk = Desk::new();
    let program = env!("CARGO_BIN_EXE_warpline");
    let base = format!("{program} capd -q");
    let cap = |name: &str, options: &str| {
        format!("{program} cap $WARPLINE_BASE6 -t 1s --json --anyway {options} > {name}.json")
    };
    let line = format!(
        "tries=0; until {}; do tries=$((tries + 1)); [ $tries -lt 100 ] || exit 1; sleep 0.5; done; {}; {}; true",
        cap("there", ""),
        cap("back", "--reverse"),
        cap("alone", "--sender-only --mode udp")
    );
    // The shell's interfaces have an MTU of 1500 bytes.
    let link = [
        "shell", "--rate", "10mbit", "--delay", "10ms", "--queue", "60p", "--base", &base, "--", "sh", "-c",
        &line,
    ];
    desk.warpline(&link).fine();
    for name in ["there", "back", "alone"] {
        let text = std::fs::read(desk.path().join(format!("{name}.json"))).unwrap();
        let report = serde_json::from_slice::<Value>(&text).unwrap()["tests"][0].clone();
        assert_eq!(report["outcome"], "complete", "{name}: {report}");
        assert!(report["data_sent_bits"].as_u64().unwrap() > 0, "{name}: {report}");
        let size = report["statements"]["segment_size"].as_str().unwrap();
        assert!(size.contains("1428 bytes of data in packets of 1500 bytes"), "{name}: {size}");
    }
}

#[test]
fn a_link_local_address_is_reached_through_its_zone() {
    if !namespaces() || !ipv6() {
        return;
    }
    let desk = Desk::new();
    let program = env!("CARGO_BIN_EXE_warpline");
    let line = format!(
        "ip link set lo mtu 1400 up; ip addr add fe80::1/64 dev lo nodad; \
         {program} treno fe80::1%lo --mode udp -t 500ms --json --anyway > treno.json; \
         {program} cap fe80::1%lo --sender-only --mode udp -t 500ms --segment 1400B --json --anyway > cap.json; true"
    );
    let mut inside = Command::new("unshare");
    inside.args(["-rn", "sh", "-c", &line]).current_dir(desk.path());
    assert!(inside.status().unwrap().success());
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(desk.path().join(name)).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    };
    let treno = read("treno.json");
    assert!(treno["throughput_bps"].as_f64().unwrap() > 0.0, "{treno}");
    // The interface is found through the zone, too.
    assert_eq!(treno["mtu"], 1400, "{treno}");
    let cap = &read("cap.json")["tests"][0];
    assert!(cap["throughput_bps"].as_f64().unwrap() > 0.0, "{cap}");
    assert_eq!(cap["ends"]["sender"], "fe80::1", "{cap}");
}

#[test]
fn without_a_server_the_capacity_is_that_with_one() {
    if Command::new("linux.uml").arg("--version").output().is_err() {
        return warpline_skip::skip("program", "linux.uml is not installed");
    }
    let desk = Desk::new();
    // Words, not a line for the shell: then `warpline` is the program under test.
    let command = |options: &str, start: u32| {
        let line = format!("warpline cap {{b}} -t 4s --json --anyway {options}");
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("  {{ command = {words:?}, start = \"{start}s\", expect = \"any\" }},\n")
    };
    let programs =
        [command("", 1), command("--sender-only", 7), command("--sender-only --cc reno", 13)].concat();
    // The last of these goes to a host that has no answer.
    let nobody = command("--sender-only --patience 1s", 19).replace("{b}", "203.0.113.9");
    let scenario = format!(
        "name = \"alone\"\nduration = \"25s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\n\
         queue = {{ kind = \"droptail\", limit = \"40p\" }}\n[[host]]\nname = \"a\"\nendpoint = \"guest\"\n\
         program = [\n{programs}{nobody}]\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\nprogram = [{{ command = [\"warpline\", \"capd\", \"-q\"], expect = \"running\" }}]\n"
    );
    std::fs::write(desk.path().join("alone.toml"), scenario).unwrap();
    desk.warpline(&["run", "alone.toml", "--out", "out", "--no-report"]).fine();
    let report = |number: usize| -> Value {
        let path = desk.path().join(format!("out/programs/a.{number}.stdout"));
        let text = std::fs::read(path).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["tests"][0].clone()
    };
    let [with, alone, reno, never] = [0, 1, 2, 3].map(report);
    let rate =
        |report: &Value| report["bulk_transfer_capacity_bps"].as_f64().unwrap_or_else(|| panic!("{report}"));
    // The way back is as fast, and only carries the answers.
    assert!((rate(&alone) / rate(&with) - 1.0).abs() < 0.02, "{alone} {with}");
    assert!((rate(&reno) / rate(&with) - 1.0).abs() < 0.05, "{reno} {with}");
    assert!(alone["probes"].as_str().unwrap().starts_with("ICMP echo through a "), "{alone}");
    assert_eq!(alone["reverse_path_load"], Value::Null);
    assert_eq!(with["probes"], Value::Null);
    assert!(alone["flow_based_path_properties"]["rtt_min_ms"].as_f64().unwrap() >= 20.0, "{alone}");
    assert_eq!(alone["flow_based_path_properties"]["one_way_delay_min_ms"], Value::Null);
    assert!(never["outcome"].as_str().unwrap().contains("cannot be reached"), "{never}");
    assert_eq!(never["bulk_transfer_capacity_bps"], Value::Null);
}
