//! Options of a TReno test.

use thiserror::Error;
use warpline_core::TimeDelta;

/// Bytes of IPv4 and TCP headers that a probe of the same size would have as a segment: they are not data.
pub(super) const HEADERS: u32 = 40;
/// Smallest and largest probe on the wire.
pub(super) const SIZES: std::ops::RangeInclusive<u32> = 48..=65_507;

/// Options of a TReno test.
#[derive(Clone, Debug, PartialEq)]
pub struct TrenoOptions {
    /// How long to send probes.
    pub duration: TimeDelta,
    /// Bytes of a probe on the wire from the IP header on; the path may make it smaller.
    pub mtu: u32,
    /// Upper limit of the window in bytes.
    pub max_window: u64,
    /// Initial window in segments.
    pub initial_window: u32,
    /// A probe counts as lost when one sent this many later has been answered.
    pub dupacks: u32,
    /// How long an answer waits for a second one to be taken with it; `None` takes each by itself.
    pub delayed_ack: Option<TimeDelta>,
    /// First time-out.
    pub initial_rto: TimeDelta,
    /// Smallest time-out.
    pub min_rto: TimeDelta,
    /// Largest time-out.
    pub max_rto: TimeDelta,
    /// How long the path may be silent before the test is given up.
    pub patience: TimeDelta,
    /// Ignores congestion and sends probes as fast as answers arrive, with a window of this many segments, to test the host and the
    /// first hop; `None` for a normal test.
    pub flat_window: Option<u32>,
}

impl Default for TrenoOptions {
    fn default() -> Self {
        TrenoOptions {
            duration: TimeDelta::from_secs(10),
            mtu: 1500,
            max_window: 16 << 20,
            initial_window: 2,
            dupacks: 3,
            delayed_ack: None,
            initial_rto: TimeDelta::from_secs(3),
            min_rto: TimeDelta::from_secs(1),
            max_rto: TimeDelta::from_secs(64),
            patience: TimeDelta::from_secs(30),
            flat_window: None,
        }
    }
}

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option} = {value}: must be {allowed}")]
#[non_exhaustive]
pub struct TrenoError {
    /// Which option.
    pub option: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
}

impl TrenoOptions {
    /// Checks every option.
    ///
    /// # Errors
    /// The first invalid one.
    pub fn validate(&self) -> Result<(), TrenoError> {
        let check = |ok: bool, option, value: String, allowed| {
            if ok { Ok(()) } else { Err(TrenoError { option, value, allowed }) }
        };
        let hour = TimeDelta::from_secs(3600);
        let millis = TimeDelta::from_millis(1);
        let span = |span: TimeDelta, most: TimeDelta| millis <= span && span <= most;
        let duration = TimeDelta::from_millis(100) <= self.duration && self.duration <= hour * 24;
        check(duration, "duration", self.duration.to_string(), "100ms to 24h")?;
        check(SIZES.contains(&self.mtu), "mtu", self.mtu.to_string(), "48 to 65507 bytes")?;
        let window = self.max_window >= u64::from(self.mtu);
        check(window, "max_window", self.max_window.to_string(), "at least a probe (mtu)")?;
        check(
            (1..=1000).contains(&self.initial_window),
            "initial_window",
            self.initial_window.to_string(),
            "1 to 1000 segments",
        )?;
        check((1..=1000).contains(&self.dupacks), "dupacks", self.dupacks.to_string(), "1 to 1000")?;
        check(span(self.min_rto, hour), "min_rto", self.min_rto.to_string(), "1ms to 1h")?;
        check(
            span(self.max_rto, hour) && self.min_rto <= self.max_rto && self.initial_rto <= self.max_rto,
            "max_rto",
            self.max_rto.to_string(),
            "1ms to 1h, and at least min_rto and initial_rto",
        )?;
        check(span(self.initial_rto, hour), "initial_rto", self.initial_rto.to_string(), "1ms to 1h")
    }
}
