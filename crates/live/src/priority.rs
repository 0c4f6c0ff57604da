//! Priority of the emulator's thread: above the programs that it emulates a network for, and whatever else the machine does.
//!
//! A thread of higher priority is woken at once and not put aside in mid-turn. Nice values are per thread on Linux (sched(7)); what a
//! thread has started before keeps its own.

use rustix::process::{getpriority_process, setpriority_process};

/// The highest priority there is, as a nice value.
const HIGHEST: i32 = -20;

/// The calling thread's priority raised, until this is dropped.
#[derive(Debug)]
pub struct Raised {
    before: Option<i32>,
}

impl Raised {
    /// Raises it, where that is allowed (root; `CAP_SYS_NICE`); elsewhere the run is as punctual as the machine lets it be, which the
    /// audit tells.
    pub fn raise() -> Self {
        // No process means the calling thread.
        let before = getpriority_process(None).ok();
        let raised = before.filter(|_| setpriority_process(None, HIGHEST).is_ok());
        Raised { before: raised }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = setpriority_process(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_what_it_was_afterwards() {
        let before = getpriority_process(None).unwrap();
        let raised = Raised::raise();
        match raised.before {
            Some(_) => assert_eq!(getpriority_process(None).unwrap(), HIGHEST),
            None => eprintln!("skipped in part: this user may not raise a priority"),
        }
        drop(raised);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
