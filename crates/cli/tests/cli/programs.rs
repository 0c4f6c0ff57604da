//! Unmodified programs in guests: those of `scenarios/programs` that are installed here end as expected, and lock-step repeats every byte.

use std::path::{Path, PathBuf};

use crate::support::Desk;

/// Where programs are looked for.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The programs that a scenario's head lists.
fn needed(text: &str) -> Vec<String> {
    let line =
        text.lines().find_map(|line| line.strip_prefix("# Programs: ")).expect("a line `# Programs: `");
    let list = line.split('(').next().unwrap();
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

fn is_installed(program: &str) -> bool {
    let mut places: Vec<PathBuf> = SEARCH.split(':').map(PathBuf::from).collect();
    places.extend(
        std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin")),
    );
    places.iter().any(|place| place.join(program).exists())
}

/// One test for each scenario, so that they run side by side.
macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test] fn $name() { repeats(stringify!($name)); })*

        #[test]
        fn every_scenario_with_programs_has_a_test() {
            let mut listed = vec![$(stringify!($name)),*];
            listed.sort_unstable();
            let own = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
            let own = own.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
            let mut own: Vec<String> = own.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
            own.sort_unstable();
            assert_eq!(own, listed);
        }
    };
}

programs! { asyncio dns iperf3 nat postgresql redis rsync ssh web }

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/programs")
}

fn repeats(name: &str) {
    let file = directory().join(format!("{name}.toml"));
    let programs = needed(&std::fs::read_to_string(&file).unwrap());
    if let Some(missing) = programs.iter().find(|program| !is_installed(program)) {
        let feature = if name == "postgresql" { name } else { "program" };
        return warpline_skip::skip(feature, format!("{missing} is not installed"));
    }
    if let Err(reason) = warpline_guest::Kernel::find() {
        return warpline_skip::skip("program", reason);
    }
    let desk = Desk::new();
    let ran = desk.warpline(&[
        "study",
        "programs",
        file.to_str().unwrap(),
        "--clocks",
        "virtual",
        "--json",
        "--out",
        "runs",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(rows[0]["differs"].is_null() && rows[0]["missing"].is_null(), "{rows}");
    let trials = rows[0]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{rows}");
    assert!(trials.iter().all(|trial| trial["ended_s"].as_f64().unwrap() > 0.0), "{rows}");
}
