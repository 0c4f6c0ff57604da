//! A guest's directory on the machine: the files that it boots from and writes to. It is in memory, private, and removed with the guest.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::embedded;
use crate::error::{Doing, GuestError};

/// Place of guests' memory and directories: a file system in memory, which every Linux machine has.
pub(crate) const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "warpline-guest-";
/// The shim's file.
pub(crate) const CLOCKSHIM: &str = "clockshim.so";
/// The agent's file.
pub(crate) const AGENT: &str = "agent";
/// The file with the guest's console output.
pub(crate) const CONSOLE: &str = "console";

/// A guest's directory. When dropped, it is removed with everything in it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Says that it is in use.
    _held: File,
}

/// Marks a directory as in use, until what this returns is dropped. The system lifts the mark if this process is killed.
fn hold(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    directory.lock()?;
    Ok(directory)
}

/// Marks a directory as in use, like [`hold`], if nobody uses it. Its name alone does not say: in containers that share this memory, processes have numbers
/// of their own.
fn hold_if_free(path: &Path) -> Option<File> {
    let directory = File::open(path).ok()?;
    let is_held = matches!(directory.try_lock(), Err(TryLockError::WouldBlock));
    (!is_held).then_some(directory)
}

/// Whether this directory is still at its path.
fn is_at(directory: &File, path: &Path) -> bool {
    let (Ok(own), Ok(found)) = (directory.metadata(), fs::symlink_metadata(path)) else { return false };
    (own.dev(), own.ino()) == (found.dev(), found.ino())
}

/// Creates a new directory for this user alone. Skips names that another user has taken.
fn make(memory: &Path) -> Result<PathBuf, GuestError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // All names have the same length, so that not even the length of a path differs from run to run.
        let path = memory.join(format!("{PREFIX}{:010}-{number:06}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                return other
                    .map(|()| path.clone())
                    .doing(|| format!("make the guest's directory {}", path.display()));
            }
        }
    }
}

/// Creates a new directory and marks it as in use. Between the two a sweep in another container may remove it: then the next name is tried.
fn make_held(memory: &Path) -> Result<(PathBuf, File), GuestError> {
    loop {
        let path = make(memory)?;
        let held = match hold(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other
                .inspect_err(|_| drop(fs::remove_dir(&path)))
                .doing(|| format!("make the guest's directory {}", path.display()))?,
        };
        if is_at(&held, &path) {
            return Ok((path, held));
        }
    }
}

/// Whether a directory belongs to this user and is not a link. Names in shared memory are predictable, so other users can take them first.
fn is_own(path: &Path) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own)
}

impl Directory {
    /// Creates a directory with what every guest needs, after removing those of processes that have ended.
    pub(crate) fn create() -> Result<Self, GuestError> {
        clean();
        let (path, held) = make_held(Path::new(MEMORY))?;
        let doing = || format!("make the guest's directory {}", path.display());
        let directory = Directory { path: path.clone(), _held: held };
        fs::write(path.join(CLOCKSHIM), embedded::CLOCKSHIM).doing(doing)?;
        fs::write(path.join(AGENT), embedded::AGENT).doing(doing)?;
        fs::set_permissions(path.join(AGENT), fs::Permissions::from_mode(0o700)).doing(doing)?;
        fs::create_dir(path.join(warpline_agent::SHARE)).doing(doing)?;
        Ok(directory)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in the share.
    pub(crate) fn shared(&self, name: &str) -> PathBuf {
        self.path.join(warpline_agent::SHARE).join(name)
    }

    /// The last lines of the console that say something about the guest.
    pub(crate) fn console_tail(&self) -> String {
        let bytes = fs::read(self.path.join(CONSOLE)).unwrap_or_default();
        tail(&String::from_utf8_lossy(&bytes))
    }
}

/// The last lines without colours, without the addresses in the call trace of a panic, and without lines that every guest prints.
fn tail(text: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !is_trace(line) && !is_of_course(line)).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter()
        .map(|line| format!("  {}", line.replace(|c: char| c.is_control(), "")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether a line of the console is empty, or has only addresses and words of memory.
fn is_trace(line: &str) -> bool {
    let hexadecimal = |word: &str| word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let line = line.trim();
    line.starts_with("[<")
        || ["Stack:", "Call Trace:"].contains(&line)
        || line.split_whitespace().all(hexadecimal)
}

/// Whether every guest's kernel prints this line on the console, because guests have neither serial lines nor disks.
fn is_of_course(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with("setup_one_line failed for device") && line.ends_with("configured as 'none'"))
        || line.starts_with("Failed to initialize ubd device 0")
        || line.starts_with("mmapper_init - find_iomem failed")
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what killed processes left: the directories and control groups of their guests, which ended with them. Returns the
/// directories.
pub fn clean() -> Vec<PathBuf> {
    let mut removed = sweep(Path::new(MEMORY));
    removed.extend(crate::share::sweep(|name| alive(name) == Some(false)));
    removed
}

/// Whether the process with the directory or control group of this name is alive; `None` if no guest has such a name.
fn alive(name: &str) -> Option<bool> {
    let pid = name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok()?;
    Some(Path::new("/proc").join(pid.to_string()).exists())
}

/// Kills the processes whose working directory this is. A kernel that is killed while it boots leaves one behind: it tries out ptrace(2) with it.
fn end_processes(directory: &Path) {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = process.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number
            && fs::read_link(process.path().join("cwd")).is_ok_and(|place| place == directory)
        {
            let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
        }
    }
}

fn sweep(memory: &Path) -> Vec<PathBuf> {
    let remove = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let (dead, path) = (!alive(entry.file_name().to_str()?)?, entry.path());
        if !dead || !is_own(&path) {
            return None;
        }
        // Until it is removed. Who waits to hold it then sees that it has gone.
        let _held = hold_if_free(&path)?;
        end_processes(&path);
        fs::remove_dir_all(&path).is_ok().then_some(path)
    };
    fs::read_dir(memory).map_or_else(|_| Vec::new(), |entries| entries.filter_map(remove).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_console_leaves_out_lines_that_every_guest_prints() {
        let lines: String = (0..64)
            .map(|n| format!("setup_one_line failed for device {n} : configured as 'none'\n"))
            .collect();
        let text = format!(
            "Freeing unused memory\r\n{lines}Failed to initialize ubd device 0 :Couldn't determine size of device's file\nKernel panic - \x1b[1mno init\n\n [<60012345>] panic+0x1/0x2\n"
        );
        assert_eq!(tail(&text), "  Freeing unused memory\n  Kernel panic - [1mno init");
        let many: String = (0..20).map(|n| format!("line {n}\n")).collect();
        assert_eq!(tail(&many).lines().count(), 12);
    }

    #[test]
    fn processes_in_a_directory_that_was_left_are_ended() {
        let memory = tempfile::tempdir().unwrap();
        // No process has so high a number.
        let left = memory.path().join(format!("{PREFIX}0004999999-000000"));
        fs::create_dir(&left).unwrap();
        let left = left.canonicalize().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").current_dir(&left).spawn().unwrap();
        assert_eq!(sweep(left.parent().unwrap()), std::slice::from_ref(&left));
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }

    #[test]
    fn a_directory_in_use_stays_whatever_its_number() {
        let memory = tempfile::tempdir().unwrap();
        // No process here has so high a number.
        let path = memory.path().join(format!("{PREFIX}0004999999-000000"));
        fs::create_dir(&path).unwrap();
        let held = hold(&path).unwrap();
        assert!(sweep(memory.path()).is_empty() && path.exists());
        drop(held);
        // A process that another test is just starting has the lock, too, until it becomes its program.
        let begun = crate::time::host_now();
        let mut swept = sweep(memory.path());
        while swept.is_empty() && crate::time::host_now() - begun < 10_000_000_000 {
            crate::time::pause();
            swept = sweep(memory.path());
        }
        assert_eq!(swept, [path]);
    }

    #[test]
    fn a_directory_that_was_removed_before_it_was_held_is_not_taken_for_its_successor() {
        let memory = tempfile::tempdir().unwrap();
        let (path, held) = make_held(memory.path()).unwrap();
        assert!(is_at(&held, &path) && hold_if_free(&path).is_none());
        fs::remove_dir(&path).unwrap();
        assert!(!is_at(&held, &path));
        fs::create_dir(&path).unwrap();
        assert!(!is_at(&held, &path));
    }

    #[test]
    fn a_name_that_is_taken_is_skipped() {
        let memory = tempfile::tempdir().unwrap();
        let first = make(memory.path()).unwrap();
        let number: u32 = first.to_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
        for next in number + 1..number + 40 {
            fs::create_dir(memory.path().join(format!("{PREFIX}{:010}-{next:06}", std::process::id())))
                .unwrap();
        }
        let second = make(memory.path()).unwrap();
        assert!(second != first && is_own(&second));
        assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn directories_of_other_users_are_not_touched() {
        let memory = tempfile::tempdir().unwrap();
        let at = |number: u32| memory.path().join(format!("{PREFIX}4999999999-{number:06}"));
        fs::write(at(1), "a file").unwrap();
        fs::create_dir(memory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(memory.path().join("elsewhere"), at(2)).unwrap();
        // Only root can give a directory to another user.
        let foreign = nix::unistd::geteuid().is_root();
        if foreign {
            fs::create_dir(at(3)).unwrap();
            nix::unistd::chown(&at(3), Some(nix::unistd::Uid::from_raw(1234)), None).unwrap();
        }
        assert!(sweep(memory.path()).is_empty());
        assert_eq!(fs::read_dir(memory.path()).unwrap().count(), 3 + usize::from(foreign));
    }

    #[test]
    fn only_directories_of_dead_processes_are_removed() {
        let memory = tempfile::tempdir().unwrap();
        let own = format!("{PREFIX}{:010}-000001", std::process::id());
        // Process IDs are below 2^22.
        let names = [
            own.as_str(),
            "warpline-guest-4999999999-000000",
            "warpline-guest-0004999999-000000",
            "other-4999999-0",
        ];
        for name in names {
            fs::create_dir(memory.path().join(name)).unwrap();
        }
        assert_eq!(sweep(memory.path()).len(), 1);
        let mut left: Vec<_> = fs::read_dir(memory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other-4999999-0", &own, "warpline-guest-4999999999-000000"]);
    }
}
