//! What something says while it goes on, line by line, for any number of readers, each from its own place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The lines so far.
#[derive(Debug)]
pub(crate) struct Course {
    lines: Mutex<Vec<Arc<str>>>,
    /// How many there are, for those that wait for more; and whether that is all.
    count: watch::Sender<(usize, bool)>,
}

impl Course {
    /// One without lines.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Course { lines: Mutex::default(), count: watch::channel((0, false)).0 })
    }

    /// Adds a line; `last` says that no other comes.
    pub(crate) fn add(&self, line: &str, last: bool) {
        let mut lines = self.lock();
        lines.push(line.into());
        self.count.send_replace((lines.len(), last));
    }

    /// Gives the memory of the lines back: nobody reads them from now on.
    pub(crate) fn forget(&self) {
        self.lock().drain(..).for_each(drop);
    }

    /// Follows it from the beginning.
    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        Follower { course: Arc::clone(self), count: self.count.subscribe(), at: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<str>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a course from where it was.
#[derive(Debug)]
pub(crate) struct Follower {
    course: Arc<Course>,
    count: watch::Receiver<(usize, bool)>,
    at: usize,
}

impl Follower {
    /// The next line, as soon as there is one; none after the last.
    pub(crate) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            if let Some(line) = self.course.lock().get(self.at) {
                self.at += 1;
                return Some(Arc::clone(line));
            }
            let (count, last) = *self.count.borrow_and_update();
            if count <= self.at && (last || self.count.changed().await.is_err()) {
                return None;
            }
        }
    }
}
