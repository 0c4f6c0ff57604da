//! The states of a connection and how it can end (RFC 9293 section 3.3.2).

/// State of a connection (RFC 9293 section 3.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Not opened yet, or ended.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// SYN sent.
    SynSent,
    /// SYN received, SYN/ACK sent.
    SynReceived,
    /// Open both ways.
    Established,
    /// Our FIN is sent, not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged; the other side may still send.
    FinWait2,
    /// The other side's FIN is received; we may still send.
    CloseWait,
    /// Both FINs sent at the same time; ours is not acknowledged.
    Closing,
    /// The other side's FIN came first; ours is sent and not acknowledged.
    LastAck,
    /// Both sides are done; late duplicates are answered.
    TimeWait,
}

impl State {
    /// Whether the three-way handshake is complete and the connection has not ended.
    #[inline]
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Both sides closed and everything was acknowledged.
    Complete,
    /// The other side reset it.
    Reset,
    /// This side aborted it.
    Aborted,
    /// Retransmissions ran out.
    TimedOut,
    /// The network said that the other side cannot be reached, before the connection was open.
    Unreachable,
}
