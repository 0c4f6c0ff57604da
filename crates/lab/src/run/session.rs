//! One run, from its first moment to its results: the only loop.
//!
//! A [`Party`] carries everything from one stop to the next by its own clock. What is measured at the stops, what is recorded on the way,
//! and what is made of it in the end, is the same for all of them.

use warpline_core::{TimeDelta, Timestamp};
use warpline_net::{Control, Network};

use super::build::Records;
use super::course::{Account, Course, Measured, run_info};
use super::measure::LinkInfo;
use super::sinks::Sinks;
use super::{Broken, Progress, RunError, RunOptions, RunOutcome};
use warpline_results::{Frames, NoFrames, ResultError, Summary};
use warpline_scenario::Scenario;

/// What a run consists of, and the clock that it goes by: a simulation, guests in lock-step with one, or an emulator with all that is at
/// its ports.
pub(super) trait Party {
    /// Its hosts.
    type World: Measured;

    /// The network, and the hosts in it.
    fn parts(&mut self) -> (&mut Network, &mut Self::World);

    /// Starts the clock. Returns why it cannot, where the run has ended before it began.
    ///
    /// # Errors
    /// If the system does not give what it needs.
    fn begin(&mut self) -> Result<Option<Stop>, RunError> {
        Ok(None)
    }

    /// Goes on up to and including `until`. On the way it hands over what was recorded ([`Session::drain`]) and says how far it has come
    /// ([`Session::tell`]).
    ///
    /// # Errors
    /// If it cannot go on and nothing that was measured is of any use.
    fn advance(&mut self, until: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError>;

    /// Ends what still runs, and hands over the last of what was recorded. `stop` is why the run did not come to its end, if so.
    ///
    /// # Errors
    /// If what it needs for that fails.
    fn end(&mut self, stop: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
        let _ = (stop, session);
        Ok(())
    }

    /// Adds what it knows besides the simulated hosts and the links.
    ///
    /// # Errors
    /// If something cannot be written.
    fn account(
        &mut self,
        stop: Option<&Stop>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<(), RunError> {
        let _ = (stop, session, account);
        Ok(())
    }
}

/// How far a party has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// To where it was to go.
    Reached,
    /// Not so far, but what the run was to wait for has happened.
    Over,
    /// Not so far, and it does not go on.
    Stopped(Stop),
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Interrupted,
    /// A program or a host that others wait for was not ready in time.
    NotReady,
    /// It could not go on.
    Broken(Broken),
}

impl Stop {
    /// As the summary says it.
    fn reason(&self) -> &'static str {
        match self {
            Stop::Interrupted => "interrupted",
            Stop::NotReady => "not ready",
            Stop::Broken(Broken::Lag(_)) => "lag",
            Stop::Broken(Broken::Port(_)) => "a failed port",
            Stop::Broken(Broken::Guest(_)) => "a guest",
        }
    }
}

/// A run that is under way.
pub(super) struct Session<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a RunOptions,
    pub(super) sinks: Sinks,
    observe: &'a mut dyn FnMut(&Progress) -> Control,
    links: Vec<LinkInfo>,
    course: Course,
    /// What could not be written: the run ends with that.
    failure: Option<ResultError>,
}

impl<'a> Session<'a> {
    /// Opens what `options` ask for.
    ///
    /// # Errors
    /// If a file that the scenario reads cannot be read, or the results cannot be written.
    pub(super) fn open(
        scenario: &'a Scenario,
        options: &'a RunOptions,
        observe: &'a mut dyn FnMut(&Progress) -> Control,
        links: Vec<LinkInfo>,
        records: &Records,
    ) -> Result<Self, RunError> {
        let sinks = Sinks::open(scenario, options, records)?;
        let course = Course::new(scenario);
        Ok(Session { scenario, options, sinks, observe, links, course, failure: None })
    }

    /// How long the whole run is.
    pub(super) fn duration(&self) -> TimeDelta {
        self.course.duration
    }

    /// Says that nothing has happened yet, as while machines boot. Returns whether to go on.
    pub(super) fn tell_waiting(&mut self) -> bool {
        let none = Progress { duration: self.course.duration, ..Progress::default() };
        (self.observe)(&none) == Control::Continue
    }

    /// Says how far the run has come.
    pub(super) fn tell(&mut self, now: Timestamp, network: &mut Network) -> Control {
        (self.observe)(&Progress {
            simulated: now - Timestamp::ZERO,
            duration: self.course.duration,
            packet_hops: network.packet_hops(),
            events: network.events(),
        })
    }

    /// Takes all that was recorded. The party has to stop if it cannot be written.
    pub(super) fn drain(
        &mut self,
        network: &mut Network,
        world: &mut impl Measured,
        frames: &dyn Frames,
    ) -> Control {
        let drained = self.sinks.drain(network, world.hosts(), frames);
        self.note(drained)
    }

    /// Takes what links have recorded: of live packets that has to be taken at once.
    pub(super) fn drain_links(
        &mut self,
        network: &mut Network,
        world: &mut impl Measured,
        frames: &dyn Frames,
    ) -> Control {
        let drained = self.sinks.drain_links(network, world.hosts(), frames);
        self.note(drained)
    }

    /// Whether what was recorded could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Fails if something that was recorded could not be written.
    fn check_written(&mut self) -> Result<(), RunError> {
        self.failure.take().map_or(Ok(()), |error| Err(error.into()))
    }

    fn note(&mut self, drained: Result<(), ResultError>) -> Control {
        match drained {
            Ok(()) => Control::Continue,
            Err(error) => {
                self.failure = Some(error);
                Control::Stop
            }
        }
    }

    /// Carries `party` through the run, and publishes what came of it.
    ///
    /// # Errors
    /// As of the party, and if the results cannot be written. Nothing is left half-written.
    pub(super) fn run(mut self, mut party: impl Party) -> Result<RunOutcome, RunError> {
        let stop = self.carry(&mut party)?;
        party.end(stop.as_ref(), &mut self)?;
        self.check_written()?;
        let (network, world) = party.parts();
        self.sinks.drain(network, world.hosts(), &NoFrames)?;
        self.sinks.reports(network, world.hosts())?;
        let mut account = self.course.finish(network, world, &self.links);
        party.account(stop.as_ref(), &mut self, &mut account)?;

        let (network, _) = party.parts();
        let info = run_info(self.scenario, network, stop.as_ref().map(Stop::reason));
        let (packet_hops, events) = (info.packet_hops, info.events);
        let mut summary = Summary::new(info, account.flows, account.links);
        (summary.live, summary.guests) = (account.live, account.guests);
        let (directory, tables) =
            self.sinks.publish(self.scenario, self.options, &mut summary, &account.transfers)?;
        Ok(RunOutcome {
            summary,
            directory,
            tables,
            complete: stop.is_none(),
            packet_hops,
            events,
            failures: account.failures,
            broken: match stop {
                Some(Stop::Broken(broken)) => Some(broken),
                _ => None,
            },
        })
    }

    /// From stop to stop, to the end. Returns why it did not come there, if so.
    fn carry(&mut self, party: &mut impl Party) -> Result<Option<Stop>, RunError> {
        let (network, world) = party.parts();
        self.course.begin(network, world);
        if let Some(stop) = party.begin()? {
            return Ok(Some(stop));
        }
        loop {
            let until = self.course.next_stop(party.parts().0.now(), &self.sinks);
            let advance = party.advance(until, self);
            self.check_written()?;
            match advance? {
                Advance::Reached => {}
                Advance::Over => return Ok(None),
                Advance::Stopped(stop) => return Ok(Some(stop)),
            }
            let (network, world) = party.parts();
            if self.course.arrive(until, network, world, &self.links, &mut self.sinks)? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::hosts::ModelHosts;

    /// A party that cannot get rid of the last of its records.
    struct Late(Network, ModelHosts);

    impl Party for Late {
        type World = ModelHosts;
        fn parts(&mut self) -> (&mut Network, &mut ModelHosts) {
            (&mut self.0, &mut self.1)
        }
        fn advance(&mut self, _: Timestamp, _: &mut Session<'_>) -> Result<Advance, RunError> {
            Ok(Advance::Over)
        }
        fn end(&mut self, _: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
            let full = std::io::ErrorKind::StorageFull.into();
            session.note(Err(ResultError::io("write", Path::new("packets.parquet"), full)));
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_at_the_very_end_fails_the_run() {
        let text = "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\nflow = [{ from = \"a\", to = \"b\" }]";
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap();
        let options = RunOptions::default();
        let observe = &mut |_: &Progress| Control::Continue;
        let session = Session::open(&scenario, &options, observe, Vec::new(), &Records::default()).unwrap();
        let outcome = session.run(Late(Network::new(), ModelHosts::default()));
        assert!(matches!(outcome, Err(RunError::Results(_))), "{outcome:?}");
    }
}
