//! One call to send, one to receive: a message is a stream of bytes that counts as sent when the receiver has accepted it.

use std::io::{self, Read, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use super::congestion::View;
use super::endpoint::{Client, Connection, QuicError, RecvStream, SendStream, Server, Settings};
use super::identity::{Identity, PublicKey, Trust};

/// The receiver's answer when it has accepted a message.
const TAKEN: u8 = 1;

/// The result of [`send`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Bytes of the message.
    pub bytes: u64,
    /// The congestion control at the end.
    pub congestion: Option<View>,
}

/// An incoming message. Read it to its end; a read error means that it did not arrive completely.
#[derive(Debug)]
pub struct Message {
    receive: RecvStream,
    answer: SendStream,
}

impl Message {
    /// Accepts the next message of a connection.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn accept(connection: &Connection) -> Result<Self, QuicError> {
        let (answer, receive) = connection.accept()?;
        Ok(Message { receive, answer })
    }

    /// The sender's key.
    pub fn peer(&self) -> Option<PublicKey> {
        self.receive.connection().peer()
    }

    /// The sender's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.receive.connection().remote_address()
    }

    /// Confirms the message to the sender. A message dropped without this is refused.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn taken(mut self) -> io::Result<()> {
        self.answer.write_all(&[TAKEN])?;
        self.answer.finish()
    }
}

impl Read for Message {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive.read(buffer)
    }
}

impl Connection {
    /// Sends everything that can be read from `data` as a message. Returns when the receiver has accepted it.
    ///
    /// # Errors
    /// If reading fails, the connection breaks, or the receiver refuses the message.
    pub fn send(&self, data: &mut dyn Read) -> io::Result<Sent> {
        let (mut stream, mut answer) = self.open()?;
        let bytes = io::copy(data, &mut stream)?;
        stream.finish()?;
        let mut said = [0];
        answer.read_exact(&mut said).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                io::Error::new(error.kind(), format!("{} refused the message", self.remote_address()))
            }
            _ => error,
        })?;
        Ok(Sent { bytes, congestion: self.congestion() })
    }
}

/// Connects to `address` ("host:port"), sends a message, and closes the connection.
///
/// # Errors
/// As [`Client::connect`] and [`Connection::send`].
pub fn send(
    address: &str,
    identity: &Identity,
    trust: &Trust,
    settings: &Settings,
    data: &mut dyn Read,
) -> io::Result<Sent> {
    Client::new(identity, trust, settings)?.connect(address)?.send(data)
}

/// Listens on `address` ("0.0.0.0:4433") for ever and passes every message to `handle`, in a thread for each connection. A message is
/// accepted if `handle` succeeds, and refused otherwise.
///
/// # Errors
/// If it cannot listen, or its socket fails. An error of one connection ends only that connection.
pub fn serve(
    address: &str,
    identity: &Identity,
    trust: &Trust,
    settings: &Settings,
    handle: impl Fn(&mut Message) -> io::Result<()> + Sync,
) -> Result<(), QuicError> {
    let server = Server::bind(address, identity, trust, settings)?;
    let handle = &handle;
    std::thread::scope(|scope| {
        loop {
            let connection = match server.accept(Duration::from_secs(3600)) {
                Ok(Some(connection)) => connection,
                Err(QuicError::Ended) => return Err(QuicError::Ended),
                // A refused peer has been notified.
                Ok(None) | Err(_) => continue,
            };
            let take = move || {
                while let Ok(mut message) = Message::accept(&connection) {
                    if handle(&mut message).is_ok() && message.taken().is_err() {
                        break;
                    }
                }
            };
            // If no thread can be started, this connection is closed and the others continue.
            let _ = std::thread::Builder::new().spawn_scoped(scope, take);
        }
    })
}
