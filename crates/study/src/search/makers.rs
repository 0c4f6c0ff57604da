//! What makes the runs of points: the kernels of guests and the stacks in shared objects, which a search may vary.

use warpline_lab::run::RunError;
use warpline_lab::run::builds::builds;
use warpline_scenario::endpoint::Guest;
use warpline_scenario::search::SearchFile;
use warpline_scenario::{Endpoint, Host};

use super::journal::Values;

/// The builds of kernels and stacks at points of a search.
pub(super) struct Makers<'a> {
    search: &'a SearchFile,
    /// The builds by the hosts that have them, as `deciding` gives those: a kernel is read once, however many points have it.
    known: Vec<(Vec<Host>, Vec<String>)>,
}

impl<'a> Makers<'a> {
    /// Those of this search.
    pub(super) fn new(search: &'a SearchFile) -> Self {
        Makers { search, known: Vec::new() }
    }

    /// From now on, all files are read again: any of them may have been replaced.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// The kernels and stacks at a point, without and with the changes of `against`: in order, each once, separated by spaces.
    ///
    /// # Errors
    /// If one of them is not there, or cannot be read.
    pub(super) fn at(&mut self, values: &Values) -> Result<String, RunError> {
        let mut parts = Vec::new();
        for against in [false, true] {
            if against && self.search.against.is_empty() {
                continue;
            }
            // Where the values or the changes together are wrong, nothing is run with them.
            let Ok(scenario) = self.search.with(values, against) else { continue };
            let hosts = deciding(&scenario.host);
            if let Some((_, builds)) = self.known.iter().find(|(known, _)| *known == hosts) {
                parts.extend(builds.iter().cloned());
                continue;
            }
            let builds = builds(&scenario)?;
            parts.extend(builds.iter().cloned());
            self.known.push((hosts, builds));
        }
        parts.sort();
        parts.dedup();
        Ok(parts.join(" "))
    }
}

/// Hosts with what decides their builds, so that hosts that are equal have the same ones. Of a guest that is its machine and the `kernel` of that: it has
/// many other keys, and a kernel takes long to read. Other hosts stay whole.
fn deciding(hosts: &[Host]) -> Vec<Host> {
    let one = |host: &Host| {
        let endpoint = match &host.endpoint {
            Endpoint::Guest(guest) => {
                let (machine, kernel) = (guest.machine.clone(), guest.kernel.clone());
                Endpoint::Guest(Guest { machine, kernel, ..Guest::default() })
            }
            other => other.clone(),
        };
        Host { name: host.name.clone(), endpoint }
    };
    hosts.iter().map(one).collect()
}

#[cfg(all(test, live))]
mod tests {
    use std::collections::VecDeque;

    use super::super::journal::{self, EVALUATIONS_FILE, Journal, Row};
    use super::super::{SearchError, SearchOptions, found, over_two_hosts};
    use super::*;

    #[test]
    fn a_stack_that_only_against_has_counts_among_the_builds() {
        let directory = tempfile::tempdir().unwrap();
        let keys = r#"
            vary = { seed = { from = 1, to = 9 } }
            against = { host = [{ name = "a", endpoint = "stack:object", library = "./mine.so" }] }
        "#;
        let file = over_two_hosts(directory.path(), "", keys);
        let builds = |content: &str| {
            std::fs::write(directory.path().join("mine.so"), content).unwrap();
            Makers::new(&file).at(&file.values(&file.unchanged())).unwrap()
        };
        let first = builds("one build");
        assert!(first.starts_with("mine-") && !first.contains(' '), "{first}");
        assert_ne!(builds("another"), first);
        assert_eq!(builds("one build"), first);
    }

    #[test]
    fn a_kernel_is_not_read_again_where_other_keys_of_a_guest_differ() {
        let guest = |cc: &str, kernel: &str, machine: &str| {
            let [cc, kernel, machine] = [cc, kernel, machine].map(|text| Some(text.to_owned()));
            let endpoint = Endpoint::Guest(Guest { cc, kernel, machine, ..Guest::default() });
            deciding(&[Host { name: "a".to_owned(), endpoint }])
        };
        let one = guest("bbr", "6.12", "m");
        assert_eq!(guest("cubic", "6.12", "m"), one);
        assert_ne!(guest("bbr", "6.1", "m"), one);
        assert_ne!(guest("bbr", "6.12", "n"), one);
    }

    #[test]
    fn what_another_build_of_a_varied_stack_has_measured_is_measured_again() {
        let directory = tempfile::tempdir().unwrap();
        let (place, out) = (directory.path(), directory.path().join("out"));
        let host = "host = [{ name = \"a\", endpoint = \"stack:object\", library = \"./one.so\" }]\n";
        let keys =
            "[vary]\n\"host[a].library\" = { choices = [\"./one.so\", \"./two.so\", \"./none.so\"] }\n";
        let file = over_two_hosts(place, host, keys);
        let build = |name: &str, content: &str| std::fs::write(place.join(name), content).unwrap();
        build("one.so", "one");
        build("two.so", "two");
        let options = SearchOptions { resume: true, ..SearchOptions::default() };
        let prepare = || found::prepare(&out, &file, &options, &mut Makers::new(&file));
        assert!(prepare().unwrap().is_empty());
        let mut makers = Makers::new(&file);
        let mut journal = Journal::new(Some(out.as_path()), file.keys()).unwrap();
        let points = [0.1, 0.5, 0.9].map(|share| file.values(&file.draw(&[share])));
        for (values, value) in points.iter().zip([Some(1.0), Some(2.0), None]) {
            let builds = makers.at(values).ok();
            assert_eq!(builds.is_some(), value.is_some(), "{values:?}");
            let row = Row { phase: "search".to_owned(), values: values.clone(), value, builds };
            journal.add(&row).unwrap();
        }
        journal.write(&VecDeque::new()).unwrap();
        let rows = journal::read(&out, file.keys());
        assert_eq!(prepare().unwrap(), rows);
        // What was missing is there now.
        build("none.so", "none");
        assert_eq!(prepare().unwrap(), rows[..2]);
        // What was there is missing now: the record stays.
        std::fs::remove_file(place.join("two.so")).unwrap();
        let missing = prepare().unwrap_err();
        assert!(matches!(missing, SearchError::Missing { .. }), "{missing:?}");
        let told = missing.to_string();
        assert!(told.contains("two.so") && told.contains("put it back"), "{told}");
        assert_eq!(journal::read(&out, file.keys()), rows);
        build("two.so", "two");
        assert_eq!(prepare().unwrap(), rows[..2]);
        // The scenario as it is does not have this one.
        build("two.so", "two, mended");
        assert!(prepare().unwrap().is_empty());
        assert!(out.join("evaluations-before.csv").exists() && !out.join(EVALUATIONS_FILE).exists());
    }
}
