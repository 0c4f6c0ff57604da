//! Where control sockets are: at a path of the user's choice, or in a directory of the user's under a name of the run's own.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::{ControlError, system};

/// The environment variable that names a run's socket to the programs behind its link.
pub const VARIABLE: &str = "WARPLINE_CONTROL";
/// How the names of sockets end.
const EXTENSION: &str = "sock";
/// Characters of a run's name in its socket's, at most: the path of a socket has no more than 107 bytes.
const LONGEST: usize = 30;

/// Where a run listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the user's directory, where [`listening`] finds it.
    Own,
    /// At this path.
    At(PathBuf),
}

impl Place {
    /// The path of the socket of a run called `name`.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf, ControlError> {
        match self {
            Place::At(path) => Ok(path.clone()),
            Place::Own => {
                let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
                let name: String = name.chars().map(plain).take(LONGEST).collect();
                Ok(directory()?.join(format!("{name}-{}.{EXTENSION}", std::process::id())))
            }
        }
    }
}

/// The user's directory for sockets, which is made if need be.
fn directory() -> Result<PathBuf, ControlError> {
    let user = rustix::process::geteuid().as_raw();
    let owned = |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| owned(path));
    let path = match runtime {
        Some(runtime) => runtime.join("warpline"),
        None => Path::new("/tmp").join(format!("warpline-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(system("make the directory", &path)(error));
        }
        _ => {}
    }
    // Anybody can make a name in a directory for all.
    let found = fs::symlink_metadata(&path).map_err(system("look at", &path))?;
    let private = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    if private { Ok(path) } else { Err(ControlError::Directory(path)) }
}

/// The sockets in the user's directory at which a run listens, in the order of their names. Those that a run has left behind that was killed are removed.
///
/// # Errors
/// If the directory cannot be read.
pub fn listening() -> Result<Vec<PathBuf>, ControlError> {
    let directory = directory()?;
    let entries = fs::read_dir(&directory).map_err(system("read the directory", &directory))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION)).collect();
    paths.retain(|path| !clear(path) && UnixStream::connect(path).is_ok());
    paths.sort();
    Ok(paths)
}

/// Removes a socket at which nobody listens any more. Returns whether it was one.
pub(super) fn clear(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).is_ok(),
        _ => false,
    }
}
