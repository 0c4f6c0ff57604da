//! Real programs in the time of a run: scenarios with programs, under each clock, and in lock-step twice.
//!
//! Under each clock the same programs must end as their scenario expects. In lock-step, both runs must write the same bytes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use warpline_lab::run::{Broken, RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::ProgramRow;
use warpline_scenario::{ClockMode, Diagnostics, Expect, Source};

/// Exit code of a shell whose command is not installed.
const NO_SUCH_COMMAND: i32 = 127;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenarios.
    pub files: Vec<PathBuf>,
    /// Changes to them, as `warpline run --set` takes them.
    pub sets: Vec<String>,
    /// The clocks.
    pub clocks: Vec<ClockMode>,
    /// The time dilation factor of the dilated clock.
    pub tdf: f64,
    /// The directory for the runs.
    pub out: PathBuf,
    /// Whether existing runs there are replaced.
    pub force: bool,
}

/// A run of a scenario's programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Its name: "lock-step", "again", "dilated", "real".
    pub name: &'static str,
    /// The clock.
    pub clock: &'static str,
    /// When the last program ended that was to end, in the run's time, in seconds; none if one did not.
    pub ended_s: Option<f64>,
    /// How long the run took on this machine, in seconds.
    pub wall_s: f64,
    /// How often, in lock-step, a program that computed without a system call had to be pushed on by the machine's clock.
    pub pushes: u64,
    /// What went wrong.
    pub failures: Vec<String>,
    /// The run.
    pub run: PathBuf,
}

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The scenario's name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// A program that is not installed; then there are no more runs.
    pub missing: Option<String>,
    /// The runs: lock-step twice, then each other clock.
    pub trials: Vec<Trial>,
    /// The first file that is not the same in both runs in lock-step; none if all are.
    pub differs: Option<PathBuf>,
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsError {
    /// A scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// A scenario has nothing to run.
    #[error("{}: it has no programs ([[host.program]])", .0.display())]
    NoPrograms(PathBuf),
    /// A run failed.
    #[error("{} under the {clock} clock: {source}", file.display())]
    Run {
        /// The scenario.
        file: PathBuf,
        /// The clock.
        clock: &'static str,
        /// Why.
        source: RunError,
    },
    /// The results of a run could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

/// The runs of a scenario: the name of each and its clock.
const TRIALS: [(&str, ClockMode); 4] = [
    ("lock-step", ClockMode::Virtual),
    ("again", ClockMode::Virtual),
    ("dilated", ClockMode::Dilated),
    ("real", ClockMode::Real),
];

/// Runs all scenarios, one after another: under the real and the dilated clock, a run needs the machine for itself. `seconds` is the machine's
/// clock, from any origin. `observe` gets the share of all runs that is done and the name of the one that runs, and can stop them.
///
/// # Errors
/// If a scenario is wrong, or a run cannot be made. Programs that fail are rows.
pub fn programs(
    plan: &Plan,
    seconds: &dyn Fn() -> f64,
    observe: &mut dyn FnMut(f64, &str) -> Control,
) -> Result<Vec<Row>, ProgramsError> {
    let chosen: Vec<_> = TRIALS.iter().filter(|(_, clock)| plan.clocks.contains(clock)).collect();
    let count = (plan.files.len() * chosen.len()).max(1) as f64;
    let rows = plan.files.iter().enumerate().map(|(number, file)| {
        let source = Source::read(file)?;
        let scenario = source.load(&plan.sets)?;
        if scenario.programs().next().is_none() {
            return Err(ProgramsError::NoPrograms(file.clone()));
        }
        let mut row = Row {
            name: scenario.name.clone(),
            description: scenario.description.clone().unwrap_or_else(|| scenario.name.clone()),
            missing: None,
            trials: Vec::new(),
            differs: None,
        };
        for (at, &&(name, clock)) in chosen.iter().enumerate() {
            let factor =
                if clock == ClockMode::Dilated { format!(", tdf = {}", plan.tdf) } else { String::new() };
            let mut sets = plan.sets.clone();
            sets.push(format!("clock={{ mode = {:?}{factor} }}", clock.name()));
            let begun = (number * chosen.len() + at) as f64;
            let out = plan.out.join(&row.name).join(name);
            let options = RunOptions {
                out: Some(out.clone()),
                force: plan.force,
                report: true,
                ..RunOptions::default()
            };
            let begin = seconds();
            let mut stopped = false;
            let outcome = run(&source.load(&sets)?, &options, &mut |progress| {
                let share = progress.simulated.as_secs_f64() / progress.duration.as_secs_f64().max(1e-9);
                let told = observe((begun + share.min(1.0)) / count, &format!("{}, {name}", row.name));
                stopped |= told == Control::Stop;
                told
            })
            .map_err(|source| ProgramsError::Run {
                file: file.clone(),
                clock: clock.name(),
                source,
            })?;
            if stopped {
                return Err(ProgramsError::Stopped);
            }
            row.missing = missing(&outcome);
            if row.missing.is_some() {
                break;
            }
            row.trials.push(trial(name, clock, outcome, seconds() - begin, out));
        }
        if let [Some(first), Some(again)] = [row.trial(TRIALS[0].0), row.trial(TRIALS[1].0)] {
            row.differs = first_difference(&first.run, &again.run)?;
        }
        Ok(row)
    });
    rows.collect()
}

/// All programs of a run.
fn all(outcome: &RunOutcome) -> impl Iterator<Item = &ProgramRow> {
    let summary = &outcome.summary;
    let guests = summary.guests.iter().flat_map(|guests| &guests.programs);
    guests.chain(summary.live.iter().flat_map(|live| &live.programs))
}

/// The program that is not installed, if there is one.
fn missing(outcome: &RunOutcome) -> Option<String> {
    let program = all(outcome).find(|program| program.code == Some(NO_SUCH_COMMAND))?;
    Some(format!(
        "a program of {}.{} is not installed (exit code {NO_SUCH_COMMAND})",
        program.host, program.name
    ))
}

fn trial(name: &'static str, clock: ClockMode, outcome: RunOutcome, wall_s: f64, run: PathBuf) -> Trial {
    let ends =
        all(&outcome).filter(|program| program.expected != Expect::RUNNING).map(|program| program.end_s);
    let ended_s = ends.collect::<Option<Vec<f64>>>().and_then(|ends| ends.into_iter().reduce(f64::max));
    let mut failures = outcome.failures;
    failures.extend(outcome.broken.map(|(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why))| why));
    let pushes = outcome.summary.guests.as_ref().map_or(0, |guests| guests.pushes);
    Trial { name, clock: clock.name(), pushes, ended_s, wall_s, failures, run }
}

/// The first file that is not the same in two runs, by name.
fn first_difference(one: &Path, other: &Path) -> Result<Option<PathBuf>, ProgramsError> {
    let mut names = BTreeSet::new();
    for run in [one, other] {
        list(run, Path::new(""), &mut names)?;
    }
    for name in names {
        let read = |run: &Path| {
            let path = run.join(&name);
            match fs::read(&path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(ProgramsError::Read { path, source }),
            }
        };
        if read(one)? != read(other)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Adds the names of all files below a directory of a run.
fn list(run: &Path, below: &Path, names: &mut BTreeSet<PathBuf>) -> Result<(), ProgramsError> {
    let path = run.join(below);
    let read = |source| ProgramsError::Read { path: path.clone(), source };
    for entry in fs::read_dir(&path).map_err(read)? {
        let entry = entry.map_err(read)?;
        let name = below.join(entry.file_name());
        if entry.file_type().map_err(read)?.is_dir() {
            list(run, &name, names)?;
        } else {
            names.insert(name);
        }
    }
    Ok(())
}

impl Row {
    fn trial(&self, name: &str) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.name == name)
    }

    /// Whether all programs ended as expected under each clock, and both runs in lock-step wrote the same bytes, and would on any machine.
    pub fn passed(&self) -> bool {
        self.missing.is_none()
            && self.differs.is_none()
            && self.trials.iter().all(|trial| trial.failures.is_empty() && trial.pushes == 0)
    }
}

/// The rows as a table in Markdown. Terminals can show it, too.
pub fn to_markdown(rows: &[Row], tdf: f64) -> String {
    let mut text = format!(
        "| programs | lock-step | the same bytes twice | dilated ({tdf}) | real | lock-step on this machine |\n|---|--:|---|--:|--:|--:|\n"
    );
    for row in rows {
        let _ = write!(text, "| {} |", row.description);
        if let Some(missing) = &row.missing {
            let _ = writeln!(text, " left out: {missing} | | | | |");
            continue;
        }
        let cell = |name: &str| {
            let Some(trial) = row.trial(name) else { return "-".to_owned() };
            match (trial.failures.first(), trial.ended_s) {
                (Some(failure), _) => format!("FAILED: {}", failure.replace('\n', " ").replace('|', "/")),
                (None, Some(ended)) => format!("{ended:.3} s"),
                (None, None) => "-".to_owned(),
            }
        };
        let same = match (&row.differs, row.trial("again")) {
            (Some(file), _) => format!("NO: {}", file.display()),
            (None, Some(again)) if again.pushes > 0 => format!("by chance: pushed on {} times", again.pushes),
            (None, Some(_)) => "yes".to_owned(),
            (None, None) => "-".to_owned(),
        };
        let wall = row.trial("lock-step").map_or("-".to_owned(), |trial| format!("{:.1} s", trial.wall_s));
        let _ = writeln!(
            text,
            " {} | {same} | {} | {} | {wall} |",
            cell("lock-step"),
            cell("dilated"),
            cell("real")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_missing_is_named() {
        let desk = tempfile::tempdir().unwrap();
        let (one, other) = (desk.path().join("one"), desk.path().join("other"));
        for run in [&one, &other] {
            fs::create_dir_all(run.join("programs")).unwrap();
            fs::write(run.join("summary.json"), "{}").unwrap();
            fs::write(run.join("programs/a.stdout"), "hello").unwrap();
        }
        assert_eq!(first_difference(&one, &other).unwrap(), None);
        fs::write(other.join("programs/a.stdout"), "hallo").unwrap();
        assert_eq!(first_difference(&one, &other).unwrap(), Some(PathBuf::from("programs/a.stdout")));
        fs::write(one.join("flows.parquet"), "").unwrap();
        assert_eq!(first_difference(&one, &other).unwrap(), Some(PathBuf::from("flows.parquet")));
        assert!(first_difference(&one, &desk.path().join("none")).is_err());
    }
}
