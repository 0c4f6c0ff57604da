//! What a link counts.

use serde::{Deserialize, Serialize};
use warpline_core::{TimeDelta, counters};

counters! {
    /// What a link has carried and lost since the run's start. Counters only grow: differences of two readings give intervals.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[non_exhaustive]
    pub struct LinkStats {
        counts {
            /// Packets offered to the link.
            pub arrivals: u64,
            /// Packets whose transmission was completed.
            pub sent_packets: u64,
            /// Their bytes on the wire, framing included.
            pub sent_bytes: u64,
            /// Packets that did not fit into the queue.
            pub drops_overflow: u64,
            /// Packets dropped by active queue management.
            pub drops_aqm: u64,
            /// Packets lost on the wire; they count as sent.
            pub drops_loss: u64,
            /// Packets that met the link down.
            pub drops_down: u64,
            /// Packets marked congestion-experienced.
            pub marks: u64,
            /// Packets of which the link has made a copy, which does not count as sent.
            pub duplicated: u64,
            /// Packets of which the link has changed a bit; they arrive.
            pub corrupted: u64,
            /// Packets whose transmission has begun, so that their time in the queue is known.
            pub queued_packets: u64,
            /// Sum of their times in the queue, transmission excluded.
            pub queued_time: TimeDelta,
            /// How often the link was told to pause (priority flow control), or one of its priorities.
            pub pauses: u64,
            /// For how long it has paused, or at least one of its priorities.
            pub paused_time: TimeDelta,
        }
        state {
            /// Longest time in the queue since the last call of `Network::reset_queued_max`.
            pub queued_max: TimeDelta,
            /// Packets waiting now, without the one in transmission.
            pub backlog_packets: u32,
            /// Bytes waiting now.
            pub backlog_bytes: u64,
        }
    }
}

impl LinkStats {
    /// All packets that this link lost.
    pub fn drops(&self) -> u64 {
        self.drops_overflow + self.drops_aqm + self.drops_loss + self.drops_down
    }
}
