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

/// What all of them come to, while the rows of a run's tables are read.
pub(super) struct Folds(Vec<Running>);

/// One of them.
struct Running {
    folded: Folded,
    /// The largest value so far, or the sum: a mean is made of one, too.
    value: Scalar<'static>,
    /// How many values there were.
    count: usize,
}

impl Folds {
    /// Before the first row.
    pub(super) fn new() -> Folds {
        Folds(all().map(|folded| Running { folded, value: Scalar::Absent, count: 0 }).collect())
    }

    /// Counts the rows of a part of a table.
    pub(super) fn add(&mut self, part: &Table, warmup_s: f64) {
        for Running { folded, value, count } in self.0.iter_mut().filter(|own| own.folded.table == part.id) {
            let Some(cells) = part.column(folded.column.name) else { continue };
            let rows = counted_rows(part, warmup_s);
            let numbers: Vec<f64> = rows.filter_map(|row| cells[row].as_f64()).collect();
            *count += numbers.len();
            let fold = if folded.fold == Fold::Max { Fold::Max } else { Fold::Sum };
            let before = std::mem::replace(value, Scalar::Absent);
            *value = fold.of(std::iter::once(before).chain(numbers.into_iter().map(Scalar::Float)));
        }
    }

    /// Their values, in the order of [`heads`]; none where no row has one.
    pub(super) fn values(&self) -> Vec<Option<f64>> {
        let value = |Running { folded, value, count }: &Running| {
            let number = value.number().filter(|_| *count > 0)?;
            Some(if folded.fold == Fold::Mean { number / *count as f64 } else { number })
        };
        self.0.iter().map(value).collect()
    }
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
    fn columns_fold_over_all_parts_as_declared_and_transfers_of_the_warm_up_do_not_count() {
        // Figures of flows are those after the warm-up, whenever they begin.
        let flows =
            [("start_s", vec![0.0, 2.0]), ("rtos", vec![1.0, 3.0]), ("latency_mean_ms", vec![10.0, 20.0])];
        let more_flows = [("start_s", vec![5.0]), ("rtos", vec![4.0]), ("latency_mean_ms", vec![60.0])];
        let links = [("utilisation", vec![0.5, 0.75, f64::NAN])];
        let more_links = [("utilisation", vec![f64::NAN, 0.25])];
        let transfers = [("start_s", vec![0.5, 1.0, 3.0]), ("completion_s", vec![100.0, 1.0, 2.0])];
        let early = [("start_s", vec![0.0]), ("completion_s", vec![50.0])];
        let parts = [
            table("flows", &flows),
            table("flows", &more_flows),
            table("links", &links),
            table("links", &more_links),
            table("transfers", &transfers),
            table("transfers", &early),
        ];
        let mut folds = Folds::new();
        parts.iter().for_each(|part| folds.add(part, 1.0));
        let values = folds.values();
        let heads = heads();
        assert_eq!(values.len(), heads.len());
        let of = |label: &str| {
            let place = heads.iter().position(|head| head["label"] == label);
            values[place.unwrap_or_else(|| panic!("{label} is not among {heads:?}"))]
        };
        assert_eq!((of("Time-outs"), of("Latency mean (mean of flows)")), (Some(8.0), Some(30.0)));
        assert_eq!(of("Utilisation (largest of links)"), Some(0.75));
        assert_eq!(of("Completion time (mean of transfers)"), Some(1.5));
        assert_eq!((of("Lost"), of("Slowdown (mean of transfers)")), (None, None));
    }
}
