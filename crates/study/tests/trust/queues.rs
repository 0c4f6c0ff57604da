//! Queues that look at more of a packet than its size: hosts, code points, acknowledgements, classes; and buffers that links share.

use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_scenario::Scenario;

use crate::support::{Rows, close, parse, simulate};

/// Two hosts, with one flow and with eight, send over a router to a third at 20 Mbit/s.
fn two_senders(queue: &str) -> RunOutcome {
    simulate(&format!(
        r#"
        duration = "20s"
        warmup = "5s"
        link = [
            {{ between = ["one", "r"], rate = "1Gbit/s", delay = "5ms" }},
            {{ between = ["two", "r"], rate = "1Gbit/s", delay = "5ms" }},
            {{ between = ["r", "sink"], rate = "100Mbit/s", delay = "5ms", queue = {{ kind = "cake", bandwidth = "20Mbit/s", {queue} }} }},
        ]
        flow = [
            {{ name = "one", from = "one", to = "sink" }},
            {{ name = "two", from = "two", to = "sink", count = 8 }},
        ]
        "#
    ))
}

#[test]
fn cake_shares_among_hosts_or_among_flows() {
    let alone = |queue: &str| {
        let outcome = two_senders(queue);
        let sum: f64 = outcome.summary.flows.iter().map(|flow| flow.goodput_bps).sum();
        // 1448 of 1500 bytes, at the rate of the shaper.
        close(sum, 20e6 * 1448.0 / 1500.0, 0.03);
        outcome.flow("one.0").goodput_bps / sum
    };
    // One flow by itself leaves a little of its share after each signal.
    close(alone(r#"flowmode = "dual-srchost""#), 0.5, 0.08);
    close(alone(r#"flowmode = "flows""#), 1.0 / 9.0, 0.1);
}

#[test]
fn a_code_point_selects_a_tin_and_a_class() {
    let delay = |queue: &str, dscp: &str| {
        let outcome = simulate(&format!(
            r#"
            duration = "10s"
            link = [{{ between = ["a", "b"], rate = "100Mbit/s", delay = "10ms", queue = {{ {queue} }} }}]
            flow = [
                {{ name = "voice", from = "a", to = "b", app = "cbr", rate = "160kbit/s", packet_size = "200B", dscp = "{dscp}" }},
                {{ name = "flood", from = "a", to = "b", app = "cbr", rate = "12Mbit/s" }},
            ]
            "#
        ));
        outcome.flow("voice.0").latency_mean_ms.unwrap() - 10.0
    };
    let cake = r#"kind = "cake", bandwidth = "10Mbit/s", flowmode = "flowblind""#;
    assert!(delay(cake, "EF") < 1.5 && delay(cake, "CS0") > 5.0);
    let htb = r#"kind = "htb", classes = ["all rate 10Mbit/s", "ef parent all rate 1Mbit/s dscp EF", "rest parent all rate 9Mbit/s ceil 10Mbit/s prio 1 default leaf droptail:limit=50p"]"#;
    assert!(delay(htb, "46") < 1.5 && delay(htb, "DF") > 20.0);
}

#[test]
fn filtered_acknowledgements_make_room_on_a_slow_way_back() {
    let goodput = |filter: &str| {
        let outcome = simulate(&format!(
            r#"
            duration = "15s"
            warmup = "5s"
            link = [{{ between = ["a", "b"], rate = "50Mbit/s", delay = "10ms", queue = "1BDP", reverse = {{ rate = "300kbit/s", queue = {{ kind = "cake", ack_filter = "{filter}" }} }} }}]
            flow = [{{ name = "bulk", from = "a", to = "b" }}]
            "#
        ));
        outcome.flow("bulk.0").goodput_bps
    };
    let (off, on) = (goodput("off"), goodput("on"));
    assert!(on > 1.5 * off, "{on} and {off}");
}

/// Eight hosts send to one over a switch with room for 30 packets.
fn incast(pfc: &str) -> RunOutcome {
    let links: String = (0..8)
        .map(|host| {
            format!(
                "{{ from = \"h{host}\", to = \"r\", rate = \"10Gbit/s\", delay = \"1us\", queue = \"unlimited\"{pfc} }}, \
                 {{ from = \"r\", to = \"h{host}\", rate = \"10Gbit/s\", delay = \"1us\" }}, "
            )
        })
        .collect();
    let flows: String = (0..8)
        .map(|host| {
            format!("{{ app = \"transfer\", from = \"h{host}\", to = \"sink\", size = \"500kB\" }}, ")
        })
        .collect();
    simulate(&format!(
        r#"
        duration = "100ms"
        link = [{links} {{ between = ["r", "sink"], rate = "10Gbit/s", delay = "1us", queue = {{ kind = "shared", buffer = "150kB", alpha = 8.0 }} }}]
        flow = [{flows}]
        "#
    ))
}

#[test]
fn a_lossless_switch_pauses_its_hosts() {
    let (lossy, lossless) = (incast(""), incast(r#", pfc = { xoff = "9kB", headroom = "9kB" }"#));
    assert!(lossy.link("r>sink").drops() > 50, "{:?}", lossy.link("r>sink"));
    assert_eq!(lossless.summary.links.iter().map(|link| link.drops()).sum::<u64>(), 0);
    for host in 0..8 {
        let link = lossless.link(&format!("h{host}>r"));
        assert!(link.pauses > 5 && link.paused_s > 0.0, "{link:?}");
    }
    assert_eq!(lossy.link("h0>r").pauses, 0);
    let last = |outcome: &RunOutcome| {
        outcome.transfers().iter().filter_map(|row| row.completion_s).fold(0.0, f64::max)
    };
    // 4 MB take 3.3 ms with their headers.
    assert!((0.0032..0.0040).contains(&last(&lossless)), "{}", last(&lossless));
}

#[test]
fn a_circle_of_pauses_and_two_sizes_of_one_buffer_are_refused() {
    let ring = parse(
        r#"
        duration = "1s"
        link = [
            { from = "a", to = "b", rate = "1Gbit/s", delay = "1us", pfc = { xoff = "10kB" } },
            { from = "b", to = "c", rate = "1Gbit/s", delay = "1us", pfc = { xoff = "10kB" } },
            { from = "c", to = "a", rate = "1Gbit/s", delay = "1us", pfc = { xoff = "10kB" } },
        ]
        flow = [{ from = "a", to = "c", app = "cbr", rate = "1Mbit/s" }, { from = "b", to = "a", app = "cbr", rate = "1Mbit/s" },
            { from = "c", to = "b", app = "cbr", rate = "1Mbit/s" }]
        "#,
    );
    let error = run(&ring, &RunOptions::default(), &mut |_| Control::Continue).unwrap_err().to_string();
    assert!(error.contains("each can wait for the next: a>b, b>c, c>a"), "{error}");
    let text = r#"
        duration = "1s"
        link = [
            { between = ["a", "b"], rate = "1Gbit/s", queue = "shared" },
            { between = ["a", "c"], rate = "1Gbit/s", queue = "shared,buffer=1MB" },
        ]
        flow = [{ from = "a", to = "c" }]
    "#;
    let error = Scenario::from_toml("test.toml", text, &[]).unwrap_err().to_string();
    assert!(error.contains("the links of a share one buffer"), "{error}");
}
