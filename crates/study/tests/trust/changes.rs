//! Links that are changed during a run, as `[[change]]` plans it.

use warpline_lab::run::parts::Cores;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_results::LinkSample;
use warpline_scenario::Scenario;

use crate::determinism::assert_same;
use crate::support::{Rows, close, parse, simulate_scenario, two_hosts};

/// A sender of 6 Mbit/s over a link of 8, sampled every second.
fn steady(changes: &str) -> Vec<LinkSample> {
    let rest = format!(
        "sample_interval = \"1s\"\n{changes}\n[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"cbr\"\nrate = \"6Mbit/s\"\n"
    );
    let outcome = two_hosts("10s", "", &rest);
    outcome.link_samples().into_iter().filter(|sample| sample.link == 0).collect()
}

#[test]
fn the_throughput_steps_where_the_rate_is_changed() {
    let samples = steady(
        "change = [{ at = \"2s\", link = \"a-b\", rate = \"3Mbit/s\" }, { at = \"6s\", link = \"a>b\", rate = \"8Mbit/s\" }]",
    );
    let of = |second: usize| samples[second - 1].throughput_bps / 1e6;
    let capacity = |second: usize| samples[second - 1].capacity_bps.unwrap() / 1e6;
    for (second, rate) in [(2, 6.0), (4, 3.0), (6, 3.0), (7, 8.0)] {
        close(of(second), rate, 0.01);
    }
    assert_eq!([1, 2, 3, 6, 7, 10].map(capacity), [8.0, 8.0, 3.0, 3.0, 8.0, 8.0]);
}

#[test]
fn losses_and_outages_begin_and_end_with_a_change() {
    let samples = steady(
        "change = [{ at = \"2s\", link = \"a-b\", loss = \"50%\" }, { at = \"4s\", link = \"a-b\", loss = \"none\" }, \
         { at = \"6s\", link = \"a-b\", down = true }, { at = \"8s\", link = \"a-b\", down = false }]",
    );
    let drops: Vec<u64> = samples.iter().map(|sample| sample.drops).collect();
    // 500 packets a second.
    assert_eq!([0, 1, 4, 8, 9].map(|second: usize| drops[second]), [0; 5], "{drops:?}");
    // What comes at the very instant finds it down.
    assert!(drops[5] <= 1, "{drops:?}");
    assert!(drops[2..4].iter().all(|&drops| (150..350).contains(&drops)), "{drops:?}");
    assert!(drops[6..8].iter().all(|&drops| (499..=501).contains(&drops)), "{drops:?}");
}

/// A dumbbell with transfers both ways, whose bottleneck is changed in every way.
const CHANGING: &str = r#"
duration = "8s"
sample_interval = "500ms"
[topology]
kind = "dumbbell"
pairs = 4
bottleneck = { rate = "10Mbit/s", delay = "20ms", queue = "1BDP", record = ["packets"] }
[[flow]]
from = "left"
to = "right"
count = 4
record = ["tcp", "latency"]
[[flow]]
from = "right"
to = "left"
app = "cbr"
rate = "1Mbit/s"
count = 2
[[change]]
at = "1s"
link = "r1-r2"
delay = "2ms"
loss = "1%"
[[change]]
at = "2s"
link = "r1>r2"
rate = "3Mbit/s"
duplicate = "1%"
[[change]]
at = "3s"
link = "r2>r1"
jitter = { kind = "uniform", max = "5ms", reorder = true }
corrupt = "0.5%"
[[change]]
at = "4s"
link = "r1-r2"
down = true
[[change]]
at = "4.5s"
link = "r1-r2"
down = false
delay = "40ms"
[[change]]
at = "6s"
link = "right.1-r2"
rate = "500kbit/s"
"#;

#[test]
fn any_number_of_cores_writes_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let out = |cores: usize| {
        let out = directory.path().join(cores.to_string());
        let options = RunOptions {
            out: Some(out.clone()),
            report: true,
            cores: Cores::Exactly(cores),
            ..RunOptions::default()
        };
        let outcome = run(&parse(CHANGING), &options, &mut |_| Control::Continue).unwrap();
        assert_eq!(outcome.parts.count(), cores);
        out
    };
    let whole = out(1);
    for cores in [2, 3] {
        assert_same(&whole, &out(cores));
    }
    // The run can be repeated from its directory.
    let again = Scenario::load(&whole.join("scenario.toml"), &[]).unwrap();
    assert_eq!(again.scenario_hash(), parse(CHANGING).scenario_hash());
}

#[test]
fn no_stretch_that_is_skipped_goes_over_a_change() {
    let text = "duration = \"600s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"8Mbit/s\", delay = \"10ms\" }]\n\
        flow = [{ from = \"a\", to = \"b\", app = \"cbr\", rate = \"6Mbit/s\" }]\n\
        change = [{ at = \"200s\", link = \"a-b\", loss = \"every,n=2\" }, { at = \"400s\", link = \"a-b\", loss = \"none\" }]\n";
    let exact = simulate_scenario(&parse(text));
    let fast = simulate_scenario(&Scenario { fast_forward: true, ..parse(text) });
    let skipped: Vec<_> = fast.summary.stretches.iter().filter(|stretch| !stretch.audited).collect();
    assert!(skipped.len() >= 3, "{skipped:?}");
    for change in [200.0, 400.0] {
        assert!(
            skipped.iter().all(|stretch| change <= stretch.from_s || stretch.until_s <= change),
            "{skipped:?}"
        );
    }
    let lost = |outcome: &warpline_lab::run::RunOutcome| outcome.link("a>b").drops_loss as f64;
    close(lost(&fast), lost(&exact), 1e-3);
    assert_eq!(lost(&exact), 50_000.0);
}
