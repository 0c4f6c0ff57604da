//! Runs that skip stretches of time are as close to exact ones as they say, and change nothing else.

use std::path::Path;

use warpline_lab::run::parts::Cores;
use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::fast_forward::ONLY_AUDITED;
use warpline_results::{FastForwardSummary, Stretch};
use warpline_scenario::Scenario;

use crate::determinism::assert_same;
use crate::support::{Rows, close, parse, simulate, simulate_scenario};

/// A dumbbell whose flows `rest` says, with `fast_forward` or without.
fn dumbbell(duration: u32, seed: u64, bottleneck: &str, rest: &str) -> String {
    format!(
        "duration = \"{duration}s\"\nwarmup = \"10s\"\nseed = {seed}\nsample_interval = \"1s\"\n[topology]\nkind = \"dumbbell\"\npairs = 4\n\
         bottleneck = {{ rate = \"10Mbit/s\", delay = \"20ms\", queue = \"1BDP\"{bottleneck} }}\n{rest}"
    )
}

fn flow(keys: &str) -> String {
    format!("[[flow]]\nfrom = \"left\"\nto = \"right\"\n{keys}\n")
}

/// The exact run of a scenario, and the one that skips.
fn both(text: &str) -> (RunOutcome, RunOutcome) {
    let exact = parse(text);
    let fast = Scenario { fast_forward: true, ..exact.clone() };
    (simulate_scenario(&exact), simulate_scenario(&fast))
}

fn part(outcome: &RunOutcome) -> &FastForwardSummary {
    outcome.summary.fast_forward.as_ref().unwrap()
}

fn skipped(outcome: &RunOutcome) -> impl Iterator<Item = &Stretch> {
    outcome.summary.stretches.iter().filter(|stretch| !stretch.audited)
}

/// What every such run must say of itself.
fn assert_consistent(exact: &RunOutcome, fast: &RunOutcome) {
    let (summary, stretches) = (&fast.summary, &fast.summary.stretches);
    assert!(exact.summary.fast_forward.is_none() && exact.summary.stretches.is_empty());
    close(part(fast).exact_s + part(fast).skipped_s, summary.info.duration_s, 1e-9);
    let length = |stretch: &Stretch| stretch.until_s - stretch.from_s;
    close(skipped(fast).map(length).sum(), part(fast).skipped_s, 1e-9);
    assert!(stretches.windows(2).all(|pair| pair[0].until_s <= pair[1].from_s), "{stretches:?}");
    assert_eq!(part(fast).skipped, skipped(fast).count() as u64);
    assert_eq!(part(fast).skipped + part(fast).audited, stretches.len() as u64);
    assert!(part(fast).skipped == 0 || (part(fast).audited > 0 && fast.events < exact.events));
    assert_eq!(summary.info.simulated_s, exact.summary.info.simulated_s);
    for row in fast.flow_samples() {
        let gap = skipped(fast).find(|gap| row.time_s > gap.from_s && row.time_s <= gap.until_s);
        assert!(gap.is_none(), "a row at {} s, in {gap:?}", row.time_s);
    }
}

#[test]
fn constant_rates_are_skipped_and_counted_to_the_packet() {
    let rest = flow("app = \"cbr\"\nrate = \"3Mbit/s\"\ncount = 2\nrecord = [\"latency\"]")
        + &flow(
            "name = \"back\"\napp = \"cbr\"\nrate = \"700kbit/s\"\npacket_size = \"300B\"\ntransport = \"tcp\"",
        );
    let (exact, fast) = both(&dumbbell(600, 1, "", &rest));
    assert_consistent(&exact, &fast);
    assert!(fast.events * 3 < exact.events, "{} of {} events", fast.events, exact.events);
    let said = part(&fast).flow_goodput_within_max.unwrap();
    assert!(said < 1e-2, "{said}");
    // Each of some thirty stretches may count a packet too much or too little.
    let packets = 5e-4;
    for (fast, exact) in fast.summary.flows.iter().zip(&exact.summary.flows) {
        close(fast.delivered_bytes as f64, exact.delivered_bytes as f64, packets);
        close(fast.sent_packets as f64, exact.sent_packets as f64, packets);
        assert_eq!((fast.lost_packets, fast.rtos, &fast.end_s), (0, 0, &exact.end_s));
        assert_eq!(fast.latency_max_ms, exact.latency_max_ms);
        assert_eq!((fast.latency_p50_ms, fast.latency_p99_ms), (exact.latency_p50_ms, exact.latency_p99_ms));
        close(fast.latency_mean_ms.unwrap(), exact.latency_mean_ms.unwrap(), 1e-3);
    }
    for (fast, exact) in fast.summary.links.iter().zip(&exact.summary.links) {
        close(fast.sent_bytes as f64, exact.sent_bytes as f64, packets);
        assert_eq!(fast.drops(), 0);
        assert_eq!(fast.queue_delay_max_ms, exact.queue_delay_max_ms);
    }
}

#[test]
fn long_lived_flows_are_as_close_to_the_exact_run_as_they_say() {
    let bulk = |cc: &str, count: u32| flow(&format!("cc = \"{cc}\"\ncount = {count}\nstart = \"0s..1s\""));
    let cases = [
        ("", bulk("reno", 1)),
        ("", bulk("cubic", 1) + &flow("app = \"cbr\"\nrate = \"2Mbit/s\"")),
        ("", bulk("vegas", 3)),
        ("", bulk("htcp", 1)),
        (", loss = \"1%\"", bulk("reno", 2)),
    ];
    let (mut compared, mut outside, mut saved) = (0, 0, 0);
    for (bottleneck, rest) in &cases {
        for seed in 1..=10 {
            let (exact, fast) = both(&dumbbell(400, seed, bottleneck, rest));
            assert_consistent(&exact, &fast);
            if part(&fast).skipped == 0 {
                assert_eq!(fast.summary.flows, exact.summary.flows);
                continue;
            }
            saved += u32::from(fast.events * 3 < exact.events * 2);
            let said = part(&fast);
            let total = fast.summary.totals.goodput_bps / exact.summary.totals.goodput_bps - 1.0;
            let flows = fast.summary.flows.iter().zip(&exact.summary.flows);
            let errors = flows.map(|(fast, exact)| {
                (fast.goodput_bps / exact.goodput_bps - 1.0, said.flow_goodput_within_max.unwrap())
            });
            for (error, promised) in errors.chain([(total, said.goodput_within.unwrap())]) {
                compared += 1;
                outside += u32::from(error.abs() > promised);
                assert!(
                    error.abs() < 2.0 * promised,
                    "off by {error}, said to be within {promised}:\n{rest}{seed}"
                );
            }
        }
    }
    // The interval is one of 95 %.
    assert!(compared > 80 && outside * 20 <= compared, "{outside} of {compared}");
    assert!(saved >= 20, "{saved}");
}

#[test]
fn a_run_in_which_all_was_compared_says_so() {
    let (_, fast) = both(&dumbbell(50, 1, "", &flow("cc = \"reno\"")));
    assert_eq!((part(&fast).skipped, part(&fast).audited), (0, 1));
    assert_eq!(part(&fast).obstacle.as_deref(), Some(ONLY_AUDITED));
}

#[test]
fn what_never_repeats_itself_is_not_skipped() {
    let burst = "app = \"onoff\"\nrate = \"6Mbit/s\"\nmean_on = \"500ms\"\nmean_off = \"1s\"";
    let (exact, fast) = both(&dumbbell(120, 1, "", &(flow("cc = \"reno\"") + &flow(burst))));
    assert_consistent(&exact, &fast);
    assert_eq!(fast.summary.flows, exact.summary.flows);
    assert_eq!(fast.summary.links, exact.summary.links);
    assert_eq!((part(&fast).skipped, part(&fast).goodput_within), (0, None));
    let why = part(&fast).obstacle.as_deref().unwrap();
    assert_eq!(why, "onoff.0 sends in a way that does not repeat itself");
    // Before it starts and after it stops, there is something to skip.
    let between = flow(&format!("{burst}\nstart = \"100s\"\nstop = \"140s\""));
    let (exact, fast) = both(&dumbbell(300, 1, "", &(flow("app = \"cbr\"\nrate = \"1Mbit/s\"") + &between)));
    assert_consistent(&exact, &fast);
    let (from, until) = (fast.flow("onoff.0").start_s, 140.0);
    assert!(
        skipped(&fast).all(|gap| gap.until_s < from || gap.from_s > until),
        "{:?}",
        fast.summary.stretches
    );
    assert!(skipped(&fast).any(|gap| gap.until_s < from) && skipped(&fast).any(|gap| gap.from_s > until));
    let (fast, exact) = (fast.flow("onoff.0"), exact.flow("onoff.0"));
    assert_eq!((fast.sent_packets, fast.delivered_bytes), (exact.sent_packets, exact.delivered_bytes));
    assert_eq!((fast.start_s, fast.latency_max_ms), (exact.start_s, exact.latency_max_ms));
    close(fast.latency_mean_ms.unwrap(), exact.latency_mean_ms.unwrap(), 1e-3);
}

#[test]
fn everything_planned_happens_at_its_moment() {
    let link = ", schedule = [{ at = \"400s\", rate = \"2Mbit/s\" }, { at = \"450s\", rate = \"10Mbit/s\" }], \
        delays = [{ at = \"350s\", delay = \"60ms\" }], down = [{ at = \"300s\", for = \"2s\" }, { at = \"520s\", for = \"1s\" }]";
    let rest = flow("name = \"base\"\napp = \"cbr\"\nrate = \"1200kbit/s\"")
        + &flow("name = \"late\"\napp = \"cbr\"\nrate = \"600kbit/s\"\nstart = \"200.5s\"\nstop = \"470s\"")
        + &flow("name = \"file\"\napp = \"transfer\"\nsize = \"2MB\"\nstart = \"150s\"");
    let (exact, fast) = both(&dumbbell(600, 1, link, &rest));
    assert_consistent(&exact, &fast);
    assert!(part(&fast).skipped_s > 200.0, "{:?}", part(&fast));
    for moment in [150.0, 200.5, 300.0, 302.0, 350.0, 400.0, 450.0, 470.0, 520.0, 521.0] {
        let over = fast.summary.stretches.iter().find(|gap| gap.from_s < moment && gap.until_s >= moment);
        assert!(over.is_none(), "{over:?} reaches over {moment} s");
    }
    for name in ["base.0", "late.0", "file.0"] {
        let (fast, exact) = (fast.flow(name), exact.flow(name));
        assert_eq!((fast.start_s, fast.lost_packets), (exact.start_s, exact.lost_packets), "{name}");
        close(fast.delivered_bytes as f64, exact.delivered_bytes as f64, 1e-3);
        close(fast.latency_mean_ms.unwrap(), exact.latency_mean_ms.unwrap(), 0.01);
        assert_eq!(fast.end_s.is_some(), exact.end_s.is_some());
        if let (Some(fast), Some(exact)) = (fast.end_s, exact.end_s) {
            assert!((fast - exact).abs() < 0.02, "{name} ends at {fast} s, {exact} s");
        }
    }
    let (fast_file, exact_file) = (fast.transfers().remove(0), exact.transfers().remove(0));
    assert_eq!(fast_file.start_s, exact_file.start_s);
    close(fast_file.completion_s.unwrap(), exact_file.completion_s.unwrap(), 0.01);
    let (fast, exact) = (fast.link("r1>r2"), exact.link("r1>r2"));
    assert_eq!(fast.drops_down, exact.drops_down);
    close(fast.utilisation.unwrap(), exact.utilisation.unwrap(), 1e-3);
}

#[test]
fn the_same_bytes_come_twice_and_on_any_number_of_cores() {
    let directory = tempfile::tempdir().unwrap();
    let rest = flow("cc = \"vegas\"\ncount = 3\nrecord = [\"latency\"]")
        + &flow("app = \"cbr\"\nrate = \"1Mbit/s\"\nstop = \"100s\"");
    let text = dumbbell(200, 3, ", down = [{ at = \"150s\", for = \"1s\" }]", &rest);
    let scenario = Scenario { fast_forward: true, ..parse(&text) };
    let write = |out: &Path, cores: usize| {
        let cores = Cores::Exactly(cores);
        let options = RunOptions { out: Some(out.to_owned()), report: true, cores, ..RunOptions::default() };
        run(&scenario, &options, &mut |_| Control::Continue).unwrap()
    };
    let first = directory.path().join("first");
    let outcome = write(&first, 1);
    assert!(part(&outcome).skipped > 2, "{:?}", part(&outcome));
    for (name, cores) in [("again", 1), ("two", 2), ("three", 3)] {
        let other = directory.path().join(name);
        let parts = write(&other, cores).parts.count();
        assert_eq!(parts, cores);
        assert_same(&first, &other);
    }
    // What is written changes nothing either.
    let without = run(&scenario, &RunOptions::default(), &mut |_| Control::Continue).unwrap();
    assert_eq!(without.summary, outcome.summary);
}

#[test]
fn without_it_nothing_changes() {
    let text = dumbbell(20, 1, "", &flow("cc = \"reno\""));
    let off = format!("fast_forward = false\n{text}");
    assert_eq!(parse(&text).scenario_hash(), parse(&off).scenario_hash());
    assert_eq!(simulate(&text).summary, simulate(&off).summary);
    assert!(!simulate(&off).summary.to_json().contains("fast_forward"));
}

#[test]
fn what_cannot_be_skipped_is_refused_where_it_stands() {
    let refused = |text: &str| {
        let errors = Scenario::from_toml("test.toml", text, &[]).unwrap_err().to_string();
        errors.lines().map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let text = "fast_forward = true\nduration = \"9s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\nrecord = [\"pcap\"]\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"cap\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nrecord = [\"tcp\"]\n";
    let errors = refused(text);
    for expected in [
        "test.toml:6:10",
        "the record of every packet",
        "test.toml:10:7",
        "`fast_forward` cannot go with app = \"cap\"",
        "test.toml:14:10",
        "the record of every event",
    ] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    let text = "fast_forward = true\nduration = \"9s\"\n[clock]\nmode = \"real\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    let errors = refused(text);
    assert!(errors.contains("test.toml:4:8") && errors.contains("mode = \"real\""), "{errors}");
}
