//! Commands in the background: TCP Nice in this machine's kernel, with real programs.
//!
//! They need root, the BPF objects in the build (clang), BTF, control groups of version 2, and the programs; otherwise the tests are
//! skipped. The measurements have generous bounds: the foreground keeps its bandwidth, and the background takes the rest.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

use crate::support::{Answer, Desk};

/// There is one kernel for all tests.
static KERNEL: Mutex<()> = Mutex::new(());

/// Whether Nice was in it before the first of these tests: then it is somebody else's.
static FOREIGN: OnceLock<bool> = OnceLock::new();

/// How often a measurement is tried again: other work on the machine takes some of what is measured.
const TRIES: u32 = 3;

/// Whether this machine can do it, and no other test does it now; otherwise says what is missing.
pub(crate) fn able(programs: &[&str]) -> Option<MutexGuard<'static, ()>> {
    let succeeds = |line: &str| Command::new("sh").args(["-c", line]).status().is_ok_and(|s| s.success());
    // Held before the attempt below, which another test would see.
    let kernel = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    if *FOREIGN.get_or_init(is_loaded) {
        warpline_skip::skip("tcp-nice", "somebody else has it loaded");
        return None;
    }
    let mut missing = Vec::new();
    // What the kernel lacks may be missing anywhere; a program or a part of the build may not.
    let mut what = if succeeds("[ $(id -u) = 0 ]") { "tcp-nice" } else { "root" };
    let answer = Desk::new().warpline(&["nice", "--strict", "--", "true"]);
    if answer.code != Some(0) {
        if answer.stderr.contains("holds no BPF programs") {
            what = "program";
        }
        missing.push(answer.stderr.trim().to_owned());
    }
    for program in programs {
        if !succeeds(&format!("command -v {program} >/dev/null")) {
            what = "program";
            missing.push((*program).to_owned());
        }
    }
    if !missing.is_empty() {
        warpline_skip::skip(what, missing.join(", "));
        return None;
    }
    Some(kernel)
}

/// Whether Nice is in the kernel.
fn is_loaded() -> bool {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    available.split_whitespace().any(|name| name == "nice")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_build_without_the_objects_says_how_to_get_them() {
    let doctor = json(&Desk::new().warpline(&["doctor", "--json"]).fine().stdout);
    let objects = doctor.as_array().unwrap().iter().find(|finding| finding["name"] == "BPF objects").unwrap();
    if objects["ok"] == true {
        assert_eq!(objects["found"], "in this build");
        return;
    }
    assert!(objects["remedy"].as_str().unwrap().contains("apt install clang"), "{objects}");
    for words in [&["nice", "load"][..], &["nice", "status"], &["nice", "--strict", "--", "true"]] {
        let answer = Desk::new().warpline(words);
        assert_eq!(answer.code, Some(1), "{words:?}");
        assert!(answer.stderr.contains("holds no BPF programs"), "{}", answer.stderr);
        assert!(answer.stderr.contains("clang"), "{}", answer.stderr);
    }
}

#[test]
fn mistakes_are_reported_before_anything_starts() {
    let desk = Desk::new();
    let answer = desk.warpline(&["nice"]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("what to run"), "{}", answer.stderr);
    if able(&[]).is_some() {
        let answer = desk.warpline(&["nice", "--threshold", "1.5", "--", "true"]);
        assert_eq!(answer.code, Some(2));
        assert!(answer.stderr.contains("`threshold` is 1.5; allowed: 0 to 1"), "{}", answer.stderr);
    }
}

#[test]
fn the_exit_code_is_that_of_the_command_and_nothing_is_left() {
    let Some(_kernel) = able(&[]) else { return };
    // Tests of other commands remove leftovers, too.
    let _turn = crate::live::alone();
    let desk = Desk::new();
    for (words, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["no-such-program"], 127),
        (&["/dev/null"], 126),
    ] {
        let answer = desk.warpline(&[&["nice", "--"], words].concat());
        assert_eq!(answer.code, Some(code), "{words:?}: {}", answer.stderr);
    }
    let answer = desk.warpline(&["nice", "--", "cat", "/proc/self/cgroup"]).fine();
    assert_eq!(answer.stderr, "");
    let group = answer.stdout.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned();
    assert!(group.contains("/warpline-nice-"), "{group}");
    // Gone: no process can be in it, and the algorithm has gone with its last user.
    let found = Command::new("find").args(["/sys/fs/cgroup", "-name", "warpline-nice-*"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&found.stdout).contains(group.rsplit('/').next().unwrap()));
    assert!(!is_loaded());
}

/// Connects to itself and prints the congestion control of each end, of a child process's socket, and after asking for another one.
const SOCKETS: &str = "
import os, socket
name = lambda s: s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b'\\0')[0].decode()
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError:
        continue
    if os.fork() == 0:
        client = socket.create_connection(listener.getsockname()[:2])
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'reno')
        client.sendall(name(client).encode())
        os._exit(0)
    accepted, _ = listener.accept()
    print(name(accepted), accepted.recv(16).decode())
    os.wait()
";

#[test]
fn every_socket_of_a_program_and_its_children_is_put_in_the_background() {
    let Some(_kernel) = able(&["python3"]) else { return };
    let desk = Desk::new();
    let answer = desk.warpline(&["nice", "--", "python3", "-c", SOCKETS]).fine();
    assert!(!answer.stdout.is_empty());
    assert!(answer.stdout.lines().all(|line| line == "nice nice"), "{}", answer.stdout);
    // And those of others are not.
    let other = Command::new("python3").args(["-c", SOCKETS]).output().unwrap();
    let other = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(other.contains("reno") && !other.contains("nice"), "{other}");
}

#[test]
fn loaded_it_stays_until_it_is_unloaded() {
    let Some(_kernel) = able(&["python3"]) else { return };
    let desk = Desk::new();
    let status = || json(&desk.warpline(&["nice", "status", "--json"]).fine().stdout);
    assert_eq!(status()["loaded"], Value::Null);
    desk.warpline(&["nice", "load"]).fine();
    let loaded = status()["loaded"].clone();
    assert_eq!(loaded["stays"], true);
    let fraction = loaded["parameters"]["fraction"].as_f64();
    // The kernel has it in parts of 65536.
    assert!(fraction.is_some_and(|fraction| (fraction - 0.4).abs() < 1e-4), "{loaded}");
    desk.warpline(&["nice", "load", "--fraction", "0.25"]).fine();
    assert_eq!(status()["loaded"]["parameters"]["fraction"], 0.25);
    // Commands use it as it is loaded, and fail if they ask for other parameters.
    desk.warpline(&["nice", "--", "true"]).fine();
    let answer = desk.warpline(&["nice", "--fraction", "0.75", "--", "true"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("with other parameters"), "{}", answer.stderr);
    assert_eq!(status()["loaded"]["stays"], true);
    // An ordinary user's programs may choose it.
    let choice = "import os, socket; os.setuid(65534); s = socket.socket(); s.setsockopt(6, 13, b'nice')";
    assert!(Command::new("python3").args(["-c", choice]).status().unwrap().success());
    desk.warpline(&["nice", "unload"]).fine();
    assert_eq!(status()["loaded"], Value::Null);
    assert!(!is_loaded());
}

#[test]
fn a_pin_is_used_only_if_nobody_but_root_can_write_there() {
    let Some(_kernel) = able(&["unshare", "setpriv"]) else { return };
    let warpline = env!("CARGO_BIN_EXE_warpline");
    // In another mount namespace: first without a BPF file system, then with one that every user may write to, as the kernel mounts it.
    let script = format!(
        "
        while umount /sys/fs/bpf 2>/dev/null; do :; done
        {warpline} nice load >/dev/null; stat -c %a /sys/fs/bpf /sys/fs/bpf/warpline; {warpline} nice unload >/dev/null
        umount /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf; stat -c %a /sys/fs/bpf
        setpriv --reuid=1234 --regid=1234 --clear-groups sh -c 'umask 0; mkdir /sys/fs/bpf/warpline'
        {warpline} nice load; echo load $?; {warpline} nice status | head -n 1
        rmdir /sys/fs/bpf/warpline; mkdir -m 700 /sys/fs/bpf/warpline; mkdir /sys/fs/bpf/warpline/nice
        {warpline} nice load; echo load $?; {warpline} nice status | head -n 1
        "
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let refused = "load 1\nTCP Nice is not in the kernel.\n";
    // The kernel adds the sticky bit to the file system's own mode.
    assert_eq!(out, format!("1700\n700\n1777\n{refused}{refused}"), "{err}");
    assert!(err.contains("/sys/fs/bpf/warpline is not used: it belongs to user 1234"), "{err}");
    assert!(err.contains("/sys/fs/bpf/warpline/nice is not TCP Nice's"), "{err}");
}

#[test]
fn leftovers_of_a_killed_command_are_removed() {
    let Some(_kernel) = able(&[]) else { return };
    let _turn = crate::live::alone();
    let desk = Desk::new();
    let mut killed = desk
        .program(&["nice", "--", "sh", "-c", "cat /proc/self/cgroup; exec sleep 600"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut group = String::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(killed.stdout.take().unwrap())) {
        if let Some(path) = line.unwrap().strip_prefix("0::") {
            group = path.to_owned();
            break;
        }
    }
    crate::killed::kill_both(&mut killed);
    let answer = desk.warpline(&["clean"]).fine();
    // The clean-up of another test may have been quicker. Either way, nothing may be left.
    let name = group.rsplit('/').next().unwrap();
    let found = Command::new("find").args(["/sys/fs/cgroup", "-name", name]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{}", answer.stdout);
    assert!(!is_loaded());
}

/// The rate that a real program reported at the end, in Mbit/s.
fn rate(report: &Value) -> f64 {
    report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("{report}")) / 1e6
}

/// Transfers of iperf3 behind 20 Mbit/s, 40 ms and a queue of one BDP: the background alone, the foreground alone, both. `ways` are
/// iperf3's options for the direction, `nice` those of `warpline nice`. What the background measured alone, the foreground alone, and the foreground beside it;
/// and the background's status.
fn beside_each_other(ways: &str, nice: &str) -> [Value; 4] {
    let desk = Desk::new();
    let warpline = env!("CARGO_BIN_EXE_warpline");
    let script = format!(
        "
        cd {directory}
        tries=0
        until grep -q listening first.log && grep -q listening second.log; do
            tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 1; sleep 0.1
        done
        {warpline} nice --strict {nice} -- iperf3 -c $WARPLINE_BASE -J -t 5 {ways} -P 4 > alone.json || exit
        iperf3 -c $WARPLINE_BASE -p 5202 -J -t 6 -C cubic {ways} > before.json || exit
        {warpline} nice --strict {nice} -- iperf3 -c $WARPLINE_BASE -J -t 300 {ways} -P 8 > background.json &
        until {warpline} nice status --json | python3 busy.py; do kill -0 $! || exit 1; sleep 0.1; done
        iperf3 -c $WARPLINE_BASE -p 5202 -J -t 6 -C cubic {ways} > beside.json || exit
        {warpline} nice status --json > status.json || exit
        kill $! && wait
        exit 0
        ",
        directory = desk.path().display()
    );
    let script = desk.write("transfers.sh", &script).display().to_string();
    // Whether each of the eight background connections has carried more than a queue of the link holds.
    let busy = "
import json, sys
connections = json.load(sys.stdin)['connections']
carried = [(c['bytes_acked'] or 0) + (c['bytes_received'] or 0) for c in connections]
sys.exit(sum(bytes > 100_000 for bytes in carried) < 8)
";
    desk.write("busy.py", busy);
    let words = ["shell", "--rate", "20mbit", "--delay", "20ms", "--queue", "1BDP"];
    let words = [
        &words[..],
        &[
            "--base",
            "iperf3 -s --forceflush > first.log & iperf3 -s -p 5202 --forceflush > second.log",
            "--",
            "sh",
            &script,
        ],
    ];
    let answer = desk.warpline(&words.concat());
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let read = |name: &str| json(&std::fs::read_to_string(desk.path().join(name)).unwrap());
    ["alone.json", "before.json", "beside.json", "status.json"].map(read)
}

/// The same, until the background alone has used the line and the foreground has kept its rate beside it. Returns the background's status.
#[track_caller]
fn yielding(ways: &str, nice: &str) -> Value {
    let mut got = Vec::new();
    for _ in 0..TRIES {
        let [alone, before, beside, status] = beside_each_other(ways, nice);
        let (alone, kept) = (rate(&alone), rate(&beside) / rate(&before));
        // Wrong are 2.3 Mbit/s alone, and the 0.11 that one of nine equal flows keeps.
        if alone > 10.0 && kept > 0.5 {
            return status;
        }
        got.push((alone, kept));
    }
    panic!("what the background got of 20 Mbit/s alone, and the part that the foreground kept: {got:?}");
}

#[test]
fn the_foreground_keeps_its_throughput_and_the_background_takes_the_rest() {
    let Some(_kernel) = able(&["iperf3", "python3"]) else { return };
    let status = yielding("", "");
    // Beside a foreground that fills the queue, windows fall below a segment. The detector's values are plausible.
    let sockets = status["connections"].as_array().unwrap();
    let data: Vec<&Value> = sockets.iter().filter(|s| s["bytes_acked"].as_u64() > Some(10_000)).collect();
    assert_eq!(data.len(), 8, "{status}");
    let smallest = data.iter().map(|s| s["window"].as_f64().unwrap()).fold(f64::MAX, f64::min);
    assert!((0.02..1.0).contains(&smallest), "smallest window {smallest}");
    for socket in data {
        let (base, max) = (socket["base_rtt_ms"].as_f64().unwrap(), socket["max_rtt_ms"].as_f64().unwrap());
        // The largest is that of a whole round: above three quarters of a queue that takes 40 ms.
        assert!((39.9..60.0).contains(&base) && max > 58.0, "{socket}");
        assert!(socket["halvings"].as_u64() > Some(0), "{socket}");
    }
}

#[test]
fn received_data_yields_too() {
    let Some(_kernel) = able(&["iperf3", "python3"]) else { return };
    let status = yielding("-R", "--receive");
    let sockets = status["connections"].as_array().unwrap();
    let data: Vec<&Value> = sockets.iter().filter(|s| s["bytes_received"].as_u64() > Some(10_000)).collect();
    assert_eq!(data.len(), 8, "{status}");
    for socket in data {
        assert_eq!(socket["direction"], "both");
        assert!(socket["receive_window"].as_f64() < Some(40.0), "{socket}");
    }
}

/// Sends to the address of its first argument and prints how many segments are under way before the first answer, and the kernel's window: with
/// "now" on a new connection; with "idle" on one that was idle for longer than its time-out; with "later" on one that becomes nice after 40 segments
/// were acknowledged.
const FLIGHT: &str = "
import socket, struct, sys, time
address, when = sys.argv[1:]
s = socket.create_connection((address, 5201))
# All that is to be sent has room, so that nothing waits for an answer.
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
if when != 'now':
    s.sendall(bytes(40 * 1448))
    s.recv(1)
if when == 'idle':
    time.sleep(6)
if when == 'later':
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'nice')
s.sendall(bytes(40 * 1448))
info = struct.unpack_from('20I', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8)
print(info[4], info[18])
";

/// Answers each connection with a byte when 40 segments have come.
const SINK: &str = "
import socket
listener = socket.create_server(('0.0.0.0', 5201))
while True:
    s, _ = listener.accept()
    got = 0
    while got < 40 * 1448:
        got += len(s.recv(1 << 20)) or 1 << 30
    s.sendall(b'x')
";

/// Runs a Python `server` on port 5201, and lines of the shell behind a link to it, in the directory of the desk.
fn behind(desk: &Desk, link: &[&str], server: &str, lines: &str) -> Answer {
    let server = format!("python3 {}", desk.write("server.py", server).display());
    let lines = format!(
        "
        cd {directory}
        tries=0
        until python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], 5201)).close()' $WARPLINE_BASE 2>/dev/null; do
            tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 1; sleep 0.1
        done
        {lines}
        ",
        directory = desk.path().display()
    );
    let lines = desk.write("lines.sh", &lines).display().to_string();
    desk.warpline(&[&["shell"], link, &["--base", &server, "--", "sh", &lines]].concat()).fine()
}

/// Sends two megabytes to each connection.
const FEED: &str = "
import socket
listener = socket.create_server(('0.0.0.0', 5201))
while True:
    s, _ = listener.accept()
    try:
        s.sendall(bytes(2 << 20))
    except OSError:
        pass
    s.close()
";

/// Reads all that the address of its first argument sends, without TCP timestamps, and prints the window that the kernel would advertise then.
const UNSTAMPED: &str = "
import socket, struct, sys
with open('/proc/sys/net/ipv4/tcp_timestamps', 'w') as switch:
    switch.write('0')
s = socket.create_connection((sys.argv[1], 5201))
while s.recv(1 << 20):
    pass
print(struct.unpack_from('20I', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8)[14])
";

#[test]
fn a_download_without_timestamps_is_not_held_back_and_is_reported() {
    let Some(_kernel) = able(&["python3"]) else { return };
    let desk = Desk::new();
    let warpline = env!("CARGO_BIN_EXE_warpline");
    desk.write("unstamped.py", UNSTAMPED);
    let lines = format!("{warpline} nice --strict --receive -- python3 unstamped.py $WARPLINE_BASE");
    let answer = behind(&desk, &["--delay", "10ms", "--rate", "100mbit"], FEED, &lines);
    // The window at the beginning is of ten segments.
    let window: u32 = answer.stdout.trim().parse().unwrap();
    assert!(window > 3 * 14_480, "{window}");
    assert!(answer.stderr.contains("1 connection received without yielding"), "{}", answer.stderr);
}

#[test]
fn a_connection_begins_with_two_segments_also_after_idle_time_and_an_old_one_keeps_its_window() {
    let Some(_kernel) = able(&["python3"]) else { return };
    let desk = Desk::new();
    let warpline = env!("CARGO_BIN_EXE_warpline");
    desk.write("flight.py", FLIGHT);
    // As long a path as leaves time to look before the first acknowledgement.
    let lines = format!(
        "
        python3 flight.py $WARPLINE_BASE now
        {warpline} nice --strict -- python3 flight.py $WARPLINE_BASE now
        {warpline} nice --strict -- python3 flight.py $WARPLINE_BASE idle
        {warpline} nice load >/dev/null
        python3 flight.py $WARPLINE_BASE later
        {warpline} nice unload >/dev/null
        "
    );
    let answer = behind(&desk, &["--delay", "500ms", "--rate", "100mbit"], SINK, &lines);
    let flights: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(flights[..3], ["10 10", "2 2", "2 2"], "{}", answer.stdout);
    let later: Vec<u32> = flights[3].split(' ').map(|number| number.parse().unwrap()).collect();
    assert!(later[1] > 10, "{}", answer.stdout);
}

/// Reads whatever comes on port 5201.
const DRAIN: &str = "
import socketserver
class Drain(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(1 << 20):
            pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('0.0.0.0', 5201), Drain).serve_forever()
";

/// What the scripts below begin with: a connection to the address of the first argument, a thread that sends on it, and the connections of Nice that `warpline`,
/// the second argument, shows.
const SENDING: &str = "
import socket, struct, subprocess, sys, threading, time
address, warpline = sys.argv[1:]
def connection(cc):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.connect((address, 5201))
    return s
def sends(s):
    while True:
        s.sendall(bytes(1 << 16))
def begins(cc):
    threading.Thread(target=sends, args=[connection(cc)], daemon=True).start()
def show():
    print(subprocess.run([warpline, 'nice', 'status', '--json'], check=True, capture_output=True, text=True).stdout)
";

/// What a script prints, which begins with [`SENDING`] and runs behind a link, while Nice is in the kernel.
fn told_behind(link: &[&str], script: &str) -> String {
    let desk = Desk::new();
    desk.write("script.py", &format!("{SENDING}{script}"));
    let warpline = env!("CARGO_BIN_EXE_warpline");
    let lines = format!(
        "
        {warpline} nice load >/dev/null
        python3 script.py $WARPLINE_BASE {warpline}
        {warpline} nice unload >/dev/null
        "
    );
    behind(&desk, link, DRAIN, &lines).stdout
}

/// The connections of Nice that such a script shows.
fn connections_shown(link: &[&str], script: &str) -> Vec<Value> {
    let mut status = json(&told_behind(link, script));
    serde_json::from_value(status["connections"].take()).unwrap()
}

#[test]
fn a_connection_that_begins_in_a_full_queue_knows_the_shortest_rtt_of_its_path() {
    let Some(_kernel) = able(&["python3"]) else { return };
    // The queue is as long as 240 ms, and Reno leaves at least 100 of them.
    let link = ["--delay", "20ms", "--rate", "10mbit", "--queue", "200p"];
    let script = "
first = connection(b'nice')
first.sendall(bytes(100_000))
time.sleep(2)
begins(b'reno')
time.sleep(3)
begins(b'nice')
time.sleep(3)
show()
";
    let connections = connections_shown(&link, script);
    assert_eq!(connections.len(), 2, "{connections:?}");
    for connection in &connections {
        assert!((40.0..100.0).contains(&connection["base_rtt_ms"].as_f64().unwrap()), "{connections:?}");
    }
    assert!(connections.iter().any(|one| one["srtt_ms"].as_f64() > Some(100.0)), "{connections:?}");
}

#[test]
fn a_connection_on_a_path_that_is_known_to_be_slow_begins_with_one_segment() {
    let Some(_kernel) = able(&["python3"]) else { return };
    // A segment takes 47 ms, and there is time to look before it is acknowledged.
    let link = ["--delay", "300ms", "--rate", "256kbit", "--queue", "50p"];
    // Places in the kernel's struct tcp_info (linux/tcp.h): segments in flight, the window, and bytes that are not sent yet.
    let script = "
UNACKED, WINDOW, NOT_SENT = 24, 80, 144
def told(s, *places):
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return [struct.unpack_from('I', info, place)[0] for place in places]
first = connection(b'nice')
first.sendall(bytes(40_000))
end = time.monotonic() + 100
while any(told(first, UNACKED, NOT_SENT)):
    assert time.monotonic() < end, told(first, UNACKED, NOT_SENT)
    time.sleep(0.05)
second = connection(b'nice')
second.sendall(bytes(10_000))
print(*told(second, UNACKED, WINDOW))
";
    // Any other new connection has two, in a window of two.
    assert_eq!(told_behind(&link, script), "1 1\n");
}

#[test]
fn a_flow_alone_on_a_slow_line_is_not_late_for_its_own_packets() {
    let Some(_kernel) = able(&["python3"]) else { return };
    let link = ["--delay", "20ms", "--rate", "256kbit", "--queue", "50p"];
    // Another connection with small segments, whose trains say nothing of full ones.
    let script = "
first = connection(b'nice')
for _ in range(40):
    first.sendall(bytes(100))
    time.sleep(0.01)
time.sleep(2)
begins(b'nice')
time.sleep(15)
show()
";
    let line = 15.0 * 256e3 / 8.0;
    let mut got = Vec::new();
    for _ in 0..TRIES {
        let connections = connections_shown(&link, script);
        let acked = |one: &Value| one["bytes_acked"].as_f64().unwrap();
        let most = connections.iter().map(acked).fold(0.0, f64::max);
        // It gets nine tenths without the other connection, whose small packets show a shorter RTT than full ones have; a third to a half with it, and
        // less beside other work; and a twentieth if its own packets count as late.
        if most > 0.15 * line {
            return;
        }
        got.push((most, connections));
    }
    panic!("bytes of {line}, and the connections: {got:?}");
}

#[test]
fn a_request_to_end_is_passed_on() {
    let Some(_kernel) = able(&[]) else { return };
    let desk = Desk::new();
    for signal in ["TERM", "INT", "QUIT"] {
        let script = format!("trap 'exit 9' {signal}; echo ready; while :; do sleep 0.1; done");
        let words = ["nice", "--", "sh", "-c", &script];
        let mut child = desk.program(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
            .unwrap();
        crate::interrupt::kill(&child, &format!("-{signal}"));
        assert_eq!(child.wait().unwrap().code(), Some(9), "{signal}");
    }
}

#[test]
fn nohup_s_wish_holds_for_the_command_too() {
    let Some(_kernel) = able(&[]) else { return };
    crate::shell::ignores_what_its_parent_wants(&["nice"]);
}

#[test]
fn users_can_use_it_once_it_is_loaded_and_before_that_a_message_says_what_to_do() {
    let Some(_kernel) = able(&["python3", "setpriv"]) else { return };
    let desk = Desk::new();
    let as_nobody = |words: &[&str]| crate::shell::ordinary(&desk).args(words).output().unwrap();
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let before = as_nobody(&["nice", "--", "true"]);
    assert_eq!(before.status.code(), Some(1));
    assert!(said(&before).contains("root's privileges") && said(&before).contains("sudo warpline nice load"));
    desk.warpline(&["nice", "load"]).fine();
    let answers = [
        &["nice", "--strict", "--", "python3", "-c", SOCKETS][..],
        &["nice", "--receive", "--", "true"],
        &["nice", "--receive", "--strict", "--", "true"],
        &["nice", "--threshold", "0.3", "--", "true"],
        &["nice", "status"],
        &["nice", "--", "sh", "-c", "(sleep 3) & exit 5"],
    ]
    .map(as_nobody);
    desk.warpline(&["nice", "unload"]).fine();
    let [switched, receives, strict, parameters, status, left] = answers;
    let stdout = String::from_utf8_lossy(&switched.stdout).into_owned();
    assert!(
        !stdout.is_empty() && stdout.lines().all(|line| line == "nice nice"),
        "{stdout}{}",
        said(&switched)
    );
    assert_eq!(said(&switched), "");
    assert_eq!(receives.status.code(), Some(0));
    assert!(said(&receives).contains("receives does not yield"), "{}", said(&receives));
    assert_eq!(strict.status.code(), Some(1));
    assert!(said(&strict).contains("without --strict"), "{}", said(&strict));
    assert_eq!(parameters.status.code(), Some(1));
    assert!(said(&parameters).contains("leave the options out"), "{}", said(&parameters));
    assert!(String::from_utf8_lossy(&status.stdout).contains("you may use it"));
    assert_eq!(left.status.code(), Some(5));
    assert!(said(&left).contains("so it waits for them"), "{}", said(&left));
}
