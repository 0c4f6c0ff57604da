//! The configuration of a link in the network.

use std::sync::Arc;

use warpline_core::{NodeId, Rate, TimeDelta, Timestamp};
use warpline_net::jitter::{JitterConfig, JitterKind};
use warpline_net::loss::{LossConfig, LossKind};
use warpline_net::mahimahi::Trace;
use warpline_net::qdisc::Sizing;
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{LinkConfig, RateConfig};

use super::Fault;
use crate::expand::{LinkSpec, Speed};
use crate::{Jitter, Loss, Scenario, files};

/// The key of a link's trace file.
pub(super) const TRACE: &str = "trace";

/// The capacity of a link over time.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// A constant rate.
    Constant(Rate),
    /// A rate that changes at given times.
    Scheduled(RateSchedule),
    /// The transmission opportunities of a trace.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// The mean rate between two instants.
    pub fn rate_between(&self, from: Timestamp, to: Timestamp) -> Rate {
        match self {
            Capacity::Constant(rate) => *rate,
            Capacity::Scheduled(schedule) => schedule.mean_rate(from, to),
            Capacity::Trace(trace) => trace.rate_between(from, to),
        }
    }

    /// The mean rate that queues are sized by; of a schedule, the mean until `end`.
    fn mean(&self, end: Timestamp) -> Rate {
        match self {
            Capacity::Trace(trace) => trace.mean_rate(),
            other => other.rate_between(Timestamp::ZERO, end),
        }
    }
}

/// The configuration of a link in the network, and its capacity.
pub fn link_config(spec: &LinkSpec, scenario: &Scenario) -> Result<(LinkConfig, Capacity), Fault> {
    let (rate, capacity) = speed(spec, scenario)?;
    // The link's delay is the smallest one, since the engine's look-ahead relies on it.
    let delay = spec.delays.iter().fold(spec.delay, |least, step| least.min(step.delay.0));
    let more = |whole: TimeDelta| whole.saturating_sub(delay);
    let steps: Vec<_> = spec.delays.iter().map(|step| (step.at.0, more(step.delay.0))).collect();
    let detour = (!steps.is_empty()).then(|| Steps::new(more(spec.delay), &steps, None)).transpose();
    let config = LinkConfig {
        name: spec.name.clone(),
        from: NodeId(spec.from as u32),
        to: NodeId(spec.to as u32),
        rate,
        delay,
        detour: detour.map_err(|error| Fault::new(&["delays"], format!("delays: {error}")))?,
        qdisc: spec.queue.0.clone(),
        own_queue: None,
        sizing: sizing(spec, &capacity, scenario),
        loss: loss(&spec.loss),
        jitter: jitter(&spec.jitter),
        outages: outages(spec),
        framing: spec.framing as u32,
        record: !spec.record.is_empty(),
    };
    let jitter = config.jitter.as_ref().map_or(Ok(()), JitterConfig::validate);
    if let Some(fault) = config.qdisc.faults_on(&config.sizing).into_iter().next() {
        return Err(Fault::new(&["queue", fault.parameter], format!("queue: {fault}")));
    }
    for (key, checked) in [("loss", config.loss.validate()), ("jitter", jitter)] {
        checked.map_err(|error| Fault::new(&[key, error.parameter], format!("{key}: {error}")))?;
    }
    Ok((config, capacity))
}

/// The rate of a link, as configuration and as capacity.
fn speed(spec: &LinkSpec, scenario: &Scenario) -> Result<(RateConfig, Capacity), Fault> {
    match &spec.speed {
        Speed::Constant(rate) => Ok((RateConfig::Constant(*rate), Capacity::Constant(*rate))),
        Speed::Schedule { initial, steps, repeat } => {
            let steps =
                Steps::new(*initial, steps, *repeat).map_err(|error| Fault::new(&["schedule"], error))?;
            let schedule = RateSchedule::new(steps);
            Ok((RateConfig::Scheduled(schedule.clone()), Capacity::Scheduled(schedule)))
        }
        Speed::Trace(path) => {
            // Shown relative to the scenario file, as its author wrote it, wherever the program runs.
            let shown = path.strip_prefix(&scenario.directory).unwrap_or(path).display();
            let trace = files::trace(path)
                .map_err(|reason| Fault::new(&[TRACE], format!("trace {shown}: {reason}")))?;
            let trace = Arc::new(trace);
            Ok((RateConfig::Trace(Arc::clone(&trace)), Capacity::Trace(trace)))
        }
    }
}

fn outages(spec: &LinkSpec) -> Vec<(Timestamp, Timestamp)> {
    let mut outages: Vec<_> = spec
        .down
        .iter()
        .map(|down| (Timestamp::ZERO + down.at.0, Timestamp::ZERO + down.at.0 + down.duration.0))
        .filter(|(from, until)| from < until)
        .collect();
    outages.sort();
    // Merge outages that touch.
    outages.dedup_by(|later, earlier| {
        let touch = later.0 <= earlier.1;
        if touch {
            earlier.1 = earlier.1.max(later.1);
        }
        touch
    });
    outages
}

/// The values that size a link's queue. Full packets include this link's framing, as the queue counts it.
fn sizing(spec: &LinkSpec, capacity: &Capacity, scenario: &Scenario) -> Sizing {
    let plain = Sizing::default();
    Sizing {
        rate: capacity.mean(Timestamp::ZERO + scenario.duration.0),
        base_rtt: spec.base_rtt,
        packet: plain.packet.saturating_add(spec.framing as u32),
    }
}

fn loss(loss: &Loss) -> LossConfig {
    let kind = match loss {
        Loss::None {} => LossKind::None,
        Loss::Bernoulli { probability } => LossKind::Bernoulli { p: *probability },
        Loss::Every { n } => LossKind::Every { n: *n, offset: 0 },
        Loss::List { packets } => {
            let mut packets = packets.clone();
            packets.sort_unstable();
            packets.dedup();
            LossKind::Listed { packets }
        }
        Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => LossKind::GilbertElliott {
            p: *good_to_bad,
            r: *bad_to_good,
            loss_good: loss_good.unwrap_or(0.0),
            loss_bad: loss_bad.unwrap_or(1.0),
        },
    };
    LossConfig { kind, data_only: false }
}

fn jitter(jitter: &Jitter) -> Option<JitterConfig> {
    let (kind, reorder) = match jitter {
        Jitter::None {} => return None,
        Jitter::Uniform { min, max, reorder } => {
            (JitterKind::Uniform { low: min.map_or(TimeDelta::ZERO, |time| time.0), high: max.0 }, reorder)
        }
        Jitter::Normal { mean, stddev, reorder } => {
            (JitterKind::Normal { mean: mean.0, stddev: stddev.0 }, reorder)
        }
        Jitter::Exponential { mean, reorder } => (JitterKind::Exponential { mean: mean.0 }, reorder),
        Jitter::Pareto { mean, shape, reorder } => {
            (JitterKind::Pareto { mean: mean.0, shape: shape.unwrap_or(1.5) }, reorder)
        }
    };
    Some(JitterConfig { kind, max: None, reorder: reorder.unwrap_or(false) })
}
