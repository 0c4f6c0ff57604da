//! `warpline oracle`: compares Warpline's results with ns-2's.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use warpline_net::Control;
use warpline_study::oracle::{Family, OracleError, compare, read_cases, scenario};

use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
The directory holds ns-2's results: fig1_reorder.csv, fig6_multihop.csv and
fig7_sip.csv. Warpline runs every case in them with several seeds, on all
cores. The table has both results, their difference, and for each difference
above 10 % its reason, or the confidence interval that shows it to be chance.

Examples:
  warpline oracle oracle/
  warpline oracle oracle/ --only fig7 --seeds 20
  warpline oracle oracle/ --more repro/ns2-oracle
  warpline oracle oracle/ --markdown > agreement.md
  warpline oracle oracle/ --only fig6 --scenarios | less";

/// Compare with ns-2's results, case by case
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory with ns-2's tables
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,

    /// A directory with more seeds of ns-2, in tables of the same names
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    more: Option<PathBuf>,

    /// Only the cases of this figure
    #[arg(long, value_name = "FIGURE")]
    only: Option<Figure>,

    /// Run each case with this many seeds
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=1000))]
    seeds: u16,

    /// Print JSON, for programs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print Markdown
    #[arg(long)]
    markdown: bool,

    /// Print the scenarios of the cases without running them
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    scenarios: bool,
}

/// The figures with cases.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Figure {
    /// Reordering
    Fig1,
    /// Congested hops
    Fig6,
    /// Messages
    Fig7,
}

impl Figure {
    const fn family(self) -> Family {
        match self {
            Figure::Fig1 => Family::Fig1,
            Figure::Fig6 => Family::Fig6,
            Figure::Fig7 => Family::Fig7,
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let families = args.only.map_or(Family::ALL.to_vec(), |figure| vec![figure.family()]);
    let cases = read_cases(&args.directory, args.more.as_deref(), &families).map_err(Failure::usage)?;
    if args.scenarios {
        let texts: Vec<String> = cases.iter().filter_map(scenario).collect();
        output::print(&texts.join("\n"))?;
        return Ok(Code::Success);
    }
    interrupt::listen(Vec::new())?;
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    // The template is a constant; if it does not parse, use the plain bar.
    bar.set_style(
        ProgressStyle::with_template("[{bar:30.cyan}] {pos} of {len} runs  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    let compared = compare(&cases, u32::from(args.seeds), &|advance| {
        bar.set_length(advance.of as u64);
        bar.set_position(advance.done as u64);
        if !advance.case.is_empty() {
            bar.set_message(advance.case.to_owned());
        }
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.finish_and_clear();
    let table = match compared {
        Ok(table) => table,
        Err(OracleError::Stopped) => {
            output::note("the table is only printed when all cases have run");
            return Ok(Code::Interrupted);
        }
        Err(error) => return Err(Failure::run(error)),
    };
    output::print(&if args.json {
        table.to_json()
    } else if args.markdown {
        table.to_markdown()
    } else {
        output::headed(&table.render())
    })?;
    Ok(Code::Success)
}
