//! Flows that meet a real program at one end.
//!
//! Their applications run here as those of all flows; their connections, which have one end only, are carried by somebody else
//! (`run::real`), who takes [`Order`]s, and tells what has happened to each and, before every reading, what all have done.

use warpline_core::{FlowId, TimerId, Timestamp};
use warpline_net::Port;
use warpline_scenario::App as Service;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, Outcome, State};

use super::app::{App, Exchange};
use super::counters::FlowTotals;
use super::flow::Transfer;
use super::tcp::End;
use super::{Endpoint, ModelHosts, Newest, Window};

/// Where a flow meets programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// The program's TCP port, or that of the service.
    pub(crate) port: u16,
    /// Whether to connect over IPv6.
    pub(crate) ipv6: bool,
    /// The service that programs use, and its bytes; none where the flow connects to a program.
    pub(crate) service: Option<(Service, Option<u64>)>,
}

/// What is to be done about a flow's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Connect.
    Open { flow: FlowId, endpoint: TimerId, exchange: Exchange },
    /// Send so many bytes more.
    Write { endpoint: TimerId, bytes: u64 },
    /// Send no more, and close.
    Close { endpoint: TimerId },
    /// Take connections of programs.
    Listen { flow: FlowId },
    /// Take none any more.
    Shut { flow: FlowId },
}

/// This end of a connection.
#[derive(Debug)]
pub(crate) struct WireEndpoint {
    pub(super) flow: FlowId,
    pub(super) end: End,
    pub(super) exchange: Exchange,
    /// Whether the end of its transfer has been noted.
    pub(super) noted: bool,
    /// The application wants to know when so many bytes have been acknowledged.
    pub(super) watch: u64,
    /// Its end was ordered.
    pub(super) closing: bool,
    /// When the program had acknowledged everything, the FIN included.
    pub(super) finished: Option<Timestamp>,
}

/// What the open connections of a flow say of themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenConnections {
    pub(crate) totals: FlowTotals,
    pub(crate) window: Window,
    /// Whether a connection was asked for and has had no answer.
    pub(crate) unanswered: bool,
}

impl OpenConnections {
    /// Adds what a connection has done. `sends` is whether this end sends the flow's data.
    pub(crate) fn add(&mut self, connection: &Connection<Controller>, sends: bool) {
        self.totals.add_wire(connection, sends);
        if sends {
            self.window.add(connection);
        }
    }
}

impl FlowTotals {
    /// Adds what a connection has counted whose other end is a program's: delivered is what that has acknowledged.
    pub(crate) fn add_wire(&mut self, connection: &Connection<Controller>, sends: bool) {
        if sends {
            self.add_sender(connection.stats());
            self.delivered_bytes += connection.bytes_acked();
        } else {
            self.add_receiver(connection.stats(), connection.bytes_delivered());
        }
    }
}

impl Wire {
    /// Whether this end sends the flow's data.
    pub(crate) fn sends(&self) -> bool {
        !matches!(self.service, Some((Service::Discard, _)))
    }
}

impl ModelHosts {
    /// Whether something is to be done.
    pub(crate) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// What is to be done, in this order.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// An endpoint for somebody else's timer.
    pub(crate) fn add_timer(&mut self) -> TimerId {
        self.add_endpoint(Endpoint::Gone)
    }

    /// A connection of a flow with a program has begun: one that a program has opened, or one that is to be.
    fn add_wire(&mut self, now: Timestamp, flow: FlowId, exchange: Exchange) -> TimerId {
        let state = &mut self.flows[flow.index()];
        let connection = state.running.as_mut().map_or(0, |running| {
            running.opened += 1;
            running.opened - 1
        });
        // A program is where the flow begins if it uses a service, and where it ends otherwise; either way it begins there.
        let opener = End::sender(connection);
        let serves = state.spec.wire.is_some_and(|wire| wire.service.is_some());
        let end = if serves { opener.other() } else { opener };
        let (watch, noted, closing) = (u64::MAX, false, false);
        let wire = WireEndpoint { flow, end, exchange, noted, watch, closing, finished: None };
        let own = self.add_endpoint(Endpoint::Wire(wire));
        self.flows[flow.index()].open.insert(end, own);
        self.newest[flow.index()][end.side()] = Newest { end, timer: own };
        self.note_opened(now, flow, opener, exchange.tag);
        own
    }

    /// A program has opened a connection to a service.
    pub(crate) fn accept(&mut self, now: Timestamp, flow: FlowId) -> TimerId {
        self.add_wire(now, flow, Exchange::STREAM)
    }

    /// Asks for a connection to a flow's program.
    pub(super) fn order_connection(&mut self, now: Timestamp, flow: FlowId, exchange: Exchange) {
        let endpoint = self.add_wire(now, flow, exchange);
        if let (Some(bytes), Endpoint::Wire(end)) = (exchange.response, &mut self.endpoints[endpoint.index()])
            && exchange.transfer
        {
            end.watch = bytes;
            let connection = end.end.connection();
            self.begin_transfer(Transfer { flow, connection, tag: exchange.tag, bytes, start: now });
        }
        self.orders.push(Order::Open { flow, endpoint, exchange });
    }

    /// A segment of the program has come on a connection.
    pub(crate) fn on_progress(
        &mut self,
        now: Timestamp,
        endpoint: TimerId,
        connection: &Connection<Controller>,
        port: &mut Port<'_>,
    ) {
        let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index()) else { return };
        let (acked, left) = (connection.bytes_acked(), connection.peer_closed());
        if matches!(connection.state(), State::FinWait2 | State::TimeWait) {
            end.finished.get_or_insert(now);
        }
        let (flow, exchange, place) = (end.flow, end.exchange, end.end);
        if acked >= end.watch {
            let state = &mut self.flows[flow.index()];
            if let Some(running) = &mut state.running {
                end.watch = running.app.on_delivered(now, acked, &mut state.messages);
            }
            if exchange.transfer && !std::mem::replace(&mut end.noted, true) {
                self.end_transfer(now, (flow, place), exchange.tag, false, port);
            }
        }
        let service = self.flows[flow.index()].spec.wire.is_some_and(|wire| wire.service.is_some());
        if left && !service && !exchange.transfer {
            // It wants no more: a program that reads does not close before its writer.
            if let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index())
                && !std::mem::replace(&mut end.closing, true)
            {
                self.orders.push(Order::Close { endpoint });
                self.give_up(now, flow, "closed by the program");
            }
        }
    }

    /// A connection has ended, or could not be begun (`connection` is none then). `established` is whether it ever was open.
    pub(crate) fn on_wire_closed(
        &mut self,
        now: Timestamp,
        endpoint: TimerId,
        connection: Option<&mut Connection<Controller>>,
        established: bool,
        port: &mut Port<'_>,
    ) {
        let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index()) else { return };
        let (flow, exchange, finished, place) = (end.flow, end.exchange, end.finished, end.end);
        let unfinished = exchange.transfer && !end.noted;
        let outcome = connection.as_ref().map(|connection| connection.outcome());
        if let Some(connection) = connection {
            self.drain_wire(endpoint, connection);
            let state = &mut self.flows[flow.index()];
            let sends = state.spec.wire.is_some_and(|wire| wire.sends());
            state.closed.add_wire(connection, sends);
        }
        self.endpoints[endpoint.index()] = Endpoint::Gone;
        let state = &mut self.flows[flow.index()];
        state.open.remove(&place);
        state.ended = state.ended.max(finished.or(Some(now)));
        let failure = match outcome {
            None => Some("no port left"),
            Some(Some(Outcome::Complete)) => None,
            Some(Some(Outcome::Reset)) if established => Some("reset"),
            Some(Some(Outcome::Reset)) => Some("refused"),
            Some(Some(Outcome::TimedOut)) => Some("timed out"),
            Some(Some(Outcome::Unreachable)) => Some("unreachable"),
            Some(Some(Outcome::Aborted) | None) => Some("aborted"),
        };
        if let Some(failure) = failure {
            match !exchange.transfer && state.spec.wire.is_some_and(|wire| wire.service.is_none()) {
                true => self.give_up(now, flow, failure),
                false => state.outcome = Some(failure),
            }
        }
        if unfinished {
            self.end_transfer(now, (flow, place), exchange.tag, true, port);
        }
    }

    /// The one connection of a flow is over before its time: so is the flow.
    fn give_up(&mut self, now: Timestamp, flow: FlowId, why: &'static str) {
        let state = &mut self.flows[flow.index()];
        state.outcome.get_or_insert(why);
        state.ended = state.ended.max(Some(now));
        if let Some(running) = &mut state.running {
            running.app = App::Stopped;
        }
    }

    /// Moves the records and latencies of a connection here.
    pub(crate) fn drain_wire(&mut self, endpoint: TimerId, connection: &mut Connection<Controller>) {
        let Some(Endpoint::Wire(end)) = self.endpoints.get(endpoint.index()) else { return };
        let (flow, endpoint) = (end.flow, end.end.id());
        let totals = &mut self.flows[flow.index()].closed;
        connection.drain_latencies().for_each(|latency| totals.latencies.record(latency));
        let record = |(time, event)| warpline_core::record::TcpRecord { time, flow, endpoint, event };
        self.records.extend(connection.drain_records().map(record));
    }

    /// What a flow's open connections say now; to be told before every [`Reading`](super::reading::Reading).
    pub(crate) fn set_reading(&mut self, flow: FlowId, reading: OpenConnections) {
        self.flows[flow.index()].reading = reading;
    }
}
