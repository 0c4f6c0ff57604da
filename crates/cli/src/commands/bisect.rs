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
use crate::commands::run;
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
    /// Timer interrupts per second of the kernels that are built: 100 to 1000 [default: the sources' own, 100]
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
    let options = options(&args.config)?;
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
        Some(directory) => build(directory, &candidates[number], &args, &options, &bar),
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
        Err(error) => Err(failure(error)),
    }
}

/// The failure of a search, with its exit code. A run that failed has that of `warpline run`.
fn failure(error: BisectError) -> Failure {
    match error {
        BisectError::Scenario(_) | BisectError::Plan(_) => Failure::usage(error),
        BisectError::Run { kernel, source } => {
            run::failure(source).of(format_args!("with kernel `{kernel}`"))
        }
        other => Failure::run(other),
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
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    // A signal ends it without a word.
    Err(if said.is_empty() { format!("git {} failed ({})", words.join(" "), ran.status) } else { said })
}

/// The commits of a range, the one before them first.
fn commits(directory: &Path, range: &str) -> Result<Vec<String>, Failure> {
    // Three dots are a symmetric difference, which has no order.
    let is_range = |(from, to): &(&str, &str)| !from.is_empty() && !to.is_empty() && !to.starts_with('.');
    let Some((from, to)) = range.split_once("..").filter(is_range) else {
        return Err(Failure::usage(format!("`{range}` is no range of commits; for example v6.12..HEAD")));
    };
    let first = git(directory, &["rev-parse", "--verify", &format!("{from}^{{commit}}")]);
    let rest = git(directory, &["rev-list", "--reverse", "--first-parent", &format!("{from}..{to}")]);
    let all = first.and_then(|first| Ok(first + &rest?)).map_err(Failure::usage)?;
    Ok(all.split_whitespace().map(str::to_owned).collect())
}

/// What tells kernels with the options of these files from those with others, as a part of a name: a hash of what the files hold.
fn options(files: &[PathBuf]) -> Result<String, Failure> {
    if files.is_empty() {
        return Ok(String::new());
    }
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let text = std::fs::read(file).map_err(|error| {
            Failure::usage(format!("cannot read the options in {}: {error}", file.display()))
        })?;
        // Where one file ends counts, too.
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(&text);
    }
    Ok(format!("-config-{}", &hasher.finalize().to_hex()[..12]))
}

/// Removes from the repository what it knows of our working trees that are gone, as after a second Ctrl-C. Our trees are below `ours`. Those of
/// others stay: they may be on a disk that is not there now.
fn forget(directory: &Path, ours: &Path) {
    let Ok(ours) = ours.canonicalize() else { return };
    let listed = git(directory, &["worktree", "list", "--porcelain"]).unwrap_or_default();
    for tree in listed.lines().filter_map(|line| line.strip_prefix("worktree ")) {
        if Path::new(tree).starts_with(&ours) && !Path::new(tree).exists() {
            // One that stays does no harm.
            let _ = git(directory, &["worktree", "remove", "--force", tree]);
        }
    }
}

/// Why a commit is no kernel. If the search was `stopped`, that is why: Ctrl-C at a terminal ends git, too.
fn broken(commit: &str, why: &str, stopped: bool) -> BisectError {
    match stopped {
        true => BisectError::Stopped,
        false => BisectError::Kernel(format!("commit {commit}: {why}")),
    }
}

/// Builds a commit, unless it is a kernel already. Returns the kernel's name.
fn build(
    directory: &Path,
    commit: &str,
    args: &Args,
    options: &str,
    bar: &Steps,
) -> Result<String, BisectError> {
    let kernels = Kernels::of_user();
    let hz = args.hz.map(|hz| format!("-hz{hz}")).unwrap_or_default();
    // Other options make another kernel.
    let name = format!("commit-{}{hz}{options}", &commit[..12.min(commit.len())]);
    if kernels.directory().join(&name).is_dir() {
        return Ok(name);
    }
    let wrong = |why: String| broken(commit, &why, interrupt::requested());
    let desk = Desk::new().map_err(|failure| wrong(failure.message().to_owned()))?;
    if let Some(desks) = desk.path().parent() {
        forget(directory, desks);
    }
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

#[cfg(test)]
mod tests {
    use warpline_lab::run::RunError;

    use super::*;

    #[test]
    fn other_options_give_a_kernel_another_name() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (a, b) = (file("a", "CONFIG_A=y\n"), file("b", "CONFIG_B=y\n"));
        assert_eq!(options(&[]).unwrap(), "");
        let one = options(std::slice::from_ref(&a)).unwrap();
        assert_ne!(one, options(std::slice::from_ref(&b)).unwrap());
        assert_ne!(options(&[a.clone(), b.clone()]).unwrap(), options(&[b, a]).unwrap());
        // By what is in the file, not by its name.
        assert_eq!(one, options(&[file("c", "CONFIG_A=y\n")]).unwrap());
        let refused = options(&[place.path().join("none")]).unwrap_err();
        assert_eq!(refused.code(), Code::Usage);
    }

    #[test]
    fn our_working_trees_that_are_gone_are_forgotten_and_those_of_others_stay() {
        if Command::new("git").arg("--version").output().is_err() {
            return warpline_skip::skip("program", "git cannot be started");
        }
        let place = tempfile::tempdir().unwrap();
        let (repository, cache) = (place.path().join("linux"), place.path().join("cache"));
        std::fs::create_dir(&repository).unwrap();
        let run = |words: &[&str]| git(&repository, words).unwrap();
        run(&["init", "--quiet"]);
        let author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
        run(&[&author[..], &["commit", "--quiet", "--allow-empty", "--message", "one"]].concat());
        for tree in [cache.join("kernel.1").join("commit"), place.path().join("elsewhere")] {
            let path = tree.to_string_lossy();
            run(&["worktree", "add", "--detach", "--force", &*path, "HEAD"]);
            std::fs::remove_dir_all(&tree).unwrap();
        }
        forget(&repository, &cache);
        let left = run(&["worktree", "list"]);
        assert!(!left.contains("kernel.1") && left.contains("elsewhere"), "{left}");
    }

    #[test]
    fn git_that_is_ended_without_a_word_says_so_and_a_stop_is_a_stop() {
        if Command::new("git").arg("--version").output().is_err() {
            return warpline_skip::skip("program", "git cannot be started");
        }
        let place = tempfile::tempdir().unwrap();
        git(place.path(), &["init", "--quiet"]).unwrap();
        let why = git(place.path(), &["rev-parse", "--quiet", "--verify", "nothing"]).unwrap_err();
        assert_eq!(why, "git rev-parse --quiet --verify nothing failed (exit status: 1)");
        assert!(matches!(broken("c", &why, true), BisectError::Stopped));
        assert_eq!(broken("c", "no disk", false).to_string(), "commit c: no disk");
    }

    #[test]
    fn commits_without_an_order_are_refused() {
        for range in ["v6.12", "..b", "a..", "a...b"] {
            let refused = commits(Path::new("/no/such/place"), range).unwrap_err();
            assert_eq!(refused.code(), Code::Usage);
            assert!(refused.message().contains("is no range of commits"), "{range}: {}", refused.message());
        }
    }

    #[test]
    fn a_run_that_failed_has_the_exit_code_of_run() {
        let of = |source| failure(BisectError::Run { kernel: "k".to_owned(), source });
        let wrong = of(RunError::Build("no trace".to_owned()));
        assert_eq!((wrong.code(), wrong.message()), (Code::Usage, "with kernel `k`: no trace"));
        assert_eq!(of(RunError::Live("no core".to_owned())).code(), Code::Failed);
    }
}
