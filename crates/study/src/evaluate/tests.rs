//! Evaluations of what is known: the questions are asked of algorithms whose answers are in the literature.

use std::collections::BTreeSet;

use super::*;

fn criterion(name: &str) -> Criterion {
    *CRITERIA
        .iter()
        .chain(BY_NAME)
        .find(|criterion| criterion.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

fn verdict(name: &str, cc: &str) -> (Verdict, String) {
    let plan = Plan {
        cc: cc.to_owned(),
        criteria: vec![criterion(name)],
        quick: true,
        seeds: 1,
        guests: false,
        options: RunOptions::default(),
    };
    let evaluation = evaluate(&plan, &|_| Control::Continue).unwrap_or_else(|error| panic!("{error}"));
    (evaluation.criteria[0].verdict(), evaluation.render(true))
}

#[test]
fn every_trial_is_a_valid_scenario_with_a_name_of_its_own_and_each_question_has_a_quick_one() {
    let mut names = BTreeSet::new();
    for criterion in CRITERIA.iter().chain(BY_NAME) {
        assert!(!criterion.trials("reno", true).is_empty(), "{}", criterion.name);
        for trial in criterion.trials("reno", false) {
            for ScenarioFile { file, text } in trial.scenarios(criterion) {
                assert!(names.insert(file), "{} is there twice", trial.name(criterion));
                let scenario = Scenario::from_toml(criterion.name, &text, &[]);
                assert!(scenario.is_ok(), "{}: {}", trial.name(criterion), scenario.unwrap_err());
            }
            let compared = |figure: &Figure| figure.bound.margin(1.0, None) == f64::NEG_INFINITY;
            assert_eq!(
                trial.figures.iter().any(compared),
                trial.baseline.is_some(),
                "{}",
                trial.name(criterion)
            );
        }
    }
}

#[test]
fn a_wrong_algorithm_is_told_without_a_trial_that_nobody_wrote() {
    let told = |cc: &str| {
        let plan = Plan {
            cc: cc.to_owned(),
            criteria: vec![criterion("itself")],
            quick: true,
            seeds: 1,
            guests: false,
            options: RunOptions::default(),
        };
        evaluate(&plan, &|_| Control::Stop).unwrap_err().to_string()
    };
    for (cc, message, help) in [
        ("renno", "there is no congestion control `renno` for TCP", "did you mean `reno`?"),
        ("gcc", "there is no congestion control `gcc` for TCP", "allowed: reno, cubic, "),
        ("nice:treshold=1", "unknown key `treshold` of kind \"nice\"", "did you mean `threshold`?"),
        ("nice:threshold=9", "`threshold` is out of range: 9", "allowed: 0 to 1"),
    ] {
        let told = told(cc);
        assert!(told.starts_with(&format!("error: {message}\n")), "{cc}: {told}");
        assert!(told.contains(help) && !told.contains("-->") && !told.contains("key: "), "{cc}: {told}");
        assert!(!told.contains("scream") && !told.contains("2 errors"), "{cc}: {told}");
    }
    // What is right gets as far as the first run.
    assert_eq!(told("nice:threshold=0.1"), EvaluateError::Stopped.to_string());
}

#[test]
fn the_standard_algorithm_is_as_good_as_itself() {
    for name in ["queueing", "losses", "random-losses", "real-time", "aqm", "data-centre"] {
        let (verdict, text) = verdict(name, "cubic");
        assert_eq!(verdict, Verdict::Met, "{text}");
    }
}

#[test]
fn a_fixed_window_neither_backs_off_nor_shares() {
    let (backoff, text) = verdict("losses", "fixed:segments=400");
    assert_eq!(backoff, Verdict::Missed, "{text}");
    let (coexistence, text) = verdict("coexistence", "fixed:segments=400");
    assert_eq!(coexistence, Verdict::Missed, "{text}");
}

#[test]
fn vegas_keeps_queues_short_and_gives_way() {
    let (queueing, text) = verdict("queueing", "vegas");
    assert_eq!(queueing, Verdict::Met, "{text}");
    // Low and Wang 2002: beside Reno it starves.
    let (coexistence, text) = verdict("coexistence", "vegas");
    assert_eq!(coexistence, Verdict::Missed, "{text}");
}

#[test]
fn who_counts_bytes_is_not_misled_by_false_acks_and_who_goes_by_losses_is_by_hidden_ones() {
    // RFC 5681 section 3.1.
    for (cc, expected) in [("cubic", Verdict::Met), ("reno:counting=acks", Verdict::Missed)] {
        let (verdict, text) = verdict("false-acks", cc);
        assert_eq!(verdict, expected, "{text}");
    }
    // BBR goes by the rate at which data arrives.
    for (cc, expected) in [("cubic", Verdict::Missed), ("bbr", Verdict::Met)] {
        let (verdict, text) = verdict("hidden-congestion", cc);
        assert_eq!(verdict, expected, "{text}");
    }
}

#[test]
fn coupled_subflows_meet_the_goals_of_rfc_6356_and_uncoupled_ones_do_not() {
    for (cc, expected) in [("lia", Verdict::Met), ("olia", Verdict::Met), ("reno", Verdict::Missed)] {
        let (verdict, text) = verdict("several-paths", cc);
        assert_eq!(verdict, expected, "{text}");
    }
}

#[test]
fn an_evaluation_that_is_stopped_says_so() {
    let plan = Plan {
        cc: "reno".to_owned(),
        criteria: CRITERIA.to_vec(),
        quick: true,
        seeds: 1,
        guests: false,
        options: RunOptions::default(),
    };
    assert!(matches!(evaluate(&plan, &|_| Control::Stop), Err(EvaluateError::Stopped)));
}

#[test]
fn verdicts_heed_the_noise_between_seeds() {
    assert_eq!(Verdict::of(&[0.1]), Verdict::Met);
    assert_eq!(Verdict::of(&[-0.1]), Verdict::Missed);
    assert_eq!(Verdict::of(&[0.1, 0.11, 0.12]), Verdict::Met);
    assert_eq!(Verdict::of(&[0.1, -0.3, 0.4]), Verdict::Open);
    assert_eq!(Verdict::of(&[-0.1, -0.11, -0.12]), Verdict::Missed);
    assert_eq!(Verdict::of(&[0.1, f64::NEG_INFINITY]), Verdict::Missed, "nothing was measured with one seed");
    assert_eq!(Verdict::of(&[]), Verdict::Missed);
}

#[test]
fn bounds_are_said_in_words_and_kept() {
    use warpline_results::Unit;

    let times = Bound::AtMostTimes { times: 2.0, plus: 5.0 };
    assert_eq!(times.words(Unit::Millisecond, Compared::Standard), "at most 2 times cubic's and 5.00 ms");
    assert_eq!((times.margin(10.0, Some(4.0)), times.margin(10.0, Some(1.0))), (3.0, -3.0));
    let least = Bound::AtLeastTimes { times: 0.5 };
    assert_eq!((least.margin(4.0, Some(4.0)), least.margin(1.0, Some(4.0))), (2.0, -1.0));
    assert_eq!(least.words(Unit::Second, Compared::WithoutIt), "at least 0.5 times that without it");
    let honest =
        Bound::AtMostTimes { times: 1.5, plus: 1e6 }.words(Unit::BitPerSecond, Compared::HonestReceiver);
    assert_eq!(honest, "at most 1.5 times that with an honest receiver and 1.00 Mbit/s");
    assert_eq!(Bound::AtLeast { limit: 0.9 }.words(Unit::Share, Compared::Standard), "at least 90.0 %");
    assert_eq!(Bound::AtMost { limit: 2.0 }.margin(f64::NAN, None), f64::NEG_INFINITY);
}
