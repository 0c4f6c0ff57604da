//! What is inferred from captures of paths that are known.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path as File, PathBuf};
use std::time::Duration;

use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_scenario::Source;

use super::capture::{Body, Ending, Packet, Segment, read_from};
use super::path::Path as ShownPath;
use super::traffic::Traffic;
use super::{Inferred, infer, infer_from, propose};

/// Runs a scenario of two hosts, "a" and "b", with a capture at `at`, and infers from it. `bottleneck` has the keys of the path between the routers.
fn inferred(directory: &File, bottleneck: &str, at: &str, flows: &str) -> Inferred {
    let edge = |node: &str, router: &str| {
        let record = if node == at { "record = [\"pcap\"]" } else { "" };
        format!(
            "[[link]]\nbetween = [\"{node}\", \"{router}\"]\nrate = \"1Gbit/s\"\nqueue = \"unlimited\"\n{record}\n"
        )
    };
    let text = format!(
        "name = \"known\"\nduration = \"30s\"\nseed = 3\n{}{}[[link]]\nbetween = [\"x\", \"y\"]\n{bottleneck}\n{flows}",
        edge("a", "x"),
        edge("b", "y")
    );
    let scenario = Source::from_text("known", &text, directory).load(&[]).unwrap();
    let out = directory.join("run");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    let files = fs::read_dir(&out).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let captures: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "pcapng")).collect();
    assert_eq!(captures.len(), 2, "one for each direction");
    infer(&captures, "cubic").unwrap()
}

/// Asserts that a value is within 10 % of what is known.
#[track_caller]
fn close(found: f64, known: f64) {
    assert!((found / known - 1.0).abs() < 0.1, "{found} is not {known}");
}

const BULK: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn rate_delay_and_queue_of_a_path_that_is_full() {
    for (at, back) in [("a", 0), ("b", 1)] {
        let directory = tempfile::tempdir().unwrap();
        let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"60p\"";
        let found = inferred(directory.path(), keys, at, BULK);
        let way = &found.path.ways[back];
        close(way.rate.unwrap(), 10e6);
        close(found.path.rtt.unwrap(), 0.04);
        close(way.queue().unwrap(), 60.0);
        assert_eq!(way.loss(), 0.0, "all losses are the queue's: {way:?}");
    }
}

#[test]
fn losses_at_random_are_told_from_those_of_a_full_queue() {
    for (at, back) in [("a", 0), ("b", 1)] {
        let directory = tempfile::tempdir().unwrap();
        // Several flows keep the queue full although packets are lost.
        let keys = "rate = \"10Mbit/s\"\ndelay = \"10ms\"\nqueue = \"100p\"\nloss = \"2%\"\nreverse = { loss = \"none\" }";
        let found = inferred(directory.path(), keys, at, &format!("{BULK}count = 8\n"));
        let way = &found.path.ways[back];
        close(way.rate.unwrap(), 10e6);
        close(found.path.rtt.unwrap(), 0.02);
        close(way.loss(), 0.02);
    }
}

#[test]
fn a_path_that_was_never_full_has_no_rate() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"50Mbit/s\"\ndelay = \"30ms\"";
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"cbr\"\ntransport = \"tcp\"\nrate = \"2Mbit/s\"\n";
    let found = inferred(directory.path(), keys, "a", flow);
    assert_eq!(found.path.ways[0].rate, None);
    close(found.path.rtt.unwrap(), 0.06);
    assert!(found.scenario.contains("is at least"), "{}", found.scenario);
}

#[test]
fn what_is_proposed_reproduces_the_capture() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"8Mbit/s\"\ndelay = \"15ms\"\nqueue = \"50p\"";
    let flows = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"transfer\"\nsize = \"10MB\"\n[[flow]]\nfrom = \"b\"\nto = \"a\"\napp = \"transfer\"\nsize = \"2MB\"\nstart = \"5s\"\n";
    let found = inferred(directory.path(), keys, "a", flows);
    let compared = found.reproduce("cubic", &mut |_| Control::Continue).unwrap();
    let row = |name: &str| compared.rows.iter().find(|row| row.measure.starts_with(name)).unwrap();
    for name in ["goodput from", "rate from", "shortest round trip"] {
        let difference = row(name).difference().unwrap();
        assert!(difference.abs() < 0.1, "{:?}", compared.rows);
    }
}

/// Data every 10 ms from one end, and every 500 ms from another, which the other ends acknowledge 20 ms later.
fn two_senders(ending: impl Fn(&mut Segment)) -> String {
    let [a, b]: [SocketAddr; 2] = ["10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap()];
    let mut packets = Vec::new();
    let mut send = |at: u64, (from, to): (SocketAddr, SocketAddr), segment: Segment| {
        let bytes = segment.payload + 40;
        packets.push(Packet { at: Duration::from_millis(at), from, to, bytes, body: Body::Tcp(segment) });
    };
    // The first ends at 1.7 s, the second is seen until 2 s.
    for (port, every, until) in [(0_u16, 10, 1700), (1, 500, 2000)] {
        let (own, other) = (SocketAddr::new(a.ip(), a.port() + port), b);
        for number in 0..=until / every {
            let (at, seq) = (number * every, 1 + number as u32 * 1000);
            let mut segment = Segment { seq, ack: Some(1), payload: 1000, ..Segment::default() };
            if number == until / every && port == 0 {
                ending(&mut segment);
            }
            send(at, (own, other), segment);
            send(at + 20, (other, own), Segment { seq: 1, ack: Some(seq + 1000), ..Segment::default() });
        }
    }
    packets.sort_by_key(|packet| packet.at);
    let mut traffic = Traffic::default();
    packets.iter().for_each(|packet| traffic.on_packet(packet));
    propose::scenario("test", &traffic, &ShownPath::of(&traffic), "cubic")
}

#[test]
fn a_connection_that_falls_silent_has_ended_and_one_with_pauses_goes_on() {
    let applications = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("app = ")).map(str::to_owned).collect()
    };
    // 0.3 s of silence are long for the first, and usual for the second.
    assert_eq!(applications(&two_senders(|_| {})), ["app = \"transfer\"", "app = \"bulk\""]);
    assert_eq!(applications(&two_senders(|last| last.fin = true)), ["app = \"transfer\"", "app = \"bulk\""]);
}

#[test]
fn a_reset_ends_both_directions() {
    let [a, b]: [SocketAddr; 2] = ["10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap()];
    let mut traffic = Traffic::default();
    for (at, rst) in [(0, false), (10, false), (20, true)] {
        let segment = Segment { seq: 1 + at as u32, payload: 10, rst, ..Segment::default() };
        let (from, to) = if rst { (b, a) } else { (a, b) };
        traffic.on_packet(&Packet {
            at: Duration::from_millis(at),
            from,
            to,
            bytes: 50,
            body: Body::Tcp(segment),
        });
    }
    assert!(traffic.connections[0].halves.iter().all(|half| half.is_over));
}

#[test]
fn a_capture_that_ends_in_the_middle_of_a_packet_is_read_up_to_there() {
    let captures: [&[u8]; 2] = [
        include_bytes!("../../../../fuzz/corpus/capture/pcap"),
        include_bytes!("../../../../fuzz/corpus/capture/pcapng"),
    ];
    for whole in captures {
        let read = |bytes: &[u8]| {
            let mut packets = Vec::new();
            let ending = read_from(bytes, |packet| packets.push(packet)).unwrap();
            (packets, ending)
        };
        let remark = "# capture ends in the middle of a packet.";
        let (packets, ending) = read(whole);
        assert_eq!(ending, Ending::Whole);
        assert!(!infer_from(whole, "cubic").unwrap().unwrap().scenario.contains(remark));
        // In the bytes of the last packet, and in what stands before them.
        for missing in [1, 130] {
            let cut = &whole[..whole.len() - missing];
            let (kept, ending) = read(cut);
            assert_eq!(ending, Ending::Cut);
            assert_eq!(kept, packets[..packets.len() - 1]);
            let found = infer_from(cut, "cubic").unwrap().unwrap();
            assert!(found.scenario.contains(remark), "{}", found.scenario);
            found.load().unwrap();
        }
    }
}

/// What is proposed for datagrams from one address to others: each pair has two with this payload, a second apart.
fn datagrams(others: u16, payload: u32) -> String {
    let from: SocketAddr = "10.0.0.1:1000".parse().unwrap();
    let mut traffic = Traffic::default();
    for second in 0..2 {
        for number in 0..others {
            let [high, low] = number.to_be_bytes();
            let to = SocketAddr::from(([10, 1, high, low], 2000));
            let at = Duration::from_secs(second);
            traffic.on_packet(&Packet { at, from, to, bytes: payload + 28, body: Body::Udp(payload) });
        }
    }
    propose::scenario("test", &traffic, &ShownPath::of(&traffic), "cubic")
}

#[test]
fn datagrams_have_sizes_that_a_scenario_allows() {
    // Without payload, and with the most that IPv6 allows.
    for (payload, size) in [(0, "29B"), (100, "128B"), (65_527, "65535B")] {
        let text = datagrams(1, payload);
        assert!(text.contains(&format!("packet_size = \"{size}\"")), "{text}");
        Source::from_text("test", &text, File::new("")).load(&[]).unwrap();
    }
}

#[test]
fn only_addresses_that_a_flow_uses_are_hosts() {
    let text = datagrams(300, 100);
    let count = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert!(text.contains("largest of 300 flows"), "{text}");
    assert!(count("[[flow]]") < 300);
    // The path, the near host, and a far one for each flow.
    assert_eq!(count("[[link]]"), 2 + count("[[flow]]"));
    Source::from_text("test", &text, File::new("")).load(&[]).unwrap();
}

#[test]
fn what_is_no_capture_is_an_error_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text.pcap");
    for (bytes, reason) in
        [(&b""[..], "has no header"), (&b"no capture at all, but a text"[..], "neither pcap nor pcapng")]
    {
        fs::write(&file, bytes).unwrap();
        let error = infer(std::slice::from_ref(&file), "cubic").unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
