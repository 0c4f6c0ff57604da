//! Words of Linux's `tc`: its numbers (tc(8)), and a command's words one by one.
//!
//! "10mbit" is 10^7 bit/s and "10mbps" 8 * 10^7; sizes count by 1024; a time without a unit is in microseconds; a percentage may
//! lack its sign.

pub mod netem;

/// What a word of tc can be, and is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// It begins with something else.
    #[error("'{0}' does not begin with a number")]
    NoNumber(String),
    /// The unit is not tc's.
    #[error("'{word}' is not a {what} of tc, such as {example}")]
    Unit {
        /// The word.
        word: String,
        /// A rate, a size or a time.
        what: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// It is below zero.
    #[error("'{word}' is negative for a {what}")]
    Negative {
        /// The word.
        word: String,
        /// A rate, a size or a time.
        what: &'static str,
    },
    /// It is taken for a mistake.
    #[error("'{word}' is too large for a {what}")]
    Large {
        /// The word.
        word: String,
        /// A rate, a size or a time.
        what: &'static str,
    },
    /// tc takes a share of a device's speed there.
    #[error(
        "'{0}' is a share of the device's speed, which the words do not say; write the rate, such as 10mbit"
    )]
    OfDevice(String),
    /// It is no percentage.
    #[error("'{0}' is not a percentage from 0 to 100")]
    Share(String),
    /// It is not a whole number of at most twelve digits.
    #[error("'{0}' is not a whole number")]
    Count(String),
}

/// Why words of tc cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A word has no value.
    #[error("{0} has no value behind it")]
    NoValue(String),
    /// A value is not what its word takes.
    #[error("{name} {word}: {error}{}", if word.contains('$') { "; a variable of a shell has to be replaced by its value first" } else { "" })]
    Value {
        /// The word before it.
        name: String,
        /// The value.
        word: String,
        /// What is wrong with it.
        error: WordError,
    },
    /// There is no such word.
    #[error("the word '{word}' is not known here; there are {known}")]
    Unknown {
        /// The word.
        word: String,
        /// Those that there are.
        known: &'static str,
    },
    /// Packets can only overtake others that wait.
    #[error(
        "reorder needs a delay, since packets overtake those that are delayed; write delay 10ms reorder 25%"
    )]
    ReorderWithoutDelay,
}

/// A number with a sign, and what stands behind it.
fn split(word: &str) -> Option<(f64, &str)> {
    let digits = |at: usize| word[at..].bytes().take_while(u8::is_ascii_digit).count();
    let start = usize::from(word.starts_with(['+', '-']));
    let whole = digits(start);
    let mut end = start + whole;
    let mut parts = 0;
    if word[end..].starts_with('.') {
        parts = digits(end + 1);
        end += if whole + parts > 0 { 1 + parts } else { 0 };
    }
    if whole + parts == 0 || end > 60 {
        return None;
    }
    // "1e3" is a number; the "e" of "1exabit" is not a part of one.
    if word[end..].starts_with(['e', 'E']) {
        let sign = usize::from(word[end + 1..].starts_with(['+', '-']));
        let power = digits(end + 1 + sign);
        let behind = word[end + 1 + sign + power..].chars().next();
        if (1..=2).contains(&power) && !behind.is_some_and(char::is_alphanumeric) {
            end += 1 + sign + power;
        }
    }
    Some((word[..end].parse().ok()?, &word[end..]))
}

/// A kind of number with units: how many of the base unit each is.
struct Kind {
    what: &'static str,
    example: &'static str,
    most: f64,
    unit: fn(&str) -> Option<f64>,
}

/// The factor of a prefix that counts by thousands, or by 1024 with an "i".
fn prefix(text: &str) -> Option<f64> {
    let (letter, binary) = match text.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, true),
        _ => (text, false),
    };
    let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == letter)?;
    Some(std::iter::repeat_n(if binary { 1024.0 } else { 1000.0 }, power).product())
}

/// Rates in bit/s.
const RATE: Kind = Kind {
    what: "rate",
    example: "10mbit",
    most: 1e15,
    unit: |unit| {
        if unit.is_empty() {
            return Some(1.0);
        }
        let (of, bits) =
            unit.strip_suffix("bit").map(|of| (of, 1.0)).or(unit.strip_suffix("bps").map(|of| (of, 8.0)))?;
        Some(prefix(of)? * bits)
    },
};

/// Sizes in bytes.
const SIZE: Kind = Kind {
    what: "size",
    example: "32kb",
    most: 1_099_511_627_776.0,
    unit: |unit| {
        Some(match unit {
            "" | "b" => 1.0,
            "k" | "kb" => 1024.0,
            "m" | "mb" => 1_048_576.0,
            "g" | "gb" => 1_073_741_824.0,
            "kbit" => 128.0,
            "mbit" => 131_072.0,
            "gbit" => 134_217_728.0,
            _ => return None,
        })
    },
};

/// Times in nanoseconds.
const TIME: Kind = Kind {
    what: "time",
    example: "20ms",
    most: 1e18,
    unit: |unit| {
        Some(match unit {
            "s" | "sec" | "secs" => 1e9,
            "ms" | "msec" | "msecs" => 1e6,
            "" | "us" | "usec" | "usecs" => 1e3,
            "ns" | "nsec" | "nsecs" => 1.0,
            _ => return None,
        })
    },
};

fn quantity(kind: &Kind, word: &str) -> Result<u64, WordError> {
    let text = word.to_owned();
    let what = kind.what;
    let (number, unit) = split(word.trim()).ok_or(WordError::NoNumber(text.clone()))?;
    let factor = (kind.unit)(&unit.trim().to_ascii_lowercase()).ok_or(WordError::Unit {
        word: text.clone(),
        what,
        example: kind.example,
    })?;
    let value = number * factor;
    match value {
        value if value < 0.0 => Err(WordError::Negative { word: text, what }),
        value if value <= kind.most => Ok((value + 0.5).floor() as u64),
        _ => Err(WordError::Large { word: text, what }),
    }
}

/// A rate in bit/s.
///
/// # Errors
/// If the word is none.
pub fn rate(word: &str) -> Result<u64, WordError> {
    if word.ends_with('%') { Err(WordError::OfDevice(word.to_owned())) } else { quantity(&RATE, word) }
}

/// A size in bytes.
///
/// # Errors
/// If the word is none.
pub fn size(word: &str) -> Result<u64, WordError> {
    quantity(&SIZE, word)
}

/// A time in nanoseconds.
///
/// # Errors
/// If the word is none.
pub fn time(word: &str) -> Result<u64, WordError> {
    quantity(&TIME, word)
}

/// A percentage, 0 to 100.
///
/// # Errors
/// If the word is none.
pub fn percent(word: &str) -> Result<f64, WordError> {
    match split(word.strip_suffix('%').unwrap_or(word)) {
        Some((value, "")) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(WordError::Share(word.to_owned())),
    }
}

/// A whole number.
///
/// # Errors
/// If the word is none.
pub fn count(word: &str) -> Result<u64, WordError> {
    let digits = (1..=12).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    let found = if digits { word.parse().ok() } else { None };
    found.ok_or_else(|| WordError::Count(word.to_owned()))
}

/// A whole number with a sign, where tc takes one.
fn signed(word: &str) -> Result<i64, WordError> {
    match split(word) {
        Some((value, "")) if value.abs() < 1e12 => Ok(value as i64),
        _ => Err(WordError::Count(word.to_owned())),
    }
}

/// The words that are left of a command.
struct Words<'a, W> {
    words: &'a [W],
    /// The one that came last.
    last: &'a str,
}

impl<'a, W: AsRef<str>> Words<'a, W> {
    fn new(words: &'a [W]) -> Self {
        Words { words, last: "" }
    }

    /// The next word, which stays.
    fn peek(&self) -> Option<&'a str> {
        self.words.first().map(AsRef::as_ref)
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        self.last = first.as_ref();
        Some(self.last)
    }

    /// Takes the next word if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// The value of the word that came last.
    fn value<T>(&mut self, read: fn(&str) -> Result<T, WordError>) -> Result<T, WordsError> {
        let word = self.peek().ok_or_else(|| WordsError::NoValue(self.last.to_owned()))?;
        self.words = &self.words[1..];
        read(word).map_err(|error| WordsError::Value {
            name: self.last.to_owned(),
            word: word.to_owned(),
            error,
        })
    }

    /// The next word's value, if `read` takes it.
    fn maybe<T>(&mut self, read: fn(&str) -> Result<T, WordError>) -> Option<T> {
        let value = read(self.peek()?).ok()?;
        self.words = &self.words[1..];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_tc() {
        for (word, bps) in [
            ("10mbit", 10_000_000),
            ("10mbps", 80_000_000),
            ("1.5Gbit", 1_500_000_000),
            ("1kibit", 1024),
            ("800", 800),
            ("1e3", 1_000),
            ("2tbit", 2_000_000_000_000),
        ] {
            assert_eq!(rate(word), Ok(bps), "{word}");
        }
        let times =
            [("20ms", 20_000_000), ("5", 5_000), ("0.1msec", 100_000), ("1s", 1_000_000_000), ("3NS", 3)];
        for (word, nanos) in times {
            assert_eq!(time(word), Ok(nanos), "{word}");
        }
        for (word, bytes) in [("32kb", 32_768), ("1500", 1500), ("10k", 10_240), ("1kbit", 128)] {
            assert_eq!(size(word), Ok(bytes), "{word}");
        }
        assert_eq!((percent("1%"), percent(".5"), percent("100")), (Ok(1.0), Ok(0.5), Ok(100.0)));
        assert_eq!((count("07"), signed("-4")), (Ok(7), Ok(-4)));
    }

    #[test]
    fn what_is_no_number_is_refused_with_what_is_allowed() {
        for (error, part) in [
            (rate("fast").unwrap_err(), "'fast' does not begin with a number"),
            (rate("10parsec").unwrap_err(), "'10parsec' is not a rate of tc, such as 10mbit"),
            (rate("10ibit").unwrap_err(), "not a rate of tc"),
            (rate("50%").unwrap_err(), "share of the device's speed"),
            (rate("-1mbit").unwrap_err(), "negative for a rate"),
            (time("9999999999999s").unwrap_err(), "too large for a time"),
            (time("µ").unwrap_err(), "does not begin with a number"),
            (time("5µ").unwrap_err(), "not a time of tc"),
            (percent("300%").unwrap_err(), "not a percentage from 0 to 100"),
            (percent("1%%").unwrap_err(), "not a percentage"),
            (count("1.5").unwrap_err(), "not a whole number"),
            (count("1234567890123").unwrap_err(), "not a whole number"),
            (size("1..5k").unwrap_err(), "not a size of tc"),
        ] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
