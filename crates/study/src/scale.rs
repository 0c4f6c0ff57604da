//! What differences of small values are measured by, so that a per cent of nearly nothing is not a large difference.

/// A queue that is shorter than this part of the round-trip time counts as one of that length: 5 % of it are 1 % of the round trip.
pub(crate) const LEAST_QUEUE: f64 = 0.2;
/// A retransmitted share below this counts as this: 5 % of it are one packet in two thousand.
pub(crate) const LEAST_RETRANSMITTED: f64 = 0.01;
