//! Mistakes in scenarios that are all told at once, and with the right words.

// Helpers of tests are not `#[test]` functions, where clippy.toml allows unwrap.
#![allow(clippy::unwrap_used)]

use warpline_scenario::Scenario;

/// Two links in a row, and what happens on them in the ten seconds of a run.
const TEXT: &str = r#"
duration = "10s"
[[link]]
between = ["a", "r"]
rate = "10Mbit/s"
[[link]]
between = ["r", "b"]
rate = "10Mbit/s"
[[flow]]
from = "a"
to = "b"
"#;

/// The messages of the errors with these changes, in their order.
fn messages(sets: &[&str]) -> Vec<String> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let errors = Scenario::from_toml("test.toml", TEXT, &sets).unwrap_err();
    errors.errors.into_iter().map(|error| error.message).collect()
}

/// The text of all errors with this change.
fn told(set: &str) -> String {
    Scenario::from_toml("test.toml", TEXT, &[set.to_owned()]).unwrap_err().to_string()
}

fn loads(set: &str) -> Scenario {
    Scenario::from_toml("test.toml", TEXT, &[set.to_owned()]).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_value_that_cannot_be_read_hides_no_other_mistake() {
    for (wrong, message) in [
        ("link.1.jitter=uniform,max=-1ms", "`max` cannot be \"-1ms\""),
        ("link.1.down=[{ at = \"x\", for = \"1s\" }]", "`at` cannot be \"x\""),
        ("link.1.radio={ kind = \"wifi\", rate = 7 }", "`rate` must be a string"),
        ("link.1.loss={ kind = \"gilbert-elliott\" }", "`loss` has no `good_to_bad`"),
        ("change=[{ at = \"soon\", link = \"a-r\", down = true }]", "`at` cannot be \"soon\""),
        ("topology.kind=ring", "`kind` cannot be \"ring\""),
        ("flow.0.cc={ kind = \"custom\", name = 7 }", "`name` must be a string"),
        ("expect=[5]", "entry 0 of `expect` must be a string"),
    ] {
        let found = messages(&[wrong, "warmup=99s"]);
        assert!(found.iter().any(|found| found.contains(message)), "{wrong}: {found:?}");
        assert!(
            found.iter().any(|found| found.contains("`warmup` (99s) leaves nothing")),
            "{wrong}: {found:?}"
        );
    }
}

#[test]
fn what_only_follows_from_a_mistake_is_not_told() {
    for sets in [
        // A link without its rate, or without the schedule that repeats.
        &[
            "link.1={ between = [\"r\", \"b\"], schedule = [{ at = 5, rate = \"1Mbit/s\" }], repeat = \"5s\" }",
        ][..],
        // Names of nodes that a topology would have made.
        &["topology={ kind = \"ring\" }", "flow.0.from=left.0", "host=[{ name = \"left.0\" }]"],
        &["topology={ kind = \"ring\" }", "change=[{ at = \"1s\", link = \"left.0-r1\", down = true }]"],
        // A program that others wait for.
        &[
            "clock.mode=real",
            "flow=[]",
            "host=[{ name = \"a\", endpoint = \"live\", program = [{ name = \"server\", command = 7 }] }]",
            "until=server exits",
        ],
    ] {
        let found = messages(sets);
        assert_eq!(found.len(), 1, "{sets:?}: {found:?}");
    }
}

#[test]
fn what_would_do_nothing_or_never_end_is_refused() {
    for (sets, message) in [
        (&["flow.0.tcp={ sack = false, rack = true }"][..], "`rack` goes by SACK, which is off here"),
        (&["flow.0.tcp={ sack = false, tlp = true }"], "`tlp` goes by SACK, which is off here"),
        (&["sample_interval=1ns"], "`sample_interval` (1ns) is for more than 10000000 samples"),
        (&["flow.0.app=media", "flow.0.transport=tcp"], "app = \"media\" cannot run over TCP"),
    ] {
        let found = messages(sets);
        assert!(found[0].starts_with(message), "{sets:?}: {found:?}");
    }
    for fine in ["flow.0.tcp={ sack = false }", "flow.0.tcp={ rack = true }", "sample_interval=1us"] {
        loads(fine);
    }
}

#[test]
fn a_link_that_is_there_twice_is_told_beside_its_other_mistakes() {
    let found = messages(&["link.1.between=[\"a\", \"r\"]", "link.1.loss=5", "flow.0.to=r"]);
    assert!(found.iter().any(|found| found == "there is already a link `a>r`"), "{found:?}");
    assert!(found.iter().any(|found| found.starts_with("`loss` ")), "{found:?}");
    let one_way = told("link.1={ from = \"r\", to = \"a\", rate = \"1Mbit/s\" }");
    assert!(one_way.contains("already a link `r>a`") && one_way.contains("= key: link.1.to"), "{one_way}");
}

#[test]
fn numbers_out_of_range_are_told_exactly() {
    for (seed, shown) in [
        ("18446744073709551616", "18446744073709551616"),
        ("9223372036854775808", "9223372036854775808"),
        ("-1", "-1"),
    ] {
        let told = told(&format!("seed={seed}"));
        assert!(told.contains(&format!("`seed` is out of range: {shown}\n")), "{told}");
        assert_eq!(told.contains("allowed: 0 to 9223372036854775807"), seed != "-1", "{told}");
    }
    assert_eq!(loads("seed=9223372036854775807").seed, 9_223_372_036_854_775_807);
    // In a change a quantity needs no quotation marks, whatever TOML takes it for.
    assert_eq!(loads("link.0.rate=1_000Mbit/s").link[0].options.rate, "1Gbit/s".parse().ok());
    assert_eq!(loads("link.0.delay=1_0ms").link[0].options.delay, "10ms".parse().ok());
    let odd = told("link.0.rate=0x");
    assert!(odd.contains("`rate` cannot be \"0x\"") && !odd.contains("NaN"), "{odd}");
    let infinite = told("duration=inf");
    assert!(infinite.contains("not the number inf") && !infinite.contains("null"), "{infinite}");
}

#[test]
fn a_link_must_be_able_to_carry_something_and_an_outage_takes_time() {
    for (set, message, path) in [
        ("link.1.down=[{ at = \"1s\", for = \"0s\" }]", "`for` must be above zero", "link.1.down.0.for"),
        (
            "link.0.schedule=[{ at = \"0s\", rate = \"0\" }]",
            "a link that always has rate 0 never sends anything",
            "link.0.schedule",
        ),
    ] {
        let told = told(set);
        assert!(told.contains(&format!("error: {message}\n")), "{set}: {told}");
        assert!(told.contains(&format!("= key: {path}\n")), "{set}: {told}");
        assert!(!told.contains("2 errors"), "{set}: {told}");
    }
    for set in [
        // A run may be cut short: what comes after it is left out.
        "link.1.down=[{ at = \"9999ms\", for = \"1h\" }, { at = \"2h\", for = \"1s\" }]",
        "link.0.schedule=[{ at = \"20s\", rate = \"2Mbit/s\" }]",
        "link.0.delays=[{ at = \"20s\", delay = \"2ms\" }]",
        // At first it has its own rate.
        "link.0.schedule=[{ at = \"5s\", rate = \"0\" }]",
    ] {
        loads(set);
    }
}

#[test]
fn a_name_that_is_too_long_is_told_so() {
    let told = told(&format!("name={}", "x".repeat(101)));
    assert!(told.contains("the name is too long: it has 101 bytes"), "{told}");
    assert!(told.contains("allowed: at most 100") && !told.contains("letters"), "{told}");
    assert_eq!(loads(&format!("name={}", "x".repeat(100))).name.len(), 100);
}

#[cfg(unix)]
#[test]
fn a_device_without_an_end_is_no_scenario() {
    let told = Scenario::load("/dev/zero".as_ref(), &[]).unwrap_err().to_string();
    assert!(told.contains("/dev/zero has more than 268435456 bytes, and is no scenario"), "{told}");
}
