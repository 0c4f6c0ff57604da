//! Limits on handshakes: how much work unknown peers can cause before they have shown a key.
//!
//! A handshake costs memory and an Ed25519 signature, and an address can be forged. So while more than a few handshakes are under way, a new
//! peer must first prove its address (Retry, RFC 9000 section 8.1.2), which costs the server almost nothing. The number of handshakes is
//! limited, for each address and in total. A peer beyond a limit gets no answer, and tries again by itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From this many handshakes under way, addresses must be proved.
const FREE: usize = 16;

/// Most handshakes under way.
const MOST: usize = 256;

/// Most handshakes under way from one address (IPv6: one network of 64 bits).
const PER_ADDRESS: usize = 32;

/// Most connections of a server, including handshakes.
pub(super) const CONNECTIONS: usize = 1024;

/// A handshake is abandoned after this long.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// The decision about a new peer.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It may do a handshake, which counts until this is dropped.
    Welcome(Place),
    /// It must prove its address.
    Prove,
    /// It gets no answer.
    Ignore,
}

/// The handshakes under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Admission(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A handshake under way; it counts until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    admission: Admission,
    address: IpAddr,
}

/// The part of an address that counts as one peer. For IPv6 it is the network, since a host can use all of its addresses.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6((u128::from(six) >> 64 << 64).into()),
        four => four,
    }
}

impl Admission {
    fn under_way(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handshakes under way.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.under_way().values().sum()
    }

    /// Decides about a new peer at `remote`. `proved`: whether its address is proved; `connections`: those that the server has.
    pub(super) fn judge(&self, remote: SocketAddr, proved: bool, connections: usize) -> Verdict {
        let address = counted(remote.ip());
        let mut under_way = self.under_way();
        let all: usize = under_way.values().sum();
        if !proved && all >= FREE {
            return Verdict::Prove;
        }
        let own = under_way.get(&address).copied().unwrap_or(0);
        if all >= MOST || own >= PER_ADDRESS || connections >= CONNECTIONS {
            return Verdict::Ignore;
        }
        under_way.insert(address, own + 1);
        Verdict::Welcome(Place { admission: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.admission.under_way();
        if let Some(own) = under_way.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                under_way.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    #[test]
    fn after_a_few_handshakes_addresses_must_be_proved_and_each_has_a_limit() {
        let admission = Admission::default();
        let judge = |text: &str, proved| admission.judge(from(text), proved, 0);
        let mut places = Vec::new();
        for number in 0..FREE {
            match judge(&format!("192.0.2.{number}"), false) {
                Verdict::Welcome(place) => places.push(place),
                other => panic!("{number}: {other:?}"),
            }
        }
        assert!(matches!(judge("198.51.100.1", false), Verdict::Prove));
        let mut proved = 0;
        while let Verdict::Welcome(place) = judge("198.51.100.1", true) {
            places.push(place);
            proved += 1;
        }
        assert_eq!(proved, PER_ADDRESS);
        // Other addresses are still accepted.
        assert!(matches!(judge("198.51.100.2", true), Verdict::Welcome(_)));
        places.clear();
        assert_eq!(admission.count(), 0);
        assert!(matches!(judge("198.51.100.1", false), Verdict::Welcome(_)));
        assert!(matches!(admission.judge(from("192.0.2.1"), true, CONNECTIONS), Verdict::Ignore));
    }

    #[test]
    fn the_total_is_limited_and_an_ipv6_network_counts_as_one_address() {
        let admission = Admission::default();
        let mut places = Vec::new();
        for number in 0..2 * MOST {
            if let Verdict::Welcome(place) =
                admission.judge(from(&format!("10.0.{}.{}", number / 256, number % 256)), true, 0)
            {
                places.push(place);
            }
        }
        assert_eq!(admission.count(), MOST);
        assert_eq!(counted("2001:db8::1".parse().unwrap()), counted("2001:db8::ffff:2".parse().unwrap()));
        assert_ne!(counted("2001:db8::1".parse().unwrap()), counted("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(counted("::ffff:192.0.2.1".parse().unwrap()), counted("192.0.2.1".parse().unwrap()));
    }
}
