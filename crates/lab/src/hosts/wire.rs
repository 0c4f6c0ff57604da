//! Flows whose packets are those of real stacks: at one end or at both is a program, a guest's kernel, or a transport stack in this process.
//!
//! Their applications run here as those of all flows. Their connections are carried by somebody else (`run::routers::models`), who takes
//! [`Order`]s, tells what has happened to each connection and, before every reading, what all have done. Where a program is at one end,
//! connections have their other end here; otherwise both.

use warpline_core::counter::Counter as _;
use warpline_core::{FlowId, TimerId, Timestamp};
use warpline_net::Port;
use warpline_scenario::App as Service;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, Outcome, State};

use super::app::{App, Exchange};
use super::counters::FlowTotals;
use super::tcp::End;
use super::transfer::Transfer;
use super::window::Window;
use super::{Endpoint, ModelHosts, Newest};

/// How a flow goes over the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// The TCP port that is listened on.
    pub(crate) port: u16,
    /// Whether to connect over IPv6.
    pub(crate) ipv6: bool,
    /// Whether a guest at the other end sends the pattern.
    pub(crate) verify: bool,
    /// What is at the other end.
    pub(crate) meets: Meets,
}

/// What a flow over the wire meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meets {
    /// A program, or a guest's kernel, which it connects to.
    Program,
    /// Programs, which use this service of this many bytes.
    Users(Service, Option<u64>),
    /// A guest's kernel, which sends the flow's data here on one connection.
    Sender,
    /// Another host of this process: both ends of its connections are here.
    Host,
}

/// What is to be done about a flow's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Connect: `end` is the end that does so.
    Open { flow: FlowId, endpoint: TimerId, end: End, exchange: Exchange },
    /// Send so many bytes more.
    Write { endpoint: TimerId, bytes: u64 },
    /// Send without end.
    WriteOn { endpoint: TimerId },
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
    /// Whether both ends are here.
    pub(super) paired: bool,
    /// The data's sender has sent it, or begun to: the request has come.
    begun: bool,
    /// When the program had acknowledged everything, the FIN included; with both ends here, when everything had arrived.
    pub(super) finished: Option<Timestamp>,
}

impl WireEndpoint {
    /// Whether this end receives data without a known size, and the other is here, too.
    pub(super) fn is_stream(&self) -> bool {
        self.paired && !self.end.sends() && !self.exchange.transfer
    }

    /// What the end that connects, or the one that answers, does first.
    fn begin(&mut self, endpoint: TimerId, orders: &mut Vec<Order>) {
        self.begun = true;
        match self.exchange.response {
            None => orders.push(Order::WriteOn { endpoint }),
            Some(0) => {}
            Some(bytes) => orders.push(Order::Write { endpoint, bytes }),
        }
        if self.exchange.close {
            self.close(endpoint, orders);
        }
    }

    fn close(&mut self, endpoint: TimerId, orders: &mut Vec<Order>) {
        if !std::mem::replace(&mut self.closing, true) {
            orders.push(Order::Close { endpoint });
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Bytes sent that the other end has acknowledged.
    pub(crate) acked: u64,
    /// Bytes that have arrived in order.
    pub(crate) delivered: u64,
    /// Whether the other end has closed its direction, and everything from there has arrived.
    pub(crate) peer_closed: bool,
    /// Whether everything sent has been acknowledged, the FIN included.
    pub(crate) finished: bool,
}

impl From<&Connection<Controller>> for Progress {
    fn from(connection: &Connection<Controller>) -> Progress {
        Progress {
            acked: connection.bytes_acked(),
            delivered: connection.bytes_delivered(),
            peer_closed: connection.peer_closed(),
            finished: matches!(connection.state(), State::FinWait2 | State::TimeWait),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// Whether its handshake was ever complete.
    pub(crate) established: bool,
    /// Bytes that arrived and are not those that were sent.
    pub(crate) differences: u64,
    /// How far it was.
    pub(crate) progress: Progress,
    /// What it adds to the flow's counters.
    pub(crate) totals: FlowTotals,
}

/// What the open connections of a flow say of themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenConnections {
    pub(crate) totals: FlowTotals,
    pub(crate) window: Window,
    /// Whether a connection was asked for and has had no answer.
    pub(crate) unanswered: bool,
}

impl FlowTotals {
    /// Adds what a connection has counted. `sends` is whether this end sends the flow's data, and `paired` whether the other is here, too;
    /// if it is not, delivered is what it has acknowledged.
    pub(crate) fn add_wire(&mut self, connection: &Connection<Controller>, sends: bool, paired: bool) {
        if sends {
            self.add_sender(connection.stats());
            self.delivered_bytes += if paired { 0 } else { connection.bytes_acked() };
        } else {
            self.add_receiver(connection.stats(), connection.bytes_delivered());
        }
    }

    /// Adds what a stack's socket has carried, which knows nothing of packets.
    pub(crate) fn add_socket(&mut self, progress: &Progress, sends: bool, paired: bool) {
        self.delivered_bytes += match (sends, paired) {
            (true, true) => 0,
            (true, false) => progress.acked,
            (false, _) => progress.delivered,
        };
    }
}

impl Wire {
    /// Whether the end that is here sends the flow's data. With both here, both do.
    pub(crate) fn sends(&self) -> bool {
        !matches!(self.meets, Meets::Sender | Meets::Users(Service::Discard, _))
    }

    /// Whether the other end connects to this one.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.meets, Meets::Sender | Meets::Users(..))
    }

    /// Whether both ends send the pattern, so that what comes can be compared with it.
    pub(crate) fn is_checked(&self) -> bool {
        self.paired() || self.verify
    }

    /// Whether both ends are here.
    pub(crate) fn paired(&self) -> bool {
        self.meets == Meets::Host
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

    /// Adds this end of a connection that has begun.
    fn add_wire(&mut self, flow: FlowId, end: End, exchange: Exchange) -> TimerId {
        let state = &self.flows[flow.index()];
        let paired = state.spec.wire.is_some_and(|wire| wire.paired());
        let (watch, noted, closing, begun) = (u64::MAX, false, false, false);
        let wire = WireEndpoint { flow, end, exchange, noted, watch, closing, paired, begun, finished: None };
        let own = self.add_endpoint(Endpoint::Wire(Box::new(wire)));
        self.flows[flow.index()].open.insert(end, own);
        self.newest[flow.index()][end.side()] = Newest { end, timer: own };
        own
    }

    /// The number of a flow's next connection.
    fn next_connection(&mut self, flow: FlowId) -> u32 {
        self.flows[flow.index()].running.as_mut().map_or(0, |running| {
            running.opened += 1;
            running.opened - 1
        })
    }

    /// A program has opened a connection to a service.
    pub(crate) fn accept(&mut self, now: Timestamp, flow: FlowId) -> TimerId {
        let opener = End::sender(self.next_connection(flow));
        let own = self.add_wire(flow, opener.other(), Exchange::STREAM);
        self.note_opened(now, flow, opener, Exchange::STREAM.tag);
        own
    }

    /// A connection that the host at the other end has opened has come to this one, `end`.
    pub(crate) fn accept_paired(&mut self, flow: FlowId, end: End, exchange: Exchange) -> TimerId {
        let own = self.add_wire(flow, end, exchange);
        let state = &mut self.flows[flow.index()];
        state.accepted = true;
        let watch = match (end.sends(), exchange.transfer) {
            // The data's sender waits for the request.
            (true, _) => exchange.request,
            (false, true) => exchange.response.unwrap_or(u64::MAX),
            // Perhaps for a message that was sent before this end was made.
            (false, false) => state.running.as_ref().map_or(u64::MAX, |running| running.app.next_watch()),
        };
        if let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(own.index()) {
            end.watch = watch;
        }
        own
    }

    /// Asks for a connection of a flow.
    pub(super) fn order_connection(&mut self, now: Timestamp, flow: FlowId, exchange: Exchange) {
        let connection = self.next_connection(flow);
        let paired = self.flows[flow.index()].spec.wire.is_some_and(|wire| wire.paired());
        // The data's receiver opens if it has a request to make.
        let opener = if exchange.request > 0 { End::receiver(connection) } else { End::sender(connection) };
        let endpoint = self.add_wire(flow, opener, exchange);
        self.note_opened(now, flow, opener, exchange.tag);
        if let Some(bytes) = exchange.response.filter(|_| exchange.transfer) {
            self.begin_transfer(Transfer { flow, connection, tag: exchange.tag, bytes, start: now });
        }
        self.orders.push(Order::Open { flow, endpoint, end: opener, exchange });
        let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index()) else { return };
        match (opener.sends(), exchange.transfer) {
            (true, transfer) => {
                end.watch = match exchange.response {
                    Some(bytes) if transfer && !paired => bytes,
                    _ => u64::MAX,
                };
                end.begin(endpoint, &mut self.orders);
            }
            (false, _) => {
                end.watch = exchange.response.unwrap_or(u64::MAX);
                self.orders.push(Order::Write { endpoint, bytes: exchange.request });
            }
        }
    }

    /// Something has happened on a connection.
    pub(crate) fn on_progress(
        &mut self,
        now: Timestamp,
        endpoint: TimerId,
        progress: Progress,
        port: &mut Port<'_>,
    ) {
        let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index()) else { return };
        if end.paired {
            return self.on_paired_progress(now, endpoint, progress, port);
        }
        if progress.finished {
            end.finished.get_or_insert(now);
        }
        let (flow, exchange, place) = (end.flow, end.exchange, end.end);
        if progress.acked >= end.watch {
            let state = &mut self.flows[flow.index()];
            if let Some(running) = &mut state.running {
                end.watch = running.app.on_delivered(now, progress.acked, &mut state.messages);
            }
            if exchange.transfer && !std::mem::replace(&mut end.noted, true) {
                self.end_transfer(now, (flow, place), exchange.tag, false, port);
            }
        }
        let serves = self.flows[flow.index()].spec.wire.is_some_and(|wire| wire.serves());
        if progress.peer_closed && !serves && !exchange.transfer {
            // It wants no more: a program that reads does not close before its writer.
            if let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index())
                && !end.closing
            {
                end.close(endpoint, &mut self.orders);
                self.give_up(now, flow, "closed by the program");
            }
        }
    }

    /// Something has happened on a connection whose ends are both here.
    fn on_paired_progress(
        &mut self,
        now: Timestamp,
        endpoint: TimerId,
        progress: Progress,
        port: &mut Port<'_>,
    ) {
        let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index()) else { return };
        let (flow, exchange, place) = (end.flow, end.exchange, end.end);
        if progress.delivered >= end.watch {
            end.watch = u64::MAX;
            if !place.sends() {
                let state = &mut self.flows[flow.index()];
                if let Some(running) = &mut state.running {
                    end.watch = running.app.on_delivered(now, progress.delivered, &mut state.messages);
                }
                if exchange.transfer && !std::mem::replace(&mut end.noted, true) {
                    // The receiver of a transfer has nothing more to send.
                    end.close(endpoint, &mut self.orders);
                    self.end_transfer(now, (flow, place), exchange.tag, false, port);
                }
            } else if !end.begun {
                // The request has come: answer it.
                end.begin(endpoint, &mut self.orders);
            }
        }
        if progress.peer_closed
            && let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index())
        {
            end.finished.get_or_insert(now);
            end.close(endpoint, &mut self.orders);
        }
    }

    /// A connection has ended, or could not be begun (`ended` says why not, then).
    pub(crate) fn on_wire_closed(
        &mut self,
        now: Timestamp,
        endpoint: TimerId,
        ended: Result<Ended, &'static str>,
        port: &mut Port<'_>,
    ) {
        if let Ok(ended) = &ended {
            // What came with its last segment.
            self.on_progress(now, endpoint, ended.progress, port);
        }
        let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(endpoint.index()) else { return };
        let (flow, exchange, finished, place, paired) =
            (end.flow, end.exchange, end.finished, end.end, end.paired);
        let unfinished = exchange.transfer && !end.noted;
        let failure = match &ended {
            Err(why) => Some(*why),
            Ok(Ended { differences: 1.., .. }) => Some("wrong bytes"),
            Ok(Ended { outcome, established, .. }) => match outcome {
                Outcome::Complete => None,
                Outcome::Reset if *established => Some("reset"),
                Outcome::Reset => Some("refused"),
                Outcome::TimedOut => Some("timed out"),
                Outcome::Unreachable => Some("unreachable"),
                Outcome::Aborted => Some("aborted"),
            },
        };
        self.endpoints[endpoint.index()] = Endpoint::Gone;
        let state = &mut self.flows[flow.index()];
        if let Ok(ended) = &ended {
            state.closed.merge(&ended.totals);
        }
        state.open.remove(&place);
        if state.spec.wire.is_some_and(|wire| wire.meets == Meets::Sender)
            && let Some(running) = &mut state.running
        {
            // It had one connection.
            running.app = App::Stopped;
        }
        state.ended = match (paired, place.sends() || exchange.transfer) {
            (true, true) => state.ended,
            (true, false) => state.ended.max(finished),
            (false, _) => state.ended.max(finished.or(Some(now))),
        };
        if let Some(failure) = failure {
            let connects = state.spec.wire.is_some_and(|wire| wire.meets == Meets::Program);
            match !exchange.transfer && (connects || paired && place.sends()) {
                true => self.give_up(now, flow, failure),
                false => state.outcome = Some(failure),
            }
        }
        // With both ends here, the receiver says when it is complete.
        if unfinished && !(paired && place.sends() && failure.is_none()) {
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
