//! Every TCP option that a scenario can set has its effect on the wire.

use warpline_lab::run::RunOutcome;

use crate::support::{Rows, close, two_hosts};

/// One bulk flow for ten seconds with these options.
fn bulk(link: &str, tcp: &str) -> RunOutcome {
    let flow = format!("flow = [{{ from = \"a\", to = \"b\", cc = \"reno\", tcp = {{ {tcp} }} }}]");
    two_hosts("10s", link, &flow)
}

/// Completion time of a transfer with these options.
fn completion(link: &str, size: &str, tcp: &str) -> f64 {
    let flow = format!(
        "flow = [{{ app = \"transfer\", size = \"{size}\", from = \"a\", to = \"b\", cc = \"reno\", tcp = {{ {tcp} }} }}]"
    );
    two_hosts("60s", link, &flow).transfers()[0].completion_s.unwrap()
}

/// Of a window, the first six segments and the last get through.
const BURST: &str =
    r#", loss = { kind = "list", packets = [60, 62, 64, 66] }, reverse = { loss = { kind = "none" } }"#;

#[test]
fn each_recovery_takes_its_own_time() {
    let old = "timestamps = false, sack = false, dsack = false, rack = false, tlp = false, prr = false, undo = false, min_rto = \"1s\"";
    let run = |recovery: &str| bulk(BURST, &format!("recovery = \"{recovery}\", {old}"));
    let (tahoe, reno, newreno) = (run("tahoe"), run("reno"), run("newreno"));
    let sack = bulk(BURST, "recovery = \"sack\"");
    let of = |outcome: &RunOutcome| {
        let flow = outcome.flow("bulk.0");
        (flow.rtos, flow.recoveries, flow.retransmitted_packets)
    };
    // Four losses in a window: Reno leaves recovery at the first partial ACK and has to wait for its timer.
    assert_eq!((of(&reno).0, of(&newreno).0, of(&sack).0), (1, 0, 0));
    assert_eq!((of(&newreno).1, of(&sack).1), (1, 1));
    // NewReno and SACK know what is missing and retransmit no more than that.
    assert_eq!((of(&newreno).2, of(&sack).2), (4, 4));
    // Tahoe retransmits everything from the first loss on.
    assert!(of(&tahoe).2 >= 4, "{:?}", of(&tahoe));
    let delivered = |outcome: &RunOutcome| outcome.flow("bulk.0").delivered_bytes;
    assert!(delivered(&reno) < delivered(&newreno));
    assert!(delivered(&reno) < delivered(&tahoe));
    assert!(tahoe.flow("bulk.0").latency_max_ms < reno.flow("bulk.0").latency_max_ms);
}

#[test]
fn acknowledgements_are_delayed_as_set() {
    let acks = |tcp: &str| {
        let outcome = bulk("", &format!("max_window = \"30p\", {tcp}"));
        outcome.link("b>a").sent_packets as f64 / outcome.link("a>b").sent_packets as f64
    };
    close(acks("delayed_ack = \"0s\""), 1.0, 0.01);
    close(acks(""), 0.5, 0.02);
    close(acks("delayed_ack_segments = 4"), 0.25, 0.05);
    // A single segment waits for the full delay.
    let lone =
        |tcp: &str| bulk("", &format!("max_window = \"1p\", {tcp}")).flow("bulk.0").latency_mean_ms.unwrap();
    close(lone("delayed_ack = \"100ms\", quick_acks = 0"), 121.552, 0.01);
    close(lone("delayed_ack = \"0s\""), 21.552, 0.01);
    close(lone("delayed_ack = \"100ms\", quick_acks = 1000"), 21.552, 0.01);
}

#[test]
fn segments_have_their_size() {
    let size = |tcp: &str| {
        let outcome = bulk("", &format!("max_window = \"30p\", {tcp}"));
        let flow = outcome.flow("bulk.0");
        (
            flow.sent_bytes as f64 / flow.sent_packets as f64,
            flow.delivered_bytes as f64 / flow.sent_packets as f64,
        )
    };
    let (packet, payload) = size("mss = \"536B\"");
    close(packet, 576.0, 1e-3);
    close(payload, 524.0, 0.02);
    let (packet, payload) = size("mss = \"536B\", timestamps = false");
    close(packet, 576.0, 1e-3);
    close(payload, 536.0, 0.02);
}

#[test]
fn the_initial_window_saves_round_trips() {
    // Ten segments: 2, 4 and 4 in three flights of one round trip each; ACKs are sent one by one.
    let time = |window: &str| {
        completion("", "14480B", &format!("initial_window = \"{window}\", delayed_ack = \"0s\""))
    };
    let whole = 0.030 + (60.0 + 60.0 + 10.0 * 1500.0) / 1e6;
    close(time("10p"), whole, 1e-9);
    close(time("14480B"), whole, 1e-9);
    let (five, two) = (time("5p"), time("2p"));
    assert!((whole + 0.010..whole + 0.025).contains(&five), "{five}");
    assert!((whole + 0.030..whole + 0.050).contains(&two), "{two}");
}

#[test]
fn buffers_and_caps_bound_the_window() {
    // 20 segments of 1448 bytes in a round trip of 20 ms plus the transmission of one packet and its ACK.
    let bound = 20.0 * 1448.0 * 8.0 / 0.0215;
    // Holds as long as the link of 8 Mbit/s is not the bottleneck.
    let wide = |tcp: &str| bulk(r#", reverse = { delay = "50ms" }"#, tcp).flow("bulk.0").goodput_bps;
    let bound = bound * 0.0215 / 0.0615;
    close(wide("receive_buffer = \"28960B\", delayed_ack = \"0s\""), bound, 0.05);
    close(wide("send_buffer = \"28960B\", delayed_ack = \"0s\""), bound, 0.05);
    close(wide("max_window = \"20p\", delayed_ack = \"0s\""), bound, 0.05);
    close(wide("max_rate = \"2Mbit/s\""), 2e6 * 1448.0 / 1500.0, 0.02);
    assert!(wide("") > 1.7 * bound);
    // 65535 bytes without scaling.
    let long = |tcp: &str| bulk(r#", reverse = { delay = "190ms" }"#, tcp).flow("bulk.0").goodput_bps;
    assert!(long("window_scaling = false") < 65_535.0 * 8.0 / 0.2);
    assert!(long("") > 65_535.0 * 8.0 / 0.2);
}

#[test]
fn slow_start_ends_at_its_threshold() {
    let cwnd = |tcp: &str| {
        let outcome = bulk("", tcp);
        let samples = outcome.flow_samples();
        samples.iter().find(|sample| sample.time_s > 0.29).unwrap().cwnd_bytes.unwrap()
    };
    // By 300 ms, some 13 round trips would have made thousands of segments from ten; above 12 it grows by one per round trip.
    let low = cwnd("initial_ssthresh = \"12p\"");
    assert!((12 * 1448..30 * 1448).contains(&low), "{low}");
    assert!(cwnd("") > 100 * 1448);
}

#[test]
fn time_outs_are_as_set() {
    // The last segment of a transfer is lost: SYN and ten segments are eleven packets.
    let tail = r#", loss = { kind = "list", packets = [11] }, reverse = { loss = { kind = "none" } }"#;
    let time = |tcp: &str| completion(tail, "14480B", &format!("delayed_ack = \"0s\", {tcp}"));
    let whole = 0.030 + (60.0 + 60.0 + 10.0 * 1500.0) / 1e6;
    let plain = "tlp = false, rack = false, limited_transmit = false, rto_variance = \"rfc6298\"";
    let (short, long) =
        (time(&format!("min_rto = \"300ms\", {plain}")), time(&format!("min_rto = \"900ms\", {plain}")));
    close(long - short, 0.6, 0.01);
    // Linux adds the round trip to the minimum.
    let linux = time(
        "min_rto = \"300ms\", tlp = false, rack = false, limited_transmit = false, rto_variance = \"linux\"",
    );
    assert!((short + 0.015..short + 0.060).contains(&linux), "{linux} after {short}");
    let tick = time(&format!("min_rto = \"300ms\", tick = \"500ms\", {plain}"));
    // At least a tick of variance (RFC 6298 section 2.3), then up to the next tick: 1 s.
    close(tick - short, 0.7, 0.01);
    // A tail loss probe comes after two round trips and 200 ms, for a receiver that delays ACKs (RFC 8985 section 7.2).
    let probed = time("min_rto = \"900ms\"");
    assert!((whole + 0.22..whole + 0.3).contains(&probed), "{probed}");
    // SYN lost: initial_rto.
    let syn = r#", loss = { kind = "list", packets = [1] }, reverse = { loss = { kind = "none" } }"#;
    close(completion(syn, "1448B", "initial_rto = \"2500ms\"") - 2.5, 0.030 + 1620.0 / 1e6, 1e-6);
}

#[test]
fn a_connection_is_given_up_after_its_retries() {
    let transfer = |tcp: &str, down: &str| {
        two_hosts(
            "300s",
            &format!(", down = [{{ at = \"{down}\", for = \"250s\" }}]"),
            &format!(
                "flow = [{{ app = \"transfer\", size = \"50MB\", from = \"a\", to = \"b\", tcp = {{ {tcp} }} }}]"
            ),
        )
    };
    // Five time-outs of 220, 440 ... ms end long before the link is back; fifteen do not.
    let given_up = transfer("data_retries = 4", "1s");
    let flow = given_up.flow("transfer.0");
    assert_eq!((flow.transfers, flow.transfers_completed), (1, 0));
    assert!(flow.end_s.is_some_and(|end| (5.0..30.0).contains(&end)), "{:?}", flow.end_s);
    let patient = transfer("", "1s");
    assert_eq!(patient.flow("transfer.0").end_s, None);
    assert!(patient.flow("transfer.0").rtos > 5);
}

#[test]
fn pacing_spreads_a_window_at_its_gain() {
    let queue = |tcp: &str| {
        let tcp = format!("max_window = \"10p\", initial_ssthresh = \"2p\", initial_window = \"10p\", {tcp}");
        bulk(r#", reverse = { delay = "50ms" }"#, &tcp).link("a>b").queue_delay_max_ms
    };
    let (burst, gentle, brisk) =
        (queue(""), queue("pacing = true, pacing_gain = 1.0"), queue("pacing = true, pacing_gain = 8.0"));
    assert!(gentle < burst, "{gentle} {burst}");
    assert!(gentle < brisk, "{gentle} {brisk}");
    let start =
        |gain: &str| completion("", "200kB", &format!("pacing = true, pacing_gain_slow_start = {gain}"));
    assert!(start("4.0") < start("1.1"));
}

#[test]
fn the_window_grows_unused_only_without_validation() {
    let cwnd = |tcp: &str| {
        let flow = format!(
            "flow = [{{ app = \"cbr\", transport = \"tcp\", rate = \"200kbit/s\", from = \"a\", to = \"b\", cc = \"reno\", tcp = {{ nagle = false, {tcp} }} }}]"
        );
        let outcome = two_hosts("10s", "", &flow);
        outcome.flow_samples().last().unwrap().cwnd_bytes.unwrap()
    };
    let (valid, free) = (cwnd("idle_restart = false"), cwnd("idle_restart = false, cwnd_validation = false"));
    assert!(valid <= 12 * 1448, "{valid}");
    assert!(free > 2 * valid, "{free}");
}

#[test]
fn presets_and_options_of_hosts_take_effect() {
    let tahoe = bulk("", "preset = \"1988-tahoe\"");
    // No options: segments of 1460 bytes; delayed ACKs of 200 ms; windows of at most 65535 bytes.
    let flow = tahoe.flow("bulk.0");
    close(flow.sent_bytes as f64 / flow.sent_packets as f64, 1500.0, 1e-2);
    assert!(tahoe.flow_samples().iter().all(|sample| sample.in_flight_bytes.unwrap_or(0) <= 65_535));
    // A host's options hold if no inner level sets them.
    let text = r#"
        host = [{ name = "b", tcp = { delayed_ack = "0s" } }]
        flow = [{ from = "a", to = "b" }]
    "#;
    let outcome = two_hosts("10s", "", text);
    close(outcome.link("b>a").sent_packets as f64, outcome.link("a>b").sent_packets as f64, 0.01);
}
