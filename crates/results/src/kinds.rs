//! The tables that a run has, each by its name and its row type: the one list of them.

use arrow_schema::{DataType, Field, SchemaRef};

use crate::column::Row;
use crate::declaration::ColumnInfo;
use crate::error::ResultError;
use crate::events::{PacketRow, TcpRow};
use crate::fast_forward::{AuditedMeasure, FastForwardSummary, Stretch};
use crate::live::DilationStep;
use crate::rows::{FlowRow, FlowSample, LinkRow, LinkSample, TransferRow};
use crate::run::Run;
use crate::sizes::SizeSummary;
use crate::summary::{GroupSummary, InputFile, RunInfo, Totals, folded_columns};
use crate::tables::Table;

/// Makes everything that goes through all tables from a list of them, in the order in which they are documented.
macro_rules! all_tables {
    ($( $(#[doc = $doc:literal])+ $name:ident: $row:ty, )+) => {
        /// All tables of a run, in memory.
        #[derive(Clone, Debug)]
        pub struct Tables {
            $( $(#[doc = $doc])+ pub $name: Table, )+
        }

        impl Tables {
            /// The tables under their names, in the order of this struct.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Table)> {
                [ $( (<$row>::TABLE, &self.$name), )+ ].into_iter()
            }

            /// All tables of a run directory.
            ///
            /// # Errors
            /// If a file cannot be read.
            pub fn read(run: &Run) -> Result<Tables, ResultError> {
                Ok(Tables { $( $name: run.table::<$row>()?, )+ })
            }

            /// All tables, each made by `table`, which is called with its name.
            ///
            /// # Errors
            /// The first error that `table` returns.
            pub fn each<E>(mut table: impl FnMut(&'static str) -> Result<Table, E>) -> Result<Tables, E> {
                Ok(Tables { $( $name: table(<$row>::TABLE)?, )+ })
            }
        }

        impl TableKind {
            /// All tables, in the order in which they are documented.
            pub fn all() -> Vec<TableKind> {
                vec![ $( Self::of::<$row>(), )+ ]
            }
        }
    };
}

all_tables! {
    /// A row per flow ([`FlowRow`]).
    flows: FlowRow,
    /// A row per transfer ([`TransferRow`]).
    transfers: TransferRow,
    /// A row per link direction ([`LinkRow`]).
    links: LinkRow,
    /// Flows over time ([`FlowSample`]).
    series_flows: FlowSample,
    /// Links over time ([`LinkSample`]).
    series_links: LinkSample,
    /// TCP events of the recorded flows ([`TcpRow`]).
    tcp: TcpRow,
    /// Packet events of the recorded links ([`PacketRow`]).
    packets: PacketRow,
    /// How a dilated run's time went ([`DilationStep`]).
    dilation: DilationStep,
}

/// The column with the seed.
pub(crate) const SEED: &str = "seed";
/// The column with the name of a flow or a link.
pub(crate) const NAME: &str = "name";

/// A table, as it is declared.
#[derive(Clone, Debug)]
pub struct TableKind {
    /// Its name: "flows".
    pub name: &'static str,
    /// What a row of it is.
    pub about: &'static str,
    /// Its columns in a file.
    pub schema: SchemaRef,
    /// What is declared of them.
    pub columns: Vec<ColumnInfo>,
}

impl TableKind {
    fn of<R: Row>() -> TableKind {
        let columns = R::COLUMNS.iter().map(|column| column.info).collect();
        TableKind { name: R::TABLE, about: R::ABOUT.trim(), schema: R::schema(), columns }
    }

    /// The tables that only the summary has, and what it says of the run and its totals, in its order.
    pub fn of_summary() -> Vec<TableKind> {
        let mut groups = Self::of::<GroupSummary>();
        groups.columns.extend(folded_columns().filter_map(|(column, _)| column.info.folded()));
        vec![
            Self::of::<RunInfo>(),
            Self::of::<Totals>(),
            groups,
            Self::of::<SizeSummary>(),
            Self::of::<InputFile>(),
            Self::of::<FastForwardSummary>(),
            Self::of::<Stretch>(),
            Self::of::<AuditedMeasure>(),
        ]
    }

    /// The table of this name, be it in a file or in the summary.
    pub fn declared(name: &str) -> Option<TableKind> {
        Self::all().into_iter().chain(Self::of_summary()).find(|kind| kind.name == name)
    }

    /// What is declared of a column.
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<TableKind> {
        Self::all().into_iter().find(|kind| kind.name == name)
    }

    /// Its file in a run directory.
    pub fn file(&self) -> String {
        format!("{}.parquet", self.name)
    }

    /// This table of a run; empty where nothing of it was recorded.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, run: &Run) -> Result<Table, ResultError> {
        run.named_table(self.name, self.schema.clone())
    }

    /// Whether a column says which row it is: a key, or a text.
    pub(crate) fn is_label(&self, field: &Field) -> bool {
        self.column(field.name()).is_some_and(|column| column.key)
            || matches!(field.data_type(), DataType::Utf8 | DataType::Dictionary(..))
            || [SEED, NAME].contains(&field.name().as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_says_which_row_it_is() {
        for kind in TableKind::all() {
            let keys: Vec<&ColumnInfo> = kind.columns.iter().filter(|column| column.key).collect();
            for key in &keys {
                let (_, field) = kind.schema.column_with_name(key.name).unwrap();
                assert!(field.data_type().is_numeric(), "{} of {}", key.name, kind.name);
            }
            assert!(!keys.is_empty() && kind.schema.fields().iter().any(|field| !kind.is_label(field)));
        }
    }
}
