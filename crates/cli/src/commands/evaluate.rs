//! `warpline evaluate`: the evaluation that RFC 9743 asks for, of a congestion control.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use warpline_lab::run::RunOptions;
use warpline_net::Control;
use warpline_report::write_whole;
use warpline_study::evaluate::{BY_NAME, CRITERIA, Criterion, EvaluateError, Plan, evaluate};

use crate::bar::Steps;
use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
Each question of RFC 9743 has trials: a scenario with the algorithm, mostly a
dumbbell, and figures of it with bounds. Where a bound is not a number, it is
what CUBIC does in the same scenario with the same seed. A verdict is open if
seeds differ so much that the mean's 95 % confidence interval holds the bound.

Examples:
  warpline evaluate htcp --quick
  warpline evaluate 'cubic:beta=0.5' --seeds 10
  warpline evaluate vegas --only coexistence --only queueing --all
  A page with plots, every scenario, and the figures as JSON:
    warpline evaluate bbr --out evaluation-of-bbr
  What background transfer should do; asked by name only:
    warpline evaluate nice --only background
  Linux's own, in guests:
    warpline evaluate bbr --quick --guests
  The scenarios behind the figures, to run one and look at it:
    warpline evaluate vegas --scenarios trials
    warpline run trials/queueing-queue-of-4bdp.toml --seed 1";

/// Evaluate a congestion control by the questions of RFC 9743
///
/// The output is a verdict on each question, and the figures that are not within their bounds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The congestion control, by name or with parameters: "htcp", "nice:threshold=0.1"
    #[arg(value_name = "CC")]
    cc: String,

    /// Run only the trials that differ most, with one seed unless --seeds says otherwise
    #[arg(long)]
    quick: bool,

    /// Only this question; may be given several times
    #[arg(long, value_name = "QUESTION", value_parser = PossibleValuesParser::new(CRITERIA.iter().chain(BY_NAME).map(|criterion| criterion.name)))]
    only: Vec<String>,

    /// Run each trial with this many seeds [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: Option<u16>,

    /// Evaluate the congestion control of this name in Linux: the flows that are compared, and their receivers, are guests
    #[arg(long)]
    guests: bool,

    /// Write a page with plots (report.html), the figures (evaluation.json) and all scenarios into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Show all figures, also those within their bounds
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    all: bool,

    /// Print JSON, for programs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print Markdown
    #[arg(long)]
    markdown: bool,

    /// Write the scenarios of the trials into this directory, and run none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["json", "markdown", "all", "seeds", "out"])]
    scenarios: Option<PathBuf>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let named = |criterion: &&Criterion| args.only.iter().any(|only| only == criterion.name);
    let criteria: Vec<Criterion> = match args.only.as_slice() {
        [] => CRITERIA.to_vec(),
        _ => CRITERIA.iter().chain(BY_NAME).filter(named).copied().collect(),
    };
    let plan = Plan {
        cc: args.cc.clone(),
        criteria,
        quick: args.quick,
        seeds: args.seeds.unwrap_or(if args.quick { 1 } else { 5 }).into(),
        guests: args.guests,
        options: RunOptions::default(),
    };
    if let Some(directory) = &args.scenarios {
        return write_scenarios(directory, &plan);
    }
    if let Some(directory) = &args.out {
        create(directory)?;
    }
    interrupt::listen(Vec::new())?;
    let bar = Steps::new(args.json);
    let evaluated = evaluate(&plan, &|advance| {
        if !advance.trial.is_empty() {
            bar.update(advance.done as f64 / advance.of.max(1) as f64, advance.trial);
        }
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let evaluation = match evaluated {
        Ok(evaluation) => evaluation,
        Err(EvaluateError::Stopped) => {
            output::note("the verdicts are only printed when all trials have run");
            return Ok(Code::Interrupted);
        }
        Err(EvaluateError::Scenario(wrong)) => return Err(Failure::usage(wrong)),
        Err(error) => return Err(Failure::run(error)),
    };
    let page = args.out.as_deref().map(|directory| evaluation.write(directory));
    let page = page.transpose().map_err(Failure::output)?;
    output::print(&if args.json {
        evaluation.to_json()
    } else if args.markdown {
        evaluation.to_markdown()
    } else {
        output::headed(&evaluation.render(args.all))
    })?;
    if let (Some(page), false) = (page, args.json || args.markdown) {
        output::print(&format!("\n{}: {}\n", output::styled(output::HEADING, "Report"), page.display()))?;
    }
    Ok(Code::Success)
}

fn create(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::output(format!("cannot create {}: {error}", directory.display())))
}

/// Writes the scenarios of each trial.
fn write_scenarios(directory: &Path, plan: &Plan) -> Result<Code, Failure> {
    create(directory)?;
    let mut count = 0;
    for criterion in &plan.criteria {
        for trial in plan.trials(criterion).map_err(Failure::usage)? {
            for scenario in trial.scenarios(criterion) {
                write_whole(scenario.text.as_bytes(), &directory.join(scenario.file))
                    .map_err(Failure::output)?;
                count += 1;
            }
        }
    }
    output::print(&format!("{count} scenarios in {}\n", directory.display()))?;
    Ok(Code::Success)
}
