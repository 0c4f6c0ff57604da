//! Scenario files as users see them: the examples load and fit the schema, bad files give every error with its place, and no
//! text makes the reader panic.

// Helpers of tests are not `#[test]` functions, where clippy.toml allows unwrap.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use warpline_scenario::{Flow, LARGEST_SEED, Pattern, Scenario, json_schema};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn toml_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario in {}", directory.display());
    files
}

fn examples() -> Vec<PathBuf> {
    toml_files(&root().join("scenarios"))
}

/// The errors of `path` without the directory, so that snapshots are the same everywhere.
fn errors_of(path: &Path, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let text = Scenario::load(path, &sets).unwrap_err().to_string();
    let directory = format!("{}{}", path.parent().unwrap().display(), std::path::MAIN_SEPARATOR);
    text.replace(&directory, "")
}

#[test]
fn every_example_loads_and_is_named_after_its_file() {
    for path in examples() {
        let scenario = Scenario::load(&path, &[]).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(Some(scenario.name.as_str()), path.file_stem().and_then(|s| s.to_str()));
        let expanded = scenario.expand();
        let subflows = |flow: &Flow| flow.multipath.as_ref().map_or(1, |own| own.paths.len() as u32);
        let wanted: u32 = scenario.flow.iter().map(|flow| flow.count * subflows(flow)).sum();
        // Some patterns count rounds.
        let rounds = |flow: &Flow| matches!(flow.pattern(), Pattern::Permutation | Pattern::AllToAll);
        let plain = !scenario.flow.iter().any(rounds);
        let wanted = if plain { wanted as usize } else { expanded.flows.len().max(wanted as usize) };
        assert_eq!(expanded.flows.len(), wanted, "{}", path.display());
    }
}

#[test]
fn every_example_fits_the_schema() {
    let validator = jsonschema::validator_for(json_schema()).unwrap();
    for path in examples() {
        let text = std::fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = toml::from_str(&text).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        // What is written out fits, too.
        let scenario = Scenario::load(&path, &[]).unwrap();
        assert!(validator.is_valid(&scenario.to_json()), "{}", path.display());
    }
}

#[test]
fn a_scenario_survives_toml_and_json() {
    for path in examples() {
        let scenario = Scenario::load(&path, &[]).unwrap();
        let mut again = Scenario::from_json(scenario.to_json(), &[], &scenario.directory).unwrap();
        assert_eq!(again, scenario);
        let text = scenario.to_toml();
        let copy = tempfile::tempdir().unwrap();
        let file = copy.path().join("copy.toml");
        std::fs::write(&file, &text).unwrap();
        if !text.contains("trace =") {
            again = Scenario::load(&file, &[]).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
            again.directory.clone_from(&scenario.directory);
            assert_eq!(again, scenario, "{text}");
            assert_eq!(again.to_toml(), text);
        }
        assert_eq!(again.scenario_hash(), scenario.scenario_hash());
    }
}

#[test]
fn the_hash_depends_on_what_matters_only() {
    let path = root().join("scenarios/dumbbell.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let hash = |text: &str| Scenario::from_toml("dumbbell.toml", text, &[]).unwrap().scenario_hash();
    assert_eq!(hash(&text), hash(&format!("# A comment.\n{text}")));
    assert_eq!(hash(&text), hash(&text.replace("\"60s\"", "\"1min\"")));
    assert_ne!(hash(&text), hash(&text.replace("20Mbit/s", "21Mbit/s")));
    assert!(hash(&text).starts_with("sha256:") && hash(&text).len() == 7 + 64);
}

#[test]
fn a_normalised_scenario_is_readable() {
    let scenario = Scenario::load(&root().join("scenarios/dumbbell.toml"), &[]).unwrap();
    insta::assert_snapshot!("normalised", scenario.to_toml());
}

#[test]
fn all_errors_of_a_bad_file_are_reported() {
    for path in toml_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad")) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        insta::assert_snapshot!(format!("bad_{name}"), errors_of(&path, &[]));
    }
}

#[test]
fn a_table_in_place_of_a_list_is_explained() {
    let told = |text: &str, set: &[&str]| {
        let sets: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        Scenario::from_toml("list.toml", text, &sets).unwrap_err().to_string()
    };
    let dumbbell = std::fs::read_to_string(root().join("scenarios/dumbbell.toml")).unwrap();
    let found = told(&dumbbell, &["link[r1-r2].rate=5Mbit/s"]);
    for part in ["has no [[link]]", "topology.bottleneck.rate"] {
        assert!(found.contains(part), "{found}");
    }
    let found = told(&dumbbell, &["change.0.at=1s"]);
    assert!(found.contains("has no [[change]]") && !found.contains("topology"), "{found}");
    let found = told("[link]\nbetween = [\"a\", \"b\"]\n", &[]);
    assert!(found.contains("write [[link]] in place of [link]"), "{found}");
}

#[test]
fn for_a_missing_file_the_nearest_names_are_suggested() {
    let text = errors_of(&root().join("scenarios/dumbell.toml"), &[]);
    assert!(text.contains("cannot read dumbell.toml"), "{text}");
    assert!(text.contains("did you mean dumbbell.toml?"), "{text}");
}

#[test]
fn set_changes_keys_and_reports_where_it_cannot() {
    let path = root().join("scenarios/lossy-wifi.toml");
    let sets = [
        "duration=10s",
        "seed=7",
        "link[server-ap].rate=1Gbit/s",
        "link.radio.queue.target = 10ms",
        "flow.download.cc=nice",
        "flow.call.record=[]",
        "flow.0.cc.threshold=0.1",
    ];
    let scenario = Scenario::load(&path, &sets.map(str::to_owned)).unwrap_or_else(|e| panic!("{e}"));
    let json = scenario.to_json();
    assert_eq!((&json["duration"], &json["seed"]), (&"10s".into(), &7.into()));
    assert_eq!(json["link"][0]["rate"], "1Gbit/s");
    assert_eq!(json["link"][1]["queue"]["target"], "10ms");
    assert_eq!(json["flow"][0]["cc"], serde_json::json!({"kind": "nice", "threshold": 0.1}));
    let bad = [
        "duration",
        "=3",
        "flow.downlaod.cc=nice",
        "link.7.rate=1Mbit/s",
        "flow.download.cc=niece",
        "durration=10s",
        "link[radio.rate=1Mbit/s",
        "link.radio.rate=[1",
        "seed=-1",
        "seed.x=3",
    ];
    insta::assert_snapshot!("bad_set", errors_of(&path, &bad));
}

#[test]
fn errors_of_python_objects_are_located_by_key() {
    let value =
        serde_json::json!({"name": "x", "duration": 5, "flow": [{"from": "a", "too": "b", "cc": null}]});
    let errors = Scenario::from_json(value, &[], Path::new("")).unwrap_err();
    insta::assert_snapshot!("bad_json", errors.to_string());
}

/// What TOML cannot have is refused, so that no scenario is written without it.
#[test]
fn seeds_end_where_the_integers_of_toml_do() {
    let read = |seed: u64, plan: serde_json::Value| {
        let value = serde_json::json!({
            "name": "x",
            "duration": "1s",
            "seed": seed,
            "replications": plan,
            "link": [{"between": ["a", "b"], "rate": "1Mbit/s"}],
            "flow": [{"from": "a", "to": "b"}],
        });
        Scenario::from_json(value, &[], Path::new("")).map_err(|errors| errors.to_string())
    };
    let one = serde_json::json!({"runs": 1});
    let last = read(LARGEST_SEED, one.clone()).unwrap();
    assert_eq!(Scenario::from_toml("again.toml", &last.to_toml(), &[]).unwrap(), last);
    for (wrong, part) in [
        (read(LARGEST_SEED + 1, one.clone()), "`seed` is out of range"),
        (read(u64::MAX, one), "`seed` is out of range"),
        (read(1, serde_json::json!({"seeds": [1, LARGEST_SEED + 1]})), "out of range"),
        (read(LARGEST_SEED, serde_json::json!({"runs": 2})), "there are not so many seeds from"),
    ] {
        let told = wrong.unwrap_err();
        assert!(told.contains(part), "{part}: {told}");
    }
    // One that was not checked is not written as an empty file.
    let text = Scenario { seed: u64::MAX, ..last }.to_toml();
    assert!(text.contains("cannot be written as TOML"), "{text}");
}

#[test]
fn only_the_first_fifty_errors_are_shown() {
    let mut text = "duration = \"1s\"\n".to_owned();
    for i in 0..80 {
        text += &format!("key{i} = 1\n");
    }
    let errors = Scenario::from_toml("many.toml", &text, &[]).unwrap_err();
    assert_eq!(errors.errors.len(), 50);
    assert!(errors.omitted >= 30);
    assert!(errors.to_string().ends_with("of them not shown"));
}

#[test]
fn deep_nesting_is_an_error_and_does_not_overflow_the_stack() {
    let many = 100_000;
    let texts = [
        format!("x = {}", "[".repeat(many)),
        format!("x = {}{}", "[".repeat(many), "]".repeat(many)),
        format!("x = {}", "{a=".repeat(many)),
        format!("{}a = 1", "a.".repeat(many)),
        format!("[{}a]", "a.".repeat(many)),
    ];
    for text in texts {
        assert!(Scenario::from_toml("deep.toml", &text, &[]).is_err());
        assert!(Scenario::from_toml("deep.toml", "", &[format!("x={text}")]).is_err());
        assert!(Scenario::from_toml("deep.toml", "", &[format!("{text}=1")]).is_err());
    }
}

/// The ns-2 reference runs and the speed workloads can be written as scenarios.
#[test]
fn reference_scenarios_can_be_written() {
    let reorder = r#"
        duration = "200s"
        tcp = { preset = "ns2-sack1" }
        link = [
            { between = ["src", "r1"], rate = "100Mbit/s", delay = "1ms", queue = { kind = "droptail", limit = "10000p" } },
            { between = ["r1", "r2"], rate = "4Mbit/s", delay = "48ms", queue = { kind = "droptail", limit = "50p" },
              reverse = { queue = { kind = "droptail", limit = "1000p" } } },
            { between = ["r2", "dst"], rate = "100Mbit/s", delay = "1ms",
              jitter = { kind = "exponential", mean = "5ms", reorder = true }, reverse = { jitter = { kind = "none" } } },
        ]
        flow = [{ from = "src", to = "dst", cc = "reno", start = "0s..0.1s" }]
    "#;
    let multihop = r#"
        duration = "1000s"
        tcp = { preset = "ns2-sack1", recovery = "newreno", sack = false }
        topology = { kind = "parking-lot", hops = 4,
            hop = { rate = "10Mbit/s", delay = "10ms", queue = { kind = "droptail", limit = "125p" } },
            access = { rate = "100Mbit/s", delay = "20ms", queue = { kind = "droptail", limit = "10000p" } } }
        flow = [
            { name = "c1", from = "left", to = "right", cc = "westwood", start = "10s", tcp = { preset = "ns2-sack1" } },
            { name = "cross", from = "in", to = "out", count = 4, cc = "reno", start = "0s..1s" },
            { name = "against", from = "out", to = "in", count = 4, cc = "reno", start = "0s..1s" },
        ]
    "#;
    let sip = r#"
        duration = "300s"
        tcp = { preset = "ns2-sack1", delayed_ack = "0s", mss = "512B" }
        link = [
            { between = ["a", "b"], rate = "100Mbit/s", delay = "1ms" },
            { between = ["b", "c"], rate = "10Mbit/s", delay = "48ms", loss = { kind = "bernoulli", probability = 0.001 },
              reverse = { loss = { kind = "none" } } },
            { between = ["c", "d"], rate = "100Mbit/s", delay = "1ms" },
        ]
        flow = [{ from = "a", to = "d", app = "poisson", message_rate = 100, message_size = "512B", cc = "reno",
                  start = "1s", stop = "270s" }]
    "#;
    let dumbbell = r#"
        duration = "100s"
        topology = { kind = "dumbbell", rtt = "50ms", access = { rate = "1Gbit/s", delay = "5ms" },
            bottleneck = { rate = "100Mbit/s", queue = { kind = "droptail", limit = "1BDP" },
                reverse = { queue = { kind = "droptail", limit = "unlimited" } } } }
        flow = [{ from = "left", to = "right", count = 1000, cc = "reno", start = "0s..1s" }]
    "#;
    let chain = r#"
        duration = "15s"
        topology = { kind = "chain", hops = 10, hop = { rate = "1Gbit/s", delay = "1ms" } }
        flow = [{ from = "n0", to = "n10", app = "cbr", rate = "800Mbit/s" }]
    "#;
    let flows = [(reorder, 1), (multihop, 9), (sip, 1), (dumbbell, 1000), (chain, 1)];
    for (text, count) in flows {
        let scenario = Scenario::from_toml("reference.toml", text, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(scenario.expand().flows.len(), count, "{text}");
    }
}

/// The schema for editors accepts the same short forms as the reader.
#[test]
fn the_schema_accepts_the_short_forms_of_the_reader() {
    let validator = jsonschema::validator_for(json_schema()).unwrap();
    let tries: [(&str, &[&str]); 4] = [
        (
            "queue",
            &[
                "250p",
                "1BDP",
                "50ms",
                "codel",
                "codel,limit=100p",
                "codel limit=1BDP target=5ms",
                "hfsc",
                "250",
                "codel,5ms",
                "",
            ],
        ),
        ("loss", &["1%", "0.1 %", "0", "none", "every,n=5", "1", "0.5", "one", "1%%", "-1%", "+1%", ".5%"]),
        ("jitter", &["none", "uniform,max=5ms", "normal,mean=5ms,stddev=1ms", "5ms", "wild,max=5ms", ""]),
        ("probability", &["1%", "100%", "0", "0.5", "often"]),
    ];
    for (key, texts) in tries {
        for text in texts {
            let mut link = serde_json::json!({ "between": ["a", "b"], "rate": "1Mbit/s" });
            match key {
                "probability" => {
                    link["loss"] = serde_json::json!({ "kind": "bernoulli", "probability": text })
                }
                key => link[key] = (*text).into(),
            }
            let value =
                serde_json::json!({ "duration": "1s", "link": [link], "flow": [{ "from": "a", "to": "b" }] });
            let read = Scenario::from_json(value.clone(), &[], Path::new("")).is_ok();
            assert_eq!(validator.is_valid(&value), read, "{key} = {text:?}");
        }
    }
}

/// The patterns of the schema accept what the reader accepts.
#[test]
fn the_schemas_patterns_agree_with_the_reader() {
    let validator = jsonschema::validator_for(json_schema()).unwrap();
    let scenario = |duration: &str, rate: &str, limit: &str, start: &str, window: &str, size: &str| {
        serde_json::json!({
            "duration": duration,
            "link": [{"between": ["a", "b"], "rate": rate, "queue": {"kind": "droptail", "limit": limit}}],
            "flow": [{"from": "a", "to": "b", "start": start, "tcp": {"initial_window": window, "mss": size}}],
        })
    };
    let good = ["60s", "10Mbit/s", "1BDP", "0s", "10p", "1460B"];
    let tries: [&[&str]; 6] = [
        &["1.5 s", "2min", "1_000ms", "1e3s", "60", "60 parsec", "-1s", "", "s", "1.5.2s", "10us"],
        &["10mbit", "1.5Gbps", "2MB/s", "2Mb/s", "1e3 bit/s", "10", "10Mbot/s", "fast", "3kbps", "1Tbit/s"],
        &["100p", "100 packets", "150kB", "2.5BDP", "50ms", "unlimited", "100", "1.5p", "BDP", "10Mbit/s"],
        &["5s", "0s..1s", "100ms .. 2s", "0", "0s...1s", "..1s", "1s..", "1s-2s"],
        &["10p", "64kB", "2.5p", "3 segments", "ten", "10s", "-1p"],
        &["512B", "1460B", "1KiB", "1.46kB", "1460", "1460Bit", "big"],
    ];
    for (field, texts) in tries.iter().enumerate() {
        for text in *texts {
            let mut fields = good;
            fields[field] = text;
            let [a, b, c, d, e, f] = fields;
            let value = scenario(a, b, c, d, e, f);
            let read = Scenario::from_json(value.clone(), &[], Path::new("")).is_ok();
            assert_eq!(validator.is_valid(&value), read, "{text}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(\\PC|\n)*", set in "\\PC*") {
        if let Err(errors) = Scenario::from_toml("any.toml", &text, &[set]) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }

    /// Valid files with a piece replaced, removed or doubled.
    #[test]
    fn mutated_scenarios_never_panic(
        file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        length in 0usize..40,
        piece in prop_oneof![
            Just(String::new()), "\\PC{0,8}", "[0-9a-z.\"=\\[\\]{},\n-]{0,8}",
            Just("\"-1Mbit/s\"".to_owned()), Just("99999999999999999999".to_owned()), Just("nan".to_owned()),
            Just("1e400".to_owned()), Just("1979-05-27".to_owned()), Just("left".to_owned()), Just("[[flow]]\n".to_owned()),
        ],
    ) {
        let files = examples();
        let path = file.get(&files);
        let mut text = std::fs::read_to_string(path).unwrap();
        let start = at.index(text.len());
        let end = (start + length).min(text.len());
        prop_assume!(text.is_char_boundary(start) && text.is_char_boundary(end));
        text.replace_range(start..end, &piece);
        match Scenario::from_toml("mutated.toml", &text, &[]) {
            Ok(scenario) => {
                let again = Scenario::from_toml("mutated.toml", &scenario.to_toml(), &[]).unwrap();
                prop_assert_eq!(again, scenario);
            }
            Err(errors) => prop_assert!(!errors.errors.is_empty() && !errors.to_string().is_empty()),
        }
    }
}

#[test]
fn changes_are_of_the_links_that_their_names_mean() {
    let text = r#"
        duration = "10s"
        topology = { kind = "dumbbell", pairs = 2, bottleneck = { rate = "10Mbit/s", delay = "20ms" } }
        link = [
            { between = ["r1", "a-1"], rate = "1Mbit/s", name = "side" },
            { from = "a-1", to = "b", rate = "1Mbit/s" },
            { from = "b", to = "r1", rate = "1Mbit/s" },
        ]
        flow = [{ from = "left", to = "right" }]
        change = [
            { at = "1s", link = "r1>r2", rate = "5Mbit/s" },
            { at = "1s", link = "r2-r1", delay = "5ms" },
            { at = "2s", link = "side", down = true },
            { at = "3s", link = "a-1-b", loss = "2%", jitter = "uniform,max=5ms" },
            { at = "3s", link = "left.1-r1", loss = "none" },
        ]
    "#;
    let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let expanded = scenario.expand();
    let of: Vec<(String, &[usize])> = expanded
        .links
        .iter()
        .filter(|link| !link.changes.is_empty())
        .map(|link| (expanded.link_name(&link), link.changes))
        .collect();
    let mut of: Vec<(&str, &[usize])> = of.iter().map(|(name, changes)| (name.as_str(), *changes)).collect();
    of.sort_unstable();
    let expected: [(&str, &[usize]); 7] = [
        ("a-1>b", &[3]),
        ("a-1>r1", &[2]),
        ("left.1>r1", &[4]),
        ("r1>a-1", &[2]),
        ("r1>left.1", &[4]),
        ("r1>r2", &[0, 1]),
        ("r2>r1", &[1]),
    ];
    assert_eq!(of, expected);
    // Without changes nothing of a scenario is different, its hash neither.
    let without = Scenario { change: Vec::new(), ..scenario.clone() };
    assert!(!without.to_toml().contains("change"));
    assert_ne!(without.scenario_hash(), scenario.scenario_hash());
    let again = Scenario::from_toml("test.toml", &scenario.to_toml(), &[]).unwrap();
    assert_eq!(again, scenario);
}

#[test]
fn an_error_far_into_a_long_line_shows_what_is_around_it() {
    let steps: Vec<String> =
        (0..4000).map(|at| format!("{{ at = \"{at}s\", rate = \"5Mbit/s\" }}")).collect();
    let text = format!(
        "duration = \"2h\"\n\
         link = [{{ between = [\"a\", \"b\"], schedule = [{}, {{ at = \"5000s\", rate = \"5Mbot/s\" }}] }}]\n\
         flow = [{{ from = \"a\", to = \"b\" }}]\n",
        steps.join(", ")
    );
    let errors = Scenario::from_toml("long.toml", &text, &[]).unwrap_err();
    let column = errors.errors[0].location.as_ref().unwrap().column;
    assert!(column > 65_536, "{column}");
    let told = errors.to_string();
    assert!(told.contains(&format!("--> long.toml:2:{column}\n")), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() < 250), "{told}");
    let marks = lines.iter().position(|line| line.contains('^')).unwrap();
    let (first, last) = (lines[marks].find('^').unwrap(), lines[marks].rfind('^').unwrap());
    assert_eq!(&lines[marks - 1][first..=last], "\"5Mbot/s\"");
    // White space at the end is not shown, and what is missing behind it has its place there.
    let errors = Scenario::from_toml("long.toml", &format!("duration ={}", " ".repeat(70_000)), &[]);
    let told = errors.unwrap_err().to_string();
    assert!(told.lines().all(|line| line.chars().count() < 250), "{told}");
}

#[test]
fn a_file_of_any_name_gives_the_scenario_a_name() {
    let text = "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\nflow = [{ from = \"a\", to = \"b\" }]\n";
    let (name, file) = ("x".repeat(100), format!("{}.toml", "x".repeat(150)));
    for (file, name) in [
        (".tmp7fq.toml", "tmp7fq"),
        ("...", "scenario"),
        ("runs/my scenario.toml", "my-scenario"),
        (file.as_str(), name.as_str()),
    ] {
        let scenario =
            Scenario::from_toml(file, text, &[]).unwrap_or_else(|errors| panic!("{file}: {errors}"));
        assert_eq!(scenario.name, name, "{file}");
    }
}
