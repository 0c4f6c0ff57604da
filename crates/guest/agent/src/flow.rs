//! Built-in traffic. Each end of a flow is a thread that stays inside the kernel as long as it can, because an entry into user mode
//! costs a guest more than a packet does: a long write returns when the bytes are on their way; a read discards its data (`MSG_TRUNC`)
//! and returns at the end of the connection.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, getsockopt, setsockopt,
    socket, sockopt,
};
use nix::{libc, setsockopt_impl, sockopt_impl};
use warpline_agent::{FlowOrder, FlowReport, RequestReport, Role, Sample, Service, TcpInfo};

use crate::clock::Clock;
use crate::failure::{Doing, Failure};
use crate::gate::Gate;
use crate::hosts::{Hosts, enter};
use crate::pattern::Pattern;
use crate::stacks::Stacks;
use crate::tcp_info;

/// Bytes per write.
const CHUNK: usize = 256 << 10;
/// Stack size of a thread for one connection; unused parts take no memory.
const STACK: usize = 128 << 10;
/// How many bytes may wait to be sent for the first time, where a flow stops before the run's end: 26 ms at 10 Mbit/s. The kernel still sends what waits when the
/// flow stops, and with large buffers that would take seconds.
const UNSENT: u32 = 32 << 10;
/// The head of a request: its own length and that of the response, 8 bytes each.
const HEAD: u64 = 16;

sockopt_impl!(
    /// How many bytes may wait to be sent for the first time (tcp(7), `TCP_NOTSENT_LOWAT`).
    UnsentLimit,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);

/// State shared by the thread of a flow's end and the agent.
#[derive(Debug, Default)]
struct State {
    /// The connection, while there is one.
    stream: Option<TcpStream>,
    /// Whether it should end.
    stopped: bool,
    /// Bytes received by a sink whose other end has closed: the kernel's count includes the close.
    taken: Option<u64>,
    report: FlowReport,
}

/// One end of a flow.
#[derive(Clone, Debug)]
struct End {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

/// All built-in traffic of a guest.
#[derive(Debug)]
pub(crate) struct Flows {
    ends: Vec<End>,
    /// When to stop each of them, if before the run's end.
    stops: Vec<(u64, usize)>,
    /// Their threads' stacks, in the order of the ends.
    stacks: Stacks,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(&self, stream: &TcpStream) -> io::Result<()> {
        let mut state = self.lock();
        state.report.connected = Some(self.clock.now());
        state.report.cc = congestion_control(stream);
        state.stream = Some(stream.try_clone()?);
        if state.stopped {
            let _ = stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Records how a connection ended, while the kernel still knows.
    fn ended(&self, result: io::Result<()>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if let Some(stream) = state.stream.take() {
            state.report.last = tcp_info::read(stream.as_raw_fd());
        }
        if let Some(taken) = state.taken {
            state.report.last.received = taken;
        }
        match result {
            Ok(()) => state.report.finished = Some(now),
            // An error after a stop is not a failure.
            Err(_) if state.stopped => {}
            Err(error) => state.report.error = Some(error.to_string()),
        }
    }

    fn look(&self) -> Option<TcpInfo> {
        self.lock().stream.as_ref().map(|stream| tcp_info::read(stream.as_raw_fd()))
    }
}

impl Flows {
    /// Creates all ends: those that listen do so at once, the others wait for their time.
    /// `gate` knows which conditions hold.
    pub(crate) fn prepare(
        orders: &[FlowOrder],
        hosts: &Hosts,
        clock: Clock,
        gate: &Gate,
    ) -> Result<Self, Failure> {
        let home = File::open("/proc/thread-self/ns/net").doing(|| "open a network namespace".to_owned())?;
        let stacks = Stacks::new(orders.len()).doing(|| "find memory for the flows' threads".to_owned())?;
        let mut flows = Flows { ends: Vec::new(), stops: Vec::new(), stacks };
        for order in orders {
            let id = order.id;
            let namespace = hosts.namespace(order.host)?;
            enter(namespace)?;
            let listener = match order.role {
                Role::Sink { port } | Role::Serve { port } | Role::Simple { port, .. } => {
                    let listening = listen(port, order.cc.as_deref());
                    Some(listening.doing(|| format!("listen on port {port} for flow {id}"))?)
                }
                Role::Send { .. } | Role::Request { .. } => None,
            };
            let report = FlowReport { id, ..FlowReport::default() };
            let end = End { clock, state: Arc::new(Mutex::new(State { report, ..State::default() })) };
            if let Some(stop) = order.stop {
                flows.stops.push((stop, flows.ends.len()));
            }
            flows.ends.push(end.clone());
            let (order, gate) = (order.clone(), gate.clone());
            // A thread starts in the namespace of this one.
            let life = move || end.ended(live(&order, listener, &end, &gate));
            flows.stacks.spawn(life).doing(|| format!("start a thread for flow {id}"))?;
        }
        flows.stops.sort_unstable();
        enter(&home)?;
        Ok(flows)
    }

    /// When to stop the next end.
    pub(crate) fn next_stop(&self) -> Option<u64> {
        self.stops.first().map(|&(at, _)| at)
    }

    /// Stops the ends that are due by `now`.
    pub(crate) fn stop(&mut self, now: u64) {
        while let Some(&(at, index)) = self.stops.first()
            && at <= now
        {
            self.stops.remove(0);
            let mut state = self.ends[index].lock();
            state.stopped = true;
            if let Some(stream) = &state.stream {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    }

    /// Samples all ends, and calls `each` for those that have a connection.
    pub(crate) fn sample(&self, time: u64, mut each: impl FnMut(Sample)) {
        for end in &self.ends {
            if let Some(info) = end.look() {
                let id = end.lock().report.id;
                each(Sample { time, id, info });
            }
        }
    }

    /// The end of the warm-up: the connections' counters so far do not count.
    pub(crate) fn warm(&self) {
        for end in &self.ends {
            let info = end.look();
            let mut state = end.lock();
            state.report.warm = info.unwrap_or(state.report.last);
        }
    }

    /// Fails if a thread has used more of its stack than allowed: then nothing in this process can be trusted.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.stacks.overflowed() {
            None => Ok(()),
            Some(number) => {
                let id = self.ends[number].lock().report.id;
                Err(Failure::new(format!(
                    "the thread of flow {id} has used more than its stack, so that nothing that this guest reports can be trusted; \
                     that is a fault of Warpline's agent"
                )))
            }
        }
    }

    /// The reports of all flows, up to now.
    pub(crate) fn report(&self) -> Vec<FlowReport> {
        let report = |end: &End| {
            let info = end.look();
            let mut state = end.lock();
            if let Some(info) = info {
                state.report.last = info;
            }
            state.report.clone()
        };
        self.ends.iter().map(report).collect()
    }
}

fn listen(port: u16, cc: Option<&str>) -> io::Result<TcpListener> {
    // For both families if the guest has IPv6, otherwise IPv4.
    let listener = TcpListener::bind((IpAddr::from([0u16; 8]), port))
        .or_else(|_| TcpListener::bind((IpAddr::from([0u8; 4]), port)))?;
    // Accepted sockets inherit it.
    if let Some(cc) = cc {
        set_congestion_control(&listener, cc)?;
    }
    Ok(listener)
}

fn set_congestion_control(socket: &impl AsFd, cc: &str) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpCongestion, &std::ffi::OsString::from(cc)).map_err(|errno| match errno {
        Errno::ENOENT => io::Error::other(format!("its kernel has no congestion control `{cc}`")),
        other => other.into(),
    })
}

/// The name of a connection's congestion control.
fn congestion_control(stream: &TcpStream) -> Option<String> {
    let name = getsockopt(stream, sockopt::TcpCongestion).ok()?;
    Some(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

/// The work of the thread of one end.
fn live(order: &FlowOrder, listener: Option<TcpListener>, end: &End, gate: &Gate) -> io::Result<()> {
    match (&order.role, listener) {
        (Role::Sink { .. }, Some(listener)) => {
            let (stream, _) = listener.accept()?;
            drop(listener);
            end.connected(&stream)?;
            let (taken, differences) = match order.verify {
                true => compare(&stream)?,
                false => (drain(&stream, u64::MAX)?, 0),
            };
            end.lock().taken = Some(taken);
            match differences {
                0 => Ok(()),
                _ => Err(io::Error::other(format!(
                    "{differences} of {taken} bytes are not those that were sent"
                ))),
            }
        }
        (Role::Serve { .. }, Some(listener)) => serve(&listener, end),
        (Role::Simple { service, .. }, Some(listener)) => simple(&listener, *service),
        (Role::Send { to, port, bytes }, _) => {
            let stream = open(order, SocketAddr::new(*to, *port), end, gate)?;
            match order.verify {
                true => send_pattern(&stream, bytes.unwrap_or(u64::MAX))?,
                false => send(&stream, bytes.unwrap_or(u64::MAX))?,
            }
            // The other end closes when it has everything.
            stream.shutdown(Shutdown::Write)?;
            drain(&stream, u64::MAX)?;
            Ok(())
        }
        (Role::Request { to, port, request, response, count, pause }, _) => {
            let stream = open(order, SocketAddr::new(*to, *port), end, gate)?;
            for _ in 0..count.unwrap_or(u64::MAX) {
                let asked = end.clock.now();
                let mut state = end.lock();
                if state.stopped {
                    break;
                }
                state.report.requests.push(RequestReport { asked, answered: None });
                drop(state);
                ask(&stream, *request, *response)?;
                let answered = end.clock.now();
                let mut state = end.lock();
                state.report.answers += 1;
                if let Some(request) = state.report.requests.last_mut() {
                    request.answered = Some(answered);
                }
                drop(state);
                if *pause > 0 {
                    end.clock.sleep_until(answered + pause);
                }
            }
            Ok(())
        }
        (Role::Sink { .. } | Role::Serve { .. } | Role::Simple { .. }, None) => {
            Err(io::Error::other("nothing listens"))
        }
    }
}

/// Connects when it is time, and when its conditions hold.
fn open(order: &FlowOrder, to: SocketAddr, end: &End, gate: &Gate) -> io::Result<TcpStream> {
    end.clock.sleep_until(order.start);
    gate.wait(&order.after);
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
    if let Some(cc) = &order.cc {
        set_congestion_control(&socket, cc)?;
    }
    if order.stop.is_some() {
        setsockopt(&socket, UnsentLimit, &UNSENT)?;
    }
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    let stream = TcpStream::from(socket);
    end.connected(&stream)?;
    Ok(stream)
}

/// Writes this many zero bytes.
fn send(stream: &TcpStream, bytes: u64) -> io::Result<()> {
    static NOTHING: [u8; CHUNK] = [0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(CHUNK as u64) as usize;
        left -= io::Write::write(&mut &*stream, &NOTHING[..part])? as u64;
    }
    Ok(())
}

/// Writes this many bytes of the pattern.
fn send_pattern(stream: &TcpStream, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut sent = 0;
    while sent < bytes {
        let part = &mut buffer[..(bytes - sent).min(CHUNK as u64) as usize];
        Pattern::fill(sent, part);
        sent += io::Write::write(&mut &*stream, part)? as u64;
    }
    Ok(())
}

/// Compares what comes with the pattern, until the other end closes. Returns how many bytes there were, and how many differed.
fn compare(stream: &TcpStream) -> io::Result<(u64, u64)> {
    let mut buffer = vec![0; CHUNK];
    let (mut taken, mut differences) = (0, 0);
    loop {
        match io::Read::read(&mut &*stream, &mut buffer) {
            Ok(0) => return Ok((taken, differences)),
            Ok(count) => {
                differences += Pattern::differences(taken, &buffer[..count]);
                taken += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Discards up to `bytes` incoming bytes; returns how many there were until the other end closed.
fn drain(stream: &TcpStream, bytes: u64) -> io::Result<u64> {
    const MOST: u64 = 1 << 30;
    let mut taken = 0;
    while taken < bytes {
        let part = (bytes - taken).min(MOST) as usize;
        // SAFETY: with MSG_TRUNC a TCP socket counts and drops what it has received, and writes nothing to the buffer
        // (tcp(7)), so a null pointer is allowed.
        let count = unsafe {
            libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), part, libc::MSG_TRUNC | libc::MSG_WAITALL)
        };
        match Errno::result(count) {
            Ok(0) => break,
            Ok(count) => taken += count as u64,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(taken)
}

/// Serves any number of connections, until the guest ends.
fn simple(listener: &TcpListener, service: Service) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // The other end may leave at any time.
            let _ = match service {
                Service::Discard => drain(&stream, u64::MAX).map(drop),
                Service::Source => send(&stream, u64::MAX),
                Service::Echo => io::copy(&mut &stream, &mut &stream).map(drop),
            };
        })?;
    }
}

/// One request and its complete response.
fn ask(stream: &TcpStream, request: u64, response: u64) -> io::Result<()> {
    let request = request.max(HEAD);
    let mut head = [0; HEAD as usize];
    head[..8].copy_from_slice(&request.to_be_bytes());
    head[8..].copy_from_slice(&response.to_be_bytes());
    let rest = (request - HEAD).min(CHUNK as u64) as usize;
    // In one write: two would be two segments.
    let mut first = head.to_vec();
    first.resize(HEAD as usize + rest, 0);
    io::Write::write_all(&mut &*stream, &first)?;
    send(stream, request - first.len() as u64)?;
    if drain(stream, response)? < response {
        return Err(io::Error::other("the other end closed before it had answered"));
    }
    Ok(())
}

/// Answers requests on any number of connections.
fn serve(listener: &TcpListener, end: &End) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        end.lock().report.cc = congestion_control(&stream);
        let end = end.clone();
        std::thread::Builder::new().stack_size(STACK).spawn(move || {
            let mut head = [0; HEAD as usize];
            while io::Read::read_exact(&mut &stream, &mut head).is_ok() {
                let number = |at: usize| {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(&head[at..at + 8]);
                    u64::from_be_bytes(bytes)
                };
                let answered =
                    drain(&stream, number(0).saturating_sub(HEAD)).and_then(|_| send(&stream, number(8)));
                if answered.is_err() {
                    break;
                }
                end.lock().report.answers += 1;
            }
        })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bytes = 3 * CHUNK as u64 + 17;
        let mut whole = vec![0; bytes as usize];
        Pattern::fill(0, &mut whole);
        for wrong in [0, 1] {
            let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (receiver, _) = listener.accept().unwrap();
            let reading = std::thread::spawn(move || compare(&receiver).unwrap());
            if wrong == 0 {
                send_pattern(&sender, bytes).unwrap();
            } else {
                whole[CHUNK] ^= 1;
                io::Write::write_all(&mut &sender, &whole).unwrap();
            }
            drop(sender);
            assert_eq!(reading.join().unwrap(), (bytes, wrong));
        }
    }
}
