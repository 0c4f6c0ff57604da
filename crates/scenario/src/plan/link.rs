//! The configuration of a link in the network.

use std::sync::Arc;

use warpline_core::parameter::Choice;
use warpline_core::{Bytes, NodeId, Rate, Streams, TimeDelta, Timestamp};
use warpline_net::loss::LossConfig;
use warpline_net::mahimahi::Trace;
use warpline_net::qdisc::Sizing;
use warpline_net::radio::{Drawn, Radio as _};
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{ChangeError, LinkChange, LinkConfig, PfcConfig, RateConfig};

use super::Fault;
use crate::component::Written;
use crate::expand::{LinkKind, LinkSpec, Speed};
use crate::files::Files;
use crate::link::{Loss, Pfc};
use crate::quantity::Size;
use crate::{Change, Scenario};

/// Bytes of a full packet.
const FULL_PACKET: u64 = 1500;

/// The key of a link's trace file.
pub(super) const TRACE: &str = "trace";

/// The capacity of a link over time.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// A constant rate.
    Constant(Rate),
    /// A rate that changes at given times.
    Scheduled(Arc<RateSchedule>),
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

    /// The same with other rates, each from its time until the next change, and of several for one time the last. A trace stays as it is.
    #[must_use]
    pub fn changed(self, rates: &[(Timestamp, Rate)]) -> Capacity {
        let steps = |schedule: &RateSchedule| Capacity::Scheduled(Arc::new(schedule.with(rates)));
        match self {
            same if rates.is_empty() => same,
            Capacity::Constant(first) => match Steps::new(first, &[], None) {
                Ok(constant) => steps(&RateSchedule::new(constant)),
                Err(_) => Capacity::Constant(first),
            },
            Capacity::Scheduled(schedule) => steps(&schedule),
            Capacity::Trace(trace) => Capacity::Trace(trace),
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

/// The configuration of a link in the network, which is to be called `name`, and its capacity. The files that it names are read by `files`, each once.
pub fn link_config(
    link: &LinkSpec<'_>,
    name: String,
    scenario: &Scenario,
    files: &mut Files,
) -> Result<(LinkConfig, Capacity), Fault> {
    let spec = link.kind;
    let (mut loss, mut duplicate, mut corrupt) =
        (spec.loss.0.clone(), spec.duplicate.0.clone(), spec.corrupt.0.clone());
    let mut jitter = spec.jitter.0.clone();
    for (key, chosen) in [("loss", &mut loss), ("duplicate", &mut duplicate), ("corrupt", &mut corrupt)] {
        load(key, chosen, scenario, files)?;
    }
    load("jitter", &mut jitter, scenario, files)?;
    let (rate, capacity, radio) = speed(spec, &name, scenario, files)?;
    // The link's delay is the smallest one, since the engine's look-ahead relies on it.
    let delay = spec.delays.iter().fold(spec.delay, |least, step| least.min(step.delay.0));
    let more = |whole: TimeDelta| whole.saturating_sub(delay);
    let steps: Vec<_> = spec.delays.iter().map(|step| (step.at.0, more(step.delay.0))).collect();
    let detour = (!steps.is_empty()).then(|| Steps::new(more(spec.delay), &steps, None)).transpose();
    let detour = detour.map_err(|error| Fault::new(&["delays"], format!("delays: {error}")))?;
    if radio.as_ref().is_some_and(|radio| radio.detour.is_some()) && detour.is_some() {
        let message = "`radio` excludes `delays`: a radio says how its delay changes";
        return Err(Fault::new(&["delays"], message.to_owned()));
    }
    let (least, over_time) = radio.map_or((TimeDelta::ZERO, None), |radio| (radio.delay, radio.detour));
    let mut config = LinkConfig {
        name,
        from: NodeId(link.from as u32),
        to: NodeId(link.to as u32),
        rate,
        delay: delay + least,
        detour: detour.or(over_time),
        qdisc: spec.queue.0.clone(),
        own_queue: None,
        sizing: sizing(link, &capacity, scenario),
        loss: loss.into(),
        duplicate,
        corrupt,
        jitter,
        outages: outages(spec),
        changes: Vec::new(),
        changeable: false,
        framing: spec.framing as u32,
        pfc: spec.pfc.map(|pfc| pfc_config(pfc, &capacity, spec)),
        // Who plans the network knows.
        counts_sources: false,
        record: !spec.record.is_empty(),
    };
    let faults = [
        ("queue", config.qdisc.faults_on(&config.sizing)),
        ("loss", config.loss.kind.faults()),
        ("duplicate", config.duplicate.faults()),
        ("corrupt", config.corrupt.faults()),
        ("jitter", config.jitter.faults()),
    ];
    for (key, faults) in faults {
        if let Some(fault) = faults.into_iter().next() {
            return Err(Fault::new(&[key, fault.parameter], format!("{key}: {fault}")));
        }
    }
    for &number in link.changes {
        let of_change = |fault: Fault| Fault { change: Some(number), ..fault };
        let change = &scenario.change[number];
        let at = Timestamp::ZERO + change.at.0;
        let planned = link_change(change, scenario, files).map_err(of_change)?;
        config.check(&planned).map_err(|error| of_change(refused(error)))?;
        config.changes.push((at, planned));
    }
    let rates = config.changes.iter().filter_map(|(at, change)| Some((*at, change.rate?)));
    let capacity = capacity.changed(&rates.collect::<Vec<_>>());
    Ok((config, capacity))
}

/// The change of a link in the network that a change of a scenario means. The files that it names are read by `files`, each once.
///
/// # Errors
/// If a file cannot be read.
pub fn link_change(change: &Change, scenario: &Scenario, files: &mut Files) -> Result<LinkChange, Fault> {
    let mut jitter = change.jitter.as_ref().map(|Written(kind)| kind.clone());
    jitter.iter_mut().try_for_each(|kind| load("jitter", kind, scenario, files))?;
    let mut chosen = |key, chosen: &Option<Loss>| {
        let mut chosen = chosen.as_ref().map(|Written(kind)| kind.clone());
        chosen.iter_mut().try_for_each(|kind| load(key, kind, scenario, files)).map(|()| chosen)
    };
    Ok(LinkChange {
        rate: change.rate.map(|rate| rate.0),
        delay: change.delay.map(|delay| delay.0),
        loss: chosen("loss", &change.loss)?.map(LossConfig::from),
        duplicate: chosen("duplicate", &change.duplicate)?,
        corrupt: chosen("corrupt", &change.corrupt)?,
        jitter,
        down: change.down,
    })
}

/// The fault of a change that the link does not allow.
fn refused(error: ChangeError) -> Fault {
    let key = match error {
        ChangeError::Rate => "rate",
        ChangeError::Delay => "delay",
        _ => "link",
    };
    Fault::new(&[key], error)
}

/// Reads the files of a component under a link's key.
fn load<C: Choice>(
    key: &'static str,
    component: &mut C,
    scenario: &Scenario,
    files: &mut Files,
) -> Result<(), Fault> {
    let loaded = files.load(component, &scenario.directory);
    loaded.map_err(|(name, reason)| Fault::new(&[key, name], reason))
}

/// The rate of a link, as configuration and as capacity.
fn speed(
    spec: &LinkKind,
    name: &str,
    scenario: &Scenario,
    files: &mut Files,
) -> Result<(RateConfig, Capacity, Option<Drawn>), Fault> {
    match &spec.speed {
        Speed::Constant(rate) => Ok((RateConfig::Constant(*rate), Capacity::Constant(*rate), None)),
        Speed::Schedule { initial, steps, repeat } => {
            let steps =
                Steps::new(*initial, steps, *repeat).map_err(|error| Fault::new(&["schedule"], error))?;
            let schedule = RateSchedule::new(steps);
            Ok((RateConfig::Scheduled(schedule.clone()), Capacity::Scheduled(Arc::new(schedule)), None))
        }
        Speed::Trace(path) => {
            // Shown relative to the scenario file, as its author wrote it, wherever the program runs.
            let shown = path.strip_prefix(&scenario.directory).unwrap_or(path).display();
            let trace = files
                .trace(path)
                .map_err(|reason| Fault::new(&[TRACE], format!("trace {shown}: {reason}")))?;
            Ok((RateConfig::Trace(Arc::clone(&trace)), Capacity::Trace(trace), None))
        }
        Speed::Radio(Written(radio)) => {
            if let Some(fault) = radio.faults().into_iter().next() {
                return Err(Fault::new(&["radio", fault.parameter], format!("radio: {fault}")));
            }
            let stream = Streams::new(scenario.seed).stream(&format!("link.{name}.radio"));
            let drawn = radio.draw(scenario.duration.0, stream);
            let capacity = match &drawn.rate {
                RateConfig::Constant(rate) => Capacity::Constant(*rate),
                RateConfig::Scheduled(schedule) => Capacity::Scheduled(Arc::new(schedule.clone())),
                RateConfig::Trace(trace) => Capacity::Trace(Arc::clone(trace)),
                RateConfig::Wifi(wifi) => Capacity::Constant(wifi.rate),
                _ => return Err(Fault::new(&["radio"], "radio: its rate is of an unknown kind".to_owned())),
            };
            Ok((drawn.rate.clone(), capacity, Some(drawn)))
        }
    }
}

/// Priority flow control with its defaults filled in.
fn pfc_config(pfc: Pfc, capacity: &Capacity, spec: &LinkKind) -> PfcConfig {
    let Pfc { xoff: Size(Bytes(xoff)), xon, headroom } = pfc;
    let bytes = |size: Option<Size>| size.map(|Size(Bytes(bytes))| bytes);
    let rate = capacity.rate_between(Timestamp::ZERO, Timestamp::ZERO + TimeDelta::from_secs(1));
    let until_heard = rate.bytes_in(spec.delay * 2).0.saturating_add(3 * FULL_PACKET);
    PfcConfig { xoff, xon: bytes(xon).unwrap_or(xoff / 2), headroom: bytes(headroom).unwrap_or(until_heard) }
}

fn outages(spec: &LinkKind) -> Vec<(Timestamp, Timestamp)> {
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
fn sizing(spec: &LinkSpec<'_>, capacity: &Capacity, scenario: &Scenario) -> Sizing {
    let plain = Sizing::default();
    Sizing {
        rate: capacity.mean(Timestamp::ZERO + scenario.duration.0),
        base_rtt: spec.base_rtt,
        packet: plain.packet.saturating_add(spec.kind.framing as u32),
    }
}
