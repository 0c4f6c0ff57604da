//! What something says while it goes on, line by line, for any number of readers, each from its own place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The lines so far.
#[derive(Debug)]
pub(crate) struct Course {
    lines: Mutex<Lines>,
    /// How many there are, for those that wait for more; and whether that is all.
    count: watch::Sender<(usize, bool)>,
}

/// The lines that are kept.
#[derive(Debug, Default)]
struct Lines {
    /// How many lines came before them and are forgotten.
    forgotten: usize,
    kept: Vec<Arc<str>>,
}

impl Course {
    /// One without lines.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Course { lines: Mutex::default(), count: watch::channel((0, false)).0 })
    }

    /// Adds a line; `last` says that no other comes.
    pub(crate) fn add(&self, line: &str, last: bool) {
        let mut lines = self.lock();
        lines.kept.push(line.into());
        self.count.send_replace((lines.forgotten + lines.kept.len(), last));
    }

    /// Gives the memory of the lines back, but for the last one: who still reads goes on with it.
    pub(crate) fn forget(&self) {
        let mut lines = self.lock();
        let count = lines.kept.len().saturating_sub(1);
        lines.forgotten += count;
        lines.kept.drain(..count).for_each(drop);
    }

    /// The lines from a place on, the place after them, and whether these are the last. Lines that are forgotten are left out.
    pub(crate) fn since(&self, at: usize) -> (Vec<Arc<str>>, usize, bool) {
        let lines = self.lock();
        let (count, last) = *self.count.borrow();
        let begin = at.saturating_sub(lines.forgotten).min(lines.kept.len());
        (lines.kept[begin..].to_vec(), count, last)
    }

    /// Follows it from the beginning.
    #[cfg(any(unix, test))]
    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        Follower { course: Arc::clone(self), count: self.count.subscribe(), at: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a course from where it was.
#[cfg(any(unix, test))]
#[derive(Debug)]
pub(crate) struct Follower {
    course: Arc<Course>,
    count: watch::Receiver<(usize, bool)>,
    at: usize,
}

#[cfg(any(unix, test))]
impl Follower {
    /// The next line, as soon as there is one; none after the last.
    pub(crate) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            {
                let lines = self.course.lock();
                self.at = self.at.max(lines.forgotten);
                if let Some(line) = lines.kept.get(self.at - lines.forgotten) {
                    self.at += 1;
                    return Some(Arc::clone(line));
                }
            }
            let (count, last) = *self.count.borrow_and_update();
            if count <= self.at && (last || self.count.changed().await.is_err()) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_follows_what_is_forgotten_goes_on_with_its_last_line() {
        let course = Course::new();
        let mut early = course.follow();
        course.add("begun", false);
        assert_eq!(early.next().await.as_deref(), Some("begun"));
        course.add("half", false);
        course.add("over", true);
        course.forget();
        course.forget();
        let mut late = course.follow();
        for follower in [&mut early, &mut late] {
            assert_eq!(follower.next().await.as_deref(), Some("over"));
            assert_eq!(follower.next().await, None);
        }
    }

    #[test]
    fn who_asks_again_and_again_gets_each_line_once() {
        let course = Course::new();
        let texts = |at: usize| {
            let (lines, next, over) = course.since(at);
            (lines.iter().map(ToString::to_string).collect::<Vec<_>>(), next, over)
        };
        assert_eq!(texts(0), (vec![], 0, false));
        course.add("begun", false);
        course.add("half", false);
        assert_eq!(texts(0), (vec!["begun".to_owned(), "half".to_owned()], 2, false));
        assert_eq!(texts(2), (vec![], 2, false));
        course.add("over", true);
        assert_eq!(texts(2), (vec!["over".to_owned()], 3, true));
        course.forget();
        for at in [0, 1, 2] {
            assert_eq!(texts(at), (vec!["over".to_owned()], 3, true));
        }
        assert_eq!(texts(7), (vec![], 3, true));
    }

    #[tokio::test]
    async fn a_course_without_lines_can_be_forgotten() {
        let course = Course::new();
        course.forget();
        course.add("over", true);
        let mut follower = course.follow();
        assert_eq!(follower.next().await.as_deref(), Some("over"));
        assert_eq!(follower.next().await, None);
    }
}
