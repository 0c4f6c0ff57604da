//! Search files as users see them: bad ones give every error with its place.

// Helpers of tests are not `#[test]` functions, where clippy.toml allows unwrap.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use warpline_scenario::search::SearchFile;

#[test]
fn all_errors_of_a_bad_search_are_reported() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-search");
    for name in ["keys", "ranges", "scenario", "no-scenario"] {
        let errors = SearchFile::load(&directory.join(format!("{name}.search.toml"))).unwrap_err();
        // Without the directory, so that snapshots are the same everywhere.
        let directory = format!("{}{}", directory.display(), std::path::MAIN_SEPARATOR);
        insta::assert_snapshot!(name, errors.to_string().replace(&directory, ""));
    }
}

#[test]
fn a_measure_that_is_not_there_has_its_place_in_the_file() {
    let text =
        "scenario = \"base.toml\"\nmaximise = \"flow.bulk.speed\"\nvary = { seed = { from = 1, to = 9 } }\n";
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-search");
    let base = warpline_scenario::Source::read(&directory.join("base.toml")).unwrap();
    let search = SearchFile::over("x.search.toml", text, &base).unwrap();
    let error = search.wrong_measure("a flow has no column `speed`", Vec::new()).to_string();
    assert!(error.contains("x.search.toml:2:12") && error.contains("key: maximise"), "{error}");
}
