//! The smallest network with live ends: two ports, and a link each way between them; and a command behind such a link.
//!
//! [`Carrier`] is what all such commands share: it moves packets until the command has ended, and says how that went. Where the command runs, what
//! clock it goes by, and what is at the other end, is its own ([`Command`]).

use std::os::fd::BorrowedFd;

use warpline_core::{EndpointId, LinkId, NodeId, Packet, Streams, TimeDelta, TimerId, Timestamp};
use warpline_net::{Control, LinkConfig, LinkStats, Network, Port, RouteId};

use crate::audit::Audit;
use crate::emulator::{Emulator, EmulatorConfig, EmulatorError, Gate, Turn, World};
use crate::port::{Arrival, LivePort, PortId};

/// The two directions: packets from one port leave by the other.
#[derive(Debug)]
pub struct Crossing {
    routes: [RouteId; 2],
}

impl Crossing {
    /// A network of two links, from port 0 to port 1 and back, and the world that sends packets over them. The links' ends are filled in.
    pub fn network(links: [&LinkConfig; 2], seed: u64) -> (Network, Crossing) {
        let streams = Streams::new(seed);
        let mut network = Network::new();
        let mut route = |from: u32| {
            let ends = (NodeId(from), NodeId(1 - from));
            let link = LinkConfig { from: ends.0, to: ends.1, ..links[from as usize].clone() };
            let id = network.add_link(link, &streams);
            network.add_route(&[id]).expect("a single link, and no packet so far")
        };
        let routes = [route(0), route(1)];
        (network, Crossing { routes })
    }
}

impl World for Crossing {
    #[inline]
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        let from = arrival.port.0;
        // Endpoints have the numbers of their ports.
        let packet = gate.packet(arrival.handle, EndpointId(1 - from));
        let behind = port.send_at(arrival.at, self.routes[from as usize], packet);
        gate.note_behind(arrival.handle, behind);
    }
    #[inline]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, _: &mut Port<'_>) {
        gate.transmit(now, packet, PortId(packet.to.0));
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Gate, _: &mut Port<'_>) {}
}

/// A link with two directions, and the emulator that moves packets across it.
#[derive(Clone, Debug)]
pub struct CrossingConfig {
    /// The link from the command to the world. Its ends are filled in.
    pub up: LinkConfig,
    /// The link from the world to the command.
    pub down: LinkConfig,
    /// Seed of loss, jitter and random queues.
    pub seed: u64,
    /// Settings of the emulator, the MTU included.
    pub emulator: EmulatorConfig,
}

/// A command at the first port.
pub trait Command {
    /// How it ends.
    type Ending;
    /// Descriptors that become readable when there is something to look at.
    fn wake(&self) -> Vec<BorrowedFd<'_>>;
    /// Keeps the emulator's clock at the command's pace, and returns the longest time until the next look; `None` if nothing but
    /// [`Command::wake`] calls for one.
    fn pace(&mut self, emulator: &mut Emulator) -> Option<TimeDelta>;
    /// Passes on what has come for the command, and returns how the command ended, once it has.
    fn look(&mut self) -> Option<Self::Ending>;
}

/// How the emulator kept pace, and the network as it was left.
#[derive(Debug)]
pub struct Account {
    /// The audit.
    pub audit: Audit,
    /// The network.
    pub network: Network,
}

impl Account {
    /// Counters of the two links, up and down.
    pub fn links(&mut self) -> [LinkStats; 2] {
        [0, 1].map(|link| self.network.link_stats(LinkId(link)))
    }
}

/// A link with a command at its first port.
#[derive(Debug)]
pub struct Carrier {
    network: Network,
    crossing: Crossing,
    /// The emulator, for its clock.
    pub emulator: Emulator,
}

impl Carrier {
    /// A link between two ports, the command's and the world's. Its clock runs from now on.
    pub fn new(config: &CrossingConfig, ports: impl IntoIterator<Item = Box<dyn LivePort>>) -> Self {
        let (network, crossing) = Crossing::network([&config.up, &config.down], config.seed);
        let mut emulator = Emulator::new(config.emulator);
        for port in ports {
            emulator.add_port(port);
        }
        Carrier { network, crossing, emulator }
    }

    /// Carries packets until the command has ended, and calls `observe` after every turn of the emulator.
    ///
    /// # Errors
    /// If the emulator cannot go on, and the command has not ended.
    pub fn carry<C: Command>(
        &mut self,
        command: &mut C,
        mut observe: impl FnMut(Turn<'_, Crossing>),
    ) -> Result<C::Ending, EmulatorError> {
        let Carrier { network, crossing, emulator } = self;
        loop {
            let until = command.pace(emulator).map_or(Timestamp::NEVER, |span| network.now() + span);
            let ran = emulator.run(network, crossing, until, &command.wake(), |turn| {
                let control = if turn.woken { Control::Stop } else { Control::Continue };
                observe(turn);
                control
            });
            if let Some(ending) = command.look() {
                return Ok(ending);
            }
            ran?;
        }
    }

    /// The links have carried their last packet.
    pub fn account(mut self) -> Account {
        Account { audit: self.emulator.audit(), network: self.network }
    }
}
