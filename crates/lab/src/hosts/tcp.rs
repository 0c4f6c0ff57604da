//! One end of a simulated TCP connection: the sans-IO connection and its place in the network.

use warpline_core::record::TcpRecord;
use warpline_core::{Body, EndpointId, FlowId, Packet, Timestamp};
use warpline_net::{Port, RouteId};
use warpline_transport::cc::Controller;
use warpline_transport::tcp::Connection;

use super::app::Exchange;
use super::counters::FlowTotals;

/// One end.
#[derive(Debug)]
pub(crate) struct TcpEndpoint {
    pub(crate) connection: Connection<Controller>,
    /// Way to the other end.
    pub(crate) route: RouteId,
    pub(crate) peer: EndpointId,
    pub(crate) flow: FlowId,
    pub(crate) class: u8,
    /// Whether this end sends the flow's data.
    pub(crate) sends: bool,
    /// The application wants to know when so many bytes have been delivered here.
    pub(crate) watch: u64,
    /// Bytes that the application has written and the send buffer has not taken.
    unwritten: u64,
    /// Whether the application has closed; the connection follows when everything is written.
    closing: bool,
    /// Whether the connection has been told.
    closed: bool,
    /// When everything that the other end sent, its FIN included, was here.
    pub(crate) finished: Option<Timestamp>,
    pub(crate) exchange: Exchange,
}

/// What an endpoint has to tell its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Nothing,
    /// The bytes that were watched for are there.
    Delivered,
    /// The connection is over.
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

    /// Whether this end receives what is no transfer of a stated size.
    pub(crate) fn is_stream(&self) -> bool {
        !self.sends && self.exchange.transfer.is_none()
    }

    /// Writes bytes; what the send buffer does not take now follows as it drains.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.unwritten += bytes;
        self.write_on();
    }

    /// No more writes: the connection closes when everything is written.
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

    /// Starts sending what the exchange asks for.
    pub(crate) fn begin_sending(&mut self) {
        match self.exchange.response {
            // A send buffer is kept full.
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
            // Nothing more will be asked: what is written is sent, and this side closes too.
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

    /// Adds this end's counters to its flow's.
    pub(crate) fn add_to(&self, totals: &mut FlowTotals) {
        let stats = self.connection.stats();
        if self.sends {
            totals.add_sender(stats);
        } else {
            totals.add_receiver(stats, self.connection.bytes_delivered());
        }
    }

    /// Moves the latencies kept by the connection into the flow's distribution.
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
