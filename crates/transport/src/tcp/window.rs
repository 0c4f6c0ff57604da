//! Windows as people write them: in segments or in bytes.

use std::fmt;
use std::str::FromStr;

use warpline_core::Bytes;
use warpline_core::parameter::{Given, Kind, Value};

/// A window, in full segments ("10p", or the plain number 10) or in bytes ("64kB").
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Window {
    /// Full segments; a fraction is allowed.
    Segments(f64),
    /// Bytes of payload.
    Bytes(u64),
}

impl Window {
    /// The window in bytes with segments of `payload` bytes, at least one byte.
    pub fn bytes(self, payload: u64) -> u64 {
        match self {
            Window::Segments(n) => ((n * payload as f64).round() as u64).max(1),
            Window::Bytes(n) => n.max(1),
        }
    }

    /// The window of so many segments, if there can be one.
    pub fn segments(number: f64) -> Option<Self> {
        (number.is_finite() && number >= 0.0).then_some(Window::Segments(number))
    }
}

impl Default for Window {
    /// The initial window of RFC 6928.
    fn default() -> Self {
        Window::Segments(10.0)
    }
}

/// A text that is no window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a window; write segments (`10p`) or bytes (`64kB`)")]
pub struct ParseWindowError(String);

impl FromStr for Window {
    type Err = ParseWindowError;
    fn from_str(text: &str) -> Result<Self, ParseWindowError> {
        let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let window = match text.trim()[number.len()..].to_ascii_lowercase().as_str() {
            "p" | "packet" | "packets" | "segment" | "segments" => {
                number.trim().parse().ok().and_then(Window::segments)
            }
            _ => text.parse().ok().map(|Bytes(bytes)| Window::Bytes(bytes)),
        };
        window.ok_or_else(|| ParseWindowError(text.to_owned()))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Segments(n) => write!(f, "{n}p"),
            Window::Bytes(n) => Bytes(*n).fmt(f),
        }
    }
}

impl Value for Window {
    fn kind(&self) -> Kind {
        Kind::Window
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Text(self.to_string()))
    }
    fn take(&mut self, given: &Given) -> bool {
        let window = match given {
            Given::Text(text) => text.parse().ok(),
            Given::Whole(number) => Window::segments(*number as f64),
            Given::Number(number) => Window::segments(*number),
            _ => None,
        };
        window.map(|window| *self = window).is_some()
    }
    /// In its own unit: it can be told from zero by it, and no more.
    fn size(&self) -> Option<f64> {
        Some(match self {
            Window::Segments(n) => *n,
            Window::Bytes(n) => *n as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_printed_window_is_read_back(n in 0u64..1_000_000_000_000, x in 0.001f64..1000.0) {
            for window in [Window::Segments(x), Window::Bytes(n)] {
                prop_assert_eq!(window.to_string().parse::<Window>().unwrap(), window);
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<Window>();
        }
    }

    #[test]
    fn what_people_write_is_understood() {
        for (text, window) in [
            ("10p", Window::Segments(10.0)),
            (" 1.5 Segments ", Window::Segments(1.5)),
            ("1e3packets", Window::Segments(1000.0)),
            ("64kB", Window::Bytes(64_000)),
            ("0", Window::Bytes(0)),
        ] {
            assert_eq!(text.parse::<Window>(), Ok(window), "{text}");
        }
        for text in ["", "p", "ten", "-1p", "infp", "NaN p", "10", "1µp", "5 parsec"] {
            let error = text.parse::<Window>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}` is not a window")) && error.contains("`10p`"),
                "{error}"
            );
        }
    }
}
