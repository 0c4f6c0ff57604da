//! The course of a run, by whatever clock: its warm-up, its samples, its end, and what is said of it afterwards.

use warpline_core::{TimeDelta, Timestamp};
use warpline_net::Network;
use warpline_results::{
    FlowRow, FlowSample, GuestSummary, LinkRow, LiveSummary, ResultError, RunInfo, TransferRow,
};
use warpline_scenario::Scenario;

use super::measure::{LinkInfo, Meter};
use super::sinks::Sinks;
use crate::hosts::ModelHosts;

/// What is measured: the simulated hosts, and what else there is beside them.
pub(super) trait Measured {
    /// The simulated hosts.
    fn hosts(&mut self) -> &mut ModelHosts;
    /// The counters are about to be read.
    fn before_reading(&mut self) {}
    /// The measured part begins.
    fn end_warmup(&mut self, _now: Timestamp) {}
    /// Samples of flows that the simulated hosts do not know; the last were taken `span` ago.
    fn samples(&mut self, _now: Timestamp, _span: TimeDelta) -> Vec<FlowSample> {
        Vec::new()
    }
}

impl Measured for ModelHosts {
    fn hosts(&mut self) -> &mut ModelHosts {
        self
    }
}

/// What a run has come to.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) flows: Vec<FlowRow>,
    pub(super) transfers: Vec<TransferRow>,
    pub(super) links: Vec<LinkRow>,
    /// Programs and flows that did not end as they should, for people.
    pub(super) failures: Vec<String>,
    /// What is known of the emulator, if there was one.
    pub(super) live: Option<LiveSummary>,
    /// What is known of guests, if there were any.
    pub(super) guests: Option<GuestSummary>,
}

/// Where a run is.
pub(super) struct Course {
    pub(super) duration: TimeDelta,
    pub(super) end: Timestamp,
    warmup: Timestamp,
    interval: TimeDelta,
    last_sample: Timestamp,
    meter: Meter,
}

impl Course {
    /// The course of a scenario, at its beginning.
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

    /// The clock is about to start.
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

    /// How far the run goes before something is to be measured.
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

    /// The run has come to `until`: measures what is to be measured there. Returns whether that is the end.
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

/// What ran; `stopped` is why it did not come to its end.
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
