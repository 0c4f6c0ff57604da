//! Comparisons with results of Linux that are made up, so that no guest is needed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::judge::Figure;
use super::kept::Measured;
use super::*;

fn algorithm(name: &str) -> Algorithm {
    *ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap()
}

fn cell(name: &str) -> Cell {
    cells().into_iter().find(|cell| cell.name() == name).unwrap()
}

fn measured(goodput_bps: f64, queue_delay_ms: f64, retransmitted: f64) -> Measured {
    Measured { goodput_bps, queue_delay_ms, retransmitted }
}

#[test]
fn every_cell_has_a_name_of_its_own_and_valid_scenarios() {
    let names: BTreeSet<String> = cells().iter().map(Cell::name).collect();
    assert_eq!(names.len(), 72);
    let reno = algorithm("reno");
    let all = cells().into_iter().map(|cell| (reno, cell));
    let more = ALGORITHMS.iter().map(|algorithm| (*algorithm, cell("10Mbit/s 50ms 1% droptail")));
    for (algorithm, cell) in all.chain(more) {
        for stack in Stack::BOTH {
            let text = cell.scenario(&algorithm, stack, 2, false);
            let scenario = Scenario::from_toml(&cell.name(), &text, &[]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.flow.len() as u32, cell.paths(&algorithm, 2), "{}", cell.name());
            // As long as a hundred round trips, and the table has to be made in an hour.
            assert!((20.0..=600.0).contains(&scenario.duration.0.as_secs_f64()), "{}", cell.name());
        }
    }
    // Without losses nothing is random, except where the algorithm draws.
    let clean = cell("10Mbit/s 50ms 0% droptail");
    assert_eq!((clean.paths(&reno, 5), clean.paths(&algorithm("bbr"), 5)), (1, 5));
}

#[test]
fn words_choose_cells_by_each_property() {
    let chosen = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
        cells().into_iter().filter(|cell| cell.is_chosen(&only)).count()
    };
    assert_eq!((chosen(&[]), chosen(&["50ms"]), chosen(&["50ms", "10ms"])), (72, 24, 48));
    assert_eq!(chosen(&["50ms", "1%", "droptail", "10Mbit/s"]), 1);
    assert_eq!(cells().iter().filter(|cell| cell.is_quick()).count(), 3);
    assert_eq!(words().len(), 12);
}

#[test]
fn verdicts_go_by_the_size_of_a_difference_and_then_by_chance() {
    let cell = cell("10Mbit/s 50ms 1% droptail");
    let verdict = |linux: &[f64], model: &[f64]| {
        let of = |values: &[f64]| values.iter().map(|value| measured(*value, 1.0, 0.01)).collect::<Vec<_>>();
        let row = Row::new(&algorithm("reno"), &cell, &of(linux), &of(model));
        row.figures.into_iter().find(|compared| compared.figure == Figure::Goodput.name()).unwrap()
    };
    assert_eq!(verdict(&[1e6], &[1.04e6]).verdict, Verdict::Close);
    assert_eq!(verdict(&[1e6], &[0.92e6]).verdict, Verdict::Near);
    assert_eq!(verdict(&[1e6], &[1.2e6]).verdict, Verdict::Differs);
    // The same mean difference of 20 %, once in both pairs and once in one of them.
    let sure = verdict(&[1e6, 1.1e6], &[1.21e6, 1.31e6]);
    assert_eq!((sure.verdict, sure.difference_percent.round()), (Verdict::Differs, 20.0));
    let chance = verdict(&[1e6, 1.1e6], &[1e6, 1.52e6]);
    assert_eq!((chance.verdict, chance.difference_percent.round()), (Verdict::Chance, 20.0));
    // Differences of +10 % and +30 % of the mean: 20 % with a deviation of 14.1 %, of which t(1) / sqrt(2) is 127 %.
    let known = verdict(&[1e6, 1e6], &[1.1e6, 1.3e6]);
    assert!((known.ci95_percent.unwrap() - 127.06).abs() < 0.01, "{known:?}");
}

#[test]
fn small_queues_and_few_retransmissions_count_for_little() {
    let row = |linux, model| {
        Row::new(&algorithm("reno"), &cell("10Mbit/s 50ms 1% droptail"), &[linux], &[model]).figures
    };
    // 0.4 ms of 50, and 4 packets in 10 000.
    let little = row(measured(1e6, 0.1, 0.0), measured(1e6, 0.5, 0.0004));
    assert!(little.iter().all(|compared| compared.verdict == Verdict::Close), "{little:?}");
    let much = row(measured(1e6, 30.0, 0.02), measured(1e6, 34.0, 0.03));
    let verdicts: Vec<Verdict> = much.iter().map(|compared| compared.verdict).collect();
    assert_eq!(verdicts, [Verdict::Close, Verdict::Differs, Verdict::Differs]);
}

/// A plan of one short cell, and made-up results of Linux for it.
fn short(directory: &std::path::Path, names: &[&str]) -> Plan {
    let plan = Plan {
        algorithms: names.iter().map(|name| algorithm(name)).collect(),
        cells: vec![cell("2Mbit/s 10ms 3% droptail")],
        quick: true,
        seeds: 2,
        kernel: "6.1.0".to_owned(),
        program: "0-test".to_owned(),
        kept: directory.to_owned(),
        jobs: 1,
    };
    for own in &plan.algorithms {
        let name = plan.cells[0].file_name(own, Stack::Linux);
        let text = plan.cells[0].scenario(own, Stack::Linux, 2, true);
        let scenario_hash = Scenario::from_toml("linux", &text, &[]).unwrap().scenario_hash();
        let kept = Kept { scenario_hash, paths: vec![measured(1.5e6, 10.0, 0.03); 2] };
        Store(directory.to_owned()).keep("linux-6.1.0", &name, &kept).unwrap();
    }
    plan
}

#[test]
fn what_is_kept_is_not_run_again_and_what_is_not_whole_is() {
    let directory = tempfile::tempdir().unwrap();
    let plan = short(directory.path(), &["reno"]);
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
    assert!((1.2e6..1.9e6).contains(&goodput.model.mean) && goodput.linux.mean == 1.5e6, "{goodput:?}");
    assert_eq!(compare(&plan), (first.clone(), 0));
    // Another build of the program runs the model again.
    let other = Plan { program: "0-other".to_owned(), ..plan.clone() };
    assert_eq!(compare(&other), (first.clone(), 1));
    // So does a file that is cut short.
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
    let plan = short(directory.path(), &["reno", "cubic"]);
    // Linux's two runs are there; it is stopped when the model's first has ended.
    let stopped = agree(&plan, &|advance| if advance.done > 2 { Control::Stop } else { Control::Continue });
    assert!(matches!(stopped, Err(AgreementError::Stopped)));
    assert_eq!(fs::read_dir(directory.path().join("warpline-0-test")).unwrap().count(), 1);
    let begun_with = AtomicUsize::new(usize::MAX);
    let agreement = agree(&plan, &|advance| {
        begun_with.fetch_min(advance.done, Ordering::Relaxed);
        Control::Continue
    });
    assert_eq!((agreement.unwrap().rows.len(), begun_with.into_inner()), (2, 3));
}

#[test]
fn the_tables_show_verdicts_and_the_worst_cells() {
    let row = |name: &str, of: &str, linux: &[Measured], model: &[Measured]| {
        Row::new(&algorithm(name), &cell(of), linux, model)
    };
    let agreement = Agreement {
        kernel: "6.1.0".to_owned(),
        quick: false,
        seeds: 2,
        rows: vec![
            row("reno", "10Mbit/s 50ms 0% droptail", &[measured(9.6e6, 25.0, 0.001)], &[measured(9.6e6, 25.1, 0.001)]),
            row(
                "reno",
                "10Mbit/s 50ms 1% droptail",
                &[measured(2.5e6, 0.1, 0.01), measured(2.6e6, 0.1, 0.01)],
                &[measured(2.0e6, 0.1, 0.01), measured(2.1e6, 0.1, 0.01)],
            ),
            row("westwood", "50Mbit/s 200ms 0% droptail", &[measured(18e6, 0.0, 0.0)], &[measured(19.6e6, 0.0, 0.0)]),
        ],
    };
    insta::assert_snapshot!("terminal", agreement.render());
    insta::assert_snapshot!("markdown", agreement.to_markdown());
    let json: serde_json::Value = serde_json::from_str(&agreement.to_json()).unwrap();
    assert_eq!((&json["rows"][1]["figures"][0]["verdict"], &json["rows"][1]["figures"][0]["unit"]), (&"differs".into(), &"bit/s".into()));
}
