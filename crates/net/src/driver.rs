//! The driver: the only loop. It lets the network handle what is due and asks the clock to wait for the rest.

use warpline_core::{Clock, Timestamp};

use crate::network::{Hosts, Network, Pause};

/// What an observer says between two batches of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Stop here; what was measured counts.
    Stop,
}

/// Runs a network under a clock.
#[derive(Debug)]
pub struct Driver<C> {
    clock: C,
    batch: u64,
}

/// Events between two looks at the observer: some milliseconds of work, so that Ctrl-C and progress feel immediate.
const BATCH: u64 = 100_000;

impl<C: Clock> Driver<C> {
    /// A driver that waits with `clock`.
    pub fn new(clock: C) -> Self {
        Driver { clock, batch: BATCH }
    }

    /// Lets the network run up to and including `until`. `observe` is called after every batch of events, and takes
    /// records out; it can stop the run. Returns whether `until` was reached.
    pub fn run<H: Hosts>(
        &mut self,
        network: &mut Network,
        hosts: &mut H,
        until: Timestamp,
        mut observe: impl FnMut(&mut Network, &mut H) -> Control,
    ) -> bool {
        loop {
            let horizon = self.clock.horizon(until);
            let pause = network.run_until(horizon, hosts, self.batch);
            if observe(network, hosts) == Control::Stop {
                return false;
            }
            if pause == Pause::Budget {
                continue;
            }
            if horizon >= until {
                return true;
            }
            let next = network.next_event().unwrap_or(until).min(until);
            self.clock.wait_until(next);
        }
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }
}
