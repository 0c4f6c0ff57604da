//! The outcome of a comparison with Linux: verdicts, the cells that differ most, and all figures, as text, Markdown and JSON.

use std::fmt::Write;

use serde::Serialize;

use super::judge::{Compared, Figure, Row, Verdict};

/// How many of the cells that differ most the terminal shows of each congestion control.
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
    /// Each congestion control on each path.
    pub rows: Vec<Row>,
}

impl Agreement {
    /// The congestion controls, each with its rows.
    fn algorithms(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| a.algorithm == b.algorithm)
    }

    fn headline(&self) -> String {
        let seeds = if self.seeds == 1 { "one seed".to_owned() } else { format!("{} seeds", self.seeds) };
        let quick = if self.quick { ", quick" } else { "" };
        let cells = self.algorithms().map(<[Row]>::len).max().unwrap_or(0);
        format!(
            "The TCP model and Linux {}: {} on {} ({seeds}{quick})",
            self.kernel,
            counted(self.algorithms().count(), "congestion control"),
            counted(cells, "path"),
        )
    }

    /// The verdicts as text for a terminal, and of each congestion control the cells that differ most.
    pub fn render(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        let wide = self.rows.iter().map(|row| row.algorithm.len()).max().unwrap_or(0);
        let _ = writeln!(text, "  share of the paths      {:wide$}  within 5 %  10 %  or chance", "");
        for rows in self.algorithms() {
            for figure in Figure::ALL {
                let first = if figure == Figure::Goodput { rows[0].algorithm } else { "" };
                let [close, near, chance] = shares(rows, figure);
                let _ = writeln!(
                    text,
                    "  {first:<wide$}  {:<20}  {close:>10}  {near:>4}  {chance:>9}",
                    figure.name()
                );
            }
        }
        for rows in self.algorithms() {
            let mut worst: Vec<&Row> = rows.iter().filter(|row| worst_of(row) > Verdict::Near).collect();
            worst.sort_by(|a, b| worst_of(b).cmp(&worst_of(a)).then(difference(b).total_cmp(&difference(a))));
            if let Some(first) = worst.first() {
                let _ =
                    writeln!(text, "\n{}: the paths that differ most, of {}", first.algorithm, worst.len());
            }
            for row in worst.into_iter().take(WORST) {
                let _ = writeln!(text, "  {}  ({})", row.cell, row.scenarios.join(", "));
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
        for rows in self.algorithms() {
            for figure in Figure::ALL {
                let first = if figure == Figure::Goodput { rows[0].algorithm } else { "" };
                let shares = shares(rows, figure).join(" | ");
                let _ = writeln!(text, "| {first} | {} | {shares} |", figure.name());
            }
        }
        for rows in self.algorithms() {
            let _ = writeln!(
                text,
                "\n### {}\n\n| path | goodput: Linux | model | % | queue delay: Linux | model | % | retransmitted: Linux | model | % | |\n\
                 |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
                rows[0].algorithm
            );
            for row in rows {
                let of: Vec<String> = row.figures.iter().flat_map(cells).collect();
                let _ = writeln!(text, "| {} | {} | {} |", row.cell, of.join(" | "), remarks(row));
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

/// "1 path", "2 paths".
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
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

/// The shares of rows in which a figure is within 5 %, within 10 %, and within that or chance.
fn shares(rows: &[Row], figure: Figure) -> [String; 3] {
    let own = || rows.iter().flat_map(|row| &row.figures).filter(|compared| compared.figure == figure.name());
    let all = own().count().max(1);
    [Verdict::Close, Verdict::Near, Verdict::Chance].map(|at_worst| {
        let good = own().filter(|compared| compared.verdict <= at_worst).count();
        format!("{:.0} %", 100.0 * good as f64 / all as f64)
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
