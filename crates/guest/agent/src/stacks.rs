//! Threads on stacks that lie side by side.
//!
//! User-Mode Linux hands a new thread's whole address space to the machine anew (arch/um/kernel/process.c, `fork_handler`, and
//! arch/um/kernel/tlb.c, `force_flush_all`): a system call of the machine for each stretch of pages that are neighbours in the guest's
//! memory too. With stacks of their own, each with a guard beside it, a thousand threads take half a minute to start. Stacks that are
//! made at once, and filled at once, are a few stretches altogether.

use std::io;
use std::mem::MaybeUninit;

use nix::libc;

/// Bytes of a stack. What runs there is not deep and keeps no large values; all of it is taken at once.
const STACK: usize = 32 << 10;
/// What lies below the first stack and may not be touched. The others have their neighbours below.
const GUARD: usize = 4096;

/// Stacks for so many threads. They stay for good, as the guest does not outlive its threads.
#[derive(Debug)]
pub(crate) struct Stacks {
    /// Where the next stack begins.
    next: usize,
    left: usize,
}

/// What a thread does.
type Life = Box<dyn FnOnce() + Send>;

impl Stacks {
    /// Memory for `count` stacks.
    ///
    /// # Errors
    /// If there is not so much.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        if count == 0 {
            return Ok(Stacks { next: 0, left: 0 });
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
        // SAFETY: the first page of that mapping, in which nothing is yet.
        if unsafe { libc::mprotect(base, GUARD, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Stacks { next: base as usize + GUARD, left: count })
    }

    /// Starts a thread on the next stack. Nobody waits for its end.
    ///
    /// # Errors
    /// If no stack is left, or the kernel has no room for another thread.
    pub(crate) fn spawn(&mut self, life: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if self.left == 0 {
            return Err(io::Error::other("there is no stack left"));
        }
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        let life: Box<Life> = Box::new(Box::new(life));
        let argument = Box::into_raw(life).cast();
        // SAFETY: the attributes are initialised before they are used and destroyed after; the stack is memory of `new` that no other thread
        // has, and stays mapped; the argument is a box that `run` takes over, if the thread is there.
        let failed = unsafe {
            libc::pthread_attr_init(attributes.as_mut_ptr());
            let mut failed = libc::pthread_attr_setstack(attributes.as_mut_ptr(), self.next as *mut _, STACK);
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
        (self.next, self.left) = (self.next + STACK, self.left - 1);
        Ok(())
    }
}

/// A thread's first function. A panic ends the process: it cannot leave a function of C.
extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: from `spawn`, which has given it away.
    let life = unsafe { Box::from_raw(argument.cast::<Life>()) };
    life();
    std::ptr::null_mut()
}
