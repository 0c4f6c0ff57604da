//! Operations of several steps that take effect completely or not at all.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::{Directory, DiskFile as _, Kind, Open};

/// Creates a directory and its missing parents, each with `mode`, and flushes their names. Existing directories stay.
///
/// # Errors
/// If one cannot be made, or something that is not a directory has its name.
pub fn create_directories<D: Directory>(at: &D, path: &Path, mode: u32) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut next = Some(path);
    while let Some(here) = next.filter(|here| !here.as_os_str().is_empty()) {
        // A link to a directory is fine, so links are followed here.
        if at.look(&here.join(".")).is_ok() {
            break;
        }
        missing.push(here);
        next = here.parent();
    }
    for here in missing.into_iter().rev() {
        match at.create_directory(here, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                at.look(&here.join("."))?;
            }
            other => other?,
        }
        if let Err(error) = sync_parent(at, here) {
            // Remove it, so that the next attempt creates it again: it exists, but may not be on the disk.
            let _ = at.remove_directory(here);
            return Err(error);
        }
    }
    Ok(())
}

/// Flushes the directory that contains `path`.
fn sync_parent<D: Directory>(at: &D, path: &Path) -> io::Result<()> {
    at.open_directory(&path.parent().unwrap_or(Path::new("")).join("."))?.sync()
}

/// Writes a file with this mode (which the process's umask narrows), completely and flushed, or not at all: it is first written under
/// another name. Replaces an existing file.
///
/// # Errors
/// If that fails. Partial work is removed, and an existing file stays, unless only the last flush, of the name, failed.
pub fn write_whole<D: Directory>(at: &D, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    write_whole_with(at, path, mode, |file| file.write_all(bytes))
}

/// The same for a file that is too large to be in memory: `write` writes it.
///
/// # Errors
/// As [`write_whole`], and what `write` returns.
pub fn write_whole_with<D: Directory>(
    at: &D,
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut D::File) -> io::Result<()>,
) -> io::Result<()> {
    check_replaceable(at, path)?;
    let part = beside(path);
    let written = (|| {
        let mut file = new_part(at, &part, mode)?;
        write(&mut file)?;
        file.sync()?;
        at.rename(&part, path)
    })();
    if let Err(error) = written {
        // The first error is reported.
        let _ = at.remove_file(&part);
        return Err(error);
    }
    sync_parent(at, path)
}

/// Checks, before there is something to write, what [`write_whole`] needs: a directory that takes a file, and a name that is free, a file's
/// or a link's. Leaves nothing behind.
///
/// # Errors
/// What [`write_whole`] would fail with.
pub fn check_whole<D: Directory>(at: &D, path: &Path, mode: u32) -> io::Result<()> {
    check_replaceable(at, path)?;
    let part = beside(path);
    new_part(at, &part, mode)?;
    at.remove_file(&part)
}

/// Refuses a name that a new file must not take: a directory's, and that of a device, pipe or socket. Root may rename a file over
/// `/dev/null`, and every program of the machine would then write to that file. The same holds for a link to one of these, such as `/dev/stdout`.
fn check_replaceable<D: Directory>(at: &D, path: &Path) -> io::Result<()> {
    let refused = |what: &str| {
        let text = format!(
            "it is {what}a device, pipe, socket or descriptor, which a new file would replace; name a file"
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    match at.look(path).map(|there| there.kind) {
        Ok(Kind::Directory) => Err(io::ErrorKind::IsADirectory.into()),
        Ok(Kind::Other) => Err(refused("")),
        // A link to a file, or to nothing, is replaced; but not one to a descriptor, which may be of a file.
        Ok(Kind::Link) if matches!(at.kind_behind(path), Ok(Kind::Other)) => Err(refused("a link to ")),
        Ok(Kind::Link) if at.read_link(path).is_ok_and(|to| Path::new(&to).starts_with("/proc")) => {
            Err(refused("a link to "))
        }
        _ => Ok(()),
    }
}

/// Makes a file of that temporary name. One left by a killed process could have any mode, so it is always created anew.
fn new_part<D: Directory>(at: &D, part: &Path, mode: u32) -> io::Result<D::File> {
    match at.remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => at.open(part, Open::New(mode)),
    }
}

/// The temporary, hidden name under which this process writes a file.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("file")));
    name.push(format!(".part-{}", std::process::id()));
    path.with_file_name(name)
}
