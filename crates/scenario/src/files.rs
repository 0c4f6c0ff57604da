//! Files that a scenario reads: which they are, whether they can be read, and copies of them for a run's directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use warpline_core::TimeDelta;
use warpline_core::parameter::{Choice, File, Held};
use warpline_net::mahimahi::Trace;

use super::Scenario;
use super::component::Written;
use super::link::LinkOptions;
use crate::access_log;

/// Where copies are, in a run's directory.
pub const INPUTS: &str = "inputs";

/// A file that a run has read, as its directory holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its path in the directory: `inputs/NAME`.
    pub path: String,
    /// What it holds.
    pub contents: Vec<u8>,
    /// "sha256:" and 64 hexadecimal digits.
    pub hash: String,
}

/// The files of a scenario, and the scenario that reads the copies.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// By their first mention.
    pub copies: Vec<Copy>,
    /// The path of the copy for each path that the scenario mentions.
    names: BTreeMap<String, String>,
}

/// "sha256:" and the hash in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// What is wrong with a file that cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> String {
    match (path.is_dir(), error.kind()) {
        (true, _) => "it is a directory".to_owned(),
        (false, io::ErrorKind::NotFound) => "there is no such file".to_owned(),
        (false, _) => error.to_string(),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

/// A log of a web server: the start and the bytes of each answer.
pub type Log = Arc<[(TimeDelta, u64)]>;

/// Files that have been read. Thousands of links and flows may name one file: it is read once, and they share what it holds, or what is wrong with it.
#[derive(Debug, Default)]
pub struct Files {
    traces: BTreeMap<PathBuf, Result<Arc<Trace>, String>>,
    logs: BTreeMap<PathBuf, Result<Log, String>>,
    /// Files of components, with what they were read as.
    held: BTreeMap<(PathBuf, &'static str), Result<Held, String>>,
}

impl Files {
    /// What a mahimahi trace holds.
    ///
    /// # Errors
    /// Why it cannot be read, or the line and column of what is wrong.
    pub fn trace(&mut self, path: &Path) -> Result<Arc<Trace>, String> {
        let read = || Trace::parse(&bytes(path)?).map(Arc::new).map_err(|error| error.to_string());
        self.traces.entry(path.to_owned()).or_insert_with(read).clone()
    }

    /// What a log of a web server holds.
    ///
    /// # Errors
    /// Why it cannot be read, or the line and column of what is wrong.
    pub fn log(&mut self, path: &Path) -> Result<Log, String> {
        let read = || {
            let text = String::from_utf8(bytes(path)?).map_err(|error| error.utf8_error().to_string())?;
            access_log::parse(&text).map(Log::from).map_err(|error| error.to_string())
        };
        self.logs.entry(path.to_owned()).or_insert_with(read).clone()
    }

    /// Reads the files that a component names, relative to `directory`.
    ///
    /// # Errors
    /// The name of the parameter, and what is wrong with its file.
    pub(super) fn load<C: Choice>(
        &mut self,
        component: &mut C,
        directory: &Path,
    ) -> Result<(), (&'static str, String)> {
        for (name, file) in component.files() {
            let shown = file.path_mut().clone();
            let read = self.read(&directory.join(&shown), file);
            read.map_err(|reason| (name, format!("{} {shown}: {reason}", file.what())))?;
        }
        Ok(())
    }

    /// Reads one such file.
    pub(super) fn read(&mut self, path: &Path, file: &mut dyn File) -> Result<(), String> {
        let key = (path.to_owned(), file.what());
        match self.held.get(&key) {
            Some(Ok(held)) if file.hold(held) => Ok(()),
            Some(Err(reason)) => Err(reason.clone()),
            _ => {
                let held = bytes(path).and_then(|bytes| file.read(&bytes));
                let read = held.clone().map(drop);
                self.held.insert(key, held);
                read
            }
        }
    }
}

/// The files that a component names.
fn named<C: Choice>(component: &mut Option<Written<C>>) -> impl Iterator<Item = &mut String> {
    component.iter_mut().flat_map(|Written(component)| component.files()).map(|(_, file)| file.path_mut())
}

fn options<'a>(
    options: &'a mut LinkOptions,
    reverse: &'a mut Option<LinkOptions>,
    all: &mut Vec<&'a mut String>,
) {
    for options in std::iter::once(options).chain(reverse) {
        all.extend(options.trace.as_mut());
        all.extend(named(&mut options.loss));
        all.extend(named(&mut options.duplicate));
        all.extend(named(&mut options.corrupt));
        all.extend(named(&mut options.jitter));
    }
}

impl Scenario {
    /// The paths of all files that the scenario reads, as it writes them.
    fn paths_mut(&mut self) -> Vec<&mut String> {
        let mut all = Vec::new();
        for part in self.topology.iter_mut().flat_map(|topology| topology.layout_mut().parts()) {
            options(&mut part.options.options, &mut part.options.reverse, &mut all);
        }
        for link in &mut self.link {
            options(&mut link.options, &mut link.reverse, &mut all);
        }
        for change in &mut self.change {
            all.extend(named(&mut change.loss));
            all.extend(named(&mut change.duplicate));
            all.extend(named(&mut change.corrupt));
            all.extend(named(&mut change.jitter));
        }
        all.extend(self.flow.iter_mut().filter_map(|flow| flow.web.as_mut()?.access_log.as_mut()));
        all
    }

    /// The scenario with the whole path of each file that it reads, so that it can be read from another directory.
    #[must_use]
    pub fn with_whole_paths(&self) -> Scenario {
        let mut scenario = self.clone();
        let directory = self.base();
        for path in scenario.paths_mut() {
            *path = directory.join(&*path).to_string_lossy().into_owned();
        }
        scenario
    }

    /// The scenario with what each file holds in place of its path, as far as it can be read: what its hash is over.
    pub(super) fn with_contents(&self) -> Scenario {
        let mut scenario = self.clone();
        let directory = self.directory.clone();
        let mut hashes: BTreeMap<String, Option<String>> = BTreeMap::new();
        for path in scenario.paths_mut() {
            let hash = || std::fs::read(directory.join(&*path)).ok().map(|contents| sha256(&contents));
            let hash = hashes.entry(path.clone()).or_insert_with(hash);
            if let Some(hash) = hash {
                path.clone_from(hash);
            }
        }
        scenario
    }
}

impl Inputs {
    /// Reads all files of a scenario.
    ///
    /// # Errors
    /// The path and the reason where one cannot be read.
    pub fn read(scenario: &Scenario) -> Result<Inputs, (PathBuf, io::Error)> {
        let mut inputs = Inputs::default();
        let mut scenario = scenario.clone();
        let directory = scenario.directory.clone();
        for path in scenario.paths_mut() {
            if inputs.names.contains_key(path) {
                continue;
            }
            let full = directory.join(&*path);
            let contents = std::fs::read(&full).map_err(|error| (full.clone(), error))?;
            let copy = inputs.place(&full, contents);
            inputs.names.insert(path.clone(), copy);
        }
        Ok(inputs)
    }

    /// The path of a copy. A second file of the same name gets a number; the same file again is the same copy.
    fn place(&mut self, full: &Path, contents: Vec<u8>) -> String {
        let hash = sha256(&contents);
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, extension) = (part(full.file_stem()), part(full.extension()));
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        for number in 1_u32.. {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let dot = if extension.is_empty() { "" } else { "." };
            let name: String = format!("{stem}{number}{dot}{extension}").chars().map(plain).collect();
            let path = format!("{INPUTS}/{}", name.trim_start_matches('.'));
            match self.copies.iter().find(|copy| copy.path.to_lowercase() == path.to_lowercase()) {
                Some(copy) if copy.hash == hash => return copy.path.clone(),
                Some(_) => {}
                None => {
                    self.copies.push(Copy { path: path.clone(), contents, hash });
                    return path;
                }
            }
        }
        unreachable!("numbers do not end")
    }

    /// The scenario that reads the copies.
    pub fn scenario(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        for path in scenario.paths_mut() {
            if let Some(copy) = self.names.get(path) {
                path.clone_from(copy);
            }
        }
        scenario
    }
}

#[cfg(test)]
mod tests {
    use warpline_core::parameter::FileOf;
    use warpline_net::jitter::DelayTrace;
    use warpline_net::loss::LossTrace;

    use super::*;

    fn scenario(directory: &Path, traces: [&str; 3]) -> Scenario {
        let text = format!(
            r#"
            duration = "1s"
            link = [{{ between = ["a", "b"], trace = "{}", reverse = {{ trace = "{}" }} }}, {{ from = "b", to = "c", trace = "{}" }}]
            flow = [{{ from = "a", to = "b" }}]
            "#,
            traces[0], traces[1], traces[2]
        );
        let value = toml::from_str::<serde_json::Value>(&text).unwrap();
        Scenario::from_json(value, &[], directory).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn copies_have_names_of_their_own_and_keep_them() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("other")).unwrap();
        for (name, text) in [("lte.down", "1\n2\n"), ("other/lte.down", "7\n"), ("again.down", "7\n")] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let first = scenario(directory.path(), ["lte.down", "other/lte.down", "lte.down"]);
        let inputs = Inputs::read(&first).unwrap();
        let paths: Vec<&str> = inputs.copies.iter().map(|copy| copy.path.as_str()).collect();
        assert_eq!(paths, ["inputs/lte.down", "inputs/lte-2.down"]);

        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(run.path().join(INPUTS)).unwrap();
        for copy in &inputs.copies {
            std::fs::write(run.path().join(&copy.path), &copy.contents).unwrap();
        }
        let copied = inputs.scenario(&first);
        let copied = Scenario::from_json(copied.to_json(), &[], run.path()).unwrap_or_else(|e| panic!("{e}"));
        // The contents count, not the names.
        assert_eq!(copied.scenario_hash(), first.scenario_hash());
        let again = Inputs::read(&copied).unwrap();
        assert_eq!(again.copies, inputs.copies);
        assert_eq!(again.scenario(&copied), copied);
        let other = scenario(directory.path(), ["lte.down", "again.down", "again.down"]);
        assert_ne!(other.scenario_hash(), first.scenario_hash());
    }

    #[test]
    fn a_file_is_read_once_and_shared_by_all_that_name_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let texts = [
            ("lte.down", "1\n2\n"),
            ("bad.down", "1\nx\n"),
            ("log", "1 0 c s 5 GET u\n"),
            ("bits", "0\n1\n"),
        ];
        for (name, text) in texts {
            std::fs::write(path(name), text).unwrap();
        }
        let mut files = Files::default();
        let mut losses = [FileOf::<LossTrace>::at("bits"), FileOf::at("bits")];
        let mut delays = FileOf::<DelayTrace>::at("bits");
        let trace = files.trace(&path("lte.down")).unwrap();
        let log = files.log(&path("log")).unwrap();
        let wrong = files.trace(&path("bad.down")).unwrap_err();
        assert!(wrong.starts_with("line 2, column 1: 'x'"), "{wrong}");
        files.read(&path("bits"), &mut losses[0]).unwrap();
        // The same bytes are something else to a jitter.
        let unfit = files.read(&path("bits"), &mut delays).unwrap_err();

        // Changes on the disk are not seen any more.
        for (name, _) in texts {
            std::fs::write(path(name), "?").unwrap();
        }
        assert!(Arc::ptr_eq(&files.trace(&path("lte.down")).unwrap(), &trace));
        assert_eq!(files.trace(&path("bad.down")), Err(wrong));
        assert_eq!(files.log(&path("log")), Ok(log));
        files.read(&path("bits"), &mut losses[1]).unwrap();
        let [first, second] = losses.each_ref().map(FileOf::contents);
        assert!(first.zip(second).is_some_and(|(first, second)| Arc::ptr_eq(first, second)));
        assert_eq!(files.read(&path("bits"), &mut delays), Err(unfit));
    }
}
