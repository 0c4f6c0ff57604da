//! `--set path=value`: changes to a document before it is checked.
//!
//! A path is a list of keys separated by dots. An entry of a list is given by its index from 0 (`link.1.rate`) or by its name
//! (`link[r1-r2].rate`, `flow.bulk.cc`). The value is read as TOML, or as a plain string if it is not TOML.

use super::application::App;
use super::diagnostics::Collector;
use super::document::{Data, Entry, Node, Place, Table};
use warpline_core::spelling::nearest;

/// Applies `sets` to `root`; one that cannot be applied becomes an error. `tidy` is called before each change and after the last. It
/// writes short forms out in full, so that a path can lead into them.
pub(crate) fn apply(
    root: &mut Node,
    sets: &[String],
    errors: &mut Collector,
    tidy: &mut dyn FnMut(&mut Node),
) {
    tidy(root);
    for (index, text) in sets.iter().enumerate() {
        if let Err((span, message, help)) = apply_one(root, index, text) {
            errors.add(&Place::Set(index, span), &[], message, help);
        }
        tidy(root);
    }
}

type Failure = (std::ops::Range<usize>, String, Vec<String>);

/// A step of a path, with its range of bytes in the text.
struct Segment {
    text: String,
    start: usize,
    end: usize,
}

fn apply_one(root: &mut Node, index: usize, text: &str) -> Result<(), Failure> {
    let malformed = |span, message: &str| {
        let help =
            "write `--set path=value`, for example `--set duration=10s` or `--set link[r1-r2].rate=5Mbit/s`";
        (span, message.to_owned(), vec![help.to_owned()])
    };
    let segments = segments(text).map_err(|(span, message)| malformed(span, &message))?;
    let end = segments.last().map_or(0, |s| s.end);
    let Some(equals) = text[end..].find('=').map(|i| end + i) else {
        return Err(malformed(0..text.len(), "`--set` without `=`"));
    };
    if segments.is_empty() {
        return Err(malformed(0..equals.max(1), "`--set` without a path"));
    }
    // Keys of a scenario are not this deep; a longer path would only nest.
    if segments.len() > 16 {
        return Err(malformed(0..equals, "the path has more than 16 steps"));
    }
    let raw = text[equals + 1..].trim();
    let offset = text.len() - text[equals + 1..].trim_start().len();
    let place = Place::Set(index, offset..text.len().max(offset));
    let value = Node::from_toml_value(raw, index, offset)
        .filter(|node| !matches!(node.data, Data::Date(_)))
        .unwrap_or_else(|| Node { place: place.clone(), data: Data::Text(raw.to_owned()) });
    insert(root, "", &segments, value, &Place::Set(index, segments[0].start..end))
}

/// Splits the path (up to the `=`) into steps.
fn segments(text: &str) -> Result<Vec<Segment>, (std::ops::Range<usize>, String)> {
    let empty = "an empty step in the path";
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let rest = &text[start..];
        let length = rest.find(['.', '=', '[']).unwrap_or(rest.len());
        let step = rest[..length].trim();
        if !step.is_empty() {
            found.push(Segment { text: step.to_owned(), start, end: start + length });
        } else if rest[length..].starts_with('.') {
            return Err((start..start + 1, empty.to_owned()));
        } else if start > 0 && !rest[length..].starts_with('[') {
            // Nothing follows the last dot.
            return Err((start - 1..start, empty.to_owned()));
        }
        let mut at = start + length;
        if text[at..].starts_with('[') {
            let Some(close) = text[at..].find(']').map(|i| at + i) else {
                return Err((at..text.len(), "`[` without `]`".to_owned()));
            };
            let name = text[at + 1..close].trim().trim_matches(['"', '\'']);
            found.push(Segment { text: name.to_owned(), start: at, end: close + 1 });
            at = close + 1;
        }
        let next = text[at..].trim_start();
        let here = text.len() - next.len();
        start = match next.chars().next() {
            None | Some('=') => return Ok(found),
            Some('.') => here + 1,
            Some('[') => here,
            Some(_) => {
                let key = next.split(['.', '=', '[']).next().unwrap_or_default().trim_end();
                let message = format!("`{key}` needs a dot before it: `{}.{key}`", text[..at].trim());
                return Err((here..here + key.len(), message));
            }
        };
    }
}

/// `key` is that of `node`.
fn insert(node: &mut Node, key: &str, path: &[Segment], value: Node, place: &Place) -> Result<(), Failure> {
    let [step, rest @ ..] = path else {
        *node = value;
        return Ok(());
    };
    match &mut node.data {
        Data::Table(table) => {
            if let Some(child) = table.value_mut(&step.text) {
                return insert(child, &step.text, rest, value, place);
            }
            // A new key. Whether it is allowed is checked later, as for all keys.
            let mut child = Node { place: place.clone(), data: Data::Table(Table::default()) };
            insert(&mut child, &step.text, rest, value, place)?;
            let key_place = match place {
                Place::Set(index, _) => Place::Set(*index, step.start..step.end),
                other => other.clone(),
            };
            table.0.push(Entry { key: step.text.clone(), place: key_place, value: child });
            Ok(())
        }
        Data::Array(items) => {
            let names: Vec<String> = items.iter().map(|item| entry_name(key, item)).collect();
            let position = match step.text.parse::<usize>() {
                Ok(number) if number < items.len() => Some(number),
                _ => names.iter().position(|name| !name.is_empty() && *name == step.text),
            };
            match position {
                Some(position) => insert(&mut items[position], "", rest, value, place),
                None => Err(no_entry(step, &names)),
            }
        }
        // "reno" becomes { kind = "reno" } when one of its parameters is set.
        Data::Text(name) if !rest.is_empty() || step.text != "kind" => {
            let kind = Node { place: node.place.clone(), data: Data::Text(name.clone()) };
            let entry = Entry { key: "kind".to_owned(), place: node.place.clone(), value: kind };
            node.data = Data::Table(Table(vec![entry]));
            insert(node, key, path, value, place)
        }
        _ => {
            let message = format!("`{}` leads into {}, which has no keys", step.text, node.describe());
            Err((step.start..step.end, message, Vec::new()))
        }
    }
}

/// The name of an entry of the list with this key: its `name`, the ends of a link, or the app of a flow.
pub(super) fn entry_name(list: &str, node: &Node) -> String {
    let Some(table) = node.table() else { return String::new() };
    let text = |key: &str| table.value(key).and_then(Node::text).unwrap_or_default().to_owned();
    let between: Vec<&str> =
        table.value("between").map(Node::items).unwrap_or_default().iter().filter_map(Node::text).collect();
    let (name, from, to) = (text("name"), text("from"), text("to"));
    if !name.is_empty() {
        name
    } else if !between.is_empty() {
        between.join("-")
    } else if !text("app").is_empty() {
        text("app")
    } else if list == "flow" {
        App::default().name().to_owned()
    } else if !from.is_empty() && !to.is_empty() {
        format!("{from}-{to}")
    } else {
        String::new()
    }
}

fn no_entry(step: &Segment, names: &[String]) -> Failure {
    let mut help: Vec<String> =
        nearest(&step.text, names.iter().map(String::as_str).filter(|n| !n.is_empty()))
            .map(|name| format!("did you mean `{name}`?"))
            .into_iter()
            .collect();
    let entries: Vec<String> = names
        .iter()
        .take(20)
        .enumerate()
        .map(|(i, name)| if name.is_empty() { i.to_string() } else { format!("{i} ({name})") })
        .collect();
    help.push(match entries.as_slice() {
        [] => "the list is empty".to_owned(),
        _ => format!("entries: {}", entries.join(", ")),
    });
    (step.start..step.end, format!("there is no entry `{}` here", step.text), help)
}

/// The steps as a path.
#[cfg(test)]
fn steps(path: &str) -> Vec<String> {
    segments(path).map(|s| s.into_iter().map(|s| s.text).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        assert_eq!(steps("duration=10s"), ["duration"]);
        assert_eq!(steps("link.1.rate=5Mbit/s"), ["link", "1", "rate"]);
        assert_eq!(steps("link[r1-r2].queue.limit=1BDP"), ["link", "r1-r2", "queue", "limit"]);
        assert_eq!(steps("flow[\"web.x\"].cc=a"), ["flow", "web.x", "cc"]);
        assert_eq!(steps("link[a-b] .rate=1Mbit/s"), ["link", "a-b", "rate"]);
        assert_eq!(steps("flow.0.list[1][2] = 3"), ["flow", "0", "list", "1", "2"]);
        for wrong in ["a..b=1", "a.=1", "a.", ".a=1", "a[b=1"] {
            assert!(segments(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_behind_brackets_needs_a_dot() {
        for (text, place, right) in [
            ("link[a-b]rate=10Mbit/s", 9..13, "link[a-b].rate"),
            ("link[a-b] queue .limit=1p", 10..15, "link[a-b].queue"),
        ] {
            let (span, message) = segments(text).map(drop).unwrap_err();
            assert_eq!(span, place, "{text}");
            assert!(message.ends_with(&format!("needs a dot before it: `{right}`")), "{message}");
        }
    }

    #[test]
    fn values_land_where_the_path_says() {
        let text = "[[flow]]\nname = \"bulk\"\ncc = \"vegas\"\n[[link]]\nbetween = [\"a\", \"b\"]\n";
        let (mut root, _) = Node::from_toml(text);
        let mut errors = Collector::default();
        let sets = ["seed=7", "flow.bulk.cc.alpha=1", "link[a-b].rate=5Mbit/s", "clock.mode=real"];
        apply(&mut root, &sets.map(str::to_owned), &mut errors, &mut |_| {});
        assert!(errors.is_empty());
        assert_eq!(
            root.to_json(),
            serde_json::json!({
                "flow": [{"name": "bulk", "cc": {"kind": "vegas", "alpha": 1}}],
                "link": [{"between": ["a", "b"], "rate": "5Mbit/s"}],
                "seed": 7,
                "clock": {"mode": "real"},
            })
        );
    }

    #[test]
    fn a_flow_without_an_app_has_the_name_of_the_default_one() {
        let (mut root, _) = Node::from_toml("[[flow]]\nfrom = \"a\"\nto = \"b\"\n");
        let mut errors = Collector::default();
        apply(&mut root, &["flow.bulk.cc=reno".to_owned()], &mut errors, &mut |_| {});
        assert!(errors.is_empty());
        assert_eq!(root.to_json()["flow"][0]["cc"], "reno");
    }
}
