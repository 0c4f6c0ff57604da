//! Tables for other programs: CSV, JSON, Parquet and InfluxDB's line protocol, of one run or of all seeds of a set.
//!
//! Wide tables have a column for each metric, long ones a row for each. Both have a column with the seed where there are several runs,
//! and the names of flows and links where the run's own tables have only their numbers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use warpline_disk::{OsDirectory, write_whole_with};

use crate::cells::{CsvRows, JsonRows, cell};
use crate::error::ResultError;
use crate::influx;
use crate::kinds::{NAME, SEED, TableKind};
use crate::run::Run;
use crate::set::RunSet;
use crate::tables::{BatchReader, FILE_MODE, ROW_GROUP_ROWS};

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names (RFC 4180); nothing where there is no value.
    Csv,
    /// An array of objects.
    Json,
    /// Apache Parquet.
    Parquet,
    /// InfluxDB's line protocol: keys and texts are tags, the rest are fields.
    Influx,
}

impl Format {
    /// The ending of file names.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Parquet => "parquet",
            Format::Influx => "lp",
        }
    }
}

/// What is exported.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// The runs.
    pub set: &'a RunSet,
    /// The table.
    pub table: TableKind,
    /// A row for each metric, in place of a column; line protocol is the same either way.
    pub long: bool,
    /// The format.
    pub format: Format,
}

impl Export<'_> {
    /// Writes the table to `out`.
    ///
    /// # Errors
    /// If a run cannot be read, or `out`, which errors call `name`, not be written.
    pub fn write(&self, out: &mut (dyn Write + Send), name: &Path) -> Result<(), ResultError> {
        let mut noted = Noted { out, failed: None };
        let written = self.write_to(&mut noted, name);
        // The formats' libraries put system errors in words of their own.
        match (written, noted.failed) {
            (Err(_), Some(error)) => Err(ResultError::io("write", name, error)),
            (written, _) => written,
        }
    }

    fn write_to(&self, out: &mut Noted<'_>, name: &Path) -> Result<(), ResultError> {
        let schema = if self.long { self.long_schema() } else { self.wide_schema() };
        let failed = |why: &dyn Display| ResultError::Encode { path: name.to_owned(), why: why.to_string() };
        let system = |error| ResultError::io("write", name, error);
        match self.format {
            Format::Csv => {
                let encode = |error: csv::Error| failed(&error);
                let mut rows = CsvRows::new(out, &schema).map_err(encode)?;
                self.batches(|batch| rows.write(&batch).map_err(encode))?;
                rows.finish().map_err(system)
            }
            Format::Json => {
                let mut rows = JsonRows::new(out).map_err(system)?;
                self.batches(|batch| rows.write(&batch).map_err(system))?;
                rows.finish().map_err(system)
            }
            Format::Parquet => {
                let encode = |error: ParquetError| failed(&error);
                let mut writer = ArrowWriter::try_new(out, schema, None).map_err(encode)?;
                self.batches(|batch| writer.write(&batch).map_err(encode))?;
                writer.close().map(|_| ()).map_err(encode)
            }
            Format::Influx => {
                let mut lines = influx::Lines::default();
                self.set.runs().iter().try_for_each(|run| {
                    self.wide(run, &mut |batch| {
                        let text = lines.of(&self.table, &batch, run.summary().info.simulated_s);
                        out.write_all(text.as_bytes()).map_err(system)
                    })
                })
            }
        }
    }

    /// Writes the table to a file: whole or not at all.
    ///
    /// # Errors
    /// If a run cannot be read, or the file not be written.
    pub fn write_file(&self, path: &Path) -> Result<(), ResultError> {
        let written = write_whole_with(&OsDirectory::here(), path, FILE_MODE, |file| {
            let mut buffered = BufWriter::new(file);
            self.write(&mut buffered, path).map_err(io::Error::other)?;
            buffered.flush()
        });
        written
            .map_err(|error| error.downcast().unwrap_or_else(|error| ResultError::io("write", path, error)))
    }

    /// Hands over the rows of all runs, in the order of their seeds.
    fn batches(
        &self,
        mut take: impl FnMut(RecordBatch) -> Result<(), ResultError>,
    ) -> Result<(), ResultError> {
        for run in self.set.runs() {
            self.wide(run, &mut |batch| {
                if !self.long {
                    return take(batch);
                }
                let why = |error: ArrowError| ResultError::Encode {
                    path: run.path().to_owned(),
                    why: error.to_string(),
                };
                take(self.melt(&batch).map_err(why)?)
            })?;
        }
        Ok(())
    }

    /// The number that `name` stands beside, where the table has numbers but no names: the flow's, else the link's.
    fn named_by(&self) -> Option<&'static str> {
        let has = |name: &str| self.table.schema.column_with_name(name).is_some();
        if has(NAME) { None } else { ["flow", "link"].into_iter().find(|id| has(id)) }
    }

    fn wide_schema(&self) -> SchemaRef {
        let mut fields = Vec::new();
        if self.set.is_several() {
            fields.push(Arc::new(Field::new(SEED, DataType::UInt64, false)));
        }
        for field in self.table.schema.fields() {
            // What an older version did not write is null.
            fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            if self.named_by() == Some(field.name().as_str()) {
                fields.push(Arc::new(Field::new(NAME, DataType::Utf8, true)));
            }
        }
        Arc::new(Schema::new(fields))
    }

    /// The rows of one run.
    fn wide(
        &self,
        run: &Run,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), ResultError>,
    ) -> Result<(), ResultError> {
        let path = run.path().join(format!("{}.parquet", self.table.name));
        let Some(reader) = BatchReader::open(&path, &[], ROW_GROUP_ROWS)? else { return Ok(()) };
        let schema = self.wide_schema();
        let summary = run.summary();
        let names: BTreeMap<u32, &str> = match self.named_by() {
            Some("flow") => summary.flows.iter().map(|flow| (flow.flow, flow.name.as_str())).collect(),
            Some(_) => summary.links.iter().map(|link| (link.link, link.name.as_str())).collect(),
            None => BTreeMap::new(),
        };
        for batch in reader {
            let batch = batch?;
            let rows = batch.num_rows();
            let column = |field: &Arc<Field>| -> ArrayRef {
                let own =
                    batch.column_by_name(field.name()).filter(|own| own.data_type() == field.data_type());
                match (own, self.named_by()) {
                    (Some(own), _) => Arc::clone(own),
                    (None, _) if field.name() == SEED => {
                        Arc::new(UInt64Array::from(vec![summary.info.seed; rows]))
                    }
                    (None, Some(id)) if field.name() == NAME => {
                        let ids =
                            batch.column_by_name(id).and_then(|ids| ids.as_primitive_opt::<UInt32Type>());
                        let name = |id: Option<u32>| id.and_then(|id| names.get(&id).copied());
                        match ids {
                            Some(ids) => Arc::new(ids.iter().map(name).collect::<StringArray>()),
                            None => new_null_array(&DataType::Utf8, rows),
                        }
                    }
                    (None, _) => new_null_array(field.data_type(), rows),
                }
            };
            let columns = schema.fields().iter().map(column).collect();
            let made = RecordBatch::try_new(Arc::clone(&schema), columns);
            take(made.map_err(|error| ResultError::Damaged { path: path.clone(), why: error.to_string() })?)?;
        }
        Ok(())
    }

    fn long_schema(&self) -> SchemaRef {
        let wide = self.wide_schema();
        let mut fields: Vec<Arc<Field>> =
            wide.fields().iter().filter(|field| self.table.is_label(field)).cloned().collect();
        fields.push(Arc::new(Field::new("metric", DataType::Utf8, false)));
        fields.push(Arc::new(Field::new("unit", DataType::Utf8, false)));
        fields.push(Arc::new(Field::new("value", DataType::Float64, false)));
        Arc::new(Schema::new(fields))
    }

    /// A row for each value that there is, metric by metric.
    fn melt(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let schema = self.long_schema();
        let wide = batch.schema();
        let mut parts = Vec::new();
        for (field, array) in wide.fields().iter().zip(batch.columns()) {
            if self.table.is_label(field) {
                continue;
            }
            let present: BooleanArray = (0..array.len()).map(|row| Some(array.is_valid(row))).collect();
            let values: Float64Array = (0..array.len()).filter_map(|row| cell(array, row).number()).collect();
            let rows = values.len();
            let unit = field.metadata().get("unit").map_or("", String::as_str);
            let mut columns = Vec::new();
            for (label, array) in wide.fields().iter().zip(batch.columns()) {
                if self.table.is_label(label) {
                    columns.push(filter(array, &present)?);
                }
            }
            columns.push(Arc::new(StringArray::from(vec![field.name().as_str(); rows])) as ArrayRef);
            columns.push(Arc::new(StringArray::from(vec![unit; rows])));
            columns.push(Arc::new(values));
            parts.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
        }
        arrow_select::concat::concat_batches(&schema, &parts)
    }
}

/// Where it is written, and the system error, if there was one.
struct Noted<'a> {
    out: &'a mut (dyn Write + Send),
    failed: Option<io::Error>,
}

impl Noted<'_> {
    fn note(&mut self, error: io::Error) -> io::Error {
        let copy = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        self.failed.get_or_insert(copy);
        error
    }
}

impl Write for Noted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.note(error))
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.note(error))
    }
}
