//! Names of nodes in a scenario's text: which keys have them, how a node is renamed, and what goes with one that is removed.

use std::collections::BTreeSet;
use std::ops::Range;

use toml_edit::{DocumentMut, Item, TableLike, Value};
use warpline_results::condition::link_in;
use warpline_scenario::Until;
use warpline_scenario::addresses::variables;

use crate::answer::{Answer, Refusal};
use crate::edit::{entries, remove};

/// How the texts of a key name nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// A text is a node's name.
    Node,
    /// A text calls a link, maybe by its ends: "a-b" or "a>b".
    Link,
    /// A text compares a measure, maybe that of a link: `link[a>b].drops < 3`.
    Measure,
    /// A text calls a program, maybe by its host: "a.client" or "a".
    Program,
    /// A text says that a program exits: "a.client exits".
    Exit,
    /// A text of a program has addresses: `{a}`, `{a:6}`, `$WARPLINE_ADDR_A`.
    Addresses,
    /// A text is the name of a machine, which may be that of the guest for which it was made.
    Machine,
    /// A text is a command of tc(8). The interfaces of a router have the names of its neighbours.
    Interface,
}

/// All keys whose texts name nodes, each with the way to it.
const NAMED: [(&[&str], Naming); 17] = [
    (&["link", "between"], Naming::Node),
    (&["link", "from"], Naming::Node),
    (&["link", "to"], Naming::Node),
    (&["host", "name"], Naming::Node),
    (&["flow", "from"], Naming::Node),
    (&["flow", "to"], Naming::Node),
    (&["flow", "via"], Naming::Node),
    (&["flow", "multipath", "paths"], Naming::Node),
    (&["change", "link"], Naming::Link),
    (&["expect"], Naming::Measure),
    (&["until"], Naming::Exit),
    (&["host", "program", "after"], Naming::Program),
    (&["host", "program", "command"], Naming::Addresses),
    (&["host", "program", "environment"], Naming::Addresses),
    (&["host", "program", "ready"], Naming::Addresses),
    (&["host", "machine"], Naming::Machine),
    (&["host", "tc"], Naming::Interface),
];

/// The lists whose entries go with a node that they name.
const BOUND: [&str; 3] = ["link", "host", "flow"];

/// The entries of a list of this name.
fn list<'a>(document: &'a DocumentMut, name: &str) -> Vec<&'a dyn TableLike> {
    document.get(name).map(entries).unwrap_or_default()
}

fn text<'a>(table: &'a dyn TableLike, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Item::as_str)
}

/// Whether an entry of a list names a node.
fn names(list: &str, entry: &dyn TableLike, node: &str) -> bool {
    let mut keys = NAMED.iter().filter(|(_, naming)| *naming == Naming::Node);
    keys.any(|(path, _)| {
        path.split_first().is_some_and(|(first, below)| *first == list && has_text(entry, below, node))
    })
}

/// Whether this text is at a path, by itself or in a list.
fn has_text(table: &dyn TableLike, path: &[&str], text: &str) -> bool {
    let Some((key, below)) = path.split_first() else { return false };
    match table.get(key) {
        Some(Item::Value(value)) if below.is_empty() => is_among(value, text),
        Some(item) => item.as_table_like().is_some_and(|table| has_text(table, below, text)),
        None => false,
    }
}

fn is_among(value: &Value, text: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| is_among(item, text)),
        other => other.as_str() == Some(text),
    }
}

/// Whether a text is the name that a `[[link]]` gives itself.
fn is_own_name(document: &DocumentMut, called: &str) -> bool {
    list(document, "link").into_iter().any(|link| text(link, "name") == Some(called))
}

/// The two nodes by which a text calls a link, "a>b" or "a-b"; none if it does not call one by its ends.
fn ends_called<'a>(document: &DocumentMut, called: &'a str) -> Option<(&'a str, &'a str)> {
    if called.contains('>') {
        return called.split_once('>');
    }
    if is_own_name(document, called) {
        return None;
    }
    let links = list(document, "link");
    let joins =
        |a: &str, b: &str| links.iter().any(|link| names("link", *link, a) && names("link", *link, b));
    // Names of nodes may have dashes of their own: at one of the dashes, both sides are the ends of a link.
    let mut sides = called.match_indices('-').map(|(at, _)| (&called[..at], &called[at + 1..]));
    sides.find(|&(a, b)| joins(a, b))
}

/// All programs: the host of each, and the name that it has itself.
fn programs(document: &DocumentMut) -> Vec<(&str, Option<&str>)> {
    let mut all = Vec::new();
    for host in list(document, "host") {
        let Some(name) = text(host, "name") else { continue };
        let own = host.get("program").map(entries).unwrap_or_default();
        all.extend(own.into_iter().map(|program| (name, text(program, "name"))));
    }
    all
}

/// Another name for a node.
struct Renaming<'a> {
    /// The scenario with the old name, which says what texts stand for.
    before: DocumentMut,
    from: &'a str,
    to: &'a str,
}

impl Renaming<'_> {
    /// What a text becomes; none if it stays.
    fn of(&self, naming: Naming, text: &str) -> Option<String> {
        match naming {
            Naming::Node => (text == self.from).then(|| self.to.to_owned()),
            Naming::Link => self.link(text),
            Naming::Measure => self.measure(text),
            Naming::Program => self.program(text),
            Naming::Exit => {
                let program = Until::program(text)?;
                Some(text.replacen(program, &self.program(program)?, 1))
            }
            Naming::Addresses => Some(self.addresses(text)),
            Naming::Machine => (text == self.from && self.has_machine()).then(|| self.to.to_owned()),
            Naming::Interface => Some(self.interface(text)),
        }
    }

    fn link(&self, called: &str) -> Option<String> {
        let (first, second) = ends_called(&self.before, called)?;
        let sign = &called[first.len()..called.len() - second.len()];
        let [first, second] = [first, second].map(|end| if end == self.from { self.to } else { end });
        Some(format!("{first}{sign}{second}"))
    }

    fn measure(&self, condition: &str) -> Option<String> {
        let Range { start, end } = link_in(condition)?;
        Some(format!("{}{}{}", &condition[..start], self.link(&condition[start..end])?, &condition[end..]))
    }

    fn program(&self, called: &str) -> Option<String> {
        let programs = programs(&self.before);
        let is_name = |text: &str| programs.iter().any(|(_, name)| *name == Some(text));
        let has_program = |label: &str| {
            let mut own = programs.iter().filter(|(host, _)| *host == self.from).enumerate();
            own.any(|(number, (_, name))| name.map_or(label == number.to_string(), |name| label == name))
        };
        let label = match called.strip_prefix(self.from)? {
            // A program of this name comes before the host.
            "" if is_name(called) => return None,
            "" if !is_name(self.to) => return Some(self.to.to_owned()),
            // The new name alone would be another program.
            "" => programs.iter().find(|(host, _)| *host == self.from)?.1.unwrap_or("0"),
            // Names of nodes may have dots: without such a program, it is another host.
            rest => rest.strip_prefix('.').filter(|label| has_program(label))?,
        };
        Some(format!("{}.{label}", self.to))
    }

    fn addresses(&self, text: &str) -> String {
        let mut new = with_address_of(text, self.from, self.to);
        for (from, to) in variables(self.from).iter().zip(&variables(self.to)) {
            new = with_variable(&new, from, to);
        }
        new
    }

    /// Whether the node is a guest whose machine has its name.
    fn has_machine(&self) -> bool {
        list(&self.before, "host").into_iter().any(|host| {
            let is_guest = text(host, "endpoint") == Some("guest") && !host.contains_key("machine");
            is_guest && text(host, "name") == Some(self.from)
        })
    }

    /// The guest into whose machine the node would move by its new name alone; none if it would not.
    fn newly_beside(&self) -> Option<&str> {
        // A guest in that machine already leads it, and takes its name along.
        let mut there = list(&self.before, "host").into_iter();
        let named = there.find(|host| text(*host, "machine") == Some(self.to))?;
        self.has_machine().then(|| text(named, "name")).flatten()
    }

    fn interface(&self, command: &str) -> String {
        let mut new = String::with_capacity(command.len());
        let mut before = "";
        for part in command.split_inclusive(char::is_whitespace) {
            let word = part.trim_end();
            let is_named = before == "dev" && word == self.from;
            new.push_str(if is_named { self.to } else { word });
            new.push_str(&part[word.len()..]);
            // Between two words there may be more than one space.
            if !word.is_empty() {
                before = word;
            }
        }
        new
    }
}

/// A text of a program with another name for a node, whose addresses are `{NAME}` and `{NAME:6}` there. `${NAME}` is left to the shell.
fn with_address_of(text: &str, from: &str, to: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, braced) = rest.split_at(at);
        new.push_str(before);
        new.push('{');
        rest = &braced[1..];
        let behind =
            rest.strip_prefix(from).filter(|behind| behind.starts_with('}') || behind.starts_with(":6}"));
        if let Some(behind) = behind.filter(|_| !before.ends_with('$')) {
            new.push_str(to);
            rest = behind;
        }
    }
    new + rest
}

/// A text with another variable in place of one. A longer name in which it stands is left alone.
fn with_variable(text: &str, from: &str, to: &str) -> String {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut new = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(from) {
        let end = at + from.len();
        if !text[..at].ends_with(is_inside) && !text[end..].starts_with(is_inside) {
            new.push_str(&text[done..at]);
            new.push_str(to);
            done = end;
        }
    }
    new + &text[done..]
}

/// Replaces a text. What stands around it stays.
fn put_text(value: &mut Value, text: &str) {
    let decor = value.decor().clone();
    *value = Value::from(text);
    *value.decor_mut() = decor;
}

/// Changes all texts at a path and below it, as `new` says; it says none for a text that stays. Lists on the way are gone through.
fn rewrite(item: &mut Item, path: &[&str], new: &dyn Fn(&str) -> Option<String>) {
    match item {
        Item::Value(value) => rewrite_value(value, path, new),
        Item::Table(table) => rewrite_table(table, path, new),
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| rewrite_table(table, path, new)),
        Item::None => {}
    }
}

fn rewrite_table(table: &mut dyn TableLike, path: &[&str], new: &dyn Fn(&str) -> Option<String>) {
    match path.split_first() {
        Some((key, below)) => {
            if let Some(item) = table.get_mut(key) {
                rewrite(item, below, new);
            }
        }
        None => table.iter_mut().for_each(|(_, item)| rewrite(item, path, new)),
    }
}

fn rewrite_value(value: &mut Value, path: &[&str], new: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_value(item, path, new)),
        Value::InlineTable(table) => rewrite_table(table, path, new),
        Value::String(_) if path.is_empty() => rewrite_text(value, new),
        _ => {}
    }
}

fn rewrite_text(value: &mut Value, new: &dyn Fn(&str) -> Option<String>) {
    let old = value.as_str().unwrap_or_default();
    let Some(text) = new(old).filter(|text| text != old) else { return };
    // As it is written, with its quotation marks and lines, if that gives the same text.
    let bare = value.clone().decorated("", "").to_string();
    let written = new(&bare).and_then(|written| written.parse::<Value>().ok());
    match written.filter(|written| written.as_str() == Some(text.as_str())) {
        Some(mut written) => {
            *written.decor_mut() = value.decor().clone();
            *value = written;
        }
        None => put_text(value, &text),
    }
}

/// Gives a node another name, wherever it is named.
///
/// # Errors
/// If there is no new name, or it is taken.
pub(crate) fn rename(document: &mut DocumentMut, from: &str, to: &str) -> Answer<()> {
    if to.is_empty() {
        return Err(Refusal::bad("a node needs a name"));
    }
    if BOUND.iter().any(|own| list(document, own).into_iter().any(|entry| names(own, entry, to))) {
        return Err(Refusal::bad(format!("there is a node `{to}` already")));
    }
    let renaming = Renaming { before: document.clone(), from, to };
    if let Some(other) = renaming.newly_beside() {
        return Err(Refusal::bad(format!(
            "`{to}` is the machine of `{other}`: as a guest without `machine`, `{from}` would move into it; choose another name, or give `{from}` a `machine` \
             first"
        )));
    }
    for (path, naming) in NAMED {
        rewrite(document.as_item_mut(), path, &|text| renaming.of(naming, text));
    }
    Ok(())
}

/// Removes a node, and what cannot be without it.
pub(crate) fn remove_node(document: &mut DocumentMut, name: &str) {
    // Before its links go, which say what changes call by a name.
    let links = list(document, "link").into_iter().filter(|link| names("link", *link, name));
    let going: Vec<&str> = links.filter_map(|link| text(link, "name")).collect();
    let called = list(document, "change").into_iter().filter_map(|change| text(change, "link"));
    let is_gone = |called: &&str| match ends_called(document, called) {
        Some((first, second)) => first == name || second == name,
        None => going.contains(called),
    };
    let gone: BTreeSet<String> = called.filter(is_gone).map(str::to_owned).collect();
    remove(document, "change", |_, change| text(change, "link").is_some_and(|link| gone.contains(link)));
    for own in BOUND {
        remove(document, own, |_, entry| names(own, entry, name));
    }
}

#[cfg(test)]
mod tests {
    use crate::edit::tests::{TEXT, done};
    use crate::edit::{Change, change};

    /// A scenario with a node "@", whose variables end with "%", and others with names that look alike.
    const NAMING: &str = r#"until = ["@.get exits", "ab.0 exits", "get exits"] # all
expect = ["link[@>b].drops < 3", "link.b>@.drops<=3", "link[a-b>b].drops > 3"]
link = [{ between = ["@", "b"] }, { from = "ab", to = "@" }, { between = ["a-b", "b"] }]
change = [{ link = "@-b" }, { link = "b-@" }, { link = "@>b" }, { link = "a-b-b" }, { link = "a-b>b" }]
flow = [{ from = "ab", to = "b", multipath = { paths = [["@"], ["ab", "@"]] } }]

[[host]]
name = "@"
endpoint = "guest"

[[host.program]]
name = "get"
command = ["sh", "-c", "ping $WARPLINE_ADDR_% ${WARPLINE_ADDR6_%} $WARPLINE_ADDR_AB $MY_WARPLINE_ADDR_A"]

[[host]]
name = "ab"
endpoint = "guest"
machine = "@"
forwards = true
tc = ["dev @ root cake", "qdisc add dev  @ root fq", "dev ab root cake"]

[[host.program]]
after = ["@", "get", "@.get", "ab.get"]
command = "ping {@} {ab}"
"#;

    #[test]
    fn every_key_follows_the_node_that_it_names() {
        let text = |node: &str, variable: &str| NAMING.replace('@', node).replace('%', variable);
        let renamed = done(&text("a", "A"), serde_json::json!([{"do": "rename", "from": "a", "to": "x-1"}]));
        assert_eq!(renamed, text("x-1", "X_1"));
    }

    #[test]
    fn a_host_does_not_get_mixed_up_with_a_program_of_its_name() {
        let text = "until = \"a exits\"\n\n[[host]]\nname = \"a\"\n\n[[host.program]]\ncommand = \"x\"\n\n\
            [[host]]\nname = \"b\"\n\n[[host.program]]\nname = \"web\"\ncommand = \"y\"\n";
        let renamed = done(text, serde_json::json!([{"do": "rename", "from": "a", "to": "web"}]));
        let expected = text.replace("\"a exits\"", "\"web.0 exits\"").replace("\"a\"", "\"web\"");
        assert_eq!(renamed, expected);
        // What is called "a" now is a program of the other host.
        let text = text.replace("web", "a");
        let renamed = done(&text, serde_json::json!([{"do": "rename", "from": "a", "to": "c"}]));
        assert_eq!(renamed, text.replacen("name = \"a\"", "name = \"c\"", 1));
    }

    #[test]
    fn a_host_with_a_dot_is_not_a_program_of_another() {
        let text = "until = \"a.b exits\"\n\n[[host]]\nname = \"a\"\n\n[[host.program]]\ncommand = \"x\"\n\n\
            [[host]]\nname = \"a.b\"\n\n[[host.program]]\ncommand = \"y\"\n";
        let renamed = done(text, serde_json::json!([{"do": "rename", "from": "a", "to": "c"}]));
        assert_eq!(renamed, text.replacen("name = \"a\"", "name = \"c\"", 1));
    }

    #[test]
    fn programs_follow_the_nodes_whose_addresses_they_use() {
        let rename = serde_json::json!([{"do": "rename", "from": "server", "to": "web"}]);
        let text = "[[host]]\nname = \"client\"\n\n[[host.program]]\ncommand = [\"curl\", 'http://{server}:80/{server2}'] # once\nready = \"prints {server}\"\n\n\
            [host.program.environment]\nSIX = \"{server:6}\"\n\n[[host.program]]\ncommand = \"\"\"\nping {server} \\\n  && echo ${server}\"\"\"\n";
        let renamed = text.replace("{server}", "{web}").replace("{server:6}", "{web:6}");
        // A variable of the shell is no node.
        let renamed = renamed.replace("${web}", "${server}");
        assert_eq!(done(text, rename.clone()), renamed);
        let inline = "host = [{ name = \"client\", program = [{ command = \"ping {server}\", environment = { TO = \"{server}\" } }] }]\n";
        assert_eq!(done(inline, rename), inline.replace("{server}", "{web}"));
    }

    #[test]
    fn changes_follow_the_nodes_of_their_links() {
        let changes = "\n[[link]]\nname = \"a-fast\"\nbetween = [\"b\", \"c\"]\n\n[[change]]\nlink = \"a-b\" # both\n\n[[change]]\nlink = \"b>a\"\n\n[[change]]\nlink = \"a-fast\"\n";
        let text = format!("{TEXT}{changes}");
        let renamed = done(&text, serde_json::json!([{"do": "rename", "from": "a", "to": "x"}]));
        assert!(renamed.contains("link = \"x-b\" # both") && renamed.contains("link = \"b>x\""), "{renamed}");
        assert!(renamed.contains("link = \"a-fast\""), "{renamed}");
        let left = |node: &str| {
            let text = done(&text, serde_json::json!([{"do": "remove-node", "name": node}]));
            text.matches("[[change]]").count()
        };
        assert_eq!([left("a"), left("b"), left("c")], [1, 0, 2]);
    }

    #[test]
    fn a_guest_does_not_move_into_another_machine_by_its_name() {
        let text = "[[host]]\nname = \"a\"\nendpoint = \"guest\"\n\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\nmachine = \"m\"\n";
        let renamed = |from: &str| {
            let changes = serde_json::json!([{"do": "rename", "from": from, "to": "m"}]);
            change(text, &serde_json::from_value::<Vec<Change>>(changes).unwrap())
        };
        let message = renamed("a").unwrap_err().message;
        assert!(message.contains("`m` is the machine of `b`"), "{message}");
        // One that says its machine stays there.
        assert_eq!(renamed("b").unwrap(), text.replace("\"b\"", "\"m\""));
    }
}
