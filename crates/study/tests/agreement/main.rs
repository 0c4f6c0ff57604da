//! Comparisons of the model with Linux whose results are made up, or in part, so that no guest is needed.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpline_net::Control;
use warpline_scenario::Scenario;
use warpline_study::agreement::{
    Advance, Agreement, AgreementError, Case, Compared, Plan, Size, Verdict, agree, cases, is_chosen,
    scenarios, subjects, words,
};

/// A short comparison of these on these paths, with two seeds.
fn plan(directory: &Path, names: &[&str], paths: &[&str]) -> Plan {
    let mut chosen = cases();
    chosen.retain(|case| names.contains(&case.subject()) && paths.contains(&case.path().as_str()));
    assert_eq!(chosen.len(), names.len() * paths.len());
    Plan {
        cases: chosen,
        size: Size { quick: true, seeds: 2 },
        kernel: "6.1.0".to_owned(),
        kernel_build: "linux-6.1.0-0123456789ab".to_owned(),
        program: "0-test".to_owned(),
        kept: directory.to_owned(),
        jobs: 1,
    }
}

/// Goodput in bit/s, queueing delay in milliseconds, and retransmitted share of a path.
type Figures = [f64; 3];

/// Writes a file with results of a scenario, as if it had run.
fn keep(plan: &Plan, (name, text): &(String, String), paths: &[Figures]) {
    let hash = Scenario::from_toml(name, text, &[]).unwrap().scenario_hash();
    let measured = |[goodput_bps, queue_delay_ms, retransmitted]: &Figures| serde_json::json!({ "goodput": goodput_bps, "queue_delay": queue_delay_ms, "retransmitted": retransmitted });
    let paths: Vec<_> = paths.iter().map(measured).collect();
    let ran = if name.ends_with("-linux") { plan.kernel_build.as_str() } else { "warpline-0-test" };
    write(plan, ran, name, &hash, &paths);
}

/// Writes a file with the results of a scenario's paths, as run by these builds.
fn write(plan: &Plan, ran: &str, name: &str, hash: &str, paths: &[serde_json::Value]) {
    let kept = serde_json::json!({ "scenario_hash": hash, "paths": paths });
    let digits: String = hash.trim_start_matches("sha256:").chars().take(16).collect();
    fs::create_dir_all(plan.kept.join(ran)).unwrap();
    fs::write(plan.kept.join(ran).join(format!("{name}-{digits}.json")), kept.to_string()).unwrap();
}

/// Compares made-up results: for each scenario of the plan, Linux's and the model's in turn, those of its paths.
fn made_up(plan: &Plan, results: &[&[Figures]]) -> Agreement {
    let scenarios = scenarios(plan);
    assert_eq!(scenarios.len(), results.len());
    for (scenario, paths) in scenarios.iter().zip(results) {
        keep(plan, scenario, paths);
    }
    agree(plan, &|advance| {
        assert_eq!(advance.done, advance.of, "all results are there");
        Control::Continue
    })
    .unwrap()
}

#[test]
fn every_case_has_a_name_of_its_own_and_valid_scenarios() {
    let all = Plan { cases: cases(), ..plan(Path::new(""), &[], &[]) };
    // 17 congestion controls on 72 paths, 8 queues on 9.
    let names: BTreeSet<String> = scenarios(&all).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2 * (17 * 72 + 8 * 9));
    let of_reno = |case: &Arc<dyn Case>| case.subject() == "reno";
    let on_a_path = |case: &Arc<dyn Case>| case.path() == "10Mbit/s 50ms 1% droptail";
    let of_a_queue = |case: &Arc<dyn Case>| !case.path().contains('%');
    let mut checked = cases();
    checked.retain(|case| of_reno(case) || on_a_path(case) || of_a_queue(case));
    let whole =
        Plan { cases: checked, size: Size { quick: false, seeds: 2 }, ..plan(Path::new(""), &[], &[]) };
    for (name, text) in scenarios(&whole) {
        let scenario = Scenario::from_toml(&name, &text, &[]).unwrap_or_else(|error| panic!("{error}"));
        // Without losses nothing of Reno is random.
        let networks = if name.contains("ms-0-") { 1 } else { 2 };
        let flows = if text.contains("small1") { 3 } else { 1 };
        assert_eq!(scenario.flow.len(), networks * flows, "{name}");
        assert!((20.0..=600.0).contains(&scenario.duration.0.as_secs_f64()), "{name}");
    }
    let of_bbr = plan(Path::new(""), &["bbr"], &["10Mbit/s 50ms 0% droptail"]);
    assert!(scenarios(&of_bbr)[0].1.contains("path2"), "BBR draws random numbers");
}

#[test]
fn words_choose_cases_by_each_property() {
    let chosen = |name: &str, only: &[&str]| {
        let only: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
        cases().into_iter().filter(|case| case.subject() == name && is_chosen(case.as_ref(), &only)).count()
    };
    let of = |only: &[&str]| (chosen("reno", only), chosen("cake", only));
    assert_eq!((of(&[]), of(&["50ms"]), of(&["50ms", "10ms"])), ((72, 9), (24, 3), (48, 6)));
    assert_eq!(of(&["50ms", "1%", "droptail", "10Mbit/s"]), (1, 0));
    let quick = |name| cases().into_iter().filter(|case| case.subject() == name && case.is_quick()).count();
    assert_eq!((quick("reno"), quick("cake")), (3, 1));
    assert_eq!((words().len(), subjects().count()), (12, 25));
}

/// Goodput, queueing delay, retransmissions, and the share of the host with one flow.
#[test]
fn the_figures_of_a_queue_are_those_of_its_traffic() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), &["cake"], &["10Mbit/s 50ms"]);
    let linux = scenarios(&plan).remove(0);
    let hash = Scenario::from_toml(&linux.0, &linux.1, &[]).unwrap().scenario_hash();
    let path =
        serde_json::json!({ "goodput": 9.5e6, "queue_delay": 5.0, "retransmitted": 0.01, "share": 0.5 });
    // The traffic before Linux's queue is the model's.
    write(&plan, "linux-6.1.0-0123456789ab-warpline-0-test", &linux.0, &hash, &[path.clone(), path]);
    let figures = agree(&plan, &|_| Control::Continue).unwrap().rows.remove(0).figures;
    let model: Vec<f64> = figures.iter().map(|figure| figure.model.mean).collect();
    let [goodput, delay, retransmitted, share] = model[..] else { panic!("{model:?}") };
    assert!((9.2e6..9.7e6).contains(&goodput), "{goodput}");
    // CAKE serves a sparse flow first, and each host alike: by flows, the share would be a quarter. One flow alone does not fill half of this path.
    assert!((0.0..2.0).contains(&delay) && (0.0..0.05).contains(&retransmitted), "{delay} {retransmitted}");
    assert!((share - 0.5).abs() < 0.1, "{share}");
    // So another build of the program has neither.
    let there = AtomicUsize::new(usize::MAX);
    let stopped = agree(&Plan { program: "0-other".to_owned(), ..plan }, &|advance| {
        there.store(advance.done, Ordering::Relaxed);
        Control::Stop
    });
    assert!(matches!(stopped, Err(AgreementError::Stopped)));
    assert_eq!(there.into_inner(), 0);
}

#[test]
fn verdicts_go_by_the_size_of_a_difference_and_then_by_chance() {
    let goodput = |linux: [f64; 2], model: [f64; 2]| -> Compared {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(directory.path(), &["reno"], &["10Mbit/s 50ms 1% droptail"]);
        let [linux, model] = [linux, model].map(|of| of.map(|goodput| [goodput, 1.0, 0.01]));
        made_up(&plan, &[&linux, &model]).rows[0].figures[0].clone()
    };
    assert_eq!(goodput([1e6, 1e6], [1.04e6, 1.04e6]).verdict, Verdict::Close);
    assert_eq!(goodput([1e6, 1e6], [0.92e6, 0.92e6]).verdict, Verdict::Near);
    // The same mean difference of 20 %, once in both pairs and once in one of them.
    let sure = goodput([1e6, 1.1e6], [1.21e6, 1.31e6]);
    assert_eq!((sure.verdict, sure.difference_percent.round()), (Verdict::Differs, 20.0));
    let chance = goodput([1e6, 1.1e6], [1e6, 1.52e6]);
    assert_eq!((chance.verdict, chance.difference_percent.round()), (Verdict::Chance, 20.0));
    // Differences of 10 % and 30 %: a deviation of 14.1 %, of which t(1) / sqrt(2) is 127 %.
    let known = goodput([1e6, 1e6], [1.1e6, 1.3e6]);
    assert!((known.ci95_percent.unwrap() - 127.06).abs() < 0.01, "{known:?}");
}

#[test]
fn small_queues_and_few_retransmissions_count_for_little() {
    let verdicts = |linux: Figures, model: Figures| -> Vec<Verdict> {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(directory.path(), &["reno"], &["10Mbit/s 50ms 0% droptail"]);
        made_up(&plan, &[&[linux], &[model]]).rows[0]
            .figures
            .iter()
            .map(|compared| compared.verdict)
            .collect()
    };
    // 0.4 ms of 50, and 4 packets in 10 000.
    assert_eq!(verdicts([1e6, 0.1, 0.0], [1e6, 0.5, 0.0004]), [Verdict::Close; 3]);
    let much = verdicts([1e6, 30.0, 0.02], [1e6, 34.0, 0.03]);
    assert_eq!(much, [Verdict::Close, Verdict::Differs, Verdict::Differs]);
}

/// A plan of a short cell for which Linux's results are there, and those of the model are not.
fn half_done(directory: &Path, names: &[&str]) -> Plan {
    let plan = plan(directory, names, &["2Mbit/s 10ms 3% droptail"]);
    for scenario in scenarios(&plan).iter().filter(|(name, _)| name.ends_with("-linux")) {
        keep(&plan, scenario, &[[1.5e6, 10.0, 0.03]; 2]);
    }
    plan
}

#[test]
fn what_is_kept_is_not_run_again_and_what_is_not_whole_is() {
    let directory = tempfile::tempdir().unwrap();
    let plan = half_done(directory.path(), &["reno"]);
    let runs = AtomicUsize::new(0);
    let compare = |plan: &Plan| {
        runs.store(0, Ordering::Relaxed);
        let agreement = agree(plan, &|advance| {
            runs.fetch_add(usize::from(!advance.name.is_empty()), Ordering::Relaxed);
            assert!(advance.share <= 1.0 && advance.of == 2);
            Control::Continue
        });
        (agreement.unwrap(), runs.load(Ordering::Relaxed))
    };
    let (first, made) = compare(&plan);
    assert_eq!(made, 1, "Linux's results were there");
    let goodput = &first.rows[0].figures[0];
    assert!((1.2e6..1.95e6).contains(&goodput.model.mean) && goodput.linux.mean == 1.5e6, "{goodput:?}");
    assert_eq!(compare(&plan), (first.clone(), 0));
    // Another build of the program runs the model again, and so does a file that is cut short.
    let other = Plan { program: "0-other".to_owned(), ..plan.clone() };
    assert_eq!(compare(&other), (first.clone(), 1));
    // Another build of the kernel, though it has the same version, has runs of its own.
    let rebuilt = Plan { kernel_build: "linux-6.1.0-ba9876543210".to_owned(), ..plan.clone() };
    let there = AtomicUsize::new(usize::MAX);
    let stopped = agree(&rebuilt, &|advance| {
        there.store(advance.done, Ordering::Relaxed);
        Control::Stop
    });
    assert!(matches!(stopped, Err(AgreementError::Stopped)));
    assert_eq!(there.into_inner(), 1, "those of the model");
    let of_model = directory.path().join("warpline-0-test");
    let file = fs::read_dir(&of_model).unwrap().next().unwrap().unwrap().path();
    let text = fs::read(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert_eq!(compare(&plan), (first, 1));
    assert_eq!(fs::read(&file).unwrap(), text);
}

#[test]
fn a_study_that_is_stopped_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let plan = half_done(directory.path(), &["reno", "cubic"]);
    // Linux's two runs are there; it is stopped when the model's first has ended.
    let stop = |advance: Advance<'_>| if advance.done > 2 { Control::Stop } else { Control::Continue };
    assert!(matches!(agree(&plan, &stop), Err(AgreementError::Stopped)));
    assert_eq!(fs::read_dir(directory.path().join("warpline-0-test")).unwrap().count(), 1);
    let begun_with = AtomicUsize::new(usize::MAX);
    let agreement = agree(&plan, &|advance| {
        begun_with.fetch_min(advance.done, Ordering::Relaxed);
        Control::Continue
    });
    assert_eq!((agreement.unwrap().rows.len(), begun_with.into_inner()), (2, 3));
}

#[test]
fn the_tables_show_verdicts_and_the_paths_that_differ_most() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(
        directory.path(),
        &["reno", "westwood"],
        &["10Mbit/s 50ms 0% droptail", "10Mbit/s 50ms 1% droptail"],
    );
    let agreement = made_up(
        &plan,
        &[
            &[[9.6e6, 25.0, 0.001]],
            &[[9.6e6, 25.1, 0.001]],
            &[[2.5e6, 0.1, 0.01], [2.6e6, 0.1, 0.01]],
            &[[2.0e6, 0.1, 0.01], [2.1e6, 0.1, 0.01]],
            &[[8e6, 0.0, 0.0]],
            &[[8.7e6, 0.0, 0.0]],
            &[[5e6, 10.0, 0.01], [5e6, 10.0, 0.01]],
            &[[5e6, 10.0, 0.01], [5e6, 14.0, 0.01]],
        ],
    );
    insta::assert_snapshot!("terminal", agreement.render());
    insta::assert_snapshot!("markdown", agreement.to_markdown());
    let json: serde_json::Value = serde_json::from_str(&agreement.to_json()).unwrap();
    let goodput = &json["rows"][1]["figures"][0];
    assert_eq!((&goodput["verdict"], &goodput["unit"]), (&"differs".into(), &"bit/s".into()));
}
