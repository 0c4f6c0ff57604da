//! Searches whose answer is known, and the counterexamples that the examples have found.

// Helpers of tests are not `#[test]` functions, where clippy.toml allows unwrap.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_scenario::search::SearchFile;
use warpline_scenario::{Scenario, Source};
use warpline_study::search::{EVALUATIONS_FILE, FOUND, Outcome, SearchError, SearchOptions, search};

/// 100 packets, from 3 s to 4 s.
const BASE: &str = r#"
duration = "10s"
[[link]]
between = ["a", "b"]
rate = "10Mbit/s"
delay = "5ms"
[[flow]]
name = "cbr"
app = "cbr"
rate = "1.2Mbit/s"
from = "a"
to = "b"
start = "3s"
stop = "4s"
"#;

fn file(body: &str) -> SearchFile {
    let base = Source::from_text("base.toml", BASE, Path::new(""));
    let text = format!("scenario = \"base.toml\"\n{body}\n");
    SearchFile::over("test.search.toml", &text, &base).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Outages; those that matter lie between 3 s and 4 s.
fn outages(count: u32, evaluations: u32) -> SearchFile {
    file(&format!(
        r#"
        maximise = "link[a>b].drops_down"
        evaluations = {evaluations}
        [vary]
        "link[a-b].down" = {{ list = {count}, of = {{ at = {{ from = "0s", to = "9s" }}, for = "500ms" }} }}
        "link[a-b].delay" = {{ from = "1ms", to = "20ms" }}
        "#
    ))
}

fn found(file: &SearchFile, options: &SearchOptions) -> Outcome {
    search(file, options, &|_| Control::Continue).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn into(directory: &Path, jobs: usize) -> SearchOptions {
    SearchOptions { jobs, out: Some(directory.to_owned()), ..SearchOptions::default() }
}

/// When the outages of a counterexample begin.
fn outages_of(sets: &[String]) -> Vec<f64> {
    let scenario = Scenario::from_toml("x", BASE, sets).unwrap();
    let down = scenario.link[0].options.down.clone().unwrap_or_default();
    down.iter().map(|down| down.at.0.as_secs_f64()).collect()
}

#[test]
fn the_optimum_is_found_and_what_does_not_matter_is_left_out() {
    let outcome = found(&outages(1, 200), &SearchOptions::default());
    let worst = outcome.worst.unwrap();
    assert_eq!(outcome.base, 0.0);
    // Half a second of the flow's packets, of which one may just have left.
    assert!((50.0..=51.0).contains(&worst.before), "{worst:?}");
    let begin = outages_of(&worst.sets);
    assert!(begin.len() == 1 && (2.9..=3.6).contains(&begin[0]), "{worst:?}");
    assert!(worst.value >= 45.0 && !worst.sets.iter().any(|set| set.contains("delay")), "{worst:?}");
}

#[test]
fn of_several_outages_those_stay_that_matter() {
    let outcome = found(&outages(4, 300), &SearchOptions::default());
    let worst = outcome.worst.unwrap();
    let begin = outages_of(&worst.sets);
    assert!(worst.before > 45.0 && !begin.is_empty(), "{worst:?}");
    assert!(begin.iter().all(|begin| (2.5..4.0).contains(begin)), "{worst:?}");
    assert!(!worst.sets.iter().any(|set| set.contains("delay")), "{worst:?}");
}

#[test]
fn any_number_of_cores_gives_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let texts = [1, 2].map(|jobs| {
        let out = directory.path().join(jobs.to_string());
        found(&outages(2, 60), &into(&out, jobs));
        [EVALUATIONS_FILE, "found.toml", "found/summary.json"].map(|name| fs::read(out.join(name)).unwrap())
    });
    assert!(texts[0] == texts[1]);
    let mut other = outages(2, 60);
    other.seed = 2;
    let out = directory.path().join("other");
    found(&other, &into(&out, 2));
    assert_ne!(fs::read(out.join(EVALUATIONS_FILE)).unwrap(), texts[0][0]);
}

#[test]
fn a_search_that_was_stopped_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, broken) = (directory.path().join("whole"), directory.path().join("broken"));
    let file = outages(2, 60);
    found(&file, &into(&whole, 1));
    let stop = |count| {
        move |advance: warpline_study::search::Advance| match advance.count < count {
            true => Control::Continue,
            false => Control::Stop,
        }
    };
    let stopped = search(&file, &into(&broken, 1), &stop(30)).unwrap();
    assert!(!stopped.complete && stopped.count >= 20, "{stopped:?}");
    let refused = search(&file, &into(&broken, 1), &|_| Control::Continue);
    assert!(matches!(refused, Err(SearchError::Exists(_))), "{refused:?}");
    let resume = SearchOptions { resume: true, ..into(&broken, 1) };
    let other = search(&outages(3, 60), &resume, &|_| Control::Continue);
    assert!(matches!(other, Err(SearchError::Occupied(_))), "{other:?}");
    assert!(found(&file, &resume).complete);
    let read = |directory: &PathBuf| fs::read_to_string(directory.join(EVALUATIONS_FILE)).unwrap();
    assert_eq!(read(&whole), read(&broken));
}

#[test]
fn a_counterexample_passes_and_shows_the_harm() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let outcome = found(&outages(1, 60), &into(&out, 0));
    let scenario = Scenario::load(&outcome.worst.unwrap().file.unwrap(), &[]).unwrap();
    assert_eq!(scenario.name, format!("base-{FOUND}"));
    let failures = |scenario: &Scenario| {
        run(scenario, &RunOptions::default(), &mut |_| Control::Continue).unwrap().failures
    };
    assert_eq!(failures(&scenario), [""; 0]);
    let mut spared = scenario.clone();
    spared.link[0].options.down = None;
    let missed = failures(&spared);
    assert!(missed[0].starts_with("expected link[a>b].drops_down >= "), "{missed:?}");
}

#[test]
fn a_counterexample_expects_its_harm_and_not_what_the_harm_breaks() {
    let text = format!("expect = [\"link[a>b].drops_down <= 0\"]\n{BASE}");
    let base = Source::from_text("base.toml", &text, Path::new(""));
    let outage = outages(1, 60);
    let file = SearchFile::over("test.search.toml", outage.text(), &base).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let outcome = found(&file, &into(&directory.path().join("out"), 0));
    let scenario = Scenario::load(&outcome.worst.unwrap().file.unwrap(), &[]).unwrap();
    assert_eq!(scenario.expect.len(), 1, "{:?}", scenario.expect);
    assert_eq!(unmet(&scenario), [""; 0]);
}

/// Each point is worse than the scenario as it is, in which the link carries all that is sent.
#[test]
fn the_worst_point_of_a_step_that_is_stopped_is_kept() {
    let file = file(
        r#"
        minimise = "flow.cbr.delivered_bytes"
        evaluations = 8
        population = 8
        [vary]
        "link[a-b].rate" = { from = "20kbit/s", to = "100kbit/s" }
        "#,
    );
    // That of the scenario as it is, and four of the eight.
    let stop = |advance: warpline_study::search::Advance| match advance.count < 5 {
        true => Control::Continue,
        false => Control::Stop,
    };
    let stopped = search(&file, &SearchOptions { jobs: 1, ..SearchOptions::default() }, &stop).unwrap();
    assert!(!stopped.complete && stopped.count == 5, "{stopped:?}");
    assert!(stopped.worst.as_ref().is_some_and(|worst| worst.value < stopped.base), "{stopped:?}");
}

#[test]
fn what_another_program_has_measured_is_measured_again() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let file = outages(1, 20);
    let with = |build: &str, resume| SearchOptions {
        build: build.to_owned(),
        resume,
        note: Some(note),
        ..into(&out, 1)
    };
    assert_eq!(found(&file, &with("one", false)).base, 0.0);
    // Another value in the record is what a search shows that goes on from it.
    let record = out.join(EVALUATIONS_FILE);
    let text = fs::read_to_string(&record).unwrap();
    assert!(text.contains("\n1,base,0,"), "{text}");
    fs::write(&record, text.replace("\n1,base,0,", "\n1,base,7,")).unwrap();
    assert_eq!(found(&file, &with("one", true)).base, 7.0);
    let kept = || {
        let names =
            fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("evaluations-")).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(kept().is_empty() && NOTES.lock().unwrap().is_empty());
    // As if it had found something.
    fs::write(out.join("found.toml"), "of one").unwrap();
    assert_eq!(found(&file, &with("two", true)).base, 0.0);
    // What the other has measured is kept, also when there are several, and it is said.
    assert!(fs::read_to_string(out.join("evaluations-before.csv")).unwrap().contains("\n1,base,7,"));
    assert_eq!(fs::read_to_string(out.join("found-before.toml")).unwrap(), "of one");
    assert!(!out.join("found.toml").exists());
    assert!(NOTES.lock().unwrap()[0].ends_with("evaluations-before.csv"), "{:?}", NOTES.lock().unwrap());
    assert_eq!(found(&file, &with("three", true)).base, 0.0);
    assert!(kept().iter().eq(["evaluations-before-2.csv", "evaluations-before.csv"]), "{:?}", kept());
    assert_eq!(NOTES.lock().unwrap().len(), 2);
}

/// What was noted in the test before.
static NOTES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

fn note(text: &str) {
    NOTES.lock().unwrap().push(text.to_owned());
}

#[test]
fn a_measure_can_be_divided_by_what_it_is_elsewhere() {
    let file = file(
        r#"
        minimise = "flow.cbr.delivered_bytes"
        evaluations = 20
        population = 4
        [vary]
        "link[a-b].rate" = { from = "50kbit/s", to = "10Mbit/s", scale = "log" }
        [against]
        "flow.cbr.rate" = "100kbit/s"
        "#,
    );
    let outcome = found(&file, &SearchOptions::default());
    // 1.2 Mbit/s are twelve times as much as 100 kbit/s, if the link takes them.
    assert!((10.0..=12.5).contains(&outcome.base), "{outcome:?}");
    assert!(outcome.worst.unwrap().value < 12.0);
}

#[test]
fn wrong_measures_are_told_at_their_place() {
    let wrong = |measure: &str| {
        let file = file(&format!("minimise = \"{measure}\"\nvary = {{ seed = {{ from = 1, to = 9 }} }}"));
        search(&file, &SearchOptions::default(), &|_| Control::Continue).unwrap_err().to_string()
    };
    let speed = wrong("flow.cbr.speed");
    assert!(speed.contains("a flow has no column `speed`\n --> test.search.toml:2:12"), "{speed}");
    assert!(speed.contains("help: its columns: flows, goodput_bps, "), "{speed}");
    insta::assert_snapshot!(wrong("flow.bulk.goodput"));
    insta::assert_snapshot!(wrong("flow.cbr.completion_mean"));
}

/// A search over seeds for what makes a measure small.
fn over_seeds(measure: &str) -> SearchFile {
    let vary = "vary = { seed = { from = 1, to = 9 } }";
    file(&format!("minimise = \"{measure}\"\nevaluations = 4\npopulation = 4\n{vary}"))
}

#[test]
fn a_search_with_a_wrong_measure_leaves_nothing_that_the_mended_one_meets() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    // The first is known to be wrong after a run, and the second has no value there.
    for wrong in ["flow.nope.goodput", "flow.cbr.completion_mean"] {
        for resume in [false, true] {
            let options = SearchOptions { resume, ..into(&out, 1) };
            let refused = search(&over_seeds(wrong), &options, &|_| Control::Continue);
            assert!(matches!(refused, Err(SearchError::Scenario(_))), "{wrong}: {refused:?}");
            assert!(!out.exists(), "{wrong}");
        }
    }
    assert!(found(&over_seeds("flow.cbr.goodput"), &into(&out, 1)).complete);
    assert!(out.join("made-by").exists());
}

#[test]
fn a_search_that_was_stopped_in_its_first_run_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let stopped = search(&over_seeds("flow.cbr.goodput"), &into(&out, 1), &|_| Control::Stop);
    assert!(matches!(stopped, Err(SearchError::Stopped)), "{stopped:?}");
    assert!(!out.exists());
}

#[test]
fn only_what_a_search_left_that_measured_nothing_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let file = over_seeds("flow.cbr.goodput");
    let begin = |left: &[(&str, &str)]| {
        let out = tempfile::tempdir_in(directory.path()).unwrap();
        left.iter().for_each(|(name, text)| fs::write(out.path().join(name), text).unwrap());
        let begun = search(&file, &into(out.path(), 1), &|_| Control::Continue);
        let as_it_was = left
            .iter()
            .all(|(name, text)| fs::read_to_string(out.path().join(name)).is_ok_and(|now| now == *text));
        (begun, as_it_was)
    };
    let (made_by, searched) = (("made-by", "another"), ("search.toml", "another"));
    let head = (EVALUATIONS_FILE, "evaluation,phase,value,builds,seed\n");
    for left in [&[made_by][..], &[made_by, searched], &[made_by, searched, head]] {
        let (begun, _) = begin(left);
        assert!(begun.is_ok_and(|outcome| outcome.complete), "{left:?}");
    }
    let measured = (EVALUATIONS_FILE, "evaluation,phase,value,builds,x\n1,base,7,,\n");
    for left in [&[searched][..], &[head], &[made_by, searched, measured], &[made_by, ("notes.txt", "mine")]]
    {
        let (begun, as_it_was) = begin(left);
        assert!(matches!(begun, Err(SearchError::Occupied(_))), "{left:?}: {begun:?}");
        assert!(as_it_was, "{left:?}");
    }
}

/// The examples in `scenarios/search`.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/search")
}

/// What a scenario expects and its results do not have.
fn unmet(scenario: &Scenario) -> Vec<String> {
    // Stalls are measured from the samples of tables.
    let options = RunOptions { tables: true, ..RunOptions::default() };
    run(scenario, &options, &mut |_| Control::Continue).unwrap().failures
}

#[test]
fn the_counterexamples_of_the_examples_show_their_harm() {
    for name in ["bbr-starvation", "bbr-stall", "nice-slowdown"] {
        let load =
            |ending: &str| Scenario::load(&examples().join(format!("{name}{ending}.toml")), &[]).unwrap();
        let search = SearchFile::load(&examples().join(format!("{name}.search.toml"))).unwrap();
        let found = load(".found");
        assert_eq!(unmet(&found), [""; 0], "{name}");
        // Without what was found there is no harm.
        let spared = match search.against.is_empty() {
            true => Scenario { expect: found.expect.clone(), ..load("") },
            false => Scenario { expect: found.expect.clone(), ..load(".found-against") },
        };
        assert_eq!(unmet(&spared).len(), 1, "{name}");
    }
    assert_eq!(
        unmet(&Scenario::load(&examples().join("nice-slowdown.found-against.toml"), &[]).unwrap()),
        [""; 0]
    );
}
