//! Guests whose network cards have offloads, in whole scenarios: what links carry, and what flows get.

use std::path::Path;

use warpline_lab::run::{RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::{PacketRow, Run};

use crate::capture::tshark;
use crate::support::{Rows, parse};

/// Two Linux hosts, a bottleneck of 100 Mbit/s with a full queue, and a flow in one direction, then in the other. The links of the hosts are captured.
fn scenario(keys: &str, ipv6: bool) -> String {
    format!(
        r#"
duration = "6s"
warmup = "1s"
[[link]]
between = ["a", "r"]
rate = "1Gbit/s"
delay = "1ms"
record = ["pcap", "packets"]
[[link]]
between = ["r", "b"]
rate = "100Mbit/s"
delay = "5ms"
queue = {{ kind = "droptail", limit = "1BDP" }}
[[host]]
name = "a"
endpoint = "guest"
{keys}
[[host]]
name = "b"
endpoint = "guest"
{keys}
[[flow]]
name = "down"
ipv6 = {ipv6}
from = "a"
to = "b"
stop = "3s"
[[flow]]
name = "up"
ipv6 = {ipv6}
from = "b"
to = "a"
start = "3500ms"
"#
    )
}

fn simulate(text: &str, out: &Path) -> Option<RunOutcome> {
    let options = RunOptions { tables: true, out: Some(out.to_owned()), ..RunOptions::default() };
    match run(&parse(text), &options, &mut |_| Control::Continue) {
        Ok(outcome) => Some(outcome),
        Err(RunError::Live(reason)) if reason.contains("there is no guest kernel") => {
            warpline_skip::skip("program", reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn links_carry_packets_and_flows_get_what_they_get_without_offloads() {
    for ipv6 in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let out = |name: &str| directory.path().join(name);
        let Some(plain) = simulate(&scenario("", ipv6), &out("plain")) else { return };
        let keys = "offloads = true";
        let Some(own) = simulate(&scenario(keys, ipv6), &out("own")) else { return };
        for outcome in [&plain, &own] {
            assert!(outcome.complete && outcome.summary.guests.as_ref().unwrap().reproducible);
        }
        let total =
            |outcome: &RunOutcome| outcome.flow("down.0").goodput_bps + outcome.flow("up.0").goodput_bps;
        let ratio = total(&own) / total(&plain);
        assert!((0.95..1.05).contains(&ratio), "{ratio}, IPv6 {ipv6}");
        let rows = Run::open(&out("own")).unwrap().rows::<PacketRow>().unwrap();
        let sizes: Vec<u32> = rows.iter().filter(|row| row.event == "transmit").map(|row| row.size).collect();
        assert!(sizes.iter().all(|size| *size <= 1500), "{:?}", sizes.iter().max());
        assert!(sizes.iter().filter(|size| **size == 1500).count() > 20_000, "{}", sizes.len());
        // Fewer acknowledgements come back, since the kernel now and then gets two packets at once.
        let sent = |outcome: &RunOutcome| outcome.link("a>r").sent_packets + outcome.link("r>a").sent_packets;
        assert!(sent(&own) < sent(&plain), "{} {}", sent(&own), sent(&plain));
        // The same bytes again.
        simulate(&scenario(keys, ipv6), &out("again")).unwrap();
        for name in ["a-r.pcapng", "r-a.pcapng"] {
            let [one, two] = ["own", "again"].map(|run| std::fs::read(out(run).join(name)).unwrap());
            assert!(one.len() > 1_000_000 && one == two, "{name} differs");
            assert_wireshark_finds_no_fault(&out("own").join(name), ipv6);
        }
    }
}

/// Wireshark finds the checksums of all headers right, and those of the packets that are short enough to be captured whole.
fn assert_wireshark_finds_no_fault(capture: &Path, ipv6: bool) {
    let fields = ["_ws.malformed", "ip.checksum.status", "tcp.checksum.status", "frame.len", "frame.cap_len"];
    let mut arguments = vec!["-T", "fields", "-E", "separator=,"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let Some(text) = tshark(capture, &arguments) else { return };
    let mut whole = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(',').collect();
        assert!(words[0].is_empty() && words[1] == if ipv6 { "" } else { "1" }, "{line}");
        // 2: cut off in the capture, so that it cannot be said.
        let expected = if words[3] == words[4] { "1" } else { "2" };
        whole += usize::from(expected == "1");
        assert_eq!(words[2], expected, "{line}");
    }
    assert!(whole > 100, "{whole}");
}
