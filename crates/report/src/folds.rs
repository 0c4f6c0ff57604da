//! What the rows of a table make as one value, for a page on several runs: of the columns whose declarations say how (`sum`, `mean`, `max`).

use serde_json::{Value, json};
use warpline_results::{ColumnInfo, FlowRow, Fold, LinkRow, Row, Scalar, TransferRow};

use super::data::Table;
use super::heads::cell_kind;

/// A column that is folded.
struct Folded {
    table: &'static str,
    column: &'static ColumnInfo,
    fold: Fold,
}

/// Those of a table.
fn of<R: Row>() -> impl Iterator<Item = Folded> {
    let info = R::COLUMNS.iter().map(|column| &column.info);
    info.filter_map(|column| Some(Folded { table: R::TABLE, column, fold: column.fold? }))
}

/// All of them, in the order of the page.
fn all() -> impl Iterator<Item = Folded> {
    of::<FlowRow>().chain(of::<LinkRow>()).chain(of::<TransferRow>())
}

/// What the page calls them.
pub(super) fn heads() -> Vec<Value> {
    let head = |Folded { table, column, fold }: Folded| {
        let heading = column.heading();
        let label = match fold {
            Fold::Sum => heading.into_owned(),
            Fold::Mean => format!("{heading} (mean of {table})"),
            Fold::Max => format!("{heading} (largest of {table})"),
        };
        json!({ "label": label, "kind": cell_kind(column) })
    };
    all().map(head).collect()
}

/// Their values over all rows of a run's tables, in the order of [`heads`]; none where no row has one.
pub(super) fn values(tables: &[Table], warmup_s: f64) -> Vec<Option<f64>> {
    let value = |Folded { table, column, fold }: Folded| {
        let table = tables.iter().find(|own| own.id == table)?;
        let cells = table.column(column.name)?;
        let numbers: Vec<f64> = counted_rows(table, warmup_s).filter_map(|row| cells[row].as_f64()).collect();
        if numbers.is_empty() {
            return None;
        }
        fold.of(numbers.into_iter().map(Scalar::Float)).number()
    };
    all().map(value).collect()
}

/// The rows of a table that count: all but the transfers that began during the warm-up, as in the summary.
pub(super) fn counted_rows(table: &Table, warmup_s: f64) -> impl Iterator<Item = usize> {
    let starts = table.column("start_s").filter(|_| table.id == TransferRow::TABLE);
    let start = move |row: usize| starts.and_then(|starts| starts[row].as_f64());
    (0..table.rows()).filter(move |&row| start(row).is_none_or(|start_s| start_s >= warmup_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(id: &str, columns: &[(&str, Vec<f64>)]) -> Table {
        Table {
            id: id.to_owned(),
            columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            cells: columns.iter().map(|(_, cells)| cells.iter().map(|&cell| cell.into()).collect()).collect(),
            total_rows: columns[0].1.len(),
        }
    }

    #[test]
    fn columns_fold_as_they_are_declared_and_transfers_of_the_warm_up_do_not_count() {
        // Figures of flows are those after the warm-up, whenever they begin.
        let flows =
            [("start_s", vec![0.0, 2.0]), ("rtos", vec![1.0, 3.0]), ("latency_mean_ms", vec![10.0, 20.0])];
        let links = [("utilisation", vec![0.5, 0.75, f64::NAN])];
        let transfers = [("start_s", vec![0.5, 1.0, 3.0]), ("completion_s", vec![100.0, 1.0, 2.0])];
        let tables = [table("flows", &flows), table("links", &links), table("transfers", &transfers)];
        let values = values(&tables, 1.0);
        let heads = heads();
        assert_eq!(values.len(), heads.len());
        let of = |label: &str| {
            let place = heads.iter().position(|head| head["label"] == label);
            values[place.unwrap_or_else(|| panic!("{label} is not among {heads:?}"))]
        };
        assert_eq!((of("Time-outs"), of("Latency mean (mean of flows)")), (Some(4.0), Some(15.0)));
        assert_eq!(of("Utilisation (largest of links)"), Some(0.75));
        assert_eq!(of("Completion time (mean of transfers)"), Some(1.5));
        assert_eq!((of("Lost"), of("Slowdown (mean of transfers)")), (None, None));
    }
}
