//! One end of a simulated TCP connection: the sans-IO connection and what ties it to the network.

use warpline_core::record::TcpRecord;
use warpline_core::{Body, EndpointId, FlowId, Packet, Timestamp};
use warpline_net::{Port, RouteId};
use warpline_transport::cc::Controller;
use warpline_transport::tcp::Connection;

use super::app::Exchange;
use super::counters::FlowTotals;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct TcpEndpoint {
    pub(crate) connection: Connection<Controller>,
    /// Route to the other end.
    pub(crate) route: RouteId,
    pub(crate) peer: EndpointId,
    pub(crate) flow: FlowId,
    pub(crate) class: u8,
    /// Whether this end sends the flow's data.
    pub(crate) sends: bool,
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
        (route, peer): (RouteId, EndpointId),
        (flow, class): (FlowId, u8),
        sends: bool,
        exchange: Exchange,
    ) -> Self {
        TcpEndpoint {
            connection,
            route,
            peer,
            flow,
            class,
            sends,
            watch: u64::MAX,
            unwritten: 0,
            closing: false,
            closed: false,
            finished: None,
            exchange,
        }
    }

    /// Whether this end receives data without a known size.
    pub(crate) fn is_stream(&self) -> bool {
        !self.sends && self.exchange.transfer.is_none()
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
    pub(crate) fn pump(&mut self, now: Timestamp, id: EndpointId, port: &mut Port<'_>) -> Event {
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
        while let Some((segment, ecn)) = self.connection.poll_transmit(now) {
            let packet = Packet {
                flow: self.flow,
                to: self.peer,
                size: segment.wire_size(),
                ecn,
                class: self.class,
                id: 0,
                body: Body::Tcp(segment),
            };
            port.send(self.route, packet);
        }
        let deadline = self.connection.poll_timeout();
        if deadline.is_set() {
            port.set_timer(id, deadline);
        }
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
        if self.sends {
            totals.add_sender(stats);
        } else {
            totals.add_receiver(stats, self.connection.bytes_delivered());
        }
    }

    /// Moves the latencies recorded by the connection into the flow's distribution.
    pub(crate) fn drain_latencies(&mut self, totals: &mut FlowTotals) {
        for latency in self.connection.drain_latencies() {
            totals.latencies.record(latency);
        }
    }

    /// Moves the connection's records to `records`.
    pub(crate) fn drain_records(&mut self, id: EndpointId, records: &mut Vec<TcpRecord>) {
        let flow = self.flow;
        let events = self.connection.drain_records();
        records.extend(events.map(|(time, event)| TcpRecord { time, flow, endpoint: id, event }));
    }
}
