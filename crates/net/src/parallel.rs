//! The parts of a network that is cut, run at the same time.
//!
//! Conservative: time goes in windows that are no longer than the shortest delay of a link between two parts. What a part sends to another in
//! one window arrives after that window, so no part can be surprised. After each window the parts meet: what has left for others is handed
//! over, and all compute the same next window from the times of their next events, so that idle times are skipped.
//!
//! Where threads have to wait long for each other, as on a machine that is busy with other things, one thread can run the parts in turn.
//!
//! The order in which parts run, and how many there are, changes nothing in what happens: within a part, events are in the order of time,
//! class and number, where links keep the order of their numbers in the whole network; and events of one instant in different parts do not
//! know of each other.
//!
//! The parts of one process meet in its memory (`Exchange`); those of several processes by messages (`apart`). Both are `Neighbours`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warpline_core::{TimeDelta, Timestamp};

use crate::hosts::{Hosts, Pause};
use crate::meeting::Meeting;
use crate::network::Network;
use crate::part::{Crossing, Part};

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

/// What comes to a part from another in one window.
#[derive(Serialize, Deserialize)]
pub(crate) struct Post<N> {
    crossings: Vec<Crossing>,
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
}

impl<N> Default for Post<N> {
    fn default() -> Self {
        Post { crossings: Vec::new(), notes: Vec::new() }
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

/// The other parts, as one of them meets them.
pub(crate) trait Neighbours<N> {
    /// Hands over what is in `out`, by part, which is empty afterwards; waits until all others have come; and lets `take` have all that they
    /// hand over. Returns what all tell together, or nothing if one will never come.
    fn meet(&mut self, told: Told, out: &mut [Post<N>], take: impl FnMut(&mut Post<N>)) -> Option<Told>;
}

/// What the parts of one process tell each other when they meet. There are two of each, used in turn: a part that is already in the next window writes into
/// one while a slower one reads the other.
struct Exchange<N> {
    meeting: Meeting,
    /// By turn, receiver and sender.
    posts: [Vec<Vec<Mutex<Post<N>>>>; 2],
    /// By turn and part.
    states: [Vec<State>; 2],
}

/// What a part tells of itself. On a cache line of its own, since each part writes its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct State {
    /// The time of its next event, or of the next one that it causes elsewhere, in nanoseconds.
    next: AtomicU64,
    /// Events handled in the last window.
    handled: AtomicU64,
    pause: AtomicBool,
}

impl<N> Exchange<N> {
    fn new(parts: usize) -> Self {
        let posts = || (0..parts).map(|_| (0..parts).map(|_| Mutex::default()).collect()).collect();
        let states = || (0..parts).map(|_| State::default()).collect();
        Exchange { meeting: Meeting::new(parts), posts: [posts(), posts()], states: [states(), states()] }
    }
}

/// One of the parts of this process.
struct Member<'a, N> {
    number: usize,
    exchange: &'a Exchange<N>,
    turn: usize,
    /// The first part asks whether to pause.
    enough: &'a (dyn Fn() -> bool + Sync),
}

impl<N> Neighbours<N> for Member<'_, N> {
    fn meet(&mut self, told: Told, out: &mut [Post<N>], mut take: impl FnMut(&mut Post<N>)) -> Option<Told> {
        let Exchange { meeting, posts, states } = self.exchange;
        let (posts, states) = (&posts[self.turn], &states[self.turn]);
        self.turn = 1 - self.turn;
        for (row, post) in posts.iter().zip(out) {
            if !post.is_empty()
                && let Ok(mut place) = row[self.number].lock()
            {
                // The place is empty; its memory is used for the next window.
                std::mem::swap(&mut *place, post);
            }
        }
        // The meeting passes on what was written before it.
        let state = &states[self.number];
        state.next.store(told.next.as_nanos(), Ordering::Relaxed);
        state.handled.store(told.handled, Ordering::Relaxed);
        state.pause.store(self.number == 0 && (self.enough)(), Ordering::Relaxed);
        if !meeting.wait() {
            // Another part has panicked; its panic is passed on by its thread.
            return None;
        }
        for post in &posts[self.number] {
            take(&mut *post.lock().ok()?);
        }
        Some(Told::together(states.iter().map(|state| {
            let next = Timestamp::from_nanos(state.next.load(Ordering::Relaxed));
            let pause = state.pause.load(Ordering::Relaxed);
            Told { pause, ..Told::new(next, state.handled.load(Ordering::Relaxed)) }
        })))
    }
}

/// Events of all parts after which a window is made shorter, so that the caller is asked often enough.
const MANY: u64 = 1 << 18;

/// The first window is no longer than this: parts that no link joins could go on for ever.
const FIRST: TimeDelta = TimeDelta::from_millis(10);

/// The bounds of a run.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) limit: Timestamp,
    pub(crate) budget: u64,
    pub(crate) lookahead: TimeDelta,
}

impl Bounds {
    /// The end of a window of `span` that begins with the event at `next`. Nothing that begins in it arrives elsewhere before its end, if
    /// it is no longer than the lookahead.
    fn horizon(&self, next: Timestamp, span: TimeDelta) -> Timestamp {
        (next + TimeDelta::from_nanos(span.as_nanos() - 1)).min(self.limit)
    }
}

/// How far the parts came, and what that took.
pub(crate) struct Ran {
    pub(crate) pause: Pause,
    /// Of each window the most events of one part, added up.
    pub(crate) critical: u64,
}

/// Runs one part of `count` until the end that all parts agree on.
pub(crate) fn run_part<H: PartHosts>(
    part: &mut Part,
    hosts: &mut H,
    count: usize,
    mut neighbours: impl Neighbours<H::Note>,
    bounds: Bounds,
) -> Ran {
    let (mut total, mut critical) = (0, 0);
    // Windows are no longer than this, so that each is a piece of work of some milliseconds.
    let mut span = bounds.lookahead.min(FIRST);
    let mut handled = 0;
    let mut out: Vec<Post<H::Note>> = std::iter::repeat_with(Post::default).take(count).collect();
    loop {
        let first_left = collect(part, hosts, &mut out);
        let next = part.next_event().unwrap_or(Timestamp::NEVER).min(first_left);
        let all = neighbours.meet(Told::new(next, handled), &mut out, |post| {
            post.notes.drain(..).for_each(|note| hosts.handle_note(note));
            post.crossings.drain(..).for_each(|crossing| part.enter(&crossing));
        });
        let Some(Told { next, handled: in_window, most, pause }) = all else {
            return Ran { pause: Pause::Budget, critical };
        };
        total += in_window;
        critical += most;
        if next > bounds.limit || !next.is_set() {
            part.advance_to(bounds.limit);
            return Ran { pause: Pause::Reached, critical };
        }
        if total >= bounds.budget || (pause && total > 0) {
            return Ran { pause: Pause::Budget, critical };
        }
        if in_window > MANY {
            span = TimeDelta::from_nanos((span.as_nanos() / 2).max(1));
        } else if in_window < MANY / 8 {
            span = TimeDelta::from_nanos(span.as_nanos().saturating_mul(2)).min(bounds.lookahead);
        }
        let horizon = bounds.horizon(next, span);
        let before = part.events();
        part.run_until(horizon, hosts, u64::MAX);
        handled = part.events() - before;
    }
}

/// Puts what has left `part` into `out`, by part. Returns the earliest arrival.
fn collect<H: PartHosts>(part: &mut Part, hosts: &mut H, out: &mut [Post<H::Note>]) -> Timestamp {
    let first = part.leave(|to, crossing| out[to].crossings.push(crossing));
    hosts.take_notes().into_iter().for_each(|(to, note)| out[to].notes.push(note));
    first
}

/// Runs all parts in the calling thread, in the same windows.
fn run_in_turn<H: PartHosts>(parts: &mut [Part], hosts: &mut [H], bounds: Bounds) -> Ran {
    let events = |parts: &[Part]| parts.iter().map(Part::events).sum::<u64>();
    let begun = events(parts);
    let mut critical = 0;
    let mut crossings = Vec::new();
    loop {
        for number in 0..parts.len() {
            parts[number].leave(|to, crossing| crossings.push((to, crossing)));
            crossings.drain(..).for_each(|(to, crossing)| parts[to].enter(&crossing));
            for (to, note) in hosts[number].take_notes() {
                hosts[to].handle_note(note);
            }
        }
        let next = parts.iter_mut().filter_map(Part::next_event).min().filter(|&next| next <= bounds.limit);
        let (now, pause) = match next {
            None => (bounds.limit, Pause::Reached),
            Some(_) if events(parts) - begun >= bounds.budget => {
                (parts.iter().map(|part| part.now).max().unwrap_or(bounds.limit), Pause::Budget)
            }
            Some(next) => {
                let horizon = bounds.horizon(next, bounds.lookahead);
                let most = parts.iter_mut().zip(&mut *hosts).map(|(part, hosts)| {
                    let before = part.events();
                    part.run_until(horizon, hosts, u64::MAX);
                    part.events() - before
                });
                critical += most.max().unwrap_or(0);
                continue;
            }
        };
        parts.iter_mut().for_each(|part| part.advance_to(now));
        return Ran { pause, critical };
    }
}

/// Who runs the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// A thread for each part.
    Threads,
    /// The calling thread, one part after the other.
    Caller,
}

impl Network {
    /// Handles events in order until the next one is later than `limit`, some `budget` of them have been handled, or `enough` says so, which
    /// threads ask whenever they meet; `hosts` are those of the parts, in their order. Afterwards all parts are at the same time. What happens
    /// depends neither on `workers` nor on when they pause.
    ///
    /// # Panics
    /// If there are not as many hosts as parts, or hosts panic.
    pub fn run_parts<H: PartHosts>(
        &mut self,
        limit: Timestamp,
        hosts: &mut [H],
        budget: u64,
        workers: Workers,
        enough: &(dyn Fn() -> bool + Sync),
    ) -> Pause {
        assert_eq!(hosts.len(), self.parts.len(), "each part needs its hosts");
        if let ([_], [hosts]) = (&self.parts[..], &mut *hosts) {
            return self.run_until(limit, hosts, budget);
        }
        let limit = limit.min(Timestamp::from_nanos(u64::MAX - 1));
        let bounds = Bounds { limit, budget, lookahead: self.cut.lookahead };
        if workers == Workers::Caller {
            let ran = run_in_turn(&mut self.parts, hosts, bounds);
            self.critical += ran.critical;
            return ran.pause;
        }
        let exchange = Exchange::new(self.parts.len());
        let count = self.parts.len();
        let run = |number: usize, part: &mut Part, hosts: &mut H| {
            let _guard = exchange.meeting.guard();
            run_part(part, hosts, count, Member { number, exchange: &exchange, turn: 0, enough }, bounds)
        };
        let ran = std::thread::scope(|scope| {
            let mut parts = self.parts.iter_mut().zip(hosts).enumerate();
            let own = parts.next();
            let others: Vec<_> =
                parts.map(|(number, (part, hosts))| scope.spawn(move || run(number, part, hosts))).collect();
            let ran = own.map(|(number, (part, hosts))| run(number, part, hosts));
            for other in others {
                if let Err(panic) = other.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            ran
        });
        let Ran { pause, critical } = ran.unwrap_or(Ran { pause: Pause::Reached, critical: 0 });
        self.critical += critical;
        let now = self.parts.iter().map(|part| part.now).max();
        for part in &mut self.parts {
            part.advance_to(now.unwrap_or(limit));
        }
        pause
    }

    /// Events that nothing could have handled at the same time as each other, as the network is cut: of each window between two meetings,
    /// those of the part that had most. All events of a network that is not cut.
    pub fn critical_events(&self) -> u64 {
        if self.critical > 0 { self.critical } else { self.events() }
    }
}
