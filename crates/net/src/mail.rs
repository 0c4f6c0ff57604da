//! What the parts of one process tell each other while they run: what each hands to the others, and how far it has come.
//!
//! A part first posts what it hands over, then says how far it has come. So one that sees how far another has come also gets all that the
//! other handed over until then; and, as this passes on from part to part, all that a third one handed over before.

#[cfg(all(test, loom))]
use loom::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(all(test, loom)))]
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// Things that are handed over in the order in which they were added.
pub(crate) trait Letters: Default {
    /// Whether there is nothing.
    fn is_empty(&self) -> bool;

    /// Adds all `others` behind its own, and leaves them empty.
    fn append(&mut self, others: &mut Self);
}

/// On cache lines of its own: what one part writes does not disturb another that reads what is next to it. Processors fetch two lines of
/// 64 bytes at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Lines<T>(pub(crate) T);

/// What has been handed to one part and not been taken.
#[derive(Debug)]
struct Inbox<T> {
    /// By sender.
    places: Vec<Lines<Mutex<T>>>,
    /// A bit for each sender, set if its place is not empty.
    full: Vec<Lines<AtomicU64>>,
}

/// The inboxes of all parts, and how far each part has come.
#[derive(Debug)]
pub(crate) struct Mail<T> {
    inboxes: Vec<Inbox<T>>,
    progress: Vec<Lines<AtomicU64>>,
}

impl<T: Letters> Mail<T> {
    /// For so many parts.
    pub(crate) fn new(parts: usize) -> Self {
        let inbox = || Inbox {
            places: (0..parts).map(|_| Lines(Mutex::new(T::default()))).collect(),
            full: (0..parts.div_ceil(64)).map(|_| Lines(AtomicU64::new(0))).collect(),
        };
        Mail {
            inboxes: (0..parts).map(|_| inbox()).collect(),
            progress: (0..parts).map(|_| Lines(AtomicU64::new(0))).collect(),
        }
    }

    /// Hands over what is in `letters`, which is empty afterwards.
    pub(crate) fn post(&self, from: usize, to: usize, letters: &mut T) {
        if letters.is_empty() {
            return;
        }
        let inbox = &self.inboxes[to];
        // If another thread has panicked, all of them end.
        let Ok(mut place) = inbox.places[from].0.lock() else { return };
        if place.is_empty() {
            // Its memory is used for what is sent next.
            std::mem::swap(&mut *place, letters);
        } else {
            place.append(letters);
        }
        drop(place);
        inbox.full[from / 64].0.fetch_or(1 << (from % 64), Ordering::Release);
    }

    /// Lets `take` have all that has been handed to `own`, sender by sender; it leaves nothing. `spare` is empty before and afterwards.
    pub(crate) fn take(&self, own: usize, spare: &mut T, mut take: impl FnMut(&mut T)) {
        let inbox = &self.inboxes[own];
        for (word, full) in inbox.full.iter().enumerate() {
            if full.0.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut senders = full.0.swap(0, Ordering::Acquire);
            while senders != 0 {
                let from = word * 64 + senders.trailing_zeros() as usize;
                senders &= senders - 1;
                if let Ok(mut place) = inbox.places[from].0.lock() {
                    std::mem::swap(&mut *place, spare);
                }
                take(spare);
            }
        }
    }

    /// The part `own` has come to `time`: all that it has posted is for later.
    pub(crate) fn advance(&self, own: usize, time: u64) {
        self.progress[own].0.store(time, Ordering::Release);
    }

    /// How far a part has come.
    pub(crate) fn progress(&self, part: usize) -> u64 {
        self.progress[part].0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
impl Letters for Vec<u64> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
    fn append(&mut self, others: &mut Self) {
        self.append(others);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_comes_once_and_in_order() {
        const PARTS: usize = 70;
        let mail = Mail::<Vec<u64>>::new(PARTS);
        let mut spare = Vec::new();
        let mut take = |own| {
            let mut taken = Vec::new();
            mail.take(own, &mut spare, |letters| taken.push(std::mem::take(letters)));
            taken
        };
        mail.post(69, 3, &mut vec![1, 2]);
        mail.post(0, 3, &mut vec![7]);
        mail.post(69, 3, &mut vec![3]);
        mail.post(1, 4, &mut Vec::new());
        assert_eq!(take(3), [vec![7], vec![1, 2, 3]]);
        assert_eq!((take(3).len(), take(4).len()), (0, 0));
        mail.advance(5, 9);
        assert_eq!((mail.progress(5), mail.progress(6)), (9, 0));
    }
}

/// All orders in which the steps of the parts can happen, by loom: `make model`.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;

    use super::*;

    #[test]
    fn who_sees_how_far_a_part_has_come_has_all_that_it_handed_over() {
        loom::model(|| {
            let mail = Arc::new(Mail::<Vec<u64>>::new(2));
            let sender = mail.clone();
            let other = loom::thread::spawn(move || {
                for time in 1..=2 {
                    sender.post(1, 0, &mut vec![time]);
                    sender.advance(1, time);
                }
            });
            let (mut taken, mut spare) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                let come = mail.progress(1);
                mail.take(0, &mut spare, |letters| taken.append(letters));
                assert!(taken.len() as u64 >= come, "{taken:?} at {come}");
                assert!(taken.is_sorted());
            }
            other.join().unwrap();
            mail.take(0, &mut spare, |letters| taken.append(letters));
            assert_eq!(taken, [1, 2]);
        });
    }

    #[test]
    fn what_a_third_part_handed_over_comes_first() {
        loom::model(|| {
            let mail = Arc::new(Mail::<Vec<u64>>::new(3));
            let (first, second) = (mail.clone(), mail.clone());
            let threads = [
                loom::thread::spawn(move || {
                    first.post(0, 2, &mut vec![7]);
                    first.advance(0, 1);
                }),
                loom::thread::spawn(move || {
                    let come = second.progress(0);
                    second.advance(1, come);
                }),
            ];
            let come = mail.progress(1);
            let (mut taken, mut spare) = (Vec::new(), Vec::new());
            mail.take(2, &mut spare, |letters| taken.append(letters));
            assert!(come == 0 || taken == [7]);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
