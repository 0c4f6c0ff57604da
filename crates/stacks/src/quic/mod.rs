//! QUIC with a congestion control of `warpline-transport`: background transfer for programs that embed it.
//!
//! ```no_run
//! use warpline_stacks::quic::{self, Identity, Settings, Trust};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = Identity::load("team.key".as_ref())?;
//! let trust = Trust::only(key.public());
//! // The sender, in one line; TCP Nice is the default congestion control.
//! quic::send("host:4433", &key, &trust, &Settings::default(), &mut &b"hello"[..])?;
//! // The receiver, in one line.
//! quic::serve("0.0.0.0:4433", &key, &trust, &Settings::default(), |message| {
//!     std::io::copy(message, &mut std::io::sink()).map(|_| ())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! * [`congestion`]: connects quinn's `congestion::Controller` to the library's algorithms; programs with their own endpoints need this alone.
//! * [`gate`]: windows below two datagrams, which quinn does not support.
//! * [`identity`], [`tls`]: encryption and authentication by pinned keys.
//! * `admission`: limits on handshakes with a server. `socket`: UDP sockets where the network card cannot split batches.
//! * [`endpoint`]: blocking connections and streams. [`message`]: one call to send, one to receive.

mod admission;
#[cfg(test)]
mod admission_tests;
pub mod congestion;
pub mod endpoint;
pub mod gate;
pub mod identity;
pub mod message;
mod socket;
pub mod tls;

#[cfg(test)]
mod path;
#[cfg(test)]
mod path_tests;

pub use congestion::{Factory, View};
pub use endpoint::{Client, Connection, QuicError, RecvStream, SendStream, Server, Settings, plain};
pub use gate::Keeper;
pub use identity::{Identity, KeyError, PublicKey, Trust};
pub use message::{Message, Sent, send, serve};

/// quinn, for programs that build their own endpoints with [`Factory`] and [`Keeper`].
pub use quinn;
