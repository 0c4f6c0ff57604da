//! Priority flow control: a node stops the link over which too much of what waits there has come.
//!
//! Source: IEEE 802.1Qbb (since in IEEE 802.1Q, clause 36), as switches use it: the bytes that came over a link and are still at the node are counted.
//! At `xoff` the node tells the sender to pause, at `xon` to go on. What comes until the pause takes hold needs `headroom`; what
//! does not fit there either is dropped.
//!
//! The node's outgoing links count by where their packets came from (`LinkConfig::counts_sources`): a packet counts from its arrival
//! until it has left, and a packet in transmission counts, too. The message to pause takes the link's delay and the time of a frame of 84 bytes, and
//! does not wait behind other frames. A pause lasts until the message to go on: that switches repeat it before it expires is left out.
//!
//! There is one priority. A real link pauses each of eight by itself; here all packets of a link are of one.
//!
//! Links that pause each other in a circle can wait for ever. [`Network::pfc_circle`](crate::Network::pfc_circle) finds routes that make that
//! possible.

use std::collections::VecDeque;

use warpline_core::{TimeDelta, Timestamp};

/// Bytes of a message on the wire: the smallest Ethernet frame with preamble and gap.
pub(crate) const MESSAGE: u64 = 84;

/// When a node pauses the link over which packets come. Sizes are in bytes from the IP header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// The sender has to pause when so many bytes that came over the link are at the node.
    pub xoff: u64,
    /// It may go on when so few bytes are left.
    pub xon: u64,
    /// How much more than `xoff` may be there.
    pub headroom: u64,
}

/// What a node has of a link's packets, and whether the link pauses.
#[derive(Debug)]
pub(crate) struct Pfc {
    config: PfcConfig,
    /// How long a message to the sender takes.
    message_time: TimeDelta,
    held: u64,
    /// Whether the last message was to pause.
    asked: bool,
    /// Messages on their way, and when they arrive.
    messages: VecDeque<(Timestamp, bool)>,
    /// Since when the link pauses.
    paused: Option<Timestamp>,
}

impl Pfc {
    pub(crate) fn new(config: PfcConfig, message_time: TimeDelta) -> Self {
        Pfc { config, message_time, held: 0, asked: false, messages: VecDeque::new(), paused: None }
    }

    /// Since when it pauses, if it does.
    pub(crate) fn paused(&self) -> Option<Timestamp> {
        self.paused
    }

    fn tell(&mut self, now: Timestamp, pause: bool) -> Timestamp {
        let at = now + self.message_time;
        self.asked = pause;
        self.messages.push_back((at, pause));
        at
    }

    /// A packet has come over the link and is at the node. Returns whether there is room for it, and when a message arrives that this causes.
    pub(crate) fn arrive(&mut self, now: Timestamp, size: u32) -> (bool, Option<Timestamp>) {
        self.held += u64::from(size);
        let pauses = !self.asked && self.held >= self.config.xoff;
        let message = pauses.then(|| self.tell(now, true));
        (self.held <= self.config.xoff.saturating_add(self.config.headroom), message)
    }

    /// A packet that had come over the link has left the node, or was dropped. Returns when a message arrives that this causes.
    pub(crate) fn leave(&mut self, now: Timestamp, size: u32) -> Option<Timestamp> {
        self.held = self.held.saturating_sub(u64::from(size));
        (self.asked && self.held <= self.config.xon).then(|| self.tell(now, false))
    }

    /// Does what the messages say that have arrived. Returns whether a pause has begun, and for how long one lasted that has ended.
    pub(crate) fn obey(&mut self, now: Timestamp) -> (bool, Option<TimeDelta>) {
        let (mut begun, mut ended) = (false, None);
        while let Some(&(_, pause)) = self.messages.front().filter(|(at, _)| *at <= now) {
            self.messages.pop_front();
            match (pause, self.paused) {
                (true, None) => (begun, self.paused) = (true, Some(now)),
                (false, Some(since)) => {
                    ended = Some(now.saturating_since(since));
                    self.paused = None;
                }
                _ => {}
            }
        }
        (begun, ended)
    }
}
