//! What checks of a scenario's meaning are made with: the scenario, the document that it was read from, and the errors found so far.

use std::path::Path;

use warpline_core::parameter::Choice;

use super::Scenario;
use super::diagnostics::Collector;
use super::document::{Node, Step, key};
use super::files::Files;

/// Errors, each at its key.
pub(super) struct Check<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) root: &'a Node,
    pub(super) errors: &'a mut Collector,
    pub(super) files: Files,
}

impl Check<'_> {
    /// Notes an error at the key that `path` leads to; `help` says what to do, and may be empty.
    pub(super) fn error(&mut self, path: &[Step], message: impl Into<String>, help: impl Into<String>) {
        let help = Some(help.into()).filter(|text| !text.is_empty());
        self.errors.about(self.root, path, message, help.into_iter().collect());
    }

    /// The files that a component names must be there, and be what they should; `path` leads to its table.
    pub(super) fn component_files<C: Choice>(&mut self, path: &[Step], component: &C) {
        for (name, file) in component.clone().files() {
            let mut path = path.to_vec();
            path.push(key(name));
            let (shown, what) = (file.path_mut().clone(), file.what());
            self.file(&path, &shown, what, |files, full| files.read(full, file));
        }
    }

    /// A file that the scenario names must be there, and be what it should: `read` tries.
    pub(super) fn file<T>(
        &mut self,
        path: &[Step],
        name: &str,
        what: &str,
        read: impl FnOnce(&mut Files, &Path) -> Result<T, String>,
    ) {
        let full = self.scenario.directory.join(name);
        if !full.exists() {
            let message = format!("there is no file `{name}`");
            let from = match self.scenario.directory.as_os_str().is_empty() {
                true => "the current directory",
                false => "the scenario file",
            };
            let help = format!("looked for {}: the path is relative to {from}", full.display());
            self.error(path, message, help);
        } else if let Err(reason) = read(&mut self.files, &full) {
            self.error(path, format!("`{name}` is no {what}: {reason}"), "");
        }
    }
}
