//! `warpline compare`: what changed from one run, or set of seeds, to another; as text, and as a figure.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use warpline_report::figure::{Figure, Format};
use warpline_report::{Quantity, ReportError, band, busiest_link, distinct_names, write_whole};
use warpline_results::{Run, RunSet, SCREEN};
use warpline_study::compare::compare;

use crate::bar::Steps;
use crate::commands::report;
use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  warpline run scenarios/dumbbell.toml --out runs/cubic --seeds 1..10
  warpline run scenarios/dumbbell.toml --out runs/vegas --seeds 1..10 --set flow.bulk.cc=vegas
  warpline compare runs/cubic runs/vegas
  A figure for a paper, with the 95 % interval of the mean as a band:
    warpline compare runs/cubic runs/vegas --plot throughput --output throughput.pdf
  Of one group of flows, and of one link:
    warpline compare runs/cubic runs/vegas --plot cwnd --of bulk --output cwnd.svg
    warpline compare runs/cubic runs/vegas --plot delay --of 'r1>r2' --output delay.svg";

/// Show what changed from one run, or set of seeds, to another
///
/// Each of the two is a run directory, or a directory that `warpline run --seeds` wrote. Sets with the same seeds are compared seed by
/// seed: mean difference with its 95 % confidence interval. The output lists the scenario keys that differ, then what changed beyond the
/// noise, the largest change first and no more than fits the screen, and how many measures did not change. `warpline report RUN RUN`
/// shows the same two as plots.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The baseline: a run directory, or one of several seeds
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    before: PathBuf,

    /// What to compare with it
    #[arg(value_name = "OTHER", value_hint = ValueHint::DirPath)]
    after: PathBuf,

    /// Show every measure, even if unchanged, and single flows even if there are many
    #[arg(long, conflicts_with = "json")]
    all: bool,

    /// Print every measure as JSON, for programs
    #[arg(long)]
    json: bool,

    /// Draw this over time, a line for each of the two, and print only the name of the figure's file
    #[arg(long, value_name = "QUANTITY", conflicts_with_all = ["all", "json"], value_parser = PossibleValuesParser::new(Quantity::all().into_iter().map(Quantity::name)))]
    plot: Option<String>,

    /// What to draw: a group, a flow or a link [default: all flows, or the link where packets waited longest]
    #[arg(long, value_name = "NAME", requires = "plot")]
    of: Option<String>,

    /// File for the figure; its name ends in .svg or .pdf [default: QUANTITY.svg]
    #[arg(short, long, alias = "out", value_name = "FILE", requires = "plot", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let quantity = args.plot.as_deref().and_then(Quantity::named);
    let plot = quantity.map(|quantity| target(args, quantity)).transpose()?;
    let bar = Steps::new(args.json);
    let open = |directory: &Path, from: f64, to: f64| {
        let what = format!("reading {}", directory.display());
        bar.update(from, &what);
        RunSet::open_watched(directory, &|done, all| {
            bar.update(from + (to - from) * done as f64 / all.max(1) as f64, &what);
        })
        .map_err(Failure::usage)
    };
    let sets = open(&args.before, 0.0, 0.4).and_then(|a| Ok((a, open(&args.after, 0.4, 0.8)?)));
    let made = sets.and_then(|(a, b)| match &plot {
        Some((quantity, file, format)) => {
            bar.update(0.8, "drawing");
            draw(args, (&a, &b), *quantity, (file.as_path(), *format))?;
            Ok(format!("{}: {}\n", output::styled(output::HEADING, "Figure"), file.display()))
        }
        None => {
            bar.update(0.8, "comparing");
            differences(args, &a, &b)
        }
    });
    bar.clear();
    output::print(&made?)?;
    Ok(Code::Success)
}

/// What changed, as text or JSON.
fn differences(args: &Args, a: &RunSet, b: &RunSet) -> Result<String, Failure> {
    // If there are very many flows, their groups say more, and are quicker.
    let few = [a, b].iter().all(|set| set.summaries().iter().all(|summary| summary.flows.len() <= MANY));
    let comparison = compare(a, b, few || args.all || args.json);
    let sides = [(a, &comparison.a), (b, &comparison.b)];
    if let Some((set, side)) = sides.into_iter().find(|(_, side)| side.seeds.is_empty()) {
        let first = set.runs().first().map_or(set.path(), Run::path);
        return Err(Failure::usage(format!(
            "{}: no run of the set is complete, so there is nothing to compare; name one of its runs, which may be incomplete: {}",
            side.name,
            first.display()
        )));
    }
    if args.json {
        return Ok(comparison.to_json());
    }
    let lines = (!args.all).then(|| output::height().unwrap_or(SCREEN));
    Ok(output::headed(&comparison.render(output::width(), lines)))
}

/// Most flows of one run that are compared one by one.
const MANY: usize = 1000;

/// The figure's file and format.
fn target(args: &Args, quantity: Quantity) -> Result<(Quantity, PathBuf, Format), Failure> {
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.svg", quantity.name())));
    let format = Format::of(&file).ok_or_else(|| {
        Failure::usage(format!("{} does not end in .svg or .pdf, the formats of figures", file.display()))
    })?;
    Ok((quantity, file, format))
}

/// Draws the quantity of both.
fn draw(
    args: &Args,
    (a, b): (&RunSet, &RunSet),
    quantity: Quantity,
    (file, format): (&Path, Format),
) -> Result<(), Failure> {
    let of = args.of.clone().or_else(|| quantity.of_link().then(|| busiest_link(a)).flatten());
    let line = |set: &RunSet, name: String| -> Result<_, ReportError> {
        Ok((name, band(set, quantity, of.as_deref())?))
    };
    let names = distinct_names(&[a.path(), b.path()]);
    let lines = [a, b].into_iter().zip(names).map(|(set, name)| line(set, name));
    let lines = lines.collect::<Result<Vec<_>, _>>().map_err(report::failure)?;
    let figure = Figure { quantity, of, lines };
    if figure.is_empty() {
        return Err(Failure::usage(nothing(&figure, a)));
    }
    write_whole(&figure.write(format), file).map_err(report::failure)
}

/// An error for a figure without data, with what could be drawn instead.
fn nothing(figure: &Figure, set: &RunSet) -> String {
    const SOME: usize = 12;
    let summary = set.runs().first().map(|run| run.summary());
    let mut names: Vec<String> = summary
        .map(|summary| match figure.quantity.of_link() {
            true => summary.links.iter().map(|link| link.name.clone()).collect(),
            false => summary.groups.iter().map(|group| group.group.clone()).collect(),
        })
        .unwrap_or_default();
    if names.len() > SOME {
        names.truncate(SOME);
        names.push("and so on".to_owned());
    }
    let what = if figure.quantity.of_link() { "links" } else { "groups" };
    format!(
        "neither run has samples of the {} of {}; its {what} are {}",
        figure.quantity.label().to_lowercase(),
        figure.of.as_deref().unwrap_or("its flows"),
        names.join(", ")
    )
}
