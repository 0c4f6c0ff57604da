//! A simulation: the network and its simulated hosts under the virtual clock, in one part or in several at the same time.

use std::time::Instant;

use warpline_core::Timestamp;
use warpline_net::{Control, CutError, Network, Pause, Workers};

use super::RunError;
use super::parts::Parts;
use super::session::{Advance, Party, Session, Stop};
use crate::hosts::ModelHosts;
use warpline_results::NoFrames;

/// Events of each part between two reports of progress: some milliseconds of work, so that Ctrl-C and progress feel immediate.
const BATCH: u64 = 100_000;

/// How long a trial of one thread for all parts takes, in nanoseconds, if its events take as long as before.
const TRIAL: f64 = 5e6;
/// Batches between two trials, at first and at most.
const PAUSES: (u32, u32) = (2, 16);
/// One thread must be so much faster to be preferred: after a change, what the parts need is in the wrong caches for a while.
const CLEARLY: f64 = 0.9;

/// Chooses who runs the parts: threads, unless they wait for each other longer than one would take for all, as on a busy machine. Tries
/// the other way now and then. This changes how long a run takes, and nothing else.
#[derive(Debug)]
struct Choice {
    /// Nanoseconds per event when last used, of threads and of one.
    cost: [Option<f64>; 2],
    /// Batches until the next trial, and between that one and the one after it.
    left: u32,
    pause: u32,
}

impl Choice {
    fn new() -> Self {
        Choice { cost: [None; 2], left: PAUSES.0, pause: PAUSES.0 }
    }

    /// Whether one thread is the better choice, as far as is known.
    fn prefers_one(&self) -> bool {
        matches!(self.cost, [Some(threads), Some(one)] if one < threads * CLEARLY)
    }

    /// Who runs the next batch, and how many events it has.
    fn next(&self, parts: usize) -> (Workers, u64) {
        let batch = BATCH * parts as u64;
        match (self.prefers_one(), self.left == 0) {
            // Threads have to be started, and to fetch what they need from another core: that takes its time in a short trial.
            (false, false) | (true, true) => (Workers::Threads, batch),
            (true, false) => (Workers::Caller, batch),
            (false, true) => {
                let cost = self.cost[0].unwrap_or(100.0).max(1.0);
                (Workers::Caller, ((TRIAL / cost) as u64).clamp(500, batch))
            }
        }
    }

    /// A batch took so many nanoseconds.
    fn note(&mut self, workers: Workers, nanos: f64, events: u64) {
        if events > 0 {
            self.cost[usize::from(workers == Workers::Caller)] = Some(nanos / events as f64);
        }
        if self.left == 0 {
            self.pause = (self.pause * 2).min(PAUSES.1);
            self.left = self.pause;
        } else {
            self.left -= 1;
        }
    }
}

/// The party of a simulated run.
pub(super) struct Simulation {
    network: Network,
    /// The hosts of each part.
    world: Vec<ModelHosts>,
    choice: Choice,
}

impl Simulation {
    /// A simulation that is cut into `parts`.
    ///
    /// # Errors
    /// If the network cannot be cut like that.
    pub(super) fn new(mut network: Network, world: ModelHosts, parts: &Parts) -> Result<Self, RunError> {
        let Some(cut) = &parts.cut else {
            return Ok(Simulation { network, world: vec![world], choice: Choice::new() });
        };
        network.cut(&cut.part_of).map_err(cannot_cut)?;
        let world = world.split(&cut.part_of, 0..cut.parts as u32);
        Ok(Simulation { network, world, choice: Choice::new() })
    }

    /// The part `own` of a simulation that is cut into `parts`; an empty one if there are not so many. `nodes` is the number of nodes.
    ///
    /// # Errors
    /// If the network cannot be cut like that.
    pub(super) fn apart(
        mut network: Network,
        world: ModelHosts,
        parts: &Parts,
        nodes: usize,
        own: usize,
    ) -> Result<Self, RunError> {
        let all_in_one = vec![0; nodes];
        let part_of = parts.cut.as_ref().map_or(&all_in_one, |cut| &cut.part_of);
        network.cut_apart(part_of, own).map_err(cannot_cut)?;
        let world = world.split(part_of, own as u32..own as u32 + 1);
        Ok(Simulation { network, world, choice: Choice::new() })
    }
}

fn cannot_cut(error: CutError) -> RunError {
    RunError::Build(error.to_string())
}

/// The machine's clock. Nothing in the results depends on it.
#[expect(
    clippy::disallowed_methods,
    reason = "it only decides who runs the parts, which changes nothing in what happens"
)]
fn now() -> Instant {
    Instant::now()
}

impl Party for Simulation {
    type World = Vec<ModelHosts>;

    fn parts(&mut self) -> (&mut Network, &mut Vec<ModelHosts>) {
        (&mut self.network, &mut self.world)
    }

    fn advance(&mut self, until: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError> {
        let Simulation { network, world, choice } = self;
        loop {
            let pause = match (session.team.processes(), &mut world[..]) {
                (Some(processes), [hosts]) => {
                    let budget = BATCH.saturating_mul(processes.count() as u64);
                    network.run_apart(until, hosts, budget, processes)?
                }
                _ => {
                    let (workers, budget) = choice.next(world.len());
                    let (begun, before) = (now(), network.events());
                    let pause = network.run_parts(until, world, budget, workers);
                    choice.note(workers, begun.elapsed().as_nanos() as f64, network.events() - before);
                    pause
                }
            };
            let drained = session.drain(network, world, &NoFrames);
            if session.has_failed() {
                // The other processes will not meet this one any more.
                return Ok(Advance::Stopped(Stop::Interrupted));
            }
            let go_on = drained == Control::Continue
                && session.report_progress(network.now(), network) == Control::Continue;
            let go_on = !session.team.any(!go_on)?;
            match pause {
                _ if !go_on => return Ok(Advance::Stopped(Stop::Interrupted)),
                Pause::Reached => return Ok(Advance::Reached),
                Pause::Budget => {}
            }
        }
    }
}
