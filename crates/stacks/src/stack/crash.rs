//! What is said if a stack in a shared object crashes: of which host it was, and when.
//!
//! The process ends then, since the stack may have written anywhere. A program that wants that said calls [`report`].

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::Write;

use nix::libc;

/// The host whose stack runs in this thread: its label, and the time in nanoseconds.
type Running = Option<(*const u8, usize, u64)>;

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(None) };
}

/// The exit code: a run has failed.
const FAILED: c_int = 1;
/// What a stack can crash with, by name.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "it used memory that is not there, SIGSEGV"),
    (libc::SIGBUS, "it used memory that is not there, SIGBUS"),
    (libc::SIGILL, "an invalid instruction, SIGILL"),
    (libc::SIGFPE, "a division by zero, SIGFPE"),
    (libc::SIGABRT, "abort, SIGABRT"),
];

/// Notes which host's stack runs while this lives. A label must live as long.
pub(super) struct Mark(());

impl Mark {
    pub(super) fn new(label: &str, nanos: u64) -> Mark {
        RUNNING.set(Some((label.as_ptr(), label.len(), nanos)));
        Mark(())
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        RUNNING.set(None);
    }
}

/// From now on, a stack in a shared object that crashes ends the process with exit code 1 and a message. Other crashes are as before.
pub fn report() {
    for (signal, _) in SIGNALS {
        // SAFETY: an action without any flags or blocked signals is a valid one, and the handler does only what a handler may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// A message on the stack: a handler must not allocate.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.len() - self.len;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}

extern "C" fn on_crash(signal: c_int, _info: *const libc::siginfo_t, _context: *const c_void) {
    let Some((label, len, nanos)) = RUNNING.get() else {
        // SAFETY: the default action is what happens when the instruction is carried out again, or at once for abort.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    };
    // SAFETY: the host's label lives while its stack runs.
    let label = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(label, len)) };
    let what = SIGNALS.iter().find(|(known, _)| *known == signal).map_or("a signal", |(_, what)| what);
    let mut text = Text { bytes: [0; 512], len: 0 };
    let (whole, part) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let _ =
        writeln!(text, "error: the stack of {label} has crashed at {whole}.{part:09} s of the run: {what}");
    // SAFETY: these two are among the calls that a handler may make.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.bytes.as_ptr().cast(), text.len);
        libc::_exit(FAILED);
    }
}
