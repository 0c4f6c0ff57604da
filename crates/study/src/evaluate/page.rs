//! The page of an evaluation: the verdicts, and behind each its trials with figures, plots and scenarios. It has no scripts.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use warpline_report::figure::Format;
use warpline_report::{ReportError, escape, static_page, write_whole};

use super::report::{Answer, Evaluation, Judged, Shown, Verdict, cells};

const STYLE: &str = include_str!("page.css");

impl Evaluation {
    /// Writes `evaluation.json`, the scenarios of all trials (`scenarios/`) and the page (`report.html`) into a directory, which is created if
    /// need be, and returns the path of the page. The page comes last: where it is, the rest is there, too.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        let scenarios = directory.join("scenarios");
        fs::create_dir_all(&scenarios)
            .map_err(|source| ReportError::Write { path: scenarios.clone(), source })?;
        let trials = self.criteria.iter().flat_map(|answer| &answer.trials);
        for scenario in trials.flat_map(|trial| &trial.scenarios) {
            write_whole(scenario.text.as_bytes(), &scenarios.join(&scenario.file))?;
        }
        write_whole(self.to_json().as_bytes(), &directory.join("evaluation.json"))?;
        let page = directory.join("report.html");
        write_whole(self.to_html().as_bytes(), &page)?;
        Ok(page)
    }

    /// The evaluation as one HTML document that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut body = String::new();
        let _ = write!(
            body,
            "<header class=\"page-head\"><p class=\"brand\">Warpline</p><h1>Evaluation of <code>{}</code></h1>\n<p>By the questions of \
             <a href=\"https://www.rfc-editor.org/rfc/rfc9743\">RFC 9743</a>, {}.</p>\n<div class=\"figures\">",
            escape(&self.cc),
            self.manner()
        );
        for verdict in [Verdict::Met, Verdict::Open, Verdict::Missed] {
            let _ = write!(
                body,
                "<div class=\"figure\"><span>{}</span><b>{}</b></div>",
                badge(verdict),
                self.count(verdict)
            );
        }
        body += "</div></header>\n<main>\n<section class=\"card\"><table>\n<thead><tr><th class=\"text plain\" scope=\"col\">Section</th>\
                 <th class=\"text plain\" scope=\"col\">Question</th><th class=\"text plain\" scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n";
        for answer in &self.criteria {
            let Answer { name, section, question, .. } = answer;
            let _ = writeln!(
                body,
                "<tr><td class=\"text\">{section}</td><td class=\"text question\"><a href=\"#{name}\">{question}</a></td><td class=\"text\">{}</td></tr>",
                badge(answer.verdict())
            );
        }
        body += "</tbody></table></section>\n";
        if !self.left_out.is_empty() {
            body += "<section class=\"card\"><h2>Left out, because guests cannot run it</h2><ul>";
            for why in &self.left_out {
                let _ = write!(body, "<li>{}</li>", escape(why));
            }
            body += "</ul></section>\n";
        }
        for answer in &self.criteria {
            self.answer(&mut body, answer);
        }
        body += "</main>\n";
        static_page(&format!("Evaluation of {}", self.cc), STYLE, &body)
    }

    fn answer(&self, body: &mut String, answer: &Answer) {
        let Answer { name, section, question, .. } = answer;
        // A link to something inside opens what is closed.
        let _ = writeln!(
            body,
            "<details class=\"card\"><summary>{} <b>{name}</b> <span class=\"section\">{section}</span></summary>\n<div id=\"{name}\">\n\
             <p>{question}</p>",
            badge(answer.verdict())
        );
        for shown in &answer.trials {
            let figures: Vec<&Judged> =
                answer.figures.iter().filter(|judged| judged.trial == shown.trial).collect();
            self.trial(body, shown, &figures);
        }
        *body += "</div></details>\n";
    }

    fn trial(&self, body: &mut String, shown: &Shown, figures: &[&Judged]) {
        let compared = figures.first().map_or("", |judged| judged.compared.name());
        let _ = write!(
            body,
            "<h3>{}</h3>\n<table><thead><tr><th class=\"text plain\" scope=\"col\">Figure</th><th class=\"plain\" scope=\"col\">Value</th>\
             <th class=\"plain\" scope=\"col\">{compared}</th><th class=\"text plain\" scope=\"col\">Asked</th>\
             <th class=\"text plain\" scope=\"col\">Verdict</th></tr></thead><tbody>\n",
            escape(&shown.trial)
        );
        for judged in figures {
            let [figure, value, standard, bound, _] = cells(judged);
            let [value, standard, bound] = [&value, &standard, &bound].map(|cell| escape(cell));
            let _ = writeln!(
                body,
                "<tr><td class=\"text\">{figure}</td><td>{value}</td><td>{standard}</td><td class=\"text\">{bound}</td><td class=\"text\">{}</td></tr>",
                badge(judged.verdict)
            );
        }
        *body += "</tbody></table>\n<div class=\"plots\">\n";
        for plot in &shown.plots {
            // A figure as SVG is text.
            *body += &String::from_utf8_lossy(&plot.write(Format::Svg));
        }
        *body += "</div>\n";
        for scenario in &shown.scenarios {
            let file = escape(&scenario.file);
            let _ = writeln!(
                body,
                "<details class=\"scenario\"><summary>{file}</summary><p>Saved as a file, <code>warpline run {file} --seeds 1..{}</code> makes \
                 these runs again.</p><pre>{}</pre></details>",
                self.seeds,
                escape(&scenario.text)
            );
        }
    }
}

fn badge(verdict: Verdict) -> String {
    let (class, sign) = match verdict {
        Verdict::Met => ("met", "✓"),
        Verdict::Open => ("open", "?"),
        Verdict::Missed => ("missed", "✗"),
    };
    format!("<span class=\"verdict {class}\">{sign} {class}</span>")
}
