//! The real clock: the machine's `CLOCK_MONOTONIC`, counted from the run's start, and precise waiting. It may be dilated: then
//! the run's time is slower than the machine's by a factor, which can change during the run ([`Pace`]).
//!
//! A sleep wakes late: some 20 to 60 µs on a virtual machine with the shortest timer slack, and milliseconds when the host is busy.
//! So a wait sleeps until a little before the deadline ([`Waiting::spin`]) and then polls the clock without sleeping. An
//! arriving packet ends both.
//!
//! Arrival timestamps of packets are of `CLOCK_REALTIME` (the kernel's choice); [`RealClock::stamp`] converts them to this clock. The
//! difference between the two is measured again every tenth of a second, so that a clock that is being slewed does no harm and
//! one that is set does little.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::time::{ClockId, clock_gettime};
use warpline_core::dilation::{Pace, Tdf};
use warpline_core::{TimeDelta, Timestamp};

/// How a run waits for its next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The longest time before a deadline at which sleeping ends and spinning begins; within it, as long as the machine is seen to oversleep.
    /// Longer costs CPU, shorter costs punctuality. Zero never spins.
    pub spin: TimeDelta,
    /// How long to poll for another packet, without sleeping, after one came in. Zero sleeps at once.
    pub linger: TimeDelta,
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting { spin: TimeDelta::from_micros(200), linger: TimeDelta::ZERO }
    }
}

/// How late sleeps currently end on this machine, and so how long before a deadline they should end: the mean plus four times the
/// mean deviation, smoothed like TCP's round-trip time (RFC 6298).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oversleep {
    mean: f64,
    deviation: f64,
    seen: bool,
}

impl Oversleep {
    pub(crate) const UNKNOWN: Oversleep = Oversleep { mean: 0.0, deviation: 0.0, seen: false };

    /// Records that a sleep ended `late` after it should have.
    pub(crate) fn note(&mut self, late: TimeDelta) {
        let late = late.as_nanos() as f64;
        if self.seen {
            self.deviation += ((late - self.mean).abs() - self.deviation) / 4.0;
            self.mean += (late - self.mean) / 8.0;
        } else {
            *self = Oversleep { mean: late, deviation: late / 2.0, seen: true };
        }
    }

    /// How long before a deadline a sleep should end, at most `most`; exactly `most` as long as nothing is known.
    pub(crate) fn margin(&self, most: TimeDelta) -> TimeDelta {
        match self.seen {
            true => TimeDelta::from_nanos((self.mean + 4.0 * self.deviation) as u64).min(most),
            false => most,
        }
    }
}

/// The time from the end of a wait that slept until the due packet has left, by the kernel's departure timestamps: the
/// last few samples. Caches are cold after a sleep, so it is some ten times the usual. Waits end earlier by the smallest of them.
///
/// A packet must not leave before it is due, and handing over may be quicker than it was the last few times. So the packet is held until it is
/// due less the shortest time from the system call to the departure that was ever seen ([`call`](Self::call)). The time for which it was held does not count
/// as handing over. Otherwise waits would end ever earlier, and never later again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover {
    nanos: [u64; 16],
    count: usize,
    call: u64,
}

impl Default for Handover {
    fn default() -> Self {
        Handover { nanos: [0; 16], count: 0, call: u64::MAX }
    }
}

impl Handover {
    /// Records when a wait ended, from when to when the packet was held, after which the system call began, and when it left, in nanoseconds of the
    /// machine's clock.
    pub(crate) fn note(&mut self, woke: u64, (ready, called): (u64, u64), left: u64) {
        let held = called.saturating_sub(ready);
        self.nanos[self.count % self.nanos.len()] = left.saturating_sub(woke).saturating_sub(held);
        self.count += 1;
        self.call = self.call.min(left.saturating_sub(called));
    }

    /// The shortest time from the system call to the departure so far, in nanoseconds; the largest number before the first sample.
    pub(crate) fn call(&self) -> u64 {
        self.call
    }

    /// How early to wake; zero as long as little is known.
    pub(crate) fn lead(&self) -> TimeDelta {
        match self.nanos.iter().min() {
            Some(least) if self.count >= self.nanos.len() => TimeDelta::from_nanos(*least),
            _ => TimeDelta::ZERO,
        }
    }
}

/// What to do if the emulator cannot keep up with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LagPolicy {
    /// Continue, count it, and report it in the audit.
    #[default]
    BestEffort,
    /// Stop the run as soon as anything is later than this.
    Hard(TimeDelta),
}

/// How often the difference between the two clocks is measured.
const REFRESH: u64 = 100_000_000;
/// A timestamp further back than this is ignored: the clock was set, or the timestamp is missing.
const OLDEST: u64 = 1_000_000_000;

/// The machine's clock, from the run's start on.
#[derive(Clone, Debug)]
pub struct RealClock {
    /// `CLOCK_MONOTONIC` at the run's start.
    start: u64,
    /// The relation of the run's time to the machine's.
    pace: Pace,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`.
    offset: i64,
    /// `CLOCK_MONOTONIC` when that was measured.
    measured: u64,
}

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    // Both clocks are past zero and have nanoseconds below a second.
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// The machine's `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn host_now() -> u64 {
    read(ClockId::Monotonic)
}

impl RealClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        RealClock::begin(host_now(), Tdf::REAL)
    }

    /// A dilated clock that starts when `CLOCK_MONOTONIC` shows `host`, in nanoseconds. It stands at zero before that.
    pub fn begin(host: u64, tdf: Tdf) -> Self {
        let mut clock = RealClock { start: host, pace: Pace::new(host, tdf), offset: 0, measured: 0 };
        clock.measure();
        clock
    }

    /// The current time of the run.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.at(host_now())
    }

    /// The run's time at a reading of `CLOCK_MONOTONIC`, in nanoseconds.
    #[inline]
    pub fn at(&self, host: u64) -> Timestamp {
        Timestamp::from_nanos(self.pace.at(host))
    }

    /// The reading of `CLOCK_MONOTONIC`, in nanoseconds, at the run's time `at`.
    #[inline]
    pub fn monotonic(&self, at: Timestamp) -> u64 {
        self.pace.host_of(at.as_nanos())
    }

    /// The reading of `CLOCK_MONOTONIC` at the run's start.
    pub fn started(&self) -> u64 {
        self.start
    }

    /// The relation of the run's time to the machine's.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The current factor.
    pub fn tdf(&self) -> Tdf {
        self.pace.line(host_now()).tdf
    }

    /// Announces that the factor changes when `CLOCK_MONOTONIC` shows `host`.
    pub fn change(&mut self, host: u64, tdf: Tdf) {
        self.pace.change(host, tdf);
    }

    /// When a packet arrived that the kernel gave the timestamp `realtime` (nanoseconds since 1970; 0 for none); `now` is the
    /// time shortly before the packet was read. A timestamp in the future or from long ago counts as `now`.
    #[inline]
    pub fn stamp(&self, realtime: u64, now: Timestamp) -> Timestamp {
        let host = (realtime as i64).wrapping_sub(self.offset).max(0) as u64;
        if host.saturating_add(OLDEST) < self.monotonic(now) {
            return now;
        }
        let stamp = self.at(host);
        // `now` was read before the packet: the thread may have been preempted in between, for milliseconds on a busy machine, and
        // the packet may have arrived in the meantime. Then it is not from the future.
        if stamp > now && stamp > self.now() {
            return now;
        }
        stamp
    }

    /// Measures the difference between the clocks again if it is time; `now` is the current time.
    #[inline]
    pub fn refresh(&mut self, now: Timestamp) {
        if self.monotonic(now) >= self.measured + REFRESH {
            self.measure();
        }
    }

    /// Reads one clock between two readings of the other, and uses the closest of a few tries: an interruption in between
    /// moves them far apart.
    #[cold]
    fn measure(&mut self) {
        let mut best = u64::MAX;
        for _ in 0..5 {
            let before = read(ClockId::Monotonic);
            let realtime = read(ClockId::Realtime);
            let after = read(ClockId::Monotonic);
            if after - before < best {
                best = after - before;
                self.offset = (realtime as i64) - (before + best / 2) as i64;
            }
        }
        self.measured = read(ClockId::Monotonic);
    }
}

/// Asks the kernel to wake this thread as punctually as it can: timer slack of 1 ns instead of 50 µs
/// (`PR_SET_TIMERSLACK`, prctl(2)).
pub fn be_punctual() {
    // A kernel without it wakes later, which is measured.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// A thread's priority over ordinary threads, so that a busy machine does not make it late.
///
/// While it mostly waits it runs as soon as it wakes (`SCHED_FIFO`, sched(7)). A thread that keeps a core busy must not do that:
/// the kernel stops it for 50 ms in each second, so that others do not starve (`sched_rt_runtime_us`, or the fair
/// server of Linux 6.12). Nor must one that wakes for every packet of a fast sender: it would interrupt the sender each time. Such threads
/// run as ordinary threads with three times the usual weight (nice -5): with the highest weight, a receiver on the same core starves, and
/// its socket loses what the emulator has carried. Processes that the thread starts run as usual. Root gets all of this, ordinary
/// users mostly do not. The priority ends when this value is dropped, on the same thread.
///
/// Most of what keeps the thread busy may be spinning. With fewer cores than busy threads, spinning would cost it its priority, and then its core for
/// milliseconds. So it sleeps for a while instead: it wakes tens of microseconds late, and keeps its priority. If that does not help, it sleeps before each turn, so
/// that it wakes less often and carries more packets each time. If the host of a virtual machine stops it, sleeping would not help.
#[derive(Debug)]
pub struct Precedence {
    /// The nice value to restore.
    nice: Option<i32>,
    first: bool,
    refused: bool,
    /// When it was last judged how busy the thread is, and the thread's processor time and its intakes by then.
    looked: Option<(Timestamp, u64, u64)>,
    /// When it does not spin.
    calm: Spell,
    /// When it sleeps before each turn.
    naps: Spell,
    /// Whether there are more busy threads than cores.
    crowded: bool,
    /// How often the kernel had given its core to another thread when that was last checked.
    preempted: i64,
}

/// A spinning thread that does not see the clock for so long has been stopped, for another one or by the machine's host.
const STOPPED: TimeDelta = TimeDelta::from_micros(500);
/// The span over which it is judged how busy the thread is. Guests may send at the same instant, and then nothing for a while: such a burst must not cost
/// the thread its priority just when it has most to do. Two spans are less than the 0.95 s after which the kernel stops a thread that leaves nothing of its core.
const SPAN: TimeDelta = TimeDelta::from_millis(400);

/// The lengths of the first and of the longest time for which a thread that was stopped, or that is too busy, leaves more of its core to others. They double.
const SPELL: (TimeDelta, TimeDelta) = (TimeDelta::from_secs(1), TimeDelta::from_secs(60));

/// Times in which the thread leaves more of its core to others, each twice as long as the one before.
#[derive(Debug)]
struct Spell {
    until: Timestamp,
    next: TimeDelta,
}

impl Spell {
    const NONE: Spell = Spell { until: Timestamp::ZERO, next: SPELL.0 };

    fn is_on(&self, now: Timestamp) -> bool {
        now < self.until
    }

    fn begin(&mut self, now: Timestamp) {
        self.until = now + self.next;
        self.next = (self.next * 2).min(SPELL.1);
    }
}

/// The raised priority of an ordinary thread, as a nice value.
const RAISED: i32 = -5;
/// Shares of a core above which a thread is busy, and below which it is not.
const BUSY: (f64, f64) = (0.7, 0.5);
/// The same for turns per second in which a packet came in.
const OFTEN: (f64, f64) = (20_000.0, 14_000.0);
/// The share of a core above which the kernel would soon stop the thread.
const ALL: f64 = 0.9;

impl Precedence {
    /// Requests priority for the calling thread. `others` is how many more threads want a core of their own, as far as is known.
    pub fn ask(others: usize) -> Self {
        // `None` stands for the calling thread.
        let nice = getpriority_process(None).ok().filter(|_| setpriority_process(None, RAISED).is_ok());
        let cores = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        let mut precedence = Precedence {
            nice,
            first: false,
            // On a single core no other thread would run while it spins.
            refused: cores < 2,
            looked: None,
            calm: Spell::NONE,
            naps: Spell::NONE,
            crowded: others >= cores,
            preempted: preemptions(),
        };
        precedence.set(true);
        precedence
    }

    /// Adapts to the share of a core that the thread uses, and to how often per second a packet comes in, several times a second.
    /// `intakes` is the total number of turns with a packet, and `now` is by any clock that runs at the machine's speed.
    pub fn look(&mut self, now: Timestamp, intakes: u64) {
        self.preempted = preemptions();
        if self.looked.is_some_and(|(before, ..)| now >= before && now.saturating_since(before) < SPAN) {
            return;
        }
        let work = read(ClockId::ThreadCPUTime);
        // At first, and after the clock has started again, there is nothing to compare with.
        let before = self.looked.replace((now, work, intakes)).filter(|(before, ..)| now > *before);
        if let Some((before, worked, taken)) = before {
            let span = now.saturating_since(before).as_secs_f64();
            let work = work.saturating_sub(worked) as f64 / 1e9;
            self.adapt(now, work / span, intakes.saturating_sub(taken) as f64 / span);
        }
    }

    /// Whether the thread should sleep until its deadlines, and not spin before them.
    pub fn is_calm(&self, now: Timestamp) -> bool {
        self.calm.is_on(now) || self.naps(now)
    }

    /// Whether the thread should sleep for a while before each turn, whatever comes, so that a turn has more to do. A sleep may take tens of microseconds
    /// of processor time, for the timer and the switch to another thread, which is many times what a packet takes.
    pub fn naps(&self, now: Timestamp) -> bool {
        self.naps.is_on(now)
    }

    /// Notes that the thread saw the clock at `before` and next at `now` although it was spinning.
    pub fn saw(&mut self, before: Timestamp, now: Timestamp) {
        if now.saturating_since(before) > STOPPED {
            let before = std::mem::replace(&mut self.preempted, preemptions());
            self.stopped(now, self.preempted > before);
        }
    }

    fn stopped(&mut self, now: Timestamp, for_another: bool) {
        // Without priority it would be stopped after a sleep, too.
        if for_another && !self.refused {
            self.calm.begin(now);
            self.set(true);
        }
    }

    fn adapt(&mut self, now: Timestamp, share: f64, intakes: f64) {
        let busy = share > BUSY.0;
        if self.crowded && busy && !self.is_calm(now) {
            self.calm.begin(now);
        } else if self.crowded && busy && !self.naps(now) {
            self.naps.begin(now);
            if self.first && share > ALL {
                self.set(false);
            }
        } else if self.first && (busy || intakes > OFTEN.0) {
            self.set(false);
            // With a core of its own it may spin again.
            if !self.crowded {
                self.calm.until = now;
            }
        } else if !self.first && share < BUSY.1 && intakes < OFTEN.1 {
            self.set(true);
        }
    }

    fn set(&mut self, first: bool) {
        if self.refused {
            return;
        }
        let policy = if first { nix::libc::SCHED_FIFO } else { nix::libc::SCHED_OTHER };
        let parameters = nix::libc::sched_param { sched_priority: i32::from(first) };
        // SAFETY: the pointer is to a sched_param that lives through the call; 0 stands for the calling thread.
        let result = unsafe {
            nix::libc::sched_setscheduler(0, policy | nix::libc::SCHED_RESET_ON_FORK, &raw const parameters)
        };
        self.refused = result != 0;
        self.first = first && result == 0;
    }
}

/// How often the kernel has given the calling thread's core to another one.
fn preemptions() -> i64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD)
        .map_or(0, |usage| usage.involuntary_context_switches())
}

impl Drop for Precedence {
    fn drop(&mut self) {
        if self.first {
            self.set(false);
        }
        if let Some(nice) = self.nice {
            let _ = setpriority_process(None, nice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_given_up_when_it_is_dropped() {
        // Fields 18 and 41 of stat, proc(5): nice value and policy; counted from after the name, which is field 2.
        let state = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<i64> = stat
                .rsplit_once(')')
                .unwrap()
                .1
                .split_whitespace()
                .skip(1)
                .map(|f| f.parse().unwrap_or(0))
                .collect();
            (fields[18 - 4], fields[41 - 4])
        };
        let before = state();
        let precedence = Precedence::ask(0);
        if precedence.nice.is_none() && !precedence.first {
            return warpline_skip::skip("precedence", "this user may not have it");
        }
        assert_ne!(state(), before);
        drop(precedence);
        assert_eq!(state(), before);
    }

    #[test]
    fn waits_end_later_again_when_handing_over_has_become_quicker() {
        let mut handover = Handover::default();
        let mut pass = |takes: u64| {
            // The wait ends early, the packet is held until 3 µs before it is due, or is late.
            let (due, lead) = (1_000_000, handover.lead().as_nanos());
            let (woke, ready) = (due - lead, due - lead + takes - 3_000);
            let called = ready.max(due - 3_000);
            handover.note(woke, (ready, called), called + 3_000);
            handover.lead()
        };
        let last = |lead: &mut dyn FnMut() -> TimeDelta| (0..16).map(|_| lead()).last().unwrap();
        assert_eq!(last(&mut || pass(40_000)), TimeDelta::from_micros(40));
        assert_eq!(last(&mut || pass(10_000)), TimeDelta::from_micros(10), "although packets were held");
    }

    #[test]
    fn a_spinning_thread_that_is_stopped_sleeps_for_a_while_instead() {
        let mut precedence = Precedence::ask(0);
        if !precedence.first {
            return warpline_skip::skip("precedence", "this user may not have it");
        }
        let at = Timestamp::from_secs;
        precedence.stopped(at(1), false);
        assert!(!precedence.is_calm(at(1)), "it was the machine's host");
        precedence.stopped(at(1), true);
        assert!(precedence.is_calm(at(1)) && !precedence.is_calm(at(2)));
        // The next time for longer.
        precedence.stopped(at(3), true);
        assert!(precedence.is_calm(at(4)) && !precedence.is_calm(at(5)));
        (0..100).for_each(|_| precedence.stopped(at(6), true));
        assert!(precedence.is_calm(at(65)) && !precedence.is_calm(at(66)));
    }

    #[test]
    fn a_gap_after_which_the_kernel_has_counted_nothing_is_the_hosts() {
        let mut precedence = Precedence::ask(0);
        if !precedence.first {
            return warpline_skip::skip("precedence", "this user may not have it");
        }
        let (before, short, long) =
            (Timestamp::from_secs(1), TimeDelta::from_micros(100), TimeDelta::from_millis(4));
        // The test's own thread may be preempted at any time.
        precedence.preempted = i64::MAX;
        precedence.saw(before, before + long);
        assert!(!precedence.is_calm(before + long));
        precedence.preempted = -1;
        precedence.saw(before, before + short);
        assert!(!precedence.is_calm(before + short), "it was not stopped");
        precedence.saw(before, before + long);
        assert!(precedence.is_calm(before + long));
    }

    /// Of two threads on one core, each is stopped for the other.
    #[test]
    fn preemptions_are_counted_for_each_thread() {
        let waiting = preemptions();
        let one = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let core = (0..nix::sched::CpuSet::count()).find(|&core| one.is_set(core).unwrap()).unwrap();
        let busy = move || {
            let mut set = nix::sched::CpuSet::new();
            set.set(core).unwrap();
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
            let (before, until) = (preemptions(), host_now() + 20_000_000_000);
            while preemptions() < before + 3 && host_now() < until {
                std::hint::spin_loop();
            }
            preemptions() - before
        };
        let threads = [std::thread::spawn(busy), std::thread::spawn(busy)];
        // The one that ends first leaves the core to the other one, which has seen about as many.
        let counted: Vec<i64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(counted.iter().any(|&count| count >= 3), "{counted:?}");
        assert!(preemptions() - waiting < counted.iter().sum(), "this thread has waited");
    }

    #[test]
    fn a_burst_does_not_cost_the_priority() {
        let mut precedence = Precedence::ask(usize::MAX);
        precedence.look(Timestamp::ZERO, 0);
        let worked = read(ClockId::ThreadCPUTime);
        while read(ClockId::ThreadCPUTime) < worked + 350_000_000 {
            std::hint::spin_loop();
        }
        let (before, after) = (Timestamp::from_millis(399), Timestamp::from_millis(400));
        precedence.look(before, 0);
        assert!(!precedence.is_calm(before));
        precedence.look(after, 0);
        assert!(precedence.is_calm(after));
    }

    #[test]
    fn where_cores_are_few_a_busy_thread_stops_spinning_then_naps_and_then_gives_up_its_priority() {
        let mut precedence = Precedence::ask(usize::MAX);
        if !precedence.first {
            return warpline_skip::skip("precedence", "this user may not have it");
        }
        let (now, later) = (Timestamp::from_millis(20), Timestamp::from_millis(40));
        precedence.adapt(now, 0.9, 100.0);
        assert!(precedence.first && precedence.is_calm(later));
        // What keeps it busy now is work and many short sleeps.
        precedence.adapt(later, 0.8, 100.0);
        assert!(precedence.first && precedence.naps(later) && precedence.is_calm(later));
        // Now it is work alone. Sleeping still leaves more of the cores to the others.
        precedence.adapt(later, 0.8, 100.0);
        assert!(!precedence.first && precedence.naps(later));
        // The kernel would stop one that leaves nothing of its core before it has napped for long.
        let mut precedence = Precedence::ask(usize::MAX);
        precedence.adapt(now, 0.95, 100.0);
        precedence.adapt(later, 0.95, 100.0);
        assert!(!precedence.first && precedence.naps(later));
        // Where there is a core for everyone, it may spin.
        let mut precedence = Precedence::ask(0);
        precedence.adapt(now, 0.9, 100.0);
        assert!(!precedence.first && !precedence.is_calm(later) && !precedence.naps(later));
    }

    #[test]
    fn sleeps_end_as_early_as_the_machine_oversleeps() {
        let micros = TimeDelta::from_micros;
        let mut oversleep = Oversleep::UNKNOWN;
        assert_eq!(oversleep.margin(micros(200)), micros(200));
        for _ in 0..100 {
            oversleep.note(micros(50));
        }
        assert!(oversleep.margin(micros(200)) >= micros(50) && oversleep.margin(micros(200)) < micros(52));
        // One that is much later than others makes it careful for a while.
        oversleep.note(micros(90));
        assert!(oversleep.margin(micros(200)) > micros(80));
        oversleep.note(micros(5000));
        assert_eq!(oversleep.margin(micros(200)), micros(200));
        assert_eq!(oversleep.margin(TimeDelta::ZERO), TimeDelta::ZERO);
    }

    #[test]
    fn waits_end_earlier_by_what_handing_over_takes_at_least() {
        let micros = TimeDelta::from_micros;
        let mut handover = Handover::default();
        for took in 0..15 {
            handover.note(1_000, (5_000, 5_000), 31_000 + took % 4 * 1_000);
            assert_eq!(handover.lead(), TimeDelta::ZERO);
        }
        handover.note(1_000, (21_000, 21_000), 29_000);
        assert_eq!((handover.lead(), handover.call()), (micros(28), 8_000));
        // Old samples are forgotten after sixteen more, but not the quickest call.
        (0..16).for_each(|_| handover.note(1_000, (2_000, 2_000), 41_000));
        assert_eq!((handover.lead(), handover.call()), (micros(40), 8_000));
    }

    #[test]
    fn stamps_of_the_other_clock_lie_between_readings_of_this_one() {
        let clock = RealClock::start();
        for _ in 0..100 {
            let before = clock.now();
            let realtime = read(ClockId::Realtime);
            let after = clock.now();
            let stamp = clock.stamp(realtime, after);
            // The distance is known to about a microsecond.
            let slack = TimeDelta::from_micros(50);
            assert!(stamp + slack >= before && stamp <= after, "{before} {stamp} {after}");
        }
    }

    #[test]
    fn what_came_after_the_last_look_at_the_clock_is_not_from_the_future() {
        let clock = RealClock::start();
        let looked = clock.now();
        while clock.now() < looked + TimeDelta::from_millis(2) {}
        let stamp = clock.stamp(read(ClockId::Realtime) - 500_000, looked);
        assert!(stamp > looked + TimeDelta::from_millis(1) && stamp <= clock.now(), "{looked} {stamp}");
    }

    #[test]
    fn a_dilated_clock_goes_slower_by_the_factor_and_a_change_bends_it() {
        let start = host_now() - 1_000_000_000;
        let mut clock = RealClock::begin(start, Tdf::new(10.0).unwrap());
        assert!(clock.now() >= Timestamp::from_millis(100) && clock.now() < Timestamp::from_secs(50));
        assert_eq!(clock.at(start + 2_000_000_000), Timestamp::from_millis(200));
        assert_eq!(clock.monotonic(Timestamp::from_millis(200)), start + 2_000_000_000);
        // Stamps are of the machine's clock and become the run's.
        let before = clock.now();
        let stamp = clock.stamp(read(ClockId::Realtime), clock.now());
        assert!(stamp + TimeDelta::from_micros(5) >= before && stamp <= clock.now());
        clock.change(start + 3_600_000_000_000, Tdf::new(100.0).unwrap());
        assert_eq!(clock.tdf(), Tdf::new(10.0).unwrap());
        assert_eq!(clock.at(start + 3_700_000_000_000), Timestamp::from_secs(361));
        assert_eq!(clock.monotonic(Timestamp::from_secs(361)), start + 3_700_000_000_000);
    }

    #[test]
    fn stamps_that_cannot_be_are_the_present() {
        let clock = RealClock::begin(host_now() - 10_000_000_000, Tdf::REAL); // ten seconds ago
        let now = clock.now();
        let realtime = read(ClockId::Realtime);
        for absurd in [0, realtime + 3_600_000_000_000, realtime - 5_000_000_000, u64::MAX] {
            assert_eq!(clock.stamp(absurd, now), now);
        }
        assert_ne!(clock.stamp(realtime - 1_000_000, now), now);
    }
}
