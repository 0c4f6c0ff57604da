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
/// What threads may take for their first batch, in nanoseconds.
const FIRST: f64 = 2e7;
/// How many times longer threads may take for a batch than one thread would, before they are stopped.
const SLOWER: f64 = 2.0;
/// A batch of threads that took less than this, in nanoseconds, is not counted: most of its time was spent on starting them.
const LITTLE: f64 = 1e6;
/// Batches between two trials, at first and at most.
const PAUSES: (u32, u32) = (2, 32);
/// One thread must be so much faster to be preferred: after a change, what the parts need is in the wrong caches for a while.
const CLEARLY: f64 = 0.9;

/// Chooses who runs the parts: threads, unless they wait for each other longer than one would take for all, as on a busy machine. Tries
/// the other way now and then. This changes how long a run takes, and nothing else.
#[derive(Debug)]
struct Choice {
    /// Whether one thread runs the parts.
    by_one: bool,
    /// Nanoseconds per event when last used, of threads and of one.
    threads: Option<f64>,
    one: Option<f64>,
    /// Whether the last batch was a trial of one thread, and is compared with the next: what costs how much changes in the course of a run.
    tried: bool,
    /// Batches until the next trial, and between that one and the one after it.
    left: u32,
    pause: u32,
}

/// A batch of events.
#[derive(Clone, Copy, Debug)]
struct Batch {
    workers: Workers,
    events: u64,
    /// Nanoseconds after which threads are stopped.
    patience: f64,
}

impl Choice {
    fn new() -> Self {
        Choice { by_one: false, threads: None, one: None, tried: false, left: PAUSES.0, pause: PAUSES.0 }
    }

    /// What to do next.
    fn next(&self, parts: usize) -> Batch {
        let whole = BATCH * parts as u64;
        match (self.by_one, self.left == 0) {
            // Threads have to be started, and to fetch what they need from another core: that takes its time in a short trial.
            (false, false) | (true, true) => {
                let patience = self.one.map_or(FIRST, |one| one * whole as f64 * SLOWER);
                Batch { workers: Workers::Threads, events: whole, patience }
            }
            (true, false) => Batch { workers: Workers::Caller, events: whole, patience: f64::MAX },
            (false, true) => {
                let events = (TRIAL / self.threads.unwrap_or(100.0).max(1.0)) as u64;
                Batch { workers: Workers::Caller, events: events.clamp(500, whole), patience: f64::MAX }
            }
        }
    }

    /// A batch took so many nanoseconds.
    fn note(&mut self, workers: Workers, nanos: f64, events: u64) {
        if workers == Workers::Threads && nanos < LITTLE {
            return;
        }
        if events > 0 {
            let cost = Some(nanos / events as f64);
            match workers {
                Workers::Threads => self.threads = cost,
                Workers::Caller => self.one = cost,
            }
        }
        let tried = std::mem::replace(&mut self.tried, !self.by_one && workers == Workers::Caller);
        if workers == Workers::Threads && (tried || self.by_one) {
            self.by_one =
                matches!((self.threads, self.one), (Some(threads), Some(one)) if one < threads * CLEARLY);
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
                    let Batch { workers, events, patience } = choice.next(world.len());
                    let (begun, before) = (now(), network.events());
                    let enough = || begun.elapsed().as_nanos() as f64 > patience;
                    let pause = network.run_parts(until, world, events, workers, &enough);
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

#[cfg(test)]
mod tests {
    use super::super::RunOptions;
    use super::super::build::{Built, build};
    use super::*;
    use warpline_scenario::Scenario;

    #[test]
    fn a_multipath_connection_is_freed_when_its_last_subflow_has_ended() {
        let text = "duration = \"300s\"\nlink = [\n\
            { between = [\"a\", \"x\"], rate = \"10Mbit/s\", delay = \"20ms\" },\n\
            { between = [\"a\", \"y\"], rate = \"10Mbit/s\", delay = \"20ms\" },\n\
            { between = [\"x\", \"b\"], rate = \"1Gbit/s\" }, { between = [\"y\", \"b\"], rate = \"1Gbit/s\" },\n]\n\
            [[flow]]\nfrom = \"a\"\nto = \"b\"\nmultipath = { paths = [[\"x\"], [\"y\"]] }\n\
            app = \"transfer\"\nsize = \"200kB\"\ntransfers = 5\npause = \"100ms\"\n";
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap();
        let Built { mut network, mut world, .. } = build(&scenario, &RunOptions::default()).unwrap();
        world.start(&mut network.port(Timestamp::ZERO));
        network.run_until(Timestamp::from_millis(100), &mut world, u64::MAX);
        assert_eq!(world.joint_count(), 1);
        network.run_until(Timestamp::from_secs(300), &mut world, u64::MAX);
        // Two subflows for each of five transfers.
        assert_eq!((world.take_opened().len(), world.joint_count()), (10, 0));
    }

    /// Lets a choice go through `batches` of two parts; an event costs so much for threads and for one. Returns those that one thread ran.
    fn by_one(choice: &mut Choice, batches: usize, (threads, one): (f64, f64)) -> usize {
        let mut ran = 0;
        for _ in 0..batches {
            let Batch { workers, events, patience } = choice.next(2);
            let cost = if workers == Workers::Threads { threads } else { one };
            let handled = (patience / cost).ceil().min(events as f64) as u64;
            choice.note(workers, cost * handled as f64, handled);
            ran += usize::from(workers == Workers::Caller);
        }
        ran
    }

    #[test]
    fn threads_run_the_parts_unless_one_is_clearly_faster() {
        let mut choice = Choice::new();
        assert!(by_one(&mut choice, 100, (60.0, 100.0)) <= 6);
        // The machine becomes busy: as soon as a trial shows it, one thread runs all but the trials.
        by_one(&mut choice, PAUSES.1 as usize + 3, (50_000.0, 100.0));
        assert!(by_one(&mut choice, 100, (50_000.0, 100.0)) >= 94);
        // It has nothing else to do again.
        by_one(&mut choice, PAUSES.1 as usize + 2, (60.0, 100.0));
        assert!(by_one(&mut choice, 100, (60.0, 100.0)) <= 6);
    }

    #[test]
    fn threads_that_wait_for_each_other_are_stopped() {
        let first = Choice::new().next(2);
        assert_eq!((first.workers, first.patience), (Workers::Threads, FIRST));
        let known = Choice { one: Some(100.0), ..Choice::new() }.next(2);
        assert_eq!(known.patience, 2.0 * BATCH as f64 * 100.0 * SLOWER);
    }
}
