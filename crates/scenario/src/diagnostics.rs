//! The errors of a scenario: each with its place, its key, what is allowed, and the nearest correct spelling.

use std::fmt;
use std::ops::Range;
use warpline_core::spelling::nearest;

use super::document::{Node, Place, Step, path_text};

/// At most this many errors are shown; the rest are counted.
pub const MOST_SHOWN: usize = 50;
/// Characters of a line that are shown, at most.
const LONGEST_LINE: usize = 200;
/// Characters that are shown before the place of an error in a longer line.
const BEFORE: usize = 60;

/// One error in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, on one line.
    pub message: String,
    /// Key path, "link.1.rate"; empty if the error is not about a key.
    pub path: String,
    /// Its place in a text; `None` if it has none (JSON, a missing file).
    pub location: Option<Location>,
    /// What is allowed, and what to do.
    pub help: Vec<String>,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, or "--set".
    pub source: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line's text.
    pub text: String,
    /// Characters to underline, at least one.
    pub width: usize,
}

/// All errors of a scenario, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// The errors, at most [`MOST_SHOWN`].
    pub errors: Vec<Diagnostic>,
    /// How many more there are.
    pub omitted: usize,
}

impl Diagnostics {
    /// One error without a place, such as a file that cannot be read.
    pub fn single(message: impl Into<String>, help: impl Into<String>) -> Self {
        let help = Some(help.into()).filter(|text| !text.is_empty());
        let error = Diagnostic {
            message: message.into(),
            path: String::new(),
            location: None,
            help: help.into_iter().collect(),
        };
        Diagnostics { errors: vec![error], omitted: 0 }
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            writeln!(f, "{error}")?;
        }
        let all = self.errors.len() + self.omitted;
        match (all, self.omitted) {
            (0 | 1, _) => Ok(()),
            (_, 0) => write!(f, "\n{all} errors"),
            (_, omitted) => write!(f, "\n{all} errors, {omitted} of them not shown"),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let gutter = self.location.as_ref().map_or(1, |l| l.line.to_string().len());
        if let Some(Location { source, line, column, text, width }) = &self.location {
            write!(f, "\n{:gutter$}--> {source}:{line}:{column}", "")?;
            let (text, indent, width) = around(text, *column, *width);
            write!(f, "\n{:gutter$} |\n{line} | {text}", "")?;
            write!(f, "\n{:gutter$} | {:indent$}{}", "", "", "^".repeat(width))?;
        }
        if !self.path.is_empty() {
            write!(f, "\n{:gutter$} = key: {}", "", self.path)?;
        }
        for help in &self.help {
            write!(f, "\n{:gutter$} = help: {help}", "")?;
        }
        Ok(())
    }
}

/// What is shown of a line around the place at `column`, which is `width` characters wide: the text, with dots where a long line goes on; how many
/// characters stand before the place; and how many to underline.
fn around(line: &str, column: usize, width: usize) -> (String, usize, usize) {
    let length = line.chars().count();
    // White space at the end of a line is not in its text.
    let place = column.saturating_sub(1).min(length);
    let first = place.saturating_sub(BEFORE).min(length.saturating_sub(LONGEST_LINE));
    let end = (first + LONGEST_LINE).min(length);
    let middle = line.chars().skip(first).take(end - first);
    let middle: String = middle.map(|c| if c.is_control() { ' ' } else { c }).collect();
    let dots = |cut: bool| if cut { "..." } else { "" };
    let (before, behind) = (dots(first > 0), dots(end < length));
    let text = format!("{before}{middle}{behind}");
    (text, before.len() + place - first, width.min(end - place).max(1))
}

/// The texts that places refer to.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) sets: &'a [String],
}

impl Sources<'_> {
    /// A message with its place in front: "file:line:column: ...".
    pub(crate) fn at(&self, place: &Place, message: &str) -> String {
        match self.locate(place) {
            Some(Location { source, line, column, .. }) => format!("{source}:{line}:{column}: {message}"),
            None => message.to_owned(),
        }
    }

    /// Line, column and text of a place.
    fn locate(&self, place: &Place) -> Option<Location> {
        match place {
            Place::File(span) => Some(locate(self.name, self.text, span)),
            Place::Set(index, span) => self.sets.get(*index).map(|text| locate("--set", text, span)),
            Place::Unknown => None,
        }
    }
}

fn locate(source: &str, text: &str, span: &Range<usize>) -> Location {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (start, end) = (floor(span.start), floor(span.end));
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let stop = end.clamp(start, line_end);
    Location {
        source: source.to_owned(),
        line: text[..start].matches('\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
        text: text[line_start..line_end].trim_end().to_owned(),
        width: text[start..stop].chars().count().max(1),
    }
}

/// Collects errors while a document is checked.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    found: Vec<(Place, Vec<Step>, Diagnostic)>,
}

impl Collector {
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds an error at `place` about the key at `path`.
    pub(crate) fn add(
        &mut self,
        place: &Place,
        path: &[Step],
        message: impl Into<String>,
        help: Vec<String>,
    ) {
        let diagnostic = Diagnostic { message: message.into(), path: path_text(path), location: None, help };
        self.found.push((place.clone(), path.to_vec(), diagnostic));
    }

    /// Adds an error about the value at `path`. Its place is that value, or the nearest enclosing one that the document has.
    pub(crate) fn about(
        &mut self,
        root: &Node,
        path: &[Step],
        message: impl Into<String>,
        help: Vec<String>,
    ) {
        let place = (0..=path.len())
            .rev()
            .find_map(|n| root.at(&path[..n]))
            .map_or(Place::Unknown, |node| node.place.clone());
        self.add(&place, path, message, help);
    }

    /// The key paths of the errors so far.
    pub(crate) fn paths(&self) -> Vec<Vec<Step>> {
        self.found.iter().map(|(_, path, _)| path.clone()).collect()
    }

    /// Adds the errors of `other`, except those that may only follow from an error at one of `wrong`: errors about the same key or a key
    /// above or below it, errors about names of nodes and links if the network had errors, and others that go by a key with an error.
    pub(crate) fn append_unrelated(&mut self, other: Collector, wrong: &[Vec<Step>]) {
        let network = wrong.iter().any(|path| makes_network(path));
        let programs = wrong.iter().any(|path| makes_programs(path));
        self.found.extend(other.found.into_iter().filter(|(_, path, _)| {
            let follows = |w: &Vec<Step>| {
                let related = w.starts_with(path) || (!w.is_empty() && path.starts_with(w));
                related || repeats(path, w)
            };
            let unknown = network && names_nodes(path) || programs && names_programs(path);
            !(unknown || wrong.iter().any(follows))
        }));
    }

    /// The errors in the order of the text, then those of `--set`.
    pub(crate) fn finish(self, sources: &Sources<'_>) -> Diagnostics {
        let mut found = self.found;
        found.sort_by_key(|(place, _, _)| match place {
            Place::Unknown => (0, 0, 0),
            Place::File(span) => (1, 0, span.start),
            Place::Set(index, span) => (2, *index, span.start),
        });
        let omitted = found.len().saturating_sub(MOST_SHOWN);
        let errors = found
            .into_iter()
            .take(MOST_SHOWN)
            .map(|(place, _, diagnostic)| Diagnostic { location: sources.locate(&place), ..diagnostic })
            .collect();
        Diagnostics { errors, omitted }
    }
}

/// Whether it depends on the key at `path` which nodes and links there are.
pub(crate) fn makes_network(path: &[Step]) -> bool {
    match path {
        [Step::Key(key)] | [Step::Key(key), Step::Index(_)] => key == "link" || key == "topology",
        [Step::Key(key), _] => key == "topology",
        [Step::Key(list), Step::Index(_), Step::Key(key), ..] => {
            list == "link" && matches!(key.as_str(), "between" | "from" | "to")
        }
        _ => false,
    }
}

/// Whether the value at `path` goes by the names of nodes or links.
fn names_nodes(path: &[Step]) -> bool {
    let [Step::Key(list), Step::Index(_), Step::Key(key), below @ ..] = path else { return false };
    match (list.as_str(), key.as_str()) {
        ("flow", "from" | "to" | "via" | "multipath")
        | ("host", "name" | "tc" | "forwards" | "rebind")
        | ("change", "link") => true,
        ("host", "program") => {
            matches!(below, [_, Step::Key(key), ..] if key == "command" || key == "environment")
        }
        _ => false,
    }
}

/// Whether it depends on the key at `path` which programs there are, and for which of them others can wait.
fn makes_programs(path: &[Step]) -> bool {
    match path {
        [Step::Key(list), Step::Index(_), Step::Key(key), below @ ..]
            if list == "host" && key == "program" =>
        {
            matches!(below, [] | [_])
                || matches!(below, [_, Step::Key(key), ..] if key == "name" || key == "ready")
        }
        _ => false,
    }
}

/// Whether the value at `path` goes by the names of programs.
fn names_programs(path: &[Step]) -> bool {
    match path {
        [Step::Key(key), ..] if key == "until" => true,
        [Step::Key(list), _, Step::Key(programs), _, Step::Key(key), ..] => {
            list == "host" && programs == "program" && key == "after"
        }
        _ => false,
    }
}

/// Whether `path` leads to a `repeat` of the `schedule` that `wrong` leads into.
fn repeats(path: &[Step], wrong: &[Step]) -> bool {
    let Some((Step::Key(last), link)) = path.split_last() else { return false };
    last == "repeat" && matches!(wrong.strip_prefix(link), Some([Step::Key(key), ..]) if key == "schedule")
}

/// Help for an unknown name: the nearest one, and all that are allowed.
pub fn spelling_help<'a>(found: &str, known: &[&'a str]) -> Vec<String> {
    let mut help: Vec<String> = nearest(found, known.iter().copied())
        .map(|name| format!("did you mean `{name}`?"))
        .into_iter()
        .collect();
    const MANY: usize = 40;
    let shown = known.iter().copied().take(MANY);
    let more = if known.len() > MANY { format!(" and {} more", known.len() - MANY) } else { String::new() };
    if !known.is_empty() {
        help.push(format!("allowed: {}{more}", shown.collect::<Vec<&'a str>>().join(", ")));
    }
    help
}
