//! What a page takes of all rows of a run's tables, while each table is read once and part by part. Of a long table, only the rows that matter
//! most stay in memory.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use warpline_results::{Row as _, TransferRow};

use super::ReportError;
use super::data::Table;
use super::folds::{Folds, counted_rows};
use super::series::{Candidate, Candidates};
use super::tables::read_parts;

/// What is taken of all flows, or of all links.
#[derive(Default)]
pub(super) struct Everybody {
    /// Their names, by number.
    pub(super) names: BTreeMap<u32, String>,
    /// Those that the page may show over time.
    pub(super) candidates: Candidates,
}

impl Everybody {
    /// Their number is in the column `id`, their weight in the first of `weights` that the table has.
    fn add(&mut self, part: &Table, id: &str, weights: &[&str]) {
        self.names.extend(texts(part, id, "name"));
        self.candidates.add(candidates(part, id, weights));
    }
}

/// What has been taken so far.
pub(super) struct Gathered {
    warmup_s: f64,
    pub(super) folds: Folds,
    pub(super) flows: Everybody,
    pub(super) links: Everybody,
    /// The group of each flow.
    groups: BTreeMap<u32, String>,
    /// Completion times of the transfers after the warm-up, by group: all of them, since quantiles are made of them.
    pub(super) completion_s: BTreeMap<String, Vec<f64>>,
}

impl Gathered {
    /// Before the first table. Figures leave out `warmup_s`.
    pub(super) fn new(warmup_s: f64) -> Gathered {
        Gathered {
            warmup_s,
            folds: Folds::new(),
            flows: Everybody::default(),
            links: Everybody::default(),
            groups: BTreeMap::new(),
            completion_s: BTreeMap::new(),
        }
    }

    /// Reads the table called `id` of the run in `dir`, or takes the rows that are `listed` where the run has no such file. Returns the rows that
    /// the page shows, `max_rows` at the most; none where there is no such table. Flows must come before transfers.
    pub(super) fn read(
        &mut self,
        dir: &Path,
        id: &str,
        listed: Option<Table>,
        max_rows: usize,
    ) -> Result<Option<Table>, ReportError> {
        let mut shown = Table { id: id.to_owned(), ..Table::default() };
        let mut take = |part: Table| {
            self.add(&part);
            append(&mut shown, part);
            shorten(&mut shown, max_rows);
        };
        if !read_parts(dir, id, &mut take)? {
            let Some(listed) = listed else { return Ok(None) };
            take(listed);
        }
        Ok(Some(shown))
    }

    /// Takes what is needed of a part of a table.
    fn add(&mut self, part: &Table) {
        self.folds.add(part, self.warmup_s);
        match part.id.as_str() {
            "flows" => {
                self.groups.extend(texts(part, "flow", "group"));
                self.flows.add(part, "flow", &["delivered_bytes", "goodput_bps"]);
            }
            "links" => self.links.add(part, "link", &["arrivals", "sent_bytes"]),
            TransferRow::TABLE => self.add_transfers(part),
            _ => {}
        }
    }

    fn add_transfers(&mut self, part: &Table) {
        let (Some(names), Some(times)) = (part.column("name"), part.column("completion_s")) else { return };
        let flows = part.column("flow");
        for row in counted_rows(part, self.warmup_s) {
            let (Some(name), Some(time)) = (names[row].as_str(), times[row].as_f64()) else { continue };
            let flow = flows.and_then(|flows| u32::try_from(flows[row].as_u64()?).ok());
            let known = flow.and_then(|flow| self.groups.get(&flow));
            let group = known.map_or_else(|| group_of(name), String::as_str);
            match self.completion_s.get_mut(group) {
                Some(own) => own.push(time),
                None => _ = self.completion_s.insert(group.to_owned(), vec![time]),
            }
        }
    }
}

/// The texts of a column, each with the number in the column `id`.
fn texts(part: &Table, id: &str, column: &str) -> Vec<(u32, String)> {
    let (Some(ids), Some(texts)) = (part.column(id), part.column(column)) else { return Vec::new() };
    ids.iter()
        .zip(texts)
        .filter_map(|(id, text)| Some((u32::try_from(id.as_u64()?).ok()?, text.as_str()?.to_owned())))
        .collect()
}

/// The name of the group that a flow is in, from its own name: "web" of "web.17". The group's may have dots, too.
fn group_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((group, number)) if number.parse::<u64>().is_ok() => group,
        _ => name,
    }
}

/// Everybody in a part of a table, weighted by the first of `weights` that the table has.
fn candidates(part: &Table, id: &str, weights: &[&str]) -> Vec<Candidate> {
    let weight = weights.iter().find_map(|name| part.column(name));
    let rate = part.column("rate_bps");
    let cell = |column: Option<&[Value]>, row: usize| column.and_then(|c| c[row].as_f64());
    let (Some(ids), Some(names)) = (part.column(id), part.column("name")) else { return Vec::new() };
    ids.iter()
        .zip(names)
        .enumerate()
        .filter_map(|(row, (id, name))| {
            Some(Candidate {
                id: u32::try_from(id.as_u64()?).ok()?,
                name: name.as_str()?.to_owned(),
                weight: cell(weight, row).unwrap_or(0.0),
                rate_bps: cell(rate, row).filter(|r| *r > 0.0),
            })
        })
        .collect()
}

/// Puts the rows of the next part of a table behind those that are there.
fn append(table: &mut Table, part: Table) {
    table.total_rows += part.total_rows;
    if table.columns.is_empty() {
        (table.columns, table.cells) = (part.columns, part.cells);
    } else {
        table.cells.iter_mut().zip(part.cells).for_each(|(column, more)| column.extend(more));
    }
}

/// By which column the rows of a table matter, and which rows matter most, in words.
pub(super) fn importance(table: &str) -> (&'static str, &'static str) {
    match table {
        "transfers" => ("completion_s", "the slowest"),
        "flows" => ("delivered_bytes", "those that delivered most"),
        _ => ("arrivals", "the busiest"),
    }
}

/// Keeps the `max_rows` rows of a longer table that matter most, in their order. Those that remain are the same whether this is done once, with all
/// rows, or after each part.
pub(super) fn shorten(table: &mut Table, max_rows: usize) {
    if table.rows() <= max_rows {
        return;
    }
    let (key, _) = importance(&table.id);
    // Without a value (a transfer that never finished) first.
    let weight: Vec<f64> = match table.column(key) {
        Some(cells) => cells.iter().map(|v| v.as_f64().unwrap_or(f64::INFINITY)).collect(),
        None => vec![0.0; table.rows()],
    };
    let mut order: Vec<usize> = (0..table.rows()).collect();
    order.select_nth_unstable_by(max_rows, |&a, &b| weight[b].total_cmp(&weight[a]).then(a.cmp(&b)));
    order.truncate(max_rows);
    order.sort_unstable();
    for column in &mut table.cells {
        *column = order.iter().map(|&row| std::mem::take(&mut column[row])).collect();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tables::rows_to_table;

    /// The names and numbers of samples of the completion times of transfers of these flows, all after the warm-up but for the first.
    fn completion_times(flows: Option<&Value>, names: [&str; 4]) -> Vec<(String, usize)> {
        let row = |(flow, name): (usize, &str)| json!({ "flow": flow, "name": name, "start_s": flow as f64, "completion_s": 0.25 });
        let transfers = Value::Array(names.into_iter().enumerate().map(row).collect());
        let flows = flows.and_then(|rows| rows_to_table("flows", rows));
        let mut gathered = Gathered::new(1.0);
        for table in flows.into_iter().chain(rows_to_table("transfers", &transfers)) {
            gathered.add(&table);
        }
        gathered.completion_s.into_iter().map(|(group, times)| (group, times.len())).collect()
    }

    #[test]
    fn completion_times_are_of_the_groups_that_the_flows_are_in_without_the_warm_up() {
        let names = ["nice-0.5.0", "nice-0.5.1", "nice-0.25.2", "web"];
        let group = |name: &str, samples: usize| (name.to_owned(), samples);
        let by_name = [group("nice-0.25", 1), group("nice-0.5", 1), group("web", 1)];
        assert_eq!(completion_times(None, names), by_name);
        let flows = json!([{ "flow": 1, "group": "a.b" }, { "flow": 2, "group": "a.b" }]);
        assert_eq!(completion_times(Some(&flows), names), [group("a.b", 2), group("web", 1)]);
    }

    #[test]
    fn a_long_table_keeps_the_same_rows_in_whatever_parts_it_comes() {
        let times = [Some(0.5), None, Some(2.0), Some(1.0), Some(2.0), Some(0.25), Some(2.0), None];
        let row = |(n, time): (usize, Option<f64>)| json!({ "transfer": n, "completion_s": time });
        let rows: Vec<Value> = times.into_iter().enumerate().map(row).collect();
        let kept = |part: usize, max_rows: usize| {
            let mut shown = Table { id: "transfers".to_owned(), ..Table::default() };
            for rows in rows.chunks(part) {
                append(&mut shown, rows_to_table("transfers", &json!(rows)).unwrap());
                shorten(&mut shown, max_rows);
            }
            assert_eq!(shown.total_rows, 8);
            json!(shown.column("transfer"))
        };
        for part in 1..=8 {
            // Those that never finished, and the slowest others; of those alike, the first.
            assert_eq!(kept(part, 4), json!([1, 2, 4, 7]), "in parts of {part}");
            assert_eq!(kept(part, 8), json!([0, 1, 2, 3, 4, 5, 6, 7]), "in parts of {part}");
        }
    }
}
