//! `warpline study programs`: real programs in guests under each clock, and whether lock-step repeats them to the byte.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use warpline_net::Control;
use warpline_scenario::ClockMode;
use warpline_study::programs::{Plan, ProgramsError, Row, programs, to_markdown};

use super::super::tdf_args::factor;
use crate::bar::Steps;
use crate::failure::{Code, Failure};
use crate::stopwatch::Stopwatch;
use crate::{interrupt, output};

const EXAMPLES: &str = "\
Each scenario runs four times: in lock-step (the virtual clock) twice, which must write
the same bytes, under the dilated clock, and under the real clock. The table has the
time, on the run's clock, when the last program ended that the scenario expects to end.

Examples:
  warpline study programs scenarios/programs
  warpline study programs my-service.toml
  What the programs printed, and what differs:
    cat runs/programs/my-service/lock-step/programs/*.stdout
    warpline compare runs/programs/my-service/lock-step runs/programs/my-service/real";

/// Run programs under each clock, and check that lock-step repeats them
///
/// Shows whether your programs work in guests, whether their results are the same each time, and how far the clocks agree.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenarios with programs, or directories of such scenarios
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Change a key of each scenario; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Only these clocks, separated by commas
    #[arg(long, value_name = "CLOCKS", value_delimiter = ',', value_parser = ClockMode::ALL.map(ClockMode::name))]
    clocks: Vec<String>,

    /// Time dilation factor of the dilated clock
    #[arg(long, value_name = "FACTOR", default_value_t = 4.0, value_parser = factor)]
    tdf: f64,

    /// Directory of the runs
    #[arg(long, value_name = "DIR", default_value = "runs/programs", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Replace runs that are there
    #[arg(long)]
    force: bool,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(args: &Args) -> Result<Code, Failure> {
    let plan = Plan {
        files: files(&args.paths)?,
        sets: args.set.clone(),
        clocks: ClockMode::ALL.into_iter().filter(|clock| is_chosen(*clock, &args.clocks)).collect(),
        tdf: args.tdf,
        out: args.out.clone(),
        force: args.force,
    };
    interrupt::listen_to_discard()?;
    let bar = Steps::new(args.json);
    let clock = Stopwatch::start();
    let made = programs(&plan, &|| clock.seconds(), &mut |share, name| {
        bar.update(share, name);
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let rows = match made {
        Ok(rows) => rows,
        Err(ProgramsError::Stopped) => return Ok(Code::Interrupted),
        Err(error @ (ProgramsError::Scenario(_) | ProgramsError::NoPrograms(_))) => {
            return Err(Failure::usage(error));
        }
        Err(error) => return Err(Failure::run(error)),
    };
    if args.json {
        output::print_json(&rows)?;
    } else {
        output::print(&to_markdown(&rows, args.tdf))?;
    }
    Ok(if rows.iter().all(Row::passed) { Code::Success } else { Code::Failed })
}

fn is_chosen(clock: ClockMode, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == clock.name())
}

/// The files, and those of directories that end in `.toml`, in the order of their names.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot = |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
        let entries =
            std::fs::read_dir(path).map_err(cannot)?.collect::<Result<Vec<_>, _>>().map_err(cannot)?;
        let mut own: Vec<PathBuf> =
            entries.iter().map(|entry| entry.path()).filter(|file| is_scenario(file)).collect();
        if own.is_empty() {
            return Err(Failure::usage(format!("{} has no scenarios (*.toml)", path.display())));
        }
        own.sort();
        files.append(&mut own);
    }
    Ok(files)
}

fn is_scenario(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "toml")
}
