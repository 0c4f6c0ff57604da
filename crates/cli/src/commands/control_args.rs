//! The option that says which run in progress is meant, for commands that ask it something, and the asking.

use std::path::PathBuf;

use clap::ValueHint;
use serde_json::Value;
use warpline_live::control::{PATIENCE, VARIABLE, ask, listening};

use crate::failure::Failure;

/// Which run is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// The socket of the run, as its own --control has it [default: that of the shell this is typed in, or of the only run that listens]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    control: Option<PathBuf>,
}

/// The run that is meant.
#[derive(Clone, Debug)]
pub(crate) struct Control(PathBuf);

impl ControlArgs {
    /// The run that is meant.
    pub(crate) fn find(&self) -> Result<Control, Failure> {
        socket(self.control.as_ref()).map(Control)
    }

    /// The answer of the run to a request, which may be a refusal.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, Failure> {
        self.find()?.ask(request)
    }
}

impl Control {
    /// The answer of the run to a request, which may be a refusal.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, Failure> {
        let Control(path) = self;
        let answer = ask(path, &request.to_string(), PATIENCE).map_err(Failure::run)?;
        serde_json::from_str(&answer).map_err(|error| {
            Failure::run(format!("{} answers, but not as a run does: {error}", path.display()))
        })
    }
}

/// An answer that is no refusal.
pub(crate) fn accepted(answer: Value) -> Result<Value, Failure> {
    match answer["error"].as_str() {
        Some(error) => Err(Failure::usage(error)),
        None => Ok(answer),
    }
}

/// The socket that is meant.
fn socket(given: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(path) = given {
        return Ok(path.clone());
    }
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let mut paths = listening().map_err(Failure::run)?;
    match paths.len() {
        1 => Ok(paths.remove(0)),
        0 => Err(Failure::run(
            "no shell or run of this user listens: start one with --control; or name its socket with --control PATH",
        )),
        _ => {
            let listed: String =
                paths.iter().map(|path| format!("\n  --control {}", path.display())).collect();
            Err(Failure::usage(format!("several listen; say which:{listed}")))
        }
    }
}
