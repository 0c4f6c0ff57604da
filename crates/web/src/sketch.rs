//! The network of a text that is not a valid scenario yet: which nodes its links name, without values.

use std::collections::BTreeMap;

use toml_edit::{DocumentMut, Item, TableLike};

use crate::drawing::{Drawing, Flow, Link, Node};
use crate::edit::entries;

/// Draws what can be recognised of a scenario with errors; nothing where the text is not TOML.
pub(crate) fn draw(text: &str) -> Option<Drawing> {
    let document: DocumentMut = text.parse().ok()?;
    let mut drawing = Drawing::default();
    let mut numbers = BTreeMap::new();
    let tables = |name: &str| document.get(name).map(entries).unwrap_or_default();
    for (entry, link) in tables("link").into_iter().enumerate() {
        let ends = match link.get("between").and_then(Item::as_array) {
            Some(ends) => ends.iter().filter_map(|end| end.as_str()).map(str::to_owned).collect(),
            None => [text_of(link, "from"), text_of(link, "to")].into_iter().flatten().collect::<Vec<_>>(),
        };
        let [from, to] = ends.as_slice() else { continue };
        let [from, to] = [from, to].map(|name| number(&mut drawing, &mut numbers, name));
        drawing.links.push(Link { from, to, origin: format!("link.{entry}"), there: None, back: None });
    }
    for (entry, host) in tables("host").into_iter().enumerate() {
        let Some(name) = text_of(host, "name") else { continue };
        let number = number(&mut drawing, &mut numbers, &name);
        let node = &mut drawing.nodes[number];
        (node.role, node.entry, node.endpoint) = ("host", Some(entry), text_of(host, "endpoint"));
    }
    for (entry, flow) in tables("flow").into_iter().enumerate() {
        let ends = ["from", "to"].map(|key| text_of(flow, key).and_then(|name| numbers.get(&name).copied()));
        for end in ends.into_iter().flatten() {
            drawing.nodes[end].role = "host";
        }
        let [from, to] = ends.map(|end| end.into_iter().collect());
        let name = text_of(flow, "name").unwrap_or_else(|| format!("flow {entry}"));
        drawing.flows.push(Flow { entry, name, from, to, count: 1, ..Flow::default() });
    }
    Some(drawing)
}

fn text_of(table: &dyn TableLike, key: &str) -> Option<String> {
    table.get(key).and_then(Item::as_str).map(str::to_owned)
}

fn number(drawing: &mut Drawing, numbers: &mut BTreeMap<String, usize>, name: &str) -> usize {
    *numbers.entry(name.to_owned()).or_insert_with(|| {
        drawing.nodes.push(Node { name: name.to_owned(), role: "router", ..Node::default() });
        drawing.nodes.len() - 1
    })
}
