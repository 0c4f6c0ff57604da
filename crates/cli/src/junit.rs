//! Test results as JUnit XML for CI systems, by the schema that Jenkins, GitHub's actions and GitLab share.

use std::fs;
use std::io;
use std::path::Path;

use quick_xml::Writer;
use quick_xml::events::BytesText;
use warpline_lab::run::{Broken, RunError, RunOutcome};
use warpline_results::ProgramRow;

use crate::failure::Failure;

/// A test case: its name, how long it took in the run's time, and its result.
struct Case {
    class: String,
    name: String,
    seconds: f64,
    verdict: Verdict,
}

enum Verdict {
    Passed,
    /// It ran and failed; with the reason.
    Failed(String),
    /// It could not run; with the reason.
    Error(String),
}

impl From<Option<String>> for Verdict {
    /// The verdict from the reason of a failure, if it failed.
    fn from(failure: Option<String>) -> Self {
        failure.map_or(Verdict::Passed, Verdict::Failed)
    }
}

/// The class of a seed's cases.
fn class(scenario: &str, seed: u64) -> String {
    format!("{scenario}.seed-{seed}")
}

/// The cases of one run: its programs, and the run itself.
fn cases(scenario: &str, outcome: &RunOutcome) -> Vec<Case> {
    let summary = &outcome.summary;
    let class = class(scenario, summary.info.seed);
    let live = summary.live.iter().flat_map(|live| &live.programs);
    let guests = summary.guests.iter().flat_map(|guests| &guests.programs);
    let programs: Vec<&ProgramRow> = live.chain(guests).collect();
    let mut cases: Vec<Case> = programs.iter().map(|row| program(&class, row, outcome)).collect();
    // Failures of programs are reported with the programs.
    let own = |text: &&String| !programs.iter().any(|row| row.failure.is_some() && is_of(row, text));
    let mut failures: Vec<String> = outcome.failures.iter().filter(own).cloned().collect();
    let broken = |broken: &Broken| match broken {
        Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why) => why.clone(),
    };
    failures.extend(outcome.broken.as_ref().map(broken));
    if let (true, false, Some(why)) = (failures.is_empty(), outcome.complete, &summary.info.stopped) {
        failures.push(format!("stopped before its end: {why}"));
    }
    cases.push(Case {
        class,
        name: "run".to_owned(),
        seconds: summary.info.simulated_s,
        verdict: (!failures.is_empty()).then(|| failures.join("\n")).into(),
    });
    cases
}

fn program(class: &str, row: &ProgramRow, outcome: &RunOutcome) -> Case {
    let end = outcome.summary.info.simulated_s;
    let seconds = row.start_s.map_or(0.0, |start| row.end_s.unwrap_or(end) - start);
    // The message of the run has the paths of files from here; that in the run directory has them from there.
    let told = outcome.failures.iter().find(|text| is_of(row, text));
    let failure = row.failure.as_ref().map(|failure| told.unwrap_or(failure).clone());
    Case { class: class.to_owned(), name: title(row), seconds, verdict: failure.into() }
}

/// What a program is called, also at the beginning of messages about it.
fn title(row: &ProgramRow) -> String {
    format!("program {} of host {}", row.name, row.host)
}

/// Whether a message is about this program.
fn is_of(row: &ProgramRow, message: &str) -> bool {
    message.strip_prefix(&title(row)).is_some_and(|rest| rest.starts_with(' '))
}

/// The document. Characters that XML does not allow are left out.
fn document(scenario: &str, cases: &[Case]) -> io::Result<Vec<u8>> {
    let clean = |text: &str| text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "");
    let number = |is: fn(&Verdict) -> bool| cases.iter().filter(|case| is(&case.verdict)).count().to_string();
    let count = [
        ("tests", number(|_| true)),
        ("failures", number(|verdict| matches!(verdict, Verdict::Failed(_)))),
        ("errors", number(|verdict| matches!(verdict, Verdict::Error(_)))),
    ];
    let counts = || count.iter().map(|(key, value)| (*key, value.as_str()));
    let mut writer =
        Writer::new_with_indent(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec(), b' ', 2);
    writer.create_element("testsuites").with_attributes(counts()).write_inner_content(|writer| {
        let suite =
            writer.create_element("testsuite").with_attribute(("name", scenario)).with_attributes(counts());
        suite.write_inner_content(|writer| {
            for case in cases {
                let seconds = format!("{:.3}", case.seconds);
                let element = writer
                    .create_element("testcase")
                    .with_attribute(("classname", clean(&case.class).as_str()))
                    .with_attribute(("name", clean(&case.name).as_str()))
                    .with_attribute(("time", seconds.as_str()));
                let (kind, text) = match &case.verdict {
                    Verdict::Passed => {
                        element.write_empty()?;
                        continue;
                    }
                    Verdict::Failed(text) => ("failure", text),
                    Verdict::Error(text) => ("error", text),
                };
                element.write_inner_content(|writer| {
                    let first = text.lines().next().unwrap_or_default();
                    let first = clean(first.strip_prefix("error: ").unwrap_or(first));
                    let why = writer.create_element(kind).with_attribute(("message", first.as_str()));
                    why.write_text_content(BytesText::new(&clean(text)))?;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(())
    })?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

/// The case of a run that could not take place.
fn error(class: String, why: &str) -> Case {
    Case { class, name: "run".to_owned(), seconds: 0.0, verdict: Verdict::Error(why.to_owned()) }
}

fn put(file: &Path, scenario: &str, cases: &[Case]) -> Result<(), Failure> {
    let written = document(scenario, cases).and_then(|bytes| fs::write(file, bytes));
    written.map_err(|error| Failure::output(format!("cannot write {}: {error}", file.display())))
}

/// Writes the outcomes of runs, one for each seed; does nothing without a file.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(
    file: Option<&Path>,
    scenario: &str,
    outcomes: &[RunOutcome],
    errors: &[(u64, RunError)],
) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let mut all: Vec<Case> = outcomes.iter().flat_map(|outcome| cases(scenario, outcome)).collect();
    all.extend(errors.iter().map(|(seed, why)| error(class(scenario, *seed), &why.to_string())));
    put(file, scenario, &all)
}

/// Writes that no run took place, and why.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_error(file: Option<&Path>, scenario: &str, why: &str) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    put(file, scenario, &[error(scenario.to_owned(), why)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_written_with_all_that_xml_cannot_have_taken_out() {
        let case = |name: &str, failure: Option<&str>| Case {
            class: "s.seed-1".to_owned(),
            name: name.to_owned(),
            seconds: 1.5,
            verdict: failure.map(str::to_owned).into(),
        };
        let refused = error("s".to_owned(), "error: s.toml:1:2: no");
        let cases = [case("a", None), case("b", Some("x < y & \"z\"\u{1b}\nmore")), refused];
        let text = String::from_utf8(document("s", &cases).unwrap()).unwrap();
        assert!(text.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{text}");
        assert!(text.contains("<testcase classname=\"s.seed-1\" name=\"a\" time=\"1.500\"/>"), "{text}");
        assert!(text.contains("message=\"x &lt; y &amp; &quot;z&quot;\""), "{text}");
        assert!(text.contains("\nmore</failure>") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("<error message=\"s.toml:1:2: no\">error: s.toml:1:2: no</error>"), "{text}");
    }
}
