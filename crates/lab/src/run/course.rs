//! The course of a run under any clock: its warm-up, its samples and its end.

use warpline_core::{TimeDelta, Timestamp};
use warpline_net::Network;
use warpline_results::{
    FlowRow, FlowSample, GuestSummary, LinkRow, LiveSummary, ResultError, RunInfo, TransferRow,
};
use warpline_scenario::Scenario;

use super::measure::{LinkInfo, Meter};
use super::sinks::Sinks;
use crate::hosts::ModelHosts;

/// What is measured: the simulated hosts, and live traffic if there is any.
pub(super) trait Measured {
    /// The simulated hosts.
    fn hosts(&mut self) -> &mut ModelHosts;
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
    fn hosts(&mut self) -> &mut ModelHosts {
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

/// The position of a run in its course.
pub(super) struct Course {
    pub(super) duration: TimeDelta,
    pub(super) end: Timestamp,
    warmup: Timestamp,
    interval: TimeDelta,
    last_sample: Timestamp,
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
            meter: Meter::new(),
        }
    }

    /// Starts the simulated hosts, before the clock starts.
    pub(super) fn begin<M: Measured>(&mut self, network: &mut Network, measured: &mut M) {
        measured.hosts().start(&mut network.port(Timestamp::ZERO));
        if self.warmup == Timestamp::ZERO {
            self.end_warmup(network, measured);
        }
    }

    fn end_warmup<M: Measured>(&mut self, network: &mut Network, measured: &mut M) {
        measured.before_reading();
        self.meter.end_warmup(network, measured.hosts());
        measured.end_warmup(network.now());
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
    ) -> Result<bool, ResultError> {
        if until == self.warmup {
            self.end_warmup(network, measured);
        }
        if until == self.last_sample + self.interval && !sinks.is_empty() {
            measured.before_reading();
            let span = until - self.last_sample;
            self.last_sample = until;
            let (mut flows, links) = self.meter.sample(network, measured.hosts(), links);
            flows.extend(measured.samples(until, span));
            sinks.each(|sink| {
                sink.flow_samples(&flows)?;
                sink.link_samples(&links)
            })?;
        }
        Ok(until == self.end)
    }

    /// The rows of flows, transfers and links at the end.
    pub(super) fn finish<M: Measured>(
        &self,
        network: &mut Network,
        measured: &mut M,
        links: &[LinkInfo],
    ) -> Account {
        measured.before_reading();
        let (flows, transfers, links) = self.meter.finish(network, measured.hosts(), links);
        Account { flows, transfers, links, ..Account::default() }
    }
}

/// Facts about the run; `stopped` is why it ended early, if it did.
pub(super) fn run_info(scenario: &Scenario, network: &mut Network, stopped: Option<&str>) -> RunInfo {
    RunInfo {
        scenario: scenario.name.clone(),
        scenario_hash: scenario.scenario_hash(),
        seed: scenario.seed,
        clock: scenario.clock.mode.name().to_owned(),
        duration_s: scenario.duration.0.as_secs_f64(),
        warmup_s: scenario.warmup.0.as_secs_f64(),
        simulated_s: network.now().as_secs_f64(),
        complete: stopped.is_none(),
        stopped: stopped.map(str::to_owned),
        packet_hops: network.packet_hops(),
        events: network.events(),
    }
}
