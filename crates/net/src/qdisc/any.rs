//! Any queue as one type: the built-in ones by static dispatch, anything else in a box.

use std::fmt;
use std::sync::Arc;

use warpline_core::parameter::{Choice, Component, OutOfRange};
use warpline_core::{Rate, Stream, Timestamp};

use super::{AnyQdisc, DropTailParams, Dropped, Qdisc, QdiscConfig, QueueLimit, Queued, Sizing, Verdict};

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
}

/// Makes a queue of the user's own of what it is sized by and a random stream.
pub type MakeQueue = dyn Fn(&Sizing, Stream) -> Box<dyn Qdisc> + Send + Sync;

/// What makes queues of the user's own.
#[derive(Clone)]
pub struct OwnQueue(pub Arc<MakeQueue>);

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

    /// How much may wait.
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
    #[inline]
    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        each!(self, queue => queue.dequeue(now, dropped))
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        each!(self, queue => queue.backlog())
    }
    fn set_rate(&mut self, rate: Rate) {
        each!(self, queue => queue.set_rate(rate));
    }
}
