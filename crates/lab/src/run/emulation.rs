//! A run under the real clock or a dilated one: an emulator with namespaces, guests and programs at its ports.

use std::os::fd::AsFd;

use warpline_core::{TimeDelta, Timestamp};
use warpline_live::audit::{Audit, PortAudit};
use warpline_live::clock::LagPolicy;
use warpline_live::emulator::{Emulator, EmulatorConfig, EmulatorError, Ended};
use warpline_net::{Control, Network};
use warpline_results::{LiveHost, LiveSummary};

use super::course::Account;
use super::endpoints::{Attached, Ending, Named, Planned};
use super::live_host::live_host;
use super::pacer::Pacer;
use super::routers::{LiveWorld, TurnFrames};
use super::session::{Advance, LiveControl, Party, Session, Stop};
use super::stage::Stage;
use super::watch::Lateness;
use super::{Broken, RunError};

/// The emulator returns at least this often, in nanoseconds of real time, so that Ctrl-C works at once.
const LOOK: u64 = 100_000_000;
/// How often the readiness of programs is checked while others wait for it, in nanoseconds of real time.
const READY: u64 = 50_000_000;
/// Progress is reported, and records of simulated hosts are taken, at least this often, in nanoseconds of real time.
const REPORT: u64 = 20_000_000;

/// The party of a live run. The order of its fields is the order of dropping: ports are closed before their hosts end.
pub(super) struct Emulation {
    emulator: Emulator,
    /// The hosts, by kind, in the order of their ports.
    hosts: Vec<Box<dyn Attached>>,
    stage: Stage,
    pacer: Pacer,
    /// Whether the clock has started.
    began: bool,
    /// When progress was last reported.
    reported: Timestamp,
    /// How the emulator kept pace, once the clock has stopped.
    audit: Audit,
}

impl Emulation {
    /// Prepares everything, and boots the guests.
    ///
    /// # Errors
    /// If the system refuses something that the run needs.
    pub(super) fn new(
        stage: Stage,
        planned: Vec<Box<dyn Planned>>,
        session: &mut Session<'_>,
    ) -> Result<Self, RunError> {
        let scenario = session.scenario;
        let attached = planned.into_iter().map(|kind| kind.attach(stage.ground(), session));
        let mut hosts: Vec<Box<dyn Attached>> = attached.collect::<Result<_, _>>()?;
        let mut emulator = Emulator::new(EmulatorConfig {
            lag: scenario.clock.max_lag.map_or(LagPolicy::BestEffort, |limit| LagPolicy::Hard(limit.0)),
            others: hosts.iter().map(|kind| kind.threads()).sum(),
            mtu: hosts.iter().map(|kind| kind.largest()).fold(stage.largest, u32::max),
            ..EmulatorConfig::default()
        });
        hosts.iter_mut().try_for_each(|kind| kind.add_ports(&mut emulator))?;
        // After the programs were prepared, so that they keep their ordinary priority.
        let pacer = Pacer::new(&scenario.clock);
        Ok(Emulation {
            emulator,
            hosts,
            stage,
            pacer,
            began: false,
            reported: Timestamp::ZERO,
            audit: Audit::default(),
        })
    }

    /// Lets the emulator run until `until`, or until there is news of a program or a guest.
    fn turn(&mut self, until: Timestamp, session: &mut Session<'_>) -> Turn {
        let interval = self.span(REPORT);
        let (kinds, reported) = (&self.hosts, &mut self.reported);
        let mut interrupted = false;
        let mut changed = false;
        let Stage { network, world, .. } = &mut self.stage;
        let bell = session.control.as_ref().map(LiveControl::bell);
        let mut wake: Vec<_> = kinds.iter().filter_map(|kind| kind.fd()).collect();
        wake.extend(bell.iter().map(AsFd::as_fd));
        let ran = self.emulator.run(network, world, until, &wake, |turn| {
            session.attend(turn.woken, turn.network);
            changed |= turn.woken || kinds.iter().any(|kind| kind.has_notices());
            let now = turn.network.now();
            let report = now.saturating_since(*reported) >= interval || now >= until;
            let LiveWorld { hosts, models, routers } = turn.world;
            if report {
                models.drain(hosts);
            }
            let frames = TurnFrames { routers, pool: turn.pool };
            let drained = match report {
                true => session.drain(turn.network, hosts, &frames),
                false => session.drain_links(turn.network, hosts, &frames),
            };
            if drained == Control::Stop {
                return Control::Stop;
            }
            if report {
                *reported = now;
                interrupted = session.report_progress(now, turn.network) == Control::Stop;
            }
            if interrupted || changed { Control::Stop } else { Control::Continue }
        });
        match ran {
            Err(error @ EmulatorError::Lag { .. }) => Turn::Broken(Broken::Lag(error.to_string())),
            Err(error) => Turn::Broken(Broken::Port(error.to_string())),
            Ok(_) if interrupted => Turn::Interrupted,
            Ok(Ended::Stopped) => Turn::Paused,
            Ok(Ended::Reached) => Turn::Reached,
        }
    }

    /// The run's time that passes in this many nanoseconds of real time.
    fn span(&self, nanos: u64) -> TimeDelta {
        TimeDelta::from_nanos(self.pacer.tdf().to_run(nanos).max(1))
    }

    fn exchange_notices(&mut self) {
        self.hosts.iter_mut().for_each(|kind| kind.exchange_notices(&mut self.stage.readiness));
    }

    /// Notes which hosts and programs have ended. If one has failed, returns why the run cannot continue.
    fn look(&mut self) -> Option<String> {
        let now = self.stage.network.now();
        let Emulation { hosts, stage, .. } = self;
        let found: Vec<String> =
            hosts.iter_mut().filter_map(|kind| kind.look(now, &mut stage.readiness)).collect();
        found.into_iter().next()
    }
}

/// Why a turn of the emulator ended.
enum Turn {
    Reached,
    /// A program has ended, a guest has sent a notice, or a record could not be written.
    Paused,
    Interrupted,
    Broken(Broken),
}

impl Party for Emulation {
    type World = LiveWorld;

    fn parts(&mut self) -> (&mut Network, &mut LiveWorld) {
        (&mut self.stage.network, &mut self.stage.world)
    }

    fn begin(&mut self) -> Result<Option<Stop>, RunError> {
        if !self.hosts.iter().all(|kind| kind.is_up()) {
            return Ok(Some(Stop::Interrupted));
        }
        let tdf = self.pacer.tdf();
        self.hosts.iter_mut().try_for_each(|kind| kind.begin(tdf))?;
        self.began = true;
        self.pacer.begin(&mut self.emulator, &self.hosts, TimeDelta::ZERO);
        Ok(None)
    }

    fn advance(&mut self, stop: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError> {
        loop {
            self.pacer.look(&mut self.emulator, &self.hosts);
            let now = self.stage.network.now();
            self.exchange_notices();
            self.hosts.iter_mut().for_each(|kind| kind.start(now, &mut self.stage.readiness));
            let Stage { network, world, readiness, .. } = &mut self.stage;
            readiness.release(now, &mut world.hosts, network);
            self.exchange_notices();
            if self.stage.readiness.failure().is_some() {
                return Ok(Advance::Stopped(Stop::NotReady));
            }
            if self.stage.readiness.is_done() {
                return Ok(Advance::Over);
            }
            let starts = self.hosts.iter().filter_map(|kind| kind.next_start(now, self.span(READY)));
            let until = starts.fold(stop.min(now + self.span(LOOK)), Timestamp::min);
            let turn = self.turn(until, session);
            let load = self.emulator.load();
            session.sinks.lateness = Some(Lateness { packets: load.packets, late: load.late });
            if session.has_failed() {
                return Ok(Advance::Stopped(Stop::Interrupted));
            }
            // An emulator that lags behind does not check for changes, and a guest whose kernel has ended can say why.
            if let Some(dead) = self.look() {
                return Ok(Advance::Stopped(Stop::Broken(Broken::Guest(dead))));
            }
            match turn {
                Turn::Reached if until == stop => return Ok(Advance::Reached),
                Turn::Reached | Turn::Paused => {}
                Turn::Interrupted => return Ok(Advance::Stopped(Stop::Interrupted)),
                Turn::Broken(broken) => return Ok(Advance::Stopped(Stop::Broken(broken))),
            }
        }
    }

    fn end(&mut self, stop: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
        self.hosts.iter_mut().for_each(|kind| kind.settle());
        self.audit = self.emulator.audit();
        self.emulator.relax();
        // Count what ended in the last moment as ended.
        self.look();
        self.stage.expire(stop, session);
        let ending = Ending {
            complete: stop.is_none(),
            early: stop.is_some() || self.stage.readiness.is_done(),
            orderly: self.began && !matches!(stop, Some(Stop::Broken(_))),
        };
        if ending.orderly {
            self.hosts.iter_mut().try_for_each(|kind| kind.release())?;
            self.pacer.wind_down(&mut self.emulator, &self.hosts);
        }
        // Guests end first, since the programs of live hosts serve them until then.
        self.hosts.iter_mut().rev().try_for_each(|kind| kind.end(ending))?;
        let LiveWorld { hosts, models, .. } = &mut self.stage.world;
        models.drain(hosts);
        Ok(())
    }

    fn account(
        &mut self,
        stop: Option<&Stop>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<(), RunError> {
        let audit = &self.audit;
        let now = self.stage.network.now();
        account.live = Some(LiveSummary {
            kept_pace: audit.summary.kept_pace(),
            dilation: self.pacer.summary(now.as_secs_f64(), audit.summary.duration_s),
            hosts: Vec::new(),
            audit: audit.summary.clone(),
            programs: Vec::new(),
        });
        let kinds = &mut self.hosts;
        let programs = self.stage.account(stop, session, account, |accounting, session, account| {
            kinds.iter_mut().map(|kind| kind.account(accounting, session, account)).collect()
        })?;
        let plan = self.stage.world.routers.plan();
        let mut ports = audit.ports.iter();
        for ((kind, hosts), programs) in kinds.iter_mut().zip(&self.stage.hosts).zip(programs) {
            let row = |(port, (name, node)): (&PortAudit, &Named)| {
                let c = &port.counters;
                LiveHost {
                    // What arrives at the port was sent by the host.
                    sent_packets: c.received_packets,
                    sent_bytes: c.received_bytes,
                    received_packets: c.sent_packets,
                    received_bytes: c.sent_bytes,
                    lost_outside: c.lost(),
                    card_drops: c.card_drops,
                    malformed: c.malformed,
                    ignored: c.ignored,
                    unanswered: c.unanswered,
                    ..live_host(name, *node, plan)
                }
            };
            let rows = ports.by_ref().take(hosts.len()).zip(hosts).map(row).collect();
            kind.summarise(rows, programs, account);
        }
        Ok(())
    }
}
