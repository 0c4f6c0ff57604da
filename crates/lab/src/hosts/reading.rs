//! What all hosts together have done: the sums over the parts of a network, in one process or in several.
//!
//! Each process reads its own parts. What it reads is a value that can be sent; the first process puts all of them together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warpline_core::counter::Counter as _;
use warpline_core::{FlowId, Timestamp};

use super::counters::{FlowTotals, Messages};
use super::flow::Flow;
use super::tcp::TcpEndpoint;
use super::transfer::{Transfer, TransferEnd};
use super::window::Window;
use super::wire::WireEndpoint;
use super::{Endpoint, ModelHosts};

/// A transfer with its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) transfer: Transfer,
    /// When it was delivered, or when its connection failed before that; none if it is under way.
    pub(crate) at: Option<Timestamp>,
    /// Whether it was delivered.
    pub(crate) complete: bool,
}

/// The counters of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowCount {
    /// The sums so far.
    pub(crate) totals: FlowTotals,
    /// The windows of its connections now.
    pub(crate) window: Window,
}

/// What is known of a flow's end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowEnd {
    /// When it started, and the latencies of its messages, where its application runs.
    pub(crate) run: Option<(Timestamp, Messages)>,
    /// What failed in its connections, if anything did.
    pub(crate) outcome: Option<String>,
    /// Whether something of it is open.
    open: bool,
    /// When it ended, as far as is known.
    ended: Option<Timestamp>,
    /// Whether the sender of its only connection has given up.
    gave_up: bool,
    /// Whether it has an open connection that is no transfer, at the data's sender.
    opened: bool,
    /// Whether a connection opened by the other host has been accepted.
    accepted: bool,
}

impl FlowEnd {
    /// Adds what another part knows of it.
    fn add(&mut self, other: FlowEnd) {
        self.run = self.run.take().or(other.run);
        self.outcome = self.outcome.take().or(other.outcome);
        self.open |= other.open;
        self.gave_up |= other.gave_up;
        self.ended = self.ended.max(other.ended);
        self.opened |= other.opened;
        self.accepted |= other.accepted;
    }

    /// When the flow ended: its last data was delivered, or it stopped with nothing left to deliver. None if it has not ended.
    /// `transfers` are those of the flow.
    pub(crate) fn time(&self, transfers: &[Ended]) -> Option<Timestamp> {
        if !self.gave_up && (self.open || self.opened && !self.accepted) {
            return None;
        }
        let mut ended = self.ended;
        for transfer in transfers {
            ended = ended.max(Some(transfer.at?));
        }
        ended
    }
}

impl ModelHosts {
    /// The open ends of a flow's connections here.
    fn ends(&self, flow: &Flow) -> impl Iterator<Item = &TcpEndpoint> {
        flow.open.values().filter_map(|timer| match &self.endpoints[timer.index()] {
            Endpoint::Tcp(end) => Some(&**end),
            _ => None,
        })
    }

    /// The open ends of a flow's connections over the wire whose other ends are here, too.
    fn paired_ends(&self, flow: &Flow) -> impl Iterator<Item = &WireEndpoint> {
        flow.open.values().filter_map(|timer| match &self.endpoints[timer.index()] {
            Endpoint::Wire(end) if end.paired => Some(&**end),
            _ => None,
        })
    }

    /// Adds what has happened to a flow here.
    fn add_to(&self, flow: &Flow, count: &mut FlowCount) {
        let totals = &mut count.totals;
        totals.merge(&flow.closed);
        totals.merge(&flow.reading.totals);
        let mut window = flow.reading.window;
        for end in self.ends(flow) {
            end.add_to(totals);
            if end.end.sends() {
                window.add(&end.connection);
            }
        }
        if let Some(Endpoint::Measure(end)) = flow.measure.map(|(near, _)| &self.endpoints[near.index()]) {
            end.add_to(totals);
        }
        if let Some(running) = &flow.running {
            running.datagrams.add_to(totals);
        }
        match flow.sink.map(|sink| &self.endpoints[sink.index()]) {
            Some(Endpoint::Udp(sink)) => sink.add_to(totals),
            Some(Endpoint::MediaReceiver(end)) => end.add_to(totals),
            _ => {}
        }
        if let Some(Endpoint::MediaSender(end)) = flow.media.map(|timer| &self.endpoints[timer.index()]) {
            end.add_to(totals);
            window = end.window();
        }
        count.window.or(window);
    }

    /// When a flow ended here as far as is known, if nothing of it is open; `None` if something is.
    fn ended(&self, flow: &Flow, now: Timestamp) -> Option<Option<Timestamp>> {
        if let Some(running) = &flow.running
            && now < flow.stop
            && !running.app.is_through()
        {
            return None;
        }
        let mut ended = flow.ended;
        for timer in flow.open.values() {
            match &self.endpoints[timer.index()] {
                // With both ends here, the receiver of a stream knows; transfers are counted by themselves.
                Endpoint::Wire(end) if end.paired && !end.is_stream() => {}
                Endpoint::Wire(end) => ended = ended.max(Some(end.finished?)),
                Endpoint::Tcp(end) if end.is_stream() => {
                    if end.finished.is_none() && !end.connection.is_closed() {
                        return None;
                    }
                    ended = ended.max(end.finished);
                }
                _ => {}
            }
        }
        match flow.sink.map(|sink| &self.endpoints[sink.index()]) {
            Some(Endpoint::Udp(sink)) => ended = ended.max(sink.last_arrival()),
            Some(Endpoint::MediaReceiver(end)) => ended = ended.max(end.last_arrival()),
            _ => {}
        }
        Some(ended)
    }

    /// What is known here of a flow's end.
    fn end_of(&self, flow: &Flow, now: Timestamp) -> FlowEnd {
        let ended = self.ended(flow, now);
        let failure = flow.outcome.or(flow.reading.unanswered.then_some("no answer"));
        FlowEnd {
            run: flow.running.as_ref().map(|_| (flow.start, flow.messages.clone())),
            outcome: failure.map(str::to_owned),
            open: ended.is_none(),
            gave_up: flow.gave_up,
            ended: ended.unwrap_or(flow.ended),
            opened: self.ends(flow).any(|end| end.end.sends() && !end.exchange.transfer)
                || self.paired_ends(flow).any(|end| end.end.sends() && !end.exchange.transfer),
            accepted: flow.accepted,
        }
    }
}

/// The flows of all parts of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a>(pub(crate) &'a [ModelHosts]);

impl<'a> Reading<'a> {
    /// Number of flows.
    pub(crate) fn flow_count(self) -> usize {
        self.0.first().map_or(0, |hosts| hosts.flows.len())
    }

    /// A flow's plan and the like. What of it changes is that of the part where its application runs.
    ///
    /// # Panics
    /// If there is no such flow.
    pub(crate) fn flow(self, flow: FlowId) -> &'a Flow {
        let of_parts = || self.0.iter().map(|hosts| &hosts.flows[flow.index()]);
        of_parts().find(|flow| flow.running.is_some()).unwrap_or(&self.0[0].flows[flow.index()])
    }
}

/// All counters of all flows of some parts so far, by flow.
pub(crate) fn counts(parts: &[ModelHosts]) -> Vec<FlowCount> {
    let mut counts = vec![FlowCount::default(); parts.first().map_or(0, |hosts| hosts.flows.len())];
    for hosts in parts {
        for (flow, count) in hosts.flows.iter().zip(&mut counts) {
            hosts.add_to(flow, count);
        }
    }
    counts
}

/// What is known at the end of a run, in some parts or in all of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ending {
    /// What is known of each flow of which anything is.
    flows: BTreeMap<FlowId, FlowEnd>,
    transfers: Vec<Transfer>,
    transfer_ends: Vec<TransferEnd>,
}

impl Ending {
    /// What is known in these parts.
    pub(crate) fn of(parts: &[ModelHosts], now: Timestamp) -> Ending {
        let all = parts.iter().map(|hosts| {
            let flows = hosts.flows.iter().zip(0..).map(|(flow, id)| (FlowId(id), hosts.end_of(flow, now)));
            Ending {
                flows: flows.filter(|(_, end)| *end != FlowEnd::default()).collect(),
                transfers: hosts.transfers.clone(),
                transfer_ends: hosts.transfer_ends.clone(),
            }
        });
        Ending::together(all)
    }

    /// What is known in all of these.
    pub(crate) fn together(all: impl IntoIterator<Item = Ending>) -> Ending {
        let mut sum = Ending::default();
        for other in all {
            for (id, end) in other.flows {
                sum.flows.entry(id).or_default().add(end);
            }
            sum.transfers.extend(other.transfers);
            sum.transfer_ends.extend(other.transfer_ends);
        }
        sum
    }

    /// What is known of a flow.
    pub(crate) fn flow(&self, flow: FlowId) -> FlowEnd {
        self.flows.get(&flow).cloned().unwrap_or_default()
    }

    /// All transfers in the order in which they began and, within an instant, of flows and connections.
    pub(crate) fn transfers(&self) -> Vec<Ended> {
        let mut ends = BTreeMap::new();
        for end in &self.transfer_ends {
            let first = ends.entry((end.flow, end.connection)).or_insert((end.at, end.failed));
            *first = (*first).min((end.at, end.failed));
        }
        let with_end = |&transfer: &Transfer| {
            let end = ends.get(&(transfer.flow, transfer.connection));
            let complete = end.is_some_and(|&(_, failed)| !failed);
            Ended { transfer, at: end.map(|&(at, _)| at), complete }
        };
        let mut transfers: Vec<Ended> = self.transfers.iter().map(with_end).collect();
        transfers.sort_by_key(|Ended { transfer, .. }| (transfer.start, transfer.flow, transfer.connection));
        transfers
    }
}

/// Puts lists, each in the order of `key`, together into one in that order. What has the same key keeps the order of the lists.
pub(crate) fn merge<T, K: Ord>(mut lists: Vec<Vec<T>>, key: impl Fn(&T) -> K) -> Vec<T> {
    lists.retain(|list| !list.is_empty());
    if lists.len() < 2 {
        return lists.pop().unwrap_or_default();
    }
    let mut all: Vec<T> = lists.into_iter().flatten().collect();
    all.sort_by_key(key);
    all
}
