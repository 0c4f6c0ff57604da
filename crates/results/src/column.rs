//! Columns: how a field of a row becomes an Arrow array and back, and the macro that derives a table from a row struct.
//!
//! A table is said once, as a struct whose doc comments are also the column descriptions in the files.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{PrimitiveBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;

/// A word out of a small vocabulary; stored as an Arrow dictionary.
pub type Word = Cow<'static, str>;

/// A value that can stand in a column.
pub(crate) trait Cell: Sized {
    /// The Arrow type of the column.
    fn data_type() -> DataType;
    /// Whether the column may hold nulls.
    const NULLABLE: bool = false;
    /// The column of these values.
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;
    /// The value in a row of a column; none where the column has another type or an unexpected null.
    fn value(array: &dyn Array, row: usize) -> Option<Self>;
    /// Replaces what has no place in a result: a float that is not finite becomes zero, or absent where that is allowed.
    fn make_finite(&mut self) {}
}

macro_rules! number_cell {
    ($type:ty, $arrow:ty, $data_type:expr) => {
        impl Cell for $type {
            fn data_type() -> DataType {
                $data_type
            }
            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let mut builder = PrimitiveBuilder::<$arrow>::new();
                values.for_each(|value| builder.append_value(*value));
                Arc::new(builder.finish())
            }
            fn value(array: &dyn Array, row: usize) -> Option<Self> {
                let array = array.as_primitive_opt::<$arrow>()?;
                array.is_valid(row).then(|| array.value(row))
            }
        }
        impl Cell for Option<$type> {
            fn data_type() -> DataType {
                $data_type
            }
            const NULLABLE: bool = true;
            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let mut builder = PrimitiveBuilder::<$arrow>::new();
                values.for_each(|value| builder.append_option(*value));
                Arc::new(builder.finish())
            }
            fn value(array: &dyn Array, row: usize) -> Option<Self> {
                let array = array.as_primitive_opt::<$arrow>()?;
                Some(array.is_valid(row).then(|| array.value(row)))
            }
        }
    };
}
number_cell!(u8, UInt8Type, DataType::UInt8);
number_cell!(u32, UInt32Type, DataType::UInt32);
number_cell!(u64, UInt64Type, DataType::UInt64);

impl Cell for f64 {
    fn data_type() -> DataType {
        DataType::Float64
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = PrimitiveBuilder::<Float64Type>::new();
        values.for_each(|value| builder.append_value(if value.is_finite() { *value } else { 0.0 }));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_primitive_opt::<Float64Type>()?;
        array.is_valid(row).then(|| array.value(row))
    }
    fn make_finite(&mut self) {
        if !self.is_finite() {
            *self = 0.0;
        }
    }
}
impl Cell for Option<f64> {
    fn data_type() -> DataType {
        DataType::Float64
    }
    const NULLABLE: bool = true;
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = PrimitiveBuilder::<Float64Type>::new();
        values.for_each(|value| builder.append_option(value.filter(|v| v.is_finite())));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_primitive_opt::<Float64Type>()?;
        Some(array.is_valid(row).then(|| array.value(row)))
    }
    fn make_finite(&mut self) {
        *self = self.filter(|value| value.is_finite());
    }
}

impl Cell for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        Arc::new(BooleanArray::from(values.copied().collect::<Vec<_>>()))
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_boolean_opt()?;
        array.is_valid(row).then(|| array.value(row))
    }
}

impl Cell for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = StringBuilder::new();
        values.for_each(|value| builder.append_value(value));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_string_opt::<i32>()?;
        array.is_valid(row).then(|| array.value(row).to_owned())
    }
}
impl Cell for Option<String> {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = true;
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = StringBuilder::new();
        values.for_each(|value| builder.append_option(value.as_deref()));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_string_opt::<i32>()?;
        Some(array.is_valid(row).then(|| array.value(row).to_owned()))
    }
}

fn word_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

impl Cell for Word {
    fn data_type() -> DataType {
        word_type()
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        values.for_each(|value| builder.append_value(value));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        Option::<Word>::value(array, row).flatten()
    }
}
impl Cell for Option<Word> {
    fn data_type() -> DataType {
        word_type()
    }
    const NULLABLE: bool = true;
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        values.for_each(|value| builder.append_option(value.as_deref()));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_dictionary_opt::<Int32Type>()?;
        let words = array.values().as_string_opt::<i32>()?;
        Some(array.key(row).map(|key| Cow::Owned(words.value(key).to_owned())))
    }
}

/// A row of a result table.
pub trait Row: Sized + Send + Sync {
    /// The table's name: "flows".
    const TABLE: &'static str;
    /// Columns of numbers that say which row it is, as texts do, and measure nothing: times, and numbers of flows and links.
    const KEYS: &'static [&'static str];
    /// The table's columns, with "unit" and "description" in each field's metadata.
    fn schema() -> arrow_schema::SchemaRef;
    /// The rows as an Arrow record batch.
    ///
    /// # Errors
    /// Never for rows that fit into memory; Arrow's own checks are passed on.
    fn batch(rows: &[Self]) -> Result<arrow_array::RecordBatch, arrow_schema::ArrowError>;
    /// The rows of a record batch, whatever the order of its columns.
    ///
    /// # Errors
    /// Says which column is missing or of another type.
    fn read(batch: &arrow_array::RecordBatch) -> Result<Vec<Self>, String>;
    /// Replaces floats that are not finite: zero, or absent where that is allowed.
    fn make_finite(&mut self);
}

/// Declares a row struct and its table. Each column has a doc comment (its description), a name, a type and a unit; one of numbers that
/// only says which row it is has the word `key` after the unit.
macro_rules! table {
    (
        $(#[$attribute:meta])*
        pub struct $row:ident: $table:literal {
            $( $(#[doc = $doc:literal])+ $column:ident: $type:ty [$unit:literal $($key:ident)?], )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $row {
            $( $(#[doc = $doc])+ pub $column: $type, )+
        }

        impl $crate::column::Row for $row {
            const TABLE: &'static str = $table;
            const KEYS: &'static [&'static str] = &[ $( $( (stringify!($column), stringify!($key)).0, )? )+ ];

            fn schema() -> arrow_schema::SchemaRef {
                use $crate::column::{Cell, field};
                std::sync::Arc::new(arrow_schema::Schema::new(vec![
                    $( field(
                        stringify!($column),
                        <$type as Cell>::data_type(),
                        <$type as Cell>::NULLABLE,
                        $unit,
                        concat!($($doc),+),
                    ), )+
                ]))
            }

            fn batch(rows: &[Self]) -> Result<arrow_array::RecordBatch, arrow_schema::ArrowError> {
                use $crate::column::Cell;
                arrow_array::RecordBatch::try_new(
                    Self::schema(),
                    vec![ $( <$type as Cell>::array(rows.iter().map(|row| &row.$column)), )+ ],
                )
            }

            fn read(batch: &arrow_array::RecordBatch) -> Result<Vec<Self>, String> {
                use $crate::column::{Cell, lookup};
                $( let $column = lookup(batch, stringify!($column))?; )+
                (0..batch.num_rows())
                    .map(|row| Ok($row {
                        $( $column: <$type as Cell>::value($column, row).ok_or_else(|| format!(
                            "column `{}` of table `{}` holds {} in row {row}, where {} is expected",
                            stringify!($column), $table, $column.data_type(), <$type as Cell>::data_type(),
                        ))?, )+
                    }))
                    .collect()
            }

            fn make_finite(&mut self) {
                use $crate::column::Cell;
                $( self.$column.make_finite(); )+
            }
        }
    };
}
pub(crate) use table;

/// A schema field with its documentation.
pub(crate) fn field(
    name: &str,
    data_type: DataType,
    nullable: bool,
    unit: &str,
    description: &str,
) -> arrow_schema::Field {
    let metadata = [("unit", unit), ("description", description.trim())]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (key.to_owned(), text.to_owned()));
    arrow_schema::Field::new(name, data_type, nullable).with_metadata(metadata.collect())
}

/// The column of that name.
pub(crate) fn lookup<'a>(batch: &'a arrow_array::RecordBatch, name: &str) -> Result<&'a dyn Array, String> {
    batch.column_by_name(name).map(|column| &**column).ok_or_else(|| {
        let names: Vec<_> = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        format!("it has no column `{name}` (columns: {})", names.join(", "))
    })
}
