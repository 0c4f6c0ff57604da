//! Receivers that break the rules, so that senders can be tried against them.
//!
//! Sources: "TCP Congestion Control with a Misbehaving Receiver" (Savage, Cardwell, Wetherall, Anderson, CCR 1999), which could not be read: its three
//! attacks are known from RFC 5681 sections 3.1 (ACK division) and 3.2 (bogus duplicate ACKs), which answer to them, and from lecture notes on it.
//! RFC 3168 section 20 names receivers that hide marks.
//!
//! Every segment is acknowledged at once, so that there is more to deceive with. What is received and delivered stays true, but that an optimistic
//! receiver leaves out what was lost: nobody will send it again. It goes by round-trip times, which it takes from timestamps.
//!
//! Departures: the attacks have fixed sizes. Acknowledgements that go with data are true. A hidden mark counts as no ECN-capable packet in the AccECN option; a cleverer receiver would count it as
//! one without a mark, which no sender here could tell from it.

use warpline_core::parameter::Words;
use warpline_core::{Segment, Timestamp};

use super::Receiver;
use super::feedback::Unusual;

/// How a receiver breaks the rules so that the sender sends faster. Senders are tried against it. It holds for what this end receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Words)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// It keeps to the rules.
    #[default]
    None,
    /// It acknowledges each segment in eight pieces, one after the other. A sender that counts acknowledgements grows eight times as fast (RFC 5681
    /// section 3.1).
    AckDivision,
    /// It sends eight more copies of each acknowledgement. A sender that takes each for a segment that has arrived sends more (RFC 5681 section 3.2).
    /// With `sack` copies mean nothing.
    DuplicateAcks,
    /// It acknowledges data half a round-trip time before it arrives, and passes over what was lost, which is then never delivered. The sender sees
    /// no loss and a short path. Without `timestamps` it only passes over losses.
    OptimisticAcks,
    /// It does not report congestion marks (RFC 3168 section 20).
    HiddenMarks,
}

/// Pieces of a divided acknowledgement, and copies of a duplicated one.
const PARTS: u32 = 8;

/// What a receiver that breaks the rules knows.
#[derive(Debug)]
pub(super) struct Deceit {
    how: Misbehaviour,
    /// Acknowledgements that are still to follow the last one.
    left: u32,
    /// Bytes that are acknowledged before they have arrived.
    lead: u64,
    /// What is sent from this timestamp on is answered in the next round, and where the data stood then.
    round_began: u32,
    before_round: u64,
}

impl Deceit {
    /// That of a receiver which breaks the rules like this, and what is unusual with it.
    pub(super) fn new(how: Misbehaviour) -> (Option<Box<Deceit>>, u8) {
        let unusual = match how {
            Misbehaviour::None => return (None, 0),
            Misbehaviour::HiddenMarks => return (None, Unusual::HIDING),
            _ => Unusual::MISBEHAVING,
        };
        let deceit = Deceit { how, left: 0, lead: 0, round_began: 0, before_round: 0 };
        (Some(Box::new(deceit)), unusual)
    }
}

impl Receiver {
    /// The next acknowledgement of a receiver that breaks the rules.
    #[cold]
    pub(super) fn make_false_ack(&mut self, now: Timestamp, seq: u64) -> Segment {
        let (nxt, last) = (self.nxt, self.last_ack_sent);
        // Nothing to deceive with before data has come, and after all of it has.
        let honest = self.full == 0 || self.is_early_due() || self.fin_received();
        let Some(deceit) = self.deceit.as_mut().filter(|_| !honest) else {
            return self.make_true_ack(now, seq);
        };
        match deceit.how {
            Misbehaviour::AckDivision => {
                let whole = nxt.saturating_sub(last);
                if deceit.left == 0 {
                    deceit.left = u64::from(PARTS).min(whole) as u32;
                }
                if deceit.left <= 1 {
                    deceit.left = 0;
                    return self.make_true_ack(now, seq);
                }
                let piece = whole / u64::from(deceit.left);
                deceit.left -= 1;
                self.acknowledge_up_to(last + piece, now, seq)
            }
            Misbehaviour::DuplicateAcks => {
                deceit.left = if deceit.left == 0 { PARTS } else { deceit.left - 1 };
                let more = deceit.left > 0;
                let segment = self.make_true_ack(now, seq);
                self.ack_now = more;
                segment
            }
            _ => {
                let claimed = nxt + deceit.lead;
                let segment = self.acknowledge_up_to(claimed, now, seq);
                (self.last_ack_sent, self.ack_now) = (nxt, false);
                segment
            }
        }
    }

    /// An acknowledgement of another position than the true one; the true one is still due.
    fn acknowledge_up_to(&mut self, position: u64, now: Timestamp, seq: u64) -> Segment {
        let nxt = std::mem::replace(&mut self.nxt, position);
        let segment = self.header(now, seq);
        (self.nxt, self.ack_now) = (nxt, true);
        segment
    }

    /// A segment with payload is about to be taken: an optimistic receiver finds how much arrives in a round-trip time, which is also what is on its
    /// way. One that comes again shows that it had gone too far.
    pub(in crate::tcp) fn look_around(&mut self, now: Timestamp, segment: &Segment) {
        let nxt = self.nxt;
        let Some(deceit) = &mut self.deceit else { return };
        let again = segment.seq + u64::from(segment.len) <= nxt;
        if again {
            deceit.lead = 0;
        }
        let ends = |echo: u32| (echo.wrapping_sub(deceit.round_began) as i32) > 0;
        if segment.timestamps.is_some_and(|(_, echo)| ends(echo)) {
            deceit.lead = if again { 0 } else { (nxt - deceit.before_round) / 2 };
            (deceit.before_round, deceit.round_began) = (nxt, now.as_millis() as u32);
        }
    }

    /// Data from `start` on has come, and something before it has not: an optimistic receiver takes it for received. Returns how much.
    pub(super) fn pass_over(&mut self, start: u64) -> u64 {
        let missing = start.saturating_sub(self.nxt);
        if missing == 0
            || self.deceit.as_ref().is_none_or(|deceit| deceit.how != Misbehaviour::OptimisticAcks)
        {
            return 0;
        }
        self.nxt = start;
        missing
    }
}
