//! Which of the machine's processors a lock-step run is on.
//!
//! User-Mode Linux enters and leaves user mode by ptrace: one process wakes another and waits for it. In lock-step the driver and a guest wait
//! for each other, too, so of all these processes hardly ever do two run at the same time. Yet the system's scheduler likes to wake a process on
//! an idle processor, and to wake that processor takes longer, above all in a virtual machine, than most programs run before their next system
//! call. On one processor a run takes a third to two thirds of the time.
//!
//! So a run is gathered where the scheduler has put its driver. If it has to wait there too often, because several guests have something to do at
//! the same time or because of other work, each guest gets a processor of its own for a while. This is also how guests boot.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::{Pid, gettid};

/// How often to check for how long a run has waited for its processor, in nanoseconds of the machine's time.
const CHECK: u64 = 100_000_000;
/// The share of the time, in percent, that the driver and the kernels together may wait. Alone on a processor they wait for 8 to 16 % of it, since
/// a process goes on for a moment after it has woken another.
const MOST: u64 = 25;
/// How often, at most, the time for which guests have their own processors is doubled.
const DOUBLINGS: u32 = 6;

/// The place of a run.
#[derive(Debug)]
pub(crate) struct Place {
    /// The thread that drives it.
    driver: Pid,
    /// The processors that it may use, and on which of them it began.
    allowed: CpuSet,
    first: usize,
    gathered: bool,
    /// When the last check was, and when the next is due.
    last: u64,
    next: u64,
    /// For how long it had waited at the last check, in nanoseconds.
    waited: u64,
    /// How often in a row it has waited too long.
    doublings: u32,
}

impl Place {
    /// The place of a run that this thread drives; none if there is only one processor.
    pub(crate) fn new() -> Option<Self> {
        let driver = gettid();
        let allowed = sched_getaffinity(driver).ok()?;
        processors(&allowed).nth(1)?;
        Some(Place {
            driver,
            allowed,
            first: here(),
            gathered: false,
            last: 0,
            next: 0,
            waited: 0,
            doublings: 0,
        })
    }

    /// Whether the driver and this many guests have a processor each. Then who waits for a turn may look for it again and again; otherwise that
    /// would keep another from its processor.
    pub(crate) fn is_roomy(&self, guests: usize) -> bool {
        !self.gathered && guests < processors(&self.allowed).count()
    }

    /// Runs `boot`, which starts the guest with this number. The guest inherits a processor.
    pub(crate) fn seat<T>(&self, number: usize, boot: impl FnOnce() -> T) -> T {
        set(self.driver, &only(self.seats(self.first).nth(number).unwrap_or(0)));
        let booted = boot();
        set(self.driver, &self.allowed);
        booted
    }

    /// Whether [`Place::check`] is due.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Gathers a run, or gives each guest a processor of its own if it has waited for too long. `kernels` has the process numbers of the
    /// guests' kernels.
    pub(crate) fn check(&mut self, kernels: &[u32], now: u64) {
        if !self.gathered {
            let here = only(here());
            set(self.driver, &here);
            kernels.iter().for_each(|&kernel| set_family(kernel, &here));
            self.gathered = true;
            (self.last, self.next, self.waited) = (now, now + CHECK, self.waited_so_far(kernels));
            return;
        }
        let waited = self.waited_so_far(kernels);
        let (more, passed) = (waited.saturating_sub(self.waited), now.saturating_sub(self.last));
        (self.last, self.next, self.waited) = (now, now + CHECK, waited);
        if more.saturating_mul(100) <= passed.saturating_mul(MOST) {
            self.doublings = self.doublings.saturating_sub(1);
            return;
        }
        // Where the driver is now there is too little time.
        let seats = self.seats(here()).skip(1);
        kernels.iter().zip(seats).for_each(|(&kernel, seat)| set_family(kernel, &only(seat)));
        set(self.driver, &self.allowed);
        self.gathered = false;
        self.next = now + (CHECK << self.doublings);
        self.doublings = (self.doublings + 1).min(DOUBLINGS);
    }

    /// A processor for each guest, beginning with this one. If there are more guests, they share.
    fn seats(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let mut all: Vec<usize> = processors(&self.allowed).collect();
        let before = all.iter().position(|&processor| processor == first).unwrap_or(0);
        all.rotate_left(before);
        all.into_iter().cycle()
    }

    /// For how long the driver and the kernels have waited for a processor, in nanoseconds.
    fn waited_so_far(&self, kernels: &[u32]) -> u64 {
        let threads = kernels.iter().copied().chain([self.driver.as_raw() as u32]);
        threads.filter_map(waited).sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        set(self.driver, &self.allowed);
    }
}

/// Lets a process, and all that descend from it, run on these processors only. Parents come first: what they start meanwhile inherits it.
fn set_family(process: u32, on: &CpuSet) {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return };
    let threads: Vec<u32> =
        threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    threads.iter().for_each(|&thread| set(Pid::from_raw(thread as i32), on));
    for thread in threads {
        let children =
            fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .for_each(|child| set_family(child, on));
    }
}

/// Lets a thread run on these processors only, unless it has ended.
fn set(thread: Pid, on: &CpuSet) {
    let _ = sched_setaffinity(thread, on);
}

/// For how long a thread has waited for a processor, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
fn waited(thread: u32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// The processor that this thread is on.
fn here() -> usize {
    sched_getcpu().unwrap_or(0)
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    let _ = set.set(processor);
    set
}

fn processors(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::count()).filter(|&processor| set.is_set(processor).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn of(process: u32) -> CpuSet {
        sched_getaffinity(Pid::from_raw(process as i32)).unwrap()
    }

    #[test]
    fn a_run_is_gathered_where_its_driver_is_and_spread_where_it_waits() {
        std::thread::spawn(|| {
            let Some(mut place) = Place::new() else { return };
            let allowed = place.allowed;
            let boot = || Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
            let mut guests: Vec<_> = (0..2).map(|number| place.seat(number, boot)).collect();
            let kernels: Vec<u32> = guests.iter().map(|guest| guest.id()).collect();
            assert_eq!(processors(&of(kernels[0])).count(), 1, "each has its own");
            assert_ne!(of(kernels[0]), of(kernels[1]));
            assert_eq!(of(place.driver.as_raw() as u32), allowed);

            place.check(&kernels, CHECK);
            let here = of(place.driver.as_raw() as u32);
            assert_eq!(processors(&here).count(), 1);
            assert!(kernels.iter().all(|&kernel| of(kernel) == here), "all are where the driver is");
            assert!(place.gathered && !place.is_due(2 * CHECK - 1) && place.is_due(2 * CHECK));

            // It has not waited for a second.
            place.check(&kernels, 11 * CHECK);
            assert!(place.gathered);
            // It has waited since, by what the system counts, and hardly any time has passed.
            place.waited = 0;
            place.check(&kernels, place.last + 1);
            assert!(!place.gathered);
            assert_ne!(of(kernels[0]), of(kernels[1]));

            for guest in &mut guests {
                let _ = guest.kill();
                let _ = guest.wait();
            }
            drop(place);
            assert_eq!(sched_getaffinity(gettid()).unwrap(), allowed);
        })
        .join()
        .unwrap();
    }
}
