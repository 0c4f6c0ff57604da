//! Quantities as scenarios write them: times, rates, sizes, windows, start times; and the schema of queue limits.
//!
//! Each is a type that reads and writes text such as "10Mbit/s" and has a JSON Schema. A printed value is read back as the
//! same value.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use warpline_core::{Bytes, Dscp, Rate, TimeDelta, Timestamp};
use warpline_net::qdisc::QueueLimit;
use warpline_transport::tcp;

/// A span of time, written "50ms", "1.5s", "2min"; units ns, us, ms, s, min, h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub TimeDelta);

/// A rate, written "10Mbit/s", "1.5Gbit/s", or with a capital B for bytes, "2MB/s".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BitRate(pub Rate);

/// A number of bytes, written "1500B", "100kB" (1000 bytes), "2MiB" (1024 kibibytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(pub Bytes);

/// A TCP window, in full segments ("10p", or the plain number 10) or in bytes ("64kB").
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Window(pub tcp::Window);

/// A differentiated services code point, by name ("EF") or by number (46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CodePoint(pub Dscp);

/// When something starts: a time ("5s") or a range from which each instance draws its own, uniformly ("0s..1s").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StartTime {
    /// The earliest start.
    pub earliest: TimeDelta,
    /// The latest start; equal to the earliest if there is no range.
    pub latest: TimeDelta,
}

/// How much slower than real time the hosts' clocks run: a number, or "auto".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tdf {
    /// This factor.
    Factor(f64),
    /// As slow as the machine needs.
    Auto,
}

impl StartTime {
    /// The start of an instance that drew `unit` from [0, 1).
    pub fn pick(self, unit: f64) -> Timestamp {
        Timestamp::ZERO + self.earliest + self.latest.saturating_sub(self.earliest).mul_f64(unit)
    }
}

/// A quantity of another crate is read and written as it is there.
macro_rules! wrapper {
    ($($type:ident($inner:ty)),+) => { $(
        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                text.parse::<$inner>().map($type).map_err(|error| error.to_string())
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+ };
}

wrapper!(Time(TimeDelta), BitRate(Rate), Size(Bytes), Window(tcp::Window), CodePoint(Dscp));

impl FromStr for StartTime {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (earliest, latest) = match text.split_once("..") {
            // Three dots would be read as "0s" and ".1s".
            Some((_, b)) if b.starts_with('.') => {
                return Err(format!("`{text}` has too many dots; write for example `0s..1s`"));
            }
            Some((a, b)) => (a.parse::<Time>()?.0, b.parse::<Time>()?.0),
            None => {
                let at = text.parse::<Time>()?.0;
                (at, at)
            }
        };
        if latest < earliest {
            return Err(format!(
                "`{text}` ends before it begins; write the earlier time first, `{latest}..{earliest}`"
            ));
        }
        Ok(StartTime { earliest, latest })
    }
}
impl FromStr for Tdf {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            Ok(Tdf::Auto)
        } else {
            Err(format!("`{text}` is not a dilation factor; write a number such as 10, or \"auto\""))
        }
    }
}

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.earliest == self.latest {
            self.earliest.fmt(f)
        } else {
            write!(f, "{}..{}", self.earliest, self.latest)
        }
    }
}

/// Reads a quantity: text with `FromStr`, and a plain number with `number` where it has a meaning.
struct QuantityVisitor<T> {
    expecting: &'static str,
    number: fn(f64) -> Option<T>,
}

impl<T: FromStr<Err = String>> de::Visitor<'_> for QuantityVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        (self.number)(number).ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        (self.number)(number as f64).ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.number)(number as f64).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }
}

const NUMBER: &str = r"[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?";

/// The schema of a quantity; `format` names the parser that the checker calls.
fn text_schema(format: &str, units: &str, description: &str, examples: &[&str]) -> Schema {
    json_schema!({
        "type": "string",
        "format": format,
        "pattern": format!(r"^\s*({units})\s*$"),
        "description": description,
        "examples": examples,
    })
}

macro_rules! textual {
    ($type:ident, $format:literal, $expecting:literal, $number:expr, $schema:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(QuantityVisitor { expecting: $expecting, number: $number })
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn schema_id() -> Cow<'static, str> {
                concat!("warpline::", stringify!($type)).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

const TIME_UNIT: &str = "ns|us|µs|ms|s|sec|min|m|h";
const RATE_UNIT: &str = "[kKmMgG]?B/s|[kKmMgGtT]?([bB]it(/s)?|bps|b/s)";
const SIZE_UNIT: &str = "[kKmMgGtT]?i?[bB]|bytes?";

/// The pattern for queue limits.
pub(super) fn limit_pattern() -> String {
    format!(
        "0|[0-9_]+\\s*([pP]|[pP]ackets?|pkts)|{NUMBER}\\s*([bB][dD][pP]|{SIZE_UNIT}|{TIME_UNIT})|unlimited"
    )
}

textual!(
    Time,
    "time",
    "a time such as \"50ms\"",
    |_| None,
    text_schema(
        "time",
        &format!("0|{NUMBER}\\s*({TIME_UNIT})"),
        "A span of time with its unit: ns, us, ms, s, min, h.",
        &["50ms", "1.5s", "2min"]
    )
);
textual!(
    BitRate,
    "rate",
    "a rate such as \"10Mbit/s\"",
    |_| None,
    text_schema(
        "rate",
        &format!("0|{NUMBER}\\s*({RATE_UNIT})"),
        "A rate with its unit: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s (powers of 1000), or B/s, kB/s, MB/s, GB/s for bytes.",
        &["10Mbit/s", "1.5Gbit/s", "2MB/s"]
    )
);
textual!(
    Size,
    "size",
    "a size such as \"100kB\"",
    |_| None,
    text_schema(
        "size",
        &format!("0|{NUMBER}\\s*({SIZE_UNIT})"),
        "A number of bytes with its unit: B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024).",
        &["1500B", "100kB", "2MiB"]
    )
);
textual!(
    CodePoint,
    "code-point",
    "a code point such as \"EF\" or 46",
    |number| (number.fract() == 0.0 && (0.0..64.0).contains(&number))
        .then(|| Dscp::new(number as u8).map(CodePoint))
        .flatten(),
    {
        let names = "[cC][sS][0-7]|[aA][fF][1-4][1-3]|[eE][fF]|[vV][aA]|[lL][eE]|[dD][fF]|[1-5]?[0-9]|6[0-3]";
        let text = text_schema("code-point", names, "A name, or the number as text.", &["EF", "AF41"]);
        json_schema!({
            "description": "A differentiated services code point: its name (CS0 to CS7, AF11 to AF43, EF, VA, LE), or its number from 0 to 63.",
            "examples": ["EF", "AF41", 46],
            "anyOf": [text, {"type": "integer", "minimum": 0, "maximum": 63, "description": "The number."}],
        })
    }
);
textual!(
    StartTime,
    "start",
    "a start such as \"5s\" or \"0s..1s\"",
    |_| None,
    text_schema(
        "start",
        &format!("(0|{NUMBER}\\s*({TIME_UNIT}))(\\s*\\.\\.\\s*(0|{NUMBER}\\s*({TIME_UNIT})))?"),
        "A time from the run's start, or a range from which each instance draws its own start, uniformly.",
        &["0s", "5s", "0s..1s"]
    )
);

textual!(
    Window,
    "window",
    "a window such as \"10p\" (segments) or \"64kB\"",
    |n| tcp::Window::segments(n).map(Window),
    {
        let text = text_schema(
            "window",
            &format!("0|{NUMBER}\\s*([pP]|[pP]ackets?|[sS]egments?|{SIZE_UNIT})"),
            "Full segments (10p) or bytes of payload (64kB).",
            &["10p", "64kB"],
        );
        json_schema!({
            "description": "A TCP window: full segments (10p, or the plain number 10) or bytes of payload (64kB).",
            "examples": ["10p", 10, "64kB"],
            "anyOf": [text, {"type": "number", "minimum": 0, "description": "Full segments."}],
        })
    }
);

/// A queue limit, in the schema.
pub(super) struct LimitText;

impl JsonSchema for LimitText {
    fn schema_name() -> Cow<'static, str> {
        "QueueLimit".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        text_schema(
            "queue-limit",
            &limit_pattern(),
            "How much may wait, not counting the packet in transmission: packets (100p), bytes on the wire (150kB; a packet that is larger \
             never passes, since each goes through the queue, as with Linux's bfifo), multiples of \
             the bandwidth-delay product (1BDP), a time at the link's rate (50ms), or unlimited. A BDP is the link's rate \
             (the mean of a schedule or trace) times the largest base RTT of the flows that cross it in this direction; BDP \
             and time are rounded up to whole full-sized packets, at least one.",
            &["100p", "150kB", "1BDP", "2.5BDP", "50ms", "unlimited"],
        )
    }
}

impl Serialize for Tdf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Tdf::Factor(factor) => serializer.serialize_f64(*factor),
            Tdf::Auto => serializer.serialize_str("auto"),
        }
    }
}
impl<'de> Deserialize<'de> for Tdf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor {
            expecting: "a dilation factor above zero or \"auto\"",
            number: |n| (n.is_finite() && n > 0.0).then_some(Tdf::Factor(n)),
        })
    }
}
impl JsonSchema for Tdf {
    fn schema_name() -> Cow<'static, str> {
        "Tdf".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Time dilation factor: a number above zero, or \"auto\" for as slow as the machine needs.",
            "examples": [10, "auto"],
            "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "auto", "type": "string"}],
        })
    }
}

/// Checks `text` against the schema format `format`; unknown formats accept any text.
pub(super) fn check_format(format: &str, text: &str) -> Result<(), String> {
    match format {
        "time" => text.parse::<Time>().map(drop),
        "rate" => text.parse::<BitRate>().map(drop),
        "size" => text.parse::<Size>().map(drop),
        "queue-limit" => text.parse::<QueueLimit>().map(drop).map_err(|error| error.to_string()),
        "start" => text.parse::<StartTime>().map(drop),
        "window" => text.parse::<Window>().map(drop),
        "code-point" => text.parse::<CodePoint>().map(drop),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().map(drop).map_err(|error| error.to_string()),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().map(drop).map_err(|error| error.to_string()),
        "ip" => text.parse::<std::net::IpAddr>().map(drop).map_err(|error| error.to_string()),
        "ip-network" => text.parse::<crate::address::Network>().map(drop),
        _ => super::short::read(format, text).map_or(Ok(()), |read| read.map(drop)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_error_for_a_reversed_start_range_shows_it_in_order() {
        let error = "3s..1s".parse::<StartTime>().unwrap_err();
        assert!(error.contains("`1s..3s`"), "{error}");
        let start: StartTime = "1s..3s".parse().unwrap();
        assert_eq!(start.pick(0.5), Timestamp::from_secs(2));
    }

    proptest! {
        #[test]
        fn a_printed_start_is_read_back(n in 0u64..1_000_000_000_000) {
            let start = StartTime { earliest: TimeDelta::from_nanos(n), latest: TimeDelta::from_nanos(n + 17) };
            prop_assert_eq!(start.to_string().parse::<StartTime>().unwrap(), start);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            for format in ["time", "rate", "size", "queue-limit", "start", "window", "code-point", "ip-network", "none"] {
                let _ = check_format(format, &text);
            }
        }
    }
}
