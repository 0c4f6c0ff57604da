//! `warpline evaluate`: the evaluation that RFC 9743 asks for, of a congestion control.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use warpline_lab::run::RunOptions;
use warpline_net::Control;
use warpline_report::write_whole;
use warpline_study::evaluate::{CRITERIA, Criterion, EvaluateError, Plan, evaluate};

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
    #[arg(long, value_name = "QUESTION", value_parser = PossibleValuesParser::new(CRITERIA.iter().map(|criterion| criterion.name)))]
    only: Vec<String>,

    /// Run each trial with this many seeds [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: Option<u16>,

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
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["json", "markdown", "all", "seeds"])]
    scenarios: Option<PathBuf>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let asked =
        |criterion: &&Criterion| args.only.is_empty() || args.only.iter().any(|only| only == criterion.name);
    let criteria: Vec<Criterion> = CRITERIA.iter().filter(asked).copied().collect();
    if let Some(directory) = &args.scenarios {
        return write_scenarios(directory, &criteria, args);
    }
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 5 });
    let plan = Plan {
        cc: args.cc.clone(),
        criteria,
        quick: args.quick,
        seeds: seeds.into(),
        options: RunOptions::default(),
    };
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
    output::print(&if args.json {
        evaluation.to_json()
    } else if args.markdown {
        evaluation.to_markdown()
    } else {
        output::headed(&evaluation.render(args.all))
    })?;
    Ok(Code::Success)
}

/// Writes the scenario of each trial, and with a standard algorithm in its place where that is the bound.
fn write_scenarios(directory: &Path, criteria: &[Criterion], args: &Args) -> Result<Code, Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::output(format!("cannot create {}: {error}", directory.display())))?;
    let mut count = 0;
    for criterion in criteria {
        for trial in criterion.trials(&args.cc, args.quick) {
            let name = trial.file_name(criterion);
            let baseline = trial.baseline.iter().map(|text| (format!("{name}-standard.toml"), text));
            for (file, text) in std::iter::once((format!("{name}.toml"), &trial.tested)).chain(baseline) {
                write_whole(text.as_bytes(), &directory.join(file)).map_err(Failure::output)?;
                count += 1;
            }
        }
    }
    output::print(&format!("{count} scenarios in {}\n", directory.display()))?;
    Ok(Code::Success)
}
