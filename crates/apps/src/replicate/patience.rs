//! Decides whether a receiver makes progress: only real progress extends its deadline.
//!
//! Answering, keeping the connection alive and sending messages are not progress. Progress is to take a chunk that was not taken too often
//! already, to acknowledge bytes of such chunks, or to compare or check a substantial further part of the tree: many bytes, or many files,
//! however small. There is a finite amount of each on a connection, whatever the receiver says of it, so a receiver that does nothing, or the
//! same again and again, is given up in the end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::build::{BATCH, BATCH_ENTRIES, Progress, Step};
use super::manifest::{Entry, Manifest};

/// How often a chunk may be taken: one that the receiver lost in a crash is sent again.
const TIMES: u8 = 3;

/// A receiver that compares or checks makes progress with each of this many bytes.
const PIECE: u64 = 1 << 20;

/// How often a receiver may go through the tree in one step: through existing versions of it, what is there already, and copies.
const PASSES: u64 = 4;

/// Bytes per second that even a slow disk reads and flushes. A receiver that compares or checks reports after each batch of files, so it may
/// be silent for as long as a batch takes at this rate.
const SLOWEST_DISK: u64 = 10_000_000;

/// Bytes per second that must be acknowledged, which is more than keep-alives.
const LEAST_RATE: u64 = 32;

/// What there is to do for a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Bytes of the largest file.
    largest: u64,
    /// Bytes of data.
    total: u64,
    /// Files, directories and links.
    entries: u64,
}

impl Work {
    pub(super) fn of(manifest: &Manifest) -> Self {
        Work {
            largest: manifest.entries.iter().map(Entry::size).max().unwrap_or(0),
            total: manifest.data_bytes(),
            entries: manifest.entries.len() as u64,
        }
    }

    /// Most reports in one step that show progress by the number of files. Before the receiver goes through the tree, it makes the directories.
    fn reports(&self) -> u64 {
        (PASSES + 1) * self.entries / BATCH_ENTRIES as u64
    }
}

/// One receiver's progress.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// Time of the last progress.
    moved: Instant,
    taken: BTreeMap<(u32, u32), u8>,
    /// Bytes that this connection may acknowledge, and those of them that have counted as progress.
    credit: u64,
    acknowledged: u64,
    /// The step of this connection and the progress in it.
    step: (Step, u64),
    /// Reports in this step that were progress without the bytes of a piece.
    reports: u64,
    work: Work,
    /// How much longer the receiver may be silent, because of work that it does not report.
    silence: Duration,
    /// The same, for a batch with the largest file.
    batch: Duration,
}

impl Patience {
    /// For a receiver that may be without progress for `limit`.
    pub(super) fn new(limit: Duration, work: Work, now: Instant) -> Self {
        Patience {
            limit,
            moved: now,
            taken: BTreeMap::new(),
            credit: 0,
            acknowledged: 0,
            step: (Step::Comparing, 0),
            reports: 0,
            work,
            silence: Duration::ZERO,
            batch: Duration::from_secs((work.largest + BATCH) / SLOWEST_DISK),
        }
    }

    /// A connection begins, on which a description of this many bytes is sent.
    pub(super) fn connected(&mut self, description: u64) {
        self.credit = description;
        self.acknowledged = 0;
        self.step = (Step::Comparing, 0);
        self.reports = 0;
        self.silence = Duration::ZERO;
    }

    /// The connection is gone.
    pub(super) fn lost(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// The receiver takes a chunk. Returns false if it has taken it too often.
    pub(super) fn takes(&mut self, entry: u32, chunk: u32, length: u64, now: Instant) -> bool {
        let times = self.taken.entry((entry, chunk)).or_insert(0);
        if *times >= TIMES {
            return false;
        }
        *times += 1;
        self.credit += length;
        self.moved = now;
        true
    }

    /// The connection has acknowledged this many bytes in all.
    pub(super) fn acknowledges(&mut self, bytes: u64, now: Instant) {
        let counts = bytes.min(self.credit);
        if counts >= self.acknowledged + (LEAST_RATE * self.limit.as_secs()).max(256) {
            self.acknowledged = counts;
            self.moved = now;
        }
    }

    /// The receiver reports its progress.
    pub(super) fn says(&mut self, progress: Progress, now: Instant) {
        let Progress { step, done, total } = progress;
        let later = step > self.step.0;
        // Progress in fetching is counted by the chunks taken.
        let counts = step == self.step.0 && step != Step::Fetching && done <= PASSES * self.work.total;
        let whole = done == self.work.total && done > self.step.1;
        let further = counts && (done >= self.step.1.saturating_add(PIECE) || whole);
        let many = counts && !further && done >= self.step.1 && self.reports < self.work.reports();
        if done <= total && (later || further || many) {
            self.step = (step, if later { 0 } else { done });
            self.reports = if later { 0 } else { self.reports + u64::from(many) };
            self.moved = now;
        }
        self.silence = if self.step.0 == Step::Fetching { Duration::ZERO } else { self.batch };
    }

    /// Time since the last progress.
    pub(super) fn idle(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved)
    }

    /// Whether to give up the receiver.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.idle(now) >= self.limit + self.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "any moment does")]
        let start = *START.get_or_init(Instant::now);
        start + Duration::from_secs(seconds)
    }

    fn patience() -> Patience {
        with(Work { largest: 1_000_000_000, total: 1 << 30, entries: 5 })
    }

    fn with(work: Work) -> Patience {
        let mut patience = Patience::new(Duration::from_secs(60), work, at(0));
        patience.connected(1000);
        patience
    }

    #[test]
    fn taking_chunks_is_progress_but_not_the_same_chunk_again_and_again() {
        let mut patience = patience();
        for time in 1..=3 {
            assert!(patience.takes(1, 1, 5000, at(50 * time)));
        }
        assert!(!patience.takes(1, 1, 5000, at(160)));
        assert!(!patience.is_over(at(209)) && patience.is_over(at(210)));
        assert!(patience.takes(1, 2, 5000, at(211)) && !patience.is_over(at(270)));
    }

    #[test]
    fn acknowledging_keep_alives_is_no_progress_but_acknowledging_chunks_is() {
        let mut patience = patience();
        // 40 bytes every 3.75 s.
        for second in 1..60 {
            patience.acknowledges(second * 11, at(second));
        }
        assert!(patience.is_over(at(60)));
        patience.takes(0, 0, 100_000, at(60));
        for minute in 2..10 {
            patience.acknowledges(minute * 3000, at(minute * 60 - 1));
            assert!(!patience.is_over(at(minute * 60)), "{minute}");
        }
        // Acknowledgements of more than was requested do not count.
        patience.acknowledges(101_000, at(1000));
        patience.acknowledges(1_000_000, at(1050));
        assert!(patience.is_over(at(1060)));
    }

    #[test]
    fn repeated_reports_and_tiny_steps_are_no_progress() {
        let mut patience = patience();
        let say = |patience: &mut Patience, step, done, second| {
            patience.says(Progress { step, done, total: 1 << 30 }, at(second));
        };
        for second in 1..162 {
            say(&mut patience, Step::Comparing, second, second);
            say(&mut patience, Step::Comparing, u64::MAX, second);
        }
        // 101 s for a batch.
        assert!(!patience.is_over(at(160)) && patience.is_over(at(161)));
        let mut patience = super::tests::patience();
        say(&mut patience, Step::Comparing, 2 << 20, 61);
        assert!(!patience.is_over(at(120)));
        say(&mut patience, Step::Fetching, 0, 100);
        say(&mut patience, Step::Fetching, 1 << 29, 150);
        assert!(patience.is_over(at(160)));
        // Flushing a batch with the largest file takes 101 s.
        say(&mut patience, Step::Checking, 0, 170);
        assert!(!patience.is_over(at(330)) && patience.is_over(at(331)));
        // Going back to an earlier step does not count.
        say(&mut patience, Step::Comparing, 1 << 30, 330);
        assert!(patience.is_over(at(331)));
    }

    #[test]
    fn to_claim_more_than_the_tree_has_is_no_progress() {
        let mut patience = patience();
        let mut round = 0;
        while !patience.is_over(at(150 * round)) {
            round += 1;
            let progress = Progress { step: Step::Comparing, done: round << 20, total: u64::MAX };
            patience.says(progress, at(150 * round));
            assert!(round < 5000, "it is waited for without end");
        }
        // 1 GiB, four times, in pieces of 1 MiB.
        assert!(round > 4096, "{round}");
    }

    #[test]
    fn many_small_files_are_progress_as_often_as_there_are_many() {
        let mut patience = with(Work { largest: 10, total: 10, entries: 512 });
        let mut round = 0;
        while !patience.is_over(at(59 * round)) {
            round += 1;
            patience.says(Progress { step: Step::Checking, done: 10, total: 10 }, at(59 * round));
            assert!(round < 100);
        }
        // The step, the whole tree, and 512 files five times.
        assert!((10..=14).contains(&round), "{round}");
    }
}
