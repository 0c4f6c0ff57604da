//! Guests whose network cards have offloads: the kernel sends large segments, and the wire carries packets.

use warpline_core::{TimeDelta, Timestamp};
use warpline_guest::lockstep::Ended;
use warpline_guest::order::{CardOrder, Report};
use warpline_guest::{GuestError, LockStep, MachineConfig};

use crate::bed::{Bed, Path, bulk, guest, host, kernel, program, seconds};
use crate::busy::while_busy;
use crate::dilated;

/// A datagram that a host sent.
type Sent = (Timestamp, u32, Vec<u8>);

/// Runs guests to their end, and returns the reports, what they sent, a digest of it with all times, and the machines.
fn run(configs: &[MachineConfig], path: Path) -> Option<(Vec<Report>, Vec<Sent>, u64, LockStep)> {
    let kernel = kernel()?;
    let hosts = configs.iter().map(|config| config.order.hosts.len() as u32).sum();
    let mut bed = Bed::new(hosts, path);
    bed.seen = Some(Vec::new());
    let mut lockstep = LockStep::boot(&kernel, configs, path.delay, &mut || true).unwrap().unwrap();
    let end = Timestamp::from_nanos(configs[0].order.end);
    assert_eq!(lockstep.run(&mut bed, end, |_, _, _| true).unwrap(), Ended::Reached);
    lockstep.finish(end, false, &mut || true).unwrap();
    let reports = lockstep.machines().map(|machine| machine.report().unwrap()).collect();
    Some((reports, bed.seen.take().unwrap(), bed.digest, lockstep))
}

/// One machine with two hosts and a flow of this many bytes between them. `interval`: time between interrupts in microseconds, if it has offloads.
fn pair(interval: Option<u64>, duration: f64, bytes: Option<u64>) -> MachineConfig {
    let mut config = guest("g", 0, 2, duration);
    config.order.flows = bulk(0, 0, 1, 1, bytes).to_vec();
    config.order.cards = interval.map(|us| CardOrder { interval: us * 1000 });
    config
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from(number16(bytes, at)) << 16 | u32::from(number16(bytes, at + 2))
}

/// Whether bytes contain their own right checksum (RFC 1071).
fn is_right(bytes: &[u8], mut sum: u32) -> bool {
    for word in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// Checks lengths and checksums of IPv4 datagrams without options, of TCP or ICMP. Returns how many were full.
#[track_caller]
fn assert_right(sent: &[Sent]) -> usize {
    for (at, from, datagram) in sent {
        let about = || format!("{at:?} from {from}: {datagram:02x?}");
        assert!(datagram[0] == 0x45 && usize::from(number16(datagram, 2)) == datagram.len(), "{}", about());
        assert!(datagram.len() <= 1500 && is_right(&datagram[..20], 0), "{}", about());
        let segment = &datagram[20..];
        let addresses: u32 = (12..20).step_by(2).map(|at| u32::from(number16(datagram, at))).sum();
        let pseudo = if datagram[9] == 6 { addresses + 6 + segment.len() as u32 } else { 0 };
        assert!(is_right(segment, pseudo), "{}", about());
    }
    sent.iter().filter(|(.., datagram)| datagram.len() == 1500).count()
}

/// What of the packets does not depend on random numbers: time since the first, host, length, the flags, the window, and the numbers counted
/// from the host's first.
fn shape(sent: &[Sent]) -> Vec<(TimeDelta, u32, usize, [u32; 6])> {
    let tcp: Vec<&Sent> = sent.iter().filter(|(.., datagram)| datagram[9] == 6).collect();
    let first = |host: u32| {
        tcp.iter().find(|(_, from, _)| *from == host).map_or(0, |(.., datagram)| number32(datagram, 24))
    };
    let firsts = [first(0), first(1)];
    let mut last = [0u16; 2];
    let mut shape: Vec<_> = tcp
        .iter()
        .map(|(at, from, datagram)| {
            let (own, other) = (*from as usize, 1 - *from as usize);
            let sequence = number32(datagram, 24).wrapping_sub(firsts[own]);
            let acknowledged = number32(datagram, 28).wrapping_sub(firsts[other]);
            let step = number16(datagram, 4).wrapping_sub(last[own]);
            last[own] = number16(datagram, 4);
            let flags = u32::from(number16(datagram, 32));
            // The first identification of a connection is random.
            let step = if sequence <= 1 { 0 } else { u32::from(step) };
            let acknowledged = if flags & 0x10 == 0 { 0 } else { acknowledged };
            (
                *at - tcp[0].0,
                *from,
                datagram.len(),
                [
                    sequence,
                    acknowledged,
                    step,
                    flags,
                    u32::from(number16(datagram, 34)),
                    number32(datagram, 0),
                ],
            )
        })
        .collect();
    // Both hosts are on one machine: which of them sends first at one instant depends on its network devices.
    shape.sort_by_key(|(_, from, ..)| *from);
    shape
}

#[test]
fn without_delayed_interrupts_a_card_sends_what_the_kernel_would_send() {
    let path = Path::new(100_000_000, 5, 60_000);
    let outcome = |interval| run(&[pair(interval, 3.0, Some(20_000_000))], path);
    let Some((plain_reports, plain, ..)) = outcome(None) else { return };
    let Some((reports, sent, ..)) = outcome(Some(0)) else { return };
    assert!(assert_right(&sent) > 10_000);
    let (plain_shape, own_shape) = (shape(&plain), shape(&sent));
    let pairs = || plain_shape.iter().zip(&own_shape);
    let differs = pairs().find(|(a, b)| (a.1, a.2, a.3) != (b.1, b.2, b.3));
    assert_eq!(differs, None);
    assert_eq!(plain_shape.len(), own_shape.len());
    // An entry into user mode takes a microsecond, and the first one is not at the same instant.
    let apart = pairs().map(|(a, b)| if a.0 > b.0 { a.0 - b.0 } else { b.0 - a.0 }).max();
    assert!(apart.unwrap() < TimeDelta::from_micros(10), "{apart:?}");
    assert!(plain_reports[0].flows[1].last.retransmits > 0, "no packet was lost");
    assert_eq!(plain_reports[0].flows[1].last.retransmits, reports[0].flows[1].last.retransmits);
}

#[test]
fn offloads_change_no_goodput_and_are_repeatable_on_a_busy_machine() {
    let path = Path::new(100_000_000, 10, 250_000);
    let outcome = |interval| {
        let mut config = pair(interval, 4.0, None);
        config.order.programs = vec![program(1, &["ping", "-c", "20", "-i", "0.1", "10.0.0.1"], "ping")];
        run(&[config], path)
    };
    let Some((plain, ..)) = outcome(None) else { return };
    let Some((reports, sent, digest, mut lockstep)) = outcome(Some(125)) else { return };
    let full = assert_right(&sent);
    assert!(full > 25_000, "{full}");
    let goodput = |reports: &[Report]| reports[0].flows[0].last.received as f64;
    let ratio = goodput(&reports) / goodput(&plain);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
    // The kernel has merged packets: it acknowledges fewer of them.
    let acknowledgements = sent.iter().filter(|(_, from, _)| *from == 1).count();
    assert!(acknowledgements * 2 < full * 3 / 2, "{acknowledgements} for {full}");
    assert!(lockstep.is_reproducible());
    let said = std::fs::read_to_string(lockstep.machines().next().unwrap().shared("ping.stdout")).unwrap();
    let busy = while_busy(1, false, || outcome(Some(125)));
    let (_, again, other, mut lockstep) = busy.unwrap();
    assert_eq!((sent.len(), digest), (again.len(), other));
    let said_again =
        std::fs::read_to_string(lockstep.machines().next().unwrap().shared("ping.stdout")).unwrap();
    assert_eq!(said, said_again);
}

#[test]
fn a_packet_that_comes_after_a_while_does_not_wait() {
    for (interval, gap) in [(None, "0.2"), (Some(0), "0.2"), (Some(50_000), "0.2")] {
        let mut config = pair(interval, 5.0, None);
        config.order.flows.clear();
        config.order.programs = vec![program(0, &["ping", "-c", "5", "-i", gap, "10.0.0.2"], "ping")];
        let Some((.., mut lockstep)) = run(&[config], Path::new(1_000_000_000, 10, 100_000)) else { return };
        let said =
            std::fs::read_to_string(lockstep.machines().next().unwrap().shared("ping.stdout")).unwrap();
        // An interrupt at the other host after 10 ms, and the next one 50 ms later: the cards of a machine share the time between interrupts.
        let expected = if interval == Some(50_000) { "time=60.0 ms" } else { "time=20.0 ms" };
        assert_eq!(said.matches(expected).count(), 5, "{interval:?}: {said}");
    }
}

#[test]
fn an_interface_works_again_after_it_was_down() {
    let mut config = pair(Some(125), 4.0, None);
    config.order.flows.clear();
    let line = "ip link set eth0 down && ip link set eth0 up && ip route add default dev eth0 && ping -c 3 -i 0.1 10.0.0.2";
    config.order.programs = vec![program(0, &["sh", "-c", line], "0")];
    // A connection afterwards.
    let [mut sink, mut source] = bulk(0, 0, 1, 1, Some(3_000_000));
    (sink.start, source.start) = (seconds(1.0), seconds(1.0));
    config.order.flows = vec![sink, source];
    let Some((reports, sent, _, mut lockstep)) = run(&[config], Path::new(100_000_000, 5, 100_000)) else {
        return;
    };
    let read = |machine: &warpline_guest::Machine, name: &str| {
        std::fs::read_to_string(machine.shared(name)).unwrap()
    };
    let machine = lockstep.machines().next().unwrap();
    let said = read(machine, "0.stdout") + &read(machine, "0.stderr");
    assert!(said.contains("3 received"), "{said}");
    assert_eq!(reports[0].flows[0].last.received, 3_000_000);
    assert!(assert_right(&sent) > 2000);
}

/// In dilated time, the guest sends when it likes, and the wire carries packets all the same.
#[test]
fn offloads_work_in_dilated_time() {
    let mut config = pair(Some(0), 600.0, Some(3_000_000));
    // The guest ends with its program, which waits for the connection to be over.
    let line = "sleep 0.3; until ! ss -Htn state established | grep -q 5001; do sleep 0.1; done";
    config.order.programs = vec![program(0, &["sh", "-c", line], "0")];
    let mut frames: Vec<Sent> = Vec::new();
    let each =
        |vlan: u16, datagram: &[u8]| frames.push((Timestamp::ZERO, u32::from(vlan), datagram.to_vec()));
    let Some((report, ..)) = dilated::run_seeing(&mut config, 1.0, |_, _| {}, each) else { return };
    assert_eq!(report.flows[0].last.received, 3_000_000, "{:?}", report.flows);
    assert!(assert_right(&frames) > 1000);
}

#[test]
fn two_machines_talk_with_offloads_on_one_side() {
    let mut configs = [guest("left", 0, 1, 3.0), guest("right", 0, 1, 3.0)];
    configs[1].order.hosts = vec![host(1, 4094)];
    configs[0].order.cards = Some(CardOrder { interval: 125_000 });
    let [sink, source] = bulk(0, 0, 0, 1, Some(20_000_000));
    configs[0].order.flows = vec![source];
    configs[1].order.flows = vec![sink];
    // Packets that the driver was given.
    let mut count = program(0, &["awk", "/eth0/ {print $11}", "/proc/net/dev"], "count");
    count.start = seconds(2.5);
    configs[0].order.programs = vec![count];
    let path = Path { rate: 1_000_000_000, delay: TimeDelta::from_millis(1), queue: 1_000_000 };
    let Some((reports, sent, _, mut lockstep)) = run(&configs, path) else { return };
    assert_eq!(reports[1].flows[0].last.received, 20_000_000);
    let full = assert_right(&sent);
    let said = std::fs::read_to_string(lockstep.machines().next().unwrap().shared("count.stdout")).unwrap();
    let given: usize = said.trim().parse().unwrap();
    assert!(full > 13_000 && given * 5 < full, "{given} large segments became {full} packets");
}

#[test]
fn a_machine_has_at_most_sixteen_cards() {
    let mut config = guest("g", 0, 17, 1.0);
    config.check().unwrap();
    config.order.cards = Some(CardOrder { interval: 0 });
    let Err(GuestError::Config { problem, .. }) = config.check() else { panic!() };
    assert!(
        problem.contains("17 network devices") && problem.contains("one machine can have 16"),
        "{problem}"
    );
    config.order.hosts.pop();
    config.check().unwrap();
}
