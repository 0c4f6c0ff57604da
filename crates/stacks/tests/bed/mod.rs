//! Two stacks, a link between them in virtual time, and an application at each end that writes a pattern and checks what it reads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use warpline_core::{Bytes, Rate, Stream, Streams, TimeDelta, Timestamp};
use warpline_stacks::stack::{Event, Outcome, SocketId, SocketOptions, Stack, StackConfig};

/// Makes a stack.
pub(crate) type Maker = fn(StackConfig) -> Box<dyn Stack>;

/// The port that servers listen on.
pub(crate) const PORT: u16 = 80;

/// Settings of a bed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) rate: Rate,
    /// One way.
    pub(crate) delay: TimeDelta,
    /// Packets that may wait in each direction.
    pub(crate) queue: usize,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// A delay up to this, uniform, is added to each packet; packets overtake each other.
    pub(crate) jitter: TimeDelta,
    pub(crate) ipv6: bool,
    pub(crate) send_buffer: Option<u64>,
    pub(crate) receive_buffer: Option<u64>,
    pub(crate) cc: Option<&'static str>,
    pub(crate) seed: u64,
    /// Whether the applications write zeros and check nothing, and packets are not hashed: to measure the stacks alone.
    pub(crate) plain: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            rate: Rate::from_bps(50_000_000),
            delay: TimeDelta::from_millis(10),
            queue: 200,
            loss: 0.0,
            jitter: TimeDelta::ZERO,
            ipv6: false,
            send_buffer: None,
            receive_buffer: None,
            cc: None,
            seed: 1,
            plain: false,
        }
    }
}

/// What the application at one end of a connection does, and has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct App {
    /// Bytes to write in all.
    pub(crate) send: u64,
    /// Whether it writes and closes only after the other end has closed.
    pub(crate) waits: bool,
    /// Whether it leaves what arrives unread.
    pub(crate) idle: bool,
    pub(crate) connected: bool,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Whether a byte differed from the pattern.
    pub(crate) differs: bool,
    pub(crate) finished: bool,
    pub(crate) closed: bool,
    pub(crate) outcome: Option<Outcome>,
}

impl App {
    pub(crate) fn sends(bytes: u64) -> App {
        App { send: bytes, ..App::default() }
    }

    /// Sends after the other end has closed.
    pub(crate) fn answers(bytes: u64) -> App {
        App { send: bytes, waits: true, ..App::default() }
    }
}

/// One direction of the link.
struct Direction {
    stream: Stream,
    busy: Timestamp,
    leaving: std::collections::VecDeque<Timestamp>,
}

/// A packet on its way: when it arrives, in which order packets of one time arrive, where, and its place in `Bed::packets`.
type Arrival = Reverse<(Timestamp, u64, usize, usize)>;

pub(crate) struct Bed {
    pub(crate) hosts: [Box<dyn Stack>; 2],
    pub(crate) apps: BTreeMap<(usize, SocketId), App>,
    /// What the server does at each connection.
    pub(crate) server: App,
    /// Whether the link loses everything.
    pub(crate) is_cut: bool,
    pub(crate) now: Timestamp,
    /// Packets sent, and a hash over their times, senders and bytes.
    pub(crate) sent: u64,
    pub(crate) hash: DefaultHasher,
    settings: Settings,
    directions: [Direction; 2],
    arrivals: BinaryHeap<Arrival>,
    packets: Vec<Vec<u8>>,
    free: Vec<usize>,
    number: u64,
    buffer: Vec<u8>,
}

/// The byte of the pattern at an offset; each end has its own.
fn pattern(host: usize, offset: u64) -> u8 {
    ((offset + host as u64 * 77).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn address(host: usize, ipv6: bool) -> IpAddr {
    let last = (host % 250) as u8 + 1;
    if ipv6 {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)).into()
    } else {
        Ipv4Addr::new(10, 0, 0, last).into()
    }
}

/// The settings of a host.
pub(crate) fn config(number: usize, settings: &Settings) -> StackConfig {
    StackConfig {
        addresses: vec![address(number, false), address(number, true)],
        mtu: 1500,
        stream: Streams::new(settings.seed).stream(&format!("host.{number}")),
        send_buffer: settings.send_buffer.map(Bytes),
        receive_buffer: settings.receive_buffer.map(Bytes),
    }
}

impl Bed {
    pub(crate) fn new(makers: [Maker; 2], settings: Settings) -> Bed {
        let streams = Streams::new(settings.seed);
        let host = |number: usize| makers[number](config(number, &settings));
        let direction = |number: usize| Direction {
            stream: streams.stream(&format!("link.{number}")),
            busy: Timestamp::ZERO,
            leaving: std::collections::VecDeque::new(),
        };
        let mut bed = Bed {
            hosts: [host(0), host(1)],
            apps: BTreeMap::new(),
            server: App::answers(0),
            is_cut: false,
            now: Timestamp::ZERO,
            sent: 0,
            hash: DefaultHasher::new(),
            settings,
            directions: [direction(0), direction(1)],
            arrivals: BinaryHeap::new(),
            packets: Vec::new(),
            free: Vec::new(),
            number: 0,
            buffer: vec![0; 1 << 16],
        };
        let options = bed.options();
        bed.hosts[1].listen(Timestamp::ZERO, PORT, &options).unwrap();
        bed
    }

    fn options(&self) -> SocketOptions {
        SocketOptions { cc: self.settings.cc.map(str::to_owned) }
    }

    /// Connects from host 0 to a port of host 1.
    pub(crate) fn connect(&mut self, port: u16, app: App) -> SocketId {
        let (now, options) = (self.now, self.options());
        let remote = SocketAddr::new(address(1, self.settings.ipv6), port);
        let socket = self.hosts[0].connect(now, remote, &options).unwrap();
        self.apps.insert((0, socket), app);
        self.serve(0);
        socket
    }

    /// The application of the client's socket.
    pub(crate) fn client(&self, socket: SocketId) -> App {
        self.apps[&(0, socket)]
    }

    /// The applications of the server.
    pub(crate) fn servers(&self) -> Vec<App> {
        self.apps.iter().filter(|((host, _), _)| *host == 1).map(|(_, app)| *app).collect()
    }

    /// Runs until nothing more happens, or to `until`.
    pub(crate) fn run(&mut self, until: Timestamp) {
        loop {
            let arrival = self.arrivals.peek().map_or(Timestamp::NEVER, |Reverse((at, ..))| *at);
            let due = self.hosts[0].poll_timeout().min(self.hosts[1].poll_timeout());
            let next = arrival.min(due);
            if !next.is_set() || next > until {
                self.now = self.now.max(until);
                return;
            }
            self.now = self.now.max(next);
            if arrival <= due {
                let Some(Reverse((_, _, host, place))) = self.arrivals.pop() else { return };
                self.hosts[host].handle_packet(self.now, &self.packets[place]);
                self.free.push(place);
                self.serve(host);
                continue;
            }
            for host in 0..2 {
                if self.hosts[host].poll_timeout() <= self.now {
                    self.hosts[host].handle_timeout(self.now);
                    self.serve(host);
                }
            }
        }
    }

    /// Lets the applications of a host act, and takes its packets.
    pub(crate) fn serve(&mut self, host: usize) {
        loop {
            let mut is_done = true;
            while let Some(event) = self.hosts[host].poll_event() {
                self.on_event(host, event);
                is_done = false;
            }
            let place = self.free.pop().unwrap_or_else(|| {
                self.packets.push(Vec::with_capacity(2048));
                self.packets.len() - 1
            });
            let mut packet = std::mem::take(&mut self.packets[place]);
            let has_sent = self.hosts[host].poll_transmit(self.now, &mut packet);
            self.packets[place] = packet;
            if has_sent {
                self.send(host, place);
            } else {
                self.free.push(place);
                if is_done {
                    return;
                }
            }
        }
    }

    /// Puts a packet on the link.
    fn send(&mut self, host: usize, place: usize) {
        let packet = &self.packets[place];
        self.sent += 1;
        let Settings { rate, delay, queue, loss, jitter, plain, .. } = self.settings;
        if !plain {
            (self.now.as_nanos(), host).hash(&mut self.hash);
            self.hash.write(packet);
        }
        let Direction { stream, busy, leaving } = &mut self.directions[host];
        while leaving.front().is_some_and(|&left| left <= self.now) {
            leaving.pop_front();
        }
        if self.is_cut || leaving.len() > queue || (loss > 0.0 && stream.chance(loss)) {
            self.free.push(place);
            return;
        }
        *busy = self.now.max(*busy) + rate.time_for(packet.len() as u64);
        leaving.push_back(*busy);
        let extra = TimeDelta::from_nanos(stream.below(jitter.as_nanos() + 1));
        self.number += 1;
        self.arrivals.push(Reverse((*busy + delay + extra, self.number, host ^ 1, place)));
    }

    fn on_event(&mut self, host: usize, event: Event) {
        let socket = match event {
            Event::Accepted { socket, port, remote } => {
                assert_eq!((host, port), (1, PORT));
                assert_eq!(remote.ip(), address(0, self.settings.ipv6));
                self.apps.insert((host, socket), App { connected: true, ..self.server });
                socket
            }
            Event::Connected(socket)
            | Event::Readable(socket)
            | Event::Writable(socket)
            | Event::Finished(socket)
            | Event::Closed(socket, _) => socket,
        };
        let app = self.apps.get_mut(&(host, socket)).expect("events name a socket that exists");
        assert_eq!(app.outcome, None, "an event of a socket that has ended: {event:?}");
        match event {
            Event::Connected(_) => app.connected = true,
            Event::Finished(_) => app.finished = true,
            Event::Closed(_, outcome) => app.outcome = Some(outcome),
            _ => {}
        }
        self.act(host, socket);
    }

    /// Reads, writes and closes as far as it goes.
    pub(crate) fn act(&mut self, host: usize, socket: SocketId) {
        let Some(app) = self.apps.get_mut(&(host, socket)) else { return };
        let (stack, now, plain) = (&mut self.hosts[host], self.now, self.settings.plain);
        if app.outcome.is_some() || !app.connected {
            return;
        }
        while !app.idle {
            let count = stack.read(now, socket, &mut self.buffer);
            if count == 0 {
                break;
            }
            if !plain {
                let expected = (app.read..).map(|offset| pattern(host ^ 1, offset));
                app.differs |= self.buffer[..count].iter().zip(expected).any(|(byte, right)| *byte != right);
            }
            app.read += count as u64;
        }
        while app.written < app.send && (!app.waits || app.finished) {
            let count = (app.send - app.written).min(4096) as usize;
            if !plain {
                for (offset, byte) in (app.written..).zip(&mut self.buffer[..count]) {
                    *byte = pattern(host, offset);
                }
            }
            let taken = stack.write(now, socket, &self.buffer[..count]);
            app.written += taken as u64;
            if taken < count {
                return;
            }
        }
        if !app.closed && app.written == app.send && (!app.waits || app.finished) {
            app.closed = true;
            stack.close(now, socket);
        }
    }
}

/// Asserts that a connection has moved what it should, both ways, and ended as it should.
pub(crate) fn assert_complete(bed: &Bed, client: App, server: App) {
    for (app, other) in [(client, server), (server, client)] {
        assert!(!app.differs, "bytes differ: {app:?}");
        assert_eq!(app.written, app.send, "at {}: {app:?}", bed.now);
        assert_eq!(app.read, other.send, "at {}: {app:?}", bed.now);
        assert_eq!((app.finished, app.outcome), (true, Some(Outcome::Complete)), "at {}: {app:?}", bed.now);
    }
}

/// Moves bytes from the client to the server and back, at the same time, and returns the bed afterwards.
pub(crate) fn transfer(makers: [Maker; 2], settings: Settings, there: u64, back: u64) -> Bed {
    let mut bed = Bed::new(makers, settings);
    bed.server = if back > 0 { App::sends(back) } else { App::answers(0) };
    let client = bed.connect(PORT, App::sends(there));
    bed.run(Timestamp::from_secs(3600));
    let servers = bed.servers();
    assert_eq!(servers.len(), 1);
    assert_complete(&bed, bed.client(client), servers[0]);
    bed
}
