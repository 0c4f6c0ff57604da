//! A simulation: the network and its simulated hosts under the virtual clock.

use warpline_core::Timestamp;
use warpline_core::time::VirtualClock;
use warpline_net::{Control, Driver, Network};

use super::RunError;
use super::session::{Advance, Party, Session, Stop};
use crate::hosts::ModelHosts;
use warpline_results::NoFrames;

/// The party of a simulated run.
pub(super) struct Simulation {
    network: Network,
    world: ModelHosts,
    driver: Driver<VirtualClock>,
}

impl Simulation {
    pub(super) fn new(network: Network, world: ModelHosts) -> Self {
        Simulation { network, world, driver: Driver::new(VirtualClock::default()) }
    }
}

impl Party for Simulation {
    type World = ModelHosts;

    fn parts(&mut self) -> (&mut Network, &mut ModelHosts) {
        (&mut self.network, &mut self.world)
    }

    fn advance(&mut self, until: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError> {
        let reached = self.driver.run(&mut self.network, &mut self.world, until, |network, world| {
            match session.drain(network, world, &NoFrames) {
                Control::Continue => session.report_progress(network.now(), network),
                Control::Stop => Control::Stop,
            }
        });
        Ok(if reached { Advance::Reached } else { Advance::Stopped(Stop::Interrupted) })
    }
}
