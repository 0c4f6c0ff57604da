//! The subcommands, one file each, and the text that their help shares.

mod bench;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod bisect;
#[cfg(target_os = "linux")]
mod calibrate;
#[cfg(target_os = "linux")]
mod cap;
#[cfg(target_os = "linux")]
mod capd;
mod check;
#[cfg(target_os = "linux")]
mod clean;
mod compare;
mod completions;
#[cfg(target_os = "linux")]
mod control_args;
mod crosscheck;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod dilate;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod enter;
mod evaluate;
mod export;
mod import;
mod infer;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
mod lab;
#[cfg(target_os = "linux")]
mod link_args;
#[cfg(target_os = "linux")]
mod load;
mod man;
#[cfg(target_os = "linux")]
mod nice;
mod oracle;
#[cfg(target_os = "linux")]
mod prefetch;
#[cfg(unix)]
mod replicate;
mod report;
mod reproduce;
mod run;
mod schema;
mod search;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
mod set;
#[cfg(target_os = "linux")]
mod shell;
mod study;
#[cfg(target_os = "linux")]
mod treno;

use clap::Subcommand;

use crate::failure::{Code, Failure};
use crate::together::Together;

/// The exit codes, for the help of `warpline` itself.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
    0  everything was done as requested
    1  a run failed or gave up; or a program on a live host did not end as
       expected; or a receiver did not get its replica; or `crosscheck` found a
       difference that it cannot explain
    2  the command line, the scenario, or another input is wrong
    3  results could not be written
    4  a live run lagged more than clock.max_lag; what was measured until then is kept
  130  interrupted by Ctrl-C or SIGTERM; what was measured until then is kept

Environment:
  NO_COLOR  if set, there are no colours

Start with:
  warpline run scenarios/dumbbell.toml";

/// The subcommands of `warpline`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Lab(lab::Args),
    #[cfg(target_os = "linux")]
    Shell(Box<shell::Args>),
    #[cfg(target_os = "linux")]
    Set(set::Args),
    #[cfg(target_os = "linux")]
    Enter(enter::Args),
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Dilate(Box<dilate::Args>),
    #[cfg(target_os = "linux")]
    Nice(nice::Args),
    #[cfg(target_os = "linux")]
    Cap(Box<cap::Args>),
    #[cfg(target_os = "linux")]
    Capd(capd::Args),
    #[cfg(target_os = "linux")]
    Treno(treno::Args),
    #[cfg(unix)]
    Replicate(replicate::Args),
    #[cfg(target_os = "linux")]
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
    #[cfg(target_os = "linux")]
    Calibrate(calibrate::Args),
    #[cfg(target_os = "linux")]
    Doctor(doctor::Args),
    #[cfg(target_os = "linux")]
    Service(service::Args),
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Bisect(Box<bisect::Args>),
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Kernel(kernel::Args),
    #[cfg(target_os = "linux")]
    Clean(clean::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[cfg(target_os = "linux")]
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
            #[cfg(target_os = "linux")]
            Command::Shell(args) => shell::execute(*args),
            #[cfg(target_os = "linux")]
            Command::Set(args) => set::execute(&args),
            #[cfg(target_os = "linux")]
            Command::Enter(args) => enter::execute(args),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Command::Dilate(args) => dilate::execute(*args),
            #[cfg(target_os = "linux")]
            Command::Nice(args) => nice::execute(args),
            #[cfg(target_os = "linux")]
            Command::Cap(args) => cap::execute(&args),
            #[cfg(target_os = "linux")]
            Command::Capd(args) => capd::execute(&args),
            #[cfg(target_os = "linux")]
            Command::Treno(args) => treno::execute(&args),
            #[cfg(unix)]
            Command::Replicate(args) => replicate::execute(args),
            #[cfg(target_os = "linux")]
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
            #[cfg(target_os = "linux")]
            Command::Calibrate(args) => calibrate::execute(&args),
            #[cfg(target_os = "linux")]
            Command::Doctor(args) => doctor::execute(&args),
            #[cfg(target_os = "linux")]
            Command::Service(args) => service::execute(&args),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Command::Bisect(args) => bisect::execute(*args),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Command::Kernel(args) => kernel::execute(args),
            #[cfg(target_os = "linux")]
            Command::Clean(args) => clean::execute(&args),
            Command::Completions(args) => completions::execute(&args),
            Command::Man(args) => man::execute(&args),
            #[cfg(target_os = "linux")]
            Command::Load(args) => load::execute(&args),
        }
    }
}
