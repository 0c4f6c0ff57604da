//! How much a queue holds, as people say it, and what a link makes of that.

use std::fmt;
use std::str::FromStr;

use warpline_core::parameter::{Given, Kind, Value};
use warpline_core::{Bytes, Rate, TimeDelta};

use super::Limit;

/// Bytes of a full-sized IP packet.
pub(super) const FULL_PACKET: u32 = 1500;

/// How much a queue holds, or where one of its thresholds lies.
///
/// Packets in transmission are not counted. What is relative ("BDP", time) is resolved when the queue is built, see
/// [`QueueLimit::resolve`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum QueueLimit {
    /// Packets of any size: "100p".
    Packets(u32),
    /// Bytes on the wire: "150kB".
    Bytes(u64),
    /// Multiples of the bandwidth-delay product: "1BDP", "2.5BDP".
    Bdp(f64),
    /// What the link's rate serves in this time: "50ms".
    Time(TimeDelta),
    /// Never full: "unlimited".
    Unlimited,
}

/// What a queue is sized by: the link in front of which it stands, and the flows that cross it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// The link's rate, the mean over the period for a schedule or a trace; 0 where it is not known.
    pub rate: Rate,
    /// The largest round-trip time without queueing of the flows that cross the link in this direction.
    pub base_rtt: TimeDelta,
    /// Bytes of a full-sized packet on this link.
    pub packet: u32,
}

impl Default for Sizing {
    /// A link of which nothing is known but that it carries full-sized packets.
    fn default() -> Self {
        Sizing { rate: Rate::default(), base_rtt: TimeDelta::ZERO, packet: FULL_PACKET }
    }
}

impl QueueLimit {
    /// The limit in packets or bytes.
    ///
    /// A BDP and a time become bytes, rounded up to whole full-sized packets and at least one: 1BDP of 10 Mbit/s and 50 ms with 1500-byte
    /// packets is 42 packets, 63000 bytes.
    pub fn resolve(self, sizing: &Sizing) -> Limit {
        let packet = u64::from(sizing.packet.max(1));
        let whole = |bytes: f64| {
            let packets = (bytes / packet as f64 - 1e-9).ceil().max(1.0);
            Limit::bytes((packets as u64).saturating_mul(packet))
        };
        let bytes_per_sec = sizing.rate.as_bps() as f64 / 8.0;
        match self {
            QueueLimit::Packets(n) => Limit::packets(n),
            QueueLimit::Bytes(n) => Limit::bytes(n),
            QueueLimit::Bdp(factor) => whole(factor * bytes_per_sec * sizing.base_rtt.as_secs_f64()),
            QueueLimit::Time(span) => whole(bytes_per_sec * span.as_secs_f64()),
            QueueLimit::Unlimited => Limit::NONE,
        }
    }
}

impl Default for QueueLimit {
    /// As a Linux interface has.
    fn default() -> Self {
        QueueLimit::Packets(1000)
    }
}

impl Value for QueueLimit {
    fn kind(&self) -> Kind {
        Kind::Limit
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Text(self.to_string()))
    }
    fn take(&mut self, given: &Given) -> bool {
        let Given::Text(text) = given else { return false };
        text.parse().map(|limit| *self = limit).is_ok()
    }
    /// In its own unit: it can be told from zero by it, and no more.
    fn size(&self) -> Option<f64> {
        Some(match self {
            QueueLimit::Packets(n) => f64::from(*n),
            QueueLimit::Bytes(n) => *n as f64,
            QueueLimit::Bdp(factor) => *factor,
            QueueLimit::Time(span) => span.as_nanos() as f64,
            QueueLimit::Unlimited => f64::MAX,
        })
    }
}

/// Why a text is no queue limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseLimitError {
    /// Its number does not go with "BDP".
    #[error("`{0}` is not a multiple of the BDP; write for example `1BDP` or `2.5BDP`")]
    Bdp(String),
    /// Its number does not go with "p".
    #[error("`{0}` is not a whole number of packets; write for example `100p`")]
    Packets(String),
    /// It is none of the forms.
    #[error(
        "`{0}` is not a queue limit; write packets (`100p`), bytes (`150kB`), a multiple of the bandwidth-delay product (`1BDP`), a time at \
         the link's rate (`50ms`) or `unlimited`"
    )]
    Form(String),
}

fn strip_unit<'a>(text: &'a str, units: &[&str]) -> Option<&'a str> {
    let text = text.trim();
    units.iter().find_map(|unit| {
        let at = text.len().checked_sub(unit.len())?;
        (text.is_char_boundary(at) && text[at..].eq_ignore_ascii_case(unit)).then(|| text[..at].trim_end())
    })
}

impl FromStr for QueueLimit {
    type Err = ParseLimitError;
    fn from_str(text: &str) -> Result<Self, ParseLimitError> {
        if text.trim().eq_ignore_ascii_case("unlimited") {
            return Ok(QueueLimit::Unlimited);
        }
        if let Some(number) = strip_unit(text, &["BDP"]) {
            let factor = number.parse().ok().filter(|factor| *factor > 0.0 && *factor <= 1e6);
            return factor.map(QueueLimit::Bdp).ok_or_else(|| ParseLimitError::Bdp(text.to_owned()));
        }
        if let Some(number) = strip_unit(text, &["packets", "packet", "pkts", "p"]) {
            let packets = number.replace('_', "").parse().map(QueueLimit::Packets);
            return packets.map_err(|_| ParseLimitError::Packets(text.to_owned()));
        }
        if let Ok(Bytes(bytes)) = text.parse() {
            return Ok(QueueLimit::Bytes(bytes));
        }
        text.parse().map(QueueLimit::Time).map_err(|_| ParseLimitError::Form(text.to_owned()))
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueLimit::Packets(n) => write!(f, "{n}p"),
            QueueLimit::Bytes(n) => Bytes(*n).fmt(f),
            QueueLimit::Bdp(x) => write!(f, "{x}BDP"),
            QueueLimit::Time(t) => t.fmt(f),
            QueueLimit::Unlimited => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_told_apart_by_their_unit() {
        for (text, limit) in [
            ("100p", QueueLimit::Packets(100)),
            ("100 packets", QueueLimit::Packets(100)),
            ("150kB", QueueLimit::Bytes(150_000)),
            ("1BDP", QueueLimit::Bdp(1.0)),
            ("2.5bdp", QueueLimit::Bdp(2.5)),
            ("50ms", QueueLimit::Time(TimeDelta::from_millis(50))),
            ("unlimited", QueueLimit::Unlimited),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
        }
        for bad in ["", "p", "1.5p", "-1p", "xBDP", "0BDP", "10", "100 parsec", "ÄBDP"] {
            assert!(bad.parse::<QueueLimit>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bdp_is_whole_packets() {
        let base_rtt = TimeDelta::from_millis(50);
        let sizing = Sizing { rate: Rate::from_bps(10_000_000), base_rtt, ..Sizing::default() };
        assert_eq!(QueueLimit::Bdp(1.0).resolve(&sizing), Limit::bytes(63_000));
        assert_eq!(QueueLimit::Bdp(0.001).resolve(&sizing), Limit::bytes(1500));
        // 12 ms at 10 Mbit/s are ten packets exactly: no eleventh from rounding.
        assert_eq!(QueueLimit::Time(TimeDelta::from_millis(12)).resolve(&sizing), Limit::bytes(15_000));
    }

    proptest! {
        #[test]
        fn printed_limits_are_read_back(n in 0u64..1_000_000_000_000, x in 0.001f64..1000.0) {
            for limit in [QueueLimit::Packets(n as u32), QueueLimit::Bytes(n), QueueLimit::Bdp(x)] {
                prop_assert_eq!(limit.to_string().parse(), Ok(limit));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<QueueLimit>();
        }
    }
}
