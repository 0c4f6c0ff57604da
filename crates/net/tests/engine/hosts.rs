//! Hosts that send packets by a script, answer some of them, and record what arrives.

use warpline_core::{Body, Datagram, Dscp, Ecn, EndpointId, FlowId, Packet, TimerId, Timestamp};
use warpline_net::{Hosts, Port, RouteId};

/// Packets sent back to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) at: u64,
    pub(crate) route: usize,
    pub(crate) count: u32,
    pub(crate) size: u32,
    pub(crate) class: u8,
    pub(crate) ecn: Ecn,
    /// Whether each packet is answered when it arrives, on the next route that begins where it ends.
    pub(crate) answered: bool,
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) time: Timestamp,
    pub(crate) id: u64,
    pub(crate) to: u32,
    pub(crate) size: u32,
    pub(crate) ecn: Ecn,
    pub(crate) damaged: bool,
}

/// One sender and one receiver for each route: endpoints `route` and `routes + route`.
#[derive(Debug)]
pub(crate) struct Scripted {
    routes: Vec<RouteId>,
    /// For each route, where answers to its packets are sent.
    answers: Vec<Option<usize>>,
    /// For each route, latest first.
    bursts: Vec<Vec<Burst>>,
    pub(crate) deliveries: Vec<Delivery>,
    last_call: Timestamp,
}

/// A packet of `burst` for the receiver of `route`.
pub(crate) fn packet(routes: usize, route: usize, burst: &Burst) -> Packet {
    Packet {
        flow: FlowId(route as u32),
        to: EndpointId((routes + route) as u32),
        size: burst.size,
        ecn: burst.ecn,
        class: burst.class,
        damaged: false,
        dscp: Dscp::default(),
        id: 0,
        body: Body::Udp(Datagram {
            seq: u64::from(burst.answered),
            len: burst.size.saturating_sub(28),
            ..Datagram::default()
        }),
    }
}

impl Scripted {
    /// `answers` is, for each route, the one on which its packets are answered.
    pub(crate) fn new(routes: Vec<RouteId>, answers: Vec<Option<usize>>, bursts: &[Burst]) -> Self {
        let mut of_route = vec![Vec::new(); routes.len()];
        for burst in bursts {
            of_route[burst.route].push(*burst);
        }
        for bursts in &mut of_route {
            bursts.sort_by_key(|burst| std::cmp::Reverse(burst.at));
        }
        Scripted { routes, answers, bursts: of_route, deliveries: Vec::new(), last_call: Timestamp::ZERO }
    }

    /// Sets the senders' first timers.
    pub(crate) fn start(&self, port: &mut Port<'_>) {
        for (route, bursts) in self.bursts.iter().enumerate() {
            if let Some(burst) = bursts.last() {
                port.set_timer(TimerId(route as u32), Timestamp::from_nanos(burst.at));
            }
        }
    }

    fn called(&mut self, now: Timestamp) {
        assert!(now >= self.last_call, "time went back");
        self.last_call = now;
    }
}

impl Hosts for Scripted {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        self.called(now);
        let Packet { id, size, ecn, to, damaged, .. } = *packet;
        self.deliveries.push(Delivery { time: now, id, to: to.0, size, ecn, damaged });
        if damaged {
            return;
        }
        let Body::Udp(datagram) = packet.body else { return };
        if datagram.seq > 0
            && let Some(route) = self.answers[packet.flow.index()]
        {
            let answer = Packet {
                flow: FlowId(route as u32),
                to: EndpointId((self.routes.len() + route) as u32),
                body: Body::Udp(Datagram::default()),
                ..*packet
            };
            port.send(self.routes[route], answer);
        }
    }

    fn handle_damaged(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        assert!(packet.damaged);
        self.handle_packet(now, packet, port);
    }

    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        self.called(now);
        let route = timer.index();
        while let Some(burst) = self.bursts[route].last().copied() {
            if burst.at > now.as_nanos() {
                port.set_timer(timer, Timestamp::from_nanos(burst.at));
                break;
            }
            assert_eq!(burst.at, now.as_nanos(), "a timer was late");
            self.bursts[route].pop();
            for _ in 0..burst.count {
                port.send(self.routes[route], packet(self.routes.len(), route, &burst));
            }
        }
    }
}
