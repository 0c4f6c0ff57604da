//! For tests: QUIC flows by quinn-proto through one bottleneck, in virtual time.
//!
//! A flow's sender always has data. The bottleneck is a drop-tail FIFO; ACKs come back without queueing. Cross traffic can
//! keep the queue at a level. No socket, no clock, no thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, StreamEvent, StreamId,
};
use warpline_transport::cc::Algorithm;

use super::congestion::{self, Shared, View};
use super::endpoint::Settings;
use super::identity::{Identity, Trust};
use super::tls;

/// Bytes of headers that the bottleneck counts with every datagram.
const HEADERS: u64 = 28;

pub(super) struct Flow {
    /// Sender, receiver.
    ends: [End; 2],
    stream: Option<StreamId>,
    /// Bytes that the receiver's program read.
    pub(super) received: u64,
    /// When each full datagram left the sender, in seconds.
    pub(super) departures: Vec<f64>,
    /// The sender's window in datagrams, whenever it sent.
    pub(super) windows: Vec<(f64, f64)>,
}

struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    shared: Option<Arc<Shared>>,
    address: SocketAddr,
}

enum What {
    Datagram { flow: usize, to: usize, bytes: Vec<u8> },
    Cross,
}

/// Time of an event, its number, and its place in `payloads`.
type Scheduled = Reverse<(Instant, u64, usize)>;

pub(super) struct Path {
    start: Instant,
    pub(super) now: Instant,
    rate: f64,
    limit: u64,
    delay: Duration,
    free_at: Instant,
    events: BinaryHeap<Scheduled>,
    payloads: Vec<Option<What>>,
    count: u64,
    pub(super) flows: Vec<Flow>,
    /// Bytes of cross traffic in the queue, and until when.
    cross: Option<(u64, Instant)>,
    /// Every n-th of the bottleneck's datagrams is lost; 0 for none.
    pub(super) lose_every: u64,
    seen: u64,
    /// Sum of queueing delays in seconds, and their number.
    pub(super) queueing: (f64, u64),
}

impl Path {
    /// Bottleneck rate in bit/s, one-way delay, queue limit in bytes.
    #[expect(
        clippy::disallowed_methods,
        reason = "quinn-proto's instants need a starting point; nothing waits for them"
    )]
    pub(super) fn new(rate: f64, delay: Duration, limit: u64) -> Self {
        let start = Instant::now();
        Path {
            start,
            now: start,
            rate,
            limit,
            delay,
            free_at: start,
            events: BinaryHeap::new(),
            payloads: Vec::new(),
            count: 0,
            flows: Vec::new(),
            cross: None,
            lose_every: 0,
            seen: 0,
            queueing: (0.0, 0),
        }
    }

    /// A backlogged flow that begins now.
    pub(super) fn add(&mut self, algorithm: Algorithm) -> usize {
        let key = Identity::generate().unwrap();
        let trust = Trust::only(key.public());
        let transport = Arc::new(Settings::with(algorithm).transport());
        let quic =
            quinn_proto::crypto::rustls::QuicServerConfig::try_from(tls::server(&key, &trust).unwrap());
        let mut server = quinn_proto::ServerConfig::with_crypto(Arc::new(quic.unwrap()));
        server.transport_config(transport.clone());
        let quic =
            quinn_proto::crypto::rustls::QuicClientConfig::try_from(tls::client(&key, &trust).unwrap());
        let mut client = quinn_proto::ClientConfig::new(Arc::new(quic.unwrap()));
        client.transport_config(transport);
        let index = self.flows.len();
        let seed = Some([index as u8 + 1; 32]);
        let config = Arc::new(EndpointConfig::default());
        let address = |last| SocketAddr::from(([10, 0, index as u8, last], 1000));
        let receiver = Endpoint::new(config.clone(), Some(Arc::new(server)), true, seed);
        let mut sender = Endpoint::new(config, None, true, seed);
        let (handle, connection) = sender.connect(self.now, client, address(2), "warpline").unwrap();
        let shared = congestion::within(connection.congestion_state().clone_box());
        self.flows.push(Flow {
            ends: [
                End { endpoint: sender, connection: Some((handle, connection)), shared, address: address(1) },
                End { endpoint: receiver, connection: None, shared: None, address: address(2) },
            ],
            stream: None,
            received: 0,
            departures: Vec::new(),
            windows: Vec::new(),
        });
        self.drive(index, 0);
        index
    }

    /// From now on, for `span`, cross traffic keeps `bytes` in the queue.
    pub(super) fn disturb(&mut self, bytes: u64, span: Duration) {
        self.cross = Some((bytes, self.now + span));
        self.schedule(self.now, What::Cross);
    }

    pub(super) fn view(&self, flow: usize) -> View {
        self.flows[flow].ends[0].shared.as_ref().unwrap().state().view()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.now.duration_since(self.start).as_secs_f64()
    }

    fn schedule(&mut self, at: Instant, what: What) {
        self.payloads.push(Some(what));
        self.events.push(Reverse((at, self.count, self.payloads.len() - 1)));
        self.count += 1;
    }

    /// Bytes in the queue.
    fn queued(&self) -> u64 {
        (self.free_at.saturating_duration_since(self.now).as_secs_f64() * self.rate / 8.0) as u64
    }

    /// A packet arrives at the bottleneck. Returns when it has left it, or `None` if it is dropped.
    fn through(&mut self, bytes: u64) -> Option<Instant> {
        self.seen += 1;
        if self.queued() + bytes > self.limit
            || (self.lose_every > 0 && self.seen.is_multiple_of(self.lose_every))
        {
            return None;
        }
        let span = Duration::from_secs_f64(bytes as f64 * 8.0 / self.rate);
        self.free_at = self.free_at.max(self.now) + span;
        Some(self.free_at)
    }

    /// Runs for `span`.
    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let mut next = self.events.peek().map_or(end, |Reverse((at, ..))| *at);
            for flow in &mut self.flows {
                for side in &mut flow.ends {
                    let timer =
                        side.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
                    let gate = side.shared.as_ref().and_then(|shared| shared.state().opens_at());
                    next = next.min(timer.unwrap_or(end)).min(gate.unwrap_or(end));
                }
            }
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let now = self.now;
            if let Some(&Reverse((at, _, payload))) = self.events.peek()
                && at <= now
            {
                self.events.pop();
                match self.payloads[payload].take().unwrap() {
                    What::Datagram { flow, to, bytes } => self.receive(flow, to, &bytes),
                    What::Cross => self.cross(),
                }
            }
            for flow in 0..self.flows.len() {
                for side in 0..2 {
                    let end = &mut self.flows[flow].ends[side];
                    let opened = end.shared.as_ref().is_some_and(|shared| shared.state().open(now));
                    let Some((_, connection)) = &mut end.connection else { continue };
                    let due = connection.poll_timeout().is_some_and(|at| at <= now);
                    if due {
                        connection.handle_timeout(now);
                    }
                    if due || opened {
                        self.drive(flow, side);
                    }
                }
            }
        }
    }

    fn cross(&mut self) {
        let Some((bytes, _)) = self.cross.filter(|&(_, until)| self.now < until) else { return };
        while self.queued() + 1500 < bytes && self.through(1500).is_some() {}
        self.schedule(self.now + Duration::from_millis(1), What::Cross);
    }

    fn receive(&mut self, flow: usize, to: usize, bytes: &[u8]) {
        let now = self.now;
        let from = self.flows[flow].ends[1 - to].address;
        let end = &mut self.flows[flow].ends[to];
        let mut reply = Vec::new();
        let event = end.endpoint.handle(now, from, None, None, BytesMut::from(bytes), &mut reply);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                end.connection.as_mut().unwrap().1.handle_event(event);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = end.endpoint.accept(incoming, now, &mut reply, None);
                let (handle, connection) = accepted.map_err(|error| error.cause).unwrap();
                end.shared = congestion::within(connection.congestion_state().clone_box());
                end.connection = Some((handle, connection));
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        self.drive(flow, to);
    }

    /// Does everything that is due at an end now.
    fn drive(&mut self, index: usize, side: usize) {
        let (now, at) = (self.now, self.seconds());
        let mut out: Vec<Vec<u8>> = Vec::new();
        let flow = &mut self.flows[index];
        let end = &mut flow.ends[side];
        let Some((handle, connection)) = &mut end.connection else { return };
        loop {
            let mut idle = true;
            while let Some(event) = connection.poll() {
                idle = false;
                if let Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) = event {
                    flow.stream = connection.streams().accept(Dir::Uni).or(flow.stream);
                }
                assert!(!matches!(event, Event::ConnectionLost { .. }), "{event:?}");
            }
            if side == 0 && !connection.is_handshaking() {
                let stream = *flow.stream.get_or_insert_with(|| connection.streams().open(Dir::Uni).unwrap());
                while connection.send_stream(stream).write(&[7; 4096]).is_ok() {}
            } else if let Some(stream) = flow.stream.filter(|_| side == 1) {
                let mut receive = connection.recv_stream(stream);
                if let Ok(mut chunks) = receive.read(true) {
                    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                        flow.received += chunk.bytes.len() as u64;
                    }
                    let _ = chunks.finalize();
                }
            }
            while let Some(event) = connection.poll_endpoint_events() {
                idle = false;
                if let Some(event) = end.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            let mut buffer = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
                idle = false;
                out.push(buffer[..transmit.size].to_vec());
                buffer.clear();
            }
            if idle {
                break;
            }
        }
        if side == 0
            && let Some(shared) = &end.shared
            && !out.is_empty()
        {
            let view = shared.state().view();
            flow.windows.push((at, view.cwnd as f64 / view.mtu as f64));
            flow.departures.extend(out.iter().filter(|bytes| bytes.len() as u64 >= 1000).map(|_| at));
        }
        for bytes in out {
            let through = if side == 0 { self.through(bytes.len() as u64 + HEADERS) } else { Some(now) };
            let Some(through) = through else { continue };
            if side == 0 {
                self.queueing.0 += through.duration_since(now).as_secs_f64();
                self.queueing.1 += 1;
            }
            self.schedule(through + self.delay, What::Datagram { flow: index, to: 1 - side, bytes });
        }
    }
}
