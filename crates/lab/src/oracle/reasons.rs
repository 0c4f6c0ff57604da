//! Why Warpline and ns-2 differ, where they do. Each text was established by experiment or from ns-2's source; none is a guess.

use super::cases::{Agent, Case, Family};

/// Why a case has no Warpline side.
pub(super) const NOT_RUN: &str = "Warpline has no FACK, which takes for lost what lies three segments below the highest SACK block; \
     Warpline counts the segments that were selectively acknowledged (RFC 6675), or goes by time (RACK).";

const SACK_REORDERING: &str = "ns-2's Sack1 begins recovery at the third duplicate acknowledgement in a row and starts to count anew, with an \
     empty scoreboard, at every cumulative one. RFC 6675 (section 5, step 2, with IsLost of section 4) also begins it when \
     three segments above the first hole have been selectively acknowledged in all, duplicate acknowledgements in a row or \
     not. Warpline follows the RFC and so takes reordering for loss more often. Checked: with ns-2's rule built into \
     Warpline, all eight cases came within 9 %.";

const VEGAS_REORDERING: &str = "ns-2's Vegas answers a fast retransmission by taking a whole quarter of the window away (win >> 2, rounded down: \
     nothing below 4 segments, 1 of 4 to 7), and not at all when the window has changed since the lost segment was sent. \
     Warpline takes a quarter in bytes once per recovery. At windows of 4 to 12 segments, which strong reordering leaves, \
     that is more. Checked: keeping 0.88 of the window in place of 0.75 brings 10 to 100 ms within 8 %.";

const VEGAS_HOPS: &str = "ns-2's Vegas compares the packets sent in a round with those out right after an acknowledgement, one or two fewer \
     with delayed ones, and rounds to whole packets: it leaves that many more in the queue than alpha and beta say. At \
     windows of 2 to 10 segments against a full queue that is a large part of the rate. Warpline compares exactly. ns-2's \
     single run also hides its own spread: with other seeds it gave 0.156 to 0.202 Mbit/s for 3 hops, 0.070 to 0.109 for 6.";

const LINUX_REORDERING: &str = "ns-2's Linux agents find losses by FACK: a segment is lost when the highest SACK block is four above it, however \
     many of those between have arrived. Warpline counts the segments that have (RFC 6675), here set to four in place of \
     three, which is the nearest. ns-2 also puts the window back to the threshold after recovery and holds back more within.";

const LINUX_CUBIC: &str = "ns-2's cubic is the kernel's of 2007, before RFC 9438 and its changed Reno-friendly region and fast convergence, \
     and its Linux agent retransmits thousands of packets needlessly when a queue overflows (61,332 of them with 10 hops): \
     its table says itself that it is no reference for CUBIC there.";

const TAHOE_MESSAGES: &str = "ns-2's Tahoe goes back to the first lost segment and sends everything after it again, and answers a duplicate \
     acknowledgement during that with nothing; each loss so costs it more of the stream. Warpline's Tahoe also marks all as \
     lost, but a segment whose acknowledgement comes meanwhile is not sent again. Tahoe's window is then the bottleneck, and \
     the backlog of messages magnifies the difference: at 1 % and more the connection is overloaded.";

const OVERLOAD: &str = "Close to or beyond the rate that the connection can carry, latency is the backlog of messages, which a small \
     difference in throughput, or in a few time-outs, magnifies without bound: at 100 messages/s the limit is near 1 % loss, \
     at 150 near 0.5 %.";

/// The reason for a difference of a case, as far as it is known.
pub(super) fn reason(case: &Case) -> Option<&'static str> {
    Some(match (case.family, case.agent) {
        (Family::Fig1, Agent::Sack1) => SACK_REORDERING,
        (Family::Fig1, Agent::Vegas) => VEGAS_REORDERING,
        (Family::Fig1, Agent::LinuxReno | Agent::LinuxCubic) => LINUX_REORDERING,
        (Family::Fig6, Agent::Vegas) => VEGAS_HOPS,
        (Family::Fig6, Agent::LinuxCubic) => LINUX_CUBIC,
        (Family::Fig7, Agent::Tahoe) => TAHOE_MESSAGES,
        (Family::Fig7, _) => OVERLOAD,
        _ => return None,
    })
}
