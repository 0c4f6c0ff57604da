//! What makes the runs of points: the kernels of guests and the stacks in shared objects, which a search may vary.

use warpline_lab::run::RunError;
use warpline_lab::run::builds::builds;
use warpline_scenario::Host;
use warpline_scenario::search::SearchFile;

use super::journal::Values;

/// The builds of kernels and stacks at points of a search.
pub(super) struct Makers<'a> {
    search: &'a SearchFile,
    /// The builds by the hosts that have them: a kernel is read once, however many points have it.
    known: Vec<(Vec<Host>, Vec<String>)>,
}

impl<'a> Makers<'a> {
    /// Those of this search.
    pub(super) fn new(search: &'a SearchFile) -> Self {
        Makers { search, known: Vec::new() }
    }

    /// What makes the runs of the scenario as it is, and of that with the changes of `against`, a line each: `program`, which tells this program from every
    /// other build of it, then the kernels and stacks.
    ///
    /// # Errors
    /// If one of them is not there, or cannot be read.
    pub(super) fn made_by(&mut self, program: &str) -> Result<String, RunError> {
        let unchanged = self.search.values(&self.search.unchanged());
        let parts = self.all(&unchanged)?;
        let lines = std::iter::once(program).chain(parts.iter().map(String::as_str));
        Ok(lines.map(|part| format!("{part}\n")).collect())
    }

    /// The kernels and stacks at a point, separated by spaces; none if one of them is not there, or cannot be read.
    pub(super) fn at(&mut self, values: &Values) -> Option<String> {
        self.all(values).ok().map(|parts| parts.join(" "))
    }

    /// The kernels and stacks at a point, without and with the changes of `against`: in order, each once.
    fn all(&mut self, values: &Values) -> Result<Vec<String>, RunError> {
        let mut parts = Vec::new();
        for against in [false, true] {
            if against && self.search.against.is_empty() {
                continue;
            }
            // Where the values or the changes together are wrong, nothing is run with them.
            let Ok(scenario) = self.search.with(values, against) else { continue };
            if let Some((_, builds)) = self.known.iter().find(|(hosts, _)| *hosts == scenario.host) {
                parts.extend(builds.iter().cloned());
                continue;
            }
            let builds = builds(&scenario)?;
            parts.extend(builds.iter().cloned());
            self.known.push((scenario.host, builds));
        }
        parts.sort();
        parts.dedup();
        Ok(parts)
    }
}

#[cfg(all(test, live))]
mod tests {
    use std::path::Path;

    use warpline_scenario::Source;

    use super::super::journal::{EVALUATIONS_FILE, Journal, Known, Row};
    use super::super::{SearchOptions, found};
    use super::*;

    /// A search over two hosts with a flow, with these other keys of the scenario and of the search.
    fn search(directory: &Path, base: &str, keys: &str) -> SearchFile {
        let base = format!(
            "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n\
             flow = [{{ name = \"bulk\", from = \"a\", to = \"b\" }}]\n{base}"
        );
        let text = format!("scenario = \"base.toml\"\nminimise = \"flow.bulk.goodput\"\n{keys}");
        let base = Source::from_text("base.toml", &base, directory);
        SearchFile::over("test.search.toml", &text, &base).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn a_stack_that_only_against_has_counts_among_what_makes_the_runs() {
        let directory = tempfile::tempdir().unwrap();
        let keys = r#"
            vary = { seed = { from = 1, to = 9 } }
            against = { host = [{ name = "a", endpoint = "stack:object", library = "./mine.so" }] }
        "#;
        let file = search(directory.path(), "", keys);
        let made_by = |content: &str| {
            std::fs::write(directory.path().join("mine.so"), content).unwrap();
            Makers::new(&file).made_by("one").unwrap()
        };
        let first = made_by("one build");
        assert!(first.starts_with("one\nmine-") && first.lines().count() == 2, "{first}");
        assert_ne!(made_by("another"), first);
        assert_eq!(made_by("one build"), first);
    }

    #[test]
    fn what_another_build_of_a_varied_stack_has_measured_is_measured_again() {
        let directory = tempfile::tempdir().unwrap();
        let (place, out) = (directory.path(), directory.path().join("out"));
        let host = "host = [{ name = \"a\", endpoint = \"stack:object\", library = \"./one.so\" }]\n";
        let keys =
            "[vary]\n\"host[a].library\" = { choices = [\"./one.so\", \"./two.so\", \"./none.so\"] }\n";
        let file = search(place, host, keys);
        let build = |name: &str, content: &str| std::fs::write(place.join(name), content).unwrap();
        build("one.so", "one");
        build("two.so", "two");
        let options = SearchOptions { resume: true, ..SearchOptions::default() };
        let prepare = || found::prepare(&out, &file, &options, &mut Makers::new(&file)).unwrap();
        assert!(prepare().is_empty());
        let mut makers = Makers::new(&file);
        let mut journal = Journal::new(Some(out.as_path()), file.keys()).unwrap();
        let points = [0.1, 0.5, 0.9].map(|share| file.values(&file.draw(&[share])));
        for (values, value) in points.iter().zip([Some(1.0), Some(2.0), None]) {
            let builds = makers.at(values);
            assert_eq!(builds.is_some(), value.is_some(), "{values:?}");
            journal.add("search", &Row { values: values.clone(), value, builds }).unwrap();
        }
        journal.write().unwrap();
        let measured = |known: &Known| points.each_ref().map(|point| known.get(point).copied());
        assert_eq!(measured(&prepare()), [Some(Some(1.0)), Some(Some(2.0)), Some(None)]);
        // What was missing is there now.
        build("none.so", "none");
        assert_eq!(measured(&prepare()), [Some(Some(1.0)), Some(Some(2.0)), None]);
        // The scenario as it is does not have this one.
        build("two.so", "two, mended");
        assert!(prepare().is_empty());
        assert!(out.join("evaluations-before.csv").exists() && !out.join(EVALUATIONS_FILE).exists());
    }
}
