//! Cookies that prove an address without state, session numbers, and the codes with which a pre-shared key signs messages: all of them
//! HMAC-SHA256 (RFC 2104), truncated to what their purpose needs.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use warpline_core::{TimeDelta, Timestamp};

/// How long a cookie is valid, and so how long a replayed one can be of use to the address it was made for.
pub const COOKIE_LIFE: TimeDelta = TimeDelta::from_secs(10);
/// Bytes of a code.
pub(super) const TAG: usize = 16;

/// A key with its HMAC pads computed.
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl std::fmt::Debug for Key {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    pub(super) fn new(secret: &[u8]) -> Option<Key> {
        // HMAC accepts keys of every length.
        Hmac::new_from_slice(secret).ok().map(Key)
    }

    fn begin(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        mac
    }

    fn block(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.begin(parts).finalize().into_bytes().into()
    }

    /// The code of a message.
    pub(super) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag.copy_from_slice(&self.block(parts)[..TAG]);
        tag
    }

    /// Whether `tag` is the message's code, in constant time.
    pub(super) fn verify(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        tag.len() == TAG && self.begin(parts).verify_truncated_left(tag).is_ok()
    }

    /// The key of one session: its signatures are worthless in another.
    pub(super) fn session(&self, nonce: &[u8; 16], cookie: &[u8; 16]) -> Option<Key> {
        Key::new(&self.block(&[b"warpline cap session", nonce, cookie]))
    }
}

/// Creates a server's cookies and session numbers.
#[derive(Clone, Debug)]
pub(super) struct Secret(Key);

fn octets(address: &SocketAddr) -> ([u8; 16], [u8; 2]) {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    (ip, address.port().to_be_bytes())
}

impl Secret {
    pub(super) fn new(secret: &[u8; 32]) -> Option<Secret> {
        Key::new(secret).map(Secret)
    }

    /// The cookie for an address, made at `now`.
    pub(super) fn cookie(&self, now: Timestamp, from: &SocketAddr, nonce: &[u8; 16]) -> (u64, [u8; 16]) {
        let time = now.as_millis();
        (time, self.at(time, from, nonce))
    }

    fn at(&self, time: u64, from: &SocketAddr, nonce: &[u8; 16]) -> [u8; 16] {
        let (ip, port) = octets(from);
        self.0.tag(&[b"cookie", &time.to_be_bytes(), &ip, &port, nonce])
    }

    /// Whether a returned cookie was given to this address, not too long ago.
    pub(super) fn accepts(
        &self,
        now: Timestamp,
        from: &SocketAddr,
        nonce: &[u8; 16],
        (time, cookie): (u64, &[u8; 16]),
    ) -> bool {
        let (ip, port) = octets(from);
        let fresh = now.as_millis().checked_sub(time).is_some_and(|age| age <= COOKIE_LIFE.as_millis());
        fresh && self.0.verify(&[b"cookie", &time.to_be_bytes(), &ip, &port, nonce], cookie)
    }

    /// The number of the session that a cookie opens: always the same, so that a lost answer can be repeated.
    pub(super) fn token(&self, cookie: &[u8; 16]) -> u64 {
        let tag = self.0.tag(&[b"token", cookie]);
        tag.iter().take(8).fold(0, |token, &byte| (token << 8) | u64::from(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; 16] = [7; 16];

    #[test]
    fn a_cookie_is_good_for_its_address_its_nonce_and_a_while() {
        let secret = Secret::new(&[1; 32]).unwrap();
        let from: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let at = Timestamp::from_secs(100);
        let (time, cookie) = secret.cookie(at, &from, &NONCE);
        let ok = |now: Timestamp, from: &str, nonce: &[u8; 16]| {
            secret.accepts(now, &from.parse().unwrap(), nonce, (time, &cookie))
        };
        assert!(ok(at, "192.0.2.1:4000", &NONCE) && ok(at + COOKIE_LIFE, "192.0.2.1:4000", &NONCE));
        assert!(!ok(at + COOKIE_LIFE + TimeDelta::from_millis(1), "192.0.2.1:4000", &NONCE), "too old");
        assert!(!ok(Timestamp::from_secs(99), "192.0.2.1:4000", &NONCE), "from the future");
        assert!(!ok(at, "192.0.2.1:4001", &NONCE) && !ok(at, "192.0.2.2:4000", &NONCE));
        assert!(!ok(at, "192.0.2.1:4000", &[8; 16]));
        assert!(!Secret::new(&[2; 32]).unwrap().accepts(at, &from, &NONCE, (time, &cookie)));
    }

    #[test]
    fn codes_know_their_key_and_every_byte() {
        let key = Key::new(b"a key").unwrap();
        let tag = key.tag(&[b"ab", b"c"]);
        assert!(key.verify(&[b"abc"], &tag));
        assert!(!key.verify(&[b"abd"], &tag) && !key.verify(&[b"abc"], &tag[..15]));
        assert!(!Key::new(b"another").unwrap().verify(&[b"abc"], &tag));
        let session = key.session(&NONCE, &[1; 16]).unwrap();
        assert_ne!(session.tag(&[b"abc"]), tag);
    }
}
