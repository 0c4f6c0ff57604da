//! Commands behind emulated links, with common programs: ping, iperf3, curl.
//!
//! They check that nothing arrives early or faster than the link sends, and that everything arrives, but not how soon, because the machine
//! may be busy. They need root (or permission to create user namespaces) and the programs; otherwise the tests are skipped.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::MutexGuard;

use crate::interrupt::kill;
use crate::live::{alone, shortest};
use crate::support::{Desk, pause};
use crate::terminal::on_a_terminal;

/// Whether a shell of this kind can run and the programs are installed; otherwise says what is missing.
pub(crate) fn able(root: bool, programs: &[&str]) -> bool {
    let user = Command::new("id").arg("-u").output().map(|output| output.stdout).unwrap_or_default();
    let mut missing: Vec<&str> = programs
        .iter()
        .filter(|program| {
            !Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .output()
                .unwrap()
                .status
                .success()
        })
        .copied()
        .collect();
    if root && user != b"0\n" {
        missing.push("root");
    }
    if !Command::new("unshare")
        .args(if root { &["-n", "true"][..] } else { &["-rn", "true"] })
        .status()
        .is_ok_and(|s| s.success())
    {
        missing.push("namespaces");
    }
    if !missing.is_empty() {
        warpline_skip::skip(if missing.contains(&"root") { "root" } else { "program" }, missing.join(", "));
    }
    missing.is_empty()
}

/// The same, and waits for this test's turn: for tests that kill shells, and tests that read all output of a shell, which mentions
/// leftovers of killed shells.
fn able_alone(root: bool, programs: &[&str]) -> Option<MutexGuard<'static, ()>> {
    able(root, programs).then(alone)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn files_of_guests_of_a_killed_process_are_removed() {
    let Some(_turn) = able_alone(true, &[]) else { return };
    let desk = Desk::new();
    // No process has so high a number.
    let left = std::path::Path::new("/dev/shm/warpline-guest-0004999999-000000");
    std::fs::create_dir_all(left).unwrap();
    desk.warpline(&["shell", "--", "true"]).fine();
    assert!(!left.exists());
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let Some(_turn) = able_alone(true, &[]) else { return };
    let desk = Desk::new();
    for (words, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["true"], 0),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["no-such-program"], 127),
        (&["/dev/null"], 126),
    ] {
        let words = [&["shell", "--"], words].concat();
        let answer = desk.warpline(&words);
        assert_eq!(answer.code, Some(code), "{words:?}: {}", answer.stderr);
    }
    // Only the command writes to standard output. Without translation there is no note of the machine's own rules.
    let answer = desk.warpline(&["shell", "--rate", "1Mbit/s", "--no-nat", "--", "echo", "hello"]);
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("hello\n", ""));
}

#[test]
fn mistakes_in_the_link_are_reported_before_anything_starts() {
    let desk = Desk::new();
    for (words, error) in [
        (&["--rate", "12parsec"][..], "12parsec"),
        (&["--loss", "200%"], "between 0% and 100%"),
        (&["--queue", "hfsc"], "hfsc"),
        (&["--up-trace", "no-such-trace"], "--up-trace: there is no file `no-such-trace`"),
        (&["--loss", "1"], "`1` could mean 1 % or always: write `1%` or `100%`"),
        (&["--queue", "1BDP"], "a queue limit in BDP needs a rate"),
        (&["--up-rate", "1Mbit/s", "--queue", "codel,limit=2BDP"], "a queue limit in BDP needs a rate"),
        (&["--delay", "-5ms"], "`-5ms` is out of range: time lies between 0 and"),
        (&["--rate", "-1Mbit/s"], "`-1Mbit/s` is out of range: rate lies between 0 and"),
        (&["--down-loss", "0.5"], "--down-loss cannot be \"0.5\""),
        (
            &["--netem", "dalay 3ms"],
            "--netem \"dalay 3ms\": the word 'dalay' is not known here; there are limit, delay",
        ),
        (&["--up-netem", "loss 300%"], "--up-netem \"loss 300%\": loss 300%: '300%' is not a percentage"),
        (&["--netem", "delay 3ms seed 5"], "a link here cannot have netem's seed"),
        (&["--netem", "limit 100"], "netem's limit without a rate"),
        (&["--netem", " "], "says nothing of the link; netem's words are limit"),
        (&["--netem", "delay 3ms", "--delay", "5ms"], "its delay and --delay say the same thing"),
        (
            &["--netem", "delay 3ms", "--jitter", "uniform,max=1ms"],
            "its delay and --jitter say the same thing",
        ),
        (
            &["--netem", "rate 1mbit limit 9", "--down-queue", "5p"],
            "its limit and --down-queue say the same thing",
        ),
        (
            &["--down-netem", "rate 1mbit", "--down-trace", "x"],
            "its rate and --down-trace say the same thing",
        ),
        (&["--netem", "loss 1%", "--loss", "1%"], "its loss and --loss say the same thing"),
    ] {
        let answer = desk.warpline(&[&["shell"], words, &["--", "true"]].concat());
        assert!(answer.code == Some(2) && answer.stderr.contains(error), "{}", answer.stderr);
    }
}

#[test]
fn ping_takes_the_delays_of_all_shells_around_it() {
    let Some(_turn) = able_alone(true, &["ping"]) else { return };
    let desk = Desk::new();
    let single = desk.warpline(&[
        "shell",
        "--delay",
        "10ms",
        "--down-delay",
        "15ms",
        "--",
        "sh",
        "-c",
        "ping -c 4 -i 0.2 $WARPLINE_BASE",
    ]);
    let rtt = shortest(&single.fine().stdout);
    assert!(rtt >= 25.0, "{rtt}");
    let inner =
        format!("{} shell --delay 10ms -- ping -c 4 -i 0.2 $WARPLINE_BASE", env!("CARGO_BIN_EXE_warpline"));
    let nested = desk.warpline(&["shell", "--delay", "5ms", "--", "sh", "-c", &inner]);
    let rtt = shortest(&nested.fine().stdout);
    assert!(rtt >= 30.0, "{rtt}");
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        return warpline_skip::skip("ipv6", "the kernel has none");
    }
    let v6 =
        desk.warpline(&["shell", "--delay", "5ms", "--", "sh", "-c", "ping -c 3 -i 0.2 $WARPLINE_BASE6"]);
    let rtt = shortest(&v6.fine().stdout);
    assert!(rtt >= 10.0, "{rtt}");
}

#[test]
fn netem_s_words_are_those_of_the_options() {
    let Some(_turn) = able_alone(true, &["ping"]) else { return };
    let desk = Desk::new();
    let ping = ["--", "sh", "-c", "ping -c 4 -i 0.2 $WARPLINE_BASE"];
    let link = [
        "shell",
        "--netem",
        "netem delay 10ms rate 5mbit limit 100",
        "--down-netem",
        "delay 15ms",
        "--up-loss",
        "none",
    ];
    let answer = desk.warpline(&[&link[..], &ping].concat());
    let rtt = shortest(&answer.fine().stdout);
    assert!(rtt >= 25.0, "{rtt}");
}

/// How often a test is tried again while old connections of other shells send packets over its link: TCP tries for minutes.
const TRIES: u32 = 10;

#[test]
fn lost_packets_do_not_arrive() {
    let Some(_turn) = able_alone(true, &["ping"]) else { return };
    let number = |text: &str, before: &str, after: &str| -> u64 {
        let found = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
        let number = found.and_then(|(number, _)| number.trim().parse().ok());
        number.unwrap_or_else(|| panic!("no number between {before:?} and {after:?}: {text}"))
    };
    for _ in 0..TRIES {
        let answer = Desk::new().warpline(&[
            "shell",
            "--up-loss",
            "every,n=2",
            "-v",
            "--",
            "sh",
            "-c",
            "ping -c 10 -i 0.05 -W 5 $WARPLINE_BASE",
        ]);
        let up = answer.stderr.lines().find(|line| line.trim_start().starts_with("up ")).unwrap();
        let (offered, lost) = (number(up, "up", "packets offered"), number(up, "AQM,", "on the wire"));
        assert_eq!(lost, offered / 2, "{up}");
        let missed = 10 - number(&answer.stdout, "10 packets transmitted,", "received");
        let others = offered - 10;
        assert!((lost.saturating_sub(others)..=lost).contains(&missed), "{up}: {}", answer.stdout);
        if others < 5 {
            return;
        }
    }
    panic!("each of {TRIES} times others sent at least 5 packets over the link");
}

#[test]
fn iperf3_gets_the_rate_of_the_link_and_no_more() {
    let Some(_turn) = able_alone(true, &["iperf3"]) else { return };
    let answer = Desk::new().warpline(&[
        "shell",
        "--up-rate",
        "8Mbit/s",
        "--down-rate",
        "20Mbit/s",
        "--delay",
        "5ms",
        "--queue",
        "50p",
        "--base",
        "iperf3 -s -p 5999 >/dev/null",
        "--",
        "sh",
        "-c",
        // The server takes a while to start, and to be ready again.
        "go() { for i in $(seq 500); do \
           out=$(iperf3 -c $WARPLINE_BASE -p 5999 -t 3 --json \"$@\"); \
           case $out in *sum_received*) echo \"$out\"; return;; esac; sleep 0.5; \
         done; }; go; go -R",
    ]);
    let text = answer.fine().stdout;
    let rates: Vec<f64> = serde_json::Deserializer::from_str(&text)
        .into_iter::<serde_json::Value>()
        .map(|result| result.unwrap()["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6)
        .collect();
    // 1448 of 1500 bytes are payload.
    assert!(rates[0] < 8.0 && rates[0] > 0.0, "{rates:?}");
    assert!(rates[1] < 20.0 && rates[1] > 0.0, "{rates:?}");
}

#[test]
fn curl_fetches_from_a_web_server() {
    let server = if able(false, &["nginx"]) { "nginx" } else { "python3" };
    let Some(_turn) = able_alone(true, &["curl", server]) else { return };
    let desk = Desk::new();
    desk.write("page.txt", &"warp\n".repeat(40_000));
    desk.write(
        "nginx.conf",
        "daemon off; pid nginx.pid; error_log stderr; events {}\nhttp { access_log off; server { listen 5997; root .; } }\n",
    );
    let path = desk.path().display().to_string();
    std::fs::set_permissions(desk.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let serve = match server {
        "nginx" => format!("nginx -p {path} -c nginx.conf -g 'user root;'"),
        _ => "python3 -m http.server 5997".to_owned(),
    };
    let fetch = "curl -sS --retry 500 --retry-delay 1 --retry-connrefused -o fetched -w '%{time_total}' http://$WARPLINE_BASE:5997/page.txt";
    let answer = desk
        .warpline(&[
            "shell", "--rate", "4Mbit/s", "--delay", "20ms", "--base", &serve, "--", "sh", "-c", fetch,
        ])
        .fine();
    assert_eq!(std::fs::read(desk.path().join("fetched")).unwrap().len(), 200_000);
    // 200 kB at 4 Mbit/s take 0.4 s, and the handshake and the request two round trips of 40 ms.
    let seconds: f64 = answer.stdout.trim().parse().unwrap();
    assert!(seconds > 0.48, "{seconds}");
}

/// Warpline as an ordinary user runs it, on a desk that the user can read.
pub(crate) fn ordinary(desk: &Desk) -> Command {
    ordinary_as(desk, 65534)
}

/// The same, as the user of this number.
fn ordinary_as(desk: &Desk, user: u32) -> Command {
    let program = desk.path().join("warpline");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_warpline"), &program).unwrap();
    }
    for path in [desk.path(), &program] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}")]);
    command.args(["--clear-groups", "--inh-caps=-all"]);
    command.arg(&program).current_dir(desk.path());
    command
}

#[test]
fn an_ordinary_user_gets_its_own_namespaces() {
    let Some(_turn) = able_alone(true, &["ping", "setpriv"]) else { return };
    let desk = Desk::new();
    let inner = format!(
        "{} shell --delay 10ms -- ping -c 3 -i 0.2 $WARPLINE_BASE",
        desk.path().join("warpline").display()
    );
    for (words, least) in [
        (["sh", "-c", "ping -c 3 -i 0.2 $WARPLINE_BASE"], 10.0),
        // A shell in it: $WARPLINE_BASE is expanded outside of that one.
        (["sh", "-c", &inner], 30.0),
    ] {
        let mut command = ordinary(&desk);
        command.args(["shell", "--delay", "5ms", "--"]).args(words);
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        let rtt = shortest(&out);
        assert!(rtt >= least, "{rtt}");
    }
}

#[test]
fn an_ordinary_user_reaches_the_machine_by_pasta() {
    let Some(_turn) = able_alone(true, &["curl", "setpriv", "pasta", "nft"]) else { return };
    let desk = Desk::new();
    // pasta needs a device that not every machine opens to every user. Then a message says so before the command starts, and so does the doctor.
    let opens = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "exec 3<>/dev/net/tun"])
        .stderr(Stdio::null())
        .status();
    if !opens.unwrap().success() {
        let told = ordinary(&desk).args(["shell", "--", "sh", "-c", "echo begun >&2"]).output().unwrap();
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let (note, _) = told.split_once("begun").unwrap_or_else(|| panic!("{told}"));
        assert!(
            note.contains("reaches no further than its own namespaces") && note.contains("/dev/net/tun"),
            "{told}"
        );
        let doctor = desk.warpline(&["doctor"]).stdout;
        assert!(doctor.contains("ordinary users may not open /dev/net/tun"), "{doctor}");
        return;
    }
    // A server on the loopback interface, which the emulated link does not reach by itself.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    });
    let mut command = ordinary(&desk);
    let fetch = format!("curl -sS -m 500 -w '|%{{time_total}}' http://$WARPLINE_BASE:{port}/");
    let output = command.args(["shell", "--delay", "25ms", "--", "sh", "-c", &fetch]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let (body, seconds) = out.split_once('|').unwrap();
    assert_eq!(body, "hello");
    // A round trip for the handshake and one for the request.
    assert!(seconds.trim().parse::<f64>().unwrap() >= 0.1, "{seconds}");
    answer.join().unwrap();
}

#[test]
fn a_directory_of_sessions_that_another_user_made_is_not_used() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    // A user that no other test uses.
    const USER: u32 = 65_531;
    if !able(true, &["setpriv"]) {
        return;
    }
    let desk = Desk::new();
    let victim = desk.write("victim", "precious");
    chown(&victim, Some(USER), None).unwrap();
    let place = std::path::PathBuf::from(format!("/tmp/warpline-{USER}"));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    let base = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let session = serde_json::json!({
        "id": "4999999-1", "pid": 4_999_999, "started": 1, "what": "warpline shell", "namespaces": [], "base": base,
        "interfaces": [], "tables": [], "settings": [[victim, "overwritten"]], "cgroups": [],
    });
    let file = place.join("4999999-1.json");
    std::fs::write(&file, session.to_string()).unwrap();
    for path in [&place, &file] {
        chown(path, Some(1234), Some(1234)).unwrap();
    }
    let run = |words: &[&str]| {
        let output = ordinary_as(&desk, USER).args(words).env_remove("XDG_RUNTIME_DIR").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let clean = run(&["clean"]);
    let shell = run(&["shell", "--", "true"]);
    let left = std::fs::read_to_string(&victim).unwrap();
    let entries = std::fs::read_dir(&place).unwrap().count();
    // A directory of its own is used.
    std::fs::remove_dir_all(&place).unwrap();
    let own = run(&["shell", "--", "true"]);
    let mode = std::fs::metadata(&place).unwrap().permissions().mode() & 0o777;
    std::fs::remove_dir_all(&place).unwrap();
    assert_eq!(left, "precious", "{clean:?} {shell:?}");
    assert_eq!(entries, 1, "nothing is written there");
    let why = format!("belongs to user 1234, not to user {USER}");
    assert!(clean.0 == Some(1) && clean.1.contains(&why), "{clean:?}");
    assert!(shell.0 == Some(0) && shell.1.contains(&why), "{shell:?}");
    // Whether this user may open /dev/net/tun is another matter.
    assert!(own.0 == Some(0) && !own.1.contains("is not used"), "{own:?}");
    assert_eq!(mode, 0o700);
}

#[test]
fn ctrl_c_goes_to_the_command() {
    use std::os::unix::process::CommandExt;
    let Some(_turn) = able_alone(true, &[]) else { return };
    let desk = Desk::new();
    let start = |words: &[&str]| {
        desk.program(&[&["shell", "--"], words].concat())
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let interrupt = |child: &std::process::Child, signal: &str, to: &str| {
        let whom = format!("{to}{}", child.id());
        assert!(Command::new("kill").args([signal, "--", &whom]).status().unwrap().success());
    };
    let line = |child: &mut BufReader<ChildStdout>| {
        let mut line = String::new();
        child.read_line(&mut line).unwrap();
        line
    };
    // If the command ends at the signal, the shell ends; if it continues, so does the shell.
    for (script, code) in
        [("echo up; exec sleep 1000", 130), ("trap 'exit 3' INT; echo up; while :; do sleep 0.1; done", 3)]
    {
        // To all processes in front of the terminal, and to this one alone, which then passes it on.
        for to in ["-", ""] {
            let mut child = start(&["sh", "-c", script]);
            let mut output = BufReader::new(child.stdout.take().unwrap());
            assert_eq!(line(&mut output), "up\n");
            interrupt(&child, "-INT", to);
            assert_eq!(child.wait_with_output().unwrap().status.code(), Some(code));
        }
    }
    // One that hangs, and only prints that it got the signal: the second one ends it.
    let mut child = start(&["sh", "-c", "trap 'echo told' INT TERM; echo up; while :; do sleep 0.1; done"]);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut output), "up\n");
    interrupt(&child, "-TERM", "");
    assert_eq!(line(&mut output), "told\n");
    interrupt(&child, "-TERM", "");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(137));
}

#[test]
fn an_interrupt_while_the_shell_starts_ends_it_and_leaves_nothing() {
    let Some(_turn) = able_alone(true, &["nft"]) else { return };
    let desk = Desk::new();
    // An nft that has made the table, and does not end before the signal has been sent.
    let path = std::env::var("PATH").unwrap();
    let slow = format!(
        "#!/bin/sh\nPATH='{path}'\nnft \"$@\"\ncode=$?\ntouch made\nwhile [ ! -e sent ]; do sleep 0.05; done\nexit $code\n"
    );
    let nft = desk.write("nft", &slow);
    std::fs::set_permissions(&nft, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut child = desk
        .program(&["shell", "--", "echo", "started"])
        .env("PATH", format!("{}:{path}", desk.path().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while !desk.path().join("made").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        pause();
    }
    kill(&child, "-INT");
    desk.write("sent", "");
    let table = format!("warpline_{}_", child.id());
    let output = child.wait_with_output().unwrap();
    let tables = Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&tables.stdout).contains(&table), "{tables:?}");
    // The command has not begun.
    assert_eq!((output.status.code(), output.stdout), (Some(130), Vec::new()));
}

/// Checks that what the program's parent set to be ignored is ignored by the program and by the command that `words` start.
pub(crate) fn ignores_what_its_parent_wants(words: &[&str]) {
    let desk = Desk::new();
    desk.write("ignoring.sh", "trap '' HUP INT QUIT\nexec \"$@\"\n");
    let script = "grep SigIgn /proc/self/status; read line; exit 5";
    let mut child = desk
        .program_in(&["sh", "ignoring.sh"], &[words, &["--", "sh", "-c", script]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    for signal in ["-HUP", "-INT", "-QUIT"] {
        kill(&child, signal);
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let mask = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    // The numbers of the three signals are 1 to 3.
    assert_eq!(mask & 0b111, 0b111, "{line}");
}

#[test]
fn nohup_s_wish_holds_for_the_command_behind_the_link_too() {
    let Some(_turn) = able_alone(true, &[]) else { return };
    ignores_what_its_parent_wants(&["shell"]);
}

/// The packets of a capture, read by tshark: a line for each packet, with its interface and addresses.
fn packets(capture: &std::path::Path) -> Vec<String> {
    let fields = ["frame.interface_name", "ip.src", "ip.dst", "frame.time_epoch"];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let tshark = Command::new("tshark").arg("-r").arg(capture).args(["-T", "fields"]).args(fields).output();
    let answer = crate::support::Answer::from(tshark.unwrap()).fine();
    // tshark reports a file that ends in the middle of a packet.
    assert!(!answer.stderr.contains("cut short"), "{}", answer.stderr);
    answer.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_capture_has_both_directions_and_is_complete_after_a_kill() {
    let Some(_turn) = able_alone(true, &["ping", "tshark"]) else { return };
    let desk = Desk::new();
    let ping = "ping -c 3 -i 0.2 $WARPLINE_BASE";
    desk.warpline(&["shell", "--delay", "5ms", "--pcap", "link.pcapng", "--", "sh", "-c", ping]).fine();
    let lines = packets(&desk.path().join("link.pcapng"));
    let of = |name: &str| lines.iter().filter(|line| line.starts_with(&format!("{name}\t100."))).count();
    assert!(of("up") >= 3 && of("down") >= 3, "{lines:?}");
    // The wall clock's times.
    let first: f64 = lines[0].split('\t').next_back().unwrap().parse().unwrap();
    assert!(first > 1.7e9, "{first}");

    let mut command = desk.program(&["shell", "--pcap", "killed.pcapng", "--", "sh", "-c"]);
    let mut child = command.arg("ping -i 0.05 $WARPLINE_BASE").stdout(Stdio::null()).spawn().unwrap();
    let killed = desk.path().join("killed.pcapng");
    for _ in 0..600 {
        if std::fs::metadata(&killed).is_ok_and(|file| file.len() > 4000) {
            break;
        }
        pause();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(packets(&killed).len() >= 10);
    let refused = desk.warpline(&["shell", "--pcap", "no/such/file", "--", "true"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
}

#[test]
fn a_report_of_the_session_is_written_and_named() {
    let Some(_turn) = able_alone(true, &["ping"]) else { return };
    let desk = Desk::new();
    let ping = "ping -c 4 -i 0.1 -s 1000 $WARPLINE_BASE; exit 5";
    let link = ["shell", "--rate", "2Mbit/s", "--loss", "100%", "--no-nat", "--report"];
    let words = [&link[..], &["--", "sh", "-c", ping]].concat();
    let answer = desk.warpline(&words);
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert_eq!(answer.stderr, "note: report: runs/shell/report.html\n");
    assert!(desk.names("runs/shell").contains(&"series_links.parquet".to_owned()));
    let summary = desk.summary("runs/shell");
    let up = &summary["links"][0];
    assert!(up["drops_loss"].as_u64().unwrap() >= 4, "{up}");
    assert_eq!((up["rate_bps"].as_f64(), summary["clock"].as_str()), (Some(2e6), Some("real")));
    let page = std::fs::read_to_string(desk.path().join("runs/shell/report.html")).unwrap();
    assert!(page.contains("inside") && page.len() > 10_000);
}

#[test]
fn a_shell_begins_with_its_link_and_how_to_leave() {
    let Some(_turn) = able_alone(true, &[]) else { return };
    let desk = Desk::new();
    let shell = |more: &[&str]| {
        let words =
            [&["shell", "--rate", "12mbit", "--delay", "20ms", "--loss", "1%", "--down-queue", "50p"], more]
                .concat();
        crate::support::Answer::from(desk.program(&words).env("SHELL", "/bin/true").output().unwrap())
            .fine()
            .stderr
    };
    let told = shell(&[]);
    let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    for part in [
        "up 12 Mbit/s, 20 ms, queue 1000 packets, loss 1 %; down 12 Mbit/s, 20 ms, queue 50 packets, loss 1 %",
        &format!("congestion control: the kernel's {}", control.trim()),
        "leave with exit or Ctrl-D",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
    assert_eq!(shell(&["--quiet", "--no-nat"]), "");
}

#[test]
fn the_meter_is_in_the_title_and_leaves_the_commands_output_as_it_is() {
    let Some(_turn) = able_alone(true, &["ping", "python3"]) else { return };
    let desk = Desk::new();
    let script = "echo one; ping -q -c 25 -i 0.1 $WARPLINE_BASE >/dev/null; echo two";
    let words = ["shell", "--no-nat", "--", "sh", "-c", script];
    // On a busy machine there may be a note at the end.
    let on_a_terminal = |kind: &str, words: &[&str]| {
        let said = on_a_terminal(&desk, kind, words).fine().stdout;
        said.split("note: The emulator did not keep pace").next().unwrap().to_owned()
    };
    let said = on_a_terminal("xterm-256color", &words);
    assert!(said.contains("\x1b]2;warpline: up ") && said.contains(" waiting, 0 lost"), "{said:?}");
    // Apart from the sequences that set the title (which is restored at the end), there is only the command's output, and perhaps a note
    // that this machine could not keep pace.
    let mut plain = String::new();
    for (number, part) in said.split('\x1b').enumerate() {
        let rest = match (number, part) {
            (0, text) => text,
            (_, title) if title.starts_with("]2;") => title.split_once('\x07').unwrap().1,
            (_, color)
                if color
                    .trim_start_matches(|c: char| c == '[' || c == ';' || c.is_ascii_digit())
                    .starts_with('m') =>
            {
                color.split_once('m').unwrap().1
            }
            (_, keep) => keep.strip_prefix("[22;2t").or(keep.strip_prefix("[23;2t")).unwrap(),
        };
        plain += rest;
    }
    let written = plain.split("note: ").next().unwrap();
    assert_eq!(written, "one\r\ntwo\r\n", "{said:?}");
    assert!(said.rfind("[23;2t") > said.rfind("]2;"), "{said:?}");
    for (kind, more) in [("linux", &[][..]), ("xterm", &["--quiet"])] {
        let words = [&["shell", "--no-nat"], more, &["--", "sh", "-c", "sleep 1.2; echo one"]].concat();
        assert_eq!(on_a_terminal(kind, &words), "one\r\n");
    }
}
