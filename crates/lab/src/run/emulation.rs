//! A run by the real clock or a dilated one: namespaces, guests and programs at the ports of an emulator.

use warpline_core::{TimeDelta, Timestamp};
use warpline_live::audit::{Audit, PortAudit};
use warpline_live::clock::LagPolicy;
use warpline_live::emulator::{Emulator, EmulatorConfig, EmulatorError, Ended};
use warpline_live::host::{HostConfig, Hosts};
use warpline_net::{Control, Network};

use super::audit::{audit_summary, live_host};
use super::course::Account;
use super::guests::{Guests, Machines, Report};
use super::pacer::Pacer;
use super::programs::Programs;
use super::routers::{LiveWorld, TurnFrames};
use super::session::{Advance, Party, Session, Stop};
use super::stage::Stage;
use super::{Broken, RunError, live_error};
use warpline_results::{GuestSummary, LiveHost, LiveSummary};

/// The longest that the emulator goes without a look around, in nanoseconds of the machine: Ctrl-C feels immediate.
const LOOK: u64 = 100_000_000;
/// How often the readiness of programs is looked at while others wait for it, in nanoseconds of the machine.
const READY: u64 = 50_000_000;
/// How often progress is reported, and records of simulated hosts are taken, at the least, in nanoseconds of the machine.
const REPORT: u64 = 20_000_000;

/// The party of a live run. Fields are dropped in this order: programs end before their hosts.
pub(super) struct Emulation {
    programs: Programs,
    emulator: Emulator,
    hosts: Option<Hosts>,
    machines: Option<Machines>,
    stage: Stage,
    pacer: Pacer,
    /// All guests have booted.
    booted: bool,
    /// The clock has started.
    began: bool,
    /// When progress was reported last.
    reported: Timestamp,
    /// What the guests said at the end.
    reports: Vec<Report>,
    /// How the emulator kept pace, when the clock stopped.
    audit: Audit,
}

impl Emulation {
    /// Makes everything ready, and boots the guests.
    ///
    /// # Errors
    /// If the system does not give what the run needs.
    pub(super) fn new(
        stage: Stage,
        guests: Option<Guests>,
        session: &mut Session<'_>,
    ) -> Result<Self, RunError> {
        let scenario = session.scenario;
        let mut machines = guests.map(Machines::new).transpose()?;
        let booted = match &mut machines {
            Some(machines) => machines.boot(&mut || session.tell_waiting())?,
            None => true,
        };
        let config = |(name, node): &(String, u32)| {
            let (v4, v6) = stage.world.routers.plan().of(*node as usize);
            HostConfig { name: name.clone(), v4, v6, mtu: stage.mtu[*node as usize] }
        };
        let configs: Vec<HostConfig> = stage.live.iter().map(config).collect();
        let hosts = match configs.is_empty() {
            true => None,
            false => {
                let purpose = format!("warpline run ({})", scenario.name);
                Some(Hosts::create(&purpose, &configs).map_err(live_error)?)
            }
        };
        let mut emulator = Emulator::new(EmulatorConfig {
            lag: scenario.clock.max_lag.map_or(LagPolicy::BestEffort, |limit| LagPolicy::Hard(limit.0)),
            mtu: stage.largest,
            ..EmulatorConfig::default()
        });
        if let Some(hosts) = &hosts {
            for port in hosts.ports().map_err(live_error)? {
                emulator.add_port(Box::new(port));
            }
            emulator.note_offloads(hosts.offloads.clone());
        }
        if let Some(machines) = &mut machines {
            for port in machines.ports()? {
                emulator.add_port(port);
            }
        }
        let programs = Programs::prepare(
            scenario,
            &stage.live,
            hosts.as_ref(),
            stage.world.routers.plan(),
            session.sinks.directory(),
            &stage.readiness,
        )?;
        // After the programs were made: they keep the priority that they have.
        let pacer = Pacer::new(&scenario.clock);
        Ok(Emulation {
            programs,
            machines,
            hosts,
            emulator,
            stage,
            pacer,
            booted,
            began: false,
            reported: Timestamp::ZERO,
            reports: Vec::new(),
            audit: Audit::default(),
        })
    }

    /// Lets the emulator run up to `until`, or until a program or a guest has something to say.
    fn turn(&mut self, until: Timestamp, session: &mut Session<'_>) -> Turn {
        let interval = self.span(REPORT);
        let (machines, reported) = (&self.machines, &mut self.reported);
        let mut interrupted = false;
        let mut changed = false;
        let Stage { network, world, .. } = &mut self.stage;
        let wake = [self.programs.fd()];
        let ran = self.emulator.run(network, world, until, &wake, |turn| {
            changed |= turn.woken || machines.as_ref().is_some_and(Machines::has_notices);
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
                interrupted = session.tell(now, turn.network) == Control::Stop;
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

    /// The run's time that passes in so many nanoseconds of the machine.
    fn span(&self, nanos: u64) -> TimeDelta {
        TimeDelta::from_nanos(self.pacer.tdf().to_run(nanos).max(1))
    }

    fn exchange_notices(&mut self) {
        if let Some(machines) = &self.machines {
            machines.exchange_notices(&mut self.stage.readiness);
        }
    }
}

/// How a turn of the emulator ended.
enum Turn {
    Reached,
    /// A program has ended, a guest has something to say, or what was recorded could not be written.
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
        if let Some(machines) = &self.machines {
            machines.limit(true)?;
        }
        if !self.booted {
            return Ok(Some(Stop::Interrupted));
        }
        self.began = true;
        self.pacer.begin(&mut self.emulator, self.machines.as_ref(), TimeDelta::ZERO);
        Ok(None)
    }

    fn advance(&mut self, stop: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError> {
        loop {
            self.pacer.look(&mut self.emulator, self.machines.as_ref());
            let now = self.stage.network.now();
            self.exchange_notices();
            self.programs.start(now, &mut self.stage.readiness);
            let Stage { network, world, readiness, .. } = &mut self.stage;
            readiness.release(now, &mut world.hosts, network);
            self.exchange_notices();
            if self.stage.readiness.failure().is_some() {
                return Ok(Advance::Stopped(Stop::NotReady));
            }
            if self.stage.readiness.is_done() {
                return Ok(Advance::Over);
            }
            let next = self.programs.next_start(now, self.span(READY)).unwrap_or(stop);
            let until = stop.min(now + self.span(LOOK)).min(next);
            let turn = self.turn(until, session);
            if session.has_failed() {
                return Ok(Advance::Stopped(Stop::Interrupted));
            }
            // An emulator that lags does not come to look at changes.
            self.programs.look(self.stage.network.now(), &mut self.stage.readiness);
            // A guest whose kernel has ended can say why.
            if let Some(dead) = self.machines.as_mut().and_then(Machines::look) {
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
        self.audit = self.emulator.audit();
        self.emulator.relax();
        // What ended in the last moment counts as ended.
        self.programs.look(self.stage.network.now(), &mut self.stage.readiness);
        self.stage.expire(stop, session);
        if let Some(machines) = &mut self.machines
            && self.began
            && !matches!(stop, Some(Stop::Broken(_)))
        {
            machines.limit(false)?;
            self.pacer.wind_down(&mut self.emulator, machines);
            if stop.is_some() || self.stage.readiness.is_done() {
                machines.tell_end();
            }
            self.reports = match stop {
                None => machines.finish()?,
                Some(_) => machines.hurry(),
            };
        }
        self.programs.stop();
        if let Some(hosts) = &self.hosts {
            hosts.end_processes();
        }
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
        let (mut live, wrong) = self.programs.judge(stop.is_none(), &Stage::evidence(session));
        account.failures.extend(wrong);
        let results =
            self.machines.as_ref().map(|machines| machines.results(std::mem::take(&mut self.reports)));
        let programs = self.stage.account(stop, results.as_ref(), &mut live, session, account)?;
        let audit = &self.audit;
        let ports = audit.ports.iter().zip(&self.stage.ports);
        let row = |(port, (name, node)): (&PortAudit, &(String, u32))| {
            let c = &port.counters;
            LiveHost {
                // What comes in at the port is what the host has sent.
                sent_packets: c.received_packets,
                sent_bytes: c.received_bytes,
                received_packets: c.sent_packets,
                received_bytes: c.sent_bytes,
                lost_outside: c.lost(),
                malformed: c.malformed,
                ignored: c.ignored,
                ..live_host(name, *node, self.stage.world.routers.plan())
            }
        };
        let mut hosts: Vec<LiveHost> = ports.map(row).collect();
        let guest_hosts = hosts.split_off(self.stage.live.len());
        let now = self.stage.network.now();
        account.live = Some(LiveSummary {
            kept_pace: audit.kept_pace(),
            dilation: self.pacer.summary(now.as_secs_f64(), audit.duration_s),
            hosts,
            audit: audit_summary(audit),
            programs: live,
        });
        account.guests = self.machines.as_ref().zip(results).map(|(machines, results)| GuestSummary {
            kernel: machines.kernel().to_owned(),
            reproducible: false,
            pushes: 0,
            machines: results.machines,
            hosts: guest_hosts,
            programs,
        });
        Ok(())
    }
}
