//! Addresses of shells: each link has a block of its own, and gives parts of it to the shells inside.
//!
//! The first level divides 100.64.0.0/10 (RFC 6598) into 64 blocks of /16. A shell takes the first two addresses of its block
//! for its link, 1 for the outside and 2 for the inside, and the shells inside it divide the rest by 16: a route to the whole
//! block reaches them all, so that no address is translated between shells. IPv6 does the same under a unique local prefix
//! (RFC 4193), with the IPv4 block in its address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The block that all shells share.
const ALL: Block = Block { network: u32::from_be_bytes([100, 64, 0, 0]), len: 10 };

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    network: u32,
    len: u8,
}

impl Block {
    /// The blocks that a shell may choose from: those in `parent`, the block of the surrounding shell, if there is one. Empty
    /// if there is no room for another level.
    pub(crate) fn choices(parent: Option<Block>) -> Vec<Block> {
        let (within, bits, first) = match parent {
            None => (ALL, 6, 0),
            // The first part belongs to the parent's own link.
            Some(parent) if parent.len + 4 <= 28 => (parent, 4, 1),
            Some(_) => return Vec::new(),
        };
        let len = within.len + bits;
        (first..1u32 << bits)
            .map(|part| Block { network: within.network | part << (32 - len), len })
            .collect()
    }

    /// Its number among the choices.
    pub(crate) fn number(&self) -> u32 {
        let bits = if self.len == 16 { 6 } else { 4 };
        (self.network >> (32 - self.len)) & ((1 << bits) - 1)
    }

    /// The outside interface: the shell that has it has the block.
    pub(crate) fn interface(&self) -> String {
        format!("wl{}", self.number())
    }

    fn v6(&self, host: u16) -> IpAddr {
        let (high, low) = ((self.network >> 16) as u16, self.network as u16);
        Ipv6Addr::new(0xfd77, 0x6172, 0x706c, high, low, 0, 0, host).into()
    }

    /// Addresses of the outside: IPv4 and IPv6.
    pub(crate) fn outside(&self) -> [IpAddr; 2] {
        [Ipv4Addr::from(self.network + 1).into(), self.v6(1)]
    }
    /// Addresses of the inside.
    pub(crate) fn inside(&self) -> [IpAddr; 2] {
        [Ipv4Addr::from(self.network + 2).into(), self.v6(2)]
    }
    /// The whole blocks, as networks with prefix lengths.
    pub(crate) fn networks(&self) -> [(IpAddr, u8); 2] {
        [(Ipv4Addr::from(self.network).into(), self.len), (self.v6(0), 48 + self.len)]
    }
}

/// The possible interfaces of shells in one namespace: the first level has the most.
pub(crate) fn interfaces() -> impl Iterator<Item = String> {
    Block::choices(None).into_iter().map(|block| block.interface())
}

/// Whether a shell's interface outside may have this name.
pub(crate) fn is_interface(name: &str) -> bool {
    interfaces().any(|own| own == name)
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.network), self.len)
    }
}

impl FromStr for Block {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (network, len) = text.split_once('/').ok_or(())?;
        let network = u32::from(network.parse::<Ipv4Addr>().map_err(drop)?);
        let len = len.parse().ok().filter(|len| [16, 20, 24, 28].contains(len)).ok_or(())?;
        let mask = u32::MAX << (32 - u32::from(len));
        let inside = network & (u32::MAX << (32 - ALL.len)) == ALL.network;
        if inside && network & !mask == 0 { Ok(Block { network, len }) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_in_their_parent_s_and_apart() {
        let mut parent = None;
        for (level, count) in [(0, 64), (1, 15), (2, 15), (3, 15), (4, 0)] {
            let choices = Block::choices(parent);
            assert_eq!(choices.len(), count, "level {level}");
            for (a, b) in choices.iter().zip(choices.iter().skip(1)) {
                assert_eq!(b.network - a.network, 1 << (32 - a.len));
                assert_eq!(b.number(), a.number() + 1);
            }
            let Some(&last) = choices.last() else { break };
            if let Some(parent) = parent {
                let link: Block = parent;
                // Neither end of the parent's link lies in a child's block.
                assert!(choices[0].network > link.network + 3);
                assert!(last.network - link.network < 1 << (32 - link.len));
            }
            assert_eq!(last.to_string().parse(), Ok(last));
            parent = Some(last);
        }
    }

    #[test]
    fn interfaces_are_those_of_blocks_on_any_level() {
        assert_eq!(interfaces().count(), 64);
        let inner = Block::choices("100.66.0.0/16".parse().ok());
        for block in Block::choices(None).iter().chain(&inner) {
            assert!(is_interface(&block.interface()));
        }
        for other in ["wl64", "wl", "wl01", "wlan0", "wlp3s0", "eth0"] {
            assert!(!is_interface(other), "{other}");
        }
    }

    #[test]
    fn both_families_say_the_same() {
        let block: Block = "100.66.0.0/16".parse().unwrap();
        assert_eq!(block.inside().map(|a| a.to_string()), ["100.66.0.2", "fd77:6172:706c:6442::2"]);
        assert_eq!(block.networks()[1].1, 64);
        for wrong in ["", "100.66.0.0", "100.66.0.1/16", "10.0.0.0/16", "100.66.0.0/17", "x/16"] {
            assert!(wrong.parse::<Block>().is_err(), "{wrong}");
        }
    }
}
