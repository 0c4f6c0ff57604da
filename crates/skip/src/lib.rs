//! The one way to skip a test that a machine cannot run.
//!
//! With CI=true a skipped test fails, unless the missing feature is on the list `may-skip.txt`. Otherwise a machine could pass checks
//! that it never ran.

use std::fmt::Display;

/// The features that may be missing with CI=true.
const MAY_SKIP: &str = include_str!("../may-skip.txt");

/// Reports that a test or a part of it is skipped because `what` is missing; `why` explains it. The test must then return.
///
/// `what` is a name on the list, or a word for something that is not on it, such as "program" or "root".
///
/// # Panics
/// With CI=true, unless `what` is on the list.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
#[track_caller]
pub fn skip(what: &str, why: impl Display) {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    match verdict(ci, what, &why) {
        Ok(said) => eprintln!("{said}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// The message, or why the test may not be skipped.
fn verdict(ci: bool, what: &str, why: &dyn Display) -> Result<String, String> {
    if ci && !names().any(|name| name == what) {
        return Err(format!(
            "with CI=true no test may be skipped for lack of {what} (the list is crates/skip/may-skip.txt): {why}"
        ));
    }
    Ok(format!("skipped ({what}): {why}"))
}

/// The names on the list.
fn names() -> impl Iterator<Item = &'static str> {
    MAY_SKIP.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once(':')?.0))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn with_ci_only_listed_features_may_be_missing() {
        assert!(names().count() > 0);
        assert_eq!(verdict(true, "tun", &"no device").unwrap(), "skipped (tun): no device");
        assert!(verdict(true, "program", &"no curl").unwrap_err().contains("no curl"));
        assert!(verdict(false, "program", &"no curl").is_ok());
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn no_test_skips_itself_in_another_way() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        sources(own.parent().unwrap(), &mut files);
        assert!(files.len() > 300, "{}", files.len());
        for file in files.iter().filter(|file| !file.starts_with(own)) {
            let text = std::fs::read_to_string(file).unwrap();
            for way in ["\"skipped: ", "\"skipped in", "#[ignore", "env::var_os(\"CI\")", "env::var(\"CI\")"]
            {
                assert!(!text.contains(way), "{}: {way}: use warpline_skip::skip", file.display());
            }
        }
    }
}
