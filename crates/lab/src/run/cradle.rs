//! A run under the virtual clock with transport stacks of this process as hosts, and no guests: a simulation in which packets have bytes.

use warpline_core::Timestamp;
use warpline_live::stepper::Stepper;
use warpline_net::{Control, Network, Pause};

use super::RunError;
use super::course::Account;
use super::routers::{LiveWorld, TurnFrames};
use super::session::{Advance, Party, Session, Stop};
use super::stage::Stage;

/// Largest memory for packets in the network, in bytes.
const POOL: usize = 4 << 30;
/// Events between two reports of progress: some milliseconds of work.
const BATCH: u64 = 20_000;

/// The party of such a run.
pub(super) struct Cradle {
    stage: Stage,
    stepper: Stepper,
}

impl Cradle {
    pub(super) fn new(stage: Stage) -> Self {
        let stepper = Stepper::new(0, stage.largest, POOL);
        Cradle { stage, stepper }
    }

    /// Passes on records.
    fn drain(&mut self, session: &mut Session<'_>) -> Control {
        let Stage { network, world, .. } = &mut self.stage;
        let LiveWorld { hosts, models, routers } = world;
        models.drain(hosts);
        let drained = session.drain(network, hosts, &TurnFrames { routers, pool: self.stepper.pool() });
        self.stepper.recycle();
        drained
    }
}

impl Party for Cradle {
    type World = LiveWorld;

    fn parts(&mut self) -> (&mut Network, &mut LiveWorld) {
        (&mut self.stage.network, &mut self.stage.world)
    }

    fn advance(&mut self, until: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError> {
        loop {
            let Stage { network, world, .. } = &mut self.stage;
            let pause = self.stepper.run_until(until, network, world, BATCH);
            let drained = self.drain(session);
            let network = &mut self.stage.network;
            let go_on = drained == Control::Continue
                && session.report_progress(network.now(), network) == Control::Continue;
            match pause {
                _ if !go_on => return Ok(Advance::Stopped(Stop::Interrupted)),
                Pause::Reached => return Ok(Advance::Reached),
                Pause::Budget => {}
            }
        }
    }

    fn end(&mut self, _: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
        self.drain(session);
        Ok(())
    }

    fn account(
        &mut self,
        stop: Option<&Stop>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<(), RunError> {
        self.stage.account(stop, session, account, |_, _, _| Ok(Vec::new())).map(drop)
    }
}
