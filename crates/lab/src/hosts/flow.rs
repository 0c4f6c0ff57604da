//! A flow and what is known of it on the hosts of one part of the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpline_core::{FlowId, NodeId, Stream, TimerId, Timestamp};
use warpline_scenario::application::Skipping;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::TcpConfig;

use super::app::{App, Exchange};
use super::counters::{FlowTotals, Messages};
use super::marking::Marking;
use super::measure::Letters;
use super::media::MediaPlan;
use super::multipath::SubflowPlan;
use super::routes::{IdlePath, Routes, Way};
use super::tcp::End;
use super::udp;
use super::wire::{OpenConnections, Wire};

/// Makes the congestion control of one end of a connection.
pub(crate) type MakeController = Arc<dyn Fn(&TcpConfig) -> Controller + Send + Sync>;

/// The constant facts about a flow.
pub(crate) struct FlowPlan {
    /// Name of the instance, "bulk.0".
    pub(crate) name: String,
    /// Name of the entry in the scenario.
    pub(crate) group: Arc<str>,
    /// Name of the application.
    pub(crate) app: &'static str,
    /// Whether it runs over TCP.
    pub(crate) tcp: bool,
    /// What carries it on the wire, by its name in results.
    pub(crate) transport: &'static str,
    /// Name of the congestion control; empty for UDP.
    pub(crate) cc: String,
    /// Sender of the data and its node's name.
    pub(crate) from: (NodeId, Arc<str>),
    /// Receiver of the data and its node's name.
    pub(crate) to: (NodeId, Arc<str>),
    /// Routes of the data and of the opposite direction.
    pub(crate) routes: (Routes, Routes),
    /// What its path does with nobody else there.
    pub(crate) idle: IdlePath,
    /// Where each of its transfers goes, by its tag, if they have ways of their own.
    pub(crate) ways: Vec<Way>,
    /// TCP configurations of the data's sender and receiver.
    pub(crate) config: (Arc<TcpConfig>, Arc<TcpConfig>),
    /// Makes the congestion control of each end.
    pub(crate) controller: MakeController,
    /// Its media stream, if it is one.
    pub(crate) media: Option<MediaPlan>,
    /// Its place in a multipath connection, if it is a subflow.
    pub(crate) subflow: Option<SubflowPlan>,
    /// The nodes that the scenario lets it pass, with " > " between them, if it says any.
    pub(crate) via: Option<String>,
    /// How its packets are marked.
    pub(crate) marking: Marking,
    /// When it starts.
    pub(crate) start: Timestamp,
    /// When it stops sending.
    pub(crate) stop: Timestamp,
    /// What it is to skipping time.
    pub(crate) skipping: Skipping,
    /// Whether its TCP endpoints are recorded.
    pub(crate) record_tcp: bool,
    /// Whether the distribution of its packet latency is recorded.
    pub(crate) record_latency: bool,
    /// How it goes over the wire, if its packets are those of real stacks.
    pub(crate) wire: Option<Wire>,
    /// The congestion control that it asks of a stack that sends; none for the stack's own default.
    pub(crate) socket_cc: Option<String>,
}

impl std::fmt::Debug for FlowPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowPlan").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The application of a flow, where it runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) app: App,
    /// The random numbers of the application.
    pub(super) stream: Stream,
    /// The timer of the application.
    pub(super) timer: TimerId,
    /// Connections that it has opened.
    pub(super) opened: u32,
    /// For UDP: the routes of its datagrams.
    pub(super) routes: Routes,
    /// For UDP: what has been sent so far.
    pub(super) datagrams: udp::Sent,
    /// Connections whose transfers it waits for.
    pub(super) awaited: Vec<u32>,
}

/// A flow with its state in one part of the network. In a part with neither of its hosts, nothing happens to it.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) spec: Arc<FlowPlan>,
    /// When it starts: as planned, or later if it waits for a program. On the hosts' own clock, as all that happens to it.
    pub(crate) start: Timestamp,
    /// When it stops sending.
    pub(crate) stop: Timestamp,
    /// Whether it sends messages, whose latency is measured.
    pub(crate) sends_messages: bool,
    /// Its application, if it runs here.
    pub(crate) running: Option<Box<Running>>,
    /// Counters of connections that are closed.
    pub(super) closed: FlowTotals,
    /// The ends of connections that are open here.
    pub(super) open: BTreeMap<End, TimerId>,
    /// Connections that have been opened elsewhere and whose first packet has not arrived here.
    pub(super) expected: BTreeMap<u32, Exchange>,
    /// Whether a connection opened by the other host has been accepted here.
    pub(super) accepted: bool,
    /// Both ends of the measurement, if it is a measuring tool that has started.
    pub(super) measure: Option<(TimerId, TimerId)>,
    /// The datagrams of a measuring tool in the network.
    pub(super) letters: Letters,
    /// For UDP: the sink of its datagrams, if it is here.
    pub(super) sink: Option<TimerId>,
    /// The sending end of its media stream, if it is here and has started.
    pub(super) media: Option<TimerId>,
    /// When it ended here, or was stopped.
    pub(super) ended: Option<Timestamp>,
    /// Whether the sender of its only connection has given up, so that the receiver waits in vain.
    pub(super) gave_up: bool,
    /// Time from a message's creation to its delivery.
    pub(crate) messages: Messages,
    /// The failure of one of its connections, if one failed.
    pub(super) outcome: Option<&'static str>,
    /// The counters of its open connections with programs.
    pub(super) reading: OpenConnections,
    /// Whether it still waits for a program.
    pub(super) held: bool,
}

impl Flow {
    /// A flow before its start, with nothing here.
    pub(super) fn new(spec: Arc<FlowPlan>, sends_messages: bool) -> Self {
        Flow {
            start: spec.start,
            stop: spec.stop,
            spec,
            sends_messages,
            running: None,
            closed: FlowTotals::default(),
            open: BTreeMap::new(),
            expected: BTreeMap::new(),
            accepted: false,
            measure: None,
            letters: Letters::default(),
            sink: None,
            media: None,
            ended: None,
            gave_up: false,
            messages: Messages::default(),
            outcome: None,
            reading: OpenConnections::default(),
            held: false,
        }
    }

    /// The node at an end of the connection of an exchange with this tag.
    pub(super) fn node(&self, end: End, tag: u32) -> NodeId {
        let way = self.spec.ways.get(tag as usize);
        if end.sends() { self.spec.from.0 } else { way.map_or(self.spec.to.0, |way| way.to.0) }
    }

    /// The routes from an end of such a connection.
    pub(super) fn routes(&self, end: End, tag: u32) -> &Routes {
        let routes = self.spec.ways.get(tag as usize).map_or(&self.spec.routes, |way| &way.routes);
        if end.sends() { &routes.0 } else { &routes.1 }
    }
}

/// A connection that was opened; for assigning addresses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(crate) at: Timestamp,
    pub(crate) flow: FlowId,
    pub(crate) opener: (End, NodeId),
    pub(crate) other: (End, NodeId),
}

impl Opened {
    /// The order in which addresses are assigned: that of time and, within an instant, of flows and connections.
    pub(crate) fn order(&self) -> (Timestamp, FlowId, End) {
        (self.at, self.flow, self.opener.0)
    }
}
