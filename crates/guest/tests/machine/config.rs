//! The guests of tests, as they are before a test changes them.

use std::net::Ipv4Addr;

use warpline_core::dilation::Clocks;
use warpline_guest::machine::Timing;
use warpline_guest::order::{HostOrder, Order};
use warpline_guest::{Console, MachineConfig};

pub(crate) fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host)
}

pub(crate) fn host(number: u32, vlan: u16) -> HostOrder {
    HostOrder {
        name: format!("h{number}"),
        vlan,
        mac: warpline_guest::frame::mac(vlan),
        v4: address(number),
        v6: None,
        mtu: 1500,
        cc: None,
        sysctl: Vec::new(),
        interfaces: vec![],
        tc: vec![],
    }
}

pub(crate) fn seconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// A guest with the hosts `first..first + count` that runs for `duration` seconds.
pub(crate) fn guest(name: &str, first: u32, count: u32, duration: f64) -> MachineConfig {
    MachineConfig {
        name: name.to_owned(),
        kernel: None,
        memory: 256 << 20,
        seed: 1,
        timing: Timing::LockStep,
        fastest: None,
        cpu: None,
        clocks: Clocks::default(),
        own_tsc: false,
        console: Console::File,
        order: Order {
            end: seconds(duration),
            hosts: (0..count).map(|n| host(first + n, 1 + n as u16)).collect(),
            ..Order::default()
        },
    }
}
