//! Tests of wire bytes and captures: parsed back by etherparse, read back by pcap-file, and judged by tshark.

use std::fs;
use std::path::Path;
use std::process::Command;

use etherparse::TcpOptionElement as Opt;
use etherparse::{NetHeaders, PacketHeaders, TcpHeader, TransportHeader};
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;
use warpline_core::packet::{
    Body, Datagram, Ecn, EndpointId, Flags, FlowId, LinkId, Packet, SackBlocks, Segment, SynOptions,
};
use warpline_core::record::{LinkEvent, LinkRecord};
use warpline_core::time::{TimeDelta, Timestamp};
use warpline_core::{AccEcn, Dscp};

use crate::pcapng::{CaptureOptions, CaptureWriter};
use crate::wire::WireFormat;
use crate::{AddressBook, Recorder, RunWriter, example};

/// The TCP header of an IPv4 packet whose checksums are verified.
fn parse(bytes: &[u8]) -> (etherparse::Ipv4Header, TransportHeader, usize) {
    let parsed = PacketHeaders::from_ip_slice(bytes).unwrap();
    let Some(NetHeaders::Ipv4(ip, _)) = parsed.net else { panic!("not IPv4") };
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    assert_eq!(usize::from(ip.total_len), bytes.len());
    let payload = parsed.payload.slice();
    assert!(payload.iter().all(|&byte| byte == 0));
    let transport = parsed.transport.unwrap();
    match &transport {
        TransportHeader::Tcp(tcp) => assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).unwrap()),
        TransportHeader::Udp(udp) => assert_eq!(udp.checksum, udp.calc_checksum_ipv4(&ip, payload).unwrap()),
        _ => panic!("neither TCP nor UDP"),
    }
    (ip, transport, payload.len())
}

fn packet(to: u32, ecn: Ecn, body: Body) -> Packet {
    let (flow, to, dscp) = (FlowId(to / 2), EndpointId(to), Dscp::default());
    Packet { flow, to, size: 0, ecn, class: 0, damaged: false, dscp, body, id: 70_000 }
}

fn tcp(book: &AddressBook, wire: &mut WireFormat, to: u32, segment: Segment) -> TcpHeader {
    let bytes = wire.bytes(book, &packet(to, Ecn::NotEct, Body::Tcp(segment)), None).unwrap().bytes;
    assert_eq!(bytes.len() as u32, segment.wire_size());
    match parse(&bytes).1 {
        TransportHeader::Tcp(tcp) => tcp,
        other => panic!("{other:?}"),
    }
}

const SYN: SynOptions = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true };

#[test]
fn a_syn_is_laid_out_as_linux_does() {
    let segment = Segment {
        flags: Flags::SYN,
        window: 64_240,
        timestamps: Some((7, 0)),
        syn: SYN,
        ..Segment::default()
    };
    let header = tcp(&example::book(), &mut WireFormat::new(), 1, segment);
    let expected = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 7];
    assert_eq!(header.options.as_slice(), expected);
    assert_eq!((header.window_size, header.acknowledgment_number), (64_240, 0));
    let plain = Segment { timestamps: None, ..segment };
    let header = tcp(&example::book(), &mut WireFormat::new(), 1, plain);
    assert_eq!(header.options.as_slice(), [2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7]);
    let bare = Segment { syn: SynOptions { mss: 536, ..SynOptions::default() }, ..segment };
    let header = tcp(&example::book(), &mut WireFormat::new(), 1, bare);
    assert_eq!(header.options.as_slice(), [2, 4, 2, 24, 1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0]);
}

#[test]
fn windows_are_scaled_when_both_sides_offered_it() {
    let book = example::book();
    let data = Segment { flags: Flags::ACK, window: 1 << 20, ..Segment::default() };
    let syn = |flags: Flags, window_scale| Segment {
        flags,
        syn: SynOptions { window_scale, ..SYN },
        window: 1 << 20,
        ..Segment::default()
    };
    let syn_ack = Flags::SYN.with(Flags::ACK);
    let mut wire = WireFormat::new();
    // A SYN's own window is never scaled.
    assert_eq!(tcp(&book, &mut wire, 1, syn(Flags::SYN, Some(7))).window_size, 65_535);
    assert_eq!(tcp(&book, &mut wire, 1, data).window_size, 1 << 13);
    assert_eq!(tcp(&book, &mut wire, 0, syn(syn_ack, Some(9))).window_size, 65_535);
    assert_eq!(tcp(&book, &mut wire, 0, data).window_size, 1 << 11);
    // The other side did not offer it: nobody scales.
    tcp(&book, &mut wire, 0, syn(syn_ack, None));
    assert_eq!(tcp(&book, &mut wire, 1, Segment { window: 5_000, ..data }).window_size, 5_000);
    // No SYN was seen: the smallest shift with which it fits. Stated by the caller: that.
    assert_eq!(tcp(&book, &mut WireFormat::new(), 1, data).window_size, 1 << 15);
    assert_eq!(tcp(&book, &mut WireFormat::new(), 1, Segment { window: 65_535, ..data }).window_size, 65_535);
    let mut stated = example::book();
    stated.set_window_scale(FlowId(0), EndpointId(0), 10);
    assert_eq!(tcp(&stated, &mut WireFormat::new(), 1, data).window_size, 1 << 10);
}

#[test]
fn the_code_point_stands_before_the_ecn_field() {
    let segment = Segment { flags: Flags::ACK, ..Segment::default() };
    let voice = Packet { dscp: Dscp::EF, ..packet(1, Ecn::Ce, Body::Tcp(segment)) };
    let wire = WireFormat::new().bytes(&example::book(), &voice, None).unwrap();
    assert_eq!(wire.bytes[1], (46 << 2) | 3);
}

#[test]
fn a_packet_too_long_for_ipv4_is_cut_not_refused() {
    let segment = Segment { len: 100_000, flags: Flags::ACK, ..Segment::default() };
    let packet = packet(1, Ecn::NotEct, Body::Tcp(segment));
    let wire = WireFormat::new().bytes(&example::book(), &packet, Some(128)).unwrap();
    assert_eq!((wire.bytes.len(), wire.original_len), (128, 100_040));
    assert_eq!(wire.bytes[2..4], [0, 0]);
    let stranger = Packet { to: EndpointId(99), ..packet };
    let error = WireFormat::new().bytes(&example::book(), &stranger, None).unwrap_err();
    assert!(error.contains("endpoint 99"), "{error}");
}

prop_compose! {
    fn segment()(
        seq in prop_oneof![0u64..1 << 20, (1u64 << 32) - 5000..(1 << 32) + 5000, 1u64 << 40..1 << 41],
        ack in prop_oneof![100_000u64..1 << 20, (1u64 << 32) - 5000..(1 << 32) + 5000, 1u64 << 40..1 << 41],
        len in prop_oneof![Just(0u32), 1u32..1461, 1461u32..65_000],
        window in 0u32..1 << 30,
        timestamps in proptest::option::of((any::<u32>(), any::<u32>())),
        // All flags that there are but URG.
        flags in any::<u16>().prop_map(|bits| Flags(bits & 0x1df)),
        blocks in proptest::collection::vec((-100_000i64..100_000, 1u64..50_000), 0..5),
        syn in (any::<u16>(), proptest::option::of(0u8..15), any::<bool>()),
    ) -> Segment {
        let mut sack = SackBlocks::NONE;
        let room = if timestamps.is_some() { 3 } else { 4 };
        if !flags.contains(Flags::SYN) {
            for (offset, length) in blocks.into_iter().take(room) {
                let start = ack.saturating_add_signed(offset);
                assert!(sack.push(ack, start, start + length));
            }
        }
        let syn = match flags.contains(Flags::SYN) {
            true => SynOptions { mss: syn.0, window_scale: syn.1, sack_permitted: syn.2 },
            false => SynOptions::default(),
        };
        Segment { seq, ack, len, window, timestamps, flags, sack, syn }
    }
}

proptest! {
    #[test]
    fn what_a_segment_says_is_what_the_bytes_say(segment in segment(), ecn in 0usize..4, to in 0u32..2) {
        let mut book = example::book();
        book.set_window_scale(FlowId(0), EndpointId(1 - to), 14);
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn];
        let wire = WireFormat::new().bytes(&book, &packet(to, ecn, Body::Tcp(segment)), None).unwrap();
        prop_assert_eq!(wire.original_len, segment.wire_size());
        let (ip, transport, payload) = parse(&wire.bytes);
        let TransportHeader::Tcp(tcp) = transport else { panic!("not TCP") };
        let end = |end| *book.endpoint(FlowId(0), EndpointId(end)).unwrap();
        let (from, to) = (end(1 - to), end(to));
        prop_assert_eq!((ip.source, ip.destination), (from.local.ip().octets(), to.local.ip().octets()));
        prop_assert_eq!((tcp.source_port, tcp.destination_port), (from.local.port(), to.local.port()));
        prop_assert_eq!((ip.ecn.value(), ip.identification, ip.dont_fragment), (ecn as u8, 70_000u32 as u16, true));
        prop_assert_eq!(payload, segment.len as usize);
        prop_assert_eq!(tcp.sequence_number.wrapping_sub(from.isn), segment.seq as u32);
        let flags = segment.flags;
        if flags.contains(Flags::ACK) {
            prop_assert_eq!(tcp.acknowledgment_number.wrapping_sub(to.isn), segment.ack as u32);
        }
        let bits = [tcp.fin, tcp.syn, tcp.rst, tcp.psh, tcp.ack, tcp.urg, tcp.ece, tcp.cwr, tcp.ns];
        let bits = bits.iter().enumerate().fold(0, |all, (bit, &set)| all | u16::from(set) << bit);
        prop_assert_eq!(bits, flags.0);
        let window = if flags.contains(Flags::SYN) { segment.window.min(65_535) } else { segment.window >> 14 };
        prop_assert_eq!(u32::from(tcp.window_size), window.min(65_535));

        let mut expected = Vec::new();
        if flags.contains(Flags::SYN) {
            expected.push(Opt::MaximumSegmentSize(segment.syn.mss));
            expected.extend(segment.syn.sack_permitted.then_some(Opt::SelectiveAcknowledgementPermitted));
        }
        expected.extend(segment.timestamps.map(|(value, echo)| Opt::Timestamp(value, echo)));
        expected.extend(segment.syn.window_scale.map(Opt::WindowScale));
        let blocks: Vec<(u32, u32)> = segment
            .sack
            .iter(segment.ack)
            .map(|(start, end)| (to.isn.wrapping_add(start as u32), to.isn.wrapping_add(end as u32)))
            .collect();
        if let Some(&first) = blocks.first() {
            let rest = [1, 2, 3].map(|index| blocks.get(index).copied());
            expected.push(Opt::SelectiveAcknowledgement(first, rest));
        }
        let found: Vec<Opt> =
            tcp.options_iterator().map(Result::unwrap).filter(|option| *option != Opt::Noop).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn what_a_datagram_says_is_what_the_bytes_say(len in 0u32..65_508, snap in 28u32..2_000) {
        let book = example::book();
        let body = Body::Udp(Datagram { seq: 5, len, ..Datagram::default() });
        let wire = WireFormat::new().bytes(&book, &packet(3, Ecn::Ect1, body), None).unwrap();
        let (ip, transport, payload) = parse(&wire.bytes);
        let TransportHeader::Udp(udp) = transport else { panic!("not UDP") };
        prop_assert_eq!((payload, u32::from(udp.length)), (len as usize, len + 8));
        prop_assert_eq!(ip.ecn.value(), 1);
        let cut = WireFormat::new().bytes(&book, &packet(3, Ecn::Ect1, body), Some(snap)).unwrap();
        prop_assert_eq!(cut.original_len, len + 28);
        prop_assert_eq!(&cut.bytes[..], &wire.bytes[..(len + 28).min(snap) as usize]);
    }
}

/// Writes the example's captures of both links into a run directory.
fn captures(out: &Path, options: CaptureOptions) {
    let mut writer = RunWriter::create(out, false, example::book()).unwrap();
    writer.record_capture(LinkId(0), "r1>r2", options).unwrap();
    writer.record_capture(LinkId(1), "r2>r1", options).unwrap();
    writer.link_records(&example::link_records()).unwrap();
    writer.finish(&example::summary(1, 1), &[]).unwrap();
}

#[test]
fn a_capture_is_read_back_with_every_packet_sound() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    captures(&out, CaptureOptions { snap_length: None, drops: true, ..CaptureOptions::default() });
    let file = fs::read(out.join("r1-r2.pcapng")).unwrap();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let (mut interfaces, mut packets, mut comments) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap().0 {
            Block::InterfaceDescription(block) => interfaces.push(format!("{:?}", block.options)),
            Block::EnhancedPacket(block) => {
                assert_eq!(block.original_len as usize, block.data.len());
                parse(&block.data);
                packets.push((block.timestamp.as_nanos() as u64, block.interface_id));
                comments.extend(block.options.iter().map(|option| format!("{option:?}")));
            }
            _ => {}
        }
    }
    assert_eq!(interfaces.len(), 2);
    assert!(interfaces[0].contains("r1>r2") && interfaces[1].contains("r1>r2 lost"), "{interfaces:?}");
    let expected: Vec<(u64, u32)> = example::link_records()
        .iter()
        .filter(|record| record.link == LinkId(0))
        .filter_map(|record| match record.event {
            LinkEvent::Transmit { .. } => Some((record.time.as_nanos(), 0)),
            LinkEvent::Drop(_) => Some((record.time.as_nanos(), 1)),
            _ => None,
        })
        .collect();
    assert_eq!(packets, expected);
    assert_eq!(comments.len(), 2, "{comments:?}");
    assert!(comments[0].contains("marked congestion-experienced by this link"), "{comments:?}");
    assert!(comments[1].contains("lost: overflow"), "{comments:?}");
}

/// Runs tshark with every checksum verified; none, with a printed reason, where it is not installed.
fn tshark(file: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("tshark");
    for preference in ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"] {
        command.args(["-o", &format!("{preference}:TRUE")]);
    }
    let output = match command.arg("-r").arg(file).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            println!("not checked with tshark, which cannot be run: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What tshark must find nowhere.
const SEVERE: &str = "_ws.malformed || _ws.expert.severity >= \"Error\" || ip.checksum.status == 0 \
                      || tcp.checksum.status == 0 || udp.checksum.status == 0";

#[test]
fn tshark_reads_captures_without_a_complaint() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("full", CaptureOptions { snap_length: None, ..CaptureOptions::default() }),
        ("headers", CaptureOptions::default()),
    ] {
        let out = scratch.path().join(name);
        captures(&out, options);
        for (file, count) in [("r1-r2.pcapng", 14), ("r2-r1.pcapng", 9)] {
            let path = out.join(file);
            let Some(lines) = tshark(&path, &[]) else { return };
            assert_eq!(lines.lines().count(), count, "{lines}");
            assert_eq!(tshark(&path, &["-Y", SEVERE]).unwrap(), "", "{file} ({name})");
        }
    }
    let full = scratch.path().join("full/r1-r2.pcapng");
    // That it would complain: a byte of the last payload is changed.
    let mut bytes = fs::read(&full).unwrap();
    let place = bytes.len() - 20;
    bytes[place] ^= 0x40;
    let broken = scratch.path().join("broken.pcapng");
    fs::write(&broken, bytes).unwrap();
    assert_eq!(tshark(&broken, &["-Y", SEVERE]).unwrap().lines().count(), 1);
    let good = tshark(&full, &["-Y", "tcp.checksum.status == 1 || udp.checksum.status == 1"]).unwrap();
    assert_eq!(good.lines().count(), 14, "every checksum was verified");
    let fields = |file: &Path, names: &[&str]| -> Vec<Vec<i64>> {
        let mut arguments = vec!["-Y", "tcp", "-T", "fields"];
        names.iter().for_each(|name| arguments.extend(["-e", name]));
        let text = tshark(file, &arguments).unwrap();
        text.lines().map(|line| line.split('\t').map(|field| field.parse().unwrap()).collect()).collect()
    };
    assert_eq!(
        fields(&full, &["ip.dsfield.ecn", "tcp.seq", "tcp.len", "tcp.window_size"])[..5],
        [
            vec![0, 0, 0, 64_240],
            vec![0, 1, 0, 65_536],
            vec![2, 1, 1448, 65_536],
            vec![3, 2897, 1448, 65_536],
            vec![2, 4345, 1448, 65_536],
        ]
    );
    let marked = tshark(&full, &["-Y", "frame.comment contains \"marked congestion-experienced\""]).unwrap();
    assert_eq!(marked.lines().count(), 1);
    // On the way back: windows scaled by the SYN-ACK's shift, SACK blocks and one D-SACK.
    let back = scratch.path().join("full/r2-r1.pcapng");
    let acks = fields(&back, &["tcp.ack", "tcp.window_size"]);
    assert_eq!(acks[..3], [vec![1, 65_160], vec![1449, 1 << 20], vec![1449, 1 << 20]]);
    assert_eq!(tshark(&back, &["-Y", "tcp.options.sack.count"]).unwrap().lines().count(), 5);
    assert_eq!(tshark(&back, &["-Y", "tcp.options.sack.dsack"]).unwrap().lines().count(), 1);
}

/// A capture of these segments from the server to the client, whole.
fn capture_of(path: &Path, segments: &[Segment]) {
    let mut writer = CaptureWriter::new(
        fs::File::create(path).unwrap(),
        path,
        "r2>r1",
        CaptureOptions { snap_length: None, ..CaptureOptions::default() },
    )
    .unwrap();
    let (book, mut wire) = (example::book(), WireFormat::new());
    for (n, segment) in segments.iter().enumerate() {
        let record = LinkRecord {
            time: Timestamp::from_millis(n as u64),
            link: LinkId(0),
            event: LinkEvent::Transmit { queued: TimeDelta::ZERO },
            backlog_packets: 0,
            backlog_bytes: 0,
            packet: packet(0, Ecn::NotEct, Body::Tcp(*segment)),
        };
        writer.record(&mut wire, &book, &record).unwrap();
    }
}

#[test]
fn tshark_shows_accecn_options_of_both_orders_and_every_length() {
    let timestamps = Some((7, 8));
    let base = Segment { ack: 5000, flags: Flags::ACK, timestamps, ..Segment::default() };
    let mut segments = Vec::new();
    for (ect1_first, fields, blocks) in
        [(false, 3, 1), (false, 2, 2), (true, 2, 0), (true, 1, 2), (false, 0, 0)]
    {
        let mut segment = base;
        assert!(segment.set_accecn(&AccEcn::new([1001, 70_000, 9], ect1_first, fields)));
        (0..blocks).for_each(|n| assert!(segment.sack.push(5000, 6000 + 2000 * n, 7000 + 2000 * n)));
        assert!(segment.options_len() <= 40);
        segments.push(segment);
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("accecn.pcapng");
    capture_of(&path, &segments);
    let Some(severe) = tshark(&path, &["-Y", SEVERE]) else { return };
    assert_eq!(severe, "");
    let option = "tcp.options.acc_ecn";
    let fields =
        ["tcp.option_kind", &format!("{option}.ee0b"), &format!("{option}.eceb"), &format!("{option}.ee1b")];
    let mut arguments = vec!["-T", "fields"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    assert_eq!(
        tshark(&path, &arguments).unwrap().lines().collect::<Vec<_>>(),
        [
            "1,1,8,1,1,5,172,1\t1001\t70000\t9",
            "1,1,8,1,1,5,172\t1001\t70000\t",
            "1,1,8,174\t\t70000\t9",
            "1,1,8,1,1,5,174,1,1,1\t\t\t9",
            "1,1,8,172,1,1\t\t\t",
        ]
    );
}

#[test]
fn a_full_disk_is_told_as_such() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let options = CaptureOptions::default();
    let error = CaptureWriter::new(Full, Path::new("runs/a/r1-r2.pcapng"), "r1>r2", options).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot write runs/a/r1-r2.pcapng: ") && text.contains("free some space"),
        "{text}"
    );
}
