//! Search files: ranges over the keys of a scenario, and what to make as small or as large as can be. `warpline search` reads them.
//!
//! ```
//! use warpline_scenario::{Source, search::SearchFile};
//!
//! let text = r#"
//! scenario = "two.toml"
//! minimise = "total.jain"
//!
//! [vary]
//! "link[r1-r2].rate" = { from = "1Mbit/s", to = "100Mbit/s", scale = "log" }
//! "link[r1-r2].down" = { list = 2, of = { at = { from = "0s", to = "9s" }, for = "100ms" } }
//! "#;
//! let base = r#"
//! duration = "10s"
//! link = [{ between = ["r1", "r2"], rate = "5Mbit/s" }]
//! flow = [{ from = "r1", to = "r2", count = 2 }]
//! "#;
//! let base = Source::from_text("two.toml", base, "".as_ref());
//! let search = SearchFile::over("two.search.toml", text, &base)?;
//! let point = search.draw(&[0.5, 0.9, 0.1]);
//! assert_eq!(
//!     search.sets(&point),
//!     [
//!         "link[r1-r2].rate=\"10Mbit/s\"",
//!         "link[r1-r2].down=[{ at = \"900ms\", for = \"100ms\" }, { at = \"8.1s\", for = \"100ms\" }]",
//!     ]
//! );
//! # Ok::<(), warpline_scenario::Diagnostics>(())
//! ```

mod range;
mod template;

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Scenario;
use super::check::{check, toml_text};
use super::diagnostics::{Collector, Diagnostics, Sources};
use super::document::{Data, Entry, Node, Place, Step, Table, key};
use super::source::Source;
use super::syntax;
use template::{Drawn, Template};

/// A search file as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Search file")]
struct Written {
    /// The scenario, as a path relative to this file.
    #[schemars(example = &"two-flows.toml")]
    scenario: String,
    /// The measure to make as small as can be; this or `maximise`.
    #[schemars(example = &"flow.bulk.goodput")]
    minimise: Option<String>,
    /// The measure to make as large as can be.
    #[schemars(example = &"flow.web.completion_mean")]
    maximise: Option<String>,
    /// How many points are tried before the best is made small. Default 500.
    #[serde(default = "default_evaluations")]
    #[schemars(range(min = 1, max = 1_000_000))]
    evaluations: u32,
    /// How many points are tried together, before those after them are chosen. Default 20.
    #[serde(default = "default_population")]
    #[schemars(range(min = 4, max = 10_000))]
    population: u32,
    /// With how many seeds each point is run, beginning with the scenario's; their mean counts. Default 1.
    #[serde(default = "default_seeds")]
    #[schemars(range(min = 1, max = 1000))]
    seeds: u32,
    /// The seed of the search itself. Default 1.
    #[serde(default = "default_seed")]
    seed: u64,
    /// How much of the harm has to stay when the best point is made small: the share of the way from the scenario as it is to the best. Default 0.9.
    #[serde(default = "default_keep")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
    keep: f64,
    /// Keys of the scenario as `--set` names them, each with a range, choices or a list.
    #[schemars(with = "Map<String, Value>", example = &serde_json::json!({"link[r1-r2].delay": {"from": "1ms", "to": "200ms"}}))]
    #[expect(dead_code, reason = "read from the document, which has the places")]
    vary: Map<String, Value>,
    /// Keys with other values, with which each point is run once more: the measure is divided by what it is then.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    against: Map<String, Value>,
}

fn default_evaluations() -> u32 {
    500
}
fn default_population() -> u32 {
    20
}
fn default_seeds() -> u32 {
    1
}
fn default_seed() -> u64 {
    1
}
fn default_keep() -> f64 {
    0.9
}

/// A key of the scenario that is varied.
#[derive(Clone, Debug)]
struct Variable {
    key: String,
    template: Template,
}

/// A search: what is varied in a scenario, and to which end.
#[derive(Clone, Debug)]
pub struct SearchFile {
    /// The scenario.
    pub base: Source,
    /// The scenario as it is, checked.
    pub scenario: Scenario,
    /// The measure, as it is written.
    pub measure: String,
    /// Whether it is to be large.
    pub maximise: bool,
    /// How many points are tried.
    pub evaluations: u32,
    /// How many points are tried together.
    pub population: u32,
    /// With how many seeds each point is run.
    pub seeds: u32,
    /// The seed of the search itself.
    pub seed: u64,
    /// How much of the harm has to stay when the best point is made small.
    pub keep: f64,
    /// Changes, as `--set` writes them, with which each point is run once more; none if the measure is not divided by anything.
    pub against: Vec<String>,
    variables: Vec<Variable>,
    name: String,
    text: String,
    node: Node,
}

/// A point of the search: for each key that is varied its value, or none where the scenario's own stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Point(Vec<Option<Drawn>>);

/// Something of a point that can be left out by itself: a key, or an entry of the lists in its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    variable: usize,
    entry: Option<usize>,
}

/// Significant digits to which numbers are rounded when a point is made small, from the coarsest.
pub const COARSER: [usize; 3] = [1, 2, 3];
/// With so many draws a key is tried before the scenario is said to be wrong with it.
const ATTEMPTS: usize = 8;

impl SearchFile {
    /// Reads a search file and the scenario that it names.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once; or with the scenario.
    pub fn load(path: &Path) -> Result<SearchFile, Diagnostics> {
        let text = Source::read(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::parse(text.name(), text.text(), &|scenario| Source::read(&directory.join(scenario)))
    }

    /// Reads a search over a scenario that is given. The path that the search has for it is passed over. `name` is the search's name in errors.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn over(name: &str, text: &str, base: &Source) -> Result<SearchFile, Diagnostics> {
        Self::parse(name, text, &|_| Ok(base.clone()))
    }

    fn parse(
        name: &str,
        text: &str,
        base: &dyn Fn(&str) -> Result<Source, Diagnostics>,
    ) -> Result<SearchFile, Diagnostics> {
        let sources = Sources { name, text, sets: &[] };
        let mut errors = Collector::default();
        let (node, wrong) = Node::from_toml(text);
        syntax::explain(text, wrong, &mut errors);
        if !errors.is_empty() {
            return Err(errors.finish(&sources));
        }
        let schema =
            SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Written>().to_value();
        // What is varied is no part of the schema: its keys are the scenario's.
        let mut plain = node.clone();
        for free in ["vary", "against"] {
            if let Data::Table(table) = &mut plain.data
                && let Some(Node { data: Data::Table(keys), .. }) = table.value_mut(free)
            {
                *keys = Table::default();
            }
        }
        check(&schema, &plain, &mut errors);
        let variables = variables(&node, &mut errors);
        let measures = ["minimise", "maximise"].map(|name| node.at(&[key(name)]).is_some());
        if measures == [false, false] || measures == [true, true] {
            let help = vec!["for example minimise = \"flow.bulk.goodput\"".to_owned()];
            errors.about(&node, &[], "a search has one of `minimise` and `maximise`", help);
        }
        if !errors.is_empty() {
            return Err(errors.finish(&sources));
        }
        let written: Written = match serde_json::from_value(node.to_json()) {
            Ok(written) => written,
            Err(error) => {
                errors.about(&node, &[], error.to_string(), Vec::new());
                return Err(errors.finish(&sources));
            }
        };
        let base = base(&written.scenario)?;
        let scenario = base.load(&[])?;
        let against =
            written.against.iter().map(|(key, value)| format!("{key}={}", toml_text(value))).collect();
        let search = SearchFile {
            base,
            scenario,
            maximise: written.maximise.is_some(),
            measure: written.maximise.or(written.minimise).unwrap_or_default(),
            evaluations: written.evaluations,
            population: written.population,
            seeds: written.seeds,
            seed: written.seed,
            keep: written.keep,
            against,
            variables,
            name: name.to_owned(),
            text: text.to_owned(),
            node,
        };
        search.try_keys(&mut errors);
        if errors.is_empty() { Ok(search) } else { Err(errors.finish(&sources)) }
    }

    /// Notes keys with which the scenario is wrong, whatever is drawn for them.
    fn try_keys(&self, errors: &mut Collector) {
        let mut note = |table: &str, name: &str, wrong: Diagnostics| {
            let Some(first) = wrong.errors.into_iter().next() else { return };
            let entry = self.node.at(&[key(table)]).and_then(Node::table).and_then(|keys| keys.find(name));
            let place = entry.map_or(Place::Unknown, |entry| entry.place.clone());
            let tried = first.location.map(|location| format!("tried: {}", location.text));
            let help = first.help.into_iter().chain(tried).collect();
            errors.add(&place, &[key(table), key(name)], first.message, help);
        };
        for (index, variable) in self.variables.iter().enumerate() {
            let attempt = |attempt: usize| {
                // Numbers between 0 and 1, spread by the golden ratio.
                let share = |n: usize| (n as f64 * 0.618_033_988_75).fract();
                let mut shares = (0..).map(|n| share(n + 1 + attempt * 7));
                let mut point = self.unchanged();
                point.0[index] = Some(variable.template.draw(&mut shares));
                self.base.load(&self.sets(&point)).err()
            };
            let wrong: Option<Vec<Diagnostics>> = (0..ATTEMPTS).map(attempt).collect();
            if let Some(wrong) = wrong.and_then(|all| all.into_iter().next()) {
                note("vary", &variable.key, wrong);
            }
        }
        for set in &self.against {
            if let Err(wrong) = self.base.load(std::slice::from_ref(set)) {
                let name = self.node.at(&[key("against")]).and_then(Node::table).and_then(|keys| {
                    keys.0
                        .iter()
                        .map(|entry| entry.key.as_str())
                        .find(|key| set.starts_with(&format!("{key}=")))
                });
                note("against", name.unwrap_or_default(), wrong);
            }
        }
    }

    /// An error about the measure, at its place in the file.
    pub fn wrong_measure(&self, message: &str, help: Vec<String>) -> Diagnostics {
        let mut errors = Collector::default();
        let path = [key(if self.maximise { "maximise" } else { "minimise" })];
        errors.about(&self.node, &path, message, help);
        errors.finish(&Sources { name: &self.name, text: &self.text, sets: &[] })
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The keys that are varied.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.key.as_str())
    }

    /// How many numbers between 0 and 1 make a point.
    pub fn dimensions(&self) -> usize {
        self.variables.iter().map(|variable| variable.template.dimensions()).sum()
    }

    /// The scenario as it is.
    pub fn unchanged(&self) -> Point {
        Point(vec![None; self.variables.len()])
    }

    /// The point of these numbers between 0 and 1.
    pub fn draw(&self, shares: &[f64]) -> Point {
        let mut shares = shares.iter().copied();
        Point(self.variables.iter().map(|variable| Some(variable.template.draw(&mut shares))).collect())
    }

    /// The value of each key that is varied, as TOML; none where the scenario's own stays.
    pub fn values(&self, point: &Point) -> Vec<Option<String>> {
        point.0.iter().map(|drawn| drawn.as_ref().map(|drawn| toml_text(&drawn.value()))).collect()
    }

    /// The changes of a point, as `--set` writes them.
    pub fn sets(&self, point: &Point) -> Vec<String> {
        self.sets_of(&self.values(point))
    }

    fn sets_of(&self, values: &[Option<String>]) -> Vec<String> {
        let set =
            |(key, value): (&str, &Option<String>)| value.as_ref().map(|value| format!("{key}={value}"));
        self.keys().zip(values).filter_map(set).collect()
    }

    /// The scenario at a point, with the changes of `against` if `against`.
    ///
    /// # Errors
    /// What is wrong with it there.
    pub fn at(&self, point: &Point, against: bool) -> Result<Scenario, Diagnostics> {
        self.with(&self.values(point), against)
    }

    /// The scenario with these values of the keys that are varied, in the form of [`values`](Self::values), and with the changes of `against` if
    /// `against`.
    ///
    /// # Errors
    /// What is wrong with it there.
    pub fn with(&self, values: &[Option<String>], against: bool) -> Result<Scenario, Diagnostics> {
        let mut sets = self.sets_of(values);
        if against {
            sets.extend(self.against.iter().cloned());
        }
        self.base.load(&sets)
    }
}

impl Point {
    /// What of it can be left out.
    pub fn parts(&self) -> Vec<Part> {
        let part = |(variable, drawn): (usize, &Option<Drawn>)| -> Vec<Part> {
            match drawn.as_ref().map(Drawn::entries) {
                None => Vec::new(),
                Some(0) => vec![Part { variable, entry: None }],
                Some(count) => (0..count).map(|entry| Part { variable, entry: Some(entry) }).collect(),
            }
        };
        self.0.iter().enumerate().flat_map(part).collect()
    }

    /// The same with these of its parts only. A key of whose lists nothing stays is the scenario's own.
    pub fn with(&self, parts: &[Part]) -> Point {
        let keep = |(variable, drawn): (usize, &Option<Drawn>)| {
            let own = |entry| parts.contains(&Part { variable, entry });
            let any = parts.iter().any(|part| part.variable == variable);
            drawn.as_ref().filter(|_| any).map(|drawn| drawn.with_entries(&|entry| own(Some(entry)), &mut 0))
        };
        Point(self.0.iter().enumerate().map(keep).collect())
    }

    /// How many numbers it has.
    pub fn numbers(&self) -> usize {
        self.0.iter().flatten().map(Drawn::numbers).sum()
    }

    /// The same with number `place` rounded to so many significant digits.
    pub fn rounded(&self, place: usize, digits: usize) -> Point {
        let mut point = self.clone();
        let mut place = Some(place);
        point.0.iter_mut().flatten().for_each(|drawn| drawn.round(&mut place, digits));
        point
    }
}

/// The keys under `vary`, each with its ranges.
fn variables(node: &Node, errors: &mut Collector) -> Vec<Variable> {
    let vary = node.at(&[key("vary")]).and_then(Node::table);
    let Some(table) = vary else { return Vec::new() };
    if table.0.is_empty() {
        let help = vec!["for example \"link[r1-r2].delay\" = { from = \"1ms\", to = \"200ms\" }".to_owned()];
        errors.about(node, &[key("vary")], "nothing is varied", help);
    }
    let variable = |entry: &Entry| {
        let path: Vec<Step> = vec![key("vary"), key(&entry.key)];
        let before = errors.paths().len();
        let template = Template::read(&entry.value, &path, errors);
        if template.dimensions() == 0 && errors.paths().len() == before {
            let message = format!("`{}` has no range in it", entry.key);
            let help = vec![
                "a range is { from = \"1ms\", to = \"1s\" }, perhaps with scale = \"log\"; others are { choices = [1, 2] } and { list = 3, of = { from = 1, to = 9 } }".to_owned(),
                "a path stands in quotes, \"link[r1-r2].rate\": without them, TOML has a table for each step".to_owned(),
            ];
            errors.add(&entry.place, &path, message, help);
        }
        Variable { key: entry.key.clone(), template }
    };
    table.0.iter().map(variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "duration = \"10s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n[[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";

    fn search(vary: &str) -> Result<SearchFile, String> {
        let base = Source::from_text("base.toml", BASE, Path::new(""));
        let text = format!("scenario = \"base.toml\"\nminimise = \"total.jain\"\n[vary]\n{vary}\n");
        SearchFile::over("test.search.toml", &text, &base).map_err(|errors| errors.to_string())
    }

    #[test]
    fn what_is_drawn_is_written_as_changes() {
        let search = search(
            r#"
            "link[a-b].rate" = { from = "1Mbit/s", to = "100Mbit/s", scale = "log" }
            "flow.bulk.cc" = { choices = ["reno", "cubic"] }
            "link[a-b].loss" = { kind = "list", packets = { list = 2, of = { from = 1, to = 100 } } }
            "#,
        )
        .unwrap();
        assert_eq!(search.dimensions(), 4);
        let point = search.draw(&[0.5, 0.99, 0.0, 0.5]);
        assert_eq!(
            search.sets(&point),
            [
                r#"link[a-b].rate="10Mbit/s""#,
                r#"flow.bulk.cc="cubic""#,
                r#"link[a-b].loss={ kind = "list", packets = [1, 51] }"#
            ]
        );
        assert!(search.at(&point, false).is_ok());
        // Parts: two keys, and each lost packet.
        let parts = point.parts();
        assert_eq!(parts.len(), 4);
        let second = point.with(&parts[3..]);
        assert_eq!(search.sets(&second), [r#"link[a-b].loss={ kind = "list", packets = [51] }"#]);
        assert_eq!(search.sets(&point.with(&parts[..1])), [r#"link[a-b].rate="10Mbit/s""#]);
        assert_eq!(point.with(&parts), point);
        assert_eq!(point.with(&[]), search.unchanged());
        assert_eq!(point.numbers(), 3);
        let rounded = point.rounded(2, 1);
        assert_eq!(search.sets(&rounded)[2], r#"link[a-b].loss={ kind = "list", packets = [1, 50] }"#);
    }

    #[test]
    fn a_key_with_dots_stays_one_key() {
        let text = format!("{BASE}[[host]]\nname = \"a\"\nendpoint = \"guest\"\n");
        let base = Source::from_text("base.toml", &text, Path::new(""));
        let text = r#"
            scenario = "base.toml"
            minimise = "total.jain"
            [vary]
            "host[a].sysctl" = { "net.ipv4.tcp_sack" = { choices = ["0", "1"] } }
        "#;
        let search =
            SearchFile::over("test.search.toml", text, &base).unwrap_or_else(|errors| panic!("{errors}"));
        let point = search.draw(&[0.9]);
        assert_eq!(search.sets(&point), [r#"host[a].sysctl={ "net.ipv4.tcp_sack" = "1" }"#]);
        let scenario = search.at(&point, false).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(scenario.to_json()["host"][0]["sysctl"]["net.ipv4.tcp_sack"], "1");
    }

    #[test]
    fn entries_that_say_when_are_in_order() {
        let outage =
            r#""link[a-b].down" = { list = 2, of = { at = { from = "0s", to = "8s" }, for = "1s" } }"#;
        let search = search(outage).unwrap();
        let point = search.draw(&[0.75, 0.25]);
        let wanted = r#"link[a-b].down=[{ at = "2s", for = "1s" }, { at = "6s", for = "1s" }]"#;
        assert_eq!(search.sets(&point), [wanted]);
    }
}
