//! Readings of this program's clock beside the processor's time-stamp counter, and how late its timers are.
//!
//! In a dilated guest the clock is the guest's and the counter the machine's, so the readings tell one time by the other.

use warpline_core::TimeDelta;

use super::{Clocks, nap, now};

/// The time-stamp counter, which goes at the machine's speed.
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register, and every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Elsewhere there are no guests, and so nothing to compare.
#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

/// A reading of the clock, between two of the counter.
fn reading() -> [u64; 3] {
    let before = counter();
    let time = now();
    [before, time, counter()]
}

/// The closest of a few readings: an interruption moves both readings of the counter apart.
pub fn close_reading() -> [u64; 3] {
    let readings = (0..20).map(|_| reading());
    readings.min_by_key(|[before, _, after]| after - before).unwrap_or_default()
}

/// Takes `count` readings, `gap` apart; each gap is a timer whose lateness is noted, too.
pub(super) fn read(count: u64, gap: TimeDelta) -> Clocks {
    crate::clock::be_punctual();
    let mut clocks = Clocks::default();
    for _ in 0..count {
        clocks.readings.push(close_reading());
        let due = now() + gap.as_nanos();
        nap(gap);
        // Above zero: the sleep began after the reading.
        clocks.late.push(now().saturating_sub(due));
    }
    clocks
}
