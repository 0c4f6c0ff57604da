//! The folder of scenarios: nothing outside of it is listed, read or written.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use warpline_disk::OsDirectory;
use warpline_results::tables::FILE_MODE;

use crate::answer::{Answer, Refusal};

/// Folders within folders that are looked through.
const DEPTH: usize = 3;
/// Scenarios that are listed, at most.
const MOST: usize = 500;
/// A scenario is not larger.
const LARGEST: u64 = 4 << 20;

/// A folder, by its real path.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

/// A file as the page has it.
#[derive(Debug, Serialize)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) text: String,
    /// A digest of the text: another one if the file has changed since.
    pub(crate) version: String,
}

/// The parts of a path of a request, if it leads down and to nothing hidden.
pub(crate) fn parts(name: &str) -> Answer<PathBuf> {
    let wrong = || Refusal::forbidden(format!("{name:?} is not a name below the folder"));
    if name.is_empty() || name.contains(['\\', '\0']) {
        return Err(wrong());
    }
    let path = Path::new(name);
    let plain = |part: Component<'_>| match part {
        Component::Normal(part) => !part.to_string_lossy().starts_with('.'),
        _ => false,
    };
    // A path that would be written otherwise ("a//b", "a/") is no name either.
    let tidy = name.split('/').all(|part| !part.is_empty());
    if tidy && path.components().all(plain) { Ok(path.to_owned()) } else { Err(wrong()) }
}

/// What a text is known by.
fn version(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Folder {
    /// The folder at a path.
    ///
    /// # Errors
    /// If it does not exist.
    pub(crate) fn open(path: &Path) -> std::io::Result<Folder> {
        path.canonicalize().map(Folder)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Where a name leads, also if there is nothing yet. Links that lead out of the folder are not followed.
    pub(crate) fn at(&self, name: &str) -> Answer<PathBuf> {
        let path = self.0.join(parts(name)?);
        // What exists of it, from the bottom up, must be here.
        let real = path.ancestors().find_map(|part| part.canonicalize().ok());
        let dangling = path.is_symlink() && !path.exists();
        match real {
            Some(real) if real.starts_with(&self.0) && !dangling => Ok(path),
            _ => Err(Refusal::forbidden(format!("{name:?} leads out of the folder {}", self.0.display()))),
        }
    }

    fn scenario(&self, name: &str) -> Answer<PathBuf> {
        let path = self.at(name)?;
        if path.extension().is_some_and(|end| end == "toml") {
            Ok(path)
        } else {
            Err(Refusal::bad(format!("{name:?} does not end with .toml")))
        }
    }

    /// The scenarios, by name.
    pub(crate) fn scenarios(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.search(&self.0, DEPTH, &mut found);
        found.sort();
        found
    }

    fn search(&self, folder: &Path, depth: usize, found: &mut Vec<String>) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let Ok(name) = path.strip_prefix(&self.0) else { continue };
            let Some(name) = name.to_str() else { continue };
            if found.len() >= MOST || self.at(name).is_err() {
                continue;
            }
            if path.is_dir() && depth > 0 && !path.is_symlink() {
                // The scenario of a run belongs to the run.
                if !path.join(warpline_results::summary::SUMMARY_FILE).exists() && !path.ends_with("target") {
                    self.search(&path, depth - 1, found);
                }
            } else if path.extension().is_some_and(|end| end == "toml") && is_scenario(&path) {
                found.push(name.to_owned());
            }
        }
    }

    /// A scenario's text.
    pub(crate) fn read(&self, name: &str) -> Answer<Text> {
        let path = self.scenario(name)?;
        let size = fs::metadata(&path)
            .map_err(|error| Refusal::missing(format!("cannot read {name}: {error}")))?
            .len();
        if size > LARGEST {
            return Err(Refusal::bad(format!("{name} has {size} bytes; no scenario is that long")));
        }
        let bytes =
            fs::read(&path).map_err(|error| Refusal::missing(format!("cannot read {name}: {error}")))?;
        let version = version(&bytes);
        let text = String::from_utf8(bytes).map_err(|_| Refusal::bad(format!("{name} is not UTF-8 text")))?;
        Ok(Text { name: name.to_owned(), text, version })
    }

    /// Writes a scenario, whole or not at all. `known` is the version that the page has read; none for a file that must not exist yet.
    pub(crate) fn write(&self, name: &str, text: &str, known: Option<&str>) -> Answer<String> {
        let path = self.scenario(name)?;
        match (fs::read(&path).ok(), known) {
            (None, None) => {}
            (None, Some(_)) => return Err(Refusal::conflict(format!("{name} is no longer there"))),
            (Some(_), None) => return Err(Refusal::conflict(format!("{name} exists already"))),
            (Some(bytes), Some(known)) if version(&bytes) == known => {}
            (Some(_), Some(_)) => {
                return Err(Refusal::conflict(format!(
                    "{name} has been changed by another program since it was opened"
                )));
            }
        }
        // Through a link the file itself is replaced, not the link.
        let real = path.canonicalize().unwrap_or(path);
        let written = warpline_disk::write_whole(&OsDirectory::here(), &real, FILE_MODE, text.as_bytes());
        written.map_err(|error| Refusal::failed(format!("cannot write {name}: {error}")))?;
        Ok(version(text.as_bytes()))
    }
}

/// Whether a TOML file looks like a scenario: it says how long it lasts.
fn is_scenario(path: &Path) -> bool {
    let small = fs::metadata(path).is_ok_and(|data| data.len() <= LARGEST);
    let text = if small { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    text.lines().any(|line| line.trim_start().starts_with("duration"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_folder_is_read_or_written() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("lab");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(outside.path().join("secret.toml"), "duration = \"1s\"\n").unwrap();
        fs::write(root.join("sub/a.toml"), "duration = \"1s\"\n").unwrap();
        let folder = Folder::open(&root).unwrap();
        assert_eq!(folder.scenarios(), ["sub/a.toml"]);
        assert_eq!(folder.read("sub/a.toml").unwrap().text, "duration = \"1s\"\n");
        let absolute = outside.path().join("secret.toml");
        for name in [
            "../secret.toml",
            "sub/../../secret.toml",
            "/etc/passwd",
            absolute.to_str().unwrap(),
            "",
            ".",
            "sub//a.toml",
            "a\\..\\b.toml",
            ".hidden.toml",
        ] {
            assert_eq!(folder.read(name).unwrap_err().status, 403, "{name}");
            assert_eq!(folder.write(name, "x", None).unwrap_err().status, 403, "{name}");
        }
        assert_eq!(folder.write("notes.txt", "x", None).unwrap_err().status, 400);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
            std::os::unix::fs::symlink(outside.path().join("nothing.toml"), root.join("dangling.toml"))
                .unwrap();
            for name in ["out/secret.toml", "out/new.toml", "dangling.toml"] {
                assert_eq!(folder.write(name, "x", None).unwrap_err().status, 403, "{name}");
            }
            assert_eq!(folder.scenarios(), ["sub/a.toml"]);
        }
        assert_eq!(fs::read_to_string(outside.path().join("secret.toml")).unwrap(), "duration = \"1s\"\n");
    }

    #[test]
    fn a_file_that_has_changed_is_not_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let first = folder.write("a.toml", "one", None).unwrap();
        assert_eq!(folder.write("a.toml", "two", None).unwrap_err().status, 409);
        let second = folder.write("a.toml", "two", Some(&first)).unwrap();
        fs::write(root.path().join("a.toml"), "by an editor").unwrap();
        assert_eq!(folder.write("a.toml", "three", Some(&second)).unwrap_err().status, 409);
        assert_eq!(folder.read("a.toml").unwrap().text, "by an editor");
    }
}
