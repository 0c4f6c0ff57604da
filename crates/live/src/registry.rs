//! Records what exists because of us now, one file for each session, so that leftovers of a killed session can be found and removed.
//!
//! A session's namespaces end with it, and with them its interfaces. What can stay behind is a program that still runs,
//! packet filter rules, and a kernel setting. [`clean`] removes these for every session whose process has gone. A second process calls it when the
//! first is killed ([`crate::keeper`]); so does the next session.
//!
//! The files are in a directory that only this user can write to ([`PrivateDirectory`]); without such a directory there are none. And the content of a
//! file is believed only as far as a session can have written it: settings of one list, and names that follow from the session's own.

mod setting;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::Uid;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

pub use setting::Setting;

use crate::control;
use crate::keeper::{self, Keeper};
use crate::netns::NetNs;
use crate::private::{DRAFT, PrivateDirectory, UnsoundError};
use crate::process::{Process, pause, started};
use crate::{address, cgroup, nftables};

/// The suffix of a session's file.
const FILE: &str = ".json";

/// A session: its process, and what it made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its unique name: process, start, and if the process has had others before, which one it is.
    pub id: String,
    /// Its process.
    pub pid: i32,
    /// When the process started, in clock ticks since the machine did (proc(5)): distinguishes it from a later one with the same number.
    pub started: u64,
    /// Its number among the sessions of its process, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u32,
    /// Its description for users.
    pub what: String,
    /// Inodes of its network namespaces.
    pub namespaces: Vec<u64>,
    /// Inode of the network namespace in which `interfaces`, `tables` and `settings` are.
    pub base: u64,
    /// Interfaces there.
    pub interfaces: Vec<String>,
    /// Tables of nftables there, as "ip NAME".
    pub tables: Vec<String>,
    /// Kernel settings that were changed, with their previous values.
    pub settings: Vec<(Setting, String)>,
    /// Control groups, by their paths in the hierarchy of version 2.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// Interfaces of others there that it uses, each with the VLAN after a full stop, if it has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
}

impl Session {
    /// The session of a process that started then and has made nothing yet; `number` of them.
    fn of(pid: i32, started: u64, number: u32, what: &str) -> Self {
        let id = match number {
            0 => format!("{pid}-{started}"),
            number => format!("{pid}-{started}-{number}"),
        };
        Session { id, pid, started, number, what: what.to_owned(), ..Session::default() }
    }

    /// The session in `text`, from the file `name`; `None` if no session can have written it.
    fn read(name: &str, text: &[u8]) -> Option<Self> {
        let session: Session = serde_json::from_slice(text).ok()?;
        let own = Session::of(session.pid, session.started, session.number, "");
        (session.id == own.id && session.file() == name).then_some(session)
    }

    /// The name of its file.
    fn file(&self) -> String {
        format!("{}{FILE}", self.id)
    }

    /// Its description and its process, for users.
    fn described(&self) -> String {
        // Text from a file: control characters must not reach the terminal.
        let what: String = self.what.chars().filter(|c| !c.is_control()).collect();
        format!("{what} (process {})", self.pid)
    }

    /// The session that uses this interface now, as users know it, if there is another one.
    fn rival(&self, used: &str) -> Option<String> {
        let rival = others(self).into_iter().find(|other| other.uses.iter().any(|own| own == used));
        rival.map(|rival| rival.described())
    }

    /// Whether its process runs.
    fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// The value of a setting before sessions of this namespace changed it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn before(&self, setting: &Setting) -> io::Result<String> {
        let noted = self.settings.iter().cloned().chain(others(self).into_iter().flat_map(|o| o.settings));
        match noted.into_iter().find(|(known, _)| known == setting) {
            Some((_, before)) => Ok(before),
            None => setting.value(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Drops those settings of a session that another one needs, too: it knows their previous values, and the last of them restores them.
fn leave_shared<'a>(session: &mut Session, others: impl Iterator<Item = &'a Session>) {
    let used: Vec<&Setting> = others.flat_map(|other| &other.settings).map(|(setting, _)| setting).collect();
    session.settings.retain(|(setting, _)| !used.contains(&setting));
}

/// Running sessions, apart from this one, that started from the same network namespace.
fn others(session: &Session) -> Vec<Session> {
    directory().map_or_else(|_| Vec::new(), |directory| others_in(&directory, session))
}

/// Running sessions, apart from this one, that started from the same network namespace and have their files in this directory.
fn others_in(directory: &PrivateDirectory, session: &Session) -> Vec<Session> {
    let names = directory.names().unwrap_or_default();
    names
        .iter()
        .filter_map(|name| Session::read(name, &directory.read(name).ok()?))
        .filter(|other| other.base == session.base && other.id != session.id && other.is_alive())
        .collect()
}

/// A session's file; removed when this value is dropped.
#[derive(Debug)]
pub struct Entry {
    directory: Option<PrivateDirectory>,
    /// The session.
    pub session: Session,
    /// What cleans up if this process is killed. Last, so that it is there until then.
    _keeper: Option<Arc<Keeper>>,
}

/// The directory of the files: `warpline` below `/run` for root, else below `$XDG_RUNTIME_DIR`, if these belong to this user; else
/// `/tmp/warpline-UID`. It is created if it does not exist.
///
/// # Errors
/// If it may belong to another user. Then no session is recorded, and none is cleaned.
pub fn directory() -> Result<PrivateDirectory, UnsoundError> {
    let uid = Uid::effective();
    let system = uid.is_root().then(|| PathBuf::from("/run"));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    // In a user namespace /run belongs to another user, and after `sudo` the variable names a directory of the calling user.
    let own =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_dir() && found.uid() == uid.as_raw());
    for parent in system.into_iter().chain(runtime).filter(own) {
        match PrivateDirectory::open(&parent, "warpline") {
            // Read-only, for example.
            Err(error) if !error.is_foreign() => {}
            other => return other,
        }
    }
    PrivateDirectory::open(Path::new("/tmp"), &format!("warpline-{uid}"))
}

impl Entry {
    /// Records this process as a session. Without a sound [`directory`], the session goes on without a file.
    pub fn create(what: &str) -> Entry {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id() as i32;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let session = Session::of(pid, started(pid).unwrap_or(0), number, what);
        let directory = directory().ok();
        // Without a file, it would find nothing to clean up.
        let keeper = directory.as_ref().and_then(|_| keeper::start());
        let entry = Entry { directory, session, _keeper: keeper };
        entry.save();
        entry
    }

    /// Sets a setting, and saves its value before sessions of this namespace changed it: before it is changed, so that whoever cleans up after this
    /// process knows it.
    ///
    /// # Errors
    /// If it cannot be read or written. Then nothing is recorded.
    pub fn change(&mut self, setting: Setting, value: &str) -> io::Result<()> {
        // Nobody else sets it back meanwhile.
        let _lock = self.directory.as_ref().map(PrivateDirectory::lock);
        let before = self.session.before(&setting)?;
        if before != value {
            self.session.settings.push((setting.clone(), before));
            self.save();
        }
        let written = if setting.value()? == value { Ok(()) } else { setting.write(value) };
        if written.is_err() {
            self.session.settings.retain(|(known, _)| *known != setting);
            self.save();
        }
        written
    }

    /// Records that this session uses these interfaces of others.
    ///
    /// # Errors
    /// If another session uses one: which interface, and that session's description. Nothing is recorded then.
    pub(crate) fn take(&mut self, used: Vec<String>) -> Result<(), (String, String)> {
        let _lock = self.directory.as_ref().map(PrivateDirectory::lock);
        if let Some(taken) = used.iter().find_map(|used| Some((used.clone(), self.session.rival(used)?))) {
            return Err(taken);
        }
        self.session.uses = used;
        self.save();
        Ok(())
    }

    /// Saves the session's current state.
    pub fn save(&self) {
        let text = serde_json::to_vec(&self.session).unwrap_or_default();
        if let Some(directory) = &self.directory {
            let _ = directory.write(&self.session.file(), &text);
        }
    }
}

#[cfg(test)]
impl Entry {
    /// A session with its file in this directory, if there is one.
    pub(crate) fn of(session: Session, directory: Option<PrivateDirectory>) -> Self {
        Entry { directory, session, _keeper: None }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        leave(&self.session, self.directory.as_ref());
    }
}

/// Ends a session of this process: undoes what it changed, except what another one needs, and removes its file from the directory, if there is one.
pub(crate) fn leave(session: &Session, directory: Option<&PrivateDirectory>) {
    remove_groups(session, &mut |_| {});
    // Of two that end together, the second sets back what they shared.
    let _lock = directory.map(PrivateDirectory::lock);
    let (mut rest, others) = (session.clone(), others(session));
    leave_shared(&mut rest, others.iter());
    undo(&rest);
    if let Some(directory) = directory {
        let _ = directory.remove(&session.file());
    }
}

/// What [`clean`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Sessions that were killed, by their own descriptions, and what was removed of each.
    pub sessions: Vec<(String, Vec<String>)>,
    /// Sessions that are running.
    pub running: Vec<String>,
}

/// Why nothing was cleaned.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// The directory of sessions may belong to another user.
    #[error(transparent)]
    Unsound(#[from] UnsoundError),
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    System {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Removes what killed sessions left. Calls `report` before it ends a process, and for names in a file that no session makes.
///
/// # Errors
/// If the directory of sessions is not sound or cannot be read. What cannot be removed for lack of permission is listed in the outcome.
pub fn clean(report: &mut dyn FnMut(&str)) -> Result<Cleaned, CleanError> {
    clean_in(&directory()?, report)
}

fn clean_in(directory: &PrivateDirectory, report: &mut dyn FnMut(&str)) -> Result<Cleaned, CleanError> {
    let mut cleaned = Cleaned::default();
    let names = directory
        .names()
        .map_err(|source| CleanError::System { path: directory.path().to_owned(), source })?;
    let mut gone = Vec::new();
    for name in names {
        let path = directory.path().join(&name);
        if path.extension().is_some_and(|extension| extension == control::EXTENSION) {
            control::clear(&path);
            continue;
        }
        let Ok(text) = directory.read(&name) else { continue };
        match Session::read(&name, &text) {
            Some(session) if session.is_alive() => cleaned.running.push(session.described()),
            Some(session) => gone.push(session),
            // Cut short by a full disk, or another version's: it is of no use once its process has gone.
            None if is_dead(&name) => drop(directory.remove(&name)),
            None => {}
        }
    }
    for mut session in gone {
        leave_foreign(&mut session, report);
        let mut removed = end(&session, report);
        removed.extend(remove_groups(&session, report));
        let _lock = directory.lock();
        // If another process has cleaned up meanwhile, a new session may have made an interface of the same name, and not have recorded it yet.
        if directory.read(&session.file()).is_ok() {
            // What another session uses by now stays: names are reused, and settings are shared.
            let others = others_in(directory, &session);
            session.interfaces.retain(|name| others.iter().all(|other| !other.interfaces.contains(name)));
            leave_shared(&mut session, others.iter());
            removed.extend(undo(&session));
            let _ = directory.remove(&session.file());
        }
        cleaned.sessions.push((session.described(), removed));
    }
    Ok(cleaned)
}

/// Whether a file has the name of a session's file, or of a draft of one, whose process has gone.
fn is_dead(name: &str) -> bool {
    let id = name.strip_suffix(DRAFT).unwrap_or(name).strip_suffix(FILE);
    let numbers = id.and_then(|id| {
        let (pid, rest) = id.split_once('-')?;
        match rest.split_once('-') {
            Some((start, number)) => number.parse::<u32>().ok().map(|_| (pid, start)),
            None => Some((pid, rest)),
        }
    });
    numbers
        .and_then(|(pid, start)| Some((pid.parse::<i32>().ok()?, start.parse::<u64>().ok()?)))
        .is_some_and(|(pid, start)| started(pid) != Some(start))
}

/// Drops from a session what no session makes: the content of a file is not trusted.
fn leave_foreign(session: &mut Session, report: &mut dyn FnMut(&str)) {
    let id = session.id.clone();
    let mut keep = |what: &str, name: &str, own: bool| {
        if !own {
            report(&format!("left alone: the {what} {name:?}, which no session makes"));
        }
        own
    };
    session.interfaces.retain(|name| keep("interface", name, address::is_interface(name)));
    session.tables.retain(|table| keep("nftables table", table, nftables::is_table(table, &id)));
    session.cgroups.retain(|path| keep("control group", path, cgroup::is_group(path, &id)));
    session
        .settings
        .retain(|(setting, value)| keep("value", &format!("{value} of {setting}"), setting.allows(value)));
}

/// Ends processes of a session: asks, waits a little, kills. Returns the processes.
pub fn end_processes(session: &Session) -> Vec<String> {
    end(session, &mut |_| {})
}

/// Steps of [`pause`] that a process has to end after it was asked, and after it was killed.
const PATIENCE: u32 = 20;

/// Processes of a session that run now, apart from its main process and this one: those of this user that are in one of its network namespaces and have
/// its mark in their environment.
fn processes(session: &Session) -> Vec<Process> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let spared = |pid: i32| {
        pid == std::process::id() as i32 || pid == session.pid && started(pid) == Some(session.started)
    };
    let others = numbers.filter(|&pid| !spared(pid)).filter_map(|pid| Process::open(pid).ok());
    // A shell in a shell has changed the mark of its own processes, but those are in another namespace.
    let own = others.filter(|one| one.is_in(&session.namespaces) && one.is_marked(&session.id));
    // A process that has ended and is not reaped has no environment any more.
    own.collect()
}

/// Ends processes of a session: asks, waits a little, kills. Calls `report` before it asks each.
fn end(session: &Session, report: &mut dyn FnMut(&str)) -> Vec<String> {
    let mut ended = Vec::new();
    for signal in [Signal::TERM, Signal::KILL] {
        for process in processes(session) {
            let name = process.to_string();
            if !ended.contains(&name) {
                report(&format!("ending {name}, left by {}", session.described()));
            }
            if process.signal(signal).is_ok() && !ended.contains(&name) {
                ended.push(name);
            }
        }
        for _ in 0..PATIENCE {
            if processes(session).is_empty() {
                return ended;
            }
            pause();
        }
    }
    ended
}

/// Removes the control groups of a session. It ends what is in them, which may take seconds: do it without the lock of the directory.
fn remove_groups(session: &Session, report: &mut dyn FnMut(&str)) -> Vec<String> {
    let mut removed = Vec::new();
    for path in &session.cgroups {
        if cgroup::remove(path, &session.id, report).is_ok_and(|was_there| was_there) {
            removed.push(format!("control group {path}"));
        }
    }
    removed
}

/// Undoes what else a session changed in the namespace that it started from, if there is still a way into it.
fn undo(session: &Session) -> Vec<String> {
    let mut removed = Vec::new();
    if session.interfaces.is_empty() && session.tables.is_empty() && session.settings.is_empty() {
        return removed;
    }
    let here = std::fs::metadata("/proc/thread-self/ns/net").map(|m| m.ino());
    if here.is_ok_and(|inode| inode == session.base) {
        undo_here(session, &mut removed);
    } else if let Some(namespace) = NetNs::find(session.base) {
        // A session that ended in another namespace, as in a container's.
        let _ = namespace.within(|| undo_here(session, &mut removed));
    }
    removed
}

/// Undoes what a session changed in the network namespace of this thread, and adds it to `removed`.
fn undo_here(session: &Session, removed: &mut Vec<String>) {
    for name in &session.interfaces {
        if crate::netlink::Netlink::open().and_then(|mut netlink| netlink.delete(name)).is_ok() {
            removed.push(format!("interface {name}"));
        }
    }
    for table in &session.tables {
        if nftables::remove(table).is_ok() {
            removed.push(format!("nftables {table}"));
        }
    }
    for (setting, before) in &session.settings {
        if setting.write(before).is_ok() {
            removed.push(format!("setting {setting}"));
        }
    }
}

#[cfg(test)]
mod tests;
