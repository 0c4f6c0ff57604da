//! Blocking clients, servers, connections and streams over quinn, for programs without a runtime of their own.
//!
//! A client or a server has its own small tokio runtime. Calls block the calling thread and must not be made from inside another
//! runtime. Streams are [`io::Read`] and [`io::Write`]. A connection closes when its last handle (streams are handles too) is dropped; if data
//! must arrive, let the other end confirm it first.

use std::fmt;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{AckFrequencyConfig, ConnectionError, EndpointConfig, TransportConfig, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::runtime::Runtime;
use warpline_core::TimeDelta;
use warpline_transport::cc::{Algorithm, NiceParams};

use super::admission::{Admission, CONNECTIONS, HANDSHAKE, Place, Verdict};
use super::congestion::{Factory, View};
use super::gate::Keeper;
use super::identity::{Identity, PublicKey, Trust};
use super::socket::Tokio;
use super::tls;

/// TLS alert `unknown_ca` (RFC 8446 section 6) as a QUIC error (RFC 9001 section 4.8): the key is not on the list.
const UNTRUSTED: u64 = 0x100 + 48;

/// Settings of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Congestion control of what this end sends. Default: TCP Nice.
    pub algorithm: Algorithm,
    /// Excess over the smallest RTT that is attributed to the scheduling of the programs and not to a queue. Default 1 ms.
    pub jitter: TimeDelta,
    /// Bytes that may be unacknowledged or unread on a connection. Default 8 MiB: 670 Mbit/s at an RTT of 100 ms.
    pub buffer: u32,
    /// A connection ends after this long without a packet from the other end. Default 30 s.
    pub idle_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            algorithm: Algorithm::Nice(NiceParams::default()),
            jitter: TimeDelta::from_millis(1),
            buffer: 8 << 20,
            idle_timeout: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// The default settings with another algorithm.
    pub fn with(algorithm: Algorithm) -> Self {
        Settings { algorithm, ..Settings::default() }
    }

    /// The settings for quinn, for a program with its own endpoints. Attach a [`Keeper`] with `buffer` as send window.
    pub fn transport(&self) -> TransportConfig {
        let mut config = TransportConfig::default();
        let mut acks = AckFrequencyConfig::default();
        // The longest delay of a lone packet's ACK, which would look like a queue.
        acks.max_ack_delay(Some(Duration::from_millis(5)));
        let idle = VarInt::from_u64(u64::try_from(self.idle_timeout.as_millis()).unwrap_or(u64::MAX))
            .unwrap_or(VarInt::MAX);
        config
            .congestion_controller_factory(Arc::new(Factory::new(self.algorithm, self.jitter)))
            .ack_frequency_config(Some(acks))
            .stream_receive_window(VarInt::from_u32(self.buffer))
            .receive_window(VarInt::from_u32(self.buffer).max(VarInt::from_u32(1 << 20)))
            .send_window(u64::from(self.buffer))
            .max_idle_timeout(Some(idle.into()))
            .keep_alive_interval(Some(self.idle_timeout / 4));
        config
    }
}

/// Why a connection could not be opened, or broke.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// An address that does not resolve.
    #[error("`{address}` is not an address: {problem}; write host:port")]
    Address {
        /// The address.
        address: String,
        /// The reason.
        problem: String,
    },
    /// The socket could not be opened.
    #[error("cannot open a UDP socket on {address}: {source}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },
    /// The other end shows a key that is not on our list.
    #[error("{remote} shows a key that is not trusted here")]
    Untrusted {
        /// The other end.
        remote: SocketAddr,
    },
    /// The other end does not have our key on its list.
    #[error("{remote} does not trust our key")]
    Refused {
        /// The other end.
        remote: SocketAddr,
    },
    /// The list of trusted keys has no key for this host.
    #[error(
        "the list of trusted keys has none for {host}: add a line `{host} KEY` with the key that it shows"
    )]
    NoKeyFor {
        /// The host as the user named it.
        host: String,
    },
    /// The server's socket failed: there will be no more connections.
    #[error("the server's UDP socket failed")]
    Ended,
    /// Nothing came from the other end.
    #[error("{remote} does not answer")]
    Silent {
        /// The other end.
        remote: SocketAddr,
    },
    /// The connection broke for another reason.
    #[error("the connection with {remote} broke: {problem}")]
    Broken {
        /// The other end.
        remote: SocketAddr,
        /// quinn's error.
        problem: String,
    },
    /// The other end closed the connection, with a reason.
    #[error("{remote} closed the connection: {reason}")]
    Closed {
        /// The other end.
        remote: SocketAddr,
        /// Its code.
        code: u64,
        /// Its text.
        reason: String,
    },
    /// The system or the TLS library failed.
    #[error("QUIC cannot be set up: {0}")]
    Setup(String),
}

/// Most letters of the other end's text in a message.
const LETTERS: usize = 1000;

/// Text of the other end, for a message: cut off if it is long, and without control characters, which a terminal would obey.
pub fn plain(text: &str) -> String {
    let letter = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    text.chars().take(LETTERS).map(letter).collect()
}

impl QuicError {
    fn lost(remote: SocketAddr, error: &ConnectionError) -> Self {
        match error {
            ConnectionError::TimedOut => QuicError::Silent { remote },
            ConnectionError::TransportError(error) if u64::from(error.code) == UNTRUSTED => {
                QuicError::Untrusted { remote }
            }
            ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == UNTRUSTED => {
                QuicError::Refused { remote }
            }
            ConnectionError::ApplicationClosed(close) => QuicError::Closed {
                remote,
                code: close.error_code.into_inner(),
                reason: plain(&String::from_utf8_lossy(&close.reason)),
            },
            // It may include the other end's text, too.
            other => QuicError::Broken { remote, problem: plain(&other.to_string()) },
        }
    }
}

impl From<QuicError> for io::Error {
    fn from(error: QuicError) -> Self {
        let kind = match &error {
            QuicError::Silent { .. } => io::ErrorKind::TimedOut,
            QuicError::Untrusted { .. } | QuicError::Refused { .. } => io::ErrorKind::PermissionDenied,
            QuicError::Address { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::ConnectionAborted,
        };
        io::Error::new(kind, error)
    }
}

/// An endpoint and its runtime.
struct Base {
    /// Taken only in `drop`.
    runtime: Option<Runtime>,
    endpoint: quinn::Endpoint,
    settings: Settings,
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Base {
    fn bind(
        address: SocketAddr,
        server: Option<quinn::ServerConfig>,
        config: &EndpointConfig,
        settings: &Settings,
    ) -> Result<Arc<Self>, QuicError> {
        let socket = |source| QuicError::Socket { address, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("quic")
            .enable_all()
            .build()
            .map_err(|error| QuicError::Setup(error.to_string()))?;
        let udp = UdpSocket::bind(address).map_err(socket)?;
        let guard = runtime.enter();
        let endpoint = quinn::Endpoint::new(config.clone(), server, udp, Arc::new(Tokio)).map_err(socket)?;
        drop(guard);
        Ok(Arc::new(Base { runtime: Some(runtime), endpoint, settings: *settings }))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        // `runtime` is there until `drop`.
        #[expect(clippy::expect_used, reason = "it is taken in drop only")]
        self.runtime.as_ref().expect("the runtime lives as long as this").block_on(future)
    }

    fn connection(self: &Arc<Self>, connection: quinn::Connection) -> Connection {
        let _guard = self.runtime.as_ref().map(Runtime::enter);
        let keeper = Keeper::attach(&connection, u64::from(self.settings.buffer));
        Connection(Arc::new(Held { base: self.clone(), connection, keeper }))
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            // Dropping a runtime would block here, which is not allowed.
            runtime.shutdown_background();
            return;
        }
        // Leaves time to send the packets that close the connections.
        self.endpoint.close(VarInt::from_u32(0), b"");
        let idle =
            async { tokio::time::timeout(Duration::from_millis(500), self.endpoint.wait_idle()).await };
        let _ = runtime.block_on(idle);
        runtime.shutdown_timeout(Duration::from_millis(500));
    }
}

fn resolve(address: &str) -> Result<SocketAddr, QuicError> {
    let wrong = |problem: String| QuicError::Address { address: address.to_owned(), problem };
    let mut found = address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("it has none".to_owned()))
}

/// Opens connections.
#[derive(Clone, Debug)]
pub struct Client {
    base: Arc<Base>,
    identity: Identity,
    trust: Trust,
}

impl Client {
    /// A client that shows `identity` and accepts servers with a key of `trust`.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn new(identity: &Identity, trust: &Trust, settings: &Settings) -> Result<Self, QuicError> {
        let own = identity.endpoint();
        // For both address families, if the machine has them.
        let both = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
        let four = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, 0));
        let base =
            Base::bind(both, None, &own, settings).or_else(|_| Base::bind(four, None, &own, settings))?;
        Ok(Client { base, identity: identity.clone(), trust: trust.clone() })
    }

    /// The configuration of a connection to this host: only keys that are trusted for it are accepted.
    fn config(&self, host: &str) -> Result<quinn::ClientConfig, QuicError> {
        let setup = |error: &dyn fmt::Display| QuicError::Setup(error.to_string());
        let trust = self.trust.of(host);
        if trust.is_empty() {
            return Err(QuicError::NoKeyFor { host: host.to_owned() });
        }
        let tls = tls::client(&self.identity, &trust).map_err(|error| setup(&error))?;
        let tls = QuicClientConfig::try_from(tls).map_err(|error| setup(&error))?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(self.base.settings.transport()));
        Ok(config)
    }

    /// Connects to `address`, "host:port".
    ///
    /// # Errors
    /// If it does not answer, or shows a key that is not trusted for this host and port. If it does not trust our key, the first use of the connection fails.
    pub fn connect(&self, address: &str) -> Result<Connection, QuicError> {
        let config = self.config(address)?;
        let remote = resolve(address)?;
        let local = self.base.endpoint.local_addr().ok();
        let target = match (remote, local) {
            (SocketAddr::V4(four), Some(SocketAddr::V6(_))) => {
                SocketAddr::from((four.ip().to_ipv6_mapped(), four.port()))
            }
            _ => remote,
        };
        // quinn spawns tasks, for which it needs the runtime.
        let connecting =
            self.base.block_on(async { self.base.endpoint.connect_with(config, target, "warpline") });
        let connecting = connecting.map_err(|error| QuicError::Setup(error.to_string()))?;
        let connected = self.base.block_on(connecting).map_err(|error| QuicError::lost(remote, &error))?;
        Ok(self.base.connection(connected))
    }
}

/// Accepts connections.
#[derive(Debug)]
pub struct Server {
    base: Arc<Base>,
    incoming: Mutex<Receiver<Result<quinn::Connection, QuicError>>>,
    #[cfg(test)]
    pub(super) handshakes: Admission,
}

impl Server {
    /// Listens on `address`, "address:port" (`0.0.0.0:4433`, `[::]:4433`), shows `identity` and accepts clients with a key of `trust`.
    ///
    /// # Errors
    /// If the address does not belong to this machine, or is taken.
    pub fn bind(
        address: &str,
        identity: &Identity,
        trust: &Trust,
        settings: &Settings,
    ) -> Result<Self, QuicError> {
        let setup = |error: &dyn fmt::Display| QuicError::Setup(error.to_string());
        let tls = tls::server(identity, trust).map_err(|error| setup(&error))?;
        let tls = QuicServerConfig::try_from(tls).map_err(|error| setup(&error))?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(settings.transport()));
        // Limits what is buffered before the decision: a little more than the first flight of each peer.
        config.max_incoming(CONNECTIONS).incoming_buffer_size(16 << 10).incoming_buffer_size_total(4 << 20);
        let base = Base::bind(resolve(address)?, Some(config), &identity.endpoint(), settings)?;
        let (to, incoming) = sync_channel(CONNECTIONS);
        let endpoint = base.endpoint.clone();
        let admission = Admission::default();
        #[cfg(test)]
        let handshakes = admission.clone();
        if let Some(runtime) = &base.runtime {
            runtime.spawn(async move {
                while let Some(one) = endpoint.accept().await {
                    let proved = one.remote_address_validated();
                    match admission.judge(one.remote_address(), proved, endpoint.open_connections()) {
                        Verdict::Welcome(place) => drop(tokio::spawn(shake_hands(one, place, to.clone()))),
                        // A retry is always allowed for an address that is not proved.
                        Verdict::Prove => drop(one.retry()),
                        Verdict::Ignore => one.ignore(),
                    }
                }
            });
        }
        Ok(Server {
            base,
            incoming: Mutex::new(incoming),
            #[cfg(test)]
            handshakes,
        })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.base.endpoint.local_addr()
    }

    /// The next connection; `None` after `patience` without one. A refused peer is an error, after which the server continues.
    ///
    /// # Errors
    /// If a peer could not be accepted: an untrusted key, or a handshake that broke. [`QuicError::Ended`] is the only one after which there are
    /// no more connections.
    pub fn accept(&self, patience: Duration) -> Result<Option<Connection>, QuicError> {
        let incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        match incoming.recv_timeout(patience) {
            Ok(Ok(connection)) => Ok(Some(self.base.connection(connection))),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(QuicError::Ended),
        }
    }
}

async fn shake_hands(
    one: quinn::Incoming,
    place: Place,
    to: SyncSender<Result<quinn::Connection, QuicError>>,
) {
    let remote = one.remote_address();
    let shaken = async { one.accept()?.await };
    let outcome = match tokio::time::timeout(HANDSHAKE, shaken).await {
        Ok(outcome) => outcome.map_err(|error| QuicError::lost(remote, &error)),
        Err(_) => Err(QuicError::Silent { remote }),
    };
    drop(place);
    // The server is gone, or does not accept connections fast enough: drop this one.
    let _ = to.try_send(outcome);
}

struct Held {
    base: Arc<Base>,
    connection: quinn::Connection,
    keeper: Option<Keeper>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // The keeper also has a handle, which must not keep the connection open.
        self.keeper = None;
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

/// A connection with a peer whose key is known. Clones are the same connection.
#[derive(Clone)]
pub struct Connection(Arc<Held>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.remote_address()).finish()
    }
}

impl Connection {
    /// Opens a stream in both directions.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn open(&self) -> Result<(SendStream, RecvStream), QuicError> {
        let pair = self.0.base.block_on(self.0.connection.open_bi());
        self.streams(pair)
    }

    /// The next stream that the peer opens.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn accept(&self) -> Result<(SendStream, RecvStream), QuicError> {
        let pair = self.0.base.block_on(self.0.connection.accept_bi());
        self.streams(pair)
    }

    fn streams(
        &self,
        pair: Result<(quinn::SendStream, quinn::RecvStream), ConnectionError>,
    ) -> Result<(SendStream, RecvStream), QuicError> {
        let (send, receive) = pair.map_err(|error| self.lost(&error))?;
        Ok((
            SendStream { stream: send, finished: false, connection: self.clone() },
            RecvStream { stream: receive, connection: self.clone() },
        ))
    }

    fn lost(&self, error: &ConnectionError) -> QuicError {
        QuicError::lost(self.remote_address(), error)
    }

    /// Why the connection ended; `None` while it is open.
    pub fn close_reason(&self) -> Option<QuicError> {
        self.0.connection.close_reason().map(|error| self.lost(&error))
    }

    /// Closes the connection at once, whatever is in flight, and sends `code` and `reason` to the peer.
    pub fn close(&self, code: u32, reason: &str) {
        self.0.connection.close(VarInt::from_u32(code), reason.as_bytes());
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        let address = self.0.connection.remote_address();
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    /// Whether both are the same connection.
    pub fn is(&self, other: &Connection) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The peer's key.
    pub fn peer(&self) -> Option<PublicKey> {
        let shown = self.0.connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
        PublicKey::from_spki(shown.first()?.as_ref())
    }

    /// The congestion control of what this end sends.
    pub fn congestion(&self) -> Option<View> {
        self.0.keeper.as_ref().map(Keeper::view)
    }

    /// quinn's counters.
    pub fn stats(&self) -> quinn::ConnectionStats {
        self.0.connection.stats()
    }
}

/// The sending half of a stream. If it is dropped before [`finish`](Self::finish), it is reset: the peer sees an error, never a shorter stream.
pub struct SendStream {
    stream: quinn::SendStream,
    finished: bool,
    connection: Connection,
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendStream").field(&self.stream.id()).finish()
    }
}

impl SendStream {
    /// Marks the end of the stream.
    ///
    /// # Errors
    /// If it was already finished.
    pub fn finish(&mut self) -> io::Result<()> {
        self.finished = true;
        self.stream.finish().map_err(io::Error::other)
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Write for SendStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let SendStream { stream, connection, .. } = self;
        connection.0.base.block_on(stream.write(bytes)).map_err(|error| match error {
            quinn::WriteError::ConnectionLost(error) => connection.lost(&error).into(),
            quinn::WriteError::Stopped(_) => {
                io::Error::new(io::ErrorKind::BrokenPipe, "the other end stopped the stream")
            }
            other => io::Error::other(other),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.finished {
            // A connection that is gone needs no reset.
            let _ = self.stream.reset(VarInt::from_u32(0));
        }
    }
}

/// The receiving half of a stream.
pub struct RecvStream {
    stream: quinn::RecvStream,
    connection: Connection,
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecvStream").field(&self.stream.id()).finish()
    }
}

impl RecvStream {
    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Read for RecvStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let RecvStream { stream, connection } = self;
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = connection.0.base.block_on(stream.read(buffer)).map_err(|error| match error {
            quinn::ReadError::ConnectionLost(error) => connection.lost(&error).into(),
            quinn::ReadError::Reset(_) => {
                io::Error::new(io::ErrorKind::ConnectionReset, "the other end gave up the stream")
            }
            other => io::Error::other(other),
        })?;
        Ok(read.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_ends_text_does_not_command_the_terminal() {
        let close = quinn::ApplicationClose {
            error_code: VarInt::from_u32(7),
            reason: (&b"\x1b[2Jall is well\r\n"[..]).into(),
        };
        let remote = SocketAddr::from(([192, 0, 2, 1], 5));
        let error = QuicError::lost(remote, &ConnectionError::ApplicationClosed(close));
        let said = "192.0.2.1:5 closed the connection: \u{fffd}[2Jall is well\u{fffd}\u{fffd}";
        assert_eq!(error.to_string(), said);
        assert_eq!(plain(&"x".repeat(5000)).len(), LETTERS);
        assert_eq!(plain("naïve `name`"), "naïve `name`");
    }
}
