//! `warpline study agreement`: the model against Linux in guests.

use std::path::PathBuf;

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use warpline_net::Control;
use warpline_study::agreement::{
    AgreementError, Plan, Size, agree, cases, is_chosen, scenarios, subjects, words,
};

use super::write_scenarios;
use crate::bar::Steps;
use crate::build_id::this_build;
use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
Each congestion control runs on each path twice: once with Linux at both ends, as
guests whose time follows the simulation, and once with the TCP model. Both lose
the same packets. Each queue runs twice, too: once in a guest that is a router,
once as the model has it. The traffic is the same. Results are kept in the
directory of --out, so that a study that was stopped goes on where it was. Linux's
are made again if the scenario or the kernel changes, the model's also if the
program does.

Guests need Debian's package user-mode-linux: warpline doctor says whether it is
installed. The whole study takes half an hour on two cores.

Examples:
  warpline study agreement --quick
  warpline study agreement reno cubic bbr
  warpline study agreement cake fq_codel
  warpline study agreement vegas --only 50ms --only 200ms --only droptail
  warpline study agreement --markdown > agreement.md
  The scenarios behind the figures, to run one and look at it:
    warpline study agreement bbr --scenarios cells
    warpline run cells/bbr-10mbit-s-50ms-1-droptail-linux.toml";

/// Hold the model against Linux, for the kernel's congestion controls and queues
///
/// Prints which share of the paths agree, and those that differ most. All cores are used.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these congestion controls and queues
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(subjects()))]
    names: Vec<String>,

    /// Run a few paths only, with runs a quarter as long and two seeds unless --seeds says otherwise
    #[arg(long)]
    quick: bool,

    /// Only paths with this rate, round-trip time, loss rate or queue; may be given several times
    #[arg(long, value_name = "PROPERTY", value_parser = PossibleValuesParser::new(words()))]
    only: Vec<String>,

    /// Run each path with this many seeds where anything is random [default: 5, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: Option<u16>,

    /// Runs at a time [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// The directory in which results are kept
    #[arg(short, long, value_name = "DIR", default_value = "agreement", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Print JSON, for programs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print Markdown, with all figures
    #[arg(long)]
    markdown: bool,

    /// Write the scenarios of the paths into this directory, and run none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["json", "markdown", "jobs", "out"])]
    scenarios: Option<PathBuf>,
}

impl Args {
    fn plan(&self) -> Plan {
        let mut cases = cases();
        cases.retain(|case| {
            (self.names.is_empty() || self.names.iter().any(|name| name == case.subject()))
                && is_chosen(case.as_ref(), &self.only)
                && (!self.quick || case.is_quick())
        });
        Plan {
            cases,
            size: Size {
                quick: self.quick,
                seeds: self.seeds.unwrap_or(if self.quick { 2 } else { 5 }).into(),
            },
            kernel: String::new(),
            kernel_build: String::new(),
            program: String::new(),
            kept: self.out.clone(),
            jobs: self.jobs.unwrap_or(0).into(),
        }
    }
}

pub(super) fn execute(args: &Args) -> Result<Code, Failure> {
    let plan = args.plan();
    if plan.cases.is_empty() {
        return Err(Failure::usage("no path has all these properties; leave out --quick or some of --only"));
    }
    if let Some(directory) = &args.scenarios {
        return write_scenarios(directory, &scenarios(&plan));
    }
    let (kernel, kernel_build) = kernel()?;
    let plan = Plan { kernel, kernel_build, program: this_build()?, ..plan };
    interrupt::listen(Vec::new())?;
    let bar = Steps::new(args.json);
    let agreed = agree(&plan, &|advance| {
        if !advance.name.is_empty() {
            bar.update(advance.share, &format!("{} of {}: {}", advance.done, advance.of, advance.name));
        }
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let agreement = match agreed {
        Ok(agreement) => agreement,
        Err(AgreementError::Stopped) => {
            output::note(&format!(
                "what has run is kept in {}; the same command goes on from there",
                plan.kept.display()
            ));
            return Ok(Code::Interrupted);
        }
        Err(error @ AgreementError::Results(_)) => return Err(Failure::output(error)),
        Err(error) => return Err(Failure::run(error)),
    };
    output::print(&if args.json {
        agreement.to_json()
    } else if args.markdown {
        agreement.to_markdown()
    } else {
        output::headed(&agreement.render())
    })?;
    Ok(Code::Success)
}

/// The version of the guests' kernel, and what tells it from every other one.
#[cfg(guests)]
fn kernel() -> Result<(String, String), Failure> {
    let kernel = warpline_guest::Kernel::find().map_err(Failure::run)?;
    let build = warpline_lab::run::builds::of_kernel(&kernel).map_err(Failure::run)?;
    Ok((kernel.version, build))
}

/// Returns the error that there are no guests here.
#[cfg(not(guests))]
fn kernel() -> Result<(String, String), Failure> {
    Err(Failure::run(format!(
        "this study needs guests: {}; --scenarios works everywhere",
        warpline_lab::run::NO_GUESTS
    )))
}
