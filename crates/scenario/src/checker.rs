//! What checks of a scenario's meaning are made with: the scenario, the document that it was read from, and the errors found so far.

use std::path::Path;

use super::Scenario;
use super::diagnostics::Collector;
use super::document::{Node, Step};

/// Errors, each at its key.
pub(super) struct Check<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) root: &'a Node,
    pub(super) errors: &'a mut Collector,
}

impl Check<'_> {
    /// Notes an error at the key that `path` leads to; `help` says what to do, and may be empty.
    pub(super) fn error(&mut self, path: &[Step], message: impl Into<String>, help: impl Into<String>) {
        let help = Some(help.into()).filter(|text| !text.is_empty());
        self.errors.about(self.root, path, message, help.into_iter().collect());
    }

    /// A file that the scenario names must be there, and be what it should: `read` tries.
    pub(super) fn file<T>(
        &mut self,
        path: &[Step],
        name: &str,
        what: &str,
        read: impl Fn(&Path) -> Result<T, String>,
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
        } else if let Err(reason) = read(&full) {
            self.error(path, format!("`{name}` is no {what}: {reason}"), "");
        }
    }
}
