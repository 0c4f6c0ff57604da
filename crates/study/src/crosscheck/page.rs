//! The certificate as a page: one HTML document that needs nothing else, without scripts.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use warpline_report::{ReportError, escape, static_page, write_whole};

use super::certificate::{Certificate, NOTHING, Outcome, Pair, WayFacts, cells, experiments};
use super::judge::Verdict;

const STYLE: &str = include_str!("page.css");
/// The certificate's files.
const JSON: &str = "certificate.json";
const PAGE: &str = "certificate.html";
const SCENARIOS: &str = "scenarios";

impl Certificate {
    /// Writes `certificate.json`, the scenario of each way (`scenarios/`) and the page (`certificate.html`) into a directory, which is created if
    /// need be, and returns the path of the page. The page comes last: where it is, the rest is there, too.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        let scenarios = directory.join(SCENARIOS);
        fs::create_dir_all(&scenarios)
            .map_err(|source| ReportError::Write { path: scenarios.clone(), source })?;
        for way in &self.ways {
            if let Some(scenario) = &way.scenario {
                write_whole(scenario.to_toml().as_bytes(), &scenarios.join(way.file()))?;
            }
        }
        write_whole(self.to_json().as_bytes(), &directory.join(JSON))?;
        let page = directory.join(PAGE);
        write_whole(self.to_html().as_bytes(), &page)?;
        Ok(page)
    }

    /// The certificate as one HTML document.
    pub fn to_html(&self) -> String {
        let name = escape(&self.scenario.name);
        let mut body = format!(
            "<header class=\"page-head\"><p class=\"brand\">Warpline</p><h1>Cross-check of <code>{name}</code></h1>\n<p>{}</p>\n<p>The ways {}.</p>\n",
            escape(self.scenario.description.as_deref().unwrap_or_default()),
            badge(class_of(self.outcome), self.outcome.word()),
        );
        body += "</header>\n<main>\n<section class=\"card\"><h2>What was run</h2><dl class=\"facts\">";
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let machine = &self.machine;
        for (term, text) in [
            ("Date", self.date.clone()),
            ("Scenario", self.scenario.hash.clone()),
            ("Changes", self.scenario.changes.join(", ")),
            ("Warpline", format!("{} (build {})", self.warpline, self.build)),
            ("Machine", format!("{}, {} cores, Linux {}", machine.processor, machine.cores, machine.kernel)),
            ("Seeds", seeds.join(", ")),
        ] {
            if !text.is_empty() {
                let _ = write!(body, "<dt>{term}</dt><dd>{}</dd>", escape(&text));
            }
        }
        body += "</dl></section>\n<section class=\"card\"><h2>Ways</h2>\n<table><thead><tr><th class=\"text plain\" scope=\"col\">Way</th>\
                 <th class=\"text plain\" scope=\"col\">What it is</th><th class=\"text plain\" scope=\"col\">Clock</th>\
                 <th class=\"text plain\" scope=\"col\">Linux</th><th class=\"text plain\" scope=\"col\">Runs</th></tr></thead><tbody>\n";
        for way in &self.ways {
            row_of_way(&mut body, way);
        }
        body += "</tbody></table></section>\n";
        for pair in &self.pairs {
            card_of_pair(&mut body, pair);
        }
        body += "<section class=\"card\"><h2>Scenarios</h2><p class=\"muted\">Saved as a file, each makes the runs of its way again, with <code>--seed</code> for the other seeds.</p>\n";
        for way in &self.ways {
            let Some(scenario) = &way.scenario else { continue };
            let (file, text) = (escape(&way.file()), escape(&scenario.to_toml()));
            let _ = writeln!(
                body,
                "<details class=\"scenario\"><summary>{file} <span class=\"muted\">{}</span></summary><pre>{text}</pre></details>",
                escape(&way.scenario_hash)
            );
        }
        body += "</section>\n</main>\n";
        static_page(&format!("Cross-check of {}", self.scenario.name), STYLE, &body)
    }
}

fn row_of_way(body: &mut String, way: &WayFacts) {
    let mut what = escape(&way.what);
    for change in &way.changes {
        let _ = write!(what, "<br>with <code>{}</code>", escape(change));
    }
    for note in &way.notes {
        let _ = write!(what, "<br><span class=\"muted\">{}</span>", escape(note));
    }
    let runs = match (&way.not_possible, &way.failed) {
        (Some(why), _) => format!("<span class=\"muted\">not possible: {}</span>", escape(why)),
        (_, Some(why)) => format!("{} {}", badge("failed", "failed"), escape(why)),
        _ => format!("{}; {}", way.runs.len(), escape(&way.how_it_went())),
    };
    let _ = writeln!(
        body,
        "<tr><td class=\"text\">{}</td><td class=\"text words\">{what}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text words\">{runs}</td></tr>",
        escape(&way.name),
        escape(&way.clock),
        escape(&way.kernels.join(", ")),
    );
}

fn card_of_pair(body: &mut String, pair: &Pair) {
    let _ = writeln!(
        body,
        "<section class=\"card\"><h2>{} beside {}</h2><p class=\"muted\">They agree up to {} %.</p>",
        escape(&pair.way),
        escape(&pair.reference),
        pair.bound_percent
    );
    if let Some(explanation) = &pair.explanation {
        let _ = write!(
            body,
            "<div class=\"why\"><p>What differs comes from <b>{}</b>.</p><ul>",
            explanation.cause.word()
        );
        for line in explanation.evidence.iter().cloned().chain(experiments(explanation)) {
            let _ = write!(body, "<li>{}</li>", escape(&line));
        }
        *body += "</ul></div>\n";
    } else if pair.compared.is_empty() {
        let _ = writeln!(body, "<div class=\"why\"><p>Here, {NOTHING}.</p></div>");
    } else if pair.differs() {
        *body += "<div class=\"why\"><p>No evidence says where the differences come from.</p></div>\n";
    }
    let _ = writeln!(
        body,
        "<table><thead><tr><th class=\"text plain\" scope=\"col\">Measure</th><th class=\"plain\" scope=\"col\">{}</th>\
         <th class=\"plain\" scope=\"col\">{}</th><th class=\"plain\" scope=\"col\">Difference</th>\
         <th class=\"text plain\" scope=\"col\">Verdict</th></tr></thead><tbody>",
        escape(&pair.way),
        escape(&pair.reference)
    );
    for compared in &pair.compared {
        let [subject, own, reference, percent, _] = cells(compared).map(|cell| escape(&cell));
        let class = match compared.verdict {
            Verdict::Agrees => "agrees",
            Verdict::Chance => "chance",
            Verdict::Differs => "differs",
        };
        let _ = writeln!(
            body,
            "<tr><td class=\"text\">{}</td><td>{own}</td><td>{reference}</td><td>{percent}</td><td class=\"text\">{}</td></tr>",
            subject,
            badge(class, &compared.verdict.word().to_lowercase())
        );
    }
    *body += "</tbody></table></section>\n";
}

fn class_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Agrees => "agrees",
        Outcome::Chance => "chance",
        Outcome::Explained => "explained",
        Outcome::Nothing => "nothing",
        Outcome::Unexplained => "unexplained",
        Outcome::Failed => "failed",
    }
}

fn badge(class: &str, words: &str) -> String {
    format!("<span class=\"verdict {class}\">{words}</span>")
}
