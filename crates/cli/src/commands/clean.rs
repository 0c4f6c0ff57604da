//! `warpline clean`: removes what killed runs left behind.

use warpline_live::registry;

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
A shell or a run that ends, however it fails, removes what it made. If it is killed
(kill -9), a second process does so, which waits for that. If that one is killed as well,
or if Python made the run, programs in it, packet filter rules and kernel settings may
stay. So may the directories of guests. The next shell or run removes them, and so does
this command. Sessions are recorded in /run/warpline for root, else in
$XDG_RUNTIME_DIR/warpline, else in /tmp/warpline-UID; a directory that other users may
have created or written to is not used.

Examples:
  warpline clean
  warpline clean --json";

/// Remove what killed shells and runs left behind
///
/// Removes programs, interfaces, packet filter rules, settings and guests' files of sessions whose process has ended. Running sessions are left alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What was removed.
#[derive(Debug, serde::Serialize)]
struct Removed {
    #[serde(flatten)]
    cleaned: registry::Cleaned,
    /// Directories of guests.
    guests: Vec<std::path::PathBuf>,
}

/// Removes what killed sessions left, before a command that makes such things itself, and prints what it ends. If that fails it prints
/// why, and the command goes on.
pub(crate) fn before() {
    #[cfg(guests)]
    warpline_guest::clean();
    if let Err(error) = registry::clean(&mut output::note) {
        output::note(&format!(
            "this session cannot be recorded, so \"warpline clean\" could not clean up after it if it is killed: {error}"
        ));
    }
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let cleaned = registry::clean(&mut output::note)
        .map_err(|error| Failure::run(format!("cannot look for leftovers: {error}")))?;
    #[cfg(guests)]
    let guests = warpline_guest::clean();
    #[cfg(not(guests))]
    let guests = Vec::<std::path::PathBuf>::new();
    if args.json {
        output::print_json(&Removed { cleaned, guests })?;
        return Ok(Code::Success);
    }
    let mut text = String::new();
    for (session, removed) in &cleaned.sessions {
        let what = if removed.is_empty() { "nothing was left".to_owned() } else { removed.join(", ") };
        text += &format!("{session}: {what}\n");
    }
    for directory in &guests {
        text += &format!("a guest of a process that has ended: {}\n", directory.display());
    }
    for session in &cleaned.running {
        text += &format!("{session}: running, left alone\n");
    }
    if text.is_empty() {
        text += "Nothing was left behind.\n";
    }
    output::print(&text)?;
    Ok(Code::Success)
}
