//! The example scenarios do what their comments say.

use warpline_lab::run::RunOutcome;
use warpline_scenario::Scenario;

use crate::support::{Rows, root, simulate_scenario};

fn example(name: &str, sets: &[&str]) -> RunOutcome {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    simulate_scenario(
        &Scenario::load(&root().join("scenarios").join(name), &sets).unwrap_or_else(|e| panic!("{e}")),
    )
}

#[test]
fn the_background_flow_yields() {
    let (nice, reno) =
        (example("dumbbell.toml", &[]), example("dumbbell.toml", &["flow.background.cc=reno"]));
    let link = nice.link("r1>r2");
    assert!(link.utilisation.unwrap() > 0.95, "{:?}", link.utilisation);
    let goodput = |outcome: &RunOutcome, name: &str| outcome.flow(name).goodput_bps;
    let bulk = goodput(&nice, "bulk.0").min(goodput(&nice, "bulk.1"));
    assert!(goodput(&nice, "background.0") < bulk / 4.0);
    assert!(goodput(&reno, "background.0") > 3.0 * goodput(&nice, "background.0"));
}

#[test]
fn codel_keeps_the_delay_low_where_drop_tail_fills_its_buffer() {
    let codel = example("codel-vs-droptail.toml", &[]);
    let tail = example("codel-vs-droptail.toml", &["topology.bottleneck.queue.kind=droptail"]);
    let delay = |outcome: &RunOutcome| outcome.link("r1>r2").queue_delay_mean_ms;
    assert!(delay(&codel) < 15.0 && delay(&tail) > 100.0, "{} {}", delay(&codel), delay(&tail));
}

#[test]
fn newer_recovery_repairs_three_losses_sooner() {
    // Only the start of the run: three losses in one window, and the recovery from them.
    let outcome = example("old-tcp.toml", &["duration=4s"]);
    let latency = |name: &str| outcome.flow(name).latency_max_ms.unwrap();
    assert!(outcome.flow("reno-1990.0").rtos > 0);
    assert_eq!(outcome.flow("newreno-1999.0").rtos + outcome.flow("modern.0").rtos, 0);
    assert!(latency("modern.0") < latency("newreno-1999.0"));
    assert!(latency("newreno-1999.0") < latency("reno-1990.0"));
}

#[test]
fn the_long_flow_of_the_parking_lot_gets_less_than_each_cross_flow() {
    let outcome = example("parking-lot.toml", &[]);
    let long = outcome.flow("long.0").goodput_bps;
    for i in 0..3 {
        let cross = outcome.flow(&format!("cross.{i}")).goodput_bps;
        assert!(long < cross, "{long} {cross}");
        let hop = outcome.link(&format!("r{i}>r{}", i + 1)).utilisation.unwrap();
        assert!((0.9..=1.0 + 1e-3).contains(&hop), "{hop}");
    }
}

#[test]
fn who_remembers_the_path_is_done_sooner_and_not_much_later_where_it_has_become_slower() {
    let outcome = example("careful-resume.toml", &[]);
    let seconds = |name: &str| {
        let transfers = outcome.transfers();
        let row = transfers
            .iter()
            .find(|row| row.name.starts_with(name) && !row.name[name.len()..].starts_with('-'));
        row.and_then(|row| row.completion_s).unwrap_or_else(|| panic!("{name}: {transfers:?}"))
    };
    assert!(seconds("resumed") * 1.4 < seconds("fresh"), "{} {}", seconds("resumed"), seconds("fresh"));
    let (resumed, fresh) = (seconds("resumed-slower"), seconds("fresh-slower"));
    assert!(resumed < fresh * 1.25, "{resumed} {fresh}");
}

#[test]
fn probes_pass_a_full_link_with_a_fair_queue_and_wait_in_a_deep_buffer() {
    let (fair, deep) = (
        example("rrul.toml", &["duration=25s"]),
        example("rrul.toml", &["duration=25s", "link.line.queue=1000p"]),
    );
    for (probe, least) in [("udp-up-be.0", 300.0), ("ping-up.0", 300.0), ("udp-down-ef.0", 20.0)] {
        let delay = |outcome: &RunOutcome| outcome.flow(probe).latency_mean_ms.unwrap();
        assert!(delay(&fair) < 40.0 && delay(&deep) > least, "{probe}: {} {}", delay(&fair), delay(&deep));
    }
    let up: Vec<f64> = fair
        .summary
        .flows
        .iter()
        .filter(|flow| flow.name.starts_with("tcp-up"))
        .map(|flow| flow.goodput_bps)
        .collect();
    assert!(up.len() == 4 && up.iter().sum::<f64>() > 8e6, "{up:?}");
}

#[test]
fn every_trace_can_be_read_and_names_its_source() {
    let traces = root().join("scenarios/traces");
    let about = std::fs::read_to_string(traces.join("README.md")).unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(&traces).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".down") && !name.ends_with(".up") {
            continue;
        }
        seen += 1;
        let row = about
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}`")))
            .unwrap_or_else(|| panic!("{name}"));
        assert!(row.split('|').filter(|cell| !cell.trim().is_empty()).count() == 6, "{row}");
        let set = format!("link.air.trace=traces/{name}");
        let read = Scenario::load(&root().join("scenarios/cellular.toml"), &[set]);
        assert!(read.is_ok(), "{}", read.unwrap_err());
    }
    assert!(seen >= 2);
}
