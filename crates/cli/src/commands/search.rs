//! `warpline search`: looks for the scenario that hurts most.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use serde_json::json;
use warpline_lab::run::RunOptions;
use warpline_net::Control;
use warpline_results::Unit;
use warpline_scenario::search::SearchFile;
use warpline_study::search::{AGAINST, BASE, FOUND, Outcome, Phase, SearchError, SearchOptions, search};

use crate::bar::Steps;
use crate::build_id::this_build;
use crate::commands::run;
use crate::destination::Destination;
use crate::failure::{Code, Failure};
use crate::{interrupt, output, seeds};

const EXAMPLES: &str = "\
A search file names a scenario, a measure, and ranges for keys of the scenario:

  scenario = \"two-flows.toml\"
  minimise = \"flow.bulk.goodput\"       # or maximise
  evaluations = 500                    # how many points are tried

  [vary]
  \"link[r1-r2].rate\" = { from = \"1Mbit/s\", to = \"100Mbit/s\", scale = \"log\" }
  \"link[r1-r2].queue\" = { choices = [\"10p\", \"1BDP\"] }
  \"link[r1-r2].down\" = { list = 3, of = { at = { from = \"0s\", to = \"30s\" }, for = \"1s\" } }

Examples:
  warpline search scenarios/search/bbr-starvation.search.toml
  The counterexample, and what it does:
    warpline run runs/search-bbr-starvation/found.toml
    warpline compare runs/search-bbr-starvation/base runs/search-bbr-starvation/found
  Go on with a search that was stopped or killed:
    warpline search FILE --out runs/search-bbr-starvation --resume

Results, in the directory:
  found.toml       the counterexample; `expect` is what it shows
  base, found      runs of the scenario as it is, and of the counterexample
  report.html      both on one page
  evaluations.csv  each point that was run, with its value and what ran it
  search.toml, base.toml  what was searched
With `against` also found-against.toml and its run.

Ctrl-C keeps the worst scenario until then, but does not make it small.";

/// Look for the scenario that hurts most, and make it small
///
/// Tries points within ranges of a scenario's keys, on all cores, for what makes a measure as small or as large as can be. Then everything
/// is taken away that does not matter: keys get the scenario's own value again, entries of lists go, numbers are rounded. The result
/// does not depend on the number of cores.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Search file
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Directory for the results [default: runs/search-NAME, with a number if that exists]
    #[arg(short, long, alias = "output", value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Go on with the search in the directory given with --out
    #[arg(long, requires = "out")]
    resume: bool,

    /// Try this many points, instead of the file's `evaluations`
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    evaluations: Option<u32>,

    /// Seed of the search, instead of the file's
    #[arg(long, value_name = "N", value_parser = seeds::seed)]
    seed: Option<u64>,

    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Print JSON on standard output, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let mut file = SearchFile::load(&args.file).map_err(Failure::usage)?;
    file.scenario.notes.iter().for_each(|note| output::note(note));
    file.evaluations = args.evaluations.unwrap_or(file.evaluations);
    file.seed = args.seed.unwrap_or(file.seed);
    if file.scenario.needs_namespaces() {
        #[cfg(live)]
        super::clean::before();
        // Before any other thread exists.
        warpline_lab::run::prepare().map_err(run::failure)?;
    }
    let claimed = args.out.is_none().then(|| Destination::claim(&stem(&args.file))).transpose()?;
    let out = args.out.clone().or_else(|| claimed.as_ref().map(|claimed| claimed.path().to_owned()));
    let runs = [BASE, FOUND, AGAINST];
    let unfinished = out.iter().flat_map(|out| runs.map(|run| out.join(run))).collect();
    interrupt::listen(unfinished)?;
    let options = SearchOptions {
        jobs: args.jobs.map_or(0, usize::from),
        out: out.clone(),
        resume: args.resume,
        build: this_build()?,
        note: Some(output::note),
        run: RunOptions::default(),
    };
    let unit = unit(&file);
    let bar = Steps::new(args.json);
    let searched = search(&file, &options, &|advance| {
        let best = match (advance.best, unit) {
            (Some(best), Some(unit)) => format!(", worst {}", unit.show(best)),
            _ => String::new(),
        };
        let small = if advance.phase == Phase::Small { "; making it small" } else { "" };
        let message = format!("{}{best}{small}", output::counted(advance.count, "point"));
        bar.update((advance.count as f64 / f64::from(file.evaluations)).min(1.0), &message);
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let outcome = match searched {
        Ok(outcome) => outcome,
        Err(SearchError::Stopped) => {
            output::note("stopped before the scenario as it is was run");
            return Ok(Code::Interrupted);
        }
        Err(SearchError::Scenario(wrong)) => return Err(Failure::usage(wrong)),
        Err(SearchError::Run(error)) => return Err(run::failure(error)),
        Err(wrong @ (SearchError::Exists(_) | SearchError::Occupied(_) | SearchError::Missing { .. })) => {
            return Err(Failure::usage(wrong));
        }
        Err(error) => return Err(Failure::output(error)),
    };
    output::print(&if args.json {
        as_json(&file, &outcome)
    } else {
        as_text(&file, &outcome, out.as_deref())
    })?;
    if outcome.complete {
        return Ok(Code::Success);
    }
    output::note("interrupted; the worst scenario until then is kept, and --resume goes on from there");
    Ok(Code::Interrupted)
}

/// The name of the directory: that of the file, without its endings.
fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".toml").unwrap_or(&name);
    format!("search-{}", name.strip_suffix(".search").unwrap_or(name))
}

/// The unit of what is searched for; none if there is no such measure.
fn unit(file: &SearchFile) -> Option<Unit> {
    let measure = warpline_results::NamedMeasure::parse(&file.measure).ok()?;
    Some(if file.against.is_empty() { measure.column.unit } else { Unit::Index })
}

fn as_json(file: &SearchFile, outcome: &Outcome) -> String {
    let worst = outcome.worst.as_ref().map(|worst| {
        let file = output::json_path(worst.file.as_deref());
        json!({"before": worst.before, "value": worst.value, "sets": worst.sets, "file": file})
    });
    let value = json!({
        "measure": outcome.measure.to_string(),
        "maximise": file.maximise,
        "base": outcome.base,
        "points": outcome.count,
        "points_without_value": outcome.without_value.as_ref().map_or(0, |(count, _)| *count),
        "complete": outcome.complete,
        "worst": worst,
    });
    format!("{value:#}\n")
}

fn as_text(file: &SearchFile, outcome: &Outcome, out: Option<&Path>) -> String {
    let unit = unit(file).unwrap_or(Unit::Index);
    let mut text = format!(
        "{}: {} in the scenario as it is; {} tried\n",
        outcome.measure,
        unit.show(outcome.base),
        output::counted(outcome.count, "point"),
    );
    if let Some((count, why)) = &outcome.without_value {
        let why = why.as_ref().map_or(String::new(), |why| format!(", the first because {why}"));
        let _ = writeln!(text, "Without a value: {} of them{why}", output::counted(*count, "point"));
    }
    let Some(worst) = &outcome.worst else {
        let way = if file.maximise { "larger" } else { "smaller" };
        let _ = writeln!(text, "No point makes it {way}.");
        return text;
    };
    let _ = writeln!(text, "Worst: {}, with", unit.show(worst.value));
    for set in &worst.sets {
        let _ = writeln!(text, "  --set '{set}'");
    }
    if worst.before != worst.value {
        let _ = writeln!(text, "Before it was made small: {}", unit.show(worst.before));
    }
    let report = out.map(|out| out.join("report.html")).filter(|report| report.exists());
    for (name, path) in [("Counterexample", worst.file.as_deref()), ("Report", report.as_deref())] {
        if let Some(path) = path {
            let _ = writeln!(text, "{}: {}", output::styled(output::HEADING, name), path.display());
        }
    }
    text
}
