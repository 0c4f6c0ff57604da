//! A process that waits before it becomes its program.
//!
//! Until then it is a copy of this process, and has open what this one had. As long as it has the end of a pipe that writes, nobody sees the end of what is
//! read there. That would hold for the pipe by which the standard library learns that a program runs: of two programs that are made at the same
//! moment, the second may have the end of the first one's, and so the first one's end would be noticed only when the second is started.
//!
//! So a process that waits closes all that it does not need. The standard library's pipe of its own is part of that. Therefore it becomes the
//! program by itself, and says by a pipe of ours why it cannot. Nobody waits for the end of that one: it is read when the process has ended.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, pipe2};
use rustix::process::Signal;

use crate::start;

/// The byte that opens the gate.
const GO: u8 = 1;
/// The exit code of a process that does not become its program.
const NEVER: i32 = 127;
/// More descriptors than this process has open, whatever the system allows.
const MOST: RawFd = 1 << 20;

/// What a process waits for. If it is dropped before it was opened, the process ends.
#[derive(Debug)]
pub(crate) struct Gate(OwnedFd);

impl Gate {
    /// Lets the process become its program.
    pub(crate) fn open(&self) {
        // If the process has gone, its end says so.
        let _ = nix::unistd::write(&self.0, &[GO]);
    }
}

/// A process that waits, or that has become its program.
#[derive(Debug)]
pub(crate) struct Held {
    child: Child,
    /// Where it says why it could not become its program.
    trouble: OwnedFd,
}

/// Starts a process that becomes the program of `command` when the gate is opened. It dies with the thread that starts it. `prepare` is called in the process
/// before it waits, under the conditions of `start::start`, and must not rely on what this process has open afterwards.
///
/// `command` has no `env_clear` and no `arg0`: the standard library does not tell of them, so they would be without effect.
///
/// # Errors
/// If the process cannot be made, or `prepare` fails.
pub(crate) fn hold(
    mut command: Command,
    mut prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<(Held, Gate)> {
    let image = Image::of(&command)?;
    let (gate, opener) = pipe2(OFlag::O_CLOEXEC)?;
    let (trouble, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let mut kept = [gate.as_raw_fd(), report.as_raw_fd()];
    kept.sort_unstable();
    let most = getrlimit(Resource::RLIMIT_NOFILE)?.0;
    let most = RawFd::try_from(most).unwrap_or(MOST).min(MOST);
    let wait = move || -> io::Result<()> {
        prepare()?;
        close_others(kept, most);
        // From here on nothing can be said to the standard library, so this never returns.
        if is_opened(&gate) {
            let error = image.become_program();
            let _ = nix::unistd::write(&report, &(error as i32).to_ne_bytes());
        }
        // SAFETY: it ends this process, a copy, without running what is meant for the end of the original.
        unsafe { libc::_exit(NEVER) }
    };
    let child = start::start(&mut command, Signal::KILL, wait)?;
    Ok((Held { child, trouble }, Gate(opener)))
}

impl Held {
    /// The number of the process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Waits for the end of the process. It keeps its number until it is reaped.
    pub(crate) fn wait_for_end(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(self.pid()), flags) == Err(Errno::EINTR) {}
    }

    /// Reaps the process, and returns how it has ended.
    ///
    /// # Errors
    /// Why it could not become its program.
    pub(crate) fn reap(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        let mut number = [0; 4];
        match nix::unistd::read(&self.trouble, &mut number) {
            Ok(4) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))),
            _ => Ok(status),
        }
    }
}

/// Waits at the gate. Returns whether it was opened, and not dropped.
fn is_opened(gate: &OwnedFd) -> bool {
    let mut byte = [0];
    loop {
        match nix::unistd::read(gate, &mut byte) {
            Err(Errno::EINTR) => {}
            read => return read == Ok(1) && byte == [GO],
        }
    }
}

/// Closes all descriptors of this process but standard input, output and error, and those in `kept`, in ascending order. None above `most` is open.
fn close_others(kept: [RawFd; 2], most: RawFd) {
    let mut first = libc::STDERR_FILENO + 1;
    for own in kept {
        close_from_to(first, own - 1, most);
        first = first.max(own + 1);
    }
    close_from_to(first, RawFd::MAX, most);
}

fn close_from_to(first: RawFd, last: RawFd, most: RawFd) {
    if first > last {
        return;
    }
    let (from, to) = (libc::c_long::from(first), libc::c_long::from(last));
    let flags: libc::c_long = 0;
    // SAFETY: no pointers are passed. What owns these descriptors is of the original process; this copy never gets back to it.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) };
    if closed != 0 {
        // Before Linux 5.9, or where a filter does not know the call.
        for descriptor in first..=last.min(most) {
            // SAFETY: as above.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// A program as execvp(3) takes it: made before the fork, since nothing may be allocated after it.
#[derive(Debug)]
struct Image {
    words: Texts,
    environment: Texts,
}

/// Texts, and pointers to them with a null at the end.
#[derive(Debug)]
struct Texts {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead to texts that the value owns and nobody changes.
unsafe impl Send for Texts {}
// SAFETY: as above.
unsafe impl Sync for Texts {}

impl Texts {
    fn new(texts: impl Iterator<Item = Vec<u8>>) -> io::Result<Self> {
        let texts = texts.map(CString::new).collect::<Result<Vec<CString>, _>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Texts { _texts: texts, pointers })
    }
}

unsafe extern "C" {
    /// The environment of this process, environ(7).
    static mut environ: *const *const c_char;
}

impl Image {
    fn of(command: &Command) -> io::Result<Self> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => _ = environment.insert(name.to_owned(), value.to_owned()),
                None => _ = environment.remove(name),
            }
        }
        let variables =
            environment.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        Ok(Image {
            words: Texts::new(words.map(|word| word.as_bytes().to_owned()))?,
            environment: Texts::new(variables)?,
        })
    }

    /// Becomes the program. Returns only if that fails. To be called in a process with one thread.
    fn become_program(&self) -> Errno {
        // SAFETY: both arrays end with a null, and live as long as this process stays what it is. No other thread reads the environment.
        unsafe {
            // The program is looked for in the `PATH` that it will have.
            environ = self.environment.pointers.as_ptr();
            libc::execvp(self.words.pointers[0], self.words.pointers.as_ptr());
        }
        Errno::last()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn command(words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }

    fn held(words: &[&str]) -> (Held, Gate) {
        hold(command(words), || Ok(())).unwrap()
    }

    /// Lets it run, and returns how it has ended.
    fn run((held, gate): (Held, Gate)) -> io::Result<ExitStatus> {
        gate.open();
        held.wait_for_end();
        held.reap()
    }

    #[test]
    fn one_that_waits_has_no_end_of_a_pipe_of_others() {
        let (read, write) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let waiting = held(&["true"]);
        drop(write);
        // Another test may start a process at this moment, which has it until it becomes its program.
        let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
        let shown = poll(&mut [PollFd::new(&read, PollFlags::IN)], Some(&patience));
        assert_eq!(shown, Ok(1), "the process that waits still has the other end");
        assert!(run(waiting).unwrap().success());
    }

    #[test]
    fn each_ends_by_itself_while_another_waits() {
        let (first, second) = (held(&["sh", "-c", "exit 3"]), held(&["true"]));
        assert_eq!(run(first).unwrap().code(), Some(3));
        assert!(run(second).unwrap().success());
    }

    #[test]
    fn it_ends_when_nobody_can_open_its_gate() {
        let (held, gate) = held(&["true"]);
        drop(gate);
        held.wait_for_end();
        assert_eq!(held.reap().unwrap().code(), Some(NEVER));
    }

    #[test]
    fn it_says_why_it_does_not_become_its_program() {
        let gone = run(held(&["/nowhere/at/all"])).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENOENT));
        let refused = hold(command(&["true"]), || Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn its_program_has_the_environment_that_was_chosen() {
        // Cargo sets the last one.
        let script = "test \"$ADDED\" = 'a b' && test -n \"$PATH\" && test -z \"${CARGO_MANIFEST_DIR+set}\"";
        let mut chosen = command(&["sh", "-c", script]);
        chosen.env("ADDED", "a b").env_remove("CARGO_MANIFEST_DIR");
        assert!(run(hold(chosen, || Ok(())).unwrap()).unwrap().success());
    }

    #[test]
    fn its_program_has_open_what_is_meant_for_it_and_nothing_else() {
        let (read, write) = pipe2(OFlag::O_CLOEXEC).unwrap();
        // One that would stay open.
        let _open = nix::unistd::dup(&read).unwrap();
        let mut list = command(&["ls", "/proc/self/fd"]);
        list.stdout(write);
        assert!(run(hold(list, || Ok(())).unwrap()).unwrap().success());
        let mut text = [0; 256];
        let len = nix::unistd::read(&read, &mut text).unwrap();
        // It reads the list by a descriptor, too.
        assert_eq!(std::str::from_utf8(&text[..len]).unwrap(), "0\n1\n2\n3\n");
    }
}
