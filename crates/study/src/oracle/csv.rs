//! Plain comma-separated tables: no quotes; lines that begin with # are comments. Errors give file, line and column.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::OracleError;

/// A table read from a file.
#[derive(Debug)]
pub(super) struct Csv {
    file: PathBuf,
    header: Vec<String>,
    lines: Vec<(usize, String)>,
}

impl Csv {
    /// Reads a file.
    pub(super) fn read(file: &Path) -> Result<Csv, OracleError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| OracleError::Unreadable { file: file.to_owned(), source })?;
        Csv::parse(file, &text)
    }

    /// Parses a text; `file` is its name in errors.
    pub(super) fn parse(file: &Path, text: &str) -> Result<Csv, OracleError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim_end().to_owned()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let Some((_, head)) = lines.next() else {
            return Err(at(file, 1, 1, "the file is empty; it should begin with a line of column names"));
        };
        let header: Vec<String> = head.split(',').map(|name| name.trim().to_owned()).collect();
        Ok(Csv { file: file.to_owned(), header, lines: lines.collect() })
    }

    /// The place of a column.
    fn column(&self, name: &str) -> Result<usize, OracleError> {
        self.header.iter().position(|known| known == name).ok_or_else(|| {
            let there = self.header.join(", ");
            at(&self.file, 1, 1, format!("there is no column `{name}`; the columns are {there}"))
        })
    }

    /// The rows, each with as many fields as the first line.
    pub(super) fn rows(&self) -> Result<Vec<Row<'_>>, OracleError> {
        self.lines
            .iter()
            .map(|(line, text)| {
                let fields: Vec<&str> = text.split(',').collect();
                if fields.len() == self.header.len() {
                    return Ok(Row { csv: self, line: *line, fields });
                }
                let (found, wanted) = (fields.len(), self.header.len());
                let column = text.chars().count() + 1;
                let why = format!("the line has {found} fields; the first line names {wanted} columns");
                Err(at(&self.file, *line, column, why))
            })
            .collect()
    }
}

/// A line of a table.
#[derive(Debug)]
pub(super) struct Row<'a> {
    csv: &'a Csv,
    line: usize,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    /// The text in a column.
    pub(super) fn text(&self, name: &str) -> Result<&str, OracleError> {
        Ok(self.fields[self.csv.column(name)?].trim())
    }

    /// The value in a column; `what` names its type in errors.
    pub(super) fn value<T: FromStr>(&self, name: &str, what: &str) -> Result<T, OracleError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| self.wrong(name, &format!("`{text}` is not {what}")))
    }

    /// The finite number in a column, at least `least`.
    pub(super) fn number(&self, name: &str, least: f64) -> Result<f64, OracleError> {
        let value: f64 = self.value(name, "a number")?;
        if value.is_finite() && value >= least {
            return Ok(value);
        }
        Err(self.wrong(name, &format!("{value} is out of range; at least {least} is allowed")))
    }

    /// An error about the field in a column.
    pub(super) fn wrong(&self, name: &str, why: &str) -> OracleError {
        let index = self.csv.column(name).unwrap_or(0);
        let column = 1 + self.fields[..index].iter().map(|field| field.chars().count() + 1).sum::<usize>();
        at(&self.csv.file, self.line, column, format!("{name}: {why}"))
    }
}

fn at(file: &Path, line: usize, column: usize, why: impl Into<String>) -> OracleError {
    OracleError::Malformed { file: file.to_owned(), line, column, why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        let csv = Csv::parse(Path::new("t.csv"), text);
        let all = |csv: &Csv| -> Result<(), OracleError> {
            for row in csv.rows()? {
                row.number("b", 0.0)?;
            }
            Ok(())
        };
        csv.and_then(|csv| all(&csv)).unwrap_err().to_string()
    }

    #[test]
    fn comments_are_not_rows_but_count_as_lines() {
        assert_eq!(failure("# made by hand\na,b\n# half\nx,two\n"), "t.csv:4:3: b: `two` is not a number");
    }

    #[test]
    fn errors_point_at_the_field() {
        assert_eq!(failure("a,b\nx,1\nxyz,two\n"), "t.csv:3:5: b: `two` is not a number");
        assert_eq!(failure("a,b\nx,-1\n"), "t.csv:2:3: b: -1 is out of range; at least 0 is allowed");
        assert_eq!(failure("a,b\nx\n"), "t.csv:2:2: the line has 1 fields; the first line names 2 columns");
        assert_eq!(failure("a,c\nx,1\n"), "t.csv:1:1: there is no column `b`; the columns are a, c");
        assert!(failure("").starts_with("t.csv:1:1: the file is empty"));
    }
}
