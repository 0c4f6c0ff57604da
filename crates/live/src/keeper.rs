//! A process that cleans up after this one if this one is killed.
//!
//! When this process ends, the kernel kills the programs that it has started ([`crate::start`]), but not what those have started themselves. And a network
//! namespace stays as long as a process is in it. A process that is killed can do nothing about that any more. So each process with a session has a keeper:
//! a second process, which waits for the end of the first, and then removes what the first has left. When the sessions of a process have ended
//! properly, it ends its keeper.
//!
//! A keeper is the same program once more, with other arguments. So only a program that calls [`serve`] first of all has one. Another program, such as
//! Python, has none, and a keeper may be killed as well: then the work is left to the next session, or to `warpline clean`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::libc;
use nix::sys::prctl::set_name;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::setsid;

use crate::process::{Process, started};
use crate::start::MARK;

/// The first argument of a keeper. The number of the process that it waits for follows, and when that one started.
const WORD: &str = "--clean-up-after";

/// Whether this program can be a keeper.
static POSSIBLE: AtomicBool = AtomicBool::new(false);

/// The keeper of this process, while it has one.
static KEEPER: Mutex<Weak<Keeper>> = Mutex::new(Weak::new());

/// A keeper. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// To be called at the beginning of a program's `main`. Usually returns false. From then on, a second process of the same program calls
/// `clean` if this one is killed. In that second process, returns true when it has done so: there is nothing else to do.
pub fn serve(clean: impl FnOnce()) -> bool {
    let Some((pid, start)) = kept(std::env::args_os().skip(1)) else {
        POSSIBLE.store(true, Ordering::Relaxed);
        return false;
    };
    // As `top` shows it.
    let _ = set_name(c"warpline-keeper");
    // If nobody has the number now, or another process, it has ended.
    if let Ok(process) = Process::open(pid)
        && started(pid) == Some(start)
    {
        process.wait_for_end();
    }
    clean();
    true
}

/// The process that a keeper with these arguments waits for: its number and its start. None if they are not a keeper's.
fn kept(arguments: impl Iterator<Item = OsString>) -> Option<(i32, u64)> {
    let words: Vec<String> = arguments.map(|word| word.into_string().ok()).collect::<Option<_>>()?;
    let [word, pid, start] = words.as_slice() else { return None };
    let pid = pid.parse::<i32>().ok().filter(|&pid| pid > 0)?;
    if word == WORD { Some((pid, start.parse().ok()?)) } else { None }
}

/// The keeper of this process, which is started if there is none. None if this program cannot be one, or the system refuses.
pub(crate) fn start() -> Option<Arc<Keeper>> {
    if !POSSIBLE.load(Ordering::Relaxed) {
        return None;
    }
    let mut known = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keeper) = known.upgrade() {
        return Some(keeper);
    }
    let keeper = Arc::new(Keeper(spawn().ok()?));
    *known = Arc::downgrade(&keeper);
    Some(keeper)
}

fn spawn() -> io::Result<Child> {
    let pid = std::process::id() as i32;
    let start = started(pid).ok_or(io::ErrorKind::NotFound)?;
    // Another program may have the name of this one by now.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(std::env::args_os().next().unwrap_or_default())
        .args([WORD, &pid.to_string(), &start.to_string()])
        // A session around this one would end the keeper before it has done its work.
        .env_remove(MARK)
        // It keeps no file system from being unmounted, and no pipe open.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let prepare = || -> io::Result<()> {
        // Away from the terminal, and from the process group of a job.
        setsid()?;
        // Whoever asks all processes of a job to end means the first one. If that ends, the keeper does, too.
        for asks in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            // SAFETY: to ignore a signal takes no function.
            unsafe { signal(asks, SigHandler::SigIgn) }?;
        }
        close_inherited_at_exec();
        Ok(())
    };
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(prepare) }.spawn()
}

/// Lets the program that this process becomes have only standard input, output and error. What else this process was given by its parent may be an end
/// of a pipe, and somebody may wait for that to be closed. A kernel before Linux 5.11 cannot do it, and then it stays open.
fn close_inherited_at_exec() {
    let (first, last) = (libc::c_long::from(libc::STDERR_FILENO + 1), libc::c_long::from(libc::c_int::MAX));
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_long;
    // SAFETY: no pointers are passed, and nothing is closed before the program of this process is replaced.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<(i32, u64)> {
        kept(words.iter().map(OsString::from))
    }

    #[test]
    fn a_keeper_is_known_by_its_arguments() {
        assert_eq!(of(&[WORD, "12", "3456"]), Some((12, 3456)));
        for others in [
            &["run", "12", "3456"][..],
            &[],
            &[WORD],
            &[WORD, "12"],
            &[WORD, "12", "3456", "7"],
            &[WORD, "0", "3456"],
            &[WORD, "-1", "3456"],
            &[WORD, "12", "now"],
        ] {
            assert_eq!(of(others), None, "{others:?}");
        }
    }

    #[test]
    fn a_program_that_has_not_said_that_it_can_be_a_keeper_has_none() {
        assert!(start().is_none());
    }
}
