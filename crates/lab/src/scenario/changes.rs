//! What differs between two scenarios, key by key, as `--set` would change the one into the other.

use std::collections::BTreeMap;

use serde::Serialize;

use super::document::{Data, Node};
use super::set::entry_name;

/// A key that has another value in the second scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    /// Its path, as `--set` takes it: `flow.bulk.cc`, `link[r1-r2].rate`.
    pub key: String,
    /// Its value in the first; none where it has none there.
    pub before: Option<String>,
    /// Its value in the second; none where it has none there.
    pub after: Option<String>,
}

/// The keys whose values differ between two scenarios, given as TOML, in the order of the first; keys that only the second has follow.
/// The seed is left out: it is no part of what a scenario says. None where one of them is not TOML.
pub fn changed_keys(before: &str, after: &str) -> Option<Vec<KeyChange>> {
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
        .map(|(key, _)| KeyChange {
            key: key.clone(),
            before: first.get(key).cloned(),
            after: second.get(key).cloned(),
        })
        .filter(|change| change.before != change.after)
        .collect();
    Some(changed)
}

/// A step of a path: in brackets where a dot would not do.
fn step(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    match (path.is_empty(), plain) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (false, false) => format!("{path}[{name}]"),
    }
}

/// The values of a tree with their paths. Lists of plain values are values; entries of other lists go by name, where all have one of
/// their own, else by number.
fn flatten(path: &str, node: &Node, keys: &mut Vec<(String, String)>) {
    match &node.data {
        Data::Null => {}
        Data::Table(table) => {
            for entry in &table.0 {
                flatten(&step(path, &entry.key), &entry.value, keys);
            }
        }
        Data::Array(items) if items.iter().any(|item| item.table().is_some()) => {
            let mut names: Vec<String> = items.iter().map(entry_name).collect();
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
    use crate::scenario::Scenario;

    const TEXT: &str = r#"
        duration = "5s"
        seed = 3
        link = [{ between = ["a-1", "b"], rate = "2Mbit/s", delay = "10ms" }]
        flow = [{ name = "bulk", from = "a-1", to = "b" }, { name = "web.x", from = "a-1", to = "b", count = 2 }]
    "#;

    fn scenario(sets: &[&str]) -> String {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        Scenario::from_toml("s", TEXT, &sets).unwrap_or_else(|error| panic!("{error}")).to_toml()
    }

    #[test]
    fn changed_keys_are_told_as_set_takes_them() {
        let sets = ["link[a-1-b].rate=5Mbit/s", "flow.bulk.cc=vegas", "flow[web.x].count=3", "seed=9"];
        let changes = changed_keys(&scenario(&[]), &scenario(&sets)).unwrap();
        let told = |key: &str| {
            changes.iter().find(|change| change.key == key).unwrap_or_else(|| panic!("{key} of {changes:?}"))
        };
        let rate = told("link[a-1-b].rate");
        assert_eq!((rate.before.as_deref(), rate.after.as_deref()), (Some("2Mbit/s"), Some("5Mbit/s")));
        assert_eq!(told("flow.bulk.cc").after.as_deref(), Some("vegas"));
        assert_eq!(told("flow[web.x].count").before.as_deref(), Some("2"));
        assert_eq!(changes.len(), 3, "{changes:?}");
        // Set back by the paths that were told, they are the same scenario again.
        let back: Vec<String> = changes
            .iter()
            .filter_map(|change| Some(format!("{}={}", change.key, change.before.as_ref()?)))
            .collect();
        let mut all: Vec<&str> = sets.to_vec();
        all.extend(back.iter().map(String::as_str));
        let again = changed_keys(&scenario(&[]), &scenario(&all)).unwrap();
        assert!(again.iter().all(|change| change.before.is_none()), "{again:?}");
    }

    #[test]
    fn entries_without_names_of_their_own_go_by_number_and_what_is_no_toml_is_nothing() {
        let one = "[[flow]]\nname = \"x\"\ncc = \"reno\"\n[[flow]]\nname = \"x\"\ncc = \"reno\"\n";
        let other = one.replacen("reno", "nice", 1) + "stop = \"2s\"\n";
        let keys = |text: &str| -> Vec<String> {
            changed_keys(one, text).unwrap().into_iter().map(|change| change.key).collect()
        };
        assert_eq!(keys(&other), ["flow.0.cc", "flow.1.stop"]);
        assert_eq!(changed_keys("a = 1", "a = "), None);
    }
}
