//! What runs a scenario beside this program: the kernels of its guests, and its stacks in shared objects. Each build has a name of its own, by
//! a hash of its files, so that results of another build are not taken for its own.

#[cfg(live)]
use std::collections::BTreeSet;
#[cfg(live)]
use std::path::PathBuf;

use warpline_scenario::Scenario;
#[cfg(live)]
use warpline_scenario::files::sha256;

use super::RunError;

/// How many hexadecimal digits of the hash are in the name of a build.
#[cfg(live)]
const DIGITS: usize = 12;

/// The kernels and the stacks in shared objects that a run of a scenario would use on this machine: each by its name, a kernel's version, and digits of
/// the hash of its files, as in "linux-6.1.176-0123456789ab" and "lwip-ba9876543210". Sorted, each once. Stacks that are a part of this program are not
/// among them; a build without live hosts has none.
///
/// # Errors
/// If one of them is not there, or cannot be read.
pub fn builds(scenario: &Scenario) -> Result<Vec<String>, RunError> {
    let read = each_build(scenario).into_iter().map(|build| build.map_err(|missing| missing.why));
    let mut all = read.collect::<Result<Vec<_>, _>>()?;
    all.sort();
    all.dedup();
    Ok(all)
}

/// A kernel or a stack that is not there, or cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Which one: the same text for every host that needs it.
    pub what: String,
    /// Why.
    pub why: RunError,
}

/// Each of [`builds`] in no order, or why it cannot be read.
#[cfg(live)]
pub fn each_build(scenario: &Scenario) -> Vec<Result<String, Unreadable>> {
    let directory = scenario.base();
    let (mut files, mut all) = (BTreeSet::new(), Vec::new());
    for host in &scenario.host {
        match warpline_stacks::stack::file(&host.endpoint, &directory) {
            Ok(file) => files.extend(file),
            // Its text is that of the stack, whichever host needs it.
            Err(error) => all.push(Err(Unreadable { what: error.clone(), why: RunError::Build(error) })),
        }
    }
    let stack = |file: PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let what = file.display().to_string();
        build(&name, &[file]).map_err(|why| Unreadable { what, why })
    };
    all.extend(files.into_iter().map(stack));
    all.extend(each_kernel(scenario));
    all
}

/// Nothing: this build has only models.
#[cfg(not(live))]
pub fn each_build(_: &Scenario) -> Vec<Result<String, Unreadable>> {
    Vec::new()
}

/// The kernels of a scenario's guests, as in [`builds`]. A build without guests has none.
///
/// # Errors
/// If one of them is not there, or cannot be read.
pub fn kernels(scenario: &Scenario) -> Result<Vec<String>, RunError> {
    each_kernel(scenario).into_iter().map(|kernel| kernel.map_err(|missing| missing.why)).collect()
}

/// Each of [`kernels`], or why it cannot be read.
#[cfg(guests)]
fn each_kernel(scenario: &Scenario) -> Vec<Result<String, Unreadable>> {
    let directory = scenario.base();
    let machines = super::programs::machine_names(scenario);
    let choices: BTreeSet<_> =
        machines.into_iter().map(|machine| super::guests::kernel_of(scenario, machine)).collect();
    let kernels = warpline_guest::Kernels::of_user();
    let one = |choice: Option<&str>| {
        let found = kernels.find(choice, &directory).map_err(super::live_error);
        let what = || choice.map_or("the usual kernel".to_owned(), |choice| format!("the kernel {choice}"));
        found.and_then(|kernel| of_kernel(&kernel)).map_err(|why| Unreadable { what: what(), why })
    };
    choices.into_iter().map(one).collect()
}

/// Nothing: this build has no guests.
#[cfg(not(guests))]
fn each_kernel(_: &Scenario) -> Vec<Result<String, Unreadable>> {
    Vec::new()
}

/// A kernel of guests, as in [`builds`].
///
/// # Errors
/// If its file or one of its modules cannot be read.
#[cfg(guests)]
pub fn of_kernel(kernel: &warpline_guest::Kernel) -> Result<String, RunError> {
    build(&format!("linux-{}", kernel.version), &kernel.parts())
}

/// The name of what consists of these files.
#[cfg(live)]
fn build(name: &str, files: &[PathBuf]) -> Result<String, RunError> {
    let hash = |file: &PathBuf| -> Result<String, RunError> {
        let failed =
            |error: std::io::Error| RunError::Live(format!("cannot read {}: {error}", file.display()));
        Ok(sha256(&std::fs::read(file).map_err(failed)?))
    };
    let mut hashes = files.iter().map(hash).collect::<Result<Vec<_>, _>>()?;
    // Where the files are does not count.
    hashes.sort();
    let whole = sha256(hashes.join("\n").as_bytes());
    let digits: String = whole.trim_start_matches("sha256:").chars().take(DIGITS).collect();
    Ok(format!("{name}-{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hosts with a flow; `host` is what the first one is.
    fn scenario(directory: &std::path::Path, host: &str) -> Scenario {
        let text = format!(
            "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\nflow = [{{ from = \"a\", to = \"b\" }}]\n{host}"
        );
        Scenario::from_toml_in("x.toml", &text, &[], directory).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn models_are_a_part_of_this_program() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(builds(&scenario(directory.path(), "")).unwrap(), [""; 0]);
        let smoltcp = "[[host]]\nname = \"a\"\nendpoint = \"stack:smoltcp\"\n";
        assert_eq!(builds(&scenario(directory.path(), smoltcp)).unwrap(), [""; 0]);
    }

    #[cfg(live)]
    #[test]
    fn a_stack_is_told_from_another_build_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let own = "[[host]]\nname = \"a\"\nendpoint = \"stack:object\"\nlibrary = \"./mine.so\"\n";
        let both =
            format!("{own}[[host]]\nname = \"b\"\nendpoint = \"stack:object\"\nlibrary = \"mine.so\"\n");
        let (one, both) = (scenario(directory.path(), own), scenario(directory.path(), &both));
        let missing = builds(&one).unwrap_err().to_string();
        assert!(missing.contains("mine.so"), "{missing}");
        let file = directory.path().join("mine.so");
        std::fs::write(&file, "one build").unwrap();
        let first = builds(&one).unwrap();
        let [name] = &first[..] else { panic!("{first:?}") };
        let digits = name.strip_prefix("mine-").unwrap_or_else(|| panic!("{name}"));
        assert!(digits.len() == DIGITS && digits.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
        assert_eq!(builds(&both).unwrap(), first, "each once");
        std::fs::write(&file, "one Build").unwrap();
        assert_ne!(builds(&one).unwrap(), first);
        std::fs::write(&file, "one build").unwrap();
        assert_eq!(builds(&one).unwrap(), first);
    }

    #[cfg(live)]
    #[test]
    fn a_stack_that_is_missing_does_not_hide_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let host = |name: &str, library: &str| {
            format!("[[host]]\nname = \"{name}\"\nendpoint = \"stack:object\"\nlibrary = \"./{library}\"\n")
        };
        std::fs::write(directory.path().join("mine.so"), "one build").unwrap();
        let found = |there: &str, missing: &str| {
            let hosts = host(there, "mine.so") + &host(missing, "other.so");
            let (names, errors): (Vec<_>, Vec<_>) =
                each_build(&scenario(directory.path(), &hosts)).into_iter().partition(Result::is_ok);
            let names: Vec<String> = names.into_iter().flatten().collect();
            let words = errors.into_iter().filter_map(|error| Some(error.err()?.what));
            (names, words.collect::<Vec<_>>())
        };
        let (names, words) = found("a", "b");
        assert!(names.len() == 1 && names[0].starts_with("mine-"), "{names:?}");
        assert!(words.len() == 1 && words[0].contains("other.so"), "{words:?}");
        assert_eq!(found("b", "a"), (names, words), "whichever host needs it");
    }

    #[cfg(guests)]
    #[test]
    fn a_kernel_is_named_by_its_version() {
        let Ok(kernel) = warpline_guest::Kernel::find() else {
            return warpline_skip::skip("program", "no guest kernel on this machine");
        };
        let name = of_kernel(&kernel).unwrap();
        let guest =
            "[[host]]\nname = \"a\"\nendpoint = \"guest\"\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\n";
        assert_eq!(builds(&scenario(std::path::Path::new(""), guest)).unwrap(), std::slice::from_ref(&name));
        let digits = name.strip_prefix(&format!("linux-{}-", kernel.version)).map(str::len);
        assert_eq!(digits, Some(DIGITS), "{name}");
    }
}
