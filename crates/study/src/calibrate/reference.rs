//! Figures to compare with: those of the simulator that first carried live traffic in this way (called the seed), and of current emulators.
//!
//! The seed ran on an 850 MHz PC with FreeBSD and a 1 kHz clock. Its tables of bandwidth and loss have other settings than
//! are measured here; `repro/emulation-accuracy` repeats all three.

/// A row of the seed's table of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeedDelay {
    /// One-way delay, in milliseconds.
    pub delay_ms: f64,
    /// Bytes of a packet on the wire.
    pub bytes: u32,
    /// Measured round trip, in milliseconds.
    pub rtt_ms: f64,
    /// Its standard deviation, in milliseconds.
    pub stddev_ms: f64,
    /// Error after subtracting the round trip without a delay, in percent; none for that row itself.
    pub adjusted_percent: Option<f64>,
}

const fn row(
    delay_ms: f64,
    bytes: u32,
    rtt_ms: f64,
    stddev_ms: f64,
    adjusted_percent: Option<f64>,
) -> SeedDelay {
    SeedDelay { delay_ms, bytes, rtt_ms, stddev_ms, adjusted_percent }
}

/// The seed's table of delays.
pub const SEED_DELAYS: [SeedDelay; 10] = [
    row(0.0, 64, 0.238, 0.004, None),
    row(0.0, 1518, 1.544, 0.025, None),
    row(5.0, 64, 10.251, 0.295, Some(0.13)),
    row(5.0, 1518, 11.586, 0.067, Some(0.32)),
    row(10.0, 64, 20.255, 0.014, Some(0.09)),
    row(10.0, 1518, 21.675, 0.093, Some(0.61)),
    row(50.0, 64, 100.474, 0.029, Some(0.24)),
    row(50.0, 1518, 102.394, 3.440, Some(0.84)),
    row(300.0, 64, 601.690, 0.546, Some(0.24)),
    row(300.0, 1518, 602.999, 0.093, Some(0.24)),
];

/// Round trips of packets per second that the seed carried.
pub const SEED_ROUND_TRIPS: f64 = 4000.0;
/// Simulated links beside which the seed's live stream held its throughput, with CBR and with TCP.
pub const SEED_LINKS: [u32; 2] = [150, 80];

/// The seed's row for a delay and a packet size.
pub fn seed_delay(delay_ms: f64, bytes: u32) -> Option<&'static SeedDelay> {
    SEED_DELAYS.iter().find(|row| row.delay_ms == delay_ms && row.bytes == bytes)
}
