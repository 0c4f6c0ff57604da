//! A test bed for guests: hosts in pairs, with a link of Warpline's network between them.

use std::collections::VecDeque;
use std::net::IpAddr;

use warpline_core::{
    Body, Dscp, Ecn, EndpointId, FlowId, Frame, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp,
};
use warpline_guest::order::{FlowOrder, ProgramOrder, Role};
use warpline_guest::{HostId, Kernel, Simulator};
use warpline_net::qdisc::QdiscConfig;
use warpline_net::{Hosts, LinkConfig, Network, Port, RateConfig, RouteId, Settled};

#[path = "config.rs"]
mod config;

pub(crate) use config::{address, guest, host, seconds};

/// The guest kernel, or `None` after printing why the test is skipped.
pub(crate) fn kernel() -> Option<Kernel> {
    match Kernel::find() {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            warpline_skip::skip("program", error);
            None
        }
    }
}

/// Adds both ends of a flow between two hosts of the first guest, or of two guests.
pub(crate) fn bulk(id: u32, from: u32, to: u32, to_address: u32, bytes: Option<u64>) -> [FlowOrder; 2] {
    let port = 5001 + id as u16;
    let end = |host, role| FlowOrder {
        id,
        host,
        role,
        start: 0,
        stop: None,
        cc: None,
        after: vec![],
        verify: false,
    };
    let to_address = IpAddr::V4(address(to_address));
    [end(to, Role::Sink { port }), end(from, Role::Send { to: to_address, port, bytes })]
}

pub(crate) fn program(host: u32, words: &[&str], output: &str) -> ProgramOrder {
    ProgramOrder {
        host,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        environment: vec![("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned())],
        directory: "/".to_owned(),
        start: 0,
        stop: 15,
        collect: Vec::new(),
        output: output.to_owned(),
        after: Vec::new(),
        notice: None,
    }
}

/// A link of the bed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) rate: u64,
    pub(crate) delay: TimeDelta,
    pub(crate) queue: u64,
}

impl Path {
    pub(crate) fn new(rate: u64, delay_ms: u64, queue: u64) -> Self {
        Path { rate, delay: TimeDelta::from_millis(delay_ms), queue }
    }
}

/// Pairs of hosts (0 and 1, 2 and 3, ...) with a link for each pair, and a digest of every byte and timestamp.
pub(crate) struct Bed {
    network: Network,
    ends: Ends,
    routes: Vec<RouteId>,
    pub(crate) digest: u64,
    pub(crate) datagrams: u64,
    /// The datagrams that hosts sent, with the time and the host, if they are to be kept.
    pub(crate) seen: Option<Vec<(Timestamp, u32, Vec<u8>)>>,
}

struct Ends {
    frames: Vec<Vec<u8>>,
    /// Whether each has been handed out in advance.
    ahead: Vec<bool>,
    free: Vec<u32>,
    arrived: VecDeque<(u32, u32)>,
}

impl Hosts for Ends {
    fn handle_packet(&mut self, _: Timestamp, packet: &Packet, _: &mut Port<'_>) {
        if let Body::Frame(Frame { handle }) = packet.body {
            self.arrived.push_back((packet.to.0, handle));
        }
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Port<'_>) {}
}

impl Bed {
    pub(crate) fn new(hosts: u32, path: Path) -> Self {
        let mut network = Network::new();
        let streams = Streams::new(1);
        let links: Vec<_> = (0..hosts)
            .map(|from| {
                network.add_link(
                    LinkConfig {
                        rate: RateConfig::Constant(Rate::from_bps(path.rate)),
                        delay: path.delay,
                        qdisc: QdiscConfig::drop_tail(warpline_net::qdisc::QueueLimit::Bytes(path.queue)),
                        ..LinkConfig::new(format!("{from}"), NodeId(from), NodeId(from ^ 1))
                    },
                    &streams,
                )
            })
            .collect();
        let routes = links.iter().map(|link| network.add_route(&[*link]).unwrap()).collect();
        for link in links {
            network.watch(link);
        }
        let ends = Ends { frames: Vec::new(), ahead: Vec::new(), free: Vec::new(), arrived: VecDeque::new() };
        Bed { network, ends, routes, digest: 0xcbf2_9ce4_8422_2325, datagrams: 0, seen: None }
    }

    fn note(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(17);
    }
}

impl Simulator for Bed {
    fn next_event(&mut self) -> Option<Timestamp> {
        self.network.next_event()
    }

    fn run_until(&mut self, until: Timestamp) {
        self.network.run_until(until, &mut self.ends, u64::MAX);
        for handle in self.network.take_released() {
            self.ends.free.push(handle);
        }
    }

    fn handle_datagram(&mut self, from: HostId, datagram: &[u8]) {
        let now = self.network.now();
        self.datagrams += 1;
        if let Some(seen) = &mut self.seen {
            seen.push((now, from.0, datagram.to_vec()));
        }
        self.note(now.as_nanos() ^ u64::from(from.0) << 56);
        for chunk in datagram.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.note(u64::from_ne_bytes(word));
        }
        let handle = self.ends.free.pop().unwrap_or_else(|| {
            self.ends.frames.push(Vec::new());
            self.ends.ahead.push(false);
            self.ends.frames.len() as u32 - 1
        });
        let frame = &mut self.ends.frames[handle as usize];
        frame.clear();
        frame.extend_from_slice(datagram);
        let packet = Packet {
            flow: FlowId(from.0),
            to: EndpointId(from.0 ^ 1),
            size: datagram.len() as u32,
            ecn: Ecn::NotEct,
            class: 0,
            damaged: false,
            dscp: Dscp::default(),
            id: 0,
            body: Body::Frame(Frame { handle }),
        };
        self.network.port(now).send(self.routes[from.0 as usize], packet);
    }

    fn poll_ahead(&mut self, deliver: &mut dyn FnMut(HostId, Timestamp, &mut Vec<u8>)) {
        for Settled { arrival, packet } in self.network.take_settled() {
            let Body::Frame(Frame { handle }) = packet.body else { continue };
            self.ends.ahead[handle as usize] = true;
            // The frame is handed out once.
            deliver(HostId(packet.to.0), arrival, &mut self.ends.frames[handle as usize]);
        }
    }

    fn poll_transmit(&mut self, deliver: &mut dyn FnMut(HostId, &[u8])) {
        while let Some((to, handle)) = self.ends.arrived.pop_front() {
            if !std::mem::take(&mut self.ends.ahead[handle as usize]) {
                deliver(HostId(to), &self.ends.frames[handle as usize]);
            }
            self.ends.free.push(handle);
        }
    }
}

/// It reads the time-stamp counter: after a sleep, many times, with `rdtscp`, and in a child.
const COUNTING: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>
int main(void)
{
    unsigned processor = 9;
    unsigned long long before = __rdtsc();
    usleep(50000);
    unsigned long long slept = __rdtsc() - before, last = before;
    for (int i = 0; i < 20000; i++) {
        unsigned long long next = i % 2 ? __rdtsc() : __rdtscp(&processor);
        if (next <= last)
            return 1;
        last = next;
    }
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    printf("%llu %llu %u %lld\n", slept, last - before - slept, processor, time.tv_sec * 1000000000ll + time.tv_nsec - (long long)__rdtsc());
    fflush(stdout);
    if (fork() == 0) {
        printf("%llu\n", __rdtsc());
        return 0;
    }
    wait(NULL);
    return 0;
}
"#;

/// Compiles it into a directory, and returns its path.
pub(crate) fn counting(directory: &std::path::Path) -> String {
    let (source, built) = (directory.join("counting.c"), directory.join("counting"));
    std::fs::write(&source, COUNTING).unwrap();
    let mut compiler = std::process::Command::new("cc");
    assert!(compiler.args(["-O1", "-o"]).arg(&built).arg(&source).status().unwrap().success());
    built.to_str().unwrap().to_owned()
}
