//! Numbers and tables as people read them in a terminal.

/// What a number measures, and so how it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitPerSecond,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millisecond,
    /// Seconds.
    #[serde(rename = "s")]
    Second,
    /// A number of things.
    #[serde(rename = "")]
    Count,
    /// A share of one, printed in per cent.
    #[serde(rename = "1")]
    Share,
    /// A plain number of no unit.
    #[serde(rename = "index")]
    Index,
}

impl Unit {
    /// The value with its unit, to three or four significant digits.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BitPerSecond => {
                let (scaled, prefix) = match value.abs() {
                    v if v >= 999.95e9 => (value / 1e12, "T"),
                    v if v >= 999.95e6 => (value / 1e9, "G"),
                    v if v >= 999.95e3 => (value / 1e6, "M"),
                    v if v >= 999.5 => (value / 1e3, "k"),
                    _ => (value, ""),
                };
                format!("{} {prefix}bit/s", significant(scaled))
            }
            Unit::Millisecond => format!("{} ms", significant(value)),
            Unit::Second => format!("{} s", significant(value)),
            Unit::Count if value.fract() == 0.0 => grouped(value),
            Unit::Count => significant(value),
            Unit::Share => format!("{} %", significant(value * 100.0)),
            Unit::Index => format!("{value:.3}"),
        }
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

/// A table of text. Columns stand in the order of their worth: those on the right go first when it is too narrow.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    columns: Vec<TextColumn>,
}

#[derive(Debug)]
struct TextColumn {
    head: &'static str,
    number: bool,
    cells: Vec<String>,
}

/// What stands where there is no value.
pub(crate) const ABSENT: &str = "-";

impl TextTable {
    /// Adds a column of words, set flush left.
    pub(crate) fn words(&mut self, head: &'static str, cells: impl Iterator<Item = String>) {
        self.columns.push(TextColumn { head, number: false, cells: cells.collect() });
    }

    /// Adds a column of numbers, set flush right; it is left out when there is no value in it.
    pub(crate) fn numbers(
        &mut self,
        head: &'static str,
        unit: Unit,
        cells: impl Iterator<Item = Option<f64>>,
    ) {
        let cells: Vec<Option<f64>> = cells.collect();
        if cells.iter().any(Option::is_some) {
            let show = |cell: Option<f64>| cell.map_or_else(|| ABSENT.to_owned(), |value| unit.show(value));
            self.columns.push(TextColumn {
                head,
                number: true,
                cells: cells.into_iter().map(show).collect(),
            });
        }
    }

    /// Adds a column of numbers already printed.
    pub(crate) fn figures(&mut self, head: &'static str, cells: impl Iterator<Item = String>) {
        self.columns.push(TextColumn { head, number: true, cells: cells.collect() });
    }

    /// The table with lines of at most `width` characters (the first column is always there), indented by two.
    pub(crate) fn render(&self, width: usize) -> String {
        let size = |text: &str| text.chars().count();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .map(|column| column.cells.iter().map(|cell| size(cell)).fold(size(column.head), usize::max))
            .collect();
        let mut shown = 0;
        let mut used = 0;
        for wide in &widths {
            used += 2 + wide;
            if shown > 0 && used > width {
                break;
            }
            shown += 1;
        }
        let rows = self.columns.first().map_or(0, |column| column.cells.len());
        let mut text = String::new();
        for row in 0..=rows {
            let mut line = String::new();
            for (column, &wide) in self.columns.iter().zip(&widths).take(shown) {
                let cell = if row == 0 { column.head } else { &column.cells[row - 1] };
                let padding = " ".repeat(wide - size(cell));
                line.push_str("  ");
                line.push_str(&if column.number { padding + cell } else { cell.to_owned() + &padding });
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
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
            (Unit::Share, 0.0123, "1.23 %"),
            (Unit::Index, 0.99951, "1.000"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }

    #[test]
    fn a_narrow_table_loses_its_last_columns() {
        let mut table = TextTable::default();
        table.words("name", ["a", "long name"].map(str::to_owned).into_iter());
        table.numbers("x", Unit::Count, [Some(1.0), None].into_iter());
        table.numbers("nothing", Unit::Count, [None, None].into_iter());
        table.numbers("y", Unit::Count, [Some(1000.0), Some(2.0)].into_iter());
        assert_eq!(table.render(80), "  name       x      y\n  a          1  1 000\n  long name  -      2\n");
        assert_eq!(table.render(15), "  name       x\n  a          1\n  long name  -\n");
        assert_eq!(table.render(1), "  name\n  a\n  long name\n");
    }
}
