//! A command of a scenario: the one that a program runs, or the one whose success shows that a program is ready.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The command of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProgramCommand {
    /// A line for `sh -c`.
    Shell(String),
    /// The program and its arguments.
    Words(Vec<String>),
}

impl ProgramCommand {
    /// The program and its arguments, as executed.
    pub fn words(&self) -> Vec<String> {
        match self {
            ProgramCommand::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            ProgramCommand::Words(words) => words.clone(),
        }
    }

    /// Whether it names nothing to run.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            ProgramCommand::Shell(line) => line.trim().is_empty(),
            ProgramCommand::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }
}

impl std::fmt::Display for ProgramCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgramCommand::Shell(line) => f.write_str(line),
            ProgramCommand::Words(words) => f.write_str(&words.join(" ")),
        }
    }
}
