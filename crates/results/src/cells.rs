//! The cells of a table whose rows have no type of ours, and its rows as CSV and JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use serde::ser::{Serialize, Serializer};

use crate::declaration::Scalar;

/// The value in a row of a column; absent where it is null, or of a type that no table has.
pub(crate) fn cell(array: &dyn Array, row: usize) -> Scalar<'_> {
    if array.is_null(row) {
        return Scalar::Absent;
    }
    match array.data_type() {
        DataType::UInt8 => Scalar::Whole(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt32 => Scalar::Whole(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Scalar::Whole(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Scalar::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Scalar::Truth(array.as_boolean().value(row)),
        DataType::Utf8 => Scalar::Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
        DataType::Dictionary(..) => word(array, row).map_or(Scalar::Absent, Scalar::Text),
        _ => Scalar::Absent,
    }
}

/// The text in a row of a column that holds each text once.
fn word(array: &dyn Array, row: usize) -> Option<Cow<'_, str>> {
    let words = array.as_dictionary_opt::<Int32Type>()?;
    Some(Cow::Borrowed(words.values().as_string_opt::<i32>()?.value(words.key(row)?)))
}

impl Serialize for Scalar<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Scalar::Absent => serializer.serialize_none(),
            Scalar::Text(text) => serializer.serialize_str(text),
            Scalar::Whole(number) => serializer.serialize_u64(*number),
            Scalar::Float(number) => serializer.serialize_f64(*number),
            Scalar::Truth(truth) => serializer.serialize_bool(*truth),
        }
    }
}

/// A row as an object, with the names of the columns.
struct Object<'a>(&'a RecordBatch, usize);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Object(batch, row) = *self;
        let names = batch.schema_ref().fields().iter().map(|field| field.name());
        serializer.collect_map(names.zip(batch.columns().iter().map(|array| cell(array, row))))
    }
}

/// Comma-separated values (RFC 4180).
pub(crate) struct CsvRows<W: Write>(csv::Writer<W>);

impl<W: Write> CsvRows<W> {
    /// Begins with a line of names.
    pub(crate) fn new(out: W, schema: &Schema) -> csv::Result<Self> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
        writer.write_record(schema.fields().iter().map(|field| field.name()))?;
        Ok(CsvRows(writer))
    }
    /// Writes the rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> csv::Result<()> {
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = batch.columns().iter().map(|array| cell(array, row)).collect();
            self.0.serialize(cells)?;
        }
        Ok(())
    }
    /// Writes what is left.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An array of objects.
pub(crate) struct JsonRows<W: Write> {
    out: W,
    rows: u64,
}

impl<W: Write> JsonRows<W> {
    /// Begins the array.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"[")?;
        Ok(JsonRows { out, rows: 0 })
    }
    /// Writes the rows. A float that is not finite becomes null.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        for row in 0..batch.num_rows() {
            if self.rows > 0 {
                self.out.write_all(b",")?;
            }
            self.rows += 1;
            serde_json::to_writer(&mut self.out, &Object(batch, row))?;
        }
        Ok(())
    }
    /// Ends the array.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"]\n")
    }
}
