//! `warpline bisect`: the first kernel with which a scenario behaves differently.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueHint;
use warpline_guest::kernel_build::{BuildError, HZ, Plan as Build, Sources};
use warpline_guest::kernels::About;
use warpline_guest::{Kernels, kernel_build};
use warpline_net::Control;
use warpline_study::bisect::{BisectError, Found, Plan, bisect};

use crate::bar::Steps;
use crate::commands::kernel::Desk;
use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
The kernels are in order. The scenario runs with the first and the last, and then
with those that halve what is left between. It behaves alike if the same conditions
hold (`expect` of the scenario, and --expect); without conditions, if all captures
(record = [\"pcap\"]) have the same packets at the same times.

Examples:
  warpline bisect slow.toml --kernels 6.1,6.12 --expect 'flow.bulk.0.goodput > 5Mbit/s'
  warpline bisect slow.toml --commits ~/src/linux --range v6.12..my-branch
  Then look at the two runs beside the change:
    warpline compare runs/bisect-slow/A runs/bisect-slow/B";

/// Find the kernel that changes what a scenario does
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario file
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Kernels in order, separated by commas: names, versions, series, or files
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', required_unless_present = "commits")]
    kernels: Vec<String>,
    /// A git repository of Linux: its commits of --range are built as they are needed, and kept as kernels
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "range", conflicts_with = "kernels")]
    commits: Option<PathBuf>,
    /// The commits, as git takes them: the one before the first, and the last
    #[arg(long, value_name = "A..B", requires = "commits")]
    range: Option<String>,
    /// Timer interrupts per second of the kernels that are built
    #[arg(long, value_name = "N", requires = "commits", value_parser = clap::value_parser!(u32).range(i64::from(*HZ.start())..=i64::from(*HZ.end())))]
    hz: Option<u32>,
    /// A file with more options for the kernels that are built; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "commits")]
    config: Vec<PathBuf>,
    /// A condition besides those of the scenario; may be given several times
    #[arg(long, value_name = "CONDITION")]
    expect: Vec<String>,
    /// Only change the kernel of this guest; may be given several times
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Change a key of the scenario; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Directory of the runs [default: runs/bisect-NAME]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Replace runs that are there
    #[arg(long)]
    force: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let name = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("bisect-{name}")));
    let candidates = match (&args.commits, &args.range) {
        (Some(directory), Some(range)) => commits(directory, range)?,
        _ => args.kernels.clone(),
    };
    if candidates.len() < 2 {
        return Err(Failure::usage("a change lies between two kernels: name at least two"));
    }
    interrupt::listen_to_discard()?;
    let bar = Steps::new(args.json);
    let plan = Plan {
        file: args.file.clone(),
        sets: args.set.clone(),
        hosts: args.host.clone(),
        expect: args.expect.clone(),
        out,
        force: args.force,
    };
    let mut ready = |number: usize| match &args.commits {
        Some(directory) => build(directory, &candidates[number], &args, &bar),
        None => Ok(candidates[number].clone()),
    };
    let mut observe = |number: usize, share: f64| {
        bar.update(share, &candidates[number]);
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    };
    let found = bisect(&plan, candidates.len(), &mut ready, &mut observe);
    bar.clear();
    match found {
        Ok(found) => {
            if args.json {
                output::print_json(&found)?
            } else {
                output::print(&text(&found))?
            }
            Ok(Code::Success)
        }
        Err(BisectError::Stopped) => Ok(Code::Interrupted),
        Err(error @ (BisectError::Scenario(_) | BisectError::Plan(_))) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::run(error)),
    }
}

fn text(found: &Found) -> String {
    let mut text = String::new();
    let width = found.trials.iter().map(|trial| trial.kernel.len()).max().unwrap_or_default();
    for trial in &found.trials {
        let what = if trial.alike { "as the first" } else { "differs" };
        text += &format!("{:width$}  Linux {}  {what}\n", trial.kernel, trial.version);
        for told in &trial.told {
            text += &format!("{:width$}    {told}\n", "");
        }
    }
    text + &match &found.change {
        Some((before, after)) => format!("\nThe change is between `{before}` and `{after}`.\n"),
        None => "\nThe last one behaves as the first: there is no change between them, or it was undone.\n"
            .to_owned(),
    }
}

/// Runs git in a repository and returns what it prints.
fn git(directory: &Path, words: &[&str]) -> Result<String, String> {
    let ran = Command::new("git").arg("-C").arg(directory).args(words).output();
    let ran = ran.map_err(|error| format!("cannot start git: {error}"))?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()),
    }
}

/// The commits of a range, the one before them first.
fn commits(directory: &Path, range: &str) -> Result<Vec<String>, Failure> {
    let Some((from, to)) = range.split_once("..").filter(|(from, to)| !from.is_empty() && !to.is_empty())
    else {
        return Err(Failure::usage(format!("`{range}` is no range of commits; for example v6.12..HEAD")));
    };
    let first = git(directory, &["rev-parse", "--verify", &format!("{from}^{{commit}}")]);
    let rest = git(directory, &["rev-list", "--reverse", "--first-parent", &format!("{from}..{to}")]);
    let all = first.and_then(|first| Ok(first + &rest?)).map_err(Failure::usage)?;
    Ok(all.split_whitespace().map(str::to_owned).collect())
}

/// Builds a commit, unless it is a kernel already. Returns the kernel's name.
fn build(directory: &Path, commit: &str, args: &Args, bar: &Steps) -> Result<String, BisectError> {
    let kernels = Kernels::of_user();
    let hz = args.hz.map(|hz| format!("-hz{hz}")).unwrap_or_default();
    let name = format!("commit-{}{hz}", &commit[..12.min(commit.len())]);
    // Other options make another kernel.
    if args.config.is_empty() && kernels.directory().join(&name).is_dir() {
        return Ok(name);
    }
    let wrong = |why: String| BisectError::Kernel(format!("commit {commit}: {why}"));
    let desk = Desk::new().map_err(|failure| wrong(failure.message().to_owned()))?;
    let source = desk.path().join("commit");
    let checked_out =
        git(directory, &["worktree", "add", "--detach", "--force", &source.to_string_lossy(), commit]);
    checked_out.map_err(wrong)?;
    let plan = Build {
        sources: Sources::Directory(source.clone()),
        hz: args.hz,
        config: args.config.clone(),
        patches: Vec::new(),
        jobs: std::thread::available_parallelism().map_or(1, Into::into),
    };
    let built = kernel_build::build(&plan, desk.path(), &mut |_| {
        bar.update(0.0, &format!("{name}: building"));
        !interrupt::requested()
    });
    let _ = git(directory, &["worktree", "remove", "--force", &source.to_string_lossy()]);
    let file = built.map_err(|error| match error {
        BuildError::Stopped => BisectError::Stopped,
        other => wrong(other.to_string()),
    })?;
    let origin = format!("commit {commit} of {}", directory.display());
    let about = About { origin, hz: args.hz, modules: None };
    kernels.add(&name, &file, &about, true).map_err(|error| wrong(error.to_string()))?;
    Ok(name)
}
