//! Runs and shells in progress, whichever terminal or lab started them: what their links are like, and changes of these.
//!
//! They listen at sockets of this user ([`warpline_live::control`]). A page names one of them by the socket's file name.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Refusal};

/// How long one of them may take to say what it is like: one that has not begun says nothing, and must not keep the list waiting.
const BRIEF: Duration = Duration::from_millis(500);

/// A run or a shell in progress.
#[derive(Debug, Serialize)]
pub(crate) struct InProgress {
    /// The file name of its socket.
    pub(crate) socket: String,
    /// What it says of itself: its name and process, the time, its links and its live hosts.
    #[serde(flatten)]
    state: Value,
}

/// A wish for the change of a link.
#[derive(Debug, Deserialize)]
pub(crate) struct Wish {
    socket: String,
    link: String,
    set: Map<String, Value>,
}

/// All that can be changed and have begun, in the order of their sockets.
pub(crate) fn all() -> Vec<InProgress> {
    let of = |path: PathBuf| {
        let socket = path.file_name()?.to_str()?.to_owned();
        // One that ends just now, or has not begun, is left out.
        let state = ask(&path, &json!({}), Some(BRIEF)).ok()?;
        Some(InProgress { socket, state })
    };
    sockets().into_iter().filter_map(of).collect()
}

/// Changes a link. Returns what it is like now.
pub(crate) fn change(wish: &Wish) -> Answer<Value> {
    ask(&socket(&wish.socket)?, &json!({ "link": wish.link, "set": wish.set }), None)
}

/// The path of a socket with this file name, at which a run listens.
pub(crate) fn socket(name: &str) -> Answer<PathBuf> {
    let found = sockets().into_iter().find(|path| path.file_name().is_some_and(|own| own == name));
    found.ok_or_else(|| Refusal::missing("this run is over, or cannot be changed any more"))
}

#[cfg(live)]
fn sockets() -> Vec<PathBuf> {
    warpline_live::control::listening().unwrap_or_default()
}

/// What one of them answers, within the usual time if nothing else is said.
#[cfg(live)]
fn ask(path: &std::path::Path, request: &Value, patience: Option<Duration>) -> Answer<Value> {
    let patience = patience.unwrap_or(warpline_live::control::PATIENCE);
    let answer =
        warpline_live::control::ask(path, &request.to_string(), patience).map_err(Refusal::failed)?;
    let read: Value = serde_json::from_str(&answer).map_err(Refusal::failed)?;
    match read["error"].as_str() {
        Some(error) => Err(Refusal::bad(error)),
        None => Ok(read),
    }
}

#[cfg(not(live))]
fn sockets() -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(not(live))]
fn ask(_: &std::path::Path, _: &Value, _: Option<Duration>) -> Answer<Value> {
    Err(Refusal::missing(warpline_lab::run::NO_LIVE))
}
