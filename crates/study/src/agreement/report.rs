//! The outcome of a comparison with Linux: verdicts, the cells that differ most, and all figures, as text, Markdown and JSON.

use std::fmt::Write;

use serde::Serialize;

use super::judge::{Compared, Row, Verdict};

/// How many of the paths that differ most the terminal shows of each congestion control and queue.
const WORST: usize = 3;

/// The comparison of the model with Linux.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Version of the guests' kernel.
    pub kernel: String,
    /// Whether runs were a quarter as long.
    pub quick: bool,
    /// How many paths were run where anything is random.
    pub seeds: u32,
    /// Each congestion control and each queue on its paths.
    pub rows: Vec<Row>,
}

impl Agreement {
    /// The congestion controls and queues, each with its rows.
    fn subjects(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| a.subject == b.subject)
    }

    fn headline(&self) -> String {
        let seeds = if self.seeds == 1 { "one seed".to_owned() } else { format!("{} seeds", self.seeds) };
        let quick = if self.quick { ", quick" } else { "" };
        format!("The model beside Linux {}: {} pairs of runs ({seeds}{quick})", self.kernel, self.rows.len())
    }

    /// The verdicts as text for a terminal, and of each congestion control the cells that differ most.
    pub fn render(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        let wide = self.rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
        let _ = writeln!(text, "  share of the paths      {:wide$}  within 5 %  10 %  or chance", "");
        for rows in self.subjects() {
            for (first, figure, [close, near, chance]) in shares(rows) {
                let _ =
                    writeln!(text, "  {first:<wide$}  {figure:<20}  {close:>10}  {near:>4}  {chance:>9}",);
            }
        }
        for rows in self.subjects() {
            let mut worst: Vec<&Row> = rows.iter().filter(|row| worst_of(row) > Verdict::Near).collect();
            worst.sort_by(|a, b| worst_of(b).cmp(&worst_of(a)).then(difference(b).total_cmp(&difference(a))));
            if let Some(first) = worst.first() {
                let _ = writeln!(text, "\n{}: the paths that differ most, of {}", first.subject, worst.len());
            }
            for row in worst.into_iter().take(WORST) {
                let _ = writeln!(text, "  {}  ({})", row.path, row.scenarios.join(", "));
                for compared in &row.figures {
                    let [linux, model, percent] = cells(compared);
                    let line = format!(
                        "    {:<13}  Linux {linux}, model {model}: {percent}  {}",
                        compared.figure,
                        compared.verdict.word()
                    );
                    let _ = writeln!(text, "{}", line.trim_end());
                }
            }
        }
        text
    }

    /// The same in Markdown, with all figures.
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "{}.\n\n| | figure | within 5 % | within 10 % | or chance |\n|---|---|--:|--:|--:|\n",
            self.headline()
        );
        for rows in self.subjects() {
            for (first, figure, shares) in shares(rows) {
                let _ = writeln!(text, "| {first} | {figure} | {} |", shares.join(" | "));
            }
        }
        for rows in self.subjects() {
            let heads: String =
                rows[0].figures.iter().map(|of| format!(" {}: Linux | model | % |", of.figure)).collect();
            let rule = "--:|--:|--:|".repeat(rows[0].figures.len());
            let _ = writeln!(text, "\n### {}\n\n| path |{heads} |\n|---|{rule}---|", rows[0].subject);
            for row in rows {
                let of: Vec<String> = row.figures.iter().flat_map(cells).collect();
                let _ = writeln!(text, "| {} | {} | {} |", row.path, of.join(" | "), remarks(row));
            }
        }
        text
    }

    /// The same as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and sequences only: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The worst verdict on a row.
fn worst_of(row: &Row) -> Verdict {
    row.figures.iter().map(|compared| compared.verdict).max().unwrap_or(Verdict::Close)
}

/// The largest difference of those with the worst verdict on a row, in percent.
fn difference(row: &Row) -> f64 {
    let worst = worst_of(row);
    let of_worst = row.figures.iter().filter(|compared| compared.verdict == worst);
    of_worst.map(|compared| compared.difference_percent.abs()).fold(0.0, f64::max)
}

/// For each figure of a subject: the subject's name before the first, the figure's name, and the shares of rows in which it is within 5 %, within
/// 10 %, and within that or chance.
fn shares(rows: &[Row]) -> impl Iterator<Item = (&'static str, &'static str, [String; 3])> {
    rows[0].figures.iter().enumerate().map(|(number, first)| {
        let own =
            || rows.iter().flat_map(|row| &row.figures).filter(|compared| compared.figure == first.figure);
        let all = own().count().max(1);
        let shares = [Verdict::Close, Verdict::Near, Verdict::Chance].map(|at_worst| {
            let good = own().filter(|compared| compared.verdict <= at_worst).count();
            format!("{:.0} %", 100.0 * good as f64 / all as f64)
        });
        (if number == 0 { rows[0].subject } else { "" }, first.figure, shares)
    })
}

/// Linux's value, the model's, and their difference in percent with its confidence interval.
fn cells(compared: &Compared) -> [String; 3] {
    let percent = format!("{:+.1}", compared.difference_percent);
    let percent = match compared.ci95_percent {
        Some(half) => format!("{percent} ± {half:.1}"),
        None => percent,
    };
    [compared.unit.show(compared.linux.mean), compared.unit.show(compared.model.mean), percent]
}

/// What is to be said of the differences of a row: "retransmitted: chance".
fn remarks(row: &Row) -> String {
    let remark = |compared: &Compared| {
        let word = compared.verdict.word();
        (!word.is_empty()).then(|| format!("{}: {word}", compared.figure))
    };
    row.figures.iter().filter_map(remark).collect::<Vec<_>>().join(", ")
}
