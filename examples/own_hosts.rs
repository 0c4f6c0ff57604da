//! A simulation of one's own, with a congestion control of one's own: two transfers share the middle link of a dumbbell. One uses CUBIC. The
//! other, `Shy`, gives way as soon as a queue builds up.
//!
//! `cargo run --release --package warpline-net --example own_hosts`
#![allow(clippy::print_stdout, reason = "it is for people")]

use warpline_core::{
    EndpointId, FlowId, LinkId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp,
};
use warpline_net::{Hosts, LinkConfig, Network, Port, RateConfig, RouteError, RouteId};
use warpline_transport::cc::{AckSample, Algorithm, CongestionControl, CongestionEvent, Controller};
use warpline_transport::tcp::{Connection, TcpConfig};

/// Grows by a segment in every round trip, but shrinks by an eighth while packets wait for more than 5 ms.
#[derive(Debug)]
struct Shy {
    cwnd: u64,
    round_end: u64,
}

impl CongestionControl for Shy {
    fn on_ack(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt.filter(|_| ack.ack >= self.round_end) else { return };
        self.round_end = ack.next_seq;
        if rtt > ack.min_rtt + TimeDelta::from_millis(5) {
            self.cwnd = (self.cwnd * 7 / 8).max(2 * ack.mss);
        } else if ack.cwnd_limited {
            self.cwnd += ack.mss;
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd / 2).max(2 * event.mss);
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.cwnd = event.mss;
    }
    fn undo(&mut self, _now: Timestamp) {}
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.cwnd // never in slow start
    }
    fn name(&self) -> &'static str {
        "shy"
    }
}

/// Both ends of every connection, and the route that each end sends on. Ends 0 and 1 talk to each other, as do 2 and 3.
#[derive(Default)]
struct Ends {
    tcp: Vec<Connection<Controller>>,
    routes: Vec<RouteId>,
}

impl Ends {
    /// Sends what an end has to send, and asks for a call when its next timer is due.
    fn transmit(&mut self, now: Timestamp, end: EndpointId, port: &mut Port<'_>) {
        let tcp = &mut self.tcp[end.index()];
        while let Some((segment, ecn)) = tcp.poll_transmit(now) {
            let packet = Packet::tcp(FlowId(end.0 / 2), EndpointId(end.0 ^ 1), segment, ecn);
            port.send(self.routes[end.index()], packet);
        }
        port.set_timer(TimerId(end.0), tcp.poll_timeout());
    }
}

impl Hosts for Ends {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        if let Some(segment) = packet.body.tcp() {
            self.tcp[packet.to.index()].handle_segment(now, segment, packet.ecn);
            self.transmit(now, packet.to, port);
        }
    }
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        let end = EndpointId(timer.0);
        self.tcp[end.index()].handle_timeout(now);
        self.transmit(now, end, port);
    }
}

/// One direction of a link, with a queue for a thousand packets.
fn link(network: &mut Network, from: u32, to: u32, megabits: u64, millis: u64) -> LinkId {
    let (rate, delay) = (Rate::from_bps(megabits * 1_000_000), TimeDelta::from_millis(millis));
    let config = LinkConfig::new(format!("{from}>{to}"), NodeId(from), NodeId(to));
    network.add_link(LinkConfig { rate: RateConfig::Constant(rate), delay, ..config }, &Streams::new(1))
}

fn main() -> Result<(), RouteError> {
    // The routers are 0 and 1. Hosts 2 and 4 are joined to router 0, hosts 3 and 5 to router 1, by fast links. The one in the middle is slow.
    let (mut network, mut hosts) = (Network::new(), Ends::default());
    let middle = [link(&mut network, 0, 1, 20, 15), link(&mut network, 1, 0, 20, 15)];
    let config = TcpConfig::default();
    let cubic = || Algorithm::default().build(&config.cc_config());
    let shy = Shy { cwnd: config.cc_config().initial_window, round_end: 0 };
    for (left, control) in [(2, cubic()), (4, Controller::Boxed(Box::new(shy)))] {
        for (from, near, slow, far, to) in
            [(left, 0, middle[0], 1, left + 1), (left + 1, 1, middle[1], 0, left)]
        {
            let first = link(&mut network, from, near, 1000, 5);
            let last = link(&mut network, far, to, 1000, 5);
            hosts.routes.push(network.add_route(&[first, slow, last])?);
        }
        hosts.tcp.push(Connection::client(config.clone(), control));
        hosts.tcp.push(Connection::server(config.clone(), cubic()));
    }

    // The shy transfer never ends. From second 5 on, CUBIC sends 20 MB beside it.
    println!(" time   {:32}shy", "cubic");
    let mut before = [0, 0];
    for second in 0..20 {
        let now = Timestamp::from_secs(second);
        network.run_until(now, &mut hosts, u64::MAX);
        if let Some(end) = [(0, 2), (5, 0)].iter().find_map(|&(at, end)| (at == second).then_some(end)) {
            let tcp = &mut hosts.tcp[end];
            if end == 0 {
                _ = tcp.write(20_000_000)
            } else {
                tcp.set_unlimited(true)
            }
            tcp.open(now);
            hosts.transmit(now, EndpointId(end as u32), &mut network.port(now));
        }
        let acked = [0, 2].map(|end| hosts.tcp[end].bytes_acked());
        let bars = [0, 1].map(|flow| {
            let megabits = (acked[flow] - before[flow]) as f64 * 8e-6;
            format!("{megabits:5.1} Mbit/s {}", "#".repeat(megabits as usize))
        });
        println!("{second:3} s   {:32}{}", bars[0], bars[1]);
        before = acked;
    }
    Ok(())
}
