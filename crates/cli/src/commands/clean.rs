//! `warpline clean`: what killed runs left.

use warpline_live::registry;

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
A shell that ends, however it fails, removes what it made. One that is killed
(kill -9) cannot: its interfaces and namespaces go with it, but programs in it,
rules of the packet filter, kernel settings and the directories of guests may stay.
The next shell or run removes them, and so does this. What was noted of them is in
/run/warpline for root, else in $XDG_RUNTIME_DIR/warpline, else in /tmp/warpline-UID; a
directory there that others may have made or written to is not used.

Examples:
  warpline clean
  warpline clean --json";

/// Remove what killed shells and runs have left behind
///
/// Programs, interfaces, packet filter rules, settings and guests' files of sessions whose process is gone. Sessions under way are left alone.
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

/// Removes what killed ones have left, before a command that makes such things itself, and says what is ended. Where that cannot be, it is said
/// why; the command goes on.
pub(crate) fn before() {
    if let Err(error) = registry::clean(&mut output::note) {
        output::note(&format!(
            "what this makes is not noted, so that \"warpline clean\" could not remove it if this is killed: {error}"
        ));
    }
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let cleaned = registry::clean(&mut output::note)
        .map_err(|error| Failure::run(format!("leftovers cannot be looked for: {error}")))?;
    #[cfg(target_arch = "x86_64")]
    let guests = warpline_guest::clean();
    #[cfg(not(target_arch = "x86_64"))]
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
        text += &format!("a guest of a process that is gone: {}\n", directory.display());
    }
    for session in &cleaned.running {
        text += &format!("{session}: under way, left alone\n");
    }
    if text.is_empty() {
        text += "Nothing was left behind.\n";
    }
    output::print(&text)?;
    Ok(Code::Success)
}
