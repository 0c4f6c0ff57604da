//! Flows over several routes: how a scenario says which, and what has to hold then.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use warpline_core::parameter::Words as _;
use warpline_transport::multipath::{MOST_SUBFLOWS, Scheduler};

use super::application::App;
use super::checker::Check;
use super::document::entry;
use super::endpoint::Traffic;
use super::flow::{Flow, Transport};
use super::host::HostsByName;

/// A TCP flow over several paths at the same time, as Multipath TCP has it (RFC 8684).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multipath {
    /// A subflow for each entry: the nodes that it passes, in order, as for `via`. An empty entry is the best route, or by `routing` one of several
    /// as good. One to eight entries. The first subflow opens the connection; the others join when that is open.
    #[schemars(example = &json!([["wifi"], ["lte"]]))]
    pub paths: Vec<Vec<String>>,
    /// Which subflow carries the next piece of data. Default minrtt.
    #[serde(default)]
    #[schemars(example = &"roundrobin")]
    pub scheduler: Scheduling,
}

/// A [`Scheduler`], by its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling(pub Scheduler);

impl Serialize for Scheduling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de> Deserialize<'de> for Scheduling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = Scheduler::ALL.iter().find(|scheduler| scheduler.word() == word);
        found
            .map(|&found| Scheduling(found))
            .ok_or_else(|| de::Error::custom(format!("no scheduler `{word}`")))
    }
}

impl JsonSchema for Scheduling {
    fn schema_name() -> Cow<'static, str> {
        Scheduler::VOCABULARY.name.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = Scheduler::VOCABULARY.words.iter();
        let words: Vec<Value> = words
            .map(|word| json!({"type": "string", "const": word.name, "description": word.about}))
            .collect();
        json_schema!({"description": Scheduler::VOCABULARY.about, "oneOf": words})
    }
}

/// Checks the routes that flow `number` asks for, apart from whether there are such.
pub(super) fn check(check: &mut Check<'_>, number: usize, flow: &Flow) {
    let key = match (&flow.multipath, flow.via.is_empty()) {
        (Some(_), false) => {
            let message = "`via` and `multipath` both say which way the flow takes";
            let help = "leave `via` out: each entry of `multipath.paths` is what `via` is for one subflow";
            return check.error(&entry("flow", number, &["via"]), message, help);
        }
        (Some(_), true) => "multipath",
        (None, false) => "via",
        (None, true) => return,
    };
    let at = entry("flow", number, &[key]);
    if flow.app == App::Arrivals {
        let message =
            format!("`{key}` does not go with app = \"arrivals\", whose transfers have routes of their own");
        return check.error(&at, message, "say `routing = \"ecmp\"` or \"spray\", or use app = \"transfer\"");
    }
    if let Some(multipath) = &flow.multipath {
        subflows(check, number, flow, multipath);
    }
}

/// Checks that a flow with a way of its own is between simulated hosts. If not, returns the key that is wrong, with what to say and what to do.
pub(super) fn ends(
    hosts: &HostsByName<'_>,
    flow: &Flow,
    ends: [&str; 2],
) -> Result<(), (&'static str, String, &'static str)> {
    let key = match &flow.multipath {
        Some(_) => "multipath",
        None if flow.via.is_empty() => return Ok(()),
        None => "via",
    };
    match ends.into_iter().find(|end| hosts.traffic(end) != Traffic::Model) {
        Some(end) => Err((
            key,
            format!("`{key}` is for simulated hosts, and `{end}` runs real programs or a real stack"),
            "use endpoint = \"model\" for both ends: what others send takes the best route",
        )),
        None => Ok(()),
    }
}

/// What has to hold for subflows.
fn subflows(check: &mut Check<'_>, number: usize, flow: &Flow, multipath: &Multipath) {
    let at = entry("flow", number, &["multipath"]);
    if !matches!(flow.app, App::Bulk | App::Transfer) || flow.transport() != Transport::Tcp {
        let message = format!("`multipath` does not go with app = \"{}\"", flow.app.name());
        let help = "it carries app = \"bulk\" and app = \"transfer\", over TCP";
        check.error(&at, message, help);
    }
    if !(1..=MOST_SUBFLOWS).contains(&multipath.paths.len()) {
        let at = entry("flow", number, &["multipath", "paths"]);
        let message = format!("`paths` has {} entries", multipath.paths.len());
        check.error(&at, message, format!("one for each subflow, at most {MOST_SUBFLOWS}"));
    }
    if check.scenario.fast_forward {
        let message =
            "`fast_forward` cannot go with `multipath`, whose windows depend on each other for long";
        check.error(&at, message, "leave one of them out");
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    #[test]
    fn a_real_stack_in_a_group_takes_no_way_of_its_own() {
        let told = |host: &str, way: &str| {
            let text = format!(
                "duration = \"1s\"\n\
                 topology = {{ kind = \"dumbbell\", pairs = 2, bottleneck = {{ rate = \"1Mbit/s\" }} }}\n\
                 host = [{{ name = \"{host}\", endpoint = \"stack:smoltcp\" }}]\n\
                 flow = [{{ from = \"left\", to = \"right.0\", {way} }}]\n"
            );
            Scenario::from_toml("test.toml", &text, &[]).err().map(|errors| errors.to_string())
        };
        for (key, way) in [("via", "via = [\"r1\"]"), ("multipath", "multipath = { paths = [[], []] }")] {
            let error = told("left.0", way).unwrap_or_default();
            let message = format!("`{key}` is for simulated hosts, and `left.0` runs");
            assert!(error.contains(&message), "{error}");
            assert_eq!(told("left.0", "count = 1"), None);
            // No flow begins or ends at these.
            assert_eq!(told("left.1", way), None);
            assert_eq!(told("right.1", way), None);
        }
    }
}
