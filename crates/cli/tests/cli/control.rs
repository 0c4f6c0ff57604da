//! Shells and runs while they go on: links are changed (`warpline set`), and commands run on hosts (`warpline enter`).
//!
//! Bounds are on what cannot be undercut, and on counts: the machine may be busy. The tests are skipped where there are no namespaces.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::live::{alone, shortest};
use crate::shell::able;
use crate::support::{Answer, Desk, pause, wait_until};

/// Shell code that waits for a file in the desk's directory.
fn wait_for(file: &str) -> String {
    format!("while [ ! -e {file} ]; do sleep 0.05; done")
}

/// A shell or a run in progress. One that a test gives up is ended.
struct Running(Option<Child>);

impl Running {
    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    /// Stops it, as Ctrl-C does.
    fn interrupt(&self) {
        let id = self.0.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }

    /// Waits for its end.
    fn answer(mut self) -> Answer {
        Answer::from(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A shell that can be changed by `sock` in the desk's directory, whose command is this shell code.
fn start(desk: &Desk, options: &[&str], line: &str) -> Running {
    let words = [&["shell", "--control=sock"], options, &["--", "sh", "-c", line]].concat();
    Running::of(desk.program(&words))
}

fn set(desk: &Desk, words: &[&str]) -> Answer {
    desk.warpline(&[&["set", "--control", "sock"], words].concat())
}

fn link<'a>(answer: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let found = answer["links"].as_array().unwrap().iter().find(|link| link["link"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[test]
fn a_ping_takes_the_delay_that_is_set_and_the_saved_scenario_has_it() {
    if !able(true, &["ping"]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let ping = "ping -c 3 -i 0.2 $WARPLINE_BASE";
    let line = format!("{ping}; touch first; {}; {ping}", wait_for("go"));
    let shell = start(&desk, &["--delay", "5ms", "--rate", "20mbit", "--save", "saved.toml"], &line);
    wait_until("the first ping", || desk.path().join("first").exists());
    let answer = set(&desk, &["--json", "delay=40ms"]).fine().json();
    let lines = ["up", "down"].map(|name| link(&answer, name)["words"].as_str().unwrap());
    assert_eq!(lines, ["20 Mbit/s, 40 ms, queue 1000 packets"; 2]);
    let answer = set(&desk, &["down", "rate=5mbit", "loss=1%"]).fine();
    assert_eq!(answer.stdout, "down  5 Mbit/s, 40 ms, queue 1000 packets, loss 1 %\n");
    let listed = set(&desk, &[]).fine().stdout;
    assert_eq!(listed.lines().next().unwrap(), "up    20 Mbit/s, 40 ms, queue 1000 packets");
    assert_eq!(listed.lines().count(), 2);
    desk.write("go", "");
    let ended = shell.answer().fine();
    let (first, second) = ended.stdout.split_at(ended.stdout.rfind("PING").unwrap());
    let (first, second) = (shortest(first), shortest(second));
    assert!(first >= 10.0 && second >= 80.0, "{first} {second}");
    assert!(!desk.path().join("sock").exists());

    // What happened can be run again, by a simulation.
    let saved = std::fs::read_to_string(desk.path().join("saved.toml")).unwrap();
    assert_eq!(saved.matches("[[change]]").count(), 3, "{saved}");
    let words = ["run", "saved.toml", "--out", "out", "--json"];
    let summary = desk.warpline(&words).fine().json()["summary"].clone();
    let links = summary["links"].as_array().unwrap();
    let rate = |name: &str| {
        let found = links.iter().find(|link| link["name"] == name).unwrap();
        found["rate_bps"].as_f64().unwrap()
    };
    // The means over the session: the one of the direction that became slower is lower.
    assert!((rate("inside>outside") - 20e6).abs() < 1.0, "{summary}");
    assert!(rate("outside>inside") < 19.9e6 && rate("outside>inside") > 5e6, "{summary}");
}

#[test]
fn a_scenario_that_cannot_be_saved_is_reported_and_the_command_keeps_its_code() {
    if !able(true, &[]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let shell = |file: &str, line: &str| desk.warpline(&["shell", "--save", file, "--", "sh", "-c", line]);
    // Known beforehand: nothing is run.
    let refused = shell("none/link.toml", "touch ran; exit 7");
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("cannot write none/link.toml"), "{refused:?}");
    assert!(!desk.path().join("ran").exists());
    std::fs::create_dir(desk.path().join("gone")).unwrap();
    let answer = shell("gone/link.toml", "rmdir gone; exit 7");
    assert_eq!(answer.code, Some(7), "{answer:?}");
    assert!(answer.stderr.contains("cannot write gone/link.toml"), "{answer:?}");
}

#[test]
fn two_clients_at_a_time_are_served_and_every_change_is_kept() {
    if !able(true, &[]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let line = format!("touch first; {}", wait_for("go"));
    let shell = start(&desk, &["--rate", "20mbit", "--save", "saved.toml"], &line);
    wait_until("the shell", || desk.path().join("first").exists());
    const TIMES: usize = 20;
    std::thread::scope(|scope| {
        for (name, key) in [("up", "rate"), ("down", "delay")] {
            let desk = &desk;
            scope.spawn(move || {
                for time in 1..=TIMES {
                    let unit = if key == "rate" { "mbit" } else { "ms" };
                    set(desk, &[name, &format!("{key}={time}{unit}")]).fine();
                }
            });
        }
    });
    let answer = set(&desk, &["--json", "both"]).fine().json();
    assert_eq!(
        (&link(&answer, "up")["rate"], &link(&answer, "down")["delay"]),
        (&"20Mbit/s".into(), &"20ms".into())
    );
    assert_eq!(link(&answer, "down")["rate"], "20Mbit/s");
    desk.write("go", "");
    shell.answer().fine();
    let saved = std::fs::read_to_string(desk.path().join("saved.toml")).unwrap();
    assert_eq!(saved.matches("[[change]]").count(), 2 * TIMES);
    desk.warpline(&["check", "saved.toml"]).fine();
}

#[test]
fn bad_requests_are_refused_with_what_is_allowed_and_change_nothing() {
    if !able(true, &[]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let line = format!("touch first; {}", wait_for("go"));
    desk.write("trace", "1\n2\n");
    let shell = start(&desk, &["--down-trace", "trace", "--up-rate", "8mbit", "--save", "saved.toml"], &line);
    wait_until("the shell", || desk.path().join("first").exists());
    for (words, error) in [
        (&["upp", "rate=5mbit"][..], "there is no link `upp`; did you mean `up`? allowed: up, down, both"),
        (
            &["up", "rat=5mbit"],
            "a link has no `rat` that can be set; did you mean `rate`? allowed: rate, delay, loss",
        ),
        (&["up", "queue=10p"], "a link has no `queue` that can be set"),
        (&["up", "rate=5parsec"], "5parsec"),
        (&["up", "loss=2"], "write a percentage, such as `1%`"),
        (&["up", "down=maybe"], "true or false"),
        (&["down", "rate=5mbit"], "the rate of this link follows a schedule, a trace or a radio"),
        (&["rate=5mbit"], "the rate of this link follows"),
        (&["up", "delay"], "is no KEY=VALUE"),
    ] {
        let answer = set(&desk, words);
        assert!(answer.code == Some(2) && answer.stderr.contains(error), "{words:?}: {answer:?}");
        assert!(!answer.stderr.contains("[[change]]"), "{}", answer.stderr);
    }
    // As a script speaks, over one connection.
    let mut stream = UnixStream::connect(desk.path().join("sock")).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    for (line, part) in [
        ("rate=5mbit", "this is no JSON"),
        ("[]", "this is no JSON object"),
        (r#"{"link": 7}"#, "`link` must be a string"),
        (r#"{"set": "rate"}"#, "`set` must be an object"),
        (r#"{"lnk": "up"}"#, "did you mean `link`"),
        (r#"{"set": {}, "link": "up"}"#, "changes nothing"),
        (r#"{"link": "up", "set": {"loss": {"kind": "every", "n": 0}}}"#, "out of range"),
        (r#"{"link": "up", "set": {"delay": "7ms"}}"#, "\"delay\":\"7ms\""),
    ] {
        writeln!(stream, "{line}").unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert!(answer.contains(part), "{line}: {answer}");
    }
    desk.write("go", "");
    shell.answer().fine();
    let saved = std::fs::read_to_string(desk.path().join("saved.toml")).unwrap();
    assert_eq!(saved.matches("[[change]]").count(), 1, "{saved}");
}

#[test]
fn after_kill_9_nobody_listens_and_the_next_shell_takes_the_place() {
    if !able(true, &[]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let sock = desk.path().join("sock");
    let killed = start(&desk, &[], &format!("touch first; {}", wait_for("never")));
    wait_until("the shell", || desk.path().join("first").exists());
    drop(killed);
    assert!(sock.exists());
    let answer = set(&desk, &[]);
    assert!(answer.code == Some(1) && answer.stderr.contains("no run listens at"), "{answer:?}");

    let next = start(&desk, &[], &format!("touch second; {}", wait_for("go")));
    wait_until("the next shell", || desk.path().join("second").exists());
    assert_eq!(
        set(&desk, &["up", "delay=1ms"]).fine().stdout,
        "up  no rate limit, 1 ms, queue 1000 packets\n"
    );
    // Another one cannot have it.
    let other = desk.warpline(&["shell", "--control=sock", "--", "true"]);
    assert!(other.code == Some(1) && other.stderr.contains("another run listens at"), "{other:?}");
    desk.write("go", "");
    next.answer().fine();
    assert!(!sock.exists());
}

#[test]
fn the_command_of_a_shell_finds_the_socket_by_itself() {
    if !able(true, &[]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let warpline = env!("CARGO_BIN_EXE_warpline");
    let line = format!(
        "echo $WARPLINE_CONTROL; test -S $WARPLINE_CONTROL && {warpline} set up down=true && {warpline} set"
    );
    let answer = desk.warpline(&["shell", "--control", "--rate", "1mbit", "--", "sh", "-c", &line]).fine();
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(
        lines[1..],
        [
            "up  down; 1 Mbit/s, 0 s, queue 1000 packets",
            "up    down; 1 Mbit/s, 0 s, queue 1000 packets",
            "down  1 Mbit/s, 0 s, queue 1000 packets"
        ]
    );
    assert!(lines[0].ends_with(".sock") && !Path::new(lines[0]).exists(), "{lines:?}");
}

#[test]
fn a_live_run_keeps_its_changes_in_its_scenario() {
    if !able(true, &["ping"]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    let text = format!(
        r#"name = "steered"
duration = "600s"
until = "a exits"
clock = {{ mode = "real" }}
link = [
  {{ between = ["a", "r"], rate = "100Mbit/s", delay = "2ms" }},
  {{ between = ["r", "b"], rate = "20Mbit/s", delay = "5ms" }},
]
change = [{{ at = "500s", link = "a-r", rate = "1Mbit/s" }}]
[[host]]
name = "a"
endpoint = "live"
program = [{{ command = "touch first; {}; ping -c 3 -i 0.2 {{b}}" }}]
[[host]]
name = "b"
endpoint = "live"
"#,
        wait_for("go")
    );
    desk.write("live.toml", &text);
    let run = Running::of(desk.program(&["run", "live.toml", "--control=sock", "--out", "out"]));
    wait_until("the program", || desk.path().join("first").exists());
    let answer = set(&desk, &["rate=5mbit"]);
    assert!(
        answer.code == Some(2) && answer.stderr.contains("say which link; allowed: a-r, r-b"),
        "{answer:?}"
    );
    let answer = set(&desk, &["a-c", "rate=5mbit"]);
    assert!(answer.stderr.contains("there is no link `a-c`"), "{answer:?}");
    let answer = set(&desk, &["--json", "r-b", "delay=30ms", "rate=5mbit"]).fine().json();
    assert_eq!((&answer["run"], answer["links"].as_array().unwrap().len()), (&"steered".into(), 2));
    assert_eq!(link(&answer, "b>r")["rate"], "5Mbit/s");
    let answer = set(&desk, &["r>b", "loss=none", "jitter=uniform,max=1ms"]).fine();
    assert!(answer.stdout.starts_with("r>b  5 Mbit/s, 30 ms"), "{}", answer.stdout);
    assert_eq!(set(&desk, &[]).fine().stdout.lines().count(), 4);
    desk.write("go", "");
    run.answer().fine();
    let printed = std::fs::read_to_string(desk.path().join("out/programs/a.0.stdout")).unwrap();
    assert!(shortest(&printed) >= 64.0, "{printed}");

    // The run's scenario has what happened, in order of time, and its hash is that scenario's.
    let kept = std::fs::read_to_string(desk.path().join("out/scenario.toml")).unwrap();
    assert_eq!(kept.matches("[[change]]").count(), 3, "{kept}");
    let order =
        ["30ms", "uniform", "500s"].map(|part| kept.find(part).unwrap_or_else(|| panic!("{part}: {kept}")));
    assert!(order.is_sorted(), "{kept}");
    desk.warpline(&["check", "out/scenario.toml"]).fine();
    desk.warpline(&["run", "live.toml", "--out", "again"]).fine();
    assert_ne!(desk.summary("out")["scenario_hash"], desk.summary("again")["scenario_hash"]);
    let plain = std::fs::read_to_string(desk.path().join("again/scenario.toml")).unwrap();
    assert_eq!(plain.matches("[[change]]").count(), 1, "{plain}");
}

/// Two live hosts and nothing else, so that the run is what is typed.
const OPEN: &str = r#"name = "open"
duration = "600s"
clock = { mode = "real" }
link = [{ between = ["a", "b-2"], rate = "20Mbit/s", delay = "5ms" }]
[[host]]
name = "a"
endpoint = "live"
[[host]]
name = "b-2"
endpoint = "live"
"#;

#[test]
fn commands_run_on_the_hosts_of_a_run_and_end_with_it() {
    if !able(false, &["ping"]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    desk.write("open.toml", OPEN);
    let run = Running::of(desk.program(&["run", "open.toml", "--control=sock", "--out", "out"]));
    let enter = |words: &[&str]| desk.warpline(&[&["enter", "--control", "sock"], words].concat());
    wait_until("the run", || enter(&[]).code == Some(0));
    assert_eq!(enter(&[]).fine().stdout, "a\nb-2\n");
    // Names stand for addresses, in the words and in the environment; the exit code is the command's.
    let answer = enter(&["a", "--", "ping", "-c", "2", "-i", "0.2", "{b-2}"]).fine();
    assert!(shortest(&answer.stdout) >= 10.0, "{}", answer.stdout);
    let line = "echo $WARPLINE_HOST $WARPLINE_ADDR_B_2; exit 7";
    let answer = enter(&["a", "--", "sh", "-c", line]);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(7), "a 10.0.0.2\n"));
    let answer = enter(&["b", "--", "true"]);
    assert!(answer.code == Some(2) && answer.stderr.contains("did you mean `b-2`?"), "{answer:?}");
    assert_eq!(enter(&["a", "--", "no-such-program"]).code, Some(127));
    // What still runs there when the run is stopped ends with it.
    let left = Running::of(desk.program(&[
        "enter",
        "--control",
        "sock",
        "a",
        "--",
        "sh",
        "-c",
        "touch left; sleep 600",
    ]));
    wait_until("the command", || desk.path().join("left").exists());
    run.interrupt();
    let ended = run.answer();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_ne!(left.answer().code, Some(0));
    let answer = enter(&["a"]);
    assert!(answer.code == Some(1) && answer.stderr.contains("no run listens"), "{answer:?}");
}

/// A shell on a host of the run at `sock`, and somebody who types.
struct Typist {
    pty: File,
    child: Child,
    printed: String,
}

impl Typist {
    fn on(desk: &Desk, host: &str) -> Self {
        let (pty, end) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(30, 90)).unwrap();
        // As a shell in the background starts it: the terminal on the host has its keys all the same.
        let ignoring = ["sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh"];
        let plain = desk.program_in(&ignoring, &["enter", "--control", "sock", host]);
        let command = pty_process::blocking::Command::new(plain.get_program()).args(plain.get_args());
        // A shell that begins at once, whatever this user's does first.
        let command = command.current_dir(desk.path()).env("SHELL", "/bin/sh");
        let child = command.spawn(end).unwrap();
        let pty = File::from(OwnedFd::from(pty));
        rustix::io::ioctl_fionbio(&pty, true).unwrap();
        let mut typist = Typist { pty, child, printed: String::new() };
        typist.wait("# ", "$ ");
        typist
    }

    /// Reads what is printed next. None if nothing will be any more, or nothing is within two minutes.
    fn read(&mut self) -> Option<String> {
        let mut bytes = [0; 4096];
        for _ in 0..2400 {
            match self.pty.read(&mut bytes) {
                Ok(count) => return Some(String::from_utf8_lossy(&bytes[..count]).into_owned()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => pause(),
                Err(_) => return None,
            }
        }
        None
    }

    /// Waits until one of these has been printed since the last wait.
    fn wait(&mut self, text: &str, other: &str) {
        while ![text, other].iter().any(|text| self.printed.contains(text)) {
            let more = self.read().unwrap_or_else(|| panic!("no {text:?}: {}", self.printed));
            self.printed.push_str(&more);
        }
        self.printed.clear();
    }

    fn types(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    /// Types the shell's end, and returns its exit code.
    fn ends(mut self) -> Option<i32> {
        self.types("exit 5\r");
        while self.read().is_some() {}
        self.child.wait().unwrap().code()
    }
}

/// What is typed at a shell of `host`, and what the scenario of the run at `out` then has of it.
fn typed(desk: &Desk, host: &str, other: &str) {
    let mut typist = Typist::on(desk, host);
    typist.types("echo o\x7f$((6 * 7)) rows $(stty size)\r");
    typist.wait("42 rows 30 90", "42 rows 30 90");
    typist.types(&format!("ping -i 0.2 $WARPLINE_ADDR_{other}\r"));
    typist.wait("icmp_seq=2", "icmp_seq=2");
    // What a program reads is no command.
    typist.types("not a command\r");
    typist.types("\x03");
    typist.wait("statistics", "statistics");
    // A program that prints without end hears Ctrl-C, too; and one in the background keeps nobody.
    typist.types("yes many\r");
    typist.wait("many\r\nmany", "many\r\nmany");
    typist.types("\x03");
    typist.types("sleep 1000 & echo $((2 + 3))th\r");
    typist.wait("5th", "5th");
    assert_eq!(typist.ends(), Some(5));
}

fn has_typed(scenario: &str, other: &str) {
    assert!(scenario.contains("$((6 * 7)) rows $(stty size)"), "{scenario}");
    let ping = format!("\"sh\", \"-c\", \"ping -i 0.2 $WARPLINE_ADDR_{other}\"");
    assert!(scenario.contains("\"timeout\", \"--signal=INT\"") && scenario.contains(&ping), "{scenario}");
    assert!(scenario.contains("[\"ping\", \"-c\", \"1\", "), "{scenario}");
    assert!(!scenario.contains("not a command") && !scenario.contains("no-such-program"), "{scenario}");
}

#[test]
fn what_is_typed_on_a_live_host_is_repeated_by_the_scenario_of_the_run() {
    if !able(false, &["ping", "timeout"]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    desk.write("open.toml", OPEN);
    let run = Running::of(desk.program(&["run", "open.toml", "--control=sock", "--out", "out"]));
    let enter = |words: &[&str]| desk.warpline(&[&["enter", "--control", "sock"], words].concat());
    wait_until("the run", || enter(&[]).code == Some(0));
    enter(&["b-2", "--", "ping", "-c", "1", "{a}"]).fine();
    assert_eq!(enter(&["a", "--", "no-such-program"]).code, Some(127));
    typed(&desk, "a", "B_2");
    run.interrupt();
    run.answer();
    let happened = std::fs::read_to_string(desk.path().join("out/scenario.toml")).unwrap();
    has_typed(&happened, "B_2");
    assert!(happened.contains("{a}"), "{happened}");
    // It repeats what was done.
    let length = desk.summary("out")["simulated_s"].as_f64().unwrap().ceil() + 1.0;
    let duration = format!("duration={length}s");
    desk.warpline(&["run", "out/scenario.toml", "--set", &duration, "--out", "again"]).fine();
    let printed =
        |name: &str| std::fs::read_to_string(desk.path().join("again/programs").join(name)).unwrap();
    assert!(shortest(&printed("b-2.0.stdout")) >= 10.0);
    assert!(printed("a.1.stdout").contains("statistics"), "{}", printed("a.1.stdout"));
}

/// A guest and a live host.
const MIXED: &str = r#"name = "mixed"
duration = "600s"
clock = { mode = "real" }
link = [{ between = ["a", "g"], rate = "20Mbit/s", delay = "5ms" }]
[[host]]
name = "a"
endpoint = "live"
[[host]]
name = "g"
endpoint = "guest"
"#;

#[test]
fn commands_and_shells_run_on_guests_of_a_run_in_progress() {
    if !able(false, &["ping", "timeout", "linux.uml"]) {
        return;
    }
    let _turn = alone();
    let desk = Desk::new();
    desk.write("mixed.toml", MIXED);
    let run = Running::of(desk.program(&["run", "mixed.toml", "--control=sock", "--out", "out"]));
    let enter = |words: &[&str]| desk.warpline(&[&["enter", "--control", "sock"], words].concat());
    wait_until("the run", || enter(&[]).code == Some(0));
    assert_eq!(enter(&[]).fine().stdout, "a\ng\n");
    let answer = enter(&["g", "--", "ping", "-c", "1", "{a}"]).fine();
    assert!(shortest(&answer.stdout) >= 10.0, "{}", answer.stdout);
    // It is the guest's own network, files and processes; the exit code is the command's.
    let line = "echo $WARPLINE_HOST $WARPLINE_ADDR_A; hostname; cat /proc/1/comm; touch /made; exit 7";
    let answer = enter(&["g", "--", "sh", "-c", line]);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(7), "g 10.0.0.1\ng\nagent\n"));
    assert!(!Path::new("/made").exists());
    // A shell there finds the program under test, which is not in PATH.
    let version = desk.warpline(&["--version"]).fine().stdout;
    for host in ["a", "g"] {
        let answer = enter(&[host, "--", "sh", "-c", "\"$WARPLINE_PROGRAM\" --version"]).fine();
        assert_eq!(answer.stdout, version);
    }
    // What is piped through comes back as it was, however much it is.
    let bytes: Vec<u8> =
        (0..300_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(desk.path().join("sent"), &bytes).unwrap();
    let mut cat = desk.program(&["enter", "--control", "sock", "g", "--", "cat"]);
    cat.stdin(File::open(desk.path().join("sent")).unwrap());
    assert!(cat.output().unwrap().stdout == bytes);
    let answer = enter(&["g", "--", "no-such-program"]);
    assert!(answer.code == Some(127) && answer.stderr.contains("no-such-program"), "{answer:?}");
    let answer = enter(&["g", "--", "sh", "-c", "echo fine; echo wrong >&2; test -t 1"]);
    assert_eq!((answer.code, &*answer.stdout, &*answer.stderr), (Some(1), "fine\n", "wrong\n"));
    typed(&desk, "g", "A");
    // All terminals at once, and one more.
    let mut typists: Vec<Typist> = (0..8).map(|_| Typist::on(&desk, "g")).collect();
    let answer = enter(&["g", "--", "true"]);
    assert!(answer.code == Some(1) && answer.stderr.contains("8 terminals"), "{answer:?}");
    // One whose window was closed, and one that was killed, leave theirs to the next.
    for signal in ["-HUP", "-KILL"] {
        let mut gone = typists.remove(0);
        gone.types("sleep 1000\r");
        let id = gone.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        gone.child.wait().unwrap();
        enter(&["g", "--", "true"]).fine();
    }
    drop(typists);
    run.interrupt();
    let ended = run.answer();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let happened = std::fs::read_to_string(desk.path().join("out/scenario.toml")).unwrap();
    has_typed(&happened, "A");
    desk.warpline(&["check", "out/scenario.toml"]).fine();
}

#[test]
fn a_simulation_cannot_be_changed_while_it_goes_on() {
    let desk = Desk::new();
    let answer = desk.warpline(&["run", "small.toml", "--control"]);
    assert!(answer.code == Some(2) && answer.stderr.contains("[[change]]"), "{answer:?}");
    // Nobody asked listens.
    let answer = desk.warpline(&["set", "--control", "nowhere", "up", "rate=1mbit"]);
    assert!(answer.code == Some(1) && answer.stderr.contains("no run listens at nowhere"), "{answer:?}");
}
