//! Cap and its server over loopback, with real sockets: outcomes, not speeds.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use warpline_capacity::{
    CapOptions, Direction, HELLO, Outcome, Refusal, ServerLimits, TrenoOptions, TrenoOutcome, Unreachable,
    VERSION,
};
use warpline_core::{Rate, TimeDelta};
use warpline_live::measure::cap::{CapConfig, CapRun, Sample, run};
use warpline_live::measure::capd::{CapdConfig, CapdEvent, serve};
use warpline_live::measure::probe::ProbeMode;
use warpline_live::measure::probing::ProbePath;
use warpline_live::measure::sender_only::{self, SenderOnlyConfig};
use warpline_live::measure::{MeasureError, treno};

/// A server on a thread of its own.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    events: mpsc::Receiver<CapdEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(listen: &str, limits: ServerLimits) -> Option<Server> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, events) = mpsc::channel();
        let config = CapdConfig { listen: listen.parse().unwrap(), limits, offload: true, tests: None };
        let thread = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                // If it cannot listen, nothing answers, which the caller sees.
                let _ = serve(&config, &stop, &mut |event| tell.send(event).unwrap_or(()));
            })
        };
        let Ok(CapdEvent::Listening(address)) = events.recv() else {
            thread.join().unwrap();
            return None;
        };
        Some(Server { address, stop, events, thread: Some(thread) })
    }
    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn config(server: SocketAddr, options: CapOptions) -> CapConfig {
    CapConfig {
        server,
        options,
        key: None,
        patience: TimeDelta::from_secs(30),
        interval: TimeDelta::from_millis(100),
        trace: false,
        offload: true,
    }
}

/// A short test at a rate that any machine can keep.
fn gentle(direction: Direction) -> CapOptions {
    CapOptions {
        duration: TimeDelta::from_millis(500),
        direction,
        max_rate: Some(Rate::from_bps(20_000_000)),
        ..CapOptions::default()
    }
}

fn measure(config: &CapConfig) -> CapRun {
    run(config, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

#[test]
fn both_directions_over_both_families() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let Some(server) = Server::start(listen, ServerLimits::default()) else {
            warpline_skip::skip("ipv6", format!("no {listen} here"));
            continue;
        };
        for direction in [Direction::Forward, Direction::Reverse] {
            let run = measure(&config(server.address, gentle(direction)));
            assert_eq!(run.outcome, Outcome::Complete, "{run:?}");
            let peer = run.peer.unwrap();
            let sender = run.own.sender.or(peer.sender).unwrap();
            let receiver = run.own.receiver.or(peer.receiver).unwrap();
            assert!(sender.data_bytes > 100_000 && receiver.data_bytes >= sender.data_bytes);
            assert!(sender.elapsed_ns >= 500_000_000 && !run.samples.is_empty());
            // One machine, one clock: the delay is what it takes to get through the kernel.
            let least = receiver.delay_min().unwrap();
            assert!(least >= -100, "{least} us");
            let Ok(CapdEvent::Finished(finished)) = server.events.recv() else {
                panic!("the server says nothing");
            };
            assert_eq!((finished.why, finished.direction), ("complete", direction));
        }
    }
}

#[test]
fn one_server_socket_serves_both_families_and_many_clients() {
    let Some(server) = Server::start("[::]:0", ServerLimits::default()) else {
        return warpline_skip::skip("ipv6", "no socket can listen on [::]");
    };
    let port = server.address.port();
    let clients: Vec<_> = ["127.0.0.1", "::1", "127.0.0.1", "127.0.0.1"]
        .into_iter()
        .map(|ip| {
            let config = config(SocketAddr::new(ip.parse().unwrap(), port), gentle(Direction::Forward));
            std::thread::spawn(move || measure(&config))
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap().outcome, Outcome::Complete);
    }
}

#[test]
fn a_key_is_needed_where_the_server_has_one() {
    let limits = ServerLimits { key: Some(b"secret".to_vec()), ..ServerLimits::default() };
    let server = Server::start("127.0.0.1:0", limits).unwrap();
    let with = |key: Option<&[u8]>| {
        let key = key.map(<[u8]>::to_vec);
        measure(&CapConfig { key, ..config(server.address, gentle(Direction::Forward)) }).outcome
    };
    assert_eq!(with(Some(b"secret")), Outcome::Complete);
    assert_eq!(with(Some(b"guess")), Outcome::Refused(Refusal::Key, 0));
    assert_eq!(with(None), Outcome::Refused(Refusal::Key, 0));
}

#[test]
fn nobody_there_is_told_at_once() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(
        measure(&config(port, gentle(Direction::Forward))).outcome,
        Outcome::Unreachable(Unreachable::Port)
    );
}

#[test]
fn a_port_that_says_nothing_is_given_up() {
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = CapConfig {
        patience: TimeDelta::from_millis(600),
        ..config(mute.local_addr().unwrap(), gentle(Direction::Forward))
    };
    assert_eq!(measure(&config).outcome, Outcome::NoAnswer);
}

#[test]
fn a_server_that_stops_in_mid_test_says_so_and_what_was_measured_is_kept() {
    let mut server = Server::start("127.0.0.1:0", ServerLimits::default()).unwrap();
    let options = CapOptions { duration: TimeDelta::from_secs(30), ..gentle(Direction::Forward) };
    let config = config(server.address, options);
    let (tell, sent) = mpsc::channel();
    let client = std::thread::spawn(move || {
        // The last samples come when nothing waits for them any more.
        let progress = &mut |sample: &Sample| tell.send(sample.progress.data_bytes).unwrap_or(());
        run(&config, &AtomicBool::new(false), progress).unwrap()
    });
    while sent.recv().unwrap() <= 100_000 {}
    server.end();
    let run = client.join().unwrap();
    assert_eq!(run.outcome, Outcome::Refused(Refusal::Stopping, 0));
    assert!(run.own.sender.unwrap().data_bytes > 100_000);
}

#[test]
fn noise_does_not_disturb_a_test() {
    let server = Server::start("127.0.0.1:0", ServerLimits::default()).unwrap();
    let address = server.address;
    let over = Arc::new(AtomicBool::new(false));
    let noise = {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut state = 1_u32;
            while !over.load(Ordering::Relaxed) {
                let mut bytes = [0xb1; 100];
                for byte in &mut bytes[1..] {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    *byte = (state >> 24) as u8;
                }
                bytes[1] %= 10;
                socket.send_to(&bytes, address).unwrap();
                std::thread::yield_now();
            }
        })
    };
    let run = measure(&config(address, gentle(Direction::Forward)));
    over.store(true, Ordering::Relaxed);
    noise.join().unwrap();
    assert_eq!(run.outcome, Outcome::Complete);
}

/// Introduces itself to a server, with the required number of bytes.
fn hello(nonce: u8) -> Vec<u8> {
    let mut bytes = vec![nonce; HELLO];
    bytes[..2].copy_from_slice(&[VERSION, 1]);
    bytes
}

#[test]
fn a_flood_from_many_addresses_opens_nothing_gets_less_than_it_brings_and_leaves_a_test_alone() {
    for key in [None, Some(b"secret".to_vec())] {
        let limits = ServerLimits { key: key.clone(), ..ServerLimits::default() };
        let server = Server::start("127.0.0.1:0", limits).unwrap();
        let address = server.address;
        let over = Arc::new(AtomicBool::new(false));
        let flood = {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let sockets: Vec<UdpSocket> = (0..200)
                    .map(|host| {
                        let socket = UdpSocket::bind((Ipv4Addr::new(127, 3, 0, host), 0)).unwrap();
                        socket.set_nonblocking(true).unwrap();
                        socket
                    })
                    .collect();
                let (mut state, mut sent, mut came) = (1_u32, 0, 0);
                let mut noise = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                };
                for step in 0..60_000_usize {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut bytes = hello(noise());
                    match step % 5 {
                        // Openings with forged cookies, segments of forged sessions, pieces, and random bytes.
                        1 => {
                            bytes.resize_with(117, &mut noise);
                            bytes[1] = 3;
                        }
                        2 => {
                            bytes.iter_mut().skip(2).for_each(|byte| *byte = noise());
                            bytes[1] = 6;
                        }
                        3 => bytes.truncate(1 + usize::from(noise()) % 60),
                        4 => bytes.iter_mut().for_each(|byte| *byte = noise()),
                        _ => {}
                    }
                    let socket = &sockets[step % sockets.len()];
                    if socket.send_to(&bytes, address).is_ok() {
                        sent += bytes.len();
                    }
                    let mut answer = [0; 2048];
                    while let Ok(len) = socket.recv(&mut answer) {
                        came += len;
                    }
                }
                (sent, came)
            })
        };
        let run = measure(&CapConfig { key, ..config(address, gentle(Direction::Forward)) });
        over.store(true, Ordering::Relaxed);
        let (sent, came) = flood.join().unwrap();
        assert_eq!(run.outcome, Outcome::Complete, "{run:?}");
        assert!(sent > 0 && came < sent, "{came} bytes for {sent}");
        let mut server = server;
        server.end();
        let ended = server.events.iter().filter(|event| matches!(event, CapdEvent::Finished(_))).count();
        assert_eq!(ended, 1, "the honest client's session is the only one");
    }
}

/// Runs the body of the test with this name in a network namespace of its own. Returns false in the process that must do nothing more.
fn inside_namespace(name: &str) -> bool {
    const INSIDE: &str = "WARPLINE_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let can = Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        warpline_skip::skip("root", "this user may not make namespaces here");
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["-rn", "--"]).arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]);
    assert!(command.env(INSIDE, "1").status().unwrap().success(), "inside the namespace");
    false
}

#[test]
fn no_error_of_one_peer_ends_a_server() {
    if !inside_namespace("no_error_of_one_peer_ends_a_server") {
        return;
    }
    let shell = |line: &str| {
        assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
    };
    shell("ip link set lo up");
    // Rules that come before the table of local addresses.
    shell("ip rule add pref 10 lookup local && ip rule del pref 0");
    let server = Server::start("127.0.0.1:0", ServerLimits::default()).unwrap();
    // EPERM of a firewall, EACCES, ENETUNREACH and EINVAL of routing: each concerns one peer that has just sent a request.
    let cuts = [
        "nft 'add table ip t; add chain ip t o { type filter hook output priority 0; }; add rule ip t o ip daddr 127.9.0.1 drop'",
        "ip rule add pref 1 to 127.9.0.2 prohibit",
        "ip rule add pref 1 to 127.9.0.3 unreachable",
        "ip rule add pref 1 to 127.9.0.4 blackhole",
    ];
    for (host, cut) in (1..).zip(cuts) {
        let peer = UdpSocket::bind((Ipv4Addr::new(127, 9, 0, host), 0)).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        peer.connect(server.address).unwrap();
        peer.send(&hello(host)).unwrap();
        assert_eq!(peer.recv(&mut [0; 100]).unwrap(), 42, "the way is open: a cookie");
        shell(cut);
        peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        peer.send(&hello(host)).unwrap();
        assert!(peer.recv(&mut [0; 100]).is_err(), "{cut}: nothing can be sent there");
        let run = measure(&config(server.address, gentle(Direction::Reverse)));
        assert_eq!(run.outcome, Outcome::Complete, "after {cut}");
        assert_eq!(
            run.peer.unwrap().host.send_drops,
            0,
            "what another peer was refused is no loss of this test"
        );
    }
}

#[test]
fn segments_that_do_not_fit_are_said_to_be_too_large() {
    let server = Server::start("127.0.0.1:0", ServerLimits::default()).unwrap();
    let options = CapOptions { segment: 65_507, ..gentle(Direction::Forward) };
    // 65535 bytes is what loopback takes, with headers.
    let run = measure(&config(server.address, options));
    assert_eq!((run.outcome, run.too_big), (Outcome::Complete, None));
}

#[test]
fn segments_larger_than_the_interface_end_a_test_with_that_reason_whoever_sends() {
    if !inside_namespace("segments_larger_than_the_interface_end_a_test_with_that_reason_whoever_sends") {
        return;
    }
    let set = Command::new("ip").args(["link", "set", "lo", "mtu", "1400", "up"]).status().unwrap();
    assert!(set.success());
    let server = Server::start("127.0.0.1:0", ServerLimits::default()).unwrap();
    for (direction, outcome, too_big) in [
        (Direction::Forward, Outcome::Stopped, Some(None)),
        (Direction::Reverse, Outcome::Refused(Refusal::TooLarge, 0), None),
    ] {
        let run = measure(&config(server.address, gentle(direction)));
        assert_eq!((run.outcome, run.too_big), (outcome, too_big), "{direction:?}");
        let smaller = CapOptions { segment: 1400, ..gentle(direction) };
        assert_eq!(measure(&config(server.address, smaller)).outcome, Outcome::Complete, "{direction:?}");
    }
}

fn loopback(mode: ProbeMode) -> ProbePath {
    ProbePath { target: (Ipv4Addr::LOCALHOST, 0).into(), mode, ttl: None }
}

#[test]
fn cap_measures_loopback_from_one_side() {
    let config = SenderOnlyConfig {
        path: loopback(ProbeMode::Icmp),
        options: gentle(Direction::Forward),
        patience: TimeDelta::from_secs(5),
        interval: TimeDelta::from_millis(100),
        trace: false,
    };
    let (run, probes) = match sender_only::run(&config, &AtomicBool::new(false), &mut |_| {}) {
        Err(MeasureError::Privilege) => {
            return warpline_skip::skip("icmp-sockets", "this user has none");
        }
        run => run.unwrap(),
    };
    assert_eq!(run.outcome, Outcome::Complete, "{run:?}");
    assert!(probes.starts_with("ICMP echo"), "{probes}");
    let (sender, receiver) = (run.own.sender.unwrap(), run.own.receiver.unwrap());
    assert!(sender.data_bytes > 0 && receiver.data_bytes >= sender.data_bytes, "{run:?}");
    assert_eq!(run.local.ip(), config.path.target.ip());
    assert!(!run.samples.is_empty());
}

#[test]
fn treno_measures_loopback_with_what_the_user_may_use() {
    let options = TrenoOptions {
        duration: TimeDelta::from_millis(400),
        max_window: 100_000,
        ..TrenoOptions::default()
    };
    for mode in [ProbeMode::Icmp, ProbeMode::Udp] {
        let config = treno::TrenoConfig {
            path: loopback(mode),
            options: options.clone(),
            interval: TimeDelta::from_millis(100),
        };
        let run = match treno::run(&config, &AtomicBool::new(false), &mut |_| {}) {
            Err(MeasureError::Privilege) => {
                warpline_skip::skip("icmp-sockets", "this user has none");
                continue;
            }
            run => run.unwrap(),
        };
        assert_eq!(run.outcome, TrenoOutcome::Complete, "{run:?}");
        assert_eq!(run.responders.len(), 1, "{run:?}");
        assert!(run.results.replies > 0 && run.results.data_bytes > 0);
    }
}
