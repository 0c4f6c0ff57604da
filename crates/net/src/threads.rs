//! The parts of one process, each run by a thread.
//!
//! In a [`Stretch`] of time, a part looks how far those have come from which links lead into it, and runs to where the first packet could
//! come that they have not sent yet. After some events it says how far it has come itself. So a part that has more to do at one time and
//! less at another seldom has to wait. Only at the end of the stretch all of them wait for each other.
//!
//! Where threads have to wait long for each other, as on a machine that is busy with other things, the calling thread can run the parts in
//! turn.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use warpline_core::{TimeDelta, Timestamp};

use crate::hosts::Pause;
use crate::mail::{Letters, Lines, Mail};
use crate::meeting::{Meeting, Patience};
use crate::network::Network;
use crate::parallel::{Bounds, Neighbours, PartHosts, Post, Ran, Stretch, Told, run_part};
use crate::part::Part;

/// Events after which a part says how far it has come, at least and at most: some microseconds of work, and some ten.
const STEP: (u64, u64) = (32, 256);

/// How often it does so in a window, if it has enough events.
const STEPS: u64 = 2;

/// Windows between two meetings, at most. A window is as long as the shortest delay between two parts.
const WINDOWS: usize = 32;

/// What the parts of one process have in common.
pub(crate) struct Exchange<N> {
    pub(crate) meeting: Meeting,
    mail: Mail<Post<N>>,
    /// By turn and part. There are two of each, used in turn: a part that is already at the next meeting writes into one while a slower one
    /// reads the other.
    states: [Vec<Lines<State>>; 2],
}

/// What a part tells when all meet.
#[derive(Debug, Default)]
struct State {
    /// The time of its next event, or of the next one that it causes elsewhere, in nanoseconds.
    next: AtomicU64,
    /// Events handled since the last meeting.
    handled: AtomicU64,
    /// The same for each window.
    windows: [AtomicU32; WINDOWS],
    pause: AtomicBool,
}

impl<N> Exchange<N> {
    pub(crate) fn new(parts: usize) -> Self {
        let states = || (0..parts).map(|_| Lines(State::default())).collect();
        Exchange { meeting: Meeting::new(parts), mail: Mail::new(parts), states: [states(), states()] }
    }
}

/// One of the parts of this process.
pub(crate) struct Member<'a, N> {
    number: usize,
    exchange: &'a Exchange<N>,
    /// The parts from which links lead here, each with the shortest delay of these.
    before: &'a [(usize, TimeDelta)],
    /// The first part asks whether to pause.
    enough: &'a (dyn Fn() -> bool + Sync),
    turn: usize,
    /// Events until it next says how far it has come.
    step: u64,
    /// What is to be posted, by part.
    out: Vec<Post<N>>,
    /// Without contents. What is taken gets its memory.
    spare: Post<N>,
    /// Events since the last meeting, by window.
    windows: [u32; WINDOWS],
}

impl<'a, N> Member<'a, N> {
    pub(crate) fn new(
        number: usize,
        exchange: &'a Exchange<N>,
        before: &'a [(usize, TimeDelta)],
        enough: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        let out = exchange.states[0].iter().map(|_| Post::default()).collect();
        let (spare, windows) = (Post::default(), [0; WINDOWS]);
        Member { number, exchange, before, enough, turn: 0, step: STEP.0, out, spare, windows }
    }

    fn take<H: PartHosts<Note = N>>(&mut self, part: &mut Part, hosts: &mut H) {
        self.exchange.mail.take(self.number, &mut self.spare, |post| post.enter(part, hosts));
    }
}

impl<N> Letters for Post<N> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
    fn append(&mut self, others: &mut Self) {
        self.append(others);
    }
}

impl<H: PartHosts> Neighbours<H> for Member<'_, H::Note> {
    const WINDOWS: u64 = WINDOWS as u64;

    fn hand_over(&mut self, part: &mut Part, hosts: &mut H, after: Timestamp) -> Timestamp {
        let first = Post::collect(part, hosts, &mut self.out, after);
        for (to, post) in self.out.iter_mut().enumerate() {
            self.exchange.mail.post(self.number, to, post);
        }
        first
    }

    fn run(&mut self, part: &mut Part, hosts: &mut H, stretch: Stretch) -> Timestamp {
        let Exchange { meeting, mail, .. } = self.exchange;
        let Stretch { begin, end, window } = stretch;
        // Everything before is done.
        let mut at = begin;
        let mut first = Timestamp::NEVER;
        for number in 0..WINDOWS {
            let window_end = (at + window).min(end);
            let before = part.events();
            while at < window_end {
                let mut patience = Patience::default();
                let until = loop {
                    let come = self.before.iter().map(|&(other, delay)| {
                        Timestamp::from_nanos(mail.progress(other)).max(begin) + delay
                    });
                    let until = come.min().map_or(window_end, |come| come.min(window_end));
                    if until > at {
                        break until;
                    }
                    if !patience.wait(meeting) {
                        return Timestamp::NEVER;
                    }
                };
                self.take(part, hosts);
                at = match part.run_before(until, hosts, self.step) {
                    Pause::Reached => until,
                    Pause::Budget => part.now + TimeDelta::from_nanos(1),
                };
                first = first.min(self.hand_over(part, hosts, end));
                mail.advance(self.number, at.as_nanos());
            }
            let events = part.events() - before;
            self.windows[number] = events as u32;
            self.step = (events / STEPS).clamp(STEP.0, STEP.1);
        }
        first
    }

    fn meet(&mut self, told: Told, part: &mut Part, hosts: &mut H) -> Option<Told> {
        let Exchange { meeting, states, .. } = self.exchange;
        let states = &states[self.turn];
        self.turn = 1 - self.turn;
        // The meeting passes on what was written before it.
        let Lines(state) = &states[self.number];
        state.next.store(told.next.as_nanos(), Ordering::Relaxed);
        state.handled.store(told.handled, Ordering::Relaxed);
        state.pause.store(self.number == 0 && (self.enough)(), Ordering::Relaxed);
        for (place, events) in state.windows.iter().zip(&mut self.windows) {
            place.store(std::mem::take(events), Ordering::Relaxed);
        }
        if !meeting.wait() {
            // Another part has panicked; its panic is passed on by its thread.
            return None;
        }
        self.take(part, hosts);
        let all = Told::together(states.iter().map(|Lines(state)| {
            let next = Timestamp::from_nanos(state.next.load(Ordering::Relaxed));
            let pause = state.pause.load(Ordering::Relaxed);
            Told { pause, ..Told::new(next, state.handled.load(Ordering::Relaxed)) }
        }));
        let most = |window: usize| {
            states.iter().map(|Lines(state)| state.windows[window].load(Ordering::Relaxed)).max()
        };
        let most = (0..WINDOWS).filter_map(most).map(u64::from).sum();
        Some(Told { most, ..all })
    }
}

/// Runs all parts in the calling thread, in the same windows.
fn run_in_turn<H: PartHosts>(parts: &mut [Part], hosts: &mut [H], bounds: Bounds) -> Ran {
    let events = |parts: &[Part]| parts.iter().map(Part::events).sum::<u64>();
    let begun = events(parts);
    let mut critical = 0;
    let mut out: Vec<Post<H::Note>> = parts.iter().map(|_| Post::default()).collect();
    loop {
        for number in 0..parts.len() {
            Post::collect(&mut parts[number], &mut hosts[number], &mut out, Timestamp::ZERO);
            for (to, post) in out.iter_mut().enumerate() {
                post.enter(&mut parts[to], &mut hosts[to]);
            }
        }
        let next = parts.iter_mut().filter_map(Part::next_event).min().filter(|&next| next <= bounds.limit);
        let (now, pause) = match next {
            None => (bounds.limit, Pause::Reached),
            Some(_) if events(parts) - begun >= bounds.budget => {
                (parts.iter().map(|part| part.now).max().unwrap_or(bounds.limit), Pause::Budget)
            }
            Some(next) => {
                let end = bounds.stretch(next, bounds.lookahead).end;
                let most = parts.iter_mut().zip(&mut *hosts).map(|(part, hosts)| {
                    let before = part.events();
                    part.run_before(end, hosts, u64::MAX);
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
        let before = &self.cut.before;
        let run = |number: usize, part: &mut Part, hosts: &mut H| {
            let _guard = exchange.meeting.guard();
            run_part(part, hosts, Member::new(number, &exchange, &before[number], enough), bounds)
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

    /// Events that nothing could have handled at the same time as each other, as the network is cut: of each window as long as the shortest
    /// delay between two parts, those of the part that had most. All events of a network that is not cut.
    pub fn critical_events(&self) -> u64 {
        if self.critical > 0 { self.critical } else { self.events() }
    }
}
