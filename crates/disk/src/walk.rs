//! Going through a directory with everything in it, to remove it or to find how much room it takes.

use std::cell::Cell;
use std::io;
use std::path::Path;

use crate::{Directory, Kind, Metadata};

/// Bytes of a path from which on a [`Walk`] works below an open directory: systems refuse paths of more than some 1000 (macOS) or 4000
/// bytes (Linux), and a tree may be deeper.
const LONG: usize = 512;

/// Removes a file, or a directory with everything in it, however deep and whatever its permissions; it need not exist.
///
/// # Errors
/// The first one, if something cannot be removed. All else in it is removed even so.
pub fn remove_all<D: Directory>(at: &D, path: &Path) -> io::Result<()> {
    remove_all_with(at, path, &mut || true)
}

/// The same for what is large: `go_on` is asked after each file, link and directory, also after one that could not be removed. If it says no, the
/// rest stays.
///
/// # Errors
/// The first one, if something cannot be removed. To be stopped is none.
pub fn remove_all_with<D: Directory>(at: &D, path: &Path, go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
    let mut remove = |at: &D, path: &Path, there: Metadata| match there.kind {
        Kind::Directory => at.remove_directory(path),
        _ => at.remove_file(path),
    };
    let mut walk = Walk { mode: 0o700, act: &mut remove, go_on, stopped: false, first: Ok(()) };
    walk.go(at, path);
    walk.first
}

/// Bytes of disk space of a file, or of a directory with everything in it, summed up in the order in which [`remove_all`] would free them. What
/// cannot be read, or does not exist, counts as nothing. The sum ends when it is `enough`, or when `go_on` says no, which is asked after each file, link
/// and directory.
pub fn room_of_all<D: Directory>(at: &D, path: &Path, enough: u64, go_on: &mut dyn FnMut() -> bool) -> u64 {
    let room = Cell::new(0);
    let mut add = |_: &D, _: &Path, there: Metadata| -> io::Result<()> {
        room.set(room.get() + there.room);
        Ok(())
    };
    let mut is_short = || room.get() < enough && go_on();
    Walk { mode: 0, act: &mut add, go_on: &mut is_short, stopped: false, first: Ok(()) }.go(at, path);
    room.get()
}

/// A way through a file, or a directory with everything in it. What is in a directory comes before the directory itself.
struct Walk<'a, D> {
    /// Permissions that are given to directories that lack one of them; 0 for none.
    mode: u32,
    /// What to do with each file, link and directory.
    act: &'a mut dyn FnMut(&D, &Path, Metadata) -> io::Result<()>,
    /// Is asked after each.
    go_on: &'a mut dyn FnMut() -> bool,
    /// Whether `go_on` has said no.
    stopped: bool,
    /// The first error.
    first: io::Result<()>,
}

impl<D: Directory> Walk<'_, D> {
    /// An error must not keep the walk from the rest, so it is only remembered.
    fn go(&mut self, at: &D, path: &Path) {
        if let Err(error) = self.try_go(at, path)
            && self.first.is_ok()
        {
            self.first = Err(error);
        }
        // Also after an error, so that a walk on which everything fails can be stopped.
        self.stopped = self.stopped || !(self.go_on)();
    }

    fn try_go(&mut self, at: &D, path: &Path) -> io::Result<()> {
        let there = match at.look(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        if there.kind == Kind::Directory {
            if there.mode & self.mode != self.mode {
                at.set_mode_of(path, self.mode)?;
            }
            let is_long = path.as_os_str().len() >= LONG;
            let (below, before) =
                if is_long { (at.open_directory(path)?, Path::new("")) } else { (at.clone(), path) };
            for name in below.names(before)? {
                self.go(&below, &before.join(name));
                if self.stopped {
                    return Ok(());
                }
            }
        }
        (self.act)(at, path, there)
    }
}
