//! Captures of real runs, as Wireshark reads them.

use std::path::Path;
use std::process::Command;

use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_results::{PacketRow, Run};

use crate::support::{Rows, parse};

/// What tshark prints for a capture; none if there is no tshark.
#[expect(clippy::print_stderr, reason = "a skipped check is reported")]
pub(crate) fn tshark(capture: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("tshark");
    let options =
        ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
    command.arg("-n").args(options).arg("-r").arg(capture).args(arguments);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            eprintln!("no tshark ({error}): the capture was not checked");
            None
        }
    }
}

#[test]
fn wireshark_reports_no_errors_in_a_capture() {
    // Captured before any packet is lost: data is lost later, on r>b, and acknowledgements never.
    let scenario = parse(
        r#"
        duration = "5s"
        tcp = { ecn = true }
        [[link]]
        between = ["a", "r"]
        rate = "100Mbit/s"
        delay = "5ms"
        record = ["pcap", "packets"]
        [[link]]
        between = ["r", "b"]
        rate = "5Mbit/s"
        delay = "5ms"
        queue = { kind = "codel", ecn = true }
        loss = { kind = "bernoulli", probability = 0.01 }
        reverse = { loss = { kind = "none" } }
        [[flow]]
        name = "bulk"
        from = "a"
        to = "b"
        stop = "4s"
        [[flow]]
        name = "old"
        from = "a"
        to = "b"
        tcp = { preset = "1990-reno" }
        stop = "4s"
        [[flow]]
        name = "web"
        app = "web"
        from = "a"
        to = "b"
        stop = "3s"
        [[flow]]
        name = "call"
        app = "cbr"
        from = "b"
        to = "a"
        rate = "100kbit/s"
        packet_size = "200B"
        "#,
    );
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    let outcome = run(&scenario, &options, &mut |_| Control::Continue).unwrap();
    assert!(outcome.link("r>b").drops_loss > 5);
    let packets = Run::open(&out).unwrap().rows::<PacketRow>().unwrap();
    for (number, name) in ["a-r", "r-a"].into_iter().enumerate() {
        let capture = out.join(format!("{name}.pcapng"));
        let fields = [
            "frame.time_relative",
            "_ws.malformed",
            "ip.checksum.status",
            "tcp.checksum.status",
            "udp.checksum.status",
            "tcp.analysis.ack_lost_segment",
            "tcp.analysis.lost_segment",
            "ip.len",
        ];
        let mut arguments = vec!["-T", "fields", "-E", "separator=,"];
        arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
        let Some(text) = tshark(&capture, &arguments) else { return };
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        // Each direction alone lacks the segments of the other; see the merged capture below.
        for line in &lines {
            assert_eq!(line[1], "", "malformed: {line:?}");
            assert_eq!(line[2], "1", "IP checksum: {line:?}");
            // If a packet is cut off after its headers, its checksum cannot be verified (2).
            let whole = line[7].parse::<u32>().unwrap() <= 128;
            let good = |status: &str| status == "1" || (status == "2" && !whole);
            assert!(good(line[3]) || good(line[4]), "TCP or UDP checksum: {line:?}");
        }
        let link = number as u32;
        let here = packets.iter().filter(|row| row.link == link && row.event == "transmit");
        let sizes: Vec<u32> = here.clone().map(|row| row.size).collect();
        assert_eq!(lines.len(), sizes.len());
        let seen: Vec<u32> = lines.iter().map(|line| line[7].parse().unwrap()).collect();
        assert_eq!(seen, sizes);
        // A packet may be in transmission at the end.
        assert!((0..2).contains(&(sizes.len() as u64 - outcome.summary.links[number].sent_packets)));
    }
    // Merged, both directions are one conversation with no segment missing.
    let merged = directory.path().join("merged.pcapng");
    let mut merge = Command::new("mergecap");
    if merge.arg("-w").arg(&merged).args([out.join("a-r.pcapng"), out.join("r-a.pcapng")]).output().is_err() {
        eprintln!("no mergecap: the merged directions were not checked");
        return;
    }
    for fault in [
        "_ws.malformed",
        "tcp.analysis.ack_lost_segment",
        "tcp.analysis.lost_segment",
        "_ws.expert.severity == error",
    ] {
        let found = tshark(&merged, &["-Y", fault]).unwrap();
        assert_eq!(found, "", "{fault}");
    }
    assert_ne!(tshark(&merged, &["-Y", "tcp.analysis.retransmission"]).unwrap(), "");
}
