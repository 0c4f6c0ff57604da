//! Any queue as one type: the built-in ones by static dispatch, anything else in a box.

use std::fmt;
use std::sync::Arc;

use warpline_core::parameter::{Choice, Component, OutOfRange};
use warpline_core::{Rate, Stream, Timestamp};

use super::{
    Admission, AnyQdisc, DropTailParams, Dropped, Headers, Qdisc, QdiscConfig, QueueLimit, Queued, Sizing,
    Verdict,
};

/// A queue of the list in `qdisc/mod.rs`.
pub trait BuiltIn: Qdisc + Sized {
    /// Its parameters.
    type Params: Component;

    /// An empty queue on a link of this kind; what is random about it comes from `stream`. A parameter out of its range is taken for the nearest
    /// value that makes sense.
    fn new(params: &Self::Params, sizing: &Sizing, stream: Stream) -> Self;

    /// What is wrong with the parameters on a link of this kind, beside their ranges.
    fn fault(params: &Self::Params, sizing: &Sizing) -> Option<OutOfRange> {
        let _ = (params, sizing);
        None
    }

    /// How it decides on each packet, if it does by what waits and by nothing else, and gives packets out in the order in which they came. Then
    /// links may do without it, with the same outcome.
    fn admission(params: &Self::Params, sizing: &Sizing) -> Option<Admission> {
        let _ = (params, sizing);
        None
    }
}

/// Makes a queue of the user's own of what it is sized by and a random stream.
pub type MakeQueue = dyn Fn(&Sizing, Stream) -> Box<dyn Qdisc> + Send + Sync;

/// What makes queues of the user's own, one for each link.
///
/// ```
/// use warpline_core::record::DropReason;
/// use warpline_core::{NodeId, Timestamp};
/// use warpline_net::LinkConfig;
/// use warpline_net::qdisc::{Dropped, OwnQueue, Qdisc, Queued, Verdict};
///
/// /// The last packet in is the first one out.
/// #[derive(Debug, Default)]
/// struct Stack(Vec<Queued>);
///
/// impl Qdisc for Stack {
///     fn enqueue(&mut self, _now: Timestamp, packet: Queued, _dropped: &mut Dropped) -> Verdict {
///         if self.0.len() == 100 {
///             return Verdict::Dropped(DropReason::Overflow);
///         }
///         self.0.push(packet);
///         Verdict::Queued
///     }
///     fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
///         self.0.pop()
///     }
///     fn backlog(&self) -> (u32, u64) {
///         (self.0.len() as u32, self.0.iter().map(|packet| u64::from(packet.size)).sum())
///     }
/// }
///
/// let own_queue = OwnQueue::new(|_sizing, _stream| Box::new(Stack::default()));
/// let config =
///     LinkConfig { own_queue: Some(own_queue), ..LinkConfig::new("a>b", NodeId(0), NodeId(1)) };
/// ```
#[derive(Clone)]
pub struct OwnQueue(pub Arc<MakeQueue>);

impl OwnQueue {
    /// From a function that gets the link's size and a random stream of the queue's own.
    pub fn new(make: impl Fn(&Sizing, Stream) -> Box<dyn Qdisc> + Send + Sync + 'static) -> Self {
        OwnQueue(Arc::new(make))
    }
}

impl fmt::Debug for OwnQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnQueue")
    }
}

impl QdiscConfig {
    /// First in, first out, up to a limit.
    pub const fn drop_tail(limit: QueueLimit) -> Self {
        QdiscConfig::DropTail(DropTailParams { limit })
    }

    /// How much may wait; without limit where it is said by other parameters than `limit`.
    pub fn limit(&self) -> QueueLimit {
        let mut own = self.clone();
        let limit = own.parameters().fields().into_iter().find(|field| field.name == "limit");
        let text = limit.and_then(|field| field.value.given()).map(|given| given.to_string());
        text.and_then(|text| text.parse().ok()).unwrap_or(QueueLimit::Unlimited)
    }
}

impl Default for QdiscConfig {
    /// Drop-tail.
    fn default() -> Self {
        QdiscConfig::DropTail(DropTailParams::default())
    }
}

impl Qdisc for AnyQdisc {
    #[inline]
    fn enqueue(&mut self, now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        each!(self, queue => queue.enqueue(now, packet, dropped))
    }
    fn reads_headers(&self) -> bool {
        each!(self, queue => queue.reads_headers())
    }
    fn enqueue_with(
        &mut self,
        now: Timestamp,
        packet: Queued,
        headers: &Headers<'_>,
        dropped: &mut Dropped,
    ) -> Verdict {
        each!(self, queue => queue.enqueue_with(now, packet, headers, dropped))
    }
    #[inline]
    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        each!(self, queue => queue.dequeue(now, dropped))
    }
    fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        each!(self, queue => queue.next_ready(now))
    }
    fn discard(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        each!(self, queue => queue.discard(now, dropped))
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        each!(self, queue => queue.backlog())
    }
    fn set_rate(&mut self, rate: Rate) {
        each!(self, queue => queue.set_rate(rate));
    }
    fn priorities(&self) -> u8 {
        each!(self, queue => queue.priorities())
    }
    fn hold(&mut self, classes: u8) {
        each!(self, queue => queue.hold(classes));
    }
}
