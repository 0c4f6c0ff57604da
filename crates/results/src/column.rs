//! Columns: how a field of a row becomes an Arrow array and back, and the macro that declares a table.
//!
//! A column is declared once: its name, type, unit and meaning, what becomes of it where several rows are one, whether it is compared and
//! where it is shown. Files, the terminal, comparisons, pages, Python's types and the book follow from that.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{PrimitiveBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;

use crate::declaration::{Column, ColumnInfo, Kind, Scalar};

/// A word out of a small vocabulary; stored as an Arrow dictionary.
pub type Word = Cow<'static, str>;

/// A value that can stand in a column.
pub(crate) trait Cell: Sized {
    /// The Arrow type of the column.
    fn data_type() -> DataType;
    /// What kind of value it has.
    const KIND: Kind;
    /// Whether the column may hold nulls.
    const NULLABLE: bool = false;
    /// The value, for whoever does not care for its type.
    fn scalar(&self) -> Scalar<'_>;
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
            const KIND: Kind = Kind::Whole;
            fn data_type() -> DataType {
                $data_type
            }
            fn scalar(&self) -> Scalar<'_> {
                Scalar::Whole(u64::from(*self))
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
            const KIND: Kind = Kind::Whole;
            const NULLABLE: bool = true;
            fn data_type() -> DataType {
                $data_type
            }
            fn scalar(&self) -> Scalar<'_> {
                self.map_or(Scalar::Absent, |value| Scalar::Whole(u64::from(value)))
            }
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
    const KIND: Kind = Kind::Float;
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
    fn scalar(&self) -> Scalar<'_> {
        Scalar::Float(*self)
    }
}
impl Cell for Option<f64> {
    const KIND: Kind = Kind::Float;
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        DataType::Float64
    }
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
    fn scalar(&self) -> Scalar<'_> {
        self.map_or(Scalar::Absent, Scalar::Float)
    }
}

impl Cell for bool {
    const KIND: Kind = Kind::Truth;
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
    fn scalar(&self) -> Scalar<'_> {
        Scalar::Truth(*self)
    }
}

impl Cell for String {
    const KIND: Kind = Kind::Text;
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
    fn scalar(&self) -> Scalar<'_> {
        Scalar::Text(Cow::Borrowed(self))
    }
}
impl Cell for Option<String> {
    const KIND: Kind = Kind::Text;
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut builder = StringBuilder::new();
        values.for_each(|value| builder.append_option(value.as_deref()));
        Arc::new(builder.finish())
    }
    fn value(array: &dyn Array, row: usize) -> Option<Self> {
        let array = array.as_string_opt::<i32>()?;
        Some(array.is_valid(row).then(|| array.value(row).to_owned()))
    }
    fn scalar(&self) -> Scalar<'_> {
        self.as_deref().map_or(Scalar::Absent, |text| Scalar::Text(Cow::Borrowed(text)))
    }
}

fn word_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

impl Cell for Word {
    const KIND: Kind = Kind::Text;
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
    fn scalar(&self) -> Scalar<'_> {
        Scalar::Text(Cow::Borrowed(self))
    }
}
impl Cell for Option<Word> {
    const KIND: Kind = Kind::Text;
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        word_type()
    }
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
    fn scalar(&self) -> Scalar<'_> {
        self.as_deref().map_or(Scalar::Absent, |text| Scalar::Text(Cow::Borrowed(text)))
    }
}

/// A row of a result table.
pub trait Row: Sized + Send + Sync + 'static {
    /// The table's name: "flows".
    const TABLE: &'static str;
    /// What a row of the table is.
    const ABOUT: &'static str;
    /// The columns, in the order of the file.
    const COLUMNS: &'static [Column<Self>];
    /// Columns that are not in the file, because they follow from the others.
    const COMPUTED: &'static [Column<Self>];
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

/// What is declared of a column of these values, up to the words after its unit.
pub(crate) const fn info<T: Cell>(name: &'static str, unit: &str, about: &'static str) -> ColumnInfo {
    ColumnInfo::new(name, unit, about, T::KIND, T::NULLABLE)
}

/// All columns of a row type, those that are not in the file last.
pub(crate) fn columns<R: Row>() -> impl Iterator<Item = &'static Column<R>> {
    R::COLUMNS.iter().chain(R::COMPUTED)
}

/// Declares a row struct and its table: everything that is said of a column, anywhere, follows from here.
///
/// Each column has a doc comment (its description), a name, a type, and in brackets its unit ([`Unit::declared`](crate::Unit)) and words
/// for what else is to be known of it, which are methods of [`ColumnInfo`]: `key`, `compared`, `sum`, `mean` or `max`
/// (of several rows), `terminal(place, heading)`, `if_any`, `called(heading)`, `drawn(quantity)`, `ticks`.
///
/// What stands under `computed` is in no file. A struct with `from` is made of something else by its function `new`: each column has its
/// formula, and `rest` is a field that is no column.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        pub struct $row:ident: $table:literal $(#[$attribute:meta])* {
            $( $(#[doc = $doc:literal])+ $column:ident: $type:ty [$unit:literal $($word:ident $(($($value:expr),+))?)*], )+
        }
        $( computed $of:ident {
            $( $(#[doc = $also_doc:literal])+ $also:ident: $also_type:ty
                [$also_unit:literal $($also_word:ident $(($($also_value:expr),+))?)*] = $formula:expr, )+
        } )?
        $( rest { $(#[$rest_attribute:meta])* $rest:ident: $rest_type:ty } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$attribute])*
        pub struct $row {
            $( $(#[doc = $doc])+ pub $column: $type, )+
            $( $(#[$rest_attribute])* pub $rest: $rest_type, )?
        }

        impl $crate::column::Row for $row {
            const TABLE: &'static str = $table;
            const ABOUT: &'static str = concat!($($about),+);
            const COLUMNS: &'static [$crate::declaration::Column<Self>] = &[ $( $crate::declaration::Column {
                info: $crate::column::info::<$type>(stringify!($column), $unit, concat!($($doc),+))
                    $( .$word($($($value),+)?) )*,
                value: |row| $crate::column::Cell::scalar(&row.$column),
            }, )+ ];
            const COMPUTED: &'static [$crate::declaration::Column<Self>] = &[ $( $( $crate::declaration::Column {
                info: $crate::column::info::<$also_type>(stringify!($also), $also_unit, concat!($($also_doc),+))
                    $( .$also_word($($($also_value),+)?) )*,
                value: |$of| {
                    let value: $also_type = $formula;
                    $crate::column::Cell::scalar(&value).into_owned()
                },
            }, )+ )? ];

            fn schema() -> arrow_schema::SchemaRef {
                use $crate::column::{Cell, field};
                let types = [ $( <$type as Cell>::data_type(), )+ ];
                let fields = Self::COLUMNS.iter().zip(types).map(|(column, data_type)| field(&column.info, data_type));
                std::sync::Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()))
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
                        $( $rest: <$rest_type>::default(), )?
                    }))
                    .collect()
            }

            fn make_finite(&mut self) {
                use $crate::column::Cell;
                $( self.$column.make_finite(); )+
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        pub struct $row:ident: $table:literal $(#[$attribute:meta])* from ($($of:ident: $source:ty),+) {
            $( $(#[doc = $doc:literal])+ $column:ident: $type:ty [$($declared:tt)+] = $formula:expr, )+
        }
        $( rest { $(#[$rest_attribute:meta])* $rest:ident: $rest_type:ty = $rest_formula:expr } )?
    ) => {
        $crate::column::table! {
            $(#[doc = $about])+
            pub struct $row: $table $(#[$attribute])* {
                $( $(#[doc = $doc])+ $column: $type [$($declared)+], )+
            }
            $( rest { $(#[$rest_attribute])* $rest: $rest_type } )?
        }

        impl $row {
            /// Works it out.
            pub fn new($($of: $source),+) -> $row {
                $row { $( $column: $formula, )+ $( $rest: $rest_formula, )? }
            }
        }
    };
}
pub(crate) use table;

/// A schema field with its documentation.
pub(crate) fn field(info: &ColumnInfo, data_type: DataType) -> arrow_schema::Field {
    let metadata = [("unit", info.unit.symbol()), ("description", info.about())]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (key.to_owned(), text.to_owned()));
    arrow_schema::Field::new(info.name, data_type, info.optional).with_metadata(metadata.collect())
}

/// The column of that name.
pub(crate) fn lookup<'a>(batch: &'a arrow_array::RecordBatch, name: &str) -> Result<&'a dyn Array, String> {
    batch.column_by_name(name).map(|column| &**column).ok_or_else(|| {
        let names: Vec<_> = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        format!("it has no column `{name}` (columns: {})", names.join(", "))
    })
}
