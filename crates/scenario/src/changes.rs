//! The differences between two scenarios, key by key, as `--set` would write them.

use std::collections::BTreeMap;

use super::document::{Data, Node};
use super::set::entry_name;

/// The keys whose values differ between two scenarios, both given as TOML: in the order of the first, then keys that only the second
/// has. The seed is left out. `None` if one of them is not TOML.
///
/// `change` makes the caller's form of a change from the key's path as in `--set` (`flow.bulk.cc`, `link[r1-r2].rate`), its value in
/// the first scenario and its value in the second. A value is `None` if the scenario does not have the key.
pub fn changed_keys<T>(
    before: &str,
    after: &str,
    change: impl Fn(String, Option<String>, Option<String>) -> T,
) -> Option<Vec<T>> {
    let read = |text: &str| {
        let (node, errors) = Node::from_toml(text);
        errors.is_empty().then(|| {
            let mut keys = Vec::new();
            flatten("", &node, &mut keys);
            keys.retain(|(key, _)| key != "seed");
            keys
        })
    };
    let (before, after) = (read(before)?, read(after)?);
    let of = |keys: &[(String, String)]| keys.iter().cloned().collect::<BTreeMap<String, String>>();
    let (first, second) = (of(&before), of(&after));
    let changed = before
        .iter()
        .chain(after.iter().filter(|(key, _)| !first.contains_key(key)))
        .filter(|(key, _)| first.get(key) != second.get(key))
        .map(|(key, _)| change(key.clone(), first.get(key).cloned(), second.get(key).cloned()))
        .collect();
    Some(changed)
}

/// Appends a step to a path, in brackets if it cannot follow a dot.
fn step(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    match (path.is_empty(), plain) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (false, false) => format!("{path}[{name}]"),
    }
}

/// Collects the values of a tree with their paths. A list of plain values is one value. Entries of other lists are named by their names
/// if all are different, or else by their indices.
fn flatten(path: &str, node: &Node, keys: &mut Vec<(String, String)>) {
    match &node.data {
        Data::Null => {}
        Data::Table(table) => {
            for entry in &table.0 {
                flatten(&step(path, &entry.key), &entry.value, keys);
            }
        }
        Data::Array(items) if items.iter().any(|item| item.table().is_some()) => {
            let mut names: Vec<String> = items.iter().map(|item| entry_name(path, item)).collect();
            let mut sorted = names.clone();
            sorted.sort();
            let unique = sorted.windows(2).all(|pair| pair[0] != pair[1]);
            if !unique || names.iter().any(String::is_empty) {
                names = (0..items.len()).map(|index| index.to_string()).collect();
            }
            for (name, item) in names.iter().zip(items) {
                flatten(&step(path, name), item, keys);
            }
        }
        Data::Text(text) | Data::Date(text) => keys.push((path.to_owned(), text.clone())),
        _ => keys.push((path.to_owned(), node.to_json().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    const TEXT: &str = r#"
        duration = "5s"
        seed = 3
        link = [{ between = ["a-1", "b"], rate = "2Mbit/s", delay = "10ms" }]
        flow = [{ name = "bulk", from = "a-1", to = "b" }, { name = "web.x", from = "a-1", to = "b", count = 2 }]
    "#;

    type Change = (String, Option<String>, Option<String>);

    fn changes(before: &str, after: &str) -> Option<Vec<Change>> {
        changed_keys(before, after, |key, before, after| (key, before, after))
    }

    fn scenario(sets: &[&str]) -> String {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        Scenario::from_toml("s", TEXT, &sets).unwrap_or_else(|error| panic!("{error}")).to_toml()
    }

    #[test]
    fn changed_keys_have_the_form_of_set() {
        let sets = ["link[a-1-b].rate=5Mbit/s", "flow.bulk.cc=vegas", "flow[web.x].count=3", "seed=9"];
        let changes = changes(&scenario(&[]), &scenario(&sets)).unwrap();
        let of = |key: &str| {
            let found = changes.iter().find(|change| change.0 == key);
            found.map(|(_, before, after)| (before.as_deref(), after.as_deref()))
        };
        assert_eq!(of("link[a-1-b].rate"), Some((Some("2Mbit/s"), Some("5Mbit/s"))));
        assert_eq!(of("flow.bulk.cc").unwrap().1, Some("vegas"));
        assert_eq!(of("flow[web.x].count").unwrap().0, Some("2"));
        assert_eq!(changes.len(), 3, "{changes:?}");
        // With the changes set by these paths, the scenarios are the same again.
        let back: Vec<String> = changes
            .iter()
            .filter_map(|(key, before, _)| Some(format!("{key}={}", before.as_ref()?)))
            .collect();
        let mut all: Vec<&str> = sets.to_vec();
        all.extend(back.iter().map(String::as_str));
        let again = self::changes(&scenario(&[]), &scenario(&all)).unwrap();
        assert!(again.iter().all(|(_, before, _)| before.is_none()), "{again:?}");
    }

    #[test]
    fn entries_with_equal_names_are_numbered_and_text_that_is_not_toml_gives_none() {
        let one = "[[flow]]\nname = \"x\"\ncc = \"reno\"\n[[flow]]\nname = \"x\"\ncc = \"reno\"\n";
        let other = one.replacen("reno", "nice", 1) + "stop = \"2s\"\n";
        let keys = |text: &str| -> Vec<String> {
            changes(one, text).unwrap().into_iter().map(|(key, ..)| key).collect()
        };
        assert_eq!(keys(&other), ["flow.0.cc", "flow.1.stop"]);
        assert_eq!(changes("a = 1", "a = "), None);
    }
}
