//! How an emulator waits.

use super::*;

/// A port that does not know whether something has come without asking the kernel, as a TUN device's.
#[derive(Debug)]
struct Asking;

impl LivePort for Asking {
    fn name(&self) -> &str {
        "asking"
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn pending(&self) -> Option<bool> {
        None
    }
    fn receive(
        &mut self,
        _: PortId,
        _: &RealClock,
        _: Timestamp,
        _: &mut Pool,
        _: &mut Vec<Arrival>,
    ) -> Result<(), PortError> {
        Ok(())
    }
    fn transmit(&mut self, _: &mut Pool, _: &[u32]) -> Result<(), PortError> {
        Ok(())
    }
    fn check(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn counters(&mut self) -> PortCounters {
        PortCounters::default()
    }
}

#[test]
fn looks_without_sleep_say_nothing_of_how_late_sleeps_end() {
    let mut emulator = Emulator::new(EmulatorConfig::default());
    emulator.add_port(Box::new(Asking));
    let most = emulator.config.waiting.spin;
    (0..100).for_each(|_| emulator.oversleep.note(TimeDelta::from_micros(100)));
    let known = emulator.oversleep.margin(most);
    // So near that it does not sleep.
    let deadline = emulator.clock.now() + TimeDelta::from_micros(50);
    assert!(!emulator.wait(deadline, &[]).unwrap());
    assert!(emulator.clock.now() >= deadline && emulator.slept.is_none());
    assert_eq!(emulator.oversleep.margin(most), known);
}

#[test]
fn a_nap_leaves_most_of_what_counts_as_late() {
    assert_eq!(nap_length(1_000_000), Some(100_000));
    assert_eq!(nap_length(1_000_000_000), Some(LONGEST_NAP));
    // A hard limit of 50 us.
    assert_eq!(nap_length(50_000), None);
}
