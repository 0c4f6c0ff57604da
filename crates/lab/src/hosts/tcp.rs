//! One end of a simulated TCP connection: the sans-IO connection and what ties it to the network.

use serde::{Deserialize, Serialize};
use warpline_core::record::TcpRecord;
use warpline_core::{Ecn, EndpointId, FlowId, Packet, Segment, TimerId, Timestamp};
use warpline_net::Port;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, Transmit};

use super::app::Exchange;
use super::counters::FlowTotals;
use super::marking::Marking;
use super::routes::Routes;

/// One end of one of a flow's connections: twice the number of the connection, plus 1 for the receiver of the data. So it does not depend on
/// what other flows do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct End(u32);

impl End {
    /// The end that sends the flow's data on a connection.
    pub(crate) const fn sender(connection: u32) -> End {
        End(connection << 1)
    }
    /// The end that receives it.
    pub(crate) const fn receiver(connection: u32) -> End {
        End(connection << 1 | 1)
    }
    /// The end to which a packet is addressed.
    pub(crate) const fn of(endpoint: EndpointId) -> End {
        End(endpoint.0)
    }
    /// What packets for it are addressed to.
    pub(crate) const fn id(self) -> EndpointId {
        EndpointId(self.0)
    }
    /// The connection.
    pub(crate) const fn connection(self) -> u32 {
        self.0 >> 1
    }
    /// The other end of the connection.
    pub(crate) const fn other(self) -> End {
        End(self.0 ^ 1)
    }
    /// Whether it sends the flow's data.
    pub(crate) const fn sends(self) -> bool {
        self.0 & 1 == 0
    }
    /// 0 for the sender, 1 for the receiver.
    pub(crate) const fn side(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// A multipath connection: the flow of its first subflow, and the number of the connection, which is the same for all subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JointId {
    pub(super) lead: FlowId,
    pub(super) connection: u32,
}

/// The multipath connection that an end of a connection belongs to, and the number of the subflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) joint: JointId,
    pub(super) number: usize,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct TcpEndpoint {
    pub(crate) connection: Connection<Controller>,
    /// Routes to the other end.
    routes: Routes,
    /// The end that this one is of its flow's connections.
    pub(crate) end: End,
    pub(crate) flow: FlowId,
    pub(crate) marking: Marking,
    /// Whether the end of its transfer has been noted.
    pub(crate) noted: bool,
    /// The application waits until this many bytes have been delivered here.
    pub(crate) watch: u64,
    /// Bytes that the application has written but the send buffer has not taken yet.
    unwritten: u64,
    /// Whether the application has closed; the connection closes when everything is written.
    closing: bool,
    /// Whether the connection has been closed.
    closed: bool,
    /// When everything from the other end, including its FIN, had arrived.
    pub(crate) finished: Option<Timestamp>,
    pub(crate) exchange: Exchange,
    /// The multipath connection that it is a subflow of.
    pub(super) member: Option<Member>,
}

/// Where the segments of an endpoint go.
struct ToNetwork<'a, 'b> {
    flow: FlowId,
    to: EndpointId,
    marking: Marking,
    routes: &'a mut Routes,
    port: &'a mut Port<'b>,
}

impl Transmit for ToNetwork<'_, '_> {
    // Always inlined, so that the segment exists nowhere but in its slot in the network.
    #[inline(always)]
    fn transmit(&mut self, &segment: &Segment, ecn: Ecn) {
        let Marking { class, dscp } = self.marking;
        let packet = Packet { class, dscp, ..Packet::tcp(self.flow, self.to, segment, ecn) };
        self.port.send(self.routes.next(), packet);
    }
}

/// An event for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Nothing,
    /// The bytes waited for have arrived.
    Delivered,
    /// The connection has ended.
    Closed,
}

impl TcpEndpoint {
    pub(crate) fn new(
        connection: Connection<Controller>,
        routes: Routes,
        end: End,
        (flow, marking): (FlowId, Marking),
        exchange: Exchange,
    ) -> Self {
        TcpEndpoint {
            connection,
            routes,
            end,
            flow,
            marking,
            noted: false,
            watch: u64::MAX,
            unwritten: 0,
            closing: false,
            closed: false,
            finished: None,
            exchange,
            member: None,
        }
    }

    /// Whether this end receives data without a known size.
    pub(crate) fn is_stream(&self) -> bool {
        !self.end.sends() && !self.exchange.transfer && self.member.is_none()
    }

    /// Bytes that have been written and that the send buffer has not taken yet.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Writes bytes. What the send buffer does not take now is written as it drains.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.unwritten += bytes;
        self.write_on();
    }

    /// Ends writing: the connection closes when everything is written.
    pub(crate) fn close(&mut self) {
        self.connection.set_unlimited(false);
        if self.exchange.response.is_none() {
            self.unwritten = 0;
        }
        self.closing = true;
        self.write_on();
    }

    #[cold]
    fn write_on(&mut self) {
        self.unwritten -= self.connection.write(self.unwritten);
        if self.closing && !self.closed && self.unwritten == 0 {
            self.connection.close();
            self.closed = true;
        }
    }

    /// Starts sending the data of the exchange.
    pub(crate) fn begin_sending(&mut self) {
        match self.exchange.response {
            // Keep the send buffer full.
            None if self.connection.config().send_buffer.is_some() => self.write(u64::MAX),
            None => self.connection.set_unlimited(true),
            Some(0) => {}
            Some(bytes) => self.write(bytes),
        }
        if self.exchange.close {
            self.close();
        }
    }

    /// Sends everything that may be sent now, and sets the timer.
    #[inline]
    pub(crate) fn pump(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) -> Event {
        if self.unwritten > 0 {
            self.write_on();
        }
        if self.connection.peer_closed() && self.finished.is_none() {
            self.finished = Some(now);
            // No more requests will come: finish sending, then close this side too.
            if !self.closed {
                self.close();
            }
        }
        let to = self.end.other().id();
        self.connection.transmit_to(
            now,
            &mut ToNetwork { flow: self.flow, to, marking: self.marking, routes: &mut self.routes, port },
        );
        port.reset_timer(timer, self.connection.poll_timeout());
        if self.connection.bytes_delivered() >= self.watch {
            Event::Delivered
        } else if self.connection.is_closed() {
            Event::Closed
        } else {
            Event::Nothing
        }
    }

    /// Adds this end's counters to those of its flow.
    pub(crate) fn add_to(&self, totals: &mut FlowTotals) {
        let stats = self.connection.stats();
        if self.end.sends() {
            totals.add_sender(stats);
        } else {
            // What a subflow delivers is counted where the data is put in order.
            let delivered = if self.member.is_none() { self.connection.bytes_delivered() } else { 0 };
            totals.add_receiver(stats, delivered);
        }
    }

    /// Moves the latencies recorded by the connection into the flow's distribution.
    pub(crate) fn drain_latencies(&mut self, totals: &mut FlowTotals) {
        for latency in self.connection.drain_latencies() {
            totals.latencies.record(latency);
        }
    }

    /// Moves the connection's records to `records`.
    pub(crate) fn drain_records(&mut self, records: &mut Vec<TcpRecord>) {
        let (flow, endpoint) = (self.flow, self.end.id());
        let events = self.connection.drain_records();
        records.extend(events.map(|(time, event)| TcpRecord { time, flow, endpoint, event }));
    }
}
