//! The parts of a network that is cut, run at the same time.
//!
//! Conservative: a part is never ahead of another by more than a packet takes from that one to it, so that nothing can come that should have
//! come before. All agree on a stretch of time, run to its end, and meet. From the times of their next events they compute
//! where the next stretch begins, so that idle times are skipped.
//!
//! The order in which parts run, and how many there are, changes nothing in what happens: within a part, events are in the order of time,
//! class and number, where links keep the order of their numbers in the whole network; and events of one instant in different parts do not
//! know of each other.
//!
//! The parts of one process are run by threads (`threads.rs`), and those of several processes send messages (`apart.rs`).
//! To each part, the others are its `Neighbours`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warpline_core::{TimeDelta, Timestamp};

use crate::crossing::Crossings;
use crate::hosts::{Hosts, Pause};
use crate::part::Part;

/// The hosts of one part.
pub trait PartHosts: Hosts + Send {
    /// What hosts of one part may tell those of another besides the packets that they send.
    type Note: Send + Serialize + DeserializeOwned;

    /// Takes the notes for other parts since the last call, each with the number of its part. They are handed over before anything that
    /// was sent at the same time or later can arrive there, and not at any certain time.
    fn take_notes(&mut self) -> Vec<(usize, Self::Note)>;

    /// Takes a note from another part.
    fn handle_note(&mut self, note: Self::Note);
}

/// What one part hands to another.
#[derive(Serialize, Deserialize)]
pub(crate) struct Post<N> {
    crossings: Crossings,
    notes: Vec<N>,
}

impl<N> Post<N> {
    pub(crate) fn is_empty(&self) -> bool {
        self.crossings.is_empty() && self.notes.is_empty()
    }
    pub(crate) fn clear(&mut self) {
        self.crossings.clear();
        self.notes.clear();
    }
    /// Adds all `others` behind its own.
    pub(crate) fn append(&mut self, others: &mut Self) {
        self.crossings.append(&mut others.crossings);
        self.notes.append(&mut others.notes);
    }

    /// Puts what has left `part` into `out`, by part. Returns the earliest of the arrivals after `after`.
    pub(crate) fn collect<H: PartHosts<Note = N>>(
        part: &mut Part,
        hosts: &mut H,
        out: &mut [Post<N>],
        after: Timestamp,
    ) -> Timestamp {
        let mut first = Timestamp::NEVER;
        part.leave(|to, crossing, rare| {
            if crossing.arrival >= after {
                first = first.min(crossing.arrival);
            }
            out[to].crossings.push(crossing, rare);
        });
        hosts.take_notes().into_iter().for_each(|(to, note)| out[to].notes.push(note));
        first
    }

    /// Hands everything to a part; nothing is left.
    pub(crate) fn enter<H: PartHosts<Note = N>>(&mut self, part: &mut Part, hosts: &mut H) {
        self.notes.drain(..).for_each(|note| hosts.handle_note(note));
        self.crossings.drain(|crossing, rare| part.enter(crossing, rare));
    }
}

impl<N> Default for Post<N> {
    fn default() -> Self {
        Post { crossings: Crossings::default(), notes: Vec::new() }
    }
}

/// What a part tells all others when they meet; and the same of all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The time of its next event, or of the next one that it causes elsewhere: the earliest of all.
    pub(crate) next: Timestamp,
    /// Events handled in the last window: their sum, and the most of one part.
    pub(crate) handled: u64,
    pub(crate) most: u64,
    /// Whether all are to pause, however much of the budget is left.
    pub(crate) pause: bool,
}

impl Told {
    /// What a part tells.
    pub(crate) fn new(next: Timestamp, handled: u64) -> Told {
        Told { next, handled, most: handled, pause: false }
    }

    /// What all tell together.
    pub(crate) fn together(all: impl Iterator<Item = Told>) -> Told {
        let none = Told::new(Timestamp::NEVER, 0);
        all.fold(none, |a, b| Told {
            next: a.next.min(b.next),
            handled: a.handled + b.handled,
            most: a.most.max(b.most),
            pause: a.pause || b.pause,
        })
    }
}

/// The time between two meetings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) begin: Timestamp,
    /// The first instant after it.
    pub(crate) end: Timestamp,
    /// What a part sends to another arrives no sooner than so much later.
    pub(crate) window: TimeDelta,
}

/// The other parts, as one of them meets them.
pub(crate) trait Neighbours<H: PartHosts> {
    /// How many windows a stretch may have.
    const WINDOWS: u64;

    /// Hands over what has left the part. Returns the earliest of the arrivals from `after` on.
    fn hand_over(&mut self, part: &mut Part, hosts: &mut H, after: Timestamp) -> Timestamp;

    /// Lets the part run to the end of the stretch, and hands over what leaves it. Returns the earliest of the arrivals after that.
    fn run(&mut self, part: &mut Part, hosts: &mut H, stretch: Stretch) -> Timestamp;

    /// Waits until all others have come, and takes what they have handed over. Returns what all tell together, or nothing if one will never
    /// come.
    fn meet(&mut self, told: Told, part: &mut Part, hosts: &mut H) -> Option<Told>;
}

/// Events of all parts after which the next stretch is made shorter, so that the caller is asked often enough.
const MANY: u64 = 1 << 15;

/// The first stretch is no longer than this: parts that no link joins could go on for ever.
const FIRST: TimeDelta = TimeDelta::from_millis(10);

/// The bounds of a run.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) limit: Timestamp,
    pub(crate) budget: u64,
    pub(crate) lookahead: TimeDelta,
}

impl Bounds {
    /// The stretch of `span` that begins with the event at `next`.
    pub(crate) fn stretch(&self, next: Timestamp, span: TimeDelta) -> Stretch {
        let after = self.limit + TimeDelta::from_nanos(1);
        Stretch { begin: next, end: (next + span).min(after), window: self.lookahead }
    }
}

/// How far the parts came, and what that took.
pub(crate) struct Ran {
    pub(crate) pause: Pause,
    /// Of each window the most events of one part, added up.
    pub(crate) critical: u64,
}

/// Runs one part until the end that all parts agree on.
pub(crate) fn run_part<H: PartHosts, N: Neighbours<H>>(
    part: &mut Part,
    hosts: &mut H,
    mut neighbours: N,
    bounds: Bounds,
) -> Ran {
    let (mut total, mut critical) = (0, 0);
    let longest = bounds.lookahead.as_nanos().saturating_mul(N::WINDOWS);
    let mut span = bounds.lookahead.min(FIRST).as_nanos();
    let mut handled = 0;
    let mut first_left = neighbours.hand_over(part, hosts, Timestamp::ZERO);
    loop {
        let next = part.next_event().unwrap_or(Timestamp::NEVER).min(first_left);
        let all = neighbours.meet(Told::new(next, handled), part, hosts);
        let Some(Told { next, handled: of_all, most, pause }) = all else {
            return Ran { pause: Pause::Budget, critical };
        };
        total += of_all;
        critical += most;
        if next > bounds.limit || !next.is_set() {
            part.advance_to(bounds.limit);
            return Ran { pause: Pause::Reached, critical };
        }
        if total >= bounds.budget || (pause && total > 0) {
            return Ran { pause: Pause::Budget, critical };
        }
        if of_all > MANY {
            span = (span / 2).max(1);
        } else if of_all < MANY / 4 {
            span = span.saturating_mul(2).min(longest);
        }
        let before = part.events();
        first_left = neighbours.run(part, hosts, bounds.stretch(next, TimeDelta::from_nanos(span)));
        handled = part.events() - before;
    }
}
