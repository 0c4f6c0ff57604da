//! Builds guest kernels from Linux's sources: fetches and unpacks them, changes and configures them, and compiles them.
//!
//! The sources are Debian's package `linux-source-X.Y`, or a directory of the user's, which is never written to. All happens in a directory that
//! is removed at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::kernel::{STUDIED, is_studied};

/// What a guest needs of a kernel.
const CONFIGURATION: &str = include_str!("../kernel/guest.config");
/// Timer interrupts per second that a kernel can have.
pub const HZ: std::ops::RangeInclusive<u32> = 100..=1000;
/// How many of the last lines of a program's output are part of an error.
const TAIL: usize = 12;
/// How often to ask whether to go on.
const GLANCE: Duration = Duration::from_millis(100);

/// Where the sources are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// In Debian's package for a series, such as "6.12".
    Package(String),
    /// In a directory.
    Directory(PathBuf),
}

/// What to build.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The sources.
    pub sources: Sources,
    /// Timer interrupts per second; the sources' own if none (100).
    pub hz: Option<u32>,
    /// Files with further options, in the form of `.config`. Later ones win.
    pub config: Vec<PathBuf>,
    /// Patches for `patch -p1`, in order.
    pub patches: Vec<PathBuf>,
    /// Compilers at a time.
    pub jobs: usize,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The sources are fetched.
    Fetch,
    /// The sources are unpacked or copied.
    Unpack,
    /// The sources are patched.
    Patch,
    /// Options are chosen.
    Configure,
    /// So many files have been compiled.
    Compile(u32),
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Its timer interrupts are out of range.
    #[error("{hz} timer interrupts per second are out of range; a kernel has {} to {}", HZ.start(), HZ.end())]
    Hz {
        /// The number.
        hz: u32,
    },
    /// The sources are not there.
    #[error("{0}")]
    Sources(String),
    /// Warpline does not know such kernels.
    #[error("these are the sources of Linux {version}; Warpline only knows how Linux {} use the machine's clock", STUDIED.join(" and "))]
    Version {
        /// The version.
        version: String,
    },
    /// Options have no effect.
    #[error("options of {} have no effect: {options}. They are unknown to these sources, or need others", path.display())]
    Options {
        /// The file.
        path: PathBuf,
        /// The lines.
        options: String,
    },
    /// A program is missing.
    #[error(
        "cannot start {program}: {source}; a kernel needs make, gcc, flex, bison, bc and patch (Debian: apt install build-essential flex bison bc patch)"
    )]
    Missing {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program failed.
    #[error("{what} failed; the last lines of its output:\n{tail}")]
    Failed {
        /// What it does.
        what: String,
        /// Its last lines.
        tail: String,
    },
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

/// Says how far it is; false to stop.
pub type Observe<'a> = dyn FnMut(Step) -> bool + 'a;

/// Builds a kernel in the directory `desk`, which must be empty. Returns its file; beside it is the list of what is built in.
///
/// # Errors
/// If the sources are not there, the options do not fit, or a program fails.
pub fn build(plan: &Plan, desk: &Path, observe: &mut Observe<'_>) -> Result<PathBuf, BuildError> {
    if let Some(hz) = plan.hz.filter(|hz| !HZ.contains(hz)) {
        return Err(BuildError::Hz { hz });
    }
    let changes = plan.hz.is_some() || !plan.patches.is_empty();
    let source = match &plan.sources {
        Sources::Package(series) => unpack(series, desk, observe)?,
        Sources::Directory(given) => {
            let given = given.canonicalize().map_err(|error| system("find", given, error))?;
            if !given.join("arch/um/Kconfig").is_file() {
                let what = format!("{} has no sources of Linux (arch/um is not there)", given.display());
                return Err(BuildError::Sources(what));
            }
            check_version(&given, observe)?;
            if changes { copy(&given, desk, observe)? } else { given }
        }
    };
    if changes {
        change(plan, &source, observe)?;
    }
    let out = desk.join("out");
    fs::create_dir_all(&out).map_err(|error| system("make", &out, error))?;
    configure(plan, &source, &out, observe)?;
    let mut compiled = 0;
    let mut make = make(&source, &out);
    make.arg(format!("-j{}", plan.jobs.max(1))).arg("linux");
    run("compiling it", &mut make, observe, &mut |line| {
        compiled += u32::from(line.trim_start().starts_with("CC "));
        Step::Compile(compiled)
    })?;
    Ok(out.join("linux"))
}

fn system(what: &str, path: &Path, source: io::Error) -> BuildError {
    BuildError::System { what: format!("{what} {}", path.display()), source }
}

/// The version of sources, if Warpline knows such kernels.
fn check_version(source: &Path, observe: &mut Observe<'_>) -> Result<(), BuildError> {
    let mut version = String::new();
    let mut command = Command::new("make");
    command.args(["-s", "-C"]).arg(source).arg("kernelversion");
    run("asking for its version", &mut command, observe, &mut |line| {
        version = line.trim().to_owned();
        Step::Configure
    })?;
    if is_studied(&version) { Ok(()) } else { Err(BuildError::Version { version }) }
}

/// Unpacks the sources of a series from Debian's package, which is fetched unless it is installed.
fn unpack(series: &str, desk: &Path, observe: &mut Observe<'_>) -> Result<PathBuf, BuildError> {
    if !is_studied(&format!("{series}.")) {
        return Err(BuildError::Version { version: series.to_owned() });
    }
    let name = format!("linux-source-{series}");
    let file = Path::new("usr/src").join(format!("{name}.tar.xz"));
    let mut archive = Path::new("/").join(&file);
    if !archive.is_file() {
        let mut fetch = Command::new("apt-get");
        fetch.args(["-q", "download", &name]).current_dir(desk);
        let fetched = run("fetching the sources", &mut fetch, observe, &mut |_| Step::Fetch);
        fetched.map_err(|error| match error {
            BuildError::Stopped => error,
            other => BuildError::Sources(format!(
                "{other}\nthe sources of Linux {series} cannot be fetched as Debian's package {name}: name a directory that has them"
            )),
        })?;
        let entries = fs::read_dir(desk).map_err(|error| system("read", desk, error))?;
        let package = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|end| end == "deb"));
        let Some(package) = package else {
            return Err(BuildError::Sources(format!(
                "apt-get has fetched no package {name}: name a directory that has the sources"
            )));
        };
        let mut extract = Command::new("dpkg-deb");
        extract.arg("-x").arg(&package).arg(desk);
        run("unpacking the package", &mut extract, observe, &mut |_| Step::Unpack)?;
        archive = desk.join(&file);
    }
    let source = desk.join("source");
    fs::create_dir_all(&source).map_err(|error| system("make", &source, error))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(&source).arg("--strip-components=1");
    run("unpacking the sources", &mut tar, observe, &mut |_| Step::Unpack)?;
    check_version(&source, observe)?;
    Ok(source)
}

/// Copies sources without their history.
fn copy(from: &Path, desk: &Path, observe: &mut Observe<'_>) -> Result<PathBuf, BuildError> {
    let source = desk.join("source");
    fs::create_dir_all(&source).map_err(|error| system("make", &source, error))?;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "tar -C \"$1\" --exclude=./.git -cf - . | tar -C \"$2\" -xf -", "sh"])
        .arg(from)
        .arg(&source);
    run("copying the sources", &mut shell, observe, &mut |_| Step::Unpack)?;
    Ok(source)
}

/// Patches sources and sets their timer interrupts.
fn change(plan: &Plan, source: &Path, observe: &mut Observe<'_>) -> Result<(), BuildError> {
    for path in &plan.patches {
        let input = File::open(path).map_err(|error| system("read", path, error))?;
        let mut patch = Command::new("patch");
        patch.args(["-p1", "--batch", "--forward", "-d"]).arg(source).stdin(input);
        run(&format!("the patch {}", path.display()), &mut patch, observe, &mut |_| Step::Patch)?;
    }
    if let Some(hz) = plan.hz {
        // User-Mode Linux does not ask for it: CONFIG_HZ in a configuration is ignored, and the default is what counts.
        let path = source.join("arch/um/Kconfig");
        let text = fs::read_to_string(&path).map_err(|error| system("read", &path, error))?;
        let Some(text) = with_hz(&text, hz) else {
            return Err(BuildError::Sources(format!("{} does not set HZ as expected", path.display())));
        };
        fs::write(&path, text).map_err(|error| system("write", &path, error))?;
    }
    Ok(())
}

/// The text of arch/um/Kconfig with other timer interrupts; none if it does not set them as expected.
fn with_hz(text: &str, hz: u32) -> Option<String> {
    let (before, after) = text.split_once("config HZ\n\tint\n\tdefault ")?;
    let end = after.find('\n')?;
    after[..end].parse::<u32>().ok()?;
    Some(format!("{before}config HZ\n\tint\n\tdefault {hz}{}", &after[end..]))
}

fn make(source: &Path, out: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("-C").arg(source).arg("ARCH=um").arg(format!("O={}", out.display()));
    // It would change what is said, and with that the count of files.
    make.env_remove("MAKEFLAGS").env_remove("KBUILD_VERBOSE");
    make
}

/// Chooses the options. Those of the user's files must have an effect. Those of [`CONFIGURATION`] need not: it is for several series, and not all
/// of them know all of its options.
fn configure(plan: &Plan, source: &Path, out: &Path, observe: &mut Observe<'_>) -> Result<(), BuildError> {
    let step = &mut |_: &str| Step::Configure;
    run("the default configuration", make(source, out).arg("defconfig"), observe, step)?;
    let path = out.join(".config");
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| system("read", path, error));
    let mut text = read(&path)? + "\n" + CONFIGURATION;
    let mut given = Vec::new();
    for file in &plan.config {
        let own = read(file)?;
        text = text + "\n" + &own;
        given.push((file.clone(), own));
    }
    fs::write(&path, text).map_err(|error| system("write", &path, error))?;
    run("the configuration", make(source, out).arg("olddefconfig"), observe, step)?;
    match without_effect(&given, &read(&path)?) {
        Some((path, options)) => {
            Err(BuildError::Options { path: path.to_owned(), options: options.join(", ") })
        }
        None => Ok(()),
    }
}

/// The option that a line of a configuration is about, and whether it is on or has a value; none if the line is about no option.
fn option(line: &str) -> Option<(&str, bool)> {
    if let Some(comment) = line.strip_prefix('#') {
        let name = comment.strip_prefix(' ')?.strip_suffix(" is not set")?;
        return name.starts_with("CONFIG_").then_some((name, false));
    }
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    // In the result, "n" is written as a comment.
    name.contains("CONFIG_").then_some((name, value != "n"))
}

/// The lines that a configuration does not have, of the first of these files with such lines. If several lines are about one option, the last
/// one counts, as it does for the kernel's own programs.
fn without_effect<'a>(
    files: &'a [(PathBuf, String)],
    configuration: &str,
) -> Option<(&'a Path, Vec<&'a str>)> {
    let mut wanted: BTreeMap<&str, (usize, &str, bool)> = BTreeMap::new();
    for (number, (_, text)) in files.iter().enumerate() {
        for line in text.lines().map(str::trim) {
            if let Some((name, is_on)) = option(line) {
                wanted.insert(name, (number, line, is_on));
            }
        }
    }
    let lines: BTreeSet<&str> = configuration.lines().collect();
    // An option whose surroundings are left out does not appear at all.
    let is_off = |name: &str| !lines.iter().any(|line| line.starts_with(&format!("{name}=")));
    let mut ignored: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (name, (number, line, is_on)) in wanted {
        let is_taken = if is_on { lines.contains(line) } else { is_off(name) };
        if !is_taken {
            ignored.entry(number).or_default().push(line);
        }
    }
    let (number, options) = ignored.pop_first()?;
    Some((files[number].0.as_path(), options))
}

/// Runs a program. `each` makes a step of each line that it prints.
fn run(
    what: &str,
    command: &mut Command,
    observe: &mut Observe<'_>,
    each: &mut dyn FnMut(&str) -> Step,
) -> Result<(), BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let missing = |source| BuildError::Missing { program: program.clone(), source };
    let (reader, writer) = io::pipe().map_err(missing)?;
    let errors = writer.try_clone().map_err(missing)?;
    command.stdout(writer).stderr(errors).process_group(0);
    if !matches!(command.get_program().to_str(), Some("patch")) {
        command.stdin(Stdio::null());
    }
    command.env("LC_ALL", "C");
    // SAFETY: the function only makes a system call.
    unsafe {
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    let mut child = command.spawn().map_err(missing)?;
    // The pipe's writing ends here would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, lines) = channel();
    let reading = std::thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let mut last = std::collections::VecDeque::new();
    let mut step = None;
    loop {
        match lines.recv_timeout(GLANCE) {
            Ok(line) => {
                step = Some(each(&line));
                last.push_back(line);
                if last.len() > TAIL {
                    last.pop_front();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = *step.get_or_insert_with(|| each(""));
        if !observe(now) {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            let _ = child.wait();
            return Err(BuildError::Stopped);
        }
    }
    let _ = reading.join();
    let status = child.wait().map_err(missing)?;
    if status.success() {
        return Ok(());
    }
    let tail = last.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n");
    Err(BuildError::Failed { what: what.to_owned(), tail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_interrupts_are_a_default() {
        let text = "config NR\n\tint\n\nconfig HZ\n\tint\n\tdefault 100\n\nconfig NR_CPUS\n\tdefault 1\n";
        let expected =
            "config NR\n\tint\n\nconfig HZ\n\tint\n\tdefault 1000\n\nconfig NR_CPUS\n\tdefault 1\n";
        assert_eq!(with_hz(text, 1000).as_deref(), Some(expected));
        assert_eq!(with_hz("config HZ\n\tint \"?\"\n\tdefault 100\n", 250), None);
    }

    #[test]
    fn options_that_have_no_effect_are_told() {
        let wanted = "# a comment about CONFIG_A\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n# CONFIG_D is not set\nCONFIG_E=n\n";
        let files = [(PathBuf::from("fine"), "CONFIG_A=y\n".to_owned()), ("wrong".into(), wanted.to_owned())];
        let configuration = "CONFIG_A=y\nCONFIG_B=m\nCONFIG_D=y\nCONFIG_E=y\n";
        let (path, options) = without_effect(&files, configuration).unwrap();
        assert_eq!(path, Path::new("wrong"));
        assert_eq!(options, ["CONFIG_B=y", "# CONFIG_D is not set", "CONFIG_E=n"]);
    }

    #[test]
    fn the_last_setting_of_an_option_counts_and_n_is_not_set() {
        let first = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=1\nCONFIG_C=2\n";
        let files = [
            (PathBuf::from("first"), first.to_owned()),
            ("second".into(), "CONFIG_A=n\nCONFIG_B=y\n".to_owned()),
        ];
        assert_eq!(without_effect(&files, "# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=2\n"), None);
        let (path, options) = without_effect(&files, "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=2\n").unwrap();
        assert_eq!((path, options), (Path::new("second"), vec!["CONFIG_A=n"]));
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_last_lines() {
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        };
        let counted = std::cell::Cell::new(0);
        let each = &mut |line: &str| {
            counted.set(counted.get() + u32::from(line.starts_with("CC ")));
            Step::Compile(counted.get())
        };
        run("it", &mut shell("echo CC a; echo CC b"), &mut |_| true, each).unwrap();
        let told = run("it", &mut shell("seq 100; echo oh no >&2; exit 3"), &mut |_| true, each).unwrap_err();
        assert!(
            told.to_string().starts_with("it failed") && told.to_string().ends_with("    100\n    oh no"),
            "{told}"
        );
        assert_eq!(counted.get(), 2);
        let told = run("it", &mut Command::new("/no/such/program"), &mut |_| true, each).unwrap_err();
        assert!(matches!(told, BuildError::Missing { .. }), "{told}");
        // All that it has started ends when it is stopped.
        let mut asked = 0;
        let told = run(
            "it",
            &mut shell("sleep 1000 & sleep 1000"),
            &mut |_| {
                asked += 1;
                asked < 3
            },
            each,
        )
        .unwrap_err();
        assert!(matches!(told, BuildError::Stopped), "{told}");
    }

    #[test]
    fn what_cannot_be_built_is_said_at_once() {
        let desk = tempfile::tempdir().unwrap();
        let plan = |sources, hz| Plan { sources, hz, config: vec![], patches: vec![], jobs: 1 };
        for (plan, part) in [
            (
                plan(Sources::Package("5.4".to_owned()), None),
                "sources of Linux 5.4; Warpline only knows how Linux 6.1 and 6.12",
            ),
            (plan(Sources::Package("6.12".to_owned()), Some(50)), "a kernel has 100 to 1000"),
            (plan(Sources::Directory(desk.path().to_owned()), None), "has no sources of Linux"),
            (plan(Sources::Directory("/no/such/place".into()), None), "cannot find /no/such/place"),
        ] {
            let told = build(&plan, desk.path(), &mut |_| true).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
        }
    }
}
