//! What is inferred from captures of paths that are known.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path as File, PathBuf};
use std::time::Duration;

use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_scenario::Source;

use super::capture::{self, Body, Ending, Packet, Segment, read_from};
use super::path::Path as ShownPath;
use super::traffic::Traffic;
use super::{Inferred, infer, infer_from, propose};

/// Runs a scenario of two hosts, "a" and "b", and returns the captures at `at` of both directions. `bottleneck` has the keys of the path between the routers.
fn captured(directory: &File, bottleneck: &str, at: &str, flows: &str) -> Vec<PathBuf> {
    let edge = |node: &str, router: &str| {
        let record = if node == at { "record = [\"pcap\"]" } else { "" };
        format!(
            "[[link]]\nbetween = [\"{node}\", \"{router}\"]\nrate = \"1Gbit/s\"\nqueue = \"unlimited\"\n{record}\n"
        )
    };
    let edges = edge("a", "x") + &edge("b", "y");
    captures_of(directory, &format!("{edges}[[link]]\nbetween = [\"x\", \"y\"]\n{bottleneck}\n{flows}"))
}

/// Runs a scenario with these links and flows, and returns its captures.
fn captures_of(directory: &File, links: &str) -> Vec<PathBuf> {
    let text = format!("name = \"known\"\nduration = \"30s\"\nseed = 3\n{links}");
    let scenario = Source::from_text("known", &text, directory).load(&[]).unwrap();
    let out = directory.join("run");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    let files = fs::read_dir(&out).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let captures: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "pcapng")).collect();
    assert_eq!(captures.len(), 2, "one for each direction");
    captures
}

/// What is inferred from a run of a scenario, as `captured` has it.
fn inferred(directory: &File, bottleneck: &str, at: &str, flows: &str) -> Inferred {
    infer(&captured(directory, bottleneck, at, flows), "cubic").unwrap()
}

/// Asserts that a value is within 10 % of what is known.
#[track_caller]
fn close(found: f64, known: f64) {
    assert!((found / known - 1.0).abs() < 0.1, "{found} is not {known}");
}

const BULK: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
/// A flow that is the other way around.
const BACK: &str = "[[flow]]\nfrom = \"b\"\nto = \"a\"\n";

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
fn a_rate_shows_although_losses_leave_the_path_empty_most_of_the_time() {
    for (at, back) in [("a", 0), ("b", 1)] {
        let directory = tempfile::tempdir().unwrap();
        let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"200p\"\nloss = \"1%\"\nreverse = { loss = \"none\" }";
        let found = inferred(directory.path(), keys, at, &format!("{BULK}count = 2\n"));
        let way = &found.path.ways[back];
        close(way.rate.unwrap(), 10e6);
        close(way.loss(), 0.01);
        assert_eq!(way.queue(), None, "it was never full: {way:?}");
    }
}

#[test]
fn two_queues_are_told_apart_by_timestamps() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"50p\"";
    let found = inferred(directory.path(), keys, "a", &format!("{BULK}{BACK}"));
    for way in &found.path.ways {
        close(way.rate.unwrap(), 10e6);
        close(way.queue().unwrap(), 50.0);
        assert_eq!(way.loss(), 0.0, "all losses are the queue's: {way:?}");
        assert!(!way.is_mixed);
    }
    close(found.path.rtt.unwrap(), 0.04);
    assert!(!found.scenario.contains("timestamps"), "{}", found.scenario);
}

#[test]
fn a_queue_that_is_full_of_acknowledgements_has_no_losses_at_random() {
    let directory = tempfile::tempdir().unwrap();
    // Many of the packets in the queues are acknowledgements, so that full ones are short at times.
    let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"50p\"";
    let flows = format!("{BULK}count = 16\n{BACK}count = 16\n");
    let found = inferred(directory.path(), keys, "a", &flows);
    for way in &found.path.ways {
        assert!(way.dropped > 100, "{way:?}");
        assert_eq!(way.loss(), 0.0, "all losses are the queue's: {way:?}");
    }
}

#[test]
fn losses_at_random_show_beside_a_queue_of_the_other_way() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"100p\"\nloss = \"1%\"\nreverse = { loss = \"none\" }";
    let found = inferred(directory.path(), keys, "a", &format!("{BULK}count = 4\n{BACK}"));
    let [out, back] = &found.path.ways;
    assert!((0.005..0.015).contains(&out.loss()), "{out:?}");
    assert_eq!(back.loss(), 0.0, "{back:?}");
}

#[test]
fn without_timestamps_a_rate_beside_another_queue_is_a_lower_bound() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"10Mbit/s\"\ndelay = \"20ms\"\nqueue = \"50p\"";
    let mut packets = Vec::new();
    for file in captured(directory.path(), keys, "a", &format!("{BULK}{BACK}")) {
        capture::read(&file, |packet| packets.push(packet)).unwrap();
    }
    packets.sort_by_key(|packet| packet.at);
    let mut traffic = Traffic::default();
    for packet in &mut packets {
        if let Body::Tcp(segment) = &mut packet.body {
            segment.stamp = None;
        }
        traffic.on_packet(packet);
    }
    let path = ShownPath::of(&traffic);
    for way in &path.ways {
        assert!(way.is_mixed && way.rate.unwrap() < 10e6, "{way:?}");
        assert_eq!(way.loss(), 0.0, "{way:?}");
    }
    let text = propose::scenario("test", &traffic, &path, "cubic").unwrap();
    for remark in
        ["So the rate to the far end is at least this one.", "# rate of the way back: at least, while"]
    {
        assert!(text.contains(remark), "{text}");
    }
    Source::from_text("test", &text, File::new("")).load(&[]).unwrap();
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
fn a_queue_before_the_capture_is_warned_of() {
    for cc in ["cubic", "reno"] {
        let directory = tempfile::tempdir().unwrap();
        let link = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"12Mbit/s\"\ndelay = \"25ms\"\nqueue = \"80p\"\nrecord = [\"pcap\"]\n";
        let found =
            infer(&captures_of(directory.path(), &format!("{link}{BULK}cc = \"{cc}\"\n")), cc).unwrap();
        assert!(found.path.ways[0].is_behind, "{cc}: {:?}", found.path.ways[0]);
        assert!(found.scenario.contains("a full queue before the capture"), "{}", found.scenario);
    }
    // Losses at random make the rate vary.
    let directory = tempfile::tempdir().unwrap();
    let keys = "rate = \"100Mbit/s\"\ndelay = \"20ms\"\nqueue = \"unlimited\"\nloss = \"0.5%\"\nreverse = { loss = \"none\" }";
    let found = inferred(directory.path(), keys, "a", BULK);
    assert!(found.path.ways[0].rate.is_none() && !found.path.ways[0].is_behind, "{:?}", found.path.ways[0]);
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

/// The application that is proposed for a sender of segments of `payload` bytes, one every `every` ms until `until`, all in ms. Another one sends every 10 ms until 2 s. Each
/// segment is acknowledged 20 ms later, but for those after `silent`. `ending` changes the last of these acknowledgements.
fn application(
    (payload, every, until): (u32, u64, u64),
    silent: u64,
    ending: impl Fn(&mut Segment),
) -> &'static str {
    let other: SocketAddr = "10.0.0.2:2000".parse().unwrap();
    let mut packets = Vec::new();
    let mut send = |at: u64, (from, to): (SocketAddr, SocketAddr), segment: Segment| {
        let bytes = segment.payload + 40;
        packets.push(Packet { at: Duration::from_millis(at), from, to, bytes, body: Body::Tcp(segment) });
    };
    for (port, payload, every, until) in [(1000, payload, every, until), (1001, 1000, 10, 2000)] {
        let own = SocketAddr::from(([10, 0, 0, 1], port));
        for number in 0..=until / every {
            let (at, seq) = (number * every, 1 + number as u32 * payload);
            send(at, (own, other), Segment { seq, ack: Some(1), payload, ..Segment::default() });
            let mut answer = Segment { seq: 1, ack: Some(seq + payload), ..Segment::default() };
            if port == 1000 && number == until / every {
                ending(&mut answer);
            }
            if port != 1000 || at <= silent {
                send(at + 20, (other, own), answer);
            }
        }
    }
    packets.sort_by_key(|packet| packet.at);
    let mut traffic = Traffic::default();
    packets.iter().for_each(|packet| traffic.on_packet(packet));
    let text = propose::scenario("test", &traffic, &ShownPath::of(&traffic), "cubic").unwrap();
    let flow = text.split("[[flow]]").find(|flow| flow.contains("10.0.0.1:1000 to")).unwrap();
    if flow.contains("app = \"bulk\"") { "bulk" } else { "transfer" }
}

#[test]
fn only_what_always_has_data_is_bulk() {
    let answered = u64::MAX;
    assert_eq!(application((1000, 100, 2000), answered, |_| {}), "bulk");
    // Until 1.7 s: 0.3 s of silence, in which it has nothing to send, or no answer.
    assert_eq!(application((1000, 100, 1700), answered, |_| {}), "transfer");
    assert_eq!(application((1000, 100, 1700), 1600, |_| {}), "transfer");
    // With pauses of 0.48 s in which all is acknowledged.
    assert_eq!(application((10_000, 500, 2000), answered, |_| {}), "transfer");
    // A few bytes at a time.
    assert_eq!(application((40, 100, 2000), answered, |_| {}), "transfer");
}

#[test]
fn a_connection_that_one_end_has_closed_is_over() {
    assert_eq!(application((1000, 100, 2000), u64::MAX, |last| last.fin = true), "transfer");
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
    propose::scenario("test", &traffic, &ShownPath::of(&traffic), "cubic").unwrap()
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

#[test]
fn a_capture_of_one_direction_is_an_error_that_says_which_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let both = captured(directory.path(), "rate = \"10Mbit/s\"\ndelay = \"10ms\"", "a", BULK);
    let [a, b] = {
        let found = infer(&both, "cubic").unwrap();
        [found.path.near[0], found.path.far[0].0]
    };
    // The data alone, and the acknowledgements alone.
    for file in &both {
        let is_out = file.file_name().unwrap() == "a-x.pcapng";
        let (from, to) = if is_out { (a, b) } else { (b, a) };
        let error = infer(std::slice::from_ref(file), "cubic").unwrap_err().to_string();
        let part =
            format!("packets from {from} to {to}, but none from {to} to {from}; capture both directions");
        assert!(error.contains(&part), "{error}");
    }
}

#[test]
fn packets_that_are_named_twice_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let [file, copy] = ["one.pcap", "copy.pcap"].map(|name| directory.path().join(name));
    for name in [&file, &copy] {
        fs::write(name, include_bytes!("../../../../fuzz/corpus/capture/pcap")).unwrap();
    }
    infer(std::slice::from_ref(&file), "cubic").unwrap();
    for second in [&file, &copy] {
        let error = infer(&[file.clone(), second.clone()], "cubic").unwrap_err().to_string();
        let part = format!("{} and {} hold the same packets", file.display(), second.display());
        assert!(error.contains(&part), "{error}");
    }
}

#[test]
fn a_capture_of_one_packet_holds_too_little() {
    let whole = include_bytes!("../../../../fuzz/corpus/capture/pcap");
    // The header of the file, and that of the first packet, which has its length.
    let length = u32::from_le_bytes(whole[32..36].try_into().unwrap()) as usize;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("one.pcap");
    fs::write(&file, &whole[..40 + length]).unwrap();
    let error = infer(&[file], "cubic").unwrap_err().to_string();
    assert!(error.starts_with("one.pcap: too little to propose a flow"), "{error}");
}
