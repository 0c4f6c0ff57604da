//! `warpline enter`: a command, or a shell, on a live host of a run in progress.

use std::ffi::OsString;

use clap::ValueHint;
use serde_json::json;
use warpline_live::enter::{Door, EnterError};

use super::control_args::{ControlArgs, accepted};
use super::link_args::or_shell;
use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
The run must have been started with --control. The command has the host's network, and
everything else of this machine: files, users, programs. It ends with the run. In its
words, {server} is the address of the host `server`, and {server:6} its IPv6 address;
in its environment are WARPLINE_ADDR_SERVER and so on, as for a scenario's own programs.

Examples:
  In one terminal a run; in another one a ping from one of its hosts to another:
    warpline run scenarios/live-web.toml --control
    warpline enter client -- ping -c 3 {server}
  A shell on a host; and which hosts there are:
    warpline enter client
    warpline enter

Exit code: that of the command; 2 if there is no such host, 1 if no run answers.";

/// Run a command, or a shell, on a live host of a run in progress
///
/// Without a host it lists those of the run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, override_usage = "warpline enter [OPTIONS] [HOST] [-- COMMAND...]")]
pub(crate) struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// The host's name in the scenario
    host: Option<String>,
    /// The command and its arguments [default: your shell]
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let Some(host) = args.host else {
        let answer = accepted(args.control.ask(&json!({}))?)?;
        let hosts = answer["hosts"].as_array().into_iter().flatten();
        let names = hosts.filter_map(|own| own["host"].as_str());
        let names: String = names.map(|name| format!("{name}\n")).collect();
        if names.is_empty() {
            output::note("this run has no live host in which a command could run");
        }
        output::print(&names)?;
        return Ok(Code::Success);
    };
    let words: Vec<String> = or_shell(args.command)
        .into_iter()
        .map(|word| word.into_string().map_err(|word| Failure::usage(format!("{word:?} is not UTF-8"))))
        .collect::<Result<_, _>>()?;
    let answer = accepted(args.control.ask(&json!({ "host": host, "command": words }))?)?;
    let unread = |error| Failure::run(format!("the run answers, but not as a run does: {error}"));
    let door: Door = serde_json::from_value(answer["door"].clone()).map_err(unread)?;
    let words: Vec<String> = serde_json::from_value(answer["command"].clone()).map_err(unread)?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Err(match door.become_command(&words) {
        EnterError::Start(error) => error.into(),
        error => Failure::run(error),
    })
}
