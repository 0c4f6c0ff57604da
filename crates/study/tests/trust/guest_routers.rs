//! Guests that forward: Linux as a router of a scenario, with its own queues.

use std::path::Path;

use warpline_lab::run::{RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;

use crate::support::{Rows, parse};

/// Runs a scenario; skips if there is no guest kernel, or no `tc`.
fn simulate(text: &str, out: Option<&Path>) -> Option<RunOutcome> {
    let options = RunOptions { tables: true, out: out.map(Path::to_owned), ..RunOptions::default() };
    match run(&parse(text), &options, &mut |_| Control::Continue) {
        Ok(outcome) => {
            assert!(outcome.complete && outcome.failures.is_empty(), "{:?}", outcome.failures);
            Some(outcome)
        }
        Err(RunError::Live(reason)) if reason.contains("there is no guest kernel") || no_tc(&reason) => {
            warpline_skip::skip("program", reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn no_tc(reason: &str) -> bool {
    reason.contains("cannot start tc")
}

/// A client, a Linux router with these commands, and a server behind a link of this rate; four CUBIC flows and a small one. The
/// round trip is 20 ms.
fn path(rate: &str, tc: &str) -> String {
    format!(
        r#"
duration = "10s"
warmup = "3s"
link = [
  {{ between = ["client", "r"], rate = "100Mbit/s", delay = "5ms" }},
  {{ between = ["r", "server"], rate = "{rate}", delay = "5ms", record = ["pcap"] }},
]
[[host]]
name = "r"
endpoint = "guest"
forwards = true
tc = [{tc}]
[[flow]]
name = "bulk"
from = "client"
to = "server"
count = 4
[[flow]]
name = "small"
from = "client"
to = "server"
app = "cbr"
rate = "50kbit/s"
packet_size = "100B"
record = ["latency"]
"#
    )
}

/// The sum of the four flows' goodput in bit/s.
fn goodput(outcome: &RunOutcome) -> f64 {
    (0..4).map(|number| outcome.flow(&format!("bulk.{number}")).goodput_bps).sum()
}

/// What a field of a queue on `device` shows at the end.
fn shown(out: &Path, device: &str, field: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(out.join("qdisc-r.json")).unwrap();
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let root = all.iter().find(|own| own["dev"] == device && own["root"] == true);
    root.unwrap_or_else(|| panic!("no queue on {device}: {text}"))[field].clone()
}

/// Payload's share of a full packet.
const SHARE: f64 = 1448.0 / 1500.0;

#[test]
fn models_meet_linux_s_queues_in_a_router() {
    // The rate of the link, the command, the expected goodput, and the longest delay of the small flow's packets, in ms.
    for (rate, kind, options, expected, longest) in [
        // The queue's own rate, below the link's.
        ("20Mbit/s", "cake", "bandwidth 10mbit", 9.5e6, 20.0),
        ("20Mbit/s", "tbf", "rate 10mbit burst 5kb limit 100kb", 10e6 * SHARE * 1486.0 / 1500.0, 110.0),
        // The link's rate: the kernel's queue fills in front of the interface.
        ("10Mbit/s", "fq_codel", "", 10e6 * SHARE, 20.0),
        ("10Mbit/s", "pfifo", "limit 50", 10e6 * SHARE, 80.0),
    ] {
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("run");
        let text = path(rate, &format!("\"dev server root {kind} {options}\""));
        let Some(outcome) = simulate(&text, Some(&out)) else { return };
        let found = goodput(&outcome);
        assert!((found / expected - 1.0).abs() < 0.03, "{kind}: {found} instead of {expected}");
        let delay = outcome.flow("small.0").latency_max_ms.unwrap();
        assert!((10.0..longest).contains(&delay), "{kind}: {delay} ms");
        assert_eq!(shown(&out, "server", "kind"), kind);
        assert!(shown(&out, "server", "packets").as_u64().unwrap() > 5000, "{kind}");
        assert!(shown(&out, "server", "drops").as_u64().unwrap() > 10, "{kind}");
        // Nothing waits behind the kernel's queue.
        assert!(outcome.link("r>server").queue_delay_max_ms < 0.01, "{kind}");
        assert!(outcome.summary.guests.as_ref().unwrap().reproducible);
    }
}

#[test]
fn a_run_over_a_router_is_repeated_to_the_byte() {
    let text = path("10Mbit/s", "\"dev server root fq_codel\"").replace("10s", "4s");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("run");
        let Some(outcome) = simulate(&text, Some(&out)) else { return };
        let read = |name: &str| std::fs::read(out.join(name)).unwrap();
        seen.push((goodput(&outcome), read("qdisc-r.json"), read("r-server.pcapng")));
    }
    assert!(seen[0].2.len() > 300_000 && seen[0] == seen[1]);
}

#[test]
fn programs_see_the_router_on_their_path() {
    let text = r#"
duration = "8s"
link = [
  { between = ["a", "r1"], rate = "10Mbit/s", delay = "5ms" },
  { between = ["r1", "r2"], rate = "10Mbit/s", delay = "5ms", mtu = "1300B" },
  { between = ["r2", "b"], rate = "10Mbit/s", delay = "5ms" },
]
[[host]]
name = "a"
endpoint = "guest"
[[host.program]]
name = "far"
command = ["ping", "-c", "2", "{b}"]
[[host.program]]
name = "hop"
command = "ping -c 1 -t 1 {b}; ping -c 1 {r1}; ping -c 1 -M do -s 1400 {b}; ping -c 1 -6 {b:6}"
expect = 1
start = "3s"
[[host]]
name = "r1"
endpoint = "guest"
forwards = true
[[flow]]
name = "up"
from = "a"
to = "b"
start = "4s"
"#
    .replace("; ping -c 1 -6 {b:6}", "; ping -c 1 -6 {b:6}; false");
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("run");
    let Some(outcome) = simulate(&text, Some(&out)) else { return };
    let said = |name: &str| std::fs::read_to_string(out.join(format!("programs/{name}.stdout"))).unwrap();
    let far = said("a.far");
    // Two routers on the way, one of them Linux's.
    assert!(far.contains("ttl=62") && far.contains("2 received"), "{far}");
    let hop = said("a.hop");
    for part in
        ["From 10.0.0.2", "Time to live exceeded", "ttl=64", "Frag needed and DF set (mtu = 1300)", "ttl=62"]
    {
        assert!(hop.contains(part), "{part}: {hop}");
    }
    // A flow from a guest to a model goes through it, too; its segments fit the narrow link.
    let found = outcome.flow("up.0").goodput_bps;
    assert!((found / (10e6 * 1248.0 / 1300.0) - 1.0).abs() < 0.15, "{found}");
}

#[test]
fn a_command_that_tc_refuses_ends_the_run_with_its_words() {
    let text = path("10Mbit/s", "\"dev server root fq_codel\", \"dev client root netem delai 1ms\"");
    let result = run(&parse(&text), &RunOptions::default(), &mut |_| Control::Continue);
    let error = result.unwrap_err().to_string();
    let known = error.contains("host r, entry 2 of `tc`: `tc qdisc replace dev client root netem delai 1ms`")
        && error.contains("\"delai\"");
    assert!(known || error.contains("there is no guest kernel") || no_tc(&error), "{error}");
}

/// Datagrams over a Linux router, with these further keys of the link before it and of the link behind it.
fn datagrams(before: &str, behind: &str) -> Option<(RunOutcome, u64)> {
    let text = format!(
        r#"
duration = "1s"
link = [
  {{ between = ["client", "r"], rate = "100Mbit/s", delay = "5ms", {before} }},
  {{ between = ["r", "server"], rate = "100Mbit/s", delay = "5ms", {behind} }},
]
[[host]]
name = "r"
endpoint = "guest"
forwards = true
[[flow]]
name = "small"
from = "client"
to = "server"
app = "cbr"
rate = "80kbit/s"
packet_size = "100B"
stop = "900ms"
"#
    );
    let outcome = simulate(&text, None)?;
    let sent = outcome.flow("small.0").sent_packets;
    assert!(sent > 50, "{sent}");
    Some((outcome, sent))
}

#[test]
fn what_links_copy_or_damage_arrives_twice_or_not_at_all_through_a_router() {
    let Some((plain, sent)) = datagrams("", "") else { return };
    let bytes = plain.flow("small.0").delivered_bytes;
    assert_eq!(plain.link("r>server").sent_packets, sent);
    // Each copy is handed to the kernel once, and it forwards both.
    let (copied, _) = datagrams("duplicate = \"100%\"", "").unwrap();
    assert_eq!((copied.link("client>r").duplicated, copied.link("r>server").sent_packets), (sent, 2 * sent));
    let (copied, _) = datagrams("", "duplicate = \"100%\"").unwrap();
    assert_eq!(copied.link("r>server").duplicated, sent);
    assert!(copied.flow("small.0").delivered_bytes >= bytes);
    let (damaged, _) = datagrams("corrupt = \"100%\"", "").unwrap();
    assert_eq!((damaged.link("r>server").sent_packets, damaged.flow("small.0").delivered_bytes), (0, 0));
    let (damaged, _) = datagrams("", "corrupt = \"100%\"").unwrap();
    assert_eq!((damaged.link("r>server").sent_packets, damaged.flow("small.0").delivered_bytes), (sent, 0));
}

#[test]
fn packets_from_several_links_keep_their_places_in_a_router() {
    let mut text = path("10Mbit/s", "\"dev server root pfifo limit 40\"");
    text = text.replace(
        "link = [",
        "link = [\n  { between = [\"other\", \"r\"], rate = \"100Mbit/s\", delay = \"5ms\" },",
    );
    text += "[[flow]]\nname = \"others\"\nfrom = \"other\"\nto = \"server\"\ncount = 2\nstart = \"0s..1s\"\n";
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("run");
    let Some(outcome) = simulate(&text.replace("warmup = \"3s\"", ""), Some(&out)) else { return };
    let flows: Vec<_> =
        outcome.summary.flows.iter().filter(|flow| flow.cc.as_deref() == Some("cubic")).collect();
    let again: u64 = flows.iter().map(|flow| flow.retransmitted_packets).sum();
    let drops = shown(&out, "server", "drops").as_u64().unwrap();
    // Whatever is sent again was dropped: nothing comes out of order.
    assert!(drops > 50 && again <= drops, "{again} sent again, {drops} dropped");
    assert_eq!(flows.iter().map(|flow| flow.undos).sum::<u64>(), 0);
}
