//! Every application delivers its data over every transport that it allows.

use warpline_scenario::Scenario;

use crate::support::{Rows, close, simulate_scenario, two_hosts};

#[test]
fn a_constant_rate_over_udp_sends_every_packet_on_time() {
    let cbr = r#"flow = [{ app = "cbr", from = "a", to = "b", rate = "120kbit/s", stop = "9.95s" }]"#;
    let outcome = two_hosts("12s", "", cbr);
    let flow = outcome.flow("cbr.0");
    // A packet of 12000 bits every 100 ms, the first at 0, the last at 9.9 s.
    assert_eq!((flow.sent_packets, flow.sent_bytes), (100, 150_000));
    assert_eq!((flow.delivered_bytes, flow.lost_packets), (100 * 1472, 0));
    assert_eq!(flow.end_s, Some(9.95));
    close(flow.goodput_bps, 147_200.0 * 8.0 / 9.95, 1e-12);
    // 1.5 ms on the link and 10 ms of propagation.
    assert_eq!((flow.latency_mean_ms, flow.latency_max_ms), (Some(11.5), Some(11.5)));
    assert_eq!((flow.cc.as_deref(), flow.transport.as_str()), (None, "udp"));
    assert_eq!(flow.rtt_mean_ms, None);
}

#[test]
fn a_constant_rate_over_tcp_delivers_every_write() {
    let cbr = r#"flow = [{ app = "cbr", transport = "tcp", from = "a", to = "b", rate = "800kbit/s", packet_size = "1000B", stop = "4.995s" }]"#;
    let outcome = two_hosts("8s", "", cbr);
    let flow = outcome.flow("cbr.0");
    assert_eq!(flow.delivered_bytes, 500 * 1000);
    // The last write, at 4.99 s, still crosses the link; then comes the FIN.
    let end = flow.end_s.unwrap();
    assert!((5.0..5.06).contains(&end), "{end}");
}

#[test]
fn a_transfer_takes_the_time_computed_by_hand() {
    let transfer = r#"flow = [{ app = "transfer", from = "a", to = "b", size = "14480B", transfers = 3, pause = "500ms" }]"#;
    let outcome = two_hosts("10s", "", transfer);
    let flow = outcome.flow("transfer.0");
    // SYN and SYN/ACK of 60 bytes, then the ten full segments of the initial window, the first of which carries the ACK: one byte per
    // microsecond, and three times 10 ms of propagation.
    let expected = 0.030 + (60.0 + 60.0 + 10.0 * 1500.0) / 1e6;
    let transfers = outcome.transfers();
    assert_eq!(transfers.len(), 3);
    for (i, row) in transfers.iter().enumerate() {
        assert!(row.complete);
        assert_eq!((row.bytes, row.name.as_str()), (14_480, "transfer.0"));
        close(row.completion_s.unwrap(), expected, 1e-9);
        close(row.start_s, i as f64 * (expected + 0.5), 1e-9);
    }
    assert_eq!((flow.transfers, flow.transfers_completed, flow.delivered_bytes), (3, 3, 3 * 14_480));
    close(flow.completion_mean_s.unwrap(), expected, 1e-9);
    // The flow ends with the last transfer, even if TCP still waits, and is measured until then.
    let end = 3.0 * expected + 1.0;
    close(flow.end_s.unwrap(), end, 1e-9);
    close(flow.goodput_bps, 3.0 * 14_480.0 * 8.0 / end, 1e-9);
}

#[test]
fn transfers_without_a_number_repeat_until_the_end() {
    let transfer = r#"flow = [{ app = "transfer", from = "a", to = "b", size = "14480B", transfers = 0 }]"#;
    let outcome = two_hosts("10s", "", transfer);
    let flow = outcome.flow("transfer.0");
    // One takes 45.12 ms.
    assert_eq!((flow.transfers, flow.transfers_completed), (222, 221));
    assert_eq!(flow.end_s, None);
}

#[test]
fn a_bulk_flow_fills_the_link_and_stops_at_its_stop_time() {
    let bulk = r#"flow = [{ from = "a", to = "b", start = "1s", stop = "6s" }]"#;
    let outcome = two_hosts("20s", r#", queue = { limit = "100p" , kind = "droptail" }"#, bulk);
    let flow = outcome.flow("bulk.0");
    let end = flow.end_s.unwrap();
    // The packets queued at 6 s, at most 100 of 1.5 ms, are still delivered. The flow does not wait for TIME-WAIT.
    assert!((6.0..6.2).contains(&end), "{end}");
    assert_eq!(flow.start_s, 1.0);
    close(flow.goodput_bps, flow.delivered_bytes as f64 * 8.0 / (end - 1.0), 1e-12);
    close(flow.goodput_bps, 8e6 * 1448.0 / 1500.0, 0.02);
    assert!(flow.goodput_bps < 8e6 * 1448.0 / 1500.0);
}

#[test]
fn a_window_and_a_rate_limit_a_flow() {
    let limited = r#"
        tcp = { delayed_ack = "0s" }
        flow = [
            { name = "window", from = "a", to = "b", max_window = "4p" },
            { name = "rate", from = "c", to = "d", max_rate = "1Mbit/s" },
        ]
        [[link]]
        between = ["c", "d"]
        rate = "8Mbit/s"
        delay = "10ms"
    "#;
    let text = format!(
        "duration = \"20s\"\nwarmup = \"2s\"\n{}",
        limited.replace(
            "[[link]]",
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Gbit/s\"\ndelay = \"50ms\"\n[[link]]"
        )
    );
    let outcome = crate::support::simulate(&text);
    // Four segments per round trip of 100 ms and 12 us; all four leave together.
    close(outcome.flow("window.0").goodput_bps, 4.0 * 1448.0 * 8.0 / 0.100_050, 0.005);
    close(outcome.flow("rate.0").throughput_bps, 1e6, 0.005);
}

#[test]
fn poisson_messages_come_at_their_mean_rate_over_both_transports() {
    let messages = r#"
        [[flow]]
        name = "tcp"
        app = "poisson"
        from = "a"
        to = "b"
        message_rate = 50
        message_size = "400B"
        stop = "190s"
        tcp = { nagle = false }
        [[flow]]
        name = "udp"
        app = "poisson"
        transport = "udp"
        from = "a"
        to = "b"
        message_rate = 50
        message_size = "400B"
        stop = "190s"
    "#;
    let outcome = two_hosts("200s", "", messages);
    for name in ["tcp.0", "udp.0"] {
        let flow = outcome.flow(name);
        assert_eq!(flow.delivered_bytes % 400, 0);
        // 9500 expected, with a standard deviation of 97.
        let count = flow.delivered_bytes / 400;
        assert!((9500 - 400..9500 + 400).contains(&count), "{name}: {count}");
        let (mean, p95) = (flow.message_latency_mean_ms.unwrap(), flow.message_latency_p95_ms.unwrap());
        let max = flow.message_latency_max_ms.unwrap();
        // Alone, a message takes 10 ms plus 0.428 (UDP) or 0.452 (TCP) ms; sometimes it waits for another.
        assert!((10.42..11.0).contains(&mean), "{name}: {mean}");
        assert!(mean <= p95 * 1.01 && p95 <= max * 1.01, "{name}: {mean} {p95} {max}");
        // Percentiles of the packets' latency exist only if they are recorded.
        assert_eq!(flow.latency_p95_ms, None);
    }
    assert_eq!(outcome.flow("udp.0").sent_bytes, outcome.flow("udp.0").delivered_bytes / 400 * 428);
}

#[test]
fn bursts_keep_their_rate_and_their_share_of_time() {
    let onoff = |transport: &str| {
        format!(
            r#"
            [[flow]]
            name = "{transport}"
            app = "onoff"
            transport = "{transport}"
            from = "a"
            to = "b"
            rate = "120kbit/s"
            mean_on = "200ms"
            mean_off = "600ms"
            shape = 2.5
            stop = "2000s"
            "#
        )
    };
    let outcome = two_hosts("2010s", "", &(onoff("udp") + &onoff("tcp")));
    // On for a quarter of the time. A burst of 200 ms holds only two packets, so rounding shows.
    let udp = outcome.flow("udp.0").sent_bytes as f64;
    close(udp, 120e3 / 8.0 * 2000.0 / 4.0, 0.06);
    let tcp = outcome.flow("tcp.0").delivered_bytes as f64;
    close(tcp, 120e3 / 8.0 * 2000.0 / 4.0, 0.06);
    assert_ne!(udp, tcp, "each flow has its own random numbers");
}

#[test]
fn web_sessions_from_distributions_fetch_all_their_objects() {
    let web = r#"
        [[flow]]
        app = "web"
        from = "a"
        to = "b"
        stop = "290s"
        [flow.web]
        session_rate = 0.5
        pages = { kind = "constant", value = 2 }
        objects = { kind = "constant", value = 3 }
        object_size = { kind = "constant", value = "10kB" }
        think_time = { kind = "constant", value = "1s" }
        connections = 2
    "#;
    let outcome = two_hosts("300s", "", web);
    let (flow, transfers) = (outcome.flow("web.0"), outcome.transfers());
    assert_eq!(flow.transfers, transfers.len() as u64);
    assert_eq!(flow.transfers_completed, flow.transfers);
    assert!(transfers.iter().all(|row| row.complete && row.bytes == 10_000));
    assert_eq!(flow.delivered_bytes, flow.transfers * 10_000);
    // 145 sessions of six objects, with a standard deviation of 12 sessions.
    assert!((145 * 6 - 300..145 * 6 + 300).contains(&flow.transfers), "{}", flow.transfers);
    // The request (402 bytes) goes with the client's ACK: two round trips and seven segments.
    let alone = 0.040 + (60.0 + 60.0 + 402.0 + 6.0 * 1500.0 + 1364.0) / 1e6;
    let fastest = transfers.iter().filter_map(|row| row.completion_s).fold(f64::INFINITY, f64::min);
    close(fastest, alone, 0.01);
    // Each object has its own connection. The client opens it, and the server sends the data.
    assert!(outcome.link("b>a").sent_packets > 6 * flow.transfers);
}

#[test]
fn an_access_log_is_replayed_at_its_times() {
    let directory = tempfile::tempdir().unwrap();
    let log = "100.500 400 c TCP_MISS/200 5000 GET u\n103.000 1000 c TCP_HIT/200 700 GET u\n104.0 0 c X/304 0 GET u\n";
    std::fs::write(directory.path().join("access.log"), log).unwrap();
    let file = directory.path().join("web.toml");
    let text = r#"
        duration = "10s"
        link = [{ between = ["a", "b"], rate = "8Mbit/s", delay = "10ms" }]
        flow = [{ app = "web", from = "a", to = "b", start = "1s", web = { access_log = "access.log" } }]
    "#;
    std::fs::write(&file, text).unwrap();
    let outcome = simulate_scenario(&Scenario::load(&file, &[]).unwrap());
    let transfers = outcome.transfers();
    let starts: Vec<(f64, u64)> = transfers.iter().map(|row| (row.start_s, row.bytes)).collect();
    // 100.1 s and 102.0 s in the log, whose first request is at the flow's start.
    assert_eq!(starts, [(1.0, 5000), (2.9, 700)]);
    assert!(transfers.iter().all(|row| row.complete));
    let flow = outcome.flow("web.0");
    assert_eq!(flow.delivered_bytes, 5700);
    assert_eq!(flow.end_s, transfers[1].end_s);
}

#[test]
fn a_transfer_whose_connection_never_establishes_is_given_up_and_the_next_one_tried() {
    let text = r#"
        [[flow]]
        app = "transfer"
        from = "a"
        to = "b"
        size = "1kB"
        transfers = 3
        tcp = { syn_retries = 1, initial_rto = "1s" }
    "#;
    let outcome = two_hosts("30s", r#", down = [{ at = "0s", for = "4s" }]"#, text);
    let (flow, transfers) = (outcome.flow("transfer.0"), outcome.transfers());
    // SYNs at 0 and 1 s, given up at 3 s; again at 3 and 4 s, when the link is up again.
    assert_eq!((flow.transfers, flow.transfers_completed), (3, 2));
    assert_eq!((transfers[0].complete, transfers[0].end_s), (false, None));
    close(transfers[1].start_s, 3.0, 1e-9);
    close(transfers[1].completion_s.unwrap(), 1.0 + 0.030 + (60.0 + 60.0 + 1052.0) / 1e6, 1e-9);
    assert_eq!(flow.delivered_bytes, 2000);
    assert_eq!(flow.end_s, transfers[2].end_s);
}

#[test]
fn web_sessions_survive_connections_that_fail() {
    let web = r#"
        [[flow]]
        app = "web"
        from = "a"
        to = "b"
        tcp = { syn_retries = 1, initial_rto = "1s" }
        [flow.web]
        session_rate = 1.0
        pages = { kind = "constant", value = 3 }
        objects = { kind = "constant", value = 4 }
        object_size = { kind = "constant", value = "5kB" }
        think_time = { kind = "constant", value = "1s" }
        connections = 2
    "#;
    let outcome = two_hosts("60s", r#", down = [{ at = "0s", for = "20s" }]"#, web);
    let transfers = outcome.transfers();
    let failed = transfers.iter().filter(|row| !row.complete && row.start_s < 50.0).count();
    assert!(failed > 10, "{failed}");
    // Sessions that began in the outage continue after it: in the end all their pages are fetched.
    let late = transfers.iter().filter(|row| row.complete && row.start_s > 25.0).count();
    assert!(late > 200, "{late}");
}

#[test]
fn a_flow_that_starts_late_is_measured_from_its_start() {
    let text = r#"
        warmup = "2s"
        flow = [
            { name = "early", app = "transfer", from = "a", to = "b", size = "10kB" },
            { name = "late", app = "cbr", from = "a", to = "b", rate = "120kbit/s", start = "5s" },
            { name = "last", from = "b", to = "a", start = "9.999s" },
        ]
    "#;
    let outcome = crate::support::simulate(&format!(
        "duration = \"10s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"8Mbit/s\", delay = \"10ms\" }}]\n{text}"
    ));
    let early = outcome.flow("early.0");
    // It ended before the measured part began: its figures are zero, and it does not count as unfinished.
    assert_eq!((early.delivered_bytes, early.sent_packets, early.transfers), (0, 0, 0));
    assert_eq!((early.rtt_min_ms, early.rtt_mean_ms, early.rtt_max_ms), (None, None, None));
    assert_eq!((early.latency_mean_ms, early.latency_max_ms), (None, None));
    assert!(early.end_s.is_some_and(|end| end < 2.0));
    assert_eq!(outcome.transfers().len(), 1);
    let late = outcome.flow("late.0");
    close(late.throughput_bps, 120e3, 0.03);
    let last = outcome.flow("last.0");
    assert_eq!((last.delivered_bytes, last.goodput_bps, last.end_s), (0, 0.0, None));
}

#[test]
fn a_web_object_that_was_requested_before_the_stop_is_fetched() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("access.log"), "100.000 0 c TCP_MISS/200 5000 GET u\n").unwrap();
    for stop in [1, 5, 15, 25, 35, 45, 55] {
        let text = format!(
            r#"
            duration = "10s"
            link = [{{ between = ["a", "b"], rate = "8Mbit/s", delay = "10ms" }}]
            flow = [{{ app = "web", from = "a", to = "b", start = "1s", stop = "{}ms", web = {{ access_log = "access.log" }} }}]
            "#,
            1000 + stop
        );
        let file = directory.path().join("web.toml");
        std::fs::write(&file, text).unwrap();
        let outcome = simulate_scenario(&Scenario::load(&file, &[]).unwrap());
        assert_eq!(outcome.flow("web.0").transfers_completed, 1, "{stop}");
        assert_eq!(outcome.flow("web.0").delivered_bytes, 5000, "{stop}");
    }
}

#[test]
fn a_transfer_that_began_before_the_stop_is_finished() {
    let text = r#"
        [[flow]]
        app = "transfer"
        from = "a"
        to = "b"
        size = "2MB"
        transfers = 0
        stop = "1s"
    "#;
    let outcome = two_hosts("10s", "", text);
    let (flow, transfers) = (outcome.flow("transfer.0"), outcome.transfers());
    assert_eq!((flow.transfers, flow.transfers_completed), (1, 1));
    assert_eq!(flow.delivered_bytes, 2_000_000);
    assert_eq!(flow.end_s, transfers[0].end_s);
    assert!(flow.goodput_bps < 8e6 * 1448.0 / 1500.0);
}
