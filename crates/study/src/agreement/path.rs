//! The paths of the comparison: rate and round-trip time of a bottleneck.

/// Size of a full packet in bits.
const PACKET: f64 = 12_000.0;
/// A drop-tail queue holds at least so many packets.
const SHORTEST_QUEUE: f64 = 20.0;

/// The rates in Mbit/s and the round-trip times in milliseconds, each with its word in names.
pub(super) const RATES: [(u32, &str); 3] = [(2, "2Mbit/s"), (10, "10Mbit/s"), (50, "50Mbit/s")];
pub(super) const RTTS: [(u32, &str); 3] = [(10, "10ms"), (50, "50ms"), (200, "200ms")];

/// Rate of a bottleneck, and round-trip time over it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) rate_mbps: u32,
    pub(super) rtt_ms: u32,
    /// The words for these.
    pub(super) words: [&'static str; 2],
}

/// Every path.
pub(super) fn paths() -> impl Iterator<Item = Path> {
    RATES.into_iter().flat_map(|(rate_mbps, of_rate)| {
        RTTS.into_iter().map(move |(rtt_ms, of_rtt)| Path { rate_mbps, rtt_ms, words: [of_rate, of_rtt] })
    })
}

impl Path {
    /// Packets per second at the bottleneck's rate.
    pub(super) fn packets_per_s(&self) -> f64 {
        f64::from(self.rate_mbps) * 1e6 / PACKET
    }

    pub(super) fn rtt_s(&self) -> f64 {
        f64::from(self.rtt_ms) / 1e3
    }

    /// Bandwidth-delay product in packets.
    pub(super) fn bdp(&self) -> f64 {
        self.packets_per_s() * self.rtt_s()
    }

    /// Limit of a drop-tail queue in packets.
    pub(super) fn limit(&self) -> f64 {
        self.bdp().ceil().max(SHORTEST_QUEUE)
    }
}
