//! Queueing disciplines: what waits in front of a link, in which order it leaves, and what is dropped or marked.
//!
//! A qdisc holds [`Queued`] entries, not packets: the packet stays in the network's arena. A constant-rate drop-tail FIFO
//! does not come here at all, as the link knows its departures on arrival (see `fifo`).

#[macro_use]
mod list;

// A new queue is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
queues! {
    droptail::DropTail,
    priority::Priority,
    red::Red boxed,
    codel::Codel boxed,
    fq_codel::FqCodel boxed,
    pie::Pie boxed,
    fq_pie::FqPie boxed,
    drr::Drr boxed,
    sfq::Sfq boxed,
    tbf::Tbf boxed,
    policer::Policer boxed,
    step::Step,
    dualpi2::DualPi2 boxed,
    cake::Cake boxed,
    htb::Htb boxed,
    shared::Shared,
}

mod any;
mod bucket;
mod fifo;
mod flows;
mod limit;
mod longest;
mod protection;
mod root;
#[cfg(test)]
mod tests;

pub use any::{BuiltIn, MakeQueue, OwnQueue};
pub use fifo::{Admission, Limit};
pub use limit::{ParseLimitError, QueueLimit, Sizing};

use warpline_core::parameter::{Choice, OutOfRange};
use warpline_core::record::DropReason;
use warpline_core::{Ecn, NodeId, Packet, Rate, Stream, Timestamp};

/// A packet as a qdisc sees it.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// Its place in the network's arena.
    pub slot: u32,
    /// Bytes on the wire.
    pub size: u32,
    /// The flow it belongs to, for fair queueing.
    pub flow: u32,
    /// ECN field; a qdisc that marks sets [`Ecn::Ce`] here and says so in its verdict or in what it hands out.
    pub ecn: Ecn,
    /// Traffic class, 0 first.
    pub class: u8,
    /// When it was enqueued.
    pub arrived: Timestamp,
}

impl Queued {
    /// Sets congestion-experienced, and returns true, if the packet is ECN-capable (RFC 3168 section 5).
    pub fn mark(&mut self) -> bool {
        let capable = self.ecn != Ecn::NotEct;
        if capable {
            self.ecn = Ecn::Ce;
        }
        capable
    }
}

/// What a router can read of an arriving packet beside its [`Queued`] entry.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// The nodes where its route begins and where it ends: its source and its destination.
    pub hosts: (NodeId, NodeId),
}

/// What became of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken in.
    Queued,
    /// Taken in and marked congestion-experienced (it may have been so already).
    Marked,
    /// Not taken in.
    Dropped(DropReason),
}

/// Packets that leave a qdisc other than by transmission.
#[derive(Debug, Default)]
pub struct Dropped(pub Vec<(Queued, DropReason)>);

/// A queueing discipline.
pub trait Qdisc: std::fmt::Debug + Send {
    /// A packet arrives. Packets pushed out of the queue to make room go to `dropped`; the arriving one does not.
    fn enqueue(&mut self, now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict;
    /// Whether it goes by more of a packet than its entry: then packets arrive by [`enqueue_with`](Self::enqueue_with).
    fn reads_headers(&self) -> bool {
        false
    }
    /// A packet arrives with its headers; otherwise as [`enqueue`](Self::enqueue).
    fn enqueue_with(
        &mut self,
        now: Timestamp,
        packet: Queued,
        headers: &Headers<'_>,
        dropped: &mut Dropped,
    ) -> Verdict {
        let _ = headers;
        self.enqueue(now, packet, dropped)
    }
    /// The next packet to send, if one waits and may leave. Those dropped on the way out (CoDel) go to `dropped`; one marked on the way out has its
    /// `ecn` set to [`Ecn::Ce`].
    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued>;
    /// When a packet may leave, if some wait; none for a queue that gives one out whenever it is asked. A link that asked for a packet in vain asks
    /// again at this time.
    fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        let _ = now;
        None
    }
    /// Takes any packet out, whether it may leave yet or not, for a link that goes down.
    fn discard(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        self.dequeue(now, dropped)
    }
    /// Packets and bytes waiting.
    fn backlog(&self) -> (u32, u64);
    /// The link's rate, told at the start and, after a change, before the next packet; 0 where it is stalled or not known. RED needs it for
    /// the decay of its average over idle time, and shapers and policers without a rate of their own for theirs.
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }
    /// How many classes it can hold back each by itself, for priority flow control: eight at most, and packets of a higher class are held with the last. One
    /// for a queue that does not tell classes apart: the link then pauses as a whole.
    fn priorities(&self) -> u8 {
        1
    }
    /// Holds back the classes whose bits are set, and no others: `dequeue` passes over them until the next call, and `discard` does not. A queue with one
    /// of [`priorities`](Self::priorities) need not: its link does not ask for packets then.
    fn hold(&mut self, classes: u8) {
        let _ = classes;
    }
}
