//! Tables for Python: Arrow record batches behind the Arrow PyCapsule interface, and each column as a plain list.
//!
//! polars, pandas, pyarrow and DuckDB read that interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>) without copying. None of them is needed here.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, UInt64Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyDict, PyFloat, PyInt, PyList, PyString};
use warpline_disk::{OsDirectory, write_whole_with};
use warpline_results::ResultError;
use warpline_results::tables::{BatchReader, FILE_MODE};

use crate::errors::run_error;

/// A table of results in Arrow's columnar format.
///
/// Any library that supports the Arrow PyCapsule interface can read it: `polars.DataFrame(table)`,
/// `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)`. A single column is `table["goodput_bps"]`.
#[pyclass(frozen, module = "warpline._warpline", name = "Table")]
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Table { schema, batches }
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The table as a run in memory keeps it.
    pub(crate) fn to_results(&self) -> warpline_results::Table {
        warpline_results::Table { schema: Arc::clone(&self.schema), batches: self.batches.clone() }
    }

    /// The table as a stream in Arrow's IPC format.
    fn to_ipc(&self) -> Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), &self.schema)?;
        for batch in &self.batches {
            writer.write(batch)?;
        }
        writer.into_inner()
    }

    fn of_ipc(bytes: &[u8]) -> Result<Self, ArrowError> {
        let reader = StreamReader::try_new(bytes, None)?;
        let schema = reader.schema();
        Ok(Table { schema, batches: reader.collect::<Result<_, _>>()? })
    }
}

/// Appends the values of one array to a Python list; nulls become `None`.
fn append(py: Python<'_>, list: &Bound<'_, PyList>, array: &dyn Array) -> PyResult<()> {
    macro_rules! each {
        ($array:expr) => {{
            for value in $array {
                list.append(value.into_pyobject(py)?)?;
            }
        }};
    }
    match array.data_type() {
        DataType::Float64 => each!(array.as_primitive::<Float64Type>().iter()),
        DataType::Int64 => each!(array.as_primitive::<Int64Type>().iter()),
        DataType::UInt64 => each!(array.as_primitive::<UInt64Type>().iter()),
        DataType::UInt32 => each!(array.as_primitive::<UInt32Type>().iter()),
        DataType::UInt8 => each!(array.as_primitive::<UInt8Type>().iter()),
        DataType::Boolean => each!(array.as_boolean().iter()),
        DataType::Utf8 => each!(array.as_string::<i32>().iter()),
        DataType::Dictionary(key, value) if **key == DataType::Int32 && matches!(**value, DataType::Utf8) => {
            let words = array.as_dictionary::<Int32Type>();
            // One Python string for each word of a batch, not for each row.
            let values: Vec<_> =
                words.values().as_string::<i32>().iter().map(|w| w.into_pyobject(py)).collect();
            for key in words.keys() {
                match key.and_then(|key| values.get(usize::try_from(key).ok()?)) {
                    Some(Ok(word)) => list.append(word)?,
                    _ => list.append(py.None())?,
                }
            }
        }
        other => {
            return Err(PyTypeError::new_err(format!("columns of type {other} cannot become Python lists")));
        }
    }
    Ok(())
}

/// An Arrow column of Python values, which are all `bool`, all numbers or all text; `None` becomes a null.
fn column(name: &str, values: &Bound<'_, PyList>, is_text: bool) -> PyResult<ArrayRef> {
    let (mut bools, mut ints, mut negative, mut floats, mut texts) =
        (0usize, 0usize, false, 0usize, usize::from(is_text));
    for value in values.iter() {
        if value.is_none() {
        } else if value.is_instance_of::<PyBool>() {
            bools += 1;
        } else if value.is_instance_of::<PyInt>() {
            ints += 1;
            negative |= value.lt(0)?;
        } else if value.is_instance_of::<PyFloat>() {
            floats += 1;
        } else if value.is_instance_of::<PyString>() {
            texts += 1;
        } else {
            return Err(PyTypeError::new_err(format!(
                "column {name}: a value is of type {}; a column holds bool, int, float, str or None",
                value.get_type().name()?
            )));
        }
    }
    let kinds = [bools > 0, ints + floats > 0, texts > 0].into_iter().filter(|kind| *kind).count();
    if kinds > 1 {
        return Err(PyTypeError::new_err(format!(
            "column {name} mixes text, numbers and truth values; a column holds one of them"
        )));
    }
    macro_rules! build {
        ($builder:expr, $type:ty) => {{
            let mut builder = $builder;
            for value in values.iter() {
                builder.append_option(value.extract::<Option<$type>>()?);
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    Ok(if bools > 0 {
        build!(BooleanBuilder::new(), bool)
    } else if texts > 0 {
        build!(StringBuilder::new(), String)
    } else if floats > 0 || ints == 0 {
        build!(Float64Builder::new(), f64)
    } else if negative {
        build!(Int64Builder::new(), i64)
    } else {
        build!(UInt64Builder::new(), u64)
    })
}

#[pymethods]
impl Table {
    /// A table made of Python lists of the same length: `Table.from_columns({"n": [1, 2], "name": ["a", None]})`. A column in which all values
    /// are `None` holds numbers, or text if `text` names it.
    #[staticmethod]
    #[pyo3(signature = (columns, *, text=Vec::new()))]
    fn from_columns(columns: &Bound<'_, PyDict>, text: Vec<String>) -> PyResult<Self> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, values) in columns.iter() {
            let name: String = name.extract()?;
            let array = column(&name, values.cast::<PyList>()?, text.contains(&name))?;
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        if arrays.is_empty() {
            return Ok(Table { schema, batches: Vec::new() });
        }
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Table { schema, batches: vec![batch] })
    }

    /// Joins tables that have the same columns, one below the other; a new first column holds the seed of each.
    #[staticmethod]
    fn of_seeds(tables: Vec<(u64, Py<Table>)>) -> PyResult<Self> {
        let mut fields = vec![Arc::new(Field::new("seed", DataType::UInt64, false))];
        if let Some((_, first)) = tables.first() {
            fields.extend(first.get().schema.fields().iter().cloned());
        }
        let schema = Arc::new(Schema::new(fields));
        let mut batches = Vec::new();
        for (seed, table) in &tables {
            for batch in &table.get().batches {
                let seeds: ArrayRef = Arc::new(UInt64Array::from(vec![*seed; batch.num_rows()]));
                let columns = std::iter::once(seeds).chain(batch.columns().iter().cloned()).collect();
                let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
                    .map_err(|error| PyValueError::new_err(error.to_string()))?;
                batches.push(batch);
            }
        }
        Ok(Table { schema, batches })
    }

    /// Reads a Parquet file. Rows keep their order.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || -> Result<Table, ResultError> {
            let Some(reader) = BatchReader::open(&path, &[], usize::from(u16::MAX))? else {
                return Err(ResultError::io("read", &path, io::ErrorKind::NotFound.into()));
            };
            let schema = Arc::clone(reader.schema());
            Ok(Table { schema, batches: reader.collect::<Result<_, _>>()? })
        };
        py.detach(read).map_err(|error| run_error(py, &error))
    }

    /// Writes a Parquet file, whole or not at all.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            write_whole_with(&OsDirectory::here(), &path, FILE_MODE, |file| {
                let mut writer =
                    ArrowWriter::try_new(file, Arc::clone(&self.schema), None).map_err(io::Error::other)?;
                for batch in &self.batches {
                    writer.write(batch).map_err(io::Error::other)?;
                }
                writer.close().map(|_| ()).map_err(io::Error::other)
            })
        };
        py.detach(write).map_err(|error| run_error(py, &ResultError::io("write", &path, error)))
    }

    /// For pickle: makes the table from the bytes that `__reduce__` gave.
    #[staticmethod]
    fn _restore(bytes: &[u8]) -> PyResult<Self> {
        Table::of_ipc(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// For pickle.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.get().to_ipc().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((slf.get_type().getattr("_restore")?, (PyBytes::new(slf.py(), &bytes),)))
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows()
    }

    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Units of the columns that have one, by name: "s", "B", "bit/s", "ms", "packets".
    #[getter]
    fn units(&self) -> BTreeMap<String, String> {
        let unit = |field: &Field| Some((field.name().clone(), field.metadata().get("unit")?.clone()));
        self.schema.fields().iter().filter_map(|field| unit(field)).collect()
    }

    /// What each column holds, by name.
    #[getter]
    fn descriptions(&self) -> BTreeMap<String, String> {
        let about =
            |field: &Field| Some((field.name().clone(), field.metadata().get("description")?.clone()));
        self.schema.fields().iter().filter_map(|field| about(field)).collect()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    /// The names of the columns, as of a dictionary.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.column_names().into_pyobject(py)?.call_method0("__iter__")
    }

    fn __contains__(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }

    /// The values of a column as a list; nulls are `None`.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Some((index, _)) = self.schema.column_with_name(name) else {
            return Err(PyKeyError::new_err(format!(
                "no column {name:?}; the columns are {}",
                self.column_names().join(", ")
            )));
        };
        let list = PyList::empty(py);
        for batch in &self.batches {
            append(py, &list, batch.column(index))?;
        }
        Ok(list)
    }

    /// The table as an Arrow C stream (Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer that cannot convert to give its own schema.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// The schema as an Arrow C schema (Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table as a polars frame; needs polars.
    fn polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("warpline._frames")?.call_method1("to_polars", (slf,))
    }

    /// The table as a pandas frame; needs pandas and pyarrow.
    fn pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("warpline._frames")?.call_method1("to_pandas", (slf,))
    }

    /// The table as a pyarrow table; needs pyarrow.
    fn pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("warpline._frames")?.call_method1("to_pyarrow", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<warpline.Table: {} rows of {}>", self.rows(), self.column_names().join(", "))
    }
}
