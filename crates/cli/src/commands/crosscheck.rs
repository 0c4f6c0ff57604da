//! `warpline crosscheck`: one scenario in every way that its hosts allow, and whether they agree.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use warpline_lab::run::prepare;
use warpline_net::Control;
use warpline_scenario::Source;
use warpline_study::crosscheck::{
    CrosscheckError, Linux, Machine, Outcome, Pair, Plan, crosscheck, way_names,
};

use super::tdf_args::factor;
use crate::bar::Steps;
use crate::build_id::this_build;
use crate::failure::{Code, Failure};
use crate::seeds::Seeds;
use crate::{date, interrupt, output};

const EXAMPLES: &str = "\
The ways: `linux`, Linux kernels in lock-step with the simulation; `model`, the TCP
model with Linux's settings; `dilated` and `real`, the same kernels on the machine's
clock, slowed or not; `live`, this machine's own kernel in network namespaces. What a
way needs of the hosts is worked out from the scenario; one that is not possible is
listed with the reason. Runs on the machine's clock need the machine for themselves.

Measures are compared by their means over the seeds. What differs by more than the
bound and by more than chance is explained by evidence: the path, the CPU, the clock,
the kernel's version, or the model. Runs are kept in the directory of --out, so that
the same command goes on after Ctrl-C.

Examples:
  warpline crosscheck scenarios/dumbbell.toml
  warpline crosscheck scenarios/dumbbell.toml --ways model,linux --kernel 6.12 --seeds 1..10
  Change something in one way only:
    warpline crosscheck scenarios/dumbbell.toml --set-in model flow.bulk.cc=cubic:beta=0.5
  For a pipeline: fail if anything differs, also if it is explained:
    warpline crosscheck scenarios/dumbbell.toml --ways model,linux --strict --json";

/// Run a scenario in every way that its hosts allow, and say whether they agree
///
/// The ways are the model, Linux in lock-step, in dilated and in real time, and live hosts. The outcome is a certificate, as JSON and as a page.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario file
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Only these ways, separated by commas [default: all that the scenario allows]
    #[arg(long, value_name = "WAYS", value_delimiter = ',', value_parser = PossibleValuesParser::new(way_names()))]
    ways: Vec<String>,

    /// Lock-step with this kernel as well: a name, version, series, or file; may be given several times
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,

    /// The seeds: a range such as 1..5, or a list such as 1,2,7
    #[arg(long, value_name = "SEEDS", default_value = "1..3")]
    seeds: Seeds,

    #[arg(long, value_name = "FACTOR", value_parser = factor, help = format!("Time dilation factor of the way `dilated` [default: {TDF}]"))]
    tdf: Option<f64>,

    /// Change a key of the scenario; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Change a key of the scenario in one way only; may be given several times
    #[arg(long, num_args = 2, value_names = ["WAY", "KEY=VALUE"], action = clap::ArgAction::Append)]
    set_in: Vec<String>,

    /// Percent by which two ways may differ and still agree
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    within: f64,

    /// The same for two ways of which only the clock differs
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    within_clock: f64,

    /// Make no further runs to find out what a difference comes from
    #[arg(long)]
    no_narrow: bool,

    /// Fail if anything differs, also if it is explained
    #[arg(long)]
    strict: bool,

    /// Simulations at a time [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Directory of the certificate, and of the results that are kept [default: runs/crosscheck-NAME]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Date of the certificate [default: that of SOURCE_DATE_EPOCH, or today]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date::read)]
    date: Option<String>,

    /// Show all measures, also those that agree
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    all: bool,

    /// Print the certificate as JSON, for programs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print Markdown, with all measures
    #[arg(long)]
    markdown: bool,
}

/// The time dilation factor if none is given.
const TDF: f64 = 2.0;

/// Reads a percentage, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    let number = number.ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("\"{text}\" is no percentage: a number from 0 on, such as 5"))
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    // Differences of `real` are narrowed down in slower time, by this factor, too.
    let is_slowed = is_asked(args, "dilated") || (is_asked(args, "real") && !args.no_narrow);
    if args.tdf.is_some() && !is_slowed {
        return Err(Failure::usage(
            "--tdf is the factor of the way `dilated`, which is not among --ways: add it there, or leave out --tdf",
        ));
    }
    let source = Source::read(&args.file).map_err(Failure::usage)?;
    let name = source.load(&args.set).map_err(Failure::usage)?.name;
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("crosscheck-{name}")));
    let plan = Plan {
        sets: args.set.clone(),
        ways: args.ways.clone(),
        kernels: kernels(args)?,
        sets_in: args.set_in.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        seeds: args.seeds.0.clone(),
        tdf: args.tdf.unwrap_or(TDF),
        clock_percent: args.within_clock,
        model_percent: args.within,
        narrow: !args.no_narrow,
        jobs: args.jobs.unwrap_or(0).into(),
        kept: out.join("kept"),
        date: args.date.clone().map_or_else(date::today, Ok).map_err(Failure::usage)?,
        machine: machine(args)?,
        source,
    };
    #[cfg(live)]
    warpline_stacks::stack::crash::end_if_stuck();
    interrupt::listen(Vec::new())?;
    let bar = Steps::new(args.json);
    let checked = crosscheck(&plan, &|share, label| {
        bar.update(share, label);
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let certificate = match checked {
        Ok(certificate) => certificate,
        Err(CrosscheckError::Stopped) => {
            output::note(&format!(
                "what has run is kept in {}; the same command goes on from there",
                plan.kept.display()
            ));
            return Ok(Code::Interrupted);
        }
        Err(error @ (CrosscheckError::Scenario(_) | CrosscheckError::Plan(_))) => {
            return Err(Failure::usage(error));
        }
        Err(error @ CrosscheckError::Results(_)) => return Err(Failure::output(error)),
        Err(error @ CrosscheckError::Threads(_)) => return Err(Failure::run(error)),
    };
    let page = certificate.write(&out).map_err(Failure::output)?;
    output::print(&if args.json {
        certificate.to_json()
    } else if args.markdown {
        certificate.to_markdown()
    } else {
        output::headed(&certificate.render(args.all))
    })?;
    if !args.json && !args.markdown {
        output::print(&format!(
            "\n{}: {}\n",
            output::styled(output::HEADING, "Certificate"),
            page.display()
        ))?;
    }
    let differs = certificate.pairs.iter().any(Pair::differs);
    let good = matches!(certificate.outcome, Outcome::Agrees | Outcome::Chance | Outcome::Explained);
    Ok(if good && !(args.strict && differs) { Code::Success } else { Code::Failed })
}

/// Whether a way is among those that were asked for.
fn is_asked(args: &Args, way: &str) -> bool {
    args.ways.is_empty() || args.ways.iter().any(|name| name == way)
}

/// The machine: what it has, and what it lacks.
fn machine(args: &Args) -> Result<Machine, Failure> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let unknown = || format!("{}, {}", std::env::consts::ARCH, std::env::consts::OS);
    let cannot = |error: std::io::Error| Failure::run(format!("cannot find this program's file: {error}"));
    Ok(Machine {
        program: std::env::current_exe().map_err(cannot)?,
        build: this_build()?,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: model.map_or_else(unknown, |(_, model)| model.trim().to_owned()),
        cores: std::thread::available_parallelism().map_or(1, Into::into),
        guests: guests(),
        // A process of an ordinary user moves into namespaces of its own for that.
        live: match is_asked(args, "live") {
            true => live(),
            false => Err("it was not asked for".to_owned()),
        },
    })
}

/// The congestion controls of this machine's kernel that sockets in namespaces can have, or why there are no live hosts here.
fn live() -> Result<Vec<String>, String> {
    #[cfg(live)]
    super::clean::before();
    // Before any other thread exists.
    prepare().map_err(|error| error.to_string())?;
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let names = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

#[cfg(guests)]
fn linux(name: Option<&str>, kernel: warpline_guest::Kernel) -> Linux {
    let controls = kernel.congestion_controls().into_iter().map(|(name, _)| name).collect();
    Linux { name: name.map(str::to_owned), version: kernel.version, controls }
}

/// The kernel that guests have by themselves, or why there are none here.
#[cfg(guests)]
fn guests() -> Result<Linux, String> {
    warpline_guest::Kernel::find().map(|kernel| linux(None, kernel)).map_err(|error| error.to_string())
}

/// Further kernels.
#[cfg(guests)]
fn kernels(args: &Args) -> Result<Vec<Linux>, Failure> {
    let directory = args.file.parent().unwrap_or(Path::new(""));
    let find = |name: &String| {
        let kernel = warpline_guest::Kernels::of_user().find(Some(name), directory);
        kernel.map(|kernel| linux(Some(name), kernel)).map_err(Failure::usage)
    };
    args.kernel.iter().map(find).collect()
}

#[cfg(not(guests))]
fn guests() -> Result<Linux, String> {
    Err(warpline_lab::run::NO_GUESTS.to_owned())
}

#[cfg(not(guests))]
fn kernels(args: &Args) -> Result<Vec<Linux>, Failure> {
    match args.kernel.first() {
        Some(name) => Err(Failure::usage(format!("kernel `{name}`: {}", warpline_lab::run::NO_GUESTS))),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_numbers_in_their_range() {
        assert_eq!((percent("5"), percent("2.5 %"), percent("0")), (Ok(5.0), Ok(2.5), Ok(0.0)));
        assert!(
            percent("-1").is_err()
                && percent("much").unwrap_err().contains("much")
                && percent("inf").is_err()
        );
    }
}
