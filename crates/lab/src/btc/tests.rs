//! Tests of the reports: they have everything that RFC 3148 asks for, and no result that was limited by a host.

use warpline_capacity::{
    Bound, CapOptions, HostResults, ProbeReply, Progress, ReceiverResults, SenderResults, StrangerLimits,
    TrenoOptions, TrenoOutcome, TrenoResults,
};
use warpline_core::{TimeDelta, Timestamp};

use super::*;

fn sender() -> SenderResults {
    SenderResults {
        elapsed_ns: 10_000_000_000,
        data_bytes: 11_750_000,
        sent_segments: 8200,
        sent_wire_bytes: 12_300_000,
        retransmitted_segments: 60,
        acks_received: 4000,
        acks_wire_bytes: 240_000,
        slow_start_ns: 500_000_000,
        slow_start_bytes: 400_000,
        avoidance_ns: 9_000_000_000,
        avoidance_bytes: 11_000_000,
        recovery_ns: 500_000_000,
        recovery_bytes: 350_000,
        recoveries: 5,
        lost_segments: 60,
        loss_episodes: 5,
        max_cluster: 40,
        episodes_of_1: 2,
        episodes_of_3: 2,
        episodes_of_16: 1,
        unsent_segments: 7,
        heroic_recoveries: 1,
        max_cwnd_slow_start: 180_000,
        max_cwnd_avoidance: 120_000,
        rtt_min_ns: 41_000_000,
        rtt_sum_ns: 4_000 * 70_000_000,
        rtt_count: 4000,
        rtt_max_ns: 99_000_000,
        segment_payload: 1448,
        sack_used: 1,
        ..SenderResults::default()
    }
}

fn receiver() -> ReceiverResults {
    ReceiverResults {
        elapsed_ns: 10_000_000_000,
        data_bytes: 11_800_000,
        segments: 8140,
        wire_bytes: 12_210_000,
        acks_sent: 4100,
        acks_wire_bytes: 246_000,
        missing: 60,
        delay_count: 8140,
        delay_min_us: (1 << 31) + 20_000,
        delay_mean_us: 12_000,
        delay_p50_us: 11_000,
        delay_p95_us: 30_000,
        delay_p99_us: 35_000,
        delay_max_us: 40_000,
        ..ReceiverResults::default()
    }
}

fn idle() -> HostResults {
    HostResults { elapsed_ns: 10_000_000_000, busy_ns: 300_000_000, ..HostResults::default() }
}

fn report(sending: HostResults, receiving: HostResults, tell_anyway: bool) -> CapReport {
    let options = CapOptions::default();
    CapReport::new(&CapInput {
        options: &options,
        outcome: "complete",
        began_us: Some(0),
        ends: Ends { sender: "here".into(), receiver: "there".into(), ipv6: false },
        sender: Some(sender()),
        receiver: Some(receiver()),
        sending: Some(sending),
        receiving: Some(receiving),
        same_clock: false,
        probes: None,
        tell_anyway,
    })
}

#[test]
fn the_whole_report_as_text() {
    insta::assert_snapshot!(render(&report(idle(), idle(), false).lines(), 120));
}

#[test]
fn the_brief_report() {
    let text = render(&report(idle(), idle(), false).brief(), 80);
    assert!(text.lines().count() <= 24, "{text}");
    insta::assert_snapshot!(text);
    let text = render(&treno(probes()).brief(), 80);
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn a_report_from_one_side_says_what_stood_for_the_receiver() {
    let alone = |receiver: ReceiverResults| {
        CapReport::new(&CapInput {
            options: &CapOptions::default(),
            outcome: "complete",
            began_us: Some(0),
            ends: Ends { sender: "here".into(), receiver: "there".into(), ipv6: false },
            sender: Some(sender()),
            receiver: Some(receiver),
            sending: Some(idle()),
            receiving: None,
            same_clock: false,
            probes: Some("ICMP echo"),
            tell_anyway: false,
        })
    };
    let report = alone(ReceiverResults { delay_count: 0, ..receiver() });
    assert!(report.bulk_transfer_capacity_bps.is_some(), "{report:?}");
    assert_eq!(
        (report.reverse_path_load, report.flow_based_path_properties.one_way_delay_min_ms),
        (None, None)
    );
    let text = render(&report.lines(), 300);
    for part in [
        "ICMP echo",
        "the slower direction",
        "no acknowledgement crossed the path",
        "by a receiver in the sending host",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let rationed = alone(ReceiverResults { missing: 500, segments: 1000, ..receiver() });
    assert_eq!(rationed.bulk_transfer_capacity_bps, None);
    assert!(
        rationed.judgement.host_limited.iter().any(|reason| reason.contains("rate limiting")),
        "{rationed:?}"
    );
}

#[test]
fn false_counts_of_a_hostile_server_do_not_overflow() {
    // The largest value that is accepted: see `results.rs` of the protocol.
    let most = (1_u64 << 60) - 1;
    let fill = |value: serde_json::Value| -> serde_json::Value {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(|name| (name.clone(), most.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let sender: SenderResults = serde_json::from_value(fill(serde_json::json!(sender()))).unwrap();
    let receiver: ReceiverResults = serde_json::from_value(fill(serde_json::json!(receiver()))).unwrap();
    let host: HostResults = serde_json::from_value(fill(serde_json::json!(idle()))).unwrap();
    for rtt_count in [0, 1, most] {
        let report = CapReport::new(&CapInput {
            options: &CapOptions::default(),
            outcome: "complete",
            began_us: None,
            ends: Ends::default(),
            sender: Some(SenderResults { rtt_count, loss_episodes: rtt_count, ..sender }),
            receiver: Some(receiver),
            sending: Some(host),
            receiving: Some(host),
            same_clock: false,
            probes: None,
            tell_anyway: true,
        });
        assert!(!render(&report.lines(), 80).is_empty());
    }
}

#[test]
fn a_result_near_the_maximum_rate_has_a_note() {
    let noted = |bps| {
        let options =
            CapOptions { max_rate: Some(warpline_core::Rate::from_bps(bps)), ..CapOptions::default() };
        let judgement = host_limits(&options, Some(&sender()), None, None, None);
        judgement.notes.iter().any(|note| note.contains("limited to"))
    };
    assert!(noted(10_000_000) && !noted(100_000_000), "9.84 Mbit/s were sent");
}

#[test]
fn the_manual_states_the_limits_of_clients_without_a_key() {
    let manual = include_str!("../../../../docs/src/cap.md");
    let limits = StrangerLimits::default();
    for bound in Bound::ALL {
        let row = format!("| `{}` | {} |", bound.option(), bound.allowed(&limits));
        assert!(manual.contains(&row), "the manual has no row {row}");
    }
    let rate = format!("| `--max-rate` | at most {:#} |", limits.rate.unwrap());
    let tests = format!("| `--clients-per-address` | {} |", limits.clients_per_address);
    assert!(manual.contains(&rate) && manual.contains(&tests), "{rate} {tests}");
}

#[test]
fn the_capacity_is_unique_data_divided_by_time() {
    let report = report(idle(), idle(), false);
    assert_eq!(report.bulk_transfer_capacity_bps, Some(9.4e6));
    assert_eq!((report.data_sent_bits, report.elapsed_time_s), (94_000_000, 10.0));
    let capacity = report.congestion_avoidance_capacity.congestion_avoidance_capacity_bps.unwrap();
    assert!(
        (capacity - (88e6 + 2.8e6) / 9.5).abs() < 1.0,
        "section 3.1 leaves out time-outs and slow start only"
    );
    let without = report.congestion_avoidance_capacity.without_recovery_bps.unwrap();
    assert!((without - 88e6 / 9.0).abs() < 1.0);
    assert_eq!(report.flow_based_path_properties.one_way_delay_min_ms, Some(20.0));
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<CapReport>(&json).unwrap(), report);
}

#[test]
fn a_test_limited_by_a_host_reports_no_capacity() {
    let busy = HostResults { busy_ns: 9_500_000_000, ..idle() };
    let waiting = HostResults { send_wait_ns: 2_000_000_000, send_waits: 9, ..idle() };
    let dropping = HostResults { send_drops: 30, ..idle() };
    for host in [busy, waiting, dropping] {
        let report = report(host, idle(), false);
        assert_eq!(report.bulk_transfer_capacity_bps, None, "{host:?}");
        assert_eq!(report.throughput_bps, Some(9.4e6));
        assert_eq!(report.judgement.host_limited.len(), 1);
        assert!(render(&report.lines(), 100).contains("withheld"));
    }
    let full = HostResults { receive_drops: 50, receive_buffer: 1000, ..idle() };
    assert_eq!(report(idle(), full, false).bulk_transfer_capacity_bps, None);
    assert_eq!(report(idle(), full, true).bulk_transfer_capacity_bps, Some(9.4e6), "if asked for");
    // A few drops among many losses only give a note.
    let few = HostResults { send_drops: 2, ..idle() };
    let report = report(few, idle(), false);
    assert!(report.bulk_transfer_capacity_bps.is_some() && report.judgement.notes[0].contains("2 packets"));
}

#[test]
fn clocks_that_differ_give_no_absolute_delay() {
    let options = CapOptions::default();
    let mut input = CapInput {
        options: &options,
        outcome: "complete",
        began_us: None,
        ends: Ends::default(),
        sender: Some(sender()),
        receiver: Some(ReceiverResults { delay_min_us: (1 << 31) + 60_000, ..receiver() }),
        sending: None,
        receiving: None,
        same_clock: false,
        probes: None,
        tell_anyway: false,
    };
    assert_eq!(CapReport::new(&input).flow_based_path_properties.one_way_delay_min_ms, None);
    input.same_clock = true;
    assert_eq!(CapReport::new(&input).flow_based_path_properties.one_way_delay_min_ms, Some(60.0));
    input.receiver = None;
    let report = CapReport::new(&input);
    assert!(report.bulk_transfer_capacity_bps.is_some() && report.reverse_path_load.is_none());
    assert!(report.judgement.notes.iter().any(|note| note.contains("report did not arrive")));
}

/// What RFC 3148 asks for: the section, the name in the text and on the page, and the path in JSON.
const ASKED_FOR: &[(&str, &str, &str)] = &[
    ("1", "BTC", "/bulk_transfer_capacity_bps"),
    ("1", "data sent", "/data_sent_bits"),
    ("1", "elapsed time", "/elapsed_time_s"),
    ("2", "congestion avoidance", "/statements/congestion_avoidance"),
    ("2", "cwnd equal to ssthresh", "/statements/cwnd_equals_ssthresh"),
    ("2", "loss recovery", "/statements/loss_recovery"),
    ("2", "segment size", "/statements/segment_size"),
    ("2", "headers", "/statements/headers"),
    ("2", "retransmission time-out", "/statements/retransmission_timeout"),
    ("3.1", "CAC", "/congestion_avoidance_capacity/congestion_avoidance_capacity_bps"),
    ("3.2", "events that kept the clock", "/preservation_of_self_clock/fast_recoveries"),
    ("3.2", "events that lost it", "/preservation_of_self_clock/timeouts"),
    (
        "3.2.1",
        "lost transmission opportunities",
        "/preservation_of_self_clock/lost_transmission_opportunities",
    ),
    ("3.2.2", "losing an entire window", "/preservation_of_self_clock/losing_an_entire_window"),
    ("3.2.3", "heroic clock preservation", "/preservation_of_self_clock/heroic_clock_preservation"),
    ("3.2.3", "loss distribution", "/preservation_of_self_clock/loss_clusters/5"),
    ("3.2.4", "false time-outs", "/preservation_of_self_clock/false_timeouts"),
    ("3.3", "reordering", "/flow_based_path_properties/reordered"),
    ("3.3", "reordering distance", "/flow_based_path_properties/reordering_extent"),
    ("3.3", "slightly", "/flow_based_path_properties/reordered_slightly"),
    ("3.3", "enough for a fast retransmit", "/flow_based_path_properties/reordered_fast_retransmit"),
    ("3.3", "a second or more late", "/flow_based_path_properties/reordered_seconds_late"),
    ("3.3", "slightly out of order", "/statements/reordering"),
    ("3.3", "maximum cwnd", "/flow_based_path_properties/maximum_cwnd_avoidance"),
    ("3.3", "one-way delay", "/flow_based_path_properties/one_way_delay_min_ms"),
    ("3.4", "packets dropped", "/calibration_checks/sending_host_drops"),
    ("3.4", "largest queue", "/calibration_checks/sending_host_queue_bytes"),
    ("3.5", "needed", "/advanced_tcp_features/needed/0"),
    ("3.6", "forward loss", "/flow_based_path_properties/forward_loss"),
    ("3.6", "reverse loss", "/reverse_path_load/loss"),
    ("3.6", "load", "/reverse_path_load/load_bps"),
];

#[test]
fn everything_that_rfc_3148_asks_for_is_in_text_json_page_and_manual() {
    let options = CapOptions::default();
    let reordered = ReceiverResults { reordered: 3, reordered_slightly: 3, max_extent: 2, ..receiver() };
    let report = CapReport::new(&CapInput {
        options: &options,
        outcome: "complete",
        began_us: None,
        ends: Ends::default(),
        sender: Some(sender()),
        receiver: Some(reordered),
        sending: Some(idle()),
        receiving: Some(idle()),
        same_clock: false,
        probes: None,
        tell_anyway: false,
    });
    let text = render(&report.lines(), 2000);
    let json = serde_json::to_value(&report).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let writer = claim(&parent.path().join("test"), false).unwrap();
    let run = write_run(writer, true, &report, &CapTrace::default()).unwrap();
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    let manual = include_str!("../../../../docs/src/cap.md").to_lowercase();
    for (section, name, place) in ASKED_FOR {
        assert!(text.contains(name), "{name} is not in the text");
        assert!(page.contains(name), "{name} is not on the page");
        assert!(json.pointer(place).is_some_and(|value| !value.is_null()), "{place} is not in the JSON");
        assert!(manual.contains(&name.to_lowercase()), "{name} is not in the manual");
        assert!(manual.contains(section), "{section} is not in the manual");
    }
    for title in [
        "Congestion Avoidance Capacity (3.1)",
        "Preservation of Self-Clock (3.2)",
        "Flow Based Path Properties (3.3)",
        "Calibration Checks (3.4)",
        "Need for Advanced TCP Features (3.5)",
        "Validate Reverse Path Load (3.6)",
    ] {
        assert!(text.contains(title) && page.contains(title), "{title}");
    }
}

#[test]
fn the_classic_options_state_their_ticks_and_their_header_bytes() {
    let mut options = CapOptions::classic();
    options.set_packet(1500, true).unwrap();
    let statements = Statements::new(&options, true, false, None);
    assert!(statements.retransmission_timeout.contains("500 ms"), "{}", statements.retransmission_timeout);
    assert!(statements.headers.starts_with("72 bytes"), "{}", statements.headers);
    assert!(statements.segment_size.contains("1428 bytes of data in packets of 1500 bytes"));
    assert!(statements.loss_recovery.contains("RFC 6675"));
    assert!(statements.congestion_avoidance.contains("equation 4"));
}

#[test]
fn the_clock_is_stated_as_it_is_used() {
    let said = |options: CapOptions| Statements::new(&options, false, true, None).retransmission_timeout;
    let tick = TimeDelta::from_millis(100);
    assert!(said(CapOptions::default()).ends_with("The clock's granularity is below a microsecond"));
    let coarse = CapOptions { granularity: tick, ..CapOptions::default() };
    assert!(said(coarse.clone()).ends_with("Time-outs are rounded up to 100 ms"), "{}", said(coarse));
    assert!(
        said(CapOptions { granularity: tick, heartbeat: true, ..CapOptions::default() })
            .contains("ticks of 100 ms")
    );
    let fine = CapOptions { granularity: TimeDelta::ZERO, heartbeat: false, ..CapOptions::classic() };
    assert!(said(fine.clone()).ends_with("below a microsecond"), "{}", said(fine));
}

fn treno(results: TrenoResults) -> TrenoReport {
    let options = TrenoOptions::default();
    TrenoReport::new(&TrenoInput {
        target: "192.0.2.1".into(),
        carrier: "ICMP echo through a ping socket",
        ttl: None,
        options: &options,
        outcome: TrenoOutcome::Complete,
        results: &results,
        responders: vec![("192.0.2.1".into(), ProbeReply::Echo, results.replies)],
        busy: Some(0.1),
        host_bps: Some(1e9),
        first_hop_bps: Some(100e6),
        first_hop_rations: false,
        probe_rates: Some((800.0, 9000.0)),
        tell_anyway: false,
    })
}

fn probes() -> TrenoResults {
    TrenoResults {
        elapsed_ns: 10_000_000_000,
        data_bytes: 11_000_000,
        probes: 7600,
        replies: 7500,
        echoes: 7500,
        lost: 60,
        avoidance_ns: 9_000_000_000,
        avoidance_bytes: 10_000_000,
        rtt_min_ns: 41_000_000,
        rtt_max_ns: 90_000_000,
        rtt_sum_ns: 7500 * 70_000_000,
        rtt_count: 7500,
        congestion_signals: 9,
        recoveries: 9,
        max_cluster: 20,
        max_cwnd_slow_start: 150_000,
        max_cwnd_avoidance: 110_000,
        mtu: 1500,
        ..TrenoResults::default()
    }
}

#[test]
fn overdue_answers_are_reported_before_their_time_out() {
    let rationed = treno(TrenoResults { probes: 10, replies: 6, echoes: 6, lost: 0, overdue: 4, ..probes() });
    assert!(
        rationed.alarms.iter().any(|alarm| alarm.contains("ICMP rate limiting")),
        "{:?}",
        rationed.alarms
    );
    assert_eq!(rationed.bulk_transfer_capacity_bps, None);
    let hop = HopReport::new(1, Some(&rationed));
    assert!(hop.bps.is_none() && hop.throughput_bps.is_some());
}

#[test]
fn treno_reports_what_its_draft_asks_for() {
    insta::assert_snapshot!(render(&treno(probes()).lines(), 120));
}

#[test]
fn treno_raises_its_alarms() {
    assert_eq!(treno(probes()).alarms, Vec::<String>::new());
    let alarm = |results: TrenoResults, word: &str| {
        let report = treno(results);
        assert!(report.alarms.iter().any(|alarm| alarm.contains(word)), "{word}: {:?}", report.alarms);
        assert_eq!(report.bulk_transfer_capacity_bps, None);
    };
    alarm(TrenoResults { refused_sends: 1, ..probes() }, "refused");
    alarm(TrenoResults { lost: 4000, ..probes() }, "ICMP rate limiting");
    alarm(TrenoResults { unreachable: 3, ..probes() }, "undeliverable");
    alarm(TrenoResults { data_bytes: 700_000_000, ..probes() }, "half of what this host can send");
    alarm(TrenoResults { data_bytes: 70_000_000, ..probes() }, "first hop");
}

#[test]
fn a_test_becomes_a_run_directory() {
    let parent = tempfile::tempdir().unwrap();
    let at = Timestamp::from_millis;
    let progress = |ms: u64, data_bytes| Progress {
        elapsed: Some(TimeDelta::from_millis(ms)),
        data_bytes,
        cwnd: 14_480,
        ssthresh: u64::MAX,
        srtt: TimeDelta::from_millis(40),
        ..Progress::default()
    };
    let trace = CapTrace {
        samples: vec![(at(1100), progress(1000, 1_000_000)), (at(2100), progress(2000, 2_500_000))],
        traced: Vec::new(),
        forward: true,
    };
    let text = csv(&trace);
    assert!(text.contains("1.100000,8000000,14480,,0,40.000,0\n2.100000,12000000,"), "{text}");
    let out = parent.path().join("test");
    let writer = claim(&out, false).unwrap();
    assert!(!out.exists(), "it appears whole");
    let path = write_run(writer, true, &report(idle(), idle(), false), &trace).unwrap();
    let run = warpline_results::Run::open(&path).unwrap();
    assert_eq!(run.summary().flows[0].delivered_bytes, 11_750_000);
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("heroic clock preservation"), "the page has the report's lines");
    for name in ["btc.json", "btc.txt", "series_flows.parquet"] {
        assert!(path.join(name).exists(), "{name}");
    }
}
