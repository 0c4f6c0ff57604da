//! The course of a run under any clock: its warm-up, its samples and its end.

use warpline_core::{TimeDelta, Timestamp};
use warpline_net::Network;
use warpline_results::{FlowRow, FlowSample, GuestSummary, LinkRow, LiveSummary, RunInfo, TransferRow};
use warpline_scenario::Scenario;

use super::RunError;
use super::counters::Counters;
use super::measure::{LinkInfo, Meter};
use super::sinks::Sinks;
use super::skipped::Skipped;
use super::team::Team;
use crate::hosts::ModelHosts;
use crate::hosts::reading::Ending;

/// What is measured: the simulated hosts, and live traffic if there is any.
pub(super) trait Measured {
    /// The simulated hosts of each part of the network.
    fn hosts(&mut self) -> &mut [ModelHosts];
    /// Called before counters are read.
    fn before_reading(&mut self) {}
    /// Called at the end of the warm-up.
    fn end_warmup(&mut self, _now: Timestamp) {}
    /// Samples of flows other than those of the simulated hosts, over the last `span`.
    fn samples(&mut self, _now: Timestamp, _span: TimeDelta) -> Vec<FlowSample> {
        Vec::new()
    }
}

impl Measured for ModelHosts {
    fn hosts(&mut self) -> &mut [ModelHosts] {
        std::slice::from_mut(self)
    }
}

impl Measured for Vec<ModelHosts> {
    fn hosts(&mut self) -> &mut [ModelHosts] {
        self
    }
}

/// The results of a run.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) flows: Vec<FlowRow>,
    pub(super) transfers: Vec<TransferRow>,
    pub(super) links: Vec<LinkRow>,
    /// Programs and flows that failed, as messages.
    pub(super) failures: Vec<String>,
    /// Results of the emulator, if there was one.
    pub(super) live: Option<LiveSummary>,
    /// Results of guests, if there were any.
    pub(super) guests: Option<GuestSummary>,
}

/// The position of a run in its course. Its times are those of the run, which go ahead of the network's where something is skipped.
pub(super) struct Course {
    pub(super) duration: TimeDelta,
    pub(super) end: Timestamp,
    warmup: Timestamp,
    interval: TimeDelta,
    last_sample: Timestamp,
    /// Whether something was skipped since then.
    cut: bool,
    meter: Meter,
}

impl Course {
    /// The course of a scenario, at its start.
    pub(super) fn new(scenario: &Scenario) -> Course {
        Course {
            duration: scenario.duration.0,
            end: Timestamp::ZERO + scenario.duration.0,
            warmup: Timestamp::ZERO + scenario.warmup.0,
            interval: scenario.sample_interval.0,
            last_sample: Timestamp::ZERO,
            cut: false,
            meter: Meter::default(),
        }
    }

    /// Starts the simulated hosts, before the clock starts.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn begin<M: Measured>(
        &mut self,
        network: &mut Network,
        measured: &mut M,
        team: &mut Team<'_>,
    ) -> Result<(), RunError> {
        for (part, hosts) in measured.hosts().iter().enumerate() {
            hosts.start(&mut network.port_of(part, Timestamp::ZERO));
        }
        if self.warmup == Timestamp::ZERO {
            self.end_warmup(network, measured, team)?;
        }
        Ok(())
    }

    fn end_warmup<M: Measured>(
        &mut self,
        network: &mut Network,
        measured: &mut M,
        team: &mut Team<'_>,
    ) -> Result<(), RunError> {
        measured.before_reading();
        self.meter.end_warmup(network, measured.hosts(), team)?;
        measured.end_warmup(network.now());
        Ok(())
    }

    /// What has been skipped so far.
    pub(super) fn skipped(&self) -> &Skipped {
        &self.meter.skipped
    }

    /// When no stretch that is skipped may reach any further, for what the run does then: the end of the warm-up, or the end.
    pub(super) fn next_change(&self, now: Timestamp) -> Timestamp {
        if now < self.warmup { self.warmup } else { self.end }
    }

    /// Skips `span` from `now` on, on the network's clock, for which `credit` is counted. The time series has no rows for any interval of
    /// which something is skipped.
    pub(super) fn skip(&mut self, now: Timestamp, span: TimeDelta, credit: Counters) {
        self.meter.skipped.skip(now, span, credit);
        let nanos = (now + self.meter.skipped.span()).as_nanos();
        self.last_sample = Timestamp::from_nanos(nanos - nanos % self.interval.as_nanos());
        self.cut = true;
    }

    /// The next instant at which something is to be measured.
    pub(super) fn next_stop(&self, now: Timestamp, sinks: &Sinks) -> Timestamp {
        let mut until = self.end;
        if now < self.warmup {
            until = until.min(self.warmup);
        }
        if !sinks.is_empty() {
            until = until.min(self.last_sample + self.interval);
        }
        until
    }

    /// Measures what is due at `until`, which the run has reached. Returns whether that is the end.
    pub(super) fn arrive<M: Measured>(
        &mut self,
        until: Timestamp,
        network: &mut Network,
        measured: &mut M,
        links: &[LinkInfo],
        sinks: &mut Sinks,
        team: &mut Team<'_>,
    ) -> Result<bool, RunError> {
        if until == self.warmup {
            self.end_warmup(network, measured, team)?;
        }
        if until == self.last_sample + self.interval && !sinks.is_empty() {
            measured.before_reading();
            let span = until - self.last_sample;
            self.last_sample = until;
            let present = self.meter.skipped.with_credit(Counters::take(network, measured.hosts()));
            if let Some(present) = present.together(team)? {
                if std::mem::take(&mut self.cut) {
                    self.meter.restart_sample(present);
                    return Ok(until == self.end);
                }
                let (mut flows, links) = self.meter.sample(present, links);
                flows.extend(measured.samples(until, span));
                sinks.samples((until - Timestamp::ZERO, self.duration), &flows, &links)?;
            }
        }
        Ok(until == self.end)
    }

    /// The rows of flows, transfers and links at the end, in the first process; nothing in the others.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn finish<M: Measured>(
        &self,
        network: &mut Network,
        measured: &mut M,
        links: &[LinkInfo],
        team: &mut Team<'_>,
    ) -> Result<Option<Account>, RunError> {
        measured.before_reading();
        let hosts = measured.hosts();
        let end = self.meter.skipped.with_credit(Counters::take(network, hosts)).together(team)?;
        let endings = team.gather(Ending::of(hosts, network.now()))?;
        let (Some(end), Some(endings)) = (end, endings) else { return Ok(None) };
        let plans = hosts.first().map_or(&[][..], |hosts| &hosts.flows);
        let (flows, transfers, links) = self.meter.finish(end, &Ending::together(endings), plans, links);
        Ok(Some(Account { flows, transfers, links, ..Account::default() }))
    }
}

/// Facts about the run, which has come to `now`; `stopped` is why it ended early, if it did.
///
/// # Errors
/// If a process has ended.
pub(super) fn run_info(
    scenario: &Scenario,
    network: &mut Network,
    now: Timestamp,
    stopped: Option<&str>,
    team: &mut Team<'_>,
) -> Result<RunInfo, RunError> {
    let done = team.gather((network.packet_hops(), network.events()))?.unwrap_or_default();
    Ok(RunInfo {
        scenario: scenario.name.clone(),
        scenario_hash: scenario.scenario_hash(),
        seed: scenario.seed,
        clock: scenario.clock.mode.name().to_owned(),
        duration_s: scenario.duration.0.as_secs_f64(),
        warmup_s: scenario.warmup.0.as_secs_f64(),
        simulated_s: now.as_secs_f64(),
        complete: stopped.is_none(),
        stopped: stopped.map(str::to_owned),
        packet_hops: done.iter().map(|(hops, _)| hops).sum(),
        events: done.iter().map(|(_, events)| events).sum(),
    })
}
