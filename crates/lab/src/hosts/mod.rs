//! What runs on the simulated hosts: TCP and UDP endpoints, the applications that drive them, and their counters.
//!
//! [`ModelHosts`] implements the network's [`Hosts`] for one part of a network. An endpoint is one end of a connection, a datagram sink, or the
//! timer of a flow's application. Endpoints are never reused, so a late packet of a closed connection finds none.
//!
//! Nothing here knows at once what happens on another host: the end that a connection is opened to is made when the first packet arrives. So the
//! two hosts of a flow can be in different parts, and what happens does not depend on that.

pub(crate) mod app;
pub(crate) mod counters;
pub(crate) mod flow;
mod marking;
pub(crate) mod measure;
pub(crate) mod media;
pub(crate) mod multipath;
mod note;
mod parts;
pub(crate) mod reading;
pub(crate) mod routes;
pub(crate) mod skip;
pub(crate) mod tcp;
mod transfer;
pub(crate) mod udp;
pub(crate) mod web;
mod window;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};

use warpline_core::record::TcpRecord;
use warpline_core::{Body, Datagram, Ecn, Flags, FlowId, Packet, Stream, TimerId, Timestamp};
use warpline_net::{Hosts, Port};
use warpline_scenario::plan::Tool;
use warpline_transport::tcp::{Connection, Outcome};

use app::{App, Exchange};
use flow::{Flow, Opened, Running};
pub(crate) use flow::{FlowPlan, MakeController};
pub(crate) use marking::Marking;
use measure::{Letters, MeasureEnd};
use media::{MediaReceiver, MediaSender};
use multipath::Joint;
pub(crate) use multipath::SubflowPlan;
use note::Note;
pub(crate) use note::Opening;
use parts::Parts;
pub(crate) use tcp::End;
use tcp::{Event, JointId, TcpEndpoint};
use transfer::{Transfer, TransferEnd};
use udp::UdpSink;
pub(crate) use window::Window;
use wire::{Order, WireEndpoint};

/// An endpoint.
#[derive(Debug)]
enum Endpoint {
    /// A closed connection.
    Gone,
    /// The timer of a flow's application.
    App(FlowId),
    Tcp(Box<TcpEndpoint>),
    Udp(Box<UdpSink>),
    Measure(Box<MeasureEnd>),
    MediaSender(Box<MediaSender>),
    MediaReceiver(Box<MediaReceiver>),
    /// The simulated end of a connection with a program.
    Wire(Box<WireEndpoint>),
}

// One of them stays of each connection that is closed.
const _: () = assert!(size_of::<Endpoint>() == 16);

/// The newest end of a flow's connections on one side, and its timer.
#[derive(Clone, Copy, Debug)]
struct Newest {
    end: End,
    timer: TimerId,
}

impl Newest {
    /// There is none yet.
    const NONE: Newest = Newest { end: End::of(warpline_core::EndpointId(u32::MAX)), timer: TimerId(0) };
}

/// The simulated hosts of one part of the network. On cache lines of their own, since another thread may run the part whose hosts are next to them
/// in memory.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ModelHosts {
    /// By timer: an endpoint has the number of its timer.
    endpoints: Vec<Endpoint>,
    /// By flow and side: where nearly all packets go.
    newest: Vec<[Newest; 2]>,
    pub(crate) flows: Vec<Flow>,
    /// Transfers of the applications that run here, in the order in which they began.
    transfers: Vec<Transfer>,
    /// Ends of transfers seen here.
    transfer_ends: Vec<TransferEnd>,
    opened: Vec<Opened>,
    /// Flows whose latencies are recorded.
    with_latency: Vec<FlowId>,
    /// Endpoints whose connections are recorded.
    traced: BTreeSet<TimerId>,
    records: Vec<TcpRecord>,
    /// Multipath connections that have an open end, or may still get one.
    joints: BTreeMap<JointId, Joint>,
    /// What is to be done with connections to programs.
    orders: Vec<Order>,
    parts: Parts,
}

impl ModelHosts {
    /// Adds a flow whose hosts are both here. Its application starts at `spec.start`.
    pub(crate) fn add_flow(&mut self, spec: FlowPlan, app: App, stream: Stream) -> FlowId {
        let flow = self.add(Flow::new(spec.into(), app.sends_messages()));
        self.add_running(flow, app, stream);
        self.add_sink(flow);
        flow
    }

    fn add(&mut self, flow: Flow) -> FlowId {
        let id = FlowId(self.flows.len() as u32);
        if flow.spec.record_latency {
            self.with_latency.push(id);
        }
        self.flows.push(flow);
        self.newest.push([Newest::NONE; 2]);
        id
    }

    /// Adds the application of a flow.
    fn add_running(&mut self, id: FlowId, app: App, stream: Stream) {
        let timer = self.add_endpoint(Endpoint::App(id));
        let flow = &mut self.flows[id.index()];
        let datagrams = udp::Sent::default();
        let routes = flow.spec.routes.0.clone();
        let running = Running { app, stream, timer, opened: 0, routes, datagrams, awaited: Vec::new() };
        flow.running = Some(Box::new(running));
        if !flow.spec.tcp {
            self.note_opened(Timestamp::ZERO, id, End::sender(0), 0);
        }
    }

    /// Adds the sink of a flow's datagrams, if it is one of datagrams.
    fn add_sink(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        if flow.spec.tcp {
            return;
        }
        if let Some(plan) = flow.spec.media.clone() {
            return self.add_media_receiver(id, &plan);
        }
        let keep = flow.spec.record_latency || flow.sends_messages;
        let sink = self.add_endpoint(Endpoint::Udp(Box::new(UdpSink::new(keep))));
        self.flows[id.index()].sink = Some(sink);
        self.newest[id.index()][1] = Newest { end: End::receiver(0), timer: sink };
    }

    /// Sets the timers that start all flows that are not held back.
    pub(crate) fn start(&self, port: &mut Port<'_>) {
        for flow in self.flows.iter().filter(|flow| !flow.held) {
            if let Some(running) = &flow.running {
                port.set_timer(running.timer, flow.start);
            }
        }
    }

    /// Holds back a flow until it is released.
    pub(crate) fn hold(&mut self, flow: FlowId) {
        self.flows[flow.index()].held = true;
    }

    /// Releases a flow that was held back. It starts at its start time, or now if that has passed.
    pub(crate) fn release(&mut self, now: Timestamp, flow: FlowId, port: &mut Port<'_>) {
        let flow = &mut self.flows[flow.index()];
        if std::mem::take(&mut flow.held) {
            flow.start = flow.start.max(now);
            if let Some(running) = &flow.running {
                port.set_timer(running.timer, flow.start);
            }
        }
    }

    fn add_endpoint(&mut self, endpoint: Endpoint) -> TimerId {
        self.endpoints.push(endpoint);
        TimerId(self.endpoints.len() as u32 - 1)
    }

    /// Notes that a connection has been opened by one of its ends.
    fn note_opened(&mut self, at: Timestamp, flow: FlowId, opener: End, tag: u32) {
        let state = &self.flows[flow.index()];
        let with_node = |end: End| (end, state.node(end, tag));
        self.opened.push(Opened { at, flow, opener: with_node(opener), other: with_node(opener.other()) });
    }

    /// Connections opened since the last call, in the order in which addresses are assigned, which is the same for any number of cores.
    pub(crate) fn take_opened(&mut self) -> Vec<Opened> {
        let mut opened = std::mem::take(&mut self.opened);
        opened.sort_by_key(Opened::order);
        opened
    }

    /// Opens a connection for an exchange.
    fn connect(&mut self, now: Timestamp, flow: FlowId, exchange: Exchange, port: &mut Port<'_>) {
        let state = &mut self.flows[flow.index()];
        let Some(running) = &mut state.running else { return };
        let connection = running.opened;
        running.opened += 1;
        if exchange.transfer {
            let bytes = exchange.response.unwrap_or(0);
            self.begin_transfer(Transfer { flow, connection, tag: exchange.tag, bytes, start: now });
        }
        let exchange = self.begin_joint(flow, connection, exchange);
        let state = &mut self.flows[flow.index()];
        // The data's receiver opens if it has a request to make.
        let end = if exchange.request > 0 { End::receiver(connection) } else { End::sender(connection) };
        let there = state.node(end.other(), exchange.tag);
        if let Some(part) = self.parts.elsewhere(there) {
            self.parts.post(part, Note::Opening(Opening { flow, connection, exchange }));
        } else {
            state.expected.insert(connection, exchange);
        }
        let timer = self.add_end(flow, end, exchange, |endpoint| {
            endpoint.connection.open(now);
            match end.sends() {
                true => endpoint.begin_sending(),
                false => endpoint.write(exchange.request),
            }
        });
        self.note_opened(now, flow, end, exchange.tag);
        self.serve(now, timer, port);
    }

    /// The first packet of a connection has arrived: makes this end of it. `None` if no connection is expected.
    #[cold]
    #[inline(never)]
    fn accept_connection(&mut self, flow: FlowId, end: End) -> Option<TimerId> {
        let state = &mut self.flows[flow.index()];
        let exchange = state.expected.remove(&end.connection())?;
        state.accepted = true;
        let watch = state.running.as_ref().map_or(u64::MAX, |running| running.app.next_watch());
        Some(self.add_end(flow, end, exchange, |endpoint| {
            // The data's sender waits for the request; the receiver perhaps for a message that was sent before this end was made.
            endpoint.watch = endpoint.watch.min(if end.sends() { exchange.request } else { watch });
        }))
    }

    /// Adds an end of a connection. It opens the connection if it sends and no request is needed, or if it makes the request.
    fn add_end(
        &mut self,
        flow: FlowId,
        end: End,
        exchange: Exchange,
        begin: impl FnOnce(&mut TcpEndpoint),
    ) -> TimerId {
        let state = &self.flows[flow.index()];
        let (spec, routes) = (&state.spec, state.routes(end, exchange.tag).clone());
        let config = if end.sends() { &spec.config.0 } else { &spec.config.1 };
        let controller = (spec.controller)(config);
        let opens = end.sends() != (exchange.request > 0);
        let mut connection = match opens {
            true => Connection::client(config.clone(), controller),
            false => Connection::server(config.clone(), controller),
        };
        connection.set_recording(spec.record_tcp);
        connection.set_latency_log(end.sends() && spec.record_latency);
        let record = spec.record_tcp;
        let mut endpoint =
            Box::new(TcpEndpoint::new(connection, routes, end, (flow, spec.marking), exchange));
        if !end.sends() && exchange.transfer {
            endpoint.watch = exchange.response.unwrap_or(u64::MAX);
        }
        begin(&mut endpoint);
        let member = self.member_of(flow, end);
        if member.is_some() {
            // Whatever happens there is for all subflows.
            (endpoint.member, endpoint.watch) = (member, 0);
        }
        let timer = self.add_endpoint(Endpoint::Tcp(endpoint));
        if let Some(member) = member {
            self.add_member(member, end, timer);
        }
        if record {
            self.traced.insert(timer);
        }
        self.flows[flow.index()].open.insert(end, timer);
        self.newest[flow.index()][end.side()] = Newest { end, timer };
        timer
    }

    fn with_measure(&mut self, id: TimerId, f: impl FnOnce(&mut MeasureEnd, &mut Letters)) {
        if let Some(Endpoint::Measure(end)) = self.endpoints.get_mut(id.index())
            && let Some(flow) = self.flows.get_mut(end.flow().index())
        {
            f(end, &mut flow.letters);
        }
    }

    /// Starts a measurement.
    #[cold]
    fn measure(&mut self, now: Timestamp, flow: FlowId, tool: &Tool, port: &mut Port<'_>) {
        let state = &mut self.flows[flow.index()];
        let (spec, Some(running)) = (&state.spec, &mut state.running) else { return };
        let routes = (spec.routes.0.first(), spec.routes.1.first());
        let ends = measure::ends(tool, routes, (flow, spec.marking), || running.stream.next_u64());
        let near = self.add_endpoint(Endpoint::Measure(Box::new(ends.0)));
        let far = self.add_endpoint(Endpoint::Measure(Box::new(ends.1)));
        self.newest[flow.index()] =
            [Newest { end: End::sender(0), timer: near }, Newest { end: End::receiver(0), timer: far }];
        self.flows[flow.index()].measure = Some((near, far));
        self.note_opened(now, flow, End::sender(0), 0);
        self.with_measure(near, |end, letters| end.pump(now, near, letters, port));
    }

    /// The reports of measuring tools at the end of the run, each with its file name, as JSON.
    pub(crate) fn reports(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let mut reports = Vec::new();
        for flow in &self.flows {
            let Some((near, far)) = flow.measure else { continue };
            let ends = crate::btc::Ends {
                sender: flow.spec.from.1.to_string(),
                receiver: flow.spec.to.1.to_string(),
                ipv6: false,
            };
            let [near, far] = [near, far].map(TimerId::index);
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
    fn serve(&mut self, now: Timestamp, id: TimerId, port: &mut Port<'_>) {
        let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(id.index()) else { return };
        let event = endpoint.pump(now, id, port);
        if event != Event::Nothing {
            self.handle_event(now, id, event, port);
        }
    }

    /// Passes an event of an endpoint on to its application.
    #[cold]
    #[inline(never)]
    fn handle_event(&mut self, now: Timestamp, id: TimerId, event: Event, port: &mut Port<'_>) {
        let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(id.index()) else { return };
        let (flow, end, exchange) = (endpoint.flow, endpoint.end, endpoint.exchange);
        if endpoint.member.is_some() {
            return self.handle_subflow(now, id, port);
        }
        match event {
            Event::Nothing => {}
            Event::Delivered => {
                endpoint.watch = u64::MAX;
                if end.sends() {
                    // The request has arrived: answer it.
                    endpoint.begin_sending();
                } else {
                    let delivered = endpoint.connection.bytes_delivered();
                    let state = &mut self.flows[flow.index()];
                    if let Some(running) = &mut state.running {
                        endpoint.watch = running.app.on_delivered(now, delivered, &mut state.messages);
                    }
                    if exchange.transfer {
                        // The receiver of a transfer has nothing more to send.
                        endpoint.close();
                        endpoint.noted = true;
                        self.end_transfer(now, (flow, end), exchange.tag, false, port);
                    }
                }
                self.serve(now, id, port);
            }
            Event::Closed => {
                let outcome = endpoint.connection.outcome();
                if outcome == Some(Outcome::TimedOut) {
                    let state = &mut self.flows[flow.index()];
                    state.outcome = Some("timed out");
                    if end.sends() && !exchange.transfer {
                        (state.ended, state.gave_up) = (state.ended.max(Some(now)), true);
                    }
                }
                let failed = outcome != Some(Outcome::Complete);
                if failed && exchange.transfer && !std::mem::replace(&mut endpoint.noted, true) {
                    self.end_transfer(now, (flow, end), exchange.tag, true, port);
                }
                self.forget(id);
            }
        }
    }

    /// Notes a transfer that begins.
    fn begin_transfer(&mut self, transfer: Transfer) {
        if let Some(running) = &mut self.flows[transfer.flow.index()].running
            && running.app.waits_for_transfers()
        {
            running.awaited.push(transfer.connection);
        }
        self.transfers.push(transfer);
    }

    /// One end of a transfer has seen it delivered in full, or its connection fail. If its application waits for that, it continues.
    fn end_transfer(
        &mut self,
        now: Timestamp,
        (flow, end): (FlowId, End),
        tag: u32,
        failed: bool,
        port: &mut Port<'_>,
    ) {
        let connection = end.connection();
        self.transfer_ends.push(TransferEnd { flow, connection, at: now, failed });
        let Some(running) = &mut self.flows[flow.index()].running else { return };
        // An application hears of its own end only, unless it needs both.
        if running.app.is_at_receiver() == end.sends() && !matches!(running.app, App::Transfer { .. }) {
            return;
        }
        let Some(place) = running.awaited.iter().position(|&awaited| awaited == connection) else { return };
        running.awaited.swap_remove(place);
        let next = running.app.on_transfer_done(now, tag, &mut running.stream);
        if next.is_set() {
            port.set_timer(running.timer, next);
        }
    }

    /// Removes a closed end of a connection: adds its counters to the flow and frees its memory.
    fn forget(&mut self, id: TimerId) {
        let Some(place) = self.endpoints.get_mut(id.index()) else { return };
        let Endpoint::Tcp(mut endpoint) = std::mem::replace(place, Endpoint::Gone) else { return };
        let state = &mut self.flows[endpoint.flow.index()];
        endpoint.add_to(&mut state.closed);
        endpoint.drain_latencies(&mut state.closed);
        endpoint.drain_records(&mut self.records);
        if endpoint.is_stream() {
            state.ended = state.ended.max(endpoint.finished);
        }
        state.open.remove(&endpoint.end);
        self.traced.remove(&id);
    }

    /// Handles the timer of a flow's application.
    fn run_app(&mut self, now: Timestamp, flow: FlowId, port: &mut Port<'_>) {
        loop {
            let state = &mut self.flows[flow.index()];
            let Some(running) = &mut state.running else { return };
            if now >= state.stop {
                if !running.app.is_through() {
                    state.ended = state.ended.max(Some(now));
                }
                running.app.stop();
                if let Some((near, _)) = state.measure {
                    self.with_measure(near, |end, letters| {
                        end.stop(now);
                        end.pump(now, near, letters, port);
                    });
                }
                if let Some(timer) = self.flows[flow.index()].media
                    && let Some(Endpoint::MediaSender(end)) = self.endpoints.get_mut(timer.index())
                {
                    end.stop();
                }
                if self.flows[flow.index()].spec.wire.is_some_and(|wire| wire.serves()) {
                    self.orders.push(Order::Shut { flow });
                }
                let open = &self.flows[flow.index()].open;
                // The ends where the application runs.
                let own: Vec<TimerId> = open.iter().map(|(_, &timer)| timer).collect();
                for sender in own {
                    if let Some(Endpoint::Wire(end)) = self.endpoints.get_mut(sender.index())
                        && !end.exchange.transfer
                        && (!end.paired || end.end.sends())
                    {
                        end.closing = true;
                        self.orders.push(Order::Close { endpoint: sender });
                    }
                    // Let open transfers finish: they close by themselves, and one whose request is still in
                    // flight must not be answered with a FIN.
                    if let Some(Endpoint::Tcp(endpoint)) = self.endpoints.get_mut(sender.index())
                        && endpoint.end.sends()
                        && !endpoint.exchange.transfer
                        && endpoint.member.is_none()
                    {
                        endpoint.close();
                        self.serve(now, sender, port);
                    }
                }
                self.stop_joints(now, flow, port);
                return;
            }
            match running.app.poll(now, &mut running.stream) {
                app::Action::Wait(until) => {
                    let until = until.min(state.stop);
                    if until.is_set() {
                        port.set_timer(running.timer, until);
                    }
                    return;
                }
                app::Action::Datagram { bytes } => {
                    let len = bytes.saturating_sub(
                        warpline_core::packet::IPV4_HEADER + warpline_core::packet::UDP_HEADER,
                    );
                    let datagram =
                        Datagram { seq: running.datagrams.packets, created: now, len, ..Datagram::default() };
                    running.datagrams.packets += 1;
                    running.datagrams.bytes += u64::from(bytes);
                    let Marking { class, dscp } = state.spec.marking;
                    let to = End::receiver(0).id();
                    let packet = Packet { size: bytes, class, dscp, ..Packet::udp(flow, to, datagram) };
                    port.send(running.routes.next(), packet);
                }
                app::Action::Open { exchange } => match state.spec.wire {
                    Some(_) => self.order_connection(now, flow, exchange),
                    None => self.connect(now, flow, exchange, port),
                },
                app::Action::Measure { tool } => self.measure(now, flow, &tool, port),
                app::Action::Media => self.start_media(now, flow, port),
                app::Action::Listen => self.orders.push(Order::Listen { flow }),
                app::Action::Write { bytes } => {
                    let watch = running.app.next_watch();
                    let receiver = state.open.get(&End::receiver(0));
                    match receiver.and_then(|receiver| self.endpoints.get_mut(receiver.index())) {
                        Some(Endpoint::Tcp(endpoint)) => endpoint.watch = endpoint.watch.min(watch),
                        Some(Endpoint::Wire(end)) => end.watch = end.watch.min(watch),
                        _ => {}
                    }
                    let Some(&sender) = state.open.get(&End::sender(0)) else { continue };
                    match self.endpoints.get_mut(sender.index()) {
                        Some(Endpoint::Tcp(endpoint)) => {
                            endpoint.write(bytes);
                            self.serve(now, sender, port);
                        }
                        Some(Endpoint::Wire(end)) => {
                            if !end.paired {
                                end.watch = end.watch.min(watch);
                            }
                            self.orders.push(Order::Write { endpoint: sender, bytes });
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Begins the measured part of the run: resets extremes. (Sums are measured as differences.)
    pub(crate) fn end_warmup(&mut self) {
        self.drain_latencies();
        for endpoint in &mut self.endpoints {
            match endpoint {
                Endpoint::Tcp(endpoint) => endpoint.connection.reset_extremes(),
                Endpoint::Udp(sink) => sink.reset_extremes(),
                Endpoint::MediaSender(end) => end.reset_extremes(),
                Endpoint::MediaReceiver(end) => end.reset_extremes(),
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
        for id in &self.with_latency {
            let flow = &mut self.flows[id.index()];
            for sender in flow.open.values() {
                if let Endpoint::Tcp(endpoint) = &mut self.endpoints[sender.index()] {
                    endpoint.drain_latencies(&mut flow.closed);
                }
            }
        }
    }

    /// The records since the last call, in no certain order.
    pub(crate) fn take_records(&mut self) -> Vec<TcpRecord> {
        for &id in &self.traced {
            if let Endpoint::Tcp(endpoint) = &mut self.endpoints[id.index()] {
                endpoint.drain_records(&mut self.records);
            }
        }
        std::mem::take(&mut self.records)
    }
}

impl ModelHosts {
    /// The endpoint of a packet that is not for the newest end of its flow.
    #[cold]
    #[inline(never)]
    fn find(&mut self, packet: &Packet, end: End) -> Option<TimerId> {
        let known = self.flows.get(packet.flow.index())?.open.get(&end).copied();
        match &packet.body {
            Body::Tcp(segment) if known.is_none() && segment.flags.contains(Flags::SYN) => {
                self.accept_connection(packet.flow, end)
            }
            _ => known,
        }
    }
}

impl Hosts for ModelHosts {
    // Always inline, so that the packet is not copied from its place in the network.
    #[inline(always)]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        let end = End::of(packet.to);
        let newest = self.newest[packet.flow.index()][end.side()];
        let timer = match newest.end == end {
            true => newest.timer,
            false => match self.find(packet, end) {
                Some(timer) => timer,
                None => return,
            },
        };
        match (self.endpoints.get_mut(timer.index()), &packet.body) {
            (Some(Endpoint::Tcp(endpoint)), Body::Tcp(segment)) => {
                endpoint.connection.handle_segment(now, segment, packet.ecn);
                self.serve(now, timer, port);
            }
            (Some(Endpoint::Udp(sink)), Body::Udp(datagram)) => {
                sink.handle_datagram(now, datagram, packet.ecn == Ecn::Ce);
            }
            (Some(Endpoint::Measure(end)), Body::Udp(datagram)) => {
                let came = (datagram, packet.ecn == Ecn::Ce);
                let letters = &mut self.flows[packet.flow.index()].letters;
                end.handle(now, timer, came, letters, port);
            }
            (Some(Endpoint::MediaSender(_) | Endpoint::MediaReceiver(_)), Body::Udp(datagram)) => {
                self.handle_media(now, timer, (datagram, packet.ecn == Ecn::Ce), port);
            }
            // A packet for a closed connection. A real host would answer with RST, which no one would receive here.
            _ => {}
        }
    }

    #[inline]
    fn handle_timeout(&mut self, now: Timestamp, id: TimerId, port: &mut Port<'_>) {
        match self.endpoints.get_mut(id.index()) {
            Some(Endpoint::Tcp(endpoint)) => {
                endpoint.connection.handle_timeout(now);
                self.serve(now, id, port);
            }
            Some(Endpoint::Measure(_)) => {
                self.with_measure(id, |end, letters| end.pump(now, id, letters, port))
            }
            Some(Endpoint::App(flow)) => {
                let flow = *flow;
                self.run_app(now, flow, port);
            }
            Some(Endpoint::MediaSender(_) | Endpoint::MediaReceiver(_)) => self.pump_media(now, id, port),
            _ => {}
        }
    }
}
