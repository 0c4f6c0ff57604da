//! What the networks of data centres have in common: hosts on edge switches, and switches in layers above them.

use std::sync::Arc;

use warpline_core::Rate;

use super::super::checker::Check;
use super::super::link::{DuplexOptions, LinkOptions};
use super::super::quantity::BitRate;
use super::{Edge, at};

/// The key of the links between hosts and edge switches.
pub(super) const HOST: &str = "host";
/// The key of the links above those.
pub(super) const FABRIC: &str = "fabric";
/// The key of the ratio that sets their rate.
const OVERSUBSCRIPTION: &str = "oversubscription";
/// The group of all hosts.
pub(super) const GROUPS: &[&str] = &["host"];

/// Links among switches: `own`, and what that does not say of rate, delay, queue, framing and MTU as on the way from a switch down to
/// what is `below` it.
pub(super) fn above(own: &DuplexOptions, below: &DuplexOptions) -> DuplexOptions {
    let options = taken_over(below.back()).overridden_by(&own.options);
    DuplexOptions { options, reverse: own.reverse.clone() }
}

/// Links among switches above others: `own`, and what that does not say of rate, delay, queue, framing and MTU as in those `below`, in each
/// direction.
pub(super) fn above_fabric(own: &DuplexOptions, below: &DuplexOptions) -> DuplexOptions {
    let options = taken_over(below.options.clone()).overridden_by(&own.options);
    DuplexOptions { options, reverse: Some(above(own, below).back()) }
}

/// What links among switches take over from other links.
fn taken_over(from: LinkOptions) -> LinkOptions {
    LinkOptions {
        rate: from.rate,
        schedule: from.schedule,
        repeat: from.repeat,
        trace: from.trace,
        radio: from.radio,
        delay: from.delay,
        queue: from.queue,
        framing: from.framing,
        mtu: from.mtu,
        ..LinkOptions::default()
    }
}

/// How many times more the hosts of an edge switch can send than it can pass on upwards.
#[derive(Clone, Copy)]
pub(super) struct Oversubscription {
    pub(super) ratio: Option<f64>,
    /// Hosts of an edge switch.
    pub(super) hosts: u32,
    /// Links upwards from there.
    pub(super) up: u32,
}

impl Oversubscription {
    /// The links upwards, with the rate that the ratio gives them.
    pub(super) fn fabric(self, own: &DuplexOptions, host: &DuplexOptions) -> DuplexOptions {
        let mut fabric = above(own, host);
        if let (Some(ratio), Some(rate)) = (self.ratio, host.options.rate) {
            let bps = rate.0.as_bps() as f64 * f64::from(self.hosts) / (f64::from(self.up) * ratio);
            // In place of what the hosts' links have on the way back.
            let rate = Some(BitRate(Rate::from_bps(bps.round() as u64)));
            fabric.options = fabric.options.overridden_by(&LinkOptions { rate, ..LinkOptions::default() });
        }
        fabric
    }

    /// Notes what is wrong with the ratio.
    pub(super) fn check(self, check: &mut Check<'_>, own: &DuplexOptions, host: &DuplexOptions) {
        let Some(ratio) = self.ratio else { return };
        let of = LinkOptions::has_rate;
        if ratio.is_nan() || ratio <= 0.0 {
            let message = format!("`{OVERSUBSCRIPTION}` is out of range: {ratio}");
            check.error(&at(OVERSUBSCRIPTION), message, "above 0; 1 passes on all that the hosts can send");
        } else if of(&own.options) {
            let message = format!("`{OVERSUBSCRIPTION}` and `{FABRIC}.rate` exclude each other");
            check.error(&at(OVERSUBSCRIPTION), message, "leave one out");
        } else if host.options.rate.is_none() || host.options.schedule.is_some() {
            let message = format!("`{OVERSUBSCRIPTION}` needs a constant `{HOST}.rate`");
            check.error(&at(OVERSUBSCRIPTION), message, format!("or give `{FABRIC}.rate`"));
        }
    }
}

/// Adds hosts, each on its edge switch, `hosts` to a switch, in the order of `switches`.
pub(super) fn hosts(
    switches: impl Iterator<Item = String>,
    hosts: u32,
    options: &Arc<DuplexOptions>,
    add: &mut dyn FnMut(Edge),
) {
    for (number, switch) in switches.enumerate() {
        for host in 0..hosts as usize {
            add(Edge::new(format!("host.{}", number * hosts as usize + host), switch.clone(), HOST, options));
        }
    }
}
