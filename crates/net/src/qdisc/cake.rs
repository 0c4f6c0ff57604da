//! CAKE: a shaper, tins by code point, fairness among hosts and flows, and an AQM for each queue.
//!
//! Sources: Linux's `net/sched/sch_cake.c` (6.18); Høiland-Jørgensen, Täht and Morton, "Piece of CAKE: A Comprehensive Queue Management
//! Solution for Home Gateways" (LANMAN 2018). Parameters and their words are those of `tc-cake`. Each part has a file: the `shaper`, the `tins`,
//! the `flows` of a tin, the isolation of `hosts`, the AQM (`cobalt`), and the filter of `acks`.
//!
//! Hosts are the ends of a packet's route, and flows those of the scenario, in both directions.
//!
//! Departures: the memory limit counts bytes on the wire and not the kernel's own structures, which are larger. Left out are `nat` and `fwmark`
//! (there is no such thing), `wash`, `autorate-ingress`, and `split-gso`, as no packet here is larger than the link takes. A negative
//! `overhead` is not possible. The heap of the longest queues is a search, with the same outcome up to the choice among equals.

mod acks;
mod cobalt;
mod flows;
mod hosts;
mod shaper;
#[cfg(test)]
mod tests;
mod tins;

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Dscp, NodeId, Rate, Stream, TimeDelta, Timestamp};

pub use acks::CakeAckFilter;
pub use hosts::CakeFlowMode;
pub use shaper::{CakeAtm, CakeOverheadParams};
pub use tins::CakeDiffserv;

use super::limit::FULL_PACKET;
use super::{BuiltIn, Dropped, Headers, Qdisc, Queued, Sizing, Verdict};
use acks::AckFilter;
use flows::{QUEUES, Waiting};
use hosts::Hosts;
use shaper::{Overhead, Shaper};
use tins::Tin;

/// Packets of full size for which there is memory at most.
const MOST_PACKETS: u64 = 10_240;
/// Memory that there is at least with a shaper.
const LEAST_MEMORY: u64 = 4 << 20;

/// CAKE (Linux's `sch_cake`; Høiland-Jørgensen et al. 2018).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("cake")]
pub struct CakeParams {
    /// Rate that the queue keeps to. Without it packets leave as fast as the link takes them.
    #[parameter(above = Some(Rate::from_bps(0)))]
    pub bandwidth: Option<Rate>,
    /// What a packet counts for the shaper.
    #[parameter(flatten)]
    pub overhead: CakeOverheadParams,
    /// Which tins there are. The flows' `dscp` says in which one their packets go.
    pub diffserv: CakeDiffserv,
    /// Which packets share a queue, and among whom the rate is divided evenly.
    pub flowmode: CakeFlowMode,
    /// Which acknowledgements are dropped as redundant.
    pub ack_filter: CakeAckFilter,
    /// Round-trip time that the AQM expects: its interval. Its target is a twentieth of that.
    #[parameter(default = TimeDelta::from_millis(100), above = TimeDelta::ZERO)]
    pub rtt: TimeDelta,
    /// Bytes that may wait. Without it four times what `bandwidth` carries in `rtt`, from 4 MiB to 10240 full packets.
    #[parameter(above = Some(Bytes(0)))]
    pub memlimit: Option<Bytes>,
    /// Whether the shaper stands behind the bottleneck: dropped packets count as sent, since they have crossed it.
    pub ingress: bool,
}

impl CakeParams {
    /// Bytes that may wait on a link with full packets of `packet` bytes.
    fn memory(&self, packet: u32) -> u64 {
        let most = MOST_PACKETS * u64::from(packet);
        match (self.memlimit, self.bandwidth) {
            (Some(Bytes(bytes)), _) => bytes,
            (None, Some(rate)) => rate.bytes_in(self.rtt).0.saturating_mul(4).max(LEAST_MEMORY).min(most),
            (None, None) => most,
        }
    }
}

/// A CAKE queue.
#[derive(Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    /// The tin that sent last.
    current: usize,
    shaper: Shaper,
    overhead: Overhead,
    acks: AckFilter,
    diffserv: CakeDiffserv,
    flow_mode: CakeFlowMode,
    ingress: bool,
    memory: u64,
    salt: u64,
    stream: Stream,
    packets: u32,
    bytes: u64,
}

impl BuiltIn for Cake {
    type Params = CakeParams;

    /// Hashes are salted from `stream`, and drops by BLUE and fractions of quanta drawn from it.
    fn new(params: &CakeParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let salt = stream.next_u64();
        let hosts = || Hosts::new(params.flowmode, QUEUES, salt);
        Cake {
            tins: params.diffserv.tins(params.bandwidth, params.rtt, sizing.packet, hosts),
            current: 0,
            shaper: Shaper::new(params.bandwidth),
            overhead: Overhead::new(&params.overhead, sizing.packet.saturating_sub(FULL_PACKET)),
            acks: AckFilter::new(params.ack_filter),
            diffserv: params.diffserv,
            flow_mode: params.flowmode,
            ingress: params.ingress,
            memory: params.memory(sizing.packet),
            salt,
            stream,
            packets: 0,
            bytes: 0,
        }
    }
}

impl Cake {
    /// A packet with this code point arrives from one host for the other.
    fn arrive(
        &mut self,
        now: Timestamp,
        packet: Queued,
        (hosts, dscp): ((NodeId, NodeId), Dscp),
        dropped: &mut Dropped,
    ) -> Verdict {
        let own = self.diffserv.tin_of(dscp);
        if self.packets == 0 {
            self.shaper.begin(now);
        }
        let tin = &mut self.tins[own];
        if tin.packets == 0 {
            tin.begin(now);
        }
        let index = tin.flows.find(self.flow_mode.key(self.salt, packet.flow, hosts), hosts);
        let flow = tin.flows.flow(index);
        flow.push(Waiting { packet, length: self.overhead.length(packet.size) });
        let redundant = self.acks.redundant(&flow.packets).and_then(|place| flow.remove(place));
        self.tins[own].flows.activate(index, &mut self.stream);
        self.count(own, packet, 1);
        if let Some(ack) = redundant {
            self.count(own, ack.packet, -1);
            self.charge_dropped(now, own, ack);
            dropped.0.push((ack.packet, DropReason::Aqm));
        }
        while self.bytes > self.memory {
            let Some(victim) = self.overflow(now) else { break };
            if victim.slot == packet.slot {
                return Verdict::Dropped(DropReason::Overflow);
            }
            dropped.0.push((victim, DropReason::Overflow));
        }
        Verdict::Queued
    }

    /// Counts a packet that has come into a tin, or one that has left it.
    fn count(&mut self, tin: usize, packet: Queued, change: i32) {
        self.packets = self.packets.wrapping_add_signed(change);
        self.tins[tin].packets = self.tins[tin].packets.wrapping_add_signed(change);
        self.bytes = self.bytes.wrapping_add_signed(i64::from(change) * i64::from(packet.size));
    }

    /// A packet of a tin has been dropped: it counts where it has crossed the bottleneck already.
    fn charge_dropped(&mut self, now: Timestamp, tin: usize, waiting: Waiting) {
        if self.ingress {
            self.tins[tin].charge(waiting.length, now);
            self.shaper.charge(waiting.length, false);
        }
    }

    /// Takes the head of the longest queue.
    fn overflow(&mut self, now: Timestamp) -> Option<Queued> {
        let queues = self.tins.iter().enumerate().flat_map(|(tin, own)| {
            own.flows.all().iter().enumerate().map(move |(index, flow)| (flow.bytes(), tin, index))
        });
        let (_, tin, index) = queues.max_by_key(|&(bytes, ..)| bytes)?;
        let Tin { flows, law, .. } = &mut self.tins[tin];
        let flow = flows.flow(index);
        let victim = flow.pop()?;
        flow.cobalt.overflowed(law, now);
        self.count(tin, victim.packet, -1);
        self.charge_dropped(now, tin, victim);
        Some(victim.packet)
    }

    /// The tin whose turn it is.
    fn next_tin(&mut self, now: Timestamp) -> Option<usize> {
        self.current = match self.shaper.is_limited() {
            true => tins::by_schedule(&self.tins, now)?,
            false => tins::by_deficit(&mut self.tins, self.current)?,
        };
        Some(self.current)
    }

    /// What became of a queue's turn.
    fn serve(&mut self, now: Timestamp, tin: usize, index: usize, dropped: &mut Dropped) -> Turn {
        loop {
            let Tin { flows, law, .. } = &mut self.tins[tin];
            let sharers = if self.ingress { flows.bulk() } else { 0 };
            let flow = flows.flow(index);
            let Some(mut waiting) = flow.pop() else {
                flows.ran_empty(index, law, now);
                return Turn::Empty;
            };
            let drops = flow.cobalt.drops(law, now, &mut waiting.packet, sharers, &mut self.stream);
            // The last one is never dropped.
            let sent = !drops || flow.packets.is_empty();
            self.count(tin, waiting.packet, -1);
            if sent || self.ingress {
                let length = i64::from(waiting.length);
                self.tins[tin].flows.flow(index).deficit -= length;
                self.tins[tin].deficit -= length;
                self.tins[tin].charge(waiting.length, now);
                self.shaper.charge(waiting.length, sent);
            }
            if sent {
                return Turn::Sent(waiting.packet);
            }
            dropped.0.push((waiting.packet, DropReason::Aqm));
            if self.ingress {
                return Turn::Over;
            }
        }
    }
}

/// What became of a queue's turn.
enum Turn {
    Sent(Queued),
    /// It had nothing.
    Empty,
    /// A packet was dropped and counts: it may be another queue's turn.
    Over,
}

impl Qdisc for Cake {
    fn enqueue(&mut self, now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        self.arrive(now, packet, Default::default(), dropped)
    }

    fn reads_headers(&self) -> bool {
        true
    }

    fn enqueue_with(
        &mut self,
        now: Timestamp,
        packet: Queued,
        headers: &Headers<'_>,
        dropped: &mut Dropped,
    ) -> Verdict {
        self.acks.note(packet.slot, headers.packet);
        self.arrive(now, packet, (headers.hosts, headers.packet.dscp), dropped)
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        let mut first = true;
        while self.packets > 0 && self.shaper.due() <= now {
            let tin = self.next_tin(now)?;
            while let Some(index) = self.tins[tin].flows.turn(std::mem::take(&mut first), &mut self.stream) {
                match self.serve(now, tin, index, dropped) {
                    Turn::Sent(packet) => return Some(packet),
                    Turn::Empty => break,
                    Turn::Over => {}
                }
            }
        }
        None
    }

    fn next_ready(&self, _now: Timestamp) -> Option<Timestamp> {
        (self.packets > 0).then(|| self.shaper.due())
    }

    fn discard(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        let tin = self.tins.iter().position(|tin| tin.packets > 0)?;
        let index = self.tins[tin].flows.all().iter().position(|flow| !flow.packets.is_empty())?;
        let waiting = self.tins[tin].flows.flow(index).pop()?;
        self.count(tin, waiting.packet, -1);
        Some(waiting.packet)
    }

    #[inline]
    fn backlog(&self) -> (u32, u64) {
        (self.packets, self.bytes)
    }
}
