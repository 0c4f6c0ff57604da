//! What helps to find out why a program failed: its output, and the captures of the run.

use std::path::{Path, PathBuf};

use warpline_results::ProgramRow;

/// How many bytes of a failed program's output are shown.
const TAIL_LINES: usize = 10;
const TAIL_BYTES: usize = 2000;

/// What helps people to find out why a program failed.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Evidence {
    /// The run directory under its final name; none if none is written.
    directory: Option<PathBuf>,
    /// Names of the captures in it.
    captures: Vec<String>,
}

impl Evidence {
    /// The evidence in the run directory, which is at `written` until it is moved to `shown`.
    pub(in crate::run) fn of(written: Option<&Path>, shown: Option<&Path>) -> Self {
        let names = |directory: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let mut names: Vec<String> =
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.retain(|name| name.ends_with(".pcapng"));
            names.sort();
            names
        };
        Evidence {
            directory: written.and(shown).map(Path::to_owned),
            captures: written.map(names).unwrap_or_default(),
        }
    }

    /// The same with paths relative to the run directory, for files in it: these are the same wherever it is.
    pub(in crate::run) fn inside(&self) -> Self {
        Evidence {
            directory: self.directory.as_ref().map(|_| PathBuf::new()),
            captures: self.captures.clone(),
        }
    }

    /// Where the captures are, to be appended to a sentence.
    pub(in crate::run) fn captures(&self) -> String {
        let Some(directory) = self.directory.as_ref().filter(|_| !self.captures.is_empty()) else {
            return String::new();
        };
        let files: Vec<String> =
            self.captures.iter().map(|name| directory.join(name).display().to_string()).collect();
        format!("; capture: {}", files.join(", "))
    }

    /// Appends to a message about a program where its output and the captures are, and the last lines that it wrote to `stderr`.
    pub(in crate::run) fn complete(&self, what: &str, row: &ProgramRow, stderr: &Path) -> String {
        let mut text = what.to_owned();
        if let Some(directory) = &self.directory {
            text += &format!("; its output: {}", directory.join(&row.stderr).display());
        }
        text += &self.captures();
        match tail(stderr) {
            Some(tail) => text + &format!("\nthe last lines of its standard error:\n{tail}"),
            None => text + "; it wrote nothing to its standard error",
        }
    }
}

/// The last lines of a file, indented; none if it is empty.
fn tail(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]).into_owned();
    let lines: Vec<&str> = end.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    (!last.is_empty()).then(|| last.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"))
}
