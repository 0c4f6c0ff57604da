//! The guest kernels of a user: the machine's own, and those that were added or built.
//!
//! Each is a directory with the kernel, the list of what is built into it, and [`About`]. It is written whole or not at all.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Doing, GuestError};
use crate::kernel::{BUILT_IN, Kernel};

/// The environment variable that names the directory of kernels, if it is not in the user's directory for data.
pub const KERNELS_VARIABLE: &str = "WARPLINE_KERNELS";
/// Files in the directory of a kernel.
const FILE: &str = "linux";
const ABOUT: &str = "about.json";

/// What is kept of a kernel besides its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Where it came from: a file, or sources and how they were changed.
    pub origin: String,
    /// Its timer interrupts per second, if that is known.
    pub hz: Option<u32>,
    /// The directory of its modules, if one was named.
    pub modules: Option<PathBuf>,
}

/// The name of a kernel, and the kernel, or why it cannot be used.
pub type Listed = (String, Result<Kernel, GuestError>);

/// The directory of kernels.
#[derive(Clone, Debug)]
pub struct Kernels {
    directory: PathBuf,
}

impl Kernels {
    /// The kernels of this user: in the directory that `WARPLINE_KERNELS` names, or in `warpline/kernels` of `$XDG_DATA_HOME` (default:
    /// `~/.local/share`).
    pub fn of_user() -> Self {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = || {
            let home = variable("HOME").unwrap_or_else(|| "/".into());
            variable("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")).join("warpline/kernels")
        };
        Kernels { directory: variable(KERNELS_VARIABLE).unwrap_or_else(data) }
    }

    /// The kernels in a directory.
    pub fn at(directory: PathBuf) -> Self {
        Kernels { directory }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kernels that were added, by name; a name with the reason where one cannot be used any more.
    ///
    /// # Errors
    /// If the directory is there and cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, GuestError> {
        let doing = || format!("read the directory of kernels {}", self.directory.display());
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).doing(doing),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.doing(doing)?.file_name().to_string_lossy().into_owned();
            // Others are being written.
            if check_name(&name).is_ok() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names.into_iter().map(|name| (name.clone(), self.load(&name))).collect())
    }

    fn load(&self, name: &str) -> Result<Kernel, GuestError> {
        let directory = self.directory.join(name);
        let about: About = fs::read(directory.join(ABOUT))
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(Into::into))
            .doing(|| format!("read {}", directory.join(ABOUT).display()))?;
        let mut kernel = Kernel::at(&directory.join(FILE), about.modules.as_deref())?;
        (kernel.name, kernel.hz) = (Some(name.to_owned()), about.hz);
        Ok(kernel)
    }

    /// The kernel that a scenario means: by a name under which it was added, by a version or a series ("6.12": the newest), or by the path of a
    /// file, which has a slash and is relative to `directory`. Without a choice, the machine's own.
    ///
    /// # Errors
    /// If there is none, several are meant equally, or it cannot be a guest.
    pub fn find(&self, choice: Option<&str>, directory: &Path) -> Result<Kernel, GuestError> {
        let Some(choice) = choice else { return Kernel::find() };
        if choice.contains('/') {
            return Kernel::at(&directory.join(choice), None);
        }
        if check_name(choice).is_ok() && self.directory.join(choice).is_dir() {
            return self.load(choice);
        }
        let added = self.list()?;
        let own = Kernel::find();
        let mut all: Vec<&Kernel> = added.iter().filter_map(|(_, kernel)| kernel.as_ref().ok()).collect();
        all.extend(own.as_ref().ok());
        let fits = all.iter().filter(|kernel| kernel.is_of(choice)).copied();
        let newest = fits.clone().max_by_key(|kernel| numbers(&kernel.version));
        let Some(newest) = newest else {
            let there = all.iter().map(|kernel| match &kernel.name {
                Some(name) => format!("`{name}` ({})", kernel.version),
                None => kernel.version.clone(),
            });
            let there: Vec<String> = there.collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(GuestError::UnknownKernel { choice: choice.to_owned(), there });
        };
        let equal: Vec<&str> = fits
            .filter(|kernel| numbers(&kernel.version) == numbers(&newest.version))
            .map(|kernel| kernel.name.as_deref().unwrap_or("the machine's own"))
            .collect();
        if equal.len() > 1 {
            return Err(GuestError::SeveralKernels { choice: choice.to_owned(), names: equal.join(", ") });
        }
        Ok(newest.clone())
    }

    /// Adds the kernel in a file, with what is known of it. If there is one of this name already, it is only replaced if `replace` says so.
    ///
    /// # Errors
    /// If it cannot be a guest, the name cannot be one, or nothing can be written.
    pub fn add(&self, name: &str, file: &Path, about: &About, replace: bool) -> Result<Kernel, GuestError> {
        let refuse = |problem: String| GuestError::KernelName { name: name.to_owned(), problem };
        check_name(name).map_err(|problem| refuse(problem.to_owned()))?;
        let target = self.directory.join(name);
        if target.exists() && !replace {
            return Err(refuse(
                "there is a kernel of this name; give another name, or --force to replace it".to_owned(),
            ));
        }
        Kernel::at(file, about.modules.as_deref())?;
        let doing = || format!("write the kernel into {}", target.display());
        let partial = self.directory.join(format!(".{name}.{}", std::process::id()));
        let write = || -> Result<(), GuestError> {
            fs::create_dir_all(&partial).doing(doing)?;
            fs::copy(file, partial.join(FILE)).doing(doing)?;
            let beside = file.parent().map(|directory| directory.join(BUILT_IN));
            if let Some(list) = beside.filter(|list| list.is_file()) {
                fs::copy(list, partial.join(BUILT_IN)).doing(doing)?;
            }
            let text = serde_json::to_vec_pretty(about).map_err(std::io::Error::from).doing(doing)?;
            fs::write(partial.join(ABOUT), text).doing(doing)?;
            if target.exists() {
                fs::remove_dir_all(&target).doing(doing)?;
            }
            fs::rename(&partial, &target).doing(doing)
        };
        write().inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
        self.load(name)
    }

    /// Removes the kernel of this name.
    ///
    /// # Errors
    /// If there is none, or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), GuestError> {
        let target = self.directory.join(name);
        if check_name(name).is_err() || !target.is_dir() {
            let problem =
                "there is no kernel of this name; `warpline kernel list` shows those that there are";
            return Err(GuestError::KernelName { name: name.to_owned(), problem: problem.to_owned() });
        }
        fs::remove_dir_all(&target).doing(|| format!("remove {}", target.display()))
    }
}

/// Whether a kernel can have this name.
fn check_name(name: &str) -> Result<(), &'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    match name.chars().next() {
        Some(first) if first.is_ascii_alphanumeric() && name.chars().all(allowed) => Ok(()),
        _ => Err("a name has letters, digits, and the signs . _ + -, and begins with a letter or a digit"),
    }
}

/// The numbers of a version, by which newer ones are greater.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with copies of the machine's kernel, by other names.
    fn kernels(names: &[&str]) -> Option<(tempfile::TempDir, Kernels, Kernel)> {
        let own = match Kernel::find() {
            Ok(own) => own,
            Err(error) => {
                warpline_skip::skip("program", error);
                return None;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let kernels = Kernels::at(directory.path().join("kernels"));
        for name in names {
            let about = About { origin: "a test".to_owned(), hz: Some(100), modules: own.modules.clone() };
            kernels.add(name, &own.path, &about, false).unwrap();
        }
        Some((directory, kernels, own))
    }

    #[test]
    fn a_kernel_is_found_by_its_name_and_its_path() {
        let Some((_directory, kernels, own)) = kernels(&["one", "two"]) else { return };
        let listed: Vec<String> = kernels.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, ["one", "two"]);
        let two = kernels.find(Some("two"), Path::new("/")).unwrap();
        assert_eq!((two.name.as_deref(), two.hz, &two.version), (Some("two"), Some(100), &own.version));
        assert_eq!(two.congestion_controls(), own.congestion_controls());
        let (directory, file) = (own.path.parent().unwrap(), own.path.file_name().unwrap());
        let by_path = kernels.find(Some(&format!("./{}", file.to_string_lossy())), directory).unwrap();
        assert_eq!((by_path.name, by_path.version), (None, own.version));
    }

    #[test]
    fn a_version_that_several_have_is_refused_with_their_names() {
        let Some((_directory, kernels, own)) = kernels(&["one"]) else { return };
        let told = kernels.find(Some(&own.version), Path::new("/")).unwrap_err().to_string();
        assert!(told.contains("one, the machine's own"), "{told}");
        kernels.remove("one").unwrap();
        assert_eq!(kernels.find(Some(&own.version), Path::new("/")).unwrap().path, own.path);
        let told = kernels.find(Some("5.4"), Path::new("/")).unwrap_err().to_string();
        assert!(told.contains("no guest kernel `5.4`") && told.contains(&own.version), "{told}");
    }

    #[test]
    fn a_kernel_is_only_replaced_if_that_is_asked_for() {
        let Some((_directory, kernels, own)) = kernels(&["one"]) else { return };
        let about = About { origin: "another".to_owned(), ..About::default() };
        let told = kernels.add("one", &own.path, &about, false).unwrap_err().to_string();
        assert!(told.contains("there is a kernel of this name"), "{told}");
        kernels.add("one", &own.path, &about, true).unwrap();
        assert_eq!(kernels.find(Some("one"), Path::new("/")).unwrap().hz, None);
        // A file that is no kernel leaves nothing.
        kernels.add("wrong", Path::new("/bin/sh"), &about, false).unwrap_err();
        for name in ["", "..", ".one", "a/b", "x y"] {
            kernels.add(name, &own.path, &about, false).unwrap_err();
        }
        assert_eq!(fs::read_dir(kernels.directory()).unwrap().count(), 1);
    }
}
