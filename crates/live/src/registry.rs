//! What exists because of us now: one file for each session, so that what a killed one left can be found and removed.
//!
//! A session's namespaces end with it, and with them its interfaces; what can stay behind is a program of its that still runs,
//! rules of the packet filter, and a setting of the kernel. [`clean`] removes these for every session whose process has gone.
//! A process counts as a session's only if it is in the session's network namespace *and* has its mark in its environment: numbers
//! of processes and namespaces are used again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde::{Deserialize, Serialize};

/// The environment variable that marks a session's processes.
pub const MARK: &str = "WARPLINE_SESSION";

/// A session: who it is, and what it made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its name, unlike that of any other: process, start, and a count.
    pub id: String,
    /// Its process.
    pub pid: i32,
    /// When the process started, in clock ticks since the machine did (proc(5)): tells it from a later one of the same number.
    pub started: u64,
    /// What it is, for people.
    pub what: String,
    /// Inodes of its network namespaces.
    pub namespaces: Vec<u64>,
    /// Inode of the network namespace in which `interfaces`, `tables` and `settings` are.
    pub base: u64,
    /// Interfaces there.
    pub interfaces: Vec<String>,
    /// Tables of nftables there, as "ip NAME".
    pub tables: Vec<String>,
    /// Files under `/proc/sys` that were changed, and what was in them.
    pub settings: Vec<(PathBuf, String)>,
    /// Control groups, by their paths in the hierarchy of version 2.
    #[serde(default)]
    pub cgroups: Vec<String>,
}

impl Session {
    /// Gives a file under `/proc/sys` a value, and notes what it was before sessions of this namespace changed it.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn set(&mut self, path: PathBuf, value: &str) -> io::Result<()> {
        let now = fs::read_to_string(&path)?.trim().to_owned();
        if now != value {
            fs::write(&path, value)?;
            self.settings.push((path, now));
        } else if let Some(before) =
            others(self).into_iter().flat_map(|other| other.settings).find(|(other, _)| *other == path)
        {
            self.settings.push(before);
        }
        Ok(())
    }
}

/// Sessions under way, apart from this one, that started from the same network namespace.
fn others(session: &Session) -> Vec<Session> {
    let files = fs::read_dir(directory()).into_iter().flatten().flatten();
    files
        .filter_map(|file| serde_json::from_slice::<Session>(&fs::read(file.path()).ok()?).ok())
        .filter(|other| other.base == session.base && other.id != session.id)
        .filter(|other| started(other.pid) == Some(other.started))
        .collect()
}

/// A session's file; removed with the entry.
#[derive(Debug)]
pub struct Entry {
    path: Option<PathBuf>,
    /// The session.
    pub session: Session,
}

/// Where the files are: `/run/warpline` for root, else `$XDG_RUNTIME_DIR/warpline`, else `/tmp/warpline-UID`.
pub fn directory() -> PathBuf {
    let uid = Uid::effective();
    if uid.is_root() && fs::create_dir_all("/run/warpline").is_ok() {
        return "/run/warpline".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if Path::new(&runtime).is_absolute() => Path::new(&runtime).join("warpline"),
        _ => format!("/tmp/warpline-{uid}").into(),
    }
}

/// When a process started; none if there is no such process.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything: fields are counted from behind it. The start is field 22.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace();
    if matches!(fields.next(), None | Some("Z" | "X")) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl Entry {
    /// Enters this process as a session. Where its file cannot be written, the session goes on without.
    pub fn create(what: &str) -> Entry {
        let pid = std::process::id() as i32;
        let started = started(pid).unwrap_or(0);
        let id = format!("{pid}-{started}");
        let session = Session { id, pid, started, what: what.to_owned(), ..Session::default() };
        let directory = directory();
        let path =
            fs::create_dir_all(&directory).ok().map(|()| directory.join(format!("{}.json", session.id)));
        let entry = Entry { path, session };
        entry.save();
        entry
    }

    /// Notes what the session has become.
    pub fn save(&self) {
        let Some(path) = &self.path else { return };
        // Moved into place: no reader sees half of it.
        let draft = path.with_extension("new");
        let text = serde_json::to_vec(&self.session).unwrap_or_default();
        if fs::write(&draft, text).is_ok() {
            let _ = fs::rename(&draft, path);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !others(&self.session).is_empty() {
            // They need the settings, know what they were, and the last of them takes them back.
            self.session.settings.clear();
        }
        undo(&self.session);
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// What [`clean`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Sessions that were killed, as they called themselves, and what was removed of each.
    pub sessions: Vec<(String, Vec<String>)>,
    /// Sessions that are under way.
    pub running: Vec<String>,
}

/// Removes what killed sessions left.
///
/// # Errors
/// If the directory of sessions cannot be read. What cannot be removed for want of permission is said in the outcome.
pub fn clean() -> io::Result<Cleaned> {
    let mut cleaned = Cleaned::default();
    let files = match fs::read_dir(directory()) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(cleaned),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.sort();
    let mut gone = Vec::new();
    let mut alive = Vec::new();
    for path in paths {
        let Ok(session) = fs::read(&path).map(|text| serde_json::from_slice::<Session>(&text)) else {
            continue;
        };
        let Ok(session) = session else {
            // Not one of ours, or cut short by a full disk: nothing can be learnt from it.
            if path.extension().is_some_and(|e| e == "json" || e == "new") {
                let _ = fs::remove_file(&path);
            }
            continue;
        };
        if started(session.pid) == Some(session.started) {
            cleaned.running.push(format!("{} (process {})", session.what, session.pid));
            alive.push(session);
        } else {
            gone.push((path, session));
        }
    }
    for (path, mut session) in gone {
        let mut removed = end_processes(&session);
        // What another session uses by now stays: names are used again, and settings are shared.
        let others: Vec<&Session> = alive.iter().filter(|other| other.base == session.base).collect();
        session.interfaces.retain(|name| others.iter().all(|other| !other.interfaces.contains(name)));
        if !others.is_empty() {
            session.settings.clear();
        }
        removed.extend(undo(&session));
        let _ = fs::remove_file(&path);
        cleaned.sessions.push((format!("{} (process {})", session.what, session.pid), removed));
    }
    Ok(cleaned)
}

/// Processes of a session, by mark and namespace.
pub fn processes(session: &Session) -> Vec<i32> {
    let mark = format!("{MARK}={}", session.id);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if pid == std::process::id() as i32 || pid == session.pid && started(pid) == Some(session.started) {
            continue;
        }
        let namespace =
            fs::metadata(format!("/proc/{pid}/ns/net")).map(|m| std::os::unix::fs::MetadataExt::ino(&m));
        if !namespace.is_ok_and(|inode| session.namespaces.contains(&inode)) {
            continue;
        }
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        // A shell in a shell has changed the mark of its own processes, but those are in another namespace.
        if environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Ends what still runs of a session: asks, waits a little, kills.
pub fn end_processes(session: &Session) -> Vec<String> {
    let mut ended = Vec::new();
    for (signal, patience) in [(Signal::SIGTERM, 20), (Signal::SIGKILL, 20)] {
        let left = processes(session);
        for &pid in &left {
            let note = format!("process {pid}");
            if kill(Pid::from_raw(pid), signal).is_ok() && !ended.contains(&note) {
                ended.push(note);
            }
        }
        for _ in 0..patience {
            if processes(session).is_empty() {
                return ended;
            }
            pause();
        }
    }
    ended
}

/// Waits for a twentieth of a second.
#[expect(clippy::disallowed_methods, reason = "processes are waited for, not the run's clock")]
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Takes back what a session changed in the namespace that it started from.
fn undo(session: &Session) -> Vec<String> {
    let mut removed = Vec::new();
    for path in &session.cgroups {
        if crate::nice::cgroup::remove(path).is_ok_and(|was_there| was_there) {
            removed.push(format!("control group {path}"));
        }
    }
    let here = fs::metadata("/proc/thread-self/ns/net").map(|m| std::os::unix::fs::MetadataExt::ino(&m));
    if !here.is_ok_and(|inode| inode == session.base) {
        return removed;
    }
    for name in &session.interfaces {
        if crate::netlink::Netlink::open().and_then(|mut netlink| netlink.delete(name)).is_ok() {
            removed.push(format!("interface {name}"));
        }
    }
    for table in &session.tables {
        let mut words = vec!["delete", "table"];
        words.extend(table.split(' '));
        if crate::nat::nft(&words.join(" ")).is_ok() {
            removed.push(format!("nftables {table}"));
        }
    }
    for (path, before) in &session.settings {
        if fs::write(path, before).is_ok() {
            removed.push(format!("setting {}", path.display()));
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known_by_number_and_start() {
        let own = std::process::id() as i32;
        assert!(started(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(started(own), started(own));
        assert_eq!(started(i32::MAX), None);
    }

    #[test]
    fn a_process_without_the_mark_is_not_a_session_s() {
        let namespace = fs::metadata("/proc/self/ns/net").map(|m| std::os::unix::fs::MetadataExt::ino(&m));
        let session = Session {
            id: "none-such".to_owned(),
            namespaces: namespace.into_iter().collect(),
            ..Session::default()
        };
        assert!(processes(&session).is_empty());
    }
}
