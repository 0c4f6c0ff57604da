//! Packet filter rules (nftables): scripts of `nft`, and the names of the tables that sessions make.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::start::in_path;

/// Runs one command or script of `nft`.
///
/// # Errors
/// If there is no `nft`, or if it refuses.
pub(crate) fn run(script: &str) -> io::Result<()> {
    nft(&["-f", "-"], script).map(drop)
}

/// What `nft` prints when it is run with these arguments.
///
/// # Errors
/// As [`run`].
pub(crate) fn printed(arguments: &[&str]) -> io::Result<String> {
    nft(arguments, "")
}

/// Runs `nft` with these arguments and this input, and returns its output.
fn nft(arguments: &[&str], input: &str) -> io::Result<String> {
    let program = in_path(&["nft"]).ok_or(io::ErrorKind::NotFound)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is not for it: whoever is asked to end waits for what it does, or needs it to clean up.
        .process_group(0)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Address families of the tables that sessions make.
pub(crate) const FAMILIES: [&str; 2] = ["ip", "inet"];

/// The name of the table that the session `id` makes.
pub(crate) fn table(id: &str) -> String {
    format!("warpline_{}", id.replace('-', "_"))
}

/// Whether the session `id` makes this table; the name includes its family.
pub(crate) fn is_table(named: &str, id: &str) -> bool {
    FAMILIES.iter().any(|family| named == format!("{family} {}", table(id)))
}

/// Removes a table of a session; the name includes its family.
///
/// # Errors
/// If there is no such table, or without permission.
pub(crate) fn remove(table: &str) -> io::Result<()> {
    run(&format!("delete table {table}"))
}
