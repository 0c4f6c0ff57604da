//! The subcommands, one file each, and the text that their help shares.

mod bench;
#[cfg(guests)]
mod bisect;
#[cfg(live)]
mod calibrate;
#[cfg(live)]
mod cap;
#[cfg(live)]
mod capd;
mod check;
#[cfg(live)]
mod clean;
mod compare;
mod completions;
#[cfg(live)]
mod control_args;
mod crosscheck;
#[cfg(guests)]
mod dilate;
#[cfg(live)]
mod doctor;
#[cfg(live)]
mod enter;
mod evaluate;
mod export;
mod import;
mod infer;
#[cfg(guests)]
mod kernel;
mod lab;
#[cfg(live)]
mod link_args;
#[cfg(live)]
mod load;
mod man;
#[cfg(live)]
mod nice;
mod oracle;
#[cfg(live)]
mod prefetch;
#[cfg(all(unix, feature = "live"))]
mod replicate;
mod report;
mod reproduce;
mod run;
mod schema;
mod search;
#[cfg(live)]
mod service;
#[cfg(live)]
mod set;
#[cfg(live)]
mod shell;
mod study;
mod tdf_args;
#[cfg(live)]
mod treno;

use clap::Subcommand;

use crate::failure::{Code, Failure, exit_codes};
use crate::together::Together;

/// The end of the help of `warpline` itself.
pub(crate) fn end_of_help() -> String {
    format!(
        "\
Exit codes:
{}
Environment:
  NO_COLOR  if set, there are no colours

Start with:
  warpline run scenarios/dumbbell.toml",
        exit_codes()
    )
}

/// The subcommands of `warpline`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Lab(lab::Args),
    #[cfg(live)]
    Shell(Box<shell::Args>),
    #[cfg(live)]
    Set(set::Args),
    #[cfg(live)]
    Enter(enter::Args),
    #[cfg(guests)]
    Dilate(Box<dilate::Args>),
    #[cfg(live)]
    Nice(nice::Args),
    #[cfg(live)]
    Cap(Box<cap::Args>),
    #[cfg(live)]
    Capd(capd::Args),
    #[cfg(live)]
    Treno(treno::Args),
    #[cfg(all(unix, feature = "live"))]
    Replicate(replicate::Args),
    #[cfg(live)]
    Prefetch(prefetch::Args),
    Check(check::Args),
    Report(report::Args),
    Compare(compare::Args),
    Export(export::Args),
    Schema(schema::Args),
    Evaluate(evaluate::Args),
    Search(search::Args),
    Study(study::Args),
    Reproduce(reproduce::Args),
    Crosscheck(Box<crosscheck::Args>),
    Import(import::Args),
    Infer(infer::Args),
    Bench(bench::Args),
    Oracle(oracle::Args),
    #[cfg(live)]
    Calibrate(calibrate::Args),
    #[cfg(live)]
    Doctor(doctor::Args),
    #[cfg(live)]
    Service(service::Args),
    #[cfg(guests)]
    Bisect(Box<bisect::Args>),
    #[cfg(guests)]
    Kernel(kernel::Args),
    #[cfg(live)]
    Clean(clean::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[cfg(live)]
    Load(load::Args),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// If it fails; the failure carries the exit code.
    pub(crate) fn execute(self, together: &mut Together) -> Result<Code, Failure> {
        if together.count() > 1 && !matches!(self, Command::Run(_)) {
            return Err(Failure::usage(
                "only `warpline run` runs in several processes; start this without mpirun",
            ));
        }
        match self {
            Command::Run(args) => run::execute(args, together),
            #[cfg(live)]
            Command::Shell(args) => shell::execute(*args),
            #[cfg(live)]
            Command::Set(args) => set::execute(&args),
            #[cfg(live)]
            Command::Enter(args) => enter::execute(args),
            #[cfg(guests)]
            Command::Dilate(args) => dilate::execute(*args),
            #[cfg(live)]
            Command::Nice(args) => nice::execute(args),
            #[cfg(live)]
            Command::Cap(args) => cap::execute(&args),
            #[cfg(live)]
            Command::Capd(args) => capd::execute(&args),
            #[cfg(live)]
            Command::Treno(args) => treno::execute(&args),
            #[cfg(all(unix, feature = "live"))]
            Command::Replicate(args) => replicate::execute(args),
            #[cfg(live)]
            Command::Prefetch(args) => prefetch::execute(&args),
            Command::Lab(args) => lab::execute(args),
            Command::Check(args) => check::execute(&args),
            Command::Report(args) => report::execute(args),
            Command::Compare(args) => compare::execute(&args),
            Command::Export(args) => export::execute(&args),
            Command::Schema(args) => schema::execute(&args),
            Command::Evaluate(args) => evaluate::execute(&args),
            Command::Search(args) => search::execute(&args),
            Command::Study(args) => study::execute(&args),
            Command::Reproduce(args) => reproduce::execute(&args),
            Command::Crosscheck(args) => crosscheck::execute(&args),
            Command::Import(args) => import::execute(&args),
            Command::Infer(args) => infer::execute(&args),
            Command::Bench(args) => bench::execute(&args),
            Command::Oracle(args) => oracle::execute(&args),
            #[cfg(live)]
            Command::Calibrate(args) => calibrate::execute(&args),
            #[cfg(live)]
            Command::Doctor(args) => doctor::execute(&args),
            #[cfg(live)]
            Command::Service(args) => service::execute(&args),
            #[cfg(guests)]
            Command::Bisect(args) => bisect::execute(*args),
            #[cfg(guests)]
            Command::Kernel(args) => kernel::execute(args),
            #[cfg(live)]
            Command::Clean(args) => clean::execute(&args),
            Command::Completions(args) => completions::execute(&args),
            Command::Man(args) => man::execute(&args),
            #[cfg(live)]
            Command::Load(args) => load::execute(&args),
        }
    }
}
