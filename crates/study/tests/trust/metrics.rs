//! Metrics checked by hand computation, on scenarios that are small enough.

use crate::support::{Rows, close, simulate, two_hosts};

#[test]
fn two_packets_at_once_wait_for_each_other() {
    let pair =
        r#"flow = [{ app = "cbr", from = "a", to = "b", count = 2, rate = "120kbit/s", stop = "9.95s" }]"#;
    let outcome = two_hosts("10s", "", pair);
    let link = outcome.link("a>b");
    // Every 100 ms two packets of 1.5 ms: one waits 0 ms, the other 1.5 ms.
    assert_eq!((link.arrivals, link.sent_packets, link.sent_bytes), (200, 200, 300_000));
    close(link.queue_delay_mean_ms, 0.75, 1e-9);
    close(link.queue_delay_max_ms, 1.5, 1e-9);
    close(link.throughput_bps, 240e3, 1e-9);
    close(link.utilisation.unwrap(), 0.03, 1e-9);
    assert_eq!((link.rate_bps, link.delay_s), (Some(8e6), 0.010));
    assert_eq!((link.from.as_str(), link.to.as_str()), ("a", "b"));
    assert_eq!(outcome.flow("cbr.0").latency_mean_ms, Some(11.5));
    assert_eq!(outcome.flow("cbr.1").latency_mean_ms, Some(13.0));
    assert_eq!(outcome.summary.totals.jain, Some(1.0));
    assert_eq!(outcome.packet_hops, 200);
}

#[test]
fn a_full_queue_drops_what_does_not_fit() {
    let many =
        r#"flow = [{ app = "cbr", from = "a", to = "b", count = 5, rate = "120kbit/s", stop = "9.95s" }]"#;
    for record in ["", r#", record = ["packets"]"#] {
        let outcome =
            two_hosts("10s", &format!(r#", queue = {{ kind = "droptail", limit = "2p" }} {record}"#), many);
        let link = outcome.link("a>b");
        // One is sent, two wait, two are dropped; 100 times.
        assert_eq!((link.arrivals, link.sent_packets, link.drops_overflow), (500, 300, 200));
        assert_eq!(link.drops(), 200);
        assert_eq!(outcome.summary.totals.drops, 200);
        // A flow of which no packet arrives has no gap for its last packet, since the receiver cannot know of it.
        assert_eq!(outcome.flow("cbr.4").delivered_bytes, 0);
        assert_eq!(outcome.flow("cbr.0").delivered_bytes, 147_200);
        close(outcome.summary.totals.jain.unwrap(), 0.6, 1e-12);
    }
}

#[test]
fn jains_index_and_totals_are_those_of_the_goodputs() {
    let unequal = r#"
        [[flow]]
        name = "three"
        app = "cbr"
        from = "a"
        to = "b"
        rate = "360kbit/s"
        stop = "9.995s"
        [[flow]]
        name = "one"
        app = "cbr"
        from = "a"
        to = "b"
        rate = "120kbit/s"
        stop = "9.995s"
    "#;
    let outcome = two_hosts("10s", "", unequal);
    // (3 + 1)^2 / (2 (9 + 1)).
    close(outcome.summary.totals.jain.unwrap(), 0.8, 1e-3);
    let (three, one) = (outcome.flow("three.0"), outcome.flow("one.0"));
    close(three.goodput_bps, 3.0 * one.goodput_bps, 1e-3);
    // Totals and groups cover the measured ten seconds; a flow's own figures cover its lifetime.
    let over_run = |bytes: u64| bytes as f64 * 8.0 / 10.0;
    let totals = &outcome.summary.totals;
    close(totals.goodput_bps, over_run(three.delivered_bytes + one.delivered_bytes), 1e-12);
    close(totals.throughput_bps, over_run(three.sent_bytes + one.sent_bytes), 1e-12);
    assert_eq!(outcome.summary.groups.len(), 2);
    close(outcome.summary.groups[0].goodput_bps, over_run(three.delivered_bytes), 1e-12);
    assert!(three.goodput_bps > outcome.summary.groups[0].goodput_bps);
}

#[test]
fn the_warm_up_is_left_out() {
    let text = r#"
        warmup = "5s"
        link = [{ between = ["a", "b"], rate = "8Mbit/s", delay = "10ms" }]
        [[flow]]
        name = "steady"
        app = "cbr"
        from = "a"
        to = "b"
        rate = "120kbit/s"
        stop = "9.95s"
        [[flow]]
        name = "crowd"
        app = "cbr"
        count = 50
        from = "a"
        to = "b"
        rate = "120kbit/s"
        stop = "4s"
    "#;
    let outcome = simulate(&format!("duration = \"10s\"\n{text}"));
    let flow = outcome.flow("steady.0");
    // The packet of 5.0 s was sent before the end of the warm-up, and delivered after it.
    assert_eq!((flow.sent_packets, flow.delivered_bytes), (49, 50 * 1472));
    close(flow.goodput_bps, 50.0 * 1472.0 * 8.0 / 4.95, 1e-9);
    assert_eq!(flow.latency_max_ms, Some(11.5));
    let link = outcome.link("a>b");
    // A packet counts when its last bit is sent.
    assert_eq!((link.sent_packets, link.arrivals), (50, 49));
    assert_eq!(link.queue_delay_max_ms, 0.0);
    close(link.throughput_bps, 50.0 * 12_000.0 / 5.0, 1e-9);
    let crowd = outcome.flow("crowd.49");
    assert_eq!((crowd.sent_packets, crowd.delivered_bytes, crowd.goodput_bps), (0, 0, 0.0));
    assert_eq!((crowd.latency_mean_ms, crowd.latency_max_ms), (None, None));
    assert_eq!(outcome.summary.info.warmup_s, 5.0);
}

#[test]
fn the_warm_up_does_not_change_what_is_sent() {
    let run = |warmup: &str, interval: &str| {
        let text = format!(
            "duration = \"7s\"\nwarmup = \"{warmup}\"\nsample_interval = \"{interval}\"\n{}",
            r#"
            link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms", loss = { kind = "bernoulli", probability = 0.01 } }]
            flow = [{ from = "a", to = "b", count = 2 }]
            "#
        );
        simulate(&text)
    };
    let (whole, second) = (run("0s", "100ms"), run("3s", "100ms"));
    assert_eq!(whole.packet_hops, second.packet_hops);
    // The whole is the sum of its parts.
    let first: f64 = whole
        .flow_samples()
        .iter()
        .filter(|sample| sample.flow == 0 && sample.time_s < 3.05)
        .map(|sample| sample.goodput_bps * 0.1 / 8.0)
        .sum();
    close(
        first + second.flow("bulk.0").delivered_bytes as f64,
        whole.flow("bulk.0").delivered_bytes as f64,
        1e-9,
    );
}

#[test]
fn samples_come_at_every_interval_and_add_up() {
    let text = |interval: &str| {
        format!(
            "duration = \"2s\"\nwarmup = \"500ms\"\nsample_interval = \"{interval}\"\n{}",
            r#"
            link = [{ between = ["a", "b"], rate = "8Mbit/s", delay = "10ms" }]
            flow = [{ app = "cbr", from = "a", to = "b", rate = "1200kbit/s", stop = "1.985s" }]
            "#
        )
    };
    let divides = simulate(&text("100ms"));
    let times: Vec<f64> = divides.flow_samples().iter().map(|sample| sample.time_s).collect();
    assert_eq!(times.len(), 20);
    assert_eq!((times[0], times[19]), (0.1, 2.0));
    let bits: f64 = divides.flow_samples().iter().map(|sample| sample.goodput_bps * 0.1).sum();
    // The warm-up is in the series, as are all 199 packets.
    close(bits, 199.0 * 1472.0 * 8.0, 1e-9);
    let bits: f64 =
        divides.link_samples().iter().filter(|s| s.link == 0).map(|sample| sample.throughput_bps * 0.1).sum();
    close(bits, 199.0 * 12_000.0, 1e-9);
    // If the interval does not divide the duration, the rest gives no sample.
    let odd = simulate(&text("300ms"));
    let times: Vec<f64> = odd.flow_samples().iter().map(|sample| sample.time_s).collect();
    assert_eq!(times, [0.3, 0.6, 0.9, 1.2, 1.5, 1.8]);
    // An interval longer than the run.
    assert!(simulate(&text("3s")).flow_samples().is_empty());
}

#[test]
fn latency_is_from_the_first_transmission_to_the_acknowledgement() {
    let text = r#"
        [[flow]]
        from = "a"
        to = "b"
        max_window = "1p"
        tcp = { delayed_ack = "0s" }
        record = ["latency"]
    "#;
    let outcome = two_hosts("10s", "", text);
    let flow = outcome.flow("bulk.0");
    // 1500 bytes out and 52 back at one byte per microsecond, and 20 ms of propagation.
    close(flow.latency_mean_ms.unwrap(), 21.552, 1e-3);
    close(flow.latency_max_ms.unwrap(), 21.552, 1e-9);
    for percentile in [flow.latency_p50_ms, flow.latency_p95_ms, flow.latency_p99_ms] {
        close(percentile.unwrap(), 21.552, 0.01);
    }
    close(flow.rtt_max_ms.unwrap(), 21.552, 1e-3);
    close(flow.goodput_bps, 1448.0 * 8.0 / 0.021_552, 0.01);
}

#[test]
fn a_lost_packets_latency_counts_from_its_first_transmission() {
    let text = r#"
        [[flow]]
        from = "a"
        to = "b"
        max_window = "1p"
        tcp = { delayed_ack = "0s", tlp = false, rto_variance = "rfc6298", min_rto = "300ms" }
    "#;
    // The tenth packet on the link is data; its retransmission is the eleventh.
    let loss = r#", loss = { kind = "list", packets = [10] }, reverse = { loss = { kind = "none" } }"#;
    let outcome = two_hosts("10s", loss, text);
    let flow = outcome.flow("bulk.0");
    assert_eq!((flow.retransmitted_packets, flow.rtos, flow.lost_packets), (1, 1, 1));
    assert_eq!(outcome.link("a>b").drops_loss, 1);
    close(flow.latency_max_ms.unwrap(), 300.0 + 21.552, 1e-2);
    // With timestamps, the acknowledgement of the retransmission is recognised, to the millisecond.
    assert!(flow.rtt_max_ms.unwrap() <= 22.0, "{:?}", flow.rtt_max_ms);
}

#[test]
fn percentiles_of_short_connections_and_of_datagrams_are_kept() {
    let text = r#"
        [[flow]]
        name = "short"
        app = "transfer"
        from = "a"
        to = "b"
        size = "1kB"
        transfers = 0
        tcp = { delayed_ack = "0s" }
        record = ["latency"]
        [[flow]]
        name = "datagrams"
        app = "cbr"
        from = "a"
        to = "b"
        rate = "12kbit/s"
        record = ["latency"]
    "#;
    let outcome = two_hosts("20s", "", text);
    let short = outcome.flow("short.0");
    assert!(short.transfers_completed > 100);
    // The median of SYN, data and FIN: between 20 and 22 ms.
    assert!(
        short.latency_p50_ms.is_some_and(|p50| (20.0..22.0).contains(&p50)),
        "{:?}",
        short.latency_p50_ms
    );
    assert!(outcome.flow("datagrams.0").latency_p50_ms.is_some_and(|p50| (11.4..12.1).contains(&p50)));
}

#[test]
fn percentiles_leave_the_warm_up_out() {
    let text = |warmup: &str| {
        format!(
            "duration = \"10s\"\nwarmup = \"{warmup}\"\n{}",
            r#"
            link = [{ between = ["a", "b"], rate = "8Mbit/s", delay = "10ms" }]
            [[flow]]
            name = "probe"
            app = "poisson"
            from = "a"
            to = "b"
            message_rate = 20
            tcp = { delayed_ack = "0s" }
            record = ["latency"]
            [[flow]]
            name = "load"
            app = "cbr"
            from = "a"
            to = "b"
            rate = "8.8Mbit/s"
            stop = "4s"
            "#
        )
    };
    let (with, without) = (simulate(&text("0s")), simulate(&text("6s")));
    assert!(with.flow("probe.0").latency_p95_ms.unwrap() > 100.0);
    for high in [without.flow("probe.0").latency_p99_ms, without.flow("probe.0").message_latency_p95_ms] {
        assert!(high.unwrap() < 50.0, "{high:?}");
    }
}

#[test]
fn copies_of_a_datagram_count_once_and_hide_no_loss() {
    let outcome = simulate(
        "duration = \"10s\"\n\
         [[link]]\nbetween = [\"a\", \"r\"]\nrate = \"100Mbit/s\"\nduplicate = \"50%\"\n\
         [[link]]\nbetween = [\"r\", \"b\"]\nrate = \"100Mbit/s\"\nloss = \"20%\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"cbr\"\nrate = \"10Mbit/s\"\nrecord = [\"latency\"]\n",
    );
    let flow = outcome.flow("cbr.0");
    // A datagram is lost in all its copies with a probability of (0.2 + 0.04) / 2.
    let lost = flow.lost_packets as f64 / flow.sent_packets as f64;
    assert!((lost - 0.12).abs() < 0.02, "{flow:?}");
    let payload = flow.sent_bytes / flow.sent_packets - 28;
    // Of the last ones, the receiver does not know.
    let unheard = (flow.sent_packets - flow.lost_packets) - flow.delivered_bytes / payload;
    assert!(flow.delivered_bytes.is_multiple_of(payload) && unheard < 10, "{flow:?}");
    assert!(flow.latency_p99_ms <= flow.latency_max_ms, "{flow:?}");
}

#[test]
fn a_flow_whose_sender_gives_up_has_ended_then() {
    let outcome = simulate(
        "duration = \"60s\"\n\
         [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\ndown = [{ at = \"2s\", for = \"100s\" }]\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ntcp = { data_retries = 4 }\n",
    );
    let flow = outcome.flow("bulk.0");
    assert_eq!(flow.outcome.as_deref(), Some("timed out"));
    let end_s = flow.end_s.unwrap();
    assert!((5.0..40.0).contains(&end_s), "{end_s}");
    let goodput = flow.delivered_bytes as f64 * 8.0 / end_s;
    assert!((flow.goodput_bps / goodput - 1.0).abs() < 1e-6, "{flow:?}");
}
