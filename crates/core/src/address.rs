//! The address that every node has where nothing gives it another: in captures, on live interfaces and inside guests.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::NodeId;

impl NodeId {
    /// 10.x.y.z by the node's number: node 0 is 10.0.0.1 (private addresses, RFC 1918).
    ///
    /// ```
    /// # use warpline_core::NodeId;
    /// assert_eq!(NodeId(0).ipv4().to_string(), "10.0.0.1");
    /// ```
    pub fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((10 << 24) | (self.0.wrapping_add(1) & 0x00ff_ffff))
    }

    /// fd77:6172:7075::x:y by the node's number: node 0 is fd77:6172:7075::1 (a unique local prefix, RFC 4193).
    pub fn ipv6(self) -> Ipv6Addr {
        let number = self.0.wrapping_add(1);
        Ipv6Addr::new(0xfd77, 0x6172, 0x7075, 0, 0, 0, (number >> 16) as u16, number as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_number() {
        assert_eq!(NodeId(0x01_02_03).ipv4(), Ipv4Addr::new(10, 1, 2, 4));
        assert_eq!(NodeId(1).ipv6().to_string(), "fd77:6172:7075::2");
    }
}
