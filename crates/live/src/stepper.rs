//! A network with live rules and bytes, in the caller's time: like the [`crate::emulator`] under the real clock, but without
//! the clock and without ports of the system. Guests in lock-step with a simulation are at its ports.

use warpline_core::{Body, Frame, Timestamp};
use warpline_net::{Network, Pause, Settled};

use crate::datagram;
use crate::emulator::{Adapter, Gate, World};
use crate::pool::Pool;
use crate::port::{Arrival, PortId};

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepperCounters {
    /// Datagrams that came in.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams that went out.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Arrivals that were not an IP datagram, or a damaged one, or larger than the pool's frames.
    pub malformed: u64,
}

/// Bytes and ports.
#[derive(Debug)]
pub struct Stepper {
    gate: Gate,
    counters: Vec<StepperCounters>,
    bytes: Vec<u8>,
}

impl Stepper {
    /// A stepper with this many ports, for datagrams of up to `mtu` bytes, with at most `memory` bytes of them.
    pub fn new(ports: usize, mtu: u32, memory: usize) -> Self {
        Stepper {
            gate: Gate::new(Pool::new(mtu, memory), ports),
            counters: vec![StepperCounters::default(); ports],
            bytes: Vec::new(),
        }
    }

    /// Handles a datagram that arrives at a port at the network's current time.
    pub fn handle_datagram<W: World>(
        &mut self,
        from: PortId,
        bytes: &[u8],
        network: &mut Network,
        world: &mut W,
    ) {
        let counters = &mut self.counters[from.0 as usize];
        let handle = datagram::read(bytes).ok().and_then(|header| self.gate.pool_mut().insert(bytes, header));
        let Some(handle) = handle else {
            counters.malformed += 1;
            return;
        };
        counters.received_packets += 1;
        counters.received_bytes += bytes.len() as u64;
        let at = network.now();
        world.handle_arrival(&Arrival { at, port: from, handle }, &mut self.gate, &mut network.port(at));
    }

    /// Handles the network's events up to and including `until`, but at most `budget` of them. Returns why it stopped.
    pub fn run_until<W: World>(
        &mut self,
        until: Timestamp,
        network: &mut Network,
        world: &mut W,
        budget: u64,
    ) -> Pause {
        let pause = network.run_until(until, &mut Adapter { world, gate: &mut self.gate }, budget);
        for handle in network.take_released() {
            world.handle_loss(handle);
            self.gate.release(handle);
        }
        pause
    }

    /// Hands out, each once, the datagrams that are certain to leave by the ports later, with the instants at which they do.
    /// [`Self::poll_transmit`] then leaves them out. Links that are not watched ([`Network::watch`]) have none. `deliver` may keep the bytes, and
    /// leaves other memory in their place.
    pub fn poll_ahead<W: World>(
        &mut self,
        network: &mut Network,
        world: &mut W,
        deliver: &mut dyn FnMut(PortId, Timestamp, &mut Vec<u8>),
    ) {
        for Settled { arrival, packet } in network.take_settled() {
            let Some(port) = world.foresee(&packet, self.gate.pool(), &mut self.bytes) else { continue };
            if let Body::Frame(Frame { handle }) = packet.body {
                self.gate.note_ahead(handle);
            }
            deliver(port, arrival, &mut self.bytes);
        }
    }

    /// Hands out the datagrams that leave by the ports, in order at each port.
    pub fn poll_transmit(&mut self, deliver: &mut dyn FnMut(PortId, &[u8])) {
        let (pool, outgoing, mut early) = self.gate.parts();
        while let Some((port, packets)) = outgoing.take() {
            let counters = &mut self.counters[port.0 as usize];
            for &(_, handle) in &packets {
                let bytes = pool.datagram(handle);
                counters.sent_packets += 1;
                counters.sent_bytes += bytes.len() as u64;
                if !early.take(handle) {
                    deliver(port, bytes);
                }
                pool.release(handle);
            }
            outgoing.give_back(port, packets);
        }
    }

    /// The bytes of all datagrams in the network, and of those that have left it since the last [`Self::recycle`].
    pub fn pool(&self) -> &Pool {
        self.gate.pool()
    }

    /// Frees the bytes of what has left the network.
    pub fn recycle(&mut self) {
        self.gate.recycle();
    }

    /// The counters of each port.
    pub fn counters(&self) -> &[StepperCounters] {
        &self.counters
    }
}
