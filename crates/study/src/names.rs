//! Names of trials and cells as those of files.

/// A name for people as that of a file, without an ending: "full-use-20mbit-s-4bdp" of "full-use, 20Mbit/s, 4BDP".
pub(crate) fn file_name(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}
