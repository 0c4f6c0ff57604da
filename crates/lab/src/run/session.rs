//! One run, from its start to its results. This is the only main loop.
//!
//! A [`Party`] advances everything from one stop to the next by its own clock. Measuring, recording and summing up are the same for
//! all of them.

use std::borrow::Cow;
#[cfg(live)]
use std::collections::BTreeMap;
#[cfg(live)]
use std::os::fd::OwnedFd;
#[cfg(live)]
use std::sync::Arc;

use warpline_core::{TimeDelta, Timestamp};
#[cfg(live)]
use warpline_live::control::Serving;
use warpline_net::{Control, Network};

#[cfg(live)]
use super::control::{Entrance, Orders, Waiting};
use super::course::{Account, Course, Measured, run_info};
use super::expected;
use super::fast_forward::FastForward;
use super::measure::LinkInfo;
use super::parts::Parts;
use super::sinks::Sinks;
use super::team::Team;
use super::{Broken, Progress, RunError, RunOptions, RunOutcome};
use crate::hosts::reading::Reading;
use warpline_results::{Frames, NoFrames, Summary};
use warpline_scenario::Scenario;

/// What a run consists of, with its clock: a simulation, guests in lock-step with one, or an emulator with all that is at its
/// ports.
pub(super) trait Party {
    /// Its hosts.
    type World: Measured;

    /// The network, and the hosts in it.
    fn parts(&mut self) -> (&mut Network, &mut Self::World);

    /// Starts the clock. If the run has ended before it began, returns why.
    ///
    /// # Errors
    /// If the system refuses something that it needs.
    fn begin(&mut self) -> Result<Option<Stop>, RunError> {
        Ok(None)
    }

    /// Advances up to and including `until`. Meanwhile it hands over records ([`Session::drain`]) and reports progress
    /// ([`Session::report_progress`]).
    ///
    /// # Errors
    /// If it cannot continue, and nothing that was measured is of use.
    fn advance(&mut self, until: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError>;

    /// Ends what still runs, and hands over the last records. `stop` is why the run ended early, if it did.
    ///
    /// # Errors
    /// If this fails.
    fn end(&mut self, stop: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
        let _ = (stop, session);
        Ok(())
    }

    /// Adds its results besides those of the simulated hosts and the links.
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

/// How far a party has advanced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// To the stop.
    Reached,
    /// Not to the stop, because the run's `until` has come true.
    Over,
    /// Not to the stop, and it cannot continue.
    Stopped(Stop),
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The caller stopped it.
    Interrupted,
    /// A program or a host that others wait for was not ready in time.
    NotReady,
    /// It could not continue.
    Broken(Broken),
}

impl Stop {
    /// The reason in the words of the summary.
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

/// How the links of a run are changed while it goes on.
#[cfg(live)]
// In the order in which they go: who waits for an order to be done hears that it will not be.
pub(super) struct LiveControl {
    orders: Orders,
    /// The socket, until the run begins.
    waiting: Option<Waiting>,
    /// The socket, from then on.
    serving: Option<Serving>,
}

#[cfg(live)]
impl LiveControl {
    pub(super) fn new(waiting: Waiting, orders: Orders) -> Self {
        LiveControl { orders, waiting: Some(waiting), serving: None }
    }

    /// The run begins.
    pub(super) fn begin(&mut self) -> Result<(), RunError> {
        if let Some(waiting) = self.waiting.take() {
            self.serving = Some(waiting.begin().map_err(super::live_error)?);
        }
        Ok(())
    }

    /// Lets commands in at these hosts, by their names.
    pub(super) fn let_in(&mut self, entrances: BTreeMap<String, Entrance>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.let_in(entrances);
        }
    }

    /// Becomes readable when a change is asked for.
    pub(super) fn bell(&self) -> Arc<OwnedFd> {
        self.orders.shared_bell()
    }
}

/// A run in progress.
pub(super) struct Session<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a RunOptions,
    pub(super) sinks: Sinks,
    pub(super) team: Team<'a>,
    observe: &'a mut dyn FnMut(&Progress) -> Control,
    links: Vec<LinkInfo>,
    /// The packet-hops that were last reported, and how many events there were then.
    reported: (u64, u64),
    course: Course,
    /// What skips time, if the scenario asks for it.
    fast_forward: Option<FastForward>,
    /// How its links are changed while it goes on, if they can be.
    #[cfg(live)]
    pub(super) control: Option<LiveControl>,
    /// An error in writing, or in meeting the other processes, with which the run ends.
    failure: Option<RunError>,
}

impl<'a> Session<'a> {
    /// A run whose outputs are open.
    pub(super) fn new(
        scenario: &'a Scenario,
        options: &'a RunOptions,
        observe: &'a mut dyn FnMut(&Progress) -> Control,
        links: Vec<LinkInfo>,
        sinks: Sinks,
        team: Team<'a>,
    ) -> Self {
        let course = Course::new(scenario);
        let fast_forward = scenario.fast_forward.then(|| FastForward::new(scenario, &links));
        Session {
            scenario,
            options,
            sinks,
            team,
            observe,
            links,
            reported: (0, 0),
            course,
            fast_forward,
            #[cfg(live)]
            control: None,
            failure: None,
        }
    }

    /// The duration of the whole run.
    pub(super) fn duration(&self) -> TimeDelta {
        self.course.duration
    }

    /// Reports that the run has not begun, for example while machines boot. Returns whether to continue.
    pub(super) fn report_waiting(&mut self) -> bool {
        let none = Progress { duration: self.course.duration, ..Progress::default() };
        (self.observe)(&none) == Control::Continue
    }

    /// Reports how far the run has come, to `now` on the network's clock.
    pub(super) fn report_progress(&mut self, now: Timestamp, network: &mut Network) -> Control {
        let events = network.events();
        // Counting packet-hops takes some time for each link, which in a large network is long beside a few events.
        if events.saturating_sub(self.reported.1) >= self.links.len() as u64 {
            self.reported = (network.packet_hops(), events);
        }
        (self.observe)(&Progress {
            simulated: now - Timestamp::ZERO + self.course.skipped().span(),
            duration: self.course.duration,
            packet_hops: self.reported.0,
            events,
        })
    }

    /// Takes all records. The party has to stop if they cannot be written.
    pub(super) fn drain(
        &mut self,
        network: &mut Network,
        world: &mut impl Measured,
        frames: &dyn Frames,
    ) -> Control {
        let drained = self.sinks.drain(network, world.hosts(), frames, &mut self.team);
        self.note(drained)
    }

    /// Takes the records of links. Those of live packets must be taken at once.
    pub(super) fn drain_links(
        &mut self,
        network: &mut Network,
        world: &mut impl Measured,
        frames: &dyn Frames,
    ) -> Control {
        let drained = self.sinks.drain_links(network, world.hosts(), frames);
        self.note(drained.map_err(RunError::from))
    }

    /// Makes the changes of links that have been asked for. `rung` says whether their bell was heard.
    #[cfg(live)]
    pub(super) fn attend(&mut self, rung: bool, network: &mut Network) {
        let Session { control, links, .. } = self;
        let Some(control) = control else { return };
        control.orders.attend(rung, network, |link, at, rate| {
            for info in links.iter_mut().filter(|info| info.link == link) {
                info.capacity = info.capacity.clone().changed(&[(at, rate)]);
            }
        });
    }

    /// The scenario of what has happened: with what was changed and typed while it went on.
    fn happened(&self) -> Cow<'a, Scenario> {
        #[cfg(live)]
        if let Some(control) = self.control.as_ref().filter(|control| !control.orders.is_idle()) {
            return Cow::Owned(control.orders.happened(self.scenario));
        }
        Cow::Borrowed(self.scenario)
    }

    /// Whether a record could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Fails if a record could not be written.
    fn check_written(&mut self) -> Result<(), RunError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn note(&mut self, drained: Result<(), RunError>) -> Control {
        match drained {
            Ok(()) => Control::Continue,
            Err(error) => {
                self.failure = Some(error);
                Control::Stop
            }
        }
    }

    /// Takes `party` through the run, and publishes the results. Returns nothing in processes other than the first.
    ///
    /// # Errors
    /// Those of the party; and if the results cannot be written. No incomplete files are left.
    pub(super) fn run(mut self, mut party: impl Party) -> Result<Option<RunOutcome>, RunError> {
        let conditions = expected::conditions(self.scenario);
        let stop = self.carry(&mut party)?;
        party.end(stop.as_ref(), &mut self)?;
        self.check_written()?;
        let (network, world) = party.parts();
        let team = &mut self.team;
        self.sinks.drain(network, world.hosts(), &NoFrames, team)?;
        self.sinks.reports(network, world.hosts(), team)?;
        let account = self.course.finish(network, world, &self.links, team)?;
        let now = self.course.skipped().now(network);
        let happened = self.happened();
        #[cfg(live)]
        {
            // Nobody is kept waiting for what will not be done.
            self.control = None;
        }
        let (network, team) = (party.parts().0, &mut self.team);
        let info = run_info(&happened, network, now, stop.as_ref().map(Stop::reason), team)?;
        let critical_events = network.critical_events();
        let Some(mut account) = account else { return Ok(None) };
        party.account(stop.as_ref(), &mut self, &mut account)?;

        let (packet_hops, events) = (info.packet_hops, info.events);
        let mut summary = Summary::new(info, account.flows, account.links);
        summary.add_transfers(&account.transfers);
        (summary.live, summary.guests) = (account.live, account.guests);
        if let Some(fast_forward) = self.fast_forward {
            let (skipped, stretches, audits) =
                fast_forward.account(now, &self.course, &summary.flows, &self.links);
            (summary.fast_forward, summary.stretches, summary.audits) = (Some(skipped), stretches, audits);
        }
        if stop.is_none() {
            account.failures.extend(expected::unmet(&conditions, &summary));
        }
        let (directory, tables) =
            self.sinks.publish(&happened, self.options, &mut summary, &account.transfers)?;
        Ok(Some(RunOutcome {
            summary,
            directory,
            tables,
            complete: stop.is_none(),
            packet_hops,
            events,
            parts: Parts::one("programs are at its ports"),
            critical_events,
            failures: account.failures,
            broken: match stop {
                Some(Stop::Broken(broken)) => Some(broken),
                _ => None,
            },
        }))
    }

    /// Goes from stop to stop until the end. If the run ended early, returns why.
    fn carry(&mut self, party: &mut impl Party) -> Result<Option<Stop>, RunError> {
        let (network, world) = party.parts();
        self.course.begin(network, world, &mut self.team)?;
        if let Some(fast_forward) = &mut self.fast_forward {
            fast_forward.begin(Reading(world.hosts()));
        }
        if let Some(stop) = party.begin()? {
            return Ok(Some(stop));
        }
        #[cfg(live)]
        self.control.as_mut().map_or(Ok(()), LiveControl::begin)?;
        loop {
            let now = self.course.skipped().now(party.parts().0);
            let mut until = self.course.next_stop(now, &self.sinks);
            if let Some(fast_forward) = &self.fast_forward {
                until = until.min(fast_forward.next_stop(self.course.skipped()));
            }
            let advance = party.advance(self.course.skipped().on_network(until), self);
            self.check_written()?;
            match advance? {
                Advance::Reached => {}
                Advance::Over => return Ok(None),
                Advance::Stopped(stop) => return Ok(Some(stop)),
            }
            let (network, world) = party.parts();
            if self.course.arrive(until, network, world, &self.links, &mut self.sinks, &mut self.team)? {
                return Ok(None);
            }
            if let Some(fast_forward) = &mut self.fast_forward {
                fast_forward.arrive(network, world.hosts(), &mut self.course);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use warpline_results::ResultError;

    use super::super::build::Records;
    use super::*;
    use crate::hosts::ModelHosts;

    /// A party whose last records cannot be written.
    struct Late(Network, Vec<ModelHosts>);

    impl Party for Late {
        type World = Vec<ModelHosts>;
        fn parts(&mut self) -> (&mut Network, &mut Vec<ModelHosts>) {
            (&mut self.0, &mut self.1)
        }
        fn advance(&mut self, _: Timestamp, _: &mut Session<'_>) -> Result<Advance, RunError> {
            Ok(Advance::Over)
        }
        fn end(&mut self, _: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
            let full = std::io::ErrorKind::StorageFull.into();
            session.note(Err(ResultError::io("write", Path::new("packets.parquet"), full).into()));
            Ok(())
        }
    }

    #[test]
    fn a_write_error_at_the_very_end_fails_the_run() {
        let text = "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\nflow = [{ from = \"a\", to = \"b\" }]";
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap();
        let options = RunOptions::default();
        let observe = &mut |_: &Progress| Control::Continue;
        let team = Team::alone();
        let sinks = Sinks::open(&scenario, &options, &Records::default(), &team).unwrap();
        let session = Session::new(&scenario, &options, observe, Vec::new(), sinks, team);
        let outcome = session.run(Late(Network::new(), vec![ModelHosts::default()]));
        assert!(matches!(outcome, Err(RunError::Results(_))), "{outcome:?}");
    }
}
