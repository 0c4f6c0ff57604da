//! Multipath connections on simulated hosts: subflows of `warpline_transport::multipath`, driven by the run's clock.
//!
//! Each subflow is a flow with a connection of its own, over its own route; the first one leads, and has the application. What belongs to all of
//! them is a [`Joint`]. Both hosts are in one part of the network, so that both ends of it are here: the mapping of data to a subflow's stream, which
//! segments would carry as an option, and the data-level acknowledgement, which acknowledgements would, lie beside the packets until these
//! arrive.

use std::collections::VecDeque;
use std::sync::Arc;

use warpline_core::{FlowId, TimeDelta, TimerId, Timestamp};
use warpline_net::Port;
use warpline_transport::cc::{self, Controller, Phase};
use warpline_transport::multipath::{LossIntervals, MOST_SUBFLOWS, Path, Receiver, Scheduler, Sender};
use warpline_transport::tcp::{Connection, Outcome};

use super::app::Exchange;
use super::tcp::{End, JointId, Member, TcpEndpoint};
use super::{Endpoint, ModelHosts};

/// A flow's place among the subflows of a multipath connection.
#[derive(Clone, Debug)]
pub(crate) struct SubflowPlan {
    /// The name of the connection.
    pub(crate) connection: Arc<str>,
    /// The first subflow; the others follow it.
    pub(crate) lead: FlowId,
    /// Its number, from 0 on.
    pub(crate) number: usize,
    /// How many there are.
    pub(crate) count: usize,
    pub(crate) scheduler: Scheduler,
}

/// A subflow of a joint.
#[derive(Debug, Default)]
struct Subflow {
    /// Its sending and receiving end, while they are open.
    ends: [Option<TimerId>; 2],
    intervals: LossIntervals,
    /// Time-outs that it has had.
    rtos: u64,
    /// Data-level acknowledgements that come with those of so many bytes of its stream.
    acks: VecDeque<(u64, u64)>,
    /// The newest that has come.
    acked: u64,
    /// Data that has been counted as delivered by it.
    counted: u64,
}

/// A multipath connection.
#[derive(Debug)]
pub(super) struct Joint {
    exchange: Exchange,
    sender: Sender,
    receiver: Receiver,
    subflows: Vec<Subflow>,
    /// Whether the subflows after the first have been opened.
    joined: bool,
    /// Whether the sender has closed its subflows, since all data has arrived.
    closing: bool,
    /// Whether all data has been delivered, or can no more be.
    over: bool,
}

/// The connection at one end of a subflow.
fn end_of(endpoints: &mut [Endpoint], timer: Option<TimerId>) -> Option<&mut TcpEndpoint> {
    match endpoints.get_mut(timer?.index())? {
        Endpoint::Tcp(endpoint) => Some(endpoint),
        _ => None,
    }
}

/// Whether data can be sent on it, as far as is known. Linux sends none on a subflow in a time-out, either.
fn is_sound(connection: &Connection<Controller>) -> bool {
    connection.is_established() && connection.phase() != Phase::Loss
}

/// What the sender has to know of a subflow.
fn path(endpoint: &TcpEndpoint) -> Path {
    let connection = &endpoint.connection;
    let waiting = connection.bytes_unsent() + endpoint.unwritten();
    let windows = connection.window().saturating_sub(connection.in_flight()).min(connection.send_window());
    Path {
        open: is_sound(connection),
        room: windows.saturating_sub(waiting),
        segment: connection.segment_payload(),
        srtt: connection.srtt(),
    }
}

impl Joint {
    /// Takes what has happened at the sending end of a subflow.
    fn note_sender(&mut self, number: usize, connection: &Connection<Controller>) {
        let subflow = &mut self.subflows[number];
        let (acked, stats) = (connection.bytes_acked(), connection.stats());
        while let Some(&(stream, data)) = subflow.acks.front()
            && stream <= acked
        {
            subflow.acked = data;
            subflow.acks.pop_front();
        }
        subflow.intervals.update(acked, stats.recoveries + stats.rtos + stats.ecn_reductions);
        self.sender.on_acked(number, acked, subflow.acked);
        if stats.rtos > std::mem::replace(&mut subflow.rtos, stats.rtos) || connection.is_closed() {
            self.sender.give_up(number);
        }
    }

    /// Takes what has arrived at the receiving end of a subflow.
    fn note_receiver(&mut self, number: usize, stream: u64) {
        if self.receiver.on_delivered(number, stream) {
            let acks = &mut self.subflows[number].acks;
            let data = self.receiver.delivered();
            if acks.back().is_none_or(|&(_, known)| known < data) {
                acks.push_back((stream, data));
            }
        }
    }

    /// Writes what may be written to subflows. Returns to which.
    fn write(&mut self, endpoints: &mut [Endpoint]) -> [bool; MOST_SUBFLOWS] {
        let mut written = [false; MOST_SUBFLOWS];
        let mut paths = [Path::default(); MOST_SUBFLOWS];
        for (path_of, subflow) in paths.iter_mut().zip(&self.subflows) {
            *path_of = end_of(endpoints, subflow.ends[0]).map(|end| path(end)).unwrap_or_default();
        }
        while let Some((number, piece)) = self.sender.poll_piece(&paths[..self.subflows.len()]) {
            let Some(endpoint) = end_of(endpoints, self.subflows[number].ends[0]) else { break };
            endpoint.write(piece.len);
            self.receiver.expect(number, piece);
            written[number] = true;
            paths[number] = path(endpoint);
        }
        written
    }

    /// All data has arrived: closes the sending ends. What one in a time-out holds has arrived by another: that one is reset.
    fn close(&mut self, now: Timestamp, endpoints: &mut [Endpoint]) {
        self.closing = true;
        for subflow in &self.subflows {
            match end_of(endpoints, subflow.ends[0]) {
                Some(endpoint) if is_sound(&endpoint.connection) => endpoint.close(),
                Some(endpoint) => endpoint.connection.abort(now),
                None => {}
            }
        }
    }

    /// Tells the congestion control of each subflow what the others are like. One in a time-out is left out, since nobody knows what its path is like.
    fn couple(&self, endpoints: &mut [Endpoint]) {
        let none = cc::Subflow { cwnd: 0, srtt: TimeDelta::ZERO, loss_interval: 0 };
        let mut known = [none; MOST_SUBFLOWS];
        let mut timers = [None; MOST_SUBFLOWS];
        let mut count = 0;
        for subflow in &self.subflows {
            let Some(endpoint) = end_of(endpoints, subflow.ends[0]) else { continue };
            let connection = &endpoint.connection;
            if is_sound(connection) && !connection.srtt().is_zero() {
                let (cwnd, srtt) = (connection.cwnd(), connection.srtt());
                known[count] = cc::Subflow { cwnd, srtt, loss_interval: subflow.intervals.larger() };
                timers[count] = subflow.ends[0];
                count += 1;
            }
        }
        for (own, &timer) in timers[..count].iter().enumerate() {
            if let Some(endpoint) = end_of(endpoints, timer) {
                endpoint.connection.couple(&known[..count], own);
            }
        }
    }
}

impl ModelHosts {
    /// A connection is opened for an exchange. If it is a multipath one, this makes its joint. Returns what its first subflow exchanges by itself.
    pub(super) fn begin_joint(&mut self, flow: FlowId, connection: u32, exchange: Exchange) -> Exchange {
        let spec = &self.flows[flow.index()].spec;
        let Some(plan) = &spec.subflow else { return exchange };
        let mut sender = Sender::new(plan.scheduler, plan.count, spec.config.1.receive_buffer.0);
        match exchange.response {
            Some(bytes) => sender.write(bytes),
            None => sender.set_unlimited(),
        }
        let joint = Joint {
            exchange,
            sender,
            receiver: Receiver::new(plan.count),
            subflows: std::iter::repeat_with(Subflow::default).take(plan.count).collect(),
            joined: false,
            closing: false,
            over: false,
        };
        self.joints.insert(JointId { lead: flow, connection }, joint);
        Exchange::STREAM
    }

    /// The joint that an end of a flow's connection belongs to.
    pub(super) fn member_of(&self, flow: FlowId, end: End) -> Option<Member> {
        let plan = self.flows[flow.index()].spec.subflow.as_ref()?;
        let joint = JointId { lead: plan.lead, connection: end.connection() };
        self.joints.contains_key(&joint).then_some(Member { joint, number: plan.number })
    }

    /// An end of a subflow has its timer.
    pub(super) fn add_member(&mut self, member: Member, end: End, timer: TimerId) {
        if let Some(joint) = self.joints.get_mut(&member.joint) {
            joint.subflows[member.number].ends[end.side()] = Some(timer);
        }
    }

    /// Something has happened at an end of a subflow.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_subflow(&mut self, now: Timestamp, id: TimerId, port: &mut Port<'_>) {
        let ModelHosts { endpoints, joints, flows, .. } = self;
        let Some(endpoint) = end_of(endpoints, Some(id)) else { return };
        let (Some(member), end, flow) = (endpoint.member, endpoint.end, endpoint.flow) else { return };
        let Some(joint) = joints.get_mut(&member.joint) else { return };
        let connection = &endpoint.connection;
        let closed = connection.is_closed();
        let opened = end.sends() && member.number == 0 && connection.is_established();
        let joins = opened && !std::mem::replace(&mut joint.joined, true);
        if connection.outcome() == Some(Outcome::TimedOut) {
            flows[flow.index()].outcome = Some("timed out");
        }
        match end.sends() {
            true => joint.note_sender(member.number, connection),
            false => joint.note_receiver(member.number, connection.bytes_delivered()),
        }
        if closed {
            joint.subflows[member.number].ends[end.side()] = None;
            self.forget(id);
        }
        match end.sends() {
            true => {
                if joins {
                    self.open_others(now, member.joint, port);
                }
                self.drive(now, member.joint, port);
            }
            false => self.count_delivered(now, member.joint, port),
        }
        self.free_joint(member.joint);
    }

    /// Frees a joint that is over, if none of its ends is open, and none can be made any more: the first packet of a connection may be under way.
    fn free_joint(&mut self, id: JointId) {
        let JointId { lead, connection } = id;
        let is_gone = |(number, subflow): (usize, &Subflow)| {
            let expected = &self.flows[lead.index() + number].expected;
            subflow.ends == [None; 2] && !expected.contains_key(&connection)
        };
        let joint = self.joints.get(&id);
        if joint.is_some_and(|joint| joint.over && joint.subflows.iter().enumerate().all(is_gone)) {
            self.joints.remove(&id);
        }
    }

    /// Opens the subflows after the first.
    fn open_others(&mut self, now: Timestamp, joint: JointId, port: &mut Port<'_>) {
        let JointId { lead, connection } = joint;
        let count = self.joints.get(&joint).map_or(0, |own| own.subflows.len() as u32);
        for number in 1..count {
            let (flow, end) = (FlowId(lead.0 + number), End::sender(connection));
            self.flows[flow.index()].expected.insert(connection, Exchange::STREAM);
            let timer = self.add_end(flow, end, Exchange::STREAM, |endpoint| endpoint.connection.open(now));
            self.note_opened(now, flow, end, 0);
            self.serve(now, timer, port);
        }
    }

    /// Lets a joint's subflows send what they may.
    fn drive(&mut self, now: Timestamp, joint: JointId, port: &mut Port<'_>) {
        let ModelHosts { endpoints, joints, .. } = self;
        let Some(own) = joints.get_mut(&joint) else { return };
        let mut written = own.write(endpoints);
        if own.sender.is_done() && !own.closing {
            own.close(now, endpoints);
            written = [true; MOST_SUBFLOWS];
        }
        own.couple(endpoints);
        let mut closed = Vec::new();
        for (subflow, _) in own.subflows.iter_mut().zip(written).filter(|(_, written)| *written) {
            let timer = subflow.ends[0];
            if let (Some(endpoint), Some(timer)) = (end_of(endpoints, timer), timer) {
                endpoint.pump(now, timer, port);
                if endpoint.connection.is_closed() {
                    subflow.ends[0] = None;
                    closed.push(timer);
                }
            }
        }
        // None is left, and those that have not been opened never will be.
        let failed = !own.over && own.subflows.iter().all(|subflow| subflow.ends[0].is_none());
        closed.into_iter().for_each(|timer| self.forget(timer));
        if failed {
            self.end_joint(now, joint, true, port);
        }
    }

    /// Counts what a joint has delivered, for the subflow that brought it first, and notes its end.
    fn count_delivered(&mut self, now: Timestamp, joint: JointId, port: &mut Port<'_>) {
        let Some(own) = self.joints.get_mut(&joint) else { return };
        for (number, subflow) in own.subflows.iter_mut().enumerate() {
            let share = own.receiver.share_of(number);
            let counted = std::mem::replace(&mut subflow.counted, share);
            self.flows[joint.lead.index() + number].closed.delivered_bytes += share - counted;
        }
        if !own.over && own.sender.end() == Some(own.receiver.delivered()) {
            self.end_joint(now, joint, false, port);
        }
    }

    /// All data of a joint has been delivered, or no subflow is left that could.
    fn end_joint(&mut self, now: Timestamp, joint: JointId, failed: bool, port: &mut Port<'_>) {
        let JointId { lead, connection } = joint;
        let Some(own) = self.joints.get_mut(&joint) else { return };
        own.over = true;
        let exchange = own.exchange;
        if exchange.transfer {
            self.end_transfer(now, (lead, End::receiver(connection)), exchange.tag, failed, port);
        } else {
            let flow = &mut self.flows[lead.index()];
            flow.ended = flow.ended.max(Some(now));
        }
    }

    /// The application of a flow has stopped: its multipath connections end with what has been written, but for transfers.
    pub(super) fn stop_joints(&mut self, now: Timestamp, flow: FlowId, port: &mut Port<'_>) {
        let [first, last] = [0, u32::MAX].map(|connection| JointId { lead: flow, connection });
        let open = self.joints.range(first..=last).filter(|(_, own)| !own.exchange.transfer && !own.over);
        let open: Vec<JointId> = open.map(|(&joint, _)| joint).collect();
        for joint in open {
            if let Some(own) = self.joints.get_mut(&joint) {
                own.sender.end_here();
            }
            self.drive(now, joint, port);
            self.free_joint(joint);
        }
    }
}

#[cfg(test)]
impl ModelHosts {
    /// Multipath connections that are held.
    pub(crate) fn joint_count(&self) -> usize {
        self.joints.len()
    }
}
