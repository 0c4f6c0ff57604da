//! Threads with adjacent stacks, which start fast in a guest.
//!
//! Source: arch/um/kernel/process.c (`fork_handler`) and arch/um/kernel/tlb.c (`force_flush_all`); docs/src/performance.md explains why.
//!
//! Only the first stack has a guard page. In the others, the last page is filled with marks. Code must not use that page; if it does,
//! the marks show it before the next stack is reached. (Rust code touches every page that it crosses, however large its frames are.)

use std::io;
use std::mem::MaybeUninit;

use nix::libc;

/// Bytes of a stack. All of it is allocated at once; the code on it needs little.
const STACK: usize = 32 << 10;
/// The lowest bytes of each stack, which must not be used.
const MARGIN: usize = 4096;
/// The value of the marks: unlike addresses and lengths, which are common on stacks.
const MARK: u64 = 0x5afe_57ac_0b5e_55ed;
/// Size of the inaccessible area below the first stack. The others have their neighbours below.
const GUARD: usize = 4096;

/// Stacks for a number of threads. They are never freed, as the guest does not outlive its threads.
#[derive(Debug)]
pub(crate) struct Stacks {
    /// Where the first stack begins.
    base: usize,
    count: usize,
    /// Number of stacks in use.
    taken: usize,
}

/// The function of a thread.
type Life = Box<dyn FnOnce() + Send>;

impl Stacks {
    /// Memory for `count` stacks.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        if count == 0 {
            return Ok(Stacks { base: 0, count, taken: 0 });
        }
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe {
            let flags = flags | libc::MAP_POPULATE | libc::MAP_STACK;
            libc::mmap(std::ptr::null_mut(), GUARD + count * STACK, protection, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the first page of that mapping, which is unused.
        if unsafe { libc::mprotect(base, GUARD, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let stacks = Stacks { base: base as usize + GUARD, count, taken: 0 };
        for word in (0..count).flat_map(|number| stacks.margin(number)) {
            // SAFETY: within that mapping, aligned, and not in use yet.
            unsafe { std::ptr::write_volatile(word as *mut u64, MARK) };
        }
        Ok(stacks)
    }

    /// Addresses of the words that the stack with this number must not use.
    fn margin(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let lowest = self.base + number * STACK;
        (lowest..lowest + MARGIN).step_by(size_of::<u64>())
    }

    /// The first thread, by starting order, that has used more of its stack than allowed.
    pub(crate) fn overflowed(&self) -> Option<usize> {
        // SAFETY: memory of `new`, which stays mapped. If a thread writes there at this moment, either value is fine.
        let spoilt = |word: usize| unsafe { std::ptr::read_volatile(word as *const u64) } != MARK;
        (0..self.taken).find(|number| self.margin(*number).any(spoilt))
    }

    /// Starts a thread on the next stack. Nothing waits for its end.
    ///
    /// # Errors
    /// If no stack is left, or the kernel has no room for another thread.
    pub(crate) fn spawn(&mut self, life: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if self.taken == self.count {
            return Err(io::Error::other("there is no stack left"));
        }
        let lowest = self.base + self.taken * STACK;
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        let life: Box<Life> = Box::new(Box::new(life));
        let argument = Box::into_raw(life).cast();
        // SAFETY: the attributes are initialised before they are used and destroyed after; the stack is memory of `new` that no other thread
        // has, and stays mapped; the argument is a box that `run` takes over, if the thread exists.
        let failed = unsafe {
            libc::pthread_attr_init(attributes.as_mut_ptr());
            let mut failed = libc::pthread_attr_setstack(attributes.as_mut_ptr(), lowest as *mut _, STACK);
            if failed == 0 {
                libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
                failed = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, argument);
            }
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            if failed != 0 {
                drop(Box::from_raw(argument.cast::<Life>()));
            }
            failed
        };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        self.taken += 1;
        Ok(())
    }
}

/// A thread's first function. A panic ends the process: it cannot leave a C function.
extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: from `spawn`, which has given up ownership.
    let life = unsafe { Box::from_raw(argument.cast::<Life>()) };
    life();
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::mpsc::channel;

    use super::*;

    /// Uses the stack down to an address, plus the overhead of some frames.
    fn dig<const FRAME: usize>(down_to: usize) -> u8 {
        let frame = black_box([1u8; FRAME]);
        if frame.as_ptr() as usize <= down_to {
            return frame[FRAME / 2];
        }
        black_box(dig::<FRAME>(down_to)) ^ frame[FRAME / 3]
    }

    /// Starts three threads one after the other. The second leaves only this much of its stack. Returns the number of a thread whose stack was
    /// too small.
    fn overflowed(dig: fn(usize) -> u8, leave: usize) -> Option<usize> {
        let mut stacks = Stacks::new(3).unwrap();
        for number in 0..3 {
            let (done, wait) = channel();
            let down_to = stacks.base + number * STACK + if number == 1 { leave } else { STACK / 2 };
            stacks
                .spawn(move || {
                    black_box(dig(down_to));
                    done.send(()).unwrap();
                })
                .unwrap();
            wait.recv().unwrap();
        }
        assert!(stacks.spawn(|| ()).is_err());
        stacks.overflowed()
    }

    #[test]
    fn a_thread_that_needs_more_than_its_stack_is_detected() {
        for dig in [dig::<200>, dig::<600>] {
            assert_eq!(overflowed(dig, MARGIN + 2000), None);
            assert_eq!(overflowed(dig, MARGIN), Some(1));
        }
    }
}
