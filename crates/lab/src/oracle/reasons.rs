//! Why Warpline and ns-2 differ, where they do. Each text rests on an experiment ("checked") or on ns-2.35's source.

use super::cases::{Agent, Case, Family};

/// Why a case has no Warpline side.
pub(super) const NOT_RUN: &str = "Warpline has no FACK, which takes for lost what lies three segments below the highest SACK block; \
     Warpline counts the segments that were selectively acknowledged (RFC 6675), or goes by time (RACK).";

const SACK_REORDERING: &str = "ns-2's Sack1 begins recovery at the third duplicate acknowledgement in a row and starts to count anew, with an \
     empty scoreboard, at every cumulative one. RFC 6675 (section 5, step 2, with IsLost of section 4) also begins it when \
     three segments above the first hole have been selectively acknowledged in all, duplicate acknowledgements in a row or \
     not. Warpline follows the RFC and so takes reordering for loss more often. Checked: with ns-2's rule built into \
     Warpline, all eight cases came within 9 %.";

const VEGAS_REORDERING: &str = "ns-2's Vegas answers a fast retransmission by taking a quarter of the window in whole segments, rounded down (one of 4 to 7, \
     two of 8 to 11), and nothing when the window has changed since the lost segment was sent. Warpline takes a quarter in \
     bytes, once per recovery: at the windows of 4 to 12 segments that strong reordering leaves, that is more. Checked: \
     keeping 0.88 of the window in place of 0.75 brings 10 to 100 ms within 8 %.";

const VEGAS_HOPS: &str = "ns-2's Vegas compares the packets sent in a round with those that are out just after an acknowledgement, one or two fewer \
     where they are delayed, and rounds to whole packets (tcp-vegas.cc): it leaves about that many more in the queue than \
     alpha and beta say. Warpline compares exactly. At windows of a few segments that is a large part of the rate. ns-2's \
     table has one run; further seeds of ns-2 gave 0.156 to 0.202 Mbit/s for 3 hops and 0.070 to 0.109 for 6.";

const LINUX_REORDERING: &str = "ns-2's Linux agents find losses by FACK: a segment is lost when the highest SACK block is four above it, however many of \
     those between have arrived, and their window is back at the threshold after each recovery. Warpline counts the segments \
     that have arrived (RFC 6675), here with a threshold of four in place of three. Checked: with three, the differences at \
     2 to 20 ms were 16 to 49 %.";

const LINUX_CUBIC: &str = "ns-2's Linux:cubic retransmits tens of thousands of packets needlessly here (61,332 with 10 hops), which the note beside its \
     table says makes it no reference for CUBIC; its code is also the kernel's of before RFC 8312 and RFC 9438.";

const OVERLOAD: &str = "As far as was checked, a difference of samples, not of models: near the rate that the connection can carry (about 1 % of loss at 100 messages/s, \
     0.5 % at 150), latency is the backlog, whose mean is carried by a few bad stretches of a run, so that three seeds of \
     ns-2, or one at 150/s, vary less than their population. Checked with eight more seeds of ns-2 at 100/s: Reno at 1 % \
     gave 0.97 to 4.90 s (mean 1.83 s), Newreno 0.40 to 1.32 s, Sack1 0.44 to 1.46 s, Tahoe 3.7 to 19.2 s; Tahoe at 0.5 % \
     0.25 to 0.63 s; at 0.1 % a mean of 64.2 ms in place of 67.9.";

/// The reason for a difference of a case, as far as it is known.
pub(super) fn reason(case: &Case) -> Option<&'static str> {
    Some(match (case.family, case.agent) {
        (Family::Fig1, Agent::Sack1) => SACK_REORDERING,
        (Family::Fig1, Agent::Vegas) => VEGAS_REORDERING,
        (Family::Fig1, Agent::LinuxReno | Agent::LinuxCubic) => LINUX_REORDERING,
        (Family::Fig6, Agent::Vegas) => VEGAS_HOPS,
        (Family::Fig6, Agent::LinuxCubic) => LINUX_CUBIC,
        (Family::Fig7, _) => OVERLOAD,
        _ => return None,
    })
}
