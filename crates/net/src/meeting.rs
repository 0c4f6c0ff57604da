//! A meeting: where threads wait until all of them have come. Made for meetings that follow each other within microseconds.

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(all(test, loom))]
use loom::thread::yield_now;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
use std::thread::yield_now;

/// How often a thread looks before it lets others run: for some microseconds. The model check lets them run at once.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 100 };

/// A barrier that is used again and again. What a thread wrote before it came is seen by all after it.
#[derive(Debug)]
pub(crate) struct Meeting {
    members: usize,
    /// Those that have come to the meeting under way.
    present: AtomicUsize,
    /// Meetings that are over.
    held: AtomicUsize,
    /// Whether a member has panicked and will never come.
    broken: AtomicBool,
}

/// Ends all meetings if its thread panics.
pub(crate) struct Guard<'a>(&'a Meeting);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

impl Meeting {
    /// A meeting of so many threads.
    pub(crate) fn new(members: usize) -> Self {
        Meeting {
            members,
            present: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// To be held by a member as long as it takes part.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    /// Waits until all members have come. Returns false if one never will.
    pub(crate) fn wait(&self) -> bool {
        let held = self.held.load(Ordering::Acquire);
        if self.present.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.present.store(0, Ordering::Relaxed);
            self.held.store(held.wrapping_add(1), Ordering::Release);
            return !self.broken.load(Ordering::Acquire);
        }
        let mut patience = Patience::default();
        while self.held.load(Ordering::Acquire) == held {
            if !patience.wait(self) {
                return false;
            }
        }
        !self.broken.load(Ordering::Acquire)
    }
}

/// How often a member has looked for what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Patience(u32);

impl Patience {
    /// Waits for a moment. Returns false if a member has panicked, so that there is nothing to wait for.
    pub(crate) fn wait(&mut self, meeting: &Meeting) -> bool {
        if self.0 < LOOKS {
            self.0 += 1;
            std::hint::spin_loop();
        } else {
            // More threads than cores, or a part with much more to do.
            yield_now();
        }
        !meeting.broken.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_ahead_by_more_than_one_meeting() {
        const MEMBERS: usize = 4;
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 2_000 };
        let meeting = Meeting::new(MEMBERS);
        let rounds: Vec<AtomicUsize> = (0..MEMBERS).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for own in &rounds {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        own.store(round, Ordering::Relaxed);
                        assert!(meeting.wait());
                        for other in &rounds {
                            let other = other.load(Ordering::Relaxed);
                            assert!(other == round || other == round + 1, "{other} in round {round}");
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_member_that_panics_breaks_the_meeting() {
        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.wait());
            let panics = scope.spawn(|| {
                let _guard = meeting.guard();
                panic!("on purpose");
            });
            assert!(panics.join().is_err());
            assert!(!waits.join().unwrap());
        });
    }
}

/// All orders in which the steps of the members can happen, by loom: `make model`.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;

    use super::*;

    #[test]
    fn what_was_written_before_a_meeting_is_seen_after_it() {
        const MEMBERS: usize = 2;
        const ROUNDS: usize = 3;
        loom::model(|| {
            let meeting = Arc::new(Meeting::new(MEMBERS));
            // By turn and member, as the parts of a network tell each other their next events.
            let told: Arc<[[AtomicUsize; MEMBERS]; 2]> = Arc::default();
            let run = |own: usize, meeting: Arc<Meeting>, told: Arc<[[AtomicUsize; MEMBERS]; 2]>| {
                for round in 1..=ROUNDS {
                    told[round % 2][own].store(round, Ordering::Relaxed);
                    assert!(meeting.wait());
                    for member in &told[round % 2] {
                        assert_eq!(member.load(Ordering::Relaxed), round);
                    }
                }
            };
            let (their_meeting, their_told) = (meeting.clone(), told.clone());
            let other = loom::thread::spawn(move || run(1, their_meeting, their_told));
            run(0, meeting, told);
            other.join().unwrap();
        });
    }
}
