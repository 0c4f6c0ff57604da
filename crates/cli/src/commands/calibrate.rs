//! `warpline calibrate`: how fast and how accurate emulation is on this machine.

use std::env;
use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use warpline_lab::run::prepare;
use warpline_live::calibrate::bed::BedError;
use warpline_report::check_writable;
use warpline_study::calibrate::{CalibrateError, Options, Part, calibrate, report, tables};

use crate::bar::Steps;
use crate::failure::{Code, Failure};
use crate::interrupt;
use crate::output::{self, headed};

const EXAMPLES: &str = "\
Sends real packets between two network namespaces, a source and a sink, over an
emulated link: round trips over delays of 0 to 300 ms, throughput at rates of 1 to
1000 Mbit/s with a full queue, losses at 0.1 to 10 %, the capacity in packets a
second and in TCP, and how many simulated links run beside a live stream before it
suffers. Times are the kernel's. The tables also show figures of nse, the
simulator that first carried live traffic in this way (2002).

With --only dilation, two guests measure at time dilation factors of 1, 10 and 100 how
exact their time is: what of a round trip is not dilated, and the errors of clocks and
timers. That takes some five minutes, or a minute and a half with --quick.

Needs root, or an ordinary user who may create user namespaces (see warpline doctor).
Do not use the machine meanwhile; the output begins with signs of other work.

Examples:
  warpline calibrate
  warpline calibrate --quick --no-report
  warpline calibrate --only accuracy
  warpline calibrate --only dilation --quick
  warpline calibrate --json > calibration.json

`make bench-live` also measures other emulators.";

/// Measure how fast and how accurate emulation is on this machine
///
/// Takes about five minutes, or one with --quick. Prints tables, and writes a report that plots how well the emulation keeps pace.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Measure less of everything, for a first impression
    #[arg(long)]
    quick: bool,

    /// Measure only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_enum, conflicts_with = "floors")]
    only: Vec<Only>,

    /// Also measure the capacity without an emulated network: packet sockets, TUN and veth alone
    #[arg(long)]
    floors: bool,

    /// File for the report
    #[arg(short, long, value_name = "FILE", default_value = "calibration.html", value_hint = ValueHint::FilePath)]
    out: PathBuf,

    /// Write no report
    #[arg(long)]
    no_report: bool,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// A part, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Only {
    /// Delay, bandwidth, loss
    Accuracy,
    /// Packets a second, TCP
    Capacity,
    /// Capacity without an emulated network
    Floors,
    /// Simulated links beside a live one
    KeepPace,
    /// Dilated time: how exact the clocks, timers and round trips of guests are; only if it is named, since it needs a kernel for guests
    Dilation,
}

impl From<Only> for Part {
    fn from(only: Only) -> Part {
        match only {
            Only::Accuracy => Part::Accuracy,
            Only::Capacity => Part::Capacity,
            Only::Floors => Part::Floors,
            Only::KeepPace => Part::KeepPace,
            Only::Dilation => Part::Dilation,
        }
    }
}

impl Args {
    fn parts(&self) -> Vec<Part> {
        if !self.only.is_empty() {
            return self.only.iter().copied().map(Part::from).collect();
        }
        let floors = self.floors.then_some(Part::Floors);
        [Part::Accuracy, Part::Capacity].into_iter().chain(floors).chain([Part::KeepPace]).collect()
    }
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    // The report is written after minutes of measuring, so it is checked now that it can be.
    if !args.no_report {
        check_writable(&args.out).map_err(|error| {
            Failure::output(format!("{error}; name another file with --out, or write none with --no-report"))
        })?;
    }
    // Before there are threads, with which a process cannot enter a user namespace.
    prepare().map_err(Failure::run)?;
    let program =
        env::current_exe().map_err(|error| Failure::run(format!("cannot find this program: {error}")))?;
    interrupt::listen_to_discard()?;
    if cfg!(debug_assertions) {
        output::note("this is a debug build; its figures are not those of a release build");
    }
    let steps = Steps::new(args.json);
    let options = Options { program: &program, quick: args.quick, parts: &args.parts() };
    let calibrated = calibrate(&options, interrupt::flag(), &mut |share, what| steps.update(share, what));
    steps.clear();
    let calibration = match calibrated {
        Ok(calibration) => calibration,
        Err(CalibrateError::Stopped | CalibrateError::Measure(BedError::Stopped)) => {
            return Ok(Code::Interrupted);
        }
        Err(error) => return Err(Failure::run(error)),
    };
    // What was measured is shown also if the report cannot be written.
    if args.json {
        output::print_json(&calibration)?;
    } else {
        output::print(&headed(&tables::render(&calibration)))?;
    }
    if !args.no_report {
        report::write(&calibration, &args.out).map_err(Failure::output)?;
        if !args.json {
            output::print(&format!("\nReport: {}\n", args.out.display()))?;
        }
    }
    Ok(Code::Success)
}
