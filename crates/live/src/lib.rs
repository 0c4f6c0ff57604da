//! Live emulation: real packets through the simulator's network, by the real clock. Linux only.
//!
//! The same [`warpline_net::Network`] that a simulation runs under a virtual clock carries packets of real programs here. Its
//! links, queues, losses and schedules are those of the simulator; none of them is implemented twice.
//!
//! ```text
//!   namespace of a program             the emulator's own namespace             namespace of another program
//!   warp0 ---------- veth ----------- port | Emulator + Network | port ----------- veth ---------- wl0
//! ```
//!
//! - [`port`]: where packets come in and go out: an interface ([`port::af_packet`]) or a TUN device ([`port::tun`]).
//! - [`pool`]: the bytes of packets in the network, which knows them by number ([`warpline_core::Frame`]).
//! - [`datagram`], [`ip`]: parsing of IP headers, to carry a datagram, and to receive or make one; the bytes may be anything.
//! - [`clock`]: the real clock, and how to wait for an instant of it.
//! - [`emulator`]: the loop over any number of ports, one network and one [`emulator::World`] (live rules and simulated hosts).
//! - [`crossing`]: the smallest network with live ends, and a command behind it.
//! - [`audit`]: whether it kept pace, and what was lost outside the emulated network.
//! - [`netns`], [`netlink`], [`offload`]: namespaces, veth pairs, addresses and routes; offloads switched off.
//! - [`router`], [`icmp`], [`reassembly`]: what routers do to datagrams, ICMP errors and echo, reassembly of fragments.
//! - [`wire`]: simulated hosts that talk to real ones.
//! - [`host`], [`program`]: hosts that are namespaces, and the programs that run there.
//! - [`outside`]: machines of others, on this machine's interfaces.
//! - [`registry`]: a record of what exists now, so that leftovers of a killed run can be removed. [`private`]: the directory for that.
//! - [`keeper`]: a second process, which cleans up if this one is killed.
//! - [`nice`]: a command whose TCP connections yield to all others. [`bpf`]: the programs in the kernel that do it.
//! - [`start`], [`signals`]: programs that end with this process, and the signals that it passes on to them.
//! - [`measure`]: the sockets of `cap` and `treno`.
//! - [`shell`]: a command behind an emulated link. [`doctor`]: what this machine can do.
//! - [`terminal`]: the title of the terminal that a command uses.
//! - [`calibrate`]: how fast and how accurate emulation is on this machine. [`load`]: its load generators.
//!
//! To run a network with live hosts: make a namespace per host ([`netns::NetNs::create`]) and one for the emulator, a veth
//! pair from each to that one ([`netlink::Netlink::add_veth`]), a port on each pair's near end, add the ports to an
//! [`emulator::Emulator`], and run it with a world that sends each arrival on a route and transmits what is delivered. `shell` is
//! the smallest complete example.

#![cfg(target_os = "linux")]

mod address;
pub mod audit;
pub mod bpf;
pub mod calibrate;
pub mod cgroup;
pub mod checksum;
pub mod clock;
pub mod control;
pub mod crossing;
pub mod datagram;
pub mod doctor;
pub mod emulator;
pub mod enter;
mod held;
pub mod host;
pub mod icmp;
pub mod ip;
pub mod keeper;
pub mod load;
pub mod measure;
pub mod nat;
pub mod netlink;
pub mod netns;
mod nftables;
pub mod nice;
pub mod offload;
mod outgoing;
pub mod outside;
pub mod pool;
pub mod port;
pub mod private;
pub mod privilege;
mod process;
pub mod program;
pub mod reassembly;
pub mod registry;
pub mod router;
pub mod shell;
pub mod signals;
pub mod start;
pub mod stepper;
pub mod terminal;
pub mod translation;
pub mod wire;
