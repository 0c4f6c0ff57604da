//! Rates and sizes, and their text form: "10Mbit/s", "50ms", "1.5 MB".

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::shown::display;
use crate::time::TimeDelta;

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Rate {
    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// The bytes that fit into `span` at this rate, rounded down.
    pub fn bytes_in(self, span: TimeDelta) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.as_nanos()) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
    /// The time that `bytes` take at this rate, rounded up to a nanosecond; the longest span at rate zero.
    pub fn time_for(self, bytes: u64) -> TimeDelta {
        if self.0 == 0 {
            return TimeDelta::MAX;
        }
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        u64::try_from(nanos).map_or(TimeDelta::MAX, TimeDelta::from_nanos)
    }
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseQuantityError {
    /// It does not start with a number.
    #[error("`{text}` does not start with a number; write for example `{example}`")]
    NoNumber {
        /// The text.
        text: String,
        /// A correct one.
        example: &'static str,
    },
    /// The unit is missing.
    #[error("`{text}` has no unit; write for example `{example}` (units: {units})")]
    NoUnit {
        /// The text.
        text: String,
        /// A correct one.
        example: &'static str,
        /// All units.
        units: &'static str,
    },
    /// The unit is not known.
    #[error("`{unit}` in `{text}` is not a unit of {what} (units: {units})")]
    UnknownUnit {
        /// The text.
        text: String,
        /// The unit in it.
        unit: String,
        /// Time, rate or size.
        what: &'static str,
        /// All units.
        units: &'static str,
    },
    /// The unit's case does not tell bits from bytes: "MBPS".
    #[error("`{unit}` in `{text}` may be bits or bytes; write `{bits}` for bits, `{bytes}` for bytes")]
    BitsOrBytes {
        /// The text.
        text: String,
        /// The unit in it.
        unit: String,
        /// The unit, in bits.
        bits: String,
        /// The unit, in bytes.
        bytes: String,
    },
    /// Negative, not finite, or too large.
    #[error("`{text}` is out of range: {what} lies between 0 and {max}")]
    OutOfRange {
        /// The text.
        text: String,
        /// Time, rate or size.
        what: &'static str,
        /// The largest.
        max: &'static str,
    },
}

/// A kind of quantity: its name and its units, in multiples of the base unit.
struct Kind {
    what: &'static str,
    example: &'static str,
    units: &'static str,
    table: &'static [(&'static str, u64)],
    max: &'static str,
}

const TIME: Kind = Kind {
    what: "time",
    example: "50ms",
    units: "ns, us, ms, s, min, h",
    table: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("sec", 1_000_000_000),
        ("min", 60_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    max: "100 years",
};

const RATE: Kind = Kind {
    what: "rate",
    example: "10Mbit/s",
    units: "bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, or with B/s for bytes; bps and mbit are understood",
    table: &[
        ("bit/s", 1),
        ("bps", 1),
        ("bit", 1),
        ("b/s", 1),
        ("kbit/s", 1_000),
        ("kbps", 1_000),
        ("kbit", 1_000),
        ("kb/s", 1_000),
        ("mbit/s", 1_000_000),
        ("mbps", 1_000_000),
        ("mbit", 1_000_000),
        ("mb/s", 1_000_000),
        ("gbit/s", 1_000_000_000),
        ("gbps", 1_000_000_000),
        ("gbit", 1_000_000_000),
        ("gb/s", 1_000_000_000),
        ("tbit/s", 1_000_000_000_000),
        ("tbps", 1_000_000_000_000),
        ("tbit", 1_000_000_000_000),
        ("tb/s", 1_000_000_000_000),
    ],
    max: "1000 Tbit/s",
};

const SIZE: Kind = Kind {
    what: "size",
    example: "100kB",
    units: "B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB (powers of 1024)",
    table: &[
        ("b", 1),
        ("byte", 1),
        ("bytes", 1),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
    ],
    max: "1000 TB",
};

/// Splits "10 Mbit/s" into its number and its unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|&(i, c)| {
            // An exponent belongs to the number only when a digit follows: "1e3B", but not "1exabyte".
            let exponent = (c == 'e' || c == 'E')
                && text[i + 1..].trim_start_matches(['+', '-']).starts_with(|d: char| d.is_ascii_digit());
            let sign = (c == '+' || c == '-') && (i == 0 || text[..i].ends_with(['e', 'E']));
            !(c.is_ascii_digit() || c == '.' || c == '_' || exponent || sign)
        })
        .map_or(text.len(), |(i, _)| i);
    (&text[..end], text[end..].trim())
}

fn parse(text: &str, kind: &Kind, limit: u64) -> Result<u64, ParseQuantityError> {
    let (number, unit) = split(text);
    let plain = number.replace('_', "");
    let value: f64 = plain
        .parse()
        .map_err(|_| ParseQuantityError::NoNumber { text: text.to_owned(), example: kind.example })?;
    if unit.is_empty() {
        // Zero is zero in any unit.
        return if value == 0.0 {
            Ok(0)
        } else {
            Err(ParseQuantityError::NoUnit {
                text: text.to_owned(),
                example: kind.example,
                units: kind.units,
            })
        };
    }
    // In a rate a capital B stands for bytes: "MB/s" is eight times "Mb/s".
    let prefix = unit.strip_suffix("B/s").or_else(|| unit.strip_suffix("Bps"));
    let (bits, times) =
        prefix.map_or_else(|| (unit.to_lowercase(), 1), |prefix| (prefix.to_lowercase() + "bit/s", 8));
    let known = kind.table.iter().find(|(name, _)| *name == bits);
    let factor = known.map(|&(_, factor)| factor * times).ok_or_else(|| ParseQuantityError::UnknownUnit {
        text: text.to_owned(),
        unit: unit.to_owned(),
        what: kind.what,
        units: kind.units,
    })?;
    // Where the letters after it are capitals, too, the B does not tell.
    if let Some(prefix) = bits.strip_suffix("bps").or_else(|| bits.strip_suffix("b/s"))
        && unit.contains('B')
    {
        let prefix = if prefix == "k" { prefix.to_owned() } else { prefix.to_uppercase() };
        let (bits, bytes) = (format!("{prefix}bit/s"), format!("{prefix}B/s"));
        return Err(ParseQuantityError::BitsOrBytes {
            text: text.to_owned(),
            unit: unit.to_owned(),
            bits,
            bytes,
        });
    }
    let out_of_range =
        || ParseQuantityError::OutOfRange { text: text.to_owned(), what: kind.what, max: kind.max };
    let scaled = match exactly(&plain, factor) {
        Some(scaled) => scaled,
        None if value.is_finite() && value >= 0.0 && value * (factor as f64) <= limit as f64 => {
            (value * factor as f64).round() as u64
        }
        None => return Err(out_of_range()),
    };
    if scaled > limit { Err(out_of_range()) } else { Ok(scaled) }
}

/// A number such as "12" or "1.5" times `factor`, to the nearest whole number and exact above 2^53; `None` if it has another form or too many
/// digits.
fn exactly(number: &str, factor: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{decimals}").parse().ok()?;
    let parts = 10u128.checked_pow(decimals.len() as u32)?;
    let scaled = digits.checked_mul(factor.into())?.checked_add(parts / 2)? / parts;
    u64::try_from(scaled).ok()
}

/// The longest span that is read, in nanoseconds: 100 years.
const LONGEST: u64 = 3_155_760_000_000_000_000;

impl FromStr for TimeDelta {
    type Err = ParseQuantityError;
    /// Reads "50ms", "1.5 s", "2min".
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &TIME, LONGEST).map(TimeDelta::from_nanos)
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;
    /// Reads "10Mbit/s", "1.5Gbps", "12mbit", "2MB/s" (capital B: bytes).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &RATE, 1_000_000_000_000_000).map(Rate)
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;
    /// Reads "1500B", "100kB", "2MiB".
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &SIZE, 1_000_000_000_000_000).map(Bytes)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
        display(f, self.0, &UNITS, "bit/s")
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl Bytes {
    /// As people say it, with the unit that makes it shortest.
    ///
    /// ```
    /// # use warpline_core::Bytes;
    /// assert_eq!([32 << 20, 64_000, 1460].map(|n| Bytes(n).plain()), ["32MiB", "64kB", "1460B"]);
    /// ```
    pub fn plain(self) -> String {
        let units = [(1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")];
        let whole = units.into_iter().filter(|(unit, _)| self.0.is_multiple_of(*unit));
        let texts = whole.map(|(unit, name)| format!("{}{name}", self.0 / unit));
        std::iter::once(self.to_string()).chain(texts).min_by_key(String::len).unwrap_or_default()
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
        display(f, self.0, &UNITS, "B")
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_alternate_form_has_a_space_before_the_unit_and_reads_back() {
        let span = TimeDelta::from_millis(200);
        assert_eq!(
            format!("{span:#} {:#} {:#}", TimeDelta::ZERO, TimeDelta::from_nanos(5)),
            "200 ms 0 s 5 ns"
        );
        assert_eq!(format!("{:#} {:#}", Rate::from_bps(1_500_000), Bytes(64_000)), "1.5 Mbit/s 64 kB");
        assert_eq!(format!("{:#}", Rate::from_bps(1_234_567)), "1234.567 kbit/s");
        assert_eq!("1.5 Mbit/s".parse(), Ok(Rate::from_bps(1_500_000)));
        assert_eq!(format!("{span:#?} {:#?}", Bytes(1)), "200ms 1B", "what programmers see stays as it is");
    }

    #[test]
    fn what_people_write_is_understood() {
        for (text, bps) in [
            ("10Mbit/s", 10_000_000),
            ("10 mbit", 10_000_000),
            ("1.5Gbps", 1_500_000_000),
            ("2MB/s", 16_000_000),
            ("2MBps", 16_000_000),
            ("2Mbps", 2_000_000),
            ("1TB/s", 8_000_000_000_000),
            ("1Tb/s", 1_000_000_000_000),
            ("2mBps", 16_000_000),
            ("2MBIT/S", 2_000_000),
            ("2MbPS", 2_000_000),
            ("8B/s", 64),
            ("2Mb/s", 2_000_000),
            ("0", 0),
            ("1e3 bit/s", 1_000),
            ("1_000kbit/s", 1_000_000),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap().as_bps(), bps, "{text}");
        }
        for (text, nanos) in [
            ("50ms", 50_000_000),
            ("1.5 s", 1_500_000_000),
            ("2min", 120_000_000_000),
            ("10us", 10_000),
            ("9007199254740.993us", 9_007_199_254_740_993),
            ("9_007_199.254740993s", 9_007_199_254_740_993),
            ("+.5us", 500),
            ("1.e1ns", 10),
            ("0.1234567891234567891234567891234567891234567s", 123_456_789),
        ] {
            assert_eq!(text.parse::<TimeDelta>().unwrap().as_nanos(), nanos, "{text}");
        }
        for (text, bytes) in [("1500B", 1500), ("100kB", 100_000), ("2MiB", 2 << 20)] {
            assert_eq!(text.parse::<Bytes>().unwrap().0, bytes, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert!(error("fast").contains("does not start with a number"));
        assert!(error("10").contains("has no unit"));
        assert!(error("10 parsec").contains("`parsec` in `10 parsec` is not a unit of rate"));
        assert!(error("-1Mbit/s").contains("out of range"));
        for text in ["1e30Gbit/s", "99999999999999999999bit/s", "1000.1Tbit/s", "-0.5bit/s"] {
            assert!(error(text).contains("out of range"), "{text}");
        }
        assert!("inf s".parse::<TimeDelta>().is_err());
    }

    #[test]
    fn a_rate_in_capitals_is_not_taken_for_bits_or_bytes() {
        for (unit, bits, bytes) in [
            ("MBPS", "Mbit/s", "MB/s"),
            ("KB/S", "kbit/s", "kB/s"),
            ("GBPs", "Gbit/s", "GB/s"),
            ("BPS", "bit/s", "B/s"),
        ] {
            let error = format!("10 {unit}").parse::<Rate>().unwrap_err().to_string();
            let right = format!("may be bits or bytes; write `{bits}` for bits, `{bytes}` for bytes");
            assert_eq!(error, format!("`{unit}` in `10 {unit}` {right}"));
        }
        assert!("1XBPS".parse::<Rate>().unwrap_err().to_string().contains("is not a unit of rate"));
    }

    #[test]
    fn a_bandwidth_delay_product_is_exact() {
        let rate: Rate = "400Gbit/s".parse().unwrap();
        assert_eq!(rate.bytes_in(TimeDelta::from_secs(3600)), Bytes(180_000_000_000_000));
        assert_eq!(rate.time_for(1500).as_nanos(), 30);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(n in 0u64..1_000_000_000_000_000, nanos in 0..=LONGEST) {
            prop_assert_eq!(Rate::from_bps(n).to_string().parse::<Rate>().unwrap().as_bps(), n);
            prop_assert_eq!(Bytes(n).to_string().parse::<Bytes>().unwrap(), Bytes(n));
            for nanos in [n, nanos, nanos / 1_000 * 1_000, nanos / 1_000_000 * 1_000_000] {
                let text = TimeDelta::from_nanos(nanos).to_string();
                prop_assert_eq!(text.parse::<TimeDelta>().unwrap().as_nanos(), nanos);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = (text.parse::<Rate>(), text.parse::<TimeDelta>(), text.parse::<Bytes>());
        }
    }
}
