//! What happens if a stack in a shared object crashes: the call of its code ends with an error, which says when and with what.
//!
//! A signal handler leaves the call (`native/guard.c`). It is installed while there are such stacks (`Watch`); other crashes are as they would be
//! without it. The stack may have written anywhere before, so its host must not be used again.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::libc;

unsafe extern "C" {
    fn warpline_guard(action: extern "C" fn(*mut c_void), context: *mut c_void) -> c_int;
    fn warpline_guard_leave(signal: c_int);
    fn warpline_guard_pause() -> *mut c_void;
    fn warpline_guard_resume(own: *mut c_void);
}

/// What a stack can crash with, by name.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "it used memory that is not there, SIGSEGV"),
    (libc::SIGBUS, "it used memory that is not there, SIGBUS"),
    (libc::SIGILL, "an invalid instruction, SIGILL"),
    (libc::SIGFPE, "a division by zero, SIGFPE"),
    (libc::SIGABRT, "abort, SIGABRT"),
];

/// Seconds that a process may go on after a crash, if it [wants to end](end_if_stuck).
const STUCK_AFTER: u32 = 60;

/// Whether the process ends some time after a crash.
static ENDS: AtomicBool = AtomicBool::new(false);

/// How many watches there are, and what each signal did before the first.
static WATCHED: Mutex<(usize, [Option<libc::sigaction>; SIGNALS.len()])> =
    Mutex::new((0, [None; SIGNALS.len()]));

/// From now on, this process ends a minute after a stack has crashed, whatever it does then. A stack that has damaged the memory of the allocator can
/// leave it locked, and everything waits for it then. For programs that have nothing else to do.
pub fn end_if_stuck() {
    ENDS.store(true, Ordering::Relaxed);
}

/// A crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crash(c_int);

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = SIGNALS.iter().find(|(known, _)| *known == self.0).map_or("a signal", |(_, what)| what);
        f.write_str(what)
    }
}

/// Keeps the signal handler in place.
#[derive(Debug)]
pub(super) struct Watch(());

impl Watch {
    pub(super) fn new() -> Watch {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.0 += 1;
        if watched.0 == 1 {
            watched.1 = SIGNALS.map(|(signal, _)| replace(signal, &ours()));
        }
        Watch(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.0 -= 1;
        if watched.0 > 0 {
            return;
        }
        for ((signal, _), before) in SIGNALS.iter().zip(watched.1) {
            let Some(now) = before.and_then(|before| replace(*signal, &before)) else { continue };
            if now.sa_sigaction != ours().sa_sigaction {
                // Somebody else has come after us.
                replace(*signal, &now);
            }
        }
    }
}

/// Sets what a signal does. Returns what it did before.
fn replace(signal: c_int, action: &libc::sigaction) -> Option<libc::sigaction> {
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: the actions are valid ones: ours, or what was there before. The structure is filled if the call returns 0.
    unsafe { (libc::sigaction(signal, action, before.as_mut_ptr()) == 0).then(|| before.assume_init()) }
}

fn ours() -> libc::sigaction {
    // SAFETY: an action without any flags or blocked signals is a valid one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_crash as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action
}

extern "C" fn on_crash(signal: c_int, _info: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: this leaves a call whose frames have nothing to be dropped; alarm may be called in a handler.
    unsafe {
        if ENDS.load(Ordering::Relaxed) {
            libc::alarm(STUCK_AFTER);
        }
        warpline_guard_leave(signal);
    }
    // No call of a stack: what was to happen without us happens when the instruction is carried out again, or with the signal raised here. The
    // lock is only ever held for short; if it is held by this very thread, the default is right.
    let before = WATCHED.try_lock().ok().and_then(|watched| {
        let at = SIGNALS.iter().position(|(known, _)| *known == signal)?;
        watched.1[at]
    });
    // SAFETY: the action is one that was there before, or the default; both calls may be made in a handler.
    unsafe {
        match before {
            Some(before) => {
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
            None => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        libc::raise(signal);
    }
}

/// Calls code of a stack. It must keep no frames of Rust below it that have something to drop, except in callbacks, which [`pause`] it.
pub(super) fn guarded<F: FnOnce() -> R, R>(action: F) -> Result<R, Crash> {
    struct Job<F, R> {
        action: Option<F>,
        result: Option<R>,
    }
    extern "C" fn start<F: FnOnce() -> R, R>(job: *mut c_void) {
        // SAFETY: it is the job below, which nobody else uses meanwhile.
        let job = unsafe { &mut *job.cast::<Job<F, R>>() };
        job.result = job.action.take().map(|action| action());
    }
    let mut job = Job { action: Some(action), result: None };
    // SAFETY: `start` is called once, with the job.
    let signal = unsafe { warpline_guard(start::<F, R>, (&raw mut job).cast()) };
    job.result.ok_or(Crash(signal))
}

/// Runs code of ours that a stack has called. A crash in it is ours, and not the stack's.
pub(super) fn pause<R>(action: impl FnOnce() -> R) -> R {
    // SAFETY: the two calls are in pairs, in one thread.
    unsafe {
        let own = warpline_guard_pause();
        let result = action();
        warpline_guard_resume(own);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crash of this process that is no fault: the handler cannot tell.
    fn crash() {
        // SAFETY: the signal is handled.
        unsafe { libc::raise(libc::SIGFPE) };
    }

    #[test]
    fn a_crash_ends_the_innermost_call_only() {
        let _watch = Watch::new();
        let outer = guarded(|| {
            let inner = guarded(crash);
            assert_eq!(inner, Err(Crash(libc::SIGFPE)));
            guarded(|| 7).unwrap()
        });
        assert_eq!(outer, Ok(7));
        // Again: the signal is not blocked.
        assert!(guarded(crash).unwrap_err().to_string().contains("SIGFPE"));
    }

    #[test]
    fn the_handler_goes_with_the_last_watch() {
        let (one, two) = (Watch::new(), Watch::new());
        let is_ours = || {
            let now = replace(libc::SIGFPE, &ours()).unwrap();
            replace(libc::SIGFPE, &now);
            now.sa_sigaction == ours().sa_sigaction
        };
        assert!(is_ours());
        drop(one);
        assert!(is_ours());
        drop(two);
        // Other tests may have their own watch now.
        let watched = WATCHED.lock().unwrap().0;
        assert!(watched > 0 || !is_ours());
    }
}
