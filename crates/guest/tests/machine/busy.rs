//! Cores that have something else to do, for tests whose results must not depend on how fast the machine is.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends threads when it is dropped, by a panic too.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something while all cores are busy: with so many threads for each core that compute, or that also yield all the time.
pub(crate) fn while_busy<T>(threads: usize, yields: bool, act: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = EndsOnDrop(&over);
        for _ in 0..threads * std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for _ in 0..20_000 {
                        std::hint::spin_loop();
                    }
                    if yields {
                        std::thread::yield_now();
                    }
                }
            });
        }
        act()
    })
}
