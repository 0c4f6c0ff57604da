//! Links behave as the scenario describes them.

use warpline_lab::run::RunOutcome;
use warpline_scenario::Scenario;

use crate::support::{Rows, close, simulate, simulate_scenario, two_hosts};

/// A probe of 100 packets of 100 bytes a second for 20 s over a link of 8 Mbit/s and 10 ms: 10.1 ms each.
fn probe(link: &str) -> RunOutcome {
    two_hosts(
        "21s",
        link,
        r#"flow = [{ app = "cbr", from = "a", to = "b", packet_size = "100B", rate = "80kbit/s", stop = "19.995s" }]"#,
    )
}

/// Datagrams at 20 Mbit/s over a link, with a queue of 10 packets, for ten seconds.
const FLOOD: &str = r#"flow = [{ app = "cbr", from = "a", to = "b", rate = "20Mbit/s" }]"#;

fn flooded(link: &str) -> RunOutcome {
    simulate(&format!(
        "duration = \"10s\"\nlink = [{{ between = [\"a\", \"b\"], queue = {{ kind = \"droptail\", limit = \"10p\" }}, {link} }}]\n{FLOOD}"
    ))
}

#[test]
fn a_rate_schedule_is_kept() {
    let outcome = flooded(
        r#"rate = "1Mbit/s", schedule = [{ at = "4s", rate = "3Mbit/s" }, { at = "8s", rate = "500kbit/s" }]"#,
    );
    let link = outcome.link("a>b");
    let bits = 4.0 * 1e6 + 4.0 * 3e6 + 2.0 * 0.5e6;
    // At each change and at the end, a packet is in transmission.
    assert!((link.sent_bytes as f64 * 8.0 - bits).abs() < 4.0 * 12_000.0, "{}", link.sent_bytes);
    close(link.rate_bps.unwrap(), bits / 10.0, 1e-9);
    close(link.utilisation.unwrap(), 1.0, 0.003);
    let at = |time: f64| {
        outcome
            .link_samples()
            .iter()
            .find(|s| s.link == 0 && (s.time_s - time).abs() < 0.01)
            .unwrap()
            .throughput_bps
    };
    close(at(3.0), 1e6, 0.13);
    close(at(6.0), 3e6, 0.05);
}

#[test]
fn a_schedule_repeats_and_may_have_rate_zero() {
    let outcome = flooded(
        r#"schedule = [{ at = "0s", rate = "2Mbit/s" }, { at = "1s", rate = "0bit/s" }], repeat = "2s""#,
    );
    let link = outcome.link("a>b");
    close(link.sent_bytes as f64 * 8.0, 5.0 * 2e6, 0.01);
    // A packet that arrived while the rate was zero waited for up to a second.
    assert!(link.queue_delay_max_ms > 900.0, "{}", link.queue_delay_max_ms);
}

#[test]
fn a_trace_sends_at_its_opportunities() {
    let directory = tempfile::tempdir().unwrap();
    // Three opportunities in 20 ms.
    std::fs::write(directory.path().join("air.down"), "5\n10\n20\n").unwrap();
    let file = directory.path().join("trace.toml");
    let text = format!(
        "duration = \"10s\"\nlink = [{{ between = [\"a\", \"b\"], trace = \"air.down\", queue = {{ kind = \"droptail\", limit = \"10p\" }}, reverse = {{ rate = \"1Mbit/s\" }} }}]\n{FLOOD}"
    );
    std::fs::write(&file, text).unwrap();
    let outcome = simulate_scenario(&Scenario::load(&file, &[]).unwrap());
    let link = outcome.link("a>b");
    assert_eq!(link.sent_packets, 1500);
    close(link.rate_bps.unwrap(), 1.8e6, 1e-9);
    close(link.utilisation.unwrap(), 1.0, 1e-9);
}

#[test]
fn utilisation_of_a_trace_is_the_share_of_its_opportunities() {
    let directory = tempfile::tempdir().unwrap();
    // Three per millisecond in the first second of ten, then one in ten milliseconds: the mean of the whole trace fits neither part.
    let trace: String = (1..=10_000)
        .map(|ms: u32| {
            format!("{ms}\n").repeat(if ms <= 1000 { 3 } else { usize::from(ms.is_multiple_of(10)) })
        })
        .collect();
    std::fs::write(directory.path().join("falls.down"), trace).unwrap();
    let file = directory.path().join("trace.toml");
    let text = format!(
        "duration = \"2s\"\nlink = [{{ between = [\"a\", \"b\"], trace = \"falls.down\", queue = {{ kind = \"droptail\", limit = \"10p\" }}, reverse = {{ rate = \"1Mbit/s\" }} }}]\n{FLOOD}"
    );
    std::fs::write(&file, text).unwrap();
    let outcome = simulate_scenario(&Scenario::load(&file, &[]).unwrap());
    let samples: Vec<_> = outcome.link_samples().into_iter().filter(|sample| sample.link == 0).collect();
    let capacity = |from: f64, to: f64| -> Vec<f64> {
        let within = samples.iter().filter(|sample| sample.time_s > from + 1e-9 && sample.time_s < to + 1e-9);
        within.map(|sample| sample.capacity_bps.unwrap()).collect()
    };
    capacity(0.0, 1.0).into_iter().for_each(|bps| close(bps, 36e6, 1e-9));
    capacity(1.0, 2.0).into_iter().for_each(|bps| close(bps, 1.2e6, 1e-9));
    for sample in &samples {
        // A packet that used opportunities of two intervals counts in the second.
        assert!(sample.throughput_bps <= sample.capacity_bps.unwrap() + 130e3, "{sample:?}");
    }
    let link = outcome.link("a>b");
    close(link.rate_bps.unwrap(), (36e6 + 1.2e6) / 2.0, 1e-9);
    assert!(link.utilisation.unwrap() < 1.0);
}

#[test]
fn an_outage_drops_what_arrives_until_it_ends() {
    let outcome = probe(r#", down = [{ at = "4.995s", for = "2s" }, { at = "10.995s", for = "1s" }]"#);
    let (link, flow) = (outcome.link("a>b"), outcome.flow("cbr.0"));
    assert_eq!((link.drops_down, link.arrivals), (300, 2000));
    assert_eq!((flow.lost_packets, flow.delivered_bytes), (300, 1700 * 72));
}

#[test]
fn every_loss_model_has_its_loss_rate() {
    let lost = |loss: &str| {
        let outcome = probe(&format!(", loss = {{ {loss} }}"));
        let (link, flow) = (outcome.link("a>b"), outcome.flow("cbr.0"));
        assert_eq!((link.sent_packets, link.arrivals), (2000, 2000), "lost on the wire, after transmission");
        assert_eq!(flow.delivered_bytes, (2000 - link.drops_loss) * 72);
        link.drops_loss
    };
    assert_eq!(lost(r#"kind = "none""#), 0);
    assert_eq!(lost(r#"kind = "every", n = 10"#), 200);
    assert_eq!(lost(r#"kind = "list", packets = [1, 5, 7, 2000, 2001]"#), 4);
    // 200 expected, standard deviation 13.
    let bernoulli = lost(r#"kind = "bernoulli", probability = 0.1"#);
    assert!((140..260).contains(&bernoulli), "{bernoulli}");
    // In the bad state a fifth of the time, where everything is lost: 400 expected; bursts of four increase the deviation.
    let bursts = lost(r#"kind = "gilbert-elliott", good_to_bad = 0.0625, bad_to_good = 0.25"#);
    assert!((270..530).contains(&bursts), "{bursts}");
}

#[test]
fn jitter_has_its_distribution_and_reorders_only_if_set() {
    let uniform = probe(r#", jitter = { kind = "uniform", min = "2ms", max = "30ms", reorder = true }"#);
    let flow = uniform.flow("cbr.0");
    close(flow.latency_mean_ms.unwrap(), 10.1 + 16.0, 0.02);
    assert!(flow.latency_max_ms.unwrap() < 40.1);
    assert_eq!(flow.lost_packets, 0);
    // Without reordering a packet waits for those before it, so it is later, never earlier.
    let ordered = probe(r#", jitter = { kind = "uniform", min = "2ms", max = "30ms" }"#);
    assert!(ordered.flow("cbr.0").latency_mean_ms > flow.latency_mean_ms);
    for kind in
        [r#"kind = "exponential", mean = "16ms""#, r#"kind = "normal", mean = "16ms", stddev = "3ms""#]
    {
        let outcome = probe(&format!(", jitter = {{ {kind}, reorder = true }}"));
        close(outcome.flow("cbr.0").latency_mean_ms.unwrap(), 10.1 + 16.0, 0.05);
    }
}

#[test]
fn a_modern_tcp_tolerates_reordering_and_an_old_one_does_not() {
    let run = |tcp: &str| {
        two_hosts(
            "20s",
            r#", jitter = { kind = "uniform", max = "8ms", reorder = true }"#,
            &format!("flow = [{{ from = \"a\", to = \"b\", cc = \"reno\", tcp = {{ {tcp} }} }}]"),
        )
    };
    let (modern, old) = (run(""), run(r#"preset = "1990-reno""#));
    assert!(modern.flow("bulk.0").goodput_bps > 1.2 * old.flow("bulk.0").goodput_bps);
    // Linux's Reno has 9 on this path, and the modern one 12.
    assert!(old.flow("bulk.0").recoveries > 3 * modern.flow("bulk.0").recoveries);
}

/// A probe of class 0 beside a flood of class 1.
fn beside_a_flood(queue: &str, probe_class: u8) -> RunOutcome {
    two_hosts(
        "10s",
        &format!(", queue = {{ {queue} }}"),
        &format!(
            r#"
            [[flow]]
            name = "probe"
            app = "cbr"
            from = "a"
            to = "b"
            packet_size = "100B"
            rate = "80kbit/s"
            class = {probe_class}
            [[flow]]
            name = "flood"
            app = "cbr"
            from = "a"
            to = "b"
            rate = "9.7Mbit/s"
            class = 1
            "#
        ),
    )
}

#[test]
fn the_first_class_is_not_delayed_by_the_second() {
    let outcome = beside_a_flood(r#"kind = "priority", limit = "50p""#, 0);
    let (probe, flood) = (outcome.flow("probe.0"), outcome.flow("flood.0"));
    // It waits for the packet in transmission at most.
    assert_eq!(probe.lost_packets, 0);
    assert!(probe.latency_max_ms.unwrap() <= 10.1 + 1.5, "{:?}", probe.latency_max_ms);
    assert!(flood.lost_packets > 1000);
    // In the same class as the flood, or without classes, it has to queue.
    for same in [
        beside_a_flood(r#"kind = "priority", limit = "50p""#, 1),
        beside_a_flood(r#"kind = "droptail", limit = "50p""#, 0),
    ] {
        assert!(same.flow("probe.0").latency_mean_ms.unwrap() > 50.0);
    }
}

#[test]
fn a_queue_per_flow_protects_the_sparse_one() {
    let outcome = beside_a_flood(r#"kind = "fq_codel", limit = "50p""#, 0);
    let probe = outcome.flow("probe.0");
    assert_eq!(probe.lost_packets, 0);
    assert!(probe.latency_max_ms.unwrap() <= 10.1 + 3.0, "{:?}", probe.latency_max_ms);
}

/// Four bulk flows for 20 s through a queue.
fn bulk(queue: &str, tcp: &str) -> RunOutcome {
    simulate(&format!(
        r#"
        duration = "20s"
        warmup = "5s"
        tcp = {{ {tcp} }}
        link = [{{ between = ["a", "b"], rate = "20Mbit/s", delay = "20ms", queue = {{ {queue} }} }}]
        flow = [{{ from = "a", to = "b", count = 4, start = "0s..1s", cc = "reno" }}]
        "#
    ))
}

#[test]
fn active_queue_management_keeps_the_queue_short() {
    let drop_tail = bulk(r#"kind = "droptail", limit = "300p""#, "");
    let codel = bulk(r#"kind = "codel", limit = "300p""#, "");
    let red = bulk(r#"kind = "red", limit = "300p", min_threshold = "10p", max_threshold = "60p""#, "");
    let fq = bulk(r#"kind = "fq_codel", limit = "300p""#, "");
    let delay = |outcome: &RunOutcome| outcome.link("a>b").queue_delay_mean_ms;
    assert!(delay(&drop_tail) > 80.0, "{}", delay(&drop_tail));
    // CoDel's target is 5 ms.
    assert!((2.0..12.0).contains(&delay(&codel)), "{}", delay(&codel));
    assert!(delay(&fq) < 20.0, "{}", delay(&fq));
    // Between the thresholds: 6 to 36 ms.
    assert!((4.0..36.0).contains(&delay(&red)), "{}", delay(&red));
    for outcome in [&codel, &red] {
        let link = outcome.link("a>b");
        assert!(link.drops_aqm > 0);
        assert!(link.utilisation.unwrap() > 0.85, "{:?}", link.utilisation);
    }
    assert_eq!(drop_tail.link("a>b").drops_aqm, 0);
    assert!(drop_tail.link("a>b").drops_overflow > 0);
}

#[test]
fn with_ecn_at_both_ends_routers_mark_instead_of_dropping() {
    for queue in [
        r#"kind = "codel""#,
        r#"kind = "fq_codel""#,
        r#"kind = "red", limit = "300p", max_threshold = "150p""#,
    ] {
        let marked = bulk(&format!("{queue}, ecn = true"), "ecn = true");
        let link = marked.link("a>b");
        assert!(link.marks > 0, "{queue}");
        assert_eq!(link.drops(), 0, "{queue}");
        let flows = &marked.summary.flows;
        assert!(flows.iter().all(|flow| flow.retransmitted_packets == 0), "{queue}");
        let seen: u64 = flows.iter().map(|flow| flow.ce_marks).sum();
        assert!(seen.abs_diff(link.marks) <= 5, "{queue}: {seen} of {}", link.marks);
        // If the hosts do not use ECN, a router has to drop.
        let dropped = bulk(&format!("{queue}, ecn = true"), "");
        assert_eq!(dropped.link("a>b").marks, 0, "{queue}");
        assert!(dropped.link("a>b").drops_aqm > 0, "{queue}");
    }
}

#[test]
fn framing_takes_its_share_of_the_link() {
    let outcome = simulate(&format!(
        "duration = \"10s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"8Mbit/s\", framing = \"100B\", queue = {{ kind = \"droptail\", limit = \"10p\" }} }}]\n{FLOOD}"
    ));
    let link = outcome.link("a>b");
    close(link.sent_packets as f64, 1e7 / 1600.0, 1e-3);
    close(link.utilisation.unwrap(), 1.0, 1e-3);
}
