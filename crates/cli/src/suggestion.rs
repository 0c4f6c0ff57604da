//! Suggests a scenario file when the named one does not exist.

use std::fs;
use std::path::{Path, PathBuf};

use warpline_scenario::{STANDARD_INPUT, Source};

use crate::failure::Failure;

/// The similarity of two names (Jaro-Winkler) from which one is suggested for the other.
const ALIKE: f64 = 0.85;

/// Reads a scenario's text from a file, standard input ("-") or a pipe.
///
/// # Errors
/// If it does not exist, with the nearest name that does; or if it cannot be read.
pub(crate) fn scenario(path: &Path) -> Result<Source, Failure> {
    if path == Path::new(STANDARD_INPUT) || (path.exists() && !path.is_dir()) {
        return Source::read(path).map_err(Failure::usage);
    }
    let advice = if path.is_dir() {
        let inside = candidates(path);
        match inside.first() {
            Some(first) => {
                format!("{} is a directory; name a file in it, such as {}", path.display(), first.display())
            }
            None => format!("{} is a directory without scenarios (*.toml)", path.display()),
        }
    } else {
        let missing = format!("{} does not exist", path.display());
        match nearest(path) {
            Some(meant) => format!("{missing}; did you mean {}?", meant.display()),
            None => format!("{missing}; name a scenario file, such as scenarios/dumbbell.toml"),
        }
    };
    Err(Failure::usage(advice))
}

/// The scenario whose name is nearest to that of `path`, in its directory or in `scenarios`.
fn nearest(path: &Path) -> Option<PathBuf> {
    let wanted = path.file_stem()?.to_str()?.to_lowercase();
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut best: Option<(f64, PathBuf)> = None;
    for candidate in candidates(directory).into_iter().chain(candidates(Path::new("scenarios"))) {
        let Some(name) = candidate.file_stem().and_then(|name| name.to_str()) else { continue };
        let score = strsim::jaro_winkler(&wanted, &name.to_lowercase());
        if score >= ALIKE && best.as_ref().is_none_or(|(other, _)| score > *other) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, path)| path)
}

/// The scenario files of a directory, sorted by name.
fn candidates(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.strip_prefix("./").map(Path::to_owned).unwrap_or(path))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_unlike_names_are_not() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["dumbbell.toml", "dumbbell-red.toml", "notes.txt"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found = |name: &str| {
            nearest(&directory.path().join(name)).map(|path| path.file_name().unwrap().to_owned())
        };
        assert_eq!(found("dumbell.toml").unwrap(), "dumbbell.toml");
        assert_eq!(found("dumbbell").unwrap(), "dumbbell.toml");
        assert_eq!(found("dumbell-red.toml").unwrap(), "dumbbell-red.toml");
        assert_eq!(found("zebra.toml"), None);
    }
}
