//! `warpline infer`: a scenario that reproduces a capture.

use std::path::PathBuf;

use clap::ValueHint;
use warpline_net::Control;
use warpline_report::write_whole;
use warpline_scenario::Diagnostics;
use warpline_study::infer::{Comparison, InferError, infer};

use crate::bar::Steps;
use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
The capture (pcap or pcapng) must be made at one end of the path or close to it, and hold
both directions. Headers are enough: tcpdump -i eth0 -s 128 -w transfer.pcap

The rate of the path shows only while there is a queue. If its users never filled it, the
scenario says so, and has a rate that does not limit them.

Examples:
  warpline infer transfer.pcap > transfer.toml
  warpline infer transfer.pcap --out transfer.toml --check
  warpline infer run/a-r1.pcapng run/r1-a.pcapng > again.toml
  warpline run transfer.toml";

/// Propose a scenario that reproduces a capture
///
/// Estimates rate, delay, queue and losses of the path, and its traffic.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture, in pcap or pcapng; several files of the same place are taken together
    #[arg(value_name = "CAPTURE", required = true, value_hint = ValueHint::FilePath)]
    captures: Vec<PathBuf>,

    /// Write the scenario to this file, and not to standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Congestion control of the flows, which packets do not tell
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    cc: String,

    /// With --out: run the scenario, and print how well it reproduces the capture
    #[arg(long, requires = "out")]
    check: bool,

    /// With --check: print JSON, for programs
    #[arg(long, requires = "check")]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let inferred = infer(&args.captures, &args.cc).map_err(Failure::usage)?;
    inferred.load().map_err(|wrong| refused(&wrong, &args.cc))?;
    match &args.out {
        Some(out) => write_whole(inferred.scenario.as_bytes(), out).map_err(Failure::output)?,
        None => output::print(&inferred.scenario)?,
    }
    if !args.check {
        return Ok(Code::Success);
    }
    interrupt::listen_to_discard()?;
    let bar = Steps::new(args.json);
    let compared = inferred.reproduce(&args.cc, &mut |share| {
        bar.update(share, "reproducing the capture");
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let comparison = match compared {
        Ok(comparison) => comparison,
        Err(InferError::Stopped) => return Ok(Code::Interrupted),
        Err(error) => return Err(Failure::run(error)),
    };
    if args.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&table(&comparison))?;
    }
    Ok(Code::Success)
}

/// Why the proposed scenario is refused. A wrong `--cc`, which is in each of its flows, is named once.
fn refused(wrong: &Diagnostics, cc: &str) -> Failure {
    // The path of the key is "flow.0.cc", or goes on below it.
    let first = wrong.errors.iter().find(|error| error.path.split('.').nth(2) == Some("cc"));
    match first {
        Some(error) => {
            let told = [&[error.message.clone()][..], &error.help].concat().join("; ");
            Failure::usage(format!("--cc {cc}: {told}"))
        }
        None => Failure::usage(InferError::Run(wrong.to_string())),
    }
}

fn table(comparison: &Comparison) -> String {
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let mut text = format!("{:42} {:>10} {:>10} {:>11}\n", "measure", "captured", "reproduced", "difference");
    for row in &comparison.rows {
        let difference =
            row.difference().map_or_else(String::new, |share| format!("{:+.1} %", share * 100.0));
        text += &format!(
            "{:42} {:>10} {:>10} {difference:>11}\n",
            row.measure,
            show(row.captured),
            show(row.reproduced)
        );
    }
    text
}
