//! Priority flow control: a node stops the link over which too much of what waits there has come.
//!
//! Source: IEEE 802.1Qbb (since in IEEE 802.1Q, clause 36), as switches use it: the bytes that came over a link and are still at the node are counted.
//! At `xoff` the node tells the sender to pause, at `xon` to go on. What comes until the pause takes hold needs `headroom`; what
//! does not fit there either is dropped.
//!
//! The node's outgoing links count by where their packets came from (`LinkConfig::counts_sources`): a packet counts from its arrival
//! until it has left, and a packet in transmission counts, too. The message to pause takes the link's delay and the time of a frame of 84 bytes, and
//! does not wait behind other frames. While the link's rate is 0, it takes the delay only. A pause lasts until the message to go on: that switches
//! repeat it before it expires is left out.
//!
//! Each of up to eight priorities is counted and paused by itself: the classes that the link's queue can hold back
//! ([`Qdisc::priorities`](crate::qdisc::Qdisc::priorities)). Behind a queue that does not tell classes apart there is one, and all packets of the link pause together.
//!
//! Links that pause each other in a circle can wait for ever. [`Network::pfc_circle`](crate::Network::pfc_circle) finds routes that make that
//! possible.

use std::collections::VecDeque;

use warpline_core::{Rate, TimeDelta, Timestamp};

/// Bytes of a message on the wire: the smallest Ethernet frame with preamble and gap.
const MESSAGE: u64 = 84;

/// How long a message to the sender takes on a link with this delay and rate, if it has one. Where the rate is 0 the delay alone counts: a message that
/// never arrived would also hold back all that come after it.
pub(crate) fn message_time(delay: TimeDelta, rate: Option<Rate>) -> TimeDelta {
    let moving = rate.filter(|rate| rate.as_bps() > 0);
    delay + moving.map_or(TimeDelta::ZERO, |rate| rate.time_for(MESSAGE))
}

/// When a node pauses the link over which packets come. Sizes are in bytes from the IP header on, and those of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// The sender has to pause when so many bytes that came over the link are at the node.
    pub xoff: u64,
    /// It may go on when so few bytes are left.
    pub xon: u64,
    /// How much more than `xoff` may be there.
    pub headroom: u64,
}

/// Most priorities of a link.
const PRIORITIES: usize = 8;

/// What a node has of a link's packets, and which priorities of the link pause. Sets of priorities have a bit for each.
#[derive(Debug)]
pub(crate) struct Pfc {
    config: PfcConfig,
    /// How long a message to the sender takes.
    message_time: TimeDelta,
    /// How many priorities there are; packets of a higher class are of the last.
    priorities: u8,
    held: [u64; PRIORITIES],
    /// For which the last message was to pause.
    asked: u8,
    /// Messages on their way: when they arrive, for which priority, and whether it is to pause.
    messages: VecDeque<(Timestamp, u8, bool)>,
    /// Those that pause.
    paused: u8,
    /// Since when at least one does.
    since: Timestamp,
}

/// What the messages have changed that have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Obeyed {
    /// Pauses that have begun.
    pub(crate) begun: u64,
    /// Whether a priority goes on.
    pub(crate) resumed: bool,
    /// For how long something paused, if now nothing does any more.
    pub(crate) ended: TimeDelta,
}

impl Pfc {
    /// For a link whose queue can hold back so many classes.
    pub(crate) fn new(config: PfcConfig, message_time: TimeDelta, priorities: u8) -> Self {
        Pfc {
            config,
            message_time,
            priorities: priorities.clamp(1, PRIORITIES as u8),
            held: [0; PRIORITIES],
            asked: 0,
            messages: VecDeque::new(),
            paused: 0,
            since: Timestamp::ZERO,
        }
    }

    /// Changes how long a message to the sender takes from now on.
    pub(crate) fn set_message_time(&mut self, time: TimeDelta) {
        self.message_time = time;
    }

    /// The priorities that pause.
    pub(crate) fn paused(&self) -> u8 {
        self.paused
    }

    /// Whether all do: the link sends nothing.
    pub(crate) fn stops_all(&self) -> bool {
        self.paused.count_ones() == u32::from(self.priorities)
    }

    /// For how long at least one has paused now.
    pub(crate) fn paused_for(&self, now: Timestamp) -> TimeDelta {
        if self.paused == 0 { TimeDelta::ZERO } else { now.saturating_since(self.since) }
    }

    fn priority(&self, class: u8) -> u8 {
        class.min(self.priorities - 1)
    }

    fn tell(&mut self, now: Timestamp, priority: u8, pause: bool) -> Timestamp {
        let at = now + self.message_time;
        self.asked ^= 1 << priority;
        self.messages.push_back((at, priority, pause));
        at
    }

    /// A packet of a class has come over the link and is at the node. Returns whether there is room for it, and when a message arrives that this causes.
    pub(crate) fn arrive(&mut self, now: Timestamp, class: u8, size: u32) -> (bool, Option<Timestamp>) {
        let priority = self.priority(class);
        self.held[usize::from(priority)] += u64::from(size);
        let held = self.held[usize::from(priority)];
        let pauses = self.asked & (1 << priority) == 0 && held >= self.config.xoff;
        let message = pauses.then(|| self.tell(now, priority, true));
        (held <= self.config.xoff.saturating_add(self.config.headroom), message)
    }

    /// A packet of a class that had come over the link has left the node, or was dropped. Returns when a message arrives that this causes.
    pub(crate) fn leave(&mut self, now: Timestamp, class: u8, size: u32) -> Option<Timestamp> {
        let priority = self.priority(class);
        let held = &mut self.held[usize::from(priority)];
        *held = held.saturating_sub(u64::from(size));
        let resumes = self.asked & (1 << priority) != 0 && *held <= self.config.xon;
        resumes.then(|| self.tell(now, priority, false))
    }

    /// Does what the messages say that have arrived.
    pub(crate) fn obey(&mut self, now: Timestamp) -> Obeyed {
        let mut obeyed = Obeyed::default();
        while let Some(&(_, priority, pause)) = self.messages.front().filter(|(at, ..)| *at <= now) {
            self.messages.pop_front();
            if pause && self.paused == 0 {
                self.since = now;
            }
            obeyed.begun += u64::from(pause);
            obeyed.resumed |= !pause;
            self.paused ^= 1 << priority;
            if self.paused == 0 {
                obeyed.ended += now.saturating_since(self.since);
            }
        }
        obeyed
    }
}
