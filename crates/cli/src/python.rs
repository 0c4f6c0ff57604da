//! Commands that the Python package does: which Python has it, and starting it in this program's place.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[cfg(feature = "live")]
use warpline_stacks::stack;

use crate::failure::{Code, Failure};

/// The variable that names a Python.
const VARIABLE: &str = "WARPLINE_PYTHON";
/// Ends with 0 if the package is there, or with `OLD` if it is there and this Python knows no `-P`. Imports nothing of the package, nor of the current directory:
/// a file there may have the name of a module.
const PROBE: &str = "import sys
if sys.path[0] == '': del sys.path[0]
import importlib.util
sys.exit(1 if importlib.util.find_spec('warpline') is None else 0 if sys.version_info >= (3, 11) else 3)";
/// The exit code of the probe in a Python before 3.11.
const OLD: i32 = 3;

/// A Python that has the package.
struct Python {
    program: PathBuf,
    /// Whether it knows `-P`, with which it imports nothing of the current directory.
    knows_safe_path: bool,
}

/// Declares the subcommand that a file is for: what it does, its name in Python, the module that has it unless that is `warpline.study`, what it takes,
/// and the end of its help. All words after the name are passed on.
macro_rules! command {
    ($(#[$about:meta])* $name:literal $(#[$taken:meta])* words, $examples:literal) => {
        crate::python::command! { $(#[$about])* $name of "warpline.study" $(#[$taken])* words, $examples }
    };
    ($(#[$about:meta])* $name:literal of $module:literal $(#[$taken:meta])* words, $examples:literal) => {
        $(#[$about])*
        #[derive(Debug, clap::Args)]
        #[command(after_long_help = $examples)]
        pub(crate) struct Args {
            $(#[$taken])*
            #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
            words: Vec<std::ffi::OsString>,
        }

        pub(crate) fn execute(args: &Args) -> Result<crate::failure::Code, crate::failure::Failure> {
            crate::python::module($module, $name, &args.words)
        }
    };
}
pub(crate) use command;

/// Runs `python -m MODULE NAME WORDS`. Its exit codes are those of this program.
///
/// # Errors
/// If no Python has the package.
pub(crate) fn module(module: &str, name: &str, words: &[OsString]) -> Result<Code, Failure> {
    let python = find()?;
    let mut command = Command::new(&python.program);
    // Otherwise a `random.py` in the current directory would be taken for Python's own. Not by PYTHONSAFEPATH, which programs in the runs would inherit.
    command.args(python.knows_safe_path.then_some("-P")).args(["-m", module, name]).args(words);
    // Python is not beside the stacks that were built with this program.
    #[cfg(feature = "live")]
    if let Some(directory) = stack::places().find(|directory| directory.is_dir()) {
        command.env(stack::DIRECTORY, directory);
    }
    // Runs that start `warpline` start this one.
    #[cfg(live)]
    if let Ok(program) = env::current_exe() {
        command.env(warpline_lab::run::PROGRAM, program);
    }
    start(command)
        .map_err(|error| Failure::usage(format!("{} cannot be started: {error}", python.program.display())))
}

/// The Python that `WARPLINE_PYTHON` names; or that beside this program, where pipx and pip put both; or that of `.venv` here, above, or above this program
/// (as `make python` makes it); or `python3`.
fn find() -> Result<Python, Failure> {
    if let Some(named) = env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        return probed(named.clone()).ok_or_else(|| {
            Failure::usage(format!(
                "{VARIABLE} is {}, which cannot be started or has no package `warpline`; {INSTALL}",
                named.display()
            ))
        });
    }
    let here = env::current_dir().ok();
    let program = env::current_exe().ok();
    let above = [here.as_deref(), program.as_deref()].into_iter().flatten().flat_map(Path::ancestors);
    let ours = above.map(|directory| {
        directory.join(".venv").join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
    });
    let ours = ours.filter(|python| python.is_file() && is_trusted(python));
    let beside = program.as_deref().and_then(|program| {
        let name = if cfg!(windows) { "python.exe" } else { "python3" };
        Some(program.canonicalize().ok()?.with_file_name(name))
    });
    let ours = beside.into_iter().filter(|python| python.is_file()).chain(ours);
    let of_path = ["python3", "python"].map(PathBuf::from);
    ours.chain(of_path).find_map(probed).ok_or_else(|| {
        Failure::usage(format!(
            "this needs the Python package `warpline`, which no Python here has; {INSTALL}"
        ))
    })
}

/// Whether a `.venv` belongs to this user or to root. In a directory such as `/tmp`, anybody may have put one above this one.
#[cfg(unix)]
fn is_trusted(python: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let owner =
        python.ancestors().nth(2).and_then(|venv| venv.symlink_metadata().ok()).map(|venv| venv.uid());
    owner.is_some_and(|owner| owner == 0 || owner == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn is_trusted(_: &Path) -> bool {
    true
}

/// What to do without it.
const INSTALL: &str = "install it with `make python` in Warpline's source (into .venv), or with `pip install '.[all]'` into \
    a Python of yours, and name that with WARPLINE_PYTHON if it is not `python3`";

/// A program as a Python that has the package, if it is one.
fn probed(program: PathBuf) -> Option<Python> {
    let probe = Command::new(&program)
        .args(["-c", PROBE])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let code = probe.ok()?.code()?;
    [0, OLD].contains(&code).then_some(Python { program, knows_safe_path: code != OLD })
}

/// Becomes the command, so that signals and the exit code are its own.
#[cfg(unix)]
fn start(mut command: Command) -> std::io::Result<Code> {
    use std::os::unix::process::CommandExt;

    Err(command.exec())
}

#[cfg(not(unix))]
fn start(mut command: Command) -> std::io::Result<Code> {
    let status = command.status()?;
    std::process::exit(status.code().unwrap_or(1))
}
