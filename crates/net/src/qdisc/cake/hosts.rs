//! CAKE's isolation: which packets share a queue, and how the queues of one host share the rate of the host.
//!
//! A queue with a backlog counts at its source and at its destination. Its quantum is divided by the larger of the two counts, so that hosts
//! share the rate, and queues share what their host has.

use warpline_core::NodeId;
use warpline_core::parameter::Words;

use crate::qdisc::flows::hash;

/// Places of a set: a host or a flow may have any of those of its set.
const WAYS: usize = 8;

/// The places of a set, from the one that a hash says on.
pub(super) fn ways(direct: usize) -> impl Iterator<Item = usize> {
    let set = direct - direct % WAYS;
    (0..WAYS).map(move |way| set + (direct + way) % WAYS)
}

/// Which packets share a queue, and among whom the rate is divided evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum CakeFlowMode {
    /// All packets of a tin.
    Flowblind,
    /// Those from one host.
    Srchost,
    /// Those to one host.
    Dsthost,
    /// Those from one host to another.
    Hosts,
    /// Those of one flow; flows have equal shares.
    Flows,
    /// Those of one flow; source hosts have equal shares, which their flows divide.
    DualSrchost,
    /// Those of one flow; destination hosts have equal shares, which their flows divide.
    DualDsthost,
    /// Those of one flow; both kinds of hosts have equal shares, which their flows divide.
    #[default]
    TripleIsolate,
}

impl CakeFlowMode {
    /// Whether the shares of source and of destination hosts are equal.
    fn shares(self) -> [bool; 2] {
        use CakeFlowMode::{DualDsthost, DualSrchost, TripleIsolate};
        [matches!(self, DualSrchost | TripleIsolate), matches!(self, DualDsthost | TripleIsolate)]
    }

    /// What tells a packet from those of other queues.
    pub(super) fn key(self, salt: u64, flow: u32, (source, destination): (NodeId, NodeId)) -> u64 {
        let (source, destination) = (|| hash(salt, source.0), || hash(!salt, destination.0));
        match self {
            CakeFlowMode::Flowblind => 0,
            CakeFlowMode::Srchost => source(),
            CakeFlowMode::Dsthost => destination(),
            CakeFlowMode::Hosts => source() ^ destination(),
            _ => hash(salt, flow),
        }
    }
}

/// A host, or a place for one.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    node: Option<NodeId>,
    /// Its queues with a backlog.
    bulk: u32,
}

/// The places of a queue's hosts: its source, its destination.
pub(super) type Places = [u16; 2];

/// The hosts of a tin, in sets of eight places as its queues.
#[derive(Debug)]
pub(super) struct Hosts {
    /// Sources and destinations; empty where they do not matter.
    sides: [Vec<Host>; 2],
    salt: u64,
}

impl Hosts {
    pub(super) fn new(mode: CakeFlowMode, count: usize, salt: u64) -> Self {
        let side = |counts: bool| if counts { vec![Host::default(); count] } else { Vec::new() };
        Hosts { sides: mode.shares().map(side), salt }
    }

    /// The places of these hosts, which are theirs from now on.
    pub(super) fn claim(&mut self, (source, destination): (NodeId, NodeId)) -> Places {
        let mut places = Places::default();
        for ((place, hosts), node) in places.iter_mut().zip(&mut self.sides).zip([source, destination]) {
            if hosts.is_empty() {
                continue;
            }
            let direct = (hash(self.salt, node.0) % hosts.len() as u64) as usize;
            let own = ways(direct).find(|&at| hosts[at].node == Some(node));
            let free = || ways(direct).find(|&at| hosts[at].bulk == 0);
            let at = own.or_else(free).unwrap_or(direct);
            hosts[at].node = Some(node);
            *place = at as u16;
        }
        places
    }

    fn of(&mut self, places: Places) -> impl Iterator<Item = &mut Host> {
        self.sides.iter_mut().zip(places).filter_map(|(hosts, place)| hosts.get_mut(usize::from(place)))
    }

    /// A queue of these hosts has a backlog from now on.
    pub(super) fn add(&mut self, places: Places) {
        self.of(places).for_each(|host| host.bulk += 1);
    }

    /// A queue of these hosts has no backlog any more.
    pub(super) fn remove(&mut self, places: Places) {
        self.of(places).for_each(|host| host.bulk = host.bulk.saturating_sub(1));
    }

    /// By how many queues the quantum of one of these hosts' queues is divided.
    pub(super) fn load(&mut self, places: Places) -> u32 {
        self.of(places).map(|host| host.bulk).fold(1, u32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_with_more_queues_divides_a_quantum() {
        let pair = |source, destination| (NodeId(source), NodeId(destination));
        let load = |mode| {
            let mut hosts = Hosts::new(mode, 1024, 5);
            // Host 1 sends to 10, 11 and 12; host 2 to 10.
            for (source, destination) in [(1, 10), (1, 11), (1, 12), (2, 10)] {
                let places = hosts.claim(pair(source, destination));
                hosts.add(places);
            }
            [pair(1, 10), pair(1, 12), pair(2, 10)].map(|pair| {
                let places = hosts.claim(pair);
                hosts.load(places)
            })
        };
        assert_eq!(load(CakeFlowMode::DualSrchost), [3, 3, 1]);
        assert_eq!(load(CakeFlowMode::DualDsthost), [2, 1, 2]);
        assert_eq!(load(CakeFlowMode::TripleIsolate), [3, 3, 2]);
        assert_eq!(load(CakeFlowMode::Flows), [1, 1, 1]);
    }

    #[test]
    fn a_place_without_backlog_is_taken_by_another_host() {
        // One set of eight places.
        let mut hosts = Hosts::new(CakeFlowMode::DualSrchost, 8, 5);
        let places = |hosts: &mut Hosts, node: u32| hosts.claim((NodeId(node), NodeId(0)));
        let load = |hosts: &mut Hosts, node: u32| {
            let places = places(hosts, node);
            hosts.add(places);
            hosts.load(places)
        };
        for node in 0..8 {
            assert_eq!(load(&mut hosts, node), 1, "{node}");
        }
        let idle = places(&mut hosts, 3);
        hosts.remove(idle);
        assert_eq!(load(&mut hosts, 8), 1);
        // There is none left for another: it has to share one.
        assert_eq!(load(&mut hosts, 9), 2);
    }
}
