//! `warpline lab`: a page in the browser in which networks are drawn, run and watched.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::ValueHint;
use warpline_web::{LabError, Options, Server};

use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  The scenarios of this directory, in the browser:
    warpline lab --open
  One scenario:
    warpline lab scenarios/dumbbell.toml
  With runs elsewhere, at a port of your choice:
    warpline lab scenarios --runs /tmp/runs --port 8000

The page is served to this machine only. Its address has a key, without which nobody is
served: keep it to yourself. The lab reads and writes scenarios in the directory (or that
of the file), and runs in the directory of runs; nothing else. Each run is a process of
its own. Ctrl-C ends the lab and stops its runs; what they measured is kept.";

/// Draw networks, run them, and watch their packets, in the browser
///
/// Prints the address of a page on this machine, and serves it until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario to open, or directory of scenarios
    #[arg(value_name = "FILE|DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
    place: PathBuf,

    /// Directory of runs
    #[arg(long, value_name = "DIR", default_value = "runs", value_hint = ValueHint::DirPath)]
    runs: PathBuf,

    /// Port of the page [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::run(format!("cannot find this program's file: {error}")))?;
    let options = Options { program, place: args.place, runs: args.runs, port: args.port };
    let server = Server::bind(&options).map_err(failure)?;
    interrupt::listen_plainly()?;
    output::print(&format!("Lab: {}\n", server.address()))?;
    output::note("the address is for this machine, and for you alone; Ctrl-C ends the lab");
    if args.open {
        let address = server.address_for_once().map_err(|error| Failure::run(error.to_string()))?;
        if let Err(error) = browse(&address) {
            output::note(&format!("cannot start a browser ({error}); open the address yourself"));
        }
    }
    server.serve(interrupt::requested).map_err(failure)?;
    Ok(Code::Success)
}

/// Opens an address with the program that the system has for it.
fn browse(address: &str) -> std::io::Result<()> {
    let (program, arguments): (&str, &[&str]) = match () {
        () if cfg!(target_os = "macos") => ("open", &[]),
        () if cfg!(windows) => ("cmd", &["/C", "start", ""]),
        () => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Open { .. } => Failure::usage(error),
        LabError::Serve { .. } => Failure::run(error),
    }
}
