//! What makes the runs of points: the kernels of guests and the stacks in shared objects, which a search may vary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use warpline_lab::run::RunError;
use warpline_lab::run::builds::{builds, each_build};
use warpline_scenario::endpoint::Guest;
use warpline_scenario::search::SearchFile;
use warpline_scenario::{Endpoint, Host, Scenario};

use super::SearchError;
use super::journal::Values;

/// The kernels and stacks that the runs of a point need, as they are on this machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Builds {
    /// The names of those that can be read.
    there: BTreeSet<String>,
    /// The others, each with the reason why it cannot be read.
    missing: BTreeMap<String, String>,
}

impl Builds {
    /// Those of one scenario.
    fn of(scenario: &Scenario) -> Builds {
        let mut found = Builds::default();
        for build in each_build(scenario) {
            match build {
                Ok(name) => drop(found.there.insert(name)),
                Err(missing) => drop(found.missing.insert(missing.what, missing.why.to_string())),
            }
        }
        found
    }

    /// The names, as a record has them: in order, each once, separated by spaces. None if one of them cannot be read.
    pub(super) fn names(&self) -> Option<String> {
        let names: Vec<&str> = self.there.iter().map(String::as_str).collect();
        self.missing.is_empty().then(|| names.join(" "))
    }

    /// Those that cannot be read, each with the reason.
    pub(super) fn missing(&self) -> &BTreeMap<String, String> {
        &self.missing
    }

    /// Whether these, as far as they can be read, are what a record names for the point.
    pub(super) fn agree_with(&self, recorded: &str) -> bool {
        // A name may have a space.
        let recorded_has = |name: &String| format!(" {recorded} ").contains(&format!(" {name} "));
        self.names().map_or_else(|| self.there.iter().all(recorded_has), |names| names == recorded)
    }
}

/// The builds of kernels and stacks at points of a search.
pub(super) struct Makers<'a> {
    search: &'a SearchFile,
    /// The builds by the hosts that have them, as `deciding` gives those: a kernel is read once, however many points have it.
    known: Vec<(Vec<Host>, Builds)>,
    /// What made rows of an earlier record that are kept, and cannot be read now.
    lost: BTreeSet<String>,
}

impl<'a> Makers<'a> {
    /// Those of this search.
    pub(super) fn new(search: &'a SearchFile) -> Self {
        Makers { search, known: Vec::new(), lost: BTreeSet::new() }
    }

    /// From now on, all files are read again: any of them may have been replaced.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// The kernels and stacks at a point, without and with the changes of `against`.
    pub(super) fn at(&mut self, values: &Values) -> Builds {
        let mut found = Builds::default();
        for scenario in self.scenarios(values) {
            let hosts = deciding(&scenario.host);
            if self.known.iter().all(|(known, _)| *known != hosts) {
                self.known.push((hosts.clone(), Builds::of(&scenario)));
            }
            for (_, builds) in self.known.iter().filter(|(known, _)| *known == hosts) {
                found.there.extend(builds.there.iter().cloned());
                found.missing.extend(builds.missing.clone());
            }
        }
        found
    }

    /// Refuses a point of which a kernel or a stack cannot be read.
    ///
    /// # Errors
    /// Which one, and why.
    pub(super) fn require(&self, values: &Values) -> Result<(), RunError> {
        self.scenarios(values).iter().try_for_each(|scenario| builds(scenario).map(drop))
    }

    /// Notes what made rows of an earlier record that are kept, and cannot be read now, as [`Builds::missing`] has it. New points that need it are refused
    /// from then on: they would have no value, where points beside them have one.
    pub(super) fn lose(&mut self, missing: &BTreeMap<String, String>) {
        self.lost = missing.keys().cloned().collect();
    }

    /// Refuses to run a point that needs what is lost.
    ///
    /// # Errors
    /// What is lost, with `record`, the file with the rows that it made.
    pub(super) fn refuse_lost(&mut self, values: &Values, record: &Path) -> Result<(), SearchError> {
        if self.lost.is_empty() {
            return Ok(());
        }
        let missing = self.at(values).missing.into_iter();
        let why: Vec<String> =
            missing.filter(|(what, _)| self.lost.contains(what)).map(|(_, why)| why).collect();
        if why.is_empty() {
            return Ok(());
        }
        Err(SearchError::Missing { record: record.to_owned(), why: why.join("; ") })
    }

    /// The scenario at a point, and that with the changes of `against`, if there are any. Where the values or the changes together are wrong, nothing is
    /// run with them.
    fn scenarios(&self, values: &Values) -> Vec<Scenario> {
        let sides: &[bool] = if self.search.against.is_empty() { &[false] } else { &[false, true] };
        sides.iter().filter_map(|&against| self.search.with(values, against).ok()).collect()
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
    use super::super::{SearchOptions, found, over_two_hosts};
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
            Makers::new(&file).at(&file.values(&file.unchanged())).names().unwrap()
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
    fn what_cannot_be_read_may_be_what_a_record_names() {
        let builds = |there: &[&str], missing: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
            let missing = owned(missing).into_iter().map(|what| (what, "gone".to_owned()));
            Builds { there: owned(there).into_iter().collect(), missing: missing.collect() }
        };
        let recorded = "one-01 two-02";
        assert!(builds(&["one-01", "two-02"], &[]).agree_with(recorded));
        assert!(!builds(&["one-01"], &[]).agree_with(recorded));
        assert!(builds(&["one-01"], &["no two"]).agree_with(recorded));
        assert!(!builds(&["one-03"], &["no two"]).agree_with(recorded));
    }

    #[test]
    fn where_all_is_measured_again_a_stack_may_be_missing() {
        for (program, content) in [("mended", "one"), ("", "one, mended")] {
            let directory = tempfile::tempdir().unwrap();
            let (place, out) = (directory.path(), directory.path().join("out"));
            let host = "host = [{ name = \"a\", endpoint = \"stack:object\", library = \"./one.so\" }]\n";
            let keys = "[vary]\n\"host[a].library\" = { choices = [\"./one.so\", \"./two.so\"] }\n";
            let file = over_two_hosts(place, host, keys);
            for stack in ["one", "two"] {
                std::fs::write(place.join(stack).with_extension("so"), stack).unwrap();
            }
            let prepare = |build: &str| {
                let options =
                    SearchOptions { resume: true, build: build.to_owned(), ..SearchOptions::default() };
                let earlier = found::prepare(&out, &file, &options, &mut Makers::new(&file)).unwrap();
                if earlier.is_none() {
                    found::begin(&out, &file, &options).unwrap();
                }
                earlier.unwrap_or_default()
            };
            prepare("");
            let mut journal = Journal::new(Some(out.as_path()), file.keys()).unwrap();
            for share in [0.1, 0.9] {
                let values = file.values(&file.draw(&[share]));
                let builds = Makers::new(&file).at(&values).names();
                journal.add(&Row { phase: "search".to_owned(), values, value: Some(share), builds }).unwrap();
            }
            journal.write(&VecDeque::new()).unwrap();
            assert_eq!(prepare("").len(), 2);
            std::fs::remove_file(place.join("two.so")).unwrap();
            std::fs::write(place.join("one.so"), content).unwrap();
            assert!(prepare(program).is_empty(), "{program} {content}");
            assert!(out.join("evaluations-before.csv").exists());
        }
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
        let prepare = || found::prepare(&out, &file, &options, &mut Makers::new(&file)).unwrap();
        assert_eq!(prepare(), None);
        found::begin(&out, &file, &options).unwrap();
        let mut makers = Makers::new(&file);
        let mut journal = Journal::new(Some(out.as_path()), file.keys()).unwrap();
        let points = [0.1, 0.5, 0.9].map(|share| file.values(&file.draw(&[share])));
        for (values, value) in points.iter().zip([Some(1.0), Some(2.0), None]) {
            let builds = makers.at(values).names();
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
        // What was there is missing now: what it measured stays, but it cannot measure any more.
        std::fs::remove_file(place.join("two.so")).unwrap();
        let (mut makers, record) = (Makers::new(&file), out.join(EVALUATIONS_FILE));
        assert_eq!(found::prepare(&out, &file, &options, &mut makers).unwrap().unwrap(), rows[..2]);
        let mut refused =
            |point: usize| makers.refuse_lost(&points[point], &record).map_err(|error| error.to_string());
        assert_eq!((refused(0), refused(2)), (Ok(()), Ok(())));
        let told = refused(1).unwrap_err();
        assert!(told.contains("two.so") && told.contains("put it back"), "{told}");
        assert_eq!(journal::read(&out, file.keys()), rows);
        build("two.so", "two");
        makers.forget();
        makers.refuse_lost(&points[1], &record).unwrap();
        assert_eq!(prepare().unwrap(), rows[..2]);
        // The scenario as it is does not have this one.
        build("two.so", "two, mended");
        assert!(prepare().unwrap().is_empty());
        assert!(out.join("evaluations-before.csv").exists() && !out.join(EVALUATIONS_FILE).exists());
    }
}
