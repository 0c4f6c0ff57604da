//! Where Warpline's own program is, for commands that start it by its name, and for shells.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use warpline_scenario::addresses::AddressPlan;

/// The environment variable that names Warpline's program. Without it, it is the program that runs, if that is it; else it is looked for like any other.
/// Programs on hosts get it, too.
pub const PROGRAM: &str = "WARPLINE_PROGRAM";

/// Its name in commands.
const NAME: &str = "warpline";

/// The words of a command, with the place of Warpline's own program instead of its name. So a scenario that runs it does not depend on where it is installed,
/// and runs the same build as the rest.
pub(in crate::run) fn found(words: Vec<String>) -> Vec<String> {
    with(words, place())
}

/// The variables that every program on the host of a node gets: addresses, and where Warpline's program is (its name, if that is not known).
pub(in crate::run) fn environment(plan: &AddressPlan, node: usize) -> Vec<(String, String)> {
    let place = place().unwrap_or_else(|| NAME.into());
    let own = (PROGRAM.to_owned(), place.to_string_lossy().into_owned());
    plan.environment(node).into_iter().chain([own]).collect()
}

fn place() -> Option<PathBuf> {
    env::var_os(PROGRAM).map(PathBuf::from).or_else(running)
}

/// The program that runs, if it is Warpline's.
fn running() -> Option<PathBuf> {
    env::current_exe().ok().filter(|path| path.file_stem() == Some(OsStr::new(NAME)))
}

fn with(mut words: Vec<String>, place: Option<PathBuf>) -> Vec<String> {
    if let (Some(first), Some(place)) = (words.first_mut(), place)
        && first == NAME
    {
        *first = place.to_string_lossy().into_owned();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_as_the_first_word_is_replaced() {
        let told = |line: &str, place: Option<&str>| {
            with(line.split(' ').map(str::to_owned).collect(), place.map(PathBuf::from)).join(" ")
        };
        assert_eq!(told("warpline cap warpline", Some("/opt/w")), "/opt/w cap warpline");
        assert_eq!(told("warpline cap", None), "warpline cap");
        assert_eq!(told("warpline2 cap", Some("/opt/w")), "warpline2 cap");
        assert_eq!(told("sh -c warpline", Some("/opt/w")), "sh -c warpline");
    }
}
