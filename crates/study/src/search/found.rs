//! What a search leaves in its directory: the search and its scenario, the record, the counterexample, and the runs with and without it.
//!
//! The counterexample is a scenario with what it shows as `expect`: `warpline run` fails if it does not show it any more.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use warpline_disk::{Directory as _, OsDirectory, check_whole, write_whole};
use warpline_lab::report::write_report;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_results::tables::FILE_MODE;
use warpline_results::{Condition, Relation, ResultError, Unit};
use warpline_scenario::search::{Point, SearchFile};
use warpline_scenario::{ReplicationPlan, Scenario};

use super::evaluate::Evaluator;
use super::journal::{self, EVALUATIONS_FILE, Row};
use super::makers::{Builds, Makers};
use super::{SearchError, SearchOptions, Worst};

/// The run of the scenario as it is, in the directory of a search.
pub const BASE: &str = "base";
/// The run of the counterexample; with ".toml", the counterexample.
pub const FOUND: &str = "found";
/// The run of the counterexample with the changes of `against`; with ".toml", that scenario.
pub const AGAINST: &str = "found-against";
/// A copy of the search file.
const SEARCH_FILE: &str = "search.toml";
/// The scenario as it is.
const BASE_FILE: &str = "base.toml";
/// The build of this program that made the runs. The kernels and stacks are in the record, with each point.
const MADE_BY_FILE: &str = "made-by";
/// What the name of a file has before its ending if the runs of other builds made it; with a number if there are several.
const BEFORE: &str = "-before";
/// The report of the runs with the counterexample and without.
const REPORT_FILE: &str = "report.html";
/// How far the condition is from the value found, as a share of the way to where the harm is not: a later version may give other digits.
const TOLERANCE: f64 = 0.1;
/// More than what a value may lose where a condition is written, as a share of it: four digits stay.
const WRITTEN: f64 = 1e-3;

fn put(path: &Path, text: &str) -> Result<(), ResultError> {
    write_whole(&OsDirectory::here(), path, FILE_MODE, text.as_bytes())
        .map_err(|error| ResultError::io("write", path, error))
}

/// The files that say what is searched, with their texts.
fn what(search: &SearchFile) -> [(&'static str, String); 2] {
    [(SEARCH_FILE, search.text().to_owned()), (BASE_FILE, search.scenario.to_toml())]
}

/// The text of the file that says what made the runs.
fn made_by(options: &SearchOptions) -> String {
    format!("{}\n", options.build)
}

/// Whether a search may begin in a directory: nothing is there, or only what a search left that has not measured a point.
fn is_free(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    let one_of = |own: &[&str], name: &OsString| own.iter().any(|own| name == own);
    // The other names may be those of a user's own files; with this one beside them, they are a search's.
    let left = names.iter().any(|name| one_of(&[MADE_BY_FILE], name))
        && names.iter().all(|name| one_of(&[MADE_BY_FILE, SEARCH_FILE, BASE_FILE, EVALUATIONS_FILE], name));
    names.is_empty() || left && journal::is_without_points(directory)
}

/// Looks whether a directory will take a search, and makes it if it does not exist. If this search goes on with one there, returns the rows of that one's
/// record. If it begins there, returns none, and writes nothing yet: [`begin`] does that once the search is known to measure something.
///
/// # Errors
/// If the directory has something else in it, or a search with which this does not go on. If a kernel or a stack of the scenario as it is cannot be read;
/// the directory is then as it was. If the directory takes no file.
pub(super) fn prepare(
    directory: &Path,
    search: &SearchFile,
    options: &SearchOptions,
    makers: &mut Makers<'_>,
) -> Result<Option<Vec<Row>>, SearchError> {
    makers.require(&search.values(&search.unchanged())).map_err(SearchError::Run)?;
    let occupied = || SearchError::Occupied(directory.to_owned());
    if directory.exists() && !directory.is_dir() {
        return Err(occupied());
    }
    if !is_free(directory) {
        let same = |(file, text): &(&str, String)| {
            std::fs::read_to_string(directory.join(file)).is_ok_and(|other| other == *text)
        };
        return match (what(search).iter().all(same), options.resume) {
            (true, true) => earlier(directory, search, options, makers).map(Some),
            (true, false) => Err(SearchError::Exists(directory.to_owned())),
            (false, _) => Err(occupied()),
        };
    }
    std::fs::create_dir_all(directory).map_err(|error| ResultError::io("create", directory, error))?;
    // The first run may take long: it should not be in vain.
    let file = directory.join(EVALUATIONS_FILE);
    check_whole(&OsDirectory::here(), &file, FILE_MODE)
        .map_err(|error| ResultError::io("write", &file, error))?;
    Ok(None)
}

/// Writes what is searched into a directory that [`prepare`] found free.
///
/// # Errors
/// If another search has begun there meanwhile, or a file cannot be written.
pub(super) fn begin(
    directory: &Path,
    search: &SearchFile,
    options: &SearchOptions,
) -> Result<(), SearchError> {
    if !is_free(directory) {
        return Err(SearchError::Occupied(directory.to_owned()));
    }
    // First: with it, a search that is killed here leaves no obstacle.
    put(&directory.join(MADE_BY_FILE), &made_by(options))?;
    Ok(what(search).iter().try_for_each(|(file, text)| put(&directory.join(file), text))?)
}

/// Removes the directory that [`prepare`] made for a search that has not begun.
pub(super) fn give_up(directory: &Path) {
    // Only if it is empty.
    let _ = std::fs::remove_dir(directory);
}

/// The rows in the directory of a search that were measured by what runs now, so far as it can be read; `makers` learns what cannot. The record of anything
/// else gets another name, and that is noted; so do a counterexample, its runs and their report, which nothing might replace.
fn earlier(
    directory: &Path,
    search: &SearchFile,
    options: &SearchOptions,
    makers: &mut Makers<'_>,
) -> Result<Vec<Row>, SearchError> {
    let made_by = made_by(options);
    let rows = journal::read(directory, search.keys()).into_iter();
    let mut rows: Vec<(Builds, Row)> = rows.map(|row| (makers.at(&row.values), row)).collect();
    let mut missing = BTreeMap::new();
    for (now, _) in rows.iter().filter(|(_, row)| row.builds.is_some()) {
        missing.extend(now.missing().clone());
    }
    let file = directory.join(MADE_BY_FILE);
    let same_program = std::fs::read_to_string(&file).is_ok_and(|other| other == made_by);
    let same_builds =
        |(now, row): &(Builds, Row)| row.builds.as_deref().is_none_or(|recorded| now.agree_with(recorded));
    if same_program && rows.iter().all(same_builds) {
        makers.lose(&missing);
        if let Some(note) = options.note {
            for why in missing.values() {
                note(&format!(
                    "what measured some points cannot be read now: {why}. Their values are kept; the search stops if it needs another such point"
                ));
            }
        }
        // Where a kernel or a stack was not there and is there now, the point is run again.
        rows.retain(|(now, row)| row.builds.is_some() || !now.missing().is_empty());
        return Ok(rows.into_iter().map(|(_, row)| row).collect());
    }
    // The record goes first, so that after a kill it does not stand beside a name that is not its own.
    let record = directory.join(EVALUATIONS_FILE);
    if record.exists() {
        // A record that was kept before stays, too.
        let aside = |name: &str, number: u32| {
            let (stem, end) =
                name.split_once('.').map_or((name, String::new()), |(stem, end)| (stem, format!(".{end}")));
            let number = if number > 1 { format!("-{number}") } else { String::new() };
            directory.join(format!("{stem}{BEFORE}{number}{end}"))
        };
        let number = (1..).find(|number| !aside(EVALUATIONS_FILE, *number).exists()).unwrap_or(u32::MAX);
        let kept = aside(EVALUATIONS_FILE, number);
        let [found, against] = [FOUND, AGAINST].map(|name| format!("{name}.toml"));
        for name in [EVALUATIONS_FILE, REPORT_FILE, BASE, FOUND, AGAINST, &found, &against] {
            let from = directory.join(name);
            if from.exists() {
                let renamed = OsDirectory::here().rename(&from, &aside(name, number));
                renamed.map_err(|error| ResultError::io("rename", &from, error))?;
            }
        }
        if let Some(note) = options.note {
            let gone = |why: &String| format!("; its points needed what cannot be read now: {why}");
            let gone: String = missing.values().map(gone).collect();
            note(&format!(
                "{} is of another build of Warpline, of a kernel or of a stack: everything is run again, and that record is now {}{gone}",
                record.display(),
                kept.display()
            ));
        }
    }
    put(&file, &made_by)?;
    Ok(Vec::new())
}

/// Writes the counterexample, runs it and the scenario as it is, and draws both. Returns the counterexample's file. A search that is stopped leaves out
/// the runs, and the condition.
///
/// # Errors
/// If a run fails or something cannot be written. If the runs need what made rows of the record and cannot be read now; nothing is written then.
pub(super) fn write(
    directory: &Path,
    evaluator: &mut Evaluator<'_>,
    point: &Point,
    worst: &Worst,
    base: f64,
) -> Result<PathBuf, SearchError> {
    let search = evaluator.search();
    let (harmed, spared) = match conditions(evaluator, point) {
        Ok((harmed, spared)) => (Some(harmed), spared),
        // What it shows is not known by seed, but the counterexample is kept.
        Err(SearchError::Stopped) => (None, None),
        Err(error) => return Err(error),
    };
    let scenario = |point: &Point, against: bool, name: &str, expect: Option<&Condition>| {
        let scenario = search.at(point, against)?;
        let expect = expect.map(ToString::to_string);
        let seeds = (search.seeds > 1).then_some(ReplicationPlan { runs: Some(search.seeds), seeds: None });
        let name = format!("{}-{name}", search.scenario.name);
        // Of what the scenario expects itself, the harm may be that it does not hold.
        let expect = expect.into_iter().collect();
        Ok::<_, SearchError>(Scenario { name, expect, replications: seeds, ..scenario })
    };
    let found = scenario(point, false, FOUND, harmed.as_ref())?;
    let file = directory.join(FOUND).with_extension("toml");
    put(&file, &(head(evaluator, worst, base, harmed.is_some()) + &found.to_toml()))?;
    if harmed.is_none() {
        return Ok(file);
    }
    let mut runs = vec![(BASE, search.scenario.clone()), (FOUND, found)];
    if !search.against.is_empty() {
        let against = scenario(point, true, AGAINST, spared.as_ref())?;
        let text = format!("# The scenario of {FOUND}.toml with {}.\n\n", search.against.join(", "));
        put(&directory.join(AGAINST).with_extension("toml"), &(text + &against.to_toml()))?;
        runs.push((AGAINST, against));
    }
    let mut paths = Vec::new();
    for (name, scenario) in runs {
        let path = directory.join(name);
        // With the first seed.
        let scenario = Scenario { replications: None, ..scenario };
        let options =
            RunOptions { out: Some(path.clone()), force: true, report: true, ..evaluator.options().clone() };
        let outcome = run(&scenario, &options, &mut |_| evaluator.tell(0)).map_err(SearchError::Run)?;
        if !outcome.complete && evaluator.tell(0) == Control::Stop {
            return Ok(file);
        }
        paths.push(path);
    }
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    write_report(&paths, &directory.join(REPORT_FILE))?;
    Ok(file)
}

/// What the counterexample shows, as a condition on the measure; and what holds with the changes of `against`, if that is another.
fn conditions(
    evaluator: &mut Evaluator<'_>,
    point: &Point,
) -> Result<(Condition, Option<Condition>), SearchError> {
    let search = evaluator.search();
    let against = !search.against.is_empty();
    let there = evaluator.by_seed(point, false)?;
    let elsewhere = match against {
        true => evaluator.by_seed(point, true)?,
        false => evaluator.by_seed(&search.unchanged(), false)?,
    };
    let (least, most) = (
        |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min),
        |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let (harmed, spared) = match search.maximise {
        true => (least(&there), most(&elsewhere)),
        false => (most(&there), least(&elsewhere)),
    };
    let (bound, apart) = bound(harmed, spared, search.maximise);
    let (relation, opposite) = match search.maximise {
        true => (Relation::AtLeast, Relation::Below),
        false => (Relation::AtMost, Relation::Above),
    };
    let measure = evaluator.measure.clone();
    let spared =
        (against && apart).then(|| Condition { measure: measure.clone(), relation: opposite, bound });
    Ok((Condition { measure, relation, bound }, spared))
}

/// The bound of a condition that `harmed` meets, also as it is written; and whether `spared`, the value where the harm is not, is beyond it.
fn bound(harmed: f64, spared: f64, maximise: bool) -> (f64, bool) {
    let way = if maximise { -1.0 } else { 1.0 };
    let digits = WRITTEN * harmed.abs();
    // With several seeds, the harm of one may be less than what another has without.
    let gap = way * (spared - harmed);
    let apart = gap > 4.0 * digits;
    let slack = if apart { digits.max(TOLERANCE * gap) } else { digits };
    (harmed + way * slack, apart)
}

/// The comment at the head of the counterexample; `shows` if it has a condition.
fn head(evaluator: &Evaluator<'_>, worst: &Worst, base: f64, shows: bool) -> String {
    let search = evaluator.search();
    let unit = if search.against.is_empty() { evaluator.measure.column.unit } else { Unit::Index };
    let size = if search.maximise { "large" } else { "small" };
    let mut text = format!(
        "# Found by `warpline search`: {} as {size} as can be.\n# It is {}, and {} in the scenario without these changes:\n",
        evaluator.measure,
        unit.show(worst.value),
        unit.show(base)
    );
    for set in &worst.sets {
        let _ = writeln!(text, "#   {set}");
    }
    if !search.against.is_empty() {
        let _ = writeln!(text, "# Both are divided by what it is with {}.", search.against.join(", "));
    }
    if shows {
        text += "# `expect` is what it shows: `warpline run` fails if that is no longer so.\n";
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use warpline_results::NamedMeasure;

    use super::*;

    #[test]
    fn a_condition_holds_as_it_is_written() {
        let measure = NamedMeasure::parse("flow.bulk.goodput").unwrap();
        for (harmed, spared, maximise, are_apart) in [
            // Nothing is between the two, and four digits would be on the wrong side.
            (2_549_400.0, 2_549_400.0, false, false),
            (2_549_600.0, 2_549_600.0, true, false),
            (2_549_400.0, 2_549_500.0, false, false),
            (2_549_400.0, 2_000_000.0, false, false),
            // A hundredth, and much more.
            (2_549_400.0, 2_575_400.0, false, true),
            (2_549_600.0, 2_523_600.0, true, true),
            (0.0, 9e6, false, true),
            (9e6, 1e6, true, true),
        ] {
            let (bound, apart) = bound(harmed, spared, maximise);
            assert_eq!(apart, are_apart, "{harmed} {spared}");
            let relation = if maximise { Relation::AtLeast } else { Relation::AtMost };
            let written = Condition { measure: measure.clone(), relation, bound }.to_string();
            let bound = Condition::parse(&written).unwrap().bound;
            let (holds, spares) =
                if maximise { (harmed >= bound, spared < bound) } else { (harmed <= bound, spared > bound) };
            assert!(holds && (spares || !apart), "{written}: {harmed} {spared}");
        }
    }
}
