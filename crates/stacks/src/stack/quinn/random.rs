//! Random numbers for quinn-proto and rustls, so that a run gives the same bytes each time.
//!
//! rustls keeps its source of random numbers as a static reference, and quinn-proto asks functions without arguments for connection IDs. Neither can
//! have a host's own stream. So the stream lies in a variable of the thread while the host's code runs ([`with`]).
//!
//! ring makes the secret of a key exchange from the system's random numbers and takes no others. [`X25519`] is the same key exchange (RFC 7748) with a
//! secret of ours. The rest of the cryptography is ring's, and draws nothing.

use std::cell::RefCell;

use curve25519_dalek::MontgomeryPoint;
use quinn_proto::{ConnectionId, ConnectionIdGenerator};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup, ring,
};
use rustls::{Error, NamedGroup, PeerMisbehaved};
use warpline_core::Stream;

/// Bytes of a connection ID: those of quinn's own.
const CONNECTION_ID: usize = 8;

thread_local! {
    /// The stream of the host whose code runs in this thread.
    static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
}

/// Runs `action` with the random numbers of `stream`.
pub(super) fn with<R>(stream: &mut Stream, action: impl FnOnce() -> R) -> R {
    STREAM.set(Some(stream.clone()));
    let result = action();
    if let Some(used) = STREAM.take() {
        *stream = used;
    }
    result
}

/// The next number of the host whose code runs. None outside of [`with`].
pub(super) fn next() -> Option<u64> {
    STREAM.with_borrow_mut(|stream| stream.as_mut().map(Stream::next_u64))
}

/// Fills `bytes` with the numbers of a stream.
pub(super) fn fill(stream: &mut Stream, bytes: &mut [u8]) {
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&stream.next_u64().to_le_bytes()[..word.len()]);
    }
}

/// Fills `bytes` with the numbers of the host whose code runs.
fn fill_own(bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
    STREAM.with_borrow_mut(|stream| {
        fill(stream.as_mut().ok_or(GetRandomFailed)?, bytes);
        Ok(())
    })
}

/// A connection ID of the host whose code runs.
pub(super) fn connection_id() -> ConnectionId {
    ConnectionId::new(&next().unwrap_or_default().to_le_bytes())
}

/// Makes the connection IDs of a host.
#[derive(Debug)]
pub(super) struct Identifiers;

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        connection_id()
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// The random numbers of TLS.
#[derive(Debug)]
struct Own;

impl SecureRandom for Own {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill_own(bytes)
    }
}

/// The key exchange of TLS.
#[derive(Debug)]
struct X25519;

/// A key exchange that has begun.
struct Exchange {
    secret: [u8; 32],
    public: [u8; 32],
}

impl Exchange {
    fn with(secret: [u8; 32]) -> Exchange {
        Exchange { secret, public: MontgomeryPoint::mul_base_clamped(secret).to_bytes() }
    }
}

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = [0; 32];
        fill_own(&mut secret)?;
        Ok(Box::new(Exchange::with(secret)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = MontgomeryPoint(peer).mul_clamped(self.secret).to_bytes();
        Ok(SharedSecret::from(&shared[..]))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// ring's cryptography with the random numbers of the host whose code runs.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider { kx_groups: vec![&X25519], secure_random: &Own, ..ring::default_provider() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7748 section 6.1.
    #[test]
    fn both_ends_agree_as_in_the_rfc() {
        let bytes = |text: &str| -> [u8; 32] {
            let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
            std::array::from_fn(byte)
        };
        let alice = Exchange::with(bytes("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
        let bob = Exchange::with(bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
        let publics = [alice.public, bob.public];
        assert_eq!(publics[0], bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
        assert_eq!(publics[1], bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
        let shared = bytes("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        for (own, peer) in [(alice, publics[1]), (bob, publics[0])] {
            assert_eq!(Box::new(own).complete(&peer).unwrap().secret_bytes(), shared);
        }
    }

    #[test]
    fn the_secret_comes_from_the_stream_of_the_host() {
        let start = |seed| {
            let mut stream = warpline_core::Streams::new(seed).stream("exchange");
            with(&mut stream, || X25519.start().unwrap())
        };
        let (one, other) = (start(1), start(2));
        let (first, second) = (one.pub_key().to_vec(), other.pub_key().to_vec());
        assert_ne!(first, second);
        assert_eq!(start(1).pub_key(), first);
        let (here, there) = (one.complete(&second).unwrap(), other.complete(&first).unwrap());
        assert_eq!(here.secret_bytes(), there.secret_bytes());
        assert!(X25519.start().is_err(), "outside of `with`");
    }
}
