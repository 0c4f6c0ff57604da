//! Measuring tools on simulated hosts: the protocols of `cap` and `treno`, driven by the run's clock.
//!
//! Simulated packets carry no bytes, so the bytes of cap's datagrams are kept here while they are in the network, without padding.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use warpline_capacity::{
    CapClient, CapServer, HostResults, Identity, Outcome, ProbeReply, Prober as _, ServerLimits, Treno,
    TrenoOutcome,
};
use warpline_core::packet::{IPV4_HEADER, UDP_HEADER};
use warpline_core::{Datagram, Ecn, EndpointId, FlowId, Packet, TimerId, Timestamp};
use warpline_net::{Port, RouteId};
use warpline_scenario::plan::Tool;

use super::counters::FlowTotals;
use super::marking::Marking;
use super::tcp::End;
use crate::btc::{CapInput, CapReport, Ends, TrenoInput, TrenoReport};

/// Bytes of IPv4 and UDP headers.
const HEADERS: u32 = IPV4_HEADER + UDP_HEADER;
/// Bytes kept of each datagram: more than any header of cap's, and all of its other messages.
const KEPT: usize = 1024;
/// Number of datagrams kept. Those that the network lost are dropped when there are more.
const UNDER_WAY: usize = 1 << 17;

/// The bytes of datagrams in the network.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    next: u64,
    kept: BTreeMap<u64, Vec<u8>>,
}

impl Letters {
    fn post(&mut self, bytes: &[u8]) -> u64 {
        let number = self.next;
        self.next += 1;
        // Segments are mostly padding, which is not kept; messages are short.
        self.kept.insert(number, bytes[..bytes.len().min(KEPT)].to_vec());
        if self.kept.len() > UNDER_WAY {
            self.kept.pop_first();
        }
        number
    }
    /// The datagram in its full length. It is kept, since the network may have made copies.
    fn read(&self, datagram: &Datagram) -> Option<Vec<u8>> {
        let mut bytes = self.kept.get(&datagram.seq)?.clone();
        bytes.resize(datagram.len as usize, 0);
        Some(bytes)
    }
}

/// The role of an end.
#[derive(Debug)]
enum Role {
    Client(Box<CapClient>),
    Server(Box<CapServer>),
    Treno(Box<Treno>),
    /// Returns what it receives.
    Echo,
}

/// One end of a measurement.
#[derive(Debug)]
pub(crate) struct MeasureEnd {
    role: Role,
    route: RouteId,
    peer: EndpointId,
    flow: FlowId,
    marking: Marking,
    options: Option<Tool>,
}

/// The client's address, as seen by the server.
fn client_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 49_152))
}

/// Creates both ends of a measurement: the one that starts it, and the one that answers. `random` is drawn from the flow's stream.
pub(crate) fn ends(
    tool: &Tool,
    (there, back): (RouteId, RouteId),
    (flow, marking): (FlowId, Marking),
    mut random: impl FnMut() -> u64,
) -> (MeasureEnd, MeasureEnd) {
    let (near, far) = match tool {
        Tool::Cap(options) => {
            let mut nonce = [0; 16];
            nonce[..8].copy_from_slice(&random().to_be_bytes());
            let mut secret = [0; 32];
            secret[..8].copy_from_slice(&random().to_be_bytes());
            let granularity = options.granularity.as_nanos().max(1);
            let identity = Identity {
                nonce,
                key: None,
                wall_us: 0,
                phase: warpline_core::TimeDelta::from_nanos(random() % granularity),
                ipv6: false,
                patience: options.duration,
                trace: false,
            };
            let limits = ServerLimits {
                duration: options.duration,
                patience: options.duration,
                // Both ends belong to the scenario, so no limits are needed for unknown clients.
                strangers: None,
                ..ServerLimits::default()
            };
            (
                Role::Client(Box::new(CapClient::new((**options).clone(), identity))),
                Role::Server(Box::new(CapServer::new(limits, &secret, 0))),
            )
        }
        Tool::Treno(options) => (Role::Treno(Box::new(Treno::new((**options).clone()))), Role::Echo),
    };
    let options = Some(tool.clone());
    (
        MeasureEnd { role: near, route: there, peer: End::receiver(0).id(), flow, marking, options },
        MeasureEnd { role: far, route: back, peer: End::sender(0).id(), flow, marking, options: None },
    )
}

impl MeasureEnd {
    /// Its flow.
    pub(super) fn flow(&self) -> FlowId {
        self.flow
    }

    fn send(&self, port: &mut Port<'_>, now: Timestamp, seq: u64, len: u32, ecn: Ecn) {
        let Marking { class, dscp } = self.marking;
        let datagram = Datagram { seq, created: now, len, ..Datagram::default() };
        let packet =
            Packet { size: len + HEADERS, ecn, class, dscp, ..Packet::udp(self.flow, self.peer, datagram) };
        port.send(self.route, packet);
    }

    /// Handles a datagram that has arrived.
    pub(crate) fn handle(
        &mut self,
        now: Timestamp,
        timer: TimerId,
        (datagram, ce): (&Datagram, bool),
        letters: &mut Letters,
        port: &mut Port<'_>,
    ) {
        match &mut self.role {
            Role::Client(client) => {
                if let Some(bytes) = letters.read(datagram) {
                    client.handle_datagram(now, now, &bytes, ce);
                }
            }
            Role::Server(server) => {
                if let Some(bytes) = letters.read(datagram) {
                    server.handle_datagram(now, now, client_address(), &bytes, ce);
                }
            }
            Role::Treno(treno) => {
                treno.on_reply(now, datagram.seq, ProbeReply::Echo);
            }
            Role::Echo => return self.send(port, now, datagram.seq, datagram.len, Ecn::NotEct),
        }
        self.pump(now, timer, letters, port);
    }

    /// Handles timers, sends all that may be sent, and sets the next timer.
    pub(crate) fn pump(
        &mut self,
        now: Timestamp,
        timer: TimerId,
        letters: &mut Letters,
        port: &mut Port<'_>,
    ) {
        let mut bytes = Vec::new();
        let deadline = match &mut self.role {
            Role::Client(client) => {
                client.handle_timeout(now);
                let mut out = Vec::new();
                while let Some(datagram) = client.poll_transmit(now, &mut bytes) {
                    out.push((letters.post(&bytes), datagram));
                    bytes.clear();
                }
                let deadline = client.poll_timeout();
                for (number, datagram) in out {
                    self.send(port, now, number, datagram.len as u32, datagram.ecn);
                }
                deadline
            }
            Role::Server(server) => {
                server.handle_timeout(now);
                let mut out = Vec::new();
                while let Some((_, datagram)) = server.poll_transmit(now, &mut bytes) {
                    out.push((letters.post(&bytes), datagram));
                    bytes.clear();
                }
                let deadline = server.poll_timeout();
                for (number, datagram) in out {
                    self.send(port, now, number, datagram.len as u32, datagram.ecn);
                }
                deadline
            }
            Role::Treno(treno) => {
                treno.handle_timeout(now);
                let out: Vec<_> = std::iter::from_fn(|| treno.poll_transmit(now)).collect();
                let deadline = treno.poll_timeout();
                for probe in out {
                    self.send(port, now, probe.number, probe.size.saturating_sub(HEADERS), Ecn::NotEct);
                }
                deadline
            }
            Role::Echo => Timestamp::NEVER,
        };
        if deadline.is_set() {
            port.set_timer(timer, deadline.max(now));
        }
    }

    /// Stops with its flow. What was measured until now is the result.
    pub(crate) fn stop(&mut self, now: Timestamp) {
        match &mut self.role {
            Role::Client(client) => client.stop(now),
            Role::Treno(treno) => treno.stop(now),
            Role::Server(_) | Role::Echo => {}
        }
    }

    /// Adds its counters to those of its flow.
    pub(crate) fn add_to(&self, totals: &mut FlowTotals) {
        match &self.role {
            Role::Client(client) => {
                if let Some(stats) = client.stats() {
                    totals.add_sender(stats);
                    totals.delivered_bytes += client.delivered();
                }
            }
            Role::Treno(treno) => {
                let results = treno.results();
                totals.sent_packets += results.probes;
                totals.sent_bytes += results.probe_wire_bytes;
                totals.retransmitted_packets += results.retransmits;
                totals.delivered_bytes += results.data_bytes;
                totals.lost_packets += results.lost;
                totals.rtos += results.timeouts;
                totals.recoveries += results.recoveries;
            }
            Role::Server(_) | Role::Echo => {}
        }
    }

    /// The report of the measuring end as JSON, at the end of the run or of its flow; `other` is the answering end.
    pub(crate) fn report(
        &mut self,
        now: Timestamp,
        other: Option<&MeasureEnd>,
        ends: Ends,
    ) -> Option<String> {
        self.stop(now);
        let text = match (&mut self.role, &self.options) {
            (Role::Client(client), Some(Tool::Cap(_))) => {
                // If the run's end cuts a test short, its last message is not sent.
                while client.poll_transmit(now, &mut Vec::new()).is_some() {}
                let receiver = match other.map(|other| &other.role) {
                    Some(Role::Server(server)) => server.receiver_results(),
                    _ => None,
                };
                let outcome = match client.outcome() {
                    Some(Outcome::Stopped | Outcome::Complete | Outcome::NoReport) => "complete",
                    _ => "not established",
                };
                let report = CapReport::new(&CapInput {
                    options: client.options(),
                    outcome,
                    began_us: None,
                    ends,
                    sender: client.report().sender,
                    receiver: client.peer_report().and_then(|peer| peer.receiver).or(receiver),
                    // Simulated hosts have no queues and never lack time.
                    sending: Some(HostResults::default()),
                    receiving: Some(HostResults::default()),
                    same_clock: true,
                    probes: None,
                    tell_anyway: false,
                });
                serde_json::to_string_pretty(&report)
            }
            (Role::Treno(treno), Some(Tool::Treno(options))) => {
                let results = treno.results();
                let report = TrenoReport::new(&TrenoInput {
                    target: ends.receiver.clone(),
                    carrier: "simulated echoes",
                    ttl: None,
                    options,
                    outcome: if results.replies == 0 {
                        TrenoOutcome::NoAnswer
                    } else {
                        TrenoOutcome::Complete
                    },
                    results,
                    responders: vec![(ends.receiver, ProbeReply::Echo, results.echoes)],
                    busy: None,
                    host_bps: None,
                    first_hop_bps: None,
                    first_hop_rations: false,
                    probe_rates: None,
                    tell_anyway: false,
                });
                serde_json::to_string_pretty(&report)
            }
            _ => return None,
        };
        text.ok()
    }
}
