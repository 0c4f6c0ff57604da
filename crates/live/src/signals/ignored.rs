//! The signals that a process was started to ignore.
//!
//! The command line has this file as a module, too: a build without live hosts has no `warpline-live`.

use std::fs;

/// Whether our parent set this signal to be ignored, as `nohup` does with SIGHUP, and a shell with SIGINT and SIGQUIT in the background. Such a
/// signal must not get a handler: only without one do the programs that this process starts ignore it, too (execve(2)). False if the system does
/// not report it.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // A mask, proc(5): its lowest bit is signal 1.
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
