//! The queues of one of CAKE's tins, found by a set-associative hash, and whose turn it is (DRR++).
//!
//! A queue that becomes active is sparse: it is served before all others until it has used up its quantum. Then it is bulk, and
//! takes turns. One that ran empty decays: it keeps its place until its AQM is at rest.

use std::collections::VecDeque;

use warpline_core::{NodeId, Stream, Timestamp};

use super::cobalt::{Cobalt, Law};
use super::hosts::{Hosts, Places, ways};
use crate::qdisc::Queued;

/// Queues of a tin.
pub(super) const QUEUES: usize = 1024;

/// What a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// On no list.
    #[default]
    Idle,
    /// Among the new ones.
    Sparse,
    /// Among the old ones, but it was empty when it came there, and counts as sparse.
    SparseWait,
    /// Among the old ones, with a backlog.
    Bulk,
    /// Empty, until its AQM is at rest.
    Decaying,
}

/// A packet that waits, and what it counts at the bottleneck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) packet: Queued,
    pub(super) length: u32,
}

/// A queue.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) packets: VecDeque<Waiting>,
    bytes: u64,
    pub(super) deficit: i64,
    pub(super) cobalt: Cobalt,
    state: State,
    /// Whose it is.
    key: u64,
    hosts: Places,
}

impl Flow {
    /// Adds a packet at its end.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.bytes += u64::from(waiting.packet.size);
        self.packets.push_back(waiting);
    }

    /// Takes the packet at a place in it.
    pub(super) fn remove(&mut self, place: usize) -> Option<Waiting> {
        let waiting = self.packets.remove(place)?;
        self.bytes -= u64::from(waiting.packet.size);
        Some(waiting)
    }

    /// Takes its head.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= u64::from(waiting.packet.size);
        Some(waiting)
    }

    /// Bytes that wait in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The queues of a tin.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    hosts: Hosts,
    quantum: u32,
    sparse: VecDeque<u16>,
    old: VecDeque<u16>,
    decaying: VecDeque<u16>,
    sparse_count: u32,
    bulk_count: u32,
}

impl Flows {
    /// Queues that may send `quantum` bytes per round.
    pub(super) fn new(hosts: Hosts, quantum: u32) -> Self {
        Flows {
            flows: (0..QUEUES).map(|_| Flow::default()).collect(),
            hosts,
            quantum,
            sparse: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            sparse_count: 0,
            bulk_count: 0,
        }
    }

    /// One queue.
    pub(super) fn flow(&mut self, index: usize) -> &mut Flow {
        &mut self.flows[index]
    }

    /// All queues.
    pub(super) fn all(&self) -> &[Flow] {
        &self.flows
    }

    /// Whether a queue is active: one that has packets, or has just run empty.
    pub(super) fn is_active(&self) -> bool {
        self.sparse_count + self.bulk_count > 0
    }

    /// Queues that take turns.
    pub(super) fn bulk(&self) -> u32 {
        self.bulk_count
    }

    /// The number of the queue for packets with this key, between these hosts.
    pub(super) fn find(&mut self, key: u64, hosts: (NodeId, NodeId)) -> usize {
        let direct = (key % QUEUES as u64) as usize;
        let own = ways(direct).find(|&at| self.flows[at].key == key && self.flows[at].state != State::Idle);
        if let Some(own) = own {
            return own;
        }
        let was = ways(direct).find(|&at| self.flows[at].key == key);
        let free = || ways(direct).find(|&at| self.flows[at].state == State::Idle);
        // With no place left, it shares that of another flow.
        let at = was.or_else(free).unwrap_or(direct);
        let flow = &mut self.flows[at];
        let is_bulk = flow.state == State::Bulk;
        if is_bulk {
            self.hosts.remove(flow.hosts);
        }
        flow.key = key;
        flow.hosts = self.hosts.claim(hosts);
        if is_bulk {
            self.hosts.add(flow.hosts);
        }
        at
    }

    /// What a queue may send in a round. A fraction of a byte is drawn for.
    fn quantum(&mut self, index: usize, stream: &mut Stream) -> i64 {
        let load = self.hosts.load(self.flows[index].hosts);
        let (whole, rest) = (self.quantum / load, self.quantum % load);
        let more = rest > 0 && stream.below(u64::from(load)) < u64::from(rest);
        i64::from(whole) + i64::from(more)
    }

    /// A packet has come into a queue.
    pub(super) fn activate(&mut self, index: usize, stream: &mut Stream) {
        match self.flows[index].state {
            State::Sparse | State::Bulk => {}
            State::SparseWait => {
                self.sparse_count -= 1;
                self.become_bulk(index);
            }
            State::Idle | State::Decaying => {
                if self.flows[index].state == State::Decaying {
                    self.decaying.retain(|&other| usize::from(other) != index);
                }
                self.flows[index].state = State::Sparse;
                self.sparse.push_back(index as u16);
                self.sparse_count += 1;
                self.flows[index].deficit = self.quantum(index, stream);
            }
        }
    }

    fn become_bulk(&mut self, index: usize) {
        self.flows[index].state = State::Bulk;
        self.bulk_count += 1;
        self.hosts.add(self.flows[index].hosts);
    }

    /// The queue whose turn it is: a decaying one, if the caller looks for the first time, else a sparse one, an old one, or a decaying one.
    /// Those that have used up their quantum go behind the others on the way.
    pub(super) fn turn(&mut self, mut first: bool, stream: &mut Stream) -> Option<usize> {
        loop {
            let lists = [&self.sparse, &self.old, &self.decaying];
            let head = lists.into_iter().find_map(|list| list.front());
            let decaying = self.decaying.front().filter(|_| first);
            let index = usize::from(*decaying.or(head)?);
            first = false;
            if self.flows[index].deficit > 0 {
                return Some(index);
            }
            let state = self.flows[index].state;
            self.unlist(index);
            if state == State::Sparse {
                if self.flows[index].packets.is_empty() {
                    self.flows[index].state = State::SparseWait;
                } else {
                    self.sparse_count -= 1;
                    self.become_bulk(index);
                }
            }
            let quantum = self.quantum(index, stream);
            self.flows[index].deficit += quantum;
            self.old.push_back(index as u16);
        }
    }

    /// Takes a queue, the head of its list, off it.
    fn unlist(&mut self, index: usize) {
        let lists = [&mut self.sparse, &mut self.old, &mut self.decaying];
        let own = lists.into_iter().find(|list| list.front().is_some_and(|&head| usize::from(head) == index));
        own.and_then(VecDeque::pop_front);
    }

    /// A queue had its turn and was empty: it decays, or is at rest.
    pub(super) fn ran_empty(&mut self, index: usize, law: &Law, now: Timestamp) {
        let flow = &mut self.flows[index];
        flow.cobalt.ran_empty(law, now);
        let state = if flow.cobalt.is_at_rest(now) { State::Idle } else { State::Decaying };
        match std::mem::replace(&mut flow.state, state) {
            State::Bulk => {
                self.bulk_count -= 1;
                self.hosts.remove(self.flows[index].hosts);
            }
            State::Sparse | State::SparseWait => self.sparse_count -= 1,
            State::Idle | State::Decaying => {}
        }
        self.unlist(index);
        if state == State::Decaying {
            self.decaying.push_back(index as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hosts::CakeFlowMode;
    use super::*;
    use crate::qdisc::tests::packet;
    use warpline_core::Streams;

    const HOSTS: (NodeId, NodeId) = (NodeId(0), NodeId(1));

    fn flows() -> (Flows, Stream) {
        let hosts = Hosts::new(CakeFlowMode::TripleIsolate, QUEUES, 5);
        (Flows::new(hosts, 1514), Streams::new(1).stream("flows"))
    }

    #[test]
    fn eight_flows_of_a_set_have_queues_of_their_own_and_a_ninth_shares_one() {
        let (mut flows, mut stream) = flows();
        let mut taken = Vec::new();
        // All of them hash to the same place.
        for flow in 0..9 {
            let index = flows.find(16 + flow * QUEUES as u64, HOSTS);
            flows.flow(index).push(Waiting { packet: packet(0, 100), length: 100 });
            flows.activate(index, &mut stream);
            taken.push(index);
        }
        assert_eq!(taken, [16, 17, 18, 19, 20, 21, 22, 23, 16]);
        // A flow finds its queue again, also behind another.
        assert_eq!(flows.find(16 + 5 * QUEUES as u64, HOSTS), 21);
    }

    #[test]
    fn a_sparse_queue_goes_first_and_becomes_bulk_when_its_quantum_is_used_up() {
        let (mut flows, mut stream) = flows();
        for key in [1, 2] {
            let index = flows.find(key, HOSTS);
            flows.flow(index).push(Waiting { packet: packet(0, 1500), length: 1500 });
            flows.activate(index, &mut stream);
        }
        assert_eq!(flows.turn(true, &mut stream), Some(1));
        flows.flow(1).deficit -= 3000;
        assert_eq!(flows.turn(true, &mut stream), Some(2));
        assert_eq!((flows.sparse_count, flows.bulk_count), (1, 1));
        let index = flows.find(3, HOSTS);
        flows.activate(index, &mut stream);
        flows.flow(2).deficit = 0;
        assert_eq!(flows.turn(true, &mut stream), Some(3));
        assert_eq!((flows.sparse_count, flows.bulk_count), (1, 2));
        // It had nothing: it is at rest at once, as its AQM has done nothing.
        flows.ran_empty(
            3,
            &Law::new(warpline_core::TimeDelta::from_millis(100), None, 1514),
            Timestamp::ZERO,
        );
        assert_eq!((flows.sparse_count, flows.flows[3].state), (0, State::Idle));
    }
}
