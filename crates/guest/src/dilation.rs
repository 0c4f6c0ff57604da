//! Dilated time: a guest whose clock is TDF times slower than the machine's (Gupta et al., "To infinity and beyond: time-warped
//! network emulation", NSDI 2006), so that the world around it seems TDF times faster.
//!
//! A guest boots in real time, and then stands still ([`Machine::wait_ready`]). When all guests are ready, they start together, at the
//! run's pace ([`follow`]). The factor may change while they run. A change is announced in advance, so that all guests make it at the same
//! instant and no clock goes back.

use std::sync::atomic::Ordering;

use nix::sys::signal::Signal;
pub use warpline_core::dilation::Tdf;
use warpline_core::dilation::{Line, Pace};

use crate::error::{Doing, GuestError};
use crate::machine::Machine;
use crate::page::{Page, write_pace};
use crate::time::{START, host_now, pause};

/// How long before its time a guest hears that its clock will stand still, in nanoseconds of the machine. A process of the guest
/// reads first its pace and then the machine's clock. One that has read the old pace must have read the clock before the standstill, even on a busy machine:
/// otherwise it gets a time later than that of the standstill.
const NOTICE: u64 = 100_000_000;

/// Announces to a guest, whose clock has gone by the machine's since its boot, that it stands still soon. Returns when, and what it shows then.
/// If it stood still at once, the guest could have read a later time just before. Its clock would then go back, which a kernel takes for a leap far ahead.
fn freeze(page: &Page, now: u64) -> Line {
    let current = Line { host: page.pace[0].load(Ordering::Relaxed), run: 0, tdf: Tdf::REAL };
    let host = now + NOTICE;
    let still = Line { host, run: current.at(host), tdf: Tdf::STILL };
    write_pace(page, &Pace { current, next: Some(still) }, |shown| shown);
    still
}

/// Makes the clocks of ready guests follow the run's, those with a factor of their own in proportion. A change that the run announces ([`Pace::next`]) should be some milliseconds ahead.
pub fn follow<'a>(machines: impl IntoIterator<Item = &'a Machine>, pace: &Pace) {
    for machine in machines {
        write_pace(&machine.page, &machine.clocks.pace(pace), |own| {
            START.saturating_add(own).saturating_add_signed(-machine.offset)
        });
    }
}

/// Makes guests check their timers, which were set on the machine for the previous factor. Call it when a change has taken effect.
pub fn nudge<'a>(machines: impl IntoIterator<Item = &'a Machine>) {
    for machine in machines {
        machine.signal(Signal::SIGALRM);
    }
}

impl Machine {
    /// Waits until the hosts of a guest that is not in lock-step are set up, up to `patience` seconds. Its time stands still then. `go_on` is
    /// called every few milliseconds; if it returns false, this returns false.
    ///
    /// # Errors
    /// If it ends before, or takes longer.
    pub fn wait_ready(&mut self, patience: u64, go_on: &mut dyn FnMut() -> bool) -> Result<bool, GuestError> {
        if !self.wait_for(warpline_agent::READY, patience, "boot", go_on)? {
            return Ok(false);
        }
        // A kernel's clock starts some time into its boot. While it stands still, it can be compared with ours.
        let still = freeze(&self.page, host_now());
        while host_now() < still.host {
            pause();
        }
        let told = std::fs::write(self.shared(warpline_agent::FROZEN), b"");
        told.doing(|| "stop a guest's time".to_owned())?;
        if !self.wait_for(warpline_agent::SHOWN, patience, "report what its clock shows", go_on)? {
            return Ok(false);
        }
        let shown = std::fs::read_to_string(self.shared(warpline_agent::SHOWN)).unwrap_or_default();
        let Ok(shown) = shown.trim().parse::<u64>() else { return Err(self.post_mortem()) };
        self.offset = shown as i64 - still.run as i64;
        Ok(true)
    }

    /// Waits until a file appears in the share.
    fn wait_for(
        &mut self,
        file: &str,
        patience: u64,
        task: &'static str,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, GuestError> {
        let begun = host_now();
        while !self.shared(file).exists() {
            if !self.is_alive() {
                return Err(self.post_mortem());
            }
            let seconds = (host_now() - begun) / 1_000_000_000;
            if seconds >= patience {
                let (name, console) = (self.name().to_owned(), self.console_tail());
                return Err(GuestError::Hung { name, task, seconds, console });
            }
            if !go_on() {
                return Ok(false);
            }
            pause();
        }
        Ok(true)
    }

    /// Waits until a guest that is not in lock-step has powered off, up to `patience` seconds. Returns whether it has. Calls `each` every few
    /// milliseconds meanwhile.
    pub fn wait_end(&mut self, patience: u64, each: impl FnMut()) -> bool {
        self.wait_while(patience * 1_000_000_000, Machine::is_alive, each)
    }

    /// Waits until the guest has written its report, or has ended, up to `patience` nanoseconds of the machine's time. Returns whether it has
    /// reported. Calls `each` every few milliseconds meanwhile.
    pub fn wait_report(&mut self, patience: u64, each: impl FnMut()) -> bool {
        self.wait_while(patience, |machine| !machine.has_reported() && machine.is_alive(), each);
        self.has_reported()
    }

    fn wait_while(
        &mut self,
        patience: u64,
        goes_on: impl Fn(&mut Machine) -> bool,
        mut each: impl FnMut(),
    ) -> bool {
        let begun = host_now();
        while goes_on(self) {
            if host_now() - begun > patience {
                return false;
            }
            each();
            pause();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_hears_of_the_standstill_before_it_begins() {
        let page = Page::create().unwrap();
        let booted = 7_000_000_000;
        write_pace(&page, &Pace::new(booted, Tdf::REAL), |shown| shown);
        let now = booted + 3_000_000_000;
        let still = freeze(&page, now);
        assert!(still.host > now);
        // Until then its clock goes as before, and it is where it was when it stops.
        let read: Vec<u64> = page.pace.iter().map(|field| field.load(Ordering::Relaxed)).collect();
        assert_eq!(read[..3], [booted, 0, Tdf::REAL.billionths()]);
        assert_eq!(read[3..], [still.host, still.host - booted, Tdf::STILL.billionths()]);
        assert_eq!(still.run, still.host - booted);
    }
}
