//! The real clock: the machine's `CLOCK_MONOTONIC`, counted from the run's start, and waiting with its precision. It may be dilated: then
//! the run's time goes slower than the machine's by a factor, which can change while the run is under way ([`Pace`]).
//!
//! A sleep wakes late: some 20 to 60 µs on a virtual machine with the shortest timer slack, and milliseconds when the host is busy.
//! So a wait sleeps until a little before the deadline ([`Waiting::spin`]) and then looks at the clock without sleeping. A
//! packet that comes in ends both.
//!
//! Arrival stamps of packets are of `CLOCK_REALTIME` (the kernel's choice); [`RealClock::stamp`] puts them on this clock. The
//! distance between the two is measured again every tenth of a second, so that a clock that is being slewed does no harm and
//! one that is set does little.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::time::{ClockId, clock_gettime};
use warpline_core::dilation::{Pace, Tdf};
use warpline_core::{TimeDelta, Timestamp};

/// How a run waits for its next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How long before a deadline sleeping ends and spinning begins, at the most: it is as long as the machine is seen to oversleep.
    /// Longer costs CPU, shorter costs punctuality. Zero never spins.
    pub spin: TimeDelta,
    /// How long to look out for another packet without sleeping after one came in. Zero sleeps at once.
    pub linger: TimeDelta,
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting { spin: TimeDelta::from_micros(200), linger: TimeDelta::ZERO }
    }
}

/// By how much sleeps end late on this machine at present, and so how long before a deadline they should end: the mean and four times the
/// mean deviation of what was seen, smoothed as a round-trip time is for TCP (RFC 6298).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oversleep {
    mean: f64,
    deviation: f64,
    seen: bool,
}

impl Oversleep {
    pub(crate) const UNKNOWN: Oversleep = Oversleep { mean: 0.0, deviation: 0.0, seen: false };

    /// Notes that a sleep ended `late` after it should have.
    pub(crate) fn note(&mut self, late: TimeDelta) {
        let late = late.as_nanos() as f64;
        if self.seen {
            self.deviation += ((late - self.mean).abs() - self.deviation) / 4.0;
            self.mean += (late - self.mean) / 8.0;
        } else {
            *self = Oversleep { mean: late, deviation: late / 2.0, seen: true };
        }
    }

    /// How long before a deadline a sleep should end, at most `most`; that as long as nothing is known.
    pub(crate) fn margin(&self, most: TimeDelta) -> TimeDelta {
        match self.seen {
            true => TimeDelta::from_nanos((self.mean + 4.0 * self.deviation) as u64).min(most),
            false => most,
        }
    }
}

/// What it takes from the end of a wait that slept until the packet that was due is on its way, by the kernel's departure stamps: the
/// last few times. Caches are cold then, so it is some ten times what it takes otherwise. Waits end earlier by the least of them: a packet
/// is to leave when it is due, and not before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handover {
    nanos: [u64; 16],
    count: usize,
}

impl Handover {
    /// Notes what it took.
    pub(crate) fn note(&mut self, took: TimeDelta) {
        self.nanos[self.count % self.nanos.len()] = took.as_nanos();
        self.count += 1;
    }

    /// By how much to be early; not at all as long as little is known.
    pub(crate) fn lead(&self) -> TimeDelta {
        match self.nanos.iter().min() {
            Some(least) if self.count >= self.nanos.len() => TimeDelta::from_nanos(*least),
            _ => TimeDelta::ZERO,
        }
    }
}

/// What to do when the emulator cannot keep up with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LagPolicy {
    /// Go on, count it, and say so in the audit.
    #[default]
    BestEffort,
    /// Stop the run as soon as anything is later than this.
    Hard(TimeDelta),
}

/// How often the distance between the two clocks is measured.
const REFRESH: u64 = 100_000_000;
/// A stamp further back than this is not believed: the clock was set, or the stamp is missing.
const OLDEST: u64 = 1_000_000_000;

/// The machine's clock, from the run's start on.
#[derive(Clone, Debug)]
pub struct RealClock {
    /// `CLOCK_MONOTONIC` at the run's start.
    start: u64,
    /// What the run's time is for each of the machine's.
    pace: Pace,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`.
    offset: i64,
    /// `CLOCK_MONOTONIC` when that was measured.
    measured: u64,
}

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    // Both clocks are past zero and nanoseconds below a second.
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

    /// A clock that starts when `CLOCK_MONOTONIC` shows `host`, in nanoseconds, and is dilated. It stands at zero before.
    pub fn begin(host: u64, tdf: Tdf) -> Self {
        let mut clock = RealClock { start: host, pace: Pace::new(host, tdf), offset: 0, measured: 0 };
        clock.measure();
        clock
    }

    /// The present.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.at(host_now())
    }

    /// The run's instant at a reading of `CLOCK_MONOTONIC`, in nanoseconds.
    #[inline]
    pub fn at(&self, host: u64) -> Timestamp {
        Timestamp::from_nanos(self.pace.at(host))
    }

    /// The reading of `CLOCK_MONOTONIC`, in nanoseconds, that stands for `at`.
    #[inline]
    pub fn monotonic(&self, at: Timestamp) -> u64 {
        self.pace.host_of(at.as_nanos())
    }

    /// The reading of `CLOCK_MONOTONIC` at the run's start.
    pub fn started(&self) -> u64 {
        self.start
    }

    /// What the run's time is for each of the machine's.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The factor at present.
    pub fn tdf(&self) -> Tdf {
        self.pace.line(host_now()).tdf
    }

    /// Announces a change of the factor for when `CLOCK_MONOTONIC` shows `host`.
    pub fn change(&mut self, host: u64, tdf: Tdf) {
        self.pace.change(host, tdf);
    }

    /// When a packet arrived to which the kernel gave the stamp `realtime` (nanoseconds since 1970; 0 for none); `now` is what
    /// the present was shortly before it was read. A stamp from the future or from long ago counts as `now`.
    #[inline]
    pub fn stamp(&self, realtime: u64, now: Timestamp) -> Timestamp {
        let host = (realtime as i64).wrapping_sub(self.offset).max(0) as u64;
        if host.saturating_add(OLDEST) < self.monotonic(now) {
            return now;
        }
        let stamp = self.at(host);
        // `now` was read before the packet was: the thread may have been put aside in between, for milliseconds on a busy machine, and
        // the packet come in the meantime. It is not from the future then.
        if stamp > now && stamp > self.now() {
            return now;
        }
        stamp
    }

    /// Measures the distance between the clocks again if it is time; `now` is the present.
    #[inline]
    pub fn refresh(&mut self, now: Timestamp) {
        if self.monotonic(now) >= self.measured + REFRESH {
            self.measure();
        }
    }

    /// Reads one clock between two readings of the other, and believes the closest of a few tries: an interruption in between
    /// makes them far apart.
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

/// Asks the kernel to wake this thread as punctually as it can: timer slack of 1 ns in place of 50 µs
/// (`PR_SET_TIMERSLACK`, prctl(2)).
pub fn be_punctual() {
    // A kernel without it wakes later, which is measured.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// A thread's precedence over ordinary ones, so that a busy machine does not make it late.
///
/// While it mostly waits it runs as soon as it wakes (`SCHED_FIFO`, sched(7)). A thread that keeps a core busy must not do that:
/// the kernel stops such a one for 50 ms in each second, so that others are not starved (`sched_rt_runtime_us`, or the fair
/// server of Linux 6.12). Nor must one that wakes for every packet of a fast sender: it would interrupt the sender each time. Either
/// then runs as an ordinary thread with three times the usual weight (nice -5): with the highest, a receiver on the same core starves, and
/// loses in its socket what the emulator has carried. What it starts runs as usual. All of this is granted to root, and mostly not to
/// ordinary users. Given up when it is dropped, on the same thread.
#[derive(Debug)]
pub struct Precedence {
    /// The nice value to go back to.
    nice: Option<i32>,
    first: bool,
    refused: bool,
    /// When it was last looked at; the thread's processor time and its intakes by then.
    looked: (Timestamp, u64, u64),
}

/// The raised priority of an ordinary thread, as a nice value.
const RAISED: i32 = -5;
/// Shares of a core above which a thread is busy, and below which it is not.
const BUSY: (f64, f64) = (0.7, 0.5);
/// The same for turns in a second in which something came in.
const OFTEN: (f64, f64) = (20_000.0, 14_000.0);

impl Precedence {
    /// Asks for precedence of the calling thread.
    pub fn ask() -> Self {
        // No process stands for the calling thread.
        let nice = getpriority_process(None).ok().filter(|_| setpriority_process(None, RAISED).is_ok());
        // On a single core nobody else would run while it spins.
        let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2);
        let mut precedence =
            Precedence { nice, first: false, refused: alone, looked: (Timestamp::NEVER, 0, 0) };
        precedence.set(true);
        precedence
    }

    /// Adapts to the share of a core that the thread has taken since the last look, and to how often in a second something came in;
    /// `intakes` is how often that was in all, and `now` is by any clock that runs as the machine's. A hundredth of a second between looks, or
    /// more, makes sense.
    pub fn look(&mut self, now: Timestamp, intakes: u64) {
        let work = read(ClockId::ThreadCPUTime);
        let (before, worked, taken) = std::mem::replace(&mut self.looked, (now, work, intakes));
        let span = now.saturating_since(before).as_secs_f64();
        // At first, and where the clock has begun anew, there is nothing to compare with.
        if span > 0.0 {
            let work = work.saturating_sub(worked) as f64 / 1e9;
            self.adapt(work / span, intakes.saturating_sub(taken) as f64 / span);
        }
    }

    fn adapt(&mut self, share: f64, intakes: f64) {
        if self.first && (share > BUSY.0 || intakes > OFTEN.0) {
            self.set(false);
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
        // Fields 18 and 41 of stat, proc(5): nice value and policy; counted from behind the name, which is field 2.
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
        let precedence = Precedence::ask();
        if precedence.nice.is_none() && !precedence.first {
            return warpline_skip::skip("precedence", "this user may not have it");
        }
        assert_ne!(state(), before);
        drop(precedence);
        assert_eq!(state(), before);
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
            handover.note(micros(30 + took % 4));
            assert_eq!(handover.lead(), TimeDelta::ZERO);
        }
        handover.note(micros(28));
        assert_eq!(handover.lead(), micros(28));
        // What was is forgotten after sixteen more.
        (0..16).for_each(|_| handover.note(micros(40)));
        assert_eq!(handover.lead(), micros(40));
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
