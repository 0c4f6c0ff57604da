//! The differentiated services code point of an IP packet (RFC 2474), by number and by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A differentiated services code point: six bits of the IP header by which queues tell classes of traffic apart (RFC 2474). As text it is its
/// name, such as "EF", or its number.
///
/// ```
/// use warpline_core::Dscp;
///
/// let voice: Dscp = "EF".parse()?;
/// assert_eq!((voice.value(), voice.to_string().as_str()), (46, "EF"));
/// assert_eq!("46".parse(), Ok(voice));
/// # Ok::<(), warpline_core::ParseDscpError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Dscp(u8);

/// Names of code points: default and class selectors (RFC 2474), lower effort (RFC 8622), assured forwarding (RFC 2597), VOICE-ADMIT
/// (RFC 5865), expedited forwarding (RFC 3246). "DF" and "CS0" are the same.
const NAMES: [(&str, u8); 24] = [
    ("CS0", 0),
    ("DF", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// A text that is no code point.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a code point; write a name (CS0 to CS7, AF11 to AF43, EF, VA, LE) or a number from 0 to 63"
)]
pub struct ParseDscpError(String);

impl Dscp {
    /// Lower effort (RFC 8622).
    pub const LE: Dscp = Dscp(1);
    /// Class selector 1, which stood for lower effort before.
    pub const CS1: Dscp = Dscp(8);
    /// Expedited forwarding (RFC 3246).
    pub const EF: Dscp = Dscp(46);

    /// The code point with this number; none above 63.
    pub const fn new(value: u8) -> Option<Self> {
        if value < 64 { Some(Dscp(value)) } else { None }
    }
    /// Its number, from 0 to 63.
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl FromStr for Dscp {
    type Err = ParseDscpError;
    fn from_str(text: &str) -> Result<Self, ParseDscpError> {
        let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
        let found = match named {
            Some(&(_, value)) => Some(Dscp(value)),
            None => text.trim().parse().ok().and_then(Dscp::new),
        };
        found.ok_or_else(|| ParseDscpError(text.to_owned()))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_is_read_back_and_nothing_else_is_read() {
        for value in 0..64 {
            let dscp = Dscp::new(value).unwrap();
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
            assert_eq!(value.to_string().parse(), Ok(dscp));
        }
        assert_eq!((" af41".parse(), "df".parse()), (Ok(Dscp(34)), Ok(Dscp(0))));
        for bad in ["", "64", "-1", "AF44", "voice", "0x2e"] {
            let error = bad.parse::<Dscp>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is not a code point")), "{error}");
        }
        assert_eq!(Dscp::new(64), None);
    }
}
