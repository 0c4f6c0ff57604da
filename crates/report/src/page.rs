//! The page: styles, scripts and data put together into one HTML text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::column::{Blobs, Column};
use super::data::{
    Columns, Curves, Distribution, LinkEvents, Member, NoteLevel, ReportData, RunData, SetData, Shares,
    Table, TcpTrace,
};
use super::{folds, heads};

/// The skeleton; `{{...}}` is replaced.
const TEMPLATE: &str = include_str!("assets/page.html");

/// Files of this crate, with their names.
macro_rules! files {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("assets/", $name)))),+] };
}

/// The plot library, which is not ours.
const LIBRARY: [(&str, &str); 2] = [
    ("uPlot.min.css", include_str!("../../../third_party/uplot/uPlot.min.css")),
    ("uPlot.iife.min.js", include_str!("../../../third_party/uplot/uPlot.iife.min.js")),
];

const STYLES: [(&str, &str); 5] = files!["tokens.css", "layout.css", "plot.css", "table.css", "print.css"];

/// In order: each may use those before it.
const SCRIPTS: [(&str, &str); 18] = files![
    "base.js",
    "format.js",
    "columns.js",
    "theme.js",
    "timeline.js",
    "paint.js",
    "plot.js",
    "picker.js",
    "flows.js",
    "links.js",
    "sequence.js",
    "distribution.js",
    "dilation.js",
    "table.js",
    "summary.js",
    "compare.js",
    "sets.js",
    "main.js",
];

/// A style or script of the report by its name ("tokens.css", "plot.js", "uPlot.iife.min.js"), for another page that looks and draws like it.
pub fn asset(name: &str) -> Option<&'static str> {
    let all = LIBRARY.iter().chain(&STYLES).chain(&SCRIPTS);
    all.copied().find(|(own, _)| *own == name).map(|(_, text)| text)
}

/// The texts of some files, one after the other.
fn texts<'a>(files: impl IntoIterator<Item = &'a (&'a str, &'static str)>, between: &str) -> String {
    files.into_iter().map(|(_, text)| *text).collect::<Vec<_>>().join(between)
}

/// All scripts of the page.
fn script() -> String {
    let [_, library] = &LIBRARY;
    texts(std::iter::once(library).chain(&SCRIPTS), "\n;\n")
}

/// The report as one HTML document that needs nothing else.
pub fn render(data: &ReportData) -> String {
    let mut blobs = Blobs::default();
    let runs: Vec<Value> = data.runs.iter().map(|run| run_json(run, &mut blobs)).collect();
    let sets: Vec<Value> = data.sets.iter().map(|set| set_json(set, &mut blobs)).collect();
    let manifest = script_safe(
        &json!({
            "runs": runs,
            "sets": sets,
            "totals": heads::of_summary("totals"),
            "folds": folds::heads(),
            "run": heads::of_summary("run"),
        })
        .to_string(),
    );
    let [library_style, _] = &LIBRARY;
    let style = texts(std::iter::once(library_style).chain(&STYLES), "");
    let script = script();
    let title = match data.runs.as_slice() {
        [run] => run.label.clone(),
        _ if data.sets.len() == 1 => {
            let SetData { label, count, .. } = &data.sets[0];
            format!("{label}, {count} {}", if *count == 1 { "seed" } else { "seeds" })
        }
        _ if !data.sets.is_empty() => format!("{} sets of seeds", data.sets.len()),
        runs => format!("{} runs", runs.len()),
    };
    let mut columns = String::with_capacity(blobs.texts.iter().map(|t| t.len() + 60).sum());
    for (number, text) in blobs.texts.iter().enumerate() {
        columns.push_str("<script type=\"text/plain\" id=\"c");
        columns.push_str(&number.to_string());
        columns.push_str("\">");
        columns.push_str(text);
        columns.push_str("</script>\n");
    }
    // Split at the marks rather than replaced one after the other: data must not be able to contain a mark.
    let mut page = String::with_capacity(columns.len() + manifest.len() + script.len() + 65_536);
    for part in TEMPLATE.split("{{") {
        let (mark, rest) = part.split_once("}}").unwrap_or(("", part));
        match mark {
            "title" => page.push_str(&escape(&title)),
            "style-hash" => page.push_str(&hash(&style)),
            "script-hash" => page.push_str(&hash(&script)),
            "style" => page.push_str(&style),
            "script" => page.push_str(&script),
            "manifest" => page.push_str(&manifest),
            "columns" => page.push_str(&columns),
            _ => {}
        }
        page.push_str(rest);
    }
    page
}

/// A page without scripts, in the report's colours and type: `body` is HTML, `style` goes behind the report's own styles.
pub fn static_page(title: &str, style: &str, body: &str) -> String {
    let style = texts(&STYLES, "") + style;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Warpline\">\n<title>{} · Warpline</title>\n<style>{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        hash(&style),
        escape(title)
    )
}

/// The hash of an inline style or script, as the Content-Security-Policy wants it.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// Text for HTML, in elements and in attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// JSON for a script element: outside strings JSON has no `<`, and inside it may be written as an escape. So neither
/// `</script>` nor `<!--` can end or change the element.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn set_json(set: &SetData, blobs: &mut Blobs) -> Value {
    json!({
        "label": set.label,
        "seeds": set.seeds,
        "count": set.count,
        "incomplete": set.incomplete,
        "measures": set.measures.iter().map(|measure| json!({
            "of": measure.subject,
            "head": heads::declared(measure.column),
            "estimate": measure.estimate,
        })).collect::<Vec<_>>(),
        "bands": set.bands.iter().map(|band| json!({
            "quantity": band.quantity.name(),
            "label": band.quantity.label(),
            "about": band.quantity.about(),
            "kind": band.quantity.kind(),
            "of": band.of,
            "time": blobs.add(&band.time),
            "mean": blobs.add(&band.mean),
            "low": blobs.add(&band.low),
            "high": blobs.add(&band.high),
            "skipped": band.skipped,
        })).collect::<Vec<_>>(),
    })
}

fn run_json(run: &RunData, blobs: &mut Blobs) -> Value {
    json!({
        "label": run.label,
        "summary": run.summary,
        "notes": run.notes.iter().map(|note| json!({
            "level": match note.level { NoteLevel::Warning => "warning", NoteLevel::Info => "info" },
            "text": note.text,
        })).collect::<Vec<_>>(),
        "tables": run.tables.iter().map(table_json).collect::<Vec<_>>(),
        "folds": run.folds,
        "skipped": run.skipped,
        "flows": run.flows.as_ref().map(|flows| json!({
            "time": blobs.add(&flows.time),
            "members": flows.members.iter().map(|m| member_json(m, blobs)).collect::<Vec<_>>(),
            "total": curves_json(&flows.total, blobs),
            "others": flows.others.as_ref().map(|(count, curves)| json!({
                "count": count, "curves": curves_json(curves, blobs),
            })),
        })),
        "links": run.links.as_ref().map(|links| json!({
            "time": blobs.add(&links.time),
            "members": links.members.iter().map(|m| member_json(m, blobs)).collect::<Vec<_>>(),
        })),
        "link_events": run.link_events.iter().map(|link| link_json(link, blobs)).collect::<Vec<_>>(),
        "tcp": run.tcp.iter().map(|trace| tcp_json(trace, blobs)).collect::<Vec<_>>(),
        "distributions": run.distributions.iter().map(|d| distribution_json(d, blobs)).collect::<Vec<_>>(),
        "shares": run.shares.iter().map(|shares| shares_json(shares, blobs)).collect::<Vec<_>>(),
    })
}

fn table_json(table: &Table) -> Value {
    json!({
        "id": table.id,
        "columns": table.columns,
        "heads": heads::of_table(&table.id, &table.columns),
        "cells": table.cells,
        "total_rows": table.total_rows,
    })
}

fn columns_json<K: AsRef<str>>(columns: &[(K, Column)], blobs: &mut Blobs) -> Value {
    Value::Object(columns.iter().map(|(name, c)| (name.as_ref().to_owned(), blobs.add(c))).collect())
}

fn curves_json(curves: &Curves, blobs: &mut Blobs) -> Value {
    json!({
        "values": columns_json(&curves.values, blobs),
        "low": columns_json(&curves.low, blobs),
        "high": columns_json(&curves.high, blobs),
    })
}

fn member_json(member: &Member, blobs: &mut Blobs) -> Value {
    json!({
        "id": member.id,
        "name": member.name,
        "rate_bps": member.rate_bps,
        "curves": curves_json(&member.curves, blobs),
        "events": named_json(&member.events, blobs),
    })
}

fn named_json<K: AsRef<str>>(sets: &[(K, Columns)], blobs: &mut Blobs) -> Value {
    Value::Object(
        sets.iter().map(|(name, set)| (name.as_ref().to_owned(), columns_json(set, blobs))).collect(),
    )
}

fn link_json(link: &LinkEvents, blobs: &mut Blobs) -> Value {
    json!({
        "link": link.link,
        "name": link.name,
        "backlog": columns_json(&link.backlog, blobs),
        "delay": columns_json(&link.delay, blobs),
        "ticks": named_json(&link.ticks, blobs),
    })
}

fn tcp_json(trace: &TcpTrace, blobs: &mut Blobs) -> Value {
    json!({
        "flow": trace.flow,
        "side": trace.side,
        "name": trace.name,
        "marks": named_json(&trace.marks, blobs),
        "acks": columns_json(&trace.acks, blobs),
        "acks_thinned": trace.acks_thinned,
        "rtt": columns_json(&trace.rtt, blobs),
        "metrics": columns_json(&trace.metrics, blobs),
        "states": trace.states,
        "undos": trace.undos,
    })
}

fn distribution_json(distribution: &Distribution, blobs: &mut Blobs) -> Value {
    json!({
        "title": distribution.title,
        "unit": distribution.unit,
        "lines": distribution.lines.iter().map(|(name, samples, columns)| json!({
            "name": name, "samples": samples, "columns": columns_json(columns, blobs),
        })).collect::<Vec<_>>(),
    })
}

fn shares_json(shares: &Shares, blobs: &mut Blobs) -> Value {
    json!({
        "title": shares.title,
        "about": shares.about,
        "lines": shares.lines.iter().map(|(name, columns)| json!({
            "name": name, "columns": columns_json(columns, blobs),
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> ReportData {
        let name = "</script><script>alert(1)</script><!--{{script}}";
        let mut run = RunData { label: name.to_owned(), ..RunData::default() };
        run.summary.insert("scenario".to_owned(), Value::from(name));
        run.tables.push(Table {
            id: "flows".to_owned(),
            columns: vec!["name".to_owned()],
            cells: vec![vec![Value::from(name)]],
            total_rows: 1,
        });
        ReportData { runs: vec![run], ..ReportData::default() }
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let page = render(&hostile());
        let plain = render(&ReportData { runs: vec![RunData::default()], ..ReportData::default() });
        assert!(!page.contains("alert(1)</script>"));
        assert!(page.contains("<title>&lt;/script&gt;&lt;script&gt;alert(1)"));
        assert_eq!(page.matches("</script>").count(), plain.matches("</script>").count());
        assert_eq!(page.matches("<!--").count(), plain.matches("<!--").count());
    }

    #[test]
    fn the_page_asks_for_nothing() {
        let page = render(&hostile());
        assert!(page.contains("default-src 'none'"));
        for request in ["src=\"", "<link", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(request), "{request}");
        }
        assert!(page.contains(&format!("script-src '{}'", hash(&script()))));
    }

    #[test]
    fn no_asset_ends_its_element_early() {
        let script = script();
        assert!(!script.contains("</script") && !script.contains("<!--"));
        assert!(LIBRARY.iter().chain(&STYLES).all(|(_, style)| !style.contains("</style")));
    }

    #[test]
    fn the_plot_library_is_the_one_that_was_named() {
        let readme = include_str!("../../../third_party/uplot/README.md");
        for (_, file) in LIBRARY {
            let hex: String = Sha256::digest(file.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
            assert!(readme.contains(&hex), "{hex}");
        }
    }
}
