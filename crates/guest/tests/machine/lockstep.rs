//! Guests in lock-step with a network.

use warpline_core::Timestamp;
use warpline_guest::lockstep::Ended;
use warpline_guest::order::{Ending, Report};
use warpline_guest::{LockStep, MachineConfig};

use crate::bed::{Bed, Path, bulk, counting, guest, host, kernel, program, seconds};
use crate::busy::while_busy;

/// Runs guests to their end, and returns the reports, the network and the guests.
fn run(configs: &[MachineConfig], path: Path) -> Option<(Vec<Report>, Bed, LockStep)> {
    let kernel = kernel()?;
    let hosts = configs.iter().map(|config| config.order.hosts.len() as u32).sum();
    let mut bed = Bed::new(hosts, path);
    let mut lockstep = LockStep::boot(&kernel, configs, path.delay, &mut || true).unwrap().unwrap();
    let end = Timestamp::from_nanos(configs[0].order.end);
    assert_eq!(lockstep.run(&mut bed, end, |_, _, _| true).unwrap(), Ended::Reached);
    lockstep.finish(end, false, &mut || true).unwrap();
    let reports = lockstep.machines().map(|machine| machine.report().unwrap()).collect();
    Some((reports, bed, lockstep))
}

#[test]
fn linux_fills_a_link_and_recovers_from_drops() {
    let mut config = guest("g", 0, 2, 10.0);
    config.order.flows = bulk(0, 0, 1, 1, None).to_vec();
    config.order.interval = seconds(1.0);
    let path = Path::new(20_000_000, 10, 50_000);
    let Some((reports, bed, lockstep)) = run(&[config], path) else { return };
    let [sink, source] = &reports[0].flows[..] else { panic!("{:?}", reports[0].flows) };
    // 20 Mbit/s, with 1448 bytes of payload in 1500, less the start.
    let goodput = sink.last.received as f64 * 8.0 / 10.0;
    assert!((18.0e6..19.4e6).contains(&goodput), "{goodput} {source:?}");
    assert!(source.last.retransmits > 0 && source.error.is_none() && sink.error.is_none(), "{source:?}");
    // A round trip, two serialisations of 60 bytes, and some microseconds for the program.
    let connected = source.connected.unwrap();
    assert!((20_048_000..20_060_000).contains(&connected), "{connected}");
    assert!(bed.datagrams > 20_000 && lockstep.is_reproducible());
}

#[test]
fn programs_run_and_their_output_and_files_are_brought_back() {
    let mut config = guest("g", 0, 2, 30.0);
    let mut ping = program(0, &["ping", "-c", "3", "-i", "0.5", "10.0.0.2"], "0");
    ping.start = seconds(1.0);
    let line = "echo to stderr >&2; date +%Y-%m-%dT%H:%M:%S; sleep 3.5; date +%Y-%m-%dT%H:%M:%S; echo file > /tmp/x.csv; exit 7";
    let mut dated = program(1, &["sh", "-c", line], "1");
    dated.collect = vec!["/tmp/x.csv".to_owned(), "missing".to_owned()];
    let server = program(1, &["sleep", "1000"], "2");
    let wrong = program(1, &["/no/such/program"], "3");
    config.order.programs = vec![ping, dated, server, wrong];
    let Some((reports, _, mut lockstep)) = run(&[config], Path::new(1_000_000, 25, 100_000)) else { return };
    let [ping, dated, server, wrong] = &reports[0].programs[..] else { panic!() };
    let machine = lockstep.machines().next().unwrap();
    let read = |name: &str| std::fs::read_to_string(machine.shared(name)).unwrap();
    assert_eq!(ping.ending, Ending::Exited(0), "{} {}", read("0.stdout"), read("0.stderr"));
    assert!(read("0.stdout").contains("rtt min/avg/max/mdev = 51."), "{}", read("0.stdout"));
    assert_eq!(dated.ending, Ending::Exited(7));
    assert_eq!(read("1.stdout"), "2026-01-01T00:00:00\n2026-01-01T00:00:03\n");
    assert_eq!(read("1.stderr"), "to stderr\n");
    assert_eq!(read(&dated.files[0]), "file\n");
    assert!(dated.missing[0].contains("missing"), "{:?}", dated.missing);
    assert!(!std::path::Path::new("/tmp/x.csv").exists(), "files that a guest writes stay in the guest");
    assert_eq!((&server.ending, server.ended.is_some()), (&Ending::Stopped, true));
    assert!(matches!(&wrong.ending, Ending::NotStarted(why) if why.contains("/no/such/program")));
}

/// A shell ends at once when it is asked to, or has ended long before; what it has started may still have something to say.
#[test]
fn what_a_program_has_started_has_time_to_end() {
    let mut config = guest("g", 0, 1, 5.0);
    let slow = "(trap 'sleep 0.3; echo last; exit' TERM; while :; do sleep 0.1; done) &";
    let waits = format!("{slow} wait");
    config.order.programs =
        vec![program(0, &["sh", "-c", &waits], "0"), program(0, &["sh", "-c", slow], "1")];
    let Some((reports, _, mut lockstep)) = run(&[config], Path::new(1_000_000, 10, 10_000)) else { return };
    let endings: Vec<&Ending> = reports[0].programs.iter().map(|program| &program.ending).collect();
    assert_eq!(endings, [&Ending::Stopped, &Ending::Exited(0)]);
    let machine = lockstep.machines().next().unwrap();
    for name in ["0.stdout", "1.stdout"] {
        assert_eq!(std::fs::read_to_string(machine.shared(name)).unwrap(), "last\n", "{name}");
    }
}

#[test]
fn programs_start_without_blocked_signals() {
    let mut config = guest("g", 0, 1, 5.0);
    config.order.programs = vec![
        program(0, &["grep", "SigBlk", "/proc/self/status"], "0"),
        // A shell that waits hears of its child's end by a signal.
        program(0, &["sh", "-c", "sleep 0.1 & wait"], "1"),
    ];
    let Some((reports, _, mut lockstep)) = run(&[config], Path::new(1_000_000, 10, 10_000)) else { return };
    let endings: Vec<&Ending> = reports[0].programs.iter().map(|program| &program.ending).collect();
    assert_eq!(endings, [&Ending::Exited(0), &Ending::Exited(0)]);
    let machine = lockstep.machines().next().unwrap();
    let blocked = std::fs::read_to_string(machine.shared("0.stdout")).unwrap();
    assert_eq!(blocked.trim(), "SigBlk:\t0000000000000000");
}

/// IPv6 needs an MTU of 1280 bytes (RFC 8200, section 5).
#[test]
fn a_host_whose_mtu_is_too_small_for_ipv6_works_without() {
    let mut config = guest("g", 0, 2, 5.0);
    for (host, (mtu, v6)) in config.order.hosts.iter_mut().zip([(1279, "fd00::1"), (1280, "fd00::2")]) {
        (host.mtu, host.v6) = (mtu, Some(v6.parse().unwrap()));
    }
    let narrow = "ping -c 1 10.0.0.2 && ! grep eth0 /proc/net/if_inet6";
    config.order.programs = vec![
        program(0, &["sh", "-c", narrow], "0"),
        program(1, &["grep", "eth0", "/proc/net/if_inet6"], "1"),
    ];
    let Some((reports, _, _)) = run(&[config], Path::new(1_000_000, 10, 10_000)) else { return };
    let endings: Vec<&Ending> = reports[0].programs.iter().map(|program| &program.ending).collect();
    assert_eq!(endings, [&Ending::Exited(0), &Ending::Exited(0)]);
}

#[test]
fn two_guests_communicate_over_a_link() {
    let mut configs = [guest("left", 0, 1, 5.0), guest("right", 0, 1, 5.0)];
    configs[1].order.hosts = vec![host(1, 4094)];
    let [sink, source] = bulk(0, 0, 0, 1, Some(2_000_000));
    configs[0].order.flows = vec![source];
    configs[1].order.flows = vec![sink];
    let Some((reports, _, _)) = run(&configs, Path::new(10_000_000, 10, 1_000_000)) else { return };
    let (source, sink) = (&reports[0].flows[0], &reports[1].flows[0]);
    assert_eq!(sink.last.received, 2_000_000);
    // 1382 segments at 10 Mbit/s take 1.66 s; the handshake and slow start add some round trips.
    let finished = sink.finished.unwrap() as f64 / 1e9;
    assert!((1.66..1.95).contains(&finished), "{finished}");
    assert!(source.finished.unwrap() > sink.finished.unwrap() && source.error.is_none());
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_timestamps_on_a_busy_machine() {
    let configs = |seed: u64| {
        let mut configs = vec![guest("a", 0, 2, 3.0), guest("b", 2, 2, 3.0)];
        for (index, config) in configs.iter_mut().enumerate() {
            let first = 2 * index as u32;
            config.seed = seed;
            config.order.flows = bulk(first, 0, 1, first + 1, None).to_vec();
            config.order.programs = vec![
                program(0, &["ping", "-c", "20", "-i", "0.1", &format!("10.0.0.{}", first + 2)], "ping"),
                program(1, &["sh", "-c", "head -c 16 /dev/urandom | od -x; date +%s.%N"], "random"),
            ];
        }
        configs
    };
    let outcome = |seed: u64| {
        let (_, bed, mut lockstep) = run(&configs(seed), Path::new(10_000_000, 5, 20_000))?;
        assert!(lockstep.is_reproducible());
        let said: Vec<String> = lockstep
            .machines()
            .flat_map(|machine| ["ping.stdout", "random.stdout"].map(|name| machine.shared(name)))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        Some((bed.digest, bed.datagrams, said))
    };
    let Some(quiet) = outcome(1) else { return };
    assert!(quiet.1 > 5000, "{}", quiet.1);
    let busy = while_busy(1, false, || outcome(1));
    assert_eq!(Some(&quiet), busy.as_ref());
    let other = outcome(2).unwrap();
    assert_ne!(
        (quiet.0, &quiet.2[1]),
        (other.0, &other.2[1]),
        "another seed gives other initial sequence numbers"
    );
}

#[test]
fn a_run_in_several_steps_gives_the_same_bytes() {
    let Some(kernel) = kernel() else { return };
    let path = Path::new(10_000_000, 5, 20_000);
    let outcome = |piece: u64| {
        let mut configs = [guest("a", 0, 1, 2.0), guest("b", 1, 1, 2.0)];
        let [sink, source] = bulk(0, 0, 0, 1, None);
        configs[0].order.flows = vec![source];
        configs[1].order.flows = vec![sink];
        let mut bed = Bed::new(2, path);
        let mut lockstep = LockStep::boot(&kernel, &configs, path.delay, &mut || true).unwrap().unwrap();
        let mut at = 0;
        while at < configs[0].order.end {
            at = (at + piece).min(configs[0].order.end);
            assert_eq!(
                lockstep.run(&mut bed, Timestamp::from_nanos(at), |_, _, _| true).unwrap(),
                Ended::Reached
            );
        }
        (bed.digest, bed.datagrams)
    };
    let whole = outcome(u64::MAX / 2);
    assert!(whole.1 > 2000, "{}", whole.1);
    // Shorter than the delay of the links, and not a divisor of it.
    assert_eq!(outcome(1_234_567), whole);
}

#[test]
fn one_kernel_can_have_hundreds_of_hosts() {
    const HOSTS: u32 = 200;
    let mut config = guest("many", 0, HOSTS, 2.0);
    config.memory = 512 << 20;
    let flows = (0..HOSTS / 2).flat_map(|n| bulk(n, 2 * n, 2 * n + 1, 2 * n + 1, None));
    config.order.flows = flows.collect();
    let Some((reports, _, _)) = run(&[config], Path::new(1_000_000, 10, 20_000)) else { return };
    for sink in reports[0].flows.iter().step_by(2) {
        let goodput = sink.last.received as f64 * 8.0 / 2.0;
        assert!((0.85e6..0.97e6).contains(&goodput), "{goodput} {sink:?}");
    }
    let each = reports[0].hosts_memory / u64::from(HOSTS);
    assert!(each < 400_000, "{each} bytes a host");
}

#[test]
fn every_congestion_control_of_the_package_can_be_used() {
    let Some(kernel) = kernel() else { return };
    let controls = kernel.congestion_controls();
    let names: Vec<&str> = controls.iter().map(|(name, _)| name.as_str()).collect();
    for known in ["reno", "cubic", "bbr", "bic", "dctcp", "vegas", "westwood"] {
        assert!(names.contains(&known), "{names:?}");
    }
    // YeAH uses functions of Vegas: a guest that has it alone loads both.
    let (_, yeah) = controls.iter().find(|(name, _)| name == "yeah").unwrap();
    assert!(yeah.is_empty() || yeah.len() == 2 && yeah[0].ends_with("tcp_vegas.ko"), "{yeah:?}");
    let hosts = 2 * names.len() as u32;
    let mut config = guest("g", 0, hosts, 4.0);
    for (number, name) in names.iter().enumerate() {
        let number = number as u32;
        let mut ends = bulk(number, 2 * number, 2 * number + 1, 2 * number + 1, Some(300_000));
        // By socket or by host.
        if number.is_multiple_of(2) {
            ends[1].cc = Some((*name).to_owned());
        } else {
            config.order.hosts[2 * number as usize].cc = Some((*name).to_owned());
        }
        config.order.flows.extend(ends);
        let sysctl = ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"];
        config.order.programs.push(program(2 * number, &sysctl, name));
    }
    let Some((reports, _, mut lockstep)) = run(&[config], Path::new(2_000_000, 10, 30_000)) else { return };
    let machine = lockstep.machines().next().unwrap();
    for (number, name) in names.iter().enumerate() {
        let [sink, source] = &reports[0].flows[2 * number..2 * number + 2] else { panic!() };
        assert_eq!((sink.last.received, &source.error), (300_000, &None), "{name}");
        if number % 2 == 1 {
            let said = std::fs::read_to_string(machine.shared(&format!("{name}.stdout"))).unwrap();
            assert_eq!(said.trim(), *name);
        }
    }
}

#[test]
fn requests_are_answered() {
    use std::net::IpAddr;
    use warpline_guest::order::{FlowOrder, Role};
    let mut config = guest("g", 0, 2, 5.0);
    let end = |host, role| FlowOrder {
        id: 0,
        host,
        role,
        start: 0,
        stop: None,
        cc: None,
        after: vec![],
        verify: false,
    };
    let to = IpAddr::V4(crate::bed::address(1));
    let (port, request, response) = (80, 200, 10_000);
    let ask = Role::Request { to, port, request, response, count: Some(10), pause: seconds(0.1) };
    let serve = FlowOrder { cc: Some("vegas".to_owned()), ..end(1, Role::Serve { port }) };
    config.order.flows = vec![serve, end(0, ask)];
    let Some((reports, _, _)) = run(&[config], Path::new(10_000_000, 10, 100_000)) else { return };
    let [server, client] = &reports[0].flows[..] else { panic!() };
    assert_eq!((server.answers, client.answers), (10, 10));
    // A round trip and 7 segments at 10 Mbit/s, within the first window.
    let times = client.requests.iter().map(|request| request.answered.unwrap() - request.asked);
    let mean = times.sum::<u64>() as f64 / 10.0 / 1e6;
    assert_eq!(
        server.cc.as_deref(),
        Some("vegas"),
        "connections that it accepts have the congestion control of its order"
    );
    assert_eq!(client.cc.as_deref(), Some("cubic"), "the kernel's default");
    assert!((28.0..30.0).contains(&mean), "{mean} ms");
}

#[test]
fn the_time_stamp_counter_is_the_guests() {
    let directory = tempfile::tempdir().unwrap();
    let counting = counting(directory.path());
    let once = || {
        let mut config = guest("g", 0, 1, 5.0);
        config.order.programs = vec![program(0, &[&counting], "0")];
        let (reports, _, mut lockstep) = run(&[config], Path::new(1_000_000, 1, 100_000))?;
        assert_eq!(reports[0].programs[0].ending, Ending::Exited(0));
        assert!(lockstep.is_reproducible());
        let machine = lockstep.machines().next().unwrap();
        Some(std::fs::read_to_string(machine.shared("0.stdout")).unwrap())
    };
    let Some(told) = once() else { return };
    let numbers: Vec<i64> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let &[slept, polled, processor, apart, child] = &numbers[..] else { panic!("{told}") };
    // The kernel's timers have the resolution of its clock, and each entry takes a microsecond.
    assert!((50_000_000..50_200_000).contains(&slept), "{told}");
    // Twenty thousand entries, and the kernel's ticks.
    assert!((20_000_000..20_100_000).contains(&polled), "{told}");
    assert!(processor == 0 && child > 0, "{told}");
    // The same clock, but for the moment at which the kernel reads it first.
    assert!(apart.abs() < 1_000_000, "{told}");
    assert_eq!(once().unwrap(), told);
}
