//! What runs on the simulated hosts: TCP and UDP endpoints, the applications that drive them, and their counters.
//!
//! [`ModelHosts`] implements the network's [`Hosts`]. An endpoint is one end of a connection, a datagram sink, or the timer of a flow's
//! application. Endpoints are never reused, so a late packet of a closed connection finds none.

pub(crate) mod app;
pub(crate) mod counters;
pub(crate) mod measure;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod web;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warpline_core::record::TcpRecord;
use warpline_core::{Body, Datagram, Ecn, EndpointId, FlowId, NodeId, Packet, Stream, TimeDelta, Timestamp};
use warpline_net::{Hosts, Port, RouteId};
use warpline_scenario::plan::Tool;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, Outcome, State, TcpConfig};

use app::{App, Exchange};
use counters::FlowTotals;
use measure::{Letters, MeasureEnd};
use tcp::{Event, TcpEndpoint};
use udp::UdpSink;
use wire::{OpenConnections, Order, Wire, WireEndpoint};

/// Makes the congestion control of one end of a connection.
pub(crate) type MakeController = Arc<dyn Fn(&TcpConfig) -> Controller + Send + Sync>;

/// The constant facts about a flow.
pub(crate) struct FlowPlan {
    /// Name of the instance, "bulk.0".
    pub(crate) name: String,
    /// Name of the entry in the scenario.
    pub(crate) group: String,
    /// Name of the application.
    pub(crate) app: &'static str,
    /// Whether it runs over TCP.
    pub(crate) tcp: bool,
    /// Name of the congestion control; empty for UDP.
    pub(crate) cc: String,
    /// Sender of the data and its node's name.
    pub(crate) from: (NodeId, String),
    /// Receiver of the data and its node's name.
    pub(crate) to: (NodeId, String),
    /// Routes of the data and of the opposite direction.
    pub(crate) routes: (RouteId, RouteId),
    /// TCP configurations of the data's sender and receiver.
    pub(crate) config: (Arc<TcpConfig>, Arc<TcpConfig>),
    /// Makes the congestion control of each end.
    pub(crate) controller: MakeController,
    /// Traffic class for priority queues.
    pub(crate) class: u8,
    /// When it starts.
    pub(crate) start: Timestamp,
    /// When it stops sending.
    pub(crate) stop: Timestamp,
    /// Whether its TCP endpoints are recorded.
    pub(crate) record_tcp: bool,
    /// Whether the distribution of its packet latency is recorded.
    pub(crate) record_latency: bool,
    /// Its port for programs, if one of its ends is a live host.
    pub(crate) wire: Option<Wire>,
}

impl std::fmt::Debug for FlowPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowPlan").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A flow with its state.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowPlan,
    app: App,
    /// The random numbers of its application.
    stream: Stream,
    /// The endpoint of its application's timer.
    timer: EndpointId,
    /// Counters of connections that are closed.
    closed: FlowTotals,
    /// Open connections, oldest first: the ends of the data's sender and receiver.
    live: BTreeMap<EndpointId, EndpointId>,
    /// Both ends of the measurement, if it is a measuring tool that has started.
    measure: Option<(EndpointId, EndpointId)>,
    /// For UDP: the sink of its datagrams.
    sink: Option<EndpointId>,
    /// For UDP: what has been sent so far.
    datagrams: udp::Sent,
    /// When its last transfer ended, or it was stopped.
    ended: Option<Timestamp>,
    /// Transfers that have begun and are neither delivered nor given up.
    open_transfers: u32,
    /// Time from a message's creation to its delivery.
    pub(crate) messages: counters::Messages,
    /// The failure of one of its connections, if one failed.
    outcome: Option<&'static str>,
    /// The counters of its open connections with programs.
    reading: OpenConnections,
    /// Whether it still waits for a program.
    held: bool,
}

/// The windows of a flow's connections. Windows are summed; the RTT is that of the oldest connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Congestion window, in bytes.
    pub(crate) cwnd: Option<u64>,
    /// Slow-start threshold, in bytes.
    pub(crate) ssthresh: Option<u64>,
    /// Bytes in flight.
    pub(crate) in_flight: Option<u64>,
    /// Smoothed RTT.
    pub(crate) srtt: Option<TimeDelta>,
}

impl Window {
    /// Adds the window of a sender that has not finished sending.
    pub(crate) fn add(&mut self, connection: &Connection<Controller>) {
        if matches!(connection.state(), State::FinWait2 | State::TimeWait | State::Closed) {
            return;
        }
        *self.cwnd.get_or_insert(0) += connection.cwnd();
        *self.in_flight.get_or_insert(0) += connection.in_flight();
        if connection.ssthresh() != u64::MAX {
            *self.ssthresh.get_or_insert(0) += connection.ssthresh();
        }
        if self.srtt.is_none() {
            self.srtt = Some(connection.srtt()).filter(|srtt| !srtt.is_zero());
        }
    }
}

impl Flow {
    /// Whether it sends messages, whose latency is measured.
    pub(crate) fn sends_messages(&self) -> bool {
        self.app.sends_messages()
    }
}

/// A transfer of a known size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) flow: FlowId,
    pub(crate) bytes: u64,
    pub(crate) start: Timestamp,
    pub(crate) end: Option<Timestamp>,
    /// Whether it is finished: delivered, or its connection has failed.
    over: bool,
}

/// An endpoint in the network.
#[derive(Debug)]
enum Endpoint {
    /// A closed connection.
    Gone,
    /// The timer of a flow's application.
    App(FlowId),
    Tcp(Box<TcpEndpoint>),
    Udp(Box<UdpSink>),
    Measure(Box<MeasureEnd>),
    /// The simulated end of a connection with a program.
    Wire(WireEndpoint),
}

/// A connection that was opened; for assigning addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) flow: FlowId,
    pub(crate) opener: (EndpointId, NodeId),
    pub(crate) other: (EndpointId, NodeId),
}

/// All simulated hosts.
#[derive(Debug, Default)]
pub(crate) struct ModelHosts {
    endpoints: Vec<Endpoint>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) transfers: Vec<Transfer>,
    opened: Vec<Opened>,
    /// Datagrams of measuring tools in the network.
    letters: Letters,
    /// Endpoints whose connections are recorded.
    traced: BTreeSet<EndpointId>,
    records: Vec<TcpRecord>,
    /// What is to be done with connections to programs.
    orders: Vec<Order>,
}

impl ModelHosts {
    /// Adds a flow. Its application starts at `spec.start`.
    pub(crate) fn add_flow(&mut self, spec: FlowPlan, app: App, stream: Stream) -> FlowId {
        let id = FlowId(self.flows.len() as u32);
        let timer = self.add_endpoint(Endpoint::App(id));
        let keep = spec.record_latency || app.sends_messages();
        let sink = (!spec.tcp).then(|| self.add_endpoint(Endpoint::Udp(Box::new(UdpSink::new(keep)))));
        if let Some(sink) = sink {
            let (opener, other) = ((timer, spec.from.0), (sink, spec.to.0));
            self.opened.push(Opened { flow: id, opener, other });
        }
        self.flows.push(Flow {
            spec,
            app,
            stream,
            timer,
            closed: FlowTotals::default(),
            live: BTreeMap::new(),
            measure: None,
            sink,
            datagrams: udp::Sent::default(),
            ended: None,
            open_transfers: 0,
            messages: counters::Messages::default(),
            outcome: None,
            reading: OpenConnections::default(),
            held: false,
        });
        id
    }

    /// Sets the timers that start all flows that are not held back.
    pub(crate) fn start(&self, port: &mut Port<'_>) {
        for flow in self.flows.iter().filter(|flow| !flow.held) {
            port.set_timer(flow.timer, flow.spec.start);
        }
    }

    /// Holds back the flow with this name until it is released. Returns its number and start time; none if there is no such flow.
    pub(crate) fn hold(&mut self, name: &str) -> Option<(FlowId, Timestamp)> {
        let index = self.flows.iter().position(|flow| flow.spec.name == name)?;
        let flow = &mut self.flows[index];
        flow.held = true;
        Some((FlowId(index as u32), flow.spec.start))
    }

    /// Releases a flow that was held back. It starts at its start time, or now if that has passed.
    pub(crate) fn release(&mut self, now: Timestamp, flow: FlowId, port: &mut Port<'_>) {
        let flow = &mut self.flows[flow.index()];
        if std::mem::take(&mut flow.held) {
            flow.spec.start = flow.spec.start.max(now);
            port.set_timer(flow.timer, flow.spec.start);
        }
    }

    fn add_endpoint(&mut self, endpoint: Endpoint) -> EndpointId {
        self.endpoints.push(endpoint);
        EndpointId(self.endpoints.len() as u32 - 1)
    }

    /// Connections opened since the last call.
    pub(crate) fn take_opened(&mut self) -> Vec<Opened> {
        std::mem::take(&mut self.opened)
    }

    /// Opens a connection for an exchange.
    fn connect(&mut self, now: Timestamp, flow: FlowId, exchange: Exchange, port: &mut Port<'_>) {
        let next = self.endpoints.len() as u32;
        let (sender, receiver) = (EndpointId(next), EndpointId(next + 1));
        let state = &mut self.flows[flow.index()];
        let spec = &state.spec;
        // The data's receiver opens if it has a request to make.
        let asks = exchange.request > 0;
        let end = |sends: bool| {
            let config = if sends { &spec.config.0 } else { &spec.config.1 };
            let controller = (spec.controller)(config);
            let mut connection = if sends == asks {
                Connection::server(config.clone(), controller)
            } else {
                Connection::client(config.clone(), controller)
            };
            connection.set_recording(spec.record_tcp);
            connection.set_latency_log(sends && spec.record_latency);
            let way = if sends { (spec.routes.0, receiver) } else { (spec.routes.1, sender) };
            Box::new(TcpEndpoint::new(connection, way, (flow, spec.class), sends, exchange))
        };
        let (mut from, mut to) = (end(true), end(false));
        if exchange.transfer.is_some() {
            to.watch = exchange.response.unwrap_or(u64::MAX);
        }
        let ends = ((sender, spec.from.0), (receiver, spec.to.0));
        let (opener, other) = if asks { (ends.1, ends.0) } else { ends };
        if asks {
            to.connection.open(now);
            to.write(exchange.request);
            from.watch = exchange.request;
        } else {
            from.connection.open(now);
            from.begin_sending();
        }
        self.opened.push(Opened { flow, opener, other });
        if spec.record_tcp {
            self.traced.extend([sender, receiver]);
        }
        state.live.insert(sender, receiver);
        self.endpoints.push(Endpoint::Tcp(from));
        self.endpoints.push(Endpoint::Tcp(to));
        self.serve(now, opener.0, port);
    }

    fn with_measure(&mut self, id: EndpointId, f: impl FnOnce(&mut MeasureEnd, &mut Letters)) {
        if let Some(Endpoint::Measure(end)) = self.endpoints.get_mut(id.index()) {
            f(end, &mut self.letters);
        }
    }

    /// Starts a measurement.
    #[cold]
    fn measure(&mut self, now: Timestamp, flow: FlowId, tool: &Tool, port: &mut Port<'_>) {
        let next = self.endpoints.len() as u32;
        let (near, far) = (EndpointId(next), EndpointId(next + 1));
        let state = &mut self.flows[flow.index()];
        let (spec, stream) = (&state.spec, &mut state.stream);
        let ends = measure::ends(tool, spec.routes, (near, far), (flow, spec.class), || stream.next_u64());
        self.opened.push(Opened { flow, opener: (near, spec.from.0), other: (far, spec.to.0) });
        state.measure = Some((near, far));
        self.endpoints.push(Endpoint::Measure(Box::new(ends.0)));
        self.endpoints.push(Endpoint::Measure(Box::new(ends.1)));
        self.with_measure(near, |end, letters| end.pump(now, near, letters, port));
    }

    /// The reports of measuring tools at the end of the run, each with its file name, as JSON.
    pub(crate) fn reports(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let mut reports = Vec::new();
        for flow in &self.flows {
            let Some((near, far)) = flow.measure else { continue };
            let ends = crate::btc::Ends {
                sender: flow.spec.from.1.clone(),
                receiver: flow.spec.to.1.clone(),
                ipv6: false,
            };
            let [near, far] = [near, far].map(EndpointId::index);
            let Some((head, tail)) = self.endpoints.split_at_mut_checked(far) else { continue };
            let other = match tail.first() {
                Some(Endpoint::Measure(other)) => Some(&**other),
                _ => None,
            };
            if let Some(Endpoint::Measure(end)) = head.get_mut(near)
                && let Some(text) = end.report(now, other, ends)
            {
                reports.push((format!("btc-{}.json", flow.spec.name), text));
            }
        }
        reports
    }

    /// Lets an endpoint send all that it may, passes on its event, and sets its timer.
    #[inline]
    fn serve(&mut self, now: Timestamp, id: EndpointId, port: &mut Port<'_>) {
        let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(id.index()) else { return };
        let event = endpoint.pump(now, id, port);
        if event != Event::Nothing {
            self.handle_event(now, id, event, port);
        }
    }

    /// Passes an event of an endpoint on to its application.
    #[cold]
    #[inline(never)]
    fn handle_event(&mut self, now: Timestamp, id: EndpointId, event: Event, port: &mut Port<'_>) {
        let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(id.index()) else { return };
        let (flow, peer) = (endpoint.flow, endpoint.peer);
        match event {
            Event::Nothing => {}
            Event::Delivered => {
                endpoint.watch = u64::MAX;
                let exchange = endpoint.exchange;
                if endpoint.sends {
                    // The request has arrived: answer it.
                    endpoint.begin_sending();
                } else {
                    let delivered = endpoint.connection.bytes_delivered();
                    let state = &mut self.flows[flow.index()];
                    endpoint.watch = state.app.on_delivered(now, delivered, &mut state.messages);
                    if let Some(transfer) = exchange.transfer {
                        // The receiver of a transfer has nothing more to send.
                        endpoint.close();
                        self.finish_transfer(now, transfer, exchange.tag, true, port);
                    }
                }
                self.serve(now, id, port);
            }
            Event::Closed => {
                let outcome = endpoint.connection.outcome();
                let failed = outcome != Some(Outcome::Complete);
                let exchange = endpoint.exchange;
                if outcome == Some(Outcome::TimedOut) {
                    self.flows[flow.index()].outcome = Some("timed out");
                }
                if failed && let Some(transfer) = exchange.transfer {
                    self.finish_transfer(now, transfer, exchange.tag, false, port);
                }
                // Forget the connection when both ends are closed. If it failed, an end that never heard of
                // it does not count.
                let over = match self.endpoints.get(peer.index()) {
                    Some(Endpoint::Tcp(other)) => {
                        let state = other.connection.state();
                        state == State::Closed || (failed && state == State::Listen)
                    }
                    _ => true,
                };
                if over {
                    self.forget(flow, id, peer);
                }
            }
        }
    }

    /// Ends a transfer that was delivered in full or whose connection has failed. Its application continues.
    fn finish_transfer(
        &mut self,
        now: Timestamp,
        transfer: u32,
        tag: u32,
        delivered: bool,
        port: &mut Port<'_>,
    ) {
        let Some(done) = self.transfers.get_mut(transfer as usize).filter(|done| !done.over) else { return };
        done.over = true;
        done.end = delivered.then_some(now);
        let state = &mut self.flows[done.flow.index()];
        state.open_transfers -= 1;
        state.ended = Some(now);
        let next = state.app.on_transfer_done(now, tag, &mut state.stream);
        if next.is_set() {
            port.set_timer(state.timer, next);
        }
    }

    /// Removes a connection whose ends are both closed: adds its counters to the flow and frees its memory.
    fn forget(&mut self, flow: FlowId, a: EndpointId, b: EndpointId) {
        for id in [a, b] {
            if let Endpoint::Tcp(mut endpoint) =
                std::mem::replace(&mut self.endpoints[id.index()], Endpoint::Gone)
            {
                let state = &mut self.flows[flow.index()];
                endpoint.add_to(&mut state.closed);
                endpoint.drain_latencies(&mut state.closed);
                endpoint.drain_records(id, &mut self.records);
                if endpoint.is_stream() {
                    state.ended = state.ended.max(endpoint.finished);
                }
            }
        }
        for id in [a, b] {
            self.flows[flow.index()].live.remove(&id);
            self.traced.remove(&id);
        }
    }

    /// Handles the timer of a flow's application.
    fn run_app(&mut self, now: Timestamp, flow: FlowId, port: &mut Port<'_>) {
        loop {
            let state = &mut self.flows[flow.index()];
            if now >= state.spec.stop {
                if !state.app.is_through() {
                    state.ended = state.ended.max(Some(now));
                }
                state.app.stop();
                if let Some((near, _)) = state.measure {
                    self.with_measure(near, |end, letters| {
                        end.stop(now);
                        end.pump(now, near, letters, port);
                    });
                }
                if self.flows[flow.index()].spec.wire.is_some_and(|wire| wire.service.is_some()) {
                    self.orders.push(Order::Shut { flow });
                }
                let live: Vec<_> = self.flows[flow.index()].live.keys().copied().collect();
                for sender in live {
                    if let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(sender.index())
                        && end.exchange.transfer.is_none()
                    {
                        end.closing = true;
                        self.orders.push(Order::Close { endpoint: sender });
                    }
                    // Let open transfers finish: they close by themselves, and one whose request is still in
                    // flight must not be answered with a FIN.
                    if let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(sender.index())
                        && endpoint.exchange.transfer.is_none()
                    {
                        endpoint.close();
                        self.serve(now, sender, port);
                    }
                }
                return;
            }
            match state.app.poll(now, &mut state.stream) {
                app::Action::Wait(until) => {
                    let until = until.min(state.spec.stop);
                    if until.is_set() {
                        port.set_timer(state.timer, until);
                    }
                    return;
                }
                app::Action::Datagram { bytes } => {
                    let Some(sink) = state.sink else { continue };
                    let len = bytes.saturating_sub(
                        warpline_core::packet::IPV4_HEADER + warpline_core::packet::UDP_HEADER,
                    );
                    let datagram = Datagram { seq: state.datagrams.packets, created: now, len };
                    state.datagrams.packets += 1;
                    state.datagrams.bytes += u64::from(bytes);
                    let packet = Packet {
                        flow,
                        to: sink,
                        size: bytes,
                        ecn: Ecn::NotEct,
                        class: state.spec.class,
                        id: 0,
                        body: Body::Udp(datagram),
                    };
                    port.send(state.spec.routes.0, packet);
                }
                app::Action::Open { mut exchange } => {
                    if exchange.transfer.is_some() {
                        exchange.transfer = Some(self.transfers.len() as u32);
                        let bytes = exchange.response.unwrap_or(0);
                        state.open_transfers += 1;
                        self.transfers.push(Transfer { flow, bytes, start: now, end: None, over: false });
                    }
                    match self.flows[flow.index()].spec.wire {
                        Some(_) => self.order_connection(flow, exchange),
                        None => self.connect(now, flow, exchange, port),
                    }
                }
                app::Action::Measure { tool } => self.measure(now, flow, &tool, port),
                app::Action::Listen => self.orders.push(Order::Listen { flow }),
                app::Action::Write { bytes } => {
                    let Some((&sender, &receiver)) = state.live.first_key_value() else { continue };
                    let watch = state.app.next_watch();
                    if let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(receiver.index()) {
                        endpoint.watch = endpoint.watch.min(watch);
                    }
                    match self.endpoints.get_mut(sender.index()) {
                        Some(Endpoint::Tcp(endpoint)) => {
                            endpoint.write(bytes);
                            self.serve(now, sender, port);
                        }
                        Some(Endpoint::Wire(end)) => {
                            end.watch = end.watch.min(watch);
                            self.orders.push(Order::Write { endpoint: sender, bytes });
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// The open connections of a flow: data's sender and receiver.
    pub(crate) fn connections(&self, flow: &Flow) -> impl Iterator<Item = (&TcpEndpoint, &TcpEndpoint)> {
        flow.live.iter().filter_map(|(sender, receiver)| {
            match (&self.endpoints[sender.index()], &self.endpoints[receiver.index()]) {
                (Endpoint::Tcp(sender), Endpoint::Tcp(receiver)) => Some((&**sender, &**receiver)),
                _ => None,
            }
        })
    }

    /// When a flow ended: its last data was delivered, or it stopped with nothing left to deliver. None if it has not ended
    /// at `now`.
    pub(crate) fn ended(&self, flow: &Flow, now: Timestamp) -> Option<Timestamp> {
        let stopped = now >= flow.spec.stop || flow.app.is_through();
        if !stopped || flow.open_transfers > 0 {
            return None;
        }
        let mut ended = flow.ended;
        for end in flow.live.keys() {
            if let Endpoint::Wire(end) = &self.endpoints[end.index()] {
                ended = ended.max(Some(end.finished?));
            }
        }
        for (_, receiver) in self.connections(flow).filter(|(_, receiver)| receiver.is_stream()) {
            if receiver.finished.is_none() && !receiver.connection.is_closed() {
                return None;
            }
            ended = ended.max(receiver.finished);
        }
        if let Some(Endpoint::Udp(sink)) = flow.sink.map(|sink| &self.endpoints[sink.index()]) {
            ended = ended.max(sink.last_arrival());
        }
        ended
    }

    /// All counters of a flow so far.
    pub(crate) fn totals(&self, flow: &Flow) -> FlowTotals {
        let mut totals = flow.closed.clone();
        totals.merge(&flow.reading.totals);
        for (sender, receiver) in self.connections(flow) {
            sender.add_to(&mut totals);
            receiver.add_to(&mut totals);
        }
        if let Some(Endpoint::Measure(end)) = flow.measure.map(|(near, _)| &self.endpoints[near.index()]) {
            end.add_to(&mut totals);
        }
        if let Some(Endpoint::Udp(sink)) = flow.sink.map(|sink| &self.endpoints[sink.index()]) {
            sink.add_to(&flow.datagrams, &mut totals);
        }
        totals
    }

    /// The windows of a flow's connections.
    pub(crate) fn window(&self, flow: &Flow) -> Window {
        let mut window = flow.reading.window;
        for (sender, _) in self.connections(flow) {
            window.add(&sender.connection);
        }
        window
    }

    /// What failed in a flow's connections, if anything did.
    pub(crate) fn outcome(&self, flow: &Flow) -> Option<&'static str> {
        flow.outcome.or(flow.reading.unanswered.then_some("no answer"))
    }

    /// Begins the measured part of the run: resets extremes. (Sums are measured as differences.)
    pub(crate) fn end_warmup(&mut self) {
        self.drain_latencies();
        for endpoint in &mut self.endpoints {
            match endpoint {
                Endpoint::Tcp(endpoint) => endpoint.connection.reset_extremes(),
                Endpoint::Udp(sink) => sink.reset_extremes(),
                Endpoint::Gone | Endpoint::App(_) | Endpoint::Measure(_) | Endpoint::Wire(_) => {}
            }
        }
        for flow in &mut self.flows {
            flow.closed.reset_extremes();
            flow.messages = counters::Messages::default();
        }
    }

    /// Moves the latencies recorded by connections into the distributions of their flows.
    pub(crate) fn drain_latencies(&mut self) {
        for flow in &mut self.flows {
            if !flow.spec.record_latency {
                continue;
            }
            for sender in flow.live.keys() {
                if let Endpoint::Tcp(endpoint) = &mut self.endpoints[sender.index()] {
                    endpoint.drain_latencies(&mut flow.closed);
                }
            }
        }
    }

    /// The records since the last call, ordered by time and, within an instant, by endpoint.
    pub(crate) fn take_records(&mut self) -> Vec<TcpRecord> {
        for &id in &self.traced {
            if let Endpoint::Tcp(endpoint) = &mut self.endpoints[id.index()] {
                endpoint.drain_records(id, &mut self.records);
            }
        }
        self.records.sort_by_key(|record| (record.time, record.endpoint));
        std::mem::take(&mut self.records)
    }
}

impl Hosts for ModelHosts {
    // Always inline, so that the packet is not copied from its place in the network.
    #[inline(always)]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        match (self.endpoints.get_mut(packet.to.index()), &packet.body) {
            (Some(Endpoint::Tcp(endpoint)), Body::Tcp(segment)) => {
                endpoint.connection.handle_segment(now, segment, packet.ecn == Ecn::Ce);
                self.serve(now, packet.to, port);
            }
            (Some(Endpoint::Udp(sink)), Body::Udp(datagram)) => {
                sink.handle_datagram(now, datagram, packet.ecn == Ecn::Ce);
            }
            (Some(Endpoint::Measure(end)), Body::Udp(datagram)) => {
                let came = (datagram, packet.ecn == Ecn::Ce);
                end.handle(now, packet.to, came, &mut self.letters, port);
            }
            // A packet for a closed connection. A real host would answer with RST, which no one would receive here.
            _ => {}
        }
    }

    #[inline]
    fn handle_timeout(&mut self, now: Timestamp, id: EndpointId, port: &mut Port<'_>) {
        match self.endpoints.get_mut(id.index()) {
            Some(Endpoint::Tcp(endpoint)) => {
                endpoint.connection.handle_timeout(now);
                self.serve(now, id, port);
            }
            Some(Endpoint::Measure(end)) => end.pump(now, id, &mut self.letters, port),
            Some(Endpoint::App(flow)) => {
                let flow = *flow;
                self.run_app(now, flow, port);
            }
            _ => {}
        }
    }
}
