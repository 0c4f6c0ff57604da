//! Lock-step: guests and a simulator take turns, and each runs only up to the time at which the others could affect it.
//!
//! A guest that has the turn runs by itself up to its *horizon*: the earliest instant at which something new could reach it. At the
//! horizon, or when it has nothing to do before it, the guest hands over its turn and says when to wake it. When all guests have handed
//! over, time moves to the earliest instant at which a guest wants to wake, a guest has sent a frame, or the simulator's next event could
//! reach a guest. Everything due at that instant is done: first the simulator's events, then the guests' transmissions, in the order of
//! guests. Then all guests with a frame or a timer before their horizon run at the same time. So the order of events depends only on the
//! run's time, and the same seed gives the same bytes and timestamps, however busy the machine is and however many cores it has.
//!
//! The *lookahead* is the shortest delay of a link to a guest: docs/src/guests.md ("Time, exactly") says why a turn is as long as that.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::thread::futex;
use warpline_agent::Notice;
use warpline_core::{TimeDelta, Timestamp};

use crate::error::GuestError;
use crate::frame::{header, parse};
use crate::kernel::Kernel;
use crate::machine::{COST, Machine, MachineConfig};
use crate::page::{NEVER, REASON_IDLE, TURN_ASLEEP, TURN_DRIVER, TURN_GUEST};
use crate::place::Place;
use crate::simulator::{HostId, Simulator};
use crate::stillness::Stillness;
use crate::time::{START, host_now};

/// A frame on its way to a guest: its arrival time, a number that orders frames of one instant, and its bytes; or a datagram for the host with a
/// VLAN, and its bytes.
type Frame = (u64, u64, Option<u16>, Vec<u8>);

/// Frames on their way to a guest, by their arrival times.
#[derive(Debug, Default)]
struct Coming {
    /// Those that were handed out in order. A link's are, and most guests have one link, so a queue does for most.
    queue: VecDeque<Frame>,
    /// The others.
    heap: BinaryHeap<Reverse<Frame>>,
}

impl Coming {
    fn add(&mut self, frame: Frame) {
        if self.queue.back().is_none_or(|last| last.0 <= frame.0) {
            self.queue.push_back(frame);
        } else {
            self.heap.push(Reverse(frame));
        }
    }

    /// Whether the first frame is in the heap.
    fn is_in_heap(&self) -> bool {
        match (self.queue.front(), self.heap.peek()) {
            (Some(queued), Some(Reverse(other))) => (other.0, other.1) < (queued.0, queued.1),
            (None, other) => other.is_some(),
            (Some(_), None) => false,
        }
    }

    fn first(&self) -> Option<&Frame> {
        if self.is_in_heap() { self.heap.peek().map(|Reverse(frame)| frame) } else { self.queue.front() }
    }

    fn take_first(&mut self) -> Option<Frame> {
        if self.is_in_heap() { self.heap.pop().map(|Reverse(frame)| frame) } else { self.queue.pop_front() }
    }
}

/// How patient the driver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Seconds that a guest may take for one turn without visible activity. Time in which it waits for a processor does not count.
    pub silence: u64,
    /// Seconds of a processor that a program may use without a system call before it is pushed on.
    pub computing: u64,
    /// How often in all to push programs on, before the run fails.
    pub pushes: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { silence: 30, computing: 2, pushes: 15 }
    }
}

/// Why a run returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The end time has come.
    Reached,
    /// The observer asked to stop.
    Stopped,
    /// The simulator ended before that time.
    Over,
}

/// The reason for calling the observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Recorded data can be released. When this happens depends on the run alone.
    Batch,
    /// Some of the machine's time has passed: whether to continue.
    Glance,
}

/// Whether to continue; called now and then while waiting for a guest.
type GoOn<'a> = dyn FnMut() -> bool + 'a;

#[derive(Debug)]
struct Guest {
    machine: Machine,
    /// The first of its ports.
    first: u32,
    /// VLANs of its ports.
    vlans: Vec<u16>,
    /// Ports by VLAN.
    by_vlan: Vec<Option<HostId>>,
    /// Whether it has the turn.
    running: bool,
    /// Whether it has powered off.
    off: bool,
    /// When to wake it, on its own clock: for its timer or a frame that it has.
    wake: u64,
    /// Frames that it has not received yet.
    coming: Coming,
}

impl Guest {
    /// When it next does something, on its own clock.
    fn acts(&self) -> u64 {
        let frame = self.coming.first().map_or(NEVER, |(at, ..)| *at);
        if self.off { NEVER } else { self.wake.min(frame) }
    }
}

/// Guests in lock-step with a simulator.
#[derive(Debug)]
pub struct LockStep {
    guests: Vec<Guest>,
    /// Guest of each port.
    homes: Vec<u32>,
    /// The least time from an event, or from a host's sending, until something not yet known reaches a host.
    lookahead: TimeDelta,
    /// Number of frames passed to guests so far, and reusable memory for frames.
    frames: u64,
    spare: Vec<Vec<u8>>,
    patience: Patience,
    pushes: u32,
    /// Frames that were not IP datagrams, or of no host.
    ignored: u64,
    /// Where it takes place; none if there is no choice.
    place: Option<Place>,
}

/// How often to check the turn before sleeping, where there is room for it; a check takes some 40 ns.
const SPIN: u32 = 1000;
/// How often, in nanoseconds of the machine's time, to ask whether to continue.
const GLANCE: u64 = 50_000_000;
/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// The time in nanoseconds by which a computing program is pushed on.
const PUSH: u64 = 10_000_000;

fn to_guest(at: Timestamp) -> u64 {
    START.saturating_add(at.as_nanos())
}

impl LockStep {
    /// Boots all guests at the same time, and brings them to the run's start. `lookahead` is the least time from an event in the simulator
    /// until its effect reaches a host: the shortest delay of a link to a host. A larger value is faster; one above that delay is wrong.
    /// `go_on` is called now and then; if it returns false, the result is `None`.
    ///
    /// # Errors
    /// If one cannot be booted or set up.
    pub fn boot(
        kernel: &Kernel,
        configs: &[MachineConfig],
        lookahead: TimeDelta,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<Self>, GuestError> {
        LockStep::boot_each(configs.iter().map(|config| (kernel, config)), lookahead, go_on)
    }

    /// The same, with a kernel for each.
    ///
    /// # Errors
    /// If one cannot be booted or set up.
    pub fn boot_each<'a>(
        guests: impl Iterator<Item = (&'a Kernel, &'a MachineConfig)>,
        lookahead: TimeDelta,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<Self>, GuestError> {
        let mut lockstep = LockStep {
            guests: Vec::new(),
            homes: Vec::new(),
            lookahead,
            frames: 0,
            spare: Vec::new(),
            patience: Patience::default(),
            pushes: 0,
            ignored: 0,
            place: Place::new(),
        };
        for (number, (kernel, config)) in guests.enumerate() {
            let boot = || Machine::boot(kernel, config);
            let machine = lockstep.place.as_ref().map_or_else(boot, |place| place.seat(number, boot))?;
            let first = lockstep.homes.len() as u32;
            let vlans: Vec<u16> = config.order.ports().map(|(_, vlan)| vlan).collect();
            let mut by_vlan = vec![None; 4096];
            for (number, vlan) in vlans.iter().enumerate() {
                by_vlan[usize::from(*vlan)] = Some(HostId(first + number as u32));
                lockstep.homes.push(lockstep.guests.len() as u32);
            }
            lockstep.guests.push(Guest {
                machine,
                first,
                vlans,
                by_vlan,
                running: true,
                off: false,
                wake: 0,
                coming: Coming::default(),
            });
        }
        for index in 0..lockstep.guests.len() {
            if !lockstep.bring_to_start(index, go_on)? {
                return Ok(None);
            }
        }
        Ok(Some(lockstep))
    }

    /// How patient to be with guests.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Sees to it that the run is where it takes least time.
    fn settle(&mut self, now: u64) {
        let Some(place) = self.place.as_mut().filter(|place| place.is_due(now)) else { return };
        let kernels: Vec<u32> = self.guests.iter().map(|guest| guest.machine.pid()).collect();
        place.check(&kernels, now);
        let spin = if place.is_roomy(kernels.len()) { SPIN } else { 0 };
        self.guests.iter().for_each(|guest| guest.machine.page.spin.store(spin, Ordering::Relaxed));
    }

    fn bring_to_start(&mut self, index: usize, go_on: &mut GoOn<'_>) -> Result<bool, GuestError> {
        loop {
            if !self.wait(index, go_on)? {
                return Ok(false);
            }
            let guest = &mut self.guests[index];
            if guest.off {
                return Err(guest.machine.post_mortem());
            }
            drain(guest)?;
            if guest.machine.is_ready() && guest.wake >= START {
                return Ok(true);
            }
            if guest.wake >= START {
                return Err(guest.machine.post_mortem());
            }
            // Its ring was full.
            self.give_turn(index, self.guests[index].wake, START);
        }
    }

    /// Whether the run so far depends only on its seed: no program had to be pushed on by the machine's clock.
    pub fn is_reproducible(&self) -> bool {
        self.pushes == 0
    }

    /// How often a program was pushed on.
    pub fn pushes(&self) -> u32 {
        self.pushes
    }

    /// Frames that were not IP datagrams, or of no host.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The guests.
    pub fn machines(&mut self) -> impl Iterator<Item = &mut Machine> {
        self.guests.iter_mut().map(|guest| &mut guest.machine)
    }

    /// Runs until `until`, unless the simulator ends before. The observer is called now and then, and can stop the run; a guest may still have
    /// the turn then.
    ///
    /// # Errors
    /// If a guest dies or hangs, or if nothing can happen any more.
    pub fn run<S: Simulator>(
        &mut self,
        simulator: &mut S,
        until: Timestamp,
        mut observe: impl FnMut(&mut S, Timestamp, Occasion) -> bool,
    ) -> Result<Ended, GuestError> {
        /// Turns, and frames, between two calls of the observer, which also releases recorded data.
        const TURNS: u32 = 1000;
        const FRAMES: u64 = 4096;
        let (mut turns, mut frames) = (0, self.frames);
        let mut glanced = host_now();
        let mut last = Timestamp::ZERO;
        loop {
            let go_on = &mut || observe(simulator, last, Occasion::Glance);
            if !self.collect(go_on)? {
                return Ok(Ended::Stopped);
            }
            // A guest that nothing can reach may have run ahead to its end.
            let over = self.guests.iter().all(|guest| guest.off);
            let at = match self.next(simulator) {
                Some(at) => at,
                None if over => Timestamp::NEVER,
                None => return Err(self.deadlock(until)),
            };
            if at > until {
                simulator.run_until(until);
                self.take(simulator, until);
                let go_on = observe(simulator, until, Occasion::Batch);
                return Ok(if go_on { Ended::Reached } else { Ended::Stopped });
            }
            self.advance(simulator, at)?;
            last = at;
            if simulator.is_over() {
                self.take(simulator, at);
                observe(simulator, at, Occasion::Batch);
                return Ok(Ended::Over);
            }
            self.dispatch(simulator, at);
            turns += 1;
            let now = host_now();
            self.settle(now);
            let occasion = if turns == TURNS || self.frames - frames >= FRAMES {
                (turns, frames) = (0, self.frames);
                Occasion::Batch
            } else if now.saturating_sub(glanced) >= GLANCE {
                Occasion::Glance
            } else {
                continue;
            };
            glanced = now;
            if !observe(simulator, at, occasion) {
                return Ok(Ended::Stopped);
            }
        }
    }

    /// Lets the guests end by themselves, after the last run. What they send no longer arrives. Their reports can be read afterwards.
    /// `early` notifies them that the run ended before its time. `go_on` is called now and then; if it returns false, this returns false.
    ///
    /// # Errors
    /// If one does not end.
    pub fn finish(
        &mut self,
        until: Timestamp,
        early: bool,
        go_on: &mut GoOn<'_>,
    ) -> Result<bool, GuestError> {
        /// The time that they have for it, on their own clocks.
        const LIMIT: u64 = 60 * SECOND;
        let limit = to_guest(until) + LIMIT;
        for index in 0..self.guests.len() {
            let mut notice = early.then(|| Notice::End.frame());
            loop {
                if !self.wait(index, go_on)? {
                    return Ok(false);
                }
                let guest = &mut self.guests[index];
                if guest.off {
                    break;
                }
                drain(guest)?;
                guest.coming = Coming::default();
                let (page, mut wake) = (&guest.machine.page, guest.wake);
                let at = page.now.load(Ordering::Relaxed).max(to_guest(until));
                if notice.as_ref().is_some_and(|frame| page.receive.push(at, &[frame]).is_some()) {
                    (notice, wake) = (None, wake.min(at));
                }
                if wake >= limit {
                    let console = guest.machine.console_tail();
                    let name = guest.machine.name().to_owned();
                    return Err(GuestError::Hung { name, task: "end", seconds: LIMIT / SECOND, console });
                }
                page.lookahead.store(NEVER, Ordering::Relaxed);
                // While its ring is full, the notice has no room there: then it only takes what is due.
                let horizon = if notice.is_some() { wake } else { limit };
                self.give_turn(index, wake, horizon);
            }
        }
        Ok(true)
    }

    /// Waits for all guests that have the turn. Returns whether to continue.
    fn collect(&mut self, go_on: &mut GoOn<'_>) -> Result<bool, GuestError> {
        for index in 0..self.guests.len() {
            if !self.wait(index, go_on)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next instant to handle: when a guest does something or has sent something, or when something not yet known could reach
    /// one.
    fn next<S: Simulator>(&self, simulator: &mut S) -> Option<Timestamp> {
        // A guest's transmissions count even if it has powered off, because it runs ahead.
        let sent = self.guests.iter().filter_map(|guest| Some(guest.machine.page.transmit.first().ok()??.0));
        let own = self.guests.iter().map(Guest::acts).chain(sent).min().filter(|at| *at != NEVER);
        let own = own.map(|at| Timestamp::from_nanos(at.saturating_sub(START)));
        let event = simulator.next_event().map(|at| at + self.lookahead);
        [own, event].into_iter().flatten().min()
    }

    /// Does everything due at `at`, except the guests' own part.
    fn advance<S: Simulator>(&mut self, simulator: &mut S, at: Timestamp) -> Result<(), GuestError> {
        simulator.run_until(at);
        let limit = to_guest(at);
        for (number, guest) in self.guests.iter_mut().enumerate() {
            let ring = &guest.machine.page.transmit;
            while let Some((time, frame)) = ring.first().map_err(|_| corrupt(&guest.machine))? {
                if time > limit {
                    break;
                }
                let from = parse(frame)
                    .and_then(|(vlan, datagram)| Some((guest.by_vlan[usize::from(vlan)]?, datagram)));
                match from {
                    Some((host, datagram)) => simulator.handle_datagram(host, datagram),
                    None => match Notice::parse(frame) {
                        Some(notice) => simulator.handle_notice(number, notice),
                        None => self.ignored += 1,
                    },
                }
                ring.release(frame.len());
            }
            ring.rewind();
        }
        // An event that takes no time can cause another at the same instant.
        simulator.run_until(at);
        let arrives = limit.saturating_add(self.lookahead.as_nanos());
        simulator.poll_notice(&mut |number, notice| {
            if let Some(guest) = self.guests.get_mut(number).filter(|guest| !guest.off) {
                self.frames += 1;
                guest.coming.add((arrives, self.frames, None, notice.frame()));
            }
        });
        Ok(())
    }

    /// Takes a datagram for a host that arrives at `at`, and leaves unused memory in its place.
    fn receive(&mut self, host: HostId, at: u64, datagram: &mut Vec<u8>) {
        let home = self.homes.get(host.0 as usize).and_then(|home| self.guests.get_mut(*home as usize));
        let Some(guest) = home.filter(|guest| !guest.off) else { return };
        // A guest runs past its horizon by at most one entry into user mode, unless it was pushed on.
        let past = guest.machine.page.now.load(Ordering::Relaxed).saturating_sub(at);
        debug_assert!(past < COST || self.pushes > 0, "a frame comes {past} ns in a guest's past");
        let bytes = std::mem::replace(datagram, self.spare.pop().unwrap_or_default());
        self.frames += 1;
        let vlan = guest.vlans[(host.0 - guest.first) as usize];
        guest.coming.add((at, self.frames, Some(vlan), bytes));
    }

    /// Takes frames that have arrived and frames that are certain to arrive. Call it whenever the simulator has moved: later it would no
    /// longer hand out the latter in advance.
    fn take<S: Simulator>(&mut self, simulator: &mut S, at: Timestamp) {
        let now = to_guest(at);
        let mut bytes = self.spare.pop().unwrap_or_default();
        simulator.poll_transmit(&mut |host, datagram| {
            bytes.clear();
            bytes.extend_from_slice(datagram);
            self.receive(host, now, &mut bytes);
        });
        self.spare.push(bytes);
        simulator.poll_ahead(&mut |host, at, datagram| self.receive(host, to_guest(at), datagram));
    }

    /// Takes frames, and gives the turn to the guests that have something to do.
    fn dispatch<S: Simulator>(&mut self, simulator: &mut S, at: Timestamp) {
        let now = to_guest(at);
        self.take(simulator, at);
        if self.guests.iter().all(|guest| guest.acts() > now) {
            return;
        }
        // Nothing new reaches a guest before the next event or the next transmission of a guest has had its effect.
        let sent = self.guests.iter().filter_map(|guest| Some(guest.machine.page.transmit.first().ok()??.0));
        let event = simulator.next_event().map_or(NEVER, to_guest).min(sent.min().unwrap_or(NEVER));
        let mut earliest = [NEVER; 2];
        for guest in &self.guests {
            let at = guest.acts();
            if at < earliest[0] {
                earliest = [at, earliest[0]];
            } else if at < earliest[1] {
                earliest[1] = at;
            }
        }
        for index in 0..self.guests.len() {
            let acts = self.guests[index].acts();
            let others = if acts == earliest[0] { earliest[1] } else { earliest[0] };
            let horizon = event.min(others).saturating_add(self.lookahead.as_nanos());
            // Guests that may already continue do so, beside those that are due.
            if acts <= now || acts < horizon {
                let page = &self.guests[index].machine.page;
                page.lookahead.store(self.lookahead.as_nanos(), Ordering::Relaxed);
                self.give_turn(index, now, horizon);
            }
        }
    }

    /// Gives a guest the turn, and the frames that arrive before the horizon.
    fn give_turn(&mut self, index: usize, now: u64, mut horizon: u64) {
        let guest = &mut self.guests[index];
        let page = &guest.machine.page;
        while let Some((time, _, vlan, bytes)) = guest.coming.first() {
            if *time >= horizon && *time > now {
                break;
            }
            let pushed = match vlan {
                Some(vlan) => page.receive.push(*time, &[&header(*vlan, bytes), bytes]),
                None => page.receive.push(*time, &[bytes]),
            };
            if pushed.is_none() {
                // It gets later frames when it has reached their time.
                horizon = horizon.min(*time);
                break;
            }
            if let Some((.., bytes)) = guest.coming.take_first() {
                self.spare.push(bytes);
            }
        }
        if page.now.load(Ordering::Relaxed) < now {
            page.now.store(now, Ordering::Relaxed);
        }
        page.horizon.store(horizon, Ordering::Relaxed);
        if page.turn.swap(TURN_GUEST, Ordering::AcqRel) & TURN_ASLEEP != 0 {
            let _ = futex::wake(&page.turn, futex::Flags::empty(), 1);
        }
        guest.running = true;
    }

    /// Waits until a guest hands over its turn, if it has it. Returns whether to continue.
    fn wait(&mut self, index: usize, go_on: &mut GoOn<'_>) -> Result<bool, GuestError> {
        let guest = &mut self.guests[index];
        if !guest.running {
            return Ok(true);
        }
        let mut looks = guest.machine.page.spin.load(Ordering::Relaxed);
        while !has_handed_over(&guest.machine) && looks > 0 {
            looks -= 1;
            std::hint::spin_loop();
        }
        if !has_handed_over(&guest.machine) && !self.wait_long(index, go_on)? {
            return Ok(false);
        }
        let guest = &mut self.guests[index];
        guest.running = false;
        let page = &guest.machine.page;
        guest.wake = if guest.off {
            NEVER
        } else if page.reason.load(Ordering::Relaxed) == REASON_IDLE {
            page.timer.load(Ordering::Relaxed)
        } else {
            page.now.load(Ordering::Relaxed)
        };
        Ok(true)
    }

    /// The same for a longer wait: sleeps, and checks now and then whether the guest still lives and moves, and whether to continue.
    #[cold]
    fn wait_long(&mut self, index: usize, go_on: &mut GoOn<'_>) -> Result<bool, GuestError> {
        // Only a check shows that it has ended. The longer it takes, the less often it is checked.
        let mut look = 2_000_000;
        let mut still = Stillness::new(host_now());
        let kernel = self.guests[index].machine.pid() as i32;
        let mut pushed = u64::MAX;
        loop {
            let guest = &mut self.guests[index];
            let page = &guest.machine.page;
            // Sleeps, unless the guest has handed over its turn in the meantime.
            let asleep = TURN_GUEST | TURN_ASLEEP;
            let _ = page.turn.compare_exchange(TURN_GUEST, asleep, Ordering::AcqRel, Ordering::Relaxed);
            let span = futex::Timespec { tv_sec: 0, tv_nsec: look };
            let _ = futex::wait(&page.turn, futex::Flags::empty(), asleep, Some(&span));
            look = (look * 2).min(100_000_000);
            if has_handed_over(&guest.machine) {
                return Ok(true);
            }
            if !go_on() {
                return Ok(false);
            }
            if !guest.machine.is_alive() {
                guest.off = true;
                let ended_well = guest.machine.shared(warpline_agent::REPORT).exists();
                return if ended_well { Ok(true) } else { Err(guest.machine.post_mortem()) };
            }
            let page = &guest.machine.page;
            let (entries, user) = (page.entries.load(Ordering::Relaxed), page.user.load(Ordering::Relaxed));
            let computed = still.look(host_now(), entries, user, kernel);
            // A push interrupts a program, which is then entered again. If it is not, the kernel itself hangs.
            if user > 0 && computed >= self.patience.computing * SECOND && pushed != entries {
                pushed = entries;
                self.push(index, user)?;
            } else if still.silence >= self.patience.silence * SECOND {
                let machine = &guest.machine;
                let (name, console) = (machine.name().to_owned(), machine.console_tail());
                return Err(GuestError::Hung {
                    name,
                    task: "take its turn",
                    seconds: self.patience.silence,
                    console,
                });
            }
        }
    }

    /// Interrupts a program that computes, and lets time pass for it.
    fn push(&mut self, index: usize, user: i32) -> Result<(), GuestError> {
        self.pushes += 1;
        let machine = &self.guests[index].machine;
        let page = &machine.page;
        if self.pushes > self.patience.pushes {
            let at = page.now.load(Ordering::Relaxed).saturating_sub(START) as f64 / 1e9;
            let seconds = u64::from(self.patience.pushes) * self.patience.computing;
            let (name, console) = (machine.name().to_owned(), machine.console_tail());
            return Err(GuestError::Spins { name, seconds, at, console });
        }
        page.push.fetch_add(PUSH, Ordering::Relaxed);
        // To the kernel, this is its timer's interrupt.
        let _ = kill(Pid::from_raw(user), Signal::SIGALRM);
        Ok(())
    }

    fn deadlock(&self, until: Timestamp) -> GuestError {
        let all: Vec<String> = self.guests.iter().map(|guest| guest.machine.console_tail()).collect();
        let last = self.guests.iter().map(|guest| guest.machine.page.now.load(Ordering::Relaxed)).max();
        let at = last.unwrap_or(0).saturating_sub(START).min(until.as_nanos()) as f64 / 1e9;
        GuestError::Deadlock { at, console: all.join("\n").trim_matches('\n').to_owned() }
    }
}

fn has_handed_over(machine: &Machine) -> bool {
    machine.page.turn.load(Ordering::Acquire) & !TURN_ASLEEP == TURN_DRIVER
}

fn corrupt(machine: &Machine) -> GuestError {
    GuestError::Died {
        name: machine.name().to_owned(),
        how: "has written invalid data into the memory that it shares with us".to_owned(),
        console: machine.console_tail(),
    }
}

/// Discards what a guest has sent.
fn drain(guest: &mut Guest) -> Result<(), GuestError> {
    let ring = &guest.machine.page.transmit;
    while let Some((_, frame)) = ring.first().map_err(|_| corrupt(&guest.machine))? {
        ring.release(frame.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::guest_of_tests::guest;

    /// Nothing happens in it.
    struct Nothing;

    impl Simulator for Nothing {
        fn next_event(&mut self) -> Option<Timestamp> {
            None
        }
        fn run_until(&mut self, _: Timestamp) {}
        fn handle_datagram(&mut self, _: HostId, _: &[u8]) {}
        fn poll_ahead(&mut self, _: &mut dyn FnMut(HostId, Timestamp, &mut Vec<u8>)) {}
        fn poll_transmit(&mut self, _: &mut dyn FnMut(HostId, &[u8])) {}
    }

    #[test]
    fn a_guest_whose_ring_is_full_hears_that_the_run_ended_early() {
        let kernel = match Kernel::find() {
            Ok(kernel) => kernel,
            Err(error) => return warpline_skip::skip("program", error),
        };
        // It has one host, and its run would last much longer.
        let config = guest("g", 0, 1, 1000.0);
        let lookahead = TimeDelta::from_millis(10);
        let mut lockstep = LockStep::boot(&kernel, &[config], lookahead, &mut || true).unwrap().unwrap();
        let until = Timestamp::from_secs(1);
        assert_eq!(lockstep.run(&mut Nothing, until, |_, _, _| true).unwrap(), Ended::Reached);
        // Frames that have arrived and that it has not taken yet, of no protocol that it knows. The last ones leave no room for the shortest notice.
        let guest = &mut lockstep.guests[0];
        let page = &guest.machine.page;
        guest.wake = page.now.load(Ordering::Relaxed);
        let frame = [0xff_u8; 1400];
        for length in [frame.len(), 16] {
            while page.receive.push(guest.wake, &[&frame[..length]]).is_some() {}
        }
        assert!(lockstep.finish(until, true, &mut || true).unwrap());
        assert!(lockstep.machines().next().unwrap().has_reported());
    }

    proptest! {
        #[test]
        fn frames_come_in_the_order_of_their_times_and_then_of_their_numbers(
            steps in prop::collection::vec(prop::option::of(0u64..8), 0..200),
        ) {
            let mut coming = Coming::default();
            let mut expected: Vec<Frame> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                if let Some(at) = step {
                    coming.add((at, number as u64, None, vec![number as u8]));
                    expected.push((at, number as u64, None, vec![number as u8]));
                    expected.sort();
                } else {
                    let first = (!expected.is_empty()).then(|| expected.remove(0));
                    prop_assert_eq!(coming.first(), first.as_ref());
                    prop_assert_eq!(coming.take_first(), first);
                }
            }
        }
    }
}
