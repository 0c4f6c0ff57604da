//! Reads a scenario's text from a file, standard input, or a pipe.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use warpline_core::spelling::nearest;

use super::Scenario;
use super::diagnostics::Diagnostics;
use super::expect::Judge;

/// Stands for standard input on the command line.
pub const STANDARD_INPUT: &str = "-";

/// Bytes of a scenario at most: a million links take a quarter of them. There are devices without an end.
const MOST_BYTES: u64 = 256 << 20;

/// The text of a scenario. It is read once and can be loaded several times, even if it came through a pipe.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    /// The scenario's name if it has none.
    stem: String,
    text: String,
    directory: PathBuf,
}

/// Whether a path is a stream (a device, a pipe, standard input) and not a file: `/dev/stdin`, `/dev/fd/63`, `/proc/self/fd/0`.
fn is_stream(path: &Path) -> bool {
    let named = path == Path::new(STANDARD_INPUT) || path == Path::new("/dev/stdin");
    named || path.starts_with("/dev/fd") || path.starts_with("/proc") || {
        let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
        kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir())
    }
}

impl Source {
    /// Reads the scenario at `path`; "-" is standard input. Paths in a scenario from standard input or a pipe are relative to the current
    /// directory.
    ///
    /// # Errors
    /// If it cannot be read, or is not UTF-8 text.
    pub fn read(path: &Path) -> Result<Source, Diagnostics> {
        let stream = is_stream(path);
        let standard_input = path == Path::new(STANDARD_INPUT);
        let name = if standard_input { "standard input".to_owned() } else { path.display().to_string() };
        let mut bytes = Vec::new();
        let read = if standard_input {
            std::io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes)
        } else {
            File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        };
        read.map_err(|error| unreadable(path, &name, &error))?;
        if bytes.len() as u64 > MOST_BYTES {
            let message = format!("{name} has more than {MOST_BYTES} bytes, and is no scenario");
            return Err(Diagnostics::single(
                message,
                "name a file with a scenario; it may be a device without an end",
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid].iter().filter(|b| **b == b'\n').count() + 1;
            Diagnostics::single(
                format!(
                    "{name} is not UTF-8 text: the byte at offset {valid} (line {line}) does not belong there"
                ),
                "save the file as UTF-8",
            )
        })?;
        let directory = if stream { Path::new("") } else { path.parent().unwrap_or(Path::new("")) };
        let stem = if stream { "scenario".to_owned() } else { name.clone() };
        Ok(Source { name, stem, text, directory: directory.to_owned() })
    }

    /// A scenario that is at hand as a text. `name` is its name in errors; paths in it are relative to `directory`.
    pub fn from_text(name: &str, text: &str, directory: &Path) -> Source {
        Source {
            name: name.to_owned(),
            stem: name.to_owned(),
            text: text.to_owned(),
            directory: directory.to_owned(),
        }
    }

    /// Its name in errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The text as it was read.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The scenario, with `sets` applied, each "path=value" as of `--set`.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn load(&self, sets: &[String]) -> Result<Scenario, Diagnostics> {
        Scenario::parse((&self.name, &self.stem), &self.text, sets, &self.directory, None)
    }

    /// The scenario as by [`load`](Self::load), where `judge` judges what it expects of its results.
    ///
    /// # Errors
    /// As there, and what `judge` finds.
    pub fn load_judged(&self, sets: &[String], judge: Judge) -> Result<Scenario, Diagnostics> {
        Scenario::parse((&self.name, &self.stem), &self.text, sets, &self.directory, Some(judge))
    }
}

impl Scenario {
    /// Reads the scenario file at `path` and applies `sets`, each "path=value" as of `--set`.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn load(path: &Path, sets: &[String]) -> Result<Scenario, Diagnostics> {
        Source::read(path)?.load(sets)
    }
}

/// The error for a scenario called `name` that cannot be read.
fn unreadable(path: &Path, name: &str, error: &std::io::Error) -> Diagnostics {
    let mut help = String::new();
    if error.kind() == std::io::ErrorKind::NotFound {
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut others: Vec<String> = std::fs::read_dir(directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".toml"))
            .collect();
        others.sort();
        let wanted = path.file_name().unwrap_or_default().to_string_lossy();
        let near = nearest(&wanted, others.iter().map(String::as_str));
        if let Some(near) = near {
            help = format!("did you mean {}?", directory.join(near).display());
        } else if !others.is_empty() {
            others.truncate(10);
            help = format!("scenario files in {}: {}", directory.display(), others.join(", "));
        }
    }
    Diagnostics::single(format!("cannot read {name}: {error}"), help)
}
