//! What a new scenario can begin with: small templates, the scenarios of the book's lessons, and the gallery of examples.

use include_dir::{Dir, include_dir};
use serde::Serialize;
use toml_edit::DocumentMut;

/// A scenario to begin with.
#[derive(Debug, Serialize)]
pub(crate) struct Beginning {
    /// Its name, which a file made of it gets.
    name: &'static str,
    /// What it is, in a sentence.
    about: String,
    shelf: Shelf,
    text: &'static str,
}

/// Where the page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shelf {
    /// Small networks.
    Template,
    Lesson,
    Example,
}

/// The texts of some scenarios, with their names.
macro_rules! scenarios {
    ($folder:literal: $($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!($folder, $name, ".toml")))),+] };
}

const TEMPLATES: [(&str, &str); 7] = scenarios!["templates/": "two-hosts", "shared-bottleneck", "two-routes", "star", "data-centre-small", "live-hosts", "empty"];

static LESSONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios/lessons");

/// Those of the examples that are simulated and read no file.
const EXAMPLES: [(&str, &str); 10] = scenarios![
    "../../../scenarios/": "dumbbell",
    "codel-vs-droptail",
    "old-tcp",
    "parking-lot",
    "multipath",
    "video-call",
    "web-and-background",
    "incast",
    "rrul",
    "data-centre",
];

/// All of them, templates first.
pub(crate) fn all() -> Vec<Beginning> {
    let of = |shelf: Shelf| {
        move |(name, text): (&'static str, &'static str)| Beginning { name, about: about(text), shelf, text }
    };
    let lessons = LESSONS.files().filter_map(|file| {
        let name = file.path().to_str()?.strip_suffix(".toml")?;
        Some((name, file.contents_utf8()?))
    });
    TEMPLATES
        .into_iter()
        .map(of(Shelf::Template))
        .chain(lessons.map(of(Shelf::Lesson)))
        .chain(EXAMPLES.into_iter().map(of(Shelf::Example)))
        .collect()
}

/// The description that a scenario gives of itself; otherwise the first sentence of its head.
fn about(text: &str) -> String {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let own = document.get("description").and_then(|item| item.as_str());
    let lines = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let head = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let sentence = head.split_inclusive(['.', '?']).next().unwrap_or_default().trim_end_matches('.');
    own.unwrap_or(sentence).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_them_says_what_it_is_and_all_but_the_empty_one_can_be_run() {
        let all = all();
        for shelf in [Shelf::Template, Shelf::Lesson, Shelf::Example] {
            assert!(all.iter().any(|beginning| beginning.shelf == shelf), "{shelf:?}");
        }
        for beginning in all {
            assert!(!beginning.about.is_empty(), "{}", beginning.name);
            let checked = crate::drawing::check(beginning.name, beginning.text, std::path::Path::new(""));
            assert_eq!(checked.valid, beginning.name != "empty", "{}: {checked:?}", beginning.name);
        }
    }
}
