//! Tables as people read them in a terminal.

use crate::units::Unit;

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
