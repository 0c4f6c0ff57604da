//! Labels of run directories, no two of them the same.

use std::path::{Component, Path};

/// A name for each directory that no other of them has: as many of the last parts of its path as that takes, since what shows it must not depend on
/// where it was made. The same directory twice is numbered.
pub fn distinct_names(directories: &[&Path]) -> Vec<String> {
    let parts = |path: &&Path| -> Vec<String> {
        let normal = path.components().rev().filter(|part| matches!(part, Component::Normal(_)));
        normal.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let all: Vec<Vec<String>> = directories.iter().map(parts).collect();
    let name = |(index, own): (usize, &Vec<String>)| {
        let is_own = |count: &usize| {
            let tail = |parts: &Vec<String>| parts.iter().take(*count).eq(own.iter().take(*count));
            all.iter().filter(|parts| tail(parts)).count() == 1
        };
        match (1..=own.len()).find(is_own) {
            Some(count) => own.iter().take(count).rev().map(String::as_str).collect::<Vec<_>>().join("/"),
            None => format!("{} {}", own.first().map_or("", String::as_str), index + 1).trim().to_owned(),
        }
    };
    all.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_long_as_it_takes_to_tell_directories_apart() {
        let names = |paths: &[&str]| distinct_names(&paths.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(names(&["runs/cubic", "runs/vegas"]), ["cubic", "vegas"]);
        assert_eq!(
            names(&["runs/cubic/seed-1", "runs/vegas/seed-1", "/tmp/vegas/seed-2"]),
            ["cubic/seed-1", "vegas/seed-1", "seed-2"]
        );
        assert_eq!(names(&["a/x", "b/a/x"]), ["x 1", "b/a/x"]);
        assert_eq!(names(&["a", "a", "."]), ["a 1", "a 2", "3"]);
    }
}
