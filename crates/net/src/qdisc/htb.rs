//! HTB: hierarchical token buckets. Classes in a tree have a rate for themselves, and borrow from their parents up to their ceil.
//!
//! Source: Linux's `net/sched/sch_htb.c`; words of classes and their defaults are those of `tc-htb`. A class that is below its rate goes
//! before one that borrows, and one that borrows from nearby before one that borrows from further up. Among these the one with the smallest
//! `prio` goes first, and equals take turns by their quanta. What no class takes goes to the one with the word `default`. Without one it goes past all
//! classes, first and without a limit of rate, as in Linux (`htb_classify`, `HTB_DIRECT`).
//!
//! A line for each class says all of it (`line`). Which packets a class takes goes by the flows' `class` and `dscp`. The buckets are in
//! `tree`.
//!
//! Departures: the class whose turn it is is searched for among all leaves, and not kept in trees of those that may send. The lenders of one
//! level take turns after each turn of a leaf, where in Linux all that borrow from one have a turn before the next lender's. Times are in
//! nanoseconds without the tables of ticks. `mpu`, `overhead` and `offload` are left out. The default is said at its class and not of the whole; a class that
//! could take no packets is refused, and so is a default that lends, where Linux sends directly.

mod line;
mod tree;

use warpline_core::parameter::{Given, OutOfRange, Parameters};
use warpline_core::record::DropReason;
use warpline_core::{Dscp, Stream, Timestamp};

use super::fifo::{Fifo, Limit};
use super::{AnyQdisc, BuiltIn, Dropped, Headers, Qdisc, Queued, Sizing, Verdict};
use line::ClassLine;
use tree::Tree;

/// Packets that no class takes and that may wait.
const DIRECT: Limit = Limit::packets(1000);

/// Hierarchical token buckets (Linux's `sch_htb`).
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("htb")]
pub struct HtbParams {
    /// The classes, a line each: "voice parent all rate 2Mbit/s ceil 10Mbit/s prio 0 dscp EF leaf fq_codel". Parents stand before those
    /// that borrow from them. A class with the word `default` takes the packets that no other class takes. If none has it, these packets are
    /// sent before all others, without a limit of rate. Without classes there is one queue.
    pub classes: Vec<String>,
}

/// Who goes first: by level and priority, then from the one whose turn it is on.
type Rank = (usize, usize, (bool, usize, bool));

/// A class that takes packets.
#[derive(Debug)]
struct Leaf {
    /// Its number in the tree.
    class: usize,
    queue: AnyQdisc,
    prio: u8,
    quantum: i64,
    /// By level, bytes that it may send before the turn of the next one.
    deficits: Vec<i64>,
    /// Whether it was asked in vain during this search.
    tried: bool,
    /// Whose packets it takes.
    takes: (Vec<u8>, Vec<Dscp>),
}

/// An HTB queue.
#[derive(Debug)]
pub struct Htb {
    tree: Tree,
    leaves: Vec<Leaf>,
    /// By level and priority, the class whose turn it is to lend; at level 0, where all send by their own rates, it does not matter.
    lenders: Vec<[usize; 8]>,
    /// By lender and priority, the leaf whose turn it is; those that send by their own rates come first.
    turns: Vec<[usize; 8]>,
    /// The leaf that takes what no other does.
    default: Option<usize>,
    direct: Fifo,
    reads_headers: bool,
}

impl BuiltIn for Htb {
    type Params = HtbParams;

    /// Leaves draw from streams that are drawn from `stream`. Without classes if a line is wrong.
    fn new(params: &HtbParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let lines = ClassLine::all(&params.classes).unwrap_or_default();
        let tree = Tree::new(&lines);
        let levels = tree.levels();
        let (numbers, lines): (Vec<usize>, Vec<ClassLine>) =
            lines.into_iter().enumerate().filter(|(class, _)| !tree.lends(*class)).unzip();
        let default = lines.iter().position(|line| line.default);
        let leaves: Vec<Leaf> = std::iter::zip(numbers, lines)
            .map(|(class, line)| {
                let own = warpline_core::Streams::new(stream.next_u64()).stream(&line.name);
                let mut queue = line.leaf.build(&Sizing { rate: line.ceil, ..*sizing }, own);
                queue.set_rate(line.ceil);
                Leaf {
                    class,
                    queue,
                    prio: line.prio,
                    quantum: i64::from(line.quantum),
                    deficits: vec![0; levels],
                    tried: false,
                    takes: (line.classes, line.dscps),
                }
            })
            .collect();
        let reads_headers = leaves.iter().any(|leaf| !leaf.takes.1.is_empty() || leaf.queue.reads_headers());
        let (lenders, turns) = (vec![[0; 8]; levels], vec![[0; 8]; tree.len() + 1]);
        Htb { tree, leaves, lenders, turns, default, direct: Fifo::default(), reads_headers }
    }

    fn fault(params: &HtbParams, sizing: &Sizing) -> Option<OutOfRange> {
        let fault = |line: String, allowed| {
            Some(OutOfRange { parameter: "classes", value: Given::Text(line), allowed })
        };
        let lines = match ClassLine::all(&params.classes) {
            Ok(lines) => lines,
            Err((line, error)) => return fault(line, error),
        };
        let of_leaf = |line: &ClassLine| {
            let sizing = Sizing { rate: line.ceil, ..*sizing };
            line.leaf.faults_on(&sizing).into_iter().next()
        };
        let (line, found) = lines.iter().find_map(|line| Some((line, of_leaf(line)?)))?;
        fault(line.name.clone(), format!("its leaf: {found}"))
    }
}

impl Htb {
    /// The leaf that takes a packet; none if no class does.
    fn leaf_of(&mut self, class: u8, dscp: Dscp) -> Option<&mut Leaf> {
        let says = |leaf: &Leaf| leaf.takes.0.contains(&class) || leaf.takes.1.contains(&dscp);
        let place = self.leaves.iter().position(says).or(self.default)?;
        self.leaves.get_mut(place)
    }

    fn arrive_direct(&mut self, packet: Queued) -> Verdict {
        if !DIRECT.admits(self.direct.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.direct.push(packet);
        Verdict::Queued
    }

    /// Of those that have not been asked in vain, the leaf that sends next, with the level at which it does and the place of the lender's turns.
    fn next_leaf(&self, now: Timestamp) -> Option<(usize, usize, usize)> {
        let mut best: Option<(Rank, usize, usize)> = None;
        for (place, leaf) in self.leaves.iter().enumerate() {
            if leaf.tried || leaf.queue.backlog().0 == 0 {
                continue;
            }
            let Some((level, lender)) = self.tree.lender(leaf.class, now) else { continue };
            let (level, prio) = (level as usize, usize::from(leaf.prio));
            let lender = if level == 0 { 0 } else { lender + 1 };
            // From the one whose turn it is on, and then from the first on.
            let passed = (lender < self.lenders[level][prio], lender, place < self.turns[lender][prio]);
            let rank = (level, prio, passed);
            if best.is_none_or(|(other, ..)| rank < other) {
                best = Some((rank, place, lender));
            }
        }
        best.map(|((level, ..), place, lender)| (place, level, lender))
    }
}

impl Qdisc for Htb {
    fn enqueue(&mut self, now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        match self.leaf_of(packet.class, Dscp::default()) {
            Some(leaf) => leaf.queue.enqueue(now, packet, dropped),
            None => self.arrive_direct(packet),
        }
    }

    fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    fn enqueue_with(
        &mut self,
        now: Timestamp,
        packet: Queued,
        headers: &Headers<'_>,
        dropped: &mut Dropped,
    ) -> Verdict {
        match self.leaf_of(packet.class, headers.packet.dscp) {
            Some(leaf) => leaf.queue.enqueue_with(now, packet, headers, dropped),
            None => self.arrive_direct(packet),
        }
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        if let Some(packet) = self.direct.pop() {
            return Some(packet);
        }
        self.leaves.iter_mut().for_each(|leaf| leaf.tried = false);
        while let Some((place, level, lender)) = self.next_leaf(now) {
            let leaf = &mut self.leaves[place];
            let Some(packet) = leaf.queue.dequeue(now, dropped) else {
                leaf.tried = true;
                continue;
            };
            let prio = usize::from(leaf.prio);
            leaf.deficits[level] -= i64::from(packet.size);
            let ends = leaf.deficits[level] < 0;
            if ends {
                leaf.deficits[level] += leaf.quantum;
            }
            self.turns[lender][prio] = place + usize::from(ends);
            self.lenders[level][prio] = lender + usize::from(ends);
            self.tree.pay(leaf.class, level as u32, packet.size, now);
            return Some(packet);
        }
        None
    }

    fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.direct.is_empty() {
            return None;
        }
        let waiting = self.leaves.iter().filter(|leaf| leaf.queue.backlog().0 > 0);
        let ready = |leaf: &Leaf| {
            let own = leaf.queue.next_ready(now).unwrap_or(Timestamp::ZERO);
            self.tree.ready(leaf.class).max(own)
        };
        waiting.map(ready).min()
    }

    fn discard(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        let direct = self.direct.pop();
        direct.or_else(|| self.leaves.iter_mut().find_map(|leaf| leaf.queue.discard(now, dropped)))
    }

    fn backlog(&self) -> (u32, u64) {
        let sum = |(packets, bytes): (u32, u64), leaf: &Leaf| {
            let (more_packets, more_bytes) = leaf.queue.backlog();
            (packets + more_packets, bytes + more_bytes)
        };
        self.leaves.iter().fold(self.direct.backlog(), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::{Datagram, EndpointId, FlowId, NodeId, Packet, Streams, TimeDelta};

    fn htb(lines: &[&str]) -> Htb {
        let params = HtbParams { classes: lines.iter().map(|line| (*line).to_owned()).collect() };
        assert_eq!(Htb::fault(&params, &Sizing::default()), None);
        Htb::new(&params, &Sizing::default(), Streams::new(1).stream("htb"))
    }

    /// Megabits that packets of these classes have per second, each of which always has some waiting, over four seconds.
    fn shares(queue: &mut Htb, classes: &[u8]) -> Vec<f64> {
        let (mut now, mut dropped) = (Timestamp::ZERO, Dropped::default());
        let mut offer = |queue: &mut Htb, now, class| {
            queue.enqueue(now, Queued { class, ..packet(0, 1000) }, &mut dropped);
        };
        for &class in classes {
            (0..3).for_each(|_| offer(queue, now, class));
        }
        let mut sent = vec![0.0; classes.len()];
        while now < Timestamp::from_secs(4) {
            match queue.dequeue(now, &mut Dropped::default()) {
                Some(Queued { class, .. }) => {
                    let place = classes.iter().position(|&other| other == class).unwrap();
                    sent[place] += 8_000.0 / 4e6;
                    offer(queue, now, class);
                }
                None => {
                    let at = queue.next_ready(now).unwrap();
                    assert!(at > now);
                    now = at;
                }
            }
        }
        sent
    }

    fn about(sent: &[f64], expected: &[f64]) {
        let near = sent.iter().zip(expected).all(|(sent, expected)| (sent - expected).abs() < 0.05);
        assert!(near && sent.len() == expected.len(), "{sent:?}, not {expected:?}");
    }

    const ALL: &str = "all rate 10Mbit/s";

    #[test]
    fn each_class_has_its_rate_and_what_is_left_goes_by_quanta() {
        let lines = [
            ALL,
            "a parent all rate 2Mbit/s ceil 10Mbit/s class 0 quantum 1000B",
            "b parent all rate 4Mbit/s ceil 10Mbit/s class 1 quantum 3000B",
        ];
        // 4 of 10 Mbit/s are left, which are divided by 1 to 3.
        about(&shares(&mut htb(&lines), &[0, 1]), &[3.0, 7.0]);
        // Alone, one has everything, up to its ceil.
        about(&shares(&mut htb(&lines), &[0]), &[10.0]);
        about(&shares(&mut htb(&[ALL, "a parent all rate 2Mbit/s ceil 5Mbit/s default"]), &[0]), &[5.0]);
        about(&shares(&mut htb(&[ALL, "a parent all rate 2Mbit/s default"]), &[0]), &[2.0]);
    }

    #[test]
    fn a_higher_priority_has_what_is_left() {
        let lines = [
            ALL,
            "a parent all rate 2Mbit/s ceil 9Mbit/s prio 0 class 0",
            "b parent all rate 3Mbit/s ceil 10Mbit/s prio 1 class 1",
        ];
        about(&shares(&mut htb(&lines), &[0, 1]), &[7.0, 3.0]);
    }

    #[test]
    fn a_tree_lends_from_nearby_first() {
        // The classes of a customer share what it has before they borrow what the other one does not use.
        let lines = [
            ALL,
            "one parent all rate 6Mbit/s ceil 6Mbit/s",
            "two parent all rate 4Mbit/s ceil 10Mbit/s",
            "a parent one rate 1Mbit/s ceil 6Mbit/s class 0",
            "b parent one rate 1Mbit/s ceil 6Mbit/s class 1",
            "c parent two rate 1Mbit/s ceil 10Mbit/s class 2",
        ];
        about(&shares(&mut htb(&lines), &[0, 1, 2]), &[3.0, 3.0, 4.0]);
        about(&shares(&mut htb(&lines), &[0, 1]), &[3.0, 3.0]);
        about(&shares(&mut htb(&lines), &[0, 2]), &[6.0, 4.0]);
        about(&shares(&mut htb(&lines), &[2]), &[10.0]);
    }

    #[test]
    fn code_points_classes_and_the_rest_have_their_leaves() {
        let mut queue = htb(&[
            "voice rate 1Mbit/s dscp EF,CS6",
            "second rate 1Mbit/s class 1",
            "rest rate 1Mbit/s leaf codel:limit=2p default",
        ]);
        let mut leaf_of = |class, dscp: &str| {
            let dscp: Dscp = dscp.parse().unwrap();
            let sent = Packet::udp(FlowId(0), EndpointId(0), Datagram::default());
            let headers = Headers { packet: &Packet { dscp, ..sent }, hosts: (NodeId(0), NodeId(1)) };
            let before: Vec<u32> = queue.leaves.iter().map(|leaf| leaf.queue.backlog().0).collect();
            let arriving = Queued { class, ..packet(0, 100) };
            queue.enqueue_with(Timestamp::ZERO, arriving, &headers, &mut Dropped::default());
            queue.leaves.iter().zip(before).position(|(leaf, before)| leaf.queue.backlog().0 > before)
        };
        assert_eq!([leaf_of(0, "EF"), leaf_of(1, "CS6"), leaf_of(1, "DF")], [Some(0), Some(0), Some(1)]);
        // The leaf has room for two.
        assert_eq!([leaf_of(0, "DF"), leaf_of(7, "AF11"), leaf_of(0, "DF")], [Some(2), Some(2), None]);
    }

    #[test]
    fn what_no_class_takes_goes_first_without_a_default() {
        let mut queue = htb(&["a rate 1Mbit/s class 1 burst 1000B"]);
        let mut dropped = Dropped::default();
        for class in [1, 1, 0, 0] {
            queue.enqueue(Timestamp::ZERO, Queued { class, ..packet(0, 1000) }, &mut dropped);
        }
        let mut next = || queue.dequeue(Timestamp::ZERO, &mut dropped).map(|packet| packet.class);
        assert_eq!([next(), next(), next(), next()], [Some(0), Some(0), Some(1), Some(1)]);
        queue.enqueue(Timestamp::ZERO, Queued { class: 1, ..packet(0, 1000) }, &mut dropped);
        assert_eq!(queue.next_ready(Timestamp::ZERO), Some(Timestamp::ZERO + TimeDelta::from_millis(8)));
        assert_eq!(
            (queue.backlog(), queue.discard(Timestamp::ZERO, &mut dropped).is_some()),
            ((1, 1000), true)
        );
    }
}
