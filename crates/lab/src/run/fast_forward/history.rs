//! What was seen of the present situation: equal windows, which become longer as they become many, and whether they agree.

use warpline_core::counter::{Counter, Ratio};
use warpline_core::{FlowId, TimeDelta, Timestamp};
use warpline_net::{LinkStats, Network};

use super::forecast::{half_width, mean};
use crate::hosts::counters::FlowTotals;
use crate::hosts::reading::Reading;
use crate::hosts::skip::Activity;
use crate::run::counters::Counters;

/// Fewer windows than this say nothing.
const LEAST: usize = 16;
/// When there are so many, two become one.
const MOST: usize = 32;
/// How far the goodput of a flow in a stretch as long as what was seen may be off (95 %).
const FLOW_TOLERANCE: f64 = 0.1;
/// The same for that of all flows together.
const TOTAL_TOLERANCE: f64 = 0.02;
/// The same for the time that packets wait for a link, besides the time that one full packet takes there.
const WAIT_TOLERANCE: f64 = 0.1;
/// A flow that loses packets must have reduced its window as often as this: fewer teeth are no saw.
const TEETH: u64 = 6;
/// A flow that has stopped losing packets must have been watched this many times as long as it took to stop.
const CALM: u64 = 10;
/// A window with more than this many times as many losses as the mean, plus one, is a burst that does not repeat itself.
const BURST: f64 = 4.0;
/// Bits of a full packet.
const PACKET: f64 = 12_000.0;

/// What is known at an instant between two windows.
#[derive(Debug)]
struct Edge {
    counters: Counters,
    /// The congestion window of each flow that has one and fills it, in bytes.
    windows: Vec<Option<u64>>,
}

/// The windows since something changed, or since what lies before them was forgotten.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The length of a window, at first and now.
    first: TimeDelta,
    window: TimeDelta,
    /// One more than there are windows; empty before the first.
    edges: Vec<Edge>,
    /// Since when nothing has changed.
    since: Timestamp,
    /// When each flow was last seen to have reduced its window.
    reduced: Vec<Timestamp>,
}

/// Why what was seen cannot be taken for a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Too little was seen.
    Early,
    /// A flow sends in a way that does not repeat itself.
    Application(usize),
    /// A flow has delivered nothing for a while.
    Silent(usize),
    /// A flow has reduced its window, but too few times to know how often it does.
    Teeth(usize),
    /// The goodput of a flow, or its window, varies too much.
    Flow(usize),
    /// The goodput of all flows together varies too much.
    Total,
    /// The waiting time of a link varies too much.
    Link(usize),
    /// Most of the packets that a flow lost were lost at once.
    Losses(usize),
    /// The same of a link.
    Drops(usize),
}

/// What is expected of a stretch of time.
#[derive(Debug)]
pub(super) struct Forecast {
    /// What is counted in it.
    pub(super) counts: Counters,
    /// Half of the 95 % interval of the bytes that each flow delivers.
    pub(super) flows: Vec<f64>,
    /// The same of all together.
    pub(super) total: f64,
}

/// How often a flow has reduced its window, or was told to.
fn reductions(counters: &Counters, flow: usize) -> u64 {
    let totals = &counters.flows[flow];
    totals.recoveries + totals.rtos + totals.ce_marks
}

/// The mean time that packets have waited for a link between two readings, in nanoseconds.
fn wait(before: &LinkStats, after: &LinkStats) -> f64 {
    let grown = after.growth(before, Ratio::ONE);
    grown.queued_time.as_nanos() as f64 / grown.queued_packets.max(1) as f64
}

/// Whether most of what happened in these windows happened in one of them.
fn has_burst(series: &[f64]) -> bool {
    let most = BURST * (mean(series) + 1.0);
    series.iter().any(|&count| count > most)
}

impl History {
    /// Nothing was seen. Windows are so long at first.
    pub(super) fn new(window: TimeDelta) -> Self {
        History { first: window, window, ..History::default() }
    }

    /// The length of a window.
    pub(super) fn window(&self) -> TimeDelta {
        self.window
    }

    /// The time that was seen.
    pub(super) fn span(&self) -> TimeDelta {
        self.window.saturating_mul(self.count() as u64)
    }

    /// Since when nothing has changed.
    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// Number of windows.
    fn count(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// Something has changed: what was seen says nothing of what comes.
    pub(super) fn clear(&mut self, now: Timestamp) {
        self.edges.clear();
        self.window = self.first;
        self.since = now;
    }

    /// A window ends now, or the first one begins.
    pub(super) fn note(&mut self, network: &mut Network, world: Reading<'_>) {
        let counters = Counters::take(network, world.0);
        let flows = counters.flows.len();
        let windows = counters.windows.iter().map(|window| {
            // One that its application or its receiver limits says nothing.
            window.cwnd.filter(|cwnd| window.in_flight.unwrap_or(0) * 2 > *cwnd)
        });
        let windows = windows.collect();
        self.reduced.resize(flows, Timestamp::ZERO);
        if let Some(last) = self.edges.last() {
            for flow in 0..flows {
                if reductions(&counters, flow) > reductions(&last.counters, flow) {
                    self.reduced[flow] = counters.at;
                }
            }
        }
        self.edges.push(Edge { counters, windows });
    }

    /// Makes room: two windows become one. If they do not agree, the oldest quarter is forgotten, so that what was there at the beginning
    /// does not count for ever.
    pub(super) fn make_room(&mut self, steady: bool) {
        if self.count() < MOST {
            return;
        }
        if !steady {
            self.edges.drain(..MOST / 4);
        }
        let mut place = 0;
        self.edges.retain(|_| {
            place += 1;
            place % 2 == 1
        });
        self.window = self.window.saturating_mul(2);
    }

    /// A quantity in each window.
    fn series(&self, of: impl Fn(&Edge, &Edge) -> f64) -> Vec<f64> {
        self.edges.windows(2).map(|pair| of(&pair[0], &pair[1])).collect()
    }

    fn delivered(&self, flow: usize) -> Vec<f64> {
        let bytes = |edge: &Edge| edge.counters.flows[flow].delivered_bytes;
        self.series(|before, after| (bytes(after) - bytes(before)) as f64)
    }

    fn delivered_in_all(&self) -> Vec<f64> {
        let bytes = |edge: &Edge| edge.counters.flows.iter().map(|flow| flow.delivered_bytes).sum::<u64>();
        self.series(|before, after| (bytes(after) - bytes(before)) as f64)
    }

    /// Whether the windows agree, so that they say what comes. `rates` are those of the links in bit/s, zero for those without one.
    pub(super) fn check(&self, world: Reading<'_>, rates: &[f64]) -> Result<(), Obstacle> {
        let (Some(first), Some(last)) = (self.edges.first(), self.edges.last()) else {
            return Err(Obstacle::Early);
        };
        let now = last.counters.at;
        for (flow, activity) in world.activities(now).enumerate() {
            if activity == Activity::Unsteady {
                return Err(Obstacle::Application(flow));
            }
        }
        if self.count() < LEAST {
            return Err(Obstacle::Early);
        }
        // As long again as what was seen.
        let ahead = self.count() as f64;
        let varies = |series: &[f64], tolerance: f64, floor: f64| {
            half_width(series, ahead) > tolerance * mean(series) + floor
        };
        for (flow, activity) in world.activities(now).enumerate() {
            let delivered = self.delivered(flow);
            if activity == Activity::Steady && delivered.contains(&0.0) {
                return Err(Obstacle::Silent(flow));
            }
            if varies(&delivered, FLOW_TOLERANCE, 0.0) {
                return Err(Obstacle::Flow(flow));
            }
            let losses = |edge: &Edge| {
                let totals = &edge.counters.flows[flow];
                totals.lost_packets + totals.retransmitted_packets
            };
            if has_burst(&self.series(|before, after| losses(after).saturating_sub(losses(before)) as f64)) {
                return Err(Obstacle::Losses(flow));
            }
            if activity == Activity::Steady {
                self.check_window(flow, world.flow(FlowId(flow as u32)).start, (first, last), ahead)?;
            }
        }
        if varies(&self.delivered_in_all(), TOTAL_TOLERANCE, 0.0) {
            return Err(Obstacle::Total);
        }
        for (link, rate) in rates.iter().enumerate() {
            let waits =
                self.series(|before, after| wait(&before.counters.links[link], &after.counters.links[link]));
            let packet = if *rate > 0.0 { PACKET * 1e9 / rate } else { 0.0 };
            if varies(&waits, WAIT_TOLERANCE, packet) {
                return Err(Obstacle::Link(link));
            }
            let drops = |edge: &Edge| edge.counters.links[link].drops();
            if has_burst(&self.series(|before, after| (drops(after) - drops(before)) as f64)) {
                return Err(Obstacle::Drops(link));
            }
        }
        Ok(())
    }

    /// Whether the window of a flow, which began at `start`, goes up and down often enough, or does not move.
    fn check_window(
        &self,
        flow: usize,
        start: Timestamp,
        (first, last): (&Edge, &Edge),
        ahead: f64,
    ) -> Result<(), Obstacle> {
        let teeth = reductions(&last.counters, flow) - reductions(&first.counters, flow);
        if teeth >= TEETH {
            return Ok(());
        }
        let windows: Option<Vec<f64>> =
            self.edges[1..].iter().map(|edge| edge.windows[flow].map(|window| window as f64)).collect();
        let Some(windows) = windows else { return Ok(()) };
        let settled = self.reduced[flow].saturating_since(start.max(self.since));
        if teeth > 0 || self.span() < settled.saturating_mul(CALM) {
            return Err(Obstacle::Teeth(flow));
        }
        if half_width(&windows, ahead) > FLOW_TOLERANCE * mean(&windows) {
            return Err(Obstacle::Flow(flow));
        }
        Ok(())
    }

    /// What is expected of the next `span`.
    pub(super) fn forecast(&self, span: TimeDelta) -> Forecast {
        let (Some(first), Some(last)) = (self.edges.first(), self.edges.last()) else {
            return Forecast { counts: Counters::default(), flows: Vec::new(), total: 0.0 };
        };
        let ahead = span.as_nanos() as f64 / self.window.as_nanos() as f64;
        let counts = last.counters.growth(&first.counters, Ratio { span, of: self.span() });
        // Bytes come in packets, so that what was seen and what is to come may each have one more or less.
        let packets = |flow: &FlowTotals| 2.0 * flow.sent_bytes as f64 / flow.sent_packets.max(1) as f64;
        let half = |series: Vec<f64>, least: f64| (half_width(&series, ahead) * ahead).max(least);
        let flows = counts.flows.iter().enumerate();
        let flows: Vec<f64> =
            flows.map(|(flow, totals)| half(self.delivered(flow), packets(totals))).collect();
        let total = half(self.delivered_in_all(), counts.flows.iter().map(packets).fold(0.0, f64::max));
        Forecast { counts, flows, total }
    }
}
