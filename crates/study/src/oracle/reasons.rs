//! The reasons for differences between Warpline and ns-2. Each rests on an experiment ("checked") or on ns-2.35's source.

use super::cases::{Agent, Case, Metric, Setting};

/// Why a case was not run in Warpline.
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
     alpha and beta say. Warpline compares exactly. At windows of a few segments that is a large part of the rate. Checked: \
     with alpha and beta half a segment higher, two seeds of 2 and 4 hops come within 8 % of ns-2's mean of five, and with \
     one segment more, those of 8 hops within 3 %.";

const LINUX_REORDERING: &str = "ns-2's Linux agents find losses by FACK: a segment is lost when the highest SACK block is four above it, however many of \
     those between have arrived, and their window is back at the threshold after each recovery. Warpline counts the segments \
     that have arrived (RFC 6675), here with a threshold of four in place of three. Checked: with three, the differences at \
     2 to 20 ms were 16 to 49 %.";

const LINUX_CUBIC: &str = "ns-2's Linux:cubic retransmits tens of thousands of packets needlessly here (61,332 with 10 hops), which the note beside its \
     table says makes it no reference for CUBIC; its code is also the kernel's of before RFC 8312 and RFC 9438.";

const SATURATION: &str = "Latency near the rate that the connection can carry magnifies small differences of that rate. At 2 % of loss, with more \
     than it can carry, eight seeds of each delivered 2 % (Tahoe), 4 % (Reno), 5 % (Sack1) and 7 % (Newreno) fewer messages in \
     Warpline than in ns-2; the others wait, which makes the mean latency 11 to 24 % larger (Tahoe's as large). At 1 % the \
     same few percent bring the connection from below the offered rate to about it. Why it carries that much less is not \
     known. Checked by counting what was delivered.";

/// The reason for a difference of `percent` from ns-2's result, if it is known.
pub(super) fn reason(case: &Case, metric: Metric, percent: f64) -> Option<&'static str> {
    let below = percent < 0.0;
    Some(match (case.agent, case.setting) {
        (Agent::Sack1, Setting::Fig1 { .. }) if below => SACK_REORDERING,
        (Agent::Vegas, Setting::Fig1 { .. }) if below => VEGAS_REORDERING,
        (Agent::LinuxReno, Setting::Fig1 { .. }) if below => LINUX_REORDERING,
        (Agent::Vegas, Setting::Fig6 { .. }) if below && metric == Metric::Goodput => VEGAS_HOPS,
        (Agent::LinuxCubic, Setting::Fig6 { .. }) => LINUX_CUBIC,
        (_, Setting::Fig7 { loss, rate, .. }) if !below && loss >= 0.01 && rate == 100.0 => SATURATION,
        _ => return None,
    })
}
