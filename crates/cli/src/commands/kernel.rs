//! `warpline kernel`: the Linux kernels that guests can have.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::{Subcommand, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use warpline_guest::kernel_build::{self, BuildError, HZ, Plan, Sources, Step};
use warpline_guest::kernels::About;
use warpline_guest::{GuestError, Kernel, Kernels};

use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
A guest names its kernel in the scenario: kernel = \"6.12\". Kernels are kept in
$WARPLINE_KERNELS, or in warpline/kernels of $XDG_DATA_HOME (~/.local/share).

Examples:
  warpline kernel list
  warpline kernel build 6.12                     Debian's sources
  warpline kernel build 6.12 --hz 1000 --patch my-cc.patch --name mine
  warpline kernel build ~/src/linux --config my.config --name next
  warpline kernel add ./linux.uml --modules ./lib/modules/6.12.101 --name d13
  warpline kernel remove mine";

/// List, build and add the Linux kernels that guests can have
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the kernels: the machine's own, and those that were added
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Add a kernel from a file
    ///
    /// It must be a User-Mode Linux that is linked dynamically, of a series whose use of the machine's clock is known. It is checked, and copied.
    Add {
        /// The kernel
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Its name [default: its version]
        #[arg(long)]
        name: Option<String>,
        /// The directory of its modules, with modules.dep in it; it is not copied
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        modules: Option<PathBuf>,
        /// Replace a kernel of this name
        #[arg(long)]
        force: bool,
    },
    /// Build a kernel from Debian's sources or a directory, and add it
    ///
    /// Takes some ten minutes of a core, and 2 GB in a directory that is removed at the end. A directory of sources is not changed.
    Build {
        /// A series ("6.12": Debian's package linux-source-6.12, installed or fetched with apt-get), or a directory with Linux's sources
        #[arg(value_name = "SERIES|DIR", value_hint = ValueHint::DirPath)]
        sources: String,
        /// Its name [default: its version, with its timer interrupts if they were given]
        #[arg(long)]
        name: Option<String>,
        /// Timer interrupts per second: 100 to 1000 [default: the sources' own, 100]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(*HZ.start())..=i64::from(*HZ.end())))]
        hz: Option<u32>,
        /// A file with more options, in the form of .config; may be given several times
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        config: Vec<PathBuf>,
        /// A patch for patch -p1; may be given several times
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        patch: Vec<PathBuf>,
        /// Compilers at a time [default: one per core]
        #[arg(short, long, value_name = "N")]
        jobs: Option<usize>,
        /// Replace a kernel of this name
        #[arg(long)]
        force: bool,
    },
    /// Remove a kernel that was added
    Remove {
        /// Its name
        name: String,
    },
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let kernels = Kernels::of_user();
    match args.what {
        What::List { json } => list(&kernels, json)?,
        What::Add { file, name, modules, force } => {
            let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
            let origin = absolute(file.clone()).display().to_string();
            let about = About { origin, hz: None, modules: modules.map(absolute) };
            add(&kernels, name, &file, &about, force)?;
        }
        What::Build { sources, name, hz, config, patch, jobs, force } => {
            // A name that is taken is refused before ten minutes have passed.
            if let Some(name) = name.as_ref().filter(|name| !force && kernels.directory().join(name).exists())
            {
                return Err(Failure::usage(format!(
                    "there is a kernel `{name}` already; --force replaces it"
                )));
            }
            let plan = plan(&sources, hz, config, patch, jobs);
            return build(&kernels, name, &plan, force);
        }
        What::Remove { name } => {
            kernels.remove(&name).map_err(Failure::usage)?;
            output::print(&format!("Removed `{name}`.\n"))?;
        }
    }
    Ok(Code::Success)
}

/// A kernel, as JSON shows it.
#[derive(serde::Serialize)]
struct Row<'a> {
    /// Its name; none for the machine's own.
    name: Option<&'a str>,
    version: Option<&'a str>,
    hz: Option<u32>,
    congestion_controls: Vec<String>,
    path: Option<&'a Path>,
    modules: Option<&'a Path>,
    /// Why it cannot be used.
    problem: Option<String>,
}

impl<'a> Row<'a> {
    fn new(name: Option<&'a str>, kernel: &'a Result<Kernel, GuestError>) -> Self {
        let known = kernel.as_ref().ok();
        let controls = known.map(Kernel::congestion_controls).unwrap_or_default();
        Row {
            name,
            version: known.map(|kernel| kernel.version.as_str()),
            hz: known.and_then(|kernel| kernel.hz),
            congestion_controls: controls.into_iter().map(|(name, _)| name).collect(),
            path: known.map(|kernel| kernel.path.as_path()),
            modules: known.and_then(|kernel| kernel.modules.as_deref()),
            problem: kernel.as_ref().err().map(ToString::to_string),
        }
    }
}

fn list(kernels: &Kernels, json: bool) -> Result<(), Failure> {
    let own = Kernel::find();
    let added = kernels.list().map_err(Failure::run)?;
    let rows = std::iter::once(Row::new(None, &own));
    let rows: Vec<Row<'_>> =
        rows.chain(added.iter().map(|(name, kernel)| Row::new(Some(name), kernel))).collect();
    if json {
        return output::print_json(&rows);
    }
    let name = |row: &Row<'_>| row.name.unwrap_or("(the machine's own)").to_owned();
    let width = rows.iter().map(|row| name(row).len()).max().unwrap_or_default();
    let mut text = String::new();
    for row in &rows {
        let what = match (&row.problem, row.version, row.path) {
            (None, Some(version), Some(path)) => {
                let hz = row.hz.map(|hz| format!(", {hz} timer interrupts per second")).unwrap_or_default();
                let controls = output::counted(row.congestion_controls.len(), "congestion control");
                format!("Linux {version}{hz}, {controls}: {}", path.display())
            }
            (problem, ..) => problem.clone().unwrap_or_default(),
        };
        text += &format!("{:width$}  {what}\n", name(row));
    }
    output::print(&text)
}

fn add(
    kernels: &Kernels,
    name: Option<String>,
    file: &Path,
    about: &About,
    force: bool,
) -> Result<(), Failure> {
    let name = match name {
        Some(name) => name,
        None => {
            let version = Kernel::at(file, about.modules.as_deref()).map_err(Failure::usage)?.version;
            about.hz.map_or(version.clone(), |hz| format!("{version}-hz{hz}"))
        }
    };
    let kernel = kernels.add(&name, file, about, force).map_err(Failure::usage)?;
    output::print(&format!("Added Linux {} as `{name}`: {}\n", kernel.version, kernel.path.display()))
}

fn plan(
    sources: &str,
    hz: Option<u32>,
    config: Vec<PathBuf>,
    patches: Vec<PathBuf>,
    jobs: Option<usize>,
) -> Plan {
    let is_series = !sources.contains('/')
        && sources.starts_with(|first: char| first.is_ascii_digit())
        && !Path::new(sources).is_dir();
    let sources =
        if is_series { Sources::Package(sources.to_owned()) } else { Sources::Directory(sources.into()) };
    let jobs = jobs.unwrap_or_else(|| available_parallelism().map_or(1, Into::into));
    Plan { sources, hz, config, patches, jobs }
}

/// The directory in which a kernel is built. It is removed when this is dropped.
pub(crate) struct Desk(PathBuf);

impl Desk {
    /// A new one, below the user's directory for caches. Removes those of processes that were killed.
    pub(crate) fn new() -> Result<Self, Failure> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = variable("HOME").unwrap_or_else(|| "/".into());
        let cache = variable("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")).join("warpline");
        let cannot =
            |error| Failure::output(format!("cannot make a directory in {}: {error}", cache.display()));
        std::fs::create_dir_all(&cache).map_err(cannot)?;
        for entry in std::fs::read_dir(&cache).map_err(cannot)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(process) = name.strip_prefix("kernel.") else { continue };
            if !Path::new("/proc").join(process).exists() {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let own = cache.join(format!("kernel.{}", std::process::id()));
        std::fs::create_dir_all(&own).map_err(cannot)?;
        Ok(Desk(own))
    }
}

impl Desk {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn build(kernels: &Kernels, name: Option<String>, plan: &Plan, force: bool) -> Result<Code, Failure> {
    interrupt::listen_to_discard()?;
    let desk = Desk::new()?;
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(
        ProgressStyle::with_template("{spinner} {msg}, {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    let observe = &mut |step: Step| {
        bar.set_message(match step {
            Step::Fetch => "fetching the sources".to_owned(),
            Step::Unpack => "unpacking the sources".to_owned(),
            Step::Patch => "patching".to_owned(),
            Step::Configure => "configuring".to_owned(),
            Step::Compile(files) => format!("compiling, {files} of some 900 files"),
        });
        bar.tick();
        !interrupt::requested()
    };
    let built = kernel_build::build(plan, desk.path(), observe);
    bar.finish_and_clear();
    let file = match built {
        Ok(file) => file,
        Err(BuildError::Stopped) => return Ok(Code::Interrupted),
        Err(
            error @ (BuildError::Hz { .. }
            | BuildError::Sources(_)
            | BuildError::Version { .. }
            | BuildError::Options { .. }),
        ) => {
            return Err(Failure::usage(error));
        }
        Err(error) => return Err(Failure::run(error)),
    };
    let mut origin = match &plan.sources {
        Sources::Package(series) => format!("Debian's linux-source-{series}"),
        Sources::Directory(directory) => directory.display().to_string(),
    };
    for (what, files) in [("options", &plan.config), ("patch", &plan.patches)] {
        origin.extend(files.iter().map(|file| format!(", {what} {}", file.display())));
    }
    let about = About { origin, hz: plan.hz.or(Some(100)), modules: None };
    let named = name.or_else(|| {
        let version = Kernel::at(&file, None).ok()?.version;
        Some(plan.hz.map_or(version.clone(), |hz| format!("{version}-hz{hz}")))
    });
    add(kernels, named, &file, &about, force)?;
    Ok(Code::Success)
}
