//! A run's tables as numbers and words, batch by batch, without relying on more of the schema than is used: a report can be
//! made of runs whose tables have other columns than ours. The files are read by `results::tables`.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use serde_json::Value;
use warpline_results::tables::BatchReader;

use super::ReportError;
use super::data::Table;

/// Rows that are turned into numbers at once.
const BATCH_ROWS: usize = 16_384;

/// One batch of a table, by column.
pub(super) struct Batch {
    columns: Vec<(String, Cells)>,
    rows: usize,
}

/// The cells of one column.
enum Cells {
    /// Numbers and booleans (0, 1); NaN where there is none.
    Numbers(Vec<f64>),
    /// Texts as indices into a list of words.
    Words(Vec<Option<usize>>, Vec<String>),
}

impl Batch {
    /// Rows of the batch.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of a column; NaN throughout when the table has no such column.
    pub(super) fn numbers(&self, name: &str) -> Vec<f64> {
        match self.columns.iter().find(|(column, _)| column == name) {
            Some((_, Cells::Numbers(values))) => values.clone(),
            _ => vec![f64::NAN; self.rows],
        }
    }

    /// The texts of a column; none throughout when the table has no such column.
    pub(super) fn words(&self, name: &str) -> Vec<Option<&str>> {
        match self.columns.iter().find(|(column, _)| column == name) {
            Some((_, Cells::Words(codes, words))) => {
                codes.iter().map(|code| code.and_then(|code| words.get(code)).map(String::as_str)).collect()
            }
            _ => vec![None; self.rows],
        }
    }

    /// The rows as a part of the table called `id`. `complete` is shown as a boolean.
    fn part(&self, id: &str) -> Table {
        let shown = |(name, cells): &(String, Cells)| -> Vec<Value> {
            match cells {
                Cells::Numbers(values) => values.iter().map(|&v| number(v, name == "complete")).collect(),
                Cells::Words(codes, words) => {
                    let word = |code: Option<usize>| words.get(code?).map(String::as_str);
                    codes.iter().map(|&code| word(code).map_or(Value::Null, Value::from)).collect()
                }
            }
        };
        let mut part = Table { id: id.to_owned(), ..Table::default() };
        part.columns = self.columns.iter().map(|(name, _)| name.clone()).collect();
        part.cells = self.columns.iter().map(shown).collect();
        part.total_rows = part.rows();
        part
    }
}

/// Reads `table` of the run in `dir` and hands its batches, with the columns in `wanted` (all when empty), to `visit`.
/// Returns false when the run has no such table.
pub(super) fn scan(
    dir: &Path,
    table: &str,
    wanted: &[&str],
    mut visit: impl FnMut(&Batch),
) -> Result<bool, ReportError> {
    let Some(batches) = BatchReader::open(&file(dir, table), wanted, BATCH_ROWS)? else {
        return Ok(false);
    };
    for batch in batches {
        visit(&convert(&batch?));
    }
    Ok(true)
}

/// A batch in memory, with all of its columns.
pub(super) fn convert(batch: &RecordBatch) -> Batch {
    let schema = batch.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| (field.name().clone(), cells(array)))
        .collect();
    Batch { columns, rows: batch.num_rows() }
}

fn cells(array: &dyn Array) -> Cells {
    macro_rules! numbers {
        ($kind:ty) => {
            Cells::Numbers(
                array.as_primitive::<$kind>().iter().map(|v| v.map_or(f64::NAN, |v| v as f64)).collect(),
            )
        };
    }
    match array.data_type() {
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Boolean => Cells::Numbers(
            array.as_boolean().iter().map(|v| v.map_or(f64::NAN, |v| f64::from(u8::from(v)))).collect(),
        ),
        DataType::Utf8 => plain_words(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => plain_words(array.as_string::<i64>().iter()),
        DataType::Utf8View => plain_words(array.as_string_view().iter()),
        DataType::Dictionary(_, _) => dictionary_words(array),
        // A kind that no table of ours has: shown as missing.
        _ => Cells::Numbers(vec![f64::NAN; array.len()]),
    }
}

fn plain_words<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Cells {
    let mut words = Vec::new();
    let codes = texts
        .map(|text| {
            text.map(|text| {
                words.push(text.to_owned());
                words.len() - 1
            })
        })
        .collect();
    Cells::Words(codes, words)
}

fn dictionary_words(array: &dyn Array) -> Cells {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return Cells::Numbers(vec![f64::NAN; array.len()]);
    };
    let Cells::Words(codes, words) = cells(dictionary.values()) else {
        return Cells::Numbers(vec![f64::NAN; array.len()]);
    };
    if codes.is_empty() {
        // Nothing but nulls; `normalized_keys` would panic.
        return Cells::Words(vec![None; array.len()], words);
    }
    let keys = dictionary.normalized_keys();
    let codes = keys
        .into_iter()
        .enumerate()
        .map(|(row, key)| if array.is_null(row) { None } else { codes.get(key).copied().flatten() })
        .collect();
    Cells::Words(codes, words)
}

/// Reads the table called `id` of the run in `dir`, and hands it to `visit` part by part. Returns false when the run has no such table.
pub(super) fn read_parts(dir: &Path, id: &str, mut visit: impl FnMut(Table)) -> Result<bool, ReportError> {
    scan(dir, id, &[], |batch| visit(batch.part(id)))
}

/// How many rows a table of the run in `dir` has; none of them is read.
pub(super) fn rows_of(dir: &Path, table: &str) -> Result<u64, ReportError> {
    Ok(BatchReader::rows_of(&file(dir, table))?.unwrap_or(0))
}

/// Where a table of the run in `dir` is.
fn file(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.parquet"))
}

/// A table from an array of objects; columns in order of first appearance.
pub(super) fn rows_to_table(id: &str, rows: &Value) -> Option<Table> {
    let rows = rows.as_array()?;
    let mut columns: Vec<String> = Vec::new();
    for row in rows {
        for (key, value) in row.as_object()? {
            if !columns.contains(key) && !value.is_object() && !value.is_array() {
                columns.push(key.clone());
            }
        }
    }
    let cells = columns
        .iter()
        .map(|column| rows.iter().map(|row| row.get(column).cloned().unwrap_or(Value::Null)).collect())
        .collect();
    (!rows.is_empty()).then(|| Table { id: id.to_owned(), columns, cells, total_rows: rows.len() })
}

/// A cell: null where there is no value; integers without a decimal point.
fn number(value: f64, boolean: bool) -> Value {
    if !value.is_finite() {
        Value::Null
    } else if boolean {
        Value::from(value != 0.0)
    } else if value.fract() == 0.0 && value.abs() < 9e15 {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}
