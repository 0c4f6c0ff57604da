//! The gate: which conditions hold. Programs and flows wait at it, and checks open it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Which conditions hold; programs and flows wait here for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<BTreeSet<u32>>, Condvar)>);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        // Nothing panics while it holds the lock.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A condition holds from now on.
    pub(crate) fn open(&self, condition: u32) {
        self.lock().insert(condition);
        self.0.1.notify_all();
    }

    /// Whether all of these hold.
    pub(crate) fn holds(&self, conditions: &[u32]) -> bool {
        conditions.is_empty() || conditions.iter().all(|condition| self.lock().contains(condition))
    }

    /// Waits until all of these hold.
    pub(crate) fn wait(&self, conditions: &[u32]) {
        let mut open = self.lock();
        while !conditions.iter().all(|condition| open.contains(condition)) {
            open = self.0.1.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
