//! Where control sockets are: at a path of the user's choice, or in the directory of the user's sessions under a name of the run's own.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::{ControlError, system};
use crate::registry::directory;

/// The environment variable that names a run's socket to the programs behind its link.
pub const VARIABLE: &str = "WARPLINE_CONTROL";
/// How the names of sockets end.
pub(crate) const EXTENSION: &str = "sock";
/// Characters of a run's name in its socket's, at most: the path of a socket has no more than 107 bytes.
const LONGEST: usize = 30;

/// Where a run listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the directory of the user's sessions ([`directory`]), where [`listening`] finds it.
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
                Ok(directory()?.path().join(format!("{name}-{}.{EXTENSION}", std::process::id())))
            }
        }
    }
}

/// The sockets in the directory of the user's sessions at which a run listens, in the order of their names. Those that a run has left behind that was killed are removed.
///
/// # Errors
/// If the directory cannot be read.
pub fn listening() -> Result<Vec<PathBuf>, ControlError> {
    let directory = directory()?;
    let names = directory.names().map_err(system("read the directory", directory.path()))?;
    let paths = names.into_iter().map(|name| directory.path().join(name));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION)).collect();
    paths.retain(|path| !clear(path) && UnixStream::connect(path).is_ok());
    paths.sort();
    Ok(paths)
}

/// Removes a socket at which nobody listens any more. Returns whether it was one.
pub(crate) fn clear(path: &Path) -> bool {
    // The system says the same of a file that is no socket.
    if !fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return false;
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).is_ok(),
        _ => false,
    }
}
