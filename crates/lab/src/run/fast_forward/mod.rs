//! Skipping stretches of a simulation in which everything repeats itself.
//!
//! The network and all that TCP knows live on a clock of their own. Skipping a stretch cuts it out, as one cuts a film: the run's clock goes
//! ahead, the network's does not, and no packet, timer or window changes. What was measured before is counted for the stretch. Only what is
//! planned for stated times moves: starts and stops of flows, and what links do.
//!
//! A stretch is skipped if what was seen since the last planned change agrees with itself ([`history`]), and it is never longer than
//! that, so that nothing is said of a future that is longer than the known past. It ends before the next planned change. The first stretch
//! that could be skipped, and a random tenth of the others, is run exactly and compared ([`audit`]).
//!
//! What is skipped depends only on counters, which are read at fixed times of the simulation, and on a random stream of its own. So it is the same
//! on any number of cores.

mod audit;
mod forecast;
mod history;

use warpline_core::{FlowId, Stream, Streams, TimeDelta, Timestamp};
use warpline_net::Network;
use warpline_results::fast_forward::{ONLY_AUDITED, TOO_SHORT};
use warpline_results::{AuditedMeasure, FastForwardSummary, FlowRow, Stretch};
use warpline_scenario::Scenario;

use super::course::Course;
use super::measure::LinkInfo;
use super::skipped::Skipped;
use crate::hosts::ModelHosts;
use crate::hosts::reading::Reading;
use audit::{Audit, Findings};
use history::{Forecast, History, Obstacle};

/// The share of the stretches that are run after all.
const AUDITED: f64 = 0.1;
/// The first window is this part of the run.
const FIRST_WINDOW: u64 = 4096;
/// Between two stretches, this part of what is known is seen anew.
const ANEW: u64 = 16;
/// No stretch is longer than this part of the time between two changes, so that there are several, and to audit one costs little.
const PARTS: u64 = 6;

/// What skips time.
#[derive(Debug)]
pub(super) struct FastForward {
    warmup: Timestamp,
    /// Draws the stretches that are audited.
    coin: Stream,
    history: History,
    /// The rates of the links, in bit/s; zero for those without a constant one.
    rates: Vec<f64>,
    /// When the present window ends, and when something is planned next, on the network's clock.
    window_end: Timestamp,
    next_change: Timestamp,
    /// When the last stretch ended.
    last_stretch: Timestamp,
    audit: Option<Audit>,
    findings: Findings,
    /// What can be missing or too much in the measured part for the skipping, in bytes: of each flow, and of all together.
    promised: (Vec<f64>, f64),
    stretches: Vec<Stretch>,
    /// Why nothing could be skipped the last time.
    obstacle: Option<Obstacle>,
}

impl FastForward {
    /// At the start of a run.
    pub(super) fn new(scenario: &Scenario, links: &[LinkInfo]) -> Self {
        let end = Timestamp::ZERO + scenario.duration.0;
        let rate = |link: &LinkInfo| link.capacity.rate_between(Timestamp::ZERO, end).as_bps() as f64;
        let window = TimeDelta::from_nanos((scenario.duration.0.as_nanos() / FIRST_WINDOW).max(1));
        FastForward {
            warmup: Timestamp::ZERO + scenario.warmup.0,
            coin: Streams::new(scenario.seed).stream("fast_forward.audit"),
            history: History::new(window),
            rates: links.iter().map(rate).collect(),
            window_end: Timestamp::ZERO + window,
            next_change: Timestamp::ZERO,
            last_stretch: Timestamp::ZERO,
            audit: None,
            findings: Findings::default(),
            promised: (Vec::new(), 0.0),
            stretches: Vec::new(),
            obstacle: None,
        }
    }

    /// The run begins. Windows are longer than round trips.
    pub(super) fn begin(&mut self, world: Reading<'_>) {
        let flows = (0..world.flow_count() as u32).map(|flow| world.flow(FlowId(flow)));
        let longest = flows.map(|flow| flow.spec.idle.rtt).max().unwrap_or_default();
        let window = self.history.window().max(longest.saturating_mul(2));
        self.history = History::new(window);
        self.window_end = Timestamp::ZERO + window;
    }

    /// When it wants to look at the run next.
    pub(super) fn next_stop(&self, skipped: &Skipped) -> Timestamp {
        let piece = self.audit.as_ref().map_or(Timestamp::NEVER, Audit::next_stop);
        self.window_end.min(piece) + skipped.span()
    }

    /// Looks at the run if it is time to, and skips a stretch if that is possible.
    pub(super) fn arrive(&mut self, network: &mut Network, world: &mut [ModelHosts], course: &mut Course) {
        let now = network.now();
        let window_ends = now >= self.window_end;
        if window_ends {
            self.end_window(network, world, course);
        }
        if let Some(audit) = &mut self.audit {
            if now >= audit.next_stop() && audit.note(network, Reading(world)) {
                self.end_audit(now, course);
            }
        } else if window_ends && self.obstacle.is_none() {
            self.consider(network, world, course);
        }
        if window_ends {
            self.window_end = now + self.history.window();
        }
    }

    /// A window ends: notes it, and whether the windows agree.
    fn end_window(&mut self, network: &mut Network, world: &mut [ModelHosts], course: &Course) {
        let now = network.now();
        if self.next_change <= now {
            self.history.clear(now);
            self.last_stretch = now;
            self.next_change = self.planned(network, world, course);
        }
        world.iter_mut().for_each(ModelHosts::drain_latencies);
        self.history.note(network, Reading(world));
        let verdict = self.history.check(Reading(world), &self.rates);
        self.history.make_room(verdict.is_ok());
        self.obstacle = verdict.err();
    }

    /// When something is planned next, on the network's clock.
    fn planned(&self, network: &Network, world: &[ModelHosts], course: &Course) -> Timestamp {
        let now = network.now();
        let course = course.skipped().on_network(course.next_change(course.skipped().now(network)));
        let flows = world.iter().map(|hosts| hosts.next_change(now)).min().unwrap_or(Timestamp::NEVER);
        network.next_change().min(flows).min(course)
    }

    /// Skips or audits a stretch, if there is room for one.
    fn consider(&mut self, network: &mut Network, world: &mut [ModelHosts], course: &mut Course) {
        let (now, seen, window) = (network.now(), self.history.span(), self.history.window());
        if (now.saturating_since(self.last_stretch)).saturating_mul(ANEW) < seen {
            return;
        }
        // What leads up to a change is run.
        let in_windows = |span: TimeDelta| span.as_nanos() / window.as_nanos();
        let room = in_windows(self.next_change.saturating_since(now + window));
        let period = in_windows(self.next_change.saturating_since(self.history.since()));
        let windows = room.min(in_windows(seen)).min((period / PARTS).max(1));
        if windows == 0 {
            return;
        }
        let span = rounded(window.saturating_mul(windows));
        let forecast = self.history.forecast(span);
        let from = course.skipped().now(network);
        // The coin is tossed for each, so that what it says of one does not depend on others.
        let audited = self.coin.chance(AUDITED) || self.stretches.is_empty();
        let (from_s, until_s) = (from.as_secs_f64(), (from + span).as_secs_f64());
        self.stretches.push(Stretch { from_s, until_s, audited, ..Stretch::default() });
        if audited {
            self.audit = Some(Audit::new(span, forecast, network, Reading(world)));
            return;
        }
        self.promise(from, &forecast);
        course.skip(now, span, forecast.counts);
        network.skip(span);
        for (part, hosts) in world.iter_mut().enumerate() {
            hosts.skip(now, span, &mut network.port_of(part, now));
        }
        self.last_stretch = now;
        self.next_change = self.planned(network, world, course);
    }

    /// Notes how far off the counters may be for a stretch that is skipped at `from`.
    fn promise(&mut self, from: Timestamp, forecast: &Forecast) {
        if from < self.warmup {
            return;
        }
        let (flows, total) = &mut self.promised;
        flows.resize(forecast.flows.len(), 0.0);
        flows.iter_mut().zip(&forecast.flows).for_each(|(sum, half)| *sum += half);
        *total += forecast.total;
    }

    /// An audited stretch is over.
    fn end_audit(&mut self, now: Timestamp, course: &Course) {
        let Some(audit) = self.audit.take() else { return };
        let errors = self.findings.add(&audit);
        if let Some(stretch) = self.stretches.last_mut() {
            stretch.until_s = (now + course.skipped().span()).as_secs_f64();
            stretch.goodput_error = errors.total;
            stretch.flow_goodput_error_max = errors.worst_flow;
        }
        self.last_stretch = now;
    }

    /// What was skipped of a run that has come to `now`, and how far off its results are for that.
    pub(super) fn account(
        mut self,
        now: Timestamp,
        course: &Course,
        flows: &[FlowRow],
        links: &[LinkInfo],
    ) -> (FastForwardSummary, Vec<Stretch>, Vec<AuditedMeasure>) {
        // The run was stopped within it.
        if self.audit.is_some() {
            self.stretches.pop();
        }
        let skipped = course.skipped().span();
        let count =
            |audited| self.stretches.iter().filter(|stretch| stretch.audited == audited).count() as u64;
        let (total, single) = self.findings.widening();
        let share = |promised: f64, delivered: u64| (delivered > 0).then(|| promised / delivered as f64);
        let delivered: u64 = flows.iter().map(|flow| flow.delivered_bytes).sum();
        let each: Vec<f64> = flows
            .iter()
            .zip(&self.promised.0)
            .filter_map(|(flow, promised)| share(promised * single, flow.delivered_bytes))
            .collect();
        let some = count(false) > 0;
        let summary = FastForwardSummary {
            exact_s: (now - Timestamp::ZERO).saturating_sub(skipped).as_secs_f64(),
            skipped_s: skipped.as_secs_f64(),
            skipped: count(false),
            audited: count(true),
            goodput_within: share(self.promised.1 * total, delivered).filter(|_| some),
            flow_goodput_within_mean: (!each.is_empty()).then(|| forecast::mean(&each)),
            flow_goodput_within_max: each.iter().copied().reduce(f64::max),
            obstacle: (!some).then(|| match self.obstacle {
                Some(obstacle) => obstacle.explain(flows, links),
                None if count(true) > 0 => ONLY_AUDITED.to_owned(),
                None => TOO_SHORT.to_owned(),
            }),
        };
        let measures = self.findings.measures();
        (summary, self.stretches, measures)
    }
}

/// A span of at least nine tenths of `span` that is a multiple of a round one, of 100 ms for example. The period of a constant rate often
/// divides that: then its packets stay in step with what begins later.
fn rounded(span: TimeDelta) -> TimeDelta {
    const SECOND: u64 = 1_000_000_000;
    let nanos = span.as_nanos();
    let mut unit = 1;
    while unit < SECOND && unit <= nanos / 100 {
        unit *= 10;
    }
    TimeDelta::from_nanos(nanos - nanos % unit)
}

impl Obstacle {
    /// In words.
    fn explain(self, flows: &[FlowRow], links: &[LinkInfo]) -> String {
        let flow = |index: usize| flows.get(index).map_or("", |flow| &flow.name);
        let link = |index: usize| {
            links.get(index).map_or_else(String::new, |link| format!("{}>{}", link.from, link.to))
        };
        match self {
            Obstacle::Early => "too little time passes without a change".to_owned(),
            Obstacle::Application(index) => {
                format!("{} sends in a way that does not repeat itself", flow(index))
            }
            Obstacle::Silent(index) => format!("{} delivers nothing for a while", flow(index)),
            Obstacle::Teeth(index) => format!("{} reduces its window too seldom", flow(index)),
            Obstacle::Flow(index) => format!("{} varies too much", flow(index)),
            Obstacle::Losses(index) => format!("{} loses packets in bursts", flow(index)),
            Obstacle::Total => "the goodput varies too much".to_owned(),
            Obstacle::Link(index) => format!("the queue of {} varies too much", link(index)),
            Obstacle::Drops(index) => format!("{} loses packets in bursts", link(index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_round() {
        let ns = TimeDelta::from_nanos;
        for (span, round) in
            [(7, 7), (99, 99), (123, 120), (3_516_789_012, 3_500_000_000), (75_600_000_001, 75_000_000_000)]
        {
            assert_eq!(rounded(ns(span)), ns(round));
        }
    }
}
