//! What a wish for runs comes to: a run for each seed and each combination of values, with packets recorded if they are to be watched.

use serde::{Deserialize, Serialize};
use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike, Value};
use warpline_scenario::json_schema;

use crate::answer::{Answer, Refusal};
use crate::edit::entries_mut;

/// Runs of one wish, at most.
const MOST: usize = 500;

/// Values that a key of the scenario takes in turn.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Axis {
    /// The key, as `--set` has it: "flow.bulk.cc", "link[r1-r2].rate".
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
}

/// One run of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// What it is called among the others: "cc-vegas/seed-2"; empty if it is the only one.
    pub(crate) name: String,
    /// Changes, as `--set` has them.
    pub(crate) sets: Vec<String>,
    pub(crate) seed: u64,
}

/// A value as a part of a file's name.
pub(crate) fn plain(text: &str) -> String {
    let plain: String = text
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    plain.trim_matches(['-', '.']).chars().take(60).collect()
}

/// All combinations of values and seeds, in order.
///
/// # Errors
/// If there are too many, or a key has no value.
pub(crate) fn points(axes: &[Axis], seeds: &[u64]) -> Answer<Vec<Point>> {
    if seeds.is_empty() || axes.iter().any(|axis| axis.values.is_empty() || axis.key.trim().is_empty()) {
        return Err(Refusal::bad("each key needs a name and a value, and there must be a seed"));
    }
    let count = axes.iter().fold(seeds.len(), |count, axis| count.saturating_mul(axis.values.len()));
    if count > MOST {
        return Err(Refusal::bad(format!("{count} runs are too many; the lab does up to {MOST} at once")));
    }
    let twice = (1..seeds.len()).find(|&number| seeds[..number].contains(&seeds[number]));
    if let Some(number) = twice {
        let seed = seeds[number];
        return Err(Refusal::bad(format!("the seed {seed} is given twice; it makes one run")));
    }
    let mut points = vec![Point { name: String::new(), sets: Vec::new(), seed: 0 }];
    for axis in axes {
        let words = words(axis);
        points = points
            .iter()
            .flat_map(|point| {
                axis.values.iter().zip(&words).map(|(value, own)| {
                    let name =
                        if point.name.is_empty() { own.clone() } else { format!("{},{own}", point.name) };
                    let sets = [point.sets.clone(), vec![format!("{}={value}", axis.key)]].concat();
                    Point { name, sets, seed: 0 }
                })
            })
            .collect();
    }
    let several = seeds.len() > 1;
    let of = |point: &Point| {
        let (name, sets) = (point.name.clone(), point.sets.clone());
        let named = move |seed: &u64| {
            let parts = [name.clone(), if several { format!("seed-{seed}") } else { String::new() }];
            let name: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            Point { name: name.join("/"), sets: sets.clone(), seed: *seed }
        };
        seeds.iter().map(named).collect::<Vec<_>>()
    };
    Ok(points.iter().flat_map(of).collect())
}

/// What the values of a key are called in names of runs: "cc-reno", "cc-vegas". Each has a name of its own, also if two values look alike there.
fn words(axis: &Axis) -> Vec<String> {
    let key = plain(axis.key.rsplit('.').next().unwrap_or_default());
    let mut words: Vec<String> = Vec::new();
    for (number, value) in axis.values.iter().enumerate() {
        let own = format!("{key}-{}", plain(value));
        let numbered = (number..).map(|number| format!("{own}-{number}"));
        let free = std::iter::once(own.clone()).chain(numbered).find(|word| !words.contains(word));
        words.extend(free);
    }
    words
}

/// A scenario's text for one run: without its own list of seeds and, if its packets are to be recorded, with a record of each link.
///
/// # Errors
/// If it is not TOML.
pub(crate) fn prepared(text: &str, record: bool) -> Answer<String> {
    let mut document: DocumentMut = text.parse().map_err(|_| Refusal::bad("the text is not TOML"))?;
    for key in ["replications", "replicate"] {
        document.remove(key);
    }
    if record {
        if let Some(links) = document.get_mut("link") {
            entries_mut(links).into_iter().for_each(record_packets);
        }
        let kind = document
            .get("topology")
            .and_then(|item| item.get("kind"))
            .and_then(Item::as_str)
            .unwrap_or_default()
            .to_owned();
        if let Some(topology) = document.get_mut("topology").and_then(Item::as_table_like_mut) {
            for key in links_of(&kind) {
                if !topology.contains_key(&key) {
                    topology.insert(&key, Item::Value(Value::InlineTable(InlineTable::new())));
                }
                if let Some(table) = topology.get_mut(&key).and_then(Item::as_table_like_mut) {
                    record_packets(table);
                }
            }
        }
    }
    Ok(document.to_string())
}

/// The keys of a topology that say what its links are like.
fn links_of(kind: &str) -> Vec<String> {
    let forms = json_schema()["$defs"]["Topology"]["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = forms.iter().find(|form| form["properties"]["kind"]["const"] == kind);
    let properties = own.and_then(|form| form["properties"].as_object()).into_iter().flatten();
    properties
        .filter(|(_, schema)| schema["$ref"] == "#/$defs/DuplexOptions")
        .map(|(key, _)| key.clone())
        .collect()
}

/// Adds "packets" to what a link records, in both directions.
fn record_packets(link: &mut dyn TableLike) {
    const WORD: &str = "packets";
    match link.get_mut("record").and_then(Item::as_array_mut) {
        Some(own) if own.iter().any(|word| word.as_str() == Some(WORD)) => {}
        Some(own) => own.push(WORD),
        None => _ = link.insert("record", Item::Value(Value::Array([WORD].into_iter().collect::<Array>()))),
    }
    let back = link.get_mut("reverse").and_then(Item::as_table_like_mut);
    if let Some(back) = back.filter(|back| back.contains_key("record")) {
        record_packets(back);
    }
}

#[cfg(test)]
mod tests {
    use warpline_scenario::{LinkRecordKind, Scenario};

    use super::*;

    fn axis(key: &str, values: &[&str]) -> Axis {
        Axis { key: key.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn a_grid_has_each_combination_once() {
        let points = points(
            &[axis("flow.a.cc", &["reno", "vegas"]), axis("link[r].rate", &["1Mbit/s", "2Mbit/s"])],
            &[1, 2],
        )
        .unwrap();
        assert_eq!(points.len(), 8);
        assert_eq!(points[3].name, "cc-reno,rate-2Mbit-s/seed-2");
        assert_eq!(points[3].sets, ["flow.a.cc=reno", "link[r].rate=2Mbit/s"]);
        let mut names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        names.dedup();
        assert_eq!(names.len(), 8);
        assert_eq!(
            super::points(&[], &[7]).unwrap(),
            [Point { name: String::new(), sets: Vec::new(), seed: 7 }]
        );
        assert_eq!(super::points(&[axis("a", &["1/2", "1 2"])], &[1]).unwrap()[1].name, "a-1-2-1");
        // The name of a third value may be what the second one is called.
        let alike = super::points(&[axis("a", &["1/2", "1 2", "1-2-1"])], &[1]).unwrap();
        let alike: Vec<&str> = alike.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(alike, ["a-1-2", "a-1-2-1", "a-1-2-1-2"]);
        assert!(super::points(&[], &[1, 2, 1]).unwrap_err().message.contains("twice"));
        assert!(super::points(&[axis("a", &[])], &[1]).is_err() && super::points(&[], &[]).is_err());
        assert!(super::points(&[], &(0..501).collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn every_link_of_every_example_is_recorded() {
        for beginning in ["dumbbell", "parking-lot", "data-centre", "multipath"] {
            let path = format!("{}/../../scenarios/{beginning}.toml", env!("CARGO_MANIFEST_DIR"));
            let text = prepared(&std::fs::read_to_string(path).unwrap(), true).unwrap();
            let scenario = Scenario::from_toml(beginning, &text, &[])
                .unwrap_or_else(|errors| panic!("{beginning}: {errors}"));
            let expanded = scenario.expand();
            assert!(
                expanded.links.iter().all(|link| link.kind.record.contains(&LinkRecordKind::Packets)),
                "{beginning}"
            );
        }
        let text = prepared("[replications]\nruns = 3\n", false).unwrap();
        assert_eq!(text, "");
        let back =
            prepared("[[link]]\nrecord = [\"queue\"]\nreverse = { record = [\"pcap\"] }\n", true).unwrap();
        assert_eq!(
            back,
            "[[link]]\nrecord = [\"queue\", \"packets\"]\nreverse = { record = [\"pcap\", \"packets\"] }\n"
        );
    }
}
