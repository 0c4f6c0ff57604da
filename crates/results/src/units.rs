//! Units: what a number measures, and how it is printed for people.

/// What a number measures, and so how it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bits per second.
    BitPerSecond,
    /// Bytes.
    Byte,
    /// Packets.
    Packet,
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Nanoseconds.
    Nanosecond,
    /// A number of things, or no number.
    Count,
    /// A share of one, printed in per cent.
    Share,
    /// A plain number of no unit.
    Index,
}

/// Every unit with its word.
const WORDS: [(Unit, &str); 9] = [
    (Unit::BitPerSecond, "bit/s"),
    (Unit::Byte, "B"),
    (Unit::Packet, "packets"),
    (Unit::Second, "s"),
    (Unit::Millisecond, "ms"),
    (Unit::Nanosecond, "ns"),
    (Unit::Count, ""),
    (Unit::Share, "1"),
    (Unit::Index, "index"),
];

impl Unit {
    /// The unit of a word; none if there is no such unit.
    pub const fn named(word: &str) -> Option<Unit> {
        let word = word.as_bytes();
        let mut index = 0;
        while index < WORDS.len() {
            let known = WORDS[index].1.as_bytes();
            let mut at = 0;
            while at < known.len() && at < word.len() && known[at] == word[at] {
                at += 1;
            }
            if at == known.len() && at == word.len() {
                return Some(WORDS[index].0);
            }
            index += 1;
        }
        None
    }

    /// The unit that the declaration of a column names.
    ///
    /// # Panics
    /// If there is none: declarations are constants, so that a wrong one does not compile.
    pub(crate) const fn declared(word: &str) -> Unit {
        match Unit::named(word) {
            Some(unit) => unit,
            None => panic!("no unit has this word"),
        }
    }

    /// Its word: "bit/s", "packets", "1" for a share, "" for a count.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(unit, _)| *unit == self).map_or("", |(_, word)| word)
    }

    /// Its symbol, as in the files; empty for numbers without a unit.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Share | Unit::Index => "",
            unit => unit.word(),
        }
    }

    /// The value with its unit, to three or four significant digits.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BitPerSecond | Unit::Byte => {
                let (scaled, prefix) = match value.abs() {
                    v if v >= 999.95e9 => (value / 1e12, "T"),
                    v if v >= 999.95e6 => (value / 1e9, "G"),
                    v if v >= 999.95e3 => (value / 1e6, "M"),
                    v if v >= 999.5 => (value / 1e3, "k"),
                    _ => (value, ""),
                };
                format!("{} {prefix}{}", significant(scaled), self.symbol())
            }
            Unit::Nanosecond => Unit::Millisecond.show(value / 1e6),
            Unit::Millisecond => format!("{} ms", significant(value)),
            Unit::Second => format!("{} s", significant(value)),
            Unit::Count | Unit::Packet if value.fract() == 0.0 => grouped(value),
            Unit::Count | Unit::Packet => significant(value),
            Unit::Share => format!("{} %", significant(value * 100.0)),
            Unit::Index => format!("{value:.3}"),
        }
    }
}

impl serde::Serialize for Unit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// A number with about three significant digits, without an exponent.
fn significant(value: f64) -> String {
    match value.abs() {
        // What floating-point arithmetic leaves of a zero.
        v if v < 1e-12 => "0".to_owned(),
        v if v >= 999.5 => grouped(value.round()),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 => format!("{value:.2}"),
        v if v >= 0.0005 => format!("{value:.3}"),
        _ => if value < 0.0 { "-<0.001" } else { "<0.001" }.to_owned(),
    }
}

/// A whole number with thin groups of three digits: 274 112.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (unit, value, text) in [
            (Unit::BitPerSecond, 9.95e6, "9.95 Mbit/s"),
            (Unit::BitPerSecond, 999_960.0, "1.00 Mbit/s"),
            (Unit::BitPerSecond, 400e9, "400 Gbit/s"),
            (Unit::BitPerSecond, -12_340.0, "-12.3 kbit/s"),
            (Unit::BitPerSecond, 0.0, "0 bit/s"),
            (Unit::Millisecond, 61.54, "61.5 ms"),
            (Unit::Millisecond, 0.0004, "<0.001 ms"),
            (Unit::Second, 12_345.6, "12 346 s"),
            (Unit::Count, 274_112.0, "274 112"),
            (Unit::Count, 2.5, "2.50"),
            (Unit::Packet, 233.0, "233"),
            (Unit::Byte, 1_250_000.0, "1.25 MB"),
            (Unit::Nanosecond, 12_300_000.0, "12.3 ms"),
            (Unit::Share, 0.0123, "1.23 %"),
            (Unit::Index, 0.99951, "1.000"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
